// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A point of kind "decode": a closed batch of every item of the workload, there at the start, whose
// prompts enter in the forwards of the others. Its probes watch a pass of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/measure/loaded_point.h"
#include "harness/measure/probe.h"

namespace unmask {

class decode_point final : public loaded_point {
 public:
  decode_point(const experiment_point& point, std::shared_ptr<const loaded_model> model,
               std::shared_ptr<const loaded_workload> workload,
               std::shared_ptr<step_time_store> times);

  std::int32_t rows() const override;
  pass_record pass() override;
  // The same with an observer of its steps. If the pass throws, `finished` gets the answers that were
  // complete by then. Both may be null.
  pass_record pass(step_observer* observer, std::vector<answer_record>* finished);
  bool probe(const probe_settings& settings, std::ostream& out) override;

 private:
  std::vector<answer_record> answers_of(const served_run& done) const;
  // Answers what the probes may ask about these requests.
  probe_source source_of(const std::vector<sequence_request>& requests);
};

}  // namespace unmask
