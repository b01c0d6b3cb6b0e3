# SPDX-License-Identifier: Apache-2.0
"""A paper's table from our rows: its printed numbers and ours side by side.

    [layout]            rows = KEY or [KEYS], row_header, across = KEY, pool = "model", columns = [METRICS] or
    [[layout.columns]]  metric, header, where = {...}, published, published_metric, factor, digits,
                        best = "max" | "min"
    [layout.published_rows]  our row = the paper's row
    [layout.base]            selector that "speedup" divides by"""

from dataclasses import dataclass, field
import math
import os

from unmask.rows import estimates, experiments, glossary, seeds
from unmask.rows.comparable import notes_of
from unmask.rows.errors import UserError
from unmask.rows.intervals import mean
from unmask.rows.machines import machine_class, machine_name, several
from unmask.rows.names import find_known, number_text
from unmask.rows.repetition import likelihood_of_references
from unmask.rows.rows import check_key, circumstance, grouped, is_reportable, is_synthetic, setting
from unmask.rows.scores import has_right_answers, note_of_undecided
from unmask.rows.selectors import Selector, read_selector
from unmask.rows.shapes import LARGEST_NUMBER, TEXT, fit
from unmask.tables.pooling import Pooling, models_named
from unmask.tables.published import read_published
from unmask.tables.tables import Cell, Table, number_cell

# Row keys whose values are never better or worse than each other: the best of a column is the best
# among the rows that agree in them.
GROUP_KEYS = ("workload", "model", "serve.rate")
SHARED_MACHINE = ("other measurements ran on the machine at the same time: times and speeds mean "
                  "nothing")
LAYOUT_KEYS = ("rows", "row_header", "across", "columns", "published_rows", "base", "pool")
LAYOUT = {"rows?": (str, list), "row_header?": TEXT, "across?": TEXT, "columns?": (list,),
          "published_rows?": {}, "pool?": TEXT}
COLUMN_KEYS = ("metric", "header", "where", "published", "published_metric", "factor", "digits", "best")


@dataclass
class Column:
    """What a column shows: "score", "speedup", a metric, "probes.PATH", "calibration.PATH"."""
    metric: str
    header: str = ""
    where: Selector = field(default_factory=Selector)  # rows that fit are averaged
    published: str = ""         # column of the paper; "{}" becomes the value of `across`
    published_metric: str = ""  # where the paper's cell holds several
    factor: float = 1.0         # of our value: 100 for shares shown in per cent
    digits: int = 1
    best: str = ""              # max, min: in bold


@dataclass
class Layout:
    id: str = ""
    title: str = ""
    scale: str = ""
    row_keys: list = field(default_factory=lambda: ["label"])
    row_header: str = "Method"
    across: str = ""
    columns: list = field(default_factory=list)  # none: the file has no [layout]
    published_rows: dict = field(default_factory=dict)
    base: Selector | None = None
    pool: str = ""  # "model": a number may be a mean over several models
    published: object = None  # of the module `published`


@dataclass
class LaidCell:
    measured: float | None = None  # times the column's factor, as are the ends of the interval
    range: tuple | None = None
    n: int = 0           # samples behind the interval, or rows averaged
    counted: bool = False  # the same in every repetition
    once: bool = False     # measured once: nothing says how far from the truth it is
    unit: str = ""
    dagger: bool = False  # synthetic or analytic
    bold: bool = False
    harnesses: tuple = ()        # of a benchmark's score
    other_harness: bool = False  # the paper has a score here, of another harness
    once: bool = False           # a time of one repetition, or a ratio of such
    apart: str = ""              # how the two sides of a ratio of times differ in program or machine
    references: float | None = None  # of a likelihood: that of the references, times the column's factor
    published: object = None


@dataclass
class LaidColumn:
    header: str
    metric: str
    across: str
    digits: int
    key: str = ""  # the header without the value of `across`
    factor: float = 1.0
    has_published: bool = False


