// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The sequences of a batch: their tokens and token states in backend tensors, and the small
// integers about each that the host needs to schedule.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "harness/decode/counters.h"
#include "harness/model/config.h"
#include "kernels/backend.h"
#include "kernels/token_state.h"

namespace unmask {

enum class forward_kind : std::uint8_t {
  prefill,  // the prompt enters the cache
  denoise,  // masked positions may be unmasked
  commit    // unmasked tokens are computed once more, so that their KV is exact
};
const char* name_of(forward_kind p);

// What one sequence asks for. Lengths in tokens.
struct sequence_request {
  std::vector<std::int32_t> prompt;
  std::int32_t gen_length = 0;
  std::uint64_t seed = 0;  // of sampling and remasking noise
  // Replays only: the draws of random remasking, one vector per block over all positions; empty:
  // drawn from the seed.
  std::vector<std::vector<float>> recorded_uniforms;
  std::int64_t id = -1;  // the caller's own number; nothing is computed from it
  // Tokens at the end of the prompt that were generated before this request was interrupted.
  std::int32_t resumed = 0;
  // Rows and columns of each picture that the prompt shows, for a model with axes (model_config).
  std::vector<std::array<std::int32_t, 2>> grids = {};
};

// One sequence of the batch. `canvas` columns [0, length) are prompt ++ generated positions.
struct sequence {
  sequence_request request;
  std::int32_t prompt_length = 0;
  std::int32_t length = 0;  // prompt and canvas, as the pace laid it out
  bool finished = false;
  std::int32_t output_end = 0;  // absolute end of the answer, set when finished
  std::int32_t step = 0;        // forwards made so far: coordinate of the noise streams
  // A number, from 1, that no other request of this batch has. A policy that keeps something for a
  // batch slot compares it, to see whether the slot has another request now.
  std::int64_t serial = 0;
  sequence_counters counters;
};

class batch {
 public:
  // Room for `capacity` sequences of up to `max_length` positions each.
  batch(const unmask::backend& backend, const model_config& model, std::int32_t capacity,
        std::int32_t max_length);

  const unmask::backend& backend() const { return *backend_; }
  const model_config& model() const { return *model_; }
  std::int32_t capacity() const { return capacity_; }
  std::int32_t max_length() const { return max_length_; }

  // Puts a request into batch slot s: its prompt, then masks up to `length` (a model without a mask
  // token gets EOS instead). Throws a usage error if it does not fit.
  void admit(std::int32_t s, const sequence_request& request, std::int32_t length);
  void clear(std::int32_t s);

  bool occupied(std::int32_t s) const { return occupied_[static_cast<std::size_t>(s)]; }
  sequence& at(std::int32_t s) { return sequences_[static_cast<std::size_t>(s)]; }
  const sequence& at(std::int32_t s) const { return sequences_[static_cast<std::size_t>(s)]; }

  // [capacity, max_length] int32 token ids; uint8 token_state.
  const tensor& canvas() const { return canvas_; }
  const tensor& state() const { return state_; }
  // The tokens of held decisions (kernels/decisions.h): [capacity, max_length] int32, -1 for a
  // position without one. It has no data unless keep_held_tokens() was called before the first
  // request.
  tensor_view held() const { return held_ ? held_.view() : tensor_view{}; }
  void keep_held_tokens();
  const std::uint64_t* seeds() const { return seed_.as<std::uint64_t>(); }  // [capacity]
  std::int32_t* steps() const { return step_.as<std::int32_t>(); }          // [capacity]
  // Number of positions in [first, last) of sequence s whose state is `want`.
  std::int32_t count(std::int32_t s, std::int32_t first, std::int32_t last,
                     std::uint8_t want) const;
  void set_state(std::int32_t s, std::int32_t first, std::int32_t last, std::uint8_t to);
  // Remasks a position between two steps, for a pace that asks for it: the position was unmasked as
  // the mask token, which the canvas keeps. It is counted as if a rule had remasked it.
  void reopen(std::int32_t s, std::int32_t position);
  void advance_step(std::int32_t s);
  // Runs an operation that scores keys or rows, and notes its FLOPs for each sequence: those of
  // flops_of_head(operation, s) times all heads of the model, also those of other ranks; or those
  // of flops_of(operation, s). The step loop counts them, so a method does not.
  template <class Operation>
  void score(const Operation& operation) const {
    backend_->run(operation);
    for (std::int32_t s = 0; s < capacity_; ++s) {
      double& scored = scored_[static_cast<std::size_t>(s)];
      if constexpr (requires { flops_of_head(operation, s); }) {
        scored += model_->heads * flops_of_head(operation, s);
      } else {
        scored += flops_of(operation, s);
      }
    }
  }
  // Returns the FLOPs that score() noted since the last call, [capacity].
  void take_scored(std::vector<double>& flops);
  // Returns the tokens of the positions: the held token if there is one, else that of the canvas.
  std::vector<std::int32_t> tokens(std::int32_t s, std::int32_t first, std::int32_t last) const;

 private:
  const unmask::backend* backend_;
  const model_config* model_;
  std::int32_t capacity_, max_length_;
  std::int64_t admitted_ = 0;
  tensor canvas_, state_, held_, seed_, step_;
  std::vector<sequence> sequences_;
  std::vector<bool> occupied_;
  mutable std::vector<double> scored_;  // FLOPs of score() for each batch slot
};

}  // namespace unmask
