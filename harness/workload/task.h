// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Task items: a prompt, its reference answer and the scorer that judges an output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/model/chat_template.h"

namespace unmask {

// A picture that an item shows.
struct task_picture {
  std::filesystem::path file;
  std::string hash;  // SHA-256 of its bytes
};

struct task_item {
  std::string id;
  std::string family;        // word_problem, needle, gsm8k, ...
  std::string prompt;        // before the chat template
  std::string answer;        // reference; may be empty where nothing is scored
  std::string scorer;        // one of scorer_names()
  std::string check = "{}";  // what the scorer needs besides the answer: JSON object, keys sorted
  int gen_length = 0;        // tokens to generate
  // For sample files (samples.h): the record as lm-eval's data set has it, its number within its task
  // and the task's name; empty: made of the fields here.
  std::string doc;
  std::size_t doc_id = 0;
  std::string task;
  std::string target;  // the reference as the harness's sample files hold it; empty: the answer
  // What a benchmark adds: turns of a chat (empty: `prompt` is the whole text), whether the BOS
  // token's text comes before it, one continuation per choice and the right one, and where
  // generated text is cut.
  std::vector<chat_message> messages;
  bool bos = false;
  std::vector<std::string> continuations, stop;
  int right = -1;
  int context_tokens = 0;  // length of the prompt for long-context families, 0 = not recorded
  std::vector<task_picture> pictures;  // before the prompt; one at most
  std::vector<std::int32_t> codes;  // of a picture, in a codebook of the model; not with pictures
};

// Reads JSON Lines with the keys id, family, prompt, scorer, gen_length (required), answer, check,
// context_tokens (optional; also taken from check), images (optional; paths from the file's folder,
// inside it, also where links lead) and codes (optional, without images). Environment error that names file, line and key when something is
// missing, of the wrong type or given twice (id); usage error for a scorer that does not exist.
std::vector<task_item> read_tasks(const std::string& path);

// Which items of a file are taken. The parts apply in the order in which they stand here.
struct item_selection {
  // Items whose context_tokens lie in [context_low, context_high]; high 0: whatever they are.
  std::int64_t context_low = 0, context_high = 0;
  // 0: file order; else shuffled, by a generator of our own so that every platform draws the same.
  std::int64_t seed = 0;
  std::int64_t offset = 0;  // of those, so many are passed over
  std::int64_t limit = 0;   // of the rest, at most so many; 0: all
  // The limit is met by items at even distances over the rest instead of its first ones: of a file
  // sorted by length, or by anything else, every stratum gives its share.
  bool spread = false;
  bool operator==(const item_selection&) const = default;
};
// Usage error, without the name of the file, when nothing is left.
std::vector<task_item> select(std::vector<task_item> items, const item_selection& which);

// SHA-256 (64 hex digits) over every field of every item in order, of pictures over their bytes. Two
// runs with the same hash answered the same questions, whatever the files' spacing or names.
std::string hash_of_tasks(const std::vector<task_item>& items);

}  // namespace unmask
