// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "harness/base/error.h"
#include "harness/base/nearest.h"

namespace unmask {
namespace {

constexpr double never = std::numeric_limits<double>::quiet_NaN();
constexpr std::int32_t lmdeploy_prefill_interval = 16;
constexpr std::size_t lmdeploy_enough_waiting = 4;

struct place_state {
  bool used = false;
  std::size_t request = 0;
  bool resolved = false;  // no mask in its block: the next forward writes K/V only
  bool finished = false;
};

class engine_run {
 public:
  engine_run(batch_runner& runner, std::span<const request_order> orders,
             const engine_settings& settings, engine_clock& clock, engine_sink& sink)
      : runner_(runner),
        orders_(orders),
        settings_(settings),
        clock_(clock),
        sink_(sink),
        shape_(runner.shape()),
        places_(static_cast<std::size_t>(runner.places())),
        parts_(places_.size(), schedule_action::out),
        progress_(places_.size()) {}

  engine_totals run() {
    while (true) {
      take_arrivals();
      take_cancellations();
      if (live_.empty()) {
        if (next_ == orders_.size()) break;
        clock_.wait_until(orders_[next_].arrival);
        continue;
      }
      if (settings_.policy == batching::mixed) {
        mixed_turn();
        continue;
      }
      if (wants_prefill() && prefill_turn()) continue;
      if (decode_turn()) continue;
      // LMDeploy lets few wait while others decode; here nobody does.
      if (prefill_turn()) continue;
      throw std::logic_error("engine: requests wait but nothing can run");
    }
    totals_.seconds = last_finish_;
    return totals_;
  }

 private:
  std::size_t index(std::int32_t place) const { return static_cast<std::size_t>(place); }
  std::size_t running() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(places_, [](const place_state& p) { return p.used; }));
  }
  bool prefilling(std::int32_t s) const { return places_[index(s)].used && runner_.prefilling(s); }

  // Places in use, oldest arrival first; in a buffer of this object.
  const std::vector<std::int32_t>& by_arrival() {
    order_.clear();
    for (std::size_t s = 0; s < places_.size(); ++s) {
      if (places_[s].used) order_.push_back(static_cast<std::int32_t>(s));
    }
    std::ranges::sort(order_, {}, [&](std::int32_t s) { return places_[index(s)].request; });
    return order_;
  }

  void take_arrivals() {
    const double now = clock_.now();
    while (next_ < orders_.size() && orders_[next_].arrival <= now) {
      request_record record;
      record.request = next_;
      record.arrival = orders_[next_].arrival;
      live_.emplace(next_, std::move(record));
      waiting_.insert(next_);
      if (std::isfinite(orders_[next_].cancel)) cancellations_.push({orders_[next_].cancel, next_});
      ++next_;
    }
  }

  void take_cancellations() {
    while (!cancellations_.empty() && cancellations_.top().first <= clock_.now()) {
      const std::size_t request = cancellations_.top().second;
      cancellations_.pop();
      if (!live_.contains(request)) continue;  // over already
      finished_answer& answer = live_.at(request).answer;
      if (waiting_.erase(request) > 0) {
        answer = runner_.forget(request);
      } else {
        for (std::size_t s = 0; s < places_.size(); ++s) {
          if (places_[s].used && places_[s].request == request) {
            answer = runner_.take(static_cast<std::int32_t>(s));
            vacate(static_cast<std::int32_t>(s));
          }
        }
      }
      end(request, outcome::cancelled, clock_.now());
    }
  }

  void vacate(std::int32_t s) {
    runner_.release(s);
    places_[index(s)] = {};
  }

  void end(std::size_t request, outcome how, double time) {
    const auto found = live_.find(request);
    found->second.end = how;
    found->second.finish = time;
    last_finish_ = std::max(last_finish_, time);
    sink_.on_request(std::move(found->second));
    live_.erase(found);
  }

  // LMDeploy takes a prefill turn when four wait or less than half of the batch runs; the others
  // whenever somebody waits. A prompt that is half in goes on at once everywhere.
  bool wants_prefill() const {
    for (std::size_t s = 0; s < places_.size(); ++s) {
      if (prefilling(static_cast<std::int32_t>(s))) return true;
    }
    if (settings_.policy != batching::lmd) return !waiting_.empty();
    return waiting_.size() >= lmdeploy_enough_waiting ||
           (!waiting_.empty() && 2 * running() < places_.size());
  }

