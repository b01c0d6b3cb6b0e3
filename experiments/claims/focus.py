# SPDX-License-Identifier: Apache-2.0
"""What FOCUS (arXiv 2601.23278) claims, and the controls beside it.

The paper's regime is a model that decides few tokens a step: at most 4.05 on average of 32 (Figure 2).
Of the embedded tasks only stories are in it; the answers of the others are decided in two or three
steps, so that there is nothing to evict."""

from unmask.claims import (Published, above, at_equal_score, at_least, at_most, below, claim, control,
                           difference, growth, level, no_precondition, presumes, presumes_of_tasks, ratio,
                           graded, repeated, score, scored, share, speed, within)

FEW = 4.05                              # tokens per step, the largest of Figure 2
CHAT = ("story", "sharegpt")
SDAR = ("tiny-sdar", "SDAR-8B-Chat-b32")
LLADA2 = ("tiny-llada2", "LLaDA2.0-mini")
LARGE = (32, 256)
THRESHOLD = "threshold 0.9"
KEPT = at_least(-0.02, "us: two points are our reading of \"preserving quality\"")
FASTER = above(1, "paper: improves throughput")
HF = "of the official code with Transformers, in this program"
LMD = ("of the official engine, a fork of LMDeploy, in this program; thresholds as published, 0.8 of FOCUS "
       "against 0.9")


def few_a_step(label="LMDeploy", **where):
    return presumes("plain block diffusion unmasks few tokens per step, at most 4.05 as in Figure 2",
                    "committed_per_step", at_most(FEW, "paper: Figure 2"), label=label, **where)


WITNESS = ("At the scale real the model is smol, trained for two hours at most: its text is worse than its "
           "base's, so it is a weak witness.")
PRE_TRAINED_MODEL = presumes("the model is pre-trained, of at least 100 million parameters", "parameters",
                             at_least(1e8, "us: the paper has 8 and 16 billion"))

# Speeds of one set-up: chats in large batches, text judged by a causal model.
ON_CHAT = {"kind": "speed", "quality": KEPT, "preset": LMD, "scales": ("tiny", "full"),
           "clock": "output tokens per second, prefill included",
           "tasks": "stories, judged by an autoregressive model; ShareGPT at full",
           "items": repeated(0.05, 0.03)}
AT_32 = {**ON_CHAT, "artifacts": ("figure_8",), "regime": few_a_step(workload=CHAT, batch_size=LARGE)}
IN_FIGURE_6 = {**ON_CHAT, "artifacts": ("figure_6",), "regime": few_a_step(workload=CHAT, batch_size=LARGE)}
IN_FIGURE_7 = {**ON_CHAT, "artifacts": ("figure_7",), "scales": ("tiny",),
               "regime": few_a_step(workload=CHAT, batch_size=32)}
SCORES = {"kind": "score", "preset": HF, "scales": ("tiny", "full"), "clock": "none: nothing is timed",
          "tasks": "mean of the file's tasks, as the paper averages its five"}
# Two models in one engine: Fast-dLLM v2 decodes its own alone.
CHATS = ("story", "sharegpt", "wildchat")
WHOLE, EVICTING = {"label": "LMDeploy", "model": SDAR}, {"label": "FOCUS", "model": SDAR}
NESTED = {"label": "Fast-dLLM v2", "model": ("tiny-fdv2", "Fast_dLLM_v2_7B")}
NESTED_CACHED = {**NESTED, "label": "Fast-dLLM v2, sub-block cache"}
OF_FIGURE_15 = {"artifacts": ("figure_15",), "regime": few_a_step(workload=CHATS, batch_size=LARGE),
                "tasks": "stories, judged by an autoregressive model; ShareGPT and WildChat at full",
                "preset": "of the LMDeploy fork, threshold 0.8, for FOCUS; eval, 0.9, for Fast-dLLM v2"}
IN_FIGURE_15 = {**ON_CHAT, **OF_FIGURE_15}
ROWS = {"kind": "count", "quantity": "positions computed in layers 2 and up outside prefill, per output token",
        "preset": LMD, "scales": ("tiny", "full"), "artifacts": ("table_5",),
        "tasks": "the task that the statement names",
        "clock": "none: computed positions per output token are counted", "items": "32 stories; all of a data set at full",
        "controls": ("rows_at_equal_thresholds",)}


# ---- The opportunity: few tokens a step, and which they are (sections 2 and 3) ----

@claim(place="Section 2, Fig. 2",
       statement="Plain block diffusion with blocks of 32 unmasks at most 8 tokens per step at threshold 0.9.",
       kind="signal", quantity="tokens unmasked per step, mean over steps",
       bound=at_most(8, "us: a quarter of the block, for \"few\""),
       published=Published(4.05, "section 2, the highest of four data sets"), regime=PRE_TRAINED_MODEL,
       artifacts=("figure_2",), scales=("real", "full"), tasks="every task of the file", items="12 per task here",
       preset=HF, controls=("few_tokens_on_stories", "few_tokens_on_embedded_tasks"))
def few_tokens_per_step(f):
    return level(f, "probes.decoding.mean", label=THRESHOLD)


@claim(place="Figs. 9 to 11",
       statement="Plain block diffusion with blocks of 64 unmasks at most 4.05 tokens per step.", kind="signal",
       quantity="tokens unmasked per step, mean over steps",
       bound=at_most(FEW, "us: the bound of Figure 2, as these figures print no mean"), regime=PRE_TRAINED_MODEL,
       artifacts=("figure_9",), scales=("full",), tasks="every task of the file", items="200 per task",
       preset=HF, controls=("few_tokens_on_stories",))
def few_tokens_at_blocks_of_64(f):
    return level(f, "probes.decoding.mean", label=THRESHOLD, block_length=64)


def signal(f, metric):
    """Mean over the texts that are in the regime."""
    return level(f, metric, label=THRESHOLD)


