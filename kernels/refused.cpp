// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/refused.h"

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>

#include "kernels/shared_vector.h"

namespace unmask {
namespace {

struct refused_tokens {
  std::vector<std::int32_t> tokens;
  // With the tokens that some call bans before them; a list stays where it is.
  std::map<std::vector<std::int32_t>, shared_vector<std::int32_t>> lists;
};

std::atomic<int> heads_that_refuse = 0;  // most programs have none, and ask nobody
std::atomic<int> lives_of_all_logits = 0;
std::mutex lock;
std::map<const packed_matrix*, refused_tokens>& table() {
  static std::map<const packed_matrix*, refused_tokens> all;
  return all;
}

}  // namespace

refusal::refusal(const packed_matrix& head, std::vector<std::int32_t> tokens) : head_(&head) {
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= head.out_features) {
      throw std::logic_error("refusal: token outside the head");
    }
  }
  const std::lock_guard guard(lock);
  if (!table().try_emplace(head_, refused_tokens{std::move(tokens), {}}).second) {
    throw std::logic_error("refusal: the head refuses tokens already");
  }
  ++heads_that_refuse;
}

refusal::~refusal() {
  const std::lock_guard guard(lock);
  table().erase(head_);
  --heads_that_refuse;
}

all_logits::all_logits() {
  ++lives_of_all_logits;
}
all_logits::~all_logits() {
  --lives_of_all_logits;
}

void check_whole_logits(const packed_matrix& head) {
  if (heads_that_refuse == 0 || lives_of_all_logits > 0) return;
  const std::lock_guard guard(lock);
  if (!table().contains(&head)) return;
  throw usage_error(
      "this model never says some of its tokens, and these settings of the method read the logits "
      "of "
      "all tokens; take another method, or settings that read confidences alone");
}

token_list with_refused(const packed_matrix& head, const token_list& banned) {
  if (heads_that_refuse == 0) return banned;
  const std::lock_guard guard(lock);
  const auto found = table().find(&head);
  if (found == table().end()) return banned;
  std::vector<std::int32_t> all(banned.token, banned.token + banned.count);
  const auto [list, is_new] = found->second.lists.try_emplace(all);
  if (is_new) {
    all.insert(all.end(), found->second.tokens.begin(), found->second.tokens.end());
    list->second.assign(all.begin(), all.end());
  }
  return {list->second.data(), static_cast<std::int32_t>(list->second.size())};
}

}  // namespace unmask
