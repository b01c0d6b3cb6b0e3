# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Both commands of the GPU check from the packed programs, without a GPU: every stage runs on the
emulator or the CPU under four times the limits of the real thing, what comes back fits, and the page is
written from it. And, where nvcc built them, the stages that are short on the GPU in software.

    python3 rehearsal_test.py BUILD [Rehearsal | InSoftware]"""

import os
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from unittest import mock

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
        self.assertLess(seconds, 4 * driver.BUDGETS[name] + 15)
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
        self.assertGreaterEqual(len(first), 9)
        self.assertGreaterEqual(len(measure), 15)
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
        for part in ("## Kernels", "| attention/", "## Throughput", "| FOCUS |", "## Steps",
                     "## Own kernels and libraries in turn", "## Time of a forward pass", "| FOCUS, keeps all |"):
            self.assertIn(part, written)


class InSoftware(unittest.TestCase):
    # Whole, --first takes about six minutes there.
    STAGES = {"first": ["environment", "first decode", "operations", "device tests", "two GPUs", "memcheck",
                        "operations large"],
              "measure": ["environment", "ceilings", "turns", "ncu", "kernels", "prediction", "by mma.sync"]}
    NOT_THERE = {"memcheck", "operations large", "ncu"}

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def rehearse(self, name, *arguments):
        return subprocess.run([sys.executable, "-B", driver.__file__, "--" + name, "--rehearse",
                               "software", "--build", BUILD, "--results", self.folder.name,
                               *arguments], capture_output=True, text=True, check=False)

    def records(self, name):
        """Of the stages of STAGES, which all have to run or to say what they need."""
        chosen = [word for s in self.STAGES[name] for word in ("--stage", s)]
        done = self.rehearse(name, *chosen)
        print(done.stdout, flush=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with tarfile.open(os.path.join(self.folder.name, f"gpu-{name}.tar.gz")) as packed:
            packed.extract(f"gpu-{name}/stages.jsonl", self.folder.name)
        records = runner.json_lines(os.path.join(self.folder.name, f"gpu-{name}", "stages.jsonl"))
        self.assertEqual([r["stage"] for r in records], self.STAGES[name])
        for r in records:
            with self.subTest(r["stage"]):
                self.assertEqual(r["status"], "NOT RUN" if r["stage"] in self.NOT_THERE else "OK",
                                 r["reason"])
                self.assertEqual(r["rehearsed"], "software")
                if r["status"] == "NOT RUN":
                    self.assertIn("needs", r["reason"])
        return {r["stage"]: r["reason"] for r in records}

    def test_both_commands_run_what_nvcc_compiled(self):
        first, measure = self.records("first"), self.records("measure")
        self.assertIn("softgpu", first["environment"])
        self.assertIn("(eight tokens)", first["first decode"])
        self.assertRegex(first["two GPUs"], r"^[5-9] tests; 1 passed, 0 failed, .*\(one run of at most 120 rows\)")
        self.assertRegex(measure["kernels"], r"^1\d cases \(smallest sizes")
        self.assertIn(", 13 of them under load", measure["ceilings"])
        # Ways: of attention four, of two products two each, of gate and up two, of experts four, of the head two.
        # Newer kernels over those before in attention, experts and the head, mma.sync over those before in the first two,
        # CUDA cores over the stand-in of cuBLASLt twice. The newer kernel of gate and up is for sizes that fill the
        # card.
        self.assertIn("9 ratios of 19 ways", measure["turns"])

    def test_what_the_gpu_in_software_finds_fails_the_stage(self):
        # A wait for a copy is left out. Copies arrive at once here: every result is right all the same.
        with mock.patch.dict(os.environ, {
                "UNMASK_SOFTGPU_ASYNC": "early",
                "UNMASK_SOFTGPU_DROP": "grouped_roles|cp.async.wait_group|0"}):
            done = self.rehearse("first", "--stage", "device tests")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"FAILED +device tests .*software found: softgpu: NOTE: read "
                                      "before a copy arrived")

    def test_a_stage_that_is_not_there_is_refused(self):
        done = self.rehearse("first", "--stage", "decision")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--first has no stage decision", done.stderr)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