PRE_TRAINED = {"kind": "signal", "artifacts": ("figure_4",), "scales": ("real", "full"), "preset": HF,
               "tasks": "every text on which at most 4.05 tokens are unmasked per step",
               "items": "12 a text here; the paper shows one data set", "note": WITNESS,
               "regime": presumes_of_tasks("few tokens are unmasked per step, at most 4.05 as in Figure 2",
                                           "committed_per_step", at_most(FEW, "paper: Figure 2"),
                                           label=THRESHOLD)}
IN_TWELVE = {**PRE_TRAINED, "scales": ("tiny",), "items": "320 stories", "tasks": "stories"}


@claim(decides=True, place="Section 3.2, Fig. 4",
       statement="The importance difference of layers 1 and 0 separates decodable tokens from others.",
       quantity="area under the curve", bound=above(0.5, "us: chance; the paper shows shares, no area"),
       controls=("delta_predicts_in_twelve_layers",), **PRE_TRAINED)
def delta_predicts_decodability(f):
    return signal(f, "probes.importance.layers[1].auc_delta")


@claim(place="Section 3.1, Fig. 3",
       statement="The area under the curve of layer 0's importance is between 0.45 and 0.55.",
       quantity="area under the curve", bound=within(0.45, 0.55, "us: our reading of \"negligible\""),
       controls=("layer_0_is_flat_in_twelve_layers",), **PRE_TRAINED)
def layer_0_is_flat(f):
    return signal(f, "probes.importance.layers[0].auc")


@claim(place="Section 3.1, Fig. 3",
       statement="The importance of layer 1 separates decodable tokens from others better than chance.",
       quantity="area under the curve", bound=above(0.5, "us: chance"),
       controls=("layer_0_is_flat_in_twelve_layers",), **PRE_TRAINED)
def layer_1_separates(f):
    return signal(f, "probes.importance.layers[1].auc")


@claim(place="Section 3.2, Fig. 4",
       statement="The top fifth of the importance difference holds at least half of the decodable tokens.",
       quantity="share of the decodable tokens in the highest fifth",
       bound=at_least(0.5, "us: more than half, for \"57.4 %\""),
       published=Published(0.574, "Fig. 4, HumanEval", 0.0005, says="57.4 % of them"),
       controls=("top_fifth_is_above_chance", "top_fifth_in_twelve_layers"), **PRE_TRAINED)
def top_fifth_holds_the_decodable(f):
    return signal(f, "probes.importance.delta_top_fifth")


@claim(place="Appendix B, Fig. 13",
       statement="The difference's top fifth holds more of the decodable tokens than that of "
                 "layer 1 alone.",
       quantity="share in the top fifth by the difference less that by layer 1",
       bound=above(0, "paper: \"more discriminative\""),
       published=Published(0.055, "appendix B, HumanEval: 57.4 - 51.9 %", 0.001),
       controls=("delta_beats_layer_1_by_area",), **PRE_TRAINED)
def delta_beats_layer_1(f):
    return difference(signal(f, "probes.importance.delta_top_fifth"),
                      signal(f, "probes.importance.layer1_top_fifth"))


@claim(place="Appendix D, Proposition D.1, Fig. 14",
       statement="The signal-to-noise ratio of the difference is above 1, as the bound on errors needs.",
       quantity="mean of the decodable over the deviation of the others",
       bound=above(1, "paper: the proposition's condition"), controls=("signal_to_noise_in_twelve_layers",),
       **PRE_TRAINED)
def signal_to_noise_above_one(f):
    return signal(f, "probes.importance.gamma")


@claim(place="Appendix D, equation 14",
       statement="The share of decodable tokens that eviction loses is at most exp(-(gamma - 1)^2 / 2).",
       quantity="eviction error less its bound", bound=at_most(0, "paper: equation 14"),
       controls=("signal_to_noise_in_twelve_layers",),
       **{**PRE_TRAINED, "regime": presumes_of_tasks("the signal-to-noise ratio is above 1",
          "probes.importance.gamma", above(1, "paper"), label=THRESHOLD)})
def eviction_error_keeps_its_bound(f):
    return difference(signal(f, "probes.importance.eviction_error"),
                      signal(f, "probes.importance.eviction_error_bound"))


@claim(place="Fig. 3, top", statement="Unmasked tokens draw most of the attention of a block.",
       quantity="share of the attention mass of the block on unmasked tokens", bound=above(0.5, "us: \"most\""),
       **PRE_TRAINED)
def decided_tokens_draw_attention(f):
    return signal(f, "probes.importance.decided_mass")


@claim(place="Appendix D.3", statement="The importance of tokens that are not decodable drifts down.",
       quantity="mean difference of the tokens that are not decodable", bound=below(0, "paper"),
       **PRE_TRAINED)
def others_drift_down(f):
    return signal(f, "probes.importance.delta_mean_of_others")


@claim(place="Appendix D.3", statement="The difference is less skewed than the importance of layer 1.",
       quantity="skewness of the difference less that of layer 1, absolute values",
       bound=below(0, "paper"), controls=("less_skewed_in_twelve_layers",), **PRE_TRAINED)
def difference_is_less_skewed(f):
    return difference(signal(f, "probes.importance.delta_skewness"),
                      signal(f, "probes.importance.layer1_skewness"))


@claim(place="Figs. 9 to 11", statement="Most steps unmask a single token on IFEval.", kind="signal",
       quantity="share of the steps that unmask one token", bound=above(0.5, "paper: mostly one"),
       regime=PRE_TRAINED_MODEL, artifacts=("figure_2",), scales=("real", "full"),
       tasks="instructions; IFEval at full", items="12 here", preset=HF, controls=("few_tokens_on_stories",),
       note=WITNESS)
def instructions_decide_one(f):
    rows = f.pick(label=THRESHOLD, workload=("instruction", "ifeval"))
    histograms = [row["probes"]["decoding"]["histogram"] for row in rows]
    items = sum(row["workload"]["items"] for row in rows)
    # As sure as its items are many: the steps of one go together.
    return share(items * sum(h[1] for h in histograms) / sum(map(sum, histograms)), items)


