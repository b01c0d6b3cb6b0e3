# SPDX-License-Identifier: Apache-2.0
"""unmask merge: what it keeps, what it refuses, and that no row is ever lost."""

import contextlib
import io
import os
import unittest

import support
from support import line

from unmask.jobs import merge


class Merge(support.Case):
    def merged(self, *sources, output="out/rows.jsonl", **how):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.kept, self.superseded, self.missing = merge.merge(
                list(sources) or ["in"], output, **how)
        self.said = said.getvalue()
        return (self.folder / output).read_text()

    def test_parts_become_one_file_in_the_order_of_the_plan(self):
        self.write("in/part-00000-of-00002.jsonl", line("c", 2) + line("a", 0))
        self.write("in/part-00001-of-00002.jsonl", line("b", 1))
        self.write("in/samples_x.jsonl", "no row\n")
        self.assertEqual(self.merged(), line("a", 0) + line("b", 1) + line("c", 2))

    def test_a_last_row_without_its_newline_is_a_row(self):
        self.write("in/a.jsonl", line("a", 0) + line("b", 1).rstrip("\n"))
        self.assertEqual(self.merged(), line("a", 0) + line("b", 1))
        self.write("one.jsonl", line("a", 0).rstrip("\n"))
        self.assertEqual(self.merged("one.jsonl", output="o.jsonl"), line("a", 0))

    def test_a_torn_line_is_passed_over_and_said_wherever_it_stands(self):
        self.write("in/a.jsonl", line("a", 0) + '{"torn' + "\n" + line("b", 1) + '{"half')
        self.assertEqual(self.merged(), line("a", 0) + line("b", 1))
        self.assertIn("in/a.jsonl:2: passed over", self.said)
        self.assertIn(", and 1 more (4)", self.said)

    def test_a_row_that_would_be_lost_keeps_the_file(self):
        whole = line("a", 0, "FAILED") + line("a", 0) + line("b", 1)
        self.write("a.jsonl", whole)
        self.refused("1 of its rows would be lost", merge.merge, ["a.jsonl"], "a.jsonl")
        self.assertEqual((self.folder / "a.jsonl").read_text(), whole)
        # Rows of a measured rows.jsonl are read although the result is written to it.
        self.write("d/rows.jsonl", line("a", 0))
        self.write("d/part.jsonl", line("b", 1))
        self.assertEqual(self.merged("d", output="d/rows.jsonl"), line("a", 0) + line("b", 1))
        # A file that is no source and holds other rows.
        self.write("other.jsonl", line("z", 9))
        self.refused("would be lost", merge.merge, ["d"], "other.jsonl")
        # And one with a line that nobody can read.
        self.write("torn.jsonl", line("a", 0) + '{"half')
        with contextlib.redirect_stderr(io.StringIO()):
            self.refused("would be lost", merge.merge, ["torn.jsonl"], "torn.jsonl")

    def test_merging_a_file_onto_itself_is_harmless_where_nothing_is_lost(self):
        self.write("a.jsonl", line("b", 1) + line("a", 0).rstrip("\n"))
        self.assertEqual(self.merged("a.jsonl", output="./a.jsonl"), line("a", 0) + line("b", 1))

    def test_a_file_given_twice_counts_once(self):
        self.write("s5/rows.jsonl", line("a", 0))
        os.symlink("s5", self.folder / "same")
        for other in ("./s5", "s5/rows.jsonl", "same", str(self.folder / "s5")):
            self.assertEqual(self.merged("s5", other), line("a", 0))
            self.assertEqual(self.superseded, 0)

    def test_a_point_that_failed_keeps_its_good_row(self):
        self.write("in/a.jsonl", line("a", 0, "FAILED") + line("a", 0) + line("b", 1))
        self.assertEqual(self.merged(), line("a", 0) + line("b", 1))
        self.assertEqual(self.superseded, 1)
        self.write("in/b.jsonl", line("b", 1, "FAILED"))
        self.assertEqual(self.merged(output="o.jsonl"), line("a", 0) + line("b", 1))

    def test_identical_rows_are_one_and_different_ones_need_newest(self):
        self.write("in/a.jsonl", line("a", 0) + line("b", 1))
        self.write("in/b.jsonl", line("b", 1))
        self.assertEqual(self.merged(), line("a", 0) + line("b", 1))
        newer = line("b", 1, finished="2026-01-02T00:00:00Z")
        self.write("in/b.jsonl", newer)
        self.refused("point b was measured to its end twice, in in/a.jsonl:2 and in in/b.jsonl:1",
                     merge.merge, ["in"], "new.jsonl")
        self.assertFalse((self.folder / "new.jsonl").exists())
        self.assertEqual(self.merged(output="new.jsonl", newest=True), line("a", 0) + newer)

    def test_of_one_file_the_last_row_of_a_point_counts_as_in_a_table(self):
        fresh = line("a", 0, finished="2026-01-02T00:00:00Z")
        self.write("in/a.jsonl", line("a", 0) + fresh)
        self.assertEqual(self.merged(), fresh)
        self.write("in/merged-before.jsonl", line("a", 0))  # nothing new in it
        self.assertEqual(self.merged(), fresh)

    def test_environments_are_not_mixed_unless_asked_for(self):
        busy = {"cpu_model": "a", "load_average": [9, 9, 9]}
        self.write("in/a.jsonl", line("a", 0) + line("b", 1, environment=busy))
        self.merged()
        self.write("in/b.jsonl", line("c", 2, environment={"cpu_model": "z"}))
        self.refused('cpu_model: "a" and "z"', merge.merge, ["in"], "o.jsonl")
        self.merged(mixed=True)
        self.assertEqual(len(self.kept), 3)
        self.write("in/b.jsonl", line("c", 2, environment={"cpu_model": "a"}, source_hash="other"))
        self.refused('source_hash: "abc" and "other"', merge.merge, ["in"], "o.jsonl")

    def test_planned_points_without_a_row_are_named(self):
        self.write("in/run.json", '{"plan":[{"id":"a"},{"id":"gone"}]}')
        self.write("in/a.jsonl", line("a", 0))
        self.merged()
        self.assertEqual(self.missing, ["gone"])
        for broken in ("[]", "{", '{"plan":1}', '{"plan":[1]}', '{"plan":[{"id":1}]}'):
            self.write("in/run.json", broken)
            self.refused("in/run.json", merge.merge, ["in"], "o.jsonl")

    def test_a_pipe_is_refused_at_once_and_what_is_no_row_never_crashes(self):
        os.mkfifo(self.folder / "rows.jsonl")
        self.refused("not a regular file", merge.merge, ["rows.jsonl"], "o.jsonl")
        for odd in ("[]", "1", '{"schema_version":1}', '{"schema_version":"1.4"}', "[" * 100000,
                    '{"schema_version":"1.4","point_id":[]}', "\0\0\0", "\xff"):
            self.write("in/a.jsonl", odd + "\n" + line("a", 0))
            self.assertEqual(self.merged(output="odd.jsonl"), line("a", 0))
        self.write("in/a.jsonl", line("a", 0).replace('"1.4"', '"2.0"'))
        self.refused("schema version 2.0", merge.merge, ["in"], "o.jsonl")
        self.refused("none does not exist", merge.merge, ["none"], "o.jsonl")


if __name__ == "__main__":
    unittest.main()
