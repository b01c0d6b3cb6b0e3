// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Needle in a haystack over length and depth: OpenCompass' needlebench "origin" with the settings of
// the UltraLLaDA code (needlebench_single_32k: lengths 2048 to 32768, eleven depths, ten repetitions,
// buffer 600, guided question). Files: needles.jsonl and a haystack of JSON lines with `text`
// (en_un_asr.jsonl there, PaulGrahamEssays.jsonl in NeedleBench). Lengths there are GPT-4's tokens;
// here they are those of the model under test.
#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/python_text.h"
#include "harness/workload/benchmarks/declare.h"
#include "harness/workload/benchmarks/python_random.h"

namespace unmask::declared {
namespace {

constexpr int repetitions = 10, buffer_tokens = 600, step = 2048, steps = 16;

struct needle {
  std::string text, question, keyword;
};

std::vector<needle> english_needles(const official_files& files) {
  std::vector<needle> all;
  each_object(files.text("needlebench", {"needles.jsonl"}), [&](const json_reader& object,
                                                                std::size_t) {
    if (object.text("language") != "English") return;
    all.push_back({object.text("needle"), object.text("retrieval_question"), object.text("arg2")});
  });
  if (all.empty()) throw environment_error("needles.jsonl: has no English needle");
  return all;
}

std::string guided(const std::string& question) {
  const std::string format = "Please answer in the format";
  const std::size_t at = question.find(format);
  if (at == std::string::npos) return question;
  return question.substr(0, at) +
         "Before answering, please consider what in the document is most relevant to this "
         "question. " +
         question.substr(at);
}

source_item item_of(const tokenizer& tokens, const std::vector<std::string>& lines, const needle& n,
                    std::size_t length, std::size_t depth) {
  const auto hidden = tokens.encode("\n" + n.text + "\n");
  const std::size_t room = length - std::min<std::size_t>(length, buffer_tokens + hidden.size());
  std::vector<std::int32_t> context;
  for (const std::string& line : lines) {
    const auto ids = tokens.encode(line);
    context.insert(context.end(), ids.begin(), ids.end());
    if (context.size() >= room) break;
  }
  context.resize(std::min(context.size(), room));
  const std::size_t at = context.size() * depth / 100;
  context.insert(context.begin() + static_cast<std::ptrdiff_t>(at), hidden.begin(), hidden.end());
  source_item item;
  item.fields = {{"context", tokens.decode(context, false)}, {"question", guided(n.question)}};
  item.answer = n.text;
  item.check = json_object({{"text", json_string(n.keyword)}});
  return item;
}

std::vector<source_item> read(const official_files& files, const std::string&,
                              const std::string& group) {
  const tokenizer& tokens = files.tokens("needle_map");
  const std::size_t length = std::stoul(group),
                    depth = std::stoul(group.substr(group.find('-') + 1));
  std::vector<std::string> lines;
  each_object(
      files.text("needlebench", {"en_un_asr.jsonl", "PaulGrahamEssays.jsonl"}),
      [&](const json_reader& object, std::size_t) { lines.push_back(object.text("text")); });
  const std::vector<needle> needles = english_needles(files);
  std::vector<source_item> items;
  for (int r = 0; r < repetitions; ++r) {
    python_random(static_cast<std::uint64_t>(r)).shuffle(lines);  // of the order before, as there
    const needle& chosen =
        needles[python_random(static_cast<std::uint64_t>(r)).below(needles.size())];
    items.push_back(item_of(tokens, lines, chosen, length, depth));
    items.back().id = group + ":" + std::to_string(r);
    items.back().group = group;
  }
  return items;
}

}  // namespace

std::vector<benchmark> needle_map() {
  benchmark b = declared_as("needle_map", "OC-U", "needlebench_single_32k");
  b.gen_length = 32;
  b.folder = "needlebench";
  b.items = steps * 11 * repetitions;
  b.metric = "keyword found";
  b.scorer = "contains";
  b.read = read;
  for (int l = 1; l <= steps; ++l) {
    for (int depth = 0; depth <= 100; depth += 10) {
      b.groups.push_back(std::to_string(l * step) + "-" + std::to_string(depth));
    }
  }
  b.style = opencompass_style{
      .question = {
          {"user",
           "You are an intelligent AI assistant skilled in answering user questions.\nPlease keep "
           "your answers concise and clear. Do not talk about irrelevant topics or repeat your "
           "answers.\nThe document given to you by the user is {context}\n\nNow, the question is: "
           "{question}"}}};
  return {b};
}

}  // namespace unmask::declared
