// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/checkpoint.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"

namespace unmask {
namespace {

constexpr std::size_t index_limit = 64 << 20;

// A shard must be a plain file name: an index must not reach outside its directory.
bool plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

bool decides_the_model(const std::string& name) {
  constexpr const char* exact[] = {"config.json",
                                   "generation_config.json",
                                   "tokenizer.json",
                                   "tokenizer_config.json",
                                   "vocab.json",
                                   "merges.txt",
                                   "added_tokens.json",
                                   "special_tokens_map.json",
                                   "chat_template.jinja",
                                   "chat_template.json",
                                   "model.safetensors.index.json"};
  return name.ends_with(".safetensors") ||
         std::find(std::begin(exact), std::end(exact), name) != std::end(exact);
}

constexpr std::uintmax_t text_limit = 4 << 20;

bool holds(const std::filesystem::path& file, const std::string& word) {
  std::error_code failure;
  if (std::filesystem::file_size(file, failure) > text_limit || failure) return false;
  return read_file(file, text_limit).find(word) != std::string::npos;
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// "llada2.1" anywhere in a path: of the directory as given, or of where its links lead.
bool named(const std::filesystem::path& directory, const std::string& name) {
  std::error_code failure;
  const std::filesystem::path real = std::filesystem::weakly_canonical(directory, failure);
  for (const std::string& text : {directory.string(), real.string()}) {
    if (lower_case(text).find(name) != std::string::npos) return true;
  }
  return false;
}

constexpr std::size_t checkpoint_limit = 256 << 20;

json_value object_in(const std::filesystem::path& file) {
  return is_there(file) ? parse_python_json(read_file(file, checkpoint_limit), file.string())
                        : json_value{json_value::object{}};
}

// The id of an added token in the files of a tokenizer; -1: none of them lists it.
std::int64_t added_id(const std::filesystem::path& directory, const json_value& config,
                      const std::string& token) {
  const auto is_token = [&](const json_value& entry) {
    const json_value* content = entry.find("content");
    return content != nullptr && content->text() != nullptr && *content->text() == token;
  };
  if (const json_value* listed = config.find("added_tokens_decoder");
      listed != nullptr && listed->members() != nullptr) {
    for (const auto& [id, entry] : *listed->members()) {
      if (is_token(entry)) return std::atoll(id.c_str());
    }
  }
  const json_value added = object_in(directory / "added_tokens.json");
  if (const json_value* id = added.find(token); id != nullptr && id->integer() != nullptr) {
    return *id->integer();
  }
  const json_value tokenizer = object_in(directory / "tokenizer.json");
  if (const json_value* list = tokenizer.find("added_tokens");
      list != nullptr && list->items() != nullptr) {
    for (const json_value& entry : *list->items()) {
      const json_value* id = entry.find("id");
      if (is_token(entry) && id != nullptr && id->integer() != nullptr) return *id->integer();
    }
  }
  return -1;
}

std::string mask_contradiction(const model_config& model, const std::filesystem::path& directory) {
  const std::int32_t id = mask_of_tokenizer(directory);
  if (model.mask_id < 0 || id < 0 || id == model.mask_id) return {};
  return "mask_token_id of config.json is " + std::to_string(model.mask_id) +
         ", but mask_token of tokenizer_config.json has the id " + std::to_string(id) +
         ": the canvas is filled with the first, and answers are nonsense where it is wrong";
}

}  // namespace

checkpoint::checkpoint(const std::filesystem::path& directory) : directory_(directory.string()) {
  const std::filesystem::path single = directory / "model.safetensors";
  const std::filesystem::path index = directory / "model.safetensors.index.json";
  if (is_there(single)) {
    files_.emplace_back(single);
    for (const safetensors_entry& entry : files_[0].entries()) names_.emplace_back(entry.name, 0);
  } else if (is_there(index)) {
    open_index(index);
  } else {
    throw environment_error(directory_ +
                            ": holds neither model.safetensors nor model.safetensors.index.json");
  }
}

void checkpoint::open_index(const std::filesystem::path& index) {
  const std::string file = index.string();
  const json_value root = parse_json(read_file(index, index_limit), file);
  const json_reader map = json_reader(root, file).child("weight_map");
  std::map<std::string, std::size_t> opened;
  for (const auto& [tensor, value] : *json_reader(root, file).at("weight_map").members()) {
    const std::string* shard = value.text();
    if (shard == nullptr || !plain_name(*shard)) {
      map.fail(tensor, "must be the name of a file in the same directory");
    }
    const auto [at, fresh] = opened.emplace(*shard, files_.size());
    if (fresh) {
      const std::filesystem::path path = index.parent_path() / *shard;
      if (!is_file(path)) {  // or its name is longer than a file's can be
        map.fail(tensor, "is in the shard " + *shard + ", which is missing");
      }
      files_.emplace_back(path);
    }
    if (files_[at->second].find(tensor) == nullptr) {
      map.fail(tensor, "is mapped to the shard " + *shard + ", which does not hold it");
    }
    names_.emplace_back(tensor, at->second);
  }
}

checkpoint::located checkpoint::find(std::string_view name) const {
  const auto at =
      std::ranges::lower_bound(names_, name, {}, &std::pair<std::string, std::size_t>::first);
  if (at == names_.end() || at->first != name) return {};
  const safetensors_file& file = files_[at->second];
  return {&file, file.find(name)};
}

std::string hash_of_checkpoint(const std::filesystem::path& directory,
                               std::vector<std::shared_ptr<const mapped_file>>* opened) {
  if (!std::filesystem::is_directory(directory)) {
    throw environment_error(directory.string() + ": no such directory");
  }
  std::vector<std::string> names;
  for (const std::filesystem::path& file : entries_of(directory)) {
    const std::string name = file.filename().string();
    if (is_file(file) && decides_the_model(name)) names.push_back(name);
  }
  std::string lines;
  const hash_memory memory = user_hash_memory();
  for (const std::string& name : names) {
    lines += remembered_hash(directory / name, memory, [&] {
      const auto file = mapped_file::open(directory / name);
      if (opened) opened->push_back(file);
      return sha256_hex(
          {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
    });
    lines += "  " + name + "\n";
  }
  return sha256_hex(lines);
}

std::string contradictions_of(const model_config& model, const std::filesystem::path& directory) {
  std::string all = mask_contradiction(model, directory);
  const auto say = [&](const std::string& sentence) {
    all += (all.empty() ? "" : "; ") + sentence;
  };
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
  const json_value config = object_in(directory / "tokenizer_config.json");
  const json_value* named = config.find("mask_token");
  if (named != nullptr && named->members() != nullptr) named = named->find("content");
  if (named == nullptr || named->text() == nullptr) return -1;
  const std::int64_t id = added_id(directory, config, *named->text());
  return id > std::numeric_limits<std::int32_t>::max() ? -1 : static_cast<std::int32_t>(id);
}

std::pair<std::string, std::string> release_of(const model_config& model,
                                               const std::filesystem::path& directory) {
  if (model.family != model_family::llada2_moe || model.attention != mask_kind::block_causal) {
    return {};
  }
  for (const char* version : {"LLaDA2.1", "LLaDA2.2"}) {
    if (named(directory, lower_case(version))) {
      return {version, std::string("its directory's name holds ") + version};
    }
  }
  const std::string key = "editing_threshold";
  for (const char* file : {"generation_config.json", "README.md", "modeling_llada2_moe.py"}) {
    if (!holds(directory / file, key)) continue;
    // A card of LLaDA2.2 names LLaDA2.1 too; the other way round it cannot be.
    const bool later = holds(directory / "README.md", "LLaDA2.2");
    return {later ? "LLaDA2.2" : "LLaDA2.1", std::string(file) + " speaks of " + key};
  }
  return {};
}

std::string caution_of(const model_config& model, const std::filesystem::path& directory) {
  const bool two_way = model.family == model_family::qwen3 && model.attention == mask_kind::full;
  if (!two_way || !named(directory, "bd3lm")) return {};
  return "its directory's name says bd3lm (block diffusion), but config.json does not: it attends "
         "in "
         "both directions unless `attention` is \"block_causal\" there, with its `block_size`";
}

}  // namespace unmask
