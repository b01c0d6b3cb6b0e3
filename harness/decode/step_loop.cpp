// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/step_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "harness/decode/feature_layers.h"
#include "harness/decode/phase_costs.h"
#include "harness/profile/phases.h"

namespace unmask {
namespace {

// Where the host waits for the backend. ops::synchronize() stands before every place that reads on
// the host what an operation wrote:
//   admit     after pace->start(): policies fill their arrays anew for the next request
//   forward   after rows->select() and after gather_tokens(): the rows are counted and copied
//   forward   before a layer observer
//   decide    before a step observer; after commit() and settle(): tokens committed, states
// and in the policies that look at results themselves. Counts that operations return (compact,
// find_candidates, drop_rows, select_chunk) wait on their own. A loop that keeps its state on the
// device removes these waits; nothing else depends on them.

// Adds the life of this object to a sum. Two clock readings, some 50 ns: nothing beside a layer.
class stopwatch {
 public:
  explicit stopwatch(double& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~stopwatch() {
    sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

struct step_loop::impl {
  const transformer& model;
  const ops& run;
  recipe method;
  loop_limits limits;
  batch state;
  kv_cache cache;
  std::unique_ptr<feature_layers> features;  // null: every layer computes all its rows
  transformer::activations acts;
  tensor final, kept, kv_length, window_first, window_last, key_mass;
  row_lists rows, entered;
  // Methods that update part of the rows only: those rows, and room to gather them.
  bool partial;
  row_lists updated;
  tensor updated_index;
  transformer::activations part;
  candidate_lists found;
  step_plan plan;
  std::vector<sequence_step> last_step;   // of each place, for recomputation
  std::vector<std::int64_t> rows_before;  // rows of each sequence entering the current layer
  const step_part* parts = nullptr;       // of the current step; null: all places step
  step_observer* observer = nullptr;
  std::int64_t step_index = 0;
  loop_seconds seconds;

  impl(const transformer& m, recipe r, const loop_limits& l)
      : model(m),
        run(m.backend()),
        method(std::move(r)),
        limits(l),
        state(run, m.config(), l.sequences, l.max_length),
        cache(run, m.config(), method.cache->storage(m.config(), l.max_length), l.sequences,
              l.kv_pages, m.kv_type()),
        acts(m.make_activations()),
        partial(method.rows->updates_part()) {
    if (l.dry) refuse_dry();
    const std::int64_t n = m.max_rows();
    const std::int64_t s = l.sequences;
    const auto ints = [&](std::int64_t count) { return run.allocate(dtype::i32, {count}); };
    const auto reals = [&](std::int64_t count) { return run.allocate(dtype::f32, {count}); };
    final = run.allocate(dtype::f32, {n, m.config().hidden});
    kept = ints(n);
    kv_length = ints(s);
    window_first = ints(s);
    window_last = ints(s);
    const auto lists = [&] {
      return row_lists{ints(s + 1), ints(n), ints(n), ints(n), 0, ints(n), false};
    };
    rows = lists();
    entered = lists();
    if (partial) {
      updated = lists();
      updated_index = ints(n);
      part = m.make_activations();
    }
    found = {ints(s + 1), ints(n),  ints(n),  ints(n),  reals(n),
             reals(n),    reals(n), reals(n), reals(n), run.allocate(dtype::u8, {n}),
             ints(s),     ints(s),  0};
    if (const feature_policy* policy = method.cache->features()) {
      features = std::make_unique<feature_layers>(m, *policy, l.sequences, l.max_length);
    }
    plan.of.resize(static_cast<std::size_t>(s));
    last_step.resize(static_cast<std::size_t>(s));
    rows_before.resize(static_cast<std::size_t>(s));
  }

  void refuse_dry() const;
  bool make_plan();
  sequence_step once_more(std::int32_t s) const;
  std::pair<work_phase, std::int32_t> kind_of_forward() const;
  void forward();
  void count_dry();
  void decide();
  void feed_forward(std::int32_t layer, const tensor_view& x);
  void count_layer(std::int32_t layer, const key_set& keys, bool first_layer);
  void count_features(std::int32_t layer, const feature_work& work);
};

step_loop::step_loop(const transformer& model, recipe method, const loop_limits& limits)
    : impl_(std::make_unique<impl>(model, std::move(method), limits)) {}
step_loop::~step_loop() = default;

std::int32_t step_loop::length_of(const sequence_request& request) const {
  return impl_->method.pace->canvas_length(impl_->model.config(), request);
}

std::int32_t step_loop::admit(const sequence_request& request, std::int32_t slots) {
  impl& m = *impl_;
  for (std::int32_t s = 0; s < m.limits.sequences; ++s) {
    if (m.state.occupied(s)) continue;
    const std::int32_t length = length_of(request);
    const std::int32_t first = slots > 0 ? std::min(slots, length) : length;
    if (!m.cache.reserve(s, m.method.cache->storage(m.model.config(), first))) return -1;
    if (m.features && !m.features->reserve(s, length)) {
      m.cache.release(s);
      return -1;
    }
    m.state.admit(s, request, length);
    m.method.pace->start(m.state, s);
    m.run.synchronize();
    return s;
  }
  return -1;
}

bool step_loop::reserve(std::int32_t place, std::int32_t slots) {
  impl& m = *impl_;
  const std::int32_t wanted = std::min(slots, m.state.at(place).length);
  return m.cache.reserve(place, m.method.cache->storage(m.model.config(), wanted));
}

bool step_loop::fits(std::int32_t length) const {
  return impl_->cache.fits(impl_->method.cache->storage(impl_->model.config(), length));
}

void step_loop::release(std::int32_t place) {
  impl_->cache.release(place);
  if (impl_->features) impl_->features->release(place);
  impl_->state.clear(place);
}

const loop_seconds& step_loop::seconds() const {
  return impl_->seconds;
}
const batch& step_loop::state() const {
  return impl_->state;
}
const kv_cache& step_loop::cache() const {
  return impl_->cache;
}
pace_policy& step_loop::pace() const {
  return *impl_->method.pace;
}
const step_plan& step_loop::plan() const {
  return impl_->plan;
}
std::int32_t step_loop::rows_entered(std::int32_t s) const {
  return impl_->entered.begin.as<std::int32_t>()[s + 1] -
         impl_->entered.begin.as<std::int32_t>()[s];
}
std::int32_t step_loop::committed(std::int32_t s) const {
  return impl_->found.committed.as<std::int32_t>()[s];
}
std::int32_t step_loop::candidates(std::int32_t s) const {
  return impl_->found.begin.as<std::int32_t>()[s + 1] - impl_->found.begin.as<std::int32_t>()[s];
}
std::size_t step_loop::peak_cache_bytes() const {
  return impl_->cache.peak_bytes() + (impl_->features ? impl_->features->peak_bytes() : 0);
}
void step_loop::observe(step_observer* observer) {
  impl_->observer = observer;
}

std::vector<std::int32_t> step_loop::output(std::int32_t place) const {
  const sequence& q = impl_->state.at(place);
  return impl_->state.tokens(place, q.prompt_length, std::max(q.output_end, q.prompt_length));
}

std::vector<std::int32_t> step_loop::canvas(std::int32_t place) const {
  const sequence& q = impl_->state.at(place);
  return impl_->state.tokens(place, q.prompt_length, q.length);
}

bool step_loop::step() {
  return step(nullptr);
}

bool step_loop::step(const step_part* parts) {
  const phase_range range(work_phase::step, impl_->step_index++);
  impl_->parts = parts;
  if (!impl_->make_plan()) return false;
  impl_->forward();
  impl_->decide();
  return true;
}

void step_loop::impl::refuse_dry() const {
  const auto refuse = [&](bool when, const char* what) {
    if (!when) return;
    throw usage_error((method.method.empty() ? "this method" : method.method) +
                      " cannot run without the model: " + what + " depend on activations");
  };
  refuse(method.rows->reads_activations(), "its rows");
  refuse(method.keys->reads_activations(), "its keys");
  refuse(method.cache->features() != nullptr, "the rows of its layers");
}

bool step_loop::impl::make_plan() {
  const phase_range range(work_phase::plan, step_index - 1);
  const stopwatch clock(seconds.planning);
  bool any = false;
  method.pace->begin(state, parts);
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    step = {};
    if (!state.occupied(s) || (parts && parts[s] == step_part::out)) continue;
    if (parts && parts[s] == step_part::recompute) {
      step = once_more(s);
    } else if (!state.at(s).finished) {
      step = method.pace->plan(state, s);
      last_step[static_cast<std::size_t>(s)] = step;
    }
    if (step.active && std::max(step.last, step.kv_length) > cache.slots(s)) {
      throw std::logic_error("step_loop: a sequence runs past its pages");
    }
    any = any || step.active;
  }
  if (!any) return false;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    kv_length.as<std::int32_t>()[s] = step.active ? step.kv_length : 0;
    window_first.as<std::int32_t>()[s] = step.active ? step.candidate_first : 0;
    window_last.as<std::int32_t>()[s] = step.active ? step.candidate_last : 0;
    found.quota.as<std::int32_t>()[s] = step.active ? step.quota : 0;
  }
  return true;
}

// The rows of the last block of the last step, with nothing to decide. Writing the K/V of tokens
// that did not change changes nothing.
sequence_step step_loop::impl::once_more(std::int32_t s) const {
  sequence_step step = last_step[static_cast<std::size_t>(s)];
  const std::int32_t block = method.pace->shape(model.config()).block;
  if (block > 0) step.first = std::max(step.first, step.last - block);
  step.what = phase::denoise;
  step.again = true;
  step.candidate_first = step.candidate_last;
  step.quota = 0;
  return step;
}

// What the forward is for, and how many sequences take part.
std::pair<work_phase, std::int32_t> step_loop::impl::kind_of_forward() const {
  std::int32_t prefill = 0, commit = 0, active = 0;
  for (const sequence_step& step : plan.of) {
    active += step.active;
    prefill += step.active && step.what == phase::prefill;
    commit += step.active && step.what == phase::commit;
  }
  if (prefill == active) return {work_phase::prefill, active};
  if (commit == active) return {work_phase::commit_forward, active};
  return {prefill + commit > 0 ? work_phase::mixed_forward : work_phase::denoise, active};
}

void step_loop::impl::forward() {
  const std::int32_t sequences = limits.sequences;
  const auto [kind, active] = kind_of_forward();
  const phase_range forward_range(kind, active);
  const stopwatch whole(seconds.forward);
  {
    const phase_range range(work_phase::selection, -1);
    const stopwatch clock(seconds.selection);
    rows.slots_differ = false;
    method.rows->select(state, plan, rows);
    run.synchronize();
    if (rows.rows > model.max_rows()) {
      throw std::logic_error("step_loop: more rows than the model was made for");
    }
    method.cache->prepare(state, plan, rows, cache);
    if (partial) method.rows->feed_forward_rows(state, plan, rows, updated, updated_index);
  }
  const tensor_view x_all = acts.x.view();
  const bool layers = !limits.dry && rows.rows > 0;  // frozen places may have nothing to repeat
  {
    const phase_range range(work_phase::embed, rows.rows);
    run.gather_tokens(rows.set(sequences), state.canvas(), rows.token.as<std::int32_t>());
    run.synchronize();
    if (layers) model.embed(rows.token.as<std::int32_t>(), x_all.first(rows.rows));
    if (layers) report_embed(model, rows.rows);
  }

  // The rows as they entered, for the observer and the accounting, before any narrowing.
  entered.rows = rows.rows;
  std::copy_n(rows.begin.as<std::int32_t>(), sequences + 1, entered.begin.as<std::int32_t>());
  std::copy_n(rows.position.as<std::int32_t>(), rows.rows, entered.position.as<std::int32_t>());
  std::copy_n(rows.sequence.as<std::int32_t>(), rows.rows, entered.sequence.as<std::int32_t>());
  std::copy_n(rows.token.as<std::int32_t>(), rows.rows, entered.token.as<std::int32_t>());

  for (std::int32_t s = 0; s < sequences; ++s) {
    rows_before[static_cast<std::size_t>(s)] =
        entered.begin.as<std::int32_t>()[s + 1] - entered.begin.as<std::int32_t>()[s];
  }

  if (!layers) {
    count_dry();
    return;
  }
  const float scale = 1.0F / std::sqrt(static_cast<float>(model.config().head_dim));
  for (std::int32_t l = 0; l < model.config().layers; ++l) {
    const phase_range layer_range(work_phase::layer, l);
    tensor_view x = x_all.first(rows.rows);
    if (features && l >= features->first_layer()) {
      const feature_work work = features->forward(l, state, plan, rows, x, acts, cache.layer(l),
                                                  *method.keys, kv_length.as<std::int32_t>());
      const phase_range range(work_phase::accounting, l);
      count_features(l, work);
      continue;
    }
    {
      const phase_range range(work_phase::project, l);
      model.project(l, x, rows.position.as<std::int32_t>(), acts);
    }
    const paged_kv pages = cache.layer(l);
    {
      const phase_range range(work_phase::cache_update, l);
      if (partial) {
        run.gather_rows(acts.qkv.view().first(rows.rows), updated_index.as<std::int32_t>(),
                        part.qkv.view().first(updated.rows));
      }
      const row_lists& written = partial ? updated : rows;
      const transformer::activations& from = partial ? part : acts;
      run.kv_write(written.set(sequences), model.key(from, written.rows),
                   model.value(from, written.rows), pages);
    }
    const std::int32_t before = rows.rows;
    bool narrowed = false;
    {
      const phase_range range(work_phase::selection, l);
      const stopwatch clock(seconds.selection);
      narrowed = method.rows->narrow(state, plan, l, model.query(acts, before),
                                     model.key(acts, before), rows, kept);
    }
    if (narrowed) {
      const phase_range range(work_phase::selection, l);
      if (partial) throw std::logic_error("step_loop: narrow() and feed_forward_rows() together");
      // Surviving rows keep their order, so gathering forward in place never overwrites a source.
      run.gather_rows(x, kept.as<std::int32_t>(), x_all.first(rows.rows));
      run.gather_rows(acts.qkv.view().first(before), kept.as<std::int32_t>(),
                      acts.qkv.view().first(rows.rows));
      if (rows.slots_differ) throw std::logic_error("step_loop: narrow() of rows with slots");
      x = x_all.first(rows.rows);
    }
    const tensor_view q = model.query(acts, rows.rows);
    key_set keys;
    {
      const phase_range range(work_phase::selection, l);
      const stopwatch clock(seconds.selection);
      keys = method.keys->select(state, plan, l, q, pages, kv_length.as<std::int32_t>());
    }
    if (observer && observer->wants_layers()) {
      run.synchronize();
      observer->on_layer({state, plan, l, rows.set(sequences), q, model.key(acts, rows.rows),
                          model.value(acts, rows.rows), pages, keys, scale,
                          method.cache->slot_positions(plan, l, 0)});
    }
    tensor_view attended = acts.attention.view().first(rows.rows);
    {
      const phase_range range(work_phase::attention, l);
      const tensor_view out = make_view(attended.data, dtype::f32,
                                        {rows.rows, model.config().heads, model.config().head_dim});
      run.attention(rows.set(sequences), q, pages, keys, scale, out,
                    method.keys->key_mass(state, plan, l));
    }
    {
      const phase_range range(work_phase::selection, l);
      const stopwatch clock(seconds.selection);
      method.cache->after_attention({state, plan, l, rows.set(sequences), q,
                                     model.key(acts, rows.rows), model.value(acts, rows.rows)},
                                    cache);
    }
    {
      const phase_range range(work_phase::attention_output, l);
      model.attention_output(l, attended, x);
    }
    {
      const phase_range range(work_phase::feed_forward, l);
      feed_forward(l, x);
    }
    const phase_range range(work_phase::accounting, l);
    count_layer(l, keys, l == 0);
  }
  report_final_norm(model, rows.rows);
  const phase_range range(work_phase::final_norm, rows.rows);
  model.final_norm(x_all.first(rows.rows), final.view().first(rows.rows));
}

void step_loop::impl::feed_forward(std::int32_t layer, const tensor_view& x) {
  if (!partial) {
    model.feed_forward(layer, x);
    return;
  }
  const tensor_view some = part.x.view().first(updated.rows);
  run.gather_rows(x, updated_index.as<std::int32_t>(), some);
  model.feed_forward(layer, some);
  run.scatter_rows(some, updated_index.as<std::int32_t>(), x);
}

// Rows entering the layer cost its projections; rows leaving it (after narrowing) cost attention
// and output projection, and feed-forward unless the method says that they skip it. Keys are those
// the mask really admits.
void step_loop::impl::count_layer(std::int32_t layer, const key_set& keys, bool first_layer) {
  layer_counts total;
  const row_cost cost = model.cost(layer);
  const double per_key = 4.0 * model.config().heads * model.config().head_dim;
  const std::int32_t* begin = rows.begin.as<std::int32_t>();
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    sequence_counters& c = state.at(s).counters;
    const std::int64_t n = begin[s + 1] - begin[s];
    const std::int64_t entering = rows_before[static_cast<std::size_t>(s)];
    rows_before[static_cast<std::size_t>(s)] = n;
    if (first_layer) {
      const std::int64_t in_rows = entering;
      ++c.forwards;
      c.prefill_forwards += step.what == phase::prefill;
      c.commit_forwards += step.what == phase::commit;
      c.denoise_steps += step.candidate_last > step.candidate_first;
      c.rows += in_rows;
      if (step.what != phase::prefill) c.decode_rows += in_rows;
    }
    double seen = 0, busiest = 0;
    for (std::int32_t r = begin[s]; r < begin[s + 1]; ++r) {
      const double of_row =
          method.keys->mean_keys_of_row(state, keys, s, rows.position.as<std::int32_t>()[r]);
      seen += of_row;
      busiest = std::max(busiest, of_row);
    }
    const std::int32_t* fed_begin = partial ? updated.begin.as<std::int32_t>() : begin;
    const std::int64_t fed = fed_begin[s + 1] - fed_begin[s];
    const double selection = method.keys->selection_flops(state, s);
    c.layer_rows += n;
    c.feed_forward_rows += fed;
    c.keys_seen += seen;
    c.flops += static_cast<double>(entering) * cost.qkv_flops +
               static_cast<double>(n) * cost.output_flops +
               static_cast<double>(fed) * cost.feed_forward_flops + seen * per_key + selection;
    c.selection_flops += selection;
    total.valued += static_cast<double>(entering);
    total.projected += static_cast<double>(entering);
    total.written += static_cast<double>(partial ? fed : entering);
    total.attending += static_cast<double>(n);
    total.fed += static_cast<double>(fed);
    total.keys_seen += seen;
    total.busiest_keys += busiest;
    total.selection_flops += selection;
  }
  report_layer(model, layer, total, size_of(cache.layer(layer).keys.type));
}

void step_loop::impl::count_dry() {
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    sequence_counters& c = state.at(s).counters;
    const std::int64_t n = rows_before[static_cast<std::size_t>(s)];
    ++c.forwards;
    c.prefill_forwards += step.what == phase::prefill;
    c.commit_forwards += step.what == phase::commit;
    c.denoise_steps += step.candidate_last > step.candidate_first;
    c.rows += n;
    if (step.what != phase::prefill) c.decode_rows += n;
    c.layer_rows += n * model.config().layers;
  }
}

// The same for a layer that computed a part of its rows: V of some, everything of fewer.
void step_loop::impl::count_features(std::int32_t layer, const feature_work& work) {
  const row_cost cost = model.cost(layer);
  const model_config& m = model.config();
  const double per_key = 4.0 * m.heads * m.head_dim;
  const double per_row =
      cost.qkv_flops - cost.value_flops + cost.output_flops + cost.feed_forward_flops;
  layer_counts total;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    if (!plan.of[static_cast<std::size_t>(s)].active) continue;
    sequence_counters& c = state.at(s).counters;
    const std::int32_t first = work.rows.row_begin[s], last = work.rows.row_begin[s + 1];
    double seen = 0, busiest = 0;
    for (std::int32_t r = first; r < last; ++r) {
      const double of_row =
          method.keys->mean_keys_of_row(state, work.keys, s, work.rows.position[r]);
      seen += of_row;
      busiest = std::max(busiest, of_row);
    }
    // A cosine distance is three dot products.
    const double compared = work.probe_begin[s + 1] - work.probe_begin[s];
    const double selection =
        method.keys->selection_flops(state, s) + compared * 6.0 * m.kv_heads * m.head_dim;
    c.layer_rows += last - first;
    c.feed_forward_rows += last - first;
    c.keys_seen += seen;
    c.selection_flops += selection;
    const std::int32_t valued = work.value_begin[s + 1] - work.value_begin[s];
    c.flops += valued * cost.value_flops + (last - first) * per_row + seen * per_key + selection;
    total.valued += valued;
    total.written += valued;
    total.projected += last - first;
    total.attending += last - first;
    total.fed += last - first;
    total.keys_seen += seen;
    total.busiest_keys += busiest;
    total.selection_flops += selection;
  }
  report_layer(model, layer, total, size_of(cache.layer(layer).keys.type));
}

