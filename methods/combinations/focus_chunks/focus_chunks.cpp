// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// FOCUS's eviction under Optimus' pace: each forward takes a chunk of the block, and inside layer 1
// the masked rows of the chunk that will most likely not be decided now are dropped. Nobody has
// published this.
#include "kernels/rows.h"
#include "methods/focus/focus_eviction.h"
#include "methods/optimus/optimus_recipe.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

// What rows, keys and pace know in common beyond Optimus' own state.
struct focus_chunk_state {
  std::shared_ptr<optimus_state> chunks;
  std::shared_ptr<focus_budgets> budgets;
  // Slots that layers above 1 see: cached ones and those of the rows that stayed.
  tensor key_begin, key_slot, key_sequence;
  shared_vector<std::int32_t> zero;
};

class focus_chunk_pace final : public optimus_pace {
 public:
  explicit focus_chunk_pace(std::shared_ptr<focus_chunk_state> state)
      : optimus_pace(state->chunks), state_(std::move(state)) {}
  void start(batch& b, std::int32_t s) override {
    optimus_pace::start(b, s);
    state_->budgets->start(s);
  }
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override {
    state_->budgets->observe(s, step, outcome.taken);
    optimus_pace::observe(b, s, step, outcome);
  }

 private:
  std::shared_ptr<focus_chunk_state> state_;
};

class focus_chunk_rows final : public row_policy, public ranked_by_activations {
 public:
  explicit focus_chunk_rows(std::shared_ptr<focus_chunk_state> state)
      : row_policy({.narrows_at = focus_eviction::layers(), .keeps = 0.6}),
        state_(state),
        chunk_(state->chunks),
        eviction_(state->budgets) {}
  void rank_by(decision_order order) override { eviction_.rank_by(std::move(order)); }
  method_report eviction(std::int32_t s) const { return eviction_.report(s); }

  void select(const batch& b, const step_choice& plan, row_lists& rows) override {
    if (!state_->key_begin) {
      const backend& backend = b.backend();
      const std::int64_t places = b.capacity(), all = places * b.max_length();
      state_->key_begin = backend.allocate(dtype::i32, {places + 1}, memory_use::host_visible);
      state_->key_slot = backend.allocate(dtype::i32, {all}, memory_use::host_visible);
      state_->key_sequence = backend.allocate(dtype::i32, {all}, memory_use::host_visible);
      state_->zero.assign(static_cast<std::size_t>(places), 0);
    }
    chunk_.select(b, plan, rows);
  }

  // A dropped row wrote K/V in layers 0 and 1 only: the layers above must not see its slot, and
  // nothing of it settles.
  bool narrow(const batch& b, const step_choice& plan, std::int32_t layer, const tensor_view& q,
              const tensor_view& k, row_lists& rows, tensor& kept) override {
    const backend& backend = b.backend();
    optimus_state& chunks = *state_->chunks;
    if (layer == 1)
      backend.run(op::scatter_flags{rows.set(b.capacity()), nullptr, 0, chunks.visible});
    const bool dropped = eviction_.narrow(b, plan, layer, q, k, rows, kept);
    if (layer != 1) return dropped;
    backend.run(op::scatter_flags{rows.set(b.capacity()), nullptr, 1, chunks.visible});
    backend.run(op::compact{b.capacity(), chunks.visible, 1, state_->zero.data(),
                            chunks.kv_end.as<std::int32_t>(), state_->key_begin.as<std::int32_t>(),
                            state_->key_slot.as<std::int32_t>(),
                            state_->key_sequence.as<std::int32_t>()});
    if (dropped) {
      std::uint8_t* settles = chunks.settles.as<std::uint8_t>();
      const std::int32_t* from = kept.as<std::int32_t>();
      for (std::int32_t r = 0; r < rows.rows; ++r) settles[r] = settles[from[r]];
    }
    chunks.rows = rows;
    return dropped;
  }

 private:
  std::shared_ptr<focus_chunk_state> state_;
  optimus_rows chunk_;
  focus_eviction eviction_;
};

