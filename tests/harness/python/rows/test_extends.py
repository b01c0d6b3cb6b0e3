# SPDX-License-Identifier: Apache-2.0
"""An experiment file that extends another: the package reads what the program does, and a run of it is repeated from
its bundle alone."""

import json
import os
import pathlib
import shutil
import tomllib
import unittest

import support
from support import program

from unmask.rows import experiments
from unmask.rows.errors import UserError

BASE = """title = "base"
description = "d"
[artifact]
paper = "focus"
id = "table_5"
[run]
warmup = 0
repetitions.min = 1
repetitions.max = 2
[[model]]
path = "own/tiny"
role = "block"
[[model]]
path = "../models/tiny-ar"
config = "shapes/x"
[model.set]
"run.batch_size" = 2
[[workload]]
tasks = ["word_problem"]
limit = 1
models = ["block"]
[[workload]]
tasks = ["word_problem"]
limit = 2
models = ["tiny-ar"]
[[workload]]
file = "data/long.jsonl"
judge = "own/tiny"
[[method]]
name = "block_diffusion"
params.threshold = 0.9
[[method]]
name = "block_diffusion"
label = "at 0.8"
params.threshold = 0.8
[sweep]
"params.threshold" = [0.6, 1.0]
batch_size = [1, 2]
[layout]
rows = "label"
columns = ["score"]
[scale.tiny]
takes = "1 s"
[scale.tiny.run]
seed = 3
[[scale.tiny.workload]]
trace = "data/t.csv"
[scale.full]
needs = ["cuda"]
"""
# The upper files of a chain, each with what it does.
CHANGES = {
    "values": 'extends = "../base/b.toml"\ntitle = "mine"\n[run]\nrepetitions = 5\nseed = 2\n[layout]\ncolumns = '
              '["tpf"]\n[scale.tiny]\nnote = "n"\nneeds = ["gpus:2"]\n',
    "entries": 'extends = "../base/b.toml"\n[[model]]\nname = "tiny-ar"\nsoften = 2.0\n[[workload]]\ntasks = '
               '["word_problem"]\nlimit = 7\n[[method]]\nlabel = "at 0.8"\npreset = "p"\nparams.steps = 4\n[[method]]\n'
               'name = "focus"\n[[workload]]\nfile = "mine.jsonl"\n[[scale.tiny.workload]]\nname = "t"\nlimit = 5\n',
    "removed": 'extends = "../base/b.toml"\n[[method]]\nlabel = "at 0.8"\nremove = true\n[[workload]]\nremove = true\n'
               '[[workload]]\ntasks = ["story"]\n[sweep]\nbatch_size = []\n[layout]\nremove = true\nrows = "model"\n'
               '[scale.full]\nremove = true\n[[scale.tiny.workload]]\nname = "t"\nremove = true\n[scale.more]\ntakes = '
               '"2 s"\n[[scale.more.method]]\nname = "focus"\n',
    "third": 'extends = "removed.toml"\n[artifact]\npaper = "p"\nid = "i"\n[[method]]\nname = "x"\n[[workload]]\nname = '
             '"story"\nlimit = 1\n[scale.more]\nremove = true\nnote = "only this"\n[sweep]\nremove = true\n',
    "deep/er": 'extends = "../values.toml"\n[[model]]\nname = "tiny"\nrole = "r"\n',
}


