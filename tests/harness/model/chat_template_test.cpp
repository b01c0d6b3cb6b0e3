// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// fixtures/chat_templates.json: chats rendered with Jinja2 3.1.6 from the templates published with
// LLaDA-8B-Instruct, SDAR-8B-Chat (Qwen3), Dream-v0-Instruct-7B and LLaDA2.0-mini, in the sandbox
// and with the block trimming that transformers uses.
#include "harness/model/chat_template.h"

#include <map>
#include <nlohmann/json.hpp>

#include "tests/harness/model/support.h"

namespace unmask {
namespace {

using nlohmann::json;

const std::map<std::string, chat_format> formats = {{"llada", chat_format::llada},
                                                    {"qwen3", chat_format::qwen3},
                                                    {"qwen25", chat_format::qwen25},
                                                    {"ling", chat_format::ling}};

TEST(chat_template, equals_jinja_byte_for_byte) {
  std::size_t count = 0;
  for (const json& item : json::parse(test::text_of(test::fixtures() / "chat_templates.json"))) {
    std::vector<chat_message> messages;
    for (const json& m : item["messages"]) messages.push_back({m["role"], m["content"]});
    SCOPED_TRACE(item.dump());
    EXPECT_EQ(apply_chat_template(formats.at(item["format"]), messages, item["generation_prompt"]),
              item["text"]);
    ++count;
  }
  EXPECT_EQ(count, 72U);
}

TEST(chat_template, thinking_is_turned_off_where_there_is_any) {
  const std::vector<chat_message> chat = {{"user", "Hi"}};
  EXPECT_EQ(apply_chat_template(chat_format::qwen3, chat, true, true),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
  EXPECT_EQ(apply_chat_template(chat_format::ling, chat, true, true),
            apply_chat_template(chat_format::ling, chat, true));
  EXPECT_THROW(apply_chat_template(chat_format::qwen25, chat, true, true), error);
}

tokenizer with_tokens(const std::vector<std::string>& special) {
  json t = json::parse(test::text_of(test::fixtures() / "tokenizer.json"));
  std::int32_t id = 400;
  for (const std::string& token : special) {
    t["added_tokens"].push_back({{"id", id++}, {"content", token}, {"special", true}});
  }
  return tokenizer::parse(t.dump(), "", "models/some");
}

TEST(chat_template, is_chosen_by_special_tokens) {
  model_config config;
  config.name = "some";
  const auto chosen = [&](model_family family, const std::vector<std::string>& tokens) {
    config.family = family;
    return chat_format_of(config, with_tokens(tokens));
  };
  EXPECT_EQ(chosen(model_family::llada, {"<role>", "<|start_header_id|>", "<|eot_id|>"}),
            chat_format::llada);
  EXPECT_EQ(chosen(model_family::sdar, {"<|im_start|>", "<|im_end|>"}), chat_format::qwen3);
  EXPECT_EQ(chosen(model_family::qwen3, {"<|im_start|>", "<|im_end|>"}), chat_format::qwen3);
  EXPECT_EQ(chosen(model_family::dream, {"<|im_start|>", "<|im_end|>"}), chat_format::qwen25);
  EXPECT_EQ(chosen(model_family::llada2_moe, {"<role>", "</role>", "<|role_end|>"}),
            chat_format::ling);
  config.sink_tokens = sink_length;
  EXPECT_EQ(chosen(model_family::llama, {"<|im_start|>", "<|im_end|>"}), chat_format::sink);
  config.sink_tokens = 0;
  EXPECT_EQ(chosen(model_family::llama, {"<|im_start|>", "<|im_end|>"}), chat_format::qwen3);
  config.family = model_family::llada;
  test::expect_environment_error([&] { chat_format_of(config, with_tokens({})); },
                                 {"some", "chat tokens"});
  EXPECT_EQ(apply_chat_template(config, with_tokens({"<|im_start|>", "<|im_end|>"}),
                                {{"user", "x"}}, true),
            "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
}

TEST(chat_template, a_sink_is_a_block_of_opening_tokens_before_the_first_turn) {
  std::string want;
  for (int i = 0; i < 16; ++i) want += "<|im_start|>";
  EXPECT_EQ(apply_chat_template(chat_format::sink, {{"user", "Hi"}}, true),
            want + "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(chat_template, llada_takes_off_what_python_strips) {
  EXPECT_EQ(apply_chat_template(chat_format::llada, {{"user", " \x1d Hi\x1f\n"}}, true),
            apply_chat_template(chat_format::llada, {{"user", "Hi"}}, true));
}

TEST(chat_template, bad_chats_are_usage_errors) {
  for (const auto& messages : {std::vector<chat_message>{}, {{"tool", "x"}}, {{"", "x"}}}) {
    test::expect_error(exit_code::usage, "",
                       [&] { apply_chat_template(chat_format::qwen3, messages, true); });
  }
}

}  // namespace
}  // namespace unmask
