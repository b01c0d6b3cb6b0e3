// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/step_program.h"

#include <algorithm>
#include <stdexcept>

namespace unmask {
namespace {

void refuse_contradictions(const recipe& method, bool evicts) {
  const auto refuse = [&](bool when, const char* what) {
    if (when) throw std::logic_error("step_program: " + method.method + " " + what);
  };
  const bool narrows = !method.rows->traits().narrows_at.empty();
  const bool partial = method.rows->traits().partial_rows;
  refuse(narrows && partial, "narrows its rows and passes a part of them");
  refuse(evicts && !method.cache->traits().evicts, "evicts and has not declared it");
  const bool views = method.rows->traits().views > 0;
  refuse(views != method.keys->traits().by_view, "lists views in its rows or its keys only");
  refuse(
      views && (narrows || partial || evicts || method.features || method.keys->traits().chooses),
      "lists views and does more inside its layers");
  refuse(method.features && (narrows || partial || evicts || method.keys->traits().chooses),
         "stores outputs of layers and does more inside them");
}

}  // namespace

bool is_on_host(step_action what) {
  return what == step_action::narrow || what == step_action::choose || what == step_action::show ||
         what == step_action::keep || what == step_action::feature_layer;
}

step_program::step_program(const recipe& method, std::int32_t layers, bool evicts, bool shows) {
  refuse_contradictions(method, evicts);
  const std::vector<std::int32_t>& narrows_at = method.rows->traits().narrows_at;
  const auto add = [this](step_action what, std::int32_t layer) {
    actions_.push_back({what, layer});
    capturable_ = capturable_ && (!is_on_host(what) || what == step_action::narrow);
  };
  add(step_action::embed, 0);
  for (std::int32_t l = 0; l < layers; ++l) {
    if (method.features && l >= method.features->settings().first_layer) {
      add(step_action::feature_layer, l);
      continue;
    }
    add(step_action::project, l);
    if (std::ranges::find(narrows_at, l) != narrows_at.end()) {
      add(step_action::narrow, l);
      add(step_action::gather, l);
    }
    if (method.keys->traits().chooses) add(step_action::choose, l);
    if (shows) add(step_action::show, l);
    add(step_action::attend, l);
    if (evicts) add(step_action::keep, l);
    add(step_action::close, l);
  }
  add(step_action::final_norm, layers);
  capturable_ = capturable_ && !method.rows->traits().partial_rows;

  const std::span<const layer_action> all(actions_);
  std::size_t first = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool last = i + 1 == all.size();
    if (!last && !is_on_host(all[i].what) && !is_on_host(all[i + 1].what)) continue;
    segments_.push_back(all.subspan(first, i + 1 - first));
    first = i + 1;
  }
}

const char* needs_activations(const recipe& method) {
  if (!method.rows->traits().narrows_at.empty()) return "its rows";
  if (method.keys->traits().chooses || method.cache->traits().evicts) return "its keys";
  return method.features ? "the rows of its layers" : nullptr;
}

}  // namespace unmask
