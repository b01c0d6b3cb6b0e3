# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Result rows (results/README.md) read, checked and named. Standard library only."""

import glob
import json
import math
import os
import re
import sys
import tomllib

SCHEMA_MAJOR = "1"
BELIEVED = ("PASS", "NOT_VERIFIED", "INACTIVE")


class BadInput(SystemExit):  # so that a script without main() still ends with the sentence
    """A file that cannot be read as what it should be; exit code 2."""


class NotDrawn(SystemExit):
    """Rows that lack what a figure shows; exit code 3."""


def files_of(paths):
    """Row files of files and directories, in the order given."""
    files = []
    for path in paths:
        if os.path.isdir(path):
            names = sorted(glob.glob(os.path.join(path, "*.jsonl")))
            files += [f for f in names if not os.path.basename(f).startswith("samples_")]
        elif os.path.exists(path):
            files.append(path)
        else:
            raise BadInput(f"{path}: there is no such file or directory")
    return files


def is_row(row):
    return isinstance(row, dict) and "point_id" in row and "metrics" in row


def read_rows(paths):
    """Rows of files and directories; of several rows for one point the last counts.

    JSON Lines of another kind in a directory are passed over; named as a file they are an error.
    """
    rows = {}
    named = {p for p in paths if not os.path.isdir(p)}
    for name in files_of(paths):
        with open(name, encoding="utf-8") as text:
            lines = text.read().split("\n")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError:
                if number == len(lines):  # torn by a crash
                    continue
                raise BadInput(f"{name}:{number}: not a result row") from None
            if not is_row(row):
                if name in named:
                    raise BadInput(f"{name}:{number}: not a result row")
                break
            version = str(row.get("schema_version", ""))
            if version.split(".")[0] != SCHEMA_MAJOR:
                raise BadInput(f"{name}:{number}: schema version {version!r} is not known here")
            # Before schema 1.3 it lay among the probes.
            old = (row.get("probes") or {}).pop("calibration", None)
            if old is not None:
                row.setdefault("calibration", old)
            rows[row["point_id"]] = row
    rows = list(rows.values())
    if len({r["title"] for r in rows}) == 1:  # written as points finish; plan order reads better
        rows.sort(key=lambda r: r["position"])
    return rows


def believable(rows):
    """Rows whose numbers may be shown; says how many are left out."""
    kept = [r for r in rows if r["verdict"] in BELIEVED]
    if len(kept) < len(rows):
        print(f"{len(rows) - len(kept)} of {len(rows)} rows are not shown: "
              "their verdict is neither PASS nor NOT_VERIFIED", file=sys.stderr)
    if not kept:
        raise NotDrawn("no row to plot" if not rows else
                       "no row has the verdict PASS or NOT_VERIFIED")
    return kept


def metric(row, name):
    value = row["metrics"].get(name)
    return math.nan if value is None else float(value)


def not_measured(row, name):
    """True for values that rest on a model of the machine or on weights without meaning."""
    return row.get("provenance", {}).get(name) in ("analytic", "synthetic")


def half_width(row, name="tokens_per_second"):
    """Absolute half width of the 95 % interval of the mean; 0 where it is not known."""
    relative = row["samples"].get("half_width")
    value = metric(row, name)
    return 0.0 if relative is None or math.isnan(value) else relative * value


def wilson(successes, n, z=1.959963985):
    """95 % interval of a proportion (Wilson 1927), as the program computes it."""
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # Rounding must not put the proportion itself outside.
    return min(p, max(0.0, centre - half)), max(p, min(1.0, centre + half))


# ---- names ---------------------------------------------------------------------------------------


def variation_without(row, *keys):
    """What a sweep changed, without the axes a figure shows itself."""
    parts = row["variation"].split(" ") if row["variation"] else []
    return " ".join(p for p in parts if p.split("=")[0].split(".")[-1] not in keys)


def method_label(row, *shown):
    """Label and variation; `shown`: sweep keys that are an axis of the figure."""
    variation = variation_without(row, *shown)
    text = row["label"] + (" " + variation if variation else "")
    if row["model"]["weights"] == "synthetic":
        text += " (synthetic)"
    return text


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
    environment = row["environment"]
    gpus = [g.get("name", "GPU") if isinstance(g, dict) else str(g)
            for g in environment.get("gpus") or []]
    if row["device"] != "cpu" and gpus:
        return gpus[0]
    return str(environment.get("cpu_model") or "machine unknown")


# ---- published numbers ---------------------------------------------------------------------------

PUBLISHED_KEYS = {"artifact", "row", "column", "metric", "value", "unit", "source", "note"}


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
