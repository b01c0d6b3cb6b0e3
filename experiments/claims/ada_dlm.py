# SPDX-License-Identifier: Apache-2.0
"""What Ada-DLM (ACL 2026) claims, and the controls beside it. No official code exists: what is checked is a
reading of the paper. Two things it leaves open are readings, each a claim of its own: Algorithm 1 has no
blocks where the cache has, and tokens behind the answer may count or not.

Its regime is a threshold that decides few tokens a step; on the embedded models that is stories alone,
which need a causal model's likelihood as their score."""

from unmask.claims import (NeedsRows, Published, above, at_least, at_most, below, claim, control,
                           at_equal_score, largest, level, no_precondition, presumes, presumes_of_tasks, ratio,
                           repeated, score, scored, share, speed, spread_over_seeds, within, within_row)
from unmask.claims.relation import Finding
from unmask.rows.intervals import Estimate

TOKENS, CANVAS = "tokens_per_second", "canvas_tokens_per_second"
MODELS = ("tiny-llada", "LLaDA-8B-Instruct", "Dream-v0-Instruct-7B")
KEPT = at_least(-0.02, "us: two points, for \"statistical parity\"")
FASTER = above(1, "paper: faster")


def few(label, model=MODELS):
    return presumes_of_tasks("the threshold of 0.9 unmasks at most three tokens per step",
                             "committed_per_step", at_most(3, "us: the paper's models unmask one to three"),
                             label=label, model=model)


SPEEDS = {"kind": "speed", "quality": KEPT, "scales": ("tiny", "full"), "items": repeated(0.05, 0.03),
          "tasks": "stories here, judged by a causal model; the paper's tasks at full",
          "clock": "output tokens per second, prefill included", "preset": "block32: blocks of 32"}
TABLE_1 = {**SPEEDS, "artifacts": ("table_1",), "regime": few("Fast-dLLM")}
TABLE_5 = {**SPEEDS, "artifacts": ("table_5",), "regime": few("threshold 0.9")}
ABLATION = {**SPEEDS, "regime": no_precondition("settings of the rule are compared with each other")}
SCORES = {"kind": "score", "scales": ("tiny", "full"), "items": scored(0.02, 0.1), "preset": "block32",
          "tasks": "mean of the tasks with an answer",
          "regime": no_precondition("scores are compared at the published settings")}


def centroids_apart(row):
    """The share of the steps in which ranks 1 and K + 1 are more than 0.01 apart. Nearer ones tie in a float32
    softmax, and the plane between the centroids is rounding noise."""
    apart = row["probes"].get("decoding", {}).get("ranks_apart")
    k = max(1, round(row["params"].get("k", 0.15) * 32))
    return apart[min(k, len(apart)) - 1] if apart else None


def apart(label):
    return presumes_of_tasks("ranks 1 and K + 1 are more than 0.01 apart in four of five steps",
                             centroids_apart, at_least(0.8, "us: nearer confidences tie in float32"),
                             label=label, model=MODELS)


# Where confidences tie, a score is that of rounding: `apart` leaves those tasks out.
UNTIED = {**SCORES, "scales": ("scores", "full"),
          "tasks": "stories, judged by a causal model; tasks with an answer if their confidences are apart"}
SIGNAL = {"kind": "signal", "scales": ("tiny", "full"), "items": "64 per task here", "preset": "Fast-dLLM, 0.9",
          "tasks": "all tasks of the file, pooled",
          "regime": no_precondition("this is the paper's observation")}


# ---- What static thresholds miss (sections 1 and 3) ----

@claim(place="Section 3.3, Fig. 1",
       statement="Between 15 % and 20 % of the active steps are in the stagnation zone.",
       quantity="share of active tokens whose best token stays while they stay below 0.9",
       bound=within(0.15, 0.2, "paper: \"approximately 15-20 %\""),
       published=Published(0.175, "section 3.3, \"approximately 15-20 %\"", 0.025),
       artifacts=("figure_1",), controls=("stagnation_without_stories",), **SIGNAL)
def stagnation(f):
    return level(f, "probes.stagnation.share", label="Fast-dLLM", model=MODELS)


@claim(place="Section 1, Fig. 2",
       statement="A static threshold misses 35 % to 52.5 % of the stable tokens of the worst sample.",
       quantity="share of the stable tokens of a sample that are below 0.9, the largest",
       bound=within(0.35, 0.525, "us: a fifth either way of the published \"up to 43.75 %\""),
       published=Published(0.4375, "section 1", 0.0, says="up to 43.75 % missed"),
       artifacts=("figure_2",), controls=("missed_stable_without_stories",),
       each_because="\"up to\": the largest counts", **SIGNAL)
def missed_stable_tokens(f):
    return largest(level(f, "probes.stagnation.missed_stable.sample_max", label="Fast-dLLM", model=MODELS))


@claim(place="Sections 1 and 3.3",
       statement="At least 1 % of the tokens are unmasked more than 0.05 below an earlier peak of "
                 "their confidence.", quantity="share of unmasked tokens more than 0.05 below an earlier peak",
       bound=at_least(0.01, "us: one in a hundred; the paper gives no number"),
       artifacts=("figure_1",), controls=("decline_without_stories",), **SIGNAL)
def post_peak_decline(f):
    return level(f, "probes.stagnation.decline.share", label="Fast-dLLM", model=MODELS)


@claim(place="Section 1",
       statement="If the confidence falls, the token of the peak is mostly better than the unmasked one.",
       quantity="share of declined samples in which the peak's token scores better",
       bound=above(0.5, "us: chance"), artifacts=("figure_1",), controls=("decline_without_stories",), **SIGNAL)
def decline_costs_quality(f):
    declines = [row["probes"]["stagnation"]["decline"] for row in f.pick(label="Fast-dLLM")]
    better = sum(d["peak_better"] or 0 for d in declines)
    worse = sum(d["committed_better"] or 0 for d in declines)
    if not better + worse:
        raise NeedsRows("declined tokens whose peak decides otherwise")
    return share(better, better + worse)


# ---- Speed (abstract, section 5.2, Table 1) ----