class Extends(support.Case):
    def setUp(self):
        super().setUp()
        self.write("base/b.toml", BASE)
        self.write("base/own/tiny/config.json", "{}")
        for name, text in CHANGES.items():
            self.write(f"mine/{name}.toml", text)

    def test_the_package_merges_as_the_program_does(self):
        for name in CHANGES:
            done = program("show", f"mine/{name}.toml")
            self.assertEqual(done.returncode, 0, done.stderr)
            theirs = tomllib.loads(done.stdout)
            ours = experiments.read_experiment(str(self.folder / f"mine/{name}.toml"))
            self.assertEqual(ours, theirs, name)
            self.assertNotIn("extends", ours)
            done = program("show", f"mine/{name}.toml", "--format", "json")
            self.assertEqual(json.loads(done.stdout), theirs)

    def test_what_two_files_say_is_known_by_hand(self):
        ours = experiments.read_experiment(str(self.folder / "mine/third.toml"))
        self.assertEqual(ours["artifact"], {"paper": "p", "id": "i"})
        self.assertEqual([m["name"] for m in ours["method"]], ["block_diffusion", "x"])
        self.assertEqual(ours["workload"], [{"tasks": ["story"], "limit": 1}])
        self.assertEqual(ours["layout"], {"rows": "model"})
        self.assertNotIn("sweep", ours)
        self.assertEqual(ours["scale"], {"tiny": {"takes": "1 s", "run": {"seed": 3}}, "more": {"note": "only this"}})
        self.assertEqual([m["path"] for m in ours["model"]], ["../base/own/tiny", "../models/tiny-ar"])
        deep = experiments.read_experiment(str(self.folder / "mine/deep/er.toml"))
        self.assertEqual(deep["model"][0], {"path": "../../base/own/tiny", "role": "r"})
        self.assertEqual(deep["model"][1]["config"], "../../base/shapes/x")
        self.assertEqual(deep["workload"][2], {"file": "../../base/data/long.jsonl", "judge": "../../base/own/tiny"})
        self.assertEqual(deep["run"]["repetitions"], 5)

    def test_mistakes_name_the_file(self):
        for text, words in (('extends = 3\n', "takes the name of an experiment file"),
                            ('extends = "none.toml"\n', "`extends` is 'none.toml', and there is no such file"),
                            ('extends = "x.toml"\n', "which extends this file"),
                            ('extends = "values.toml"\n[[method]]\nlabel = "at 0.7"\n', "did you mean 'at 0.8'"),
                            ('extends = "values.toml"\n[serve]\nremove = true\n', "unknown table of"),
                            ('extends = "values.toml"\n[run]\nremove = 1\n', "`remove` takes true"),
                            ('extends = "values.toml"\nmodel = 3\n', "must be written as [[model]]")):
            self.write("mine/x.toml", text)
            experiments.read_toml.cache_clear()
            with self.assertRaises(UserError) as raised:
                experiments.read_experiment(str(self.folder / "mine/x.toml"))
            self.assertIn(words, str(raised.exception))
            self.assertIn("x.toml: ", str(raised.exception))
            done = program("run", "mine/x.toml", "--dry-run")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(words, done.stderr)

    def test_shipped_files_are_read_alike(self):
        """Those that extend another one, with their scales; at least three do."""
        found = [path for path in sorted((support.SOURCE / "experiments").rglob("*.toml"))
                 if path.read_text(encoding="utf-8").partition("\n[")[0].find("\nextends = ") > 0]
        self.assertGreaterEqual(len(found), 3)
        for path in found:
            done = program("show", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(experiments.read_experiment(str(path)), tomllib.loads(done.stdout))

    def test_the_example_of_the_page_changes_what_it_says(self):
        """Of the 28 settings of the quickstart, 14 methods on two tasks, it removes a method and changes another."""
        page = (support.SOURCE / "experiments/README.md").read_text(encoding="utf-8")
        self.write("mine.toml", page.partition("```toml\n")[2].partition("```")[0])
        done = program("run", "mine.toml", "--dry-run", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        labels = [point["label"] for point in json.loads(done.stdout)["points"]]
        self.assertEqual((len(labels), labels.count("autoregressive"), labels.count("fast_dllm, threshold 0.9")), (26, 0, 2))
        method = [m for m in experiments.read_experiment(str(self.folder / "mine.toml"))["method"]
                  if m.get("label") == "fast_dllm, threshold 0.9"]
        self.assertEqual([m["params"] for m in method], [{"cache": "dual", "threshold": 0.8}])

    def test_a_run_is_repeated_from_its_bundle_alone(self):
        """The base is gone where the bundle is repeated, and so is the folder that the model was in."""
        self.write("lent/e.toml", support.EXPERIMENT.replace("models/tiny-sdar", "../models/own"))
        shutil.copytree(support.SOURCE / "experiments/models/tiny-sdar", "models/own")
        self.write("mine/e.toml", 'extends = "../lent/e.toml"\ntitle = "changed"\n[sweep]\n"params.threshold" = [0.7]\n')
        done = program("run", "mine/e.toml", "-o", "rows", "--no-progress")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = program("bundle", "rows", "-o", "sent.tar")
        self.assertIn("../models/own=FOLDER", done.stderr)
        kept = json.loads(pathlib.Path("rows/run.json").read_text(encoding="utf-8"))
        self.assertNotIn("extends", kept["experiment"]["text"])
        os.rename("models/own", "elsewhere")
        shutil.rmtree("lent")
        done = program("rerun", "sent.tar", "--no-progress", "--ignore-speed", "--model", "own=elsewhere")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("1 point", done.stdout)
        self.assertIn("tokens identical in 1", done.stdout)


if __name__ == "__main__":
    unittest.main()
