# SPDX-License-Identifier: Apache-2.0
"""One small transformer that covers the exported architectures.

llada : bidirectional attention, no QK norm, rms eps 1e-5.
sdar  : block-causal attention (blocks aligned to position 0), QK norm, GQA, rms eps 1e-6.
ar    : causal attention, otherwise identical to sdar.
dream : bidirectional attention, GQA, biases of queries, keys and values, no QK norm, rms eps 1e-6;
        row p predicts token p + 1, as in the causal model that it is adapted from.
fdv2  : block-causal attention, biases of queries, keys and values, no QK norm, rms eps 1e-6 (Fast-dLLM v2). In
        training a masked token is read from its own row and the token behind a clean block from that
        block's last row; convert.py --to shifted then makes every row p predict token p + 1.
llada2 : sdar with a mixture of experts in the place of every feed-forward but the first (LLaDA2.0).
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    kind: str = "llada"
    vocab: int = 1024
    dim: int = 192
    layers: int = 5
    heads: int = 6
    kv_heads: int = 6
    head_dim: int = 32
    ff: int = 448
    theta: float = 500000.0
    eps: float = 1e-5
    qk_norm: bool = False
    qkv_bias: bool = False
    block: int = 32
    max_len: int = 4096
    # Of llada2: `chosen` of `experts` per token, out of the `groups_kept` best of `groups` groups; each
    # is `expert_ff` wide. Beside them every token passes one feed-forward of `shared_ff`.
    experts: int = 0
    chosen: int = 4
    groups: int = 4
    groups_kept: int = 2
    expert_ff: int = 48
    shared_ff: int = 192
    scaling: float = 2.5

    @property
    def in_blocks(self):
        """Attention is block-causal."""
        return self.kind in ("sdar", "fdv2", "llada2")


def make_config(kind, layers=5, block=32, kv_heads=None):
    if kind == "llada":
        return Config(kind=kind, layers=layers)
    biased = kind in ("dream", "fdv2")
    return Config(kind=kind, layers=layers, kv_heads=kv_heads or (6 if kind == "fdv2" else 3), qk_norm=not biased,
                  qkv_bias=biased, eps=1e-6, block=block, experts=16 if kind == "llada2" else 0)


def config_of(state):
    """Configuration of a checkpoint; those written before a number varied do not name it."""
    return make_config(state["kind"], state.get("layers", 5), state.get("block", 32),
                       state.get("kv_heads"))


def rope_tables(cfg, length):
    half = cfg.head_dim // 2
    inv = cfg.theta ** (-torch.arange(half, dtype=torch.float32) * 2 / cfg.head_dim)
    ang = torch.arange(length, dtype=torch.float32)[:, None] * inv[None]
    return torch.cat([ang.cos(), ang.cos()], -1), torch.cat([-ang.sin(), ang.sin()], -1)


def rope(x, cos, sin):
    half = x.shape[-1] // 2
    swapped = torch.cat([x[..., half:], x[..., :half]], -1)
    return x * cos + swapped * sin


def rms(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


class Experts(nn.Module):
    """The router of LLaDA2.0 and the experts that it chooses from: sigmoid scores; a bias, which
    training moves against the load and no gradient sees, takes part in the choice alone; groups rank
    by their two best; the scores of the chosen are normalised and scaled. All experts are computed
    and those that were not chosen weighted by zero, which a small model can afford."""

    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.router = nn.Linear(cfg.dim, cfg.experts, bias=False)
        self.register_buffer("bias", torch.zeros(cfg.experts))
        self.register_buffer("load", torch.zeros(cfg.experts), persistent=False)
        for name, shape in (("gate", (cfg.dim, cfg.expert_ff)), ("up", (cfg.dim, cfg.expert_ff)),
                            ("down", (cfg.expert_ff, cfg.dim))):
            setattr(self, name, nn.ModuleList(
                [nn.Linear(*shape, bias=False) for _ in range(cfg.experts)]))

    def weights(self, h):
        """[..., dim] to [..., experts]: zero but for the chosen."""
        cfg = self.cfg
        with torch.autocast("cpu", enabled=False):
            score = torch.sigmoid(F.linear(h.float(), self.router.weight))
        with torch.no_grad():
            rank = (score + self.bias).unflatten(-1, (cfg.groups, -1))
            group = rank.topk(2, -1).values.sum(-1).topk(cfg.groups_kept, -1).indices
            kept = torch.zeros_like(rank[..., 0]).scatter(-1, group, 1.0)
            rank = rank.masked_fill(kept[..., None] == 0, -1.0).flatten(-2)
            chosen = torch.zeros_like(score).scatter(-1, rank.topk(cfg.chosen, -1).indices, 1.0)
            if self.training:
                self.load += chosen.flatten(0, -2).sum(0)
        w = score * chosen
        return w / (w.sum(-1, keepdim=True) + 1e-20) * cfg.scaling

    def forward(self, h):
        def joined(parts, dim):
            return torch.cat([p.weight for p in parts], dim)
        inner = F.silu(F.linear(h, joined(self.gate, 0))) * F.linear(h, joined(self.up, 0))
        inner = inner * self.weights(h).repeat_interleave(self.cfg.expert_ff, -1)
        return F.linear(inner, joined(self.down, 1))

    @torch.no_grad()
    def balance(self, speed):
        """Moves the bias by `speed` towards equal loads since the last call."""
        self.bias += speed * torch.sign(self.load.mean() - self.load)
        self.load.zero_()


class Layer(nn.Module):
    def __init__(self, cfg, index):
        super().__init__()
        self.cfg = cfg
        qd, kd = cfg.heads * cfg.head_dim, cfg.kv_heads * cfg.head_dim
        self.attn_norm = nn.Parameter(torch.ones(cfg.dim))
        self.ff_norm = nn.Parameter(torch.ones(cfg.dim))
        self.wq = nn.Linear(cfg.dim, qd, bias=cfg.qkv_bias)
        self.wk = nn.Linear(cfg.dim, kd, bias=cfg.qkv_bias)
        self.wv = nn.Linear(cfg.dim, kd, bias=cfg.qkv_bias)
        self.wo = nn.Linear(qd, cfg.dim, bias=False)
        routed = cfg.experts > 0 and index > 0
        ff = cfg.shared_ff if routed else cfg.ff
        self.gate = nn.Linear(cfg.dim, ff, bias=False)
        self.up = nn.Linear(cfg.dim, ff, bias=False)
        self.down = nn.Linear(ff, cfg.dim, bias=False)
        self.experts = Experts(cfg) if routed else None
        if cfg.qk_norm:
            self.q_norm = nn.Parameter(torch.ones(cfg.head_dim))
            self.k_norm = nn.Parameter(torch.ones(cfg.head_dim))

    def forward(self, x, cos, sin, mask, causal):
        cfg = self.cfg
        b, n, _ = x.shape
        h = rms(x, self.attn_norm, cfg.eps)
        q = self.wq(h).view(b, n, cfg.heads, cfg.head_dim).transpose(1, 2)
        k = self.wk(h).view(b, n, cfg.kv_heads, cfg.head_dim).transpose(1, 2)
        v = self.wv(h).view(b, n, cfg.kv_heads, cfg.head_dim).transpose(1, 2)
        if cfg.qk_norm:
            q, k = rms(q, self.q_norm, cfg.eps), rms(k, self.k_norm, cfg.eps)
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        if cfg.kv_heads != cfg.heads:
            g = cfg.heads // cfg.kv_heads
            k = k[:, :, None].expand(-1, -1, g, -1, -1).flatten(1, 2)
            v = v[:, :, None].expand(-1, -1, g, -1, -1).flatten(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        x = x + self.wo(a.transpose(1, 2).reshape(b, n, -1))
        h = rms(x, self.ff_norm, cfg.eps)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        return x if self.experts is None else x + self.experts(h)


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.layers = nn.ModuleList([Layer(cfg, i) for i in range(cfg.layers)])
        self.norm = nn.Parameter(torch.ones(cfg.dim))
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)
        cos, sin = rope_tables(cfg, cfg.max_len)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 if "embed" in name or "head" in name
                                else p.shape[1] ** -0.5)
            if name.endswith(("wo.weight", "down.weight")):
                p.data.mul_((2 * cfg.layers) ** -0.5)
            if name.endswith(".bias"):
                nn.init.zeros_(p)

    def hidden(self, ids, mask=None, position=None):
        n = ids.shape[1]
        x = self.embed(ids)
        causal = self.cfg.kind == "ar" and mask is None
        cos, sin = self.cos[:n], self.sin[:n]
        if position is not None:
            cos, sin = self.cos[position][:, None], self.sin[position][:, None]
        for layer in self.layers:
            x = layer(x, cos, sin, mask, causal)
        return rms(x, self.norm, self.cfg.eps)

    def forward(self, ids, mask=None):
        return self.head(self.hidden(ids, mask))


def copies_mask(block, segment):
    """Who sees whom among a clean context (segment 0) and noised copies of its blocks (segments
    1, 2, ...): the context block-causally; a copy the context's earlier blocks and itself. Padding
    (-1) sees itself. block, segment [B, n]; True where the row may attend to the column."""
    bi, bj, si, sj = block[:, :, None], block[:, None, :], segment[:, :, None], segment[:, None, :]
    seen = (sj == 0) & ((bj < bi) | ((si == 0) & (bj == bi))) & (si >= 0)
    return (seen | (si == sj) & (si != 0))[:, None]
