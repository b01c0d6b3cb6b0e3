# SPDX-License-Identifier: Apache-2.0
"""Intervals, against scipy.stats, statsmodels, published examples and sums by hand."""

import math
import unittest

import made  # noqa: F401  (puts the package on the path)
import numpy as np
from scipy import special, stats
from statsmodels.stats import proportion

from unmask.claims import power
from unmask.rows import intervals


class Quantiles(unittest.TestCase):
    def test_those_that_are_written_out_are_scipys(self):
        self.assertEqual(intervals.Z95, special.ndtri(0.975))
        self.assertEqual(power.STANDARD_ERRORS, special.ndtri(0.975) + special.ndtri(power.POWER))


class Ratios(unittest.TestCase):
    def test_a_paired_ratio_is_students_interval_of_the_logs(self):
        a, b = [2.0, 4.0, 4.0, 3.1], [1.0, 2.0, 1.0, 1.4]
        e = intervals.paired_ratio(a, b)
        logs = np.log(a) - np.log(b)
        official = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
        self.assertAlmostEqual(e.value, math.exp(logs.mean()), places=12)
        self.assertAlmostEqual(e.low, math.exp(official.low), places=10)
        self.assertAlmostEqual(e.high, math.exp(official.high), places=10)
        self.assertEqual((e.n, e.unit), (4, "repetitions"))

    def test_an_unpaired_ratio_is_welchs_interval_of_the_logs(self):
        a, b = [2.0, 2.2, 1.9, 2.4], [1.0, 1.5, 1.1]
        e = intervals.unpaired_ratio(a, b)
        official = stats.ttest_ind(np.log(a), np.log(b), equal_var=False).confidence_interval(0.95)
        self.assertAlmostEqual(e.low, math.exp(official.low), places=10)
        self.assertAlmostEqual(e.high, math.exp(official.high), places=10)

    def test_pairing_takes_common_drift_out(self):
        a, b = [1.0, 1.5, 2.2, 3.0], [1.1, 1.65, 2.42, 3.3]
        paired, apart = intervals.paired_ratio(b, a), intervals.unpaired_ratio(b, a)
        self.assertAlmostEqual(paired.value, 1.1)
        self.assertLess(paired.high - paired.low, 1e-6)
        self.assertGreater(apart.high - apart.low, 1)

    def test_too_few_or_impossible_samples_have_no_interval(self):
        self.assertIsNone(intervals.paired_ratio([1], [2]).low)
        self.assertAlmostEqual(intervals.paired_ratio([1], [2]).value, 0.5)
        self.assertTrue(math.isnan(intervals.paired_ratio([], []).value))
        self.assertTrue(math.isnan(intervals.paired_ratio([0, 1], [1, 1]).value))
        self.assertIsNone(intervals.unpaired_ratio([1, 1], [2]).low)

    def test_the_half_width_is_students(self):
        # Deviation 1 with n - 1 below; t(0.975, 2) = 4.302652729911275.
        self.assertAlmostEqual(intervals.half_width([1, 2, 3]), 4.302652729911275 / math.sqrt(3) / 2)
        self.assertEqual(intervals.half_width([5]), math.inf)
        self.assertTrue(math.isnan(intervals.half_width([0, 0])))


