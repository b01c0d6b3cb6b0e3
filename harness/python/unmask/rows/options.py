# SPDX-License-Identifier: Apache-2.0
"""Options of a command, as the program takes them: whole names, and _ and - are the same. Help has the layout of
the program's own (harness/cli/help.cpp)."""

import argparse
import os
import textwrap

from unmask.rows.errors import UserError

# What the program says of the command that it calls: its summary, then its examples, a line each.
SAID = "UNMASK_HELP"


PAGE_WIDTH, MEANING_COLUMN = 100, 30


def filled(text):
    """The paragraphs of `text`, each in lines of the page's width. A line that begins with a blank stays as it is."""
    lines, part = [], []
    for line in text.split("\n") + [""]:
        if line and not line.startswith(" "):
            part.append(line)
            continue
        lines += textwrap.wrap(" ".join(part), PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)
        lines.append(line)
        part = []
    return "\n".join(lines[:-1])


def _option_lines(action):
    letters = [o for o in action.option_strings if not o.startswith("--")]
    name = next(o for o in action.option_strings if o.startswith("--"))
    line = (f"  {letters[0]}, " if letters else "      ") + name
    if action.nargs != 0:
        value = action.metavar or action.dest.upper().replace("-", "_")
        line += " " + (value if isinstance(value, str) else " ".join(value))
    meaning = textwrap.wrap(action.help or "", PAGE_WIDTH - MEANING_COLUMN, break_long_words=False,
                            break_on_hyphens=False)
    indent = " " * MEANING_COLUMN
    if len(line) + 2 > MEANING_COLUMN:
        return "\n".join([line] + [indent + m for m in meaning])
    return "\n".join([f"{line:<{MEANING_COLUMN}}{''.join(meaning[:1])}".rstrip()] + [indent + m for m in meaning[1:]])


class Parser(argparse.ArgumentParser):
    """Whose errors are one sentence, as the program's are, and which takes no `--` for a value. Its help is the
    usage, the description, the options by their groups, and the epilog."""

    def format_usage(self):
        places = []
        for action in self._get_positional_actions():
            name = action.metavar or action.dest.upper()
            name += "..." if action.nargs in ("*", "+") and " " not in name else ""
            places.append(f"[{name}]" if action.nargs in ("*", "?") and action.default else name)
        return " ".join(["usage:", self.prog, *places, "[options]"]) + "\n"

    def format_help(self):
        parts = [self.format_usage(), filled(self.description) + "\n"]
        groups = [(group.title, [_option_lines(a) for a in group._group_actions if a.option_strings and a.dest != "help"])
                  for group in self._action_groups]
        groups = [(title, lines) for title, lines in groups if lines] or [("options", [])]
        groups[-1][1].extend(_option_lines(a) for a in self._actions if a.dest == "help")
        parts += ["\n".join([f"{title}:", *lines]) + "\n" for title, lines in groups]
        if self.epilog:
            parts.append(filled(self.epilog) + "\n")
        return "\n".join(parts)

    def error(self, message):
        raise UserError(f"{message}; see unmask help {self.prog.removeprefix('unmask ')}")

    def parse_args(self, args=None, namespace=None):
        self.add_argument("-h", "--help", action="help", help="print this text")
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
        prog=name, allow_abbrev=False, add_help=False,
        description="\n\n".join(filter(None, (summary, details))),
        epilog="\n\n".join(filter(None, (ending, shown if examples else ""))))


def add_format(parser):
    """Adds --format: text for people, or json for programs."""
    parser.add_argument("--format", default="text", choices=("text", "json"),
                        help="print text or json (default: text)")


def spelled(arguments):
    """Writes option names with - where they were given with _."""
    def one(word):
        name, equals, value = word.partition("=")
        return name.replace("_", "-") + equals + value if word.startswith("--") else word
    return [one(word) for word in arguments]
