# SPDX-License-Identifier: Apache-2.0
"""From what a claim's function found to its verdict: the bound decides that alone. The score of a speed and the
simplest method at that score are two statements of their own."""

from dataclasses import replace
import math

from unmask.claims.declare import RATIOS
from unmask.claims.frame import NeedsRows, settings_of
from unmask.claims.power import OUT_OF_REACH, needed, smallest_effect
from unmask.claims.relation import PROMPTS, growth, speed
from unmask.claims.words import quality_word
from unmask.rows import intervals
from unmask.rows.estimates import NOISY_HALF_WIDTH, estimate_text, interval_text, short_number
from unmask.rows.later import special
from unmask.rows.verdicts import FAILED, HELD, UNDECIDED, Region, judge

VERDICTS = ("SUPPORTED", "PARTLY", "SMALLER", "NOT SUPPORTED", "CLOCK DIFFERS", "NOT APPLICABLE", "OPEN", "NOT RUN")
SMALLER = 3  # beside HELD, UNDECIDED and FAILED: the bound is crossed, half of the published effect is excluded
# A rival counts if its score is at most so much lower than the method's.
AS_GOOD = 0.02


def result_of_interval(claim, e):
    """HELD, UNDECIDED, FAILED or SMALLER. Smaller than published: the interval crosses the bound of a direction, and
    less than half of the published effect is left in it. A count is exact for its prompts and decides for them."""
    if e.low is None:
        return UNDECIDED
    region = claim.bound.region
    if e.how == "counted":
        return HELD if region.holds(e.value) else FAILED
    found = judge(e.range, region)
    if found == UNDECIDED and claim.published is not None and claim.bound.edge == _neutral(claim):
        half = _halfway(claim)
        wanted = Region(low=half) if claim.bound.low is not None else Region(high=half)
        if judge(e.range, wanted) == FAILED:
            return SMALLER
    return found


def _neutral(claim):
    return 1.0 if claim.kind in RATIOS else 0.0 if claim.kind == "score" else None


def _halfway(claim):
    at = claim.published.value
    return math.sqrt(at) if claim.kind in RATIOS else at / 2


def _scale(claim, e):
    """Logarithms where a claim is about a ratio, else the value itself."""
    ends = [b for b in (claim.bound.low, claim.bound.high) if b is not None]
    return math.log if claim.kind in RATIOS and e.low > 0 and min(ends) > 0 else (lambda v: v)


def p_value(claim, e, found):
    """Two-sided p of the bound, or of half the published effect where that is what failed, from the interval: by
    Student's t on the scale of the claim, by the normal distribution where the interval is not Student's."""
    if e.low is None or e.low == e.high:
        return None
    scale = _scale(claim, e)
    ends = [_halfway(claim)] if found == SMALLER else [
        b for b in (claim.bound.low, claim.bound.high) if b is not None]
    p = []
    for b in ends:
        half = scale(e.value) - scale(e.low) if e.value > b else scale(e.high) - scale(e.value)
        p.append(1.0 if half <= 0 else _two_sided(abs(scale(e.value) - scale(b)) / half, e.degrees))
    return max(p)


def _two_sided(halves, degrees):
    """P of a distance of so many half widths of a 95 % interval."""
    if degrees is None or not degrees < 1e6:
        return 2 * float(special.ndtr(-intervals.Z95 * halves))
    return 2 * float(special.stdtr(degrees, -intervals.t_quantile(degrees) * halves))


def size(claim, e):
    """Whether the published number lies inside the interval."""
    p = claim.published
    if p is None:
        return "no size published"
    if e.low is None:
        return ""
    inside = e.low - p.rounding <= p.value <= e.high + p.rounding
    return "inside" if inside else "outside"


def verdict_of(claim, found):
    """The word. What a model of the machine does not give, the model does not give."""
    word = {HELD: "SUPPORTED", UNDECIDED: "OPEN", FAILED: "NOT SUPPORTED", SMALLER: "SMALLER"}[found]
    return "CLOCK DIFFERS" if claim.on_a_virtual_clock and word in ("NOT SUPPORTED", "SMALLER") else word


def weigh(claim, r):
    """The verdict of a result that has a finding, and the reason in words."""
    if r.synthetic:
        r.finding = _of_several_seeds(r.finding)
    e = r.finding.estimate
    found = result_of_interval(claim, e)
    r.size, r.p, r.verdict = size(claim, e), p_value(claim, e, found), verdict_of(claim, found)
    text = f"{r.finding.shown} = {estimate_text(e)}, bound {claim.bound.text}"
    if len(r.finding.points) > 1:
        text += f", of {len(r.finding.points)} sweep points"
    text += "".join(f"; {note}" for note in r.finding.notes)
    text += _precision(claim, e, found)
    if claim.quality is not None:
        text += _quality(claim, r)
    text += _repetition_text(r.finding)
    text += _simplest_text(r)
    if r.verdict == "CLOCK DIFFERS":
        text += "; the virtual clock does not reproduce it"
    if r.verdict != "SUPPORTED":
        text += _smallest(claim, e)
    if found == UNDECIDED:
        text += _to_close(claim, e)
    if r.tiny_models:
        text += "; on tiny models, not the paper's"
    if r.synthetic:
        text += "; by a model of the machine (synthetic weights or a virtual clock)"
    if r.dirty:
        text += f"; {r.dirty} of {r.rows} rows are of a build with uncommitted changes"
    r.reason = text
    return r


