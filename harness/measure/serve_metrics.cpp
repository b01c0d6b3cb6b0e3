// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/serve_metrics.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/rows/statistics.h"
#include "kernels/random.h"

namespace unmask {
namespace {

struct named_quantile {
  const char* name;
  double q;
};
constexpr named_quantile quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};

class values {
 public:
  explicit values(std::map<std::string, metric>& into) : into_(into) {}
  void put(const std::string& name, double value, origin from) {
    if (std::isfinite(value)) into_[name] = {value, from};
  }
  // Mean and earned percentiles; `n`: independent samples, the requests.
  void spread(const std::string& name, std::vector<double> samples, std::size_t n, origin from) {
    std::erase_if(samples, [](double v) { return !std::isfinite(v); });
    n = std::min(n, samples.size());
    if (samples.empty()) return;
    put(name + "_mean_seconds", mean_of(samples), from);
    for (const named_quantile& q : quantiles) {
      if (percentile_earned(q.q, n)) {
        put(name + "_" + q.name + "_seconds", percentile_of(samples, q.q), from);
      }
    }
  }

 private:
  std::map<std::string, metric>& into_;
};

// Puts the rate while the batch was as full as it ever was: from the first forward pass with the most requests
// to the last, prefill included, whatever the policy. Filling and emptying the batch are left out.
void steady_values(values& v, const std::vector<iteration_record>& all, origin time) {
  const auto most = std::ranges::max_element(all, {}, &iteration_record::requests);
  if (most == all.end()) return;
  const auto full = [&](const iteration_record& it) { return it.requests == most->requests; };
  const auto first = std::ranges::find_if(all, full);
  const auto last = std::ranges::find_if(all.rbegin(), all.rend(), full).base();
  double seconds = 0, committed = 0, every = 0;
  for (const iteration_record& it : all) every += it.seconds;
  for (auto it = first; it != last; ++it) {
    seconds += it->seconds;
    committed += static_cast<double>(it->committed);
  }
  if (seconds <= 0) return;
  v.put("steady_tokens_per_second", committed / seconds, time);
  v.put("steady_time_share", seconds / every, time);
}

// Puts requests and rows per request of decode forwards; both are weighted by forwards.
void batch_values(values& v, const std::vector<iteration_record>& all, origin time, origin tokens) {
  std::vector<double> batch, chunk, chosen;
  double committed = 0, decode_committed = 0, at_once = 0;
  double seconds = 0, prefill_seconds = 0, rows = 0, recomputed = 0, batch_seconds = 0, error = 0;
  std::size_t predicted = 0;
  for (const iteration_record& it : all) {
    seconds += it.seconds;
    batch_seconds += it.seconds * it.requests;
    rows += static_cast<double>(it.rows);
    recomputed += static_cast<double>(it.recomputed_rows);
    committed += static_cast<double>(it.committed);
    at_once += static_cast<double>(it.at_once);
    if (it.predicted > 0 && it.seconds > 0) {
      error += std::abs(it.predicted - it.seconds) / it.seconds;
      ++predicted;
    }
    if (it.prefill) {
      prefill_seconds += it.seconds;
      continue;
    }
    decode_committed += static_cast<double>(it.committed);
    batch.push_back(it.requests);
    chunk.push_back(static_cast<double>(it.rows) / it.requests);
    if (it.chosen > 0) chosen.push_back(it.chosen);
  }
  if (rows > 0) v.put("recomputed_row_share", recomputed / rows, tokens);
  if (seconds > 0) {
    v.put("prefill_time_share", prefill_seconds / seconds, time);
    v.put("batch_time_mean", batch_seconds / seconds, time);
  }
  if (committed > 0) v.put("full_block_token_share", at_once / committed, tokens);
  if (seconds > prefill_seconds) {
    v.put("decode_tokens_per_second", decode_committed / (seconds - prefill_seconds), time);
  }
  if (predicted > 0) {
    v.put("predicted_time_error", error / static_cast<double>(predicted), time);
  }
  if (batch.empty()) return;
  v.put("batch_mean", mean_of(batch), tokens);
  v.put("batch_p50", percentile_of(batch, 0.5), tokens);
  v.put("batch_max", *std::ranges::max_element(batch), tokens);
  v.put("chunk_mean", mean_of(chunk), tokens);
  v.put("chunk_p50", percentile_of(chunk, 0.5), tokens);
  v.put("chunk_min", *std::ranges::min_element(chunk), tokens);
  if (chosen.empty()) return;
  v.put("chosen_chunk_mean", mean_of(chosen), tokens);
  v.put("chosen_chunk_p50", percentile_of(chosen, 0.5), tokens);
  v.put("chosen_chunk_min", *std::ranges::min_element(chosen), tokens);
  v.put("chosen_chunk_max", *std::ranges::max_element(chosen), tokens);
  const auto full = std::ranges::count(chosen, *std::ranges::max_element(chosen));
  v.put("chosen_chunk_full_share", static_cast<double>(full) / static_cast<double>(chosen.size()),
        tokens);
}

// Puts what was computed for clients that left, and what they had been handed until then.
void cancellation_values(values& v, const std::vector<request_record>& all, origin tokens) {
  double discarded = 0, handed_out = 0, rows = 0, all_rows = 0;
  for (const request_record& r : all) {
    const auto mine = static_cast<double>(r.answer.counters.rows);
    all_rows += mine;
    if (r.end != outcome::cancelled) continue;
    discarded += static_cast<double>(r.answer.counters.committed);
    rows += mine;
    if (!r.emissions.empty()) handed_out += r.emissions.back().tokens;
  }
  v.put("discarded_tokens", discarded, tokens);
  v.put("discarded_tokens_handed_out", handed_out, tokens);
  if (all_rows > 0) v.put("discarded_row_share", rows / all_rows, tokens);
}

}  // namespace

