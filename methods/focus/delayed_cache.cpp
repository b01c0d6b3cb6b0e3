// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/focus/delayed_cache.h"
#include "kernels/rows.h"
#include "methods/focus/kernels/eviction.h"
#include "methods/parts/specs.h"

namespace unmask {

delayed_settings delayed_settings_of(const parameters& p, bool right_neighbour) {
  const std::string& commit = p.text("commit");
  return {right_neighbour,
          commit == "full"               ? commit_mode::full
          : commit == "frozen_then_full" ? commit_mode::frozen_then_full
                                         : commit_mode::frozen,
          p.text("keys") == "stored"};
}

parameter_spec delayed_keys_parameter() {
  return choice_spec(
      "keys", {"retained", "stored"},
      "cache slots that positions see: up to the last one still there (the published engine), or "
      "unmasked positions to the right of it too, whose KV is stored",
      "FOCUS's LMDeploy fork; FOCUS section 4.3");
}

void delayed_state::prepare(const batch& b) {
  if (frozen) return;
  const std::int64_t places = b.capacity();
  frozen = b.backend().allocate(dtype::u8, {places, b.max_length()}, memory_use::host_visible);
  extent_in = b.backend().allocate(dtype::i32, {places}, memory_use::host_visible);
  extent_out = b.backend().allocate(dtype::i32, {places}, memory_use::host_visible);
  first.assign(static_cast<std::size_t>(places), 0);
  last.assign(static_cast<std::size_t>(places), 0);
  started_first_.assign(static_cast<std::size_t>(places), 0);
  started_last_.assign(static_cast<std::size_t>(places), 0);
}

void delayed_state::clear_started(const batch& b, const tensor& flags) const {
  b.backend().run(
      op::fill_flags{b.capacity(), started_first_.data(), started_last_.data(), 0, flags});
}

void delayed_state::start(const batch& b, std::int32_t s) {
  prepare(b);
  std::ranges::fill(started_last_, 0);
  started_last_[static_cast<std::size_t>(s)] = b.max_length();
  clear_started(b, frozen);
}

namespace {

// Windows [first, last) of the sequences that `pick` names, empty for the others.
template <class Pick>
void write_windows(delayed_state& state, const step_choice& plan, Pick pick) {
  for (std::size_t s = 0; s < plan.of.size(); ++s) {
    const bool in = plan.of[s].active && pick(plan.of[s]);
    state.first[s] = in ? plan.of[s].first : 0;
    state.last[s] = in ? plan.of[s].last : 0;
  }
}

}  // namespace

void write_extents(const row_lists& rows, std::int32_t sequences, std::int32_t* end) {
  const std::int32_t* begin = rows.begin.as<std::int32_t>();
  const std::int32_t* position = rows.position.as<std::int32_t>();
  for (std::int32_t s = 0; s < sequences; ++s) {
    end[s] = begin[s + 1] > begin[s] ? position[begin[s + 1] - 1] + 1 : 0;
  }
}

// A block is never wholly frozen before its commit: the token decided last has not been an input
// yet. So there is always a row, and the first forward of a block, where nothing is frozen, takes
// all of them (the engine's warm-up).
void delayed_rows::select(const batch& b, const step_choice& plan, row_lists& rows) {
  delayed_state& state = *state_;
  const backend& backend = b.backend();
  const commit_mode mode = state.settings.commit;
  if (mode != commit_mode::frozen) {
    write_windows(state, plan, [mode](const sequence_step& step) {
      return step.what == forward_kind::commit && !step.recompute &&
             (mode == commit_mode::full || step.commit > 0);
    });
    backend.run(
        op::fill_flags{b.capacity(), state.first.data(), state.last.data(), 0, state.frozen});
  }
  rows.rows =
      backend.run(op::compact{b.capacity(), state.frozen, 0, plan.arrays.first, plan.arrays.last,
                              rows.begin.as<std::int32_t>(), rows.position.as<std::int32_t>(),
                              rows.sequence.as<std::int32_t>()});
  write_extents(rows, b.capacity(), state.extent_in.as<std::int32_t>());
  write_extents(rows, b.capacity(), state.extent_out.as<std::int32_t>());
  // What this forward's input freezes: decided there, hence computed with the final ids. It leaves
  // the rows from the next forward on. The prefill freezes nothing.
  write_windows(state, plan, [](const sequence_step& step) { return decodes_block(step); });
  backend.run(op::mark_kv_final{b.capacity(), b.state(), state.first.data(), state.last.data(),
                                state.settings.right_neighbour, state.frozen});
}

layer_keys delayed_keys::select(const batch& b, const step_choice& plan, std::int32_t layer,
                                const std::int32_t* kv_length) const {
  if (state_->settings.stored_keys) return key_policy::select(b, plan, layer, kv_length);
  return key_policy::select(b, plan, layer, state_->extent_out.as<std::int32_t>());
}

namespace {

recipe make_delayed(const std::string& name, const model_config& model, const parameters& p,
                    bool right_neighbour) {
  block_settings s = block_settings_of(name, model, p);
  const auto state = std::make_shared<delayed_state>(delayed_settings_of(p, right_neighbour));
  recipe r;
  r.keys = std::make_unique<delayed_keys>(s.block_length, state);
  r.pace = std::make_unique<delayed_pace>(std::move(s), state);
  r.rows = std::make_unique<delayed_rows>(state);
  r.cache = std::make_unique<append_cache>(/*keeps_decided=*/true);
  set_block_rule(model, p, r);
  return r;
}

method_info delayed_info(bool right_neighbour) {
  method_info m;
  m.name = right_neighbour ? "delayed_cache_plus" : "delayed_cache";
  m.summary =
      right_neighbour
          ? "block diffusion that caches an unmasked token once its neighbour is unmasked too"
          : "block diffusion that caches an unmasked token one pass later";
  m.paper = right_neighbour ? "FOCUS (DC+, neighbour-aware delayed cache)"
                            : "FOCUS (DC ablation); dKV-Cache (Ma et al., 2025)";
  m.source = "methods/focus";
  m.pace = "block: prefill, denoise, write KV";
  m.rows = "positions of the block not frozen yet";
  m.shape = {row_extent::block, 0.7};
  m.keys = "cache slots up to the last computed position";
  m.cache = right_neighbour ? "stored once it and its right neighbour were unmasked inputs"
                            : "stored once it was an unmasked input";
  m.unmask = "threshold, static count or sequential";
  m.parameters = block_parameters(0.9);
  m.knobs = {{"remasking", "decided_early", "low_confidence_static"}};
  for (parameter_spec& spec : engine_parameters()) m.parameters.push_back(std::move(spec));
  m.parameters.push_back(delayed_keys_parameter());
  m.presets["engine"] = {{"stop_in_prompt_block", false}};
  m.presets["paper"] = {{"stop_in_prompt_block", false}, {"commit", "full"}, {"keys", "stored"}};
  m.presets["hf"] = {{"loop", "hf"},       {"accept_compare", ">"},    {"sampler", "multinomial"},
                     {"mask_track", "id"}, {"partial_prefill", false}, {"commit", "full"},
                     {"commit_last", true}};
  m.presets["hf_argmax"] = with_argmax(m.presets["hf"]);
  const std::string name = m.name;
  m.check = [name](const model_config& model, const parameters& p) {
    check_block_model(name, model, p);
  };
  m.make = [name, right_neighbour](const model_config& model, const parameters& p) {
    return make_delayed(name, model, p, right_neighbour);
  };
  return m;
}

const register_method delayed_cache(delayed_info(false),
                                    {{"delayed_cache", official_delayed_cache}});
const register_method delayed_cache_plus(delayed_info(true),
                                         {{"delayed_cache_plus", official_delayed_cache}});

}  // namespace

parameter_map official_delayed_cache(const parameter_map& recorded) {
  parameter_map m = block_loop_settings(recorded);
  const bool hf = says(recorded, "preset", "hf");
  m["mask_track"] = std::string(hf ? "id" : "state");
  m["partial_prefill"] = !hf;
  m["commit_last"] = hf;
  const bool full = says(recorded, "commit", "full block forward");
  m["commit"] = std::string(full ? "full" : "frozen");
  return m;
}

}  // namespace unmask
