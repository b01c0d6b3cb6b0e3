# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The driver of the GPU check without a GPU: stages that fail, hang or cannot run stop nothing, what
ran is in the archive, and the tables' fractions are right. Programs are stand-ins that this test
writes; rehearsal_test.py runs the real ones."""

import contextlib
import fnmatch
import glob
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import answers  # noqa: E402
import check as driver  # noqa: E402
import pack as packing  # noqa: E402
import report as reporting  # noqa: E402
import roofs  # noqa: E402
import runner  # noqa: E402
import stages  # noqa: E402
import summary  # noqa: E402
import surface  # noqa: E402


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
        self.work = os.path.join(self.folder.name, "work")
        os.makedirs(os.path.join(self.build, "bin"))

    def program(self, name, text):
        path = os.path.join(self.build, "bin", name)
        with open(path, "w", encoding="utf-8") as out:
            out.write("#!/bin/sh\n" + text + "\n")
        os.chmod(path, 0o755)
        return path

    def check(self, **changes):
        return runner.Check(runner.Settings(self.build, self.results, self.work, **changes))

    def archived(self, name="gpu-first"):
        """What came back: contents by path below the archive's folder."""
        with tarfile.open(os.path.join(self.results, name + ".tar.gz")) as packed:
            return {m.name.split("/", 1)[1]: packed.extractfile(m).read()
                    for m in packed.getmembers()}

    @staticmethod
    def quietly(work, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            result = work(*arguments)
        return result, out.getvalue()


class Stages(Workspace):
    def test_a_failing_or_hanging_stage_stops_nothing(self):
        check = self.check()
        child = os.path.join(self.folder.name, "child")
        self.program("wrong", "echo wrong; exit 7")
        self.program("hang", f"echo row; sleep 300 & echo $! > {child}; wait")

        def divide(log, limit):
            return 1 / 0

        def run(check, name):
            return lambda log, limit: check.run([check.program(name)], log, limit) and None

        def together():
            check.stage("wrong", 60, run(check, "wrong"))
            check.stage("fault", 60, divide)
            check.stage("hang", 3, run(check, "hang"))
            check.stage("absent", 60, run(check, "not_there"))
            check.stage("good", 60, lambda log, limit: "fine")

        self.quietly(together)
        records = [json.loads(line) for line in self.archived()["stages.jsonl"].splitlines()]
        self.assertEqual([(r["stage"], r["status"]) for r in records],
                         [("wrong", "FAILED"), ("fault", "FAILED"), ("hang", "TIMEOUT"),
                          ("absent", "NOT RUN"), ("good", "OK")])
        self.assertIn("wrong ended with 7", records[0]["reason"])
        self.assertIn("ZeroDivisionError", records[1]["reason"])
        self.assertIn("not_there", records[3]["reason"])
        self.assertIn(b"wrong\n", self.archived()["wrong.log"])
        self.assertIn(b"row\n", self.archived()["hang.log"])
        # The whole process group was killed, not only its leader.
        with open(child, encoding="utf-8") as pid:
            self.assertTrue(gone(int(pid.read())))

    def test_a_stage_without_a_gpu_or_without_time_is_not_run(self):
        self.quietly(self.check(gpu=False).stage, "a", 5, lambda log, limit: "")
        self.quietly(self.check(budget=0.5).stage, "b", 5, lambda log, limit: "")
        self.quietly(self.check(gpu=False).stage, "c", 5, lambda log, limit: "", False)
        self.quietly(self.check(gpu=False, rehearse="emulator").stage, "d", 5, lambda log, limit: "")
        records = runner.json_lines(os.path.join(self.work, "stages.jsonl"))
        self.assertEqual([r["status"] for r in records], ["NOT RUN", "NOT RUN", "OK", "OK"])
        self.assertIn("GPU", records[0]["reason"])
        self.assertIn("used up", records[1]["reason"])

    def test_in_software_a_finding_fails_the_stage_and_limits_are_longer(self):
        check = self.check(gpu=False, rehearse="software", only=("found", "clean"))

        def say(text):
            return lambda log, limit: log.write(text + "\n") and None

        self.quietly(check.stage, "found", 5, say("softgpu: NOTE: shared race between warps"))
        self.quietly(check.stage, "clean", 5, say("softgpu H100: 3 graph launches"))
        self.quietly(check.stage, "not chosen", 5, say(""))
        self.assertEqual([(r["stage"], r["status"], r["limit"], r["rehearsed"]) for r in check.records],
                         [("found", "FAILED", 100, "software"), ("clean", "OK", 100, "software")])
        self.assertIn("shared race between warps", check.records[0]["reason"])
        self.assertRaisesRegex(runner.NotRun, "ncu needs a GPU", check.tool, "ncu")

    def test_a_long_stage_is_in_the_archive_before_it_ends(self):
        check = self.check()
        self.program("slow", f"echo '{{\"row\": 1}}' > {self.work}/rows.jsonl; sleep 300")
        with mock.patch.object(runner, "FLUSH_SECONDS", 0.2):
            with mock.patch.object(check, "stage"):  # no flush of its own
                with open(os.devnull, "w", encoding="utf-8") as log:
                    self.assertRaises(subprocess.TimeoutExpired, check.run,
                                      [check.program("slow")], log, 1.5)
        self.assertEqual(self.archived()["rows.jsonl"], b"{\"row\": 1}\n")

    def test_what_is_too_large_to_come_back_is_left_out_and_named(self):
        check = self.check()
        for name, size in (("large", 300_000), ("small", 1000)):
            with open(check.path(name), "wb") as out:
                out.write(os.urandom(size))
        with mock.patch.object(runner, "ARCHIVE_LIMIT", 100_000):
            check.flush()
        found = self.archived()
        self.assertNotIn("large", found)
        self.assertEqual(len(found["small"]), 1000)
        self.assertEqual(found["left-out.txt"], b"large\n")

    def test_a_build_without_the_backend_is_not_run_and_later_stages_say_why(self):
        check = self.check()
        self.program("unmask", "echo 'no GPU: this program was built without CUDA; using the CPU instead'")
        self.quietly(check.stage, "first decode", 5, stages.first_decode(check))
        self.quietly(check.stage, "kernels", 5, lambda log, limit: "")
        self.assertEqual([r["status"] for r in check.records], ["NOT RUN", "NOT RUN"])
        self.assertIn("built without CUDA", check.records[1]["reason"])
        check = self.check()
        self.program("unmask", "echo segfault; exit 139")
        self.quietly(check.stage, "first decode", 5, stages.first_decode(check))
        self.assertEqual(check.records[0]["status"], "FAILED")

    def test_a_gpu_that_the_program_does_not_see_is_none(self):
        check = self.check()
        note = "no GPU: the driver is too old"
        say = "case $* in *json*) echo '%s';; *) echo 'cublaslt /opt/libcublasLt.so.13';; esac"
        self.program("unmask", say % json.dumps({"gpus": [], "notes": ["x", note]}))
        self.quietly(check.stage, "environment", 30, stages.environment(check), False)
        self.quietly(check.stage, "ceilings", 30, stages.ceilings(check))
        self.assertEqual(check.settings.problem, note)
        self.assertEqual([r["reason"] for r in check.records],
                         [note + "; cublaslt: /opt/libcublasLt.so.13", "needs a GPU"])
        self.program("unmask", say % json.dumps({"gpus": [{"name": "H100"}], "notes": []}))
        seen = self.check()
        self.quietly(seen.stage, "environment", 30, stages.environment(seen), False)
        self.assertTrue(seen.settings.gpu)
        self.assertIn("H100", seen.records[0]["reason"])

    def test_missing_tools_benchmarks_and_goldens_are_not_run(self):
        check = self.check()
        self.program("unmask_device_check", "echo no GPU >&2; exit 3")
        self.program("unmask_bench", "echo gemm/cpu")
        self.program("unmask", "exit 0")
        with open(os.devnull, "w", encoding="utf-8") as log, \
                mock.patch.dict(os.environ, {"PATH": "/nowhere"}), \
                mock.patch.object(runner.glob, "glob", lambda pattern: []):
            for work in (stages.sanitizer(check, "memcheck"), stages.operations(check, "small"),
                         stages.kernels(check), stages.goldens(check, "/nowhere/at/all"),
                         stages.ceilings(check), stages.device_tests(check), stages.ncu(check)):
                self.assertRaises(runner.NotRun, work, log, 5)

    def test_wrong_operations_fail_even_when_the_time_ends(self):
        check = self.check()
        line = '{"operation":"attention","case":"f32 9x40","error":1.3,"right":%s,"seed":7}'
        with open(os.devnull, "w", encoding="utf-8") as log:
            self.program("unmask_device_check", f"echo '{line % 'false'}'; exit 1")
            self.assertRaisesRegex(runner.Failed, r"wrong: attention f32 9x40 \(1.3\); seed 7",
                                   stages.operations(check, "large"), log, 5)
            self.program("unmask_device_check", f"echo '{line % 'false'}'; sleep 60")
            self.assertRaisesRegex(runner.Failed, "wrong: attention",
                                   stages.operations(check, "large"), log, 1)
            self.program("unmask_device_check", f"echo '{line % 'true'}'; sleep 60")
            self.assertRaises(subprocess.TimeoutExpired, stages.operations(check, "large"), log, 1)
            self.program("unmask_device_check", f"echo '{line % 'true'}'")
            self.assertEqual(stages.operations(check, "large")(log, 5), "2 cases, seed 7")

    @staticmethod
    def stand_in(name):
        return [sys.executable, os.path.join(os.path.dirname(stages.__file__), "stand_in.py"), name]

    def test_both_kernels_of_two_are_checked_and_timed(self):
        """On a GPU as in a rehearsal: a program that says which it was asked for, and for what."""
        seen = os.path.join(self.folder.name, "seen")
        tell = f"echo $UNMASK_CUDA_KERNELS $UNMASK_CUDA_GEMM $* >> {seen}; "
        self.program("unmask_device_check", tell + "echo '{\"operation\":\"a\",\"right\":true,\"seed\":7}'")
        self.program("unmask_bench", tell)
        self.program("kernels_test", tell)
        for rehearse in ("", "software"):
            if os.path.exists(seen):
                os.remove(seen)
            check = self.check(rehearse=rehearse)
            with open(os.devnull, "w", encoding="utf-8") as log, \
                    mock.patch.object(check, "tool", self.stand_in):
                stages.operations(check, "small")(log, 5)
                for work in (stages.device_tests(check), stages.by_those_before(check), stages.ncu(check)):
                    with contextlib.suppress(Exception):
                        work(log, 60)
            with open(seen, encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertIn("new cuda small", lines)
            self.assertIn("before cuda small --cases " + stages.OF_TWO_KERNELS, lines)
            self.assertTrue(any(line.startswith("new --gtest_filter") for line in lines), lines)
            self.assertTrue(any(line.startswith("before --benchmark_filter=^cuda_(attention") for line in lines), lines)
            words = [line.split()[0] for line in lines]
            self.assertEqual(words.count("before") - 2, sum(of is stages.BEFORE for *_, of in stages.NCU_CASES))

    def test_ncu_looks_at_both_products_of_the_experts(self):
        """A stand-in of ncu that says what it was asked for."""
        seen = os.path.join(self.folder.name, "seen")
        ncu = self.program("ncu", f"echo \"$*\" >> {seen}")
        self.program("unmask_bench", "exit 0")
        check = self.check()
        with open(os.devnull, "w", encoding="utf-8") as log, mock.patch.object(check, "tool", lambda name: [ncu]):
            self.assertEqual(stages.ncu(check)(log, 5), f"{len(stages.NCU_CASES)} kernels")
        with open(seen, encoding="utf-8") as file:
            asked = [line for line in file if "--launch-count" in line]
        self.assertEqual(len(asked), len(stages.NCU_CASES))
        self.assertEqual(["cuda_experts" in line for line in asked], ["--launch-count 2 " in line for line in asked])

    def sanitized(self, chosen, code=0):
        """What the sanitizer ran with --cases `chosen`, of a program that ends with this code, and why it failed."""
        seen = os.path.join(self.folder.name, "seen")
        self.program("unmask_device_check",
                     f"echo \"$UNMASK_CUDA_KERNELS $UNMASK_CUDA_GEMM $*\" >> {seen}; exit {code}")
        check, why = self.check(cases=chosen), None
        with open(os.devnull, "w", encoding="utf-8") as log, mock.patch.object(check, "tool", self.stand_in):
            try:
                stages.sanitizer(check, "racecheck")(log, 5)
            except (runner.NotRun, runner.Failed) as problem:
                why = problem
        with open(seen, encoding="utf-8") as file:
            lines = file.read().splitlines()
        os.remove(seen)
        return lines, why

    def test_the_sanitizer_sees_the_newer_kernels_and_those_beside_the_library(self):
        self.assertEqual(self.sanitized(""), (["new library cuda small 1 --cases gated_linear|of (few|many) rows",
                                               "new own cuda small 1"], None))

    def test_the_sanitizer_looks_at_the_chosen_cases_alone(self):
        (library, own), why = self.sanitized("attention|few")
        self.assertIsNone(why)
        self.assertEqual(own, "new own cuda small 1 --cases attention|few")
        words, cases = library.split(" --cases ")
        self.assertEqual(words, "new library cuda small 1")
        # Names of the program's operations (kernels/check).
        self.assertTrue(re.search(cases, "bf16 linear of few rows"))
        self.assertTrue(re.search(stages.BESIDE_THE_LIBRARY, "bf16 confidence of many rows"))
        self.assertFalse(re.search(cases, "bf16 gated_linear") or re.search(cases, "attention"))
        lines, why = self.sanitized("no such operation", code=2)
        self.assertEqual((len(lines), type(why)), (2, runner.NotRun))
        self.assertIn("--cases no such operation", str(why))
        lines, why = self.sanitized("attention", code=9)
        self.assertEqual((len(lines), type(why)), (1, runner.Failed))
        self.assertIs(type(self.sanitized("", code=2)[1]), runner.Failed)

    def test_attention_is_timed_without_wgmma_too(self):
        check = self.check()
        row = {"name": "cuda_attention/rows:32", "median_us": 50.0}
        self.program("unmask_bench", f"test $UNMASK_CUDA_WGMMA = off && echo '"
                     f"{json.dumps({**row, 'median_us': 80.0})}' > $UNMASK_BENCH_ROWS")
        with open(os.devnull, "w", encoding="utf-8") as log:
            self.assertRaises(runner.NotRun, stages.by_mma_sync(check), log, 5)
            with open(check.path("kernels.jsonl"), "w", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
            self.assertEqual(stages.by_mma_sync(check)(log, 5),
                             "1 cases take 1.60 to 1.60 times as long, 1.60 in the median")

    def test_device_tests_that_were_all_skipped_are_not_run(self):
        check = self.check()
        report = {"testsuites": [{"testsuite": [
            {"name": "a", "classname": "device_moe", "result": "SKIPPED"}]}]}
        tell = "for last; do :; done; echo '%s' > ${last#--gtest_output=json:}"
        with open(os.devnull, "w", encoding="utf-8") as log:
            self.program("kernels_test", tell % json.dumps(report))
            self.assertRaises(runner.NotRun, stages.device_tests(check), log, 5)
            report["testsuites"][0]["testsuite"].append(
                {"name": "b", "classname": "device_moe", "result": "COMPLETED",
                 "failures": [{"failure": "x"}]})
            self.program("kernels_test", tell % json.dumps(report) + "; exit 1")
            self.assertRaisesRegex(runner.Failed, "device_moe.b", stages.device_tests(check), log, 5)

    def test_every_unit_test_of_a_device_is_run_there(self):
        chosen, left_out = (part.split(":") for part in stages.DEVICE_TESTS.split("-"))
        found = set()
        for source in (s for folder in ("tests/kernels/*.cpp", "methods/**/kernels/**/*.cpp")
                       for s in glob.glob(os.path.join(runner.ROOT, folder), recursive=True)):
            with open(source, encoding="utf-8") as text:
                for test in re.split(r"^TEST(?:_[FP])?\(", text.read(), flags=re.MULTILINE)[1:]:
                    if "for_each_device(" in test:
                        found.add(".".join(re.match(r"(\w+), (\w+)\)", test).groups()))
        self.assertGreater(len(found), 40)
        self.assertLess({"few_parts.whole_numbers_are_exact", "gated_linear.few_rows_in_one_launch",
                         "folded_product.whole_numbers_are_the_definition"}, found)
        for test in sorted(found):
            with self.subTest(test):
                self.assertTrue(any(fnmatch.fnmatch(test, pattern) for pattern in chosen))
                self.assertFalse(any(fnmatch.fnmatch(test, pattern) for pattern in left_out))

    def test_two_gpus_run_as_ranks_or_are_missing(self):
        """The ranks that a program starts need its name, if it is one of several in a file."""
        report = {"testsuites": [{"testsuite": [
            {"name": "sums/gpu_2", "classname": "on/device_ranks", "result": "SKIPPED"}]}]}
        seen, folder = os.path.join(self.folder.name, "seen"), os.path.join(self.folder.name, "golden-data")
        os.makedirs(folder)
        several = (f"echo $* >> {seen}; case $1 in kernels_test) for last; do :; done; "
                   "echo '%s' > ${last#--gtest_output=json:};; *) echo one; echo 7 passed, 0 failed;; esac")
        for name in ("kernels_test", "unmask_golden"):
            os.symlink(os.path.join(self.build, "bin", "unmask_gpu"), os.path.join(self.build, "bin", name))
        check = self.check()
        with open(os.devnull, "w", encoding="utf-8") as log:
            self.program("unmask_gpu", several % json.dumps(report))
            self.assertRaisesRegex(runner.NotRun, "needs two GPUs", stages.two_gpus(check, folder), log, 5)
            report["testsuites"][0]["testsuite"][0]["result"] = "COMPLETED"
            self.program("unmask_gpu", several % json.dumps(report))
            self.assertEqual(stages.two_gpus(check, folder)(log, 5), "1 tests; 7 passed, 0 failed")
            with open(seen, encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertIn("kernels_test --gtest_filter=on/device_ranks.*/gpu_2", lines[-2])
            self.assertEqual(lines[-1], f"unmask_golden {folder} --device cuda --ranks 2")
            report["testsuites"][0]["testsuite"][0]["failures"] = [{"failure": "x"}]
            self.program("unmask_gpu", several % json.dumps(report) + "; exit 1")
            self.assertRaisesRegex(runner.Failed, "device_ranks.sums/gpu_2", stages.two_gpus(check, folder), log, 5)
            with open(seen, encoding="utf-8") as file:
                self.assertEqual(len(file.read().splitlines()), 4)  # no official runs behind sums that are wrong or missing

    def test_decisions_that_differ_between_devices_or_graphs_fail(self):
        row = {"point_id": "p", "model": {"name": "m"}, "label": "l", "workload": {"family": "w"}}
        sample = {"point_id": "p", "item": "i"}
        text = ("for last; do :; done; mkdir -p $last/samples/p; echo '" + json.dumps(row) +
                "' > $last/rows.jsonl; case $last in *graphs-off) o=$PLAIN;; *graphs-on) o=$GRAPHS;;"
                " *) o=same;; esac; echo '" + json.dumps(sample)[:-1] +
                ", \"output\": \"'$o'\"}' > $last/samples/p/samples_1.jsonl")
        self.program("unmask", text)
        for plain, graphs, wrong in (("same", "same", None), ("other", "other", "1 of 1 differ"),
                                     ("same", "other", "differ with recorded layers")):
            check = self.check()
            with open(os.devnull, "w", encoding="utf-8") as log, \
                    mock.patch.dict(os.environ, {"PLAIN": plain, "GRAPHS": graphs}):
                if wrong:
                    self.assertRaisesRegex(runner.Failed, wrong, stages.decisions(check), log, 10)
                else:
                    self.assertIn("0 of 1 differ", stages.decisions(check)(log, 10))

    def test_limits_fit_the_budgets_in_order_of_value(self):
        # Every stage but the last ones has its whole limit even when those before use theirs up. The last seven
        # of --measure repeat what earlier calls have for kernels that did not change.
        for name, run, least, cut in (("first", stages.first, 9, 4), ("measure", stages.measure, 16, 7)):
            check = self.check()
            limits = []
            with mock.patch.object(check, "stage",
                                   lambda n, limit, work, needs_gpu=True: limits.append(limit)):
                run(check)
            self.assertGreaterEqual(len(limits), least)
            self.assertLessEqual(sum(limits[:-cut]), driver.BUDGETS[name], name)
            self.assertLess(driver.BUDGETS[name], 570)


class Packing(Workspace):
    def setUp(self):
        super().setUp()
        self.file = os.path.join(self.folder.name, "pack.tar.xz")
        self.library = os.path.join(self.folder.name, "libfoo-1.2.so")
        with open(self.library, "w", encoding="utf-8") as out:
            out.write("foo")
        os.makedirs(os.path.join(self.build, "lib"))
        with open(os.path.join(self.build, "lib", "libicudata.so.72"), "w", encoding="utf-8") as out:
            out.write("no data")

    def run_instead(self, *more):
        """What ldd, strip, git and the program would do."""
        text = "\n".join(["\tlinux-vdso.so.1 (0x1)", f"\tlibfoo.so.1 => {self.library} (0x2)",
                          "\tlibc.so.6 => /lib/libc.so.6 (0x3)", "\t/lib64/ld-linux.so.2 (0x4)",
                          "\tlibicudata.so.72 => /lib/libicudata.so.72 (0x6)",
                          "\tlibcublasLt.so.13 => /opt/cuda/libcublasLt.so.13 (0x5)", *more])

        def run(command, **_):
            out = ""
            if command[0] == "ldd":
                out = text
            elif command[0] == "strip":
                with open(command[3], "rb") as source, open(command[2], "wb") as target:
                    target.write(source.read())
            elif command[-1] == "--programs":
                out = "unmask\nunmask_bench\n"
            elif command[0] == "git":
                return subprocess.CompletedProcess(command, 0, b"", b"")
            return subprocess.CompletedProcess(command, 0, out, "")
        return mock.patch.object(packing.subprocess, "run", run)

    def test_one_program_travels_under_all_names_with_its_libraries_but_without_icu_data(self):
        self.program(packing.PROGRAM, "exit 0")
        with self.run_instead():
            self.assertIn("2 programs in one, 2 libraries", packing.pack(self.build, self.file))
        with tarfile.open(self.file) as archive:
            read = lambda name: archive.extractfile("unmask-gpu/" + name).read()  # noqa: E731
            self.assertEqual(read("lib/libfoo.so.1"), b"foo")
            self.assertEqual(read("lib/libicudata.so.72"), b"no data")
            self.assertEqual(archive.getmember("unmask-gpu/bin/unmask").linkname, packing.PROGRAM)
            self.assertEqual(len(archive.getmembers()), 5)

    def test_modules_of_other_libraries_travel_next_to_the_program(self):
        self.program(packing.PROGRAM, "exit 0")
        self.program("libunmask_cudnn.so", "cuDNN")
        with self.run_instead():
            self.assertIn("2 libraries, 1 modules", packing.pack(self.build, self.file))
        with tarfile.open(self.file) as archive:
            self.assertIn("unmask-gpu/bin/libunmask_cudnn.so", archive.getnames())

    def test_what_is_not_there_or_too_large_is_named(self):
        with self.run_instead(), self.assertRaisesRegex(SystemExit, "no bin/unmask_gpu"):
            packing.pack(self.build, self.file)
        self.program(packing.PROGRAM, "exit 0")
        with self.run_instead("\tlibgone.so.3 => not found"):
            with self.assertRaisesRegex(SystemExit, "libgone.so.3"):
                packing.pack(self.build, self.file)
        with self.run_instead(), mock.patch.object(packing, "LIMIT", 10):
            with self.assertRaisesRegex(SystemExit, "more than 0 MiB"):
                packing.pack(self.build, self.file)

    def test_the_packed_programs_are_looked_for_first_and_unpacked(self):
        self.program(packing.PROGRAM, "exit 0")
        root = os.path.join(self.folder.name, "root")
        os.makedirs(root)
        with mock.patch.object(driver, "ROOT", root):
            self.assertEqual(driver.find_build("")[0], os.path.join(root, "build", "release"))
            with self.run_instead():
                packing.pack(self.build, os.path.join(root, "unmask-gpu.tar.xz"))
            found, said = driver.find_build("")
            self.assertEqual(found, os.path.join(root, "unmask-gpu"))
            self.assertIn("unpacked in", said)
            self.assertTrue(os.access(os.path.join(found, "bin", "unmask"), os.X_OK))
            self.assertEqual(driver.find_build("elsewhere")[0], os.path.abspath("elsewhere"))

    def test_tuning_of_an_earlier_call_is_taken(self):
        check = self.check()
        os.makedirs(check.path("cache"))
        with open(check.path("cache/tune-h100.json"), "w", encoding="utf-8") as out:
            out.write("{}")
        check.flush()
        target = os.path.join(self.folder.name, "cache")
        os.makedirs(target)
        self.assertEqual(driver.take_tuning(os.path.join(self.results, "gpu-first.tar.gz"), target), 1)
        self.assertEqual(os.listdir(target), ["tune-h100.json"])


class Tables(Workspace):
    CEILINGS = [{"kind": "copy", "bytes_per_second": 4e12},
                {"kind": "gemm", "model": "square", "part": "8192", "m": 8192, "flops": 8e11,
                 "bytes": 1e6, "seconds": 1e-3, "right": True},  # 800 TFLOP/s: the peak
                {"kind": "gemm", "model": "llada-8b", "part": "qkv", "m": 1, "flops": 1e8,
                 "bytes": 1e8, "seconds": 5e-5, "right": True},  # 25 us by the copy's rate
                {"kind": "gemm", "model": "llada-8b", "part": "down", "m": 1, "flops": 1e8,
                 "bytes": 1e8, "seconds": 1e-9, "right": False}]

    def test_fractions_are_least_time_over_time_taken(self):
        text = "\n".join(summary.roofs_table(self.CEILINGS))
        self.assertIn("| reads alone | 4000 GB/s | not measured |", text)
        self.assertIn("| best bfloat16 product | 800 TFLOP/s | not measured |", text)
        text = "\n".join(summary.products_table(self.CEILINGS))
        self.assertIn("| square | 8192 | – | – | – | – | 1000.0, 1.00 |", text)
        self.assertIn("| llada-8b | qkv | 50.0, 0.50 | – | – | – | – |", text)
        self.assertNotIn("| down |", text)
        self.assertIn("1 products are WRONG", text)
        phase = {"phase": "feed_forward", "container": False, "device_seconds": 2e-3,
                 "flops": 8e11, "bytes": None}
        report = {"phases": [phase], "provenance": {"work": "analytic"}, "kernels_problem": None,
                  "counters_problem": "refused"}
        step = "\n".join(summary.step_table(
            [{"model": {"name": "m"}, "label": "l", "batch_size": 8,
              "probes": {"phases": report}}], self.CEILINGS))
        self.assertIn("| feed_forward | 2.000 | 0.50 |", step)
        self.assertIn("refused", step)

    def test_kernels_stand_beside_their_prediction(self):
        rows = [{"name": "cuda_attention/rows:32/iterations:25/manual_time", "median_us": 50.0,
                 "bytes": 1e8, "flops": 1e9},
                {"name": "cuda_rms_norm/rows:1/iterations:25/manual_time", "median_us": 2.0}]
        text = "\n".join(summary.kernels_table(
            rows, self.CEILINGS, [{"name": "attention/rows:32", "seconds": 4e-5}]))
        self.assertIn("| attention/rows:32 | 50.0 | 0.50 | 40.0 | 1.25 |", text)
        self.assertIn("| rms_norm/rows:1 | 2.0 | – | – | – |", text)

    def test_the_fastest_reading_is_the_roof_of_memory(self):
        # A product of one row that read 5 TB/s, where a copy reached 4; then reads alone at 6; then load.
        one = {"kind": "gemm", "model": "m", "part": "head", "m": 1, "flops": 1.0, "bytes": 5e9,
               "seconds": 1e-3, "right": True}
        self.assertEqual(roofs.roofs_of([*self.CEILINGS, one]).reads, 5e12)
        rows = [*self.CEILINGS, one, {"kind": "read", "bytes_per_second": 6e12},
                {"kind": "read", "state": "loaded", "bytes_per_second": 5.5e12},
                {"kind": "copy", "state": "loaded", "bytes_per_second": 3.5e12},
                {"kind": "loaded_gemm", "flops": 6e11, "seconds": 1e-3}]
        self.assertEqual(roofs.roofs_of(rows), roofs.Roofs(6e12, 8e14, 4e12, 5.5e12, 6e14, 3.5e12))
        self.assertIn("| best bfloat16 product | 800 TFLOP/s | 600 TFLOP/s |",
                      "\n".join(summary.roofs_table(rows)))
        int8 = [{"name": "cuda_linear/rows:1/bits:8", "median_us": 1.0, "bytes": 1e7, "flops": 1}]
        self.assertIn("| linear/rows:1/bits:8 | 1.0 | – | – | – |",
                      "\n".join(summary.kernels_table(int8, rows)))

    def test_the_roof_of_a_forward_pass_is_a_sum_over_its_products(self):
        # 2 x 2 weights are 8 bytes, and 8 FLOP a row; those of the last product are half of it.
        tiny = roofs.Shape(layers=3, hidden=2, queries=2, keys=0, feed_forward=1, vocabulary=2)
        self.assertEqual(tiny.products, ([(2, 2)], [(2, 2), (2, 2), (1, 2)]))
        reads = roofs.Roofs(reads=1.0, products=1e9)  # bytes alone: 3 layers of 8 + 8 + 8 + 4, head 8
        self.assertAlmostEqual(roofs.forward_seconds(tiny, roofs.Forward(10, 10, 1), reads), 3 * 28 + 8)
        flops = roofs.Roofs(reads=1e9, products=1.0)
        # Layer 0 takes 10 rows everywhere, layer 1 in its first product, all else 3.
        first, rest = 10 * 8 + 10 * (8 + 8 + 4), 3 * (8 + 8 + 4)
        self.assertAlmostEqual(roofs.forward_seconds(tiny, roofs.Forward(10, 3), flops),
                               first + (10 * 8 + rest) + (3 * 8 + rest))
        with_keys = roofs.Shape(1, 2, 2, 4, 1, 2)  # 5 keys of 4 features, two arrays of two bytes
        no_rows = roofs.Forward(0, 0, keys=5)
        self.assertAlmostEqual(roofs.forward_seconds(with_keys, no_rows, reads), 5 * 4 * 2 * 2)

    def test_prefill_and_decode_are_held_apart(self):
        # One forward pass of decoding with 4 requests, two in which 100 positions entered each.
        m = {"batch_mean": 4, "nfe": 6, "prefill_forwards": 2, "batched_forwards": 3, "rows": 240,
             "decode_rows": 40, "processed_rows": 40, "head_rows": 8, "prompt_tokens_mean": 90.0,
             "output_tokens_mean": 20.0, "wall_seconds": 10.0, "prefill_time_share": 0.25}
        row = {"model": {"name": "sdar-8b"}, "metrics": m}
        r = roofs.Roofs(reads=1e12, products=1e15)
        shape = roofs.shape_of("sdar-8b")
        self.assertEqual(shape, roofs.Shape(36, 4096, 4096, 1024, 12288, 151936))
        decode, prefill = roofs.Forward(40, 40, 8, 400), roofs.Forward(100, 100)
        parts = roofs.parts_of_run(row, r)
        self.assertEqual(parts["decode"], (roofs.forward_seconds(shape, decode, r), 7.5))
        self.assertEqual(parts["prefill"], (2 * roofs.forward_seconds(shape, prefill, r), 2.5))
        # 13.9 GB of the layers' weights, 1.24 GB of the head's, 59 MB of keys and values.
        self.assertAlmostEqual(parts["decode"][0], (13.891e9 + 1.2447e9 + 0.059e9) / 1e12, places=5)
        # Mixed: three passes of 80 positions, all of which stay.
        mixed = roofs.parts_of_run({**row, "serve": {"policy": "mixed"}}, r)
        self.assertEqual(mixed, {"both": (3 * roofs.forward_seconds(
            shape, roofs.Forward(80, 80, 8 / 3, 400), r), 10.0)})
        self.assertEqual(roofs.parts_of_run({**row, "model": {"name": "none"}}, r), {})
        self.assertEqual(roofs.parts_of_run(row, roofs.Roofs()), {})
        self.assertIsNone(roofs.shape_of("llada2-mini"))

    def test_throughput_has_a_share_of_each_part(self):
        ceilings = [{"kind": "copy", "bytes_per_second": 1e9},
                    {"kind": "gemm", "right": True, "flops": 4e9, "seconds": 1.0}]
        metrics = {"tokens_per_second": 123.4, "redundancy": 2.5, "wall_seconds": 2.0,
                   "prefill_time_share": 0.254, "energy_joules": 1400.0}
        row = {"label": "whole blocks", "batch_size": 32, "graphs": "on", "metrics": metrics,
               "serve": {"policy": "iter"}, "model": {"name": "x"}}
        with mock.patch.object(summary, "parts_of_run",
                               return_value={"prefill": (0.25, 0.5), "decode": (0.9, 1.5)}):
            text = "\n".join(summary.throughput_table([row], ceilings))
        self.assertIn("| plain block diffusion | 32 | on | iter | 123 | – | 2.50 | 25 % | 0.50 | 0.60 | "
                      "0.57 | – | 700 | – | – |", text)
        metrics |= {"watts_mean": 690.0, "clock_mhz_mean": 1500.4, "throttled_share": 0.5,
                    "steady_tokens_per_second": 200.0, "flops": 8e14}
        # 132 multiprocessors x 4096 x 1.5004 GHz are 811.2 TFLOP/s: in two seconds twice that.
        row["environment"] = {"gpus": [{"compute_capability": "9.0", "multiprocessors": 132}]}
        text = "\n".join(summary.throughput_table([row], []))
        self.assertIn("| 123 | 200 | 2.50 | 25 % | – | – | – | 0.49 | 690 | 1500 | 0.50 |", text)
        row["environment"]["gpus"][0]["compute_capability"] = "12.0"
        self.assertIsNone(summary.tensor_share(row))
        self.assertIn("FAILED no", "\n".join(summary.throughput_table(
            [{"label": "x", "batch_size": 1, "verdict": "FAILED", "reason": "no"}], ceilings)))
        self.assertEqual(summary.throughput_table([], ceilings), [])

    def test_a_forward_pass_is_a_point_and_others_are_told_from_near_ones(self):
        def row(slots, entering, kept, keys, milliseconds, method="focus"):
            # Ten passes with all slots, a tenth of the time in prefill.
            return {"method": method, "label": "FOCUS", "batch_size": slots, "metrics": {
                "batch_mean": slots, "nfe": 11 * slots, "prefill_forwards": slots,
                "decode_rows": 10 * slots * entering, "processed_rows": 10 * slots * kept,
                "prompt_tokens_mean": keys - 16, "output_tokens_mean": 32,
                "prefill_time_share": 0.1, "wall_seconds": milliseconds * 1e-2 / 0.9}}
        point, seconds = surface.point_of(row(8, 20, 7, 512, 9.0))
        self.assertEqual(point, (8, 20, 7, 512))
        self.assertAlmostEqual(seconds, 9e-3)
        near = [((8, 20, 7, 512), 8e-3), ((32, 20, 7, 512), 18e-3)]
        self.assertEqual(surface.seconds_at(near, (8, 20, 7, 512)), 8e-3)
        # Sixteen slots are as far, in logarithms, from eight as from thirty-two.
        self.assertAlmostEqual(surface.seconds_at(near, (16, 20, 7, 512)), 12e-3)
        lines = surface.table([row(8, 20, 7, 512, 8.0), row(32, 20, 7, 512, 18.0)],
                              [row(16, 20, 7, 512, 10.0), row(16, 20, 7, 512, 10.0, "block_diffusion")])
        self.assertIn("| 32.0 | 20.0 | 7.0 | 512 | 18.00 |", lines)
        self.assertIn("10.00 ms, 12.00 by the table: +20 %", lines[-1])
        self.assertEqual(sum("by the table" in line for line in lines), 1)
        mixed = row(8, 20, 7, 512, 9.0)
        mixed["serve"] = {"policy": "mixed"}
        self.assertIsNone(surface.point_of(mixed))
        self.assertEqual(surface.table([mixed], []), [])

    def test_the_questions_of_a_call_are_answered_from_its_rows(self):
        folder = self.folder.name
        self.assertEqual(answers.lines(folder, [], [], []), [])
        self.write(os.path.join(folder, "operations-small.jsonl"), [
            {"operation": "attention", "right": True}, {"operation": "moe", "right": False}])
        self.write(os.path.join(folder, "turns.jsonl"), [
            {"case": "linear/rows:1", "way": "CUDA cores", "against": "cuBLASLt", "ratio": 1.5, "low": 1.4,
             "high": 1.6, "median_us": 3.0}, {"case": "experts", "way": "CUTLASS", "why": "none"},
            {"case": "attention", "way": "newer kernels", "against": "cuDNN", "ratio": 0.9, "low": 0.8, "high": 0.95,
             "median_us": 1.8, "over_before": {"ratio": 0.75, "low": 0.7, "high": 0.8}},
            {"case": "attention", "way": "cuDNN", "against": "newer kernels", "ratio": 1.1, "low": 1.05, "high": 1.2,
             "median_us": 2.0, "version": "cuDNN 9.13", "taken": False},
            {"case": "confidence", "way": "newer kernels", "against": "kernels before", "ratio": 0.5, "low": 0.4,
             "high": 0.6, "median_us": 2.0}])
        served = [{"label": "FOCUS", "batch_size": 32, "serve": {"policy": p},
                   "metrics": {"tokens_per_second": v}} for p, v in (("iter", 100.0), ("mixed", 106.0))]
        profile = {"label": "FOCUS", "model": {"name": "sdar-8b"},
                   "probes": {"phases": {"device_busy": 0.9, "device_span": 1.0}}}
        cut = {**profile, "model": {"name": "sdar-8b, 4 of 36 layers"}}
        ceilings = [*self.CEILINGS, {"kind": "loaded_gemm", "flops": 6e11, "seconds": 1e-3},
                    {"kind": "read", "state": "loaded", "bytes_per_second": 3e12}]
        text = "\n".join(answers.lines(folder, ceilings, served, [cut, profile]))
        for part in ("| D1 | which kernels are right | 2 cases, WRONG: moe |",
                     "linear/rows:1, CUDA cores: 1.50 (1.40 to 1.60) of cuBLASLt; ",
                     "attention, newer kernels: 0.90 (0.80 to 0.95) of cuDNN; ",
                     "attention, newer kernels: 0.75 (0.70 to 0.80) of kernels before; ",
                     "attention, cuDNN: 1.10 (1.05 to 1.20) of newer kernels, not taken; ",
                     "confidence, newer kernels: 0.50 (0.40 to 0.60) of kernels before |",
                     "600 of 800 TFLOP/s, 3000 of 4000 GB/s read", "FOCUS, 32 slots: 1.06 |",
                     "| FOCUS: 10 % |"):
            self.assertIn(part, text)
        table = "\n".join(summary.turns_table(runner.json_lines(os.path.join(folder, "turns.jsonl"))))
        self.assertIn("| linear/rows:1 | CUDA cores | 3.0 | cuBLASLt | 1.500 | 1.400 to 1.600 |", table)
        self.assertIn("| experts | CUTLASS | NOT RUN | none | – | – |", table)
        self.assertIn("| attention | newer kernels | | kernels before | 0.750 | 0.700 to 0.800 |", table)
        self.assertIn("| attention | cuDNN 9.13, not taken | 2.0 | newer kernels | 1.100 | 1.050 to 1.200 |", table)

    @staticmethod
    def write(path, rows):
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(r) + "\n" for r in rows)

    def test_cases_are_an_expression(self):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit) as ended:
            driver.main(["--first", "--cases", "("])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("--cases (", said.getvalue())

    def report(self, rehearsed):
        check = self.check(name="gpu-measure", rehearse="emulator" if rehearsed else "")
        with open(check.path("ceilings.jsonl"), "w", encoding="utf-8") as out:
            out.writelines(json.dumps(r) + "\n" for r in self.CEILINGS)
        with open(check.path("kernels.jsonl"), "w", encoding="utf-8") as out:
            out.write('{"name": "cuda_head/rows:1", "median_us": 10.0, "bytes": 2e7, "flops": 0}\n')
        with open(check.path("environment.json"), "w", encoding="utf-8") as out:
            json.dump({"gpus": [{"name": "H100", "memory_bytes": 2**36, "multiprocessors": 132,
                                 "l2_bytes": 2**25}], "build": {"git_commit": "abc"}}, out)
        self.quietly(check.stage, "ncu", 5, mock.Mock(side_effect=runner.NotRun("needs ncu")))
        prediction = os.path.join(self.folder.name, "prediction.jsonl")
        with open(prediction, "w", encoding="utf-8") as out:
            out.write('{"name": "head/rows:1", "seconds": 8e-6}\n')
        page = os.path.join(self.folder.name, "page.md")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = reporting.write([os.path.join(self.results, "gpu-measure.tar.gz")], prediction,
                                   page)
            refused = reporting.write([os.path.join(self.results, "gpu-measure.tar.gz")], "",
                                      reporting.COMMITTED) if rehearsed else 2
        with open(page, encoding="utf-8") as text:
            return code, refused, text.read()

    def test_the_page_is_written_from_the_archive_and_a_rehearsal_is_called_one(self):
        code, _, page = self.report(rehearsed=False)
        self.assertEqual(code, 0)
        self.assertIn("# Measured on a GPU", page)
        self.assertIn("H100, 64 GiB", page)
        self.assertIn("| head/rows:1 | 10.0 | 0.50 | 8.0 | 1.25 |", page)
        self.assertIn("* ncu: NOT RUN, needs ncu", page)
        code, refused, page = self.report(rehearsed=True)
        self.assertEqual((code, refused), (0, 2))
        self.assertIn("No number below was measured on a GPU", page)

    def test_the_committed_page_is_what_its_archives_give(self):
        folder = os.path.dirname(reporting.COMMITTED)
        archives = [os.path.join(folder, name + ".tar.xz")
                    for name in ("gpu-first", "gpu-first-2", *(f"gpu-measure-{i}" for i in range(1, 6)))]
        page, rehearsed = reporting.render(archives, os.path.join(folder, "prediction.jsonl"),
                                           self.folder.name)
        with open(reporting.COMMITTED, encoding="utf-8") as text:
            self.assertEqual(page, text.read(), "written anew by the command of results/gpu/README.md")
        self.assertFalse(rehearsed)

    def test_without_a_gpu_one_line_says_so_and_the_exit_code_is_0(self):
        done = subprocess.run(
            [sys.executable, "-B", driver.__file__, "--first", "--results", self.results, "--build",
             self.build], capture_output=True, text=True, timeout=60, check=False,
            env=dict(os.environ, PATH="/nowhere"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no GPU: nvidia-smi is not on PATH", done.stdout)
        statuses = [json.loads(line)["status"]
                    for line in self.archived()["stages.jsonl"].splitlines()]
        self.assertEqual(set(statuses), {"NOT RUN"})
        self.assertTrue(os.path.exists(os.path.join(self.results, "gpu-first.md")))

    def test_two_checks_of_the_same_second_keep_their_own_records(self):
        root = os.path.join(self.folder.name, "root")

        def first(check, _):
            check.stage("a", 5, lambda log, limit: "", False)
        counts = []
        with mock.patch.object(driver, "ROOT", root), mock.patch.dict(os.environ), \
                mock.patch.object(stages, "first", first), \
                mock.patch.object(driver.time, "strftime", lambda *_: "-20300101T000000Z"):
            for name in ("one", "two"):
                folder = os.path.join(self.folder.name, name)
                code, _ = self.quietly(driver.main, ["--first", "--keep", "--build", self.build,
                                                     "--results", folder])
                self.assertEqual(code, 0)
                with tarfile.open(os.path.join(folder, "gpu-first.tar.gz")) as packed:
                    read = packed.extractfile("gpu-first/stages.jsonl").read()
                counts.append(len(read.splitlines()))
        self.assertEqual(counts, [1, 1])
        self.assertEqual(len(os.listdir(os.path.join(root, "runs", "gpu"))), 2)


if __name__ == "__main__":
    unittest.main()
