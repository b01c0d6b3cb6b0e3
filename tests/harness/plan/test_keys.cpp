// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A table with keys of its own, the worked example: its struct and its each_key() are all that reading,
// ids and paths ask for.
#include <gtest/gtest.h>

#include <map>

#include <nlohmann/json.hpp>

#include "harness/base/toml_reader.h"
#include "harness/plan/keys.h"
#include "harness/plan/plan.h"
#include "harness/plan/read_keys.h"
#include "tests/support.h"

namespace unmask {

struct shelf {
  std::string name, wood = "oak";
  std::int64_t boards = 3;
  double slope = 0;
  bool locked = false;
  std::vector<std::string> labels;
  std::filesystem::path drawing, lender;
  std::string lender_hash;
  std::int64_t low = 0, high = 0;
};

const std::vector<std::string>& woods() {
  static const std::vector<std::string> all = {"oak", "pine"};
  return all;
}

template <class Visit>
void each_key(shelf& s, Visit& visit) {
  constexpr id_part changed = id_part::when_changed;
  visit(file_key{"name", "of the shelf"}.needed("a word").in_ids(id_part::always), s.name);
  visit(file_key{"wood", "of the boards"}.one_of(woods, "wood").in_ids(changed), s.wood);
  visit(file_key{"boards", "how many"}.bounds(1, 9).in_ids(changed), s.boards);
  visit(file_key{"slope", "of all"}.bounds(0, 0.5).in_ids(changed), s.slope);
  visit(file_key{"locked", "or open"}, s.locked);
  visit.one_or_more(file_key{"labels", "on it"}, s.labels);
  visit(file_key{"drawing", "of it"}.once("sketch"), s.drawing);
  visit.hashed(file_key{"lender", "whose it is"}.looked_up(), s.lender, s.lender_hash);
  visit.range(file_key{"widths", "of books"}.in_ids(changed), "books", s.low, s.high);
}

namespace {

shelf read(const std::string& text) {
  const toml::table table = parsed_toml(text, "dir/x.toml");
  toml_reader r(table, "dir/x.toml", "shelf");
  key_reader reader(r, "[shelf]", "dir/x.toml");
  shelf s;
  each_key(s, reader);
  reader.check();
  r.finish();
  return s;
}

std::string problem_of(const std::string& text) {
  return test::message_of([&] { read(text); });
}

TEST(keys, are_read_as_they_are_declared) {
  const shelf s = read(R"(
name = "a"
wood = "pine"
boards = 9
slope = 0.25
locked = true
labels = "one"
drawing = "plans/a.txt"
lender = "ORG/B"
widths = [2, 5]
)");
  EXPECT_EQ(s.name, "a");
  EXPECT_EQ(s.wood, "pine");
  EXPECT_EQ(s.boards, 9);
  EXPECT_EQ(s.slope, 0.25);
  EXPECT_TRUE(s.locked);
  EXPECT_EQ(s.labels, (std::vector<std::string>{"one"}));
  EXPECT_EQ(s.drawing, "dir/plans/a.txt");  // beside the file
  EXPECT_EQ(s.lender, "ORG/B");             // whoever looks it up
  EXPECT_EQ(s.low, 2);
  EXPECT_EQ(s.high, 5);
  EXPECT_EQ(read("name = \"a\"\nlabels = [\"x\", \"y\"]").labels.size(), 2U);
}

TEST(keys, are_refused_as_they_are_declared) {
  const std::string at = "dir/x.toml:1: ";
  EXPECT_EQ(problem_of("wood = \"oak\""), at + "[shelf] needs `name`, a word");
  EXPECT_EQ(problem_of("wood = \"pin\"\nname = \"a\""),
            at + "unknown wood 'pin'; did you mean 'pine'?");
  EXPECT_EQ(problem_of("boards = 10"), at + "`shelf.boards` is 10 but must be from 1 to 9");
  EXPECT_EQ(problem_of("slope = 1"), at + "`shelf.slope` is 1 but must be from 0 to 0.5");
  EXPECT_EQ(problem_of("locked = 1"), at + "`shelf.locked` takes true or false, not integer");
  EXPECT_EQ(problem_of("widths = [5, 2]"),
            at + "`shelf.widths` takes [LOW, HIGH], books in rising order");
  EXPECT_EQ(problem_of("bords = 2\nname = \"a\""),
            at + "unknown key of [shelf] 'bords'; did you mean 'boards'?");
}

TEST(keys, have_older_names) {
  EXPECT_EQ(read("name = \"a\"\nsketch = \"a.txt\"").drawing, "dir/a.txt");
  EXPECT_EQ(problem_of("name = \"a\"\nsketch = \"a\"\ndrawing = \"b\""),
            "dir/x.toml:2: `shelf.sketch` is an older name of `shelf.drawing`; give one of them");
}

TEST(keys, are_part_of_ids_as_they_are_declared) {
  shelf s;
  EXPECT_EQ(keys_in_ids<nlohmann::json>(s).dump(), R"({"name":""})");
  s = {.name = "a", .boards = 4, .locked = true, .drawing = "d", .lender = "l"};
  EXPECT_EQ(keys_in_ids<nlohmann::json>(s).dump(), R"({"boards":4,"lender":"","name":"a"})");
  s = {.name = "a", .wood = "pine", .slope = 0.5, .lender = "l", .lender_hash = "h", .high = 2};
  EXPECT_EQ(keys_in_ids<nlohmann::json>(s).dump(),
            R"({"lender":"h","name":"a","slope":0.5,"widths":[0,2],"wood":"pine"})");
}

TEST(keys, name_their_paths) {
  std::map<std::string, std::filesystem::path> paths;
  each_path(
      shelf{.drawing = "d", .lender = "l"},
      [&](const std::string& name, const std::filesystem::path& path) { paths[name] = path; });
  EXPECT_EQ(paths,
            (std::map<std::string, std::filesystem::path>{{"drawing", "d"}, {"lender", "l"}}));
}

// Ids of rows that lie in archives: these texts were written before keys were declared.
TEST(keys, the_settings_of_a_point_are_what_they_were) {
  experiment_point p;
  p.model.name = "m";
  p.workload.name = "w";
  p.method = "vanilla";
  EXPECT_EQ(canonical_settings(p),
            R"({"method":"vanilla","model":{"hash":"","name":"m","weights":)"
            R"("checkpoint"},"params":{},"workload":{"hash":"","limit":0,"name":"w"}})");
  p.model.weights = "random:7";
  p.model.soften = 2;
  p.model.positions = 512;
  p.model.role = "r";
  p.workload.items = {4, 9, 7, 2, 3, true};
  p.workload.gen_length = 64;
  p.workload.models = {"m"};
  p.workload.rater = "judge";
  p.workload.rater_hash = "R";
  benchmark_request& b = p.workload.benchmark;
  b = {.name = "mmlu", .task = "anatomy", .prompt = "bos", .thinking = "off", .system = "off"};
  b.path = "data";
  b.kind = "likelihood";
  b.shots = 0;
  b.max_prompt_tokens = 0;
  b.world = 8;
  b.rank = 3;
  b.mc_num = 16;
  b.mc_batch = 4;
  b.guidance = 0.5;
  EXPECT_EQ(
      canonical_settings(p),
      R"({"method":"vanilla","model":{"hash":"","name":"m","positions":512,"soften":)"
      R"(2.0,"weights":"random:7"},"params":{},"workload":{"benchmark":{"guidance":0.5,"harness":)"
      R"("LM/mmlu","kind":"likelihood","max_prompt_tokens":0,"mc_batch":4,"mc_num":16,"name":"mmlu",)"
      R"("prompt":"bos","shots":0,"system":"off","task":"anatomy","thinking":"off","trials":1,)"
      R"("world":[3,8]},"context":[4,9],"draw":7,"gen_length":64,"hash":"","judge":"R","limit":3,)"
      R"("name":"w","offset":2,"spread":true}})");
}

}  // namespace
}  // namespace unmask
