# SPDX-License-Identifier: Apache-2.0
"""Result rows: the one reader, and what a row was measured with.

A row is the JSON object of one line, as results/README.md and results/row.schema.json describe it;
what an older row lacks is filled in with the meaning that its absence had."""

import gc
import io
import json
import os
import sys
import tarfile

from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import opened
from unmask.rows.names import unknown_name, value_text
from unmask.rows.shapes import FLAG, LARGEST_NUMBER, MAYBE, NUMBER, TEXT, misfit
from unmask.rows.text import json_value

SCHEMA_MAJOR = 1
# What a row may hold: made by `unmask show schema` of the lists that the program reads and writes rows by.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "row.schema.json"), encoding="utf-8") as _file:
    SCHEMA = json.load(_file)
FIELDS = SCHEMA["properties"]
# Keys of [run] and what they are where a row, being older, does not name them.
RUN_KEYS = {name: of["default"] for name, of in FIELDS.items() if "default" in of}
# What a device says of itself, where a row is older than its `device_facts`.
IS_CARD = {"cuda": True}
# Besides the keys of [run], params.NAME and serve.NAME.
PLAIN_KEYS = ("label", "method", "preset", "model", "workload", "variation", "kind")
REPORTABLE = ("PASS", "NOISY", "NOT_VERIFIED", "INACTIVE")
VERDICTS = tuple(FIELDS["verdict"]["enum"])
LARGEST_FILE = 4 << 30
ARCHIVE = "rows.tar.xz"
LARGEST_ARCHIVE = 1 << 30  # unpacked

JSON_TYPES = {"string": TEXT, "boolean": FLAG, "integer": (int,), "number": NUMBER, "object": (dict,), "array": (list,),
              "null": (type(None),)}


def _types_of(schema):
    """The types of a value, as a tuple."""
    kinds = schema.get("type", "string")  # of an enum: its words
    return sum((JSON_TYPES[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)), ())


def _shape_of(schema):
    """A JSON Schema, as far as rows use it, as a shape."""
    needed = schema.get("required", ())
    if "properties" in schema:
        return {name + ("" if name in needed else "?"): _shape_of(of) for name, of in schema["properties"].items()}
    if "additionalProperties" in schema:
        return {"*": _shape_of(schema["additionalProperties"])}
    return [_shape_of(schema["items"])] if "items" in schema else _types_of(schema)


def _needed_of(schema):
    """{name: type} of what must be there and has one type."""
    kinds = {name: _types_of(schema["properties"][name]) for name in schema.get("required", ())}
    return {name: kind[0] for name, kind in kinds.items() if len(kind) == 1}


NEEDED = _needed_of(SCHEMA)
NEEDED_BELOW = {name: _needed_of(FIELDS[name]) for name in NEEDED if "properties" in FIELDS[name]}
# Besides, what readers rely on in the objects that the schema leaves open.
PHASE = {"phase": TEXT, "container": FLAG, "own_seconds": NUMBER, "flops": MAYBE, "bytes": MAYBE,
         "provenance": TEXT, "device_seconds?": MAYBE}
SHAPES = {name: _shape_of(of) for name, of in FIELDS.items()
          if name not in RUN_KEYS and name not in ("score", "metrics")} | {
    "probes": {"phases?": {"phases?": [PHASE], "kernels?": [{"*": (str, int, float, bool, type(None))}]},
               "*": (dict,)},
    "environment": {"build?": (dict,)}}
ITEM_LISTS = ("id", "score", "exact", "output_tokens", "seconds", "answer_hash")


def is_card(row):
    """Whether the row was measured on a GPU."""
    return row.get("device_facts", {}).get("is_card", IS_CARD.get(row["device"], False))


def _is(value, kind):
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


NUMBERS = {int, float, type(None)}


def _are_numbers_or_null(values):
    return set(map(type, values)) <= NUMBERS and all(
        v is None or abs(v) <= LARGEST_NUMBER for v in values)


def _problem_of(row):
    """Says what keeps an object from being a row; "" where nothing does."""
    for name, kind in NEEDED.items():
        if not _is(row.get(name), kind):
            return f"`{name}` is missing or of another type"
    for name, members in NEEDED_BELOW.items():
        for member, kind in members.items():
            if not _is(row[name].get(member), kind):
                return f"`{name}.{member}` is missing or of another type"
    if row["verdict"] not in VERDICTS:
        return f"verdict '{row['verdict']}' is no known one"
    if not _are_numbers_or_null(row["metrics"].values()):
        return "`metrics` holds something that is no number"
    if any(name not in row["provenance"] for name in row["metrics"]):
        return "`provenance` does not name every metric"
    samples = list(row["samples"]["seconds"])
    for values in row.get("metric_samples", {}).values():
        samples += values if isinstance(values, list) else ["no list"]
    if not _are_numbers_or_null(samples):
        return "samples are no lists of numbers"
    if any(_is(row[key], type(other)) is False for key, other in RUN_KEYS.items() if key in row):
        return "a key of [run] is of another type"
    shapes = ((name, row[name]) for name in SHAPES if name in row)
    return (next(filter(None, (misfit(value, SHAPES[name], name) for name, value in shapes)), "")
            or _problem_of_score(row) or _problem_of_items(row.get("items")))


