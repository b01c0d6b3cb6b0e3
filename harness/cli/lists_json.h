// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What `unmask list` and `unmask show` tell, as JSON documents for programs. Each text ends with a new line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/decode/registry.h"
#include "harness/plan/catalogue.h"

namespace unmask {

// [{name, summary}] in the order of the names.
std::string methods_json();

// [{path, family, layers, hidden, parameters}]; of a checkpoint that was not made yet {path, opt_in: true}.
std::string models_json(const std::vector<std::filesystem::path>& made,
                        const std::vector<std::filesystem::path>& opt_in);

// The files, as [path].
std::string files_json(const std::vector<std::filesystem::path>& files);

// {experiments: [path], artifacts: [{file, paper, id, title, not_reproducible, scales: [{name, obstacle,
// takes}]}]}. `obstacle` empty: it runs here. A file that cannot be read: {file, problem}.
std::string experiments_json(const std::vector<std::filesystem::path>& files,
                             const std::vector<artifact_entry>& artifacts);

// {benchmarks: [{name, harness, config, items, shots, form, gen_length, metric, scorer}], harnesses: {id:
// version}, data: [{name, home, hub, licence, files: {split: [name]}}]}. `items` 0: those of a file. A name
// keeps that benchmark alone; usage error with the nearest name if there is none.
std::string benchmarks_json(const std::string& name = "");

// {name, summary, paper, source, pace, rows, keys, cache, unmask, parameters: [{name, type, default, meaning,
// minimum, maximum, choices, source}], presets: {name: {parameter: value}}}.
std::string method_json(const method_info& m);

// The keys of an experiment file: [{head, says, keys: [{name, type, default, meaning}]}].
std::string format_json();

}  // namespace unmask
