// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/confine.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/plan/locate.h"
#include "harness/plan/serve_settings.h"
#include "harness/plan/settings.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

struct named_path {
  std::string key;
  fs::path path;
  bool written = false;
};

// Of a key of [run], [serve] or params, whose value may name a file.
void add_setting(const std::string& key, const parameter_value& value,
                 std::vector<named_path>& into) {
  const auto* text = std::get_if<std::string>(&value);
  if (!text || text->empty()) return;
  if (is_written(key)) into.push_back({key, *text, true});
  if (const auto file = named_file(value)) into.push_back({key, *file});
}

// What the keys of a table name; key: "model." before their own.
template <class Table>
void add_paths(const std::string& key, const Table& table, std::vector<named_path>& into) {
  each_path(table, [&](const std::string& name, const fs::path& path) {
    if (!path.empty()) into.push_back({key + name, path});
  });
}

std::vector<named_path> paths_of(const experiment_spec& spec) {
  std::vector<named_path> all;
  add_paths("artifact.", spec.artifact, all);
  for (model_entry m : spec.models) {
    if (!m.published.empty()) m.path.clear();  // looked up by its name
    add_paths("model.", m, all);
    for (const dotted_setting& s : m.settings) add_setting(s.key, s.value, all);
  }
  for (const workload_entry& w : spec.workloads) {
    workload_table stated;
    stated.entry = w;
    if (!w.file.string().starts_with("trace:")) stated.file = w.file;
    add_paths("workload.", stated, all);
  }
  for (const method_entry& m : spec.methods) {
    for (const auto& [name, value] : m.params) add_setting("params." + name, value, all);
  }
  add_setting("run.impose", spec.run.impose, all);
  for (const auto& [name, value] : spec.run.serve) add_setting("serve." + name, value, all);
  for (const sweep_axis& axis : spec.axes) {
    for (const parameter_value& value : axis.values) add_setting(axis.key, value, all);
  }
  for (const dotted_setting& s : spec.overrides) add_setting(s.key, s.value, all);
  return all;
}

fs::path resolved(const fs::path& path) {
  std::error_code failed;
  const fs::path real = fs::weakly_canonical(fs::absolute(path), failed);
  return failed ? fs::absolute(path).lexically_normal() : real;
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  if (folder.empty()) return false;
  fs::path place = resolved(folder);
  if (!place.has_filename()) place = place.parent_path();  // "folder/"
  const fs::path real = resolved(path);
  return std::mismatch(place.begin(), place.end(), real.begin(), real.end()).first == place.end();
}

// The first line of what `key` writes: of serve.log, or of serve.record.
bool is_such_a_file(const fs::path& path, const std::string& key) {
  constexpr std::size_t largest = std::size_t{1} << 30;
  if (!is_file(path)) return false;
  const std::string text = read_file(path, largest);
  const std::string line = text.substr(0, text.find('\n'));
  if (text.empty()) return true;
  if (key.ends_with("log")) return line.starts_with("time,seconds,predicted_seconds,");
  return line.find_first_not_of("0123456789:- ") == std::string::npos;
}

[[noreturn]] void refuse(const experiment_spec& spec, const named_path& p,
                         const std::string& what) {
  throw usage_error(spec.file + ": `" + p.key + "` is " + p.path.string() + ", " + what +
                    "; --allow-outside lets this experiment read and write anywhere");
}

}  // namespace

bool may_read(const fs::path& path, const path_bounds& bounds) {
  if (bounds.anywhere || bounds.folder.empty()) return true;
  std::vector<fs::path> places = model_folders();
  std::ranges::move(dataset_folders(), std::back_inserter(places));
  places.push_back(shipped_experiments());
  places.push_back(bounds.folder);
  std::error_code none;
  places.push_back(fs::current_path(none));
  return std::ranges::any_of(places, [&](const fs::path& place) { return lies_in(path, place); });
}

void check_paths(const experiment_spec& spec, const path_bounds& bounds) {
  if (bounds.anywhere) return;
  std::error_code none;
  for (const named_path& p : paths_of(spec)) {
    if (p.written) {
      if (!lies_in(p.path, fs::current_path(none))) refuse(spec, p, "outside the current folder");
      const bool there = fs::exists(fs::symlink_status(p.path, none));
      if (there && !is_such_a_file(p.path, p.key)) {
        refuse(spec, p, "a file that is there and was not written by such a run");
      }
    } else if (!may_read(p.path, bounds)) {
      refuse(spec, p, "outside " + bounds.folder.string());
    }
  }
}

}  // namespace unmask
