// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/engine/trajectory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/decode/imposed.h"
#include "kernels/decisions.h"
#include "kernels/random.h"

namespace unmask {
namespace {

constexpr std::int32_t unknown_step = std::numeric_limits<std::int32_t>::max() / 2;

constexpr std::int32_t longest_answer = 1 << 24;  // beyond it a file is not read
constexpr const char* kind_names[] = {"keep", "take", "replace", "reopen", "hold"};

// The trajectory of the request in each place, looked up when it takes the place.
class held_trajectories {
 public:
  explicit held_trajectories(trajectory_source source) : source_(std::move(source)) {}

  const trajectory& of(const batch& b, std::int32_t s) {
    held_.resize(static_cast<std::size_t>(b.capacity()));
    entry& h = held_[static_cast<std::size_t>(s)];
    const std::int64_t id = b.at(s).request.id;
    if (h.id != id) {
      h = {id, source_(id)};
      h.step = h.what.steps();
      h.token = h.what.tokens();
    }
    return h.what;
  }
  // Generated position of a position of the sequence.
  static std::int32_t generated(const batch& b, std::int32_t s, std::int32_t position) {
    const sequence& q = b.at(s);
    return position - (q.prompt_length - q.request.resumed);
  }
  // The step that decides it; unknown ones come last, from the left.
  std::int32_t step_of(const batch& b, std::int32_t s, std::int32_t position) {
    const std::int32_t at = generated(b, s, position);
    const std::int32_t step = value(entry_of(b, s).step, at);
    return step >= 0 ? step : unknown_step + at;
  }
  // The last token that it gets; -1: none.
  std::int32_t token_of(const batch& b, std::int32_t s, std::int32_t position) {
    return value(entry_of(b, s).token, generated(b, s, position));
  }

 private:
  struct entry {
    std::int64_t id = -1;
    trajectory what;
    std::vector<std::int32_t> step, token;  // by position, for good
  };
  const entry& entry_of(const batch& b, std::int32_t s) {
    of(b, s);
    return held_[static_cast<std::size_t>(s)];
  }
  static std::int32_t value(const std::vector<std::int32_t>& of, std::int32_t at) {
    return at >= 0 && static_cast<std::size_t>(at) < of.size() ? of[static_cast<std::size_t>(at)]
                                                               : -1;
  }
  trajectory_source source_;
  std::vector<entry> held_;
};

// Whose tokens are decided, and whether the recipe's own policy computes.
enum class stand_in : std::uint8_t {
  all,       // recorded tokens; nothing is computed
  order,     // the head's tokens
  decisions  // recorded tokens after everything was computed
};

class trajectory_unmask final : public unmask_policy {
 public:
  trajectory_unmask(std::shared_ptr<held_trajectories> held, stand_in what, std::int32_t filler,
                    std::vector<std::int32_t> refused, std::unique_ptr<unmask_policy> own)
      : held_(std::move(held)),
        what_(what),
        filler_(filler),
        refused_(std::move(refused)),
        own_(std::move(own)) {}

  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    if (what_ != stand_in::all) {
      own_->judge(b, plan, head_input, head, c);
      b.backend().synchronize();
      return;  // the recipe's own rule chooses from the tokens that the head said
    }
    for_each(b, c, [&](std::int32_t s, std::int32_t i, std::int32_t position) {
      c.token.as<std::int32_t>()[i] = token_of(b, s, position, filler_);
      c.probability.as<float>()[i] = 1;
    });
  }

  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    if (what_ == stand_in::decisions) {
      own_->decide(b, plan, c);
      b.backend().synchronize();
      for_each(b, c, [&](std::int32_t s, std::int32_t i, std::int32_t position) {
        std::int32_t& token = c.token.as<std::int32_t>()[i];
        const bool ends = std::ranges::find(refused_, token) != refused_.end();
        token = token_of(b, s, position, ends ? filler_ : token);
      });
    }
    smallest_.assign(static_cast<std::size_t>(b.capacity()),
                     std::numeric_limits<std::int32_t>::max());
    for_each(b, c, [&](std::int32_t s, std::int32_t, std::int32_t position) {
      std::int32_t& least = smallest_[static_cast<std::size_t>(s)];
      least = std::min(least, held_->step_of(b, s, position));
    });
    for_each(b, c, [&](std::int32_t s, std::int32_t i, std::int32_t position) {
      c.accept.as<std::uint8_t>()[i] =
          held_->step_of(b, s, position) == smallest_[static_cast<std::size_t>(s)];
    });
    own_->learn(b, plan, c);
  }

