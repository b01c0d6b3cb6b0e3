# SPDX-License-Identifier: Apache-2.0
"""Nothing is run or found through the current folder or those above it, and what is no regular file
is refused at once: planted files, pipes and folders."""

import json
import os
import pathlib
import shutil
import unittest

import support
from support import program

PLANTED = "from pathlib import Path; Path('{}').write_text('planted')\n"


class Planted(support.Case):
    """The current folder is DIR/a/b; files are planted in it, in DIR/a and in DIR."""

    def setUp(self):
        super().setUp()
        self.here = self.folder / "a/b"
        self.here.mkdir(parents=True)
        self.mark = self.folder / "mark"
        os.chdir(self.here)
        for place in ("", "a/", "a/b/"):
            self.write(place + ".venv/bin/python", f"#!/bin/sh\necho planted > '{self.mark}'\n")
            os.chmod(self.folder / place / ".venv/bin/python", 0o755)
            for name in ("plots/report.py", "plots/json.py", "json.py", "argparse.py", "unmask.py",
                         "harness/python/unmask/__main__.py", "sitecustomize.py"):
                self.write(place + name, PLANTED.format(self.mark))
            self.write(place + "data/word_problem.jsonl", '{"planted": true}\n')
            self.write(place + "experiments/data/word_problem.jsonl", '{"planted": true}\n')
            self.write(place + "experiments/claims/focus.py", PLANTED.format(self.mark))
            for models in ("models", "experiments/models"):
                self.write(f"{place}{models}/tiny-sdar/config.json", "planted")

    def test_no_code_of_the_current_folder_runs(self):
        rows = self.write("a/b/rows.jsonl", (support.SOURCE / "tests/plots/data/decode.jsonl")
                          .read_bytes())
        # Without $UNMASK_PYTHON, so that the program chooses.
        clean = {k: v for k, v in os.environ.items() if k != "UNMASK_PYTHON"}
        program("report", rows, "-o", "page.html", env=clean)
        done = program("report", rows, "-o", "page.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        for command in (["merge", "rows.jsonl", "-o", "m.jsonl"], ["bundle", "."], ["rerun", "x.tar"],
                        ["plan", "x.toml"]):
            program(*command)
            program(*command, env=clean)
        self.assertFalse(self.mark.exists())

    def test_models_and_tasks_are_those_of_the_program(self):
        other = self.folder / "other"
        other.mkdir()
        file = other / "e.toml"
        file.write_text(support.EXPERIMENT)
        done = program("run", file, "-o", "rows", "--no-progress")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        done = program("bench", "tiny-sdar", "-n", "8", "--repetitions", "1", "--warmup", "0",
                       "--no-progress", "-o", "bench")
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = program("list", "claims")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertNotIn("planted", listed.stdout + listed.stderr)

    def test_what_lies_beside_the_experiment_is_found_there(self):
        task = support.SOURCE / "experiments/data/needle.jsonl"
        mine = self.folder / "mine"
        (mine / "data").mkdir(parents=True)
        shutil.copy(task, mine / "data/own_task.jsonl")
        (mine / "e.toml").write_text(support.EXPERIMENT.replace("word_problem", "own_task"))
        done = program("run", mine / "e.toml", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        # Not in the folder above it, nor by a path.
        for name in ("../mine/data/own_task", "own_task"):
            (self.folder / "e.toml").write_text(support.EXPERIMENT.replace("word_problem", name))
            self.assertEqual(program("run", self.folder / "e.toml", "--dry-run").returncode, 2)


class NoRegularFile(support.Case):
    def test_pipes_devices_and_folders_end_at_once(self):
        for kind in ("pipe", "device", "folder", "lost"):
            place = self.folder / kind
            place.mkdir()

            def odd(name):
                path = place / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if kind == "pipe":
                    os.mkfifo(path)
                elif kind == "device":
                    os.symlink("/dev/zero", path)
                elif kind == "lost":
                    os.symlink(place / "nothing", path)
                else:
                    path.mkdir()
                return path

            model = place / "model"
            shutil.copytree(support.SOURCE / "experiments/models/tiny-sdar", model)
            # Also what a checkpoint may lack: a file that is there is read or refused.
            for part in ("config.json", "model.safetensors", "model-00001-of-00002.safetensors",
                         "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json",
                         "generation_config.json", "chat_template.jinja", "chat_template.json",
                         "special_tokens_map.json"):
                path = model / part
                kept = path.read_bytes() if path.exists() else None
                path.unlink(missing_ok=True)
                odd(f"model/{part}")
                done = program("generate", "--model", model, "-n", "32", "hi")
                self.assertEqual(done.returncode, 3, f"{kind} {part}: {done.stderr}")
                self.assertIn(part, done.stderr)
                path.rmdir() if kind == "folder" else path.unlink()
                if kept is not None:
                    path.write_bytes(kept)
            experiment = odd("e.toml")
            for command in (["run", experiment], ["plan", experiment], ["run", "--from", odd("r.json")],
                            ["table", odd("rows.jsonl")], ["rerun", odd("b.tar")],
                            ["merge", odd("m.jsonl"), "-o", place / "out.jsonl"],
                            ["report", odd("p/rows.jsonl").parent], ["table", place / "p"],
                            ["compare", place / "p", place / "p"], ["claims", place / "p"],
                            ["report", odd("a/rows.tar.xz").parent], ["claims", place / "a"],
                            ["compare", place / "a", place / "a"],
                            ["score", odd("s/samples_gsm8k_1.jsonl").parent]):
                if kind == "folder" and command[0] not in ("rerun",):
                    continue  # a folder is something else to these
                done = program(*command)
                self.assertIn(done.returncode, (2, 3), f"{kind} {command}: {done.stderr}")
            tasks = odd("tasks.jsonl")
            trace = self.write(f"{kind}/t.toml", support.EXPERIMENT.replace(
                'tasks = ["word_problem"]', f'file = "{tasks}"'))
            self.assertNotEqual(program("run", trace, "-o", place / "x").returncode, 0)
            replay = odd("replay.txt")
            text = support.EXPERIMENT.replace("[run]", f'[run]\nimpose = "replay:{replay}"')
            self.assertNotEqual(program("run", self.write(f"{kind}/i.toml", text), "-o",
                                        place / "y").returncode, 0)


class NamedFiles(support.Case):
    def test_what_a_parameter_names_is_a_part_of_its_point(self):
        text = (support.EXPERIMENT.replace("tiny-sdar", "tiny-llada").replace("block_diffusion", "pc_sampler")
                .replace('[sweep]\n"params.threshold" = [0.6, 1.0]', 'params.frequencies = "file:counts"'))
        self.write("e.toml", text)
        for counts, measured in (("1 " * 1024, "1 of 1"), ("1 " * 1024, "0 of 1"),
                                 ("1 " * 1023 + "9", "1 of 1")):
            self.write("counts", counts)
            done = program("run", "e.toml", "-o", "out", "--no-progress")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"{measured} points measured", done.stderr)
        os.remove("counts")
        done = program("run", "e.toml", "-o", "out", "--no-progress")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("counts does not exist", done.stderr)


class NothingThere(support.Case):
    def test_where_there_are_no_rows_nothing_was_compared_or_judged(self):
        os.mkdir("a")
        os.mkdir("b")
        self.write("c/rows.jsonl", support.line("x"))
        for command in (["compare", "a", "b"], ["compare", "a", "a"], ["claims", "a"],
                        ["table", "a", "--view", "paired"], ["report", "a"], ["crossover", "a"]):
            done = program(*command)
            self.assertIn(done.returncode, (2, 3), f"{command}: {done.stdout}")
            self.assertEqual(done.stdout, "")

    def test_only_is_of_folders(self):
        self.write("e.toml", support.EXPERIMENT)
        done = program("run", "e.toml", "--only", "x", "--dry-run")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--only", done.stderr)


if __name__ == "__main__":
    unittest.main()
