// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What ranks send each other over TCP (tcp.h): three greetings of fixed size, then frames. Numbers are in the
// byte order of the machine; another order is another magic number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "harness/base/digest.h"
#include "harness/base/ranks/transport.h"

namespace unmask::tcp_frames {

inline constexpr std::uint64_t magic = 0x756e6d61736b5431U;
inline constexpr std::uint32_t version = 1;  // of this file

using code = std::array<unsigned char, 32>;

// 1. Rank 0 asks who has come, with a number that it takes once.
struct challenge {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  code once;
};
// 2. Who has come says which rank it is, and proves that it has the key.
struct greeting {
  std::uint64_t magic;
  std::uint32_t version;
  std::int32_t rank, ranks, process;
  char host[64], machine[40];  // zeros behind
  code once;
  code proof;  // of challenge::once and what is before this field
};
// 3. Rank 0 takes it or says why not, and proves that it has the key.
struct verdict {
  std::uint64_t magic;
  std::uint32_t accepted;
  std::int32_t process;
  char host[64], words[256];
  code proof;  // of greeting::once and what is before this field
};

// Then frames, each a head and so many bytes.
enum class kind : std::uint32_t {
  part = 1,    // a rank's part of a move, to rank 0
  all = 2,     // the others' parts of it, or the bytes of rank 0; to the others
  status = 3,  // that the sender waits; of rank 0 with the moves on devices of all ranks
  failure = 4  // words: the sender has failed
};
struct head {
  kind what;
  std::uint32_t bytes;      // that follow
  std::uint64_t move;       // its number: 1, 2, ...; of `part` and `all`
  std::uint64_t on_device;  // moves of devices that the sender has queued
};
using moves_of_all = std::array<std::uint64_t, most_ranks>;

static_assert(sizeof(challenge) == 48 && sizeof(greeting) == 192 && sizeof(verdict) == 368 &&
              sizeof(head) == 24);
static_assert(std::is_trivially_copyable_v<greeting> && std::is_trivially_copyable_v<verdict>);

template <class Message>
code proof_of(std::string_view key, const code& once, const Message& of) {
  std::string text(reinterpret_cast<const char*>(once.data()), once.size());
  text.append(reinterpret_cast<const char*>(&of), offsetof(Message, proof));
  return keyed_sha256(key, text);
}

// As many bytes as fit, and a zero.
template <std::size_t size>
void put_text(char (&field)[size], std::string_view text) {
  std::memset(field, 0, size);
  text.copy(field, size - 1);
}
// What came, fit for a terminal.
template <std::size_t size>
std::string text_in(const char (&field)[size]) {
  std::string text(field, ::strnlen(field, size));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace unmask::tcp_frames
