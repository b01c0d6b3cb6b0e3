# SPDX-License-Identifier: Apache-2.0
"""The engine of Unmask: decodes from Python, with decision rules of one's own. README.md begins with an example.

It needs the compiled part (_engine), which the rest of the package does not."""

import atexit

from unmask.engine import errors
from unmask.engine.compiled import _engine
from unmask.engine.errors import EngineError, EnvironmentFault, RuleError, UserError  # noqa: F401
from unmask.engine.methods import Method, method, methods, over, show  # noqa: F401
from unmask.engine.models import Answer, Model, Result  # noqa: F401
from unmask.engine.rules import between  # noqa: F401
from unmask.engine.runs import load_rules, main, run  # noqa: F401
from unmask.engine.steps import Batch, Decision, Pace, Step  # noqa: F401

version = _engine.version
devices = _engine.devices  # {name: why it cannot be used here, "" if it can}
_engine.begin(errors)
atexit.register(_engine.end)