@dataclass
class LaidRow:
    name: str
    cells: list
    keys: list = field(default_factory=list)  # values of the row keys; none: the paper's alone
    group: tuple = ()  # rows that may be better or worse than each other agree in it
    short: str = ""    # the name without the first key, where that heads a group of rows


@dataclass
class LaidTable:
    title: str
    row_header: str
    scale: str
    columns: list
    rows: list
    footnotes: list = field(default_factory=list)
    with_groups: bool = False  # the first key of the rows heads groups of them
    across_name: str = ""


def _check_keys(table, known, where):
    for key in table:
        find_known("key", key, known, where)


def _read_column(table, where):
    _check_keys(table, COLUMN_KEYS, where)
    c = Column(table.get("metric", ""))
    if not c.metric or not isinstance(c.metric, str):
        raise UserError(f"{where}: a column of [layout] needs `metric`")
    for key, kind in (("header", str), ("published", str), ("published_metric", str),
                      ("factor", (int, float)), ("digits", int), ("best", str)):
        value = table.get(key, getattr(c, key))
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UserError(f"{where}: `{key}` of column {c.metric} is of the wrong type")
        if isinstance(value, (int, float)) and not abs(value) <= LARGEST_NUMBER:
            raise UserError(f"{where}: `{key}` of column {c.metric} is too large")
        setattr(c, key, value)
    if not 0 <= c.digits <= 12:
        raise UserError(f"{where}: `digits` is from 0 to 12")
    c.header = c.header or c.metric
    c.where = read_selector(table, "where", where, "a column")
    if c.best:
        find_known("`best` of a column", c.best, ("max", "min"), where)
    return c


def parse_layout(table, where, layout):
    """Reads [layout] over what `layout` says already. UserErrors name file and key."""
    _check_keys(table, LAYOUT_KEYS, f"{where}: [layout]")
    fit(table, LAYOUT, where, "layout")
    rows = table.get("rows", ["label"])
    layout.row_keys = [rows] if isinstance(rows, str) else list(rows)
    for key in layout.row_keys:
        check_key(key, f"{where}: `rows`")
    layout.row_header = table.get("row_header", "") or "Method"
    layout.across = table.get("across", "")
    if layout.across:
        check_key(layout.across, f"{where}: `across`")
    layout.pool = table.get("pool", "")
    if layout.pool:
        find_known("`pool`", layout.pool, ("model",), where)
    for entry in table.get("columns", []):
        named = not isinstance(entry, dict)  # a name alone: heading and unit are the glossary's
        column = _read_column({"metric": entry} if named else entry, f"{where}: [layout]")
        if named:
            column.header, column.factor = _heading_and_factor(column.metric)
        layout.columns.append(column)
    if not layout.columns:
        raise UserError(f"{where}: [layout] needs `columns`")
    layout.published_rows = dict(_leaves(table.get("published_rows", {}), where))
    if "base" in table:
        layout.base = read_selector(table, "base", where, "[layout]")
    elif any(c.metric == "speedup" for c in layout.columns):
        raise UserError(f"{where}: a column \"speedup\" needs [layout.base]")


def _leaves(table, where, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, where, f"{prefix}{key}.")
        elif isinstance(value, str):
            yield prefix + key, value
        else:
            raise UserError(f"{where}: `published_rows.{prefix}{key}` takes a text")


def read_layout(path, scale):
    """Reads the [layout] of an artifact at one of its scales; without columns where it has none."""
    table, name = experiments.at_scale(path, scale)
    header = table.get("artifact", {})
    layout = Layout(header.get("id", ""), header.get("title", ""), name)
    if "layout" in table:
        parse_layout(table["layout"], path, layout)
    if header.get("published"):
        layout.published = read_published(os.path.normpath(
            os.path.join(os.path.dirname(path), header["published"])))
    return layout


def _row_values(row, keys):
    found = [setting(row, key) for key in keys]
    return ["–" if value is None else value for value in found]


def _name(values, keys):
    name = values[0]
    for key, value in zip(keys[1:], values[1:]):
        name += f" {key.rsplit('.', 1)[-1]}={value}"
    return name


