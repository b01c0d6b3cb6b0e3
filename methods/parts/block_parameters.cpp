// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/block_parameters.h"

#include <charconv>

#include "methods/parts/settled_unmask.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

std::vector<std::int32_t> parse_ids(const std::string& method, const std::string& text) {
  std::vector<std::int32_t> ids;
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    std::int32_t id = 0;
    const auto [next, failure] = std::from_chars(p, end, id);
    if (failure != std::errc{} || (next != end && *next != ',')) {
      throw usage_error(method + ": stop must be 'model', 'none' or token ids with commas, not '" +
                        text + "'");
    }
    ids.push_back(id);
    p = next == end ? end : next + 1;
  }
  return ids;
}

bool declared(const parameters& p, const char* name) {
  return p.values().find(name) != p.values().end();
}

std::int32_t block_length_of(const model_config& model, const parameters& p) {
  const auto block = static_cast<std::int32_t>(p.integer("block_length"));
  return block == 0 ? model.block : block;
}

}  // namespace

std::vector<parameter_spec> block_parameters(double threshold) {
  const std::string engine = "LMDeploy strategies/dllm", sdar = "SDAR generate.py";
  return {
      block_length_spec(0, 0, 64, "tokens per block; 0: the model's trained length", engine),
      steps_spec(0, 0, 64, "denoising steps per block (static, sequential); 0: block_length",
                 engine),
      choice_spec("remasking",
                  {"low_confidence_dynamic", "low_confidence_static", "sequential", "entropy_bound",
                   "klass"},
                  "rule that unmasks tokens; entropy_bound: EB-sampler's; klass: KLASS'",
                  engine + "; arXiv 2505.24857, 2511.05664"),
      real_spec("gamma", 0.1, 0, 1e6,
                "entropy_bound: bound on the sum of entropies without the largest, nats",
                "arXiv 2505.24857"),
      real_spec("kl_threshold", 0.01, 0, 1e6,
                "klass: a distribution has to move less than this, nats; 0: never",
                "arXiv 2511.05664"),
      integer_spec("kl_history", 2, 1, 1024, "klass: for so many passes in a row",
                   "arXiv 2511.05664"),
      real_spec("threshold", threshold, 0, 2,
                "dynamic, klass: unmask every token at least this confident, at least one", engine),
      choice_spec("accept_compare", {">=", ">"}, "comparison with the threshold", engine),
      real_spec("temperature", 1.0, 1e-3, 100, "divides the logits before the confidence softmax",
                engine),
      choice_spec("loop", {"engine", "hf"}, "engine: LMDeploy's block life cycle; hf: SDAR's",
                  sdar),
      text_spec("stop", "model", "stop ids: 'model', 'none' or ids with commas", engine),
      flag_spec("stop_in_prompt_block", true,
                "honour stop ids in a first block shared with the prompt; "
                "false: LMDeploy's oversight",
                engine)};
}

parameter_spec sampler_parameter() {
  return varying_at(
      {"multinomial"},
      choice_spec("sampler", {"argmax", "multinomial"},
                  "token of a position: the arg-max or a draw from softmax(logits / T)",
                  "SDAR generate.py; FOCUS's OpenCompass models/sdar.py"));
}

std::vector<parameter_spec> engine_parameters() {
  const std::string engine = "FOCUS's LMDeploy fork", hf = "FOCUS's OpenCompass models/sdar.py";
  return {
      sampler_parameter(),
      choice_spec("confidence_dtype", {"float32", "bfloat16"},
                  "type in which confidences and threshold are compared", engine),
      choice_spec("mask_track", {"state", "id"},
                  "what makes a mask: the position's state, or its token being the mask id", hf),
      flag_spec("partial_prefill", true,
                "the prefill is the first denoising step of a block shared with the prompt",
                engine),
      choice_spec(
          "commit", {"frozen", "full", "frozen_then_full"},
          "KV write pass of a complete block: positions not cached yet, all of them, or first "
          "the one and then the other",
          engine),
      flag_spec("commit_last", false, "write the KV of the last block of a request too", hf)};
}

