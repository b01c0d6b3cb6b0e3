# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Result rows as the program hands them over, and their names. Standard library only."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class BadInput(SystemExit):  # so that a script without main() still ends with the sentence
    """A file that cannot be read as what it should be; exit code 2."""


class NotDrawn(SystemExit):
    """Rows that lack what a figure shows; exit code 3."""


class Rows(list):
    """Rows as the program hands them over, and what it computed of them (harness/analysis/
    figure_data.h): pooled, sweeps, crossover, phases."""

    def __init__(self, data):
        super().__init__(data["rows"])
        self.pooled, self.sweeps = data["pooled"], data["sweeps"]
        self.crossover, self.phases = data["crossover"], data["phases"]

    def believed(self):
        """These without rows whose numbers may not be shown; says how many are left out."""
        kept = [r for r in self if r["reportable"]]
        if len(kept) < len(self):
            print(f"{len(self) - len(kept)} of {len(self)} rows are not shown: "
                  "their verdict is none of PASS, NOISY and NOT_VERIFIED", file=sys.stderr)
        if not kept:
            raise NotDrawn("no row to plot" if not self else
                           "no row has the verdict PASS, NOISY or NOT_VERIFIED")
        shown = Rows.__new__(Rows)
        shown.__dict__.update(self.__dict__)
        shown.extend(kept)
        return shown


def program():
    """$UNMASK_PROGRAM, else the one that was built here last, else the one on the path."""
    if os.environ.get("UNMASK_PROGRAM"):
        return os.environ["UNMASK_PROGRAM"]
    built = [p for p in (os.path.join(ROOT, "build", preset, "bin", "unmask")
                         for preset in ("dev", "cpu", "release")) if os.path.exists(p)]
    found = max(built, key=os.path.getmtime) if built else shutil.which("unmask")
    if not found:
        raise BadInput("the program unmask is not there: ./dev build unmask, or set UNMASK_PROGRAM")
    return found


def read_rows(paths):
    """What figures of these files and folders show, as the program computes it."""
    done = subprocess.run([program(), "table", *paths, "--view", "figures"], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise BadInput(done.stderr.strip().removeprefix("unmask: "))
    sys.stderr.write(done.stderr)
    return Rows(json.loads(done.stdout))


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
    """Method, with model, batch size or device where they differ between the rows."""
    text = method_label(row, *shown)
    if ("batch_size" not in shown and "batch_size=" not in text and
            len({r["batch_size"] for r in rows}) > 1):
        text += f" batch {row['batch_size']}"
    if len({r["device"] for r in rows}) > 1:
        text += f" on {row['device']}"
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
