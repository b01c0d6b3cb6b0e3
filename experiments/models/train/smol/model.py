# SPDX-License-Identifier: Apache-2.0
"""A Llama in PyTorch: frozen weights, a LoRA beside every matrix, and a mask row.

The parts between two attentions are compiled for one row length, so that element-wise work is fused;
attention runs document by document. Products run in the weights' type (product_type of ../trainer.py), the residual stream
in float32.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F

import base

SCALE = 2.0  # of a LoRA's product
# Each LoRA spans what one product reads: queries, keys and values together, gate and up together.
FUSED = {"qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
         "o": ["self_attn.o_proj"], "gate_up": ["mlp.gate_proj", "mlp.up_proj"],
         "down": ["mlp.down_proj"]}


@dataclass
class Shape:
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    theta: float
    eps: float
    mask: int  # the mask token

    @staticmethod
    def of(gguf):
        m = gguf.meta
        heads = m["llama.attention.head_count"]
        return Shape(m["llama.block_count"], heads, m["llama.attention.head_count_kv"],
                     m["llama.embedding_length"] // heads, m["llama.rope.freq_base"],
                     m["llama.attention.layer_norm_rms_epsilon"], base.MASK)


def rms(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def linear(x, w, a, b):
    """x W' + 2 x A' B' in W's type. x [n, in], w [out, in], a [rank, in], b [out, rank]."""
    x = x.to(w.dtype)
    return x @ w.t() + ((x @ a.to(w.dtype).t()) * SCALE) @ b.to(w.dtype).t()


def rope(x, cos, sin):
    """x [n, heads, dim]; cos and sin [n, 1, dim], the sine's first half negated."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([x[..., half:], x[..., :half]], -1) * sin


def make_before(s):
    def before(x, cos, sin, norm, w, a, b):
        """Residual stream to queries, keys and values [heads, n, dim], keys repeated for their group."""
        n = x.shape[0]
        qkv = linear(rms(x, norm, s.eps), w, a, b).float().view(n, -1, s.head_dim)
        q = rope(qkv[:, :s.heads], cos, sin)
        k = rope(qkv[:, s.heads:s.heads + s.kv_heads], cos, sin)
        group = s.heads // s.kv_heads
        k, v = (y[:, :, None].expand(-1, -1, group, -1).reshape(n, s.heads, s.head_dim)
                for y in (k, qkv[:, s.heads + s.kv_heads:]))
        return tuple(y.transpose(0, 1).contiguous() for y in (q, k, v))
    return before


def make_after(s):
    def after(x, seen, norm, wo, ao, bo, wg, ag, bg, wd, ad, bd):
        """What attention gathered, seen [n, heads * dim], to the next layer's residual stream."""
        x = x + linear(seen, wo, ao, bo).float()
        gate, up = linear(rms(x, norm, s.eps), wg, ag, bg).float().chunk(2, -1)
        return x + linear(F.silu(gate) * up, wd, ad, bd).float()
    return after


class Model(torch.nn.Module):
    def __init__(self, weights, shape, rank, compiled=True, dtype=torch.bfloat16):
        """weights: Hugging Face's name to float32 array (base.weights)."""
        super().__init__()
        w = {name: torch.tensor(x) for name, x in weights}
        self.shape, self.layers = shape, shape.layers
        self.embed = w["model.embed_tokens.weight"]
        self.head = self.embed.to(dtype)
        self.norm = w["model.norm.weight"]
        self.norms = [(w[f"model.layers.{i}.input_layernorm.weight"],
                       w[f"model.layers.{i}.post_attention_layernorm.weight"])
                      for i in range(self.layers)]
        self.frozen, self.a, self.b = [], torch.nn.ParameterList(), torch.nn.ParameterList()
        self.names = []
        for i in range(self.layers):
            for short, parts in FUSED.items():
                matrix = torch.cat([w[f"model.layers.{i}.{p}.weight"] for p in parts])
                out, into = matrix.shape
                self.frozen.append(matrix.to(dtype))
                self.a.append(torch.nn.Parameter(torch.randn(rank, into) * into ** -0.5))
                self.b.append(torch.nn.Parameter(torch.zeros(out, rank)))
                self.names.append(f"layers.{i}.{short}")
        self.mask_row = torch.nn.Parameter(self.embed[shape.mask].clone())
        inv = shape.theta ** (-torch.arange(0, shape.head_dim, 2) / shape.head_dim)
        angle = torch.arange(8192.0)[:, None] * inv
        self.cos = torch.cat([angle.cos(), angle.cos()], -1)
        self.sin = torch.cat([-angle.sin(), angle.sin()], -1)
        self.before, self.after = make_before(shape), make_after(shape)
        if compiled:
            self.before, self.after = torch.compile(self.before), torch.compile(self.after)

    def hidden(self, ids, position, lengths, masks):
        """Residual stream [n, width] before the final norm. ids, position [n]; documents of `lengths`
        rows with additive masks [rows, rows]."""
        x = F.embedding(ids, self.embed)
        x = torch.where((ids == self.shape.mask)[:, None], self.mask_row, x)
        cos, sin = self.cos[position][:, None], self.sin[position][:, None]
        for i in range(self.layers):
            (n1, n2), at = self.norms[i], 4 * i
            w, a, b = (p[at:at + 4] for p in (self.frozen, self.a, self.b))
            qkv = self.before(x, cos, sin, n1, w[0], a[0], b[0])
            seen = [F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]
                    for q, k, v, mask in zip(*(y.split(lengths, 1) for y in qkv), masks)]
            seen = torch.cat(seen, 1).transpose(0, 1).flatten(1)
            x = self.after(x, seen, n2, w[1], a[1], b[1], w[2], a[2], b[2], w[3], a[3], b[3])
        return x

    def logits(self, x):
        """Rows [n, width] to logits [n, vocabulary]. The head is the embedding, and its row of the mask
        token is the trained one: training itself teaches that the mask is never an answer."""
        h = rms(x, self.norm, self.shape.eps)
        out = (h.to(self.head.dtype) @ self.head.t()).float()
        out[:, self.shape.mask] = (h * self.mask_row).sum(-1)
        return out

    def trained(self):
        """What the delta holds: name to tensor."""
        out = {"mask_row": self.mask_row.data}
        for name, a, b in zip(self.names, self.a, self.b):
            out[name + ".a"], out[name + ".b"] = a.data, b.data
        return out

    def load_trained(self, saved):
        for name, tensor in self.trained().items():
            tensor.copy_(saved[name])
