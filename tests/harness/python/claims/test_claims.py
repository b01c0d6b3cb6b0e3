# SPDX-License-Identifier: Apache-2.0
"""The register: what is declared, how claims are judged, what is refused, what the command says; and the
rules that the shipped claims keep."""

import ast
import contextlib
import functools
import inspect
import json
import math
import os
import re
import textwrap
import unittest
import unittest.mock

from made import row_of
from made_claims import ARTIFACT, FASTER, Made, scored, unscored, waits_for_its_file, write
from scipy import stats

from unmask.claims import claims, judge, pages, power, relation, repeats, weigh
from unmask.claims.declare import RATIOS, read_register
from unmask.claims.frame import NeedsRows, settings_of
from unmask.claims.judge import Evidence, judge_all
from unmask.claims.words import shown as shown_word
from unmask.rows import experiments
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.verdicts import FAILED, HELD, UNDECIDED, Region, tone
from unmask.rows.verdicts import judge as judge_interval
from unmask.tables.published import read_published

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../..")


class ScoresBesideASpeed(Made):
    """A speed is timed on a few items, its score read on more of the same settings (scale `scores`)."""
    FAST, SLOW = (1.0, 1.01, 0.99), (2.0, 2.02, 1.98)

    def beside(self, fast, slow, text=FASTER, of=400, task="word_problem", **more):
        timed = [scored("fast", 8, 8, self.FAST), scored("slow", 8, 8, self.SLOW)]
        self.put([scored("fast", fast, of, task=task, **more), scored("slow", slow, of, task=task, **more)],
                 "focus/table_5/scores")
        return self.judged(text, timed)

    def test_eight_items_leave_it_open(self):
        r = self.judged(FASTER, [scored("fast", 8, 8, self.FAST), scored("slow", 8, 8, self.SLOW)])
        self.assertEqual((r.verdict, r.score), ("SUPPORTED", "open"))
        self.assertIn("score of the same rows not determined: 0 [-0.324, 0.324], n = 8 items", r.reason)
        # Standard error 0.324 / 1.96 of 8 items; two points in 2.80 of them: (2.80 * 0.1655 / 0.02)^2 * 8.
        self.assertAlmostEqual(r.score_needs / 4301, 1, delta=0.01)
        self.assertIn("shown: a loss of at most 32.4 pp", r.reason)

    def test_more_items_say_what_it_costs(self):
        kept = self.beside(300, 300)
        self.assertEqual((kept.verdict, kept.finding.quality.n, kept.rows), ("SUPPORTED", 400, 4))
        self.assertIn("score of the same settings on word_problem kept: 0 [", kept.reason)
        worse = self.beside(260, 300)
        self.assertEqual(worse.verdict, "PARTLY")
        self.assertAlmostEqual(worse.finding.quality.value, -0.1)
        self.assertIn(" lower: ", worse.reason)

    def test_items_of_all_tasks_are_one_sample(self):
        """All right on 104 items of each of two tasks: 208 items leave two points, two means of tasks would not. The
        limits are those of no wrong answer of 208 and of 104, by Wilson's formula."""
        def both(label):
            return [scored(label, 104, 104), scored(label, 104, 104, task="needle")]
        self.put(both("fast") + both("slow"), "focus/table_5/scores")
        r = self.judged(FASTER, [scored("fast", 8, 8, self.FAST), scored("slow", 8, 8, self.SLOW)])
        z2 = stats.norm.ppf(0.975) ** 2
        self.assertEqual(r.verdict, "SUPPORTED", r.reason)
        self.assertAlmostEqual(r.finding.quality.low, -z2 / (208 + z2), places=6)
        self.assertGreater(z2 / (104 + z2) / math.sqrt(2), 0.02)

    def test_graded_text_says_nothing_of_answers(self):
        """Ten answers that agree beside ten texts that differ by a hundredth: the answers leave as much open as
        ten leave, halved, for they are half of the items."""
        def both(label, grade):
            text = scored(label, 10, 10, task="summary")
            text["items"]["score"] = [grade + i / 100 for i in range(10)]
            return [scored(label, 10, 10, self.FAST if label == "fast" else self.SLOW), text]
        r = self.judged(FASTER, both("fast", 0.51) + both("slow", 0.5))
        z2 = stats.norm.ppf(0.975) ** 2
        self.assertAlmostEqual(r.finding.quality.value, 0.005)
        self.assertLess(r.finding.quality.low, 0.005 - z2 / (10 + z2) / 2)

    def test_one_item_tells_no_equal_score(self):
        """Which setting scores as well is chosen on odd items, and compared on even ones: one item has no odd one."""
        text = FASTER.replace('speed(f, "fast", "slow")', 'at_equal_score(f, "fast", ["slow"])')
        r = self.judged(text, [scored("fast", 1, 1, self.FAST), scored("slow", 1, 1, self.SLOW)])
        self.assertEqual(r.verdict, "NOT RUN")
        self.assertIn("needs more than one item of word_problem", r.reason)

    def test_one_size_of_batch_stands_for_all(self):
        text = FASTER.replace('"slow")', '"slow", batch_size=1, workload="word_problem")')
        self.assertEqual(self.beside(300, 300, text, batch=8).verdict, "SUPPORTED")

    def test_what_measured_times_decide_has_the_score_of_its_own_rows(self):
        """Of another batch and latency table the same settings write other text: 300 of 400 there are no score of
        the 4 of 8 answers that were timed, half a right answer worse than the baseline's 8."""
        timed = [scored("fast", 4, 8, self.FAST), scored("slow", 8, 8, self.SLOW)]
        timed[0]["calibration"] = {"fit": "table"}
        self.put([scored("fast", 300, 400, batch=8), scored("slow", 300, 400, batch=8)], "focus/table_5/scores")
        r = self.judged(FASTER, timed)
        self.assertEqual(r.finding.quality.n, 8)
        self.assertAlmostEqual(r.finding.quality.value, -0.5)

    def test_where_the_clock_has_no_answers_other_tasks_stand_beside_it(self):
        text = FASTER.replace('"slow")', '"slow", workload="1K")')
        self.put([scored("fast", 300, 400, task="needle"), scored("slow", 300, 400, task="needle")],
                 "focus/table_5/scores")
        r = self.judged(text, [unscored("fast", self.FAST, task="1K"), unscored("slow", self.SLOW, task="1K")])
        self.assertEqual(r.verdict, "SUPPORTED", r.reason)
        self.assertIn("settings on needle kept", r.reason)

    def test_a_task_of_the_clock_without_any_score_is_counted(self):
        self.put([scored("fast", 300, 400), scored("slow", 300, 400)], "focus/table_5/scores")
        r = self.judged(FASTER, [scored("fast", 8, 8, self.FAST), scored("slow", 8, 8, self.SLOW),
                                 unscored("fast", self.FAST, task="chat"), unscored("slow", self.SLOW, task="chat")])
        self.assertEqual(r.verdict, "SUPPORTED")
        self.assertIn("1 of 2 sweep points without one", r.reason)

    def test_a_growing_speed_has_the_score_of_its_end(self):
        text = """
@claim(**SPEED)
def c(f):
    return growth(f, "tokens_per_second", "fast", "slow", "batch_size", 1, 32)
"""
        timed = [scored(label, 8, 8, seconds, batch) for batch in (1, 32)
                 for label, seconds in (("fast", self.FAST if batch == 32 else self.SLOW), ("slow", self.SLOW))]
        self.put([scored("fast", 300, 400, batch=8), scored("slow", 300, 400, batch=8)], "focus/table_5/scores")
        r = self.judged(text, timed)
        self.assertEqual((r.verdict, r.finding.quality.n), ("SUPPORTED", 400))


