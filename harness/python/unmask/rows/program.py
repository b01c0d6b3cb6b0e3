# SPDX-License-Identifier: Apache-2.0
"""The program that called this package, for what only it can do."""

import os
import subprocess
import sys

from unmask.rows.errors import EnvironmentFault


def program():
    """Gives the path of the program: it names itself in $UNMASK_PROGRAM when it calls."""
    named = os.environ.get("UNMASK_PROGRAM")
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
