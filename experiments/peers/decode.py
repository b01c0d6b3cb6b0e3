# SPDX-License-Identifier: Apache-2.0
"""LLaDA's semi-autoregressive decoding loop, greedy, and what all methods share.

A method is an object with `forward(x, block, step)`: it runs the model on the rows it needs at that
step of the block and returns their positions and last-layer rows. The loop picks tokens.
"""
from dataclasses import dataclass

import torch


@dataclass
class Block:
    first: int
    last: int
    quota: int = 0  # tokens the schedule decides in this step


class Trace:
    """What entered every forward; for comparing runs, not for timing."""

    def __init__(self):
        self.forwards = []

    def add(self, positions, ids):
        p = positions.tolist()
        starts = [i for i in range(len(p)) if i == 0 or p[i] != p[i - 1] + 1] + [len(p)]
        ranges = [[p[a], p[b - 1] + 1] for a, b in zip(starts, starts[1:])]
        self.forwards.append({"rows": len(p), "pos": ranges, "ids": ids.tolist()})

    def decide(self, positions, tokens):
        """What the forward decided: a comparison of rows and ids shows it already."""


def quotas(masks, steps):
    """How many of `masks` tokens each step decides: equal shares, the first ones take the rest."""
    base, rest = divmod(masks, steps)
    return [base + (1 if i < rest else 0) for i in range(steps)]


def best(scores, count):
    """Indices of the `count` largest of the last axis, best first; ties go to the lower index."""
    return torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :count]


def judge(model, hidden, rows, dtype=None, every_row=False):
    """Greedy token and its softmax probability at `rows` of the last layer. dtype None: computed in
    float64 and compared as float32, so that probabilities that round to the same float32 tie.
    every_row: as the official loops do it, over all rows of the forward."""
    if every_row:
        token, p = judge(model, hidden, slice(None), dtype)
        return token[rows], p[rows]
    logits = model.logits(hidden[rows])
    token = logits.argmax(dim=-1)
    p = torch.softmax(logits.to(dtype or torch.float64), dim=-1).gather(1, token[:, None])[:, 0]
    return token, p if dtype else p.float()


def choose(confidence, quota, threshold):
    """Which candidates are decided: top-n, or all that reach the threshold and always the best."""
    if threshold <= 0:
        return best(confidence, quota)
    take = confidence >= threshold
    take[best(confidence, 1)] = True
    return take.nonzero()[:, 0]


def new_canvas(model, prompt, gen_length):
    mask = torch.full((gen_length,), model.config.mask_id)
    return torch.cat((torch.tensor(prompt), mask))


def decode_blocks(model, prompt, settings, method, trace=None):
    """Token ids of the canvas after block-by-block decoding.

    settings: gen_length, block_length, steps, and optionally threshold, until_clean, min_steps (of
    a block, with until_clean), leftovers (masks of earlier blocks are candidates), confidence
    (dtype of the softmax, see judge).
    """
    gen, length, mask = settings["gen_length"], settings["block_length"], model.config.mask_id
    threshold = settings.get("threshold", 0.0)
    until_clean = settings.get("until_clean", False) or threshold > 0
    steps = settings["steps"] // (gen // length)
    dtype = settings.get("confidence")
    x = new_canvas(model, prompt, gen)
    for first in range(len(prompt), len(x), length):
        block = Block(first, first + length)
        inside = x[first:first + length]  # a view
        schedule = quotas(int((inside == mask).sum()), steps)
        step = idle = 0
        while True:
            block.quota = schedule[step] if step < steps else 1
            positions, hidden = method.forward(x, block, step)
            if trace:
                trace.add(positions, x[positions])
            open_rows = (x[positions] == mask) & (positions < block.last)
            if not settings.get("leftovers", True):
                open_rows &= positions >= block.first
            rows = open_rows.nonzero()[:, 0]
            at = token = rows[:0]
            pick = slice(None)
            decided = 0
            if len(rows) > 0:
                at = positions[rows]
                token, confidence = judge(model, hidden, rows, dtype, settings.get("every_row"))
                method.saw(at, confidence)
                pick = choose(confidence, block.quota, threshold)
                x[at[pick]] = token[pick]
                decided = int((token[pick] != mask).sum())
            if trace:
                trace.decide(at[pick], token[pick])
            step += 1
            if not until_clean:
                if step == steps:
                    break
                continue
            # A model that keeps choosing the mask id would never finish the block.
            idle = 0 if decided > 0 or block.quota == 0 else idle + 1
            clean = not bool((inside == mask).any())
            if (clean and step >= settings.get("min_steps", 1)) or idle >= length:
                break
    return x[len(prompt):].tolist()
