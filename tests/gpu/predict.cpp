// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the cost model expects of the cases that unmask_bench measures, for the page that holds one
// against the other:
//
//   unmask_predict CARD [PRODUCTS COPY] < NAMES        h100, h200, a100, ...; FLOP/s and bytes/s as measured
//
// NAMES: one case a line, as --benchmark_list_tests prints them. One JSON object a line: name,
// seconds, held_by. Cases that the model has no kernel for are left out.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "harness/base/error.h"
#include "tests/cost_model/cost_kernels.h"

namespace unmask {
namespace {

struct bench_case {
  std::string operation;
  std::map<std::string, double> of;
  double operator()(const char* name) const { return of.at(name); }
};

// "cuda_attention/sequences:64/rows:32/...": the operation and its arguments.
bench_case parse(const std::string& line) {
  bench_case c;
  std::istringstream words(line);
  for (std::string word; std::getline(words, word, '/');) {
    const auto colon = word.find(':');
    if (c.operation.empty()) {
      c.operation = word.substr(word.find('_') + 1);
    } else if (colon != std::string::npos) {
      c.of[word.substr(0, colon)] = std::strtod(word.c_str() + colon + 1, nullptr);
    }
  }
  return c;
}

// False: the model knows no such kernel, or not in this type.
bool expect(const bench_case& c, const device_ceilings& d, double& seconds, std::string& held_by) {
  if (c.of.contains("bits") && c("bits") != 16) return false;
  cost::launch l;
  double starts = 1;
  if (c.operation == "attention") {
    double splits = 1;
    l = cost::attention_tensor(c("sequences"), c("rows"), c("keys"), static_cast<int>(c("heads")),
                               static_cast<int>(c("kv")), static_cast<int>(c("dim")), &splits, d);
  } else if (c.operation == "linear") {
    const bool adds = c("out") <= c("in");  // to the residual stream, in float32
    l = cost::library_product(c("rows"), c("out"), c("in"), adds ? 4 : 2, adds, d);
  } else if (c.operation == "experts") {
    const auto product = [&](double out, double in, bool gated) {
      return cost::grouped_tensor(c("rows"), c("per_row"), c("experts"), 0, out, in, gated, d);
    };
    const cost::launch up = product(c("hidden"), c("width"), true);
    l = product(c("width"), c("hidden"), false);
    l.busy += up.busy;
    starts = 2;
  } else if (c.operation == "rms_norm") {
    l = cost::streaming(6 * c("rows") * c("width"), 0, d);  // float32 in, bfloat16 out
  } else if (c.operation == "silu_mul") {
    l = cost::streaming(6 * c("rows") * c("hidden"), 0, d);
  } else if (c.operation == "rotate_and_store") {
    l = cost::streaming(c("rows") * c("dim") * (8 * c("heads") + 12 * c("kv")), 0, d);
  } else {
    return false;
  }
  seconds = std::max(l.busy, d.shortest) + starts * d.gap;
  held_by = l.held_by;
  return true;
}

int run(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    throw usage_error("usage: unmask_predict CARD [PRODUCTS COPY] < NAMES");
  }
  device_ceilings d = ceilings_of(argv[1]);
  if (argc == 4)
    d = measured_ceilings(d, std::strtod(argv[2], nullptr), std::strtod(argv[3], nullptr));
  for (std::string line; std::getline(std::cin, line);) {
    double seconds = 0;
    std::string held_by;
    if (line.empty() || !expect(parse(line), d, seconds, held_by)) continue;
    std::printf("{\"name\":\"%s\",\"seconds\":%.6g,\"held_by\":\"%s\",\"ceilings\":\"%s\"}\n",
                line.c_str(), seconds, held_by.c_str(), d.name.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace unmask

int unmask_predict_main(int argc, char** argv) {
  try {
    return unmask::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "unmask_predict: %s\n", failure.what());
    return 2;
  }
}
