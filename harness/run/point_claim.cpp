// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/point_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/output.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t largest_claim = std::size_t{64} << 20;
// A claim is written right after it is created. One that is still empty after so long was left so.
constexpr double seconds_to_write = 10;
constexpr auto patience = std::chrono::seconds(120);  // for a turn: others read their rows in it

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// When a process was started, in ticks since the machine was; "": there is none.
std::string start_of(std::int64_t pid) {
  const std::string line = first_line("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = line.rfind(')');  // the name may hold blanks and brackets
  if (name_end == std::string::npos) return "";
  std::istringstream rest(line.substr(name_end + 1));
  std::string word;
  for (int field = 3; field <= 22; ++field) rest >> word;
  return word;
}

// What two processes must share for the one to be able to look for the other: host, boot and the
// numbering of processes (containers have their own).
json view_of_processes() {
  std::error_code ignored;
  return {{"host", host_name()},
          {"boot", first_line("/proc/sys/kernel/random/boot_id")},
          {"processes", fs::read_symlink("/proc/self/ns/pid", ignored).string()}};
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

json this_process() {
  json self = view_of_processes();
  self["pid"] = ::getpid();
  self["start"] = start_of(::getpid());
  self["since"] = now_utc();
  return self;
}

std::string reason_of(int number) {
  return std::strerror(number);
}

// The text of a claim as far as it can be read; an empty object for any other.
json record_of(const fs::path& file) {
  try {
    json record = json::parse(read_file(file, largest_claim), nullptr, false);
    if (record.is_object()) return record;
  } catch (const error&) {  // gone meanwhile
  }
  return json::object();
}

std::string text_in(const json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string owner_of(const json& record) {
  const auto pid = record.find("pid");
  const bool known = pid != record.end() && pid->is_number_integer();
  return fmt::format("process {} on {}, since {}",
                     known ? std::to_string(pid->get<std::int64_t>()) : "?",
                     text_in(record, "host"), text_in(record, "since"));
}

double age_of(const fs::path& file) {
  struct stat s {};
  if (::stat(file.c_str(), &s) != 0) return 0;
  return std::difftime(std::time(nullptr), s.st_mtime);
}

// Whether the run of a claim goes on, as far as this process can tell. `free`: its lock is.
bool goes_on(const fs::path& file, const json& record, bool free) {
  if (record.empty()) return age_of(file) < seconds_to_write;
  if (free && record.value("flock", json()) == true) return false;
  const json here = view_of_processes();
  for (const char* key : {"host", "boot", "processes"}) {
    if (text_in(record, key) != text_in(here, key)) return true;  // nobody here can tell
  }
  const auto pid = record.find("pid");
  if (pid == record.end() || !pid->is_number_integer()) return true;
  const std::string start = start_of(pid->get<std::int64_t>());
  return !start.empty() && start == text_in(record, "start");
}

bool same_file(int descriptor, const fs::path& file) {
  struct stat held {
  }, there{};
  return ::fstat(descriptor, &held) == 0 && ::stat(file.c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

// True when nobody holds this file: it is gone, or was left by a run that is over and is now removed.
// Whoever removes it holds its lock meanwhile, so that two do not, one of them the next owner's.
bool nobody_holds(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return errno == ENOENT;
  const bool free = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  const bool held = !free && (errno == EWOULDBLOCK || errno == EINTR);
  const json record = held ? json() : record_of(file);
  const bool over = !held && !goes_on(file, record, free) && same_file(descriptor, file);
  if (over) {
    tell("{}: left by a run that is over ({}); removed\n", file.string(), owner_of(record));
    ::unlink(file.c_str());
  }
  ::close(descriptor);
  return over;
}

// Creates a file that nobody else has and writes who holds it; -1: it is there already.
int create(const fs::path& file, json record) {
  int descriptor = -1;
  for (int again = 0; descriptor < 0; ++again) {
    descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor >= 0) break;
    if (errno == EEXIST) return -1;
    std::error_code ignored;  // a run that ended has just taken the folder away
    const bool gone = errno == ENOENT && again < 100;
    if (gone) fs::create_directories(file.parent_path(), ignored);
    if (!gone) throw environment_error("cannot write " + file.string() + ": " + reason_of(errno));
  }
  int locked = 0;
  do {
    locked = ::flock(descriptor, LOCK_EX);  // somebody who looks may hold it for a moment
  } while (locked != 0 && errno == EINTR);
  record["flock"] = locked == 0;
  const std::string text = record.dump() + "\n";
  if (::write(descriptor, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    const std::string reason = reason_of(errno);
    ::unlink(file.c_str());
    ::close(descriptor);
    throw environment_error("cannot write " + file.string() + ": " + reason);
  }
  ::fsync(descriptor);  // for other hosts; a claim that is lost with the power claims nothing
  return descriptor;
}

// The right to look at the claims and add one, of one process at a time.
class turn {
 public:
  explicit turn(const fs::path& folder) : file_(folder / "turn") {
    const auto end = std::chrono::steady_clock::now() + patience;
    while ((descriptor_ = create(file_, this_process())) < 0) {
      if (nobody_holds(file_)) continue;
      if (std::chrono::steady_clock::now() > end) {
        throw environment_error(fmt::format(
            "{} is held by another run ({}); wait for it or, if it is over, delete the file",
            file_.string(), owner_of(record_of(file_))));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  ~turn() {
    ::unlink(file_.c_str());
    ::close(descriptor_);
  }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

 private:
  fs::path file_;
  int descriptor_ = -1;
};

}  // namespace

point_claim::point_claim(const fs::path& folder, const std::string& rows_file,
                         const std::function<std::vector<std::string>()>& choose)
    : folder_(folder / ".claims") {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) throw environment_error("cannot write " + folder_.string() + ": " + failed.message());
  const turn mine(folder_);
  claim(rows_file, choose());
}

void point_claim::claim(const std::string& rows_file, const std::vector<std::string>& points) {
  const std::set<std::string> wanted(points.begin(), points.end());
  for (const fs::path& other : entries_of(folder_)) {
    if (!other.filename().string().starts_with("run-") || nobody_holds(other)) continue;
    const json record = record_of(other);
    std::size_t common = 0;
    if (const auto theirs = record.find("points"); theirs != record.end() && theirs->is_array()) {
      for (const json& id : *theirs) common += id.is_string() && wanted.contains(id);
    }
    const bool same_rows = !wanted.empty() && text_in(record, "rows") == rows_file;
    if (common == 0 && !same_rows && (wanted.empty() || !record.empty())) continue;
    throw environment_error(fmt::format(
        "another run is writing to {} ({}): {}; wait for it or choose another output directory; if "
        "it is over, delete {}",
        folder_.parent_path().string(), owner_of(record),
        common > 0 ? fmt::format("it measures {} of these {} points", common, wanted.size())
                   : "it writes " + rows_file,
        other.string()));
  }
  if (wanted.empty()) return;  // nothing to measure, but what others left is gone
  json record = this_process();
  record["rows"] = rows_file;
  record["points"] = points;
  for (int n = 0; descriptor_ < 0; ++n) {
    file_ = folder_ / fmt::format("run-{}-{}-{}", host_name(), ::getpid(), n);
    descriptor_ = create(file_, record);
  }
}

void point_claim::release() {
  if (descriptor_ >= 0) {
    ::unlink(file_.c_str());
    ::close(descriptor_);
    descriptor_ = -1;
  }
  std::error_code ignored;
  fs::remove(folder_, ignored);  // empty: the last run takes it away
}

}  // namespace unmask
