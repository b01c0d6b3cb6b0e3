// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the cost model expects of the cases that unmask_bench measures, for the page that holds one
// against the other:
//
//   unmask_predict CARD [PRODUCTS COPY [READ]] < NAMES   h100, h200, a100, ...; FLOP/s and bytes/s as
//                                                        measured
//
// NAMES: one case a line, as --benchmark_list_tests prints them. One JSON object a line: name,
// seconds, held_by. Cases that the model has no kernel for are left out.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "harness/base/error.h"
#include "tests/cost_model/bench_case.h"
#include "tests/cost_model/cost_model.h"

namespace unmask {
namespace {

int run(int argc, char** argv) {
  if (argc != 2 && argc != 4 && argc != 5) {
    throw usage_error("usage: unmask_predict CARD [PRODUCTS COPY [READ]] < NAMES");
  }
  device_ceilings d = ceilings_of(argv[1]);
  if (argc >= 4) {
    d = measured_ceilings(d, std::strtod(argv[2], nullptr), std::strtod(argv[3], nullptr),
                          argc == 5 ? std::strtod(argv[4], nullptr) : 0);
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto expected = line.empty() ? std::nullopt : cost::expected_of_case(line, d);
    if (!expected) continue;
    std::printf("{\"name\":\"%s\",\"seconds\":%.6g,\"held_by\":\"%s\",\"ceilings\":\"%s\"}\n",
                line.c_str(), expected->seconds, expected->held_by.c_str(), d.name.c_str());
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
