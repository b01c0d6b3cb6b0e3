// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/expected_time.h"

#include <algorithm>
#include <cmath>

#include "harness/model/share.h"

namespace unmask {
namespace {

constexpr double bf16 = 2, f32 = 4;
// A forward has these beside the model's own kernels: those that select rows and decide, and the host's
// waits.
constexpr double small_kernels = 12, host_waits = 2;
// As an H100 showed (results/gpu): what attention finds out before it copies, and what writing a result of the
// experts' wide tiles takes, in clocks of a multiprocessor; they are taken from 96 rows of an expert on.
constexpr double look_up = 2e-6, result_clocks = 0.58, wide_rows = 96;

struct forward {
  double sequences, rows, keys, candidates;  // rows, keys, candidates: of a sequence
  double late_rows = 0;                      // of those rows, behind layer narrows_at; 0: all
  std::int32_t narrows_at = 0;
};

struct rank_links {
  std::int32_t ranks = 1;
  double element = f32;  // bytes of one that travels
};

// Adds up the kernels of one forward.
class forward_time {
 public:
  // `c`: the sizes of one rank.
  forward_time(const model_config& c, const rank_links& ranks, const device_ceilings& d)
      : c_(c), ranks_(ranks), d_(d) {}

  // rows x columns outputs of `depth` products each; weights are read once, or for every expert. Those
  // of experts are a kernel of ours.
  void product(double rows, double columns, double depth, double experts = 1) {
    add(2 * rows * columns * depth, (experts * columns * depth + rows * (depth + columns)) * bf16,
        experts > 1 ? own_products() : d_.products);
    if (experts > 1 && d_.wgmma && rows >= wide_rows * experts) {
      seconds += rows * columns * result_clocks / (d_.multiprocessors * d_.clock);
    }
  }
  void stream(double elements, double bytes_each) { add(0, elements * bytes_each, d_.products); }
  void attention(const forward& f, double rows) {
    const double width = double(c_.heads) * c_.head_dim;
    add(4 * rows * f.keys * width,
        (f.sequences * f.keys * 2 * c_.kv_heads * c_.head_dim + 2 * rows * width) * bf16,
        own_products());
    seconds += look_up;
    if (f.keys > 512) small(1);  // merges, or finds nothing to merge
  }
  void feed_forward(double rows, bool routed) {
    const moe_config& m = c_.moe;
    stream(rows * c_.hidden, f32 + bf16);
    if (!routed) return gated(rows, c_.feed_forward, 1);
    const double experts = m.experts, chosen = m.experts_per_token;
    // Experts that rows reach when they choose at random.
    const double reached = experts * (1 - std::pow(1 - chosen / experts, rows));
    product(rows, experts, c_.hidden);
    stream(rows * experts, f32);  // the choice
    stream(rows * chosen, f32);   // the plan: which expert takes which row
    gated(rows * chosen, m.hidden, reached);
    if (m.shared_experts > 0) gated(rows, double(m.hidden) * m.shared_experts, 1);
    stream(rows * c_.hidden, chosen * bf16 + 2 * f32);
  }
  void layer(const forward& f, double enter, double stay, bool routed) {
    const double q = double(c_.heads) * c_.head_dim, k = double(c_.kv_heads) * c_.head_dim;
    stream(enter * c_.hidden, f32 + bf16);
    product(enter, q + 2 * k, c_.hidden);
    stream(enter * (2 * q + 5 * k), bf16);
    attention(f, stay);
    product(stay, c_.hidden, q);
    sum_over_ranks(stay);
    feed_forward(stay, routed);
    sum_over_ranks(stay);
  }
  // What each rank found of its part of the vocabulary comes to all.
  void head_over_ranks(double candidates) {
    if (ranks_.ranks < 2) return;
    seconds += gathered_across(d_, ranks_.ranks, candidates * head_state_bytes).seconds;
    stream(candidates * ranks_.ranks, head_state_bytes);
  }
  void small(double kernels) { seconds += kernels * (d_.shortest + d_.gap); }

  double seconds = 0;

 private:
  // The parts of all ranks come and are added to the residual stream.
  void sum_over_ranks(double rows) {
    if (ranks_.ranks < 2) return;
    const double elements = rows * c_.hidden;
    const link_time by_link = summed_across(d_, ranks_.ranks, elements, ranks_.element);
    seconds += by_link.seconds;
    if (by_link.two_shots) stream(elements, ranks_.element + f32 / ranks_.ranks);  // a stretch
    stream(elements, (by_link.two_shots ? f32 : ranks_.ranks * ranks_.element) + 2 * f32);
  }
  // silu(x W_g) * (x W_u), then W_d.
  void gated(double rows, double width, double experts) {
    product(rows, 2 * width, c_.hidden, experts);
    stream(rows * width, 3 * bf16);
    product(rows, c_.hidden, width, experts);
  }
  void add(double operations, double bytes, double products) {
    seconds += std::max({operations / products, bytes / d_.copy, d_.shortest}) + d_.gap;
  }
  // FLOP/s of kernels of ours, which know no faster instructions than wgmma.
  double own_products() const { return d_.wgmma ? d_.products : d_.products * d_.mma_share; }

