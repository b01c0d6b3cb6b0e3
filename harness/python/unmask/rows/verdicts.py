# SPDX-License-Identifier: Apache-2.0
"""The one vocabulary in which an interval is judged: it lies wholly within what is wanted, wholly
outside, or is too wide to tell."""

from dataclasses import dataclass
import math

HELD, UNDECIDED, FAILED = 0, 1, 2

GOOD = {"PASS", "SUPPORTED", "SAME", "FASTER", "BETTER", "REPEATED"}
BAD = {"INVALID", "FAILED", "NOT SUPPORTED", "DIFFERS", "SLOWER", "WORSE"}


def tone(name):
    """How a page shows a verdict: "good", "mid" or "bad"."""
    return "good" if name in GOOD else "bad" if name in BAD else "mid"


@dataclass(frozen=True)
class Region:
    """What an interval must lie in. An open end excludes the bound itself."""
    low: float = -math.inf
    high: float = math.inf
    open: bool = False

    def holds(self, x):
        return self.low < x < self.high if self.open else self.low <= x <= self.high


def judge(interval, wanted):
    """HELD where the whole interval lies in the region, FAILED where no part of it does."""
    low, high = interval
    r = wanted
    if not r.open:  # rounding must not decide a bound that is met exactly
        slack = 1e-12 * max(abs(b) if math.isfinite(b) else 0.0 for b in (r.low, r.high))
        r = Region(r.low - slack, r.high + slack)
    if r.holds(low) and r.holds(high):
        return HELD
    apart = high <= r.low or low >= r.high if r.open else high < r.low or low > r.high
    return FAILED if apart else UNDECIDED


def against_margin(interval, margin, below, above):
    """The verdict of an interval against a margin around what is neutral: SAME inside it, `below` or
    `above`; AMBIGUOUS where it is missing, not finite or crosses an end."""
    if interval is None or not all(map(math.isfinite, interval)):
        return "AMBIGUOUS"
    low, high = interval
    if low >= margin[0] and high <= margin[1]:
        return "SAME"
    return above if low > margin[1] else below if high < margin[0] else "AMBIGUOUS"
