# SPDX-License-Identifier: Apache-2.0
"""Options of a command, as the program takes them: whole names, and _ and - are the same."""

import argparse
import os

from unmask.rows.errors import UserError

# What the program says of the command that it calls: its summary, then its examples, a line each.
SAID = "UNMASK_HELP"


class Parser(argparse.ArgumentParser):
    """Whose errors are one sentence, as the program's are, and which takes no `--` for a value."""

    def error(self, message):
        raise UserError(f"{message}; see unmask help {self.prog.removeprefix('unmask ')}")

    def parse_args(self, args=None, namespace=None):
        given = super().parse_args(args, namespace)
        for action in self._actions:
            value = getattr(given, action.dest, None)
            values = value if isinstance(action.default, list) and isinstance(value, list) else [value]
            if action.nargs is None and any(isinstance(one, list) for one in values):
                self.error(f"option '{action.option_strings[0]}' takes no '--'")
        return given


def summary_of(doc):
    """("unmask NAME", SUMMARY) of a module's docstring, which begins "unmask NAME: SUMMARY." in a paragraph."""
    name, _, summary = " ".join(doc.split("\n\n", 1)[0].split()).partition(": ")
    return name, summary.rstrip(".")


def parser(doc, details="", ending=""):
    """Makes a command's parser. Its help begins with the summary that the program has of it and ends with the
    program's examples; where Python was started alone, with that of the docstring."""
    name, summary = summary_of(doc)
    summary, *examples = os.environ.get(SAID, "").splitlines() or [summary]
    shown = "\n".join(["examples:" if len(examples) > 1 else "example:"] + [f"  unmask {e}" for e in examples])
    return Parser(
        prog=name, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="\n\n".join(filter(None, (summary, details))),
        epilog="\n\n".join(filter(None, (ending, shown if examples else ""))))


def add_format(parser):
    """Adds --format: text for people, or json for programs."""
    parser.add_argument("--format", default="text", choices=("text", "json"),
                        help="print text (default) or one JSON document")


def spelled(arguments):
    """Writes option names with - where they were given with _."""
    def one(word):
        name, equals, value = word.partition("=")
        return name.replace("_", "-") + equals + value if word.startswith("--") else word
    return [one(word) for word in arguments]
