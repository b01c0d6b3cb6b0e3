// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace unmask {
namespace {

namespace fs = std::filesystem;

std::string text_of(const char* variable) {
  const char* value = variable == nullptr ? nullptr : std::getenv(variable);
  return value == nullptr ? "" : value;
}

// Sub-folders of a folder; none where it cannot be read.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    if (std::error_code ignored; at->is_directory(ignored)) found.push_back(at->path());
  }
  return found;
}

// Adds nvidia/*/lib of every Python below an installation's root, such as /usr or a .venv.
void add_packages_of(const fs::path& root, std::vector<fs::path>& found) {
  for (const fs::path& base : {root / "lib", root / "local" / "lib", root / "lib64"}) {
    for (const fs::path& python : folders_in(base)) {
      if (!python.filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& part : folders_in(python / packages / "nvidia")) {
          if (fs::is_directory(part / "lib")) found.push_back(part / "lib");
        }
      }
    }
  }
}

std::string file_of(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "";
  return map->l_name;
}

}  // namespace

std::vector<fs::path> python_libraries() {
  std::vector<fs::path> found;
  if (const std::string venv = text_of("VIRTUAL_ENV"); !venv.empty()) add_packages_of(venv, found);
  std::istringstream folders(text_of("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path python = fs::path(folder) / "python3";
    std::error_code problem;
    if (folder.empty() || !fs::exists(python, problem)) continue;
    add_packages_of(fs::path(folder).parent_path(), found);
    // The interpreter that a link leads to may have packages of its own.
    const fs::path real = fs::canonical(python, problem);
    if (!problem) add_packages_of(real.parent_path().parent_path(), found);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

shared_library open_shared_library(const library_search& wanted) {
  shared_library result;
  const auto open = [&](const std::string& file) {
    result.tried += (result.tried.empty() ? "" : ", ") + file;
    result.handle = dlopen(file.c_str(), RTLD_NOW | (wanted.global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (result.handle != nullptr) result.path = file_of(result.handle);
    return result.handle != nullptr;
  };
  if (const std::string chosen = text_of(wanted.variable); !chosen.empty()) {
    open(chosen);
    return result;
  }
  for (const std::string& name : wanted.names) {
    if (open(name)) return result;
  }
  if (!wanted.built_with.empty() && open(wanted.built_with)) return result;
  for (const fs::path& folder : python_libraries()) {
    for (const std::string& name : wanted.names) {
      if (fs::exists(folder / name) && open((folder / name).string())) return result;
    }
  }
  result.tried += ", nvidia/*/lib of the packages of every python3 on PATH";
  return result;
}

}  // namespace unmask
