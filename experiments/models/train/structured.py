# SPDX-License-Identifier: Apache-2.0
"""A start that already holds look-up circuits, so that a short training can refine them.

Layer 0 heads attend to fixed offsets (previous, next, ... token) and write a code of that token
into the residual stream. Heads of layers 1 to 3 compare those codes, so that a masked position
finds places with the same neighbours and copies the token that stands there. The language model
head starts as a scaled copy of the embedding, which turns a copied embedding into logits.
Everything is trained afterwards; only the starting point is set here.
"""
import torch


@torch.no_grad()
def structured_init(model, mask_id, seed=5):
    """Residual stream: one constant direction, a token subspace, a subspace of neighbour codes."""
    cfg = model.cfg
    gen = torch.Generator().manual_seed(seed)
    d, hd, half = cfg.dim, cfg.head_dim, cfg.head_dim // 2
    group = cfg.heads // cfg.kv_heads
    basis = torch.linalg.qr(torch.randn(d, d, generator=gen))[0].T.contiguous()
    u, token, rest = basis[0], basis[1:d // 2], basis[d // 2:]
    e = torch.randn(cfg.vocab, len(token), generator=gen)
    e = (e / e.norm(dim=-1, keepdim=True) * len(token) ** 0.5) @ token
    model.embed.weight.copy_(e + 6.0 * u)
    model.head.weight.copy_(0.12 * e)
    model.head.weight[mask_id] = 0
    mask_dir = e[mask_id] / e[mask_id].norm()
    inv = cfg.theta ** (-torch.arange(half) * 2 / hd)
    peak = torch.zeros(half)
    peak[:6] = 1.0
    # rotary pairs that turn slowly enough to compare contents; the slowest one is kept apart
    slow = [f for f in range(half - 1) if inv[f] < 0.01]
    dims = slow + [f + half for f in slow]
    width = len(dims)
    offsets = [1, -1, 2, -2, 3][:len(rest) // width]
    codes = [rest[i * width:(i + 1) * width] for i in range(len(offsets))]

    def rotated(off):
        # rotate-half: (a, b) at position p becomes (a cos - b sin, b cos + a sin)
        return torch.cat([peak * (off * inv).cos(), -peak * (off * inv).sin()])

    def project(rows):
        return torch.linalg.qr(torch.randn(len(token), rows, generator=gen))[0].T @ token

    for layer in model.layers:
        layer.down.weight.mul_(0.3)
        layer.wo.weight.mul_(0.5)
    first = model.layers[0]
    for g in range(cfg.kv_heads):
        if g * group < len(offsets):
            first.wk.weight[g * hd:(g + 1) * hd] = 1.5 * rotated(0)[:, None] * u[None]
            v = torch.zeros(hd, d)
            v[:width] = 1.4 * project(width)
            first.wv.weight[g * hd:(g + 1) * hd] = v
    for h, off in enumerate(offsets):
        first.wq.weight[h * hd:(h + 1) * hd] = 1.5 * rotated(off)[:, None] * u[None]
        o = torch.zeros(d, hd)
        o[:, :width] = codes[h].T
        first.wo.weight[:, h * hd:(h + 1) * hd] = o
    if cfg.qk_norm:
        first.q_norm.fill_(3.0)
        first.k_norm.fill_(3.0)
    for i in (1, 2, 3):
        layer = model.layers[i]
        if cfg.qk_norm:
            layer.q_norm.fill_(2.0)
            layer.k_norm.fill_(2.0)
        for slot in range(2 if i > 1 else 3):
            h = slot * group
            q, k = torch.zeros(hd, d), torch.zeros(hd, d)
            q[dims] = k[dims] = 3.0 * codes[slot]
            # the slowest pair: masked places and only they are pushed away
            q[half - 1] = 6.0 * u
            k[half - 1] = -4.0 * mask_dir
            layer.wq.weight[h * hd:(h + 1) * hd] = q
            layer.wk.weight[slot * hd:(slot + 1) * hd] = k
            copy = project(hd)
            layer.wv.weight[slot * hd:(slot + 1) * hd] = copy
            layer.wo.weight[:, h * hd:(h + 1) * hd] = copy.T
