// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A loaded model that decodes for Python. Its numbers are made where those of `unmask run` are made.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/measure/execute_parts.h"

namespace unmask::python {

namespace nb = nanobind;

struct decode_order {
  std::vector<std::vector<std::int32_t>> prompts;
  std::string method, preset;  // method empty: the one that the model was made for
  parameter_map params;
  std::int64_t batch_size = 1, gen_length = 64, seed = 0;
  bool trace = false;
};

class python_model {
 public:
  // `run`: keys of [run] as texts, format = "bf16". threads 0: as many as the program takes.
  python_model(const std::string& where, const std::string& weights, int threads,
               const std::vector<std::string>& run);

  nb::dict decode(const decode_order& order);
  nb::object logits(const std::vector<std::int32_t>& ids);
  std::vector<std::vector<std::int32_t>> encode(const std::vector<std::string>& texts, bool chat,
                                                bool thinking);
  std::string text(const std::vector<std::int32_t>& tokens, bool special);
  nb::dict about() const;
  void close();

 private:
  const std::shared_ptr<loaded_model>& loaded() const;  // usage error once it is closed
  experiment_point point_of(const decode_order& order) const;
  std::shared_ptr<const loaded_workload> workload_of(const decode_order& order,
                                                     const experiment_point& point) const;

  experiment_point base_;
  int threads_;
  std::shared_ptr<loaded_model> model_;
  std::shared_ptr<step_time_store> times_ = std::make_shared<step_time_store>();
};

}  // namespace unmask::python
