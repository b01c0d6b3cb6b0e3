# SPDX-License-Identifier: Apache-2.0
"""What Focus-dLLM (arXiv 2602.02159) claims, and the controls beside it. No official code exists: what is
checked is a reading of the paper.

The paper is about long contexts: LongBench's prompts have 1.2K tokens and more, its speeds are of 8K to
32K. Its tasks are answered here in a canvas of one block, so there is no padding block that a decode which
stops would leave out, and no such control."""

from unmask.claims import (Published, above, at_equal_score, at_least, at_most, below, claim, control,
                           growth, level, no_precondition, presumes, presumes_a_gpu,
                           presumes_of_tasks, ratio, repeated, score, speed, unlost)

CANVAS = "canvas_tokens_per_second"
KEPT = at_least(-0.02, "us: two points, for \"lossless\" and \"on par\"")
FASTER = above(1, "paper: faster")
LONGEST = presumes_of_tasks("prompts have at least 900 tokens, as those of LongBench",
                            "prompt_tokens_mean", at_least(900, "us: LongBench starts at 1.2K"))


def prompt_blocks(row):
    """Blocks of a prompt among which the sparse layers choose; None where the method has none."""
    size, tokens = row["params"].get("prompt_block_size"), row["metrics"].get("prompt_tokens_mean")
    return tokens / size if size and tokens else None


LONG = (presumes_of_tasks("prompts have at least 500 tokens", "prompt_tokens_mean",
                          at_least(450, "us: half of the paper's shortest")),
        presumes_of_tasks("prompts have at least 16 blocks", prompt_blocks,
                          at_least(15.5, "us: the last of fewer wins most selections")))
GPU = presumes_a_gpu("the machine is a GPU, where a block's steps are bound by reading keys; a CPU pays the "
                     "entry of a block, a full forward pass of either method, in full")
ALPHA = "Focus-dLLM (alpha = 0.5)"
DENSE = ("needle_1K", "needle_2K", "retrieval_1K", "retrieval_2K", "16K", "gov_report")

SPEEDS = {"kind": "speed", "quality": KEPT, "scales": ("tiny", "shapes", "full"),
          "clock": "response tokens per second, prefill included", "items": repeated(0.05, 0.05),
          "preset": "alpha 0.5, rho 4, window 8; one token per step"}
FIGURE_5 = {**SPEEDS, "artifacts": ("figure_5",), "regime": LONG, "tasks": "prompts without meaning, of stated length"}
FIGURE_5_GPU = {**FIGURE_5, "regime": GPU}
ON_A_CPU = {**SPEEDS, "artifacts": ("table_2",), "scales": ("tiny",), "regime": LONGEST,
            "tasks": "needles and look-ups of 1K and 2K"}
TABLE_2 = {**ON_A_CPU, "scales": ("tiny", "shapes", "full"), "regime": (LONGEST, GPU)}
SCORES = {"kind": "score", "scales": ("tiny", "full"), "regime": LONGEST, "items": unlost(0.02),
          "tasks": "mean of the tasks with prompts of 900 tokens and more",
          "preset": "alpha 0.5, rho 4, window 8; one token per step"}
SIGNAL = {"kind": "signal", "tasks": "every task of the file", "preset": "vanilla, the whole response"}


# ---- What the method rests on (section 4) ----

@claim(place="Section 4.1, Fig. 1 left",
       statement="The confidence of a position correlates with that of the step before by at least 0.8.",
       quantity="correlation", bound=at_least(0.8, "us: for \"strongly\""),
       artifacts=("figure_1",), scales=("tiny", "full"),
       regime=no_precondition("this is the paper's observation"), items="12 per task here", **SIGNAL)
def confidence_persists(f):
    return level(f, "probes.confidence.correlation")


@claim(place="Section 4.1, Fig. 1 right",
       statement="At least 91.3 % of the unmasked tokens were among the four most confident of "
                 "the step before.", quantity="recall of four",
       bound=at_least(0.913, "us: 5 % below the published 0.961"),
       published=Published(0.961, "section 4.1, one prompt", 0.0005, says="96.1 %, of one prompt"),
       artifacts=("figure_1",),
       scales=("tiny", "full"), regime=no_precondition("this is the paper's observation"),
       items="12 per task here", **SIGNAL)
