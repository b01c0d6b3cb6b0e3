# SPDX-License-Identifier: Apache-2.0
"""Our sample files scored again by lm-evaluation-harness itself.

lm-eval reads the record and the answer of every line; its own task makes the prompt's end, the target,
the filtered answer and the metrics. All of them must equal what the file says. Nothing is downloaded:
the records of the files are the data sets. torch is not needed to score an answer, so the package's
__init__, which imports lm-eval's models, is passed over.
"""
import glob
import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import types
import unittest

SKIPPED = 77
SOURCE = os.environ.get("UNMASK_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))
PROGRAM = os.environ.get("UNMASK_PROGRAM", os.path.join(SOURCE, "build", "cpu", "bin", "unmask"))


def load_lm_eval():
    """lm-eval without its models; None where it is not installed."""
    found = importlib.util.find_spec("lm_eval")
    if found is None:
        return None
    package = types.ModuleType("lm_eval")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["lm_eval"] = package
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    # The sentence model of two of IFEval's instructions is a download; lm-eval asks for it when it is
    # imported. Our scorer leaves those instructions undecided, and so does this comparison.
    import nltk
    nltk.data.find = nltk.download = lambda *args, **kwargs: True
    # lm-eval gives sympy five seconds by the clock on the wall, which a busy machine uses up elsewhere.
    alarm = signal.alarm
    signal.alarm = lambda seconds: alarm(20 * seconds)
    # Without a seed langdetect finds another language in a short text now and then.
    from langdetect import DetectorFactory
    DetectorFactory.seed = 0
    return package


LM_EVAL = load_lm_eval()


def task_of(name, docs):
    """lm-eval's task of this name over these records instead of its data set."""
    import datasets
    import lm_eval.filters  # registers them
    from lm_eval import utils
    from lm_eval.api.task import ConfigurableTask

    class Offline(ConfigurableTask):
        def download(self, *args, **kwargs):
            rows = datasets.Dataset.from_list(docs)
            self.dataset = datasets.DatasetDict(
                {split: rows for split in ("train", "validation", "test", "dev")})

    folder = os.path.join(LM_EVAL.__path__[0], "tasks")
    for path in glob.glob(os.path.join(folder, "**", "*.yaml"), recursive=True):
        with open(path, encoding="utf-8") as file:
            if not re.search(rf'^"?task"?: "?{re.escape(name)}"?$', file.read(), re.MULTILINE):
                continue
        config = utils.load_yaml_config(path, mode="full")
        return Offline(config={k: v for k, v in config.items()
                               if k not in ("tag", "group", "num_fewshot")} | {"num_fewshot": 0})
    if name == "minerva_math":  # MATH-500: the subjects share one scorer
        return task_of("minerva_math_algebra", docs)
    raise AssertionError(f"lm-eval has no task {name}")


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def unsanitized(line, task):
    """The responses as process_results wants them: numbers where the file has their texts."""
    if task.OUTPUT_TYPE != "multiple_choice":
        return [answers[0] for answers in line["resps"]]
    return [(float(answers[0][0]), answers[0][1] == "True") for answers in line["resps"]]


@unittest.skipIf(LM_EVAL is None, "lm-eval is not installed")
class Agreement(unittest.TestCase):
    def run_program(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments], cwd=SOURCE, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def compare(self, path):
        """The lines that lm-eval judged as the file says, and those that ours leaves undecided."""
        from lm_eval.api.instance import Instance
        from lm_eval.utils import handle_non_serializable, hash_string
        name = os.path.basename(path)[len("samples_"):].rsplit("_", 1)[0]
        lines = read_lines(path)
        task = task_of(name, [line["doc"] for line in lines])
        equal = undecided = 0
        for line, doc in zip(lines, task.task_docs):
            where = f"{name}, doc {line['doc_id']}, {line['filter']}"
            if name.startswith("minerva_math"):
                self.assertEqual(doc["answer"], line["doc"]["answer"], where)
            text = json.dumps(line["doc"], indent=2, default=handle_non_serializable,
                              ensure_ascii=False)
            self.assertEqual(line["doc_hash"], hash_string(text), where)
            arguments = [tuple(a.values()) for a in line["arguments"].values()]
            self.assertEqual(line["prompt_hash"], hash_string(arguments[0][0]), where)
            self.assertEqual(line["target"], str(task.doc_to_target(doc)), where)
            self.assertEqual(line["target_hash"], hash_string(line["target"]), where)
            if line["arguments"]["gen_args_0"]["arg_0"]:
                self.assertTrue(arguments[0][0].rstrip().endswith(
                    task.doc_to_text(doc).rstrip()), where)
            task._instances = [
                Instance(task.OUTPUT_TYPE, doc, argument, index, resps=[response])
                for index, (argument, response) in enumerate(
                    zip(arguments, unsanitized(line, task)))]
            task.apply_filters()
            filtered = [i.filtered_resps[line["filter"]] for i in task.instances]
            said = line["filtered_resps"]
            self.assertEqual([list(map(str, f)) if isinstance(f, tuple) else f for f in filtered],
                             [[str(float(f[0])), f[1]] if isinstance(f, list) else f for f in said],
                             where)
            if not line["metrics"]:
                undecided += 1
                continue
            # IFEval draws what an instruction lacks (a letter for "#") from Python's own generator,
            # which lm-eval seeds with 0 when it starts; each line begins at that seed here.
            random.seed(0)
            theirs = task.process_results(doc, filtered)
            for metric in line["metrics"]:
                if metric in theirs:
                    self.assertEqual(line[metric], theirs[metric], f"{where}: {metric}")
            self.assertTrue(set(line["metrics"]) & set(theirs), where)
            equal += 1
        return name, equal, undecided

    def compare_all(self, folder):
        counts = {}
        for path in sorted(glob.glob(os.path.join(folder, "**", "samples_*.jsonl"),
                                     recursive=True)):
            name, equal, undecided = self.compare(path)
            print(f"{name}: {equal} equal, {undecided} undecided by us")
            counts[name] = equal
        return counts

    def test_recorded_responses_are_judged_alike(self):
        with tempfile.TemporaryDirectory() as folder:
            goldens = os.path.join(SOURCE, "tests", "goldens", "evals")
            self.run_program("golden", goldens, "--samples", folder)
            counts = self.compare_all(folder)
        self.assertGreaterEqual(counts["gsm8k"], 60)  # each response by two filters
        self.assertGreaterEqual(counts["minerva_math_algebra"], 50)
        self.assertGreaterEqual(counts["mmlu_anatomy_generative"], 20)
        self.assertGreaterEqual(counts["ifeval"], 190)

    def test_answers_of_a_run_are_judged_alike(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_program("run", "experiments/benchmarks_smoke.toml", "--samples",
                             "--no-progress", "-o", folder)
            for path in glob.glob(os.path.join(folder, "samples", "*", "samples_*.jsonl")):
                line = read_lines(path)[0]  # OpenCompass' tasks are not lm-eval's
                name = os.path.basename(path)[len("samples_"):].rsplit("_", 1)[0]
                self.assertEqual(line["point_id"], os.path.basename(os.path.dirname(path)))
                if name not in ("gsm8k", "ifeval", "mmlu_anatomy", "arc_challenge",
                                "minerva_math", "mmlu_anatomy_generative"):
                    os.remove(path)
            counts = self.compare_all(folder)
        for name in ("gsm8k", "ifeval", "mmlu_anatomy", "arc_challenge",
                     "minerva_math", "mmlu_anatomy_generative"):
            self.assertGreaterEqual(counts.get(name, 0), 2, name)


if __name__ == "__main__":
    if LM_EVAL is None:
        print("NOT RUN: needs lm-eval 0.4.8 (./dev setup)", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()
