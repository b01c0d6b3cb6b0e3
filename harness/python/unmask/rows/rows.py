# SPDX-License-Identifier: Apache-2.0
"""Result rows: the one reader, and what a row was measured with.

A row is the JSON object of one line, as results/FORMAT.md and results/row.schema.json describe it;
what an older row lacks is filled in with the meaning that its absence had."""

import gc
import io
import json
import os
import re
import shlex
import sys
import tarfile

from unmask.rows import checksum
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import does_not_exist, opened
from unmask.rows.judge import NAMES, SCHEMA, plain, problem_of_row, row_value
from unmask.rows.machines import machine_class
from unmask.rows.names import unknown_name, value_text

SCHEMA_MAJOR = 1
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
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # editors put it before a text; files that were joined have it anywhere
ARCHIVE = "rows.tar.xz"
LARGEST_ARCHIVE = 1 << 30  # unpacked

def is_card(row):
    """Whether the row was measured on a GPU."""
    return row.get("device_facts", {}).get("is_card", IS_CARD.get(row["device"], False))


def _complete(row):
    """Fills in what older rows do not have."""
    for key, default in RUN_KEYS.items():
        row.setdefault(key, default)
    probes = row.setdefault("probes", {})
    if "calibration" in probes:  # where it lay before schema 1.3
        old = probes.pop("calibration")
        row["calibration"] = row.get("calibration") or old
    row.setdefault("answers_hash", "")
    return row


def parse_row(line, where):
    """Makes a row of one line. ValueError says why it is none; EnvironmentFault where the line is
    of another major schema version, which must not be passed over."""
    try:
        row = row_value(line)
    except ValueError as problem:
        raise ValueError(f"no JSON: {problem}") from None
    version = row.get("schema_version") if isinstance(row, dict) else None
    if isinstance(row, dict) and "schema_version" in row and not isinstance(version, str):
        number = isinstance(version, (int, float)) and not isinstance(version, bool)
        raise ValueError("`schema_version` should be a text and is "
                         + (f"the number {json.dumps(version)}" if number else NAMES[type(version)]))
    if version is None:
        raise ValueError("one JSON object with `schema_version` is expected")
    if not re.fullmatch(r"[0-9]+\.[0-9]+", version):
        raise ValueError("`schema_version` should be MAJOR.MINOR")
    if version.split(".")[0] != str(SCHEMA_MAJOR):
        raise EnvironmentFault(f"{where}: schema version {version} is not known to "
                               f"this program, which reads {SCHEMA_MAJOR}.x; use the version that "
                               "wrote it")
    problem = problem_of_row(row)
    if problem:
        raise ValueError(problem)
    row = _complete(plain(row))
    return row if checksum.fits(row, line) else checksum.marked(row)


def _note(text):
    """Says something on standard error; what files hold cannot steer the terminal."""
    print("note: " + "".join(c if c.isprintable() else "?" for c in text), file=sys.stderr)


class _PassedOver:
    """The lines of a file that are no rows, said in one note, as the program does (harness/rows/store.cpp): a
    file of another kind has thousands."""
    MOST_NAMED = 20

    def __init__(self, name):
        self.name, self.numbers, self.changed, self.first = name, [], [], ""
        self.json = self.torn = False  # of the first, which is JSON though no row; of the last

    def add(self, number, problem, is_json, last):
        if not self.numbers:
            self.first, self.json = str(problem), is_json
        self.numbers.append(number)
        self.torn = last and not is_json

    def say(self, rows):
        if self.changed:
            more = f", and {len(self.changed) - 1} more rows were" if len(self.changed) > 1 else " was"
            _note(f"{self.name}:{self.changed[0]}{more} changed after it was written: `sha256` does not fit, no "
                  "verdict rests on such a row")
        if not self.numbers:
            return
        text = f"{self.name}:{self.numbers[0]}: passed over a line that is no result row ({self.first})"
        if len(self.numbers) > 1:
            named = ", ".join(map(str, self.numbers[1:])) if len(self.numbers) <= self.MOST_NAMED else ""
            text += f", and {len(self.numbers) - 1} more" + (f" ({named})" if named else "")
        _note(f"{text}; all other rows count. {self._advice(rows)}")

    def _advice(self, rows):
        file = shlex.quote(self.name)
        if self.torn and len(self.numbers) == 1:
            return "It was cut off as it was written: the next run into this folder moves it aside"
        if len(self.numbers) > 1 and rows == 0 and not self.json:
            return f"No line is one: of JSON over several lines `jq -c '.[]?' {file}` writes a row a line"
        again = "Run the command that wrote them once more to measure their points"
        if len(self.numbers) > self.MOST_NAMED:
            return again
        lines = "".join(f"{number}d;" for number in self.numbers).rstrip(";")
        return (f"{again}; `sed -i.damaged {shlex.quote(lines)} {file}` takes "
                + ("all of them out at once" if len(self.numbers) > 1 else "it out")
                + " and keeps the file as it is beside it")


