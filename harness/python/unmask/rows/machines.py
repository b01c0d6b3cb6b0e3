# SPDX-License-Identifier: Apache-2.0
"""The machine of a row: what tells two apart in a table (the program: harness/rows/row_table.cpp)."""

import json


def _gpus(row):
    gpus = row["environment"].get("gpus")
    return gpus if isinstance(gpus, list) else []


def machine_class(row):
    """What rows of one machine agree in: processor, cores, GPUs."""
    environment = row["environment"]
    names = [gpu.get("name", gpu) if isinstance(gpu, dict) else gpu for gpu in _gpus(row)]
    return json.dumps([environment.get("cpu_model"), environment.get("cpus_usable"), names], sort_keys=True)


def machine_name(row):
    """Its GPU where the row was measured on one, else its processor and cores; "" where nothing is known."""
    environment, gpus = row["environment"], _gpus(row)
    on_card = row.get("device_facts", {}).get("is_card")
    if on_card and gpus and isinstance(gpus[0], dict) and isinstance(gpus[0].get("name"), str):
        return gpus[0]["name"]

    def text(key):
        value = environment.get(key)
        return "" if value is None else value if isinstance(value, str) else json.dumps(value)
    cores = text("cpus_usable")
    return text("cpu_model") + (f", {cores} cores" if cores else "")


def several(rows):
    """Whether rows are of more than one machine."""
    return len({machine_class(row) for row in rows}) > 1
