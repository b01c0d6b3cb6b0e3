#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that claims were only reworded: what each tests, and since when, is the same in two folders of claims.

    same_tests.py OLD/experiments/claims experiments/claims

Both are read by today's package, so that their hashes are made by one rule. Exit code 1: a claim tests something
else, is new, is gone, or has another date."""

import sys

from unmask.claims import claims
from unmask.claims.declare import read_register


def differences(old, new):
    """([what differs in what is tested or in its date], [keys that only say it in other words])"""
    before, after = ({c.key: c for c in r.claims + r.controls} for r in map(read_register, (old, new)))
    since = [claims.read_since(folder) for folder in (old, new)]
    wrong = [f"{key} is {'gone' if key in before else 'new'}" for key in sorted(before.keys() ^ after.keys())]
    both = [key for key in after if key in before]
    wrong += [f"{key} tests something else" for key in both if before[key].hash != after[key].hash]
    dates = [[record.get(key, {}).get("since") for record in since] for key in both]
    wrong += [f"{key} is dated {b}, was {a}" for key, (a, b) in zip(both, dates) if a != b]
    return wrong, [key for key in both if before[key].words != after[key].words]


def main(arguments):
    wrong, reworded = differences(*arguments)
    print("".join(f"{text}\n" for text in wrong) + f"{len(wrong)} test something else or have another date; "
          f"{len(reworded)} have other words")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
