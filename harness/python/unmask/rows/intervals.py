# SPDX-License-Identifier: Apache-2.0
"""Estimates with 95 % intervals: ratios of times, differences of scores, shares.

Quantiles and distributions are scipy's. The intervals that it (and statsmodels) lack for fractional
successes and for pairs are written out with their source; the tests hold both kinds against
scipy.stats and statsmodels."""

from dataclasses import dataclass
import math

from unmask.rows.later import np, special

RESAMPLES = 10000
SEED = 2026
Z95 = 1.959963984540054  # the normal distribution's quantile at 0.975


@dataclass(frozen=True)
class Estimate:
    """A value, the ends of its 95 % interval (None: counted once, or seen once), of how many what, how the interval
    was come by, and the degrees of freedom of Student's t behind it (None: of the normal distribution)."""
    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0
    unit: str = "items"
    how: str = ""
    degrees: float | None = None

    @property
    def range(self):
        return None if self.low is None else (self.low, self.high)


def t_quantile(degrees, q=0.975):
    """Student's t. (special.stdtrit is scipy.stats.t.ppf without its start-up time.)"""
    return float(special.stdtrit(degrees, q))


def mean(values):
    return math.nan if len(values) == 0 else math.fsum(values) / len(values)


def deviation(values):
    """Of a sample: n - 1 below the sum; NaN under two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def half_width(samples):
    """Half width of Student's interval of the mean, relative to it; infinite under two samples, NaN
    where the mean is not positive."""
    if len(samples) < 2:
        return math.inf
    middle = mean(samples)
    if not middle > 0:
        return math.nan
    n = len(samples)
    return t_quantile(n - 1) * deviation(samples) / math.sqrt(n) / middle


def wilson(successes, n):
    """Wilson's interval of a share, Journal of the American Statistical Association 22 (1927) 209.
    Successes may be fractional, as partial credit is. None and all of them give an end of exactly 0 and 1."""
    if n == 0:
        return 0.0, 1.0
    share = successes / n
    scale = 1 + Z95 ** 2 / n
    centre = (share + Z95 ** 2 / (2 * n)) / scale
    half = Z95 / scale * math.sqrt(max(0.0, share * (1 - share) / n + Z95 ** 2 / (4 * n * n)))
    return centre - half if successes > 0 else 0.0, centre + half if successes < n else 1.0


FEWEST_GRADED, FEW_GRADED = 5, 20  # no interval of fewer graded items; Student's t of fewer than the second


def is_graded(values):
    """Whether scores are other than right or wrong: likelihoods, ROUGE, partial credit."""
    return any(v not in (0, 1) for v in values)


def mean_interval(values):
    """95 % interval of a mean of scores from 0 to 1: Wilson's of right and wrong, Student's t of graded ones, cut at 0
    and 1. Fewer than five graded items, or graded ones that are all alike, say nothing: 0 to 1."""
    n = len(values)
    if not is_graded(values):
        return wilson(math.fsum(values), n)
    spread = deviation(values)
    if n < FEWEST_GRADED or not spread > 0:
        return 0.0, 1.0
    half = t_quantile(n - 1) * spread / math.sqrt(n)
    return max(0.0, mean(values) - half), min(1.0, mean(values) + half)


def mean_of_groups_interval(groups):
    """The same of the mean of the means of groups, which count alike whatever their number of items: squares of the
    distances to the ends add up."""
    low, high = interval_of_average([mean(values) for values in groups], [mean_interval(values) for values in groups],
                                    range(len(groups)))
    return max(0.0, low), min(1.0, high)


def item_means(values, trials):
    """The mean of each item of several trials, which follow each other whole; None: not scored."""
    if trials < 2 or len(values) % trials:
        return [v for v in values if v is not None]
    size = len(values) // trials
    each = [[v for v in values[i::size] if v is not None] for i in range(size)]
    return [mean(found) for found in each if found]


def _all_positive(samples):
    return len(samples) > 0 and all(math.isfinite(v) and v > 0 for v in samples)


def paired_ratio(a, b):
    """a/b from n pairs: exp of the mean of log(a_i / b_i), with Student's interval of the logs."""
    n, how = min(len(a), len(b)), "paired log-ratio, Student's t"
    if not _all_positive(a) or not _all_positive(b):
        return Estimate(math.nan, n=n, unit="repetitions", how=how)
    logs = [math.log(x / y) for x, y in zip(a, b)]
    middle = mean(logs)
    if n < 2:
        return Estimate(math.exp(middle), n=n, unit="repetitions", how=how)
    half = t_quantile(n - 1) * deviation(logs) / math.sqrt(n)
    return Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half), n,
                    "repetitions", how, n - 1)


