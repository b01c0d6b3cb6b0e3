// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/decide.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace unmask {
namespace {

namespace fs = std::filesystem;

std::string name_of(const paper_claim& c) {
  return c.paper + "/" + c.id;
}

bool is_open(const checked_claim& c) {
  return c.result.judged == verdict::ambiguous ||
         (c.result.judged == verdict::partly && c.result.undecided > 0 && c.result.failed == 0);
}

std::int64_t raised(std::int64_t now, double factor) {
  // A third more than the estimate: its own value moves as well.
  const double wanted = factor == 0 ? 4 : std::clamp(factor * 1.3, 2.0, 4.0);
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(now) * wanted));
}

double growth(const artifact_evidence& from, const artifact_evidence& to) {
  return static_cast<double>(to.items * to.repetitions) /
         static_cast<double>(from.items * from.repetitions);
}

artifact_evidence evidence_of(const evidence_log& log, const campaign_item& item) {
  const auto at = log.find(item.key());
  return at == log.end() ? artifact_evidence{} : at->second;
}

bool is_about(const paper_claim& c, const campaign_item& item) {
  return std::ranges::any_of(c.artifacts, [&](const fs::path& file) {
    std::error_code failed;
    return fs::equivalent(item.artifact.file, file, failed);
  });
}

// None where the claim was judged by rows of another scale, which lay there already.
std::vector<const campaign_item*> items_behind(const checked_claim& c,
                                               const std::vector<campaign_item>& items) {
  std::vector<const campaign_item*> behind;
  for (const campaign_item& i : items) {
    if (c.result.scale == i.scale && is_about(c.claim, i)) behind.push_back(&i);
  }
  return behind;
}

std::string minutes(double seconds) {
  return seconds < 90 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

// Claims whose last round brought no new items: the workloads have no more.
void give_up_the_exhausted(const std::vector<checked_claim>& before,
                           const std::vector<checked_claim>& after,
                           const std::vector<decide_step>& round,
                           std::map<std::string, std::string>& given_up) {
  for (std::size_t i = 0; i < after.size(); ++i) {
    const checked_claim &a = before[i], &b = after[i];
    const std::string name = name_of(b.claim);
    const bool measured = std::ranges::any_of(round, [&](const decide_step& s) {
      return std::ranges::find(s.claims, name) != s.claims.end();
    });
    if (!measured || !is_open(b) || b.result.by_repetition) continue;
    if (a.result.measured && b.result.measured && a.result.measured->n == b.result.measured->n) {
      given_up[name] = fmt::format("all {} {} there are were used", b.result.measured->n,
                                   b.result.measured->unit_of_n);
    }
  }
}

}  // namespace

bool is_timed(const campaign_item& item, const std::vector<paper_claim>& claims) {
  return std::ranges::any_of(claims, [&](const paper_claim& c) {
    return (reads_the_clock(c.left.metric) || reads_the_clock(c.right.metric)) && is_about(c, item);
  });
}

evidence_log read_evidence(const fs::path& log) {
  evidence_log all;
  for (const campaign_outcome& o : read_campaign_lines(log)) {
    if (o.status != campaign_status::measured) continue;
    artifact_evidence& e = all[o.key()];
    if (o.more_items != e.items || o.more_repetitions != e.repetitions) {
      e = {o.more_items, o.more_repetitions, e.rounds + 1, 0};
    }
    e.seconds += o.seconds;
  }
  return all;
}

