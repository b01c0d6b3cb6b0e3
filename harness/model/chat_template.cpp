// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/chat_template.h"

#include <string_view>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace unmask {
namespace {

// Python's str.strip("\n"), one side at a time.
std::string_view without_leading_newlines(std::string_view text) {
  const std::size_t at = text.find_first_not_of('\n');
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}
std::string_view without_trailing_newlines(std::string_view text) {
  const std::size_t at = text.find_last_not_of('\n');
  return at == std::string_view::npos ? std::string_view() : text.substr(0, at + 1);
}

struct reasoned {
  std::string_view reasoning, answer;
};

// "<think>R</think>A" as the Qwen3 and Ling templates take it apart.
reasoned split_reasoning(std::string_view content) {
  constexpr std::string_view close = "</think>";
  constexpr std::string_view open = "<think>";
  const std::size_t first = content.find(close);
  if (first == std::string_view::npos) return {{}, content};
  std::string_view reasoning = without_trailing_newlines(content.substr(0, first));
  const std::size_t opened = reasoning.rfind(open);
  if (opened != std::string_view::npos) reasoning.remove_prefix(opened + open.size());
  const std::size_t last = content.rfind(close);
  return {without_leading_newlines(reasoning),
          without_leading_newlines(content.substr(last + close.size()))};
}

// Index of the last user message that is not a wrapped tool response.
std::size_t last_query(const conversation& messages) {
  for (std::size_t i = messages.size(); i-- > 0;) {
    const chat_message& m = messages[i];
    const bool tool_response =
        m.content.starts_with("<tool_response>") && m.content.ends_with("</tool_response>");
    if (m.role == "user" && !tool_response) return i;
  }
  return messages.size() - 1;
}

constexpr const char* start_of_text = "<|startoftext|>";  // `bos_token` of both header formats

// trimmed: Jinja's trim, Python's strip, on each text.
std::string render_headers(const conversation& messages, bool trimmed, bool opens_answer) {
  std::string out = start_of_text;
  for (const chat_message& m : messages) {
    out += "<|start_header_id|>" + m.role + "<|end_header_id|>\n\n";
    out += trimmed ? strip(m.content) : m.content;
    out += "<|eot_id|>";
  }
  if (opens_answer) out += "<|start_header_id|>assistant<|end_header_id|>\n\n";
  return out;
}

// The turns as they are, behind `opening`.
std::string render_chatml(std::string opening, const conversation& messages,
                          bool add_generation_prompt) {
  for (const chat_message& m : messages) {
    opening += "<|im_start|>" + m.role + "\n" + m.content + "<|im_end|>\n";
  }
  if (add_generation_prompt) opening += "<|im_start|>assistant\n";
  return opening;
}

std::string render_qwen25(const conversation& messages, bool add_generation_prompt) {
  const char* usual = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n";
  return render_chatml(messages[0].role == "system" ? "" : usual, messages, add_generation_prompt);
}

std::string render_sink(const conversation& messages, bool add_generation_prompt) {
  std::string sink;
  for (std::int32_t i = 0; i < sink_length; ++i) sink += "<|im_start|>";
  return render_chatml(std::move(sink), messages, add_generation_prompt);
}

std::string with_reasoning(const reasoned& parts) {
  return std::string("<think>\n")
      .append(without_trailing_newlines(without_leading_newlines(parts.reasoning)))
      .append("\n</think>\n\n")
      .append(without_leading_newlines(parts.answer));
}

std::string render_qwen3(const conversation& messages, bool add_generation_prompt) {
  std::string out;
  const std::size_t query = last_query(messages);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const chat_message& m = messages[i];
    out += "<|im_start|>" + m.role + "\n";
    if (m.role != "assistant") {
      out += m.content;
    } else {
      const reasoned parts = split_reasoning(m.content);
      // Reasoning of earlier turns is dropped; the last answer always gets a think block.
      const bool think = i > query && (i + 1 == messages.size() || !parts.reasoning.empty());
      out += think ? with_reasoning(parts) : parts.answer;
    }
    out += "<|im_end|>\n";
  }
  if (add_generation_prompt) out += "<|im_start|>assistant\n";
  return out;
}

std::string render_ling(const conversation& messages, bool add_generation_prompt) {
  std::string out = "<role>SYSTEM</role>";
  if (messages[0].role == "system") out += messages[0].content + "\n";
  out += "detailed thinking off<|role_end|>";
  const std::size_t query = last_query(messages);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const chat_message& m = messages[i];
    if (m.role == "user") {
      out += "<role>HUMAN</role>" + m.content + "<|role_end|>";
    } else if (m.role == "system") {
      if (i > 0) out += "<role>SYSTEM</role>" + m.content + "<|role_end|>";
    } else {
      const reasoned parts = split_reasoning(m.content);
      out += "<role>ASSISTANT</role>";
      out += i > query && !parts.reasoning.empty() ? "\n" + with_reasoning(parts) : parts.answer;
      out += "<|role_end|>";
    }
  }
  if (add_generation_prompt) out += "<role>ASSISTANT</role>";
  return out;
}

}  // namespace

std::string apply_chat_template(chat_format format, const conversation& messages,
                                bool add_generation_prompt, bool thinking_off) {
  if (messages.empty()) throw usage_error("a chat needs at least one message");
  for (const chat_message& m : messages) {
    if (m.role != "system" && m.role != "user" && m.role != "assistant") {
      throw usage_error("the chat role \"" + m.role +
                        "\" is unknown; use system, user or assistant");
    }
  }
  if (thinking_off && format != chat_format::qwen3 && format != chat_format::ling) {
    throw usage_error("this model's chat template has no thinking to turn off");
  }
  switch (format) {
    case chat_format::llada:  // opens the answer always, asked or not
      return render_headers(messages, true, true);
    case chat_format::headers:
      return render_headers(messages, false, add_generation_prompt);
    case chat_format::chatml:
      return render_chatml("", messages, add_generation_prompt);
    case chat_format::qwen3:
      return render_qwen3(messages, add_generation_prompt) +
             (thinking_off && add_generation_prompt ? "<think>\n\n</think>\n\n" : "");
    case chat_format::sink:
      return render_sink(messages, add_generation_prompt);
    case chat_format::qwen25:
      return render_qwen25(messages, add_generation_prompt);
    case chat_format::ling:
      return render_ling(messages, add_generation_prompt);
  }
  throw std::logic_error("apply_chat_template: unknown format");
}

}  // namespace unmask
