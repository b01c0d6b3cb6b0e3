// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/compressed.h"

#include <zlib.h>

#include <algorithm>
#include <memory>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace unmask {
namespace {

constexpr int gzip_only = 16 + MAX_WBITS;

struct inflater {
  inflater() { good = inflateInit2(&stream, gzip_only) == Z_OK; }
  ~inflater() { inflateEnd(&stream); }
  inflater& operator=(inflater&&) = delete;
  z_stream stream{};
  bool good = false;
};

constexpr std::size_t piece = std::size_t{1} << 18;

}  // namespace

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

std::string gunzip(std::string_view bytes, const std::string& file, std::size_t limit) {
  const auto fail = [&](const std::string& why) {
    return environment_error(file + ": is not a whole gzip file: " + why);
  };
  inflater unpack;
  if (!unpack.good) throw fail("zlib gave no memory");
  const auto buffer = std::make_unique<unsigned char[]>(piece);
  z_stream& s = unpack.stream;
  s.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  std::size_t left = bytes.size();
  std::string out;
  for (;;) {
    if (s.avail_in == 0) {
      s.avail_in = static_cast<uInt>(std::min<std::size_t>(left, std::size_t{1} << 30));
      left -= s.avail_in;
    }
    s.next_out = buffer.get();
    s.avail_out = static_cast<uInt>(piece);
    const int code = inflate(&s, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      throw fail(s.msg != nullptr ? s.msg : "the data are damaged");
    }
    out.append(reinterpret_cast<const char*>(buffer.get()), piece - s.avail_out);
    if (out.size() > limit) {
      throw environment_error(file + ": unpacks to more than " + std::to_string(limit) + " bytes");
    }
    if (code == Z_STREAM_END) {
      if (s.avail_in == 0 && left == 0) return out;
      if (inflateReset(&s) != Z_OK) throw fail("zlib could not start the next member");
    } else if (s.avail_in == 0 && left == 0 && s.avail_out > 0) {
      throw fail("it is cut short");
    }
  }
}

std::string read_plain_or_gzip(const std::filesystem::path& path, std::size_t limit) {
  std::string text = read_file(path, limit);
  return is_gzip(text) ? gunzip(text, path.string(), limit) : text;
}

}  // namespace unmask
