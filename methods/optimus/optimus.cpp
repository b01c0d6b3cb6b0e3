// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The Optimus recipe: parameters, checks, presets.
#include <algorithm>
#include <charconv>

#include "methods/optimus/optimus_recipe.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

chunk_policy policy_of(const std::string& name) {
  if (name == "naive") return chunk_policy::naive;
  return name == "prefix_caching" ? chunk_policy::prefix_caching : chunk_policy::streaming;
}

cache_rule rule_of(const std::string& name) {
  if (name == "none") return cache_rule::none;
  if (name == "contiguous_prefix") return cache_rule::contiguous_prefix;
  return name == "right_neighbour" ? cache_rule::right_neighbour : cache_rule::any_decoded;
}

fusion_mode fusion_of(const std::string& name) {
  if (name == "fill") return fusion_mode::fill;
  return name == "full" ? fusion_mode::full : fusion_mode::off;
}

estimator_kind estimator_of(const std::string& name) {
  if (name == "prefix_count") return estimator_kind::prefix_count;
  if (name == "slot_count") return estimator_kind::slot_count;
  return name == "fixed_point" ? estimator_kind::fixed_point : estimator_kind::capped;
}

std::vector<std::int32_t> candidates_of(const std::string& set, std::int32_t block) {
  std::vector<std::int32_t> sizes;
  for (std::int32_t c = 2; c <= block; c = set == "powers" ? 2 * c
                                           : set == "even" ? c + 2
                                                           : c + 1) {
    sizes.push_back(c);
  }
  if (sizes.back() != block) sizes.push_back(block);
  return sizes;
}

latency_model latency_of(const model_config& model, const parameters& p) {
  const auto samples = parse_latency_samples("optimus", p.text("latency_samples"));
  const std::string& kind = p.text("latency");
  if (kind == "roofline" || (kind == "auto" && samples.empty())) {
    return latency_model::roofline(p.real("latency_floor_ms") * 1e-3,
                                   p.real("latency_us_per_token") * 1e-6);
  }
  if (kind == "table") return latency_model::table(samples);
  return latency_model::pwl3(samples, model.moe.experts == 0, p.flag("request_cost"));
}

bool is_elastic(const parameters& p) {
  return p.text("policy") == "streaming" && p.integer("chunk") == 0;
}

std::string number(double value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string report_of(const latency_model& model, const std::vector<step_time>& times) {
  const latency_model::fit_report& fit = model.report();
  const auto& k = fit.knot;
  const auto& s = fit.slope;
  std::string text = R"({"fit":")" + fit.kind + R"(","note":")" + fit.note + R"(","intercept":)" +
                     number(fit.intercept) + R"(,"knots":[)" + number(k[0]) + "," + number(k[1]) +
                     R"(],"slopes":[)" + number(s[0]) + "," + number(s[1]) + "," + number(s[2]) +
                     R"(],"per_request":)" + number(fit.per_request) + R"(,"mape":)" +
                     number(fit.mape) + R"(,"max_error":)" + number(fit.max_error) +
                     R"(,"samples":[)";
  for (const step_time& t : times) {
    text += (&t == times.data() ? "" : ",") + std::string(R"({"requests":)") +
            std::to_string(t.requests) + R"(,"rows":)" + std::to_string(t.rows) + R"(,"seconds":)" +
            number(t.seconds) + R"(,"fitted":)" +
            number(model.seconds(static_cast<double>(t.rows), t.requests)) + "}";
  }
  return text + "]}";
}

}  // namespace

// The latency profile (latency=auto): every forward has the same rows, because blocks of one chunk
// are decided token by token, as the authors' profiling scripts force it. At least four requests,
// so that there are points enough for a fit.
std::optional<calibration> calibrate_optimus(const model_config& model, const parameters& p,
                                             std::int32_t requests, const step_timer& timer,
                                             const parameter_map& also) {
  if (!is_elastic(p) || p.text("latency") != "auto" || !p.text("latency_samples").empty()) {
    return std::nullopt;
  }
  const auto block = static_cast<std::int32_t>(
      p.integer("block_length") > 0 ? p.integer("block_length") : std::int64_t{model.block});
  std::vector<std::int32_t> chunks, batches;
  for (const std::int32_t c : {2, 4, 8, 16, 24, 32, 48}) {
    if (c < block) chunks.push_back(c);
  }
  chunks.push_back(block);
  const std::int32_t most = std::max(requests, 4);
  for (std::int32_t b = 1; b < most; b *= 2) batches.push_back(b);
  batches.push_back(most);
  std::vector<step_time> times;
  std::vector<latency_point> points;
  for (const std::int32_t c : chunks) {
    parameter_map fixed = {{"policy", "prefix_caching"},
                           {"cache_rule", "none"},
                           {"block_length", std::int64_t{c}},
                           {"threshold", 2.0},
                           {"stop", "none"}};
    fixed.insert(also.begin(), also.end());
    for (const step_time& t : timer(fixed, batches)) {
      times.push_back(t);
      points.push_back({static_cast<double>(t.rows), t.seconds, static_cast<double>(t.requests)});
    }
  }
  calibration learnt;
  learnt.settings["latency_samples"] = to_text(points);
  learnt.report =
      report_of(latency_model::pwl3(points, model.moe.experts == 0, p.flag("request_cost")), times);
  return learnt;
}

