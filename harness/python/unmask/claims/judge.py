# SPDX-License-Identifier: Apache-2.0
"""Judges what a claim's function found against what its declaration wants."""

from dataclasses import dataclass, field, replace
import math
import os
import shlex

from unmask.claims.declare import RATIOS
from unmask.claims.frame import Frame, NeedsRows
from unmask.claims.power import smallest_effect
from unmask.claims.relation import PROMPTS
from unmask.claims.words import quality_word, shown
from unmask.rows import experiments
from unmask.rows.errors import EnvironmentFault
from unmask.rows.estimates import NOISY_HALF_WIDTH, estimate_text, estimates_text, is_modelled, short_number
from unmask.rows.intervals import Z95, mean
from unmask.rows.later import special
from unmask.rows.rows import ARCHIVE, is_reportable, latest, places_below
from unmask.rows.verdicts import FAILED, HELD, UNDECIDED, Region, judge

VERDICTS = ("SUPPORTED", "PARTLY", "NOT SUPPORTED", "NOT APPLICABLE", "OPEN", "NOT RUN")
TINY_PARAMETERS = 100_000_000
SCORES = "scores"  # the scale of what is measured for its score alone
# A count is exact for its prompts and says nothing of others. Other draws of as many prompts moved
# counts by up to 3 %: what lies within 10 % of its bound stays open.
COUNT_MARGIN = 0.1
# The share of false ones among the claims that hold, by Benjamini and Hochberg, Journal of the Royal
# Statistical Society B 57 (1995) 289.
FALSE_DISCOVERIES = 0.05


@dataclass
class Result:
    verdict: str = "NOT RUN"
    size: str = ""             # "inside", "outside", "no size published"; "" where nothing ran
    reason: str = ""
    scale: str = ""
    finding: object = None
    p: float | None = None     # two-sided, of the bound
    after_correction: str = ""  # "holds", "no longer"; "" without p
    registered: str = ""       # "before its rows", "after its rows", "not registered"
    dirty: int = 0             # rows of a build with uncommitted changes
    rows: int = 0
    tiny_models: bool = False
    synthetic: bool = False
    controls: list = field(default_factory=list)  # [(Claim, Result)]
    of_controls: str = ""      # the end of the reason, which names them
    campaigns: str = ""        # how many of several campaigns give this verdict; "" of one
    each: list = field(default_factory=list)  # of every campaign: (verdict, Estimate or None)
    own: bool = True           # False: all its rows are lent by another campaign

    @property
    def estimate(self):
        return self.finding.estimate if self.finding else None

    @property
    def by_campaign(self):
        """Whether campaigns give several verdicts, so that no number of one of them says it all."""
        return len({verdict for verdict, _ in self.each}) > 1 and any(e for _, e in self.each)

    @property
    def measured_text(self):
        """The estimate; of several verdicts that of each campaign; "" where nothing was measured."""
        if self.by_campaign:
            return estimates_text([e for _, e in self.each])
        return estimate_text(self.estimate) if self.estimate else ""


class Evidence:
    """The rows below a folder of results, by their place PAPER/ARTIFACT/SCALE; what lies deeper was
    measured after a look at these, and is not read."""

    def __init__(self, results, since=None, archive=ARCHIVE):
        self.results, self.since, self.judged = results, since or {}, {}
        self.lent = set()  # ids of the rows that are another campaign's
        self.is_archive = os.path.isfile(os.path.join(results, archive))
        found = places_below(results, lambda place: place.count("/") <= 2, archive)
        self.places = {place: latest(rows) for place, rows in found.items() if rows}
        # A campaign of which nothing could run is judged all the same: NOT RUN, with what it needs.
        if not self.places and not os.path.isfile(os.path.join(results, "campaign.jsonl")):
            raise EnvironmentFault(f"{results} holds no result rows (PAPER/ARTIFACT/SCALE/rows.jsonl)")


def needs_text(artifact, scale):
    needs, not_run = experiments.stated_needs(artifact, scale)
    return not_run or ("needs " + ", ".join(needs) if needs else "")


def run_line(artifact, scale, place):
    return shlex.join(["unmask", "run", artifact, "--scale", scale, "-o", place])


