# SPDX-License-Identifier: Apache-2.0
"""unmask plan: the job array that it writes, as a shell and as sbatch read it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import unittest
import unittest.mock

import support
from support import program

from unmask.jobs import plan


def tasks_in(script):
    return [shlex.split(words) for words in re.findall(r"^\d+\) exec (.*) ;;$", script, re.M)]


class Script(support.Case):
    def test_every_word_survives_the_shell(self):
        tasks = [["/bin/echo", "run", "a b.toml", "--shard", "0/2"], ["/bin/echo", "it's.toml", "$HOME"]]
        script = plan.slurm_script(tasks, "/data/it's here", ["--gres=gpu:1"])
        self.assertIn("#SBATCH --array=0-1\n", script)
        self.assertIn("#SBATCH --requeue\n", script)
        self.assertIn("#SBATCH --gres=gpu:1\n", script)
        self.assertEqual(tasks_in(script), tasks)
        file = self.write("array.sh", script)
        for number, task in enumerate(tasks):
            said = subprocess.run(["sh", file], capture_output=True, text=True, check=True,
                                  env={**os.environ, "SLURM_ARRAY_TASK_ID": str(number)})
            self.assertEqual(said.stdout, " ".join(task[1:]) + "\n")

    def test_directives_with_blanks_are_one_word(self):
        self.assertEqual(plan.directive("--output=/a b/task-%a.log"),
                         '#SBATCH "--output=/a b/task-%a.log"\n')
        self.assertEqual(plan.directive('--comment=say "hi" \\ there'),
                         '#SBATCH "--comment=say \\"hi\\" \\\\ there"\n')
        self.refused("one line", plan.directive, "--comment=a\nrm -rf /")
        self.refused("at least one point", plan.slurm_script, [], "/x", [])
        self.assertIn("--output=/100%%/task-%a.log", plan.slurm_script([["x"]], "/100%", []))

    def test_an_array_has_no_more_tasks_than_slurm_takes(self):
        """Slurm's default MaxArraySize is 1001, so that the largest index is 1000. By hand: 21 experiments of 100
        points are 2,100 tasks; 1001 * 100 / 2100 is 47 each, 987 in all, of up to three points."""
        plans = [{"points": [{}] * 100, "file": f"{i}.toml", "name": f"e{i}"} for i in range(21)]
        given = plan.parsed(["x.toml", "--shards", "100"])
        counts = plan.counts_of(plans, 100, plan.MOST_TASKS)
        self.assertEqual(counts, [47] * 21)
        with unittest.mock.patch.object(plan, "program", lambda: "unmask"):
            tasks = [t for p, n in zip(plans, counts) for t in plan.tasks_of(p, n, given, "/out")]
        script = plan.slurm_script(tasks, "/out", [])
        self.assertIn("#SBATCH --array=0-986\n", script)
        for i in range(21):  # every part of every experiment, once
            shards = [t[t.index("--shard") + 1] for t in tasks_in(script) if t[2] == f"{i}.toml"]
            self.assertEqual(shards, [f"{part}/47" for part in range(47)])
        self.assertEqual(plan.counts_of([{"points": []}, *plans], 1, 1001), [0] + [1] * 21)
        uneven = [{"points": [{}] * n} for n in (1, 1, 50, 100)]
        self.assertLessEqual(sum(plan.counts_of(uneven, 100, 10)), 10)
        self.assertGreaterEqual(min(plan.counts_of(uneven, 100, 10)), 1)
        self.refused("21 experiments are more than the 20 tasks", plan.counts_of, plans, 100, 20)

    def test_the_cluster_says_how_large_an_array_may_be(self):
        self.write("bin/scontrol", "#!/bin/sh\necho 'MaxArraySize            = 51'\n").chmod(0o755)
        asked = plan.parsed(["x.toml"])
        with unittest.mock.patch.dict(os.environ, {"PATH": f"{self.folder}/bin"}):
            self.assertEqual(plan.array_limit(asked), 51)
        with unittest.mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            self.assertEqual(plan.array_limit(asked), 1001)
        self.assertEqual(plan.array_limit(plan.parsed(["x.toml", "--max-array-size", "7"])), 7)
        self.refused("--max-array-size is between", plan.parsed, ["x.toml", "--max-array-size", "-1"])

    @unittest.skipUnless(shutil.which("sbatch"), "NOT RUN: needs sbatch (Debian: slurm-client)")
    def test_sbatch_reads_what_was_meant(self):
        conf = self.write("slurm.conf", "ClusterName=x\nSlurmctldHost=localhost\nNodeName=localhost\n"
                          "PartitionName=all Nodes=ALL\n")
        script = plan.slurm_script([["/bin/true"]], str(self.folder / "plan dir x"),
                                   ["--comment=it's \"a\" b", "--mem=100"])
        # -vv says what it read of the script before it asks a controller, which is not there.
        said = subprocess.run(["timeout", "20", "sbatch", "-vv", self.write("a b.sh", script)],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "SLURM_CONF": str(conf)}).stderr
        self.assertNotIn("Invalid directive", said)
        self.assertNotIn("Unrecognized", said)
        self.assertIn("array", said)
        bad = f"#!/bin/sh\n#SBATCH --output={self.folder}/plan dir x/task-%a.log\n"
        said = subprocess.run(["timeout", "20", "sbatch", "-vv", self.write("bad.sh", bad)],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "SLURM_CONF": str(conf)}).stderr
        self.assertIn("Invalid directive", said)  # the test can fail


class Cells(support.Case):
    """By hand: sums over points of which some say nothing."""

    def test_what_is_unknown_is_no_zero(self):
        def cells(unknown, gpu_points, hours_unknown, more=False):
            return plan.cells({"points": [{}] * 3, "answers": 12.0, "points_without_answers": unknown,
                               "forwards": 34.0, "points_without_forwards": 0, "gpu_hours": 1.26,
                               "gpu_points": gpu_points, "points_without_hours": hours_unknown,
                               "gpu_hours_at_least": more})
        self.assertEqual(cells(0, 3, 0), ("12", "34", "1.3"))
        self.assertEqual(cells(1, 3, 2), ("at least 12; 1 point unknown", "34",
                                          "at least 1.3; 2 points unknown"))
        self.assertEqual(cells(3, 0, 0), ("unknown", "34", "none"))
        self.assertEqual(cells(0, 2, 2)[2], "unknown")
        self.assertEqual(cells(0, 2, 0, True)[2], "at least 1.3")


SERVED = """kind = "serve"
[run]
warmup = 0
repetitions = 2
gen_length = 64
device = "cpu"
[serve]
requests = 30
[[model]]
path = "models/tiny-sdar"
[[workload]]
tasks = ["word_problem"]
limit = 5
[[method]]
name = "block_diffusion"
"""


class Plan(support.Case):
    def test_requests_are_counted_and_a_cpu_has_no_hours_of_a_gpu(self):
        # By hand: 30 requests, each alone in 64 forwards, two commits and one of its prompt; twice.
        self.write("s.toml", SERVED)
        done = program("plan", "s.toml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| s | 1 | 60 | 4020 | none | none | can run |", done.stdout)
        self.assertIn("s: 1 point: on cpu, so no hours of a GPU", done.stdout)
        # How many a search serves, it finds.
        search = ("--set", "serve.search=true", "--set", "serve.slo_tpot_ms=50")
        done = program("plan", "s.toml", *search)
        self.assertIn("| s | 1 | unknown | unknown | none | none | can run |", done.stdout)
        said = json.loads(program("run", "s.toml", "--dry-run", "--format", "json", *search).stdout)
        self.assertEqual((said["points_without_answers"], said["points"][0]["items"]), (1, None))

    def test_a_plan_becomes_an_array_whose_rows_merge(self):
        self.write("an exp.toml", support.EXPERIMENT)
        done = program("plan", "an exp.toml", "--scheduler", "slurm", "--shards", "5", "-o", "out dir",
                       "--set", "params.threshold=1.0", "--sbatch=--mem=1 G")
        # --set makes both points of the sweep equal: one is left.
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| an exp | 1 |", done.stdout)
        done = program("plan", "an exp.toml", "--scheduler", "slurm", "--shards", "5", "-o", "out dir",
                       "--sbatch=--mem=1 G")
        self.assertIn("| an exp | 2 |", done.stdout)
        self.assertIn("2 tasks. Submit them with: sbatch '" + str(self.folder), done.stdout)
        script = (self.folder / "out dir/array.sh").read_text()
        self.assertIn('#SBATCH "--mem=1 G"\n', script)
        self.assertNotIn("MaxArraySize", done.stdout)
        fewer = program("plan", "an exp.toml", "--scheduler", "slurm", "--shards", "5", "--max-array-size", "1",
                        "-o", "one")
        self.assertIn("An array may have 1 task here (MaxArraySize), and 2 were asked for: a task measures up to 2 "
                      "points, one after the other.\n1 task.", fewer.stdout)
        commands = [line for line in done.stdout.splitlines() if line.startswith("Then: ")]
        self.assertEqual(shlex.split(commands[0])[1:],
                         ["unmask", "merge", str(self.folder / "out dir"), "-o", "rows.jsonl"])
        for number in range(2):
            subprocess.run(["sh", "out dir/array.sh"], check=True, capture_output=True,
                           env={**os.environ, "SLURM_ARRAY_TASK_ID": str(number)})
        done = program("merge", "out dir", "-o", "rows.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 points in rows.jsonl", done.stdout)

    def test_each_number_of_ranks_is_an_array_of_its_own(self):
        """A task of two ranks starts two processes by srun, here a stand-in that starts them with its variables; its
        rows are those of two ranks, once."""
        self.write("e.toml", support.EXPERIMENT + "ranks = [1, 2]\n")
        done = program("plan", "e.toml", "--scheduler", "slurm", "-o", "out", "--device", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        one, two = ((self.folder / "out" / name).read_text() for name in ("array.sh", "array-2-ranks.sh"))
        self.assertNotIn("ntasks", one)
        self.assertIn("#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=2\n", two)
        self.assertNotIn("gpu", two)
        self.assertEqual(tasks_in(two)[0][:2], ["srun", "--ntasks=2"])
        self.assertIn("--points={ranks=2}", tasks_in(two)[0])
        self.assertIn("1 task of 2 ranks. Submit them with: sbatch", done.stdout)
        srun = self.write("bin/srun", "#!/bin/sh\nn=${1#--ntasks=}\nshift\nfor i in $(seq $((n - 1))) 0; do\n"
                          "SLURM_STEP_ID=0 SLURM_PROCID=$i SLURM_LOCALID=$i SLURM_STEP_NUM_TASKS=$n \"$@\" &\ndone\n"
                          "wait $!\ncode=$?\nwait\nexit $code\n")
        os.chmod(srun, 0o755)
        for script in ("array.sh", "array-2-ranks.sh"):
            done = subprocess.run(["sh", f"out/{script}"], capture_output=True, text=True, check=False, env={
                **os.environ, "PATH": f"{os.path.dirname(srun)}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": "0",
                "SLURM_JOB_ID": str(os.getpid()), "SLURM_PROCID": "0", "SLURM_LOCALID": "0"})
            self.assertEqual(done.returncode, 0, done.stderr)
        done = program("merge", "out", "-o", "rows.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        self.assertEqual(sorted(row["ranks"] for row in found), [1, 1, 2, 2])
        self.assertEqual(len({row["answers_hash"] for row in found}), len({row["variation"].split()[0] for row in found}))

    def test_the_script_of_ranks_on_gpus(self):
        script = plan.slurm_script([["x"]], "/out", ["--mem=1G"], 4, True)
        self.assertIn("#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH --mem=1G\n",
                      script)
        given = plan.parsed(["x.toml"])
        with unittest.mock.patch.object(plan, "program", lambda: "unmask"):
            (task,) = plan.tasks_of({"file": "x.toml", "name": "x", "gpu_points": 1, "only": True}, 1, given, "/out", 4)
        self.assertEqual(task, ["srun", "--ntasks=4", "--gpu-bind=none", "unmask", "run", "x.toml", "--no-progress",
                                "--output", "/out/4-ranks/x", "--points={ranks=4}"])

    def test_the_plan_as_json(self):
        self.write("e.toml", support.EXPERIMENT)
        done = program("run", "e.toml", "--dry-run", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual([p["variation"] for p in said["points"]], ["threshold=0.6", "threshold=1"])
        self.assertEqual((said["name"], said["obstacle"]), ("e", ""))
        self.assertFalse((self.folder / "runs").exists())

    def test_errors_are_those_of_the_program(self):
        done = program("plan", "none.toml")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr.count("none.toml"), 1, done.stderr)
        self.assertEqual(program("plan").returncode, 2)
        self.write("e.toml", support.EXPERIMENT)
        self.assertEqual(program("plan", "e.toml", "--scheduler", "pbs").returncode, 2)
        self.assertEqual(program("plan", "e.toml", "--shards", "0").returncode, 2)
        self.assertEqual(program("plan", "e.toml", "--sbatc=x").returncode, 2)


if __name__ == "__main__":
    unittest.main()
