# SPDX-License-Identifier: Apache-2.0
"""Writes the held-out splits. Usage: python heldout.py --tokenizer TOK/qwen.json --out DATA_DIR

--map writes needle_map.jsonl alone: needles by length and depth, three items of each.
"""
import argparse
import json
import os
import random

from tasks import FAMILIES, Stream, needle_at
from tokenizer import Codec

SEED = 990017
SIZES = {"retrieval_kv": [(64, 24), (128, 24), (256, 16), (512, 8), (1024, 4), (2000, 4)],
         "needle": [(128, 24), (256, 20), (512, 16), (1024, 12), (2000, 8)],
         "summary": [(60, 24), (120, 24), (200, 20), (320, 12)],
         "ledger": [(20, 40), (28, 40)]}
GEN = {"word_problem": 64, "equation": 64, "list_program": 64, "instruction": 64,
       "retrieval_kv": 32, "needle": 32, "summary": 64, "story": 64, "ledger": 64}
COUNT = 80
MAP_SIZES, MAP_DEPTHS, MAP_ITEMS = (256, 512, 1024, 2000), (0, 25, 50, 75, 100), 3


def write_map(codec, path):
    rng = random.Random(SEED + 1000)
    with open(path, "w", encoding="utf-8") as f:
        for size in MAP_SIZES:
            for depth in MAP_DEPTHS:
                for i in range(MAP_ITEMS):
                    it = needle_at(rng, size, depth / 100)
                    it["check"].update(context_tokens=len(codec.encode(it["prompt"])), depth=depth)
                    row = {"id": f"needle_map-{size}-{depth}-{i}", **it}
                    f.write(json.dumps(row, ensure_ascii=False) + "\n")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tokenizer", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--map", action="store_true")
    a = ap.parse_args()
    codec = Codec(a.tokenizer, "qwen")
    os.makedirs(a.out, exist_ok=True)
    if a.map:
        return write_map(codec, os.path.join(a.out, "needle_map.jsonl"))
    for family in FAMILIES:
        stream = Stream(SEED + FAMILIES.index(family))
        seen, rows = set(), []
        for size, count in SIZES.get(family, [(None, COUNT)]):
            for _ in range(count):
                it = stream.draw(family, size)
                while it["prompt"] in seen:
                    it = stream.draw(family, size)
                seen.add(it["prompt"])
                need = len(codec.encode(it["answer"])) + 1
                gen = GEN[family]
                while gen < need:
                    gen += 32
                check = dict(it["check"])
                if size:
                    check["context_tokens"] = len(codec.encode(it["prompt"]))
                rows.append({"id": f"{family}-{len(rows):03d}", "family": family,
                             "prompt": it["prompt"], "answer": it["answer"],
                             "scorer": it["scorer"], "check": check, "gen_length": gen})
        with open(os.path.join(a.out, family + ".jsonl"), "w", encoding="utf-8") as f:
            for row in rows:
                f.write(json.dumps(row, ensure_ascii=False) + "\n")
        ctx = [r["check"].get("context_tokens", 0) for r in rows]
        print(family, len(rows), "gen", sorted({r["gen_length"] for r in rows}), "ctx", max(ctx))


if __name__ == "__main__":
    main()
