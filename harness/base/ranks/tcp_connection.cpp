// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/ranks/tcp_connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

#include "harness/base/ranks/words.h"

namespace unmask {

std::string tcp_peer::name() const {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(process) + " on " + host +
         ")";
}

tcp_connection::tcp_connection(tcp_socket socket, tcp_peer peer)
    : socket_(std::move(socket)), peer_(std::move(peer)), heard_at_(seconds_now()) {}

void tcp_connection::refuse(const std::string& what) {
  if (problem_.empty()) problem_ = peer_.name() + " " + what;
}

// `got` of `of` bytes of a message had come.
void tcp_connection::stop(tcp_bytes::result how, std::size_t got, std::size_t of) {
  if (!problem_.empty() || !failure_.empty()) return;
  if (how == tcp_bytes::result::broken) {
    problem_ = "the connection to " + peer_.name() + " broke: " + std::strerror(errno);
    return;
  }
  const std::string cut = got == 0 ? ""
                                   : " after " + std::to_string(got) + " of " + std::to_string(of) +
                                         " bytes of a message";
  refuse("has ended: it closed its connection" + cut);
}

// ---- out ----

void tcp_connection::add_ahead(const tcp_frames::head& of, const void* body) {
  const auto* first = reinterpret_cast<const char*>(&of);
  ahead_.insert(ahead_.end(), first, first + sizeof of);
  const auto* rest = static_cast<const char*>(body);
  if (of.bytes > 0) ahead_.insert(ahead_.end(), rest, rest + of.bytes);
}

void tcp_connection::send(const tcp_frames::head& of, tcp_bytes body) {
  out_head_ = of;
  out_ = tcp_bytes();
  out_.add(static_cast<const void*>(&out_head_), sizeof out_head_);
  out_.add(body);
  sends_ = true;
  push();
}

void tcp_connection::send_status(std::uint64_t on_device, const tcp_frames::moves_of_all* all) {
  if (sends() || !problem_.empty()) return;
  const auto bytes = static_cast<std::uint32_t>(all != nullptr ? sizeof *all : 0);
  add_ahead({tcp_frames::kind::status, bytes, 0, on_device}, all);
  push();
}

void tcp_connection::send_failure(std::string_view words) {
  // Whose move it was has its memory back.
  const bool inside = std::exchange(sends_, false) && out_.moved() > 0;
  expects_ = false;
  if (!problem_.empty()) return;
  if (inside) {  // of a message, where nothing can be said
    ::shutdown(socket_.get(), SHUT_RDWR);
    return;
  }
  add_ahead({tcp_frames::kind::failure, static_cast<std::uint32_t>(words.size()), 0, 0},
            words.data());
  push();
}

void tcp_connection::push() {
  if (!ahead_.empty()) {
    tcp_bytes all;
    all.add(static_cast<void*>(ahead_.data()), ahead_.size());
    const tcp_bytes::result how = all.send(socket_);
    ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(all.moved()));
    if (how == tcp_bytes::result::waits) return;
    if (how != tcp_bytes::result::moved) {
      pull();  // it may have said why
      stop(how, 0, 0);
      return;
    }
  }
  if (!sends_) return;
  const tcp_bytes::result how = out_.send(socket_);
  if (how == tcp_bytes::result::moved) sends_ = false;
  if (how == tcp_bytes::result::ended || how == tcp_bytes::result::broken) {
    const int reason = errno;
    pull();
    errno = reason;
    stop(how, 0, 0);
  }
}

// ---- in ----

void tcp_connection::expect(tcp_frames::kind what, std::uint64_t move, std::size_t bytes,
                            tcp_bytes into) {
  expected_ = {what, static_cast<std::uint32_t>(bytes), move, 0};
  into_ = std::move(into);
  expects_ = true;
  checked_ = false;
}

