# SPDX-License-Identifier: Apache-2.0
"""Judges a claim by rows.

A point is a pair of rows that agree in everything the selectors do not fix; where the sides name
different metrics and `right` fits the left row, two values of that row. It holds when the whole of the
95 % interval of its quantity is on the wanted side, fails when no part of it is, and is undecided
otherwise: without an interval, too."""

from collections import Counter
from dataclasses import dataclass, field, replace
import functools
import math

import numpy as np

from unmask import estimates, intervals
from unmask.errors import UserError
from unmask.estimates import estimate_text, short_number
from unmask.intervals import Estimate
from unmask.rows import (circumstance, is_reportable, number_setting, point_name, row_name)
from unmask.verdicts import FAILED, HELD, UNDECIDED, Region, judge

TINY_PARAMETERS = 100_000_000
# So many graded scores that differ show the spread of their differences.
ENOUGH_FOR_A_BOOTSTRAP = 20
INCREASING = (">", ">=", "increasing", "nondecreasing")
OPEN = (">", "<", "increasing", "decreasing")


@dataclass
class Point:
    """Two rows (or one) and what is measured between them."""
    name: str      # what the rows have in common
    shown: str     # the quantity: "FOCUS / DC+"
    measured: Estimate
    items: str     # which items it is of: points of the same items err together
    left: dict
    right: dict | None = None
    result: int = FAILED


@dataclass
class Test:
    """Where the whole interval must lie, with its words; `effect`: differences of at least the
    claim's least one."""
    wanted: str
    where: Region
    effect: Region | None = None

    def of(self, interval):
        """HELD, UNDECIDED or FAILED; an interval that excludes every difference worth the name
        fails too."""
        found = judge(interval, self.where)
        none = self.effect is not None and judge(interval, self.effect) == FAILED
        return FAILED if found == UNDECIDED and none else found


@dataclass
class Result:
    verdict: str = "NOT RUN"
    size: str = ""       # of the published number: "inside" or "outside" the interval, "" not compared
    reason: str = ""     # one line, with the measured number, its interval and n
    scale: str = ""
    measured: Estimate | None = None
    held: int = 0
    undecided: int = 0
    failed: int = 0
    out_of_regime: int = 0
    tiny_models: bool = False
    synthetic: bool = False
    points: list = field(default_factory=list)   # those that were paired, each judged
    judged: list = field(default_factory=list)   # those that the verdict rests on
    unmet: list = field(default_factory=list)    # (name, why) of points out of the regime
    controls: list = field(default_factory=list)  # (Claim, Result) of those that were looked at


def _within(low, high):
    words = short_number(low) + ("" if low == high else " to " + short_number(high))
    return Test(words, Region(low, high))


def _beyond(relation, neutral, slack):
    """Beyond `neutral` in the direction of the relation, or short of it by no more than `slack`."""
    above, is_open = relation in INCREASING, relation in OPEN
    at = neutral - slack if above else neutral + slack
    where = Region(low=at, open=is_open) if above else Region(high=at, open=is_open)
    return Test(f"{'>' if above else '<'}{'' if is_open else '='} {short_number(at)}", where)


def test_of(c):
    """What a claim wants of the interval of a point."""
    neutral = 0.0 if c.of_scores else 1.0
    if c.kind == "ratio" and c.relation == "about":
        return _within(c.expected * (1 - c.tolerance), c.expected * (1 + c.tolerance))
    if c.kind == "ratio":
        return _beyond(c.relation, c.expected, c.expected * c.tolerance)
    if c.kind == "threshold":
        slack = c.tolerance if c.of_scores else abs(c.value) * c.tolerance
        return _beyond(c.relation, c.value, slack)
    if c.kind == "equal":
        return _within(neutral - c.tolerance, neutral + c.tolerance)
    test = _beyond(c.relation, neutral, c.tolerance)
    if c.least > 0:
        test.effect = _beyond(c.relation, neutral, -c.least).where
    return test


def is_absolute(c):
    """Whether distances are of values; of ratios they are of logarithms."""
    return c.of_scores or c.kind == "threshold"


def noise_of(c, e):
    """Says by how much a speed is NOISY: "NOISY: ±31 %"; "" where it is not."""
    if not estimates.is_speed(c.left.metric) or e.low is None or not e.low > 0:
        return ""
    half = math.sqrt(e.high / e.low) - 1
    return f"NOISY: ±{100 * half:.0f} %" if half > estimates.NOISY_HALF_WIDTH else ""


def _compare(c, left, right):
    if c.of_scores:
        return estimates.score_difference(left, right)
    other = c.left.metric if c.kind == "monotone" else c.right.metric
    return estimates.ratio(left, right, c.left.metric, other)


