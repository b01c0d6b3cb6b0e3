# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The time of a forward pass by what text decides (surface.toml): batch slots in use, positions of a request
that enter, positions that are kept, keys. From it, the time of any trace of these four numbers."""

import math


def point_of(row):
    """(requests, entering, kept, keys) of a mean forward pass outside prefill, and its seconds; None: the row
    has no such passes, or its policy puts prompts into them."""
    m = row.get("metrics", {})
    if not m.get("batch_mean") or row.get("serve", {}).get("policy") == "mixed":
        return None
    of_requests = m["nfe"] - m["prefill_forwards"]
    passes = of_requests / m["batch_mean"]
    seconds = m["wall_seconds"] * (1 - m["prefill_time_share"]) / passes
    kept = m.get("processed_rows", m["decode_rows"])
    return ((m["batch_mean"], m["decode_rows"] / of_requests, kept / of_requests,
             m["prompt_tokens_mean"] + m["output_tokens_mean"] / 2), seconds)


def distance(a, b):
    """Of two points, by the ratios of what a batch enters, keeps and sees: a step's work."""
    work = [(p[0] * p[1], p[0] * p[2], p[0] * p[3]) for p in (a, b)]
    return math.hypot(*(math.log(x / y) for x, y in zip(*work)))


def seconds_at(points, where, nearest=4):
    """Between the nearest points, weighted by their distance, in logarithms."""
    close = sorted((distance(p, where), s) for p, s in points)[:nearest]
    if close[0][0] == 0:
        return close[0][1]
    weights = [1 / d ** 2 for d, _ in close]
    return math.exp(sum(w * math.log(s) for w, (_, s) in zip(weights, close)) / sum(weights))


def table(rows, traces):
    """Lines: the points, and how far other rows, which are not on the grid, are from what the points say."""
    points = [p for p in map(point_of, rows) if p]
    if not points:
        return []
    lines = ["Of FOCUS, in means of a forward pass outside prefill. Positions and keys are of a request.", "",
             "| requests | positions that enter | kept | keys | ms |", "|---:|---:|---:|---:|---:|"]
    lines += [f"| {n:.1f} | {enter:.1f} | {kept:.1f} | {keys:.0f} | {s * 1e3:.2f} |"
              for (n, enter, kept, keys), s in points]
    for row in traces:
        here = point_of(row) if row["method"] == "focus" else None
        if here:
            guess = seconds_at(points, here[0])
            lines.append(f"\n{row['label']}, {row['batch_size']} slots, another distribution: "
                         f"{here[1] * 1e3:.2f} ms, {guess * 1e3:.2f} by the table: "
                         f"{guess / here[1] - 1:+.0%}.".replace("%", " %"))
    return lines
