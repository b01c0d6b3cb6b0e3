// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A forward as the papers write it, made from what the policies of a recipe declare:
//   embed
//   for each layer l:   project l                        Q, K, V; K/V into the cache
//                       [narrow l, gather l]             rows.narrow(), where rows say so
//                       [choose l]                       keys.choose(), where keys say so
//                       [show l]                         for an observer of layers
//                       attend l                         keys.select(), attention
//                       [keep l]                         cache.after_attention(), where it evicts
//                       close l                          output projection, feed-forward
//              or       feature_layer l                  all of it for a part of the rows
//   final_norm
// The step loop issues the actions in this order (step_forward.cpp). Between two actions of the
// host lies a segment that only launches operations: it can be captured as a graph and replayed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/decode/policies.h"

namespace unmask {

enum class step_action : std::uint8_t {
  embed,
  project,
  narrow,
  gather,  // the activations of the rows that stayed
  choose,
  show,
  attend,
  keep,
  close,
  feature_layer,
  final_norm
};

struct layer_action {
  step_action what;
  std::int32_t layer;  // embed: 0, final_norm: the number of layers
  bool operator==(const layer_action&) const = default;
};

// Whether the host decides something in this action, so that it must wait for what came before.
bool is_on_host(step_action what);

class step_program {
 public:
  // evicts: cache.after_attention() is asked in this forward. shows: an observer sees the layers.
  // std::logic_error where the recipe declares what does not go together.
  step_program(const recipe& method, std::int32_t layers, bool evicts, bool shows);

  step_program& operator=(step_program&&) = delete;  // segments point into actions

  std::span<const layer_action> actions() const { return actions_; }
  // The actions cut where the host decides: each of those alone, and the runs between them.
  const std::vector<std::span<const layer_action>>& segments() const { return segments_; }
  // Segments are worth capturing: the host decides nothing but which rows stay, and every row goes
  // the same way, so that rows may be filled up with padding.
  bool is_capturable() const { return capturable_; }

 private:
  std::vector<layer_action> actions_;
  std::vector<std::span<const layer_action>> segments_;
  bool capturable_ = true;
};

// What of this recipe depends on activations, so that it cannot run without the model; null:
// nothing.
const char* needs_activations(const recipe& method);

}  // namespace unmask
