# SPDX-License-Identifier: Apache-2.0
"""One decode to look at: how sure the model was of each position in each forward pass.

    look_inside.py [-o FOLDER] [--method NAME] [PROMPT]

Writes confidences.png, a heat map, and canvas.html, which a notebook shows for an answer by itself."""

import argparse
import pathlib
import sys

import matplotlib
import numpy as np

from unmask import engine

matplotlib.use("Agg")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("prompt", nargs="?", default="Compute 5 * 7 - 15 - 19 + 38.")
    p.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("runs/look_inside"))
    p.add_argument("--model", default="tiny-llada")
    p.add_argument("--method", default="fast_dllm")
    options = p.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    model = engine.Model(options.model)
    answer = model.decode(options.prompt, options.method, {"threshold": 0.9}, gen_length=32, trace=True)[0]
    print(answer.text)
    canvas = answer.canvas()
    sure, when = canvas.confidences(), canvas.unmasked()
    print(f"{len(sure)} forward passes; of {(when >= 0).sum()} tokens {np.sum(sure[0] > 0.9)} were sure at once")

    from matplotlib import pyplot as plt
    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    picture = axes.imshow(sure, aspect="auto", vmin=0, vmax=1, cmap="Blues", interpolation="nearest")
    lines = np.searchsorted(canvas.steps(), when[when >= 0])
    axes.plot(np.flatnonzero(when >= 0), lines, "s", markersize=3, color="tab:orange", label="unmasked")
    axes.set_xlabel("position of the response")
    axes.set_ylabel("forward pass")
    axes.set_yticks(range(len(sure)), canvas.steps() + 1)
    axes.legend(loc="lower left")
    figure.colorbar(picture, label="confidence")
    figure.savefig(options.output / "confidences.png", dpi=150)
    (options.output / "canvas.html").write_text(answer._repr_html_(), encoding="utf-8")
    print(f"pictures: {options.output / 'confidences.png'}, {options.output / 'canvas.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
