# SPDX-License-Identifier: Apache-2.0
"""What Optimus (arXiv 2605.24832) claims, and the controls beside it.

Against autoregressive decoding tokens behind the end of an answer do not count: the paper speaks of output
tokens, and a block model alone decides them. How much it gains by counting them stands beside as a control.
Serving claims run on a virtual clock: commits a step and lengths have the published means and deviations,
and the cost of a forward the shape that explains the paper's figures. What they check is the scheduling, not
the machine; the curve itself is held against Figure 1 by claims of its own."""

from unmask.claims import (Published, above, at_least, at_most, below, claim, control, fastest_rival,
                           calibration, graded, growth, largest, level, no_precondition, presumes, presumes_a_gpu,
                           presumes_of_the_clock, quotient, ratio, repeated, score, scored, smallest, speed, within)

DELIVERED = "decode_output_tokens_per_second"
DECIDED = "decode_tokens_per_second"
SERVED_BY_BLOCKS = 2.60  # requests per second, section 7.7
RATE = "slo_capacity_requests_per_second"
BLOCKS = {"model": ("tiny-sdar", "sdar-8b", "SDAR-8B-Chat-b32")}
CAUSAL = {"model": ("tiny-ar", "qwen3-8b", "Qwen3-8B")}
CHUNKS = ("chunk 2", "chunk 4", "chunk 8", "chunk 16", "chunk 32")
LARGE = (64, 256)
KEPT = at_least(-0.02, "us: two points, for \"minimal\" effect on accuracy")
FASTER = above(1, "paper: higher throughput")
GPU = presumes_a_gpu("the machine is a GPU, idle at small batches: a step over 32 positions costs as much as one "
                     "over one position; a CPU pays for every position")
ANY = no_precondition("block methods are compared with each other on one machine")

SPEEDS = {"kind": "speed", "quality": KEPT, "scales": ("tiny", "shapes", "full"), "regime": ANY,
          "tasks": "every task of the file", "items": repeated(0.05, 0.03),
          "clock": "output tokens per second of the decode, prefill left out",
          "preset": "elastic: chunks of 2 to 32, threshold 0.9"}
OVER_AR = {**SPEEDS, "regime": GPU}
FIGURE_1 = {"artifacts": ("figure_1",)}
FIGURE_3 = {"artifacts": ("figure_3",), "scales": ("tiny", "full")}
FIGURE_8 = {"artifacts": ("figure_8",)}
FIGURE_9 = {"artifacts": ("figure_9",)}
SERVED = {"kind": "capacity", "scales": ("tiny", "shapes"),
          "tasks": "arrivals and lengths of ShareGPT, imposed",
          "quantity": "requests per second that keep 50 ms per token",
          "clock": "virtual, replayed unmasking: no text",
          "items": "3 seeds of the search; a mean over assumed scales of the cost, a tenth apart",
          "regime": no_precondition("unmasking and costs are imposed on both sides"),
          "preset": "elastic, policy iter: batches change after every forward pass"}


def ours(label):
    return {"label": label, **BLOCKS}


def causal(label):
    return {"label": label, **CAUSAL}


# ---- Blocks against autoregressive decoding (sections 1 and 3) ----

@claim(place="Section 3.2, Figs. 1 and 3b",
       statement="Blocks of 32 have a higher throughput than autoregressive decoding with one request.",
       quantity="throughput, BD32 over AR, batch 1", bound=FASTER,
       published=Published(3.2, "section 3.2, up to, batches up to 16", 0.05, says="up to 3.2 times the throughput"),
       controls=("blocks_win_alone_by_decided_tokens", "blocks_win_alone_on_a_cpu"), **OVER_AR, **FIGURE_1)
def blocks_win_alone(f):
    return speed(f, ours("BD32"), causal("AR"), DELIVERED, batch_size=1)


@claim(place="Section 3.2, Figs. 1 and 3b",
       statement="Autoregressive decoding has a higher throughput than blocks of 32 in the largest batch.",
       quantity="throughput, AR over BD32, batch 512 (64 here)", bound=FASTER,
       published=Published(6.2, "section 3.2, up to", 0.05, says="up to 6.2 times the throughput"),
       controls=("ar_wins_by_decided_tokens",),
       **{**SPEEDS, "regime": no_precondition("a CPU pays for every position as a full GPU does")}, **FIGURE_1)
def ar_wins_in_large_batches(f):
    return speed(f, causal("AR"), ours("BD32"), DELIVERED, batch_size=(64, 512))


SATURATION = {**SPEEDS, **FIGURE_1, "scales": ("shapes", "full"),
              "clock": "unmasked tokens per second; at shapes on the virtual clock, whose curve this checks"}


@claim(place="Sections 1 and 3.2, Fig. 1",
       statement="The throughput of blocks of 32 grows by at most a quarter from 16 to 64 requests.",
       quantity="throughput of BD32, 64 requests over 16", bound=at_most(1.25, "us: for \"no longer improves\""),
       **SATURATION)
def blocks_saturate(f):
    return speed(f, {"label": "BD32", "batch_size": 64}, {"label": "BD32", "batch_size": 16}, DECIDED)


@claim(place="Sections 1 and 3.2, Fig. 1",
       statement="The throughput of autoregressive decoding grows by at least half from 16 to 64 requests.",
       quantity="throughput of AR, 64 requests over 16", bound=at_least(1.5, "us: for \"keeps growing\""),
       controls=("blocks_of_32_grow_on",), **SATURATION)
def ar_grows_on(f):
    return speed(f, {"label": "AR", "batch_size": 64}, {"label": "AR", "batch_size": 16}, DECIDED)


@claim(place="Section 3.3, Fig. 3d",
       statement="Above 32 requests blocks of 8 have a higher throughput than blocks of 32.",
       quantity="throughput, BD8 over BD32, 64 requests", bound=FASTER,
       controls=("small_blocks_take_more_forwards",), **{**SPEEDS, "scales": ("tiny", "full")}, **FIGURE_1)
