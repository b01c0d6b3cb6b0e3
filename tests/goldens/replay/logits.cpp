// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/output.h"
#include "harness/decode/plain_forward.h"
#include "tests/goldens/replay/pictures.h"
#include "tests/goldens/replay/replay.h"

namespace unmask {
namespace {

using nlohmann::json;

// Relative to the row's largest logit: fp32 against fp32 of another summation order.
constexpr double tolerance = 1e-4;

mask_kind mask_of(const std::string& kind) {
  if (kind == "bidirectional") return mask_kind::full;
  if (kind == "causal") return mask_kind::causal;
  if (kind == "block_causal") return mask_kind::block_causal;
  throw environment_error("golden logits: unknown attention kind '" + kind + "'");
}

struct worst {
  double difference = 0;
  std::string where;
  void see(double got, double want, double scale, const std::string& at) {
    const double d = std::abs(got - want) / scale;
    if (!(d <= difference)) {  // NaN counts as worst
      difference = d;
      where = at;
    }
  }
};

worst compare_case(const json& c, const tensor& logits) {
  worst w;
  for (const json& p : c.at("positions")) {
    const std::int32_t pos = recorded_number(p.at("pos"));
    if (pos < 0 || pos >= logits.view().rows())
      throw environment_error("`pos` is outside the input");
    const float* row = logits.row<float>(pos);
    double scale = 1;
    for (const json& t : p.at("top16")) scale = std::max(scale, std::abs(t.at(1).get<double>()));
    for (const char* list : {"top16", "fixed"}) {
      for (const json& t : p.at(list)) {
        const std::int32_t token = recorded_number(t.at(0));
        if (token < 0 || token >= logits.view().columns()) {
          throw environment_error("a token is outside the vocabulary");
        }
        w.see(row[token], t.at(1).get<double>(), scale,
              fmt::format("position {} token {}", pos, token));
      }
    }
    double sum = 0;
    const float top = *std::max_element(row, row + logits.view().columns());
    for (std::int64_t v = 0; v < logits.view().columns(); ++v)
      sum += std::exp(double{row[v]} - top);
    w.see(top + std::log(sum), p.at("logsumexp").get<double>(), scale,
          fmt::format("position {} logsumexp", pos));
    if (recorded_number(p.at("top16").at(0).at(0)) !=
        std::max_element(row, row + logits.view().columns()) - row) {
      w.see(1, 0, 1e-9, fmt::format("position {} arg-max", pos));
    }
  }
  if (c.contains("full_logits")) {
    std::int64_t r = 0;
    for (const json& expected : c.at("full_logits")) {
      if (r >= logits.view().rows() ||
          static_cast<std::int64_t>(expected.size()) > logits.view().columns()) {
        throw environment_error("`full_logits` is larger than the logits");
      }
      for (std::size_t v = 0; v < expected.size(); ++v) {
        w.see(logits.row<float>(r)[v], expected.at(v).get<double>(), 1,
              fmt::format("full logits row {} token {}", r, v));
      }
      ++r;
    }
  }
  return w;
}

}  // namespace

golden_summary replay_logits(const golden_options& options) {
  golden_summary sum;
  const std::filesystem::path folder = options.directory / "logits";
  if (!std::filesystem::is_directory(folder)) {
    throw environment_error("no golden logits: " + folder.string() + " is not a directory");
  }
  for (const std::filesystem::path& file : entries_of(folder)) try {
      const json golden = json::parse(read_file(file, std::size_t{1} << 30));
      const std::filesystem::path directory =
          options.directory / "models" / golden.at("model").get<std::string>();
      const model_config config = read_model_config(directory);
      if (!can_be_dealt(config, options.share)) {
        sum.left_out += static_cast<int>(golden.at("cases").size());
        continue;
      }
      std::int32_t longest = 0;
      for (const json& c : golden.at("cases")) {
        longest = std::max(longest, static_cast<std::int32_t>(c.at("input_ids").size()));
      }
      const transformer model(config, load_weights(config, directory, true, text_alone),
                              *options.backend, weight_format::f32, longest, dtype::f32,
                              options.share);
      int taken = 0;
      for (const json& c : golden.at("cases")) {
        const auto length = static_cast<std::int64_t>(c.at("input_ids").size());
        if ((options.limit > 0 && taken == options.limit) ||
            (options.max_rows > 0 && length > options.max_rows)) {
          ++sum.left_out;
          continue;
        }
        ++taken;
        const json& attention = c.at("attention");
        const recorded_pictures shown = pictures_of(c, options, directory);
        const tensor logits = plain_forward(
            model, with_picture_rows(recorded_numbers(c.at("input_ids")), recorded_picture_row(c)),
            mask_of(attention.at("kind")),
            attention.at("kind") == "block_causal" ? recorded_number(attention.at("block_size"))
                                                   : 1,
            shown.view(), shown.grids);
        const worst w = compare_case(c, logits);
        const bool good = w.difference <= tolerance;
        (good ? sum.passed : sum.failed)++;
        if (!options.quiet || !good) {
          print("{} {}  largest relative difference {:.1e}{}\n", good ? "PASS" : "FAIL",
                c.at("id").get<std::string>(), w.difference, good ? "" : " at " + w.where);
        }
      }
    } catch (const std::exception& problem) {
      ++sum.failed;
      print("FAIL {}  no logits that can be compared: {}\n", file.string(),
            recording_problem(problem));
    }
  return sum;
}

}  // namespace unmask
