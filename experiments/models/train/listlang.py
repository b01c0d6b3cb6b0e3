# SPDX-License-Identifier: Apache-2.0
"""The tiny list language. README.md holds the definition in words."""

WITH_ARGUMENT = ("take", "drop", "add", "above")
LIST_OPS = ("sort", "reverse", "double", "square", "negate", "unique", "evens", "odds",
            "take", "drop", "add", "above")
REDUCERS = ("sum", "max", "min", "count")


class ProgramError(ValueError):
    pass


def _apply(op, n, xs):
    if op == "sort":
        return sorted(xs)
    if op == "reverse":
        return xs[::-1]
    if op == "double":
        return [2 * x for x in xs]
    if op == "square":
        return [x * x for x in xs]
    if op == "negate":
        return [-x for x in xs]
    if op == "unique":
        return list(dict.fromkeys(xs))
    if op == "evens":
        return [x for x in xs if x % 2 == 0]
    if op == "odds":
        return [x for x in xs if x % 2 != 0]
    if op == "take":
        return xs[:n]
    if op == "drop":
        return xs[n:]
    if op == "add":
        return [x + n for x in xs]
    return [x for x in xs if x > n]


def _reduce(op, xs):
    if op == "sum":
        return sum(xs)
    if op == "count":
        return len(xs)
    if not xs:
        return 0
    return max(xs) if op == "max" else min(xs)


def run(program, xs):
    """Runs a program on a list of integers; returns a list or an integer."""
    stages = [s.split() for s in program.strip().split("|")]
    for i, stage in enumerate(stages):
        if not stage:
            raise ProgramError("empty stage")
        op, args = stage[0], stage[1:]
        if op in REDUCERS:
            if args or i != len(stages) - 1:
                raise ProgramError("a reducer takes no argument and must be last")
            return _reduce(op, xs)
        if op not in LIST_OPS:
            raise ProgramError(f"unknown operation {op}")
        if op in WITH_ARGUMENT:
            if len(args) != 1 or not (args[0].isascii() and args[0].isdigit()):
                raise ProgramError(f"{op} needs one non-negative integer")
            xs = _apply(op, int(args[0]), xs)
        elif args:
            raise ProgramError(f"{op} takes no argument")
        else:
            xs = _apply(op, 0, xs)
    return xs
