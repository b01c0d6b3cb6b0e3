// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// AdaBlock-dLLM (ICLR 2026): the forward that opens a block predicts the near future; where it predicts
// a delimiter with confidence, the block ends there, else after the usual number of tokens.
#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "kernels/decisions.h"
#include "kernels/head.h"
#include "methods/parts/common.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

struct ada_settings {
  std::int32_t block_length = 32;
  double window_fraction = 0.25;
  std::vector<std::int32_t> delimiters;
  float delimiter_threshold = 0, threshold = 0;
  block_schedule::window partial = block_schedule::window::block;
  bool first_token =
      false;  // Dream with a cache: the opening forward decides the first token alone
};

// Where the blocks in work end: the rule finds it out, the pace goes by it. [place] length of the
// block that the last forward opened, 0: it opened none.
using borders = per_sequence<std::int32_t>;

class adaptive_blocks final : public pace_policy {
 public:
  adaptive_blocks(ada_settings s, std::shared_ptr<borders> found)
      : settings_(std::move(s)), found_(std::move(found)) {}

  std::int32_t canvas_length(const model_config&, const sequence_request& request) const override {
    return request_positions("adablock", request);
  }
  void start(batch& b, std::int32_t s) override {
    progress_.at(s) = {.first = b.at(s).prompt_length};
    found_->at(s) = 0;
  }

  // A block that is not open yet: everything is computed, and the window and the usual block are
  // candidates.
  sequence_step plan(const batch& b, std::int32_t s) override {
    const sequence& q = b.at(s);
    const progress& p = progress_.at(s);
    const std::int32_t rest = q.length - p.first;
    const bool opens = p.last == 0;
    const auto window = static_cast<std::int32_t>(settings_.window_fraction * q.request.gen_length);
    const std::int32_t usual = std::min(settings_.block_length, rest);
    sequence_step step;
    step.active = true;
    step.last = step.kv_length = q.length;
    step.candidate_first = q.prompt_length;
    step.block_first = p.first;
    step.block_last = opens ? p.first + usual : p.last;
    step.candidate_last = opens ? p.first + std::max(std::min(window, rest), usual) : p.last;
    step.quota = 1;
    step.step = p.step;
    if (opens || settings_.partial == block_schedule::window::canvas) return step;
    step.first = step.candidate_first = p.first;
    if (settings_.partial == block_schedule::window::block) step.last = p.last;
    return step;
  }

  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override {
    progress& p = progress_.at(s);
    if (p.last == 0) {
      const std::int32_t length = std::exchange(found_->at(s), 0);
      p.last = length > 0 ? p.first + length : step.block_last;
    }
    ++p.step;
    // A model that keeps deciding the mask id would never come clean: leave after a block of tries.
    p.idle = outcome.taken > 0 ? 0 : p.idle + 1;
    const bool clean = b.count(s, p.first, p.last, state_masked) == 0;
    if (!clean && p.idle < p.last - p.first) return;
    p = {.first = p.last};
    if (p.first < b.at(s).length) return;
    b.at(s).finished = true;
    b.at(s).output_end = b.at(s).length;
  }

 private:
  struct progress {
    std::int32_t first = 0, last = 0;  // of the block in work; last 0: it is not open yet
    std::int32_t step = 0, idle = 0;
  };
  ada_settings settings_;
  std::shared_ptr<borders> found_;
  per_sequence<progress> progress_;
};

class delimited_unmask final : public unmask_policy {
 public:
  delimited_unmask(ada_settings s, std::shared_ptr<borders> found)
      : unmask_policy({.masks_by_id = true}), settings_(std::move(s)), found_(std::move(found)) {}

  // The border is known after the head alone, and the candidates behind it are none.
  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    confidence_params params;
    params.accumulate_double = true;
    b.backend().run(op::confidence{head_input, head, c.set(b.capacity()), params, c.judged()});
    opens_ = false;
    for (const sequence_step& step : plan.of) opens_ = opens_ || opens(step);
    if (!opens_) return;
    b.backend().synchronize();
    const float* probability = c.probability.as<float>();
    std::copy_n(probability, c.count, c.score.as<float>());
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
      if (opens(step)) open_block(b, s, step, c);
    }
  }

  void decide(const batch& b, const step_choice&, candidate_lists& c) override {
    const tensor& score = opens_ ? c.score : c.probability;
    b.backend().run(op::accept_threshold{c.set(b.capacity()), score.as<float>(),
                                         settings_.threshold, false, true,
                                         c.accept.as<std::uint8_t>()});
  }

 private:
  static bool opens(const sequence_step& step) {
    return step.active && !step.recompute && step.step == 0;
  }
  void open_block(const batch& b, std::int32_t s, const sequence_step& step,
                  const candidate_lists& c) {
    const std::int32_t* begin = c.begin.as<std::int32_t>();
    const std::int32_t* position = c.position.as<std::int32_t>();
    const std::int32_t* token = c.token.as<std::int32_t>();
    const float* probability = c.probability.as<float>();
    const std::int32_t window =
        step.block_first +
        static_cast<std::int32_t>(settings_.window_fraction * b.at(s).request.gen_length);
    std::int32_t best = -1;
    for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
      if (position[i] < step.block_first || position[i] >= window) continue;
      if (!std::ranges::binary_search(settings_.delimiters, token[i])) continue;
      if (best < 0 || probability[i] > probability[best]) best = i;
    }
    const bool ends = best >= 0 && probability[best] >= settings_.delimiter_threshold;
    const std::int32_t last = ends ? position[best] + 1 : step.block_last;
    found_->at(s) = last - step.block_first;
    for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
      const bool first_alone = settings_.first_token && position[i] != step.block_first;
      if (position[i] >= last || first_alone) {
        c.score.as<float>()[i] = -std::numeric_limits<float>::infinity();
      }
    }
  }

  ada_settings settings_;
  std::shared_ptr<borders> found_;
  bool opens_ = false;
};