def recall_of_four(f):
    return level(f, "probes.confidence.recall.value[2]")


def layers_of(row):
    """The layers that stand where the paper's 9 and 19 of 32 do."""
    layers = len(row["probes"]["attention"]["sink_mass"])
    return round(layers * 9 / 32), round(layers * 19 / 32)


def sink_mass(row):
    """The share of the attention on the 5 % of keys that draw most of it, the less of both layers."""
    return min(row["probes"]["attention"]["sink_mass"][i] for i in layers_of(row))


SINKS = presumes("there are sinks: a twentieth of the keys holds half of the attention", sink_mass,
                 at_least(0.5, "us: a uniform layer has 0.05"))
LOOK = {**SIGNAL, "artifacts": ("figure_2",), "items": "6 per task here, with 96 looks each"}


@claim(place="Section 4.2, Figs. 2 and 8",
       statement="At least half of the sinks of a layer are those of a deeper one.",
       quantity="overlap of the sinks of layers 9 and 19 of 32, or of those in their place",
       bound=at_least(0.5, "us: for \"typically matches\""), regime=SINKS, scales=("tiny", "full"),
       controls=("keys_of_most_mass_agree",), **LOOK)
def sinks_agree_across_layers(f):
    a, b = layers_of(f.pick()[0])
    return level(f, f"probes.attention.layer_overlap[{a}][{b}]")


@claim(place="Section 4.2, Figs. 2 and 8",
       statement="At least half of the sinks of a layer are those of a deeper one in thirty layers.",
       quantity="overlap of the sinks of the layers in the place of 9 and 19 of 32",
       bound=at_least(0.5, "us: for \"typically matches\""), regime=SINKS, scales=("real",),
       controls=("keys_of_most_mass_agree",), **LOOK)
def sinks_agree_in_thirty_layers(f):
    a, b = layers_of(f.pick()[0])
    return level(f, f"probes.attention.layer_overlap[{a}][{b}]")


@claim(place="Section 4.2 (ii)", statement="At most half of the sinks are the same four steps later.",
       quantity="overlap of the sinks of looks four steps apart, layer in the place of 9 of 32",
       bound=at_most(0.5, "us: more than half move"), regime=SINKS, scales=("tiny", "full"),
       controls=("keys_of_most_mass_agree",), **LOOK)
def sinks_move_between_steps(f):
    return level(f, f"probes.attention.step_overlap[{layers_of(f.pick()[0])[0]}]")


# ---- Speed (abstract, sections 1 and 6.2, Fig. 5, Table 5) ----

@claim(place="Abstract, section 6.2, Fig. 5",
       statement="Focus-dLLM has a higher throughput than vanilla decoding at 32K tokens.",
       quantity="throughput over vanilla at 32K", bound=FASTER,
       published=Published(29.6, "section 6.2, UltraLLaDA, 32K", 0.05),
       rivals=("its_cache_over_vanilla_32k",), **{**FIGURE_5, "scales": ("shapes", "full")})
def about_thirty_times(f):
    return speed(f, "Focus-dLLM", "Vanilla", CANVAS, workload="32K", model=("ultrallada", "UltraLLaDA"))


@claim(finding="vanilla decoding", place="Section 6.2, Fig. 5",
       statement="On long prompts Focus-dLLM is faster than vanilla decoding.",
       quantity="throughput over vanilla, mean over lengths", bound=FASTER,
       published=Published(9.4, "section 6.2, the shortest prompts", 0.05),
       rivals=("its_cache_over_vanilla",), **FIGURE_5)
def faster_than_vanilla(f):
    return speed(f, "Focus-dLLM", "Vanilla", CANVAS)


@claim(place="Section 6.2",
       statement="The speedup over vanilla decoding is larger with a longer context.",
       quantity="speedup at 2K tokens over that at 0.5K", bound=above(1, "paper"),
       published=Published(3.15, "section 6.2: 9.4 -> 29.6, 8K to 32K", 0.02),
       rivals=("its_cache_gains_with_the_context",),
       **{**FIGURE_5, "scales": ("tiny",), "regime": no_precondition("it compares lengths")})
