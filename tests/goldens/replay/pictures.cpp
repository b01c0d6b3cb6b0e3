// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/goldens/replay/pictures.h"

#include <fmt/core.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/output.h"
#include "harness/measure/pictures/prepared.h"
#include "kernels/rows.h"
#include "kernels/shared_vector.h"

namespace unmask {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Absolute, of float32 against float32 of another summation order.
constexpr double tolerance = 1e-3;

struct seeing_model {
  vision_config config;
  std::unique_ptr<picture_tower> tower;
};

seeing_model& model_of(const fs::path& directory, const backend& backend) {
  static std::map<std::pair<fs::path, const unmask::backend*>, seeing_model> known;
  seeing_model& m = known[{directory, &backend}];
  if (m.tower) return m;
  const model_config model = read_model_config(directory);
  m.config = read_vision_config(directory, model.vocabulary);
  const loaded_vision loaded = load_vision_weights(model, directory);
  m.tower = std::make_unique<picture_tower>(m.config, loaded.weights, backend,
                                            std::vector{loaded.memory});
  return m;
}

prepared_picture prepared_of(const std::string& image, const std::string& preset,
                             const vision_config& vision, const golden_options& options) {
  const std::string hash =
      sha256_hex(read_file(options.directory / "images" / image, std::size_t{1} << 28));
  return read_prepared_picture(
      options.directory / "prepared" / prepared_file_name(vision, preset, hash), vision, preset,
      hash);
}

picture_tower::features features_of(const std::string& image, const std::string& preset,
                                    const golden_options& options, const fs::path& model) {
  const seeing_model& m = model_of(model, *options.backend);
  const prepared_picture picture = prepared_of(image, preset, m.config, options);
  return (*m.tower)(picture.pixels, picture.shape);
}

std::array<std::int32_t, 2> grid_of(const std::string& image, const vision_config& vision,
                                    const golden_options& options) {
  const picture_shape shape = prepared_of(image, vision.preset, vision, options).shape;
  return {shape.view_height / vision.cell(), shape.view_width / vision.cell()};
}

// Largest difference of recorded rows and of the sum of every row.
double worst(const json& record, const tensor_view& there, const backend& backend) {
  const std::int64_t rows = there.rows(), columns = there.columns();
  if (record.at("shape") != json({rows, columns})) return INFINITY;
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  backend.read(values.data(), there.data, values.size() * sizeof(float));
  const auto at = [&](std::int64_t r, std::size_t d) {
    return double{values[static_cast<std::size_t>(r * columns) + d]};
  };
  double largest = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(columns); ++d) sum += at(r, d);
    const double want = record.at("row_sums").at(static_cast<std::size_t>(r)).get<double>();
    largest = std::max(largest, std::abs(sum - want));
  }
  for (const auto& [name, row] : record.at("rows").items()) {
    for (std::size_t d = 0; d < row.size(); ++d) {
      largest = std::max(largest, std::abs(at(std::stoll(name), d) - row[d].get<double>()));
    }
  }
  return largest;
}

// "" where all that is recorded agrees.
std::string compare(const json& c, const picture_tower::features& f, const backend& backend) {
  std::string difference;
  const auto see = [&](const char* part, const tensor_view& got) {
    if (!c.contains(part)) return;
    const double d = worst(c.at(part), got, backend);
    if (!(d <= tolerance)) difference += fmt::format(" {} differs by {:.1e}", part, d);
  };
  see("tower", f.tower);
  see("projector", f.projected.view().first(f.tower.view().rows()));
  see("prompt_rows", f.rows);
  return difference;
}

}  // namespace

recorded_pictures pictures_of(const json& record, const golden_options& options,
                              const fs::path& model) {
  std::vector<std::string> images = record.value("images", std::vector<std::string>());
  if (record.contains("image")) images.push_back(record.at("image"));
  recorded_pictures shown;
  if (images.empty()) return shown;
  const vision_config vision = read_vision_config(model, read_model_config(model).vocabulary);
  if (!vision.has_tower()) return shown;  // of MMaDA the picture's tokens are in the prompt
  std::vector<tensor> parts;
  std::int64_t rows = 0;
  for (const std::string& image : images) {
    parts.push_back(features_of(image, vision.preset, options, model).rows);
    rows += parts.back().view().rows();
    shown.grids.push_back(grid_of(image, vision, options));
  }
  const backend& backend = *options.backend;
  shown.rows = backend.allocate(dtype::f32, {rows, parts[0].view().columns()});
  std::int64_t at = 0;
  for (const tensor& part : parts) {
    const std::int64_t n = part.view().rows();
    shared_vector<std::int32_t> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    backend.run(op::gather_rows{part, all.data(), shown.rows.view().slice(at, n)});
    backend.synchronize();  // the list ends here
    at += n;
  }
  return shown;
}

std::int32_t recorded_picture_row(const json& record) {
  return record.contains("images") ? 190 : -200;
}

std::vector<std::int32_t> with_picture_rows(std::vector<std::int32_t> ids, std::int32_t recorded) {
  std::int32_t next = -1;
  for (std::int32_t& id : ids) {
    if (id == recorded) id = next--;
  }
  return ids;
}

golden_summary replay_vision(const golden_options& options) {
  golden_summary sum;
  const fs::path folder = options.directory / "vision";
  if (!fs::is_directory(folder)) return sum;
  for (const fs::path& file : entries_of(folder)) {
    const json golden = json::parse(read_file(file, std::size_t{1} << 30));
    if (!golden.contains("cases") || !golden.at("cases").at(0).contains("projector")) continue;
    const fs::path model = options.directory / "models" / golden.at("model").get<std::string>();
    const seeing_model& m = model_of(model, *options.backend);
    for (const json& c : golden.at("cases")) {
      if (c.contains("error")) continue;
      const std::string image = c.at("image").get<std::string>();
      const std::string ratio = c.value("image_aspect_ratio", "");
      const std::string preset = ratio.empty()    ? m.config.preset
                                 : ratio == "pad" ? "pad"
                                                  : "squeeze";
      const std::string hash =
          sha256_hex(read_file(options.directory / "images" / image, std::size_t{1} << 28));
      if (!is_file(options.directory / "prepared" / prepared_file_name(m.config, preset, hash))) {
        ++sum.left_out;  // its bytes are compared, not its rows
        continue;
      }
      const std::string difference =
          compare(c, features_of(image, preset, options, model), *options.backend);
      (difference.empty() ? sum.passed : sum.failed)++;
      if (!options.quiet || !difference.empty()) {
        print("{} {} {} {}{}\n", difference.empty() ? "PASS" : "FAIL", model.filename().string(),
              image, preset, difference);
      }
    }
  }
  return sum;
}

}  // namespace unmask
