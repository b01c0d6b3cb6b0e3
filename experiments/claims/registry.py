# SPDX-License-Identifier: Apache-2.0
"""What the methods of 2025 and 2026 beside the five papers claim, on one engine: EB-sampler (arXiv
2505.24857), KLASS (2511.05664), WINO (2507.18578), CreditDecoding (2510.06133), AdaBlock-dLLM (2509.26432), DSB
(2602.05992), DPad (2508.14148), d2Cache (2509.23094), Streaming-dLLM (2601.17917), FreeDave (2510.00294), PC-Sampler
(2508.13021), D2F (2508.09192), MultiBD (2606.29215), LLaDA2.1 (2602.08676), ParallelBench (2510.04767).

Forwards are compared as the papers count steps: of the whole canvas, padding behind an answer included.
Padding is decided at once where a threshold decides it, so each has a rival that needs no method: the plain
threshold, and vanilla decoding that stops. Counts are exact for their prompts and read no clock."""

from unmask.claims import (NeedsRows, Published, above, at_equal_score, at_least, at_most, below, claim,
                           control, difference, no_precondition, presumes, presumes_a_gpu, presumes_of_tasks,
                           presumes_ratio, ratio, repeated, score, scored, share, speed)

TOKENS, A_FORWARD = "tokens_per_second", "tpf"
MODELS = ("tiny-llada", "LLaDA-8B-Instruct")
KEPT = at_least(-0.02, "us: two points, for \"without loss\"")
FASTER = above(1, "paper: faster")
BETTER = above(0, "paper: better")
THRESHOLDS = (0.95, 0.9, 0.7, 0.5)
LONG = "long canvas"
PROMPTS = ("long prompt", "long prompt, pairs")
# The papers' own settings decide 2.6 to 6.1 tokens a step of LLaDA-8B on GSM8K (KLASS 256 / 98.6, WINO 256 / 41.9).
FEW = presumes_of_tasks("a threshold of 0.9 unmasks at most seven tokens per step, as in the papers",
                        "committed_per_step", at_most(7, "us: WINO's 6.1 is the most that is published"),
                        label="threshold", threshold=0.9)


def is_trained_for_blocks(row):
    """1 for a checkpoint that was trained to denoise several blocks at once (D2F, MultiBD)."""
    return float(row["model"]["name"].startswith(("D2F", "MBD", "d3LLM")))


def is_trained_to_edit(row):
    """1 for a checkpoint that was trained to replace tokens that it has decided (LLaDA2.1 and later)."""
    return float(row["model"]["name"].startswith(("LLaDA2.1", "LLaDA2.2")))


def canvas_of(row):
    """Tokens of a canvas."""
    return row["metrics"]["canvas_tokens"] / row["workload"]["items"]


LONG_CANVAS = presumes_of_tasks("a response has at least six blocks of 32: masks far behind the current block",
                                canvas_of, at_least(190, "us: the papers' canvases have 256 and more"),
                                label="threshold")


def seconds_of_a_row(row):
    """Seconds of one row of a forward."""
    return row["metrics"]["wall_seconds"] / row["metrics"]["rows"]


# Rows of a build whose attention computed each of the shadow's rows by itself cost 1.2 to 1.8 times as much, since then
# 1.03 to 1.12 times.
SHADOW = presumes_ratio("a position of WINO's shadow costs what a position of another method costs", seconds_of_a_row,
                        at_most(1.15, "us: more would decide the claim"), "wino", "threshold")
GPU = presumes_a_gpu("the machine is a GPU, where the window's positions cost next to nothing: it computes twice as "
                     "many, for a few forward passes fewer")
TRUE = at_least(1, "us: see the statement")
STEPS = {"kind": "count", "artifacts": ("figure_1",), "scales": ("tiny", "full"), "quality": KEPT, "regime": FEW,
         "tasks": "word problems, list programs and judged stories here, GSM8K at full",
         "clock": "none: forward passes are counted", "items": "72 here: counts of these prompts are exact",
         "preset": "blocks of 32; the function names the method's setting"}
TIMES = {**STEPS, "kind": "speed", "artifacts": ("table_1",), "clock": "output tokens per second, prefill included",
         "items": repeated(0.05, 0.05), "tasks": "word problems and judged stories here, GSM8K at full"}
LEFT_OUT = {**TIMES, "artifacts": ("table_3",), "regime": LONG_CANVAS,
            "tasks": "word problems here, GSM8K at full"}
