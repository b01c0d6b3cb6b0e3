# SPDX-License-Identifier: Apache-2.0
"""What claims measure: pooled ratios with the score beside them, differences of scores, shares,
growth along a setting. Each gives a Finding; none of them knows what a claim wants."""

from dataclasses import dataclass, field, replace
import math

from unmask.claims.frame import NeedsRows, Sides, items_kept, settings_of
from unmask.rows import estimates, intervals
from unmask.rows.estimates import is_modelled, short_number
from unmask.rows.intervals import Estimate
from unmask.rows.later import np, special
from unmask.rows.repetition import Repetition, repetition_of, same_texts
from unmask.rows.rows import circumstance, grouped, is_of_any_seed, row_name
from unmask.rows.seeds import over as over_seeds

# So many graded scores that differ show the spread of their differences.
ENOUGH_FOR_A_BOOTSTRAP = 20
PROMPTS = ", over prompts too"
SCORED_WITH = "the score has"
SKEW = "items from the 81st on left out: they were drawn otherwise"


@dataclass
class Finding:
    """What a claim's function measured: the estimate that is judged, the points it is pooled from, and
    of a speed the difference of scores of the same rows, or of the same settings on more items."""
    shown: str
    estimate: Estimate
    points: list = field(default_factory=list)   # [(name, Estimate)]
    quality: Estimate | None = None
    unscored: int = 0                            # points of a speed whose settings have no score
    scored_on: str = ""                          # the tasks of `quality`, where those are other rows
    notes: list = field(default_factory=list)
    sides: Sides | None = None                   # of one comparison of two sides
    picked: str = ""                             # the point that is the estimate, chosen for its value
    worst: str = ""                              # the note that the estimate is of the worst of several points
    texts: Repetition | None = None              # of judged texts, whose score is `quality` or the estimate
    texts_uncounted: bool = False                # such texts are there, differ, and rows do not say how often they repeat

    def count_repetition(self, pairs):
        """Keeps how often the judged texts of some pairs of rows repeat themselves."""
        self.texts = repetition_of(pairs)
        self.texts_uncounted = self.texts is None and not same_texts(pairs)
        if self.texts is None and not self.texts_uncounted:
            self.notes.append("both sides wrote the same texts, which repeat themselves as often")


def place(row):
    """Names the circumstances of a row: model, task, batch size."""
    return f"{row['model']['name']}, {row['workload']['family']}, batch {row['batch_size']}"


def _sides(left, right, sign):
    """Names both sides: by their labels, or with what a sweep changed where these are alike."""
    if left["label"] == right["label"]:
        return f"{row_name(left)} {sign} {row_name(right)}"
    return f"{left['label']} {sign} {right['label']}"


def _geometric(points, groups):
    """The geometric mean of ratios; its interval from theirs."""
    if len(points) == 1:
        return points[0]
    logs = [math.log(e.value) if e.value > 0 else -math.inf for e in points]
    low = high = None
    if all(e.low is not None and e.low > 0 for e in points):
        ranges = [(math.log(e.low), math.log(e.high)) for e in points]
        low, high = map(math.exp, intervals.interval_of_average(logs, ranges, groups))
    how = "counted" if all(e.how == "counted" for e in points) else "geometric mean of points"
    how += PROMPTS if all(PROMPTS in e.how for e in points) else ""
    return Estimate(math.exp(intervals.mean(logs)), low, high, min(e.n for e in points),
                    points[0].unit, how, _least_degrees(points))


def _least_degrees(points):
    """Of a mean of estimates: the fewest that any of them has; None where all are of the normal distribution."""
    return min((e.degrees for e in points if e.degrees is not None), default=None)