def _of_several_seeds(finding):
    """What a model of the machine drew once is exact for that seed. The worst of several such points is below the others
    by chance, so one seed gives it no interval."""
    e = finding.estimate
    if not finding.worst or e.how != "counted":
        return finding
    return replace(finding, estimate=replace(e, low=None, high=None, how="the worst of several points of one seed"))


def _precision(claim, e, found):
    if e.how == "counted":
        return "; an exact count for these prompts, without an interval over others"
    if e.low is None:
        return ""
    text = ""
    if claim.kind == "speed" and e.low > 0:
        half = math.sqrt(e.high / e.low) - 1
        text = f"; NOISY: the speed is known to ±{100 * half:.0f} %" if half > NOISY_HALF_WIDTH else ""
        over = "campaigns" if e.unit == "campaigns" else "repetitions"
        text += "" if PROMPTS in e.how else f"; the interval is over {over}, not over prompts"
    if found == SMALLER:
        half = _halfway(claim)
        half = f"{points(half)} pp" if claim.kind == "score" else short_number(half)
        text += f"; smaller than published: half of that effect, {half}, is excluded"
    return text


def _with_repetition(found, q, finding, region):
    """What a score says of its bound, if its texts also must not repeat themselves more by that. More repetition takes
    away `kept`, and so does a repetition that was not counted; if rows have it of every text, so does an interval that
    leaves it open. It makes the score lower if it is shown for other texts, too, unless these are shown to be likelier and
    are no likelier than the references: then one got better and one worse."""
    texts = finding.texts
    if found == HELD and finding.texts_uncounted:
        return UNDECIDED
    if texts is None or found == FAILED:
        return found
    as_often = judge(texts.change.range, region)
    if as_often == HELD or texts.over_items is None and region.holds(texts.change.value):
        return found
    better = q.low is not None and q.low > 0 and not texts.beyond
    return FAILED if not better and as_often == FAILED else UNDECIDED


def _left_open_by(by_score, q, texts):
    """The Estimate that leaves a score open: its own, else that of repetition if rows have it of every text, else None."""
    return q if by_score == UNDECIDED else texts.over_items if texts is not None else None


def _quality(claim, r):
    """The score of a speed: kept, open or worse by its own bound. One that is worse makes a speed that holds PARTLY."""
    q = r.finding.quality
    if q is None:
        return "; no score of these settings"
    by_score = judge(q.range, claim.quality.region) if q.low is not None else UNDECIDED
    found = _with_repetition(by_score, q, r.finding, claim.quality.region)
    r.score = {HELD: "kept", UNDECIDED: "open", FAILED: "worse"}[found]
    if r.verdict == "SUPPORTED" and found == FAILED:
        r.verdict = "PARTLY"
    unscored = r.finding.unscored
    of = f"settings on {r.finding.scored_on}" if r.finding.scored_on else "rows"
    text = f"; score of the same {of} {quality_word(r.score)}: {estimate_text(q)}, bound {claim.quality.text}"
    if unscored:
        text += f", {unscored} of {len(r.finding.points)} sweep points without one"
    open_one = _left_open_by(by_score, q, r.finding.texts) if found == UNDECIDED else None
    if open_one is not None:
        edge = claim.quality.edge
        r.score_needs = needed(open_one, [d for d in [min(abs(open_one.value - edge), abs(edge) or math.inf)] if d > 0])
        text += _needs_text(r.score_needs, "items")
    if open_one is q and q.low is not None and q.low < 0:
        text += f", shown: a loss of at most {points(-q.low)} pp"
    if by_score == HELD and r.finding.texts_uncounted:
        text += "; the quality is not determined, because the repetition of its texts was not counted"
    return text


def _repetition_text(finding):
    """How often the texts of both sides repeat themselves, which their likelihood does not show."""
    if finding.texts_uncounted:
        return "; how often these texts repeat themselves was not counted"
    return f"; {finding.texts.text}" if finding.texts else ""


def points(v):
    """A difference of scores, 0 to 1, in percentage points."""
    return f"{100 * v:.1f}"


def _needs_text(n, unit):
    if n is None:
        return ""
    return f", {n} {unit} would decide it at the observed effect{', which is out of reach' * (n > OUT_OF_REACH)}"


