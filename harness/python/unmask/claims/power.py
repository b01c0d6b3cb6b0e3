# SPDX-License-Identifier: Apache-2.0
"""How many items a claim needs, before any is measured, and the smallest effect that those which were
measured could have shown; at 95 % confidence and 80 % power."""

import math

from unmask.rows.intervals import Z95

POWER = 0.8
# What an effect needs to be seen, in standard errors; 0.84 is the normal distribution's quantile at POWER.
STANDARD_ERRORS = Z95 + 0.8416212335729143

OUT_OF_REACH = 5000  # of items: more are not measured here


def needed(e, distances, scale=lambda v: v):
    """How many of what an estimate counts see the nearest of some distances (from its value to what decides) four
    times in five, by its own spread; None without an interval or a distance."""
    if e is None or e.low is None or not e.n or not distances or scale(e.high) == scale(e.low):
        return None
    error = (scale(e.high) - scale(e.low)) / 2 / Z95
    return max(e.n, math.ceil(e.n * (STANDARD_ERRORS * error / min(distances)) ** 2))


def items_for(effect, differ):
    """Items that show a difference of two scores of the same items of at least `effect` (of 1), where a
    share `differ` of the items comes out otherwise; McNemar's test, Connor, Biometrics 43 (1987) 207."""
    z = Z95 * math.sqrt(differ) + (STANDARD_ERRORS - Z95) * math.sqrt(differ - effect ** 2)
    return math.ceil((z / effect) ** 2)


def scored(effect, differ):
    """The number of items of a claim on scores, in words."""
    return (f"{items_for(effect, differ)} items in all, which detect {100 * effect:g} pp if {100 * differ:g} % of the "
            "items come out otherwise")


def graded(effect, spread):
    """The number of items of a claim on graded scores (likelihoods, ROUGE), in words; spread: standard
    deviation of the difference of one item."""
    n = math.ceil((STANDARD_ERRORS * spread / effect) ** 2)
    return (f"{n} items in all, which detect {100 * effect:g} pp if the differences of single items spread by "
            f"{100 * spread:g} pp")


def unlost(effect):
    """The number of items of a claim that nothing is lost, in words: where none is, Wilson's interval
    excludes a loss of `effect`. Half widths of tasks that count alike add up by squares, so that T tasks of equal size
    need the root of T times as many items in all."""
    n = math.ceil(Z95 ** 2 * (1 - effect) / effect)
    return f"{n} items of one task, so that none lost excludes a loss of {100 * effect:g} pp; of four tasks twice as many"


def repeated(effect, spread):
    """The number of repetitions of a claim on times, in words; spread: relative, of single ratios."""
    n = max(3, math.ceil((STANDARD_ERRORS * spread / math.log1p(effect)) ** 2) + 2)
    return f"{n} repetitions, which detect {100 * effect:g} % if single ratios spread by {100 * spread:g} %"


def smallest_effect(e, is_ratio):
    """The effect that would have been seen four times in five at an estimate's precision: of a ratio a
    factor, else a difference. None without an interval."""
    if e is None or e.low is None or e.low == e.high:
        return None
    if is_ratio:
        if not e.low > 0:
            return None
        return math.exp(STANDARD_ERRORS / Z95 * math.log(e.high / e.low) / 2)
    return STANDARD_ERRORS / Z95 * (e.high - e.low) / 2