 private:
  // visit(place, index of the candidate, its position).
  template <class Visit>
  static void for_each(const batch& b, const candidate_lists& c, const Visit& visit) {
    const std::int32_t* begin = c.begin.as<std::int32_t>();
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
        visit(s, i, c.position.as<std::int32_t>()[i]);
      }
    }
  }
  std::int32_t token_of(const batch& b, std::int32_t s, std::int32_t position,
                        std::int32_t otherwise) {
    const std::int32_t token = held_->token_of(b, s, position);
    return token >= 0 ? token : otherwise;
  }

  std::shared_ptr<held_trajectories> held_;
  stand_in what_;
  std::int32_t filler_;
  std::vector<std::int32_t> refused_;   // tokens that would end the answer, and the mask
  std::unique_ptr<unmask_policy> own_;  // of the recipe; it may learn from what is decided
  std::vector<std::int32_t> smallest_;
};

// Repeats what every forward of the same method did, its edits and second thoughts included.
class event_unmask final : public unmask_policy {
 public:
  event_unmask(std::shared_ptr<held_trajectories> held, bool computes,
               std::unique_ptr<unmask_policy> own)
      : unmask_policy(own->traits()),
        held_(std::move(held)),
        computes_(computes),
        own_(std::move(own)) {}

  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    if (computes_) own_->judge(b, plan, head_input, head, c);
  }

  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    if (computes_) own_->decide(b, plan, c);
    b.backend().synchronize();
    const std::int32_t* begin = c.begin.as<std::int32_t>();
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      if (begin[s + 1] > begin[s]) repeat(b, s, begin[s], begin[s + 1], c);
    }
    own_->learn(b, plan, c);
  }

 private:
  void repeat(const batch& b, std::int32_t s, std::int32_t first, std::int32_t last,
              candidate_lists& c) {
    const sequence& q = b.at(s);
    const trajectory& t = held_->of(b, s);
    if (!t.events.empty() && t.events.front().token < 0) {
      throw usage_error(
          "a method that edits or remasks tokens replays only its own recording: a drawn order has "
          "no tokens and no edits");
    }
    const auto [from, to] = std::ranges::equal_range(t.events, q.step, {}, &trajectory_event::step);
    std::ptrdiff_t found = 0;
    for (std::int32_t i = first; i < last; ++i) {
      const std::int32_t at = held_trajectories::generated(b, s, c.position.as<std::int32_t>()[i]);
      const auto event = std::find_if(from, to, [at](const auto& e) { return e.position == at; });
      c.accept.as<std::uint8_t>()[i] = event == to ? std::uint8_t{decision_keep} : event->what;
      if (!computes_) c.probability.as<float>()[i] = 1;
      if (event == to) continue;
      ++found;
      if (event->token >= 0) c.token.as<std::int32_t>()[i] = event->token;  // not of a reopened one
    }
    if (found == to - from && q.request.resumed == 0) return;
    throw error(exit_code::run_failed,
                "request " + std::to_string(q.request.id) + ", pass " + std::to_string(q.step) +
                    ": the recording unmasks " + std::to_string(to - from) +
                    " positions, but only " + std::to_string(found) +
                    " can be unmasked here. The recording must come from the same method and "
                    "settings, without interruptions");
  }

  std::shared_ptr<held_trajectories> held_;
  bool computes_;
  std::unique_ptr<unmask_policy> own_;
};

// Expected forwards and expected sum of squared commits until n masks are gone, for every n.
struct block_moments {
  std::vector<double> forwards, squares;
};
block_moments moments(double ratio, std::int32_t block) {
  block_moments m{std::vector<double>(static_cast<std::size_t>(block) + 1),
                  std::vector<double>(static_cast<std::size_t>(block) + 1)};
  for (std::size_t n = 1; n <= static_cast<std::size_t>(block); ++n) {
    double forwards = 1, squares = 0, left = 1;
    for (std::size_t k = 1; k <= n; ++k) {
      const double p = k == n ? left : left * (1 - ratio);
      left -= p;
      forwards += p * m.forwards[n - k];
      squares += p * (static_cast<double>(k * k) + m.squares[n - k]);
    }
    m.forwards[n] = forwards;
    m.squares[n] = squares;
  }
  return m;
}

