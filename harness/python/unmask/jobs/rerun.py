# SPDX-License-Identifier: Apache-2.0
"""unmask rerun: repeat a bundle and compare.

Runs what a bundle holds once more, with the program that was called. Each call unpacks and measures in a folder
of its own, so nothing of an earlier one is taken for this one's."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

from unmask.jobs import bundle
from unmask.rows import manifest, options
from unmask.rows.ending import tell
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import replace_file, shown
from unmask.rows.names import find_known
from unmask.rows.program import answer_of, call
from unmask.rows.rows import latest

MOST_CALLS = 10000
NOT_RUN = 3


def fresh_folder(wanted):
    """Makes the folder `wanted`, or wanted-2, wanted-3 ... where it is there and holds something."""
    wanted = pathlib.Path(wanted)
    wanted.parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, MOST_CALLS):
        place = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        try:
            place.mkdir()
            return place
        except FileExistsError:
            if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
                return place
    raise EnvironmentFault(f"{wanted} and {MOST_CALLS} folders beside it are taken; give another "
                           "with -o")


def check_models(folder, given, rows):
    """{path in the experiment: folder} of --model; UserError where one is not what the rows were measured with. Of
    checkpoints that are given nowhere: one sentence."""
    run = manifest.read_manifest(folder / manifest.NAME)
    paths = bundle.paths_of_models(run)
    known = {os.path.basename(path.rstrip("/")): path for path in paths} | {path: path for path in paths}
    found = {}
    for word in given.model:
        name, equals, place = word.rpartition("=")
        if not equals or not name or not place:
            raise UserError(f"--model is NAME=FOLDER, not '{word}'")
        find_known("model of this bundle", name, known)
        path = known[name]
        if not os.path.isfile(os.path.join(place, "config.json")):
            raise EnvironmentFault(f"{place}: no model there (no config.json)")
        wanted = {row["model"]["hash"] for row in rows
                  if row["model"]["name"] == os.path.basename(path.rstrip("/"))
                  and row["model"].get("weights", "checkpoint") == "checkpoint"}
        hashed = hash_of(place)
        if wanted and hashed not in wanted:
            raise UserError(f"{place}: is another checkpoint than the rows of {name} were measured with: its hash is "
                            f"{hashed[:12]}, theirs {' and '.join(sorted(h[:12] for h in wanted))}")
        found[path] = os.path.abspath(place)
    missing = [path for path in bundle.own_models(run)
               if path not in found and not os.path.exists(folder / path)]
    if missing and not given.allow_outside:
        raise EnvironmentFault(f"NOT RUN: needs the checkpoint {missing[0]}, which is not part of the bundle; --model "
                               f"{missing[0]}=FOLDER says where it lies here")
    return found


def hash_of(place):
    """The hash of a checkpoint, as rows have it."""
    said = answer_of(["doctor", "--model", os.path.abspath(place)])
    hashes = re.findall(r"^ +hash: ([0-9a-f]{64})$", said, re.MULTILINE)
    if not hashes:
        raise EnvironmentFault(f"{place}: `unmask doctor --model {place}` gives it no hash")
    return hashes[-1]  # the models that come with the program are read before


def refuse_rules(rows):
    """EnvironmentFault for rows of rules in Python: a bundle holds no code to run."""
    of_rules = sorted({row["method"] for row in rows if row["params"].get("code")})
    if of_rules:
        raise EnvironmentFault(f"NOT RUN: needs the Python function of {', '.join(of_rules)}: a bundle holds no code; repeat "
                               "it with the author's file: unmask run FILE.toml --rule RULE.py")


def place_models(folder, models):
    """Lets the experiment of the unpacked bundle find these checkpoints under the names that it gives them."""
    for path, place in models.items():
        pure = pathlib.PurePath(path)
        if not pure.is_absolute() and ".." not in pure.parts:
            link = folder / pure
        else:  # the experiment's text names a place of another machine
            link = folder / "models-given" / pure.name
            asked = json.loads((folder / manifest.NAME).read_text(encoding="utf-8"))
            text = asked["experiment"]["text"]
            for quote in "\"'":
                text = text.replace(f"{quote}{path}{quote}", json.dumps(f"models-given/{pure.name}"))
            asked["experiment"] |= {"text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
            replace_file(folder / manifest.NAME, json.dumps(asked, indent=1))
        link.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(link):
            link.symlink_to(place, target_is_directory=True)


def points_with_rows(folder, before):
    """Options that leave out planned points of which the bundle has no row, as of a run that was stopped or of a part of
    its points; none where it has all."""
    plan = json.loads((folder / manifest.NAME).read_text(encoding="utf-8")).get("plan")
    planned = {point.get("id") for point in plan if isinstance(point, dict)} if isinstance(plan, list) else set()
    rows = [row for row in latest(before) if row["point_id"] in planned]
    if not rows or len({row["point_id"] for row in rows}) == len(planned):
        return []
    tell(f"{len(rows)} of {len(planned)} points: the bundle has no row of the others")
    words = []
    for row in rows:
        settings = {"label": row["label"], "model": row["model"]["name"], "workload": row["workload"]["family"],
                    "variation": row["variation"], "batch_size": row["batch_size"]}
        words += ["--points", "{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in settings.items()) + "}"]
    return words


def measure(folder, place, given, models, only):
    """Runs the experiment of the unpacked bundle. only: options that choose among its points. Returns the exit code; the
    table that `run` prints is left out, what it says when it cannot run is not."""
    files = place / "files"  # what the experiment writes besides its rows lands here
    files.mkdir()
    command = ["run", "--from", str((folder / manifest.NAME).absolute()), "--fresh",
               "-o", str((place / "rows").absolute())]
    command += ["--allow-outside"] if given.allow_outside else ["--confine",
                                                                  str(folder.absolute())]
    command += ["--no-progress"] if given.no_progress else []
    command += only
    done = call(command, stdout=subprocess.PIPE, text=True, errors="replace", cwd=files,
                env=environment(models, folder / bundle.PICTURES))
    if not any(files.iterdir()):
        files.rmdir()
    if done.returncode == NOT_RUN:
        print(done.stdout, end="")
    return done.returncode


def environment(models=(), pictures=None):
    """The environment of the run: what names folders names them from anywhere, models that were given may be read, and
    prepared pictures of the bundle are found."""
    changed = dict(os.environ)
    if pictures and pictures.is_dir():
        changed["UNMASK_PICTURES"] = ":".join([str(pictures), *filter(None, [changed.get("UNMASK_PICTURES")])])
    given = [os.path.realpath(place) for place in models.values()] if models else []
    if given:
        changed["UNMASK_MODELS"] = ":".join([changed["UNMASK_MODELS"], *given] if changed.get("UNMASK_MODELS") else given)
    for name in ("UNMASK_MODELS", "UNMASK_DATASETS", "UNMASK_PICTURES", "HF_HUB_CACHE", "HF_HOME"):
        if changed.get(name):
            changed[name] = ":".join(os.path.abspath(p) for p in changed[name].split(":") if p)
    return changed


def one_file(folder, place, name):
    """Gives the file of a folder's rows; where there are several, of parts, one that joins them."""
    files = [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if bundle.is_rows_file(n)]
    if len(files) == 1:
        return files[0]
    lines = [found.line for file in files for found in bundle.read_lines(file)[0]]
    replace_file(place / name, b"".join(line + b"\n" for line in lines))
    return str(place / name)


