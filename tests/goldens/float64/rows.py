# SPDX-License-Identifier: Apache-2.0
"""A forward over chosen rows of the float64 network of net.py, and what decides: tokens, confidences and how
near each decision was to another one. For the rules of five papers in papers.py."""
import numpy as np

from net import HEAD, HEADS, KV_HEADS, LAYERS, MASK, normed, softmax


class Near:
    """The smallest distance by which anything was decided: below `limit` float32 may decide otherwise."""
    limit = 5e-6

    def __init__(self):
        self.distance = 1.0

    def see(self, distances):
        distances = np.abs(np.asarray(distances, float)).ravel()
        if len(distances):
            self.distance = min(self.distance, float(distances.min()))

    def order(self, values):
        """Indices by falling value, the lowest first among equal ones."""
        v = np.asarray(values, float)
        gaps = np.diff(np.sort(v[np.isfinite(v)]))
        self.see(gaps[gaps > 1e-13])  # equal to the last bit: a tie by construction
        return np.argsort(-v, kind="stable")

    def above(self, values, bar, strict=True):
        self.see(np.asarray(values, float) - bar)
        return values > bar if strict else values >= bar


def forward(net, ids, positions, cache, visible, sees=None, cut=None, saw=None):
    """(rows that are left, their logits). K and V of the rows enter the cache; visible(layer): the positions that
    rows see then, ascending; sees: bool [rows, those] instead of everything; cut(layer, rows, q, k): the rows that
    stay, asked once K and V are stored; saw(layer, q, p): attention p [heads, rows, positions]."""
    rows, x = np.asarray(positions), net.w["model.embed_tokens.weight"][np.asarray(ids)]
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        h = normed(x, net.w[at + "input_layernorm.weight"])
        q = net.heads_of(h, "q", i, HEADS, rows)
        k, v = (net.heads_of(h, n, i, KV_HEADS, rows) for n in "kv")
        cache.store(i, rows, k, v)
        if cut is not None:
            stay = cut(i, rows, q, k)
            rows, x, q = rows[stay], x[stay], q[stay]
        seen = visible(i)
        k, v = (t[i, seen].repeat(HEADS // KV_HEADS, 1) for t in (cache.k, cache.v))
        scores = np.einsum("rhd,khd->hrk", q, k) * HEAD ** -0.5
        p = softmax(scores if sees is None else np.where(sees, scores, -np.inf))
        if saw is not None:
            saw(i, q, p)
        mixed = np.einsum("hrk,khd->rhd", p, v).reshape(len(x), -1)
        x = x + mixed @ net.w[at + "self_attn.o_proj.weight"].T
        h = normed(x, net.w[at + "post_attention_layernorm.weight"])
        gate, up = (h @ net.w[f"{at}mlp.{n}_proj.weight"].T for n in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ net.w[at + "mlp.down_proj.weight"].T
    return rows, normed(x, net.w["model.norm.weight"]) @ net.w["lm_head.weight"].T


class Cache:
    """K and V of every position, layer by layer, and in which layers they are there."""

    def __init__(self, length):
        self.k = np.zeros((LAYERS, length, KV_HEADS, HEAD))
        self.v = np.zeros_like(self.k)
        self.there = np.zeros((LAYERS, length), bool)

    def store(self, layer, rows, k, v):
        self.k[layer, rows], self.v[layer, rows], self.there[layer, rows] = k, v, True


class Run:
    """What a decoding recorded: its forwards, in the format of the golden runs."""

    def __init__(self, prompt, length):
        self.x = np.array(list(prompt) + [MASK] * length)
        self.near, self.forwards, self.prompt = Near(), [], len(prompt)

    def enter(self, rows, ids=None, kind=None):
        rows = [int(p) for p in rows]
        entry = {"rows": len(rows), "pos": [[p, p + 1] for p in rows],
                 "ids": [int(t) for t in (self.x[rows] if ids is None else ids)]}
        if kind:
            entry["kind"] = kind
        self.forwards.append(entry)

    def predict(self, logits, temperature=1.0):
        best = np.sort(logits, -1)
        if len(logits):
            self.near.see(best[:, -1] - best[:, -2])
        return logits.argmax(-1), softmax(logits / temperature).max(-1)