def _judged_scale(claim, evidence, asked):
    """The scale asked for, else the first of the claim's own that has rows."""
    if asked in claim.scales:
        return asked
    for scale in claim.scales:
        if all(experiments.place_of(a, scale) in evidence.places for a in claim.artifacts):
            return scale
    return claim.scales[0]


def result_of(claim, evidence, asked):
    """Judges one claim or control by itself, once."""
    key = (claim.key, asked)
    if key not in evidence.judged:
        evidence.judged[key] = _judged(claim, evidence, asked)
    return evidence.judged[key]


def _judged(claim, evidence, asked):
    r = Result(scale=_judged_scale(claim, evidence, asked))
    rows = []
    for artifact in claim.artifacts:
        at = experiments.place_of(artifact, r.scale)
        if at not in evidence.places:
            where = os.path.join(evidence.results, at)
            needs = needs_text(artifact, r.scale)
            r.reason = f"no rows in {where}; {run_line(artifact, r.scale, where)}" + (
                f"; {needs}" if needs else "")
            return r
        rows += evidence.places[at]
    frame = Frame(rows, _more_scores(claim, r.scale, evidence))
    try:
        outside = next(filter(None, (_outside(g, frame) for g in claim.preconditions)), "")
        if outside:
            r.verdict, r.reason = "NOT APPLICABLE", f"presumes that {outside}"
            r.own = _has_own(frame.looked_at(), evidence)
            return r
        r.finding = claim.function(frame)
    except NeedsRows as lack:
        r.reason = f"needs {lack}" + _unreportable(frame)
        return r
    _describe_rows(r, frame.looked_at())
    r.own = _has_own(frame.looked_at(), evidence)
    _register_state(claim, r, frame.looked_at(), evidence.since)
    return _weigh(claim, r)


def _more_scores(claim, scale, evidence):
    """Of a speed on few items: rows of the same settings on as many as a score needs (scale `scores`)."""
    if claim.quality is None or scale != "tiny":
        return []
    return [row for a in claim.artifacts
            for row in evidence.places.get(experiments.place_of(a, SCORES), [])]


def _values_by_task(g, frame, where):
    """{task: the values of the precondition's metric in its rows}."""
    found = {}
    for row in frame.pick(**where):
        value = g.value(row)
        if value is not None:
            found.setdefault(row["workload"]["family"], []).append(value)
    return found


def _outside(g, frame):
    """The precondition `g` with what was measured where it is not met; "" where it is. Of a claim about tasks
    the rows of those that do not meet it are left out."""
    found = _values_by_task(g, frame, g.where)
    if g.over:
        base = _values_by_task(g, frame, g.over)
        found = {task: [mean(values) / mean(base[task])] for task, values in found.items()
                 if task in base and mean(base[task]) > 0}
    if not found:
        raise NeedsRows(f"{g.metric_name} in the rows, for the precondition that {g.says}")
    if g.by_task:
        inside = [task for task, values in found.items() if g.bound.region.holds(mean(values))]
        frame.keep_tasks(inside)
        if inside:
            return ""
    here = mean([v for values in found.values() for v in values])
    return "" if g.bound.region.holds(here) and not g.by_task else (
        f"{g.says}; here {g.metric_name} is {short_number(here)}{' times as much' if g.over else ''}, "
        f"wanted {g.bound.text}")


def _unreportable(frame):
    bad = [row for row in frame.all if not is_reportable(row)][:1]
    return "".join(f"; {row['label']} is {row['verdict']}: {row['reason']}" for row in bad)


def _describe_rows(r, used):
    r.rows = len({id(row) for row in used})
    r.tiny_models = any(row["model"]["parameters"] < TINY_PARAMETERS for row in used)
    r.synthetic = any(map(is_modelled, used))
    dirty = {id(row) for row in used if row["environment"].get("build", {}).get("git_dirty")}
    r.dirty = len(dirty)


def _has_own(used, evidence):
    return not used or any(id(row) not in evidence.lent for row in used)


def _register_state(claim, r, used, since):
    entry = since.get(claim.key)
    if not since or entry is None or entry["hash"] != claim.hash:
        r.registered = "not registered"
    else:
        first = min((row["finished_at"] for row in used), default="")
        r.registered = "before its rows" if entry["since"] <= first else "after its rows"


