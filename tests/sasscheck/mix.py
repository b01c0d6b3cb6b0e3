# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Counts the instructions of loops with tensor-core products, and the least clocks of each unit.

The clocks are those of one turn of every resident warp of a multiprocessor. They are no times: latencies and waits
are unknown."""

import dataclasses
import heapq
import re

import flow
from occupancy import TENSOR, has_products

# Instructions by the unit that executes them, in the order in which they are tried.
CLASSES = [
    ("tensor", TENSOR),
    ("special", ("MUFU",)),
    ("float", ("FFMA", "FMUL", "FADD", "FFMA2", "FADD2", "FMUL2", "HFMA2", "HADD2", "HMUL2")),
    ("double", ("DFMA", "DADD", "DMUL", "DSETP")),
    ("convert", ("F2FP", "F2F", "I2F", "F2I", "I2FP", "F2IP", "FRND")),
    ("shared", ("LDS", "STS", "LDSM", "STSM", "ATOMS", "MATRIX")),
    ("memory", ("LDG", "STG", "LD", "ST", "LDGSTS", "LDL", "STL", "ATOM", "ATOMG", "RED", "LDC",
                "UTMALDG", "UTMASTG", "UBLKCP")),
    ("shuffle", ("SHFL", "VOTE", "MATCH", "REDUX")),
    ("to uniform", ("R2UR",)),
    ("wait", ("BAR", "DEPBAR", "LDGDEPBAR", "WARPGROUP", "SYNCS", "NANOSLEEP", "WARPSYNC",
              "ARRIVES", "FENCE", "MEMBAR", "UTMACMDFLUSH", "ERRBAR", "CCTL", "ELECT", "YIELD",
              "NOP")),
    ("control", ("BRA", "BSSY", "BSYNC", "EXIT", "CALL", "RET", "BREAK", "BRX", "JMP")),
]
# Clocks of a warp instruction on one of four schedulers; all others take one.
SPECIAL_CLOCKS = 8       # 4 lanes per clock
ALU_CLOCKS = 2           # 16 lanes per clock: integers, comparisons, minima, selections, conversions
SHARED_CLOCKS = 4        # of a multiprocessor, for 512 bytes (ldmatrix.x4, 16 bytes per lane)


def unit_of(ins):
    for unit, opcodes in CLASSES:
        if ins.name in opcodes:
            return unit
    if ins.name.startswith("U") and ins.name not in ("UTMALDG", "UTMASTG", "UBLKCP"):
        return "uniform"
    return "integer"


@dataclasses.dataclass
class Mix:
    loop: flow.Loop
    instructions: int
    units: dict              # instructions by unit
    tensor_clocks: float     # of a multiprocessor's tensor cores for one warpgroup, or one warp (mma.sync)
    group: int               # warps that share a product: 4 (wgmma) or 1

    def clocks(self, warps):
        """Returns the clocks of each unit for one turn of `warps` warps of a multiprocessor."""
        per_scheduler = warps / 4
        special = self.units.get("special", 0) * SPECIAL_CLOCKS * per_scheduler
        alu = sum(self.units.get(u, 0) for u in ("integer", "convert")) * ALU_CLOCKS * per_scheduler
        return {"tensor cores": self.tensor_clocks * warps / self.group,
                "issue": self.instructions * per_scheduler,
                "special functions": special,
                "shared memory": self.units.get("shared", 0) * SHARED_CLOCKS * warps,
                "integers and minima": alu}


def tensor_clocks_of(ins):
    """Returns the clocks of a product: HGMMA.64x128x16 has 64 128 16 products at 2048 per clock. HMMA.16816 runs at
    1024 (mma.sync on Hopper), tf32 at half and eight bits at twice the rate."""
    shape = re.search(r"\.(\d+)x(\d+)x(\d+)", ins.opcode)
    if shape:
        m, n, k = (int(x) for x in shape.groups())
        rate = 4096 if ins.name in ("QGMMA", "IGMMA") else 1024 if ".TF32" in ins.opcode else 2048
        return m * n * k / rate
    return {"16816": 2, "1688": 1, "16832": 2}.get((re.search(r"\.(\d+)", ins.opcode) or [0, ""])[1], 2)


def mixes(kernel, blocks, loops):
    """Returns the mix of every innermost loop with products, without inner loops that have none (waits)."""
    found = []
    for loop in loops:
        if not has_products(kernel, loop, blocks):
            continue
        if any(has_products(kernel, inner, blocks) for inner in loop.inner):
            continue
        left_out = {a for inner in loop.inner for a in inner.addresses(blocks)}
        units, clocks, count, group = {}, 0.0, 0, 1
        for address in loop.addresses(blocks):
            ins = kernel.at(address)
            if ins.never or address in left_out:
                continue
            count += 1
            units[unit_of(ins)] = units.get(unit_of(ins), 0) + 1
            if ins.name in TENSOR:
                clocks += tensor_clocks_of(ins)
                group = 4 if ins.name.endswith("GMMA") else 1
        found.append(Mix(loop, count, units, clocks, group))
    return found


def executed(kernel, block):
    return sum(not ins.never for ins in flow.instructions(kernel, block))


def turn(kernel, blocks, loop):
    """Returns the fewest and the most instructions that a warp executes in one turn of a loop. Inner loops, which
    only wait, are left out."""
    waiting = set().union(*(inner.blocks for inner in loop.inner))
    known = {}

    def behind(at):
        for to in blocks[at].to:
            if to == loop.head:
                yield 0, 0
            elif to in loop.blocks and not any(to == i.head and at in i.blocks for i in loop.inner):
                if count(to):
                    yield count(to)

    def count(at):
        if at not in known:
            own = 0 if at in waiting else executed(kernel, blocks[at])
            rest = list(behind(at))
            known[at] = (own + min(r[0] for r in rest), own + max(r[1] for r in rest)) if rest else None
        return known[at]

    return count(loop.head)


def passage(kernel, blocks, opcode, wanted):
    """Returns the fewest instructions of a path from a kernel's start to its end that executes `opcode` so many times;
    None if there is no such path."""
    end, seen, work = -1, set(), [(0, 0, 0)]
    while work:
        count, at, times = heapq.heappop(work)
        if (at, times) in seen:
            continue
        seen.add((at, times))
        if at == end:
            if times == wanted:
                return count
            continue
        count += executed(kernel, blocks[at])
        times += sum(i.name == opcode and not i.never for i in flow.instructions(kernel, blocks[at]))
        for to in [t for t in blocks[at].to if t in blocks] or [end]:
            heapq.heappush(work, (count, to, min(times, wanted)))
    return None


def describe(mix, warps):
    units = ", ".join(f"{n} {u}" for u, n in sorted(mix.units.items(), key=lambda x: -x[1]))
    clocks = mix.clocks(warps)
    most = max(clocks.values()) or 1
    return [f"loop at /*{mix.loop.head:04x}*/: {mix.instructions} instructions per warp: {units}",
            f"  clocks for {warps} warps: " +
            ", ".join(f"{u} {c:.0f}" for u, c in sorted(clocks.items(), key=lambda x: -x[1])) +
            f"; tensor cores busy at most {100 * clocks['tensor cores'] / most:.0f} %"]
