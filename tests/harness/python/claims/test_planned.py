# SPDX-License-Identifier: Apache-2.0
"""Every claim has the points that it names: what its function asks for is looked up in the plans of its
artifacts, before anything is measured."""

import functools
import json
import os
import subprocess
import unittest

from unmask.claims import NeedsRows
from unmask.claims.declare import read_register
from unmask.claims.frame import settings_of
from unmask.claims.relation import Finding
from unmask.rows import intervals

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../..")
KNOWN = ("label", "workload", "model")  # the settings that a plan's points show
ONE = Finding("", intervals.Estimate(1, 1, 1, 1, "items", "counted"),
              [("", intervals.Estimate(1, 1, 1, 1, "items", "counted"))])
# Claims whose rows need what is not there yet; each says so at run time.
MISSING = {"optimus/capacity_over_ar": "a clock on which an autoregressive step keeps the objective",
           "optimus/capacity_over_ar_in_every_panel": "the same"}


class Enough(Exception):
    """The function looks at rows themselves from here on."""


@functools.lru_cache(maxsize=None)
def points_of(artifact, scale):
    """Labels, tasks and models that are planned; None where the file has no such scale or cannot run it here."""
    done = subprocess.run([os.environ["UNMASK_PROGRAM"], "run", artifact, "--scale", scale, "--dry-run",
                           "--format", "json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    plan = json.loads(done.stdout)
    return None if plan["obstacle"] else plan["points"] or None


class Planned:
    """Stands for a Frame over planned points."""

    def __init__(self, points):
        self.points = points

    def found(self, where):
        wanted = {key: [value] if isinstance(value, str) else value
                  for key, value in where.items() if key in KNOWN}
        return [p for p in self.points if all(p[key] in values for key, values in wanted.items())]

    def look(self, **where):
        if self.found(where):
            raise Enough
        return []

    def need(self, **where):
        if not self.found(where):
            raise NeedsRows({k: v for k, v in where.items() if k in KNOWN})

    def pick(self, **where):
        self.need(**where)
        raise Enough

    def pairs(self, of, over, **where):
        self.need(**{**where, **settings_of(of)})
        self.need(**{**where, **settings_of(over)})
        raise Enough


def two(frame, of, over, **where):
    frame.need(**{**where, **settings_of(of)})
    frame.need(**{**where, **settings_of(over)})
    return ONE


def rivals(frame, of, others, *clock, **where):
    for other in others:
        two(frame, of, other, **where)
    return ONE


def one(frame, *metrics, **where):
    frame.need(**where)
    return ONE


STAND_INS = {
    "speed": lambda f, of, over, *clock, **where: two(f, of, over, **where),
    "score": lambda f, of, over, by_item=False, **where: two(f, of, over, **where),
    "ratio": lambda f, metric, of, over, other=None, **where: two(f, of, over, **where),
    "growth": lambda f, metric, of, over, along, first, last, **where: two(f, of, over, **where),
    "falling": lambda f, clock, labels, **where: rivals(f, labels[0], labels[1:], **where),
    "fastest_rival": rivals, "at_equal_score": rivals, "level": one, "within_row": one}


def problem_of(claim, scale, stand_ins=STAND_INS):
    """What the plans of a claim's artifacts lack; "" where nothing, None where they cannot run here."""
    plans = [points_of(artifact, scale) for artifact in claim.artifacts]
    if any(plan is None for plan in plans):
        return None
    frame, known = Planned(sum(plans, [])), claim.function.__globals__
    kept = {name: known[name] for name in stand_ins if name in known}
    known.update({name: stand_ins[name] for name in kept})
    try:
        claim.function(frame)
    except NeedsRows as lack:
        return f"{claim.key} at {scale}: no point with {lack}"
    except Enough:
        pass
    finally:
        known.update(kept)
    return ""


# Claims about models that were trained for it, which no embedded one is: NOT APPLICABLE there.
OF_OTHER_MODELS = {"registry/editing_decides_more", "registry/several_blocks_decide_more"}
# So many pairs of items that all come out alike exclude a loss of two points.
ENOUGH_ITEMS = 200


def few_items(frame, of, over, *_, **where):
    """NeedsRows where fewer answers, or texts, of both sides are planned than say what a speed costs."""
    asked = {key: value for key, value in where.items() if key in KNOWN}
    if "workload" in asked and not frame.found({"workload": asked["workload"]}):
        del asked["workload"]
    anything = False
    for story in (False, True):
        sides = []
        for side in (of, over):
            found = [p for p in frame.found({**asked, **settings_of(side)}) if (p["workload"] == "story") == story]
            sides.append(sum({p["workload"]: p["items"] for p in found}.values()))
        if 0 < min(sides) < ENOUGH_ITEMS:
            raise NeedsRows(f"more than {min(sides)} items of {of} and {over}")
        anything |= min(sides) > 0
    if not anything:
        raise NeedsRows(f"items of {of} and {over}")
    return ONE


COUNTING = {**{name: one for name in STAND_INS},
            "speed": few_items,
            "growth": lambda f, metric, of, over, along, first, last, **where: few_items(f, of, over, **where),
            "falling": lambda f, clock, labels, **where: few_items(f, labels[-1], labels[0], **where),
            "fastest_rival": lambda f, of, others, *_, **where: [few_items(f, of, o, **where) for o in others][0],
            "at_equal_score": lambda f, of, others, *_, **where: [few_items(f, of, o, **where) for o in others][0]}


class EveryClaim(unittest.TestCase):
    def test_of_a_speed_has_a_score_that_can_be_told(self):
        register = read_register(os.path.join(ROOT, "experiments/claims"))
        problems, asked = [], 0
        for claim in register.claims + register.controls:
            if claim.quality is None or "tiny" not in claim.scales or claim.key in MISSING.keys() | OF_OTHER_MODELS:
                continue
            found = problem_of(claim, "scores", COUNTING)
            if found is None:  # what is timed is enough
                found = problem_of(claim, "tiny", COUNTING)
            asked += 1
            problems += [found] if found else []
        self.assertEqual(problems, [])
        self.assertGreater(asked, 60)

    def test_has_the_points_that_it_names(self):
        register = read_register(os.path.join(ROOT, "experiments/claims"))
        problems, asked = [], 0
        for claim in register.claims + register.controls:
            if claim.key in MISSING:
                continue
            found = [problem_of(claim, scale) for scale in claim.scales if scale in ("tiny", "real", "shapes")]
            found = [problem for problem in found if problem is not None]
            asked += bool(found)
            if any(found):
                problems.append(next(filter(None, found)))
        self.assertGreater(asked, 250)
        self.assertEqual(problems, [])

    def test_sees_what_is_not_planned(self):
        frame = Planned([{"label": "a", "workload": "story", "model": "m"}])
        self.assertIs(two(frame, "a", {"label": "a"}, workload=("story", "x"), batch_size=1), ONE)
        for lacking in ({"of": "b", "over": "a"}, {"of": "a", "over": "a", "workload": "other"}):
            with self.assertRaises(NeedsRows):
                two(frame, **lacking)


if __name__ == "__main__":
    unittest.main()
