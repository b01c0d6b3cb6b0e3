# SPDX-License-Identifier: Apache-2.0
"""The benchmarks that can be asked, the files they are made of and where those are published:
benchmarks.json, which the program reads too."""

import difflib
import functools
import json
import os

from unmask.rows.errors import UserError

FOLDER = os.path.dirname(os.path.abspath(__file__))
FORMS = ("raw", "bos", "one-turn", "chat")


@functools.lru_cache(maxsize=None)
def register():
    with open(os.path.join(FOLDER, "benchmarks.json"), encoding="utf-8") as file:
        return json.load(file)


def names():
    return list(dict.fromkeys(b["name"] for b in register()["benchmarks"]))


def find(name, harness=""):
    """The benchmark of this name: the first, the first of a harness id, or that of "ID/CONFIG"."""
    harness_id, _, config = harness.partition("/")
    known = register()["harnesses"]
    if harness_id and harness_id not in known:
        raise UserError(f"there is no harness '{harness_id}'; they are {', '.join(known)}")
    others = []
    for entry in register()["benchmarks"]:
        if entry["name"] != name:
            continue
        if harness_id in ("", entry["harness"]) and config in ("", entry["config"]):
            return entry
        others.append(f"{entry['harness']}/{entry['config']}")
    if others:
        raise UserError(f"the benchmark {name} has no harness '{harness}'; it has "
                        f"{', '.join(others)}")
    near = difflib.get_close_matches(name, names(), 3)
    raise UserError(f"there is no benchmark '{name}'"
                    + (f"; did you mean {' or '.join(near)}?" if near else ""))


def dataset_of(entry):
    return register()["datasets"][entry["dataset"]]


def tasks_of(entry, task=""):
    """The chosen task, or all of a benchmark that has several; [""] where it has none."""
    there = dataset_of(entry).get("tasks", [])
    if task and task not in there:
        raise UserError(f"the benchmark {entry['name']} has no task '{task}'"
                        + (f"; it has {', '.join(there[:60])}" if there else ""))
    return [task] if task else there or [""]


def examples(name):
    """The worked examples that a harness writes out before its questions."""
    with open(os.path.join(FOLDER, "fewshot", name + ".json"), encoding="utf-8") as file:
        return json.load(file)["examples"]