  const model_config& c_;
  rank_links ranks_;
  const device_ceilings& d_;
};

// `c`: the sizes of one rank.
double seconds_of(const model_config& c, const rank_links& ranks, const forward& f,
                  const device_ceilings& d) {
  forward_time t(c, ranks, d);
  const double rows = f.sequences * f.rows;
  const double late = f.late_rows > 0 ? f.sequences * f.late_rows : rows;
  const std::int32_t dense = c.moe.experts > 0 ? c.moe.first_dense_layers : c.layers;
  for (std::int32_t l = 0; l < c.layers; ++l) {
    // The layer that drops rows has projected all of them before.
    t.layer(f, l <= f.narrows_at ? rows : late, l < f.narrows_at ? rows : late, l >= dense);
  }
  if (f.candidates > 0) {
    t.product(f.sequences * f.candidates, c.vocabulary, c.hidden);
    t.stream(f.sequences * f.candidates * c.vocabulary, f32);
    t.head_over_ranks(f.sequences * f.candidates);
  }
  t.small(small_kernels);
  return t.seconds + host_waits * d.wait;
}

class card_cost final : public cost_model {
 public:
  card_cost(const model_config& model, const rank_links& ranks, const device_ceilings& device)
      : share_(largest_share(model, ranks.ranks)), ranks_(ranks), device_(device) {}

  double seconds(const forward_shape& f) const override {
    const double requests = std::max<std::int32_t>(f.requests, 1);
    const double rows = static_cast<double>(f.rows) / requests;
    return seconds_of(share_, ranks_,
                      {requests, rows, static_cast<double>(f.context) / requests, rows / 2},
                      device_);
  }

 private:
  model_config share_;
  rank_links ranks_;
  device_ceilings device_;
};

}  // namespace

double fact_or(const method_info& method, const parameter_map& given, pace_fact fact,
               double fallback) {
  const auto spec = std::ranges::find(method.parameters, fact, &parameter_spec::fact);
  if (spec == method.parameters.end()) return fallback;
  const auto found = given.find(spec->name);
  const auto* whole = found == given.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  return whole != nullptr && *whole > 0 ? static_cast<double>(*whole) : fallback;
}

run_work work_of(const model_config& model, const method_info& method, const parameters& given,
                 run_work run, const row_traits& of_rows) {
  constexpr double usual_block = 32, usual_chunk = 8;
  const double block = std::min(fact_or(method, given.values(), pace_fact::block_length,
                                        model.block > 0 ? model.block : usual_block),
                                run.generated);
  const row_shape& shape = method.shape;
  double rows = 1;
  switch (shape.extent) {
    case row_extent::canvas:
      rows = run.prompt + run.generated;
      break;
    case row_extent::answer:
      rows = run.generated;
      break;
    case row_extent::block:
      rows = block;
      break;
    case row_extent::chunk:
      rows = fact_or(method, given.values(), pace_fact::chunk, usual_chunk);
      break;
    case row_extent::token:
      break;
  }
  if (run.forwards <= 0) run.forwards = run.generated;
  run.rows = std::max(1.0, rows * shape.share);
  if (!of_rows.narrows_at.empty()) {
    run.narrows_at = of_rows.narrows_at.back();
    run.late_rows = std::max(1.0, run.rows * of_rows.keeps);
  }
  // Masks of the block in work, half of them decided on average; a token decides itself.
  run.candidates =
      shape.extent == row_extent::token ? 1 : std::min(run.rows, std::max(1.0, block / 2));
  const double blocks = block > 0 ? std::ceil(run.generated / block) : 1;
  if (shape.refreshes) run.full_forwards = std::min(blocks, run.forwards);
  run.prefills = shape.extent != row_extent::canvas && !shape.refreshes;
  return run;
}

model_config largest_share(const model_config& model, std::int32_t ranks) {
  model_config largest = model;
  if (ranks < 2) return largest;
  largest.heads = largest.kv_heads = largest.feed_forward = largest.moe.hidden = 0;
  largest.vocabulary = 0;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const model_share share = share_of(rank, ranks, 0);
    const model_config local = local_config(model, share);
    const auto grow = [](std::int32_t& size, std::int64_t by) {
      size = std::max(size, static_cast<std::int32_t>(by));
    };
    grow(largest.heads, local.heads);
    grow(largest.kv_heads, local.kv_heads);
    grow(largest.feed_forward, width_of(model.feed_forward, share).size());
    grow(largest.moe.hidden, width_of(model.moe.hidden, share).size());
    grow(largest.vocabulary, tokens_of(model.vocabulary, share).size());
  }
  return largest;
}

double expected_seconds(const model_config& whole, const run_work& run, const device_ceilings& d) {
  const model_config c = largest_share(whole, run.ranks);
  const rank_links ranks{run.ranks, run.sum_element};
  const double batch = std::clamp(run.batch, 1.0, std::max(1.0, run.answers));
  const double length = run.prompt + run.generated;
  const double keys = run.prompt + run.generated / (run.prefills ? 2 : 1);
  const double candidates = run.candidates > 0 ? run.candidates : run.rows / 2;
  double answer =
      (run.forwards - run.full_forwards) *
          seconds_of(c, ranks, {batch, run.rows, keys, candidates, run.late_rows, run.narrows_at},
                     d) +
      run.full_forwards * seconds_of(c, ranks, {batch, length, length, candidates}, d);
  if (run.prefills && run.prompt > 0) {
    answer += seconds_of(c, ranks, {batch, run.prompt, run.prompt, 0}, d);
  }
  return std::ceil(run.answers / batch) * answer;
}

double sum_element_of(const run_keys& run) {
  return run.sums == "bf16" ? bf16 : f32;
}

std::shared_ptr<const cost_model> cost_of_card(const model_config& model, const run_keys& run,
                                               const device_ceilings& device) {
  return std::make_shared<card_cost>(
      model, rank_links{static_cast<std::int32_t>(run.ranks), sum_element_of(run)}, device);
}

}  // namespace unmask