class Judging(Made):
    def test_the_whole_interval_decides(self):
        self.assertEqual(judge_interval((1.1, 1.2), Region(1, open=True)), HELD)
        self.assertEqual(judge_interval((1.0, 1.2), Region(1, open=True)), UNDECIDED)
        self.assertEqual(judge_interval((0.8, 1.0), Region(1, open=True)), FAILED)
        self.assertEqual(judge_interval((0.8, 1.0), Region(1)), UNDECIDED)
        self.assertEqual([tone(v) for v in ("NOT SUPPORTED", "SUPPORTED", "OPEN", "PARTLY")],
                         ["bad", "good", "mid", "mid"])

    def test_a_score_that_is_worse_makes_a_speed_partly(self):
        fast, slow = (1.0, 1.01, 0.99), (2.0, 2.02, 1.98)
        kept = self.judged(FASTER, [scored("fast", 180, 200, fast), scored("slow", 180, 200, slow)])
        self.assertEqual(kept.verdict, "SUPPORTED", kept.reason)
        self.assertAlmostEqual(kept.estimate.value, 2, delta=0.05)
        self.assertIn("score of the same rows kept: 0 [", kept.reason)
        worse = self.judged(FASTER, [scored("fast", 120, 200, fast), scored("slow", 180, 200, slow)])
        self.assertEqual(worse.verdict, "PARTLY")
        self.assertIn("score of the same rows lower: -0.300 [", worse.reason)
        few = self.judged(FASTER, [scored("fast", 9, 12, fast), scored("slow", 9, 12, slow)])
        self.assertEqual((few.verdict, few.score), ("SUPPORTED", "open"))
        self.assertIn("score of the same rows not determined", few.reason)
        none = self.judged(FASTER, [unscored("fast", [1.0, 1.01, 0.99]), unscored("slow", [2, 2.02, 1.98])])
        self.assertEqual((none.verdict, none.score, none.score_text), ("SUPPORTED", "", ""))
        self.assertIn("no score of these settings", none.reason)
        half = self.judged(FASTER, [scored("fast", 180, 200, fast), scored("slow", 180, 200, slow),
                                    unscored("fast", list(fast), 8), unscored("slow", list(slow), 8)])
        self.assertEqual(half.verdict, "SUPPORTED")
        self.assertIn("1 of 2 sweep points without one", half.reason)
        wrong = self.judged(FASTER, [scored("fast", 180, 200, slow), scored("slow", 180, 200, fast)])
        self.assertEqual(wrong.verdict, "NOT SUPPORTED")

    def test_points_are_pooled_geometrically(self):
        rows = [unscored("fast", [1.0, 1.01, 0.99], 1), unscored("slow", [4.0, 4.01, 3.99], 1),
                unscored("fast", [2.0, 2.01, 1.99], 8), unscored("slow", [2.01, 1.99, 2.0], 8)]
        r = self.judged(FASTER, rows)
        self.assertAlmostEqual(r.estimate.value, 2, delta=0.02)
        self.assertEqual([name for name, _ in r.finding.points],
                         ["tiny, word_problem, batch 1", "tiny, word_problem, batch 8"])
        least = FASTER.replace('return speed(f, "fast", "slow")', 'return smallest(speed(f, "fast", "slow"))')
        self.assertEqual(self.judged(least, rows).verdict, "OPEN")
        best = FASTER.replace('return speed(f, "fast", "slow")', 'return largest(speed(f, "fast", "slow"))')
        of_best = self.judged(best, rows).estimate
        alone = self.judged(FASTER, rows[:2]).estimate
        self.assertLess(of_best.low, alone.low)  # corrected for their number
        self.assertGreater(of_best.high, alone.high)

    def test_times_of_items_add_the_spread_over_prompts(self):
        seconds = {"fast": [1.0, 1.0, 1.0, 2.0, 1.5, 0.5, 0.9, 1.1], "slow": [2.0, 3.0, 1.5, 2.5, 3.5, 2.2, 1.8, 2.6]}
        tokens = {"fast": [5, 6, 7, 8, 5, 6, 7, 9], "slow": [5, 5, 7, 7, 6, 6, 8, 8]}
        rows = []
        for label, of_items in seconds.items():
            row = scored(label, 8, 8, (9.0, 9.1, 8.9))
            row["items"]["seconds"], row["items"]["output_tokens"] = [[s] for s in of_items], tokens[label]
            rows.append(row)
        alone = self.judged(FASTER, [unscored(label, [9.0, 9.1, 8.9]) for label in seconds]).estimate
        both = self.judged(FASTER, rows).estimate
        # The jackknife over prompts, a method of its own: standard error of the log of the ratio.
        def rate(label, left_out):
            keep = [i for i in range(8) if i != left_out]
            return sum(tokens[label][i] for i in keep) / sum(seconds[label][i] for i in keep)
        logs = [math.log(rate("fast", i) / rate("slow", i)) for i in range(8)]
        error = math.sqrt(7 / 8 * sum((v - sum(logs) / 8) ** 2 for v in logs))
        wider = math.sqrt(math.log(both.high / both.value) ** 2 - math.log(alone.high / alone.value) ** 2)
        self.assertAlmostEqual(wider / (stats.t.ppf(0.975, 7) * error), 1, delta=0.1)
        self.assertIn("over prompts too", both.how)
        large = [scored(label, 8, 8, (9.0, 9.1, 8.9), batch=8) for label in seconds]
        self.assertIn("the interval is over repetitions, not over prompts", self.judged(FASTER, large).reason)

    def test_one_timing_decides_nothing(self):
        r = self.judged(FASTER, [unscored("fast", [1.0]), unscored("slow", [4.0])])
        self.assertEqual((r.verdict, r.size), ("OPEN", "no size published"))

    RIVAL = """
@claim(rivals=("k", "l"), **SPEED)
def c(f):
    return speed(f, "fast", "slow")


@control(**SPEED)
def k(f):
    return speed(f, "cache", "slow")


@control(**SPEED)
def l(f):
    return speed(f, "bold", "slow")
"""

    def test_a_simpler_method_has_a_column_and_no_verdict(self):
        """The method takes 1 second, the baseline 2. A cache of 0.8 seconds makes it 0.8 times as fast, and leaves the
        verdict alone; one that answers a third less is not at its score."""
        def rows(cache, bold_right=120):
            return [scored("fast", 180, 200, (1.0, 1.02, 0.99))] + [
                scored(label, right, 200, (s, s * 1.01, s * 0.99)) for label, s, right in (
                    ("slow", 2.0, 180), ("cache", cache, 180), ("bold", 0.1, bold_right))]
        r = self.judged(self.RIVAL, rows(0.8))
        self.assertEqual((r.verdict, r.simplest), ("SUPPORTED", "cache"))
        self.assertAlmostEqual(r.over_simplest.value, 0.8, delta=0.01)
        self.assertIn("; over the simplest method at its score, cache: 0.797 [", r.reason)
        self.assertIn("simpler methods left out, because their score is lower or missing: bold", r.reason)
        both = self.judged(self.RIVAL, rows(0.8, 180))
        self.assertEqual((both.verdict, both.simplest), ("SUPPORTED", "bold"))
        self.assertAlmostEqual(both.over_simplest.value, 0.1, delta=0.001)
        # Chosen of two: at 1 - 0.05 / 2, by scipy's own quantiles for two degrees of freedom.
        alone = stats.t.ppf(0.975, 2) / stats.t.ppf(1 - 0.0125, 2)
        self.assertAlmostEqual(math.log(r.over_simplest.high / r.over_simplest.value) /
                               math.log(both.over_simplest.high / both.over_simplest.value), alone, delta=0.05)
        absent = self.judged(self.RIVAL, rows(0.8)[:2])
        self.assertEqual((absent.verdict, absent.simplest_text), ("SUPPORTED", ""))
        self.assertIn("simpler methods without rows: cache, bold", absent.reason)

    def test_a_rival_of_another_comparison_is_refused(self):
        for a, b, says in (('"cache", "slow"', '"cache", "other"', "measures something else"),
                           ('"cache", "slow"', '"cache", "slow", "canvas_tokens_per_second"', "measures something else"),
                           ('"cache", "slow"', '"cache", "slow", workload="story"', "measures something else"),
                           ('speed(f, "cache", "slow")', 'level(f, "tps", label="cache")', "does not compare two sides"),
                           ('speed(f, "cache", "slow")', 'growth(f, "tokens_per_second", "cache", "slow", '
                            '"batch_size", 1, 8)', "measures something else")):
            with self.assertRaisesRegex(UserError, says):
                self.register(self.RIVAL.replace(a, b))
        kind = self.RIVAL.replace('@claim(rivals=("k", "l"), **SPEED)', '@claim(rivals=("k", "l"), **SCORE)')
        with self.assertRaisesRegex(UserError, "only speeds, capacities and counts"):
            self.register(kind)

    def test_a_claim_that_no_model_of_its_file_can_meet_is_refused(self):
        """A folder of 1000 bytes of weights cannot hold a hundred million parameters."""
        write(f"{self.folder}/models/little/config.json", "{}")
        write(f"{self.folder}/models/little/model.safetensors", "x" * 1000)
        write(f"{self.folder}/focus/table_5.toml", ARTIFACT.replace(
            "[scale.full]", '[[scale.tiny.model]]\npath = "../models/little"\n[scale.full]', 1))
        large = FASTER.replace("**SPEED", '**{**SPEED, "regime": presumes("it is large", "parameters", '
                               'at_least(1e8, "us"))}')
        with self.assertRaisesRegex(UserError, "which no model of table_5.toml at the scale tiny meets"):
            self.register(large)
        self.register(large.replace("at_least(1e8", "at_least(1e2"))
        self.register(large.replace('**{**SPEED,', '**{**SPEED, "scales": ("full",),'))

    def test_one_that_does_not_hold_says_whether_its_controls_do(self):
        text = """
@claim(controls=("k",), **SPEED)
def c(f):
    return speed(f, "fast", "slow")


@control(**{**COUNT, "statement": "The cache reads less."})
def k(f):
    return ratio(f, "redundancy", "cache", "slow")
"""
        rows = [unscored(label, [s, s * 1.01, s * 0.99]) for label, s in
                (("fast", 3.0), ("slow", 2.0), ("cache", 1.0))]
        rows[2]["metrics"]["redundancy"] = 2
        self.assertIn("; control: The cache reads less: SUPPORTED, 0.500", self.judged(text, rows).reason)
        self.assertIn("; no control", self.judged(FASTER, rows).reason)

    def test_counts_decide_for_their_prompts(self):
        text = '\n@claim(**COUNT)\ndef c(f):\n    return ratio(f, "redundancy", "fast", "slow")\n'
        rows = [row_of("fast", [1.0]), row_of("slow", [1.0])]
        for count, verdict in ((2, "SUPPORTED"), (3.9, "SUPPORTED"), (4, "NOT SUPPORTED"), (4.1, "NOT SUPPORTED")):
            rows[0]["metrics"]["redundancy"] = count
            self.assertEqual(self.judged(text, rows).verdict, verdict, count)
        self.assertIn("without an interval over others", self.judged(text, rows).reason)

    def test_a_count_with_a_worse_score_is_partly(self):
        text = ('\n@claim(**{**COUNT, "quality": at_least(-0.02, "us")})\ndef c(f):\n'
                '    return speed(f, "fast", "slow", "nfe")\n')
        few, many = scored("fast", 180, 200), scored("slow", 180, 200)
        for row, forwards in ((few, 50), (many, 100)):
            row["metrics"]["nfe"], row["provenance"]["nfe"] = forwards, "counted"
        self.assertEqual(self.judged(text, [few, many]).verdict, "SUPPORTED")
        worse = scored("fast", 120, 200)
        worse["metrics"]["nfe"], worse["provenance"]["nfe"] = 50, "counted"
        self.assertEqual(self.judged(text, [worse, many]).verdict, "PARTLY")

    def test_half_of_the_published_effect_is_what_counts_as_one(self):
        text = '\n@claim(published=Published({}, "T"), **SCORE)\ndef c(f):\n    return score(f, "fast", "slow")\n'
        rows = [scored("fast", 100, 200), scored("slow", 100, 200)]
        none = self.judged(text.format(0.3), rows)
        self.assertEqual(none.verdict, "SMALLER")
        self.assertIn("smaller than published: half of that effect, 15.0 pp, is excluded", none.reason)
        beyond = self.judged(text.format(0.3), [scored("fast", 60, 200), scored("slow", 100, 200)])
        self.assertEqual(beyond.verdict, "NOT SUPPORTED")
        self.assertIn("smallest detectable difference: ", none.reason)
        half = none.estimate.high - none.estimate.value
        self.assertAlmostEqual(none.p, 2 * stats.norm.sf(stats.norm.ppf(0.975) * 0.15 / half))
        self.assertEqual(self.judged(text.format(0.01), rows).verdict, "OPEN")
        clear = self.judged(text.format(0.5), [scored("fast", 150, 200), scored("slow", 100, 200)])
        self.assertEqual((clear.verdict, clear.size), ("SUPPORTED", "outside"))
        self.assertEqual(self.judged(text.format(0.25), [scored("fast", 150, 200), scored("slow", 100, 200)]
                                     ).size, "inside")

    def test_scores_are_means_of_tasks_each_item_once(self):
        text = '\n@claim(**SCORE)\ndef c(f):\n    return score(f, "fast", "slow")\n'
        rows = [scored("fast", 40, 40, task="list"), scored("slow", 20, 40, task="list"),
                scored("fast", 5, 10, task="sum"), scored("slow", 5, 10, task="sum")]
        r = self.judged(text, rows)
        self.assertAlmostEqual(r.estimate.value, 0.25)  # not 20 of 50
        items = text.replace('"slow")', '"slow", by_item=True)')
        self.assertAlmostEqual(self.judged(items, rows).estimate.value, 0.4)
        again = rows + [scored("fast", 40, 40, task="list", batch=8),
                        scored("slow", 20, 40, task="list", batch=8)]
        self.assertEqual(self.judged(text, again).estimate.n, 50)

    def test_answers_and_likelihoods_are_never_averaged(self):
        def rows(of_text):
            story = {"family": "story", "items": 40, "hash": "hash of story", "judge": "tiny-ar"}
            return [scored("fast", 40, 40, (1.0, 1.01, 0.99)), scored("slow", 30, 40, (2.0, 2.02, 1.98)),
                    scored("fast", of_text, 40, (1.0, 1.01, 0.99), task="story", workload=dict(story)),
                    scored("slow", 40, 40, (2.0, 2.02, 1.98), task="story", workload=dict(story))]
        text = '\n@claim(**SCORE)\ndef c(f):\n    return score(f, "fast", "slow"{})\n'
        self.assertAlmostEqual(self.judged(text.format(""), rows(10)).estimate.value, 0.25)
        story = self.judged(text.format(', workload="story"'), rows(10))
        self.assertAlmostEqual(story.estimate.value, -0.75)
        r = self.judged(FASTER, rows(10))
        self.assertEqual((r.verdict, r.finding.quality.value), ("PARTLY", -0.75))

    def test_items_that_were_drawn_otherwise_are_left_out(self):
        text = '\n@claim(**SCORE)\ndef c(f):\n    return score(f, "fast", "slow")\n'
        rows = [scored("fast", 90, 200, task="equation"), scored("slow", 80, 200, task="equation")]
        r = self.judged(text, rows)
        self.assertEqual((r.estimate.n, r.estimate.value), (80, 0))
        self.assertIn("items from the 81st on left out", r.reason)
        with unittest.mock.patch("unmask.claims.frame.REDRAWN", "2025-01-01T00:00:00Z"):
            self.assertEqual(self.judged(text, rows).estimate.n, 200)

    def test_growth_compares_ratios(self):
        text = ('\n@claim(**SPEED)\ndef c(f):\n    return growth(f, "tokens_per_second", "fast", "slow", '
                '"batch_size", 1, 8)\n')
        rows = [row_of("fast", [1.0, 1.01, 0.99], 1), row_of("slow", [2.0, 2.02, 1.98], 1),
                row_of("fast", [1.0, 1.01, 0.99], 8), row_of("slow", [6.0, 6.06, 5.94], 8)]
        self.assertAlmostEqual(self.judged(text, rows).estimate.value, 3, delta=0.05)

    def test_speed_at_equal_score_takes_rivals_that_score_as_well(self):
        text = ('\n@claim(**SPEED)\ndef c(f):\n    return at_equal_score(f, "fast", ("loose", "strict"))\n')
        rows = [scored("fast", 180, 200, (1.0, 1.01, 0.99)), scored("loose", 100, 200, (0.5, 0.51, 0.49)),
                scored("strict", 180, 200, (2.0, 2.02, 1.98))]
        r = self.judged(text, rows)
        self.assertEqual(r.finding.shown, "fast / strict")
        self.assertEqual(r.finding.quality.n, 100)  # the other half chose
        by_setting = text.replace('("loose", "strict")', '({"label": "plain", "threshold": 0.5},'
                                  ' {"label": "plain", "threshold": 0.9})')
        swept = [rows[0]] + [{**row, "label": "plain", "params": {"threshold": value}}
                             for row, value in zip(rows[1:], (0.5, 0.9))]
        r = self.judged(by_setting, swept)
        self.assertAlmostEqual(r.estimate.value, 2, delta=0.05)
        self.assertEqual(r.finding.quality.n, 100)
        bad = self.judged(text, rows[:2] + [scored("strict", 100, 200, (2.0, 2.02, 1.98))])
        self.assertIn("needs a setting of the simpler method that scores as well", bad.reason)

    def test_a_speed_that_falls_all_along(self):
        text = ('\n@claim(**{**SPEED, "bound": below(1, "paper")})\ndef c(f):\n'
                '    return falling(f, "tokens_per_second", ("one", "two", "three"))\n')

        def rows(*seconds):
            return [row_of(label, [s, s * 1.001, s * 0.999]) for label, s in
                    zip(("one", "two", "three"), seconds)]
        self.assertAlmostEqual(self.judged(text, rows(1.0, 2.0, 2.5)).estimate.value, 0.8, delta=0.01)
        self.assertEqual(self.judged(text, rows(1.0, 2.0, 1.5)).verdict, "NOT SUPPORTED")

    def test_outside_its_regime_a_claim_is_not_applicable(self):
        slow = FASTER.replace("**SPEED", '**{**SPEED, "regime": presumes("it is slow", "redundancy", '
                              'at_least(5, "us"), label="slow")}')
        rows = [row_of("fast", [1.0, 1.01, 0.99]), row_of("slow", [2.0, 2.02, 1.98])]
        none = self.judged(slow, rows)
        self.assertEqual(none.verdict, "NOT APPLICABLE")
        self.assertIn("presumes that it is slow; here computed/unmasked is 4, bound >= 5", none.reason)
        rows[1]["metrics"]["redundancy"] = 6
        self.assertEqual(self.judged(slow, rows).verdict, "SUPPORTED")
        lacking = slow.replace('"redundancy"', '"no_such_metric"')
        self.assertIn("needs no_such_metric in the rows, for the precondition",
                      self.judged(lacking, rows).reason)
        tasks = slow.replace("presumes(", "presumes_of_tasks(")
        rows += [row_of("fast", [9.0, 9.01], 1, "story"), row_of("slow", [1.0, 1.01], 1, "story")]
        r = self.judged(tasks, rows)
        self.assertEqual(len(r.finding.points), 1)  # stories are not slow, so they are left out
        gpu = FASTER.replace("**SPEED", '**{**SPEED, "regime": presumes_a_gpu("it is a GPU")}')
        cpu = self.judged(gpu, rows[:2])
        self.assertEqual((cpu.verdict, cpu.estimate, cpu.measured_text), ("NOT RUN", None, ""))
        self.assertIn("needs a GPU: it is a GPU; on this CPU", cpu.reason)
        self.assertTrue(cpu.reason.endswith("; on this CPU fast / slow = 2, n = 3 repetitions"), cpu.reason)
        clock = FASTER.replace("**SPEED", '**{**SPEED, "regime": presumes_of_the_clock("it is slow", "redundancy", '
                               'at_least(50, "us"), label="slow")}')
        self.assertEqual(self.judged(clock, rows).verdict, "CLOCK DIFFERS")

    def test_what_an_assumed_clock_does_not_give_is_the_clocks(self):
        virtual = FASTER.replace("**SPEED", '**{**SPEED, "kind": "capacity", "quality": None, "clock": "virtual"}')
        rows = [unscored("fast", [2.0, 2.01, 1.99]), unscored("slow", [1.0, 1.02, 0.99])]
        r = self.judged(virtual, rows)
        self.assertEqual(r.verdict, "CLOCK DIFFERS")
        self.assertIn("; the virtual clock does not reproduce it", r.reason)
        self.assertEqual(self.judged(virtual, rows[1:] + [unscored("fast", [0.5, 0.51, 0.49])]).verdict, "SUPPORTED")

    def test_what_a_clock_was_set_by_is_counted_nowhere(self):
        rows = [row_of("fast", [1.0, 1.01, 0.99]), row_of("slow", [2.0, 2.02, 1.98])]
        text = FASTER + FASTER.replace("@claim(**SPEED)", '@calibration(**{**SPEED, "calibrates": "the clock"})'
                                       ).replace("def c", "def k")
        self.put(rows)
        register = self.register(text)
        self.assertEqual([(c.id, c.role) for c in register.claims + register.controls],
                         [("c", "claim"), ("k", "calibration")])
        said = self.run_command()[1]
        self.assertIn("0 INCONCLUSIVE, 0 NOT RUN, of 1 claims", said)
        self.assertIn("0 INCONCLUSIVE, 0 NOT RUN, of 1 calibrations", said)
        self.assertNotIn("controls\n", said.partition("of 1 claims")[2])

    def test_an_open_claim_says_what_is_shown_and_what_would_close_it(self):
        text = '\n@claim(**{**SCORE, "bound": at_least(-0.02, "us")})\ndef c(f):\n    return score(f, "fast", "slow")\n'
        r = self.judged(text, [scored("fast", 97, 200), scored("slow", 100, 200)])
        self.assertEqual(r.verdict, "OPEN")
        loss = 100 * -r.estimate.low
        self.assertIn(f"shown: a loss of at most {loss:.1f} pp", r.reason)
        # Half a point to the bound, in standard errors of 2.80, by the width of this interval.
        error = (r.estimate.high - r.estimate.low) / 2 / stats.norm.ppf(0.975)
        n = 200 * ((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * error / 0.005) ** 2
        self.assertIn(f"{math.ceil(n)} items would decide it at the observed effect", r.reason)
        same = text.replace('at_least(-0.02, "us")', 'above(0, "us")')
        self.assertIn("no number of items decides a difference of 0", self.judged(same, [
            scored("fast", 100, 200), scored("slow", 100, 200)]).reason)

    def test_a_precondition_may_be_a_ratio_and_one_of_several(self):
        text = ('def seconds_of_a_token(row):\n'
                '    return row["metrics"]["wall_seconds"] / row["metrics"]["committed"]\n' +
                FASTER.replace("**SPEED", '**{**SPEED, "regime": (presumes("it is short", "redundancy", '
                               'at_most(5, "us"), label="slow"), presumes_ratio("its tokens cost the same", '
                               'seconds_of_a_token, at_most(1.25, "us"), "fast", "slow"))}'))
        rows = [row_of("fast", [1.0, 1.01, 0.99]), row_of("slow", [2.0, 2.02, 1.98]),
                row_of("fast", [8.0, 8.01], 1, "story"), row_of("slow", [9.0, 9.01], 1, "story")]
        for row, seconds, count in zip(rows, (3.0, 4.0, 9.0, 6.0), (2, 4, 3, 4)):
            row["metrics"]["wall_seconds"], row["metrics"]["committed"] = seconds, count
        r = self.judged(text, rows)  # a token costs 1.5 and 1, of stories 3 and 1.5
        self.assertEqual(r.verdict, "NOT APPLICABLE")
        self.assertIn("presumes that its tokens cost the same; here seconds_of_a_token is 1.750 times as much, "
                      "bound <= 1.25", r.reason)
        for row in rows[::2]:
            row["metrics"]["committed"] *= 2
        self.assertEqual(self.judged(text, rows).verdict, "SUPPORTED")  # without a score
        self.assertIn("needs seconds_of_a_token in the rows, for the precondition that its tokens cost the same",
                      self.judged(text, [rows[0], rows[3]]).reason)  # no task of both
        rows[1]["metrics"]["redundancy"] = 16
        self.assertIn("presumes that it is short", self.judged(text, rows).reason)

    def test_what_was_not_measured_says_what_it_needs(self):
        r = self.judged(FASTER, [row_of("fast", [1.0])])
        self.assertIn("needs rows with label = slow", r.reason)
        bad = row_of("slow", [1.0], verdict="INVALID", reason="counts do not close")
        self.assertIn("slow is INVALID: counts do not close", self.judged(FASTER, [bad]).reason)
        full = self.register(FASTER.replace("**SPEED", '**{**SPEED, "scales": ("full",)}'))
        (_, r), = judge_all(full.claims, full, Evidence(f"{self.folder}/results"), "tiny")
        self.assertIn("no rows in", r.reason)
        self.assertIn("needs memory_gb:64, cuda, weights:GSAI-ML/LLaDA-8B, benchmark:gsm8k", r.reason)

    def test_rows_measured_after_a_look_are_not_read(self):
        self.put([scored("fast", 0, 200), scored("slow", 200, 200)],
                 "focus/table_5/tiny/more/items4_repetitions1")
        r = self.judged(FASTER, [row_of("fast", [1.0, 1.01]), row_of("slow", [2.0, 2.02])])
        self.assertNotIn("200 items", r.reason)

    def test_all_claims_together_are_corrected_for_their_number(self):
        def result(p, verdict="SUPPORTED"):
            return None, judge.Result(verdict=verdict, p=p)
        judged = [result(p) for p in (0.001, 0.012, 0.03, 0.2, None)] + [result(0.9, "OPEN")]
        judge.correct(judged)
        # 5 p values: 0.01, 0.02, 0.03, 0.04, 0.05 are the steps.
        self.assertEqual([r.after_correction for _, r in judged],
                         ["holds", "holds", "holds", "no longer", "", "open"])

    def test_p_and_the_smallest_effect_are_those_of_the_interval(self):
        r = self.judged('\n@claim(**SCORE)\ndef c(f):\n    return score(f, "fast", "slow")\n',
                        [scored("fast", 120, 200), scored("slow", 100, 200)])
        half = r.estimate.value - r.estimate.low
        self.assertAlmostEqual(r.p, 2 * stats.norm.sf(stats.norm.ppf(0.975) * r.estimate.value / half))
        e = relation.Estimate(2.0, 2.0 / 1.1, 2.0 * 1.1)
        wanted = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / stats.norm.ppf(0.975)
        self.assertAlmostEqual(power.smallest_effect(e, True), math.exp(wanted * math.log(1.1)))

    def test_the_power_table(self):
        # Connor's approximation: at this n the test rejects 80 times in 100.
        n = power.items_for(0.02, 0.1)
        error = math.sqrt((0.1 - 0.02 ** 2) / n)
        least = stats.norm.ppf(0.975) * math.sqrt(0.1 / n)
        self.assertAlmostEqual(stats.norm.cdf((0.02 - least) / error), 0.8, delta=0.001)
        self.assertLess(power.items_for(0.1, 0.1), power.items_for(0.05, 0.1))
        self.assertEqual(int(power.repeated(0.05, 0.03).split()[0]), 5)


class Registering(Made):
    def hash_of(self, text):
        return self.register(text).claims[0].hash

    def test_a_claim_that_tests_something_else_has_another_hash(self):
        first = self.hash_of(FASTER)
        self.assertEqual(self.hash_of(FASTER), first)
        self.assertEqual(self.hash_of(FASTER.replace("(**SPEED", '(note="n", **SPEED')), first)
        for change in (FASTER.replace('"slow")', '"slower")'),
                       FASTER.replace("(**SPEED", '(published=Published(2.0, "T"), **SPEED'),
                       FASTER.replace("**SPEED", '**{**SPEED, "bound": above(2, "us")}')):
            self.assertNotEqual(self.hash_of(change), first, change)
        named = '\nSLOW = "slow"\n' + FASTER.replace('"slow"', "SLOW")
        self.assertNotEqual(self.hash_of(named), self.hash_of(named.replace('SLOW = "slow"', 'SLOW = "x"')))

    def test_a_claim_changed_after_its_rows_says_so(self):
        rows = [row_of("fast", [1.0, 1.01]), row_of("slow", [2.0, 2.02])]
        claim_hash = self.hash_of(FASTER)
        for since, words in (("2025-12-31T00:00:00Z", "before its rows"),
                             ("2026-01-02T00:00:00Z", "after its rows")):
            record = {"focus/c": {"hash": claim_hash, "since": since}}
            self.assertEqual(self.judged(FASTER, rows, since=record).registered, words)
        changed = FASTER.replace("**SPEED", '**{**SPEED, "bound": above(2, "us")}')
        self.assertEqual(self.judged(changed, rows, since=record).registered, "not registered")

    def test_mistakes_are_refused_with_their_place(self):
        for text, says in ((FASTER.replace("(**SPEED", '(lable="x", **SPEED'), "lable"),
                           (FASTER.replace("**SPEED", '**{**SPEED, "kind": "sped"}'), "did you mean 'speed'"),
                           (FASTER + FASTER, "twice"),
                           (FASTER.replace("**SPEED", "**{k: v for k, v in SPEED.items() if k != 'tasks'}"),
                            "'tasks'"),
                           (FASTER.replace("**SPEED", '**{**SPEED, "artifacts": ("table_7",)}'), "does not exist"),
                           (FASTER.replace("(**SPEED", '(controls=("k",), **SPEED'), "'k'"),
                           (FASTER + FASTER.replace("@claim", "@control").replace("def c", "def k"),
                            "a control that no claim names"),
                           ("x = = 1\n", "SyntaxError"), ("no_such_name\n", "NameError")):
            with self.assertRaises(UserError) as caught:
                self.register(text)
            self.assertIn(says, str(caught.exception), text)
            self.assertIn("focus.py", str(caught.exception))


class Command(Made):
    def setUp(self):
        super().setUp()
        self.put([row_of("fast", [2.0, 2.1], 1), row_of("slow", [1.0, 1.1], 1)])

    def test_a_table_of_claims_and_files_beside_the_rows(self):
        self.register(FASTER)
        code, text = self.run_command("--save")
        self.assertEqual(code, 4)
        for words in ("Register ", "| id | paper |", "| c | focus | s (Table 5) | tiny | NOT SUPPORTED |",
                      "0 SUPPORTED, 0 SUPPORTED WITH LIMITS, 0 SMALLER THAN PUBLISHED, 1 NOT SUPPORTED, "
                      "0 CLOCK DIFFERS, 0 NOT APPLICABLE, 0 INCONCLUSIVE, 0 NOT RUN, "
                      "of 1 claims",
                      "| not declared |", "> 1 (paper)"):
            self.assertIn(words, text)
        overview, page = (self.text_of(f"results/{name}") for name in ("claims.md", "claims/focus.md"))
        # Of 1 / 2 and 1.1 / 2.1: the mean of logs, and Student's t of one degree, 12.706.
        self.assertIn("| [s](claims/focus.md#c) | NOT SUPPORTED | 0.512 [0.381, 0.688], n = 2 repetitions | – |", overview)
        self.assertIn("1 NOT SUPPORTED, of 1 claims", page)
        self.assertIn('<a id="c"></a>\n## s\n\n**NOT SUPPORTED.**', page)
        self.assertIn("| ratio of speeds | 0.512 [0.381, 0.688], n = 2 repetitions | above 1 (paper) | – |", page)
        entry = json.loads(self.run_command("--format", "json")[1])[0]
        self.assertEqual((entry["role"], entry["tone"], len(entry["register"])), ("claim", "bad", 64))
        self.assertTrue(entry["regime"].startswith("no precondition, because"))

    def test_claims_are_selected_by_paper_claim_and_artifact(self):
        self.register(FASTER)
        for name in ("focus", "focus/c", "focus/table_5"):
            self.assertEqual(self.run_command("--only", name)[0], 4)
        with self.assertRaisesRegex(UserError, "unknown paper or claim or artifact"):
            self.run_command("--only", "focus/d")
        self.assertEqual(self.run_command("--paper", "optimus")[0], 0)
        self.assertIn("1 claims; 0 controls", self.run_command("--list")[1])
        self.assertEqual(self.run_command("--timed")[1], f"{self.folder}/focus/table_5.toml\n")
        self.assertEqual(self.run_command("--timed", "--scale", "scores")[1], "")  # nobody reads their times

    def test_changed_claims_are_dated_and_others_keep_their_date(self):
        self.register(FASTER + FASTER.replace("def c", "def d"))
        self.assertIn("2 of 2 claims", self.run_command("--register")[1])
        path = f"{self.folder}/claims/register.json"
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        record["focus/c"]["since"] = "2020-01-01T00:00:00Z"
        write(path, json.dumps(record))
        self.register(FASTER + FASTER.replace("def c", "def d").replace('"slow")', '"slower")'))
        self.assertIn("1 of 2 claims", self.run_command("--register")[1])
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["focus/c"]["since"], "2020-01-01T00:00:00Z")
        self.assertIn("| holds | – | yes |", self.run_command()[1])

    def test_one_is_explained(self):
        self.register(FASTER.replace("(**SPEED", '(note="as expected", published=Published(2.0, "T"), **SPEED'))
        code, text = self.run_command("--explain", "c")
        self.assertEqual(code, 0)
        for words in ("focus/c: NOT SUPPORTED", "claim          s", "source         Table 5", "bound          > 1, set by paper",
                      "quality        >= -0.02, set by us: two points", "precondition   no precondition, because made up",
                      "| tiny, word_problem, batch 1 | 0.512 [", "control        none", "note           as expected",
                      "focus/table_5.toml --scale tiny -o ", "function   "):
            self.assertIn(words, text)
        with self.assertRaisesRegex(UserError, "unknown claim 'd'"):
            self.run_command("--explain", "d")

    def test_what_is_not_there_is_said(self):
        with self.assertRaisesRegex(EnvironmentFault, "claims does not exist"):
            self.run_command()
        self.register(FASTER)
        with self.assertRaisesRegex(EnvironmentFault, "none does not exist"):
            claims.main([f"{self.folder}/none", "--experiments-dir", self.folder])
        with self.assertRaisesRegex(UserError, "unknown format"):
            self.run_command("--format", "mdd")


