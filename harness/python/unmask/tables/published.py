# SPDX-License-Identifier: Apache-2.0
"""What a paper printed: experiments/published/PAPER.toml. These numbers are shown beside ours, as the
paper's, and never in place of ours.

    paper, title, arxiv; harness: id under which its scores were made
    [[value]]          artifact, row, column, metric, value, unit, source; note
    [[inconsistency]]  where, what; artifact"""

from dataclasses import dataclass, field
import os

from unmask.rows import experiments
from unmask.rows.errors import UserError
from unmask.rows.names import unknown_name
from unmask.rows.shapes import LARGEST_NUMBER, TEXT, fit

NEEDED = ("artifact", "row", "column", "metric", "source")


@dataclass(frozen=True)
class Value:
    artifact: str
    row: str
    column: str
    metric: str
    value: float
    unit: str
    source: str
    note: str = ""


@dataclass
class Paper:
    paper: str
    title: str
    arxiv: str = ""
    harness: str = ""  # of its scores; "": the paper does not say
    values: list = field(default_factory=list)
    inconsistencies: list = field(default_factory=list)

    def find(self, artifact, row, column, metric=""):
        """The value of a cell, None where the paper has none. `metric` "": any, of which there must be
        one only."""
        found = [v for v in self.values if (v.artifact, v.row, v.column) == (artifact, row, column)
                 and metric in ("", v.metric)]
        if len(found) > 1:
            raise UserError(f"published/{self.paper}.toml: {artifact}, row '{row}', column '{column}' "
                            "has several metrics; say which")
        return found[0] if found else None


def _check_keys(table, known, where):
    for key in table:
        if key not in known:
            raise UserError(f"{where}: {unknown_name('key', key, known)}")


def _text(table, key, where, needed=True):
    value = table.get(key, "")
    if not isinstance(value, str) or (needed and not value):
        raise UserError(f"{where}: needs `{key}`, a text")
    return value


def _read_value(table, where):
    _check_keys(table, (*NEEDED, "value", "unit", "note"), where)
    value = table.get("value")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise UserError(f"{where}: `value` takes a number")
    if not abs(value) <= LARGEST_NUMBER:  # nan too
        raise UserError(f"{where}: `value` must be finite, and no larger than {LARGEST_NUMBER:g}")
    texts = {key: _text(table, key, f"{where}: value.{key}") for key in NEEDED}
    if "unit" not in table:
        raise UserError(f"{where}: needs `unit`; \"\" for none")
    return Value(value=float(value), unit=_text(table, "unit", where, False),
                 note=_text(table, "note", where, False), **texts)


def read_published(path):
    """Reads a paper's printed numbers. UserErrors name file and key: unknown or missing keys, a number
    that is not finite or has no source, the same cell twice, a paper that is not the file's stem."""
    table = experiments.read_toml(path, "published numbers")
    _check_keys(table, ("paper", "title", "arxiv", "harness", "value", "inconsistency"), path)
    fit(table, {"value?": [{}], "inconsistency?": [{"artifact?": TEXT}]}, path)
    paper = Paper(_text(table, "paper", path), _text(table, "title", path),
                  _text(table, "arxiv", path, False), _text(table, "harness", path, False))
    stem = os.path.splitext(os.path.basename(path))[0]
    if paper.paper != stem:
        raise UserError(f"{path}: `paper` is '{paper.paper}' but must be the name of the file, '{stem}'")
    seen = set()
    for number, entry in enumerate(table.get("value", []), 1):
        where = f"{path}: [[value]] number {number}"
        v = _read_value(entry, where)
        cell = (v.artifact, v.row, v.column, v.metric)
        if cell in seen:
            raise UserError(f"{where}: {v.artifact}, row '{v.row}', column '{v.column}', metric "
                            f"'{v.metric}' stands here twice")
        seen.add(cell)
        paper.values.append(v)
    for entry in table.get("inconsistency", []):
        _check_keys(entry, ("where", "what", "artifact"), path)
        paper.inconsistencies.append((entry.get("artifact", ""),
                                      _text(entry, "where", f"{path}: inconsistency.where"),
                                      _text(entry, "what", f"{path}: inconsistency.what")))
    return paper
