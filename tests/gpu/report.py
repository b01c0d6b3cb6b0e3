# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""results/gpu/measured.md from the archives that the GPU check brought back: what was measured, kernel
by kernel, beside what the cost model expected, and what was not measured and why."""

import json
import os
import sys
import tarfile
import tempfile

import summary
from runner import ROOT, json_lines

COMMITTED = os.path.join(ROOT, "results", "gpu", "measured.md")


def unpack(archives, folder):
    """All archives below one folder; later ones win. (name, stages, machine) of each archive."""
    found = []
    for archive in archives:
        with tarfile.open(archive) as packed:
            names = packed.getnames()
            if not any(n.endswith("/stages.jsonl") for n in names):
                sys.exit(f"gpu: {archive} holds no stages.jsonl: it is no archive of the GPU check")
            for member in packed.getmembers():
                if not member.isfile() or member.name.startswith("/") or ".." in member.name:
                    continue
                where = os.path.join(folder, *member.name.split("/")[1:])
                os.makedirs(os.path.dirname(where), exist_ok=True)
                with open(where, "wb") as out:
                    out.write(packed.extractfile(member).read())
        machine = {}
        environment = os.path.join(folder, "environment.json")
        if any(n.endswith("/environment.json") for n in names):
            with open(environment, encoding="utf-8") as text:
                machine = json.load(text)
        found.append((os.path.basename(archive).split(".")[0],
                      json_lines(os.path.join(folder, "stages.jsonl")), machine))
    return found


def machine_lines(archives):
    """A line for each machine, and one below it for each program, with the archives that are of it."""
    machines = {}
    for name, _, machine in archives:
        cards = [f"{gpu['name']}, {gpu['memory_bytes'] / 2**30:.0f} GiB, "
                 f"{gpu['multiprocessors']} multiprocessors, {gpu['l2_bytes'] / 2**20:.0f} MiB L2, "
                 f"driver {machine.get('gpu_driver')}, CUDA runtime {machine.get('cuda_runtime')}, "
                 f"SM clock at most {gpu.get('max_sm_clock_mhz')} MHz. "
                 for gpu in machine.get("gpus", [])]
        build = machine.get("build", {})
        program = (f"commit {build.get('git_commit')}{' (modified)' if build.get('git_dirty') else ''}, "
                   f"{build.get('build_type')}, CUDA {build.get('cuda_toolkit')} for "
                   f"{build.get('cuda_architectures')}")
        host = f"Host: {machine.get('cpu_model')}, {machine.get('cpus_usable')} processors."
        machines.setdefault("".join(cards) + host, {}).setdefault(program, []).append(f"`{name}`")
    return [line for machine, programs in machines.items()
            for line in [f"* {machine}", *(f"  * {', '.join(of)}: {program}." for program, of in programs.items())]]


def render(archives, prediction, folder):
    """(text, whether it was a rehearsal)."""
    found = unpack(archives, folder)
    rehearsed = {r.get("rehearsed") for _, records, _ in found for r in records} - {None, ""}
    lines = ["# Measured on a GPU", ""]
    if rehearsed:
        lines = ["# Rehearsal without a GPU", "",
                 "**No number below was measured on a GPU.** " +
                 ("A GPU in software" if "software" in rehearsed else "The emulator and the CPU") +
                 " stood in.", ""]
    lines += ["Written by `./dev gpu --report` from " +
              ", ".join(f"`{os.path.basename(a)}`" for a in archives) + ".", ""]
    lines += machine_lines(found)
    predictions = json_lines(prediction) if prediction else []
    for title, body in summary.measured_sections(folder, predictions):
        if body:
            lines += ["", f"## {title}", ""] + body
        if title == "Kernels" and body:
            lines += ["", "Predicted: what the cost model (`tests/cost_model`) expected when it was "
                      "asked; – where it has no kernel for the case."]
    lines += ["", "## Stages", ""]
    for name, records, _ in found:
        lines += [f"**{name}**", ""] + summary.stages_table(records) + [""]
    every = [r for _, records, _ in found for r in records]
    done = {r["stage"] for r in every if r["status"] == "OK"}
    missing = [f"* {r['stage']}: {r['status']}, {r['reason']}" for r in every if r["stage"] not in done]
    lines += ["## What is missing", ""] + (missing or ["Nothing: every stage is OK."])
    return "\n".join(lines) + "\n", bool(rehearsed)


def write(archives, prediction, output):
    with tempfile.TemporaryDirectory() as folder:
        text, rehearsed = render(archives, prediction, folder)
    if rehearsed and os.path.abspath(output) == COMMITTED:
        print("gpu: a rehearsal measured nothing on a GPU: its page does not go to results/gpu; "
              "name another file with -o", file=sys.stderr)
        return 2
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    with open(output, "w", encoding="utf-8") as out:
        out.write(text)
    print(f"written: {output}")
    return 0
