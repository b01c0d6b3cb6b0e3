# SPDX-License-Identifier: Apache-2.0
"""What a claim takes from beyond its own rows: the simpler methods of another table, and what its file can reach."""

import json
import math

from made_claims import ARTIFACT, FASTER, Made, scored, waits_for_its_file, write
from scipy import stats

from unmask.claims import NeedsRows, pages, repeats
from unmask.claims.frame import Frame
from unmask.claims.judge import Evidence
from unmask.claims.relation import spread_over_seeds
from unmask.rows import experiments
from unmask.rows.errors import UserError

# The method has another label in the table of thresholds.
HELD = """
@claim(finding="the slow one", controls=("k",), elsewhere=("k", "the best threshold"), **SPEED)
def c(f):
    return speed(f, "fast", "slow")


@control(**{**SPEED, "artifacts": ("table_6",)})
def k(f):
    return at_equal_score(f, "the same", ["a", "b"])
"""


class Elsewhere(Made):
    def setUp(self):
        super().setUp()
        write(f"{self.folder}/focus/table_6.toml", ARTIFACT.replace("table_5", "table_6"))

    def held(self, text=HELD, task="word_problem", rows=True):
        self.put([scored("fast", 8, 8, (1.0, 1.01, 0.99)), scored("slow", 8, 8, (2.0, 2.02, 1.98))])
        if rows:
            self.put([scored(label, 8, 8, (s, 1.01 * s, 0.99 * s), task=task)
                      for label, s in (("the same", 1.0), ("a", 0.5), ("b", 0.8))], "focus/table_6/tiny")
        register = self.register(text)
        found = repeats.judge_campaigns(register.claims, register, [Evidence(f"{self.folder}/results")], "tiny")
        return found[0][1], found

    def test_simpler_methods_of_another_table_fill_the_column(self):
        """Half the time of the method: 0.5 times as fast, whoever is the baseline."""
        r, judged = self.held()
        self.assertEqual((r.verdict, r.simplest), ("SUPPORTED", "the best threshold"))
        self.assertAlmostEqual(r.over_simplest.value, 0.5, places=3)
        self.assertIn("; over the simplest method at its score, the best threshold: 0.5", r.reason)
        self.assertIn("The simplest method of equal quality is the best threshold", pages.findings(judged))

    def test_rows_of_other_points_fill_no_column(self):
        r, judged = self.held(task="needle")
        self.assertIsNone(r.over_simplest)
        self.assertAlmostEqual(r.elsewhere.value, 0.5, places=3)
        self.assertIn("the best threshold: only at other sweep points, 0.5", r.reason)
        self.assertIn("At other sweep points it is 0.50", pages.findings(judged))

    def test_a_score_of_other_settings_is_said(self):
        """A speed with blocks of 64 and a score with blocks of 8 are of two settings; the baseline has the same."""
        def of(size, right, n):
            rows = [scored("fast", right, n, (1.0, 1.01, 0.99)), scored("slow", right, n, (2.0, 2.02, 1.98))]
            rows[0]["params"] = {**rows[0]["params"], "size": size}
            return rows
        self.put(of(8, 300, 400), "focus/table_5/scores")
        self.assertIn("; the score has size 8 for fast, the speed 64; ", self.judged(FASTER, of(64, 8, 8)).reason)
        self.assertNotIn("the score has", self.judged(FASTER, of(8, 8, 8)).reason)

    def test_a_table_without_rows_is_said(self):
        self.assertIn("; simpler methods without rows: the best threshold", self.held(rows=False)[0].reason)

    def test_another_quantity_is_refused(self):
        for text, says in ((HELD.replace('"artifacts": ("table_6",)', '"artifacts": ("table_6",), "clock": "steps"'),
                            "measures something else: speed of steps is not speed of seconds"),
                           (HELD.replace('controls=("k",)', 'controls=("k", "l")').replace('elsewhere=("k"', 'elsewhere=("m"'),
                            "`elsewhere` is one of its controls"),
                           (HELD.replace('("k", "the best threshold")', '("k",)'), "`elsewhere` is one of its controls")):
            text += "\n\n@control(**SPEED)\ndef l(f):\n    return speed(f, 'b', 'slow')\n" if '"l"' in text else ""
            with self.assertRaisesRegex(UserError, says):
                self.register(text)


