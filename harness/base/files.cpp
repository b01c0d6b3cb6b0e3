// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "harness/base/error.h"

namespace unmask {
namespace {

class descriptor {
 public:
  explicit descriptor(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe must not block
    if (fd_ < 0 && errno == ENOENT) throw environment_error(path.string() + " does not exist");
    if (fd_ < 0) {
      throw environment_error(path.string() + ": cannot open the file (" + std::strerror(errno) +
                              ")");
    }
    struct stat info {};
    if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
      ::close(fd_);
      throw environment_error(path.string() + ": not a regular file");
    }
    size_ = static_cast<std::size_t>(info.st_size);
  }
  ~descriptor() { ::close(fd_); }
  descriptor& operator=(descriptor&&) = delete;
  int get() const { return fd_; }
  std::size_t size() const { return size_; }

 private:
  int fd_;
  std::size_t size_ = 0;
};

// Files that are mapped now, by path; a file that was replaced or changed is another one.
class mapped_files {
 public:
  std::shared_ptr<const mapped_file> find(const std::filesystem::path& path) {
    const std::lock_guard hold(guard_);
    const auto at = known_.find(path);
    if (at == known_.end()) return nullptr;
    std::shared_ptr<const mapped_file> mapping = at->second.mapping.lock();
    if (mapping && at->second.identity == identity_of(path)) return mapping;
    known_.erase(at);
    return nullptr;
  }
  void add(const std::filesystem::path& path, const std::shared_ptr<const mapped_file>& mapping) {
    const std::lock_guard hold(guard_);
    known_[path] = {mapping, identity_of(path)};
  }

 private:
  static std::vector<std::int64_t> identity_of(const std::filesystem::path& path) {
    struct stat s {};
    if (::stat(path.c_str(), &s) != 0) return {};
    return {static_cast<std::int64_t>(s.st_dev),
            static_cast<std::int64_t>(s.st_ino),
            static_cast<std::int64_t>(s.st_size),
            s.st_mtim.tv_sec,
            s.st_mtim.tv_nsec,
            s.st_ctim.tv_sec,
            s.st_ctim.tv_nsec};
  }
  struct entry {
    std::weak_ptr<const mapped_file> mapping;
    std::vector<std::int64_t> identity;
  };
  std::mutex guard_;
  std::map<std::filesystem::path, entry> known_;
};

mapped_files& mappings() {
  static mapped_files all;
  return all;
}

[[noreturn]] void refuse_size(const std::filesystem::path& path, std::size_t size,
                              std::size_t limit) {
  throw environment_error(path.string() + ": " + std::to_string(size) + " bytes, more than the " +
                          std::to_string(limit) + " such a file may have");
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t limit) {
  if (const auto mapped = mappings().find(path)) {
    const std::span<const std::byte> bytes = mapped->bytes();
    if (bytes.size() > limit) refuse_size(path, bytes.size(), limit);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  const descriptor file(path);
  if (file.size() > limit) refuse_size(path, file.size(), limit);
  std::string text(file.size(), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw environment_error(path.string() + ": cannot read the file");
    done += static_cast<std::size_t>(n);
  }
  return text;
}

namespace {

// Writes in place; false: it failed, for the reason in errno.
bool written(const std::filesystem::path& path, const std::string& text) {
  std::error_code failed;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failed);
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return static_cast<bool>(out);
}

// What processes that were killed left beside a file: theirs are gone, and a minute old.
void remove_left_parts(const std::filesystem::path& place) {
  const std::string stem = place.filename().string() + ".part";
  const std::filesystem::path folder = place.has_parent_path() ? place.parent_path() : ".";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stem)) continue;
    const std::string pid = name.substr(stem.size());
    if (pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto age = std::filesystem::file_time_type::clock::now() - entry.last_write_time(ignored);
    if (age < std::chrono::minutes(1) || std::filesystem::exists("/proc/" + pid, ignored)) continue;
    std::filesystem::remove(entry.path(), ignored);
  }
}

