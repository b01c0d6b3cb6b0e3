// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/store.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/output.h"
#include "harness/base/process.h"
#include "harness/rows/json_of.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_file = std::size_t{4} << 30;
// Editors put it before a text; files that were joined have it before any line.
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

[[noreturn]] void fail(const fs::path& path, const std::string& what,
                       const std::string& more = "") {
  throw environment_error("cannot " + what + " " + path.string() + ": " + std::strerror(errno) +
                          more);
}

// Whether a last line without its end was cut short as it was written. One that is whole and no row
// of this program, a later version's say, must not be lost.
bool is_torn(const std::string& line) {
  return tree_of(line).is_discarded();
}

void refuse_later_version(const std::string& line, const std::string& where) {
  try {
    parse_row(line, where);
  } catch (const unknown_schema&) {
    throw;
  } catch (const error&) {  // no row of any version: readers step over it
  }
}

// False when the system refuses; errno says why.
bool write_all(int descriptor, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(descriptor, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return ::fsync(descriptor) == 0;
}

// A note on standard error, not again while the program runs: claims read a file many times.
void say_once(const std::string& note) {
  static std::mutex guard;
  static std::set<std::string> said;
  const std::lock_guard hold(guard);
  if (said.insert(note).second) tell("{}\n", note);
}

// The lines of a file that are no rows, said in one note: a file of another kind has thousands. The
// package says the same (harness/python/unmask/rows/rows.py).
class passed_over {
 public:
  explicit passed_over(fs::path path) : path_(std::move(path)) {}
  void add(std::size_t number, const std::string& why, bool is_json, bool last) {
    if (numbers_.empty()) {
      first_ = why;
      json_ = is_json;
    }
    numbers_.push_back(number);
    torn_ = last && !is_json;
  }
  void add_changed(std::size_t number) { changed_.push_back(number); }
  std::size_t count() const { return numbers_.size(); }
  void say(std::size_t rows) const {
    const std::string file = path_.string();
    if (!changed_.empty()) {
      const std::string more = changed_.size() > 1
                                   ? fmt::format(", and {} more rows were", changed_.size() - 1)
                                   : " was";
      say_once(
          fmt::format("note: {}:{}{} changed after it was written: `sha256` does not fit, no "
                      "verdict rests on such a row",
                      file, changed_.front(), more));
    }
    if (numbers_.empty()) return;
    std::string note = fmt::format("note: {}:{}: passed over a line that is no result row ({})",
                                   file, numbers_.front(), first_);
    if (numbers_.size() > 1) {
      note += fmt::format(", and {} more{}", numbers_.size() - 1, listed(1, ", ", " (", ")"));
    }
    say_once(note + "; all other rows count. " + advice(rows));
  }

 private:
  static constexpr std::size_t most_named = 20;

  // The numbers from one on, each behind `before`; nothing where they are too many to read.
  std::string listed(std::size_t from, const char* between, const std::string& before,
                     const std::string& after) const {
    if (numbers_.size() > most_named) return "";
    std::string text;
    for (std::size_t i = from; i < numbers_.size(); ++i) {
      text += (text.empty() ? before : between) + std::to_string(numbers_[i]);
    }
    return text + after;
  }
  std::string advice(std::size_t rows) const {
    if (torn_ && numbers_.size() == 1) {
      return "It was cut off as it was written: the next run into this folder moves it aside";
    }
    if (numbers_.size() > 1 && rows == 0 && !json_) {
      return "No line is one: of JSON over several lines `" +
             shell_line({"jq", "-c", ".[]?", path_.string()}) + "` writes a row a line";
    }
    const std::string again = "Run the command that wrote them once more to measure their points";
    if (numbers_.size() > most_named) return again;
    const std::string lines = listed(0, "d;", "", "d"), file = path_.string();
    return again + "; `" + shell_line({"sed", "-i.damaged", lines, file}) + "` takes " +
           (numbers_.size() > 1 ? "all of them out at once" : "it out") +
           " and keeps the file as it is beside it";
  }

  fs::path path_;
  std::vector<std::size_t> numbers_, changed_;
  std::string first_;
  bool json_ = false;  // the first of them is JSON, though no row
  bool torn_ = false;
};

std::size_t visit_file(const fs::path& path,
                       const std::function<void(result_row&&, const std::string& line,
                                                const std::string& where)>& visit) {
  const std::string text = read_file(path, largest_file);
  std::size_t begin = 0, rows = 0;
  passed_over passed(path);
  for (std::size_t number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    const bool last = end == std::string::npos;
    std::string line = text.substr(begin, last ? std::string::npos : end - begin);
    const std::string where = path.string() + ":" + std::to_string(number);
    begin = last ? text.size() : end + 1;
    if (line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::optional<result_row> row;
    try {
      row = parse_row(line, where);
    } catch (const no_row& problem) {
      passed.add(number, problem.reason, !is_torn(line), last);
    }
    if (!row) continue;
    ++rows;
    if (row->changed) passed.add_changed(number);
    visit(std::move(*row), line, where);
  }
  passed.say(rows);
  return passed.count();
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
  try {
    const std::string text = read_file(path, largest_file);
    if (!text.empty() && text.back() != '\n') {
      const std::size_t newline = text.rfind('\n');
      const std::size_t start = newline == std::string::npos ? 0 : newline + 1;
      const std::string line = text.substr(start);
      if (!is_torn(line)) {
        refuse_later_version(line, path.string() + ": its last line");
        if (!write_all(descriptor_, "\n")) fail(path, "write to");
      } else {
        replace_file(path.string() + ".torn", line);
        if (::ftruncate(descriptor_, static_cast<off_t>(start)) != 0) {
          fail(path, "cut the torn last line off");
        }
      }
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  flush_to_disk(path.parent_path());
}

line_file::~line_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void line_file::append(const std::string& line) {
  struct stat before {};
  if (::fstat(descriptor_, &before) != 0) fail(path_, "look at");
  if (write_all(descriptor_, (half_ ? "\n" : "") + line + "\n")) {
    half_ = false;
    return;
  }
  // Whatever of it is there, and what a failed fsync may or may not have kept, goes again.
  const int reason = errno;
  const bool undone = ::ftruncate(descriptor_, before.st_size) == 0;
  if (!undone) half_ = true;
  errno = reason;
  fail(path_, "write to",
       undone ? "; nothing of the line is left, what stood before it is kept"
              : "; half a line may be left, which readers step over");
}

std::size_t for_each_row(const fs::path& path,
                         const std::function<void(result_row&&, const std::string& line,
                                                  const std::string& where)>& visit) {
  if (!fs::is_directory(path)) {
    if (!fs::exists(path)) throw environment_error(path.string() + " does not exist");
    return visit_file(path, visit);
  }
  std::size_t broken = 0;
  for (const fs::path& file : entries_of(path, ".jsonl")) {
    if (!file.filename().string().starts_with("samples_")) broken += visit_file(file, visit);
  }
  return broken;
}

stored_rows read_rows(const fs::path& path) {
  stored_rows stored;
  stored.broken = for_each_row(path, [&](result_row&& row, const std::string&, const std::string&) {
    stored.rows.push_back(std::move(row));
  });
  return stored;
}

std::set<std::string> completed_points(const std::vector<result_row>& rows) {
  std::set<std::string> done;
  for (const result_row& row : rows) {
    if (row.verdict != row_verdict::failed && !row.changed) done.insert(row.point_id);
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
