#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The papers' motivation figures from the probes of result rows, one figure per kind.

Writes OUTPUT-confidence, OUTPUT-attention, ... for every probe that the rows hold; a panel or a
line is one method, summed up over its workloads.
"""

import math
import sys

import numpy as np

import common
from common import Drawing, MaxNLocator, NotDrawn, plt


def numbers(values):
    """A list of numbers with NaN for what is null."""
    return [math.nan if v is None else float(v) for v in values]


def series_of(rows, probe):
    """(label, results) of every method that has the probe, in the order of the rows."""
    groups = {}
    for row in rows:
        if probe in row.get("probes", {}):
            groups.setdefault(common.series_label(row, rows), []).append(row["probes"][probe])
    return list(groups.items())


def pooled(results, values, weights):
    """Weighted mean of values(result) over the results; lists of different lengths are padded."""
    pairs = [(numbers(values(r)), numbers(weights(r))) for r in results]
    length = max(len(v) for v, _ in pairs)
    total, weight = np.zeros(length), np.zeros(length)
    for v, w in pairs:
        v, w = np.array(v), np.array(w if len(w) == len(v) else w * len(v))
        known = ~np.isnan(v)
        total[:len(v)][known] += v[known] * w[known]
        weight[:len(v)][known] += w[known]
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / weight


def summed(results, values):
    lists = [values(r) for r in results]
    total = np.zeros(max(len(v) for v in lists))
    for v in lists:
        total[:len(v)] += v
    return total


def panels(count, height=1.9, rows=1):
    """A page wide."""
    figure, axes = plt.subplots(rows, count, figsize=(common.SETUP.width or common.PAGE, height * rows + 0.4),
                                squeeze=False)
    return figure, axes


def heading(name):
    """A series name over a narrow panel: method, settings and model below each other."""
    return name.replace(" · ", "\n").replace(", ", ",\n", 1)


def title(cell, text):
    cell.set_title(text, fontsize=common.SMALL, fontweight="normal")


def lines(axes, curves, names, first=0, labelled=False):
    """Curves in the colours of their names, which some panels lack."""
    for name, values in curves:
        s = names.index(name)
        places = np.arange(first, first + len(values))
        axes.plot(places, values, label=name if labelled else None, color=common.COLOURS[s % 8],
                  marker=common.MARKERS[s % 8], markersize=3.5, linewidth=1.2,
                  markevery=max(1, len(values) // 12))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def finish(figure, rows, names=None):
    common.legend_above(figure, list(names or []))
    common.footnote(figure, rows)
    return figure


def confidence(rows, groups):
    """Confidence now against one step before, and recall of decided tokens (Focus-dLLM Fig. 1)."""
    figure, axes = common.grid(len(groups) + 1, 3, height=2.2)
    for s, (name, results) in enumerate(groups):
        cell = axes[s]
        for r in results:
            if r["points"]:
                x, y = zip(*r["points"])
                cell.plot(x, y, linestyle="none", marker=".", markersize=2.5, alpha=0.4,
                          color=common.COLOURS[s % 8])
        cell.plot([0, 1], [0, 1], color="#888888", linewidth=0.7)
        r = pooled(results, lambda p: [p["correlation"]], lambda p: [p["pairs"]])[0]
        title(cell, name.replace(" · ", "\n") + (f", r = {r:.3f}" if not math.isnan(r) else ""))
        cell.set(xlabel="confidence one step before", ylabel="confidence", xlim=(0, 1), ylim=(0, 1))
    cell = axes[-1]
    for s, (name, results) in enumerate(groups):
        recall = pooled(results, lambda p: p["recall"]["value"], lambda p: [p["recall"]["tokens"]])
        cell.plot(results[0]["recall"]["k"], recall, label=name, color=common.COLOURS[s % 8],
                  marker=common.MARKERS[s % 8], markersize=4)
    cell.set_xscale("log", base=2)
    cell.set_xticks(groups[0][1][0]["recall"]["k"], groups[0][1][0]["recall"]["k"])
    cell.set(xlabel="k most confident of the step before", ylabel="recall of decided tokens",
             ylim=(0, 1.03))
    return finish(figure, rows, [name for name, _ in groups])


def attention(rows, _):
    """Attention maps, sinks, and their overlap (Focus-dLLM Figs. 2, 8; Sparse-dLLM Figs. 2, 7)."""
    several = len({r["workload"]["family"] for r in rows}) > 1
    label = common.told_apart(rows, lambda r: common.series_label(r, rows) + (
        f" · {r['workload']['family'].replace('_', ' ')}" if several else ""), lambda r: "")
    columns = max(len(r["probes"]["attention"]["maps"]) for r in rows) + 1
    figure, axes = panels(columns, 1.25, len(rows))
    for line, row in zip(axes, rows):
        found = row["probes"]["attention"]
        maps = found["maps"]
        for cell, m in zip(line, maps):
            values = np.array(m["values"]).reshape(m["grid"])
            # Columns are the keys in view; where a cache keeps some only, from its first to its last.
            first, last = m.get("key_positions", (0, m["keys"] - 1))
            extent = (first, last + 1, m["row_positions"][1] + 1, m["row_positions"][0])
            cell.imshow(values ** 0.5, cmap="magma", aspect="auto", extent=extent,
                        interpolation="none")  # as many pixels as values: pages stay small
            for sink in m["sinks"]:
                cell.axvline(sink + 0.5, ymin=0.97, color="#56B4E9", linewidth=1.2)
            cell.set_title(f"layer {m['layer']}, step {m['step']}", fontsize=common.TINY,
                           fontweight="normal")
            cell.grid(visible=False)
            cell.tick_params(labelsize=common.TINY)
            cell.xaxis.set_major_locator(MaxNLocator(3, integer=True))
            cell.yaxis.set_major_locator(MaxNLocator(3, integer=True))
            # Maps of the same positions as the first read its labels.
            cell.tick_params(labelleft=m is maps[0] or m["row_positions"] != maps[0]["row_positions"])
        for cell in line[len(maps):-1]:
            cell.set_axis_off()
        side = len(found["layer_overlap"])
        image = line[-1].imshow([numbers(v) for v in found["layer_overlap"]], vmin=0, vmax=1,
                                cmap="viridis", origin="lower", interpolation="none")
        line[-1].set_title("shared sinks", fontsize=common.TINY, fontweight="normal")
        ticks = range(0, side, 1 + side // 4)
        line[-1].set_xticks(ticks)
        line[-1].set_yticks(ticks)
        line[-1].tick_params(labelsize=common.TINY)
        line[-1].grid(visible=False)
        figure.colorbar(image, ax=line[-1], fraction=0.046).ax.tick_params(labelsize=common.TINY)
        line[0].set_ylabel(f"{heading(label(row))}\nrow position", fontsize=common.TINY)
    common.label_below(figure, "key position (maps); layer (shared sinks)")
    common.finish(figure)
    common.footnote(figure, rows, "brightness: square root of the mean attention over heads; "
                    "ticks on top: sinks; right: share of a layer's sinks that are another layer's")
    return figure


def kv_change(rows, groups):
    """L2 change of K and V outside the block between neighbouring steps (Sparse-dLLM Fig. 4)."""
    figure, axes = panels(2, rows=2)
    names = [name for name, _ in groups]
    for row, side in enumerate(("k", "v")):
        by_step = [(n, pooled(r, lambda p: p["steps"][side], lambda p: p["steps"]["positions"]))
                   for n, r in groups if any(p["steps"][side] for p in r)]
        by_layer = [(n, pooled(r, lambda p: p["layers"][side],
                               lambda p: [sum(p["steps"]["positions"])]))
                    for n, r in groups if any(p["layers"][side] for p in r)]
        lines(axes[row][0], by_step, names, 1)
        lines(axes[row][1], by_layer, names, labelled=row == 0)
        axes[row][0].set_xlabel("step of the block, against the one before")
        axes[row][1].set_xlabel("layer")
        for cell in axes[row]:
            cell.set(ylabel=f"L2 change of {side.upper()}", ylim=(0, None))
    return finish(figure, rows, [name for name, _ in by_layer])


def stagnation(rows, groups):
    """Stagnation, missed stable tokens, decline after the peak (Ada-DLM Figs. 1, 2, 4)."""
    figure, axes = panels(3)
    names = [name for name, _ in groups]
    kinds = ("stagnant", "missed\nstable", "declined")
    for s, (name, results) in enumerate(groups):
        share = [
            (sum(r["stagnant"] for r in results), sum(r["active"] for r in results)),
            (sum(r["missed_stable"]["missed"] for r in results),
             sum(r["missed_stable"]["stable"] for r in results)),
            (sum(r["decline"]["declined"] for r in results),
             sum(r["decline"]["decided"] for r in results))]
        heights = [part / whole if whole else math.nan for part, whole in share]
        width = 0.8 / len(groups)
        axes[0][0].bar([k + (s - (len(groups) - 1) / 2) * width for k in range(3)], heights,
                       width * 0.95, label=name, color=common.COLOURS[s % 8])
    axes[0][0].set_xticks(range(3), kinds)
    axes[0][0].set_ylabel("share")
    # A finished request counts as none, as in its own row.
    active = [(n, summed(r, lambda p: np.array(p["active_by_step"]) * p["requests"])
               / sum(p["requests"] for p in r)) for n, r in groups]
    lines(axes[0][1], active, names)
    axes[0][1].set(xlabel="step", ylabel="masked tokens judged")
    for s, (name, results) in enumerate(groups):
        counts = summed(results, lambda p: p["decided_confidence"])
        look = common.Look(s)
        shares = counts / max(counts.sum(), 1)
        axes[0][2].plot(np.arange(10)[shares > 0] / 10 + 0.05, shares[shares > 0], **look.line())
    axes[0][2].set(yscale="log", xlabel="confidence when decided", ylabel="share of tokens")
    return finish(figure, rows, names)


def contradiction(rows, groups):
    """Decided tokens that one token per forward decides otherwise, by confidence (Ada-DLM)."""
    figure, axes = panels(2)
    names = [name for name, _ in groups]
    for s, (name, results) in enumerate(groups):
        compared = summed(results, lambda p: p["by_confidence"]["compared"])
        differ = summed(results, lambda p: p["by_confidence"]["differ"])
        known = compared > 0
        axes[0][0].plot(np.arange(10)[known] / 10 + 0.05, differ[known] / compared[known],
                        **common.Look(s).line())
        answer = (sum(r["answer"]["differ"] for r in results)
                  / max(sum(r["answer"]["compared"] for r in results), 1))
        axes[0][1].bar(s, answer, 0.8, label=name, color=common.COLOURS[s % 8])
    axes[0][0].set(xlabel="confidence when decided", ylabel="share contradicted")
    axes[0][1].set(xticks=[], ylabel="share of answer tokens")
    return finish(figure, rows, names)


def peak_oracle(rows, groups):
    """Every position decided in the order of its confidence peak: steps and score (Ada-DLM)."""
    figure, axes = panels(2)
    names = [name for name, _ in groups]
    for s, (name, results) in enumerate(groups):
        colour = common.COLOURS[s % 8]
        requests = sum(r["requests"] for r in results)
        steps = [sum(r[key] for r in results) / requests for key in ("steps", "oracle_steps")]
        axes[0][0].bar([s - 0.2, s + 0.2], steps, 0.38, color=[colour, colour], label=name)
        scored = [r["score"] for r in results if r["score"]["scored"]]
        weight = sum(r["scored"] for r in scored)
        if not weight:
            continue
        score = [sum(r[key] * r["scored"] for r in scored) / weight
                 for key in ("method", "oracle", "peak_tokens")]
        axes[0][1].bar([s - 0.27, s, s + 0.27], score, 0.25, color=colour)
    for cell in axes[0]:
        cell.set_xticks([])
    axes[0][0].set(ylabel="steps per request", xlabel="as decoded, oracle")
    axes[0][1].set(ylabel="score", xlabel="as decoded, oracle, tokens of the peaks")
    return finish(figure, rows, names)


def decoding(rows, groups):
    """Tokens decided per step and rows computed per token (FOCUS Figs. 2, 9-11)."""
    figure, axes = panels(len(groups))
    for s, (name, results) in enumerate(groups):
        counts = summed(results, lambda p: p["histogram"])
        cell = axes[0][s]
        cell.bar(range(len(counts)), counts / counts.sum(), color=common.COLOURS[s % 8])
        decided = sum(r["decided"] for r in results)
        mean = decided / max(sum(r["steps"] for r in results), 1)
        redundancy = sum(r["rows"] for r in results) / max(decided, 1)
        cell.axvline(mean, color="black", linewidth=0.8, linestyle="--")
        title(cell, f"{heading(name)}\nmean {mean:.2f}\n{redundancy:.1f} rows per token")
        cell.set_xlim(-0.6, max(len(counts), 4) - 0.4)
        cell.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        cell.set_ylabel("share of steps" if s == 0 else "")
    common.label_below(figure, "tokens decided in a step")
    common.finish(figure)
    common.footnote(figure, rows, "dashed: mean")
    return figure


def importance(rows, groups):
    """Importance by layer, and its increase against decodability (FOCUS Figs. 3, 4, 12-14)."""
    figure, axes = panels(len(groups), rows=3)
    classes = (("decodable", "#0072B2"), ("not_decodable", "#E69F00"), ("decoded", "#999999"))
    for s, (name, results) in enumerate(groups):
        layers = len(results[0]["layers"])
        top, middle, bottom = (axes[r][s] for r in range(3))
        for kind, colour in classes:
            if kind != "decoded":
                curve = pooled(results, lambda p: [l["masked"][kind] for l in p["layers"]],
                               lambda p: [l["tokens"][kind] for l in p["layers"]])
                top.plot(range(layers), curve, color=colour, marker="o", markersize=3, label=kind)
            curve = pooled(results, lambda p: [l["with_decoded"][kind] for l in p["layers"]],
                           lambda p: [p["requests"]])
            top.plot(range(layers), curve, color=colour, linestyle=":", linewidth=1,
                     label=f"{kind}, decoded included")
        title(top, heading(name))
        top.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        top.set(xlabel="layer", ylabel="importance")
        for kind, (label, colour) in enumerate(c for c in classes if c[0] != "decoded"):
            bins = summed(results, lambda p: p["delta_percentiles"][label])
            middle.bar(np.arange(5) + (kind - 0.5) * 0.4, bins / max(bins.sum(), 1), 0.38,
                       color=colour, label=label)
            density = summed(results, lambda p: p["delta_density"][label])
            bottom.step(np.linspace(-4, 3.5, 16), density / max(density.sum(), 1) / 0.5,
                        where="post", color=colour, label=label)
        bottom.axvline(1, color="black", linewidth=0.8, linestyle="--")
        weights = [sum(r["layers"][-1]["tokens"].values()) for r in results]
        auc = [a for a in ((r["layers"][1]["auc_delta"], w) for r, w in zip(results, weights))
               if a[0] is not None] if layers > 1 else []
        if auc:
            value = sum(a * w for a, w in auc) / sum(w for _, w in auc)
            title(middle, f"AUC of the increase {value:.3f}")
        middle.set_xticks(range(5), ["1", "2", "3", "4", "5"])
        middle.set(xlabel="fifth of the increase", ylabel="share of class")
        bottom.set(xlabel="standardised increase", ylabel="density")
    names = axes[0][0].get_legend_handles_labels()
    for handle, text in zip(*names):
        handle.set_label(text.replace("_", " "))
    common.legend_above(figure, names[0])
    common.footnote(figure, rows)
    return figure


KINDS = {"confidence": confidence, "attention": attention, "kv_change": kv_change,
         "stagnation": stagnation, "contradiction": contradiction,
         "peak_oracle": peak_oracle, "decoding": decoding, "importance": importance}


# What a row's results need beyond being there, so that it has a mark.
SHOWN = {"attention": lambda p: p["maps"],
         "kv_change": lambda p: any(p[of][side] for of in ("steps", "layers") for side in ("k", "v"))}


def draw(rows, options=None):
    wanted = getattr(options, "kind", None) or list(KINDS)
    drawings = []
    for kind, make in KINDS.items():
        chosen = [r for r in rows if kind in r.get("probes", {})
                  and "not_run" not in r["probes"][kind] and SHOWN.get(kind, bool)(r["probes"][kind])]
        groups = series_of(chosen, kind)
        if not groups or kind not in wanted:
            continue
        drawings.append(Drawing(kind, make.__doc__.rstrip("."), make(chosen, groups), chosen))
    if not drawings:
        raise NotDrawn("no row holds such a probe; add [probe] names to the experiment")
    return drawings


def more_arguments(parser):
    parser.add_argument("--kind", choices=sorted(KINDS), action="append",
                        help="only this figure (repeatable)")


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "probes", more_arguments))
