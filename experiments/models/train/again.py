#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains tiny-ar, tiny-sdar and tiny-llada once more with another seed, by the steps of README.md, in as many tokens
as those in the tree: 66.6 million, which is 221 minutes of a core that multiplies bfloat16. A step whose file is there is not done again; a training that was stopped goes on.

    python again.py --seed 2 --out FOLDER            (the models: FOLDER/tiny-ar, tiny-sdar, tiny-llada)
    python again.py --seed 2 --out FOLDER --print    (the commands alone)
"""
import argparse
import os
import shlex
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = ("ar", "sdar", "llada")
# As README.md trains them.
TRAINING = {
    "ar": "--tokens 4.9 --copy 0.3 --lr 0.015 --adam-lr 3e-3",
    "sdar": "--tokens 43.6 --copy 0.1 --drills 0.5 --long 0.1 --ranked-from 0.4 --lr 0.02 --adam-lr 4e-3",
    "llada": "--tokens 18.1 --copy 0.06 --drills 0.4 --long 0.2 --ranked-from 0 --progress0 0.45 --lr 0.006 "
             "--adam-lr 1.5e-3 --flat 0.4"}


def steps(out, seed):
    """[(the file that a step makes, its command)] in their order."""
    run, tok = os.path.join(out, "run"), os.path.join(out, "run", "tokenizer")
    found = [(f"{run}/ar_init.pt", ["lookup_init.py", "--kind", "ar", "--out", f"{run}/ar_init.pt", "--seed", str(seed)])]
    before = None
    for kind in MODELS:
        if before:
            found.append((f"{run}/{kind}_init.pt", ["convert.py", "--checkpoint", f"{run}/{before}/last.pt", "--tokenizer",
                                                    tok, "--to", kind, "--out", f"{run}/{kind}_init.pt"]))
        found.append((f"{run}/{kind}.trained",
                      ["train.py", "--kind", kind, "--init", f"{run}/{kind}_init.pt", "--out", f"{run}/{kind}",
                       "--tokenizer", tok, "--exclude", os.path.join(HERE, "../../data"),
                       *TRAINING[kind].split(), "--seed", str(seed), "--resume"]))
        before = kind
    for kind in MODELS:
        place = os.path.join(out, f"tiny-{kind}")
        found.append((f"{place}/config.json", ["export.py", "--checkpoint", f"{run}/{kind}/last.pt", "--tokenizer", tok,
                                               "--out", place]))
    return found


def prepare(out):
    """The tokenizers of the models that lie in the tree."""
    tok = os.path.join(out, "run", "tokenizer")
    os.makedirs(tok, exist_ok=True)
    for model, name in (("tiny-llada", "llada.json"), ("tiny-sdar", "qwen.json")):
        shutil.copyfile(os.path.join(HERE, "..", model, "tokenizer.json"), os.path.join(tok, name))


def run_all(out, seed):
    """Does what is left, and returns the exit code of the first step that fails, else 0. A training marks its end by a
    file beside its checkpoints."""
    prepare(out)
    for made, command in steps(out, seed):
        if os.path.exists(made):
            continue
        print(f"again: {command[0]}, for {made}", file=sys.stderr)
        done = subprocess.run([sys.executable, os.path.join(HERE, command[0]), *command[1:]],
                              env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False)
        if done.returncode != 0:
            print(f"again: {command[0]} ended with exit code {done.returncode}; the same command goes on here",
                  file=sys.stderr)
            return done.returncode
        if made.endswith(".trained"):
            with open(made, "w", encoding="utf-8") as file:
                file.write(shlex.join(command) + "\n")
    return 0


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--seed", type=int, required=True, help="the models in the tree have 1")
    ap.add_argument("--out", required=True, help="folder of the models; what training needs lies in its folder run")
    ap.add_argument("--print", action="store_true", help="print the commands and do nothing")
    a = ap.parse_args()
    out = os.path.abspath(a.out)
    if a.print:
        print("\n".join(shlex.join(["python", *command]) for _, command in steps(out, a.seed)))
        return 0
    return run_all(out, a.seed)


if __name__ == "__main__":
    sys.exit(main())
