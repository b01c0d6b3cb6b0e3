// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/task.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json_lines.h"
#include "harness/workload/scorer.h"
#include "harness/workload/task_fields.h"
#include "harness/workload/task_pictures.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t most_tokens = 1 << 24;
constexpr std::size_t largest_picture = std::size_t{1} << 28;

std::vector<task_picture> read_pictures(const json_reader& object, const fs::path& folder) {
  const json_value* given = object.find("images");
  if (given == nullptr) return {};
  const json_value::array* names = given->items();
  if (names == nullptr || names->size() != 1 || names->front().text() == nullptr) {
    object.fail("images", "must be a list with the path of one picture");
  }
  try {
    return {picture_of_tasks(*names->front().text(), folder)};
  } catch (const std::runtime_error& problem) {
    object.fail("images", problem.what());
  }
}

std::vector<std::int32_t> read_codes(const json_reader& object) {
  const json_value* given = object.find("codes");
  if (given == nullptr) return {};
  std::vector<std::int32_t> codes;
  if (const json_value::array* list = given->items()) {
    for (const json_value& code : *list) {
      const std::int64_t* number = code.integer();
      if (number == nullptr || *number < 0 || *number >= most_tokens) break;
      codes.push_back(static_cast<std::int32_t>(*number));
    }
    if (codes.size() != list->size()) codes.clear();
  }
  if (codes.empty()) object.fail("codes", "must be a list of the codes of one picture, from 0");
  if (object.given("images")) object.fail("codes", "and `images` exclude each other");
  return codes;
}

task_item read_item(const json_reader& object, const fs::path& folder) {
  require_task_fields(object);
  task_item item;
  item.id = object.text("id");
  item.family = object.text("family");
  item.prompt = object.text("prompt");
  item.answer = object.text_or("answer", "");
  item.scorer = object.text("scorer");
  require_scorer(item.scorer, object.file() + ": `scorer`");
  item.gen_length = static_cast<int>(object.integer("gen_length", 1, most_tokens));
  // The files we ship keep the context length beside the other facts about the item.
  std::int64_t context = 0;
  if (object.given("check")) {
    const json_reader check = object.child("check");
    item.check = json_text(object.at("check"));
    context = check.integer_or("context_tokens", 0, most_tokens, 0);
  }
  item.context_tokens =
      static_cast<int>(object.integer_or("context_tokens", 0, most_tokens, context));
  item.pictures = read_pictures(object, folder);
  item.codes = read_codes(object);
  return item;
}

// splitmix64: the standard leaves the distributions of <random> to the platform.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Uniform in [0, n): drawing again below the threshold removes the bias of the remainder.
std::uint64_t random_below(std::uint64_t& state, std::uint64_t n) {
  const std::uint64_t threshold = (0 - n) % n;
  for (;;) {
    const std::uint64_t draw = next_random(state);
    if (draw >= threshold) return draw % n;
  }
}

}  // namespace

task_picture picture_of_tasks(const std::string& path, const fs::path& folder) {
  std::error_code failed;
  const fs::path place = fs::canonical(fs::absolute(folder), failed);
  const fs::path file = fs::canonical(place / path, failed);
  if (failed || !is_file(file)) throw std::runtime_error("names " + path + ", which is no file");
  const auto parts = std::mismatch(place.begin(), place.end(), file.begin(), file.end());
  if (parts.first != place.end() || fs::path(path).is_absolute()) {
    throw std::runtime_error("names " + path + ", which is outside the folder of the tasks");
  }
  return {folder / path, sha256_hex(read_file(file, largest_picture))};
}

std::vector<task_item> read_tasks(const std::string& path) {
  std::vector<task_item> items;
  std::map<std::string, std::size_t> line_of;
  const fs::path folder = fs::path(path).parent_path();
  for_each_json_line(path, [&](const json_reader& object, std::size_t number) {
    items.push_back(read_item(object, folder));
    const auto [first, fresh] = line_of.emplace(items.back().id, number);
    if (!fresh) {
      object.fail("id", "\"" + items.back().id + "\" was already given on line " +
                            std::to_string(first->second) + "; ids must differ");
    }
  });
  return items;
}

std::vector<task_item> select(std::vector<task_item> items, const item_selection& which) {
  if (which.context_high > 0) {
    std::erase_if(items, [&](const task_item& item) {
      return item.context_tokens < which.context_low || item.context_tokens > which.context_high;
    });
    if (items.empty()) {
      throw usage_error("no item has a context of " + std::to_string(which.context_low) + " to " +
                        std::to_string(which.context_high) + " tokens");
    }
  }
  if (which.seed != 0) {
    auto state = static_cast<std::uint64_t>(which.seed);
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[random_below(state, i)]);
    }
  }
  const auto offset = static_cast<std::size_t>(which.offset);
  if (offset > 0 && offset >= items.size()) {
    throw usage_error("an offset of " + std::to_string(offset) + " leaves none of " +
                      std::to_string(items.size()) + " items");
  }
  items.erase(items.begin(), items.begin() + which.offset);
  const auto limit = static_cast<std::size_t>(which.limit);
  if (limit == 0 || limit >= items.size()) return items;
  if (which.spread) {
    // The middle of each of `limit` equal stretches; ascending, so nothing is overwritten unread.
    for (std::size_t i = 0; i < limit; ++i) {
      const std::size_t from = (2 * i + 1) * items.size() / (2 * limit);
      if (from != i) items[i] = std::move(items[from]);
    }
  }
  items.resize(limit);
  return items;
}

std::string hash_of_tasks(const std::vector<task_item>& items) {
  std::string all;
  // The length before each field keeps ("ab", "c") and ("a", "bc") apart.
  const auto add = [&](const std::string& field) {
    all += std::to_string(field.size()) + ":" + field;
  };
  for (const task_item& item : items) {
    for (const std::string* field :
         {&item.id, &item.family, &item.prompt, &item.answer, &item.scorer, &item.check}) {
      add(*field);
    }
    for (const chat_message& m : item.messages) {
      add(m.role);
      add(m.content);
    }
    for (const auto* list : {&item.continuations, &item.stop}) {
      for (const std::string& text : *list) add(text);
    }
    if (item.bos) add("bos");
    add(std::to_string(item.gen_length));
    add(std::to_string(item.context_tokens));
    for (const task_picture& picture : item.pictures) add("picture " + picture.hash);
    for (const std::int32_t code : item.codes) add("code " + std::to_string(code));
  }
  return sha256_hex(all);
}

}  // namespace unmask