std::shared_ptr<optimus_state> optimus_state_of(const std::string& method,
                                                const model_config& model, const parameters& p,
                                                bool lists_keys) {
  optimus_settings s;
  s.lists_keys = lists_keys;
  s.block = block_settings_of(method, model, p);
  const std::int32_t block = s.block.block_length;
  s.chunk.block = block;
  s.chunk.policy = policy_of(p.text("policy"));
  s.chunk.rule = rule_of(p.text("cache_rule"));
  s.chunk.fusion = fusion_of(p.text("boundary_fusion"));
  s.out_block = p.flag("out_block");
  s.full_mask = p.text("obs_mask") == "full";
  s.stale_suffix = p.text("suffix_visible") == "stale";
  s.chunk.compact_slots = !s.out_block && !s.stale_suffix && !lists_keys;
  s.final_refresh = p.flag("final_refresh");
  s.stop_at_prefix = p.text("stop_check") == "prefix";
  s.prefill_emits = p.flag("prefill_emits");
  s.prefill_apart = p.flag("prefill_apart") || s.full_mask;
  s.overhead_seconds = p.real("step_overhead_ms") * 1e-3;
  s.size = static_cast<std::int32_t>(p.integer("chunk"));
  std::optional<elastic_scheduler> elastic;
  if (is_elastic(p)) {
    elastic_settings e;
    e.block = block;
    e.candidates = candidates_of(p.text("candidates"), block);
    e.out_block = s.out_block;
    e.estimator = estimator_of(p.text("estimator"));
    e.expected_rows = p.text("chunk_rows") == "expected";
    e.per_request = p.text("ncommit_scope") == "per_request_sum";
    e.prior = p.real("prior_commits");
    e.hysteresis = p.real("hysteresis");
    e.cold_steps = static_cast<std::int32_t>(p.integer("cold_steps"));
    e.cold_masks = std::min(e.cold_masks, block / 2);
    e.cold_by_step = p.text("cold_counts") == "steps";
    e.full_every = static_cast<std::int32_t>(p.integer("full_every"));
    e.overhead_seconds = s.overhead_seconds;
    elastic.emplace(e, latency_of(model, p));
  } else if (s.size == 0) {
    s.size = block;
  }
  return std::make_shared<optimus_state>(s, std::move(elastic));
}