def _over_prompts(e, left, right, metric):
    """A ratio of rates with the spread over prompts beside that over repetitions, where both rows kept the
    times of their items, answered one by one: the linearised ratio of means on logarithms (Cochran,
    Sampling Techniques, 1977, 6.9), Student's t; squares of both half widths add up."""
    kept = left.get("items"), right.get("items")
    if (e.low is None or not e.low > 0 or metric not in estimates.RATES or not all(kept) or
            {left["batch_size"], right["batch_size"]} != {1} or kept[0]["id"] != kept[1]["id"] or
            left["workload"]["hash"] != right["workload"]["hash"]):
        return e
    n, terms = len(kept[0]["id"]), 0.0
    for items, sign in zip(kept, (1, -1)):
        seconds = np.array([intervals.mean(s) for s in items["seconds"]])
        tokens = np.array(items["output_tokens"], float) if metric == "tokens_per_second" else np.ones(n)
        terms = terms + sign * (tokens / tokens.sum() - seconds / seconds.sum())
    if n < 2 or not np.all(np.isfinite(terms)):
        return e
    half = intervals.t_quantile(n - 1) * math.sqrt(n / (n - 1) * float((terms ** 2).sum()))
    below = math.hypot(half, math.log(e.value / e.low))
    beyond = math.hypot(half, math.log(e.high / e.value))
    return replace(e, low=e.value * math.exp(-below), high=e.value * math.exp(beyond),
                   how=e.how + PROMPTS)


def _counted(e, left, right, metric, other):
    """A ratio of counts, which is exact for its prompts, with the interval of other prompts where the rows kept the
    counts of every item."""
    if e.how != "counted" or left["workload"]["hash"] != right["workload"]["hash"]:
        return e
    above, below = estimates.counts_of_items(left, metric), estimates.counts_of_items(right, other or metric)
    if not above or len(above) != len(below):
        return e
    return replace(intervals.ratio_over_items(above, below), value=e.value)


def _over_seeds(found):
    """Ratios of pairs of rows, [(left, right, Estimate)]: what a model of the machine gives for several seeds of one point
    is one ratio, with Student's interval over the seeds."""
    def point(pair):
        if not all(map(is_modelled, pair[:2])):
            return tuple(map(id, pair[:2]))
        return tuple((circumstance(row, {"seed"}), row_name(row, {"seed"})) for row in pair[:2])
    lines = []
    for line in grouped(found, point):
        every = [e for _, _, e in line]
        seeds = {left["seed"] for left, _, _ in line}
        alone = len(line) == 1 or len(seeds) < len(line) or not all(e.value > 0 for e in every)
        lines += line if alone else [(*line[0][:2], over_seeds(every, logs=True))]
    return lines


def _ratios(pairs, metric, other):
    found = []
    for left, right in pairs:
        e = estimates.ratio(left, right, metric, other)
        if e is not None:
            e = _counted(e, left, right, metric, other)
            found.append((left, right, _over_prompts(e, left, right, metric)))
    if not found:
        raise NeedsRows(f"{metric} in the rows")
    return _over_seeds(found)


def ratio(frame, metric, of, over, other=None, **where):
    """A count or a rate of one side over that of the other (`other`: another metric there), pooled over all
    points geometrically."""
    frame.metric = metric  # for whoever asks what a claim compares
    found = _ratios(frame.pairs(of, over, **where), metric, other)
    whole = _geometric([e for _, _, e in found], [p["workload"]["hash"] for p, _, _ in found])
    return Finding(_sides(found[0][0], found[0][1], "/"), whole, [(place(p), e) for p, _, e in found],
                   sides=Sides(metric, of, over, where),
                   notes=list(dict.fromkeys(e.how for _, _, e in found if e.how.startswith(estimates.APART))))


def within_row(frame, metric, other, **where):
    """One value of a row over another of the same row, pooled over rows geometrically."""
    rows = frame.pick(**where)
    found = [(row, estimates.ratio(row, row, metric, other)) for row in rows]
    found = [(row, _counted(e, row, row, metric, other)) for row, e in found if e is not None]
    if not found:
        raise NeedsRows(f"{metric} and {other} in the rows")
    whole = _geometric([e for _, e in found], [row["workload"]["hash"] for row, _ in found])
    return Finding(f"{metric} / {other}", whole, [(place(row), e) for row, e in found])


def falling(frame, clock, labels, **where):
    """The largest ratio of neighbours in a list of settings, below 1 where the speed falls all along; its
    interval corrected for their number. The score beside it is of the last over the first."""
    every = [ratio(frame, clock, after, before, **where) for before, after in zip(labels, labels[1:])]
    found = largest(Finding("each / the one before", every[0].estimate,
                            [(f.shown, f.estimate) for f in every]))
    return _scored_as(found, speed(frame, labels[-1], labels[0], clock, **where))


