# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Numbers in sentences that are those of a page of claims, of a table or of a line that a command wrote:

    FOCUS is <!-- is: claims/focus.md#speedup_of_2_32 value .1 -->2.1<!-- --> times as fast.
    It takes <!-- is: measured.md "^FOCUS .* 256 .* on" "W" -->695<!-- --> W.
    It compared <!-- is: measured.md "([0-9]+) cases, all right" -->392<!-- --> cases.

A marker names the page, from the folder of the page it is on; "." is that page. Then comes, with #, a claim or control;
or a pattern of a row (its cells with " | " between) and the heading of a column; or a pattern with one group, which
is the number. A file of JSON lines is a page, too. Then come words:

    simplest, quality, published   that cell of a claim, not what was measured here
    loss                           with the other sign
    %                              a share of 1 as per cent
    value                          without the interval
    least, most, median, sum       of all rows that the pattern finds; without one of these it finds one
    count                          how many rows or lines the pattern finds
    over "ROW" "COLUMN"            divided by that cell; least or most behind it choose among rows
    /N                             divided by N, as seconds are for minutes; N may have decimals
    .N                             N decimals (0 if there are none); , thousands have commas

The number is rounded from the one that the page shows. Of claims that has three decimals or more digits (differences
of scores: one decimal)."""

from decimal import ROUND_HALF_UP, Decimal
import os
import re
import statistics

MARKER = re.compile(r"<!-- is: ([\w./-]+)#(\w+)((?: [\w.%]+)*) -->(.*?)<!-- -->", re.DOTALL)
CELL = re.compile(r'<!-- is: ([\w./-]+) ("[^"\n]*".*?) -->(.*?)<!-- -->')
COMMENT = re.compile(r"<!-- (?:is: .*?)?-->")
ROWS = {"simplest": "over the simplest method", "quality": "change of quality, pp"}
NUMBERS = re.compile(r"(-?[\d.]+(?:e-?\d+)?)(?: \[(-?[\d.]+(?:e-?\d+)?), (-?[\d.]+(?:e-?\d+)?)\])?")
CHOICES = {"least": min, "most": max, "sum": sum, "median": statistics.median}


class Unknown(Exception):
    pass


def without_markers(text):
    """The text as a reader sees it."""
    return COMMENT.sub("", text)


def with_values_as(word, text):
    """The text with a word for every marked number."""
    return CELL.sub(word, MARKER.sub(word, text))


def _cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _cell(page, name, words):
    """The cell of a page that a marker is about."""
    section = re.search(rf'<a id="{name}"></a>\n(.*?)(?=\n<a id=|\n## Controls|\Z)', page, re.DOTALL)
    wanted = next((ROWS[w] for w in words if w in ROWS), None)
    if section is None:  # a control is a row of a table
        found = _of_table(page, rf"^{name} \|", "published" if "published" in words else wanted or "here")
        if not found:
            raise Unknown(f"no claim or control {name}" + (f" with '{wanted}'" if wanted else ""))
        return found[0]
    table = [_cells(line) for line in section.group(1).split("\n") if line.startswith("|")]
    rows = [cells for cells in table[2:] if wanted is None or cells[0] == wanted]
    if not rows or table[0][0] != "quantity":
        raise Unknown(f"{name} has no row '{wanted or 'here'}'")
    return rows[0][3 if "published" in words else 1]


def _of_table(page, row, column):
    """The cells of a column in the rows that the pattern finds, of all tables that have such a column."""
    found, heading = [], None
    for line in without_markers(page).replace("**", "").split("\n"):
        cells = _cells(line) if line.startswith("|") else None
        rule = cells and re.fullmatch(r"[-:| ]*", line)  # below the headings
        if cells and heading and not rule and column in heading and re.search(row, " | ".join(cells)):
            found.append(cells[heading.index(column)])
        heading = cells and (heading or cells)
    return found


def _first_number(text):
    """The first number of a cell, behind "not determined (needs N items): "."""
    return NUMBERS.search(text.rpartition(": ")[2])


def _number(page, names, words):
    """(number, low end, high end) of one cell or group; the ends are None without an interval and of a choice."""
    if len(names) > 1:
        texts = _of_table(page, *names)
    else:
        texts = [m.group(m.re.groups and 1) for m in re.finditer(names[0], without_markers(page), re.MULTILINE)]
    if "count" in words:
        return Decimal(len(texts)), None, None
    found = [_first_number(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)) for text in texts]
    found = [tuple(v and Decimal(v) for v in m.groups()) for m in found if m]
    choice = next((CHOICES[w] for w in words if w in CHOICES), None)
    if not found or len(found) > 1 and not choice:
        raise Unknown(f"{len(found) or 'no'} numbers of {', '.join(names)}")
    return (choice([v for v, _, _ in found]), None, None) if choice else found[0]


def text_of_cell(page, text):
    """What a marker of a table or line shows; text: what is behind the page's name in the marker."""
    sides = [([], [])]
    for part in re.findall(r'"[^"]*"|\S+', text):
        if part == "over":
            sides.append(([], []))
        else:
            sides[-1][part[0] != '"'].append(part.strip('"'))
    found, words = _number(page, *sides[0]), sides[0][1]
    for names, choice in sides[1:]:
        words += choice
        found = (found[0] / _number(page, names, choice)[0], None, None)
    return _text(found, words)


def text_of(page, name, words):
    """What a marker shows, from the text of the page that it names."""
    found = _first_number(_cell(page, name, words))
    if found is None:
        raise Unknown(f"{name} has no number")
    return _text([v and Decimal(v) for v in found.groups()], words)


def _text(numbers, words):
    """A number and the ends of its interval, as the words of a marker want them."""
    scale = Decimal((-1 if "loss" in words else 1) * (100 if "%" in words else 1))
    scale /= next((Decimal(w[1:]) for w in words if re.fullmatch(r"/[\d.]+", w)), 1)
    last = Decimal(1).scaleb(-next((int(w[1:]) for w in words if re.fullmatch(r"\.\d+", w)), 0))
    value, *ends = [(scale * v).quantize(last, ROUND_HALF_UP) for v in numbers if v is not None]
    if not ends or "value" in words:
        return f"{value:,f}" if "," in words else _shown(value)
    return f"{_shown(value)} [{_shown(min(ends))}, {_shown(max(ends))}]"


def _shown(number):
    return f"{abs(number) if number == 0 else number:f}"


def rewritten(text, folder):
    """The text of a page in `folder` with every marked number as the page that it names has it."""
    def read(page):
        if page == ".":
            return text
        with open(os.path.join(folder, page), encoding="utf-8") as file:
            return file.read()

    def of_claim(match):
        page, name, words, _ = match.groups()
        return f"<!-- is: {page}#{name}{words} -->{text_of(read(page), name, words.split())}<!-- -->"

    def of_cell(match):
        page, what, _ = match.groups()
        return f"<!-- is: {page} {what} -->{text_of_cell(read(page), what)}<!-- -->"
    return CELL.sub(of_cell, MARKER.sub(of_claim, text))
