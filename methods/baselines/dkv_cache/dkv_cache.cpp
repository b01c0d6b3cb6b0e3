// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// dKV-Cache (Ma et al., 2025): K/V of decoded tokens are reused one step after they were decoded
// ("delayed"), and everything is refreshed every few steps. All variants keep one full-length K/V
// buffer: the rows of a forward overwrite their slots, every row attends to all of them.
#include <algorithm>
#include <numeric>

#include "kernels/head.h"
#include "kernels/random.h"
#include "methods/parts/common.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

using flags = std::vector<std::uint8_t>;

// 1 where the token of a position is known.
void read_decoded(const batch& b, std::int32_t s, flags& out) {
  const std::uint8_t* state = b.state().row<std::uint8_t>(s);
  out.resize(static_cast<std::size_t>(b.at(s).length));
  std::transform(state, state + b.at(s).length, out.begin(),
                 [](std::uint8_t v) { return static_cast<std::uint8_t>(v != state_masked); });
}

// LLaDA, "decode": steps 0 and 1 of a block and every `refresh`-th step are full; the others leave
// out what was already decoded before the previous step.
class delayed_rows final : public flagged_rows {
 public:
  explicit delayed_rows(std::int32_t refresh) : refresh_(refresh) {}

 private:
  void mark(const batch& b, std::int32_t s, const sequence_step& step,
            std::uint8_t* compute) override {
    flags& before = before_.at(s);
    const bool cached = step.step > 1 && step.step % refresh_ != 0;
    for (std::int32_t p = step.first; p < step.last; ++p) {
      compute[p] = !cached || before[static_cast<std::size_t>(p)] == 0;
    }
    read_decoded(b, s, before);
  }
  std::int32_t refresh_;
  per_sequence<flags> before_;  // decoded before the previous step
};

// The order in which "greedy" decodes a block, and how far it is.
struct greedy_order {
  std::vector<std::int32_t> order;       // block positions, best draw first
  std::int32_t done = 0, now_count = 0;  // order[done .. done + now_count) is decided this step
  std::int32_t block = 0;
  flags masked_before;  // masked before the previous step
};
using greedy_orders = per_sequence<greedy_order>;

// LLaDA, "greedy" (random remasking): every `refresh`-th step is full; the others compute what was
// decided last, what is decided now, and a window of masked neighbours around the latter.
class greedy_rows final : public flagged_rows {
 public:
  greedy_rows(std::shared_ptr<greedy_orders> orders, std::int32_t refresh, std::int32_t window)
      : orders_(std::move(orders)), refresh_(refresh), window_(window) {}

 private:
  void mark(const batch& b, std::int32_t s, const sequence_step& step,
            std::uint8_t* compute) override {
    greedy_order& g = orders_->at(s);
    if (step.step == 0) draw(b, s, step, g);
    const std::int32_t decided = g.done;
    g.done += step.step == 0 ? 0 : g.now_count;
    const auto left = static_cast<std::int32_t>(g.order.size()) - g.done;
    g.now_count = std::min(step.quota, left);
    if (step.step % refresh_ == 0) {
      std::fill(compute + step.first, compute + step.last, std::uint8_t{1});
    } else {
      std::fill(compute + step.first, compute + step.last, std::uint8_t{0});
      for (std::int32_t i = decided; i < g.done + g.now_count; ++i) {
        compute[g.order[static_cast<std::size_t>(i)]] = 1;
      }
      for (std::int32_t i = g.done; i < g.done + g.now_count; ++i) {
        add_window(g.order[static_cast<std::size_t>(i)], b.at(s).length, g.masked_before, compute);
      }
    }
    read_decoded(b, s, g.masked_before);
    for (std::uint8_t& v : g.masked_before) v = v == 0;
  }

  void draw(const batch& b, std::int32_t s, const sequence_step& step, greedy_order& g) const {
    const sequence& q = b.at(s);
    g.block = q.step == 0 ? 0 : g.block + 1;
    const auto& recorded = q.request.recorded_uniforms;
    const std::uint64_t key =
        stream_key(q.request.seed, static_cast<std::uint64_t>(q.step), score_draw);
    std::vector<double> rank;
    g.order.resize(static_cast<std::size_t>(step.block_last - step.block_first));
    std::iota(g.order.begin(), g.order.end(), step.block_first);
    const auto of = [&](std::int32_t p) {
      return recorded.empty() ? uniform_open(key, static_cast<std::uint64_t>(p))
                              : static_cast<double>(recorded.at(static_cast<std::size_t>(g.block))
                                                        .at(static_cast<std::size_t>(p)));
    };
    std::stable_sort(g.order.begin(), g.order.end(),
                     [&](std::int32_t x, std::int32_t y) { return of(x) > of(y); });
    g.done = g.now_count = 0;
  }

