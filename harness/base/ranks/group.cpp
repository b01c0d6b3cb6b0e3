// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/ranks/group.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <utility>
#include <vector>

#include "harness/base/ranks/memory.h"
#include "harness/base/ranks/telling.h"
#include "harness/base/ranks/words.h"

namespace unmask {
namespace {

std::string number_list(const std::vector<int>& ranks) {
  std::string all;
  for (const int r : ranks) all += (all.empty() ? "" : ", ") + std::to_string(r);
  return (ranks.size() == 1 ? "rank " : "ranks ") + all;
}

thread_local rank_group* in_force = nullptr;

double seconds_of(const char* variable, double otherwise) {
  const char* given = std::getenv(variable);
  if (given == nullptr || *given == '\0') return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(given, &end);
  if (*end != '\0' || !(seconds >= 0) || seconds > 1e9) {
    throw usage_error(std::string(variable) + " is '" + given +
                      "' but must be a number of seconds from 0 (for ever) on");
  }
  return seconds;
}

}  // namespace

double ranks_patience() {
  return seconds_of(patience_variable, 60);
}
double ranks_loading_patience() {
  return seconds_of(loading_patience_variable, 600);
}

std::string machine_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

rank_group::rank_group(std::unique_ptr<rank_transport> transport)
    : transport_(std::move(transport)), patience_(ranks_patience()) {}

rank_group::rank_group(std::shared_ptr<rank_memory> memory, int rank)
    : rank_group(transport_by_memory(std::move(memory), rank)) {}

rank_group::~rank_group() = default;

// ---- waiting ----

waiting_check rank_group::check_of_moves() {
  return [this](double waited, const presence_of& of) { look_for(waited, of, "answer", "a move"); };
}

void rank_group::look_for(double waited, const presence_of& of, const std::string& what,
                          const std::string& move) {
  if (const std::string words = failure(); !words.empty()) throw rank_failure(words);
  for (int r = 0; ended_ && r < size(); ++r) {
    if (const std::string why = r == rank() ? "" : ended_(r); !why.empty()) give_up(why);
  }
  if (patience_ <= 0 || waited < patience_) return;
  std::vector<int> silent, waiting;
  for (int r = 0; r < size(); ++r) {
    const rank_presence is = of(r);
    if (is == rank_presence::absent) silent.push_back(r);
    if (is == rank_presence::there) waiting.push_back(r);
  }
  const std::string within = " within " + short_text(patience_) + " s";
  const std::string how = std::string(" (") + patience_set_by_ + " sets the seconds)";
  if (silent.empty()) {
    const bool all = waiting.size() == static_cast<std::size_t>(size());
    give_up(move + " did not end" + within + (all ? ", to which all ranks have come" : "") + how);
  }
  give_up(number_list(silent) + " did not " + what + within + " while " + number_list(waiting) +
          " waited" + how);
}

void rank_group::count_on_device(std::uint64_t calls, std::uint64_t bytes) {
  moves_on_device_ += calls;
  transport_->count_on_device(moves_on_device_);
  received_ += bytes;
  traffic_.calls += calls;
  traffic_.bytes += bytes;
}

void rank_group::look_around(double waited, const std::string& named) {
  const std::string move =
      named.empty() ? "move " + std::to_string(moves_on_device_) + " of the devices" : named;
  transport_->listen();
  look_for(
      waited,
      [&](int r) {
        return transport_->on_device(r) >= moves_on_device_ ? rank_presence::there
                                                            : rank_presence::absent;
      },
      "come to " + move, move);
}

// ---- moves ----

void rank_group::gather(const void* mine, std::size_t bytes, void* all) {
  counted_exchange(
      mine, bytes, bytes,
      [bytes](int) {
        return rank_stretch{0, bytes};
      },
      all);
}

void rank_group::deal(const void* mine, std::size_t bytes, std::size_t stretch, void* all) {
  const auto part_of = [bytes, stretch](int r) {
    const std::size_t first = std::min(bytes, static_cast<std::size_t>(r) * stretch);
    return rank_stretch{first, std::min(bytes, first + stretch)};
  };
  counted_exchange(mine, bytes, stretch, part_of, all);
}

void rank_group::counted_exchange(const void* mine, std::size_t bytes, std::size_t apart,
                                  const stretch_of_rank& of, void* all) {
  const rank_stretch own = of(rank());
  const std::uint64_t others = (own.end - own.first) * static_cast<std::size_t>(size() - 1);
  const telling heard(*this, others);
  const double start = seconds_now();
  exchange(mine, bytes, apart, of, all);
  ++traffic_.calls;
  traffic_.bytes += others;
  traffic_.seconds += seconds_now() - start;
}

void rank_group::exchange(const void* mine, std::size_t bytes, void* all) {
  exchange(
      mine, bytes, bytes,
      [bytes](int) {
        return rank_stretch{0, bytes};
      },
      all);
}

void rank_group::exchange(const void* mine, std::size_t bytes, std::size_t apart,
                          const stretch_of_rank& of, void* all) {
  const rank_stretch own = of(rank());
  received_ += (own.end - own.first) * static_cast<std::size_t>(size() - 1);
  for (std::size_t at = 0; at < bytes; at += rank_transport::largest_move) {
    const std::size_t n = std::min(rank_transport::largest_move, bytes - at);
    const auto in_move = [&](int r) {
      const rank_stretch whole = of(r);
      return rank_stretch{std::clamp(whole.first, at, at + n) - at,
                          std::clamp(whole.end, at, at + n) - at};
    };
    ++moves_;
    const std::size_t before = at + in_move(rank()).first - own.first;  // of its stretch
    const bool comes = own.first < at + n && own.end > at;
    transport_->deal(static_cast<const char*>(mine) + at, n, in_move,
                     static_cast<char*>(all) + (comes ? before : 0), apart, check_of_moves());
  }
}

// What another rank says of its length is no reason to take that much memory.
void rank_group::refuse_large_text(int rank, std::uint64_t bytes) {
  if (bytes <= largest_text) return;
  give_up("rank " + std::to_string(rank) + " has a text of " + std::to_string(bytes) +
          " bytes for the others: at most " + std::to_string(largest_text) + " can be sent");
}

std::vector<std::string> rank_group::gather(const std::string& text) {
  const auto ranks = static_cast<std::size_t>(size());
  const std::uint64_t length = text.size();
  std::vector<std::uint64_t> lengths(ranks);
  exchange(&length, sizeof length, lengths.data());
  for (std::size_t r = 0; r < ranks; ++r) refuse_large_text(static_cast<int>(r), lengths[r]);
  const std::size_t room = *std::max_element(lengths.begin(), lengths.end());
  std::string mine = text, all(ranks * room, '\0');
  mine.resize(room);
  exchange(mine.data(), room, all.data());
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks; ++r) texts.push_back(all.substr(r * room, lengths[r]));
  return texts;
}

int rank_group::first_other(std::uint64_t mine) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size()));
  exchange(&mine, sizeof mine, all.data());
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] != all[0]) return static_cast<int>(r);
  }
  return 0;
}

void rank_group::from_first(void* bytes, std::size_t count) {
  for (std::size_t at = 0; at < count; at += rank_transport::largest_move) {
    ++moves_;
    transport_->from_first(static_cast<char*>(bytes) + at,
                           std::min(rank_transport::largest_move, count - at), check_of_moves());
  }
}

double rank_group::from_first(double value) {
  from_first(&value, sizeof value);
  return value;
}

std::string rank_group::from_first(const std::string& text) {
  std::uint64_t length = text.size();
  from_first(&length, sizeof length);
  refuse_large_text(0, length);
  std::string all = rank() == 0 ? text : std::string(length, '\0');
  from_first(all.data(), all.size());
  return all;
}

// ---- in force ----

rank_group* current_ranks() {
  return in_force;
}

ranks_in_force::ranks_in_force(rank_group* group) : before_(in_force) {
  in_force = group;
}
ranks_in_force::~ranks_in_force() {
  in_force = before_;
}

}  // namespace unmask
