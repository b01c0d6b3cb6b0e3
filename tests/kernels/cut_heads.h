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

// What a head of 2,500 tokens, some of which are banned, says of 9 rows; all in memory of a backend.
class head_question {
 public:
  static constexpr std::int64_t vocabulary = 2500, width = 33, rows = 9;
  explicit head_question(const backend& on)
      : on_(on), x_(on.allocate(dtype::f32, {rows, width})), w_({vocabulary, width}) {
    std::mt19937 rng(29);
    grid x({rows, width});
    x.randomize(rng);
    w_.randomize(rng);
    // Of a row the largest logit twice: the first of both is its token, in another piece than the other.
    for (std::int64_t d = 0; d < width; ++d) w_.at(2400, d) = w_.at(3, d) = 2 * x.at(0, d);
    for (std::int64_t r = 0; r < rows; ++r) {
      on.write(x_.row<float>(r), x.row(r), static_cast<std::size_t>(width) * sizeof(float));
    }
    candidates_ = {2, rows, put<std::int32_t>({0, 4, 9}),
                   put<std::int32_t>({0, 1, 2, 7, 4, 5, 6, 8, 11}),
                   put<std::int32_t>({0, 1, 2, 3, 4, 5, 6, 7, 8})};
    noise_ = {put<std::uint64_t>({5, 6}), put<std::int32_t>({3, 0})};
    banned_ = put<std::int32_t>({0, 699, 700, 2499});
  }
  tensor_view weights() const { return w_; }

  said_of_candidates ask(const packed_matrix& head, float noise, bool entropy) const {
    said_of_candidates said(on_, rows);
    ask(head, noise, entropy, said);
    on_.synchronize();
    return said;
  }
  void ask(const packed_matrix& head, float noise, bool entropy, said_of_candidates& said) const {
    confidence_params params;
    params.temperature = 0.9F;
    params.gumbel_temperature = noise;
    params.noise = noise_;
    params.banned = banned_;
    params.banned_count = 4;
    on_.run(op::confidence{x_, head, candidates_, params, said.out(entropy)});
  }
  std::vector<float> logits(const packed_matrix& head) const {
    const tensor out = on_.allocate(dtype::f32, {rows, vocabulary}, memory_use::host_visible);
    on_.run(op::logits{x_, head, candidates_.row, out});
    on_.synchronize();
    return {out.as<float>(), out.as<float>() + rows * vocabulary};
  }
  // A row of x becomes another.
  void change(std::int64_t row) {
    const float other = 1.5F;
    on_.write(x_.row<float>(row) + 7, &other, sizeof other);
  }

 private:
  template <class T>
  const T* put(std::vector<T> values) {
    kept_.push_back(
        on_.allocate(dtype_of<T>::value, {std::ssize(values)}, memory_use::host_visible));
    std::copy(values.begin(), values.end(), kept_.back().as<T>());
    return kept_.back().as<T>();
  }

  const backend& on_;
  tensor x_;
  grid w_;
  std::vector<tensor> kept_;
  candidate_set candidates_;
  noise_source noise_;
  const std::int32_t* banned_ = nullptr;
};

// One piece of a token, and edges that fall on no chunk and no slice.
inline const std::vector<std::int32_t> uneven_edges = {0, 700, 701, 2060, 2500};

}  // namespace unmask::test
