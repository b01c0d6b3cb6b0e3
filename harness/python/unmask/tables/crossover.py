# SPDX-License-Identifier: Apache-2.0
"""unmask crossover: find which method wins at which batch, prompt and length.

A cell for each model, workload, batch size, generation
length and everything else that rows must agree in; the winner is the fastest method that answers well
enough."""


import re

from unmask.rows import estimates, glossary, options as command_options, seeds
from unmask.rows.comparable import comparable, notes_of
from unmask.rows.errors import UserError
from unmask.rows.machines import machine_class
from unmask.rows.names import unknown_name
from unmask.rows.rows import (RUN_KEYS, circumstance, is_reportable, is_synthetic, read_latest,
                              row_name, setting)
from unmask.rows.scores import note_of_undecided, score_with_undecided
from unmask.tables import tables
from unmask.tables.tables import count_cell, estimate_cell, number_cell

SPEED = "tokens_per_second"


def _method(row):
    """The swept settings without those that make the cell."""
    return row_name(row, {"limit", *RUN_KEYS})


def _score(row):
    """Rows that cannot be scored (random weights, open questions) count as equal."""
    return score_with_undecided(row["score"]).mean if row["score"] else 1.0


def _speed(row):
    return row["metrics"].get(SPEED) or 0.0


def _entry(row, worse, across_models, base):
    e = estimates.estimate(row, SPEED)
    share, score = estimates.value(row, "selection_share"), estimates.value(row, "score")
    return {"label": _method(row) + (f" ({row['model']['name']})" if across_models else ""),
            "tokens_per_second": e.value, "interval": e.range,
            "speedup": estimates.ratio(row, base, SPEED) if base else None,
            "selection_share": share[0] if share else None, "score": score[0] if score else None,
            "worse": worse, "synthetic": is_synthetic(row)}


def _cell(group, base, score_within, across_models):
    group = sorted(group, key=lambda row: -_speed(row))
    against = next((r for r in group if base and base in (r["label"], _method(r))), None)
    best = _score(against) if against else max(0.0, *(_score(r) for r in group))
    asked = best - score_within - 1e-12
    group.sort(key=lambda row: _score(row) < asked)  # stable: the fastest first within each half
    winner, second = group[0], group[1] if len(group) > 1 else None
    prompt = (winner["metrics"].get("prompt_tokens") or 0) / max(winner["workload"]["items"], 1)
    margin = None
    if second is not None and not _score(second) < asked:
        margin = estimates.ratio(winner, second, SPEED)
    clear = margin is not None and margin.low is not None and margin.low > 1
    return against is not None, {
        "model": "" if across_models else winner["model"]["name"],
        "workload": winner["workload"]["family"], "prompt_tokens": prompt,
        "gen_length": winner["gen_length"], "batch_size": winner["batch_size"], "clear": clear,
        "margin": margin, "rows": group,
        "apart": comparable(winner, second) if margin is not None else "",
        "methods": [_entry(r, _score(r) < asked, across_models, against) for r in group]}


def crossover_cells(rows, base="", across_models=False, score_within=0.1):
    """The cells of the latest rows, methods fastest first, those that answer worse than allowed behind
    the others. base: label that speedups and scores are taken against; UserError where there is none
    such. score_within: what a method may lose of the base's score (without a base: of the best)."""
    rows = [row for row in rows if is_reportable(row) and setting(row, "kind") != "serve" and
            estimates.value(row, SPEED) is not None]
    rows.sort(key=lambda row: row["position"])
    free = frozenset(["model"] if across_models else [])
    found, cells = not base, []
    for group in seeds.by_place(rows, lambda row, more: (circumstance(row, free | more), machine_class(row))):
        has_base, cell = _cell(group, base, score_within, across_models)
        found |= has_base
        cells.append(cell)
    if not found:
        raise UserError(unknown_name("base, the label of a row", base, map(_method, rows)))
    cells.sort(key=lambda c: (c["model"], c["prompt_tokens"], c["gen_length"], c["batch_size"]))
    return cells


def _faster_but_worse(cell):
    """"ada_dlm 11.2x, 25.0 %": faster than the winner, answers worse."""
    first = cell["methods"][0]["tokens_per_second"]
    return "; ".join(f"{m['label']} {m['tokens_per_second'] / first:.2f}x, "
                     f"{100 * (m['score'] or 0):.1f} %" for m in cell["methods"]
                     if m["worse"] and m["tokens_per_second"] > first) or "–"


COLUMNS = ("model | family | >prompt | >generated | >batch_size | winner | >tokens_per_second | >over the second | "
           "second | >speedup | >selection_share | >score | faster than the winner, but answers worse")


