# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""How a script of figures ends, and what it says of letters. The page needs both where matplotlib is missing."""

import contextlib
import re
import sys
import warnings

from rows import BadInput, NotDrawn


@contextlib.contextmanager
def letters_missed():
    """Says once, in one sentence, that the font lacks letters: the library says it of each letter and file."""
    missed = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            missed += [w for w in found if str(w.message).startswith("Glyph")]
            others = [w for w in found if w not in missed]
    for w in others:
        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    if missed:
        letters = {re.sub(r"Glyph (\d+).*", r"\1", str(w.message).split("\n")[0]) for w in missed}
        from style import SETUP  # the library that says it is there
        shown = "".join(chr(n) for n in sorted(int(n) for n in letters if n.isdigit())[:8])
        print(f"note: the font {SETUP.font} lacks {len(letters)} letters of these names ({shown}): boxes stand for "
              "them. --font NAME takes another that is installed, such as \"Noto Sans CJK JP\"", file=sys.stderr)


def guarded(work):
    """Runs work(); turns what is wrong with the input into one sentence and an exit code."""
    from unmask.rows.ending import ended
    from unmask.rows.text import shown
    try:
        return ended(work)
    except BadInput as problem:
        print(f"bad input: {shown(problem)}", file=sys.stderr)
        return 2
    except NotDrawn as problem:
        print(f"NOT DRAWN: {shown(problem)}", file=sys.stderr)
        return 3
