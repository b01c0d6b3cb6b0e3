// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/decide.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <ostream>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/experiment/progress.h"

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

// Two steps alone, so that claims share their measurements and a round that was cut off is asked for
// again.
std::int64_t raise_of(double factor) {
  // A third more than the estimate: its own value moves as well.
  return factor == 0 || factor * 1.3 > 2 ? 4 : 2;
}

std::string key_of(const campaign_item& item, const paper_claim& c) {
  return item.key() + " " + name_of(c);
}

artifact_evidence evidence_behind(const evidence_log& log, const campaign_item& item,
                                  const paper_claim& c) {
  for (const std::string& key : {key_of(item, c), item.key()}) {
    if (const auto at = log.find(key); at != log.end()) return at->second;
  }
  return {};
}

double share_behind(const paper_claim& c, const frame& rows) {
  const std::set<std::string> behind = names_behind(c, rows);
  double part = 0, all = 0;
  for (const result_row* row : rows.reportable()) {
    const bool virtual_clock = setting_of(*row, "serve.clock") == "virtual";
    double seconds = virtual_clock ? 1 : 0;
    if (!virtual_clock) {
      for (const auto& list : {row->samples.seconds, row->samples.warmup_seconds}) {
        seconds = std::accumulate(list.begin(), list.end(), seconds);
      }
    }
    all += seconds;
    if (behind.contains(point_name(*row))) part += seconds;
  }
  return all > 0 ? part / all : 1;
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

// Claims whose last round brought no new items: the workloads have no more.
void give_up_the_exhausted(const std::vector<checked_claim>& before,
                           const std::vector<checked_claim>& after,
                           const std::vector<decide_step>& round,
                           std::map<std::string, std::string>& given_up) {
  for (std::size_t i = 0; i < after.size(); ++i) {
    const checked_claim &a = before[i], &b = after[i];
    const std::string name = name_of(b.claim);
    const bool measured = std::ranges::any_of(round, [&](const decide_step& s) {
      return std::ranges::find(s.item.claims, name) != s.item.claims.end();
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
    std::vector<std::string> keys = {o.key()};
    if (!o.claims.empty()) keys.clear();
    for (const std::string& claim : o.claims) keys.push_back(o.key() + " " + claim);
    for (const std::string& key : keys) {
      artifact_evidence& e = all[key];
      if (o.more_items != e.items || o.more_repetitions != e.repetitions) {
        e = {o.more_items, o.more_repetitions, e.rounds + 1, 0};
      }
      e.seconds += o.seconds;
    }
  }
  return all;
}

evidence_log evidence_of(const std::vector<checked_claim>& claims,
                         const std::vector<campaign_item>& items, const fs::path& directory) {
  evidence_log log = read_evidence(directory / campaign_log);
  std::map<const campaign_item*, frame> rows;
  for (const checked_claim& c : claims) {
    if (!is_open(c)) continue;
    for (const campaign_item* item : items_behind(c, items)) {
      if (!rows.contains(item)) rows[item] = read_frame({directory / item->key()});
      artifact_evidence share = evidence_behind(log, *item, c.claim);
      share.seconds *= share_behind(c.claim, rows[item]);
      log.try_emplace(key_of(*item, c.claim), share);
    }
  }
  return log;
}

std::vector<decide_step> next_round(const std::vector<checked_claim>& claims,
                                    const std::vector<campaign_item>& items,
                                    const evidence_log& evidence, double seconds_left,
                                    const std::map<std::string, std::string>& given_up) {
  using evidence_key = std::tuple<const campaign_item*, std::int64_t, std::int64_t>;
  std::map<evidence_key, decide_step> steps;
  for (const checked_claim& c : claims) {
    const double factor = c.result.evidence_factor;
    if (!is_open(c) || given_up.contains(name_of(c.claim)) || !std::isfinite(factor)) continue;
    if (factor == 0 && !c.result.by_repetition) continue;
    for (const campaign_item* item : items_behind(c, items)) {
      const artifact_evidence now = evidence_behind(evidence, *item, c.claim);
      campaign_item next = *item;
      next.timed = false;
      next.more_items = now.items;
      next.more_repetitions = now.repetitions;
      (c.result.by_repetition ? next.more_repetitions : next.more_items) *= raise_of(factor);
      decide_step& step =
          steps.try_emplace({item, next.more_items, next.more_repetitions}, decide_step{next})
              .first->second;
      step.item.claims.push_back(name_of(c.claim));
      step.item.timed |= reads_the_clock(c.claim.left.metric);
      std::ranges::copy(points_of(c.claim), std::back_inserter(step.item.points));
      step.seconds += now.seconds * static_cast<double>(raise_of(factor));
    }
  }
  std::vector<decide_step> round;
  for (auto& [key, step] : steps) round.push_back(std::move(step));
  std::ranges::stable_sort(round, {}, [](const decide_step& s) {
    return s.seconds / static_cast<double>(s.item.claims.size());
  });
  std::erase_if(round, [&](const decide_step& s) {
    if (s.seconds > seconds_left) return true;
    seconds_left -= s.seconds;
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
      const artifact_evidence now = evidence_behind(evidence, *item, c.claim);
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
      if (seconds > 0) r.reason += ", about " + duration_text(seconds * r.evidence_factor);
    }
    if (rounds > 0) r.reason += fmt::format(" (after {} rounds of more evidence)", rounds);
  }
}

std::vector<checked_claim> decide(const std::vector<campaign_item>& items,
                                  const fs::path& directory, double seconds,
                                  const artifact_runner& runner, const claim_judge& judge_claims,
                                  std::ostream& progress, std::size_t lanes) {
  const auto start = std::chrono::steady_clock::now();
  std::map<std::string, std::string> given_up;
  std::vector<checked_claim> claims = judge_claims();
  for (std::size_t number = 1;; ++number) {
    const double spent =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::vector<decide_step> round =
        next_round(claims, items, evidence_of(claims, items, directory), seconds - spent, given_up);
    if (round.empty()) break;
    progress << fmt::format(
                    "round {}: {} of {} claims are open, {} artifacts get more evidence for the "
                    "points behind them\n",
                    number, std::ranges::count_if(claims, is_open), claims.size(), round.size())
             << std::flush;
    std::vector<campaign_item> again;
    for (const decide_step& step : round) again.push_back(step.item);
    run_campaign(again, directory, runner, progress, lanes);
    const std::vector<checked_claim> before = std::move(claims);
    claims = judge_claims();
    give_up_the_exhausted(before, claims, round, given_up);
  }
  add_costs(claims, items, evidence_of(claims, items, directory), given_up);
  return claims;
}

}  // namespace unmask
