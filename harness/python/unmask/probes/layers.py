# SPDX-License-Identifier: Apache-2.0
"""Probes of what happens inside a forward.

kv_change    Sparse-dLLM Fig. 4       attention      Focus-dLLM Figs. 2, 8, Sparse-dLLM Figs. 2, 7
importance   FOCUS Figs. 3, 4, 12-14 and appendix D  decode_trace   the decode player"""

import math

from unmask.probes.trace import (MOST_LAYERS, MOST_TOKENS, mean, over_items, ratio, rounded, share,
                                 share_interval, size)
from unmask.rows.later import np

AREA_DRAWS = 200
KINDS = ("not_decodable", "decodable", "decoded")


# ---- kv_change ----------------------------------------------------------------------------------

def kv_change(trace):
    regions = {name: np.zeros(3) for name in ("prompt", "before", "block", "after")}
    layers, steps = {}, {}
    for item, line in enumerate(trace.all("kv_change")):
        for step, layer, region, *sums in line["sums"]:
            regions[region] += sums
            if region == "block":
                continue
            layers.setdefault(layer, np.zeros(3))[:] += sums
            items = steps.setdefault(step, [])
            items += [np.zeros(3) for _ in range(item + 1 - len(items))]
            items[item] += sums
    # A step that computed nothing outside the block anew compares nothing there: no sum names it.
    by_step = [steps.get(t, []) for t in range(size(max(steps, default=-1) + 1, MOST_TOKENS))]
    totals = [sum(items, np.zeros(3)) for items in by_step]
    by_layer = [layers.get(i, np.zeros(3)) for i in range(size(max(layers, default=-1) + 1, MOST_LAYERS))]

    def values(sums, side):
        return [rounded(ratio(s[side], s[2])) for s in sums]

    def items_of(side):
        return [[[s[side], s[2]] for s in items] for items in by_step]
    return {"layers": {"k": values(by_layer, 0), "v": values(by_layer, 1)},
            "steps": {"k": values(totals, 0), "v": values(totals, 1),
                      "positions": [int(s[2]) for s in totals],
                      "k_items": items_of(0), "v_items": items_of(1)},
            "regions": {name: {"k": rounded(ratio(s[0], s[2])), "v": rounded(ratio(s[1], s[2])),
                               "positions": int(s[2])} for name, s in regions.items()}}


# ---- importance ---------------------------------------------------------------------------------

def standard_scores(values):
    """(v - mean) / sigma with sigma over n; zeros without spread."""
    sigma = values.std(dtype=float) if len(values) else 0
    if not sigma > 0:
        return np.zeros(len(values), np.float32)
    return ((values - values.mean(dtype=float)) / sigma).astype(np.float32)


def quintiles(values):
    """Bin 0 to 4 of each value by its rank, ties lowest index first."""
    bins = np.empty(len(values), int)
    bins[np.argsort(values, kind="stable")] = np.arange(len(values)) * 5 // len(values)
    return bins


def area_under_curve(positive, negative):
    """Probability that a positive is above a negative, ties one half; NaN when one side is empty."""
    if len(positive) == 0 or len(negative) == 0:
        return math.nan
    below = np.sort(negative)
    low, high = np.searchsorted(below, positive, "left"), np.searchsorted(below, positive, "right")
    return float((low + 0.5 * (high - low)).sum() / (len(positive) * len(negative)))


class Classes:
    """Values of decodable and other tokens, item by item."""

    def __init__(self, items):
        self.parts = [([], []) for _ in range(items)]  # decodable, not

    def add(self, item, values, decodable):
        self.parts[item][0].append(values[decodable])
        self.parts[item][1].append(values[~decodable])

    def joined(self):
        return [tuple(np.concatenate(side) if side else np.empty(0, np.float32) for side in part)
                for part in self.parts]

    def areas(self):
        """The area under the curve, and that of every draw of items."""
        parts = self.joined()

        def area(drawn):
            return area_under_curve(*(np.concatenate([parts[i][side] for i in drawn]) for side in (0, 1)))
        return area(range(len(parts))) if parts else math.nan, area


class LayerRecord:
    """One layer: means of importance by class, and standard scores within their step."""

    def __init__(self, items):
        self.masked = {kind: [] for kind in KINDS[:2]}
        self.with_decoded = {kind: [] for kind in KINDS}
        self.raw, self.delta = Classes(items), Classes(items)

    def add_all(self, scored, step):
        values = np.array(scored[1], np.float32)
        masked, decided = among(scored[0], step["undecided"]), among(scored[0], step["accepted"])
        for kind, chosen in zip(KINDS, (masked & ~decided, masked & decided, ~masked)):
            self.with_decoded[kind].append(values[chosen])


