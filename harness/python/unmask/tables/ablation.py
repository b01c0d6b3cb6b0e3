# SPDX-License-Identifier: Apache-2.0
"""What one changed setting is worth, in speed and in quality, from rows measured in turn on the same
prompts (unmask run --paired).

Verdicts hold an effect's 95 % interval against a margin that is stated beforehand: wholly inside it is
SAME, wholly outside FASTER or SLOWER (BETTER or WORSE), anything else AMBIGUOUS. So noise alone, the
same setting twice, is at most AMBIGUOUS save in the 5 % that every such interval errs."""

import math

from unmask.rows import estimates, glossary, intervals, seeds
from unmask.rows.comparable import comparable, notes_of
from unmask.rows.errors import UserError
from unmask.rows.intervals import Estimate
from unmask.rows.machines import machine_class
from unmask.rows.names import unknown_name
from unmask.rows.rows import circumstance, is_of_any_seed, is_reportable, row_name, variation
from unmask.rows.scores import note_of_undecided
from unmask.rows.verdicts import against_margin
from unmask.tables import tables
from unmask.tables.tables import count_cell, estimate_cell, number_cell


def ratio_verdict(e, margin):
    """A ratio's margin is the same factor both ways: 1 / (1 + m) to 1 + m."""
    return against_margin(e.range, (1 / (1 + margin), 1 + margin), "SLOWER", "FASTER")


def score_verdict(e, margin):
    return against_margin(e.range, (-margin, margin), "WORSE", "BETTER")


def _base_of(row, group, wanted):
    """The row that a row is compared with: the label's row without a sweep's change, else its first;
    `wanted` given: the row of that label, or label and variation."""
    if wanted:
        return next((r for r in group if wanted in (r["label"], row_name(r))), None)
    alike = [r for r in group if r["label"] == row["label"]]
    return next((r for r in alike if not r["variation"]), alike[0])


def _compare_items(line, row, base):
    """Of items that both kept: the same answers, and at batch size 1, where no item waits for another,
    the ratio of their own times, whose interval is over items."""
    ours, theirs = row.get("items"), base.get("items")
    if not ours or not theirs or not ours["id"] or ours["id"] != theirs["id"]:
        return
    line["items"] = len(ours["id"])
    line["same_answers"] = sum(a == b for a, b in zip(ours["answer_hash"], theirs["answer_hash"]))
    if row["batch_size"] == 1 and not line["apart"]:
        fast, slow = ([intervals.mean(s) for s in items["seconds"]] for items in (ours, theirs))
        e = intervals.paired_ratio(slow, fast)
        line["item_speed"] = Estimate(e.value, e.low, e.high, e.n, "items", e.how)
        line["faster_items"] = sum(a < b for a, b in zip(fast, slow))
    if line["score"]:
        first = sum(a and not b for a, b in zip(ours["exact"], theirs["exact"]))
        second = sum(b and not a for a, b in zip(ours["exact"], theirs["exact"]))
        line["mcnemar_p"] = intervals.mcnemar_p(first, second)


def _groups(rows):
    """Rows that may be compared, by what a setting and its base agree in, each group in the order of its rows; a row of
    any seed is in the group of every seed."""
    order = {id(row): number for number, row in enumerate(rows)}
    groups = seeds.by_place(rows, lambda row, more: (circumstance(row, more), machine_class(row)))
    # Where rows of seeds are, a group of rows of any seed has nothing of its own.
    sampled = {id(row) for group in groups for row in group if not all(map(is_of_any_seed, group))}
    return [sorted(group, key=lambda row: order[id(row)]) for group in groups
            if not all(id(row) in sampled for row in group) or not all(map(is_of_any_seed, group))]


def _over_seeds(lines, bases, margins):
    """One line of a setting that was measured once, over the bases of several seeds: means over the seeds."""
    speeds, scores = [line["speed"] for line in lines], [line["score"] for line in lines]
    measured = all(math.isfinite(e.value) for e in speeds)
    speed = seeds.over(speeds, logs=True) if measured else speeds[0]
    score = None if any(e is None for e in scores) else seeds.over_differences(scores)
    return {**lines[0], "base": f"{row_name(bases[0], {'seed'})}, {len(bases)} seeds", "speed": speed,
            "paired": all(line["paired"] for line in lines), "speed_verdict": ratio_verdict(speed, margins[0]),
            "apart": next(filter(None, (line["apart"] for line in lines)), ""),
            "item_speed": None, "faster_items": 0, "mcnemar_p": None, "same_answers": None, "items": 0,
            "score": score, "score_verdict": score_verdict(score, margins[1]) if score else None}


