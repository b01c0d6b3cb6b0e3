# SPDX-License-Identifier: Apache-2.0
"""Three block-wise decoding loops, written from their papers and a description of the official code, each
over the float64 network of net.py. They share no code with the program that they test."""
import math

import numpy as np

from net import MASK, joined, replaced, softmax


class Record:
    """The forwards of a run and the smallest distance that decided something."""

    def __init__(self):
        self.forwards, self.margin, self.masks_predicted = [], 1.0, False

    def saw(self, kind, first, last, ids, branches=None):
        entry = {"rows": len(ids), "pos": [[first, last]], "ids": [int(t) for t in ids], "kind": kind}
        if branches is not None:
            entry["branches"] = branches
        self.forwards.append(entry)

    def predict(self, logits):
        """Token and confidence of every row."""
        p = softmax(logits)
        best = np.sort(p, -1)
        if len(p):
            self.margin = min(self.margin, float((best[:, -1] - best[:, -2]).min()))
        token = p.argmax(-1)
        self.masks_predicted |= bool((token == MASK).any())
        return token, p.max(-1)

    def order(self, confidence):
        """Indices by falling confidence."""
        c = np.sort(confidence)
        if len(c) > 1:
            self.margin = min(self.margin, float(np.diff(c).min()))
        return np.argsort(-confidence, kind="stable")

    def against(self, confidence, threshold):
        if len(confidence):
            self.margin = min(self.margin, float(np.abs(confidence - threshold).min()))


def block_causal(rows, keys, block):
    return np.asarray(keys)[None, :] // block <= np.asarray(rows)[:, None] // block


def masks(x, first, last):
    return [p for p in range(first, last) if x[p] == MASK]


def prefill(net, record, x, whole, block):
    """One forward of `whole` tokens, block-causal; None for an empty one."""
    if whole == 0:
        return None, None
    at = range(whole)
    logits, kept = net.forward(x[:whole], at, None, block_causal(at, at, block))
    record.saw("prefill", 0, whole, x[:whole])
    return logits, kept


