// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/porter_stemmer.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>
#include <vector>

namespace unmask::scorers {
namespace {

// For each letter, whether it counts as a consonant; y does when no consonant stands before it.
std::vector<bool> consonants(std::string_view word) {
  std::vector<bool> flags;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool vowel = std::string_view("aeiou").find(word[i]) != std::string_view::npos;
    flags.push_back(word[i] == 'y' ? i == 0 || !flags[i - 1] : !vowel);
  }
  return flags;
}

// The m of the paper: how often a consonant follows a vowel.
int measure(std::string_view stem) {
  const auto flags = consonants(stem);
  int m = 0;
  for (std::size_t i = 1; i < flags.size(); ++i) m += !flags[i - 1] && flags[i] ? 1 : 0;
  return m;
}

bool has_vowel(std::string_view stem) {
  const auto flags = consonants(stem);
  return std::find(flags.begin(), flags.end(), false) != flags.end();
}

// Consonant, vowel, consonant at the end, the last not w, x or y; for two letters also vowel and
// consonant.
bool ends_cvc(std::string_view word) {
  const auto flags = consonants(word);
  const std::size_t n = word.size();
  if (n == 2) return !flags[0] && flags[1];
  if (n < 3 || !flags[n - 3] || flags[n - 2] || !flags[n - 1]) return false;
  return word[n - 1] != 'w' && word[n - 1] != 'x' && word[n - 1] != 'y';
}

struct rule {
  const char* suffix;
  const char* by;
};

// The first rule whose suffix fits decides: it applies when its stem has a measure above `least`.
std::string by_rules(const std::string& word, std::initializer_list<rule> rules, int least) {
  for (const rule& r : rules) {
    if (!word.ends_with(r.suffix)) continue;
    const std::string stem = word.substr(0, word.size() - std::string_view(r.suffix).size());
    return measure(stem) > least ? stem + r.by : word;
  }
  return word;
}

std::string without(const std::string& word, std::size_t letters) {
  return word.substr(0, word.size() - letters);
}

std::string step_1a(const std::string& word) {
  if (word.ends_with("ies")) return without(word, word.size() == 4 ? 1 : 2);
  if (word.ends_with("sses")) return without(word, 2);
  if (word.ends_with("ss") || !word.ends_with("s")) return word;
  return without(word, 1);
}

// What follows the removal of "ed" or "ing".
std::string with_restored_e(const std::string& stem) {
  for (const char* end : {"at", "bl", "iz"}) {
    if (stem.ends_with(end)) return stem + "e";
  }
  const std::size_t n = stem.size();
  const char last = stem[n - 1];
  if (n >= 2 && last == stem[n - 2] && consonants(stem)[n - 1]) {
    return last == 'l' || last == 's' || last == 'z' ? stem : without(stem, 1);
  }
  return measure(stem) == 1 && ends_cvc(stem) ? stem + "e" : stem;
}

std::string step_1b(const std::string& word) {
  if (word.ends_with("ied")) return without(word, word.size() == 4 ? 1 : 2);
  if (word.ends_with("eed")) return measure(without(word, 3)) > 0 ? without(word, 1) : word;
  for (const std::string_view suffix : {"ed", "ing"}) {
    if (!word.ends_with(suffix)) continue;
    const std::string stem = without(word, suffix.size());
    if (has_vowel(stem)) return with_restored_e(stem);
  }
  return word;
}

std::string step_1c(const std::string& word) {
  if (!word.ends_with('y')) return word;
  const std::string stem = without(word, 1);
  return stem.size() > 1 && consonants(stem).back() ? stem + "i" : word;
}

std::string step_2(const std::string& word) {
  if (word.ends_with("alli") && measure(without(word, 4)) > 0) return step_2(without(word, 2));
  const std::string out = by_rules(
      word, {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},
             {"izer", "ize"},    {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"},
             {"eli", "e"},       {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"},
             {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"}, {"fulness", "ful"},
             {"ousness", "ous"}, {"aliti", "al"},    {"iviti", "ive"},   {"biliti", "ble"},
             {"fulli", "ful"}},
      0);
  // "logi" looks at the word without its last three letters, so that "ology" always qualifies.
  if (out == word && word.ends_with("logi") && measure(without(word, 3)) > 0) {
    return without(word, 1);
  }
  return out;
}

std::string step_3(const std::string& word) {
  return by_rules(word,
                  {{"icate", "ic"},
                   {"ative", ""},
                   {"alize", "al"},
                   {"iciti", "ic"},
                   {"ical", "ic"},
                   {"ful", ""},
                   {"ness", ""}},
                  0);
}

std::string step_4(const std::string& word) {
  for (const std::string_view suffix :
       {"al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion",
        "ou", "ism", "ate", "iti", "ous", "ive", "ize"}) {
    if (!word.ends_with(suffix)) continue;
    const std::string stem = without(word, suffix.size());
    const bool after_st = suffix != "ion" || stem.ends_with('s') || stem.ends_with('t');
    return measure(stem) > 1 && after_st ? stem : word;
  }
  return word;
}

std::string step_5(const std::string& word) {
  std::string out = word;
  if (out.ends_with('e')) {
    const std::string stem = without(out, 1);
    const int m = measure(stem);
    if (m > 1 || (m == 1 && !ends_cvc(stem))) out = stem;
  }
  return out.ends_with("ll") && measure(without(out, 1)) > 1 ? without(out, 1) : out;
}

}  // namespace

std::string porter_stem(const std::string& word) {
  static const std::map<std::string, std::string, std::less<>> irregular = {
      {"sky", "sky"},        {"skies", "sky"},        {"dying", "die"},
      {"lying", "lie"},      {"tying", "tie"},        {"news", "news"},
      {"innings", "inning"}, {"inning", "inning"},    {"outings", "outing"},
      {"outing", "outing"},  {"cannings", "canning"}, {"canning", "canning"},
      {"howe", "howe"},      {"proceed", "proceed"},  {"exceed", "exceed"},
      {"succeed", "succeed"}};
  if (const auto found = irregular.find(word); found != irregular.end()) return found->second;
  if (word.size() <= 2) return word;
  return step_5(step_4(step_3(step_2(step_1c(step_1b(step_1a(word)))))));
}

}  // namespace unmask::scorers
