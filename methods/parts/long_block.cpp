// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/long_block.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/decode/batch.h"
#include "harness/model/config.h"

namespace unmask {

void refuse_long_block(const std::string& method, const model_config& model,
                       const sequence_request& request, std::int32_t block) {
  if (request.gen_length <= 0 || block <= std::max(request.gen_length, model.block)) return;
  throw usage_error(method + ": gen_length " + std::to_string(request.gen_length) +
                    " is less than block_length " + std::to_string(block));
}

}  // namespace unmask
