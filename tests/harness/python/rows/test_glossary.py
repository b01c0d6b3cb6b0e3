# SPDX-License-Identifier: Apache-2.0
"""The lists of verdicts in the code are those of the glossary, and so are the words that tables show for them."""

import ast
import inspect
import os
import unittest

import made  # noqa: F401  (puts the package on the path)
from made import row_of
from types import SimpleNamespace

from unmask.claims import judge, weigh, words
from unmask.page import page
from unmask.rows import glossary, rows, verdicts
from unmask.rows.intervals import Estimate
from unmask.tables import ablation, compare, layout


def stored(of):
    return {name for name, _ in glossary.VERDICTS[of]}


def texts_in(function):
    """The texts that a function returns or assigns, without its docstring."""
    tree = ast.parse(inspect.getsource(function).lstrip())
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


class Lists(unittest.TestCase):
    def test_verdicts_of_rows(self):
        self.assertEqual(stored("row"), set(rows.VERDICTS))

    def test_verdicts_of_claims(self):
        self.assertEqual([name for name, _ in glossary.VERDICTS["claim"]],
                         ["SUPPORTED", "PARTLY", "SMALLER", "NOT SUPPORTED", "CLOCK DIFFERS", "NOT APPLICABLE", "OPEN",
                          "NOT RUN"])
        self.assertEqual(stored("claim"), set(weigh.VERDICTS))

    def test_verdicts_of_pairs_and_runs(self):
        said = {verdicts.against_margin(interval, (0.98, 1.02), below, above_it) for below, above_it in
                (("SLOWER", "FASTER"), ("WORSE", "BETTER")) for interval in ((0.5, 0.6), (1, 1.01), (2, 3), (0, 2), None)}
        self.assertEqual(said, stored("pair"))
        self.assertLessEqual({"SLOWER", "FASTER"}, texts_in(compare._ratio_cells) | texts_in(ablation.ratio_verdict))
        self.assertLessEqual(stored("runs"), texts_in(compare.comparison_text))

    def test_words_of_a_result(self):
        self.assertLessEqual(stored("published number"), texts_in(weigh.size))
        self.assertLessEqual(stored("correction"), texts_in(judge.correct))
        self.assertEqual(stored("quality"), texts_in(weigh._quality) & {"kept", "open", "worse"})
        self.assertEqual(stored("declared"), {"before its rows", "after its rows", "not registered"})

    def test_a_tone_knows_every_verdict(self):
        self.assertLessEqual(verdicts.GOOD | verdicts.BAD, set().union(*map(stored, glossary.VERDICTS)))


class Columns(unittest.TestCase):
    def test_every_metric_of_the_measured_rows_has_a_heading(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../results")
        found = {name for place in rows.places_below(os.path.join(folder, "tiny")).values() for row in place
                 for name in row["metrics"]}
        found |= {name for row in rows.read_rows(os.path.join(folder, "epyc-2core", "quickstart.jsonl"))
                  for name in row["metrics"]}
        self.assertGreater(len(found), 100)
        self.assertEqual([name for name in sorted(found) if glossary.find_heading(name) is None], [])


class Shown(unittest.TestCase):
    def result(self, verdict, q=None, score="", needs=None):
        finding = SimpleNamespace(quality=q, estimate=Estimate(2, 1.9, 2.1, 5, "repetitions"))
        return SimpleNamespace(verdict=verdict, finding=finding, score=score, score_needs=needs)

    def test_a_verdict_names_its_limit(self):
        lower = Estimate(-0.1, -0.2, -0.05, 200, "items")
        for verdict, wanted in (("PARTLY", "SUPPORTED WITH LIMITS: quality lower"), ("SUPPORTED", "SUPPORTED"),
                                ("OPEN", "INCONCLUSIVE"), ("SMALLER", "SMALLER THAN PUBLISHED")):
            self.assertEqual(words.verdict_text(self.result(verdict, lower, "worse")), wanted)

    def test_a_quality_says_its_word_and_what_it_needs(self):
        lower, unsure = Estimate(-0.1, -0.2, -0.05, 200, "items"), Estimate(0, -0.1, 0.1, 8, "items")
        self.assertEqual(words.quality_text(self.result("PARTLY", lower, "worse")),
                         "lower: -10.0 [-20.0, -5.0], n = 200 items")
        self.assertEqual(words.quality_text(self.result("SUPPORTED", unsure, "open", 400)),
                         "not determined (needs 400 items): 0.0 [-10.0, 10.0], n = 8 items")
        self.assertEqual(words.quality_text(self.result("SUPPORTED")), "–")

    def test_differences_of_scores_are_in_percentage_points(self):
        self.assertEqual(words.points_text(Estimate(-0.154, -0.173, -0.134, 200, "items")),
                         "-15.4 [-17.3, -13.4], n = 200 items")
        self.assertEqual(words.points_text(None), "–")

    def test_a_heading_with_a_unit_is_of_numbers_in_that_unit(self):
        for name, heading, factor in (("ttfb_p90_seconds", "TTFB P90, ms", 1e3), ("wall_seconds", "time, s", 1),
                                      ("peak_kv_bytes", "peak KV, MB", 1e-6), ("selection_flops", "selection GFLOP", 1e-9),
                                      ("slo_attainment", "objectives kept, %", 100), ("tpf", "tokens/forward (TPF)", 1),
                                      ("probes.x", "probes.x", 1)):
            column = layout._column_of(name)
            self.assertEqual((column.header, column.factor), (heading, factor))

    def test_a_row_shows_its_word_once(self):
        unscored = row_of("a", [1.0], score=None)
        unscored |= {"verdict": "NOT_VERIFIED", "reason": "no item of this workload can be scored"}
        unscored["workload"]["family"] = "128 random tokens"
        unchecked = row_of("b", [1.0])
        unchecked |= {"verdict": "NOT_VERIFIED", "reason": "device_check is off"}
        unchecked["model"]["checked"] = "NOT VERIFIED"
        cannot = row_of("c", [1.0])
        cannot |= {"verdict": "NOT_SUPPORTED", "reason": "of another kind"}
        table, = page.row_tables([unscored, unchecked, cannot])
        self.assertEqual([cells[-1].text for cells in table.rows],
                         ["UNSCORED", "UNCHECKED: device_check is off", "CANNOT DECODE: of another kind"])
        self.assertEqual(table.notes, ["not scored: random prompts have no right answer"])


if __name__ == "__main__":
    unittest.main()
