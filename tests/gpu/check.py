#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The GPU check: what only a GPU can tell, for a machine that is there for minutes.

    ./dev gpu --pack unmask-gpu.tar.xz      where it can be built: the programs in one archive
    ./dev gpu --first                       4 minutes: does every kernel compute the right thing?
    ./dev gpu --measure                     9 minutes: how fast, against which ceilings?
    ./dev gpu --first --rehearse            the same stages without a GPU, limits times four
    ./dev gpu --first --rehearse software   what nvcc compiled, on a GPU in software (tests/softgpu)
    ./dev gpu --report gpu-*.tar.gz         results/gpu/measured.md from what came back

The programs are those of unmask-gpu/ in the source tree, which is unpacked from unmask-gpu.tar.xz
where only that is there, else of build/release. Nothing is built and nothing is fetched. Two files
come back in the folder of --results, rewritten after every stage:

  gpu-first.tar.gz    stages.jsonl, environment.json, logs, rows, tuned products (cache/)
  gpu-first.md        the table of the stages and what was measured

Exit code: 0 when no stage FAILED or ran out of time (also without a GPU), else 1; 2 usage.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pack as packing  # noqa: E402
import report as reporting  # noqa: E402
import stages  # noqa: E402
import summary  # noqa: E402
from runner import ROOT, Check, Settings, gpu_problem  # noqa: E402

BUDGETS = {"first": 240, "measure": 540}


def find_build(asked):
    """The folder of programs, and a sentence that says which it is."""
    if asked:
        return os.path.abspath(asked), f"programs: {asked}"
    brought = os.path.join(ROOT, packing.NAME)
    archive = brought + ".tar.xz"
    if not os.path.isdir(brought) and os.path.exists(archive):
        begin = time.monotonic()
        with tarfile.open(archive) as packed:
            packed.extractall(ROOT)
        return brought, f"programs: {archive}, unpacked in {time.monotonic() - begin:.1f} s"
    if os.path.isdir(brought):
        return brought, f"programs: {brought}"
    return os.path.join(ROOT, "build", "release"), "programs: build/release"


