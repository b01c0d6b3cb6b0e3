# SPDX-License-Identifier: Apache-2.0
"""What Ada-DLM (ACL 2026) claims of its Table 8 on the published models, how much of Dimple's speedup is its tower, and
where the cache below Ada-DLM stands. The other claims on the small models are in ada_dlm.py."""

import math

from unmask.claims import (NeedsRows, Published, above, at_least, below, claim, control, largest, no_precondition, ratio,
                           repeated, speed)
from unmask.claims.relation import Finding
from unmask.rows.intervals import Estimate

TABLE_8 = "Appendix E, Table 8"
ASKED = {"model": ("LLaDA-V", "Dimple-7B", "MMaDA-8B-MixCoT"), "workload": ("mathvista", "mathverse", "llava_bench_wild")}
ON_DIMPLE = {"label": "Vanilla", "model": ("tiny-dimple", "Dimple-7B"), "workload": ("picture_read", "mathvista")}
FASTER = above(1, "paper: faster")
PICTURES = {"artifacts": ("table_8",), "items": repeated(0.05, 0.03), "preset": "block32: blocks of 32",
            "regime": no_precondition("the paper states no lengths here")}
FULL = {**PICTURES, "kind": "speed", "scales": ("full",), "quality": at_least(-0.02, "us: two points, for \"statistical parity\""),
        "clock": "output tokens per second, prefill included",
        "tasks": "MathVista, MathVerse and LLaVA-Bench; answers that only a judge can read are in no score"}


@claim(place=TABLE_8, statement="On the published models Ada-DLM has a higher throughput than vanilla decoding.",
       quantity="throughput over vanilla", bound=FASTER,
       published=Published(5.06, "Table 8, averages of three models: 4.42, 5.44, 5.40", 0.005),
       controls=("tower_in_every_forward",), **FULL)
def faster_than_vanilla_on_picture_models(f):
    return speed(f, "Ada-DLM", "Vanilla", **ASKED)


@claim(place=TABLE_8, statement="On the published models Ada-DLM has a higher throughput than Fast-dLLM.",
       quantity="throughput over Fast-dLLM", bound=FASTER,
       published=Published(1.91, "Table 8, averages of three models: 1.84, 1.99, 1.89 times", 0.005), **FULL)
def faster_than_fast_dllm_on_picture_models(f):
    return speed(f, "Ada-DLM", "Fast-dLLM", **ASKED)


@claim(place=TABLE_8, statement="On the published models Ada-DLM has a higher throughput than dLLM-Cache.",
       quantity="throughput over dLLM-Cache", bound=FASTER,
       published=Published(1.10, "Table 8, averages of three models: 1.09, 1.15, 1.08 times", 0.005), **FULL)
def faster_than_dllm_cache_on_picture_models(f):
    return speed(f, "Ada-DLM", "dLLM-Cache", **ASKED)


# ---- dKV-Cache, on the models of either scale ----

EITHER = {"model": ("tiny-llada-v", "tiny-dimple", "tiny-mmada", *ASKED["model"]),
          "workload": ("picture_read", "picture_read, codes", *ASKED["workload"])}
CACHE_ALONE = {**FULL, "scales": ("tiny", "full"), "preset": "block32: blocks of 32, one token per step",
               "controls": ("computed_by_the_cache_with_pictures",),
               "tasks": "digits read from pictures at tiny; MathVista, MathVerse and LLaVA-Bench at full"}


@claim(place=TABLE_8, statement="With pictures dKV-Cache has a higher throughput than vanilla decoding.",
       quantity="throughput over vanilla", bound=FASTER,
       published=Published(1.19, "Table 8, averages of three models: 1.34, 1.19, 1.06", 0.005), **CACHE_ALONE)
def dkv_cache_beats_vanilla_with_pictures(f):
    return speed(f, "dKV-Cache", "Vanilla", **EITHER)


@claim(place=TABLE_8, statement="With some model and pictures, dKV-Cache has a lower throughput than vanilla decoding.",
       quantity="throughput of vanilla decoding over dKV-Cache, the largest of any model and task", bound=above(1, "paper: slower"),
       published=Published(1.136, "Table 8, LLaVA-Bench: 0.88 times vanilla with MMaDA, 0.95 with Dimple", 0.007),
       each_because="the table has it slower in two places: the largest ratio counts", **CACHE_ALONE)
def dkv_cache_is_slower_somewhere_with_pictures(f):
    return largest(speed(f, "Vanilla", "dKV-Cache", **EITHER))


@claim(place=TABLE_8, statement="With pictures Fast-dLLM has a higher throughput than dKV-Cache.",
       quantity="throughput over dKV-Cache", bound=FASTER,
       published=Published(2.23, "Table 8, averages of three models: 1.79, 2.29, 2.70 times", 0.005), **CACHE_ALONE)
def fast_dllm_beats_dkv_cache_with_pictures(f):
    return speed(f, "Fast-dLLM", "dKV-Cache", **EITHER)


@control(statement="With pictures dKV-Cache computes fewer positions per unmasked token than vanilla decoding.", kind="count",
         quantity="computed positions per unmasked token, over vanilla", bound=below(1, "us: what the cache is for"),
         scales=("tiny", "full"), clock="none: positions are counted", tasks=CACHE_ALONE["tasks"],
         **{**PICTURES, "preset": CACHE_ALONE["preset"]})
def computed_by_the_cache_with_pictures(f):
    return ratio(f, "redundancy", "dKV-Cache", "Vanilla", **EITHER)


@control(statement="With its tower in every forward pass, vanilla decoding of Dimple takes at least a twentieth longer.",
         kind="count", quantity="time with the tower in every forward pass over the time with one run for each request",
         bound=at_least(1.05, "us: less is within the intervals of speeds"), scales=("tiny", "full"),
         clock="seconds of the tower and of a repetition", tasks="digits at tiny, MathVista at full",
         **{**PICTURES, "preset": "vanilla decoding"})
def tower_in_every_forward(f):
    """Dimple's own code runs it so without a prefix. Of a row: the tower's share of the time, once more for each
    further forward pass of a request. The row has no spread of the tower, so that of a repetition stands for it."""
    row = f.pick(**ON_DIMPLE)[0]
    counts, half = row["metrics"], row["samples"]["half_width"]
    if not counts.get("tower_runs") or "picture_seconds" not in counts:
        raise NeedsRows("picture_seconds in the rows")
    more = counts["picture_seconds"] / counts["wall_seconds"] * (counts["nfe"] / counts["tower_runs"] - 1)
    low, high = (None, None) if half is None else (1 + more * (1 + sign * math.sqrt(2) * half) for sign in (-1, 1))
    e = Estimate(1 + more, low, high, len(row["samples"]["seconds"]), "repetitions", "spread of the tower as of a repetition")
    return Finding("vanilla, tower in every forward pass / one run", e, [(row["model"]["name"], e)])
