# SPDX-License-Identifier: Apache-2.0
"""20 word problems of the included tiny-llada, decoded by the text of Ada-DLM in float64, with confidences rounded to
float32 (float64/ties.py): the program's archived rows have as many forward passes and right answers. 77: NOT RUN."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = os.path.join(HERE, "..", "..", "results", "epyc-2core", "ada_dlm_readings.jsonl")
LABELS, HISTORY = ("default", "confidences in float64"), 3


def main():
    sys.path.insert(0, os.path.join(HERE, "float64"))
    try:
        import ties
    except ImportError as problem:
        print(f"NOT RUN: needs {problem.name}")
        return 77
    with open(ROWS, encoding="utf-8") as f:
        found = {row["label"]: row for row in map(json.loads, f) if row["label"] in LABELS and
                 row["workload"]["family"] == "word_problem" and row["params"]["history"] == HISTORY}
    counts = {label: (row["metrics"]["nfe"], row["score"]["exact"]) for label, row in found.items()}
    problems = ties.word_problems(found[LABELS[0]]["workload"]["items"])
    passes, right = ties.decoded(ties.network(), problems, HISTORY, "token", ties.Rounded)
    print(f"forward passes and right answers: {(sum(passes), right)} by the text; rows: {counts}")
    return 0 if [counts[label] for label in LABELS] == [(sum(passes), right)] * len(LABELS) else 1


if __name__ == "__main__":
    sys.exit(main())