def unpaired_ratio(a, b):
    """a/b from separate samples: exp of the difference of mean logs, with Welch's interval
    (degrees of freedom after Satterthwaite)."""
    n, how = min(len(a), len(b)), "log-ratio, Welch's t"
    if not _all_positive(a) or not _all_positive(b):
        return Estimate(math.nan, n=n, unit="repetitions", how=how)
    x, y = np.log(a), np.log(b)
    middle = mean(x) - mean(y)
    if n < 2:
        return Estimate(math.exp(middle), n=n, unit="repetitions", how=how)
    vx, vy = deviation(x) ** 2 / len(x), deviation(y) ** 2 / len(y)
    half, degrees = 0.0, n - 1
    if vx + vy > 0:
        degrees = (vx + vy) ** 2 / (vx ** 2 / (len(x) - 1) + vy ** 2 / (len(y) - 1))
        half = t_quantile(degrees) * math.sqrt(vx + vy)
    return Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half), n,
                    "repetitions", how, degrees)


def mcnemar_p(b, c):
    """McNemar's exact two-sided p: b items only the first got right, c only the second."""
    return 1.0 if b + c == 0 else min(1.0, 2 * float(special.bdtr(min(b, c), b + c, 0.5)))


def paired_share_difference(both, first, second, neither):
    """Difference of two shares of the same items, with the interval of Newcombe, Statistics in
    Medicine 17 (1998) 2635, method 10. both: right in both; first, second: in one only."""
    n, how = both + first + second + neither, "paired shares, Newcombe"
    if n == 0:
        return Estimate(0.0, how=how)
    p, q = (both + first) / n, (both + second) / n
    p_low, p_high = wilson(both + first, n)
    q_low, q_high = wilson(both + second, n)
    product = (both + first) * (second + neither) * (both + second) * (first + neither)
    agreement = both * neither - first * second
    if agreement > 0:  # continuity correction
        agreement = max(agreement - n / 2, 0.0)
    phi = agreement / math.sqrt(product) if product > 0 else 0.0

    def arm(x, y):
        return math.sqrt(max(0.0, x * x - 2 * phi * x * y + y * y))
    return Estimate(p - q, p - q - arm(p - p_low, q_high - q), p - q + arm(p_high - p, q - q_low),
                    n, "items", how)


def share_difference(a, n_a, b, n_b):
    """Difference of independent shares (or means of scores from 0 to 1): Newcombe, Statistics in
    Medicine 17 (1998) 873, method 10."""
    n, how = min(n_a, n_b), "independent shares, Newcombe"
    if n == 0:
        return Estimate(a - b, n=n, how=how)
    a_low, a_high = wilson(a * n_a, n_a)
    b_low, b_high = wilson(b * n_b, n_b)
    return Estimate(a - b, a - b - math.hypot(a - a_low, b_high - b),
                    a - b + math.hypot(a_high - a, b - b_low), n, "items", how)


