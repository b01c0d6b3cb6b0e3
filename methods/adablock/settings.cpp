// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

// Every third token of the tests' models ends a block.
parameter_map with_delimiters(const parameter_map& more) {
  std::string ids;
  for (int v = 0; v < 58; v += 3) ids += (v == 0 ? "" : ",") + std::to_string(v);
  parameter_map m = {{"delimiter_ids", ids},
                     {"delimiter_threshold", 0.15},
                     {"threshold", 0.4},
                     {"block_length", 7}};
  m.insert(more.begin(), more.end());
  return m;
}

const register_settings adablock(
    {.method = "adablock",
     .refused = {sdar, qwen3},
     .settings = {{"adablock_dual", llada, with_delimiters({})},
                  {"adablock_none", llada, with_delimiters({{"cache", "none"}})},
                  {"adablock_prefix", llada, with_delimiters({{"cache", "prefix"}})},
                  {"adablock_dream_dual", dream, with_delimiters({})},
                  {"adablock_dream_none", dream, with_delimiters({{"cache", "none"}})}}});

}  // namespace
}  // namespace unmask
