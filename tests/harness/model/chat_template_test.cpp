// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// fixtures/chat_templates.json: chats rendered with Jinja2 3.1.6 from the templates published with
// LLaDA-8B-Instruct, SDAR-8B-Chat (Qwen3), Dream-v0-Instruct-7B and LLaDA2.0-mini, in the sandbox
// and with the block trimming that transformers uses.
#include "harness/model/chat_template.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "tests/harness/model/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::map<std::string, chat_format> formats = {
    {"llada", chat_format::llada},     {"qwen3", chat_format::qwen3},
    {"qwen25", chat_format::qwen25},   {"ling", chat_format::ling},
    {"headers", chat_format::headers}, {"chatml", chat_format::chatml}};

TEST(chat_template, equals_jinja_byte_for_byte) {
  std::size_t count = 0;
  for (const json& item : json::parse(test::text_of(test::fixtures() / "chat_templates.json"))) {
    conversation messages;
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

void expect_equal_cases(std::istream& lines, std::size_t wanted) {
  std::size_t count = 0;
  for (std::string text; std::getline(lines, text); ++count) {
    const json item = json::parse(text);
    conversation messages;
    for (const json& m : item["messages"]) messages.push_back({m["role"], m["content"]});
    const std::string made =
        apply_chat_template(formats.at(item["format"]), messages, item["generation_prompt"],
                            item["thinking_off"].get<bool>());
    ASSERT_EQ(made, item["text"].get<std::string>()) << text;
  }
  EXPECT_GE(count, wanted);
}

// fixtures/chat_cases.jsonl: chat_cases.py --write, transformers 5.23.
TEST(chat_template, equals_transformers) {
  std::ifstream lines(test::fixtures() / "chat_cases.jsonl");
  expect_equal_cases(lines, 300);
}

TEST(chat_template, equals_the_cases_of_a_file) {
  const char* file = std::getenv("UNMASK_CHAT_CASES");
  if (file == nullptr) GTEST_SKIP() << "NOT RUN: needs UNMASK_CHAT_CASES; chat_cases.py makes it";
  std::ifstream lines(file);
  expect_equal_cases(lines, 1);
}

chat_template loaded(const fs::path& folder, std::int32_t sink = 0) {
  model_config config;
  config.sink_tokens = sink;
  return chat_template::load(folder, config);
}

TEST(chat_template, is_known_by_its_text) {
  const std::map<std::string, std::string> published = {{"llada_8b", "LLaDA-8B of"},
                                                        {"qwen3_sdar", "Qwen3 and SDAR of"},
                                                        {"dream", "Dream of"},
                                                        {"llada2_mini", "LLaDA2.0 of"}};
  for (const auto& [name, start] : published) {
    const scratch_folder folder;
    json config = json::parse(test::text_of(test::published() / "templates" / (name + ".json")));
    write_file(folder.path() / "tokenizer_config.json", config.dump());
    EXPECT_TRUE(loaded(folder.path()).summary().starts_with(start));
    config["chat_template"] = config["chat_template"].get<std::string>() + " ";
    write_file(folder.path() / "tokenizer_config.json", config.dump());
    EXPECT_TRUE(loaded(folder.path()).summary().starts_with("own of tokenizer_config.json"));
    EXPECT_TRUE(loaded(folder.path(), sink_length).summary().starts_with("sink of config.json"));
  }
  EXPECT_TRUE(loaded(test::embedded_models() / "tiny-llada").summary().starts_with("headers of"));
  EXPECT_TRUE(loaded(test::embedded_models() / "tiny-sdar").summary().starts_with("ChatML of"));
  EXPECT_EQ(loaded(test::embedded_models() / "tiny-llada").render(conversation{{"user", " x"}}),
            "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n x<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

// LLaDA's text under another BOS is another template.
TEST(chat_template, is_not_known_by_its_text_alone) {
  const scratch_folder folder;
  json config = json::parse(test::text_of(test::published() / "templates/llada_8b.json"));
  config["bos_token"] = "<s>";
  write_file(folder.path() / "tokenizer_config.json", config.dump());
  EXPECT_TRUE(loaded(folder.path()).summary().starts_with("own of"));
}

TEST(chat_template, the_file_of_its_own_comes_first) {
  const scratch_folder folder;
  test::expect_environment_error(
      [&] {
        loaded(folder.path()).render(conversation{{"user", "x"}});
      },
      {folder.path().string(), "has no chat template", "--raw"});
  EXPECT_EQ(loaded(folder.path()).summary(), "none");
  write_file(folder.path() / "chat_template.json", R"({"chat_template": "a"})");
  EXPECT_TRUE(loaded(folder.path()).summary().starts_with("own of chat_template.json"));
  write_file(folder.path() / "tokenizer_config.json",
             R"({"chat_template": [{"name": "rag", "template": "x"},
                                   {"name": "default", "template": "b"}]})");
  EXPECT_TRUE(loaded(folder.path()).summary().starts_with("own of tokenizer_config.json"));
  write_file(folder.path() / "chat_template.jinja", "c");
  EXPECT_TRUE(loaded(folder.path()).summary().starts_with("own of chat_template.jinja"));
}

TEST(chat_template, that_asks_for_the_time_says_so) {
  const scratch_folder folder;
  write_file(folder.path() / "chat_template.jinja", "{{ messages }}");
  EXPECT_EQ(loaded(folder.path()).caution(), "");
  write_file(folder.path() / "chat_template.jinja", "{{ strftime_now('%H') }}");
  EXPECT_EQ(
      loaded(folder.path()).caution(),
      "the chat template of chat_template.jinja asks for the time (strftime_now): a later run "
      "may put other tokens in");
  write_file(folder.path() / "chat_template.jinja", "a\xff");
  test::expect_environment_error([&] { loaded(folder.path()); },
                                 {"chat_template.jinja", "not UTF-8"});
}

// transformers 5.24: special_tokens_map.json counts unless added_tokens_decoder is there, and then it is
// not read. A model's own tokens are variables too.
TEST(chat_template, gets_special_tokens) {
  if (std::getenv("UNMASK_PYTHON") == nullptr) GTEST_SKIP() << "NOT RUN: needs UNMASK_PYTHON";
  const scratch_folder folder;
  const auto rendered = [&](const json& config) {
    write_file(folder.path() / "tokenizer_config.json", config.dump());
    return loaded(folder.path()).render(conversation{{"user", "x"}});
  };
  write_file(folder.path() / "special_tokens_map.json",
             R"({"bos_token": "<map>", "eos_token": {"content": "<end>"}})");
  json config = {{"chat_template", "{{ bos_token }}{{ eos_token }}{{ image_token }}"},
                 {"bos_token", "<config>"},
                 {"extra_special_tokens", {{"image_token", "<image>"}}}};
  EXPECT_EQ(rendered(config), "<map><end><image>");
  config["added_tokens_decoder"] = json::object();
  EXPECT_EQ(rendered(config), "<config><image>");
}

TEST(chat_template, keeps_the_order_of_a_message) {
  if (std::getenv("UNMASK_PYTHON") == nullptr) GTEST_SKIP() << "NOT RUN: needs UNMASK_PYTHON";
  const scratch_folder folder;
  write_file(folder.path() / "chat_template.jinja", "{{ messages | tojson }}");
  EXPECT_EQ(loaded(folder.path()).render(conversation{{"user", "hi"}}),
            R"([{"role": "user", "content": "hi"}])");
}

TEST(chat_template, without_python_says_so) {
  const scratch_folder folder;
  write_file(folder.path() / "chat_template.jinja", "c");
  ::setenv("UNMASK_PYTHON", "/nowhere/python", 1);
  test::expect_environment_error(
      [&] {
        loaded(folder.path()).render(conversation{{"user", "x"}});
      },
      {"chat_template.jinja", "NOT RUN: needs Python", "--raw"});
  ::unsetenv("UNMASK_PYTHON");
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
