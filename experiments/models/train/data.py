# SPDX-License-Identifier: Apache-2.0
"""Turns task items into training batches for the three objectives."""
import random

import numpy as np
import torch

from curriculum import SIZED, WEIGHTS, pick_size
from parallel import PARALLEL, WEIGHTS as OF_PARALLEL
from tasks import Stream
from tokenizer import EOS, MASK
from words import KEYS

BUCKETS = [32, 64, 96, 128, 160, 192, 256, 320, 448, 576, 832, 1088, 2176]
EOS_WEIGHT = 0.1
NEAR_EOS_WEIGHT = 0.5  # the end of an answer: its place decides whether the answer is cut
IGNORED, DECIDED, SCORED = 0, 1, 2  # a token's part in the block being decoded; SCORED: an answer's
COPIES = 4  # noise draws that share one clean context
SEED_WEIGHT = 2.0  # of a block's first token, which the block before predicts (fdv2): there are few
PROMPT_WEIGHT = 0.15


class Batcher:
    """Yields (ids, keys, (flat, targets, weights, score, family)) of one bucket length. keys: which
    places hold a token; for sdar (position, block, segment) of every place. score: IGNORED, DECIDED
    or SCORED."""

    def __init__(self, kind, codec, seed, excluded, budget=4096, copy=0.5, drills=0.0, long=0.0,
                 blocks=(32,), parallel=0.0, seeds=False):
        self.seeds = seeds  # a clean block's last row predicts the token behind it; no block's first is masked
        self.kind, self.codec, self.budget = kind, codec, budget
        self.copy, self.drills, self.long, self.parallel = copy, drills, long, parallel
        self.blocks, self.block = blocks, blocks[0]  # every item draws its block length
        self.stream = Stream(seed, excluded)
        self.rng = random.Random(seed + 1)
        self.np = np.random.default_rng(seed + 2)
        self.queues = {b: [] for b in BUCKETS}
        self.names = list(WEIGHTS) + ["copying", "arithmetic"] + list(PARALLEL)
        self.weights = list(WEIGHTS.values())
        self.words = [codec.encode(" " + w)[0] for w in KEYS]
        self.digits = [codec.encode(str(d))[0] for d in range(10)]
        self.marks = [codec.encode(m) for m in ("=", " ->", ",", ";", ".", " |", " is", " /")]

    def copy_share(self, p):
        """Share of bare copying sequences: they teach in-context look-up early on."""
        return self.copy * max(0.08, 1 - p / 0.5)

    # ------------------------------------------------------------ noise patterns
    def block_pattern(self, n, content):
        """Mask for n positions whose first `content` are answer tokens; at least one is True."""
        rng = self.rng
        if rng.random() < 0.5:
            m = self.np.random(n) < rng.random()
        else:
            m = np.ones(n, bool)
            m[:rng.randint(0, max(0, min(content, n) - 1)) if content else 0] = False
            m &= self.np.random(n) >= 0.3 * rng.random()
        if 0 < content < n and rng.random() < 0.7:
            # A rate of its own: when decoding, the padding behind an answer is decided early and
            # one token at a time, mostly from the far end. A tail that is decided up to some place
            # must not say that the answer reaches that place, so every cut occurs.
            kind = rng.randrange(4)
            if kind < 2:
                cut = rng.randint(content, n)
                m[content:cut], m[cut:] = True, False
            else:
                m[content:] = self.np.random(n - content) < (1.0 if kind == 2 else rng.random())
        if not m.any():
            m[rng.randrange(min(n, max(1, content)))] = True
        return m

    def canvas(self, answer):
        need = -(-len(answer) // self.block) * self.block
        u = self.rng.random()
        if u < 0.55 or need >= 128:
            return need
        return need + self.block if u < 0.9 else self.rng.choice(range(need, 129, self.block))

    def llada(self, prompt, answer, p):
        rng = self.rng
        size = self.canvas(answer)
        ids = np.array(prompt + answer + [EOS] * (size - len(answer)))
        n0, n = len(prompt), len(prompt) + size
        mask = np.zeros(n, bool)
        w = np.zeros(n, np.float32)
        w[n0:] = 1.0
        w[n0 + len(answer):] = EOS_WEIGHT
        w[n0 + len(answer):n0 + len(answer) + 2] = NEAR_EOS_WEIGHT
        score = np.zeros(n, np.int8)
        u = rng.random()
        dense = 0.30 - 0.25 * min(1.0, p / 0.4)
        if u < dense:
            mask = self.np.random(n) < rng.uniform(0.05, 0.6)
            w[:n0] = 0.5
        elif u < dense + 0.2:
            mask[n0:] = self.block_pattern(size, len(answer))
            score[n0:] = SCORED if size == self.block else IGNORED
        else:
            blocks = size // self.block
            share = [max(2, min(self.block, len(answer) - b * self.block)) for b in range(blocks)]
            b = rng.choices(range(blocks), share)[0]
            s = n0 + b * self.block
            left = max(0, len(answer) - b * self.block)
            mask[s:s + self.block] = self.block_pattern(self.block, left)
            mask[s + self.block:] = True
            w[s + self.block:] *= 0.15
            score[s:s + self.block] = SCORED
        score[n0 + len(answer):] = np.minimum(score[n0 + len(answer):], DECIDED)
        if not mask.any():
            mask[n0] = True
        return ids, mask, w, score * mask

    def sdar(self, prompt, answer, p):
        """A clean context and several noised copies of answer blocks behind it. A copy stands at
        its block's positions and sees the context's earlier blocks and itself (`layout`), so one
        context serves as many noise draws as there are copies."""
        rng = self.rng
        n0 = len(prompt)
        end = -(-(n0 + len(answer)) // self.block) * self.block
        if rng.random() < 0.05:
            end += self.block
        clean = np.array(prompt + answer + [EOS] * (end - n0 - len(answer)))
        first, last = n0 // self.block, end // self.block
        if rng.random() < 0.2 - 0.18 * min(1.0, p / 0.3):
            b = rng.randrange(last)
            if b < first:
                ids = clean[:(b + 1) * self.block]
                mask = np.zeros(len(ids), bool)
                mask[-self.block:] = self.np.random(self.block) < max(0.05, rng.random())
                mask[-1] |= not mask.any()
                w = np.full(len(ids), 0.5, np.float32)
                return ids, mask, w, np.zeros(len(ids), np.int8), self.layout(b * self.block, [b])
        share = []
        for b in range(first, last):
            lo, hi = max(n0, b * self.block), min(n0 + len(answer), (b + 1) * self.block)
            share.append(max(1, hi - lo))
        copies = sorted(first + c for c in rng.choices(range(last - first), share, k=COPIES))
        context = copies[-1] * self.block
        if self.seeds:
            copies.reverse()  # the context's last row then has its next token, the first of a copy, behind it
        ids, mask, w, score = [clean[:context]], [np.zeros(context, bool)], [], []
        for b in copies:
            s = b * self.block
            lo = max(n0, s)
            m = np.zeros(self.block, bool)
            m[lo - s:] = self.block_pattern(s + self.block - lo, max(0, n0 + len(answer) - lo))
            weight = np.ones(self.block, np.float32)
            stop = max(0, n0 + len(answer) - s)
            weight[stop:] = EOS_WEIGHT
            weight[stop:stop + 2] = NEAR_EOS_WEIGHT
            asked = np.arange(s, s + self.block)
            ids.append(clean[s:s + self.block])
            mask.append(m)
            w.append(weight)
            score.append(np.where(asked < n0 + len(answer), SCORED, DECIDED) * m)
        seeds = np.where(np.arange(context) < n0, PROMPT_WEIGHT, 1.0)
        w = np.concatenate([seeds.astype(np.float32)] + w)
        score = np.concatenate([np.zeros(context, np.int8)] + score)
        return (np.concatenate(ids), np.concatenate(mask), w, score,
                self.layout(context, copies))

    def layout(self, context, copies):
        """Position, block and segment (0: context, k: copy k) of every token."""
        position = [np.arange(context)]
        segment = [np.zeros(context, np.int64)]
        for k, b in enumerate(copies):
            position.append(np.arange(b * self.block, (b + 1) * self.block))
            segment.append(np.full(self.block, k + 1))
        position = np.concatenate(position)
        return position, position // self.block, np.concatenate(segment)

    def calculation(self):
        """One step of working as the tasks write it: operands, operation, result."""
        rng, op = self.rng, self.rng.choice("++--*/")
        if op == "+":
            a = rng.randint(2, 97)
            b = rng.randint(2, min(40, 99 - a))
            c = a + b
        elif op == "-":
            a = rng.randint(4, 99)
            b = rng.randint(2, min(60, a - 1))
            c = a - b
        else:
            a = rng.randint(2, 9 if rng.random() < 0.6 else 49)
            b = rng.randint(2, min(9, 99 // a))
            c = a * b
            if op == "/":
                a, c = c, a
        return f"{a}{op}{b}", str(c)

    def drill(self):
        """A block of calculations with most results masked: the facts behind the working."""
        rng = self.rng
        ids, mask = [], []
        rate, spill = rng.uniform(0.6, 1.0), 0.15 * (rng.random() < 0.3)
        while len(ids) < self.block:
            left, right = self.calculation()
            for text, share in ((left, spill), ("=", 0), (right, rate), (", ", 0)):
                part = self.codec.encode(text)
                ids += part
                if share == rate:
                    mask += [rng.random() < rate] * len(part)
                else:
                    mask += [rng.random() < share for _ in part]
        ids, mask = np.array(ids[:self.block]), np.array(mask[:self.block])
        if not mask.any():
            mask[rng.randrange(2, self.block)] = True
        w = np.ones(self.block, np.float32)
        if self.kind == "ar":
            # A causal model is asked for results only: operands are drawn at random.
            return ids, None, np.where(mask, 1.0, 0.0).astype(np.float32), mask * SCORED
        if self.kind == "sdar":
            return ids, mask, w, mask * SCORED, self.plain(self.block)
        return ids, mask, w, mask * SCORED

    def records(self, p):
        """Records, then the same records again, once or more: token ids and which of them are
        determined by what came before. Sequences are short first. Undetermined tokens carry no
        loss: their noise would drown the look-up that these sequences are there to teach."""
        rng = self.rng
        kind = rng.randrange(4)
        longest = 6 + int(24 * min(1.0, p / 0.4))
        n = rng.randint(3, longest if kind == 0 else max(4, longest // 2))
        pool = self.words if rng.random() < 0.6 else range(256, EOS)
        keys = rng.sample(pool, n)
        mark, close = rng.choice(self.marks), rng.choice(self.marks)
        chain = kind < 2
        units = []
        for k in keys:
            if chain:
                units.append([k] + (close if kind else []))
            elif kind == 2:
                units.append([k] + mark + [rng.choice(pool)] + close)
            else:
                units.append([k] + mark + rng.choices(self.digits, k=2) + close)
        ids, known = sum(units, []), []
        known += [False] * len(ids)
        first = len(ids)
        for _ in range(rng.choice([1, 1, 2, 3])):
            if len(ids) > 120:
                break
            again = list(units)
            if chain and rng.random() < 0.3:
                again = again[rng.randrange(n - 1):]
            elif not chain:
                rng.shuffle(again)
            if rng.random() < 0.4:
                gap = rng.sample(self.words, rng.randint(1, 6))
                ids += gap
                known += [False] * len(gap)
            for i, unit in enumerate(again):
                ids += unit
                known += [chain and i > 0] + [True] * (len(unit) - 1)
        return ids, known, first

    def copying(self, p):
        ids, known, n0 = self.records(p)
        ids, known = np.array(ids), np.array(known)
        n = len(ids)
        w = np.where(known, 1.0, 0.0).astype(np.float32)
        mask = np.zeros(n, bool)
        if self.kind == "ar":
            return ids, mask, w, known * SCORED
        if self.kind in ("llada", "dream"):
            mask[n0:] = known[n0:] & (self.np.random(n - n0) < self.rng.uniform(0.1, 1.0))
        else:
            end = n if self.rng.random() < 0.3 else self.rng.randint(int(known.argmax()) + 1, n)
            ids, w, mask, known = ids[:end], w[:end], mask[:end], known[:end]
            lo = max(n0, (end - 1) // self.block * self.block)
            mask[lo:] = known[lo:] & (self.np.random(end - lo) < self.rng.uniform(0.1, 1.0))
        if not mask[n0:].any():
            at = np.nonzero(known)[0]
            mask[at[-1]] = True
        if self.kind == "sdar":
            return ids, mask, w, (known & mask) * SCORED, self.plain(len(ids))
        return ids, mask, w, (known & mask) * SCORED

    def plain(self, n):
        position = np.arange(n)
        return position, position // self.block, np.zeros(n, np.int64)

    def add(self, p):
        self.block = self.rng.choice(self.blocks) if len(self.blocks) > 1 else self.block
        u = self.rng.random()
        if u < self.copy_share(p):
            return self.push(*self.copying(p), self.names.index("copying"))
        if u < self.copy_share(p) + self.drills * (1 - self.copy_share(p)):
            return self.push(*self.drill(), self.names.index("arithmetic"))
        if self.parallel and self.rng.random() < self.parallel:
            family = self.rng.choices(*zip(*OF_PARALLEL.items()))[0]
        else:
            family = self.rng.choices(list(WEIGHTS), self.weights)[0]
        size = pick_size(self.rng, p, self.long) if family in SIZED else None
        prompt, answer = self.codec.pair(self.stream.draw(family, size))
        fam = self.names.index(family)
        if self.kind == "ar":
            ids = np.array(prompt + answer + [EOS])
            w = np.full(len(ids), PROMPT_WEIGHT, np.float32)
            w[len(prompt):] = 1.0
            score = np.zeros(len(ids), np.int8)
            score[len(prompt):-1] = SCORED
            return self.push(ids, None, w, score, fam)
        make = self.sdar if self.kind == "sdar" else self.llada
        return self.push(*make(prompt, answer, p), fam)

    def seed_rows(self, layout):
        """Last rows of clean blocks whose next token follows in the sequence."""
        position, _, segment = layout
        follows = (position[1:] == position[:-1] + 1) & (segment[:-1] == 0)
        return np.nonzero(follows & (position[1:] % self.block == 0))[0]

    def push(self, ids, mask, w, score, *rest):
        layout, fam = rest if len(rest) == 2 else (None, rest[0])
        if self.kind == "ar":
            inputs, targets, w, score = ids[:-1], ids[1:], w[1:], score[1:]
        else:
            if self.kind == "dream":
                mask[0] = False  # no row stands before the first token to predict it
            if self.seeds:
                mask = mask & (layout[0] % self.block > 0)
                score = score * mask
            rows = self.seed_rows(layout) if self.seeds else []
            inputs, targets, ahead, w = np.where(mask, MASK, ids), ids.copy(), w, w * mask
            for row in rows:
                targets[row], w[row] = ids[row + 1], SEED_WEIGHT * ahead[row + 1]
        for bucket in BUCKETS:
            if len(inputs) <= bucket:
                self.queues[bucket].append((inputs, targets, w, score, fam, layout))
                return bucket
        return None

    def batch(self, p):
        while True:
            bucket = self.add(p)
            if bucket is None:
                continue
            size = max(2, self.budget // bucket)
            if len(self.queues[bucket]) >= size:
                rows, self.queues[bucket] = self.queues[bucket], []
                return self.collate(rows, bucket)

    def collate(self, rows, bucket):
        n = len(rows)
        ids = np.full((n, bucket), EOS, np.int64)
        keys = np.zeros((n, bucket), bool)
        place = np.zeros((n, bucket), np.int64)
        block = np.zeros((n, bucket), np.int64)
        segment = np.full((n, bucket), -1)
        flat, tgt, wgt, fam, sco = [], [], [], [], []
        for i, (inp, t, w, s, f, layout) in enumerate(rows):
            if layout is not None:
                place[i, :len(inp)], block[i, :len(inp)], segment[i, :len(inp)] = layout
            ids[i, :len(inp)] = inp
            keys[i, :len(inp)] = True
            at = np.nonzero(w > 0)[0]
            flat.append(at + i * bucket)
            tgt.append(t[at])
            wgt.append(w[at])
            sco.append(s[at].astype(np.int8))
            fam.append(np.full(len(at), f))
        cat = [torch.from_numpy(np.concatenate(x)) for x in (flat, tgt, wgt, sco, fam)]
        if self.kind == "sdar":
            keys = (torch.from_numpy(place), torch.from_numpy(block), torch.from_numpy(segment))
            return torch.from_numpy(ids), keys, cat
        return torch.from_numpy(ids), torch.from_numpy(keys), cat
