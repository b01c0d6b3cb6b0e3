# SPDX-License-Identifier: Apache-2.0
"""Claims about counts: what other prompts would give decides, where the rows kept the counts of every item.
And how often a row counts that was measured once for all seeds."""

import unittest

from made_claims import FASTER, Made, scored
import numpy as np
from scipy import stats

from unmask.claims import repeats
from unmask.rows import estimates, intervals

FEWER = """
@claim(**{**COUNT, "bound": at_most(0.35, "paper")})
def c(f):
    return ratio(f, "processed_rows_per_output", "fast", "slow")
"""
FORWARDS = """
@claim(**{**COUNT, "bound": above(1, "us")})
def c(f):
    return ratio(f, "nfe", "slow", "fast")
"""
FEW = """
@claim(**{**COUNT, "bound": below(0.3, "us")})
def c(f):
    return level(f, "token_utilisation", label="fast")
"""
WITHIN = """
@claim(**{**COUNT, "bound": below(1, "us")})
def c(f):
    return within_row(f, "committed", "nfe", label="fast")
"""
LATE_LAYERS = 2


def counted(label, **counts):
    """A row with these counts of its items; its metrics are their sums."""
    n = len(next(iter(counts.values())))
    row = scored(label, n, n)
    lists = {"output_tokens": [1] * n, **{name: [int(v) for v in values] for name, values in counts.items()}}
    row["items"] |= lists
    sums = {name: sum(values) for name, values in lists.items()}
    if "late_layer_rows" in sums:
        sums["processed_rows_per_output"] = sums["late_layer_rows"] / LATE_LAYERS / sums["output_tokens"]
    if {"committed", "decode_rows"} <= set(sums):
        sums["token_utilisation"] = sums["committed"] / sums["decode_rows"]
    row["metrics"] |= sums
    row["provenance"] |= dict.fromkeys(sums, "counted")
    return row


def rows_of(random, n, spread):
    """Rows a token as FOCUS has them: of each prompt such a share of those of whole blocks, or 0.32 with such a
    deviation."""
    shares = spread if isinstance(spread, list) else np.clip(random.normal(0.32, spread, n), 0.05, 0.9)
    tokens = random.integers(20, 60, n)
    slow = tokens * 32 * LATE_LAYERS
    fast = np.round(slow * np.array(shares))
    return [counted("fast", output_tokens=tokens, late_layer_rows=fast),
            counted("slow", output_tokens=tokens, late_layer_rows=slow)]


