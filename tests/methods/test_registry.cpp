// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

// A static library could drop a method that nothing refers to; the exact set is pinned here.
TEST(registry, holds_exactly_the_methods_of_the_tree) {
  const std::vector<std::string> expected = {
      "ada_blocks",         "ada_dlm",    "autoregressive", "block_diffusion", "delayed_cache",
      "delayed_cache_plus", "dkv_cache",  "dllm_cache",     "fast_dllm",       "focus",
      "focus_chunks",       "focus_dllm", "optimus",        "sparse_blocks",   "sparse_d",
      "sparse_dllm",        "vanilla"};
  EXPECT_EQ(method_registry::instance().names(), expected);
}

TEST(registry, refuses_a_duplicate_name) {
  method_info copy = method_registry::instance().find("vanilla");
  EXPECT_THROW(method_registry::instance().add(copy), std::logic_error);
}

TEST(registry, answers_an_unknown_name_with_the_nearest) {
  try {
    method_registry::instance().find("vanila");
    FAIL() << "no error";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), exit_code::usage);
    EXPECT_NE(std::string(e.what()).find("'vanilla'"), std::string::npos) << e.what();
  }
}

TEST(registry, knobs_are_parameters_and_their_counters_are_counted) {
  for (const std::string& name : method_registry::instance().names()) {
    const method_info& m = method_registry::instance().find(name);
    EXPECT_TRUE(!m.knobs.empty() || name == "autoregressive") << name;
    for (const method_knob& knob : m.knobs) {
      EXPECT_TRUE(std::ranges::any_of(
          m.parameters, [&](const parameter_spec& p) { return p.name == knob.parameter; }))
          << name << " " << knob.parameter;
      EXPECT_TRUE(std::ranges::any_of(
          counter_list(), [&](const counter_spec& c) { return c.metric == knob.counter; }))
          << name << " " << knob.counter;
    }
  }
}

TEST(registry, every_parameter_default_lies_in_its_own_range) {
  for (const std::string& name : method_registry::instance().names()) {
    const method_info& m = method_registry::instance().find(name);
    EXPECT_NO_THROW(resolve_parameters(name, m.parameters, {})) << name;
    for (const auto& [preset, values] : m.presets) {
      EXPECT_NO_THROW(resolve_parameters(name, m.parameters, values)) << name << " " << preset;
    }
  }
}

// A combination that makes no sense is refused by name, before it runs.
TEST(registry, refuses_a_method_the_model_cannot_run) {
  const struct {
    const char* method;
    model_family family;
  } wrong[] = {
      {"vanilla", model_family::sdar},          {"vanilla", model_family::qwen3},
      {"block_diffusion", model_family::llada}, {"autoregressive", model_family::sdar},
      {"ada_dlm", model_family::sdar},          {"sparse_d", model_family::sdar},
      {"sparse_dllm", model_family::sdar},      {"ada_dlm", model_family::qwen3},
      {"delayed_cache", model_family::dream},   {"delayed_cache_plus", model_family::qwen3},
      {"focus", model_family::llada},           {"dllm_cache", model_family::qwen3},
      {"optimus", model_family::dream},         {"sparse_blocks", model_family::llada},
      {"focus_chunks", model_family::llada},    {"ada_blocks", model_family::dream}};
  for (const auto& w : wrong) {
    try {
      method_registry::instance().make(w.method, testing::tiny_config(w.family), "", {});
      FAIL() << w.method;
    } catch (const error& e) {
      EXPECT_EQ(e.code(), exit_code::usage);
      EXPECT_NE(std::string(e.what()).find(w.method), std::string::npos);
      EXPECT_NE(std::string(e.what()).find("random-tiny"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace unmask
