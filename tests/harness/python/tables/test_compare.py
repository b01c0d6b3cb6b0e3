# SPDX-License-Identifier: Apache-2.0
"""Two runs, and two builds, against each other."""

import contextlib
import io
import json
import os
import tempfile
import unittest

from made import copies, row_of
from scipy import stats

from unmask.rows.errors import UserError
from unmask.tables import compare


def text_of(result):
    return compare.comparison_text(result)


def sped_up(rows, factor):
    """The same run on a machine or with a program that is so many times as fast."""
    rows = copies(rows)
    for row in rows:
        row["samples"]["seconds"] = [s / factor for s in row["samples"]["seconds"]]
        row["metrics"]["tokens_per_second"] *= factor
        row["run_id"] = "later"
    return rows


class Repetitions(unittest.TestCase):
    def setUp(self):
        self.before = [row_of("slow", [2.0, 2.02, 1.98]), row_of("fast", [1.0, 1.01, 0.99],
                                                                 position=1)]

    def test_runs_agree_in_all_but_their_clock(self):
        same = compare.compare_rows(self.before, sped_up(self.before, 3))
        self.assertTrue(same.repeated(), text_of(same))
        self.assertEqual((same.points, same.same_tokens, same.ratios), (2, 2, 1))
        self.assertIn("REPEATED", text_of(same))

    def test_answers_counts_and_rows_that_differ_are_listed(self):
        after = copies(self.before)
        after[0]["answers_hash"] = "other"
        after[0]["metrics"]["redundancy"] = 5
        after[1] = row_of("third", [1.0])
        lost = compare.compare_rows(self.before, after)
        self.assertEqual(sorted(what for _, what, _, _ in lost.differences),
                         ["answers", "redundancy", "row", "row"])
        self.assertIn("DIFFERS", text_of(lost))
        self.assertFalse(compare.compare_rows(self.before, after, with_speed=False).repeated())

    def test_a_ratio_between_methods_that_moved_is_no_repetition(self):
        after = copies(self.before)
        after[1]["samples"]["seconds"] = [2 * s for s in after[1]["samples"]["seconds"]]
        after[1]["metrics"]["tokens_per_second"] /= 2
        slower = compare.compare_rows(self.before, after)
        self.assertEqual([what for _, what, _, _ in slower.speeds_apart], ["speed over slow"])
        self.assertFalse(slower.repeated())
        self.assertIn("more than chance", text_of(slower))
        elsewhere = compare.compare_rows(self.before, after, with_speed=False)
        self.assertTrue(elsewhere.repeated())
        self.assertIn("speeds were not compared", text_of(elsewhere))

    def test_a_point_that_calibrates_itself_is_held_to_its_score(self):
        before = [row_of("elastic", [1.0, 1.1], calibration={},
                         score={"mean": 0.9, "exact": 90, "n": 100, "ci95": [0.83, 0.95]})]
        after = copies(before)
        after[0]["metrics"]["redundancy"] = 9
        after[0]["score"]["mean"] = 0.86  # four points of a hundred items are noise
        result = compare.compare_rows(before, after)
        self.assertTrue(result.repeated(), text_of(result))
        self.assertEqual(result.calibrated, 1)
        after[0]["score"]["mean"] = 0.4
        self.assertFalse(compare.compare_rows(before, after).repeated())

    def test_counts_that_a_real_clock_decides_are_not_compared(self):
        chunks = {"chunk_min": 32, "chunk_mean": 32}
        before = [row_of("served", [1.0], serve={"clock": "real", "cancel_share": 0.0})]
        before[0]["metrics"].update(batched_forwards=10, peak_kv_bytes=4096, **chunks)
        before[0]["provenance"].update(batched_forwards="counted", peak_kv_bytes="counted",
                                       chunk_min="counted", chunk_mean="counted")
        after = copies(before)
        after[0]["metrics"].update(batched_forwards=9, peak_kv_bytes=8192)
        result = compare.compare_rows(before, after)
        self.assertTrue(result.repeated(), text_of(result))
        self.assertIn("real clock", text_of(result))
        after[0]["answers_hash"] = "other"  # what a request is answered does not depend on it
        self.assertFalse(compare.compare_rows(before, after).repeated())
        after[0]["serve"]["cancel_share"] = 0.5  # unless clients leave
        self.assertTrue(compare.compare_rows(before, after).repeated())
        for row in before + after:  # on a virtual clock every count is the program's own
            row["serve"] = {"clock": "virtual"}
        self.assertEqual({what for _, what, _, _ in
                          compare.compare_rows(before, after).differences},
                         {"answers", "batched_forwards", "peak_kv_bytes"})

    def test_chance_explains_few_ratios_apart(self):
        self.assertEqual(compare.chance_of_apart(100, 0), 1)
        for ratios, apart in ((1, 1), (2, 1), (2, 2), (336, 2), (336, 34)):
            self.assertAlmostEqual(compare.chance_of_apart(ratios, apart),
                                   stats.binom.sf(apart - 1, ratios, 0.0056), places=12)

    def test_a_large_difference_is_not_chance_however_many_ratios_there_are(self):
        before = [row_of(f"m{i}", [1.0, 1.02 if i == 50 else 1.01, 0.99], position=i)
                  for i in range(100)]

        def slower(factor):
            after = copies(before)
            after[50]["samples"]["seconds"] = [s * factor for s in before[50]["samples"]["seconds"]]
            return compare.compare_rows(before, after)
        self.assertEqual(slower(1).ratios, 99)
        self.assertEqual(slower(1).speeds_apart, [])
        self.assertEqual(len(slower(1.05).speeds_apart), 1)  # its interval is 1.4 % to each side
        self.assertTrue(slower(1.05).repeated())
        self.assertEqual(slower(3).far_apart, 1)
        self.assertFalse(slower(3).repeated())


