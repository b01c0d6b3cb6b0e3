// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The LM head fused with what decoding reads from it. The vocabulary is cut into chunks of whole
// weight panels whose logits stay in the cache, and the chunks into segments. A segment is one
// thread's task: for each chunk, multiply all candidate rows, then fold the tile into one
// head_state per row. At the end the segments are merged in order. Chunks and segments depend on
// the matrix alone, so a row's bits depend on neither the other rows nor the number of threads.
// Of a cut head each piece has chunks and segments of its own, and the pieces are merged in order.
//
// One pass gives sum_v p_v ln p_v; the 1e-10 inside the logarithm of the definition adds at most
// V 1e-10 (1.5e-5 for 150,000 tokens) and is left out.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/crowd.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_packed.h"
#include "kernels/cpu/head_kernels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/head.h"
#include "kernels/noise.h"
#include "kernels/refused.h"

namespace unmask::cpu {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr std::int64_t tile_rows = 128;  // rows that share one reading of the weights
constexpr std::int64_t segment_count = 64;

const head_kernels& kernels_of(isa set) {
  return with_vector(
      set, []<class V>() -> auto& { return head_kernels_of<V>(); });
}

struct layout {
  std::int64_t chunk = 0;    // tokens per chunk, whole panels
  std::int64_t segment = 0;  // tokens per segment, whole chunks
  std::int64_t segments = 0;
};

// A chunk's weights fit half of a 1 MiB L2 cache beside its logits, it has at most 384 tokens, and
// there are at least 16 chunks to share among threads where the vocabulary allows.
layout layout_of(const packed_matrix& head) {
  const std::int64_t panel = panel_width(head);
  const std::int64_t panels = (head.out_features + panel - 1) / panel;
  const std::int64_t panel_bytes =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(head.bytes) / panels);
  const std::int64_t fit = std::int64_t{512} * 1024 / panel_bytes;
  const std::int64_t most = std::max<std::int64_t>(1, std::min(384 / panel, panels / 16));
  layout l;
  l.chunk = panel * std::clamp<std::int64_t>(fit, 1, most);
  const std::int64_t chunks = (head.out_features + l.chunk - 1) / l.chunk;
  l.segment = l.chunk * ((chunks + segment_count - 1) / segment_count);
  l.segments = (head.out_features + l.segment - 1) / l.segment;
  return l;
}

// The definition, for the few tokens that the approximate noise cannot rule out.
void draw_exactly(const float* logit, const std::int32_t* hit, std::int64_t hits,
                  std::int32_t first, std::uint64_t key, float t, head_state& state) {
  for (std::int64_t i = 0; i < hits; ++i) {
    const float z = logit[hit[i]];
    const std::int32_t token = first + hit[i];
    const double u = uniform_open(key, static_cast<std::uint64_t>(token));
    const double noised = z - double{t} * std::log(-std::log(u));
    if (noised > state.noised) {
      state.noised = noised;
      state.drawn = token;
      state.drawn_logit = z;
    }
  }
}

void merge(head_state& into, const head_state& next, double inverse_temperature) {
  if (next.noised > into.noised) {
    into.noised = next.noised;
    into.drawn = next.drawn;
    into.drawn_logit = next.drawn_logit;
  }
  double sum = next.sum, weighted = next.weighted;
  if (next.best > into.best) {
    if (into.best > minus_infinity) {
      const double d = (double{into.best} - next.best) * inverse_temperature;
      into.weighted = (into.weighted + d * into.sum) * std::exp(d);
      into.sum *= std::exp(d);
    }
    into.second = std::max(into.best, next.second);
    into.best = next.best;
    into.token = next.token;
  } else {
    if (next.best > minus_infinity) {
      const double d = (double{next.best} - into.best) * inverse_temperature;
      weighted = (weighted + d * sum) * std::exp(d);
      sum *= std::exp(d);
    }
    into.second = std::max(into.second, next.best);
  }
  into.sum += sum;
  into.weighted += weighted;
}

