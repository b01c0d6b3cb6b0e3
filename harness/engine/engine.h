// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The batching engine has a queue of requests, a policy that composes every forward pass, and a
// record of what happened when. README.md describes the policies and the source of each rule.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "harness/engine/batch_runner.h"
#include "harness/engine/clock.h"

namespace unmask {

enum class batching : std::uint8_t {
  iter,        // the batch may change after every forward pass; prefill and decode never mix
  lmd,         // LMDeploy: turns of several passes on a held batch
  block_sync,  // SGLang: the batch changes when every request has finished its block
  fdfo,        // SGLang, first done first out: a request leaves when its block is finished
  mixed        // as iter, but prompts enter passes that decode other requests
};
const std::vector<std::string>& batching_names();
batching parse_batching(const std::string& name);  // usage error with the nearest name
const char* name_of(batching policy);

struct engine_settings {
  batching policy = batching::iter;
  // The most prompt rows of one forward pass. The first request always enters. 0: no limit.
  std::int32_t prefill_tokens = 0;
  // Forward passes of one decode turn; 0: LMDeploy's rule for lmd, 1 for fdfo. Others ignore it.
  std::int32_t forwards_per_turn = 0;
  // True: pages are taken as needed, and if no page is free the newest request is preempted.
  // False: a request is admitted only with pages for its whole response.
  bool grow_pages = false;
  bool keep_on_preemption = true;         // a preempted request keeps its finished blocks
  const cost_model* predictor = nullptr;  // of iteration_record::predicted; may be null
};

// Returns the forward passes of one decode turn of LMDeploy v0.11: min(prefill_interval 16, 2 (64 /
// block)). This is 4 for blocks of 32, 16 for single tokens, and never more than the shape's turn.
std::int32_t lmdeploy_forwards(const pace_shape& shape);

struct request_order {
  double arrival = 0;                                       // seconds; orders are sorted by arrival
  double cancel = std::numeric_limits<double>::infinity();  // when the client gives up
  std::int32_t cancel_blocks = 0;                           // or after so many emissions; 0: never
};

enum class outcome : std::uint8_t {
  finished,
  cancelled,
  rejected  // does not fit, whatever leaves
};

struct emission {
  double time = 0;
  std::int32_t tokens = 0;  // of the answer so far
};

// One request, when it is over. Times are seconds of the engine's clock; NaN: it never happened.
struct request_record {
  std::size_t request = 0;
  outcome end = outcome::finished;
  double arrival = 0;
  double admitted, prefill_done, finish;
  double first_decided;  // end of the forward pass that unmasked its first token
  std::vector<emission> emissions;
  std::int32_t preemptions = 0;
  // The answer. If the request was cancelled, this is what was computed and is thrown away.
  finished_answer answer;
  request_record();
};

// One forward pass.
struct iteration_record {
  double time = 0;       // at its start
  double seconds = 0;    // its duration
  double predicted = 0;  // duration by engine_settings::predictor
  bool prefill = false;
  std::int32_t requests = 0;    // requests that take part
  std::int32_t recomputed = 0;  // requests whose rows are repeated only because the batch is held
  std::int64_t rows = 0, recomputed_rows = 0;
  std::int64_t candidates = 0, committed = 0;
  std::int32_t chosen = 0;  // tokens per request that the method chose; 0: it chooses none
  std::int64_t at_once =
      0;  // committed tokens of blocks that were unmasked completely in this pass
  std::int32_t commits = 0;  // requests that only wrote KV of unmasked tokens
  std::int32_t waiting = 0, free_pages = 0;
};

class engine_sink {
 public:
  virtual ~engine_sink() = default;
  virtual void on_request(request_record&& record) = 0;
  virtual void on_iteration(const iteration_record& iteration) { (void)iteration; }
};

struct engine_totals {
  double seconds = 0;  // of the clock, from 0 to the last finish
  std::int64_t forwards = 0, prefill_forwards = 0, preemptions = 0;
};

// Serves every order to its end. Every request reaches the sink exactly once, in the order in which
// requests end. The engine's memory is bounded by the requests in the system. It is a usage error
// if lmd gets longer turns than the method's shape allows.
engine_totals run_engine(batch_runner& runner, std::span<const request_order> orders,
                         const engine_settings& settings, engine_clock& clock, engine_sink& sink);

}  // namespace unmask