RIVALS = ("threshold_of_equal_text", "threshold_0_7")


@claim(place="Section 5.2, Table 1", statement="Ada-DLM has a higher throughput than vanilla decoding.",
       quantity="throughput over vanilla", bound=FASTER,
       published=Published(4.65, "Table 1, LLaDA-8B, mean speedup", 0.005),
       rivals=("fast_dllm_over_vanilla", "vanilla_with_early_stop"), controls=("stories_stay_likely",), **TABLE_1)
def faster_than_vanilla(f):
    return speed(f, "Ada-DLM", "Vanilla", TOKENS, model=MODELS)


@claim(finding="Fast-dLLM", decides=True, place="Abstract, section 5.2, Table 1",
       statement="Ada-DLM has a higher throughput than Fast-dLLM on the same cache.",
       quantity="throughput over Fast-dLLM", bound=FASTER,
       published=Published(1.72, "Table 1, LLaDA-8B, means: 4.65 / 2.71", 0.005, says="about twice as fast"),
       reading="blocks of 32, by output tokens", elsewhere=("beats_a_threshold_of_equal_text", "the fastest threshold"),
       controls=("faster_than_fast_dllm_by_canvas", "faster_than_fast_dllm_whole_canvas",
                 "faster_than_fast_dllm_whole_canvas_by_canvas", "threshold_of_equal_text", "threshold_0_7",
                 "stories_stay_likely", "beats_a_threshold_of_equal_score", "beats_a_threshold_of_equal_text",
                 "faster_where_the_threshold_is_slow", "fewer_forwards_on_softened_models"), **TABLE_1)
def faster_than_fast_dllm(f):
    return speed(f, "Ada-DLM", "Fast-dLLM", TOKENS, model=MODELS)


@control(place="Abstract, section 5.2, Table 1",
       statement="Ada-DLM has a higher throughput than Fast-dLLM on the same cache.",
       quantity="throughput over Fast-dLLM", bound=FASTER,
       published=Published(1.72, "Table 1, LLaDA-8B, means: 4.65 / 2.71", 0.005, says="about twice as fast"),
       reading="blocks of 32, by response tokens",
       **{**TABLE_1, "clock": "response tokens per second, prefill included"})
def faster_than_fast_dllm_by_canvas(f):
    return speed(f, "Ada-DLM", "Fast-dLLM", CANVAS, model=MODELS)


@control(place="Abstract, section 5.2, Algorithm 1",
       statement="Ada-DLM has a higher throughput than Fast-dLLM on the same cache.",
       quantity="throughput over Fast-dLLM", bound=FASTER,
       published=Published(1.72, "Table 1, LLaDA-8B, means: 4.65 / 2.71", 0.005, says="about twice as fast"),
       reading="the whole response, by output tokens", rivals=RIVALS,
       **{**TABLE_5, "preset": "the whole response, as Algorithm 1 is written"})
def faster_than_fast_dllm_whole_canvas(f):
    return speed(f, "whole canvas", "threshold 0.9", TOKENS, model=MODELS)


@control(place="Abstract, section 5.2, Algorithm 1",
       statement="Ada-DLM has a higher throughput than Fast-dLLM on the same cache.",
       quantity="throughput over Fast-dLLM", bound=FASTER,
       published=Published(1.72, "Table 1, LLaDA-8B, means: 4.65 / 2.71", 0.005, says="about twice as fast"),
       reading="the whole response, by response tokens",
       **{**TABLE_5, "preset": "the whole response, as Algorithm 1 is written",
          "clock": "response tokens per second, prefill included"})
def faster_than_fast_dllm_whole_canvas_by_canvas(f):
    return speed(f, "whole canvas", "threshold 0.9", CANVAS, model=MODELS)


@claim(place="Section 5.2, Table 1",
       statement="The cache alone (dKV-Cache) is faster than vanilla decoding.",
       quantity="throughput, dKV-Cache over vanilla", bound=FASTER,
       published=Published(1.13, "Table 1, LLaDA-8B, mean; 0.82 on GSM8K", 0.005),
       controls=("cache_forwards",), artifacts=("table_1",), **ABLATION)
def cache_alone_is_faster(f):
    return speed(f, "dKV-Cache", "Vanilla", TOKENS, model=MODELS)


@claim(place="Section 5.3, Table 2", statement="On long prompts Ada-DLM is faster than Fast-dLLM.",
       quantity="throughput over Fast-dLLM", bound=FASTER,
       published=Published(1.55, "Table 2, SPS: 12.81 / 8.26", 0.005), artifacts=("table_2",),
       controls=("more_forwards_on_long_prompts",),
       **{**SPEEDS, "regime": few("Fast-dLLM"), "tasks": "long prompts with long open answers"})
def faster_on_long_prompts(f):
    return speed(f, "Ada-DLM", "Fast-dLLM", TOKENS)


@claim(place="Section 4.2.3, appendix A.3",
       statement="Pruning only the feed-forward has a higher throughput than vanilla decoding.",
       quantity="throughput, feed-forward only over vanilla", bound=FASTER, artifacts=("table_5",),
       controls=("pruning_rows_beats_pruning_the_feed_forward",), **ABLATION)
def feed_forward_alone_is_faster(f):
    return speed(f, "feed-forward only", "Vanilla", TOKENS, model=MODELS)


@claim(place="Section 4.2.3, appendix F",
       statement="The unmasking rule takes at most 0.2 % of the time.", kind="signal",
       quantity="share of the time in the rule", bound=at_most(0.002, "paper"),
       published=Published(0.002, "appendix F", says="less than 0.2 % of the time"), artifacts=("table_1",),
       scales=("tiny", "full"), regime=no_precondition("small models make it harder"), tasks="every task of the file",
       items=repeated(0.2, 0.1), clock="share of the time, measured", preset="block32")
def overhead_is_small(f):
    return level(f, "rule_share", label="Ada-DLM")


