# SPDX-License-Identifier: Apache-2.0
"""Judges what a claim's function found against what its declaration wants."""

from dataclasses import dataclass, field, replace
import os
import shlex

from unmask.claims.frame import Frame, NeedsRows
from unmask.claims.weigh import keep_simplest, over_simpler, weigh
from unmask.claims.words import shown
from unmask.rows import experiments, glossary
from unmask.rows.errors import EnvironmentFault
from unmask.rows.estimates import estimate_text, interval_text, is_modelled, short_number
from unmask.rows.intervals import mean
from unmask.rows.rows import ARCHIVE, is_reportable, latest, places_below

TINY_PARAMETERS = 100_000_000
SCORES = "scores"  # the scale of what is measured for its score alone
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
    commits: tuple = ()        # that its rows are of, the first eight digits of each
    tiny_models: bool = False
    synthetic: bool = False
    controls: list = field(default_factory=list)  # [(Claim, Result)]
    of_controls: str = ""      # the end of the reason, which names them
    score: str = ""            # of a speed: "kept", "open", "worse"; "" without a score
    score_needs: int | None = None  # of an open one: items, by the observed spread
    over_simpler: dict = field(default_factory=dict)  # {simpler method at its score: Estimate}
    over_simplest: object = None    # Estimate: the method over the simplest one at its score
    simplest: str = ""              # which that is
    elsewhere: object = None        # Estimate of `at_its_score`, if its rows are of other models, tasks or batch sizes
    of_simplest: str = ""           # which were left out
    on_cpu: object = None      # Finding: what a machine that the claim does not presume gave
    campaigns: str = ""        # of how many campaigns the estimate is; "" of one folder without others
    each: list = field(default_factory=list)  # of every campaign: (verdict, Estimate or None)
    own: bool = True           # False: all its rows are lent by another campaign

    @property
    def estimate(self):
        return self.finding.estimate if self.finding else None

    @property
    def measured_text(self):
        """The estimate, over all campaigns where there are several; "" where nothing was measured."""
        return estimate_text(self.estimate) if self.estimate else ""

    @property
    def score_text(self):
        """The score of a speed: kept, open with the items that it needs, or worse."""
        if self.finding is None or self.finding.quality is None:
            return ""
        needs = f", needs {self.score_needs} items" if self.score_needs else ""
        return f"{self.score or 'not judged'}{needs}: {estimate_text(self.finding.quality)}"

    @property
    def simplest_text(self):
        return f"{interval_text(self.over_simplest)} over {self.simplest}" if self.over_simplest else ""


class Evidence:
    """The rows below a folder of results, by their place PAPER/ARTIFACT/SCALE; what lies deeper was
    measured after a look at these, and is not read. artifacts: "PAPER/ARTIFACT" of the only tables and figures that are
    read of an archive, which is large; None: all. measured_first: {place: {label: when its first rows were finished}} of
    what was measured again, whose earlier rows are gone."""

    def __init__(self, results, since=None, archive=ARCHIVE, artifacts=None, measured_first=None):
        self.results, self.since, self.judged = results, since or {}, {}
        self.measured_first = measured_first or {}
        self.lent = set()  # ids of the rows that are another campaign's
        self.is_archive = os.path.isfile(os.path.join(results, archive))
        def is_near(place):
            return place.count("/") <= 2
        found = places_below(results, is_near, archive, lambda place: is_near(place) and (
            artifacts is None or place.rpartition("/")[0] in artifacts))
        self.places = {place: latest(rows) for place, rows in found.items() if rows}
        self.place_of = {id(row): place for place, rows in self.places.items() for row in rows}
        # A campaign of which nothing could run is judged all the same: NOT RUN, with what it needs.
        some = self.places or self.is_archive and artifacts is not None
        if not some and not os.path.isfile(os.path.join(results, "campaign.jsonl")):
            raise EnvironmentFault(f"{results} holds no results (PAPER/TABLE/SCALE/rows.jsonl); give the folder of a campaign")


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
        for g in claim.preconditions:
            outside = _outside(g, frame)
            if outside:
                return _of_another_regime(claim, r, g, outside, frame, evidence)
        asked_before = len(frame.used)
        r.finding = claim.function(frame)
    except NeedsRows as lack:
        r.reason = f"needs {lack}" + _unreportable(frame)
        return r
    compared = frame.used[asked_before:] + (frame.scores.used if frame.scores else [])
    r.over_simpler, r.of_simplest = over_simpler(claim, r.finding, frame)
    keep_simplest(r, r.over_simpler)
    _describe_rows(r, frame.looked_at())
    r.own = _has_own(frame.looked_at(), evidence)
    _register_state(claim, r, first_seen(frame.looked_at(), compared, evidence), evidence.since)
    return weigh(claim, r)


