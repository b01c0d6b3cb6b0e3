// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "harness/decode/interpreted.h"
#include "harness/engine/trajectory.h"
#include "methods/settings.h"
#include "tests/methods/cases.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

// A linker could drop a method that nothing refers to, and a method without settings would be tried
// by no test: the two lists, each from the methods' own folders, must be one.
TEST(registry, holds_the_methods_that_have_settings) {
  std::vector<std::string> expected;
  for (const method_settings& m : all_method_settings()) {
    expected.push_back(m.method);
    EXPECT_FALSE(m.settings.empty()) << m.method;
  }
  EXPECT_GE(expected.size(), 17U);
  EXPECT_EQ(method_registry::instance().names(), expected);
}

TEST(registry, knows_every_setting_by_one_label) {
  std::set<std::string> labels;
  for (const setting& s : all_settings()) EXPECT_TRUE(labels.insert(s.label).second) << s.label;
}

// Arithmetic knows no method: an operation of one method lies in its own folder.
TEST(registry, no_method_is_named_in_kernels) {
  std::string any;
  for (const std::string& name : method_registry::instance().names()) {
    any += (any.empty() ? "\\b(" : "|") + name;
  }
  // "LLaDA2.0" with its point is a model's name, not the method's.
  const std::regex named(any + ")\\b(?!\\.\\d)", std::regex::icase);
  int files = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(UNMASK_SOURCE_DIR "/kernels")) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
    ++files;
    std::ifstream file(entry.path());
    std::smatch found;
    for (std::string line; std::getline(file, line);) {
      EXPECT_FALSE(std::regex_search(line, found, named)) << entry.path() << ": " << line;
    }
  }
  EXPECT_GT(files, 80);
}

TEST(registry, refuses_a_duplicate_name) {
  method_info copy = method_registry::instance().find("vanilla");
  EXPECT_THROW(method_registry::instance().add(copy), std::logic_error);
}

TEST(registry, refuses_a_method_that_cannot_be_made_or_checked) {
  const auto refused = [](method_info info) -> std::string {
    try {
      method_registry::instance().add(std::move(info));
    } catch (const std::logic_error& problem) {
      return problem.what();
    }
    return "";
  };
  method_info info = method_registry::instance().find("vanilla");
  info.name = "half_a_method";
  info.official.clear();
  info.check = nullptr;
  EXPECT_EQ(refused(info), "method 'half_a_method' has no check");
  info.make = nullptr;
  EXPECT_EQ(refused(info), "method 'half_a_method' has no make");
}

// A rule that is not compiled may be registered again, but never in the place of a compiled method.
TEST(registry, an_interpreted_rule_takes_no_compiled_name) {
  method_info info = method_registry::instance().find("vanilla");
  info.official.clear();
  EXPECT_FALSE(is_interpreted(info));
  parameter_spec code;
  code.name = "code";
  code.default_value = std::string("00");
  info.parameters.push_back(code);
  EXPECT_TRUE(is_interpreted(info));
  test::expect_error(exit_code::usage, "'vanilla' is a compiled method",
                     [&] { method_registry::instance().add(info); });
}

TEST(registry, answers_an_unknown_name_with_the_nearest) {
  test::expect_error(exit_code::usage, "'vanilla'",
                     [] { method_registry::instance().find("vanila"); });
}

TEST(registry, a_name_like_none_may_be_a_rule_in_python) {
  const auto said = [](const char* name) {
    return test::message_of([&] { method_registry::instance().find(name); });
  };
  EXPECT_NE(said("qqqqqqqq").find("; a rule of yours in Python needs --rule FILE.py"),
            std::string::npos);
  EXPECT_EQ(said("vanila"), "unknown method 'vanila'; did you mean 'vanilla'?");
}

