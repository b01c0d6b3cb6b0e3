// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/task.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "tests/harness/workload/support.h"

namespace unmask::test {
namespace {

const std::string good =
    R"({"id": "a", "family": "f", "prompt": "p", "answer": "x", "scorer": "exact", )"
    R"("check": {"z": 1, "context_tokens": 48}, "gen_length": 32})";

TEST(tasks, reads_every_shipped_family) {
  for (const char* family : families) {
    const auto items = read_tasks(shipped(family));
    EXPECT_GE(items.size(), 80u) << family;  // as many as a default comparison of quality takes
    for (const task_item& item : items) {
      EXPECT_EQ(item.family, family);
      EXPECT_GT(item.gen_length, 0);
      const std::string name = family;
      const bool long_context = name == "needle" || name == "retrieval_kv" || name == "summary" ||
                                name == "ledger";  // sums to do, not a text
      EXPECT_EQ(item.context_tokens > 0, long_context) << item.id;
    }
  }
}

TEST(tasks, keeps_check_as_sorted_text) {
  const scratch_file file("t.jsonl", good + "\r\n\n");
  const auto items = read_tasks(file.path());
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].check, R"({"context_tokens":48,"z":1})");
  EXPECT_EQ(items[0].context_tokens, 48);
}

TEST(tasks, errors_name_file_line_and_key) {
  const auto fails = [](const std::string& second_line, exit_code code, const std::string& part) {
    const scratch_file file("t.jsonl", good + "\n" + second_line + "\n");
    expect_error(code, part, [&] { read_tasks(file.path()); });
    expect_error(code, "t.jsonl, line 2", [&] { read_tasks(file.path()); });
  };
  fails("{", exit_code::environment, "not valid JSON");
  fails("[1]", exit_code::environment, "must be an object");
  fails(R"({"id": "b"})", exit_code::environment,
        "`family`, `prompt`, `scorer` and `gen_length` are missing");
  fails(R"({"id":"b","family":"f","prompt":"p","scorer":"list_program","check":{"inputs":[]}})",
        exit_code::environment, "`gen_length` and `check.outputs` are missing");
  fails(R"({"id":"b","family":"f","prompt":"p","scorer":"contains","gen_length":8})",
        exit_code::environment, "`check.text` is missing");
  fails(R"({"id":3,"family":"f","prompt":"p","scorer":"exact","gen_length":8})",
        exit_code::environment, "`id` must be a string");
  fails(good, exit_code::environment, "already given on line 1");
  fails(R"({"id":"b","family":"f","prompt":"p","scorer":"exact","gen_length":0})",
        exit_code::environment, "`gen_length` is 0");
  fails(R"({"id":"b","family":"f","prompt":"p","scorer":"exact","gen_length":8,"check":[]})",
        exit_code::environment, "`check` must be an object");
  fails(R"({"id":"b","family":"f","prompt":"p","scorer":"final_numbr","gen_length":8})",
        exit_code::usage, "final_number");
}

TEST(tasks, codes_of_a_picture_are_numbers_from_0) {
  const auto read = [](const std::string& more) {
    const scratch_file file(
        "t.jsonl",
        R"({"id":"a","family":"f","prompt":"p","scorer":"none","gen_length":8,)" + more + "}");
    return read_tasks(file.path());
  };
  const std::vector<task_item> items = read(R"("codes":[3,0,3])");
  EXPECT_EQ(items.at(0).codes, (std::vector<std::int32_t>{3, 0, 3}));
  EXPECT_NE(hash_of_tasks(items), hash_of_tasks(read(R"("codes":[3,3,0])")));
  for (const char* wrong : {"[]", "[-1]", "[1.5]", "3", "[16777216]", R"(["1"])"}) {
    expect_error(exit_code::environment, "`codes` must be a list",
                 [&] { read(std::string("\"codes\":") + wrong); });
  }
}

