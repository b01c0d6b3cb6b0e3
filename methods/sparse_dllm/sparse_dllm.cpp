// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sparse-dLLM (Song et al., 2025): once per block, after `delay` full forwards, each layer keeps
// the K/V that the block's queries score highest and evicts the rest; the block is then decoded
// against what was kept. Inside a block, step i is in state
//   0  i <  delay  full forward, nothing kept
//   1  i == delay  full forward with dense attention, each layer keeps its selection
//   2  i >  delay  forward of the block's rows over [kept; block]
#include <algorithm>
#include <utility>

#include "kernels/shared_vector.h"
#include "methods/parts/common.h"
#include "methods/parts/dropping_pace.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"
#include "methods/sparse_dllm/kernels/eviction.h"
#include "methods/sparse_dllm/slot_ranking.h"

namespace unmask {
namespace {

struct eviction_settings {
  double retention_ratio = 0.5;
  std::int32_t kernel_size = 3;  // 0: no pooling
  bool max_pooling = true;
  std::int32_t delay = 1;
  bool prefix_only = false;
  bool random = false;             // a control: kept positions are drawn
  std::int32_t block_length = 32;  // 0: the whole canvas
};

// Kept positions of a sequence: selected ones and, with prefix eviction, the whole suffix.
struct kept_counts {
  std::int32_t selected = 0, suffix = 0;
  std::int32_t all() const { return selected + suffix; }
};

kept_counts kept_of(const eviction_settings& e, std::int32_t length, const sequence_step& step) {
  const std::int32_t suffix = length - step.block_last;
  const std::int32_t scored = step.block_first + (e.prefix_only ? 0 : suffix);
  return {retained(scored, e.retention_ratio), e.prefix_only ? suffix : 0};
}

// What the cache and the keys of one recipe share.
struct eviction_state {
  eviction_settings settings;
  shared_vector<std::int32_t> key_length;   // [S] keys that this forward sees
  std::shared_ptr<active_suffixes> active;  // null: no mask is dropped
};

// Full forwards run over one scratch shared by all layers; only what survives has slots of its own:
// [0, kept) in descending order of score, then the block's rows.
class evicting_cache final : public cache_policy {
 public:
  explicit evicting_cache(std::shared_ptr<eviction_state> state)
      : cache_policy({true}),
        state_(std::move(state)),
        settings_(state_->settings),
        ranking_(settings_.kernel_size, settings_.max_pooling, settings_.random) {}

  // The first block keeps the most: with every later one a position that was kept, or a share of
  // one, is scored with the rest.
  kv_storage storage(std::int32_t prompt, std::int32_t length) const override {
    const std::int32_t canvas = length - prompt;
    sequence_step first;
    first.block_first = prompt;
    first.block_last =
        prompt + (settings_.block_length > 0 ? std::min(settings_.block_length, canvas) : canvas);
    const std::int32_t kept = kept_of(settings_, length, first).all();
    return {kept + first.block_last - first.block_first, length};
  }

  // Full forwards see every position; the others what was kept and the block.
  bool prepare(const batch& b, const step_choice& plan, row_lists& rows, kv_cache& cache) override {
    const std::int32_t* begin = rows.begin.as<std::int32_t>();
    const std::int32_t* position = rows.position.as<std::int32_t>();
    std::int32_t* slot = rows.slot.as<std::int32_t>();
    state_->key_length.assign(plan.of.size(), 0);
    bool evicts = false;
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
      if (!step.active) continue;
      const std::int32_t all = step.kv_length;
      const bool full = step.step <= settings_.delay;
      const std::int32_t kept = full ? 0 : kept_of(settings_, all, step).all();
      const std::int32_t shift = full ? 0 : kept - step.block_first;
      cache.use_scratch(s, full);
      rows.slots_differ = rows.slots_differ || shift != 0 || all != b.at(s).length;
      std::int32_t behind = step.block_last;  // what stays there lies side by side
      for (std::int32_t r = begin[s]; r < begin[s + 1]; ++r) {
        slot[r] = position[r] < step.block_last ? position[r] + shift : behind++;
      }
      state_->key_length[static_cast<std::size_t>(s)] =
          full ? all : kept + step.block_last - step.block_first;
      evicts = evicts || step.step == settings_.delay;
    }
    return evicts;
  }

