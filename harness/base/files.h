// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Files: small ones read or written whole, large ones mapped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unmask {

// Whole content of a regular file. Missing, unreadable or larger than limit bytes: environment
// error that names the file.
std::string read_file(const std::filesystem::path& path, std::size_t limit);

// Writes a file and makes the folders it lies in. Environment error that names the file.
void write_file(const std::filesystem::path& path, const std::string& text);
// The same, whole or not at all, also when the power goes: written beside, flushed to the disk and
// renamed. Processes that do so at the same time do not disturb each other; one that fails leaves
// nothing behind. A link keeps its target, and what is no regular file (/dev/null, a pipe) is written to.
void replace_file(const std::filesystem::path& path, const std::string& text);
// Waits until a file's content, or a folder's names, are on the disk. False: the system says that they
// are not, or, of a folder, that it cannot tell.
bool flush_to_disk(const std::filesystem::path& path);

bool is_file(const std::filesystem::path& path);  // a regular one that can be reached
// Something of this name, whatever it is: what may be left out of a folder but is there is read, so
// that a pipe, a folder or a link to nothing is refused, not passed over.
bool is_there(const std::filesystem::path& path);
// What a folder holds (of files with this extension alone, where one is given), sorted; nothing
// where it cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder,
                                              std::string_view extension = {});

// Where temporary files go: $TMPDIR, else /tmp. Environment error that names it where it is no folder.
std::filesystem::path temporary_folder();

// A folder of our own below the temporary one, which goes away again.
class scratch_folder {
 public:
  scratch_folder();
  ~scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Removes those that are there: of a process that is about to end without its destructors.
void remove_scratch_folders();

// A file mapped read-only; stays mapped while the pointer lives, and who opens or reads it meanwhile is
// given the same mapping, as long as the file was not replaced or changed. Empty files map to an empty
// span.
class mapped_file {
 public:
  static std::shared_ptr<const mapped_file> open(const std::filesystem::path& path);
  ~mapped_file();
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  mapped_file() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace unmask
