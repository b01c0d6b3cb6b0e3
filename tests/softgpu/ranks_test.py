# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Ranks with a GPU in software each, and the stand-in for NCCL between them: they decode what one process does on the
CPU with as many pieces; and what ranks on GPUs lack, or do wrong, is a sentence.

    ranks_test.py PROGRAM    PROGRAM: unmask_softgpu; UNMASK_SOFTGPU_ARCH chooses the cards
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = ""
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Short answers with float32 weights.
EXPERIMENT = f"""
title = "Ranks on GPUs"
[run]
gen_length = 8
repetitions = 1
warmup = 0
[[workload]]
file = "{ROOT}/experiments/data/word_problem.jsonl"
"""
FOUND = re.compile(r"softgpu: (?:NOTE|FAULT|HOST).*")


class Ranks(unittest.TestCase):
    limit = 1  # answers
    model = "tiny-sdar"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.runs = 0

    def command(self, device, *settings, methods=("block_diffusion", "focus")):
        """Where a run writes, and what runs it."""
        self.runs += 1
        output = os.path.join(self.folder.name, f"run-{self.runs}")
        file = output + ".toml"
        with open(file, "w", encoding="utf-8") as text:
            text.write(EXPERIMENT + f"limit = {self.limit}\n" + f'[[model]]\npath = "{ROOT}/experiments/models/{self.model}"\n'
                       + "".join(f'[[method]]\nname = "{name}"\n' for name in methods))
        if device == "cuda":
            settings = ("run.device_check=off", *settings)
        return output, [PROGRAM, "run", file, "--no-progress", "--device", device, "-o", output,
                        *[word for s in settings for word in ("--set", s)]]

    def environment(self, variables):
        own = {**os.environ, "UNMASK_CACHE": os.path.join(self.folder.name, "cache"), "UNMASK_SOFTGPU_DEVICES": "2"}
        own.pop("CUDA_VISIBLE_DEVICES", None)
        return {**own, **variables}

    def rows(self, output):
        try:
            with open(os.path.join(output, "rows.jsonl"), encoding="utf-8") as rows:
                return [json.loads(line) for line in rows]
        except FileNotFoundError:
            return []

    def run_on(self, device, *settings, methods=("block_diffusion", "focus"), **variables):
        """Exit code, rows, and what was said."""
        output, command = self.command(device, *settings, methods=methods)
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment(variables), check=False,
                              timeout=300)
        return done.returncode, self.rows(output), done.stdout + done.stderr

    def reason(self, *settings, **variables):
        """Why a run of two ranks found nothing: its row's reason, or what the program said last."""
        code, rows, said = self.run_on("cuda", "run.ranks=2", *settings, methods=("block_diffusion",), **variables)
        self.assertNotEqual(code, 0, said)
        if rows:
            self.assertEqual([r["verdict"] for r in rows], ["FAILED"])
            return rows[0]["reason"]
        return said

    def expect_the_work_of_one(self, got, want, said):
        self.assertEqual(len(got), len(want), said)
        for mine, one in zip(got, want):
            self.assertEqual(mine["answers_hash"], one["answers_hash"])
            for count in ("rows", "nfe", "layer_rows", "committed", "keys_seen", "flops"):
                self.assertEqual(mine["metrics"][count], one["metrics"][count], count)
            self.assertNotIn("sum_share", mine["metrics"])
        self.assertEqual(FOUND.findall(said), [])

    def test_two_gpus_decode_what_one_process_does_with_two_pieces(self):
        """Layers are recorded: of a second answer the same numbers of positions come again."""
        self.limit = 2
        _, want, _ = self.run_on("cpu", "run.pieces=2")
        code, got, said = self.run_on("cuda", "run.ranks=2", UNMASK_SOFTGPU_STATS="on")
        self.assertEqual(code, 0, said)
        self.expect_the_work_of_one(got, want, said)
        self.assertEqual(got[0]["topology"], {"hosts": 1, "transport": "NCCL", "nccl": "2.28.9"})
        self.assertGreater(int(re.search(r"(\d+) graph launches", said).group(1)), 0, said)

    def test_three_gpus_add_in_two_shots_what_one_process_adds_in_three_pieces(self):
        """Layers are recorded, and with them sends and receives."""
        self.limit, only = 2, ("block_diffusion",)
        _, want, _ = self.run_on("cpu", "run.pieces=3", methods=only)
        code, got, said = self.run_on("cuda", "run.ranks=3", "run.two_shots=0", methods=only,
                                      UNMASK_SOFTGPU_DEVICES="3", UNMASK_SOFTGPU_STATS="on")
        self.assertEqual(code, 0, said)
        self.expect_the_work_of_one(got, want, said)
        # Two moves for each of two sums in five layers, and one for the head.
        metrics = got[0]["metrics"]
        self.assertGreater(metrics["sum_calls"], 4 * 5 * metrics["batched_forwards"])
        self.assertGreater(int(re.search(r"(\d+) graph launches", said).group(1)), 0, said)

    def test_a_call_that_one_rank_alone_has_captured_is_found(self):
        self.limit = 2
        _, _, said = self.run_on("cuda", "run.ranks=2", methods=("block_diffusion",), UNMASK_SOFTGPU_NCCL="launched:1")
        self.assertRegex(said, "softgpu: HOST: NCCL: one of ranks [01] and [01] launches a call that the other has captured")

    def test_ranks_launch_as_many_graphs_as_one_another(self):
        self.limit = 2
        rows, said = self.launched(UNMASK_SOFTGPU_STATS="on")
        self.assertEqual(len(rows), 1, said)
        counts = re.findall(r"(\d+) captures, (\d+) graph launches", said)
        self.assertEqual(len(counts), 2, said)
        self.assertEqual(counts[0], counts[1])
        self.assertGreater(int(counts[0][1]), 0)
        self.assertEqual(FOUND.findall(said), [])

    def test_sums_that_are_launched_move_what_they_do_on_the_cpu(self):
        only = ("block_diffusion",)
        _, want, _ = self.run_on("cpu", "run.ranks=2", methods=only)
        code, got, said = self.run_on("cuda", "run.ranks=2", "run.graphs=off", methods=only)
        self.assertEqual(code, 0, said)
        self.expect_the_work_of_one(got, want, said)
        # Of a candidate a GPU sends 40 bytes and a CPU 48: the states of their heads.
        metrics, of_cpu = got[0]["metrics"], want[0]["metrics"]
        self.assertGreater(of_cpu["sum_calls"], 0)
        self.assertEqual(metrics["sum_calls"], of_cpu["sum_calls"])
        self.assertEqual(metrics["sum_bytes"], of_cpu["sum_bytes"] - 8 * of_cpu["head_rows"])

    def test_whole_experts_and_halves_are_those_of_one_gpu_with_two_pieces(self):
        """tiny-llada2: hidden size 192; halves are two bytes an element. Bits are one device's: no CPU's."""
        self.model, only = "tiny-llada2", ("block_diffusion",)
        for settings in (("run.experts=experts",), ("run.experts=experts", "run.sums=bf16")):
            code, want, said = self.run_on("cuda", "run.pieces=2", *settings, methods=only)
            self.assertEqual(code, 0, said)
            code, got, said = self.run_on("cuda", "run.ranks=2", "run.graphs=off", *settings, methods=only)
            self.assertEqual(code, 0, said)
            self.expect_the_work_of_one(got, want, said)
            metrics = got[0]["metrics"]
            elements = 192 * (metrics["layer_rows"] + metrics["feed_forward_rows"])
            self.assertEqual(metrics["sum_bytes"],
                             (2 if "run.sums=bf16" in settings else 4) * elements + 40 * metrics["head_rows"])

    def test_what_ranks_on_gpus_lack_is_said_before_weights_are_loaded(self):
        nowhere = os.path.join(self.folder.name, "libnccl.so.2")
        self.assertRegex(self.reason(UNMASK_NCCL=nowhere),
                         "several ranks on GPUs need NCCL, which cannot be opened .tried " + re.escape(nowhere))
        other = os.path.join(os.path.dirname(os.path.dirname(PROGRAM)), "tests", "softgpu", "libcublasLt.so")
        self.assertRegex(self.reason(UNMASK_NCCL=other),
                         r"libcublasLt.so has no ncclGetVersion: several ranks on GPUs need NCCL 2.18.0 or later")
        self.assertRegex(self.reason(UNMASK_SOFTGPU_NCCL="version"),
                         r"is NCCL 2.10.3: several ranks on GPUs need 2.18.0 or later")
        for variables in ({"UNMASK_SOFTGPU_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES": "1"}):
            self.assertIn("NOT RUN: needs 2 GPUs (this machine has 1)", self.reason(**variables))

    def test_gpus_that_differ_are_named(self):
        self.assertRegex(self.reason(UNMASK_SOFTGPU_UNLIKE="1"),
                         r"rank 1 has another GPU than rank 0 \(softgpu .* of \d+ multiprocessors, not softgpu .*\)")

    def test_drivers_and_libraries_that_differ_are_named(self):
        self.assertIn("rank 1 has another driver than rank 0 (13.1, not 13.0)",
                      self.reason(UNMASK_SOFTGPU_NEW_DRIVER="1"))
        self.assertIn("rank 1 has another NCCL than rank 0 (2.27.9, not 2.28.9)",
                      self.reason(UNMASK_SOFTGPU_NCCL="other_version:1"))

    def launched(self, **variables):
        """The rows of rank 0, and what both ranks said, which a launcher started."""
        started = []
        for rank in (1, 0):
            output, command = self.command("cuda", "run.ranks=2", methods=("block_diffusion",))
            place = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                     "MASTER_PORT": f"softgpu-{os.getpid()}"}
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                            env=self.environment({**place, **variables})))
        said = [one.communicate(timeout=120)[0] for one in started]
        return self.rows(output), "".join(said)

    def test_a_rank_that_a_launcher_started_takes_the_gpu_of_its_number(self):
        rows, said = self.launched()
        self.assertEqual(len(rows), 1, said)
        self.assertNotEqual(rows[0]["verdict"], "FAILED", rows[0]["reason"] + said)
        for rank in (0, 1):
            self.assertIn(f"rank {rank}: of 2 GPUs it takes CUDA_VISIBLE_DEVICES={rank} alone", said)

    def test_a_gpu_that_two_ranks_have_is_named(self):
        rows, said = self.launched(CUDA_VISIBLE_DEVICES="1")
        self.assertRegex("".join(r["reason"] for r in rows) + said,
                         "ranks 0 and 1 have the same GPU, 0000:01:00.0: each needs one of its own, the only one in "
                         "its CUDA_VISIBLE_DEVICES")

    def test_an_nccl_that_fails_is_told_with_its_words_and_its_move(self):
        self.assertRegex(self.reason(UNMASK_SOFTGPU_NCCL="refuse:1"),
                         r"rank 1: NCCL: ncclCommInitRankConfig of 2 ranks: unhandled system error "
                         r"\(Call to connect failed: Connection refused\)")
        self.assertRegex(self.reason(UNMASK_SOFTGPU_NCCL="error:1:3"),
                         r"rank 1: NCCL: move \d+ or one before it: unhandled system error "
                         r"\(NET/Socket : peer closed the connection\)")

    def followers(self):
        """Processes of this test's runs that are told to follow."""
        cache = "UNMASK_CACHE=" + os.path.join(self.folder.name, "cache")
        found = []
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{process}/environ", encoding="utf-8", errors="replace") as text:
                    variables = text.read().split("\0")
            except OSError:  # another user's, or it has ended
                continue
            if cache in variables and any(v.startswith("UNMASK_FOLLOWS=") for v in variables):
                found.append(int(process))
        return found

    def told_in_time(self, fault, patience=2):
        """The reason of the row of a run with a fault, which is there a second after patience ends, if not before;
        the run ends with exit code 1 and leaves no process."""
        began = os.path.join(self.folder.name, fault.replace(":", "-"))
        output, command = self.command("cuda", "run.ranks=2", methods=("block_diffusion",))
        environment = self.environment({"UNMASK_SOFTGPU_NCCL": fault, "UNMASK_SOFTGPU_NCCL_BEGAN": began,
                                        "UNMASK_RANKS_PATIENCE": str(patience)})
        with open(began + ".txt", "w", encoding="utf-8") as said:
            run = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
        self.addCleanup(run.kill)
        self.wait_until(lambda: os.path.exists(began), 120)
        begin = time.monotonic()
        self.wait_until(lambda: self.rows(output), 60)
        self.assertLess(time.monotonic() - begin, patience + 1)
        self.assertEqual(run.wait(60), 1)
        self.assertEqual(self.followers(), [])
        return self.rows(output)[0]["reason"]

    def wait_until(self, happens, seconds):
        end = time.monotonic() + seconds
        while not happens():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_a_gpu_that_does_not_go_on_is_told_in_time(self):
        self.assertRegex(self.told_in_time("stuck:1:4"),
                         r"move \d+ of the devices did not end within 2 s, to which all ranks have come")

    def test_a_gpu_that_never_joins_is_told_in_time(self):
        self.assertIn("ncclCommInitRankConfig of 2 ranks did not end within 2 s, to which all ranks have come",
                      self.told_in_time("absent:1"))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
