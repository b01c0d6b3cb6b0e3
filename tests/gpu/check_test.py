# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The driver of the GPU check without a GPU: stages that fail, hang or cannot run stop nothing, what
ran is on disk, and the summary's fractions are right. Programs are stand-ins that this test writes."""

import contextlib
import io
import json
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


def gone(pid, seconds=60):
    """Whether the process ends, or is dead and waits for its parent, within that time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as state:
                if state.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


class Workspace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.build = os.path.join(self.folder.name, "build")
        self.results = os.path.join(self.folder.name, "results")
        os.makedirs(os.path.join(self.build, "bin"))

    def program(self, name, text):
        path = os.path.join(self.build, "bin", name)
        with open(path, "w", encoding="utf-8") as out:
            out.write("#!/bin/sh\n" + text + "\n")
        os.chmod(path, 0o755)
        return path

    def check(self, **changes):
        return driver.Check(driver.Settings(self.build, self.results, **changes))

    @staticmethod
    def quietly(work, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            result = work(*arguments)
        return result, out.getvalue()


class Stages(Workspace):
    def test_failures_hangs_and_faults_stop_nothing(self):
        check = self.check()
        child = os.path.join(self.folder.name, "child")
        hang = self.program("hang", f"sleep 300 & echo $! > {child}.new; mv {child}.new {child}; wait")

        def fault(log, limit):
            raise ZeroDivisionError("a fault of the script")

        def absent(log, limit):
            check.program("not_there")

        def wrong(log, limit):
            check.run([self.program("wrong", "echo wrong; exit 7")], log, limit)

        begin = time.monotonic()
        for name, limit, work in (("wrong", 60, wrong), ("fault", 5, fault),
                                  ("hang", 2, lambda log, limit: check.run([hang], log, limit)),
                                  ("absent", 5, absent), ("good", 5, lambda log, limit: "fine")):
            self.quietly(check.stage, name, limit, work)
        self.assertLess(time.monotonic() - begin, 120)  # none waited for the 300 s of the hang
        records = driver.json_lines(os.path.join(self.results, "stages.jsonl"))
        self.assertEqual([(r["stage"], r["status"]) for r in records],
                         [("wrong", "FAILED"), ("fault", "FAILED"), ("hang", "TIMEOUT"),
                          ("absent", "NOT RUN"), ("good", "OK")])
        self.assertIn("wrong ended with 7", records[0]["reason"])
        self.assertIn("ZeroDivisionError", records[1]["reason"])
        self.assertIn("not_there", records[3]["reason"])
        with open(os.path.join(self.results, "wrong.log"), encoding="utf-8") as log:
            self.assertIn("wrong\n", log.read())
        # The whole process group was killed, not only its leader.
        with open(child, encoding="utf-8") as pid:
            self.assertTrue(gone(int(pid.read())))

    def test_a_stage_without_a_gpu_or_without_time_is_not_run(self):
        self.quietly(self.check(gpu=False).stage, "a", 5, lambda log, limit: "")
        self.quietly(self.check(budget=0.5).stage, "b", 5, lambda log, limit: "")
        self.quietly(self.check(gpu=False).stage, "c", 5, lambda log, limit: "", False)
        records = driver.json_lines(os.path.join(self.results, "stages.jsonl"))
        self.assertEqual([r["status"] for r in records], ["NOT RUN", "NOT RUN", "OK"])
        self.assertIn("GPU", records[0]["reason"])
        self.assertIn("used up", records[1]["reason"])

    def test_a_build_without_the_backend_is_not_run_and_a_broken_one_failed(self):
        check = self.check()
        with open(os.devnull, "w", encoding="utf-8") as log:
            self.program("unmask", "echo \"FAILED: device 'cuda' has no kernels in this build\"; exit 1")
            self.assertRaises(driver.NotRun, driver.cuda_runs, check, log, 5)
            self.program("unmask", "echo segfault; exit 139")
            self.assertRaises(driver.Failed, driver.cuda_runs, check, log, 5)
            self.program("unmask", "exit 0")
            driver.cuda_runs(check, log, 5)

    def test_a_gpu_that_the_program_does_not_see_is_none(self):
        check = self.check()
        note = "no GPU: the driver is too old"
        self.program("unmask", "echo '" + json.dumps({"gpus": [], "notes": ["x", note]}) + "'")
        self.quietly(check.stage, "environment", 30, driver.stage_environment(check), False)
        self.quietly(check.stage, "ceilings", 30, driver.stage_ceilings(check))
        self.assertEqual(check.settings.problem, note)
        self.assertEqual([r["reason"] for r in check.records], [note, "needs a GPU"])
        self.program("unmask", "echo '" + json.dumps({"gpus": [{}], "notes": []}) + "'")
        seen = self.check()
        self.quietly(seen.stage, "environment", 30, driver.stage_environment(seen), False)
        self.assertTrue(seen.settings.gpu)

    def test_missing_tests_benchmarks_and_goldens_are_not_run(self):
        check = self.check()
        self.program("unmask_device_check", "echo no GPU >&2; exit 3")
        self.program("unmask_bench", "echo gemm/cpu")
        tool = self.program("tool", "exit 3")
        with open(os.devnull, "w", encoding="utf-8") as log, \
                mock.patch.object(driver.Check, "tool", staticmethod(lambda name: tool)):
            for work in (driver.stage_sanitizer(check, "memcheck"),
                         driver.stage_operations(check, "small"), driver.stage_kernels(check),
                         driver.stage_goldens(check), driver.stage_step(check, "no-such-shape"),
                         driver.stage_ceilings(check)):
                self.assertRaises(driver.NotRun, work, log, 5)

    def test_wrong_operations_fail_and_are_named(self):
        check = self.check()
        line = '{"operation":"attention","right":%s,"seed":7}'
        with open(os.devnull, "w", encoding="utf-8") as log, \
                mock.patch.object(driver.Check, "tool", staticmethod(lambda name: "/bin/true")):
            self.program("unmask_device_check", f"echo '{line % 'false'}'; exit 1")
            self.assertRaisesRegex(driver.Failed, "wrong: attention",
                                   driver.stage_operations(check, "large"), log, 5)
            self.program("unmask_device_check", f"echo '{line % 'true'}'")
            self.assertEqual(driver.stage_operations(check, "large")(log, 5), "1 cases, seed 7")

    def test_decisions_that_differ_between_devices_fail(self):
        row = {"point_id": "p", "model": {"name": "m"}, "label": "l",
               "workload": {"family": "w"}}
        sample = {"point_id": "p", "item": "i"}
        text = ("for last; do :; done; mkdir -p $last/samples/p; echo '" + json.dumps(row) +
                "' > $last/rows.jsonl; case $last in *cuda) o=$OTHER;; *) o=same;; esac; echo '" +
                json.dumps(sample)[:-1] + ", \"output\": \"'$o'\"}' > $last/samples/p/samples_1.jsonl")
        self.program("unmask", text)
        check = self.check()
        with open(os.devnull, "w", encoding="utf-8") as log:
            with mock.patch.dict(os.environ, {"OTHER": "same"}):
                self.assertEqual(driver.stage_decisions(check)(log, 10), "1 answers equal")
            with mock.patch.dict(os.environ, {"OTHER": "different"}):
                self.assertRaisesRegex(driver.Failed, "1 of 1",
                                       driver.stage_decisions(check), log, 10)


class Packing(Workspace):
    def setUp(self):
        super().setUp()
        self.file = os.path.join(self.folder.name, "pack.tar.xz")
        self.library = os.path.join(self.folder.name, "libfoo-1.2.so")
        with open(self.library, "w", encoding="utf-8") as out:
            out.write("foo")

    def listed(self, *more):
        """What ldd would print of any program."""
        text = "\n".join(["\tlinux-vdso.so.1 (0x1)", f"\tlibfoo.so.1 => {self.library} (0x2)",
                          "\tlibc.so.6 => /lib/libc.so.6 (0x3)", "\t/lib64/ld-linux.so.2 (0x4)",
                          "\tlibcublasLt.so.13 => /opt/cuda/libcublasLt.so.13 (0x5)", *more])
        return mock.patch.object(packing.subprocess, "run",
                                 return_value=subprocess.CompletedProcess([], 0, text, ""))

    def test_programs_travel_with_their_libraries_but_not_with_those_of_the_system(self):
        for name in packing.PROGRAMS:
            self.program(name, "exit 0")
        with self.listed():
            self.assertEqual(packing.pack(self.build, self.file), (len(packing.PROGRAMS), 1))
        with tarfile.open(self.file) as archive:
            self.assertEqual(archive.extractfile("unmask-gpu/lib/libfoo.so.1").read(), b"foo")
            self.assertTrue(archive.getmember("unmask-gpu/bin/unmask").mode & 0o100)
            self.assertEqual(len(archive.getmembers()), len(packing.PROGRAMS) + 1)

    def test_what_is_not_there_is_named(self):
        self.program("unmask", "exit 0")
        with self.listed("\tlibgone.so.3 => not found"):
            with self.assertRaisesRegex(SystemExit, "libgone.so.3"):
                packing.pack(self.build, self.file)
        with self.listed(), self.assertRaisesRegex(SystemExit, "no bin/unmask_device_check"):
            packing.pack(self.build, self.file)
        self.assertFalse(os.path.exists(self.file))

    def test_packed_libraries_are_looked_at_first(self):
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": "/old"}):
            packing.use_packed_libraries(self.build)
            self.assertEqual(os.environ["LD_LIBRARY_PATH"], "/old")
            os.makedirs(os.path.join(self.build, "lib"))
            packing.use_packed_libraries(self.build)
            self.assertEqual(os.environ["LD_LIBRARY_PATH"], os.path.join(self.build, "lib") + ":/old")


class Summary(Workspace):
    def test_fractions_are_least_time_over_time_taken(self):
        rows = [{"kind": "copy", "bytes_per_second": 4e12},
                {"kind": "gemm", "model": "square", "part": "8192", "m": 8192, "flops": 8e11,
                 "bytes": 1e6, "seconds": 1e-3, "right": True},  # 800 TFLOP/s: the peak
                {"kind": "gemm", "model": "llada-8b", "part": "qkv", "m": 1, "flops": 1e8,
                 "bytes": 1e8, "seconds": 5e-5, "right": True},  # 25 us by the copy's rate
                {"kind": "gemm", "model": "llada-8b", "part": "down", "m": 1, "flops": 1e8,
                 "bytes": 1e8, "seconds": 1e-9, "right": False}]
        text = "\n".join(driver.ceilings_table(rows))
        self.assertIn("4000 GB/s", text)
        self.assertIn("| square | 8192 | 8192 | 1000.0 | 800.0 | 1.00 |", text)
        self.assertIn("| llada-8b | qkv | 1 | 50.0 | 2.0 | 0.50 |", text)
        self.assertNotIn("| down |", text)
        self.assertIn("1 products are WRONG", text)
        phase = {"phase": "feed_forward", "container": False, "device_seconds": 2e-3,
                 "flops": 8e11, "bytes": None}
        report = {"phases": [phase], "provenance": {"work": "analytic"}, "kernels_problem": None,
                  "counters_problem": "refused"}
        step = "\n".join(driver.step_table(
            [{"model": {"name": "m"}, "label": "l", "batch_size": 8,
              "probes": {"phases": report}}], rows))
        self.assertIn("| feed_forward | 2.000 | 0.50 |", step)
        self.assertIn("refused", step)

    def test_throughput_is_held_against_the_larger_of_two_limits(self):
        ceilings = [{"kind": "copy", "bytes_per_second": 1e9},
                    {"kind": "gemm", "right": True, "flops": 4e9, "seconds": 1.0}]
        metrics = {"tokens_per_second": 123.4, "redundancy": 2.5, "batched_forwards": 10,
                   "flops": 2e9, "wall_seconds": 1.0}
        row = {"label": "FOCUS", "batch_size": 32, "metrics": metrics,
               "model": {"parameters": 11_000_000}}  # 0.2 s of reads, 0.5 s of products
        text = "\n".join(driver.throughput_table([row], ceilings, 1_000_000))
        self.assertIn("| FOCUS | 32 | 123 | 2.50 | 0.50 |", text)
        metrics["batched_forwards"] = 40  # 0.8 s of reads
        text = "\n".join(driver.throughput_table([row], ceilings, 1_000_000))
        self.assertIn("| 0.80 |", text)
        self.assertIn("| – |", "\n".join(driver.throughput_table([row], [], 0)))
        self.assertIn("FAILED no", "\n".join(driver.throughput_table(
            [{"label": "x", "batch_size": 1, "verdict": "FAILED", "reason": "no"}], ceilings, 0)))
        self.assertEqual(driver.throughput_table([], ceilings, 0), [])
        self.assertEqual(driver.embedding_size("sdar-8b"), 4096 * 151936)

    def test_every_way_says_whether_graphs_are_used(self):
        for name, variables in driver.WAYS:
            self.assertTrue(any(v.startswith("UNMASK_CUDA_GRAPHS=") for v in variables), name)

    def test_ways_show_the_median_of_each(self):
        for name, seconds in (("as-shipped", [0.004, 0.002, 0.003]), ("no-graphs", [0.009])):
            folder = os.path.join(self.results, "ways", name)
            os.makedirs(folder)
            with open(os.path.join(folder, "rows.jsonl"), "w", encoding="utf-8") as out:
                out.write(json.dumps({"label": "focus", "samples": {"seconds": seconds}}) + "\n")
        text = "\n".join(driver.ways_table(self.results))
        self.assertIn("| focus | as shipped | 3.00 |", text)
        self.assertIn("| focus | no graphs | 9.00 |", text)
        self.assertNotIn("managed", text)

    def test_without_a_gpu_one_line_says_so_and_the_exit_code_is_0(self):
        done = subprocess.run(
            [sys.executable, "-B", driver.__file__, "--results", self.results, "--build",
             self.build], capture_output=True, text=True, timeout=60, check=False,
            env=dict(os.environ, PATH="/nowhere"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.split("\n")[0], "no GPU: nvidia-smi is not on PATH")
        statuses = {r["stage"]: r["status"]
                    for r in driver.json_lines(os.path.join(self.results, "stages.jsonl"))}
        self.assertNotIn("FAILED", statuses.values())
        self.assertEqual(statuses["ceilings"], "NOT RUN")
        self.assertTrue(os.path.exists(os.path.join(self.results, "summary.md")))


if __name__ == "__main__":
    unittest.main()
