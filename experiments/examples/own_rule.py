# SPDX-License-Identifier: Apache-2.0
"""An idea against two baselines: rows, a table and a figure.

    own_rule.py [-o FOLDER] [--limit N]

The idea: unmask the tokens whose confidence rose in the last forward passes, else the surest one. It runs over whole
blocks, next to the same blocks with a threshold and to FOCUS. Everything in the figure is counted, so that a busy
machine does not change it. A second call goes on where the first one ended."""

import argparse
import pathlib
import sys

import matplotlib
import numpy as np

from unmask import engine

matplotlib.use("Agg")


@engine.method(base="block_diffusion", threshold=0.9)
def rising(step, rises=2, at_most=4):
    """Tokens whose confidence rose in so many forward passes in a row, else the surest one."""
    past = step.memory.setdefault("past", np.zeros((2, step.length)))  # last confidence, rises in a row
    last, up = past[:, step.position]
    up = np.where((last > 0) & (step.confidence > last), up + 1, 0)
    past[0, step.position], past[1, step.position] = step.confidence, up
    best = np.argsort(-step.confidence, kind="stable")
    ready = best[up[best] >= rises][:at_most]
    return ready if len(ready) else best[:1]


def experiment(limit):
    """What is measured: the keys are those of an experiment file (experiments/FORMAT.md)."""
    return {
        "title": "Rising confidence against a threshold and FOCUS",
        "run": {"gen_length": 32, "repetitions": {"min": 1, "max": 1}, "warmup": 0},
        "model": [{"path": "models/tiny-sdar"}],
        "workload": [{"tasks": ["word_problem"], "limit": limit}],
        "method": [{"name": "block_diffusion", "label": "threshold 0.9", "params": {"threshold": 0.9}},
                   {"name": "focus", "label": "FOCUS, 0.9", "params": {"threshold": 0.9}},
                   {"name": "rising", "label": "rising twice"},
                   {"name": "rising", "label": "rising once", "params": {"rises": 1}}]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("runs/own_rule"))
    p.add_argument("--limit", type=int, default=16, help="word problems")
    options = p.parse_args()
    rows = engine.run(experiment(options.limit), options.output, progress=False)
    table = rows[["label", "score", "nfe", "tpf", "redundancy"]]
    print(table.to_string(index=False, float_format="{:.2f}".format))

    from matplotlib import pyplot as plt
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    for _, row in table.iterrows():
        axes.plot(row["tpf"], 100 * row["score"], "o")
        axes.annotate(row["label"], (row["tpf"], 100 * row["score"]), textcoords="offset points", xytext=(6, 4))
    axes.set_xlabel("tokens per forward pass")
    axes.set_ylabel("right answers, %")
    axes.margins(0.25)
    figure.savefig(options.output / "idea.png", dpi=150)
    print(f"figure: {options.output / 'idea.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
