// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// From what a user, a task or a benchmark asks to what a model is given. Text becomes tokens here
// and nowhere else: the chat template, the special tokens of a text, the tokens that a raw text gets,
// and the sentences that say what is missing. What else a model can be shown enters here too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/measure/execute_parts.h"
#include "harness/model/vision/config.h"

namespace unmask {

// A question as a model is given it.
struct made_prompt {
  std::string text;  // with the template around it, if it is a chat
  std::vector<std::int32_t> tokens;
};

// The request that shows a prompt to the model.
sequence_request request_of(made_prompt prompt, std::int32_t gen_length, std::uint64_t seed);

class prompt_maker {
 public:
  // Environment error for a model without a tokenizer. `thinking_off`: an empty block of thought opens
  // each answer (chat_template.h). The model must outlive this.
  explicit prompt_maker(const loaded_model& model, bool thinking_off = false);

  // Applies the template to all of these now, so that a template which the package renders starts it
  // once; the calls below find them again.
  void expect(const std::vector<conversation>& chats) const;
  // A chat through the model's template, which writes every special token. Environment error for a
  // model without one.
  made_prompt chat(const conversation& turns) const;
  // Each text as the first turn of a chat, in their order.
  std::vector<made_prompt> questions(const std::vector<std::string>& texts) const;
  // A text with the tokens around it that transformers' tokenizer adds; no template.
  made_prompt raw(const std::string& text) const;
  // The prompt of a benchmark's item: turns of a chat, a text that names the BOS token itself, or a
  // raw text.
  made_prompt item(const task_item& asked) const;
  // A prompt around one picture: the model's own system turn and the picture before the question, through
  // the template (LLaDA-V: "<image>\n"; Dimple: <image> between <|vision_start|> and <|vision_end|>); or a
  // raw text that holds <image> once. The text is cut there and each part is encoded alone; LLaDA-V's code
  // drops the first token of the second part (mm_utils.py, tokenizer_image_token). Rows of the picture are
  // tokens -1, -2, ... Usage error for more or fewer <image> than one.
  made_prompt about_picture(const std::string& question, bool raw, std::int32_t picture_rows,
                            const vision_config& vision) const;
  // MMaDA's prompt about the codes of a picture (inference_mmu.py): the tokens around them, then the
  // question through the template. Usage error for a model without codes, or one outside its codebook.
  made_prompt about_codes(const std::string& question, const std::vector<std::int32_t>& codes,
                          const vision_config& vision) const;
  // The prompts of tasks, in their order: a chat about as many rows of a picture, about codes, or about
  // text alone (0 rows).
  std::vector<made_prompt> tasks(const std::vector<task_item>& items,
                                 const std::vector<std::int32_t>& picture_rows) const;
  // A text that stands behind a prompt: no template, and no tokens around it.
  std::vector<std::int32_t> behind(const std::string& text) const;
  // A raw context and one of its continuations, split as the tokenizer says (tokenizer.h).
  encoded_pair pair(const std::string& context, const std::string& continuation,
                    const std::string& bos, std::int32_t eos) const;

 private:
  // A text that holds all its special tokens.
  made_prompt written(std::string text) const;

  const loaded_model& model_;
  bool thinking_off_;
};

}  // namespace unmask