def _scored_as(found, beside):
    """A finding with the score of a speed."""
    found.quality, found.unscored, found.scored_on = beside.quality, beside.unscored, beside.scored_on
    found.texts, found.texts_uncounted = beside.texts, beside.texts_uncounted
    found.notes += [note for note in beside.notes if note.startswith(SCORED_WITH)]
    return found


def speed(frame, of, over, clock="tokens_per_second", **where):
    """How many times as fast one side is, pooled over all points geometrically, and the difference of
    the scores of the same settings: on the items measured for that, else of the same rows."""
    found = ratio(frame, clock, of, over, **where)
    timed = frame.pairs(of, over, **where)
    pairs, others = _pairs_of_scores(frame, of, over, where)
    if pairs and not is_modelled(timed[0][0]):
        answered, judged = _answered_and_judged(pairs)
        kinds = [_over_items(kind, found.notes) for kind in (answered, judged) if kind]
        found.quality = min(kinds, key=lambda e: e.value)
        if judged:
            found.count_repetition(judged)
        found.notes += ["score: the worse of answers and of judged text"] if len(kinds) > 1 else []
        found.unscored = _unscored(timed, pairs) if others else len(timed) - len(_scored(timed))
        found.scored_on = ", ".join(sorted({a["workload"]["family"] for a, _ in pairs})) if others else ""
        found.notes += _scored_with(timed, pairs) if others else []
    return found


def _scored_with(timed, scored):
    """A note of the parameters that the rows of a score have otherwise than those of its speed, by label; [] if none."""
    def settings(pairs):
        found = {}
        for row in {id(row): row for pair in pairs for row in pair}.values():
            for name, value in row["params"].items():
                found.setdefault((row["label"], name), set()).add(str(value))
        return found
    of_speed = settings(timed)
    return [f"{SCORED_WITH} {name} {', '.join(sorted(values))} for {label}, the speed {', '.join(sorted(there))}"
            for (label, name), values in settings(scored).items()
            for there in [of_speed.get((label, name), values)] if not values & there]


def _over_items(pairs, notes, parity=None):
    """The score beside a speed: the mean over items, of all tasks alike; over tasks where rows kept none. Every
    task would ask for its own 200 items to tell two points, and papers do not average what stands beside a speed.
    What is right or wrong is one sample, every graded task its own: small differences of a text say nothing of
    answers that happen to agree."""
    if not all(estimates.paired_scores(a, b)[0] for a, b in pairs):
        return _mean_of_tasks(pairs, notes, parity)[0]
    samples = {}
    for task, members in _by_task(pairs, notes).items():
        scores = _item_scores(members, parity)
        if not len(scores):
            raise NeedsRows(f"more than one item of {task}")
        samples.setdefault(task if scores[:, 2].any() else "answers", []).append(scores)
    every = [_difference(np.concatenate(arrays)) for arrays in samples.values()]
    if len(every) == 1:
        return every[0]
    n = sum(e.n for e in every)
    value = sum(e.n * e.value for e in every) / n
    return Estimate(value, value - math.hypot(*(e.n * (e.value - e.low) for e in every)) / n,
                    value + math.hypot(*(e.n * (e.high - e.value) for e in every)) / n, n, "items",
                    f"mean of {n} items")


def _by_measured_times(pairs):
    """Whether a side chooses what it decides by times measured before it: its text is that of the batch and of the
    latency table it was written with, and no other row has it."""
    return any(row.get("calibration") for pair in pairs for row in pair)


def _pairs_of_scores(frame, of, over, where):
    """Pairs with a score, and whether they are other rows than those of a speed: batches of every size write the
    same text, so those measured for their score have one, unless measured times choose what is written; where the
    clock's tasks have no right answer, they have tasks of their own."""
    if frame.scores is not None and not _by_measured_times(frame.pairs(of, over, **where)):
        asked = {name: value for name, value in where.items() if name != "batch_size"}
        if "workload" in asked and not frame.scores.look(workload=asked["workload"]):
            del asked["workload"]
        try:
            return _scored(frame.scores.pairs(of, over, **asked)), True
        except NeedsRows:
            pass
    return _scored(frame.pairs(of, over, **where)), False