def blocks_of_8_win_in_large_batches(f):
    return speed(f, "BD8", "BD32", DELIVERED, batch_size=64)


@claim(place="Section 3.3, Fig. 3d",
       statement="In large batches blocks of 4 have a higher throughput than blocks of 32.",
       quantity="throughput, BD4 over BD32, 32 requests and more", bound=FASTER,
       controls=("small_blocks_take_more_forwards",), **{**SPEEDS, **FIGURE_3})
def blocks_of_4_win_in_large_batches(f):
    return speed(f, "BD4", "BD32", DELIVERED, batch_size=(32, 512))


@claim(place="Section 3.3, Fig. 3d",
       statement="With one request blocks of 32 have a higher throughput than blocks of 4.",
       quantity="throughput, BD32 over BD4, batch 1", bound=FASTER,
       controls=("small_blocks_take_more_forwards",), **{**OVER_AR, **FIGURE_3})
def small_blocks_lose_alone(f):
    return speed(f, "BD32", "BD4", DELIVERED, batch_size=1)


USED = {"kind": "signal", "items": "32 stories", "preset": "blocks, threshold 0.9",
        "clock": "none: computed positions and tokens are counted",
        "note": "Tokens that a prefill unmasks are in the numerator, its positions are not in the denominator."}


@claim(place="Section 3.3, Fig. 3c", statement="Blocks of 32 unmask 9 % to 15 % of the positions that they compute.",
       quantity="unmasked tokens, with those of prefill, over computed positions of decode passes",
       bound=within(0.09, 0.15, "us: a quarter either way of the published 0.12"),
       published=Published(0.12, "section 3.3, 3.8 / 32", 0.005, says="about 12 %"), artifacts=("figure_9",),
       scales=("tiny", "full"),
       regime=presumes("few tokens are unmasked per step, 3.8 as in the paper", "committed_per_step",
                       at_most(4.05, "us: within 7 % of the published 3.8"), label="LMDeploy-BD32",
                       workload=("story", "sharegpt"), batch_size=1),
       tasks="stories: the file of Figure 3 has word problems, at 10 tokens per step",
       controls=("utilisation_on_word_problems",), **USED)
def low_token_utilisation(f):
    return level(f, "token_utilisation", label="LMDeploy-BD32", workload=("story", "sharegpt"), batch_size=1)


@claim(place="Section 3.3, Fig. 3c",
       statement="Blocks of 32 unmask a smaller share of their positions than blocks of 4.",
       quantity="token utilisation, BD32 over BD4", bound=below(1, "paper"), artifacts=("figure_3",),
       scales=("tiny", "full"), tasks="word problems", regime=no_precondition("it compares block sizes"),
       controls=("small_blocks_take_more_forwards",), **{**USED, "kind": "count", "items": "32"})
def utilisation_falls_with_the_block(f):
    return ratio(f, "token_utilisation", "BD32", "BD4", batch_size=1)


# ---- The scheduler's models (section 5) ----

MODELS_OF = {"artifacts": ("figure_5",), "scales": ("tiny", "full"), "tasks": "stories and word problems",
             "items": "64 per task", "regime": no_precondition("the scheduler rests on it on every load"),
             "preset": "elastic", "clock": "none: unmasked tokens are counted"}


@claim(place="Section 5.3, Fig. 5b", statement="Chunks of 32 unmask more tokens per step than chunks of 4.",
       kind="count", quantity="tokens per step, chunk 32 over chunk 4", bound=above(1, "paper"),
       controls=("commits_are_foretold",), **MODELS_OF)
def commits_grow_with_the_chunk(f):
    return ratio(f, "committed_per_step", "chunk 32", "chunk 4")


@claim(place="Section 5.3, Fig. 5b", statement="Token utilisation falls as the chunk grows.",
       kind="count", quantity="token utilisation, chunk 32 over chunk 4", bound=below(1, "paper"),
       controls=("commits_are_foretold",), **MODELS_OF)
def utilisation_falls_with_the_chunk(f):
    return ratio(f, "token_utilisation", "chunk 32", "chunk 4")


@claim(place="Section 5.3, Fig. 5b",
       statement="Doubling chunks of 16 adds proportionally fewer unmasked tokens per step than doubling chunks "
                 "of 2.", kind="count",
       quantity="tokens per step, chunk 32 over chunk 16, squared growth below that of chunk 4 "
                "over chunk 2", bound=below(1, "paper: concave"), controls=("commits_are_foretold",), **MODELS_OF)
def commits_are_concave(f):
    late = ratio(f, "committed_per_step", "chunk 32", "chunk 16")
    early = ratio(f, "committed_per_step", "chunk 4", "chunk 2")
    late.points = [(f"late {name}", e) for name, e in late.points] + [
        (f"early {name}", e) for name, e in early.points]
    late.estimate = quotient(late.estimate, early.estimate)
    return late


# ---- Accuracy (section 7.2, Fig. 7) ----

ACCURACY = {"kind": "score", "artifacts": ("figure_7",), "scales": ("tiny", "full"),
            "items": scored(0.02, 0.1), "preset": "streaming, threshold 0.9", "tasks": "mean of the file's tasks",
            "regime": no_precondition("the paper speaks of every task")}


@claim(place="Section 7.2, Fig. 7",
       statement="Chunks answer as well as plain block diffusion, on average over their sizes.",
       quantity="mean of five chunk sizes - BD32", bound=KEPT, controls=("ar_is_no_ceiling",), **ACCURACY)
