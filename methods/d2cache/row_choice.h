// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which rows d2Cache computes in its next forward.
#pragma once

#include <cstdint>
#include <vector>

namespace unmask::d2 {

// Share of a Gaussian window around each of G answer positions that is decided:
//   density[i] = sum_j m[j] g(i - j) / sum_d g(d), g(d) = exp(-d^2 / (2 sigma^2)),
// j from -G to 2 G - 1, d from -3 G to 3 G - 1; m is 1 left of the answer and, right of it, what the
// answer's last position is.
class decided_density {
 public:
  // A new answer of masks.
  void start(std::int32_t positions, double sigma);
  void decide(std::int32_t position);
  double at(std::int32_t position) const { return sum_[static_cast<std::size_t>(position)] / all_; }

 private:
  // Sum of g over [first, last), 0 <= first <= last <= 3 G + 1.
  double between(std::int32_t first, std::int32_t last) const {
    return before_[static_cast<std::size_t>(last)] - before_[static_cast<std::size_t>(first)];
  }
  std::vector<double> window_, before_;  // g(d); sum of g below d
  std::vector<double> sum_;
  double all_ = 1;
};

struct row_settings {
  std::int32_t current_k = 32;
  double rollout_p = 0.1;
  std::int32_t inflate_w = 0;
  bool shifted = false;  // position p is read from row p - 1
};

// What is known of a sequence after a step. Answer positions count from the prompt's end.
struct row_evidence {
  std::int32_t prompt = 0;
  std::vector<std::uint8_t> masked;   // [G] now
  std::vector<std::uint8_t> open;     // [G] masks of the block in work before the step
  std::vector<std::uint8_t> decided;  // [G] decided in the step
  std::vector<float> confidence;      // [G] of the first forward
  const decided_density* density = nullptr;
  const float* importance = nullptr;  // [prompt + G] attention rollout
};

// Flags [prompt + G] of the rows of the next forward, in the order of the official code:
//   1. the current_k masks of largest confidence times density between the block's first mask and the
//      end of the block-wise window that holds current_k masks; those of the block come first;
//   2. with a shift, the row before each of them; and the positions just decided;
//   3. of all others the most important ones, while their share of the others' importance adds up to at
//      most rollout_p, one at least;
//   4. with a shift, the prompt's last row exactly where the first answer position was chosen in 1;
//   5. everything between two chosen positions at most inflate_w apart.
std::vector<std::uint8_t> choose_rows(const row_settings& s, const row_evidence& e);

}  // namespace unmask::d2
