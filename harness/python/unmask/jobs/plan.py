# SPDX-License-Identifier: Apache-2.0
"""unmask plan: list what experiments will measure, or write a Slurm job array.

The program plans (run --dry-run --format json); here its points become the tasks of an array."""

import json
import os
import re
import shlex
import subprocess
import sys

from unmask.rows import options as command_options
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import replace_file, shown
from unmask.rows.program import answer_of, call, program
from unmask.rows.text import json_text
from unmask.tables.tables import write

MOST_SHARDS = 1 << 20

SCHEDULERS = ("slurm",)
MOST_TASKS = 1001  # Slurm's default MaxArraySize: the largest index of an array is one less


def planned(experiment, given):
    """Asks the program what one experiment would measure."""
    if experiment.startswith("-"):
        raise UserError(f"{experiment} is an option that plan does not know; a file of this name is ./{experiment}")
    command = ["run", experiment, "--dry-run", "--format", "json", f"--gpu={given.gpu}"]
    said = answer_of(command + settings_of(given))
    try:
        return json.loads(said)
    except ValueError:
        raise EnvironmentFault(f"{experiment}: the program answered with something that is no plan") from None


def settings_of(given):
    """Gives the options that every task of the array is called with too."""
    more = [f"--scale={given.scale}"] if given.scale else []
    return more + [f"--set={assignment}" for assignment
                   in given.set + ([f"run.device={given.device}"] if given.device else [])]


def array_limit(given):
    """So many tasks an array may have: as the user says, as the cluster's configuration does, or Slurm's default."""
    if given.max_array_size:
        return given.max_array_size
    try:
        said = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True, timeout=10, check=False)
        found = re.search(r"^MaxArraySize\s*=\s*([1-9]\d*)$", said.stdout, re.MULTILINE)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        found = None
    return int(found.group(1)) if found else MOST_TASKS


