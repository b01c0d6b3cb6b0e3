# SPDX-License-Identifier: Apache-2.0
"""Probes of decisions: each candidate's arg-max, confidence and fate, step by step.

confidence     Focus-dLLM Fig. 1      stagnation   Ada-DLM Figs. 1, 2, 4
decoding       FOCUS Figs. 2, 9-11    contradiction, peak_oracle   controls for Ada-DLM"""

from collections import Counter
import math

from unmask.probes.trace import MOST_TOKENS, mean, over_items, ratio, rounded, share, share_interval, size
from unmask.rows.later import np

TOPS = (1, 2, 4, 8, 16)
SHOWN = 400  # points of the scatter plot


def candidates(step):
    """(position, token, confidence, accepted) of a step, ascending by position."""
    return zip(step["position"], step["token"], step["confidence"], step["accepted"])


def known(step):
    """{position: (token, confidence, accepted)} of a step."""
    return {p: (t, c, a) for p, t, c, a in candidates(step)}


def events(step):
    """(position, token, confidence) of what a step decided, then of what it replaced or, token -1, reopened."""
    return [c[:3] for c in candidates(step) if c[3]] + step.get("edits", [])


def endings(request):
    """{position: (step, token, confidence)} of the last event of each position that ends decided."""
    ends = {p: (at, token, c) for at, step in enumerate(request["steps"]) for p, token, c in events(step)}
    return {p: end for p, end in ends.items() if end[1] >= 0}


def lasting(request):
    """Every candidate and new token in turn, (position, token, confidence, final): whether it was decided and
    no later edit takes it away."""
    to_come = Counter(p for step in request["steps"] for p, _, _ in step.get("edits", []))
    for step in request["steps"]:
        for p, token, c, accepted in candidates(step):
            yield p, token, c, accepted and not to_come[p]
        for p, token, c in step.get("edits", []):
            to_come[p] -= 1
            if token >= 0:
                yield p, token, c, not to_come[p]


def canvas_of(request):
    """Tokens of the canvas as the request ends; -1: not decided."""
    canvas = [-1] * size(request["canvas"], MOST_TOKENS)
    for position, (_, token, _) in endings(request).items():
        if 0 <= position - request["prompt"] < len(canvas):
            canvas[position - request["prompt"]] = token
    return canvas


def tenth_of(confidence):
    """Tenth 0 to 9 of a confidence, in its own type."""
    return int(np.clip(np.float32(confidence) * np.float32(10), 0, 9))


def steps_of(trace):
    return sum(len(request["steps"]) for request in trace.requests)


def counted(pairs):
    """A share, its interval, and [part, whole] of every item, so that several tasks can be pooled."""
    return {"share": share(pairs), "share_ci95": share_interval(pairs), "share_items": pairs}


# ---- confidence ---------------------------------------------------------------------------------

def pairs_of(request):
    """Confidences of a position in neighbouring steps, masked in both: [before, now]."""
    pairs = []
    for before, now in zip(request["steps"], request["steps"][1:]):
        was = known(before)
        pairs += [[was[p][1], c] for p, _, c, _ in candidates(now) if p in was]
    return pairs


def correlation(pairs):
    """Pearson's r; NaN under two pairs or without spread."""
    if len(pairs) < 2:
        return math.nan
    centred = np.asarray(pairs, float) - np.mean(pairs, axis=0)
    spread = (centred ** 2).sum(axis=0)
    if not (spread > 0).all():
        return math.nan
    return float((centred[:, 0] * centred[:, 1]).sum() / math.sqrt(spread[0] * spread[1]))


def recall_of_top(request, k):
    """Of the tokens decided in a step, [those among the k most confident still masked one step before
    (lowest position first on ties), all]. Positions that the step before did not judge do not count."""
    part = whole = 0
    for before, now in zip(request["steps"], request["steps"][1:]):
        order = sorted((-c, p) for p, _, c, accepted in candidates(before) if not accepted)
        place = {p: i for i, (_, p) in enumerate(order)}
        was = known(before)
        for p, _, _, accepted in candidates(now):
            if not accepted or p not in was:
                continue
            # A position that was decided, and is again, has as many before it as were more confident.
            rank = place[p] if p in place else sum((c, q) < (-was[p][1], p) for c, q in order)
            whole += 1
            part += rank < k
    return [part, whole]


