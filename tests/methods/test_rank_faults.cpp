// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Faults of several ranks, planted one at a time, and the check that finds each:
//   ranks   all of them have the same bits of the residual stream (digest_of_steps)
//   pieces  these are the bits of one process that adds as many pieces
//   digest  what the ranks compare behind each step, at run time
// Tokens hardly ever see an order of addition, and two ranks never: a + b = b + a.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kernels/decisions.h"
#include "kernels/ranks.h"
#include "kernels/selection.h"
#include "tests/methods/ranked_decoding.h"

namespace unmask {
namespace {

using namespace testing;

setting of_method(const std::string& method, model_family family, parameter_map given = {}) {
  setting s{method, family, std::move(given)};
  s.method = method;
  return s;
}
setting vanilla() {
  return of_method("vanilla", model_family::llada, {{"block_length", std::int64_t{8}}});
}

// Whether ranks found that their rows have other bits.
bool names_values(const std::string& said) {
  return said.find("computed other values in step ") != std::string::npos;
}

// Which of the checks found something. A rank that threw has no bits.
struct found {
  bool ranks = false, pieces = false;
  std::string digest;
};
found faults_of(int ranks, const model_config& c, const setting& p, const changes& other = {}) {
  const ranked_result got = decode_ranks(ranks, 0, c, p, other);
  found f{.digest = got.threw.front()};
  if (!f.digest.empty()) return f;
  for (const decoded& one : got.ranks) f.ranks |= one.bits != got.ranks.front().bits;
  return f;
}
// `right`: of one process with as many pieces, without the fault.
found faults_of(int ranks, const model_config& c, const setting& p, const decoded& right,
                const changes& other = {}) {
  const ranked_result got = decode_ranks(ranks, 0, c, p, other);
  found f{.ranks = names_values(got.threw.front()), .digest = got.threw.front()};
  for (const decoded& one : got.ranks) {
    f.ranks |= f.digest.empty() && one.bits != got.ranks.front().bits;
    f.pieces |= one.bits != right.bits;
  }
  return f;
}

// ---- orders of addition: another body of the sum ----

using sum_body = detail::bodies<op::sum_ranks>::body;
// From the float32 parts of all ranks, one of each, the sum that this rank takes.
using sum_rule = float (*)(const float* of_rank, int ranks, int rank);
sum_rule planted = nullptr;

void planted_sum(const backend&, const op::sum_ranks& args) {
  const auto n = static_cast<std::size_t>(args.y.elements());
  const int ranks = args.group->size();
  std::vector<float> all(n * static_cast<std::size_t>(ranks)),
      of_rank(static_cast<std::size_t>(ranks));
  args.group->gather(args.parts.as<float>(), n * sizeof(float), all.data());
  for (std::int64_t r = 0; r < args.y.rows(); ++r) {
    for (std::int64_t d = 0; d < args.y.columns(); ++d) {
      const auto at = static_cast<std::size_t>(r * args.y.columns() + d);
      for (std::size_t k = 0; k < of_rank.size(); ++k) of_rank[k] = all[k * n + at];
      const float sum = planted(of_rank.data(), ranks, args.group->rank());
      float& y = args.y.row<float>(r)[d];
      y = args.accumulate ? y + sum : sum;
    }
  }
}

float in_pairs(const float* p, int ranks) {
  const float first = p[0] + p[1];
  if (ranks == 2) return first;
  return first + (ranks == 3 ? p[2] : p[2] + p[3]);
}
float right_sum(const float* p, int ranks, int) {
  return in_pairs(p, ranks);
}
float reversed_on_one(const float* p, int ranks, int rank) {
  if (rank != 1) return in_pairs(p, ranks);
  float sum = p[ranks - 1];
  for (int r = ranks - 2; r >= 0; --r) sum += p[r];
  return sum;
}
float own_part_first(const float* p, int ranks, int rank) {
  float sum = p[rank];
  for (int r = 1; r < ranks; ++r) sum += p[(rank + r) % ranks];
  return sum;
}
float one_after_the_other(const float* p, int ranks, int) {
  float sum = p[0];
  for (int r = 1; r < ranks; ++r) sum += p[r];
  return sum;
}
float a_part_twice(const float* p, int ranks, int) {
  return in_pairs(p, ranks) + p[1];
}
// What a missing barrier reads now and then: another rank's part of the move before.
float what_was_there_before(const float* p, int ranks, int rank) {
  thread_local float before = 0;
  std::vector<float> of(p, p + ranks);
  if (rank == 1) std::swap(of[0], before);
  return in_pairs(of.data(), ranks);
}

class planted_order {
 public:
  explicit planted_order(sum_rule rule) {
    planted = rule;
    before_ = replace_body<op::sum_ranks>(target::cpu, planted_sum);
  }
  ~planted_order() { replace_body<op::sum_ranks>(target::cpu, before_); }
  planted_order(const planted_order&) = delete;
  planted_order& operator=(const planted_order&) = delete;

