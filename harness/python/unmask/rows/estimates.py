# SPDX-License-Identifier: Apache-2.0
"""Values of rows, and what two rows differ by, each with the interval that its kind allows."""

import dataclasses
import math

from unmask.rows import intervals
from unmask.rows.comparable import comparable
from unmask.rows.intervals import Estimate
from unmask.rows.rows import is_synthetic, setting
from unmask.rows.scores import score_with_undecided

# Half width, relative, from which on a speed is NOISY: no verdict rests on it.
NOISY_HALF_WIDTH = 0.25
RATES = {"tokens_per_second": "output_tokens", "canvas_tokens_per_second": "committed"}
# Rates of what was delivered, from those of all that was decided: padding behind an answer left out.
DELIVERED = {"decode_output_tokens_per_second": "decode_tokens_per_second"}
# How a ratio is told whose two sides are not of one program and machine.
APART = "of rows of two programs or machines"
# Keys of [serve] that are the scheduler's own: they leave arrivals and lengths alone.
SCHEDULER_KEYS = ("policy", "forwards_per_turn", "paging", "recompute", "log")


def is_timed(metric):
    """Tells whether a row's samples give the metric: seconds, or tokens over them."""
    return metric == "wall_seconds" or metric in RATES


def reads_the_clock(metric):
    """Tells whether other load on the machine changes the metric: speeds, shares of the time, fitted
    times of a forward."""
    if metric.startswith(("probes.", "slo_")):
        return False
    return metric.startswith("calibration.") or metric.endswith(("_per_second", "_seconds",
                                                                 "_share"))


def samples(row, metric):
    """What a value is the mean of, by repetition or by seed; [] where it was found once."""
    if not is_timed(metric):
        values, scale = row.get("metric_samples", {}).get(metric, []), 1.0
        if not values and metric in DELIVERED:
            values, scale = row.get("metric_samples", {}).get(DELIVERED[metric], []), _delivered(row)
        return [math.nan if v is None else v * scale for v in values] if len(values) > 1 else []
    seconds = [math.nan if v is None else v for v in row["samples"]["seconds"]]
    if metric == "wall_seconds":
        return seconds
    tokens = row["metrics"].get(RATES[metric]) or 0
    return [tokens / v if v else math.inf for v in seconds]


def _delivered(row):
    """The share of the tokens decided that an answer up to its end holds."""
    metrics = row["metrics"]
    return metrics["output_tokens"] / metrics["committed"] if metrics.get("committed") else math.nan


def _number_at(tree, path):
    """The number at "importance.auc[1]" of a tree of objects and lists."""
    for part in path.replace("]", "").replace("[", ".").split("."):
        if isinstance(tree, dict):
            tree = tree.get(part)
        elif isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return None
    is_number = isinstance(tree, (int, float)) and not isinstance(tree, bool)
    return float(tree) if is_number else None


def value(row, metric):
    """A number of a row and where it comes from: "score" (mean, 0 to 1), what else its scorer measured
    "score.repeated_sequences", a metric, a probe's number "probes.importance.auc[1]", "calibration.mape". None
    where the row does not have it."""
    if metric == "score":
        score = row["score"]
        if not score or is_synthetic(row):
            return None
        # OpenCompass averages subjects and tasks, whatever their number of items.
        of_groups = row["workload"].get("benchmark", {}).get("harness", "").startswith("OC-")
        groups, shown = score.get("mean_of_groups"), score_with_undecided(score)
        decided = score["n"] / shown.n if shown.undecided else 1
        return float(groups * decided if of_groups and groups is not None else shown.mean), "counted"
    origin = "synthetic" if is_synthetic(row) else "counted"
    if metric.startswith("score."):
        found = _number_at((row["score"] or {}).get("beside", {}), metric[6:])
        return None if found is None else (found, origin)
    if metric.startswith("probes."):
        name = metric[7:]
        tree = row if name.startswith("calibration.") else row["probes"]
        found = _number_at(tree, name)
        return None if found is None else (found, origin)
    if metric.startswith("calibration."):
        found = _number_at(row, metric)
        return None if found is None else (found, origin)
    found, of = row["metrics"].get(metric), metric
    if found is None and metric in DELIVERED:
        of = DELIVERED[metric]
        found = row["metrics"].get(of)
        found = None if found is None else found * _delivered(row)
    return None if found is None else (float(found), row["provenance"].get(of, "counted"))


