# SPDX-License-Identifier: Apache-2.0
"""Which scorer judges a benchmark in a harness's way, and what each needs and gives.

A scorer takes an item, {"doc", "target", "text", "responses", "task"}, and returns a judgement:
status ("scored", "undecided", "not_run"), value (0 to 1), extracted, note, filters ([{filter, text,
metrics}], as lm-eval has them) and measures ({name: [sum, of]}, numbers beside the score)."""

import dataclasses
import functools
import typing

from unmask.benchmarks.score import about_pictures, longbench, official, opencompass, programs
from unmask.rows.errors import EnvironmentFault, UserError


def scored(value, extracted="", note="", filters=(), measures=None):
    return {"status": "scored", "value": float(value), "extracted": extracted,
            "note": "" if value == 1 else note, "filters": list(filters), "measures": measures or {}}


def right_or_wrong(right, extracted, **more):
    return scored(1 if right else 0, extracted, f"the answer is `{extracted}`", **more)


def undecided(reason):
    return {"status": "undecided", "note": f"undecided: {reason}"}


# ---- by lm-eval's tasks

def plain(value):
    """A metric as JSON holds it."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value.item() if hasattr(value, "item") else value


def lm_eval_filters(item):
    """What lm-eval says; None where that hangs on a random draw."""
    filters = official.judge_drawn(item["task"], item["doc"], item["responses"])
    for one in filters or ():
        one["metrics"] = {name: plain(value) for name, value in one["metrics"].items()}
        if not isinstance(one["text"], str):
            one["text"] = str(one["text"])
    return filters


def _metric(filters, metric, name=None):
    return next(float(f["metrics"][metric]) for f in filters if name in (None, f["filter"]))


def by_filters(item, first):
    """exact_match of the filter `first`; that of the others beside it."""
    filters = lm_eval_filters(item)
    text = next(f["text"] for f in filters if f["filter"] == first)
    measures = {f["filter"]: [float(f["metrics"]["exact_match"]), 1] for f in filters}
    return right_or_wrong(measures[first][0] == 1, text, filters=filters,
                          measures=measures if len(filters) > 1 else {})


def minerva(item):
    from lm_eval.tasks.minerva_math import utils
    if "answer" not in item["doc"]:
        boxed = utils.remove_boxed(utils.last_boxed_only_string(item["doc"]["solution"]))
        item["doc"]["answer"] = utils.normalize_final_answer(boxed)
    filters = lm_eval_filters(item)
    answer = utils.normalize_final_answer(utils.get_unnormalized_answer(item["text"]))
    return right_or_wrong(_metric(filters, "exact_match") == 1, answer, filters=filters, measures={
        name: [_metric(filters, name), 1] for name in ("exact_match", "math_verify")})


def ifeval(item):
    """Mean of prompt level and instruction level, strict (FOCUS); the four levels beside it."""
    filters = lm_eval_filters(item)
    if filters is None:
        return undecided("the official code draws what an instruction lacks, and the verdict hangs on it")
    m = filters[0]["metrics"]
    measures = {}
    for way in ("strict", "loose"):
        each = m[f"inst_level_{way}_acc"]
        measures[f"prompt_{way}"] = [float(m[f"prompt_level_{way}_acc"]), 1]
        measures[f"inst_{way}"] = [float(sum(each)), len(each)]
    kept, of = measures["inst_strict"]
    value = (measures["prompt_strict"][0] + kept / max(of, 1)) / 2
    return scored(value, "", "breaks an instruction", filters, measures)


def any_task(item, metric=None):
    """The metrics of any lm-eval task; the value is the named one, else the first number."""
    filters = lm_eval_filters(item)
    if filters is None:
        return undecided("lm-eval's own verdict hangs on a random draw")
    numbers = {name: value for name, value in filters[0]["metrics"].items()
               if isinstance(value, (int, float))}
    if not numbers:
        return undecided(f"lm-eval's task gives no number for one item but {sorted(filters[0]['metrics'])}")
    metric = metric or next(iter(numbers))
    return scored(numbers[metric], filters[0]["text"], "", filters,
                  {name: [float(value), 1] for name, value in numbers.items()})


def likelihood(item):
    """lm-eval's multiple choice; acc_norm where the harness's tables have it."""
    name = item["task"].config.task
    return any_task(item, "acc_norm" if name.startswith(("arc", "piqa")) else "acc")


# ---- OpenCompass and LongBench

def gsm8k_opencompass(item):
    answer = opencompass.gsm8k_answer(item["text"])
    reference = opencompass.gsm8k_reference(gsm8k_solution(item))
    return right_or_wrong(opencompass.gsm8k_equal(answer, reference), answer)


def gsm8k_solution(item):
    return item["doc"].get("answer") or item["target"]


def gsm8k_opencompass_v2(item):
    answer = opencompass.math_answer(item["text"], 2)
    reference = opencompass.gsm8k_reference(gsm8k_solution(item))
    return right_or_wrong(opencompass.math_equal(answer, reference, 2), answer)


def math_gold(item):
    """The last boxed text of the solution, as OpenCompass reads it."""
    doc = item["doc"]
    return opencompass.last_boxed(doc.get("solution", "")) or doc.get("answer") or item["target"]


def math_opencompass(item, version):
    answer = opencompass.math_answer(item["text"], version)
    return right_or_wrong(opencompass.math_equal(answer, math_gold(item), version), answer)


def math_verified(item):
    right, answer = opencompass.math_verify(item["text"], math_gold(item))
    return right_or_wrong(right, answer)


LETTERS = "ABCDEFGHIJ"


def gold_letter(item):
    """The right choice: the target where it is a letter, else the record's number or label."""
    gold = item["target"].strip("() ")
    if gold not in LETTERS or len(gold) != 1:
        gold = item["doc"].get("answer", item["doc"].get("answerKey", item["doc"].get("label")))
    if isinstance(gold, int) and 0 <= gold < len(LETTERS):
        return LETTERS[gold]
    gold = str(gold).strip("() ")
    if len(gold) != 1 or gold not in LETTERS:
        raise ValueError(f"the right choice is {gold!r}, which is no letter")
    return gold


