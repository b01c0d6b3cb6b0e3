// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/phase_clock.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <stdexcept>
#include <utility>

namespace unmask {
namespace {

std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Microseconds with the nanoseconds kept: three decimals, never an exponent.
std::string microseconds(std::int64_t nanoseconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03d", static_cast<long long>(nanoseconds / 1000),
                static_cast<int>(nanoseconds % 1000));
  return text;
}

std::string quoted(const std::string& text) {
  // Kernel names come from outside; a byte that is no UTF-8 must not end the trace.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void write_counter(std::ostream& out, const std::string& name, std::int64_t at, double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.10g", value);
  out << ",\n{\"ph\":\"C\",\"pid\":1,\"name\":" << quoted(name) << ",\"ts\":" << microseconds(at)
      << ",\"args\":{\"value\":" << text << "}}";
}

// Events end in the order in which they were kept.
std::vector<phase_event> some_of(const std::vector<phase_event>& events,
                                 bool (*wanted)(profile_phase phase)) {
  std::vector<phase_event> some;
  std::ranges::copy_if(events, std::back_inserter(some),
                       [&](const phase_event& e) { return wanted(e.phase); });
  std::ranges::sort(some, {}, &phase_event::end);
  return some;
}

// What a step held is drawn from its beginning on, so that it stands above the step's phases.
void write_counters(std::ostream& out, const std::vector<phase_event>& events,
                    const std::vector<step_event>& steps) {
  const auto ranges =
      some_of(events, [](profile_phase phase) { return phase == profile_phase::step; });
  for (const step_event& s : steps) {
    const auto range = std::ranges::lower_bound(ranges, s.at, {}, &phase_event::end);
    const std::int64_t at = range != ranges.end() && range->begin <= s.at ? range->begin : s.at;
    const std::pair<const char*, std::int64_t> numbers[] = {{"batch", s.held.batch},
                                                            {"rows", s.held.rows},
                                                            {"rows, last layer", s.held.late_rows},
                                                            {"keys", s.held.keys},
                                                            {"K/V bytes", s.held.kv_bytes},
                                                            {"masked left", s.held.masked},
                                                            {"committed", s.held.committed}};
    for (const auto& [name, value] : numbers) {
      write_counter(out, name, at, static_cast<double>(value));
    }
  }
}

bool is_forward(profile_phase phase) {
  return phase == profile_phase::prefill || phase == profile_phase::denoise ||
         phase == profile_phase::commit_forward || phase == profile_phase::mixed_forward;
}

// One flow a request: from forward to forward in which it took part. An arrow binds to the slice
// that encloses its time on that thread, so it is set into the middle of the forward.
void write_flows(std::ostream& out, const std::vector<phase_event>& events,
                 const std::vector<step_event>& steps) {
  const auto forwards = some_of(events, is_forward);
  std::map<std::int64_t, std::vector<std::int64_t>> times;  // by request
  for (const step_event& s : steps) {
    const auto after = std::ranges::upper_bound(forwards, s.at, {}, &phase_event::end);
    if (after == forwards.begin()) continue;
    const phase_event& forward = *std::prev(after);
    for (const std::int64_t r : s.held.requests) {
      times[r].push_back(forward.begin + (forward.end - forward.begin) / 2);
    }
  }
  for (const auto& [request, at] : times) {
    if (at.size() < 2) continue;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const char* kind = i == 0 ? "s" : i + 1 == at.size() ? "f" : "t";
      out << ",\n{\"ph\":\"" << kind << "\",\"pid\":1,\"tid\":1,\"id\":" << request
          << ",\"name\":\"request " << request
          << "\",\"cat\":\"request\",\"ts\":" << microseconds(at[i])
          << (i == 0 ? "" : ",\"bp\":\"e\"") << "}";
    }
  }
}

}  // namespace

phase_clock::phase_clock(std::size_t most_events)
    : start_(steady_nanoseconds()), most_events_(most_events), totals_(profile_phases) {
  for (std::size_t i = 0; i < profile_phases; ++i) {
    totals_[i].phase = static_cast<profile_phase>(i);
    totals_[i].bytes_known = true;
  }
  open_.reserve(16);
}

std::int64_t phase_clock::now() const {
  return steady_nanoseconds() - start_;
}

void phase_clock::enter(profile_phase phase, std::int64_t payload) {
  open_.push_back({phase, payload, now(), 0});
}

