// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How ranks of several machines find each other: rank 0 listens, the others connect, and each proves that it
// has the key of the job.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <iterator>
#include <list>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/ranks/group.h"
#include "harness/base/ranks/tcp.h"
#include "harness/base/ranks/tcp_connection.h"
#include "harness/base/ranks/tcp_transport.h"
#include "harness/base/ranks/words.h"

namespace unmask {
namespace {

constexpr double seconds_to_greet = 10;     // of who has connected
constexpr double seconds_of_attempt = 10;   // to connect to one address
constexpr std::size_t most_strangers = 80;  // who have not said yet who they are
constexpr int milliseconds_of_slice = static_cast<int>(seconds_of_slice * 1e3);

std::string place_text(const std::string& name, const tcp_address& at, int port) {
  const std::string number = at.number();
  return name + (number == name ? "" : " (" + number + ")") + ", port " + std::to_string(port);
}

std::string patience_text(double patience) {
  return " within " + short_text(patience) + " s (" + patience_variable + " sets the seconds)";
}

tcp_frames::code random_code() {
  tcp_frames::code code;
  if (::getrandom(code.data(), code.size(), 0) != static_cast<ssize_t>(code.size())) {
    throw environment_error(std::string("ranks: the system gives no random numbers: ") +
                            std::strerror(errno));
  }
  return code;
}

// Takes as long for every wrong one.
bool same_code(const tcp_frames::code& a, const tcp_frames::code& b) {
  unsigned differs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differs |= static_cast<unsigned>(a[i] ^ b[i]);
  return differs == 0;
}

tcp_socket new_socket(const tcp_address& at) {
  return tcp_socket(::socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

const sockaddr* address_in(const tcp_address& at) {
  return reinterpret_cast<const sockaddr*>(&at.where);
}

// The end of a connection that the system chose.
tcp_address own_end(const tcp_socket& of) {
  tcp_address at;
  at.size = sizeof at.where;
  (void)::getsockname(of.get(), reinterpret_cast<sockaddr*>(&at.where), &at.size);
  return at;
}

int port_in(const tcp_address& at) {
  if (at.family() == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &at.where, sizeof in);
    return ntohs(in.sin_port);
  }
  sockaddr_in6 in{};
  std::memcpy(&in, &at.where, sizeof in);
  return ntohs(in.sin6_port);
}

}  // namespace

tcp_listener::tcp_listener(const std::string& address, int port) {
  std::string problem;
  const std::vector<tcp_address> all = addresses_of(address, port, problem);
  if (all.empty()) {
    throw environment_error("ranks: MASTER_ADDR is '" + address +
                            "', which this machine does not find: " + problem);
  }
  int reason = 0;
  for (const tcp_address& at : all) {
    place_ = place_text(address, at, port);
    loopback_ = at.is_loopback();
    tcp_socket one = new_socket(at);
    const int yes = 1;  // a port on which an earlier run has just ended is free
    if (one && ::setsockopt(one.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        ::bind(one.get(), address_in(at), at.size) == 0 && ::listen(one.get(), most_ranks) == 0) {
      port_ = port_in(own_end(one));
      place_ = place_text(address, at, port_);
      socket_ = std::move(one);
      return;
    }
    reason = errno;
  }
  if (reason == EADDRINUSE) {
    throw environment_error("ranks: " + place_ +
                            " is in use by another program: MASTER_PORT names a free one");
  }
  if (reason == EADDRNOTAVAIL) {
    throw environment_error("ranks: " + place_ +
                            " is no address of this machine, which has rank 0: MASTER_ADDR names "
                            "one");
  }
  throw environment_error("ranks: rank 0 cannot listen at " + place_ + ": " +
                          std::strerror(reason));
}

// ---- rank 0 ----

namespace {

// Who has connected and has not joined.
struct stranger {
  explicit stranger(tcp_socket from) : socket(std::move(from)) {
    asked = {tcp_frames::magic, tcp_frames::version, 0, random_code()};
    out.add(static_cast<const void*>(&asked), sizeof asked);
    in.add(static_cast<void*>(&said), sizeof said);
  }
  stranger(const stranger&) = delete;  // bytes go to its own fields
  stranger& operator=(const stranger&) = delete;

  tcp_socket socket;
  double since = seconds_now();
  tcp_frames::challenge asked{};
  tcp_frames::greeting said{};
  tcp_bytes out, in;
};

class gathering {
 public:
  gathering(const tcp_listener& at, const tcp_job& job, double patience)
      : at_(at), job_(job), patience_(patience) {}

  std::vector<tcp_connection> all_others() {
    const double start = seconds_now();
    while (joined_.size() + 1 < static_cast<std::size_t>(job_.ranks)) {
      wait();
      for (const tcp_connection& c : joined_) {
        if (!c.failure().empty()) give_up(c.failure());
        if (!c.problem().empty()) give_up("ranks: " + c.problem());
      }
      take_new();
      for (auto one = strangers_.begin(); one != strangers_.end();) {
        one = has_spoken(*one) ? strangers_.erase(one) : std::next(one);
      }
      if (patience_ > 0 && seconds_now() - start >= patience_) give_up(late_text());
    }
    return std::move(joined_);
  }

 private:
  void wait() {
    std::vector<pollfd> all = {{at_.socket().get(), POLLIN, 0}};
    for (const stranger& s : strangers_) {
      all.push_back({s.socket.get(), static_cast<short>(s.out.done() ? POLLIN : POLLOUT), 0});
    }
    const std::size_t first = all.size();
    for (const tcp_connection& c : joined_) all.push_back({c.socket().get(), POLLRDHUP, 0});
    if (::poll(all.data(), all.size(), milliseconds_of_slice) <= 0) return;
    for (std::size_t i = 0; i < joined_.size(); ++i) joined_[i].look_at(all[first + i].revents);
  }

  void take_new() {
    for (;;) {
      tcp_socket one(::accept4(at_.socket().get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!one) return;
      if (strangers_.size() == most_strangers) strangers_.pop_front();
      strangers_.emplace_back(std::move(one));
    }
  }

  // Whether nothing more is to be heard: it has joined, was refused or has gone.
  bool has_spoken(stranger& s) {
    const tcp_bytes::result sent = s.out.send(s.socket);
    const tcp_bytes::result heard =
        sent == tcp_bytes::result::moved ? s.in.receive(s.socket) : sent;
    if (heard == tcp_bytes::result::waits) return seconds_now() - s.since > seconds_to_greet;
    if (heard == tcp_bytes::result::moved) take(s);
    return true;
  }

  void take(stranger& s) {
    const tcp_frames::greeting& g = s.said;
    if (g.magic != tcp_frames::magic) {
      ++no_ranks_;
    } else if (g.version != tcp_frames::version) {
      ++other_versions_;
      answer(s, "it runs another version of the program than rank 0");
    } else if (!same_code(g.proof, tcp_frames::proof_of(job_.key, s.asked.once, g))) {
      ++other_keys_;
      answer(s, "it has another key (UNMASK_RANKS_KEY, or the launcher's job)");
    } else if (const std::string why = conflict_with(g); !why.empty()) {
      answer(s, why);
      give_up("ranks: " + why);
    } else {
      join(s);
    }
  }

  // Who has the key and is no rank of this group: nobody else comes in its place.
  std::string conflict_with(const tcp_frames::greeting& g) const {
    const std::string rank = "rank " + std::to_string(g.rank);
    if (g.ranks != job_.ranks) {
      return rank + " is one of " + std::to_string(g.ranks) + " (" + job_.ranks_variable +
             "), and rank 0 of " + std::to_string(job_.ranks);
    }
    if (g.rank < 1 || g.rank >= job_.ranks) {
      return rank + " is none of ranks 1 to " + std::to_string(job_.ranks - 1);
    }
    for (const tcp_connection& c : joined_) {
      if (c.peer().rank != g.rank) continue;
      return c.peer().name() + " is there already, and process " + std::to_string(g.process) +
             " on " + tcp_frames::text_in(g.host) + " is the same rank";
    }
    return "";
  }

  void join(stranger& s) {
    const tcp_frames::greeting& g = s.said;
    if (!answer(s, "")) return;
    prepare_connection(s.socket);
    joined_.emplace_back(
        std::move(s.socket),
        tcp_peer{g.rank, g.process, tcp_frames::text_in(g.host), tcp_frames::text_in(g.machine)});
  }

  // Empty: it is taken. Whether all of it went.
  bool answer(stranger& s, const std::string& refusal) const {
    tcp_frames::verdict v{tcp_frames::magic, refusal.empty() ? 1U : 0U, ::getpid(), {}, {}, {}};
    tcp_frames::put_text(v.host, job_.host);
    tcp_frames::put_text(v.words, refusal);
    v.proof = tcp_frames::proof_of(job_.key, s.said.once, v);
    tcp_bytes all;
    all.add(static_cast<const void*>(&v), sizeof v);
    return all.send(s.socket) == tcp_bytes::result::moved;  // it fits: nothing else is under way
  }

  std::string late_text() const {
    std::string absent;
    for (int r = 1; r < job_.ranks; ++r) {
      const bool there =
          std::ranges::any_of(joined_, [r](const auto& c) { return c.peer().rank == r; });
      if (!there) absent += (absent.empty() ? "" : ", ") + std::to_string(r);
    }
    const bool several = absent.find(',') != std::string::npos;
    std::string all = std::string("ranks: ") + (several ? "ranks " : "rank ") + absent +
                      " did not come to rank 0 at " + at_.place() + patience_text(patience_);
    const auto add = [&](int count, const char* what) {
      if (count > 0) all += "; " + std::to_string(count) + " that came " + what;
    };
    add(no_ranks_, "spoke no language of ranks");
    add(other_versions_, "had another version of the program");
    add(other_keys_, "had another key (UNMASK_RANKS_KEY, or the launcher's job)");
    if (at_.reaches_this_machine_only()) all += "; other machines do not reach this address";
    return all;
  }

  // Those that have joined hear it.
  [[noreturn]] void give_up(const std::string& words) {
    for (tcp_connection& c : joined_) {
      c.send_failure(words.substr(0, rank_transport::longest_words));
    }
    throw environment_error(words);
  }

  const tcp_listener& at_;
  const tcp_job& job_;
  double patience_;
  std::list<stranger> strangers_;
  std::vector<tcp_connection> joined_;
  int no_ranks_ = 0, other_versions_ = 0, other_keys_ = 0;
};

}  // namespace

std::unique_ptr<rank_transport> transport_of_tcp_rank_0(tcp_listener at, const tcp_job& job,
                                                        double patience) {
  const tcp_listener open = std::move(at);  // until all have come
  return tcp_transport_of_rank_0(gathering(open, job, patience).all_others(), job.machine);
}

// ---- another rank ----

namespace {

class arrival {
 public:
  arrival(std::string address, int port, const tcp_job& job, double patience)
      : address_(std::move(address)),
        port_(port),
        job_(job),
        patience_(patience),
        place_(address_ + ", port " + std::to_string(port)) {}

  tcp_connection connection() {
    for (;;) {
      std::string problem;
      for (const tcp_address& at : addresses_of(address_, port_, problem)) {
        place_ = place_text(address_, at, port_);
        tcp_socket line = connected_to(at, problem);
        if (line) return greeted(std::move(line));
      }
      if (is_late(start_, patience_)) {
        throw environment_error("ranks: rank 0 cannot be reached at " + place_ +
                                patience_text(patience_) + ": " + problem);
      }
      const timespec pause{0, 100'000'000};
      ::nanosleep(&pause, nullptr);
    }
  }

 private:
  static bool is_late(double start, double patience) {
    return patience > 0 && seconds_now() - start >= patience;
  }
  static void wait_for(const tcp_socket& line, short what) {
    pollfd one{line.get(), what, 0};
    (void)::poll(&one, 1, milliseconds_of_slice);
  }

  // None: `problem` says why.
  tcp_socket connected_to(const tcp_address& at, std::string& problem) const {
    tcp_socket line = new_socket(at);
    if (!line) {
      problem = std::strerror(errno);
      return {};
    }
    int reason = ::connect(line.get(), address_in(at), at.size) == 0 ? 0 : errno;
    const double begun = seconds_now();
    while (reason == EINPROGRESS) {
      pollfd one{line.get(), POLLOUT, 0};
      if (::poll(&one, 1, milliseconds_of_slice) > 0) {
        socklen_t size = sizeof reason;
        if (::getsockopt(line.get(), SOL_SOCKET, SO_ERROR, &reason, &size) != 0) reason = errno;
        break;
      }
      if (is_late(begun, seconds_of_attempt) || is_late(start_, patience_)) reason = ETIMEDOUT;
    }
    // Where nobody listens, the system may connect a socket to itself.
    if (reason == 0 && port_in(own_end(line)) == port_ && own_end(line).number() == at.number()) {
      reason = ECONNREFUSED;
    }
    if (reason == 0) return line;
    problem = std::strerror(reason);
    return {};
  }

  // All of it, or what is wrong.
  void exchange(const tcp_socket& line, tcp_bytes bytes, bool out) const {
    for (;;) {
      const tcp_bytes::result how = out ? bytes.send(line) : bytes.receive(line);
      if (how == tcp_bytes::result::moved) return;
      if (how != tcp_bytes::result::waits) {
        refuse("is no rank 0 of this program: it closed the connection");
      }
      if (is_late(start_, patience_)) {
        throw environment_error("ranks: what listens at " + place_ + " did not greet rank " +
                                std::to_string(job_.rank) + patience_text(patience_));
      }
      wait_for(line, out ? POLLOUT : POLLIN);
    }
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw environment_error("ranks: what listens at " + place_ + " " + what +
                            "; MASTER_ADDR and MASTER_PORT say where rank 0 is");
  }

  tcp_connection greeted(tcp_socket line) const {
    tcp_frames::challenge asked{};
    tcp_bytes in, out, back;
    in.add(static_cast<void*>(&asked), sizeof asked);
    exchange(line, in, false);
    if (asked.magic != tcp_frames::magic) refuse("is no rank 0 of this program");
    if (asked.version != tcp_frames::version) {
      throw environment_error("ranks: rank 0 at " + place_ +
                              " runs another version of the program than rank " +
                              std::to_string(job_.rank));
    }
    tcp_frames::greeting said{tcp_frames::magic,
                              tcp_frames::version,
                              job_.rank,
                              job_.ranks,
                              ::getpid(),
                              {},
                              {},
                              random_code(),
                              {}};
    tcp_frames::put_text(said.host, job_.host);
    tcp_frames::put_text(said.machine, job_.machine);
    said.proof = tcp_frames::proof_of(job_.key, asked.once, said);
    out.add(static_cast<const void*>(&said), sizeof said);
    exchange(line, out, true);
    tcp_frames::verdict heard{};
    back.add(static_cast<void*>(&heard), sizeof heard);
    exchange(line, back, false);
    if (heard.accepted == 0) {
      throw environment_error("ranks: rank 0 at " + place_ + " refuses rank " +
                              std::to_string(job_.rank) + ": " + tcp_frames::text_in(heard.words));
    }
    if (!same_code(heard.proof, tcp_frames::proof_of(job_.key, said.once, heard))) {
      refuse("has another key than rank " + std::to_string(job_.rank));
    }
    prepare_connection(line);
    return {std::move(line), tcp_peer{0, heard.process, tcp_frames::text_in(heard.host), ""}};
  }

  std::string address_;
  int port_;
  const tcp_job& job_;
  double patience_, start_ = seconds_now();
  std::string place_;
};

}  // namespace

std::unique_ptr<rank_transport> transport_of_tcp_rank(const std::string& address, int port,
                                                      const tcp_job& job, double patience) {
  return tcp_transport_of_rank(job.rank, job.ranks,
                               arrival(address, port, job, patience).connection());
}

}  // namespace unmask