def chunks_on_average_match_blocks(f):
    found = [score(f, chunk, "BD32") for chunk in CHUNKS]
    middle = sum(x.estimate.value for x in found) / len(found)
    # The sizes answer the same items, so their errors go together: arms are averaged as they are.
    low = middle - sum(x.estimate.value - x.estimate.low for x in found) / len(found)
    high = middle + sum(x.estimate.high - x.estimate.value for x in found) / len(found)
    whole = type(found[0].estimate)(middle, low, high, found[0].estimate.n, "items", "mean of chunk sizes")
    return type(found[0])("mean of chunk sizes - BD32", whole, [(x.shown, x.estimate) for x in found],
                          notes=found[0].notes)


@claim(place="Section 7.2, Fig. 7", statement="The worst chunk size answers as well as plain block diffusion.",
       quantity="worst chunk size - BD32", bound=KEPT, each_because="the paper speaks of the worst case", decides=True,
       controls=("ar_is_no_ceiling",), **ACCURACY)
def worst_chunk_keeps_accuracy(f):
    found = [score(f, chunk, "BD32") for chunk in CHUNKS]
    worst = min(found, key=lambda x: x.estimate.value)
    worst.points = [(x.shown, x.estimate) for x in found]
    return worst


@claim(place="Section 7.2, Fig. 7", statement="Streaming across blocks answers worse than streaming inside them.",
       quantity="chunk 32 across blocks - inside", bound=below(0, "paper: \"slightly\""),
       controls=("streaming_takes_fewer_forwards",),
       **{**ACCURACY,
          "tasks": "stories, judged by a causal model: answers of one block have no next one",
          "items": graded(0.015, 0.06)})
def out_block_costs_accuracy(f):
    return score(f, "chunk 32, OBS", "chunk 32", workload=("story", "sharegpt"))


# ---- Throughput (abstract, section 7.3, Figs. 8 and 9) ----

@claim(place="Section 7.3, Fig. 8b",
       statement="Optimus has a higher throughput than autoregressive decoding with one request.",
       quantity="throughput, Optimus over AR, batch 1", bound=FASTER,
       published=Published(5.59, "section 7.3, batch 1", 0.005), rivals=("best_chunk_wins_alone",), **OVER_AR,
       **FIGURE_8)
def elastic_wins_alone(f):
    return speed(f, ours("Optimus"), causal("AR"), DELIVERED, batch_size=1)


@claim(place="Section 7.3, Fig. 8b",
       statement="Autoregressive decoding has at most 1.2 times the throughput of Optimus in large batches.",
       quantity="throughput, AR over Optimus, batch 64 and 256",
       bound=at_most(1.2, "us: a tenth above the published 1.093"),
       published=Published(1.093, "section 7.3, batch 256", 0.0005, says="at most slightly faster"),
       controls=("ar_over_optimus_by_decided_tokens",), **OVER_AR, **FIGURE_8)
def ar_catches_up(f):
    return speed(f, causal("AR"), ours("Optimus"), DELIVERED, batch_size=LARGE)


@claim(decides=True, place="Section 7.3, Fig. 9",
       statement="Optimus has a higher throughput than autoregressive decoding over all settings.",
       quantity="throughput, Optimus over AR, geometric mean", bound=FASTER,
       published=Published(2.07, "section 7.3, geometric mean", 0.005, says="2.07 times the throughput, on average"),
       controls=("over_ar_by_decided_tokens", "over_ar_on_a_cpu", "latency_has_three_pieces"), **OVER_AR, **FIGURE_9)
def throughput_over_ar_mean(f):
    return speed(f, ours("Optimus"), causal("LMDeploy-AR"), DELIVERED)


@claim(place="Abstract, section 7.3, Fig. 9",
       statement="Optimus has a higher throughput than autoregressive decoding in its best setting.",
       quantity="throughput, Optimus over AR, the largest sweep point", bound=FASTER,
       published=Published(6.08, "abstract and section 7.3, up to", 0.005, says="up to 6.1 times the throughput"),
       each_because="\"up to\"", controls=("over_ar_by_decided_tokens", "over_ar_on_a_cpu"), **OVER_AR, **FIGURE_9)
def throughput_over_ar_largest(f):
    return largest(speed(f, ours("Optimus"), causal("LMDeploy-AR"), DELIVERED))


@claim(finding="plain block diffusion", decides=True, place="Section 7.3, Fig. 9",
       statement="Optimus has a higher throughput than plain block diffusion over all settings.",
       quantity="throughput, Optimus over BD32, geometric mean", bound=FASTER,
       published=Published(1.31, "section 7.3, geometric mean", 0.005, says="1.31 times the throughput, on average"),
       controls=("chunk_4_over_blocks", "stories_stay_likely", "over_the_best_fixed_chunk"),
       elsewhere=("over_the_best_fixed_chunk", "the best fixed chunk"), **SPEEDS, **FIGURE_9)
def throughput_over_blocks_mean(f):
    return speed(f, ours("Optimus"), ours("LMDeploy-BD32"), DELIVERED)


@claim(place="Abstract, section 7.3, Fig. 9",
       statement="Optimus has a higher throughput than plain block diffusion in its best setting.",
       quantity="throughput, Optimus over BD32, the largest sweep point", bound=FASTER,
       published=Published(4.25, "abstract and section 7.3, up to", 0.005, says="up to 4.3 times the throughput"),
       each_because="\"up to\"", controls=("chunk_4_over_blocks", "stories_stay_likely", "over_the_best_fixed_chunk"),
       elsewhere=("over_the_best_fixed_chunk", "the best fixed chunk"), **SPEEDS, **FIGURE_9)
def throughput_over_blocks_largest(f):
    return largest(speed(f, ours("Optimus"), ours("LMDeploy-BD32"), DELIVERED))


@claim(place="Section 7.3, Fig. 8b",
       statement="Optimus has a higher throughput than plain block diffusion in large batches.",
       quantity="throughput, Optimus over BD32, batch 64 and 256", bound=FASTER,
       published=Published(2.15, "section 7.3, batch 256", 0.005),
       rivals=("chunk_4_over_blocks_in_large_batches",), controls=("stories_stay_likely",), **SPEEDS, **FIGURE_8)