@claim(place="Appendix B, Fig. 12, \"universal\"",
       statement="The importance difference separates decodable tokens from others in every model.",
       kind="signal", quantity="area under the curve", bound=above(0.5, "us: chance"), regime=PRE_TRAINED_MODEL,
       artifacts=("figure_12",), scales=("full",), tasks="GSM8K", items="all of the data set",
       preset=HF, each_because="the paper says \"universal\"", controls=("delta_predicts_in_twelve_layers",))
def universal_over_models(f):
    return level(f, "probes.importance.layers[1].auc_delta", workload=("story", "gsm8k"))


# ---- Which rows are kept matters (section 5.1, Table 3) ----

OPEN_TEXT = {**SCORES, "artifacts": ("table_3",), "tasks": "stories, judged by a causal model: the "
             "other tasks are unmasked in one or two steps whatever is kept",
             "items": graded(0.03, 0.15),
             "controls": ("top_beats_random_on_answers", "top_beats_random_one_per_step",
                          "random_beats_bottom_one_per_step"),
             "regime": presumes("one or two tokens are unmasked per step", "committed_per_step",
                                at_most(FEW, "paper: Figure 2"), workload=CHAT)}


def kept(f, better, worse, k, model="tiny-sdar"):
    return score(f, f"{better}, K = {k}", f"{worse}, K = {k}", workload=CHAT, model=model)


@claim(place="Section 5.1, Table 3", statement="The 2 most important positions answer better than 2 random ones.",
       quantity="Top - Random, K = 2", bound=above(0, "paper"),
       published=Published(0.474, "Table 3, SDAR, K = 2, means of five tasks: 69.5 - 22.1", 0.001), **OPEN_TEXT)
def top_beats_random_of_2(f):
    return kept(f, "Top", "Random", 2)


@claim(place="Section 5.1, Table 3", statement="The 4 most important positions answer better than 4 random ones.",
       quantity="Top - Random, K = 4", bound=above(0, "paper"), decides=True,
       published=Published(0.342, "Table 3, SDAR, K = 4, means of five tasks: 68.7 - 34.5", 0.001), **OPEN_TEXT)
def top_beats_random_of_4(f):
    return kept(f, "Top", "Random", 4)


@claim(place="Section 5.1, Table 3", statement="The 8 most important positions answer better than 8 random ones.",
       quantity="Top - Random, K = 8", bound=above(0, "paper"),
       published=Published(0.165, "Table 3, SDAR, K = 8, means of five tasks: 68.4 - 51.9", 0.001), **OPEN_TEXT)
def top_beats_random_of_8(f):
    return kept(f, "Top", "Random", 8)


@claim(place="Section 5.1, Table 3",
       statement="2 random positions answer better than the 2 least important ones.",
       quantity="Random - Bottom, K = 2", bound=above(0, "paper"),
       published=Published(0.052, "Table 3, SDAR, K = 2, means of five tasks: 22.1 - 16.9", 0.001), **OPEN_TEXT)
def random_beats_bottom_of_2(f):
    return kept(f, "Random", "Bottom", 2)


@claim(place="Section 5.1, Table 3",
       statement="4 random positions answer better than the 4 least important ones.",
       quantity="Random - Bottom, K = 4", bound=above(0, "paper"),
       published=Published(0.113, "Table 3, SDAR, K = 4, means of five tasks: 34.5 - 23.2", 0.001), **OPEN_TEXT)
def random_beats_bottom_of_4(f):
    return kept(f, "Random", "Bottom", 4)


@claim(place="Section 5.1, Table 3",
       statement="8 random positions answer better than the 8 least important ones.",
       quantity="Random - Bottom, K = 8", bound=above(0, "paper"),
       published=Published(0.221, "Table 3, SDAR, K = 8, means of five tasks: 51.9 - 29.8", 0.001), **OPEN_TEXT)
def random_beats_bottom_of_8(f):
    return kept(f, "Random", "Bottom", 8)


@claim(place="Section 5.1, Table 3", statement="8 random positions answer better than 2 random ones.",
       quantity="Random, K = 8 less K = 2", bound=above(0, "paper"),
       published=Published(0.298, "Table 3, SDAR, means of five tasks: 51.9 - 22.1", 0.001), **OPEN_TEXT)
def random_rises_with_the_budget(f):
    return score(f, "Random, K = 8", "Random, K = 2", workload=CHAT, model="tiny-sdar")


@claim(place="Section 5.1, Table 3",
       statement="The 2 most important positions answer as well as the 8 most important ones.",
       quantity="Top, K = 2 less K = 8", bound=at_least(-0.02, "us: two points, for \"remains stable\""),
       published=Published(0.011, "Table 3, SDAR, means of five tasks: 69.5 - 68.4", 0.001), **OPEN_TEXT)
def top_stays_with_the_budget(f):
    return score(f, "Top, K = 2", "Top, K = 8", workload=CHAT, model="tiny-sdar")


@claim(place="Section 5.1, Table 3, LLaDA2.0",
       statement="The 2 most important positions answer better than 2 random ones on a mixture of experts.",
       quantity="Top - Random, K = 2", bound=above(0, "paper"), **OPEN_TEXT)
def top_beats_random_on_experts(f):
    return kept(f, "Top", "Random", 2, LLADA2)


@claim(place="Section 5.1, Table 3, LLaDA2.0",
       statement="2 random positions answer better than the 2 least important ones on a mixture of experts.",
       quantity="Random - Bottom, K = 2", bound=above(0, "paper"), **OPEN_TEXT)
def random_beats_bottom_on_experts(f):
    return kept(f, "Random", "Bottom", 2, LLADA2)


# ---- Quality (section 5.2, Table 4; section 5.4, Table 6) ----

