// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The pictures that a line of tasks names, of the user's own tasks and of a benchmark's.
#pragma once

#include <filesystem>
#include <string>

#include "harness/workload/task.h"

namespace unmask {

// Reads the picture PATH of the folder that holds the tasks. std::runtime_error that goes on "names ..."
// if it is no file or outside that folder, also where links lead.
task_picture picture_of_tasks(const std::string& path, const std::filesystem::path& folder);

}  // namespace unmask