def elastic_beats_blocks_in_large_batches(f):
    return speed(f, "Optimus", "LMDeploy-BD32", DELIVERED, batch_size=LARGE)


@claim(decides=True, place="Section 7.3, Fig. 8",
       statement="Over all loads Optimus is faster than every fixed chunk.",
       quantity="throughput, Optimus over the best fixed chunk, mean over loads", bound=FASTER,
       controls=("paper_cost_over_the_best_chunk", "chunk_2_on_stories"), **SPEEDS, **FIGURE_8)
def elastic_beats_the_best_fixed_chunk(f):
    return fastest_rival(f, "Optimus", CHUNKS, DELIVERED)


@claim(place="Section 7.3, Fig. 8a",
       statement="Chunks of 8 have a higher throughput than chunks of 32 in large batches.",
       quantity="throughput, chunk 8 over chunk 32, batch 64 and 256", bound=FASTER,
       controls=("chunks_commit_more",), **SPEEDS, **FIGURE_8)
def small_chunks_win_in_large_batches(f):
    return speed(f, "chunk 8", "chunk 32", DELIVERED, batch_size=LARGE)


@claim(place="Section 7.3, Fig. 8a", statement="With one request chunks of 32 are faster than chunks of 8.",
       quantity="throughput, chunk 32 over chunk 8, batch 1", bound=FASTER,
       controls=("chunks_commit_more",), **OVER_AR, **FIGURE_8)
def large_chunks_win_alone(f):
    return speed(f, "chunk 32", "chunk 8", DELIVERED, batch_size=1)


@claim(place="Section 7.3, Fig. 8a", statement="With one request streaming across blocks is faster than inside them.",
       quantity="throughput, chunk 32 across blocks over inside, batch 1, stories", bound=FASTER,
       controls=("streaming_takes_fewer_forwards",), **{**SPEEDS, "scales": ("tiny", "full"), "regime": GPU,
          "tasks": "stories: answers of one block have no next one"}, **FIGURE_8)
def streaming_across_blocks_wins_alone(f):
    return speed(f, "chunk 32, OBS", "chunk 32", DELIVERED, batch_size=1, workload=("story", "sharegpt"))


@claim(place="Section 7.3", statement="Optimus has a higher throughput than SGLang's block-synchronous batches.",
       kind="capacity", quantity="tokens per second in a closed loop, Optimus over block-synchronous batches",
       bound=FASTER, published=Published(2.55, "section 7.3, mean; 9.69 the largest", 0.005,
                           says="2.55 times the throughput, on average"), artifacts=("figure_9",),
       controls=("more_than_block_sync",), scales=("shapes",),
       **{k: v for k, v in SERVED.items() if k not in ("kind", "quantity", "scales")})
def throughput_over_sglang(f):
    return ratio(f, "tokens_per_second", {"label": "Optimus", "serve_policy": "iter"},
                 {"label": "LMDeploy-BD32", "serve_policy": "block_sync"}, serve_arrivals="closed")


@claim(place="Section 7.6, Fig. 12",
       statement="Optimus has a higher throughput than plain block diffusion with every model size.",
       quantity="throughput, Optimus over BD32, the smallest of the models", bound=FASTER,
       note="At the scale shapes the roofline of an A100 gives the clock: no machine is timed there.",
       each_because="the paper: on every size", artifacts=("figure_12",), controls=("stories_stay_likely",), **SPEEDS)
def gain_persists_over_sizes(f):
    return smallest(speed(f, "Optimus", "LMDeploy-BD32", DELIVERED))


OVER_RANKS = {**SPEEDS, "artifacts": ("figure_12",), "scales": ("shapes",),
              "tasks": "GSM8K, drawn lengths and numbers of unmasked tokens", "items": "512 requests of each campaign's seed",
              "clock": "output tokens per second on a clock that the roofline of an A100 with NVLink gives: scheduling "
                       "and the model of links are checked, not a machine"}


@claim(place="Section 7.6, Fig. 12",
       statement="By an A100's roofline, Optimus has a higher throughput than plain block diffusion at every number "
                 "of ranks.",
       quantity="throughput, Optimus over BD32, the smallest of models, batches and numbers of ranks", bound=FASTER,
       each_because="the paper: under different tensor-parallel settings", controls=("gain_falls_with_ranks",),
       **OVER_RANKS)
def gain_persists_over_ranks(f):
    return smallest(speed(f, "Optimus", "LMDeploy-BD32", DELIVERED, ranks=(2, 4, 8)))


@claim(place="Section 7.6, Fig. 12",
       statement="By an A100's roofline, Optimus has a higher throughput than plain block diffusion with 100B parameters.",
       quantity="throughput, Optimus over BD32, LLaDA2.0-flash on 4 and 8 ranks", bound=FASTER, **OVER_RANKS)
def hundred_billion_over_blocks(f):
    return speed(f, {"label": "Optimus", "model": "llada2-flash"}, {"label": "LMDeploy-BD32", "model": "llada2-flash"},
                 DELIVERED)


# The paper calls both orthogonal. Ours: sums over ranks cost both sides alike, and chunks save less of what remains.
@control(statement="By a roofline, the gain of Optimus with dense models falls from one rank to 8, from batch 16 on.",
         quantity="gain of Optimus over BD32 on 8 ranks over that on one",
         bound=below(1, "us: sums over ranks cost both sides alike"), **OVER_RANKS)
def gain_falls_with_ranks(f):
    return growth(f, DELIVERED, "Optimus", "LMDeploy-BD32", along="ranks", first=1, last=8,
                  model=("sdar-1.7b", "sdar-4b", "sdar-8b"), batch_size=(16, 64, 256))


# ---- Serving (sections 7.4, 7.5 and 7.7) ----

