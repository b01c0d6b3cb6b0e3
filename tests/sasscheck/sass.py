# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Reads the machine code of kernels as a list of instructions.

nvdisasm decodes it. Its option --print-life-ranges marks the registers that each instruction reads ("v"),
writes ("^") or both ("x"), with all registers of wide operands. So nothing here has to know the width of an
operand."""

import dataclasses
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile


class ToolMissing(Exception):
    """nvdisasm or cuobjdump is missing; the sentence names their packages."""


class NotDecoded(Exception):
    """A listing has another form than this file expects."""


@dataclasses.dataclass
class Instruction:
    address: int
    predicate: str           # "@P0", "@!UP1" or ""
    opcode: str              # "HGMMA.64x64x16.F32.BF16"
    operands: str
    reads: frozenset         # general registers
    writes: frozenset
    target: int = -1         # of a branch or call

    @property
    def name(self):
        return self.opcode.split(".", 1)[0]

    @property
    def always(self):
        return self.predicate in ("", "@PT", "@UPT")

    @property
    def never(self):
        return self.predicate in ("@!PT", "@!UPT")

    def __str__(self):
        text = f"{self.predicate} {self.opcode} {self.operands}".strip()
        return f"/*{self.address:04x}*/ {text}"


@dataclasses.dataclass
class Kernel:
    name: str                # as the linker knows it
    code: list               # of Instruction, one every 16 bytes
    registers: int = 0       # of every thread at the start
    stack: int = 0
    local: int = 0
    shared: int = 0          # static
    threads: int = 0         # of a block, by __launch_bounds__; 0: unknown
    arch: str = ""
    text: str = ""           # demangled name

    def at(self, address):
        return self.code[address // 16]


# ---- tools ---------------------------------------------------------------------------------------

WHERE = "(a full CUDA toolkit, or the Python wheels of ./dev setup --sass)"
WHEELS = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "../../.venv/sass/lib/python*/site-packages/nvidia/*/bin")


def find_tool(name):
    """Returns the path of a CUDA tool: $NAME (upper case), PATH, the toolkit, .venv/sass, this Python."""
    asked = os.environ.get(name.upper())
    places = [asked] if asked else []
    places += [shutil.which(name)]
    places += sorted(glob.glob(f"/usr/local/cuda*/bin/{name}"))
    places += sorted(glob.glob(os.path.join(WHEELS, name)))
    for folder in sys.path:
        places += sorted(glob.glob(os.path.join(folder, "nvidia", "*", "bin", name)))
    for place in places:
        if place and os.access(place, os.X_OK):
            return place
    raise ToolMissing(f"NOT RUN: needs {name} {WHERE}")


def not_run(why):
    """Says why a check did not run. Returns its exit code: 77, and 1 in continuous integration (.ci/run), which
    installs every tool that a check needs."""
    print(why)
    if os.environ.get("UNMASK_CI", "") in ("", "0"):
        return 77
    print("UNMASK_CI is set: a check that does not run is a failure")
    return 1


def output_of(command, cwd=None):
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode != 0:
        raise NotDecoded(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[:400]}")
    return done.stdout


def cubins_of(path, arch, folder):
    """Writes the machine code for `arch` of an object, library or program into files; a cubin is used as it is."""
    with open(path, "rb") as file:
        head = file.read(20)
    if head[:4] == b"\x7fELF" and head[18:20] == b"\xbe\x00":  # EM_CUDA
        return [os.path.abspath(path)]
    inside = tempfile.mkdtemp(dir=folder)
    output_of([find_tool("cuobjdump"), "-arch", arch, "-xelf", "all", os.path.abspath(path)],
              cwd=inside)
    return sorted(glob.glob(os.path.join(inside, "*.cubin")))


def kernels_of(path, arch="sm_90a"):
    """Returns every kernel of a file."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for cubin in cubins_of(path, arch, folder):
            listing = output_of([find_tool("nvdisasm"), "--print-life-ranges", "--life-range-mode",
                                 "narrow", cubin])
            resources = output_of([find_tool("cuobjdump"), "--dump-resource-usage", cubin])
            found += parse(listing, resources, arch)
    return found


def demangled(names):
    """Returns names as in the source, without parameters; unchanged if c++filt is missing."""
    tool = shutil.which("c++filt") or shutil.which("cu++filt")
    if not tool or not names:
        return list(names)
    done = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, check=True)
    return [short(line) for line in done.stdout.rstrip("\n").split("\n")]