void check_optimus(const std::string& method, const model_config& model, const parameters& p) {
  check_block_model(method, model, p);
  const auto block =
      p.integer("block_length") > 0 ? p.integer("block_length") : std::int64_t{model.block};
  const auto chunk = p.integer("chunk");
  const std::string& policy = p.text("policy");
  const std::string& rule = p.text("cache_rule");
  const auto refuse = [&method](bool when, const std::string& why) {
    if (when) throw usage_error(method + ": " + why);
  };
  refuse(chunk != 0 && (chunk < 2 || chunk > block),
         "chunk must be 0 (elastic) or from 2 to the block length " + std::to_string(block) +
             ": every token is computed at least twice");
  refuse(block < 2, "block_length must be at least 2");
  refuse(policy == "prefix_caching" && chunk != 0,
         "policy prefix_caching computes whole blocks; leave chunk at 0");
  refuse(policy == "naive" && chunk == 0, "policy naive needs a fixed chunk");
  refuse(policy == "naive" && block % std::max<std::int64_t>(chunk, 1) != 0,
         "policy naive needs a chunk that divides the block length " + std::to_string(block));
  refuse(policy == "naive" && rule == "right_neighbour",
         "cache_rule right_neighbour never lets policy naive leave a sub-block");
  refuse(rule == "none" && policy != "prefix_caching" && chunk != block,
         "cache_rule none keeps every token in the chunk; use policy prefix_caching or a chunk of "
         "the block length");
  refuse(p.flag("out_block") && !is_elastic(p) && policy != "prefix_caching" && chunk != block,
         "out_block is offered at the largest chunk only; set chunk to the block length or 0");
  refuse(p.flag("out_block") && (policy == "naive" || rule != "any_decoded"),
         "out_block needs policy streaming or prefix_caching and cache_rule any_decoded");
  const bool looks_ahead = p.flag("out_block") || p.text("boundary_fusion") != "off";
  refuse(p.text("suffix_visible") == "stale" && looks_ahead,
         "suffix_visible stale excludes out_block and boundary_fusion");
  refuse(p.text("suffix_visible") == "stale" && policy == "naive",
         "suffix_visible stale needs policy streaming or prefix_caching");
  refuse(p.text("boundary_fusion") != "off" &&
             (p.flag("final_refresh") || p.flag("out_block") || policy == "naive"),
         "boundary_fusion excludes final_refresh, out_block and policy naive");
  refuse(p.text("obs_mask") == "full" && !p.flag("out_block"), "obs_mask full needs out_block");
  const std::string& latency = p.text("latency");
  refuse((latency == "pwl3" || latency == "table") && p.text("latency_samples").empty(),
         "latency " + latency + " needs latency_samples");
}

parameter_spec latency_parameter(const std::string& source) {
  return varying_at(
      {"auto"},
      choice_spec("latency", {"auto", "pwl3", "table", "roofline"},
                  "elastic: T(x) from samples (three affine pieces or interpolated) or constants; "
                  "auto: pwl3 of a profile measured at the start, the constants where nobody "
                  "measures",
                  source));
}