FIGURE_10 = {**SERVED, "artifacts": ("figure_10",)}
FIGURE_13 = {**SERVED, "artifacts": ("figure_13",)}
HIGHER = above(1, "paper: higher capacity")


def capacity(f, of, over, **where):
    """Requests per second of one side over the other's, with what plain block diffusion serves on this clock,
    which the paper prints, too."""
    found = ratio(f, RATE, of, over, **where)
    blocks = f.look(label="BD32") or f.look(label="LMDeploy-BD32", serve_policy="iter")
    if blocks:
        here = sum(row["metrics"][RATE] for row in blocks) / len(blocks)
        found.notes.append(f"on this clock plain block diffusion serves {here:.2f} requests per second, in the paper "
                           f"{SERVED_BY_BLOCKS:.2f}")
    return found


def policy(label, name):
    return {"label": label, "serve_policy": name}


@claim(decides=True, place="Abstract, section 7.4, Fig. 10",
       statement="Optimus serves more requests per second than plain block diffusion.", bound=HIGHER,
       published=Published(1.95, "section 7.4, SDAR-8B, ShareGPT", 0.005),
       controls=("chunk_8_raises_capacity", "as_shipped_batching_costs_capacity"), **FIGURE_10)
def capacity_over_blocks(f):
    return capacity(f, "Optimus", "LMDeploy-BD32", serve_policy="iter")


def step_of_one(row):
    """Milliseconds of a step over one row, of the cost that the clock assumes."""
    return float(row["serve"]["cost"].split()[0].partition(":")[2])


AR_CAN = presumes_of_the_clock("an autoregressive step takes less than the 50 ms per token that are allowed, as it "
                               "does in the paper", step_of_one, below(50, "paper: section 7.1"), label="Optimus")


@claim(place="Section 7.4, Fig. 10",
       statement="Optimus serves more requests per second than autoregressive decoding.", bound=HIGHER,
       published=Published(1.96, "section 7.4, SDAR-8B, ShareGPT", 0.005), **{**FIGURE_10, "regime": AR_CAN})
def capacity_over_ar(f):
    return capacity(f, {"label": "Optimus", "serve_policy": "iter", **BLOCKS},
                 {"label": "LMDeploy-AR", "serve_policy": "iter", **CAUSAL})


@claim(place="Section 7.4, Fig. 10", statement="Optimus serves more requests per second than SGLang on ShareGPT.",
       bound=HIGHER, published=Published(10.2, "section 7.4, over SGLang-BD32, ShareGPT", 0.05),
       rivals=("chunks_over_block_sync",), reading="SGLang as block-synchronous batches of plain block diffusion",
       note="SGLang differs in more than its batching; here everything else is equal.", **FIGURE_10)
def capacity_over_block_sync(f):
    return capacity(f, policy("Optimus", "iter"), policy("LMDeploy-BD32", "block_sync"))


PANELS = {**FIGURE_10, "scales": ("shapes",),
          "tasks": "the four panels of chats, both models by the cost of the 8B; the two of LongBench have no lengths here"}


@claim(place="Section 7.4",
       statement="Optimus serves more requests per second than plain block diffusion over four panels.", bound=HIGHER,
       published=Published(1.4, "section 7.4, over BD32, mean of six panels", 0.05,
                           says="1.4 times as many, on average"), controls=("chunk_8_raises_capacity",), **PANELS)
def capacity_over_blocks_in_every_panel(f):
    return capacity(f, "Optimus", "LMDeploy-BD32", serve_policy="iter")


@claim(place="Section 1, section 7.4",
       statement="Optimus serves more requests per second than plain block diffusion in the best panel.",
       bound=HIGHER, published=Published(2.0, "section 7.4, over BD32, largest of six panels", 0.05,
                           says="up to 2.0 times as many"), each_because="\"up to\"",
       controls=("chunk_8_raises_capacity",), **PANELS)
def capacity_over_blocks_largest(f):
    return largest(capacity(f, "Optimus", "LMDeploy-BD32", serve_policy="iter"))


@claim(place="Section 7.4",
       statement="Optimus serves more requests per second than autoregressive decoding over four panels.",
       bound=HIGHER, published=Published(2.1, "section 7.4, over AR, mean of six panels; 3.5 the largest", 0.05,
                           says="2.1 times as many, on average"), **{**PANELS, "regime": AR_CAN})
def capacity_over_ar_in_every_panel(f):
    return capacity(f, {"label": "Optimus", "serve_policy": "iter", **BLOCKS},
                 {"label": "LMDeploy-AR", "serve_policy": "iter", **CAUSAL})


@claim(place="Section 7.4",
       statement="Optimus serves more requests per second than SGLang over four panels.", bound=HIGHER,
       published=Published(11.8, "section 7.4, mean of six panels; 50.7 the largest", 0.05,
                           says="11.8 times as many, on average"), rivals=("chunks_over_block_sync",), **PANELS)
def capacity_over_block_sync_in_every_panel(f):
    return capacity(f, policy("Optimus", "iter"), policy("LMDeploy-BD32", "block_sync"))


@claim(place="Section 7.4",
       statement="Optimus has a lower P90 time per token than plain block diffusion, averaged over rates.",
       bound=below(1, "paper"), **{**FIGURE_10, "scales": ("shapes", ),
          "quantity": "P90 time per token, mean over rates, over plain block diffusion",
          "controls": ("chunk_8_raises_capacity", )})
def latency_below_every_baseline(f):
    return ratio(f, "tpot_decode_p90_seconds", "Optimus", "LMDeploy-BD32", serve_policy="iter",
                 serve_search=False)


@claim(place="Section 7.7, Fig. 13",
       statement="Chunks of 8 serve more requests per second than plain block diffusion.", bound=HIGHER,
       published=Published(2.13, "section 7.7: 5.54 / 2.60", 0.005), **FIGURE_13)
def chunks_raise_capacity(f):
    return capacity(f, "Chunk-8", "BD32")