  // recipe_views::slot_positions.
  std::vector<std::int32_t> slot_positions(const step_choice& plan, std::int32_t layer,
                                           std::int32_t s) const {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) return {};
    if (step.step <= settings_.delay) {
      return state_->active == nullptr ? std::vector<std::int32_t>()
                                       : slots_of(state_->active)(plan, layer, s);
    }
    return kept_position_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(s)];
  }

  // What the layers keep is the operations' own until the forward is over.
  void after_attention(const layer_rows& layer, kv_cache& cache) override {
    const batch& b = layer.state;
    const auto at = static_cast<std::size_t>(layer.layer);
    if (layer.layer == 0) list_scored(layer);
    ranking_.rank(layer.layer, b, layer.q, first_, last_, cache.layer(layer.layer), selected_);
    kept_[at].resize(static_cast<std::size_t>(kept_begin_.back()));
    op::list_kept list = ranking_.kept(layer.layer);
    list.suffix = suffix_.data();
    list.kept_begin = kept_begin_.data();
    list.kept = kept_[at].data();
    b.backend().run(list);
    b.backend().run(op::kv_copy{b.capacity(), kept_begin_.data(), kept_[at].data(),
                                cache.layer(layer.layer), cache.stored(layer.layer)});
    evicting_ = true;
  }

  void settle(batch& b, const step_choice& plan) override {
    if (!std::exchange(evicting_, false)) return;
    b.backend().synchronize();
    for (std::size_t l = 0; l < kept_.size(); ++l) {
      kept_position_[l].resize(plan.of.size());
      for (std::size_t s = 0; s < plan.of.size(); ++s) {
        const sequence_step& step = plan.of[s];
        if (!step.active || step.step != settings_.delay) continue;
        kept_position_[l][s].assign(kept_[l].begin() + kept_begin_[s],
                                    kept_[l].begin() + kept_begin_[s + 1]);
        if (state_->active == nullptr) continue;
        const active_suffix& active = state_->active->at(static_cast<std::int32_t>(s));
        for (std::int32_t& slot : kept_position_[l][s]) {
          if (slot >= active.block_last) {
            slot = active.kept[static_cast<std::size_t>(slot - active.block_last)];
          }
        }
      }
    }
  }

 private:
  // Positions scored for eviction: prefix, then suffix, in order (F of the paper); and the rows of
  // the block, whose mean query scores them.
  void list_scored(const layer_rows& layer) {
    const batch& b = layer.state;
    const auto places = static_cast<std::size_t>(b.capacity());
    for (auto* list : {&first_, &last_, &selected_}) list->assign(places, 0);
    suffix_.assign(places, 0);
    kept_begin_.assign(1, 0);
    kept_.resize(static_cast<std::size_t>(b.model().layers));
    kept_position_.resize(kept_.size());
    ranking_.clear();
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      const auto i = static_cast<std::size_t>(s);
      const sequence_step& step = layer.plan.of[i];
      if (step.active && step.step == settings_.delay) {
        const std::int32_t length = step.kv_length;
        ranking_.add(0, step.block_first);
        if (!settings_.prefix_only) ranking_.add(step.block_last, length);
        first_[i] = layer.rows.row_begin[s] + step.block_first;
        last_[i] = layer.rows.row_begin[s] + step.block_last;
        const kept_counts n = kept_of(settings_, length, step);
        selected_[i] = n.selected;
        suffix_[i] = step.block_last;
        kept_begin_.push_back(kept_begin_.back() + n.all());
      } else {
        kept_begin_.push_back(kept_begin_.back());
      }
      ranking_.end_sequence();
    }
  }

  std::shared_ptr<eviction_state> state_;
  const eviction_settings& settings_;
  slot_ranking ranking_;
  std::vector<std::int32_t> first_, last_, selected_;
  shared_vector<std::int32_t> suffix_, kept_begin_;
  std::vector<shared_vector<std::int32_t>> kept_;  // of each layer, in the last eviction
  bool evicting_ = false;
  // [layer][S] positions in the slots from 0 on; for observers.
  std::vector<std::vector<std::vector<std::int32_t>>> kept_position_;
};

class kept_keys final : public key_policy {
 public:
  explicit kept_keys(std::shared_ptr<eviction_state> state) : state_(std::move(state)) {}
  layer_keys select(const batch&, const step_choice&, std::int32_t,
                    const std::int32_t*) const override {
    layer_keys keys;
    keys.set.kv_length = state_->key_length.data();
    return keys;
  }

 private:
  std::shared_ptr<eviction_state> state_;
};