def _unscored(timed, scored):
    """Points of a speed without a score: neither on their own rows nor on other items of the same model and task.
    Where no task of the clock has answers, other tasks stand for all of a model's."""
    def of(row):
        return row["model"]["name"], row["workload"]["family"]
    there = {of(a) for a, _ in scored}
    if not there & {of(a) for a, _ in timed}:
        return sum(a["model"]["name"] not in {model for model, _ in there} for a, _ in timed)
    return sum(of(a) not in there and not (a["score"] and b["score"]) for a, b in timed)


def _scored(pairs):
    return [(a, b) for a, b in pairs if a["score"] and b["score"]]


def _answered_and_judged(pairs):
    """Pairs whose score is that of answers, and those whose score is the likelihood of their text: the
    two are never averaged."""
    return ([p for p in pairs if not p[0]["workload"].get("judge")],
            [p for p in pairs if p[0]["workload"].get("judge")])


def fastest_rival(frame, of, rivals, clock="tokens_per_second", **where):
    """The speed over the fastest of several simpler settings, taken as a whole: the one of largest
    geometric mean over all points."""
    return _fastest(frame, of, rivals, clock, **where)[0]


def _fastest(frame, of, rivals, clock, **where):
    """The speed over the fastest rival, and which that is."""
    every = [(speed(frame, of, rival, clock, **where), rival) for rival in rivals]
    least, rival = min(every, key=lambda found: found[0].estimate.value)
    least.notes.append(f"the fastest of {len(rivals)}")
    if least.estimate.low is not None:
        low, high = intervals.corrected_for(len(rivals), least.estimate, logs=True)
        least.estimate = replace(least.estimate, low=low, high=high)
    return least, rival


def at_equal_score(frame, of, rivals, clock="tokens_per_second", **where):
    """The speed over the fastest rival setting whose score is no worse. Which settings those are the odd
    items say; the difference of scores that stands beside the speed is of the even ones."""
    good = []
    for rival in rivals:
        if not frame.look(**{**where, **settings_of(rival)}):
            continue
        pairs = next(filter(None, _answered_and_judged(_pairs_of_scores(frame, rival, of, where)[0])), [])
        if pairs and _over_items(pairs, [], parity=1).value >= 0:
            good.append(rival)
    if not good:
        raise NeedsRows("a setting of the simpler method that scores as well")
    found, rival = _fastest(frame, of, good, clock, **where)
    pairs = next(filter(None, _answered_and_judged(_pairs_of_scores(frame, of, rival, where)[0])))
    found.quality = _over_items(pairs, found.notes, parity=0)
    return found


def quotient(a, b):
    """One ratio over another: squares of the distances of the logarithms to the ends add up."""
    value, how = a.value / b.value, "ratio of ratios"
    if a.how == b.how == "counted":
        return Estimate(value, value, value, a.n, "items", "counted")
    if a.low is None or b.low is None:
        return Estimate(value, n=a.n, unit=a.unit, how=how)
    below = math.hypot(math.log(a.value / a.low), math.log(b.high / b.value))
    above = math.hypot(math.log(a.high / a.value), math.log(b.value / b.low))
    return Estimate(value, value * math.exp(-below), value * math.exp(above), min(a.n, b.n), a.unit, how,
                    _least_degrees([a, b]))


def growth(frame, metric, of, over, along, first, last, **where):
    """The ratio of two sides at the last value of a setting over the same ratio at the first; of rates with the
    score beside that at the last."""
    frame.along = along, first, last
    late = ratio(frame, metric, of, over, **{**where, along: last})
    early = ratio(frame, metric, of, over, **{**where, along: first})
    points = [(f"{along} {last}", late.estimate), (f"{along} {first}", early.estimate)]
    whole = quotient(late.estimate, early.estimate)
    found = Finding(f"({late.shown}) at {along} {last} / at {first}", whole, points,
                    sides=Sides(metric, of, over, where, (along, first, last)))
    if metric in estimates.RATES:
        return _scored_as(found, speed(frame, of, over, metric, **{**where, along: last}))
    return found