def _is_json(line):
    try:
        row_value(line.decode())
    except ValueError:
        return False
    return True


def lines_of(stream, name, said=True):
    """The rows of a stream of bytes: (row, its line without a byte order mark and line end, its number). What
    is no row is passed over; `said`: in a note, once at the end."""
    passed, rows = _PassedOver(name), 0
    for number, line in enumerate(stream, 1):
        ended, line = line.endswith(b"\n"), line.removesuffix(b"\n").removeprefix(BYTE_ORDER_MARK)
        if not line.strip(b" \t\r"):
            continue
        try:
            row = parse_row(line.decode(), f"{name}:{number}")
        except ValueError as problem:
            why = "no JSON: it is no UTF-8" if isinstance(problem, UnicodeDecodeError) else problem
            passed.add(number, why, _is_json(line), not ended)
            continue
        rows += 1
        if checksum.is_marked(row):
            passed.changed.append(number)
        yield row, line, number
    if said:
        passed.say(rows)


def _read_lines(stream, name):
    collecting = gc.isenabled()
    gc.disable()  # rows hold no circles, and looking for them takes a third of the time
    try:
        return [row for row, _, _ in lines_of(stream, name)]
    finally:
        if collecting:
            gc.enable()


def _rows_of_file(path):
    with opened(path) as stream:
        if os.fstat(stream.fileno()).st_size > LARGEST_FILE:
            raise EnvironmentFault(f"{path}: larger than {LARGEST_FILE >> 30} GB")
        return _read_lines(stream, str(path))


def rows_with_lines(path):
    """Reads the rows of a file with the line that each was read of; what is no row is passed over."""
    with opened(path) as stream:
        for row, line, _ in lines_of(stream, str(path), said=False):
            yield row, line.decode()


def rows_with_places(path):
    """Reads the rows of a file or a folder's files: (row, its line as bytes, file, number of the line)."""
    if not os.path.exists(path):
        raise does_not_exist(path)
    for file in row_files(path) if os.path.isdir(path) else [path]:
        with opened(file) as stream:
            for row, line, number in lines_of(stream, str(file)):
                yield row, line, file, number


def row_files(folder):
    """Names the files of rows in a folder itself: *.jsonl, without samples_*."""
    return sorted(os.path.join(folder, name) for name in os.listdir(folder)
                  if name.endswith(".jsonl") and not name.startswith("samples_")
                  and name != "campaign.jsonl")


def read_rows(path):
    """Reads every row of a file or of a folder's files, in their order. A line that is no row is
    passed over and said on standard error; EnvironmentFault where there is nothing at `path`."""
    if not os.path.exists(path):
        raise does_not_exist(path)
    if not os.path.isdir(path):
        return _rows_of_file(path)
    return [row for file in row_files(path) for row in _rows_of_file(file)]


def latest(rows):
    """Keeps the last row of each point on each machine, in the place of the first; rows of one experiment
    stand in the order of its plan."""
    kept = {}
    for row in rows:
        kept[row["point_id"], machine_class(row)] = row
    kept = list(kept.values())
    if len({row["title"] for row in kept}) == 1:
        kept.sort(key=lambda row: row["position"])
    return kept


def read_latest(*paths):
    """Reads files and folders, and keeps the last row of each point on each machine."""
    return latest([row for path in paths for row in read_rows(path)])


def places_below(path, wanted=lambda place: True, archive=ARCHIVE, of_archive=None):
    """Reads every rows.jsonl below a folder, by the folder's place in it, "focus/table_5/tiny", of the
    places that are wanted. A folder without any that holds an archive of this name stands for what that
    holds; of_archive: the places that are wanted of an archive, if others need not be read."""
    found = {}
    for folder, folders, files in os.walk(path):
        folders.sort()
        if "rows.jsonl" in files:
            place = os.path.relpath(folder, path).replace(os.sep, "/")
            if wanted(place):
                found["" if place == "." else place] = _rows_of_file(os.path.join(folder, "rows.jsonl"))
    archive = os.path.join(path, archive)
    return found if found or not os.path.isfile(archive) else _rows_of_archive(archive, of_archive or wanted)


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


def is_of_any_seed(row):
    """Tells whether no seed changes what a row says, so that it was measured once for all of them."""
    return ("seed", "any") in variation(row)


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