struct step_moments {
  double mean, square;
};
step_moments of_process(double at_once, double ratio, std::int32_t block) {
  const block_moments m = moments(ratio, block);
  const auto n = static_cast<std::size_t>(block);
  const double steps = 1 + at_once + (1 - at_once) * m.forwards[n];
  const double squares = at_once * block * block + (1 - at_once) * m.squares[n];
  return {block / steps, squares / steps};
}

// The share of blocks decided at once that gives this mean; outside [0, 1]: there is none.
double share_for_mean(double mean, double ratio, std::int32_t block) {
  const double gradual = moments(ratio, block).forwards.back();
  return (gradual + 1 - block / mean) / (gradual - 1);
}

// Where a position has several rows, one of which proposes what another one verifies, the rule alone
// knows which of them decides.
void refuse_copies(const recipe& method) {
  const row_traits& rows = method.rows->traits();
  if (rows.views == 0 || rows.carries) return;
  throw usage_error(method.method +
                    " computes several rows at one position: a recorded or drawn order of "
                    "unmasking cannot be imposed on it");
}

}  // namespace

std::vector<std::int32_t> trajectory::steps() const {
  std::vector<std::int32_t> step(static_cast<std::size_t>(length), -1);
  for (const trajectory_event& e : events) {
    std::int32_t& of = step[static_cast<std::size_t>(e.position)];
    if (e.what != decision_replace) of = e.what == decision_reopen ? -1 : e.step;
  }
  return step;
}

std::vector<std::int32_t> trajectory::tokens() const {
  std::vector<std::int32_t> token(static_cast<std::size_t>(length), -1);
  for (const trajectory_event& e : events) {
    if (e.what != decision_reopen) token[static_cast<std::size_t>(e.position)] = e.token;
  }
  return token;
}

recipe with_trajectory(recipe method, trajectory_source source, std::int32_t filler) {
  refuse_copies(method);
  if (method.unmask->traits().revises()) {
    method.unmask = std::make_unique<event_unmask>(
        std::make_shared<held_trajectories>(std::move(source)), false, std::move(method.unmask));
    return method;
  }
  method.unmask = std::make_unique<trajectory_unmask>(
      std::make_shared<held_trajectories>(std::move(source)), stand_in::all, filler,
      std::vector<std::int32_t>{}, std::move(method.unmask));
  return method;
}

recipe with_order(recipe method, trajectory_source source) {
  refuse_copies(method);
  if (method.unmask->traits().revises()) {
    throw usage_error(method.method +
                      " edits or remasks tokens: an order of unmasking does not say which");
  }
  method.unmask = std::make_unique<trajectory_unmask>(
      std::make_shared<held_trajectories>(std::move(source)), stand_in::order, 0,
      std::vector<std::int32_t>{}, std::move(method.unmask));
  return method;
}

recipe with_imposed(recipe method, trajectory_source source, const model_config& model,
                    std::int32_t filler, bool ranks) {
  refuse_copies(method);
  const auto held = std::make_shared<held_trajectories>(std::move(source));
  if (method.unmask->traits().revises()) {
    method.unmask = std::make_unique<event_unmask>(held, true, std::move(method.unmask));
    return method;
  }
  std::vector<std::int32_t> refused = model.stop_ids;
  refused.push_back(model.mask_id);
  method.unmask = std::make_unique<trajectory_unmask>(held, stand_in::decisions, filler,
                                                      std::move(refused), std::move(method.unmask));
  auto* rows = dynamic_cast<ranked_by_activations*>(method.rows.get());
  if (ranks && rows != nullptr) {
    rows->rank_by([held](const batch& b, std::int32_t s, std::int32_t position) {
      return held->step_of(b, s, position);
    });
  }
  return method;
}

void trajectory_recorder::on_step(const step_view& step) {
  const std::int32_t* begin = step.candidates.begin.as<std::int32_t>();
  for (std::int32_t s = 0; s < step.state.capacity(); ++s) {
    const sequence& q = step.state.at(s);
    if (begin[s + 1] == begin[s] || q.request.id < 0) continue;
    recording& r = seen_[q.request.id];
    if (q.step <= r.last) r.before = r.what.events.back().step + 1;  // it was interrupted
    r.what.length = q.length - q.prompt_length + q.request.resumed;
    for (const decision_event& d :
         std::ranges::equal_range(step.decisions, s, {}, &decision_event::sequence)) {
      r.last = q.step;
      r.what.events.push_back(
          {r.before + q.step, d.position - q.prompt_length + q.request.resumed, d.token, d.what});
    }
  }
}