ROWS = {**STEPS, "quality": None, "regime": no_precondition("computed positions are counted")}
SCORES = {"kind": "score", "artifacts": ("table_2",), "scales": ("tiny", "full"), "items": scored(0.05, 0.1),
          "tasks": "mean of the tasks with an answer", "preset": "blocks of 32",
          "regime": no_precondition("scores of two rules on one model and the same prompts")}
TOGETHER = {**SCORES, "artifacts": ("figure_2",), "scales": ("tiny",),
            "items": scored(0.2, 0.3), "tasks": "six short tasks after ParallelBench, on a model trained on them"}
EASY, HARD = ("copy", "reverse"), ("shuffle", "latin_square")


def plain(threshold):
    return {"label": "threshold", "threshold": threshold}


def forwards(f, of, over, **where):
    """How many times as many canvas tokens `of` decides a forward, with the difference of scores."""
    return speed(f, of, over, "committed_per_step", model=MODELS, **where)


ONE = {"label": "vanilla", "tokens_per_step": 1}
EB = {"label": "eb_sampler", "gamma": 0.1}
KLASS = {"label": "klass", "confidence_threshold": 0.6}
WINO, FINAL = {"label": "wino", "threshold": 0.6}, {"label": "wino_final", "threshold": 0.6}


# ---- Rules that decide several tokens a step ----

@claim(place="EB-sampler, abstract", statement="EB-sampler needs fewer forward passes than one "
                                               "token per step.",
       quantity="response tokens per forward pass over one per step", bound=FASTER,
       published=Published(2.5, "abstract: 2 to 3", 0.5, says="two to three times fewer at equal scores"),
       rivals=("threshold_needs_fewer", "two_tokens_a_step"),
       controls=("eb_against_a_threshold", "eb_over_a_cache_against_a_threshold", "eb_in_chunks_against_a_threshold"),
       **STEPS)
def eb_needs_fewer_forwards(f):
    return forwards(f, EB, ONE)


@claim(place="KLASS, Table 1", statement="KLASS needs fewer forward passes than one token per step.",
       quantity="response tokens per forward pass over one per step", bound=FASTER,
       published=Published(2.6, "GSM8K, LLaDA-8B-Instruct: 256 / 98.6", 0.005),
       rivals=("threshold_needs_fewer", "two_tokens_a_step"),
       controls=("klass_against_ada_dlm", "klass_over_a_cache_against_a_threshold"), **STEPS)
def klass_needs_fewer_forwards(f):
    return forwards(f, KLASS, ONE)


@claim(place="KLASS, Table 1", statement="KLASS answers better than one token per step.",
       quantity="score, KLASS - one token per step", bound=BETTER,
       published=Published(0.0137, "GSM8K, LLaDA-8B-Instruct: 76.50 - 75.13", 0.0001),
       controls=("threshold_keeps_quality",), **SCORES)
def klass_answers_better(f):
    return score(f, "klass", "vanilla", model=MODELS)


@claim(place="KLASS, Table 1", statement="KLASS answers better than its confidence threshold alone.",
       quantity="score, KLASS - the threshold of 0.6 only", bound=BETTER,
       published=Published(0.0129, "GSM8K, LLaDA-8B-Instruct: 76.50 - 75.21", 0.0001),
       controls=("klass_costs_forwards",), **SCORES)
def klass_beats_confidence_alone(f):
    return score(f, "klass", "threshold of 0.6", model=MODELS)


@claim(place="CreditDecoding, abstract", statement="CreditDecoding has a higher throughput than "
                                                   "vanilla decoding.",
       quantity="throughput over vanilla", bound=FASTER,
       published=Published(5.48, "abstract, LLaDA-8B-Instruct, mean of eight benchmarks", 0.005),
       rivals=("threshold_is_faster", "vanilla_that_stops_is_faster"),
       controls=("credit_against_a_threshold",), **TIMES)
def credit_is_faster(f):
    return speed(f, "credit_decoding", "vanilla", TOKENS, model=MODELS)


@claim(place="CreditDecoding, abstract", statement="CreditDecoding answers as well as vanilla decoding.",
       quantity="score, CreditDecoding - one token per step", bound=KEPT,
       published=Published(0.0048, "abstract, LLaDA-8B-Instruct, mean of eight benchmarks", 0.00005),
       controls=("threshold_keeps_quality",), **SCORES)
def credit_keeps_quality(f):
    return score(f, "credit_decoding", "vanilla", model=MODELS)


@claim(place="PC-Sampler, abstract", statement="PC-Sampler answers better than decoding by confidence.",
       quantity="score, PC-Sampler - vanilla, one token per step each", bound=BETTER, **SCORES)