def software_programs(asked, work):
    """As find_build: links in the working folder, by which unmask_softgpu is called as each program."""
    build = os.path.abspath(asked or os.path.join(ROOT, "build", "dev"))
    linked = os.path.join(build, "bin", "unmask_softgpu")
    if not os.access(linked, os.X_OK):
        raise SystemExit(f"gpu: --rehearse software needs {linked}, which builds with nvcc and tests "
                         "have (--build FOLDER)")
    folder = os.path.join(work, "software")
    os.makedirs(os.path.join(folder, "bin"))
    listed = subprocess.run([linked, "--programs"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        os.symlink(linked, os.path.join(folder, "bin", name))
    return folder, f"programs: {linked}"


def take_tuning(archive, cache):
    """Products that an earlier call tuned, so that this one does not try them again."""
    taken = 0
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            name = os.path.basename(member.name)
            if member.isfile() and name.startswith("tune-") and name.endswith(".json"):
                with open(os.path.join(cache, name), "wb") as out:
                    out.write(packed.extractfile(member).read())
                taken += 1
    return taken


def run(given):
    name = "first" if given.first else "measure"
    problem = gpu_problem()
    results = os.path.abspath(given.results or os.path.join(ROOT, "runs", "gpu"))
    # A folder of its own: two checks may start in the same second.
    runs = os.path.join(ROOT, "runs", "gpu")
    os.makedirs(runs, exist_ok=True)
    work = tempfile.mkdtemp(dir=runs, prefix="work-" + name + time.strftime("-%Y%m%dT%H%M%SZ-",
                                                                            time.gmtime()))
    if given.rehearse == "software":
        build, which = software_programs(given.build, work)
    else:
        build, which = find_build(given.build)
    settings = Settings(build, results, work, "gpu-" + name, given.budget or BUDGETS[name],
                        not problem, problem, given.rehearse, tuple(given.stage), given.cases)
    if not given.budget:
        settings.budget *= settings.slower
    print(which, flush=True)
    if problem and not given.rehearse:
        print(problem + "; --rehearse runs the stages without one", flush=True)
    check = Check(settings)
    cache = check.path("cache")
    os.makedirs(cache, exist_ok=True)
    os.environ["UNMASK_CACHE"] = cache
    if check.in_software:
        # Looking for races doubles the time; the kernels' own tests look (ctest -L softgpu).
        os.environ.setdefault("UNMASK_SOFTGPU_RACES", "off")
    if given.tuning:
        print(f"tuning: {take_tuning(given.tuning, cache)} files of {given.tuning}", flush=True)
    if name == "first":
        stages.first(check, given.goldens)
    else:
        stages.measure(check)
    headline = ("A rehearsal without a GPU: no number here says anything about one."
                if given.rehearse else settings.problem or "Measured on this machine's GPU.")
    text = summary.write(check, headline)
    shutil.copyfile(check.path("summary.md"), os.path.join(results, settings.name + ".md"))
    check.flush()
    print(text if not problem else f"results: {results}")
    print(f"{check.settings.budget - check.left():.0f} s of {settings.budget:.0f} s; "
          f"{settings.name}.tar.gz "
          f"{os.path.getsize(os.path.join(results, settings.name + '.tar.gz')) / 2**20:.1f} MiB")
    failed = [r for r in check.records if r["status"] in ("FAILED", "TIMEOUT")]
    if not given.keep:
        shutil.rmtree(work, ignore_errors=True)
    unknown = set(given.stage) - {r["stage"] for r in check.records}
    if unknown:
        print(f"gpu: --{name} has no stage {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    return 1 if failed else 0


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="./dev gpu", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--first", action="store_true", help="4 minutes: is it right?")
    what.add_argument("--measure", action="store_true", help="9 minutes: how fast is it?")
    what.add_argument("--pack", metavar="FILE.tar.xz",
                      help="write the programs with the libraries they load, and stop")
    what.add_argument("--report", metavar="ARCHIVE", nargs="+",
                      help="write results/gpu/measured.md from these archives, and stop")
    parser.add_argument("--rehearse", nargs="?", const="emulator", default="",
                        choices=("emulator", "software"),
                        help="without a GPU: the emulator and the CPU stand in, limits are the same; "
                             "software: what nvcc compiled runs on the GPU of tests/softgpu, shorter "
                             "and with limits 20 times as long")
    parser.add_argument("--stage", action="append", default=[], metavar="NAME",
                        help="run this stage only (repeatable)")
    parser.add_argument("--cases", default="", metavar="REGEX",
                        help="of the stages operations, ceilings, kernels, turns, memcheck and racecheck, run only "
                             "the cases whose name this finds: 'attention|experts'")
    parser.add_argument("--results", default="", help="folder of what comes back (runs/gpu)")
    parser.add_argument("--build", default="", help="folder of programs to take")
    parser.add_argument("--goldens", default=os.environ.get("UNMASK_GOLDENS", ""),
                        help="outputs of the official implementations (default: tests/goldens)")
    parser.add_argument("--budget", type=float, default=0, help="seconds for everything")
    parser.add_argument("--tuning", default="", help="archive of an earlier call, for its tuning")
    parser.add_argument("--keep", action="store_true", help="keep the working folder")
    parser.add_argument("--output", "-o", default=os.path.join("results", "gpu", "measured.md"),
                        help="of --report")
    parser.add_argument("--prediction", default="", help="of --report: JSON lines of the cost model")
    given = parser.parse_args(arguments)
    try:
        re.compile(given.cases)
    except re.error as why:
        parser.error(f"--cases {given.cases}: {why}")
    if given.pack:
        build = given.build or os.path.join(ROOT, "build", "release")
        if not given.build:
            subprocess.run([os.path.join(ROOT, "dev"), "build", "--preset", "release",
                            "unmask_gpu"], check=True)
        if not given.rehearse:
            packing.refuse_without_cuda(build)
        print(packing.pack(os.path.abspath(build), given.pack))
        return 0
    if given.report:
        return reporting.write(given.report, given.prediction, given.output)
    return run(given)


if __name__ == "__main__":
    sys.exit(main())
