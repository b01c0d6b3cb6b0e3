# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Finds registers that something touches while a product of warpgroups still uses them.

Such a product (wgmma, HGMMA in machine code) is asynchronous. Until a wait for its group, it reads the registers
of its left operand and changes those of its sums. PTX has registers without end, so no emulator of PTX can see that
two of them share one: ptxas decides that. Every path of the kernel is followed:

  HGMMA ... R24, R88, gdesc[UR4], R24         sums R24 ..., left operand R88 ... (or a second descriptor)
  HGMMA ..., gsb0                             ends a group (wgmma.commit_group)
  WARPGROUP.DEPBAR.LE gsb0, 0x1               all groups but the last one have ended (wgmma.wait_group)
  WARPGROUP.ARRIVE                            wgmma.fence
"""

import dataclasses
import re

import flow

PRODUCTS = ("HGMMA", "QGMMA", "IGMMA", "BGMMA")
DEEPEST = 8  # groups in flight; a loop that starts more than it waits for is cut here
MOST_STATES = 4000


@dataclasses.dataclass(frozen=True)
class Finding:
    kind: str                # see KINDS
    address: int
    text: str                # a sentence
    severe: bool = True


KINDS = {
    "operand-overwritten": "a register is written that a product in flight reads",
    "sum-overwritten": "a register is written in which a product in flight sums",
    "sum-read-early": "a register is read in which a product in flight sums",
    "operand-in-flight": "a product reads as left operand what another in flight still sums",
    "sums-overlap": "two products in flight sum in registers that only partly agree",
    "sum-over-operand": "a product sums in registers that another in flight reads",
    "no-fence": "a product takes registers that were written after the last WARPGROUP.ARRIVE",
    "never-waited": "a kernel ends while a product is in flight",
    "serialised": "ptxas waits after single products of a chain (warnings C7510 to C7515)",
    "injected": "ptxas adds a fence or a wait that the source lacks (C7517, C7519; of --log)",
}


def is_product(ins):
    return ins.name in PRODUCTS


def sums_of(ins):
    return ins.writes


def left_of(ins):
    """Returns the registers of the left operand: those that it reads and does not sum in."""
    return ins.reads - ins.writes


def ends_group(ins):
    return "gsb0" in ins.operands


def groups_left(ins):
    """Returns how many groups may be in flight after this wait; None if it waits for no product."""
    found = re.match(r"gsb0, (0x[0-9a-f]+|\d+)", ins.operands)
    if ins.opcode.startswith("WARPGROUP.DEPBAR") and found:
        return int(found.group(1), 0)
    return None


def names(registers):
    """Returns registers as text: R24..R27 R30."""
    runs = []
    for r in sorted(registers):
        if runs and r == runs[-1][1] + 1:
            runs[-1][1] = r
        else:
            runs.append([r, r])
    return " ".join(f"R{a}" if a == b else f"R{a}..R{b}" for a, b in runs)


class Path:
    """The products in flight at one address: closed groups, oldest first, and the open group. Each group is a
    set of addresses. Immutable."""
    __slots__ = ("closed", "open")

    def __init__(self, closed=(), open_=frozenset()):
        self.closed, self.open = closed, open_

    def key(self):
        return self.closed, self.open

    def products(self):
        return frozenset().union(*self.closed, self.open)

    def after(self, ins):
        if is_product(ins) and not ins.never:
            now = self.open | {ins.address}
            if ends_group(ins):
                return Path((self.closed + (now,))[-DEEPEST:])
            return Path(self.closed, now)
        left = groups_left(ins)
        if left is not None and ins.always:
            return Path(self.closed[len(self.closed) - left:] if left else (), self.open) \
                if len(self.closed) > left else self
        return self


def clash_of_product(kernel, ins, in_flight):
    found = []
    for address in in_flight:
        other = kernel.at(address)
        a, b = sums_of(ins), sums_of(other)
        if a & b and a != b:
            found.append(("sums-overlap", a & b, other))
        if left_of(ins) & b:
            found.append(("operand-in-flight", left_of(ins) & b, other))
        if a & left_of(other):
            found.append(("sum-over-operand", a & left_of(other), other))
    return found


def clash_of_other(kernel, ins, in_flight):
    found = []
    for address in in_flight:
        other = kernel.at(address)
        for kind, registers in (("operand-overwritten", ins.writes & left_of(other)),
                                ("sum-overwritten", ins.writes & sums_of(other)),
                                ("sum-read-early", ins.reads & sums_of(other))):
            if registers:
                found.append((kind, registers, other))
    return found


def hazards(kernel, blocks=None):
    """Finds registers of products in flight that something else touches, along any path."""
    blocks = blocks or flow.blocks_of(kernel)
    if not any(is_product(i) for i in kernel.code):
        return []
    found, seen, work = {}, set(), [(0, Path())]
    while work:
        at, path = work.pop()
        if (at, path.key()) in seen:
            continue
        seen.add((at, path.key()))
        if len(seen) > MOST_STATES:
            found["states"] = Finding("never-waited", at, "more states than can be followed: "
                                      "is a wait missing in a loop?")
            break
        for ins in flow.instructions(kernel, blocks[at]):
            in_flight = path.products()
            if in_flight and not ins.never:
                clash = clash_of_product if is_product(ins) else clash_of_other
                for kind, registers, other in clash(kernel, ins, in_flight):
                    found.setdefault((kind, ins.address), Finding(
                        kind, ins.address, f"{names(registers)}: {ins}  while in flight: {other}"))
            if ins.name == "EXIT" and in_flight and ins.always:
                found.setdefault(("never-waited", ins.address), Finding(
                    "never-waited", ins.address,
                    f"{ins} while in flight: {kernel.at(min(in_flight))}"))
            path = path.after(ins)
        work += [(to, path) for to in blocks[at].to if to in blocks]
    return sorted(found.values(), key=lambda f: f.address)


def unfenced(kernel, blocks=None):
    """Finds products that take registers written since the last WARPGROUP.ARRIVE on some path."""
    blocks = blocks or flow.blocks_of(kernel)
    if not any(is_product(i) for i in kernel.code):
        return []
    inside, found, work = {0: frozenset()}, {}, [0]
    while work:
        at = work.pop()
        written = set(inside[at])
        for ins in flow.instructions(kernel, blocks[at]):
            if ins.opcode.startswith("WARPGROUP.ARRIVE"):
                written = set()
            elif is_product(ins):
                taken = written & (left_of(ins) | (sums_of(ins) & ins.reads))
                if taken:
                    found[ins.address] = Finding(
                        "no-fence", ins.address, f"{names(taken)} written after the last "
                        f"WARPGROUP.ARRIVE: {ins}")
            elif not ins.never:
                written |= ins.writes
        for to in blocks[at].to:
            if to in blocks and (to not in inside or not written <= inside[to]):
                inside[to] = inside.get(to, frozenset()) | written
                work.append(to)
    return sorted(found.values(), key=lambda f: f.address)


def serialised(kernel, blocks=None):
    """Finds chains of products on the same sums with a full wait between each two, although nothing between them
    touches a register of either. ptxas gave up overlapping them."""
    blocks = blocks or flow.blocks_of(kernel)
    found = []
    for block in blocks.values():
        last, waited, touched = None, False, False
        for ins in flow.instructions(kernel, block):
            if is_product(ins):
                if last is not None and waited and not touched and sums_of(ins) == sums_of(last):
                    found.append(Finding(
                        "serialised", ins.address,
                        f"{last} is waited for, although only {ins} follows"))
                last, waited, touched = ins, False, False
            elif last is not None:
                waited = waited or groups_left(ins) == 0
                touched = touched or bool((ins.reads | ins.writes) & sums_of(last))
    return found


def check(kernel):
    blocks = flow.blocks_of(kernel)
    return hazards(kernel, blocks) + unfenced(kernel, blocks) + serialised(kernel, blocks)