@claim(place="Section 5.4, Fig. 4",
       statement="Active tokens fall more steeply under Ada-DLM than under Fast-dLLM.", kind="count",
       quantity="area under the active tokens by step, Ada-DLM over Fast-dLLM",
       bound=below(1, "paper: \"steeper drop\""), artifacts=("figure_4",), scales=("tiny", "full"),
       regime=few("Fast-dLLM"), tasks="stories", items="8 requests here", preset="block32",
       controls=("active_area_on_answers",))
def active_tokens_drop_faster(f):
    return active_area(f, model=MODELS)


def active_area(f, **where):
    """The areas under the mean number of active tokens by step, over each other."""
    ours, theirs = zip(*f.pairs("Ada-DLM", "Fast-dLLM", **where))
    areas = [sum(sum(row["probes"]["stagnation"]["active_by_step"]) for row in side)
             for side in (ours, theirs)]
    if not areas[1]:
        raise NeedsRows("active tokens by step")
    quotient, n = areas[0] / areas[1], sum(row["workload"]["items"] for row in ours)
    return Finding("area, Ada-DLM / Fast-dLLM", Estimate(quotient, quotient, quotient, n, "items", "counted"))


# ---- Quality (abstract, section 5.2) ----

@claim(decides=True, place="Section 5.2, Table 1", statement="Ada-DLM answers as well as vanilla decoding.",
       quantity="Ada-DLM (squared Euclidean distance of Table 5) - vanilla", bound=KEPT, artifacts=("table_5",),
       published=Published(-0.0010, "Table 1, LLaDA-8B, GSM8K: 72.50 - 72.60", 0.0001),
       controls=("threshold_keeps_quality", "last_confidence_keeps_quality"),
       **{**UNTIED, "scales": ("scores",), "regime": apart("Sq. Euclidean")})
def keeps_quality(f):
    return score(f, "Sq. Euclidean", "Vanilla", model=MODELS)


@claim(place="Abstract, section 5.2",
       statement="Ada-DLM scores higher than Fast-dLLM on open text.",
       quantity="Ada-DLM - Fast-dLLM, summaries", bound=above(0, "paper"), artifacts=("table_6",),
       controls=("stories_stay_likely",),
       note="The paper's number, 17.37 - 14.58 on SAMSum, is of dialogues that are summarised in new words. The "
            "summaries here are extracted word by word from 177 tokens, so no number is compared.",
       **{**SCORES, "tasks": "summaries (ROUGE-L here)", "items": scored(0.03, 0.3)})
def better_on_open_text(f):
    return score(f, "Ada-DLM", "Fast-dLLM", model=MODELS)


@claim(place="Table 6", statement="Ada-DLM has a higher ROUGE-1 than Fast-dLLM on GPQA with LLaDA.",
       quantity="Ada-DLM - Fast-dLLM, ROUGE-1", bound=above(0, "paper"), artifacts=("table_6",),
       published=Published(0.0201, "Table 6: 16.51 - 14.50", 0.0001), controls=("stories_stay_likely",),
       **{**SCORES, "tasks": "GPQA by ROUGE-1", "scales": ("full",)})
def better_by_rouge_1(f):
    return score(f, "Ada-DLM", "Fast-dLLM", model=MODELS[1])


@claim(place="Table 6", statement="Ada-DLM has a lower ROUGE-1 than Fast-dLLM on GPQA with Dream.",
       quantity="Ada-DLM - Fast-dLLM, ROUGE-1", bound=below(0, "paper"), artifacts=("table_6",),
       published=Published(-0.0037, "Table 6, Dream: 25.25 - 25.62", 0.0001), controls=("stories_stay_likely",),
       **{**SCORES, "tasks": "GPQA by ROUGE-1", "scales": ("full",)})
def worse_by_rouge_1_on_dream(f):
    return score(f, "Ada-DLM", "Fast-dLLM", model=MODELS[2])


@claim(place="Table 2", statement="On long prompts Ada-DLM answers as well as vanilla decoding.",
       quantity="Ada-DLM - vanilla", bound=KEPT, artifacts=("table_2",),
       controls=("threshold_keeps_quality_on_long_prompts",), **SCORES)
def keeps_quality_on_long_prompts(f):
    return score(f, "Ada-DLM", "Vanilla")


@claim(place="Section 5.3", statement="The standard deviation of the score over five seeds is at "
                                      "most 0.5 percentage points.",
       kind="signal", quantity="standard deviation of the score over five seeds",
       bound=at_most(0.005, "us: half a point"),
       published=Published(0.0018, "section 5.3: 72.50 +- 0.18", 0.00005, says="a spread of 0.18 points"),
       artifacts=("table_1",),
       scales=("full",), regime=no_precondition("the paper names no temperature"), items="five seeds",
       tasks="tasks with an answer; the file sets no temperature, so that all seeds agree", preset="block32")
def seeds_agree(f):
    return spread_over_seeds(f, 5, label="Ada-DLM")


# ---- Settings (Tables 3, 4 and 5) ----

TABLE_3 = {**ABLATION, "artifacts": ("table_3",)}
TABLE_4 = {**ABLATION, "artifacts": ("table_4",)}


@claim(place="Table 3", statement="A larger K is faster.", quantity="throughput, K = 25 % over K = 5 %", bound=FASTER,
       published=Published(1.36, "Table 3: 5.21 / 3.82", 0.003), controls=("larger_k_takes_fewer_forwards",),
       **{**TABLE_3, "quality": at_least(-0.0325, "us: two points below the published -1.25")})
def larger_k_is_faster(f):
    return speed(f, "K = 25 %", "K = 5 %", TOKENS, model=MODELS)


@claim(place="Table 3", statement="A larger K answers worse.", quantity="K = 25 % - K = 5 %",
       bound=below(0, "paper"), published=Published(-0.0125, "Table 3: 71.55 - 72.80", 0.0001),
       artifacts=("table_3",), controls=("larger_k_takes_fewer_forwards",), **{**UNTIED, "regime": apart("K = 5 %")})
def larger_k_is_worse(f):
    return score(f, "K = 25 %", "K = 5 %", model=MODELS)


@claim(place="Table 3", statement="K = 15 % is on the front of score and speed.",
       quantity="throughput over the fastest other K that scores as well", bound=FASTER,
       controls=("larger_k_takes_fewer_forwards",), **TABLE_3)
