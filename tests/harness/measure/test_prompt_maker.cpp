// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The one maker of prompts: each kind of question on an embedded model, written out by hand with the ids
// of its tokenizer.json (1018 to 1023 are its special tokens).
#include "harness/measure/prompt_maker.h"

#include <algorithm>
#include <filesystem>

#include "tests/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
constexpr std::int32_t start_of_text = 1019, start_of_header = 1020;
const std::string asked =
    "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n3 + 4<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n";

loaded_model with_texts(const fs::path& folder) {
  loaded_model model;
  model.directory = folder;
  if (fs::exists(folder / "tokenizer.json")) {
    model.tokens = tokenizer::load(folder);
    model.chat = chat_template::load(folder, model.config);
  }
  return model;
}

loaded_model tiny_llada() {
  return with_texts(fs::path(UNMASK_SOURCE_DIR) / "experiments/models/tiny-llada");
}

std::ptrdiff_t special_tokens(const made_prompt& made) {
  return std::ranges::count_if(made.tokens, [](std::int32_t id) { return id >= 1018; });
}

TEST(prompt_maker, a_question_is_the_first_turn_of_a_chat) {
  const loaded_model model = tiny_llada();
  const prompt_maker prompts(model);
  const made_prompt one = prompts.chat({{"user", "3 + 4"}});
  EXPECT_EQ(one.text, asked);
  EXPECT_EQ(model.tokens->decode(one.tokens, false), asked);
  ASSERT_GT(one.tokens.size(), 2U);
  EXPECT_EQ(one.tokens[0], start_of_text);
  EXPECT_EQ(one.tokens[1], start_of_header);
  EXPECT_EQ(special_tokens(one), 6);
  const std::vector<made_prompt> all = prompts.questions({"3 + 4", "", "3 + 4"});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].tokens, one.tokens);
  EXPECT_EQ(all[1].text.find("3 + 4"), std::string::npos);
  EXPECT_EQ(all[2].text, asked);
}

// The rows stand where <image> does; LLaDA-V's code drops the token behind them, Dimple's does not.
TEST(prompt_maker, a_picture_stands_in_the_chat_of_its_family) {
  const loaded_model model = tiny_llada();
  const prompt_maker prompts(model);
  vision_config vision;
  for (const vision_kind kind : {vision_kind::siglip, vision_kind::qwen}) {
    vision.kind = kind;
    const made_prompt made = prompts.about_picture("3 + 4", false, 3, vision);
    const auto row = std::ranges::find(made.tokens, -1);
    ASSERT_GE(made.tokens.end() - row, 4);
    EXPECT_EQ((std::vector<std::int32_t>(row, row + 3)), (std::vector<std::int32_t>{-1, -2, -3}));
    const std::size_t at = made.text.find("<image>");
    const bool qwen = kind == vision_kind::qwen;
    const std::string shown = qwen ? "<image><|vision_end|>3 + 4" : "<image>\n3 + 4";
    EXPECT_EQ(made.text.substr(at, shown.size()), shown);
    const auto before = model.tokens->encode(made.text.substr(0, at));
    EXPECT_TRUE(std::equal(before.begin(), before.end(), made.tokens.begin(), row));
    auto behind = model.tokens->encode(made.text.substr(at + 7));
    if (!qwen) behind.erase(behind.begin());
    EXPECT_TRUE(std::equal(behind.begin(), behind.end(), row + 3, made.tokens.end()));
  }
}

// SDAR-VL's own chat template, whatever the tokenizer's is, and nothing is dropped.
TEST(prompt_maker, sdar_vl_is_asked_before_it_is_shown) {
  const loaded_model model = tiny_llada();
  const prompt_maker prompts(model);
  vision_config vision;
  vision.kind = vision_kind::siglip;
  vision.family = "sdar-vl";
  const std::string before =
      "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n3 + 4";
  const std::string behind = "\n<|im_end|>\n<|im_start|>assistant\n";
  const made_prompt made = prompts.about_picture("3 + 4", false, 2, vision);
  EXPECT_EQ(made.text, before + "<image>" + behind);
  std::vector<std::int32_t> want = model.tokens->encode(before);
  for (const std::int32_t row : {-1, -2}) want.push_back(row);
  for (const std::int32_t token : model.tokens->encode(behind)) want.push_back(token);
  EXPECT_EQ(made.tokens, want);
}

