// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/cost_model/cost_model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/base/ranks/shots.h"
#include "harness/plan/expected_time.h"
#include "kernels/cuda/head_chunks.h"
#include "kernels/cuda/row_buckets.h"
#include "tests/cost_model/cost_kernels.h"

namespace unmask {
namespace {

using cost::launch;

constexpr double bf16 = 2, f32 = 4, i32 = 4;

// Instructions of a warp per element, from the loops of budget.json, which take 4 or 8 elements a
// lane; where the path that real widths take has no loop, counted in its source.
constexpr double norm_instructions = 6, silu_instructions = 85.0 / 8,
                 embed_instructions = 105.0 / 4, combine_instructions = 2.5,
                 round_instructions = 36;

// Adds launches to a step. What a launch costs beyond its busy time is known here: a kernel of a
// graph starts when the one before has drained; without a graph the host must have launched it.
class step_builder {
 public:
  step_builder(const device_ceilings& d, const cost_step& given, bool recorded)
      : d_(d), given_(given), recorded_(recorded) {}
  const cost_step& given() const { return given_; }

  void add(const std::string& kernel, double times, const launch& l) {
    if (times <= 0) return;
    double seconds = std::max(l.busy, d_.shortest) + d_.gap;
    const char* held_by = l.busy < d_.shortest ? "start" : l.held_by;
    if (!recorded_ && seconds < d_.launch) {
      seconds = d_.launch;
      held_by = "host";
    }
    auto at = std::find_if(step.kernels.begin(), step.kernels.end(),
                           [&](const kernel_cost& k) { return k.kernel == kernel; });
    if (at == step.kernels.end()) {
      step.kernels.push_back({kernel, 0, 0, 0, 0, 0, held_by});
      at = step.kernels.end() - 1;
    }
    at->launches += times;
    at->operations += times * l.operations;
    at->bytes += times * l.bytes;
    at->seconds += times * seconds;
    at->limit += times * l.limit;
    step.seconds += times * seconds;
    step.limit += times * l.limit;
  }
  void idle(const std::string& what, double times, double seconds) {
    if (times <= 0 || seconds <= 0) return;
    step.kernels.push_back({what, times, 0, 0, seconds, 0, "host"});
    step.seconds += seconds;
  }
  void product(const std::string& name, double times, double rows, double columns, double depth,
               double out, bool accumulate, double real_rows) {
    launch l = cost::library_product(rows, columns, depth, out, accumulate, d_);
    l.limit = cost::library_product(real_rows, columns, depth, out, accumulate, d_).limit;
    add(name, times, l);
  }
  // A newer kernel for few rows, whose bytes and limit are of the rows that are launched and of the real ones.
  void few_rows(const std::string& name, double times, launch l, double limit) {
    l.limit = limit;
    if (given_.early) l.busy -= cost::early_saving(d_);
    add(name, times, l);
  }
  // Into the residual stream.
  void sum(const std::string& name, double times, double rows, double columns, double depth,
           double real_rows) {
    if (!given_.newer || !given_.parts || !cost::takes_parts(rows, columns, depth, d_)) {
      product(name, times, rows, columns, depth, f32, true, real_rows);
      return;
    }
    few_rows(name, times, cost::few_parts_product(rows, columns, depth, true, d_),
             cost::few_parts_product(real_rows, columns, depth, true, d_).limit);
  }
  void stream(const std::string& name, double times, double bytes, double elements,
              double instructions) {
    add(name, times, cost::streaming(bytes, elements / 32 * instructions, d_));
  }

  step_cost step;