def _result_of_interval(claim, e):
    """HELD, UNDECIDED or FAILED. A direction fails too where less than half of the published effect is
    left in the interval: so small an effect is not the paper's."""
    if e.low is None:
        return UNDECIDED
    region = claim.bound.region
    if e.how == "counted":
        if _distance(claim, e.value) <= COUNT_MARGIN:
            return UNDECIDED
        return HELD if region.holds(e.value) else FAILED
    found = judge(e.range, region)
    if found == UNDECIDED and claim.published is not None and claim.bound.edge == _neutral(claim):
        half = _halfway(claim)
        wanted = Region(low=half) if claim.bound.low is not None else Region(high=half)
        if judge(e.range, wanted) == FAILED:
            return FAILED
    return found


def _neutral(claim):
    return 1.0 if claim.kind in RATIOS else 0.0 if claim.kind == "score" else None


def _halfway(claim):
    at = claim.published.value
    return math.sqrt(at) if claim.kind in RATIOS else at / 2


def _distance(claim, v):
    """How far a counted value lies from the nearest end of its bound, relative to it."""
    ends = [b for b in (claim.bound.low, claim.bound.high) if b]
    return min((abs(v - b) / abs(b) for b in ends), default=abs(v))


def _p_value(claim, e, found):
    """Two-sided p of the bound, or of half the published effect where that is what failed, from the
    interval: normal on the scale of the claim."""
    if e.low is None or e.low == e.high:
        return None
    scale = math.log if claim.kind in RATIOS and e.low > 0 and claim.bound.edge > 0 else (lambda v: v)
    ends = [b for b in (claim.bound.low, claim.bound.high) if b is not None]
    if found == FAILED and judge(e.range, claim.bound.region) != FAILED:
        ends = [_halfway(claim)]
    p = []
    for b in ends:
        half = scale(e.value) - scale(e.low) if e.value > b else scale(e.high) - scale(e.value)
        p.append(1.0 if half <= 0 else 2 * float(
            special.ndtr(-Z95 * abs(scale(e.value) - scale(b)) / half)))
    return max(p)


def _size(claim, e):
    p = claim.published
    if p is None:
        return "no size published"
    if e.low is None:
        return ""
    inside = e.low - p.rounding <= p.value <= e.high + p.rounding
    return "inside" if inside else "outside"


def _weigh(claim, r):
    e = r.finding.estimate
    found = _result_of_interval(claim, e)
    r.size, r.p = _size(claim, e), _p_value(claim, e, found)
    r.verdict = {HELD: "SUPPORTED", UNDECIDED: "OPEN", FAILED: "NOT SUPPORTED"}[found]
    text = f"{r.finding.shown} = {estimate_text(e)}, wanted {claim.bound.text}"
    if len(r.finding.points) > 1:
        text += f", of {len(r.finding.points)} points"
    text += "".join(f"; {note}" for note in r.finding.notes)
    text += _precision(claim, r, found)
    if claim.quality is not None:
        text += _quality(claim, r)
    if r.verdict != "SUPPORTED":
        text += _smallest(claim, e)
    if r.verdict == "OPEN" and claim.kind == "score":
        text += f"; it needs {claim.items}"
    if r.tiny_models:
        text += "; on tiny models, not the paper's"
    if r.synthetic:
        text += "; by a model of the machine (synthetic weights or a virtual clock)"
    if r.dirty:
        text += f"; {r.dirty} of {r.rows} rows are of a build with uncommitted changes"
    r.reason = text
    return r


def _precision(claim, r, found):
    e = r.finding.estimate
    if e.how == "counted":
        return "; counted on these prompts, no interval over others" + (
            f": within {100 * COUNT_MARGIN:g} % of the bound" if found == UNDECIDED else "")
    if e.low is None:
        return f"; no interval: {e.how}" if e.how else "; no interval"
    text = ""
    if claim.kind == "speed" and e.low > 0:
        half = math.sqrt(e.high / e.low) - 1
        text = f"; NOISY: ±{100 * half:.0f} %" if half > NOISY_HALF_WIDTH else ""
        text += "" if PROMPTS in e.how else "; over repetitions alone, not over prompts"
    if found == FAILED and judge(e.range, claim.bound.region) != FAILED:
        text += f"; the interval excludes half of the published effect, {short_number(_halfway(claim))}"
    return text