def _beside(metric, suffix):
    """Where what belongs to a value lies: "a.b[2]" with "_ci95" is "a.b_ci95[2]"."""
    at = metric.find("[", metric.rfind(".") + 1)
    at = len(metric) if at < 0 else at
    return metric[:at] + suffix + metric[at:]


def item_shares(row, metric):
    """Parts and wholes by item behind a share of a probe, [(part, whole)]; [] where none were
    kept."""
    if not metric.startswith("probes."):
        return []
    found = []
    while True:
        at = f"{_beside(metric, '_items')}[{len(found)}]"
        part, whole = value(row, at + "[0]"), value(row, at + "[1]")
        if part is None or whole is None:
            return found
        found.append((part[0], whole[0]))


# Counts that a row has of every item, and what each is part of; "": of the item itself.
COUNTS = {"nfe": ("nfe", ""), "denoise_steps": ("denoise_steps", ""), "committed": ("committed", ""),
          "rows": ("rows", ""), "decode_rows": ("decode_rows", ""), "output_tokens": ("output_tokens", ""),
          "late_layer_rows": ("late_layer_rows", ""), "processed_rows": ("late_layer_rows", ""),
          "tpf": ("output_tokens", "nfe"), "committed_per_step": ("committed", "denoise_steps"),
          "redundancy": ("decode_rows", "committed"), "token_utilisation": ("committed", "decode_rows"),
          "processed_rows_per_committed": ("late_layer_rows", "committed"),
          "processed_rows_per_output": ("late_layer_rows", "output_tokens")}


def counts_of_items(row, metric):
    """Parts and wholes by item behind a count, or behind a ratio of two, [(part, whole)], so that their sums divided
    give the row's own value; [] where the row kept none. Trials of one item are one item."""
    part, whole = COUNTS.get(metric, (None, None))
    items, found = row.get("items") or {}, value(row, metric)
    if found is None or not items.get(part) or whole and not items.get(whole):
        return []
    parts = _by_item(row, items[part])
    wholes = _by_item(row, items[whole]) if whole else [1.0] * len(parts)
    if not sum(parts) > 0 or not sum(wholes) > 0:
        return []
    scale = found[0] * sum(wholes) / sum(parts)
    return [(scale * a, b) for a, b in zip(parts, wholes)]


def _by_item(row, counts):
    """The trials of a benchmark follow each other whole."""
    trials = max(1, row["workload"].get("benchmark", {}).get("trials", 1))
    size = len(counts) // trials
    return counts if len(counts) % trials else [sum(counts[i::size]) for i in range(size)]


def _is_sampled(metric):
    """Of a sample of items, not of a count of them all; maxima are what they are."""
    return metric.startswith("probes.") and not metric.endswith("_max")


def _same_arrivals(a, b):
    def drawn(row):
        return {k: v for k, v in row.get("serve", {}).items() if k not in SCHEDULER_KEYS}
    return (a["seed"] == b["seed"] and a["workload"]["family"] == b["workload"]["family"] and
            drawn(a) == drawn(b))