void step_loop::impl::decide() {
  const stopwatch clock(seconds.decisions);
  const std::int32_t sequences = limits.sequences;
  const std::int32_t shift = model.config().shifted_logits ? 1 : 0;
  {
    const phase_range range(work_phase::candidates, -1);
    found.count = run.find_candidates(
        rows.set(sequences), state.state(), state_masked, window_first.as<std::int32_t>(),
        window_last.as<std::int32_t>(), shift, found.begin.as<std::int32_t>(),
        found.position.as<std::int32_t>(), found.row.as<std::int32_t>());
    std::fill_n(found.committed.as<std::int32_t>(), sequences, 0);
  }
  if (found.count > 0) {
    {
      const phase_range range(work_phase::lm_head, found.count);
      report_head(model, found.count);
      method.unmask->judge(state, plan, final.view().first(rows.rows), model.head(), found);
    }
    const phase_range range(work_phase::decide, found.count);
    const stopwatch rule(seconds.rule);
    method.unmask->decide(state, plan, found);
  }
  if (observer) {
    run.synchronize();
    observer->on_step({state, plan, entered.set(sequences), entered.token.as<std::int32_t>(),
                       rows.set(sequences), found, final.view().first(rows.rows)});
  }
  if (found.count > 0) {
    const phase_range range(work_phase::commit, found.count);
    run.commit(found.set(sequences), found.token.as<std::int32_t>(),
               found.accept.as<std::uint8_t>(), state_decoded,
               method.unmask->masks_by_id() ? model.config().mask_id : -1, state.canvas(),
               state.state(), found.committed.as<std::int32_t>());
  }
  {
    const phase_range range(work_phase::settle, -1);
    method.cache->settle(state, plan);
    run.synchronize();
  }
  const phase_range range(work_phase::accounting, -1);
  const std::int32_t* begin = found.begin.as<std::int32_t>();
  for (std::int32_t s = 0; s < sequences; ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    sequence_counters& c = state.at(s).counters;
    const std::int32_t committed = found.committed.as<std::int32_t>()[s];
    const std::int64_t judged = begin[s + 1] - begin[s];
    c.committed += committed;
    c.head_rows += judged;
    c.flops += static_cast<double>(judged) * model.head_flops();
    if (parts && parts[s] == step_part::recompute) continue;
    state.advance_step(s);
    method.pace->observe(state, s, step, committed);
  }
}

}  // namespace unmask
