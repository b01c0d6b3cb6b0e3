// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/focus/focus_eviction.h"

#include <algorithm>
#include <cmath>

#include "kernels/decisions.h"
#include "kernels/rows.h"
#include "kernels/selection.h"
#include "methods/focus/kernels/eviction.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

focus_selection selection_of(const std::string& name) {
  if (name == "top") return focus_selection::top;
  if (name == "bottom") return focus_selection::bottom;
  if (name == "random") return focus_selection::random;
  return focus_selection::dynamic;
}

average_scope scope_of(const std::string& name) {
  if (name == "block_carry") return average_scope::block_carry;
  return name == "request" ? average_scope::request : average_scope::block;
}

}  // namespace

void focus_eviction::prepare(const batch& b, std::int64_t rows) {
  if (begin_) return;
  const backend& backend = b.backend();
  backend_ = &backend;
  const std::int64_t places = b.capacity();
  const memory_use scores = scores_on_host() ? memory_use::host_visible : memory_use::resident;
  for (tensor* t : {&layer0_, &layer1_, &score_}) *t = backend.allocate(dtype::f32, {rows, 1});
  for (tensor* t : {&delta_, &all0_, &all1_}) *t = backend.allocate(dtype::f32, {rows, 1}, scores);
  accept_ = backend.allocate(dtype::u8, {rows}, scores);
  const auto host_visible = [&](std::int64_t n) {
    return backend.allocate(dtype::i32, {n}, memory_use::host_visible);
  };
  // What find() lists lies together and shares a copy on a GPU.
  position_ = host_visible(rows);
  begin_ = host_visible(places + 1);
  for (auto* list : {&target_, &first_, &last_, &row_first_, &row_last_, &processed_end_}) {
    list->assign(static_cast<std::size_t>(places), 0);
  }
  for (tensor* t : {&row_, &list_}) *t = host_visible(rows);
  list_begin_ = host_visible(places + 1);
  budget_.assign(static_cast<std::size_t>(places), 0);
}

// Which sequences evict: those with more masked rows than their budget; and their masked rows.
void focus_eviction::find(const batch& b, const step_choice& plan, const row_lists& rows) {
  const std::int32_t* begin = rows.begin.as<std::int32_t>();
  const std::int32_t* position = rows.position.as<std::int32_t>();
  for (std::size_t s = 0; s < plan.of.size(); ++s) {
    const auto place = static_cast<std::int32_t>(s);
    const sequence_step& step = plan.of[s];
    const bool asked = step.active && step.what != forward_kind::prefill && !step.recompute;
    const std::uint8_t* states = b.state().row<std::uint8_t>(place);
    const auto masks = static_cast<std::int32_t>(
        std::count_if(position + begin[s], position + begin[s + 1],
                      [states](std::int32_t p) { return states[p] == state_masked; }));
    focus_record& r = budgets_->records.at(place);
    budget_[s] = asked ? enter_block(budgets_->settings.rules, r, step.first) : 0;
    const bool evicts = asked && masks > budget_[s];
    target_[s] = evicts ? budget_[s] : 0;
    first_[s] = evicts ? step.first : 0;
    last_[s] = evicts ? step.last : 0;
    row_first_[s] = evicts ? begin[s] : 0;
    row_last_[s] = evicts ? begin[s + 1] : 0;
    processed_end_[s] = r.processed_end;
  }
  count_ = b.backend().run(op::find_candidates{
      rows.set(b.capacity()), b.state(), one_state(state_masked), first_.data(), last_.data(), 0,
      begin_.as<std::int32_t>(), position_.as<std::int32_t>(), row_.as<std::int32_t>()});
}