def _problem_of_score(row):
    score = row.get("score")
    if score is None:
        return "" if "score" in row else "`score` is missing"
    if not isinstance(score, dict):
        return "`score` is no object"
    numbers = [score.get("mean"), score.get("exact"), score.get("n")]
    bounds = score.get("ci95")
    if not isinstance(bounds, list) or len(bounds) != 2:
        return "`score.ci95` is no pair"
    if None in numbers + bounds or not _are_numbers_or_null(numbers + bounds):
        return "`score` holds something that is no number"
    return ""


def _problem_of_items(items):
    if items is None:
        return ""
    if not isinstance(items, dict) or not all(_is(items.get(k), list) for k in ITEM_LISTS):
        return "`items` does not hold its lists"
    if len({len(items[k]) for k in ITEM_LISTS}) != 1:
        return "`items` holds lists of different lengths"
    return "" if _are_numbers_or_null(items["score"]) else "`items.score` holds no numbers"


def _complete(row):
    """Fills in what older rows do not have."""
    for key, default in RUN_KEYS.items():
        row.setdefault(key, default)
    probes = row.setdefault("probes", {})
    if "calibration" in probes:  # where it lay before schema 1.3
        row.setdefault("calibration", probes.pop("calibration"))
    row.setdefault("answers_hash", "")
    return row


def _refuse_constant(name):
    raise ValueError(f"{name} is no JSON number")


def parse_row(line, where):
    """Makes a row of one line. ValueError says why it is none; EnvironmentFault where the line is
    of another major schema version, which must not be passed over."""
    row = json_value(line, parse_constant=_refuse_constant)
    if not isinstance(row, dict) or not isinstance(row.get("schema_version"), str):
        raise ValueError("no JSON object with schema_version")
    if row["schema_version"].split(".")[0] != str(SCHEMA_MAJOR):
        raise EnvironmentFault(f"{where}: schema version {row['schema_version']} is not known to "
                               f"this program, which reads {SCHEMA_MAJOR}.x; use the version that "
                               "wrote it")
    problem = _problem_of(row)
    if problem:
        raise ValueError(problem)
    return _complete(row)


def _note(text):
    """Says something on standard error; what files hold cannot steer the terminal."""
    print("note: " + "".join(c if c.isprintable() else "?" for c in text), file=sys.stderr)


def _read_lines(stream, name):
    rows = []
    collecting = gc.isenabled()
    gc.disable()  # rows hold no circles, and looking for them takes a third of the time
    try:
        _read_into(rows, stream, name)
    finally:
        if collecting:
            gc.enable()
    return rows


def _read_into(rows, stream, name):
    passed = []
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            rows.append(parse_row(line.decode("utf-8", "replace"), where))
        except ValueError as problem:
            passed.append(f"{where}: passed over a line that is no result row ({problem})")
    if passed:
        _note(passed[0] + (f", and {len(passed) - 1} more" if len(passed) > 1 else ""))


def _rows_of_file(path):
    with opened(path) as stream:
        if os.fstat(stream.fileno()).st_size > LARGEST_FILE:
            raise EnvironmentFault(f"{path}: larger than {LARGEST_FILE >> 30} GB")
        return _read_lines(stream, str(path))


def rows_with_lines(path):
    """Reads the rows of a file with the line that each was read of; what is no row is passed over."""
    with opened(path) as stream:
        for number, line in enumerate(stream, 1):
            text = line.decode("utf-8", "replace").rstrip("\n")
            try:
                if text.strip():
                    yield parse_row(text, f"{path}:{number}"), text
            except ValueError:
                continue


def row_files(folder):
    """Names the files of rows in a folder itself: *.jsonl, without samples_*."""
    return sorted(os.path.join(folder, name) for name in os.listdir(folder)
                  if name.endswith(".jsonl") and not name.startswith("samples_")
                  and name != "campaign.jsonl")


def read_rows(path):
    """Reads every row of a file or of a folder's files, in their order. A line that is no row is
    passed over and said on standard error; EnvironmentFault where there is nothing at `path`."""
    if not os.path.exists(path):
        raise EnvironmentFault(f"there are no results at {path}")
    if not os.path.isdir(path):
        return _rows_of_file(path)
    return [row for file in row_files(path) for row in _rows_of_file(file)]


