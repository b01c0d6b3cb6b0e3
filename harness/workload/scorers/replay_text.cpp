// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Replay of the scorers that compare text: numbers, letters, words, programs.
#include <algorithm>
#include <map>

#include "harness/base/json_lines.h"
#include "harness/base/python_text.h"
#include "harness/workload/scorers/choice.h"
#include "harness/workload/scorers/code_answer.h"
#include "harness/workload/scorers/gsm8k.h"
#include "harness/workload/scorers/ifeval.h"
#include "harness/workload/scorers/longbench.h"
#include "harness/workload/scorers/replay_cases.h"
#include "harness/workload/scorers/rouge.h"

namespace unmask::scorers {
namespace {

void replay_extraction(golden_case& c, const json_reader& filter, const extraction& ours) {
  c.text(filter, "extracted", ours.text);
  c.number(filter.child("scores"), "exact_match", ours.right ? 1 : 0);
}

void replay_gsm8k_lm_eval(golden_case& c) {
  const std::string response = c.response(), target = c.item().text("target");
  replay_extraction(c, c.official().child("strict-match"), gsm8k_strict(response, target));
  replay_extraction(c, c.official().child("flexible-extract"), gsm8k_flexible(response, target));
}

void replay_gsm8k_opencompass(golden_case& c) {
  const extraction ours = gsm8k_opencompass(c.response(), c.item().text("reference"));
  c.text(c.official(), "extracted", ours.text);
  c.flag(c.official(), "correct", ours.right);
}

// Calls visit(key, value) for every member of the official result.
template <class Visit>
void for_each_official(golden_case& c, Visit visit) {
  for (const json_member& m : *c.item().at("official").members()) visit(m.first, m.second);
}

void replay_choice(golden_case& c) {
  const std::string response = c.response();
  for_each_official(c, [&](const std::string& key, const json_value&) {
    if (key.starts_with("first_capital")) {
      c.text(c.official(), key, first_capital(response));
    } else if (key.starts_with("first_option ")) {
      const std::string options = key.substr(13, key.find(' ', 13) - 13);
      c.text(c.official(), key, first_option(response, options));
    } else {
      c.differs(key, "unknown", "an extractor");
    }
  });
}

void replay_mmlu(golden_case& c) {
  replay_extraction(c, c.official().child("get_response"),
                    mmlu_generative(c.response(), c.item().text("gold")));
}

void replay_likelihood_choice(golden_case& c) {
  const json_value::array& recorded = *c.item().at("loglikelihoods").items();
  std::vector<double> values;
  for (const json_value& v : recorded) {
    const std::int64_t* whole = v.integer();
    values.push_back(whole != nullptr ? static_cast<double>(*whole) : std::get<double>(v.data));
  }
  const auto gold = static_cast<std::size_t>(c.item().integer("gold", 0, 1000));
  const choice_verdict ours = likelihood_choice(values, c.texts("choices"), gold);
  c.number(c.official(), "acc", ours.acc ? 1 : 0);
  c.number(c.official(), "acc_norm", ours.acc_norm ? 1 : 0);
}

void replay_longbench(golden_case& c) {
  for_each_official(c, [&](const std::string& key, const json_value&) {
    const bool plain = key.find("difflib") != std::string::npos;
    c.number(c.official(), key,
             longbench_score(c.item().text("dataset"), c.item().text("prediction"),
                             c.texts("answers"), c.texts("all_classes"),
                             plain ? code_ratio::difflib : code_ratio::levenshtein,
                             key.starts_with("opencompass")));
  });
}

void replay_rouge_score(golden_case& c, const json_reader& official, const char* key, bool stem) {
  const rouge_scores ours =
      rouge_score_package(c.item().text("prediction"), c.item().text("reference"), stem);
  const json_reader where = official.child(key);
  const auto compare = [&](const char* name, const rouge_value& v) {
    c.numbers(where, name, {v.precision, v.recall, v.f});
  };
  compare("rouge1", ours.rouge1);
  compare("rouge2", ours.rouge2);
  compare("rougeL", ours.rouge_l);
  compare("rougeLsum", ours.rouge_lsum);
}

void replay_rouge_package(golden_case& c, const std::string& key, const json_value& recorded) {
  const rouge_package_scores ours =
      rouge_package(c.item().text("prediction"), c.item().text("reference"));
  if (const std::string* error = recorded.text()) {
    if (*error != "error: " + ours.error) c.differs(key, ours.error, *error);
    return;
  }
  if (!ours.error.empty()) return c.differs(key, ours.error, json_text(recorded));
  const json_reader where = c.official().child(key);
  const auto compare = [&](const char* name, const rouge_value& v) {
    c.numbers(where, name, {v.precision, v.recall, v.f});
  };
  compare("rouge-1", ours.rouge1);
  compare("rouge-2", ours.rouge2);
  compare("rouge-l", ours.rouge_l);
}

void replay_rouge(golden_case& c) {
  for_each_official(c, [&](const std::string& key, const json_value& recorded) {
    if (key.starts_with("rouge_score")) {
      replay_rouge_score(c, c.official().child(key), "no_stemmer", false);
      replay_rouge_score(c, c.official().child(key), "stemmer", true);
    } else {
      replay_rouge_package(c, key, recorded);
    }
  });
}

void replay_completion(golden_case& c, const std::string& key, const std::string& ours) {
  c.text(c.official().child(key), "completion", ours);
}

void replay_humaneval(golden_case& c) {
  const std::string response = c.response();
  for_each_official(c, [&](const std::string& key, const json_value&) {
    if (key.starts_with("lm_eval")) {
      // The program is the item's prompt, which ends its docstring, and then ours.
      const std::string program = c.official().child(key).text("program");
      const std::string ours = humaneval_until_stop(response);
      const std::string_view prompt = std::string_view(program).substr(
          0, program.size() - std::min(program.size(), ours.size()));
      const std::string_view end = py::strip(prompt);
      const bool whole = end.ends_with("\"\"\"") || end.ends_with("'''");
      if (!program.ends_with(ours) || !whole) c.differs(key, ours, program);
    } else if (key.starts_with("opencompass_0.4.2")) {
      replay_completion(c, key, humaneval_first_block(response, false));
    } else if (key.starts_with("opencompass_0.5.1_focus")) {
      replay_completion(c, key, humaneval_first_block(response, true));
    } else if (key.ends_with("postprocess_new")) {
      replay_completion(c, key, humaneval_before_fence(response));
    } else if (key.ends_with("postprocess_new_chat")) {
      replay_completion(c, key, humaneval_last_block(response));
    } else if (!key.starts_with("fast_dllm")) {  // that one needs Python's parser
      c.differs(key, "unknown", "an extractor");
    }
  });
}

void replay_mbpp(golden_case& c) {
  for_each_official(c, [&](const std::string& key, const json_value&) {
    const bool lm_eval = key.starts_with("lm_eval");
    c.text(c.official().child(key), "program",
           lm_eval ? mbpp_until_done(c.response()) : mbpp_opencompass(c.response()));
  });
}

void replay_decisions(golden_case& c, const char* level, const std::vector<decision>& ours) {
  const decision all = ifeval_verdict::all_of(ours);
  const auto open = std::ranges::find(ours, decision::undecided) != ours.end();
  if (open) return c.undecided(level);
  std::vector<bool> kept;
  for (const decision d : ours) kept.push_back(d == decision::kept);
  c.flags(c.official(), std::string("inst_") + level, kept);
  c.flag(c.official(), std::string("prompt_") + level, all == decision::kept);
}

void replay_ifeval(golden_case& c) {
  const ifeval_verdict ours = score_ifeval(c.item(), c.response());
  replay_decisions(c, "strict", ours.strict);
  replay_decisions(c, "loose", ours.loose);
}

}  // namespace

replay_function find_text_replay(std::string_view file) {
  static const std::map<std::string_view, replay_function> known = {
      {"gsm8k_lm_eval", replay_gsm8k_lm_eval},
      {"gsm8k_opencompass", replay_gsm8k_opencompass},
      {"choice_opencompass", replay_choice},
      {"mmlu_generative_lm_eval", replay_mmlu},
      {"likelihood_choice_lm_eval", replay_likelihood_choice},
      {"longbench", replay_longbench},
      {"rouge", replay_rouge},
      {"ifeval_lm_eval", replay_ifeval},
      {"humaneval", replay_humaneval},
      {"mbpp", replay_mbpp}};
  const auto found = known.find(file);
  return found == known.end() ? nullptr : found->second;
}

}  // namespace unmask::scorers
