// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/traces.h"

#include "tests/harness/workload/support.h"

namespace unmask::test {
namespace {

TEST(traces, lengths_have_no_arrivals) {
  const scratch_file file("l.csv",
                          "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
                          "74,918,992,0.08\n290,905,1195,0.32\n");
  const auto requests = read_trace("lengths", file.path());
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].prompt_tokens, 290);
  EXPECT_EQ(requests[1].output_tokens, 905);
  EXPECT_EQ(requests[1].arrival_seconds, 0);
}

TEST(traces, azure_times_count_from_the_first_arrival) {
  const scratch_file file("a.csv",
                          "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                          "2023-12-31 23:59:59.5000000,10,1\r\n"
                          "2024-01-01 00:00:01.0000001,30,3\r\n"
                          "2023-12-31 23:59:59.7500000,20,2");
  const auto requests = read_trace("azure", file.path());
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].arrival_seconds, 0);
  EXPECT_DOUBLE_EQ(requests[1].arrival_seconds, 0.25);
  EXPECT_EQ(requests[1].prompt_tokens, 20);  // sorted by arrival
  EXPECT_DOUBLE_EQ(requests[2].arrival_seconds, 1.5000001);
}

TEST(traces, mooncake_times_are_milliseconds) {
  const scratch_file file(
      "m.jsonl",
      "{\"timestamp\": 1000, \"input_length\": 5, \"output_length\": 6, \"hash_ids\": [0]}\n"
      "{\"timestamp\": 2500, \"input_length\": 7, \"output_length\": 8, \"hash_ids\": []}\n");
  const auto requests = read_trace("mooncake", file.path());
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_DOUBLE_EQ(requests[1].arrival_seconds, 1.5);
  EXPECT_EQ(requests[1].prompt_tokens, 7);
  EXPECT_EQ(requests[1].output_tokens, 8);
}

TEST(traces, errors_name_file_line_and_column) {
  const auto fails = [](const char* format, const std::string& text, const std::string& part) {
    const scratch_file file("t.csv", text);
    expect_error(exit_code::environment, part, [&] { read_trace(format, file.path()); });
    expect_error(exit_code::environment, "t.csv", [&] { read_trace(format, file.path()); });
  };
  const std::string head = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  fails("azure", head + "yesterday,1,2\n", "line 2: column `TIMESTAMP` must look like");
  fails("azure", head + "2023-02-30 00:00:00,1,2\n", "`TIMESTAMP`");
  fails("azure", head + "2023-02-28 00:00:00.x,1,2\n", "`TIMESTAMP`");
  fails("azure", head + "2023-02-28 00:00:00,1\n", "`GeneratedTokens` is missing");
  fails("azure", head + "2023-02-28 00:00:00,1,2.5\n", "`GeneratedTokens` is `2.5`");
  fails("azure", head + "2023-02-28 00:00:00,-1,2\n", "`ContextTokens` is `-1`");
  fails("azure", head, "holds no requests");
  fails("lengths", head + "1,2,3\n", "`num_prefill_tokens` is missing in the header");
  fails("mooncake", "{\"timestamp\": 1}", "`input_length` is missing");
  expect_error(exit_code::usage, "did you mean 'mooncake'?", [] { read_trace("moon_cake", "x"); });
}

TEST(traces, published_files) {
  struct published {
    const char* format;
    const char* path;
    std::size_t requests;
  };
  const published files[] = {{"lengths", "traces/sharegpt.csv", 40},
                             {"lengths", "traces/bwb.csv", 40},
                             {"azure", "traces/azure_code.csv", 40},
                             {"azure", "traces/azure_conv.csv", 40},
                             {"mooncake", "traces/mooncake_conversation.jsonl", 40},
                             {"mooncake", "traces/mooncake_synthetic.jsonl", 40}};
  for (const published& file : files) {
    const auto requests = read_trace(file.format, public_data(file.path));
    EXPECT_EQ(requests.size(), file.requests) << file.path;
    EXPECT_EQ(requests.front().arrival_seconds, 0);
    EXPECT_EQ(requests.back().arrival_seconds > 0, std::string(file.format) != "lengths");
    EXPECT_LT(requests.back().arrival_seconds, 7200) << file.path;
  }
}

}  // namespace
}  // namespace unmask::test
