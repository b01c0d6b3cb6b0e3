# SPDX-License-Identifier: Apache-2.0
"""What the figures draw of rows (plots/ draws it and computes nothing): names of series, methods pooled
over tasks and their front, sweeps along a setting, curves of score against tokens a forward, crossover, phases."""

import math
import re

from unmask.rows import apart, estimates, intervals
from unmask.rows.rows import (RUN_KEYS, as_number, grouped, is_reportable, is_synthetic, row_name, setting,
                              variation)
from unmask.rows.scores import score_with_undecided
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
    """A function that names a row, with batch size, device, model, machine, program and seed where they
    differ between these rows, and with what else tells two rows of one task apart."""
    def vary(key):
        return len({key(row) for row in rows}) > 1
    batches, devices = vary(lambda r: r["batch_size"]), vary(lambda r: r["device"])
    models = vary(lambda r: r["model"]["name"])

    def name(row):
        text = shown_name(row)
        if batches and "batch_size=" not in text:
            text += f" batch {row['batch_size']}"
        return text + (f" on {row['device']}" if devices else "")
    differing = apart.differing(rows, name)
    return apart.told_apart(rows, lambda row: f"{differing(row)} · {row['model']['name']}" if models else
                            differing(row), lambda row: row["workload"]["family"])


def _settings(rows):
    """Series names without the model, for what is of one model."""
    series = series_names(rows)
    return lambda row: series(row).removesuffix(f" · {row['model']['name']}")


SHORT_VALUE = 16  # letters of a swept value that a name may hold


def _parts(row):
    """What a sweep changed, without what says how much was measured; a value may hold blanks."""
    parts = []
    for key, value in variation(row):
        if parts and not value and not key[:1].isalpha():
            parts[-1] = (parts[-1][0], f"{parts[-1][1]} {key}")
        elif key.rsplit(".", 1)[-1] not in EVIDENCE_KEYS:
            parts.append((key, value))
    return parts


def _short_values(rows):
    """{(key, long value): as few of its first letters as tell it from the key's other values}."""
    values, short = {}, {}
    for row in rows:
        for key, value in _parts(row):
            values.setdefault(key, {})[value] = None
    for key, found in values.items():
        if max(map(len, found)) <= SHORT_VALUE:
            continue
        known = [n for n in range(4, SHORT_VALUE) if len({v[:n] for v in found}) == len(found)]
        if known:
            short |= {(key, v): v if len(v) <= known[0] else v[:known[0]] + "…" for v in found}
    return short


def _shown_score(score):
    """The score of a row as every table has it: what nobody could judge is among its items."""
    if not score or not score.get("undecided"):
        return score
    shown = score_with_undecided(score)
    return {**score, "mean": shown.mean, "ci95": [shown.low, shown.high], "n": shown.n}


def _row_data(row, series, short):
    half = row["samples"].get("half_width")
    speed = _metric(row, "tokens_per_second")
    return {**row, "name": shown_name(row), "series": series, "score": _shown_score(row["score"]),
            "parts": [(key, short.get((key, value), value)) for key, value in _parts(row)],
            "machine": apart.machine_of(row), "reportable": is_reportable(row),
            "half_width": None if half is None or math.isnan(speed) else half * speed}


def pool(rows):
    """Rows of one method taken together: tokens over seconds, the mean score of all items. An undecided answer is
    wrong in the mean and the lower end of its interval, and right in the upper end."""
    tokens = sum(_metric(r, "output_tokens") for r in rows)
    walls = [(_metric(r, "wall_seconds"), r["samples"].get("half_width")) for r in rows]
    seconds = sum(wall for wall, _ in walls)
    spread = sum((wall * half) ** 2 for wall, half in walls if half is not None and
                 math.isfinite(wall * half))
    speed = tokens / seconds if seconds else math.nan
    scored = [s for s in (score_with_undecided(r["score"]) for r in rows if r["score"]) if s.n > 0]
    right, n = sum(s.mean * s.n for s in scored), sum(s.n for s in scored)
    low, high = intervals.wilson(right, n)[0], intervals.wilson(right + sum(s.undecided for s in scored), n)[1]
    score = right / n if n else math.nan
    if n:  # rounding must not put the share itself outside
        low, high = min(score, low), max(score, high)
    origins = [estimates.value(r, "tokens_per_second") for r in rows]
    return {"tokens_per_second": speed,
            "half_width": speed * math.sqrt(spread) / seconds if seconds else math.nan,
            "kv_bytes": max([r["metrics"].get("peak_kv_bytes") or 0 for r in rows], default=0),
            "score": score, "interval": [low, high], "n": n,
            "hollow": any(o and o[1] in ("analytic", "synthetic") for o in origins)}


