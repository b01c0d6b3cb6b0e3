// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the machine has to say: findings on standard error, and what was executed.
#include <cxxabi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/softgpu/machine.h"

namespace unmask::softgpu {
namespace {

std::uint64_t found = 0;
auto& noted = *new std::map<std::string, std::uint64_t>;  // needed until the very end

void emit(const std::string& text) {
  std::fprintf(stderr, "softgpu: %s\n", text.c_str());
}

std::string where(const warp& w, const instruction& i, int lane) {
  const ptx_entry& e = *w.k->entry;
  const block& b = *w.in;
  std::string text =
      w.k->shown + " sm_" + std::to_string(w.k->arch) + ", block " + std::to_string(b.place.x);
  if (b.shape.grid.y > 1) text += "," + std::to_string(b.place.y);
  text += " warp " + std::to_string(w.index);
  if (lane >= 0) text += " lane " + std::to_string(lane);
  text += ", " + (i.place >= 0 ? e.places[static_cast<std::size_t>(i.place)] : std::string("?"));
  text += ", PTX line " + std::to_string(i.line) + ": " + e.statements[i.index].text.substr(0, 120);
  return text;
}

// The name without its arguments; template arguments stay.
std::string without_arguments(const std::string& name) {
  int depth = 0;
  for (std::size_t n = 0; n < name.size(); ++n) {
    depth += name[n] == '<' ? 1 : name[n] == '>' ? -1 : 0;
    if (name[n] == '(' && depth == 0) return name.substr(0, n);
  }
  return name;
}

}  // namespace

std::uint64_t findings() {
  return found;
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string s = status == 0 ? text : name;
  std::free(text);
  for (const std::string drop : {"(anonymous namespace)::", "unmask::cuda::native::",
                                 "unmask::cuda::", "unmask::", "void "}) {
    for (std::size_t at = s.find(drop); at != std::string::npos; at = s.find(drop)) {
      s.erase(at, drop.size());
    }
  }
  return without_arguments(s);
}

void fail(const warp& w, const instruction& i, int lane, int status, const std::string& what) {
  ++found;
  const std::string text = "FAULT: " + what + " | " + where(w, i, lane);
  emit(text);
  throw fault(status, text);
}

void fail_launch(const kernel& k, int status, const std::string& what) {
  ++found;
  const std::string text = "FAULT: " + what + " | " + k.shown;
  emit(text);
  throw fault(status, text);
}

void note(const warp& w, const instruction& i, int lane, const char* kind,
          const std::string& what) {
  const std::string key = w.k->name + "|" + std::to_string(i.index) + "|" + kind;
  if (noted[key]++ > 0) return;
  ++found;
  emit(std::string("NOTE: ") + kind + ": " + what + " | " + where(w, i, lane));
}

void note_host(const char* kind, const std::string& what) {
  if (noted[std::string(kind) + "|" + what]++ > 0) return;
  ++found;
  emit(std::string("HOST: ") + kind + ": " + what);
}

void write_coverage(const std::vector<kernel*>& kernels, const std::vector<std::string>& others) {
  const std::string& folder = options().coverage;
  if (folder.empty() || kernels.empty()) return;
  std::filesystem::create_directories(folder);
  std::ofstream out(folder + "/counts." + std::to_string(getpid()) + ".txt");
  const std::string arch = std::to_string(kernels[0]->arch);
  for (const std::string& name : others) {
    out << "K\t" << arch << '\t' << demangled(name) << '\t' << arch << '.' << name << "\t0\nC\n";
  }
  for (const kernel* k : kernels) {
    const std::string name = std::to_string(k->arch) + "." + k->name;
    out << "K\t" << k->arch << '\t' << k->shown << '\t' << name << '\t' << k->launches << "\nC";
    for (const std::uint64_t n : k->executed) out << ' ' << n;
    out << '\n';
    const std::string list = folder + "/" + name + ".lst";
    if (std::filesystem::exists(list)) continue;
    std::ofstream text(list);
    for (const instruction& i : k->code) {
      const std::string place =
          i.place >= 0 ? k->entry->places[static_cast<std::size_t>(i.place)] : "?";
      text << i.index << '\t' << place << '\t' << k->entry->statements[i.index].text << '\n';
    }
  }
}

}  // namespace unmask::softgpu
