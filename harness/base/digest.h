// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace unmask {

// The bytes of `text` hashed, in hex digits (64, and 40). Environment error when OpenSSL cannot.
std::string sha256_hex(std::string_view text);
std::string sha1_hex(std::string_view text);
// What only who has the key can compute of `text`: HMAC of SHA-256 (RFC 2104). Throws as they do.
std::array<unsigned char, 32> keyed_sha256(std::string_view key, std::string_view text);

// Digests of large files from one start of the program to the next: a checkpoint of 16 GB need not
// be read twice each time. A digest is reused while device, inode, size and both times of the
// file (modification and change; the latter cannot be set by a program) are what they were.
struct hash_memory {
  std::filesystem::path file;          // text, one line a digest; empty: nothing is remembered
  std::uint64_t smallest = 64U << 20;  // bytes of a file that is worth it
  // A file that changed less than so many seconds ago is not remembered: the next change might
  // leave the same times behind.
  double settle_seconds = 2;
};

// checkpoint-hashes in $XDG_CACHE_HOME/unmask, or ~/.cache/unmask. Empty without a home and with
// UNMASK_NO_HASH_CACHE=1 in the environment.
hash_memory user_hash_memory();

// `compute()`, or what it gave for this file before. A memory that cannot be read or written, or
// holds other text, is as good as none.
std::string remembered_hash(const std::filesystem::path& file, const hash_memory& memory,
                            const std::function<std::string()>& compute);

}  // namespace unmask