void add_cancellations(std::vector<request_order>& orders, const parameters& serve,
                       std::uint64_t seed) {
  const double share = serve.real("cancel_share");
  const double seconds = serve.real("cancel_after_seconds");
  const auto blocks = static_cast<std::int32_t>(serve.integer("cancel_after_blocks"));
  const std::uint64_t key = stream_key(seed, 41);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (uniform_open(key, i) >= share) continue;
    if (seconds > 0) orders[i].cancel = orders[i].arrival + seconds;
    orders[i].cancel_blocks = blocks;
  }
}

std::vector<const request_record*> counted_requests(const served_run& run, double trim) {
  const auto n = run.requests.size();
  const auto cut = static_cast<std::size_t>(std::floor(trim * static_cast<double>(n)));
  std::vector<const request_record*> counted;
  for (std::size_t i = cut; i + cut < n; ++i) counted.push_back(&run.requests[i]);
  return counted;
}

std::map<std::string, metric> serving_values(const served_run& run,
                                             const serving_objective& objective, origin time,
                                             origin tokens) {
  std::map<std::string, metric> all;
  values v(all);
  std::map<outcome, double> ends;
  for (const request_record& r : run.requests) ++ends[r.end];
  v.put("requests", static_cast<double>(run.requests.size()), origin::counted);
  v.put("requests_finished", ends[outcome::finished], origin::counted);
  v.put("requests_cancelled", ends[outcome::cancelled], origin::counted);
  v.put("requests_rejected", ends[outcome::rejected], origin::counted);
  if (ends[outcome::cancelled] > 0) cancellation_values(v, run.requests, tokens);
  v.put("preemptions", static_cast<double>(run.totals.preemptions), tokens);

  const auto counted = counted_requests(run, objective.trim);
  std::vector<double> ttfb, queue, e2e, gaps;
  std::map<tpot_definition, std::vector<double>> tpot;
  std::size_t n = 0, good = 0, streams = 0, stayed = 0;
  double output = 0;
  for (const request_record* r : counted) {
    stayed += r->end != outcome::cancelled;
    if (r->end != outcome::finished) continue;
    ++n;
    streams += r->emissions.size() > 1;
    output += static_cast<double>(r->answer.output.size());
    ttfb.push_back(ttfb_of(*r));
    queue.push_back(queue_time_of(*r));
    e2e.push_back(e2e_of(*r));
    inter_block_of(*r, gaps);
    for (const auto d : {tpot_definition::stream, tpot_definition::decode, tpot_definition::e2e}) {
      tpot[d].push_back(tpot_of(*r, d));
    }
    const double paid = tpot_of(*r, objective.tpot);
    const bool tpot_kept = objective.tpot_seconds <= 0 || paid <= objective.tpot_seconds;
    const bool ttfb_kept = objective.ttfb_seconds <= 0 || ttfb.back() <= objective.ttfb_seconds;
    good += tpot_kept && ttfb_kept;
  }
  v.put("requests_counted", static_cast<double>(counted.size()), origin::counted);
  v.spread("ttfb", ttfb, n, time);
  v.spread("queue", queue, n, time);
  v.spread("e2e", e2e, n, time);
  v.spread("inter_block", gaps, streams, time);
  for (const auto& [definition, samples] : tpot) {
    v.spread("tpot_" + tpot_names()[static_cast<std::size_t>(definition)], samples, n, time);
  }
  if (!counted.empty()) {
    const double window = counted.back()->arrival - counted.front()->arrival;
    const auto gaps_between = static_cast<double>(counted.size() - 1);
    if (window > 0) v.put("request_rate", gaps_between / window, time);
    if (objective.tpot_seconds > 0 || objective.ttfb_seconds > 0) {
      const auto kept = static_cast<double>(good);
      if (stayed > 0) v.put("slo_attainment", kept / static_cast<double>(stayed), time);
      const double share = kept / static_cast<double>(counted.size());
      if (window > 0) v.put("goodput_requests_per_second", share * gaps_between / window, time);
    }
  }
  if (n > 0) v.put("output_tokens_per_request", output / static_cast<double>(n), tokens);
  batch_values(v, run.iterations, time, tokens);
  steady_values(v, run.iterations, time);
  const backlog b = backlog_of(run.requests);
  v.put("in_system_middle", b.middle, time);
  v.put("in_system_last", b.last, time);
  v.put("backlog_growing", b.growing, time);
  return all;
}

