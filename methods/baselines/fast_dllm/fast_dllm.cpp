// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Fast-dLLM (Wu et al., 2025): K/V of everything outside the current block (dual) or before it
// (prefix) is computed once per block and reused; tokens are decided by the schedule, by a
// confidence threshold or by the factor rule. LLaDA-V's own loop of it computes everything again after
// so many steps of a block, and ranks the masks of the whole canvas by the factor rule. Dimple's own
// prefix keeps K/V of the prompt alone, made with the masks in view.
#include "methods/parts/common.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/prior.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

recipe make_fast_dllm(const model_config& model, const parameters& p) {
  const std::string& cache = p.text("cache");
  unmask_settings u = sampling_settings(model, p);
  u.threshold = static_cast<float>(p.real("threshold"));
  u.factor = static_cast<float>(p.real("factor"));
  u.gamma = static_cast<float>(p.real("gamma"));
  set_confidence_dtype(u, is_dream(model), p);
  const auto refresh = static_cast<std::int32_t>(p.integer("refresh_interval"));
  u.factor_of_canvas = refresh > 0;
  recipe r;
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<key_policy>();
  if (cache == "none") {
    r.cache = std::make_unique<no_cache>();
  } else {
    // The rows of a window overwrite their slots; everything else stays as the full forward at
    // block entry left it, which is the published cache.
    r.cache = std::make_unique<append_cache>();
  }
  const auto steps = static_cast<std::int32_t>(p.integer("steps"));
  const auto tokens_per_step = static_cast<std::int32_t>(p.integer("tokens_per_step"));
  const auto block_length = static_cast<std::int32_t>(p.integer("block_length"));
  if (cache == "prompt") {
    time_schedule::settings t;
    t.method = "fast_dllm";
    t.steps = steps;
    t.tokens_per_step = tokens_per_step;
    t.eps = static_cast<float>(p.real("eps"));
    t.keeps_prompt = true;
    t.by_share = p.text("pipeline") == "dim";
    r.pace = with_prior("fast_dllm", model, p, std::make_unique<time_schedule>(t));
    if (!t.by_share) u.threshold = 0;
    u.leftmost = u.score == "autoregressive";
    u.or_quota = t.by_share || u.leftmost;
    u.transfer_steps = steps;
  } else if (is_dream(model) && cache == "none") {
    time_schedule::settings t;
    t.method = "fast_dllm";
    t.steps = steps;
    t.tokens_per_step = tokens_per_step;
    t.eps = static_cast<float>(p.real("eps"));
    t.confidence_threshold = u.threshold > 0;
    if (t.confidence_threshold) u.score = "confidence_threshold";
    u.limit_to_quota = t.confidence_threshold;
    r.pace = std::make_unique<time_schedule>(t);
  } else if (is_dream(model)) {
    dream_block_schedule::settings t;
    t.method = "fast_dllm";
    t.steps = steps;
    t.tokens_per_step = tokens_per_step;
    t.block_length = block_length;
    t.eps = static_cast<float>(p.real("eps"));
    t.until_clean = true;
    t.endless = u.threshold > 0;
    t.partial = window_of_cache(cache);
    // The cached loop ranks by negative entropy whatever alg says; its threshold mode by
    // confidence.
    u.score = t.endless ? "confidence_threshold" : "entropy";
    r.pace = std::make_unique<dream_block_schedule>(t);
  } else {
    block_schedule::settings t;
    t.method = "fast_dllm";
    t.steps = steps;
    t.tokens_per_step = tokens_per_step;
    t.block_length = block_length;
    t.until_clean = true;
    t.partial = window_of_cache(cache);
    // The pinned cached loops look for leftover masks at the end of a pass only; the revision that
    // brought the factor rule looks first.
    if (cache != "none" && u.factor <= 0 && u.gamma <= 0 && refresh == 0) t.min_steps = 2;
    t.refresh_interval = refresh;
    t.stop_sequences = stop_sequences_of("fast_dllm", p);
    r.pace = std::make_unique<block_schedule>(t);
  }
  r.unmask = std::make_unique<ranked_unmask>(u);
  return r;
}