def ratio(left, right, left_metric, right_metric=None):
    """left/right of a metric. Times and rates: from the samples, paired where both rows come from one
    run with as many repetitions. The serving capacity: paired by the seeds of its search where both
    met the same arrivals. Counted and analytic values are exact for these prompts. Times of two programs
    or machines have no interval. None where one is missing or right is 0."""
    right_metric = right_metric or left_metric
    a, b = value(left, left_metric), value(right, right_metric)
    if a is None or b is None or b[0] == 0:
        return None
    apart = comparable(left, right) if "measured" in (a[1], b[1]) else ""
    if apart:
        return Estimate(a[0] / b[0], n=1, unit="repetitions", how=f"{APART} ({apart}), no interval")
    times, others = samples(left, left_metric), samples(right, right_metric)
    searched = left_metric.startswith("slo_") and right_metric.startswith("slo_")
    if times and others:
        same = _same_arrivals(left, right) if searched else left["run_id"] == right["run_id"]
        pairs = len(times) == len(others) and same
        e = (intervals.paired_ratio if pairs else intervals.unpaired_ratio)(times, others)
        if searched:
            e = dataclasses.replace(e, unit="seeds")
        if math.isfinite(e.value):
            return e
    quotient = a[0] / b[0]
    n = min(left["workload"]["items"], right["workload"]["items"])
    if left["workload"]["hash"] == right["workload"]["hash"]:
        x, y = item_shares(left, left_metric), item_shares(right, right_metric)
        if x and len(x) == len(y):
            return intervals.ratio_over_items(x, y)
    if left_metric.startswith("probes.") or right_metric.startswith("probes."):
        return Estimate(quotient, n=n, how="of a sample of items, no interval")
    if "measured" in (a[1], b[1]):
        return Estimate(quotient, n=1, unit="repetitions", how="measured once, no interval")
    return Estimate(quotient, quotient, quotient, n, "items", "counted")


def paired_scores(left, right, undecided=(0.0, 0.0)):
    """Scores of the items that both rows kept, left and right; empty unless both kept the same. An item that
    nobody could judge counts as `undecided` says for each side, where the row's score has such."""
    a, b = left.get("items"), right.get("items")
    if (not a or not b or not a["id"] or a["id"] != b["id"] or
            left["workload"]["hash"] != right["workload"]["hash"]):
        return [], []

    def filled(row, items, with_value):
        counts = (row["score"] or {}).get("undecided", 0) > 0
        return [with_value if v is None and counts else v for v in items["score"]]
    pairs = zip(filled(left, a, undecided[0]), filled(right, b, undecided[1]))
    both = [(x, y) for x, y in pairs if x is not None and y is not None]
    return [x for x, _ in both], [y for _, y in both]


def score_difference(left, right):
    """left - right of the scores, paired where both rows kept the same items. Where answers are undecided the
    interval runs from all of them right on the right hand alone to all of them right on the left alone."""
    a, b = value(left, "score"), value(right, "score")
    if a is None or b is None:
        return None
    shown, other = score_with_undecided(left["score"]), score_with_undecided(right["score"])
    x, y = paired_scores(left, right)
    if x:
        e = intervals.paired_score_difference(x, y)
        if shown.undecided or other.undecided:
            worst = intervals.paired_score_difference(*paired_scores(left, right, (0.0, 1.0)))
            best = intervals.paired_score_difference(*paired_scores(left, right, (1.0, 0.0)))
            e = dataclasses.replace(e, low=worst.low, high=best.high)
        return e
    e = intervals.share_difference(a[0], shown.n, b[0], other.n)
    if shown.undecided or other.undecided:
        worst = intervals.share_difference(a[0], shown.n, other.best, other.n)
        best = intervals.share_difference(shown.best, shown.n, b[0], other.n)
        e = dataclasses.replace(e, low=worst.low, high=best.high)
    return e


def _score_range(row):
    """The interval of a row's score: of the mean of groups its own; of graded items that the row kept anew. Rows of before
    2026-11-29 have Wilson's interval, which is of right and wrong alone: of graded items that are not there it says
    nothing, and they have none."""
    score = row["score"]
    if value(row, "score")[0] == score.get("mean_of_groups") and score.get("mean_of_groups_ci95"):
        return score["mean_of_groups_ci95"]
    kept = [v for v in (row.get("items") or {}).get("score", []) if v is not None]
    if len(kept) == score["n"] and intervals.is_graded(kept):
        return intervals.mean_interval(kept)
    total, bounds = score["mean"] * score["n"], score["ci95"]
    graded = abs(total - score["exact"]) > 1e-6 * score["n"]
    if graded and math.isclose(bounds[0], intervals.wilson(total, score["n"])[0], abs_tol=1e-9):
        return None, None
    return bounds


