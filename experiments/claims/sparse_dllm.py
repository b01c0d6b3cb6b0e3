# SPDX-License-Identifier: Apache-2.0
"""What Sparse-dLLM (arXiv 2508.02558) claims, and the controls beside it.

The paper asks with four and five examples: prompts of 600 tokens and more. Half of the keys of a prompt
of 70 tokens are not half of such a prompt, so quality and speed are judged on prompts of at least 250."""

from unmask.claims import (NeedsRows, Published, above, at_least, at_most, below, claim, control,
                           falling, fastest_rival, growth, level, no_precondition, presumes_a_gpu,
                           presumes_of_tasks, ratio, repeated, score, scored, smallest, speed, within, within_row)
from unmask.claims.relation import Finding
from unmask.rows.intervals import Estimate

CANVAS = "canvas_tokens_per_second"
KEPT = at_least(-0.02, "us: two points, for \"comparable performance\"")
FASTER = above(1, "paper: higher throughput")
CONSISTENT = "the paper: \"consistently achieves the highest throughput\""
LONG = presumes_of_tasks("prompts have at least 250 tokens, as those with examples in the paper",
                         "prompt_tokens_mean", at_least(250, "us: the paper asks with 4 and 5 examples"))
LONGEST = presumes_of_tasks("prompts have at least 900 tokens, as those of LongBench",
                            "prompt_tokens_mean", at_least(900, "us: LongBench starts at 1.2K"))
SHORT = no_precondition("it says what prompts of every length give")
GPU = presumes_a_gpu("the machine is a GPU, where the one more full forward pass per block costs about ten partial "
                     "ones; on a CPU it costs about thirty")
PICTURE = {"approximate": True, "rounding": 0.01}

SPEEDS = {"kind": "speed", "quality": KEPT, "regime": LONG, "scales": ("tiny", "full"),
          "clock": "response tokens per second, prefill included", "tasks": "tasks with prompts of 250 tokens "
          "and more", "items": repeated(0.05, 0.03), "preset": "one token per step, as published"}
TABLE_1 = {**SPEEDS, "artifacts": ("table_1",), "scales": ("tiny", "shapes", "full")}
TABLE_2 = {**SPEEDS, "artifacts": ("table_2",)}
FIGURE_5 = {**SPEEDS, "artifacts": ("figure_5",), "scales": ("tiny", "shapes", "full"),
            "tasks": "prompts without meaning, of stated length"}
SCORES = {"kind": "score", "regime": LONG, "scales": ("tiny", "full"), "items": scored(0.02, 0.035),
          "tasks": "mean of the tasks with prompts of 250 tokens and more",
          "preset": "r = 0.5, window 3, one step of delay"}
MORE_ITEMS = {"scales": ("scores", "full"), "items": "104 per task here"}
# The tasks of Table 1; its embedded ones are timed and few, so those of Table 6's file, with as long prompts,
# stand for them.
TASKS = ("mmlu", "arc_c", "piqa", "gpqa", "gsm8k", "humaneval", "math",
         *(f"{task}_{length}" for task in ("needles", "lookups") for length in ("256", "512", "1K", "2K")))
TABLE_1_SCORES = {**SCORES, "artifacts": ("table_1", "table_6")}
TABLE_7 = {**SCORES, **MORE_ITEMS, "artifacts": ("table_7",), "items": "268 here"}
TABLE_7_SHORT = {**TABLE_7, "scales": ("tiny", "full"), "items": SCORES["items"],
                 "regime": SHORT}
MEMORY = {"kind": "count", "quantity": "bytes of stored KV, largest", "scales": ("tiny", "full"),
          "clock": "none: slots are counted, in pages of 64", "items": "every item", "regime": LONG,
          "tasks": "tasks with prompts of 250 tokens and more"}


# ---- Speed (main results, Tables 1 and 2) ----

@claim(place="Main results, Table 1", statement="Sparse-dLLM is faster than vanilla decoding.",
       finding="vanilla decoding", quantity="throughput over vanilla", bound=FASTER,
       published=Published(5.8, "main results, LLaDA-8B-Instruct, GSM8K", 0.05),
       rivals=("its_cache_beats_vanilla", "vanilla_with_early_stop"), **TABLE_1)
def faster_than_vanilla(f):
    return speed(f, "Sparse-dLLM", "Vanilla", CANVAS)


