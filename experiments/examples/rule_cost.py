# SPDX-License-Identifier: Apache-2.0
"""What a rule in Python costs: the same rule compiled, as a function for each request, and as a function for the batch.

    rule_cost.py [--model NAME] [--batches 1,8,64] [--rounds 20] [--gen-length 64] [--threads N]

All rules decode the same prompts in turn, in one process, and must write the same tokens. The second table compares
decode() with `unmask run`, for a compiled method. The last line is the time that the import takes. Run it on an idle
machine: a busy one gives wide intervals."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from unmask import engine
from unmask.rows import intervals

BASES = {"tiny-llada": "fast_dllm", "tiny-sdar": "block_diffusion"}
ITEMS, LIMIT = 8, 0.9


def sure(step, threshold=LIMIT):
    """All candidates of this confidence, and the surest one in any case."""
    ready = step.confidence >= np.float32(threshold)
    ready[np.argmax(step.confidence)] = True
    return ready


def all_sure(steps, threshold=LIMIT):
    """The same for all requests at once."""
    ready = steps.confidence >= np.float32(threshold)
    best = np.lexsort((-steps.confidence, np.repeat(np.arange(len(steps)), np.diff(steps.begin))))
    ready[best[steps.begin[:-1]]] = True
    return ready


def questions(model):
    """The first word problems that come with the models."""
    file = pathlib.Path(model.path).parents[1] / "data/word_problem.jsonl"
    return [json.loads(line)["prompt"] for line in file.read_text(encoding="utf-8").splitlines()[:ITEMS]]


def mean_of(samples):
    """A mean with Student's 95 % interval: "0.095 [0.091, 0.099]"."""
    middle = statistics.fmean(samples)
    if len(samples) < 2:
        return f"{middle:.4f}"
    half = intervals.t_quantile(len(samples) - 1) * statistics.stdev(samples) / len(samples) ** 0.5
    return f"{middle:.4f} [{middle - half:.4f}, {middle + half:.4f}]"


def cost_of_a_rule(model, base, batch, options):
    """ms a request and step over the compiled rule, by way of asking: a list of one value for each round."""
    prompts = questions(model)
    asked = [prompts[i % ITEMS] for i in range(batch)]
    methods = [base, "sure", "all_sure"]
    over, steps_ms = {name: [] for name in methods[1:]}, []
    for turn in range(-1, options.rounds):  # the first is for warmth
        seconds, hashes, asks = {}, set(), 0
        for name in methods if turn % 2 else methods[::-1]:
            done = model.decode(asked, name, {"threshold": LIMIT}, batch_size=batch, gen_length=options.gen_length)
            seconds[name] = done.metrics["wall_seconds"]
            hashes.add(done.answers_hash)
            asks = sum(answer.counters["denoise_steps"] for answer in done)
        if len(hashes) != 1:
            sys.exit("the rules write different tokens")
        if turn < 0:
            continue
        steps_ms.append(1e3 * seconds[base] / asks)
        for name, list_of in over.items():
            list_of.append(1e3 * (seconds[name] - seconds[base]) / asks)
    return steps_ms, over


def cost_of_the_way_in(model, base, options):
    """Seconds of decode() over those that `unmask run` reports, for the same prompts: one ratio for each round."""
    program = os.environ.get("UNMASK_PROGRAM") or engine.compiled.file().parents[1] / "bin/unmask"
    here, there = [], []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "run.toml")
        file.write_text(engine.runs.toml_of({
            "run": {"repetitions": 1, "warmup": 1, "gen_length": options.gen_length, "device": "cpu"},
            "model": [{"path": model.path}], "workload": [{"tasks": ["word_problem"], "limit": ITEMS}],
            "method": [{"name": base, "params": {"threshold": LIMIT}}]}), encoding="utf-8")
        for turn in range(options.rounds):
            out = pathlib.Path(folder, str(turn))
            done = subprocess.run([program, "run", file, "-o", out, "--no-progress"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
            if done.returncode != 0:
                sys.exit(done.stdout + done.stderr)
            row = json.loads((out / "rows.jsonl").read_text(encoding="utf-8").splitlines()[-1])
            for _ in range(2):  # as `run`: once for warmth
                mine = model.decode(questions(model), base, {"threshold": LIMIT}, gen_length=options.gen_length)
            if mine.answers_hash != row["answers_hash"]:
                sys.exit("decode() and `unmask run` write different tokens")
            here.append(mine.metrics["wall_seconds"])
            there.append(row["metrics"]["wall_seconds"])
    return intervals.paired_ratio(here, there)


def seconds_of(code):
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.monotonic() - began


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="tiny-llada", choices=BASES)
    p.add_argument("--batches", default="1,8,64", type=lambda text: [int(part) for part in text.split(",")])
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("--gen-length", type=int, default=64)
    p.add_argument("--threads", type=int, default=1)
    options = p.parse_args()
    base = BASES[options.model]
    engine.method(base=base, name="sure")(sure)
    engine.method(base=base, name="all_sure", batched=True)(all_sure)
    model = engine.Model(options.model, device="cpu", threads=options.threads)
    print(f"{options.model}, {base} with threshold {LIMIT}, {options.gen_length} tokens, {options.threads} threads, "
          f"{options.rounds} rounds; means with 95 % intervals\n")
    print("| batch size | compiled rule: ms per request and step | Python rule: ms more | batched Python rule: ms more |")
    print("|---:|---:|---:|---:|")
    for batch in options.batches:
        steps_ms, over = cost_of_a_rule(model, base, batch, options)
        print(f"| {batch} | {mean_of(steps_ms)} | {mean_of(over['sure'])} | {mean_of(over['all_sure'])} |", flush=True)
    ratio = cost_of_the_way_in(model, base, options)
    print(f"\ntime of decode() / time that `unmask run` reports: {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")
    times = [seconds_of("import unmask.engine") - seconds_of("pass") for _ in range(max(options.rounds // 4, 2))]
    print(f"import unmask.engine: {mean_of(times)} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
