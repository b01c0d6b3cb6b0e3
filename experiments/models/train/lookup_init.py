# SPDX-License-Identifier: Apache-2.0
"""Start weights that already hold an in-context look-up circuit.

A tiny model needs tens of millions of tokens before look-up (find the place where the same words
stood before, copy what followed) appears by itself; a few core hours do not give it so many. So it
is laid into the start weights and training only has to refine it. No data is involved.

Residual stream: dims [0, 95) token code, 95 a constant, 96 + 32 n .. the code of the token n + 1
places back (n = 0, 1, 2).
Layer 0: three heads attend by RoPE phase alone to the place 1, 2 or 3 back and write its code.
Layer 1: heads compare the code 1, 2 or 3 back of the query with that of every key, using only the
slowly rotating pairs, and copy the token code of the match to the output.
A causal model predicts the next token, so its queries compare one place later: token itself, 1, 2.
A masked position would match itself best; one slot of the keys makes mask tokens repellent.

python lookup_init.py --kind ar --out RUN/ar_init.pt
"""
import argparse

import torch

from model import Model, make_config
from tokenizer import MASK

TOKEN, CONST, BACK, CODE = slice(0, 95), 95, 96, 32


def orthonormal(rows, cols, gen):
    q, _ = torch.linalg.qr(torch.randn(max(rows, cols), min(rows, cols), generator=gen))
    return q if rows >= cols else q.T


@torch.no_grad()
def lay_lookup(model, seed=11):
    cfg = model.cfg
    gen = torch.Generator().manual_seed(seed)
    half, heads, group = cfg.head_dim // 2, cfg.heads, cfg.heads // cfg.kv_heads
    freq = cfg.theta ** (-torch.arange(half, dtype=torch.float32) * 2 / cfg.head_dim)
    model.embed.weight.zero_()
    model.embed.weight[:, TOKEN] = 0.25 * torch.randn(cfg.vocab, 95, generator=gen)
    model.embed.weight[:, CONST] = 1.0
    model.head.weight.zero_()
    model.head.weight[:, TOKEN] = model.embed.weight[:, TOKEN]
    for layer in model.layers:
        layer.down.weight.zero_()
        layer.wo.weight.zero_()
    code = orthonormal(CODE, 95, gen)          # token code -> 32 dims, the same for every distance
    slow = [i for i in range(half) if freq[i] < 4e-3]
    slots = slow + [i + half for i in slow]
    repel = slots.pop()
    mask_code = model.embed.weight[MASK, TOKEN] / model.embed.weight[MASK, TOKEN].norm()
    match = torch.zeros(cfg.head_dim, CODE)
    match[slots] = orthonormal(len(slots), CODE, gen)

    def gain(layer, value):
        if cfg.qk_norm:
            layer.q_norm.fill_(value)
            layer.k_norm.fill_(value)

    # Without the norm of queries and keys their length is set here: 2 sqrt(head_dim) each.
    length = 2.0 * cfg.head_dim ** 0.5
    first, second = model.layers[0], model.layers[1]
    gain(first, 2.0)
    gain(second, 2.0)
    phase = torch.zeros(half)
    phase[:3] = torch.tensor([0.5, 0.3, 0.2]).sqrt()
    per = heads // 3
    for n in range(3):
        h, kv = n * per, n * per // group
        dims = slice(h * cfg.head_dim, (h + 1) * cfg.head_dim)
        kdims = slice(kv * cfg.head_dim, (kv + 1) * cfg.head_dim)
        back = slice(BACK + CODE * n, BACK + CODE * (n + 1))
        scale = 1.0 if cfg.qk_norm else length / 5.2   # 5.2: the constant after the RMS norm
        turn = -freq * (n + 1)
        first.wq.weight[dims] = 0
        first.wq.weight[dims, CONST] = scale * torch.cat([phase * turn.cos(), phase * turn.sin()])
        first.wk.weight[kdims] = 0
        first.wk.weight[kdims, CONST] = scale * torch.cat([phase, 0 * phase])
        first.wv.weight[kdims] = 0
        first.wv.weight[kdims, TOKEN] = code
        first.wo.weight[back, dims] = 0.2 * torch.eye(CODE)
        # A normalised code has rms about 1, so its projection to the slots has this length:
        scale = 1.0 if cfg.qk_norm else length / len(slots) ** 0.5
        copy = orthonormal(CODE, 95, gen)
        for twin in range(per):
            dims = slice((h + twin) * cfg.head_dim, (h + twin + 1) * cfg.head_dim)
            kv = (h + twin) // group
            kdims = slice(kv * cfg.head_dim, (kv + 1) * cfg.head_dim)
            second.wk.weight[kdims] = 0
            second.wk.weight[kdims, back] = scale * match
            second.wk.weight[kdims.start + repel, TOKEN] = -scale * mask_code
            second.wv.weight[kdims] = 0
            second.wv.weight[kdims, TOKEN] = copy
            second.wq.weight[dims] = 0
            if cfg.kind != "ar":
                second.wq.weight[dims, back] = scale * match
            elif n == 0:
                second.wq.weight[dims, TOKEN] = scale * match @ code
            else:
                before = slice(back.start - CODE, back.start)
                second.wq.weight[dims, before] = scale * match
            second.wq.weight[dims.start + repel, CONST] = 0.5 * scale
            second.wo.weight[TOKEN, dims] = 0.5 / per * copy.T
    return model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--kind", choices=["llada", "sdar", "ar"], required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    model = lay_lookup(Model(make_config(a.kind)))
    torch.save({"model": model.state_dict(), "kind": a.kind, "tokens": 0}, a.out)


if __name__ == "__main__":
    main()
