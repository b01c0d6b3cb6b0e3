// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sparse-dLLM's selection of keys under block diffusion: for each block, after `delay` forwards
// with all keys, every layer keeps the prompt slots that the block's queries score highest; the
// block's later forwards see those, the answer so far and the block. Nothing is evicted: the next
// block chooses anew. Nobody has published this.
#include <algorithm>

#include "kernels/shared_vector.h"
#include "methods/parts/block_parameters.h"
#include "methods/parts/specs.h"
#include "methods/sparse_dllm/slot_ranking.h"

namespace unmask {
namespace {

struct prompt_selection {
  double retention_ratio = 0.5;
  std::int32_t kernel_size = 3;
  bool max_pooling = true;
  std::int32_t delay = 1;
  bool whole_history = false;  // finished blocks are candidates like the prompt
  bool sparse_commit = false;  // the commit forward sees the kept keys only
};

// Explicit lists of slots, ascending, per layer. Slots equal positions.
class prompt_keys final : public key_policy {
 public:
  prompt_keys(std::int32_t block, prompt_selection s)
      : key_policy(block, {true}), settings_(s), ranking_(s.kernel_size, s.max_pooling) {}

  void choose(const layer_rows& layer, const paged_kv& cache) override {
    const batch& b = layer.state;
    const step_choice& plan = layer.plan;
    if (layer.layer == 0) open_step(b, plan);
    if (!ranking_.empty()) {
      ranking_.rank(layer.layer, b, layer.q, first_, last_, cache, keep_);
    }
    if (!lists_) return;
    const std::vector<std::vector<std::int32_t>>& kept =
        kept_[static_cast<std::size_t>(layer.layer)];
    begin_.assign(1, 0);
    slots_.clear();
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      const auto i = static_cast<std::size_t>(s);
      const sequence_step& step = plan.of[i];
      if (step.active) {
        if (sparse_[i]) slots_.insert(slots_.end(), kept[i].begin(), kept[i].end());
        for (std::int32_t p = sparse_[i] ? scored_[i] : 0; p < step.kv_length; ++p) {
          slots_.push_back(p);
        }
      }
      begin_.push_back(static_cast<std::int32_t>(slots_.size()));
    }
  }

  // Listed slots ascend and equal positions.
  layer_keys select(const batch& b, const step_choice& plan, std::int32_t layer,
                    const std::int32_t* kv_length) const override {
    layer_keys keys = key_policy::select(b, plan, layer, kv_length);
    if (!lists_) return keys;
    keys.set.key_begin = begin_.data();
    keys.set.key_slot = slots_.data();
    return keys;
  }

 private:
  // Which sequences choose in this forward and which see their choice. A block is known by its
  // first position and by the forwards the request has made.
  void open_step(const batch& b, const step_choice& plan) {
    const auto places = static_cast<std::size_t>(b.capacity());
    if (kept_.empty()) {
      kept_.assign(static_cast<std::size_t>(b.model().layers),
                   std::vector<std::vector<std::int32_t>>(places));
      block_.resize(places);
    }
    take_chosen();
    for (auto* list : {&first_, &last_, &keep_, &scored_}) list->assign(places, 0);
    sparse_.assign(places, 0);
    chooses_.assign(places, 0);
    ranking_.clear();
    lists_ = false;
    std::int32_t row = 0;
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      const auto i = static_cast<std::size_t>(s);
      const sequence_step& step = plan.of[i];
      if (step.active) {
        look_at(b, s, step, row);
        row += step.last - step.first;
      }
      ranking_.end_sequence();
    }
  }

  // What the forward before this one chose: it has been waited for.
  void take_chosen() {
    for (std::size_t l = 0; l < kept_.size(); ++l) {
      for (std::size_t s = 0; s < chooses_.size(); ++s) {
        if (chooses_[s] == 0) continue;
        const op::list_kept of = ranking_.kept(static_cast<std::int32_t>(l));
        kept_[l][s].clear();
        for (std::int32_t t = of.top_begin[s]; t < of.top_begin[s + 1]; ++t) {
          kept_[l][s].push_back(of.slots[of.begin[s] + of.top[t]]);
        }
        std::sort(kept_[l][s].begin(), kept_[l][s].end());
      }
    }
  }

