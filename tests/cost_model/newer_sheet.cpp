// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/cost_model/newer_sheet.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "tests/cost_model/bench_case.h"
#include "tests/cost_model/cost_kernels.h"

namespace unmask {
namespace {

// Microseconds of a case on the page of an H100 (results/gpu/measured.md); 0: it is not there.
double measured_of(const std::string& name) {
  std::ifstream page(std::string(UNMASK_SOURCE_DIR) + "/results/gpu/measured.md");
  const std::string begins = "| " + name + " | ";
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with(begins)) continue;
    double microseconds = 0;
    std::istringstream(line.substr(begins.size())) >> microseconds;
    return microseconds;
  }
  return 0;
}

// Microseconds of what a newer kernel does. measured, wanted: 0 is unknown, and nothing.
struct newer_line {
  std::string what;
  double measured = 0, before = 0, predicted = 0, wanted = 0;
};

newer_line line_of(const std::string& what, const std::string& name, double measured, double wanted,
                   const device_ceilings& d) {
  return {what, measured > 0 ? measured : measured_of(name),
          1e6 * cost::expected_of_case(name, d, false)->seconds,
          1e6 * cost::expected_of_case(name, d, true)->seconds, wanted};
}

void add_newer(text_table& t, const newer_line& line) {
  const auto text = [](double microseconds) {
    return microseconds > 0 ? fmt::format("{:.{}f}", microseconds, microseconds < 100 ? 1 : 0)
                            : std::string("–");
  };
  const double corrected =
      line.measured > 0 ? line.predicted * line.measured / line.before : line.predicted;
  const char* met = line.wanted == 0 ? "" : corrected <= line.wanted ? "met" : "NOT MET";
  t.add({line.what, text(line.measured), text(line.before), text(line.predicted), text(corrected),
         line.wanted > 0 ? "<= " + text(line.wanted) : "", met});
}

std::string attention_name(int sequences, int rows, int heads, int kv_heads, int dim, int keys) {
  return fmt::format("attention/sequences:{}/rows:{}/heads:{}/kv:{}/dim:{}/keys:{}/bits:16",
                     sequences, rows, heads, kv_heads, dim, keys);
}

void add_newer_attention(text_table& t, const device_ceilings& d) {
  const auto refresh = [&](const char* what, int dim, int keys, double wanted) {
    add_newer(t, line_of(what, attention_name(1, 8192, 32, 32, dim, keys), 0, wanted, d));
  };
  refresh("refresh of 8,192 rows, 32 heads of 128", 128, 8192, 1800);
  refresh("the same with 16,384 keys", 128, 16384, 0);
  refresh("refresh of 8,192 rows, 32 heads of 64", 64, 8192, 0);
  const auto one = [&](const char* what, int keys, double wanted) {
    add_newer(t, line_of(what, attention_name(1, 32, 32, 8, 128, keys), 0, wanted, d));
  };
  one("one sequence of 32 rows, 4,096 keys: a cluster", 4096, 16);
  one("the same with 512 keys", 512, 0);
  one("the same with 32,768 keys: tickets", 32768, 0);
}

void add_newer_products(text_table& t, const device_ceilings& d) {
  const auto early = [&](newer_line line) {
    line.what = "the same, starting early";
    line.predicted -= 1e6 * cost::early_saving(d);
    line.wanted = line.measured;
    add_newer(t, line);
  };
  // Measured: profile and tuning file of results/gpu. Output took 18 to 22.
  add_newer(t, line_of("gate, up and SwiGLU of SDAR-8B, 192 rows",
                       "gated_linear/rows:192/in:4096/hidden:12288", 86.4, 78, d));
  add_newer(t,
            line_of("the same, 32 rows", "gated_linear/rows:32/in:4096/hidden:12288", 80.9, 0, d));
  for (const auto& [what, in, measured] : {std::tuple{"down of SDAR-8B, 192 rows", 12288, 44.8},
                                           {"output of SDAR-8B, 192 rows", 4096, 20.0}}) {
    const newer_line line = line_of(what, fmt::format("linear/rows:192/in:{}/out:4096/bits:16", in),
                                    measured, measured, d);
    add_newer(t, line);
    early(line);
  }
}

