// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The list of keys that experiments/FORMAT.md is written from, against what is read.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/toml_reader.h"
#include "harness/plan/format.h"
#include "harness/plan/needs.h"
#include "harness/plan/serve_settings.h"
#include "harness/plan/spec.h"
#include "harness/workload/scorer.h"
#include "harness/workload/task_fields.h"

namespace unmask {
namespace {

using names = std::set<std::string>;

const format_table& table_of(const std::string& path) {
  const auto found = std::ranges::find(format_tables(), path, &format_table::path);
  EXPECT_NE(found, format_tables().end()) << path;
  return *found;
}

names keys_of(const std::string& path) {
  names keys;
  // Of dotted keys their table is asked for.
  for (const format_key& key : table_of(path).keys) {
    keys.insert(key.name.substr(0, key.name.find('.')));
    if (!key.former.empty()) keys.insert(key.former);
  }
  return keys;
}

// A file with every table; what is in them is read by name, so that all keys are asked for.
constexpr const char* whole = R"(
title = "all"
[artifact]
paper = "p"
id = "table_1"
kind = "table"
title = "t"
[run]
warmup = 0
[[model]]
path = "models/tiny-sdar"
[[workload]]
tasks = ["word_problem"]
[[method]]
name = "vanilla"
[probe]
names = ["decode_trace"]
[sweep]
mode = "cross"
[layout]
rows = ["label"]
[scale.tiny]
takes = "a second"
)";

toml_reader::asked_keys asked_for() {
  toml_reader::asked_keys asked;
  toml_reader::note_asked(&asked);
  parse_spec(whole, std::string(UNMASK_SOURCE_DIR) + "/experiments/whole.toml");
  toml_reader::note_asked(nullptr);
  return asked;
}

TEST(format, the_list_is_what_is_read) {
  const toml_reader::asked_keys asked = asked_for();
  for (const char* path : {"run", "model", "workload", "method", "probe", "sweep", "artifact"}) {
    EXPECT_EQ(keys_of(path), asked.at(path)) << path;
  }
  EXPECT_EQ(keys_of("scale.*"), asked.at("scale.tiny"));
  names top = keys_of("");
  for (const format_table& t : format_tables()) {
    if (!t.path.empty() && t.path != "scale.*") top.insert(t.path);
  }
  EXPECT_EQ(top, asked.at(""));
}

TEST(format, run_and_serve_are_complete) {
  for (const run_key& key : run_key_list()) EXPECT_TRUE(keys_of("run").contains(key.name));
  names serve;
  for (const parameter_spec& p : serve_parameters()) serve.insert(p.name);
  EXPECT_EQ(keys_of("serve"), serve);
}

TEST(format, every_key_has_a_meaning) {
  for (const format_table& t : format_tables()) {
    EXPECT_FALSE(t.says.empty()) << t.head;
    for (const format_key& key : t.keys) {
      EXPECT_FALSE(key.meaning.empty()) << t.head << " " << key.name;
      EXPECT_FALSE(key.type.empty()) << t.head << " " << key.name;
    }
  }
}

// The package reads [layout]: its list of keys is the one that counts.
TEST(format, layout_is_what_the_package_reads) {
  const std::string source = read_file(
      std::string(UNMASK_SOURCE_DIR) + "/harness/python/unmask/tables/layout.py", 1 << 20);
  std::smatch list;
  ASSERT_TRUE(std::regex_search(source, list, std::regex("LAYOUT_KEYS = \\(([^)]*)\\)")));
  const std::string words = list[1];
  names known;
  const std::regex word("\"(\\w+)\"");
  for (std::sregex_iterator it(words.begin(), words.end(), word), end; it != end; ++it) {
    known.insert((*it)[1]);
  }
  EXPECT_EQ(keys_of("layout"), known);
}

TEST(format, every_need_is_read_and_explained) {
  // Of each line of the page a need that is read and one that is refused.
  const std::map<std::string, std::pair<std::string, std::string>> cases = {
      {"cuda", {"cuda", "cuda:1"}},
      {"cuda-emulated", {"cuda-emulated", "cuda-emulated:x"}},
      {"gpus:N", {"gpus:2", "gpus:none"}},
      {"gpu_memory_gb:N", {"gpu_memory_gb:79.5", "gpu_memory_gb"}},
      {"memory_gb:N", {"memory_gb:64", "memory_gb:0"}},
      {"cores:N", {"cores:8", "cores:-1"}},
      {"weights:NAME", {"weights:ORG/LLaDA-8B", "weights:"}},
      {"model:NAME", {"model:smol", "model"}},
      {"benchmark:NAME", {"benchmark:gsm8k", "benchmark:gsm9k"}},
      {"trace:NAME", {"trace:azure.csv", "trace"}}};
  std::string page = format_page();
  page = page.substr(page.find("## Needs\n"));
  page = page.substr(0, page.find("\n## ", 1));
  names explained;
  const std::regex line("\\n\\| `([^`]+)` \\| [^|]{8,} \\|");
  for (std::sregex_iterator it(page.begin(), page.end(), line), end; it != end; ++it) {
    explained.insert((*it)[1]);
  }
  names listed, expected;
  for (const need_kind& need : need_list()) listed.insert(need.spelled());
  for (const auto& [spelled, needs] : cases) {
    expected.insert(spelled);
    EXPECT_NO_THROW(check_need(needs.first, "x")) << needs.first;
    EXPECT_THROW(check_need(needs.second, "x"), error) << needs.second;
  }
  EXPECT_EQ(listed, expected);
  EXPECT_EQ(explained, expected);
  EXPECT_THROW(check_need("dataset:x", "x"), error);
}

// The package reads this file, so that it need not ask the program.
TEST(format, needs_of_the_package_are_those_of_the_program) {
  const std::string file =
      std::string(UNMASK_SOURCE_DIR) + "/harness/python/unmask/rows/needs.json";
  EXPECT_EQ(read_file(file, 1 << 20), needs_text())
      << "unmask show needs > harness/python/unmask/rows/needs.json";
}

TEST(format, scorers_need_what_the_list_says) {
  for (const check_field& field : check_fields()) {
    task_item item;
    item.id = "a";
    item.scorer = field.scorer;
    item.check = std::string(field.name) == "outputs" ? R"({"inputs": []})" : "{}";
    try {
      score_answer(item, "x");
      FAIL() << field.scorer << " does not need " << field.name;
    } catch (const error& problem) {
      EXPECT_NE(std::string(problem.what()).find(std::string("`") + field.name + "` is missing"),
                std::string::npos)
          << problem.what();
    }
  }
}

TEST(format, the_page_names_every_key_and_every_scorer) {
  const std::string page = format_page();
  for (const format_table& t : format_tables()) {
    for (const format_key& key : t.keys) {
      EXPECT_NE(page.find("| `" + key.name + "` |"), std::string::npos) << t.head << key.name;
    }
  }
  for (const std::string& scorer : scorer_names()) {
    EXPECT_NE(page.find(scorer), std::string::npos) << scorer;
  }
}

}  // namespace
}  // namespace unmask