ANSWERS = no_precondition("scores are compared at the paper's thresholds whatever is unmasked per step")
TABLE_4 = {**SCORES, "artifacts": ("table_4",), "regime": ANSWERS, "items": scored(0.02, 0.1)}
TABLE_6 = {**SCORES, "artifacts": ("table_6",), "regime": ANSWERS, "items": scored(0.02, 0.1)}


@claim(place="Section 5.2, Table 4", statement="FOCUS answers as well as plain block diffusion at threshold 0.9.",
       quantity="FOCUS - plain block diffusion, both at 0.9", bound=KEPT, decides=True,
       published=Published(0.016, "Table 4, means of five tasks: 69.2 - 67.6", 0.001),
       controls=("the_cache_keeps_quality",), **TABLE_4)
def as_good_at_0_9(f):
    return score(f, "Conf. 0.9, FOCUS, alpha 1.5", "Conf. 0.9, baseline")


@claim(place="Section 5.2, Table 4",
       statement="FOCUS answers better than plain block diffusion at threshold 0.8.",
       quantity="FOCUS - plain block diffusion, both at 0.8", bound=above(0, "paper"),
       published=Published(0.040, "Table 4, means of five tasks: 68.4 - 64.4", 0.001),
       controls=("low_thresholds_cost_whole_blocks",), **TABLE_4)
def better_at_0_8(f):
    return score(f, "Conf. 0.8, FOCUS, alpha 1.5", "Conf. 0.8, baseline")


@claim(decides=True, place="Section 5.2, Table 4",
       statement="FOCUS answers better than plain block diffusion at threshold 0.7.",
       quantity="FOCUS - plain block diffusion, both at 0.7", bound=above(0, "paper"),
       published=Published(0.0506, "Table 4, means of five tasks: 66.67 - 61.61", 0.0001),
       controls=("low_thresholds_cost_whole_blocks",), **TABLE_4)
def robust_at_low_thresholds(f):
    return score(f, "Conf. 0.7, FOCUS, alpha 1.5", "Conf. 0.7, baseline")


@claim(place="Section 5.2, Table 4",
       statement="Plain block diffusion answers worse at threshold 0.7 than at 0.9.",
       quantity="plain block diffusion, 0.7 less 0.9", bound=below(0, "paper"),
       published=Published(-0.06, "Table 4, means of five tasks: 61.6 - 67.6", 0.001),
       controls=("the_cache_keeps_quality",), **TABLE_4)
def whole_blocks_fall(f):
    return score(f, "Conf. 0.7, baseline", "Conf. 0.9, baseline")


@claim(place="Section 5.4, Table 6",
       statement="The delayed cache without the neighbour rule (DC) answers worse than plain block diffusion.",
       quantity="DC - plain block diffusion", bound=below(0, "paper"),
       published=Published(-0.0436, "Table 6, means of five tasks: 63.24 - 67.60", 0.0001),
       controls=("the_cache_keeps_quality",), **TABLE_6)
def dc_loses_quality(f):
    return score(f, "DC", "Baseline")


@claim(place="Section 5.4, Table 6", statement="Waiting for the right neighbour (DC+) answers better than DC.",
       quantity="DC+ - DC", bound=above(0, "paper"),
       published=Published(0.024, "Table 6, means of five tasks: 65.64 - 63.24", 0.0001),
       controls=("the_cache_keeps_quality",), **TABLE_6)
def dc_plus_repairs(f):
    return score(f, "DC+", "DC")


@claim(place="Abstract, section 5.4, Table 6", statement="FOCUS answers as well as plain block diffusion.",
       quantity="FOCUS at 0.8 - plain block diffusion at 0.9", bound=KEPT, decides=True,
       published=Published(0.0077, "Table 6, means of five tasks: 68.37 - 67.60", 0.0001),
       controls=("keeps_quality_at_equal_thresholds", "the_cache_keeps_quality"), **TABLE_6)
def focus_keeps_quality(f):
    return score(f, "FOCUS", "Baseline")


# ---- Speed (abstract, section 5.3, Figs. 6 and 7; section 5.4, Fig. 8) ----

RIVALS_32 = ("dc_on_chat", "small_blocks_on_chat", "fixed_tokens_on_chat", "tuned_threshold_on_chat")


@claim(finding="plain block diffusion", decides=True, place="Section 5.3, Fig. 6",
       statement="FOCUS has a higher throughput than plain block diffusion in large batches of chats.",
       quantity="throughput, FOCUS at 0.8 over plain block diffusion at 0.9", bound=FASTER,
       published=Published(2.32, "section 5.3, batch 256", 0.005), rivals=RIVALS_32,
       controls=("focus_over_dc_at_equal_text", "focus_over_dc_at_equal_thresholds",
                 "random_rows_at_equal_budget", "stories_stay_likely",
                 "stories_stay_likely_at_equal_thresholds", "dc_keeps_stories_likely"),
       note="Rows of Figure 8: the same points with text that is judged.", **AT_32)
def speedup_of_2_32(f):
    return speed(f, "FOCUS", "LMDeploy", workload=CHAT, batch_size=LARGE, model=SDAR)


@claim(decides=True, place="Abstract, section 5.3, Fig. 7",
       statement="FOCUS has a higher throughput than plain block diffusion with blocks of 64.",
       quantity="throughput, FOCUS at 0.8 over plain block diffusion at 0.9, blocks of 64", bound=FASTER,
       published=Published(3.52, "section 5.3, Fig. 7", 0.005), rivals=("dc_at_blocks_of_64",),
       controls=("focus_over_dc_at_equal_text",), **IN_FIGURE_7)
def gain_at_blocks_of_64(f):
    return speed(f, "FOCUS", "LMDeploy", workload=CHAT, block_length=64, batch_size=32)


@claim(place="Section 5.3, Fig. 7",
       statement="FOCUS' speedup is larger with blocks of 64 than with blocks of 16.",
       quantity="speedup with blocks of 64 over that with blocks of 16",
       bound=above(1, "paper: a larger advantage with larger blocks"),
       controls=("dc_at_blocks_of_64", "fewer_rows_at_larger_blocks"),
       note="The paper prints 2.32 with blocks of 32 and 3.52 with 64, and no number with 16.", **IN_FIGURE_7)
