# SPDX-License-Identifier: Apache-2.0
"""The program that called this package, for what only it can do."""

import os
import subprocess
import sys

from unmask.rows.ending import tell
from unmask.rows.errors import EnvironmentFault


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def installed():
    """Gives the path of the program in the wheel that this package came with, "" if it has none."""
    path = os.path.join(PACKAGE, "bin/unmask")
    return path if os.path.isfile(path) else ""


def start():
    """The command `unmask` of a wheel. This process becomes the program, which calls this Python in turn."""
    path = installed()
    if not path:
        tell("NOT RUN: needs the program unmask, which is not in this installation of the package")
        return EnvironmentFault.code
    os.environ.setdefault("UNMASK_PYTHON", sys.executable)
    os.execv(path, ["unmask", *sys.argv[1:]])


def program():
    """Gives the path of the program: it names itself in $UNMASK_PROGRAM when it calls. Else it is that of the
    wheel."""
    named = os.environ.get("UNMASK_PROGRAM") or installed()
    if not named:
        raise EnvironmentFault("NOT RUN: needs the program unmask; call this command through it, "
                               "or name it in $UNMASK_PROGRAM")
    return os.path.abspath(named)


def call(arguments, **how):
    """Runs the program and waits; `how` as in subprocess.run. It ends with this process: by itself where
    this one is killed ($UNMASK_CALLED_BY), and before this one where that is stopped."""
    sys.stdout.flush()
    how["env"] = {**how.get("env", os.environ), "UNMASK_CALLED_BY": str(os.getpid())}
    command = [program(), *arguments]
    try:
        running = subprocess.Popen(command, **how)
    except OSError as problem:
        raise EnvironmentFault(f"cannot start {program()} ({problem.strerror})") from None
    with running:
        try:
            out, errors = running.communicate()
        except BaseException:
            running.terminate()
            running.wait()
            raise
    return subprocess.CompletedProcess(command, running.returncode, out, errors)


def answer_of(arguments):
    """Runs the program and gives what it printed; where it ends in an error, ends in the same one,
    whose sentence stands on standard error already."""
    done = call(arguments, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    return done.stdout
