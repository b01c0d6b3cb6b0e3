// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors

#include "harness/base/python_text.h"
#include "harness/workload/benchmarks/benchmark.h"

namespace unmask {
namespace {

// The text of lm-eval's examples: each question + delimiter + target + blank line.
std::string joined_examples(const lm_eval_style& style, const std::vector<source_item>& examples) {
  std::string text;
  for (const source_item& e : examples) {
    text += filled_template(style.question, e.fields) + style.delimiter +
            filled_template(style.target, e.fields) + "\n\n";
  }
  return text;
}

std::vector<chat_message> filled_turns(const std::vector<chat_message>& turns,
                                       const source_item& item) {
  std::vector<chat_message> all;
  for (const chat_message& t : turns) {
    all.push_back({t.role, filled_template(t.content, item.fields)});
  }
  return all;
}

// What an API model gets: no empty turns, neighbours of one role in one.
std::vector<chat_message> for_chat(const std::vector<chat_message>& turns) {
  std::vector<chat_message> all;
  for (const chat_message& t : turns) {
    if (t.content.empty()) continue;
    if (!all.empty() && all.back().role == t.role) {
      all.back().content += "\n" + t.content;
    } else {
      all.push_back(t);
    }
  }
  return all;
}

std::string joined(const std::vector<chat_message>& turns) {
  std::string text;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (i > 0) text += "\n";
    text += turns[i].content;
  }
  return text;
}

}  // namespace

std::string filled_template(std::string_view form,
                            const std::map<std::string, std::string>& fields) {
  std::string text;
  while (!form.empty()) {
    const std::size_t open = form.find('{');
    text += form.substr(0, open);
    if (open == std::string_view::npos) break;
    form.remove_prefix(open);
    const std::size_t close = form.find('}');
    const auto found = close == std::string_view::npos
                           ? fields.end()
                           : fields.find(std::string(form.substr(1, close - 1)));
    if (found == fields.end()) {
      text += '{';
      form.remove_prefix(1);
    } else {
      text += found->second;
      form.remove_prefix(close + 1);
    }
  }
  return text;
}

rendered_prompt render(const lm_eval_style& style, const source_item& item,
                       const std::vector<source_item>& examples, prompt_form form) {
  const std::string description = filled_template(style.description, item.fields);
  const std::string question = filled_template(style.question, item.fields);
  if (form == prompt_form::raw || form == prompt_form::bos) {
    return {description + joined_examples(style, examples) + question, {}};
  }
  rendered_prompt r;
  if (!description.empty()) r.messages.push_back({"system", description});
  if (form == prompt_form::one_turn) {
    r.messages.push_back({"user", joined_examples(style, examples) + question});
    return r;
  }
  for (const source_item& e : examples) {
    r.messages.push_back({"user", filled_template(style.question, e.fields)});
    r.messages.push_back({"assistant", filled_template(style.target, e.fields)});
  }
  r.messages.push_back({"user", question});
  return r;
}

rendered_prompt render(const opencompass_style& style, const source_item& item,
                       const std::vector<source_item>& examples, prompt_form form) {
  std::vector<chat_message> turns;
  if (style.plain) {
    std::string text = filled_template(style.lead, item.fields);
    for (const source_item& e : examples) {
      text += joined(filled_turns(style.example, e)) + "\n";
    }
    // The separator closes the list even where every example was dropped.
    if (examples.empty() && !style.example.empty()) text += "\n";
    turns = {{"user", text + joined(filled_turns(style.question, item))}};
  } else {
    for (const source_item& e : examples) {
      for (chat_message& t : filled_turns(style.example, e)) turns.push_back(std::move(t));
    }
    for (chat_message& t : filled_turns(style.question, item)) turns.push_back(std::move(t));
  }
  if (form == prompt_form::raw || form == prompt_form::bos) return {joined(turns), {}};
  if (form == prompt_form::one_turn) return {"", {{"user", joined(turns)}}};
  rendered_prompt r;
  if (!style.system.empty()) r.messages.push_back({"system", style.system});
  for (chat_message& t : for_chat(turns)) r.messages.push_back(std::move(t));
  return r;
}

std::vector<std::int32_t> drop_middle(std::vector<std::int32_t> ids, std::size_t most) {
  if (most == 0 || ids.size() <= most) return ids;
  const auto half = static_cast<std::ptrdiff_t>(most / 2);
  ids.erase(ids.begin() + half, ids.end() - half);
  return ids;
}

std::vector<std::int32_t> cut_left(std::vector<std::int32_t> ids, std::size_t most) {
  if (most == 0 || ids.size() <= most) return ids;
  ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(most));
  return ids;
}

}  // namespace unmask
