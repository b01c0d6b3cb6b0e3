// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which chat template a checkpoint has, and the Python package's part in rendering it.
#include <nlohmann/json.hpp>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/base/package.h"
#include "harness/base/process.h"
#include "harness/base/unicode.h"
#include "harness/model/chat_template.h"

namespace unmask {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t template_limit = 64 << 20;
constexpr std::size_t answer_limit = std::size_t{1} << 30;

// Published templates by the SHA-256 of their text. Formats that write BOS out hold for one BOS.
struct known_template {
  const char* sha256;
  const char* name;
  chat_format format;
  bool writes_bos;  // by the variable bos_token
};
constexpr known_template known_templates[] = {
    {"b48c47f6443892716176eb200bf4ef108f64e06ca26ed0fa8ebc0a4b3992fcb2", "LLaDA-8B",
     chat_format::llada, true},
    {"87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5", "Qwen3 and SDAR",
     chat_format::qwen3, false},
    {"44d5f08f3f72b837eaad09f13a54c1f9f4eb58d75240334548b7fd52a5437fa5", "Dream",
     chat_format::qwen25, false},
    {"a503d55b21709d881b07ee2e9d8ce29505fa95d9f758379a9fc4ccc94272734a", "LLaDA2.0",
     chat_format::ling, false},
    {"9434df383d406e8118cce1f05a5a1230c3f505dcc6616fb66df35f126541d53f", "headers",
     chat_format::headers, false},
    {"f950548988e50713a9975a11be0eaf1d29c4fe4be0ba22a57daeebbc27a7adb9", "ChatML",
     chat_format::chatml, false}};

// Python's open() in text mode turns every end of line into \n.
std::string universal_newlines(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    }
  }
  return out;
}

// `chat_template`: a text, or a list of {"name", "template"}.
std::string template_in(const json_reader& file) {
  const json_value* value = file.find("chat_template");
  if (value == nullptr) return {};
  if (value->text() != nullptr) return *value->text();
  const json_value::array* list = value->items();
  if (list == nullptr) file.fail("chat_template", "must be a text or a list of named ones");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const json_reader item((*list)[i], file.file(), "chat_template[" + std::to_string(i) + "]");
    if (item.text("name") == "default") return item.text("template");
  }
  file.fail("chat_template", "is a list without a template named \"default\"");
}

// The special tokens that transformers hands to a template.
void read_variables(const json_reader& file, std::map<std::string, std::string>& variables) {
  for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                          "cls_token", "mask_token"}) {
    const json_value* value = file.find(key);
    if (value == nullptr) continue;
    if (value->members() != nullptr) value = value->find("content");
    if (value != nullptr && value->text() != nullptr) variables.emplace(key, *value->text());
  }
  // A model's own: {"image_token": "<image>"}.
  const json_value* own = file.find("extra_special_tokens");
  if (own == nullptr || own->members() == nullptr) return;
  for (const auto& [key, value] : *own->members()) {
    const json_value* text = value.members() != nullptr ? value.find("content") : &value;
    if (text != nullptr && text->text() != nullptr) variables.emplace(key, *text->text());
  }
}

