// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Where checkpoints, tasks and datasets lie on this machine. Nothing is ever downloaded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace unmask {

// Where the models and tasks that come with the program may be: `start` and the folders above it,
// then the same of the current directory and of the program itself.
std::vector<std::filesystem::path> embedded_places(const std::filesystem::path& start);
std::string looked_in(const std::filesystem::path& start);  // the same for a sentence
// PATH or experiments/PATH in the first of these places that has it.
std::optional<std::filesystem::path> find_embedded(const std::filesystem::path& path,
                                                   const std::filesystem::path& start);

// The model directory NAME (one that holds config.json): in the directories of $UNMASK_MODELS
// (separated by colons), then as the newest snapshot of any models--ORG--NAME in $HF_HUB_CACHE,
// $HF_HOME/hub and ~/.cache/huggingface/hub. NAME may be "ORG/NAME".
std::optional<std::filesystem::path> find_weights(const std::string& name);

// The directories of $UNMASK_DATASETS.
std::vector<std::filesystem::path> dataset_folders();

// The trace FILE in traces/ of a directory of $UNMASK_DATASETS.
std::optional<std::filesystem::path> find_trace(const std::string& file);

}  // namespace unmask
