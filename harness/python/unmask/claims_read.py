# SPDX-License-Identifier: Apache-2.0
"""experiments/claims/PAPER.toml: what a paper claims, as relations between rows. README.md of
harness/python says what the keys mean."""

from dataclasses import dataclass, field
import os
import re

from unmask import experiments
from unmask.errors import UserError
from unmask.names import find_known, unknown_name, value_text
from unmask.rows import as_number, check_key, setting

KINDS = ("ratio", "ordering", "monotone", "threshold", "equal")
AGGREGATES = ("each", "mean", "max", "min")
RELATIONS = {"ratio": ("about", ">=", "<="), "ordering": (">", "<", ">=", "<="),
             "monotone": ("increasing", "decreasing", "nondecreasing", "nonincreasing"),
             "threshold": (">", "<", ">=", "<="), "equal": ()}
SIZES = ("ratio", "change", "points", "value")
# What counts as the same elsewhere: two points, or two per cent.
SAME = 0.02


@dataclass
class Selector:
    """Rows by their settings, any of the values of each key; and the metric that is looked at."""
    keys: dict = field(default_factory=dict)
    metric: str = ""

    def matches(self, row):
        for key, wanted in self.keys.items():
            found = setting(row, key)
            if found is None:
                return False
            number = as_number(found)
            if not any(text == found or (number is not None and as_number(text) == number)
                       for text in wanted):
                return False
        return True

    def text(self):
        return ", ".join(f"{key} = {'|'.join(self.keys[key])}" for key in sorted(self.keys)) or "any row"


@dataclass
class Published:
    """A printed number; `comparable`: in the units of what is judged, None where they differ."""
    value: float
    unit: str = ""
    source: str = ""
    comparable: float | None = None
    rounding: float = 0.0  # half a unit of the last printed digit, in the units of `comparable`


@dataclass
class Precondition:
    says: str
    where: Selector
    relation: str
    value: float


@dataclass
class Claim:
    """A relation between rows, with a direction, a size, and where it was claimed."""
    paper: str
    id: str
    statement: str
    source: str
    where: str          # FILE:LINE
    kind: str = "ordering"
    note: str = ""
    artifacts: list = field(default_factory=list)  # experiment files, whose rows are pooled
    variant: str = ""   # which of several readings is judged
    scales: list = field(default_factory=list)
    aggregate: str = "each"
    relation: str = ""
    along: str = ""
    left: Selector = field(default_factory=Selector)
    right: Selector = field(default_factory=Selector)
    tolerance: float = 0.0
    least: float = 0.0  # the least difference that counts as one, of an ordering with > or <
    expected: float | None = None
    value: float | None = None
    published: Published | None = None
    preconditions: list = field(default_factory=list)
    control_ids: list = field(default_factory=list)
    controls: list = field(default_factory=list)

    @property
    def of_scores(self):
        return self.left.metric == "score"

    @property
    def two_sided(self):
        return self.kind not in ("monotone", "threshold")


class _Reader:
    """One table of a claims file: hands out keys by type, and knows which were asked for."""

    def __init__(self, table, where, name):
        self.table, self.where, self.name, self.known = table, where, name, []

    def fail(self, sentence):
        raise UserError(f"{self.where}: {self.name} {sentence}")

    def get(self, key, kind, default):
        self.known.append(key)
        value = self.table.get(key, default)
        if value is default:
            return default
        right = (isinstance(value, kind) and not (kind is not bool and isinstance(value, bool)))
        if not right:
            words = {str: "a text", (int, float): "a number", list: "a list", dict: "a table"}
            self.fail(f"has `{key}`, which must be {words[kind]}")
        return value

    def text(self, key, default=""):
        return self.get(key, str, default)

    def needed(self, key):
        value = self.text(key)
        if not value:
            self.fail(f"needs `{key}`")
        return value

    def number(self, key, default=None, low=-1e300):
        value = self.get(key, (int, float), default)
        if value is None:
            return None
        if not low <= value <= 1e300:
            self.fail(f"has `{key}` = {value}, which must be {low:g} or more")
        return float(value)

    def texts(self, key):
        values = self.get(key, list, [])
        if not all(isinstance(v, str) for v in values):
            self.fail(f"has `{key}`, which must be a list of texts")
        return list(values)

    def choice(self, key, known, default):
        value = self.text(key, default)
        if value not in known:
            self.fail(unknown_name(f"`{key}`:", value, known))
        return value

    def finish(self):
        for key in self.table:
            if key not in self.known:
                self.fail(unknown_name("key", key, self.known))


