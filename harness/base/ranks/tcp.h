// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ranks of several machines move bytes by TCP. Each has one connection, to rank 0.
//
// A move: the others send their parts to rank 0, which sends all of them to each. Nobody reserves memory by a
// number that came from outside: every length is known before, or has a limit. Who waits sleeps in poll().
// Rank 0 tells those who wait with it that it does, so that it alone judges who is late; the others judge
// rank 0. A connection that ends is the end of its rank. A machine that vanishes without a word is found by
// keep-alive within half a minute, also by a rank that waits for a command for ever.
//
// Who connects proves that it has the job's key, and so does rank 0. What follows is not encrypted.
#pragma once

#include <memory>
#include <string>

#include "harness/base/ranks/tcp_socket.h"
#include "harness/base/ranks/transport.h"

namespace unmask {

struct tcp_job {
  int rank = 0, ranks = 1;
  std::string ranks_variable = {};  // says how many there are
  std::string key = {};             // all ranks of the job have it, and no other
  // Of this process; for tests, else what the system says.
  std::string host = host_name(), machine = machine_id();
};

// Rank 0 listens, at this address alone, from here on.
class tcp_listener {
 public:
  // `address`: a name or a number. Port 0: one that is free. Environment error if the address is not known or
  // is none of this machine, or if the port is in use.
  tcp_listener(const std::string& address, int port);
  int port() const { return port_; }
  std::string place() const { return place_; }  // "node3 (10.0.0.3), port 29500"
  bool reaches_this_machine_only() const { return loopback_; }
  const tcp_socket& socket() const { return socket_; }

 private:
  tcp_socket socket_;
  int port_ = 0;
  std::string place_;
  bool loopback_ = false;
};

// Waits so many seconds for all others; 0: for ever. The listener is closed behind it, however it ends.
// Environment error for a rank that does not come, that has come before, or that knows of another number.
std::unique_ptr<rank_transport> transport_of_tcp_rank_0(tcp_listener at, const tcp_job& job,
                                                        double patience);
// Waits so long for rank 0 to listen there. Environment error if it cannot be reached, or refuses this rank.
std::unique_ptr<rank_transport> transport_of_tcp_rank(const std::string& address, int port,
                                                      const tcp_job& job, double patience);

}  // namespace unmask
