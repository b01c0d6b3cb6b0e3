# SPDX-License-Identifier: Apache-2.0
"""Several campaigns of the same register: where they lie, and the one estimate and verdict that they give together."""

from dataclasses import replace
from itertools import combinations
import math
import os
import tarfile

from unmask.claims.declare import RATIOS
from unmask.claims.judge import (SCORES, Evidence, correct, judge_all, name_controls, on_cpu_text, result_of,
                                 wants_controls)
from unmask.claims.relation import PROMPTS, smallest
from unmask.claims.weigh import from_elsewhere, keep_simplest, weigh
from unmask.claims.words import shown as shown_word, value_text
from unmask.rows import intervals
from unmask.rows.errors import UserError
from unmask.rows.estimates import APART
from unmask.rows.files import read_json
from unmask.rows.repetition import Repetition
from unmask.rows.rows import ARCHIVE, latest
from unmask.rows.shapes import TEXT, fit
from unmask.rows.text import json_value

RECORD = "campaign.json"  # what a campaign is of, in its folder
SHAPE = {"program?": TEXT, "register?": TEXT, "ended?": TEXT, "renewed?": {"*": TEXT}, "measured_first?": {"*": {"*": TEXT}}}
MENDED = " (unmask campaign makes it anew)"
DETERMINISTIC = "deterministic: another seed changes nothing"
SINGLE = "single: one campaign has its rows"


def archive_name(number):
    """rows.tar.xz of the first campaign, rows-2.tar.xz of the second."""
    return ARCHIVE if number == 1 else ARCHIVE.replace(".", f"-{number}.", 1)


def numbered(results):
    """[(number, folder)] of the campaigns of a folder, DIR/1, DIR/2, ..."""
    names = os.listdir(results) if os.path.isdir(results) else []
    return sorted((int(name), os.path.join(results, name)) for name in names
                  if name.isdigit() and os.path.isdir(os.path.join(results, name)))


def read_record(place):
    """What a campaign is of; None where it has not begun."""
    path = os.path.join(place, RECORD)
    if not os.path.lexists(path):
        return None
    try:
        return fit(read_json(path), SHAPE, path)
    except UserError as problem:
        raise UserError(f"{problem}{MENDED}") from None


def renewed_in(results):
    """{"PAPER/ARTIFACT/SCALE": its commit} of the tables and figures that were measured anew and are of another commit
    than the program of the first campaign, as the record of its archive says; {} of a folder without an archive."""
    return {} if numbered(results) else _record_in(os.path.join(results, ARCHIVE)).get("renewed", {})


def _record_in(path):
    """What the campaign of an archive is of; {} without an archive or a record in it."""
    if not os.path.isfile(path):
        return {}
    try:
        with tarfile.open(path, "r:xz") as archive:
            first = archive.next()  # the record leads
            if first is None or first.name != RECORD:
                return {}
            text = archive.extractfile(first).read().decode()
        return fit(json_value(text), SHAPE, f"{path}({RECORD})")
    except (tarfile.TarError, EOFError, ValueError) as problem:
        raise UserError(f"{path}: its {RECORD} cannot be read: {problem}") from None


def _measured_first(place, archive=ARCHIVE):
    """{"PAPER/ARTIFACT/SCALE": {label: when its first rows were finished}} of what a campaign measured again."""
    record = read_record(place)
    return (_record_in(os.path.join(place, archive)) if record is None else record).get("measured_first", {})


def evidence_of(results, since=None, artifacts=None):
    """The campaigns below a folder: its numbered folders, else its archives, else the folder itself. artifacts:
    "PAPER/ARTIFACT" of all that is read of archives; None: everything."""
    folders = numbered(results)
    if folders:
        found = [Evidence(place, since, measured_first=_measured_first(place)) for _, place in folders]
        for other, (_, place) in zip(found[1:], folders[1:]):
            _lend(found[0], other, bool((read_record(place) or {}).get("ended")))
        return found
    found, number = [Evidence(results, since, artifacts=artifacts, measured_first=_measured_first(results))], 2
    while os.path.isfile(os.path.join(results, archive_name(number))):
        name = archive_name(number)
        found.append(Evidence(results, since, name, artifacts, _measured_first(results, name)))
        _lend(found[0], found[-1], True)  # none is packed before its end
        number += 1
    return found


