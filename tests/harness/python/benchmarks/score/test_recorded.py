# SPDX-License-Identifier: Apache-2.0
"""Recorded results of the harnesses' own code (tests/goldens/evals) against our scorers: what they take
for the answer and what they decide. Each case is judged as `unmask score` judges it, in a process with
limits."""

import os
import unittest

import support
from support import item, recorded

support.needs("lm_eval", "math_verify", "jieba", "langdetect", "rouge", "rouge_score", "fuzzywuzzy",
              "Levenshtein")

from unmask.benchmarks.score import longbench, official, opencompass, programs, sandbox, scorers, workers  # noqa: E402

TOLERANCE = 1e-9


def judged(name, items, **limits):
    """Judgements of a scorer over items, through the processes that judge."""
    task = scorers.SCORERS[name].task
    official.load()
    task = official.build_task(task, items[0]["doc"]) if task else None
    return workers.judge_all(items, lambda one: scorers.SCORERS[name].judge(one | {"task": task}),
                             limits=workers.Limits(**limits))


def computed(cases, function):
    """function(case) of every case, through the processes that judge."""
    official.load()
    return workers.judge_all(cases, function)


class Recorded(unittest.TestCase):
    def compare_verdicts(self, name, cases, items, wanted, **limits):
        for case, judgement, right in zip(cases, judged(name, items, **limits), wanted, strict=True):
            with self.subTest(scorer=name, case=case["case"]):
                self.assertEqual(judgement["status"], "scored", judgement.get("note"))
                self.assertEqual(judgement["value"], float(right))

    def test_gsm8k_of_lm_eval(self):
        cases = recorded("gsm8k_lm_eval")
        self.assertGreaterEqual(len(cases), 30)
        results = judged("gsm8k_lm_eval", [
            item({"question": "", "answer": c["target"]}, c["response"], c["target"]) for c in cases])
        for case, result in zip(cases, results, strict=True):
            with self.subTest(case=case["case"]):
                for one in result["filters"]:
                    official_one = case["official"][one["filter"]]
                    self.assertEqual(one["text"].strip(), official_one["extracted"])
                    self.assertEqual(one["metrics"], official_one["scores"])
                self.assertEqual(len(result["filters"]), 2)
                self.assertEqual(result["value"],
                                 case["official"]["strict-match"]["scores"]["exact_match"])

    def test_mmlu_generative_of_lm_eval(self):
        cases = recorded("mmlu_generative_lm_eval")
        items = [item({"question": "", "subject": "anatomy", "choices": list("abcd"),
                       "answer": "ABCD".index(c["gold"])}, c["response"], c["gold"]) for c in cases]
        for case, result in zip(cases, judged("mmlu_generative_lm_eval", items), strict=True):
            with self.subTest(case=case["case"]):
                wanted = case["official"]["get_response"]
                self.assertEqual(result["extracted"], wanted["extracted"])
                self.assertEqual(result["value"], wanted["scores"]["exact_match"])

    def test_minerva_of_lm_eval(self):
        cases = recorded("math_minerva_lm_eval")
        self.assertGreaterEqual(len(cases), 50)
        from_solution = [item({"problem": "", "solution": f"\\boxed{{{c['answer']}}}"}, c["response"])
                         for c in cases]
        for case, result in zip(cases, judged("math_minerva_lm_eval", from_solution), strict=True):
            with self.subTest(case=case["case"]):
                wanted = case["official"]
                self.assertEqual(result["status"], "scored", result.get("note"))
                self.assertEqual(result["extracted"], wanted["extracted"])
                self.assertEqual(result["value"], wanted["exact_match"])
                self.assertEqual(result["measures"]["math_verify"][0], wanted["math_verify"])

    def test_equal_spellings_of_formulas(self):
        def compare(case):
            from lm_eval.tasks.hendrycks_math import utils as hendrycks
            from lm_eval.tasks.minerva_math import utils as minerva

            def strip(text):
                try:
                    return hendrycks.strip_string(text)
                except Exception as problem:  # noqa: BLE001
                    return f"error:{type(problem).__name__}"
            a, b = case["a"], case["b"]
            x, y = minerva.normalize_final_answer(a), minerva.normalize_final_answer(b)
            return {"hendrycks_strip_a": strip(a), "hendrycks_strip_b": strip(b),
                    "hendrycks_is_equiv": hendrycks.is_equiv(a, b), "minerva_normalize_a": x,
                    "minerva_normalize_b": y, "minerva_is_equiv": bool(minerva.is_equiv(x, y))}
        cases = recorded("math_equivalence")
        for case, result in zip(cases, computed(cases, compare), strict=True):
            with self.subTest(case=case["case"]):
                self.assertEqual(result, {key: case[key] for key in result})

    def test_math_of_opencompass(self):
        cases = recorded("math_opencompass")
        for version, name in ((1, "math_opencompass"), (2, "math_opencompass_v2")):
            items = [item({}, c["response"], c["reference"]) for c in cases]
            self.compare_verdicts(name, cases, items,
                                  [c["official"][f"v{version}_correct"] for c in cases])
            for case in cases:
                self.assertEqual(opencompass.math_answer(case["response"], version),
                                 case["official"][f"v{version}_extracted"], case["case"])

    def test_math_verify_of_opencompass(self):
        cases = [c for c in recorded("math500_opencompass_verify") if "accuracy" in c["official"]]
        self.assertGreaterEqual(len(cases), 25)
        items = [item({}, c["response"], c["reference"]) for c in cases]
        self.compare_verdicts("math500_opencompass_verify", cases, items,
                              [c["official"]["accuracy"] == 100 for c in cases])

    def test_gsm8k_of_opencompass(self):
        cases = recorded("gsm8k_opencompass")
        items = [item({"answer": "#### " + c["reference"]}, c["response"]) for c in cases]
        self.compare_verdicts("gsm8k_opencompass", cases, items,
                              [c["official"]["correct"] for c in cases])
        for case in cases:
            self.assertEqual(opencompass.gsm8k_answer(case["response"]), case["official"]["extracted"])

    def test_choices_of_opencompass(self):
        for case in recorded("choice_opencompass"):
            for key, wanted in case["official"].items():
                with self.subTest(case=case["case"], key=key):
                    kind, options = key.split()[:2]
                    ours = (opencompass.first_capital(case["response"]) if kind == "first_capital"
                            else opencompass.first_option(case["response"], options))
                    self.assertEqual(ours, wanted)

    def test_choices_by_likelihood(self):
        cases = recorded("likelihood_choice_lm_eval")
        docs = [{"id": "", "question": "", "answerKey": "ABCDEFGHIJ"[c["gold"]], "choices": {
            "text": c["choices"], "label": list("ABCDEFGHIJ")[:len(c["choices"])]}} for c in cases]
        official.load()
        task = official.build_task("arc_challenge", docs[0])
        results = workers.judge_all(
            [item(d, "", responses=[(x, False) for x in c["loglikelihoods"]])
             for c, d in zip(cases, docs)],
            lambda one: scorers.SCORERS["likelihood_choice"].judge(one | {"task": task}))
        for case, result in zip(cases, results, strict=True):
            with self.subTest(case=case["case"]):
                measured = {name: value for name, (value, _) in result["measures"].items()}
                self.assertEqual(measured, case["official"])
                self.assertEqual(result["value"], case["official"]["acc_norm"])

    def test_instructions_of_ifeval(self):
        cases = recorded("ifeval_lm_eval")
        self.assertGreaterEqual(len(cases), 190)
        items = [item({"key": c["key"], "prompt": c.get("prompt", ""), "kwargs": c["kwargs"],
                       "instruction_id_list": c["instruction_id_list"]}, c["response"]) for c in cases]
        decided = 0
        for case, result in zip(cases, judged("ifeval", items), strict=True):
            with self.subTest(case=case["case"]):
                if result["status"] == "undecided":  # a sentence model that is not installed, a draw
                    self.assertRegex(result["note"], "punkt|draws")
                    continue
                decided += 1
                metrics, wanted = result["filters"][0]["metrics"], case["official"]
                for way in ("strict", "loose"):
                    self.assertEqual(metrics[f"inst_level_{way}_acc"], wanted[f"inst_{way}"])
                    self.assertEqual(metrics[f"prompt_level_{way}_acc"], wanted[f"prompt_{way}"])
        self.assertGreaterEqual(decided, 180)

    def test_longbench(self):
        def score(case):
            arguments = (case["dataset"], case["prediction"], case["answers"], case["all_classes"])
            return {"opencompass": longbench.score(*arguments),
                    "longbench": longbench.score(*arguments, opencompass=False),
                    "difflib": max(longbench.code_similarity_difflib(case["prediction"], answer)
                                   for answer in case["answers"])}
        cases = recorded("longbench")
        self.assertGreaterEqual(len(cases), 190)
        for case, result in zip(cases, computed(cases, score), strict=True):
            for key, wanted in case["official"].items():
                with self.subTest(case=case["case"], key=key):
                    ours = "difflib" if "difflib" in key else key.split("_")[0]
                    self.assertAlmostEqual(result[ours], wanted, delta=TOLERANCE)

    def test_rouge(self):
        def score(case):
            from rouge import Rouge
            from rouge_score import rouge_scorer
            kinds = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
            result = {}
            for name, stem in (("no_stemmer", False), ("stemmer", True)):
                scored = rouge_scorer.RougeScorer(kinds, use_stemmer=stem).score(
                    case["reference"], case["prediction"])
                result[name] = {kind: list(scored[kind]) for kind in kinds}
            try:
                found = Rouge().get_scores([case["prediction"]], [case["reference"]])[0]
                result["rouge"] = {kind: [v["p"], v["r"], v["f"]] for kind, v in found.items()}
            except Exception as problem:  # noqa: BLE001
                result["rouge"] = f"error: {type(problem).__name__}"
            return result
        cases = recorded("rouge")
        for case, result in zip(cases, computed(cases, score), strict=True):
            for key, wanted in case["official"].items():
                with self.subTest(case=case["case"], key=key):
                    if key.startswith("rouge_score"):
                        self.assert_numbers({k: result[k] for k in wanted}, wanted)
                    elif isinstance(wanted, str):
                        self.assertEqual(result["rouge"], wanted.split(":")[0] + ":"
                                         + wanted.split(":")[1])
                    else:
                        self.assert_numbers(result["rouge"], wanted)

    def assert_numbers(self, ours, wanted):
        if isinstance(wanted, dict):
            self.assertEqual(set(ours), set(wanted))
            for key in wanted:
                self.assert_numbers(ours[key], wanted[key])
        else:
            for a, b in zip(ours, wanted, strict=True):
                self.assertAlmostEqual(a, b, delta=TOLERANCE)

    def test_words_of_jieba(self):
        import jieba
        jieba.setLogLevel(40)
        for case in support.read_lines(os.path.join(support.EVALS, "zh", "jieba_cut.jsonl.gz")):
            with self.subTest(text=case["text"][:20]):
                self.assertEqual(longbench.cut(case["text"]), case["cut (cut_all=False, HMM)"])
                self.assertEqual(list(jieba.cut(case["text"], HMM=False)), case["cut_no_hmm"])


