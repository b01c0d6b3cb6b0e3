# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Counts what a kernel takes of a multiprocessor: registers, shared and local memory, and setmaxnreg."""

import dataclasses
import re

import flow
from wgmma import Finding, names

REGISTERS = 65536        # of a multiprocessor
BLOCKS = 32
RESERVED = 1 << 10       # shared memory that CUDA adds to every block
# Shared memory and warps of a multiprocessor.
LIMITS = {"sm_80": (164 << 10, 64), "sm_86": (100 << 10, 48), "sm_89": (100 << 10, 48),
          "sm_90": (228 << 10, 64), "sm_90a": (228 << 10, 64), "sm_100": (228 << 10, 64),
          "sm_100a": (228 << 10, 64), "sm_120": (100 << 10, 48), "sm_120a": (100 << 10, 48)}


@dataclasses.dataclass
class Residence:
    blocks: int              # of a multiprocessor at once
    warps: int
    held_by: str


def residence(kernel, shared_bytes=0, threads=0):
    """Returns how many blocks fit on a multiprocessor; None if the block's size is unknown. shared_bytes: dynamic."""
    threads = threads or kernel.threads
    if threads == 0:
        return None
    shared, most_warps = LIMITS[kernel.arch]
    warps = -(-threads // 32)
    each = -(-kernel.registers // 8) * 8 * 32          # registers of a warp; a thread gets a multiple of 8
    whole = -(-each // 256) * 256
    by = {"registers": REGISTERS // whole // warps if whole else BLOCKS,
          "warps": most_warps // warps, "blocks": BLOCKS}
    taken = kernel.shared + shared_bytes + (0 if kernel.shared >= RESERVED else RESERVED)
    by["shared memory"] = shared // taken
    held_by = min(by, key=by.get)
    return Residence(by[held_by], by[held_by] * warps, held_by)


def local_memory(kernel, loops, blocks):
    """Finds loads and stores of the stack. Those in a loop with products are severe."""
    found = []
    if kernel.stack or kernel.local:
        found.append(Finding("stack", 0, f"{kernel.stack + kernel.local} bytes of stack a thread",
                             severe=False))
    hot = {a for loop in loops if has_products(kernel, loop, blocks)
           for a in loop.addresses(blocks)}
    for ins in kernel.code:
        if ins.name in ("LDL", "STL"):
            in_hot = ins.address in hot
            where = " in a loop with tensor-core products" if in_hot else ""
            found.append(Finding("local-memory", ins.address, f"{ins}{where}", severe=in_hot))
    return found


TENSOR = ("HGMMA", "QGMMA", "IGMMA", "BGMMA", "HMMA", "IMMA", "DMMA", "QMMA", "OMMA")


def has_products(kernel, loop, blocks):
    return any(kernel.at(a).name in TENSOR for a in loop.addresses(blocks))


def highest(ins):
    return max(ins.reads | ins.writes, default=-1)


def asked(ins):
    """Returns (count, gives) if the instruction changes the number of registers, otherwise None."""
    found = re.match(r"(?:U\w+, )?(0x[0-9a-f]+|\d+)", ins.operands)
    if ins.name != "USETMAXREG" or not found:
        return None
    return int(found.group(1), 0), "DEALLOC" in ins.opcode


def setmaxnreg(kernel, blocks):
    """Finds registers above the count that was asked for, and counts that never fit into a block."""
    changes = [(ins, *asked(ins)) for ins in kernel.code if asked(ins)]
    if not changes:
        return []
    found = []
    for ins, count, gives in changes:
        if count % 8 or not 24 <= count <= 256:
            found.append(Finding("setmaxnreg", ins.address, f"{ins}: the count must be a multiple of 8 from 24 to 256"))
        if gives and count > kernel.registers or not gives and count < kernel.registers:
            found.append(Finding("setmaxnreg", ins.address,
                                 f"{ins}: the kernel starts with {kernel.registers}"))
        found += used_beyond(kernel, blocks, ins.address + 16, count)
    groups = kernel.threads // 128
    given = [c for _, c, g in changes if g]
    taken = [c for _, c, g in changes if not g]
    if given and taken and groups > len(given):
        # Each instruction that gives is of one warpgroup, and the others take.
        need = sum(given) + (groups - len(given)) * max(taken)
        # The kernel's own count, as launch allocates it: by eights.
        have = groups * -(-kernel.registers // 8) * 8
        if need > have:
            found.append(Finding(
                "setmaxnreg", changes[0][0].address,
                f"{len(given)} of {groups} warpgroups keep {sum(given)} registers and the others take {max(taken)}: they need "
                f"{need} registers per lane, the block has {have}: a warpgroup waits for ever"))
    return found


def used_beyond(kernel, blocks, start, count):
    """Finds an instruction after `start`, before the next change, that names a register from `count` on."""
    found, seen, work = [], set(), [start]
    while work:
        at = work.pop()
        while at not in seen and at < 16 * len(kernel.code):
            seen.add(at)
            ins = kernel.at(at)
            if asked(ins):
                break
            # nvdisasm marks a call by all that may come behind it, in other warpgroups too. The callee is followed instead.
            followed = ins.name == "CALL" and ins.target >= 0
            if highest(ins) >= count and not ins.never and not followed:
                found.append(Finding("setmaxnreg", at, f"{names({highest(ins)})} with {count} registers: {ins}"))
                return found
            if ins.name in flow.ENDS:
                work += flow.successors(kernel, ins)
                break
            at += 16
    return found