def _free_keys(c):
    """Keys that one side fixes otherwise than the other: rows may differ in them."""
    keys = {key for one, other in ((c.left, c.right), (c.right, c.left))
            for key, values in one.keys.items() if other.keys.get(key) != values}
    return frozenset(keys | ({c.along} if c.along else set()))


def _place(row):
    return f"{row['model']['name']}, {row['workload']['family']}, batch {row['batch_size']}"


def _partners(left, candidates, free):
    """The candidates in the circumstances of `left`. A free key is free only as far as it must be:
    rows that agree in all keys are partners before any others are."""
    wanted, exact = circumstance(left, free), circumstance(left)
    found = [row for row in candidates if row is not left and circumstance(row, free) == wanted]
    same = [row for row in found if circumstance(row) == exact]
    return found if len(found) < 2 or not same else same


def _pairs(c, rows):
    free, points = _free_keys(c), []
    right_rows = [row for row in rows if c.right.matches(row)]
    for row in rows:
        if not c.left.matches(row):
            continue
        partners = _partners(row, right_rows, free)
        if c.left.metric != c.right.metric and c.right.matches(row):
            partners = [row]  # two values of one row: it is its own partner
        if len(partners) > 1:
            raise UserError(f"{c.where}: claim '{c.id}': the left row {row_name(row)} "
                            f"({_place(row)}) has {len(partners)} partners, among them "
                            f"{row_name(partners[0])} and {row_name(partners[1])}; make `right` "
                            "narrower")
        e = _compare(c, row, partners[0]) if partners else None
        if e is not None:
            sign = " - " if c.of_scores else " / "
            points.append(Point(_place(row), row["label"] + sign + partners[0]["label"], e,
                                row["workload"]["hash"], row, partners[0]))
    return points


def _series(c, rows):
    groups, points = {}, []
    for row in rows:
        if c.left.matches(row) and number_setting(row, c.along) is not None:
            groups.setdefault((circumstance(row, {c.along}), row["label"]), []).append(row)
    for group in groups.values():
        group.sort(key=lambda row: number_setting(row, c.along))
        for earlier, later in zip(group, group[1:]):
            before, now = number_setting(earlier, c.along), number_setting(later, c.along)
            if before == now:
                raise UserError(f"{c.where}: claim '{c.id}': two rows have {c.along} = "
                                f"{short_number(now)}; make `left` narrower")
            e = _compare(c, later, earlier)
            if e is not None:
                shown = (f"{later['label']} from {c.along} {short_number(before)} to "
                         f"{short_number(now)}")
                points.append(Point(_place(later), shown, e, later["workload"]["hash"], later,
                                    earlier))
    return points


def _levels(c, rows):
    found = [(row, estimates.estimate(row, c.left.metric)) for row in rows if c.left.matches(row)]
    return [Point(_place(row), row_name(row), e, row["workload"]["hash"], row)
            for row, e in found if e is not None]


def _pooled_scores(points):
    """All pairs of items together, each item of a workload once: its scores over several points
    (batch sizes, say) are averaged. None unless every point kept its items."""
    sums = {}  # of each workload: left, right, points, graded, item by item
    for p in points:
        x, y = estimates.paired_scores(p.left, p.right) if p.right else ([], [])
        if not x:
            return None
        x, y = np.array(x), np.array(y)
        graded = ((x > 0) & (x < 1)) | ((y > 0) & (y < 1))
        block = np.array([x, y, np.ones(len(x)), graded])
        known = sums.setdefault(p.items, np.zeros((4, 0)))
        width = max(known.shape[1], len(x))
        total = np.zeros((4, width))
        total[:, :known.shape[1]] += known
        total[:, :len(x)] += block
        sums[p.items] = total
    left, right, n, graded = np.concatenate([sums[key] for key in sorted(sums)], axis=1)
    left, right = left / n, right / n
    e = intervals.paired_score_difference(left, right)
    won, lost = int((left > right).sum()), int((left < right).sum())
    if won + lost >= ENOUGH_FOR_A_BOOTSTRAP and bool((graded > 0).all()):
        return replace(e, how=f"pooled pairs of graded scores, {won + lost} differ, {e.how}")
    # A handful of items that differ tell a bootstrap less than it says: where the signs alone, as
    # shares of pairs of which each moves the mean by as much, leave more open, so does the whole.
    both = int(((left == right) & (left >= 0.5)).sum())
    signs = intervals.paired_share_difference(both, won, lost, len(left) - both - won - lost)
    how = f"pooled pairs, {won} up, {lost} down, McNemar p = {intervals.mcnemar_p(won, lost):.2g}"
    if e.low is None or signs.low is None:
        return replace(e, how=how)
    each = 1 if won + lost == 0 else float(np.abs(left - right).sum()) / (won + lost)
    return replace(e, low=min(e.low, each * signs.low), high=max(e.high, each * signs.high), how=how)


