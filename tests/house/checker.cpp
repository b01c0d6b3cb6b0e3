// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/house/checker.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

namespace unmask::house {
namespace {

namespace fs = std::filesystem;

constexpr int longest_file = 800;

// What may lie at the root of the repository. A checkout has .git, a folder or a file.
const std::set<std::string> root_names = {
    ".ci",          ".clang-format",  ".clang-tidy",       ".dockerignore",
    ".git",         ".gitattributes", ".gitignore",        "CHANGELOG.md",
    "CITATION.cff", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md",
    "GLOSSARY.md",  "LICENSE",        "README.md",         "cmake",
    "dev",          "experiments",    "harness",           "kernels",
    "methods",      "plots",          "pyproject.toml",    "results",
    "tests"};

struct room {
  const char* folder;
  std::vector<std::string> may_include;  // besides itself
};

const std::vector<std::string> every_room = {
    "harness/base",     "kernels",         "harness/model", "harness/devices", "harness/profile",
    "harness/workload", "harness/decode",  "methods",       "harness/engine",  "harness/rows",
    "harness/plan",     "harness/measure", "harness/run",   "harness/cli"};

// The arrows go one way, from the bottom of the house to its top; only the program and the tests
// know everything.
const std::vector<room>& rooms() {
  static const std::vector<room> table = {
      {"harness/base", {}},
      {"kernels", {"harness/base"}},
      {"harness/model", {"harness/base", "kernels"}},
      {"harness/devices", {"harness/base", "kernels"}},
      {"harness/profile", {"harness/base", "kernels"}},
      {"harness/workload", {"harness/base", "kernels", "harness/model"}},
      {"harness/decode", {"harness/base", "kernels", "harness/model", "harness/profile"}},
      {"methods", {"harness/base", "kernels", "harness/model", "harness/decode"}},
      {"harness/engine",
       {"harness/base", "kernels", "harness/model", "harness/profile", "harness/decode"}},
      {"harness/rows", {"harness/base"}},
      {"harness/plan",
       {"harness/base", "kernels", "harness/model", "harness/devices", "harness/workload",
        "harness/decode", "harness/engine", "harness/rows"}},
      {"harness/measure",
       {"harness/base", "kernels", "harness/model", "harness/devices", "harness/profile",
        "harness/workload", "harness/decode", "harness/engine", "harness/rows", "harness/plan"}},
      {"harness/run",
       {"harness/base", "harness/devices", "harness/profile", "harness/rows", "harness/plan",
        "harness/measure"}},
      {"harness/cli", every_room},
      {"harness/python/engine", every_room},
      {"tests", every_room},
  };
  return table;
}

bool inside(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 &&
         path[folder.size()] == '/';
}

// The cases of a method and of its operations lie in its folder and are linked by tests only.
bool is_case(const std::string& path) {
  return inside(path, "methods") &&
         (path.ends_with("/cases.cpp") || path.find("/cases/") != std::string::npos);
}

const room* room_of(const std::string& path) {
  if (is_case(path)) return &rooms().back();
  for (const room& candidate : rooms()) {
    if (inside(path, candidate.folder)) return &candidate;
  }
  return nullptr;
}

// The folder of the method that a file is of: methods/klass, methods/baselines/vanilla. Empty: of none,
// as methods/parts, the benchmarks and the files beside the folders.
std::string method_of(const std::string& path) {
  if (!inside(path, "methods")) return {};
  std::string folder = "methods";
  for (const char* group : {"methods/baselines", "methods/combinations"}) {
    if (inside(path, group)) folder = group;
  }
  const std::size_t end = path.find('/', folder.size() + 1);
  if (end == std::string::npos) return {};
  std::string method = path.substr(0, end);
  return method == "methods/parts" || method == "methods/bench" ? std::string() : method;
}

bool one_of(const std::string& word, std::initializer_list<const char*> list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_cpp(const fs::path& path) {
  return one_of(path.extension().string(), {".cpp", ".h", ".cu", ".cuh", ".hpp", ".cc", ".c"});
}

bool is_code(const fs::path& path) {
  return is_cpp(path) || one_of(path.extension().string(), {".py", ".sh", ".cmake"}) ||
         one_of(path.filename().string(), {"CMakeLists.txt", "dev"}) ||
         path.parent_path().filename() == ".ci";
}

bool is_text(const fs::path& path) {
  return is_code(path) ||
         one_of(path.extension().string(), {".md", ".toml", ".txt", ".json", ".in", ".yml"});
}

// What git ignores, git itself, and what should not be there at all.
bool skipped(const fs::path& folder, const fs::path& root) {
  const std::string name = folder.filename().string();
  if (folder.parent_path() != root) return name == "__pycache__";
  return name == ".git" || !root_names.contains(name);
}

std::vector<fs::path> files_under(const fs::path& root) {
  std::vector<fs::path> found;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator();
       ++it) {
    if (it->is_directory() && skipped(it->path(), root)) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file() && is_text(it->path())) {
      found.push_back(it->path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

// Of the root what its .gitignore names, and builds by any name.
bool ignored(const std::string& name, const fs::path& root) {
  if (name.starts_with("build")) return true;
  const std::vector<std::string> lines = lines_of(root / ".gitignore");
  return std::ranges::any_of(lines, [&](const std::string& line) {
    const std::size_t first = line.starts_with('/') ? 1 : 0;
    return line.substr(first, line.find_last_not_of('/') + 1 - first) == name;
  });
}

struct include {
  std::string target;
  bool quoted;
};

std::optional<include> include_on(const std::string& line) {
  std::size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '#') return std::nullopt;
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string::npos || line.compare(at, 7, "include") != 0) return std::nullopt;
  at = line.find_first_of("\"<", at);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t end = line.find_first_of("\">", at + 1);
  if (end == std::string::npos) return std::nullopt;
  return include{line.substr(at + 1, end - at - 1), line[at] == '"'};
}

// Folders of the machine a file was written on. In two pieces, so that this file may hold them.
const std::array<std::string, 4> workplace_paths = {
    std::string("/wor") + "k/", std::string("/far") + "m/", std::string("/roo") + "t/",
    std::string("/tm") + "p/bash_"};

class inspector {
 public:
  explicit inspector(fs::path root) : root_(std::move(root)) {}

  std::vector<violation> run() {
    check_root();
    for (const fs::path& path : files_under(root_)) inspect(path);
    for (const auto& [file, targets] : includes_) find_cycle(file);
    std::sort(found_.begin(), found_.end(), [](const violation& a, const violation& b) {
      return std::tie(a.file, a.line, a.rule) < std::tie(b.file, b.line, b.rule);
    });
    return std::move(found_);
  }

 private:
  void report(const std::string& file, int line, const char* rule, const std::string& text) {
    found_.push_back({file, line, rule, text});
  }

  void check_root() {
    for (const fs::directory_entry& entry : fs::directory_iterator(root_)) {
      const std::string name = entry.path().filename().string();
      if (root_names.contains(name) || ignored(name, root_)) continue;
      report(name, 0, "root", "has no place at the root of the repository");
    }
  }

  void inspect(const fs::path& path) {
    const std::string file = path.lexically_relative(root_).generic_string();
    const std::vector<std::string> lines = lines_of(path);
    check_paths(file, lines);
    if (!is_code(path)) return;
    check_head(file, lines, is_cpp(path));
    if (static_cast<int>(lines.size()) > longest_file) {
      report(file, 0, "length", std::to_string(lines.size()) + " lines; split it below 800");
    }
    if (!is_cpp(path)) return;
    check_includes(file, lines);
    if (path.extension() == ".h") check_types(file, lines);
  }

  // Two headers that define one type in namespace unmask: no compiler sees both, the linker takes
  // either, and the program crashes elsewhere.
  void check_types(const std::string& file, const std::vector<std::string>& lines) {
    bool in_unmask = false;  // not in a namespace within it, which has types of its own
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i] == "namespace unmask {") in_unmask = true;
      if (lines[i] == "}  // namespace unmask") in_unmask = false;
      if (!in_unmask) continue;
      std::istringstream words(lines[i]);
      std::string kind, name;
      words >> kind >> name;
      if (kind == "enum" && one_of(name, {"class", "struct"})) words >> name;
      const bool indented = lines[i].empty() || lines[i][0] == ' ';
      if (indented || !one_of(kind, {"class", "struct", "enum"}) || name.empty()) continue;
      if (lines[i].back() == ';' && lines[i].find('{') == std::string::npos) continue;  // declared
      if (name.find('<') != std::string::npos) continue;  // a specialisation
      const auto [first, fresh] = types_.emplace(name, file);
      if (!fresh) {
        report(file, static_cast<int>(i) + 1, "twice",
               "defines " + name + ", which " + first->second + " defines too");
      }
    }
  }