class Fifths:
    """Quintiles of the values of a step, counted by class; steps with fewer than five masks have none."""

    def __init__(self, items):
        self.counts = np.zeros((2, 5), int)  # not decodable, decodable
        self.top = [[0, 0] for _ in range(items)]  # of the decodable, those in the top fifth

    def add(self, item, values, decodable):
        if len(values) < 5:
            return
        bins = quintiles(values)
        for yes in (0, 1):
            self.counts[yes] += np.bincount(bins[decodable == bool(yes)], minlength=5)
        self.top[item][0] += int((bins[decodable] == 4).sum())
        self.top[item][1] += int(decodable.sum())

    def report(self, name):
        return {f"{name}_top_fifth": share(self.top), f"{name}_top_fifth_ci95": share_interval(self.top),
                f"{name}_percentiles": {"decodable": self.counts[1].tolist(),
                                        "not_decodable": self.counts[0].tolist()}}


def among(positions, some):
    return np.isin(np.asarray(positions, int), np.asarray(some, int))


def areas_of(record):
    """Intervals of the two areas, and what the difference of layers gains over the layer alone; the draws
    are the same in all three."""
    items = len(record.raw.parts)
    (raw, raw_of), (delta, delta_of) = record.raw.areas(), record.delta.areas()
    return {"auc_ci95": over_items(items, raw_of, AREA_DRAWS),
            "auc_delta_ci95": over_items(items, delta_of, AREA_DRAWS), "auc_gain": delta - raw,
            "auc_gain_ci95": over_items(items, lambda d: delta_of(d) - raw_of(d), AREA_DRAWS)}


def report_layer(index, record):
    row = {"auc": record.raw.areas()[0], "auc_delta": record.delta.areas()[0]}
    if index < 2:  # the two that the method reads
        row |= areas_of(record)
    values = {kind: np.concatenate(v or [np.empty(0)]) for kind, v in record.masked.items()}
    everything = {kind: np.concatenate(v or [np.empty(0)]) for kind, v in record.with_decoded.items()}
    return row | {"masked": {k: rounded(ratio(v.sum(dtype=float), len(v))) for k, v in values.items()},
                  "tokens": {k: len(v) for k, v in values.items()},
                  "with_decoded": {k: rounded(ratio(v.sum(dtype=float), len(v)))
                                   for k, v in everything.items()}}


def moments(values):
    """[count, sum, sum of squares], which add up over items."""
    values = np.asarray(values, float)
    return np.array([len(values), values.sum(), (values ** 2).sum()])


def gamma_of(decodable, others):
    """(gamma, separation, sigma) of moments: gamma = mu / sigma (FOCUS, D.1), mean of the decodable over the
    deviation of the others, whose mean the model takes for 0; separation: with that mean (remark in D.3)."""
    if others[0] == 0 or decodable[0] == 0:
        return math.nan, math.nan, math.nan
    mu, rest = decodable[1] / decodable[0], others[1] / others[0]
    sigma = math.sqrt(max(others[2] / others[0] - rest * rest, 0.0))
    return (mu / sigma, (mu - rest) / sigma, sigma) if sigma > 0 else (math.nan, math.nan, sigma)


def bound_of(gamma):
    """Of the eviction error (FOCUS, eq. 14); 1, which every share keeps, up to a gamma of 1."""
    return math.exp(-(max(gamma, 1.0) - 1) ** 2 / 2) if gamma == gamma else math.nan


def report_gamma(deltas):
    """FOCUS, appendix D: whether the differences of layers 1 and 0 are as far apart as Proposition D.1 asks
    (gamma > 1), the eviction error that it bounds (eq. 9), and the bound (eq. 14). Intervals are over items."""
    joined = deltas.joined()
    sums = np.array([[moments(side) for side in item] for item in joined]).reshape(-1, 2, 3)
    decodable = [np.sort(yes.astype(float)) for yes, _ in joined]

    def of_draw(drawn):
        return gamma_of(*sums[drawn].sum(axis=0))

    def error_of(drawn, sigma):
        if sigma != sigma:
            return math.nan
        missed = sum(int(np.searchsorted(decodable[i], sigma)) for i in drawn)
        return ratio(missed, sum(len(decodable[i]) for i in drawn))
    items = len(sums)
    gamma, separation, sigma = of_draw(np.arange(items))
    return {"gamma": gamma, "gamma_ci95": over_items(items, lambda d: of_draw(d)[0]), "gamma_separation": separation,
            "gamma_separation_ci95": over_items(items, lambda d: of_draw(d)[1]),
            "eviction_error": error_of(np.arange(items), sigma),
            "eviction_error_ci95": over_items(items, lambda d: error_of(d, of_draw(d)[2]), AREA_DRAWS),
            "eviction_error_bound": bound_of(gamma) if gamma > 1 else math.nan,
            "eviction_error_bound_ci95": over_items(items, lambda d: bound_of(of_draw(d)[0]))}


