// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any texts as the small files of one checkpoint, a zero byte between two, in the order of `names` and left
// out where empty: each reader refuses, or what it read fits together. What is known of a chat template in
// Python is not asked to render here.
#include <array>
#include <filesystem>
#include <fstream>

#include "harness/base/files.h"
#include "harness/model/chat_template.h"
#include "harness/model/checkpoint.h"
#include "harness/model/tokenizer.h"
#include "harness/model/vision/picture_rows.h"
#include "tests/fuzz/input_file.h"

namespace {

constexpr std::array names = {
    "config.json",           "generation_config.json",       "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json",      "chat_template.json",
    "chat_template.jinja",   "model.safetensors.index.json", "preprocessor_config.json"};

// One tensor, which an index may name.
void write_shard(const std::filesystem::path& folder) {
  const std::string head = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} )";
  std::string size(8, '\0');
  size[0] = static_cast<char>(head.size());
  unmask::write_file(folder / "a.safetensors", size + head + std::string(8, '\0'));
}

void write_checkpoint(const std::filesystem::path& folder, std::string_view input) {
  for (const char* name : names) {
    const std::size_t end = std::min(input.find('\0'), input.size());
    const std::filesystem::path file = folder / name;
    if (end == 0) {
      std::filesystem::remove(file);
    } else {
      std::ofstream(file, std::ios::binary) << input.substr(0, end);
    }
    input.remove_prefix(std::min(end + 1, input.size()));
  }
}

// Sizes that fit together, and rows for a picture that the family takes.
void require_vision(const unmask::vision_config& v) {
  using unmask::fuzz::require;
  if (v.kind == unmask::vision_kind::codes) require(v.around.size() == 3 && v.codebook > 0);
  if (!v.has_tower()) return;
  require(v.layers > 0 && v.layers <= v.stored && v.heads > 0 && v.hidden % v.heads == 0);
  const unmask::picture_shape shape = unmask::shape_of_picture(v, v.preset, 640, 480);
  require(shape.views() > 0 && unmask::count_rows(v, shape) > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unmask;
  static const scratch_folder scratch;
  static const bool once = (write_shard(scratch.path()), true);
  fuzz::require(once);
  const std::filesystem::path& folder = scratch.path();
  write_checkpoint(folder, fuzz::text_of(data, size));
  fuzz::reads_or_refuses([&] {
    const model_config config = read_model_config(folder);
    fuzz::reads_or_refuses([&] { contradictions_of(config, folder); });
    fuzz::reads_or_refuses([&] { caution_of(config, folder); });
    fuzz::reads_or_refuses([&] { require_vision(read_vision_config(folder, config.vocabulary)); });
    fuzz::reads_or_refuses([&] {
      const chat_template chat = chat_template::load(folder, config);
      fuzz::require(!chat.summary().empty());
      if (chat.summary().ends_with("rendered by the program")) {
        fuzz::require(!chat.render(conversation{{"user", "2+2"}}).empty());
      }
    });
  });
  fuzz::reads_or_refuses([&] {
    const tokenizer tokens = tokenizer::load(folder);
    for (const std::int32_t id : tokens.encode_raw("abc ab<|e|>cd")) {
      fuzz::require(id >= 0 && id < tokens.vocabulary_size());
      tokens.decode(std::array{id}, false);
    }
  });
  fuzz::reads_or_refuses([&] {
    const checkpoint weights(folder);
    const std::vector<std::string> names = weights.names();
    fuzz::require(names.size() <= 1 && (names.empty() || weights.find("a")));
  });
  return 0;
}
