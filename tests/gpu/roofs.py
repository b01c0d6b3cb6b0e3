# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The roof of what the GPU check measured, defined once. The roof of a product, of attention or of
another kernel is the larger of two times: FLOPs over the rate of the best bfloat16 product, and bytes
over the rate of reads alone. The roof of a forward pass is the sum over its products and attention, as
in tests/cost_model/cost_model.h; norms, rotations and waits have no part in it. Shares are roof over
time taken."""

import dataclasses
import json
import os

from runner import ROOT

BF16 = 2


@dataclasses.dataclass(frozen=True)
class Roofs:
    """Bytes and FLOPs per second of this machine; 0 where it was not measured."""
    reads: float = 0.0     # alone; of products of one row where nothing else read
    products: float = 0.0  # the best bfloat16 product of a burst
    copy: float = 0.0      # read plus written
    loaded_reads: float = 0.0     # the same after seconds of load
    loaded_products: float = 0.0
    loaded_copy: float = 0.0

    def seconds(self, flops, moved):
        """The least time of one kernel; 0: no roof was measured."""
        return max(flops / self.products if self.products else 0,
                   moved / self.reads if self.reads else 0)


def roofs_of(rows):
    """The roofs that rows of unmask_ceilings hold, those of several calls too: the best counts."""
    def best(kind, state="burst"):
        return max((r["bytes_per_second"] for r in rows
                    if r["kind"] == kind and r.get("state", "burst") == state), default=0)
    right = [r for r in rows if r["kind"] == "gemm" and r["right"]]
    single = [r["bytes"] / r["seconds"] for r in right if r.get("m") == 1]
    loaded = [r["flops"] / r["seconds"] for r in rows if r["kind"] == "loaded_gemm"]
    return Roofs(reads=max([best("read"), *single, best("copy")]),
                 products=max((r["flops"] / r["seconds"] for r in right), default=0), copy=best("copy"),
                 loaded_reads=best("read", "loaded"), loaded_copy=best("copy", "loaded"),
                 loaded_products=max(loaded, default=0))


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of a dense model."""
    layers: int
    hidden: int
    queries: int  # features of all heads
    keys: int     # features of all KV heads
    feed_forward: int
    vocabulary: int

    @property
    def products(self):
        """(inputs, outputs) of a layer's products before and behind attention."""
        return ([(self.hidden, self.queries + 2 * self.keys)],
                [(self.queries, self.hidden), (self.hidden, 2 * self.feed_forward),
                 (self.feed_forward, self.hidden)])


def shape_of(name):
    """The shape of that name in experiments/shapes; None: there is none, or it is not dense."""
    try:
        with open(os.path.join(ROOT, "experiments", "shapes", name, "config.json"), encoding="utf-8") as file:
            c = json.load(file)
    except OSError:
        return None
    if c.get("num_experts") or "num_hidden_layers" not in c or "intermediate_size" not in c:
        return None
    heads = c["num_attention_heads"]
    dim = c.get("head_dim") or c["hidden_size"] // heads
    return Shape(c["num_hidden_layers"], c["hidden_size"], heads * dim,
                 c.get("num_key_value_heads", heads) * dim, c["intermediate_size"], c["vocab_size"])


@dataclasses.dataclass(frozen=True)
class Forward:
    """One forward pass of a batch, in means: rows that enter, rows that are left behind the layer that
    drops the others (layer 1), rows whose logits are computed, and keys of all its sequences."""
    rows: float
    kept: float
    candidates: float = 0.0
    keys: float = 0.0


def forward_seconds(shape, forward, roofs):
    """The roof of a forward pass: every product once, with its weights, and the keys and values."""
    def product(rows, inputs, outputs):
        return roofs.seconds(2 * rows * inputs * outputs, BF16 * inputs * outputs) if rows > 0 else 0
    before, behind = shape.products
    seconds = product(forward.candidates, shape.hidden, shape.vocabulary)
    for layer in range(shape.layers):
        entering = forward.rows if layer < 2 else forward.kept
        staying = forward.rows if layer < 1 else forward.kept
        seconds += sum(product(entering, *p) for p in before) + sum(product(staying, *p) for p in behind)
    return seconds + shape.layers * roofs.seconds(0, BF16 * 2 * shape.keys * forward.keys)


def keys_of_pass(m):
    """Of all requests in a mean pass: their prompts, and half of their responses."""
    return m["batch_mean"] * (m["prompt_tokens_mean"] + m["output_tokens_mean"] / 2)


def parts_of_run(row, roofs):
    """{"prefill" or "decode": (roof, seconds taken)} of a row of kind serve; of the policy "mixed"
    {"both": ...}; {} where the shape is unknown or no roof was measured."""
    m, shape = row["metrics"], shape_of(row["model"]["name"])
    if shape is None or not (roofs.reads and roofs.products) or not m.get("batch_mean"):
        return {}
    if row.get("serve", {}).get("policy") == "mixed":  # every pass may have prompts
        passes = m["batched_forwards"]
        prompts = m["rows"] - m["decode_rows"]
        mean = Forward(m["rows"] / passes, (prompts + m.get("processed_rows", m["decode_rows"])) / passes,
                       m["head_rows"] / passes, keys_of_pass(m))
        return {"both": (passes * forward_seconds(shape, mean, roofs), m["wall_seconds"])}
    decodes = (m["nfe"] - m["prefill_forwards"]) / m["batch_mean"]
    prefills = m["batched_forwards"] - decodes
    taken = m["wall_seconds"] * m["prefill_time_share"]
    decode = Forward(m["decode_rows"] / decodes, m.get("processed_rows", m["decode_rows"]) / decodes,
                     m["head_rows"] / decodes,
                     keys_of_pass(m))
    parts = {"decode": (decodes * forward_seconds(shape, decode, roofs), m["wall_seconds"] - taken)}
    if prefills > 0 and taken > 0:
        rows = (m["rows"] - m["decode_rows"]) / prefills
        parts["prefill"] = (prefills * forward_seconds(shape, Forward(rows, rows), roofs), taken)
    return parts