@claim(decides=True, place="Main results, Table 1",
       statement="Sparse-dLLM is faster than Fast-dLLM on every task.",
       quantity="throughput over Fast-dLLM, the slowest task", bound=FASTER,
       published=Published(1.38, "Table 1, LLaDA-8B-Instruct, GSM8K: 26.45 / 19.11", **PICTURE),
       each_because=CONSISTENT,
       controls=("faster_than_fast_dllm_on_a_cpu", "fewer_keys_than_its_cache"),
       **{**TABLE_1, "regime": GPU})
def faster_than_fast_dllm(f):
    return smallest(speed(f, "Sparse-dLLM", "Fast-dLLM", CANVAS))


@claim(place="Main results, Table 1",
       statement="Sparse-dLLM is faster than dLLM-Cache on every task.",
       quantity="throughput over dLLM-Cache, the slowest task", bound=FASTER,
       published=Published(1.47, "Table 1, LLaDA-8B-Instruct, GSM8K: 26.45 / 18.03", **PICTURE),
       each_because=CONSISTENT, rivals=("its_cache_beats_dllm_cache",), **TABLE_1)
def faster_than_dllm_cache(f):
    return smallest(speed(f, "Sparse-dLLM", "dLLM-Cache", CANVAS))


@claim(place="Main results, Table 1",
       statement="Sparse-dLLM is faster than dKV-Cache on every task.",
       quantity="throughput over dKV-Cache, the slowest task", bound=FASTER,
       published=Published(2.98, "Table 1, LLaDA-8B-Instruct, GSM8K: 26.45 / 8.89", **PICTURE),
       each_because=CONSISTENT, rivals=("its_cache_beats_dkv_cache",), **TABLE_1)
def faster_than_dkv_cache(f):
    return smallest(speed(f, "Sparse-dLLM", "dKV-Cache", CANVAS))


@claim(place="Main results, Table 2",
       statement="Sparse-dLLM has a higher throughput than vanilla decoding on Dream.",
       quantity="throughput over vanilla", bound=FASTER,
       published=Published(2.1, "Table 2, the smallest of 2.1 to 5.2", 0.05, says="2.1 to 5.2 times as fast"),
       rivals=("dream_cache_beats_vanilla",), **TABLE_2)
def dream_is_faster(f):
    return speed(f, "Sparse-dLLM", "Vanilla", CANVAS)


@claim(place="Main results, Table 2",
       statement="On Dream Sparse-dLLM is faster than dLLM-Cache and dKV-Cache.",
       quantity="throughput over the faster of both", bound=FASTER,
       controls=("dream_cache_beats_vanilla",), **TABLE_2)
def dream_beats_the_other_caches(f):
    return fastest_rival(f, "Sparse-dLLM", ("dLLM-Cache", "dKV-Cache"), CANVAS)


# ---- Quality (main results) ----

@claim(place="Abstract, main results, Table 1", statement="Sparse-dLLM answers as well as vanilla decoding.",
       quantity="Sparse-dLLM - vanilla", bound=KEPT,
       published=Published(0.0062, "Table 1, LLaDA-8B-Instruct, mean: 59.86 - 59.24", 0.0001),
       controls=("random_keys_keep_quality", "cache_keeps_quality"), **TABLE_1_SCORES)
def keeps_quality(f):
    return score(f, "Sparse-dLLM", "Vanilla", workload=TASKS)


@claim(decides=True, place="Main results, Table 1",
       statement="Sparse-dLLM answers as well as the same cache without eviction (Fast-dLLM).",
       quantity="Sparse-dLLM - Fast-dLLM", bound=KEPT,
       published=Published(0.0099, "Table 1, LLaDA-8B-Instruct, mean: 59.86 - 58.87", 0.0001),
       controls=("cache_keeps_quality",), **TABLE_1_SCORES)
def keeps_quality_of_its_cache(f):
    return score(f, "Sparse-dLLM", "Fast-dLLM", workload=TASKS)


@claim(place="Main results, Table 2",
       statement="On Dream Sparse-dLLM answers as well as vanilla decoding.",
       quantity="Sparse-dLLM - vanilla", bound=KEPT, artifacts=("table_2",),
       controls=("dream_cache_keeps_quality",),
       note="The embedded Dream model is made of the embedded LLaDA model: no second witness.",
       **{**SCORES, **MORE_ITEMS})
