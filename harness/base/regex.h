// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The regular expressions of pre-tokenizers, over valid UTF-8. Oniguruma does the work, as it does
// in Hugging Face's tokenizers; nothing else knows, so another engine can take its place.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace unmask {

class regex {
 public:
  // A pattern that does not compile is an environment error with the engine's reason.
  explicit regex(const std::string& pattern);
  // Calls match(begin, end) for every match, left to right; a match may be empty, but not right
  // after another one. A search that exceeds the engine's limits is an environment error.
  void for_each_match(std::string_view text,
                      const std::function<void(std::size_t, std::size_t)>& match) const;

 private:
  std::shared_ptr<void> compiled_;
};

// The characters of text as a pattern that matches exactly them.
std::string regex_escape(std::string_view text);

}  // namespace unmask