served_run together(std::vector<served_run> engines, const serving_objective& objective) {
  served_run all;
  for (const char* rate : {"decode_tokens_per_second", "steady_tokens_per_second"}) {
    for (const served_run& one : engines) {
      const auto values = serving_values(one, objective, origin::analytic, origin::counted);
      if (const auto of = values.find(rate); of != values.end())
        all.rates[rate] += of->second.value;
    }
  }
  all.loop = engines.front().loop;
  all.loop.steps = 0;
  all.loop.peak_kv_bytes = 0;
  for (served_run& one : engines) {
    std::ranges::move(one.requests, std::back_inserter(all.requests));
    std::ranges::move(one.iterations, std::back_inserter(all.iterations));
    all.totals.seconds = std::max(all.totals.seconds, one.totals.seconds);
    all.totals.forwards += one.totals.forwards;
    all.totals.prefill_forwards += one.totals.prefill_forwards;
    all.totals.preemptions += one.totals.preemptions;
    all.loop.steps += one.loop.steps;
    all.loop.peak_kv_bytes += one.loop.peak_kv_bytes;
    all.pictures.tower_runs += one.pictures.tower_runs;
    all.pictures.flops += one.pictures.flops;
  }
  all.use = engines.front().use;
  std::ranges::sort(all.requests, {}, &request_record::request);
  std::ranges::stable_sort(all.iterations, {}, &iteration_record::time);
  return all;
}

std::string request_times(const std::vector<request_record>& requests) {
  const auto seconds = [](double t) {  // to the microsecond; NaN becomes null
    return nlohmann::ordered_json(std::isfinite(t) ? std::round(t * 1e6) / 1e6 : std::nan(""));
  };
  constexpr const char* ends[] = {"finished", "cancelled", "rejected"};
  const auto none = nlohmann::ordered_json::array();
  nlohmann::ordered_json all = {
      {"arrival", none},       {"admitted", none}, {"prefill_done", none}, {"first_emission", none},
      {"last_emission", none}, {"finish", none},   {"tokens", none},       {"end", none}};
  for (const request_record& r : requests) {
    const bool any = !r.emissions.empty();
    all["arrival"].push_back(seconds(r.arrival));
    all["admitted"].push_back(seconds(r.admitted));
    all["prefill_done"].push_back(seconds(r.prefill_done));
    all["first_emission"].push_back(seconds(any ? r.emissions.front().time : std::nan("")));
    all["last_emission"].push_back(seconds(any ? r.emissions.back().time : std::nan("")));
    all["finish"].push_back(seconds(r.finish));
    all["tokens"].push_back(r.answer.output.size());
    all["end"].push_back(ends[static_cast<std::size_t>(r.end)]);
  }
  return all.dump();
}

std::string iteration_csv(const std::vector<iteration_record>& iterations) {
  std::string text =
      "time,seconds,predicted_seconds,phase,requests,recomputed,rows,recomputed_rows,masks,"
      "committed,commit_requests,waiting,free_pages,chosen_chunk\n";
  for (const iteration_record& it : iterations) {
    text += fmt::format("{:.6f},{:.6f},{:.6f},{},{},{},{},{},{},{},{},{},{},{}\n", it.time,
                        it.seconds, it.predicted, it.prefill ? "prefill" : "decode", it.requests,
                        it.recomputed, it.rows, it.recomputed_rows, it.candidates, it.committed,
                        it.commits, it.waiting, it.free_pages, it.chosen);
  }
  return text;
}

}  // namespace unmask
