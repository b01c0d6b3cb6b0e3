// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string>
#include <string_view>

namespace unmask {

// The text with every malformed UTF-8 sequence replaced by U+FFFD (one per maximal subpart, as the
// Unicode standard recommends and Rust and Python do).
std::string repair_utf8(std::string_view text);

// Normalisation form C of valid UTF-8, by the tables of the Hugging Face tokenizers library, which end
// with Unicode 9: a mark that is newer keeps its place, a composition that is newer is not made.
std::string normalize_nfc(std::string_view text);

// Bytes of the character that starts at text[at]; text is valid UTF-8, at < text.size().
std::size_t utf8_length(std::string_view text, std::size_t at);

// Bytes of white space (Unicode White_Space) at the end, or at the beginning, of valid UTF-8.
std::size_t trailing_space(std::string_view text);
std::size_t leading_space(std::string_view text);

}  // namespace unmask
