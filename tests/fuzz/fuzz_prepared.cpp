// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any bytes as a prepared picture of LLaDA-V, SDAR-VL or Dimple: refused, or pixels of the views that its
// rows of a prompt are counted for.
#include <array>
#include <numeric>

#include "harness/measure/pictures/prepared.h"
#include "harness/model/vision/one_vision.h"
#include "tests/fuzz/input_file.h"

namespace {

// Of the picture whose SHA-256 the seeds have.
const std::string picture_hash(64, 'a');

constexpr const char* llada_v =
    R"({"mm_vision_tower": "siglip", "image_aspect_ratio": "anyres_max_4",
    "image_grid_pinpoints": [[14, 14], [14, 28], [28, 28]], "vision_config": {"image_size": 14,
    "patch_size": 7, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 8}})";
constexpr const char* sdar_vl = R"({"image_grid_pinpoints": [[14, 14], [14, 28]], "vision_config": {
    "image_size": 14, "patch_size": 7, "hidden_size": 8, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 8}})";
constexpr const char* dimple = R"({"vision_config": {"patch_size": 2, "window_size": 8}})";
constexpr const char* processor = R"({"min_pixels": 16})";

template <class Read>
unmask::vision_config config_of(const char* text, const Read& read) {
  const unmask::json_value root = unmask::parse_python_json(text, "config.json");
  return read(unmask::json_reader(root, "config.json"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unmask;
  static const std::array families = {
      config_of(llada_v, [](const json_reader& c) { return read_llada_v(c, 1 << 24); }),
      config_of(sdar_vl, [](const json_reader& c) { return read_sdar_vl(c); }),
      config_of(dimple, [](const json_reader& c) {
        return config_of(processor, [&](const json_reader& p) { return read_dimple(c, &p); });
      })};
  const fuzz::input_file file(fuzz::text_of(data, size));
  for (const vision_config& config : families) {
    for (const std::string& preset : {config.preset, std::string("pad")}) {
      fuzz::reads_or_refuses([&] {
        const prepared_picture picture =
            read_prepared_picture(file.path(), config, preset, picture_hash);
        const tensor_view& v = picture.pixels;
        const auto* bytes = v.as<std::uint8_t>();
        // Each byte is there.
        const std::int64_t sum = std::accumulate(bytes, bytes + v.elements(), std::int64_t{0});
        fuzz::require(sum >= 0 && v.rows() == picture.shape.views() && v.elements() > 0);
        fuzz::require(count_rows(config, picture.shape) > 0);
      });
    }
  }
  return 0;
}