def speedup_grows_with_the_block(f):
    return growth(f, "tokens_per_second", "FOCUS", "LMDeploy", "block_length", 16, 64, workload=CHAT,
                  batch_size=32)


@claim(place="Section 5.3, Fig. 6",
       statement="The speedup of FOCUS is larger in large batches than in small ones.",
       quantity="speedup at batch 32 (256 at full) over that at batch 1 (32)",
       bound=above(1, "paper: the baseline is flat from 32 to 256, FOCUS grows on"), rivals=(),
       controls=("speedup_of_a_batch_of_one",), **{**IN_FIGURE_6, "scales": ("tiny",)})
def speedup_grows_with_the_batch(f):
    return growth(f, "tokens_per_second", "FOCUS", "LMDeploy", "batch_size", 1, 32, workload=CHAT,
                  model=SDAR)


@claim(place="Section 5.3, Fig. 6",
       statement="The throughput of plain block diffusion stays within a quarter from batch 32 to 256.",
       kind="speed", quantity="throughput of plain block diffusion, batch 256 over 32", quality=KEPT,
       bound=within(0.8, 1.25, "us: a quarter either way, for \"approximately 900 tokens/s\""),
       published=Published(1.0, "section 5.3: about 900 tokens/s from 32 to 256", 0.05, True),
       regime=no_precondition("it is a statement about the machine"), artifacts=("figure_6",),
       scales=("shapes", "full"), tasks="every task of the file", items=repeated(0.1, 0.05),
       clock="output tokens per second, prefill included", preset=LMD)
def whole_blocks_saturate(f):
    return speed(f, {"label": "LMDeploy", "batch_size": 256}, {"label": "LMDeploy", "batch_size": 32})


@claim(place="Section 5.3, Fig. 6",
       statement="FOCUS has a higher throughput than plain block diffusion on chats with LLaDA2.0.",
       quantity="throughput, FOCUS at 0.8 over plain block diffusion at 0.9, mixture of experts", bound=FASTER,
       published=Published(1.54, "section 5.3, ShareGPT: 3369 / 2181", 0.005),
       controls=("llada2_rows_are_fewer",), **IN_FIGURE_6)
def llada2_speedup(f):
    return speed(f, "FOCUS", "LMDeploy", workload=CHAT, batch_size=LARGE, model=LLADA2)


@claim(place="Section 5.3",
       statement="FOCUS has a lower throughput than plain block diffusion with LLaDA2.0 on MATH at batch 64.",
       quantity="throughput, FOCUS over plain block diffusion, MATH, batch 64",
       bound=below(1, "paper: \"slight regression\""), regime=few_a_step(workload="math500", batch_size=64),
       **{k: v for k, v in IN_FIGURE_6.items() if k not in ("regime", "scales")}, scales=("full",))
def llada2_loses_on_math(f):
    return speed(f, "FOCUS", "LMDeploy", workload="math500", batch_size=64, model=LLADA2)


@claim(place="Appendix F.2, Fig. 15", statement="FOCUS has a higher throughput than Fast-dLLM v2.",
       quantity="throughput in one engine, FOCUS over Fast-dLLM v2, each on its model", bound=FASTER,
       published=Published(9.04, "caption of Fig. 15, the largest: WildChat", 0.005,
                           says="up to 9.04 times the throughput"), rivals=("whole_blocks_over_fast_dllm_v2",),
       controls=("focus_over_cached_fast_dllm_v2", "rows_against_fast_dllm_v2"),
       note="The paper compares engines too, one without continuous batching; here is one engine.",
       **IN_FIGURE_15)
def speedup_over_fast_dllm_v2(f):
    return speed(f, EVICTING, NESTED, workload=CHATS, batch_size=LARGE)


@claim(place="Appendix F.2",
       statement="FOCUS computes fewer positions per token than Fast-dLLM v2 with its cache.",
       bound=below(1, "us: our reading of \"ineffective redundancy reduction\" on the other side"),
       **{**ROWS, **OF_FIGURE_15, "controls": ("rows_against_fast_dllm_v2",)})
def rows_against_cached_fast_dllm_v2(f):
    return ratio(f, "processed_rows_per_output", EVICTING, NESTED_CACHED, workload=CHATS, batch_size=LARGE)


@claim(decides=True, place="Section 5.4, Fig. 8",
       statement="FOCUS has a higher throughput than its cache alone (DC+).",
       quantity="throughput, FOCUS at 0.8 over DC+ at 0.9", bound=FASTER,
       rivals=("dc_over_dc_plus",),
       controls=("focus_over_dc_plus_at_equal_thresholds", "focus_with_stored_keys_keeps_stories_likely",
                 "focus_with_stored_keys_over_blocks", "focus_with_stored_keys_over_dc_at_equal_text"), **AT_32)
def eviction_beats_the_cache_alone(f):
    return speed(f, "FOCUS", "DC+", workload=CHAT, batch_size=LARGE)


@claim(place="Section 5.4, Fig. 8",
       statement="The cache inside the block (DC+) has a higher throughput than plain block diffusion.",
       quantity="throughput, DC+ over plain block diffusion, both at 0.9", bound=FASTER,
       controls=("dc_on_chat", "dc_plus_keeps_stories_likely", "dc_plus_with_stored_keys_keeps_stories_likely"), **AT_32)
def cache_beats_blocks(f):
    return speed(f, "DC+", "LMDeploy", workload=CHAT, batch_size=LARGE)


# ---- Work (abstract, Table 5; section 4.2) ----

FEWER = at_most(0.35, "paper: \"65 to 80 %\" fewer")


