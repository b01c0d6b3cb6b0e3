# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Modules of other libraries as `unmask bench --kernels` finds them, with a stand-in for one: taken, slower, wrong, failing,
old, absent.

    ways_test.py PROGRAM MODULE    PROGRAM: unmask_softgpu; MODULE: the stand-in
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = MODULE = ""
FOUND = re.compile(r"softgpu: (?:NOTE|FAULT|HOST).*")


class Ways(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def bench(self, case, turns=2, **variables):
        """Rows by their ways, and what the command said, of the smallest case with this name."""
        rows = os.path.join(self.folder.name, "rows.jsonl")
        own = {**os.environ, "UNMASK_BENCH_SMALL": "1", "UNMASK_CUDNN_WAY": MODULE, "UNMASK_CUTLASS_WAY": MODULE,
               "UNMASK_CUDNN": MODULE, "UNMASK_CACHE": os.path.join(self.folder.name, "cache"), **variables}
        done = subprocess.run([PROGRAM, "bench", "--kernels", "own,library", "--set", "run.device_check=off", "--cases",
                               "^" + case, "--turns", str(turns), "--kernel-rows", rows],
                              env={k: v for k, v in own.items() if v}, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        self.assertEqual(FOUND.findall(said), [])
        with open(rows, encoding="utf-8") as file:
            return {row["way"]: row for row in map(json.loads, file)}, said

    def refused(self, case="attention", **variables):
        """Why the library's way was not timed; the own ones were."""
        rows, _ = self.bench(case, **variables)
        library = {"attention": "cuDNN", "experts": "CUTLASS"}[case]
        self.assertNotIn("median_us", rows[library])
        self.assertIn("median_us", rows["mma.sync"])
        self.assertNotEqual(rows["mma.sync"].get("against"), library)
        return rows[library]["why"]

    def test_attention_is_right_timed_and_taken(self):
        rows, said = self.bench("attention", turns=15)  # on a loaded machine some are long
        self.assertEqual(rows["cuDNN"]["version"], "a stand-in")
        self.assertIs(rows["cuDNN"]["taken"], True, rows)
        self.assertLess(rows["cuDNN"]["high"], 1)
        self.assertEqual(len(rows["cuDNN"]["seconds"]), 15)
        self.assertEqual(rows["mma.sync"]["against"], "cuDNN")
        self.assertRegex(said, r"attention/\S+: a stand-in is taken: 0\.\d+ times")

    def test_slower_is_not_taken_and_says_so(self):
        rows, said = self.bench("attention", turns=5, UNMASK_SOFTGPU_WAY="slow")
        self.assertIs(rows["cuDNN"]["taken"], False, rows)
        self.assertGreater(rows["cuDNN"]["low"], 1)
        self.assertIn("a stand-in is slower and not taken", said)

    def test_experts_by_the_steps_of_the_module_are_right(self):
        rows, _ = self.bench("experts")
        self.assertNotIn("why", rows["CUTLASS"])
        self.assertIn("taken", rows["CUTLASS"])
        self.assertEqual(rows["mma.sync"]["against"], "CUTLASS")

    def test_wrong_results_are_refused_before_they_are_timed(self):
        for case in ("attention", "experts"):
            self.assertRegex(self.refused(case, UNMASK_SOFTGPU_WAY="wrong"),
                             r"^wrong in a small case: differs from the reference by 0\.\d+ of the largest result$")
        self.assertRegex(self.refused(UNMASK_SOFTGPU_WAY="wrong_later"),
                         r"^wrong: differs from the CUDA cores by 0\.\d+ of the largest result$")

    def test_what_fails_is_a_sentence_and_the_own_ways_go_on(self):
        self.assertEqual(self.refused(UNMASK_SOFTGPU_WAY="refuse"), f"{MODULE}: the stand-in plans no attention")
        self.assertEqual(self.refused("experts", UNMASK_SOFTGPU_WAY="refuse"), f"{MODULE}: the stand-in plans no experts")
        self.assertEqual(self.refused(UNMASK_SOFTGPU_WAY="fail"), f"{MODULE}: the stand-in fails in call 1")
        self.assertEqual(self.refused("experts", UNMASK_SOFTGPU_WAY="fail"), f"{MODULE}: the stand-in fails")
        self.assertEqual(self.refused(UNMASK_SOFTGPU_WAY="fail_later"), f"{MODULE}: the stand-in fails in call 6")

    def test_what_is_old_or_no_module_is_a_sentence(self):
        self.assertEqual(self.refused(UNMASK_SOFTGPU_WAY="old"), f"{MODULE} has interface 0, and this program 1: make it "
                         "again by ./dev build --libraries")
        self.assertEqual(self.refused("experts", UNMASK_SOFTGPU_WAY="half"), f"{MODULE} does not compute experts")
        other = os.path.join(os.path.dirname(MODULE), "libcublasLt.so")
        self.assertEqual(self.refused(UNMASK_CUDNN_WAY=other),
                         f"{other} is no module of this program: it has no unmask_library_way")
        text = os.path.join(self.folder.name, "module.so")
        with open(text, "w", encoding="utf-8") as file:
            file.write("no library")
        self.assertRegex(self.refused(UNMASK_CUDNN_WAY=text), f"^{re.escape(text)} cannot be opened: .*{re.escape(text)}: ")

    def test_what_is_absent_is_a_sentence_that_names_the_command(self):
        self.assertEqual(self.refused(UNMASK_CUDNN_WAY="/nowhere.so"), "/nowhere.so does not exist: ./dev build --libraries "
                         "makes it, or UNMASK_CUDNN_WAY names another file")
        beside = os.path.join(os.path.dirname(PROGRAM), "libunmask_cutlass.so")
        if not os.path.exists(beside):  # somebody may have made it
            self.assertIn(f"{beside} does not exist: ", self.refused("experts", UNMASK_CUTLASS_WAY=""))
        self.assertEqual(self.refused(UNMASK_CUDNN="/nowhere.so"), "cuDNN cannot be opened (tried /nowhere.so): install it "
                         "(pip install nvidia-cudnn-cu13) or name the file in UNMASK_CUDNN")


if __name__ == "__main__":
    MODULE = os.path.abspath(sys.argv.pop(2))
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
