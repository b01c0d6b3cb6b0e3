# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The phases of profiled rows (`unmask profile`; results/README.md), as the program sums them up."""

from common import NotDrawn


def profiled(rows, what):
    kept = [r for r in rows if (r.get("probes") or {}).get("phases")]
    if not kept:
        raise NotDrawn(f"{what} needs rows of `unmask profile`; these have no phases")
    return kept