void write(const head_state& s, const confidence_params& params, std::int32_t c,
           const confidence_out& out) {
  const double inverse_temperature = 1.0 / double{params.temperature};
  const bool noise = params.gumbel_temperature > 0 && s.drawn >= 0;
  if (out.token != nullptr) out.token[c] = noise ? s.drawn : s.token;
  if (out.probability != nullptr) {
    const double a = noise ? (double{s.drawn_logit} - s.best) * inverse_temperature : 0.0;
    out.probability[c] = static_cast<float>(std::exp(a) / s.sum);
  }
  if (out.residual != nullptr) {
    // The largest term of the sum is exactly 1: what is left when it goes is the rest.
    const double a = noise ? (double{s.drawn_logit} - s.best) * inverse_temperature : 0.0;
    out.residual[c] = static_cast<float>((s.sum - std::exp(a)) / s.sum);
  }
  if (out.margin != nullptr) {
    const double a = (double{s.second} - s.best) * inverse_temperature;
    out.margin[c] = static_cast<float>(-std::expm1(a) / s.sum);
  }
  if (out.negative_entropy != nullptr) {
    out.negative_entropy[c] = static_cast<float>(s.weighted / s.sum - std::log(s.sum));
  }
  if (out.top2_logit_gap != nullptr) out.top2_logit_gap[c] = s.best - s.second;
}

head_wish wish_of(const op::confidence& args) {
  head_wish wish;
  wish.inverse_temperature = 1.0F / args.params.temperature;
  wish.entropy = args.out.negative_entropy != nullptr;
  wish.sums = wish.entropy || args.out.probability != nullptr || args.out.margin != nullptr ||
              args.out.residual != nullptr;
  wish.in_double = args.params.accumulate_double;
  return wish;
}

// The state of every candidate, out [C], over the tokens of `head`, the first of which is `token`.
void find_states(const op::confidence& args, const packed_matrix& head, std::int64_t token,
                 head_state* out) {
  thread_local scratch row_memory, state_memory, key_memory;
  thread_local prepared_rows prepared;
  const head_kernels& kernels = kernels_of(packed_for(head));
  const layout cut = layout_of(head);
  const std::int64_t vocabulary = head.out_features, width = head.in_features;
  const head_wish wish = wish_of(args);
  const float noise = args.params.gumbel_temperature;
  const token_list banned = with_refused(args.head, {args.params.banned, args.params.banned_count});

  const std::int64_t tile = std::min<std::int64_t>(args.candidates.count, tile_rows);
  float* gathered = row_memory.get<float>(tile * width);
  head_state* states = state_memory.get<head_state>(cut.segments * tile);
  std::uint64_t* keys = key_memory.get<std::uint64_t>(std::int64_t{args.candidates.count});
  if (noise > 0) {
    for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
      for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
        keys[c] = noise_key(args.candidates, args.params.noise, s, c);
      }
    }
  }

  for (std::int64_t first = 0; first < args.candidates.count; first += tile) {
    const std::int64_t rows = std::min<std::int64_t>(tile, args.candidates.count - first);
    for (std::int64_t i = 0; i < rows; ++i) {
      std::memcpy(gathered + i * width, args.x.row<float>(args.candidates.row[first + i]),
                  static_cast<std::size_t>(width) * sizeof(float));
    }
    prepared.prepare(make_view(gathered, dtype::f32, {rows, width}), head);
    const prepared_rows& ready = prepared;  // the threads below read the caller's
    const double flops = 2.0 * static_cast<double>(rows * width * vocabulary);
    watched_region watch;
#pragma omp parallel for schedule( \
    dynamic) if (worth_threads(flops, static_cast <double>(head.bytes)))
    for (std::int64_t segment = 0; segment < cut.segments; ++segment) {
      const watched_part part(watch);
      thread_local scratch tile_memory, work_memory, hit_memory;
      const std::int64_t stride = (cut.chunk + 15) / 16 * 16;
      float* logit = tile_memory.get<float>(rows * stride);
      float* work = work_memory.get<float>(stride);
      std::int32_t* hit = hit_memory.get<std::int32_t>(stride);
      head_state* state = states + segment * tile;
      std::fill(state, state + rows, head_state{});
      const std::int64_t end = std::min(vocabulary, (segment + 1) * cut.segment);
      for (std::int64_t n0 = segment * cut.segment; n0 < end; n0 += cut.chunk) {
        const std::int64_t n1 = std::min(end, n0 + cut.chunk);
        const std::int64_t padded = (n1 - n0 + 15) / 16 * 16;
        tensor_view y = make_view(logit, dtype::f32, {rows, n1 - n0});
        y.row_stride = stride;
        linear_columns(ready, head, n0, n1, y);
        const auto start = static_cast<std::int32_t>(token + n0);
        for (std::int64_t i = 0; i < rows; ++i) {
          float* l = logit + i * stride;
          std::fill(l + (n1 - n0), l + padded, minus_infinity);
          for (std::int32_t b = 0; b < banned.count; ++b) {
            const std::int64_t at = banned.token[b] - token;
            if (at >= n0 && at < n1) l[at - n0] = minus_infinity;
          }
          kernels.scan(l, padded, start, wish, state[i]);
          if (noise > 0) {
            const std::uint64_t key = keys[first + i];
            const std::int64_t hits =
                kernels.gumbel(l, padded, start, key, noise, work, state[i], hit);
            draw_exactly(l, hit, hits, start, key, noise, state[i]);
          }
        }
      }
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      head_state total = states[i];
      for (std::int64_t segment = 1; segment < cut.segments; ++segment) {
        merge(total, states[segment * tile + i], 1.0 / double{args.params.temperature});
      }
      out[first + i] = total;
    }
  }
}

