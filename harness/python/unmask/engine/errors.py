# SPDX-License-Identifier: Apache-2.0
"""Errors of the engine. Each has the program's own sentence, and the exit code that the program ends with."""

import linecache
import traceback

from unmask.rows.errors import EnvironmentFault, UserError  # noqa: F401  (raised by the compiled part)


class EngineError(UserError):
    """A decode or a run failed."""
    code = 1


class RuleError(EngineError):
    """A rule raised or answered something that is no decision. `step` is the forward pass, counted from 0, and
    `request` the number of the prompt. decode() adds `answers`: what was complete by then."""

    def __init__(self, sentence, step=None, request=None):
        super().__init__(sentence)
        self.step, self.request, self.answers = step, request, []


def told(problem, hidden):
    """What a rule raised, with its own lines: those of files that are not in `hidden`."""
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename not in hidden]
    lines = [f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line or linecache.getline(frame.filename, 1)}"
             for frame in frames]
    what = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
    return what + "".join(f"\n  {line}" for line in lines)
