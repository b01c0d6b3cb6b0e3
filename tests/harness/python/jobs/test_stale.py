# SPDX-License-Identifier: Apache-2.0
"""unmask campaign DIR --stale: which rows the present program plans, answers or counts otherwise. The program is
played: what it plans and what it measures again is said by each test."""

import contextlib
import io
import json
import os
import subprocess
import tempfile
import unittest
import unittest.mock

from made import row_of

from unmask.jobs import campaign, stale
from unmask.rows.errors import UserError

TOML = '[artifact]\npaper = "focus"\nid = "{}"\n[scale.tiny]\n'


def made(label, seconds=1.0, method="vanilla", **more):
    return row_of(label, [seconds], method=method, source_hash="a" * 40, **more)


class Played:
    """Answers for the program: the labels that it plans, by artifact, and what a row becomes when it is measured again."""

    def __init__(self, planned, again=lambda row: row, obstacle=""):
        self.planned, self.again, self.obstacle = planned, again, obstacle
        self.rows, self.measured = {}, []

    def call(self, words, **_):
        artifact = os.path.splitext(os.path.basename(words[1]))[0]
        if "--dry-run" in words:
            points = [{"model": "tiny", "workload": "word_problem", "label": label, "variation": ""}
                      for label in self.planned[artifact]]
            return subprocess.CompletedProcess(words, 0, json.dumps({"points": points, "obstacle": self.obstacle}), "")
        asked, folder = words[words.index("--points") + 1], words[words.index("-o") + 1]
        row = next(row for row in self.rows[artifact] if f'label = "{row["label"]}"' in asked)
        self.measured.append(row["label"])
        new = self.again(json.loads(json.dumps(row)))
        if new is None:
            return subprocess.CompletedProcess(words, 3, "", "unmask: NOT RUN: needs cuda\n")
        with open(os.path.join(folder, "rows.jsonl"), "w", encoding="utf-8") as file:
            file.write(json.dumps(new) + "\n")
        return subprocess.CompletedProcess(words, 0, "", "")


