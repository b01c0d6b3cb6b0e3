// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The chat templates of the supported families, written out: templates shipped in checkpoints are
// programs, and nothing from a checkpoint is executed.
#pragma once

#include <string>
#include <vector>

#include "harness/model/config.h"
#include "harness/model/tokenizer.h"

namespace unmask {

struct chat_message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

enum class chat_format : std::uint8_t {
  llada,   // <|startoftext|><|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|>
  qwen3,   // <|im_start|>user\n...<|im_end|>\n, no system turn unless given (SDAR, Qwen3)
  sink,    // sink_length x <|im_start|>, then as qwen3 without its thoughts (smol)
  qwen25,  // the same with a default system turn (Dream)
  ling     // <role>HUMAN</role>...<|role_end|> (LLaDA2.0)
};

// The format of a model, from its family and the special tokens of its tokenizer. An environment
// error when the tokenizer has none of the known sets (a base model, for example).
chat_format chat_format_of(const model_config& config, const tokenizer& tokens);

// thinking_off: enable_thinking=false of Qwen3's template, an empty block of thought that opens the
// answer; usage error for a format without one, but for ling, which never thinks.
std::string apply_chat_template(chat_format format, const std::vector<chat_message>& messages,
                                bool add_generation_prompt, bool thinking_off = false);
std::string apply_chat_template(const model_config& config, const tokenizer& tokens,
                                const std::vector<chat_message>& messages,
                                bool add_generation_prompt);

}  // namespace unmask
