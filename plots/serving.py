#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Time per output token against the request rate, with the objective, and the capacity under it.

Definitions of TPOT and capacity: harness/engine/README.md. Served rows only (kind = "serve").
"""

import math
import sys
import textwrap

import common
from common import Drawing, NotDrawn, metric

CAPACITY = "slo_capacity_requests_per_second"


def tpot_of(row, name):
    return 1e3 * metric(row, f"tpot_{row['serve']['tpot']}_{name}_seconds")


def group_of(row):
    """Rows of one panel: what served what, by which clock."""
    return (row["model"]["name"], row["workload"]["family"], row["serve"]["clock"],
            row["serve"]["tpot"])


def title_of(group):
    model, family, clock, _ = group
    return f"{model}, {family.removeprefix(model + '/').replace('_', ' ')}, {clock} clock"


def label_of(row, rows):
    policies = {r["serve"]["policy"] for r in rows}

    def name(of):
        text = common.method_label(of, "rate", "policy").replace(" (synthetic)", "")
        return text + (f", {of['serve']['policy']}" if len(policies) > 1 else "")
    return common.differing(rows, name)(row)


def rate_curves(rows):
    rows = [r for r in rows if not r["serve"].get("search")
            and not math.isnan(metric(r, "request_rate"))]
    groups = common.ordered(group_of(r) for r in rows)
    groups = [g for g in groups
              if len({r["serve"]["rate"] for r in rows if group_of(r) == g}) > 1]
    if not groups:
        raise NotDrawn("TPOT against the request rate needs served rows at two rates or more; "
                       "sweep serve.rate in an experiment of kind \"serve\"")
    rows = [r for r in rows if group_of(r) in groups]
    earned = [r for r in rows if not math.isnan(tpot_of(r, "p90"))]
    if not earned:
        raise NotDrawn("no served row has a P90 of TPOT: too few requests")
    label = common.told_apart(rows, lambda r: label_of(r, rows),
                              lambda r: (group_of(r), r["serve"]["rate"]))
    names = common.ordered(label(r) for r in rows)
    look = common.looks(names)
    columns = common.columns_in(min(2, len(groups)))
    figure, cells = common.grid(len(groups), columns, common.PAGE if columns > 1 else 4.8, 2.4)
    hollow, missing = set(), False
    for cell, group in zip(cells, groups):
        chosen = [r for r in rows if group_of(r) == group]
        for name in names:
            line = sorted((r for r in chosen if label(r) == name),
                          key=lambda r: metric(r, "request_rate"))
            if not line:
                continue
            p90 = [tpot_of(r, "p90") for r in line]
            missing = missing or any(math.isnan(v) for v in p90)
            empty = any(r["provenance"].get(f"tpot_{group[3]}_p50_seconds") != "measured"
                        for r in line)
            if empty:
                hollow.add(name)
            rates = [metric(r, "request_rate") for r in line]
            cell.plot(rates, p90, **look[name].line(empty))
            cell.plot(rates, [tpot_of(r, "p50") for r in line], color=look[name].colour,
                      linestyle=":", linewidth=0.9)
            bad = [(x, y) for r, x, y in zip(line, rates, p90)
                   if metric(r, "backlog_growing") > 0 and not math.isnan(y)]
            if bad:
                cell.plot(*zip(*bad), linestyle="none", marker="o", markersize=9,
                          markerfacecolor="none", markeredgecolor=common.COLOURS[5],
                          markeredgewidth=1)
        for slo in sorted({r["serve"]["slo_tpot_ms"] for r in chosen} - {0, 0.0}):
            cell.axhline(slo, color=common.COLOURS[5], linewidth=0.9, linestyle=(0, (4, 2)))
            cell.annotate(f"objective {slo:g} ms", (0.01, slo), (0, 2), va="bottom",
                          xycoords=("axes fraction", "data"), textcoords="offset points",
                          color=common.COLOURS[5], fontsize=common.TINY)
        heights = [v for r in chosen for v in (tpot_of(r, "p50"), tpot_of(r, "p90"), r["serve"]["slo_tpot_ms"])
                   if v > 0]
        common.log_axis(cell, "y", min(heights) / 1.25, max(heights) * 1.25)
        if max(r["serve"]["rate"] for r in chosen) > 8 * min(r["serve"]["rate"] for r in chosen):
            cell.set_xscale("log", base=2)
            cell.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            rates = sorted({r["serve"]["rate"] for r in chosen})
            cell.set_xticks(rates, [f"{x:g}" for x in rates])
            cell.minorticks_off()
        cell.set(xlabel=common.heading_of("request_rate"), ylabel=f"TPOT ({group[3]}), ms")
        cell.set_title(common.fitted_title(title_of(group), cell))
    handles = common.series_handles(names, look, hollow)
    handles += common.provenance_handles(bool(hollow), False)
    common.legend_above(figure, handles)
    common.footnote(figure, earned, "solid: P90, dotted: P50 over requests; ringed: the backlog grows"
                    + ("; a missing P90 was not earned (too few requests)" if missing else ""))
    return Drawing("tpot", "How long does a token take as requests come faster? TPOT against the request rate", figure, earned)


def capacity_bars(cell, names, look, found):
    """A bar for each row of a panel: found[name] = row."""
    for place, name in enumerate(names):
        if name not in found:
            cell.text(0, place, " not run", va="center", fontsize=common.TINY, color=common.QUIET)
            continue
        value = metric(found[name], CAPACITY)
        half = metric(found[name], "slo_capacity_half_width")
        half = 0 if math.isnan(half) else half * value
        cell.barh(place, value, 0.7, **look[name].bar(common.not_measured(found[name], CAPACITY)))
        cell.errorbar(value, place, xerr=half, fmt="none", ecolor=common.INK, elinewidth=0.8,
                      capsize=2)
        cell.annotate(f"{value:.2f}", (value + half, place), (4, 0), va="center",
                      textcoords="offset points", fontsize=common.TINY)
    cell.set(ylim=(len(names) - 0.4, -0.6), xlim=(0, cell.get_xlim()[1] * 1.08))
    cell.grid(axis="y", visible=False)


def capacity(rows):
    rows = [r for r in rows if not math.isnan(metric(r, CAPACITY))]
    if not rows:
        raise NotDrawn("capacity needs served rows of a search (serve.search = true)")
    label = common.told_apart(rows, lambda r: label_of(r, rows), group_of)
    names = common.ordered(label(r) for r in rows)
    look = common.bar_looks(names)
    groups = common.ordered(group_of(r) for r in rows)
    columns = common.columns_in(min(2, len(groups)))
    ticks = ["\n".join(textwrap.wrap(look[name].text, 48)) for name in names]
    lines = max(text.count("\n") + 1 for text in ticks)
    width = common.PAGE if columns > 1 else 4.8 if lines == 1 else 6.0
    figure, cells = common.grid(len(groups), columns, width, 0.6 + (0.12 + 0.1 * lines) * len(names))
    for at, (cell, group) in enumerate(zip(cells, groups)):
        found = {label(r): r for r in rows if group_of(r) == group}
        capacity_bars(cell, names, look, found)
        cell.set_yticks(range(len(names)), ticks if at % columns == 0 else [""] * len(names),
                        fontsize=common.TINY if lines > 1 else common.SMALL)
        if len(groups) > 1:
            cell.set_title(common.fitted_title(title_of(group), cell))
    objective = ", ".join(f"{s:g}" for s in sorted({r["serve"]["slo_tpot_ms"] for r in rows}))
    common.label_below(figure, f"requests per second with P90 TPOT within {objective} ms")
    hollow = any(common.not_measured(r, CAPACITY) for r in rows)
    common.legend_above(figure, common.provenance_handles(hollow, False))
    common.footnote(figure, rows, "whiskers: 95 % interval over arrival seeds")
    return Drawing("capacity", "How many requests per second keep the objective?", figure, rows)


def draw(rows, options=None):
    rows = [r for r in rows if r.get("serve")]
    if not rows:
        raise NotDrawn("no served row here; run an experiment of kind \"serve\"")
    drawings, problems = [], []
    for one in (rate_curves, capacity):
        try:
            drawings.append(one(rows))
        except NotDrawn as problem:
            problems.append(str(problem))
    if not drawings:
        raise NotDrawn(problems[0])
    return drawings


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "serving"))
