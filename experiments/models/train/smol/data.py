# SPDX-License-Identifier: Apache-2.0
"""Packs documents into rows: a clean context and noised copies of the answer's blocks behind it."""
import json
import os
import random
import sys

import numpy as np
import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import base  # noqa: E402
from tasks import Stream  # noqa: E402

ROW = 512
WAITING = 12  # documents among which the one that fills a row best is chosen
SHARES = {"needle": 0.11, "retrieval_kv": 0.17, "list_program": 0.08, "instruction": 0.09,
          "word_problem": 0.03, "text": 0.52}
SIZED = ("needle", "retrieval_kv")
PAD_WEIGHT, NEAR_PAD_WEIGHT = 0.1, 0.5
BLOCK, KEPT = base.BLOCK, base.KEPT


class Document:
    """ids (clean), noised ids, position, segment (0: context, k: copy k) and, of every masked token,
    the row that predicts it (the one before it), its target as shares [KEPT] of candidates [KEPT], and
    its weight.

    `spread` holds (candidates, shares) of the answer's first tokens: the distribution that each was
    drawn from, given all before it. Where nothing behind a masked token is seen in its block, what is
    to be learnt is the mean of these over what the masked tokens before it may be; the distribution
    then stands for the token: the same gradient in the mean, with less noise."""

    def __init__(self, family, prompt, answer, rng, chance, spread=()):
        self.family = family
        answer = answer + [base.END] * (answer[-1:] != [base.END])
        stop = len(prompt) + len(answer)
        clean = np.array(prompt + answer + [base.PAD] * (-stop % BLOCK))
        first, last = len(prompt) // BLOCK, len(clean) // BLOCK
        copies = self.choose(first, last, len(prompt), stop, rng)
        context = copies[-1][0] * BLOCK
        ids, place, segment = [clean[:context]], [np.arange(context)], [np.zeros(context, int)]
        rows, candidates, shares, weights, used = [], [], [], [], context
        for k, (b, twin) in enumerate(copies):
            at = np.arange(b * BLOCK, (b + 1) * BLOCK)
            asked = at >= len(prompt)
            if twin:
                mask = asked & ~mask
            if not twin or not mask.any():
                mask = self.pattern(asked, at < stop, rng, chance)
            ids.append(np.where(mask, base.MASK, clean[at]))
            place.append(at)
            segment.append(np.full(BLOCK, k + 1))
            for j in np.nonzero(mask)[0]:
                rows.append(used + j - 1 if j else at[0] - 1)
                behind = at[j] - stop
                weights.append(1.0 if behind < 0 else NEAR_PAD_WEIGHT if behind < 1 else PAD_WEIGHT)
                at_answer = at[j] - len(prompt)
                if mask[j:].all() and at_answer < len(spread):
                    candidates.append(spread[at_answer][0])
                    shares.append(spread[at_answer][1])
                else:
                    candidates.append([clean[at[j]]] + [0] * (KEPT - 1))
                    shares.append([1.0] + [0.0] * (KEPT - 1))
            used += BLOCK
        self.ids, self.place = np.concatenate(ids), np.concatenate(place)
        self.segment = np.concatenate(segment)
        self.rows, self.candidates, self.shares, self.weights = rows, candidates, shares, weights

    @staticmethod
    def choose(first, last, begin, stop, rng):
        """(block, whether it is its predecessor's complement) of every copy, four pairs or a pair a
        block; a block is drawn by its share of the answer."""
        blocks = range(first, last)
        share = [max(1, min(stop, (b + 1) * BLOCK) - max(begin, b * BLOCK)) for b in blocks]
        if len(blocks) > 4:
            drawn = list(blocks)[:7]
        else:
            drawn = sorted(rng.choices(blocks, share, k=4))
        return [(b, twin) for b in drawn for twin in (False, True)]

    @staticmethod
    def pattern(asked, answered, rng, chance):
        """What is masked of a block: at random, or all behind a place as decoding from the left leaves
        it, a part of the rest decided early. The tail behind the answer has a rate of its own."""
        places = np.nonzero(asked)[0]
        if rng.random() < 0.5:
            mask = asked & (chance.random(BLOCK) < rng.random())
        else:
            mask = asked & (np.arange(BLOCK) >= rng.choice(list(places)))
            mask &= chance.random(BLOCK) >= 0.3 * rng.random()
        tail = asked & ~answered
        if tail.any() and rng.random() < 0.7:
            if rng.random() < 0.5:
                cut = rng.choice(list(np.nonzero(tail)[0]) + [BLOCK])
                mask = np.where(tail, np.arange(BLOCK) < cut, mask)
            else:
                mask = np.where(tail, True, mask)
        if not mask.any():
            mask[rng.choice(list(places))] = True
        return mask


