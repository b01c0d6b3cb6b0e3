// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The official scorers behind score_answer(): item and text in, score out. What an item's check
// must hold stands beside each name in ../scorer.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"
#include "harness/workload/scorer.h"

namespace unmask::scorers {

struct named_item_score {
  const char* name;
  score (*function)(const task_item& item, const json_reader& check, std::string_view output);
};
const std::vector<named_item_score>& item_scores();

}  // namespace unmask::scorers