parameter_map with_argmax(parameter_map preset) {
  preset["sampler"] = std::string("argmax");
  return preset;
}

block_settings block_settings_of(const std::string& method, const model_config& model,
                                 const parameters& p) {
  block_settings s;
  s.method = method;
  s.engine = !declared(p, "loop") || p.text("loop") == "engine";
  s.partial_prefill = declared(p, "partial_prefill") ? p.flag("partial_prefill") : s.engine;
  s.commit_last = declared(p, "commit_last") ? p.flag("commit_last") : !s.engine;
  s.commit_forwards = declared(p, "commit") && p.text("commit") == "frozen_then_full" ? 2 : 1;
  s.block_length = block_length_of(model, p);
  if (declared(p, "steps")) s.steps = static_cast<std::int32_t>(p.integer("steps"));
  s.stop_in_prompt_block = p.flag("stop_in_prompt_block");
  s.use_stop_ids = p.text("stop") != "none";
  s.stop_ids = stop_ids_of(method, model, p.text("stop"));
  return s;
}

std::vector<std::int32_t> stop_ids_of(const std::string& method, const model_config& model,
                                      const std::string& stop) {
  if (stop == "model") return model.stop_ids;
  return stop == "none" ? std::vector<std::int32_t>{} : parse_ids(method, stop);
}

block_unmask_settings block_unmask_settings_of(const model_config& model, const parameters& p) {
  block_unmask_settings u;
  if (declared(p, "remasking")) u.remasking = p.text("remasking");
  u.threshold = static_cast<float>(p.real("threshold"));
  if (declared(p, "gamma")) u.gamma = static_cast<float>(p.real("gamma"));
  u.strict = p.text("accept_compare") == ">";
  u.temperature = static_cast<float>(p.real("temperature"));
  u.at_least_quota = declared(p, "loop") && p.text("loop") != "engine";
  u.block = block_length_of(model, p);
  u.sampled = declared(p, "sampler") && p.text("sampler") == "multinomial";
  u.bf16 = declared(p, "confidence_dtype") && p.text("confidence_dtype") == "bfloat16";
  u.masks_by_id = declared(p, "mask_track") && p.text("mask_track") == "id";
  return u;
}

void set_block_rule(const model_config& model, const parameters& p, recipe& r) {
  const block_unmask_settings u = block_unmask_settings_of(model, p);
  if (u.remasking != "klass") {
    r.unmask = std::make_unique<block_unmask>(u);
    return;
  }
  settled_settings s;
  s.threshold = u.threshold;
  s.strict = u.strict;
  s.limit = static_cast<float>(p.real("kl_threshold"));
  s.history = static_cast<std::int32_t>(p.integer("kl_history"));
  s.places = u.block;
  s.ahead = false;
  s.masks_by_id = u.masks_by_id;
  auto rule = std::make_unique<settled_unmask>(s);
  r.views.state_bytes = [of = rule.get()] { return of->bytes(); };
  r.unmask = std::move(rule);
}

void check_block_model(const std::string& method, const model_config& model, const parameters& p) {
  if (model.attention != mask_kind::block_causal || model.mask_id < 0) {
    throw usage_error(method + " cannot decode " + model.name +
                      ": it needs a block-causal model with a mask token");
  }
  if (p.integer("block_length") == 0 && model.block <= 0) {
    throw usage_error(method + ": " + model.name +
                      " does not name its block length; set block_length");
  }
  if (declared(p, "remasking") && p.text("remasking") == "klass") {
    const block_unmask_settings u = block_unmask_settings_of(model, p);
    if (u.sampled || u.bf16 || u.temperature != 1.0F) {
      throw usage_error(method +
                        ": remasking klass compares the model's own distributions: sampler argmax, "
                        "confidence_dtype float32, temperature 1");
    }
  }
  if (declared(p, "commit_last") && p.text("loop") == "hf" && !p.flag("commit_last")) {
    throw usage_error(method +
                      ": loop hf writes the KV of the last block too; set commit_last=true");
  }
}

}  // namespace unmask
