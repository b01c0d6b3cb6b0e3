# SPDX-License-Identifier: Apache-2.0
"""What a claim says before any row is looked at: place, quantity, bound and who set it, precondition,
clock, tasks, items, controls. The function below the declaration measures; unmask.claims.judge
judges."""

import ast
import dataclasses
from dataclasses import dataclass, field
import hashlib
import inspect
import itertools
import os

from unmask.claims.frame import asked_of, settings_of
from unmask.rows import estimates, experiments
from unmask.rows.errors import UserError
from unmask.rows.names import find_known
from unmask.rows.rows import is_card
from unmask.rows.verdicts import Region

# What a claim is about, which fixes the scale of its effects: of speeds, counts and capacities they
# are ratios, of scores differences, of signals the value itself.
KINDS = ("speed", "capacity", "count", "score", "signal")
RATIOS = ("speed", "capacity", "count")


@dataclass(frozen=True)
class Bound:
    """Where the whole 95 % interval must lie, and who set it: "paper", or "us: why"."""
    low: float | None
    high: float | None
    open: bool
    by: str

    @property
    def region(self):
        low = -float("inf") if self.low is None else self.low
        high = float("inf") if self.high is None else self.high
        return Region(low, high, self.open)

    @property
    def text(self):
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        sign = (">" if self.low is not None else "<") + ("" if self.open else "=")
        return f"{sign} {self.low if self.low is not None else self.high:g}"

    @property
    def edge(self):
        """The bound that a value has to pass; of two the lower one."""
        return self.high if self.low is None else self.low

    @property
    def tested(self):
        """Without the reason that stands behind who set it."""
        return self.low, self.high, self.open, self.by.partition(":")[0]


def above(value, by):
    return Bound(value, None, True, by)


def below(value, by):
    return Bound(None, value, True, by)


def at_least(value, by):
    return Bound(value, None, False, by)


def at_most(value, by):
    return Bound(None, value, False, by)


def within(low, high, by):
    return Bound(low, high, False, by)


@dataclass(frozen=True)
class Published:
    """A printed number in the units of the claim's quantity (ratio, difference of scores of 1, value),
    `rounding` half a unit of its last digit; `approximate`: read from a picture; `says`: how the paper words
    it, which no verdict is about."""
    value: float
    source: str
    rounding: float = 0.0
    approximate: bool = False
    says: str = ""

    @property
    def tested(self):
        return self.value, self.rounding, self.approximate


@dataclass(frozen=True)
class Regime:
    """A precondition: the mean of a metric over the rows with these settings, of a task at a time, divided by
    that over the rows of `over` where it is set, lies in the bound; of a claim about tasks each task must meet
    it, and those that do not are left out. metric: a row's value, "parameters" of its model, "on_gpu" (1 or 0),
    or a function of a row. lacks: what else than the rows is wanted if it is not met, a "machine" or another
    "clock"; "" where the claim says nothing of such rows."""
    says: str
    metric: object
    where: dict
    bound: Bound
    by_task: bool = False
    over: dict | None = None
    lacks: str = ""

    @property
    def tested(self):
        metric = inspect.getsource(self.metric) if callable(self.metric) else self.metric
        return metric, self.where, self.bound.tested, self.by_task, self.over

    @property
    def metric_name(self):
        return self.metric.__name__ if callable(self.metric) else self.metric

    def value(self, row):
        """The metric of a row; None where it does not have it."""
        if callable(self.metric):
            return self.metric(row)
        if self.metric == "parameters":
            return row["model"]["parameters"]
        if self.metric == "on_gpu":
            return float(is_card(row))
        found = estimates.value(row, self.metric)
        return None if found is None else found[0]


def presumes(says, metric, bound, **where):
    return Regime(says, metric, where, bound)


def presumes_of_tasks(says, metric, bound, **where):
    return Regime(says, metric, where, bound, by_task=True)


def presumes_ratio(says, metric, bound, of, over, **where):
    """Of a metric of the rows `of` (a label or a dict of settings) over that of the rows `over`."""
    return Regime(says, metric, {**where, **settings_of(of)}, bound, over={**where, **settings_of(over)})


