// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/bundle.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/analysis/store.h"
#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/process.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_file = std::size_t{2} << 30;
constexpr const char* sums_name = "SHA256SUMS";

bool belongs(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.empty() || name.front() == '.' || name == sums_name) return false;
  for (const char* ending : {".part", ".tar", ".log", "~"}) {
    if (name.ends_with(ending)) return false;
  }
  return name != "log.txt" && name != "README.md" && name != "environment.json";
}

// Relative names of the regular files below, sorted.
std::vector<std::string> files_below(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_symlink()) {
      throw environment_error(entry.path().string() +
                              " is a link; a bundle holds plain files only");
    }
    if (entry.is_regular_file()) {
      names.push_back(entry.path().lexically_relative(directory).generic_string());
    }
  }
  std::ranges::sort(names);
  return names;
}

std::string bundle_name(const run_manifest& m) {
  if (m.paper.empty()) return fs::path(m.file).stem();
  return m.paper + "_" + m.artifact + (m.scale.empty() ? "" : "_") + m.scale;
}

std::string readme(const run_manifest& m, const std::string& name, std::size_t points) {
  return fmt::format(
      "# {0}\n\nA run of `{1}`{2}, {3} points, by the program of commit {4}.\n\n"
      "Repeat it and compare, from the root of the source tree:\n\n    unmask rerun {0}.tar\n\n"
      "- `run.json`: the experiment's text, its scale, settings over it, every resolved point\n"
      "- `*.jsonl`: the measured rows (results/README.md of the source tree describes them)\n"
      "- `environment.json`: machine and build; `SHA256SUMS`: of every file (`sha256sum -c`)\n\n"
      "Tokens and counts repeat exactly on the same kernels; speeds do as ratios between "
      "methods.\n",
      name, m.file, m.scale.empty() ? "" : " at scale " + m.scale, points,
      m.source_hash.empty() ? "unknown" : m.source_hash);
}

// --sort and fixed owner, mode and time make the archive a function of its content.
void pack(const fs::path& stage, const std::string& name, const fs::path& file) {
  const fs::path beside = fs::absolute(file).string() + ".part";
  const int status = run_process({"tar", "--format=ustar", "--sort=name", "--mtime=@0", "--owner=0",
                                  "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX", "-C",
                                  stage.string(), "-cf", beside.string(), name});
  std::error_code failed;
  if (status == 0) fs::rename(beside, file, failed);
  if (status != 0 || failed) {
    fs::remove(beside, failed);
    throw environment_error(fmt::format("cannot write {} (tar ended with {}); GNU tar is needed",
                                        file.string(), status));
  }
}

std::map<std::string, std::string> sums_of(const fs::path& file) {
  std::map<std::string, std::string> sums;
  std::istringstream in(read_file(file, largest_file));
  for (std::string line; std::getline(in, line);) {
    if (line.size() < 67) throw environment_error(file.string() + ": broken line '" + line + "'");
    sums[line.substr(66)] = line.substr(0, 64);
  }
  return sums;
}

}  // namespace

std::vector<std::string> write_bundle(const fs::path& run, const fs::path& file) {
  if (!fs::is_directory(run)) throw environment_error(run.string() + " is no directory of a run");
  const run_manifest manifest = read_manifest(run / manifest_name);
  const std::vector<result_row> rows = read_rows(run).rows;
  if (rows.empty()) throw environment_error("there are no rows in " + run.string());
  const std::string name = bundle_name(manifest);
  const scratch_folder stage;
  const fs::path inside = stage.path() / name;
  fs::create_directories(inside);
  for (const std::string& path : files_below(run)) {
    if (!belongs(path)) continue;
    fs::create_directories((inside / path).parent_path());
    fs::copy_file(run / path, inside / path);
    fs::permissions(inside / path, fs::perms::owner_read | fs::perms::owner_write);  // never x
  }
  write_file(inside / "environment.json",
             nlohmann::ordered_json::parse(rows.back().environment).dump(1) + "\n");
  write_file(inside / "README.md", readme(manifest, name, rows.size()));
  std::string sums;
  std::vector<std::string> names = files_below(inside);
  for (const std::string& path : names) {
    sums += sha256_hex(read_file(inside / path, largest_file)) + "  " + path + "\n";
  }
  write_file(inside / sums_name, sums);
  if (file.has_parent_path()) fs::create_directories(file.parent_path());
  pack(stage.path(), name, file);
  names.emplace_back(sums_name);
  return names;
}

unpacked_bundle read_bundle(const fs::path& file, const fs::path& into) {
  std::error_code failed;
  if (!fs::is_regular_file(file, failed)) {
    throw environment_error("there is no bundle " + file.string());
  }
  fs::create_directories(into);
  // tar itself drops leading slashes and refuses names that lead out of the directory.
  const int status =
      run_process({"tar", "--no-same-owner", "-C", into.string(), "-xf", file.string()});
  if (status != 0) {
    throw environment_error(
        fmt::format("cannot unpack {}: tar ended with {}", file.string(), status));
  }
  unpacked_bundle bundle;
  for (const auto& entry : fs::directory_iterator(into)) {
    if (fs::exists(entry.path() / sums_name)) bundle.directory = entry.path();
  }
  if (bundle.directory.empty()) {
    throw environment_error(file.string() + " is no bundle: it has no " + sums_name);
  }
  const auto sums = sums_of(bundle.directory / sums_name);
  for (const auto& [name, sum] : sums) {
    const fs::path path = bundle.directory / name;
    if (name.find("..") != std::string::npos || fs::is_symlink(path) || !fs::exists(path)) {
      throw environment_error(file.string() + ": " + name + " is listed but not there");
    }
    if (sha256_hex(read_file(path, largest_file)) != sum) {
      throw environment_error(file.string() + ": " + name +
                              " does not have the hash it was listed "
                              "with; the bundle was changed");
    }
  }
  for (const std::string& name : files_below(bundle.directory)) {
    if (name != sums_name && !sums.contains(name)) {
      throw environment_error(file.string() + ": " + name + " is not listed in " + sums_name);
    }
  }
  bundle.manifest = read_manifest(bundle.directory / manifest_name);
  bundle.rows = read_rows(bundle.directory).rows;
  return bundle;
}

}  // namespace unmask
