#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The papers' motivation figures from the probes of result rows, one figure per kind.

Writes OUTPUT-confidence, OUTPUT-attention, ... for every probe that the rows hold; a panel or a
line is one method, summed up over its workloads if all methods have the same. --panel draws a part of a kind:
what one figure of a paper shows.
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
    rows = [row for row in rows if probe in row.get("probes", {})]
    name = common.told_apart(rows, lambda r: common.series_label(r, rows), lambda r: r["workload"]["family"])
    name = common.tasks_told(rows, name)
    groups = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row["probes"][probe])
    return list(groups.items())


def tasks_of(rows):
    return common.together_note(common.ordered(r["workload"]["family"] for r in rows))


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


MAP = 1.0  # inches of a small map with its labels


def in_line(count, maps=False):
    """How many panels are next to each other: all on a page; in a narrower figure one, or the small maps that fit."""
    if common.columns_in(count) == count:
        return count
    return max(1, min(count, int(common.SETUP.width / MAP))) if maps else 1


def panels(count, height=1.9, rows=1, maps=False):
    """Axes [rows][count], a page wide; in a narrower figure the panels of a row take several lines."""
    columns = in_line(count, maps)
    lines = rows * math.ceil(count / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(common.SETUP.width or common.PAGE, height * lines + 0.4),
                                squeeze=False)
    axes = axes.reshape(rows, -1)
    for spare in axes[:, count:].flat:
        spare.set_axis_off()
    return figure, axes[:, :count]


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
    common.footnote(figure, rows, tasks_of(rows))
    return figure


def confidence(rows, groups, _):
    """Does confidence one step earlier predict what is unmasked? Confidence and recall (Focus-dLLM Fig. 1)."""
    figure, axes = common.grid(len(groups) + 1, common.columns_in(min(3, len(groups) + 1)), height=2.2)
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
    cell.set(xlabel="k most confident of the step before", ylabel="recall of unmasked tokens",
             ylim=(0, 1.03))
    return finish(figure, rows, [name for name, _ in groups])


def draw_map(cell, m, labelled):
    """A map of attention; columns are the keys in view, of a cache that keeps some only from its first to its
    last. labelled: whether its positions are written at it."""
    values = np.array(m["values"]).reshape(m["grid"])
    start, last = m.get("key_positions", (0, m["keys"] - 1))
    extent = (start, last + 1, m["row_positions"][1] + 1, m["row_positions"][0])
    cell.imshow(values ** 0.5, cmap="magma", aspect="auto", extent=extent,
                interpolation="none")  # as many pixels as values: pages stay small
    for sink in m["sinks"]:
        cell.axvline(sink + 0.5, ymin=0.97, color="#56B4E9", linewidth=1.2)
    cell.set_title(f"layer {m['layer']}, step {m['step']}", fontsize=common.TINY, fontweight="normal")
    cell.grid(visible=False)
    cell.tick_params(labelsize=common.TINY)
    cell.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    cell.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    cell.tick_params(labelleft=labelled)


