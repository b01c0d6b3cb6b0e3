// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// fuzz_replay TARGET FOLDER COUNT: the fuzz targets where there is no libFuzzer, so that any build runs
// them and a build with GCC's sanitizers watches them. Gives the target every file of FOLDER, then
// COUNT texts that are made of them by a fixed seed. A target that aborts, crashes or lets an exception
// through ends the program.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#define UNMASK_TARGET(name) extern "C" int name(const std::uint8_t* data, std::size_t size);
UNMASK_FUZZ_TARGETS
#undef UNMASK_TARGET

namespace {

using target = int (*)(const std::uint8_t*, std::size_t);

target find_target(const std::string& wanted) {
#define UNMASK_TARGET(name) \
  if (wanted == #name) return name;
  UNMASK_FUZZ_TARGETS
#undef UNMASK_TARGET
  return nullptr;
}

std::vector<std::string> seeds_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry);
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// One change: a bit, a byte that means something in JSON, TOML or CSV, a piece left out, doubled or
// taken from another seed, a number at the edge of a type.
std::string changed(std::string text, const std::vector<std::string>& seeds,
                    std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  const std::size_t at = below(text.size() + 1), length = below(text.size() - at + 1) % 64;
  static const char signs[] = "{}[]\",:=\n\\#.-\0\xff";
  static const char* const numbers[] = {
      "-1",   "0",    "9223372036854775808", "1e999", "nan", "null",
      "1e-9", "true", "4294967296",          "[[",    "\"\""};
  switch (below(7)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 1:
      text.insert(at, 1, signs[below(sizeof signs - 1)]);
      break;
    case 2:
      text.erase(at, length);
      break;
    case 3:
      text.insert(at, text.substr(at, length));
      break;
    case 4: {
      const std::string& other = seeds[below(seeds.size())];
      text.insert(at, other.substr(below(other.size() + 1), length));
      break;
    }
    case 5:
      text.replace(at, length % 4, numbers[below(std::size(numbers))]);
      break;
    default:
      text.resize(at);
  }
  return text;
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return 2;
  const target run = find_target(words[1]);
  const std::vector<std::string> seeds = seeds_in(words[2]);
  if (run == nullptr || seeds.empty()) {
    std::fprintf(stderr, "fuzz_replay: no target %s, or no file in %s\n", words[1], words[2]);
    return 2;
  }
  const auto give = [&](const std::string& text) {
    run(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  };
  for (const std::string& seed : seeds) give(seed);
  std::mt19937_64 random(20261);
  const long wanted = std::atol(words[3]);
  for (long i = 0; i < wanted; ++i) {
    std::string text = seeds[random() % seeds.size()];
    for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      text = changed(std::move(text), seeds, random);
    }
    give(text);
  }
  std::printf("%zu seeds and %ld texts made of them: read or refused\n", seeds.size(), wanted);
  return 0;
}
