# SPDX-License-Identifier: Apache-2.0
"""What the figures draw of rows (plots/ draws it and computes nothing): names of series, methods pooled
over tasks and their front, sweeps along a setting, curves of score against tokens a forward, crossover, phases."""

import math

from unmask.rows import estimates, intervals
from unmask.rows.rows import (RUN_KEYS, as_number, grouped, is_card, is_reportable, is_synthetic, row_name, setting,
                              variation)
from unmask.tables import parallelism
from unmask.tables.crossover import cells_json, crossover_cells
from unmask.tables.tables import finite

# Keys of a sweep that say how much was measured, not what: they never name a series.
EVIDENCE_KEYS = frozenset(("limit", "repetitions", "more_items", "more_repetitions"))


def _metric(row, name):
    found = row["metrics"].get(name)
    return math.nan if found is None else float(found)


def _has(row, name):
    return row["metrics"].get(name) is not None


def shown_name(row):
    """Label and sweep, and whether the tokens mean anything."""
    return (row_name(row, EVIDENCE_KEYS) + (" (synthetic)" if is_synthetic(row) else "") +
            (" (commits imposed)" if row["impose"] != "none" else ""))


def series_names(rows):
    """A function that names a row, with batch size, device and model where they differ between these
    rows."""
    def vary(key):
        return len({key(row) for row in rows}) > 1
    batches, devices = vary(lambda r: r["batch_size"]), vary(lambda r: r["device"])
    models = vary(lambda r: r["model"]["name"])

    def name(row):
        text = shown_name(row)
        if batches and "batch_size=" not in text:
            text += f" batch {row['batch_size']}"
        text += f" on {row['device']}" if devices else ""
        return f"{text} · {row['model']['name']}" if models else text
    return name


def machine_of(row):
    gpus, cpu = row["environment"].get("gpus"), row["environment"].get("cpu_model")
    if is_card(row) and isinstance(gpus, list) and gpus:
        return str(gpus[0].get("name", "GPU")) if isinstance(gpus[0], dict) else str(gpus[0])
    return cpu if isinstance(cpu, str) else "machine unknown"


def _row_data(row, series):
    half = row["samples"].get("half_width")
    speed = _metric(row, "tokens_per_second")
    return {**row, "name": shown_name(row), "series": series,
            "parts": [part for part in variation(row)
                      if part[0].rsplit(".", 1)[-1] not in EVIDENCE_KEYS],
            "machine": machine_of(row), "reportable": is_reportable(row),
            "half_width": None if half is None or math.isnan(speed) else half * speed}


def pool(rows):
    """Rows of one method taken together: tokens over seconds, the mean score of all items."""
    tokens = sum(_metric(r, "output_tokens") for r in rows)
    walls = [(_metric(r, "wall_seconds"), r["samples"].get("half_width")) for r in rows]
    seconds = sum(wall for wall, _ in walls)
    spread = sum((wall * half) ** 2 for wall, half in walls if half is not None and
                 math.isfinite(wall * half))
    speed = tokens / seconds if seconds else math.nan
    scored = [r["score"] for r in rows if r["score"] and r["score"]["n"] > 0]
    right, n = sum(s["mean"] * s["n"] for s in scored), sum(s["n"] for s in scored)
    low, high = intervals.wilson(right, n)
    score = right / n if n else math.nan
    if n:  # rounding must not put the share itself outside
        low, high = min(score, low), max(score, high)
    origins = [estimates.value(r, "tokens_per_second") for r in rows]
    return {"tokens_per_second": speed,
            "half_width": speed * math.sqrt(spread) / seconds if seconds else math.nan,
            "kv_bytes": max([r["metrics"].get("peak_kv_bytes") or 0 for r in rows], default=0),
            "score": score, "interval": [low, high], "n": n,
            "hollow": any(o and o[1] in ("analytic", "synthetic") for o in origins)}


def _front(rows, workload, series):
    """Methods pooled, those marked that no other of their model beats at both speed and score."""
    groups = grouped(rows, series)
    pools = [(group[0]["model"]["name"], pool(group)) for group in groups]
    out = []
    for group, (model, p) in zip(groups, pools):
        beaten = any(other == model and q["tokens_per_second"] >= p["tokens_per_second"] and
                     q["score"] >= p["score"] and
                     (q["tokens_per_second"], q["score"]) != (p["tokens_per_second"], p["score"])
                     for other, q in pools)
        out.append({"series": series(group[0]), "model": model, "workload": workload,
                    **{k: p[k] for k in ("tokens_per_second", "score", "interval", "n")},
                    "rows": [r["point_id"] for r in group],
                    "front": not beaten})
    return out


def _pooled(rows):
    rows = [r for r in rows if r["score"] and r["score"]["n"] > 0 and not is_synthetic(r) and
            _has(r, "tokens_per_second")]
    series = series_names(rows)
    out = _front(rows, None, series)
    for task in grouped(rows, lambda r: r["workload"]["family"]):
        out += _front(task, task[0]["workload"]["family"], series)
    return out


def _names_length(family):
    """Whether a workload is named by its length: "0.5K", "32K"."""
    return family.endswith("K") and as_number(family[:-1]) is not None


def _sweep_place(row):
    """Numbers of a row that may be an axis, and the text of everything else."""
    numbers, rest = {}, []
    for key, value in variation(row):
        number, last = as_number(value), key.rsplit(".", 1)[-1]
        if last in EVIDENCE_KEYS:
            continue
        if number is not None and math.isfinite(number) and last not in ("batch_size", "rate"):
            numbers[key] = number
        else:
            rest.append(f"{key}={value}" if value else key)
    if _names_length(row["workload"]["family"]) and row["workload"]["items"] > 0:
        numbers["tokens of the prompt"] = _metric(row, "prompt_tokens") / row["workload"]["items"]
    return numbers, " ".join(rest)


