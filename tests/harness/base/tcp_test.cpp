// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ranks over TCP: how they meet, who is kept out, and which faults of a peer are found. What every transport
// does is in ranks_test.cpp.
#include "harness/base/ranks/tcp.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/base/digest.h"
#include "harness/base/ranks/group.h"
#include "harness/base/ranks/tcp_frames.h"
#include "tests/rank_threads.h"
#include "tests/support.h"

namespace unmask {
namespace {

using test::message_of;

constexpr const char* here = "127.0.0.1";
constexpr const char* patience_words = " (UNMASK_RANKS_PATIENCE sets the seconds)";

tcp_job job_of(int rank, int ranks, const std::string& key = "test") {
  return {.rank = rank, .ranks = ranks, .ranks_variable = "WORLD_SIZE", .key = key};
}
std::string at_port(int port) {
  return std::string(here) + ", port " + std::to_string(port);
}
int free_port() {
  return tcp_listener(here, 0).port();
}
void pause(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// RFC 4231, test cases 2 and 6: a key that is shorter than a block, and one that is longer.
TEST(tcp, proofs_are_those_of_the_standard) {
  const auto hex = [](const std::array<unsigned char, 32>& code) {
    std::string all;
    for (const unsigned char c : code) {
      all += "0123456789abcdef"[c >> 4];
      all += "0123456789abcdef"[c & 15];
    }
    return all;
  };
  EXPECT_EQ(hex(keyed_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(keyed_sha256(std::string(131, '\xaa'),
                             "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// ---- a peer whose every byte the test writes ----

// A connection to the address at which rank 0 listens; it blocks.
class by_hand {
 public:
  explicit by_hand(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    ::inet_pton(AF_INET, here, &to.sin_addr);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  // Of a listener: who connects first.
  explicit by_hand(const tcp_listener& at) : socket_(-1) {
    while (socket_ < 0) {
      socket_ = ::accept(at.socket().get(), nullptr, nullptr);
      if (socket_ < 0) pause(0.005);
    }
    connected_ = true;
  }
  ~by_hand() { ::close(socket_); }
  by_hand(const by_hand&) = delete;
  by_hand& operator=(const by_hand&) = delete;

  bool is_connected() const { return connected_; }
  void send(const void* bytes, std::size_t count) const {
    (void)::send(socket_, bytes, count, MSG_NOSIGNAL);
  }
  template <class Message>
  void send(const Message& message) const {
    send(&message, sizeof message);
  }
  // False: it was closed before.
  bool receive(void* bytes, std::size_t count) const {
    return ::recv(socket_, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count);
  }
  template <class Message>
  Message received() const {
    Message message{};
    receive(&message, sizeof message);
    return message;
  }
  // Until it is closed.
  void wait_for_end() const {
    char one = 0;
    while (::recv(socket_, &one, 1, 0) > 0) {
    }
  }

  // The greeting of a rank, changed by `fault` before the proof is made, or after.
  using change = std::function<void(tcp_frames::greeting&)>;
  tcp_frames::verdict greet(int rank, int ranks, const change& before = {},
                            const change& after = {}) const {
    const auto asked = received<tcp_frames::challenge>();
    tcp_frames::greeting said{};
    said.magic = tcp_frames::magic;
    said.version = tcp_frames::version;
    said.rank = rank;
    said.ranks = ranks;
    said.process = 7;
    tcp_frames::put_text(said.host, "hand");
    tcp_frames::put_text(said.machine, "another");
    if (before) before(said);
    said.proof = tcp_frames::proof_of("test", asked.once, said);
    if (after) after(said);
    send(said);
    return received<tcp_frames::verdict>();
  }
  void send_head(tcp_frames::kind what, std::uint32_t bytes, std::uint64_t move) const {
    send(tcp_frames::head{what, bytes, move, 0});
  }

 private:
  int socket_;
  bool connected_ = false;
};

// ---- meeting ----

TEST(tcp, ranks_of_several_machines_meet) {
  tcp_listener at(here, 0);
  const int port = at.port();
  std::vector<std::thread> others;
  std::array<int, 4> sums{};
  for (int rank = 1; rank < 4; ++rank) {
    others.emplace_back([&, rank] {
      tcp_job job = job_of(rank, 4);
      job.machine = rank == 3 ? "b" : "a";
      rank_group group(transport_of_tcp_rank(here, port, job, 20));
      std::array<int, 4> all{};
      group.gather(&rank, sizeof rank, all.data());
      for (const int of : all) sums[static_cast<std::size_t>(rank)] += of;
    });
  }
  tcp_job job = job_of(0, 4);
  job.machine = "a";
  {
    rank_group group(transport_of_tcp_rank_0(std::move(at), job, 20));
    EXPECT_EQ(group.machines(), 2);
    EXPECT_EQ(group.transport(), "TCP");
    EXPECT_EQ(group.process(2), ::getpid());
    const int mine = 0;
    std::array<int, 4> all{};
    group.gather(&mine, sizeof mine, all.data());
    EXPECT_EQ(all, (std::array<int, 4>{0, 1, 2, 3}));
    // Nobody listens any more.
    EXPECT_FALSE(by_hand(port).is_connected());
  }
  for (std::thread& t : others) t.join();
  EXPECT_EQ(sums, (std::array<int, 4>{0, 6, 6, 6}));
}

TEST(tcp, an_address_that_cannot_be_used_is_a_sentence) {
  const tcp_listener at(here, 0);
  EXPECT_EQ(message_of([&] { tcp_listener(here, at.port()); }),
            "ranks: " + at_port(at.port()) +
                " is in use by another program: MASTER_PORT names a free one");
  // An address of documentation (RFC 5737) is nobody's.
  EXPECT_EQ(message_of([] { tcp_listener("192.0.2.1", 29500); }),
            "ranks: 192.0.2.1, port 29500 is no address of this machine, which has rank 0: "
            "MASTER_ADDR names one");
  // It listens at this address of the machine, and at no other.
  EXPECT_EQ(message_of([&] { transport_of_tcp_rank("127.0.0.2", at.port(), job_of(1, 2), 0.2); }),
            "ranks: rank 0 cannot be reached at 127.0.0.2, port " + std::to_string(at.port()) +
                " within 0.2 s" + patience_words + ": Connection refused");
}

TEST(tcp, who_does_not_come_is_named) {
  const int port = free_port();
  EXPECT_EQ(message_of([&] { transport_of_tcp_rank(here, port, job_of(1, 2), 0.3); }),
            "ranks: rank 0 cannot be reached at " + at_port(port) + " within 0.3 s" +
                patience_words + ": Connection refused");
  tcp_listener at(here, 0);
  const std::string place = at_port(at.port());
  EXPECT_EQ(message_of([&] { transport_of_tcp_rank_0(std::move(at), job_of(0, 3), 0.3); }),
            "ranks: ranks 1, 2 did not come to rank 0 at " + place + " within 0.3 s" +
                patience_words + "; other machines do not reach this address");
  // One that listens and says nothing.
  const tcp_listener silent(here, 0);
  EXPECT_EQ(message_of([&] { transport_of_tcp_rank(here, silent.port(), job_of(1, 2), 0.3); }),
            "ranks: what listens at " + at_port(silent.port()) +
                " did not greet rank 1 within 0.3 s" + patience_words);
}

// Rank 0 of two, and what rank 1 does meanwhile. What rank 0 said.
std::string said_of_rank_0(const std::function<void(int port)>& rank_1, double patience = 20,
                           const std::function<void(rank_group&)>& then = {}) {
  tcp_listener at(here, 0);
  const int port = at.port();
  std::thread other([&] { rank_1(port); });
  const std::string said = message_of([&] {
    rank_group group(transport_of_tcp_rank_0(std::move(at), job_of(0, 2), patience));
    group.wait_for(patience);
    if (then) then(group);
  });
  other.join();
  return said;
}

TEST(tcp, ranks_of_another_job_are_kept_out) {
  std::string other;
  const std::string first = said_of_rank_0(
      [&](int port) {
        other = message_of([&] { transport_of_tcp_rank(here, port, job_of(1, 2, "else"), 5); });
      },
      0.6);
  EXPECT_NE(other.find(" refuses rank 1: it has another key (UNMASK_RANKS_KEY, or the launcher's "
                       "job)"),
            std::string::npos)
      << other;
  EXPECT_NE(first.find("rank 1 did not come to rank 0 at "), std::string::npos) << first;
  EXPECT_NE(first.find("; 1 that came had another key"), std::string::npos) << first;
  // Who listens in place of rank 0 has no key: a rank believes it as little.
  const tcp_listener false_one(here, 0);
  std::thread claims([&] {
    const by_hand line(false_one);
    line.send(tcp_frames::challenge{tcp_frames::magic, tcp_frames::version, 0, {}});
    line.received<tcp_frames::greeting>();
    tcp_frames::verdict taken{};
    taken.magic = tcp_frames::magic;
    taken.accepted = 1;
    line.send(taken);
    line.wait_for_end();
  });
  EXPECT_EQ(message_of([&] { transport_of_tcp_rank(here, false_one.port(), job_of(1, 2), 5); }),
            "ranks: what listens at " + at_port(false_one.port()) +
                " has another key than rank 1; MASTER_ADDR and MASTER_PORT say where rank 0 is");
  claims.join();
}

// A greeting counts for the question it answers: one that was heard before opens nothing.
TEST(tcp, a_greeting_that_is_repeated_is_refused) {
  tcp_frames::verdict verdict{};
  const std::string said = said_of_rank_0(
      [&](int port) {
        const by_hand line(port);
        verdict = line.greet(1, 2, {}, [](tcp_frames::greeting& g) {
          g.proof = tcp_frames::proof_of("test", tcp_frames::code{}, g);
        });
      },
      0.6);
  EXPECT_EQ(verdict.accepted, 0U);
  EXPECT_NE(said.find("; 1 that came had another key"), std::string::npos) << said;
}

// Strangers cost a rank that comes nothing: one says nothing, one says anything, one hangs up.
TEST(tcp, strangers_keep_nobody_waiting) {
  std::string other;
  const std::string said = said_of_rank_0(
      [&](int port) {
        const by_hand silent(port);
        { const by_hand hangs_up(port); }
        const by_hand talks(port);
        talks.send(std::array<char, sizeof(tcp_frames::greeting)>{});
        talks.wait_for_end();
        other = message_of([&] {
          rank_group group(transport_of_tcp_rank(here, port, job_of(1, 2), 20));
          EXPECT_EQ(group.from_first(0.0), 4.0);
        });
      },
      20, [](rank_group& group) { group.from_first(4.0); });
  EXPECT_EQ(said, "");
  EXPECT_EQ(other, "");
}

TEST(tcp, other_versions_are_named) {
  std::string words;
  const std::string said = said_of_rank_0(
      [&](int port) {
        const by_hand line(port);
        words = tcp_frames::text_in(
            line.greet(1, 2, [](tcp_frames::greeting& g) { ++g.version; }).words);
      },
      0.6);
  EXPECT_EQ(words, "it runs another version of the program than rank 0");
  EXPECT_NE(said.find("; 1 that came had another version of the program"), std::string::npos)
      << said;
  const auto answer_of = [](const auto& challenge) {
    const tcp_listener at(here, 0);
    std::thread first([&] {
      const by_hand line(at);
      line.send(challenge);
      line.wait_for_end();
    });
    const std::string sentence =
        message_of([&] { transport_of_tcp_rank(here, at.port(), job_of(1, 2), 5); });
    first.join();
    return sentence;
  };
  EXPECT_NE(answer_of(tcp_frames::challenge{tcp_frames::magic, tcp_frames::version + 1, 0, {}})
                .find(" runs another version of the program than rank 1"),
            std::string::npos);
  EXPECT_NE(answer_of(std::array<char, 64>{'S', 'S', 'H', '-', '2', '.', '0'})
                .find(" is no rank 0 of this program; MASTER_ADDR and MASTER_PORT say where rank 0 "
                      "is"),
            std::string::npos);
}

// Who has the key and is no rank of this group ends it: both say why.
TEST(tcp, wrong_ranks_are_named) {
  const auto both = [](int rank, int ranks) {
    std::string words;
    const std::string said = said_of_rank_0([&](int port) {
      const by_hand line(port);
      words = tcp_frames::text_in(line.greet(rank, ranks).words);
    });
    EXPECT_EQ(said, "ranks: " + words);
    return words;
  };
  EXPECT_EQ(both(1, 4), "rank 1 is one of 4 (WORLD_SIZE), and rank 0 of 2");
  EXPECT_EQ(both(2, 2), "rank 2 is none of ranks 1 to 1");
  EXPECT_EQ(both(0, 2), "rank 0 is none of ranks 1 to 1");
  // The same rank twice, and the first of them hears of it.
  tcp_listener at(here, 0);
  const int port = at.port();
  std::string heard, words;
  std::thread others([&] {
    std::thread first([&] {
      heard = message_of([&] {
        rank_group group(transport_of_tcp_rank(here, port, job_of(1, 3), 20));
        group.from_first(0.0);
      });
    });
    pause(0.5);
    const by_hand second(port);
    words = tcp_frames::text_in(second.greet(1, 3).words);
    first.join();
  });
  const std::string said =
      message_of([&] { transport_of_tcp_rank_0(std::move(at), job_of(0, 3), 20); });
  others.join();
  EXPECT_NE(words.find(" is there already, and process 7 on hand is the same rank"),
            std::string::npos)
      << words;
  EXPECT_EQ(said, "ranks: " + words);
  EXPECT_EQ(heard, said);
}

// One that joins and ends before the others have come.
TEST(tcp, who_ends_before_all_are_there_is_named) {
  tcp_listener at(here, 0);
  const int port = at.port();
  std::thread other([&] {
    const by_hand line(port);
    line.greet(1, 3);
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(message_of([&] { transport_of_tcp_rank_0(std::move(at), job_of(0, 3), 20); }),
            "ranks: rank 1 (process 7 on hand) has ended: it closed its connection");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  other.join();
}

// ---- faults of a rank that has joined ----

constexpr const char* peer = "rank 1 (process 7 on hand) ";

// Rank 0 gathers 8 bytes of each; rank 1 does something else.
std::string said_of_a_move(const std::function<void(const by_hand&)>& fault) {
  return said_of_rank_0(
      [&](int port) {
        const by_hand line(port);
        EXPECT_EQ(line.greet(1, 2).accepted, 1U);
        fault(line);
      },
      20,
      [](rank_group& group) {
        const std::uint64_t mine = 5;
        std::array<std::uint64_t, 2> all{};
        group.gather(&mine, sizeof mine, all.data());
        EXPECT_EQ(all, (std::array<std::uint64_t, 2>{5, 9}));
      });
}

TEST(tcp, a_move_as_it_shall_be) {
  EXPECT_EQ(said_of_a_move([](const by_hand& line) {
              line.send_head(tcp_frames::kind::part, 8, 1);
              line.send(std::uint64_t{9});
              tcp_frames::head head{};
              do {  // it may say meanwhile that it waits
                head = line.received<tcp_frames::head>();
                if (head.what == tcp_frames::kind::status) {
                  line.received<tcp_frames::moves_of_all>();
                }
              } while (head.what == tcp_frames::kind::status);
              EXPECT_EQ(head.what, tcp_frames::kind::all);
              EXPECT_EQ(head.bytes, 8U);
              EXPECT_EQ(head.move, 1U);
              EXPECT_EQ(line.received<std::uint64_t>(), 5U);
            }),
            "");
}

TEST(tcp, messages_that_are_cut_short_are_found) {
  EXPECT_EQ(
      said_of_a_move([](const by_hand& line) {
        line.send_head(tcp_frames::kind::part, 8, 1);
        line.send(std::uint32_t{9});
      }),
      std::string(peer) + "has ended: it closed its connection after 28 of 32 bytes of a message");
  EXPECT_EQ(
      said_of_a_move([](const by_hand& line) { line.send(std::uint64_t{1}); }),
      std::string(peer) + "has ended: it closed its connection after 8 of 24 bytes of a message");
  EXPECT_EQ(
      said_of_a_move([](const by_hand& line) {
        line.send_head(tcp_frames::kind::failure, 100, 0);
        line.send(std::array<char, 10>{});
      }),
      std::string(peer) + "has ended: it closed its connection after 34 of 124 bytes of a message");
  EXPECT_EQ(said_of_a_move([](const by_hand&) {}),
            std::string(peer) + "has ended: it closed its connection");
}

TEST(tcp, messages_out_of_order_are_found) {
  const auto with_head = [](tcp_frames::kind what, std::uint32_t bytes, std::uint64_t move) {
    return said_of_a_move([&](const by_hand& line) {
      line.send_head(what, bytes, move);
      line.send(std::uint64_t{9});
      line.wait_for_end();
    });
  };
  EXPECT_EQ(with_head(tcp_frames::kind::part, 8, 2),
            std::string(peer) + "sent move 2 in place of move 1: it does not take the same steps");
  EXPECT_EQ(
      with_head(tcp_frames::kind::part, 0, 1),
      std::string(peer) + "sent 0 bytes in move 1 in place of 8: it does not take the same steps");
  EXPECT_EQ(with_head(tcp_frames::kind::all, 8, 1),
            std::string(peer) + "sent what is no message of a rank");
  EXPECT_EQ(with_head(static_cast<tcp_frames::kind>(77), 8, 1),
            std::string(peer) + "sent what is no message of a rank");
}

// Lengths have limits, whatever they say.
TEST(tcp, messages_above_their_size_are_refused) {
  const auto with_length = [](tcp_frames::kind what, std::uint32_t bytes) {
    return said_of_a_move([&](const by_hand& line) {
      line.send_head(what, bytes, 1);
      line.wait_for_end();
    });
  };
  EXPECT_EQ(with_length(tcp_frames::kind::failure, 1U << 30),
            std::string(peer) + "sent a message of 1073741824 bytes, which has at most 512");
  EXPECT_EQ(with_length(tcp_frames::kind::status, 8),
            std::string(peer) + "sent a message of 8 bytes, which has at most 0");
  EXPECT_EQ(with_length(tcp_frames::kind::part, 4'000'000'000U),
            std::string(peer) + "sent a message of 4000000000 bytes, which has at most 67108864");
  EXPECT_EQ(with_length(tcp_frames::kind::part, 1U << 20),
            std::string(peer) +
                "sent 1048576 bytes in move 1 in place of 8: it does not take the same steps");
}

// A rank that gave up a move has its memory back, whatever still comes.
TEST(tcp, a_part_that_comes_too_late_is_not_written) {
  const std::string said = said_of_rank_0(
      [](int port) {
        const by_hand line(port);
        line.greet(1, 2);
        pause(0.4);
        line.send_head(tcp_frames::kind::part, 8, 1);
        line.send(std::uint64_t{9});
        line.wait_for_end();
      },
      20,
      [](rank_group& group) {
        group.wait_for(0.2);
        const std::uint64_t mine = 5;
        std::array<std::uint64_t, 2> all{};
        EXPECT_THROW(group.gather(&mine, sizeof mine, all.data()), rank_failure);
        for (int i = 0; i < 8; ++i) {
          pause(0.1);
          EXPECT_THROW(group.look_around(0), rank_failure);
        }
        EXPECT_EQ(all[1], 0U);
      });
  EXPECT_EQ(said, "");
}

// ---- ranks that end or say nothing, with a process for each ----

// Processes 1, 2, ... that gather until their group ends, and then exit with 9 if it ended with a sentence that
// contains `words`. Rank 0 is this process.
class processes {
 public:
  processes(int ranks, double patience, const std::string& words) : at_(here, 0) {
    for (int rank = 1; rank < ranks; ++rank) {
      const pid_t one = ::fork();
      if (one == 0) follow(rank, ranks, patience, words);
      all_.push_back(one);
    }
    group_ =
        std::make_unique<rank_group>(transport_of_tcp_rank_0(std::move(at_), job_of(0, ranks), 20));
    group_->wait_for(patience);
  }
  ~processes() {
    for (const pid_t one : all_) {
      if (one == 0) continue;
      ::kill(one, SIGKILL);
      ::waitpid(one, nullptr, 0);
    }
  }
  processes(const processes&) = delete;
  processes& operator=(const processes&) = delete;

  rank_group& group() { return *group_; }
  void send(int rank, int signal) const {
    ::kill(all_[static_cast<std::size_t>(rank - 1)], signal);
  }
  // One that has ended by itself, and its exit code; -1: by a signal.
  int exit_code_of(int rank) {
    int status = 0;
    pid_t& one = all_[static_cast<std::size_t>(rank - 1)];
    ::waitpid(std::exchange(one, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Gathers until somebody is missed, and what is said of it. `now`: after ten moves.
  std::string said_after(const std::function<void()>& now) {
    return message_of([&] {
      for (int i = 0;; ++i) {
        if (i == 10) now();
        sum();
      }
    });
  }
  void sum() {
    const std::int32_t mine = 1;
    std::vector<std::int32_t> all(static_cast<std::size_t>(group_->size()));
    group_->gather(&mine, sizeof mine, all.data());
  }

 private:
  [[noreturn]] static void follow_until(rank_group& group, const std::string& words) {
    const std::int32_t mine = 1;
    std::vector<std::int32_t> all(static_cast<std::size_t>(group.size()));
    const std::string said = message_of([&] {
      for (;;) group.gather(&mine, sizeof mine, all.data());
    });
    ::_exit(said.find(words) != std::string::npos ? 9 : 8);
  }
  [[noreturn]] void follow(int rank, int ranks, double patience, const std::string& words) const {
    try {
      rank_group group(transport_of_tcp_rank(here, at_.port(), job_of(rank, ranks), 20));
      group.wait_for(patience);
      follow_until(group, words);
    } catch (const std::exception&) {
    }
    ::_exit(7);
  }

  tcp_listener at_;
  std::vector<pid_t> all_;
  std::unique_ptr<rank_group> group_;
};

TEST(tcp, a_rank_that_is_killed_is_named_to_all_of_them) {
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const int last = ranks - 1;
    const std::string name = "rank " + std::to_string(last) + " (process ";
    processes all(ranks, 20, name);
    std::chrono::steady_clock::time_point killed;
    const std::string said = all.said_after([&] {
      killed = std::chrono::steady_clock::now();
      all.send(last, SIGKILL);
    });
    EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(2));
    EXPECT_TRUE(said.starts_with(name)) << said;
    EXPECT_NE(said.find(" has ended: it closed its connection"), std::string::npos) << said;
    for (int rank = 1; rank < last; ++rank) EXPECT_EQ(all.exit_code_of(rank), 9);
  }
}

TEST(tcp, a_rank_that_is_stopped_is_named_to_all_of_them) {
  processes all(3, 0.6, "rank 2 did not answer within 0.6 s while ranks 0, 1 waited");
  const std::string said = all.said_after([&] { all.send(2, SIGSTOP); });
  EXPECT_EQ(said, std::string("rank 2 did not answer within 0.6 s while ranks 0, 1 waited") +
                      patience_words);
  EXPECT_EQ(all.exit_code_of(1), 9);
}

// The others wait for rank 0 alone.
TEST(tcp, rank_0_is_named_if_it_says_nothing_or_ends) {
  {
    processes all(3, 0.5, "rank 0 did not answer within 0.5 s while rank ");
    for (int i = 0; i < 5; ++i) all.sum();
    pause(1.5);
    EXPECT_EQ(all.exit_code_of(1), 9);
    EXPECT_EQ(all.exit_code_of(2), 9);
  }
  tcp_listener at(here, 0);
  const int port = at.port();
  std::string said;
  std::thread other([&] {
    said = message_of([&] {
      rank_group group(transport_of_tcp_rank(here, port, job_of(1, 2), 20));
      group.wait_for(0);  // as one that waits for a command
      group.from_first(0.0);
      group.from_first(0.0);
    });
  });
  {
    rank_group group(transport_of_tcp_rank_0(std::move(at), job_of(0, 2), 20));
    group.from_first(0.0);
  }
  other.join();
  EXPECT_TRUE(said.starts_with("rank 0 (process ")) << said;
  EXPECT_NE(said.find(" has ended: it closed its connection"), std::string::npos) << said;
}

// Rank 1 waits longer than patience, but rank 0 says that it waits as well, and knows that nobody is late.
TEST(tcp, who_waits_with_rank_0_blames_nobody) {
  const auto body = [](rank_group& group) {
    group.from_first(0.0);
    if (group.rank() == 0) pause(0.7);
    if (group.rank() == 2) pause(1.5);
    group.from_first(0.0);
  };
  EXPECT_EQ(test::on_ranks(3, body, 1.1, test::transport_kind::tcp), std::vector<std::string>(3));
}

// A part that is larger than what sockets hold, from ranks that all send before anybody reads.
TEST(tcp, large_parts_pass) {
  const std::size_t count = (std::size_t{3} << 20) + 5;
  const auto body = [&](rank_group& group) {
    const std::vector<char> mine(count, static_cast<char>('a' + group.rank()));
    std::vector<char> all(3 * count);
    if (group.rank() == 0) pause(0.2);
    group.gather(mine.data(), count, all.data());
    for (std::size_t r = 0; r < 3; ++r) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(r * count);
      const auto right = std::count(from, from + static_cast<std::ptrdiff_t>(count),
                                    static_cast<char>('a' + static_cast<int>(r)));
      EXPECT_EQ(static_cast<std::size_t>(right), count) << r;
    }
    std::vector<char> first(count, static_cast<char>('x' + group.rank()));
    group.from_first(first.data(), first.size());
    EXPECT_EQ(first, std::vector<char>(count, 'x'));
    EXPECT_EQ(group.moves(), 8U);
    EXPECT_EQ(group.received(), 2 * count);
  };
  EXPECT_EQ(test::on_ranks(3, body, 20, test::transport_kind::tcp), std::vector<std::string>(3));
}

}  // namespace
}  // namespace unmask
