// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How LLaDA-V sees pictures: configuration, tiles and rows. The numbers of tests/goldens/pictures are
// the official code's; its towers are replayed by unmask_golden.
#include <nlohmann/json.hpp>
#include <random>

#include "harness/base/files.h"
#include "harness/model/vision/tower.h"
#include "tests/harness/model/support.h"

namespace unmask {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using test::expect_environment_error;

fs::path goldens() {
  return fs::path(UNMASK_SOURCE_DIR) / "tests/goldens/pictures";
}

// The published configuration's keys of pictures.
json published() {
  return json::parse(R"json({
      "architectures": ["LlavaLLaDAModelLM"], "mm_vision_tower": "google/siglip2-so400m-patch14-384",
      "mm_projector_type": "mlp2x_gelu", "mm_hidden_size": 1152, "mm_patch_merge_type": "spatial_unpad",
      "image_aspect_ratio": "anyres_max_4", "image_grid_pinpoints": "(1x1),...,(6x6)",
      "mm_vision_select_layer": -2, "tokenizer_model_max_length": 8192})json");
}
vision_config parse(const json& config, std::int32_t vocabulary = 126464) {
  const json_value root = parse_python_json(config.dump(), "some/config.json");
  return read_llada_v(json_reader(root, "some/config.json"), vocabulary);
}

TEST(vision, configuration_of_llada_v) {
  const vision_config v = parse(published());
  EXPECT_EQ(v.kind, vision_kind::siglip);
  EXPECT_EQ(v.side, 384);
  EXPECT_EQ(v.rows_of_view(), 729);  // 27 x 27: the last 6 pixels of a side are unread
  EXPECT_EQ(v.layers, 26);           // of 27
  EXPECT_EQ(v.most_views, 4);
  EXPECT_EQ(v.preset, "tiles");
  ASSERT_EQ(v.points.size(), 36U);
  EXPECT_EQ(v.points[1], (std::array<std::int32_t, 2>{384, 768}));
  EXPECT_EQ(v.refused, (std::vector<std::int32_t>{126081, 126080, 126346, 126347}));
  EXPECT_TRUE(parse(published(), 256).refused.empty());
  json one = published();
  one.erase("image_aspect_ratio");
  EXPECT_EQ(parse(one).preset, "pad");
  one["image_aspect_ratio"] = "square";
  EXPECT_EQ(parse(one).preset, "squeeze");
  EXPECT_EQ(parse(one).settings, "side 384, points none");
}

TEST(vision, keys_that_are_not_read_so_are_refused_by_name) {
  const auto refused = [](const char* key, const json& value) {
    json config = published();
    config[key] = value;
    expect_environment_error([&] { parse(config); },
                             {"some/config.json", std::string("`") + key + "`"});
  };
  refused("mm_vision_tower", "openai/clip-vit-large-patch14");
  refused("mm_projector_type", "linear");
  refused("mm_hidden_size", 1024);
  refused("mm_patch_merge_type", "flat");
  refused("image_aspect_ratio", "anyres");
  refused("image_aspect_ratio", "anyres_max_0");
  refused("image_grid_pinpoints", json::array({json::array({384, 385})}));
  refused("image_grid_pinpoints", json::array({json::array({384})}));
  refused("image_grid_pinpoints", "(1x1)");
  refused("mm_use_im_start_end", true);
  json heads = published();
  heads["vision_config"] = {{"hidden_size", 30},      {"intermediate_size", 64},
                            {"num_hidden_layers", 3}, {"num_attention_heads", 4},
                            {"image_size", 56},       {"patch_size", 14}};
  heads["mm_hidden_size"] = 30;
  expect_environment_error([&] { parse(heads); }, {"vision_config.num_attention_heads"});
}

TEST(vision, tiles_and_rows_of_published_sizes) {
  const vision_config v = parse(published());
  const json sizes =
      json::parse(read_file(goldens() / "vision/published_geometry.json", 1 << 24)).at("sizes");
  int seen = 0;
  for (const json& c : sizes) {
    if (!c.contains("llada_v")) continue;
    const picture_shape shape =
        shape_of_picture(v, "tiles", c.at("size").at(0), c.at("size").at(1));
    EXPECT_EQ(json({shape.across, shape.down}), c.at("llada_v").at("tile_grid")) << c.dump();
    EXPECT_EQ(count_rows(v, shape), c.at("llada_v").at("rows").get<std::int64_t>()) << c.dump();
    ++seen;
  }
  EXPECT_GE(seen, 30);
  // One view and one newline.
  EXPECT_EQ(count_rows(v, shape_of_picture(v, "pad", 640, 480)), 730);
}

TEST(vision, rows_are_counted_as_they_are_made) {
  const vision_config v = read_vision_config(goldens() / "models/tiny-llada-v-s1", 256);
  std::mt19937 rng(7);
  std::uniform_int_distribution<std::int32_t> side(1, 400);
  for (int i = 0; i < 300; ++i) {
    const picture_shape shape =
        shape_of_picture(v, i % 7 == 0 ? "pad" : "tiles", side(rng), side(rng));
    const row_plan plan = plan_rows(v, shape);
    EXPECT_EQ(plan.rows(), count_rows(v, shape));
    ASSERT_EQ(plan.from.size(), 4 * plan.across.size());
    // All rows are there, the newline being the last of them.
    const std::int32_t newline = shape.views() * v.rows_of_view();
    for (const std::int32_t row : plan.from) ASSERT_TRUE(row >= 0 && row <= newline);
    EXPECT_EQ(plan.from.back(), plan.rows() > v.rows_of_view() ? newline : plan.from.back());
  }
}

TEST(vision, bytes_are_worth_what_transformers_makes_of_them) {
  const json want = json::parse(read_file(goldens() / "vision/published_geometry.json", 1 << 24))
                        .at("byte_tables")
                        .at("llada_v")
                        .at(0);
  const auto values = byte_values(parse(published()));
  for (const auto& channel : values) {
    for (std::size_t b = 0; b < 256; ++b) EXPECT_EQ(channel[b], want.at(b).get<float>()) << b;
  }
}

TEST(vision, tensors_behind_the_last_computed_layer_are_no_fault) {
  const vision_config v = parse(published());
  const std::string at = "model.vision_tower.vision_tower.vision_model.";
  EXPECT_TRUE(unused_by_tower(v, at + "encoder.layers.26.mlp.fc1.weight"));
  EXPECT_TRUE(unused_by_tower(v, at + "post_layernorm.bias"));
  EXPECT_TRUE(unused_by_tower(v, at + "head.probe"));
  EXPECT_FALSE(unused_by_tower(v, at + "encoder.layers.25.mlp.fc1.weight"));
  EXPECT_FALSE(unused_by_tower(v, at + "encoder.layers.27.mlp.fc1.weight"));
  EXPECT_FALSE(unused_by_tower({}, at + "post_layernorm.bias"));
  EXPECT_EQ(read_vision_config(test::golden_models() / "tiny-llada-s1", 256).kind,
            vision_kind::none);
}

}  // namespace
}  // namespace unmask
