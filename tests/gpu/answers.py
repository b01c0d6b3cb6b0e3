# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The questions that a call on a GPU is to settle, answered in a line each from what it measured:
D1 which kernels are right, D2 own kernels against the libraries' and those before, D3 the roofs of a loaded card,
D4 prompts in the others' forward passes, D5 what is idle in a step of full depth."""

import os

from roofs import roofs_of
from runner import json_lines

ABSENT = "not measured"


def right_kernels(folder):
    """D1, from the operations of every size that ran: of the newer kernels, and of those before them."""
    said = []
    for which, end in (("", ""), ("before: ", "-before")):
        rows = [r for size in ("small", "large")
                for r in json_lines(os.path.join(folder, f"operations-{size}{end}.jsonl"))]
        wrong = sorted({r["operation"] for r in rows if not r["right"]})
        if rows:
            said.append(f"{which}{len(rows)} cases, " + ("all right" if not wrong else "WRONG: " + ", ".join(wrong)))
    return "; ".join(said) or ABSENT


def own_and_library(folder):
    """D2, from cases that were timed in turn: own time over that of the library or of the kernels before, less
    than 1 is faster."""
    def says(r, of, against):
        return f"{r['case']}, {r['way']}: {of['ratio']:.2f} ({of['low']:.2f} to {of['high']:.2f}) of {against}"

    said = []
    for r in json_lines(os.path.join(folder, "turns.jsonl")):
        if r.get("ratio"):
            said.append(says(r, r, r["against"]) + {True: ", taken", False: ", not taken"}.get(r.get("taken"), ""))
        if r.get("over_before"):
            said.append(says(r, r["over_before"], "kernels before"))
    return "; ".join(said) or ABSENT


def loaded_roofs(ceilings):
    """D3."""
    r = roofs_of(ceilings)
    if not r.loaded_products:
        return ABSENT
    return (f"{r.loaded_products / 1e12:.0f} of {r.products / 1e12:.0f} TFLOP/s, "
            f"{r.loaded_reads / 1e9:.0f} of {r.reads / 1e9:.0f} GB/s read")


def mixed_or_not(rows):
    """D4: tokens per second of policy mixed over iter, same method and slots."""
    rates = {}
    for r in rows:
        speed = r.get("metrics", {}).get("tokens_per_second")
        if speed:
            rates[r["label"], r["batch_size"], r.get("serve", {}).get("policy")] = speed
    said = [f"{label}, {slots} slots: {speed / rates[label, slots, 'iter']:.2f}"
            for (label, slots, policy), speed in rates.items()
            if policy == "mixed" and (label, slots, "iter") in rates]
    return "; ".join(said) or ABSENT


def idle_share(rows):
    """D5: the part of a pass in which no kernel ran, of profiles of whole models: kernels over the
    span from the first to the last of them."""
    said = []
    for row in rows:
        report = row.get("probes", {}).get("phases")
        if not report or not report.get("device_span") or " of " in row["model"]["name"]:
            continue
        idle = 1 - report["device_busy"] / report["device_span"]
        said.append(f"{row['label']}: {idle:.0%}".replace("%", " %"))
    return "; ".join(said) or ABSENT


def lines(folder, ceilings, throughput, profiles):
    """A table of five rows; [] where nothing was measured."""
    answers = [("D1", "which kernels are right", right_kernels(folder)),
               ("D2", "own time over that of the library or of the kernels before, in turn", own_and_library(folder)),
               ("D3", "roofs of a loaded card", loaded_roofs(ceilings)),
               ("D4", "tokens/s with prompts among the others, over without", mixed_or_not(throughput)),
               ("D5", "idle share of a step of full depth", idle_share(profiles))]
    if all(answer == ABSENT for _, _, answer in answers):
        return []
    return ["| | question | answer |", "|---|---|---|"] + [f"| {d} | {q} | {a} |" for d, q, a in answers]
