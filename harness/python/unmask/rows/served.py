# SPDX-License-Identifier: Apache-2.0
"""What a load test's client measured of a server that is not Unmask's, as a row of a served point.

    unmask.record_served("result.json", "runs/served", program="LMDeploy 0.9", method="sdar", like=row)

The file is one of these (harness/engine/README.md has their definitions side by side):

* vllm bench serve --save-result, best with --save-detailed
* GuideLLM's benchmarks.json
* AIPerf's profile_export.jsonl, a line for each request
* the summary of AIPerf or genai-perf, profile_export_*.json

With a record of each request every request counts, percentiles appear only if there are requests enough, and time
per token has two definitions side by side. From a summary the client's own means and percentiles are taken, under
the definition that the client has."""

import dataclasses
import json
import math
import os

from unmask.rows import intervals, recorder
from unmask.rows.errors import EnvironmentFault, UserError

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


@dataclasses.dataclass
class Request:
    """One request that was answered, in seconds: until its first tokens, from these to the last, until its end, and
    the gaps between what was streamed, where the client has them. first None: the client did not stream."""
    first: float | None
    stream: float
    whole: float
    gaps: list
    tokens: int


def _of_requests(done):
    """Means and earned percentiles over requests."""
    metrics = {}
    n = len(done)
    streamed = [r for r in done if r.first is not None]
    _spread(metrics, "ttfb", [r.first for r in streamed], n)
    _spread(metrics, "e2e", [r.whole for r in done], n)
    _spread(metrics, "inter_block", [gap for r in done for gap in r.gaps], n)
    _spread(metrics, "tpot_stream", [r.stream / (r.tokens - 1) for r in streamed if r.tokens > 1], n)
    _spread(metrics, "tpot_e2e", [r.whole / r.tokens for r in done], n)
    return metrics


def _counts(requests, finished, counted, prompt_tokens, output_tokens):
    found = {"requests": requests, "requests_finished": finished, "requests_counted": counted,
             "prompt_tokens": prompt_tokens, "output_tokens": output_tokens}
    return found | ({"output_tokens_per_request": output_tokens / finished} if finished > 0 else {})


def _times(seconds, output_tokens):
    return {"wall_seconds": seconds, "tokens_per_second": output_tokens / seconds}


def _vllm_requests(told):
    errors = told.get("errors") or [""] * len(told["ttfts"])
    return [Request(first, math.fsum(gaps), first + math.fsum(gaps), gaps, tokens) for first, gaps, tokens, error
            in zip(told["ttfts"], told["itls"], told["output_lens"], errors, strict=True) if not error and tokens > 0]


def _vllm_summary(told):
    metrics = {}
    for name, client in OF_CLIENT.items():
        for ours, theirs in (("mean", "mean"), ("p50", "median"), ("p90", "p90"), ("p99", "p99")):
            value = told.get(f"{theirs}_{client}_ms")
            if value is not None:
                metrics[f"{name}_{ours}_seconds"] = value / 1000
    return metrics


def vllm(told):
    """Counts, times and arrivals of vllm bench serve's result."""
    counted = _counts(told["num_prompts"], told["completed"], told["completed"], told["total_input_tokens"],
                      told["total_output_tokens"])
    timed = _times(told["duration"], told["total_output_tokens"])
    timed |= _of_requests(_vllm_requests(told)) if told.get("ttfts") else _vllm_summary(told)
    return counted, timed, f"{told.get('request_rate', 'inf')} requests/s", told.get("max_concurrency") or 0


def guidellm(told, which=None):
    """The same of one benchmark of GuideLLM's benchmarks.json; UserError where it holds several and none is named."""
    every = told["benchmarks"]
    if which is None and len(every) != 1:
        raise UserError(f"holds {len(every)} benchmarks; benchmark=0 takes the first")
    one = every[which or 0]["requests"]
    done = [r for r in one["successful"] if r["output_tokens"]]
    requests = []
    for r in done:
        tokens, first = r["output_tokens"], r.get("time_to_first_token_ms")
        stream = (r.get("inter_token_latency_ms") or 0) / 1000 * (tokens - 1)
        requests.append(Request(None if first is None else first / 1000, stream, r["request_latency"], [], tokens))
    seconds = max(r["request_end_time"] for r in done) - min(r["request_start_time"] for r in done)
    tokens = sum(r.tokens for r in requests)
    asked = len(one["successful"]) + len(one.get("incomplete") or []) + len(one.get("errored") or [])
    counted = _counts(asked, len(one["successful"]), len(done), sum(r["prompt_tokens"] or 0 for r in done), tokens)
    return counted, _times(seconds, tokens) | _of_requests(requests), f"benchmark {which or 0} of GuideLLM", 0


