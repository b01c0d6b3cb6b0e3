# SPDX-License-Identifier: Apache-2.0
"""Two programs measured in turn on one experiment: A B, B A, A B, ...

What changes on the machine from minute to minute changes both, so the ratio of each turn is kept and the
interval is over the turns. A drift cancels, because every second turn goes backwards."""

import datetime
import os
import subprocess
import sys

from unmask.rows import rows as results
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import does_not_exist

SIDES = ("before", "now")


def fresh_folder(name=""):
    """A folder that is not there yet, for the rows of both sides."""
    if name:
        if os.path.exists(name) and os.listdir(name):
            raise UserError(f"{name} is not empty; name another folder with --rows")
        return name
    return os.path.join("runs", "compare", f"{datetime.datetime.now():%Y-%m-%dT%H-%M-%S}")


def _check(program):
    if not os.path.exists(program):
        raise does_not_exist(program)
    if not os.path.isfile(program) or not os.access(program, os.X_OK):
        raise EnvironmentFault(f"{program} is not a program that can be started")
    return os.path.abspath(program)


def _measure(program, experiment, folder, more):
    """One run of one side; its rows are added to those of its earlier turns."""
    words = [program, "run", experiment, "-o", folder, "--fresh", "--no-progress", *more]
    try:
        done = subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              env={**os.environ, "UNMASK_PROGRAM": program})
    except OSError as problem:
        raise EnvironmentFault(f"cannot start {program} ({problem.strerror})") from None
    if done.returncode != 0:
        sys.stderr.write(done.stderr.decode("utf-8", "replace"))
        raise EnvironmentFault(f"{' '.join(words)} ended with exit code {done.returncode}")


def measure(programs, experiment, folder, turns, more=()):
    """Rows of both sides, `turns` of each point. The same number of each on both sides, in the order in which
    they were measured."""
    programs = [_check(program) for program in programs]
    if not os.path.isfile(experiment):
        raise does_not_exist(experiment)
    places = [os.path.join(folder, side) for side in SIDES]
    for turn in range(turns):
        print(f"turn {turn + 1} of {turns}", file=sys.stderr)
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            _measure(programs[side], experiment, places[side], more)
    return [results.read_rows(place) for place in places]
