// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/softgpu/images.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/softgpu/machine.h"

namespace unmask::softgpu {

images& images::all() {
  static auto* one = new images;
  return *one;
}

images::images() : arch_(device().images()) {
  const char* named = std::getenv("UNMASK_SOFTGPU_IMAGES");
  const std::string list = named != nullptr ? named : UNMASK_SOFTGPU_IMAGES_FILE;
  std::ifstream in(list);
  if (!in) note_host("no images", "cannot read " + list);
  std::string kind, path;
  while (in >> kind && std::getline(in >> std::ws, path)) {
    if (kind == std::to_string(arch_)) read_module(path);
    if (kind == "ptxas") read_report(path);
  }
}

void images::read_module(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream content;
  content << in.rdbuf();
  std::string text = content.str();
  if (text.empty()) note_host("no image", "cannot read " + path);
  // UNMASK_SOFTGPU_REPLACE="old|new": in all PTX, to see that a wrong constant shows.
  if (const char* replace = std::getenv("UNMASK_SOFTGPU_REPLACE")) {
    const std::string both = replace;
    const std::string from = both.substr(0, both.find('|')), to = both.substr(both.find('|') + 1);
    for (std::size_t p = text.find(from); p != std::string::npos;
         p = text.find(from, p + to.size())) {
      text.replace(p, from.size(), to);
    }
  }
  try {
    modules_.push_back(std::make_unique<ptx_module>(std::move(text)));
  } catch (const ptx_error& why) {
    note_host("unreadable image", path + ": " + why.what());
    return;
  }
  for (const std::string& entry : modules_.back()->entry_names()) {
    holding_.emplace(entry, modules_.back().get());
  }
}

void images::read_report(const std::string& path) {
  std::ifstream in(path);
  const std::string wanted = "'sm_" + std::to_string(options().arch);  // 90: sm_90a
  const std::string compiling = "Compiling entry function '", used = "Used ";
  std::string line, name;
  while (std::getline(in, line)) {
    if (const std::size_t at = line.find(compiling); at != std::string::npos) {
      const std::size_t begin = at + compiling.size();
      name.clear();
      if (line.find(wanted) != std::string::npos) {
        name = line.substr(begin, line.find('\'', begin) - begin);
      }
    }
    if (const std::size_t at = line.find(used); at != std::string::npos && !name.empty()) {
      registers_[name] = std::atoi(line.c_str() + at + used.size());
      name.clear();
    }
  }
}

const ptx_module* images::holding(const std::string& entry) const {
  const auto found = holding_.find(entry);
  return found == holding_.end() ? nullptr : found->second;
}

int images::registers_of(const std::string& entry) const {
  const auto found = registers_.find(entry);
  return found == registers_.end() ? 0 : found->second;
}

const std::map<std::string, std::uint64_t>& images::variables_of(const ptx_module& module) {
  const auto [found, fresh] = variables_.try_emplace(&module);
  if (!fresh) return found->second;
  for (const ptx_variable& v : module.globals()) {
    const allocation* a = memory::all().take(v.bytes, allocation::home::constant);
    if (a == nullptr) throw ptx_error("no memory for " + v.name);
    auto* bytes =
        reinterpret_cast<std::uint8_t*>(a->begin + static_cast<std::uintptr_t>(a->to_host));
    std::memset(bytes, 0, v.bytes);
    if (!v.initial.empty()) std::memcpy(bytes, v.initial.data(), v.bytes);
    found->second[v.name] = a->begin;
  }
  return found->second;
}

}  // namespace unmask::softgpu
