# SPDX-License-Identifier: Apache-2.0
"""Writes the held-out splits. Usage: python heldout.py --tokenizer TOK/qwen.json --out DATA_DIR

--map writes needle_map/DEPTH.jsonl alone: needles by length, at one depth a file.
--more 0 appends the items of MORE[0] to the files there are, --more 1 those of MORE[1] after them, so
that a difference of two points, and then of half a point, can be decided. The models had been trained
by then, so no prompt may occur among DRAWS of the trainer's.
"""
import argparse
import json
import os
import random

from parallel import PARALLEL
from tasks import FAMILIES, Stream, needle_at, prompt_hash
from tokenizer import Codec

SEED = 990017
SIZES = {"retrieval_kv": [(64, 24), (128, 24), (256, 16), (512, 8), (1024, 4), (2000, 4)],
         "needle": [(128, 24), (256, 20), (512, 16), (1024, 12), (2000, 8)],
         "summary": [(60, 24), (120, 24), (200, 20), (320, 12)],
         "ledger": [(20, 40), (28, 40)]}
GEN = {"word_problem": 64, "equation": 64, "list_program": 64, "instruction": 64,
       "retrieval_kv": 32, "needle": 32, "summary": 64, "story": 64, "ledger": 64, **dict.fromkeys(PARALLEL, 32)}
COUNT = 80
MORE = [{"word_problem": [(None, 720)], "equation": [(None, 720)], "list_program": [(None, 720)],
         "instruction": [(None, 720)],
         "retrieval_kv": [(128, 120), (256, 80), (512, 48), (1024, 28), (2000, 28)],
         "needle": [(128, 120), (256, 80), (512, 48), (1024, 28), (2000, 28)],
         "story": [(None, 320)]},
        {"word_problem": [(None, 2000)], "equation": [(None, 2000)], "list_program": [(None, 2000)],
         "instruction": [(None, 2000)]}]
DRAWS = {"word_problem": 1_000_000, "equation": 2_000_000, "list_program": 500_000,
         "instruction": 2_000_000}  # the others never repeat a prompt
MAP_SIZES, MAP_DEPTHS = (256, 512, 1024, 2000), (0, 25, 50, 75, 100)
MAP_ITEMS = (3, 9)  # the second lot was drawn later


def write_map(codec, folder):
    rng, rows = random.Random(SEED + 1000), {}
    for lot, count in enumerate(MAP_ITEMS):
        for size in MAP_SIZES:
            for depth in MAP_DEPTHS:
                for i in range(count):
                    it = needle_at(rng, size, depth / 100)
                    it["check"].update(context_tokens=len(codec.encode(it["prompt"])), depth=depth)
                    number = i + sum(MAP_ITEMS[:lot])
                    rows.setdefault(depth, []).append(
                        {"id": f"needle_map-{size}-{depth}-{number}", **it})
    os.makedirs(folder, exist_ok=True)
    for depth, some in rows.items():
        write(os.path.join(folder, f"{depth}.jsonl"), some)


def items(stream, sizes, seen, codec, family, first):
    """Rows of as many items of each size, no prompt of which is in `seen`, which they enter."""
    for size, count in sizes:
        for _ in range(count):
            it = stream.draw(family, size)
            while prompt_hash(it["prompt"]) in seen:
                it = stream.draw(family, size)
            seen.add(prompt_hash(it["prompt"]))
            need = len(codec.encode(it["answer"])) + 1
            gen = GEN[family]
            while gen < need:
                gen += 32
            check = dict(it["check"])
            if size:
                check["context_tokens"] = len(codec.encode(it["prompt"]))
            yield {"id": f"{family}-{first:03d}", "family": family, "prompt": it["prompt"],
                   "answer": it["answer"], "scorer": it["scorer"], "check": check,
                   "gen_length": gen}
            first += 1


def append_more(codec, folder, lot):
    for family, sizes in MORE[lot].items():
        path = os.path.join(folder, family + ".jsonl")
        with open(path, encoding="utf-8") as f:
            seen = {prompt_hash(json.loads(line)["prompt"]) for line in f}
        first, trained = len(seen), Stream(1)
        for _ in range(DRAWS.get(family, 0)):
            seen.add(prompt_hash(trained.draw(family, None)["prompt"]))
        seed = SEED + 2000 + 100 * lot + list(MORE[lot]).index(family)
        rows = list(items(Stream(seed), sizes, seen, codec, family, first))
        write(path, rows, "a")


def write(path, rows, mode="w"):
    with open(path, mode, encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
    ctx = [r["check"].get("context_tokens", 0) for r in rows]
    print(path, len(rows), "gen", sorted({r["gen_length"] for r in rows}), "ctx", max(ctx))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tokenizer", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--map", action="store_true")
    ap.add_argument("--family", choices=FAMILIES, action="append", help="this one alone; may be repeated")
    ap.add_argument("--more", type=int, choices=range(len(MORE)))
    a = ap.parse_args()
    codec = Codec(a.tokenizer, "qwen")
    os.makedirs(a.out, exist_ok=True)
    if a.map:
        return write_map(codec, os.path.join(a.out, "needle_map"))
    if a.more is not None:
        return append_more(codec, a.out, a.more)
    for family in a.family or FAMILIES:
        stream = Stream(SEED + FAMILIES.index(family))
        sizes = SIZES.get(family, [(None, COUNT)])
        write(os.path.join(a.out, family + ".jsonl"),
              list(items(stream, sizes, set(), codec, family, 0)))


if __name__ == "__main__":
    main()