def pc_sampler_answers_better(f):
    return score(f, "pc_sampler", "vanilla", model=MODELS)


# ---- Taking tokens back ----

@claim(place="WINO, Table 1", statement="WINO has a higher throughput than one token per step.",
       quantity="throughput over vanilla", bound=FASTER,
       published=Published(5.66, "GSM8K, LLaDA-8B-Instruct: 100.53 / 17.76", 0.005),
       rivals=("threshold_is_faster", "vanilla_that_stops_is_faster", "wino_final_is_faster"),
       **{**TIMES, "regime": (FEW, SHADOW)})
def wino_is_faster(f):
    return speed(f, "wino", "vanilla", TOKENS, model=MODELS)


@claim(place="WINO, Table 1", statement="WINO needs fewer forward passes than one token per step.",
       quantity="response tokens per forward pass over one per step", bound=FASTER,
       published=Published(6.11, "GSM8K, LLaDA-8B-Instruct: 256 / 41.93", 0.005),
       rivals=("threshold_needs_fewer", "wino_final_needs_fewer"),
       controls=("wino_against_a_threshold", "taking_back_costs_rows"), **STEPS)
def wino_needs_fewer_forwards(f):
    return forwards(f, WINO, ONE)


@claim(place="WINO, Table 1", statement="WINO answers better than one token per step.",
       quantity="score, WINO - one token per step", bound=BETTER,
       published=Published(0.0258, "GSM8K, LLaDA-8B-Instruct: 75.82 - 73.24", 0.0001),
       controls=("threshold_keeps_quality", "taking_back_on_answers"), **SCORES)
def wino_answers_better(f):
    return score(f, "wino", "vanilla", model=MODELS)


@claim(place="WINO, Table 6", statement="WINO is faster than a threshold.",
       quantity="throughput over a threshold of 0.9", bound=FASTER,
       published=Published(1.79, "GSM8K: 5.66 / 3.16", 0.005), rivals=("bolder_threshold_is_faster",),
       controls=("wino_against_a_threshold",), **{**TIMES, "regime": (FEW, SHADOW)})
def wino_is_faster_than_a_threshold(f):
    return speed(f, "wino", "threshold", TOKENS, model=MODELS)


@claim(place="WINO, section 3", statement="Remasking doubtful tokens writes stories that are more likely.",
       quantity="likelihood per token of stories, WINO - the same without remasking", bound=BETTER,
       controls=("taking_back_on_answers",),
       **{**SCORES, "artifacts": ("figure_1",), "scales": ("scores",), "tasks": "stories, judged by a causal model",
          "items": scored(0.05, 0.5)})
def taking_back_keeps_text_likely(f):
    return score(f, WINO, FINAL, workload="story", model=MODELS)


@claim(place="LLaDA2.1, Table 1", statement="Editing unmasks more tokens per forward pass than "
                                            "LLaDA2.0's loop (S mode).",
       quantity="tokens per forward pass over LLaDA2.0's loop", bound=FASTER,
       published=Published(1.925, "flash, average: 5.93 / 3.08", 0.005, says="twice as many"),
       controls=("editing_untrained",),
       **{**STEPS, "artifacts": ("figure_3",), "regime": presumes(
           "the model was trained to edit", is_trained_to_edit, TRUE, label="llada21")})
def editing_decides_more(f):
    return speed(f, {"label": "llada21", "threshold": 0.7}, {"label": "llada2", "threshold": 0.95}, A_FORWARD)


@claim(place="LLaDA2.1, Table 1", statement="Editing answers better (Q mode).",
       quantity="score over LLaDA2.0's loop", bound=BETTER,
       published=Published(0.0111, "flash, average: 73.54 - 72.43", 0.0001), controls=("editing_untrained",),
       **{**SCORES, "artifacts": ("figure_3",), "regime": presumes(
           "the model was trained to edit", is_trained_to_edit, TRUE, label="llada21")})
def editing_answers_better(f):
    return score(f, {"label": "llada21", "threshold": 0.95}, {"label": "llada2", "threshold": 0.95})


# ---- Drafts that are verified ----

def same_answers(f, of, over, **where):
    """The share of items that two sides answer with the same tokens."""
    same = asked = 0
    for left, right in f.pairs(of, over, **where):
        a, b = left["items"]["answer_hash"], right["items"]["answer_hash"]
        same, asked = same + sum(x == y for x, y in zip(a, b)), asked + len(a)
    if not asked:
        raise NeedsRows("rows that kept their answers")
    return share(same, asked)