class Shares(unittest.TestCase):
    def test_wilson_is_statsmodels(self):
        for successes, n in ((8, 10), (0, 20), (20, 20), (57, 192), (1, 3)):
            official = proportion.proportion_confint(successes, n, method="wilson")
            for ours, theirs in zip(intervals.wilson(successes, n), official):
                self.assertAlmostEqual(ours, theirs, places=12)
        self.assertEqual(intervals.wilson(0, 0), (0, 1))
        for n in range(1, 300):
            self.assertEqual((intervals.wilson(0, n)[0], intervals.wilson(n, n)[1]), (0, 1), n)
        recorded = (7e-18, 0.05)  # as rows have it, of no right answer
        self.assertEqual(intervals.interval_of_average([0.0] * 3, [recorded] * 3, range(3))[0], 0.0)

    def test_items_of_which_none_is_lost(self):
        n = int(power.unlost(0.02).split()[0])
        self.assertLessEqual(intervals.wilson(0, n)[1], 0.02)
        self.assertGreater(intervals.wilson(0, n - 1)[1], 0.02)
        for of_each, excludes in ((n // 4, False), (math.ceil(n / 2), True)):  # of four tasks: n, and twice as many
            half = intervals.wilson(0, of_each)[1]
            low, _ = intervals.interval_of_average([0] * 4, [(-half, half)] * 4, range(4))
            self.assertEqual(low >= -0.02, excludes)

    def test_independent_shares_are_statsmodels_and_as_published(self):
        for a, n, b, m in ((56, 70, 48, 80), (9, 10, 3, 10), (2, 40, 39, 40)):
            e = intervals.share_difference(a / n, n, b / m, m)
            low, high = proportion.confint_proportions_2indep(a, n, b, m, method="newcomb",
                                                              compare="diff", correction=False)
            self.assertAlmostEqual(e.low, low, places=10)
            self.assertAlmostEqual(e.high, high, places=10)
        # Newcombe (1998), table II.
        e = intervals.share_difference(56 / 70, 70, 48 / 80, 80)
        self.assertAlmostEqual(e.low, 0.0524, places=4)
        self.assertAlmostEqual(e.high, 0.3339, places=4)

    def test_paired_shares_swap_sign_and_cover(self):
        a = intervals.paired_share_difference(10, 6, 2, 7)
        b = intervals.paired_share_difference(10, 2, 6, 7)
        self.assertAlmostEqual(a.value, 4 / 25)
        self.assertAlmostEqual(a.low, -b.high)
        self.assertLess(intervals.paired_share_difference(5, 0, 0, 5).low, -0.01)
        random, covered = np.random.default_rng(1), 0
        for cells in random.multinomial(40, [0.5, 0.2, 0.1, 0.2], size=2000):
            e = intervals.paired_share_difference(*map(int, cells))
            covered += e.low <= 0.1 <= e.high
        self.assertTrue(0.93 < covered / 2000 < 0.98, covered)

    def test_mcnemar_is_scipys_binomial_test(self):
        for b, c in ((0, 5), (1, 9), (4, 4), (17, 30)):
            self.assertAlmostEqual(intervals.mcnemar_p(b, c),
                                   stats.binomtest(min(b, c), b + c, 0.5).pvalue, places=12)
        self.assertEqual(intervals.mcnemar_p(0, 0), 1)


class Bootstraps(unittest.TestCase):
    def test_graded_scores_are_scipys_percentile_bootstrap(self):
        random = np.random.default_rng(3)
        a, b = random.random(60), random.random(60)
        e = intervals.paired_score_difference(list(a), list(b))
        official = stats.bootstrap((a - b,), np.mean, method="percentile", n_resamples=20000,
                                   rng=random).confidence_interval
        self.assertAlmostEqual(e.low, official.low, delta=0.01)
        self.assertAlmostEqual(e.high, official.high, delta=0.01)
        self.assertEqual(e, intervals.paired_score_difference(list(a), list(b)))
        self.assertEqual(intervals.paired_score_difference([1, 0], [0, 0]).how,
                         "paired shares, Newcombe")

    def test_items_that_repeat_are_drawn_as_often_as_they_stand(self):
        values = np.array([0.0] * 30 + [0.25] * 5 + [1.0] * 15)
        low, high = intervals.bootstrap(values[:, None], lambda sums: sums[:, 0] / 50)
        official = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=20000,
                                   rng=np.random.default_rng(4)).confidence_interval
        self.assertAlmostEqual(low, official.low, delta=0.012)
        self.assertAlmostEqual(high, official.high, delta=0.012)

    def test_shares_over_items(self):
        e = intervals.share_over_items([(1, 10), (9, 10), (5, 20), (0, 0)])
        self.assertAlmostEqual(e.value, 15 / 40)
        self.assertEqual((e.n, e.low), (3, None))  # fewer than five say nothing
        whole = intervals.share_over_items([(1, 10), (9, 10), (5, 10), (4, 10), (6, 10)])
        low, high = stats.t.interval(0.95, 4, loc=0.5, scale=stats.sem([0.1, 0.9, 0.5, 0.4, 0.6]))  # wholes alike
        self.assertAlmostEqual(whole.low, low)
        self.assertAlmostEqual(whole.high, high)
        same = intervals.share_over_items([(1, 2), (2, 4)])
        self.assertEqual(same.range, intervals.wilson(1, 2))
        self.assertIsNone(intervals.ratio_over_items([(1, 10), (9, 10)], [(1, 10), (9, 10)]).low)
        five = [(1, 10), (9, 10), (3, 10), (4, 10), (5, 10)]
        both = intervals.ratio_over_items(five, five)
        self.assertEqual((both.value, both.low, both.high), (1, 1, 1))  # drawn together


    def test_a_difference_of_two_shares_of_the_same_items(self):
        """Of wholes of 10 it is that of the mean of five differences; a text without a whole says nothing."""
        ours, theirs = [1, 4, 2, 6, 3], [0, 1, 2, 2, 2]
        e = intervals.share_difference_over_items([(a, 10) for a in ours] + [(0, 0)], [(b, 10) for b in theirs] + [(1, 9)])
        each = [(a - b) / 10 for a, b in zip(ours, theirs)]
        t = stats.ttest_1samp(each, 0).confidence_interval(0.95)
        signs = intervals.paired_share_difference(0, 4, 0, 1)
        size = sum(each) / 4
        self.assertEqual(e.n, 5)
        self.assertAlmostEqual(e.value, 0.18)
        self.assertAlmostEqual(e.low, min(t.low, size * signs.low))
        self.assertAlmostEqual(e.high, max(t.high, size * signs.high))
        self.assertIsNone(intervals.share_difference_over_items([(1, 10)] * 4, [(2, 10)] * 4).low)
        # Long items count for more: (9 + 9) / (10 + 90) - (0 + 0) / 100.
        self.assertAlmostEqual(intervals.share_difference_over_items([(9, 10), (9, 90)], [(0, 10), (0, 90)]).value, 0.18)

    def test_many_shares_that_differ_have_a_paired_bootstrap(self):
        """What both sides have in common cancels: half of the texts 0 or 8 of 10 on both sides, one more on ours."""
        theirs = [(8 * (i % 2), 10) for i in range(100)]
        e = intervals.share_difference_over_items([(a + i % 4 // 2, n) for i, (a, n) in enumerate(theirs)], theirs)
        self.assertAlmostEqual(e.value, 0.05)
        self.assertAlmostEqual(e.high - e.value, 1.96 * 0.05 / 10, delta=0.002)


class Scores(unittest.TestCase):
    def test_graded_scores_have_students_interval(self):
        """Ten likelihoods: Wilson's interval would be [0.22, 0.74], twelve times as wide."""
        values = [0.42, 0.45, 0.5, 0.47, 0.49, 0.52, 0.44, 0.46, 0.48, 0.47]
        low, high = stats.t.interval(0.95, 9, loc=np.mean(values), scale=stats.sem(values))
        self.assertAlmostEqual(intervals.mean_interval(values)[0], low)
        self.assertAlmostEqual(intervals.mean_interval(values)[1], high)
        self.assertLess(high - low, 0.05)
        self.assertEqual(intervals.mean_interval([1, 0, 1]), intervals.wilson(2, 3))
        for nothing in ([0.5, 0.6, 0.7, 0.8], [0.5] * 9):  # four; no spread
            self.assertEqual(intervals.mean_interval(nothing), (0.0, 1.0))
        self.assertEqual(intervals.mean_interval([0.1, 0.9, 0.1, 0.9, 0.1])[0], 0.0)  # cut

    def test_trials_of_an_item_are_one_item(self):
        """Two items asked three times, [first, second] by trial: 1 of 3 and 3 of 3."""
        self.assertEqual(intervals.item_means([0, 1, 1, 1, 0, 1], 3), [1 / 3, 1])
        self.assertEqual(intervals.item_means([0, None, 1, None], 2), [0.5])
        self.assertEqual(intervals.item_means([0, 1, 1], 2), [0, 1, 1])  # not whole trials

    def test_groups_count_alike(self):
        low, high = intervals.mean_of_groups_interval([[1] * 8 + [0] * 2, [1] * 10 + [0] * 10])
        a, b = intervals.wilson(8, 10), intervals.wilson(10, 20)
        self.assertAlmostEqual(low, 0.65 - math.hypot(0.8 - a[0], 0.5 - b[0]) / 2)
        self.assertAlmostEqual(high, 0.65 + math.hypot(a[1] - 0.8, b[1] - 0.5) / 2)

    def test_few_graded_pairs_have_students_interval(self):
        a, b = [0.5, 0.6, 0.4, 0.7, 0.5, 0.6], [0.4, 0.5, 0.45, 0.5, 0.5, 0.4]
        e = intervals.paired_score_difference(a, b)
        found = stats.ttest_rel(a, b).confidence_interval()
        self.assertAlmostEqual(e.low, found.low)
        self.assertAlmostEqual(e.high, found.high)
        self.assertIsNone(intervals.paired_score_difference(a[:4], b[:4]).low)


class Several(unittest.TestCase):
    def test_the_best_of_several_points_is_corrected(self):
        e = intervals.Estimate(2.0, 1.9, 2.1, 400, "items")
        low, high = intervals.corrected_for(5, e, logs=False)
        wider = stats.norm.ppf(1 - 0.005) / stats.norm.ppf(0.975)
        self.assertAlmostEqual(low, 2 - 0.1 * wider)
        self.assertAlmostEqual(high, 2 + 0.1 * wider)
        e = intervals.Estimate(2.0, 1.9, 2.1, 3, "repetitions")
        low, _ = intervals.corrected_for(2, e, logs=True)
        wider = stats.t.ppf(1 - 0.0125, 2) / stats.t.ppf(0.975, 2)
        self.assertAlmostEqual(low, 2 * (1.9 / 2) ** wider)
        e = intervals.Estimate(2.0, 1.9, 2.1, 400, "items", "mean of 3 campaigns", degrees=2.0)
        self.assertAlmostEqual(intervals.corrected_for(2, e, logs=True)[0], low)

    def test_arms_of_a_mean_add_up_as_squares_and_within_a_group_as_they_are(self):
        ranges = [(0.0, 2.0), (1.0, 3.0)]
        low, high = intervals.interval_of_average([1.0, 2.0], ranges, ["a", "b"])
        self.assertAlmostEqual(high, 1.5 + math.sqrt(2) / 2)
        low, high = intervals.interval_of_average([1.0, 2.0], ranges, ["a", "a"])
        self.assertAlmostEqual(low, 0.5)


if __name__ == "__main__":
    unittest.main()
