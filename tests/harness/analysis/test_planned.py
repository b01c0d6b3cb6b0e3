# SPDX-License-Identifier: Apache-2.0
"""Every claim has the points that it names: what its function asks for is looked up in the plans of its
artifacts, before anything is measured."""

import functools
import json
import os
import subprocess
import unittest

from unmask import intervals
from unmask.register import NeedsRows
from unmask.register.compare import Finding
from unmask.register.declare import read_register
from unmask.register.frame import settings_of

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
KNOWN = ("label", "workload", "model")  # the settings that a plan's points show
ONE = Finding("", intervals.Estimate(1, 1, 1, 1, "items", "counted"),
              [("", intervals.Estimate(1, 1, 1, 1, "items", "counted"))])
# Claims whose rows need what is not there yet; each says so at run time.
MISSING = {"focus/placeholders_cost_one": "a counter of computations of a position for a placeholder",
           "optimus/capacity_over_ar": "a clock on which an autoregressive step keeps the objective",
           "optimus/capacity_over_ar_in_every_panel": "the same",
           "sparse_dllm/memory_is_linear": "K/V counted in slots",
           "ada_dlm/seeds_agree": "drawn tokens: its precondition is not met"}


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


def problem_of(claim, scale):
    """What the plans of a claim's artifacts lack; "" where nothing, None where they cannot run here."""
    plans = [points_of(artifact, scale) for artifact in claim.artifacts]
    if any(plan is None for plan in plans):
        return None
    frame, known = Planned(sum(plans, [])), claim.function.__globals__
    kept = {name: known[name] for name in STAND_INS if name in known}
    known.update({name: STAND_INS[name] for name in kept})
    try:
        claim.function(frame)
    except NeedsRows as lack:
        return f"{claim.key} at {scale}: no point with {lack}"
    except Enough:
        pass
    finally:
        known.update(kept)
    return ""


class EveryClaim(unittest.TestCase):
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