@claim(decides=True, place="Section 1, Table 5",
       statement="FOCUS computes at least 65 % fewer positions per token than plain block diffusion on chats.",
       bound=FEWER,
       published=Published(0.2077, "Table 5, SDAR, ShareGPT: 3.12 / 15.02", 0.0005, says="79 % fewer"),
       regime=few_a_step("BD32", workload=CHAT, model=SDAR), **ROWS)
def rows_on_chat(f):
    return ratio(f, "processed_rows_per_output", "FOCUS", "BD32", workload=CHAT, model=SDAR)


@claim(place="Section 5.3, Table 5",
       statement="FOCUS computes at least 65 % fewer positions per token than plain block diffusion on MATH.",
       bound=FEWER, published=Published(0.361, "Table 5, SDAR, MATH: 2.69 / 7.45", 0.001, says="64 % fewer"),
       regime=few_a_step("BD32", workload=("word_problem", "math500"), model=SDAR), **ROWS)
def rows_on_math(f):
    return ratio(f, "processed_rows_per_output", "FOCUS", "BD32", workload=("word_problem", "math500"),
                 model=SDAR)


@claim(place="Table 5",
       statement="FOCUS computes at least 65 % fewer positions per token than plain block diffusion on chats "
                 "with LLaDA2.0.", bound=FEWER, regime=few_a_step("BD32", workload=CHAT, model=LLADA2), **ROWS)
def llada2_rows_on_chat(f):
    return ratio(f, "processed_rows_per_output", "FOCUS", "BD32", workload=CHAT, model=LLADA2)


@claim(place="Table 5",
       statement="FOCUS computes at least 65 % fewer positions per token than plain block diffusion on MATH "
                 "with LLaDA2.0.", bound=FEWER,
       published=Published(0.300, "Table 5, LLaDA2.0, MATH: 3.04 / 10.13", 0.0005, says="70 % fewer"),
       regime=few_a_step("BD32", workload=("word_problem", "math500"), model=LLADA2), **ROWS)
def llada2_rows_on_math(f):
    return ratio(f, "processed_rows_per_output", "FOCUS", "BD32", workload=("word_problem", "math500"),
                 model=LLADA2)


@claim(decides=True, place="Section 5.3, appendix E.5", statement="Choosing positions takes at most 2 % of the time.",
       kind="signal", quantity="share of the time spent on choosing and evicting positions",
       bound=at_most(0.02, "us: up to 2 %, for \"approximately 1 %\""),
       published=Published(0.01, "appendix E.5", 0.005, says="about 1 % of a step"),
       regime=presumes("layers are as dear as those of a model of a billion parameters",
                       "parameters", at_least(1e9, "us: the paper has 8 billion"), label="FOCUS"),
       artifacts=("table_5",), scales=("full",), tasks="every task of the file", items=repeated(0.2, 0.1),
       clock="share of the time, measured", preset=LMD)
def overhead_is_small(f):
    return level(f, "selection_share", label="FOCUS")


# ---- Controls ----

SIMPLER = {**AT_32, "bound": FASTER}


@control(statement="The delayed cache without eviction (DC) is faster than plain block diffusion.",
         quantity="throughput, DC over plain block diffusion", **SIMPLER)
def dc_on_chat(f):
    return speed(f, "DC", "LMDeploy", workload=CHAT, batch_size=LARGE, model=SDAR)


@control(statement="DC is faster than DC+.", quantity="throughput, DC over DC+", **SIMPLER)
def dc_over_dc_plus(f):
    return speed(f, "DC", "DC+", workload=CHAT, batch_size=LARGE)


@control(statement="Blocks of 2, 4 and 8 are faster than blocks of 32.",
         quantity="throughput, blocks of 2, 4 and 8 over blocks of 32", **SIMPLER)
def small_blocks_on_chat(f):
    return speed(f, ("BD2", "BD4", "BD8"), "LMDeploy", workload=CHAT, batch_size=LARGE, model=SDAR)


@control(statement="Two tokens per step are faster than plain block diffusion.",
         quantity="throughput, a fixed number of tokens per step over plain block diffusion", **SIMPLER)
def fixed_tokens_on_chat(f):
    return speed(f, "two tokens a step", "LMDeploy", workload=CHAT, batch_size=LARGE, model=SDAR)


@control(statement="A threshold that writes text as likely as FOCUS' makes plain block diffusion faster than "
                   "0.9 does.", quantity="throughput, plain block diffusion at a tuned threshold over 0.9", **SIMPLER)
def tuned_threshold_on_chat(f):
    return speed(f, "whole blocks, threshold 0.8", "LMDeploy", workload=CHAT, batch_size=LARGE,
                 model=SDAR)


@control(statement="DC is faster than plain block diffusion with blocks of 64.",
         quantity="throughput, DC over plain block diffusion, blocks of 64", bound=FASTER, **IN_FIGURE_7)
def dc_at_blocks_of_64(f):
    return speed(f, "DC", "LMDeploy", workload=CHAT, block_length=64, batch_size=32)


@control(statement="FOCUS is faster than the fastest of DC and DC+ whose text is as likely.",
         quantity="throughput at equal text, FOCUS over DC or DC+", **SIMPLER)
def focus_over_dc_at_equal_text(f):
    return at_equal_score(f, "FOCUS", ("DC", "DC, threshold 0.8", "DC, threshold 0.7", "DC+"),
                          workload=CHAT, batch_size=LARGE)


@control(statement="At the same threshold FOCUS is faster than DC.",
         quantity="throughput, FOCUS over DC, both at 0.9", **SIMPLER)
def focus_over_dc_at_equal_thresholds(f):
    return speed(f, "FOCUS, threshold 0.9", "DC", workload=CHAT, batch_size=LARGE)


@control(statement="At the same threshold FOCUS is faster than DC+.",
         quantity="throughput, FOCUS over DC+, both at 0.9", **SIMPLER)
def focus_over_dc_plus_at_equal_thresholds(f):
    return speed(f, "FOCUS, threshold 0.9", "DC+", workload=CHAT, batch_size=LARGE)