 private:
  sum_body before_;
};

struct order_fault {
  const char* what;
  sum_rule rule;
  int ranks;
  bool by_ranks, by_pieces;
};

TEST(rank_faults, of_orders_of_addition_show_in_bits) {
  const setting p = vanilla();
  const model_config c = six_heads(p.family);
  std::map<int, decoded> right;
  for (const int ranks : {2, 3, 4}) right[ranks] = decode(c, p, share_of(0, 1, ranks));
  for (const order_fault& f :
       std::vector<order_fault>{{"none", right_sum, 4, false, false},
                                {"reverse order on one rank", reversed_on_one, 4, true, true},
                                {"the same of two", reversed_on_one, 2, false, false},
                                {"the own part first", own_part_first, 3, true, true},
                                {"the same of four", own_part_first, 4, true, true},
                                {"another order on all", one_after_the_other, 4, false, true},
                                {"the same of three", one_after_the_other, 3, false, false}}) {
    const planted_order fault(f.rule);
    SCOPED_TRACE(f.what);
    const found is = faults_of(f.ranks, c, p, right[f.ranks]);
    EXPECT_EQ(is.ranks, f.by_ranks);
    EXPECT_EQ(is.pieces, f.by_pieces);
  }
}

TEST(rank_faults, of_parts_show_in_bits_or_decisions) {
  const setting p = vanilla();
  const model_config c = six_heads(p.family);
  const decoded right = decode(c, p, share_of(0, 1, 2));
  {
    const planted_order fault(a_part_twice);
    const found is = faults_of(2, c, p, right);
    EXPECT_TRUE(is.pieces);
    EXPECT_FALSE(is.ranks) << "all add it twice";
  }
  const planted_order fault(what_was_there_before);
  const found is = faults_of(2, c, p, right);
  EXPECT_TRUE(is.ranks || is.digest.find("took different decisions") != std::string::npos);
}

// ---- weights of one rank ----

// The rows of one head of a matrix in those of another.
void copy_head(const tensor_view& of, std::int64_t from, std::int64_t to, std::int64_t dim) {
  for (std::int64_t r = 0; r < dim; ++r) {
    std::copy_n(of.row<float>(from * dim + r), of.columns(), of.row<float>(to * dim + r));
  }
}

TEST(rank_faults, of_a_share_show_in_bits_though_all_ranks_agree) {
  const setting p = named_setting("optimus_moe");
  const model_config c = six_heads(p.family);
  const decoded right = decode(c, p, share_of(0, 1, 2));
  const std::map<std::string, changes> all = {
      {"none", {}},
      {"wrong KV head",
       {.weights =
            [&](model_weights& w, int rank) {
              for (const layer_weights& l : w.layers) {
                if (rank == 1) copy_head(l.k, 0, 1, c.head_dim), copy_head(l.v, 0, 1, c.head_dim);
              }
            }}},
      {"offset of the tokens forgotten",
       {.weights =
            [](model_weights& w, int rank) {
              const std::int64_t half = w.lm_head.rows() / 2;
              for (std::int64_t t = half; rank == 1 && t < w.lm_head.rows(); ++t) {
                std::copy_n(w.lm_head.row<float>(t - half), w.lm_head.columns(),
                            w.lm_head.row<float>(t));
              }
            }}},
      {"shared expert on every rank",
       {.weights =
            [](model_weights& w, int) {
              for (const layer_weights& l : w.layers) {
                const tensor_view& down = l.shared.down;
                for (std::int64_t i = 0; l.shared.down.data && i < down.elements(); ++i) {
                  down.as<float>()[i] *= 2;
                }
              }
            }}},
      {"unequal router", {.weights = [](model_weights& w, int rank) {
         for (const layer_weights& l : w.layers) {
           if (rank == 0 || l.router.data == nullptr) continue;
           for (std::int64_t d = 0; d < l.router.columns(); ++d) l.router.row<float>(0)[d] += 1;
         }
       }}}};
  for (const auto& [what, fault] : all) {
    SCOPED_TRACE(what);
    const found is = faults_of(2, c, p, right, fault);
    EXPECT_EQ(is.pieces, what != "none");
    EXPECT_FALSE(is.ranks);
    EXPECT_EQ(is.digest, "");
  }
}

// ---- decisions of one rank ----

TEST(rank_faults, of_seeds_and_clocks_are_named_in_their_step) {
  const std::string void_row = "took different decisions in step ";
  const setting sampling = of_method("vanilla", model_family::llada,
                                     {{"block_length", std::int64_t{8}}, {"temperature", 1.0}});
  const found seed = faults_of(
      2, six_heads(sampling.family), sampling,
      {.requests = [](std::vector<sequence_request>& all, int rank) { all[0].seed += rank; }});
  EXPECT_NE(seed.digest.find("ranks 0 and 1 " + void_row), std::string::npos) << seed.digest;
  // Other step times are another chunk.
  const setting chunks = of_method("optimus", model_family::sdar);
  const found clock = faults_of(
      2, six_heads(chunks.family), chunks,
      {.method = [](method_info&, parameter_map& given, int rank) {
        given["latency"] = "table";
        given["cold_steps"] = std::int64_t{1};
        given["latency_samples"] = rank == 0 ? "4/2:0.001,8/2:0.001,16/2:0.001,4/1:0.001,8/1:0.001"
                                             : "4/2:0.001,8/2:0.1,16/2:10,4/1:0.001,8/1:0.1";
      }});
  EXPECT_NE(clock.digest.find("ranks 0 and 1 " + void_row), std::string::npos) << clock.digest;
}

// An operation that sums over heads and does not say so: what the rank found alone stays its own.
thread_local std::map<const float*, std::vector<float>> own_part;
detail::bodies<op::importance>::body right_importance = nullptr;
detail::bodies<op::combine_scores>::body right_combination = nullptr;

template <class P>
void run_right(typename detail::bodies<P>::body body, const backend& with, const P& args) {
  (body != nullptr ? body : detail::bodies<P>::of[0])(with, args);
}
void importance_alone(const backend& with, const op::importance& args) {
  run_right(right_importance, with, args);
  own_part[args.out].assign(args.out, args.out + args.over_heads().count);
}
void combine_own_parts(const backend& with, const op::combine_scores& args) {
  for (const auto& [there, own] : own_part) std::ranges::copy(own, const_cast<float*>(there));
  run_right(right_combination, with, args);
}

TEST(rank_faults, of_a_sum_over_heads_that_nobody_adds_is_named) {
  static_assert(static_cast<std::size_t>(target::reference) == 0);
  const setting p = named_setting("focus");
  right_importance = replace_body<op::importance>(target::cpu, importance_alone);
  right_combination = replace_body<op::combine_scores>(target::cpu, combine_own_parts);
  const found is = faults_of(2, six_heads(p.family), p);
  replace_body<op::importance>(target::cpu, right_importance);
  replace_body<op::combine_scores>(target::cpu, right_combination);
  EXPECT_NE(is.digest.find("took different decisions"), std::string::npos) << is.digest;
}

int logits_read = 0;
detail::bodies<op::logits>::body right_logits = nullptr;
void count_logits(const backend& with, const op::logits& args) {
  ++logits_read;
  run_right(right_logits, with, args);
}
bool reads_logits(const model_config& c, const setting& p) {
  logits_read = 0;
  right_logits = replace_body<op::logits>(target::cpu, count_logits);
  decode(c, p, share_of(0, 1, 0));
  replace_body<op::logits>(target::cpu, right_logits);
  return logits_read > 0;
}

// Once they are brought together, logits of rows that differ are the same on all ranks, and so are decisions: a sum
// of each row travels with them.
TEST(rank_faults, of_rows_are_named_where_whole_logits_are_read) {
  std::set<std::string> methods;
  for (const setting& p : all_settings()) {
    const model_config c = six_heads(p.family);
    if (c.kv_heads < 4 || methods.contains(p.method) || !reads_logits(c, p)) continue;
    methods.insert(p.method);
    const planted_order fault(reversed_on_one);
    SCOPED_TRACE(p.label);
    const found is = faults_of(4, c, p);
    EXPECT_TRUE(names_values(is.digest)) << is.digest;
    EXPECT_EQ(is.digest.find("ranks 0 and 1 "), 0U) << is.digest;
  }
  EXPECT_GE(methods.size(), 3U);
}

// A method that takes the share for the model: all ranks do, so that they agree.
TEST(rank_faults, of_a_method_that_sees_its_share_show_in_bits_alone) {
  const setting p = named_setting("sparse_d_llada");
  const model_config c = six_heads(p.family);
  const changes fault = {.method = [](method_info& method, parameter_map&, int rank) {
    method.make = [right = method.make, rank](const model_config& whole, const parameters& given) {
      return right(local_config(whole, share_of(rank, 2, 0)), given);
    };
  }};
  const decoded right = decode(c, p, share_of(0, 1, 2));
  EXPECT_FALSE(faults_of(2, c, p, right).pieces);
  const found is = faults_of(2, c, p, right, fault);
  EXPECT_TRUE(is.pieces);
  EXPECT_FALSE(is.ranks);
  EXPECT_EQ(is.digest, "");
}

}  // namespace
}  // namespace unmask
