// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/serve_settings.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/devices/ceilings.h"
#include "harness/engine/arrivals.h"
#include "harness/engine/serving.h"
#include "harness/engine/trajectory.h"
#include "kernels/random.h"

namespace unmask {
namespace {

constexpr double most = 1e9;
constexpr std::size_t most_requests = 10'000'000;

struct serve_key {
  parameter_spec says;
  bool is_younger = false;  // than the first ids: no part of them at its default
  bool is_written = false;  // names a file that the run writes

  serve_key younger() && {
    is_younger = true;
    return std::move(*this);
  }
  serve_key written() && {
    is_written = true;
    return std::move(*this);
  }
};

serve_key number(const char* name, double value, const char* meaning, double low, double high,
                 const char* source = "") {
  return {{name, value, meaning, low, high, {}, source}};
}
serve_key whole(const char* name, std::int64_t value, const char* meaning, double low,
                const char* source = "") {
  return {{name, value, meaning, low, most, {}, source}};
}
serve_key word(const char* name, const char* value, const char* meaning,
               std::vector<std::string> choices = {}, const char* source = "") {
  return {{name, std::string(value), meaning, -1e300, 1e300, std::move(choices), source}};
}
serve_key flag(const char* name, bool value, const char* meaning, const char* source = "") {
  return {{name, value, meaning, -1e300, 1e300, {}, source}};
}

// Length of request i: drawn from published means and deviations.
std::vector<trace_request> published_lengths(const commit_statistics& of, std::size_t count,
                                             std::uint64_t seed) {
  std::vector<trace_request> requests(count);
  const std::uint64_t in = stream_key(seed, 21), out = stream_key(seed, 22);
  for (std::size_t i = 0; i < count; ++i) {
    requests[i].prompt_tokens =
        std::llround(lognormal_draw(of.input_mean, of.input_deviation, in, i));
    requests[i].output_tokens =
        std::llround(lognormal_draw(of.output_mean, of.output_deviation, out, i));
  }
  return requests;
}

// When requests arrive, what a forward pass costs, what unmasks, and which clients leave.
std::vector<serve_key> keys_of_arrivals() {
  return {
      word("policy", "iter",
           "which requests share a forward pass; batch_size is the number of batch slots",
           batching_names(), "harness/engine/README.md"),
      word("arrivals", "poisson",
           "arrival process of the requests; trace: as recorded; closed: all at 0",
           {"poisson", "gamma", "trace", "closed"}),
      number("rate", 1.0,
             "requests per second; with arrivals = \"trace\" a factor of speed, 1: as recorded",
             1e-6, 1e6),
      number("cv", 1.0, "coefficient of variation of the gaps between arrivals (gamma); 1: Poisson",
             0, 100),
      whole("requests", 100, "number of requests; 0: by duration, or every request of a trace", 0),
      number("duration", 0.0, "seconds of arrivals if `requests` is 0", 0, 1e7),
      word("clock", "real", "real, or virtual: a cost model computes how long a forward pass takes",
           {"real", "virtual"}),
      word("cost", "",
           "virtual clock: time of a forward pass, \"ROWS:MILLISECONDS ...\", or a GPU such as "
           "a100, whose roofline says it of the model and its ranks; empty: measured at the start"),
      number("cost_per_request_ms", 0.0,
             "virtual clock: milliseconds per request of a forward pass", 0, most),
      number("cost_per_key_us", 0.0,
             "virtual clock: microseconds per key that a request attends to", 0, most),
      number("step_overhead_ms", 0.0,
             "milliseconds to wait in every forward pass, to imitate a slower host", 0, 1e6,
             "Optimus; its measured floor is about 34 ms"),
      word("commits", "model",
           "what unmasks tokens: model; replay:FILE of recorded trajectories; published "
           "statistics such as sdar-8b/sharegpt; or those of the workload's `lengths`. Without the "
           "model no layer is computed"),
      word("record", "", "file into which the trajectories of this run are written, for replay")
          .written(),
      number(
          "cancel_share", 0.0,
          "share of requests, drawn by seed, whose client leaves before the response is complete",
          0, 1)
          .younger(),
      number("cancel_after_seconds", 0.0,
             "seconds after their arrival at which these clients leave", 0, 1e6)
          .younger(),
      whole("cancel_after_blocks", 0, "number of received blocks at which these clients leave", 0)
          .younger(),
  };
}

// How requests are scheduled, what is asked of them and what is kept.
std::vector<serve_key> keys_of_scheduling() {
  return {
      whole("replicas", 1,
            "separate engines with batch_size slots each: request i goes to engine i mod "
            "replicas",
            1)
          .younger(),
      whole("prefill_tokens", 0,
            "most positions of one prefill pass, beyond the first prompt; 0: no limit", 0,
            "LMDeploy max_prefill_token_num"),
      whole("prefill_chunk", 0, "positions of one prompt per forward pass; 0: whole prompts", 0,
            "SGLang's dLLM prefill takes one block"),
      whole("forwards_per_turn", 0,
            "lmd and fdfo: forward passes per turn; 0: LMDeploy's rule, 1 for fdfo", 0),
      whole("kv_pages", 0, "number of KV pages of 64 positions; 0: enough for every batch slot", 0),
      word("paging", "auto",
           "reserve pages for prompt and response, or grow and preempt; auto: grow for lmd",
           {"auto", "reserve", "grow"}),
      word("recompute", "keep", "whether a preempted request keeps its finished blocks or restarts",
           {"keep", "restart"}),
      whole("max_prompt_tokens", 0,
            "length at which prompts of traces and lengths are cut; 0: never", 0),
      whole("max_output_tokens", 0,
            "length at which responses of traces and lengths are cut; 0: never", 0),
      word("tpot", "decode", "definition of time per output token that the objective uses",
           tpot_names(), "harness/engine/README.md"),
      number("slo_tpot_ms", 0.0, "objective: time per output token of a request; 0: none", 0, most,
             "Optimus: 50 for chat, 100 for LongBench"),
      number("slo_ttfb_ms", 0.0, "objective: time to first block of a request; 0: none", 0, most),
      number("trim", 0.1, "share of requests left out of the statistics at each end", 0, 0.45),
      flag("search", false,
           "whether to search the highest rate whose P90 time per output token is within "
           "slo_tpot_ms, starting at `rate`",
           "Optimus Fig. 10"),
      number("search_step", 1.25, "ratio between neighbouring rates of the search", 1.01, 4),
      whole("search_seeds", 3, "number of independent searches, for the interval", 1),
      word("log", "",
           "file for one line per forward pass (CSV): batch, rows, unmasked tokens, times")
          .written(),
      flag("keep_requests", false,
           "keep the times of every request in the row, for distributions and other objectives",
           "harness/engine/README.md")
          .younger(),
  };
}

const std::vector<serve_key>& serve_keys() {
  static const std::vector<serve_key> all = [] {
    std::vector<serve_key> keys = keys_of_arrivals();
    std::ranges::move(keys_of_scheduling(), std::back_inserter(keys));
    return keys;
  }();
  return all;
}

}  // namespace

const std::vector<parameter_spec>& serve_parameters() {
  static const std::vector<parameter_spec> all = [] {
    std::vector<parameter_spec> parameters;
    for (const serve_key& key : serve_keys()) parameters.push_back(key.says);
    return parameters;
  }();
  return all;
}

bool is_written(const std::string& key) {
  return std::ranges::any_of(serve_keys(), [&](const serve_key& k) {
    return k.is_written && key == "serve." + k.says.name;
  });
}

void check_serve(const parameter_map& resolved) {
  const parameters serve(resolved);
  const double share = serve.real("cancel_share");
  const bool by_time = serve.real("cancel_after_seconds") > 0;
  const bool by_blocks = serve.integer("cancel_after_blocks") > 0;
  if (share > 0 && by_time == by_blocks) {
    throw usage_error(
        "[serve]: `cancel_share` needs either `cancel_after_seconds` or `cancel_after_blocks`, "
        "above 0, to say when these clients leave");
  }
  if (share == 0 && (by_time || by_blocks)) {
    throw usage_error(std::string("[serve]: `") +
                      (by_time ? "cancel_after_seconds" : "cancel_after_blocks") +
                      "` means nothing without a `cancel_share` above 0");
  }
  if (const std::string& cost = serve.text("cost"); names_card(cost)) {
    ceilings_of(cost);
    if (serve.real("cost_per_request_ms") > 0 || serve.real("cost_per_key_us") > 0) {
      throw usage_error("[serve]: `cost` = \"" + cost +
                        "\" knows what requests and keys cost: `cost_per_request_ms` and "
                        "`cost_per_key_us` must be 0");
    }
  }
  if (serve.integer("replicas") > 1 &&
      (serve.text("clock") != "virtual" || !serve.text("record").empty())) {
    throw usage_error(
        "[serve]: `replicas` above 1 needs clock = \"virtual\" and no `record`: several "
        "engines would share this machine, and one file");
  }
  if (serve.text("policy") == "mixed" &&
      (serve.integer("prefill_tokens") > 0 || serve.integer("prefill_chunk") > 0)) {
    throw usage_error(
        "[serve]: `prefill_tokens` and `prefill_chunk` mean nothing with policy \"mixed\", whose "
        "prompts enter whole");
  }
  if (share > 0 && serve.flag("search")) {
    throw usage_error(
        "[serve]: `search` cannot be combined with `cancel_share`: clients that leave hide the "
        "backlog that ends the search");
  }
}

parameter_map serve_identity(parameter_map resolved) {
  for (const serve_key& key : serve_keys()) {
    const auto found = resolved.find(key.says.name);
    if (key.is_younger && found != resolved.end() && found->second == key.says.default_value) {
      resolved.erase(found);
    }
  }
  return resolved;
}

bool names_card(const std::string& cost) {
  return !cost.empty() && cost.find(':') == std::string::npos;
}

bool runs_dry(const run_settings& run) {
  const auto commits = run.serve.find("commits");  // a file may leave out its default
  return run.kind == "serve" && commits != run.serve.end() &&
         commits->second != parameter_value(std::string("model"));
}

std::vector<trace_request> request_lengths(const workload_entry& entry, const run_settings& run) {
  const parameters serve(run.serve);
  std::vector<trace_request> lengths;
  if (entry.lengths.empty()) {
    lengths = read_trace(entry.trace_format, entry.file.string());
  } else {
    auto count = static_cast<double>(serve.integer("requests"));
    if (count == 0) count = 1 + 2 * serve.real("duration") * serve.real("rate");
    lengths = published_lengths(find_commits(entry.lengths), static_cast<std::size_t>(count),
                                static_cast<std::uint64_t>(run.seed));
  }
  if (const auto limit = static_cast<std::size_t>(entry.items.limit); limit > 0) {
    lengths.resize(std::min(lengths.size(), limit));
  }
  const auto cut = [](std::int64_t length, std::int64_t longest) {
    return std::max<std::int64_t>(longest > 0 ? std::min(length, longest) : length, 1);
  };
  for (trace_request& r : lengths) {
    r.prompt_tokens = cut(r.prompt_tokens, serve.integer("max_prompt_tokens"));
    r.output_tokens = run.gen_length > 0 ? run.gen_length
                                         : cut(r.output_tokens, serve.integer("max_output_tokens"));
  }
  return lengths;
}

std::vector<double> arrival_times(const parameters& serve, const std::vector<double>& recorded,
                                  std::size_t requests, double rate, std::uint64_t seed,
                                  double longer) {
  const std::string& how = serve.text("arrivals");
  auto n = static_cast<std::size_t>(serve.integer("requests"));
  const double duration = serve.real("duration") * longer;
  std::vector<double> times;
  if (how == "trace") {
    if (recorded.empty()) {
      throw usage_error("serve: arrivals = \"trace\" needs a workload with a trace");
    }
    times = recorded;
    if (n > 0 && n < times.size()) times.resize(n);
    for (double& t : times) t /= rate;
  } else {
    if (n == 0 && duration > 0) {
      n = std::min(most_requests, static_cast<std::size_t>(1 + 2 * duration * rate));
    } else if (n == 0 && how == "closed") {
      n = requests;
    } else if (n == 0) {
      throw usage_error("serve: set requests or duration");
    }
    if (how == "closed") {
      times.assign(n, 0.0);
    } else {
      times = how == "gamma" ? gamma_arrivals(rate, serve.real("cv"), n, seed)
                             : poisson_arrivals(rate, n, seed);
    }
  }
  if (duration > 0) std::erase_if(times, [&](double t) { return t > duration; });
  return times;
}

}  // namespace unmask
