// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Answers of MATH problems as text: where an answer stands and the spellings that count as one.
// Three published normalisations, each with its own idea of what to drop.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace unmask::scorers {

// Where the published Python function raises an exception; type: ValueError, IndexError,
// AssertionError.
struct python_exception {
  const char* type;
};

// The last "\boxed{...}" or "\fbox{...}" of a text with its command, braces balanced; nothing when
// there is none or it does not close. What stands between the braces of such a text.
std::optional<std::string> last_boxed_command(std::string_view text);
std::optional<std::string> without_box(std::string_view command);

// hendrycks_math: strip_string (throws python_exception where it raises) and is_equiv, which
// compares the stripped texts, or the texts themselves when stripping raises.
std::string hendrycks_strip(std::string_view text);
bool hendrycks_equal(std::string_view a, std::string_view b);
// The body of strip_string that OpenCompass v1 shares; `lenient`: an empty text after \frac is no
// error, as there.
std::string stripped_math(std::string_view text, bool lenient);

// \frac12 and \frac1{2} to \frac{1}{2}; a/b of whole numbers to \frac{a}{b} (throws ValueError for
// other pairs).
std::string fixed_fractions(std::string_view text, bool lenient);
std::string fixed_slash(std::string_view text);

// Minerva (Lewkowycz et al. 2022, appendix D): the answer of a response, "[invalidanswer]" when it
// names none, and its normal spelling.
std::string minerva_answer(std::string_view response);
std::string minerva_normal(std::string_view answer);

// OpenCompass MATH: postprocessor and equality of version 1 and 2.
std::string math_opencompass_answer(std::string_view response, int version);
bool math_opencompass_equal(std::string_view a, std::string_view b, int version);

}  // namespace unmask::scorers