class Stale(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def write(self, place, text):
        path = os.path.join(self.folder, place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def run_on(self, rows, played, *words):
        """Exit code and lines of the command over these rows, {artifact: [row]}."""
        for artifact, found in rows.items():
            self.write(f"experiments/focus/{artifact}.toml", TOML.format(artifact))
            self.write(f"results/focus/{artifact}/tiny/rows.jsonl", "".join(json.dumps(row) + "\n" for row in found))
        played.rows, said = rows, io.StringIO()
        with unittest.mock.patch.object(stale.program, "call", played.call), \
                contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            code = campaign.main([f"{self.folder}/results", "--stale", "--experiments-dir", f"{self.folder}/experiments",
                                  *words])
        return code, said.getvalue().splitlines()

    def test_rows_that_answer_the_same_are_not_stale(self):
        rows = {"table_5": [made("slow", 9.0), made("fast", 1.0)]}
        played = Played({"table_5": ["slow", "fast"]})
        code, lines = self.run_on(rows, played)
        self.assertEqual(code, 0)
        self.assertEqual(lines[0], "as measured: focus/table_5/tiny, 2 rows of aaaaaaaa, 1 measured again")
        self.assertEqual(lines[1], "0 stale, 0 not known, 1 as measured, of 1")
        self.assertEqual(played.measured, ["fast"])  # the one that takes the least time

    def test_another_answer_or_count_makes_an_artifact_stale(self):
        rows = {"table_5": [made("a")], "table_6": [made("b")]}
        changed = Played({"table_5": ["a"], "table_6": ["b"]},
                         lambda row: row | ({"answers_hash": "other"} if row["label"] == "a" else {}))
        code, lines = self.run_on(rows, changed)
        self.assertEqual(code, 4)
        self.assertIn("stale: focus/table_5/tiny, 1 rows of aaaaaaaa, 1 measured again; ", lines[0])
        self.assertIn("answers abc, now other", lines[0])
        self.assertTrue(lines[1].startswith("as measured: focus/table_6/tiny"), lines[1])
        counts = Played({"table_5": ["a"], "table_6": ["b"]},
                        lambda row: row | {"metrics": row["metrics"] | {"committed": 99}})
        _, lines = self.run_on(rows, counts, "--only", "focus/table_6")
        self.assertIn("committed 100, now 99", lines[0])
        self.assertEqual(lines[-1], "1 stale, 0 not known, 0 as measured, of 1")

    def test_as_json_it_says_the_same(self):
        code, lines = self.run_on({"table_5": [made("old")]}, Played({"table_5": ["new"]}), "--sample", "0",
                                  "--format", "json")
        (age,) = json.loads("\n".join(lines))
        self.assertEqual((code, age["state"], age["place"], age["rows"]), (4, "stale", "focus/table_5/tiny", 1))
        self.assertEqual((age["missing"], age["gone"]),
                         (["tiny, word_problem, new"], ["tiny, word_problem, old"]))

    def test_another_time_is_no_other_row(self):
        slower = Played({"table_5": ["a"]}, lambda row: row | {"samples": row["samples"] | {"seconds": [7.0]}})
        self.assertEqual(self.run_on({"table_5": [made("a")]}, slower)[0], 0)

    def test_another_plan_makes_it_stale(self):
        code, lines = self.run_on({"table_5": [made("old"), made("kept")]}, Played({"table_5": ["kept", "new"]}),
                                  "--sample", "0")
        self.assertEqual(code, 4)
        self.assertIn("1 planned points without rows, the first tiny, word_problem, new", lines[0])
        self.assertIn("1 rows of points that are planned no more, the first tiny, word_problem, old", lines[0])

    def test_a_plan_alone_does_not_say_that_answers_are_the_same(self):
        code, lines = self.run_on({"table_5": [made("a")]}, Played({"table_5": ["a"]}), "--sample", "0")
        self.assertEqual((code, lines[0]), (0, "not known: focus/table_5/tiny, 1 rows of aaaaaaaa, 0 measured again; "
                                               "planned as it was"))

    def test_a_point_that_gives_no_row_says_why(self):
        code, lines = self.run_on({"table_5": [made("a")]}, Played({"table_5": ["a"]}, lambda row: None))
        self.assertEqual(code, 4)
        self.assertIn("row there, now none: unmask: NOT RUN: needs cuda", lines[0])

    def test_what_this_machine_cannot_plan_is_not_known(self):
        code, lines = self.run_on({"table_5": [made("a")]}, Played({"table_5": ["a"]}, obstacle="NOT RUN: needs cuda"))
        self.assertEqual((code, lines[-1]), (0, "0 stale, 1 not known, 0 as measured, of 1"))

    def test_a_sample_has_a_row_of_each_method_first_and_none_that_a_clock_decides(self):
        rows = [made("a", 1.0), made("b", 2.0), made("c", 3.0, method="focus"),
                made("d", 0.5, calibration={"mape": 0.1}), made("e", 0.1, verdict="FAILED", reason="r")]
        self.assertEqual([row["label"] for row in stale.sample_of(rows, 2)], ["a", "c"])
        self.assertEqual([row["label"] for row in stale.sample_of(rows, 9)], ["a", "c", "b"])

    def test_a_folder_without_such_rows_is_refused(self):
        with self.assertRaisesRegex(UserError, "has no rows of focus/table_9"):
            self.run_on({"table_5": [made("a")]}, Played({"table_5": ["a"]}), "--only", "focus/table_9")
        with self.assertRaisesRegex(UserError, "--sample must be 0 or more, not -1"):
            self.run_on({"table_5": [made("a")]}, Played({"table_5": ["a"]}), "--sample", "-1")


if __name__ == "__main__":
    unittest.main()