std::vector<std::int32_t> delimiters_of(const std::string& text) {
  std::vector<std::int32_t> ids;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    std::int32_t id = 0;
    const auto [next, failed] = std::from_chars(at, end, id);
    if (failed != std::errc{} || id < 0 || (next != end && *next != ',')) {
      throw usage_error("adablock: delimiter_ids must be token ids with commas, not '" + text +
                        "'");
    }
    ids.push_back(id);
    at = next == end ? end : next + 1;
  }
  std::ranges::sort(ids);
  return ids;
}

recipe make(const model_config& model, const parameters& p) {
  const std::string& cache = p.text("cache");
  ada_settings s;
  s.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  s.window_fraction = p.real("window_fraction");
  s.delimiters = delimiters_of(p.text("delimiter_ids"));
  s.delimiter_threshold = static_cast<float>(p.real("delimiter_threshold"));
  s.threshold = static_cast<float>(p.real("threshold"));
  s.partial = window_of_cache(cache);
  s.first_token = is_dream(model) && cache == "dual";
  const auto found = std::make_shared<borders>();
  recipe r;
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<key_policy>();
  if (cache == "none") {
    r.cache = std::make_unique<no_cache>();
  } else {
    r.cache = std::make_unique<append_cache>();
  }
  r.unmask = std::make_unique<delimited_unmask>(s, found);
  r.pace = std::make_unique<adaptive_blocks>(std::move(s), found);
  return r;
}

void check(const model_config& model, const parameters& p) {
  need_bidirectional("adablock", model);
  delimiters_of(p.text("delimiter_ids"));
  if (is_dream(model) && p.text("cache") == "prefix") {
    throw usage_error("adablock: cache prefix is published for LLaDA only; use dual or none");
  }
}

method_info info() {
  method_info m;
  m.name = "adablock";
  m.summary = "blocks end where the model predicts a delimiter with confidence";
  m.paper = "AdaBlock-dLLM (ICLR 2026), arXiv 2509.26432";
  m.source = "methods/adablock";
  m.pace = "blocks of adaptive length, until clean";
  m.rows = "all at block entry, then block (dual), block and suffix (prefix) or all";
  m.shape = {.extent = row_extent::block, .refreshes = true};
  m.keys = "all";
  m.cache = "refreshed at block entry, or none";
  m.unmask = "threshold, at least the best";
  const std::string code = "AdaBlock-dLLM generate_adablock.py";
  m.parameters = {
      real_spec("threshold", 0.9, 0, 2, "unmask every token at least this confident", code),
      real_spec("delimiter_threshold", 0.3, 0, 1e6,
                "end a block at a delimiter of at least this probability; above 1: never", code),
      text_spec("delimiter_ids", "198",
                "tokens that end a block, ids with commas (198: LLaDA's line "
                "break)",
                code),
      real_spec("window_fraction", 0.25, 0, 1,
                "share of gen_length behind the block's start in which a delimiter is looked for",
                code),
      block_length_spec(32, 1, 1e6, "tokens of a block without a delimiter", code),
      choice_spec("cache", {"dual", "none", "prefix"},
                  "what is reused inside a block: KV around it, nothing, KV before it", code)};
  m.knobs = {{"threshold", "decided_early"}};
  m.presets["dream"] = {{"delimiter_threshold", 0.5}};
  m.check = check;
  m.make = make;
  return m;
}

parameter_map official(const parameter_map& recorded) {
  return take(recorded, {"threshold", "delimiter_threshold", "delimiter_ids", "window_fraction",
                         "block_length", "cache"});
}

const register_method registered(info(), {{"adablock", official}});

}  // namespace
}  // namespace unmask
