// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Multi-block decoding (D2F, 2025; MultiBD, 2026): consecutive unfinished blocks are decoded in one
// forward; the next one opens while the last is in work, and takes confident tokens only until its
// predecessor is nearly finished. A complete block is stored by the next forward, which decides others.
#include <algorithm>

#include "kernels/head.h"
#include "methods/multi_block/kernels/accept_blocks.h"
#include "methods/multi_block/open_blocks.h"
#include "methods/parts/block_parameters.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/specs.h"

namespace unmask::multi_block {
namespace {

// What ranks the masks of a block of which none passes the threshold.
enum class forced_by : std::uint8_t { probability, margin, negative_entropy };

class in_blocks_unmask final : public unmask_policy {
 public:
  in_blocks_unmask(shared_flight shared, float threshold, forced_by rank, std::int32_t banned)
      : shared_(std::move(shared)), threshold_(threshold), rank_(rank), banned_token_(banned) {}

  void judge(const batch& b, const step_choice&, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    confidence_params params;
    // Not before: memory is shared with the device that decodes once its backend is known.
    if (banned_.empty() && banned_token_ >= 0) banned_.push_back(banned_token_);
    params.banned = banned_.data();
    params.banned_count = static_cast<std::int32_t>(banned_.size());
    confidence_out out = c.judged();
    if (rank_ == forced_by::margin) out.margin = c.margin.as<float>();
    if (rank_ == forced_by::negative_entropy) {
      out.negative_entropy = c.negative_entropy.as<float>();
    }
    b.backend().run(op::confidence{head_input, head, c.set(b.capacity()), params, out});
  }

  void decide(const batch& b, const step_choice&, candidate_lists& c) override {
    const tensor& score = rank_ == forced_by::margin             ? c.margin
                          : rank_ == forced_by::negative_entropy ? c.negative_entropy
                                                                 : c.probability;
    b.backend().run(op::accept_in_blocks{.candidates = c.set(b.capacity()),
                                         .probability = c.probability.as<float>(),
                                         .score = score.as<float>(),
                                         .threshold = threshold_,
                                         .block = shared_->set.block_length,
                                         .origin = shared_->origin.data(),
                                         .forced = shared_->forced,
                                         .accept = c.accept.as<std::uint8_t>()});
  }