// MMaDA: <|mmu|> <|soi|> codes <|eoi|>, then the chat.
TEST(prompt_maker, codes_of_a_picture_stand_before_the_question) {
  const loaded_model model = tiny_llada();
  const prompt_maker prompts(model);
  vision_config vision;
  vision.kind = vision_kind::codes;
  vision.first_code = 900;
  vision.codebook = 64;
  vision.around = {7, 8, 9};
  const made_prompt made = prompts.about_codes("3 + 4", {63, 0}, vision);
  std::vector<std::int32_t> want = {7, 8, 963, 900, 9};
  const made_prompt text = prompts.chat({{"user", "3 + 4"}});
  want.insert(want.end(), text.tokens.begin(), text.tokens.end());
  EXPECT_EQ(made.tokens, want);
  test::expect_error(exit_code::usage, "`codes` holds 64; the codebook", [&] {
    prompts.about_codes("3 + 4", {1, 64}, vision);
  });
  test::expect_error(exit_code::usage, "has no codebook",
                     [&] { prompts.about_codes("3 + 4", {1}, vision_config{}); });
}

// sha256sum of "1 2 3 \n4 \n\n" by coreutils.
TEST(prompt_maker, prompts_have_a_hash_of_their_tokens) {
  std::vector<sequence_request> requests(3);
  requests[0].prompt = {1, 2, 3};
  requests[1].prompt = {4};
  EXPECT_EQ(hash_of_prompts(requests),
            "950ae7a33c3da3f46503c5f67fb43bd79f53c5ccca9aba6ef56e04e2bf146909");
  requests[1].prompt = {3, 4};
  requests[0].prompt = {1, 2};
  EXPECT_NE(hash_of_prompts(requests),
            "950ae7a33c3da3f46503c5f67fb43bd79f53c5ccca9aba6ef56e04e2bf146909");
}

TEST(prompt_maker, a_text_without_the_template_stays_as_it_is) {
  const loaded_model model = tiny_llada();
  const prompt_maker prompts(model);
  const made_prompt raw = prompts.raw("3 + 4");
  EXPECT_EQ(raw.text, "3 + 4");
  EXPECT_EQ(model.tokens->decode(raw.tokens, false), "3 + 4");
  EXPECT_EQ(special_tokens(raw), 0);
  EXPECT_EQ(prompts.behind("3 + 4"), raw.tokens) << "this tokenizer puts nothing around a text";
}

TEST(prompt_maker, an_item_says_itself_how_it_is_asked) {
  const loaded_model model = tiny_llada();
  const prompt_maker prompts(model);
  task_item item;
  item.prompt = "3 + 4";
  EXPECT_EQ(prompts.item(item).text, "3 + 4");
  item.bos = true;
  EXPECT_EQ(prompts.item(item).text, "<|beginoftext|>3 + 4");
  item.bos = false;
  item.messages = {{"user", "3 + 4"}};
  EXPECT_EQ(prompts.item(item).text, asked);
  EXPECT_EQ(prompts.item(item).tokens, prompts.chat({{"user", "3 + 4"}}).tokens);
}

TEST(prompt_maker, a_request_takes_the_prompt_its_length_and_its_noise) {
  const sequence_request request = request_of({"text", {5, 6, 7}}, 32, 11);
  EXPECT_EQ(request.prompt, (std::vector<std::int32_t>{5, 6, 7}));
  EXPECT_EQ(request.gen_length, 32);
  EXPECT_EQ(request.seed, 11U);
}

TEST(prompt_maker, what_is_missing_is_said) {
  const scratch_folder folder;
  test::expect_error(exit_code::environment, "has no tokenizer.json beside the model",
                     [&] { prompt_maker nothing(with_texts(folder.path())); });
  fs::copy(tiny_llada().directory / "tokenizer.json", folder.path());
  const loaded_model model = with_texts(folder.path());
  const prompt_maker prompts(model);
  EXPECT_FALSE(prompts.raw("3 + 4").tokens.empty());
  const std::string sentence = test::expect_error(exit_code::environment, "has no chat template",
                                                  [&] { prompts.questions({"3 + 4"}); });
  EXPECT_NE(sentence.find("generate --raw"), std::string::npos);
}

}  // namespace
}  // namespace unmask
