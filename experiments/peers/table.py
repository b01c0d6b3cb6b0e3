#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The rows of `peers.py time --out FILE` as a Markdown table, those alone that say KEY=VALUE.

    table.py FILE.jsonl [KEY=VALUE...]
"""

import json
import sys

HEAD = ("| method | model | logits of rows | weights | threads | PyTorch eager tok/s | Unmask tok/s | ratio, median | "
        "ratio, min | ratio of best | answers |\n|---|---|---|---|---:|---:|---:|---:|---:|---:|---|")


def table(rows):
    lines = [HEAD]
    for r in rows:
        same = "equal" if not r["answers_differ"] else f"{len(r['answers_differ'])} differ"
        lines.append(f"| {r['label']} | {r['model']} | {r['head']} | {r.get('format', 'f32')} | {r['threads']} | "
                     f"{r['torch_tokens_per_second']:.1f} | "
                     f"{r['unmask_tokens_per_second']:.1f} | {r['ratio_median']:.2f} | "
                     f"{r['ratio_min']:.2f} | {r['ratio_of_best']:.2f} | {same} |")
    return "\n".join(lines)


if __name__ == "__main__":
    wanted = dict(word.split("=", 1) for word in sys.argv[2:])
    with open(sys.argv[1], encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    print(table([r for r in found if all(str(r.get(k, "f32" if k == "format" else "")) == v
                                         for k, v in wanted.items())]))
