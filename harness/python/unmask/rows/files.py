# SPDX-License-Identifier: Apache-2.0
"""Files: regular ones read whole within a limit, and written whole or not at all."""

import contextlib
import io
import os
import pathlib
import stat

from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.text import json_value


def does_not_exist(path):
    """The error of every command for an input that is missing: one wording, and one exit code (3)."""
    return EnvironmentFault(f"{shown(path)} does not exist")


@contextlib.contextmanager
def opened(path):
    """Opens a regular file to be read as bytes. A pipe, a device or a folder is refused at once:
    the file is opened without waiting and looked at before anything is read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise does_not_exist(path) from None
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise EnvironmentFault(f"{path}: cannot open the file ({reason})") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise EnvironmentFault(f"{path}: not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


@contextlib.contextmanager
def opened_text(path, errors="strict"):
    """Opens a regular file to be read as UTF-8."""
    with opened(path) as file, io.TextIOWrapper(file, "utf-8", errors) as text:
        yield text


def read_bytes(path, limit):
    """Reads a regular file of at most `limit` bytes."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise EnvironmentFault(f"{path}: {size} bytes, more than the {limit} such a file may "
                                   "have")
        try:
            return file.read(size)  # of a limit of gigabytes a buffer would be made
        except OSError as problem:
            raise EnvironmentFault(f"{path}: cannot read the file ({problem.strerror})") from None


def read_json(path, limit=64 << 20):
    """The value of a JSON file; UserError that names the file where it is none."""
    try:
        return json_value(read_bytes(path, limit).decode())
    except ValueError as problem:
        raise UserError(f"{path}: not JSON: {problem}") from None


def replace_file(path, content):
    """Writes bytes, or a text as UTF-8, to a file and makes its folder: beside it first, on the disk before
    the name changes, so that it is there whole or as it was. A link keeps its target and a file its mode;
    what is no regular file (/dev/null, a pipe) is written to."""
    content = content.encode() if isinstance(content, str) else content
    place = pathlib.Path(os.path.realpath(path))
    beside = place.with_name(f"{place.name}.part{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        before = place.stat() if place.exists() else None
        if before is not None and not stat.S_ISREG(before.st_mode):
            with open(place, "wb") as out:
                out.write(content)
            return
        try:
            with open(beside, "wb") as out:
                out.write(content)
                out.flush()
                if before is not None:
                    os.fchmod(out.fileno(), stat.S_IMODE(before.st_mode))
                os.fsync(out.fileno())
            os.replace(beside, place)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise EnvironmentFault(f"cannot write {path} ({problem.strerror})") from None


def shown(text):
    """Text of a file for the terminal: what would steer it stands as a question mark."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in str(text))
