#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Checks the machine code that ptxas made of kernels, for faults that no emulator and no PTX can show.

    check.py FILE ...                     objects, libraries, programs or cubins; patterns with ** too
    check.py FILE --kernels attention --mix
    check.py FILE --budget budget.json    also checks that as many blocks are resident as its "resident_blocks" say,
                                          and that warps execute as many instructions as its "executed" says
    check.py FILE --log ptxas.log ...     also reads ptxas' warnings C7510 to C7519; patterns too
    check.py FILE --json                  prints one object per kernel

Exit code: 0 nothing severe, 1 something severe, 2 usage, 77 nvdisasm or cuobjdump is missing (NOT RUN)."""

import argparse
import glob
import json
import re
import sys

import flow
import mix
import occupancy
import sass
import wgmma
from wgmma import Finding

COUNTED = "sm_90a"  # whose instructions the budget's "executed" counts
# (C7513) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ... 'kernel'
# (C7519) warpgroup.arrive is injected in around line 12 by compiler ... in function 'kernel'
WARNING = re.compile(r"\((C75\d\d)\) ([^\n]*?)'([^'\n]+)'")


def expected_of(kernel, budget):
    """Returns (pattern, {"shared": bytes, "blocks": number}) of the first budget line that names the kernel."""
    name = kernel.text or kernel.name
    return next(((p, e) for p, e in budget.items() if p in name), ("", {"shared": 0, "blocks": 0}))


def line_of(kernel, lines):
    """Returns the key of the first line of the budget that names the kernel; "" if none does."""
    return next((key for key in lines if key in (kernel.text or kernel.name)), "")


def counted(kernel, blocks, mixes, line):
    """Returns what a warp executes of a kernel, as its line of the budget's "executed" counts it: in a turn of the loop
    with the most products, or on the shortest way through with so many exponentials."""
    if "exponentials" in line:
        way = mix.passage(kernel, blocks, "MUFU", line["exponentials"])
        counts = {"fewest": way}
    else:
        most = max((m.units.get("tensor", 0) for m in mixes), default=0)
        turns = [mix.turn(kernel, blocks, m.loop) for m in mixes if m.units.get("tensor", 0) == most]
        fewest, most = min(turns, key=lambda t: t[1], default=(None, None))
        counts = {"fewest": fewest, "most": most}
    return {**{key: count and round(count / line["of"], 1) for key, count in counts.items()},
            "registers": kernel.registers}


def over_executed(kernel, blocks, mixes, lines):
    """Finds counts that differ from the budget, whose numbers a page shows."""
    key = line_of(kernel, lines)
    if not key:
        return []
    counts = counted(kernel, blocks, mixes, lines[key])
    return [Finding("executed", 0, f"{what}: {count}, the budget says {lines[key].get(what)} of {key}")
            for what, count in counts.items() if count != lines[key].get(what)]


def report_of(kernel, budget, executed=None):
    blocks = flow.blocks_of(kernel)
    # Loops are asked for their products alone.
    loops = flow.loops_of(kernel, blocks) if any(i.name in occupancy.TENSOR for i in kernel.code) else []
    mixes = mix.mixes(kernel, blocks, loops)
    pattern, expected = expected_of(kernel, budget)
    residence = occupancy.residence(kernel, expected["shared"])
    findings = wgmma.check(kernel)
    findings += occupancy.local_memory(kernel, loops, blocks)
    findings += occupancy.setmaxnreg(kernel, blocks)
    if residence and residence.blocks < expected["blocks"]:
        findings.append(Finding("occupancy", 0, f"{residence.blocks} blocks are resident, by {residence.held_by}; the "
                                f"budget wants {expected['blocks']} of {pattern}"))
    findings += over_executed(kernel, blocks, mixes, executed or {})
    return {"kernel": kernel.text or kernel.name, "registers": kernel.registers, "stack": kernel.stack,
            "threads": kernel.threads, "instructions": len(kernel.code),
            "products": sum(wgmma.is_product(i) for i in kernel.code), "residence": residence, "findings": findings,
            "mixes": mixes, "pattern": pattern, "line": line_of(kernel, executed or {})}


def files_of(patterns):
    return [f for pattern in patterns for f in sorted(glob.glob(pattern, recursive=True)) or [pattern]]


def warned(logs):
    """Returns ptxas' warnings about products as {kernel: findings}."""
    found = {}
    for log in logs:
        with open(log, encoding="utf-8", errors="replace") as text:
            for number, said, name in WARNING.findall(text.read()):
                kind = "serialised" if "serialized" in said else "injected"
                found.setdefault(name, []).append(Finding(kind, 0, f"{number}: {said.strip()}"))
    return found