def dream_keeps_quality(f):
    return score(f, "Sparse-dLLM", "Vanilla")


@claim(place="Table 2", statement="Sparse-dLLM scores lower than vanilla decoding on programs with Dream.",
       quantity="Sparse-dLLM - vanilla, programs", bound=below(0, "paper: 53.05 -> 45.12"),
       published=Published(-0.0793, "Table 2, HumanEval: 45.12 - 53.05", 0.0001),
       artifacts=("table_2",), controls=("dream_cache_keeps_programs",),
       **{**SCORES, "regime": no_precondition("HumanEval is asked without examples"),
          "tasks": "six list programs on short prompts here, which the other scores of this file leave out; HumanEval at full",
          "items": scored(0.08, 0.2)})
def dream_loses_programs(f):
    return score(f, "Sparse-dLLM", "Vanilla", workload=("list_program", "humaneval"))


@claim(place="Long context, Table 6",
       statement="Sparse-dLLM answers as well as vanilla decoding on long prompts.",
       quantity="Sparse-dLLM - vanilla", bound=KEPT, artifacts=("table_6",),
       published=Published(-0.0009, "Table 6, LLaDA-8B-Instruct: 34.46 - 34.55", 0.0001),
       controls=("long_cache_keeps_quality",), **{**SCORES, "regime": LONGEST})
def long_context_is_kept(f):
    return score(f, "Sparse-dLLM", "Vanilla")


# ---- Memory (abstract, Tables 1 and 2, Fig. 5) ----

@claim(place="Abstract", statement="Sparse-dLLM needs at most 3 % more memory than vanilla decoding.",
       bound=at_most(1.03, "paper: within 0.5 GB of 15.2 to 16.2"), artifacts=("table_1",),
       **{**MEMORY, "quantity": "memory of the process at the 8B shape, over vanilla",
          "regime": no_precondition("the paper measures the process"), "scales": ("shapes",
          "full")})
def memory_of_vanilla(f):
    return ratio(f, "process_bytes", "Sparse-dLLM", "Vanilla")


@claim(place="Main results, Table 1", statement="Sparse-dLLM stores fewer bytes of KV than Fast-dLLM.",
       bound=below(1, "paper: 16.60 against 19.48 GB of the process"), artifacts=("table_1",),
       controls=("fewer_keys_than_its_cache",), **MEMORY)
def less_memory(f):
    return ratio(f, "peak_kv_bytes", "Sparse-dLLM", "Fast-dLLM")


@claim(place="Main results, Table 2",
       statement="Sparse-dLLM stores fewer bytes of KV than Fast-dLLM on Dream.", bound=below(1, "paper"),
       artifacts=("table_2",), controls=("fewer_keys_than_its_cache",), **MEMORY)
def dream_less_memory(f):
    return ratio(f, "peak_kv_bytes", "Sparse-dLLM", "Fast-dLLM")


@claim(decides=True, place="Long-context efficiency, Fig. 5",
       statement="Sparse-dLLM stores fewer bytes of KV than Fast-dLLM on long prompts.",
       bound=below(1, "paper"), artifacts=("figure_5",),
       published=Published(0.72, "Fig. 5, LLaDA at 4K: 19.4 of 27.0 GB of the process", 0.01, True),
       controls=("fewer_keys_than_its_cache",), **MEMORY)
def less_memory_on_long_prompts(f):
    return ratio(f, "peak_kv_bytes", "Sparse-dLLM", "Fast-dLLM")


@claim(place="Long-context efficiency, Fig. 5",
       statement="The KV cache of Sparse-dLLM grows less with the prompt than that of Fast-dLLM.",
       bound=below(1, "paper"), artifacts=("figure_5",), controls=("fewer_keys_than_its_cache",),
       **{**MEMORY, "quantity": "KV, Sparse-dLLM over Fast-dLLM: at 8K tokens over at 0.5K",
          "scales": ("tiny", )})
def memory_grows_less(f):
    return growth(f, "peak_kv_bytes", "Sparse-dLLM", "Fast-dLLM", "workload", "0.5K", "8K")