  // The place of the request that waits longest, or no_room, or never_fits: then it is over.
  std::int32_t admit_first() {
    const std::size_t request = *waiting_.begin();
    const double asked = clock_.now();  // what is shown to the model is made by admit()
    const std::int32_t s = runner_.admit(request, settings_.grow_pages);
    if (s == no_room) return s;
    waiting_.erase(waiting_.begin());
    if (s == never_fits) {
      end(request, outcome::rejected, clock_.now());
      return s;
    }
    places_[index(s)] = {true, request, false, false};
    request_record& record = live_.at(request);
    if (std::isnan(record.admitted)) record.admitted = asked;
    // Methods may have prompts that need no prefill.
    if (!runner_.prefilling(s) && std::isnan(record.prefill_done)) {
      record.prefill_done = clock_.now();
    }
    return s;
  }

  // Who enters a forward of prompts: those half in, then the waiting, first come first served up to
  // the token budget. `mixed`: with everybody who decodes; of prompts half in, the latest wait.
  struct entered {
    std::int64_t rows = 0;  // of prompts
    bool admitted = false;
  };
  entered enter_prompts(bool mixed) {
    entered turn;
    const auto fits = [&](std::int32_t more) {
      return turn.rows == 0 || settings_.prefill_tokens == 0 ||
             turn.rows + more <= settings_.prefill_tokens;
    };
    const auto rows_of = [&](std::int32_t s) {
      return prefilling(s) ? runner_.prefill_rows(s) : 0;
    };
    const auto enter = [&](std::int32_t s, std::int32_t more) {
      if (more == 0 && !mixed) return;
      turn.rows += more;
      parts_[index(s)] = schedule_action::step;
    };
    std::ranges::fill(parts_, schedule_action::out);
    for (const std::int32_t s : by_arrival()) {
      const std::int32_t more = rows_of(s);
      if (more == 0 || fits(more)) {
        enter(s, more);
      } else if (!mixed) {
        break;
      }
    }
    while (!waiting_.empty() && fits(runner_.first_rows(*waiting_.begin()))) {
      const std::int32_t s = admit_first();
      if (s == no_room) break;
      turn.admitted = true;
      if (s != never_fits) enter(s, rows_of(s));
    }
    return turn;
  }

  // One forward of every request, whether its prompt is in or not.
  void mixed_turn() {
    if (settings_.grow_pages) make_room(1);
    const entered turn = enter_prompts(true);
    if (stepping()) {
      forward(turn.rows > 0);
      settle();
    } else if (!turn.admitted) {
      throw std::logic_error("engine: requests wait but nothing can run");
    }
  }

  // One forward of prompts only. False when no prompt can enter.
  bool prefill_turn() {
    const entered turn = enter_prompts(false);
    if (turn.rows > 0) {
      forward(true);
      settle();
    }
    return turn.admitted || turn.rows > 0;
  }

  // Pages come first, because a request that is preempted for them takes no part in the turn; results
  // are handed over last, when every forward of the turn is over.
  bool decode_turn() {
    std::int32_t forwards = 1;
    if (settings_.policy == batching::lmd || settings_.policy == batching::fdfo) {
      forwards = settings_.forwards_per_turn > 0     ? settings_.forwards_per_turn
                 : settings_.policy == batching::lmd ? lmdeploy_forwards(shape_)
                                                     : 1;
    }
    if (settings_.grow_pages) make_room(forwards);
    bool any = false;
    for (std::size_t s = 0; s < places_.size(); ++s) {
      const bool decodes = places_[s].used && !prefilling(static_cast<std::int32_t>(s));
      parts_[s] = decodes ? schedule_action::step : schedule_action::out;
      any = any || decodes;
    }
    if (!any) return false;
    if (settings_.policy == batching::block_sync) {
      whole_block();
    } else {
      const bool held = settings_.policy == batching::lmd;
      for (std::int32_t i = 0; i < forwards && stepping(); ++i) {
        forward(false);
        for (std::size_t s = 0; s < places_.size(); ++s) {
          if (parts_[s] != schedule_action::step) continue;
          if (places_[s].finished) {
            parts_[s] = held ? schedule_action::recompute : schedule_action::out;
          } else if (settings_.policy == batching::fdfo && places_[s].resolved) {
            parts_[s] = schedule_action::out;
          }
        }
      }
    }
    settle();
    return true;
  }

