# SPDX-License-Identifier: Apache-2.0
"""`python -m unmask score` as a user calls it, and answers that make a library fail."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import support
from support import item

support.needs("lm_eval", "math_verify")

from unmask.benchmarks.score import official, scorers, workers  # noqa: E402

PACKAGE = os.path.join(support.ROOT, "harness", "python")
# Verdicts of math-verify 0.5.2 through MATHVerifyEvaluator: a thousands comma inside a formula is a set,
# intervals may stand in brackets, percent may follow anything.
VERIFIED = [("58,500", "\\boxed{n=58,500}", 0), ("58,500", "\\boxed{58,500^\\circ}", 0),
            ("10,\\!080", "So the answer is $\\boxed{x=10,080}$.", 0),
            ("10,\\!080", "The final answer is $+10,080$. I hope it is correct.", 0),
            ("58500", "\\boxed{x=58,500}", 0),
            ("(2,12) \\cup (12,102)", "\\boxed{((2,12)\\cup(12,102))}", 1),
            ("(2,12) \\cup (12,102)",
             "The final answer is $\\left((2,12)\\cup(12,102)\\right)$. I hope it is correct.", 1),
            ("2516_8", "\\boxed{2516_8\\%}", 1), ("\\infty", "\\boxed{\\infty\\%}", 1)]
# Verdicts of lm-eval 0.4.8's minerva_math: a - a is 0 also where a divides by zero.
DIVISIONS = ["\\frac{x}{0}", "1/0", "x\\div0", "\\frac{x+1}{10\\div\\ln1}"]
# Answers that ended a campaign or a point: 5,500 to 20,000 characters of one kind.
HOSTILE = ["\\boxed{5" + "!" * 5500 + "}", "\\boxed{" * 2425, "$" + "x" * 5600 + "$",
           "\\boxed{x" + "^2" * 6000 + "}", "\\boxed{1" + "+1" * 6000 + "}",
           "\\boxed{" + "{" * 15000 + "}" * 15001, "\\boxed{" + "(" * 17000 + ")" * 17000 + "}",
           "\\boxed{x" + "_1" * 11000 + "}", "[" * 20000, "9" * 20000, "\\boxed{9^{9^{9^9}}}"]


def gsm8k_line(number, answer, response, **more):
    return {"doc_id": number, "doc": {"question": f"{number}?", "answer": f"so #### {answer}"},
            "target": f"so #### {answer}", "resps": [[response]], "filtered_resps": [response],
            **more}


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "unmask", "score", *arguments], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(
                              [PACKAGE] + sys.path[1:])})


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, lines):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines)
        return path

    def score(self, *arguments):
        out = os.path.join(self.folder, "scores.jsonl")
        done = run(*arguments, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return support.read_lines(out), done.stdout

    def test_lm_evals_own_file_needs_no_option(self):
        # lm-eval writes a line for every filter; each item is judged once, by both.
        lines = [gsm8k_line(i, 7, answer, filter=f) for i, answer in enumerate(
            ["#### 7", "The answer is 7.", "#### 8"]) for f in ("strict-match", "flexible-extract")]
        path = self.write("samples_gsm8k_2026-01-01T00-00-00.jsonl", lines)
        results, said = self.score(path)
        self.assertEqual([r["doc_id"] for r in results], [0, 1, 2])
        self.assertEqual([[f["metrics"]["exact_match"] for f in r["filters"]] for r in results],
                         [[1, 1], [0, 1], [0, 0]])
        self.assertEqual(results[0]["libraries"], {"lm-eval": "0.4.8"})
        self.assertIn("lm-eval 0.4.8", said)

    def test_benchmark_and_harness_choose_the_scorer(self):
        path = self.write("x.jsonl", [gsm8k_line(0, 7, "so \\boxed{7}"), gsm8k_line(1, 7, "it is 7")])
        results, said = self.score(path, "--benchmark", "gsm8k", "--harness", "OC-F")
        self.assertEqual([(r["scorer"], r["value"]) for r in results],
                         [("gsm8k_opencompass_v2", 1.0), ("gsm8k_opencompass_v2", 0.0)])
        self.assertIn("50.00 %", said)
        results, _ = self.score(path, "--benchmark", "gsm8k", "--harness", "OC-S")
        self.assertEqual([r["value"] for r in results], [1.0, 1.0])

    def test_what_the_program_scored_itself_stays(self):
        line = {"doc_id": 0, "doc": {}, "resps": [["x"]], "scorer": "exact", "scored": True,
                "value": 0.5, "undecided": False, "note": "expected `y`"}
        (result,), said = self.score(self.write("samples_words_x.jsonl", [line]))
        self.assertEqual((result["status"], result["value"], result["note"]),
                         ("scored", 0.5, "expected `y`"))

    def test_the_line_says_how_it_was_asked(self):
        path = self.write("x.jsonl", [gsm8k_line(0, 7, "it is 7", benchmark="gsm8k", style="OC-L")])
        self.assertEqual(self.score(path)[0][0]["scorer"], "gsm8k_opencompass")

    def test_wrong_input_is_named(self):
        line = gsm8k_line(0, 7, "7")
        for lines, arguments, words in (
                ([line], ["--benchmark", "gsm9k"], "lm-eval 0.4.8 has no task 'gsm9k'"),
                ([line], ["--benchmark", "gsm8k", "--harness", "OC-X"], "has no harness 'OC-X'"),
                ([line], [], "names no task; say --benchmark"),
                ([line, {"doc": 1}], ["--benchmark", "gsm8k"], "x.jsonl:2: `doc`"),
                ([{"doc": {}, "resps": []}], ["--benchmark", "gsm8k"], "x.jsonl:1: `resps`"),
                ([line], ["--benchmark", "humaneval"], "x.jsonl:1: the record lacks `prompt`")):
            with self.subTest(words=words):
                done = run(self.write("x.jsonl", lines), *arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn(words, done.stderr)
                self.assertNotIn("Traceback", done.stderr)
        with open(os.path.join(self.folder, "y.jsonl"), "w", encoding="utf-8") as out:
            out.write("[" * 100000)
        done = run(os.path.join(self.folder, "y.jsonl"), "--benchmark", "gsm8k")
        self.assertEqual(done.returncode, 2)
        self.assertIn("y.jsonl:1: not a JSON object", done.stderr)

    def test_thousands_of_items_are_judged_in_seconds(self):
        path = self.write("x.jsonl", [gsm8k_line(i, i, f"#### {i}") for i in range(3000)])
        started = os.times()
        results, _ = self.score(path, "--benchmark", "gsm8k")
        ended = os.times()
        self.assertEqual(len(results), 3000)
        self.assertTrue(all(r["value"] == 1 for r in results))
        spent = (ended.children_user + ended.children_system
                 - started.children_user - started.children_system)
        self.assertLess(spent, 60)


class Answers(unittest.TestCase):
    def test_math_verify_decides_as_it_does(self):
        official.load()
        results = workers.judge_all([item({}, text, gold) for gold, text, _ in VERIFIED],
                                    scorers.SCORERS["math500_opencompass_verify"].judge)
        self.assertEqual([r["value"] for r in results], [float(right) for _, _, right in VERIFIED])

    def test_a_division_by_zero_equals_itself(self):
        docs = [{"problem": "", "solution": "", "answer": text} for text in DIVISIONS]
        task = official.build_task("minerva_math_algebra", docs[0])
        items = [item(doc, f"Final Answer: The final answer is ${doc['answer']}$. I hope it is correct.",
                      task=task) for doc in docs]
        results = workers.judge_all(items, scorers.SCORERS["math_minerva_lm_eval"].judge)
        self.assertEqual([r["value"] for r in results], [1.0] * len(docs))

    def test_no_answer_takes_another_items_score(self):
        right = item({"solution": "\\boxed{x+7}"}, "\\boxed{x + 7}")
        hostile = [item({"solution": "\\boxed{x+7}"}, text) for text in HOSTILE]
        official.load()
        for name in ("math500_opencompass_verify", "math_opencompass", "math_opencompass_v2",
                     "gsm8k_opencompass_v2"):
            items = [right, *hostile, right]
            if name == "gsm8k_opencompass_v2":
                items = [one | {"doc": {"answer": "#### x+7"}} for one in items]
            results = workers.judge_all(items, scorers.SCORERS[name].judge,
                                        limits=workers.Limits(cpu_seconds=2))
            with self.subTest(scorer=name):
                self.assertEqual(len(results), len(items))
                for result in results[1:-1]:
                    self.assertIn(result["status"], ("scored", "undecided"))
                    self.assertNotEqual(result.get("value"), 1.0)
                self.assertEqual(results[0], results[-1])
                self.assertEqual(results[0]["status"], "scored")
                if name == "math500_opencompass_verify":
                    self.assertEqual(results[0]["value"], 1.0)

    def test_what_dies_loops_or_eats_memory_is_that_item(self):
        def judge(what):
            if what == "dies":
                os.kill(os.getpid(), 11)
            if what == "leaves":
                os._exit(0)
            if what == "recurses":
                judge(what)
            if what == "eats":
                return {"status": "scored", "value": len(bytearray(64 << 30))}
            while what == "loops":
                pass
            if what == "sleeps":
                time.sleep(60)
            return {"status": "scored", "value": 1.0}
        items = ["right", "dies", "right", "recurses", "eats", "loops", "leaves", "sleeps", "right"]
        results = workers.judge_all(items, judge, 2, workers.Limits(cpu_seconds=0.5, wall_seconds=15))
        notes = dict(zip(items, (r.get("note", "") for r in results)))
        self.assertEqual([r["status"] for r in results if r["status"] == "scored"], ["scored"] * 3)
        self.assertIn("ended by SIGSEGV", notes["dies"])
        self.assertIn("RecursionError", notes["recurses"])
        self.assertIn("out of memory", notes["eats"])
        self.assertIn("0.5 s of processor time", notes["loops"])
        self.assertIn("ended by itself", notes["leaves"])
        self.assertIn("more than 15 s", notes["sleeps"])


if __name__ == "__main__":
    unittest.main()