@claim(place="Ablations, Fig. 6", statement="The KV cache grows linearly, within a quarter, with "
                                            "the share of keys kept.",
       bound=within(0.8, 1.25, "us: a quarter either way"), artifacts=("table_7",),
       controls=("fewer_keys_than_its_cache",),
       **{**MEMORY, "scales": ("full",), "quantity": "growth of the KV cache from r = 0.5 to 0.9 over that from 0.1 to 0.5",
          "regime": presumes_of_tasks("a page of KV is at most an eighth of what two fifths of the prompt take",
                                      "prompt_tokens_mean", at_least(1280, "us: 64 / (0.4 / 8)"))})
def memory_is_linear(f):
    at = [level(f, "peak_kv_bytes", retention_ratio=r, kernel_size=3).estimate for r in (0.1, 0.5, 0.9)]
    if at[1].value == at[0].value:
        raise NeedsRows("K/V counted in slots: pages of 64 hide the growth")
    value = (at[2].value - at[1].value) / (at[1].value - at[0].value)
    return Finding("growth of K/V, upper over lower half",
                   Estimate(value, value, value, at[0].n, "items", "counted"))


# ---- Long prompts (Fig. 5) ----

@claim(decides=True, place="Abstract, long-context efficiency, Fig. 5",
       statement="Sparse-dLLM has a higher throughput than vanilla decoding at 4K tokens.",
       quantity="throughput over vanilla at 4K (3.5K here)", bound=FASTER,
       published=Published(10, "abstract, \"up to\"; Fig. 5: 9.7 and 10.1", 0.5,
                           says="up to ten times as fast"),
       rivals=("its_cache_beats_vanilla_at_4k",), **FIGURE_5)
def ten_times_at_4k(f):
    return speed(f, "Sparse-dLLM", "Vanilla", CANVAS, workload=("3.5K", "4K"))


@claim(place="Long-context efficiency, Fig. 5",
       statement="The speedup over vanilla decoding is larger with longer prompts.",
       quantity="speedup at 2K tokens over that at 0.5K", bound=above(1, "paper: 1.7 -> 10"),
       published=Published(5.9, "10 at 4K; Table 1: 1.7 on its shortest prompts, ARC-C and PIQA", 0.5),
       rivals=("gain_of_its_cache_grows",),
       **{**FIGURE_5, "scales": ("tiny",)})
def speedup_grows_with_the_prompt(f):
    return growth(f, CANVAS, "Sparse-dLLM", "Vanilla", "workload", "0.5K", "2K")


@claim(decides=True, place="Long-context efficiency, Fig. 5",
       statement="On long prompts Sparse-dLLM is faster than Fast-dLLM.",
       quantity="throughput over Fast-dLLM", bound=FASTER,
       published=Published(1.29, "Fig. 5, LLaDA at 4K: 15.5 / 12.0", **PICTURE),
       controls=("faster_than_fast_dllm_on_long_prompts_on_a_cpu",), **{**FIGURE_5, "regime": GPU})
def faster_than_fast_dllm_on_long_prompts(f):
    return speed(f, "Sparse-dLLM", "Fast-dLLM", CANVAS)


# ---- Ablations (Tables 3, 4, 7 and 8, Fig. 6) ----

TABLE_3 = {**SPEEDS, "artifacts": ("table_3",), "scales": ("tiny", "shapes", "full")}


@claim(place="Ablations, Table 3", statement="A delay of 5 steps is slower than none.",
       quantity="throughput, delay 5 over delay 0", bound=below(1, "paper"),
       published=Published(0.916, "Table 3: 33.78 / 36.89", 0.001),
       controls=("delay_reads_more_keys",), **TABLE_3)
def delay_costs_speed(f):
    return speed(f, "delay 5", "delay 0", CANVAS)


@claim(place="Ablations, Table 3", statement="The longer the delay, the slower.",
       quantity="throughput of each delay over the one before, the largest",
       bound=below(1, "paper: monotone"), each_because="a monotone fall has no rise",
       controls=("delay_reads_more_keys",), **TABLE_3)
def speed_falls_with_the_delay(f):
    return falling(f, CANVAS, [f"delay {n}" for n in range(6)])


@claim(place="Ablations, Table 3", statement="One step of delay costs at most 5 % of the speed.",
       quantity="throughput, delay 1 over delay 0",
       bound=at_least(0.95, "us: 5 %, for \"near-maximum throughput\""),
       published=Published(0.999, "Table 3: 36.85 / 36.89", 0.001),
       controls=("one_step_of_delay_on_a_cpu",), **{**TABLE_3, "regime": GPU})
