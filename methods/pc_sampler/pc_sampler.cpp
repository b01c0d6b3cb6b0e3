// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// PC-Sampler (2025): masks are ranked by confidence times how rare the token is in a corpus, times a
// weight that falls from left to right.
#include <charconv>
#include <cmath>

#include "harness/base/files.h"
#include "kernels/decisions.h"
#include "kernels/head.h"
#include "methods/parts/common.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"
#include "methods/pc_sampler/kernels/surprise.h"

namespace unmask {
namespace {

// Counts of a corpus in the order of token ids, separated by commas, spaces or line ends. `source`
// names them in errors.
std::vector<double> read_counts(const std::string& text, const std::string& source,
                                std::int32_t vocabulary) {
  std::vector<double> counts;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    while (at != end && (*at == ',' || *at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
      ++at;
    if (at == end) break;
    double count = 0;
    const auto [rest, failed] = std::from_chars(at, end, count);
    if (failed != std::errc() || !(count >= 0)) {
      throw usage_error("pc_sampler: frequencies: " + source + ": entry " +
                        std::to_string(counts.size()) + " is not a count");
    }
    counts.push_back(count);
    at = rest;
  }
  if (counts.size() != static_cast<std::size_t>(vocabulary)) {
    throw usage_error("pc_sampler: frequencies: " + source + " has " +
                      std::to_string(counts.size()) + " counts, the model " +
                      std::to_string(vocabulary) + " tokens");
  }
  return counts;
}

// The parameter `frequencies`: the word flat, the counts themselves, or file:PATH with them.
std::vector<double> counts_of(const std::string& given, std::int32_t vocabulary) {
  if (given == "flat") return std::vector<double>(static_cast<std::size_t>(vocabulary), 1.0);
  if (given.find_first_not_of("0123456789,. ") == std::string::npos && !given.empty()) {
    return read_counts(given, "the list", vocabulary);
  }
  if (!given.starts_with("file:")) {
    throw usage_error("pc_sampler: frequencies takes flat, file:PATH or counts with commas, not '" +
                      given + "'");
  }
  const std::string file = given.substr(5);
  return read_counts(read_file(file, std::size_t{1} << 26), file, vocabulary);
}

// -ln(f + 1e-9) with f = count / tokens of the corpus; a token that was not seen counts as one.
std::vector<float> surprise_of(const model_config& model, const parameters& p) {
  const std::vector<double> counts = counts_of(p.text("frequencies"), model.vocabulary);
  double tokens = p.real("corpus_tokens");
  if (tokens == 0) {
    for (const double n : counts) tokens += n;
  }
  std::vector<float> surprise(counts.size());
  for (std::size_t v = 0; v < counts.size(); ++v) {
    surprise[v] = static_cast<float>(-std::log((counts[v] > 0 ? counts[v] : 1) / tokens + 1e-9));
  }
  return surprise;
}

class surprise_unmask final : public unmask_policy {
 public:
  surprise_unmask(std::vector<float> surprise, double lambda, float limit)
      : unmask_policy({.masks_by_id = true}),
        table_(std::move(surprise)),
        lambda_(lambda),
        limit_(limit) {}

  void judge(const batch& b, const step_choice&, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    confidence_params params;
    params.accumulate_double = true;
    b.backend().run(op::confidence{head_input, head, c.set(b.capacity()), params, c.judged()});
  }

  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    // Not before: a recipe may be made before its backend says where its operations read.
    if (weight_.empty()) {
      surprise_.assign(table_.begin(), table_.end());
      for (std::int32_t i = 0; i < b.max_length(); ++i) {
        weight_.push_back(static_cast<float>(std::exp(-lambda_ * i)));
      }
    }
    const candidate_set set = c.set(b.capacity());
    b.backend().run(op::surprise_scores{.candidates = set,
                                        .first = plan.arrays.block_first,
                                        .weight = weight_.data(),
                                        .places = b.max_length(),
                                        .surprise = surprise_.data(),
                                        .token = c.token.as<std::int32_t>(),
                                        .probability = c.probability.as<float>(),
                                        .limit = limit_,
                                        .score = c.score.as<float>()});
    b.backend().run(
        op::accept_top{set, c.score.as<float>(), plan.arrays.quota, c.accept.as<std::uint8_t>()});
  }

 private:
  std::vector<float> table_;
  shared_vector<float> surprise_, weight_;
  double lambda_;
  float limit_;
};

recipe make(const model_config& model, const parameters& p) {
  block_schedule::settings t;
  t.method = "pc_sampler";
  t.steps = static_cast<std::int32_t>(p.integer("steps"));
  t.tokens_per_step = static_cast<std::int32_t>(p.integer("tokens_per_step"));
  t.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  t.leftovers = false;
  recipe r;
  r.pace = std::make_unique<block_schedule>(t);
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<key_policy>();
  r.cache = std::make_unique<no_cache>();
  r.unmask = std::make_unique<surprise_unmask>(surprise_of(model, p), p.real("lambda"),
                                               static_cast<float>(p.real("alpha")));
  return r;
}

method_info info() {
  method_info m;
  m.name = "pc_sampler";
  m.summary = "ranks masks by confidence, rarity of the token and position";
  m.paper = "PC-Sampler (2025), arXiv 2508.13021";
  m.source = "methods/pc_sampler";
  m.pace = "block schedule";
  m.rows = "prompt and whole response";
  m.keys = "all";
  m.cache = "none";
  m.unmask = "top-n by exp(-lambda i) min(alpha, -p ln f)";
  const std::string code = "PC-Sampler generate.py";
  m.parameters = {
      real_spec("lambda", 0.25, 0, 100, "position i of a block weighs exp(-lambda i)", code),
      real_spec("alpha", 10.0, 0, 1e6, "upper limit of -p ln f", code),
      text_spec("frequencies", "flat",
                "how often a corpus has each token, in the order of token ids: file:PATH, the "
                "counts with "
                "commas, or flat",
                code),
      real_spec("corpus_tokens", 0.0, 0, 1e18, "tokens of that corpus; 0: the sum of the counts",
                code)};
  append(m.parameters, schedule_parameters());
  for (parameter_spec& spec : m.parameters) {
    if (spec.name == "block_length") spec.default_value = std::int64_t{0};
  }
  m.presets["sudoku"] = {{"lambda", 0.0}};
  m.presets["countdown"] = {{"lambda", 0.5}};
  m.check = [](const model_config& model, const parameters& p) {
    need_bidirectional("pc_sampler", model);
    need_in_place("pc_sampler", model);
    counts_of(p.text("frequencies"), model.vocabulary);
  };
  m.make = make;
  return m;
}

parameter_map official(const parameter_map& recorded) {
  parameter_map m = take(recorded, {"lambda", "alpha", "steps", "block_length"});
  m["frequencies"] = recorded.at("background_counts");
  m["corpus_tokens"] = recorded.at("num_token");
  return m;
}

const register_method registered(info(), {{"pc_sampler", official}});

}  // namespace
}  // namespace unmask