def presumes_a_gpu(says):
    """For claims that hold where a row of a forward costs next to nothing: a CPU pays for every one."""
    return Regime(says, "on_gpu", {}, Bound(1, None, False, "us: see the statement"), lacks="machine")


def presumes_of_the_clock(says, metric, bound, **where):
    """Of the cost that a virtual clock assumes: where it is not met the clock contradicts the paper."""
    return Regime(says, metric, where, bound, lacks="clock")


def no_precondition(because):
    return f"no precondition, because {because}"


@dataclass
class Claim:
    """A claim of a paper, or a control beside one. README.md of harness/python explains the fields."""
    paper: str
    id: str
    place: str
    statement: str
    kind: str
    quantity: str
    bound: Bound
    regime: object
    artifacts: tuple
    scales: tuple
    tasks: str
    items: str
    clock: str = "none: nothing is timed"
    preset: str = "the method's defaults"
    published: Published | None = None
    quality: Bound | None = None
    controls: tuple = ()      # what explains a claim that does not hold
    rivals: tuple = ()        # controls of simpler methods over the same baseline: the method is held against them
    reading: str = ""         # which of several readings of the paper this is
    each_because: str = ""    # why every point must hold: the paper says so; else points are pooled
    note: str = ""
    is_control: bool = False
    function: object = None
    where: str = ""
    hash: str = ""            # of what is tested
    words: str = ""           # a hash of all else that it says
    of: list = field(default_factory=list)  # a control: ids of the claims that name it
    calibrates: str = ""      # what was set by this very number: judged, and counted nowhere
    decides: bool = False     # one of the thirty that decide whether to use a method: pages show these first
    finding: str = ""         # a speed that sums up its paper: what the method is compared with
    simpler: list = field(default_factory=list)  # its rivals
    elsewhere: tuple = ()     # (control, name): where the simpler ones are in another table, which holds the method against them
    at_its_score: object = None  # that control
    sides: object = None      # what the function compares, where that is one method with another

    @property
    def key(self):
        return f"{self.paper}/{self.id}"

    @property
    def preconditions(self):
        """All of them must be met; () of a claim without."""
        return () if isinstance(self.regime, str) else (
            self.regime if isinstance(self.regime, tuple) else (self.regime,))

    @property
    def regime_says(self):
        return "; ".join(g.says for g in self.preconditions) or self.regime

    @property
    def role(self):
        return "calibration" if self.calibrates else "control" if self.is_control else "claim"

    @property
    def on_a_virtual_clock(self):
        return self.clock.startswith("virtual")

    @property
    def reads_the_clock(self):
        """Whether other load on the machine changes what is measured."""
        return not self.clock.startswith(("none", "virtual"))


# Texts, and tuples of texts, but for these.
KINDS_OF_FIELDS = {f.name: f.type for f in dataclasses.fields(Claim) if f.type in (str, tuple)} | {
    "bound": Bound, "regime": (str, Regime, tuple), "published": Published | None, "quality": Bound | None}


# The fields that a verdict rests on, and those that only say something. The note may change freely, and the
# last ones are no part of a declaration.
TESTED = ("paper", "id", "is_control", "kind", "bound", "quality", "published", "regime", "artifacts", "scales",
          "rivals", "controls")
WORDS = ("place", "statement", "quantity", "tasks", "items", "clock", "preset", "reading", "each_because",
         "calibrates")
NEITHER = ("note", "function", "where", "hash", "words", "of", "simpler", "sides", "decides", "finding",
           "elsewhere", "at_its_score")


def _short_hash(parts):
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _hash_of_tested(c, source):
    """Of what a verdict rests on: declared values without their words, what the function does, the constants that
    it names. source: of the function, behind its `def`."""
    def tested(value):
        if isinstance(value, tuple):
            return tuple(map(tested, value))
        return getattr(value, "tested", value)
    parts = [f"{name}={tested(getattr(c, name))!r}" for name in TESTED if name != "regime"]
    parts += [f"regime={tested(c.preconditions)!r}", f"reads_the_clock={c.reads_the_clock}", source]
    known = c.function.__globals__
    parts += [f"{name}={known[name]!r}" for name in c.function.__code__.co_names
              if isinstance(known.get(name), (str, int, float, tuple, list, dict))]
    return _short_hash(parts)