def aiperf(lines):
    """The same of AIPerf's profile_export.jsonl: what it asked while it warmed up is left out."""
    lines = [r for r in lines if r["metadata"].get("benchmark_phase", "profiling") == "profiling"]

    def value(r, name, otherwise=None):
        found = r["metrics"].get(name)
        return otherwise if found is None else found["value"]
    good = [r for r in lines if not r.get("error") and not r["metadata"].get("was_cancelled")]
    done = [r for r in good if value(r, "output_sequence_length", 0) > 0]
    requests = []
    for r in done:
        first, whole = value(r, "time_to_first_token"), value(r, "request_latency") / 1000
        stream = 0.0 if first is None else whole - first / 1000
        gaps = [gap / 1000 for gap in value(r, "inter_chunk_latency", [])]
        requests.append(Request(None if first is None else first / 1000, stream, whole, gaps,
                                value(r, "output_sequence_length")))
    seconds = (max(r["metadata"]["request_end_ns"] for r in done) -
               min(r["metadata"]["request_start_ns"] for r in done)) / 1e9
    tokens = sum(r.tokens for r in requests)
    counted = _counts(len(lines), len(good), len(done), sum(value(r, "input_sequence_length", 0) for r in done), tokens)
    return counted, _times(seconds, tokens) | _of_requests(requests), "as the file of AIPerf has them", 0


def genai_perf(told):
    """The same of a summary of AIPerf or genai-perf: its own means and percentiles."""
    def value(name, of="avg"):
        return told[name][of]
    n = round(value("request_count"))
    tokens = round(value("output_sequence_length") * n)
    timed = {"tokens_per_second": value("output_token_throughput"),
             "wall_seconds": tokens / value("output_token_throughput")}
    names = {"ttfb": "time_to_first_token", "e2e": "request_latency", "tpot_stream": "inter_token_latency",
             "inter_block": "inter_chunk_latency"}
    for name, client in names.items():
        for ours, theirs in (("mean", "avg"), ("p50", "p50"), ("p90", "p90"), ("p99", "p99")):
            found = told.get(client, {}).get(theirs)
            if found is not None:
                timed[f"{name}_{ours}_seconds"] = found / 1000
    errors = round(told.get("error_request_count", {}).get("avg", 0))
    counted = _counts(n + errors, n, n, round(value("input_sequence_length") * n), tokens)
    return counted, timed, "as the summary of the client has them", 0


def client_of(text):
    """(name of the client, what reads it, its document): JSON, or JSON lines. ValueError for neither."""
    try:
        told = json.loads(text)
    except ValueError:
        return "AIPerf", aiperf, [json.loads(line) for line in text.splitlines() if line.strip()]
    if "metadata" in told and "metrics" in told:
        return "AIPerf", aiperf, [told]
    if "benchmarks" in told:
        return "GuideLLM", guidellm, told
    if "request_count" in told:
        return "AIPerf" if "aiperf_version" in told else "genai-perf", genai_perf, told
    return "vllm bench serve", vllm, told


def values_of(text, benchmark=None):
    """(client, counts, times, arrivals, most at once) of a client's result; KeyError, TypeError or ValueError if it is
    none."""
    client, read, told = client_of(text)
    return client, *(read(told, benchmark) if read is guidellm else read(told))


def record_served(file, folder, *, program, method, benchmark=None, arrivals=None, **settings):
    """Appends the row to FOLDER/rows.jsonl and returns it. program: the server, with its version; `method` and
    `settings` as in unmask.record(), `like` or `model` and `workload` among them. benchmark: which one of GuideLLM's
    file, from 0. arrivals: how requests came, in words, where the file does not say: another load is another point."""
    try:
        with open(file, encoding="utf-8") as text:
            client, counted, timed, came, most = values_of(text.read(), benchmark)
    except UserError as problem:
        raise UserError(f"{file}: {problem}") from problem
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, ZeroDivisionError) as problem:
        words = f"`{problem.args[0]}` is missing" if isinstance(problem, KeyError) else problem
        raise EnvironmentFault(f"{file}: no result of vllm bench serve, GuideLLM, AIPerf or genai-perf: "
                               f"{words}") from problem
    head = recorder.record(folder, program=program, method=method, **settings).head
    serve = {"clock": "real", "arrivals": arrivals or came, "most_at_once": most}
    row = recorder.identified(head | {"serve": serve}, program) | {
        "verdict": "NOT_VERIFIED", "reason": "nobody scored the answers", "score": None, "answers_hash": "",
        "metrics": counted | timed, "provenance": dict.fromkeys(counted, "counted") | dict.fromkeys(timed, "measured"),
        "samples": {"seconds": [timed["wall_seconds"]], "warmup_seconds": [], "half_width": None,
                    "stop": "max_repetitions"},
        "environment": recorder.machine(), "source_hash": "", "measured_by": f"{client} on {program}",
        "finished_at": recorder.now()}
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "rows.jsonl"), "a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")
        out.flush()
        os.fsync(out.fileno())
    return row
