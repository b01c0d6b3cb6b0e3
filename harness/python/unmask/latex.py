# SPDX-License-Identifier: Apache-2.0
"""A laid-out table as a paper prints it: booktabs, headers over several columns, a heading for each
group of rows, the best of each group in bold, numbers rounded to what their interval supports."""

import math

from unmask.layout import printed_number, shown_columns
from unmask.tables import latex_text, plain_text


def rounded(value, bounds, digits):
    """Writes a number with its last digit at the first digit of its interval's half width; without an
    interval with so many digits."""
    if bounds is None or not all(map(math.isfinite, bounds)) or bounds[0] == bounds[1]:
        return f"{value:.{digits}f}"
    place = math.floor(math.log10((bounds[1] - bounds[0]) / 2))
    return f"{round(value, -place):.{max(0, -place)}f}"


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


def _cell(cell, which, digits):
    if which == "paper":
        return printed_number(cell.published.value) if cell.published else "--"
    if cell.measured is None:
        return "--"
    text = rounded(cell.measured, cell.range, digits)
    text = rf"\textbf{{{text}}}" if cell.bold else text
    return text + (r"$^\dagger$" if cell.dagger else "")


def paper_latex(laid, caption="", label=""):
    """The table as LaTeX that needs booktabs alone, for one column of a paper."""
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
        cells = [_cell(row.cells[i], which, laid.columns[i].digits)
                 for _, _, which, i in columns]
        text += " & ".join([_text(row.short or row.name), *cells]) + " \\\\\n"
    text += "\\bottomrule\n\\end{tabular}\n"
    notes = [n for n in laid.footnotes if not n.startswith(("In brackets", "Without interval"))]
    if any(cell.range for row in laid.rows for cell in row.cells):
        notes.append("Rounded to the first digit of the half width of the 95 % interval.")
    _, empty = shown_columns(laid)
    if empty:
        notes.append(f"Measured in no row: {'; '.join(empty)}.")
    text += "".join(f"\\par{{\\footnotesize {_text(note)}}}\n" for note in notes)
    return text + "\\end{table}\n"
