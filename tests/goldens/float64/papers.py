# SPDX-License-Identifier: Apache-2.0
"""The rules of five papers, written from their text over the float64 network of net.py: Ada-DLM, Sparse-dLLM,
Focus-dLLM, FOCUS and the chunks of Optimus. They share no code with the program that they test."""
import math

import numpy as np

from net import HEAD, HEADS, KV_HEADS, LAYERS, MASK
from rows import Cache, Run, forward


# ---- Ada-DLM: algorithm 1, eqs. 6 to 10 ---------------------------------------------------------

def ada_dlm(net, prompt, length, s):
    run = Run(prompt, length)
    n, x = run.prompt + length, run.x
    history, cache, pending = np.zeros((n, s["history"])), Cache(n), np.zeros(n, bool)
    tokens, masked = x.copy(), x == MASK
    block = s["block_length"] if s["scope"] == "block" else length
    first, last, step = run.prompt, min(n, run.prompt + block), 0
    traces = np.zeros((2, s["history"]))
    everything = np.arange(n)
    while True:
        refresh = step > 0 and s["cache_steps"] > 0 and step % s["cache_steps"] == 0
        cap = step + 1 == s["steps"] and s["at_cap"] == "commit"
        stay = pending & (s["delay"] == 1 and s["frozen_input"] == "token")
        rows = np.flatnonzero((masked | stay) & (everything >= run.prompt))
        if step == 0 or (refresh and s["refresh_prompt"]):
            rows = everything
        elif refresh:
            rows = everything[run.prompt:]
        pending[:] = False
        run.enter(rows)
        rows, logits = forward(net, x[rows], rows, cache, lambda layer: everything)
        lo, hi = (run.prompt, n) if cap else (first, last)
        at = np.flatnonzero(masked & (everything >= lo) & (everything < hi))
        token, confidence = run.predict(logits[np.searchsorted(rows, at)])
        for p, c in zip(at, confidence):
            fresh = s["first_history"] == "replicate" and history[p, 0] == 0
            history[p] = c if fresh else np.r_[c, history[p, :-1]]
        quota = math.ceil(length / s["steps"]) if s["limit_to_quota"] else None
        k = s["k_tokens"] or max(1, int(s["k"] * {
            "scope": hi - lo, "active": len(at), "sequence": n}[s["k_basis"]] + 0.5))
        ranked = np.arange(lo, hi) if s["ranked"] == "region" else at
        taken = list(range(len(at))) if cap else frozen(run, s, history, at, ranked, k, traces, quota)
        for j in taken:
            p = at[j]
            masked[p], pending[p], tokens[p] = False, True, token[j]
            if s["frozen_input"] == "token":
                x[p] = token[j]
        step += 1
        if step == s["steps"] or not masked[run.prompt:].any():
            break
        while not masked[first:last].any():
            first, last = last, min(n, last + block)
            traces[:] = 0
    run.x = np.where(masked, MASK, tokens)
    return run


def frozen(run, s, history, at, ranked, k, traces, quota):
    """Which of the active positions freeze: indices into `at`."""
    confidence = history[at, 0]
    order = ranked[run.near.order(history[ranked, 0])]
    knows_ranks = s["rule"] != "threshold" and not (s["rule"] == "moving_average" and s["average_threshold"] > 0)
    if s["boundary"] == "last":
        k = len(order)
    everyone = s["short_set"] == "freeze_all" and knows_ranks and len(at) <= k
    near = np.zeros(len(at), bool)
    if len(order) > 1:
        edge = min(max(k, 1), len(order) - 1)
        tier = min(max(k, 1), len(order) - 1) if s["centroid"] == "tier_mean" else 1
        high, low = history[order[:tier]].mean(0), history[order[edge:edge + tier]].mean(0)
        if s["centroid"] == "trace":
            traces[:, 1:] = traces[:, :-1].copy()
            traces[:, 0] = history[order[0], 0], history[order[edge], 0]
            high, low = traces
        near = nearer(run, s, history[at], high, low)
    elif not knows_ranks:
        near = nearer(run, s, history[at], np.zeros(1), np.zeros(1))
    chosen = (near | everyone) & run.near.above(confidence, s["floor"], strict=False)
    surest = [j for j in run.near.order(confidence) if chosen[j]][:quota]
    return surest or (list(run.near.order(confidence)[:1]) if s["guard"] else [])