def _group_of(row, keys):
    """What rows agree in that may be better or worse than each other."""
    return tuple(value for key, value in zip(keys, _row_values(row, keys)) if key in GROUP_KEYS)


def _bases(rows, selector=None):
    """What speed-ups are over: of the rows that fit the selector, whose keys a base need not share."""
    return seeds.Bases([row for row in rows if selector is None or selector.matches(row)],
                       selector.keys if selector else ())


def _value_of(line, column, bases):
    """The estimate of a column of rows that differ in their seed alone, and whether it is synthetic or
    analytic."""
    metric = "tokens_per_second" if column.metric == "speedup" else column.metric
    plain = [estimates.value(row, metric) for row in line]
    if any(found is None for found in plain):
        return None, False
    dagger = any(found[1] in ("analytic", "synthetic") for found in plain) or (
        is_synthetic(line[0]) and metric != "score")
    if column.metric != "speedup":
        return seeds.estimate(line, metric), dagger
    return seeds.ratio(bases.pairs(line), metric), dagger


def _cell_of(chosen, column, bases):
    cell, found = LaidCell(), []
    if column.metric == "score" and any(map(has_right_answers, chosen)):
        chosen = [row for row in chosen if has_right_answers(row)]  # a likelihood is another quantity
    harnesses = [row["workload"].get("benchmark", {}).get("harness", "") for row in chosen]
    cell.harnesses = tuple(dict.fromkeys(filter(None, harnesses))) if column.metric == "score" else ()
    if column.metric == "score":
        theirs = [v for v in map(likelihood_of_references, chosen) if v is not None]
        cell.references = mean(theirs) * column.factor if theirs else None
    for line in seeds.over_seeds(chosen):
        e, dagger = _value_of(line, column, bases)
        cell.dagger |= dagger
        if e is not None and e.how.startswith(estimates.APART):
            cell.apart = e.how.removeprefix(estimates.APART + " (").removesuffix("), no interval")
        if e is not None and math.isfinite(e.value):
            found.append(e)
    if not found:
        return cell
    cell.counted = all(e.how == "counted" for e in found)
    cell.once = any(e.low is None and e.n == 1 and e.unit == "repetitions" for e in found)
    if len(found) > 1:
        cell.measured = mean([e.value for e in found]) * column.factor
        cell.n, cell.unit = len(found), "rows"
        return cell
    e = found[0]
    cell.measured, cell.n, cell.unit = e.value * column.factor, e.n, e.unit
    cell.once = e.unit == "repetitions" and e.n < 2 and e.low is None
    if e.low is not None and e.low != e.high:
        cell.range = (e.low * column.factor, e.high * column.factor)
    return cell


