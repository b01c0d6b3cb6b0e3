// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/ranks/tcp_frames.h"
#include "harness/base/ranks/tcp_socket.h"

namespace unmask {

struct tcp_peer {
  int rank = 0, process = 0;
  std::string host, machine;
  std::string name() const;  // "rank 1 (process 4711 on node3)"
};

// Frames to and from one rank. Nothing waits here. It stays where it is once a frame was sent.
class tcp_connection {
 public:
  tcp_connection(tcp_socket socket, tcp_peer peer);

  const tcp_peer& peer() const { return peer_; }
  const tcp_socket& socket() const { return socket_; }
  // What ended it, a sentence; empty: nothing.
  const std::string& problem() const { return problem_; }
  // The words with which the peer has failed; empty: it has not.
  const std::string& failure() const { return failure_; }
  std::uint64_t on_device(int rank) const { return on_device_[static_cast<std::size_t>(rank)]; }
  double heard_at() const { return heard_at_; }  // by seconds_now()

  // This frame of a move comes next, and fills `into`: `bytes`. Another one is a problem.
  void expect(tcp_frames::kind what, std::uint64_t move, std::size_t bytes, tcp_bytes into);
  bool expects() const { return expects_; }
  // The bytes are valid until they have gone.
  void send(const tcp_frames::head& head, tcp_bytes body);
  bool sends() const { return !ahead_.empty() || sends_; }
  // A short frame, unless others before it have not gone.
  void send_status(std::uint64_t on_device, const tcp_frames::moves_of_all* all);
  // The last frame. What was to be sent or read of a move is not touched any more.
  void send_failure(std::string_view words);

  // Sends and reads what can be now. A frame of a move that nobody expects yet stays where it is.
  void go_on();
  // What to wait for; the peer's end always counts. See poll().
  short events() const;
  void look_at(short happened);

 private:
  void push();
  void pull();
  bool read_head();
  bool read_words();
  bool read_part();
  void take_words();
  void refuse(const std::string& what);
  void stop(tcp_bytes::result how, std::size_t got, std::size_t of);
  void add_ahead(const tcp_frames::head& head, const void* body);

  tcp_socket socket_;
  tcp_peer peer_;
  std::string problem_, failure_;
  double heard_at_ = 0;
  tcp_frames::moves_of_all on_device_{};

  // Out: short frames, then a head with a body.
  std::vector<char> ahead_;
  tcp_frames::head out_head_{};
  tcp_bytes out_;
  bool sends_ = false;

  // In: a head, then its bytes, which are short ones in words_ or those of a move.
  tcp_frames::head in_head_{};
  std::size_t in_got_ = 0;
  std::vector<char> words_;
  std::size_t words_got_ = 0;
  tcp_frames::head expected_{};
  tcp_bytes into_;
  bool expects_ = false, checked_ = false;
};

}  // namespace unmask
