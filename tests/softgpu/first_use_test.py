# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""A program that meets a GPU for the first time checks its kernels there: with kernels and products
that are made wrong, it takes the next way to multiply that is right, and says so; where none is, it ends.

    first_use_test.py PROGRAM [FirstUse|Newer]    PROGRAM: unmask_softgpu; UNMASK_SOFTGPU_ARCH chooses the card
"""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
HERE = os.path.dirname(os.path.abspath(__file__))
CARD = os.environ.get("UNMASK_SOFTGPU_ARCH", "90")
# Kernels of attention whose products are wrong. 90: the stride in a descriptor of wgmma. 80: a matrix that
# ldmatrix does not transpose.
WRONG_ATTENTION = {"90": "4611686293305360384|4611686155866406912", "80": "x4.trans.shared|x4.shared"}
# The first product of the newer kernel left out; it runs on the H100 alone.
WRONG_NEWER = "attention_refresh_kernelILi128|wgmma.mma_async|0"
# What is left out of each other newer kernel: the products, or the exponentials of the head's fold. Attention of
# many heads draws tickets; of few sequences it runs in clusters.
WRONG_OF = {"gate and up": "few_rows_kernelILi64|wgmma.mma_async|0",
            "products of few rows": "few_parts_kernelILi64|wgmma.mma_async|0",
            "head": "head_fold_kernelILb0|ex2.approx|-1",
            "head's product": "head_product_kernelILb1|wgmma.mma_async|0",
            "experts": "grouped_roles_kernelILi1ELb0|wgmma.mma_async|0",
            "attention": "attention_joined_kernelILi128ELi1|mma.sync|-1"}
WRONG_CLUSTER = "attention_cluster_kernelILi128ELi1|mma.sync|-1"
# One multiply-add of attention in float32 left out.
WRONG_FLOAT32 = "attention_kernelILi2|fma.rn.f32|0"


class OneCard(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.runs = 0

    def unmask(self, *arguments, **faults):
        """Exit code and standard error of the program, which keeps its outcomes in the test's folder."""
        environment = {**os.environ, "UNMASK_CACHE": os.path.join(self.folder.name, "cache"),
                       **{"UNMASK_SOFTGPU_" + name: text for name, text in faults.items()}}
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env=environment,
                              check=False)
        return done.returncode, done.stdout + done.stderr

    def row(self, *settings, **faults):
        """The row of a run, and what it said."""
        self.runs += 1
        output = os.path.join(self.folder.name, f"run-{self.runs}")
        code, said = self.unmask("run", os.path.join(HERE, "first_use.toml"), "--no-progress", "-o",
                                 output, *[word for s in settings for word in ("--set", s)], **faults)
        self.assertIn(code, (0, 1), said)
        with open(os.path.join(output, "rows.jsonl"), encoding="utf-8") as rows:
            return json.loads(rows.readline()), said


class FirstUse(OneCard):
    def test_the_next_way_that_is_right_is_taken_and_kept(self):
        faults = {"REPLACE": WRONG_ATTENTION[CARD], "PRODUCTS": "wrong", "DROP": WRONG_NEWER}
        by = {"90": ["attention by wgmma", "attention by newer kernels"], "80": ["attention by mma.sync"]}[CARD]
        row, said = self.row(**faults)
        for left_out in (*by, "products by cuBLASLt"):
            self.assertIn(f"WARNING: {left_out} is wrong on ", said)
            self.assertIn(left_out, row["model"]["checked"])
            self.assertIn(left_out, row["reason"])
        self.assertRegex(row["model"]["checked"], r"^\d+ cases right; not used: ")
        self.assertIn(", its first use by this program", said)
        self.assertNotEqual(row["verdict"], "FAILED", row["reason"])
        again, said = self.row(**faults)
        self.assertIn("kept from its first use", said)
        self.assertEqual(again["model"]["checked"], row["model"]["checked"])
        self.assertEqual(again["answers_hash"], row["answers_hash"])

    def test_where_no_way_is_right_the_run_ends_with_operation_and_case(self):
        code, said = self.unmask("generate", "--device", "cuda", "-m", "fast_dllm", "-n", "8",
                                 "Compute 3 + 4.", DROP=WRONG_FLOAT32)
        self.assertNotEqual(code, 0, said)
        self.assertRegex(said, r"device check: wrong on .*: attention, f32 full .*: off by .* "
                               r"tolerances; nothing is measured there")
        self.assertFalse(glob.glob(os.path.join(self.folder.name, "cache", "checked-*")))

    def test_without_the_check_rows_are_not_verified(self):
        row, said = self.row("run.device_check=off")
        self.assertEqual((row["verdict"], row["model"]["checked"]), ("NOT_VERIFIED", "NOT VERIFIED"))
        self.assertIn("device_check is off", row["reason"])
        self.assertIn("WARNING: run.device_check is off", said)

    def test_a_product_that_was_asked_for_before_is_prepared_once(self):
        """A description, three layouts and a check for each shape; the products of all layers and steps take them."""
        self.row("run.device_check=off", "run.graphs=off")  # tunes: its trials are products too
        _, said = self.row("run.device_check=off", "run.graphs=off", STATS="on")
        found = re.search(r"cuBLASLt: (\d+) products, (\d+) descriptions, (\d+) layouts, (\d+) checks", said)
        products, descriptions, layouts, checks = (int(n) for n in found.groups())
        self.assertGreater(products, 6 * descriptions, said)
        self.assertEqual((layouts, checks), (3 * descriptions, descriptions), said)


class Newer(OneCard):
    def planted(self, fault, said):
        self.assertIn("left out of " + re.match(r"\w+?_kernel", fault).group(), said)

    def test_what_is_wrong_is_refused_with_its_case_and_the_kernel_before_is_taken(self):
        row, said = self.row(DROP="&".join(WRONG_OF.values()))
        checked = row["model"]["checked"]
        for what, fault in WRONG_OF.items():
            with self.subTest(what):
                self.planted(fault, said)
                self.assertIn(f"WARNING: {what} by newer kernels is wrong on ", said)
                self.assertRegex(checked, rf"{what} by newer kernels \(\w+, [^)]*: off by [^)]* tolerances\)")
                self.assertIn(f"{what} by newer kernels", row["reason"])
        self.assertEqual(len(re.findall("by newer kernels", checked)), len(WRONG_OF))
        self.assertNotRegex(checked, r"by (cuBLASLt|wgmma|mma\.sync|CUDA cores)")
        before, _ = self.row("run.kernels=before", "run.device_check=off")
        self.assertEqual(row["answers_hash"], before["answers_hash"])

    def test_clusters_that_are_wrong_are_refused(self):
        _, said = self.unmask("doctor", "--device", "cuda", "--check", DROP=WRONG_CLUSTER)
        self.planted(WRONG_CLUSTER, said)
        self.assertRegex(said, r"WARNING: attention by newer kernels is wrong on .* and not used "
                               r"\(attention, bf16 .*: off by .* tolerances\)")
        self.assertRegex(said, r"device check: \d+ cases right on ")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