def reasons_of_failure(rows):
    """Lists the reasons, each once, where every point FAILED; else nothing."""
    latest = {row["point_id"]: row for row in rows}.values()
    if any(row["verdict"] != "FAILED" for row in latest):
        return []
    return sorted({shown(row.get("reason") or "no reason given") for row in latest})


def main(arguments):
    parser = options.parser(
        __doc__, "Measures what the bundle holds once more, and compares: answers and counts must be the same, ratios of speed\n"
                 "within their intervals. Models and tasks are those of this program, of $UNMASK_MODELS and of\n"
                 "$UNMASK_DATASETS.",
        "exit codes: 4 something differs")
    parser.add_argument("bundle", nargs="?", metavar="BUNDLE.tar")
    parser.add_argument("-o", "--output", metavar="FOLDER",
                        help="unpack and repeat the bundle in this folder (default: runs/rerun/BUNDLE, with a "
                        "number if it exists)")
    parser.add_argument("--allow-outside", action="store_true",
                        help="let the bundle's experiment read and write in any folder")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER",
                        help="use the checkpoint in FOLDER for the experiment's NAME; it must have the hash that the "
                        "rows record (repeatable)")
    parser.add_argument("--no-progress", action="store_true", help="show no progress on standard error")
    parser.add_argument("--ignore-speed", action="store_true",
                        help="compare only answers, scores and counts: for another machine, or a busy one")
    options.add_format(parser)
    given = parser.parse_args(options.spelled(arguments))
    if given.bundle is None:
        raise UserError("rerun needs a bundle")
    archive = pathlib.Path(given.bundle)
    place = fresh_folder(given.output or pathlib.Path("runs", "rerun", archive.stem))
    folder = bundle.unpack(archive, place / "bundle")
    manifest.read_manifest(folder / manifest.NAME)
    before = bundle.rows_in(folder)
    if not before:
        raise EnvironmentFault(f"{archive} is no bundle: it has no rows")
    refuse_rules(before)
    models = check_models(folder, given, before)
    place_models(folder, models)
    code = measure(folder, place, given, models, points_with_rows(folder, before))
    rows = place / "rows"
    if not rows.is_dir() or not (measured := bundle.rows_in(rows)):
        return code or NOT_RUN
    if reasons := reasons_of_failure(measured):
        points = len({r["point_id"] for r in measured})
        print(shown(f"all {points} points FAILED: {'; '.join(reasons)}"))
        return 1
    compare = ["compare", one_file(folder, place, "before.jsonl"),
               one_file(rows, place, "now.jsonl")]
    done = call(compare + ["--format", given.format] + (["--ignore-speed"] if given.ignore_speed else []))
    print(f"unpacked and repeated in {place}", file=sys.stderr)
    return code or done.returncode
