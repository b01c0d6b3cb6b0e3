# SPDX-License-Identifier: Apache-2.0
"""unmask plan: the job array that it writes, as a shell and as sbatch read it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import unittest

import support
from support import program

from unmask import plan


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


class Plan(support.Case):
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
        commands = [line for line in done.stdout.splitlines() if line.startswith("Then: ")]
        self.assertEqual(shlex.split(commands[0])[1:],
                         ["unmask", "merge", str(self.folder / "out dir"), "-o", "rows.jsonl"])
        for number in range(2):
            subprocess.run(["sh", "out dir/array.sh"], check=True, capture_output=True,
                           env={**os.environ, "SLURM_ARRAY_TASK_ID": str(number)})
        done = program("merge", "out dir", "-o", "rows.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 points in rows.jsonl", done.stdout)

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
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("none.toml"), 1, done.stderr)
        self.assertEqual(program("plan").returncode, 2)
        self.write("e.toml", support.EXPERIMENT)
        self.assertEqual(program("plan", "e.toml", "--scheduler", "pbs").returncode, 2)
        self.assertEqual(program("plan", "e.toml", "--shards", "0").returncode, 2)
        self.assertEqual(program("plan", "e.toml", "--sbatc=x").returncode, 2)


if __name__ == "__main__":
    unittest.main()
