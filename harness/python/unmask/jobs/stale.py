# SPDX-License-Identifier: Apache-2.0
"""Which tables and figures of a campaign have rows of an older program: plans are compared point by point, and the
cheapest points of each are measured again and must answer and count the same."""

from dataclasses import asdict, dataclass, field
import json
import os
import subprocess
import tempfile

from unmask.claims.judge import Evidence
from unmask.claims.repeats import numbered, renewed_in
from unmask.rows import experiments, program
from unmask.rows.ending import tell
from unmask.rows.errors import UserError
from unmask.rows.rows import is_reportable, latest, read_rows, row_name, setting
from unmask.rows.text import json_text
from unmask.tables.compare import Comparison, compare_place

FRESH, CHANGED, UNKNOWN = "as measured", "stale", "not known"


@dataclass
class Age:
    """What became of one artifact at one scale since its rows: of which commits they are, how many, which planned
    points have none, which rows are planned no more, and what a sample answers otherwise now."""
    place: str
    commits: list
    rows: int
    missing: list = field(default_factory=list)
    gone: list = field(default_factory=list)
    differences: list = field(default_factory=list)  # (point, what, before, now)
    sampled: int = 0
    unknown: str = ""
    renewed: str = ""  # the commit that the archive's record names, of a table or figure that was measured anew

    @property
    def state(self):
        if self.missing or self.gone or self.differences:
            return CHANGED
        return UNKNOWN if self.unknown or not self.sampled else FRESH

    @property
    def why(self):
        parts = [f"{point}: {what} {before}, now {now}" for point, what, before, now in self.differences[:2]]
        parts += [f"{len(self.differences) - 2} more differences"] if len(self.differences) > 2 else []
        parts += [f"{len(found)} {words}, the first {found[0]}" for found, words in (
            (self.missing, "planned points without rows"), (self.gone, "rows of points that are planned no more")) if found]
        parts += [self.unknown] if self.unknown else []
        return "; ".join(parts) or ("" if self.sampled else "planned as it was")


def _name(model, workload, label, variation):
    return ", ".join(part for part in (model, workload, label, variation) if part)


def _name_of(row):
    return _name(row["model"]["name"], row["workload"]["family"], row["label"], row["variation"])


def _without_seed(row):
    """The name of a row whatever its seed is: a run of one seed has no seed in it, and one of several may have "any"."""
    return row["model"]["name"], row["workload"]["family"], row_name(row, {"seed"})


def _plan(path, scale):
    """The names of the points that the program would measure now, and why it cannot ("" where it can)."""
    done = program.call(["run", path, "--scale", scale, "--dry-run", "--format", "json"], stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or [f"no plan, exit code {done.returncode}"])[-1]
    plan = json.loads(done.stdout)
    names = [_name(p["model"], p["workload"], p["label"], p["variation"]) for p in plan["points"]]
    return list(dict.fromkeys(names)), plan["obstacle"]


def _repeatable(row):
    """Whether the same program answers the same: nothing that a clock decides."""
    return (is_reportable(row) and row["answers_hash"] and "calibration" not in row and
            setting(row, "serve.clock") != "real")


def sample_of(rows, count):
    """The `count` rows that took the least time, each of another method where there are so many."""
    able = sorted(filter(_repeatable, rows), key=lambda row: row["metrics"].get("wall_seconds") or 0.0)
    first = list({row["method"]: row for row in reversed(able)}.values())
    first.sort(key=able.index)
    return (first + [row for row in able if row not in first])[:count]


def _measure_again(path, scale, row, folder):
    """The row of the same point by the program as it is now, and what that said; no row where it gives none."""
    quoted = {key: json.dumps(value) for key, value in (
        ("label", row["label"]), ("model", row["model"]["name"]), ("workload", row["workload"]["family"]),
        ("batch_size", row["batch_size"]))}
    point = "{" + ", ".join(f"{key} = {value}" for key, value in quoted.items()) + "}"
    done = program.call(["run", path, "--scale", scale, "--points", point, "--set", f"run.seed={row['seed']}",
                         "-o", folder, "--no-progress"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    file = os.path.join(folder, "rows.jsonl")
    found = latest(read_rows(file)) if os.path.isfile(file) else []
    said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return next((new for new in found if _without_seed(new) == _without_seed(row)), None), said


def age_of(place, rows, folder, sample, renewed=""):
    """Age of the rows of one place, PAPER/ARTIFACT/SCALE. renewed: their commit by the archive's record, "" where it
    names none."""
    paper, artifact, scale = place.split("/")
    path = os.path.join(folder, paper, f"{artifact}.toml")
    commits = [renewed[:8]] if renewed else sorted({row["source_hash"][:8] for row in rows})
    age = Age(place, commits, len(rows), renewed=renewed)
    if not os.path.isfile(path):
        age.unknown = f"there is no {path} any more"
        return age
    names, age.unknown = _plan(path, scale)
    if names is None:
        return age
    there = list(dict.fromkeys(map(_name_of, rows)))
    age.missing = [name for name in names if name not in there]
    age.gone = [name for name in there if name not in names]
    planned = [row for row in rows if _name_of(row) in names]
    if age.unknown:
        return age
    for row in sample_of(planned, sample):
        with tempfile.TemporaryDirectory() as into:
            new, said = _measure_again(path, scale, row, into)
        if new is None:
            age.differences.append((_name_of(row), "row", "there", f"none: {said}"))
            continue
        result = Comparison(with_speed=False)
        compare_place(result, "", [row], [new])
        age.differences += result.differences
        age.sampled += 1
    return age


def ages(directory, folder, only, sample):
    """Age of every artifact of a campaign folder, of the first of its campaigns or of its archive."""
    found = numbered(directory)
    places = Evidence(found[0][1] if found else directory).places
    wanted = [place for place in sorted(places) if not only or any(
        place == name or place.startswith(name + "/") for name in only)]
    if not wanted:
        raise UserError(f"{directory}: has no rows of {', '.join(only)}" if only else f"{directory}: holds no rows")
    every, renewed = [], renewed_in(directory)
    for place in wanted:
        if place.count("/") != 2:
            continue
        tell(f"{place}: its plan, and {sample} of its {len(places[place])} rows again")
        every.append(age_of(place, places[place], folder, sample, renewed.get(place, "")))
    return every


def ages_text(every):
    """A line for each table or figure, those that are stale first, and how many there are of each state."""
    counts = {state: [age for age in every if age.state == state] for state in (CHANGED, UNKNOWN, FRESH)}
    lines = [f"{state}: {age.place}, {age.rows} rows of {', '.join(age.commits)}{' (renewed)' if age.renewed else ''}, "
             f"{age.sampled} measured again"
             + (f"; {age.why}" if age.why else "") for state, found in counts.items() for age in found]
    lines.append(", ".join(f"{len(found)} {state}" for state, found in counts.items()) + f", of {len(every)}")
    return "\n".join(lines)


def ages_json(every):
    """A document for each table or figure: the fields of Age and its state."""
    return [{**asdict(age), "state": age.state} for age in every]


def report(directory, experiments_dir, only, sample, as_json=False):
    """Prints the table; 4 if a table or figure is stale, else 0."""
    every = ages(directory, experiments.experiments_folder(experiments_dir), only, sample)
    print(json_text(ages_json(every)) if as_json else ages_text(every))
    return 4 if any(age.state == CHANGED for age in every) else 0
