# SPDX-License-Identifier: Apache-2.0
"""Several campaigns of the same register: where they lie, and what verdict they give together."""

from collections import Counter
from dataclasses import replace
import os

from unmask.register.judge import SCORES, Evidence, judge_all, result_of
from unmask.rows import ARCHIVE


def archive_name(number):
    """rows.tar.xz of the first campaign, rows-2.tar.xz of the second."""
    return ARCHIVE if number == 1 else ARCHIVE.replace(".", f"-{number}.", 1)


def numbered(results):
    """[(number, folder)] of the campaigns of a folder, DIR/1, DIR/2, ..."""
    names = os.listdir(results) if os.path.isdir(results) else []
    return sorted((int(name), os.path.join(results, name)) for name in names
                  if name.isdigit() and os.path.isdir(os.path.join(results, name)))


def evidence_of(results, since=None):
    """The campaigns below a folder: its numbered folders, else its archives, else the folder itself."""
    folders = numbered(results)
    if folders:
        return _with_scores_of_the_first([Evidence(place, since) for _, place in folders])
    found, number = [Evidence(results, since)], 2
    while os.path.isfile(os.path.join(results, archive_name(number))):
        found.append(Evidence(results, since, archive_name(number)))
        number += 1
    return _with_scores_of_the_first(found)


def _with_scores_of_the_first(campaigns):
    """The first campaign measures the scores beside speeds; the others read them there."""
    for place, rows in campaigns[0].places.items():
        if place.endswith("/" + SCORES):
            for other in campaigns[1:]:
                other.places.setdefault(place, rows)
    return campaigns


def _together(claim, results):
    """The verdict that most campaigns give, shown with the numbers of the first that gives it. Where none
    has a majority the claim is OPEN: whoever measures it next may find either."""
    count = Counter(r.verdict for _, r in results)
    verdict, times = count.most_common(1)[0]
    shown = next(r for _, r in results if r.verdict == verdict)
    words = f"{times} of {len(results)}"
    if times < len(results):
        words += ": " + ", ".join(r.verdict for _, r in results)
    if 2 * times <= len(results):
        shown = replace(results[0][1], verdict="OPEN", after_correction="open")
    return claim, replace(shown, campaigns=words,
                          each=[(r.verdict, r.estimate) for _, r in results])


def judge_campaigns(claims, register, evidence, asked):
    """Judges claims on every campaign by itself and on all. [(Claim, Result)]"""
    every = [judge_all(claims, register, one, asked) for one in evidence]
    if len(every) == 1:
        return every[0]
    return [_together(column[0][0], list(column)) for column in zip(*every)]


def controls_of(controls, evidence, asked):
    """The same of controls, which are judged by themselves."""
    every = [[(k, result_of(k, one, asked)) for k in controls] for one in evidence]
    if len(every) == 1:
        return every[0]
    return [_together(column[0][0], list(column)) for column in zip(*every)]