void check_fast_dllm(const model_config& model, const parameters& p) {
  need_bidirectional("fast_dllm", model);
  if (p.real("threshold") > 0 && p.real("factor") > 0) {
    throw usage_error("fast_dllm: threshold and factor exclude each other");
  }
  check_entropy_bound("fast_dllm", is_dream(model), p);
  const bool stops = !stop_sequences_of("fast_dllm", p).empty();
  if (is_dream(model) && (stops || p.integer("refresh_interval") > 0)) {
    throw usage_error("fast_dllm: stop_sequences and refresh_interval are of LLaDA-V's loop");
  }
  if (p.text("cache") == "prompt") {
    if (!is_dream(model)) {
      throw usage_error("fast_dllm: cache prompt is Dimple's, for models of Dream's family");
    }
    check_share_rule("fast_dllm", p);
  } else if (has_prior(p)) {
    throw usage_error("fast_dllm: prior is of Dimple's loop; set cache = prompt");
  } else if (p.text("alg") == "autoregressive") {
    throw usage_error("fast_dllm: alg autoregressive is of Dimple's loop; set cache = prompt");
  }
  if (p.integer("refresh_interval") > 0 && p.text("cache") != "prefix") {
    throw usage_error("fast_dllm: refresh_interval needs cache prefix, as LLaDA-V's loop has it");
  }
  if (is_dream(model) && p.real("factor") > 0) {
    throw usage_error("fast_dllm: factor decoding is published for LLaDA only; set threshold");
  }
}

method_info fast_dllm_info() {
  method_info m;
  m.name = "fast_dllm";
  m.summary = "blockwise approximate KV cache (prefix or dual) and parallel decoding";
  m.paper = "Fast-dLLM (Wu et al., 2025)";
  m.source = "methods/baselines/fast_dllm";
  m.pace = "block schedule, or until the block is clean";
  m.rows = "all at block entry, then block and suffix (prefix) or block (dual)";
  m.shape = {.extent = row_extent::block, .refreshes = true};
  m.keys = "all";
  m.cache = "refreshed at block entry";
  m.unmask = "top-n of the schedule; threshold, factor or gamma when set";
  const std::string source = "Fast-dLLM generate.py";
  m.knobs = {{"cache", "kv_reused", "none"}, {"threshold", "decided_early", "0"}};
  m.parameters = {
      choice_spec("cache", {"dual", "prefix", "none", "prompt"},
                  "what is reused inside a block: KV around it, KV before it, nothing; or, as "
                  "Dimple does, KV of the prompt in one block",
                  source)};
  append(m.parameters,
         {later(choice_spec("pipeline", {"dim", "dream"},
                            "with cache prompt: which of Dimple's pipelines says how many "
                            "tokens a step unmasks",
                            "Dimple generation_utils.py")),
          confidence_parameter()});
  append(m.parameters, parallel_parameters());
  append(m.parameters,
         {entropy_bound_parameter(), stop_parameter(), prior_parameter(),
          later(integer_spec("refresh_interval", 0, 0, 1e6,
                             "LLaDA-V: steps of a block from one forward of everything to the "
                             "next; 0: the first step alone",
                             "LLaDA-V fast_dllm_hook.py"))});
  append(m.parameters, schedule_parameters());
  append(m.parameters, sampling_parameters({"autoregressive"}));
  append(m.parameters, {original_confidence_parameter()});
  m.presets["official"] = {{"threshold", 0.9}};
  m.presets["dimple"] = {{"cache", "prompt"},
                         {"alg", "maskgit_plus"},
                         {"threshold", 0.95},
                         {"original_confidence", true}};
  // examples/models/dimple.sh: top_p leaves one token, so that all confidences are 1 and the order is
  // that of the positions.
  m.presets["dimple-published"] = {
      {"cache", "prompt"}, {"pipeline", "dream"}, {"alg", "maskgit_plus"}, {"top_p", 0.01}};
  m.presets["llada-v"] = {{"cache", "prefix"},
                          {"refresh_interval", 32},
                          {"factor", 1.0},
                          {"stop_sequences", eot_of_llada}};
  m.presets["prefix"] = {{"cache", "prefix"}, {"threshold", 0.9}};
  // The baseline of the Sparse-dLLM and Focus-dLLM tables: dual cache, no threshold.
  m.presets["dual-schedule"] = {{"cache", "dual"}};
  m.check = check_fast_dllm;
  m.make = make_fast_dllm;
  return m;
}

// Fast-dLLM llada/generate.py and dream/model/generation_utils_block.py
parameter_map from_official(const parameter_map& recorded) {
  return take(recorded,
              {"steps", "block_length", "cache", "threshold", "factor", "temperature", "eps"});
}

const register_method registered(fast_dllm_info(), {{"fast_dllm", from_official}});

}  // namespace
}  // namespace unmask
