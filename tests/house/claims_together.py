# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Prints what several commands `unmask claims FOLDER ...` print, as a JSON list of texts: given as a JSON list of lists of
words, without the first two. Rows are read and claims are judged once for all commands: no row changes between them."""

import contextlib
import functools
import io
import json
import sys

from unmask.__main__ import call
from unmask.claims import repeats
from unmask.rows.ending import ended


class _Once:
    """The campaigns of each folder, with what was judged of them."""

    def __init__(self, read):
        self.read, self.found = read, {}

    def __call__(self, results, since=None, artifacts=None):
        key = results, tuple(sorted(artifacts))
        if key not in self.found:
            self.found[key] = self.read(results, since, artifacts)
        return self.found[key]


def printed(words):
    """What the command prints; SystemExit with its exit code where it fails."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        code = ended(functools.partial(call, ["claims", *words]))
    if code != 0:
        raise SystemExit(code)
    return text.getvalue()


def main(commands):
    repeats.evidence_of = _Once(repeats.evidence_of)
    print(json.dumps([printed(words) for words in commands]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