def _front(rows, series, tasks, of):
    """Methods of one model pooled, those marked that no other beats at both speed and score."""
    groups = grouped(rows, series)
    pools = [pool(group) for group in groups]
    out = []
    for group, p in zip(groups, pools):
        beaten = any(q["tokens_per_second"] >= p["tokens_per_second"] and q["score"] >= p["score"] and
                     (q["tokens_per_second"], q["score"]) != (p["tokens_per_second"], p["score"])
                     for q in pools)
        out.append({"series": series(group[0]), "model": group[0]["model"]["name"], "tasks": tasks, "of": of,
                    "likelihood": apart.is_likelihood(group[0]),
                    **{k: p[k] for k in ("tokens_per_second", "score", "interval", "n")},
                    "rows": [r["mark"] for r in group],
                    "front": not beaten})
    return out


def _scored(rows):
    return [r for r in rows if r["score"] and score_with_undecided(r["score"]).n > 0 and not is_synthetic(r) and
            _has(r, "tokens_per_second")]


def _pooled(rows):
    """Fronts of methods over the tasks that the same methods were measured on, of each model and each kind
    of score."""
    rows = _scored(rows)
    series = _settings(rows)
    return [mark for tasks, of, group in apart.task_groups(rows, series)
            for mark in _front(group, series, tasks, of)]


def _by_task(rows):
    """Fronts of each task of each model."""
    rows = _scored(rows)
    series = _settings(rows)
    return [mark for task in grouped(rows, lambda r: (r["workload"]["family"], r["model"]["name"]))
            for mark in _front(task, series, [task[0]["workload"]["family"]], 1)]


def _names_length(family):
    """Whether a workload is named by its length: "0.5K", "32K"."""
    return family.endswith("K") and as_number(family[:-1]) is not None


# A label that holds a setting: "Top, K = 2, one per step", "Focus-dLLM (alpha = 0.3)".
NUMBER_IN_LABEL = re.compile(r",? \(?([A-Za-z_]+) = (\d+(?:\.\d+)?)( %)?\)?")


def _sweep_label(row):
    """The label without the number in it, and that number by its name."""
    found = NUMBER_IN_LABEL.search(row["label"])
    if not found:
        return row["label"], {}
    name = found.group(1) + (", %" if found.group(3) else "")
    return row["label"][:found.start()] + row["label"][found.end():], {name: float(found.group(2))}


def _sweep_place(row):
    """Numbers of a row that may be an axis, and the text of everything else."""
    numbers, rest = _sweep_label(row)[1], []
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


def _lines_along(rows, axis):
    """Lines along one number, with everything else equal; no point of a line holds two rows of one task."""
    keys, xs = {}, {}
    for row in rows:
        numbers, rest = _sweep_place(row)
        if axis in numbers:
            xs[row["mark"]] = numbers.pop(axis)
            keys[row["mark"]] = (_sweep_label(row)[0] if axis in _sweep_label(row)[1] else row["label"],
                                 rest, tuple(sorted(numbers.items())), row["batch_size"])
    rows, lines = [row for row in rows if row["mark"] in keys], {}
    name = apart.told_apart(rows, apart.differing(rows, lambda row: str(keys[row["mark"]])),
                            lambda row: (xs[row["mark"]], row["workload"]["family"]))
    for row in rows:
        label, rest, others, batch = keys[row["mark"]]
        more = name(row)[len(str(keys[row["mark"]])):]
        lines.setdefault((label, f"{rest}{more}".strip(), others, batch), {}).setdefault(
            xs[row["mark"]], []).append(row)
    return lines


def _line_name(key, every):
    """Label and rest; of the other numbers those alone that tell lines apart."""
    label, rest, others, batch = key
    parts = [label, rest]
    for name, value in others:
        told = f"{name} = {value:g}" in label or f"{name.removesuffix(', %')} = {value:g}" in label
        if not told and any(dict(other[2]).get(name) != value for other in every):
            parts.append(f"{name}={value:g}")
    if any(other[3] != batch for other in every) and "batch_size=" not in rest:
        parts.append(f"batch {batch}")
    return " ".join(part for part in parts if part)


def _task_of(row):
    """The task of a row, "" where its length is the axis."""
    family = row["workload"]["family"]
    return "" if _names_length(family) else family


def _sweep_point(x, group):
    p = pool(group)
    return {"x": x, "tokens_per_second": p["tokens_per_second"], "half_width": p["half_width"],
            "kv_mib": p["kv_bytes"] / 2 ** 20, "score": p["score"],
            "interval": p["interval"] if p["n"] else None, "hollow": p["hollow"],
            "rows": [r["mark"] for r in group]}


