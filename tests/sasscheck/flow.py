# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Finds basic blocks, their successors and loops in a kernel's machine code."""

import dataclasses

ENDS = ("EXIT", "RET", "BRA", "BRX", "JMP", "JMX", "KILL", "CALL", "BRXU", "JMXU")


@dataclasses.dataclass
class Block:
    first: int               # address of the first instruction
    last: int                # address after the last instruction
    to: list                 # addresses of the blocks that may follow


def successors(kernel, ins):
    """Returns the addresses that may be executed next. A call may return to the address after it."""
    behind = [ins.address + 16] if ins.address + 16 < 16 * len(kernel.code) else []
    if ins.name in ("EXIT", "KILL"):
        return [] if ins.always else behind
    if ins.name == "RET":
        return [] if ins.always else behind  # it returns to addresses after calls
    if ins.name in ("BRX", "JMX", "BRXU", "JMXU") and ins.target < 0:
        return behind + [b.address for b in kernel.code if b.name == "BRX"]
    if ins.name in ENDS:
        to = [ins.target] if ins.target >= 0 else []
        if ins.name == "CALL" or not ins.always or ".DIV" in ins.opcode or ".CONV" in ins.opcode:
            to += behind
        return to
    return behind


def blocks_of(kernel):
    """Returns the basic blocks by address."""
    if not kernel.code:
        return {}
    heads = {0}
    for ins in kernel.code:
        if ins.name in ENDS:
            heads.add(ins.address + 16)
            heads.update(successors(kernel, ins))
    heads = sorted(h for h in heads if 0 <= h < 16 * len(kernel.code))
    blocks = {}
    for first, behind in zip(heads, heads[1:] + [16 * len(kernel.code)]):
        blocks[first] = Block(first, behind, successors(kernel, kernel.at(behind - 16)))
    return blocks


def instructions(kernel, block):
    return kernel.code[block.first // 16:block.last // 16]


def dominators(blocks):
    """Returns, for every reachable block, the blocks that are on every path to it; and the predecessors."""
    order, seen, stack = [], set(), [(0, iter(blocks[0].to))]
    seen.add(0)
    while stack:
        at, rest = stack[-1]
        following = next((b for b in rest if b in blocks and b not in seen), None)
        if following is None:
            order.append(at)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(blocks[following].to)))
    order.reverse()
    before = {b: [] for b in order}
    for b in order:
        for s in blocks[b].to:
            if s in before:
                before[s].append(b)
    every = set(order)
    found = {b: every for b in order}
    found[0] = {0}
    changed = True
    while changed:
        changed = False
        for b in order:
            if b == 0:
                continue
            fresh = set.intersection(*(found[p] for p in before[b])) | {b}
            if fresh != found[b]:
                found[b], changed = fresh, True
    return found, before


@dataclasses.dataclass
class Loop:
    head: int                # address of the block that the loop returns to
    blocks: set              # addresses of its blocks
    inner: list              # loops inside it

    def addresses(self, blocks):
        return [a for b in sorted(self.blocks) for a in range(blocks[b].first, blocks[b].last, 16)]


def loops_of(kernel, blocks=None):
    """Returns the natural loops, innermost first."""
    blocks = blocks or blocks_of(kernel)
    if not blocks:
        return []
    over, before = dominators(blocks)
    loops = {}
    for b in over:
        for head in blocks[b].to:
            if head not in over[b]:
                continue
            body, work = {head, b}, [b]
            while work:
                at = work.pop()
                if at == head:
                    continue
                for p in before[at]:
                    if p not in body:
                        body.add(p)
                        work.append(p)
            loops.setdefault(head, Loop(head, set(), [])).blocks |= body
    found = sorted(loops.values(), key=lambda l: len(l.blocks))
    for i, loop in enumerate(found):
        loop.inner = [l for l in found[:i] if l.blocks < loop.blocks]
    return found
