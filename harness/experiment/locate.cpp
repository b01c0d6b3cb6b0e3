// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/locate.h"

#include <algorithm>
#include <cstdlib>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<fs::path> directories_of(const char* name) {
  std::vector<fs::path> all;
  const std::string text = variable(name);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) all.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

// A folder and those above it.
void climb(const fs::path& start, std::vector<fs::path>& into) {
  fs::path place = fs::absolute(start.empty() ? fs::path(".") : start).lexically_normal();
  while (true) {
    if (std::ranges::find(into, place) == into.end()) into.push_back(place);
    if (!place.has_parent_path() || place == place.parent_path()) return;
    place = place.parent_path();
  }
}

std::optional<fs::path> newest_snapshot(const fs::path& repository) {
  std::optional<fs::path> newest;
  fs::file_time_type when{};
  for (const fs::path& snapshot : entries_of(repository / "snapshots")) {
    std::error_code failed;
    const auto changed = fs::last_write_time(snapshot, failed);
    if (failed || !is_file(snapshot / "config.json")) continue;
    if (!newest || changed > when) {
      newest = snapshot;
      when = changed;
    }
  }
  return newest;
}

}  // namespace

std::vector<fs::path> embedded_places(const fs::path& start) {
  std::vector<fs::path> places;
  std::error_code none;
  climb(start, places);
  climb(fs::current_path(none), places);
  if (const fs::path program = fs::read_symlink("/proc/self/exe", none); !none) {
    climb(program.parent_path(), places);
  }
  return places;
}

std::string looked_in(const fs::path& start) {
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none).parent_path();
  return "looked in and above " + fs::absolute(start.empty() ? "." : start).string() + ", " +
         fs::current_path(none).string() + " and " + program.string();
}

std::optional<fs::path> find_embedded(const fs::path& path, const fs::path& start) {
  std::error_code ignored;
  for (const fs::path& place : embedded_places(start)) {
    for (const fs::path& candidate : {place / path, place / "experiments" / path}) {
      if (fs::exists(candidate, ignored)) return candidate.lexically_normal();
    }
  }
  return std::nullopt;
}

std::optional<fs::path> find_weights(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const std::string last = slash == std::string::npos ? name : name.substr(slash + 1);
  if (last.empty() || last == "." || last == "..") return std::nullopt;
  for (const fs::path& directory : directories_of("UNMASK_MODELS")) {
    for (const fs::path& candidate : {directory / name, directory / last}) {
      if (is_file(candidate / "config.json")) return candidate;
    }
  }
  std::vector<fs::path> caches = directories_of("HF_HUB_CACHE");
  if (const std::string home = variable("HF_HOME"); !home.empty()) {
    caches.push_back(fs::path(home) / "hub");
  }
  if (const std::string home = variable("HOME"); !home.empty()) {
    caches.push_back(fs::path(home) / ".cache/huggingface/hub");
  }
  const std::string wanted =
      slash == std::string::npos ? "--" + last : "models--" + name.substr(0, slash) + "--" + last;
  for (const fs::path& cache : caches) {
    for (const fs::path& repository : entries_of(cache)) {
      const std::string stem = repository.filename().string();
      if (!stem.starts_with("models--") || !stem.ends_with(wanted)) continue;
      if (auto found = newest_snapshot(repository)) return found;
    }
  }
  return std::nullopt;
}

std::vector<fs::path> dataset_folders() {
  return directories_of("UNMASK_DATASETS");
}

std::optional<fs::path> find_trace(const std::string& file) {
  for (const fs::path& directory : directories_of("UNMASK_DATASETS")) {
    const fs::path candidate = directory / "traces" / file;
    if (is_file(candidate)) return candidate;
  }
  return std::nullopt;
}

}  // namespace unmask
