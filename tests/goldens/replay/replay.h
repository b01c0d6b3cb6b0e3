// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Replay of golden data (outputs of the official implementations): model logits, and decoding runs
// token by token, forward by forward.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/model/share.h"
#include "harness/model/unread.h"
#include "kernels/backend.h"
#include "tests/goldens/replay/result.h"

namespace unmask {

// A whole number that fits, of a recorded file; environment error where it is none, as of every other
// value in it that is not what a recording holds.
std::int32_t recorded_number(const nlohmann::json& value);
std::vector<std::int32_t> recorded_numbers(const nlohmann::json& values);
// What is wrong with a recorded file: the sentence of a library without its own marks.
std::string recording_problem(const std::exception& problem);

// Recordings of models with a picture tower ask about text.
inline constexpr unread_use text_alone = {true, false};

struct golden_summary {
  int passed = 0, failed = 0, skipped = 0;
  int left_out = 0;  // by limit or max_rows, or because can_be_dealt() is false
};

struct golden_options {
  std::filesystem::path directory;
  std::vector<std::string> methods;  // golden file names or registered methods; empty: all
  const unmask::backend* backend = nullptr;
  bool quiet = false;  // only failures and the summary
  // For slow backends; 0: all. The first `limit` runs (or logit cases) of each file that compute at
  // most `max_rows` rows over all their forwards.
  int limit = 0;
  std::int64_t max_rows = 0;
  model_share share;  // of this process
};

// Whether the heads and widths of a model can be dealt as `share` says.
bool can_be_dealt(const model_config& whole, const model_share& share);

golden_summary replay_logits(const golden_options& options);
golden_summary replay_decode(const golden_options& options);

}  // namespace unmask
