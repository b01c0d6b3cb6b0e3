// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Replay of the scorers of MATH.
#include <map>

#include "harness/workload/scorers/math_minerva.h"
#include "harness/workload/scorers/math_text.h"
#include "harness/workload/scorers/math_verify.h"
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

void replay_decision(golden_case& c, const json_reader& where, const char* key, decision ours) {
  if (ours == decision::undecided) return c.undecided(key);
  c.flag(where, key, ours == decision::kept);
}

void replay_equivalence(golden_case& c) {
  const std::string a = c.item().text("a"), b = c.item().text("b");
  c.text(c.item(), "hendrycks_strip_a", stripped_or_error(a));
  c.text(c.item(), "hendrycks_strip_b", stripped_or_error(b));
  c.flag(c.item(), "hendrycks_is_equiv", hendrycks_equal(a, b));
  c.text(c.item(), "minerva_normalize_a", minerva_normal(a));
  c.text(c.item(), "minerva_normalize_b", minerva_normal(b));
  replay_decision(c, c.item(), "minerva_is_equiv",
                  minerva_equal(minerva_normal(a), minerva_normal(b)));
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
  const std::string wanted = minerva_normal(c.item().text("answer"));
  const std::string answer = minerva_normal(minerva_answer(c.response()));
  c.text(c.official(), "normalized_answer", wanted);
  c.text(c.official(), "extracted", answer);
  replay_decision(c, c.official(), "exact_match", minerva_equal(answer, wanted));
}

void replay_verify(golden_case& c) {
  const math_verdict ours = math_verify_opencompass(c.response(), c.item().text("reference"));
  if (ours.right == decision::undecided) return c.undecided("accuracy");
  c.number(c.official(), "accuracy", ours.right == decision::kept ? 100 : 0);
}

}  // namespace

replay_function find_math_replay(std::string_view file) {
  static const std::map<std::string_view, replay_function> known = {
      {"math_equivalence", replay_equivalence},
      {"math_opencompass", replay_opencompass},
      {"math_minerva_lm_eval", replay_minerva},
      {"math500_opencompass_verify", replay_verify}};
  const auto found = known.find(file);
  return found == known.end() ? nullptr : found->second;
}

}  // namespace unmask::scorers