def one_step_of_delay_is_cheap(f):
    return speed(f, "delay 1", "delay 0", CANVAS)


DELAY = {**SCORES, **MORE_ITEMS, "artifacts": ("table_3",), "controls": ("delay_reads_more_keys",)}


@claim(place="Ablations, Table 3", statement="One step of delay answers better than none.",
       quantity="delay 1 - delay 0", bound=above(0, "paper"),
       published=Published(0.0237, "Table 3: 88.47 - 86.1", 0.0005), **DELAY)
def delay_helps_quality(f):
    return score(f, "delay 1", "delay 0")


@claim(place="Table 3", statement="Two steps of delay answer worse than one.",
       quantity="delay 2 - delay 1", bound=below(0, "paper"),
       published=Published(-0.0101, "Table 3: 87.46 - 88.47", 0.0001), **DELAY)
def two_steps_are_worse(f):
    return score(f, "delay 2", "delay 1")


@claim(place="Table 3", statement="Three steps of delay answer better than one.",
       quantity="delay 3 - delay 1",
       bound=above(0, "paper"),
       published=Published(0.0102, "Table 3: 89.49 - 88.47", 0.0001, says="the best of all delays"),
       **DELAY)
def three_steps_are_best(f):
    return score(f, "delay 3", "delay 1")


@claim(place="Ablations, Table 4",
       statement="Evicting from both sides answers better than from the prefix only.",
       quantity="both sides - prefix", bound=above(0, "paper: \"more effective\""),
       published=Published(0.0142, "Table 4, LLaDA-8B-Instruct, mean: 66.82 - 65.40", 0.0001),
       artifacts=("table_4",), controls=("both_sides_on_short_prompts",), **{**SCORES, "scales": ("full",)})
def both_sides(f):
    return score(f, "Sparse-dLLM", "prefix-sparse")


def settings(r, k):
    return {"retention_ratio": r, "kernel_size": k}


@claim(place="Table 7",
       statement="Keeping a tenth of the keys with a window of 9 scores lower than half with 3.",
       quantity="r 0.1, window 9 - r 0.5, window 3", bound=below(0, "paper"),
       published=Published(-0.4208, "Table 7: 35.48 - 77.56", 0.0001),
       controls=("half_on_short_prompts",), **TABLE_7)
def collapse_at_small_ratio(f):
    return score(f, settings(0.1, 9), settings(0.5, 3))


@claim(decides=True, place="Ablations, Fig. 6, Table 7", statement="Keeping half of the keys answers as well as "
                                                     "keeping nine tenths.",
       quantity="r 0.5 - r 0.9, window 3", bound=KEPT,
       published=Published(0.0, "Table 7: 77.56 - 77.56", 0.0001),
       controls=("half_on_short_prompts",), **TABLE_7)
def half_is_enough(f):
    return score(f, settings(0.5, 3), settings(0.9, 3))


@claim(place="Ablations, Fig. 6, Table 7", statement="Keeping half of the keys scores higher than "
                                                     "keeping a tenth.",
       quantity="r 0.5 - r 0.1, window 3", bound=above(0, "paper"),
       published=Published(0.1054, "Table 7: 77.56 - 67.02", 0.0001),
       controls=("half_on_short_prompts",), **TABLE_7)
def score_rises_to_half(f):
    return score(f, settings(0.5, 3), settings(0.1, 3))


@claim(place="Ablations, \"clear performance peak at kernel size 3\"",
       statement="A window of 3 answers better than none.", quantity="window 3 - window 1, r 0.5",
       bound=above(0, "paper"), published=Published(0.003, "Table 7: 77.56 - 77.26", 0.0001),
       controls=("window_on_short_prompts",),
       note="Table 7 itself has a window of 1 above one of 3 at six of nine ratios.", **TABLE_7)
def window_of_three(f):
    return score(f, settings(0.5, 3), settings(0.5, 1))


@claim(place="Ablations, \"clear performance peak at kernel size 3\"",
       statement="A window of 3 answers better than one of 9.",
       quantity="window 3 - window 9, r 0.5", bound=above(0, "paper"),
       published=Published(0.003, "Table 7: 77.56 - 77.26", 0.0001),
       controls=("window_on_short_prompts",), **TABLE_7)
def window_peaks_at_three(f):
    return score(f, settings(0.5, 3), settings(0.5, 9))


