# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The counter of inner loops, on machine code that was written down: no GPU and no CUDA toolkit."""

import contextlib
import io
import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import inner_loops  # noqa: E402

KERNEL = "_ZN6unmask4cuda6native14planted_kernelENS1_14planted_paramsE"


def listing(lines):
    code = "\n".join(f"        /*{16 * i:04x}*/                   {line} ;   /* 0x0 */" for i, line in enumerate(lines))
    return f"\tcode for sm_90a\n\t\tFunction : {KERNEL}\n{code}\n"


def only(lines):
    (name, architecture, code), = inner_loops.functions(listing(lines))
    assert name == KERNEL and architecture == "sm_90a"
    return code


class InnerLoops(unittest.TestCase):
    def test_the_loop_that_loads_most_is_the_hot_one(self):
        code = only(["MOV R1, R2", "LDG.E R3, desc[UR4][R4.64]", "@P0 BRA 0x10", "LDG.E.128 R4, desc[UR4][R4.64]",
                     "MUFU.EX2 R5, R5", "FADD R6, R6, R5", "@!P1 BRA 0x30", "STG.E desc[UR4][R4.64], R6", "EXIT"])
        self.assertEqual(dict(inner_loops.hot_loop(code)), {"global loads": 1, "exponentials": 1, "instructions": 4})

    def test_products_win_and_the_smallest_loop_with_all_of_them(self):
        code = only(["NOP", "LDSM.16.M88.4 R8, [R1]", "HMMA.16816.F32.BF16 R4, R8, R10, R4", "LDG.E R3, desc[UR4][R4.64]",
                     "@P0 BRA 0x30", "@P1 BRA 0x10", "LDG.E.128 R4, desc[UR4][R4.64]", "@P2 BRA 0x0", "EXIT"])
        self.assertEqual(dict(inner_loops.hot_loop(code)),
                         {"matrix loads": 1, "tensor": 1, "global loads": 1, "instructions": 5})

    def test_a_kernel_without_a_loop_is_its_own(self):
        self.assertEqual(inner_loops.hot_loop(only(["LDG.E R3, desc[UR4][R4.64]", "EXIT"]))["instructions"], 2)

    def test_what_is_over_the_budget_is_said(self):
        found = {"planted_kernel": {"global loads": 2, "instructions": 9, "local loads and stores": 1}}
        budget = {"planted_kernel": {"global loads": 2, "instructions": 8, "local loads and stores": 0}}
        self.assertEqual(inner_loops.over(found, budget), [
            "planted_kernel: 9 instructions in its inner loop, 8 are allowed",
            "planted_kernel: 1 local loads and stores in its inner loop, 0 are allowed"])
        self.assertEqual(inner_loops.over(found, {}), [
            "planted_kernel: 1 local loads and stores in its inner loop, 0 are allowed"])
        self.assertEqual(inner_loops.over({}, budget), ["planted_kernel is in the budget and in no object"])

    def test_without_cuobjdump_it_is_not_run_and_fails_in_continuous_integration(self):
        for ci, code in (("", 77), ("1", 1)):
            said = io.StringIO()
            with mock.patch.object(inner_loops, "find_cuobjdump", return_value=None), \
                    mock.patch.dict(os.environ, {"UNMASK_CI": ci}), contextlib.redirect_stdout(said):
                self.assertEqual(inner_loops.main(["object.o"]), code)
            self.assertIn("NOT RUN: needs cuobjdump", said.getvalue())


if __name__ == "__main__":
    unittest.main()