def _add_published(table, layout):
    if layout.published is None:
        return
    per = len(table.columns) // len(layout.columns)

    def fill(row, name):
        for i, column in enumerate(table.columns):
            c, cell = layout.columns[i // per], row.cells[i]
            printed = c.published.replace("{}", column.across, 1)
            cell.published = layout.published.find(layout.id, name, printed,
                                                   c.published_metric) if printed else None
            # Scores of two harnesses answer different questions: they never stand side by side.
            if cell.published and cell.harnesses and cell.harnesses != (layout.published.harness,):
                cell.published, cell.other_harness = None, True
            column.has_published |= cell.published is not None
        return any(cell.published for cell in row.cells)
    shown = set()
    for row in table.rows:
        name = layout.published_rows.get(row.name, row.name)
        fill(row, name)
        shown.add(name)
    for value in layout.published.values:
        if value.artifact != layout.id or value.row in shown:
            continue
        shown.add(value.row)
        row = LaidRow(value.row, [LaidCell() for _ in table.columns])
        if fill(row, value.row):
            table.rows.append(row)


def _above_references(cells):
    """The likelihoods of the references that a cell of a group passes, [number]. A text beyond them repeats itself, so
    the group has no best."""
    return [c.references for c in cells if c.references is not None and c.measured > c.references]


def _mark_best(table, layout):
    """Marks the best of each column among the rows of one group, where there are several."""
    per, passed = len(table.columns) // len(layout.columns), []
    for i in range(len(table.columns)):
        best = layout.columns[i // per].best
        if not best:
            continue
        for of_group in grouped(table.rows, lambda row: row.group):
            cells = [row.cells[i] for row in of_group if row.cells[i].measured is not None]
            if len(cells) < 2 and of_group[0].group:
                continue
            above = _above_references(cells)
            if above:
                passed += above
                continue
            top = (max if best == "max" else min)([c.measured for c in cells], default=None)
            for cell in (c for c in cells if not c.once):
                # Means of the same numbers in another order differ in their last bits.
                # Nothing says how well a time of one repetition is known: it is not the best of any.
                cell.bold = math.isclose(cell.measured, top, rel_tol=1e-12) and not cell.once
    if passed:
        theirs = " and ".join(dict.fromkeys(f"{v:.1f}" for v in passed))
        table.footnotes.append(f"No likelihood is in bold if one is above that of the references ({theirs}): such texts repeat "
                               "themselves.")


def _distinct(rows, key):
    return list(dict.fromkeys(key(row) for row in rows))


def _add_footnotes(table, layout, rows):
    models = ", ".join(_distinct(rows, lambda r: r["model"]["name"]))
    devices = ", ".join(_distinct(rows, lambda r: r["device"]))
    tiny = any(row["model"]["parameters"] < 100_000_000 for row in rows)
    table.footnotes.append(f"Measured here: {models} on {devices}" + (
        "; tiny models, not the paper's: expect an effect's direction to carry over, not its size."
        if tiny else "."))
    if any(SHARED_MACHINE in str(row["environment"]) for row in rows):
        table.footnotes.append(f"Read no speed here: {SHARED_MACHINE}.")
    for judge in _distinct(rows, lambda r: r["workload"].get("judge", "")):
        if judge:
            table.footnotes.append(f"Score of free text: its likelihood per token under {judge}.")
    table.footnotes += note_of_undecided(rows)
    table.footnotes += seeds.notes(seeds.over_seeds(rows))
    cells = [cell for row in table.rows for cell in row.cells]
    counts = [cell.n for cell in cells if cell.range]
    if counts:
        n = f"= {min(counts)}" if min(counts) == max(counts) else f"from {min(counts)} to {max(counts)}"
        table.footnotes.append(f"In brackets: 95 % interval, n {n}.")
    if any(cell.unit == "rows" for cell in cells):
        table.footnotes.append("Without interval: mean over several rows, or counted.")
    if any(cell.dagger and cell.measured is not None for cell in cells):
        table.footnotes.append("† synthetic or analytic: from weights without meaning, or computed "
                               "from shapes.")
    if any(cell.once and not cell.apart for cell in cells):
        table.footnotes.append("One pass: a speed without interval was timed once; no verdict rests on it.")
    table.footnotes += notes_of(cell.apart for cell in cells)
    others = [", ".join(cell.harnesses) for cell in cells if cell.other_harness]
    if others:
        theirs = layout.published.harness or "not stated"
        table.footnotes.append("The paper's score is left out where ours is of another harness "
                               f"({others[-1]}; the paper: {theirs}).")
    if any(cell.published for cell in cells):
        arxiv = f", arXiv {layout.published.arxiv}" if layout.published.arxiv else ""
        table.footnotes.append(f"paper: as printed in {layout.published.title}{arxiv}.")


def lay_out(layout, rows):
    """Arranges the latest rows as a layout says. Rows that may not be reported show nothing."""
    if not layout.columns:
        raise UserError(f"the artifact {layout.id} has no [layout]")
    rows = sorted(filter(is_reportable, rows), key=lambda row: row["position"])
    bases = _bases(rows, layout.base) if layout.base else _bases(())

    def across_of(row):
        return (setting(row, layout.across) or "") if layout.across else ""
    across = sorted(_distinct(rows, across_of), key=lambda v: (len(v.encode()), v)) or [""]
    keys = layout.row_keys
    together = f" (models together: {models_named(rows)})" if layout.pool else ""
    table = LaidTable(layout.title, layout.row_header + together, layout.scale, [], [])
    table.with_groups = len(keys) > 1 and keys[0] in GROUP_KEYS
    table.across_name = layout.across.rsplit(".", 1)[-1]
    for c in layout.columns:
        for value in across:
            last = layout.across.rsplit(".", 1)[-1]
            tail = f", {last} {value}" if layout.across else ""
            table.columns.append(LaidColumn(c.header + tail, c.metric, value, c.digits, c.header,
                                            c.factor))
    machines = several(rows)
    lines = grouped(rows, lambda row: (_name(_row_values(row, keys), keys), machine_class(row)))
    pooling = Pooling(layout, [(_name(_row_values(of_row[0], keys), keys), _group_of(of_row[0], keys), of_row)
                               for of_row in lines], across_of)
    for of_row in lines:
        values, group = _row_values(of_row[0], keys), _group_of(of_row[0], keys)
        short = _name(values[1:], keys[1:]) if table.with_groups else ""
        cells = [_cell_of(pooling.rows_of(c, value, group, of_row), c, bases) for c in layout.columns for value in across]
        on = f", {machine_name(of_row[0])}" if machines else ""
        table.rows.append(LaidRow(_name(values, keys) + on, cells, values, group, short + on if short else ""))
    _add_published(table, layout)
    _mark_best(table, layout)
    _add_footnotes(table, layout, rows)
    table.footnotes += pooling.notes
    return table


def printed_number(value):
    """A published number as it was printed: no digits added or taken."""
    return number_text(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def shown_columns(laid):
    """Which columns some row fills, and the headers of the others, which are a footnote; all of them
    where none is filled."""
    shown = [any(row.cells[i].measured is not None for row in laid.rows)
             for i in range(len(laid.columns))]
    if not any(shown):
        return [True] * len(shown), []
    return shown, [c.header for c, s in zip(laid.columns, shown) if not s]


def note_of_ties(laid, digits):
    """A list of one sentence where a number prints like the best of its column and is not it."""
    best = {(i, row.group, f"{row.cells[i].measured:.{d}f}") for row in laid.rows
            for i, d in enumerate(digits) if row.cells[i].bold}
    alike = [(i, row.group, f"{row.cells[i].measured:.{d}f}") in best for row in laid.rows
             for i, d in enumerate(digits)
             if row.cells[i].measured is not None and not row.cells[i].bold]
    return ["Bold: the best before rounding; a number that prints alike and is not bold is worse."
            ] if any(alike) else []


def measured_cell(cell, digits):
    shown = number_cell(cell.measured, digits, 1, cell.range)
    shown.bold, shown.dagger = cell.bold, cell.dagger and cell.measured is not None
    return shown


def table_of(laid):
    """The table as the paper arranges it, for Markdown and JSON."""
    ties = note_of_ties(laid, [c.digits for c in laid.columns])
    table = Table([laid.row_header], notes=laid.footnotes + ties, title=laid.title)
    # Headers say whose a number is only where some are the paper's.
    ours = f", {laid.scale or 'measured'}" if any(c.has_published for c in laid.columns) else ""
    shown, empty = shown_columns(laid)
    if empty:
        table.notes.append(f"Measured in no row: {'; '.join(empty)}.")
    for i, c in enumerate(laid.columns):
        table.headers += [f">{c.header}, paper"] if c.has_published else []
        table.headers += [f">{c.header}{ours}"] if shown[i] else []
    for row in laid.rows:
        cells = [row.name]
        for i, cell in enumerate(row.cells):
            if laid.columns[i].has_published:
                p = cell.published
                cells.append(Cell(printed_number(p.value), value=p.value) if p else Cell("–"))
            if shown[i]:
                cells.append(measured_cell(cell, laid.columns[i].digits))
        table.add(*cells)
    return table


def cells_of(laid):
    """A line for each cell, for CSV."""
    table = Table("row column metric across scale measured low high n n_unit synthetic_or_analytic "
                  "published published_unit published_source".split())
    for row in laid.rows:
        for column, c in zip(laid.columns, row.cells):
            if c.measured is None and not c.published:
                continue
            ours = c.measured is not None
            low, high = c.range or ("", "")
            table.add(row.name, column.header, column.metric, column.across, laid.scale,
                      printed_number(c.measured) if ours else "",
                      *[printed_number(v) if v != "" else "" for v in (low, high)],
                      str(c.n) if ours else "", c.unit if ours else "",
                      ("yes" if c.dagger else "no") if ours else "",
                      *((printed_number(c.published.value), c.published.unit, c.published.source)
                        if c.published else ("", "", "")))
    return table


# Digits and directions of what --columns often names; the glossary has the headings.
KNOWN_COLUMNS = {
    "score": (1, "max"), "speedup": (2, "max"), "tokens_per_second": (1, "max"), "decode_tokens_per_second": (1, "max"),
    "canvas_tokens_per_second": (1, "max"), "wall_seconds": (2, "min"), "ttfb_p50_seconds": (1, "min"),
    "tpf": (2, "max"), "nfe": (0, "min"), "committed_per_step": (2, "max"), "redundancy": (1, "min"),
    "flops": (1, "min"), "peak_kv_bytes": (1, "min"), "selection_share": (1, "min")}
# The unit that a heading ends with, and what it makes of the stored unit: seconds, bytes, shares.
UNITS = {", %": 100, ", % of time": 100, ", ms": 1e3, ", kB": 1e-3, ", MB": 1e-6, "GFLOP": 1e-9}


def _heading_and_factor(name):
    header = glossary.find_heading(name) or name
    return header, next((factor for unit, factor in UNITS.items() if header.endswith(unit)), 1)


def _column_of(name):
    header, factor = _heading_and_factor(name)
    digits, best = KNOWN_COLUMNS.get(name, (2, "min" if name.endswith("_seconds") else ""))
    return Column(name, header, factor=factor, digits=digits, best=best)


def lay_out_columns(rows, names, title=""):
    """Arranges the latest rows by task, a line for each setting, with the named columns: "score",
    "speedup" over the first setting of the same circumstances, any metric."""
    rows = sorted(filter(is_reportable, rows), key=lambda row: row["position"])
    if not rows:
        raise UserError("no row there may be reported")
    known = {"score", "speedup", *(name for row in rows for name in row["metrics"])}
    for name in names:
        if not name.startswith(("probes.", "calibration.")):
            find_known("column", name, sorted(known))
    layout = Layout(title=title, columns=[_column_of(name) for name in names])
    table = LaidTable(title, glossary.heading("label"), "", [LaidColumn(c.header, c.metric, "", c.digits, c.header,
                                                       c.factor) for c in layout.columns], [], with_groups=True)
    models, machines = len({row["model"]["name"] for row in rows}) > 1, several(rows)
    for group in grouped(rows, lambda row: (row["model"]["name"], row["workload"]["family"], machine_class(row))):
        bases, varying = _bases(group), seeds.varying(group)
        heading = group[0]["workload"]["family"]
        heading = f"{group[0]['model']['name']}, {heading}" if models else heading
        heading += f", {machine_name(group[0])}" if machines else ""
        lines = seeds.over_seeds(group)
        for line, name in zip(lines, seeds.line_names(lines, varying)):
            free = {"seed"} if len(line) > 1 else ()
            cells = [_cell_of(line, c, bases) for c in layout.columns]
            table.rows.append(LaidRow(f"{heading} {name}", cells, [heading, name],
                                      (heading, *circumstance(line[0], free)), name))
    _mark_best(table, layout)
    _add_footnotes(table, layout, rows)
    return table
