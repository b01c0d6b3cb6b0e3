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

// The folder `experiments` that comes with the program: in program_root(), else in the nearest
// folder above the program's own file that has one (a packed program). Empty where there is none.
// Nothing is ever looked for in the current folder or above it.
std::filesystem::path shipped_experiments();

// Where the models and tasks of an experiment may be: the folder of its file (empty: it has none),
// then what comes with the program.
std::vector<std::filesystem::path> embedded_places(const std::filesystem::path& beside);
std::string looked_in(const std::filesystem::path& beside);  // the same for a sentence
// "; the small models are the wheel ..." if no model came with this installation, else "".
std::string models_wheel();
// PATH in the first of these places that has it; "experiments/PATH" and "../PATH", as files that lie
// in the tree say it, are PATH of what comes with the program.
std::optional<std::filesystem::path> find_embedded(const std::filesystem::path& path,
                                                   const std::filesystem::path& beside);

// The model directory NAME (one that holds config.json): in the directories of $UNMASK_MODELS
// (separated by colons), then as the newest snapshot of any models--ORG--NAME in $HF_HUB_CACHE,
// $HF_HOME/hub and ~/.cache/huggingface/hub. NAME may be "ORG/NAME"; one that leads out of these
// folders, by ".." or "/", is none.
std::optional<std::filesystem::path> find_weights(const std::string& name);

// "; did you mean 'tiny-llada'?" where a model of a near name comes with the program, lies beside the
// experiment's file or in $UNMASK_MODELS; "" elsewhere.
std::string nearest_model(const std::filesystem::path& given,
                          const std::filesystem::path& beside = {});

// The newest snapshot with a config.json below models--ORG--NAME of a Hugging Face cache.
std::optional<std::filesystem::path> newest_snapshot(const std::filesystem::path& repository);

// The directories of $UNMASK_MODELS and of $UNMASK_DATASETS.
std::vector<std::filesystem::path> model_folders();
std::vector<std::filesystem::path> dataset_folders();

// The trace FILE in traces/ of a directory of $UNMASK_DATASETS.
std::optional<std::filesystem::path> find_trace(const std::string& file);

}  // namespace unmask