def _compared(row, base, margins):
    paired = (row["run_id"] == base["run_id"] and
              len(row["samples"]["seconds"]) == len(base["samples"]["seconds"]))
    speed = estimates.ratio(row, base, "tokens_per_second") or Estimate(math.nan, unit="",
                                                                        how="not measured")
    line = {"model": row["model"]["name"], "workload": row["workload"]["family"],
            "batch_size": row["batch_size"], "setting": row_name(row), "base": row_name(base),
            "paired": paired, "speed": speed, "speed_verdict": ratio_verdict(speed, margins[0]),
            "apart": comparable(row, base) if speed.how.startswith(estimates.APART) else "",
            "item_speed": None, "faster_items": 0, "score": estimates.score_difference(row, base),
            "score_verdict": None, "mcnemar_p": None, "same_answers": None, "items": 0}
    _compare_items(line, row, base)
    if line["score"]:
        identical = line["same_answers"] is not None and line["same_answers"] == line["items"]
        line["score_verdict"] = "SAME" if identical else score_verdict(line["score"], margins[1])
    return line


def paired_comparison(rows, margins=(0.02, 0.02), base=""):
    """Every setting against its base in the same circumstances; margins: of speed, relative, and of
    scores, of 1. UserError where no row has the label `base`."""
    rows, found, against = [row for row in rows if is_reportable(row)], not base, {}
    for group in _groups(rows):
        for row in group:
            other = _base_of(row, group, base)
            found |= other is not None
            if other is not None and other is not row:
                bases = against.setdefault(id(row), (row, []))[1]
                bases += [] if any(other is one for one in bases) else [other]
    lines = []
    for row, bases in against.values():
        several = [_compared(row, one, margins) for one in bases]
        lines.append(_over_seeds(several, bases, margins) if len(several) > 1 else several[0])
    if not found:
        raise UserError(unknown_name("base, the label of a row", base, map(row_name, rows)))
    return lines


def _effect(members, factor, first, level, margin):
    """A level of a factor against its first, averaged over the settings of all other factors:
    geometric mean of ratios, repetition by repetition. None where rows were not measured in turn."""
    logs, settings = [], 0
    for base, factors in members:
        if factors[factor] != first:
            continue
        for other, of_other in members:
            if of_other != {**factors, factor: level}:
                continue
            a, b = base["samples"]["seconds"], other["samples"]["seconds"]
            if len(a) != len(b) or base["run_id"] != other["run_id"]:
                return None
            tokens = math.log((other["metrics"].get("output_tokens") or 1) /
                              (base["metrics"].get("output_tokens") or 1))
            logs.append([tokens + math.log(x / y) for x, y in zip(a, b)])
            settings += 1
    if not settings:
        return None
    means = [math.exp(sum(column) / settings) for column in zip(*logs)]
    speed = intervals.paired_ratio(means, [1.0] * len(means))
    row = members[0][0]
    return {"model": row["model"]["name"], "workload": row["workload"]["family"],
            "batch_size": row["batch_size"], "label": row["label"], "factor": factor, "level": level,
            "first_level": first, "settings": settings, "speed": speed,
            "verdict": ratio_verdict(speed, margin)}


def main_effects(rows, margins=(0.02, 0.02)):
    """One factor's level against its first of a factorial sweep; [] unless at least two factors vary
    within one label."""
    effects, seen = [], set()
    for group in _groups([row for row in rows if is_reportable(row)]):
        labels = {}
        for row in group:
            factors = {key: value for key, value in variation(row) if key != "seed"}  # the group has one
            labels.setdefault(row["label"], []).append((row, factors))
        for label in sorted(labels):
            members = labels[label]
            rows_of_label = tuple(id(row) for row, _ in members)
            if rows_of_label in seen:  # of any seed: in the group of each
                continue
            seen.add(rows_of_label)
            names = sorted(members[0][1])
            if any(sorted(factors) != names for _, factors in members):
                continue
            levels = {n: list(dict.fromkeys(f[n] for _, f in members)) for n in names}
            levels = {n: values for n, values in levels.items() if len(values) > 1}
            if len(levels) < 2:
                continue
            found = [_effect(members, n, values[0], level, margins[0])
                     for n, values in levels.items() for level in values[1:]]
            effects += [e for e in found if e]
    return effects


