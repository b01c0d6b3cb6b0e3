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
  const auto see = [&](double got, double want) {
    const double d = std::abs(got - want);
    if (!(d <= largest)) largest = d;  // NaN counts as worst
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(columns); ++d) sum += at(r, d);
    see(sum, record.at("row_sums").at(static_cast<std::size_t>(r)).get<double>());
  }
  for (const auto& [name, row] : record.at("rows").items()) {
    const std::int64_t r = recorded_number(json::parse(name));
    if (r < 0 || r >= rows || std::ssize(row) != columns) {
      throw environment_error("`rows` holds a row that the tensor does not have");
    }
    for (std::size_t d = 0; d < row.size(); ++d) see(at(r, d), row[d].get<double>());
  }
  return largest;
}

// "" where all that is recorded agrees, and something is.
std::string compare(const json& c, const picture_tower::features& f, const backend& backend) {
  std::string difference;
  bool any = false;
  const auto see = [&](const char* part, const tensor_view& got) {
    if (!c.contains(part)) return;
    any = true;
    const double d = worst(c.at(part), got, backend);
    if (!(d <= tolerance)) difference += fmt::format(" {} differs by {:.1e}", part, d);
  };
  see("tower", f.tower);
  see("projector", f.projected.view().first(f.tower.view().rows()));
  see("prompt_rows", f.rows);
  return any ? difference : " no row is recorded";
}

std::string preset_of(const json& c, const vision_config& vision) {
  const std::string ratio = c.value("image_aspect_ratio", "");
  return ratio.empty() ? vision.preset : ratio == "pad" ? "pad" : "squeeze";
}

// Rows that the tower computes.
std::int64_t patches_of(const prepared_picture& picture, const vision_config& vision) {
  const picture_shape& s = picture.shape;
  return std::int64_t{s.views()} * (s.view_height / vision.patch) * (s.view_width / vision.patch);
}

// The cases of one file, shown to the tower of their model.
class vision_file {
 public:
  vision_file(const golden_options& options, fs::path model, golden_summary& sum)
      : options_(options),
        directory_(std::move(model)),
        model_(model_of(directory_, *options.backend)),
        sum_(sum) {}

  // A case that cannot be compared fails, and so does one whose prepared file is missing.
  void replay(const json& c) {
    std::string image = "?", preset = "?", difference;
    try {
      c.at("image").get_to(image);
      preset = preset_of(c, model_.config);
      const prepared_picture picture = prepared_of(image, preset, model_.config, options_);
      if ((options_.limit > 0 && taken_ == options_.limit) ||
          (options_.max_rows > 0 && patches_of(picture, model_.config) > options_.max_rows)) {
        ++sum_.left_out;
        return;
      }
      ++taken_;
      difference = compare(c, (*model_.tower)(picture.pixels, picture.shape), *options_.backend);
    } catch (const std::exception& problem) {
      difference = " cannot be compared: " + recording_problem(problem);
    }
    (difference.empty() ? sum_.passed : sum_.failed)++;
    if (options_.quiet && difference.empty()) return;
    print("{} {} {} {}{}\n", difference.empty() ? "PASS" : "FAIL", directory_.filename().string(),
          image, preset, difference);
  }

 private:
  const golden_options& options_;
  fs::path directory_;
  const seeing_model& model_;
  golden_summary& sum_;
  int taken_ = 0;
};

void replay_file(const fs::path& file, const golden_options& options, golden_summary& sum) {
  const json golden = json::parse(read_file(file, std::size_t{1} << 30));
  if (golden.contains("sizes")) return;  // geometry of the published models, without a tower
  const fs::path model = options.directory / "models" / golden.at("model").get<std::string>();
  // MMaDA's pictures are codes, and the encoder that makes them is not read.
  if (!read_vision_config(model, read_model_config(model).vocabulary).has_tower()) return;
  vision_file cases(options, model, sum);
  for (const json& c : golden.at("cases")) {
    if (!c.contains("error")) cases.replay(c);  // the official code refuses the picture
  }
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
    try {
      replay_file(file, options, sum);
    } catch (const std::exception& problem) {
      ++sum.failed;
      print("FAIL {}  no pictures that can be compared: {}\n", file.string(),
            recording_problem(problem));
    }
  }
  return sum;
}

}  // namespace unmask