def _lines_along(rows, axis, models):
    """Lines along one number, with everything else equal."""
    lines = {}
    for row in rows:
        numbers, rest = _sweep_place(row)
        if axis not in numbers:
            continue
        x = numbers.pop(axis)
        key = (row["label"], rest, row["model"]["name"] if models else "",
               tuple(sorted(numbers.items())), row["batch_size"])
        lines.setdefault(key, {}).setdefault(x, []).append(row)
    return lines


def _line_name(key, every):
    """Label and rest; of the other numbers those alone that tell lines apart."""
    label, rest, model, others, batch = key
    parts = [label, rest]
    for name, value in others:
        if any(dict(other[3]).get(name) != value for other in every):
            parts.append(f"{name}={value:g}")
    parts.append(model)
    if any(other[4] != batch for other in every) and "batch_size=" not in rest:
        parts.append(f"batch {batch}")
    return " ".join(part for part in parts if part)


def _sweeps(rows):
    rows = [r for r in rows if _has(r, "tokens_per_second") and
            (setting(r, "serve.arrivals") or "closed") == "closed"]
    models = len({r["model"]["name"] for r in rows}) > 1
    along = {axis: _lines_along(rows, axis, models)
             for axis in dict.fromkeys(key for row in rows for key in sorted(_sweep_place(row)[0]))}
    swept = {r["point_id"] for lines in along.values() for points in lines.values()
             if len(points) >= 3 for group in points.values() for r in group}
    out = []
    for axis, every in along.items():
        if not any(len(points) >= 3 for points in every.values()):
            continue
        # Three values make a line; fewer stand beside one where no other line has their rows.
        lines = {key: points for key, points in every.items() if len(points) >= 3 or not any(
            r["point_id"] in swept for group in points.values() for r in group)}
        drawn = []
        for key, points in lines.items():
            shown = []
            for x, group in sorted(points.items()):
                p = pool(group)
                shown.append({"x": x, "tokens_per_second": p["tokens_per_second"],
                              "half_width": p["half_width"], "kv_mib": p["kv_bytes"] / 2 ** 20,
                              "score": p["score"], "interval": p["interval"] if p["n"] else None,
                              "hollow": p["hollow"], "rows": [r["point_id"] for r in group]})
            drawn.append({"name": _line_name(key, lines), "points": shown})
        out.append({"axis": axis, "lines": drawn})
    return out


def _phases(rows):
    """Device time where kernels were traced, else the CPU's own time; the time of containers themselves
    is the phase "between phases"."""
    rows = [r for r in rows if isinstance(r["probes"].get("phases"), dict)]
    named, out = series_names(rows), []

    def roofs(row):
        source = (row["probes"]["phases"].get("roofs") or {}).get("source", "")
        return f"{row['model'].get('format', '')}, roofs: {source}"
    several = len({roofs(row) for row in rows}) > 1  # the device is in the name

    def series(row):
        return f"{named(row)}, {roofs(row)}" if several else named(row)
    for group in grouped(rows, series):
        parts = {}
        for phase in (p for row in group for p in row["probes"]["phases"].get("phases", [])):
            name = "between phases" if phase["container"] else phase["phase"]
            total = parts.setdefault(name, {"phase": name, "seconds": 0.0, "flops": 0.0, "bytes": 0.0,
                                            "analytic": False})
            device = phase.get("device_seconds")
            total["seconds"] += phase["own_seconds"] if device is None else device
            total["flops"] += phase["flops"] or 0.0
            known = phase["bytes"] is not None and total["bytes"] is not None
            total["bytes"] = total["bytes"] + phase["bytes"] if known else None
            total["analytic"] |= phase["provenance"] == "analytic"
        out.append({"series": series(group[0]), "phases": list(parts.values()),
                    "rows": [r["point_id"] for r in group],
                    "forwards": sum(r["metrics"].get("batched_forwards") or 0 for r in group)})
    return out


def _crossover(rows):
    """The cells with the ids of their rows and `apart`: what tells a cell from others of the same model,
    task, batch size and length ("device=cuda", "")."""
    cells = crossover_cells(rows)
    told = cells_json(cells)

    def place(cell):
        return tuple(cell[key] for key in ("model", "workload", "gen_length", "batch_size"))
    for cell, into in zip(cells, told):
        first = [c["rows"][0] for c in cells if place(c) == place(cell)]
        keys = [k for k in ("kind", *RUN_KEYS) if len({setting(r, k) for r in first}) > 1]
        into["apart"] = ", ".join(f"{key}={setting(cell['rows'][0], key)}" for key in keys)
        into["rows"] = [r["point_id"] for r in cell["rows"]]
    return told


def figure_data(rows):
    """What figures of the latest rows show. Numbers that are not known are None."""
    shown = [row for row in rows if is_reportable(row)]
    series = series_names(shown)
    decodes = any(setting(row, "kind") != "serve" for row in shown)
    return {"rows": [_row_data(row, series(row)) for row in rows],
            "pooled": finite(_pooled(shown)), "sweeps": finite(_sweeps(shown)),
            "parallelism": parallelism.curves(shown),
            "crossover": finite(_crossover(rows)) if decodes else [],
            "phases": finite(_phases(shown))}
