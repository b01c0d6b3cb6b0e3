// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/checkpoint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <map>

#include "harness/base/error.h"
#include "harness/base/hash_memory.h"
#include "harness/base/json.h"

namespace unmask {
namespace {

constexpr std::size_t index_limit = 64 << 20;

// A shard must be a plain file name: an index must not reach outside its directory.
bool plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

class sha256 {
 public:
  sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {
      throw environment_error("OpenSSL does not offer SHA-256 on this machine");
    }
  }
  void add(const void* data, std::size_t size) { EVP_DigestUpdate(context_.get(), data, size); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), digest, &size);
    std::string text;
    for (unsigned int i = 0; i < size; ++i) {
      text += "0123456789abcdef"[digest[i] >> 4];
      text += "0123456789abcdef"[digest[i] & 15];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

bool decides_the_model(const std::string& name) {
  constexpr const char* exact[] = {"config.json",         "generation_config.json",
                                   "tokenizer.json",      "tokenizer_config.json",
                                   "vocab.json",          "merges.txt",
                                   "added_tokens.json",   "special_tokens_map.json",
                                   "chat_template.jinja", "model.safetensors.index.json"};
  return name.ends_with(".safetensors") ||
         std::find(std::begin(exact), std::end(exact), name) != std::end(exact);
}

}  // namespace

checkpoint::checkpoint(const std::filesystem::path& directory) : directory_(directory.string()) {
  const std::filesystem::path single = directory / "model.safetensors";
  const std::filesystem::path index = directory / "model.safetensors.index.json";
  if (std::filesystem::exists(index)) {
    open_index(index);
  } else if (std::filesystem::exists(single)) {
    files_.emplace_back(single);
    for (const safetensors_entry& entry : files_[0].entries()) names_.emplace_back(entry.name, 0);
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
      if (!std::filesystem::exists(path)) {
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
  const auto at = std::lower_bound(names_.begin(), names_.end(), name,
                                   [](const auto& n, std::string_view k) { return n.first < k; });
  if (at == names_.end() || at->first != name) return {};
  const safetensors_file& file = files_[at->second];
  return {&file, file.find(name)};
}

std::string hash_of_checkpoint(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) {
    throw environment_error(directory.string() + ": no such directory");
  }
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(directory)) {
    const std::string name = item.path().filename().string();
    if (item.is_regular_file() && decides_the_model(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  sha256 all;
  const hash_memory memory = user_hash_memory();
  for (const std::string& name : names) {
    const std::string digest = remembered_hash(directory / name, memory, [&] {
      const auto mapping = mapped_file::open(directory / name);
      sha256 one;
      one.add(mapping->bytes().data(), mapping->bytes().size());
      return one.hex();
    });
    const std::string line = digest + "  " + name + "\n";
    all.add(line.data(), line.size());
  }
  return all.hex();
}

}  // namespace unmask