@claim(place="Appendix, Table 8", statement="Average and maximum pooling score within 3 "
                                            "percentage points of each other.",
       quantity="average - maximum",
       bound=within(-0.03, 0.03,
                    "us: three points, for \"marginal\"; the largest of Table 8 is 1.82"),
       published=Published(-0.0008, "Table 8, mean: 59.78 - 59.86", 0.0001), artifacts=("table_8",),
       controls=("pooling_on_short_prompts",), **{**SCORES, **MORE_ITEMS, "items": "164 per task here"})
def pooling_matters_little(f):
    return score(f, "Sparse-dLLM w/ AvgPool", "Sparse-dLLM w/ MaxPool")


# ---- Why it works (Figs. 2, 4 and 7) ----

SIGNAL = {"kind": "signal", "scales": ("tiny", "full"), "items": "8 per task here",
          "tasks": "every task of the file", "preset": "vanilla, blocks of 32",
          "regime": no_precondition("this is what the paper's method rests on")}
LOOKS = {**SIGNAL, "artifacts": ("figure_2",)}
CHANGES = {**SIGNAL, "kind": "count", "artifacts": ("figure_4",), "items": "48 per task here"}


@claim(place="Attention sparsity, Fig. 2",
       statement="The most attended keys outside the block keep at least 80 % of their members in "
                 "the next step.",
       quantity="share of the highest tenth of the keys outside the block that stays, mean over "
                "layers", bound=at_least(0.8, "us: for \"consistently\""),
       controls=("salient_of_all_keys_persist", "salient_in_thirty_layers"), **LOOKS)
def salient_tokens_persist(f):
    return level(f, "probes.attention.outside_overlap_mean")


@claim(place="Attention sparsity, Fig. 2",
       statement="In every layer at most half of the keys hold 90 % of the attention.",
       quantity="share of the keys that hold 90 % of the mass, the largest of the layers",
       bound=at_most(0.5, "us: \"sparse\" is less than half of the keys"),
       controls=("attention_in_thirty_layers",), **LOOKS)
def attention_is_sparse(f):
    return level(f, "probes.attention.keys_for_90_max")


@claim(place="Attention sparsity, Fig. 2", statement="The first token draws at most a tenth of "
                                                     "the attention.",
       quantity="share of the mass on position 0, mean over layers",
       bound=at_most(0.1, "us: autoregressive models put half and more there"), **LOOKS)
def no_abnormal_first_token(f):
    return level(f, "probes.attention.first_token_mass")


@claim(place="Appendix, Fig. 7",
       statement="Most of the tokens that draw attention carry no meaning.",
       quantity="share of the pivotal tokens that are punctuation, spaces or special",
       bound=above(0.5, "paper: \"most\""), artifacts=("figure_7",), **SIGNAL)
def pivots_carry_no_meaning(f):
    return level(f, "probes.attention.pivot_without_meaning")


@claim(place="Delayed cache updates, Fig. 4",
       statement="Keys outside the block change more from its first step to its second than after.",
       quantity="change of K, steps 1 to 2 over 2 to 3", bound=above(1, "paper"),
       controls=("values_change_in_thirty_layers",), **CHANGES)
def keys_change_most_at_first(f):
    return within_row(f, "probes.kv_change.steps.k[0]", "probes.kv_change.steps.k[1]")


@claim(place="Delayed cache updates, Fig. 4",
       statement="Values outside the block change more from its first step to its second than "
                 "after.", quantity="change of V, steps 1 to 2 over 2 to 3",
       bound=above(1, "paper"), controls=("values_change_in_thirty_layers",), **CHANGES)
def values_change_most_at_first(f):
    return within_row(f, "probes.kv_change.steps.v[0]", "probes.kv_change.steps.v[1]")


# ---- Controls ----

@control(statement="The same cache without eviction (Fast-dLLM) is faster than vanilla decoding.",
         quantity="throughput, Fast-dLLM over vanilla", bound=FASTER, **TABLE_1)
def its_cache_beats_vanilla(f):
    return speed(f, "Fast-dLLM", "Vanilla", CANVAS)


@control(statement="The same cache without eviction is faster than dLLM-Cache.",
         quantity="throughput, Fast-dLLM over dLLM-Cache, the slowest task", bound=FASTER,
         each_because=CONSISTENT, **TABLE_1)