def short(name):
    name = re.sub(r"\([^()]*\)$", "", name).replace("(anonymous namespace)::", "")
    name = re.sub(r"^void ", "", name)
    return re.sub(r"\((?:bool|int|unsigned int)\)", "", name)


# ---- the listing ---------------------------------------------------------------------------------

SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
INFO = re.compile(r"^\s*\.section\s+\.nv\.info\.([^,\s]+)")
LINE = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;\s*// \|(.*)$")
LABEL = re.compile(r"^([.$\w]+):")
PARTS = re.compile(r"^(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*)$")
BRANCHES = ("BRA", "BRX", "JMP", "JMX", "CALL", "BRXU", "JMXU")
MARK = re.compile("[v^x]")


def columns(text):
    """Returns the registers read and written by one group of life-range columns, such as " ::v ^x "."""
    marks = [(m.start(), m.group()) for m in MARK.finditer(text)]
    return frozenset(i for i, c in marks if c != "^"), frozenset(i for i, c in marks if c != "v")


def starts_of_columns(header):
    """Returns the column of the first register in each group of the line of last digits, `| # 0123 |`."""
    found = []
    for group in header.split("|")[1:]:
        hash_at = group.find("#")
        found.append(hash_at + 2 if hash_at >= 0 else 0)
    return found


def instruction_of(match, starts):
    parts = PARTS.match(match.group(2))
    if parts is None:
        raise NotDecoded("this is no instruction: " + match.group(2))
    general = match.group(3).split("|", 1)[0]  # behind it: predicates, uniform registers
    reads, writes = columns(general[starts[0]:]) if starts else (frozenset(), frozenset())
    return Instruction(int(match.group(1), 16), (parts.group(1) or "").strip(), parts.group(2), parts.group(3), reads,
                       writes)


def parse(listing, resources="", arch=""):
    """Returns the kernels of nvdisasm's listing with life ranges and of cuobjdump's table of resources."""
    kernels, labels, starts = [], {}, []
    info, kernel, threads = None, None, {}
    waiting = False  # for the words of EIATTR_MAX_THREADS
    words = []
    for line in listing.split("\n"):
        section = SECTION.match(line)
        if section:
            kernel = Kernel(section.group(1), [], arch=arch)
            kernels.append(kernel)
            labels[kernel.name] = {}
            info = None
            continue
        found = INFO.match(line)
        if found:
            info, kernel = found.group(1), None
            continue
        if info is not None:
            if "EIATTR_" in line:
                waiting, words = "EIATTR_MAX_THREADS" in line or "EIATTR_REQNTID" in line, []
            elif waiting and ".word" in line:
                words.append(int(line.split(".word")[1].strip(), 0))
                if len(words) == 3:
                    threads[info] = words[0] * words[1] * words[2]
            continue
        if kernel is None:
            continue
        if "// |" in line and re.search(r"// \|\s+# 0", line):
            starts = starts_of_columns(line[line.index("// |"):])
            continue
        match = LINE.match(line)
        if match:
            kernel.code.append(instruction_of(match, starts))
            continue
        label = LABEL.match(line)
        if label:
            labels[kernel.name][label.group(1)] = 16 * len(kernel.code)
    finish(kernels, labels, threads, resources)
    return kernels


def finish(kernels, labels, threads, resources):
    """Fills targets of branches, and each kernel's name and resources."""
    for kernel in kernels:
        for i, ins in enumerate(kernel.code):
            if ins.address != 16 * i:
                raise NotDecoded(f"{kernel.name}: {ins} is instruction {i}")
            if ins.name in BRANCHES:
                at = re.search(r"`\(([^)]+)\)", ins.operands)
                if at:
                    ins.target = labels[kernel.name].get(at.group(1).split(" ")[0], -1)
        kernel.threads = threads.get(kernel.name, 0)
    pattern = r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)"
    said = {m.group(1): [int(x) for x in m.groups()[1:]] for m in re.finditer(pattern, resources)}
    for kernel, text in zip(kernels, demangled([k.name for k in kernels])):
        kernel.text = text
        if kernel.name in said:
            kernel.registers, kernel.stack, kernel.shared, kernel.local = said[kernel.name]
