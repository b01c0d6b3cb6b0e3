// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/softgpu/settings.h"

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace unmask::softgpu {
namespace {

constexpr int kib = 1024, mib = 1024 * kib;
// In the order of the words of UNMASK_SOFTGPU_ARCH; the first where it is not set.
constexpr card cards[] = {
    {90, "softgpu H100", 132, 1980000, 2619000, 5120, 50 * mib, 227 * kib, 228 * kib, 2048, 80,
     true},
    {80, "softgpu A100", 108, 1410000, 1593000, 5120, 40 * mib, 163 * kib, 164 * kib, 2048, 80,
     true},
    {89, "softgpu RTX 4090", 128, 2520000, 10501000, 384, 72 * mib, 99 * kib, 100 * kib, 1536, 24,
     false},
    {100, "softgpu B200", 148, 1965000, 3996000, 7680, 126 * mib, 227 * kib, 228 * kib, 2048, 178,
     true},
    {120, "softgpu RTX 5090", 170, 2407000, 14001000, 512, 96 * mib, 99 * kib, 100 * kib, 1536, 32,
     false},
};

std::string text_of(const char* name) {
  const char* text = std::getenv((std::string("UNMASK_SOFTGPU_") + name).c_str());
  return text == nullptr ? "" : text;
}

[[noreturn]] void refuse(const char* name, const std::string& text, const std::string& wanted) {
  std::fprintf(stderr, "softgpu: UNMASK_SOFTGPU_%s is \"%s\"; say %s\n", name, text.c_str(),
               wanted.c_str());
  std::_Exit(2);
}

// Which of the words the variable is; the first where it is not set.
int choice(const char* name, std::initializer_list<const char*> words) {
  const std::string text = text_of(name);
  if (text.empty()) return 0;
  int n = 0;
  std::string all;
  for (const char* word : words) {
    if (text == word) return n;
    all += (n++ > 0 ? " or " : "") + std::string(word);
  }
  refuse(name, text, all);
}

int number(const char* name, int otherwise) {
  const std::string text = text_of(name);
  if (text.empty()) return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (*end != 0 || value < 0 || value > 1000000) refuse(name, text, "a whole number");
  return static_cast<int>(value);
}

settings from_environment() {
  settings s;
  s.arch = cards[choice("ARCH", {"90", "80", "89", "100", "120"})].arch;
  s.late = choice("ASYNC", {"late", "early"}) == 0;
  s.races = choice("RACES", {"on", "off"}) == 0;
  s.global_races = choice("GLOBAL_RACES", {"off", "on"}) == 1;
  s.lazy = choice("STREAMS", {"lazy", "eager"}) == 0;
  s.pageable = choice("PAGEABLE", {"off", "on"}) == 1;
  s.open = choice("OPEN", {"off", "on"}) == 1;
  s.order = choice("BLOCKS", {"forward", "backward", "random"});
  s.seed = static_cast<std::uint32_t>(number("SEED", 1));
  s.multiprocessors = number("MULTIPROCESSORS", 0);
  s.devices = number("DEVICES", 1);
  s.unlike = number("UNLIKE", -1);
  s.new_driver = number("NEW_DRIVER", -1);
  s.rough = choice("NUMBERS", {"exact", "rough"}) == 1;
  s.trace = choice("TRACE", {"off", "on"}) == 1;
  s.statistics = choice("STATS", {"off", "on"}) == 1;
  s.coverage = text_of("COVERAGE");
  return s;
}

}  // namespace

const settings& options() {
  static const auto& one = *new settings(from_environment());  // needed until the very end
  return one;
}

const card& device() {
  for (const card& c : cards) {
    if (c.arch == options().arch) return c;
  }
  return cards[0];
}

}  // namespace unmask::softgpu