method_report focus_eviction::report(std::int32_t s) const {
  const auto place = static_cast<std::size_t>(s);
  method_report told;
  if (budget_.empty() || budget_[place] == 0) return told;
  const focus_record& r = budgets_->records.at(s);
  told.numbers = {{"budget", budget_[place]},
                  {"average", r.steps > 0 ? double{focus_average(r)} : 0.0},
                  {"processed_end", r.processed_end}};
  if (target_[place] == 0) return told;
  const std::int32_t* begin = begin_.as<std::int32_t>();
  const float* delta = delta_.as<float>() + begin[s];
  std::vector<float>& scores = told.arrays["score"];
  scores.resize(static_cast<std::size_t>(begin[s + 1] - begin[s]));
  if (scores_on_host()) {
    std::copy_n(delta, scores.size(), scores.begin());
  } else {
    backend_->read(scores.data(), delta, scores.size() * sizeof(float));
  }
  return told;
}

// Every row of the evicting sequences; the host knows their ranges.
std::int32_t focus_eviction::list_rows() {
  auto *begin = list_begin_.as<std::int32_t>(), *list = list_.as<std::int32_t>();
  std::int32_t n = 0;
  for (std::size_t s = 0; s < row_first_.size(); ++s) {
    begin[s] = n;
    for (std::int32_t r = row_first_[s]; r < row_last_[s]; ++r) list[n++] = r;
  }
  begin[row_first_.size()] = n;
  return n;
}

// I_j of the masked rows (FOCUS eq. 2); with whole_block over every row of the sequence, of
// which the masked ones are then picked.
void focus_eviction::importance(const batch& b, const tensor_view& q, const tensor_view& k,
                                const tensor& out) {
  const backend& backend = b.backend();
  const bool rounded = budgets_->settings.round_importance;
  const float scale = 1.0F / std::sqrt(static_cast<float>(b.model().head_dim));
  if (!budgets_->settings.whole_block) {
    b.score(op::importance{b.capacity(), begin_.as<std::int32_t>(), row_.as<std::int32_t>(), q, k,
                           scale, out.as<float>()});
    if (rounded) backend.run(op::round_bf16{count_, out.as<float>()});
  } else {
    const tensor& all = &out == &layer0_ ? all0_ : all1_;
    const std::int32_t n = list_rows();
    b.score(op::importance{b.capacity(), list_begin_.as<std::int32_t>(), list_.as<std::int32_t>(),
                           q, k, scale, score_.as<float>()});
    if (rounded) backend.run(op::round_bf16{n, score_.as<float>()});
    backend.run(op::scatter_rows{score_.view().first(n), list_.as<std::int32_t>(), all});
    backend.run(op::gather_rows{all, row_.as<std::int32_t>(), out.view().first(count_)});
  }
}

// Eqs. 4 and 5 with the deviation of the block: the budget is the number of masked rows that reach it,
// if that is larger than what the mean allows.
void focus_eviction::raise_targets(const batch& b) {
  b.backend().synchronize();
  const focus_settings& f = budgets_->settings;
  const float *at0 = all0_.as<float>(), *at1 = all1_.as<float>(), *delta = delta_.as<float>();
  const std::int32_t* begin = begin_.as<std::int32_t>();
  for (std::size_t s = 0; s < target_.size(); ++s) {
    const std::int32_t n = row_last_[s] - row_first_[s];
    if (target_[s] == 0 || n <= f.ddof) continue;
    std::vector<float> change(static_cast<std::size_t>(n));
    for (std::int32_t i = 0; i < n; ++i) {
      const std::int32_t r = row_first_[s] + i;
      change[static_cast<std::size_t>(i)] = at1[r] - (f.layer1_score ? 0.0F : at0[r]);
    }
    double mean = 0, square = 0;
    for (const float x : change) mean += x;
    mean /= n;
    for (const float x : change) square += (x - mean) * (x - mean);
    const double bar = std::sqrt(square / (n - f.ddof)) + (f.add_mean ? mean : 0.0);
    const auto reached = static_cast<std::int32_t>(
        std::count_if(delta + begin[s], delta + begin[s + 1], [bar](float x) { return x >= bar; }));
    target_[s] = std::max(target_[s], reached);
  }
}