def k_of_15_is_on_the_front(f):
    return at_equal_score(f, "K = 15 %", [f"K = {k} %" for k in (5, 10, 20, 25)], TOKENS, model=MODELS)


@claim(place="Section 4.2.2", statement="Some steps freeze more than K tokens.", kind="signal",
       quantity="share of the steps that freeze more than K tokens, 15 % of a block of 32", bound=above(0, "paper"),
       artifacts=("table_3",), scales=("tiny", "full"),
       regime=no_precondition("it is a property of the rule"), tasks="every task of the file",
       items="every step", preset="block32")
def frozen_set_exceeds_k(f):
    rows = f.pick(label="K = 15 %")
    if any("decoding" not in row["probes"] for row in rows):
        raise NeedsRows("probes.decoding in the rows")
    histograms = [row["probes"]["decoding"]["histogram"] for row in rows]
    return share(sum(sum(h[6:]) for h in histograms), sum(map(sum, histograms)), "steps")


@claim(place="Table 4", statement="A longer history is slower.",
       quantity="throughput, m = 5 over m = 1", bound=below(1, "paper"),
       published=Published(0.78, "Table 4: 3.96 / 5.09", 0.002),
       controls=("longer_history_takes_fewer_forwards",), **TABLE_4)
def longer_history_is_slower(f):
    return speed(f, "m = 5", "m = 1", TOKENS, model=MODELS)


@claim(decides=True, place="Table 4", statement="A history of 3 answers better than the last confidence alone.",
       quantity="m = 3 - m = 1", bound=above(0, "paper"),
       published=Published(0.0070, "Table 4: 72.50 - 71.80", 0.0001), artifacts=("table_4",),
       controls=("last_confidence_keeps_quality", "history_of_three_takes_fewer_forwards",
                 "history_beats_the_plain_average"), **{**UNTIED, "regime": apart("m = 3")})
def history_helps(f):
    return score(f, "m = 3", "m = 1", model=MODELS)


@claim(place="Table 4", statement="A history of 5 scores at most 0.5 percentage points above one of 3.",
       quantity="m = 5 - m = 3", bound=at_most(0.005, "us: half a point"), artifacts=("table_4",),
       published=Published(0.0016, "Table 4: 72.66 - 72.50", 0.0001),
       controls=("last_confidence_keeps_quality",), **{**UNTIED, "regime": apart("m = 3")})
def longest_history_adds_nothing(f):
    return score(f, "m = 5", "m = 3", model=MODELS)


DISTANCES = {**UNTIED, "artifacts": ("table_5",), "controls": ("plain_average_keeps_quality",),
             "regime": apart("Sq. Euclidean")}


@claim(place="Table 5", statement="Squared Euclidean distance answers better than cosine.",
       quantity="squared Euclidean - cosine", bound=above(0, "paper"),
       published=Published(0.083, "Table 5: 72.50 - 64.20", 0.0001), **DISTANCES)
def euclidean_beats_cosine(f):
    return score(f, "Sq. Euclidean", "Cosine", model=MODELS)


@claim(place="Table 5", statement="Squared Euclidean distance answers better than Manhattan.",
       quantity="squared Euclidean - Manhattan", bound=above(0, "paper"),
       published=Published(0.0216, "Table 5: 72.50 - 70.34", 0.0001), **DISTANCES)
def euclidean_beats_manhattan(f):
    return score(f, "Sq. Euclidean", "Manhattan", model=MODELS)


@claim(place="Table 5", statement="Manhattan distance answers better than cosine.",
       quantity="Manhattan - cosine", bound=above(0, "paper"),
       published=Published(0.0614, "Table 5: 70.34 - 64.20", 0.0001), **DISTANCES)
def manhattan_beats_cosine(f):
    return score(f, "Manhattan", "Cosine", model=MODELS)


@claim(place="Table 5", statement="Cosine distance is faster than squared Euclidean.",
       quantity="throughput, cosine over squared Euclidean", bound=FASTER,
       published=Published(1.31, "Table 5: 6.08 / 4.65", 0.003), controls=("cosine_takes_more_forwards",),
       **{**TABLE_5, "quality": at_least(-0.103, "us: two points below the published -8.3")})
def cosine_is_faster(f):
    return speed(f, "Cosine", "Sq. Euclidean", TOKENS, model=MODELS)


@claim(place="Table 5", statement="Manhattan distance is slower than squared Euclidean.",
       quantity="throughput, Manhattan over squared Euclidean", bound=below(1, "paper"),
       published=Published(0.905, "Table 5: 4.21 / 4.65", 0.002), controls=("cosine_takes_more_forwards",), **TABLE_5)
def manhattan_is_slower(f):
    return speed(f, "Manhattan", "Sq. Euclidean", TOKENS, model=MODELS)


@claim(place="Table 4", statement="A history of 3 is on the front of score and speed.",
       quantity="throughput over the fastest other history that scores as well", bound=FASTER,
       controls=("longer_history_takes_fewer_forwards",), **TABLE_4)
def history_of_three_is_on_the_front(f):
    return at_equal_score(f, "m = 3", [f"m = {m}" for m in (1, 2, 4, 5)], TOKENS, model=MODELS)


@claim(place="Abstract, section 5.2", statement="Ada-DLM scores higher than Fast-dLLM on news summaries.",
       quantity="Ada-DLM - Fast-dLLM, CNN/DM", bound=above(0, "paper"), artifacts=("table_1",),
       published=Published(0.0251, "CNN/DM: 21.82 - 19.31", 0.0001), controls=("stories_stay_likely",),
       **{**SCORES, "tasks": "summaries of news", "scales": ("full",), "items": scored(0.025, 0.3)})
def better_on_news(f):
    return score(f, "Ada-DLM", "Fast-dLLM", workload="cnn_dailymail")


# ---- Memory (appendix D, Table 7) ----

MEMORY = {"artifacts": ("table_7",), "scales": ("shapes",), "tasks": "prompts of stated length",
          "items": "one prompt per length: bytes do not depend on it", "preset": "the whole response",
          "regime": no_precondition("bytes follow from the shape")}


