# SPDX-License-Identifier: Apache-2.0
"""Two runs, and two builds, against each other."""

import contextlib
import io
import json
import os
import tempfile
import unittest

from made import copies, row_of
import numpy as np
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


def runs_of(rows, factors):
    """As many runs of these rows, each so many times as fast as they are."""
    return [row for factor in factors for row in sped_up(rows, factor)]


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

    def test_answers_that_nobody_can_judge_count(self):
        """Ten of ten right, then the same with ten undecided: 0.5 of 20."""
        before, after = copies(self.before), copies(self.before)
        for row in (before[0], after[0]):
            row["score"] = {"mean": 1.0, "exact": 10, "n": 10, "ci95": [0.7, 1.0]}
        after[0]["score"]["undecided"] = 10
        found = compare.compare_rows(before, after)
        [(_, what, was, now)] = found.differences
        self.assertEqual((what, was, now), ("score", "1", "0.5, 10 of 20 undecided"))
        self.assertIn("10 of 20 of slow, word_problem", text_of(found))

    def test_the_same_items_asked_as_other_tokens_differ(self):
        before, after = copies(self.before), copies(self.before)
        after[0]["workload"]["prompts_hash"] = "b" * 64
        self.assertEqual(compare.compare_rows(before, after).differences, [])  # an older row does not say
        before[0]["workload"]["prompts_hash"] = "a" * 64
        [(_, what, was, now)] = compare.compare_rows(before, after).differences
        self.assertEqual((what, was, now), ("prompts", "a" * 16, "b" * 16))

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
        rows = [row_of("a", [1.0, 1.001, 0.999]), row_of("b", [2.0, 2.002, 1.998], position=1)]
        before = runs_of(rows, (1, 1.001, 0.999))
        for factor, verdict in ((1.08, "FASTER"), (1 / 1.08, "SLOWER"), (1.0, "SAME"), (2, "FASTER")):
            result = compare.compare_rows(before, sped_up(before, factor))
            self.assertTrue(result.repeated())  # all methods alike: the ratios between them stand
            for _, _, _, e in result.speeds:
                self.assertAlmostEqual(e.value, factor)
                self.assertTrue(e.low < factor < e.high)
                self.assertEqual((e.n, e.unit), (3, "runs"))
            middle, said, counts = compare.speed_summary(result, 0.02)
            self.assertAlmostEqual(middle.value, factor)
            self.assertEqual((said, counts), (verdict, {verdict: 2}))
            self.assertIn(f"{verdict}: now is", text_of(result))

    def test_one_run_on_a_side_gives_no_verdict(self):
        rows = [row_of("a", [1.0, 1.001, 0.999]), row_of("b", [2.0, 2.002, 1.998], position=1)]
        for before, after in ((rows, sped_up(rows, 2)), (runs_of(rows, (1, 1)), sped_up(rows, 2))):
            result = compare.compare_rows(before, after)
            self.assertEqual([e.range for _, _, _, e in result.speeds], [None, None])
            middle, said, counts = compare.speed_summary(result, 0.02)
            self.assertAlmostEqual(middle.value, 2)
            self.assertEqual((said, counts), ("AMBIGUOUS", {"AMBIGUOUS": 2}))
            self.assertIn("INCONCLUSIVE: one run on a side", text_of(result))
            self.assertIn("--programs A B FILE", text_of(result))

    def test_disturbed_rows_give_no_verdict_unless_both_ran_in_turn(self):
        before = runs_of([row_of("a", [1.0, 1.001, 0.999])], (1, 1.001, 0.999))
        after = sped_up(before, 1.5)
        self.assertEqual(compare.speed_summary(compare.compare_rows(before, after), 0.02)[1], "FASTER")
        after[1]["samples"]["disturbance"] = "other work on the machine took 50 % of the processors"
        result = compare.compare_rows(before, after)
        self.assertEqual(compare.speed_summary(result, 0.02)[1], "AMBIGUOUS")
        self.assertIn("INCONCLUSIVE: other work ran", text_of(result))
        in_turn = compare.compare_rows(before, after, in_turn=True)
        self.assertEqual(compare.speed_summary(in_turn, 0.02)[1], "FASTER")

    def test_the_interval_is_welchs_over_the_runs_of_both_sides(self):
        # The geometric means of the repetitions of each run, by hand: sqrt(0.8 * 1.25) is 1.
        before = [row_of("a", s, run_id=str(i)) for i, s in enumerate(([0.8, 1.25], [1.1, 1.1], [1.3, 1.3]))]
        after = [row_of("a", s, run_id=str(i)) for i, s in enumerate(([0.9, 0.9], [0.8, 0.8], [0.5, 2.0]))]
        (_, _, _, e), = compare.compare_rows(before, after).speeds
        official = stats.ttest_ind(np.log([1.0, 1.1, 1.3]), np.log([0.9, 0.8, 1.0]),
                                   equal_var=False).confidence_interval(0.95)
        self.assertAlmostEqual(e.low, np.exp(official.low))
        self.assertAlmostEqual(e.high, np.exp(official.high))
        self.assertEqual(compare.speed_summary(compare.compare_rows(before, after), 0.02)[1],
                         "AMBIGUOUS")
        (_, _, _, e), = compare.compare_rows(before, after, in_turn=True).speeds
        official = stats.ttest_rel(np.log([1.0, 1.1, 1.3]), np.log([0.9, 0.8, 1.0])).confidence_interval(0.95)
        self.assertAlmostEqual(e.low, np.exp(official.low))
        self.assertAlmostEqual(e.high, np.exp(official.high))

    def test_the_total_has_the_spread_of_runs_however_many_points_there_are(self):
        rows = [row_of(f"m{i}", [1.0, 1.001], position=i) for i in range(30)]
        before, after = runs_of(rows, (1.0, 1.1, 0.9)), runs_of(rows, (1.05, 0.95, 1.2))
        middle, _, _ = compare.speed_summary(compare.compare_rows(before, after), 0.02)
        official = stats.ttest_ind(np.log([1.05, 0.95, 1.2]), np.log([1.0, 1.1, 0.9]),
                                   equal_var=False).confidence_interval(0.95)
        self.assertAlmostEqual(middle.low, np.exp(official.low))
        self.assertAlmostEqual(middle.high, np.exp(official.high))