def _of_another_regime(claim, r, g, outside, frame, evidence):
    """A claim whose precondition is not met: NOT RUN where a machine is lacking, with what this one gives; of the
    clock where the assumed cost contradicts the paper; else NOT APPLICABLE."""
    r.verdict = {"machine": "NOT RUN", "clock": "CLOCK DIFFERS"}.get(g.lacks, "NOT APPLICABLE")
    r.reason = f"presumes that {outside}"
    if g.lacks == "clock":
        r.reason += "; the virtual clock does not reproduce it"
    if g.lacks == "machine":
        r.reason = f"needs a GPU: {g.says}"
        try:
            r.on_cpu = claim.function(frame)
            r.reason += on_cpu_text(r.on_cpu)
        except NeedsRows:
            pass
    r.own = _has_own(frame.looked_at(), evidence)
    return r


def on_cpu_text(found):
    """What a CPU gave for a claim that is about a GPU."""
    return f"; on this CPU {found.shown} = {estimate_text(found.estimate)}"


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
    name = glossary.find_heading(g.metric_name) or g.metric_name
    here = mean([v for values in found.values() for v in values])
    return "" if g.bound.region.holds(here) and not g.by_task else (
        f"{g.says}; here {name} is {short_number(here)}{' times as much' if g.over else ''}, "
        f"bound {g.bound.text}")


def _unreportable(frame):
    bad = [row for row in frame.all if not is_reportable(row)][:1]
    return "".join(f"; {row['label']} is {row['verdict']}: {row['reason']}" for row in bad)


def _describe_rows(r, used):
    r.rows = len({id(row) for row in used})
    r.tiny_models = any(row["model"]["parameters"] < TINY_PARAMETERS for row in used)
    r.synthetic = any(map(is_modelled, used))
    dirty = {id(row) for row in used if row["environment"].get("build", {}).get("git_dirty")}
    r.dirty = len(dirty)
    r.commits = tuple(sorted({row["source_hash"][:8] for row in used}))


def _has_own(used, evidence):
    return not used or any(id(row) not in evidence.lent for row in used)


def first_seen(used, compared, evidence):
    """When rows could first suggest a claim: when the first that it is judged on was finished or, if rows were there
    before, when these had every label that it compares in one place. "" without rows."""
    places = {}
    for row in compared:
        place, label = evidence.place_of.get(id(row), ""), row["label"]
        labels = places.setdefault(place, {})
        recorded = evidence.measured_first.get(place, {}).get(label, row["finished_at"])
        labels[label] = min(recorded, row["finished_at"], labels.get(label, recorded))
    return min([row["finished_at"] for row in used] + [max(labels.values()) for labels in places.values()], default="")


def _register_state(claim, r, first, since):
    entry = since.get(claim.key)
    if not since or entry is None or entry["hash"] != claim.hash:
        r.registered = "not registered"
    else:
        r.registered = "before its rows" if entry["since"] <= first else "after its rows"


def judge_all(claims, register, evidence, asked):
    """Judges claims with their controls, and all of them together for multiplicity. [(Claim, Result)]"""
    judged = []
    for claim in claims:
        r = replace(result_of(claim, evidence, asked), controls=[])
        _look_at_controls(claim, r, register, evidence, asked)
        name_controls(claim, r)
        judged.append((claim, r))
    correct(judged)
    return judged


# Verdicts that a control may explain.
NOT_HELD = ("PARTLY", "SMALLER", "NOT SUPPORTED", "CLOCK DIFFERS")


def _look_at_controls(claim, r, register, evidence, asked):
    """The controls of a claim that does not hold, or that waits for a machine which its controls do without."""
    def found(name):
        control = register.named(f"{claim.paper}/{name}")
        return control, result_of(control, evidence, asked)
    if wants_controls(r):
        r.controls += map(found, claim.controls)


def wants_controls(r):
    return r.estimate is not None and r.verdict in NOT_HELD or r.on_cpu is not None


def name_controls(claim, r):
    """Ends the reason with the controls that were looked at, each with the verdict that its table shows."""
    text = "".join(f"; control: {_found_text(k, of)}" for k, of in r.controls)
    if r.estimate is not None and r.verdict in NOT_HELD and not claim.controls and not claim.rivals:
        text += "; no control"
    r.reason, r.of_controls = r.reason.removesuffix(r.of_controls) + text, text


def _found_text(control, of):
    text = f"{control.statement.rstrip('.')}: {shown(of.verdict)}"
    return text + (f", {of.measured_text}" if of.estimate else "")


def correct(judged):
    """Benjamini and Hochberg over all claims that have a p."""
    known = sorted((r for _, r in judged if r.p is not None), key=lambda r: r.p)
    passed = [i for i, r in enumerate(known, 1) if r.p <= FALSE_DISCOVERIES * i / len(known)]
    last = max(passed, default=0)
    for i, r in enumerate(known, 1):
        r.after_correction = "holds" if i <= last else "no longer"
        if r.verdict == "OPEN":
            r.after_correction = "open"
