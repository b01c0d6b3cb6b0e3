#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Every method decodes on the GPU in software what it decodes on the CPU, and nothing is found.

    decoding_test.py PROGRAM    PROGRAM: unmask_softgpu; UNMASK_SOFTGPU_ARCH chooses the card

Device memory is closed to the host and the host's to kernels. Layers are captured as graphs and replayed
where the method allows it: by the H100 for every method, by the A100 for some. Replaying is the host's
work and the same for both; what differs between cards is the PTX, of which all but the H100 run
compute_80's, what a launch may take, and what the host chooses by it: for that fewer tokens are enough.

These choices go by an operation's shape and not by the method. So the RTX 4090, the B200 and the RTX 5090 decode
a third of the methods each, which is every method once. UNMASK_EVERY_CARD=on: each card decodes all.
"""

import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROMPT = "Compute 3 + 4."
# The model of each method, and settings with which a few tokens are enough to replay a graph, lie in its folder.
CASES = {name: cases["softgpu"]
         for file in glob.glob(os.path.join(ROOT, "methods", "**", "cases.json"), recursive=True)
         for name, cases in json.loads(pathlib.Path(file).read_text(encoding="utf-8")).items() if "softgpu" in cases}
# A decode is as short as can be, and replays few graphs: the official runs (softgpu.goldens) do that for every
# method. Some two cards decode at full length all the same, and replay then. One whose answer takes one of the
# model's own blocks at least is always decoded at length.
CARD = os.environ.get("UNMASK_SOFTGPU_ARCH", "90")
WHEN = {"never": False, "always": True, "on two cards": CARD in ("80", "90")}
THIRDS = () if os.environ.get("UNMASK_EVERY_CARD") == "on" else ("89", "100", "120")
AT_LENGTH = {name for name, case in CASES.items() if WHEN[case.get("at_length", "never")]}
FEWER = {"8": "2", "16": "4", "params.block_length=8": "params.block_length=2"}


def shifted_blocks(folder):
    """tiny-ar, said to be block-causal: with shifted logits no embedded model is. Returns its folder."""
    source, model = os.path.abspath("experiments/models/tiny-ar"), os.path.join(folder, "tiny-ar-blocks")
    os.mkdir(model)
    for name in os.listdir(source):
        if name != "config.json":
            os.symlink(os.path.join(source, name), os.path.join(model, name))
    with open(os.path.join(source, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config.update(attention="block_causal", block_size=8, mask_token_id=1023)
    with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return model


def decode(program, method, device, made):
    """The answer and what was said on standard error. made: folders of models that are not embedded."""
    model, settings = CASES[method]["model"], CASES[method]["arguments"]
    if method not in AT_LENGTH:
        settings = [FEWER.get(s, s) for s in settings]
    command = [program, "generate", "--device", device, "--model", made.get(model, f"experiments/models/{model}"),
               "-m", method, "--set", "run.device_check=off", *settings, PROMPT]
    environment = {**os.environ, "UNMASK_SOFTGPU_STATS": "on"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        return None, done.stderr
    return done.stdout.split("\n[")[0], done.stderr


def problem_of(program, method, made):
    """What is wrong, in words; empty: nothing."""
    want, said = decode(program, method, "cpu", made)
    if want is None:
        return "does not decode on the CPU: " + said
    got, said = decode(program, method, "cuda", made)
    if got is None:
        return "does not decode: " + said
    found = re.findall(r"softgpu: (?:NOTE|FAULT|HOST).*", said)
    if found:
        return "\n".join(found)
    if got != want:
        return f"decodes {got!r}, the CPU {want!r}"
    launches = re.search(r"(\d+) graph launches", said)
    if launches is None or " 0 kernels" in said:
        return "ran no kernel: " + said
    replays = method in AT_LENGTH and CARD in ("80", "90")
    if replays and int(launches.group(1)) == 0:
        return "replayed no graph"
    return ""


def main():
    program = sys.argv[1]
    listed = subprocess.run([program, "list", "methods"], capture_output=True, text=True, check=True)
    methods = re.findall(r"^  (\w+)", listed.stdout, re.MULTILINE)
    wrong = 0
    if set(methods) != set(CASES):
        print("CASES and the program disagree about", sorted(set(methods) ^ set(CASES)))
        wrong += 1
    with tempfile.TemporaryDirectory() as folder:
        made = {"tiny-ar-blocks": shifted_blocks(folder)}
        for number, method in enumerate(sorted(methods)):
            if method not in CASES or CARD in THIRDS and number % 3 != THIRDS.index(CARD):
                continue
            begin = time.monotonic()
            problem = problem_of(program, method, made)
            print(f"{method}: {problem or 'as the CPU'}, {time.monotonic() - begin:.1f} s", flush=True)
            wrong += bool(problem)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