def bootstrap(columns, statistic):
    """95 % percentile interval of a statistic of n items drawn with replacement, at least 10000
    times. columns: an array of n items; statistic: sums of the columns over the drawn items -> value.

    Where many items are equal it draws how often each kind comes up, which is multinomial and the same
    as drawing one by one, and can afford to draw more often."""
    columns = np.asarray(columns, float)
    kinds, counts = np.unique(columns, axis=0, return_counts=True)
    n, random = len(columns), np.random.default_rng(SEED)
    values = []
    if n < 8 * len(kinds):
        for _ in range(0, RESAMPLES, 1000):
            values.append(statistic(columns[random.integers(n, size=(1000, n))].sum(axis=1)))
    else:
        for _ in range(0, RESAMPLES * max(1, 8 // len(kinds)), 1000):
            values.append(statistic(random.multinomial(n, counts / n, size=1000) @ kinds))
    low, high = np.quantile(np.concatenate(values), [0.025, 0.975])
    return float(low), float(high)


def paired_score_difference(a, b):
    """Mean of a_i - b_i: Newcombe's interval of right and wrong, a bootstrap over items of graded scores, Student's t of
    fewer than 20 of them and none of fewer than 5. Where no item differs a bootstrap would claim certainty: then
    Newcombe's too, partial credit counting as right from one half on."""
    n = min(len(a), len(b))
    a, b = np.asarray(a[:n], float), np.asarray(b[:n], float)
    binary = bool(np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all())
    if n == 0 or binary or bool((a == b).all()):
        right, other = a >= 0.5, b >= 0.5
        return paired_share_difference(int((right & other).sum()), int((right & ~other).sum()),
                                       int((~right & other).sum()), int((~right & ~other).sum()))
    if n < FEWEST_GRADED:
        return Estimate(mean(a - b), n=n, how=f"fewer than {FEWEST_GRADED} graded items, no interval")
    if n < FEW_GRADED:  # a bootstrap of so few is too narrow
        half = t_quantile(n - 1) * deviation(a - b) / math.sqrt(n)
        return Estimate(mean(a - b), mean(a - b) - half, mean(a - b) + half, n, "items", "paired, Student's t", n - 1)
    low, high = bootstrap((a - b)[:, None], lambda sums: sums[:, 0] / n)
    return Estimate(mean(a - b), low, high, n, "items", "paired bootstrap")


def no_narrower_than_signs(e, left, right):
    """A mean difference of paired scores, whose interval is widened to what the signs of the differences leave open: a
    handful of items that differ tell a bootstrap less than it says."""
    won, lost = int((left > right).sum()), int((left < right).sum())
    both = int(((left == right) & (left >= 0.5)).sum())
    signs = paired_share_difference(both, won, lost, len(left) - both - won - lost)
    each = 1 if won + lost == 0 else float(np.abs(left - right).sum()) / (won + lost)
    return Estimate(e.value, min(e.low, each * signs.low), max(e.high, each * signs.high), e.n, "items", e.how)


def _terms_of_ratio(above, below):
    """What every item adds to sum / sum, linearised (Cochran, Sampling Techniques, 1977, 6.9)."""
    return (above - above.sum() / below.sum() * below) / below.mean()


def _half_of_mean(terms):
    """Half width of Student's interval of a mean."""
    n = len(terms)
    return t_quantile(n - 1) * float(np.std(terms, ddof=1)) / math.sqrt(n)


def _half_of_ratio(above, below):
    """Half width of Student's interval of sum / sum over few items."""
    return _half_of_mean(_terms_of_ratio(above, below))


def share_over_items(items):
    """Share of a whole that lies in parts over items, [(part, whole)]: sum of parts over sum of
    wholes, bootstrap over items, whose tokens are not independent; Student's t of fewer than 20 and none of fewer than
    5; Wilson's interval of as many items where all agree."""
    items = np.asarray([(part, whole) for part, whole in items if whole > 0], float)
    if len(items) == 0:
        return Estimate(math.nan)
    n, shares = len(items), items[:, 0] / items[:, 1]
    value = float(items[:, 0].sum() / items[:, 1].sum())
    if bool((shares == shares[0]).all()):
        return Estimate(value, *wilson(value * n, n), n, "items", "Wilson, of items")
    if n < FEWEST_GRADED:
        return Estimate(value, n=n, how=f"a share over fewer than {FEWEST_GRADED} items, no interval")
    if n < FEW_GRADED:
        half = _half_of_ratio(items[:, 0], items[:, 1])
        return Estimate(value, value - half, value + half, n, "items", "Student's t over items", n - 1)
    low, high = bootstrap(items, lambda sums: sums[:, 0] / sums[:, 1])
    return Estimate(value, low, high, n, "items", "bootstrap over items")


def count_over_items(items):
    """A count an item, or one count over another, [(part, whole)]: sum of parts over sum of wholes with the interval
    of other items: bootstrap, Student's t of fewer than 20 and none of fewer than 5. Where every item has the same
    the interval is that value."""
    items = np.asarray(items, float)
    n, value = len(items), float(items[:, 0].sum() / items[:, 1].sum())
    if n < FEWEST_GRADED:
        return Estimate(value, n=n, how=f"a count of fewer than {FEWEST_GRADED} items, no interval")
    if n < FEW_GRADED:
        half = _half_of_ratio(items[:, 0], items[:, 1])
        return Estimate(value, value - half, value + half, n, "items", "counted, Student's t over items", n - 1)
    low, high = bootstrap(items, lambda sums: sums[:, 0] / sums[:, 1])
    return Estimate(value, low, high, n, "items", "counted, bootstrap over items")


def ratio_over_items(above, below):
    """One such share over another of the same items, which are drawn together."""
    columns = np.column_stack([np.asarray(above, float), np.asarray(below, float)])

    def ratio(sums):
        with np.errstate(divide="ignore", invalid="ignore"):
            return (sums[:, 0] / sums[:, 1]) / (sums[:, 2] / sums[:, 3])
    n, value = len(columns), float(ratio(columns.sum(axis=0, keepdims=True))[0])
    if n < FEWEST_GRADED:
        return Estimate(value, n=n, how=f"a ratio over fewer than {FEWEST_GRADED} items, no interval")
    if n < FEW_GRADED and (columns.sum(axis=0) > 0).all():
        terms = sum(sign * column / column.mean() for sign, column in zip((1, -1, -1, 1), columns.T))
        half = t_quantile(n - 1) * float(np.std(terms, ddof=1)) / math.sqrt(n)
        return Estimate(value, value * math.exp(-half), value * math.exp(half), n, "items",
                        "paired, Student's t of linearised logarithms", n - 1)
    low, high = bootstrap(columns, ratio)
    return Estimate(value, low, high, n, "items", "paired bootstrap over items")


def share_difference_over_items(ours, theirs):
    """One share less another of the same items, which are drawn together; [(part, whole)] of each side. A bootstrap,
    Student's t of fewer than 20 items, no interval of fewer than 5. If fewer than 20 items differ, their signs bound it
    too. Items without a whole on both sides have no share and are left out."""
    columns = np.asarray([(*a, *b) for a, b in zip(ours, theirs) if a[1] > 0 and b[1] > 0], float).reshape(-1, 4)
    n = len(columns)
    if n == 0:
        return Estimate(math.nan)

    def difference(sums):
        return sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
    value = float(difference(columns.sum(axis=0, keepdims=True))[0])
    if n < FEWEST_GRADED:
        return Estimate(value, n=n, how=f"shares over fewer than {FEWEST_GRADED} items, no interval")
    left, right = columns[:, 0] / columns[:, 1], columns[:, 2] / columns[:, 3]
    if n < FEW_GRADED:
        part, whole, other, of = columns.T
        half = _half_of_mean(_terms_of_ratio(part, whole) - _terms_of_ratio(other, of))
        e = Estimate(value, value - half, value + half, n, "items", "paired, linearised, Student's t", n - 1)
    else:
        e = Estimate(value, *bootstrap(columns, difference), n, "items", "paired bootstrap over items")
    return e if int((left != right).sum()) >= FEW_GRADED else no_narrower_than_signs(e, left, right)


def corrected_for(points, e, logs):
    """The interval that the best (or worst) of several points needs for the same 5 % of all of them,
    each at 1 - 0.05 / points (Bonferroni): distances to its ends, of logarithms where `logs`,
    widened by the ratio of the quantiles: Student's by its degrees of freedom, which repetitions and seeds have by their
    number, else normal."""
    if e.low is None or points < 2 or e.low == e.high:
        return e.range
    q, degrees = 1 - 0.025 / points, e.degrees
    if degrees is None and e.unit != "items" and e.n > 1:
        degrees = e.n - 1
    if degrees is None or not degrees < 1e6:
        wider = float(special.ndtri(q)) / Z95
    else:
        wider = t_quantile(degrees, q) / t_quantile(degrees)
    if logs:
        return (e.value * (e.low / e.value) ** wider, e.value * (e.high / e.value) ** wider)
    return e.value - wider * (e.value - e.low), e.value + wider * (e.high - e.value)


def over_campaigns(found, logs, shared):
    """One estimate of several campaigns, with an interval that speaks of further ones: the mean of their values (of
    logarithms where `logs`), by Student's t with one degree of freedom less than there are campaigns. What all of
    them have in common, as the prompts are, their spread does not show: where `shared`, the mean half width that each
    has of its own is added in squares. Else it is never narrower than as many means of such half widths: three that
    agree by chance do not say more."""
    scale, back = (math.log, math.exp) if logs else ((lambda v: v), (lambda v: v))
    values = [scale(e.value) for e in found]
    middle, n = mean(values), len(values)
    between = deviation(values) / math.sqrt(n)
    own = [mean([scale(e.value) - scale(e.low) for e in found]), mean([scale(e.high) - scale(e.value) for e in found])]
    if shared:
        below, above = (math.hypot(t_quantile(n - 1) * between, half) for half in own)
        within = mean(own) / Z95
        degrees = math.inf if between == 0 else (n - 1) * (1 + (within / between) ** 2) ** 2
    else:
        below, above = (max(t_quantile(n - 1) * between, half / math.sqrt(n)) for half in own)
        degrees = float(n - 1)
    return Estimate(back(middle), back(middle - below), back(middle + above), min(e.n for e in found), found[0].unit,
                    f"mean of {n} campaigns, Student's t" + (" and the interval over items" if shared else ""), degrees)


def interval_of_average(values, ranges, groups):
    """Interval of the mean of values that have their own: squares of the distances to the ends add
    up (Zou and Donner, Statistics in Medicine 27 (2008) 1693). Values of one group, of the same
    items say, err together: their distances are averaged as they are. An end that recorded rows have on the wrong
    side of its value, by its last bit, is the value."""
    arms = {}
    for value, (low, high), group in zip(values, ranges, groups):
        below, above = arms.get(group, (0.0, 0.0))
        arms[group] = (below + max(0.0, value - low), above + max(0.0, high - value))
    middle, n = mean(values), len(values)
    return (middle - math.sqrt(sum(b * b for b, _ in arms.values())) / n,
            middle + math.sqrt(sum(a * a for _, a in arms.values())) / n)