std::string showing(const std::string& id, const std::string& images) {
  return R"({"id":")" + id + R"(","family":"f","prompt":"p","scorer":"none","gen_length":8,)" +
         R"("images":)" + images + "}\n";
}

// Pictures are those of the folder, and their bytes are what was asked, whatever their names.
TEST(tasks, pictures_are_read_from_the_folder) {
  namespace fs = std::filesystem;
  const scratch_folder folder;
  const fs::path tasks = folder.path() / "inside/tasks.jsonl", inside = tasks.parent_path();
  fs::create_directories(inside / "pictures");
  write_file(inside / "pictures/one.png", "abc");
  write_file(inside / "two.png", "abc");
  write_file(inside / "three.png", "abd");
  write_file(folder.path() / "outside.png", "abc");
  fs::create_symlink(folder.path() / "outside.png", inside / "link.png");
  fs::create_symlink(inside / "two.png", inside / "inner.png");
  const auto read = [&](const std::string& images) {
    write_file(tasks, showing("a", images));
    return read_tasks(tasks.string());
  };
  const std::vector<task_item> items = read(R"(["pictures/one.png"])");
  ASSERT_EQ(items.at(0).pictures.size(), 1U);
  EXPECT_EQ(items[0].pictures[0].file, inside / "pictures/one.png");
  // printf abc | sha256sum
  EXPECT_EQ(items[0].pictures[0].hash,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of_tasks(items), hash_of_tasks(read(R"(["two.png"])")));
  EXPECT_EQ(hash_of_tasks(items), hash_of_tasks(read(R"(["inner.png"])")));
  EXPECT_NE(hash_of_tasks(items), hash_of_tasks(read(R"(["three.png"])")));
  std::vector<task_item> without = items;
  without[0].pictures.clear();
  EXPECT_NE(hash_of_tasks(items), hash_of_tasks(without));
  for (const auto& [images, part] :
       {std::pair(R"(["../outside.png"])", "is outside the folder"),
        std::pair(R"(["link.png"])", "is outside the folder"),
        std::pair(R"(["/etc/hostname"])", "is outside the folder"),
        std::pair(R"(["none.png"])", "is no file"), std::pair(R"(["pictures"])", "is no file"),
        std::pair(R"(["two.png", "three.png"])", "path of one picture"),
        std::pair("[]", "path of one picture"), std::pair("\"two.png\"", "path of one picture"),
        std::pair("[1]", "path of one picture")}) {
    expect_error(exit_code::environment, part, [&] { read(images); });
    expect_error(exit_code::environment, "tasks.jsonl, line 1: `images`", [&] { read(images); });
  }
}

TEST(tasks, refuses_missing_empty_and_compressed_files) {
  expect_error(exit_code::environment, "nowhere.jsonl", [] { read_tasks("/nowhere.jsonl"); });
  const scratch_file empty("empty.jsonl", "\n");
  expect_error(exit_code::environment, "holds no items", [&] { read_tasks(empty.path()); });
  const scratch_file zipped("t.jsonl.gz", "\x1f\x8b\x08");
  expect_error(exit_code::environment, "gzip", [&] { read_tasks(zipped.path()); });
}

TEST(tasks, select_is_deterministic) {
  const auto items = read_tasks(shipped("equation"));
  const auto ids = [](const std::vector<task_item>& list) {
    std::vector<std::string> names;
    for (const task_item& item : list) names.push_back(item.id);
    return names;
  };
  const auto take = [](const std::vector<task_item>& from, std::int64_t limit, std::int64_t seed) {
    item_selection which;
    which.limit = limit;
    which.seed = seed;
    return select(from, which);
  };
  EXPECT_EQ(ids(take(items, 2, 0)), (std::vector<std::string>{"equation-000", "equation-001"}));
  EXPECT_EQ(ids(take(items, 0, 0)), ids(items));
  EXPECT_EQ(take(items, 1'000'000, 0).size(), items.size());
  EXPECT_EQ(ids(take(items, 10, 7)), ids(take(items, 10, 7)));
  EXPECT_NE(ids(take(items, 10, 7)), ids(take(items, 10, 8)));
  const auto shuffled = ids(take(items, 0, 7));
  EXPECT_EQ(std::set(shuffled.begin(), shuffled.end()).size(), items.size());
  // A prefix of a longer draw, so that raising the limit only adds items.
  const auto ten = ids(take(items, 10, 7));
  EXPECT_TRUE(std::equal(ten.begin(), ten.end(), shuffled.begin()));
  EXPECT_TRUE(take({}, 3, 5).empty());
}

