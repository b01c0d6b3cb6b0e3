// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any text as config.json (after a zero byte: generation_config.json): an environment error, or a
// config whose parts fit together.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harness/base/error.h"
#include "harness/model/config.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = std::min(text.find('\0'), size);
  const std::string_view generation = zero < size ? text.substr(zero + 1) : std::string_view();
  try {
    const unmask::model_config m =
        unmask::parse_model_config(text.substr(0, zero), generation, "fuzz");
    require(m.layers > 0 && m.hidden > 0 && m.feed_forward > 0 && m.vocabulary > 0);
    require(m.heads % m.kv_heads == 0);
    require(m.rope.rotary_dim > 0 && m.rope.rotary_dim <= m.head_dim);
    require(m.mask_id < m.vocabulary && m.eos_id >= 0 && m.eos_id < m.vocabulary);
    require(std::ranges::find(m.stop_ids, m.eos_id) != m.stop_ids.end());
    require(m.parameters() > 0);
    require(m.moe.experts == 0 || m.moe.experts % m.moe.groups == 0);
  } catch (const unmask::error& problem) {
    require(problem.code() == unmask::exit_code::environment);
  }
  return 0;
}
