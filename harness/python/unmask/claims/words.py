# SPDX-License-Identifier: Apache-2.0
"""The words that tables and pages show for what was judged of a claim; what is stored stays in claims.json."""

from dataclasses import replace

from unmask.rows import glossary
from unmask.rows.estimates import interval_text

# The list of the glossary for each field of a Result that it translates.
LISTS = {"verdict": "claim", "size": "published number", "after_correction": "correction", "registered": "declared"}


def shown(stored):
    """The word for the verdict of a claim."""
    return glossary.shown("claim", stored)


def points_text(e):
    """A difference of scores in percentage points: "-15.4 [-17.3, -13.4], n = 200 items"; an en dash for none."""
    if e is None:
        return "–"
    text = f"{100 * e.value:.1f}" + ("" if e.low is None else f" [{100 * e.low:.1f}, {100 * e.high:.1f}]")
    return text + (f", n = {e.n} {e.unit}" if e.n else "")


def times_text(e):
    """A ratio with its interval, in fewer digits than elsewhere: "2.12 [1.82, 2.46]", "16.4 [13.3, 20.3]"."""
    def number(v):
        return f"{v:.{2 if v < 10 else 1 if v < 100 else 0}f}"
    return number(e.value) + ("" if e.low is None else f" [{number(e.low)}, {number(e.high)}]")


def value_text(c, e):
    """A value of a claim without its number of items: differences of scores in pp, others as they are."""
    if e is None or c.kind != "score":
        return interval_text(e)
    return points_text(replace(e, n=0)) + " pp"


def campaigns_text(r):
    """Of how many campaigns the numbers are: none where nothing ran, also if a CPU gave a value."""
    return "none" if r.verdict == "NOT RUN" else r.campaigns


def field_text(r, name):
    """The word for a field of a Result; an en dash if it is empty."""
    stored = getattr(r, name)
    return glossary.shown(LISTS[name], stored) if stored else "–"


def quality_word(stored):
    """The word for what a score says of its bound: kept, lower, not determined."""
    return glossary.shown("quality", stored)


def quality_text(r):
    """The change of quality of a speed: whether it is kept, and in percentage points; an en dash for none."""
    if r.finding is None or r.finding.quality is None:
        return "–"
    word = glossary.shown("quality", r.score) if r.score else "not judged"
    needs = f" (needs {r.score_needs} items)" if r.score_needs else ""
    return f"{word}{needs}: {points_text(r.finding.quality)}"


def limits(r):
    """Why a claim that holds is SUPPORTED WITH LIMITS; [] of any other."""
    return [glossary.shown("limit", "worse")] if r.verdict == "PARTLY" else []


def verdict_text(r):
    """The verdict as tables show it: "SUPPORTED WITH LIMITS: quality lower"."""
    found = limits(r)
    return shown(r.verdict) + (f": {', '.join(found)}" if found else "")


def counts_text(judged, verdicts):
    """How many claims have which verdict: "1 SUPPORTED, 0 NOT SUPPORTED, "."""
    return "".join(f"{sum(r.verdict == v for _, r in judged)} {shown(v)}, " for v in verdicts)
