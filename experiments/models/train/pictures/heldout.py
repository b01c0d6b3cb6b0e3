# SPDX-License-Identifier: Apache-2.0
"""Writes the held-out items that ask about pictures, and the pictures. Needs numpy and Pillow.

python heldout.py --out ../../../data [--codes DELTA]

picture_read.jsonl          an item a picture
picture_read_other.jsonl    the control: each item shows the picture of the next, whose number is another
picture_read_codes.jsonl    the pictures as codes of tiny-mmada's encoder, which its delta holds (--codes)
picture_read_codes_other.jsonl    the control of these
"""
import argparse
import json
import os
import sys

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "smol"))
from merge import read_safetensors  # noqa: E402

import draw  # noqa: E402

SEED, ITEMS, LENGTH = 2027, 100, 32  # train.py draws with other seeds
FOLDER = "pictures"


def drawn():
    """[(picture, number)], of which no two neighbours have the same number."""
    rng, found = np.random.default_rng(SEED), []
    while len(found) < ITEMS:
        picture, _, number = draw.draw(rng)
        near = [found[-1][1]] if found else []
        if len(found) == ITEMS - 1:
            near.append(found[0][1])
        if number not in near:
            found.append((picture, number))
    return found


def codes_of(picture, delta):
    """The codes of a picture's cells in reading order, [16], and the smallest number whose sign is a bit."""
    n, side = draw.CELLS, draw.CELL
    x = picture.astype(np.float64) / 255
    x = x.reshape(n, side, n, side, 3).transpose(0, 2, 4, 1, 3).reshape(n * n, -1)
    x = x - x.mean(-1, keepdims=True)
    x = x / (np.sqrt((x * x).mean(-1, keepdims=True)) + 0.1)
    hidden = np.maximum(x @ delta["encoder.0.weight"].T.astype(np.float64) + delta["encoder.0.bias"], 0)
    latent = hidden @ delta["encoder.2.weight"].T.astype(np.float64) + delta["encoder.2.bias"]
    bits = (latent > 0).astype(int)
    return [int(code) for code in bits @ (1 << np.arange(bits.shape[1] - 1, -1, -1))], float(np.abs(latent).min())


def items(family, shown):
    """One item for each (key, what is shown, number)."""
    return [{"id": f"{family}-{i:03d}", "family": family, "prompt": draw.QUESTION, "answer": f"#### {number}",
             "scorer": "final_number", "check": {"value": int(number)}, "gen_length": LENGTH, key: value}
            for i, (key, value, number) in enumerate(shown)]


def write(path, lines):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def others(shown):
    """The same questions and answers, each with what the next item shows."""
    return [(key, shown[(i + 1) % len(shown)][1], number) for i, (key, _, number) in enumerate(shown)]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("--codes", help="delta of tiny-mmada")
    a = ap.parse_args()
    os.makedirs(os.path.join(a.out, FOLDER), exist_ok=True)
    pictures, shown = drawn(), []
    for i, (picture, number) in enumerate(pictures):
        name = f"{FOLDER}/read_{i:03d}.png"
        Image.fromarray(picture).convert("P", palette=Image.Palette.ADAPTIVE, colors=2).save(
            os.path.join(a.out, name), optimize=True)
        shown.append(("images", [name], number))
    write(os.path.join(a.out, "picture_read.jsonl"), items("picture_read", shown))
    write(os.path.join(a.out, "picture_read_other.jsonl"), items("picture_read", others(shown)))
    if a.codes:
        delta = read_safetensors(a.codes)
        coded = [codes_of(picture, delta) for picture, _ in pictures]
        print(f"smallest number whose sign is a bit: {min(least for _, least in coded):.3f}")
        shown = [("codes", codes, number) for (codes, _), (_, number) in zip(coded, pictures)]
        write(os.path.join(a.out, "picture_read_codes.jsonl"), items("picture_read", shown))
        write(os.path.join(a.out, "picture_read_codes_other.jsonl"), items("picture_read", others(shown)))


if __name__ == "__main__":
    main()
