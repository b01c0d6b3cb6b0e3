# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Rows in, figures out: reading result rows, one style, deterministic files."""

import argparse
import glob
import hashlib
import json
import math
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

SCHEMA_MAJOR = "1"
# Okabe and Ito's palette: told apart with every common colour blindness, and in grey by the hatch.
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"]
HATCHES = ["", "//", "..", "\\\\", "xx", "--", "++", "oo"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
BELIEVED = ("PASS", "NOT_VERIFIED")


def read_rows(paths):
    """Rows of files and directories; of several rows for one point the last counts."""
    rows = {}
    for path in paths:
        if os.path.isdir(path):
            files = sorted(glob.glob(os.path.join(path, "*.jsonl")))
            files = [f for f in files if not os.path.basename(f).startswith("samples_")]
        else:
            files = [path]
        for name in files:
            with open(name, encoding="utf-8") as text:
                lines = text.read().split("\n")
            for number, line in enumerate(lines, 1):
                if not line:
                    continue
                try:
                    row = json.loads(line)
                except ValueError:
                    if number == len(lines):  # torn by a crash
                        continue
                    sys.exit(f"{name}:{number}: not a result row")
                version = str(row.get("schema_version", ""))
                if version.split(".")[0] != SCHEMA_MAJOR:
                    sys.exit(f"{name}:{number}: schema version {version!r} is not known here")
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
        sys.exit("no row to plot")
    return kept


def metric(row, name):
    value = row["metrics"].get(name)
    return math.nan if value is None else float(value)


def method_label(row):
    text = row["label"] + (" " + row["variation"] if row["variation"] else "")
    if row["model"]["weights"] == "synthetic":
        text += " (synthetic)"
    return text


def series_label(row, rows):
    """Method, with model, batch size or device where they differ between the rows."""
    text = method_label(row)
    if "batch_size=" not in text and len({r["batch_size"] for r in rows}) > 1:
        text += f" batch {row['batch_size']}"
    if len({r["device"] for r in rows}) > 1:
        text += f" on {row['device']}"
    if len({r["model"]["name"] for r in rows}) > 1:
        text += f" · {row['model']['name']}"
    return text


def ordered(values):
    return list(dict.fromkeys(values))


def style():
    plt.rcParams.update({
        "font.family": "DejaVu Sans", "font.size": 9, "axes.spines.top": False,
        "axes.spines.right": False, "axes.grid": True, "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False,
        "figure.dpi": 100, "savefig.dpi": 200, "svg.fonttype": "path", "pdf.fonttype": 42,
        # Names inside an SVG come from this, not from a random number.
        "svg.hashsalt": "unmask",
    })


def legend_above(figure, series):
    """A legend above the axes that stays inside the figure."""
    inches = max(len(name) for name in series) * 0.062 + 0.5
    columns = max(1, min(len(series), int(figure.get_figwidth() / inches)))
    lines = math.ceil(len(series) / columns)
    figure.legend(loc="upper center", ncols=columns, fontsize=7.5)
    top = 1 - (0.12 + 0.17 * lines) / figure.get_figheight()
    figure.tight_layout(rect=(0, 0.03, 1, top))


def footnote(figure, rows):
    """Where the numbers come from: rows, machine, and a mark that changes with them."""
    mark = hashlib.sha256("".join(sorted(r["point_id"] for r in rows)).encode()).hexdigest()[:8]
    machines = ordered(str(r["environment"].get("cpu_model") or "machine unknown") for r in rows)
    figure.text(0.005, 0.005, f"{len(rows)} rows ({mark}) · {', '.join(machines)}", fontsize=6,
                color="#666666", va="bottom")


def save(figure, output):
    """OUTPUT.svg, .png and .pdf, without dates: equal rows give equal files."""
    directory = os.path.dirname(output)
    if directory:
        os.makedirs(directory, exist_ok=True)
    figure.savefig(output + ".svg", metadata={"Date": None, "Creator": "Unmask"})
    figure.savefig(output + ".png", metadata={"Software": "Unmask"})
    figure.savefig(output + ".pdf", metadata={"CreationDate": None, "Producer": "Unmask",
                                              "Creator": "Unmask"})
    plt.close(figure)


def arguments(description, default):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("rows", nargs="+", help="row files (*.jsonl) or directories of them")
    parser.add_argument("-o", "--output", default=default, help="path without extension")
    return parser.parse_args()
