// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A checkpoint's chat template, as transformers applies it. Templates shipped in checkpoints are
// programs: those whose text is one of the published ones that are known here are written out in C++;
// any other goes to the Python package (unmask/benchmarks/chat.py), into jinja2's sandbox.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/model/config.h"

namespace unmask {

struct chat_message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

using conversation = std::vector<chat_message>;

enum class chat_format : std::uint8_t {
  llada,    // BOS<|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|> (LLaDA-8B)
  headers,  // the same, texts untrimmed and the answer opened only when asked (embedded models)
  chatml,   // <|im_start|>user\n...<|im_end|>\n, each turn as it is (embedded models)
  qwen3,    // as chatml, thoughts of earlier turns taken out (SDAR, Qwen3)
  sink,     // sink_length x <|im_start|>, then as chatml (smol)
  qwen25,   // as chatml with a default system turn (Dream)
  ling      // <role>HUMAN</role>...<|role_end|> (LLaDA2.0)
};

// One conversation in a format that is written out here; a system, user or assistant turn at least.
// thinking_off: enable_thinking=false of Qwen3's template, an empty block of thought that opens the
// answer; usage error for a format without one, but for ling, which never thinks.
std::string apply_chat_template(chat_format format, const conversation& messages,
                                bool add_generation_prompt, bool thinking_off = false);

class chat_template {
 public:
  // Finds the template as transformers does: chat_template.jinja, else `chat_template` of
  // tokenizer_config.json (a text, or a list of named ones: "default"), else chat_template.json.
  // A model with `sink_tokens` in its config.json has the format that it was trained in. A folder
  // without a template loads; rendering then is an environment error that says so.
  static chat_template load(const std::filesystem::path& directory, const model_config& config);

  // Which template, from which file, and who renders it: one line.
  std::string summary() const;
  bool found() const { return !text_.empty() || format_.has_value(); }
  // One sentence where two renderings of one conversation may differ; empty: they do not.
  std::string caution() const;

  // Renders the conversations with add_generation_prompt, one Python process for all of those that
  // need it; what was rendered before is remembered. The text holds all special tokens: encode it
  // without adding any. Environment error where there is no template, where it needs Python and
  // there is none, or where it fails on a conversation.
  std::vector<std::string> render(const std::vector<conversation>& chats,
                                  bool thinking_off = false) const;
  std::string render(const conversation& chat, bool thinking_off = false) const;

 private:
  void render_with_python(const std::vector<conversation>& chats, bool thinking_off) const;

  std::string directory_;
  std::string file_;  // that holds it
  std::string text_;
  std::string name_;                              // of a known one
  std::optional<chat_format> format_;             // of a known one
  std::map<std::string, std::string> variables_;  // bos_token and the other special tokens
  mutable std::map<std::string, std::string> rendered_;
};

}  // namespace unmask