  // Walk left and right in turn from `centre` until `window_` masked positions were added.
  void add_window(std::int32_t centre, std::int32_t length, const flags& masked,
                  std::uint8_t* compute) const {
    std::int32_t low = centre - 1, high = centre + 1, added = 0;
    const auto take = [&](std::int32_t p) {
      if (p < 0 || p >= length || compute[p] != 0 || masked[static_cast<std::size_t>(p)] == 0) {
        return;
      }
      compute[p] = 1;
      ++added;
    };
    for (bool left = true; added < window_ && (low >= 0 || high < length); left = !left) {
      take(left ? low-- : high++);
    }
  }

  std::shared_ptr<greedy_orders> orders_;
  std::int32_t refresh_, window_;
};

class greedy_unmask final : public unmask_policy {
 public:
  explicit greedy_unmask(std::shared_ptr<greedy_orders> orders)
      : unmask_policy({true}), orders_(std::move(orders)) {}
  void judge(const batch& b, const step_choice&, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    b.backend().run(op::confidence{head_input, head, c.set(b.capacity()), {}, c.judged()});
  }
  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    std::uint8_t* accept = c.accept.as<std::uint8_t>();
    const std::int32_t* begin = c.begin.as<std::int32_t>();
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      if (!plan.of[static_cast<std::size_t>(s)].active) continue;
      const greedy_order& g = orders_->at(s);
      const auto first = g.order.begin() + g.done, last = first + g.now_count;
      for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
        accept[i] = std::find(first, last, c.position.as<std::int32_t>()[i]) != last;
      }
    }
  }

 private:
  std::shared_ptr<greedy_orders> orders_;
};

// Dream: the token of position p is predicted by row p - 1, so row j may rest once j + 1 is
// decoded. `older` lags one step behind, as in the official cache.
class dream_rows final : public flagged_rows {
 public:
  dream_rows(std::string variant, std::string shift_type, std::int32_t refresh)
      : variant_(std::move(variant)), right_(shift_type == "un_right"), refresh_(refresh) {}

 private:
  struct history {
    flags newest, older, prompt;  // cacheable after the last step, after the one before, at start
    bool has_older = false;
  };
  void mark(const batch& b, std::int32_t s, const sequence_step& step,
            std::uint8_t* compute) override {
    history& h = history_.at(s);
    if (step.step == 0) {
      read_decoded(b, s, h.newest);
      const std::uint8_t last = h.newest.back();
      std::rotate(h.newest.begin(), h.newest.begin() + 1, h.newest.end());
      h.newest.back() = last;
      h.prompt = h.newest;
      h.has_older = false;
    } else if (variant_ == "prefill") {
      h.older = h.prompt;
      h.has_older = true;
    } else {
      h.older.swap(h.newest);
      h.has_older = true;
      cacheable(b, s, h.newest);
      if (step.step % refresh_ == 0) {
        // A refresh computes everything, except that "pd" never touches the prompt again.
        h.has_older = variant_ == "pd";
        if (h.has_older) h.older = h.prompt;
      }
    }
    for (std::int32_t p = step.first; p < step.last; ++p) {
      compute[p] = !h.has_older || h.older[static_cast<std::size_t>(p)] == 0;
    }
  }

  void cacheable(const batch& b, std::int32_t s, flags& out) const {
    read_decoded(b, s, out);
    const std::uint8_t first = out.front();
    const std::size_t n = out.size();
    for (std::size_t j = 0; j + 1 < n; ++j) {
      out[j] = right_ ? static_cast<std::uint8_t>(out[j] & out[j + 1]) : out[j + 1];
    }
    // The official shift wraps around (un) or repeats its last element (un_right).
    if (n > 1) out[n - 1] = right_ ? out[n - 2] : first;
  }

  std::string variant_;
  bool right_;
  std::int32_t refresh_;
  per_sequence<history> history_;
};

