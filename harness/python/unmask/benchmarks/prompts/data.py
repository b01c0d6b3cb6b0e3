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
import zlib

from unmask.rows.errors import EnvironmentFault
from unmask.rows.files import opened
from unmask.rows.text import json_value

# Of one file of a data set, unpacked. The largest that a benchmark here reads has a fifth of either.
LARGEST = 256 << 20
MOST_ROWS = 1 << 19
BROKEN = (EOFError, OSError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError, ValueError)


class Files:
    """The folders to look in, and what was read from them: {name below its folder: SHA-256}."""

    def __init__(self, roots):
        self.roots = list(roots)
        self.read = {}
        self.unpacked = 0  # bytes

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
            if found := self._in_archive(root, archive, name):
                return found
        return []

    def _in_archive(self, root, archive, name):
        place = archive
        try:
            with opened(archive) as file, zipfile.ZipFile(file) as members:
                found = sorted((member for member in members.namelist()
                                if fnmatch.fnmatchcase("/" + member, "*/" + name)), key=by_number)
                if found:
                    self._note(root, archive)
                taken = []
                for member in found:
                    place = f"{archive}:{member}"
                    with members.open(member) as stream:
                        taken.append((place, self._whole(stream, place)))
                return taken
        except BROKEN as problem:
            raise broken(place, problem) from None

    def _take(self, root, path):
        self._note(root, path)
        with opened(path) as file:
            try:
                return self._whole(gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file, path)
            except BROKEN as problem:
                raise broken(path, problem) from None

    def _whole(self, stream, name):
        """All that comes out of a stream; EnvironmentFault where that is more than LARGEST, of all files more than
        four times as much."""
        parts, size = [], 0
        while part := stream.read(1 << 20):
            parts.append(part)
            size += len(part)
            self.unpacked += len(part)
            if size > LARGEST or self.unpacked > 4 * LARGEST:
                raise too_large(name)
        return b"".join(parts)

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
        return parquet_rows(name, content)
    text = decoded(name, content)
    if plain.endswith(".csv"):
        return csv_rows(name, text)
    if plain.endswith(".jsonl"):
        if text.count("\n") > MOST_ROWS:
            raise too_large(name)
        return [parsed(f"{name}, line {number}", line)
                for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if plain.endswith(".json"):
        rows = parsed(name, text)
        return rows if isinstance(rows, list) else [rows]
    return [line for line in text.splitlines() if line.strip()]


def broken(name, problem):
    """The fault of a file that cannot be unpacked: as a rule a download that was cut short."""
    words = " ".join(str(getattr(problem, "strerror", None) or problem).split())[:200]
    return EnvironmentFault(f"{name}: cannot be unpacked ({words or type(problem).__name__}); fetch it again")


def parquet_rows(name, content):
    """The records of a Parquet file. It is read part by part: equal rows take no room in a file."""
    import pyarrow
    import pyarrow.parquet
    rows, taken = [], 0
    try:
        file = pyarrow.parquet.ParquetFile(io.BytesIO(content))
        about = file.metadata
        told = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        if about.num_rows > MOST_ROWS or told > LARGEST:
            raise too_large(name)
        for batch in file.iter_batches(batch_size=1024):
            taken += batch.nbytes
            if taken > LARGEST or len(rows) > MOST_ROWS:
                raise too_large(name)
            rows += batch.to_pylist()
    except (*BROKEN, pyarrow.ArrowException, KeyError) as problem:
        raise broken(name, problem) from None
    return rows


def too_large(name):
    return EnvironmentFault(f"{name}: unpacks to more than the {MOST_ROWS} rows or {LARGEST >> 20} MiB that a file of a "
                            "data set may have")


def decoded(name, content):
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise EnvironmentFault(f"{name}: is not text in UTF-8") from None
    if max(text.count("\n"), text.count(",")) > 16 * MOST_ROWS:  # a value of its own takes more than its letter
        raise too_large(name)
    return text


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
