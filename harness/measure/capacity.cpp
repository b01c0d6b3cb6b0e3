// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/capacity.h"

#include <algorithm>
#include <cmath>

#include "harness/base/error.h"
#include "harness/rows/statistics.h"

namespace unmask {
namespace {

constexpr int most_doublings = 40;
constexpr std::size_t enough_requests = 1000;  // for a P90, if their answers have one at all

// One run of a search. If serve.duration brings too few requests for a P90, they go on arriving for
// twice as long, and again; a fixed number of requests is the user's to raise.
rate_result at_rate(double rate, std::uint64_t seed, const parameters& serve,
                    const serving_objective& objective, const served_at& run_at) {
  const bool by_time = serve.integer("requests") == 0 && serve.real("duration") > 0 &&
                       serve.text("arrivals") != "trace";
  for (double longer = 1;; longer *= 2) {
    const served_run run = run_at(rate, seed, longer);
    std::vector<double> tpot;
    bool all = true;
    for (const request_record* r : counted_requests(run, objective.trim)) {
      all = all && r->end == outcome::finished;
      tpot.push_back(tpot_of(*r, objective.tpot));
    }
    std::erase_if(tpot, [](double v) { return !std::isfinite(v); });
    const double arrived = run.requests.empty() ? 0 : run.requests.back().arrival;
    if (percentile_earned(0.9, tpot.size())) {
      return {percentile_of(tpot, 0.9), all, backlog_of(run.requests).growing,
              run.totals.seconds > 2 * arrived, each_is_alone(run.requests)};
    }
    if (!by_time || run.requests.size() > enough_requests) {
      throw usage_error("serve: " + std::to_string(tpot.size()) +
                        " requests are too few for a P90; raise serve." +
                        (by_time ? "duration" : "requests"));
    }
  }
}

}  // namespace

bool each_is_alone(const std::vector<request_record>& requests) {
  double over = 0;
  for (const request_record& r : requests) {
    if (r.arrival < over) return false;
    over = std::max(over, r.finish);
  }
  return true;
}

capacity find_capacity(const std::function<rate_result(double rate)>& at, double objective,
                       double start, double step) {
  capacity found;
  std::map<int, rate_result> seen;  // by power of `step` over `start`
  const auto rate_of = [&](int i) { return start * std::pow(step, i); };
  const auto good = [&](int i) {
    if (!seen.contains(i)) {
      seen[i] = at(rate_of(i));
      ++found.runs;
    }
    return seen[i].served && seen[i].p90 <= objective;
  };
  const auto settle = [&](int i) {
    found.rate = found.tested_ok = rate_of(i);
    found.backlog = seen.at(i).backlog;
  };
  const int octave = std::max(1, static_cast<int>(std::lround(std::log(2) / std::log(step))));
  int low = 0, high = 0;
  if (good(0)) {
    while (!seen.at(low).saturated && good(high = low + octave)) low = high;
    if (seen.at(low).saturated) {
      settle(low);
      found.bounded = false;
      return found;
    }
  } else {
    for (int i = 0; i < most_doublings && !seen.at(low).alone && !good(low = high - octave); ++i) {
      high = low;
    }
    if (!good(low)) return found;
  }
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (good(middle) ? low : high) = middle;
  }
  settle(low);
  const double under = seen.at(low).p90, over = seen.at(high).p90;
  if (seen.at(high).served && over > under) {
    found.rate += (objective - under) / (over - under) * (rate_of(high) - rate_of(low));
  }
  return found;
}

void add_capacity(std::map<std::string, metric>& into, const parameters& serve,
                  const serving_objective& objective, std::uint64_t seed, origin time,
                  const served_at& run) {
  std::vector<double> found;
  double tested = 0, backlogs = 0, unbounded = 0;
  int runs = 0;
  const auto seeds = static_cast<std::uint64_t>(serve.integer("search_seeds"));
  for (std::uint64_t s = 0; s < seeds; ++s) {
    const capacity c =
        find_capacity([&](double rate) { return at_rate(rate, seed + s, serve, objective, run); },
                      objective.tpot_seconds, serve.real("rate"), serve.real("search_step"));
    found.push_back(c.rate);
    tested += c.tested_ok / static_cast<double>(seeds);
    backlogs += c.backlog / static_cast<double>(seeds);
    unbounded += !c.bounded / static_cast<double>(seeds);
    runs += c.runs;
  }
  const double mean = mean_of(found);
  into["slo_capacity_requests_per_second"] = {mean, time, found};
  into["slo_capacity_backlog_share"] = {backlogs, time};
  if (unbounded > 0) into["slo_capacity_unbounded_share"] = {unbounded, time};
  into["slo_capacity_tested_requests_per_second"] = {tested, time};
  into["slo_capacity_runs"] = {static_cast<double>(runs), origin::counted};
  if (found.size() > 1 && mean > 0) {
    into["slo_capacity_half_width"] = {relative_half_width(found), time};
  }
}

}  // namespace unmask
