# SPDX-License-Identifier: Apache-2.0
"""unmask rerun: repeat a bundle and compare.

Runs what a bundle holds once more, with the program that was called. Each call unpacks and measures in a folder
of its own, so nothing of an earlier one is taken for this one's."""

import os
import pathlib
import subprocess
import sys

from unmask.jobs import bundle
from unmask.rows import manifest, options
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import replace_file, shown
from unmask.rows.program import call

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


def measure(folder, place, given):
    """Runs the experiment of the unpacked bundle. Returns the exit code; the table that `run`
    prints is left out, what it says when it cannot run is not."""
    files = place / "files"  # what the experiment writes besides its rows lands here
    files.mkdir()
    command = ["run", "--from", str((folder / manifest.NAME).absolute()), "--fresh",
               "-o", str((place / "rows").absolute())]
    command += ["--allow-outside"] if given.allow_outside else ["--confine",
                                                                  str(folder.absolute())]
    command += ["--no-progress"] if given.no_progress else []
    done = call(command, stdout=subprocess.PIPE, text=True, errors="replace", cwd=files,
                env=environment())
    if not any(files.iterdir()):
        files.rmdir()
    if done.returncode == NOT_RUN:
        print(done.stdout, end="")
    return done.returncode


def environment():
    """The environment of the run: what names folders names them from anywhere."""
    changed = dict(os.environ)
    for name in ("UNMASK_MODELS", "UNMASK_DATASETS", "HF_HUB_CACHE", "HF_HOME"):
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
        __doc__, "Answers and counts must be the same, speed ratios within their intervals. Models and tasks are\n"
                 "those of this program, of $UNMASK_MODELS and of $UNMASK_DATASETS.",
        "exit code 4 when something differs")
    parser.add_argument("bundle", nargs="?", metavar="BUNDLE.tar")
    parser.add_argument("-o", "--output", metavar="DIR",
                        help="folder in which the bundle is unpacked and repeated; default "
                        "runs/rerun/BUNDLE, with a number where it is taken")
    parser.add_argument("--allow-outside", action="store_true",
                        help="let the bundle's experiment read and write anywhere, as it says")
    parser.add_argument("--no-progress", action="store_true", help="no progress on standard error")
    parser.add_argument("--ignore-speed", action="store_true",
                        help="compare answers, scores and counts alone: for another machine, or one "
                        "with other work")
    given = parser.parse_args(options.spelled(arguments))
    if given.bundle is None:
        raise UserError("rerun needs a bundle")
    archive = pathlib.Path(given.bundle)
    place = fresh_folder(given.output or pathlib.Path("runs", "rerun", archive.stem))
    folder = bundle.unpack(archive, place / "bundle")
    manifest.read_manifest(folder / manifest.NAME)
    if not bundle.rows_in(folder):
        raise EnvironmentFault(f"{archive} is no bundle: it has no rows")
    code = measure(folder, place, given)
    rows = place / "rows"
    if not rows.is_dir() or not (measured := bundle.rows_in(rows)):
        return code or NOT_RUN
    if reasons := reasons_of_failure(measured):
        points = len({r["point_id"] for r in measured})
        print(shown(f"all {points} points FAILED: {'; '.join(reasons)}"))
        return 1
    compare = ["compare", one_file(folder, place, "before.jsonl"),
               one_file(rows, place, "now.jsonl")]
    done = call(compare + (["--ignore-speed"] if given.ignore_speed else []))
    print(f"unpacked and repeated in {place}", file=sys.stderr)
    return code or done.returncode
