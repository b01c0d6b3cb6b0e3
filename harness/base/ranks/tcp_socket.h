// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

namespace unmask {

// A socket that never blocks, and that no program has which this one starts.
class tcp_socket {
 public:
  tcp_socket() = default;
  explicit tcp_socket(int descriptor) : descriptor_(descriptor) {}
  tcp_socket(tcp_socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  tcp_socket& operator=(tcp_socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~tcp_socket();
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

// Where a name, or a number, and a port are.
struct tcp_address {
  sockaddr_storage where{};
  socklen_t size = 0;
  std::string number() const;  // "10.0.0.3"
  bool is_loopback() const;
  int family() const { return where.ss_family; }
};
// All of them; empty: `problem` says why.
std::vector<tcp_address> addresses_of(const std::string& name, int port, std::string& problem);
std::string host_name();

// Small messages go at once, and a machine that vanishes is found.
void prepare_connection(const tcp_socket& of);

// Bytes in several places, which go or come in this order, as far as they can now.
class tcp_bytes {
 public:
  void add(void* at, std::size_t bytes) {
    if (bytes > 0) left_.push_back({at, bytes});
  }
  void add(const void* at, std::size_t bytes) { add(const_cast<void*>(at), bytes); }
  void add(const tcp_bytes& more) {
    left_.insert(left_.end(), more.left_.begin(), more.left_.end());
  }
  bool done() const { return next_ == left_.size(); }
  std::size_t moved() const { return moved_; }

  enum class result { moved, waits, ended, broken };  // errno says why it is broken
  // Until all have, or none can now. `ended`: the other side has closed the connection.
  result send(const tcp_socket& to) { return move(to, true); }
  result receive(const tcp_socket& from) { return move(from, false); }

 private:
  result move(const tcp_socket& with, bool out);
  std::vector<iovec> left_;
  std::size_t next_ = 0, moved_ = 0;
};

}  // namespace unmask
