# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""What the figure scripts share: a figure family is a function from rows to drawings.

A family module has `draw(rows, options) -> [Drawing]`, which raises NotDrawn with one sentence when
the rows lack what it shows, and calls main() as a script. report.py calls draw() itself.
"""

import argparse
import hashlib
from typing import Any, NamedTuple

from ending import guarded, letters_missed
from rows import *  # noqa: F401,F403
from rows import BadInput, NotDrawn, machine, ordered, read_rows
from style import *  # noqa: F401,F403
from style import COLUMN, SETUP, plt, save, set_note, style
from unmask.rows.glossary import heading as heading_of  # noqa: F401  (the words of axes)


class Drawing(NamedTuple):
    name: str  # added to the output path; "" when a family has one figure
    title: str  # one sentence: what is shown, with units
    figure: Any
    rows: list  # those that became marks, each once


def grouped(values, key):
    """Values in groups of one key, in the order of their first."""
    groups = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return list(groups.values())


def wrapped(sentences):
    """Sentences of a note, one behind the other."""
    return "; ".join(sentences)


def together_note(tasks):
    """Says that a mark is of several tasks together: which."""
    return f"tasks together: {', '.join(task.replace('_', ' ') for task in tasks)}" if len(tasks) > 1 else ""


def profiled(rows, what):
    """Those of `unmask profile` (results/FORMAT.md)."""
    kept = [r for r in rows if (r.get("probes") or {}).get("phases")]
    if not kept:
        raise NotDrawn(f"{what} needs rows of `unmask profile`; these have no phases")
    return kept


def mark_of(rows):
    """Eight hex digits that change with the rows."""
    return hashlib.sha256("".join(sorted(r["point_id"] for r in rows)).encode()).hexdigest()[:8]


def of_points(rows, points):
    """The rows with these numbers: those which the package took together into marks."""
    points = set(points)
    return [r for r in rows if r["mark"] in points]


def footnote(figure, rows, more=""):
    """Where the numbers come from: rows, machine, and a mark that changes with them."""
    machines = ", ".join(ordered(machine(r) for r in rows))
    text = f"{len(rows)} rows ({mark_of(rows)}) · {machines}"
    undecided = sum((r.get("score") or {}).get("undecided", 0) for r in rows)
    if undecided:
        text += f" · {undecided} undecided answer{'s' * (undecided > 1)} drawn as wrong, in the interval's upper end as right"
    text += "".join(f" · {note}" for note in notes_of_rules(rows))
    set_note(figure, f"{more}\n{text}" if more else text)


def notes_of_rules(rows):
    """Which rows have a rule in Python, whose calls are in their times, and the share of time of these calls."""
    found = {}
    for r in rows:
        metrics = r["metrics"]
        if (r.get("params") or {}).get("code") and metrics.get("wall_seconds"):
            found.setdefault(r["label"], []).append(100 * metrics.get("rule_seconds", 0) / metrics["wall_seconds"])
    return [f"{label}: a rule in Python, {min(shares):.0f}{f' to {max(shares):.0f}' if len(shares) > 1 else ''} % of its time"
            for label, shares in found.items()]


def drawn(draw, rows, options=None):
    """The drawings of a family, each with the number of rows below it that it does not show."""
    before, SETUP.named = SETUP.named, getattr(options, "named", None) or SETUP.named
    try:
        drawings = draw(rows, options)
    finally:
        SETUP.named = before
    if not drawings:
        raise NotDrawn("there is nothing to draw in these rows")
    for drawing in drawings:
        left_out = len(rows) - len({id(r) for r in drawing.rows})
        note = getattr(drawing.figure, "note_text", None)
        if left_out > 0 and note is not None:
            set_note(drawing.figure, f"{note} · {left_out} of {len(rows)} rows are not shown here")
    return drawings


def parser_of(description, default):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("rows", nargs="+", help="row files (*.jsonl) or directories of them")
    parser.add_argument("-o", "--output", default=default, help="path without extension, for .svg, .png and .pdf; with one, for that file only")
    paper_arguments(parser)
    return parser


def paper_arguments(parser):
    """What a figure needs to stand in a paper."""
    group = parser.add_argument_group("for a paper")
    group.add_argument("--column", action="store_true",
                       help=f"make the figure as wide as a column ({COLUMN} inches)")
    group.add_argument("--width", type=float, metavar="INCHES", help="make it as wide as this")
    group.add_argument("--method", action="append", default=[], metavar="LABEL",
                       help="draw this method alone (repeatable: these, in this order)")
    group.add_argument("--rename", action="append", default=[], metavar="LABEL=NAME",
                       help="write NAME for a label (repeatable)")
    group.add_argument("--named", action="append", default=[], metavar="LABEL",
                       help="give this method a name and a colour where there are too many for all (repeatable)")
    group.add_argument("--direct", action="store_true",
                       help="write names beside marks and lines instead of a legend, where the figure "
                       "has marks or lines")
    group.add_argument("--no-note", action="store_true",
                       help="leave out the lines below the figure; say in the caption what they say")
    group.add_argument("--font", default="DejaVu Sans", help="font, e.g. \"DejaVu Serif\"")


def set_up(options):
    """Makes the options of paper_arguments those of every figure from now on."""
    if options.width is not None and not 1 <= options.width <= 40:
        raise BadInput(f"--width {options.width:g}: say 1 to 40 inches")
    SETUP.width = options.width or (COLUMN if options.column else None)
    SETUP.note, SETUP.direct, SETUP.font = not options.no_note, options.direct, options.font
    SETUP.named = tuple(options.named)


def main(draw, description, default, more=None):
    """The command line of a figure family; returns the exit code."""
    parser = parser_of(description, default)
    if more:
        more(parser)
    options = parser.parse_args()

    def work():
        set_up(options)
        style()
        with letters_missed():
            return made()

    def made():
        rows = read_rows(options.rows, options.method, options.rename)
        for drawing in drawn(draw, rows.reportable(), options):
            path, kinds = path_and_kinds(options.output)
            output = path + (f"-{drawing.name}" if drawing.name else "")
            save(drawing.figure, output, kinds)
            print(f"{output}.{' .'.join(kinds)}: {drawing.title}")
        plt.close("all")
        return 0

    return guarded(work)