@claim(place="FreeDave, abstract", statement="At least 94 % of FreeDave's answers are those of "
                                             "decoding without drafts.",
       quantity="share of equal answers", bound=at_least(0.94, "us: 72 of 72 equal answers show it, 71 leave "
                                                          "it open; the paper says all"),
       published=Published(1.0, "abstract: lossless", 0.0, says="lossless"),
       controls=("a_threshold_loses_nothing",),
       **{**SCORES, "artifacts": ("figure_1",), "kind": "signal", "items": "72 here", "tasks": "every task of the file"})
def freedave_loses_nothing(f):
    return same_answers(f, {"label": "freedave", "draft_steps": 8}, {"label": "freedave", "draft_steps": 1})


@claim(place="FreeDave, abstract", statement="FreeDave needs fewer forward passes than decoding "
                                             "without drafts.",
       quantity="response tokens per forward pass over no drafts", bound=FASTER,
       published=Published(2.83, "abstract of the third version: \"up to\"", 0.005,
                           says="up to 2.83 times fewer"),
       controls=("drafts_cost_rows", "freedave_is_faster"), **{**STEPS, "regime": no_precondition(
           "drafts are compared with none, on one cache")})
def freedave_needs_fewer_forwards(f):
    return forwards(f, {"label": "freedave", "draft_steps": 8}, {"label": "freedave", "draft_steps": 1})


# ---- Blocks ----

@claim(place="AdaBlock-dLLM, Table 1", statement="Blocks that end at a delimiter answer better than fixed ones.",
       quantity="score over blocks of 32, dual cache, threshold 0.9", bound=BETTER,
       published=Published(0.04, "GSM8K, LLaDA-8B-Instruct, blocks of 32: 78.5 - 74.5", 0.001), **SCORES)
def adablock_answers_better(f):
    return score(f, "adablock", "threshold, dual", model=MODELS)


@claim(place="DSB, Table 1", statement="AdaBlock is slower than fixed blocks.",
       quantity="throughput over blocks of 32, dual cache", bound=below(1, "paper: slower in every row"),
       published=Published(0.872, "GSM8K, LLaDA-8B-Instruct: 80.42 / 92.26", 0.0005),
       controls=("adablock_needs_more_forwards",), **TIMES)
def adablock_is_slower(f):
    return speed(f, "adablock", "threshold, dual", TOKENS, model=MODELS)


@claim(place="DSB, Table 1", statement="A sliding window is faster than fixed blocks.",
       quantity="throughput, DSB with its cache over blocks of 32, dual cache", bound=FASTER,
       published=Published(1.080, "GSM8K, LLaDA-8B-Instruct: 99.61 / 92.26", 0.0005),
       controls=("dsb_decides_more_a_forward",), **{**TIMES, "regime": (FEW, GPU)})
def dsb_is_faster(f):
    return speed(f, "dsb", "threshold, dual", TOKENS, model=MODELS)


@claim(place="DSB, Table 1", statement="A sliding window answers better than fixed blocks.",
       quantity="score, DSB with its cache - blocks of 32, dual cache", bound=BETTER,
       published=Published(0.0289, "GSM8K, LLaDA-8B-Instruct: 80.29 - 77.40", 0.0001), **SCORES)
def dsb_answers_better(f):
    return score(f, "dsb", "threshold, dual", model=MODELS)


D2F = presumes("the model was trained to denoise several blocks at once", is_trained_for_blocks, TRUE,
               label="multi_block")


@claim(place="D2F, Table 1", statement="Several blocks in flight have a higher throughput than Fast-dLLM.",
       quantity="throughput over Fast-dLLM's dual cache", bound=FASTER,
       published=Published(1.49, "GSM8K, LLaDA-8B: 52.5 / 35.2", 0.005),
       controls=("several_blocks_untrained",),
       **{**TIMES, "regime": D2F})
def several_blocks_are_faster(f):
    return speed(f, "multi_block", "threshold, dual", TOKENS)


@claim(place="MultiBD, abstract", statement="Several blocks unmask more tokens per forward pass "
                                            "than one block at a time.",
       quantity="tokens per forward pass over one block at a time", bound=FASTER,
       published=Published(1.784, "LLaDA2-mini, mean of mathematics and code: 6.19 / 3.47", 0.005),
       controls=("several_blocks_untrained", "multi_block_against_chunks"),
       **{**STEPS, "artifacts": ("figure_3",), "regime": D2F})
def several_blocks_decide_more(f):
    return speed(f, {"label": "multi_block", "threshold": 0.9}, {"label": "blocks", "threshold": 0.9},
                 A_FORWARD)


