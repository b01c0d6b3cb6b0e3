// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How long a step of the CUDA backend should take on a GPU that is not here, kernel by kernel, from
// what the kernels do: bytes and launches as the emulator counts them (tests hold both together),
// operations, tile sizes and the instructions of inner loops. Two times stand side by side:
//   limit    of the weights, keys and values, and products that this step cannot avoid:
//            sum over products and attention of max(FLOP / products, bytes / read)
//   seconds  of the launches that the code makes: the same, and every other byte that a kernel
//            moves, tiles that are filled in part, waves of blocks, starts, and host waits
// It is a prediction for bfloat16 weights, keys and values. cost_model_test holds it against 43 cases that
// an H100 took (results/gpu/measured.md). The limit is the same as there. Hours of plans come from a coarser roofline (harness/plan/expected_time.h, which says how near), and the
// virtual clock of serving from times that were measured or stated (harness/engine/clock.h).
#pragma once

#include <string>
#include <vector>

#include "harness/devices/ceilings.h"
#include "harness/model/config.h"

namespace unmask {

// Sizes of a model, named as in model_config.
struct cost_shape {
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int feed_forward = 0;  // of a dense layer
  int vocabulary = 0;
  int ranks = 1;  // that share the model: heads, kv_heads and widths are those of one
  struct {
    int experts = 0;  // 0: every layer is dense
    int experts_per_token = 0, hidden = 0, shared_experts = 0, first_dense_layers = 0;
  } moe;
};

// Of the rank that holds most (plan/expected_time.h: largest_share).
cost_shape cost_shape_of(const model_config& model, int ranks = 1);

// One forward of a batch and its decisions. Means; a batch need not be even.
struct cost_step {
  double sequences = 1;
  double rows = 32;        // of a sequence, in the layers before late_from
  double late_rows = 0;    // and from there on; 0: as many
  int late_from = 0;       // first layer with late_rows (its attention sees them)
  double keys = 512;       // that a row attends to
  double candidates = 16;  // of a sequence: rows whose logits are looked at; 0: no head
  double ranked = 0;  // masked rows of a sequence that are ranked before late_from (op::importance)
  // A method adds these to the whole step: small kernels, and times that the host waits.
  double launches = 0, waits = 2;
  double bus_bytes = 0;  // that kernels read or write in memory of the host
  bool recorded = true;  // as CUDA graphs, where the backend records
  // Kernels that no card has measured, where the backend would choose them; early: those that may start before the
  // launch before has ended do. parts: products into the residual stream by parts of k are among them.
  bool newer = false, early = false, parts = true;
};

// All launches of one kernel in a step.
struct kernel_cost {
  std::string kernel;
  double launches = 0;
  double operations = 0, bytes = 0;
  double seconds = 0;
  double limit = 0;
  const char* held_by = "";  // products, memory, issue, shared memory, start, host
};

// Declared ceilings with what was measured on the device itself: FLOP/s of products, bytes/s of a copy and
// of reads alone. Zero keeps the declared one; reads alone without a figure of their own follow the copy.
device_ceilings measured_ceilings(device_ceilings declared, double products, double copy,
                                  double read = 0);

struct step_cost {
  std::vector<kernel_cost> kernels;  // in the order of the step
  double seconds = 0, limit = 0;
  double share() const { return seconds > 0 ? limit / seconds : 0; }
  double launches() const;
  const kernel_cost& of(const std::string& kernel) const;  // std::logic_error: there is none
  double seconds_of_sums() const;  // over ranks: of what moves, and of the kernel that adds
};
step_cost cost_of_step(const cost_shape& model, const cost_step& step,
                       const device_ceilings& device);

// Seconds of one layer of a step, in the middle of many.
double seconds_of_layer(const cost_shape& model, const cost_step& step,
                        const device_ceilings& device);

// Attention alone, for the goals of refreshes: FLOP/s of `rows` rows a sequence on `keys` keys.
kernel_cost cost_of_attention(const cost_shape& model, double sequences, double rows, double keys,
                              const device_ceilings& device);

}  // namespace unmask