@claim(place="Appendix D, Table 7",
       statement="At 16K tokens the history takes 0.0023 % of the memory of the KV cache.", kind="count",
       quantity="bytes of the history over bytes of the KV cache",
       bound=within(2.25e-5, 2.39e-5, "us: 3 %, what the printed 0.19 leaves open"),
       published=Published(2.319e-5, "Table 7, UltraLLaDA: 0.19 / 8192", 6.1e-7,
                           says="0.19 MiB next to 8192 MiB"), **MEMORY)
def state_at_16k(f):
    return within_row(f, "state_bytes", "peak_kv_bytes", label="Ada-DLM", model="ultrallada")


@claim(place="Appendix D", statement="At short prompts the history takes less than 0.02 MiB.",
       kind="signal", quantity="bytes of the history", bound=below(20972, "paper: 0.02 MiB"),
       published=Published(10486, "Table 7, LLaDA and Dream: 0.01 MiB", 5243, says="0.01 MiB"), **MEMORY)
def state_is_small(f):
    return level(f, "state_bytes", label="Ada-DLM", model=("llada-8b", "dream-7b"))


# ---- Pictures (appendix E, Table 8) ----

TABLE_8, READERS = "Appendix E, Table 8", ("tiny-llada-v", "tiny-dimple", "tiny-mmada")
SHOWN = {"model": READERS, "workload": ("picture_read", "picture_read, codes")}
PICTURES = {**SPEEDS, "artifacts": ("table_8",), "scales": ("tiny",),
            "tasks": "digits read from pictures", "regime": no_precondition("the paper states no lengths here")}
PICTURES_IN_FEW = {**PICTURES, "regime": few("Fast-dLLM", READERS)}


@claim(place=TABLE_8, statement="With pictures Ada-DLM has a higher throughput than vanilla decoding.",
       quantity="throughput over vanilla",
       bound=FASTER, published=Published(5.06, "Table 8, averages of three models: 4.42, 5.44, 5.40", 0.005),
       controls=("pictures_are_seen",), **PICTURES)
def faster_than_vanilla_with_pictures(f):
    return speed(f, "Ada-DLM", "Vanilla", TOKENS, **SHOWN)


@claim(place=TABLE_8, statement="With pictures Ada-DLM has a higher throughput than Fast-dLLM.",
       quantity="throughput over Fast-dLLM",
       bound=FASTER, published=Published(1.91, "Table 8, averages of three models: 1.84, 1.99, 1.89 times", 0.005),
       controls=("pictures_are_seen", "forwards_with_pictures"), **PICTURES_IN_FEW)
def faster_than_fast_dllm_with_pictures(f):
    return speed(f, "Ada-DLM", "Fast-dLLM", TOKENS, **SHOWN)


@claim(place=TABLE_8, statement="With pictures Ada-DLM has a higher throughput than dLLM-Cache.",
       quantity="throughput over dLLM-Cache",
       bound=FASTER, published=Published(1.10, "Table 8, averages of three models: 1.09, 1.15, 1.08 times", 0.005),
       controls=("pictures_are_seen",), **PICTURES)
def faster_than_dllm_cache_with_pictures(f):
    return speed(f, "Ada-DLM", "dLLM-Cache", TOKENS, **SHOWN)


@claim(place=TABLE_8, statement="With pictures dLLM-Cache has a higher throughput than Fast-dLLM.",
       quantity="throughput over Fast-dLLM",
       bound=FASTER, published=Published(1.73, "Table 8, averages of three models: 1.70, 1.74, 1.74 times", 0.005),
       controls=("own_loop_over_dllm_cache",), **PICTURES_IN_FEW)
def dllm_cache_beats_fast_dllm_with_pictures(f):
    return speed(f, "dLLM-Cache", "Fast-dLLM", TOKENS, **SHOWN)


@claim(place=TABLE_8, statement="With pictures Ada-DLM answers as well as vanilla decoding.",
       quantity="Ada-DLM - vanilla", bound=KEPT,
       published=Published(-0.0015, "Table 8, mean of nine differences", 0.0001), controls=("pictures_are_seen",),
       **{**PICTURES, "kind": "score", "quality": None, "clock": "none: nothing is timed", "items": scored(0.02, 0.1)})
def keeps_quality_with_pictures(f):
    return score(f, "Ada-DLM", "Vanilla", **SHOWN)


@control(statement="With the picture of another item the score is that of chance, one in 80, and at most five points.",
         quantity="score of vanilla decoding", bound=at_most(0.0625, "us"), **{
             **PICTURES, "kind": "signal", "quality": None, "clock": "none: nothing is timed", "items": "100 of a kind"})
def pictures_are_seen(f):
    return level(f, "score", label="Vanilla", model=READERS, workload=("another picture", "another picture, codes"))


# ---- Controls ----

@control(statement="Fast-dLLM is faster than vanilla decoding.",
         quantity="throughput, Fast-dLLM over vanilla", bound=FASTER, **TABLE_1)
def fast_dllm_over_vanilla(f):
    return speed(f, "Fast-dLLM", "Vanilla", TOKENS, model=MODELS)


@control(statement="Vanilla decoding that stops behind the answer's block is faster than one "
                   "that does not.", quantity="throughput, early stop over none", bound=FASTER, **TABLE_1)
def vanilla_with_early_stop(f):
    return speed(f, "Vanilla, early stop", "Vanilla", TOKENS, model=MODELS)


@control(statement="A threshold that writes text as likely (0.5) is faster than the one of 0.9.",
         quantity="throughput, threshold 0.5 over 0.9", bound=FASTER, **TABLE_5)
def threshold_of_equal_text(f):
    return speed(f, "threshold 0.5", "threshold 0.9", TOKENS, model=MODELS)


@control(statement="A threshold of 0.7 is faster than one of 0.9.", bound=FASTER,
         quantity="throughput, threshold 0.7 over 0.9", **TABLE_5)
def threshold_0_7(f):
    return speed(f, "threshold 0.7", "threshold 0.9", TOKENS, model=MODELS)


