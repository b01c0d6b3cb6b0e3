// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Every table and figure rewritten as what it changes of another one: the plan of every scale is the
// same, id by id. The difference of two files is made here, knowing nothing of how files are merged.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include <toml++/toml.h>
#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/plan/overlay.h"
#include "harness/plan/plan.h"
#include "harness/plan/request.h"
#include "harness/run/runner.h"
#include "tests/experiments/files.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

const method_catalogue& methods() {
  static const std::unique_ptr<executor> all = make_executor();
  static const method_catalogue catalogue = all->methods();
  return catalogue;
}

bool is_kind(const std::string& key) {
  return key == "model" || key == "workload" || key == "method";
}

std::string label_of(const toml::table& entry) {
  for (const char* key : {"label", "name"}) {
    if (const auto* text = entry[key].as_string()) return text->get();
  }
  return "";
}

toml::table just_removed() {
  return toml::table{{"remove", true}};
}

// What `wanted` has and `other` has not, key by key; `lost`: other has keys that wanted lacks.
toml::table changed_keys(const toml::table& wanted, const toml::table& other, bool& lost) {
  toml::table out;
  for (const auto& [key, node] : other) lost |= !wanted.contains(key.str());
  for (const auto& [key, node] : wanted) {
    const toml::node* below = other.get(key.str());
    if (below && node.is_table() && below->is_table()) {
      toml::table inner = changed_keys(*node.as_table(), *below->as_table(), lost);
      if (!inner.empty()) out.insert(key, std::move(inner));
    } else {
      bool same = false;
      node.visit([&](const auto& value) {
        using type = std::remove_cvref_t<decltype(value)>;
        if (const auto* theirs = below ? below->as<type>() : nullptr) same = value == *theirs;
      });
      if (!same) node.visit([&](const auto& value) { out.insert(key, value); });
    }
  }
  return out;
}

// Methods by label where those that both have stand in one order and the new ones behind.
toml::array changed_entries(const std::string& kind, const toml::array& wanted,
                            const toml::array& other) {
  toml::array by_name;
  std::size_t at = 0;
  bool able = kind == "method";
  for (const toml::node& theirs : other) {
    const toml::table& was = *theirs.as_table();
    const bool here = at < wanted.size() && label_of(*wanted[at].as_table()) == label_of(was);
    if (!here) {
      by_name.push_back(toml::table{{"label", label_of(was)}, {"remove", true}});
      continue;
    }
    bool lost = false;
    toml::table change = changed_keys(*wanted[at++].as_table(), was, lost);
    if (lost) able = false;
    if (change.empty()) continue;
    change.insert("label", label_of(was));
    by_name.push_back(std::move(change));
  }
  for (std::size_t i = at; i < wanted.size(); ++i) {
    for (const toml::node& theirs : other) {  // the same label at another place
      able &= label_of(*theirs.as_table()) != label_of(*wanted[i].as_table());
    }
    by_name.push_back(*wanted[i].as_table());
  }
  if (able) return by_name;
  toml::array afresh;
  afresh.push_back(just_removed());
  for (const toml::node& entry : wanted) afresh.push_back(*entry.as_table());
  return afresh;
}

// A table that is replaced: what wanted says, and nothing of the other file.
toml::table replaced(const toml::table& wanted) {
  toml::table out = wanted;
  out.insert("remove", true);
  return out;
}

enum class depth { top, scales, scale };

toml::table difference(const toml::table& wanted, const toml::table& other, depth level);

void put_table(toml::table& out, const std::string& key, const toml::table& ours,
               const toml::table* theirs, depth level) {
  if (theirs == nullptr) {
    out.insert(key, ours);
  } else if ((level == depth::top && key == "scale") || level == depth::scales) {
    const depth inner = level == depth::top ? depth::scales : depth::scale;
    toml::table change = difference(ours, *theirs, inner);
    if (!change.empty()) out.insert(key, std::move(change));
  } else {
    bool lost = false;
    toml::table change = changed_keys(ours, *theirs, lost);
    if (lost) change = replaced(ours);
    if (!change.empty()) out.insert(key, std::move(change));
  }
}

toml::table difference(const toml::table& wanted, const toml::table& other, depth level) {
  for (const auto& [key, node] :
       other) {  // texts and lists of a scale cannot be taken away one by one
    const bool scalar = !node.is_table() && !is_kind(std::string(key.str()));
    if (level == depth::scale && scalar && !wanted.contains(key.str())) return replaced(wanted);
  }
  toml::table out;
  for (const auto& [key, node] : wanted) {
    const std::string name(key.str());
    const toml::node* below = other.get(name);
    if (node.is_array() && is_kind(name) && level != depth::scales) {
      const toml::array none;
      const toml::array& theirs = below ? *below->as_array() : none;
      if (*node.as_array() == theirs) continue;
      out.insert(name, below ? changed_entries(name, *node.as_array(), theirs) : *node.as_array());
    } else if (node.is_table()) {
      put_table(out, name, *node.as_table(), below ? below->as_table() : nullptr, level);
    } else {
      node.visit([&](const auto& value) { out.insert(name, value); });
    }
  }
  for (const auto& [key, node] : other) {
    const std::string name(key.str());
    if (wanted.contains(name) || name == "artifact") continue;
    if (node.is_table() || is_kind(name)) {
      out.insert(name, just_removed());
    } else {
      out.insert(name, name == "kind" ? "decode" : "");
    }
  }
  return out;
}

std::string text_of(const toml::table& table) {
  std::ostringstream out;
  out << table;
  return out.str();
}

std::string plan_of(const experiment_spec& spec) {
  if (spec.models.empty()) return spec.not_run;
  nlohmann::ordered_json manifest =
      nlohmann::ordered_json::parse(manifest_json({}, spec, make_plan(spec, methods())));
  return manifest.dump(1);
}

// A file of experiments/ that itself extends one is taken as the whole that it says.
toml::table whole_table(const fs::path& file) {
  return toml::parse(whole_text(read_file(file, 1 << 24), file, {}));
}

TEST(extends, shipped_files_rewritten_as_changes_of_another_have_the_same_plans) {
  std::vector<fs::path> files;
  for (const test::paper_files& paper : test::papers()) {
    for (const std::string& id : test::artifacts_of(paper)) {
      files.push_back(test::experiments() / paper.name / (id + ".toml"));
    }
  }
  std::size_t plans = 0, shorter = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const fs::path &file = files[i], &other = files[(i + 1) % files.size()];
    SCOPED_TRACE(file.string() + " as changes of " + other.string());
    toml::table wanted = whole_table(file), theirs = whole_table(other);
    theirs.erase("artifact");
    toml::table change = difference(wanted, theirs, depth::top);
    change.insert("extends", "../" + other.lexically_relative(test::experiments()).string());
    const std::string text = text_of(change);
    shorter += text.size() < text_of(wanted).size();
    const experiment_spec any = read_any_scale(file);
    std::vector<std::string> scales = names_in(any.scales, &scale_entry::name);
    if (scales.empty()) scales.emplace_back();
    for (const std::string& scale : scales) {
      SCOPED_TRACE(scale);
      const std::string plan = plan_of(read_spec(file, scale));
      ASSERT_EQ(plan_of(parse_spec(text, file, scale)), plan) << text;
      // And so has the text that run.json keeps.
      ASSERT_EQ(plan_of(parse_spec(whole_text(text, file, {}), file, scale)), plan);
      ++plans;
    }
  }
  EXPECT_GT(plans, 150u);
  EXPECT_GT(shorter, 10u);  // the others have little in common with the file that was chosen
}

}  // namespace
}  // namespace unmask