  void check_paths(const std::string& file, const std::vector<std::string>& lines) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      for (const std::string& place : workplace_paths) {
        if (lines[i].find(place) == std::string::npos) continue;
        report(file, static_cast<int>(i) + 1, "path", "names a folder of one machine: " + place);
      }
    }
  }

  // C and C++: licence, then copyright. Scripts: licence, after "#!" where there is one.
  void check_head(const std::string& file, const std::vector<std::string>& lines, bool cpp) {
    const std::string mark = cpp ? "// " : "# ";
    const std::size_t first = !lines.empty() && lines[0].compare(0, 2, "#!") == 0 ? 1 : 0;
    const auto line_is = [&](std::size_t i, const std::string& text) {
      return i < lines.size() && lines[i] == text;
    };
    if (!line_is(first, mark + "SPDX-License-Identifier: Apache-2.0")) {
      report(file, 1, "head", "the first line is not the SPDX licence line");
    } else if (cpp && !line_is(first + 1, mark + "Copyright The Unmask Authors")) {
      report(file, 2, "head", "the second line is not the copyright line");
    }
  }

  void check_includes(const std::string& file, const std::vector<std::string>& lines) {
    const room* home = room_of(file);
    if (home == nullptr) {
      report(file, 0, "room", "lies in no room of the house");
      return;
    }
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto found = include_on(lines[i]);
      if (!found) continue;
      const room* target = room_of(found->target);
      if (target == nullptr) {
        if (found->quoted) {
          report(file, static_cast<int>(i) + 1, "include",
                 "\"" + found->target + "\" does not start at the root of the repository");
        }
        continue;
      }
      includes_[file].insert(found->target);
      const auto& allowed = home->may_include;
      if (target != home &&
          std::find(allowed.begin(), allowed.end(), target->folder) == allowed.end()) {
        report(file, static_cast<int>(i) + 1, "include",
               std::string(home->folder) + " may not include " + target->folder);
      }
      check_method(file, static_cast<int>(i) + 1, found->target);
    }
  }

  // A method is made of parts, of itself and of at most the one that it extends; a combination of
  // any number. Parts include no method, and nobody includes a combination.
  void check_method(const std::string& file, int line, const std::string& target) {
    const std::string of = method_of(file), other = method_of(target);
    if (other.empty() || other == of || is_case(file)) return;
    if (inside(file, "methods/parts")) {
      report(file, line, "method", "methods/parts may not include " + other);
    } else if (!of.empty() && inside(other, "methods/combinations")) {
      report(file, line, "method", of + " may not include a combination");
    } else if (!of.empty() && !inside(of, "methods/combinations")) {
      const std::string& extended = extends_.emplace(of, other).first->second;
      if (extended != other) {
        report(file, line, "method",
               of + " extends " + extended + " and may not include " + other + " too");
      }
    }
  }

  // Depth first; a file that is met again on the way down closes a circle.
  void find_cycle(const std::string& file) {
    if (done_.count(file) != 0) return;
    if (const auto again = std::find(way_.begin(), way_.end(), file); again != way_.end()) {
      std::string circle;
      for (auto it = again; it != way_.end(); ++it) circle += *it + " -> ";
      report(*again, 0, "cycle", circle + file);
      return;
    }
    const auto targets = includes_.find(file);
    if (targets != includes_.end()) {
      way_.push_back(file);
      for (const std::string& target : targets->second) find_cycle(target);
      way_.pop_back();
    }
    done_.insert(file);
  }

  fs::path root_;
  std::vector<violation> found_;
  std::map<std::string, std::set<std::string>> includes_;
  std::map<std::string, std::string> types_;    // name to the header that defines it
  std::map<std::string, std::string> extends_;  // a method to the other one that it includes
  std::set<std::string> done_;
  std::vector<std::string> way_;
};

}  // namespace

std::vector<violation> check(const fs::path& root) {
  return inspector(root).run();
}

}  // namespace unmask::house