def _lend(first, other, ended):
    """The first campaign measures the scores beside speeds, and what another seed cannot change; the others
    read it there, as of their own seed: it is compared with rows in the same circumstances. What they did
    not measure before their end was not theirs to measure."""
    for place, rows in first.places.items():
        if not ended and not place.endswith("/" + SCORES):
            continue
        own = other.places.get(place, [])
        there = {_point(row): row["seed"] for row in own}
        seeds = {row["seed"]: there[_point(row)] for row in rows if _point(row) in there}
        lent = [row | {"seed": seeds.get(row["seed"], row["seed"])} for row in rows if _point(row) not in there]
        if lent:
            other.places[place] = latest(own + lent)
            other.lent.update(map(id, lent))


def _point(row):
    """What stays the same of a point when its seed changes."""
    return row["title"], row["position"], row["label"], row["variation"]


def _together(claim, results):
    """One result of several campaigns: the estimates of those that have rows of their own are combined, and the
    combined one is judged. If a precondition is not met in half of them, that is the verdict."""
    if all(r.verdict == "NOT RUN" and r.on_cpu is None for _, r in results):
        return claim, replace(results[0][1], campaigns="none")
    first = results[0][1]
    several = [r for _, r in results[1:] if r.own]
    if not several:
        words = SINGLE if claim.reads_the_clock else DETERMINISTIC
        return claim, replace(first, campaigns=words, each=[(first.verdict, first.estimate)])
    every = [first, *several]
    measured = [r for r in every if r.finding is not None]
    each = [(r.verdict, r.estimate) for r in every]
    elsewhere = [r for r in every if r.finding is None and r.verdict != "NOT RUN"]
    if not measured or len(elsewhere) >= len(measured):
        shown = next(iter(elsewhere or every))
        return claim, _on_a_cpu(claim, replace(shown, campaigns=str(len(every)), each=each), every)
    commits = tuple(sorted({commit for r in every for commit in r.commits}))
    shown = replace(measured[0], controls=[], of_controls="", commits=commits, finding=_combined(claim, [r.finding for r in measured]),
                    over_simplest=None, simplest="", each=each,
                    campaigns=str(len(every)) if len(measured) == len(every) else f"{len(measured)} of {len(every)}")
    if claim.quality is not None and shown.finding.quality is not None:
        shown.score, shown.score_needs = "", None
    keep_simplest(shown, _simpler_in_all(measured))
    weigh(claim, shown)
    if len({e and e.value for _, e in each}) > 1:
        shown.reason += "; by campaign: " + ", ".join(
            f"{shown_word(verdict)} {value_text(claim, e)}" for verdict, e in each)
    return claim, shown


def _on_a_cpu(claim, shown, every):
    """The value of a machine that the claim does not presume, over all campaigns."""
    found = [r.on_cpu for r in every if r.on_cpu is not None]
    if len(found) > 1 and shown.on_cpu is not None:
        together = _combined(claim, found)
        shown.reason = shown.reason.replace(on_cpu_text(shown.on_cpu), on_cpu_text(together))
        shown.on_cpu = together
    return shown


def _combined(claim, findings):
    """The finding of the first campaign with the estimate and the score of all. A point that was chosen for its value in the first
    is reported by the others alone."""
    first, found = findings[0], [f.estimate for f in findings]
    notes = list(first.notes)
    scores = [f.quality for f in findings if f.quality is not None]
    quality = _one_estimate(scores, False) if first.quality is not None else None
    texts = _texts_of_all([f.texts for f in findings])
    uncounted = any(f.texts_uncounted for f in findings) or first.texts is not None and texts is None
    first = replace(first, quality=quality, texts=texts, texts_uncounted=uncounted)
    if first.worst and len({tuple(name for name, _ in f.points) for f in findings}) == 1:
        return _worst_of_all([first, *findings[1:]])
    if first.picked:
        found = [e for f in findings[1:] for e in [_point_of(f, first)] if e is not None] or found[:1]
        notes.append(f"chosen in the first campaign, reported in {len(found)} others")
    estimate = _one_estimate(found, claim.kind in RATIOS)
    return replace(first, estimate=estimate, notes=notes)


def _texts_of_all(every):
    """How often the texts of all campaigns repeat themselves: the means of shares and likelihoods, and the difference as
    that of scores. None if a campaign has no judged texts or did not count."""
    if any(texts is None for texts in every):
        return None
    first, n = every[0], min(texts.n for texts in every)
    if all(texts == first for texts in every):
        return first
    ours, theirs, references = (intervals.mean([getattr(texts, name) for texts in every])
                                for name in ("ours", "theirs", "references"))
    likelihoods = tuple(map(intervals.mean, zip(*(texts.likelihoods for texts in every))))
    change = _one_estimate([texts.change for texts in every], False)
    if all(texts.over_items is not None for texts in every):
        return Repetition(ours, theirs, references, n, likelihoods, over_items=change)
    return Repetition(ours, theirs, references, n, likelihoods, over_campaigns=change)