trajectory trajectory_recorder::of(std::int64_t id) const {
  const auto at = seen_.find(id);
  return at == seen_.end() ? trajectory{} : at->second.what;
}

void trajectory_recorder::save(const std::string& path) const {
  std::ostringstream out;
  for (const auto& [id, r] : seen_) {
    out << id << ' ' << r.what.length;
    for (const trajectory_event& e : r.what.events) {
      out << ' ' << e.step << ':' << e.position << ':' << e.token << ':' << kind_names[e.what];
    }
    out << '\n';
  }
  replace_file(path, out.str());
}

namespace {

// STEP:POSITION:TOKEN:KIND; nothing for anything else.
std::optional<trajectory_event> read_event(const std::string& word) {
  trajectory_event e;
  char colons[3] = {};
  std::string kind;
  std::istringstream in(word);
  in >> e.step >> colons[0] >> e.position >> colons[1] >> e.token >> colons[2] >> kind;
  const auto known = std::ranges::find(kind_names, kind);
  if (!in || std::string_view(colons, 3) != ":::" || known == std::end(kind_names)) return {};
  e.what = static_cast<std::uint8_t>(known - std::begin(kind_names));
  return e;
}

// The words of a line behind the request's id; nothing when they make no trajectory.
std::optional<trajectory> read_events(std::istringstream& words) {
  trajectory t;
  if (!(words >> t.length) || t.length < 0 || t.length > longest_answer) return {};
  for (std::string word; words >> word;) {
    const std::optional<trajectory_event> e = read_event(word);
    const std::int32_t before = t.events.empty() ? 0 : t.events.back().step;
    if (!e || e->what == decision_keep || e->step < before || e->position < 0 ||
        e->position >= t.length || e->token < -1) {
      return {};
    }
    t.events.push_back(*e);
  }
  return t;
}

}  // namespace

trajectory_source load_trajectories(const std::string& path) {
  constexpr std::size_t largest = std::size_t{1} << 30;
  std::istringstream in(read_file(path, largest));
  auto all = std::make_shared<std::map<std::int64_t, trajectory>>();
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::istringstream words(line);
    std::int64_t id = -1;
    std::optional<trajectory> t;
    if (words >> id) t = read_events(words);
    if (!t) {
      throw environment_error(path + ", line " + std::to_string(number) +
                              ": expected a request id, the length of its answer and events "
                              "STEP:POSITION:TOKEN:KIND in order of their steps");
    }
    (*all)[id] = std::move(*t);
  }
  return [all, path](std::int64_t id) {
    const auto found = all->find(id);
    if (found == all->end()) {
      throw environment_error(path + ": holds no trajectory of request " + std::to_string(id));
    }
    return found->second;
  };
}

const std::vector<commit_statistics>& published_commits() {
  static const std::vector<commit_statistics> table = [] {
    struct lengths {
      const char* name;
      double in, in_dev, out, out_dev, sdar, sdar_dev, llada2, llada2_dev;
    };
    const lengths rows[] = {{"sharegpt", 213, 508, 321, 214, 5.29, 9.44, 2.51, 4.19},
                            {"lmsys", 89, 133, 183, 163, 4.81, 8.80, 2.52, 4.84},
                            {"longbench", 4015, 2057, 116, 138, 6.06, 10.74, 1.63, 1.90},
                            {"gsm8k", 89, 22, 175, 67, 3.20, 5.68, 2.61, 4.07},
                            {"humaneval", 172, 65, 103, 62, 3.75, 5.96, 6.01, 8.51},
                            {"mbpp", 155, 77, 49, 28, 1.96, 3.33, 3.34, 4.81},
                            {"ifeval", 58, 24, 281, 264, 1.88, 3.90, 1.28, 1.74}};
    std::vector<commit_statistics> all;
    for (const lengths& r : rows) {
      const std::string name = r.name;
      all.push_back({"sdar-8b/" + name, r.sdar, r.sdar_dev, r.in, r.in_dev, r.out, r.out_dev});
      all.push_back(
          {"llada2-mini/" + name, r.llada2, r.llada2_dev, r.in, r.in_dev, r.out, r.out_dev});
    }
    return all;
  }();
  return table;
}

const commit_statistics& find_commits(const std::string& name) {
  const std::vector<std::string> known = names_in(published_commits(), &commit_statistics::name);
  return published_commits()[find_known("published commit statistics", name, known)];
}

