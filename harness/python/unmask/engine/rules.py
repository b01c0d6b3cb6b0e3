# SPDX-License-Identifier: Apache-2.0
"""A decision rule as a function: its parameters, its identity, and what happens when it is asked."""

import ast
import hashlib
import inspect
import math
import re
import textwrap
import typing

from unmask.engine import limits, steps
from unmask.engine.errors import RuleError, UserError, told

WANTS = steps.WANTS
PLAN = 11  # how many values of a step come before what is asked about
KEPT_STEPS = 16  # of Step.history
NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
HERE = {__file__, steps.__file__, limits.__file__}


class Between(typing.NamedTuple):
    """The range of a parameter, both ends in it, and what it means: Annotated[int, between(1, 64)]."""
    low: float
    high: float
    meaning: str = ""


def between(low, high, meaning=""):
    return Between(low, high, meaning)


def parameters_of(function):
    """The keyword parameters of a rule as the program declares parameters. Their types are those of the defaults."""
    listed = list(inspect.signature(function).parameters.values())
    if not listed or listed[0].kind not in (listed[0].POSITIONAL_ONLY, listed[0].POSITIONAL_OR_KEYWORD):
        raise UserError(f"rule {function.__name__}: its first parameter is the step")
    hints = typing.get_type_hints(function, include_extras=True)
    return [parameter_of(function.__name__, p, hints.get(p.name)) for p in listed[1:]]


def parameter_of(rule, declared, hint):
    where = f"rule {rule}: parameter {declared.name}"
    if declared.kind in (declared.VAR_POSITIONAL, declared.VAR_KEYWORD):
        raise UserError(f"{where} is no parameter of a method: give each a name and a default")
    if declared.default is declared.empty:
        raise UserError(f"{where} has no default")
    if not NAME.match(declared.name) or declared.name in ("base", "code"):
        raise UserError(f"{where}: a name has small letters, digits and _, and is not base or code")
    made = {"name": declared.name, "default": declared.default, "low": -1e300, "high": 1e300, "choices": [],
            "meaning": "of the rule"}
    kind = hint
    if typing.get_origin(hint) is typing.Annotated:
        kind, *notes = typing.get_args(hint)
        for note in notes:
            if isinstance(note, str):
                made["meaning"] = note
            if isinstance(note, Between):
                made["low"], made["high"] = float(note.low), float(note.high)
                made["meaning"] = note.meaning or made["meaning"]
    if typing.get_origin(kind) is typing.Literal:
        made["choices"] = [str(choice) for choice in typing.get_args(kind)]
        kind = str
    if kind is float and isinstance(made["default"], int) and not isinstance(made["default"], bool):
        made["default"] = float(made["default"])
    if not isinstance(made["default"], (bool, int, float, str)):
        raise UserError(f"{where}: a default is a bool, an int, a float or a text, not "
                        f"{type(made['default']).__name__}")
    if kind in (bool, int, float, str) and type(made["default"]) is not kind:
        raise UserError(f"{where}: its default is no {kind.__name__}")
    if made["choices"] and made["default"] not in made["choices"]:
        raise UserError(f"{where}: its default is none of its choices")
    if isinstance(made["default"], float) and not math.isfinite(made["default"]):
        raise UserError(f"{where}: its default is not finite")
    return made


def source_of(function):
    """The text of a function. UserError for one that has none, whose points could not be told from another's."""
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as problem:
        raise UserError(f"rule {function.__name__} has no source to tell it by: write it in a file or in a "
                        "notebook's cell") from problem


def plain(value):
    """Whether a value is its own text: a number, a text, or a tuple or list of such."""
    if isinstance(value, (tuple, list)):
        return all(plain(v) for v in value)
    return value is None or isinstance(value, (bool, int, float, str, bytes))


