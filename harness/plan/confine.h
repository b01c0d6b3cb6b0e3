// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Where an experiment may read and write. Its file may come from anybody: what it names is data of
// its own folder or of the program's, unless the user says otherwise.
#pragma once

#include <filesystem>

#include "harness/plan/spec.h"

namespace unmask {

// Whether a file may be read: it is inside bounds.folder, or it is one of the places that anybody may
// read.
bool may_read(const std::filesystem::path& path, const path_bounds& bounds);

// Every path that the experiment names, by whichever key, sweep or setting. Reads: inside
// bounds.folder, what comes with the program, or $UNMASK_MODELS and $UNMASK_DATASETS. Writes
// (serve.log, serve.record): inside the current folder, and never over a file that is no such log
// or recording. Links count as what they lead to. Usage error that names the file and the key.
void check_paths(const experiment_spec& spec, const path_bounds& bounds);

}  // namespace unmask
