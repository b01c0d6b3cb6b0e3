# SPDX-License-Identifier: Apache-2.0
"""Whether a JSON object is a row: by the schema that the program judges by, row.schema.json, and by the same
rules beside it (harness/rows/row_judge.cpp), so that every command takes the same lines of a file."""

import json
import os
import re

from unmask.rows.shapes import LARGEST_NUMBER
from unmask.rows.text import json_value

# What a row may hold: made by `unmask show schema` of the lists that the program reads and writes rows by.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "row.schema.json"), encoding="utf-8") as _file:
    SCHEMA = json.load(_file)
LARGEST_COUNT, LARGEST_WHOLE, DEEPEST = 2 ** 63 - 1, 2 ** 53, 64
TYPES = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}
WORDS = {"string": "a text", "boolean": "true or false", "integer": "a whole number", "number": "a number",
         "object": "an object", "array": "a list"}
NAMES = {str: "string", bool: "boolean", dict: "object", list: "array", type(None): "null", int: "number",
         float: "number"}
# Where a number may be beyond what a double or a 64-bit count holds: rare enough to look twice.
PERHAPS_LARGE = re.compile(r"\d{19}|[eE]\+?\d{3}")
HOLDERS = frozenset((dict, list))


def _whole(text):
    value = int(text)
    return value if -LARGEST_COUNT - 1 <= value < 2 ** 64 else _real(text)


def _real(text):
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is beyond every range")
    return value


def _refuse_constant(name):
    raise ValueError(f"{name} is no JSON number")


def _is_deep(value, left=DEEPEST):
    """Whether lists and objects lie deeper in each other than the program reads."""
    if left == 0:
        return True
    members = value.values() if isinstance(value, dict) else value
    if HOLDERS.isdisjoint(map(type, members)):
        return False
    return any(type(v) in HOLDERS and _is_deep(v, left - 1) for v in members)


def row_value(text):
    """The value of a line as the program reads it; ValueError where it is no JSON."""
    careful = {"parse_int": _whole, "parse_float": _real} if PERHAPS_LARGE.search(text) else {}
    value = json_value(text, parse_constant=_refuse_constant, **careful)
    if isinstance(value, (dict, list)) and _is_deep(value):
        raise ValueError("nested deeper than any row")
    return value


def _is_of(value, kind):
    if kind in TYPES:
        return isinstance(value, TYPES[kind])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return kind == "number" or isinstance(value, int) or (value.is_integer() and abs(value) <= LARGEST_WHOLE)


def _wrong(path, wanted, value):
    return f"`{path}` should be {wanted} and is {NAMES[type(value)]}"


def _misfit_of_type(value, types, path):
    kind = next((kind for kind in types if _is_of(value, kind)), None)
    if kind is None:
        return _wrong(path, " or ".join(WORDS.get(kind, kind) for kind in types), value)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return ""
    if kind == "integer" and isinstance(value, int) and value > LARGEST_COUNT:
        return f"`{path}` is beyond every count"
    return "" if abs(value) <= LARGEST_NUMBER else f"`{path}` is larger than anything that is measured"


def _misfit_of_members(value, of, path):
    lead = path + "." if path else ""
    needed, known, others = of.get("required", ()), of.get("properties", {}), of.get("additionalProperties")
    for name in needed:
        if name not in value:
            return f"`{lead}{name}` is missing"
    for name in sorted(value):
        member, inside = value[name], known.get(name, others)
        if inside is None or (member is None and name not in needed and others is None):
            continue
        problem = misfit(member, inside, lead + name)
        if problem:
            return problem
    return ""


PLAIN = {"string": {str}, "boolean": {bool}}


def _all_fit(values, of):
    """Whether a list or map holds plain values that all fit: most do, and most of a row are in lists."""
    types, kinds = set(map(type, values)), of.get("type")
    if kinds in ("string", "boolean"):
        return types <= PLAIN[kinds]
    if kinds == "integer":
        return types <= {int} and all(-LARGEST_COUNT <= v <= LARGEST_COUNT for v in values)
    if kinds == "number" or kinds == ["number", "null"]:
        return (types <= {int, float} | ({type(None)} if kinds != "number" else set())
                and all(v is None or abs(v) <= LARGEST_NUMBER for v in values))
    return False


