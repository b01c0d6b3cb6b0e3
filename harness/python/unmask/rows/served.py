# SPDX-License-Identifier: Apache-2.0
"""What a load test's client measured of a server that is not Unmask's, as a row of a served point.

    unmask.record_served("result.json", "runs/served", program="LMDeploy 0.9", method="sdar", like=row)

The file is that of `vllm bench serve --save-result`, best with --save-detailed: then every request counts,
percentiles appear only if there are requests enough, and time per token has two definitions side by side
(harness/engine/README.md). Without it the client's own means and percentiles are taken, under the
definition that the client has."""

import json
import math
import os

from unmask.rows import intervals, recorder
from unmask.rows.errors import EnvironmentFault

QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
# The client's word for each value of a row; its time per token leaves out the first token.
OF_CLIENT = {"ttfb": "ttft", "e2e": "e2el", "inter_block": "itl", "tpot_stream": "tpot"}


def _percentile(samples, q):
    """The order statistic that the program shows."""
    ordered = sorted(samples)
    rank = math.ceil(q * len(ordered) - 1e-9)
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def _earned(q, n):
    """Whether the smallest and largest of n samples enclose the quantile with 95 % probability."""
    return n > 0 and 1 - q ** n - (1 - q) ** n >= 0.95


def _spread(metrics, name, samples, requests):
    if not samples:
        return
    metrics[f"{name}_mean_seconds"] = intervals.mean(samples)
    for word, q in QUANTILES:
        if _earned(q, min(requests, len(samples))):
            metrics[f"{name}_{word}_seconds"] = _percentile(samples, q)


def _of_requests(told):
    """The values of each request: seconds to the first block, gaps behind it, tokens."""
    errors = told.get("errors") or [""] * len(told["ttfts"])
    done = [(first, gaps, tokens) for first, gaps, tokens, error
            in zip(told["ttfts"], told["itls"], told["output_lens"], errors, strict=True)
            if not error and tokens > 0]
    whole = [first + math.fsum(gaps) for first, gaps, _ in done]
    metrics = {}
    n = len(done)
    _spread(metrics, "ttfb", [first for first, _, _ in done], n)
    _spread(metrics, "e2e", whole, n)
    _spread(metrics, "inter_block", [gap for _, gaps, _ in done for gap in gaps], n)
    _spread(metrics, "tpot_stream", [math.fsum(gaps) / (tokens - 1) for _, gaps, tokens in done if tokens > 1], n)
    _spread(metrics, "tpot_e2e", [all_of / tokens for all_of, (_, _, tokens) in zip(whole, done)], n)
    return metrics


def _of_summary(told):
    metrics = {}
    for name, client in OF_CLIENT.items():
        for ours, theirs in (("mean", "mean"), ("p50", "median"), ("p90", "p90"), ("p99", "p99")):
            value = told.get(f"{theirs}_{client}_ms")
            if value is not None:
                metrics[f"{name}_{ours}_seconds"] = value / 1000
    return metrics


def values_of(told):
    """Counts and times of a client's result; KeyError or TypeError if it is none."""
    counted = {"requests": told["num_prompts"], "requests_finished": told["completed"],
               "requests_counted": told["completed"], "prompt_tokens": told["total_input_tokens"],
               "output_tokens": told["total_output_tokens"]}
    if told["completed"] > 0:
        counted["output_tokens_per_request"] = told["total_output_tokens"] / told["completed"]
    timed = {"wall_seconds": told["duration"], "tokens_per_second": told["total_output_tokens"] / told["duration"]}
    timed |= _of_requests(told) if told.get("ttfts") else _of_summary(told)
    return counted, timed


def record_served(file, folder, *, program, method, **settings):
    """Appends the row to FOLDER/rows.jsonl and returns it. program: the server, with its version; `method` and
    `settings` as in unmask.record(), `like` or `model` and `workload` among them."""
    try:
        with open(file, encoding="utf-8") as text:
            told = json.load(text)
        counted, timed = values_of(told)
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as problem:
        words = f"`{problem.args[0]}` is missing" if isinstance(problem, KeyError) else problem
        raise EnvironmentFault(f"{file}: no result of vllm bench serve --save-result: {words}") from problem
    head = recorder.record(folder, program=program, method=method, **settings).head
    serve = {"clock": "real", "arrivals": f"{told.get('request_rate', 'inf')} requests/s",
             "most_at_once": told.get("max_concurrency") or 0}
    row = recorder.identified(head | {"serve": serve}, program) | {
        "verdict": "NOT_VERIFIED", "reason": "nobody scored the answers", "score": None, "answers_hash": "",
        "metrics": counted | timed, "provenance": dict.fromkeys(counted, "counted") | dict.fromkeys(timed, "measured"),
        "samples": {"seconds": [told["duration"]], "warmup_seconds": [], "half_width": None,
                    "stop": "max_repetitions"},
        "environment": recorder.machine(), "source_hash": "", "measured_by": f"vllm bench serve on {program}",
        "finished_at": recorder.now()}
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "rows.jsonl"), "a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")
        out.flush()
        os.fsync(out.fileno())
    return row