# ---- Rows that are left out ----

@claim(place="DPad, Table 1", statement="Dropping far masks makes a threshold faster.",
       quantity="throughput over a threshold of 0.9 without a cache", bound=FASTER,
       published=Published(1.288, "GSM8K 4-shot, LLaDA-Instruct: 8.55 / 6.64", 0.001),
       rivals=("ending_early_is_faster",),
       controls=("dpad_computes_fewer_rows", "dropping_under_sparse_dllm_is_faster"), **LEFT_OUT)
def dpad_is_faster(f):
    return speed(f, "dpad", "threshold", TOKENS, model=MODELS, workload=LONG)


@claim(place="DPad, Table 1", statement="Dropping far masks answers as well as keeping them.",
       quantity="score over a threshold of 0.9 without a cache", bound=KEPT,
       published=Published(0.0122, "GSM8K, LLaDA-Instruct, flexible: 79.76 - 78.54", 0.0001, says="no loss"),
       **{**SCORES, "artifacts": ("table_4",), "regime": LONG_CANVAS})
def dpad_keeps_quality(f):
    return score(f, "dpad", "threshold", model=MODELS, workload=LONG)


@claim(place="Streaming-dLLM, Table 1", statement="A short suffix and a falling threshold beat Fast-dLLM.",
       quantity="throughput over the prefix cache with a threshold of 0.9", bound=FASTER,
       published=Published(1.324, "LLaDA-1.5, GSM8K of 256 tokens: 66.2 / 50.0", 0.001),
       controls=("ending_early_is_faster",), **LEFT_OUT)
def streaming_is_faster(f):
    return speed(f, "streaming_dllm", "threshold, prefix", TOKENS, model=MODELS, workload=LONG)


@claim(place="Streaming-dLLM, Table 1", statement="Streaming-dLLM has a higher throughput than "
                                                  "vanilla decoding.",
       quantity="throughput over vanilla", bound=FASTER,
       published=Published(10.5, "LLaDA-1.5, GSM8K of 256 tokens", 0.05),
       rivals=("prefix_cache_is_faster", "stopping_is_faster_on_long_canvases"), **LEFT_OUT)
def streaming_over_vanilla(f):
    return speed(f, "streaming_dllm", "vanilla", TOKENS, model=MODELS, workload=LONG)


@claim(place="d2Cache, abstract", statement="d2Cache has a higher throughput than vanilla decoding.",
       quantity="throughput, one token per forward pass each, over vanilla", bound=FASTER,
       published=Published(4.8, "authors' page: \"up to\"", 0.05, says="up to 4.8 times as fast"),
       rivals=("stopping_is_faster_on_long_prompts",),
       controls=("d2cache_computes_fewer_rows",), **{
           **LEFT_OUT, "tasks": "needles in prompts of 250 to 500 tokens here, GSM8K with examples at full",
           "regime": presumes_of_tasks(
           "prompts have at least 250 tokens: 32 masks and a tenth of the attention are few of their positions",
           "prompt_tokens_mean", at_least(250, "us: few-shot GSM8K has about 900"), label="vanilla")})
def d2cache_is_faster(f):
    return speed(f, "d2cache, one token", "vanilla", TOKENS, model=MODELS, workload=PROMPTS)


# ---- What deciding together breaks ----

@claim(place="ParallelBench, abstract",
       statement="Unmasking four tokens per step scores lower if tokens depend on each other.",
       quantity="score lost by four tokens per step instead of one: shuffle and latin_square", bound=BETTER,
       controls=("parallel_keeps_what_is_fixed",), **TOGETHER)
def parallel_breaks_what_hangs_together(f):
    return score(f, ONE, {"label": "vanilla", "tokens_per_step": 4}, workload=HARD)


@claim(place="ParallelBench, abstract",
       statement="Unmasking four tokens per step loses more if tokens depend on each other than "
                 "if the prompt fixes each.",
       quantity="score lost by four tokens per step: shuffle and latin_square less copy and reverse", bound=BETTER, **TOGETHER)
def parallel_breaks_by_dependence(f):
    four = {"label": "vanilla", "tokens_per_step": 4}
    return difference(score(f, ONE, four, workload=HARD), score(f, ONE, four, workload=EASY))


@claim(place="ParallelBench, abstract",
       statement="A threshold of 0.7 loses more if tokens depend on each other than if the prompt "
                 "fixes each.",
       quantity="score lost by a threshold of 0.7: shuffle and latin_square less copy and reverse", bound=BETTER,
       controls=("threshold_of_0_95_loses_nothing",), **TOGETHER)
