# SPDX-License-Identifier: Apache-2.0
"""Accuracy under parallelism: one number for a method's curve of score against tokens a forward.

AUP is the measure of d3LLM (arXiv 2601.07568): with the points (rho_i tokens a forward, y_i score in
percent) of one method in order of rho, without those more than 5 points below the first,

    AUP = rho_1 y_1 + sum_i (rho_i - rho_(i-1)) (y_i W(y_i) + y_(i-1) W(y_(i-1))) / 2,
    W(y) = min(exp(-3 (1 - y / y_max)), 1),

y_max being the best score of any method on the task. Tokens are those delivered: up to and including the
first end of sequence."""

import math

from unmask.rows import apart, glossary
from unmask.rows.errors import UserError
from unmask.rows.rows import grouped, is_reportable, is_synthetic, variation
from unmask.rows.scores import note_of_undecided, score_with_undecided
from unmask.tables import tables

PENALTY, FALL = 3.0, 5.0  # alpha; points of score by which a point may lie below the first


def weight(score, best):
    return min(math.exp(-PENALTY * (1 - score / best)), 1.0) if best > 0 else 0.0


def area(points, best):
    """AUP of (tokens a forward, score in percent) of one method; `best`: the best score of any method."""
    ordered = sorted(points)
    kept = [(rho, y) for rho, y in ordered if y >= ordered[0][1] - FALL]
    total = kept[0][0] * kept[0][1]
    for (rho_0, y_0), (rho, y) in zip(kept, kept[1:]):
        total += (rho - rho_0) * (y * weight(y, best) + y_0 * weight(y_0, best)) / 2
    return total


def _point(rows):
    """Tokens a forward and score in percent of rows taken together, item by item."""
    forwards = sum(row["metrics"]["nfe"] for row in rows)
    scores = [score_with_undecided(row["score"]) for row in rows]
    items, right = sum(s.n for s in scores), sum(s.mean * s.n for s in scores)
    return sum(row["metrics"]["output_tokens"] for row in rows) / forwards, 100 * right / items


def _scored(row):
    return (is_reportable(row) and not is_synthetic(row) and row["score"] and score_with_undecided(row["score"]).n > 0 and
            row["metrics"].get("nfe") and row["metrics"].get("output_tokens") is not None)


def curves(rows):
    """Of every model and task, and of all tasks with an answer together where there are several, the
    methods' curves: {model, task (None: all), method, points, rows (ids), area}. The likelihood of judged text is never
    averaged with scores of answers. The settings that an experiment sweeps are the points
    of a curve; one setting alone is a curve of one point."""
    found = []
    for of_model in grouped([row for row in rows if _scored(row)], lambda row: row["model"]["name"]):
        by_task = grouped(of_model, lambda row: row["workload"]["family"])
        answered = [row for row in of_model if not apart.is_likelihood(row)]
        name_of = apart.told_apart(of_model, apart.differing(of_model, lambda row: row["label"]),
                                   lambda row: (row["workload"]["family"], str(variation(row))))
        parts = [(None, answered)] if len({row["workload"]["family"] for row in answered}) > 1 else []
        parts += [(part[0]["workload"]["family"], part) for part in by_task]
        for task, part in parts:
            found += _curves_of(task, part, name_of)
    return found


def _curves_of(task, rows, name_of):
    tasks = {row["workload"]["family"] for row in rows}
    found = []
    for method in grouped(rows, name_of):
        settings = [group for group in grouped(method, lambda row: str(variation(row)))
                    if {row["workload"]["family"] for row in group} == tasks]
        if settings:
            found.append({"model": method[0]["model"]["name"], "task": task, "method": name_of(method[0]),
                          "likelihood": apart.is_likelihood(method[0]),
                          "points": sorted(map(_point, settings)),
                          "rows": [row.get("mark", row["point_id"]) for group in settings for row in group]})
    best = max((y for curve in found for _, y in curve["points"]), default=0.0)
    for curve in found:
        curve["area"] = area(curve["points"], best)
    return sorted(found, key=lambda curve: -curve["area"])


def report(rows, form):
    """The curves as a table, best area first."""
    found = curves(rows)
    if not found:
        raise UserError("accuracy under parallelism needs rows with a score and counted forward passes")
    table = tables.Table(glossary.columns("model | family | label | >AUP | >settings | >tpf | >score"))
    for curve in found:
        (slow, *_), (fast, *_) = curve["points"][0], curve["points"][-1]
        scores = [y for _, y in curve["points"]]
        span = f"{slow:.2f}" if len(scores) == 1 else f"{slow:.2f} to {fast:.2f}"
        table.add(curve["model"], curve["task"] or "all", curve["method"],
                  tables.number_cell(curve["area"], 1), tables.count_cell(len(scores)), span,
                  f"{scores[0]:.1f}" if len(scores) == 1 else f"{scores[0]:.1f} to {scores[-1]:.1f}")
    table.notes.append("AUP: area under score against tokens/forward, as d3LLM (arXiv 2601.07568) weighs "
                       "it; points more than 5 below a method's slowest are left out")
    table.notes += note_of_undecided(rows)
    return tables.render(table, form)