def _ratio(e):
    cell = estimate_cell(e, 3)
    if e.low is None and math.isfinite(e.value):
        cell.text += " (no interval)"
    return cell


def _score(e):
    if e is None:
        return "–"
    cell = estimate_cell(e, 1, 100)
    cell.text = f"{e.value * 100:+.1f}"
    return cell


def _shown(verdict):
    return glossary.shown("pair", verdict) if verdict else "–"


def paired_tables(lines, effects, margins):
    """Each setting beside its base, and the main effects where there are some."""
    table = tables.Table(glossary.columns(
        "model | family | >batch_size | setting | compared with | >speed ratio | speed verdict | >ratio per item | "
        ">items faster | >score difference, pp | score verdict | >McNemar p | >same answers | >n"))
    for line in lines:
        item, same = line["item_speed"], line["same_answers"]
        table.add(line["model"], line["workload"], count_cell(line["batch_size"]), line["setting"],
                  line["base"], _ratio(line["speed"]),
                  _shown(line["speed_verdict"]) + ("" if line["paired"] else " (unpaired)"),
                  _ratio(item) if item else "–",
                  f"{line['faster_items']} of {line['items']}" if item else "–",
                  _score(line["score"]), _shown(line["score_verdict"]),
                  number_cell(line["mcnemar_p"], 3),
                  f"{same} of {line['items']}" if same is not None else "–",
                  count_cell(line["speed"].n))
    several = [table]
    if effects:
        second = tables.Table(glossary.columns(
            "model | family | >batch_size | label | factor | level | compared with | >settings | >speed ratio | "
            "speed verdict"))
        second.title = ("Main effects: one factor's level against its first, averaged over the other "
                        "factors")
        for e in effects:
            second.add(e["model"], e["workload"], count_cell(e["batch_size"]), e["label"], e["factor"],
                       e["level"], e["first_level"], count_cell(e["settings"]), _ratio(e["speed"]),
                       _shown(e["verdict"]))
        several.append(second)
    several[-1].notes.append(
        f"SAME: the 95 % interval lies within the margin, {margins[0] * 100:.3g} % of speed and "
        f"{margins[1] * 100:.3g} pp of score; FASTER, SLOWER, BETTER, WORSE: wholly beyond it; "
        f"otherwise {_shown('AMBIGUOUS')}. n: repetitions; ratio per item: of the items' times, interval over "
        "items.")
    if any(not line["paired"] for line in lines):
        several[-1].notes.append("unpaired: not measured in turn; unmask run --paired measures them "
                                 "so.")
    several[-1].notes += notes_of(line["apart"] for line in lines)
    return several


def estimate_json(e):
    return e and {"value": e.value, "interval": e.range, "n": e.n, "n_unit": e.unit, "how": e.how}


def paired_json(lines, effects, margins):
    def plain(entry):
        return {k: estimate_json(v) if isinstance(v, Estimate) else v for k, v in entry.items()}
    return {"speed_margin": margins[0], "score_margin": margins[1],
            "comparisons": list(map(plain, lines)), "main_effects": list(map(plain, effects))}


def paired_report(rows, margins, base, form):
    """The paired view of rows, in one of the formats of tables."""
    if not margins[0] > 0 or not margins[1] > 0:
        raise UserError("--margin and --score-margin must be above 0")
    lines, effects = paired_comparison(rows, margins, base), main_effects(rows, margins)
    if not lines and not effects:
        raise UserError("no row stands beside a base: settings of a method are held against its own "
                        "first, other methods against the one that --base names")
    if form == "json":
        return tables.json_text(paired_json(lines, effects, margins))
    several = paired_tables(lines, effects, margins)
    several[-1].notes += note_of_undecided(rows)
    return tables.render(several, form)
