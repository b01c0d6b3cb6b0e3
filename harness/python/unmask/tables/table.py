# SPDX-License-Identifier: Apache-2.0
"""unmask table: print results as Markdown, CSV, LaTeX or JSON.

Here are the views that the package arranges: paper, paired, parallelism, and chosen columns. The plain table
of rows, CSV of rows and phases are the program's own."""

import os

from unmask.rows import experiments, options as command_options
from unmask.rows.errors import UserError
from unmask.rows.names import find_known
from unmask.rows.rows import check_key, read_latest
from unmask.rows.runs import layout_place, runs_below
from unmask.rows.selectors import Selector
from unmask.tables import ablation, layout, parallelism, tables
from unmask.tables.latex import paper_latex

VIEWS = ("paper", "paired", "parallelism", "columns")


def _picked(rows, options):
    """The rows with what --where asks for: of one key any of the values, of several keys all."""
    selector = Selector()
    for text in options.where:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UserError(f"--where takes KEY=VALUE, not '{text}'")
        check_key(key, "--where")
        selector.keys.setdefault(key, []).append(value)
    kept = [row for row in rows if selector.matches(row)]
    if rows and not kept:
        raise UserError(f"no row there fits --where: {selector.text()}")
    return kept


def _laid_tables(options):
    """The paper's arrangement of every run below the paths, by the name of its artifact."""
    found = []
    folder = experiments.experiments_folder(options.experiments_dir)
    for path in options.rows:
        if options.artifact:
            arranged = layout.read_layout(options.artifact, options.scale)
            header = experiments.artifact_of(options.artifact)
            name = f"{header.get('paper', '')}_{header.get('id', '')}"
            found.append((name, layout.lay_out(arranged, _picked(read_latest(path), options))))
            continue
        for run in runs_below(path, folder):
            if not layout_place(run):
                continue
            arranged = layout.read_layout(run.file, run.scale)
            if arranged.columns:  # others are drawn, not tabulated
                found.append((run.name, layout.lay_out(arranged, _picked(run.rows, options))))
    if not found:
        raise UserError("no run of an artifact with a [layout] there; give --artifact EXPERIMENT.toml")
    return found


def _keep_columns(laid, names):
    """Keeps the columns that these metrics or headers name."""
    known = {word for c in laid.columns for word in (c.metric, c.key, c.header)}
    for name in names:
        find_known("column", name, sorted(known))
    kept = [i for name in names for i, c in enumerate(laid.columns)
            if name in (c.metric, c.key, c.header)]
    laid.columns = [laid.columns[i] for i in kept]
    for row in laid.rows:
        row.cells = [row.cells[i] for i in kept]
    laid.rows = [row for row in laid.rows
                 if any(c.measured is not None or c.published for c in row.cells)]


def render_layout(laid, options):
    if options.format == "latex":
        return paper_latex(laid, options.caption, options.label, options.interval)
    if options.format == "csv":
        return tables.render(layout.cells_of(laid), "csv")
    table = layout.table_of(laid)
    table.title = options.caption or table.title
    return tables.render(table, options.format)


def _write_paper_tables(options, names):
    """One file, or one for each artifact where several are written to a folder."""
    found = _laid_tables(options)
    for _, laid in found:
        if names:
            _keep_columns(laid, names)
    if len(found) > 1 and options.output:
        ending = "tex" if options.format == "latex" else options.format
        for name, laid in found:
            tables.write(render_layout(laid, options),
                         os.path.join(options.output, f"{name}.{ending}"))
        return
    tables.write("\n".join(render_layout(laid, options) for _, laid in found), options.output)


def parser():
    p = command_options.parser(__doc__, "`unmask table --help` of the program says what each option does.")
    p.add_argument("rows", nargs="*")
    p.add_argument("-o", "--output", default="")
    p.add_argument("--format", default="md")
    p.add_argument("--view", default="columns")
    p.add_argument("--artifact", default="")
    p.add_argument("--scale", default="")
    p.add_argument("--columns", default="")
    p.add_argument("--where", action="append", default=[])
    p.add_argument("--caption", default="")
    p.add_argument("--label", default="")
    p.add_argument("--interval", action="store_true")
    p.add_argument("--margin", type=float, default=0.02)
    p.add_argument("--score-margin", "--score_margin", type=float, default=0.02)
    p.add_argument("--base", default="")
    p.add_argument("--experiments-dir", "--experiments_dir", default="")
    return p


def main(arguments):
    options = parser().parse_args(arguments)
    tables.check_format(options.format)
    if options.view == "rows":
        options.view = "columns"
    find_known("view", options.view, VIEWS)
    if not options.rows:
        raise UserError("table needs files of rows")
    names = [name.strip() for name in options.columns.split(",") if name.strip()]
    if options.view == "paper":
        _write_paper_tables(options, names)
        return 0
    if options.artifact:
        raise UserError("--artifact needs --view paper")
    rows = _picked(read_latest(*options.rows), options)
    if options.view == "paired":
        margins = (options.margin, options.score_margin)
        text = ablation.paired_report(rows, margins, options.base, options.format)
    elif options.view == "parallelism":
        text = parallelism.report(rows, options.format)
    else:
        names = names or ["score", "tokens_per_second", "speedup"]
        text = render_layout(layout.lay_out_columns(rows, names, options.caption), options)
    tables.write(text, options.output)
    return 0