class Speeds(unittest.TestCase):
    def test_each_side_that_is_faster_is_found(self):
        before = [row_of("a", [1.0, 1.001, 0.999]), row_of("b", [2.0, 2.002, 1.998], position=1)]
        for factor, verdict in ((1.08, "FASTER"), (1 / 1.08, "SLOWER"), (1.0, "SAME"), (2, "FASTER")):
            result = compare.compare_rows(before, sped_up(before, factor))
            self.assertTrue(result.repeated())  # all methods alike: the ratios between them stand
            for _, _, _, e in result.speeds:
                self.assertAlmostEqual(e.value, factor)
                self.assertTrue(e.low < factor < e.high)
            middle, said, counts = compare.speed_summary(result, 0.02)
            self.assertAlmostEqual(middle.value, factor)
            self.assertEqual((said, counts), (verdict, {verdict: 2}))
            self.assertIn(f"{verdict}: now is", text_of(result))

    def test_the_interval_is_welchs_over_the_repetitions(self):
        import numpy as np
        before, after = [row_of("a", [1.0, 1.1, 1.3])], [row_of("a", [0.9, 0.8, 1.0])]
        (_, _, _, e), = compare.compare_rows(before, after).speeds
        official = stats.ttest_ind(np.log([1.0, 1.1, 1.3]), np.log([0.9, 0.8, 1.0]),
                                   equal_var=False).confidence_interval(0.95)
        self.assertAlmostEqual(e.low, np.exp(official.low))
        self.assertAlmostEqual(e.high, np.exp(official.high))
        self.assertEqual(compare.speed_summary(compare.compare_rows(before, after), 0.02)[1],
                         "AMBIGUOUS")

    def test_what_was_timed_once_is_ambiguous(self):
        result = compare.compare_rows([row_of("a", [1.0])], [row_of("a", [0.5])])
        self.assertIn("AMBIGUOUS: timed once", text_of(result))

    def test_another_machine_or_load_is_a_warning(self):
        before = [row_of("a", [1.0, 1.1])]
        after = copies(before)
        self.assertNotIn("warning", text_of(compare.compare_rows(before, after)))
        after[0]["environment"] = {"cpu_model": "B", "load_average": [9.5, 9, 9]}
        text = text_of(compare.compare_rows(before, after))
        self.assertIn("the machine differs: cpu_model before A; now B", text)
        self.assertIn("the load differs: 0.1 processes before, 9.5 now", text)

    def test_phases_are_compared_too(self):
        def profiled(label, seconds):
            phases = [{"phase": "attention", "own_seconds": seconds, "container": False},
                      {"phase": "layer", "own_seconds": 9.0, "container": True}]
            return row_of(label, [1.0, 1.1], probes={"phases": {"kernels": [], "phases": phases}})
        before = [profiled("a", 1.0), profiled("b", 2.0)]
        after = [profiled("a", 0.5), profiled("b", 1.0)]
        text = text_of(compare.compare_rows(before, after))
        self.assertIn("| attention | 2 | 3000.000 | 1500.000 | 2.000 [2.000, 2.000] | FASTER |", text)
        self.assertNotIn("layer", text)
        text = text_of(compare.compare_rows(before[:1], after[:1]))
        self.assertIn("AMBIGUOUS: one point", text)


class Paths(unittest.TestCase):
    def test_campaigns_are_compared_place_by_place(self):
        with tempfile.TemporaryDirectory() as folder:
            def put(place, row):
                path = os.path.join(folder, place, "rows.jsonl")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            row = row_of("fast", [1.0, 1.1])
            for place in ("a/focus/table_5/tiny", "b/focus/table_5/tiny", "a/focus/table_6/tiny",
                          "b/focus/table_6/tiny"):
                put(place, row)
            a, b = os.path.join(folder, "a"), os.path.join(folder, "b")
            same = compare.compare_paths(a, b)
            self.assertTrue(same.repeated())
            self.assertEqual((same.points, same.same_tokens), (2, 2))
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                self.assertEqual(compare.main([a, b]), 0)
            row["answers_hash"] = "other"
            put("b/focus/table_6/tiny", row)
            put("b/focus/table_1/tiny", row)
            other = compare.compare_paths(a, b)
            self.assertEqual([what for _, what, _, _ in other.differences], ["answers", "rows"])
            self.assertTrue(other.differences[0][0].startswith("focus/table_6/tiny: "))
            with contextlib.redirect_stdout(said):
                self.assertEqual(compare.main([a, b]), 4)
            with self.assertRaisesRegex(UserError, "have no rows at the same place"):
                compare.compare_paths(a, os.path.join(b, "focus"))
            with self.assertRaisesRegex(UserError, "two runs"):
                compare.main([a])


if __name__ == "__main__":
    unittest.main()
