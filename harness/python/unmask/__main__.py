# SPDX-License-Identifier: Apache-2.0
"""python -m unmask COMMAND: the commands of the program that compute on rows or belong to a benchmark.

Each is a module with main(arguments) -> exit code, imported only when it is called."""

import importlib
import os
import sys

from unmask.errors import UserError

# Command: (module, one line of help).
COMMANDS = {
    "claims": ("unmask.claims", "the papers' claims against measured rows"),
    "compare": ("unmask.compare", "two runs or builds: same answers, and which side is faster"),
    "crossover": ("unmask.crossover", "which method wins where, from rows of a sweep"),
    "report": ("unmask.page", "one HTML page of a run: tables, figures, claims, decode player"),
    "table": ("unmask.table", "rows as the paper arranges them, or each setting beside its base"),
    "prompts": ("unmask.prompts", "write the tasks of a published benchmark as its harness asks them"),
    "bundle": ("unmask.bundle", "a run as one file, to be repeated elsewhere"),
    "rerun": ("unmask.rerun", "repeat a bundle and compare"),
    "plan": ("unmask.plan", "what experiments would measure; as a job array for a cluster"),
    "merge": ("unmask.merge", "rows that were measured in parts as one file"),
    "score": ("unmask.score", "score sample files with the benchmarks' own libraries"),
}


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print("usage: python -m unmask COMMAND ...\n")
        for name, (_, words) in COMMANDS.items():
            print(f"  {name:<12}{words}")
        return 0 if arguments else 2
    if arguments[0] not in COMMANDS:
        print(f"unmask: unknown command: {arguments[0]}", file=sys.stderr)
        return 2
    try:
        module = importlib.import_module(COMMANDS[arguments[0]][0])
    except ModuleNotFoundError as missing:
        print(f"unmask: NOT RUN: needs the Python package {missing.name}; ./dev setup installs it",
              file=sys.stderr)
        return 3
    try:
        code = module.main(arguments[1:])
        sys.stdout.flush()
        return code
    except UserError as problem:
        print(f"unmask: {problem}", file=sys.stderr)
        return problem.code
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as problem:
        print(f"unmask: {problem.filename or 'output'}: {problem.strerror}", file=sys.stderr)
        return 3


def run():
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