  bool stepping() const { return std::ranges::find(parts_, schedule_action::step) != parts_.end(); }

  // SGLang's synchronous block: every request's rows are computed until none has a mask; then one
  // forward writes the K/V of all.
  void whole_block() {
    const auto frozen = parts_;
    if (!shape_.commits) {
      for (place_state& p : places_) p.resolved = false;  // the next block is open already
    }
    const auto resolve = [&] {
      for (std::size_t s = 0; s < places_.size(); ++s) {
        const bool done = places_[s].resolved || places_[s].finished;
        if (parts_[s] == schedule_action::step && done) parts_[s] = schedule_action::recompute;
      }
    };
    resolve();  // a prompt's last block may have been resolved by its prefill
    while (stepping()) {
      forward(false);
      resolve();
    }
    if (!shape_.commits) return;
    parts_ = frozen;
    for (std::size_t s = 0; s < places_.size(); ++s) {
      if (parts_[s] == schedule_action::step && places_[s].finished)
        parts_[s] = schedule_action::recompute;
    }
    forward(false);
  }

  // Pages for the next turn of all requests, oldest first; the newest request is preempted.
  void make_room(std::int32_t forwards) {
    const std::vector<std::int32_t> order = by_arrival();
    for (const std::int32_t s : order) {
      while (places_[index(s)].used && !prefilling(s) && !runner_.reserve(s, forwards)) {
        preempt(by_arrival().back());
      }
    }
  }

  void preempt(std::int32_t s) {
    const std::size_t request = places_[index(s)].request;
    runner_.preempt(s, settings_.keep_on_preemption);
    places_[index(s)] = {};
    waiting_.insert(request);  // ordered by arrival: it is first among the waiting
    ++live_.at(request).preemptions;
    ++totals_.preemptions;
  }

  // The clock runs from the forward to the last count of its rows, because a virtual clock takes its
  // time from those counts; only then results may say when they came.
  void forward(bool prefill) {
    iteration_record it;
    it.time = clock_.now();
    it.prefill = prefill;
    clock_.begin_forward();
    runner_.forward(parts_, progress_);
    forward_shape cost;
    for (std::size_t s = 0; s < places_.size(); ++s) {
      if (parts_[s] == schedule_action::out) continue;
      const place_progress& p = progress_[s];
      ++it.requests;
      it.rows += p.rows;
      cost.context += p.context;
      if (parts_[s] == schedule_action::recompute) {
        ++it.recomputed;
        it.recomputed_rows += p.rows;
        continue;
      }
      it.candidates += p.candidates;
      it.committed += p.committed;
      if (shape_.block > 1 && p.committed == shape_.block) it.at_once += p.committed;
      it.commits += p.what == forward_kind::commit;
      places_[s].finished = p.finished;
      places_[s].resolved = p.what != forward_kind::commit && p.resolved && !p.finished;
    }
    if (!prefill) it.chosen = runner_.chosen_chunk();
    cost.rows = it.rows;
    cost.requests = it.requests;
    it.seconds = clock_.end_forward(cost);
    if (settings_.predictor) it.predicted = settings_.predictor->seconds(cost);
    it.waiting = static_cast<std::int32_t>(waiting_.size());
    it.free_pages = runner_.free_pages();
    ++totals_.forwards;
    totals_.prefill_forwards += prefill;
    sink_.on_iteration(it);
    // Turns hand their results over at their end, except LMDeploy's, which streams every forward.
    const bool at_once = settings_.policy == batching::lmd || settings_.policy == batching::iter ||
                         settings_.policy == batching::mixed;
    for (std::size_t s = 0; s < places_.size(); ++s) {
      if (parts_[s] == schedule_action::step) note(s, prefill, at_once || prefill);
    }
  }