def _pooled_shares(c, points):
    every = []
    for p in points:
        items = estimates.item_shares(p.left, c.left.metric)
        if not items or p.right:
            return None
        every += items
    return intervals.share_over_items(every)


def _average(c, points):
    """Of times and rates the geometric mean, of what has items all of them pooled, of the rest the
    mean; its interval from theirs. Where one of them has none, there is none."""
    if len(points) == 1:
        return points[0]
    plain = is_absolute(c)
    scale, back = ((lambda v: v), (lambda v: v)) if plain else (_log, math.exp)
    values = [scale(p.measured.value) for p in points]
    ranges = [(scale(p.measured.low), scale(p.measured.high)) for p in points
              if p.measured.low is not None]
    name = (f"mean of {len(points)} points from {short_number(back(min(values)))} to "
            f"{short_number(back(max(values)))}")
    pool = _pooled_scores(points) if c.of_scores and c.kind != "threshold" else _pooled_shares(
        c, points)
    if pool is not None:
        return replace(points[0], measured=pool, name=f"{name}; {pool.how}")
    low = high = None
    if len(ranges) == len(values):
        low, high = map(back, intervals.interval_of_average(values, ranges,
                                                            [p.items for p in points]))
    n, unit = len(points), "points"
    if points[0].measured.unit == "items":
        of = {}
        for p in points:
            of[p.items] = max(of.get(p.items, 0), p.measured.n)
        n, unit = sum(of.values()), "items"
    e = Estimate(back(intervals.mean(values)), low, high, n, unit, "mean of points")
    return replace(points[0], measured=e, name=name)


def _log(value):
    return math.log(value) if value > 0 else -math.inf


def _extreme(c, points):
    """The best of several points is not judged as if it were the only one."""
    pick, word = (max, "largest") if c.aggregate == "max" else (min, "smallest")
    best = pick(points, key=lambda p: p.measured.value)
    if len(points) == 1:
        return best
    bounds = intervals.corrected_for(len(points), best.measured, not is_absolute(c))
    low, high = bounds if bounds is not None else (None, None)
    return replace(best, measured=replace(best.measured, low=low, high=high),
                   name=f"{best.name}, the {word} of {len(points)} points, interval corrected for "
                        "their number")


def _aggregated(c, points):
    if not points or c.aggregate == "each":
        return points
    return [_average(c, points) if c.aggregate == "mean" else _extreme(c, points)]


def _unmet(c, point, rows):
    """What of a point's circumstances is not as the claim presumes: "says (metric is 11.3)"; "" where
    all is. Rows that a precondition names and that are not there cannot vouch for it."""
    for p in c.preconditions:
        free = frozenset(p.where.keys)
        here = circumstance(point.left, free)
        wanted = _beyond(p.relation, p.value, 0).where
        found = False
        for row in rows:
            if not p.where.matches(row) or circumstance(row, free) != here:
                continue
            v = estimates.value(row, p.where.metric)
            if v is None:
                continue
            found = True
            if not wanted.holds(v[0]):
                return (f"{p.says} ({p.where.metric} of {row_name(row)} is {short_number(v[0])}, "
                        f"{_place(row)})")
        if not found:
            return f"{p.says} (no row with {p.where.text()} in {_place(point.left)} tells)"
    return ""


def _none_reason(c, rows):
    for row in rows:
        fits = c.left.matches(row) or (c.two_sided and c.right.matches(row))
        if not is_reportable(row) and fits:
            return f"NOT RUN: {row_name(row)} is {row['verdict']}: {row['reason']}"
    partner = f" and a partner for right ({c.right.text()})" if c.two_sided else ""
    return f"NOT RUN: no rows with {c.left.metric} for left ({c.left.text()}){partner}"