def thresholds_do_not_adapt(f):
    return difference(score(f, ONE, plain(0.7), workload=HARD), score(f, ONE, plain(0.7), workload=EASY))


@claim(place="WINO, section 3", statement="Remasking doubtful tokens answers better if tokens "
                                          "depend on each other.",
       quantity="score, WINO - the same without remasking", bound=BETTER,
       controls=("taking_back_where_nothing_hangs",), **TOGETHER)
def taking_back_mends_what_hangs_together(f):
    return score(f, {"label": "wino", "threshold": 0.5}, {"label": "wino_final", "threshold": 0.5}, workload=HARD)


# ---- Controls: what passes without the method, and what explains ----

@control(statement="A threshold of 0.9 needs fewer forward passes than one token per step.",
         quantity="response tokens per forward pass over one per step", bound=FASTER, **STEPS)
def threshold_needs_fewer(f):
    return forwards(f, plain(0.9), ONE)


@control(statement="A threshold of 0.9 answers as well as one token per step.",
         quantity="score, threshold of 0.9 - one token per step", bound=KEPT, **SCORES)
def threshold_keeps_quality(f):
    return score(f, "threshold", "vanilla", model=MODELS)


@control(statement="Two tokens per step need fewer forward passes than one.",
         quantity="response tokens per forward pass over one per step", bound=FASTER, **STEPS)
def two_tokens_a_step(f):
    return forwards(f, {"label": "vanilla", "tokens_per_step": 2}, ONE)


@control(statement="EB-sampler needs fewer forward passes than the boldest threshold that scores as well.",
         quantity="tokens per forward pass at equal score over thresholds of 0.5 to 0.95", bound=FASTER, **STEPS)
def eb_against_a_threshold(f):
    return at_equal_score(f, EB, [plain(t) for t in THRESHOLDS], "committed_per_step", model=MODELS)


@control(statement="EB-sampler's rule needs fewer forward passes over Fast-dLLM's cache than a "
                   "threshold that scores as well.",
         quantity="tokens per forward pass at equal score over thresholds of the dual cache", bound=FASTER, **STEPS)
def eb_over_a_cache_against_a_threshold(f):
    return at_equal_score(f, {"label": "eb_dual", "gamma": 0.1},
                          [{"label": "fast_dllm_threshold", "threshold": t} for t in THRESHOLDS],
                          "committed_per_step", model=MODELS)


@control(statement="EB-sampler's rule unmasks more per forward pass in Optimus' chunks than a "
                   "threshold that scores as well.",
         quantity="tokens per forward pass at equal score over thresholds in chunks of 16", bound=FASTER,
         **{**STEPS, "artifacts": ("figure_3",), "regime": no_precondition("two rules under one schedule")})
def eb_in_chunks_against_a_threshold(f):
    return at_equal_score(f, {"label": "eb_chunk_16", "gamma": 0.1},
                          [{"label": "chunk_16", "threshold": t} for t in THRESHOLDS], A_FORWARD)


@control(statement="KLASS' rule unmasks more per forward pass over the delayed cache than a "
                   "threshold that scores as well.",
         quantity="tokens per forward pass at equal score over thresholds of the delayed cache", bound=FASTER,
         **{**STEPS, "artifacts": ("figure_3",), "regime": no_precondition("two rules under one schedule")})
def klass_over_a_cache_against_a_threshold(f):
    return at_equal_score(f, {"label": "klass_delayed", "threshold": 0.6},
                          [{"label": "delayed", "threshold": t} for t in THRESHOLDS], A_FORWARD)


@control(statement="CreditDecoding needs fewer forward passes than the boldest threshold that "
                   "scores as well.",
         quantity="tokens per forward pass at equal score over thresholds of 0.5 to 0.95", bound=FASTER, **STEPS)
def credit_against_a_threshold(f):
    return at_equal_score(f, {"label": "credit_decoding", "threshold": 0.9}, [plain(t) for t in THRESHOLDS],
                          "committed_per_step", model=MODELS)


@control(statement="WINO needs fewer forward passes than the boldest threshold that scores as well.",
         quantity="tokens per forward pass at equal score over thresholds of 0.5 to 0.95", bound=FASTER, **STEPS)
def wino_against_a_threshold(f):
    return at_equal_score(f, WINO, [plain(t) for t in THRESHOLDS], "committed_per_step", model=MODELS)