@control(statement="Positions that FOCUS chooses are faster than random ones at its budget of two.",
         quantity="throughput, FOCUS over random positions at its budget", **SIMPLER)
def random_rows_at_equal_budget(f):
    return speed(f, "FOCUS, threshold 0.9", "FOCUS, 2 random rows", workload=CHAT, batch_size=LARGE)


@control(statement="Plain block diffusion on FOCUS' model is faster than Fast-dLLM v2 on its own.",
         quantity="throughput, plain block diffusion at 0.9 over Fast-dLLM v2", bound=FASTER, **IN_FIGURE_15)
def whole_blocks_over_fast_dllm_v2(f):
    return speed(f, WHOLE, NESTED, workload=CHATS, batch_size=LARGE)


@control(statement="FOCUS is faster than Fast-dLLM v2 with its cache in the block.",
         quantity="throughput, FOCUS over Fast-dLLM v2 with its cache", bound=FASTER, **IN_FIGURE_15)
def focus_over_cached_fast_dllm_v2(f):
    return speed(f, EVICTING, NESTED_CACHED, workload=CHATS, batch_size=LARGE)


@control(statement="FOCUS computes fewer positions per token than Fast-dLLM v2 without its cache.",
         bound=below(1, "us"), **{**ROWS, **OF_FIGURE_15, "controls": ()})
def rows_against_fast_dllm_v2(f):
    return ratio(f, "processed_rows_per_output", EVICTING, NESTED, workload=CHATS, batch_size=LARGE)


@control(statement="FOCUS is faster than plain block diffusion with one request.",
         quantity="throughput at batch 1, FOCUS over plain block diffusion", bound=FASTER,
         **{**IN_FIGURE_6, "scales": ("tiny",)})
def speedup_of_a_batch_of_one(f):
    return speed(f, "FOCUS", "LMDeploy", workload=CHAT, batch_size=1, model=SDAR)


@control(statement="FOCUS saves more positions with blocks of 64 than with blocks of 16.", kind="count",
         quantity="computed/unmasked, FOCUS over plain block diffusion: blocks of 64 over 16", bound=below(1, "us"),
         regime=few_a_step(workload=CHAT, batch_size=32), preset=LMD, artifacts=("figure_7",), scales=("tiny",),
         tasks="stories", items="32 stories")
def fewer_rows_at_larger_blocks(f):
    return growth(f, "processed_rows_per_output", "FOCUS", "LMDeploy", "block_length", 16, 64,
                  workload=CHAT, batch_size=32)


@control(statement="FOCUS computes fewer positions per token than plain block diffusion with LLaDA2.0.",
         bound=below(1, "us"), regime=few_a_step("BD32", workload=CHAT, model=LLADA2), **{**ROWS, "controls": ()})
def llada2_rows_are_fewer(f):
    return ratio(f, "processed_rows_per_output", "FOCUS", "BD32", workload=CHAT, model=LLADA2)


@control(statement="At the same threshold FOCUS computes at least 65 % fewer positions per token on chats.",
         bound=FEWER, regime=few_a_step("BD32", workload=CHAT, model=SDAR), **{**ROWS, "controls": ()})
def rows_at_equal_thresholds(f):
    return ratio(f, "processed_rows_per_output", "FOCUS, threshold 0.9", "BD32", workload=CHAT,
                 model=SDAR)


TEXT = {**SCORES, "preset": LMD, "artifacts": ("figure_8",), "scales": ("scores",), "bound": KEPT,
        "regime": few_a_step(workload=CHAT), "tasks": "stories, judged by an autoregressive model",
        "items": scored(0.05, 0.5)}


@control(statement="FOCUS writes stories as likely as those of plain block diffusion.",
         quantity="likelihood per token, FOCUS - plain block diffusion", **TEXT)
def stories_stay_likely(f):
    return score(f, "FOCUS", "LMDeploy", workload=CHAT)


@control(statement="FOCUS writes stories as likely as those of plain block diffusion at the same threshold.",
         quantity="likelihood per token, FOCUS at 0.9 - plain block diffusion", **TEXT)
def stories_stay_likely_at_equal_thresholds(f):
    return score(f, "FOCUS, threshold 0.9", "LMDeploy", workload=CHAT)


@control(statement="DC writes stories as likely as those of plain block diffusion.",
         quantity="likelihood per token, DC - plain block diffusion", **TEXT)
def dc_keeps_stories_likely(f):
    return score(f, "DC", "LMDeploy", workload=CHAT)


@control(statement="DC+ writes stories as likely as those of plain block diffusion.",
         quantity="likelihood per token, DC+ - plain block diffusion", **TEXT)
def dc_plus_keeps_stories_likely(f):
    return score(f, "DC+", "LMDeploy", workload=CHAT)


@control(statement="Plain block diffusion answers worse at threshold 0.7 than at 0.9.",
         quantity="plain block diffusion, 0.7 less 0.9", bound=below(0, "us"), **TABLE_4)
def low_thresholds_cost_whole_blocks(f):
    return score(f, "Conf. 0.7, baseline", "Conf. 0.9, baseline")


@control(statement="FOCUS answers as well as plain block diffusion at threshold 0.9.",
         quantity="FOCUS at 0.9 - plain block diffusion", bound=KEPT, **TABLE_6)
def keeps_quality_at_equal_thresholds(f):
    return score(f, "FOCUS, threshold 0.9", "Baseline")


@control(statement="The cache without eviction (DC+) answers as well as plain block diffusion.",
         quantity="DC+ - plain block diffusion", bound=KEPT, **TABLE_6)
def the_cache_keeps_quality(f):
    return score(f, "DC+", "Baseline")


ON_ANSWERS = {**SCORES, "artifacts": ("table_3",), "regime": ANSWERS, "items": scored(0.02, 0.2),
              "tasks": "four tasks whose answers are unmasked in one or two steps"}


