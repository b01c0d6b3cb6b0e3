# SPDX-License-Identifier: Apache-2.0
"""What the tests of the engine in Python share: its module, models that are loaded once, and prompts."""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys

try:
    import numpy as np
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


BASES = {"tiny-sdar": "block_diffusion", "tiny-llada": "fast_dllm"}
DRAWN = {"block_diffusion": {"sampler": "multinomial", "temperature": 0.8}, "fast_dllm": {"temperature": 0.8}}


def sure(step, threshold=0.9):
    """All candidates of this confidence, and the surest one in any case."""
    ready = step.confidence >= np.float32(threshold)
    ready[np.argmax(step.confidence)] = True
    return ready


def rising(step, rises=2, at_most=4):
    """Tokens whose confidence rose in the last steps, at most so many; else the surest one."""
    past = step.memory.setdefault("past", np.zeros((2, step.length)))
    last, up = past[:, step.position]
    up = np.where((last > 0) & (step.confidence > last), up + 1, 0)
    past[0, step.position], past[1, step.position] = step.confidence, up
    best = np.argsort(-step.confidence, kind="stable")
    ready = best[up[best] >= rises][:at_most]
    return ready if len(ready) else best[:1]


def counts(result):
    """What does not depend on the clock: counters of each answer, and the counted metrics of the row."""
    clock = ("second", "share", "_per_s", "joules", "bandwidth")
    metrics = {name: value for name, value in result.metrics.items() if not any(word in name for word in clock)}
    return [answer.counters for answer in result], metrics


def rows_in(folder):
    text = pathlib.Path(folder, "rows.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@functools.cache
def exact_metrics():
    """Names of the metrics that a row counts or computes, so that no clock changes them: of results/FORMAT.md."""
    lines = (ROOT / "results/FORMAT.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| `")]
    kinds = ("counted", "analytic")
    return {name for cell in cells if len(cell) == 4 and cell[2] in kinds for name in re.findall(r"`([a-z_0-9]+)`", cell[0])}
