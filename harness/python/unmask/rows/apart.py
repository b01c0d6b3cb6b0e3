# SPDX-License-Identifier: Apache-2.0
"""What keeps rows apart: no mark, line, cell or mean takes rows together that differ in model, machine,
task set, seed, kind of score or program, unless its name says so."""

from unmask.rows.rows import RUN_KEYS, grouped, is_card, setting, variation

HASH_SHOWN = 8  # hex digits of a program's source


def machine_of(row):
    gpus, cpu = row["environment"].get("gpus"), row["environment"].get("cpu_model")
    if is_card(row) and isinstance(gpus, list) and gpus:
        return str(gpus[0].get("name", "GPU")) if isinstance(gpus[0], dict) else str(gpus[0])
    return cpu if isinstance(cpu, str) else "machine unknown"


def program_of(row):
    return str(row.get("source_hash", ""))[:HASH_SHOWN]


def is_likelihood(row):
    """Whether the score is the likelihood of judged text, which is in no mean with right answers."""
    return bool(row["workload"].get("judge"))


def differing(rows, name_of):
    """name_of, with the machine where rows are of several, and with the program and the seed where rows of one
    name differ in them."""
    kinds = [(key, value) for key, value in (("machine", machine_of), ("program", program_of),
                                             ("seed", lambda row: row["seed"]))
             if len(set(map(value, rows))) > 1]
    if not kinds:
        return name_of
    names = {id(row): name_of(row) for row in rows}
    for key, value in kinds:
        found = {}
        for row in rows:
            found.setdefault(names[id(row)], set()).add(value(row))
        for row in rows:
            name = names[id(row)]
            if f"{key}=" not in name and (key == "machine" or len(found[name]) > 1):
                names[id(row)] = f"{name} {key}={value(row)}".strip()
    return lambda row: names[id(row)]


def told_apart(rows, name_of, place_of):
    """A function that names a row: name_of(row), and with what it was measured if two rows would stand at
    one place (panel, value of the axis) under one name. Rows that nothing tells apart are numbered."""
    names = {id(r): name_of(r) for r in rows}
    places = {id(r): place_of(r) for r in rows}

    def together():
        return [group for group in grouped(rows, lambda r: (places[id(r)], names[id(r)])) if len(group) > 1]

    swept = dict.fromkeys(key for r in rows for key, _ in variation(r))
    keys = [*(k for k in swept if k not in RUN_KEYS), "label", "method", "preset", "model", "workload", "kind",
            *RUN_KEYS, *(f"{of}.{key}" for of in ("serve", "params")
                         for key in dict.fromkeys(key for r in rows for key in r.get(of) or ()))]
    values = {key: lambda r, key=key: dict(variation(r)).get(key) or setting(r, key) for key in keys}
    values |= {"items": lambda r: r["workload"]["items"], "format": lambda r: r["model"]["format"],
               "machine": machine_of, "program": program_of}
    if "params.code" in values:  # of a rule in Python
        values["params.code"] = lambda r: str(setting(r, "params.code") or "")[:HASH_SHOWN]
    for key, value in values.items():
        clashing = {names[id(group[0])] for group in together() if len(set(map(value, group))) > 1}
        for row in rows:
            if names[id(row)] in clashing:
                names[id(row)] += f" {key.rsplit('.', 1)[-1]}={value(row)}"
    for group in together():
        for place, row in enumerate(group[1:], 2):
            names[id(row)] += f" ({place})"
    return lambda row: names[id(row)]


def _having(rows, series_of):
    """{task: the series that were measured on it}."""
    found = {}
    for row in rows:
        found.setdefault(row["workload"]["family"], set()).add(series_of(row))
    return found


def tasks_text(tasks):
    """Some tasks in few words: by name, or how many and the first."""
    words = [task.replace("_", " ") for task in tasks]
    return ", ".join(words) if len(words) <= 3 else f"{len(words)} tasks from {words[0]} on"


def tasks_told(rows, name_of):
    """name_of, with the tasks in the names of a model whose series were not all measured on the same ones: only
    over the same tasks can series be taken together and compared."""
    told = {}
    for of_model in grouped(rows, lambda r: r["model"]["name"]):
        having = _having(of_model, name_of)
        groups = grouped(having, lambda task, having=having: frozenset(having[task]))
        if len(groups) > 1:
            told |= {(of_model[0]["model"]["name"], task): tasks_text(tasks) for tasks in groups for task in tasks}

    def name(row):
        tasks = told.get((row["model"]["name"], row["workload"]["family"]))
        return f"{name_of(row)} · {tasks}" if tasks else name_of(row)
    return name


def task_groups(rows, series_of):
    """Rows in groups that may be means together: of one model, one kind of score, and tasks that the same
    series were measured on. [(tasks, how many tasks of that model and kind there are, rows)]."""
    found = []
    for of_kind in grouped(rows, lambda r: (r["model"]["name"], is_likelihood(r))):
        having = _having(of_kind, series_of)
        for group in grouped(of_kind, lambda r, having=having: frozenset(having[r["workload"]["family"]])):
            tasks = list(dict.fromkeys(r["workload"]["family"] for r in group))
            found.append((tasks, len(having), group))
    return found
