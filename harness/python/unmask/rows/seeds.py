# SPDX-License-Identifier: Apache-2.0
"""Rows that differ in their seed alone: one setting, measured several times (harness/rows/row_table.cpp,
harness/rows/table.cpp)."""

import dataclasses
import math

from unmask.rows import estimates, intervals
from unmask.rows.apart import HASH_SHOWN
from unmask.rows.intervals import Estimate
from unmask.rows.machines import machine_class
from unmask.rows.names import value_text
from unmask.rows.rows import RUN_KEYS, circumstance, grouped, is_of_any_seed, is_reportable, row_name

ANY_NOTE = "seed=any: nothing in the row reads the seed, so it was measured once for all seeds"
NOTE = "N seeds: means of rows that differ in their seed alone, 95 % intervals over the seeds"


def over_seeds(rows):
    """Groups rows that differ in their seed alone, in the order of their first; a row that may not be reported
    is alone, and so are several rows of one seed, which are no sample of seeds."""
    def key(row):
        if not is_reportable(row):
            return id(row)
        return (circumstance(row, {"seed"}), row["model"]["hash"], row["workload"]["hash"], row["method"],
                row["preset"], row_name(row, {"seed"}), machine_class(row),
                tuple((name, value_text(value)) for name, value in sorted(row["params"].items())))
    lines = []
    for group in grouped(rows, key):
        alone = len({row["seed"] for row in group}) != len(group)
        lines += [[row] for row in group] if alone else [group]
    return lines


class Bases:
    """What the rows of a table are compared with, seed by seed: the first of each circumstance and machine. Where that
    is of any seed it is the base of all; what is of any seed otherwise has the bases of all seeds. free: keys in which
    a base may differ; models: whether it must be of the same weights and prompts."""

    def __init__(self, rows, free=(), models=False):
        self.free, self.models = frozenset(free), models
        self.lead, self.first, self.of_all_seeds = {}, {}, {}
        for row in rows:
            of_all, place = self._place(row, {"seed"}), self._place(row)
            lead = self.lead.setdefault(of_all, row)
            if place in self.first or is_of_any_seed(row) and not is_of_any_seed(lead):
                continue
            self.first[place] = lead if is_of_any_seed(lead) else row
            self.of_all_seeds.setdefault(of_all, []).append(self.first[place])

    def _place(self, row, more=frozenset()):
        weights = (row["model"]["hash"], row["workload"]["hash"]) if self.models else ()
        return circumstance(row, self.free | more), machine_class(row), *weights

    def of(self, row):
        """The bases of a row, one but for a row of any seed; none where there is none."""
        of_all = self._place(row, {"seed"})
        lead = self.lead.get(of_all)
        if lead is not None and is_of_any_seed(lead):
            return [lead]
        if is_of_any_seed(row):
            return self.of_all_seeds.get(of_all, [])
        return [base for base in [self.first.get(self._place(row))] if base is not None]

    def pairs(self, line):
        """The rows of one line, each with its bases; None for one that has none."""
        return [(row, base) for row in line for base in self.of(row) or [None]]


def by_place(rows, place):
    """Groups rows by place(row, free): what they must agree in but for some keys. A row of any seed is in the groups of
    all seeds of its place."""
    groups = grouped(rows, lambda row: place(row, frozenset()))
    for row in filter(is_of_any_seed, rows):
        for group in groups:
            if all(row is not other for other in group) and place(row, {"seed"}) == place(group[0], {"seed"}):
                group.append(row)
    return groups


def varying(rows):
    """The keys of [run] that differ within one table, whose rows must be told apart by them."""
    return [key for key in RUN_KEYS if len({row[key] for row in rows}) > 1]


def line_name(line, shown):
    """Names rows of one line by label, variation, the keys of [run] that differ in the table, and how many
    seeds they are."""
    row, seeds = line[0], len(line) > 1
    name = row_name(row, {"seed"} if seeds else ())
    for key in shown:
        if f"{key}=" not in row["variation"] and not (seeds and key == "seed"):
            name += f" {key}={value_text(row[key])}"
    return f"{name}, {len(line)} seeds" if seeds else name


def line_names(lines, shown):
    """The names of a table's lines. Where two of one task would have one name, as a rule before and after an edit, all
    of that name also have the parameters in which these differ (harness/rows/table.cpp, line_names)."""
    def key(line):
        return line[0]["model"]["name"], line[0]["method"], line_name(line, shown)
    first, apart = {}, {}
    for line in lines:
        row = line[0]
        other = first.setdefault((*key(line), row["workload"]["family"], machine_class(row)), row)["params"]
        apart.setdefault(key(line), set()).update(
            name for name in {**row["params"], **other} if row["params"].get(name) != other.get(name))

    def told(line):
        params = line[0]["params"]
        values = {name: value_text(params[name]) if name in params else "absent" for name in sorted(apart[key(line)])}
        return "".join(f" {name}={value[:HASH_SHOWN] if name == 'code' else value}" for name, value in values.items())
    return [line_name(line, shown) + told(line) for line in lines]


def over(found, logs=False):
    """The mean of estimates, one of each seed, with Student's interval over the seeds; of ratios, whose
    logarithms are averaged, the geometric one. Where all are equal: the first, whose interval is of its items."""
    values = [e.value for e in found]
    if len(found) == 1 or len(set(values)) == 1:
        return found[0]
    if logs:
        return dataclasses.replace(intervals.paired_ratio(values, [1.0] * len(values)), unit="seeds")
    middle, half = intervals.mean(values), intervals.half_width(values)
    if not math.isfinite(half):
        return Estimate(middle, n=len(values), unit="seeds", how="mean over seeds, no interval")
    return Estimate(middle, middle - half * middle, middle + half * middle, len(values), "seeds",
                    "Student's t over seeds")


def over_differences(found):
    """The mean of differences, which may be of either sign, with Student's interval over the seeds. Where all are
    equal: the first, whose interval is of its items."""
    values = [e.value for e in found]
    if len(set(values)) == 1:
        return found[0]
    middle, n = intervals.mean(values), len(values)
    half = intervals.t_quantile(n - 1) * intervals.deviation(values) / math.sqrt(n)
    return Estimate(middle, middle - half, middle + half, n, "seeds", "Student's t over seeds")


def estimate(line, metric):
    """A metric of rows of one line; None where one lacks it."""
    found = [estimates.estimate(row, metric) for row in line]
    if any(e is None for e in found):
        return None
    e = over(found)
    if metric != "score" or e.low is None:
        return e
    return dataclasses.replace(e, low=max(0.0, e.low), high=min(1.0, e.high))


def ratio(pairs, metric):
    """A ratio of rows of one line over their bases, Bases.pairs; None where one lacks it."""
    found = [estimates.ratio(row, base, metric) if base is not None else None for row, base in pairs]
    return None if any(e is None for e in found) else over(found, logs=True)


def notes(lines):
    """What a table says below lines of several seeds: how they are pooled, and which settings were measured under
    several seeds for nothing."""
    several = [line for line in lines if len(line) > 1]
    same = [f"{row_name(line[0], {'seed'})}, {line[0]['workload']['family']}" for line in several
            if line[0]["answers_hash"] and len({row["answers_hash"] for row in line}) == 1]
    once = any(is_of_any_seed(row) for line in lines for row in line)
    return [NOTE] * bool(several) + [ANY_NOTE] * once + (["The seed changes no answer of: " + "; ".join(same)] if same else [])