def speedup_grows_with_the_context(f):
    return growth(f, CANVAS, "Focus-dLLM", "Vanilla", "workload", "0.5K", "2K")


@claim(decides=True, place="Sections 1 and 6.2, Fig. 5",
       statement="Focus-dLLM has a higher throughput than Fast-dLLM from 8K tokens on.",
       quantity="throughput over Fast-dLLM, lengths of 8K and more", bound=FASTER,
       published=Published(2.05, "section 6.2, UltraLLaDA, 32K", 0.005, says="about twice as fast, at 32K"),
       controls=("over_fast_dllm_on_a_cpu", "fewer_keys_at_16k"), **FIGURE_5_GPU)
def faster_than_fast_dllm(f):
    return speed(f, "Focus-dLLM", "Fast-dLLM", CANVAS, workload=("8K", "16K", "24K", "28K", "32K"))


@claim(place="Section 6.2, Fig. 5, Table 5",
       statement="Focus-dLLM has a higher throughput than Fast-dLLM at 8K tokens.",
       quantity="throughput over Fast-dLLM at 8K", bound=FASTER,
       published=Published(1.31, "Fig. 5, UltraLLaDA: 25.24 / 19.27", 0.01, True),
       controls=("over_fast_dllm_on_a_cpu",), **FIGURE_5_GPU)
def gain_over_fast_dllm_8k(f):
    return speed(f, "Focus-dLLM", "Fast-dLLM", CANVAS, workload="8K")


@claim(place="Section 6.2, Fig. 5, Table 5",
       statement="Focus-dLLM has a higher throughput than Fast-dLLM at 16K tokens.",
       quantity="throughput over Fast-dLLM at 16K", bound=FASTER,
       published=Published(1.75, "Table 5: 19.30 / 11.03", 0.005),
       controls=("fewer_keys_at_16k",),
       **FIGURE_5_GPU)
def gain_over_fast_dllm_16k(f):
    return speed(f, "Focus-dLLM", "Fast-dLLM", CANVAS, workload="16K")


@claim(decides=True, place="Section 1, Fig. 5", statement="The gain over Fast-dLLM grows with the context.",
       quantity="gain at 32K (16K here) over that at 8K", bound=above(1, "paper"),
       published=Published(1.565, "section 6.2: 2.05 at 32K; Fig. 5: 1.31 at 8K", 0.01, True),
       controls=("gain_grows_on_a_cpu",), **{**FIGURE_5_GPU, "scales": ("shapes", "full")})
def gain_over_fast_dllm_grows(f):
    return growth(f, CANVAS, "Focus-dLLM", "Fast-dLLM", "workload", "8K", "32K")


@claim(decides=True, place="Section 6.2, \"consistently outperforms all baselines\"",
       statement="Focus-dLLM is faster than Sparse-dLLM from 8K tokens on.",
       quantity="throughput over Sparse-dLLM, lengths of 8K and more", bound=FASTER,
       published=Published(1.62, "Table 5, 16K: 19.30 / 11.94", 0.005),
       rivals=("fast_dllm_over_sparse_dllm",),
       note="The bars of Fig. 5 contradict it for Dream at 8K.", **FIGURE_5)
def outperforms_sparse_dllm(f):
    return speed(f, "Focus-dLLM", "Sparse-dLLM", CANVAS, workload=("8K", "16K", "24K", "28K", "32K"))


TABLE_5 = {**SPEEDS, "artifacts": ("table_5",), "scales": ("tiny", "full"), "regime": LONG,
           "tasks": "needles and look-ups of 0.5K and 1K; LongBench at full"}


@claim(place="Section 7, Table 5", statement="Focus-dLLM has a higher throughput than SparseD.",
       quantity="throughput over SparseD (skip 0.2, r 0.3)", bound=FASTER,
       published=Published(14.0, "Table 5: 19.30 / 1.38", 0.1),
       rivals=("fast_dllm_over_sparse_d",),
       **{**FIGURE_5, "artifacts": ("figure_5",)})
def over_sparse_d(f):
    return speed(f, "Focus-dLLM", "SparseD", CANVAS)


