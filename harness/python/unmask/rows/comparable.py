# SPDX-License-Identifier: Apache-2.0
"""Whether times of two rows may be held against each other: one program on one machine.

Resume, ratios in tables and on the page, claims and merge ask here. The program asks the same of rows in
harness/rows/comparable.cpp."""

import json

# What may differ between rows of one machine: how busy and warm it was, and where its profilers are.
CHANGING = {"load_average", "memory_available_bytes", "notes", "other_work", "unfit"}
GPU_CHANGING = {"sm_clock_mhz", "memory_clock_mhz", "temperature_c", "throttle_reasons"}
TOOLS = {"nsys", "ncu", "gpu_counters_restricted"}
# What another program's recorder knows of a machine.
OF_ANY_PROGRAM = ("cpu_model", "gpus")


def _lasting(value):
    """A value of an environment without what changes while it is the same machine."""
    if isinstance(value, list):
        return [_lasting(v) for v in value]
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if k not in GPU_CHANGING}
    return value


def machine_of(environment):
    """An environment without what changes while it stays the same machine."""
    return {key: _lasting(value) for key, value in environment.items() if key not in CHANGING}


def difference(a, b):
    """Says what differs between two environments, key by key; "" if nothing does."""
    if a is b or a == b:
        return ""
    parts = []
    for key in sorted((set(a) | set(b)) - CHANGING):
        x, y = _lasting(a.get(key)), _lasting(b.get(key))
        if x != y:
            parts.append(f"{key}: {json.dumps(x)} and {json.dumps(y)}")
    return "; ".join(parts)


def _named(gpu):
    return gpu.get("name", "") if isinstance(gpu, dict) else gpu


def _of_other_programs(a, b):
    """What differs between the machines of rows that two programs wrote on purpose."""
    parts = []
    for key in OF_ANY_PROGRAM:
        x, y = a.get(key), b.get(key)
        if key == "gpus":
            x, y = ([_named(g) for g in v] if isinstance(v, list) else v for v in (x, y))
        if x and y and x != y:
            parts.append(key)
    return parts


def notes_of(differences):
    """The footnotes of a table of ratios of times, of what comparable() says of their two sides: one for
    each way in which they are not of one program and machine."""
    return [f"A ratio of speeds without interval: its rows are not of one program and machine, {apart} differ."
            for apart in dict.fromkeys(filter(None, differences))]


def comparable(a, b):
    """Names what keeps the times of two rows apart, as "cpu_model, source_hash"; "" if they are of one
    program and one machine. A row of another program (unmask.record) is there to be compared with: only
    its machine counts."""
    x, y = a["environment"], b["environment"]
    if a.get("measured_by") != b.get("measured_by"):
        return ", ".join(_of_other_programs(x, y))
    parts = []
    if x is not y and x != y:
        keys = sorted((set(x) | set(y)) - CHANGING - TOOLS - {"build"})
        # A key that a row lacks is younger than the row.
        parts = [key for key in keys if key in x and key in y and _lasting(x[key]) != _lasting(y[key])]
    if a["source_hash"] != b["source_hash"]:
        parts.append("source_hash")
    elif x.get("build") != y.get("build"):
        parts.append("build")
    if a.get("topology") and b.get("topology") and a["topology"] != b["topology"]:
        parts.append("topology")  # of several ranks; a row of one has none
    return ", ".join(parts)