def misfit(value, of, path=""):
    """Names the first place of a value that is not of a schema, as the program does; "" where it fits. A null
    of a field that rows may lack means that it is absent."""
    if "enum" in of:
        if not isinstance(value, str):
            return _wrong(path, "a text", value)
        return "" if value in of["enum"] else f"`{path}` is '{value}', which is no known value"
    types = of.get("type")
    if types is not None:
        problem = _misfit_of_type(value, [types] if isinstance(types, str) else types, path)
        if problem:
            return problem
    if isinstance(value, dict):
        others = of.get("additionalProperties")
        if others is not None and "properties" not in of and _all_fit(value.values(), others):
            return ""
        return _misfit_of_members(value, of, path)
    if not isinstance(value, list):
        return ""
    if "minItems" in of and len(value) != of["minItems"]:
        return f"`{path}` should hold {of['minItems']} values"
    inside = of.get("items")
    if inside is None or _all_fit(value, inside):
        return ""
    return next(filter(None, (misfit(v, inside, path + "[]") for v in value)), "")


def _quick(of):
    """A function that is true only of values in which misfit() finds nothing. Almost every row is one, and
    this is asked in half the time."""
    if "enum" in of:
        known = frozenset(of["enum"])
        return lambda value: type(value) is str and value in known
    kinds = [of["type"]] if isinstance(of.get("type"), str) else of.get("type", ())
    types = {TYPES[kind] for kind in kinds if kind in TYPES}
    if "number" in kinds:
        return lambda value: (type(value) in (int, float) and abs(value) <= LARGEST_NUMBER) or type(value) in types
    if "integer" in kinds:
        return lambda value: (type(value) is int and abs(value) <= LARGEST_COUNT) or type(value) in types
    if "array" in kinds:
        return _quick_list(of)
    if "object" in kinds:
        return _quick_object(of, types)
    return lambda value: type(value) in types


def _quick_list(of):
    inside = _quick(of["items"]) if "items" in of else lambda value: True
    plain_kind, length = of.get("items", {}), of.get("minItems")
    return lambda value: (type(value) is list and length in (None, len(value))
                          and (_all_fit(value, plain_kind) or all(map(inside, value))))


def _quick_object(of, types):
    needed = frozenset(of.get("required", ()))
    known = {name: _quick(inside) for name, inside in of.get("properties", {}).items()}
    others = of.get("additionalProperties")
    other = _quick(others) if others is not None else None

    def fits(value):
        if type(value) is not dict:
            return type(value) in types
        if not needed <= value.keys():
            return False
        for name, member in value.items():
            inside = known.get(name, other)
            if inside is not None and not inside(member) and (member is not None or name in needed or other is not None):
                return False
        return True
    return fits


_fits = _quick(SCHEMA)


def _problem_of_metrics(row):
    for name in sorted(row["metrics"]):
        if name not in row["provenance"]:
            return f"`provenance` does not name `{name}`"
    for name in sorted(row.get("metric_samples") or {}):
        if name not in row["metrics"]:
            return f"`metric_samples.{name}` is of no metric"
    return ""


def problem_of_row(row):
    """What keeps an object from being a row, as a sentence that names the field; "" where nothing does."""
    problem = "" if _fits(row) else misfit(row, SCHEMA)
    problem = problem or _problem_of_metrics(row)
    items = row.get("items") if not problem else None
    if items and any(len(of_items) != len(items["id"]) for of_items in items.values() if isinstance(of_items, list)):
        return "`items` holds lists of different lengths"
    return problem


def plain(value, of=SCHEMA):
    """The value in place without the nulls that mean absent, and with 3.0 as 3 where a whole number is meant."""
    needed = of.get("required", ())
    for name, inside in of.get("properties", {}).items():
        member = value.get(name)
        if member is None:
            if name in value and name not in needed:
                del value[name]
        elif isinstance(member, float) and inside.get("type") == "integer":
            value[name] = int(member)
        elif isinstance(member, dict) and "properties" in inside:
            plain(member, inside)
        elif isinstance(member, list) and inside.get("items", {}).get("type") == "integer":
            value[name] = [int(v) for v in member]
    return value