void phase_clock::leave(profile_phase phase) {
  const std::int64_t end = now();
  if (open_.empty() || open_.back().phase != phase) {
    throw std::logic_error("phase_clock: " + std::string(name_of(phase)) +
                           " ends but is not the innermost phase");
  }
  const open_range range = open_.back();
  open_.pop_back();
  const std::int64_t taken = end - range.begin;
  phase_total& total = totals_[static_cast<std::size_t>(phase)];
  ++total.calls;
  total.seconds += static_cast<double>(taken) * 1e-9;
  total.own_seconds += static_cast<double>(taken - range.inside) * 1e-9;
  if (open_.empty()) {
    outermost_ += static_cast<double>(taken) * 1e-9;
  } else {
    open_.back().inside += taken;
  }
  if (events_.size() < most_events_) {
    events_.push_back({phase, range.payload, range.begin, end});
  } else {
    ++left_out_;
  }
}

void phase_clock::work(profile_phase phase, const phase_work& done) {
  phase_total& total = totals_[static_cast<std::size_t>(phase)];
  total.rows += done.rows;
  total.flops += done.flops;
  total.bytes += done.bytes.value_or(0);
  total.bytes_known = total.bytes_known && done.bytes.has_value();
}

void phase_clock::step(const step_numbers& held) {
  if (steps_.size() < most_events_) steps_.push_back({now(), held});
}

std::vector<phase_total> phase_clock::totals() const {
  std::vector<phase_total> some;
  for (phase_total total : totals_) {
    if (total.calls == 0 && total.rows == 0 && total.flops == 0 && total.bytes == 0) continue;
    if (total.bytes == 0) total.bytes_known = false;
    some.push_back(total);
  }
  return some;
}

void write_chrome_trace(std::ostream& out, const std::string& title,
                        const std::vector<phase_event>& events,
                        const std::vector<device_slice>& slices,
                        const std::vector<step_event>& steps,
                        const std::vector<trace_samples>& samples) {
  const auto meta = [&](std::uint64_t process, const std::string& thread, const char* what,
                        const std::string& name) {
    out << ",\n{\"ph\":\"M\",\"pid\":" << process << thread << ",\"name\":\"" << what
        << "\",\"args\":{\"name\":" << quoted(name) << "}}";
  };
  const auto thread = [](std::uint64_t id) { return ",\"tid\":" + std::to_string(id); };
  out << "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"title\":" << quoted(title)
      << "},\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":"
      << "{\"name\":\"unmask (CPU)\"}}";
  meta(1, thread(1), "thread_name", "step loop");
  std::set<std::uint32_t> devices;
  std::set<std::pair<std::uint32_t, std::uint32_t>> streams;
  for (const device_slice& s : slices) {
    devices.insert(s.device);
    streams.insert({s.device, s.stream});
  }
  for (const std::uint32_t d : devices) meta(2 + d, "", "process_name", "GPU " + std::to_string(d));
  for (const auto& [device, stream] : streams) {
    meta(2 + device, thread(stream), "thread_name", "stream " + std::to_string(stream));
  }
  // Perfetto nests complete events of one thread by time; of two that begin together the longer
  // one must come first.
  std::vector<phase_event> sorted = events;
  std::stable_sort(sorted.begin(), sorted.end(), [](const phase_event& a, const phase_event& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  for (const phase_event& e : sorted) {
    out << ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"name\":\"" << name_of(e.phase) << "\",\"cat\":\""
        << name_of(category_of(e.phase)) << "\",\"ts\":" << microseconds(e.begin)
        << ",\"dur\":" << microseconds(e.end - e.begin) << ",\"args\":{\"payload\":" << e.payload
        << "}}";
  }
  for (const device_slice& s : slices) {
    out << ",\n{\"ph\":\"X\",\"pid\":" << 2 + s.device << ",\"tid\":" << s.stream
        << ",\"name\":" << quoted(s.name) << ",\"cat\":\"kernel\",\"ts\":" << microseconds(s.begin)
        << ",\"dur\":" << microseconds(s.end - s.begin) << ",\"args\":{\"phase\":\""
        << (s.attributed ? name_of(s.phase) : "unattributed") << "\"}}";
  }
  write_counters(out, events, steps);
  write_flows(out, events, steps);
  for (const trace_samples& s : samples) {
    for (const auto& [at, value] : s.values) write_counter(out, s.name, at, value);
  }
  out << "\n]}\n";
}

}  // namespace unmask
