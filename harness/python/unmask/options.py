# SPDX-License-Identifier: Apache-2.0
"""Options of a command, as the program takes them: whole names, and _ and - are the same."""

import argparse


def parser(command, description, epilog=None):
    """Makes a parser of `unmask COMMAND`; --help ends with `epilog`."""
    return argparse.ArgumentParser(prog=f"unmask {command}", allow_abbrev=False,
                                   description=description, epilog=epilog)


def spelled(arguments):
    """Writes option names with - where they were given with _."""
    def one(word):
        name, equals, value = word.partition("=")
        return name.replace("_", "-") + equals + value if word.startswith("--") else word
    return [one(word) for word in arguments]