 private:
  const device_ceilings& d_;
  const cost_step& given_;
  bool recorded_;
};

struct layer_shape {
  double sequences, rows;  // rows: of all sequences, as launched
  double real_rows;        // without those that fill a graph's bucket
  double keys;
  double times;
};

void add_projection(step_builder& b, const cost_shape& c, const layer_shape& s,
                    const device_ceilings& d) {
  const double h = c.hidden, q = double(c.heads) * c.head_dim, k = double(c.kv_heads) * c.head_dim;
  b.stream("rms_norm", s.times, s.rows * h * (f32 + bf16) + h * f32, s.rows * h, norm_instructions);
  b.product("qkv product", s.times, s.rows, q + 2 * k, h, bf16, false, s.real_rows);
  b.add("rotate_and_store", s.times, cost::rotation(s.rows, c.heads, c.kv_heads, c.head_dim, d));
}

void add_attention(step_builder& b, const cost_shape& c, const layer_shape& s,
                   const device_ceilings& d) {
  double splits = 1;
  const double rows = s.real_rows / s.sequences;
  const cost::attention_way way = cost::way_of_attention(b.given().newer, s.sequences, rows, s.keys,
                                                         c.heads, c.kv_heads, c.head_dim, d);
  const launch attention = cost::attention_by(way, s.sequences, rows, s.keys, c.heads, c.kv_heads,
                                              c.head_dim, &splits, d);
  b.add("attention_tensor", s.times, attention);
  // Started where a sequence has more than 512 keys; of several one is taken to.
  const bool merges = way == cost::attention_way::tensor || way == cost::attention_way::refresh;
  b.add("attention_merge", merges && (s.keys > 512 || s.sequences > 1) ? s.times : 0,
        cost::attention_merge(s.real_rows, c.heads, c.head_dim, splits, d));
  b.sum("output product", s.times, s.rows, c.hidden, double(c.heads) * c.head_dim, s.real_rows);
}

void add_dense(step_builder& b, const cost_shape& c, const layer_shape& s, double width,
               const device_ceilings& d) {
  if (b.given().newer && cost::takes_gated(s.rows, width, d)) {
    b.few_rows("gate and up product", s.times, cost::few_rows_product(s.rows, width, c.hidden, d),
               cost::few_rows_product(s.real_rows, width, c.hidden, d).limit);
  } else {
    b.product("gate and up product", s.times, s.rows, 2 * width, c.hidden, bf16, false,
              s.real_rows);
    b.stream("silu_mul", s.times, s.rows * width * 3 * bf16, s.rows * width, silu_instructions);
  }
  b.sum("down product", s.times, s.rows, c.hidden, width, s.real_rows);
}

// A shared expert of the others' size is one of their product (transformer.cpp).
bool shares_product(const cost_shape& c) {
  return c.moe.shared_experts == 1;
}

void add_routed(step_builder& b, const cost_shape& c, const layer_shape& s,
                const device_ceilings& d) {
  const auto& m = c.moe;
  const double h = c.hidden, e = m.experts, per = m.experts_per_token, f = m.hidden;
  const double shared = shares_product(c) ? 1 : 0, all = per + shared;
  // The router as two bfloat16 parts, one over the other.
  b.product("router product", s.times, s.rows, 2 * e, h, f32, false, s.real_rows);
  b.stream("moe_choose", s.times, s.rows * (2 * e * f32 + 2 * all * f32 + (all + 1) * i32),
           s.rows * e, 6);  // the choice is read back, as is whose a row is
  // One block plans 1024 assignments.
  const double placing = s.rows * all * 2 * i32 + e * 2 * i32, more = s.rows * all > 1024;
  b.stream("moe_plan: count", more * s.times, s.rows * all * i32 + e * 2 * i32, 0, 0);
  b.stream("moe_plan", s.times, more > 0 ? e * 4 * i32 : placing, 0, 0);
  b.stream("moe_plan: place", more * s.times, placing, 0, 0);
  const bool roles = b.given().newer && cost::takes_wide_tiles(s.real_rows, per, e, shared, d);
  const char* name = roles ? "grouped_roles" : "grouped_tensor";
  b.add(name, s.times,
        cost::grouped_tensor(s.real_rows, per, e, shared, f, h, true, d, b.given().newer));
  b.add(name, s.times,
        cost::grouped_tensor(s.real_rows, per, e, shared, h, f, false, d, b.given().newer));
  b.stream("moe_combine", s.times, s.rows * h * (all * bf16 + 2 * f32), s.rows * h * all,
           combine_instructions);
}

// A sum over ranks: the parts of the others come by the links, and a kernel adds all of them to the
// residual stream. In two shots one kernel adds a stretch of them, and another all sums to the stream.
void add_sum(step_builder& b, const cost_shape& c, const layer_shape& s, const device_ceilings& d) {
  if (c.ranks < 2) return;
  const double n = c.ranks, elements = s.rows * c.hidden, bytes = elements * f32;
  const link_time by_link = summed_across(d, c.ranks, elements, f32);
  launch across;
  across.bytes = by_link.bytes;
  across.busy = by_link.seconds;
  across.limit = bytes_in_two_shots(s.real_rows * c.hidden, f32, n) / d.link;
  across.held_by = "links";
  b.add("across ranks", s.times, across);
  if (by_link.two_shots) b.stream("sum_ranks", s.times, bytes * (1 + 1 / n), elements, 1);
  const double added = by_link.two_shots ? 1 : n;
  b.stream("sum_ranks", s.times, bytes * (added + 2), elements * added, 1);
}

void add_feed_forward(step_builder& b, const cost_shape& c, const layer_shape& s, bool routed,
                      const device_ceilings& d) {
  b.stream("rms_norm", s.times, s.rows * c.hidden * (f32 + bf16) + c.hidden * f32,
           s.rows * c.hidden, norm_instructions);
  const double dense = routed ? double(c.moe.hidden) * c.moe.shared_experts : c.feed_forward;
  if (dense > 0 && !(routed && shares_product(c))) add_dense(b, c, s, dense, d);
  if (routed) add_routed(b, c, s, d);
}

// As ops/head.cu: groups of candidates times chunks of the vocabulary, and what is left of both.
void add_head(step_builder& b, const cost_shape& c, double candidates, const device_ceilings& d) {
  const double slices = std::ceil(c.vocabulary / double{cuda::head_slice});
  b.stream("to_bf16", 1, candidates * c.hidden * (f32 + bf16), candidates * c.hidden,
           round_instructions);
  if (b.given().newer && cost::takes_head_product(candidates, d)) {
    b.add("head product", 1, cost::head_product(candidates, c.vocabulary, c.hidden, d));
    b.add("head_merge", 1, cost::head_tiles_merge(candidates, c.vocabulary, d));
  } else {
    for (const cost::head_part& part : cost::head_parts(candidates, c.vocabulary, d)) {
      b.product("head product", part.times, part.rows, part.tokens, c.hidden, f32, false,
                part.rows);
      b.add("head_chunk", part.times, cost::head_fold(part.rows, part.tokens, b.given().newer, d));
    }
    b.stream("head_merge", 1, candidates * (slices * 56 + 64), candidates * slices, 139);
  }
  if (c.ranks < 2) return;
  const double n = c.ranks, bytes = candidates * head_state_bytes;
  const link_time by_link = gathered_across(d, c.ranks, bytes);
  launch across;
  across.bytes = by_link.bytes;
  across.busy = by_link.seconds;
  across.limit = by_link.bytes / d.link;
  across.held_by = "links";
  b.add("across ranks", 1, across);
  b.stream("head_join", 1, bytes * n, candidates * n, 139);
}

// Rows ranked in layers 0 and 1: every masked row against every other in float64, in tiles of 4 x 4
// pairs of which an element of both operands is converted once; 16 conversions a clock and
// multiprocessor.
void add_ranking(step_builder& b, const cost_shape& c, const cost_step& s,
                 const device_ceilings& d) {
  const double side = std::ceil(s.ranked / 4);
  const double conversions = s.sequences * side * side * 8 * c.heads * c.head_dim;
  launch ranking;
  ranking.bytes = s.sequences * s.ranked * (c.heads + c.kv_heads) * c.head_dim * bf16;
  ranking.busy = std::max(ranking.bytes / d.copy, conversions / (16 * d.multiprocessors * d.clock));
  ranking.held_by = "conversions";
  b.add("importance", 2, ranking);
  // The residual stream and Q, K, V of the rows that stay.
  const double bytes = c.hidden * f32 + (c.heads + 2.0 * c.kv_heads) * c.head_dim * bf16;
  b.stream("gather_rows", 2, s.sequences * s.late_rows * bytes * 2 / 2, 0, 0);
}

int dense_layers(const cost_shape& c) {
  return c.moe.experts > 0 ? std::min(c.layers, c.moe.first_dense_layers) : c.layers;
}

}  // namespace

device_ceilings measured_ceilings(device_ceilings declared, double products, double copy,
                                  double read) {
  if (products > 0) {
    declared.mma_share *= declared.products / products;
    declared.products = products;
  }
  if (copy > 0) {
    declared.read *= copy / declared.copy;
    declared.copy = copy;
  }
  if (read > 0) declared.read = read;
  if (products > 0 || copy > 0) {
    declared.source = "measured products and copy; waits and gaps assumed";
  }
  return declared;
}

double step_cost::launches() const {
  double all = 0;
  for (const kernel_cost& k : kernels) all += k.kernel == "host waits" ? 0 : k.launches;
  return all;
}
const kernel_cost& step_cost::of(const std::string& kernel) const {
  for (const kernel_cost& k : kernels) {
    if (k.kernel == kernel) return k;
  }
  throw std::logic_error("no kernel " + kernel + " in this step");
}

double step_cost::seconds_of_sums() const {
  double all = 0;
  for (const kernel_cost& k : kernels) {
    if (k.kernel == "across ranks" || k.kernel == "sum_ranks") all += k.seconds;
  }
  return all;
}

cost_shape cost_shape_of(const model_config& model, int ranks) {
  const model_config c = largest_share(model, ranks);
  return {c.layers,
          c.hidden,
          c.heads,
          c.kv_heads,
          c.head_dim,
          c.feed_forward,
          c.vocabulary,
          ranks,
          {c.moe.experts, c.moe.experts_per_token, c.moe.hidden, c.moe.shared_experts,
           c.moe.first_dense_layers}};
}

step_cost cost_of_step(const cost_shape& c, const cost_step& given, const device_ceilings& d) {
  const double rows = given.sequences * given.rows;
  const double late = given.late_rows > 0 ? given.sequences * given.late_rows : rows;
  const bool recorded = given.recorded && rows <= static_cast<double>(cuda::max_graph_rows);
  step_builder b(d, given, recorded);
  const auto launched = [&](double r) {
    return recorded ? static_cast<double>(cuda::row_bucket(std::llround(std::ceil(r)))) : r;
  };
  const auto shape = [&](double r, double times) {
    return layer_shape{given.sequences, launched(r), r, given.keys, times};
  };
  // One work list for all layers with the same rows.
  b.stream("attention_plan", given.late_from > 0 ? 2 : 1, given.sequences * 8 * i32, 0, 0);
  b.stream("embed", 1, rows * c.hidden * (bf16 + f32), rows * c.hidden, embed_instructions);
  for (int l = 0; l < c.layers; ++l) {
    // The layer in which rows are dropped projects all of them.
    const double enter = l <= given.late_from ? rows : late,
                 stay = l < given.late_from ? rows : late;
    add_projection(b, c, shape(enter, 1), d);
    add_attention(b, c, shape(stay, 1), d);
    add_sum(b, c, shape(stay, 1), d);
    add_feed_forward(b, c, shape(stay, 1), l >= dense_layers(c) && c.moe.experts > 0, d);
    add_sum(b, c, shape(stay, 1), d);
  }
  b.stream("rms_norm", 1, late * c.hidden * (f32 + bf16), late * c.hidden, norm_instructions);
  if (given.candidates > 0) add_head(b, c, given.sequences * given.candidates, d);
  if (given.ranked > 0) add_ranking(b, c, given, d);
  if (given.launches > 0) {
    launch small;
    small.bytes = given.bus_bytes;
    // A kernel that reaches over the bus waits for it at least once.
    small.busy = given.bus_bytes > 0 ? d.bus_latency + given.bus_bytes / d.bus / given.launches : 0;
    small.held_by = given.bus_bytes > 0 ? "bus" : "start";
    b.add("selection and decisions", given.launches, small);
  }
  b.idle("host waits", given.waits, given.waits * d.wait);
  return std::move(b.step);
}

double seconds_of_layer(const cost_shape& model, const cost_step& step,
                        const device_ceilings& device) {
  cost_shape one = model, two = model;
  one.layers = 1;
  two.layers = 2;
  return cost_of_step(two, step, device).seconds - cost_of_step(one, step, device).seconds;
}

kernel_cost cost_of_attention(const cost_shape& c, double sequences, double rows, double keys,
                              const device_ceilings& d) {
  double splits = 1;
  const launch l =
      cost::attention_tensor(sequences, rows, keys, c.heads, c.kv_heads, c.head_dim, &splits, d);
  return {"attention_tensor", 1, l.operations, l.bytes, l.busy, l.limit, l.held_by};
}

}  // namespace unmask
