#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Tests the checker on instructions made by hand, on a recorded listing and on logs. With --compiled it tests the kernels of
cases/ instead, and machine code from which single instructions were taken; without nvcc, nvdisasm and cuobjdump it
then says NOT RUN with exit code 77."""

import contextlib
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import flow  # noqa: E402
import check  # noqa: E402
import executed  # noqa: E402
import mix  # noqa: E402
import occupancy  # noqa: E402
import sass  # noqa: E402
import wgmma  # noqa: E402
from sass import Instruction, Kernel  # noqa: E402


def span(first, count):
    return frozenset(range(first, first + count))


def kernel_of(*lines, **about):
    """A kernel of (opcode, operands, reads, writes[, target]) or (predicate, opcode, ...)."""
    code = []
    for i, line in enumerate(lines):
        predicate = ""
        if line[0].startswith("@"):
            predicate, line = line[0], line[1:]
        opcode, operands, reads, writes = (list(line) + ["", (), ()])[:4] if len(line) < 4 else line[:4]
        target = line[4] * 16 if len(line) > 4 else -1
        code.append(Instruction(16 * i, predicate, opcode, operands, frozenset(reads),
                                frozenset(writes), target))
    return Kernel("k", code, **about)


def product(sums, left=(), ends=False):
    return ("HGMMA.64x64x16.F32.BF16", "..." + (", gsb0" if ends else ""),
            sums | frozenset(left), sums)


ARRIVE = ("WARPGROUP.ARRIVE", "", (), ())
EXIT = ("EXIT", "", (), ())
SCORES, OUT, WEIGHTS = span(24, 32), span(64, 64), span(130, 4)


def wait(left):
    return ("WARPGROUP.DEPBAR.LE", f"gsb0, {left:#x}", (), ())


def write(register):
    return ("FADD", f"R{register}, ...", {1}, {register})


def read(register):
    return ("FADD", f"R2, R{register}", {register}, {2})


def kinds(*lines):
    return {f.kind for f in wgmma.check(kernel_of(*lines))}


class Hazards(unittest.TestCase):
    def test_a_product_that_is_waited_for_is_right(self):
        self.assertEqual(kinds(ARRIVE, product(OUT, WEIGHTS, True), wait(0), write(130), read(64),
                               write(70), EXIT), set())

    def test_registers_of_a_product_in_flight(self):
        begin = (ARRIVE, product(OUT, WEIGHTS, True))
        end = (wait(0), EXIT)
        self.assertEqual(kinds(*begin, write(131), *end), {"operand-overwritten"})
        self.assertEqual(kinds(*begin, write(64), *end), {"sum-overwritten"})
        self.assertEqual(kinds(*begin, read(127), *end), {"sum-read-early"})
        self.assertEqual(kinds(*begin, read(130), *end), set())  # reading an operand twice is no fault

    def test_a_wait_leaves_the_last_groups_in_flight(self):
        begin = (ARRIVE, product(SCORES, (), True), product(OUT, WEIGHTS, True))
        self.assertEqual(kinds(*begin, wait(1), read(24), wait(0), EXIT), set())
        self.assertEqual(kinds(*begin, wait(1), write(133), wait(0), EXIT), {"operand-overwritten"})
        self.assertEqual(kinds(*begin, wait(2), read(24), wait(0), EXIT), {"sum-read-early"})

    def test_products_of_a_group_that_is_still_open_are_in_flight(self):
        self.assertEqual(kinds(ARRIVE, product(OUT, WEIGHTS), wait(0), write(130), EXIT),
                         {"operand-overwritten", "never-waited"})

    def test_a_predicated_wait_does_not_count(self):
        self.assertIn("sum-read-early", kinds(ARRIVE, product(SCORES, (), True),
                                              ("@P0",) + wait(0), read(24), wait(0), EXIT))

    def test_products_may_sum_in_the_same_registers_only_as_a_whole(self):
        self.assertEqual(kinds(ARRIVE, product(OUT), product(OUT, (), True), wait(0), EXIT), set())
        self.assertEqual(kinds(ARRIVE, product(OUT), product(span(64, 32), (), True), wait(0), EXIT),
                         {"sums-overlap"})
        self.assertEqual(kinds(ARRIVE, product(SCORES), product(OUT, span(24, 4), True), wait(0),
                               EXIT), {"operand-in-flight"})
        self.assertEqual(kinds(ARRIVE, product(OUT, span(24, 4)), product(SCORES, (), True), wait(0),
                               EXIT), {"sum-over-operand"})

    def test_a_hazard_is_found_across_the_turns_of_a_loop(self):
        # 0 arrive, 1 product, 2 wait<1> leaves it in flight, 3 branch to 0, ...: 0 writes its operand.
        self.assertIn("operand-overwritten", kinds(
            write(130), ARRIVE, product(OUT, WEIGHTS, True), wait(1),
            ("@P0", "BRA", "`(.L)", (), (), 0), wait(0), EXIT))

    def test_either_side_of_a_branch_is_followed(self):
        self.assertIn("sum-read-early", kinds(
            ARRIVE, product(SCORES, (), True), ("@P0", "BRA", "`(.L)", (), (), 4), wait(0), read(24),
            EXIT))

    def test_operands_written_after_the_fence(self):
        self.assertEqual(kinds(ARRIVE, write(130), product(OUT, WEIGHTS, True), wait(0), EXIT),
                         {"no-fence"})
        self.assertEqual(kinds(write(130), ARRIVE, product(OUT, WEIGHTS, True), wait(0), EXIT), set())

    def test_a_missing_fence_and_a_missing_wait_are_severe(self):
        for lines in ((ARRIVE, write(130), product(OUT, WEIGHTS, True), wait(0), EXIT),
                      (write(130), ARRIVE, product(OUT, WEIGHTS, True), EXIT)):
            self.assertEqual([f.severe for f in check.report_of(kernel_of(*lines), {})["findings"]], [True])

    def test_a_chain_with_waits_between_was_serialised(self):
        self.assertEqual(kinds(ARRIVE, product(OUT, (), True), wait(0), ARRIVE,
                               product(OUT, (), True), wait(0), EXIT), {"serialised"})
        self.assertEqual(kinds(ARRIVE, product(OUT, (), True), wait(0), read(64), ARRIVE,
                               product(OUT, (), True), wait(0), EXIT), set())

    def test_a_loop_that_never_waits_ends(self):
        self.assertIn("never-waited", kinds(ARRIVE, product(OUT, WEIGHTS, True),
                                            ("@P0", "BRA", "`(.L)", (), (), 0), EXIT))


class Occupancy(unittest.TestCase):
    def test_occupancy(self):
        k = kernel_of(EXIT, registers=128, threads=256, arch="sm_90a")
        self.assertEqual(occupancy.residence(k), occupancy.Residence(2, 16, "registers"))
        self.assertEqual(occupancy.residence(k, 98816).blocks, 2)
        self.assertEqual(occupancy.residence(k, 160 << 10),
                         occupancy.Residence(1, 8, "shared memory"))
        self.assertIsNone(occupancy.residence(kernel_of(EXIT, registers=32)))

    def test_fewer_resident_blocks_than_the_budget_wants(self):
        k = kernel_of(EXIT, registers=168, threads=256, arch="sm_90a", text="attention_kernel<128>")
        found = [f.text for f in check.report_of(k, {"attention_kernel<128": {"shared": 0, "blocks": 2}})["findings"]]
        self.assertEqual(len(found), 1)
        self.assertIn("1 blocks are resident, by registers; the budget wants 2", found[0])
        self.assertEqual(check.report_of(k, {"attention_kernel<128": {"shared": 0, "blocks": 1}})["findings"], [])

    def test_setmaxnreg(self):
        def kernel(give, take, used):
            return kernel_of(("@P0", "BRA", "`(.L)", (), (), 4),
                             ("USETMAXREG.DEALLOC.CTAPOOL", f"{give:#x}"), write(3), EXIT,
                             ("USETMAXREG.TRY_ALLOC.CTAPOOL", f"UP0, {take:#x}"), write(used), EXIT,
                             registers=168, threads=384)

        def said(*of):
            k = kernel(*of)
            return [f.text for f in occupancy.setmaxnreg(k, flow.blocks_of(k))]
        self.assertEqual(said(24, 240, 239), [])
        self.assertIn("they need 520", " ".join(said(40, 240, 100)))
        self.assertIn("R240 with 240", " ".join(said(24, 240, 240)))
        self.assertIn("multiple of 8", " ".join(said(20, 240, 100)))

    def test_setmaxnreg_of_two_warpgroups_that_give(self):
        def said(*give):
            k = kernel_of(*(("USETMAXREG.DEALLOC.CTAPOOL", f"{n:#x}") for n in give),
                          ("USETMAXREG.TRY_ALLOC.CTAPOOL", "UP0, 0xc8"), write(3), EXIT, registers=128, threads=512)
            return " ".join(f.text for f in occupancy.setmaxnreg(k, flow.blocks_of(k)))
        self.assertEqual(said(72, 40), "")
        self.assertIn("2 of 4 warpgroups keep 120 registers and the others take 200: they need 520", said(80, 40))
        self.assertIn("they need 640", said(40))

    def test_setmaxnreg_follows_a_call(self):
        def said(target, of_callee):
            k = kernel_of(("USETMAXREG.DEALLOC.CTAPOOL", "0x28"), ("CALL.REL.NOINC", "`(.L)", (), {163}, target), write(3),
                          EXIT, write(of_callee), ("RET.REL.NODEC", "R20 `(k)", {20}, ()), registers=168, threads=384)
            return " ".join(f.text for f in occupancy.used_beyond(k, flow.blocks_of(k), 16, 40))
        self.assertEqual(said(4, 29), "")
        self.assertIn("R40 with 40", said(4, 40))
        self.assertIn("R163 with 40", said(-1, 29), "where it goes is not known")

    def test_local_memory_is_worst_in_a_loop_with_products(self):
        k = kernel_of(("STL", "[R1], R2", {1, 2}, ()), ARRIVE, product(OUT, (), True), wait(0),
                      ("LDL", "R2, [R1]", {1}, {2}), ("@P0", "BRA", "`(.L)", (), (), 1), EXIT,
                      stack=8)
        blocks = flow.blocks_of(k)
        found = occupancy.local_memory(k, flow.loops_of(k, blocks), blocks)
        self.assertEqual([(f.kind, f.severe) for f in found],
                         [("stack", False), ("local-memory", False), ("local-memory", True)])


class Loops(unittest.TestCase):
    def test_mix_of_the_innermost_loop_with_products(self):
        k = kernel_of(write(3), ARRIVE, product(SCORES, (), True), wait(0),
                      ("SYNCS.PHASECHK", "P0", (), ()), ("@P0", "BRA", "`(.W)", (), (), 4),
                      ("MUFU.EX2", "R24, R24", {24}, {24}), ("@P1", "BRA", "`(.L)", (), (), 1), EXIT)
        blocks = flow.blocks_of(k)
        found = mix.mixes(k, blocks, flow.loops_of(k, blocks))
        self.assertEqual(len(found), 1)
        self.assertEqual(found[0].units, {"tensor": 1, "wait": 2, "special": 1, "control": 1})
        self.assertEqual(found[0].tensor_clocks, 32)
        self.assertEqual(found[0].clocks(8)["tensor cores"], 64)


    def test_turns_of_a_loop(self):
        # 0 before; 1 product, 2 branch over 3 and 4, 5 a wait of its own loop, 6 branch there, 7 back to 1.
        k = kernel_of(write(3), product(SCORES, (), True), ("@P0", "BRA", "`(.A)", (), (), 5), write(4), write(5),
                      ("SYNCS.PHASECHK", "P0", (), ()), ("@P1", "BRA", "`(.W)", (), (), 5),
                      ("@P2", "BRA", "`(.L)", (), (), 1), EXIT)
        blocks = flow.blocks_of(k)
        loop = next(m.loop for m in mix.mixes(k, blocks, flow.loops_of(k, blocks)))
        self.assertEqual(mix.turn(k, blocks, loop), (3, 5))

    def test_the_way_with_all_exponentials(self):
        ex2 = ("MUFU.EX2", "R24, R24", {24}, {24})
        k = kernel_of(("@P0", "EXIT"), ("@P0", "BRA", "`(.A)", (), (), 4), ex2, write(3), ex2, EXIT)
        blocks = flow.blocks_of(k)
        self.assertEqual([mix.passage(k, blocks, "MUFU", n) for n in (1, 2, 3)], [4, 6, None])

    def test_other_counts_than_the_budget_says(self):
        k = kernel_of(product(SCORES, (), True), write(3), ("@P0", "BRA", "`(.L)", (), (), 0), wait(0), EXIT,
                      registers=40, text="planted_kernel<1>")

        def said(**line):
            report = check.report_of(k, {}, {"planted_kernel<1>": {"each": "turn", "of": 2, **line}})
            return [f.text for f in report["findings"] if f.kind == "executed"]
        self.assertEqual(said(fewest=1.5, most=1.5, registers=40), [])
        self.assertEqual(said(fewest=1.5, most=2, registers=48),
                         ["most: 1.5, the budget says 2 of planted_kernel<1>",
                          "registers: 40, the budget says 48 of planted_kernel<1>"])

    def test_the_table_of_what_is_executed(self):
        line = {"each": "turn", "of": 2, "fewest": 216, "most": 248, "registers": 168}
        budget = {"executed": {"a_kernel<1>": line, "b_kernel<2>": {**line, "most": 216}},
                  "resident_blocks": {"a_kernel<": {"shared": 2048, "blocks": 3}}}
        self.assertEqual(executed.table(budget).split("\n")[2:], [
            "| `a_kernel<1>` | 216 to 248 | turn | 168 | 2 KiB | 3 |", "| `b_kernel<2>` | 216 | turn | 168 | none | – |", ""])


# As nvdisasm 13.2 writes it, cut to few registers.
LISTING = """
\t.section\t.nv.info.k,"",@"SHT_CUDA_INFO"
\t//----- nvinfo : EIATTR_MAX_THREADS
        /*0008*/ \t.word\t0x00000080
        /*000c*/ \t.word\t0x00000001
        /*0010*/ \t.word\t0x00000001
