# SPDX-License-Identifier: Apache-2.0
"""The methods of this process: compiled ones, and rules in Python that become methods."""

from unmask.engine import rules
from unmask.engine.compiled import _engine


class Method:
    """What a method is: name, summary, paper, its five slots, parameters and presets."""

    def __init__(self, info):
        self.__dict__.update(info)

    def __repr__(self):
        lines = [f"{self.name}: {self.summary}"]
        for slot in ("paper", "source", "pace", "rows", "keys", "cache", "unmask"):
            lines.append(f"  {slot:<8}{getattr(self, slot)}")
        lines += [f"  {p['name']} = {p['default']}: {p['meaning']}" for p in self.parameters]
        lines += [f"  preset {name}: {settings}" for name, settings in self.presets.items()]
        return "\n".join(lines)


def methods():
    """The summaries of all methods by name."""
    return {name: _engine.info(name)["summary"] for name in _engine.names()}


def show(name):
    """A method as `unmask show` prints it. UserError with the nearest name for one that there is not."""
    return Method(_engine.info(getattr(name, "name", name)))


def method(base, *, name=None, rows=None, pace=None, wants=(), limit=60.0, batched=False, **base_settings):
    """Makes the decorated function a method: the recipe of `base`, whose candidates the function decides.

    The function is called with a Step for each request of each forward pass. It returns the candidates to unmask,
    as indices or as one bool for each, or a Decision. Its keyword parameters are parameters of the method.

    rows           a function for which rows are computed: one flag or index for each position of step.position
    pace           a function for how far a step reaches: positions from the first mask on, or a Pace
    wants          what a step has besides: "margin", "entropy", "logits", "hidden", "history"
    limit          seconds that one call may take
    batched        the function is called once in each forward pass, with a Batch: the Steps of all requests
    base_settings  parameters of the base; they are parameters of the method too"""
    def wrap(function):
        functions = {"decide": function, "pace": pace, "rows": rows}
        rule = rules.made(functions, name, base, wants, limit, base_settings, batched)
        _engine.put_rule(rule.declared())
        return rule
    return wrap


def over(base, name, *, rows=None, pace=None, limit=60.0, **base_settings):
    """A method with the base's own decisions, and functions for rows or pace, or both."""
    rule = rules.made({"pace": pace, "rows": rows}, name, base, (), limit, base_settings)
    _engine.put_rule(rule.declared())
    return rule