def _panels_along(axis, lines):
    """The lines of an axis in panels: every point of a panel is a mean over the same tasks and of one kind
    of score."""
    places, kinds, order, model = {}, {}, [], None
    for key, points in lines.items():
        for x, group in points.items():
            for row in group:
                task, model = (_task_of(row), apart.is_likelihood(row)), row["model"]["name"]
                order.append(task)
                places.setdefault(task, set()).add((key, x))
    for task in dict.fromkeys(order):
        kinds.setdefault((task[1], frozenset(places[task])), []).append(task)
    of = len(places)
    for (likelihood, _), tasks in kinds.items():
        drawn = []
        for key, points in lines.items():
            shown = [(x, [r for r in group if (_task_of(r), apart.is_likelihood(r)) in tasks])
                     for x, group in sorted(points.items())]
            shown = [_sweep_point(x, group) for x, group in shown if group]
            if shown:
                drawn.append({"name": _line_name(key, lines), "points": shown})
        yield {"axis": axis, "model": model, "tasks": [task for task, _ in tasks if task], "of": of, "likelihood": likelihood,
               "lines": drawn}


def _sweeps(rows):
    """The panels of every number that takes three or more values, of one model after the other."""
    rows = [r for r in rows if _has(r, "tokens_per_second") and
            (setting(r, "serve.arrivals") or "closed") == "closed"]
    found = [sweep for of_model in grouped(rows, lambda r: r["model"]["name"]) for sweep in _sweeps_of(of_model)]
    return sorted(found, key=lambda sweep: list(dict.fromkeys(s["axis"] for s in found)).index(sweep["axis"]))


def _sweeps_of(rows):
    along = {axis: _lines_along(rows, axis)
             for axis in dict.fromkeys(key for row in rows for key in sorted(_sweep_place(row)[0]))}
    swept = {r["mark"] for lines in along.values() for points in lines.values()
             if len(points) >= 3 for group in points.values() for r in group}
    out = []
    for axis, every in along.items():
        if not any(len(points) >= 3 for points in every.values()):
            continue
        # Three values make a line; fewer stand beside one where no other line has their rows.
        lines = {key: points for key, points in every.items() if len(points) >= 3 or not any(
            r["mark"] in swept for group in points.values() for r in group)}
        out += _panels_along(axis, lines)
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
    series = apart.tasks_told(rows, series)
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
                    "rows": [r["mark"] for r in group],
                    "forwards": sum(r["metrics"].get("batched_forwards") or 0 for r in group)})
    return out


def _crossover(rows):
    """The cells with the marks of their rows and `apart`: what tells a cell from others of the same model,
    task, batch size and length ("device=cuda", ""). Methods of two machines or programs do not compete."""
    differing = apart.differing(rows, lambda row: "")
    cells = [cell for group in grouped(rows, lambda r: (apart.machine_of(r), apart.program_of(r)))
             for cell in crossover_cells(group)]
    told = cells_json(cells)

    def place(cell):
        return tuple(cell[key] for key in ("model", "workload", "gen_length", "batch_size"))
    for cell, into in zip(cells, told):
        first = [c["rows"][0] for c in cells if place(c) == place(cell)]
        keys = [k for k in ("kind", *RUN_KEYS) if k != "seed" and len({setting(r, k) for r in first}) > 1]
        words = [f"{key}={setting(cell['rows'][0], key)}" for key in keys]
        into["apart"] = ", ".join([*words, differing(cell["rows"][0])]).strip(", ")
        into["rows"] = [r["mark"] for r in cell["rows"]]
    return told


def figure_data(rows):
    """What figures of the latest rows show. Numbers that are not known are None. `mark`: the number of a
    row among these, by which marks name their rows."""
    rows = [{**row, "mark": number} for number, row in enumerate(rows)]
    shown = [row for row in rows if is_reportable(row)]
    series = series_names(shown)
    decodes = any(setting(row, "kind") != "serve" for row in shown)
    names = {row["mark"]: series(row) for row in shown}
    short = _short_values(rows)
    return {"rows": [_row_data(row, names.get(row["mark"], shown_name(row)), short) for row in rows],
            "pooled": finite(_pooled(shown)), "by_task": finite(_by_task(shown)),
            "sweeps": finite(_sweeps(shown)), "parallelism": parallelism.curves(shown),
            "crossover": finite(_crossover(shown)) if decodes else [],
            "phases": finite(_phases(shown))}
