// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/prompt_maker.h"

#include <utility>

#include "harness/base/error.h"

namespace unmask {
namespace {

constexpr std::string_view placeholder = "<image>";
constexpr const char* system_turn =
    "You are a helpful language and vision assistant. You are able to understand the visual "
    "content "
    "that the user provides, and assist the user with a variety of tasks using natural language.";

// Where the only placeholder is.
std::size_t place_of_picture(const std::string& text) {
  const std::size_t first = text.find(placeholder);
  if (first == std::string::npos) {
    throw usage_error("the prompt must hold <image> once, where the picture stands; it holds none");
  }
  if (text.find(placeholder, first + 1) != std::string::npos) {
    throw usage_error("the prompt holds <image> more than once, and there is one picture");
  }
  return first;
}

}  // namespace

sequence_request request_of(made_prompt prompt, std::int32_t gen_length, std::uint64_t seed) {
  sequence_request request;
  request.prompt = std::move(prompt.tokens);
  request.gen_length = gen_length;
  request.seed = seed;
  return request;
}

prompt_maker::prompt_maker(const loaded_model& model, bool thinking_off)
    : model_(model), thinking_off_(thinking_off) {
  if (!model.tokens) {
    throw environment_error(model.directory.string() + ": has no tokenizer.json beside the model");
  }
}

void prompt_maker::expect(const std::vector<conversation>& chats) const {
  if (!chats.empty()) model_.chat->render(chats, thinking_off_);
}

made_prompt prompt_maker::chat(const conversation& turns) const {
  return written(model_.chat->render(turns, thinking_off_));
}

std::vector<made_prompt> prompt_maker::questions(const std::vector<std::string>& texts) const {
  std::vector<conversation> chats;
  for (const std::string& text : texts) chats.push_back({{"user", text}});
  std::vector<made_prompt> prompts;
  for (std::string& text : model_.chat->render(chats, thinking_off_)) {
    prompts.push_back(written(std::move(text)));
  }
  return prompts;
}

made_prompt prompt_maker::raw(const std::string& text) const {
  return {text, model_.tokens->encode_raw(text)};
}

made_prompt prompt_maker::item(const task_item& asked) const {
  if (asked.bos) return written("<|beginoftext|>" + asked.prompt);
  return asked.messages.empty() ? raw(asked.prompt) : chat(asked.messages);
}

made_prompt prompt_maker::about_picture(const std::string& question, bool raw,
                                        std::int32_t picture_rows) const {
  made_prompt prompt;
  prompt.text = raw ? question
                    : model_.chat->render({{"system", system_turn},
                                           {"user", std::string(placeholder) + "\n" + question}});
  const std::size_t at = place_of_picture(prompt.text);
  prompt.tokens = model_.tokens->encode(prompt.text.substr(0, at));
  for (std::int32_t row = 0; row < picture_rows; ++row) prompt.tokens.push_back(-1 - row);
  const std::vector<std::int32_t> behind =
      model_.tokens->encode(prompt.text.substr(at + placeholder.size()));
  if (!behind.empty()) {
    prompt.tokens.insert(prompt.tokens.end(), behind.begin() + 1, behind.end());
  }
  return prompt;
}

std::vector<std::int32_t> prompt_maker::behind(const std::string& text) const {
  return model_.tokens->encode(text);
}

made_prompt prompt_maker::written(std::string text) const {
  std::vector<std::int32_t> tokens = model_.tokens->encode(text);
  return {std::move(text), std::move(tokens)};
}

encoded_pair prompt_maker::pair(const std::string& context, const std::string& continuation,
                                const std::string& bos, std::int32_t eos) const {
  return encode_pair(*model_.tokens, context, continuation, bos, eos);
}

}  // namespace unmask
