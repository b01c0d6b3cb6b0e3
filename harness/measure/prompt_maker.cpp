// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/prompt_maker.h"

#include <utility>

#include "harness/base/error.h"
#include "harness/model/vision/one_vision.h"

namespace unmask {
namespace {

constexpr std::string_view placeholder = "<image>";
constexpr const char* system_turn =
    "You are a helpful language and vision assistant. You are able to understand the visual "
    "content "
    "that the user provides, and assist the user with a variety of tasks using natural language.";

// The chat around one picture as the model's own code writes it.
conversation asks_about_picture(const std::string& question, const vision_config& vision) {
  if (vision.kind == vision_kind::qwen) {
    return {{"system", "You are a helpful assistant."},
            {"user", "<|vision_start|>" + std::string(placeholder) + "<|vision_end|>" + question}};
  }
  return {{"system", system_turn}, {"user", std::string(placeholder) + "\n" + question}};
}

// What SDAR-VL's chat template makes of a user who asks and then shows a picture, as its generate.py does.
std::string sdar_vl_prompt(const std::string& question) {
  return "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n" +
         question + std::string(placeholder) + "\n<|im_end|>\n<|im_start|>assistant\n";
}

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
                                        std::int32_t picture_rows,
                                        const vision_config& vision) const {
  made_prompt prompt;
  prompt.text = raw ? question
                : is_sdar_vl(vision)
                    ? sdar_vl_prompt(question)
                    : model_.chat->render(asks_about_picture(question, vision), thinking_off_);
  const std::size_t at = place_of_picture(prompt.text);
  prompt.tokens = model_.tokens->encode(prompt.text.substr(0, at));
  for (std::int32_t row = 0; row < picture_rows; ++row) prompt.tokens.push_back(-1 - row);
  const std::vector<std::int32_t> behind =
      model_.tokens->encode(prompt.text.substr(at + placeholder.size()));
  const bool drops_first =
      vision.kind == vision_kind::siglip && !is_sdar_vl(vision) && !behind.empty();
  prompt.tokens.insert(prompt.tokens.end(), behind.begin() + (drops_first ? 1 : 0), behind.end());
  return prompt;
}

made_prompt prompt_maker::about_codes(const std::string& question,
                                      const std::vector<std::int32_t>& codes,
                                      const vision_config& vision) const {
  if (vision.kind != vision_kind::codes) {
    throw usage_error("`codes` are of MMaDA; " + model_.record.name + " has no codebook");
  }
  made_prompt prompt = chat({{"user", question}});
  std::vector<std::int32_t> tokens = {vision.around[0], vision.around[1]};
  for (const std::int32_t code : codes) {
    if (code < 0 || code >= vision.codebook) {
      throw usage_error("`codes` holds " + std::to_string(code) + "; the codebook of " +
                        model_.record.name + " has " + std::to_string(vision.codebook));
    }
    tokens.push_back(vision.first_code + code);
  }
  tokens.push_back(vision.around[2]);
  tokens.insert(tokens.end(), prompt.tokens.begin(), prompt.tokens.end());
  prompt.tokens = std::move(tokens);
  return prompt;
}

std::vector<made_prompt> prompt_maker::tasks(const std::vector<task_item>& items,
                                             const std::vector<std::int32_t>& picture_rows) const {
  const vision_config vision =
      read_vision_config(model_.directory, read_model_config(model_.directory).vocabulary);
  std::vector<conversation> chats, rendered;
  for (const task_item& item : items) {
    chats.push_back(item.pictures.empty() ? conversation{{"user", item.prompt}}
                                          : asks_about_picture(item.prompt, vision));
    if (item.pictures.empty() || !is_sdar_vl(vision)) rendered.push_back(chats.back());
  }
  expect(rendered);
  std::vector<made_prompt> prompts;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const task_item& item = items[i];
    try {
      prompts.push_back(!item.codes.empty() ? about_codes(item.prompt, item.codes, vision)
                        : item.pictures.empty()
                            ? chat(chats[i])
                            : about_picture(item.prompt, false, picture_rows[i], vision));
    } catch (const error& problem) {
      throw error(problem.code(), "item " + items[i].id + ": " + problem.what());
    }
  }
  return prompts;
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