def _item_scores(pairs, parity):
    """Scores of the items of one task, each once: averaged over seeds and batch sizes. Arrays left, right,
    whether graded; None unless every pair kept its items. parity: the items of odd or even place only."""
    sums = {}
    for left, right in pairs:
        x, y = estimates.paired_scores(left, right)
        if not x:
            return None
        keep = items_kept(left) or len(x)
        for place_, (a, b) in enumerate(list(zip(x, y))[:keep]):
            if parity is not None and place_ % 2 != parity:
                continue
            entry = sums.setdefault((left["workload"]["hash"], place_), [0.0, 0.0, 0, False])
            entry[0], entry[1], entry[2] = entry[0] + a, entry[1] + b, entry[2] + 1
            entry[3] |= 0 < a < 1 or 0 < b < 1
    whole = np.array([(a / n, b / n, graded) for a, b, n, graded in sums.values()], float)
    return whole.reshape(-1, 3)


def _difference(scores):
    """Mean difference of paired scores. A handful of items that differ tell a bootstrap less than it
    says: where their signs alone leave more open, so does the whole."""
    left, right, graded = scores[:, 0], scores[:, 1], scores[:, 2] > 0
    e = intervals.paired_score_difference(left, right)
    if e.low is None:  # too few graded items: of the difference of two scores from 0 to 1 nothing more is known
        return replace(e, low=-1.0, high=1.0)
    if int((left != right).sum()) >= ENOUGH_FOR_A_BOOTSTRAP and bool(graded.all()):
        return e
    return intervals.no_narrower_than_signs(e, left, right)


def _difference_of_means(pairs):
    """Of rows that kept no items: the mean over pairs, as of independent shares."""
    every = [estimates.score_difference(left, right) for left, right in pairs]
    if len(every) == 1:
        return every[0]
    values, ranges = [e.value for e in every], [e.range for e in every]
    low, high = intervals.interval_of_average(values, ranges, ["one"] * len(every))
    return Estimate(intervals.mean(values), low, high, every[0].n, "items", every[0].how)


def _by_task(pairs, notes):
    tasks = {}
    for left, right in pairs:
        tasks.setdefault(left["workload"]["family"], []).append((left, right))
    if any((items_kept(a) or math.inf) < a["score"]["n"] for a, _ in pairs):
        notes.append(SKEW)
    return tasks


def _mean_of_tasks(pairs, notes, parity=None, by_item=False):
    """The mean over tasks of the difference of scores, as the papers average them, or over all items
    alike; and [(task, Estimate)]."""
    points, arrays = [], []
    for task, members in _by_task(pairs, notes).items():
        scores = _item_scores(members, parity)
        if scores is None or not len(scores):
            if by_item or parity is not None:
                raise NeedsRows(f"rows of {task} that kept their items")
            points.append((task, _difference_of_means(members)))
            continue
        arrays.append(scores)
        points.append((task, _difference(scores)))
    if by_item:
        return _difference(np.concatenate(arrays)), points
    if len(points) == 1:
        return points[0][1], points
    every = [e for _, e in points]
    low, high = intervals.interval_of_average([e.value for e in every], [e.range for e in every],
                                              [task for task, _ in points])
    return Estimate(intervals.mean([e.value for e in every]), low, high, sum(e.n for e in every), "items",
                    f"mean of {len(points)} tasks"), points


def score(frame, of, over, by_item=False, **where):
    """The difference of two sides' scores on the same items: mean over tasks, or over items where the
    paper has one task in several lengths. Of answers, and of the likelihood of text where nothing else was
    asked for."""
    answered, judged = _answered_and_judged(_scored(frame.pairs(of, over, **where)))
    pairs = answered or judged
    if not pairs:
        raise NeedsRows("scores in the rows")
    notes = []
    whole, points = _mean_of_tasks(pairs, notes, by_item=by_item)
    found = Finding(_sides(*pairs[0], "-"), whole, points, notes=notes)
    if not answered:
        found.count_repetition(pairs)
    return found


def _level_of_counts(e, row, metric):
    """The same of a count of one row, or of a ratio of two of its counts."""
    items = estimates.counts_of_items(row, metric) if e.how == "counted" else []
    return replace(intervals.count_over_items(items), value=e.value) if items else e


