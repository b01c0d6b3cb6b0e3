// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/share.h"

#include <bit>
#include <optional>
#include <string>
#include <string_view>

#include "harness/base/error.h"
#include "harness/base/run_keys.h"

namespace unmask {
namespace {

// Query heads whose KV head is held by several pieces: so many hold it. 1: none is.
std::int64_t holders(const model_config& whole, std::int64_t pieces) {
  return pieces > whole.kv_heads ? pieces / whole.kv_heads : 1;
}

tensor_view rows(const tensor_view& v, const cut_range& of) {
  return v.data == nullptr ? v : v.slice(of.first, of.size());
}

// Keeps the stride of the rows.
tensor_view columns(tensor_view v, const cut_range& of) {
  if (v.data == nullptr) return v;
  v.data = static_cast<std::byte*>(v.data) + static_cast<std::size_t>(of.first) * size_of(v.type);
  v.shape[1] = of.size();
  return v;
}

cut_range times(const cut_range& heads, std::int64_t dim) {
  return {heads.first * dim, heads.last * dim};
}

// Of a whole, within a part of it.
cut_range within(const cut_range& of, const cut_range& part) {
  return {of.first - part.first, of.last - part.first};
}

// Nothing of an expert: the same tensors without rows.
feed_forward_weights none_of(const feed_forward_weights& f) {
  return {rows(f.gate, {}), rows(f.up, {}), rows(f.down, {})};
}

// The number behind "experts."; nothing of other parts of a layer.
std::optional<std::int64_t> expert_in(const std::string& part) {
  constexpr std::string_view head = "experts.";
  if (!part.starts_with(head)) return std::nullopt;
  return std::stoll(part.substr(head.size()));
}

feed_forward_weights cut(const feed_forward_weights& f, std::int64_t width,
                         const model_share& share, const model_share& held) {
  if (f.gate.data == nullptr) return f;
  const cut_range w = within(width_of(width, share), width_of(width, held));
  return {rows(f.gate, w), rows(f.up, w), columns(f.down, w)};
}

void check_heads(const model_config& whole, const model_share& share) {
  const std::int64_t kv = whole.kv_heads, group = whole.heads / kv, pieces = share.pieces;
  if (pieces <= kv) return;
  const std::int64_t held = share.last() - share.first(), times = holders(whole, pieces);
  const bool whole_groups = held % times == 0 || times % held == 0;
  if (pieces % kv == 0 && group % times == 0 && whole_groups) return;
  throw usage_error(whole.name + ": " + std::to_string(whole.heads) + " heads in " +
                    std::to_string(kv) + " groups cannot be dealt to " + std::to_string(pieces) +
                    (share.ranks == pieces ? " ranks" : " pieces") + ": at most " +
                    std::to_string(kv) + ", or a multiple of it that divides the heads");
}

void check_width(const model_config& whole, const model_share& share, std::int64_t width) {
  if (width == 0 || width >= share.pieces) return;
  throw usage_error(whole.name + ": a feed-forward of width " + std::to_string(width) +
                    " cannot be dealt to " + std::to_string(share.pieces) + " pieces");
}

void check_vocabulary(const model_config& whole, const model_share& share) {
  if (whole.vocabulary == 0 || whole.vocabulary >= share.pieces) return;
  throw usage_error(whole.name + ": a vocabulary of " + std::to_string(whole.vocabulary) +
                    " cannot be dealt to " + std::to_string(share.pieces) + " pieces");
}

void check_experts(const model_config& whole, const model_share& share) {
  if (whole.moe.experts == 0 || whole.moe.experts >= share.pieces) return;
  throw usage_error(whole.name + ": " + std::to_string(whole.moe.experts) +
                    " experts cannot be dealt to " + std::to_string(share.pieces) +
                    " pieces; experts = \"hidden\" shares the width of each");
}

}  // namespace

model_share share_of(std::int64_t rank, std::int64_t ranks, std::int64_t pieces) {
  const std::int64_t all = pieces == 0 ? ranks : pieces;
  const bool whole_branch =
      ranks == 1 || std::has_single_bit(static_cast<std::uint64_t>(all / ranks));
  if (all % ranks != 0 || !whole_branch) {
    throw usage_error("`pieces` is " + std::to_string(all) + " but must be `ranks`, " +
                      std::to_string(ranks) + ", times 1, 2, 4, ...");
  }
  return {static_cast<std::int32_t>(rank), static_cast<std::int32_t>(ranks),
          static_cast<std::int32_t>(all)};
}

model_share share_of(std::int64_t rank, const run_keys& run) {
  model_share share = share_of(rank, run.ranks, run.pieces);
  share.whole_experts = run.experts == "experts";
  share.two_shots = run.two_shots;
  if (run.sums != "bf16") return share;
  share.sums = dtype::bf16;
  if (share.ranks > 1 && share.pieces > share.ranks) {
    throw usage_error("`sums` bf16 needs pieces = 0 or as many as ranks, " +
                      std::to_string(share.ranks) + ", not " + std::to_string(share.pieces) +
                      ": what a rank adds of its own pieces is float32");
  }
  return share;
}

cut_range kv_heads_of(const model_config& whole, const model_share& s) {
  const std::int64_t kv = whole.kv_heads, times = holders(whole, s.pieces);
  if (times == 1) return {kv * s.first() / s.pieces, kv * s.last() / s.pieces};
  return {s.first() / times, (s.last() + times - 1) / times};
}

cut_range heads_of(const model_config& whole, const model_share& s) {
  if (holders(whole, s.pieces) > 1) {
    return {std::int64_t{whole.heads} * s.first() / s.pieces,
            std::int64_t{whole.heads} * s.last() / s.pieces};
  }
  return times(kv_heads_of(whole, s), whole.heads / whole.kv_heads);
}

cut_range width_of(std::int64_t width, const model_share& s) {
  std::int64_t unit = 8;
  while (unit > 1 && (width % unit != 0 || width / unit < s.pieces)) unit /= 2;
  const std::int64_t units = width / unit;
  return {unit * (units * s.first() / s.pieces), unit * (units * s.last() / s.pieces)};
}

cut_range experts_of(const model_config& whole, const model_share& s) {
  const std::int64_t experts = whole.moe.experts;
  if (!s.whole_experts) return {0, experts};
  return {experts * s.first() / s.pieces, experts * s.last() / s.pieces};
}

cut_range tokens_of(std::int64_t vocabulary, const model_share& s) {
  const std::int64_t unit = vocabulary >= std::int64_t{1024} * s.pieces ? 64 : 1;
  const auto edge = [&](std::int64_t p) {
    return p == s.pieces ? vocabulary : vocabulary * p / s.pieces / unit * unit;
  };
  return {edge(s.first()), edge(s.last())};
}

bool counts_values(const model_config& whole, const model_share& s) {
  return s.first() % holders(whole, s.pieces) == 0;
}

void refuse_int8(weight_format format) {
  if (format != weight_format::int8) return;
  throw usage_error(
      "`format` int8 needs ranks = 1 and pieces = 0 or 1: a row of weights has one scale, and that "
      "of a piece would be another");
}

void check_share(const model_config& whole, const model_share& share, weight_format format) {
  if (!share.is_cut()) return;
  refuse_int8(format);
  check_heads(whole, share);
  check_vocabulary(whole, share);
  check_width(whole, share, whole.feed_forward);
  if (share.whole_experts) {
    check_experts(whole, share);
    check_width(whole, share, std::int64_t{whole.moe.hidden} * whole.moe.shared_experts);
  } else {
    check_width(whole, share, whole.moe.hidden);
  }
}

model_config local_config(const model_config& whole, const model_share& s) {
  model_config c = whole;
  if (!s.is_cut()) return c;
  c.heads = static_cast<std::int32_t>(heads_of(whole, s).size());
  c.kv_heads = static_cast<std::int32_t>(kv_heads_of(whole, s).size());
  return c;
}

tensor_cut cut_of(const weight_name& name, std::span<const std::int64_t> shape,
                  const model_config& c, const model_share& s) {
  const std::int64_t columns = shape.size() > 1 ? shape[1] : 1;
  tensor_cut all{{0, shape[0]}, {0, columns}};
  if (!s.is_cut()) return all;
  const std::string& what = name.what;
  const std::optional<std::int64_t> expert = expert_in(name.part);
  if (expert && s.whole_experts) {
    const cut_range held = experts_of(c, s);
    if (*expert < held.first || *expert >= held.last) all.rows = {};
  } else if (what == "q" || what == "q_bias") {
    all.rows = times(heads_of(c, s), c.head_dim);
  } else if (what == "k" || what == "v" || what == "k_bias" || what == "v_bias") {
    all.rows = times(kv_heads_of(c, s), c.head_dim);
  } else if (what == "attn_out") {
    all.columns = times(heads_of(c, s), c.head_dim);
  } else if (what == "gate" || what == "up") {
    all.rows = width_of(shape[0], s);
  } else if (what == "down") {
    all.columns = width_of(columns, s);
  } else if (what == "lm_head") {
    all.rows = tokens_of(shape[0], s);
  }
  return all;
}

layer_weights cut(const layer_weights& l, const model_config& c, const model_share& s,
                  const model_share& held) {
  if (!s.is_cut()) return l;
  const cut_range q = times(within(heads_of(c, s), heads_of(c, held)), c.head_dim),
                  kv = times(within(kv_heads_of(c, s), kv_heads_of(c, held)), c.head_dim);
  layer_weights out = l;
  out.q = rows(l.q, q);
  out.q_bias = rows(l.q_bias, q);
  for (tensor_view layer_weights::*of :
       {&layer_weights::k, &layer_weights::v, &layer_weights::k_bias, &layer_weights::v_bias}) {
    out.*of = rows(l.*of, kv);
  }
  out.attn_out = columns(l.attn_out, q);
  out.dense = cut(l.dense, c.feed_forward, s, held);
  out.shared = cut(l.shared, std::int64_t{c.moe.hidden} * c.moe.shared_experts, s, held);
  const cut_range whole_ones = experts_of(c, s);
  for (std::size_t e = 0; e < out.experts.size(); ++e) {
    feed_forward_weights& one = out.experts[e];
    const auto number = static_cast<std::int64_t>(e);
    if (!s.whole_experts) {
      one = cut(one, c.moe.hidden, s, held);
    } else if (number < whole_ones.first || number >= whole_ones.last) {
      one = none_of(one);
    }
  }
  return out;
}

std::vector<model_share> pieces_of(const model_share& s) {
  std::vector<model_share> all;
  for (std::int32_t p = s.first(); p < s.last(); ++p) {
    all.push_back({p, s.pieces, s.pieces, s.whole_experts, s.sums, s.two_shots});
  }
  return all;
}

}  // namespace unmask
