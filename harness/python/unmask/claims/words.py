# SPDX-License-Identifier: Apache-2.0
"""The words that tables and pages show for what was judged of a claim; what is stored stays in claims.json."""

from unmask.rows import glossary
from unmask.rows.verdicts import FAILED, HELD, UNDECIDED, judge

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


def field_text(r, name):
    """The word for a field of a Result; an en dash if it is empty."""
    stored = getattr(r, name)
    return glossary.shown(LISTS[name], stored) if stored else "–"


def quality_word(found):
    """What the interval of a score says of its bound: kept, lower, not determined."""
    return glossary.shown("quality", {HELD: "kept", FAILED: "worse", UNDECIDED: "open"}[found])


def limits(claim, r):
    """Why a claim that holds is SUPPORTED WITH LIMITS: the words of the limits that were found; [] of any other."""
    if r.verdict != "PARTLY":
        return []
    found = []
    if claim.quality is not None and r.finding is not None:
        q = r.finding.quality
        of = UNDECIDED if q is None or q.low is None else judge(q.range, claim.quality.region)
        if of != HELD or r.finding.unscored:
            found.append("worse" if of == FAILED else "open")
    if any(k.id in claim.rivals and meets_bound(of) for k, of in r.controls):
        found.append("rival")
    return [glossary.shown("limit", stored) for stored in found]


def meets_bound(of):
    """Whether a simpler method meets the bound, in one of several campaigns at least."""
    verdicts = [of.verdict, *(verdict for verdict, _ in of.each)]
    return of.estimate is not None and any(v in ("SUPPORTED", "PARTLY") for v in verdicts)


def verdict_text(claim, r):
    """The verdict as tables show it: "SUPPORTED WITH LIMITS: quality lower, simpler method"."""
    found = limits(claim, r)
    return shown(r.verdict) + (f": {', '.join(found)}" if found else "")


def counts_text(judged, verdicts):
    """How many claims have which verdict: "1 SUPPORTED, 0 NOT SUPPORTED, "."""
    return "".join(f"{sum(r.verdict == v for _, r in judged)} {shown(v)}, " for v in verdicts)
