// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The FOCUS recipe, its parameters and the presets of its published implementations.
#include "methods/baselines/specs.h"
#include "methods/focus/focus_rows.h"

namespace unmask {
namespace {

focus_selection selection_of(const std::string& name) {
  if (name == "top") return focus_selection::top;
  if (name == "bottom") return focus_selection::bottom;
  if (name == "random") return focus_selection::random;
  return focus_selection::dynamic;
}

average_scope scope_of(const std::string& name) {
  if (name == "block_carry") return average_scope::block_carry;
  return name == "request" ? average_scope::request : average_scope::block;
}

recipe make_focus(const model_config& model, const parameters& p) {
  block_settings s = block_settings_of("focus", model, p);
  focus_settings f;
  f.selection = selection_of(p.text("selection"));
  f.k = static_cast<std::int32_t>(p.integer("k"));
  f.alpha = static_cast<float>(p.real("alpha"));
  f.scope = scope_of(p.text("average_scope"));
  f.initial_k = static_cast<std::int32_t>(p.integer("initial_k"));
  f.count_empty = p.flag("count_empty_steps");
  f.whole_block = p.text("importance_set") == "block";
  f.round_importance = p.text("importance_dtype") == "bfloat16";
  f.layer1_score = p.text("score") == "layer1";
  f.add_mean = p.text("deviation_rule") == "mean_plus_deviation";
  f.ddof = static_cast<std::int32_t>(p.integer("std_ddof"));
  f.ar_context = p.flag("ar_context");
  f.adjacent_rows = p.text("adjacency") == "rows";
  f.placeholder_integrity = p.flag("placeholder_integrity");
  f.layer1_processed = p.text("layer1_keys") == "processed";
  const auto state = std::make_shared<focus_state>(
      delayed_settings_of(p, p.text("freeze_rule") == "right_neighbour"), f);
  recipe r;
  r.keys = std::make_unique<focus_keys>(s.block_length, state);
  r.pace = std::make_unique<delayed_pace>(std::move(s), state);
  r.rows = std::make_unique<focus_rows>(state);
  r.cache = std::make_unique<append_cache>();
  r.unmask = std::make_unique<block_unmask>(block_unmask_settings_of(model, p));
  return r;
}

void check_focus(const model_config& model, const parameters& p) {
  check_block_model("focus", model, p);
  if (model.layers < 2) {
    throw usage_error("focus cannot decode " + model.name +
                      ": it compares layers 0 and 1 and the model has one layer");
  }
  const bool fixed = p.text("selection") != "dynamic";
  if (fixed && p.integer("k") == 0) {
    throw usage_error("focus: selection " + p.text("selection") + " needs k, the number to keep");
  }
  if (!fixed && p.integer("k") != 0) {
    throw usage_error("focus: k belongs to selection top, bottom or random; dynamic computes it");
  }
}

std::vector<parameter_spec> focus_parameters() {
  const std::string paper = "FOCUS section 4.2", app = "FOCUS appendix E",
                    engine = "FOCUS's LMDeploy fork", hf = "FOCUS's OpenCompass modeling_sdar.py";
  std::vector<parameter_spec> all = block_parameters(0.8);
  for (parameter_spec& spec : engine_parameters()) all.push_back(std::move(spec));
  const std::vector<parameter_spec> own = {
      real_spec("alpha", 1.5, 1, 1024,
                "budget = ceil(alpha x mean tokens decided per step of the block)", paper),
      choice_spec("selection", {"dynamic", "top", "bottom", "random"},
                  "dynamic: budget and deviation rule; else the k best, worst or random ones", hf),
      integer_spec("k", 0, 0, 64, "masked rows kept by top, bottom and random; 0: none given", hf),
      choice_spec("score", {"delta", "layer1"},
                  "rank by importance of layer 1 minus layer 0, or of layer 1 alone",
                  "FOCUS appendix B"),
      choice_spec("importance_set", {"masked", "block"},
                  "queries and keys of the importance: masked rows, or every computed row",
                  paper + ", eq. 2"),
      choice_spec("importance_dtype", {"float32", "bfloat16"},
                  "type that the importance of a layer is rounded to", engine),
      choice_spec("deviation_rule", {"mean_plus_deviation", "deviation"},
                  "dynamic: also keep every score that reaches this", paper + ", eq. 5"),
      integer_spec("std_ddof", 0, 0, 1, "the deviation divides by n - this", engine + "; 1: HF"),
      choice_spec("average_scope", {"block", "block_carry", "request"},
                  "mean over the block; the same with the last budget carried into the next "
                  "block's first step; mean over the request",
                  app + ", eq. 17-19"),
      integer_spec("initial_k", 0, 0, 64, "budget of the very first step; 0: ceil(alpha)", hf),
      flag_spec("count_empty_steps", false,
                "forwards that decide nothing (commits) count in the mean", app + ", eq. 18"),
      flag_spec("ar_context", true, "keep the masked row directly before a chosen one", paper),
      choice_spec("adjacency", {"positions", "rows"},
                  "directly before: by position, or by place in the computed rows", hf),
      flag_spec("placeholder_integrity", true,
                "keep rows without K/V that lie before the last chosen one; false: later layers "
                "do not see such positions",
                app + ", eq. 16"),
      choice_spec("layer1_keys", {"retained", "processed"},
                  "keys of layer 1 end at the last retained or the last computed row", hf),
      choice_spec("freeze_rule", {"right_neighbour", "decided"},
                  "what freezes a decided token: DC+ or plain DC", hf)};
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

method_info focus_info() {
  method_info m;
  m.name = "focus";
  m.summary = "block diffusion that drops, inside layer 1, masked rows unlikely to be decided now";
  m.paper = "FOCUS (sands-lab/FOCUS)";
  m.source = "methods/focus";
  m.pace = "block: prefill, denoise, commit";
  m.rows = "positions not frozen; after layer 1 the retained ones";
  m.keys = "slots up to the last computed, from layer 1 on up to the last retained position";
  m.cache = "frozen when it and its right neighbour were decided inputs";
  m.unmask = "threshold among the retained masks";
  m.parameters = focus_parameters();
  const auto text = [](const char* t) { return std::string(t); };
  m.presets["engine"] = {{"stop_in_prompt_block", false}};
  m.presets["hf"] = {{"loop", text("hf")},
                     {"accept_compare", text(">")},
                     {"sampler", text("multinomial")},
                     {"mask_track", text("id")},
                     {"partial_prefill", false},
                     {"commit", text("full")},
                     {"commit_last", true},
                     {"std_ddof", std::int64_t{1}},
                     {"average_scope", text("block_carry")},
                     {"initial_k", std::int64_t{1}},
                     {"adjacency", text("rows")},
                     {"layer1_keys", text("processed")}};
  m.presets["sgl"] = {{"accept_compare", text(">")},
                      {"mask_track", text("id")},
                      {"partial_prefill", false},
                      {"commit", text("frozen_then_full")},
                      {"commit_last", true}};
  m.presets["paper"] = {{"stop_in_prompt_block", false},
                        {"importance_set", text("block")},
                        {"deviation_rule", text("deviation")},
                        {"commit", text("full")}};
  m.check = check_focus;
  m.make = make_focus;
  return m;
}

const register_method registered(focus_info());

}  // namespace
}  // namespace unmask