def first_capital(item):
    found = opencompass.first_capital(item["text"])
    return right_or_wrong(found == gold_letter(item), found)


def first_option(item, options="ABCD"):
    options = item["doc"].get("options") or options
    found = opencompass.first_option(item["text"], options)
    return right_or_wrong(found == gold_letter(item), found)


def longbench_score(item):
    doc = item["doc"]
    value = longbench.score(doc.get("dataset") or doc["task"], item["text"], doc["answers"], doc.get("all_classes"))
    return scored(value, "", "differs from every reference")


def summary(item):
    """ROUGE-L with the stemmer, of rouge_score; the others beside it."""
    from rouge_score import rouge_scorer
    kinds = ["rouge1", "rouge2", "rougeL"]
    reference = item["doc"].get("highlights") or item["target"]
    stem, bare = (rouge_scorer.RougeScorer(kinds, use_stemmer=use).score(reference, item["text"])
                  for use in (True, False))
    measures = {kind: [stem[kind].fmeasure, 1] for kind in kinds}
    measures["rougeL_no_stemmer"] = [bare["rougeL"].fmeasure, 1]
    return scored(stem["rougeL"].fmeasure, "", "words differ from the reference", measures=measures)


def shown_picture(item, judge):
    """An answer about a picture; undecided where only a judge can read it."""
    right, answer = judge(item["doc"], item["text"])
    if right is None:
        return undecided(about_pictures.NEEDS_A_JUDGE) | {"extracted": answer}
    return right_or_wrong(right, answer)


# ---- programs

def run_program(item, scorer):
    try:
        program, outcome = programs.run(scorer, item["doc"], item["text"])
    except EnvironmentFault as problem:
        return {"status": "not_run", "note": str(problem)}
    if outcome.verdict == "undecided":
        return undecided(outcome.reason)
    return scored(outcome.verdict == "pass", program, outcome.reason)


# ---- the list

@dataclasses.dataclass(frozen=True)
class Scorer:
    judge: typing.Callable
    needs: tuple = ()        # keys of the record
    libraries: tuple = ()    # packages that decide
    task: str = ""           # lm-eval's task; "*": the one that the file names


