// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Recorded requests: how long prompts and answers are and, where recorded, when they arrived.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unmask {

struct trace_request {
  double arrival_seconds = 0;  // since the first request of the trace
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
};

// lengths   CSV num_prefill_tokens,num_decode_tokens,...  (ShareGPT, arXiv, BWB as processed by
//           Sarathi-Serve, Vidur and Etalon); no arrivals: all are 0, the arrival process sets them
// azure     CSV TIMESTAMP,ContextTokens,GeneratedTokens   (Azure LLM inference traces 2023)
// mooncake  JSON Lines timestamp (ms), input_length, output_length
const std::vector<std::string>& trace_formats();

// Requests in order of arrival. Usage error for an unknown format; environment error that names
// the file, the line and the column for anything that cannot be read.
std::vector<trace_request> read_trace(const std::string& format, const std::string& path);

}  // namespace unmask
