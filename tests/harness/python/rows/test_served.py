# SPDX-License-Identifier: Apache-2.0
"""unmask.record_served: the result file of a load test's client as a row of a served point."""

import json
import os
import tempfile
import unittest

from made import row_of
import support
from test_schema import problems, text_of

import unmask
from unmask.rows import rows, served
from unmask.rows.errors import EnvironmentFault, UserError

# Three requests in 8 s: the first has its four tokens in two blocks, the second one token, the third failed.
SUMMARY = {"backend": "openai", "num_prompts": 3, "completed": 2, "duration": 8.0, "total_input_tokens": 30,
           "total_output_tokens": 5, "request_rate": "inf", "mean_ttft_ms": 1500.0, "median_ttft_ms": 1250.0,
           "p99_ttft_ms": 1999.0, "mean_tpot_ms": 500.0}
DETAILED = SUMMARY | {"ttfts": [1.0, 2.0, 0.0], "itls": [[1.5], [], []], "output_lens": [4, 1, 0],
                      "input_lens": [10, 20, 10], "errors": ["", "", "refused"]}
# The same load as the other clients write it down, as their pages describe it.
GUIDELLM = {"requests": {"incomplete": [], "errored": [{"request_id": "c"}], "successful": [
    {"request_start_time": 100.0, "request_end_time": 102.5, "request_latency": 2.5, "prompt_tokens": 10,
     "output_tokens": 4, "time_to_first_token_ms": 1000.0, "inter_token_latency_ms": 500.0},
    {"request_start_time": 106.0, "request_end_time": 108.0, "request_latency": 2.0, "prompt_tokens": 20,
     "output_tokens": 1, "time_to_first_token_ms": 2000.0, "inter_token_latency_ms": None}]}}


def aiperf(start, end, **metrics):
    return {"metadata": {"benchmark_phase": "profiling", "was_cancelled": not metrics, "request_start_ns": start * 10 ** 9,
                         "request_end_ns": int(end * 10 ** 9)},
            "metrics": {name: {"value": value, "unit": "ms"} for name, value in metrics.items()},
            "error": None if metrics else {"code": 499}}


AIPERF = [aiperf(100, 102.5, time_to_first_token=1000.0, request_latency=2500.0, output_sequence_length=4,
                 input_sequence_length=10, inter_chunk_latency=[1500.0]),
          aiperf(106, 108, time_to_first_token=2000.0, request_latency=2000.0, output_sequence_length=1,
                 input_sequence_length=20), aiperf(109, 120)]
AIPERF.append({**AIPERF[0], "metadata": {**AIPERF[0]["metadata"], "benchmark_phase": "warmup", "request_start_ns": 0}})


