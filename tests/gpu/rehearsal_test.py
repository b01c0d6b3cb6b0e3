# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Both commands of the GPU check from the packed programs, without a GPU: every stage runs on the
emulator or the CPU under the limits of the real thing, what comes back fits, and the page is
written from it.    python3 rehearsal_test.py BUILD"""

import os
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check as driver  # noqa: E402
import pack as packing  # noqa: E402
import runner  # noqa: E402

BUILD = ""
# Stages that have nothing to run on without a GPU.
NEED_A_GPU = {"first": set(), "measure": {"ceilings", "comparators"}}


class Rehearsal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        archive = os.path.join(cls.folder.name, "unmask-gpu.tar.xz")
        begin = time.monotonic()
        print(packing.pack(BUILD, archive, preset=1), f"in {time.monotonic() - begin:.0f} s", flush=True)
        begin = time.monotonic()
        with tarfile.open(archive) as packed:
            packed.extractall(cls.folder.name)
        print(f"unpacked in {time.monotonic() - begin:.1f} s", flush=True)
        cls.build = os.path.join(cls.folder.name, packing.NAME)
        cls.results = os.path.join(cls.folder.name, "results")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def rehearse(self, name):
        begin = time.monotonic()
        done = subprocess.run([sys.executable, "-B", driver.__file__, "--" + name, "--rehearse",
                               "--build", self.build, "--results", self.results],
                              capture_output=True, text=True, check=False)
        seconds = time.monotonic() - begin
        print(done.stdout, flush=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertLess(seconds, driver.BUDGETS[name] + 15)
        archive = os.path.join(self.results, f"gpu-{name}.tar.gz")
        self.assertLess(os.path.getsize(archive), 16 << 20)
        with tarfile.open(archive) as packed:
            packed.extract(f"gpu-{name}/stages.jsonl", self.folder.name)
        records = runner.json_lines(os.path.join(self.folder.name, f"gpu-{name}", "stages.jsonl"))
        for r in records:
            with self.subTest(r["stage"]):
                self.assertEqual(r["status"], "NOT RUN" if r["stage"] in NEED_A_GPU[name] else "OK",
                                 r["reason"])
                self.assertLessEqual(r["seconds"], r["limit"] + 5)
        return records

    def test_first_then_measure_then_the_page(self):
        first = self.rehearse("first")
        measure = self.rehearse("measure")
        self.assertGreaterEqual(len(first), 8)
        self.assertGreaterEqual(len(measure), 9)
        # At most eight files, no folders, come back.
        self.assertEqual(sorted(os.listdir(self.results)),
                         ["gpu-first.md", "gpu-first.tar.gz", "gpu-measure.md",
                          "gpu-measure.tar.gz"])
        page = os.path.join(self.folder.name, "page.md")
        subprocess.run([sys.executable, "-B", driver.__file__, "--report",
                        os.path.join(self.results, "gpu-first.tar.gz"),
                        os.path.join(self.results, "gpu-measure.tar.gz"), "-o", page], check=True)
        with open(page, encoding="utf-8") as text:
            written = text.read()
        self.assertIn("No number below was measured on a GPU", written)
        for part in ("## Kernels", "| attention/", "## Throughput", "| FOCUS |", "## Steps"):
            self.assertIn(part, written)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