recipe make_dkv_cache(const model_config& model, const parameters& p) {
  recipe r;
  const auto refresh = static_cast<std::int32_t>(p.integer("refresh_interval"));
  const auto steps = static_cast<std::int32_t>(p.integer("steps"));
  const auto tokens_per_step = static_cast<std::int32_t>(p.integer("tokens_per_step"));
  std::string variant = p.text("variant");
  r.keys = std::make_unique<key_policy>();
  r.cache = std::make_unique<append_cache>(/*keeps_decided=*/true);
  if (is_dream(model)) {
    time_schedule::settings t;
    t.method = "dkv_cache";
    t.steps = steps;
    t.tokens_per_step = tokens_per_step;
    t.eps = static_cast<float>(p.real("eps"));
    r.pace = std::make_unique<time_schedule>(t);
    r.rows = std::make_unique<dream_rows>(variant == "auto" ? "decoded" : variant,
                                          p.text("shift_type"), refresh > 0 ? refresh : 4);
    r.unmask = std::make_unique<ranked_unmask>(sampling_settings(model, p));
    return r;
  }
  block_schedule::settings t;
  t.method = "dkv_cache";
  t.steps = steps;
  t.tokens_per_step = tokens_per_step;
  t.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  r.pace = std::make_unique<block_schedule>(t);
  if (variant == "greedy") {
    auto orders = std::make_shared<greedy_orders>();
    r.rows = std::make_unique<greedy_rows>(orders, refresh > 0 ? refresh : 2,
                                           static_cast<std::int32_t>(p.integer("window_size")));
    r.unmask = std::make_unique<greedy_unmask>(orders);
  } else {
    r.rows = std::make_unique<delayed_rows>(refresh > 0 ? refresh : 8);
    unmask_settings u = sampling_settings(model, p);
    set_confidence_dtype(u, false, p);
    r.unmask = std::make_unique<ranked_unmask>(u);
  }
  return r;
}

void check_dkv_cache(const model_config& model, const parameters& p) {
  need_bidirectional("dkv_cache", model);
  const std::string& variant = p.text("variant");
  const bool llada_only = variant == "decode" || variant == "greedy";
  if (is_dream(model) ? llada_only : !(llada_only || variant == "auto")) {
    throw usage_error("dkv_cache: variant " + variant + " is not made for " + model.name +
                      "; use " + (is_dream(model) ? "decoded, prefill or pd" : "decode or greedy"));
  }
}

method_info dkv_cache_info() {
  method_info m;
  m.name = "dkv_cache";
  m.summary = "delayed KV cache of unmasked tokens with periodic refresh";
  m.paper = "dKV-Cache (Ma et al., 2025)";
  m.source = "methods/baselines/dkv_cache";
  m.pace = "block schedule (LLaDA) or time schedule (Dream)";
  m.rows = "everything not decoded before the previous step; all at a refresh";
  m.shape = {row_extent::answer, 0.5};
  m.keys = "all";
  m.cache = "one step after decoding";
  m.unmask = "top-n of the schedule; random order (greedy)";
  m.knobs = {{"variant", "kv_reused"}};
  m.parameters = {
      varying_at({"greedy"},
                 choice_spec("variant", {"auto", "decode", "greedy", "decoded", "prefill", "pd"},
                             "LLaDA: decode, greedy; Dream: decoded, prefill, pd; auto: decode or "
                             "decoded",
                             "dKV-Cache generation_utils")),
      integer_spec("refresh_interval", 0, 0, 1e6,
                   "steps between full passes; 0: the paper's 8 (LLaDA), 2 (greedy), 4 (Dream)",
                   "dKV-Cache, cache_reloading_step"),
      integer_spec("window_size", 4, 0, 4096,
                   "greedy: masked neighbours computed with each token to decode",
                   "dKV-Cache generation_utils"),
      choice_spec(
          "shift_type", {"un", "un_right"},
          "Dream: a position rests once its successor is unmasked (un) or both are (un_right)",
          "dKV-Cache cache_utils.py")};
  append(m.parameters, {confidence_parameter()});
  append(m.parameters, schedule_parameters());
  append(m.parameters, sampling_parameters());
  m.presets["official"] = {};
  m.check = check_dkv_cache;
  m.make = make_dkv_cache;
  return m;
}

// dKV-Cache generation_utils/{llada_dkv_cache_decode,llada_dkv_cache_greedy,dream_generation_utils}.py
parameter_map from_official(const parameter_map& recorded) {
  return take(recorded, {"steps", "block_length", "variant", "refresh_interval", "window_size",
                         "shift_type", "temperature", "alg", "eps"});
}

const register_method registered(dkv_cache_info(), {{"dkv_cache", from_official}});

}  // namespace
}  // namespace unmask
