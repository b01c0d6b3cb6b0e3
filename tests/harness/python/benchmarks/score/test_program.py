# SPDX-License-Identifier: Apache-2.0
"""`unmask run` on a benchmark: the package scores its answers, the row says with what; without Python the
answers are kept and scored later, to the same value."""

import glob
import json
import os
import re
import subprocess
import tempfile
import unittest

import support

support.needs("lm_eval")

PROGRAM = os.environ["UNMASK_PROGRAM"]
MODEL = os.path.join(support.ROOT, "experiments", "models", "tiny-llada")
EXPERIMENT = """[run]
warmup = 0
repetitions = 1
[[model]]
path = "{model}"
[[workload]]
benchmark = "{benchmark}"
gen_length = 64
{more}
[[method]]
name = "vanilla"
params.threshold = 0.9
"""
QUESTIONS = ["Jane has 3 bags with 4 coins each. How many coins does Jane have?",
             "Kai buys 5 pens. Then Kai buys 2 more pens. How many pens does Kai have now?",
             "Ben has 9 shells. Then Ben sells 4 shells. How many shells does Ben have now?"]


def settled(row):
    """Verdict and reason without what other work on the machine adds to them."""
    left = [part for part in row["reason"].split("; ") if part != row["samples"].get("disturbance")
            and not part.startswith("the speed is known to")]
    return "PASS" if row["verdict"] == "NOISY" else row["verdict"], "; ".join(left)


