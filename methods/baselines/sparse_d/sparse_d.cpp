// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// SparseD (Wang et al., 2025): whole-canvas decoding whose attention, after the first steps, reads
// only the tiles that a pattern per layer and head has kept.
#include <cmath>

#include "methods/baselines/sparse_d/pattern_keys.h"
#include "methods/parts/canvas_recipe.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

// The official code divides the logits that choose the pattern by sqrt(number of heads) in LLaDA
// and by sqrt(head_dim) in Dream.
float pattern_scale(const model_config& model, const std::string& choice) {
  const bool by_heads =
      choice == "heads" || (choice == "official" && model.family == model_family::llada);
  return 1.0F / std::sqrt(static_cast<float>(by_heads ? model.heads : model.head_dim));
}

method_info sparse_d_info() {
  method_info m;
  m.name = "sparse_d";
  m.summary = "decoding of the whole response with a fixed sparse attention pattern per head";
  m.paper = "SparseD: Sparse Attention for Diffusion Language Models (Wang et al., 2025)";
  m.source = "methods/baselines/sparse_d";
  m.pace = "block schedule (LLaDA) or time schedule (Dream)";
  m.rows = "prompt and whole response";
  m.keys = "all, then a pattern of key blocks per layer, head and query block";
  m.cache = "none";
  m.unmask = "as vanilla";
  const std::string source = "SparseD_utils.py, modeling_llada.py, modeling_dream.py";
  m.knobs = {{"select", "keys_hidden", "1"}};
  m.parameters = canvas_parameters();
  append(
      m.parameters,
      {real_spec("skip", 0.2, 0, 1,
                 "share of the steps with dense attention; steps up to int(steps x skip) + 1 are "
                 "dense, 1: all",
                 source),
       real_spec("select", 0.3, 0, 1,
                 "share of key blocks kept: int(blocks x select) + 1, at most all", source),
       integer_spec("block_size", 32, 1, 65536,
                    "positions per query block and key block of the pattern", source),
       choice_spec(
           "pattern_scale", {"official", "heads", "head_dim"},
           "square root that divides the logits which choose the pattern: of the head "
           "dimension, of the number of heads, or official: heads for LLaDA, head dimension "
           "for other families",
           source)});
  // The settings other papers compare with at long contexts, and the authors' for short ones.
  m.presets["paper"] = {{"skip", 0.2}, {"select", 0.3}, {"block_size", 128}};
  m.presets["paper-short"] = {{"skip", 0.2}, {"select", 0.5}, {"block_size", 32}};
  m.check = [](const model_config& model, const parameters& p) {
    check_canvas("sparse_d", model, p);
  };
  m.make = [](const model_config& model, const parameters& p) {
    recipe r = make_canvas("sparse_d", model, p);
    pattern_keys::settings s;
    s.skip = p.real("skip");
    s.select = p.real("select");
    s.block_size = static_cast<std::int32_t>(p.integer("block_size"));
    s.pattern_scale = pattern_scale(model, p.text("pattern_scale"));
    r.keys = std::make_unique<pattern_keys>(s, p);
    return r;
  };
  return m;
}

// SparseD models/{LLaDA/generate.py,Dream/generation_utils.py}: the logits that choose the pattern
// are divided by sqrt(heads) where Dream's code does so, by sqrt(head_dim) in LLaDA's.
parameter_map from_official(const parameter_map& recorded) {
  parameter_map m = whole_canvas_settings(recorded);
  m.merge(take(recorded, {"skip", "select", "block_size"}));
  const bool heads = says(recorded, "pattern_scale", "sqrt(n_heads)");
  m["pattern_scale"] = std::string(heads ? "heads" : "head_dim");
  return m;
}

const register_method registered(sparse_d_info(), {{"sparse_d", from_official}});

}  // namespace
}  // namespace unmask
