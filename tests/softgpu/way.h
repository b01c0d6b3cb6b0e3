// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the two files of the stand-in for a module share.
#pragma once

#include "kernels/libraries/module.h"

namespace unmask::softgpu_way {

struct any_plan {
  virtual ~any_plan() = default;
};

// Whether UNMASK_SOFTGPU_WAY is this word.
bool planted(const char* fault);

void* prepare_experts(const libraries::experts_shape* shape);
int feed_forward(void* plan, const libraries::experts_operands* operands);

}  // namespace unmask::softgpu_way