@control(statement="KLASS needs fewer forward passes than Ada-DLM if that scores as well.",
         quantity="tokens per forward pass at equal score over Ada-DLM", bound=FASTER, **STEPS)
def klass_against_ada_dlm(f):
    return at_equal_score(f, KLASS, ["ada_dlm"], "committed_per_step", model=MODELS)


@control(statement="KLASS needs more forward passes than its threshold alone.",
         quantity="response tokens per forward pass, KLASS over its threshold alone", bound=below(1, "us"),
         **{**STEPS, "artifacts": ("table_2",), "regime": no_precondition("a rule is compared with a part of it")})
def klass_costs_forwards(f):
    return forwards(f, "klass", "threshold of 0.6")


@control(statement="WINO without remasking needs fewer forward passes than one token per step.",
         quantity="response tokens per forward pass over one per step", bound=FASTER, **STEPS)
def wino_final_needs_fewer(f):
    return forwards(f, FINAL, ONE)


@control(statement="WINO with remasking computes more positions than without.",
         quantity="computed positions, WINO over the same without remasking",
         bound=above(1, "us"), **ROWS)
def taking_back_costs_rows(f):
    return ratio(f, "rows", WINO, FINAL, model=MODELS)


@control(statement="WINO answers better with remasking than without.",
         quantity="score, WINO - the same without remasking",
         bound=BETTER, **SCORES)
def taking_back_on_answers(f):
    return score(f, "wino", "wino_final", model=MODELS)


@control(statement="Editing by a model that was not trained for it answers better than no edit.",
         quantity="score, edits of 0.9 - none, threshold 0.7", bound=BETTER,
         **{**SCORES, "artifacts": ("figure_3",)})
def editing_untrained(f):
    return score(f, {"label": "llada21", "threshold": 0.7}, {"label": "llada21_final", "threshold": 0.7})


@control(statement="Drafts compute more positions than decoding without them.",
         quantity="computed positions, eight branches over none", bound=above(1, "us"),
         **{**ROWS, "regime": no_precondition("drafts are compared with none, on one cache")})
def drafts_cost_rows(f):
    return ratio(f, "rows", {"label": "freedave", "draft_steps": 8}, {"label": "freedave", "draft_steps": 1},
                 model=MODELS)


@control(statement="At least 94 % of the answers at threshold 0.95 are those of one token per step.",
         quantity="share of equal answers", bound=at_least(0.94, "us: as for the drafts"),
         **{**SCORES, "artifacts": ("figure_1",), "kind": "signal", "items": "72 here",
            "tasks": "every task of the file"})
def a_threshold_loses_nothing(f):
    return same_answers(f, {"label": "fast_dllm_threshold", "threshold": 0.95},
                        {"label": "freedave", "draft_steps": 1})


@control(statement="FreeDave is faster than one token per step on the same machine.",
         quantity="throughput over vanilla", bound=FASTER, **TIMES)
def freedave_is_faster(f):
    return speed(f, "freedave", "vanilla", TOKENS, model=MODELS)


@control(statement="AdaBlock needs more forward passes than fixed blocks.",
         quantity="response tokens per forward pass over blocks of 32, dual cache", bound=below(1, "us"), **STEPS)
def adablock_needs_more_forwards(f):
    return forwards(f, {"label": "adablock", "threshold": 0.9}, {"label": "fast_dllm_threshold", "threshold": 0.9})


@control(statement="A sliding window unmasks more tokens per forward pass than fixed blocks.",
         quantity="response tokens per forward pass over blocks of 32, dual cache", bound=FASTER,
         **{**STEPS, "artifacts": ("table_1",)})
def dsb_decides_more_a_forward(f):
    return forwards(f, "dsb", "threshold, dual")


@control(statement="On a model trained for one block, several are faster than one.",
         quantity="throughput over Fast-dLLM's dual cache", bound=FASTER, **TIMES)
def several_blocks_untrained(f):
    return speed(f, "multi_block", "threshold, dual", TOKENS, model=MODELS)


@control(statement="Several blocks unmask more per forward pass than the largest chunk on one "
                   "block-causal model.",
         quantity="tokens per forward pass over chunks of 16", bound=FASTER,
         **{**STEPS, "artifacts": ("figure_3",), "regime": no_precondition("two schedules of one rule")})
def multi_block_against_chunks(f):
    return speed(f, {"label": "multi_block", "threshold": 0.9}, {"label": "chunk_16", "threshold": 0.9}, A_FORWARD)


@control(statement="DPad computes fewer positions per token than the same method with nothing dropped.",
         quantity="computed positions per output token, over the same with nothing dropped",
         bound=below(1, "us"), **{**ROWS, "artifacts": ("table_3",)})
