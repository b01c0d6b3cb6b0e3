// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The language of a text as the package langdetect 1.0.9 finds it: naive Bayes over n-grams of 1 to
// 3 characters drawn at random, 55 languages. Its profiles are linked in; the first use unpacks
// them (about a second).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace unmask::scorers {

// langdetect.detect(text) with DetectorFactory.seed = seed: "en", "zh-cn", ...; "unknown" when no
// language reaches a probability of 0.1; "" where the package raises "No features in text".
std::string detect_language(std::string_view text, std::uint64_t seed);

}  // namespace unmask::scorers