@functools.lru_cache(maxsize=None)
def _interval_of_equal_answers(n):
    """The narrowest interval that n items can have on which both sides agree; as many right as wrong
    gives its mirror image."""
    every = (intervals.paired_share_difference(right, 0, 0, n - right) for right in range(n // 2 + 1))
    return min((e.range for e in every if e.low is not None), key=lambda r: r[1] - r[0],
               default=(-1.0, 1.0))


def _undecided_reason(c, shown, test):
    """What a point that decides nothing lacks. Of scores also whether more agreement could have
    helped: two points are out of reach of a dozen items, however they come out."""
    e = shown.measured
    if e.low is None:
        if estimates.is_speed(c.left.metric):
            return "; undecided: timed once, which says nothing of a speed"
        return "; undecided: " + (e.how or "no interval")
    text = (f"; underpowered: {e.n} {e.unit}, interval [{short_number(e.low)}, "
            f"{short_number(e.high)}] contains the bound")
    noise = noise_of(c, e)
    text += f"; {noise}" if noise else ""
    if not c.of_scores or c.kind == "threshold":
        return text
    least = _interval_of_equal_answers(e.n)
    if c.tolerance > 0 and judge(least, test.where) == UNDECIDED:
        text += (f"; even {e.n} equal answers leave at least [{short_number(least[0])}, "
                 f"{short_number(least[1])}]")
    return text


def _reason(c, r, points, shown, test):
    text = ""
    if len(points) > 1:
        undecided = f", {r.undecided} undecided" if r.undecided else ""
        text = (f"{r.held} of {len(points)} points hold{undecided}; "
                f"{'the closest' if r.held == len(points) else 'the worst'}: ")
    e = shown.measured
    text += f"{shown.shown} = {estimate_text(e)}, wanted {test.wanted}"
    text += f", {shown.name}" if shown.name.startswith("mean of") else f" ({shown.name})"
    if e.low is not None and e.how == "counted":
        text += "; counted, exact for these prompts"
    if shown.result == UNDECIDED:
        text += _undecided_reason(c, shown, test)
    if shown.result == FAILED and judge(e.range, test.where) != FAILED:
        text += f"; no difference of {short_number(c.least)} or more: the interval excludes it"
    if r.tiny_models:
        text += "; on tiny models, not the paper's"
    if r.synthetic:
        text += "; by synthetic weights or a virtual clock"
    if r.size:
        text += (f"; the published size, {short_number(c.published.comparable)}, is {r.size} the "
                 "interval")
    if r.out_of_regime:
        text += f"; {r.out_of_regime} more points are out of the claim's regime"
    return text


def _size(c, points):
    """Whether the published number lies in the interval of all points together, or of the one that an
    "up to" is about."""
    if not c.published or c.published.comparable is None or c.kind == "monotone":
        return ""
    every = _average(c, points).measured
    if every.low is None or noise_of(c, every):
        return ""
    here = Region(every.low - c.published.rounding, every.high + c.published.rounding)
    return "inside" if here.holds(c.published.comparable) else "outside"


def _decisive(points, c):
    """The point that decides: the worst outcome, and among those the one farthest on the wrong
    side."""
    centre = c.expected if c.kind == "ratio" else 0 if c.of_scores else 1
    both_ways = c.kind == "equal" or c.relation == "about"

    def badness(p):
        v = p.measured.value
        return p.result, abs(v - centre) if both_ways else -v if c.relation in INCREASING else v
    return max(points, key=badness)


def rests_on_repetitions(c):
    """Whether a claim grows sure with repetitions or seeds; all else does with items."""
    return any(estimates.reads_the_clock(m) or m.startswith("slo_")
               for m in (c.left.metric, c.right.metric))


def names_behind(c, rows):
    """Names of the points that a claim rests on."""
    selectors = [c.left] + ([c.right] if c.two_sided else []) + [p.where for p in c.preconditions]
    return {point_name(row) for row in rows if is_reportable(row) and
            any(s.matches(row) for s in selectors)}


def check(c, rows, scale):
    """Judges a claim by rows of its artifacts. NOT RUN without rows to compare; UserError where a
    left row has several partners: the selectors must be narrower."""
    result = Result(scale=scale)
    reportable = [row for row in rows if is_reportable(row)]
    points = {"monotone": _series, "threshold": _levels}.get(c.kind, _pairs)(c, reportable)
    if not points:
        result.reason = _none_reason(c, rows)
        return result
    met = []
    for p in points:
        why = _unmet(c, p, reportable)
        if why:
            result.unmet.append((p, why))
        else:
            met.append(p)
    result.out_of_regime = len(result.unmet)
    if not met:
        result.verdict = "NOT APPLICABLE"
        result.reason = "NOT APPLICABLE: presumes that " + result.unmet[0][1]
        return result
    test, points = test_of(c), _aggregated(c, met)
    for p in met + points:
        p.result = UNDECIDED if p.measured.low is None else test.of(p.measured.range)
    result.points, result.judged = met, points
    _count(result, points)
    result.size = _size(c, points)
    shown = _decisive(points, c)
    result.measured = shown.measured
    result.reason = _reason(c, result, points, shown, test)
    return result


def _count(r, points):
    found = Counter(p.result for p in points)
    r.held, r.undecided, r.failed = found[HELD], found[UNDECIDED], found[FAILED]
    r.tiny_models = any(p.left["model"]["parameters"] < TINY_PARAMETERS for p in points)
    r.synthetic = any(estimates.is_modelled(row) for p in points for row in (p.left, p.right) if row)
    if r.held == len(points):
        r.verdict = "REPRODUCED (model)" if r.synthetic else "REPRODUCED"
    elif r.held:
        r.verdict = "PARTLY"
    else:
        r.verdict = "NOT REPRODUCED" if r.failed else "AMBIGUOUS"
