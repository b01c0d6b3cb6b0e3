# SPDX-License-Identifier: Apache-2.0
"""Turns SDAR or AR weights into a starting point for the LLaDA architecture.

The LLaDA layers have no QK norm and no grouped heads. The norm is replaced by its average factor,
measured on a batch and folded into the projections; key and value heads are repeated.

python convert.py --checkpoint RUN/sdar/last.pt --tokenizer TOK --out RUN/llada_init.pt
"""
import argparse
import os

import torch

import model as net
from data import Batcher
from tokenizer import Codec


def average_factors(source, ids, mask):
    """Mean of 1 / rms per head, in call order (q then k of every layer)."""
    found, plain = [], net.rms

    def spy(x, weight, eps):
        if x.dim() == 4:
            found.append(torch.rsqrt(x.pow(2).mean(-1) + eps).mean((0, 2)))
        return plain(x, weight, eps)

    net.rms = spy
    try:
        source.hidden(ids, mask)
    finally:
        net.rms = plain
    return found


@torch.no_grad()
def convert(state, kind, codec):
    source = net.Model(net.make_config(kind))
    source.load_state_dict(state)
    ids, _, _ = Batcher(kind, codec, 777, set(), 6144).batch(0.3)
    mask = net.block_causal_mask(ids.shape[1], 32) if kind == "sdar" else None
    factors = average_factors(source, ids, mask)
    target = net.Model(net.make_config("llada"))
    c = target.cfg
    out = target.state_dict()
    for key in out:
        if key in state and state[key].shape == out[key].shape:
            out[key] = state[key].clone()
    kv = source.cfg.kv_heads
    group = c.heads // kv
    for i in range(c.layers):
        p = f"layers.{i}."
        for name, norm, heads, factor in (("wq", "q_norm", c.heads, factors[2 * i]),
                                          ("wk", "k_norm", kv, factors[2 * i + 1])):
            w = state[p + name + ".weight"].view(heads, c.head_dim, c.dim)
            w = w * factor[:, None, None] * state[p + norm][None, :, None]
            w = w if heads == c.heads else w.repeat_interleave(group, 0)
            out[p + name + ".weight"] = w.reshape(-1, c.dim).clone()
        v = state[p + "wv.weight"].view(kv, c.head_dim, c.dim).repeat_interleave(group, 0)
        out[p + "wv.weight"] = v.reshape(-1, c.dim).clone()
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--checkpoint", required=True)
    ap.add_argument("--tokenizer", required=True)
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    s = torch.load(a.checkpoint)
    codec = Codec(os.path.join(a.tokenizer, "qwen.json"), s["kind"])
    torch.save({"model": convert(s["model"], s["kind"], codec), "kind": "llada"}, a.out)


if __name__ == "__main__":
    main()