 private:
  shared_flight shared_;
  float threshold_;
  forced_by rank_;
  std::int32_t banned_token_;  // -1: none
  shared_vector<std::int32_t> banned_;
};

bool runs_diffulex(const model_config& model, const parameters& p) {
  const std::string& variant = p.text("variant");
  return variant == "diffulex" ||
         (variant == "model" && model.attention == mask_kind::block_causal);
}

recipe make(const model_config& model, const parameters& p) {
  settings s;
  s.diffulex = runs_diffulex(model, p);
  s.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  s.max_blocks = static_cast<std::int32_t>(p.integer("max_blocks"));
  s.add_threshold = p.real("add_block_threshold");
  s.activation_threshold = p.real("activation_threshold");
  s.stop_ids = stop_ids_of("multi_block", model, p.text("stop"));
  const auto shared = std::make_shared<flight>(s);
  const std::string& confidence = p.text("confidence");
  const forced_by rank = confidence == "margin"             ? forced_by::margin
                         : confidence == "negative_entropy" ? forced_by::negative_entropy
                                                            : forced_by::probability;
  recipe r;
  r.pace = std::make_unique<open_blocks>(shared);
  r.rows = std::make_unique<block_rows>(shared);
  r.keys = std::make_unique<block_keys>();
  r.cache = std::make_unique<append_cache>();
  r.unmask = std::make_unique<in_blocks_unmask>(shared, static_cast<float>(p.real("threshold")),
                                                rank, s.diffulex ? model.mask_id : -1);
  return r;
}

void check(const model_config& model, const parameters& p) {
  const bool diffulex = runs_diffulex(model, p);
  if (model.mask_id < 0 || model.attention == mask_kind::causal) {
    throw usage_error("multi_block cannot decode " + model.name +
                      ": it needs a model with a mask token");
  }
  if (diffulex && model.attention != mask_kind::block_causal) {
    throw usage_error("multi_block: variant=diffulex cannot decode " + model.name +
                      ": it needs a block-causal model");
  }
  if (diffulex) need_in_place("variant=diffulex of multi_block", model);
  if (!diffulex && model.attention != mask_kind::full) {
    throw usage_error("multi_block: variant=d2f cannot decode " + model.name +
                      ": its prompt is one bidirectional block, which a block-causal model was not "
                      "trained with");
  }
  if (!diffulex && p.real("add_block_threshold") > 1) {
    throw usage_error("multi_block: add_block_threshold is above 1, so that no block would open");
  }
  stop_ids_of("multi_block", model, p.text("stop"));
}

parameter_map official(const parameter_map& recorded) {
  parameter_map m = take(recorded, {"block_length", "max_blocks", "add_block_threshold",
                                    "activation_threshold", "threshold"});
  const auto text = [&](const char* name) { return std::get<std::string>(recorded.at(name)); };
  m["variant"] = text("preset");
  std::string confidence = text("confidence");
  std::ranges::replace(confidence, ' ', '_');
  m["confidence"] = confidence;
  if (!recorded.contains("max_blocks")) m["max_blocks"] = 0;
  const auto stop = recorded.find("stop_ids");
  m["stop"] = stop == recorded.end() ? std::string("none") : stop->second;
  return m;
}

method_info info() {
  method_info m;
  m.name = "multi_block";
  m.summary = "several unfinished blocks in one pass; KV writes cost no pass of their own";
  m.paper = "D2F (2025), arXiv 2508.09192; MultiBD (2026), arXiv 2606.29215";
  m.source = "methods/multi_block";
  m.pace = "consecutive blocks, each opened while the last is current";
  m.rows = "complete blocks not yet cached, and all open blocks";
  m.shape = {row_extent::block};
  m.keys = "a block and what lies before it";
  m.cache = "complete blocks, stored by a pass that unmasks others";
  m.unmask = "threshold, and the best of a block whose predecessor is nearly finished";
  const std::string d2f = "D2F-eval eval_llada.py", dfx = "Diffulex multi_bd";
  m.parameters = {
      choice_spec(
          "variant", {"model", "d2f", "diffulex"},
          "d2f: blocks from the prompt's end, bidirectional models; diffulex: from position "
          "0, block-causal models; model: by the model",
          d2f + "; " + dfx),
      block_length_spec(32, 1, 4096, "tokens per block", d2f),
      integer_spec("max_blocks", 0, 0, 4096, "blocks not cached at once; 0: any number", dfx),
      real_spec("add_block_threshold", 0.1, 0, 2,
                "a block opens when this share of the last one is unmasked", d2f),
      real_spec("activation_threshold", 0.95, 0, 1,
                "from this share of its predecessor on a block unmasks a token in every pass", d2f),
      real_spec("threshold", 0.9, 0, 2, "unmask masks of more than this probability", d2f),
      choice_spec("confidence", {"probability", "margin", "negative_entropy"},
                  "what ranks the masks where none passes", d2f),
      text_spec("stop", "model", "stop ids: 'model', 'none' or ids with commas", d2f)};
  m.knobs = {{"threshold", "decided_early", "1"}};
  const auto preset = [](std::int64_t block, double add, double threshold) {
    return parameter_map{{"variant", std::string("d2f")},
                         {"block_length", block},
                         {"add_block_threshold", add},
                         {"activation_threshold", 0.95},
                         {"threshold", threshold}};
  };
  m.presets["d2f-llada-gsm8k"] = preset(64, 0.7, 0.9);
  m.presets["d2f-llada-mbpp"] = preset(32, 0.9, 0.9);
  m.presets["d2f-llada-math"] = m.presets["d2f-llada-humaneval"] = preset(32, 0.1, 0.9);
  m.presets["d2f-dream-gsm8k"] = preset(32, 0.1, 0.9);
  m.presets["d2f-dream-mbpp"] = preset(48, 0.1, 0.9);
  m.presets["d2f-dream-math"] = preset(64, 0.1, 0.9);
  m.presets["d2f-dream-humaneval"] = preset(32, 0.9, 0.95);
  m.presets["diffulex"] = {
      {"variant", std::string("diffulex")}, {"max_blocks", 4}, {"activation_threshold", 0.9}};
  m.presets["diffulex-sdar"] = {{"variant", std::string("diffulex")},
                                {"max_blocks", 1},
                                {"activation_threshold", 0.9},
                                {"threshold", 0.95}};
  m.check = check;
  m.make = make;
  return m;
}

const register_method registered(info(), {{"multi_block", official}});

}  // namespace
}  // namespace unmask::multi_block