TEST(registry, knobs_are_parameters_and_their_counters_are_counted) {
  for (const std::string& name : method_registry::instance().names()) {
    const method_info& m = method_registry::instance().find(name);
    // pc_sampler decides as many tokens as a schedule says, in another order, which no counter shows.
    EXPECT_TRUE(!m.knobs.empty() || name == "autoregressive" || name == "pc_sampler") << name;
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
    EXPECT_NO_THROW(m.resolve("", {})) << name;
    for (const auto& [preset, values] : m.presets) {
      EXPECT_NO_THROW(m.resolve(preset, {})) << name << " " << preset;
    }
  }
}

// A forecast would otherwise know nothing of a method's pace, or two things.
TEST(registry, parameters_of_the_pace_say_so_once) {
  const std::map<std::string, pace_fact> shared = {{"steps", pace_fact::steps},
                                                   {"tokens_per_step", pace_fact::tokens_per_step},
                                                   {"block_length", pace_fact::block_length},
                                                   {"chunk", pace_fact::chunk}};
  for (const std::string& name : method_registry::instance().names()) {
    std::set<pace_fact> said;
    for (const parameter_spec& p : method_registry::instance().find(name).parameters) {
      const auto usual = shared.find(p.name);
      if (usual != shared.end()) {
        EXPECT_EQ(p.fact, usual->second) << name << " " << p.name;
      }
      if (p.fact != pace_fact::none) {
        EXPECT_TRUE(said.insert(p.fact).second) << name << " " << p.name;
      }
    }
  }
}

// focus has std_ddof = 0 and alpha = 1.5 by default, and its preset hf std_ddof = 1.
TEST(registry, given_values_win_over_a_preset_and_a_preset_over_defaults) {
  const method_info& focus = method_registry::instance().find("focus");
  const auto ddof_of = [&](const std::string& preset, const parameter_map& given) {
    const parameters p(focus.resolve(preset, given));
    EXPECT_EQ(p.real("alpha"), 1.5);
    return p.integer("std_ddof");
  };
  EXPECT_EQ(ddof_of("", {}), 0);
  EXPECT_EQ(ddof_of("hf", {}), 1);
  EXPECT_EQ(ddof_of("hf", {{"std_ddof", std::int64_t{0}}}), 0);
  EXPECT_EQ(
      test::expect_error(exit_code::usage, "", [&] { focus.resolve("hg", {}); }).substr(0, 28),
      "unknown preset of focus 'hg'");
}

// Whoever makes a recipe and whatever refuses it later: the method is named.
TEST(registry, a_recipe_bears_the_name_of_its_method) {
  std::size_t made = 0, refused = 0;
  for (const method_settings& w : all_method_settings()) {
    const method_info& m = method_registry::instance().find(w.method);
    const setting& first = w.settings.front();
    const model_config model = testing::tiny_config(first.family);
    const recipe r = m.make(model, parameters(m.resolve(first.preset, first.given)));
    EXPECT_EQ(r.method, w.method);
    ++made;
  }
  EXPECT_EQ(made, method_registry::instance().names().size());
  for (const auto& [name, edits] : testing::all_cases("edits")) {
    if (edits.at("imposable").get<bool>()) continue;
    const method_info& shadowed = method_registry::instance().find(name);
    const model_config llada = testing::tiny_config(model_family::llada);
    test::expect_error(exit_code::usage, name + " computes several rows at one position", [&] {
      with_order(shadowed.make(llada, parameters(shadowed.resolve("", {}))), nullptr);
    });
    ++refused;
  }
  EXPECT_EQ(refused, 1U);
}

// A combination that makes no sense is refused by name, before it runs.
TEST(registry, refuses_a_method_the_model_cannot_run) {
  std::int32_t tried = 0;
  for (const method_settings& w : all_method_settings()) {
    for (const model_family family : w.refused) {
      ++tried;
      const std::string said = testing::refusal_of(w.method, testing::tiny_config(family), {});
      EXPECT_NE(said.find(w.method), std::string::npos) << w.method;
      EXPECT_NE(said.find("random-tiny"), std::string::npos) << w.method;
    }
  }
  EXPECT_GE(tried, 16);
}

}  // namespace
}  // namespace unmask
