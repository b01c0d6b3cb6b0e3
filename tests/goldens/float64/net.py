# SPDX-License-Identifier: Apache-2.0
"""A transformer of the Qwen family in float64 numpy, whose caller holds the keys and values and says
which of them each row sees: what the loops in loops.py need, and no more."""
from dataclasses import dataclass

import numpy as np

VOCAB, MASK, END, WIDTH, WIDE, HEADS, KV_HEADS, HEAD, LAYERS = 61, 58, 59, 32, 48, 4, 2, 8, 3
EPS, THETA = 1e-6, 10000.0


@dataclass
class Family:
    """Qwen3 (SDAR): RMSNorm over each head of q and k. Qwen2 (Fast-dLLM v2): biases on q, k, v."""
    norms: bool

    def weights(self, seed):
        rng = np.random.default_rng(seed)
        out = {"q_proj": HEADS * HEAD, "k_proj": KV_HEADS * HEAD, "v_proj": KV_HEADS * HEAD}
        w = {"model.embed_tokens.weight": rng.normal(size=(VOCAB, WIDTH)),
             "model.norm.weight": 1 + 0.2 * rng.normal(size=WIDTH),
             "lm_head.weight": 0.6 * rng.normal(size=(VOCAB, WIDTH))}
        w["lm_head.weight"][MASK] = 0
        for i in range(LAYERS):
            at = f"model.layers.{i}."
            for n, rows in out.items():
                w[f"{at}self_attn.{n}.weight"] = rng.normal(size=(rows, WIDTH)) * 1.5 * WIDTH ** -0.5
                if not self.norms:
                    w[f"{at}self_attn.{n}.bias"] = 0.3 * rng.normal(size=rows)
            for n, shape in {"self_attn.o_proj": (WIDTH, HEADS * HEAD), "mlp.gate_proj": (WIDE, WIDTH),
                             "mlp.up_proj": (WIDE, WIDTH), "mlp.down_proj": (WIDTH, WIDE)}.items():
                w[f"{at}{n}.weight"] = rng.normal(size=shape) * 1.5 * shape[1] ** -0.5
            for n in ("input_layernorm", "post_attention_layernorm"):
                w[f"{at}{n}.weight"] = 1 + 0.2 * rng.normal(size=WIDTH)
            for n in ("q_norm", "k_norm") if self.norms else ():
                w[f"{at}self_attn.{n}.weight"] = 1 + 0.2 * rng.normal(size=HEAD)
        return {n: x.astype(np.float32) for n, x in w.items()}


def normed(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def rotated(x, positions):
    angle = np.asarray(positions)[:, None] * THETA ** (-np.arange(HEAD // 2) * 2.0 / HEAD)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :HEAD // 2], x[..., HEAD // 2:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Net:
    def __init__(self, weights):
        self.w = {n: x.astype(np.float64) for n, x in weights.items()}

    def heads_of(self, x, name, layer, count, positions):
        at = f"model.layers.{layer}.self_attn.{name}"
        y = x @ self.w[at + "_proj.weight"].T + self.w.get(at + "_proj.bias", 0)
        y = y.reshape(len(x), count, HEAD)
        if at + "_norm.weight" in self.w:
            y = normed(y, self.w[at + "_norm.weight"])
        return y if name == "v" else rotated(y, positions)

    def forward(self, ids, positions, past, sees):
        """Logits [R, V] and per layer (K, V) of the R rows. past: per layer (K, V) of older rows, or None;
        sees: bool [R, past rows + R]."""
        x, kept = self.w["model.embed_tokens.weight"][ids], []
        for i in range(LAYERS):
            h = normed(x, self.w[f"model.layers.{i}.input_layernorm.weight"])
            q = self.heads_of(h, "q", i, HEADS, positions)
            k, v = (self.heads_of(h, n, i, KV_HEADS, positions) for n in "kv")
            kept.append((k, v))
            if past is not None:
                k, v = np.concatenate([past[i][0], k]), np.concatenate([past[i][1], v])
            k, v = (t.repeat(HEADS // KV_HEADS, 1) for t in (k, v))
            scores = np.einsum("rhd,khd->hrk", q, k) * HEAD ** -0.5
            p = softmax(np.where(sees, scores, -np.inf))
            mixed = np.einsum("hrk,khd->rhd", p, v).reshape(len(x), -1)
            x = x + mixed @ self.w[f"model.layers.{i}.self_attn.o_proj.weight"].T
            h = normed(x, self.w[f"model.layers.{i}.post_attention_layernorm.weight"])
            gate, up = (h @ self.w[f"model.layers.{i}.mlp.{n}_proj.weight"].T for n in ("gate", "up"))
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self.w[f"model.layers.{i}.mlp.down_proj.weight"].T
        return normed(x, self.w["model.norm.weight"]) @ self.w["lm_head.weight"].T, kept


def joined(past, more):
    """Keys and values of both, those of `past` first."""
    if past is None:
        return more
    return [(np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])) for a, b in zip(past, more)]


def replaced(kept, first, new):
    """`kept` with the rows from `first` on taken from `new`."""
    out = [(k.copy(), v.copy()) for k, v in kept]
    for (k, v), (a, b) in zip(out, new):
        k[first:first + len(a)], v[first:first + len(b)] = a, b
    return out
