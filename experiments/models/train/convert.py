# SPDX-License-Identifier: Apache-2.0
"""Turns AR weights into a starting point for SDAR, SDAR weights into one for LLaDA, a LLaDA model into
a Dream model or into a starting point for Fast-dLLM v2 (fdv2), and a trained one of those into its form.

AR to SDAR: same shapes. The look-up heads of layer 1 (lookup_init.py) compare one place later in a
causal model; a masked position is compared exactly as a key is, so their queries become their keys,
all but the slot that repels mask tokens.

LLaDA to Dream: a Dream model's row p predicts token p + 1. One more layer brings every row what the row
behind it has: its queries and keys are biases alone, turned by the rotary embedding so that a row
attends to the next one only, its values are the row itself, and its output is so large that the
sum with the own row is the other row. Trained from AR weights Dream models stayed poor here.

To fdv2: the same weights and biases of zero. --to shifted adds the layer of LLaDA to Dream behind the training.
Attention is block-causal, so that the last row of a block has no row behind it: it attends to itself and
keeps its own state, which training made predict the token behind the block.

To LLaDA: the LLaDA layers have no QK norm and no grouped heads. The norm is replaced by its average factor,
measured on a batch and folded into the projections; key and value heads are repeated.

python convert.py --checkpoint RUN/ar/last.pt   --tokenizer TOK --to sdar  --out RUN/sdar_init.pt
python convert.py --checkpoint RUN/sdar/last.pt --tokenizer TOK --to llada --out RUN/llada_init.pt
python convert.py --checkpoint ../tiny-llada    --tokenizer TOK --to fdv2  --out RUN/fdv2_init.pt
python convert.py --checkpoint RUN/fdv2/last.pt --tokenizer TOK --to shifted --out RUN/fdv2.pt
"""
import argparse
import os

import torch

import model as net
from data import Batcher
from export import load_exported
from tokenizer import Codec


def average_factors(source, ids, mask, position):
    """Mean of 1 / rms per head, in call order (q then k of every layer)."""
    found, plain = [], net.rms

    def spy(x, weight, eps):
        if x.dim() == 4:
            found.append(torch.rsqrt(x.pow(2).mean(-1) + eps).mean((0, 2)))
        return plain(x, weight, eps)

    net.rms = spy
    try:
        source.hidden(ids, mask, position)
    finally:
        net.rms = plain
    return found


@torch.no_grad()
def without_norms(state, kind, codec):
    source = net.Model(net.make_config(kind))
    source.load_state_dict(state)
    ids, keys, _ = Batcher(kind, codec, 777, set(), 6144).batch(0.3)
    mask, position = None, None
    if kind == "sdar":
        position, block, segment = keys
        mask = net.copies_mask(block, segment)
    factors = average_factors(source, ids, mask, position)
    target = net.Model(net.make_config("llada"))
    c = target.cfg
    out = target.state_dict()
    for key in out:
        if key in state and state[key].shape == out[key].shape:
            out[key] = state[key].clone()
    kv = source.cfg.kv_heads
    group = c.kv_heads // kv
    for i in range(c.layers):
        p = f"layers.{i}."
        for name, norm, heads, factor in (("wq", "q_norm", c.heads, factors[2 * i]),
                                          ("wk", "k_norm", kv, factors[2 * i + 1])):
            w = state[p + name + ".weight"].view(heads, c.head_dim, c.dim)
            w = w * factor[:, None, None] * state[p + norm][None, :, None]
            w = w if name == "wq" else w.repeat_interleave(group, 0)
            out[p + name + ".weight"] = w.reshape(-1, c.dim).clone()
        v = state[p + "wv.weight"].view(kv, c.head_dim, c.dim).repeat_interleave(group, 0)
        out[p + "wv.weight"] = v.reshape(-1, c.dim).clone()
    return out


@torch.no_grad()
def to_sdar(state):
    c = net.make_config("sdar")
    out = {k: v.clone() for k, v in state.items()}
    q, k = out["layers.1.wq.weight"], out["layers.1.wk.weight"]
    repel = c.head_dim - 1
    for h in range(c.heads):
        to = slice(h * c.head_dim, (h + 1) * c.head_dim)
        kv = h // (c.heads // c.kv_heads)
        kept = q[to][repel].clone()
        q[to] = k[kv * c.head_dim:(kv + 1) * c.head_dim]
        q[to.start + repel] = kept
    out["layers.1.q_norm"] = out["layers.1.k_norm"].clone()
    return out


def with_biases(state):
    """State of an fdv2 model from that of a LLaDA model: biases of zero."""
    out = net.Model(net.make_config("fdv2")).state_dict()
    return {key: state.get(key, torch.zeros_like(value)) for key, value in out.items()}


# Of the attention to the next row. At a distance d from it a logit falls by SHARPNESS (1 - cos(d a)) of each
# frequency a; the highest alone gives 18 for its neighbours.
SHARPNESS = 40.0
# Of the next row's state beside the own: with 3000, in bfloat16, the arg-maxes of 99.6 % of 699 rows of random
# tokens are tiny-llada's; with 300 those of 92 %.
LOUDNESS = 3000.0


@torch.no_grad()
def shifted(state, layers, kind):
    """Checkpoint of a model whose row p - 1 predicts what row p of `state` does, but for the last row of a
    block (fdv2)."""
    c = net.make_config(kind, layers + 1, kv_heads=6)
    out = net.Model(c).state_dict()
    for key in out:
        out[key] = state[key].clone() if key in state else torch.zeros_like(out[key])
    last = f"layers.{layers}."
    half = c.head_dim // 2
    angle = c.theta ** (-torch.arange(half, dtype=torch.float32) / half)
    size = (SHARPNESS * c.head_dim ** 0.5) ** 0.5
    query = size * torch.cat([angle.cos(), angle.sin()])
    key = size * torch.cat([torch.ones(half), torch.zeros(half)])
    out[last + "wq.bias"], out[last + "wk.bias"] = query.repeat(c.heads), key.repeat(c.kv_heads)
    out[last + "wv.weight"], out[last + "wo.weight"] = torch.eye(c.dim), LOUDNESS * torch.eye(c.dim)
    for norm in ("attn_norm", "ff_norm"):
        out[last + norm] = torch.ones(c.dim)
    return {"model": out, "kind": kind, "layers": c.layers, "kv_heads": c.kv_heads,
            "text": "llada" if kind == "dream" else "qwen", "tokens": 0}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--checkpoint", required=True, help="checkpoint or exported folder")
    ap.add_argument("--tokenizer", required=True)
    ap.add_argument("--to", choices=["sdar", "llada", "dream", "fdv2", "shifted"], default="llada")
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    if os.path.isdir(a.checkpoint):
        source = load_exported(a.checkpoint)
        s = {"model": source.state_dict(), "kind": source.cfg.kind}
    else:
        s = torch.load(a.checkpoint)
    if a.to in ("dream", "shifted"):
        torch.save(shifted(s["model"], s.get("layers", 5), "dream" if a.to == "dream" else "fdv2"), a.out)
        return
    if a.to == "fdv2":
        torch.save({"model": with_biases(s["model"]), "kind": "fdv2", "tokens": s.get("tokens", 0)}, a.out)
        return
    codec = Codec(os.path.join(a.tokenizer, "qwen.json"), s["kind"])
    model = to_sdar(s["model"]) if a.to == "sdar" else without_norms(s["model"], s["kind"], codec)
    torch.save({"model": model, "kind": a.to, "tokens": s.get("tokens", 0)}, a.out)


if __name__ == "__main__":
    main()
