# SPDX-License-Identifier: Apache-2.0
"""What a probed pass wrote down, and the arithmetic that all probes share.

A trace is JSON lines, each with its `kind`:

    probes      the settings: names, tau, margin, sink_share, every, reference_block
    request     prompt and canvas (tokens), stops, rows (that entered decode forwards), steps: position,
                token (arg-max), confidence (float32), accepted of every masked candidate, and edits:
                [position, token, confidence] of every decided token that was replaced or, token -1, masked
                again, absent if none was; score and peak_scores: of the answer, and with the token of an
                earlier peak in its place; revised: number of edits, absent if none was
    again       the requests decoded once more: of, problem, steps, canvases (-1: never decided), scores
    kv_change   sums: [step of the block, layer, region, sum of |dK|, of |dV|, positions]
    importance  steps: accepted and undecided positions, layers: masked and all as [positions, values]
    attention   looks: layer, sinks, mass, texts (of the sinks), keys_for_90 and first (mass of position 0) of
                each layer; outside: step, tenths (of the keys outside the block, layer by layer) of a look and
                of the step after it; maps
    decode, decode_text   the first requests forward by forward, for the player

One request, kv_change, importance and attention line a request, in the order of the pass."""

from dataclasses import dataclass
import math

from unmask.rows.errors import UserError
from unmask.rows.files import opened_text
from unmask.rows.later import np
from unmask.rows.shapes import TEXT, fit
from unmask.rows.text import json_value

MOST_TOKENS, MOST_LAYERS = 1 << 22, 1 << 12
COLUMNS = {"position": {int}, "token": {int}, "confidence": {int, float, type(None)}, "accepted": {bool}}
EDIT = ({int}, {int}, {int, float, type(None)})


def _has_columns(steps):
    """Whether all steps of a request hold the columns of their candidates."""
    return isinstance(steps, list) and all(
        isinstance(step, dict) and all(isinstance(step.get(name), list) and set(map(type, step[name])) <= kinds
                                       for name, kinds in COLUMNS.items())
        and len({len(step[name]) for name in COLUMNS}) == 1 and _has_edits(step) for step in steps)


def _has_edits(step):
    """Whether a step that has edits holds the three numbers of each."""
    edits = step.get("edits", [])
    return isinstance(edits, list) and all(
        isinstance(edit, list) and len(edit) == len(EDIT) and all(type(value) in kinds
                                                                 for value, kinds in zip(edit, EDIT))
        for edit in edits)


@dataclass
class Trace:
    settings: dict
    lines: dict  # kind: lines

    @classmethod
    def read(cls, path):
        with opened_text(path) as file:
            try:
                lines = fit([json_value(text) for text in file], [{"kind": TEXT}], path, "lines")
            except ValueError as problem:
                raise UserError(f"{path}: not JSON lines: {problem}") from None
        if not lines or lines[0]["kind"] != "probes" or lines[0].get("version") != 1:
            raise UserError(f"{path}: does not begin with the settings of a probed pass (version 1)")
        fit(lines[0], {"names": [TEXT]}, path, "settings")
        for line in lines[1:]:
            if line["kind"] == "request" and not _has_columns(line.get("steps")):
                raise UserError(f"{path}: `steps` of a request hold no columns of numbers of one length, or "
                                "edits that are none")
            if type(line.get("revised", 0)) is not int or line.get("revised", 0) < 0:
                raise UserError(f"{path}: `revised` of a request is no number of tokens")
        kinds = {}
        for line in lines[1:]:
            kinds.setdefault(line["kind"], []).append(line)
        return cls(lines[0], kinds)

    def all(self, kind):
        return self.lines.get(kind, [])

    @property
    def requests(self):
        return self.all("request")

    @property
    def revised(self):
        """Tokens that were replaced or reopened in all requests."""
        return sum(request.get("revised", 0) for request in self.requests)

    def again(self, probe):
        return next((line for line in self.all("again") if line["of"] == probe), None)


def size(value, most):
    """A number of a trace that becomes the length of a list; ValueError where nothing is that long."""
    if not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{value!r} is no number of tokens or layers")
    return value


def rounded(value):
    """Five significant digits: rows stay small, figures do not change."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [rounded(v) for v in value]
    value = float(value)
    if value == 0 or not math.isfinite(value):
        return value
    unit = 10.0 ** (4 - math.floor(math.log10(abs(value))))
    return math.copysign(math.floor(abs(value) * unit + 0.5), value) / unit


def plain(value):
    """The same for JSON: lists and numbers of Python, None for what is not a number."""
    if isinstance(value, dict):
        return {name: plain(v) for name, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def ratio(part, whole):
    return part / whole if whole > 0 else math.nan


def mean(values):
    return ratio(sum(values), len(values))


# Philox-4x32-10 (Salmon et al., SC 2011), as kernels/random.h draws: the drawn items of a bootstrap are
# those of earlier rows.
def philox(key, high, low):
    """Words [..., 4] of counters `low` under 64-bit keys."""
    mask, c = np.uint64(0xFFFFFFFF), [np.uint64(v) for v in (0, 0, 0, 0)]
    low, key = np.asarray(low, np.uint64), np.asarray(key, np.uint64)
    shape = np.broadcast(low, key).shape
    high = np.full(shape, high, np.uint64)
    c = [np.broadcast_to(low & mask, shape), np.broadcast_to(low >> np.uint64(32), shape), high & mask,
         high >> np.uint64(32)]
    k0, k1 = key & mask, key >> np.uint64(32)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & mask, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & mask]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    return c


def draws(items, resamples):
    """Indices [resamples, items], with replacement, by a fixed generator."""
    word = philox(2026, 19, np.arange(resamples, dtype=np.uint64))
    stream = (word[2] << np.uint64(32)) | word[3]
    word = philox(stream[:, None], 0, np.arange(items, dtype=np.uint64)[None, :])
    bits = (word[0] << np.uint64(32)) | word[1]
    uniform = ((bits >> np.uint64(12)).astype(float) + 0.5) * 2.0 ** -52
    return np.minimum((uniform * items).astype(int), items - 1)


def interval(values):
    """95 % percentile interval of drawn values; [] where none is a number."""
    values = np.sort(np.asarray(values, float)[np.isfinite(values)])
    if len(values) == 0:
        return []
    ranks = [max(1, math.ceil(q * len(values) - 1e-9)) for q in (0.025, 0.975)]
    return [float(values[rank - 1]) for rank in ranks]


def over_items(items, value, resamples=1000):
    """Interval of value(drawn indices) over draws of items; [] under two."""
    return interval([value(drawn) for drawn in draws(items, resamples)]) if items > 1 else []


def share_interval(pairs, resamples=1000):
    """Interval of the sum of parts over the sum of wholes, of [part, whole] of every item."""
    if len(pairs) < 2:
        return []
    drawn = np.asarray(pairs, float)[draws(len(pairs), resamples)].sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return interval(drawn[:, 0] / drawn[:, 1])


def share(pairs):
    """Sum of parts over sum of wholes."""
    return ratio(sum(p for p, _ in pairs), sum(w for _, w in pairs))
