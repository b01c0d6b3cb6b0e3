# SPDX-License-Identifier: Apache-2.0
"""LLaDA's bidirectional transformer in plain PyTorch, one sequence at a time.

The parameters carry the names of the published checkpoints below `model.`, so that a Hugging Face
folder loads by `load_state_dict`. Rows are [T, D]; heads are [H, T, d]. Logits are not shifted.
"""
import json
import os
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file


@dataclass
class Config:
    dim: int
    layers: int
    heads: int
    hidden: int
    vocabulary: int
    positions: int
    theta: float
    eps: float
    mask_id: int
    stop_ids: tuple

    @property
    def head_dim(self):
        return self.dim // self.heads


def read_config(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        c = json.load(f)
    if c["model_type"] != "llada":
        raise ValueError(f"{folder}: model_type {c['model_type']}, only llada is implemented here")
    if c["n_kv_heads"] != c["n_heads"]:
        raise ValueError(f"{folder}: grouped heads are not implemented here")
    stop = c.get("eos_token_id")
    path = os.path.join(folder, "generation_config.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            stop = json.load(f).get("eos_token_id", stop)
    stop = () if stop is None else tuple(stop) if isinstance(stop, list) else (stop,)
    return Config(c["d_model"], c["n_layers"], c["n_heads"], c["mlp_hidden_size"],
                  c["embedding_size"], c["max_sequence_length"], c["rope_theta"],
                  c["rms_norm_eps"], c["mask_token_id"], stop)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def rotate(x, cos, sin):
    """RoPE with dimension j paired with j + d/2; x [H, T, d], cos and sin [T, d]."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


def attend(q, k, v, mask=None):
    """Softmax attention, scale 1 / sqrt(d): q [H, T, d] over k, v [H, S, d] -> [T, D]."""
    out = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]
    return out.transpose(0, 1).reshape(q.shape[1], -1)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.head_dim = c.heads, c.head_dim
        self.attn_norm = RMSNorm(c.dim, c.eps)
        self.ff_norm = RMSNorm(c.dim, c.eps)
        for name in ("q_proj", "k_proj", "v_proj", "attn_out"):
            setattr(self, name, nn.Linear(c.dim, c.dim, bias=False))
        self.ff_proj = nn.Linear(c.dim, c.hidden, bias=False)
        self.up_proj = nn.Linear(c.dim, c.hidden, bias=False)
        self.ff_out = nn.Linear(c.hidden, c.dim, bias=False)

    def split(self, x):
        return x.view(x.shape[0], self.heads, self.head_dim).transpose(0, 1)

    def project(self, x, cos, sin):
        """Rotated q and k, and v, of the rows x."""
        n = self.attn_norm(x)
        q, k, v = self.split(self.q_proj(n)), self.split(self.k_proj(n)), self.split(self.v_proj(n))
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def feed_forward(self, x):
        n = self.ff_norm(x)
        return self.ff_out(F.silu(self.ff_proj(n)) * self.up_proj(n))


class Llada(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = c = config
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(c.vocabulary, c.dim),
            "blocks": nn.ModuleList([Block(c) for _ in range(c.layers)]),
            "ln_f": RMSNorm(c.dim, c.eps),
            "ff_out": nn.Linear(c.dim, c.vocabulary, bias=False)})
        inv = 1.0 / c.theta ** (torch.arange(0, c.head_dim, 2, dtype=torch.float32) / c.head_dim)
        angle = torch.arange(c.positions, dtype=torch.float32)[:, None] * inv
        angle = torch.cat((angle, angle), dim=-1)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    @property
    def blocks(self):
        return self.transformer["blocks"]

    def embed(self, ids):
        return self.transformer["wte"](ids)

    def rope(self, positions):
        """cos, sin of a slice or an index tensor of positions."""
        return self.cos[positions], self.sin[positions]

    def hidden(self, ids, positions, keys):
        """Last-layer rows of `ids` at `positions`. `keys(layer, q, k, v)` returns the K, V and the
        mask that a layer's rows attend to; that is all a cached or sparse method changes."""
        x = self.embed(ids)
        cos, sin = self.rope(positions)
        for number, block in enumerate(self.blocks):
            q, k, v = block.project(x, cos, sin)
            k, v, mask = keys(number, q, k, v)
            x = x + block.attn_out(attend(q, k, v, mask))
            x = x + block.feed_forward(x)
        return x

    def logits(self, x):
        return self.transformer["ff_out"](self.transformer["ln_f"](x))


def load(folder):
    """The model of a Hugging Face folder, computing in float32."""
    model = Llada(read_config(folder))
    index = os.path.join(folder, "model.safetensors.index.json")
    files = ["model.safetensors"]
    if os.path.exists(index):
        with open(index, encoding="utf-8") as f:
            files = sorted(set(json.load(f)["weight_map"].values()))
    state = {}
    for name in files:
        for key, value in load_file(os.path.join(folder, name)).items():
            state[key.removeprefix("model.")] = value.float()
    model.load_state_dict(state)
    return model.eval().requires_grad_(False)