  void note(std::size_t s, bool prefill, bool visible) {
    request_record& record = live_.at(places_[s].request);
    if (prefill && std::isnan(record.prefill_done) &&
        !runner_.prefilling(static_cast<std::int32_t>(s))) {
      record.prefill_done = clock_.now();
    }
    if (progress_[s].committed > 0 && std::isnan(record.first_decided)) {
      record.first_decided = clock_.now();
    }
    const std::int32_t before = record.emissions.empty() ? 0 : record.emissions.back().tokens;
    if (visible && progress_[s].emitted > before) hand_out(record, s, clock_.now());
    if (places_[s].finished && visible) record.finish = clock_.now();
  }

  void hand_out(request_record& record, std::size_t s, double time) {
    record.emissions.push_back({time, progress_[s].emitted});
    const auto enough = static_cast<std::size_t>(orders_[record.request].cancel_blocks);
    if (record.emissions.size() == enough) cancellations_.push({time, record.request});
  }

  // End of a turn: what became visible only now, then departures.
  void settle() {
    const double now = clock_.now();
    for (std::size_t s = 0; s < places_.size(); ++s) {
      if (!places_[s].used) continue;
      request_record& record = live_.at(places_[s].request);
      const std::int32_t before = record.emissions.empty() ? 0 : record.emissions.back().tokens;
      if (touched(s) && progress_[s].emitted > before) hand_out(record, s, now);
      if (!places_[s].finished) continue;
      const std::size_t request = places_[s].request;
      record.answer = runner_.take(static_cast<std::int32_t>(s));
      const double time = std::isnan(record.finish) ? now : record.finish;
      vacate(static_cast<std::int32_t>(s));
      end(request, outcome::finished, time);
    }
  }

  // True when progress_[s] is of the request that holds the place now.
  bool touched(std::size_t s) const {
    return parts_[s] != schedule_action::out || places_[s].finished || places_[s].resolved;
  }

  batch_runner& runner_;
  std::span<const request_order> orders_;
  const engine_settings& settings_;
  engine_clock& clock_;
  engine_sink& sink_;
  pace_shape shape_;
  std::vector<place_state> places_;
  std::vector<schedule_action> parts_;
  std::vector<place_progress> progress_;
  std::vector<std::int32_t> order_;
  std::set<std::size_t> waiting_;  // index = order of arrival
  std::unordered_map<std::size_t, request_record> live_;
  using cancellation = std::pair<double, std::size_t>;
  std::priority_queue<cancellation, std::vector<cancellation>, std::greater<>> cancellations_;
  std::size_t next_ = 0;
  double last_finish_ = 0;
  engine_totals totals_;
};

}  // namespace

request_record::request_record()
    : admitted(never), prefill_done(never), finish(never), first_decided(never) {}

const std::vector<std::string>& batching_names() {
  static const std::vector<std::string> names = {"iter", "lmd", "block_sync", "fdfo", "mixed"};
  return names;
}

batching parse_batching(const std::string& name) {
  return static_cast<batching>(find_known("batching policy", name, batching_names()));
}

const char* name_of(batching policy) {
  return batching_names()[static_cast<std::size_t>(policy)].c_str();
}

std::int32_t lmdeploy_forwards(const pace_shape& shape) {
  if (shape.block <= 0) return 1;
  const std::int32_t most = shape.turn > 0 ? shape.turn : lmdeploy_prefill_interval;
  return std::clamp(2 * (kv_page_size / shape.block), 1, most);
}

engine_totals run_engine(batch_runner& runner, std::span<const request_order> orders,
                         const engine_settings& settings, engine_clock& clock, engine_sink& sink) {
  if (!std::ranges::is_sorted(orders, {}, &request_order::arrival)) {
    throw std::logic_error("engine: requests must be ordered by arrival");
  }
  const std::int32_t turn = runner.shape().turn;
  if (settings.policy == batching::lmd && turn > 0 && settings.forwards_per_turn > turn) {
    throw usage_error("lmd: forwards_per_turn is at most " + std::to_string(turn) +
                      " for this method, which changes the rows of a block after every forward");
  }
  return engine_run(runner, orders, settings, clock, sink).run();
}

}  // namespace unmask
