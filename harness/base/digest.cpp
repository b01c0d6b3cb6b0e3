// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/digest.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>

#include "harness/base/error.h"

namespace unmask {
namespace {

std::string hex_digest(std::string_view text, const EVP_MD* kind) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &size, kind, nullptr) != 1) {
    throw environment_error("OpenSSL cannot compute a digest on this machine");
  }
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

std::string text_of(const timespec& t) {
  return std::to_string(t.tv_sec) + "." + std::to_string(t.tv_nsec);
}

double seconds_of(const timespec& t) {
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// What tells one state of a file from every other.
std::string identity_of(const struct stat& s) {
  return std::to_string(s.st_dev) + " " + std::to_string(s.st_ino) + " " +
         std::to_string(s.st_size) + " " + text_of(s.st_mtim) + " " + text_of(s.st_ctim);
}

std::string recall(const std::filesystem::path& memory, const std::string& identity) {
  std::ifstream in(memory);
  std::string line, digest;
  while (std::getline(in, line)) {
    if (line.size() == 64 + 1 + identity.size() && line.ends_with(" " + identity)) {
      digest = line.substr(0, 64);  // the last one counts
    }
  }
  const bool hex = digest.find_first_not_of("0123456789abcdef") == std::string::npos;
  return hex ? digest : "";
}

void remember(const std::filesystem::path& memory, const std::string& line) {
  std::error_code ignored;
  std::filesystem::create_directories(memory.parent_path(), ignored);
  // One short write to the end: two programs at once lose nothing.
  std::ofstream(memory, std::ios::app) << line + "\n" << std::flush;
}

}  // namespace

std::string sha256_hex(std::string_view text) {
  return hex_digest(text, EVP_sha256());
}
std::string sha1_hex(std::string_view text) {
  return hex_digest(text, EVP_sha1());
}

std::array<unsigned char, 32> keyed_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, 32> code{};
  unsigned int size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(), code.data(),
           &size) == nullptr ||
      size != code.size()) {
    throw environment_error("OpenSSL cannot compute a digest on this machine");
  }
  return code;
}

hash_memory user_hash_memory() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  hash_memory memory;
  if (value("UNMASK_NO_HASH_CACHE") == "1") return memory;
  const std::string cache = value("XDG_CACHE_HOME"), home = value("HOME");
  if (std::filesystem::path(cache).is_absolute()) {
    memory.file = std::filesystem::path(cache) / "unmask" / "checkpoint-hashes";
  } else if (!home.empty()) {
    memory.file = std::filesystem::path(home) / ".cache" / "unmask" / "checkpoint-hashes";
  }
  return memory;
}

std::string remembered_hash(const std::filesystem::path& file, const hash_memory& memory,
                            const std::function<std::string()>& compute) {
  struct stat before = {}, after = {};
  if (memory.file.empty() || ::stat(file.c_str(), &before) != 0 ||
      static_cast<std::uint64_t>(before.st_size) < memory.smallest) {
    return compute();
  }
  const std::string identity = identity_of(before);
  if (std::string digest = recall(memory.file, identity); !digest.empty()) return digest;
  std::string digest = compute();
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const double changed = std::max(seconds_of(before.st_mtim), seconds_of(before.st_ctim));
  const bool same = ::stat(file.c_str(), &after) == 0 && identity_of(after) == identity;
  if (same && seconds_of(now) - changed >= memory.settle_seconds) {
    remember(memory.file, digest + " " + identity);
  }
  return digest;
}

}  // namespace unmask
