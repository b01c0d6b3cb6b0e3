# SPDX-License-Identifier: Apache-2.0
"""The reader of rows: what it takes, what it passes over, what it refuses; the vocabulary of rows is
that of the program."""

import contextlib
import io
import json
import os
import re
import tarfile
import tempfile
import unittest

from made import row_of

from unmask.rows import estimates, experiments, names, rows
from unmask.rows.errors import EnvironmentFault, UserError

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../..")


class Reader(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = os.path.join(self.folder, "rows.jsonl")

    def read(self, data, mode="wb"):
        with open(self.path, mode) as file:
            file.write(data)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            return rows.read_rows(self.path), said.getvalue()

    def test_broken_lines_are_passed_over_with_a_note_and_hide_no_row(self):
        good = json.dumps(row_of("a", [1.0])).encode()
        for broken in (b'{"schema_version": "1.4", "run_id"', b"\0\0\0", b"[]", b"\xff\xfe",
                       b"[" * 200000, good.replace(b'"position": 0', b'"position": NaN'),
                       good.replace(b'"seconds": [1.0]', b'"seconds": ["x"]'),
                       good.replace(b'"score": {', b'"skore": {'),
                       good.replace(b'"weights": "checkpoint"', b'"weights": 3'),
                       good.replace(b'"metrics": {', b'"metrics": {"x": [], '),
                       good.replace(b'"batch_size": 1', b'"batch_size": "1"')):
            found, said = self.read(good + b"\n" + broken + b"\n" + good + b"\n")
            self.assertEqual(len(found), 2, broken[:60])
            self.assertIn(f"{self.path}:2: passed over", said)

    def test_a_last_line_without_its_end_counts_where_it_is_whole(self):
        good = json.dumps(row_of("a", [1.0])).encode()
        self.assertEqual(len(self.read(good)[0]), 1)
        self.assertEqual(len(self.read(good + b"\n" + good[:-9])[0]), 1)

    def test_a_note_cannot_steer_the_terminal(self):
        _, said = self.read(b'{"schema_version": "1.4", "verdict": "\\u001b[31m"}\n')
        self.assertNotIn("\x1b", said)

    def test_another_major_schema_is_refused(self):
        with self.assertRaisesRegex(EnvironmentFault, "schema version 2.0"):
            self.read(json.dumps(row_of("a", [1.0], schema_version="2.0")).encode())

    def test_what_is_no_regular_file_is_refused_at_once(self):
        pipe = os.path.join(self.folder, "pipe.jsonl")
        os.mkfifo(pipe)
        with self.assertRaisesRegex(EnvironmentFault, "not a regular file"):
            rows.read_rows(pipe)
        with self.assertRaisesRegex(EnvironmentFault, "does not exist"):
            rows.read_rows(os.path.join(self.folder, "none"))

    def test_older_rows_are_completed(self):
        old = row_of("a", [1.0], schema_version="1.1", probes={"calibration": {"mape": 0.25}})
        for key in ("kv_type", "isa", "answers_hash"):
            del old[key]
        (row,), _ = self.read(json.dumps(old).encode())
        self.assertEqual((row["kv_type"], row["isa"], row["answers_hash"]), ("auto", "auto", ""))
        for metric in ("calibration.mape", "probes.calibration.mape"):
            self.assertEqual(estimates.value(row, metric), (0.25, "counted"))

    def test_what_a_scorer_measures_besides_is_a_number_of_the_row(self):
        row = row_of("a", [1.0], score={"mean": 0.5, "exact": 1, "n": 2, "ci95": [0, 1],
                                        "beside": {"repeated_sequences": 0.25}})
        self.assertEqual(estimates.value(row, "score.repeated_sequences"), (0.25, "counted"))
        self.assertIsNone(estimates.value(row, "score.reference_likelihood"))
        self.assertIsNone(estimates.value(row_of("a", [1.0], score=None), "score.repeated_sequences"))

    def test_a_folder_may_hold_its_rows_in_an_archive(self):
        self.read(json.dumps(row_of("a", [1.0])).encode())
        with tarfile.open(os.path.join(self.folder, "rows.tar.xz"), "w:xz") as archive:
            archive.add(self.path, "focus/table_5/tiny/rows.jsonl")
        os.remove(self.path)
        places = rows.places_below(self.folder)
        self.assertEqual(list(places), ["focus/table_5/tiny"])
        self.assertEqual(places["focus/table_5/tiny"][0]["label"], "a")
        with open(os.path.join(self.folder, "rows.tar.xz"), "wb") as file:
            file.write(b"no archive")
        with self.assertRaisesRegex(EnvironmentFault, "cannot be unpacked"):
            rows.places_below(self.folder)


class Vocabulary(unittest.TestCase):
    def test_the_keys_of_run_and_the_verdicts_are_the_programs(self):
        with open(os.path.join(ROOT, "harness/base/run_keys.h"), encoding="utf-8") as file:
            keys = re.findall(r'X\(std::(int64_t|string), (\w+),\s+"[^"]*",\s+("\w*"|\w+),',
                              file.read())
        with open(os.path.join(ROOT, "harness/base/ranks/shots.h"), encoding="utf-8") as file:
            number, bits = re.search(r"two_shots_above = std::int64_t\{(\d+)\} << (\d+);", file.read()).groups()
        values = {value: int(value) for _, _, value in keys if value.isdigit()}
        values["two_shots_above"] = int(number) << int(bits)
        self.assertEqual(rows.RUN_KEYS, {name: values[value] if kind == "int64_t" else value[1:-1]
                                         for kind, name, value in keys})
        self.assertEqual(rows.VERDICTS, ("PASS", "NOISY", "INVALID", "NOT_VERIFIED", "NOT_SUPPORTED", "FAILED",
                                         "INACTIVE"))

    def test_devices_that_are_needs_are_those_of_the_page(self):
        with open(os.path.join(ROOT, "experiments/FORMAT.md"), encoding="utf-8") as file:
            needs = file.read().split("## Needs")[1].split("\n## ")[0]
        self.assertEqual(experiments.needed_devices(), tuple(re.findall(r"^\| `([^`:]+)` \|", needs, re.M)))

    def test_what_is_checked_of_a_row_is_what_its_schema_says(self):
        row = row_of("a", [1.0])
        for change, found in (({"params": {"a": None}}, "`params.a` should be true or false or a number or a text"),
                              ({"items": {"id": [1]}}, "`items.answer_hash` is missing"),
                              ({"device_facts": {"is_card": 1, "times_mean_something": True}},
                               "`device_facts.is_card` should be true or false and is number"),
                              ({"workload": row["workload"] | {"judge": 3}},
                               "`workload.judge` should be a text and is number"),
                              ({"metric_samples": 5}, "`metric_samples` should be an object and is number"),
                              ({"metric_samples": {"x": [1]}}, "`metric_samples.x` is of no metric"),
                              ({"provenance": {}}, "`provenance` does not name `committed`"),
                              ({"verdict": "GOOD"}, "`verdict` is 'GOOD', which is no known value"),
                              ({"score": {"mean": 1, "exact": 1, "n": 1, "ci95": [1]}},
                               "`score.ci95` should hold 2 values"),
                              ({"samples": {k: v for k, v in row["samples"].items() if k != "half_width"}},
                               "`samples.half_width` is missing")):
            with self.assertRaisesRegex(ValueError, re.escape(found)):
                rows.parse_row(json.dumps(row | change), "x")

    def test_numbers_are_written_as_the_program_writes_them(self):
        # What std::to_chars gives: the shortest text, plain where it is no longer.
        for value, text in ((1.0, "1"), (0.9, "0.9"), (100000.0, "1e+05"), (120000.0, "120000"),
                            (0.001, "0.001"), (0.0001, "1e-04"), (0.00012, "0.00012"),
                            (1e22, "1e+22"), (-2.5, "-2.5"), (123456.75, "123456.75"),
                            (0.30000000000000004, "0.30000000000000004"), (5, "5")):
            self.assertEqual(names.number_text(value), text)

    def test_settings_are_found_by_name(self):
        row = row_of("a", [1.0], params={"threshold": 0.9, "until_clean": False},
                     serve={"rate": 2.0}, variation="params.steps=4 batch_size=2")
        found = [rows.setting(row, key) for key in ("label", "model", "workload", "kind", "device",
                                                    "params.threshold", "params.until_clean",
                                                    "serve.rate", "params.none", "none")]
        self.assertEqual(found, ["a", "tiny", "word_problem", "serve", "cpu", "0.9", "false", "2",
                                 None, None])
        self.assertEqual(rows.row_name(row, {"batch_size"}), "a params.steps=4")
        with self.assertRaisesRegex(UserError, "did you mean 'batch_size'"):
            rows.check_key("batchsize", "here")

    def test_the_latest_row_of_a_point_counts_in_the_order_of_the_plan(self):
        late, early = row_of("late", [1.0], position=2), row_of("early", [1.0], position=1)
        found = rows.latest([late, early, row_of("late", [1.0], position=2, verdict="FAILED")])
        self.assertEqual([(r["label"], r["verdict"]) for r in found],
                         [("early", "PASS"), ("late", "FAILED")])


if __name__ == "__main__":
    unittest.main()
