# SPDX-License-Identifier: Apache-2.0
"""Markdown on a terminal: tables padded and fitted to its width by the rules of the program's own tables
(harness/cli/terminal.cpp); tests/harness/python/tables/test_terminal.py holds both."""

import os
import shutil
import sys
import unicodedata

from unmask.rows.glossary import heading

NARROWEST = 6  # columns that a cell of text is cut to
# Numbers that a reader misses least, in this order, and numbers that have intervals.
LEAST_MISSED = ("redundancy", "nfe", "committed_per_step", "tpf")
WITH_INTERVALS = ("score", "speedup")


def _width_of(sign):
    if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def display_width(text):
    return len(text) if text.isascii() else sum(map(_width_of, text))


def cut_to_width(text, columns):
    """The beginning of a text that fits; "…" is its last column where it was cut."""
    if columns <= 0 or display_width(text) <= columns:
        return text if columns > 0 else ""
    used = 0
    for end, sign in enumerate(text):
        used += _width_of(sign)
        if used > columns - 1:
            return text[:end] + "…"
    return text


def cells_of(line):
    r"""A line of a Markdown table without its bars; "\|" is a bar of a text."""
    cells, cell, signs = [], "", iter(range(1, len(line)))
    for i in signs:
        if line[i] == "\\" and i + 1 < len(line) and line[i + 1] in "|\\":
            cell += line[next(signs)]
        elif line[i] == "|":
            cells.append(cell.strip(" "))
            cell = ""
        else:
            cell += line[i]
    return cells


def _is_rule(line):
    return line.startswith("|-") and not line.strip("|-:")


def halves(text):
    """Two lines of a heading, broken after a slash or at a blank so that the wider one is as narrow as it can be."""
    best, narrow = (text, ""), display_width(text)
    for i, sign in enumerate(text):
        if sign not in "/ ":
            continue
        first, second = text[:i + (sign == "/")], text[i + 1:]
        width = max(display_width(first), display_width(second))
        if width < narrow:
            best, narrow = (first, second), width
    return best


class _Fitting:
    """A table on its way to a terminal."""

    def __init__(self, lines):
        rules = [line for line in lines if _is_rule(line)]
        self.rows = [cells_of(line) for line in lines if not _is_rule(line)]
        self.right = [cell.endswith(":") for line in rules for cell in cells_of(line)]
        most = max([len(self.right), *map(len, self.rows)])
        self.rows = [row + [""] * (most - len(row)) for row in self.rows]
        self.right += [False] * (most - len(self.right))
        self.head, self.rows = self.rows[0], self.rows[1:]
        self.name, self.second = list(self.head), [""] * most  # whole headings; second lines of broken ones
        self.left_out, self.width = 0, [0] * most
        for i in range(most):
            self.measure(i)

    def measure(self, i):
        self.width[i] = max(display_width(row[i]) for row in [self.head, self.second, *self.rows])

    def total(self):
        return sum(self.width) + 2 * max(0, len(self.width) - 1)

    def take_out(self, i):
        for line in (self.name, self.head, self.second, self.right, self.width, *self.rows):
            del line[i]

    def headings(self, columns):
        """What is equal in all rows, as lines of a heading; such columns are taken out, the last one of text
        is not."""
        text, line, i = "", "", 0
        while len(self.rows) > 1 and i < len(self.head):
            values = {row[i] for row in self.rows} - {""}
            if (len(values) != 1 or not self.rows[0][i] or len(self.head) < 2
                    or (not self.right[i] and self.right.count(False) < 2)):
                i += 1
                continue
            part = f"{self.head[i]} {values.pop()}"
            if line and display_width(line) + 3 + display_width(part) > columns:
                text, line = text + line + "\n", ""
            line += (" · " if line else "") + part
            self.take_out(i)
        return text + line + "\n\n" if line else text

    def break_headings(self):
        """Breaks the headings of numbers that are wider than their cells."""
        for i, name in enumerate(self.name):
            body = max((display_width(row[i]) for row in self.rows), default=0)
            if self.right[i] and display_width(self.head[i]) > body:
                self.head[i], self.second[i] = halves(name)
                self.measure(i)

    def drop_numbers(self, columns):
        for name in map(heading, LEAST_MISSED):
            for i in reversed(range(len(self.head))):
                if self.total() > columns and self.right[i] and self.name[i] == name:
                    self.take_out(i)
                    self.left_out += 1
        for name in map(heading, WITH_INTERVALS):
            for i, whole in enumerate(self.name):
                if self.total() > columns and self.right[i] and whole == name:
                    for row in self.rows:
                        row[i] = row[i].partition(" [")[0]
                    self.measure(i)

    def _least_width(self, i):
        """The narrowest that a column of text may become: its cells stay as different as they are."""
        def different(width):
            return len({cut_to_width(row[i], width) for row in self.rows})
        if self.right[i]:
            return self.width[i]
        width, wanted = min(NARROWEST, self.width[i]), different(self.width[i])
        while width < self.width[i] and different(width) < wanted:
            width += 1
        return width

    def shorten_texts(self, columns):
        """Makes the widest column of text narrower, one column at a time, while its rows stay told apart."""
        least = [self._least_width(i) for i in range(len(self.head))]
        while self.total() > columns:
            wide = [i for i, width in enumerate(self.width) if width > least[i]]
            if not wide:
                return
            self.width[max(wide, key=lambda i: (self.width[i], -i))] -= 1

    def drop_the_rest(self, columns):
        """Numbers from the right. What tells rows apart stays, whatever the width."""
        for i in reversed(range(1, len(self.head))):
            if self.total() > columns and self.right[i]:
                self.take_out(i)
                self.left_out += 1

    def line_of(self, row):
        cells = []
        for text, width, right in zip(row, self.width, self.right):
            cut = cut_to_width(text, width)
            blanks = " " * max(0, width - display_width(cut))
            cells.append(blanks + cut if right else cut + blanks)
        return "  ".join(cells).rstrip(" ") + "\n"


def _fitted_table(lines, columns):
    t = _Fitting(lines)
    text = t.headings(columns) if t.total() > columns else ""
    if t.total() > columns:
        t.break_headings()
    t.drop_numbers(columns)
    t.shorten_texts(columns)
    t.drop_the_rest(columns)
    text += t.line_of(t.head) + (t.line_of(t.second) if any(t.second) else "")
    text += t.line_of(["-" * width for width in t.width]) + "".join(map(t.line_of, t.rows))
    if t.left_out:
        text += f"({t.left_out} more columns: widen the terminal, or write to a file)\n"
    return text


def _wrapped(text, columns):
    """A line of text over as many lines as it needs, broken at blanks."""
    if display_width(text) <= columns:
        return text + "\n"
    out, line = "", ""
    for word in text.split():
        if line and display_width(line) + 1 + display_width(word) > columns:
            out, line = out + line + "\n", ""
        line += (" " if line else "") + word
    return out + line + "\n"


def fitted(markdown, columns):
    """Markdown for people: its tables with padded columns, cut to this many columns of a terminal."""
    text, table = "", []
    for line in [*markdown.removesuffix("\n").split("\n"), None]:
        if line is not None and line.startswith("|"):
            table.append(line)
            continue
        if len(table) >= 2 and _is_rule(table[1]):
            text += _fitted_table(table, columns)
        else:
            text += "".join(f"{bars}\n" for bars in table)
        table = []
        if line is not None:
            text += _wrapped(line, columns)
    return text


def columns_of_output():
    """How many columns the terminal on standard output has; None where it is no terminal."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return None
    return shutil.get_terminal_size((80, 24)).columns
