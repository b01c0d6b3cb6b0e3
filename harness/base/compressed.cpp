// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/compressed.h"

#include <minizip/unzip.h>

#include <array>
#include <memory>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/gunzip.h"

namespace unmask {
namespace {

constexpr std::size_t piece = std::size_t{1} << 18;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw environment_error(path.string() + ": " + why);
}

}  // namespace

std::string read_plain_or_gzip(const std::filesystem::path& path, std::size_t limit) {
  std::string text = read_file(path, limit);
  return is_gzip(text) ? gunzip(text, path.string(), limit) : text;
}

std::optional<std::string> read_zip_member(const std::filesystem::path& archive,
                                           const std::string& name, std::size_t limit) {
  const std::unique_ptr<void, int (*)(unzFile)> zip(unzOpen64(archive.c_str()), unzClose);
  if (!zip) refuse(archive, "is not a zip archive");
  for (int at = unzGoToFirstFile(zip.get()); at == UNZ_OK; at = unzGoToNextFile(zip.get())) {
    unz_file_info64 info{};
    std::array<char, 4096> member{};
    if (unzGetCurrentFileInfo64(zip.get(), &info, member.data(), member.size(), nullptr, 0, nullptr,
                                0) != UNZ_OK) {
      refuse(archive, "is broken");
    }
    const std::string path = member.data();
    if (path != name && !path.ends_with("/" + name)) continue;
    if (info.uncompressed_size > limit) refuse(archive, path + " is too large");
    std::string text(info.uncompressed_size, '\0');
    if (unzOpenCurrentFile(zip.get()) != UNZ_OK) refuse(archive, path + " cannot be unpacked");
    for (std::size_t done = 0; done < text.size();) {
      const int got =
          unzReadCurrentFile(zip.get(), text.data() + done,
                             static_cast<unsigned>(std::min(piece, text.size() - done)));
      if (got <= 0) refuse(archive, path + " cannot be unpacked");
      done += static_cast<std::size_t>(got);
    }
    if (unzCloseCurrentFile(zip.get()) != UNZ_OK) refuse(archive, path + " is broken");
    return text;
  }
  return std::nullopt;
}

}  // namespace unmask
