// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Benchmarks as the harnesses of the papers run them. A benchmark is a declaration: the reader of
// the official files, the harness's prompt style, which examples stand before the question, how the
// answer is judged, and how many items there are. One file of this folder per benchmark; registry.cpp
// lists them, `unmask list benchmarks` prints them.
//
// Harness ids: LM = lm-evaluation-harness 0.4.8; OpenCompass as OC-F (0.5.1.post1 in the FOCUS code),
// OC-S (0.4.2 with the Sparse-dLLM overlay), OC-U (0.4.2 in the UltraLLaDA code), OC-L (0.4.2, LLaDA's
// fork); own = no harness of the papers has it, our choice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/workload/benchmarks/official_files.h"
#include "harness/workload/task.h"

namespace unmask {

// One item of an official file.
struct source_item {
  std::string id;                             // as the official file counts or names it
  std::string group;                          // subject or task: examples and averages go by it
  std::map<std::string, std::string> fields;  // what {name} in a template stands for
  std::vector<std::string> choices;           // of a multiple choice
  int right = -1;                             // which of them
  std::string answer;                         // reference text
  std::string check = "{}";                   // what the scorer needs (task.h)
  std::string doc =
      "{}";  // the record as lm-eval's data set has it: one JSON object, keys in order
  std::vector<chat_message> turns;  // of a conversation: the request as it stands
  int gen_length = 0;               // of a group with a length of its own; 0: none
};

// Which examples stand before the question.
enum class example_rule : std::uint8_t {
  none,
  first,    // the first `shots` rows of the example split
  drawn,    // drawn anew for every item from one generator, in the order of the items (lm-eval)
  written,  // written out in the harness: a file of experiments/data/fewshot
  test      // the first rows of the test file itself
};

struct example_source {
  example_rule rule = example_rule::none;
  std::string from;  // split of first and drawn; file name of written
  // drawn: one more than is shown, and the item itself left out where the splits are the same. lm-eval
  // does so for tasks that name neither a test split nor a split of examples.
  bool one_more = false;
};

// lm-evaluation-harness: description, then examples as question + delimiter + target + blank line,
// then the question. In the templates {name} is a field of the item, nothing else is replaced.
struct lm_eval_style {
  std::string question;
  std::string target;       // of an example
  std::string description;  // the system turn of a chat
  std::string delimiter = " ";
  std::vector<std::string> stop;
  bool choices = false;  // one request per choice, continuation " " + choice
};

// OpenCompass. Turns: a dialogue template, one per role; raw it is joined by newlines, through an
// API it is a chat. Plain: one text in which the examples, joined by newlines and closed by one,
// stand between lead and question.
struct opencompass_style {
  std::vector<chat_message> example, question;
  bool plain = false;
  std::string lead;    // plain only
  std::string system;  // first turn of an API model
};

// What the harness hands to the model.
enum class prompt_form : std::uint8_t {
  raw,       // the text as it stands
  bos,       // Dream base: the text of the BOS token before it
  one_turn,  // all of it as one user turn through the model's chat template
  chat       // turns through the model's chat template
};
const char* name_of(prompt_form form);
prompt_form parse_prompt_form(const std::string& text, const std::string& where);

struct benchmark;
using item_reader = std::vector<source_item> (*)(const official_files& files,
                                                 const std::string& split,
                                                 const std::string& group);

struct benchmark {
  std::string name;     // gsm8k
  std::string harness;  // id, see above
  std::string config;   // dataset config of OpenCompass, task name of lm-eval
  int shots = 0;
  prompt_form form = prompt_form::raw;
  int items = 0;       // there are in the whole benchmark
  int gen_length = 0;  // tokens to generate in the paper's setting
  std::string scorer;  // of scorer_names()
  std::string metric;  // for the reader of a table
  example_source examples;
  std::variant<lm_eval_style, opencompass_style> style;
  item_reader read = nullptr;
  std::string split = "test";
  std::vector<std::string> groups = {};  // subjects or tasks; empty: one file
  std::string folder = {};               // of the dataset; empty: `name`
  // Items and generated tokens by group, where they differ; else shares of `items` and gen_length.
  std::map<std::string, std::pair<int, int>> by_group = {};
  // Longest prompt in tokens that the harness's model config allows; 0: none stated.
  int max_prompt = 0;
  bool cut_middle = false;  // what is still too long loses its middle, not its beginning
};

// Version of a harness id, with its source.
std::string harness_version(const std::string& harness);

const std::vector<benchmark>& benchmarks();
// The one of this name under a harness id: the first of them, or the one of the config where the
// harness is given as "OC-S/gsm8k_gen_1dce88_maxoutlen_256". `harness` empty: the first of the name.
// Usage error with the nearest names.
const benchmark& find_benchmark(const std::string& name, const std::string& harness);

// Items there are in a task of a benchmark, or in all of it, and how many tokens an answer has as far
// as the declaration tells; LongBench's own are in its files, so these are the longest.
std::int64_t declared_items(const benchmark& of, const std::string& task);
int declared_length(const benchmark& of, const std::string& task);

struct benchmark_options {
  int shots = -1;      // -1: as declared
  std::string group;   // one subject or task; empty: all
  std::string form;    // of prompt_form; empty: as declared
  bool system = true;  // false: without the harness's system message
  // lm-eval builds the prompts of documents rank, rank + world, ... with a generator of their own.
  // One generator per process; rank below 0: of all of them.
  std::int64_t world = 1, rank = -1;
  std::filesystem::path examples;  // folder of the written examples
};

// A benchmark with its files read: items are rendered when asked for.
class benchmark_set {
 public:
  benchmark_set(const benchmark& of, const official_files& files, const benchmark_options& options);
  // The same over items from elsewhere (goldens).
  benchmark_set(const benchmark& of, std::vector<source_item> items, const official_files& files,
                const benchmark_options& options);

  const benchmark& of() const { return *of_; }
  std::size_t size() const { return items_.size(); }
  const source_item& source(std::size_t item) const { return items_.at(item); }
  // Rows of the example split in this item's prompt, in order (drawn and first).
  std::vector<std::size_t> example_rows(std::size_t item) const;
  // `shots` -1: as many as there are; fewer drop examples from the end.
  task_item item(std::size_t item, int shots = -1) const;
  int shots() const { return shots_; }

 private:
  void read_examples(const official_files& files);
  const benchmark* of_;
  benchmark_options options_;
  prompt_form form_;
  int shots_;
  std::vector<source_item> items_;
  std::map<std::string, std::vector<source_item>> examples_;  // by group
  std::map<std::string, std::vector<std::vector<std::size_t>>> draws_;
  std::vector<std::size_t> position_;  // of an item within its group
};

// {name} of the fields replaced in one pass; everything else stays, {{ and }} too.
std::string filled_template(std::string_view form,
                            const std::map<std::string, std::string>& fields);

// The prompt of an item in a style: messages for a chat, else one text.
struct rendered_prompt {
  std::string text;
  std::vector<chat_message> messages;
};
rendered_prompt render(const lm_eval_style& style, const source_item& item,
                       const std::vector<source_item>& examples, prompt_form form);
rendered_prompt render(const opencompass_style& style, const source_item& item,
                       const std::vector<source_item>& examples, prompt_form form);

// Middle cut of OC-U: of more than `most` tokens the first and the last half; cut on the left of
// OC-S: the last `most` tokens. Zero: no limit.
std::vector<std::int32_t> drop_middle(std::vector<std::int32_t> ids, std::size_t most);
std::vector<std::int32_t> cut_left(std::vector<std::int32_t> ids, std::size_t most);

}  // namespace unmask
