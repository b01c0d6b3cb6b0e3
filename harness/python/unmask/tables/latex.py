# SPDX-License-Identifier: Apache-2.0
"""A laid-out table as a paper prints it: booktabs, headers over several columns, a heading for each
group of rows, the best of each group in bold, one number of decimals in a column."""

import math

from unmask.tables.layout import note_of_ties, printed_number, shown_columns
from unmask.tables.tables import latex_text, plain_text


def decimals(column, cells):
    """How many decimals the numbers of a column have, whatever their intervals. Scores in per cent and
    counts: one. Others: those of the column, and more where a number would keep less than two digits."""
    cells = [c for c in cells if c.measured is not None and math.isfinite(c.measured)]
    counted = bool(cells) and all(c.counted for c in cells)
    whole = counted and all(c.measured == math.floor(c.measured) for c in cells)
    if whole or (column.metric == "score" and column.factor == 100):
        return 1
    smallest = min((abs(c.measured) for c in cells if c.measured), default=1)
    return max(column.digits, int(counted), 1 - math.floor(math.log10(smallest)))


def _text(text):
    """Text that may hold a sign which its writer has escaped already."""
    return latex_text(plain_text(text).replace("\\%", "%").replace("\\_", "_").replace("\\&", "&"))


def _columns(laid):
    """Each printed column: (header over it, header of its own, which, column of the table)."""
    shown, _ = shown_columns(laid)
    out = []
    for i, c in enumerate(laid.columns):
        if c.has_published:
            out.append((c.key, f"{c.across} paper".strip(), "paper", i))
        if shown[i]:
            own = c.across or ("here" if c.has_published else "")
            out.append((c.key, own, "ours", i))
    return out


def _header(laid, columns):
    """One line of headers, or two with rules where a header spans several columns."""
    groups = []  # (header, first, number)
    for at, (key, _, _, _) in enumerate(columns):
        if groups and groups[-1][0] == key:
            groups[-1][2] += 1
        else:
            groups.append([key, at, 1])
    first = [_text(laid.row_header)]
    if all(number == 1 and not columns[at][1] for _, at, number in groups):
        return " & ".join(first + [_text(key) for key, _, _ in groups]) + " \\\\\n"
    rules = ""
    for key, at, number in groups:
        first.append(rf"\multicolumn{{{number}}}{{c}}{{{_text(key)}}}")
        rules += rf"\cmidrule(lr){{{at + 2}-{at + number + 1}}}"
    across = laid.across_name
    second = [_text(across)] + [_text(own) for _, own, _, _ in columns]
    return " & ".join(first) + " \\\\\n" + rules + "\n" + " & ".join(second) + " \\\\\n"


def _heading(laid, row):
    return row.keys[0] if laid.with_groups and row.keys else ""


def _cell(cell, which, digits, interval):
    if which == "paper":
        return printed_number(cell.published.value) if cell.published else "--"
    if cell.measured is None:
        return "--"
    text = f"{cell.measured:.{digits}f}"
    text = rf"\textbf{{{text}}}" if cell.bold else text
    if interval and cell.range:
        text += rf" {{\scriptsize[{cell.range[0]:.{digits}f}, {cell.range[1]:.{digits}f}]}}"
    return text + (r"$^\dagger$" if cell.dagger else "")


def _notes(laid, digits, interval):
    """Lines below the table; what is said of brackets only with them."""
    notes = [n for n in laid.footnotes
             if interval or not n.startswith(("In brackets", "Without interval"))]
    notes += note_of_ties(laid, digits)
    _, empty = shown_columns(laid)
    if empty:
        notes.append(f"Measured in no row: {'; '.join(empty)}.")
    return "".join(f"\\par{{\\footnotesize {_text(note)}}}\n" for note in notes)


def paper_latex(laid, caption="", label="", interval=False):
    """The table as LaTeX that needs booktabs alone, for one column of a paper. interval: print it
    behind every number that has one."""
    digits = [decimals(c, [row.cells[i] for row in laid.rows]) for i, c in enumerate(laid.columns)]
    columns, text = _columns(laid), "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\n"
    caption = caption or laid.title
    text += f"\\caption{{{_text(caption)}}}\n" if caption else ""
    text += f"\\label{{{plain_text(label)}}}\n" if label else ""
    text += "\\small\n\\setlength{\\tabcolsep}{4pt}\n"
    text += f"\\begin{{tabular}}{{@{{}}l{'r' * len(columns)}@{{}}}}\n\\toprule\n"
    text += _header(laid, columns) + "\\midrule\n"
    heading, place = None, {}
    for row in laid.rows:  # rows of one group together, in the order of their first
        place.setdefault(_heading(laid, row), len(place))
    for row in sorted(laid.rows, key=lambda row: place[_heading(laid, row)]):
        name = _heading(laid, row)
        if name != heading and heading is not None:
            text += "\\midrule\n"
        if name and name != heading:
            text += rf"\multicolumn{{{len(columns) + 1}}}{{@{{}}l@{{}}}}{{\emph{{{_text(name)}}}}} \\" "\n"
        heading = name
        cells = [_cell(row.cells[i], which, digits[i], interval) for _, _, which, i in columns]
        text += " & ".join([_text(row.short or row.name), *cells]) + " \\\\\n"
    text += "\\bottomrule\n\\end{tabular}\n"
    return text + _notes(laid, digits, interval) + "\\end{table}\n"
