// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The same thing in two files of a checkpoint, with different values.
#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/model/checkpoint.h"

namespace unmask {
namespace {

constexpr std::size_t checkpoint_limit = 256 << 20;

json_value object_in(const std::filesystem::path& file) {
  return is_there(file) ? parse_python_json(read_file(file, checkpoint_limit), file.string())
                        : json_value{json_value::object{}};
}

std::string text_in(const json_value* token) {
  if (token != nullptr && token->members() != nullptr) token = token->find("content");
  return token != nullptr && token->text() != nullptr ? *token->text() : "";
}

bool is_token(const json_value& entry, const std::string& token) {
  const json_value* content = entry.find("content");
  return content != nullptr && content->text() != nullptr && *content->text() == token;
}

// The files of a tokenizer, each read when it is asked for.
class tokenizer_files {
 public:
  explicit tokenizer_files(const std::filesystem::path& directory)
      : directory_(directory), config_(object_in(directory / "tokenizer_config.json")) {}

  const json_value& config() const { return config_; }
  const json_value& main() const {
    if (!main_) main_ = object_in(directory_ / "tokenizer.json");
    return *main_;
  }
  const json_value::object* decoder() const {
    const json_value* listed = config_.find("added_tokens_decoder");
    return listed != nullptr ? listed->members() : nullptr;
  }

  // The id of an added token; -1: no file lists it.
  std::int64_t added_id(const std::string& token) const {
    if (decoder() != nullptr) {
      for (const auto& [id, entry] : *decoder()) {
        if (is_token(entry, token)) return std::atoll(id.c_str());
      }
    }
    const json_value added = object_in(directory_ / "added_tokens.json");
    if (const json_value* id = added.find(token); id != nullptr && id->integer() != nullptr) {
      return *id->integer();
    }
    if (const json_value* list = main().find("added_tokens");
        list != nullptr && list->items() != nullptr) {
      for (const json_value& entry : *list->items()) {
        const json_value* id = entry.find("id");
        if (is_token(entry, token) && id != nullptr && id->integer() != nullptr) {
          return *id->integer();
        }
      }
    }
    return -1;
  }

 private:
  std::filesystem::path directory_;
  json_value config_;
  mutable std::optional<json_value> main_;
};

std::string mask_contradiction(const model_config& model, const std::filesystem::path& directory) {
  const std::int32_t id = mask_of_tokenizer(directory);
  if (model.mask_id < 0 || id < 0 || id == model.mask_id) return {};
  return "mask_token_id of config.json is " + std::to_string(model.mask_id) +
         ", but mask_token of tokenizer_config.json has the id " + std::to_string(id) +
         ": the response is filled with the first, and answers are nonsense if it is wrong";
}

// An end token of the tokenizer at which no answer ends: what is behind it is then counted as answer.
std::string end_contradiction(const model_config& model, const tokenizer_files& files) {
  const std::string token = text_in(files.config().find("eos_token"));
  const std::int64_t id = token.empty() ? -1 : files.added_id(token);
  if (id < 0 || std::ranges::find(model.stop_ids, id) != model.stop_ids.end()) return {};
  std::string ids;
  for (const std::int32_t stop : model.stop_ids) ids += fmt::format(" {}", stop);
  return fmt::format(
      "eos_token of tokenizer_config.json has the id {}, but answers end at{} alone: what is "
      "behind "
      "an answer's end is counted as answer if the second is wrong",
      id, ids);
}

// Special tokens of a folder that transformers wrote before 4.34 have two files.
std::string special_contradictions(const std::filesystem::path& directory,
                                   const tokenizer_files& files) {
  const json_value map = object_in(directory / "special_tokens_map.json");
  std::string all;
  for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                          "cls_token", "mask_token"}) {
    const std::string first = text_in(files.config().find(key)), second = text_in(map.find(key));
    if (first.empty() || second.empty() || first == second) continue;
    all += fmt::format(
        "{}{} is {} in tokenizer_config.json and {} in special_tokens_map.json: "
        "a chat template gets the {}, as in transformers",
        all.empty() ? "" : "; ", key, first, second,
        files.decoder() != nullptr ? "first" : "second");
  }
  return all;
}