@claim(place="Section 7, Table 5",
       statement="Keeping 0.7 of the prompt blocks instead of 0.3 costs at most 5 % of the speed.",
       quantity="throughput, alpha 0.7 over 0.3",
       bound=at_least(0.95, "us: the paper prints 1.7 %"),
       published=Published(0.983, "Table 5: 19.14 / 19.48", 0.0005),
       controls=("more_blocks_are_more_keys",), **{**TABLE_5, "regime": GPU})
def alpha_costs_little_speed(f):
    return speed(f, "Focus-dLLM (alpha = 0.7)", "Focus-dLLM (alpha = 0.3)", CANVAS)


@claim(place="Section 7, Fig. 6",
       statement="Focus-dLLM is faster than every setting of Sparse-dLLM and SparseD that scores as well.",
       quantity="throughput over the fastest setting of Sparse-dLLM and SparseD that scores as "
                "well", bound=FASTER, controls=("sparse_d_is_alive",), **TABLE_5)
def no_setting_dominates(f):
    rivals = [f"Sparse-dLLM (r = 0.{n})" for n in (3, 4, 5, 6, 7)] + [
        f"SparseD (skip = {s}, r = {r})" for s, r in ((0.1, 0.2), (0.1, 0.3), (0.2, 0.1), (0.2, 0.2),
                                                      (0.2, 0.3))]
    return at_equal_score(f, ALPHA, rivals, CANVAS)


# ---- Parts (section 7, Table 2) ----

@claim(decides=True, place="Section 7, Table 2", statement="Sparse attention alone makes Fast-dLLM faster.",
       quantity="throughput, sparse attention over Fast-dLLM", bound=FASTER,
       published=Published(1.60, "Table 2: 17.68 / 11.03", 0.005),
       controls=("sparse_attention_on_a_cpu", "fewer_keys_at_16k"),
       **TABLE_2)
def sparse_attention_gives_the_speed(f):
    return speed(f, "+SA Sparse Attn", "Fast-dLLM", CANVAS)


@claim(place="Section 7, Table 2", statement="The indicator alone makes Fast-dLLM faster.",
       quantity="throughput, indicator over Fast-dLLM", bound=FASTER,
       published=Published(1.03, "Table 2: 11.37 / 11.03", 0.005, says="a little faster"),
       controls=("indicator_on_a_cpu", "fewer_keys_at_16k"),
       **TABLE_2)
def indicator_is_a_little_faster(f):
    return speed(f, "+PCGI", "Fast-dLLM", CANVAS)


@claim(place="Section 7, Table 2",
       statement="Sparse attention gives more speed than the indicator.",
       quantity="throughput, sparse attention over indicator", bound=FASTER,
       published=Published(1.555, "Table 2: 17.68 / 11.37", 0.005), controls=("fewer_keys_at_16k",),
       **TABLE_2)
def sparse_attention_gives_more_than_the_indicator(f):
    return speed(f, "+SA Sparse Attn", "+PCGI", CANVAS)


@claim(place="Section 7, Table 2", statement="Both parts together are faster than Fast-dLLM.",
       quantity="throughput, Focus-dLLM over Fast-dLLM", bound=FASTER,
       published=Published(1.61, "Table 2: 17.71 / 11.03", 0.005),
       controls=("both_parts_on_a_cpu", "fewer_keys_at_16k"),
       **TABLE_2)
def whole_method_is_fastest(f):
    return speed(f, "Focus-dLLM", "Fast-dLLM", CANVAS)


PARTS = {**SCORES, "artifacts": ("table_2",), "scales": ("scores", "full"),
         "controls": ("fast_dllm_is_not_at_a_ceiling",)}


@claim(place="Section 7, Table 2", statement="The indicator alone answers worse than Fast-dLLM.",
       quantity="indicator - Fast-dLLM", bound=below(0, "paper"),
       published=Published(-0.0051, "Table 2", 0.0001, says="half a point less"), **PARTS)
def indicator_costs_half_a_point(f):
    return score(f, "+PCGI", "Fast-dLLM")


