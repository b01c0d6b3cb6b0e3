// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Replay of the scorers of MATH.
#include <map>

#include "harness/workload/scorers/math_text.h"
#include "harness/workload/scorers/replay_cases.h"

namespace unmask::scorers {
namespace {

std::string stripped_or_error(const std::string& text) {
  try {
    return hendrycks_strip(text);
  } catch (const python_exception& e) {
    return std::string("error:") + e.type;
  }
}

void replay_equivalence(golden_case& c) {
  const std::string a = c.item().text("a"), b = c.item().text("b");
  c.text(c.item(), "hendrycks_strip_a", stripped_or_error(a));
  c.text(c.item(), "hendrycks_strip_b", stripped_or_error(b));
  c.flag(c.item(), "hendrycks_is_equiv", hendrycks_equal(a, b));
  c.text(c.item(), "minerva_normalize_a", minerva_normal(a));
  c.text(c.item(), "minerva_normalize_b", minerva_normal(b));
}

void replay_opencompass(golden_case& c) {
  const std::string reference = c.item().text("reference");
  for (const int version : {1, 2}) {
    const std::string v = "v" + std::to_string(version);
    const std::string answer = math_opencompass_answer(c.response(), version);
    c.text(c.official(), v + "_extracted", answer);
    c.flag(c.official(), v + "_correct", math_opencompass_equal(answer, reference, version));
  }
}

void replay_minerva(golden_case& c) {
  c.text(c.official(), "normalized_answer", minerva_normal(c.item().text("answer")));
  c.text(c.official(), "extracted", minerva_normal(minerva_answer(c.response())));
}

}  // namespace

replay_function find_math_replay(std::string_view file) {
  static const std::map<std::string_view, replay_function> known = {
      {"math_equivalence", replay_equivalence},
      {"math_opencompass", replay_opencompass},
      {"math_minerva_lm_eval", replay_minerva}};
  const auto found = known.find(file);
  return found == known.end() ? nullptr : found->second;
}

}  // namespace unmask::scorers
