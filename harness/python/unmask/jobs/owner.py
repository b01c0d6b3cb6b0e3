# SPDX-License-Identifier: Apache-2.0
"""A folder that one process at a time measures into: the others are refused with its name."""

import contextlib
from datetime import datetime, timezone
import errno
import fcntl
import json
import os
import socket

from unmask.rows.errors import EnvironmentFault
from unmask.rows.text import json_value

NAME = ".owner"  # in the folder; it goes with its process


def _said(path):
    """The record of who owns a folder; {} where none can be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            said = json_value(file.read(1 << 16))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _goes_on(said):
    """Whether the process of a record still runs, where no lock tells: on another host nobody here knows."""
    if said.get("host") != socket.gethostname():
        return bool(said)
    return isinstance(said.get("pid"), int) and os.path.exists(f"/proc/{said['pid']}")


def _locked(path):
    """A descriptor of the file with its lock; None where somebody has it, -1 where files have no locks here."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(descriptor)
            return None if problem.errno in (errno.EWOULDBLOCK, errno.EINTR) else -1
        with contextlib.suppress(OSError):  # its last owner may have taken it away meanwhile
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)


@contextlib.contextmanager
def of(folder, what):
    """Owns a folder; EnvironmentFault where another process does. `what`: the command, for its sentence."""
    path = os.path.join(folder, NAME)
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor = _locked(path)
        said = _said(path)
        if descriptor is None or (descriptor < 0 and _goes_on(said)):
            raise EnvironmentFault(
                f"{folder}: another {said.get('command', what)} measures into it (process {said.get('pid', '?')} on "
                f"{said.get('host', '?')}, since {said.get('since', '?')}); wait for it or name another folder"
                + ("" if descriptor is None else f"; if it is over, delete {path}"))
        record = {"command": what, "host": socket.gethostname(), "pid": os.getpid(),
                  "since": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    except OSError as problem:
        raise EnvironmentFault(f"cannot write {path} ({problem.strerror})") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        if descriptor >= 0:
            os.close(descriptor)