@control(statement="Ada-DLM is faster than the fastest threshold that scores as well.",
         quantity="throughput at equal score over thresholds of 0.6 to 0.95", bound=FASTER,
         artifacts=("table_5",), **ABLATION)
def beats_a_threshold_of_equal_score(f):
    return at_equal_score(f, "Sq. Euclidean", [f"threshold {t}" for t in (0.6, 0.7, 0.8, 0.9, 0.95)], TOKENS,
                          model=MODELS)


@control(statement="On stories Ada-DLM is faster than the fastest threshold whose text is as likely.",
         quantity="throughput at equal text over thresholds of 0.5 to 0.95", bound=FASTER, artifacts=("table_5",), **ABLATION)
def beats_a_threshold_of_equal_text(f):
    return at_equal_score(f, "Sq. Euclidean", [f"threshold {t}" for t in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)], TOKENS,
                          workload="story", model=MODELS)


@control(statement="A threshold of 0.9 on the same cache writes stories as likely as those of vanilla decoding.",
         quantity="likelihood per token, threshold 0.9 - vanilla", bound=KEPT, artifacts=("table_5",),
         **{**SCORES, "scales": ("scores",), "tasks": "stories, judged by a causal model", "items": scored(0.05, 0.5)})
def threshold_keeps_stories(f):
    return score(f, "threshold 0.9", "Vanilla", workload="story", model=MODELS)


@control(statement="Ada-DLM writes stories as likely as those of Fast-dLLM.",
         quantity="likelihood per token, Ada-DLM - Fast-dLLM", bound=KEPT, artifacts=("table_1",),
         **{**SCORES, "scales": ("scores",), "tasks": "stories, judged by a causal model", "items": scored(0.05, 0.5)})
def stories_stay_likely(f):
    return score(f, "Ada-DLM", "Fast-dLLM", workload="story", model=MODELS)


ANSWERS = ("word_problem", "list_program", "retrieval_64", "retrieval_128", "summary")


@control(statement="Between 15 % and 20 % of the active steps are in the stagnation zone, without stories.",
         quantity="share of active tokens, all tasks but stories", bound=within(0.15, 0.2, "us"),
         artifacts=("figure_1",), **SIGNAL)
def stagnation_without_stories(f):
    return level(f, "probes.stagnation.share", label="Fast-dLLM", model=MODELS, workload=ANSWERS)


@control(statement="A static threshold misses at least 43.75 % of the stable tokens of some "
                   "sample, without stories.", quantity="share of the stable tokens of a sample, the largest",
         bound=at_least(0.4375, "us"), artifacts=("figure_2",), each_because="\"up to\"", **SIGNAL)
def missed_stable_without_stories(f):
    return largest(level(f, "probes.stagnation.missed_stable.sample_max", label="Fast-dLLM", model=MODELS,
                         workload=ANSWERS))


@control(statement="At least 1 % of the tokens are unmasked more than 0.05 below an earlier peak, without stories.",
         quantity="share of unmasked tokens below an earlier peak", bound=at_least(0.01, "us"),
         artifacts=("figure_1",), **SIGNAL)
def decline_without_stories(f):
    return level(f, "probes.stagnation.decline.share", label="Fast-dLLM", model=MODELS, workload=ANSWERS)


FORWARDS = {"kind": "count", "quantity": "forward passes", "scales": ("tiny",), "items": "every item",
            "tasks": "every task of the file", "clock": "none: forward passes are counted",
            "regime": no_precondition("forward passes are counted on any task")}


@control(statement="The cache alone takes as many forward passes as vanilla decoding, within a quarter.",
         bound=within(0.8, 1.25, "us"), artifacts=("table_1",), **FORWARDS)
def cache_forwards(f):
    return ratio(f, "nfe", "dKV-Cache", "Vanilla", model=MODELS)


@control(statement="Ada-DLM takes more forward passes than Fast-dLLM on long prompts.",
         bound=above(1, "us"), artifacts=("table_2",), **FORWARDS)
def more_forwards_on_long_prompts(f):
    return ratio(f, "nfe", "Ada-DLM", "Fast-dLLM")


@control(statement="A larger K takes fewer forward passes.", bound=below(1, "us"), artifacts=("table_3",), **FORWARDS)
def larger_k_takes_fewer_forwards(f):
    return ratio(f, "nfe", "K = 25 %", "K = 5 %", model=MODELS)


@control(statement="A history of 5 takes fewer forward passes than one of 1.", bound=below(1, "us"),
         artifacts=("table_4",), **FORWARDS)
def longer_history_takes_fewer_forwards(f):
    return ratio(f, "nfe", "m = 5", "m = 1", model=MODELS)


@control(statement="A history of 3 takes fewer forward passes than one of 1.", bound=below(1, "us"),
         artifacts=("table_4",), **FORWARDS)
def history_of_three_takes_fewer_forwards(f):
    return ratio(f, "nfe", "m = 3", "m = 1", model=MODELS)


@control(statement="Cosine distance takes more forward passes than squared Euclidean.",
         bound=above(1, "us"), artifacts=("table_5",), **FORWARDS)
def cosine_takes_more_forwards(f):
    return ratio(f, "nfe", "Cosine", "Sq. Euclidean", model=MODELS)


@control(statement="On tasks with an answer active tokens fall more steeply, too.", kind="count",
         quantity="area under the active tokens by step, Ada-DLM over Fast-dLLM",
         bound=below(1, "us"), artifacts=("figure_4",), scales=("tiny",),
         items="6 to 8 requests per task", preset="block32",
         regime=no_precondition("it asks the tasks out of the regime"), tasks="tasks with an answer")
def active_area_on_answers(f):
    return active_area(f, model=MODELS, workload=ANSWERS)


@control(statement="The threshold on the same cache (Fast-dLLM) answers as well as vanilla decoding.",
         quantity="Fast-dLLM - vanilla", bound=KEPT, artifacts=("table_1",), **{**SCORES, "scales": ("scores", "full")})
def threshold_keeps_quality(f):
    return score(f, "Fast-dLLM", "Vanilla", model=MODELS)