[[noreturn]] void fail_to_write(const std::filesystem::path& path, int reason) {
  throw environment_error("cannot write " + path.string() +
                          (reason != 0 ? std::string(" (") + std::strerror(reason) + ")" : ""));
}

}  // namespace

void write_file(const std::filesystem::path& path, const std::string& text) {
  if (!written(path, text)) fail_to_write(path, errno);
}

void replace_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code failed, ignored;
  // A link keeps its target; what is no regular file (/dev/stdout, a pipe) is written to.
  const std::filesystem::path place =
      is_there(path) ? std::filesystem::weakly_canonical(path, failed) : path;
  const std::filesystem::file_status before = std::filesystem::status(place, ignored);
  if (failed || (std::filesystem::exists(before) && !std::filesystem::is_regular_file(before))) {
    return write_file(path, text);
  }
  const std::filesystem::path beside = place.string() + ".part" + std::to_string(::getpid());
  const auto give_up = [&](int reason) {
    std::filesystem::remove(beside, ignored);
    fail_to_write(path, reason);
  };
  remove_left_parts(place);
  if (!written(beside, text)) give_up(errno);
  if (std::filesystem::exists(before)) {
    std::filesystem::permissions(beside, before.permissions(), ignored);
  }
  if (!flush_to_disk(beside)) give_up(errno);
  std::filesystem::rename(beside, place, failed);
  if (failed) give_up(failed.value());
  flush_to_disk(place.parent_path());
}

bool flush_to_disk(const std::filesystem::path& path) {
  const int file = ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = ::fsync(file) == 0;
  ::close(file);
  return done;
}

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder,
                                              std::string_view extension) {
  std::vector<std::filesystem::path> all;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (extension.empty() || entry.path().extension() == extension) all.push_back(entry.path());
  }
  std::ranges::sort(all);
  return all;
}

std::filesystem::path temporary_folder() {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(failed);
  if (!failed) return folder;
  const char* named = std::getenv("TMPDIR");
  throw environment_error(std::string("TMPDIR names ") + (named != nullptr ? named : "/tmp") +
                          ", which is no folder of this machine; set it to one, or unset it");
}

namespace {

struct scratch_folders {
  std::mutex guard;
  std::set<std::filesystem::path> all;
};

scratch_folders& scratches() {
  static scratch_folders of_this_process;
  return of_this_process;
}

}  // namespace

scratch_folder::scratch_folder() {
  std::string name = (temporary_folder() / "unmask-XXXXXX").string();
  const std::lock_guard alone(scratches().guard);
  if (!::mkdtemp(name.data())) {
    throw environment_error("cannot make a directory in " + name + " (" + std::strerror(errno) +
                            ")");
  }
  path_ = name;
  scratches().all.insert(path_);
}

scratch_folder::~scratch_folder() {
  const std::lock_guard alone(scratches().guard);
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  scratches().all.erase(path_);
}

void remove_scratch_folders() {
  const std::lock_guard alone(scratches().guard);
  std::error_code ignored;
  for (const std::filesystem::path& folder : scratches().all) {
    std::filesystem::remove_all(folder, ignored);
  }
}

std::shared_ptr<const mapped_file> mapped_file::open(const std::filesystem::path& path) {
  if (auto mapped = mappings().find(path)) return mapped;
  const descriptor file(path);
  std::shared_ptr<mapped_file> mapping(new mapped_file);
  if (file.size() == 0) return mapping;
  void* data = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) {
    throw environment_error(path.string() + ": cannot map the file into memory (" +
                            std::strerror(errno) + ")");
  }
  mapping->data_ = static_cast<const std::byte*>(data);
  mapping->size_ = file.size();
  mappings().add(path, mapping);
  return mapping;
}

mapped_file::~mapped_file() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace unmask
