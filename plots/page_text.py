# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Words and packing of the report page: headings that tell results apart, what a figure shows for
those who do not see it, and parts that are only unpacked when they are opened."""

import base64
import gzip
import re

from rows import ROOT  # noqa: F401  (puts the package on the path)
from unmask.rows.glossary import heading as heading_of
from unmask.rows.names import paper_name

# Of the families of figures that show one quantity: its metric, and what is best.
QUANTITIES = {"throughput": ("tokens_per_second", max), "throughput_batch": ("tokens_per_second", max),
              "sweep": ("tokens_per_second", max), "pareto": ("tokens_per_second", max),
              "crossover": ("tokens_per_second", max), "redundancy": ("redundancy", min)}


def artifact_name(artifact):
    return artifact.replace("_", " ").capitalize()


def identity(data):
    """(paper, artifact, scale) of a section's data; "" where unknown."""
    if not data["paper"]:
        return "", "", ""
    scale = re.search(r" \((\w+)\)$", data["heading"])
    return data["paper"], data["artifact"], scale.group(1) if scale else ""


def heading(data):
    """A section's heading: paper, artifact, title and scale, or what its file is called."""
    paper, artifact, scale = identity(data)
    if not paper:
        return data["heading"]
    name = ", ".join([paper_name(paper)] + ([artifact_name(artifact)] if artifact else []))
    title = data["title"]
    return (name if title == name else f"{name}: {title}") + (f" ({scale})" if scale else "")


def headings(sections):
    """A heading for each section's data, no two the same."""
    made = [heading(data) for data in sections]
    return [h if made.count(h) == 1 else f"{h} · {data['name']}" for h, data in zip(made, sections)]


def in_words(family, rows, name_of):
    """What a figure says, in a sentence: the best and the worst of what it compares."""
    names = list(dict.fromkeys(name_of(r) for r in rows))
    if family not in QUANTITIES:
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        return f"Shown: {shown}."
    metric, better = QUANTITIES[family]
    valued = [(r["metrics"][metric], name_of(r), r) for r in rows
              if r["metrics"].get(metric) is not None]
    if not valued:
        return ""

    def said(found):
        value, name, row = found
        return f"{name} with {value:.4g} {heading_of(metric)} on {row['workload']['family'].replace('_', ' ')}"
    best = better(valued, key=lambda v: v[0])
    worst = (min if better is max else max)(valued, key=lambda v: v[0])
    if len(names) == 1 or best[0] == worst[0]:
        return f"Best: {said(best)}."
    return f"Best: {said(best)}; worst: {said(worst)}."


def packed(text):
    """Text as the page unpacks it; the same text gives the same letters."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def unpacked(text):
    return gzip.decompress(base64.b64decode(text)).decode()
