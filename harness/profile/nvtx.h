// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Named ranges for Nsight and CUPTI, in the NVTX domain "unmask". Names are registered strings, so
// tools can filter on them (`ncu --nvtx --nvtx-include "unmask@denoise/"`); every range has a
// category and a payload: the step, block or layer. Without NVTX headers, or with no tool attached,
// a range costs one call.
//
//   profile_range step(range_category::denoise, step_index);
//   ...
//   static const range_name settle("settle", range_category::cache);
//   profile_range range(settle, layer);
//
// Ranges are per thread and must nest. Ranges inside a captured CUDA graph are not replayed.
#pragma once

#include <cstdint>

namespace unmask {

enum class range_category : std::uint32_t {
  prefill = 1,  // NVTX keeps 0 for "no category"
  denoise,
  commit,
  select,
  attention,
  mlp,
  lm_head,
  sample,
  cache,
  scheduler
};

const char* name_of(range_category category);  // "prefill", "denoise", ...

// A registered name. Make it once (static): registration takes a lock inside the tool.
class range_name {
 public:
  range_name(const char* name, range_category category);

 private:
  friend class profile_range;
  void* handle_ = nullptr;  // nvtxStringHandle_t
  range_category category_;
};

class profile_range {
 public:
  // A range named after its category.
  profile_range(range_category category, std::int64_t payload);
  profile_range(const range_name& name, std::int64_t payload);
  ~profile_range();
  profile_range(const profile_range&) = delete;
  profile_range& operator=(const profile_range&) = delete;
};

bool nvtx_built();  // false: the toolkit's headers were absent and ranges do nothing

}  // namespace unmask