std::vector<decide_step> next_round(const std::vector<checked_claim>& claims,
                                    const std::vector<campaign_item>& items,
                                    const evidence_log& evidence, double seconds_left,
                                    const std::map<std::string, std::string>& given_up) {
  std::map<const campaign_item*, decide_step> steps;
  for (const checked_claim& c : claims) {
    const double factor = c.result.evidence_factor;
    if (!is_open(c) || given_up.contains(name_of(c.claim)) || factor > hopeless_factor) continue;
    if (factor == 0 && !c.result.by_repetition) continue;
    for (const campaign_item* item : items_behind(c, items)) {
      const artifact_evidence now = evidence_of(evidence, *item);
      decide_step& step = steps.try_emplace(item, decide_step{*item, now, {}}).first->second;
      std::int64_t& wanted = c.result.by_repetition ? step.next.repetitions : step.next.items;
      wanted =
          std::max(wanted, raised(c.result.by_repetition ? now.repetitions : now.items, factor));
      step.claims.push_back(name_of(c.claim));
    }
  }
  std::vector<decide_step> round;
  for (auto& [item, step] : steps) {
    const artifact_evidence now = evidence_of(evidence, *item);
    step.next.rounds = now.rounds + 1;
    step.next.seconds = now.seconds * growth(now, step.next);
    round.push_back(std::move(step));
  }
  std::ranges::stable_sort(round, {}, [](const decide_step& s) {
    return s.next.seconds / static_cast<double>(s.claims.size());
  });
  std::erase_if(round, [&](const decide_step& s) {
    if (s.next.seconds > seconds_left) return true;
    seconds_left -= s.next.seconds;
    return false;
  });
  return round;
}

void add_costs(std::vector<checked_claim>& claims, const std::vector<campaign_item>& items,
               const evidence_log& evidence, const std::map<std::string, std::string>& given_up) {
  for (checked_claim& c : claims) {
    claim_result& r = c.result;
    if (!is_open(c)) continue;
    double seconds = 0;
    std::size_t rounds = 0;
    for (const campaign_item* item : items_behind(c, items)) {
      const artifact_evidence now = evidence_of(evidence, *item);
      seconds += now.seconds;
      rounds = std::max(rounds, now.rounds);
    }
    const char* what = r.by_repetition ? "repetitions" : "items";
    if (const auto why = given_up.find(name_of(c.claim)); why != given_up.end()) {
      r.reason += "; " + why->second;
    } else if (r.evidence_factor == 0) {
      r.reason += fmt::format("; a decision needs more {}, how many nobody can tell yet", what);
    } else if (!std::isfinite(r.evidence_factor)) {
      r.reason += "; the value lies on the bound, no amount of evidence decides it";
    } else {
      r.reason += fmt::format("; as it stands {:.1f} times as many {} would decide it",
                              r.evidence_factor, what);
      if (seconds > 0) r.reason += ", about " + minutes(seconds * r.evidence_factor);
    }
    if (rounds > 0) r.reason += fmt::format(" (after {} rounds of more evidence)", rounds);
  }
}

std::vector<checked_claim> decide(const std::vector<campaign_item>& items,
                                  const fs::path& directory, double seconds,
                                  const artifact_runner& runner, const claim_judge& judge_claims,
                                  std::ostream& progress, std::size_t lanes) {
  const auto start = std::chrono::steady_clock::now();
  const fs::path log = directory / campaign_log;
  std::map<std::string, std::string> given_up;
  std::vector<checked_claim> claims = judge_claims();
  for (std::size_t number = 1;; ++number) {
    const double spent =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::vector<decide_step> round =
        next_round(claims, items, read_evidence(log), seconds - spent, given_up);
    if (round.empty()) break;
    progress << fmt::format("round {}: {} of {} claims are open, {} artifacts get more evidence\n",
                            number, std::ranges::count_if(claims, is_open), claims.size(),
                            round.size())
             << std::flush;
    std::vector<campaign_item> again;
    for (const decide_step& step : round) {
      again.push_back(step.item);
      again.back().more_items = step.next.items;
      again.back().more_repetitions = step.next.repetitions;
    }
    run_campaign(again, directory, runner, progress, lanes);
    const std::vector<checked_claim> before = std::move(claims);
    claims = judge_claims();
    give_up_the_exhausted(before, claims, round, given_up);
  }
  add_costs(claims, items, read_evidence(log), given_up);
  return claims;
}

}  // namespace unmask
