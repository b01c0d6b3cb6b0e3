# SPDX-License-Identifier: Apache-2.0
"""Experiment files as analyses need them: which artifact a file is, its scales, what they need, and
its [layout]. The program alone reads what is measured."""

import functools
import importlib.resources
import json
import os
import tomllib

from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.extends import extended
from unmask.rows.files import opened
from unmask.rows.names import find_known
from unmask.rows.shapes import TEXT, fit

# What a scale says of itself; everything else it lays over the shared part of its file.
SCALE_KEYS = ("takes", "note", "not_run", "needs", "labels", "set")
# What analyses rely on; a scale may lay anything over it.
TABLE = {"artifact?": {"paper?": TEXT, "id?": TEXT, "title?": TEXT, "published?": TEXT},
         "scale?": {"*": {"needs?": [TEXT], "not_run?": TEXT}}, "run?": {}, "model?": [{}],
         "workload?": (dict, list), "layout?": {}}


def program_root():
    """The tree or installation that this package is part of, or the folder of its wheel with what the program
    needs; where it is installed by itself, none: what a command needs must then be named. The current folder is
    never searched."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for root in (os.path.join(package, "tree"), os.path.abspath(os.path.join(package, "../../.."))):
        if os.path.isdir(os.path.join(root, "experiments")):
            return root
    return ""


def shown_path(path):
    """A path as a user would type it: relative where it lies below the current folder."""
    near = os.path.relpath(path)
    return path if near.startswith(os.pardir) else near


def experiments_folder(given):
    """The folder of experiments: the one given, else that of the program."""
    return given or (shown_path(os.path.join(program_root(), "experiments")) if program_root() else "")


@functools.lru_cache(maxsize=None)
def read_toml(path, what="experiment"):
    """Reads a TOML file; UserError that names it where it cannot be read."""
    try:
        with opened(path) as file:
            return tomllib.load(file)
    except (OSError, EnvironmentFault):
        raise UserError(f"cannot read the {what} {path}") from None
    except (ValueError, RecursionError) as problem:  # no TOML, no UTF-8, a number of 5000 digits
        raise UserError(f"{path}: {problem}") from None


def read_experiment(path):
    """Reads an experiment file with what it extends; UserError that names file and key where a value is of another
    type."""
    root = os.path.join(program_root(), "experiments") if program_root() else ""
    return fit(extended(path, read_toml, root), TABLE, path)


def artifact_of(path):
    """The [artifact] of an experiment file: paper, id, kind, title, ..."""
    return read_experiment(path).get("artifact", {})


def scales_of(path):
    """Names of the scales of an experiment file, in its order."""
    return list(read_experiment(path).get("scale", {}))


def place_of(path, scale):
    """Where the rows of an artifact lie below a folder of results: PAPER/ID/SCALE."""
    header = artifact_of(path)
    if not header.get("paper") or not header.get("id"):
        raise UserError(f"{path}: has no [artifact], so claims cannot find its rows")
    return "/".join([header["paper"], header["id"], *([scale] if scale else [])])


def _laid_over(base, over):
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(below, dict) and isinstance(value, dict)
        merged[key] = _laid_over(below, value) if both else value
    return merged


def at_scale(path, scale):
    """The table of an experiment file with one of its scales laid over it: tables merge, arrays
    replace. An empty scale means "tiny"; UserError for one that the file does not have."""
    table = read_experiment(path)
    scales = table.get("scale")
    if not scales:
        return table, ""
    name = scale or "tiny"
    find_known("scale", name, list(scales), path)
    over = {k: v for k, v in scales[name].items() if k not in SCALE_KEYS}
    return fit(_laid_over({k: v for k, v in table.items() if k != "scale"}, over), TABLE, path), name


def most_parameters(path, scale):
    """How many parameters each model of a scale can have at most, one a byte of its weights; None of one that does
    not lie whole beside the experiments."""
    found = []
    for model in at_scale(path, scale)[0].get("model", []):
        folder = os.path.join(os.path.dirname(path), str(model.get("path", "")))
        files = os.listdir(folder) if os.path.isfile(os.path.join(folder, "config.json")) else []
        sizes = [os.path.getsize(os.path.join(folder, name)) for name in files if name.endswith(".safetensors")]
        found.append(sum(sizes) if sizes else None)
    return found


# Tokens that a chat template puts around a prompt, at most.
AROUND = 64


def longest_prompts(path, scale):
    """How many tokens the longest prompt of each workload of a scale can have at most, one a byte and those of a chat
    template; None of one that is no embedded task."""
    table = at_scale(path, scale)[0]
    workloads, folder = table.get("workload", []), os.path.join(os.path.dirname(path), "../data")
    found = []
    for workload in workloads if isinstance(workloads, list) else [workloads]:
        for task in workload.get("tasks", [None]):
            file = os.path.join(folder, f"{task}.jsonl")
            found.append(_longest_prompt(file) if task and os.path.isfile(file) else None)
    return found


@functools.lru_cache(maxsize=None)
def _longest_prompt(file):
    """Of a file of items, in tokens at most."""
    with opened(file) as lines:
        return AROUND + max((len(json.loads(line)["prompt"].encode()) for line in lines if line.strip()), default=0)


@functools.lru_cache(maxsize=None)
def needed_devices():
    """Devices that not every machine has: each is a need of its name, which takes no value. The program
    writes the list (`unmask show needs`)."""
    text = importlib.resources.files("unmask.rows").joinpath("needs.json").read_text(encoding="utf-8")
    return tuple(name for name, value in json.loads(text)["needs"].items() if not value)


def stated_needs(path, scale):
    """What an artifact needs at a scale as its file states it: "cuda", "weights:NAME", ... Whether
    this machine has it `unmask run` says; a verdict does not depend on the machine it is read on."""
    entry = read_experiment(path).get("scale", {}).get(scale, {})
    table, _ = at_scale(path, scale)
    needs = list(entry.get("needs", []))
    device = table.get("run", {}).get("device")
    needs += [device] if device in needed_devices() else []
    needs += [m["path"] for m in table.get("model", [])
              if str(m.get("path", "")).startswith("weights:")]
    for workload in table.get("workload", []):
        names = workload.get("benchmark", []) if isinstance(workload, dict) else []
        names = names if isinstance(names, list) else [names]
        needs += [f"benchmark:{name}" for name in names]
    return list(dict.fromkeys(needs)), entry.get("not_run", "")