// Layers of SDAR-8B: 32 sequences of six rows, as FOCUS keeps, and a block of one.
void add_newer_layers(text_table& t, const cost_shape& model, const device_ceilings& d) {
  const auto add = [&](const std::string& what, cost_step step, double less) {
    newer_line line{what};
    line.before = 1e6 * seconds_of_layer(model, step, d);
    step.newer = true;
    line.predicted = 1e6 * seconds_of_layer(model, step, d);
    line.wanted = line.before * (1 - less);
    add_newer(t, line);
  };
  cost_step few;
  few.sequences = 32;
  few.rows = 6;
  few.keys = 400;  // as the steps of cost_sheet.cpp
  few.candidates = 0;
  few.parts = false;
  add("layer of 192 rows; down and output by the library", few, 0.08);
  few.early = true;
  add("the same, starting early", few, 0.08);
  few.parts = true;
  add("the same with down and output by parts", few, 0.08);
  cost_step block;
  block.keys = 4096;
  block.candidates = 0;
  block.early = true;
  add("layer of one block of 32 rows, 4,096 keys", block, 0);
}

}  // namespace

text_table cost_newer(const std::filesystem::path& shapes, const device_ceilings& d) {
  text_table t{"µs", ">measured before", ">the model before", ">predicted", ">corrected", ">wanted",
               ""};
  t.title = fmt::format("Newer kernels · {}", d.name);
  add_newer_attention(t, d);
  // A share of the larger of two times: that of the products and that of the weights. 320 candidates do not fill the
  // tiles of the kernel that multiplies and folds.
  constexpr double rows = 512, width = 4096, tokens = 151936, share = 0.85;
  const double limit =
      std::max(2 * rows * width * tokens / d.products, 2 * width * tokens / d.read);
  add_newer(t, line_of("head of SDAR-8B, 512 rows",
                       "confidence/rows:512/width:4096/vocabulary:151936/bits:16", 0,
                       1e6 * limit / share, d));
  add_newer(t, line_of("the same, 320 rows: cuBLASLt and a fold",
                       "confidence/rows:320/width:4096/vocabulary:151936/bits:16", 0, 0, d));
  add_newer_products(t, d);
  add_newer(t, line_of("experts of LLaDA2.0-mini, 8,192 rows",
                       "experts/rows:8192/width:2048/hidden:512/experts:256/per_row:8/bits:16", 0,
                       1000, d));
  add_newer_layers(t, cost_shape_of(read_model_config(shapes / "sdar-8b")), d);
  // tests/methods/test_device_calls.cpp holds the calls of today.
  for (const auto& [what, before, now] : {std::tuple{"host's calls of a recorded step", 18, 13},
                                          {"host's calls of a FOCUS step", 35, 25}}) {
    const double each = 1e6 * d.launch;
    add_newer(t, {fmt::format("{}: {}, {} before", what, now, before), 0, before * each, now * each,
                  before * each - 20});
  }
  const auto bytes = [&](bool rows_fastest) {
    return 1e-9 *
           (cost::key_bytes(1, 8192, 8192, 32, 128, 128, d.multiprocessors, rows_fastest, d) +
            2 * 8192.0 * 32 * 128 * 2);
  };
  t.notes.push_back(fmt::format(
      "Predicted, not measured. Ceilings: {}: {}. Corrected: times what was measured before, over "
      "the model of it. Output took 18 to 22 µs. A layer is wanted 8 % faster, and a step 20 µs. A "
      "call takes the host {:.1f} "
      "µs, and 36 layers are recorded in one or three of them. Bytes of the refresh of 8,192 rows "
      "from device memory: {:.2f} GB, and {:.2f} GB if tiles of rows run fastest.",
      d.name, d.source, 1e6 * d.launch, bytes(false), bytes(true)));
  return t;
}

}  // namespace unmask
