// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The head's product whose logits stay in registers (head_product_kernels.h), on Hopper.
#pragma once

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/head_kernels.h"
#include "kernels/head.h"

namespace unmask::cuda::UNMASK_TARGET {

// Whether it takes the question: bfloat16 weights, no noise and no entropy, which need the logits, and candidates
// that fill its tiles. w: of the head, or of a piece of it.
bool takes_head_product(const device_backend& device, const op::confidence& args,
                        const device_matrix& w);
// The state of each candidate over the tokens of w, p.state, and of a whole head the results. rows [candidates, width]:
// of the candidates, end to end; first: the token of the whole head that w begins with.
void run_head_product(const device_backend& device, const std::uint16_t* rows,
                      const device_matrix& w, std::int64_t first, const head_params& p);

}  // namespace unmask::cuda::UNMASK_TARGET