@claim(place="Section 7.7, Fig. 13",
       statement="Every fixed chunk size serves more requests per second than plain block diffusion.",
       bound=HIGHER, each_because="the paper: every size", controls=("chunks_of_four_commit_less",), **FIGURE_13)
def every_chunk_beats_blocks(f):
    found = [capacity(f, chunk, "BD32") for chunk in ("Chunk-4", "Chunk-8", "Chunk-16", "Chunk-32")]
    worst = min(found, key=lambda x: x.estimate.value)
    worst.points = [(x.shown, x.estimate) for x in found]
    return worst


@claim(decides=True, place="Section 7.7, Fig. 13",
       statement="Optimus without tuning serves at least 88 % of the requests per second of chunks of 8.",
       bound=at_least(0.88, "us: three points below the published 0.913"),
       published=Published(0.913, "section 7.7: 5.06 / 5.54", 0.002, says="within 9 % of the best chunk size"),
       controls=("paper_cost_nears_the_best_chunk", "letter_nears_the_best_chunk"), **FIGURE_13)
def elastic_nears_the_best_chunk(f):
    return capacity(f, "Optimus", "Chunk-8")


@claim(place="Section 7.7, Fig. 13",
       statement="Optimus without tuning serves more requests per second than chunks of 4.", bound=HIGHER,
       controls=("paper_cost_nears_the_best_chunk",), **FIGURE_13)
def elastic_beats_chunks_of_4(f):
    return capacity(f, "Optimus", "Chunk-4")


@claim(place="Section 7.7, Fig. 13",
       statement="Optimus without tuning serves more requests per second than chunks of 32.", bound=HIGHER,
       controls=("paper_cost_nears_the_best_chunk",), **FIGURE_13)
def elastic_beats_chunks_of_32(f):
    return capacity(f, "Optimus", "Chunk-32")


ABSOLUTE = {**FIGURE_13, "kind": "signal", "controls": ("chunk_8_raises_capacity",),
            "quantity": "requests per second that keep 50 ms per token, absolute",
            "calibrates": "the scale of the virtual clock's cost was set by this figure",
            "note": "Checks the curve of the virtual clock, on which every claim of capacity rests."}


@calibration(place="Section 7.7, Fig. 13",
       statement="Plain block diffusion serves 2.60 requests per second, within 20 %.",
       bound=within(2.08, 3.12, "us: a fifth either way"), published=Published(2.60, "section 7.7", 0.005),
       **ABSOLUTE)
def capacity_of_blocks(f):
    return level(f, RATE, label="BD32")


@calibration(place="Section 7.7, Fig. 13", statement="Chunks of 8 serve 5.54 requests per second, within 20 %.",
       bound=within(4.43, 6.65, "us: a fifth either way"), published=Published(5.54, "section 7.7", 0.005),
       **ABSOLUTE)
def capacity_of_chunks_of_8(f):
    return level(f, RATE, label="Chunk-8")


@calibration(place="Section 7.7, Fig. 13", statement="Optimus serves 5.06 requests per second, within 20 %.",
       bound=within(4.05, 6.07, "us: a fifth either way"), published=Published(5.06, "section 7.7", 0.005),
       **ABSOLUTE)
def capacity_of_optimus(f):
    return level(f, RATE, label="Optimus")


FIGURE_11 = {"kind": "signal", "artifacts": ("figure_11",), "scales": ("tiny", "shapes"),
             "tasks": "arrivals and lengths of ShareGPT, imposed", "items": "one seed: five are wanted",
             "clock": "virtual, replayed unmasking: no text", "preset": "elastic",
             "regime": no_precondition("unmasking and costs are imposed")}


@claim(place="Section 7.5, Fig. 11", statement="The mean chunk has at least 27 positions at 0.5 requests per second.",
       quantity="chunk chosen, mean over steps", bound=at_least(27, "us: for \"almost always\" 32"),
       published=Published(32, "section 7.5", 0.5, says="chunks of 32, almost always"),
       controls=("rate_takes_smaller_chunks",), **FIGURE_11)
def large_chunks_at_low_load(f):
    return level(f, "chosen_chunk_mean", label="Optimus, T(b c)", serve_rate=0.5)


@claim(place="Section 7.5, Fig. 11",
       statement="The mean chunk has 20.8 positions, within 25 %, at 4.9 requests per second.",
       quantity="chunk chosen, mean over steps", bound=within(15.6, 26, "us: a quarter either way"),
       published=Published(20.8, "section 7.5", 0.05), controls=("rate_takes_smaller_chunks",), **FIGURE_11)
def chunk_at_high_load(f):
    return level(f, "chosen_chunk_mean", label="Optimus, T(b c)", serve_rate=4.9)


@claim(place="Section 7.5, Fig. 11",
       statement="The mean batch has 25 requests, within 25 %, at 4.9 requests per second.",
       quantity="requests in a forward pass outside prefill, mean", bound=within(18.75, 31.25, "us: a quarter either way"),
       published=Published(25.0, "section 7.5", 0.05), controls=("rate_takes_smaller_chunks",), **FIGURE_11)
def batch_at_high_load(f):
    return level(f, "batch_mean", label="Optimus, T(b c)", serve_rate=4.9)


@claim(place="Section 7.5, Fig. 11",
       statement="The mean batch has 1.8 requests, within 25 %, at 0.5 requests per second.",
       quantity="requests in a forward pass outside prefill, mean", bound=within(1.35, 2.25, "us: a quarter either way"),
       published=Published(1.8, "section 7.5", 0.05), controls=("rate_takes_smaller_chunks",), **FIGURE_11)
def batch_at_low_load(f):
    return level(f, "batch_mean", label="Optimus, T(b c)", serve_rate=0.5)