def skewness(sums):
    """|third central moment| over the deviation cubed, of [count, sum, sum of squares, of cubes]."""
    n, *powers = sums
    if n == 0:
        return math.nan
    first, second, third = (p / n for p in powers)
    variance = second - first * first
    if not variance > 0:
        return math.nan
    return abs(third - 3 * first * second + 2 * first ** 3) / variance ** 1.5


def report_shape(deltas, raw):
    """Mean difference of layers 1 and 0 of the tokens that are not decodable, and the skewness of the
    difference and of layer 1 (FOCUS, appendix D.3)."""
    others = np.array([moments(no)[:2] for _, no in deltas.joined()]).reshape(-1, 2)
    found = {"delta_mean_of_others": share(others[:, ::-1]),
             "delta_mean_of_others_ci95": share_interval(others[:, ::-1])}
    for name, of in (("delta", deltas), ("layer1", raw)):
        sums = np.array([powers(np.concatenate(item)) for item in of.joined()]).reshape(-1, 4)
        found[f"{name}_skewness"] = skewness(sums.sum(axis=0))
        found[f"{name}_skewness_ci95"] = over_items(len(sums), lambda drawn, sums=sums:
                                                    skewness(sums[drawn].sum(axis=0)))
    return found


def powers(values):
    """[count, sum, sum of squares, sum of cubes]."""
    values = np.asarray(values, float)
    return np.array([len(values), values.sum(), (values ** 2).sum(), (values ** 3).sum()])


def density(values):
    """Counts of standard scores in sixteen bins from -4 to 4."""
    return np.bincount(np.clip((values + np.float32(4)) * np.float32(2), 0, 15).astype(int),
                       minlength=16).tolist()


class Importance:
    """Importance of the block's rows, step by step."""

    def __init__(self, items):
        self.items, self.layers = items, []
        self.delta_bins, self.raw_bins = Fifths(items), Fifths(items)
        self.deltas, self.raw = Classes(items), Classes(items)  # of layer 1
        self.decided_mass = ItemMean()

    def add(self, item, step):
        self.layers += [LayerRecord(self.items) for _ in range(len(step["layers"]) - len(self.layers))]
        below = None  # positions and values of the layer before
        for index, (layer, record) in enumerate(zip(step["layers"], self.layers)):
            positions, values = layer["masked"][0], np.array(layer["masked"][1], np.float32)
            decodable = among(positions, step["accepted"])
            record.masked["decodable"].append(values[decodable])
            record.masked["not_decodable"].append(values[~decodable])
            record.raw.add(item, standard_scores(values), decodable)
            record.add_all(layer["all"], step)
            self.add_decided_mass(item, layer["all"], step)
            # A layer that lost rows has no difference to the one before, nor have those above.
            same = below is not None and below[0] == positions
            if same:
                self.add_delta(item, index, record, below[1], values, decodable)
            below = (positions, values) if same or index == 0 else None

    def add_delta(self, item, index, record, before, values, decodable):
        delta = values - before
        record.delta.add(item, standard_scores(delta), decodable)
        if index == 1:
            self.deltas.add(item, delta, decodable)
            self.delta_bins.add(item, delta, decodable)
            self.raw_bins.add(item, values, decodable)
            self.raw.add(item, values, decodable)

    def add_decided_mass(self, item, scored, step):
        """What decided rows draw of a layer's attention inside the block, where there are both kinds."""
        values, masks = np.array(scored[1], float), among(scored[0], step["undecided"])
        if 0 < masks.sum() < len(masks):
            self.decided_mass.add(item, values[~masks].sum() / values.sum())

    def density(self):
        scores = self.layers[1].delta.joined() if len(self.layers) > 1 else []
        sides = [np.concatenate([item[side] for item in scores] or [np.empty(0, np.float32)])
                 for side in (0, 1)]
        return {"from": -4, "to": 4, "decodable": density(sides[0]), "not_decodable": density(sides[1])}


