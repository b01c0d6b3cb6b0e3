// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/engine/loop_runner.h"

#include <algorithm>

#include "harness/base/error.h"

namespace unmask {
namespace {

constexpr std::int32_t stretches = 3;
constexpr std::int32_t shortest = 8;

}  // namespace

repetition_watch::repetition_watch(std::int32_t window)
    : window_(window), alike_(static_cast<std::size_t>(window) + 1) {}

bool repetition_watch::add(std::int32_t token) {
  if (window_ == 0) return false;
  const auto n = static_cast<std::int32_t>(tokens_.size());
  for (std::int32_t b = 1; b <= std::min(window_, n); ++b) {
    const bool same = tokens_[static_cast<std::size_t>(n - b)] == token;
    std::int64_t& alike = alike_[static_cast<std::size_t>(b)];
    alike = same ? alike + 1 : 0;
  }
  tokens_.push_back(token);
  const std::int32_t longest = std::min(window_, (n + 1) / stretches);
  for (std::int32_t b = longest < shortest ? 1 : shortest; b <= longest; ++b) {
    if (alike_[static_cast<std::size_t>(b)] >= std::int64_t{stretches - 1} * b) return true;
  }
  return false;
}

std::int32_t engine_rows(const model_config& model, const pace_policy& pace,
                         const std::vector<sequence_request>& requests, std::int32_t places,
                         std::int32_t prefill_tokens, std::int32_t prefill_chunk, bool mixed) {
  const pace_shape shape = pace.shape();
  const std::int32_t block = std::max(shape.block, 1);
  // A method that may touch its whole canvas; a preempted request, whose answer became prompt.
  std::vector<std::int64_t> widest;
  for (const sequence_request& r : requests) {
    widest.push_back(std::int64_t{pace.canvas_length(model, r)} * shape.row_copies +
                     shape.more_rows);
  }
  std::ranges::sort(widest, std::greater<>());
  if (widest.size() > static_cast<std::size_t>(places)) {
    widest.resize(static_cast<std::size_t>(places));
  }
  std::int64_t all = 0, decode = 0;
  for (const std::int64_t rows : widest) {
    all += rows;
    decode += shape.ahead > 0 ? std::min<std::int64_t>(rows, block + shape.ahead) : rows;
  }
  std::int64_t prefill = all;
  if (prefill_tokens > 0 && !widest.empty()) {
    const std::int64_t one = prefill_chunk > 0 ? std::max(prefill_chunk, block) : widest.front();
    prefill = std::min(all, std::max<std::int64_t>(prefill_tokens, one));
  }
  const std::int64_t rows = mixed ? std::min(all, prefill + decode) : std::max(prefill, decode);
  return static_cast<std::int32_t>(std::max<std::int64_t>(rows, 1));
}

loop_runner::loop_runner(const transformer& model, recipe method, const loop_limits& limits,
                         request_source requests, std::int32_t prefill_chunk,
                         std::int32_t repeat_window, picture_source pictures)
    : config_(model.config()),
      max_length_(limits.max_length),
      prefill_chunk_(prefill_chunk),
      repeat_window_(repeat_window),
      loop_(model, std::move(method), limits),
      shape_(loop_.pace().shape()),
      requests_(std::move(requests)),
      pictures_(std::move(pictures)),
      places_(static_cast<std::size_t>(limits.sequences)) {
  if (prefill_chunk > 0 && !loop_.pace().limit_prefill(prefill_chunk)) {
    throw usage_error("prefill_chunk: this method takes a prompt in one forward only; set it to 0");
  }
}

std::int32_t loop_runner::padded(std::int32_t positions) const {
  const std::int32_t block = std::max(shape_.block, 1);
  return (positions + block - 1) / block * block;
}

const sequence_request& loop_runner::request_of(std::size_t request) {
  if (head_ && head_->first == request) return head_->second;
  sequence_request made = requests_(request);
  if (const auto kept = kept_.find(request); kept != kept_.end()) {
    const std::vector<std::int32_t>& tokens = kept->second.output;
    made.prompt.insert(made.prompt.end(), tokens.begin(), tokens.end());
    made.resumed = static_cast<std::int32_t>(tokens.size());
    made.gen_length -= made.resumed;
  }
  head_.emplace(request, std::move(made));
  return head_->second;
}

tensor_view loop_runner::pictures_of(std::size_t request) {
  if (!pictures_) return {};
  const auto [at, fresh] = shown_.try_emplace(request);
  if (fresh) at->second = pictures_(request);
  return at->second ? at->second.view() : tensor_view{};
}

std::int32_t loop_runner::first_rows(std::size_t request) {
  const std::int32_t rows = padded(static_cast<std::int32_t>(request_of(request).prompt.size()));
  return prefill_chunk_ > 0 ? std::min(rows, prefill_chunk_) : rows;
}

std::int32_t loop_runner::admit(std::size_t request, bool grow) {
  const sequence_request& r = request_of(request);
  if (loop_.length_of(r) > max_length_ || !loop_.fits(r)) {
    forget(request);
    return never_fits;
  }
  const std::int32_t prompt = padded(static_cast<std::int32_t>(r.prompt.size()));
  const bool piecemeal = grow && shape_.ahead > 0;
  const std::int32_t place =
      loop_.admit(r, piecemeal ? prompt + kv_page_size : 0, pictures_of(request));
  if (place < 0) return no_room;
  const auto end = static_cast<std::int32_t>(r.prompt.size());
  repetition_watch watch(repeat_window_);
  for (std::int32_t i = end - r.resumed; i < end; ++i) {
    watch.add(r.prompt[static_cast<std::size_t>(i)]);
  }
  places_[static_cast<std::size_t>(place)] = {request, r.resumed,        end,
                                              prompt,  std::move(watch), end};
  head_.reset();
  return place;
}

bool loop_runner::prefilling(std::int32_t place) const {
  return loop_.pace().prefilling(loop_.state(), place);
}

std::int32_t loop_runner::prefill_rows(std::int32_t place) const {
  return loop_.pace().prefill_rows(loop_.state(), place);
}

bool loop_runner::reserve(std::int32_t place, std::int32_t forwards) {
  if (shape_.ahead == 0) return true;  // it has all its pages
  // A block that is decided in one forward and committed in the next opens a new one every second.
  const std::int32_t blocks = shape_.commits ? (forwards + 1) / 2 : forwards;
  return loop_.reserve(place,
                       places_[static_cast<std::size_t>(place)].used + blocks * shape_.ahead);
}

bool loop_runner::complete_blocks(std::int32_t place) {
  place_state& p = places_[static_cast<std::size_t>(place)];
  const std::int32_t before = p.complete, block = shape_.block;
  const std::int32_t length = loop_.state().at(place).length;
  while (block > 0 && p.complete < length) {
    const std::int32_t end = std::min((p.complete / block + 1) * block, length);
    if (!loop_.pace().closed(loop_.state(), place, p.complete, end)) break;
    p.complete = end;
  }
  return p.complete > before;
}

std::int32_t loop_runner::answer_end(std::int32_t place) const {
  const place_state& p = places_[static_cast<std::size_t>(place)];
  const sequence& q = loop_.state().at(place);
  if (p.repeats >= 0) return p.repeats;
  if (q.finished) return q.output_end;
  return std::min(p.complete, q.prompt_length + q.request.gen_length);
}

void loop_runner::watch_repetition(std::int32_t place) {
  place_state& p = places_[static_cast<std::size_t>(place)];
  const std::int32_t end = answer_end(place);
  if (repeat_window_ == 0 || p.repeats >= 0 || end <= p.watched) return;
  for (const std::int32_t token : loop_.state().tokens(place, p.watched, end)) {
    ++p.watched;
    if (!p.watch.add(token)) continue;
    p.repeats = p.watched;
    return;
  }
}

void loop_runner::forward(std::span<const schedule_action> parts, std::span<place_progress> out) {
  if (!loop_.step(parts.data())) throw std::logic_error("engine: an empty forward");
  for (std::int32_t s = 0; s < places(); ++s) {
    if (parts[static_cast<std::size_t>(s)] == schedule_action::out) continue;
    const sequence_step& step = loop_.plan().of[static_cast<std::size_t>(s)];
    const sequence& q = loop_.state().at(s);
    place_state& p = places_[static_cast<std::size_t>(s)];
    place_progress& o = out[static_cast<std::size_t>(s)];
    o.what = step.what;
    o.rows = loop_.rows_entered(s);
    o.candidates = loop_.candidates(s);
    o.committed = loop_.outcome(s).taken - loop_.outcome(s).reopened;
    o.context = step.kv_length;
    p.used = std::max({p.used, step.last, step.kv_length});
    o.resolved = complete_blocks(s) || q.finished;
    watch_repetition(s);
    o.finished = q.finished || p.repeats >= 0;
    o.emitted = p.resumed + std::max(answer_end(s) - q.prompt_length, 0);
  }
}

finished_answer loop_runner::take(std::int32_t place) {
  const place_state& p = places_[static_cast<std::size_t>(place)];
  const sequence& q = loop_.state().at(place);
  finished_answer answer;
  if (const auto kept = kept_.find(p.request); kept != kept_.end()) answer = kept->second;
  add_counters(answer.counters, q.counters);
  const std::int32_t end = std::max(answer_end(place), q.prompt_length);
  const auto more = loop_.state().tokens(place, q.prompt_length, end);
  answer.repeats = p.repeats >= 0;
  answer.output.insert(answer.output.end(), more.begin(), more.end());
  return answer;
}

finished_answer loop_runner::forget(std::size_t request) {
  shown_.erase(request);
  const auto node = kept_.extract(request);
  return node.empty() ? finished_answer{} : std::move(node.mapped());
}

void loop_runner::release(std::int32_t place) {
  forget(places_[static_cast<std::size_t>(place)].request);
  loop_.release(place);
}

void loop_runner::preempt(std::int32_t place, bool keep) {
  const std::size_t request = places_[static_cast<std::size_t>(place)].request;
  finished_answer answer = take(place);
  if (!keep) answer.output.clear();
  // The work was done all the same, but tokens that are thrown away were not decided for good.
  sequence_counters& c = answer.counters;
  c.committed = static_cast<std::int64_t>(answer.output.size());
  c.decided_early = std::min(c.decided_early, c.committed);
  loop_.release(place);
  kept_[request] = std::move(answer);
  if (head_ && head_->first == request) head_.reset();
}

}  // namespace unmask
