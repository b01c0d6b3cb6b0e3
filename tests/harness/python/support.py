# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package's run files share: rows, runs and the program."""

import hashlib
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = SOURCE / "harness" / "python"
sys.path.insert(0, str(PACKAGE))

EXPERIMENT = """title = "t"
[run]
warmup = 0
repetitions = 1
[[model]]
path = "models/tiny-sdar"
[[workload]]
tasks = ["word_problem"]
limit = 1
[[method]]
name = "block_diffusion"
[sweep]
"params.threshold" = [0.6, 1.0]
"""


def needs(*packages):
    """Ends the test as NOT RUN where one of these packages cannot be imported."""
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError:
            print(f"NOT RUN: needs {package} (./dev setup prepares it)")
            sys.exit(77)


def row(point, position=0, verdict="PASS", environment=None, finished="2026-01-01T00:00:00Z", **more):
    """A row with the fields that every row has; not one that a program wrote."""
    return {"schema_version": "1.4", "run_id": "r", "point_id": point, "title": "t", "position": position,
            "model": {"name": "tiny", "hash": "m", "parameters": 2, "weights": "checkpoint"},
            "workload": {"family": "word_problem", "items": 1, "hash": "w"}, "method": "vanilla", "preset": "",
            "label": "vanilla", "variation": "", "params": {}, "verdict": verdict, "reason": "", "metrics": {},
            "provenance": {}, "score": None,
            "samples": {"seconds": [], "warmup_seconds": [], "half_width": None, "stop": "max_repetitions"},
            "environment": environment or {"cpu_model": "a"}, "source_hash": "abc", "finished_at": finished, **more}


def line(*arguments, **more):
    return json.dumps(row(*arguments, **more)) + "\n"


def manifest(text=EXPERIMENT, **more):
    """A run.json as the program writes it."""
    return json.dumps({"manifest_version": 1, "experiment": {
        "file": "focus/table_5.toml", "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "text": text}, "paper": "", "artifact": "", "scale": "", "set": [], "source_hash": "abc",
        "plan": [], **more})


def program(*arguments, **how):
    """Calls the program; standard input is nothing, so that nothing waits for it."""
    return subprocess.run([os.environ["UNMASK_PROGRAM"], *map(str, arguments)], text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=600,
                          check=False, **how)


class Case(unittest.TestCase):
    """A test with a folder of its own, which is the current one."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name).resolve()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def refused(self, words, call, *arguments):
        from unmask.rows.errors import UserError
        with self.assertRaises(UserError) as caught:
            call(*arguments)
        self.assertIn(words, str(caught.exception))
