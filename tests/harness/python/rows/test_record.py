# SPDX-License-Identifier: Apache-2.0
"""unmask.record: what another program's decoding loop measured, as a row and trajectories."""

import hashlib
import json
import os
import subprocess
import tempfile
import unittest

from made import cases_of, row_of
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


def forward_of(step):
    """What a forward of the player's trace decided, replaced and reopened, as (position, token)."""
    return [[(step["position"][c], step["token"][c]) for c in step.get(name, [])]
            for name in ("accepted", "replaced", "reopened")]


def changes_of(step):
    """The same of a step that the probes of decisions read."""
    taken = [(p, t) for p, t, kept in zip(step["position"], step["token"], step["accepted"]) if kept]
    edits = step.get("edits", [])
    return taken, [(p, t) for p, t, _ in edits if t >= 0], [(p, t) for p, t, _ in edits if t < 0]


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

    def test_replaced_and_reopened_tokens_are_events_of_the_forward_that_made_them(self):
        # Four forwards. Position 1 is decided as 11 and replaced by 15, 2 is decided, masked again and decided
        # anew; the third forward decides nothing.
        recording = unmask.record(self.folder.name, program="P 1", method="m", like=self.like)
        with recording.timed_pass():
            answer = recording.answer(5, 4)
            answer.step([2, 1], [12, 11], rows=4)
            answer.step([0], [10], rows=4)
            answer.replace([1], [15])
            answer.step([], [], rows=4)
            answer.reopen([2])
            answer.step([3, 2], [14, 13], rows=4)
            answer.finish([10, 15, 13, 14])
        row = recording.write()
        path = os.path.join(self.folder.name, "trajectories", row["point_id"] + ".txt")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "0 4 0:1:11:take 0:2:12:take 1:0:10:take 1:1:15:replace "
                                          "2:2:-1:reopen 3:2:13:take 3:3:14:take\n")
        self.assertEqual(answer.decided, dict(enumerate(answer.output)))
        counted = {"committed": 4, "replaced": 1, "reopened": 1, "nfe": 4, "rows": 16}
        self.assertEqual(counted, {k: row["metrics"][k] for k in counted})
        self.assertEqual((row["provenance"]["replaced"], row["provenance"]["reopened"]), ("counted", "counted"))
        self.assertEqual(problems(row, json.loads(text_of("results/row.schema.json"))), [])
        # A loop that never edits says nothing about edits, as before.
        self.assertNotIn("replaced", self.recording(1).row()["metrics"])

    def test_edits_of_what_is_not_decided_are_refused(self):
        recording = unmask.record(self.folder.name, program="P 1", method="m", like=self.like)
        with recording.timed_pass():
            answer = recording.answer(3, 4)
            for edit in (lambda: answer.replace([1], [5]), lambda: answer.reopen([1])):
                with self.assertRaisesRegex(UserError, "position 1 is not decided"):
                    edit()
            answer.step([1], [5])
            for edit in (lambda: answer.replace([1], [6]), lambda: answer.reopen([1])):
                with self.assertRaisesRegex(UserError, "position 1 has two events in one forward"):
                    edit()
            answer.step([], [])
            with self.assertRaisesRegex(UserError, "1 positions and 2 tokens"):
                answer.replace([1], [6, 7])
            answer.reopen([1])
            with self.assertRaisesRegex(UserError, "position 1 is not decided"):
                answer.reopen([1])
            answer.step([1], [6])
            with self.assertRaisesRegex(UserError, "position 1 is decided already"):
                answer.step([1], [7])

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
        self.like["environment"] = recorder.machine() | {"gpus": [{"name": "one"}]}  # of this machine
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
        self.assertEqual([p["series"] for p in drawn["pooled"]],
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

    def run_one(self, name, text, **environment):
        """The row of an experiment file with this text behind its title, and the lines of its probed pass."""
        file, out = (os.path.join(self.folder.name, name + end) for end in (".toml", ""))
        with open(file, "w", encoding="utf-8") as into:
            into.write('title = "again"\n' + text)
        done = subprocess.run([PROGRAM, "run", file, "-o", out, "--no-progress", "--allow-outside"], cwd=ROOT,
                              check=False, capture_output=True, text=True, env=os.environ | environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        [row] = rows.read_rows(out)
        trace = os.path.join(out, "traces", row["point_id"] + ".jsonl")
        if not os.path.exists(trace):
            return row, []
        with open(trace, encoding="utf-8") as lines:
            return row, list(map(json.loads, lines))

    @unittest.skipUnless(PROGRAM, "needs UNMASK_PROGRAM")
    def test_edits_are_recorded_as_the_program_records_them(self):
        """A decode of a method that edits is told to a recorder forward by forward: the trajectories are those
        that the program writes of the same requests, and it repeats them, edits included."""
        cases = cases_of("edits")
        self.assertGreater(len(cases), 1)
        for method, case in cases.items():
            # Layers of a method with several rows at a position are not shown, and nothing is imposed on it.
            probe, kind = ("decode_trace", "decode") if case["imposable"] else ("decoding", "request")
            rest = (f'[[model]]\npath = "models/{case["model"]}"\n'
                    '[[workload]]\ntasks = ["word_problem"]\nlimit = 2\n'
                    f'[[method]]\nname = "{method}"\n'
                    + "".join(f"params.{k} = {v}\n" for k, v in case["params"].items()))
            run = "[run]\ngen_length = 32\nrepetitions = 1\nwarmup = 0\n"
            told, lines = self.run_one(method, f'{run}[probe]\nnames = ["{probe}"]\n{rest}',
                                       UNMASK_PYTHON="/no/such/python")
            self.assertGreater(told["metrics"][case["count"]], 0)
            recording = unmask.record(self.folder.name, program="P 1", method=method, like=told)
            with recording.timed_pass():
                for line in (line for line in lines if line["kind"] == kind):
                    begin = len(line["prompt"]) if kind == "decode" else line["prompt"]
                    answer = recording.answer(begin, line.get("canvas", line.get("length", 0) - begin))
                    for step in line["steps"]:
                        taken, replaced, reopened = (forward_of if kind == "decode" else changes_of)(step)
                        answer.step([p - begin for p, _ in taken], [t for _, t in taken])
                        answer.replace([p - begin for p, _ in replaced], [t for _, t in replaced])
                        answer.reopen([p - begin for p, _ in reopened])
                    answer.finish([])
            path = os.path.join(self.folder.name, "trajectories", recording.write()["point_id"] + ".txt")
            own = os.path.join(self.folder.name, method + ".txt")
            self.run_one(method + "_served",
                         f'kind = "serve"\n{run}[serve]\narrivals = "closed"\nrequests = 2\n'
                         f'clock = "virtual"\ncost = "1:1"\nrecord = "{own}"\n{rest}')
            with open(path, encoding="utf-8") as told_file, open(own, encoding="utf-8") as own_file:
                # Of one forward the program lists masks and decided positions one after the other.
                self.assertEqual([sorted(line.split()) for line in told_file],
                                 [sorted(line.split()) for line in own_file])
            if not case["imposable"]:
                continue
            again, _ = self.run_one(method + "_again", run + f'impose = "replay:{path}"\n' + rest)
            counts = ("committed", "replaced", "flips", "reopened", "nfe", "rows")
            self.assertEqual({k: again["metrics"].get(k) for k in counts},
                             {k: told["metrics"].get(k) for k in counts})
            self.assertEqual(again["answers_hash"], told["answers_hash"])

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