class focus_chunk_keys final : public optimus_keys {
 public:
  focus_chunk_keys(std::int32_t block, std::shared_ptr<focus_chunk_state> state)
      : optimus_keys(block, state->chunks), state_(std::move(state)) {}
  layer_keys select(const batch& b, const step_choice& plan, std::int32_t layer,
                    const std::int32_t* kv_length) const override {
    layer_keys keys = optimus_keys::select(b, plan, layer, kv_length);
    if (layer > 1) {
      keys.set.key_begin = state_->key_begin.as<std::int32_t>();
      keys.set.key_slot = state_->key_slot.as<std::int32_t>();
    }
    return keys;
  }

 private:
  std::shared_ptr<focus_chunk_state> state_;
};

recipe make_focus_chunks(const model_config& model, const parameters& p) {
  const auto state = std::make_shared<focus_chunk_state>();
  state->chunks = optimus_state_of("focus_chunks", model, p, true);
  // Masked rows leave no K/V behind here, so no kept row depends on a dropped one.
  focus_settings f = focus_settings_of(p);
  f.placeholder_integrity = false;
  state->budgets = std::make_shared<focus_budgets>(f);
  recipe r;
  r.pace = std::make_unique<focus_chunk_pace>(state);
  auto rows = std::make_unique<focus_chunk_rows>(state);
  r.views.reports["eviction"] = [of = rows.get()](std::int32_t place) {
    return of->eviction(place);
  };
  r.rows = std::move(rows);
  r.keys = std::make_unique<focus_chunk_keys>(state->chunks->settings.chunk.block, state);
  r.cache = std::make_unique<optimus_cache>(state->chunks);
  r.unmask = std::make_unique<optimus_unmask>(block_unmask_settings_of(model, p), state->chunks);
  return r;
}

std::vector<parameter_spec> focus_chunk_parameters() {
  std::vector<parameter_spec> all = optimus_parameters();
  for (parameter_spec& spec : focus_eviction_parameters()) all.push_back(std::move(spec));
  return all;
}

// K/V of a block's first forward stay useful only if that forward kept all its rows in all layers.
void check_focus_chunks(const model_config& model, const parameters& p) {
  check_optimus("focus_chunks", model, p);
  check_focus_eviction("focus_chunks", model, p);
  if (p.text("suffix_visible") == "stale") {
    throw usage_error(
        "focus_chunks: suffix_visible stale needs KV of masks in every layer, and evicted "
        "ones have none");
  }
}

method_info focus_chunks_info() {
  method_info m;
  m.name = "focus_chunks";
  m.summary =
      "Optimus' elastic chunks that evict, inside layer 1, masks unlikely to be unmasked now";
  m.paper = "unpublished combination: Optimus (arXiv 2605.24832) pace, FOCUS eviction";
  m.source = "methods/combinations/focus_chunks";
  m.pace = "elastic chunk: argmax of N(c) b / T(b c)";
  m.rows = "the chunk; after layer 1 its retained positions";
  m.shape = {row_extent::chunk};
  m.keys = "cached positions and the chunk, from layer 2 on its retained positions";
  m.cache = "a token is cached after one pass with its own id as input";
  m.unmask = "threshold among the retained masks, at least one per chunk";
  m.parameters = focus_chunk_parameters();
  m.knobs = {{"selection", "rows_dropped"}};
  m.presets["chunk8"] = {{"chunk", 8}};
  m.presets["bd32"] = {{"policy", "prefix_caching"}};
  m.check = check_focus_chunks;
  m.make = make_focus_chunks;
  // The profile times whole chunks: an alpha this large never evicts.
  m.calibrate = [](const model_config& model, const parameters& p, std::int32_t requests,
                   const step_timer& timer) {
    return calibrate_optimus(model, p, requests, timer, {{"alpha", 1024.0}});
  };
  return m;
}

const register_method registered(focus_chunks_info());

}  // namespace
}  // namespace unmask