def sees(position, segment):
    """Additive mask [n, n]: the context sees itself block by block, a copy the context's earlier
    blocks and itself."""
    b = torch.as_tensor(position) // BLOCK
    s = torch.as_tensor(segment)
    context = (s == 0)[None] & ((b[None] < b[:, None]) | ((s == 0)[:, None] & (b[None] == b[:, None])))
    seen = context | ((s[:, None] == s[None]) & (s != 0)[:, None])
    return torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))


class Packer:
    """Endless rows of at most ROW tokens. `progress` sets the contexts' size: short first."""

    def __init__(self, tok, text, seed, excluded):
        self.tok, self.rng = tok, random.Random(seed)
        self.chance, self.stream = np.random.default_rng(seed + 1), Stream(seed + 2, excluded)
        with open(text, encoding="utf-8") as f:
            self.text = [json.loads(line) for line in f]
        self.names, self.shares = list(SHARES), list(SHARES.values())
        self.waiting = []

    def draw(self, progress):
        """One document; the context of a sized family grows with progress."""
        family = self.rng.choices(self.names, self.shares)[0]
        spread = ()
        if family == "text":
            it = self.rng.choice(self.text)
            spread = list(zip(it["candidates"], it["probabilities"]))
        else:
            longest = 60 + int(260 * min(1.0, progress / 0.6))
            size = self.rng.randint(12, longest) if family in SIZED else None
            it = self.stream.draw(family, size)
        prompt = self.tok.encode(base.prompt_text(it["prompt"]), add_special_tokens=False).ids
        answer = it.get("ids") or self.tok.encode(it["answer"], add_special_tokens=False).ids
        return Document(family, prompt, answer, self.rng, self.chance, spread)

    def row(self, progress):
        """ids, position [ROW]; lengths and masks of the documents; rows, candidates and shares [n, KEPT], weights
        and family (an index into names) of the masked tokens; how many of the ROW tokens are real."""
        found, used = [], 0
        while True:
            while len(self.waiting) < WAITING:
                doc = self.draw(progress)
                if len(doc.ids) <= ROW:
                    self.waiting.append(doc)
            fits = [d for d in self.waiting if used + len(d.ids) <= ROW]
            if not fits:
                break
            doc = max(fits, key=lambda d: len(d.ids)) if found else fits[0]
            self.waiting.remove(doc)
            found.append(doc)
            used += len(doc.ids)
        ids, place = np.concatenate([d.ids for d in found]), np.concatenate([d.place for d in found])
        lengths, masks = [len(d.ids) for d in found], [sees(d.place, d.segment) for d in found]
        rows, start = [], 0
        for d in found:
            rows += [start + r for r in d.rows]
            start += len(d.ids)
        rest = ROW - used
        if rest:
            ids, place = np.append(ids, [base.PAD] * rest), np.append(place, np.arange(rest))
            lengths.append(rest)
            masks.append(torch.zeros(1, rest))
        family = [self.names.index(d.family) for d in found for _ in d.rows]
        shares = torch.tensor([s for d in found for s in d.shares])
        return (torch.from_numpy(ids), torch.from_numpy(place), lengths, masks, torch.tensor(rows),
                torch.tensor(np.array([c for d in found for c in d.candidates])),
                shares / shares.sum(-1, keepdim=True),
                torch.tensor([w for d in found for w in d.weights]), torch.tensor(family), used)