# What the recorded extraction paths are called, by their beginnings, and our scorer of each.
PATHS = [("lm_eval (prompt", "humaneval_lm_eval"), ("fast_dllm", "humaneval_fast_dllm"),
         ("opencompass_0.4.2", "humaneval_opencompass_llada"),
         ("opencompass_0.5.1_focus", "humaneval_opencompass_focus"),
         ("sparse_dllm human_eval_postprocess_new_chat", "humaneval_opencompass_sparse_chat"),
         ("sparse_dllm human_eval_postprocess_new", "humaneval_opencompass_sparse"),
         ("lm_eval mbpp", "mbpp_lm_eval"), ("opencompass MBPP", "mbpp_opencompass")]


@unittest.skipIf(sandbox.missing(), sandbox.missing())
class Programs(unittest.TestCase):
    def compare(self, name, docs):
        jobs = []
        for case in recorded(name):
            for path, wanted in case["official"].items():
                scorer = next(scorer for begin, scorer in PATHS if path.startswith(begin))
                jobs.append((case, scorer, docs[str(case["task_id"])], wanted))
        results = workers.judge_all(
            jobs, lambda job: scorers.SCORERS[job[1]].judge(item(job[2], job[0]["response"])))
        for (case, scorer, doc, wanted), result in zip(jobs, results, strict=True):
            with self.subTest(scorer=scorer, case=case["case"]):
                self.assertEqual(result["status"], "scored", result["note"])
                self.assertEqual(result["value"], float(wanted["passed"]), result["note"])
                program = programs.PROGRAMS[scorer](doc, case["response"])
                if scorer == "humaneval_fast_dllm" or "program" in wanted:
                    self.assertEqual(program, wanted["program"])
                else:
                    self.assertEqual(program, doc["prompt"] + wanted["completion"])
        return len(jobs)

    def test_humaneval(self):
        docs = support.read_lines(os.path.join(support.EVALS, "data/humaneval/HumanEval.jsonl.gz"))
        self.assertGreaterEqual(self.compare("humaneval", {d["task_id"]: d for d in docs}), 150)

    def test_mbpp(self):
        docs = support.read_lines(os.path.join(support.EVALS, "data/mbpp/mbpp.jsonl.gz"))
        self.assertGreaterEqual(self.compare("mbpp", {str(d["task_id"]): d for d in docs}), 50)


if __name__ == "__main__":
    unittest.main()