double commit_process::mean() const {
  return of_process(at_once, ratio, block).mean;
}

double commit_process::deviation() const {
  const step_moments m = of_process(at_once, ratio, block);
  return std::sqrt(std::max(m.square - m.mean * m.mean, 0.0));
}

// For every ratio one share of blocks at once gives the mean; among those, the deviation falls with
// the ratio: fewer blocks at once are needed the faster the others go. Bisection on the ratio.
commit_process fit_commits(double mean, double deviation, std::int32_t block) {
  if (block < 2 || !(mean > 0) || !(mean < block / 2.0)) {
    throw usage_error("commit statistics: a mean of " + std::to_string(mean) +
                      " tokens per step is out of reach for blocks of " + std::to_string(block) +
                      ", whose KV write pass counts as a step");
  }
  const auto deviation_at = [&](double ratio) {
    const double share = share_for_mean(mean, ratio, block);
    return commit_process{block, share, ratio}.deviation();
  };
  // Ratios for which the share lies in [0, 1]: up to where gradual blocks alone reach the mean.
  double low = 0, high = 1 - 1e-9;
  if (share_for_mean(mean, 0, block) < 0) {
    throw usage_error("commit statistics: a mean of " + std::to_string(mean) +
                      " tokens per step is below one token per forward");
  }
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (share_for_mean(mean, middle, block) >= 0 ? low : high) = middle;
  }
  const double most = deviation_at(0), least = deviation_at(low);
  if (!(deviation <= most && deviation >= least)) {
    throw usage_error("commit statistics: with a mean of " + std::to_string(mean) +
                      " the deviation must be from " + std::to_string(least) + " to " +
                      std::to_string(most) + ", not " + std::to_string(deviation));
  }
  double left = 0, right = low;
  for (int i = 0; i < 200; ++i) {
    const double middle = (left + right) / 2;
    (deviation_at(middle) >= deviation ? left : right) = middle;
  }
  return {block, share_for_mean(mean, left, block), left};
}

namespace {

// Positions [first, end) left to right, each displaced by up to 4 places.
std::vector<std::pair<double, std::int32_t>> order_of(std::int32_t first, std::int32_t end,
                                                      std::uint64_t key) {
  std::vector<std::pair<double, std::int32_t>> order;
  for (std::int32_t p = first; p < end; ++p) {
    order.emplace_back(
        p + 4 * uniform_open(key, (std::uint64_t{1} << 32) + static_cast<std::uint64_t>(p)), p);
  }
  std::ranges::sort(order);
  return order;
}

// Steps of an answer of blocks on absolute positions: commits(left, begins) says how many of the
// `left` masks of a block its next step decides.
template <class Commits>
trajectory walk(std::int32_t block, std::int32_t prompt, std::int32_t tokens, std::uint64_t key,
                const Commits& commits) {
  trajectory t;
  t.length = tokens;
  std::int32_t step = 0;
  for (std::int32_t first = 0; first < tokens;) {
    const std::int32_t end = std::min(((prompt + first) / block + 1) * block - prompt, tokens);
    const auto order = order_of(first, end, key);
    for (std::size_t i = 0; i < order.size(); ++step) {
      const std::size_t now = commits(order.size() - i, i == 0);
      for (std::size_t n = 0; n < now; ++n, ++i) {
        t.events.push_back({step, order[i].second});
      }
    }
    first = end;
  }
  return t;
}

}  // namespace

trajectory draw_trajectory(const commit_process& process, std::int32_t prompt, std::int32_t tokens,
                           std::uint64_t key) {
  std::uint64_t draws = 0;
  bool at_once = false;
  return walk(process.block, prompt, tokens, key, [&](std::size_t left, bool begins) {
    if (begins) at_once = uniform_open(key, draws++) < process.at_once;
    if (at_once) return left;
    const double u = uniform_open(key, draws++);
    const double more = process.ratio > 0 ? std::floor(std::log(u) / std::log(process.ratio)) : 0;
    return std::min(left, 1 + static_cast<std::size_t>(std::min(more, 1e6)));
  });
}

trajectory steady_trajectory(std::int32_t block, std::int32_t commits, std::int32_t prompt,
                             std::int32_t tokens, std::uint64_t key) {
  return walk(block, prompt, tokens, key, [&](std::size_t left, bool) {
    return std::min(left, static_cast<std::size_t>(commits));
  });
}

}  // namespace unmask
