# SPDX-License-Identifier: Apache-2.0
"""The program's way to prompts: what it says of files, the tasks files that it keeps, and runs
that find them without Python."""

import json
import os
import subprocess
import tempfile
import unittest

import goldens

PROGRAM = os.environ["UNMASK_PROGRAM"]
MODEL = os.path.join(goldens.SOURCE, "experiments", "models", "tiny-llada")
SUM = {"question": "1 + 1?", "answer": "It is 2.\n#### 2"}
EXPERIMENT = """[run]
warmup = 0
repetitions = 1
[[model]]
path = "{model}"
[[workload]]
benchmark = "gsm8k"
shots = 1
limit = 1
gen_length = 32
[[method]]
name = "vanilla"
"""


class Program(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        self.data = os.path.join(self.folder, "data")
        os.makedirs(self.data)
        self.environment = os.environ | {"XDG_CACHE_HOME": os.path.join(self.folder, "cache"),
                                         "UNMASK_DATASETS": self.data, "UNMASK_TASKS": ""}
        with open(os.path.join(self.folder, "e.toml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT.format(model=MODEL))

    def run_program(self, *arguments, **environment):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, text=True,
                              capture_output=True, env=self.environment | environment)
        return done.returncode, done.stdout + done.stderr

    def says(self, code, words, *arguments, **environment):
        status, text = self.run_program(*arguments, **environment)
        self.assertEqual(status, code, text)
        for word in words:
            self.assertIn(word, text)
        return text

    def measure(self, code, *words, **environment):
        return self.says(code, words, "run", "e.toml", "--no-progress", "--fresh", "-o", "rows",
                         **environment)

    def write_data(self, question="1 + 1?"):
        goldens.write_lines(os.path.join(self.data, "gsm8k", "test.jsonl"),
                            [SUM | {"question": question}])
        goldens.write_lines(os.path.join(self.data, "gsm8k", "train.jsonl"), [SUM] * 3)

    def cached(self):
        folder = os.path.join(self.folder, "cache", "unmask", "tasks")
        return [os.path.join(folder, name) for name in os.listdir(folder)]

    def test_a_benchmark_says_its_files_and_where_they_are(self):
        text = self.says(0, ["test.jsonl", "train.jsonl", "main/test-*.parquet", "MIT",
                             "https://github.com/openai/grade-school-math", "openai/gsm8k",
                             "load_dataset('openai/gsm8k', 'main'"], "list", "benchmarks", "gsm8k")
        with open(os.path.join(goldens.SOURCE, "harness/python/unmask/benchmarks/prompts/benchmarks.json"),
                  encoding="utf-8") as file:
            data = json.load(file)["datasets"]
        self.assertIn(data["gsm8k"]["sha256"]["test.jsonl"], text)
        every = self.says(0, list(data), "list", "benchmarks")
        for entry in data.values():
            self.assertIn(entry["hub"] or entry["home"], every)
        self.says(2, ["gsm8k"], "list", "benchmarks", "gsm8")

    def test_every_file_is_looked_for_before_a_model_is_loaded(self):
        self.measure(3, "NOT RUN: needs benchmark gsm8k", "test.jsonl", "train.jsonl", self.data,
                     "unmask list benchmarks gsm8k")
        goldens.write_lines(os.path.join(self.data, "gsm8k", "test.jsonl"), [SUM])
        text = self.measure(3, "NOT RUN: needs benchmark gsm8k", "no train.jsonl in")
        self.assertNotIn("no test.jsonl", text)
        self.measure(3, "$UNMASK_DATASETS, which names no folder", UNMASK_DATASETS="")

    def test_incomplete_data_stop_a_run_before_its_model(self):
        self.write_data(question="")
        self.measure(3, "test.jsonl, item 0: `question` is empty", "NOT RUN")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "rows", "rows.jsonl")))

    def test_a_run_writes_its_prompts_once_and_again_for_other_data(self):
        self.write_data()
        self.measure(0, "gsm8k")
        written = self.cached()
        self.assertEqual(len(written), 1)
        with open(written[0], encoding="utf-8") as file:
            head, item = (json.loads(line) for line in file)
        self.assertEqual(head["library"]["lm_eval"], "0.4.8")
        self.assertTrue(item["prompt"].endswith("Question: 1 + 1?\nAnswer:"))
        self.measure(0, "gsm8k", UNMASK_PYTHON="/nowhere/python")  # no need of Python now
        self.write_data(question="2 + 2?")
        self.measure(3, "NOT RUN: needs Python", "unmask prompts FILE.toml -o tasks/",
                     UNMASK_PYTHON="/nowhere/python")
        self.measure(0, "gsm8k")
        with open(self.cached()[0], encoding="utf-8") as file:
            self.assertIn("2 + 2?", file.read())

    def test_prompts_written_beforehand_need_neither_python_nor_data(self):
        self.write_data()
        self.measure(3, "NOT RUN: needs Python", "unmask prompts FILE.toml -o tasks/",
                     UNMASK_PYTHON="/nowhere/python")
        text = self.says(0, ["tasks/gsm8k-LM-gsm8k-"], "prompts", "e.toml", "-o", "tasks/")
        self.assertTrue(os.path.exists(os.path.join(self.folder, text.strip())))
        bare = {"UNMASK_PYTHON": "/nowhere/python", "UNMASK_DATASETS": ""}
        self.measure(0, "gsm8k", **bare)
        os.rename(os.path.join(self.folder, "tasks"), os.path.join(self.folder, "elsewhere"))
        self.measure(3, "NOT RUN: needs benchmark gsm8k", **bare)
        self.measure(0, "gsm8k", UNMASK_TASKS=os.path.join(self.folder, "elsewhere"), **bare)

    def test_an_experiment_without_benchmarks_needs_no_python(self):
        text = EXPERIMENT.format(model=MODEL).replace('benchmark = "gsm8k"\nshots = 1',
                                                      'tasks = ["word_problem"]')
        with open(os.path.join(self.folder, "e.toml"), "w", encoding="utf-8") as file:
            file.write(text)
        self.measure(0, "word_problem", UNMASK_PYTHON="/nowhere/python")
        self.says(0, ["no workload of these files is a benchmark"], "prompts", "e.toml")


if __name__ == "__main__":
    unittest.main()