def kept_columns(table, names):
    """The table with these columns only, named by their headings or stored names; UserError for another name."""
    stored = [name.lstrip(">") for name in COLUMNS.split(" | ")]
    shown = [heading for heading, _ in table.columns]
    places = []
    for name in names:
        if name not in stored + shown:
            raise UserError(unknown_name("column", name, shown))
        places.append((stored if name in stored else shown).index(name))
    table.headers = [table.headers[i] for i in places]
    table.rows = [[row[i] for i in places] for row in table.rows]
    return table


def crossover_table(cells):
    """A line for each cell, with the methods that are faster than the winner and answer worse."""
    table = tables.Table(glossary.columns(COLUMNS))
    unsure = glossary.shown("pair", "AMBIGUOUS")
    wins, unclear = {}, 0
    for c in cells:
        first, margin = c["methods"][0], c["margin"]
        clear = margin is None or c["clear"]  # no margin: nobody else as good
        if len(c["methods"]) > 1 and clear:
            wins[first["label"]] = wins.get(first["label"], 0) + 1
        elif len(c["methods"]) > 1:
            unclear += 1
        speed = number_cell(first["tokens_per_second"], 1)
        speed.dagger = first["synthetic"]
        table.add(c["model"] or "all", c["workload"], number_cell(c["prompt_tokens"], 0),
                  str(c["gen_length"]) if c["gen_length"] > 0 else "task",
                  count_cell(c["batch_size"]), first["label"] + ("" if clear else f" ({unsure})"),
                  speed, estimate_cell(margin, 2) if margin else "–",
                  c["methods"][1]["label"] if margin else "–",
                  number_cell(first["speedup"].value, 2) if first["speedup"] else "–",
                  number_cell(first["selection_share"], 2, 100), number_cell(first["score"], 1, 100),
                  _faster_but_worse(c))
    table.notes.append(f"{len(cells)} cells;" +
                       "".join(f" {label} wins {n}," for label, n in sorted(wins.items())) +
                       f" {unclear} {unsure}: the interval of the margin contains 1")
    table.notes += notes_of(c["apart"] for c in cells)
    if any(c["methods"][0]["synthetic"] for c in cells):
        table.notes.append("† synthetic: tokens of weights without meaning")
    return table


def cells_json(cells):
    """The cells as results/FORMAT.md describes them."""
    def entry(m):
        speedup = m["speedup"]
        return {"label": m["label"], "tokens_per_second": m["tokens_per_second"],
                "interval": m["interval"], "speedup": speedup.value if speedup else None,
                "speedup_interval": speedup.range if speedup else None,
                "selection_share": m["selection_share"], "score": m["score"], "worse": m["worse"],
                "synthetic": m["synthetic"]}
    return [{"model": c["model"], "workload": c["workload"], "prompt_tokens": c["prompt_tokens"],
             "gen_length": c["gen_length"], "batch_size": c["batch_size"],
             "winner": c["methods"][0]["label"], "clear": c["clear"],
             "margin": c["margin"].value if c["margin"] else None,
             "margin_interval": c["margin"].range if c["margin"] else None,
             "methods": [entry(m) for m in c["methods"]]} for c in cells]


def parser():
    p = command_options.parser(
        __doc__, "Makes a cell for each model, workload, batch size and generation length of a sweep. The winner is the\n"
                 "fastest method whose answers are good enough.")
    p.add_argument("rows", nargs="*", metavar="ROWS.jsonl")
    p.add_argument("-o", "--output", metavar="FILE", help="write to this file (default: standard output)")
    p.add_argument("--format", default="md", help="print md, csv, latex or json (default: md)")
    p.add_argument("--columns", default="", metavar="NAMES",
                   help="show only these columns of a table, separated by commas (unmask show glossary)")
    p.add_argument("--base", default="", metavar="LABEL", help="compare speeds and scores with this label")
    p.add_argument("--score-within", "--score_within", type=float, default=0.1, metavar="X",
                   help="let a method win that loses at most this share of the base's score (without a base: of the "
                        "best score), 0 to 1 (default: 0.1; 1: any score)")
    p.add_argument("--across-models", "--across_models", action="store_true",
                   help="compare methods of all models")
    return p


def main(arguments):
    options = parser().parse_args(arguments)
    tables.check_format(options.format)
    if not 0 <= options.score_within <= 1:
        raise UserError("--score-within is from 0 to 1")
    if not options.rows:
        raise UserError("crossover needs files of rows")
    rows = read_latest(*options.rows)
    cells = crossover_cells(rows, options.base, options.across_models,
                            options.score_within)
    if not cells:
        raise UserError("no row of these files has a throughput")
    table = crossover_table(cells)
    if options.columns:
        kept_columns(table, re.split(",(?! )", options.columns))
    table.notes += note_of_undecided(rows)
    text = (tables.json_text(cells_json(cells)) if options.format == "json" else
            tables.render(table, options.format))
    tables.write(text, options.output)
    return 0
