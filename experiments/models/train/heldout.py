# SPDX-License-Identifier: Apache-2.0
"""Writes the held-out splits. Usage: python heldout.py --tokenizer TOK/qwen.json --out DATA_DIR

--map writes needle_map/DEPTH.jsonl alone: needles by length, at one depth a file.
--added takes the items behind FIRST of each family away and writes those of ADDED anew. The models had
been trained by then. So these are drawn as training draws, what training may have seen is kept, and every
item says how common it is: `trained`, how often its prompt came up in REPLAYED draws of the trainer's
streams, and `repeats`, the id of an earlier item with the same prompt.

The first items say the same of themselves: training left their prompts out (`trained` 0).
"""
import argparse
import json
import os
import random

from curriculum import SIZED, WEIGHTS, pick_size
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
FIRST = {family: sum(n for _, n in SIZES.get(family, [(None, COUNT)])) for family in FAMILIES}
LONG = [(128, 120), (256, 148), (512, 96), (1024, 68), (2000, 44)]
ADDED = {"word_problem": [(None, 920)], "equation": [(None, 920)], "list_program": [(None, 920)],
         "instruction": [(None, 920)], "retrieval_kv": LONG, "needle": LONG, "story": [(None, 320)]}
# Every model was trained from stream 1001; a training that was interrupted went on with the next ones. The
# sizes of a few families follow the processor time that training had used, so no replay meets the very
# same prompts: it has the seeds, the interleaving of families and the curriculum.
TRAINER_SEED, RUNS, REPLAYED = 1, 3, 300_000
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


def kind_of(it):
    """What an item's difficulty depends on, in a word or two."""
    family, answer = it["family"], it["answer"]
    if family == "equation":
        return f"{answer.count('=')} steps"
    if family == "word_problem":
        return f"{answer.count('=')} steps"
    if family == "list_program":
        return f"{answer.count('|') + 1} stages"
    if family == "instruction":
        return " ".join(it["prompt"].split()[:2])
    if family in PARALLEL:
        return f"{answer.count(',') + 1} items"
    return family


def row_of(it, number, size, codec):
    """A line of a file; a canvas that holds the answer and its end."""
    need, gen = len(codec.encode(it["answer"])) + 1, GEN[it["family"]]
    while gen < need:
        gen += 32
    check = dict(it["check"])
    if size:
        check["context_tokens"] = len(codec.encode(it["prompt"]))
    return {"id": f"{it['family']}-{number:03d}", "family": it["family"], "prompt": it["prompt"],
            "answer": it["answer"], "scorer": it["scorer"], "check": check, "gen_length": gen}


def with_strata(rows, codec, trained):
    """Rows with kind, tokens of the prompt, and what is known of the prompt. trained: {hash: times}."""
    seen = {}
    for row in rows:
        key = prompt_hash(row["prompt"])
        for name in ("kind", "tokens", "trained", "repeats"):
            row.pop(name, None)
        row.update(kind=kind_of(row), tokens=len(codec.encode(row["prompt"])),
                   trained=trained.get(key, 0))
        if key in seen:
            row["repeats"] = seen[key]
        seen.setdefault(key, row["id"])
    return rows


def first_items(codec, family):
    """Different prompts, the only ones of their kind: training leaves them out."""
    stream, seen, rows = Stream(SEED + FAMILIES.index(family)), set(), []
    for size, count in SIZES.get(family, [(None, COUNT)]):
        for _ in range(count):
            it = stream.draw(family, size)
            while prompt_hash(it["prompt"]) in seen:
                it = stream.draw(family, size)
            seen.add(prompt_hash(it["prompt"]))
            rows.append(row_of(it, len(rows), size, codec))
    return rows


def replayed(excluded):
    """How often each prompt comes up in the trainer's streams, families interleaved as in training."""
    times = {}
    for run in range(RUNS):
        seed = TRAINER_SEED + 1000 * (run + 1)
        stream, rng = Stream(seed, excluded), random.Random(seed + 1)
        for i in range(REPLAYED):
            family = rng.choices(list(WEIGHTS), WEIGHTS.values())[0]
            size = pick_size(rng, i / REPLAYED, 0.1) if family in SIZED else None
            key = prompt_hash(stream.draw(family, size)["prompt"])
            times[key] = times.get(key, 0) + 1
    return times


def add_items(codec, folder):
    files = {}
    for family in FAMILIES:
        with open(os.path.join(folder, family + ".jsonl"), encoding="utf-8") as f:
            files[family] = [json.loads(line) for line in f][:FIRST[family]]
    trained = replayed({prompt_hash(row["prompt"]) for rows in files.values() for row in rows})
    for family, rows in files.items():
        stream = Stream(SEED + 3000 + FAMILIES.index(family))
        for size, count in ADDED.get(family, []):
            for _ in range(count):
                rows.append(row_of(stream.draw(family, size), len(rows), size, codec))
        rows = with_strata(rows, codec, trained)
        write(os.path.join(folder, family + ".jsonl"), rows)
        added = rows[FIRST[family]:]
        print(f"{family}: of {len(added)} added, {sum(r['trained'] > 0 for r in added)} came up in "
              f"training, {sum('repeats' in r for r in added)} repeat an earlier item")


def write(path, rows):
    with open(path, "w", encoding="utf-8") as f:
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
    ap.add_argument("--added", action="store_true")
    a = ap.parse_args()
    codec = Codec(a.tokenizer, "qwen")
    os.makedirs(a.out, exist_ok=True)
    if a.map:
        return write_map(codec, os.path.join(a.out, "needle_map"))
    if a.added:
        return add_items(codec, a.out)
    for family in a.family or FAMILIES:
        write(os.path.join(a.out, family + ".jsonl"), first_items(codec, family))


if __name__ == "__main__":
    main()