// Once a piece is folded, `floor` is of no use: the sum of the row that was read travels in it.
void put_row_sum(head_state& state, std::uint32_t sum) {
  std::memcpy(&state.floor, &sum, sizeof sum);
}
bool read_the_same(const head_state& a, const head_state& b) {
  return std::memcmp(&a.floor, &b.floor, sizeof a.floor) == 0;
}

// The same over all tokens of a cut head.
void find_states(const op::confidence& args, const cut_head& head, head_state* out) {
  thread_local scratch own_memory, all_memory;
  const std::int64_t count = args.candidates.count, own = std::ssize(head.own),
                     pieces = static_cast<std::int64_t>(head.pieces());
  if (count == 0) return;
  auto* mine = own_memory.get<head_state>(own * count);
  auto* all = all_memory.get<head_state>(pieces * count);
  for (std::int64_t i = 0; i < own; ++i) {
    const auto piece = static_cast<std::size_t>(i);
    find_states(args, *head.own[piece], head.first_of_own(piece), mine + i * count);
  }
  for (std::int64_t c = 0; c < count; ++c) {
    const std::uint32_t sum = row_sum(args.x.row<float>(args.candidates.row[c]), head.in_features);
    for (std::int64_t i = 0; i < own; ++i) put_row_sum(mine[i * count + c], sum);
  }
  head.gather(mine, static_cast<std::size_t>(count) * sizeof(head_state), all);
  for (std::int64_t c = 0; c < count; ++c) {
    out[c] = all[c];
    for (std::int64_t p = 1; p < pieces; ++p) {
      if (!read_the_same(out[c], all[p * count + c])) note_unequal_rows(static_cast<int>(p / own));
      merge(out[c], all[p * count + c], 1.0 / double{args.params.temperature});
    }
  }
}

void confidence(const op::confidence& args) {
  if (!(args.params.temperature > 0)) throw std::logic_error("confidence: temperature must be > 0");
  thread_local scratch memory;
  auto* states = memory.get<head_state>(std::int64_t{args.candidates.count});
  if (const cut_head* cut = as_cut(args.head)) {
    find_states(args, *cut, states);
  } else {
    find_states(args, args.head, 0, states);
  }
  for (std::int32_t c = 0; c < args.candidates.count; ++c) {
    write(states[c], args.params, c, args.out);
  }
}

void logits(const backend& cpu, const op::logits& args) {
  check_whole_logits(args.head);
  thread_local scratch row_memory, own_memory, all_memory;
  const std::int64_t rows = args.out.rows(), width = args.head.in_features;
  float* gathered = row_memory.get<float>(rows * width);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::memcpy(gathered + i * width, args.x.row<float>(args.row[i]),
                static_cast<std::size_t>(width) * sizeof(float));
  }
  const tensor_view x = make_view(gathered, dtype::f32, {rows, width});
  const cut_head* cut = as_cut(args.head);
  if (cut == nullptr) {
    linear(x, args.head, tensor_view{}, args.out, false, cpu.path());
    return;
  }
  const std::int64_t own = std::ssize(cut->own), piece = rows * cut->widest(),
                     sent = cut->sent_of_logits(rows);
  auto* mine = own_memory.get<float>(sent);
  auto* all = all_memory.get<float>(static_cast<std::int64_t>(cut->pieces()) / own * sent);
  for (std::int64_t i = 0; i < own; ++i) {
    const packed_matrix& head = *cut->own[static_cast<std::size_t>(i)];
    tensor_view y = make_view(mine + i * piece, dtype::f32, {rows, head.out_features});
    y.row_stride = cut->widest();
    linear(x, head, tensor_view{}, y, false, cpu.path());
  }
  gather_logits(*cut, args.x, args.row, mine, all, args.out);
}

}  // namespace

const register_operations<confidence, logits> registered(target::cpu);

}  // namespace unmask::cpu
