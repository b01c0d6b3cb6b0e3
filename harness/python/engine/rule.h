// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A decision rule in Python as a method: the recipe of a compiled one, its base, whose candidates a
// Python function decides. What the function sees and may answer is in unmask/engine/rules.py.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "harness/base/value.h"

namespace unmask::python {

namespace nb = nanobind;

// The values of a dict with texts as keys; usage error for what no parameter can be.
parameter_map map_of(const nb::dict& values);
nb::object object_of(const parameter_value& value);

// Registers a method from what rules.py says of it: name, base, summary, base_settings, parameters (name,
// default, low, high, choices, meaning), code, wants, begin. `begin` is called for every batch with
// the rule's own parameters, and answers what is asked at each step.
void put_rule(const nb::dict& rule);

}  // namespace unmask::python