// The first items of the shipped files are those with the shortest prompts.
TEST(tasks, selection_reaches_every_context) {
  const auto items = read_tasks(shipped("retrieval_kv"));
  const auto contexts = [&](const item_selection& which) {
    std::vector<int> all;
    for (const task_item& item : select(items, which)) all.push_back(item.context_tokens);
    return all;
  };
  item_selection head;
  head.limit = 10;
  for (const int c : contexts(head)) EXPECT_LT(c, 100);
  item_selection longer;
  longer.context_low = 400;
  longer.context_high = 1100;
  const auto some = contexts(longer);
  EXPECT_GE(some.size(), 12u);  // about 512 and 1024 tokens
  EXPECT_EQ(some.size(), std::ranges::count_if(items, [](const task_item& item) {
              return item.context_tokens >= 400 && item.context_tokens <= 1100;
            }));
  for (const int c : some) EXPECT_TRUE(c >= 400 && c <= 1100) << c;
  item_selection over;
  over.limit = 10;
  over.spread = true;
  const auto wide = contexts(over);
  EXPECT_EQ(wide.size(), 10u);
  EXPECT_LT(wide.front(), 200);
  EXPECT_GT(wide.back(), 1000);
  // Offset and limit count what context and draw have left.
  item_selection second = longer;
  second.offset = 2;
  second.limit = 3;
  EXPECT_EQ(contexts(second), std::vector<int>(some.begin() + 2, some.begin() + 5));
  const auto half = static_cast<std::int64_t>(items.size() / 2);
  const auto stretch = [&](std::int64_t from) {
    item_selection which;
    which.seed = 3;
    which.offset = from;
    which.limit = half;
    std::set<std::string> ids;
    for (const task_item& item : select(items, which)) ids.insert(item.id);
    return ids;
  };
  auto all = stretch(0);
  all.merge(stretch(half));
  EXPECT_EQ(all.size(), items.size());
  item_selection none;
  none.context_low = none.context_high = 7;
  expect_error(exit_code::usage, "context of 7 to 7", [&] { select(items, none); });
  none = {};
  none.offset = 2 * half;
  expect_error(exit_code::usage, fmt::format("offset of {0} leaves none of {0}", 2 * half),
               [&] { select(items, none); });
}

TEST(tasks, hash_covers_every_field_and_the_order) {
  // printf '' | sha256sum
  EXPECT_EQ(hash_of_tasks({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const task_item base = item_of("exact", "x", "{}");
  std::set<std::string> hashes = {hash_of_tasks({base})};
  std::size_t count = 1;
  const auto differs = [&](auto change) {
    task_item item = base;
    change(item);
    hashes.insert(hash_of_tasks({item}));
    EXPECT_EQ(hashes.size(), ++count);
  };
  differs([](task_item& i) { i.id = "other"; });
  differs([](task_item& i) { i.family = "f"; });
  differs([](task_item& i) { i.prompt = "p"; });
  differs([](task_item& i) { i.answer = "y"; });
  differs([](task_item& i) { i.scorer = "none"; });
  differs([](task_item& i) { i.check = "{\"a\":1}"; });
  differs([](task_item& i) { i.gen_length = 1; });
  differs([](task_item& i) { i.context_tokens = 1; });
  task_item second = base;
  second.id = "second";
  EXPECT_NE(hash_of_tasks({base, second}), hash_of_tasks({second, base}));
}

}  // namespace
}  // namespace unmask::test