class OfTheFile(Made):
    def presuming(self, tokens):
        return FASTER.replace("**SPEED", '**{**SPEED, "regime": presumes("prompts are long", "prompt_tokens_mean", '
                              f'at_least({tokens}, "us"))}}')

    def test_a_claim_that_no_prompt_of_its_file_can_meet_is_refused(self):
        """A prompt of 100 bytes has at most 100 tokens and those of a template."""
        write(f"{self.folder}/data/short.jsonl", json.dumps({"id": "a", "prompt": "x" * 100}) + "\n")
        write(f"{self.folder}/focus/table_5.toml", ARTIFACT.replace(
            "[scale.full]", '[[scale.tiny.workload]]\ntasks = ["short"]\n[scale.full]', 1))
        with self.assertRaisesRegex(UserError, "which no prompt of table_5.toml at the scale tiny meets"):
            self.register(self.presuming(200))
        self.register(self.presuming(150))
        experiments.read_toml.cache_clear()
        write(f"{self.folder}/focus/table_5.toml", ARTIFACT.replace(  # nobody knows how long those of a file are
            "[scale.full]", '[[scale.tiny.workload]]\nfile = "long.jsonl"\n[scale.full]', 1))
        self.register(self.presuming(200))

    def test_a_claim_that_waits_for_its_file_is_found(self):
        rows = [scored("fast", 8, 8), scored("slow", 8, 8)]
        for row in rows:
            row["metrics"]["prompt_tokens_mean"], row["provenance"]["prompt_tokens_mean"] = 50, "counted"
        r = self.judged(self.presuming(200), rows)
        self.assertIn("presumes that prompts are long; here prompt tokens mean is 50", r.reason)
        self.assertTrue(waits_for_its_file(r))
        self.assertFalse(waits_for_its_file(self.judged(self.presuming(40), rows)))
        other = FASTER.replace("**SPEED", '**{**SPEED, "regime": presumes("it is slow", "redundancy", '
                               'at_least(5, "us"))}')
        self.assertFalse(waits_for_its_file(self.judged(other, rows)))


class Seeds(Made):
    def rows(self, *scores, **more):
        return [scored("fast", right, 10, seed=seed, **more) for seed, right in enumerate(scores)]

    def test_the_spread_over_seeds_is_that_of_their_scores(self):
        """Shares of 4 to 8 of ten: a deviation of 0.158, with chi square's limits for four degrees of freedom."""
        e = spread_over_seeds(Frame(self.rows(4, 5, 6, 7, 8)), 5, label="fast").estimate
        self.assertAlmostEqual(e.value, math.sqrt(0.025))
        self.assertAlmostEqual(e.low, e.value * math.sqrt(4 / stats.chi2.ppf(0.975, 4)))
        self.assertAlmostEqual(e.high, e.value * math.sqrt(4 / stats.chi2.ppf(0.025, 4)))
        self.assertEqual((e.n, e.unit), (5, "seeds"))

    def test_tasks_are_averaged_for_each_seed(self):
        both = self.rows(4, 5, 6, 7, 8) + self.rows(8, 7, 6, 5, 4, task="needle")
        self.assertAlmostEqual(spread_over_seeds(Frame(both), 5, label="fast").estimate.value, 0)

    def test_fewer_seeds_and_rows_that_no_seed_changes_are_not_enough(self):
        for rows in (self.rows(4, 5, 6, 7), self.rows(4, 5, 6, 7, 8, variation="seed=any")):
            with self.assertRaisesRegex(NeedsRows, "scores of 5 seeds at a temperature above 0"):
                spread_over_seeds(Frame(rows), 5, label="fast")


if __name__ == "__main__":
    import unittest
    unittest.main()