class Asked:
    """Stands for a Frame: keeps the settings of the two sides that a claim compares."""

    def __init__(self, claim):
        with contextlib.suppress(NeedsRows):
            claim.function(self)

    def pairs(self, of, over, **_):
        self.of, self.over = settings_of(of), settings_of(over)
        raise NeedsRows


# What takes one of several points where a paper pools them.
PICKS = {"smallest", "largest", "min", "max"}


class Shipped(unittest.TestCase):
    """The rules that the claims of experiments/claims keep, and the verdicts that results/tiny states."""

    @classmethod
    def setUpClass(cls):
        cls.before = os.getcwd()
        os.chdir(ROOT)
        cls.register = read_register("experiments/claims")
        cls.both = cls.register.claims + cls.register.controls

    @classmethod
    @functools.cache
    def judged(cls):
        """What the archive says of claims and controls, each with its result."""
        evidence = repeats.evidence_of("results/tiny", claims.read_since("experiments/claims"))
        return (repeats.judge_campaigns(cls.register.claims, cls.register, evidence, "tiny"),
                repeats.controls_of(cls.register.controls, evidence, "tiny"))

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls.before)

    def test_there_are_claims_of_every_paper_and_controls_beside_them(self):
        self.assertGreaterEqual(len(self.register.claims), 150)
        self.assertGreaterEqual(len(self.register.controls), 60)
        for paper in ("ada_dlm", "focus", "focus_dllm", "optimus", "sparse_dllm"):
            self.assertGreaterEqual(sum(c.paper == paper for c in self.register.claims), 30, paper)
        self.assertGreaterEqual(sum(c.paper == "registry" for c in self.register.claims), 15)
        for c in self.register.claims:
            self.assertNotIn("not in the paper", c.place, c.key)

    def test_every_one_says_what_it_rests_on(self):
        for c in self.both:
            for name in ("place", "statement", "quantity", "tasks", "items", "clock", "preset"):
                self.assertTrue(getattr(c, name), f"{c.key}: {name}")
            self.assertRegex(c.bound.by, r"^(paper|us)", c.key)
            self.assertTrue(c.preconditions or c.regime.startswith("no precondition, because "),
                            f"{c.key}: {c.regime}")
            for artifact in c.artifacts:
                for scale in c.scales:
                    self.assertIn(scale, experiments.scales_of(artifact), c.key)

    def test_no_speed_without_a_score(self):
        for c in self.both:
            if c.kind == "speed":
                self.assertIsNotNone(c.quality, c.key)
                self.assertFalse(c.clock.startswith("none"), c.key)
            else:  # how many forwards a text takes is worth nothing without its score either
                self.assertTrue(c.quality is None or c.kind == "count", c.key)

    def test_no_bound_of_faster_below_one(self):
        """A lower bound below 1 is there for a published ratio below 1 alone: a small loss."""
        for c in self.register.claims:
            one_sided = c.bound.low is not None and c.bound.high is None
            if c.kind in RATIOS and one_sided and c.bound.low < 1:
                self.assertIsNotNone(c.published, c.key)
                self.assertLess(c.published.value, 1, c.key)

    def test_a_gain_over_a_baseline_is_the_one_printed_for_that_baseline(self):
        """Optimus prints its gains over three baselines in one sentence. What a claim compares with is asked of its
        function, what is printed for that of the second transcription of the paper."""
        printed, baselines = {}, ("SGLang", "BD32", "AR")  # the first says BD32 behind its name
        for v in read_published("experiments/published/optimus.toml").values:
            for name in baselines:
                if re.search(f"Optimus over .*{name}", v.row):
                    printed.setdefault((v.artifact, name), set()).add(v.value)
                    break
        asked = 0
        for c in self.register.claims:
            if c.paper != "optimus" or c.kind not in ("speed", "capacity") or not c.published:
                continue
            sides, stem = Asked(c), os.path.splitext(os.path.basename(c.artifacts[0]))[0]
            label = "SGLang" if sides.over.get("serve_policy") == "block_sync" else sides.over["label"]
            name = label.removeprefix("LMDeploy-")
            if sides.of["label"] == "Optimus" and name in baselines:
                self.assertIn(c.published.value, printed[stem, name], c.key)
                asked += 1
        self.assertEqual(asked, 14)

    def test_a_number_made_of_printed_ones_is_their_ratio_or_difference(self):
        """A source that says how, "Table 3: 33.78 / 36.89", names numbers of the second transcription, but for
        means over tasks, which the papers do not print."""
        asked = 0
        for c in self.register.claims:
            found = re.search(r"([\d.]+) (/|-|of) ([\d.]+)", c.published.source if c.published else "")
            if not found:
                continue
            a, b = float(found[1]), float(found[3])
            made = (a - b) / 100 if found[2] == "-" else a / b
            digits = len(str(c.published.value).partition(".")[2])
            self.assertAlmostEqual(made, c.published.value, msg=c.key,
                                   delta=max(c.published.rounding, 0.5 * 10 ** -digits) + 1e-9)
            if c.paper != "registry" and "means of" not in c.published.source:
                printed = {v.value for v in read_published(f"experiments/published/{c.paper}.toml").values}
                self.assertTrue(a in printed and b in printed, c.key)
            asked += 1
        self.assertGreaterEqual(asked, 90)

    def test_points_are_pooled_but_where_the_paper_says_each(self):
        for c in self.both:
            source = textwrap.dedent(inspect.getsource(c.function)).partition("\ndef ")[2]
            called = {n.func.id for n in ast.walk(ast.parse("def " + source))
                      if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
            if called & PICKS and not c.is_control:
                self.assertTrue(c.each_because, f"{c.key} takes one point: each_because says why")

    def test_the_headlines_have_rivals_or_controls(self):
        for c in self.register.claims:
            if c.kind in ("speed", "capacity") and c.place.startswith("Abstract"):
                self.assertTrue(c.rivals or c.controls, c.key)

    def test_each_is_dated_as_it_stands(self):
        since = claims.read_since("experiments/claims")
        self.assertEqual(sorted(since), sorted(c.key for c in self.both))
        for c in self.both:
            self.assertEqual([since[c.key][of] for of in ("hash", "words")], [c.hash, c.words],
                             f"{c.key} has changed: unmask claims --register")

    def test_the_archive_gives_the_verdicts_that_the_repository_states(self):
        """The pages of claims, line by line: verdicts, numbers, reasons and the hash of the register."""
        judged, controls = self.judged()
        of_claims = claims.shown_controls(self.register, self.register.claims)
        shown = [(c, r) for c, r in controls if c in of_claims]
        made = pages.pages(judged, shown, self.register, "results/tiny")
        self.assertEqual(sorted(made), sorted(["claims.md", *(f"claims/{n}" for n in os.listdir("results/tiny/claims"))]))
        for name, text in made.items():
            with open(f"results/tiny/{name}", encoding="utf-8") as file:
                self.assertEqual(file.read().splitlines(), text.splitlines(), name)

    def test_no_claim_waits_for_what_its_own_file_sets(self):
        """How large models and how long prompts are the file says: a claim that presumes others is one of another scale."""
        judged, controls = self.judged()
        self.assertEqual([c.key for c, r in judged + controls if waits_for_its_file(r)], [])

    def test_what_the_readmes_say_of_them_is_so(self):
        judged, _ = self.judged()
        verdicts = [r.verdict for _, r in judged]
        with open("README.md", encoding="utf-8") as file:
            self.assertIn(f"of {len(verdicts)} claims.", " ".join(file.read().split()))
        bare = [c.id for c, r in judged if c.kind == "speed" and r.verdict == "SUPPORTED" and not r.finding.quality
                and not r.synthetic]  # weights without meaning write no text
        self.assertEqual(bare, [])


if __name__ == "__main__":
    unittest.main()