@claim(place="Section 7, Table 2", statement="Sparse attention alone answers as well as Fast-dLLM.",
       quantity="sparse attention - Fast-dLLM", bound=KEPT,
       published=Published(0.0010, "Table 2", 0.0001, says="no loss"), **PARTS)
def sparse_attention_costs_nothing(f):
    return score(f, "+SA Sparse Attn", "Fast-dLLM")


@claim(decides=True, place="Section 7, Table 2", statement="Both parts together answer as well as Fast-dLLM.",
       quantity="Focus-dLLM - Fast-dLLM", bound=KEPT,
       published=Published(0.0040, "Table 2", 0.0001),
       note="Table 1 has both rows on as many items of the same tasks and model.",
       **{**PARTS, "artifacts": ("table_1",), "scales": SCORES["scales"]})
def both_parts_cost_nothing(f):
    return score(f, "Focus-dLLM", "Fast-dLLM", model=("tiny-llada", "UltraLLaDA"))


# ---- Quality (section 6.2, Table 1, Fig. 4; section 7, Tables 3 and 5, Fig. 7) ----

@claim(decides=True, place="Abstract, section 6.2, Table 1",
       statement="Focus-dLLM answers as well as vanilla decoding.", quantity="Focus-dLLM - vanilla",
       bound=KEPT, artifacts=("table_1",),
       published=Published(0.0024, "Table 1, UltraLLaDA, mean: 45.14 - 44.90", 0.0001),
       controls=("random_blocks_keep_quality", "last_blocks_keep_quality", "cache_keeps_quality",
                 "lossless_on_short_prompts"), **SCORES)
def lossless(f):
    return score(f, "Focus-dLLM", "Vanilla")


@claim(place="Section 6.2, Table 1",
       statement="Focus-dLLM answers as well as vanilla decoding on Dream.",
       quantity="Focus-dLLM - vanilla, Dream", bound=KEPT, artifacts=("table_1",),
       published=Published(-0.0021, "Table 1, Dream, mean: 42.82 - 43.03", 0.0001),
       controls=("cache_keeps_quality",), **SCORES)
def lossless_on_dream(f):
    return score(f, "Focus-dLLM", "Vanilla", model=("tiny-dream", "Dream-v0-Instruct-7B"))


NEEDLES = {**SCORES, "artifacts": ("figure_4",), "scales": ("tiny",),
           "regime": no_precondition("the figure has every length and depth"),
           "tasks": "needles at five depths and four lengths, all items alike"}


@claim(place="Section 6.2, Fig. 4",
       statement="Focus-dLLM finds needles as often as vanilla decoding.",
       quantity="Focus-dLLM - vanilla, over items", bound=KEPT, controls=("needles_at_alpha_0_05",),
       **NEEDLES)
def finds_needles_as_vanilla(f):
    return score(f, "Focus-dLLM", "Vanilla", by_item=True)


@claim(place="Section 6.2, Fig. 4", statement="Focus-dLLM finds needles more often than Fast-dLLM.",
       quantity="Focus-dLLM - Fast-dLLM, over items", bound=above(0, "paper: \"better\""),
       controls=("needles_at_alpha_0_05",), **NEEDLES)
def finds_more_needles_than_fast_dllm(f):
    return score(f, "Focus-dLLM", "Fast-dLLM", by_item=True)


@claim(place="Section 6.2, Fig. 4",
       statement="Focus-dLLM finds needles more often than Sparse-dLLM.",
       quantity="Focus-dLLM - Sparse-dLLM, over items", bound=above(0, "paper: \"better\""),
       controls=("needles_at_alpha_0_05",), **NEEDLES)
def finds_more_needles_than_sparse_dllm(f):
    return score(f, "Focus-dLLM", "Sparse-dLLM", by_item=True)


@claim(place="Section 6.2, Fig. 4",
       statement="Focus-dLLM finds more of the deepest needles than vanilla decoding.",
       quantity="Focus-dLLM - vanilla, depth 100 %", bound=above(0, "paper"),
       controls=("needles_at_alpha_0_05",), **NEEDLES)
def finds_more_of_the_deepest(f):
    return score(f, "Focus-dLLM", "Vanilla", by_item=True,
                 workload=[f"{length}, 100 %" for length in ("256", "512", "1K", "2K")])