LM_EVAL, OPENCOMPASS = ("lm-eval",), ()
SCORERS = {
    "gsm8k_lm_eval": Scorer(functools.partial(by_filters, first="strict-match"), ("answer",), LM_EVAL,
                            "gsm8k"),
    "gsm8k_cot_lm_eval": Scorer(functools.partial(by_filters, first="strict-match"), ("answer",), LM_EVAL,
                                "gsm8k_cot"),
    "mmlu_generative_lm_eval": Scorer(functools.partial(by_filters, first="get_response"), ("answer",),
                                      LM_EVAL, "mmlu_anatomy_generative"),
    "math_minerva_lm_eval": Scorer(minerva, ("solution",), ("lm-eval", "sympy", "math-verify"),
                                   "minerva_math_algebra"),
    "ifeval": Scorer(ifeval, ("key", "prompt", "instruction_id_list", "kwargs"),
                     ("lm-eval", "langdetect", "nltk"), "ifeval"),
    "likelihood_choice": Scorer(likelihood, (), LM_EVAL, "*"),
    "lm_eval": Scorer(any_task, (), LM_EVAL, "*"),
    "gsm8k_opencompass": Scorer(gsm8k_opencompass),
    "gsm8k_opencompass_v2": Scorer(gsm8k_opencompass_v2),
    "math_opencompass": Scorer(functools.partial(math_opencompass, version=1)),
    "math_opencompass_v2": Scorer(functools.partial(math_opencompass, version=2)),
    "math500_opencompass_verify": Scorer(math_verified, (), ("math-verify", "latex2sympy2-extended",
                                                             "sympy")),
    "first_capital": Scorer(first_capital),
    "first_option": Scorer(first_option),
    "first_option_ab": Scorer(functools.partial(first_option, options="AB")),
    "longbench": Scorer(longbench_score, ("answers",), ("rouge", "jieba", "fuzzywuzzy",
                                                                  "Levenshtein")),
    "rouge_score": Scorer(summary, (), ("rouge-score", "nltk")),
    "mathvista_own": Scorer(functools.partial(shown_picture, judge=about_pictures.mathvista),
                            ("answer", "question_type", "answer_type")),
    "mathverse_own": Scorer(functools.partial(shown_picture, judge=about_pictures.mathverse), ("answer", "question_type"))}
for _name in programs.PROGRAMS:
    _needs = ("prompt", "test", "entry_point") if _name.startswith("humaneval") else ("test_list",)
    SCORERS[_name] = Scorer(functools.partial(run_program, scorer=_name), _needs)