def importance(trace):
    lines = trace.all("importance")
    found = Importance(len(lines))
    for item, line in enumerate(lines):
        for step in line["steps"]:
            found.add(item, step)
    return {"layers": [report_layer(i, record) for i, record in enumerate(found.layers)],
            **found.delta_bins.report("delta"), **found.raw_bins.report("layer1"),
            **report_gamma(found.deltas), **report_shape(found.deltas, found.raw),
            **found.decided_mass.report("decided_mass"), "delta_density": found.density()}


# ---- attention ----------------------------------------------------------------------------------

def overlap(a, b):
    """|A and B| / |A|."""
    return len(set(a) & set(b)) / len(a) if a else math.nan


class ItemMean:
    """A mean that keeps [sum, count] of every item, so that items can be drawn anew."""

    def __init__(self):
        self.items = []

    def add(self, item, value):
        self.items += [[0.0, 0] for _ in range(item + 1 - len(self.items))]
        self.items[item][0] += value
        self.items[item][1] += 1

    def report(self, name):
        return {name: rounded(share(self.items)), f"{name}_ci95": share_interval(self.items)}


def without_meaning(text):
    """Whether a token is punctuation, space or special."""
    return text.startswith("<|") and text.endswith("|>") or not any(
        c.isalnum() or ord(c) >= 0x80 for c in text)


def spread(trace):
    """Where attention goes besides the sinks: what the first token draws, how much of the highest tenth
    outside the block stays for a step, how many keys hold nine tenths, what sinks mean."""
    first, stays, empty, widest = ItemMean(), ItemMean(), ItemMean(), {}
    for item, line in enumerate(trace.all("attention")):
        for layer in (layer for look in line["looks"] for layer in look):
            if "first" in layer:
                first.add(item, layer["first"])
            for text in layer["texts"]:
                empty.add(item, float(without_meaning(text)))
            widest.setdefault(layer["layer"], ItemMean()).add(item, layer["keys_for_90"])
        for before, after in zip(line["outside"], line["outside"][1:]):
            if after["step"] != before["step"] + 1:
                continue
            for old, new in zip(before["tenths"], after["tenths"]):
                if old and new:
                    stays.add(item, overlap(old, new))
    found = {**first.report("first_token_mass"), **stays.report("outside_overlap_mean"),
             **empty.report("pivot_without_meaning")}
    if widest:
        found |= max(widest.values(), key=lambda layer: share(layer.items)).report("keys_for_90_max")
    return found


def attention(trace):
    held, together, over_time, looks = {}, {}, {}, 0
    for item, line in enumerate(trace.all("attention")):
        before = []
        for look in line["looks"]:
            looks += 1
            sinks = [layer["sinks"] for layer in look]
            for layer in look:
                held.setdefault(layer["layer"], []).append(layer["mass"])
            for a, mine in enumerate(sinks):
                for b, other in enumerate(sinks):
                    together.setdefault((a, b), ItemMean()).add(item, overlap(mine, other))
                over_time.setdefault(a, ItemMean())
                if a < len(before):
                    over_time[a].add(item, overlap(before[a], mine))
            before = sinks
    layers = range(len(over_time))
    maps = [m | {"values": rounded(m["values"])} for line in trace.all("attention") for m in line["maps"]]
    return {"looks": looks, "every": trace.settings["every"], "sink_share": trace.settings["sink_share"],
            "sink_mass": [rounded(mean(held[i])) for i in sorted(held)],
            "layer_overlap": [[rounded(share(together[a, b].items)) for b in layers] for a in layers],
            "layer_overlap_ci95": [[share_interval(together[a, b].items) for b in layers] for a in layers],
            "step_overlap": [rounded(share(over_time[a].items)) for a in layers],
            "step_overlap_ci95": [share_interval(over_time[a].items) for a in layers], "maps": maps,
            **spread(trace)}


# ---- decode_trace -------------------------------------------------------------------------------

def decode_trace(trace):
    """What the pass wrote down, as it stands."""
    text = trace.all("decode_text")
    return {"decodes": [{k: v for k, v in line.items() if k != "kind"} for line in trace.all("decode")],
            "text": text[0]["text"] if text else {}, "stops": text[0]["stops"] if text else []}