@control(statement="On long prompts the threshold answers as well as vanilla decoding.",
         quantity="Fast-dLLM - vanilla", bound=KEPT, artifacts=("table_2",), **SCORES)
def threshold_keeps_quality_on_long_prompts(f):
    return score(f, "Fast-dLLM", "Vanilla")


@control(statement="The last confidence alone answers as well as vanilla decoding.",
         quantity="m = 1 - vanilla", bound=KEPT, artifacts=("table_4",), **SCORES)
def last_confidence_keeps_quality(f):
    return score(f, "m = 1", "Vanilla", model=MODELS)


@control(statement="The plain average of the history answers as well as vanilla decoding.",
         quantity="plain average - vanilla", bound=KEPT, artifacts=("table_5",), **SCORES)
def plain_average_keeps_quality(f):
    return score(f, "moving average", "Vanilla", model=MODELS)


@control(statement="The two centroids answer better than the plain average of the same history.",
         quantity="squared Euclidean - plain average", bound=above(0, "us"), artifacts=("table_5",), **SCORES)
def history_beats_the_plain_average(f):
    return score(f, "Sq. Euclidean", "moving average", model=MODELS)


@control(statement="Leaving frozen positions out is faster than leaving them out of the feed-forward only.",
         quantity="throughput, leaving positions out over leaving out the feed-forward", bound=FASTER, artifacts=("table_5",),
         **ABLATION)
def pruning_rows_beats_pruning_the_feed_forward(f):
    return speed(f, "Sq. Euclidean", "feed-forward only", TOKENS, model=MODELS)


@control(statement="Ada-DLM is faster than Fast-dLLM if logits are divided by 3.", quantity="throughput over Fast-dLLM", bound=FASTER,
         artifacts=("table_1",), **{**ABLATION, "scales": ("tiny",)})
def faster_where_the_threshold_is_slow(f):
    return speed(f, "Ada-DLM", "Fast-dLLM", TOKENS, model="tiny-llada, logits / 3")


@control(statement="Ada-DLM takes fewer forward passes than Fast-dLLM if logits are divided by 2.",
         bound=below(1, "us"), artifacts=("table_1",), **FORWARDS)
def fewer_forwards_on_softened_models(f):
    return ratio(f, "nfe", "Ada-DLM", "Fast-dLLM", model="tiny-llada, logits / 2")


# ---- The other reading: traces of the ranks (section 4.2.2) ----
# Algorithm 1 takes the histories of the tokens that are at ranks 1 and K + 1 now; section 4.2.2 expands the centroids
# "by tracking their respective history traces", which are the confidences of those ranks at each step. Stories alone
# meet the precondition, so that their likelihood is the score.

TRACES = "traces of the ranks (section 4.2.2)"
TRACED = {**SPEEDS, "reading": TRACES, "tasks": "stories, judged by a causal model", "scales": ("tiny",)}
WRITTEN = {**SCORES, "reading": TRACES, "tasks": "stories, judged by a causal model", "scales": ("scores",),
           "items": scored(0.05, 0.5)}
STORIES = {"workload": "story", "model": MODELS}
TRACED_FORWARDS = {**FORWARDS, "reading": TRACES, "tasks": "stories"}


@claim(place="Table 4", statement="A longer history is slower.",
       quantity="throughput, m = 5 over m = 1", bound=below(1, "paper"),
       published=Published(0.78, "Table 4: 3.96 / 5.09", 0.002), artifacts=("table_4",),
       controls=("longer_history_takes_more_forwards_by_traces",), **{**TRACED, "regime": apart("m = 5, traces")})
def longer_history_is_slower_by_traces(f):
    return speed(f, "m = 5, traces", "m = 1", TOKENS, **STORIES)


@claim(place="Table 4", statement="A history of 3 answers better than the last confidence alone.",
       quantity="likelihood per token, m = 3 - m = 1", bound=above(0, "paper"),
       published=Published(0.0070, "Table 4: 72.50 - 71.80", 0.0001), artifacts=("table_4",),
       controls=("longer_history_takes_more_forwards_by_traces",), **{**WRITTEN, "regime": apart("m = 3, traces")})
def history_helps_by_traces(f):
    return score(f, "m = 3, traces", "m = 1", **STORIES)


@claim(place="Table 4", statement="The gain of a longer history diminishes.",
       quantity="likelihood per token, (m = 5 - m = 3) - (m = 3 - m = 1)",
       bound=below(0, "paper"), artifacts=("table_4",),
       published=Published(-0.0054, "Table 4, m = 1, 3, 5: 71.80, 72.50, 72.66", 0.0002),
       each_because="two gains of one reading are held against each other",
       controls=("longer_history_takes_more_forwards_by_traces",), **{**WRITTEN, "regime": apart("m = 3, traces")})
def history_has_diminishing_returns_by_traces(f):
    late, early = (score(f, *sides, **STORIES)
                   for sides in (("m = 5, traces", "m = 3, traces"), ("m = 3, traces", "m = 1")))
    a, b = late.estimate, early.estimate
    value = a.value - b.value
    half = ((a.high - a.low) ** 2 + (b.high - b.low) ** 2) ** 0.5 / 2
    return Finding("gain from 3 to 5 - gain from 1 to 3",
                   Estimate(value, value - half, value + half, min(a.n, b.n), a.unit, a.how),
                   late.points + early.points, texts=score(f, "m = 5, traces", "m = 1", **STORIES).texts)


@claim(place="Table 3", statement="A larger K is faster.", quantity="throughput, K = 25 % over K = 5 %", bound=FASTER,
       published=Published(1.36, "Table 3: 5.21 / 3.82", 0.003), artifacts=("table_3",),
       controls=("larger_k_takes_fewer_forwards_by_traces",), **{**TRACED, "regime": apart("K = 25 %, traces"),
          "quality": at_least(-0.0325, "us: two points below the published -1.25")})
def larger_k_is_faster_by_traces(f):
    return speed(f, "K = 25 %, traces", "K = 5 %, traces", TOKENS, **STORIES)


