// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the tests try every method with: each way in which it can be told to work differently, and
// the models it refuses. A method's settings stand in its folder, in a settings.cpp that only the
// tests link; every one of them is held to the same rules (tests/methods): tokens that do not depend
// on the batch, the reference's decisions on the CPU, conserved counts, and the same tokens and
// counts from the CUDA kernels, launched and recorded.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "harness/decode/registry.h"
#include "harness/model/config.h"

namespace unmask {

// What a recording of the layers (backend::capture) makes of a setting.
enum class layer_recording : std::uint8_t {
  repeated,  // layers are recorded and come back with the same number of rows
  seldom,    // they are recorded, but a short decoding never has that number of rows again
  never      // a policy works between the layers, or layers compute a part of their rows
};

struct setting {
  std::string label;  // unique; letters, digits and _
  model_family family = model_family::llada;
  parameter_map given;
  std::string preset = "";
  layer_recording recording = layer_recording::repeated;
  std::string method = "";  // filled in
};

inline void PrintTo(const setting& s, std::ostream* out) {
  *out << s.label;
}

struct method_settings {
  std::string method;
  std::vector<model_family> refused;  // some of the models that it cannot decode
  // Layers compute a part of their rows: their counts follow another rule, of the method's own test.
  bool partial_layers = false;
  std::vector<setting> settings;
};

// All of this program, sorted by method; from register_settings objects.
const std::vector<method_settings>& all_method_settings();
// The settings of all methods, end to end.
std::vector<setting> all_settings();

struct register_settings {
  explicit register_settings(method_settings of);
};

}  // namespace unmask
