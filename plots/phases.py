# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The probe "phases" of profiled rows (`unmask profile`; results/README.md), summed by method."""

import common
from common import NotDrawn


def seconds_of(phase):
    """Device time where kernels were traced, else the CPU's own time of the phase."""
    on_device = phase.get("device_seconds")
    return phase["own_seconds"] if on_device is None else on_device


def profiled(rows, what):
    kept = [r for r in rows if (r.get("probes") or {}).get("phases")]
    if not kept:
        raise NotDrawn(f"{what} needs rows of `unmask profile`; these have no phases")
    return kept


class Total:
    """A phase of one method over all its rows."""

    def __init__(self):
        self.seconds = self.flops = self.bytes = 0.0
        self.bytes_known = True
        self.analytic = False

    def add(self, phase):
        self.seconds += seconds_of(phase)
        self.flops += phase["flops"]
        self.bytes_known = self.bytes_known and phase["bytes"] is not None
        self.bytes += phase["bytes"] or 0.0
        self.analytic = self.analytic or phase["provenance"] == "analytic"


def totals(rows, every=None):
    """{series: {phase: Total}} and {series: batched forwards}, in the order of the rows. The time of
    containers themselves is the phase "between phases"."""
    found, forwards = {}, {}
    for row in rows:
        name = common.series_label(row, every or rows)
        of_series = found.setdefault(name, {})
        forwards[name] = forwards.get(name, 0) + row["metrics"]["batched_forwards"]
        for phase in row["probes"]["phases"]["phases"]:
            key = "between phases" if phase["container"] else phase["phase"]
            of_series.setdefault(key, Total()).add(phase)
    return found, forwards
