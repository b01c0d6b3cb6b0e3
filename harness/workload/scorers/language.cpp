// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/language.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <unordered_map>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/json_lines.h"
#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"
#include "harness/base/unicode.h"
#include "harness/workload/scorers/python_random.h"
#include "harness/workload/scorers/tables.h"

namespace unmask::scorers {
namespace {

constexpr int trials = 7;
constexpr int most_rounds = 1000;
constexpr double converged = 0.99999;
constexpr double least_shown = 0.1;
constexpr double smoothing = 0.5, smoothing_width = 0.05, base_frequency = 10000;
constexpr std::size_t longest_text = 10000;

// One to three code points of 21 bits.
using gram_key = std::uint64_t;
gram_key key_of(std::u32string_view gram) {
  gram_key key = 0;
  for (const char32_t c : gram) key = key << 21 | (c + 1);
  return key;
}

struct language_share {
  std::uint32_t language;
  double share;  // of this n-gram among the language's n-grams of its length
};

class profiles {
 public:
  profiles() {
    const json_value all = parse_json(table_text(table::langdetect_profiles), "langdetect");
    const json_reader reader(all, "langdetect's profiles");
    for (const json_member& m : *all.members()) add(reader.child(m.first));
    for_each_line(table_text(table::langdetect_kanji), [&](std::string_view line, std::size_t) {
      const std::u32string same = py::decode(line);
      for (const char32_t c : same) kanji_[c] = same[0];
    });
  }

  std::size_t size() const { return names_.size(); }
  const std::string& name(std::size_t language) const { return names_[language]; }
  const std::vector<language_share>* find(gram_key key) const {
    const auto found = shares_.find(key);
    return found == shares_.end() ? nullptr : &found->second;
  }
  char32_t kanji(char32_t c) const {
    const auto found = kanji_.find(c);
    return found == kanji_.end() ? c : found->second;
  }

 private:
  void add(const json_reader& profile) {
    const auto language = static_cast<std::uint32_t>(names_.size());
    names_.push_back(profile.text("name"));
    const json_value::array& totals = *profile.at("n_words").items();
    for (const json_member& gram : *profile.at("freq").members()) {
      const std::u32string text = py::decode(gram.first);
      if (text.empty() || text.size() > 3) continue;
      const auto count = static_cast<double>(*gram.second.integer());
      const auto total = static_cast<double>(*totals[text.size() - 1].integer());
      shares_[key_of(text)].push_back({language, 1.0 * count / total});
    }
  }