# Benchmark, harness, its task or dataset config, scorer. The first of a benchmark is its usual way.
WAYS = [
    ("gsm8k", "LM", "gsm8k", "gsm8k_lm_eval"),
    ("gsm8k_cot", "LM", "gsm8k_cot", "gsm8k_cot_lm_eval"),
    ("gsm8k", "OC-F", "gsm8k_0shot_v2_gen_17d799", "gsm8k_opencompass_v2"),
    ("gsm8k", "OC-S", "gsm8k_gen_17d0dc_maxoutlen_256", "gsm8k_opencompass"),
    ("gsm8k", "OC-S", "gsm8k_gen_1dce88_maxoutlen_256", "gsm8k_opencompass"),
    ("gsm8k", "OC-L", "gsm8k_gen_1d7fe4", "gsm8k_opencompass"),
    ("math", "LM", "minerva_math", "math_minerva_lm_eval"),
    ("math", "OC-S", "math_gen_265cce", "math_opencompass"),
    ("math", "OC-S", "math_gen_a58d9d_dream", "math500_opencompass_verify"),
    ("math", "OC-L", "math_0shot_gen_11c4b5", "math_opencompass_v2"),
    ("math500", "OC-F", "math500_gen", "math500_opencompass_verify"),
    ("math500", "LM", "minerva_math", "math_minerva_lm_eval"),
    ("math500", "OC-S", "math_gen_265cce", "math_opencompass"),
    ("mmlu", "LM", "mmlu", "likelihood_choice"),
    ("mmlu_generative", "LM", "mmlu_generative", "mmlu_generative_lm_eval"),
    ("mmlu", "OC-S", "mmlu_gen_79e572", "first_capital"),
    ("mmlu", "OC-L", "mmlu_gen_a484b3", "first_option"),
    ("arc_c", "LM", "arc_challenge", "likelihood_choice"),
    ("arc_c", "OC-S", "ARC_c_gen_1e0de5", "first_option"),
    ("arc_c", "OC-L", "ARC_c_gen_1e0de5", "first_option"),
    ("piqa", "LM", "piqa", "likelihood_choice"),
    ("piqa", "OC-S", "piqa_gen_1194eb", "first_option_ab"),
    ("gpqa", "OC-S", "gpqa_gen_5shot", "first_capital"),
    ("gpqa", "LM", "gpqa_main_n_shot", "likelihood_choice"),
    ("humaneval", "LM", "humaneval", "humaneval_lm_eval"),
    ("humaneval", "LM", "humaneval_sanitized", "humaneval_fast_dllm"),
    ("humaneval", "OC-F", "humaneval_openai_sample_evals_gen_dcae0e", "humaneval_opencompass_focus"),
    ("humaneval", "OC-S", "humaneval_openai_sample_evals_gen_dcae0e", "humaneval_opencompass_sparse"),
    ("humaneval", "OC-S", "humaneval_openai_sample_evals_gen_dcae0e_chat",
     "humaneval_opencompass_sparse_chat"),
    ("humaneval", "OC-L", "humaneval_gen_8e312c", "humaneval_opencompass_llada"),
    ("mbpp", "LM", "mbpp", "mbpp_lm_eval"),
    ("mbpp", "OC-L", "mbpp_gen_830460", "mbpp_opencompass"),
    ("mbpp_sanitized", "OC-F", "sanitized_mbpp_mdblock_0shot_nocot_gen_a2e416", "mbpp_opencompass"),
    ("ifeval", "LM", "ifeval", "ifeval"),
    ("ifeval", "OC-F", "IFEval_gen_353ae7", "ifeval"),
    ("ifeval", "OC-L", "IFEval_gen_353ae7", "ifeval"),
    ("longbench", "OC-U", "longbench", "longbench"),
    ("longbench", "OC-S", "longbench", "longbench"),
    ("cnn_dm", "own", "cnn_dm_3.0.0", "rouge_score"),
    ("mathvista", "LMMS-own", "mathvista_testmini_hint_last", "mathvista_own"),
    ("mathvista", "LMMS-own", "mathvista_testmini_hint_first", "mathvista_own"),
    ("mathvista", "LMMS-own", "mathvista_testmini_codes", "mathvista_own"),
    ("mathverse", "LMMS-own", "mathverse_testmini_vision", "mathverse_own"),
    ("mathverse", "LMMS-own", "mathverse_testmini_vision_codes", "mathverse_own")]
VERSIONS = {"LM": "lm-evaluation-harness 0.4.8", "OC-F": "OpenCompass 0.5.1.post1",
            "OC-S": "OpenCompass 0.4.2", "OC-L": "OpenCompass 0.4.2", "OC-U": "OpenCompass 0.4.2"}


def find_way(benchmark, harness=""):
    """(scorer's name, harness id) of a benchmark; harness: "", an id or ID/CONFIG."""
    identity, _, config = harness.partition("/")
    known = [way for way in WAYS if way[0] == benchmark]
    for _, own, task, scorer in known:
        if identity in ("", own) and config in ("", task):
            return scorer, own
    if known:
        raise UserError(f"--harness: the benchmark {benchmark} has no harness {harness!r}; it has "
                        + ", ".join(f"{way[1]}/{way[2]}" for way in known))
    raise UserError(f"--benchmark: there is no benchmark {benchmark!r}; they are "
                    + ", ".join(sorted({way[0] for way in WAYS})) + ", or any task of lm-eval")


def libraries_of(name):
    """{library: version} of what decides; the harness is named by its own version."""
    found = official.libraries(*SCORERS[name].libraries)
    if name in programs.PROGRAMS:
        found["programs"] = "bubblewrap, CPython of this machine"
    return found
