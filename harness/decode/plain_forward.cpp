// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/plain_forward.h"

#include <algorithm>
#include <numeric>

#include "harness/decode/step_loop.h"
#include "kernels/head.h"
#include "kernels/refused.h"
#include "kernels/shared_vector.h"

namespace unmask {
namespace {

class one_forward final : public pace_policy {
 public:
  std::int32_t canvas_length(const model_config&, const sequence_request& r) const override {
    return static_cast<std::int32_t>(r.prompt.size());
  }
  void start(batch&, std::int32_t) override {}
  sequence_step plan(const batch& b, std::int32_t s) override {
    sequence_step step;
    step.active = true;
    step.what = forward_kind::prefill;
    step.last = step.kv_length = step.candidate_first = step.candidate_last = b.at(s).length;
    return step;
  }
  void observe(batch& b, std::int32_t s, const sequence_step&, const step_outcome&) override {
    b.at(s).finished = true;
  }
};

class fixed_mask final : public key_policy {
 public:
  fixed_mask(mask_kind mask, std::int32_t block) : mask_(mask), block_(block) {}
  layer_keys select(const batch&, const step_choice&, std::int32_t,
                    const std::int32_t* kv_length) const override {
    return {{kv_length, nullptr, nullptr, mask_, block_}, {}, {}};
  }

 private:
  mask_kind mask_;
  std::int32_t block_;
};

class scratch_cache final : public cache_policy {
 public:
  kv_storage storage(std::int32_t, std::int32_t length) const override { return {0, length}; }
};

class nothing_decided final : public unmask_policy {
 public:
  void judge(const batch&, const step_choice&, const tensor_view&, const packed_matrix&,
             candidate_lists&) override {}
  void decide(const batch&, const step_choice&, candidate_lists&) override {}
};

class logits_of_rows final : public step_observer {
 public:
  logits_of_rows(const transformer& model, const std::vector<std::int32_t>& rows)
      : model_(model),
        rows_(rows.begin(), rows.end()),
        logits_(model.backend().allocate(
            dtype::f32, {static_cast<std::int64_t>(rows.size()), model.config().vocabulary},
            memory_use::host_visible)) {}
  void on_step(const step_view& step) override {
    const all_logits of_the_model;
    model_.backend().run(op::logits{step.head_input, model_.head(), rows_.data(), logits_});
  }
  const tensor& logits() const { return logits_; }

 private:
  const transformer& model_;
  shared_vector<std::int32_t> rows_;
  tensor logits_;
};

}  // namespace

tensor forward_rows(const transformer& model,
                    const std::vector<std::vector<std::int32_t>>& sequences, mask_kind mask,
                    std::int32_t block, const std::vector<std::int32_t>& rows,
                    const tensor_view& pictures,
                    const std::vector<std::array<std::int32_t, 2>>& grids) {
  recipe r;
  r.method = "plain_forward";
  r.pace = std::make_unique<one_forward>();
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<fixed_mask>(mask, block);
  r.cache = std::make_unique<scratch_cache>();
  r.unmask = std::make_unique<nothing_decided>();
  std::size_t longest = 0;
  for (const auto& tokens : sequences) longest = std::max(longest, tokens.size());
  step_loop loop(
      model, std::move(r),
      {static_cast<std::int32_t>(sequences.size()), static_cast<std::int32_t>(longest), 0, false,
       pictures.data != nullptr ? static_cast<std::int32_t>(pictures.rows()) : 0});
  logits_of_rows observer(model, rows);
  loop.observe(&observer);
  for (const auto& tokens : sequences) {
    sequence_request request{tokens, 0, 0};
    request.grids = grids;
    loop.admit(request, 0, pictures);
  }
  loop.step();
  model.backend().synchronize();
  return observer.logits();
}

tensor plain_forward(const transformer& model, const std::vector<std::int32_t>& tokens,
                     mask_kind mask, std::int32_t block, const tensor_view& pictures,
                     const std::vector<std::array<std::int32_t, 2>>& grids) {
  std::vector<std::int32_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  return forward_rows(model, {tokens}, mask, block, rows, pictures, grids);
}

}  // namespace unmask