@claim(place="Section 7, Table 3", statement="On Dream keeping the sinks answers better.",
       quantity="with sinks - without, alpha 0.1 so that sinks are a part of the keys",
       bound=above(0, "paper"), published=Published(0.0135, "Table 3, mean score", 0.0001),
       artifacts=("table_3",), controls=("sinks_on_deep_llada",), **SCORES)
def sinks_help(f):
    return score(f, "w/ Attn Sinks", "w/o Attn Sinks", alpha=0.1,
                 model=("tiny-dream", "Dream-v0-Instruct-7B"))


@claim(place="Section 7, Table 5",
       statement="Keeping 0.7 of the prompt blocks answers better than 0.3.",
       quantity="alpha 0.7 - alpha 0.3", bound=above(0, "paper"),
       published=Published(0.0107, "Table 5: 45.34 - 44.27", 0.0001), artifacts=("figure_6",),
       controls=("more_blocks_on_short_prompts",), **SCORES)
def more_blocks_answer_better(f):
    return score(f, "Focus-dLLM (alpha = 0.7)", "Focus-dLLM (alpha = 0.3)")


@claim(place="Section 7, Table 5, Fig. 6", statement="Focus-dLLM answers as well as SparseD.",
       quantity="alpha 0.5 - SparseD (skip 0.2, r 0.3)", bound=KEPT,
       published=Published(0.0044, "Table 5: 45.14 - 44.70", 0.0001), artifacts=("figure_6",),
       controls=("sparse_d_is_alive",), **SCORES)
def as_good_as_sparse_d(f):
    return score(f, ALPHA, "SparseD (skip = 0.2, r = 0.3)")


FIGURE_7 = {**SCORES, "artifacts": ("figure_7",), "controls": ("small_rho_on_short_prompts",)}
REST = {"alpha": 0.5, "window": 8, "dense_layers": (2, 6)}


@claim(place="Section 7, Fig. 7", statement="A prediction expansion of 1 answers worse than 4.",
       quantity="rho 1 - rho 4", bound=below(0, "paper"), **FIGURE_7)
def small_rho_is_poor(f):
    return score(f, {"rho": 1.0}, {"rho": 4.0}, **REST)


@claim(place="Section 7, Fig. 7", statement="A prediction expansion of 2 answers worse than 4.",
       quantity="rho 2 - rho 4", bound=below(0, "paper"), **FIGURE_7)
def rho_of_two_is_worse(f):
    return score(f, {"rho": 2.0}, {"rho": 4.0}, **REST)


@claim(place="Section 7, Fig. 7", statement="A prediction expansion of 8 scores at most 2 "
                                            "percentage points above one of 4.",
       quantity="rho 8 - rho 4", bound=at_most(0.02, "us: two points"), **FIGURE_7)
def rho_of_eight_adds_nothing(f):
    return score(f, {"rho": 8.0}, {"rho": 4.0}, **REST)


@claim(place="Section 7, Fig. 7", statement="A window of 16 scores at most 2 percentage points "
                                            "above one of 8.",
       quantity="window 16 - window 8",
       bound=at_most(0.02, "us: two points; the paper: not monotone"), **FIGURE_7)
def wider_window_adds_nothing(f):
    return score(f, {"window": 16}, {"window": 8}, alpha=0.5, rho=4.0, dense_layers=(2, 6))


@claim(place="Section 7, Fig. 7", statement="One dense layer answers as well as two.",
       quantity="one dense layer - two", bound=KEPT, **FIGURE_7)
def one_dense_layer_is_as_good(f):
    return score(f, {"dense_layers": 1}, {"dense_layers": 2}, alpha=0.5, rho=4.0, window=8)


# ---- Controls ----

EVERY = no_precondition("it says what prompts of every length give")
KEYS = {"kind": "count", "scales": ("tiny",), "items": "every item", "clock": "none: keys are counted",
        "regime": no_precondition("keys are counted at any length"), "quantity": "keys seen",
        "preset": SPEEDS["preset"]}