@claim(place="Section 7.5, Fig. 11", statement="The median batch has 23 requests, within 25 %, at high load.",
       quantity="requests in a forward pass outside prefill, median", bound=within(17.25, 28.75, "us: a quarter either way"),
       published=Published(23, "section 7.5", 0.5), controls=("rate_takes_smaller_chunks",), **FIGURE_11)
def median_batch_at_high_load(f):
    return level(f, "batch_p50", label="Optimus, T(b c)", serve_rate=4.9)


@claim(place="Section 7.5, Fig. 11", statement="The median chunk has 22 positions, within 25 %, at high load.",
       quantity="chunk chosen, median", bound=within(16.5, 27.5, "us: a quarter either way"),
       published=Published(22, "section 7.5", 0.5), controls=("rate_takes_smaller_chunks",), **FIGURE_11)
def median_chunk_at_high_load(f):
    return level(f, "chosen_chunk_p50", label="Optimus, T(b c)", serve_rate=4.9)


@claim(place="Section 7.5, Fig. 11", statement="The smallest chunk taken has at most 8 positions at high load.",
       quantity="chunk chosen, the smallest", bound=at_most(8, "us: the published 6 and two more"),
       published=Published(6, "section 7.5", 0.5), controls=("rate_takes_smaller_chunks",), **FIGURE_11)
def smallest_chunk_at_high_load(f):
    return level(f, "chosen_chunk_min", label="Optimus, T(b c)", serve_rate=4.9)


# ---- Controls ----

CPU = {**SPEEDS, "scales": ("tiny",)}
BY_DECIDED = {**CPU, "clock": "unmasked tokens per second of the decode, those behind an answer's end among them"}


@control(statement="Blocks of 32 have a higher rate of unmasked tokens, padding included, with one request.",
         quantity="BD32 over AR, batch 1", bound=FASTER, **BY_DECIDED, **FIGURE_1)
def blocks_win_alone_by_decided_tokens(f):
    return speed(f, ours("BD32"), causal("AR"), DECIDED, batch_size=1)


@control(statement="On a CPU, by output tokens, blocks of 32 win with one request.",
         quantity="BD32 over AR, batch 1", bound=FASTER, **CPU, **FIGURE_1)
def blocks_win_alone_on_a_cpu(f):
    return speed(f, ours("BD32"), causal("AR"), DELIVERED, batch_size=1)


@control(statement="Autoregressive decoding has a higher rate of unmasked tokens than blocks of 32 in large "
                   "batches.", quantity="AR over BD32, batch 64", bound=FASTER, **BY_DECIDED, **FIGURE_1)
def ar_wins_by_decided_tokens(f):
    return speed(f, causal("AR"), ours("BD32"), DECIDED, batch_size=(64, 512))


@control(statement="Optimus has a higher rate of unmasked tokens than autoregressive decoding.",
         quantity="Optimus over AR, geometric mean", bound=FASTER, **BY_DECIDED, **FIGURE_9)
def over_ar_by_decided_tokens(f):
    return speed(f, ours("Optimus"), causal("LMDeploy-AR"), DECIDED)


@control(statement="On a CPU, by output tokens, Optimus is faster than autoregressive decoding.",
         quantity="Optimus over AR, geometric mean", bound=FASTER, **CPU, **FIGURE_9)
def over_ar_on_a_cpu(f):
    return speed(f, ours("Optimus"), causal("LMDeploy-AR"), DELIVERED)


@control(statement="Autoregressive decoding has a higher rate of unmasked tokens than Optimus in large batches.",
         quantity="AR over Optimus, batch 64", bound=FASTER, **BY_DECIDED, **FIGURE_8)
def ar_over_optimus_by_decided_tokens(f):
    return speed(f, causal("AR"), ours("Optimus"), DECIDED, batch_size=LARGE)


@control(statement="Fixed chunks of 4 are faster than plain block diffusion.",
         quantity="chunk 4 over BD32, all loads", bound=FASTER, **CPU, **FIGURE_8)
def chunk_4_over_blocks(f):
    return speed(f, ours("chunk 4"), ours("LMDeploy-BD32"), DELIVERED)


@control(statement="Fixed chunks of 4 are faster than plain block diffusion in large batches.",
         quantity="chunk 4 over BD32, batch 64", bound=FASTER, **CPU, **FIGURE_8)
def chunk_4_over_blocks_in_large_batches(f):
    return speed(f, "chunk 4", "LMDeploy-BD32", DELIVERED, batch_size=LARGE)


@control(statement="With one request the best fixed chunk is faster than autoregressive decoding.",
         quantity="chunk 8 over AR, batch 1", bound=FASTER, **CPU, **FIGURE_8)
def best_chunk_wins_alone(f):
    return speed(f, ours("chunk 8"), causal("AR"), DELIVERED, batch_size=1)


@control(statement="Optimus is faster than the best fixed chunk.",
         quantity="Optimus over the best fixed chunk", bound=FASTER, **CPU, **FIGURE_8)
def over_the_best_fixed_chunk(f):
    return fastest_rival(f, "Optimus", CHUNKS, DELIVERED)


@control(statement="With the paper's cost T(b c), too, Optimus is faster than the best fixed "
                   "chunk.", quantity="Optimus, T(b c), over the best fixed chunk", bound=FASTER, **CPU, **FIGURE_8)
def paper_cost_over_the_best_chunk(f):
    return fastest_rival(f, "Optimus, T(b c)", CHUNKS, DELIVERED)


@control(statement="On stories Optimus is faster than fixed chunks of 2.",
         quantity="Optimus over chunk 2, stories", bound=FASTER, **CPU, **FIGURE_8)
def chunk_2_on_stories(f):
    return speed(f, "Optimus", "chunk 2", DELIVERED, workload="story")


COUNTS = {"kind": "count", "scales": ("tiny",), "items": "every item", "tasks": "every task of the file",
          "clock": "none: forward passes are counted", "regime": no_precondition("it is counted on any load")}