  void look_at(const batch& b, std::int32_t s, const sequence_step& step, std::int32_t row) {
    const auto i = static_cast<std::size_t>(s);
    progress& p = block_[i];
    // The prefill begins a request, whatever held the place before; and so does a first forward.
    if (step.what == forward_kind::prefill || b.at(s).step == 0) p = {};
    if (step.what == forward_kind::prefill) return;
    if (p.first != step.first) p = {step.first, 0, false};
    const std::int32_t scored =
        settings_.whole_history ? step.first : std::min(step.first, b.at(s).prompt_length);
    const bool commit = step.what == forward_kind::commit;
    if (p.chosen && (!commit || settings_.sparse_commit)) {
      sparse_[i] = 1;
      scored_[i] = scored;
      lists_ = true;
    } else if (!commit && !step.recompute && p.made == settings_.delay && scored > 0) {
      chooses_[i] = 1;
      lists_ = true;
      p.chosen = true;
      ranking_.add(0, scored);
      keep_[i] = retained(scored, settings_.retention_ratio);
      first_[i] = row;
      last_[i] = row + step.last - step.first;
    }
    if (!commit && !step.recompute) ++p.made;
  }

  struct progress {
    std::int32_t first = -1;  // of the block
    std::int32_t made = 0;    // denoising forwards
    bool chosen = false;
  };
  prompt_selection settings_;
  slot_ranking ranking_;
  std::vector<progress> block_;                               // [S]
  std::vector<std::vector<std::vector<std::int32_t>>> kept_;  // [layer][S] ascending
  std::vector<std::int32_t> first_, last_, keep_, scored_;    // [S]
  std::vector<std::uint8_t> sparse_, chooses_;                // [S]
  shared_vector<std::int32_t> begin_, slots_;
  bool lists_ = false;
};

recipe make_sparse_blocks(const model_config& model, const parameters& p) {
  prompt_selection k;
  k.retention_ratio = p.real("retention_ratio");
  k.kernel_size =
      p.text("pooling") == "none" ? 0 : static_cast<std::int32_t>(p.integer("kernel_size"));
  k.max_pooling = p.text("pooling") == "max";
  k.delay = static_cast<std::int32_t>(p.integer("delay"));
  k.whole_history = p.text("candidates") == "history";
  k.sparse_commit = p.text("commit_keys") == "kept";
  block_settings s = block_settings_of("sparse_blocks", model, p);
  recipe r;
  r.keys = std::make_unique<prompt_keys>(s.block_length, k);
  r.pace = std::make_unique<block_pace>(std::move(s));
  r.rows = std::make_unique<row_policy>();
  r.cache = std::make_unique<append_cache>();
  set_block_rule(model, p, r);
  return r;
}

void check_sparse_blocks(const model_config& model, const parameters& p) {
  check_block_model("sparse_blocks", model, p);
  if (p.integer("kernel_size") % 2 == 0) {
    throw usage_error("sparse_blocks: kernel_size must be odd, not " +
                      std::to_string(p.integer("kernel_size")));
  }
}

method_info sparse_blocks_info() {
  method_info m;
  m.name = "sparse_blocks";
  m.summary = "block diffusion that sees only the prompt keys its block scores highest";
  m.paper = "unpublished combination: SDAR / LMDeploy blocks, Sparse-dLLM (Song et al., 2025) keys";
  m.source = "methods/combinations/sparse_blocks";
  m.pace = "block: prefill, denoise, write KV";
  m.rows = "whole block";
  m.shape = {row_extent::block};
  m.keys = "top share of the prompt per layer and block, answer so far, block";
  m.cache = "KV write pass";
  m.unmask = "threshold, static count or sequential";
  const std::string paper = "Sparse-dLLM Alg. 1", ours = "not in the paper";
  m.knobs = {{"retention_ratio", "keys_hidden", "1"}};
  m.parameters = block_parameters(0.9);
  append(m.parameters,
         {real_spec("retention_ratio", 0.5, 0, 1, "share r of the candidates that is seen", paper),
          integer_spec("kernel_size", 3, 1, 255, "window of the pooling over scores; odd", paper),
          choice_spec("pooling", {"max", "avg", "none"}, "of the scores", "Sparse-dLLM Table 8"),
          integer_spec("delay", 1, 0, 4096,
                       "passes of a block before the one that chooses, all with every key",
                       "Sparse-dLLM Table 3"),
          choice_spec("candidates", {"prompt", "history"},
                      "who may be left out: the prompt, or finished blocks as well", ours),
          choice_spec("commit_keys", {"all", "kept"}, "keys of the KV write pass", ours)});
  m.check = check_sparse_blocks;
  m.make = make_sparse_blocks;
  return m;
}

const register_method registered(sparse_blocks_info());

}  // namespace
}  // namespace unmask