std::vector<parameter_spec> optimus_parameters() {
  const std::string s2 = "Optimus section 4.2", s3 = "Optimus section 4.3",
                    s4 = "Optimus, elastic scheduling", ours = "not in the paper",
                    engine = "LMDeploy strategies/dllm";
  std::vector<parameter_spec> all = block_parameters(0.9);
  std::erase_if(all, [](const parameter_spec& spec) {
    return spec.name == "steps" || spec.name == "remasking" || spec.name == "loop" ||
           spec.name.starts_with("kl_");
  });
  const std::vector<parameter_spec> own = {
      choice_spec("remasking", {"low_confidence_dynamic", "entropy_bound"},
                  "rule that unmasks tokens: the threshold; EB-sampler's",
                  engine + "; arXiv 2505.24857"),
      choice_spec("policy", {"streaming", "naive", "prefix_caching"},
                  "chunk from the first not cached; fixed sub-blocks; whole block",
                  s3 + ", figure 4"),
      chunk_spec(0, 0, 64, "tokens per request and step; 0: elastic (streaming)", s4),
      choice_spec(
          "cache_rule", {"any_decoded", "contiguous_prefix", "right_neighbour", "none"},
          "when an unmasked token leaves the pass: after one as input; also everything "
          "left of it unmasked; also its right neighbour; never before the block is complete",
          s2 + ", table 1; WeDLM; FOCUS"),
      flag_spec("out_block", false,
                "freed positions go to the next block (fixed: chunk = block; elastic: a candidate)",
                s3),
      choice_spec("obs_mask", {"block_causal", "full"},
                  "do positions of the block see those of the next", ours),
      choice_spec("suffix_visible", {"none", "stale"},
                  "masks outside the chunk: unseen, or KV of the block's first pass, which then "
                  "computes all of it",
                  s3 + "; Fast-dLLM"),
      flag_spec("final_refresh", false, "recompute every complete block once as a whole",
                "LMDeploy, SGLang"),
      choice_spec("boundary_fusion", {"off", "fill", "full"},
                  "a complete block's last refresh shares a pass with masks of the next: as many "
                  "as the chunk holds, or a whole chunk",
                  ours),
      choice_spec("stop_check", {"block", "prefix"},
                  "look for stop ids in complete blocks, or left of the first mask", engine),
      flag_spec("prefill_emits", true,
                "the prefill is the first denoising step of a block shared with the prompt",
                engine),
      flag_spec("prefill_apart", false, "a step that prefills decodes nothing", engine),
      choice_spec("candidates", {"even", "all", "powers"}, "elastic: sizes to choose from", s4),
      choice_spec("estimator", {"capped", "prefix_count", "fixed_point", "slot_count"},
                  "elastic: tokens per step and chunk size from the steps made", s4),
      choice_spec("ncommit_scope", {"global", "per_request_sum"},
                  "elastic: one estimate for all requests or the sum of their own", s4),
      real_spec("prior_commits", 4, 1, 64, "elastic: tokens per full-size step before any was seen",
                s4),
      real_spec("hysteresis", 0, 0, 1, "elastic: relative gain that a change of size must promise",
                ours),
      integer_spec("cold_steps", 64, 0, 1e6,
                   "elastic: steps with many masks made at full size first (cold_counts)", s4),
      later(choice_spec("cold_counts", {"requests", "steps"},
                        "elastic: a cold step counts for each of its requests, or once", s4)),
      integer_spec("full_every", 0, 0, 1e6,
                   "elastic: every so many steps one at full size; 0: none", ours),
      latency_parameter(s4),
      text_spec("latency_samples", "",
                "elastic: 'tokens:seconds,...' or 'tokens/requests:seconds,...' of this machine; "
                "auto measures them",
                s4),
      flag_spec("request_cost", true,
                "elastic: T has a term for every request of the pass besides its positions", ours),
      choice_spec("chunk_rows", {"expected", "full"},
                  "elastic: T at the positions that chunks were seen to hold, or at b c",
                  s4 + " (full)"),
      real_spec("latency_floor_ms", 10, 0, 1e6, "elastic, roofline: shortest step", ours),
      real_spec("latency_us_per_token", 71, 0, 1e6, "elastic, roofline: slope", ours),
      real_spec("step_overhead_ms", 0, 0, 1e5,
                "busy wait before every step, to reproduce the paper's slow engine on purpose",
                ours)};
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

namespace {

recipe make_optimus(const model_config& model, const parameters& p) {
  const auto state = optimus_state_of("optimus", model, p, false);
  recipe r;
  r.pace = std::make_unique<optimus_pace>(state);
  r.rows = std::make_unique<optimus_rows>(state);
  r.keys = std::make_unique<optimus_keys>(state->settings.chunk.block, state);
  r.cache = std::make_unique<optimus_cache>(state);
  r.unmask = std::make_unique<optimus_unmask>(block_unmask_settings_of(model, p), state);
  return r;
}

method_info optimus_info() {
  method_info m;
  m.name = "optimus";
  m.summary = "block diffusion in chunks whose size follows the load";
  m.paper = "Optimus (arXiv 2605.24832)";
  m.source = "methods/optimus";
  m.pace = "elastic chunk: argmax of N(c) b / T(b c)";
  m.rows = "unmasked tokens not cached yet, then the first masks";
  m.shape = {row_extent::chunk};
  m.keys = "cached positions and the chunk";
  m.cache = "a token is cached after one pass with its own id as input";
  m.unmask = "threshold, at least one per chunk";
  m.parameters = optimus_parameters();
  m.knobs = {{"policy", "rows_skipped", "prefix_caching"}};
  m.presets["bd32"] = {{"policy", "prefix_caching"}, {"cache_rule", "none"}};
  m.presets["prefix_caching"] = {{"policy", "prefix_caching"}};
  m.presets["obs"] = {{"policy", "prefix_caching"}, {"out_block", true}};
  m.presets["chunk8"] = {{"chunk", 8}};
  m.presets["naive8"] = {{"policy", "naive"}, {"chunk", 8}};
  // The paper's formula over our estimate of N, and the paper's reading of N too.
  m.presets["paper_cost"] = {{"request_cost", false}, {"chunk_rows", "full"}};
  m.presets["paper"] = {
      {"request_cost", false}, {"chunk_rows", "full"}, {"estimator", "prefix_count"}};
  m.presets["paper_a100"] = {{"request_cost", false},
                             {"chunk_rows", "full"},
                             {"estimator", "prefix_count"},
                             {"latency", "roofline"},
                             {"step_overhead_ms", 34.0}};
  m.check = [](const model_config& model, const parameters& p) {
    check_optimus("optimus", model, p);
  };
  m.make = make_optimus;
  m.calibrate = [](const model_config& model, const parameters& p, std::int32_t requests,
                   const step_timer& timer) {
    return calibrate_optimus(model, p, requests, timer, {});
  };
  return m;
}

const register_method registered(optimus_info());

}  // namespace
}  // namespace unmask
