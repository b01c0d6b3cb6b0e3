// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The tensors of a checkpoint directory by their published names, over one file or many shards, and
// what is known of the checkpoint as a whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/files.h"
#include "harness/model/config.h"
#include "harness/model/safetensors.h"

namespace unmask {

// What the folder of an opt-in model holds in place of its weights, until `./dev model` makes them.
constexpr const char* delta_file = "delta.safetensors";
// Lists the files that the model was made of, by path from the folder: {"delta.safetensors": SHA-256, ...}.
constexpr const char* made_of_file = "made_of.json";

// Why the model in this folder must be made anew: a listed file has changed, or the list is missing. The text
// follows "the model". Empty: it is up to date, or the folder has no delta. Listed files that are gone are ignored.
std::string outdated_text(const std::filesystem::path& directory);

class checkpoint {
 public:
  // Opens model.safetensors, else model.safetensors.index.json and every shard it names: the order
  // of transformers. A missing
  // or broken file, or an index that maps a tensor to a shard without it, is an environment error.
  explicit checkpoint(const std::filesystem::path& directory);

  struct located {
    const safetensors_file* file = nullptr;
    const safetensors_entry* entry = nullptr;
    explicit operator bool() const { return entry != nullptr; }
    std::span<const std::byte> bytes() const { return file->bytes_of(*entry); }
  };
  located find(std::string_view name) const;  // false when absent
  std::vector<std::string> names() const;     // of all tensors, sorted
  // Tensors that two shards hold with different values, and which of the two is read, a sentence each.
  const std::vector<std::string>& doubled() const { return doubled_; }
  const std::string& directory() const { return directory_; }

 private:
  void open_index(const std::filesystem::path& index);
  void look_at_rest();

  std::string directory_;
  std::vector<safetensors_file> files_;
  std::vector<std::pair<std::string, std::size_t>> names_;  // sorted: tensor -> index of file
  std::vector<std::string> doubled_;
  std::vector<std::string> unlisted_;  // in a shard, but not in the index
};

// SHA-256, in lower-case hex, over the lines "DIGEST  NAME\n" (ascending names) of every file that
// decides what the model computes: configs, tokenizer files, index and shards. Equal to
// `sha256sum FILES... | sha256sum`. Reads every byte of what user_hash_memory() does not know; what it
// maps to do so goes to `opened`, where that is given, so that loading need not open it again.
std::string hash_of_checkpoint(const std::filesystem::path& directory,
                               std::vector<std::shared_ptr<const mapped_file>>* opened = nullptr);

// The id of the mask token that tokenizer_config.json names, looked up among the added tokens; -1:
// none, or it is not there.
std::int32_t mask_of_tokenizer(const std::filesystem::path& directory);

// {"LLaDA2.1" or "LLaDA2.2", what told it}. They share architecture name and config.json with
// LLaDA2.0, key for key, but are decoded with token editing: decided tokens are looked at again and
// replaced. What tells them is the name of the directory (or of the repository in a Hugging Face
// cache), or `editing_threshold` in generation_config.json, in README.md or in the modelling code
// beside the weights. A copy that was renamed and stripped of those files cannot be told from LLaDA2.0:
// two empty texts, as for every other model.
std::pair<std::string, std::string> release_of(const model_config& model,
                                               const std::filesystem::path& directory);

// One sentence where a checkpoint's name says other than its config.json: an A2D model for block
// diffusion that does not say so. Empty: nothing is known.
std::string caution_of(const model_config& model, const std::filesystem::path& directory);

// Where the files of a checkpoint contradict each other, and which of them counts: a mask token of
// tokenizer_config.json with another id than config.json's, an end token of the tokenizer that ends no
// answer, special or added tokens that two files describe differently, two chat templates,
// model.safetensors beside an index of shards, quantization_config beside weights that are read as
// they are stored. Empty: nowhere.
std::string contradictions_of(const model_config& model, const std::filesystem::path& directory);

}  // namespace unmask