def nearer(run, s, v, high, low):
    if s["rule"] == "threshold":
        return run.near.above(v[:, 0], s["threshold"])
    if s["rule"] == "moving_average":
        return run.near.above(v.mean(1), s["average_threshold"] or (high.mean() + low.mean()) / 2)
    if s["metric"] == "cosine":
        def cosine(c):
            size = np.linalg.norm(v, axis=1) * np.linalg.norm(c)
            return np.divide(v @ c, size, out=np.zeros(len(v)), where=size > 0)
        side = cosine(high) - cosine(low)
    elif s["metric"] == "manhattan":
        side = np.abs(v - low).sum(1) - np.abs(v - high).sum(1)
    elif s["w_clamp"]:
        side = ((v - (high + low) / 2) * np.maximum(high - low, 0)).sum(1)
    else:
        side = ((v - low) ** 2).sum(1) - ((v - high) ** 2).sum(1)
    side[np.abs(side) < 1e-12] = 0  # as far from both by construction
    run.near.see(side[side != 0])
    return side > 0


# ---- Sparse-dLLM: algorithm 1 of its appendix ---------------------------------------------------

def sparse_dllm(net, prompt, length, s):
    run = Run(prompt, length)
    n, x, block = run.prompt + length, run.x, s["block_length"] or length
    quota = s["tokens_per_step"]
    for first in range(run.prompt, n, block):
        last = first + block
        cache, kept = Cache(n), [None] * LAYERS
        for step in range(block // quota):
            full = step <= s["delay"]
            rows = np.arange(n) if full else np.arange(first, last)
            run.enter(rows)

            def keep(layer, q, p):
                if step == s["delay"]:
                    kept[layer] = retained(run, s, q[first:last], cache.k[layer], first, last, n)

            visible = (lambda layer: np.arange(n)) if full else (
                lambda layer: np.concatenate([kept[layer], np.arange(first, last)]))
            rows, logits = forward(net, x[rows], rows, cache, visible, saw=keep)
            decide(run, x, rows, logits, first, last, quota)
    return run


def retained(run, s, queries, keys, first, last, n):
    others = np.r_[np.arange(first), np.arange(last, n)]
    scored = np.arange(first) if s["eviction"] == "prefix" else others
    mean = queries.mean(0)
    a = np.einsum("hd,khd->kh", mean, keys[scored].repeat(HEADS // KV_HEADS, 1)).mean(1)
    pooled, half = a.copy(), s["kernel_size"] // 2
    if s["pooling"] != "none":
        how = np.max if s["pooling"] == "max" else np.mean
        pooled = np.array([how(a[max(0, j - half):j + half + 1]) for j in range(len(a))])
    count = int(len(scored) * s["retention_ratio"])
    order = run.near.order(pooled)
    best = scored[order[:count]]
    return np.sort(np.r_[best, np.arange(last, n)] if s["eviction"] == "prefix" else best)


def decide(run, x, rows, logits, first, last, quota):
    """The surest masks of the block among the computed rows; (positions, confidences) of all of those."""
    at = np.array([p for p in rows if first <= p < last and x[p] == MASK], int)
    token, confidence = run.predict(logits[np.searchsorted(rows, at)])
    for j in run.near.order(confidence)[:quota]:
        x[at[j]] = token[j]
    return at, confidence


# ---- Focus-dLLM: eqs. 4 to 9 --------------------------------------------------------------------

def focus_dllm(net, prompt, length, s):
    run = Run(prompt, length)
    m, n, x, block = run.prompt, run.prompt + length, run.x, s["block_length"]
    quota, size = s["tokens_per_step"], s["prompt_block_size"]
    blocks = [np.arange(b, min(m, b + size)) for b in range(0, m, size)]
    dense = s["dense_layers"]
    for first in range(m, n, block):
        last, cache, past = first + block, Cache(n), np.full(n, -np.inf)
        for step in range(block // quota):
            masks = np.array([p for p in range(first, last) if x[p] == MASK])
            focus = masks
            rows, sinks, seen = np.arange(n), [np.empty(0, int)], {}
            if step > 0 and s["past_confidence"]:
                wanted = min(len(masks), max(1, int(s["rho"] * quota)))
                focus = np.sort(masks[run.near.order(past[masks])[:wanted]])
                half = s["window"] // 2
                rows = np.unique(np.concatenate([np.arange(max(0, p - half), min(n, p + half + 1))
                                                 for p in focus]))
            elif step > 0:
                rows = focus = np.arange(first, last)
            run.enter(rows)

            def saw(layer, q, p):
                if layer == dense - 1 and s["sinks"]:
                    mass = p.mean((0, 1))[:m]
                    sinks[0] = run.near.order(mass)[:max(1, int(s["sink_fraction"] * m))]

            def cut(layer, at, q, k):
                if step > 0 and s["sparse_attention"] and layer >= dense:
                    seen[layer] = relevant(run, s, q[np.searchsorted(at, focus)], cache.k[layer], blocks)
                return np.arange(len(at))

            def visible(layer):
                if layer not in seen:
                    return np.arange(n)
                return np.unique(np.concatenate([sinks[0], seen[layer], np.arange(m, n)]))

            rows, logits = forward(net, x[rows], rows, cache, visible, cut=cut, saw=saw)
            at, confidence = decide(run, x, rows, logits, first, last, quota)
            if s["inactive_confidence"] == "none":
                past[:] = -np.inf
            past[at] = confidence
    return run


def relevant(run, s, queries, keys, blocks):
    mean = queries.mean(0)
    means = np.array([keys[b].mean(0).repeat(HEADS // KV_HEADS, 0) for b in blocks])
    score = np.einsum("hd,bhd->bh", mean, means).mean(1)
    best = run.near.order(score)[:max(1, int(s["alpha"] * len(blocks)))]
    return np.concatenate([blocks[b] for b in best])


# ---- block diffusion: what FOCUS and Optimus begin with -----------------------------------------

class Blocks:
    """A request whose prompt is padded with masks to whole blocks and prefilled under the block-causal mask; the
    prefill is the first denoising step of a block that is not full."""

    def __init__(self, net, prompt, length, s):
        self.net, self.s, self.block = net, s, s["block_length"]
        n = -(-(len(prompt) + length) // self.block) * self.block
        self.run = Run(prompt, n - len(prompt))
        self.x, self.n, self.answer = self.run.x, n, len(prompt) + length
        self.cache, self.masked = Cache(n), self.run.x == MASK
        end = -(-len(prompt) // self.block) * self.block
        at = np.arange(end)
        sees = at[None] // self.block <= at[:, None] // self.block
        self.run.enter(at, kind="prefill")
        rows, logits = forward(net, self.x[:end], at, self.cache, lambda layer: at, sees=sees)
        self.first = len(prompt) // self.block * self.block
        self.opened = self.accept(rows, logits, len(prompt), end)

    def accept(self, rows, logits, first, last):
        """Decides every mask of [first, last) among the rows that reaches the threshold, at least the best one."""
        at = np.array([p for p in rows if first <= p < last and self.masked[p]], int)
        if not len(at):
            return []
        token, confidence = self.run.predict(logits[np.searchsorted(rows, at)], self.s["temperature"])
        passing = self.run.near.above(confidence, self.s["threshold"], strict=False)
        if not passing.any():
            passing[self.run.near.order(confidence)[0]] = True
        for j in np.flatnonzero(passing):
            self.x[at[j]], self.masked[at[j]] = token[j], False
        return list(at[passing])

    def output(self):
        self.run.x = self.x[:self.answer]
        return self.run


# ---- FOCUS: eqs. 2 to 5 and 16 to 19, sections 4.2 and 4.3 --------------------------------------

def focus(net, prompt, length, s):
    b = Blocks(net, prompt, length, s)
    tokens, steps = (len(b.opened), 1) if b.opened else (0, 0)
    for first in range(b.first, b.n, b.block):
        last = first + b.block
        frozen_rows = np.zeros(b.n, bool)
        while b.masked[first:last].any() or last < b.n:
            commit = not b.masked[first:last].any()
            rows = np.array([p for p in range(first, last) if commit or not frozen_rows[p]])
            before = b.masked.copy()
            b.run.enter(rows, kind="commit" if commit else "denoise")
            masks = b.masked[rows]
            budget = max(1, math.ceil(s["alpha"] * (tokens / steps if steps else 1) - 1e-9))
            scores = {}

            def cut(layer, at, q, k):
                if layer > 1 or masks.sum() <= budget:
                    return np.arange(len(at))
                scores[layer] = importance(q, k)
                if layer == 0:
                    return np.arange(len(at))
                return kept(b.run, at, masks, scores[1] - scores[0], budget, b.cache.there[LAYERS - 1])

            end = [last]

            def visible(layer):
                at = np.arange(last)
                mine = (at < end[0]) | ~before[:last]  # evicted masks: placeholders up to there
                return np.flatnonzero(b.cache.there[layer, :last] & (mine if layer > 1 else True))

            def evict(layer, at, q, k):
                stay = cut(layer, at, q, k)
                end[0] = at[stay][-1] + 1
                return stay

            left, logits = forward(net, b.x[rows], rows, b.cache, visible, cut=evict)
            b.run.forwards[-1]["rows_out"] = len(left)
            decided = b.accept(left, logits, first, last)
            tokens, steps = tokens + len(decided), steps + 1
            for p in rows:
                frozen_rows[p] |= not before[p] and (p + 1 == last or not before[p + 1])
            if commit:
                break
    return b.output()


def importance(q, k):
    """Eq. 2 over every row: a max-pool of width 3 along the keys, softmax, and the sum over heads and queries."""
    a = np.einsum("rhd,khd->hrk", q, k.repeat(HEADS // KV_HEADS, 1)) * HEAD ** -0.5
    a = np.pad(a, ((0, 0), (0, 0), (1, 1)), constant_values=-np.inf)
    a = np.maximum(np.maximum(a[..., :-2], a[..., 1:-1]), a[..., 2:])
    e = np.exp(a - a.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).sum((0, 1))


def kept(run, rows, masks, delta, budget, processed):
    """Indices of the rows that stay: what is no mask, and of the masks the best by eqs. 4 and 5, the ones directly
    before those, and those without K and V in the last layer that lie before the last of them."""
    at = np.flatnonzero(masks)
    passing = run.near.above(delta[at], delta.std(), strict=False)
    count = min(len(rows), max(budget, int(passing.sum())))
    chosen = set(rows[at[run.near.order(delta[at])[:count]]])
    masked = set(rows[at])
    chosen |= {p - 1 for p in chosen if p - 1 in masked}
    chosen |= {p for p in masked if p < max(chosen) and not processed[p]}
    return np.array([i for i, p in enumerate(rows) if not masks[i] or p in chosen])


# ---- Optimus: streaming chunks (section 4.3, table 1) -------------------------------------------

def optimus(net, prompt, length, s):
    """A decided token leaves after one forward with its own id; a chunk is the decided ones that wait and then the
    first masks; keys are what is cached and the chunk."""
    b = Blocks(net, prompt, length, s)
    cached = np.arange(b.n) < b.first
    for first in range(b.first, b.n, b.block):
        last = first + b.block
        if first == b.first and len(prompt) % b.block:
            cached[first:len(prompt)] = True  # the prompt's own tokens were inputs of the prefill
        while b.masked[first:last].any() or last < b.n:
            waiting = [p for p in range(first, last) if not b.masked[p] and not cached[p]]
            masks = [p for p in range(first, last) if b.masked[p]]
            if not masks and not waiting:
                break
            rows = np.array(sorted((waiting + masks)[:s["chunk"]]))
            b.run.enter(rows, kind="denoise" if masks else "commit")
            chunk = np.zeros(b.n, bool)
            chunk[rows] = True
            seen = np.flatnonzero(cached | chunk)
            left, logits = forward(net, b.x[rows], rows, b.cache, lambda layer: seen)
            cached[[p for p in rows if not b.masked[p]]] = True
            b.accept(left, logits, first, last)
    return b.output()
