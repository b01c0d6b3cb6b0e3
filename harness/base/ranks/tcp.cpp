// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Moves over TCP, behind the joining (tcp_join.cpp).
#include "harness/base/ranks/tcp.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include <poll.h>
#include <unistd.h>

#include "harness/base/ranks/tcp_transport.h"
#include "harness/base/ranks/words.h"

namespace unmask {
namespace {

// What rank 0 and the others have in common.
class tcp_transport : public rank_transport {
 public:
  tcp_transport(int rank, int ranks, std::vector<tcp_connection> connections)
      : rank_transport(rank, ranks), connections_(std::move(connections)) {}

  std::string name() const override { return "TCP"; }
  int process(int rank) const override {
    if (rank == this->rank()) return static_cast<int>(::getpid());
    for (const tcp_connection& c : connections_) {
      if (c.peer().rank == rank) return c.peer().process;
    }
    return 0;
  }
  void count_on_device(std::uint64_t moves) override { on_device_ = moves; }
  std::string failure() const override { return failure_; }
  void fail(const std::string& words) override {
    if (!failure_.empty()) return;
    failure_ = words.substr(0, longest_words);
    for (tcp_connection& c : connections_) c.send_failure(failure_);
  }
  void listen() override {
    for (tcp_connection& c : connections_) c.go_on();
    std::vector<pollfd> all = to_wait_for();
    if (::poll(all.data(), all.size(), 0) > 0) look_at(all);
    judge();
    if (seconds_now() - told_at_ < seconds_between_words) return;
    told_at_ = seconds_now();
    for (tcp_connection& c : connections_) tell(c);
  }

 protected:
  static constexpr double seconds_between_words = 0.25;

  // That this rank waits.
  virtual void tell(tcp_connection& to) = 0;
  std::uint64_t own_on_device() const { return on_device_; }
  std::size_t bytes_of_others(const rank_stretch& s) const {
    return (s.end - s.first) * static_cast<std::size_t>(ranks() - 1);
  }
  std::vector<tcp_connection>& connections() { return connections_; }
  const std::vector<tcp_connection>& connections() const { return connections_; }
  std::uint64_t begin_move() {
    ++moves_;
    judge();
    return moves_;
  }
  tcp_frames::head head_of(tcp_frames::kind what, std::size_t bytes) const {
    return {what, static_cast<std::uint32_t>(bytes), moves_, on_device_};
  }

  // Until `is_done` of every connection. Several times a second: those that are done hear that this rank waits,
  // if they wait too, and `check` judges.
  template <class Done>
  void wait_until(const Done& is_done, bool others_wait, const waiting_check& check) {
    const double start = seconds_now();
    double looked = start;
    for (;;) {
      bool all_done = true;
      for (tcp_connection& c : connections_) {
        c.go_on();
        all_done = all_done && is_done(c);
      }
      if (all_done) return;
      judge();
      std::vector<pollfd> all = to_wait_for();
      if (::poll(all.data(), all.size(), static_cast<int>(seconds_of_slice * 1e3)) > 0) {
        look_at(all);
      }
      if (seconds_now() - looked < seconds_of_slice) continue;
      looked = seconds_now();
      for (tcp_connection& c : connections_) {
        if (others_wait && is_done(c)) tell(c);
      }
      check(looked - since(start), [&](int r) { return presence_of_rank(r, is_done); });
    }
  }

 private:
  // Rank 0 says now and then that it waits, and is late only if it does not.
  double since(double start) const {
    return rank() == 0 ? start : std::max(start, connections_.front().heard_at());
  }
  template <class Done>
  rank_presence presence_of_rank(int r, const Done& is_done) const {
    if (r == rank()) return rank_presence::there;
    for (const tcp_connection& c : connections_) {
      if (c.peer().rank == r) return is_done(c) ? rank_presence::there : rank_presence::absent;
    }
    return rank_presence::unknown;
  }
  std::vector<pollfd> to_wait_for() const {
    std::vector<pollfd> all;
    for (const tcp_connection& c : connections_) {
      all.push_back({c.socket().get(), c.events(), 0});
    }
    return all;
  }
  void look_at(const std::vector<pollfd>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) connections_[i].look_at(all[i].revents);
  }
  // Throws if a rank has failed or has ended: its own words first.
  void judge() {
    if (!failure_.empty()) throw rank_failure(failure_);
    for (const tcp_connection& c : connections_) {
      if (!c.failure().empty()) give_up(c.failure());
    }
    for (const tcp_connection& c : connections_) {
      if (!c.problem().empty()) give_up(c.problem());
    }
  }

  std::vector<tcp_connection> connections_;
  std::uint64_t moves_ = 0, on_device_ = 0;
  double told_at_ = 0;
  std::string failure_;
};

class tcp_rank_0 final : public tcp_transport {
 public:
  tcp_rank_0(int ranks, std::vector<tcp_connection> others, int machines)
      : tcp_transport(0, ranks, std::move(others)), machines_(machines) {}

  int machines() const override { return machines_; }
  std::uint64_t on_device(int rank) const override {
    if (rank == 0) return own_on_device();
    return connections()[static_cast<std::size_t>(rank - 1)].on_device(rank);
  }

