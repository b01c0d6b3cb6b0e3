# SPDX-License-Identifier: Apache-2.0
"""What the tests of the scores share."""

import gzip
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "../../../../.."))
sys.path.insert(0, os.path.join(ROOT, "harness", "python"))
EVALS = os.path.join(ROOT, "tests", "goldens", "evals")
NOT_RUN = 77


def read_lines(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def recorded(name):
    return read_lines(os.path.join(EVALS, "scorers", name + ".jsonl.gz"))


def needs(*packages):
    """Ends with NOT RUN where a package is missing."""
    import importlib.util
    for package in packages:
        if importlib.util.find_spec(package) is None:
            print(f"NOT RUN: needs the Python package {package}; ./dev setup installs it")
            sys.exit(NOT_RUN)


def needs_sandbox():
    from unmask.benchmarks.score import sandbox
    reason = sandbox.missing()
    if reason:
        print(reason)
        sys.exit(NOT_RUN)


def item(doc, text, target="", responses=None, task=None):
    return {"doc": doc, "text": text, "target": target, "responses": responses or [text], "task": task}
