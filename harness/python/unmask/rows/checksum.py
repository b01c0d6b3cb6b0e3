# SPDX-License-Identifier: Apache-2.0
"""`sha256`, the last member of a row: the SHA-256 of its line without it, by which a reader sees that a line is
as it was written (the program: harness/rows/row.cpp)."""

import hashlib
import json
import re

from unmask.rows.text import whole

MEMBER = re.compile(r',"sha256":"([0-9a-f]{64})"\}$')
CHANGED = "changed after it was written"  # begins the reason of such a row


def line_of(row):
    """The line of a row that is written, with its checksum and without its end."""
    held = {name: value for name, value in row.items() if name != "sha256"}
    text = whole(json.dumps(held, ensure_ascii=False, separators=(",", ":")))
    return f'{text[:-1]},"sha256":"{hashlib.sha256(text.encode()).hexdigest()}"}}'


def fits(row, line):
    """Whether the line is, byte for byte, what it was written as; true of older rows, which have no checksum."""
    if row.get("sha256") is None:
        return True
    line = line.strip(" \t\r\n")
    member = MEMBER.search(line)
    return bool(member) and hashlib.sha256((line[:member.start()] + "}").encode()).hexdigest() == member[1]


def marked(row):
    """The row with the verdict that it has at best: none rests on numbers that somebody changed."""
    row["changed"] = True
    if row["verdict"] in ("PASS", "NOISY", "NOT_VERIFIED", "INACTIVE"):
        row["reason"] = CHANGED + (f"; {row['reason']}" if row["reason"] else "")
        row["verdict"] = "NOT_VERIFIED"
    return row


def is_marked(row):
    return row.get("changed") is True
