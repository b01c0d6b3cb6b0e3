// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a line of a file of tasks holds, for whoever writes one: read_tasks() asks for these fields,
// `unmask show format` prints them.
#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"

namespace unmask {

struct task_field {
  const char *name, *type;
  bool needed;
  const char* meaning;
};
const std::vector<task_field>& task_fields();

// A member of `check` that a scorer cannot do without.
struct check_field {
  const char *scorer, *name, *type, *meaning;
};
const std::vector<check_field>& check_fields();

// Environment error that names every field which a line lacks, those of its scorer's check included.
void require_task_fields(const json_reader& line);

}  // namespace unmask
