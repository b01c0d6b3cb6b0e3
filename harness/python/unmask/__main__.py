# SPDX-License-Identifier: Apache-2.0
"""python -m unmask COMMAND: the commands of the program that compute on rows or belong to a benchmark.

Each is a module with main(arguments) -> exit code, imported only when it is called. Its docstring says what it is
for, where the program (harness/cli/commands.cpp) does not."""

import ast
import importlib
import importlib.util
import sys

from unmask.rows.ending import ended, stop_by_exception, tell
from unmask.rows.options import summary_of

COMMANDS = {
    "bundle": "unmask.jobs.bundle",
    "campaign": "unmask.jobs.campaign",
    "chat": "unmask.benchmarks.chat",
    "claims": "unmask.claims.claims",
    "compare": "unmask.tables.compare",
    "crossover": "unmask.tables.crossover",
    "merge": "unmask.jobs.merge",
    "pictures": "unmask.pictures",
    "plan": "unmask.jobs.plan",
    "probes": "unmask.probes",
    "prompts": "unmask.benchmarks.prompts",
    "report": "unmask.page.page",
    "rerun": "unmask.jobs.rerun",
    "score": "unmask.benchmarks.score",
    "table": "unmask.tables.table",
}
# What the program alone calls: `unmask run FILE --rule RULE.py`.
OF_THE_PROGRAM = {"engine": "unmask.engine.command"}


def help_of_all():
    """Prints the help of every command behind a line "== NAME", for the program's completion and manual."""
    for name in COMMANDS:
        print(f"== {name}")
        call([name, "--help"])
    return 0


def list_of_all():
    """A line for each command; no command is imported."""
    text = "usage: python -m unmask COMMAND ...\n\n"
    for name, module in COMMANDS.items():
        with open(importlib.util.find_spec(module).origin, encoding="utf-8") as file:
            doc = ast.get_docstring(ast.parse(file.read())) or ""
        text += f"  {name:<12}{summary_of(doc)[1]}\n"
    return text


def call(arguments):
    """Runs a command: its exit code. Raises what the command raises."""
    if arguments == ["help", "--all"]:
        return help_of_all()
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(list_of_all(), end="")
        return 0 if arguments else 2
    module = COMMANDS.get(arguments[0]) or OF_THE_PROGRAM.get(arguments[0])
    if module is None:
        tell(f"unknown command: {arguments[0]}")
        return 2
    try:
        return importlib.import_module(module).main(arguments[1:])
    except ModuleNotFoundError as missing:
        tell(f"NOT RUN: needs the Python package {missing.name}; ./dev setup installs it")
        return 3
    except SystemExit as end:  # argparse: --help or a usage error
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 2


def main(arguments):
    """Runs a command; errors become a sentence and an exit code, and so does output that is lost."""
    return ended(lambda: call(arguments))


def run():
    # Also with $PYTHONUNBUFFERED: argparse lets an error of writing pass, flush() does not.
    sys.stdout.reconfigure(write_through=False)
    stop_by_exception()
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