@claim(place="Table 3", statement="A larger K answers worse.",
       quantity="likelihood per token, K = 25 % - K = 5 %", bound=below(0, "paper"),
       published=Published(-0.0125, "Table 3: 71.55 - 72.80", 0.0001), artifacts=("table_3",),
       controls=("larger_k_takes_fewer_forwards_by_traces",), **{**WRITTEN, "regime": apart("K = 25 %, traces")})
def larger_k_is_worse_by_traces(f):
    return score(f, "K = 25 %, traces", "K = 5 %, traces", **STORIES)


@claim(place="Table 5", statement="Squared Euclidean distance answers better than cosine.",
       quantity="likelihood per token, squared Euclidean - cosine", bound=above(0, "paper"),
       published=Published(0.083, "Table 5: 72.50 - 64.20", 0.0001), artifacts=("table_5",),
       **{**WRITTEN, "regime": apart("Sq. Euclidean, traces")})
def euclidean_beats_cosine_by_traces(f):
    return score(f, "Sq. Euclidean, traces", "Cosine, traces", **STORIES)


@claim(place="Table 5", statement="Cosine distance is faster than squared Euclidean.",
       quantity="throughput, cosine over squared Euclidean", bound=FASTER,
       published=Published(1.31, "Table 5: 6.08 / 4.65", 0.003), artifacts=("table_5",),
       controls=("cosine_takes_fewer_forwards_by_traces",), **{**TRACED, "regime": apart("Sq. Euclidean, traces"),
          "quality": at_least(-0.103, "us: two points below the published -8.3")})
def cosine_is_faster_by_traces(f):
    return speed(f, "Cosine, traces", "Sq. Euclidean, traces", TOKENS, **STORIES)


@claim(place="Table 5", statement="Manhattan distance is slower than squared Euclidean.",
       quantity="throughput, Manhattan over squared Euclidean", bound=below(1, "paper"),
       published=Published(0.905, "Table 5: 4.21 / 4.65", 0.002), artifacts=("table_5",),
       controls=("manhattan_takes_more_forwards_by_traces",), **{**TRACED, "regime": apart("Sq. Euclidean, traces")})
def manhattan_is_slower_by_traces(f):
    return speed(f, "Manhattan, traces", "Sq. Euclidean, traces", TOKENS, **STORIES)


@claim(place="Section 5.2, Table 1", statement="Ada-DLM answers as well as vanilla decoding.",
       quantity="likelihood per token, Ada-DLM (squared Euclidean distance of Table 5) - vanilla",
       bound=KEPT, artifacts=("table_5",),
       published=Published(-0.0010, "Table 1, LLaDA-8B, GSM8K: 72.50 - 72.60", 0.0001),
       controls=("threshold_keeps_stories",), **{**WRITTEN, "regime": apart("Sq. Euclidean, traces")})
def keeps_quality_by_traces(f):
    return score(f, "Sq. Euclidean, traces", "Vanilla", **STORIES)


@claim(place="Section 5.2, Table 1", statement="Ada-DLM has a higher throughput than Fast-dLLM on the same cache.",
       quantity="throughput over Fast-dLLM", bound=FASTER, artifacts=("table_1",),
       published=Published(1.72, "Table 1, LLaDA-8B, means: 4.65 / 2.71", 0.005, says="about twice as fast"),
       controls=("faster_than_a_threshold_of_equal_text_by_traces",),
       **{**TRACED, "regime": apart("Ada-DLM, traces")})
def faster_than_fast_dllm_by_traces(f):
    return speed(f, "Ada-DLM, traces", "Fast-dLLM", TOKENS, **STORIES)


@control(statement="Ada-DLM over the whole response is faster than the fastest threshold that writes text as likely.",
         quantity="throughput at equal text over thresholds of 0.6 to 0.95", bound=FASTER, artifacts=("table_5",),
         **{**TRACED, "preset": "the whole response", "regime": apart("whole canvas, traces, m = 5")})
def faster_than_a_threshold_of_equal_text_by_traces(f):
    return at_equal_score(f, "whole canvas, traces, m = 5",
                          [f"threshold {t}" for t in (0.6, 0.7, 0.8, 0.9, 0.95)], TOKENS, **STORIES)


@control(statement="A history of 5 takes more forward passes than one of 1.", bound=above(1, "us"),
         artifacts=("table_4",), **TRACED_FORWARDS)
def longer_history_takes_more_forwards_by_traces(f):
    return ratio(f, "nfe", "m = 5, traces", "m = 1", **STORIES)


@control(statement="A larger K takes fewer forward passes.", bound=below(1, "us"), artifacts=("table_3",),
         **TRACED_FORWARDS)
def larger_k_takes_fewer_forwards_by_traces(f):
    return ratio(f, "nfe", "K = 25 %, traces", "K = 5 %, traces", **STORIES)


@control(statement="Cosine distance takes fewer forward passes than squared Euclidean.", bound=below(1, "us"),
         artifacts=("table_5",), **TRACED_FORWARDS)
def cosine_takes_fewer_forwards_by_traces(f):
    return ratio(f, "nfe", "Cosine, traces", "Sq. Euclidean, traces", **STORIES)


@control(statement="Manhattan distance takes more forward passes than squared Euclidean.", bound=above(1, "us"),
         artifacts=("table_5",), **TRACED_FORWARDS)
def manhattan_takes_more_forwards_by_traces(f):
    return ratio(f, "nfe", "Manhattan, traces", "Sq. Euclidean, traces", **STORIES)


@control(statement="With pictures Ada-DLM takes fewer forward passes than Fast-dLLM.", bound=below(1, "us"),
         artifacts=("table_8",), **FORWARDS)
def forwards_with_pictures(f):
    return ratio(f, "nfe", "Ada-DLM", "Fast-dLLM", **SHOWN)


@control(statement="LLaDA-V's own loop of Fast-dLLM takes fewer forward passes than dLLM-Cache.", bound=below(1, "us"),
         artifacts=("table_8",), **FORWARDS)
def own_loop_over_dllm_cache(f):
    return ratio(f, "nfe", "LLaDA-V's loop", "dLLM-Cache", model=READERS[0], workload="picture_read")