\t.section\t.text.k,"ax",@progbits
                                              // |   GPR     | PRED  | UGPR    | UPRED |
                                              // |    000000 |       |         |       |
                                              // |  # 012345 | # 012 |  # 0123 |       |
.text.k:                                      // |           |       |         |       |
        /*0000*/                   S2R R4, SR_TID.X ;                // |  1     ^  |       |         |       |
.L_x_0:                                       // |  1     :  |       |         |       |
        /*0010*/                   LDS.64 R2, [R4] ;                 // |  3   ^^v  |       |         |       |
        /*0020*/               @P0 BRA `(.L_x_0) ;                   // |  3   :::  | 1  v  |         |       |
        /*0030*/                   EXIT ;                            // |  3   :::  |       |         |       |
"""


class Listing(unittest.TestCase):
    def test_registers_targets_and_threads(self):
        k, = sass.parse(LISTING, "Function k:\n  REG:6 STACK:0 SHARED:1024 LOCAL:0 CONSTANT", "sm_90a")
        self.assertEqual((k.registers, k.threads, k.shared), (6, 128, 1024))
        self.assertEqual([str(i) for i in k.code][1], "/*0010*/ LDS.64 R2, [R4]")
        self.assertEqual((k.code[1].reads, k.code[1].writes), ({4}, {2, 3}))
        self.assertEqual((k.code[2].predicate, k.code[2].target), ("@P0", 16))


REMARKS = {
    "serialised": "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
                  "insufficient register resources for the wgmma pipeline in the function 'k'",
    "injected": "ptxas info    : (C7519) warpgroup.arrive is injected in around line 12 by compiler to allow use of "
                "registers in wgmma in function 'k'"}


class Checked(unittest.TestCase):
    """check.py as a program, with kernels made by hand."""
    def run_it(self, kernels, *arguments, log=""):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "k.ptxas")
            with open(path, "w", encoding="utf-8") as file:
                file.write(log)
            said = io.StringIO()
            with mock.patch.object(sass, "kernels_of", side_effect=kernels), contextlib.redirect_stdout(said):
                code = check.main(["k.o", "--quiet", *arguments, "--log", os.path.join(folder, "*.ptxas")])
        return code, said.getvalue()

    def test_remarks_of_ptxas_are_severe(self):
        def right(*_):
            return [kernel_of(EXIT, registers=8, threads=32, arch="sm_90a")]
        self.assertEqual(self.run_it(right, log="ptxas info    : 0 bytes gmem\n")[0], 0)
        for kind, remark in REMARKS.items():
            code, said = self.run_it(right, log=remark + "\n")
            self.assertEqual(code, 1)
            self.assertIn(f"FAULT {kind}: C75", said)
            # Of a kernel that is in no file too.
            code, said = self.run_it(right, log=remark.replace("'k'", "'other'"))
            self.assertEqual(code, 1)
            self.assertIn("other: C75", said)

    def test_a_log_needs_no_tool(self):
        missing = sass.ToolMissing("NOT RUN: needs nvdisasm")
        code, said = self.run_it(missing, log=REMARKS["injected"])
        self.assertEqual(code, 1)
        self.assertIn("k: C7519", said)

    def test_what_does_not_run_fails_in_continuous_integration(self):
        for ci, code in (("", 77), ("0", 77), ("1", 1)):
            with mock.patch.dict(os.environ, {"UNMASK_CI": ci}):
                found, said = self.run_it(sass.ToolMissing("NOT RUN: needs nvdisasm"))
            self.assertEqual(found, code)
            self.assertIn("NOT RUN: needs nvdisasm", said)


# ---- compiled -----------------------------------------------------------------------------------

def compiler():
    return os.environ.get("CUDACXX") or shutil.which("nvcc")


def tools_there():
    try:
        sass.find_tool("nvdisasm")
        sass.find_tool("cuobjdump")
    except sass.ToolMissing:
        return False
    return compiler() is not None


def release():
    """The compiler's release, such as "13.0"."""
    said = subprocess.run([compiler(), "--version"], check=True, capture_output=True, text=True).stdout
    return re.search(r"release (\d+\.\d+)", said).group(1)


NOP = struct.pack("<QQ", 0x0000000000007918, 0x000fc00000000000)


def without(cubin, kernel, address, to):
    """A copy of a cubin with one instruction replaced by one that does nothing."""
    with open(cubin, "rb") as file:
        image = bytearray(file.read())
    table, size, count, names = (struct.unpack_from("<Q", image, 0x28)[0],
                                 *struct.unpack_from("<HHH", image, 0x3A))
    strings = struct.unpack_from("<Q", image, table + names * size + 0x18)[0]
    for n in range(count):
        name, = struct.unpack_from("<I", image, table + n * size)
        end = image.index(0, strings + name)
        if image[strings + name:end].decode() == ".text." + kernel:
            offset, = struct.unpack_from("<Q", image, table + n * size + 0x18)
            image[offset + address:offset + address + 16] = NOP
            with open(to, "wb") as out:
                out.write(image)
            return to
    raise AssertionError(f"no section of {kernel}")


@unittest.skipUnless("--compiled" in sys.argv, "with --compiled")
class Compiled(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def cubin(self, name, *options):
        path = os.path.join(self.folder.name, name + "".join(options).replace("=", "-") + ".cubin")
        if not os.path.exists(path):
            subprocess.run([compiler(), "-std=c++20", "-O2", "-cubin", "-I", os.path.join(HERE, "..", ".."), *options,
                            "-o", path, "--generate-code=arch=compute_90a,code=sm_90a",
                            os.path.join(HERE, "cases", name + ".cu")], check=True,
                           capture_output=True)
        return path

    def kinds(self, path):
        found = {}
        for kernel in sass.kernels_of(path):
            blocks = flow.blocks_of(kernel)
            findings = (wgmma.check(kernel) + occupancy.setmaxnreg(kernel, blocks) +
                        occupancy.local_memory(kernel, flow.loops_of(kernel, blocks), blocks))
            found[kernel.name] = {f.kind for f in findings}
        return found

    def test_what_ptxas_keeps_right(self):
        self.assertEqual(self.kinds(self.cubin("right")),
                         {"fa3_like": set(), "wait_at_top": set(), "branch_between": set()})

    def test_what_ptxas_serialises(self):
        self.assertEqual(self.kinds(self.cubin("serialised")), {"packed_early": {"serialised"}})

    def test_what_ptxas_13_breaks(self):
        found = self.kinds(self.cubin("overwritten"))["packed_before_the_wait"]
        if release() == "13.0":
            self.assertEqual(found, {"operand-overwritten"})
        else:  # another ptxas may serialise it or keep it right
            self.assertIn(found, ({"operand-overwritten"}, {"serialised"}, set()))

    def test_too_few_registers(self):
        self.assertLessEqual({"stack", "local-memory", "serialised"},
                             self.kinds(self.cubin("spilled"))["too_few_registers"])

    def test_setmaxnreg(self):
        self.assertEqual(self.kinds(self.cubin("registers")), {"by_roles": set()})
        self.assertEqual(self.kinds(self.cubin("registers", "-DMANY=240")),
                         {"by_roles": {"setmaxnreg"}})

    def without_each(self, case, name, opcode):
        """Takes one instruction after the other of this opcode out of a kernel's machine code. Returns (instruction,
        kinds of findings) of each."""
        path = self.cubin(case)
        kernel = next(k for k in sass.kernels_of(path) if k.name == name)
        found = []
        for ins in kernel.code:
            if ins.opcode.startswith(opcode):
                broken = without(path, name, ins.address, path + ".broken")
                found.append((str(ins), self.kinds(broken)[name]))
        self.assertTrue(found, opcode)
        return found

    def test_every_wait_that_is_taken_out_is_missed(self):
        for ins, found in self.without_each("right", "fa3_like", "WARPGROUP.DEPBAR"):
            self.assertTrue(found & {"sum-read-early", "sum-overwritten", "operand-overwritten", "operand-in-flight",
                                     "sum-over-operand"}, ins)

    def test_every_fence_that_is_taken_out_is_missed(self):
        self.assertEqual(self.kinds(self.cubin("fenced")), {"each_fence_orders": set()})
        for ins, found in self.without_each("fenced", "each_fence_orders", "WARPGROUP.ARRIVE"):
            self.assertIn("no-fence", found, ins)


if __name__ == "__main__":
    if "--compiled" in sys.argv:
        if not tools_there():
            sys.exit(sass.not_run("NOT RUN: needs nvcc, nvdisasm and cuobjdump (./dev setup --sass)"))
        sys.argv.remove("--compiled")
        unittest.main(defaultTest="Compiled")
    unittest.main()