def draw_overlap(figure, cell, found):
    """Which share of a layer's sinks are another layer's."""
    side = len(found["layer_overlap"])
    image = cell.imshow([numbers(v) for v in found["layer_overlap"]], vmin=0, vmax=1, cmap="viridis",
                        origin="lower", interpolation="none")
    cell.set_title("shared sinks", fontsize=common.TINY, fontweight="normal")
    ticks = range(0, side, 1 + side // 4)
    cell.set_xticks(ticks)
    cell.set_yticks(ticks)
    cell.tick_params(labelsize=common.TINY)
    cell.grid(visible=False)
    figure.colorbar(image, ax=cell, fraction=0.046).ax.tick_params(labelsize=common.TINY)


def label_of_maps(rows):
    several = len({r["workload"]["family"] for r in rows}) > 1
    return common.told_apart(rows, lambda r: common.series_label(r, rows) + (
        f" · {r['workload']['family'].replace('_', ' ')}" if several else ""), lambda r: "")


def attention(rows, _, parts):
    """Which keys get the attention? Maps, sinks and their overlap (Focus-dLLM Figs. 2, 8; Sparse-dLLM Figs. 2, 7)."""
    if parts == ["sparsity"]:
        return sparsity(rows)
    label = label_of_maps(rows)
    most = max(len(r["probes"]["attention"]["maps"]) for r in rows) if "maps" in parts else 0
    if parts == ["sinks"]:
        return overlaps(rows, label)
    columns = most + ("sinks" in parts)
    figure, axes = panels(columns, 1.25, len(rows), maps=True)
    for line, row in zip(axes, rows):
        found = row["probes"]["attention"]
        for place, (cell, m) in enumerate(zip(line, found["maps"])):
            # Maps of the same positions read the labels of the first one of their line.
            draw_map(cell, m, place % in_line(columns, maps=True) == 0
                     or m["row_positions"] != found["maps"][0]["row_positions"])
        for cell in line[len(found["maps"]):most]:
            cell.set_axis_off()
        if "sinks" in parts:
            draw_overlap(figure, line[-1], found)
        line[0].set_ylabel(f"{heading(label(row))}\nquery position", fontsize=common.TINY)
    common.label_below(figure, "key position (maps); layer (shared sinks)" if "sinks" in parts else "key position")
    common.finish(figure)
    common.footnote(figure, rows, "brightness: square root of the mean attention over heads; ticks on top: sinks"
                    + ("; shared sinks: share of a layer's sinks that are another layer's" if "sinks" in parts else ""))
    return figure


def overlaps(rows, label):
    """The overlap of the layers' sinks alone, a panel for each row."""
    figure, cells = common.grid(len(rows), common.columns_in(min(3, len(rows))), height=2.0)
    for cell, row in zip(cells, rows):
        draw_overlap(figure, cell, row["probes"]["attention"])
        title(cell, heading(label(row)))
    common.label_below(figure, "layer")
    common.finish(figure)
    common.footnote(figure, rows, "share of a layer's sinks that are another layer's")
    return figure


def concentration(m):
    """Share of the attention that the most attended keys have: [(share of keys, share of attention)]."""
    keys = np.array(m["values"], dtype=float).reshape(m["grid"]).sum(axis=0)
    kept = np.sort(keys)[::-1].cumsum() / max(keys.sum(), 1e-300)
    return np.arange(len(kept) + 1) / len(kept), np.concatenate([[0.0], kept])


def sparsity(rows):
    """How much of the attention few keys have, by layer: what Sparse-dLLM's Fig. 2 argues from."""
    label = label_of_maps(rows)
    layers = sorted({m["layer"] for r in rows for m in r["probes"]["attention"]["maps"]})
    look = common.looks(layers_named(layers))
    figure, cells = common.grid(len(rows), common.columns_in(min(3, len(rows))), height=2.0)
    for cell, row in zip(cells, rows):
        for m in row["probes"]["attention"]["maps"]:
            xs, ys = concentration(m)
            mine = look[f"layer {m['layer']}"]
            cell.plot(100 * xs, 100 * ys, color=mine.colour, linestyle=mine.dash, linewidth=1.1,
                      zorder=3 if mine.named else 2)
        cell.plot([0, 100], [0, 100], color=common.QUIET, linewidth=0.7, linestyle=(0, (2, 2)))
        title(cell, heading(label(row)))
        cell.set(xlabel="most attended keys, %", ylabel="share of attention, %", xlim=(0, 100), ylim=(0, 103))
    common.legend_above(figure, [common.Line2D([], [], color=look[n].colour, linestyle=look[n].dash, label=n)
                                 for n in layers_named(layers) if look[n].named])
    common.footnote(figure, rows, "a line for each map of the probe; keys as coarse as the map's columns; dashed: all "
                    "keys attended alike")
    return figure


def layers_named(layers):
    return [f"layer {layer}" for layer in layers]


def kv_change(rows, groups, _):
    """How much do K and V outside the block change per step? L2 change (Sparse-dLLM Fig. 4)."""
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


def draw_shares(cell, groups):
    kinds = ("stagnant", "missed\nstable", "declined")
    for s, (name, results) in enumerate(groups):
        share = [
            (sum(r["stagnant"] for r in results), sum(r["active"] for r in results)),
            (sum(r["missed_stable"]["missed"] for r in results),
             sum(r["missed_stable"]["stable"] for r in results)),
            (sum(r["decline"]["declined"] for r in results),
             sum(r["decline"]["decided"] for r in results))]
        heights = [100 * part / whole if whole else math.nan for part, whole in share]
        width = 0.8 / len(groups)
        cell.bar([k + (s - (len(groups) - 1) / 2) * width for k in range(3)], heights,
                 width * 0.95, label=name, color=common.COLOURS[s % 8])
    cell.set_xticks(range(3), kinds)
    cell.set_ylabel("share, %")


def draw_active(cell, groups):
    # A finished request counts as none, as in its own row.
    active = [(n, summed(r, lambda p: np.array(p["active_by_step"]) * p["requests"])
               / sum(p["requests"] for p in r)) for n, r in groups]
    lines(cell, active, [name for name, _ in groups])
    cell.set(xlabel="denoising step", ylabel="masked tokens judged")


def draw_confidences(cell, groups):
    drawn = []
    for s, (_, results) in enumerate(groups):
        counts = summed(results, lambda p: p["decided_confidence"])
        shares = counts / max(counts.sum(), 1)
        drawn += list(shares[shares > 0])
        cell.plot(np.arange(10)[shares > 0] / 10 + 0.05, shares[shares > 0], **common.Look(s).line())
    if drawn:
        common.log_axis(cell, "y", min(drawn) / 1.5, max(drawn) * 1.5)
    cell.set(xlabel="confidence when unmasked", ylabel="share of tokens")


def stagnation(rows, groups, parts):
    """Which positions wait although their token no longer changes? Stagnation and decline (Ada-DLM Figs. 1, 2, 4)."""
    draws = {"shares": draw_shares, "active": draw_active, "confidences": draw_confidences}
    figure, cells = common.grid(len(parts), common.columns_in(min(3, len(parts))),
                                common.PAGE if len(parts) > 1 else 4.6, 1.9)
    for cell, part in zip(cells, parts):
        draws[part](cell, groups)
    names = [name for name, _ in groups]
    common.legend_above(figure, [common.Patch(color=common.COLOURS[s % 8], label=name)
                                 for s, name in enumerate(names)])
    common.footnote(figure, rows, tasks_of(rows))
    return figure


def contradiction(rows, groups, _):
    """Which tokens would one token per forward pass unmask otherwise? Share by confidence (Ada-DLM)."""
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
    axes[0][0].set(xlabel="confidence when unmasked", ylabel="share contradicted")
    axes[0][1].set(xticks=[], ylabel="share of answer tokens")
    return finish(figure, rows, names)


def peak_oracle(rows, groups, _):
    """What if each position were unmasked at its peak of confidence? Steps and score (Ada-DLM)."""
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
        score = [100 * sum(r[key] * r["scored"] for r in scored) / weight
                 for key in ("method", "oracle", "peak_tokens")]
        axes[0][1].bar([s - 0.27, s, s + 0.27], score, 0.25, color=colour)
    for cell in axes[0]:
        cell.set_xticks([])
    axes[0][0].set(ylabel="denoising steps per request", xlabel="left: as decoded; right: oracle")
    axes[0][1].set(ylabel=common.heading_of("score"), xlabel="as decoded, oracle, tokens of the peaks")
    return finish(figure, rows, names)


def decoding(rows, groups, _):
    """How many tokens does a step unmask, and how many positions does it compute? (FOCUS Figs. 2, 9-11)."""
    figure, axes = panels(len(groups))
    for s, (name, results) in enumerate(groups):
        counts = summed(results, lambda p: p["histogram"])
        cell = axes[0][s]
        cell.bar(range(len(counts)), counts / counts.sum(), color=common.COLOURS[s % 8])
        decided = sum(r["decided"] for r in results)
        mean = decided / max(sum(r["steps"] for r in results), 1)
        redundancy = sum(r["rows"] for r in results) / max(decided, 1)
        cell.axvline(mean, color="black", linewidth=0.8, linestyle="--")
        title(cell, f"{heading(name)}\nmean {mean:.2f}\n{redundancy:.1f} positions per token")
        cell.set_xlim(-0.6, max(len(counts), 4) - 0.4)
        cell.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        cell.set_ylabel("share of steps" if s == 0 else "")
    common.label_below(figure, "unmasked tokens per step")
    common.finish(figure)
    common.footnote(figure, rows, "dashed: mean")
    return figure


CLASSES = (("decodable", "#0072B2"), ("not_decodable", "#E69F00"), ("decoded", "#999999"))


def importance_by_layer(cell, results):
    layers = len(results[0]["layers"])
    for kind, colour in CLASSES:
        if kind != "decoded":
            curve = pooled(results, lambda p: [l["masked"][kind] for l in p["layers"]],
                           lambda p: [l["tokens"][kind] for l in p["layers"]])
            cell.plot(range(layers), curve, color=colour, marker="o", markersize=3, label=kind)
        curve = pooled(results, lambda p: [l["with_decoded"][kind] for l in p["layers"]],
                       lambda p: [p["requests"]])
        cell.plot(range(layers), curve, color=colour, linestyle=":", linewidth=1,
                  label=f"{kind}, decoded included")
    cell.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    cell.set(xlabel="layer", ylabel="importance")


def auc_of(results, name):
    """The mean of layer 1's area under the curve over tasks, by their tokens; None where none has one."""
    weights = [sum(r["layers"][-1]["tokens"].values()) for r in results]
    known = [(r["layers"][1][name], w) for r, w in zip(results, weights)
             if len(r["layers"]) > 1 and r["layers"][1].get(name) is not None]
    return sum(a * w for a, w in known) / sum(w for _, w in known) if known else None


def fifths_of(key, auc, words, axis):
    """A panel of how many of each class lie in each fifth of a quantity."""
    def draw_fifths(cell, results):
        for place, (kind, colour) in enumerate(CLASSES[:2]):
            bins = summed(results, lambda p: p[key][kind])
            cell.bar(np.arange(5) + (place - 0.5) * 0.4, bins / max(bins.sum(), 1), 0.38, color=colour, label=kind)
        value = auc_of(results, auc)
        if value is not None:
            title(cell, f"AUC of {words} {value:.3f}")
        cell.set_xticks(range(5), ["1", "2", "3", "4", "5"])
        cell.set(xlabel=axis, ylabel="share of class")
    return draw_fifths


def increase_density(cell, results):
    for kind, colour in CLASSES[:2]:
        density = summed(results, lambda p: p["delta_density"][kind])
        cell.step(np.linspace(-4, 3.5, 16), density / max(density.sum(), 1) / 0.5,
                  where="post", color=colour, label=kind)
    cell.axvline(1, color="black", linewidth=0.8, linestyle="--")
    cell.set(xlabel="standardised increase", ylabel="density")


IMPORTANCE = {"layers": importance_by_layer,
              "increase": fifths_of("delta_percentiles", "auc_delta", "the increase", "fifth of the increase"),
              "layer1": fifths_of("layer1_percentiles", "auc", "layer 1", "fifth of the importance of layer 1"),
              "density": increase_density}


def importance(rows, groups, parts):
    """Does importance predict what is unmasked? By layer, and its increase (FOCUS Figs. 3, 4, 12-14)."""
    parts = [part for part in parts if part != "layer1" or all(
        "layer1_percentiles" in r for _, results in groups for r in results)]
    single = len(parts) == 1
    if single:  # one panel of each method, side by side
        figure, cells = common.grid(len(groups), common.columns_in(min(3, len(groups))),
                                    common.PAGE if len(groups) > 1 else 4.6, 2.2)
        axes = [cells]
    else:
        figure, axes = panels(len(groups), rows=len(parts))
    for s, (name, results) in enumerate(groups):
        for line, part in zip(axes, parts):
            IMPORTANCE[part](line[s], results)
        above = axes[0][s].get_title(loc="left")
        title(axes[0][s], heading(name) + (f"\n{above}" if above else ""))
    seen = dict(zip(*reversed([sum(found, []) for found in zip(
        *(line[0].get_legend_handles_labels() for line in axes))])))
    for text, handle in seen.items():
        handle.set_label(text.replace("_", " "))
    common.legend_above(figure, list(seen.values()))
    common.footnote(figure, rows, tasks_of(rows))
    return figure


KINDS = {"confidence": confidence, "attention": attention, "kv_change": kv_change,
         "stagnation": stagnation, "contradiction": contradiction,
         "peak_oracle": peak_oracle, "decoding": decoding, "importance": importance}


# The parts of a kind, of which a figure of a paper may be one.
PARTS = {"attention": ["maps", "sinks", "sparsity"], "stagnation": ["shares", "active", "confidences"],
         "importance": list(IMPORTANCE)}
USUAL = {**PARTS, "attention": ["maps", "sinks"]}
# What a row's results need beyond being there, so that it has a mark.
SHOWN = {"attention": lambda p: p["maps"],
         "kv_change": lambda p: any(p[of][side] for of in ("steps", "layers") for side in ("k", "v"))}


def draw(rows, options=None):
    wanted = getattr(options, "kind", None) or list(KINDS)
    asked = getattr(options, "panel", None) or []
    drawings = []
    for kind, make in KINDS.items():
        chosen = [r for r in rows if kind in r.get("probes", {})
                  and "not_run" not in r["probes"][kind] and SHOWN.get(kind, bool)(r["probes"][kind])]
        groups = series_of(chosen, kind)
        if not groups or kind not in wanted:
            continue
        parts = [part for part in PARTS.get(kind, ()) if part in asked] or USUAL.get(kind, [])
        drawings.append(Drawing(kind, make.__doc__.rstrip("."), make(chosen, groups, parts), chosen))
    if not drawings:
        raise NotDrawn("no row holds such a probe; add [probe] names to the experiment")
    return drawings


def more_arguments(parser):
    parser.add_argument("--kind", choices=sorted(KINDS), action="append",
                        help="only this figure (repeatable)")
    parser.add_argument("--panel", choices=sorted(part for parts in PARTS.values() for part in parts),
                        action="append", help="only this part of its figure (repeatable)")


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "probes", more_arguments))