recipe make_sparse_dllm(const model_config& model, const parameters& p) {
  const auto state = std::make_shared<eviction_state>();
  eviction_settings& e = state->settings;
  e.retention_ratio = p.real("retention_ratio");
  e.kernel_size =
      p.text("pooling") == "none" ? 0 : static_cast<std::int32_t>(p.integer("kernel_size"));
  e.max_pooling = p.text("pooling") == "max";
  e.delay = static_cast<std::int32_t>(p.integer("delay"));
  e.prefix_only = p.text("eviction") == "prefix";
  e.random = p.text("selection") == "random";
  e.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  recipe r;
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<kept_keys>(state);
  auto cache = std::make_unique<evicting_cache>(state);
  r.views.slot_positions = [of = cache.get()](const step_choice& plan, std::int32_t layer,
                                              std::int32_t place) {
    return of->slot_positions(plan, layer, place);
  };
  r.cache = std::move(cache);
  unmask_settings u = sampling_settings(model, p);
  u.gamma = static_cast<float>(p.real("gamma"));
  r.unmask = std::make_unique<ranked_unmask>(u);
  const auto steps = static_cast<std::int32_t>(p.integer("steps"));
  const auto tokens_per_step = static_cast<std::int32_t>(p.integer("tokens_per_step"));
  if (is_dream(model)) {
    dream_block_schedule::settings t;
    t.method = "sparse_dllm";
    t.steps = steps;
    t.tokens_per_step = tokens_per_step;
    t.block_length = e.block_length;
    t.eps = static_cast<float>(p.real("eps"));
    t.full_steps = e.delay + 1;
    r.pace = std::make_unique<dream_block_schedule>(t);
  } else {
    block_schedule::settings t;
    t.method = "sparse_dllm";
    t.steps = steps;
    t.tokens_per_step = tokens_per_step;
    t.block_length = e.block_length;
    t.partial = block_schedule::window::block;
    t.full_steps = e.delay + 1;
    t.until_clean = u.gamma > 0;
    r.pace = std::make_unique<block_schedule>(t);
  }
  if (p.text("dropout") == "none") return r;
  state->active = std::make_shared<active_suffixes>();
  r.rows = std::make_unique<active_rows>(state->active);
  r.pace =
      std::make_unique<dpad::dropping_pace>(std::move(r.pace), state->active, dpad::dropout_of(p));
  return r;
}

method_info sparse_dllm_info() {
  method_info m;
  m.name = "sparse_dllm";
  m.summary = "dynamic bidirectional KV eviction with a delayed sparse cache";
  m.paper = "Sparse-dLLM (Song et al., 2025)";
  m.source = "methods/sparse_dllm";
  m.pace = "block schedule";
  m.rows = "all for delay + 1 steps of a block, then the block";
  m.shape = {.extent = row_extent::block, .refreshes = true};
  m.keys = "all; then kept and block";
  m.cache = "top share of prefix and suffix by pooled query-key score, per layer and block";
  m.unmask = "top-n of the schedule; gamma when set";
  const std::string paper = "Sparse-dLLM Alg. 1", code = "Sparse-dLLM modeling_llada.py";
  m.knobs = {{"retention_ratio", "keys_hidden", "1"}};
  m.parameters = {
      real_spec("retention_ratio", 0.5, 0, 1, "share r of the scored KV that is kept", paper),
      integer_spec("kernel_size", 3, 1, 255, "window of the pooling over scores; odd", paper),
      choice_spec("pooling", {"max", "avg", "none"},
                  "max, avg (ablation; borders left out of the mean) or none",
                  "Sparse-dLLM Table 8"),
      integer_spec("delay", 1, 0, 4096,
                   "full passes of a block before the one that builds the cache",
                   "Sparse-dLLM Table 3"),
      choice_spec("eviction", {"bidirectional", "prefix"},
                  "evict from prefix and suffix, or from the prefix only", "Sparse-dLLM Table 4"),
      varying_at({"random"},
                 choice_spec("selection", {"score", "random"},
                             "what is kept: the best by score (the paper), or, as a control, "
                             "positions drawn anew by every layer",
                             paper)),
      entropy_bound_parameter()};
  append(m.parameters, dpad::dropout_parameters("none"));
  append(m.parameters, schedule_parameters());
  append(m.parameters, sampling_parameters());
  m.presets["official"] = {};
  m.presets["paper"] = {{"retention_ratio", 0.5}, {"kernel_size", 3}};
  // The evaluation of Dream samples.
  m.presets["official-dream"] = {{"temperature", 0.2}, {"top_p", 0.95}, {"alg", "entropy"}};
  m.check = [](const model_config& model, const parameters& p) {
    need_bidirectional("sparse_dllm", model);
    check_entropy_bound("sparse_dllm", is_dream(model), p);
    if (p.integer("kernel_size") % 2 == 0) {
      throw usage_error("sparse_dllm: kernel_size must be odd, not " +
                        std::to_string(p.integer("kernel_size")));
    }
  };
  m.make = make_sparse_dllm;
  return m;
}

// Sparse-dLLM opencompass/models/sparse_dllm/{llada_generate.py,dream/generation_utils.py}
parameter_map from_official(const parameter_map& recorded) {
  return take(recorded, {"steps", "block_length", "retention_ratio", "kernel_size", "pooling",
                         "delay", "eviction", "temperature", "alg", "eps"});
}

const register_method registered(sparse_dllm_info(), {{"sparse_dllm", from_official}});

}  // namespace
}  // namespace unmask
