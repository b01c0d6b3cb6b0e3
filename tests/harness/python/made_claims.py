# SPDX-License-Identifier: Apache-2.0
"""Registers of claims for the tests of the package, and rows that they are judged on."""

import contextlib
import io
import json
import os
import re
import tempfile
import unittest

from made import row_of

from unmask.claims import claims
from unmask.claims.declare import read_register
from unmask.claims.judge import Evidence, judge_all
from unmask.rows import experiments, glossary

ARTIFACT = """
[artifact]
paper = "focus"
id = "table_5"
[scale.tiny]
[scale.full]
needs = ["memory_gb:64"]
[[scale.full.model]]
path = "weights:GSAI-ML/LLaDA-8B"
[[scale.full.workload]]
benchmark = "gsm8k"
[scale.full.run]
device = "cuda"
"""
HEAD = """
from unmask.claims import *

BASE = {"artifacts": ("table_5",), "scales": ("tiny", "full"), "tasks": "all", "items": "all",
        "place": "Table 5", "statement": "s", "quantity": "q", "clock": "seconds",
        "regime": no_precondition("made up")}
SPEED = {**BASE, "kind": "speed", "bound": above(1, "paper"), "quality": at_least(-0.02, "us: two points")}
SCORE = {**BASE, "kind": "score", "bound": above(0, "paper")}
COUNT = {**BASE, "kind": "count", "bound": below(1, "paper")}
"""
FASTER = """
@claim(**SPEED)
def c(f):
    return speed(f, "fast", "slow")
"""


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def scored(label, right, n, seconds=(1.0, 1.0), batch=1, task="word_problem", **more):
    """A row that kept its items, of which the first `right` are right."""
    row = row_of(label, list(seconds), batch, task, **more)
    row["workload"]["items"] = n
    row["score"] = {"mean": right / n, "exact": right, "n": n, "ci95": [0, 1]}
    row["items"] = {"id": [f"item {i}" for i in range(n)],
                    "score": [1 if i < right else 0 for i in range(n)],
                    "exact": [i < right for i in range(n)], "output_tokens": [1] * n,
                    "seconds": [[]] * n, "answer_hash": [""] * n}
    return row


# What an experiment file sets: how large its models are, how long its prompts, and in how many blocks these are read.
OF_THE_FILE = ("parameters", "prompt_tokens_mean", "prompt_blocks")


def waits_for_its_file(r):
    """Whether a claim is NOT APPLICABLE because of what its own file sets; reasons have the headings of tables."""
    names = "|".join(re.escape(glossary.find_heading(name) or name) for name in OF_THE_FILE)
    return r.verdict == "NOT APPLICABLE" and re.search(f"; here ({names}) is ", r.reason) is not None


def unscored(label, seconds, *more, **other):
    row = row_of(label, seconds, *more, **other)
    row["score"] = None
    return row


class Made(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        experiments.read_toml.cache_clear()
        write(f"{self.folder}/focus/table_5.toml", ARTIFACT)

    def register(self, text, head=HEAD):
        """The register of a file, whose imports this test alone may write with a star."""
        import unmask.claims as names
        head = head.replace("import *", "import " + ", ".join(names.__all__))
        write(f"{self.folder}/claims/focus.py", head + text)
        return read_register(f"{self.folder}/claims")

    def put(self, rows, place="focus/table_5/tiny"):
        write(f"{self.folder}/results/{place}/rows.jsonl",
              "".join(json.dumps(row) + "\n" for row in rows))

    def judged(self, text, rows, asked="tiny", since=None):
        """The first claim's result over these rows."""
        self.put(rows)
        register = self.register(text)
        evidence = Evidence(f"{self.folder}/results", since)
        return judge_all(register.claims, register, evidence, asked)[0][1]

    def text_of(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def run_command(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = claims.main([f"{self.folder}/results", "--experiments-dir", self.folder, *arguments])
        return code, said.getvalue()
