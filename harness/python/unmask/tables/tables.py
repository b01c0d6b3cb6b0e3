# SPDX-License-Identifier: Apache-2.0
"""A table and its writers: Markdown, CSV, LaTeX, JSON. Nothing else writes these formats, and every
sign that a format takes for its own is escaped here."""

from dataclasses import dataclass, field
import math
import re

from unmask.rows.errors import UserError
from unmask.rows.files import replace_file
from unmask.rows.names import unknown_name
from unmask.rows.text import finite, json_text, shown  # noqa: F401  (finite, json_text: asked for here)
from unmask.tables import terminal

FORMATS = ("md", "csv", "latex", "json")
TAG = re.compile(r"<(?=[A-Za-z/!?])")
# What plain LaTeX does not set, and its own special characters.
LATEX_SIGNS = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%",
               "$": r"\$", "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}",
               "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "†": r"$^\dagger$", "–": "--",
               "±": r"$\pm$", "α": r"$\alpha$", "×": r"$\times$", "↑": r"$\uparrow$",
               "↓": r"$\downarrow$", "≤": r"$\le$", "≥": r"$\ge$", "\n": " "}


@dataclass
class Cell:
    """What a table shows: the text, the ends of an interval as text, marks; and for readers of JSON
    the number itself with its bounds."""
    text: str
    range: str = ""
    bold: bool = False
    dagger: bool = False  # synthetic or analytic
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass
class Table:
    """Headers (">batch": a column of numbers), rows of cells or texts, notes below it."""
    headers: list
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    title: str = ""

    def add(self, *cells):
        self.rows.append([c if isinstance(c, Cell) else Cell(c) for c in cells])

    @property
    def columns(self):
        return [(h[1:], True) if h.startswith(">") else (h, False) for h in self.headers]


def number_cell(value, digits, factor=1.0, bounds=None):
    """A number times `factor` with so many digits and its interval behind it; "–" for none."""
    if value is None or not math.isfinite(value):
        return Cell("–")
    cell = Cell(f"{value * factor:.{digits}f}", value=value * factor)
    if bounds is not None:
        cell.low, cell.high = bounds[0] * factor, bounds[1] * factor
        cell.range = f"{cell.low:.{digits}f}, {cell.high:.{digits}f}"
    return cell


def estimate_cell(e, digits, factor=1.0):
    return number_cell(e.value, digits, factor, e.range)


def count_cell(value):
    return Cell(str(value), value=value)


def latex_text(text):
    """Escapes every sign that LaTeX takes for its own."""
    return "".join(LATEX_SIGNS.get(c, c) for c in text)


def plain_text(text):
    """The text with what could steer a terminal written out, "\\u001b", as the program shows it: joiners, which
    are letters' business, stay."""
    return shown(text)


def plain_line(text):
    """plain_text() with newlines and tabs as blanks: for one cell of a table."""
    return shown(text).replace("\n", " ").replace("\t", " ")


def _markdown_text(text):
    r"""One line in which nothing ends the cell or begins a tag of HTML. Backslashes before a bar would escape
    the one that escapes the bar."""
    text = re.sub(r"(\\*)\|", lambda bar: bar[1] * 2 + "\\|", plain_line(text))
    return TAG.sub(r"\\\g<0>", text)


def _markdown_cell(cell):
    text = _markdown_text(cell.text)
    if cell.bold and text:
        text = f"**{text}**"
    if cell.range:
        text += f" [{cell.range}]"
    return text + (" †" if cell.dagger else "")


def _markdown(table):
    def line(cells):
        return "|" + "".join(f" {c} |" if c else " |" for c in cells) + "\n"
    text = f"**{_markdown_text(table.title)}**\n\n" if table.title else ""
    text += line([_markdown_text(header) for header, _ in table.columns])
    text += "|" + "".join("---:|" if right else "---|" for _, right in table.columns) + "\n"
    text += "".join(line([_markdown_cell(c) for c in row]) for row in table.rows)
    return text + "".join(f"\n{plain_text(note)}\n" for note in table.notes)


def _csv_field(text):
    """Quotes a field. A spreadsheet takes what begins with = + - @ for a formula: unless it is a
    number, an apostrophe before it says that it is text."""
    if text[:1] in ("=", "+", "-", "@", "\t", "\r"):
        try:
            float(text)
        except ValueError:
            text = "'" + text
    if any(c in text for c in ",\"\n\r"):
        return '"' + text.replace('"', '""') + '"'
    return text


def _csv(table):
    lines = [[header for header, _ in table.columns]]
    lines += [[cell.text for cell in row] for row in table.rows]
    return "".join(",".join(map(_csv_field, line)) + "\n" for line in lines)


def _latex_cell(cell):
    text = latex_text(plain_text(cell.text))
    if cell.bold and text:
        text = rf"\textbf{{{text}}}"
    if cell.range:
        text += rf" {{\scriptsize[{cell.range}]}}"
    return text + (r"$^\dagger$" if cell.dagger else "")


def _latex(table):
    columns = "".join("r" if right else "l" for _, right in table.columns)
    head = " & ".join(latex_text(header) for header, _ in table.columns)
    text = ("% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\n"
            f"\\caption{{{latex_text(table.title)}}}\n\\begin{{tabular}}{{{columns}}}\n"
            f"\\toprule\n{head} \\\\\n\\midrule\n")
    text += "".join(" & ".join(map(_latex_cell, row)) + " \\\\\n" for row in table.rows)
    text += "\\bottomrule\n\\end{tabular}\n"
    text += "".join(f"\\par{{\\footnotesize {latex_text(note)}}}\n" for note in table.notes)
    return text + "\\end{table}\n"


def table_json(table):
    """A table as an object: {title, columns: [{header, right}], rows: [[{text, range, bold, dagger,
    value, low, high}]], notes}, members without content left out."""
    def cell_json(cell):
        out = {"text": cell.text}
        for name in ("range", "bold", "dagger"):
            if getattr(cell, name):
                out[name] = getattr(cell, name)
        for name in ("value", "low", "high"):
            number = getattr(cell, name)
            if number is not None and math.isfinite(number):
                out[name] = number
        return out
    return {"title": table.title,
            "columns": [{"header": header, "right": right} for header, right in table.columns],
            "rows": [[cell_json(cell) for cell in row] for row in table.rows],
            "notes": table.notes}


def check_format(name, known=FORMATS):
    if name not in known:
        raise UserError(unknown_name("format", name, known))


def render(tables, form):
    """Writes one table or a list of them as md, csv, latex or json (of a list: an array)."""
    if form == "json":
        several = isinstance(tables, list)
        return json_text([table_json(t) for t in tables] if several else table_json(tables))
    write = {"md": _markdown, "csv": _csv, "latex": _latex}[form]
    return "\n".join(map(write, tables if isinstance(tables, list) else [tables]))


def write(text, output):
    """Writes to a file, whose folder is made, or to standard output where none is named."""
    if not output:
        columns = terminal.columns_of_output()
        print(shown(text) if columns is None else terminal.fitted(shown(text), columns), end="")
        return
    replace_file(output, text)
