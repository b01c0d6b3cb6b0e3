# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Result rows as the package hands them over, and their names."""

import math
import os
import re
import sys
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "harness", "python"))

from unmask.rows.apart import differing, tasks_told, told_apart  # noqa: E402,F401


class BadInput(SystemExit):  # so that a script without main() still ends with the sentence
    """A file that cannot be read as what it should be; exit code 2."""


class NotDrawn(SystemExit):
    """Rows that lack what a figure shows; exit code 3."""


class Rows(list):
    """Rows as the package hands them over, and what it computed of them (harness/python/unmask/
    page/figures.py): pooled, by_task, sweeps, crossover, phases, parallelism."""

    def __init__(self, data):
        super().__init__(data["rows"])
        self.pooled, self.sweeps = data["pooled"], data["sweeps"]
        self.crossover, self.phases = data["crossover"], data["phases"]
        self.parallelism, self.by_task = data["parallelism"], data["by_task"]

    def reportable(self):
        """These without rows whose numbers may not be shown; says how many are left out."""
        kept = [r for r in self if r["reportable"]]
        if len(kept) < len(self):
            print(f"{len(self) - len(kept)} of {len(self)} rows are not shown: "
                  "their verdict is INVALID, FAILED or CANNOT DECODE", file=sys.stderr)
        if not kept:
            raise NotDrawn("no row to plot" if not self else
                           "every row has the verdict INVALID, FAILED or CANNOT DECODE")
        shown = Rows.__new__(Rows)
        shown.__dict__.update(self.__dict__)
        shown.extend(kept)
        return shown


def choose(rows, methods, renamed):
    """Rows of the methods whose labels `methods` lists, in its order, and labels as `renamed` has it;
    a method is also named by label and sweep together."""
    from unmask.rows.names import find_known
    from unmask.rows.rows import row_name
    known = sorted({name for r in rows for name in (r["label"], row_name(r))})
    for name in methods:
        find_known("method", name, known)
    if methods:
        rows = [r for name in methods for r in rows if name in (r["label"], row_name(r))]
    for text in renamed:
        label, equals, name = text.partition("=")
        if not equals or not name:
            raise BadInput(f"--rename {text}: say LABEL=NAME")
        find_known("label", label, sorted({r["label"] for r in rows}))
        for row in rows:
            if row["label"] == label:
                row["label"] = name
    return rows


def read_rows(paths, methods=(), renamed=()):
    """What figures of these files and folders show, as the package computes it (harness/python)."""
    try:
        from unmask.page import figures
        from unmask.rows import rows
        from unmask.rows.errors import UserError
        from unmask.rows.text import shown_all
        try:
            read = shown_all(rows.read_latest(*paths))  # no text of a row commands a terminal or a viewer
            return Rows(figures.figure_data(choose(read, methods, renamed)))
        except UserError as problem:
            raise BadInput(str(problem)) from None
    except ImportError as problem:  # a library of numbers is imported when it is first used
        raise BadInput(f"figures need the Python package {problem.name}: ./dev setup --python") from None


def metric(row, name):
    value = row["metrics"].get(name)
    return math.nan if value is None else float(value)


def not_measured(row, name):
    """True for values that rest on a model of the machine or on weights without meaning."""
    return row.get("provenance", {}).get(name) in ("analytic", "synthetic")


def half_width(row):
    """Absolute half width of the 95 % interval of tokens per second; 0 where it is not known."""
    return row["half_width"] or 0.0


# ---- names ---------------------------------------------------------------------------------------


def method_label(row, *shown):
    """Label and sweep; `shown`: sweep keys that are an axis of the figure."""
    parts = [f"{key}={value}" if value else key for key, value in row["parts"]
             if key.split(".")[-1] not in shown]
    synthetic = ["(synthetic)"] if row["model"]["weights"] == "synthetic" else []
    return " ".join([row["label"], *parts, *synthetic])


def series_label(row, rows, *shown):
    """Method, with model, batch size, device, machine, program or seed where they differ between the rows."""
    batches = "batch_size" not in shown and len({r["batch_size"] for r in rows}) > 1
    devices = len({r["device"] for r in rows}) > 1

    def name(of):
        text = method_label(of, *shown)
        if batches and "batch_size=" not in text:
            text += f" batch {of['batch_size']}"
        return text + (f" on {of['device']}" if devices else "")
    text = differing(rows, name)(row)
    if len({r["model"]["name"] for r in rows}) > 1:
        text += f" · {row['model']['name']}"
    return text


def ordered(values):
    return list(dict.fromkeys(values))


def machine(row):
    return row["machine"]


# ---- published numbers ---------------------------------------------------------------------------

def read_published(path, artifact=None, name=None):
    """[[value]] tables of experiments/published/PAPER.toml, of one artifact and metric."""
    try:
        with open(path, "rb") as text:
            content = tomllib.load(text)
    except OSError as problem:
        raise BadInput(f"{path}: {problem.strerror}") from None
    except tomllib.TOMLDecodeError as problem:
        raise BadInput(f"{path}: {problem}") from None
    values = []
    for place, value in enumerate(content.get("value", []), 1):
        missing = {"artifact", "row", "metric", "value", "source"} - set(value)
        if missing:
            raise BadInput(f"{path}: [[value]] number {place} has no `{sorted(missing)[0]}`")
        if artifact in (None, value["artifact"]) and name in (None, value["metric"]):
            values.append(value)
    if not values:
        raise NotDrawn(f"{path} holds no published value"
                       + (f" of artifact {artifact}" if artifact else "")
                       + (f" and metric {name}" if name else ""))
    return values


def first_number(text):
    found = re.search(r"\d+(?:\.\d+)?", str(text))
    return float(found.group()) if found else math.nan