// False: none can be read, or the connection is over.
bool tcp_connection::read_head() {
  if (in_got_ == sizeof in_head_) return true;
  tcp_bytes rest;
  rest.add(static_cast<void*>(reinterpret_cast<char*>(&in_head_) + in_got_),
           sizeof in_head_ - in_got_);
  const tcp_bytes::result how = rest.receive(socket_);
  in_got_ += rest.moved();
  if (rest.moved() > 0) heard_at_ = seconds_now();
  if (how == tcp_bytes::result::ended || how == tcp_bytes::result::broken) {
    stop(how, in_got_, sizeof in_head_);
  }
  if (how != tcp_bytes::result::moved) return false;
  const bool from_first = peer_.rank == 0;
  std::size_t most = 0;
  switch (in_head_.what) {
    case tcp_frames::kind::status:
      most = from_first ? sizeof(tcp_frames::moves_of_all) : 0;
      break;
    case tcp_frames::kind::failure:
      most = rank_transport::longest_words;
      break;
    case tcp_frames::kind::part:
    case tcp_frames::kind::all:
      most = static_cast<std::size_t>(most_ranks) * rank_transport::largest_move;
      if (in_head_.what == (from_first ? tcp_frames::kind::all : tcp_frames::kind::part)) break;
      [[fallthrough]];
    default:
      refuse("sent what is no message of a rank");
      return false;
  }
  if (in_head_.bytes > most) {
    refuse("sent a message of " + std::to_string(in_head_.bytes) + " bytes, which has at most " +
           std::to_string(most));
    return false;
  }
  on_device_[static_cast<std::size_t>(peer_.rank)] =
      std::max(on_device_[static_cast<std::size_t>(peer_.rank)], in_head_.on_device);
  words_.assign(
      in_head_.what == tcp_frames::kind::status || in_head_.what == tcp_frames::kind::failure
          ? in_head_.bytes
          : 0,
      '\0');
  words_got_ = 0;
  return true;
}

void tcp_connection::take_words() {
  if (in_head_.what == tcp_frames::kind::failure) {
    failure_.assign(words_.begin(), words_.end());
    if (failure_.empty()) failure_ = peer_.name() + " failed";
    return;
  }
  if (words_.size() != sizeof on_device_) return;
  const std::uint64_t of_first = on_device_[0];
  std::memcpy(on_device_.data(), words_.data(), sizeof on_device_);
  on_device_[0] = std::max(on_device_[0], of_first);
}

bool tcp_connection::read_words() {
  tcp_bytes rest;
  rest.add(static_cast<void*>(words_.data() + words_got_), words_.size() - words_got_);
  const tcp_bytes::result how = rest.receive(socket_);
  words_got_ += rest.moved();
  if (how == tcp_bytes::result::moved) {
    take_words();
    in_got_ = 0;
    return failure_.empty();
  }
  if (how != tcp_bytes::result::waits) {
    stop(how, sizeof in_head_ + words_got_, sizeof in_head_ + words_.size());
  }
  return false;
}

bool tcp_connection::read_part() {
  if (!expects_) return false;
  if (!checked_) {
    checked_ = true;
    const std::string move = "move " + std::to_string(expected_.move);
    if (in_head_.move != expected_.move) {
      refuse("sent move " + std::to_string(in_head_.move) + " in place of " + move +
             ": it does not take the same steps");
      return false;
    }
    if (in_head_.bytes != expected_.bytes) {
      refuse("sent " + std::to_string(in_head_.bytes) + " bytes in " + move + " in place of " +
             std::to_string(expected_.bytes) + ": it does not take the same steps");
      return false;
    }
  }
  const std::size_t before = into_.moved();
  const tcp_bytes::result how = into_.receive(socket_);
  if (into_.moved() > before) heard_at_ = seconds_now();
  if (how == tcp_bytes::result::moved) {
    expects_ = false;
    in_got_ = 0;
    return true;
  }
  if (how != tcp_bytes::result::waits) {
    stop(how, sizeof in_head_ + into_.moved(), sizeof in_head_ + in_head_.bytes);
  }
  return false;
}

void tcp_connection::pull() {
  for (bool more = true; more && problem_.empty() && failure_.empty();) {
    if (!read_head()) return;
    const bool of_move =
        in_head_.what == tcp_frames::kind::part || in_head_.what == tcp_frames::kind::all;
    more = of_move ? read_part() : read_words();
  }
}

// ---- both ----

void tcp_connection::go_on() {
  if (!problem_.empty() || !failure_.empty()) return;
  if (sends()) push();
  pull();
}

short tcp_connection::events() const {
  const bool is_full = in_got_ == sizeof in_head_ && !expects_ && words_.empty();
  return static_cast<short>(POLLRDHUP | (is_full ? 0 : POLLIN) | (sends() ? POLLOUT : 0));
}

// A part of the next move hides the end of who sent it.
void tcp_connection::look_at(short happened) {
  if ((happened & (POLLRDHUP | POLLHUP | POLLERR)) == 0) return;
  pull();
  if ((events() & POLLIN) == 0) stop(tcp_bytes::result::ended, 0, 0);
}

}  // namespace unmask