std::string memory_key(const conversation& chat, bool thinking_off) {
  nlohmann::json key = {thinking_off};
  for (const chat_message& m : chat) key.push_back({m.role, m.content});
  return key.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

chat_template chat_template::load(const fs::path& directory, const model_config& config) {
  chat_template t;
  t.directory_ = directory.string();
  const auto object_of = [&](const char* name) {
    if (!is_there(directory / name)) return json_value{json_value::object{}};
    return parse_python_json(read_file(directory / name, template_limit),
                             (directory / name).string());
  };
  const auto take = [&](const char* name, std::string text) {
    if (!t.text_.empty() || text.empty()) return;
    t.file_ = name;
    t.text_ = std::move(text);
  };
  if (is_there(directory / "chat_template.jinja")) {
    const fs::path own = directory / "chat_template.jinja";
    const std::string text = read_file(own, template_limit);
    if (repair_utf8(text) != text) throw environment_error(own.string() + ": is not UTF-8");
    take("chat_template.jinja", universal_newlines(text));
  }
  // Since 4.34 transformers writes added_tokens_decoder, and then reads no special_tokens_map.json;
  // before, what that file says counts.
  const json_value config_file = object_of("tokenizer_config.json");
  if (config_file.find("added_tokens_decoder") == nullptr) {
    const json_value map = object_of("special_tokens_map.json");
    read_variables({map, (directory / "special_tokens_map.json").string()}, t.variables_);
  }
  for (const char* name :
       {"tokenizer_config.json", "chat_template.json", "special_tokens_map.json"}) {
    const json_value root = object_of(name);
    const json_reader reader(root, (directory / name).string());
    take(name, template_in(reader));
    if (name != std::string_view("special_tokens_map.json")) read_variables(reader, t.variables_);
  }
  if (config.sink_tokens > 0) {
    t.format_ = chat_format::sink;
    t.name_ = "sink";
    t.file_ = "config.json (`sink_tokens`)";
    return t;
  }
  const std::string hash = sha256_hex(t.text_);
  for (const known_template& known : known_templates) {
    if (hash != known.sha256) continue;
    if (known.writes_bos && t.variables_["bos_token"] != "<|startoftext|>") break;
    t.format_ = known.format;
    t.name_ = known.name;
  }
  return t;
}

std::string chat_template::summary() const {
  if (!found()) return "none";
  if (format_) return name_ + " of " + file_ + ", rendered by the program";
  return "own of " + file_ + " (sha256 " + sha256_hex(text_).substr(0, 12) +
         "), rendered by the Python package";
}

std::string chat_template::caution() const {
  if (format_ || text_.find("strftime_now") == std::string::npos) return "";
  return "the chat template of " + file_ +
         " asks for the time (strftime_now): a later run may put other tokens in";
}

std::string chat_template::render(const conversation& chat, bool thinking_off) const {
  return render(std::vector<conversation>{chat}, thinking_off)[0];
}

std::vector<std::string> chat_template::render(const std::vector<conversation>& chats,
                                               bool thinking_off) const {
  if (!found()) {
    throw environment_error(
        directory_ +
        ": has no chat template (chat_template.jinja, or `chat_template` in tokenizer_config.json "
        "or chat_template.json); give it the one that the model was trained with, or use the "
        "prompt without a template (generate --raw)");
  }
  std::vector<std::string> texts;
  if (format_) {
    for (const conversation& chat : chats) {
      texts.push_back(apply_chat_template(*format_, chat, true, thinking_off));
    }
    return texts;
  }
  std::vector<conversation> missing;
  for (const conversation& chat : chats) {
    if (!rendered_.contains(memory_key(chat, thinking_off))) missing.push_back(chat);
  }
  if (!missing.empty()) render_with_python(missing, thinking_off);
  texts.reserve(chats.size());
  for (const conversation& chat : chats) {
    texts.push_back(rendered_.at(memory_key(chat, thinking_off)));
  }
  return texts;
}

void chat_template::render_with_python(const std::vector<conversation>& chats,
                                       bool thinking_off) const {
  using json = nlohmann::ordered_json;  // a template may print a message: its keys keep their order
  const auto line = [](const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  };
  const std::string place = directory_ + "/" + file_;
  std::string requests = line({{"template", text_}, {"variables", variables_}, {"where", place}});
  for (const conversation& chat : chats) {
    json request = {{"messages", json::array()}, {"add_generation_prompt", true}};
    for (const chat_message& m : chat) {
      request["messages"].push_back(json{{"role", m.role}, {"content", m.content}});
    }
    if (thinking_off) request["enable_thinking"] = false;
    requests += line(request);
  }
  const scratch_folder scratch;
  const fs::path asked = scratch.path() / "asked.jsonl",
                 answered = scratch.path() / "answers.jsonl", said = scratch.path() / "said.txt";
  write_file(asked, requests);
  const std::string why =
      place + ": the program does not know this chat template, so the Python package renders it: ";
  const std::string otherwise = "; generate --raw takes the prompt without a template";
  int status = 0;
  try {
    status = run_process(package_command({"chat", asked.string()}), answered, said);
  } catch (const error& problem) {
    throw environment_error(why + problem.what() + otherwise);
  }
  if (status != 0) {
    std::string words = is_file(said) ? read_file(said, 1 << 20) : "";
    while (words.ends_with('\n')) words.pop_back();
    if (words.starts_with("unmask: ")) words.erase(0, 8);
    if (status == 126 || status == 127) {
      words =
          "NOT RUN: needs Python 3.11 with jinja2 (./dev setup prepares it, $UNMASK_PYTHON "
          "names another)";
    } else if (status > 128) {
      words = "it was stopped by signal " + std::to_string(status - 128) +
              " (more time or memory than a template may take)";
    }
    throw environment_error(why + words.substr(words.rfind('\n') + 1) + otherwise);
  }
  const std::string answers = read_file(answered, answer_limit);
  std::size_t begin = 0;
  for (const conversation& chat : chats) {
    const std::size_t end = std::min(answers.find('\n', begin), answers.size());
    const json_value answer = parse_json(std::string_view(answers).substr(begin, end - begin),
                                         "answer of the Python package");
    rendered_[memory_key(chat, thinking_off)] =
        json_reader(answer, "answer of the Python package").text("text");
    begin = end + 1;
  }
}

}  // namespace unmask