// Flags of an added token in tokenizer_config.json and in tokenizer.json.
std::string flag_contradictions(const tokenizer_files& files) {
  if (files.decoder() == nullptr) return {};
  const json_value* list = files.main().find("added_tokens");
  if (list == nullptr || list->items() == nullptr) return {};
  std::size_t count = 0;
  std::string first;
  for (const json_value& entry : *list->items()) {
    const json_value* id = entry.find("id");
    const std::string text = text_in(&entry);
    if (id == nullptr || id->integer() == nullptr) continue;
    const auto other =
        std::ranges::find(*files.decoder(), std::to_string(*id->integer()), &json_member::first);
    if (other == files.decoder()->end() || !is_token(other->second, text)) continue;
    const char* differs = nullptr;
    for (const char* flag : {"lstrip", "rstrip", "normalized", "single_word", "special"}) {
      const json_value *a = entry.find(flag), *b = other->second.find(flag);
      if (a == nullptr || b == nullptr || a->boolean() == nullptr || b->boolean() == nullptr) {
        continue;
      }
      if (*a->boolean() != *b->boolean() && differs == nullptr) differs = flag;
    }
    if (differs == nullptr) continue;
    if (++count == 1) first = fmt::format("{} of {}", differs, text);
  }
  if (count == 0) return {};
  return fmt::format(
      "{} added {} other flags in tokenizer_config.json than in tokenizer.json ({}): the second "
      "file's count here, the first's in transformers, and prompts may be other tokens",
      count, count == 1 ? "token has" : "tokens have", first);
}

// transformers 5 gives this class its own pre-tokenizer, whatever tokenizer.json says.
std::string class_contradiction(const tokenizer_files& files) {
  if (!text_in(files.config().find("tokenizer_class")).starts_with("GPT2Tokenizer")) return {};
  const json_value* pre = files.main().find("pre_tokenizer");
  if (pre == nullptr || text_in(pre->find("type")).empty()) return {};
  if (text_in(pre->find("type")) == "ByteLevel") return {};
  return "tokenizer_class is GPT2Tokenizer, but tokenizer.json has another pre-tokenizer: the file "
         "counts here, the class in transformers 5";
}

std::string template_contradiction(const std::filesystem::path& directory,
                                   const tokenizer_files& files) {
  const std::filesystem::path own = directory / "chat_template.jinja";
  const std::string other = text_in(files.config().find("chat_template"));
  if (other.empty() || !is_there(own) || read_file(own, checkpoint_limit) == other) return {};
  return "chat_template.jinja and chat_template of tokenizer_config.json differ: the first is "
         "used, "
         "as in transformers";
}

}  // namespace

std::string contradictions_of(const model_config& model, const std::filesystem::path& directory) {
  const tokenizer_files files(directory);
  std::string all;
  const auto say = [&](const std::string& sentence) {
    if (!sentence.empty()) all += (all.empty() ? "" : "; ") + sentence;
  };
  say(mask_contradiction(model, directory));
  say(end_contradiction(model, files));
  say(special_contradictions(directory, files));
  say(flag_contradictions(files));
  say(class_contradiction(files));
  say(template_contradiction(directory, files));
  if (is_file(directory / "model.safetensors") &&
      is_file(directory / "model.safetensors.index.json")) {
    say("the folder holds model.safetensors and an index of shards: the first is read, as "
        "transformers does");
  }
  if (const json_value config = object_in(directory / "config.json");
      config.find("quantization_config") != nullptr &&
      !config.find("quantization_config")->is_null()) {
    say("quantization_config of config.json is not applied: the weights are computed with as they "
        "are stored");
  }
  return all;
}

std::int32_t mask_of_tokenizer(const std::filesystem::path& directory) {
  const tokenizer_files files(directory);
  const std::string token = text_in(files.config().find("mask_token"));
  const std::int64_t id = token.empty() ? -1 : files.added_id(token);
  return id > std::numeric_limits<std::int32_t>::max() ? -1 : static_cast<std::int32_t>(id);
}

}  // namespace unmask
