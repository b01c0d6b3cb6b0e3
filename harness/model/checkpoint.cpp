// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/checkpoint.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/model/vision/one_vision.h"

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
constexpr std::size_t made_of_limit = 1U << 30;  // of a file that a model is made of

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

}  // namespace

std::string outdated_text(const std::filesystem::path& directory) {
  if (!std::filesystem::exists(directory / delta_file)) return "";
  const std::string again =
      "; ./dev model " + directory.lexically_normal().filename().string() + " makes it anew";
  const std::filesystem::path list = directory / made_of_file;
  if (!is_there(list)) {
    return std::string("has no ") + made_of_file + ", which says what it was made of" + again;
  }
  const json_value made_of = parse_python_json(read_file(list, text_limit), list.string());
  if (made_of.members() == nullptr || made_of.find(delta_file) == nullptr) {
    return std::string("has a ") + made_of_file + " without " + delta_file + again;
  }
  for (const auto& [name, digest] : *made_of.members()) {
    const std::filesystem::path file = directory / name;
    if (!is_there(file)) continue;
    const std::string is = remembered_hash(
        file, user_hash_memory(), [&] { return sha256_hex(read_file(file, made_of_limit)); });
    if (digest.text() == nullptr || *digest.text() != is) {
      return "was made of another " + name + " than the one here" + again;
    }
  }
  return "";
}

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
  look_at_rest();
}

// What the shards hold beyond the index.
void checkpoint::look_at_rest() {
  for (const safetensors_file& file : files_) {
    for (const safetensors_entry& entry : file.entries()) {
      const located read = find(entry.name);
      if (!read) {
        unlisted_.push_back(entry.name);
      } else if (read.file != &file &&
                 (read.entry->type != entry.type || read.entry->shape != entry.shape ||
                  !std::ranges::equal(read.bytes(), file.bytes_of(entry)))) {
        const auto name_of = [](const safetensors_file& f) {
          return std::filesystem::path(f.path()).filename().string();
        };
        doubled_.push_back(entry.name + " of " + name_of(file) + " (other values than in " +
                           name_of(*read.file) + ", which the index names)");
      }
    }
  }
}

std::vector<std::string> checkpoint::names() const {
  std::vector<std::string> all = unlisted_;
  for (const auto& [name, file] : names_) all.push_back(name);
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
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

std::pair<std::string, std::string> release_of(const model_config& model,
                                               const std::filesystem::path& directory) {
  // A Dimple without axes is asked about text alone.
  const bool text_alone = model.family == model_family::dream && model.axes[0] == 0;
  const vision_config vision =
      text_alone ? vision_config{} : read_vision_config(directory, model.vocabulary);
  for (const auto& [family, release] : {std::pair{"llada-v", "LLaDA-V"},
                                        {"mmada", "MMaDA"},
                                        {"dimple", "Dimple"},
                                        {sdar_vl_family, "SDAR-VL"}}) {
    if (vision.family == family) return {release, "config.json"};
  }
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