@control(statement="The 4 most important positions answer better than random ones on tasks of one or two steps.",
         quantity="Top - Random, K = 4", bound=above(0, "us"), **ON_ANSWERS)
def top_beats_random_on_answers(f):
    return score(f, "Top, K = 4", "Random, K = 4", model="tiny-sdar")


@control(statement="The 4 most important positions answer better than random ones if every step unmasks one "
                   "token.", quantity="Top - Random, K = 4, one token per step", bound=above(0, "us"), **ON_ANSWERS)
def top_beats_random_one_per_step(f):
    return score(f, "Top, K = 4, one per step", "Random, K = 4, one per step")


@control(statement="Random positions answer better than the least important ones if every step unmasks one "
                   "token.", quantity="Random - Bottom, K = 4, one token per step", bound=above(0, "us"), **ON_ANSWERS)
def random_beats_bottom_one_per_step(f):
    return score(f, "Random, K = 4, one per step", "Bottom, K = 4, one per step")


@control(statement="Plain block diffusion unmasks at most 4.05 tokens per step on stories.", kind="signal",
         quantity="tokens unmasked per step, mean over steps", bound=at_most(FEW, "paper: Figure 2"),
         regime=no_precondition("it says which task is in the regime"), artifacts=("figure_2",), scales=("tiny",),
         tasks="stories", items="40", preset=HF)
def few_tokens_on_stories(f):
    return level(f, "probes.decoding.mean", label=THRESHOLD, workload="story")


@control(statement="Plain block diffusion unmasks at most 4.05 tokens per step on the included tasks with an "
                   "answer.", kind="signal", quantity="tokens unmasked per step, mean over steps",
         bound=at_most(FEW, "paper: Figure 2"), regime=no_precondition("it says which tasks are in the regime"),
         artifacts=("figure_2",), scales=("tiny",), tasks="all but stories", items="40 per task", preset=HF)
def few_tokens_on_embedded_tasks(f):
    return level(f, "probes.decoding.mean", label=THRESHOLD,
                 workload=("equation", "instruction", "list_program", "word_problem"))


@control(statement="The top fifth of the difference holds more than a fifth of the decodable tokens.",
         quantity="share of the decodable tokens in the highest fifth", bound=above(0.2, "us: chance"), **PRE_TRAINED)
def top_fifth_is_above_chance(f):
    return signal(f, "probes.importance.delta_top_fifth")


@control(statement="By area, too, the difference separates better than layer 1 alone.",
         quantity="area under the curve, difference less layer 1, of the same draws",
         bound=above(0, "us"), **PRE_TRAINED)
def delta_beats_layer_1_by_area(f):
    return signal(f, "probes.importance.layers[1].auc_gain")


@control(statement="The difference separates decodable tokens from others in twelve layers trained from zero.",
         quantity="area under the curve", bound=above(0.5, "us: chance"), **IN_TWELVE)
def delta_predicts_in_twelve_layers(f):
    return signal(f, "probes.importance.layers[1].auc_delta")


@control(statement="The area under the curve of layer 0's importance is between 0.45 and 0.55 in twelve layers.",
         quantity="area under the curve", bound=within(0.45, 0.55, "us"), **IN_TWELVE)
def layer_0_is_flat_in_twelve_layers(f):
    return signal(f, "probes.importance.layers[0].auc")


@control(statement="The top fifth holds at least half of the decodable tokens in twelve layers.",
         quantity="share of the decodable tokens in the highest fifth", bound=at_least(0.5, "us"), **IN_TWELVE)
def top_fifth_in_twelve_layers(f):
    return signal(f, "probes.importance.delta_top_fifth")


@control(statement="In twelve layers the signal-to-noise ratio is above 1.",
         quantity="mean of the decodable over the deviation of the others", bound=above(1, "us"), **IN_TWELVE)
def signal_to_noise_in_twelve_layers(f):
    return signal(f, "probes.importance.gamma")


@control(statement="In twelve layers the difference is less skewed than layer 1.",
         quantity="skewness of the difference less that of layer 1, absolute values", bound=below(0, "us"), **IN_TWELVE)
def less_skewed_in_twelve_layers(f):
    return difference(signal(f, "probes.importance.delta_skewness"),
                      signal(f, "probes.importance.layer1_skewness"))


# ---- Keys of every stored token (section 4.3): the published engine ends them at the last retained row ----

@control(statement="DC+ that sees every stored token writes stories as likely as plain block diffusion.",
         quantity="likelihood per token, DC+ with stored keys - plain block diffusion", **TEXT)
def dc_plus_with_stored_keys_keeps_stories_likely(f):
    return score(f, "DC+, stored keys", "LMDeploy", workload=CHAT)


@control(statement="FOCUS that sees every stored token writes stories as likely as plain block diffusion.",
         quantity="likelihood per token, FOCUS with stored keys - plain block diffusion, both at 0.9", **TEXT)
def focus_with_stored_keys_keeps_stories_likely(f):
    return score(f, "FOCUS, threshold 0.9, stored keys", "LMDeploy", workload=CHAT)


@control(statement="FOCUS that sees every stored token is faster than plain block diffusion.",
         quantity="throughput, FOCUS with stored keys over plain block diffusion, both at 0.9", **SIMPLER)
def focus_with_stored_keys_over_blocks(f):
    return speed(f, "FOCUS, threshold 0.9, stored keys", "LMDeploy", workload=CHAT, batch_size=LARGE)


@control(statement="FOCUS that sees every stored token is faster than the fastest DC or DC+ whose text is as likely.",
         quantity="throughput at equal text, FOCUS with stored keys over DC or DC+ with either range of keys", **SIMPLER)
def focus_with_stored_keys_over_dc_at_equal_text(f):
    return at_equal_score(f, "FOCUS, stored keys",
                          ("DC", "DC, stored keys", "DC, threshold 0.8", "DC, threshold 0.7", "DC+", "DC+, stored keys"),
                          workload=CHAT, batch_size=LARGE)