class Served(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def recorded(self, told, **more):
        file = os.path.join(self.folder, "result.json")
        with open(file, "w", encoding="utf-8") as out:
            out.write(told if isinstance(told, str) else json.dumps(told))
        return unmask.record_served(file, self.folder, program="LMDeploy 0.9", method="vanilla",
                                    like=row_of("vanilla", [1.0]), **more)

    def test_every_request_counts(self):
        row = self.recorded(DETAILED)
        self.assertEqual(problems(row, json.loads(text_of("results/row.schema.json"))), [])
        [read] = rows.read_rows(self.folder)
        self.assertEqual(read["measured_by"], "vllm bench serve on LMDeploy 0.9")
        self.assertEqual(rows.setting(read, "kind"), "serve")
        # Another rate is another point.
        self.assertNotEqual(row["point_id"], self.recorded(DETAILED | {"request_rate": 2.0})["point_id"])
        self.assertEqual(read["metrics"], {
            "requests": 3, "requests_finished": 2, "requests_counted": 2, "prompt_tokens": 30, "output_tokens": 5,
            "output_tokens_per_request": 2.5, "wall_seconds": 8.0, "tokens_per_second": 0.625,
            # 1 and 2 s; 1 + 1.5 and 2 s; one gap; 1.5 s over three tokens; 2.5 s over four and 2 s over one.
            "ttfb_mean_seconds": 1.5, "e2e_mean_seconds": 2.25, "inter_block_mean_seconds": 1.5,
            "tpot_stream_mean_seconds": 0.5, "tpot_e2e_mean_seconds": (0.625 + 2) / 2})

    def test_percentiles_are_earned(self):
        told = SUMMARY | {"num_prompts": 30, "completed": 30, "ttfts": [i / 10 for i in range(1, 31)],
                          "itls": [[1.0]] * 30, "output_lens": [2] * 30}
        found = served.vllm(told)[1]
        self.assertEqual((found["ttfb_p50_seconds"], found["ttfb_p90_seconds"]), (1.5, 2.7))
        self.assertNotIn("ttfb_p99_seconds", found)  # of 30 samples the largest is below it at 74 %

    def test_a_summary_has_the_clients_own_values(self):
        found = self.recorded(SUMMARY)["metrics"]
        self.assertEqual({k: v for k, v in found.items() if k.startswith(("ttfb", "tpot"))},
                         {"ttfb_mean_seconds": 1.5, "ttfb_p50_seconds": 1.25, "ttfb_p99_seconds": 1.999,
                          "tpot_stream_mean_seconds": 0.5})

    def check(self, row, client, **values):
        """The same load by every client: 3 requests, 2 answered, 5 tokens in 8 s."""
        self.assertEqual(problems(row, json.loads(text_of("results/row.schema.json"))), [])
        self.assertEqual(row["measured_by"], f"{client} on LMDeploy 0.9")
        expected = {"requests": 3, "requests_finished": 2, "requests_counted": 2, "prompt_tokens": 30, "output_tokens": 5,
                    "output_tokens_per_request": 2.5, "wall_seconds": 8.0, "tokens_per_second": 0.625,
                    "ttfb_mean_seconds": 1.5, "e2e_mean_seconds": 2.25, "tpot_stream_mean_seconds": 0.5,
                    "tpot_e2e_mean_seconds": (0.625 + 2) / 2, **values}
        self.assertEqual(set(row["metrics"]), set(expected))
        for name, value in expected.items():
            self.assertAlmostEqual(row["metrics"][name], value, msg=name)

    def test_guidellm(self):
        row = self.recorded({"benchmarks": [GUIDELLM]})
        self.check(row, "GuideLLM")
        with self.assertRaisesRegex(UserError, "result.json: holds 2 benchmarks; benchmark=0 takes the first"):
            self.recorded({"benchmarks": [GUIDELLM, GUIDELLM]})
        second = self.recorded({"benchmarks": [{"requests": {}}, GUIDELLM]}, benchmark=1)
        self.check(second, "GuideLLM")
        self.assertNotEqual(row["point_id"], second["point_id"])

    def test_aiperf(self):
        lines = "".join(json.dumps(line) + "\n" for line in AIPERF)
        row = self.recorded(lines)
        self.check(row, "AIPerf", inter_block_mean_seconds=1.5)
        named = self.recorded(lines, arrivals="2 requests/s")
        self.assertEqual(named["serve"]["arrivals"], "2 requests/s")
        self.assertNotEqual(row["point_id"], named["point_id"])

    def test_a_summary_of_genai_perf(self):
        """Two requests of 2.5 tokens at 0.625 tokens a second: 5 tokens in 8 s."""
        told = {"request_count": {"avg": 2.0}, "output_token_throughput": {"avg": 0.625},
                "output_sequence_length": {"avg": 2.5}, "input_sequence_length": {"avg": 15.0},
                "time_to_first_token": {"unit": "ms", "avg": 1500.0, "p50": 1250.0},
                "request_latency": {"unit": "ms", "avg": 2250.0, "p99": 2500.0},
                "inter_token_latency": {"unit": "ms", "avg": 500.0}}
        self.assertEqual(self.recorded(told)["measured_by"], "genai-perf on LMDeploy 0.9")
        row = self.recorded(told | {"aiperf_version": "0.14", "error_request_count": {"avg": 1.0}})
        self.assertEqual(row["measured_by"], "AIPerf on LMDeploy 0.9")
        self.assertEqual(row["metrics"], {
            "requests": 3, "requests_finished": 2, "requests_counted": 2, "prompt_tokens": 30, "output_tokens": 5,
            "output_tokens_per_request": 2.5, "wall_seconds": 8.0, "tokens_per_second": 0.625,
            "ttfb_mean_seconds": 1.5, "ttfb_p50_seconds": 1.25, "e2e_mean_seconds": 2.25, "e2e_p99_seconds": 2.5,
            "tpot_stream_mean_seconds": 0.5})

    def test_what_is_no_result_is_refused(self):
        for told in ({"a": 1}, [1], "", "5", '{"metadata": {}}\n', {"benchmarks": [{}]}, {"request_count": 2}, SUMMARY | {"duration": 0}, SUMMARY | {"completed": "x"}):
            with self.assertRaisesRegex(EnvironmentFault, "result.json: no result of vllm bench serve"):
                self.recorded(told)


SERVED = """title = "served"
kind = "serve"
[run]
batch_size = 4
warmup = 0
repetitions = 1
seed = 3
[serve]
clock = "virtual"
cost = "1:10 64:20 4096:600"
rate = 20.0
requests = 12
trim = 0.0
tpot = "stream"
keep_requests = true
[[model]]
path = "MODELS/tiny-sdar"
[[workload]]
tasks = ["word_problem"]
limit = 5
[[method]]
name = "block_diffusion"
params.threshold = 0.9
"""


class Program(support.Case):
    """The times and the list of requests of a served point, against the row's own numbers."""

    def test_requests_are_kept_and_listed(self):
        self.write("s.toml", SERVED.replace("MODELS", str(support.SOURCE / "experiments/models")))
        done = support.program("run", "s.toml", "-o", "out", "--no-progress")
        self.assertEqual(done.returncode, 0, done.stderr)
        [row] = rows.read_rows("out/rows.jsonl")
        kept = unmask.requests("out")
        self.assertEqual((len(kept), set(kept.end), row["metrics"]["requests"]), (12, {"finished"}, 12))
        for name in ("ttfb", "e2e", "tpot_stream", "tpot_decode", "tpot_e2e"):
            self.assertAlmostEqual(kept[name].mean(), row["metrics"][f"{name}_mean_seconds"], 5, name)
        self.assertAlmostEqual(kept.ttfb.sort_values().iloc[5], row["metrics"]["ttfb_p50_seconds"], 5)
        self.assertTrue((kept.arrival <= kept.admitted).all() and (kept.prefill_done <= kept.first_emission).all())

        done = support.program("plan", "s.toml", "--requests", "list.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in self.folder.joinpath("list.jsonl").read_text().splitlines()]
        self.assertEqual(len(lines), 12)
        for line, arrival in zip(lines, kept.arrival):
            self.assertAlmostEqual(line["timestamp"], 1000 * arrival, 2)
        self.assertEqual(lines[0]["prompt"], lines[5]["prompt"])  # five items, asked again
        self.assertEqual(sum(line["input_length"] for line in lines), row["metrics"]["prompt_tokens"])
        asked = json.loads(support.SOURCE.joinpath("experiments/data/word_problem.jsonl").read_text().splitlines()[0])
        self.assertIn(asked["prompt"] if "prompt" in asked else asked["question"], lines[0]["prompt"])
        self.assertEqual(lines[0]["output_tokens"], lines[0]["output_length"])

    def test_what_cannot_be_listed_is_one_sentence(self):
        of = str(support.SOURCE / "experiments/models")
        self.write("d.toml", support.EXPERIMENT.replace("models/", f"{of}/"))
        self.write("s.toml", SERVED.replace("MODELS", of) + "[sweep]\n\"serve.rate\" = [1.0, 2.0]\n")
        for words, code, said in (
                (("plan", "d.toml", "--requests", "l"), 2, "no point is of kind = \"serve\""),
                (("plan", "s.toml", "--requests", "l"), 2, "choose one with --points"),
                (("plan", "s.toml", "d.toml", "--requests", "l"), 2, "--requests is of one experiment file"),
                (("run", "s.toml", "--requests", "l"), 2, "it needs --dry-run")):
            done = support.program(*words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)
        self.assertFalse(os.path.exists("l"))
        done = support.program("plan", "s.toml", "--requests", "l", "--points", '{"serve.rate" = 2.0}')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.write("rows.jsonl", json.dumps(row_of("a", [1.0])) + "\n")
        with self.assertRaisesRegex(UserError, "no row keeps its requests"):
            unmask.requests("rows.jsonl")


if __name__ == "__main__":
    unittest.main()