def dpad_computes_fewer_rows(f):
    return ratio(f, "processed_rows_per_output", "dpad", "dpad, nothing dropped", model=MODELS)


@control(statement="Dropping far masks makes Sparse-dLLM faster.",
         quantity="throughput over Sparse-dLLM with nothing dropped", bound=FASTER, **LEFT_OUT)
def dropping_under_sparse_dllm_is_faster(f):
    return speed(f, "sparse_dllm, dropped", "sparse_dllm", TOKENS, model=MODELS, workload=LONG)


@control(statement="d2Cache computes fewer positions per token than vanilla decoding.",
         quantity="computed positions per token over vanilla", bound=below(1, "us"),
         **{**ROWS, "artifacts": ("table_3",)})
def d2cache_computes_fewer_rows(f):
    return ratio(f, "redundancy", "d2cache, one token", "vanilla", model=MODELS, workload=PROMPTS)


@control(statement="A threshold of 0.9 is faster than one token per step.",
         quantity="throughput over vanilla",
         bound=FASTER, **TIMES)
def threshold_is_faster(f):
    return speed(f, "threshold", "vanilla", TOKENS, model=MODELS)


@control(statement="A threshold of 0.6 is faster than one of 0.9.", quantity="throughput, 0.6 over 0.9",
         bound=FASTER, **TIMES)
def bolder_threshold_is_faster(f):
    return speed(f, "threshold of 0.6", "threshold", TOKENS, model=MODELS)


@control(statement="The prefix cache with a threshold of 0.9 is faster than vanilla decoding.",
         quantity="throughput over vanilla", bound=FASTER, **LEFT_OUT)
def prefix_cache_is_faster(f):
    return speed(f, "threshold, prefix", "vanilla", TOKENS, model=MODELS, workload=LONG)


@control(statement="Vanilla decoding that stops is faster than one that does not.",
         quantity="throughput, early stop over none", bound=FASTER, **TIMES)
def vanilla_that_stops_is_faster(f):
    return speed(f, "vanilla_stopping", "vanilla", TOKENS, model=MODELS)


@control(statement="DPad that drops nothing is faster than a threshold of 0.9.",
         quantity="throughput over a threshold of 0.9 without a cache", bound=FASTER, **LEFT_OUT)
def ending_early_is_faster(f):
    return speed(f, "dpad, nothing dropped", "threshold", TOKENS, model=MODELS, workload=LONG)


@control(statement="Vanilla decoding that stops after the answer is faster than one that does "
                   "not, on long responses.",
         quantity="throughput, early stop over none", bound=FASTER, **LEFT_OUT)
def stopping_is_faster_on_long_canvases(f):
    return speed(f, "vanilla_stopping", "vanilla", TOKENS, model=MODELS, workload=LONG)


@control(statement="On long prompts vanilla decoding that stops is faster than one that does not.",
         quantity="throughput, early stop over none", bound=FASTER,
         **{**LEFT_OUT, "regime": no_precondition("one baseline is compared with itself")})
def stopping_is_faster_on_long_prompts(f):
    return speed(f, "vanilla_stopping", "vanilla", TOKENS, model=MODELS, workload=PROMPTS)


@control(statement="WINO without remasking is faster than vanilla decoding.",
         quantity="throughput over vanilla", bound=FASTER, **TIMES)
def wino_final_is_faster(f):
    return speed(f, "wino_final", "vanilla", TOKENS, model=MODELS)


@control(statement="Remasking answers better if the prompt fixes every token.",
         quantity="score, WINO - the same without remasking, copy and reverse", bound=BETTER, **TOGETHER)
def taking_back_where_nothing_hangs(f):
    return score(f, {"label": "wino", "threshold": 0.5}, {"label": "wino_final", "threshold": 0.5}, workload=EASY)


@control(statement="Unmasking four tokens per step scores lower if the prompt fixes every token.",
         quantity="score lost by four tokens per step instead of one: copy and reverse", bound=BETTER, **TOGETHER)
def parallel_keeps_what_is_fixed(f):
    return score(f, ONE, {"label": "vanilla", "tokens_per_step": 4}, workload=EASY)


@control(statement="A threshold of 0.95 answers as well as one token per step if tokens depend on "
                   "each other.",
         quantity="score, threshold of 0.95 - one token per step: shuffle and latin_square", bound=KEPT, **TOGETHER)
def threshold_of_0_95_loses_nothing(f):
    return score(f, plain(0.95), ONE, workload=HARD)