def counts_of(plans, shards, limit):
    """How many tasks each experiment gets: as many as asked for and no more than it has points. Where that is more
    than an array may have, all get fewer by the same share, at least one each."""
    counts = [min(shards, len(plan["points"])) for plan in plans]
    busy = sum(count > 0 for count in counts)
    if busy > limit:
        raise UserError(f"{busy} experiments are more than the {limit} tasks that an array may have; plan them in "
                        "several calls with an --output each")
    asked = sum(counts)
    if asked > limit:
        counts = [max(1, count * limit // asked) if count else 0 for count in counts]
        while sum(counts) > limit:
            counts[counts.index(max(counts))] -= 1
    return counts


def of_ranks(plans):
    """{ranks: the plans with those points alone}: a task of several ranks is as many processes."""
    found = {}
    for plan in plans:
        values = sorted({p.get("ranks", 1) for p in plan["points"]}) or [1]
        for ranks in values:
            points = [p for p in plan["points"] if p.get("ranks", 1) == ranks]
            found.setdefault(ranks, []).append({**plan, "points": points, "only": len(values) > 1})
    return dict(sorted(found.items()))


def tasks_of(plan, count, given, folder, ranks=1):
    """Makes the commands that measure an experiment in so many parts, as `run --shard` takes them."""
    tasks, start = [], []
    if ranks > 1:  # peers read each other's memory, so every rank sees all GPUs
        start = ["srun", f"--ntasks={ranks}"] + ["--gpu-bind=none"] * (plan["gpu_points"] > 0)
        folder = os.path.join(folder, f"{ranks}-ranks")
    for i in range(count):
        task = start + [program(), "run", plan["file"], "--no-progress", "--output",
                        os.path.join(folder, plan["name"])]
        task += [f"--points={{ranks={ranks}}}"] if plan.get("only") else []
        tasks.append(task + (["--shard", f"{i}/{count}"] if count > 1 else [])
                     + settings_of(given))
    return tasks


def directive(text):
    """Writes one #SBATCH line. sbatch splits it at blanks as a shell does, but takes a backslash
    for an escape everywhere: an option with anything unusual in it stands in double quotes."""
    if "\n" in text or "\r" in text:
        raise UserError("a directive of --sbatch is one line")
    if any(c.isspace() or c in "\\\"'#" for c in text):
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"#SBATCH {text}\n"


def file_pattern(path):
    """Writes a path as sbatch's --output wants it, where % begins a replacement."""
    return path.replace("%", "%%")


def log_name(ranks):
    return "task-%a.log" if ranks == 1 else f"task-{ranks}-ranks-%a.log"


def slurm_script(tasks, folder, directives, ranks=1, gpus=False):
    """Writes the script of a Slurm job array: task i runs part i, on so many ranks of one node, each with a GPU of
    its own. A task that is requeued goes on, because `run` skips points that have a row; logs are appended to."""
    if not tasks:
        raise UserError("a job array needs at least one point to measure")
    head = ["--job-name=unmask", f"--array=0-{len(tasks) - 1}", "--requeue", "--open-mode=append",
            f"--output={os.path.join(file_pattern(folder), log_name(ranks))}"]
    if ranks > 1:
        head += ["--nodes=1", f"--ntasks-per-node={ranks}"] + [f"--gpus-per-node={ranks}"] * gpus
    head += directives
    return ("#!/bin/sh\n" + "".join(map(directive, head))
            + "# A task continues where it was stopped: points that have a row are not measured "
            "again.\nset -eu\ncase $SLURM_ARRAY_TASK_ID in\n"
            + "".join(f"{i}) exec {shlex.join(task)} ;;\n" for i, task in enumerate(tasks))
            + "esac\n")


def told(known, unknown, points, form=".0f", more=False):
    """Writes a sum over points, some of which may say nothing: never their zero."""
    if unknown and unknown == points:
        return "unknown"
    text = ("at least " if unknown or more else "") + format(known, form)
    return text + (f"; {unknown} point{'s' * (unknown > 1)} unknown" if unknown else "")


def cells(p):
    """Gives the answers, forwards and GPU hours of one plan as text."""
    points = len(p["points"])
    form = ".1f" if p["gpu_hours"] >= 0.095 else ".2g"
    hours = told(p["gpu_hours"], p["points_without_hours"], p["gpu_points"], form, p["gpu_hours_at_least"])
    return (told(p["answers"], p["points_without_answers"], points),
            told(p["forwards"], p["points_without_forwards"], points), hours if p["gpu_points"] else "none")


def told_tasks(number):
    return f"{number} task{'s' * (number != 1)}"


def table(plans):
    """Writes what the experiments would take as a Markdown table."""
    lines = ["| experiment | points | answers | forwards, at most | GPU hours | GPU memory | on this machine |",
             "|---|---:|---:|---:|---:|---:|---|"]
    for p in plans:
        lines.append(f"| {p['name']} | {len(p['points'])} | {' | '.join(cells(p))} | "
                     f"{p['gpu_memory']} | {p['obstacle'] or 'can run'} |")
    lines += [f"\n{p['name']}: {note}" for p in plans for note in p["notes"]]
    return shown("\n".join(lines) + "\n")


def parsed(arguments):
    parser = command_options.parser(
        __doc__, "Prints points, forward passes, GPU hours and memory of each experiment. With --scheduler, also writes a job\n"
                 "array that measures them; unmask merge joins its rows.")
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT.toml")
    parser.add_argument("-o", "--output", metavar="FOLDER", default="runs/array",
                        help="write the job array into this folder: rows, logs and the script array.sh (default: "
                        "runs/array)")
    parser.add_argument("--scale", metavar="NAME", help="variant of a paper table or figure: tiny (default), scores, real, "
                        "shapes or full")
    parser.add_argument("--gpu", default="h100", metavar="NAME", help="estimate the hours for this GPU: a100, b200, h100, h200, "
                        "rtx4090, rtx5090 (default: h100)")
    parser.add_argument("--scheduler", metavar="slurm", help="also write a job array for this scheduler")
    parser.add_argument("--shards", type=int, default=1, metavar="N", help="split each experiment into N tasks (default: 1)")
    parser.add_argument("--max-array-size", type=int, default=0, metavar="N",
                        help="write at most N tasks per array, MaxArraySize of the cluster (default: what scontrol "
                        "reports, else 1001). If that is less than --shards, a task measures several points")
    parser.add_argument("--sbatch", action="append", default=[], metavar="OPTION",
                        help="pass this option to sbatch: --sbatch=--gres=gpu:1 (repeatable)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="override a key of the files, as in unmask run (repeatable)")
    parser.add_argument("--device", metavar="NAME", help="run on this device, as in unmask run")
    parser.add_argument("--points", action="append", default=[], metavar="SETTINGS",
                        help="with --requests: take only these sweep points, as in unmask run (repeatable)")
    parser.add_argument("--requests", metavar="FILE",
                        help="write the arrivals and prompts of the experiment's [serve] into FILE, as JSON lines that "
                        "vllm bench serve, GuideLLM and AIPerf replay, and stop")
    command_options.add_format(parser)
    given = parser.parse_args(command_options.spelled(arguments))
    if not given.experiments:
        raise UserError("plan needs experiment files")
    if given.points and not given.requests:
        raise UserError("--points is for --requests; a plan is of the whole experiment")
    if given.shards < 1:
        raise UserError("--shards is at least 1")
    if given.shards > MOST_SHARDS:
        raise UserError(f"--shards is {given.shards} but must be at most {MOST_SHARDS}")
    if given.max_array_size < 0 or given.max_array_size > MOST_SHARDS:
        raise UserError(f"--max-array-size is between 1 and {MOST_SHARDS}")
    if given.scheduler is not None and given.scheduler not in SCHEDULERS:
        raise UserError(f"unknown scheduler '{given.scheduler}'; there is {SCHEDULERS[0]}")
    return given


def requests(given):
    """Has the program write the requests of one experiment: its exit code."""
    if len(given.experiments) != 1:
        raise UserError("--requests is of one experiment file")
    command = ["run", given.experiments[0], "--dry-run", f"--requests={given.requests}"]
    for name in ("scale", "device"):
        if getattr(given, name):
            command.append(f"--{name}={getattr(given, name)}")
    for name in ("set", "points"):
        command += [f"--{name}={one}" for one in getattr(given, name)]
    return call(command).returncode


def main(arguments):
    given = parsed(arguments)
    if given.requests:
        return requests(given)
    plans = [planned(experiment, given) for experiment in given.experiments]
    if given.format == "json":
        print(json_text(plans), end="")
    else:
        write(table(plans), "")
    if given.scheduler is None:  # a plan alone is for this machine, a job array may be for others
        lacks = [p["obstacle"] for p in plans if "device cuda (" in (p["obstacle"] or "")]
        if lacks:
            raise EnvironmentFault(lacks[0])
        return 0
    folder = os.path.abspath(given.output)
    out = sys.stderr if given.format == "json" else sys.stdout
    for ranks, some in of_ranks(plans).items():
        write_array(some, ranks, given, folder, out)
    print(f"Then: {shlex.join(['unmask', 'merge', folder, '-o', 'rows.jsonl'])}", file=out)
    return 0


def write_array(plans, ranks, given, folder, out):
    """Writes the array of the points of one number of ranks, and says how to submit it."""
    limit = array_limit(given)
    counts = counts_of(plans, given.shards, limit)
    tasks = [task for plan, count in zip(plans, counts) for task in tasks_of(plan, count, given, folder, ranks)]
    asked = sum(min(given.shards, len(plan["points"])) for plan in plans)
    if asked > len(tasks):
        most = max(-(-len(plan["points"]) // count) for plan, count in zip(plans, counts) if count)
        print(f"\nAn array may have {told_tasks(limit)} here (MaxArraySize), and {asked} were asked for: a task measures up "
              f"to {most} points, one after the other.", end="", file=out)
    script = os.path.join(folder, "array.sh" if ranks == 1 else f"array-{ranks}-ranks.sh")
    gpus = any(plan["gpu_points"] > 0 for plan in plans)
    replace_file(script, slurm_script(tasks, folder, given.sbatch, ranks, gpus).encode())
    each = "" if ranks == 1 else f" of {ranks} ranks"
    print(f"\n{told_tasks(len(tasks))}{each}. Submit them with: {shlex.join(['sbatch', script])}", file=out)
