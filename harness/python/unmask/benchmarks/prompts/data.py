# SPDX-License-Identifier: Apache-2.0
"""Finds and reads the files of a data set: as its authors publish them or as the Hub keeps them
(CSV, JSON lines, one JSON array, Parquet), plain, packed with gzip, as leading records
(STEM.firstN.EXT.gz) or inside a zip archive. Nothing is downloaded and no code of a data set is
run."""

import csv
import fnmatch
import glob
import gzip
import hashlib
import io
import os
import zipfile

from unmask.rows.errors import EnvironmentFault
from unmask.rows.files import opened
from unmask.rows.text import json_value


class Files:
    """The folders to look in, and what was read from them: {name below its folder: SHA-256}."""

    def __init__(self, roots):
        self.roots = list(roots)
        self.read = {}

    def find(self, dataset, names, where_to_get=""):
        """[(name for messages, bytes)] of the first of `names` that is there; a name may have a
        `*`."""
        for root in self.roots:
            for folder in (os.path.join(root, dataset), root):
                for name in names:
                    if found := self._in_folder(root, folder, name):
                        return found
        places = ", ".join(f"{root} or its folder {dataset}" for root in self.roots)
        raise EnvironmentFault(
            f"NOT RUN: needs {dataset}: there is no {' or '.join(names)} in "
            f"{places or 'any folder (give `path` or $UNMASK_DATASETS)'}; `unmask list benchmarks` "
            f"says where {dataset} is published{where_to_get}")

    def _in_folder(self, root, folder, name):
        stem, ending = os.path.splitext(name)
        for pattern in (name, name + ".gz", f"{stem}.first*{ending}.gz"):
            paths = sorted(glob.glob(os.path.join(glob.escape(folder), pattern)), key=by_number)
            if paths:
                return [(path, self._take(root, path)) for path in paths]
        for archive in sorted(glob.glob(os.path.join(glob.escape(folder), "*.zip"))):
            with zipfile.ZipFile(archive) as members:
                found = sorted((member for member in members.namelist()
                                if fnmatch.fnmatchcase("/" + member, "*/" + name)), key=by_number)
                if found:
                    self._note(root, archive)
                    return [(f"{archive}:{member}", members.read(member)) for member in found]
        return []

    def _take(self, root, path):
        self._note(root, path)
        with opened(path) as file:
            content = file.read()
        return gzip.decompress(content) if path.endswith(".gz") else content

    def _note(self, root, path):
        name = os.path.relpath(path, root)
        if name not in self.read:
            with opened(path) as file:
                self.read[name] = hashlib.file_digest(file, "sha256").hexdigest()


def by_number(path):
    """Sorts 2.json before 10.json and leaves other names in their order."""
    stem = os.path.splitext(os.path.basename(path))[0]
    return (0, int(stem), "") if stem.isdigit() else (1, 0, path)


def rows_of(name, content):
    """The records of one file, by its ending."""
    plain = name.removesuffix(".gz")
    if plain.endswith(".parquet"):
        import pyarrow.parquet
        return pyarrow.parquet.read_table(io.BytesIO(content)).to_pylist()
    text = decoded(name, content)
    if plain.endswith(".csv"):
        return csv_rows(name, text)
    if plain.endswith(".jsonl"):
        return [parsed(f"{name}, line {number}", line)
                for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if plain.endswith(".json"):
        rows = parsed(name, text)
        return rows if isinstance(rows, list) else [rows]
    return [line for line in text.splitlines() if line.strip()]


def decoded(name, content):
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise EnvironmentFault(f"{name}: is not text in UTF-8") from None


def parsed(where, text):
    try:
        return json_value(text)
    except ValueError as problem:
        raise EnvironmentFault(f"{where}: is not JSON: {getattr(problem, 'msg', problem)}") from None


def csv_rows(name, text):
    """Rows as lists; a quote that never closes is an error."""
    try:
        return [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as problem:
        raise EnvironmentFault(f"{name}: {problem}") from None


def named_rows(name, rows, columns):
    """Dictionaries of these columns from CSV rows whose first names them; others pass unchanged."""
    if not rows or isinstance(rows[0], dict):
        return rows
    missing = [column for column in columns if column not in rows[0]]
    if missing:
        raise EnvironmentFault(f"{name}: has no column \"{missing[0]}\"")
    places = [rows[0].index(column) for column in columns]
    for number, row in enumerate(rows[1:], 1):
        if len(row) <= max(places):
            raise EnvironmentFault(f"{name}, row {number}: is cut off")
    return [dict(zip(columns, (row[place] for place in places))) for row in rows[1:]]


def require(where, row, texts, lists=()):
    """Names the file and the item of a record that lacks what a prompt is made of."""
    if not isinstance(row, dict):
        raise EnvironmentFault(f"{where}: must be a record with {', '.join(texts)}")
    for key in texts:
        if key not in row:
            raise EnvironmentFault(f"{where}: `{key}` is missing")
        if not isinstance(row[key], str):
            raise EnvironmentFault(f"{where}: `{key}` must be a text")
        if not row[key].strip():
            raise EnvironmentFault(f"{where}: `{key}` is empty; the file is incomplete")
    for key in lists:
        if not isinstance(row.get(key), list):
            raise EnvironmentFault(f"{where}: `{key}` must be a list")
    return row
