// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/locate.h"

#include <algorithm>
#include <cstdlib>

#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/package.h"
#include "harness/base/process.h"

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

// Below the folder that it is looked for in.
bool stays_below(const fs::path& name) {
  return !name.is_absolute() && std::ranges::find(name, fs::path("..")) == name.end();
}

}  // namespace

fs::path shipped_experiments() {
  if (const fs::path root = program_root(); !root.empty()) return root / "experiments";
  std::error_code ignored;
  for (fs::path folder = folder_of_code(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (fs::is_directory(folder / "experiments/models", ignored)) return folder / "experiments";
  }
  return {};
}

std::vector<fs::path> embedded_places(const fs::path& beside) {
  std::vector<fs::path> places;
  if (!beside.empty()) places.push_back(fs::absolute(beside).lexically_normal());
  if (const fs::path shipped = shipped_experiments(); !shipped.empty()) places.push_back(shipped);
  return places;
}

std::string models_wheel() {
  const fs::path shipped = shipped_experiments();
  std::error_code ignored;
  if (shipped.empty() || fs::is_directory(shipped / "models", ignored)) return "";
  return "; the small models are the wheel unmask-models: pip install ./experiments/models in the "
         "source tree";
}

std::string looked_in(const fs::path& beside) {
  std::string text;
  for (const fs::path& place : embedded_places(beside)) {
    text += (text.empty() ? "looked in " : " and ") + place.string();
  }
  text += models_wheel();
  return text.empty() ? "this program has no folder `experiments` with it; UNMASK_ROOT names the "
                        "source tree"
                      : text;
}

std::optional<fs::path> find_embedded(const fs::path& path, const fs::path& beside) {
  std::error_code ignored;
  if (!beside.empty() && stays_below(path)) {
    const fs::path candidate = fs::absolute(beside) / path;
    if (fs::exists(candidate, ignored)) return candidate.lexically_normal();
  }
  fs::path name;
  for (const fs::path& part : path.lexically_normal()) {
    const bool leading = name.empty() && (part == ".." || part == "experiments");
    if (!leading) name /= part;
  }
  const fs::path shipped = shipped_experiments();
  if (shipped.empty() || name.empty() || !stays_below(name)) return std::nullopt;
  if (!fs::exists(shipped / name, ignored)) return std::nullopt;
  return (shipped / name).lexically_normal();
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

std::optional<fs::path> find_weights(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const std::string last = slash == std::string::npos ? name : name.substr(slash + 1);
  if (last.empty() || last == "." || !stays_below(name)) return std::nullopt;
  for (const fs::path& directory : model_folders()) {
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

std::string nearest_model(const fs::path& given, const fs::path& beside) {
  std::vector<fs::path> places = model_folders();
  for (const fs::path& place : embedded_places(beside)) {
    places.push_back(place / "models");
    if (place != shipped_experiments()) places.push_back(place);
  }
  std::vector<std::string> known;
  for (const fs::path& place : places) {
    for (const fs::path& entry : entries_of(place)) {
      if (is_file(entry / "config.json")) known.push_back(entry.filename().string());
    }
  }
  const fs::path bare = given.has_filename() ? given : given.parent_path();  // "folder/"
  const std::string sentence = unknown_name("model", bare.filename().string(), known);
  const std::size_t question = sentence.find("; did you mean ");
  return question == std::string::npos ? "" : sentence.substr(question);
}

std::vector<fs::path> model_folders() {
  return directories_of("UNMASK_MODELS");
}

std::vector<fs::path> dataset_folders() {
  return directories_of("UNMASK_DATASETS");
}

std::optional<fs::path> find_trace(const std::string& file) {
  if (!stays_below(file)) return std::nullopt;
  for (const fs::path& directory : dataset_folders()) {
    const fs::path candidate = directory / "traces" / file;
    if (is_file(candidate)) return candidate;
  }
  return std::nullopt;
}

}  // namespace unmask