  void deal(const void* mine, std::size_t bytes, const stretch_of_rank& of, void* all,
            std::size_t apart, const waiting_check& check) override {
    // What comes to others alone needs room of its own.
    const rank_stretch own = of(0);
    const bool whole = own.first == 0 && own.end == bytes;
    std::vector<char> room(whole ? 0 : bytes * static_cast<std::size_t>(ranks()));
    char* parts = whole ? static_cast<char*>(all) : room.data();
    const auto part_of = [&](int r) {
      return parts + static_cast<std::size_t>(r) * (whole ? apart : bytes);
    };
    collect(bytes, part_of, check);
    std::memmove(part_of(0), mine, bytes);
    for (tcp_connection& c : connections()) {
      const rank_stretch to = of(c.peer().rank);
      tcp_bytes sent;
      for (int r = 0; r < ranks(); ++r) {
        if (r != c.peer().rank) {
          sent.add(static_cast<const void*>(part_of(r) + to.first), to.end - to.first);
        }
      }
      c.send(head_of(tcp_frames::kind::all, bytes_of_others(to)), sent);
    }
    for (int r = 0; r < ranks() && !whole; ++r) {
      std::copy_n(part_of(r) + own.first, own.end - own.first,
                  static_cast<char*>(all) + static_cast<std::size_t>(r) * apart);
    }
    hand_out(check);
  }

  void from_first(void* bytes, std::size_t count, const waiting_check& check) override {
    collect(
        0, [&](int) { return static_cast<char*>(bytes); }, check);
    for (tcp_connection& c : connections()) {
      tcp_bytes all;
      all.add(static_cast<const void*>(bytes), count);
      c.send(head_of(tcp_frames::kind::all, count), all);
    }
    hand_out(check);
  }

 private:
  template <class Place>
  void collect(std::size_t bytes, const Place& place, const waiting_check& check) {
    const std::uint64_t move = begin_move();
    for (tcp_connection& c : connections()) {
      tcp_bytes part;
      part.add(static_cast<void*>(place(c.peer().rank)), bytes);
      c.expect(tcp_frames::kind::part, move, bytes, part);
    }
    wait_until([](const tcp_connection& c) { return !c.expects(); }, true, check);
  }
  void hand_out(const waiting_check& check) {
    wait_until([](const tcp_connection& c) { return !c.sends(); }, false, check);
  }
  void tell(tcp_connection& to) override {
    tcp_frames::moves_of_all all{};
    for (int r = 0; r < ranks(); ++r) all[static_cast<std::size_t>(r)] = on_device(r);
    to.send_status(own_on_device(), &all);
  }

  int machines_;
};

class tcp_rank final : public tcp_transport {
 public:
  tcp_rank(int rank, int ranks, std::vector<tcp_connection> to_first)
      : tcp_transport(rank, ranks, std::move(to_first)) {}

  std::uint64_t on_device(int rank) const override {
    return rank == this->rank() ? own_on_device() : connections().front().on_device(rank);
  }

  void deal(const void* mine, std::size_t bytes, const stretch_of_rank& of, void* all,
            std::size_t apart, const waiting_check& check) override {
    const rank_stretch own = of(rank());
    const std::size_t length = own.end - own.first;
    tcp_bytes part, parts;
    part.add(mine, bytes);
    for (int r = 0; r < ranks(); ++r) {
      char* place = static_cast<char*>(all) + static_cast<std::size_t>(r) * apart;
      if (r == rank()) {
        std::memmove(place, static_cast<const char*>(mine) + own.first, length);
      } else {
        parts.add(static_cast<void*>(place), length);
      }
    }
    answer(bytes, part, bytes_of_others(own), parts, check);
  }

  void from_first(void* bytes, std::size_t count, const waiting_check& check) override {
    tcp_bytes all;
    all.add(bytes, count);
    answer(0, {}, count, all, check);
  }

 private:
  void answer(std::size_t bytes, const tcp_bytes& part, std::size_t of_all, const tcp_bytes& all,
              const waiting_check& check) {
    const std::uint64_t move = begin_move();
    tcp_connection& first = connections().front();
    first.expect(tcp_frames::kind::all, move, of_all, all);
    first.send(head_of(tcp_frames::kind::part, bytes), part);
    wait_until([](const tcp_connection& c) { return !c.sends() && !c.expects(); }, false, check);
  }
  void tell(tcp_connection& to) override { to.send_status(own_on_device(), nullptr); }
};

}  // namespace

std::unique_ptr<rank_transport> tcp_transport_of_rank_0(std::vector<tcp_connection> others,
                                                        const std::string& machine) {
  std::ranges::sort(others, {}, [](const tcp_connection& c) { return c.peer().rank; });
  std::set<std::string> machines = {machine};
  for (const tcp_connection& c : others) machines.insert(c.peer().machine);
  const int ranks = static_cast<int>(others.size()) + 1;
  return std::make_unique<tcp_rank_0>(ranks, std::move(others), static_cast<int>(machines.size()));
}

std::unique_ptr<rank_transport> tcp_transport_of_rank(int rank, int ranks,
                                                      tcp_connection to_first) {
  std::vector<tcp_connection> one;
  one.push_back(std::move(to_first));
  return std::make_unique<tcp_rank>(rank, ranks, std::move(one));
}

}  // namespace unmask
