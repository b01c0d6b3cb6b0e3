# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Numbers in sentences that are those of a page of claims:

    FOCUS is <!-- is: claims/focus.md#speedup_of_2_32 value .1 -->2.1<!-- --> times as fast.

A marker names the page, from the folder of the page it is on, and the claim or control. Then come words:

    simplest, quality, published   that cell, not what was measured here
    loss                           with the other sign
    %                              a share of 1 as per cent
    value                          without the interval
    .N                             N decimals (0 if there are none)

The number is rounded from the one that the page shows, which has three decimals or more digits (differences of
scores: one decimal)."""

from decimal import ROUND_HALF_UP, Decimal
import os
import re

MARKER = re.compile(r"<!-- is: ([\w./-]+)#(\w+)((?: [\w.%]+)*) -->(.*?)<!-- -->", re.DOTALL)
COMMENT = re.compile(r"<!-- (?:is: [^>]*)?-->")
ROWS = {"simplest": "over the simplest method", "quality": "change of quality, pp"}
NUMBERS = re.compile(r"(-?[\d.]+(?:e-?\d+)?)(?: \[(-?[\d.]+(?:e-?\d+)?), (-?[\d.]+(?:e-?\d+)?)\])?")


class Unknown(Exception):
    pass


def without_markers(text):
    """The text as a reader sees it."""
    return COMMENT.sub("", text)


def _cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _cell(page, name, words):
    """The cell of a page that a marker is about."""
    section = re.search(rf'<a id="{name}"></a>\n(.*?)(?=\n<a id=|\n## Controls|\Z)', page, re.DOTALL)
    if section is None:  # a control: id, statement, verdict, here, ...
        line = re.search(rf"^\| {name} \|.*$", page, re.MULTILINE)
        if line is None:
            raise Unknown(f"no claim or control {name}")
        return _cells(line.group(0))[3]
    table = [_cells(line) for line in section.group(1).split("\n") if line.startswith("|")]
    wanted = next((ROWS[w] for w in words if w in ROWS), None)
    rows = [cells for cells in table[2:] if wanted is None or cells[0] == wanted]
    if not rows or table[0][0] != "quantity":
        raise Unknown(f"{name} has no row '{wanted or 'here'}'")
    return rows[0][3 if "published" in words else 1]


def text_of(page, name, words):
    """What a marker shows, from the text of the page that it names."""
    found = NUMBERS.search(_cell(page, name, words).rpartition(": ")[2])  # behind "not determined (needs N items): "
    if found is None:
        raise Unknown(f"{name} has no number")
    scale = (-1 if "loss" in words else 1) * (100 if "%" in words else 1)
    last = Decimal(1).scaleb(-next((int(w[1:]) for w in words if w.startswith(".")), 0))
    value, *ends = [(scale * Decimal(v)).quantize(last, ROUND_HALF_UP) for v in found.groups() if v is not None]
    if not ends or "value" in words:
        return _shown(value)
    return f"{_shown(value)} [{_shown(min(ends))}, {_shown(max(ends))}]"


def _shown(number):
    return f"{abs(number) if number == 0 else number:f}"


def rewritten(text, folder):
    """The text of a page in `folder` with every marked number as its page of claims has it."""
    def value(match):
        page, name, words, _ = match.groups()
        with open(os.path.join(folder, page), encoding="utf-8") as file:
            shown = text_of(file.read(), name, words.split())
        return f"<!-- is: {page}#{name}{words} -->{shown}<!-- -->"
    return MARKER.sub(value, text)
