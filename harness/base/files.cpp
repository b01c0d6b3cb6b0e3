// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

#include "harness/base/error.h"

namespace unmask {
namespace {

class descriptor {
 public:
  explicit descriptor(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe must not block
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

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code failed;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failed);
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw environment_error("cannot write " + path.string());
}

void replace_file(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path beside = path.string() + ".part" + std::to_string(::getpid());
  std::error_code failed, ignored;
  try {
    write_file(beside, text);
    if (!flush_to_disk(beside)) throw environment_error("cannot flush " + beside.string());
    std::filesystem::rename(beside, path, failed);
    if (failed) throw environment_error("cannot write " + path.string());
  } catch (...) {
    std::filesystem::remove(beside, ignored);
    throw;
  }
  flush_to_disk(path.parent_path());
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

scratch_folder::scratch_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "unmask-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw environment_error("cannot make a directory in " + name);
  path_ = name;
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
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
