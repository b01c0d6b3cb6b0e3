// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Checkpoints that this program reads but does not decode as their authors publish them.
#pragma once

#include <filesystem>
#include <string>

#include "harness/model/config.h"

namespace unmask {

// LLaDA2.1 and LLaDA2.2 share architecture name and config.json with LLaDA2.0, key for key, but
// are decoded with token editing: decided tokens are looked at again and replaced. What tells them
// is the name of the directory (or of the repository in a Hugging Face cache), `editing_threshold`
// in generation_config.json, in README.md or in the modelling code beside the weights. A copy that
// was renamed and stripped of those files cannot be told from LLaDA2.0.
// One sentence that says what is not done and what gave it away; empty: nothing is known.
std::string caution_of(const model_config& model, const std::filesystem::path& directory);

}  // namespace unmask