def _worst_of_all(findings):
    """The worst of several points, each of which is combined over all campaigns before: the worst of each campaign would
    be below most of its points by chance alone."""
    first = findings[0]
    points = [(name, _one_estimate([f.points[i][1] for f in findings], True)) for i, (name, _) in enumerate(first.points)]
    return smallest(replace(first, points=points, notes=[note for note in first.notes if note != first.worst]))


def _point_of(finding, first):
    """The point of a finding that another one picked."""
    places = [name for name, _ in first.points]
    at = max(range(len(places)), key=lambda i: first.points[i][1].value)
    if len(finding.points) != len(places) or finding.points[at][0] != first.picked:
        return None
    return finding.points[at][1]


def _one_estimate(found, logs):
    """Of estimates that differ the combined one, of equal ones the first; without an interval where one has none. Exact
    counts, and times measured once, have that of their spread over campaigns."""
    first = found[0]
    if len({e.value for e in found}) == 1:
        return first
    exact = all(e.how == "counted" and e.low == e.high and (e.value > 0 or not logs) for e in found)
    if exact or all(map(_once, found)):
        each = [replace(e, low=e.value, high=e.value) for e in found]
        return replace(intervals.over_campaigns(each, logs, False), n=len(found), unit="campaigns")
    if any(e.low is None for e in found) or logs and any(not e.low > 0 for e in found):
        return first if len(found) == 1 else replace(first, value=intervals.mean([e.value for e in found]), low=None,
                                                     high=None, how="no interval in every campaign")
    shared = first.unit == "items" and first.how != "counted" or PROMPTS in first.how
    return intervals.over_campaigns(found, logs, shared)


def _once(e):
    """Whether a campaign found a time, or a rate, once and on one machine: the spread of several campaigns is its own."""
    return e.low is None and e.unit == "repetitions" and e.value > 0 and not e.how.startswith(APART)


def _simpler_in_all(results):
    """{simpler method: the method over it}, of those that score as well in every campaign."""
    names = [name for name in results[0].over_simpler if all(name in r.over_simpler for r in results)]
    return {name: _one_estimate([r.over_simpler[name] for r in results], True) for name in names}


def judge_campaigns(claims, register, evidence, asked):
    """Judges claims on all campaigns together. [(Claim, Result)]"""
    every = [judge_all(claims, register, one, asked) for one in evidence]
    judged = every[0] if len(every) == 1 else [_together(column[0][0], list(column)) for column in zip(*every)]
    for claim, r in judged:
        if claim.at_its_score is not None:
            r.reason = r.reason.removesuffix(r.of_controls)
            from_elsewhere(claim, r, controls_of([claim.at_its_score], evidence, asked)[0][1])
            r.reason += r.of_controls
    if len(every) == 1:
        return judged
    for claim, r in judged:
        names = claim.controls if wants_controls(r) else ()
        r.controls = controls_of([register.named(f"{claim.paper}/{name}") for name in names], evidence, asked)
        name_controls(claim, r)
    correct(judged)
    return judged


def controls_of(controls, evidence, asked):
    """The same of controls, which are judged by themselves."""
    every = [[(k, result_of(k, one, asked)) for k in controls] for one in evidence]
    if len(every) == 1:
        return every[0]
    return [_together(column[0][0], list(column)) for column in zip(*every)]


def _apart(a, b):
    """Whether the logarithms of two speeds differ by more than the 95 % interval of their difference allows,
    whose half width is sqrt(h_a^2 + h_b^2)."""
    halves = (math.log(e.high / e.low) / 2 for e in (a, b))
    return abs(math.log(a.value / b.value)) > math.hypot(*halves)


def agreement_text(judged):
    """How well several campaigns agree where their values differ: on how many verdicts, and how many pairs of
    speeds have a ratio whose interval excludes 1, as 5 in 100 have by chance; "" of one campaign."""
    several = [(c, r) for c, r in judged if len({e and (e.value, e.range) for _, e in r.each}) > 1]
    if not several:
        return ""
    same = sum(len({verdict for verdict, _ in r.each}) == 1 for _, r in several)
    text = f"{len(several)} have other values in other campaigns, {same} of them one verdict in all"
    timed = [[e for _, e in r.each if e and e.range and 0 < e.low < e.high]
             for c, r in several if c.kind == "speed" and c.reads_the_clock]
    pairs = [pair for found in timed for pair in combinations(found, 2)]
    if pairs:
        text += (f"; in {sum(_apart(*pair) for pair in pairs)} of {len(pairs)} pairs of speeds from two campaigns the "
                 "95 % interval of their ratio excludes 1 (by chance in 5 of 100)")
    return text