@control(statement="Blocks of 4 take more forward passes than blocks of 32.", quantity="forward passes, BD4 over BD32",
         bound=above(1, "us"), artifacts=("figure_3",), **COUNTS)
def small_blocks_take_more_forwards(f):
    return ratio(f, "nfe", "BD4", "BD32", batch_size=1)


@control(statement="Streaming across blocks takes fewer forward passes than streaming inside them.",
         quantity="forward passes, across over inside", bound=below(1, "us"), artifacts=("figure_7",), **COUNTS)
def streaming_takes_fewer_forwards(f):
    return ratio(f, "nfe", "chunk 32, OBS", "chunk 32")


@control(statement="Chunks of 32 unmask more tokens per step than chunks of 8.",
         quantity="tokens per step, chunk 32 over chunk 8", bound=above(1, "us"), artifacts=("figure_8",), **COUNTS)
def chunks_commit_more(f):
    return ratio(f, "committed_per_step", "chunk 32", "chunk 8")


@control(statement="Blocks of 32 unmask at most 15 % of the positions that they compute on word problems.",
         quantity="token utilisation", bound=at_most(0.15, "us"), artifacts=("figure_3",), scales=("tiny",),
         regime=no_precondition("it is the task out of the regime"), tasks="word problems", **USED)
def utilisation_on_word_problems(f):
    return level(f, "token_utilisation", label="BD32", batch_size=1)


@control(statement="The number of unmasked tokens that the scheduler predicts is wrong by at most 15 %.",
         kind="signal", quantity="relative error of the sums", bound=at_most(0.15, "us"), **MODELS_OF)
def commits_are_foretold(f):
    return level(f, "calibration.learnt.error", label="elastic")


@control(statement="Three affine pieces fit the step time with an error of at most 5 %.", kind="signal",
         quantity="mean relative error of the fit", bound=at_most(0.05, "us: below it the scheduler trusts the fit"),
         **{**MODELS_OF, "clock": "seconds of a forward pass, measured"})
def latency_has_three_pieces(f):
    return level(f, "calibration.mape", label="elastic")


@control(statement="Autoregressive decoding answers better than plain block diffusion.", quantity="AR - BD32",
         bound=above(0, "us"), **ACCURACY)
def ar_is_no_ceiling(f):
    return score(f, causal("AR"), ours("BD32"))


@control(statement="Optimus writes stories as likely as those of plain block diffusion.", kind="score",
         quantity="likelihood per token, Optimus - BD32", bound=KEPT, artifacts=("figure_9",), scales=("tiny",),
         regime=no_precondition("the price of the speed on stories"), items=scored(0.05, 0.5),
         tasks="stories, judged by an autoregressive model", preset="elastic")
def stories_stay_likely(f):
    return score(f, ours("Optimus"), ours("LMDeploy-BD32"), workload="story")


SERVED_CONTROL = {**FIGURE_10, "scales": ("tiny",), "bound": above(1, "us")}


@control(statement="Fixed chunks of 8 serve more requests per second than plain block diffusion.",
         **{**SERVED_CONTROL, "artifacts": ("figure_13",)})
def chunk_8_raises_capacity(f):
    return capacity(f, "Chunk-8", "BD32")


@control(statement="Optimus serves more requests per second than block-synchronous batches of plain block "
                   "diffusion.", **SERVED_CONTROL)
def more_than_block_sync(f):
    return capacity(f, policy("Optimus", "iter"), policy("LMDeploy-BD32", "block_sync"))


@control(statement="Plain block diffusion serves more requests per second if batches change after every forward "
                   "pass.", **SERVED_CONTROL)
def chunks_over_block_sync(f):
    return capacity(f, policy("LMDeploy-BD32", "iter"), policy("LMDeploy-BD32", "block_sync"))


@control(statement="LMDeploy's turns of several forward passes serve less than batches that change after every "
                   "pass.", **{**SERVED_CONTROL, "bound": below(1, "us")})
def as_shipped_batching_costs_capacity(f):
    return capacity(f, policy("LMDeploy-BD32", "lmd"), policy("LMDeploy-BD32", "iter"))


NEAR = {**SERVED_CONTROL, "artifacts": ("figure_13",), "bound": at_least(0.9, "us")}


@control(statement="Optimus with the paper's cost T(b c) serves at least 90 % of the requests of chunks of 8.",
         **NEAR)
def paper_cost_nears_the_best_chunk(f):
    return capacity(f, "Optimus, T(b c)", "Chunk-8")


@control(statement="Optimus, literally as the paper says, serves at least 90 % of the requests per second of "
                   "chunks of 8.", **NEAR)
def letter_nears_the_best_chunk(f):
    return capacity(f, "Optimus, to the letter", "Chunk-8")


@control(statement="The throughput of blocks of 32 grows by at least half from 16 to 64 requests.",
         quantity="throughput of BD32, 64 requests over 16", bound=at_least(1.5, "us: as for it"), **SATURATION)
def blocks_of_32_grow_on(f):
    return speed(f, {"label": "BD32", "batch_size": 64}, {"label": "BD32", "batch_size": 16}, DECIDED)


@control(statement="Chunks of 4 unmask fewer tokens per forward pass than plain block diffusion.",
         **{**FIGURE_13, "kind": "count", "quantity": "tokens per forward pass, chunks of 4 over plain block diffusion",
            "bound": below(1, "us")})
def chunks_of_four_commit_less(f):
    return ratio(f, "tpf", "Chunk-4", "BD32")


@control(statement="Chunks are smaller at 4.9 requests per second than at 0.5.", kind="count",
         quantity="chunk chosen, 4.9 over 0.5 requests per second", bound=below(1, "us"),
         **{k: v for k, v in FIGURE_11.items() if k != "kind"})
def rate_takes_smaller_chunks(f):
    return ratio(f, "chosen_chunk_mean", {"label": "Optimus", "serve_rate": 4.9},
                 {"label": "Optimus", "serve_rate": 0.5})
