#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The rows of `peers.py time --out FILE` as a Markdown table: only those with KEY=VALUE, without the columns of these keys.

    table.py FILE.jsonl [KEY=VALUE...]
    table.py FILE.jsonl summary           a line for each model, logits, weights and threads
"""

import json
import sys

# Heading, key and text of each column; ">" aligns numbers.
COLUMNS = [
    ("method", "label", lambda r: r["label"]),
    ("model", "model", lambda r: r["model"]),
    ("logits of positions", "head", lambda r: r["head"]),
    ("weights", "format", lambda r: r.get("format", "f32")),
    (">threads", "threads", lambda r: r["threads"]),
    (">PyTorch eager, tokens/s", "", lambda r: f"{r['torch_tokens_per_second']:.1f}"),
    (">Unmask, tokens/s", "", lambda r: f"{r['unmask_tokens_per_second']:.1f}"),
    (">ratio, median", "", lambda r: f"{r['ratio_median']:.2f}"),
    (">ratio, least", "", lambda r: f"{r['ratio_min']:.2f}"),
    (">ratio of the best", "", lambda r: f"{r['ratio_of_best']:.2f}"),
    ("answers", "", lambda r: f"{len(r['answers_differ'])} differ" if r["answers_differ"] else "equal"),
]


def table(rows, without=()):
    """Markdown of the rows, without the columns of some keys."""
    shown = [(head, text) for head, key, text in COLUMNS if key not in without]
    rule = "".join("---:|" if head[0] == ">" else "---|" for head, _ in shown)
    lines = [[head.lstrip(">") for head, _ in shown]] + [[str(text(r)) for _, text in shown] for r in rows]
    head, *body = ("| " + " | ".join(cells) + " |" for cells in lines)
    return "\n".join([head, f"|{rule}", *body])


def summary(rows):
    """Markdown of the least and the largest ratio over the methods of a setting."""
    settings = {}
    for r in rows:
        settings.setdefault(tuple(str(text(r)) for _, key, text in COLUMNS[1:5]), []).append(r)
    lines = ["| model | logits of positions | weights | threads | methods | ratio, median: least to largest | answers that differ |",
             "|---|---|---|---:|---:|---:|---:|"]
    for setting, of in settings.items():
        ratios = sorted(r["ratio_median"] for r in of)
        differ, asked = sum(len(r["answers_differ"]) for r in of), sum(r["prompts"] for r in of)
        lines.append("| " + " | ".join([*setting, str(len(of)), f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
                                        f"{differ} of {asked}"]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[2:] == ["summary"]:
        with open(sys.argv[1], encoding="utf-8") as file:
            print(summary([json.loads(line) for line in file]))
        sys.exit()
    wanted = dict(word.split("=", 1) for word in sys.argv[2:])
    with open(sys.argv[1], encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    print(table([r for r in found if all(str(r.get(k, "f32" if k == "format" else "")) == v
                                         for k, v in wanted.items())], wanted))