def estimate(row, metric):
    """One row's value with its interval; None where the row does not have it."""
    found = value(row, metric)
    if found is None:
        return None
    v, origin = found
    items = row["workload"]["items"]
    if metric == "score":
        shown = score_with_undecided(row["score"])
        low, high = (shown.low, shown.high) if shown.undecided else _score_range(row)
        return Estimate(v, low, high, shown.n, "items", "interval of the mean")
    if is_timed(metric) and len(row["samples"]["seconds"]) > 1:
        return _of_samples_of_time(row, metric, v)
    shares = item_shares(row, metric)
    if shares:
        return dataclasses.replace(intervals.share_over_items(shares), value=v)
    if _is_sampled(metric):
        low = value(row, _beside(metric, "_ci95") + "[0]")
        high = value(row, _beside(metric, "_ci95") + "[1]")
        if low is None or high is None:
            return Estimate(v, n=items, how="of a sample of items, no interval")
        return Estimate(v, low[0], high[0], items, "items", "bootstrap over items")
    several = samples(row, metric)
    if several:
        unit = "seeds" if metric.startswith("slo_") else "repetitions"
        half = intervals.half_width(several) * intervals.mean(several)
        e = Estimate(v, n=len(several), unit=unit, how="Student's t")
        known = math.isfinite(half)
        return dataclasses.replace(e, low=v - half, high=v + half) if known else e
    if origin == "measured":
        return Estimate(v, n=1, unit="repetitions", how="measured once, no interval")
    return Estimate(v, v, v, items, "items", "counted")


def _of_samples_of_time(row, metric, v):
    half, n = row["samples"].get("half_width"), len(row["samples"]["seconds"])
    e = Estimate(v, n=n, unit="repetitions", how="Student's t")
    if half is None or not half < 1:
        return e
    # A rate is the inverse of a time: so are the ends of its interval.
    ends = (v * (1 - half), v * (1 + half)) if metric == "wall_seconds" else (v / (1 + half),
                                                                             v / (1 - half))
    return dataclasses.replace(e, low=ends[0], high=ends[1])


def is_modelled(row):
    """Tells whether a row is a statement about a model of the machine: on a virtual clock, or with
    weights without meaning."""
    return is_synthetic(row) or setting(row, "serve.clock") == "virtual"


def short_number(v):
    """Writes a number with digits by its size: 1.63, 97.4, 0.000123."""
    if v is None or not math.isfinite(v):
        return "–"
    size = abs(v)
    if v == math.floor(v) and size < 1e6:
        return f"{v:.0f}"
    return f"{v:.1f}" if size >= 100 else f"{v:.3f}" if size >= 0.1 else f"{v:.3g}"


def interval_text(e):
    """Writes a value and its interval: "1.63 [1.60, 1.66]"; an en dash for none."""
    if e is None:
        return "–"
    text = short_number(e.value)
    if e.low is None:
        return text + " (no interval)"
    return text + (f" [{short_number(e.low)}, {short_number(e.high)}]" if e.low != e.high else "")


def estimate_text(e):
    """Writes an estimate: "1.63 [1.60, 1.66], n = 5 repetitions"."""
    return f"{interval_text(e)}, n = {e.n} {e.unit}"


def estimates_text(found):
    """Writes one quantity found several times: "1.63 [1.60, 1.66]; 1.58 [1.40, 1.78], n = 5 repetitions"."""
    sizes = dict.fromkeys(f", n = {e.n} {e.unit}" for e in found if e is not None)
    if len(sizes) > 1:
        return "; ".join("–" if e is None else estimate_text(e) for e in found)
    return "; ".join(map(interval_text, found)) + "".join(sizes)
