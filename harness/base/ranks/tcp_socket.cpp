// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/ranks/tcp_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

namespace unmask {

tcp_socket::~tcp_socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string tcp_address::number() const {
  std::array<char, NI_MAXHOST> text{};
  const auto* at = reinterpret_cast<const sockaddr*>(&where);
  const int failed = ::getnameinfo(at, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failed != 0 ? "?" : text.data();
}

bool tcp_address::is_loopback() const {
  if (family() == AF_INET) {
    sockaddr_in at{};
    std::memcpy(&at, &where, sizeof at);
    return ntohl(at.sin_addr.s_addr) >> 24 == 127;
  }
  sockaddr_in6 at{};
  std::memcpy(&at, &where, sizeof at);
  return IN6_IS_ADDR_LOOPBACK(&at.sin6_addr);
}

std::vector<tcp_address> addresses_of(const std::string& name, int port, std::string& problem) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (failed != 0) {
    problem = ::gai_strerror(failed);
    return {};
  }
  std::vector<tcp_address> all;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    tcp_address one;
    one.size = std::min(a->ai_addrlen, static_cast<socklen_t>(sizeof one.where));
    std::memcpy(&one.where, a->ai_addr, one.size);
    all.push_back(one);
  }
  ::freeaddrinfo(found);
  return all;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> text{};
  return ::gethostname(text.data(), text.size() - 1) == 0 ? text.data() : "?";
}

void prepare_connection(const tcp_socket& of) {
  const auto set = [&](int level, int what, int value) {
    (void)::setsockopt(of.get(), level, what, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);  // seconds of silence, then a question every 5, 4 times
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

tcp_bytes::result tcp_bytes::move(const tcp_socket& with, bool out) {
  while (!done()) {
    msghdr message{};
    message.msg_iov = left_.data() + next_;
    message.msg_iovlen = std::min<std::size_t>(left_.size() - next_, IOV_MAX);
    const ssize_t n =
        out ? ::sendmsg(with.get(), &message, MSG_NOSIGNAL) : ::recvmsg(with.get(), &message, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return result::waits;
    if (n < 0) {
      return errno == ECONNRESET || errno == EPIPE ? result::ended : result::broken;
    }
    if (n == 0) return result::ended;
    moved_ += static_cast<std::size_t>(n);
    for (auto went = static_cast<std::size_t>(n); went > 0;) {
      iovec& place = left_[next_];
      const std::size_t of_it = std::min(went, place.iov_len);
      place.iov_base = static_cast<char*>(place.iov_base) + of_it;
      place.iov_len -= of_it;
      went -= of_it;
      if (place.iov_len == 0) ++next_;
    }
  }
  return result::moved;
}

}  // namespace unmask