def fast_dllm_v2(net, prompt, block, sub, length, threshold, cached):
    """Fast-dLLM v2 (arXiv 2509.26328), the published checkpoint's generate() without stop ids."""
    record, x = Record(), list(prompt)
    whole = len(x) // block * block
    logits, past = prefill(net, record, x, whole, block)
    if whole and whole == len(x):
        x.append(int(record.predict(logits[-1:])[0][0]))
    for _ in range(length // block):
        first = len(x) // block * block
        x += [MASK] * (first + block - len(x))
        refine_block(net, record, x, past, first, block, sub, threshold, cached)
        at = range(first, first + block)
        logits, kept = net.forward(x[first:], at, past, np.ones((block, first + block), bool))
        record.saw("commit", first, first + block, x[first:])
        past = joined(past, kept)
        x.append(int(record.predict(logits[-1:])[0][0]))
    return x[len(prompt):], record


def refine_block(net, record, x, past, first, block, sub, threshold, cached):
    last, inside = first + block, None
    for begin in range(first, last, sub):
        end = begin + sub
        while masks(x, begin, end):
            alone = cached and inside is not None and x[begin] != MASK
            lo, hi = (begin, end) if alone else (first, last)
            if alone:
                # Keys: the cache, the block's rows before, its rows behind, then the new ones.
                rest = [(np.delete(k, range(begin - first, end - first), 0),
                         np.delete(v, range(begin - first, end - first), 0)) for k, v in inside]
                keys = joined(past, rest)
            else:
                keys = past
            sees = np.ones((hi - lo, first + block), bool)
            logits, kept = net.forward(x[lo:hi], range(lo, hi), keys, sees)
            record.saw("denoise", lo, hi, x[lo:hi])
            inside = replaced(inside, begin - first, kept) if alone else kept
            todo = masks(x, begin, end)
            token, confidence = record.predict(logits[[p - 1 - lo for p in todo]])
            record.against(confidence, threshold)
            surest = record.order(confidence)[0]
            for j, p in enumerate(todo):
                if confidence[j] > threshold or j == surest:
                    x[p] = int(token[j])


def multi_block(net, prompt, block, length, most, add, activation, threshold):
    """MultiBD (arXiv 2606.29215) as Diffulex runs it: blocks from position 0, no stop ids. The mask token is
    left out of the softmax."""
    record, n = Record(), len(prompt)
    end = -(-(n + length) // block) * block
    x = list(prompt) + [MASK] * (end - n)
    state = ["store"] * (n // block) + (["active"] if n % block else [])
    cached, past, first_turn = 0, None, True
    progress = lambda b: (block - len(masks(x, b * block, (b + 1) * block))) / block  # noqa: E731
    while True:
        waiting = [b for b in range(cached, len(state)) if not (first_turn and state[b] == "store")]
        room = len(state) * block < end and not (first_turn and n % block == 0)
        if room and (not waiting or (progress(len(state) - 1) >= add and len(waiting) < most)):
            state.append("active")
        full = [b == 0 or progress(b - 1) >= activation for b in range(len(state))]
        lo, hi = cached * block, len(state) * block
        at, keys = range(lo, hi), range(hi)
        logits, kept = net.forward(x[lo:hi], at, past, block_causal(at, keys, block))
        record.saw("prefill" if first_turn else "denoise", lo, hi, x[lo:hi])
        logits[:, MASK] = -np.inf
        for b in range(cached, len(state)):
            if state[b] == "active":
                decide_in_block(record, x, logits, lo, b * block, block, threshold, full[b])
        stored = sum(s == "store" for s in state[cached:]) * block
        past = joined(past, [(k[:stored], v[:stored]) for k, v in kept])
        cached += stored // block
        for b in range(cached, len(state)):
            if masks(x, b * block, (b + 1) * block):
                break
            state[b] = "store"
        first_turn = False
        if len(state) * block == end and "active" not in state[cached:]:
            return x[n:], record


def decide_in_block(record, x, logits, lo, first, block, threshold, full):
    todo = masks(x, first, first + block)
    if not todo:
        return
    token, confidence = record.predict(logits[[p - lo for p in todo]])
    record.against(confidence, threshold)
    surest = record.order(confidence)[0]
    forced = full and not (confidence > threshold).any()
    for j, p in enumerate(todo):
        if confidence[j] > threshold or (forced and j == surest):
            x[p] = int(token[j])


def ordered(record, todo, confidence, by_place):
    return list(range(len(todo))) if by_place else list(record.order(confidence))


def step(record, todo, confidence, k, threshold, by_place):
    """Which of the masks one step decides: indices into todo, in their order."""
    order = ordered(record, todo, confidence, by_place)
    if threshold is None:
        return order[:k]
    record.against(confidence, threshold)
    passing = [j for j in order if confidence[j] >= threshold]
    if by_place:
        run = 0
        while run < len(todo) and confidence[run] >= threshold:
            run += 1
        passing = order[:run]
    return passing or order[:k]


def drafts_of(record, window, todo, token, confidence, count, k, threshold, by_place):
    """d_0 is the next step, d_i has i k more of the masks, all by the same predictions."""
    start = step(record, todo, confidence, k, threshold, by_place)
    rest = [j for j in ordered(record, todo, confidence, by_place) if j not in start]
    drafts = []
    for i in range(count):
        draft = list(window)
        for j in start + rest[:i * k]:
            draft[todo[j]] = int(token[j])
        drafts.append(draft)
    return drafts


def freedave(net, prompt, block, length, most, k, threshold, by_place):
    """FreeDave (arXiv 2510.00294) on a block-causal model, without looking into later blocks."""
    record, n = Record(), len(prompt)
    end = -(-(n + length) // block) * block
    x = list(prompt) + [MASK] * (end - n)
    whole = n // block * block
    past = prefill(net, record, x, whole, block)[1]
    for first in range(whole, end, block):
        window = draft_block(net, record, x[first:first + block], past, first, most, k, threshold,
                             by_place)
        x[first:first + block] = window
        at = range(first, first + block)
        kept = net.forward(window, at, past, np.ones((block, first + block), bool))[1]
        record.saw("commit", first, first + block, window)
        past = joined(past, kept)
    return x[n:], record


def draft_block(net, record, window, past, first, most, k, threshold, by_place):
    block = len(window)
    at = range(first, first + block)
    sees = np.ones((block, first + block), bool)
    logits = net.forward(window, at, past, sees)[0]
    record.saw("denoise", first, first + block, window, 1)
    while True:
        todo = masks(window, 0, block)
        token, confidence = record.predict(logits[todo])
        count = min(most, math.ceil(len(todo) / k))
        drafts = drafts_of(record, window, todo, token, confidence, count, k, threshold, by_place)
        if len(todo) <= k:
            return drafts[0]
        verified = [net.forward(d, at, past, sees)[0] for d in drafts]
        record.saw("denoise", first, first + block, sum(drafts, []), count)
        best = 0
        while True:
            after = next_state(record, drafts[best], verified[best], k, threshold, by_place)
            further = [j for j in range(best + 1, count) if drafts[j] == after]
            if not further:
                break
            best = further[-1]
        window, logits = drafts[best], verified[best]
        if not masks(window, 0, block):
            return window


def next_state(record, draft, logits, k, threshold, by_place):
    todo = masks(draft, 0, len(draft))
    if not todo:
        return list(draft)
    token, confidence = record.predict(logits[todo])
    return drafts_of(record, draft, todo, token, confidence, 1, k, threshold, by_place)[0]
