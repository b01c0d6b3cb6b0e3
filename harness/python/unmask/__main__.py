# SPDX-License-Identifier: Apache-2.0
"""python -m unmask COMMAND: the commands of the program that compute on rows or belong to a benchmark.

Each is a module with main(arguments) -> exit code, imported only when it is called."""

import importlib
import sys

from unmask.rows.ending import ended, tell

# Command: (module, one line of help).
COMMANDS = {
    "campaign": ("unmask.jobs.campaign", "every artifact from one clean commit, several times, with all claims"),
    "claims": ("unmask.claims.claims", "the papers' claims against measured rows"),
    "compare": ("unmask.tables.compare", "two runs or campaigns: the same answers and counts, and which side is faster"),
    "crossover": ("unmask.tables.crossover", "which method wins where, from rows of a sweep"),
    "report": ("unmask.page.page", "one HTML page of a run: tables, figures, claims, decode player"),
    "table": ("unmask.tables.table", "measured rows as a table: plain, paired, as the paper, phases"),
    "prompts": ("unmask.benchmarks.prompts", "write what benchmarks ask into files, for runs without Python"),
    "bundle": ("unmask.jobs.bundle", "a run as one file, to be repeated elsewhere"),
    "rerun": ("unmask.jobs.rerun", "repeat a bundle and compare"),
    "plan": ("unmask.jobs.plan", "what experiments would measure; as a job array for a cluster"),
    "merge": ("unmask.jobs.merge", "rows that were measured in parts as one file"),
    "score": ("unmask.benchmarks.score", "score answers of any harness with the benchmarks' own libraries"),
    "probes": ("unmask.probes", "compute the probes of a run whose machine had no Python"),
    "chat": ("unmask.benchmarks.chat", "render conversations with a checkpoint's own chat template"),
}


def help_of_all():
    """Prints the help of every command behind a line "== NAME", for the program's completion and manual."""
    for name in COMMANDS:
        print(f"== {name}")
        call([name, "--help"])
    return 0


def call(arguments):
    """Runs a command: its exit code. Raises what the command raises."""
    if arguments == ["help", "--all"]:
        return help_of_all()
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print("usage: python -m unmask COMMAND ...\n")
        for name, (_, words) in COMMANDS.items():
            print(f"  {name:<12}{words}")
        return 0 if arguments else 2
    if arguments[0] not in COMMANDS:
        tell(f"unknown command: {arguments[0]}")
        return 2
    try:
        module = importlib.import_module(COMMANDS[arguments[0]][0])
    except ModuleNotFoundError as missing:
        tell(f"NOT RUN: needs the Python package {missing.name}; ./dev setup installs it")
        return 3
    try:
        return module.main(arguments[1:])
    except SystemExit as end:  # argparse: --help or a usage error
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 2


def main(arguments):
    """Runs a command; errors become a sentence and an exit code, and so does output that is lost."""
    return ended(lambda: call(arguments))


def run():
    # Also with $PYTHONUNBUFFERED: argparse lets an error of writing pass, flush() does not.
    sys.stdout.reconfigure(write_through=False)
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