// What the rows are ranked by: layer 1 minus layer 0, or layer 1 alone; its negative for bottom.
const float* focus_eviction::score(const batch& b) {
  const backend& backend = b.backend();
  const focus_settings& f = budgets_->settings;
  backend.run(op::combine_scores{count_, layer1_.as<float>(), 1,
                                 f.layer1_score ? nullptr : layer0_.as<float>(), -1,
                                 delta_.as<float>()});
  if (order_) impose(b);
  if (f.selection == focus_selection::random) {
    backend.run(
        op::uniform_scores{masked(b.capacity()), {b.seeds(), b.steps()}, score_.as<float>()});
  } else if (f.selection == focus_selection::bottom) {
    backend.run(op::combine_scores{count_, delta_.as<float>(), -1, nullptr, 0, score_.as<float>()});
  } else {
    return delta_.as<float>();
  }
  return score_.as<float>();
}

// The order's ranks in place of the differences that were just computed.
void focus_eviction::impose(const batch& b) {
  b.backend().synchronize();
  const std::int32_t* begin = begin_.as<std::int32_t>();
  const std::int32_t* position = position_.as<std::int32_t>();
  std::vector<std::int32_t> when;
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    when.clear();
    for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i)
      when.push_back(order_(b, s, position[i]));
    std::vector<std::int32_t> steps = when;
    std::ranges::sort(steps);
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
      const auto ahead =
          std::ranges::lower_bound(steps, when[static_cast<std::size_t>(i - begin[s])]) -
          steps.begin();
      delta_.as<float>()[i] = std::exp2(-static_cast<float>(ahead));
    }
  }
}

bool focus_eviction::narrow(const batch& b, const step_choice& plan, std::int32_t layer,
                            const tensor_view& q, const tensor_view& k, row_lists& rows,
                            tensor& kept) {
  if (layer == 0) {
    prepare(b, rows.position.view().rows());
    find(b, plan, rows);
    if (count_ > 0) importance(b, q, k, layer0_);
    return false;
  }
  if (count_ == 0) return false;
  const focus_settings& f = budgets_->settings;
  const std::int32_t before = rows.rows;
  importance(b, q, k, layer1_);
  const float* ranks = score(b);
  const bool dynamic = f.selection == focus_selection::dynamic;
  const bool of_block = dynamic && f.block_deviation && !order_;
  if (of_block) raise_targets(b);
  retain_params p;
  p.target = target_.data();
  p.processed = processed_end_.data();
  p.by_deviation = dynamic && !of_block;
  p.add_mean = f.add_mean;
  p.ddof = f.ddof;
  p.keep_predecessors = f.ar_context;
  p.adjacent_rows = f.adjacent_rows;
  p.keep_unprocessed = f.placeholder_integrity;
  // The host has waited for the deviation of a block, and what is chosen and dropped is its own memory.
  const backend& chooser = of_block ? reference_backend() : b.backend();
  chooser.run(op::retain{masked(b.capacity()), ranks, p, accept_.as<std::uint8_t>()});
  rows.rows = chooser.run(op::drop_rows{rows.set(b.capacity()), masked(b.capacity()),
                                        accept_.as<std::uint8_t>(), rows.begin.as<std::int32_t>(),
                                        rows.sequence.as<std::int32_t>(),
                                        rows.position.as<std::int32_t>(), kept.as<std::int32_t>()});
  return rows.rows < before;
}