def its_cache_beats_dllm_cache(f):
    return smallest(speed(f, "Fast-dLLM", "dLLM-Cache", CANVAS))


@control(statement="The same cache without eviction is faster than dKV-Cache.",
         quantity="throughput, Fast-dLLM over dKV-Cache, the slowest task", bound=FASTER,
         each_because=CONSISTENT, **TABLE_1)
def its_cache_beats_dkv_cache(f):
    return smallest(speed(f, "Fast-dLLM", "dKV-Cache", CANVAS))


@control(statement="On Dream the same cache without eviction is faster than vanilla decoding.",
         quantity="throughput, Fast-dLLM over vanilla", bound=FASTER, **TABLE_2)
def dream_cache_beats_vanilla(f):
    return speed(f, "Fast-dLLM", "Vanilla", CANVAS)


@control(statement="At 4K tokens the same cache without eviction is faster than vanilla decoding.",
         quantity="throughput, Fast-dLLM over vanilla", bound=FASTER, **FIGURE_5)
def its_cache_beats_vanilla_at_4k(f):
    return speed(f, "Fast-dLLM", "Vanilla", CANVAS, workload=("3.5K", "4K"))


@control(statement="The speedup of the same cache without eviction is larger with longer prompts.",
         quantity="speedup at 2K tokens over that at 0.5K", bound=above(1, "paper"),
         **{**FIGURE_5, "scales": ("tiny",)})
def gain_of_its_cache_grows(f):
    return growth(f, CANVAS, "Fast-dLLM", "Vanilla", "workload", "0.5K", "2K")


@control(statement="On a CPU Sparse-dLLM is faster than Fast-dLLM.",
         quantity="throughput over Fast-dLLM", bound=FASTER, **{**TABLE_1, "scales": ("tiny",)})
def faster_than_fast_dllm_on_a_cpu(f):
    return speed(f, "Sparse-dLLM", "Fast-dLLM", CANVAS)


@control(statement="On a CPU Sparse-dLLM is faster than Fast-dLLM on long prompts.",
         quantity="throughput over Fast-dLLM", bound=FASTER, **{**FIGURE_5, "scales": ("tiny",)})
def faster_than_fast_dllm_on_long_prompts_on_a_cpu(f):
    return speed(f, "Sparse-dLLM", "Fast-dLLM", CANVAS)


@control(statement="One step of delay costs at most 5 % of the speed on a CPU.",
         quantity="throughput, delay 1 over delay 0", bound=at_least(0.95, "us: 5 %"),
         **{**TABLE_3, "scales": ("tiny",)})
def one_step_of_delay_on_a_cpu(f):
    return speed(f, "delay 1", "delay 0", CANVAS)


KEYS = {"kind": "count", "scales": ("tiny",), "regime": SHORT, "items": "every item",
        "tasks": "every task of the file", "clock": "none: keys are counted"}


@control(statement="Sparse-dLLM computes with fewer keys than Fast-dLLM.", quantity="keys seen",
         bound=below(1, "us"), artifacts=("table_1",), **KEYS)
def fewer_keys_than_its_cache(f):
    return ratio(f, "keys_seen", "Sparse-dLLM", "Fast-dLLM")


@control(statement="One step of delay computes with more keys than none.", quantity="keys seen",
         bound=above(1, "us"), artifacts=("table_3",), **KEYS)
def delay_reads_more_keys(f):
    return ratio(f, "keys_seen", "delay 1", "delay 0")


@control(statement="The same cache without eviction answers as well as vanilla decoding.",
         quantity="Fast-dLLM - vanilla", bound=KEPT, **TABLE_1_SCORES)
def cache_keeps_quality(f):
    return score(f, "Fast-dLLM", "Vanilla", workload=TASKS)


@control(statement="As many keys at random answer as well as vanilla decoding.",
         quantity="random keys at the budget of r = 0.5 - vanilla", bound=KEPT,
         **TABLE_1_SCORES)
def random_keys_keep_quality(f):
    return score(f, "random keys, r = 0.5", "Vanilla", workload=TASKS)


@control(statement="Vanilla decoding that stops behind the answer's block is faster than one "
                   "that does not.", quantity="throughput, early stop over none", bound=FASTER,
         **TABLE_1)
def vanilla_with_early_stop(f):
    return speed(f, "Vanilla, early stop", "Vanilla", CANVAS)