class Program(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        self.environment = os.environ | {
            "XDG_CACHE_HOME": self.path("cache"), "UNMASK_DATASETS": self.path("data"),
            "UNMASK_TASKS": ""}

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, *parts, text):
        os.makedirs(os.path.dirname(self.path(*parts)), exist_ok=True)
        with open(self.path(*parts), "w", encoding="utf-8") as file:
            file.write(text)

    def write_gsm8k(self, numbers):
        rows = [{"question": q, "answer": f"It is {n}.\n#### {n}"} for q, n in zip(QUESTIONS, numbers)]
        self.write("data", "gsm8k", "test.jsonl", text="".join(json.dumps(r) + "\n" for r in rows))

    def run_program(self, *arguments, **environment):
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, text=True, capture_output=True,
                              env=self.environment | environment)

    def measure(self, benchmark, more="", options=("--samples",), **environment):
        self.write("e.toml", text=EXPERIMENT.format(model=MODEL, benchmark=benchmark, more=more))
        done = self.run_program("run", "e.toml", "--no-progress", "--fresh", "-o", "rows", *options,
                                **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        row = support.read_lines(self.path("rows", "rows.jsonl"))[-1]
        return row, done.stdout + done.stderr

    def samples(self, row):
        newest = max(glob.glob(self.path("rows", "samples", row["point_id"], "*.jsonl")),
                     key=os.path.getmtime)
        return support.read_lines(newest)

    def test_answers_are_scored_by_lm_eval_and_the_row_names_it(self):
        self.write_gsm8k([1, 1, 1])
        row, _ = self.measure("gsm8k", "shots = 0")
        outputs = {s["item"]: s["output"] for s in self.samples(row)}
        self.assertEqual(len(outputs), 3)
        # Data whose right answers are the last numbers of two of the model's own three outputs: lm-eval
        # takes the last number ("flexible-extract"), and only that after #### ("strict-match").
        last = [(re.findall(r"-?\d+", text) or ["0"])[-1] for _, text in sorted(outputs.items())]
        self.write_gsm8k([last[0], int(last[1]) + 1, last[2]])
        row, said = self.measure("gsm8k", "shots = 0")
        self.assertEqual(row["score"]["libraries"], {"lm-eval": "0.4.8"})
        self.assertEqual((row["score"]["n"], settled(row)), (3, ("PASS", "")), said)
        self.assertAlmostEqual(row["score"]["beside"]["flexible-extract"], 2 / 3)
        strict = sum(f"#### {n}" in text for n, (_, text) in
                     zip([last[0], "none", last[2]], sorted(outputs.items())))
        self.assertAlmostEqual(row["score"]["mean"], strict / 3)
        self.assertEqual(row["score"]["exact"], strict)

    def test_without_python_the_answers_wait_for_the_command_that_scores_them(self):
        self.write_gsm8k([1, 2, 3])
        there, _ = self.measure("gsm8k", "shots = 0")  # prompts are written now
        row, said = self.measure("gsm8k", "shots = 0", options=(), UNMASK_PYTHON="/nowhere/python")
        self.assertEqual((row["verdict"], row["score"]), ("NOT_VERIFIED", None))
        self.assertIn("NOT RUN: scores: needs Python", row["reason"])
        command = re.search(r"`unmask score (\S+)` scores later", row["reason"])
        self.assertTrue(command, row["reason"])
        self.assertIn(row["reason"], said)
        self.assertEqual(row["answers_hash"], there["answers_hash"])
        done = self.run_program("score", command.group(1), "-o", "later.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lm-eval 0.4.8", done.stdout)
        values = [line["value"] for line in support.read_lines(self.path("later.jsonl"))]
        self.assertAlmostEqual(sum(values) / len(values), there["score"]["mean"])
        # The row stands there once more with the score that the run with Python gave the same answers;
        # tables take the last row of a point, and a second time there is nothing to add.
        rows = support.read_lines(self.path("rows", "rows.jsonl"))
        before, later = [r for r in rows if r["point_id"] == row["point_id"]][-2:]
        self.assertEqual(before, row)
        later = {**later, "score": dict(later["score"])}
        scored_at = later["score"].pop("scored_at")
        self.assertGreater(scored_at, row["finished_at"][:10])
        self.assertEqual(later["score"], there["score"])
        self.assertEqual(settled(later), settled(there))
        rest = ("score", "verdict", "reason", "items", "sha256")
        self.assertEqual({k: v for k, v in later.items() if k not in rest},
                         {k: v for k, v in row.items() if k not in rest})
        table = self.run_program("table", "rows", "--format", "csv")
        self.assertRegex(table.stdout, "PASS|NOISY")
        self.assertNotIn("NOT_VERIFIED", table.stdout)
        self.run_program("score", command.group(1))
        self.assertEqual(support.read_lines(self.path("rows", "rows.jsonl")), rows)
        # A run that goes on takes the point as measured.
        done = self.run_program("run", "e.toml", "--no-progress", "-o", "rows")
        self.assertIn("1 had a row already", done.stdout + done.stderr)

    def test_a_choice_by_likelihood_is_lm_evals_choice(self):
        rows = [{"goal": "Open a bag", "sol1": "pull it", "sol2": "eat the moon with a very long spoon"},
                {"goal": "Count coins", "sol1": "one by one", "sol2": "by the sea"}]
        self.write("data", "piqa", "valid.jsonl", text="".join(json.dumps(r) + "\n" for r in rows))
        self.write("data", "piqa", "valid-labels.lst", text="0\n1\n")
        row, _ = self.measure("piqa", 'harness = "LM"\nshots = 0\nmc_num = 4\nmc_batch = 2')
        self.assertEqual(row["score"]["libraries"], {"lm-eval": "0.4.8"})
        right = {"acc": 0, "acc_norm": 0}
        for sample, asked, gold in zip(self.samples(row), rows, (0, 1)):
            values = [float(r[0][0]) for r in sample["resps"]]
            by_length = [v / len(asked[f"sol{i + 1}"]) for i, v in enumerate(values)]
            right["acc"] += values.index(max(values)) == gold
            right["acc_norm"] += by_length.index(max(by_length)) == gold
            self.assertEqual(sample["target"], str(gold))
        self.assertEqual(row["score"]["exact"], right["acc_norm"])
        self.assertEqual({k: v * 2 for k, v in row["score"]["beside"].items()}, right)


if __name__ == "__main__":
    unittest.main()