def latest(rows):
    """Keeps the last row of each point, in the place of the first; rows of one experiment stand in
    the order of its plan."""
    kept = {}
    for row in rows:
        kept[row["point_id"]] = row
    kept = list(kept.values())
    if len({row["title"] for row in kept}) == 1:
        kept.sort(key=lambda row: row["position"])
    return kept


def read_latest(*paths):
    """Reads files and folders, and keeps the last row of each point."""
    return latest([row for path in paths for row in read_rows(path)])


def places_below(path, wanted=lambda place: True, archive=ARCHIVE):
    """Reads every rows.jsonl below a folder, by the folder's place in it, "focus/table_5/tiny", of the
    places that are wanted. A folder without any that holds an archive of this name stands for what that
    holds."""
    found = {}
    for folder, folders, files in os.walk(path):
        folders.sort()
        if "rows.jsonl" in files:
            place = os.path.relpath(folder, path).replace(os.sep, "/")
            if wanted(place):
                found["" if place == "." else place] = _rows_of_file(os.path.join(folder, "rows.jsonl"))
    archive = os.path.join(path, archive)
    return found if found or not os.path.isfile(archive) else _rows_of_archive(archive, wanted)


def _rows_of_archive(path, wanted):
    found, size = {}, 0
    try:
        with opened(path) as file, tarfile.open(fileobj=file, mode="r:xz") as archive:
            for member in archive:
                if not member.isreg() or os.path.basename(member.name) != "rows.jsonl":
                    continue
                size += member.size
                if size > LARGEST_ARCHIVE:
                    raise EnvironmentFault(f"{path}: unpacks to more than "
                                           f"{LARGEST_ARCHIVE >> 30} GB")
                place = os.path.dirname(os.path.normpath(member.name))
                if not wanted(place):
                    continue
                text = io.BytesIO(archive.extractfile(member).read())
                found[place] = _read_lines(text, f"{path}({member.name})")
    except (tarfile.TarError, EOFError) as problem:
        raise EnvironmentFault(f"{path}: cannot be unpacked: {problem}") from None
    return found


def is_reportable(row):
    """Tells whether the numbers of a row may be shown and compared."""
    return row["verdict"] in REPORTABLE


def is_synthetic(row):
    return row["model"]["weights"] == "synthetic"


def check_key(key, where):
    """Raises a UserError, led by `where`, for what is no key of a row."""
    prefix, dot, rest = key.partition(".")
    if key in PLAIN_KEYS or key in RUN_KEYS or (dot and rest and prefix in ("params", "serve")):
        return
    known = [*PLAIN_KEYS, *RUN_KEYS, "params.NAME", "serve.NAME"]
    raise UserError(f"{where}: {unknown_name('key of a row', key, known)}")


def setting(row, key):
    """Finds what a row was measured with, as text: setting(row, "params.threshold") is "0.9". None
    where the row does not have it."""
    if key in ("label", "method", "preset", "variation"):
        return row[key]
    if key == "model":
        return row["model"]["name"]
    if key == "workload":
        return row["workload"]["family"]
    if key == "kind":
        return "serve" if "serve" in row else "decode"
    if key in RUN_KEYS:
        return value_text(row[key])
    group, _, name = key.partition(".")
    values = row.get(group) if group in ("params", "serve") else None
    return value_text(values[name]) if values and name in values else None


def as_number(text):
    """Reads a text that is a plain number to its end; None for any other."""
    if text is None or text != text.strip() or "_" in text or text[:1] == "+":
        return None
    try:
        return float(text)
    except ValueError:
        return None


def number_setting(row, key):
    return as_number(setting(row, key))


def variation(row):
    """Lists what a sweep changed, "a=1 b=2" as pairs in its order."""
    parts = [part.partition("=") for part in row["variation"].split(" ") if part]
    return [(key, value) for key, _, value in parts]


def row_name(row, without=()):
    """Names a row by label and variation, without the swept keys of these last names."""
    name = row["label"]
    for key, value in variation(row):
        if key.rsplit(".", 1)[-1] not in without:
            name += f" {key}" + (f"={value}" if value else "")
    return name


def circumstance(row, free=()):
    """What two rows must agree in to be compared: model, workload, kind, the keys of [run] and of
    [serve], without the free ones."""
    parts = [setting(row, key) for key in ("model", "workload", "kind") if key not in free]
    parts += [row[key] for key in RUN_KEYS if key not in free]
    parts += [(name, value_text(value)) for name, value in sorted(row.get("serve", {}).items())
              if f"serve.{name}" not in free]
    return tuple(parts)


def point_name(row):
    """Names a point without the hashes that its id holds, so that runs before and after a change of
    weights or files meet."""
    return (row["model"]["name"], row["workload"]["family"], row["method"], row["label"],
            row["variation"], setting(row, "kind"), *(row[key] for key in RUN_KEYS))


def grouped(rows, key):
    """Groups rows by a key, in the order of their first rows."""
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())
