# SPDX-License-Identifier: Apache-2.0
"""How often intervals hold what they are of: simulated draws, each with a mean that is known. Expected are 95 in 100."""

import math
import unittest

from made import stats
import numpy as np

from unmask.rows import intervals
from unmask.rows.intervals import Estimate

DRAWS = 1000  # standard error of a coverage of 0.95: 0.007


def covered(found, truth):
    return np.mean([e is not None and e[0] <= truth <= e[1] for e in found])


class Coverage(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(11)

    def near(self, share, low=0.925, high=0.985):
        self.assertGreater(share, low)
        self.assertLess(share, high)

    def test_of_a_mean_likelihood(self):
        for n in (5, 10, 40, 500):
            draws = self.random.beta(8, 9, (DRAWS, n))
            self.near(covered([intervals.mean_interval(list(d)) for d in draws], 8 / 17))

    def test_of_right_and_wrong(self):
        for n in (5, 20, 100, 500):
            draws = self.random.binomial(n, 0.7, DRAWS)
            self.near(covered([intervals.wilson(int(k), n) for k in draws], 0.7))

    def test_of_several_trials_of_an_item(self):
        """Difficulties of items differ; eight trials of an item are not eight items."""
        for items, trials in ((30, 1), (30, 8), (200, 3)):
            found, pooled = [], []
            for _ in range(DRAWS // 2):
                p = self.random.beta(0.5, 0.5, items)
                values = (self.random.random((trials, items)) < p).astype(float).ravel().tolist()
                found.append(intervals.mean_interval(intervals.item_means(values, trials)))
                pooled.append(intervals.wilson(sum(values), len(values)))
            self.near(covered(found, 0.5))
            if trials == 8:
                self.assertLess(covered(pooled, 0.5), 0.8)  # what counting answers as items would give

    def test_of_a_mean_of_groups(self):
        found = []
        for _ in range(DRAWS):
            groups = [list((self.random.random(n) < p).astype(float)) for n, p in ((10, 0.9), (40, 0.5), (100, 0.3))]
            found.append(intervals.mean_of_groups_interval(groups))
        self.near(covered(found, (0.9 + 0.5 + 0.3) / 3))

    def test_of_few_graded_pairs(self):
        for n in (5, 8, 19, 40):
            found = []
            for _ in range(DRAWS if n < 20 else 200):
                a, b = self.random.beta(5, 5, (2, n))
                found.append(intervals.paired_score_difference(list(a), list(b)).range)
            self.near(covered(found, 0), 0.925 if n < 20 else 0.9)

    def test_of_a_share_over_few_items(self):
        for n in (5, 8, 16):
            found = []
            for _ in range(DRAWS):
                whole = self.random.integers(20, 60, n)
                part = self.random.binomial(whole, self.random.beta(6, 4, n))
                found.append(intervals.share_over_items(list(zip(part, whole))).range)
            self.near(covered(found, 0.6), 0.9)

    def test_of_several_campaigns(self):
        """Three, with noise within and between them in every proportion; the truth is that of all days."""
        for within, between in ((0.05, 0.0), (0.05, 0.05), (0.01, 0.1)):
            found = []
            for _ in range(DRAWS):
                values = self.random.normal(0, between, 3) + self.random.normal(0, within, 3)
                each = [Estimate(math.exp(v), math.exp(v - 2 * within), math.exp(v + 2 * within), 3, "repetitions")
                        for v in values]
                found.append(intervals.over_campaigns(each, True, False).range)
            self.near(covered(found, 1.0), high=0.998)

    def test_of_campaigns_on_the_same_items(self):
        """The items are drawn once, the noise of each decoding thrice: the interval is of other items too."""
        for items, noise in ((0.03, 0.0), (0.03, 0.01), (0.02, 0.02)):
            found = []
            for _ in range(DRAWS):
                values = self.random.normal(0, items) + self.random.normal(0, noise, 3)
                half = stats.norm.ppf(0.975) * math.hypot(items, noise)
                each = [Estimate(v, v - half, v + half, 100, "items") for v in values]
                found.append(intervals.over_campaigns(each, False, True).range)
            self.near(covered(found, 0.0), high=1.0)

    def rounds(self, size, skewed, drift, lasting=0.0):
        """Times of two sides that are equally fast, [draw, side, round]: noise of each side, which may last from round to
        round, and a drift of the machine, which does and which both share."""
        def noise(shape, stays):
            e = self.random.exponential(size=shape) - 1 if skewed else self.random.standard_normal(shape)
            for k in range(1, shape[-1]):
                e[..., k] = stays * e[..., k - 1] + math.sqrt(1 - stays ** 2) * e[..., k]
            return e
        own = noise((DRAWS // 2, 2, 5), lasting)
        return np.exp(size * (own + drift * noise((DRAWS // 2, 1, 5), 0.8)))

    @staticmethod
    def ends(times, target=0.05, first=3):
        """The round at which each side's mean is known to 5 %, by scipy's Student's t; the last where it never is."""
        last = times.shape[-1]
        ends = np.full(times.shape[:2], last)
        for n in range(last - 1, first - 1, -1):
            x = times[..., :n]
            half = stats.t.ppf(0.975, n - 1) * stats.sem(x, axis=-1) / x.mean(-1)
            ends[half <= target] = n
        return ends

    def held(self, times, ends):
        """How often the interval of the ratio holds 1, which is the truth."""
        found = []
        for (a, b), (m, n) in zip(times, ends):
            e = (intervals.paired_ratio if m == n else intervals.unpaired_ratio)(a[:m], b[:n])
            found.append(e.range)
        return covered(found, 1.0)

    def test_of_pairs_that_end_together(self):
        """Three to five rounds until both sides are known to 5 %."""
        for size in (0.02, 0.05, 0.1, 0.2):
            for skewed in (False, True):
                for drift in (0.0, 0.5):
                    times = self.rounds(size, skewed, drift)
                    together = self.ends(times).max(1)
                    with self.subTest(size=size, skewed=skewed, drift=drift):
                        self.near(self.held(times, np.repeat(together[:, None], 2, axis=1)), 0.915, 0.99)

    def test_of_sides_that_end_each_by_itself(self):
        """What pairs are for: of draws whose sides would end at different rounds, pairs of as many rounds hold the truth
        as often as they should, and sides of different lengths do not. Noise of one side alone that lasts for rounds is
        not seen by so few: no interval here speaks of it."""
        times = np.concatenate([self.rounds(0.05, False, 0.0) for _ in range(4)])
        ends = self.ends(times)
        differ = ends[:, 0] != ends[:, 1]
        self.assertGreater(differ.sum(), 700)
        self.near(self.held(times[differ], np.repeat(ends.max(1)[differ, None], 2, axis=1)), 0.915)
        self.assertLess(self.held(times[differ], ends[differ]), 0.915)
        lasting = self.rounds(0.1, False, 0.0, lasting=0.8)
        self.assertLess(self.held(lasting, np.full((len(lasting), 2), 5)), 0.8)

    def test_of_few_and_many_pairs(self):
        """Two pairs to five hundred; the interval is the one that scipy gives for the differences of logarithms."""
        for n in (2, 3, 5, 20, 100, 500):
            found, draws = [], np.exp(self.random.normal(0, 0.1, (DRAWS // 2, 2, n)))
            for a, b in draws:
                found.append(intervals.paired_ratio(2 * a, b).range)
            self.near(covered(found, 2.0))
            a, b = draws[-1]
            told = stats.ttest_rel(np.log(2 * a), np.log(b)).confidence_interval(0.95)
            np.testing.assert_allclose(found[-1], np.exp([told.low, told.high]), rtol=1e-9)

    def test_of_a_rule_that_stops_at_a_narrow_interval(self):
        """Up to ten passes until 3 %: looked at from the fifth on it holds as it should, from the third on it does not."""
        def stopped(first, deviation):
            held = 0
            for _ in range(DRAWS):
                times = self.random.normal(1, deviation, 10)
                for n in range(first, 11):
                    half = intervals.half_width(list(times[:n])) * times[:n].mean()
                    if half <= 0.03 or n == 10:
                        break
                held += abs(times[:n].mean() - 1) <= half
            return held / DRAWS
        for deviation in (0.01, 0.02, 0.03, 0.05):
            self.near(stopped(5, deviation), 0.915)
        self.assertLess(stopped(3, 0.05), stopped(5, 0.05))


if __name__ == "__main__":
    unittest.main()
