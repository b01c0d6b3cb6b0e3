// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/store.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/analysis/json_of.h"
#include "harness/base/error.h"
#include "harness/base/files.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_file = std::size_t{4} << 30;

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw environment_error("cannot " + what + " " + path.string() + ": " + std::strerror(errno));
}

// Whether a last line without its end was cut short as it was written. One that is whole and no row
// of this program, a later version's say, must not be lost.
bool is_torn(const std::string& line) {
  return tree_of(line).is_discarded();
}

void write_all(int descriptor, const fs::path& path, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(descriptor, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(path, "write to");
    done += static_cast<std::size_t>(n);
  }
  if (::fsync(descriptor) != 0) fail(path, "flush");
}

void flush_directory(const fs::path& directory) {
  const int d = ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY);
  if (d < 0) return;  // some file systems refuse; the row itself is flushed
  ::fsync(d);
  ::close(d);
}

void read_file_rows(const fs::path& path, stored_rows& into) {
  const std::string text = read_file(path, largest_file);
  std::size_t begin = 0;
  for (std::size_t number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    const bool last = end == std::string::npos;
    const std::string line = text.substr(begin, last ? std::string::npos : end - begin);
    const std::string where = path.string() + ":" + std::to_string(number);
    begin = last ? text.size() : end + 1;
    if (line.empty()) continue;
    if (last && is_torn(line)) {
      ++into.torn;
      continue;
    }
    into.rows.push_back(parse_row(line, where));
  }
}

}  // namespace

line_file::line_file(const fs::path& path) : path_(path) {
  std::error_code failure;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), failure);
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(path, "open");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    throw environment_error("another run is writing to " + path.string() +
                            "; wait for it or choose another output directory");
  }
  const std::string text = read_file(path, largest_file);
  if (!text.empty() && text.back() != '\n') {
    const std::size_t newline = text.rfind('\n');
    const std::size_t start = newline == std::string::npos ? 0 : newline + 1;
    const std::string line = text.substr(start);
    if (!is_torn(line)) {
      parse_row(line, path.string() + ": its last line");
      write_all(descriptor_, path_, "\n");
    } else {
      replace_file(path.string() + ".torn", line);
      if (::ftruncate(descriptor_, static_cast<off_t>(start)) != 0) {
        fail(path, "cut the torn last line off");
      }
    }
  }
  flush_directory(path.parent_path());
}

line_file::~line_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void line_file::append(const std::string& line) {
  write_all(descriptor_, path_, line + "\n");
}

stored_rows read_rows(const fs::path& path) {
  stored_rows stored;
  if (!fs::is_directory(path)) {
    if (!fs::exists(path)) throw environment_error("there are no results at " + path.string());
    read_file_rows(path, stored);
    return stored;
  }
  for (const fs::path& file : entries_of(path, ".jsonl")) {
    if (!file.filename().string().starts_with("samples_")) read_file_rows(file, stored);
  }
  return stored;
}

std::set<std::string> completed_points(const std::vector<result_row>& rows) {
  std::set<std::string> done;
  for (const result_row& row : rows) {
    if (row.verdict != verdict_kind::failed) done.insert(row.point_id);
  }
  return done;
}

fs::path rows_file(const fs::path& directory, std::size_t part, std::size_t parts) {
  if (parts <= 1) return directory / "rows.jsonl";
  char name[64];
  std::snprintf(name, sizeof name, "part-%05zu-of-%05zu.jsonl", part, parts);
  return directory / name;
}

}  // namespace unmask