def _hash_of_words(c):
    parts = [f"{name}={getattr(c, name)!r}" for name in WORDS if name != "calibrates" or c.calibrates]
    parts += [f"bound={c.bound.by!r}", f"quality={c.quality and c.quality.by!r}", f"regime={c.regime_says!r}"]
    parts += [f"bound of regime={g.bound.by!r}" for g in c.preconditions]
    parts += [f"published={c.published.source!r} {c.published.says!r}"] if c.published else []
    return _short_hash(parts)


class Register:
    """The claims and controls of the files of one folder, in their order."""

    def __init__(self, paper="", folder=""):
        self.paper, self.folder, self.claims, self.controls = paper, folder, [], []
        self.sources = {}  # of the functions of a file

    def add(self, function, is_control, fields):
        where = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
        fields.setdefault("regime", None)
        try:
            c = Claim(paper=self.paper, id=function.__name__, is_control=is_control, function=function,
                      where=where, **fields)
        except TypeError as problem:
            raise UserError(f"{where}: claim '{function.__name__}': {problem}") from None
        for name, kind in KINDS_OF_FIELDS.items():
            found = getattr(c, name)
            of = Regime if name == "regime" else str
            if not isinstance(found, kind) or isinstance(found, tuple) and not all(
                    isinstance(v, of) for v in found) or of is Regime and not found:
                raise UserError(f"{where}: claim '{c.id}': `{name}` is of another type")
        c.artifacts = tuple(os.path.normpath(os.path.join(self.folder, self.paper, f"{a}.toml"))
                            for a in c.artifacts)
        find_known("kind of claim", c.kind, KINDS, f"{where}: {c.id}")
        if c.key in {other.key for other in self.claims + self.controls}:
            raise UserError(f"{where}: claim '{c.id}' stands in the register twice")
        for a in c.artifacts:
            if not os.path.isfile(a):
                raise UserError(f"{where}: {c.id} names {a}, which does not exist")
        portable = [os.path.basename(a) for a in c.artifacts]
        kept, c.artifacts = c.artifacts, tuple(portable)
        c.hash, c.words, c.artifacts = _hash_of_tested(c, self.sources[c.id]), _hash_of_words(c), kept
        (self.controls if is_control else self.claims).append(c)
        return c

    def named(self, key):
        return next((c for c in self.claims + self.controls if c.key == key), None)

    @property
    def hash(self):
        """Of what all of them test."""
        text = "\n".join(f"{c.key} {c.hash}" for c in self.claims + self.controls)
        return hashlib.sha256(text.encode()).hexdigest()

    def attach(self):
        """Lets each control know its claims, and each claim its rivals; UserError for a name that is none's, for a
        rival of another comparison, and for a claim that none of its files can meet."""
        for c in self.claims + self.controls:
            c.sides = asked_of(c.function)
            check_regime(c)
        for c in self.claims:
            for name in c.controls + c.rivals:
                control = self.named(f"{c.paper}/{name}")
                if control is None:
                    known = [k.id for k in self.claims + self.controls if k.paper == c.paper]
                    find_known("control", name, known, f"{c.where}: {c.id}")
                control.of.append(c.id)
                if name in c.rivals:
                    check_rival(c, control)
                    c.simpler.append(control)
            self._attach_elsewhere(c)
        for c in self.controls:
            if not c.of and not c.calibrates:
                raise UserError(f"{c.where}: '{c.id}' is a control that no claim names")
            for rival in (self.named(f"{c.paper}/{name}") for name in c.rivals):
                check_rival(c, rival)
                c.simpler.append(rival)

    def _attach_elsewhere(self, c):
        """Lets a claim know the control that holds it against simpler methods of another table."""
        if not c.elsewhere:
            return
        if len(c.elsewhere) != 2 or c.elsewhere[0] not in c.controls:
            raise UserError(f"{c.where}: '{c.id}': `elsewhere` is one of its controls, and a name for the simpler method")
        c.at_its_score = self.named(f"{c.paper}/{c.elsewhere[0]}")
        check_elsewhere(c, c.at_its_score)


