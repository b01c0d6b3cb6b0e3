// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A head in pieces, of one process or of a rank, and all that it says of candidates.
#pragma once

#include "kernels/head.h"
#include "tests/kernels/support.h"

namespace unmask::test {

// Piece p has tokens edges[p] to edges[p + 1] of w [V, D]; pieces held, held + 1, ... are here.
inline packed_handle head_in_pieces(const backend& on, const tensor_view& w,
                                    const std::vector<std::int32_t>& edges, std::size_t held,
                                    std::size_t count, weight_format format = weight_format::f32) {
  const tensor first = on.allocate(dtype::i32, {std::ssize(edges)}, memory_use::host_visible);
  std::copy(edges.begin(), edges.end(), first.as<std::int32_t>());
  std::vector<packed_handle> own;
  for (std::size_t p = held; p < held + count; ++p) {
    own.push_back(on.pack(w.slice(edges[p], edges[p + 1] - edges[p]), format));
  }
  return std::make_shared<cut_head>(std::move(own), held, first);
}

// In memory that the backend's operations write.
struct said_of_candidates {
  explicit said_of_candidates(const backend& on, std::int64_t n)
      : token(on.allocate(dtype::i32, {n}, memory_use::host_visible)) {
    for (tensor& t : numbers) t = on.allocate(dtype::f32, {n}, memory_use::host_visible);
  }
  confidence_out out(bool entropy) {
    const auto at = [&](std::size_t i) { return numbers[i].as<float>(); };
    return {token.as<std::int32_t>(), at(0), at(1), entropy ? at(2) : nullptr, at(3), at(4)};
  }
  std::vector<std::int32_t> tokens() const {
    return {token.as<std::int32_t>(), token.as<std::int32_t>() + token.view().rows()};
  }
  // Probability, margin, negative entropy, gap of logits, residual.
  std::vector<float> number(std::size_t i) const {
    return {numbers[i].as<float>(), numbers[i].as<float>() + token.view().rows()};
  }
  std::vector<std::vector<float>> all_numbers() const {
    std::vector<std::vector<float>> all;
    for (std::size_t i = 0; i < numbers.size(); ++i) all.push_back(number(i));
    return all;
  }

  tensor token;
  std::array<tensor, 5> numbers;
};

// What a head of 2,500 tokens, some of which are banned, says of 9 rows.
class head_question {
 public:
  static constexpr std::int64_t vocabulary = 2500, width = 33, rows = 9;
  head_question() : x_({rows, width}), w_({vocabulary, width}) {
    std::mt19937 rng(29);
    x_.randomize(rng);
    w_.randomize(rng);
    // Of a row the largest logit twice: the first of both is its token, in another piece than the other.
    for (std::int64_t d = 0; d < width; ++d) w_.at(2400, d) = w_.at(3, d) = 2 * x_.at(0, d);
    candidates_.add({0, 1, 2, 7});
    candidates_.add({4, 5, 6, 8, 11});
  }
  tensor_view weights() const { return w_; }

  said_of_candidates ask(const backend& on, const packed_matrix& head, float noise,
                         bool entropy) const {
    said_of_candidates said(on, rows);
    ask(on, head, noise, entropy, said);
    on.synchronize();
    return said;
  }
  void ask(const backend& on, const packed_matrix& head, float noise, bool entropy,
           said_of_candidates& said) const {
    confidence_params params;
    params.temperature = 0.9F;
    params.gumbel_temperature = noise;
    params.noise = {seed_.data(), step_.data()};
    params.banned = banned_.data();
    params.banned_count = static_cast<std::int32_t>(banned_.size());
    on.run(op::confidence{x_, head, candidates_.set(), params, said.out(entropy)});
  }
  std::vector<float> logits(const backend& on, const packed_matrix& head) const {
    const tensor out = on.allocate(dtype::f32, {rows, vocabulary}, memory_use::host_visible);
    on.run(op::logits{x_, head, candidates_.row.data(), out});
    on.synchronize();
    return {out.as<float>(), out.as<float>() + rows * vocabulary};
  }

 private:
  grid x_, w_;
  candidates_fixture candidates_;
  std::vector<std::uint64_t> seed_{5, 6};
  std::vector<std::int32_t> step_{3, 0}, banned_{0, 699, 700, 2499};
};

// One piece of a token, and edges that fall on no chunk and no slice.
inline const std::vector<std::int32_t> uneven_edges = {0, 700, 701, 2060, 2500};

}  // namespace unmask::test
