# SPDX-License-Identifier: Apache-2.0
"""What the tests of the engine in Python share: its module, models that are loaded once, and prompts."""

import functools
import json
import os
import pathlib
import subprocess
import sys

try:
    from unmask import engine
except Exception as problem:  # pylint: disable=broad-exception-caught
    if type(problem).__name__ not in ("EnvironmentFault", "ModuleNotFoundError"):
        raise
    print(problem if "NOT RUN" in str(problem) else f"NOT RUN: needs the Python package {problem}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[4]


@functools.cache
def MODELS(name):  # pylint: disable=invalid-name
    return engine.Model(name, device="cpu", threads=1)


@functools.cache
def questions(model, count):
    """Questions of the task that the embedded models are made for."""
    lines = (ROOT / "experiments/data/word_problem.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["prompt"] for line in lines[:count]]


def run_program(*words):
    command = [os.environ["UNMASK_PROGRAM"], *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "UNMASK_PYTHON": sys.executable, "UNMASK_ROOT": str(ROOT)})


def rows_in(folder):
    text = pathlib.Path(folder, "rows.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