class Simulated(unittest.TestCase):
    """Comparisons of made runs whose true ratio is known."""

    def side(self, random, loads, slower=1.0, within=0.02):
        """A run for each load, of three repetitions that differ by `within`."""
        rows = []
        for k, load in enumerate(loads):
            seconds = slower * load * np.exp(random.normal(0, within, 3))
            rows.append(row_of("a", [float(s) for s in seconds], run_id=str(k)))
        return rows

    def test_intervals_hold_the_ratio_whatever_runs_differ_by(self):
        random = np.random.default_rng(1)
        for between in (0.01, 0.02, 0.05):
            held = 0
            for _ in range(400):
                sides = [self.side(random, np.exp(random.normal(0, between, 4))) for _ in (0, 1)]
                (_, _, _, e), = compare.compare_rows(*sides).speeds
                held += e.low <= 1 <= e.high
            # 95 % of 400 is 380; three standard deviations of a binomial are 13.
            self.assertGreaterEqual(held, 367, between)

    def in_turn(self, random, turns, slower):
        """Both programs under one load, which wanders by a quarter from turn to turn and by 1 % inside one."""
        loads = np.exp(np.cumsum(random.normal(0, 0.25, turns)))
        sides = [self.side(random, loads * np.exp(random.normal(0, 0.01, turns)), factor)
                 for factor in (1.0, slower)]
        result = compare.compare_rows(*sides, in_turn=True)
        return compare.speed_summary(result, 0.02)[1]

    def test_the_same_program_twice_under_load_differs_in_at_most_two_of_forty(self):
        random = np.random.default_rng(2)
        said = [self.in_turn(random, 10, 1.0) for _ in range(40)]
        self.assertLessEqual(sum(word in ("FASTER", "SLOWER") for word in said), 2, said)

    def test_a_slow_down_of_five_percent_is_found_in_turn(self):
        random = np.random.default_rng(3)
        said = [self.in_turn(random, 10, 1.05) for _ in range(40)]
        self.assertNotIn("FASTER", said)
        self.assertGreaterEqual(said.count("SLOWER"), 30, said)


class Turns(unittest.TestCase):
    def test_two_programs_are_measured_in_turn_and_their_runs_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            row = json.dumps(row_of("a", [1.0, 1.01]))
            programs = []
            for name, factor in (("old", 1.0), ("new", 0.5)):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    # Writes a row as `run FILE -o DIR ...` does, and who ran when.
                    file.write(f"""#!/usr/bin/env python3
import json, os, sys, time
assert sys.argv[1] == "run" and sys.argv[3] == "-o" and "--fresh" in sys.argv, sys.argv
row = json.loads({row!r})
row["samples"]["seconds"] = [s * {factor} for s in row["samples"]["seconds"]]
row["run_id"] = str(time.time_ns())
os.makedirs(sys.argv[4], exist_ok=True)
open(os.path.join(sys.argv[4], "rows.jsonl"), "a").write(json.dumps(row) + "\\n")
open({os.path.join(folder, "order")!r}, "a").write({name!r} + " ")
""")
                os.chmod(path, 0o755)
                programs.append(path)
            experiment, rows = os.path.join(folder, "e.toml"), os.path.join(folder, "rows")
            with open(experiment, "w", encoding="utf-8") as file:
                file.write("title = 'e'\n")
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
                code = compare.main(["--programs", *programs, experiment, "--turns", "3", "--rows", rows])
            with open(os.path.join(folder, "order"), encoding="utf-8") as file:
                self.assertEqual(file.read().split(), ["old", "new", "new", "old", "old", "new"])
            self.assertEqual(code, 0, said.getvalue())
            self.assertIn("FASTER: now is 2, n = 3 turns", said.getvalue())
            with self.assertRaisesRegex(UserError, "not empty"):
                compare.main(["--programs", *programs, experiment, "--rows", rows])
            with self.assertRaisesRegex(UserError, "2 or more"):
                compare.main(["--programs", *programs, experiment, "--turns", "1"])


class Machines(unittest.TestCase):
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
        self.assertIn("INCONCLUSIVE: one sweep point", text)


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