@control(statement="The same cache over all keys (Fast-dLLM) is faster than vanilla decoding.",
         quantity="throughput, Fast-dLLM over vanilla", bound=FASTER, **FIGURE_5)
def its_cache_over_vanilla(f):
    return speed(f, "Fast-dLLM", "Vanilla", CANVAS)


@control(statement="At 32K the same cache over all keys is faster than vanilla decoding.",
         quantity="throughput, Fast-dLLM over vanilla", bound=FASTER,
         **{**FIGURE_5, "scales": ("shapes", "full")})
def its_cache_over_vanilla_32k(f):
    return speed(f, "Fast-dLLM", "Vanilla", CANVAS, workload="32K", model=("ultrallada", "UltraLLaDA"))


@control(statement="The speedup of the same cache over all keys is larger with a longer context.",
         quantity="speedup at 2K tokens over that at 0.5K", bound=above(1, "us"),
         **{**FIGURE_5, "scales": ("tiny",), "regime": no_precondition("it compares lengths")})
def its_cache_gains_with_the_context(f):
    return growth(f, CANVAS, "Fast-dLLM", "Vanilla", "workload", "0.5K", "2K")


@control(statement="The same cache over all keys is faster than Sparse-dLLM.",
         quantity="throughput, Fast-dLLM over Sparse-dLLM", bound=FASTER, **FIGURE_5)
def fast_dllm_over_sparse_dllm(f):
    return speed(f, "Fast-dLLM", "Sparse-dLLM", CANVAS, workload=("8K", "16K", "24K", "28K", "32K"))


@control(statement="The same cache over all keys is faster than SparseD.",
         quantity="throughput, Fast-dLLM over SparseD", bound=FASTER, **FIGURE_5)
def fast_dllm_over_sparse_d(f):
    return speed(f, "Fast-dLLM", "SparseD", CANVAS)


@control(statement="On a CPU Focus-dLLM is faster than Fast-dLLM.",
         quantity="throughput over Fast-dLLM, mean over lengths", bound=FASTER,
         **{**FIGURE_5, "scales": ("tiny",)})
def over_fast_dllm_on_a_cpu(f):
    return speed(f, "Focus-dLLM", "Fast-dLLM", CANVAS)


@control(statement="On a CPU sparse attention alone makes Fast-dLLM faster.",
         quantity="throughput, sparse attention over Fast-dLLM", bound=FASTER, **ON_A_CPU)
def sparse_attention_on_a_cpu(f):
    return speed(f, "+SA Sparse Attn", "Fast-dLLM", CANVAS)


@control(statement="The indicator alone makes Fast-dLLM faster on a CPU.",
         quantity="throughput, indicator over Fast-dLLM", bound=FASTER, **ON_A_CPU)
def indicator_on_a_cpu(f):
    return speed(f, "+PCGI", "Fast-dLLM", CANVAS)


@control(statement="On a CPU both parts together are faster than Fast-dLLM.",
         quantity="throughput, Focus-dLLM over Fast-dLLM", bound=FASTER, **ON_A_CPU)
def both_parts_on_a_cpu(f):
    return speed(f, "Focus-dLLM", "Fast-dLLM", CANVAS)


@control(statement="On a CPU the gain over Fast-dLLM grows from 1K to 16K.",
         quantity="gain at 16K tokens over that at 1K", bound=above(1, "us"),
         **{**FIGURE_5, "scales": ("tiny",)})
def gain_grows_on_a_cpu(f):
    return growth(f, CANVAS, "Focus-dLLM", "Fast-dLLM", "workload", "1K", "16K")


@control(statement="Focus-dLLM computes with at most nine tenths of the keys of Fast-dLLM at 16K tokens.",
         bound=at_most(0.9, "us"), artifacts=("figure_5",),
         tasks="prompts of 16K", **KEYS)
def fewer_keys_at_16k(f):
    return ratio(f, "keys_seen", "Focus-dLLM", "Fast-dLLM", workload="16K")


@control(statement="Keeping 0.7 of the prompt blocks instead of 0.3 reads at least 10 % more keys.",
         bound=at_least(1.1, "us"), artifacts=("table_5",), tasks="every task of the file", **KEYS)