_reading = []  # the register that a file of claims is being read into


def _decorator(is_control, fields):
    def keep(function):
        return _reading[-1].add(function, is_control, fields)
    return keep


def check_rival(c, rival):
    """A rival is another method in the same comparison: the same metric, over the same baseline, on the same points."""
    problem = ""
    if c.kind not in RATIOS:
        problem = f"is held against {rival.id}, but only speeds, capacities and counts are"
    elif c.sides is None or rival.sides is None:
        problem = f"is held against {rival.id}, of which one does not compare two sides"
    elif c.sides.same != rival.sides.same:
        problem = (f"is held against {rival.id}, which measures something else: "
                   f"{rival.sides.same} is not {c.sides.same}")
    elif c.artifacts != rival.artifacts:
        problem = f"is held against {rival.id}, whose rows are of other artifacts"
    if problem:
        raise UserError(f"{c.where}: '{c.id}' {problem}")


def check_elsewhere(c, control):
    """A control that fills a claim's column of the simplest method measures the same quantity in another table."""
    if (c.kind, c.clock) != (control.kind, control.clock):
        raise UserError(f"{c.where}: '{c.id}' is held against simpler methods by {control.id}, which measures something else: "
                        f"{control.kind} of {control.clock} is not {c.kind} of {c.clock}")


# The most that a file allows of what a precondition may presume, and what it is that has so much.
MOST = {"parameters": (experiments.most_parameters, "model"), "prompt_tokens_mean": (experiments.longest_prompts, "prompt")}


def check_regime(c):
    """A claim that presumes larger models or longer prompts than a scale has can never be judged there."""
    for g in c.preconditions:
        if g.metric not in MOST or g.bound.low is None:
            continue
        most, of = MOST[g.metric]
        for artifact, scale in itertools.product(c.artifacts, c.scales):
            sizes = most(artifact, scale)
            if sizes and all(size is not None and size < g.bound.low for size in sizes):
                raise UserError(f"{c.where}: '{c.id}' presumes that {g.says}, which no {of} of "
                                f"{os.path.basename(artifact)} at the scale {scale} meets")


def claim(**fields):
    """Registers the function below as a claim: its name is the id."""
    return _decorator(False, fields)


def control(**fields):
    """Registers the function below as a control, which is counted nowhere."""
    fields.setdefault("place", "not in the paper")
    return _decorator(True, fields)


def calibration(**fields):
    """Registers the function below as a number that something was set by: judged like a claim, in a table of its
    own, and counted nowhere."""
    return _decorator(True, fields)


def paper_of(name):
    """The paper of a file of claims: PAPER.py, or PAPER.PART.py where one file would be too long."""
    return name.split(".")[0]


def read_register(folder):
    """Reads every PAPER.py of a folder of claims (experiments/claims), then its PAPER.PART.py, and runs them: claims
    are code, and this folder is the program's own or one that the user names."""
    whole = Register()
    for name in sorted((n for n in os.listdir(folder) if n.endswith(".py")),
                       key=lambda n: (paper_of(n), n.count("."), n)):
        path = os.path.join(folder, name)
        part = Register(paper_of(name), os.path.normpath(os.path.join(folder, "..")))
        part.claims, part.controls = whole.claims, whole.controls
        _reading.append(part)
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            tree, lines = ast.parse(text, path), text.splitlines(keepends=True)
            part.sources = {n.name: "".join(lines[n.lineno - 1:n.end_lineno]).removeprefix("def ")
                            for n in tree.body if isinstance(n, ast.FunctionDef)}
            exec(compile(tree, path, "exec"), {"__name__": f"claims_of_{name[:-3]}", "__file__": path})
        except UserError:
            raise
        except Exception as problem:  # whatever a file of claims raises
            raise UserError(f"{path}: {type(problem).__name__}: {problem}") from None
        finally:
            _reading.pop()
    whole.attach()
    return whole
