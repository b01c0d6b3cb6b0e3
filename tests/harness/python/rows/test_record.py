# SPDX-License-Identifier: Apache-2.0
"""unmask.record: what another program's decoding loop measured, as a row and trajectories."""

import hashlib
import json
import os
import subprocess
import tempfile
import unittest

from made import row_of
from test_schema import ROOT, problems, text_of

import unmask
from unmask.page import figures, page
from unmask.rows import flat, recorder, rows
from unmask.rows.errors import UserError
from unmask.tables import layout, tables

PROGRAM = os.environ.get("UNMASK_PROGRAM", "")


def decode(recording, output, order):
    """One request: the tokens of `output` at positions in this order, each list a forward."""
    answer = recording.answer(prompt_tokens=5, gen_length=4)
    for positions in order:
        answer.step(positions, [output[p] for p in positions], rows=9)
    answer.finish(output, stop_ids=(output[2],))


class Record(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.like = row_of("vanilla", [1.0, 1.1, 0.9])

    def recording(self, passes=3, **more):
        settings = {"program": "PyTorch 2.15", "method": "vanilla", "like": self.like} | more
        recording = unmask.record(self.folder.name, **settings)
        with recording.timed_pass(warmup=True):
            decode(recording, [7, 7, 7, 7], [[0, 1, 2, 3]])
        for _ in range(passes):
            with recording.timed_pass():
                decode(recording, [11, 12, 13, 14], [[1], [0, 2]])
                decode(recording, [21, 22, 23, 24], [[3], [2], [1, 0]])
        return recording

    def test_a_row_holds_what_was_counted_and_says_who_measured_it(self):
        row = self.recording().write([1, 0.5])
        self.assertEqual(problems(row, json.loads(text_of("results/row.schema.json"))), [])
        [read] = rows.read_rows(self.folder.name)
        self.assertEqual(read["measured_by"], "PyTorch 2.15")
        self.assertEqual(read["label"], "vanilla (PyTorch 2.15)")
        counted = {"prompt_tokens": 10, "canvas_tokens": 8, "output_tokens": 6, "committed": 7,
                   "nfe": 5, "rows": 45, "tpf": 1.2}
        self.assertEqual(counted, {k: read["metrics"][k] for k in counted})
        seconds = read["samples"]["seconds"]
        self.assertEqual((len(seconds), len(read["samples"]["warmup_seconds"])), (3, 1))
        self.assertAlmostEqual(read["metrics"]["tokens_per_second"], 6 / (sum(seconds) / 3))
        self.assertEqual((read["score"]["mean"], read["score"]["exact"]), (0.75, 1))
        # As the program hashes answers: each token and a space, a line an answer.
        self.assertEqual(read["answers_hash"], hashlib.sha256(b"11 12 13 14 \n21 22 23 24 \n").hexdigest())

    def test_trajectories_name_the_forward_of_every_position(self):
        row = self.recording().write()
        path = os.path.join(self.folder.name, "trajectories", row["point_id"] + ".txt")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "0 4 0:1:12:take 1:0:11:take 1:2:13:take\n"
                                          "1 4 0:3:24:take 1:2:23:take 2:0:21:take 2:1:22:take\n")

    def test_verdicts_follow_the_rules_of_rows(self):
        self.assertEqual(self.recording(1).row()["verdict"], "NOT_VERIFIED")
        self.assertEqual(self.recording(1).row([1, 1])["verdict"], "PASS")
        noisy = self.recording()
        noisy.seconds = [1.0, 2.0, 1.0]
        self.assertEqual(noisy.row([1, 1])["verdict"], "NOISY")
        other = self.recording()
        with other.timed_pass():
            decode(other, [11, 12, 99, 14], [[1], [0, 2]])
            decode(other, [21, 22, 23, 24], [[3], [2], [1, 0]])
        row = other.row([1, 1])
        self.assertEqual((row["verdict"], "repetition 4" in row["reason"]), ("INVALID", True))

    def test_tables_figures_and_the_page_compare_it_and_mark_it(self):
        recording = self.recording()
        recording.seconds = [3.0, 3.1, 2.9]
        both = [self.like, recording.row([1, 1])]
        for row in both:
            row.setdefault("probes", {})
        text = tables.render(layout.table_of(layout.lay_out_columns(
            both, ["tokens_per_second", "speedup"], "")), "md")
        self.assertIn("vanilla (PyTorch 2.15)", text)
        # 6 tokens in 3 s beside 100 in 1 s, with one base for both.
        self.assertIn("| word_problem vanilla (PyTorch 2.15) | 2.0 [1.8, 2.2] | 0.02 ", text)
        drawn = figures.figure_data(both)
        self.assertEqual([p["series"] for p in drawn["pooled"] if p["workload"] is None],
                         ["vanilla", "vanilla (PyTorch 2.15)"])
        shown = json.dumps(tables.table_json(page.row_tables(both)[0]))
        self.assertIn("PASS (measured by PyTorch 2.15)", shown)
        self.assertEqual(shown.count("measured by"), 1)
        self.assertEqual(list(flat.frame_of(both).measured_by), ["Unmask", "PyTorch 2.15"])

    def test_wrong_use_is_refused(self):
        recording = unmask.record(self.folder.name, program="P 1", method="m", like=self.like)
        with self.assertRaisesRegex(UserError, "inside timed_pass"):
            recording.answer(1, 1)
        with recording.timed_pass():
            answer = recording.answer(3, 4)
            answer.step([0], [5])
            for positions in ([0], [4], [-1]):
                with self.assertRaisesRegex(UserError, "is decided already or not one of the 4"):
                    answer.step(positions, [5])
            with self.assertRaisesRegex(UserError, "2 positions and 1 tokens"):
                answer.step([1, 2], [5])
        with self.assertRaisesRegex(UserError, "finish"):
            recording.row()
        answer.finish([5])
        with self.assertRaisesRegex(UserError, "2 scores for 1 answers"):
            recording.row([1, 1])
        for bad, sentence in (({"program": ""}, "program="), ({"like": None}, "`like`"),
                              ({"batch": 2}, "`batch` is no key")):
            with self.assertRaisesRegex(UserError, sentence):
                unmask.record(self.folder.name, **{"program": "P", "method": "m", "like": self.like} | bad)
        with self.assertRaisesRegex(UserError, "`parameters`"):
            unmask.record(self.folder.name, program="P", method="m", model={"name": "x"},
                          workload={"family": "y", "items": 1})

    def test_the_schema_is_that_of_the_program(self):
        header = text_of("harness/rows/row.h")
        self.assertIn(f"row_schema_minor = {recorder.SCHEMA.split('.')[1]};", header)

    @unittest.skipUnless(PROGRAM, "needs UNMASK_PROGRAM")
    def test_the_program_reads_the_row_and_decides_in_the_recorded_order(self):
        def run(*words):
            done = subprocess.run([PROGRAM, *words], cwd=ROOT, check=False, capture_output=True,
                                  text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        recording = unmask.record(self.folder.name, program="P 1", method="vanilla", like=self.like)
        with recording.timed_pass():
            answer = recording.answer(20, 32)
            for first in range(0, 32, 4):  # four tokens a forward, from the left
                answer.step(range(first, first + 4), [60] * 4)
            answer.finish([60] * 32)
        row = recording.write()
        self.assertIn("vanilla (P 1)", run("table", self.folder.name))
        out = os.path.join(self.folder.name, "replayed")
        trajectory = os.path.join(self.folder.name, "trajectories", row["point_id"] + ".txt")
        experiment = os.path.join(self.folder.name, "again.toml")
        with open(experiment, "w", encoding="utf-8") as file:
            file.write(f"""title = "again"
[run]
gen_length = 32
repetitions = 1
impose = "replay:{trajectory}"
[[model]]
path = "models/tiny-llada"
[[workload]]
tasks = ["word_problem"]
limit = 1
[[method]]
name = "vanilla"
params.until_clean = true
""")
        run("run", experiment, "-o", out, "--no-progress")
        [replayed] = rows.read_rows(out)
        counts = {k: replayed["metrics"][k] for k in ("committed", "denoise_steps")}
        self.assertEqual(counts, {"committed": 32, "denoise_steps": 8}, replayed["reason"])


if __name__ == "__main__":
    unittest.main()