  std::vector<std::string> names_;
  std::unordered_map<gram_key, std::vector<language_share>> shares_;
  std::unordered_map<char32_t, char32_t> kanji_;
};

const profiles& known() {
  static const profiles p;
  return p;
}

bool between(char32_t c, char32_t low, char32_t high) {
  return c >= low && c <= high;
}

// NGram.normalize: scripts whose letters say nothing more than the script become one letter.
char32_t normal(char32_t c) {
  if (c <= 0x7F) return between(c, 'A', 'Z') || between(c, 'a', 'z') ? c : ' ';
  if (c <= 0xFF) return c == 0xA0 || c == 0xAB || c == 0xB0 || c == 0xBB ? ' ' : c;
  if (c == 0x219) return 0x15F;  // Romanian: comma below as cedilla
  if (c == 0x21B) return 0x163;
  if (between(c, 0x2000, 0x206F)) return ' ';
  if (c == 0x6CC) return 0x64A;  // Farsi yeh as Arabic yeh
  if (between(c, 0x1EA0, 0x1EFF)) return 0x1EC3;
  if (between(c, 0x3040, 0x309F)) return 0x3042;
  if (between(c, 0x30A0, 0x30FF)) return 0x30A2;
  if (between(c, 0x3100, 0x312F) || between(c, 0x31A0, 0x31BF)) return 0x3105;
  if (between(c, 0x4E00, 0x9FFF)) return known().kanji(c);
  if (between(c, 0xAC00, 0xD7AF)) return 0xAC00;
  return c;
}

// Letters of Vietnamese followed by a tone mark become one character.
std::string with_tones(const std::string& text) {
  static const py::pattern letter("[AEIOUYaeiouyÂÊÔâêôĂăƠơƯư][\u0300\u0301\u0303\u0309\u0323]");
  return letter.sub(text, [](const py::match& m) { return normalize_nfc(m[0]); });
}

// What is left of the text: no addresses, no runs of blanks, no Latin letters among others.
std::u32string cleaned(std::string_view raw) {
  static const py::pattern address("https?://[-_.?&~;+=/#0-9A-Za-z]{1,2076}");
  static const py::pattern mail("[-_.0-9A-Za-z]{1,64}@[-_0-9A-Za-z]{1,255}[-_.0-9A-Za-z]{1,255}");
  const std::u32string all = py::decode(with_tones(mail.sub_text(address.sub_text(raw, " "), " ")));
  std::u32string text;
  std::size_t latin = 0, other = 0;
  for (std::size_t i = 0; i < std::min(all.size(), longest_text); ++i) {
    if (all[i] == ' ' && i > 0 && all[i - 1] == ' ') continue;
    text += all[i];
    if (between(all[i], 'A', 'z')) ++latin;
    if (all[i] >= 0x300) ++other;
  }
  if (latin * 2 < other) std::erase_if(text, [](char32_t c) { return between(c, 'A', 'z'); });
  return text;
}

// The known n-grams of the text, in order; words of capitals are left out.
std::vector<const std::vector<language_share>*> features_of(std::string_view raw) {
  std::vector<const std::vector<language_share>*> features;
  std::u32string grams = U" ";
  bool capitals = false;
  for (const char32_t raw_character : cleaned(raw)) {
    const char32_t c = normal(raw_character), last = grams.back();
    if (last == ' ') {
      grams.assign(1, U' ');
      capitals = false;
    } else if (grams.size() >= 3) {
      grams.erase(0, 1);
    }
    if (c != ' ' || last != ' ') {
      grams += c;
      if (!py::is_upper(c)) {
        capitals = false;
      } else if (py::is_upper(last)) {
        capitals = true;
      }
    }
    if (capitals) continue;
    for (std::size_t n = 1; n <= 3 && n <= grams.size(); ++n) {
      const std::u32string_view gram = std::u32string_view(grams).substr(grams.size() - n);
      const auto* found = gram == U" " ? nullptr : known().find(key_of(gram));
      if (found != nullptr) features.push_back(found);
    }
  }
  return features;
}

// random.random() and random.gauss(0, 1) of Python.
class gaussian {
 public:
  explicit gaussian(python_random& random) : random_(random) {}
  double next() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double angle = uniform() * 2 * std::numbers::pi;
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    spare_ = std::sin(angle) * radius;
    has_spare_ = true;
    return std::cos(angle) * radius;
  }

 private:
  double uniform() {
    const double high = random_.bits(27), low = random_.bits(26);
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }
  python_random& random_;
  double spare_ = 0;
  bool has_spare_ = false;
};

// Multiplies each language's probability by its smoothed share of the n-gram.
void update(std::vector<double>& probability, const std::vector<language_share>& gram,
            double weight) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < probability.size(); ++i) {
    const bool listed = next < gram.size() && gram[next].language == i;
    probability[i] *= weight + (listed ? gram[next++].share : 0.0);
  }
}

// Sum 1; returns the largest.
double normalize(std::vector<double>& probability) {
  double sum = 0, largest = 0;
  for (const double p : probability) sum += p;
  for (double& p : probability) {
    p /= sum;
    largest = std::max(largest, p);
  }
  return largest;
}

}  // namespace

std::string detect_language(std::string_view text, std::uint64_t seed) {
  const auto features = features_of(text);
  if (features.empty()) return "";
  python_random random(seed);
  gaussian noise(random);
  const std::size_t languages = known().size();
  std::vector<double> mean(languages, 0);
  for (int t = 0; t < trials; ++t) {
    std::vector<double> probability(languages, 1.0 / static_cast<double>(languages));
    const double weight = (smoothing + noise.next() * smoothing_width) / base_frequency;
    for (int i = 0;; ++i) {
      update(probability, *features[random.below(features.size())], weight);
      if (i % 5 == 0 && (normalize(probability) > converged || i >= most_rounds)) break;
    }
    for (std::size_t j = 0; j < languages; ++j) mean[j] += probability[j] / trials;
  }
  const auto best = std::max_element(mean.begin(), mean.end());
  if (!(*best > least_shown)) return "unknown";
  return known().name(static_cast<std::size_t>(best - mean.begin()));
}

}  // namespace unmask::scorers