def lines_of(report, want_mix, most):
    r = report["residence"]
    head = f"{report['kernel']}: {report['registers']} registers"
    if r:
        head += f", {r.blocks} resident blocks ({r.warps} warps), limited by {r.held_by}"
    lines, shown = [head], {}
    for f in report["findings"]:
        shown[f.kind] = shown.get(f.kind, 0) + 1
        if shown[f.kind] <= most:
            lines.append(f"  {'FAULT' if f.severe else 'note '} {f.kind}: {f.text}")
    lines += [f"  ... {count} of {kind} in all" for kind, count in shown.items() if count > most]
    if want_mix:
        warps = r.warps if r and r.warps else 4
        lines += ["  " + line for m in report["mixes"] for line in mix.describe(m, warps)]
    return lines


def plain(report):
    return {**report, "findings": [vars(f) for f in report["findings"]],
            "residence": vars(report["residence"]) if report["residence"] else None,
            "mixes": [{"head": m.loop.head, "instructions": m.instructions, "units": m.units,
                       "tensor_clocks": m.tensor_clocks} for m in report["mixes"]]}


def budget_of(path):
    """Returns the lines of a budget about resident blocks, and about executed instructions."""
    if not path:
        return {}, {}
    with open(path, encoding="utf-8") as file:
        whole = json.load(file)
    return whole["resident_blocks"], whole.get("executed", {})


def missing_of(budget, executed, named, given):
    """Returns a sentence for every line of the budget that no kernel has; nothing if kernels were chosen."""
    if given.kernels:
        return []
    return [f"{pattern} is in the budget and in no file" for pattern in [*budget, *executed] if pattern not in named]


def unheard(said, seen, given):
    """Returns ptxas' warnings about kernels that are in no file; nothing if kernels were chosen."""
    return [] if given.kernels else [f"{name}: {f.text}" for name, found in said.items() if name not in seen
                                     for f in found]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--kernels", default="", help="check only kernels whose names match")
    parser.add_argument("--budget", default="", help="file with the wanted resident blocks")
    parser.add_argument("--log", default=[], nargs="+", help="outputs of ptxas, for its warnings")
    parser.add_argument("--mix", action="store_true", help="count the instructions of loops with products")
    parser.add_argument("--most", type=int, default=3, help="findings of a kind and kernel to print")
    parser.add_argument("--quiet", action="store_true", help="print only kernels with something severe")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    severe, count, named, seen, said = 0, 0, set(), set(), {}
    try:
        budget, executed = budget_of(given.budget)
        executed = executed if given.arch == COUNTED else {}
        said = warned(files_of(given.log))
        for kernel in (k for f in files_of(given.files) for k in sass.kernels_of(f, given.arch)):
            if given.kernels and not re.search(given.kernels, kernel.text or kernel.name):
                continue
            report = report_of(kernel, budget, executed)
            report["findings"] += said.get(kernel.name, [])
            bad = sum(f.severe for f in report["findings"])
            severe, count = severe + bad, count + 1
            named |= {report["pattern"], report["line"]}
            seen.add(kernel.name)
            if given.json:
                print(json.dumps(plain(report)))
            elif bad or not given.quiet:
                print("\n".join(lines_of(report, given.mix, given.most)))
    except sass.ToolMissing as why:
        heard = unheard(said, seen, given)  # a log needs no tool
        for sentence in heard:
            print(sentence)
        return 1 if heard else sass.not_run(why)
    except (sass.NotDecoded, OSError) as why:
        print(f"check.py: {why}", file=sys.stderr)
        return 1
    wrong = missing_of(budget, executed, named, given) + unheard(said, seen, given)
    for sentence in wrong:
        print(sentence)
    if not given.json:
        print(f"{count} kernels, {severe} severe findings")
    return 1 if severe or wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