def level(frame, metric, **where):
    """A metric or a probe's number: shares that kept their items pooled over tasks, else the mean."""
    rows = frame.pick(**where)
    found = [(row, estimates.estimate(row, metric)) for row in rows]
    found = [(row, _level_of_counts(e, row, metric)) for row, e in found if e is not None]
    if not found:
        raise NeedsRows(f"{metric} in the rows")
    points = [(place(row), e) for row, e in found]
    every = [e for _, e in points]
    items = [estimates.item_shares(row, metric) for row, _ in found]
    if len(found) == 1:
        whole = every[0]
    elif all(items):
        whole = intervals.share_over_items([pair for of_row in items for pair in of_row])
    else:
        low = high = None
        if all(e.low is not None for e in every):
            low, high = intervals.interval_of_average([e.value for e in every], [e.range for e in every],
                                                      [row["workload"]["hash"] for row, _ in found])
        how = "counted" if all(e.how == "counted" for e in every) else "mean of points"
        whole = Estimate(intervals.mean([e.value for e in every]), low, high, sum(e.n for e in every),
                         every[0].unit, how)
    return Finding(f"{metric} of {found[0][0]['label']}", whole, points)


def spread_over_seeds(frame, least, **where):
    """The standard deviation of a score over at least so many seeds, of the mean over tasks of each; its interval is that
    of a normal distribution's (chi square). Rows that every seed repeats have no spread."""
    seeds = {}
    for row in frame.pick(**where):
        if row["score"] and not is_of_any_seed(row):
            seeds.setdefault(row["seed"], []).append(row["score"]["mean"])
    means = [intervals.mean(scores) for scores in seeds.values()]
    if len(means) < least:
        raise NeedsRows(f"scores of {least} seeds at a temperature above 0")
    free = len(means) - 1
    value = float(np.std(means, ddof=1))
    low, high = (value * math.sqrt(free / float(special.chdtri(free, tail))) for tail in (0.025, 0.975))
    return Finding(f"standard deviation over {len(means)} seeds", Estimate(value, low, high, len(means), "seeds", "chi square"))


def difference(first, second):
    """One finding less another of other items or of the same: intervals as of independent ones."""
    a, b = first.estimate, second.estimate
    low = high = None
    if a.low is not None and b.low is not None:
        low = a.value - b.value - math.hypot(a.value - a.low, b.high - b.value)
        high = a.value - b.value + math.hypot(a.high - a.value, b.value - b.low)
    e = Estimate(a.value - b.value, low, high, min(a.n, b.n), a.unit, "difference, as if independent")
    return Finding(f"{first.shown} - {second.shown}", e, [(first.shown, a), (second.shown, b)])


def share(part, whole, unit="items"):
    """A share of counted cases with Wilson's interval."""
    e = Estimate(part / whole, *intervals.wilson(part, whole), whole, unit, "Wilson")
    return Finding(f"{short_number(part)} of {short_number(whole)} {unit}", e)


def largest(found):
    """The largest of a finding's points, its interval corrected for their number: for an "up to" of the paper
    alone. Several campaigns choose it in the first and report it in the others."""
    name, e = max(found.points, key=lambda point: point[1].value)
    found.picked = name
    bounds = intervals.corrected_for(len(found.points), e, logs=True)
    low, high = bounds if bounds is not None else (None, None)
    found.estimate = replace(e, low=low, high=high)
    found.notes.append(f"the largest of {len(found.points)} points: {name}")
    return found


def smallest(found):
    """The worst point, for a paper that says "every" or "never". Every point holds if the interval of each does, so the low
    end is the lowest of all. That one of so many does not hold needs a high end corrected for their number. Several
    campaigns are combined point by point before the worst is taken."""
    name, e = min(found.points, key=lambda point: point[1].value)
    bounds = intervals.corrected_for(len(found.points), e, logs=True)
    lows = [point.low for _, point in found.points]
    known = bounds is not None and None not in lows
    found.estimate = replace(e, low=min(lows) if known else None, high=bounds[1] if known else None)
    found.worst = f"the smallest of {len(found.points)} points: {name}"
    found.notes.append(found.worst)
    return found
