# SPDX-License-Identifier: Apache-2.0
"""Tasks that show what deciding tokens together breaks, after the kinds of ParallelBench (arXiv 2510.04767).

What several positions have in common grows from the first task to the last: in `copy`, `reverse` and `sort` the
prompt fixes every word alone, in `insert` one free choice fixes all places behind it, in `shuffle` and
`latin_square` every word hangs on the others. Names, answers and scores of all are exact (README.md).
"""
from words import KEYS

COUNTS = (3, 4, 5, 6)
LETTERS = "ABCDEFGHKLMNPRSTUVWXYZ"
SEP = ", "


def words(rng, count):
    """`count` different words."""
    return rng.sample(KEYS, count or rng.choice(COUNTS))


def made(family, prompt, answer, constraints=None):
    scorer = "constraints" if constraints else "exact"
    return {"family": family, "prompt": prompt, "answer": answer, "scorer": scorer,
            "check": {"constraints": constraints} if constraints else {}, "gen_length": 32}


def copy(rng, size=None):
    some = words(rng, size)
    return made("copy", f"Copy the list: {SEP.join(some)}", SEP.join(some))


def reverse(rng, size=None):
    some = words(rng, size)
    return made("reverse", f"Reverse the list: {SEP.join(some)}", SEP.join(some[::-1]))


def sort(rng, size=None):
    some = words(rng, size)
    return made("sort", f"Sort the list: {SEP.join(some)}", SEP.join(sorted(some)))


def insert(rng, size=None):
    """The word may stand at any place, the others keep their order."""
    new, *some = words(rng, 1 + (size or rng.choice(COUNTS)))
    allowed = [SEP.join(some[:i] + [new] + some[i:]) for i in range(len(some) + 1)]
    return made("insert", f"Insert {new} anywhere into the list: {SEP.join(some)}", rng.choice(allowed),
                [{"type": "one_of", "texts": allowed}])


def shuffle(rng, size=None):
    """The same words in any other order."""
    some = words(rng, size)
    other = list(some)
    while other == some:
        rng.shuffle(other)
    rules = [{"type": "item_count", "count": len(some)}, {"type": "items_in", "set": sorted(some)},
             {"type": "items_unique"}]
    return made("shuffle", f"Shuffle the list: {SEP.join(some)}", SEP.join(other),
                [{**rule, "sep": SEP} for rule in rules] + [{"type": "not_contains", "text": SEP.join(some)}])


def square(rng, letters):
    """A Latin square, row by row; drawn until the last rows fit, so every square is possible."""
    while True:
        rows = []
        for _ in letters:
            for _ in range(20):
                row = rng.sample(letters, len(letters))
                if all(a != b for old in rows for a, b in zip(old, row)):
                    rows.append(row)
                    break
        if len(rows) == len(letters):
            return rows


def latin_square(rng, size=None):
    letters = rng.sample(LETTERS, size or rng.choice((3, 4)))
    text = ", ".join("".join(f" {letter}" for letter in row).strip() for row in square(rng, letters))
    return made("latin_square", f"Write a Latin square of {SEP.join(letters)}", text,
                [{"type": "latin_square", "set": letters, "sep": SEP}])


PARALLEL = {"copy": copy, "reverse": reverse, "sort": sort, "insert": insert, "shuffle": shuffle,
            "latin_square": latin_square}
# How often training draws each: what the prompt fixes is learned soonest.
WEIGHTS = {"copy": 1, "reverse": 1, "sort": 2, "insert": 2, "shuffle": 4, "latin_square": 4}