def outside(function):
    """What a function may read from outside, by name: of its module, and of the functions that it is written in."""
    names, codes = set(), [function.__code__]
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [constant for constant in code.co_consts if inspect.iscode(constant)]
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # it is not set yet
            pass
    return found


def code_of(functions):
    """SHA-256 of the sources of these functions, without comments and formatting, of the functions of the same module
    that they name, and of the plain values that they read from outside."""
    parts, queue, seen = [], list(functions), set()
    while queue:
        function = queue.pop(0)
        if function in seen:
            continue
        seen.add(function)
        text = source_of(function)
        try:
            text = ast.unparse(ast.parse(text))
        except SyntaxError:  # a lambda's line is often no statement
            pass
        parts.append(text)
        for name, value in sorted(outside(function).items()):
            value = getattr(value, "__wrapped__", value)
            if inspect.isfunction(value) and value.__module__ == function.__module__:
                queue.append(value)
            elif plain(value):
                parts.append(f"{name} = {value!r}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


class Session:
    """A rule while it decodes one batch. The compiled part calls decide() for each request of each step."""

    def __init__(self, rule, settings, may_edit, may_remask, vocabulary):
        self.rule, self.vocabulary = rule, vocabulary
        self.may_edit, self.may_remask = may_edit, may_remask
        self.memories = {}  # by batch slot
        self.histories = {}
        self.settings_of = {question: {name: settings[name] for name in names} for question, names in rule.names.items()}

    def has(self, question):
        return question in self.rule.functions

    def step(self, plan):
        step = steps.Step(*plan)
        if step.fresh or step.slot not in self.memories:
            self.memories[step.slot] = {}
            self.histories[step.slot] = steps.History(KEPT_STEPS)
        step.memory = self.memories[step.slot]
        step.may_edit, step.may_remask = self.may_edit, self.may_remask
        if "history" in self.rule.wants:
            step.history = self.histories[step.slot]
        return step

    def ask(self, question, step, read):
        """read(what the function returns); whatever goes wrong is a RuleError with the rule's own lines. step: a Step,
        or a Batch of them."""
        function = self.rule.functions[question]
        try:
            with limits.WATCH.limit(self.rule.limit):
                answer = function(step, **self.settings_of[question])
        except limits.TooSlow:
            raise self.failed(step, f"the rule took longer than its limit of {self.rule.limit:g} s") from None
        except Exception as problem:  # pylint: disable=broad-exception-caught
            raise self.failed(step, f"the rule raised {told(problem, HERE)}") from problem
        try:
            return read(answer)
        except RuleError:  # of one request among several
            raise
        except Exception as problem:  # pylint: disable=broad-exception-caught  (arrays of the rule's own classes)
            raise self.failed(step, f"the rule's answer is wrong: {problem}") from problem

    @staticmethod
    def failed(step, said):
        if isinstance(step, steps.Batch):
            where = ", ".join(f"{one.step} of request {one.request}" for one in step)
            return RuleError(f"step {where}: {said}")
        return RuleError(f"step {step.step} of request {step.request}: {said}", step.step, step.request)

    def decide(self, *seen):
        step = self.step(seen[:PLAN])
        step.see(*seen[PLAN:])
        answer = self.ask("decide", step, self.reader(step))
        if "history" in self.rule.wants:
            step.history.add(step)
        return answer

    def decide_together(self, everything):
        """The decisions of all requests of a forward pass, asked for once."""
        together = steps.Batch()
        for seen in everything:
            step = self.step(seen[:PLAN])
            step.see(*seen[PLAN:])
            together.append(step)
        answers = self.ask("decide", together, lambda said: self.read_together(together, said))
        if "history" in self.rule.wants:
            for step in together:
                step.history.add(step)
        return answers

    def reader(self, step):
        return lambda said: steps.decisions(step, said, self.vocabulary)

    def read_together(self, together, said):
        flags = steps.flags_of_all(together, said)
        if flags is not None:
            return [(part, None) for part in together.parts(flags)]
        read = []
        for step, answer in zip(together, steps.answers_of_all(together, said), strict=True):
            try:
                read.append(self.reader(step)(answer))
            except Exception as problem:  # pylint: disable=broad-exception-caught  (as in ask)
                raise self.failed(step, f"the rule's answer is wrong: {problem}") from problem
        return read

    def pace(self, *seen):
        step = self.step(seen[:PLAN])
        step.see_range(*seen[PLAN:])
        return self.ask("pace", step, steps.pace_of)

    def rows(self, *seen):
        step = self.step(seen[:PLAN])
        *canvas, computed, stored, first, last, shift = seen[PLAN:]
        step.see_range(*canvas)
        step.computed, step.stored = computed.view(bool), stored.view(bool)
        return self.ask("rows", step, lambda said: steps.rows_of(step, said, first, last, shift))


class Rule:
    """Functions that are a method now: `decide`, and `pace` and `rows` if they are given. Call it with a step to try
    the first of them by hand."""

    def __init__(self, functions, name, base, wants, limit, batched, base_settings):
        self.functions, self.name, self.base, self.wants, self.limit = functions, name, base, wants, limit
        self.batched, self.base_settings = batched, base_settings
        self.parameters, self.names = [], {}
        for question, function in functions.items():
            listed = parameters_of(function)
            self.names[question] = [p["name"] for p in listed]
            for p in listed:
                if all(p["name"] != known["name"] for known in self.parameters):
                    self.parameters.append(p)
                elif p not in self.parameters:
                    raise UserError(f"rule {name}: parameter {p['name']} is declared in two ways")
        self.code = code_of(functions.values())
        first = next(iter(functions.values()))
        self.__doc__, self.__name__, self.__module__ = first.__doc__, first.__name__, first.__module__
        self.__wrapped__ = first

    def __call__(self, step, **settings):
        return self.__wrapped__(step, **settings)

    def __repr__(self):
        return f"<method {self.name}: a rule in Python over {self.base}>"

    def begin(self, settings, may_edit, may_remask, vocabulary):
        return Session(self, settings, may_edit, may_remask, vocabulary)

    def declared(self):
        """What the compiled part registers."""
        lines = inspect.getdoc(self.__wrapped__) or ""
        return {"name": self.name, "base": self.base, "base_settings": self.base_settings,
                "summary": (lines.splitlines() or [f"a rule in Python over {self.base}"])[0],
                "source": f"Python: {self.__module__}", "parameters": self.parameters, "code": self.code,
                "wants": list(self.wants), "functions": list(self.functions), "together": self.batched,
                "begin": self.begin}


def made(functions, name, base, wants, limit, base_settings, batched=False):
    """A Rule of checked settings. `functions` by what they are asked: decide, pace, rows."""
    functions = {question: function for question, function in functions.items() if function is not None}
    if not functions or not all(inspect.isfunction(function) for function in functions.values()):
        raise UserError("a rule is a function")
    name = name or next(iter(functions.values())).__name__
    if not isinstance(base, str) or not isinstance(name, str):
        raise UserError(f"base and name of a method are texts, not {type(base).__name__} and {type(name).__name__}")
    if not isinstance(wants, (str, tuple, list)):
        raise UserError(f"rule {name}: wants is a list of {', '.join(WANTS)}, not {type(wants).__name__}")
    wants = (wants,) if isinstance(wants, str) else tuple(wants)
    if not NAME.match(name):
        raise UserError(f"a method's name has small letters, digits and _, and begins with a letter; not {name!r}")
    for want in wants:
        if want not in WANTS:
            raise UserError(f"rule {name}: there is no {want!r} to want; there are {', '.join(WANTS)}")
    if not isinstance(limit, (int, float)) or not limit > 0:
        raise UserError(f"rule {name}: its limit is a time above 0, not {limit}")
    return Rule(functions, name, base, wants, limit, bool(batched), base_settings)