def more_blocks_are_more_keys(f):
    return ratio(f, "keys_seen", "Focus-dLLM (alpha = 0.7)", "Focus-dLLM (alpha = 0.3)")


@control(statement="The twentieth of the keys with most mass keeps at least half of its members "
                   "over four steps.",
         quantity="overlap of looks four steps apart, layer in the place of 9 of 32",
         bound=at_least(0.5, "us"), regime=no_precondition("it asks no sinks of the layer"),
         scales=("tiny",), **LOOK)
def keys_of_most_mass_agree(f):
    return level(f, f"probes.attention.step_overlap[{layers_of(f.pick()[0])[0]}]")


@control(statement="The same cache over all keys (Fast-dLLM) answers as well as vanilla decoding.",
         quantity="Fast-dLLM - vanilla", bound=KEPT, artifacts=("table_1",), **SCORES)
def cache_keeps_quality(f):
    return score(f, "Fast-dLLM", "Vanilla")


@control(statement="As many prompt blocks at random answer as well as vanilla decoding.",
         quantity="random prompt blocks at alpha 0.5 - vanilla", bound=KEPT, artifacts=("table_1",),
         **SCORES)
def random_blocks_keep_quality(f):
    return score(f, "random prompt blocks", "Vanilla")


@control(statement="A window of as many keys before the block answers as well as vanilla decoding.",
         quantity="window at the budget of alpha 0.5 - vanilla", bound=KEPT, artifacts=("table_1",),
         **SCORES)
def last_blocks_keep_quality(f):
    return score(f, "last prompt blocks", "Vanilla")


@control(statement="On prompts of every length Focus-dLLM answers as well as vanilla decoding.",
         quantity="Focus-dLLM - vanilla", bound=KEPT, artifacts=("table_1",),
         **{**SCORES, "regime": EVERY})
def lossless_on_short_prompts(f):
    return score(f, "Focus-dLLM", "Vanilla")


@control(statement="Fast-dLLM scores at most 0.95.", kind="signal",
         quantity="score of Fast-dLLM", bound=at_most(0.95, "us"), regime=LONGEST,
         artifacts=("table_2",), scales=("scores",), tasks="needles and look-ups of 1K and 2K",
         items="72 and 24 per task")
def fast_dllm_is_not_at_a_ceiling(f):
    return level(f, "score", label="Fast-dLLM")


@control(statement="Keeping a twentieth of the prompt blocks finds fewer needles than vanilla decoding.",
         quantity="alpha 0.05 - vanilla, over items", bound=below(0, "us"), **NEEDLES)
def needles_at_alpha_0_05(f):
    return score(f, "Focus-dLLM (alpha = 0.05)", "Vanilla", by_item=True)


@control(statement="Keeping sinks, 2 % of the keys, answers better on deep-llada at alpha 0.5.",
         quantity="with sinks - without", bound=above(0, "us"),
         artifacts=("table_3",), **{**SCORES, "regime": EVERY})
def sinks_on_deep_llada(f):
    return score(f, "w/ Attn Sinks", "w/o Attn Sinks")


@control(statement="SparseD answers as well as vanilla decoding.",
         quantity="SparseD (skip 0.2, r 0.3) - vanilla", bound=KEPT, artifacts=("figure_6",),
         **{**SCORES, "regime": EVERY})
def sparse_d_is_alive(f):
    return score(f, "SparseD (skip = 0.2, r = 0.3)", "Vanilla")


@control(statement="On prompts of every length keeping 0.7 of the blocks answers better than 0.3.",
         quantity="alpha 0.7 - alpha 0.3", bound=above(0, "us"), artifacts=("figure_6",),
         **{**SCORES, "regime": EVERY})
def more_blocks_on_short_prompts(f):
    return score(f, "Focus-dLLM (alpha = 0.7)", "Focus-dLLM (alpha = 0.3)")


@control(statement="On prompts of every length a prediction expansion of 1 answers worse than 4.",
         quantity="rho 1 - rho 4", bound=below(0, "us"), artifacts=("figure_7",),
         **{**SCORES, "regime": EVERY})
def small_rho_on_short_prompts(f):
    return score(f, {"rho": 1.0}, {"rho": 4.0}, **REST)
