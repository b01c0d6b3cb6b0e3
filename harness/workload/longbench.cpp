// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/longbench.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "harness/base/text.h"

namespace unmask {
using namespace py;
namespace {

constexpr std::size_t many = 200;  // difflib ignores popular characters from this length on

bool ascii_punctuation(char32_t c) {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) ||
         (c >= 0x7B && c <= 0x7E);
}

// What ends a word for \b, besides white space: general punctuation such as dashes and quotes.
bool wide_punctuation(char32_t c) {
  return c >= 0x2010 && c <= 0x205E;
}

// The words of a text after normalisation. An article counts as one only between word boundaries
// and is replaced by a space; other punctuation beyond ASCII stays a part of its word.
std::vector<std::string> answer_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word, piece;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  const auto end_piece = [&] {
    if (piece == "a" || piece == "an" || piece == "the") {
      end_word();
    } else {
      word += piece;
    }
    piece.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = decode_utf8(text, at);
    const std::string_view bytes = text.substr(at, c.bytes);
    at += c.bytes;
    if (ascii_punctuation(c.value)) continue;
    if (is_space(c.value)) {
      end_piece();
      end_word();
    } else if (wide_punctuation(c.value)) {
      end_piece();
      word += bytes;
    } else if (c.value >= U'A' && c.value <= U'Z') {
      piece += static_cast<char>(c.value - U'A' + U'a');
    } else {
      piece += bytes;
    }
  }
  end_piece();
  end_word();
  return words;
}

std::u32string code_points(std::string_view text) {
  std::u32string all;
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = decode_utf8(text, at);
    all += c.value;
    at += c.bytes;
  }
  return all;
}

// difflib.SequenceMatcher(None, a, b): the characters in its matching blocks.
class matcher {
 public:
  matcher(const std::u32string& a, const std::u32string& b) : a_(a), b_(b) {
    for (std::size_t j = 0; j < b.size(); ++j) places_[b[j]].push_back(j);
    if (b.size() < many) return;
    std::erase_if(places_, [&](const auto& p) { return p.second.size() > b.size() / 100 + 1; });
  }

  std::size_t matches() const {
    std::size_t all = 0;
    std::vector<range> open = {{0, a_.size(), 0, b_.size()}};
    while (!open.empty()) {
      const range r = open.back();
      open.pop_back();
      const block m = longest(r);
      if (m.size == 0) continue;
      all += m.size;
      if (r.a < m.a && r.b < m.b) open.push_back({r.a, m.a, r.b, m.b});
      if (m.a + m.size < r.a_end && m.b + m.size < r.b_end) {
        open.push_back({m.a + m.size, r.a_end, m.b + m.size, r.b_end});
      }
    }
    return all;
  }

 private:
  struct range {
    std::size_t a, a_end, b, b_end;
  };
  struct block {
    std::size_t a, b, size;
  };

  // The longest block of both ranges, the first in a, then in b; popular characters only extend it.
  block longest(const range& r) const {
    block best{r.a, r.b, 0};
    std::map<std::size_t, std::size_t> lengths, next;  // by the end of a match in b
    for (std::size_t i = r.a; i < r.a_end; ++i) {
      next.clear();
      if (const auto found = places_.find(a_[i]); found != places_.end()) {
        for (const std::size_t j : found->second) {
          if (j < r.b) continue;
          if (j >= r.b_end) break;
          const auto before = j == 0 ? lengths.end() : lengths.find(j - 1);
          const std::size_t length = (before == lengths.end() ? 0 : before->second) + 1;
          next[j] = length;
          if (length > best.size) best = {i + 1 - length, j + 1 - length, length};
        }
      }
      std::swap(lengths, next);
    }
    while (best.a > r.a && best.b > r.b && a_[best.a - 1] == b_[best.b - 1]) {
      --best.a;
      --best.b;
      ++best.size;
    }
    while (best.a + best.size < r.a_end && best.b + best.size < r.b_end &&
           a_[best.a + best.size] == b_[best.b + best.size]) {
      ++best.size;
    }
    return best;
  }

  const std::u32string& a_;
  const std::u32string& b_;
  std::map<char32_t, std::vector<std::size_t>> places_;
};

std::vector<std::string_view> digit_runs(std::string_view text) {
  constexpr std::string_view digits = "0123456789";
  std::vector<std::string_view> runs;
  for (std::size_t at = text.find_first_of(digits); at != std::string_view::npos;
       at = text.find_first_of(digits, at)) {
    const std::size_t end = std::min(text.find_first_not_of(digits, at), text.size());
    runs.push_back(text.substr(at, end - at));
    at = end;
  }
  return runs;
}

}  // namespace

double qa_f1(std::string_view output, std::string_view reference) {
  const auto a = answer_words(output), b = answer_words(reference);
  std::map<std::string, std::size_t> left;
  for (const std::string& word : b) ++left[word];
  std::size_t common = 0;
  for (const std::string& word : a) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++common;
  }
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(a.size());
  const double recall = static_cast<double>(common) / static_cast<double>(b.size());
  return 2 * precision * recall / (precision + recall);
}

double class_score(std::string_view output, std::string_view reference,
                   const std::vector<std::string>& classes) {
  std::vector<std::string_view> found;
  for (const std::string& name : classes) {
    if (output.find(name) != std::string_view::npos) found.push_back(name);
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string_view name = found[i];
    if (name == reference || reference.find(name) == std::string_view::npos) continue;
    // As list.remove: the first equal one; the walk goes on behind the gap.
    found.erase(std::ranges::find(found, name));
  }
  if (std::ranges::find(found, reference) == found.end()) return 0;
  return 1.0 / static_cast<double>(found.size());
}

double code_similarity(std::string_view output, std::string_view reference) {
  while (output.starts_with('\n')) output.remove_prefix(1);
  std::string_view line;
  for (const std::string_view candidate : split(output, "\n")) {
    if (candidate.find_first_of("`#") != std::string_view::npos) continue;
    if (candidate.find("//") != std::string_view::npos) continue;
    line = candidate;
    break;
  }
  if (line == reference) return 1;
  if (line.empty() || reference.empty()) return 0;
  const std::u32string a = code_points(line), b = code_points(reference);
  const double ratio =
      2.0 * static_cast<double>(matcher(a, b).matches()) / static_cast<double>(a.size() + b.size());
  return std::nearbyint(100 * ratio) / 100;
}

double share_of_number(std::string_view output, std::string_view reference) {
  const auto numbers = digit_runs(output), wanted = digit_runs(reference);
  if (numbers.empty() || wanted.empty()) return 0;
  return static_cast<double>(std::ranges::count(numbers, wanted.front())) /
         static_cast<double>(numbers.size());
}

std::string_view first_line(std::string_view output) {
  while (output.starts_with('\n')) output.remove_prefix(1);
  return output.substr(0, output.find('\n'));
}

}  // namespace unmask