@control(statement="On Dream the same cache without eviction answers as well as vanilla decoding.",
         quantity="Fast-dLLM - vanilla", bound=KEPT, artifacts=("table_2",), **{**SCORES, **MORE_ITEMS})
def dream_cache_keeps_quality(f):
    return score(f, "Fast-dLLM", "Vanilla")


@control(statement="On Dream the same cache without eviction keeps the score of programs.",
         quantity="Fast-dLLM - vanilla, programs", bound=KEPT, artifacts=("table_2",),
         **{**SCORES, "regime": SHORT})
def dream_cache_keeps_programs(f):
    return score(f, "Fast-dLLM", "Vanilla", workload=("list_program", "humaneval"))


@control(statement="On long prompts the same cache without eviction answers as well as vanilla "
                   "decoding.", quantity="Fast-dLLM - vanilla", bound=KEPT, artifacts=("table_6",),
         **{**SCORES, "regime": LONGEST})
def long_cache_keeps_quality(f):
    return score(f, "Fast-dLLM", "Vanilla")


@control(statement="Keeping half of the keys answers as well as nine tenths on prompts of every length.",
         quantity="r 0.5 - r 0.9, window 3", bound=KEPT, **TABLE_7_SHORT)
def half_on_short_prompts(f):
    return score(f, settings(0.5, 3), settings(0.9, 3))


@control(statement="On prompts of every length a window of 3 answers better than none.",
         quantity="window 3 - window 1, r 0.5", bound=above(0, "us"),
         **TABLE_7_SHORT)
def window_on_short_prompts(f):
    return score(f, settings(0.5, 3), settings(0.5, 1))


@control(statement="Average and maximum pooling score within 3 percentage points on prompts of every length.",
         quantity="average - maximum", bound=within(-0.03, 0.03, "us"), artifacts=("table_8",),
         **{**SCORES, "regime": SHORT})
def pooling_on_short_prompts(f):
    return score(f, "Sparse-dLLM w/ AvgPool", "Sparse-dLLM w/ MaxPool")


@control(statement="On prompts of every length both sides answer better than the prefix only.",
         quantity="both sides - prefix", bound=above(0, "us"), artifacts=("table_4",),
         **{**SCORES, "regime": SHORT})
def both_sides_on_short_prompts(f):
    return score(f, "Sparse-dLLM", "prefix-sparse")


def all_layers(f):
    """Share of the highest twentieth of all keys that stays to the next look, mean over the layers."""
    layers = len(f.pick()[0]["probes"]["attention"]["step_overlap"])
    found = [level(f, f"probes.attention.step_overlap[{i}]") for i in range(1, layers)]
    value = sum(x.estimate.value for x in found) / len(found)
    return Finding(f"overlap of looks, mean of layers 1 to {layers - 1}",
                   Estimate(value, n=found[0].estimate.n, how="mean of layers, no interval"),
                   [(f"layer {i}", x.estimate) for i, x in enumerate(found, 1)])


@control(statement="The most attended keys keep at least 80 % of their members over four steps.",
         quantity="overlap of looks four steps apart, mean over layers", bound=at_least(0.8, "us"),
         **LOOKS)
def salient_of_all_keys_persist(f):
    return all_layers(f)


@control(statement="The most attended keys keep at least 80 % of their members over four steps in "
                   "thirty layers.",
         quantity="overlap of looks four steps apart, mean over layers", bound=at_least(0.8, "us"),
         **{**LOOKS, "scales": ("real",), "preset": "block diffusion, one token per step"})
def salient_in_thirty_layers(f):
    return all_layers(f)


@control(statement="In thirty layers at most half of the keys hold 90 % of the attention.",
         quantity="share of the keys that hold 90 % of the mass, the largest of the layers",
         bound=at_most(0.5, "us"),
         **{**LOOKS, "scales": ("real",), "preset": "block diffusion, one token per step"})
def attention_in_thirty_layers(f):
    return level(f, "probes.attention.keys_for_90_max")


@control(statement="Values outside the block change most from its first step to its second in thirty layers.",
         quantity="change of V, steps 1 to 2 over 2 to 3", bound=above(1, "us"),
         **{**CHANGES, "scales": ("real",), "preset": "block diffusion, one token per step"})
def values_change_in_thirty_layers(f):
    return within_row(f, "probes.kv_change.steps.v[0]", "probes.kv_change.steps.v[1]")
