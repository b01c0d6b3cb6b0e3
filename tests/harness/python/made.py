# SPDX-License-Identifier: Apache-2.0
"""Rows for the tests of the package, without any model."""

import copy
import glob
import json
import os
import statistics
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(ROOT, "harness/python"))

try:
    from scipy import stats
except ImportError as missing:
    print(f"NOT RUN: needs {missing.name} (./dev setup prepares it)")
    sys.exit(77)

from unmask.rows import rows as results  # noqa: E402


def cases_of(kind):
    """What the folders of methods say of this kind (tests/methods/cases.h), by the name of the method."""
    found = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "methods", "**", "cases.json"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            found |= {method: cases[kind] for method, cases in json.load(file).items() if kind in cases}
    return found


def half_width_of(seconds):
    """Student's relative half width, by scipy.stats itself."""
    if len(seconds) < 2:
        return None
    middle, error = statistics.mean(seconds), stats.sem(seconds)
    if error == 0:
        return 0
    low, _ = stats.t.interval(0.95, len(seconds) - 1, loc=middle, scale=error)
    return (middle - low) / middle


def row_of(label, seconds, batch=1, task="word_problem", **more):
    """A scored row whose repetitions took these seconds, 100 output tokens each."""
    middle = statistics.mean(seconds)
    row = {
        "schema_version": "1.5", "run_id": "run", "point_id": f"{label}/{batch}/{task}",
        "title": "Made", "position": 0,
        "model": {"name": "tiny", "hash": "m" * 64, "parameters": 2000000, "weights": "checkpoint",
                  "format": "f32", "kv_type": "f32", "layers": 4},
        "workload": {"family": task, "hash": f"hash of {task}", "items": 10},
        "method": "vanilla", "preset": "", "label": label, "variation": "", "params": {},
        **results.RUN_KEYS, "device": "cpu", "batch_size": batch, "verdict": "PASS", "reason": "",
        "metrics": {"output_tokens": 100, "committed": 100, "redundancy": 4,
                    "wall_seconds": middle, "tokens_per_second": 100 / middle},
        "provenance": {"output_tokens": "counted", "committed": "counted", "redundancy": "counted",
                       "wall_seconds": "measured", "tokens_per_second": "measured"},
        "score": {"mean": 0.5, "exact": 5, "n": 10, "ci95": [0.24, 0.76]},
        "samples": {"seconds": list(seconds), "warmup_seconds": [],
                    "half_width": half_width_of(seconds), "stop": "max_repetitions"},
        "answers_hash": "abc", "probes": {},
        "environment": {"cpu_model": "A", "load_average": [0.1, 0.1, 0.1]},
        "source_hash": "f" * 40, "finished_at": "2026-01-01T00:00:00Z"}
    row.update(more)
    return row


def copies(rows):
    return copy.deepcopy(rows)
