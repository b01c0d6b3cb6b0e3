# SPDX-License-Identifier: Apache-2.0
"""Measured runs: which experiment file and scale rows came from, as the run.json beside them says,
else as their place PAPER/ARTIFACT/SCALE does."""

from dataclasses import dataclass, field
import os
import re

from unmask.rows import experiments, rows
from unmask.rows.files import opened_text, read_json
from unmask.rows.shapes import MAYBE, TEXT, fit, misfit
from unmask.rows.text import json_value

MANIFEST = "run.json"
LARGEST_MANIFEST = 64 << 20
CAMPAIGN = "campaign.jsonl"  # what became of each artifact, a line a run


@dataclass
class Run:
    place: str          # of its rows below the folder that was asked for
    rows: list          # the latest of each point
    paper: str = ""
    artifact: str = ""
    scale: str = ""
    file: str = ""      # the experiment; "": unknown
    set: list = field(default_factory=list)

    @property
    def name(self):
        return f"{self.paper}_{self.artifact}"


def read_log(path):
    """A campaign's log: ({(paper, id, scale): its last line, with the seconds of all}, how many lines are no
    entries)."""
    last, torn = {}, 0
    with opened_text(path, "replace") as file:
        for line in file:
            try:
                entry = json_value(line)
            except ValueError:
                entry = None
            if misfit(entry, {"seconds?": MAYBE, "rows?": MAYBE}, "entry"):
                torn += bool(line.strip())
                continue
            key = tuple(str(entry.get(k, "")) for k in ("paper", "id", "scale"))
            before = last[key]["seconds"] if key in last else 0.0
            last[key] = {**entry, "seconds": before + float(entry.get("seconds") or 0)}
    return last, torn


def natural_order(text):
    """A key by which names sort with their numbers by value: table_2 before table_10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part)
            for part in re.split(r"(\d+)", text) if part]


def experiment_of(name, folder, artifact, experiments_dir):
    """Where the experiment lies that a manifest names: at its artifact's place PAPER/ARTIFACT among the
    experiments, in the program's tree, beside the manifest, or as the user who ran it named it."""
    root = experiments.program_root()
    inside = os.path.normpath(os.path.join(root, name))
    ours = os.path.dirname(name) and root and inside.startswith(root + os.sep)
    places = [os.path.join(experiments_dir, *artifact) + ".toml" if all(artifact) else "",
              experiments.shown_path(inside) if ours else "",
              os.path.join(folder, os.path.basename(name)), name]
    return next((path for path in places if path and os.path.isfile(path)), name)


def _text(value):
    return value if isinstance(value, str) else ""


def read_manifest(path):
    """What a run was asked for; UserError where the file is no manifest."""
    return fit(read_json(path, LARGEST_MANIFEST), {"set?": [TEXT]}, path, "the run's manifest")


def origin(run, folder, experiments_dir):
    """Fills in what the run of these rows was asked for."""
    manifest = os.path.join(folder, MANIFEST) if folder else ""
    if manifest and os.path.isfile(manifest):
        plan = read_manifest(manifest)
        run.paper, run.artifact, run.scale = (_text(plan.get(k)) for k in ("paper", "artifact",
                                                                           "scale"))
        run.set = plan.get("set", [])
        experiment = plan.get("experiment")
        named = _text(experiment.get("file")) if isinstance(experiment, dict) else ""
        of = (run.paper, run.artifact)
        run.file = experiment_of(named, folder, of, experiments_dir) if named else ""
        return run
    said = run.rows[0].get("experiment") if run.rows else None  # since schema 1.5
    if isinstance(said, dict) and all(isinstance(v, str) for v in said.values()):
        run.paper, run.artifact, run.scale = (said.get(k, "") for k in ("paper", "artifact", "scale"))
        named, of = said.get("file", ""), (run.paper, run.artifact)
        run.file = experiment_of(named, folder, of, experiments_dir) if named else ""
        return run
    place = os.path.abspath(folder) if folder else "/" + run.place
    parts = place.split(os.sep)[-3:]
    file = os.path.join(experiments_dir, parts[0], parts[1] + ".toml") if len(parts) == 3 else ""
    if file and os.path.isfile(file):
        run.paper, run.artifact, run.scale = parts
        run.file = file
    return run


def runs_below(path, experiments_dir):
    """The runs at or below a path, in natural order, with their rows; rows measured beside an
    artifact's own for more evidence are left out."""
    if not os.path.isdir(path):
        run = Run(os.path.basename(path), rows.read_latest(path))
        return [origin(run, os.path.dirname(os.path.abspath(path)), experiments_dir)]
    found = []
    for place, read in rows.places_below(path).items():
        if "/more/" in f"/{place}/":
            continue
        folder = os.path.join(path, place)
        run = Run(place, rows.latest(read))
        found.append(origin(run, folder if os.path.isdir(folder) else "", experiments_dir))
    return sorted(found, key=lambda run: natural_order(run.place))


def layout_place(run):
    """Whether the experiment of a run is here to be read."""
    return bool(run.artifact and run.file and os.path.isfile(run.file))


