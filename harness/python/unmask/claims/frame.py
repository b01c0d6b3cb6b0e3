# SPDX-License-Identifier: Apache-2.0
"""The rows that a claim is judged on, and which of them are compared with which."""

from dataclasses import dataclass

from unmask.rows.names import value_text
from unmask.rows.rows import PLAIN_KEYS, RUN_KEYS, circumstance, is_of_any_seed, is_reportable
from unmask.rows.selectors import Selector

# Before that day the items from the 81st on of these tasks were drawn otherwise than the first: whatever is
# common among training prompts was rejected (equations with one operator: 41 of the first 80, none of the
# others). Rows of those items are judged on their first 80 alone.
FIRST_ITEMS, REDRAWN = 80, "2026-11-26T01:28:00Z"
SKEWED_TASKS = ("equation", "instruction", "list_program")


class NeedsRows(Exception):
    """Says which rows a claim wants and does not have."""


def items_kept(row):
    """How many of a row's items count, from the first on; None: all."""
    skewed = row["workload"]["family"] in SKEWED_TASKS and row["finished_at"] < REDRAWN
    return FIRST_ITEMS if skewed else None


def _key(name):
    if name in PLAIN_KEYS or name in RUN_KEYS:
        return name
    return name.replace("serve_", "serve.", 1) if name.startswith("serve_") else f"params.{name}"


def _selector(where):
    keys = {}
    for name, value in where.items():
        several = value if isinstance(value, (list, tuple)) else [value]
        keys[_key(name)] = [value_text(v) for v in several]
    return Selector(keys)


def settings_of(side):
    """The settings of one side of a comparison: a label, several, or a dict."""
    return {"label": side} if isinstance(side, (str, list, tuple)) else dict(side)


def _by_seed(row, partners, any_seed):
    """The partners of a row, those of its own seed. A partner that was measured once for all seeds is one of each; such
    a row has the partners of each seed in turn."""
    if any_seed:
        return [partners]
    seeds = [row["seed"]]
    if is_of_any_seed(row):
        seeds = sorted({p["seed"] for p in partners if not is_of_any_seed(p)}) or seeds
    return [[p for p in partners if is_of_any_seed(p) or p["seed"] == seed] for seed in seeds]


@dataclass(frozen=True)
class Sides:
    """What a comparison is of: a metric of one side over that of another under these settings, and of a growth the
    setting with its first and last value."""
    metric: str
    of: object
    over: object
    where: dict
    along: tuple = ()

    @property
    def same(self):
        """All that another method must share to be held against the same baseline."""
        return self.metric, settings_of(self.over), self.where, self.along


class Asked(Exception):
    """Carries the sides of the first comparison that a function asks for."""


class Asking:
    """Stands for a Frame: keeps what is asked of it instead of answering."""
    metric, along = "", ()

    def pairs(self, of, over, **where):
        kept = {name: value for name, value in where.items() if not self.along or name != self.along[0]}
        raise Asked(Sides(self.metric, of, over, kept, self.along))

    def look(self, **_):
        raise NeedsRows("an answer")

    pick = look


def asked_of(function):
    """The Sides of a claim's function; None where it does not compare two methods by a metric."""
    try:
        function(Asking())
    except Asked as asked:
        sides = asked.args[0]
        return sides if sides.metric else None
    except Exception:  # whatever a function does without rows
        pass
    return None


class Frame:
    """Rows of one claim's artifacts at one scale; it remembers which were looked at. `scores`: a frame of the
    same settings over more items, measured for their score alone; None where there are none."""

    def __init__(self, rows, scores=()):
        self.all = rows
        self.rows = [row for row in rows if is_reportable(row)]
        self.used = []
        self.scores = Frame(scores) if scores else None

    def tasks(self):
        return {row["workload"]["family"] for row in self.rows}

    def keep_tasks(self, tasks):
        """Leaves out the rows of all other tasks, and their scores."""
        left_out = self.tasks() - set(tasks)
        for frame in filter(None, (self, self.scores)):
            frame.rows = [row for row in frame.rows if row["workload"]["family"] not in left_out]

    def looked_at(self):
        return self.used + (self.scores.used if self.scores else [])

    def look(self, **where):
        """Rows with these settings, one value of each key or any of several: label, workload, model,
        batch_size and the other keys of [run]; serve_NAME; all else is a parameter of the method. [] where
        there are none."""
        selector = _selector(where)
        found = [row for row in self.rows if selector.matches(row)]
        self.used += found
        return found

    def pick(self, **where):
        """As look, but NeedsRows where there are none."""
        found = self.look(**where)
        if not found:
            raise NeedsRows(f"rows with {_selector(where).text()}")
        return found

    def pairs(self, of, over, **where):
        """Rows of one side beside those of the other that agree in everything else: model, task, keys of
        [run] and arrivals. A side is a label, or a dict of settings that it alone has. What was measured once for
        all seeds is beside the rows of each."""
        left, right = settings_of(of), settings_of(over)
        free = frozenset(_key(name) for name in {*left, *right} if left.get(name) != right.get(name))
        others = {}
        for row in self.pick(**{**where, **right}):
            others.setdefault(circumstance(row, free | {"seed"}), []).append(row)
        found = []
        for row in self.pick(**{**where, **left}):
            for partners in _by_seed(row, others.get(circumstance(row, free | {"seed"}), []), "seed" in free):
                exact = [p for p in partners if circumstance(p, {"seed"}) == circumstance(row, {"seed"})]
                partners = exact if len(partners) > 1 and exact else partners
                if len(partners) > 1:
                    raise NeedsRows(f"a narrower claim: {row['label']} has {len(partners)} partners")
                if partners and partners[0] is not row:
                    found.append((row, partners[0]))
        if not found:
            raise NeedsRows(f"rows of {_selector(left).text()} and of {_selector(right).text()} in the "
                            f"same circumstances" + (f" with {_selector(where).text()}" if where else ""))
        return found
