// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The FOCUS recipe, its parameters and the presets of its published implementations.
#include "methods/focus/focus_rows.h"
#include "methods/parts/block_parameters.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

recipe make_focus(const model_config& model, const parameters& p) {
  block_settings s = block_settings_of("focus", model, p);
  focus_settings f = focus_settings_of(p);
  f.placeholder_integrity = p.flag("placeholder_integrity");
  f.rules.count_prefill = p.flag("count_prefill");
  const auto state = std::make_shared<focus_state>(
      delayed_settings_of(p, p.text("freeze_rule") == "right_neighbour"), f,
      p.text("layer1_keys") == "processed", p.text("unprocessed") == "flag");
  recipe r;
  r.keys = std::make_unique<focus_keys>(s.block_length, state);
  r.pace = std::make_unique<delayed_pace>(std::move(s), state);
  auto rows = std::make_unique<focus_rows>(state);
  r.views.reports["eviction"] = [of = rows.get()](std::int32_t place) {
    return of->eviction(place);
  };
  r.rows = std::move(rows);
  r.cache = std::make_unique<append_cache>(/*keeps_decided=*/true);
  r.unmask = std::make_unique<block_unmask>(block_unmask_settings_of(model, p));
  return r;
}

void check_focus(const model_config& model, const parameters& p) {
  check_block_model("focus", model, p);
  if (p.text("remasking") == "klass") {
    throw usage_error(
        "focus: remasking klass compares every mask with itself one pass before, and focus evicts "
        "masks");
  }
  check_focus_eviction("focus", model, p);
}

std::vector<parameter_spec> focus_parameters() {
  const std::string app = "FOCUS appendix E", hf = "FOCUS's OpenCompass modeling_sdar.py";
  std::vector<parameter_spec> all = block_parameters(0.8);
  for (parameter_spec& spec : engine_parameters()) all.push_back(std::move(spec));
  for (parameter_spec& spec : focus_eviction_parameters()) all.push_back(std::move(spec));
  const std::vector<parameter_spec> own = {
      flag_spec("placeholder_integrity", true,
                "keep positions without KV before the last chosen one; false: later layers "
                "do not see such positions",
                app + ", eq. 16"),
      choice_spec(
          "unprocessed", {"pointer", "flag"},
          "positions without KV: those after the last retained one so far, or those that no "
          "pass took through every layer, a prefill of their block included",
          app + ", eq. 16; section 4.2"),
      flag_spec(
          "count_prefill", false,
          "tokens that the prefill unmasks in a block shared with the prompt count in the mean",
          app + ", eq. 17-19"),
      delayed_keys_parameter(),
      choice_spec(
          "layer1_keys", {"retained", "processed"},
          "keys retained: those of layer 1 end at the last retained or the last computed position",
          hf),
      choice_spec("freeze_rule", {"right_neighbour", "decided"},
                  "what caches an unmasked token: DC+ or plain DC", hf)};
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

method_info focus_info() {
  method_info m;
  m.name = "focus";
  m.summary = "block diffusion that evicts, inside layer 1, masks unlikely to be unmasked now";
  m.paper = "FOCUS (sands-lab/FOCUS)";
  m.source = "methods/focus";
  m.pace = "block: prefill, denoise, write KV";
  m.rows = "positions not frozen; after layer 1 the retained ones";
  m.shape = {row_extent::block, 0.6};
  m.keys = "cache slots up to the last computed, from layer 1 on up to the last retained position";
  m.cache = "stored once it and its right neighbour were unmasked inputs";
  m.unmask = "threshold among the retained masks";
  m.parameters = focus_parameters();
  m.knobs = {{"selection", "rows_dropped"}};
  m.presets["engine"] = {{"stop_in_prompt_block", false}};
  m.presets["hf"] = {{"loop", "hf"},
                     {"accept_compare", ">"},
                     {"sampler", "multinomial"},
                     {"mask_track", "id"},
                     {"partial_prefill", false},
                     {"commit", "full"},
                     {"commit_last", true},
                     {"std_ddof", 1},
                     {"average_scope", "block_carry"},
                     {"initial_k", 1},
                     {"adjacency", "rows"},
                     {"layer1_keys", "processed"}};
  m.presets["hf_argmax"] = with_argmax(m.presets["hf"]);
  m.presets["sgl"] = {{"accept_compare", ">"},
                      {"mask_track", "id"},
                      {"partial_prefill", false},
                      {"commit", "frozen_then_full"},
                      {"commit_last", true}};
  m.presets["paper"] = {{"stop_in_prompt_block", false},
                        {"importance_set", "block"},
                        {"deviation_rule", "deviation"},
                        {"deviation_set", "block"},
                        {"average_scope", "request"},
                        {"count_empty_steps", true},
                        {"count_prefill", true},
                        {"mean_floor", false},
                        {"unprocessed", "flag"},
                        {"commit", "full"},
                        {"keys", "stored"}};
  m.check = check_focus;
  m.make = make_focus;
  return m;
}

parameter_map official_focus(const parameter_map& recorded) {
  parameter_map m = official_delayed_cache(recorded);
  const bool hf = says(recorded, "preset", "hf");
  m.merge(take(recorded, {"selection", "alpha", "std_ddof"}));
  if (const auto k = recorded.find("K"); k != recorded.end()) m["k"] = k->second;
  if (const auto k = recorded.find("initial_K"); k != recorded.end()) m["initial_k"] = k->second;
  m["average_scope"] = std::string(hf ? "block_carry" : "block");
  m["adjacency"] = std::string(hf ? "rows" : "positions");
  const bool processed = says(recorded, "layer1_keys", "up to max processed");
  m["layer1_keys"] = std::string(processed ? "processed" : "retained");
  return m;
}

const register_method registered(focus_info(), {{"focus", official_focus}});

}  // namespace
}  // namespace unmask
