// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/cost_model/bench_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

#include "kernels/cuda/head_chunks.h"
#include "tests/cost_model/cost_kernels.h"

namespace unmask::cost {
namespace {

struct bench_case {
  std::string operation;
  std::map<std::string, double> of;
  double operator()(const char* name) const { return of.at(name); }
};

bench_case parse(std::string name) {
  for (const std::string prefix : {"cuda_", "emulated_"}) {
    if (name.rfind(prefix, 0) == 0) name.erase(0, prefix.size());
  }
  bench_case c;
  std::istringstream words(name);
  for (std::string word; std::getline(words, word, '/');) {
    const auto colon = word.find(':');
    if (c.operation.empty()) {
      c.operation = word;
    } else if (colon != std::string::npos) {
      c.of[word.substr(0, colon)] = std::strtod(word.c_str() + colon + 1, nullptr);
    }
  }
  return c;
}

std::vector<launch> attention_launches(const bench_case& c, const device_ceilings& d, bool newer) {
  double splits = 1;
  const int heads = static_cast<int>(c("heads")), kv_heads = static_cast<int>(c("kv")),
            dim = static_cast<int>(c("dim"));
  const attention_way way =
      way_of_attention(newer, c("sequences"), c("rows"), c("keys"), heads, kv_heads, dim, d);
  const launch attention =
      attention_by(way, c("sequences"), c("rows"), c("keys"), heads, kv_heads, dim, &splits, d);
  if (way == attention_way::cluster) return {attention};
  const launch plan = streaming(c("sequences") * 32, 0, d);
  if (way == attention_way::joined) return {plan, attention};
  return {plan, attention,
          attention_merge(c("sequences") * c("rows"), c("heads"), c("dim"), splits, d)};
}

// The candidates' rows are gathered, and states of slices are merged.
std::vector<launch> head_launches(const bench_case& c, const device_ceilings& d, bool newer) {
  const double rows = c("rows"), width = c("width"), tokens = c("vocabulary");
  std::vector<launch> all = {streaming(4 * rows * width, 0, d)};
  if (newer && takes_head_product(rows, d)) {
    all.push_back(head_product(rows, tokens, width, d));
    all.push_back(head_tiles_merge(rows, tokens, d));
    return all;
  }
  for (const head_part& part : head_parts(rows, tokens, d)) {
    const launch product = library_product(part.rows, part.tokens, width, 4, false, d),
                 fold = head_fold(part.rows, part.tokens, newer, d);
    for (int i = 0; i < std::lround(part.times); ++i) all.insert(all.end(), {product, fold});
  }
  all.push_back(streaming(rows * (std::ceil(tokens / cuda::head_slice) * 56 + 64), 0, d));
  return all;
}

std::vector<launch> expert_launches(const bench_case& c, const device_ceilings& d, bool newer) {
  const double rows = c("rows"), width = c("width"), per = c("per_row");
  const auto product = [&](double out, double in, bool gated) {
    return grouped_tensor(rows, per, c("experts"), 0, out, in, gated, d, newer);
  };
  std::vector<launch> all = {streaming(rows * per * 8, 0, d), product(c("hidden"), width, true),
                             product(width, c("hidden"), false),
                             streaming(rows * width * (per * 2 + 8), 0, d)};
  // One block plans 1024 assignments; of more they are counted and placed.
  if (rows * per > 1024) all.insert(all.begin(), 2, streaming(rows * per * 8, 0, d));
  return all;
}

// bfloat16 rows, and where one kernel computes all, no pair.
std::vector<launch> gated_launches(const bench_case& c, const device_ceilings& d, bool newer) {
  const double rows = c("rows"), width = c("in"), hidden = c("hidden");
  if (newer && takes_gated(rows, hidden, d)) return {few_rows_product(rows, hidden, width, d)};
  return {library_product(rows, 2 * hidden, width, 2, false, d),
          streaming(6 * rows * hidden, 0, d)};
}

// What goes up is written anew; what comes down is added to the residual stream, in float32.
launch product_launch(const bench_case& c, const device_ceilings& d, bool newer) {
  const double rows = c("rows"), width = c("in"), columns = c("out");
  const bool adds = columns <= width;
  if (newer && adds && takes_parts(rows, columns, width, d)) {
    return few_parts_product(rows, columns, width, true, d);
  }
  return library_product(rows, columns, width, adds ? 4 : 2, adds, d);
}

// The launches of a call; empty: the model knows no such kernel.
std::vector<launch> launches_of(const bench_case& c, const device_ceilings& d, bool newer) {
  if (c.operation == "attention") return attention_launches(c, d, newer);
  if (c.operation == "confidence") return head_launches(c, d, newer);
  if (c.operation == "experts") return expert_launches(c, d, newer);
  if (c.operation == "gated_linear") return gated_launches(c, d, newer);
  if (c.operation == "linear") return {product_launch(c, d, newer)};
  // float32 in, bfloat16 out; two parts of bfloat16 in, one out.
  if (c.operation == "rms_norm") return {streaming(6 * c("rows") * c("width"), 0, d)};
  if (c.operation == "silu_mul") return {streaming(6 * c("rows") * c("hidden"), 0, d)};
  if (c.operation == "rotate_and_store") {
    return {rotation(c("rows"), c("heads"), c("kv"), c("dim"), d)};
  }
  return {};
}

}  // namespace

std::optional<expected_case> expected_of_case(const std::string& name, const device_ceilings& d,
                                              bool newer) {
  const bench_case c = parse(name);
  if (c.of.contains("bits") && c("bits") != 16) return std::nullopt;
  const std::vector<launch> all = launches_of(c, d, newer);
  if (all.empty()) return std::nullopt;
  expected_case e;
  double longest = 0;
  for (const launch& l : all) {
    e.seconds += std::max(l.busy, d.shortest) + d.gap;
    if (l.busy < longest) continue;
    longest = l.busy;
    e.held_by = l.busy < d.shortest ? "start" : l.held_by;
  }
  // The host is a launch ahead, or it is not.
  const double host = static_cast<double>(all.size()) * d.launch;
  if (host > e.seconds) e = {host, "host"};
  return e;
}

}  // namespace unmask::cost
