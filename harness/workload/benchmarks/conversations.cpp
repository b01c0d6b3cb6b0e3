// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Conversations as sources of prompts for speed: ShareGPT (ShareGPT_V3_unfiltered_cleaned_split.json,
// one array), WildChat and LMSYS-Chat-1M (JSON lines with `conversation`). Their texts are under
// their own terms and not here. A request is everything up to the last user turn; one whose prompt
// or reference answer has under 4 tokens is left out (FOCUS' throughput runs).
#include "harness/base/error.h"
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

constexpr std::size_t fewest_tokens = 4;

std::string role_of(const std::string& name) {
  if (name == "human" || name == "user") return "user";
  if (name == "gpt" || name == "assistant" || name == "chatgpt" || name == "bard")
    return "assistant";
  return name == "system" ? "system" : "";
}

// The request and its reference; no turns where there is none.
source_item request_of(const json_reader& object, const char* list, const char* role,
                       const char* content, const tokenizer& tokens) {
  source_item item;
  const json_value::array* turns = object.at(list).items();
  if (turns == nullptr) object.fail(list, "must be an array of turns");
  std::vector<chat_message> all;
  for (const json_value& turn : *turns) {
    if (turn.members() == nullptr) object.fail(list, "must be an array of turns");
    const json_reader t(turn, object.file(), std::string(list) + ".");
    all.push_back({role_of(t.text(role)), t.text_or(content, "")});
    if (all.back().role.empty()) return item;
  }
  std::size_t last = all.size();
  while (last > 0 && all[last - 1].role != "user") --last;
  if (last == 0 || last == all.size()) return item;  // nobody asked, or nobody answered
  std::string prompt;
  for (std::size_t i = 0; i < last; ++i) prompt += all[i].content;
  item.answer = all[last].content;
  if (tokens.encode(prompt).size() < fewest_tokens ||
      tokens.encode(item.answer).size() < fewest_tokens) {
    return item;
  }
  all.resize(last);
  item.turns = std::move(all);
  return item;
}

void keep(std::vector<source_item>& items, source_item item, std::size_t row) {
  if (item.turns.empty()) return;
  item.id = std::to_string(row);
  items.push_back(std::move(item));
}

std::vector<source_item> read_sharegpt(const official_files& files, const std::string&,
                                       const std::string&) {
  const official_text file =
      files.text("sharegpt", {"ShareGPT_V3_unfiltered_cleaned_split.json", "sharegpt.json"});
  const json_value value = parse_json(file.text, file.name);
  if (value.items() == nullptr) throw environment_error(file.name + ": must be an array");
  std::vector<source_item> items;
  std::size_t row = 0;
  for (const json_value& entry : *value.items()) {
    const std::string where = file.name + ", row " + std::to_string(row);
    if (entry.members() == nullptr) throw environment_error(where + ": must be an object");
    keep(items,
         request_of(json_reader(entry, where), "conversations", "from", "value",
                    files.tokens("sharegpt")),
         row++);
  }
  return items;
}

std::vector<source_item> read_conversation(const official_files& files, const char* dataset) {
  std::vector<source_item> items;
  each_object(files.text(dataset, {std::string(dataset) + ".jsonl", "train.jsonl"}),
              [&](const json_reader& object, std::size_t row) {
                keep(items,
                     request_of(object, "conversation", "role", "content", files.tokens(dataset)),
                     row);
              });
  return items;
}

// MT-Bench, Vicuna and Spec-Bench: question.jsonl. Later turns need the first answer, so a request is
// the first turn alone.
std::vector<source_item> read_questions(const official_files& files, const char* dataset) {
  std::vector<source_item> items;
  each_object(files.text(dataset, {"question.jsonl", std::string(dataset) + ".jsonl"}),
              [&](const json_reader& object, std::size_t) {
                source_item item;
                item.id = std::to_string(object.integer("question_id", 0, std::int64_t{1} << 40));
                const std::vector<std::string> turns = texts_of(object, "turns");
                if (turns.empty()) object.fail("turns", "must start with a string");
                item.turns = {{"user", turns.front()}};
                items.push_back(std::move(item));
              });
  return items;
}

benchmark source(const char* name, item_reader read) {
  benchmark b = declared_as(name, "own", "up to the last user turn");
  b.form = prompt_form::chat;
  b.gen_length = 2048;
  b.metric = "none: a source of prompts for speed";
  b.scorer = "none";
  b.read = read;
  b.style = opencompass_style{};
  return b;
}

}  // namespace

std::vector<benchmark> conversations() {
  using files = official_files;
  using text = std::string;
  return {source("sharegpt", read_sharegpt),
          source("wildchat", [](const files& f, const text&,
                                const text&) { return read_conversation(f, "wildchat"); }),
          source("lmsys_chat", [](const files& f, const text&,
                                  const text&) { return read_conversation(f, "lmsys_chat"); }),
          source("mt_bench", [](const files& f, const text&,
                                const text&) { return read_questions(f, "mt_bench"); }),
          source("vicuna_bench", [](const files& f, const text&,
                                    const text&) { return read_questions(f, "vicuna_bench"); }),
          source("spec_bench", [](const files& f, const text&, const text&) {
            return read_questions(f, "spec_bench");
          })};
}

}  // namespace unmask::declared
