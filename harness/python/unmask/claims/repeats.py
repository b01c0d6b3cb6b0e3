# SPDX-License-Identifier: Apache-2.0
"""Several campaigns of the same register: where they lie, and what verdict they give together."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
import math
import os

from unmask.claims.judge import SCORES, Evidence, judge_all, name_controls, result_of
from unmask.claims.words import shown as shown_word
from unmask.rows.errors import UserError
from unmask.rows.estimates import interval_text
from unmask.rows.files import read_json
from unmask.rows.rows import ARCHIVE, latest
from unmask.rows.shapes import TEXT, fit

RECORD = "campaign.json"  # what a campaign is of, in its folder
MENDED = " (unmask campaign makes it anew)"
ONCE = "deterministic: another seed changes nothing"


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
    shape = {"program?": TEXT, "register?": TEXT, "ended?": TEXT}
    if not os.path.lexists(path):
        return None
    try:
        return fit(read_json(path), shape, path)
    except UserError as problem:
        raise UserError(f"{problem}{MENDED}") from None


def evidence_of(results, since=None):
    """The campaigns below a folder: its numbered folders, else its archives, else the folder itself."""
    folders = numbered(results)
    if folders:
        found = [Evidence(place, since) for _, place in folders]
        for other, (_, place) in zip(found[1:], folders[1:]):
            _lend(found[0], other, bool((read_record(place) or {}).get("ended")))
        return found
    found, number = [Evidence(results, since)], 2
    while os.path.isfile(os.path.join(results, archive_name(number))):
        found.append(Evidence(results, since, archive_name(number)))
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
    """The verdict that most campaigns give, shown with the numbers of the first that gives it and, where they give
    several verdicts, with the interval of each. Where none has a majority the claim is OPEN: whoever measures it
    next may find either. Campaigns without a row of their own say nothing."""
    if all(r.verdict == "NOT RUN" for _, r in results):
        return claim, replace(results[0][1], campaigns="none")
    results = results[:1] + [(c, r) for c, r in results[1:] if r.own]
    if len(results) == 1:
        return claim, replace(results[0][1], campaigns="one has its rows" if claim.reads_the_clock else ONCE,
                              each=[(r.verdict, r.estimate) for _, r in results])
    count = Counter(r.verdict for _, r in results)
    verdict, times = count.most_common(1)[0]
    shown = next(r for _, r in results if r.verdict == verdict)
    words = f"{times} of {len(results)}"
    if times < len(results):
        words += ": " + ", ".join(shown_word(r.verdict) for _, r in results)
    if 2 * times <= len(results):
        shown = replace(results[0][1], verdict="OPEN", after_correction="open")
    shown = replace(shown, campaigns=words, each=[(r.verdict, r.estimate) for _, r in results])
    if shown.by_campaign:
        of_each = ", ".join(f"{shown_word(verdict)} {interval_text(e)}" for verdict, e in shown.each)
        shown.reason = f"{shown.reason.removesuffix(shown.of_controls)}; by campaign: {of_each}{shown.of_controls}"
    return claim, shown


def judge_campaigns(claims, register, evidence, asked):
    """Judges claims on every campaign by itself and on all. [(Claim, Result)]"""
    every = [judge_all(claims, register, one, asked) for one in evidence]
    if len(every) == 1:
        return every[0]
    judged = [_together(column[0][0], list(column)) for column in zip(*every)]
    for claim, r in judged:
        r.controls = controls_of([k for k, _ in r.controls], evidence, asked)
        name_controls(claim, r)
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
    speeds lie further apart than their intervals allow, of which 5 in 100 would by chance; "" of one campaign."""
    several = [(c, r) for c, r in judged if len({e and (e.value, e.range) for _, e in r.each}) > 1]
    if not several:
        return ""
    same = sum(len({verdict for verdict, _ in r.each}) == 1 for _, r in several)
    text = f"{len(several)} have other values in other campaigns, {same} of them one verdict in all"
    timed = [[e for _, e in r.each if e and e.range and 0 < e.low < e.high]
             for c, r in several if c.kind == "speed" and c.reads_the_clock]
    pairs = [pair for found in timed for pair in combinations(found, 2)]
    if pairs:
        text += (f"; of {len(pairs)} pairs of speeds from two campaigns {sum(_apart(*pair) for pair in pairs)} lie "
                 "further apart than both 95 % intervals allow (by chance 5 in 100 would)")
    return text
