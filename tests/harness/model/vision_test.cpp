// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How LLaDA-V sees pictures: configuration, tiles and rows. The numbers of tests/goldens/pictures are
// the official code's; its towers are replayed by unmask_golden.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "harness/base/files.h"
#include "harness/model/vision/one_vision.h"
#include "harness/model/vision/tower.h"
#include "harness/model/vision/tower_work.h"
#include "tests/harness/model/support.h"

namespace unmask {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using test::expect_environment_error;

std::string safetensors_header(const std::string& file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  return file.substr(sizeof length, length);
}

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

TEST(vision, codes_of_mmada) {
  const auto read = [](const json& config, std::int32_t vocabulary) {
    const json_value root = parse_python_json(config.dump(), "some/config.json");
    return read_mmada(json_reader(root, "some/config.json"), vocabulary);
  };
  const vision_config v = read({{"llm_vocab_size", 126464}, {"codebook_size", 8192}}, 134656);
  EXPECT_EQ(v.kind, vision_kind::codes);
  EXPECT_EQ(v.first_code, 126464);
  EXPECT_EQ(v.around, (std::vector<std::int32_t>{126089, 126084, 126085}));
  EXPECT_EQ(read(json::object(), 134655).kind, vision_kind::none);  // a code less
  const json small = {{"llm_vocab_size", 256}, {"codebook_size", 64}};
  EXPECT_EQ(read(small, 320).kind, vision_kind::none);
  json named = small;
  named["picture_tokens"] = {244, 245, 246};
  EXPECT_EQ(read(named, 320).around, (std::vector<std::int32_t>{244, 245, 246}));
  for (const json& wrong :
       {json({244, 245}), json({244, 245, 256}), json("x"), json({1, 2, 3, 4})}) {
    named["picture_tokens"] = wrong;
    expect_environment_error([&] { read(named, 320); },
                             {"some/config.json: `picture_tokens` must be"});
  }
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
  refused("image_aspect_ratio", "anyres_max_4x");
  refused("image_grid_pinpoints", json::array({json::array({384, 385})}));
  refused("image_grid_pinpoints", json::array({json::array({384})}));
  refused("image_grid_pinpoints", "(1x1)");
  refused("image_grid_pinpoints", "(0x1),...,(2x2)");
  refused("image_grid_pinpoints", "(-9223372036854775807x1),...,(2x2)");
  refused("image_grid_pinpoints", "(1x1),...,(65x1)");
  refused("image_grid_pinpoints", "(1x1),...,(17x17)");
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

// Qwen2-VL's tower at its published sizes.
json published_dimple() {
  return {{"vision_config",
           {{"depth", 32},
            {"hidden_size", 1280},
            {"intermediate_size", 3420},
            {"num_heads", 16},
            {"patch_size", 14},
            {"spatial_merge_size", 2},
            {"temporal_patch_size", 2},
            {"window_size", 112},
            {"out_hidden_size", 3584},
            {"fullatt_block_indexes", {7, 15, 23, 31}}}}};
}
vision_config parse_dimple(const json& config) {
  const json_value root = parse_python_json(config.dump(), "some/config.json");
  return read_dimple(json_reader(root, "some/config.json"), nullptr);
}

TEST(vision, views_of_dimple_have_the_recorded_sizes) {
  const vision_config v = parse_dimple(published_dimple());
  EXPECT_EQ(v.kind, vision_kind::qwen);
  EXPECT_EQ(v.window, 4);
  EXPECT_EQ(v.settings, "cell 28, pixels 3136 to 1003520");
  const json sizes =
      json::parse(read_file(goldens() / "vision/published_geometry.json", 1 << 24)).at("sizes");
  int seen = 0, refused = 0;
  for (const json& c : sizes) {
    const std::int32_t width = c.at("size").at(0), height = c.at("size").at(1);
    if (c.at("dimple").contains("error")) {
      expect_environment_error([&] { shape_of_picture(v, "own-size", width, height); },
                               {"a side must have at least 28"});
      ++refused;
      continue;
    }
    const picture_shape shape = shape_of_picture(v, "own-size", width, height);
    EXPECT_EQ(json({shape.view_width, shape.view_height}), c.at("dimple").at("size")) << c.dump();
    EXPECT_EQ(count_rows(v, shape), std::int64_t{shape.view_width / 28} * (shape.view_height / 28));
    ++seen;
  }
  EXPECT_GE(seen, 20);
  EXPECT_GE(refused, 1);
}

// Of the published towers at 640x480, computed by hand: products of 5 views of 729 patches through 26 layers, and of
// 1564 patches through 32 layers, of which 4 see the whole picture and 28 windows of 64, 48, 16 and 12 patches.
TEST(vision, a_picture_costs_what_is_computed_by_hand) {
  const vision_config llada_v = parse(published()), dimple = parse_dimple(published_dimple());
  const auto flops = [](const vision_config& v, std::int32_t width) {
    return work_of_tower(v, width, shape_of_picture(v, v.preset, 640, 480)).flops();
  };
  EXPECT_EQ(flops(llada_v, 4096), 3365711585280.0);
  EXPECT_EQ(flops(dimple, 3584), 2091188690944.0);
  EXPECT_EQ(
      cost_of_a_picture(llada_v, 4096),
      "a picture of 640x480 pixels takes 2929 positions of a prompt and 3.37 TFLOP of the tower");
  EXPECT_EQ(
      cost_of_a_picture(dimple, 3584),
      "a picture of 640x480 pixels takes 391 positions of a prompt and 2.09 TFLOP of the tower");
  EXPECT_EQ(cost_of_a_picture({}, 64), "");
}

TEST(vision, keys_of_dimple_that_are_not_read_so_are_refused_by_name) {
  const auto refused = [](const char* key, const json& value) {
    json config = published_dimple();
    config["vision_config"][key] = value;
    expect_environment_error([&] { parse_dimple(config); }, {std::string("vision_config.") + key});
  };
  refused("window_size", 100);
  refused("num_heads", 7);
  refused("temporal_patch_size", 3);
  refused("in_channels", 4);
  refused("hidden_act", "gelu");
  refused("fullatt_block_indexes", {32});
  refused("depth", 0);
}

TEST(vision, frequencies_of_a_section_and_of_one_that_begins_anew) {
  rope_params rope{16, 100.0F};
  const std::vector<float> all = rope_frequencies(rope);
  rope.first_pair = 2;
  rope.last_pair = 5;
  const std::vector<float> some = rope_frequencies(rope);
  ASSERT_EQ(some.size(), 8U);
  for (std::size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(some[i], i >= 2 && i < 5 ? all[i] : 0.0F) << i;
  }
  rope.restart = 8;  // 100^0, 100^(-2/8), 100^(-4/8)
  const std::vector<float> anew = rope_frequencies(rope);
  EXPECT_EQ(anew[2], 1.0F);
  EXPECT_FLOAT_EQ(anew[3], 0.31622776F);
  EXPECT_FLOAT_EQ(anew[4], 0.1F);
  EXPECT_EQ(anew[5], 0.0F);
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

// SDAR-VL with views of 2 x 2 patches.
vision_config small_sdar_vl() {
  const json config = {
      {"vision_config",
       {{"image_size", 28},
        {"patch_size", 14},
        {"hidden_size", 12},
        {"num_hidden_layers", 1},
        {"num_attention_heads", 2},
        {"intermediate_size", 16}}},
      {"vision_aspect_ratio", "anyres_max_2"},
      {"image_grid_pinpoints", {{28, 28}, {28, 56}, {56, 28}, {56, 56}, {28, 84}}}};
  const json_value root = parse_python_json(config.dump(), "some/config.json");
  return read_sdar_vl(json_reader(root, "some/config.json"));
}

// What a tower makes of random pixels has as many rows as are counted from the picture's size alone.
void expect_rows_of(const vision_config& v, const picture_tower& tower, std::int32_t least) {
  std::mt19937 rng(11);
  std::uniform_int_distribution<std::int32_t> side(least, 200);
  for (int i = 0; i < 25; ++i) {
    const picture_shape shape = shape_of_picture(v, v.preset, side(rng), side(rng));
    const tensor pixels =
        cpu_backend().allocate(dtype::u8, {shape.views(), shape.view_height, shape.view_width, 3});
    for (std::int64_t b = 0; b < pixels.view().elements(); ++b) {
      pixels.as<std::uint8_t>()[b] = static_cast<std::uint8_t>(rng());
    }
    const picture_tower::features f = tower(pixels, shape);
    EXPECT_EQ(f.rows.view().rows(), count_rows(v, shape))
        << v.family << " " << shape.width << "x" << shape.height;
    for (std::int64_t k = 0; k < f.rows.view().elements(); ++k) {
      ASSERT_TRUE(std::isfinite(f.rows.as<float>()[k]));
    }
  }
}

TEST(vision, rows_are_counted_as_the_towers_make_them) {
  for (const char* name : {"tiny-llada-v-s1", "tiny-dimple-s1"}) {
    const fs::path directory = goldens() / "models" / name;
    const model_config model = read_model_config(directory);
    const vision_config v = read_vision_config(directory, model.vocabulary);
    const loaded_vision loaded = load_vision_weights(model, directory);
    expect_rows_of(v, {v, loaded.weights, cpu_backend(), {loaded.memory}},
                   v.kind == vision_kind::qwen ? v.cell() : 1);
  }
  const vision_config v = small_sdar_vl();
  std::vector<tensor> kept;
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 0.3F);
  const vision_weights weights = collect_vision_weights(
      v, 10, [&](const std::string&, const std::vector<std::int64_t>& shape) {
        tensor_view w;
        w.rank = static_cast<int>(shape.size());
        std::ranges::copy(shape, w.shape.begin());
        w.row_stride = w.columns();
        kept.push_back(cpu_backend().allocate(dtype::f32, {w.elements()}));
        w.data = kept.back().view().data;
        for (std::int64_t i = 0; i < w.elements(); ++i) w.as<float>()[i] = normal(rng);
        return w;
      });
  expect_rows_of(v, {v, weights, cpu_backend(), {}}, 1);
}

// Heads with zeros up to 64 elements, multiplied by tensor cores: the rows of exact heads, but for keys and values
// rounded to bfloat16. What is counted does not change.
TEST(vision, widened_heads_give_the_rows_of_exact_ones) {
  const backend& device = cuda_emulated_backend();
  for (const char* name : {"tiny-llada-v-s1", "tiny-dimple-s1"}) {
    SCOPED_TRACE(name);
    const fs::path directory = goldens() / "models" / name;
    const model_config model = read_model_config(directory);
    const vision_config v = read_vision_config(directory, model.vocabulary);
    ASSERT_LT(v.hidden / v.heads, 64);
    const loaded_vision loaded = load_vision_weights(model, directory);
    const picture_shape shape = shape_of_picture(v, v.preset, 57, 90);
    std::vector<std::uint8_t> bytes(
        static_cast<std::size_t>(shape.views() * shape.view_height * shape.view_width * 3));
    std::mt19937 rng(5);
    for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(rng());
    const tensor_view pixels =
        make_view(bytes.data(), dtype::u8, {shape.views(), shape.view_height, shape.view_width, 3});
    const auto rows_with = [&](const char* way) {
      ::setenv("UNMASK_CUDA_TOWERS", way, 1);
      const picture_tower tower(v, loaded.weights, device, {loaded.memory});
      ::unsetenv("UNMASK_CUDA_TOWERS");
      const picture_tower::features f = tower(pixels, shape);
      std::vector<float> rows(static_cast<std::size_t>(f.rows.view().elements()));
      device.read(rows.data(), f.rows.view().data, f.rows.bytes());
      return std::pair(rows, tower.flops(shape));
    };
    const auto [exact, counted] = rows_with("exact");
    const auto [padded, counted_too] = rows_with("padded");
    EXPECT_EQ(counted_too, counted);
    EXPECT_NE(padded, exact);  // rounded, so tensor cores had them
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      difference += (padded[i] - exact[i]) * static_cast<double>(padded[i] - exact[i]);
      size += exact[i] * static_cast<double>(exact[i]);
    }
    EXPECT_LT(std::sqrt(difference / size), 0.02);
    expect_environment_error([&] { rows_with("wide"); }, {"UNMASK_CUDA_TOWERS", "wide"});
    ::unsetenv("UNMASK_CUDA_TOWERS");
  }
}

TEST(vision, windows_are_the_recorded_ones) {
  const vision_config v = read_vision_config(goldens() / "models/tiny-dimple-s1", 200);
  const json cases =
      json::parse(read_file(goldens() / "vision/tiny-dimple-s1.json", 1 << 24)).at("cases");
  int seen = 0, windows = 0;
  for (const json& c : cases) {
    if (c.contains("error")) continue;
    const window_plan plan =
        plan_windows(v, shape_of_picture(v, "own-size", c.at("size").at(0), c.at("size").at(1)));
    EXPECT_EQ(json(plan.cells), c.at("window_order")) << c.at("image");
    EXPECT_EQ(json(plan.counts), c.at("window_counts")) << c.at("image");
    windows = std::max(windows, static_cast<int>(plan.counts.size()));
    ++seen;
  }
  EXPECT_EQ(seen, 14);
  EXPECT_EQ(windows, 4);
}

TEST(vision, windows_partition_the_merged_patches) {
  vision_config v = read_vision_config(goldens() / "models/tiny-dimple-s1", 200);
  v.most_pixels = 1 << 20;
  std::mt19937 rng(5);
  std::uniform_int_distribution<std::int32_t> side(28, 900), window(1, 6);
  for (int i = 0; i < 200; ++i) {
    v.window = window(rng);
    const picture_shape shape = shape_of_picture(v, "own-size", side(rng), side(rng));
    const std::int32_t width = shape.view_width / v.cell();
    const window_plan plan = plan_windows(v, shape);
    ASSERT_EQ(std::ssize(plan.cells), count_rows(v, shape));
    std::vector<bool> there(plan.cells.size());
    std::size_t at = 0;
    for (const std::int32_t count : plan.counts) {
      ASSERT_TRUE(count > 0 && count <= v.window * v.window);
      const std::int32_t first = plan.cells[at];
      for (const std::size_t end = at + static_cast<std::size_t>(count); at < end; ++at) {
        const std::int32_t cell = plan.cells.at(at);
        EXPECT_EQ(cell / width / v.window, first / width / v.window);
        EXPECT_EQ(cell % width / v.window, first % width / v.window);
        ASSERT_FALSE(there.at(static_cast<std::size_t>(cell)));
        there[static_cast<std::size_t>(cell)] = true;
      }
    }
    EXPECT_EQ(at, plan.cells.size());
  }
}

TEST(vision, bytes_of_a_tower_are_those_of_its_tensors) {
  for (const char* name : {"tiny-llada-v-s1", "tiny-dimple-s1"}) {
    const fs::path from = goldens() / "models" / name;
    const model_config model = read_model_config(from);
    const vision_config v = read_vision_config(from, model.vocabulary);
    const json head =
        json::parse(safetensors_header(read_file(from / "model.safetensors", 1 << 24)));
    double elements = 0;
    for (const auto& [tensor, entry] : head.items()) {
      const bool of_tower = tensor.find("vision_tower") != std::string::npos ||
                            tensor.find("mm_projector") != std::string::npos ||
                            tensor == "model.image_newline" || tensor.starts_with("visual.") ||
                            tensor.starts_with("img_projector.");
      if (!of_tower || unused_by_tower(v, tensor)) continue;
      double of_one = 1;
      for (const json& n : entry.at("shape")) of_one *= n.get<double>();
      elements += of_one;
    }
    EXPECT_GT(elements, 10000);
    EXPECT_EQ(tower_bytes(v, model.hidden), 4 * elements) << name;
  }
}

// Each tensor of a tower missing, of another shape, with a NaN as its last value, or cut off.
TEST(vision, damaged_tensors_of_a_tower_are_named) {
  for (const char* name : {"tiny-llada-v-s1", "tiny-dimple-s1"}) {
    const fs::path from = goldens() / "models" / name;
    const scratch_folder folder;
    for (const char* file : {"config.json", "preprocessor_config.json"}) {
      if (fs::exists(from / file)) fs::copy_file(from / file, folder.path() / file);
    }
    const model_config model = read_model_config(from);
    const std::string whole = read_file(from / "model.safetensors", 1 << 24);
    const std::string data = whole.substr(safetensors_header(whole).size() + 8);
    const json head = json::parse(safetensors_header(whole));
    const fs::path file = folder.path() / "model.safetensors";
    const auto refused = [&](const json& with, const std::string& bytes,
                             const std::vector<std::string>& words) {
      std::string text = with.dump();
      text.append((8 - text.size() % 8) % 8, ' ');
      std::ofstream(file, std::ios::binary) << test::with_length(text, bytes);
      expect_environment_error([&] { load_vision_weights(model, folder.path()); }, words);
    };
    std::vector<std::string> tensors;
    collect_vision_weights(read_vision_config(from, model.vocabulary), model.hidden,
                           [&](const std::string& tensor, const std::vector<std::int64_t>&) {
                             tensors.push_back(tensor);
                             return tensor_view{};
                           });
    EXPECT_GT(tensors.size(), 50U);
    for (const std::string& tensor : tensors) {
      SCOPED_TRACE(tensor);
      const std::string quoted = "\"" + tensor + "\"";
      json other = head;
      other["of_nobody"] = head.at(tensor);
      other.erase(tensor);
      refused(other, data, {folder.path().string(), quoted + " is missing"});
      other = head;
      other[tensor]["shape"].push_back(1);
      refused(other, data, {file.string(), quoted});
      const auto end = head.at(tensor).at("data_offsets").at(1).get<std::size_t>();
      std::string bytes = data;
      bytes[end - 1] = '\x7F';  // float32 and bfloat16 end alike
      bytes[end - 2] = '\xC0';
      refused(head, bytes, {file.string(), quoted + " holds NaN or infinity"});
      refused(head, data.substr(0, end - 1), {file.string(), "truncated: tensor \""});
    }
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