def confidence(trace):
    by_item = [pairs_of(request) for request in trace.requests]
    recall = [[recall_of_top(request, k) for request in trace.requests] for k in TOPS]
    pairs = [pair for item in by_item for pair in item]
    arrays = [np.reshape(np.asarray(item, float), (-1, 2)) for item in by_item]
    return {"steps": steps_of(trace), "pairs": len(pairs), "correlation": rounded(correlation(pairs)),
            "correlation_ci95": over_items(len(by_item), lambda drawn: correlation(
                np.concatenate([arrays[i] for i in drawn])), 200),
            "recall": {"k": list(TOPS), "value": [rounded(share(r)) for r in recall],
                       "value_ci95": [share_interval(r) for r in recall],
                       "tokens": sum(whole for _, whole in recall[0])},
            "points": rounded(pairs[::max(1, len(pairs) // SHOWN)])}


# ---- stagnation ---------------------------------------------------------------------------------

def stagnation_of(request, tau):
    """[positions whose arg-max is that of the step before and whose confidence is below tau, all judged in
    both] (Ada-DLM's S(t) over A(t))."""
    part = whole = 0
    for before, now in zip(request["steps"], request["steps"][1:]):
        was = known(before)
        for p, token, c, _ in candidates(now):
            if p in was:
                whole += 1
                part += token == was[p][0] and c < tau
    return [part, whole]


def missed_stable(request, tau):
    """Per step, [those below tau, masked positions whose arg-max is from here on the token they end with,
    edits included]; positions that end undecided are left out."""
    ends, stable, steps = endings(request), {}, []
    for at in reversed(range(len(request["steps"]))):
        part = whole = 0
        for p, token, _ in request["steps"][at].get("edits", []):
            if p in ends and token >= 0:
                stable[p] = stable.get(p, True) and token == ends[p][1]
        for p, token, c, _ in candidates(request["steps"][at]):
            if p not in ends or ends[p][0] < at:
                continue
            stable[p] = stable.get(p, True) and token == ends[p][1]
            if stable[p]:
                whole += 1
                part += c < tau
        steps.append([part, whole])
    return steps[::-1]


def declines(request, margin):
    """Tokens decided for good whose position was more than margin more confident in an earlier step:
    (number decided, their drops, scores of the answer with the peak's token where it was another)."""
    scores = iter(request.get("peak_scores", []))
    peak, decided, drops, others = {}, 0, [], []
    for p, token, c, final in lasting(request):
        best = peak.setdefault(p, (c, token))
        if final:
            decided += 1
            score = next(scores, None) if best[1] != token else None
            if best[0] - c > margin:
                drops.append(best[0] - c)
                if best[1] != token:
                    others.append(score)
        if c > best[0]:
            peak[p] = (c, token)
    return decided, drops, others


def compared(pairs):
    """(first better, second better, equal) of pairs of scores that are both there."""
    pairs = [(a, b) for a, b in pairs if a is not None and b is not None]
    return sum(a > b for a, b in pairs), sum(b > a for a, b in pairs), sum(a == b for a, b in pairs)


def stagnation(trace):
    tau, margin = trace.settings["tau"], trace.settings["margin"]
    stagnant = [stagnation_of(request, tau) for request in trace.requests]
    by_step = [[s for s in missed_stable(request, tau) if s[1] > 0] for request in trace.requests]
    missed = [[sum(p for p, _ in steps), sum(w for _, w in steps)] for steps in by_step]
    shares = [ratio(*step) for steps in by_step for step in steps]
    samples = [ratio(*m) for m in missed if m[1] > 0]
    found = [declines(request, margin) for request in trace.requests]
    drops = [drop for _, more, _ in found for drop in more]
    others = sum(len(scores) for _, _, scores in found)
    better = compared([(request.get("score"), score) for request, (_, _, scores) in
                       zip(trace.requests, found) for score in scores])
    declined = [[len(more), decided] for decided, more, _ in found]
    active = np.zeros(max((len(r["steps"]) for r in trace.requests), default=0))
    tenths = [0] * 10
    for request in trace.requests:
        active[:len(request["steps"])] += [len(step["position"]) for step in request["steps"]]
        for _, _, c, final in lasting(request):
            tenths[tenth_of(c)] += final
    return {"steps": steps_of(trace), "tau": tau, "stagnant": sum(p for p, _ in stagnant),
            "active": sum(w for _, w in stagnant), **counted(stagnant),
            "missed_stable": {"stable": sum(w for _, w in missed), "missed": sum(p for p, _ in missed),
                              "step_mean": mean(shares), "step_max": max(shares, default=0.0),
                              "sample_mean": mean(samples), "sample_max": max(samples, default=0.0),
                              **counted(missed)},
            "decline": {"margin": margin, "decided": sum(w for _, w in declined), "declined": len(drops),
                        "other_token": others, "other_token_share": ratio(others, len(drops)),
                        "scored": sum(better), "committed_better": better[0], "peak_better": better[1],
                        "equal": better[2], "mean_drop": mean(drops), **counted(declined)},
            "active_by_step": rounded(active / max(1, len(trace.requests))),
            "decided_confidence": tenths}


# ---- decoding -----------------------------------------------------------------------------------

APART, RANKS = 0.01, 16  # confidences closer than this are those of one token to a float32 softmax


def ranks_apart(requests):
    """Of the steps with at least two masks: the share in which the confidence of rank 1 is more than APART
    above that of rank r + 1, or of the last rank, for r from 1 on."""
    steps = [sorted(step["confidence"], reverse=True) for request in requests for step in request["steps"]]
    steps = [c for c in steps if len(c) > 1]
    return [ratio(sum(c[0] - c[min(r, len(c) - 1)] > APART for c in steps), len(steps))
            for r in range(1, RANKS + 1)] if steps else []


def decoding(trace):
    decided = [[sum(step["accepted"]) for step in request["steps"]] for request in trace.requests]
    per_step = [n for steps in decided for n in steps]
    judged = sum(len(step["position"]) for request in trace.requests for step in request["steps"])
    rows = sum(request["rows"] for request in trace.requests)
    items = [[sum(steps), len(steps)] for steps in decided]
    return {"steps": len(per_step), "decided": sum(per_step), "rows": rows, "judged": judged,
            "mean": mean(per_step), "mean_ci95": share_interval(items),
            "deviation": float(np.std(per_step)) if per_step else math.nan,
            "rows_per_token": ratio(rows, sum(per_step)), "judged_per_token": ratio(judged, sum(per_step)),
            "histogram": np.bincount(per_step).tolist() if per_step else [],
            "ranks_apart": rounded(ranks_apart(trace.requests))}


# ---- a second decode ----------------------------------------------------------------------------

def share_of(part, whole):
    return {"compared": whole, "differ": part, "share": rounded(ratio(part, whole))}


def second(trace, probe, compare):
    """compare(trace, line) where the second decode is there, else why it is not."""
    line = trace.again(probe)
    out = {"steps": steps_of(trace)}
    if line is None:
        return out | {"not_run": "no second decode was offered"}
    if line["problem"] or not line["canvases"]:
        return out | {"not_run": line["problem"] or "no second decode was offered"}
    return out | compare(trace, line)


def answer_length(canvas, stops):
    """Positions up to and including the first stop token, all without one."""
    return next((i + 1 for i, token in enumerate(canvas) if token in stops), len(canvas))


def contradictions(request, other):
    """(inside the answer, tenth of the confidence, differs) of every position that both end with decided."""
    mine, found = canvas_of(request), []
    end = max(answer_length(mine, request["stops"]), answer_length(other, request["stops"]))
    for position, (_, token, confidence) in sorted(endings(request).items()):
        i = position - request["prompt"]
        if 0 <= i < len(other) and other[i] >= 0:
            found.append((i < end, tenth_of(confidence), token != other[i]))
    return found


def contradiction(trace):
    def compare(trace, line):
        by_request = [contradictions(r, c) for r, c in zip(trace.requests, line["canvases"])]
        found = [f for request in by_request for f in request]
        inside = [differs for within, _, differs in found if within]
        first, other, equal = compared([s[:2] for s in line["scores"]])
        return {"reference_steps": line["steps"],
                "canvas": share_of(sum(d for _, _, d in found), len(found)),
                "answer": share_of(sum(inside), len(inside)),
                "requests_that_differ": sum(any(w and d for w, _, d in r) for r in by_request),
                "by_confidence": {"compared": [sum(t == b for _, t, _ in found) for b in range(10)],
                                  "differ": [sum(t == b and d for _, t, d in found) for b in range(10)]},
                "score": {"scored": first + other + equal, "better": first, "reference_better": other,
                          "equal": equal}}
    return {"reference_block": trace.settings["reference_block"]} | second(trace, "contradiction", compare)


def peak_steps(request):
    """{position: first step, up to its decision, where it was most confident}."""
    ends, best = endings(request), {}
    for at, step in enumerate(request["steps"]):
        for p, _, c, _ in candidates(step):
            if p in ends and at <= ends[p][0] and (p not in best or c > best[p][1]):
                best[p] = (at, c)
    return {p: at for p, (at, _) in best.items()}


def peak_oracle(trace):
    def compare(trace, line):
        decided = differ = earlier = 0
        for request, again in zip(trace.requests, line["canvases"]):
            ends, peaks = endings(request), peak_steps(request)
            for i, (token, other) in enumerate(zip(canvas_of(request), again)):
                if token < 0 or other < 0:
                    continue
                position = request["prompt"] + i
                decided += 1
                differ += token != other
                earlier += peaks[position] < ends[position][0]
        scores = [[v or 0 for v in s] for s in line["scores"] if s[0] is not None]
        method, oracle, peak = (rounded(mean([s[i] for s in scores])) for i in range(3))
        return {"decided": decided, "peaked_before": earlier, "oracle_steps": line["steps"],
                "steps_ratio": rounded(ratio(steps_of(trace), line["steps"])),
                "tokens": share_of(differ, decided),
                "score": {"scored": len(scores), "method": method, "oracle": oracle, "peak_tokens": peak}}
    return second(trace, "peak_oracle", compare)