focus_settings focus_settings_of(const parameters& p) {
  focus_settings f;
  f.selection = selection_of(p.text("selection"));
  if (f.selection != focus_selection::dynamic) {
    f.rules.fixed = static_cast<std::int32_t>(p.integer("k"));
  }
  f.rules.alpha = static_cast<float>(p.real("alpha"));
  f.rules.scope = scope_of(p.text("average_scope"));
  f.rules.initial_k = static_cast<std::int32_t>(p.integer("initial_k"));
  f.rules.count_empty = p.flag("count_empty_steps");
  f.whole_block = p.text("importance_set") == "block";
  f.round_importance = p.text("importance_dtype") == "bfloat16";
  f.layer1_score = p.text("score") == "layer1";
  f.add_mean = p.text("deviation_rule") == "mean_plus_deviation";
  f.block_deviation = p.text("deviation_set") == "block";
  f.rules.floor_mean = p.flag("mean_floor");
  f.ddof = static_cast<std::int32_t>(p.integer("std_ddof"));
  f.ar_context = p.flag("ar_context");
  f.adjacent_rows = p.text("adjacency") == "rows";
  return f;
}

void check_focus_eviction(const std::string& method, const model_config& model,
                          const parameters& p) {
  if (model.layers < 2) {
    throw usage_error(method + " cannot decode " + model.name +
                      ": it compares layers 0 and 1 and the model has one layer");
  }
  if (p.text("deviation_set") == "block" && p.text("importance_set") != "block") {
    throw usage_error(method +
                      ": deviation_set block needs importance_set block, which has the "
                      "scores of positions that are no masks");
  }
  const bool fixed = p.text("selection") != "dynamic";
  if (fixed && p.integer("k") == 0) {
    throw usage_error(method + ": selection " + p.text("selection") +
                      " needs k, the number to keep");
  }
  if (!fixed && p.integer("k") != 0) {
    throw usage_error(method +
                      ": k belongs to selection top, bottom or random; dynamic computes it");
  }
}

std::vector<parameter_spec> focus_eviction_parameters() {
  const std::string paper = "FOCUS section 4.2", app = "FOCUS appendix E",
                    engine = "FOCUS's LMDeploy fork", hf = "FOCUS's OpenCompass modeling_sdar.py";
  return {
      real_spec("alpha", 1.5, 1, 1024,
                "budget = ceil(alpha x mean tokens unmasked per step of the block)", paper),
      varying_at({"random"}, choice_spec("selection", {"dynamic", "top", "bottom", "random"},
                                         "dynamic: budget and deviation rule; else the k best, "
                                         "worst or random ones",
                                         hf)),
      integer_spec("k", 0, 0, 64, "masked positions kept by top, bottom and random; 0: none given",
                   hf),
      choice_spec("score", {"delta", "layer1"},
                  "rank by importance of layer 1 minus layer 0, or of layer 1 alone",
                  "FOCUS appendix B"),
      choice_spec("importance_set", {"masked", "block"},
                  "queries and keys of the importance: masked positions, or every computed one",
                  paper + ", eq. 2"),
      choice_spec("importance_dtype", {"float32", "bfloat16"},
                  "type that the importance of a layer is rounded to", engine),
      choice_spec("deviation_rule", {"mean_plus_deviation", "deviation"},
                  "dynamic: also keep every score that reaches this", paper + ", eq. 5"),
      choice_spec(
          "deviation_set", {"masked", "block"},
          "positions whose scores have the deviation: masked positions, or every computed one",
          paper + ", eq. 5"),
      integer_spec("std_ddof", 0, 0, 1, "the deviation divides by n - this", engine + "; 1: HF"),
      choice_spec("average_scope", {"block", "block_carry", "request"},
                  "mean over the block; the same with the last budget carried into the next "
                  "block's first step; mean over the request",
                  app + ", eq. 17-19"),
      integer_spec("initial_k", 0, 0, 64, "budget of the very first step; 0: ceil(alpha)", hf),
      flag_spec("count_empty_steps", false,
                "passes that unmask nothing (KV write passes) count in the mean", app + ", eq. 18"),
      flag_spec("mean_floor", true, "a mean below one token a step counts as one", engine),
      flag_spec("ar_context", true, "keep the masked position directly before a chosen one", paper),
      choice_spec("adjacency", {"positions", "rows"},
                  "directly before: by position, or in the list of computed positions", hf)};
}

}  // namespace unmask
