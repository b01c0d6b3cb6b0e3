# SPDX-License-Identifier: Apache-2.0
"""How a command ends: errors become a sentence and an exit code, and so does output that is lost."""

import os
import signal
import sys
import traceback

from unmask.rows.errors import UserError
from unmask.rows.text import shown


def tell(sentence):
    """Writes one sentence to standard error."""
    print(f"unmask: {shown(sentence)}", file=sys.stderr)


def stop_by_exception():
    """Makes SIGTERM and SIGHUP end this process by way of its `finally` clauses, with 128 + the signal. One that
    the caller ignores (nohup) stays ignored."""
    def stop(number, frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, stop)


def ended(work):
    """Runs work() and writes out what it printed: its exit code. Of a UserError its own code; 1 where
    the reader has gone, or of a fault of the package's own; 3 where a file or standard output does not take what
    is written; 130 where the user interrupts it."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except UserError as problem:
        tell(problem)
        return problem.code
    except KeyboardInterrupt:
        drop_output()
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the reader has seen enough
        drop_output()
        return 1
    except OSError as problem:
        tell(f"{problem.filename or 'standard output'}: {problem.strerror}")
        drop_output()
        return 3
    except Exception as problem:  # pylint: disable=broad-exception-caught
        at = traceback.extract_tb(problem.__traceback__)[-1]
        tell(f"internal error: {type(problem).__name__}: {problem} ({os.path.basename(at.filename)}:{at.lineno}); "
             "$UNMASK_TRACEBACK=1 shows how it came about")
        if os.environ.get("UNMASK_TRACEBACK") == "1":
            traceback.print_exception(problem)
        drop_output()
        return 1


def drop_output():
    """Gives up what standard output still holds, so that the interpreter does not write it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