class Prompts(Made):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(5)

    def test_other_prompts_may_turn_a_count(self):
        """Of 32 prompts that differ much the ratio is below the bound, and that of others need not be."""
        wide = self.judged(FEWER, rows_of(self.random, 32, [0.17, 0.47] * 16))  # a standard error of 0.027 from 0.32
        self.assertLess(wide.estimate.value, 0.35)
        self.assertEqual((wide.verdict, wide.estimate.n, wide.estimate.unit), ("OPEN", 32, "items"))
        self.assertIn("would decide it", wide.reason)
        narrow = self.judged(FEWER, rows_of(self.random, 32, [0.3, 0.34] * 16))
        self.assertEqual(narrow.verdict, "SUPPORTED")
        self.assertNotIn("without an interval over others", narrow.reason)

    def test_the_interval_is_that_of_a_resampling_of_its_own(self):
        fast, slow = rows_of(self.random, 40, 0.1)
        a, b, t = (np.array(values, float) for values in (
            fast["items"]["late_layer_rows"], slow["items"]["late_layer_rows"], fast["items"]["output_tokens"]))
        drawn = np.random.default_rng(77).integers(40, size=(20000, 40))
        ratios = a[drawn].sum(1) / t[drawn].sum(1) / (b[drawn].sum(1) / t[drawn].sum(1))
        e = self.judged(FEWER, [fast, slow]).estimate
        self.assertAlmostEqual(e.value, a.sum() / b.sum())
        np.testing.assert_allclose(e.range, np.quantile(ratios, [0.025, 0.975]), rtol=0.01)

    def test_it_holds_what_is_true_of_all_prompts(self):
        """Draws of 12 and of 30 prompts; the truth is 0.32."""
        for n, draws, least in ((12, 200, 176), (30, 60, 50)):  # four standard errors below 95 in 100
            held = 0
            for _ in range(draws):
                fast, slow = rows_of(self.random, n, 0.08)
                x, y = (estimates.counts_of_items(row, "processed_rows_per_output") for row in (fast, slow))
                low, high = intervals.ratio_over_items(x, y).range
                held += low <= 0.32 <= high
            self.assertGreater(held, least)

    def test_of_few_prompts_nothing_is_known(self):
        r = self.judged(FEWER, rows_of(self.random, 4, 0.01))
        self.assertEqual((r.verdict, r.estimate.low), ("OPEN", None))
        self.assertIn("fewer than 5 items", r.reason)

    def test_totals_and_shares(self):
        """Forward passes, a level and a ratio inside a row; of 10 prompts by Student's t, worked out here."""
        fast, slow = [10, 12, 9, 11, 10, 13, 8, 10, 12, 11], [20, 22, 25, 19, 21, 24, 18, 20, 26, 22]
        r = self.judged(FORWARDS, [counted("fast", nfe=fast), counted("slow", nfe=slow)])
        a, b = np.array(slow, float), np.array(fast, float)
        half = stats.t.ppf(0.975, 9) * stats.sem(a / a.mean() - b / b.mean())
        self.assertAlmostEqual(r.estimate.value, 217 / 106)
        np.testing.assert_allclose(r.estimate.range, 217 / 106 * np.exp([-half, half]))
        share = counted("fast", committed=[2, 4, 3, 5, 2, 4, 3, 4, 3, 2], decode_rows=[10, 16, 9, 20, 12, 15, 11, 13, 14, 10])
        e = self.judged(FEW, [share]).estimate
        p, w = (np.array(share["items"][name], float) for name in ("committed", "decode_rows"))
        half = stats.t.ppf(0.975, 9) * stats.sem((p - p.sum() / w.sum() * w) / w.mean())
        np.testing.assert_allclose([e.value, *e.range], [32 / 130, 32 / 130 - half, 32 / 130 + half])
        inside = counted("fast", committed=[4] * 6, nfe=[5] * 6)
        self.assertEqual(self.judged(WITHIN, [inside]).estimate.range, (0.8, 0.8))

    def test_without_the_counts_of_items_the_count_decides_for_its_prompts(self):
        rows = rows_of(self.random, 32, 0.15)
        for row in rows:
            del row["items"]["late_layer_rows"]
        r = self.judged(FEWER, rows)
        self.assertEqual((r.verdict, r.estimate.how), ("SUPPORTED", "counted"))
        self.assertIn("an exact count for these prompts, without an interval over others", r.reason)

    def test_of_trials_an_item_is_one(self):
        row = counted("fast", nfe=[5, 7, 9, 5, 7, 9])
        row["workload"]["benchmark"] = {"trials": 2}
        self.assertEqual(estimates.counts_of_items(row, "nfe"), [(30, 1), (42, 1), (54, 1)])  # 42 in all, of 3

    def test_campaigns_share_their_prompts(self):
        e = intervals.Estimate(0.32, 0.28, 0.36, 32, "items", "paired bootstrap over items")
        together = repeats._one_estimate([e, intervals.Estimate(0.322, 0.282, 0.362, 32, "items", e.how)], True)
        self.assertLess(together.low, 0.29)


class Seeds(Made):
    def test_what_was_measured_once_for_all_seeds_is_beside_the_rows_of_each(self):
        """Twice, four times and once as fast under three seeds: (2 * 4 * 1)^(1/3) = 2, whichever side was measured
        once; under seed 1 alone four times."""
        def seeds(label, right, *seconds):
            return [scored(label, right, 8, [s, s * 1.01, s * 0.99], seed=seed, variation=f"seed={seed}",
                           point_id=f"{label}/{seed}") for seed, s in enumerate(seconds)]
        once = {"variation": "seed=any", "point_id": "once"}
        slow = [*seeds("fast", 6, 1.0, 0.5, 2.0), scored("slow", 4, 8, (2.0, 2.02, 1.98), **once)]
        fast = [*seeds("slow", 4, 2.0, 4.0, 1.0), scored("fast", 6, 8, (1.0, 1.01, 0.99), **once)]
        for rows in (slow, fast):
            r = self.judged(FASTER, rows)
            self.assertEqual([round(e.value, 6) for _, e in r.finding.points], [2, 4, 1])
            self.assertAlmostEqual(r.estimate.value, 2)
            self.assertAlmostEqual(r.finding.quality.value, 0.25)
            one = self.judged(FASTER.replace('"slow")', '"slow", seed=1)'), rows)
            self.assertEqual([round(e.value, 6) for _, e in one.finding.points], [4])
            level = self.judged('\n@claim(**COUNT)\ndef c(f):\n    return level(f, "redundancy", label=["fast", "slow"], '
                                'seed=2)\n', rows)
            self.assertEqual(len(level.finding.points), 2)
        # Both measured once: one pair, whatever seed stands in their rows.
        both = [slow[-1] | {"seed": 3}, fast[-1] | {"point_id": "other"}]
        self.assertEqual(len(self.judged(FASTER, both).finding.points), 1)
        # Rows of two seeds that were both measured are no pair.
        self.assertIn("needs rows of", self.judged(FASTER, [slow[1], fast[0]]).reason)


if __name__ == "__main__":
    unittest.main()