def _smallest(claim, e):
    effect = smallest_effect(e, claim.kind in RATIOS)
    if effect is None or claim.kind in RATIOS:
        return "" if effect is None else f"; smallest detectable difference: a factor of {effect:.3g}"
    return f"; smallest detectable difference: {100 * effect:.2g} pp" if claim.kind == "score" else (
        f"; smallest detectable difference: {short_number(effect)}")


def _to_close(claim, e):
    """Of an open claim: which bound is shown, and how much more of the same would decide it."""
    if e.low is None:
        return f"; INCONCLUSIVE, because it has no interval{f' ({e.how})' if e.how else ''}"
    shown = "; shown: " + _shown(claim, e)
    scale = _scale(claim, e)
    ends = [b for b in (claim.bound.low, claim.bound.high) if b is not None]
    far = min(abs(scale(e.value) - scale(b)) for b in ends)
    if claim.published is not None and claim.bound.edge == _neutral(claim):
        far = max(far, abs(scale(e.value) - scale(_halfway(claim))))
    if claim.kind == "score" and far == 0:
        return shown + "; no number of items decides a difference of 0: harder tasks would"
    if e.unit not in ("items", "repetitions", "seeds"):
        return shown
    n = needed(e, [far] if far > 0 else [], scale)
    return shown + _needs_text(n, e.unit).replace(", ", "; ", 1)


def _shown(claim, e):
    """The end of the interval that lies towards the bound, in the words of the claim."""
    least = claim.bound.low is not None
    end = e.low if least else e.high
    if claim.kind == "score":
        if least and end < 0:
            return f"a loss of at most {points(-end)} pp"
        return f"at {'least' if least else 'most'} {points(end)} pp"
    return f"at {'least' if least else 'most'} {short_number(end)}"


def over_simpler(claim, finding, frame):
    """({method: Estimate}, words): how many times as fast the method is as each simpler one whose score is not lower
    by more than two points, at the same quantity, tasks and baseline; and which are left out."""
    if finding.sides is None or not claim.simpler:
        return {}, ""
    found, worse, absent = {}, [], []
    for rival in claim.simpler:
        for side in _single(rival.sides.of):
            name = _side_text(side)
            try:
                f = _against(frame, finding.sides, side)
            except NeedsRows:
                absent.append(name)
                continue
            if claim.quality is not None and (f.quality is None or f.quality.value > AS_GOOD):
                worse.append(name)
            else:
                found[name] = f.estimate
    words = [f"simpler methods left out, because their score is lower or missing: {', '.join(worse)}"] if worse else []
    words += [f"simpler methods without rows: {', '.join(absent)}"] if absent else []
    return found, "; ".join(words)


def keep_simplest(r, found):
    """Keeps the fastest of several simpler methods, its interval corrected for their number."""
    if not found:
        return
    r.simplest = min(found, key=lambda name: found[name].value)
    e = found[r.simplest]
    if e.low is not None and e.low > 0:
        low, high = intervals.corrected_for(len(found), e, logs=True)
        e = replace(e, low=low, high=high)
    r.over_simplest = e


def from_elsewhere(claim, r, of):
    """Fills the column of the simplest method from the Result `of` of a control in another table that holds the same
    method against the simpler ones at its score, if its sweep points are those of the claim; else the reason says so."""
    if r.finding is None or r.over_simplest is not None:
        return
    name = claim.elsewhere[1]
    if of.estimate is None:
        r.reason += f"; simpler methods without rows: {name}"
    elif {at for at, _ in of.finding.points} == {at for at, _ in r.finding.points}:
        r.over_simplest, r.simplest = of.estimate, name
        r.reason += f"; over the simplest method at its score, {name}: {interval_text(of.estimate)}"
    else:
        r.elsewhere = of.estimate
        r.reason += (f"; over the simplest method at its score, {name}: only at other sweep points, "
                     f"{interval_text(of.estimate)}")


def _single(side):
    """A side that is one of several labels, one by one."""
    return [side] if isinstance(side, (str, dict)) else list(side)


def _side_text(side):
    settings = settings_of(side)
    others = ", ".join(f"{k} = {v}" for k, v in settings.items() if k not in ("label", "model"))
    return settings["label"] + (f" ({others})" if others else "")


def _against(frame, sides, rival):
    if sides.along:
        return growth(frame, sides.metric, sides.of, rival, *sides.along, **sides.where)
    return speed(frame, sides.of, rival, sides.metric, **sides.where)


def _simplest_text(r):
    text = ""
    if r.over_simplest is not None:
        text = f"; over the simplest method at its score, {r.simplest}: {interval_text(r.over_simplest)}"
    return text + (f"; {r.of_simplest}" if r.of_simplest else "")