def _quality(claim, r):
    """The score beside a speed: one that is worse, open or missing makes a speed that holds PARTLY."""
    q = r.finding.quality
    if q is None:
        if r.verdict == "SUPPORTED":
            r.verdict = "PARTLY"
        return "; no score of these settings"
    found = judge(q.range, claim.quality.region) if q.low is not None else UNDECIDED
    unscored = r.finding.unscored
    if r.verdict == "SUPPORTED" and (found != HELD or unscored):
        r.verdict = "PARTLY"
    of = f"settings on {r.finding.scored_on}" if r.finding.scored_on else "rows"
    return (f"; score of the same {of} {quality_word(found)}: {estimate_text(q)}, wanted {claim.quality.text}" +
            (f", {unscored} of {len(r.finding.points)} points without one" if unscored else ""))


def _smallest(claim, e):
    effect = smallest_effect(e, claim.kind in RATIOS)
    if effect is None or claim.kind in RATIOS:
        return "" if effect is None else f"; could have seen a factor of {effect:.3g}"
    return f"; could have seen {100 * effect:.2g} points" if claim.kind == "score" else (
        f"; could have seen a difference of {short_number(effect)}")


def judge_all(claims, register, evidence, asked):
    """Judges claims with their controls, and all of them together for multiplicity. [(Claim, Result)]"""
    judged = []
    for claim in claims:
        r = replace(result_of(claim, evidence, asked), controls=[])
        _look_at_controls(claim, r, register, evidence, asked)
        name_controls(claim, r)
        judged.append((claim, r))
    _correct(judged)
    return judged


def _look_at_controls(claim, r, register, evidence, asked):
    """A rival that passes the same bound makes a claim that holds PARTLY; the other controls are asked
    where it does not hold."""
    def found(name):
        control = register.named(f"{claim.paper}/{name}")
        return control, result_of(control, evidence, asked)
    r.controls += map(found, claim.rivals)
    if r.estimate is None:
        return
    if r.verdict == "SUPPORTED" and any(_passes(of.verdict) and of.estimate for _, of in r.controls):
        r.verdict = "PARTLY"
    if r.verdict in ("NOT SUPPORTED", "PARTLY"):
        r.controls += map(found, claim.controls)


def _passes(verdict):
    return verdict in ("SUPPORTED", "PARTLY")


def name_controls(claim, r):
    """Ends the reason with the controls that were looked at: rivals that pass, all others, each with the verdict
    that its table shows."""
    text = ""
    if r.estimate is not None:
        rivals = [(k, of) for k, of in r.controls if k.id in claim.rivals]
        text += "".join(_rival_text(k, of) for k, of in rivals)
        not_run = [k.id for k, of in rivals if of.verdict == "NOT RUN"]
        text += f"; controls not run: {', '.join(not_run)}" if not_run else ""
        text += "".join(f"; control: {_found_text(k, of)}" for k, of in r.controls if k.id not in claim.rivals)
        if r.verdict in ("NOT SUPPORTED", "PARTLY") and not claim.controls and not claim.rivals:
            text += "; no control"
    r.reason, r.of_controls = r.reason.removesuffix(r.of_controls) + text, text


def _rival_text(rival, of):
    """Of a rival that passes, in some of several campaigns at least; else ""."""
    in_each = [_passes(verdict) for verdict, _ in of.each]
    if of.estimate is None or not (_passes(of.verdict) or any(in_each)):
        return ""
    where = "" if _passes(of.verdict) else f" in {sum(in_each)} of {len(in_each)} campaigns"
    return f"; a simpler method passes{where}: {_found_text(rival, of)}"


def _found_text(control, of):
    text = f"{control.statement.rstrip('.')}: {shown(of.verdict)}"
    if of.by_campaign:
        return f"{text} ({of.measured_text})"
    return text + (f", {of.measured_text}" if of.estimate else "")


def _correct(judged):
    """Benjamini and Hochberg over all claims that have a p."""
    known = sorted((r for _, r in judged if r.p is not None), key=lambda r: r.p)
    passed = [i for i, r in enumerate(known, 1) if r.p <= FALSE_DISCOVERIES * i / len(known)]
    last = max(passed, default=0)
    for i, r in enumerate(known, 1):
        r.after_correction = "holds" if i <= last else "no longer"
        if r.verdict == "OPEN":
            r.after_correction = "open"
