# SPDX-License-Identifier: Apache-2.0
"""A row's score as tables and verdicts take it (the program: harness/rows/scores.cpp)."""

from dataclasses import dataclass

from unmask.rows.intervals import wilson
from unmask.rows.rows import row_name


@dataclass(frozen=True)
class Shown:
    """Of 0 to 1, with its 95 % interval, of so many items."""
    mean: float
    low: float
    high: float
    n: int
    undecided: int = 0
    best: float = 0.0  # the mean if every undecided answer were right


def score_with_undecided(score):
    """A row keeps the mean of the items that were decided. An answer that nobody can judge was given all the
    same, so it counts: as wrong in the mean and the lower end, as right in the upper end."""
    undecided = score.get("undecided", 0)
    if undecided <= 0:
        return Shown(score["mean"], *score["ci95"], score["n"], 0, score["mean"])
    n, right = score["n"] + undecided, score["mean"] * score["n"] if score["n"] else 0.0
    return Shown(right / n, wilson(right, n)[0], wilson(right + undecided, n)[1], n, undecided,
                 (right + undecided) / n)


def note_of_undecided(rows):
    """A list of one sentence that says whose answers could not be judged."""
    found = [(row, score_with_undecided(row["score"])) for row in rows
             if row["score"] and row["score"].get("undecided", 0) > 0]
    if not found:
        return []
    said = "; ".join(f"{score.undecided} of {score.n} of {row_name(row)}, {row['workload']['family']}"
                     for row, score in found[:8])
    return ["Undecided answers count as wrong, and the score's interval ends where all of them were right: "
            + said + (f"; and {len(found) - 8} more rows" if len(found) > 8 else "")]


def has_right_answers(row):
    """Whether the items have right answers; else the score is a likelihood, another quantity."""
    return not row["workload"].get("judge")
