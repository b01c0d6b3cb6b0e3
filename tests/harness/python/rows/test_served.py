# SPDX-License-Identifier: Apache-2.0
"""unmask.record_served: the result file of a load test's client as a row of a served point."""

import json
import os
import tempfile
import unittest

from made import row_of
from test_schema import problems, text_of

import unmask
from unmask.rows import rows, served
from unmask.rows.errors import EnvironmentFault

# Three requests in 8 s: the first has its four tokens in two blocks, the second one token, the third failed.
SUMMARY = {"backend": "openai", "num_prompts": 3, "completed": 2, "duration": 8.0, "total_input_tokens": 30,
           "total_output_tokens": 5, "request_rate": "inf", "mean_ttft_ms": 1500.0, "median_ttft_ms": 1250.0,
           "p99_ttft_ms": 1999.0, "mean_tpot_ms": 500.0}
DETAILED = SUMMARY | {"ttfts": [1.0, 2.0, 0.0], "itls": [[1.5], [], []], "output_lens": [4, 1, 0],
                      "input_lens": [10, 20, 10], "errors": ["", "", "refused"]}


class Served(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def recorded(self, told):
        file = os.path.join(self.folder, "result.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(told, out)
        return unmask.record_served(file, self.folder, program="LMDeploy 0.9", method="vanilla",
                                    like=row_of("vanilla", [1.0]))

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
        found = served.values_of(told)[1]
        self.assertEqual((found["ttfb_p50_seconds"], found["ttfb_p90_seconds"]), (1.5, 2.7))
        self.assertNotIn("ttfb_p99_seconds", found)  # of 30 samples the largest is below it at 74 %

    def test_a_summary_has_the_clients_own_values(self):
        found = self.recorded(SUMMARY)["metrics"]
        self.assertEqual({k: v for k, v in found.items() if k.startswith(("ttfb", "tpot"))},
                         {"ttfb_mean_seconds": 1.5, "ttfb_p50_seconds": 1.25, "ttfb_p99_seconds": 1.999,
                          "tpot_stream_mean_seconds": 0.5})

    def test_what_is_no_result_is_refused(self):
        for told in ({"a": 1}, [1], SUMMARY | {"duration": 0}, SUMMARY | {"completed": "x"}):
            with self.assertRaisesRegex(EnvironmentFault, "no result of vllm bench serve"):
                self.recorded(told)


if __name__ == "__main__":
    unittest.main()