def _read_selector(reader, key, metric):
    reader.known.append(key)
    return read_selector(reader.table, key, reader.where, reader.name, metric)


def read_selector(table, key, where, name, metric=""):
    """Reads the selector that a table holds under a key: keys of rows with one value or several, and
    `metric`; empty where there is none. UserErrors begin with `where` and `name`."""
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise UserError(f"{where}: {name} has `{key}`, which must be a table")
    selector = Selector(metric=found.get("metric", metric))
    if not isinstance(selector.metric, str):
        raise UserError(f"{where}: {name} has `{key}.metric`, which must be a text")
    for leaf, values in _leaves(found):
        if leaf == "metric":
            continue
        check_key(leaf, f"{where}: {name}, `{key}`")
        values = values if isinstance(values, list) else [values]
        if not values or not all(isinstance(v, (str, bool, int, float)) for v in values):
            raise UserError(f"{where}: {name} has `{key}.{leaf}`, which must be a value or a list of "
                            "values")
        selector.keys[leaf] = [value_text(v) for v in values]
    return selector


def _leaves(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def comparable_size(claim, value, unit, meaning):
    """A published number in the units of the quantity that is judged; None where its unit does not
    say how."""
    if meaning == "change":
        return 1 + value / 100
    if meaning in ("ratio", "value"):
        return value
    if meaning == "points":
        return value / 100
    if claim.kind == "monotone":
        return None
    if unit in ("points", "%"):
        return value / 100 if claim.of_scores else None
    if claim.kind == "threshold":
        return value
    return value if unit == "x" and not claim.of_scores else None


def _read_published(reader, claim):
    table = reader.get("published", dict, None)
    if table is None:
        return None
    r = _Reader(table, reader.where, f"{reader.name}, `published`,")
    value = r.number("value")
    if value is None:
        r.fail("needs `value`")
    unit = r.text("unit")
    source = r.text("source")
    if not source:
        r.fail("needs `published.source`")
    meaning = r.choice("as", ("",) + SIZES, "")
    rounding = r.number("rounding", 0.0, 0)
    r.finish()
    size = comparable_size(claim, value, unit, meaning)
    above = comparable_size(claim, value + rounding, unit, meaning)
    return Published(value, unit, source, size, rounding if size is None else abs(above - size))


def _read_preconditions(reader):
    found = []
    tables = reader.get("precondition", list, [])
    for table in tables:
        r = _Reader(table, reader.where, f"{reader.name}, its precondition")
        says = r.needed("says")
        metric, value = r.needed("metric"), r.number("value")
        if value is None:
            r.fail("needs `value`")
        where = _read_selector(r, "where", metric)
        found.append(Precondition(says, where, r.choice("relation", RELATIONS["threshold"], ""),
                                  value))
        r.finish()
    return found


def _read_artifacts(reader, file):
    one, several = reader.text("artifact"), reader.texts("artifacts")
    if one and several:
        reader.fail("has `artifact` and `artifacts`; one of them will do")
    names = [one] if one else several
    if not names:
        reader.fail("needs `artifact`, an experiment file, or `artifacts`")
    paths = [os.path.normpath(os.path.join(os.path.dirname(file), name)) for name in names]
    for path in paths:
        if not os.path.isfile(path):
            reader.fail(f"names {path}, which does not exist")
    return paths


def _check_kind(reader, c, has_right):
    """Keys that the kind needs are there, and no others."""
    relations = RELATIONS[c.kind]
    if not relations and c.relation:
        reader.fail('is of kind "equal", which takes no `relation`')
    if c.kind == "ratio" and not c.relation:
        c.relation = "about"
    if relations:
        find_known("relation of this kind", c.relation, relations, f"{reader.where}: {reader.name}")
    if c.two_sided != has_right:
        reader.fail("needs `right`, a selector" if c.two_sided else
                    "compares no two selectors: `right` does not belong to its kind")
    if (c.kind == "monotone") != bool(c.along):
        reader.fail("needs `along`, the setting that grows" if not c.along else
                    'has `along`, which only kind "monotone" takes')
    if (c.kind == "threshold") != (c.value is not None):
        reader.fail("needs `value`" if c.value is None else
                    'has `value`, which only kind "threshold" takes')
    if c.kind == "ratio":
        if c.expected is None and c.published:
            c.expected = c.published.value
        if c.expected is None:
            reader.fail("needs `expected` or `published`")
        if c.expected <= 0:
            reader.fail("expects a ratio that is not above 0")
        if "score" in (c.left.metric, c.right.metric):
            reader.fail("takes a ratio of scores, which has no interval; use kind \"ordering\" or "
                        '"equal"')
    elif c.expected is not None:
        reader.fail('has `expected`, which only kind "ratio" takes')
    if has_right and (c.left.metric == "score") != (c.right.metric == "score"):
        reader.fail("compares a score with something else")


def _least_difference(c):
    """Half of the published effect where that is smaller than what counts as the same."""
    if not c.published or c.published.comparable is None:
        return SAME
    return min(SAME, abs(c.published.comparable - (0 if c.of_scores else 1)) / 2)


def _read_claim(table, paper, file, where):
    reader = _Reader(table, where, f"claim '{table.get('id', '')}'")
    c = Claim(paper, reader.needed("id"), reader.needed("statement"), reader.needed("source"), where)
    c.note, c.variant = reader.text("note"), reader.text("variant")
    c.artifacts, c.scales = _read_artifacts(reader, file), reader.texts("scales")
    if "kind" not in table:
        reader.fail("needs `kind`")
    c.kind = reader.choice("kind", KINDS, "ordering")
    c.aggregate = reader.choice("aggregate", AGGREGATES, "each")
    metric, c.relation, c.along = reader.text("metric"), reader.text("relation"), reader.text("along")
    if c.along:
        check_key(c.along, f"{where}: `along`")
    if "left" not in table:
        reader.fail("needs `left`, a selector")
    c.left = _read_selector(reader, "left", metric)
    c.right = _read_selector(reader, "right", metric)
    has_right = "right" in table
    if not c.left.metric or (has_right and not c.right.metric):
        reader.fail("needs `metric`, for all of it or in each selector")
    c.tolerance = reader.number("tolerance", 0.1 if c.kind == "ratio" else 0.0, 0)
    c.expected, c.value = reader.number("expected"), reader.number("value")
    c.published = _read_published(reader, c)
    if c.kind == "ordering" and c.relation in (">", "<"):
        c.least = reader.number("least", _least_difference(c), 0)
    c.preconditions = _read_preconditions(reader)
    c.control_ids = reader.texts("controls")
    _check_kind(reader, c, has_right)
    reader.finish()
    if not c.scales:
        reader.fail("needs `scales`, where it can be checked")
    for artifact in c.artifacts:
        for name in c.scales:
            find_known(f"scale of {artifact}", name, experiments.scales_of(artifact),
                       f"{where}: {reader.name}")
    return c


def _attach_controls(claims, controls):
    known = {c.id: c for c in claims + controls}
    named = set()
    for c in claims:
        for name in c.control_ids:
            find_known("control", name, list(known), f"{c.where}: claim '{c.id}'")
            c.controls.append(known[name])
            named.add(name)
    for c in controls:
        if c.id not in named:
            raise UserError(f"{c.where}: claim '{c.id}' is a control that no claim names")


def read_claims_file(path):
    """Reads the claims of one paper, each with its controls. UserErrors name file, line and key:
    unknown or missing keys, keys that a kind does not use, an id twice, an artifact or scale that
    does not exist."""
    table = dict(experiments.read_toml(path, "claims"))
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    place = {}
    for number, line in enumerate(lines, 1):
        found = re.match(r'\s*id\s*=\s*["\'](.*)["\']', line)
        if found:
            place.setdefault(found.group(1), number)
    paper = table.get("paper")
    if not isinstance(paper, str) or not paper:
        raise UserError(f"{path}: needs `paper`")
    for key in table:
        find_known("key", key, ["paper", "claim", "control"], path)
    read, seen = {"claim": [], "control": []}, set()
    for kind, into in read.items():
        for entry in table.get(kind, []):
            where = f"{path}:{place.get(entry.get('id'), 1)}"
            claim = _read_claim(entry, paper, path, where)
            if claim.id in seen:
                raise UserError(f"{where}: claim '{claim.id}' stands in the file twice")
            seen.add(claim.id)
            into.append(claim)
    _attach_controls(read["claim"], read["control"])
    return read["claim"]


def read_claims(folder):
    """Reads every TOML file of a folder, in the order of their names."""
    names = sorted(name for name in os.listdir(folder) if name.endswith(".toml"))
    return [c for name in names for c in read_claims_file(os.path.join(folder, name))]
