// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/jieba.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_lines.h"
#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"
#include "harness/workload/scorers/tables.h"

namespace unmask::scorers {
namespace {

using word_list = std::vector<std::string>;

// A block of the text with the byte offset of each character and of the end.
struct characters {
  explicit characters(std::string_view t) : text(t) {
    for (std::size_t at = 0; at < t.size(); at += py::decode_utf8(t, at).bytes)
      starts.push_back(at);
    starts.push_back(t.size());
  }
  std::size_t size() const { return starts.size() - 1; }
  std::string_view part(std::size_t from, std::size_t to) const {
    return text.substr(starts[from], starts[to] - starts[from]);
  }
  std::string_view text;
  std::vector<std::size_t> starts;
};

class dictionary {
 public:
  dictionary() : text_(table_text(table::jieba_dictionary)) {
    frequency_.reserve(std::size_t{1} << 20);
    for_each_line(text_, [&](std::string_view line, std::size_t number) { add(line, number); });
    log_total_ = std::log(static_cast<double>(total_));
  }

  // Frequency of a word; 0 for the beginning of a word; -1 for neither.
  std::int64_t frequency(std::string_view word) const {
    const auto found = frequency_.find(word);
    return found == frequency_.end() ? -1 : found->second;
  }
  double log_total() const { return log_total_; }

 private:
  void add(std::string_view line, std::size_t number) {
    const std::size_t blank = line.find(' ');
    std::int64_t count = 0;
    const bool cut = blank != std::string_view::npos;
    if (!cut || std::from_chars(line.data() + blank + 1, line.data() + line.size(), count).ec !=
                    std::errc()) {
      throw environment_error("jieba's dictionary, line " + std::to_string(number) +
                              ": is not `word frequency tag`");
    }
    const std::string_view word = line.substr(0, blank);
    frequency_[word] = count;
    total_ += count;
    for (std::size_t at = 0; at < word.size();) {
      at += py::decode_utf8(word, at).bytes;
      frequency_.try_emplace(word.substr(0, at), 0);
    }
  }

  std::string text_;  // the keys point into it
  std::unordered_map<std::string_view, std::int64_t> frequency_;
  std::int64_t total_ = 0;
  double log_total_ = 0;
};

const dictionary& words() {
  static const dictionary d;
  return d;
}

constexpr double impossible = -3.14e100;
constexpr std::array<char, 4> states = {'B', 'M', 'E', 'S'};

// Log probabilities of the model; what the tables leave out is impossible.
class markov_model {
 public:
  markov_model() {
    const json_value value = parse_json(table_text(table::jieba_hmm), "jieba's model");
    const json_reader reader(value, "jieba's model");
    for (const char s : states) {
      const std::string name(1, s);
      start_[index(s)] = reader.child("start").number(name, -4e100, 0);
      const json_reader from = reader.child("trans").child(name);
      for (const char to : states) {
        trans_[index(s)][index(to)] = from.number_or(std::string(1, to), -4e100, 0, impossible);
      }
      for (const json_member& m : *reader.child("emit").at(name).members()) {
        const double* p = std::get_if<double>(&m.second.data);
        if (p != nullptr) emit_[index(s)].emplace(m.first, *p);
      }
    }
  }

  // The most probable state of each character.
  std::string path(const characters& block) const {
    std::array<double, 4> value{};
    std::array<std::string, 4> way;
    for (const char s : states) {
      value[index(s)] = start_[index(s)] + emission(s, block.part(0, 1));
      way[index(s)] = std::string(1, s);
    }
    for (std::size_t t = 1; t < block.size(); ++t) {
      std::array<double, 4> next{};
      std::array<std::string, 4> next_way;
      for (const char s : states) {
        const double out = emission(s, block.part(t, t + 1));
        const auto through = [&](char from) {
          return value[index(from)] + trans_[index(from)][index(s)] + out;
        };
        const char from = better(before(s), through);
        next[index(s)] = through(from);
        next_way[index(s)] = way[index(from)] + s;
      }
      value = next;
      way = std::move(next_way);
    }
    return way[index(better({'E', 'S'}, [&](char s) { return value[index(s)]; }))];
  }

 private:
  static std::size_t index(char state) { return std::string_view("BMES").find(state); }
  // The two states that may stand before one.
  static std::array<char, 2> before(char state) {
    switch (state) {
      case 'B':
        return {'E', 'S'};
      case 'M':
        return {'B', 'M'};
      case 'S':
        return {'E', 'S'};
      default:
        return {'B', 'M'};
    }
  }
  // The one of larger value; of equals the later letter, as Python's max over pairs.
  static char better(std::array<char, 2> pair, const std::function<double(char)>& value) {
    return value(pair[1]) >= value(pair[0]) ? pair[1] : pair[0];
  }
  double emission(char state, std::string_view character) const {
    const auto& all = emit_[index(state)];
    const auto found = all.find(std::string(character));
    return found == all.end() ? impossible : found->second;
  }

  std::array<double, 4> start_{};
  std::array<std::array<double, 4>, 4> trans_{};
  std::array<std::unordered_map<std::string, double>, 4> emit_;
};

const markov_model& model() {
  static const markov_model m;
  return m;
}

bool is_han(char32_t c) {
  return c >= 0x4E00 && c <= 0x9FD5;
}

// Calls visit(piece, matched) for the pieces between matches and the matches themselves, in order.
void by_pieces(const py::pattern& p, std::string_view text,
               const std::function<void(std::string_view, bool)>& visit) {
  std::size_t at = 0;
  for (const py::match& m : p.find_all(text)) {
    if (m.begin() > at) visit(text.substr(at, m.begin() - at), false);
    visit(m[0], true);
    at = m.end();
  }
  if (at < text.size()) visit(text.substr(at), false);
}

void cut_han(std::string_view text, word_list& out) {
  const characters block(text);
  const std::string path = model().path(block);
  std::size_t begin = 0, next = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (path[i] == 'B') begin = i;
    if (path[i] != 'E' && path[i] != 'S') continue;
    out.emplace_back(block.part(path[i] == 'E' ? begin : i, i + 1));
    next = i + 1;
  }
  if (next < block.size()) out.emplace_back(block.part(next, block.size()));
}

// Characters that the dictionary left single, by the hidden Markov model.
void cut_unknown(std::string_view text, word_list& out) {
  static const py::pattern han("[\\x{4E00}-\\x{9FD5}]+");
  static const py::pattern latin(R"([a-zA-Z0-9]+(?:\.\d+)?%?)");
  by_pieces(han, text, [&](std::string_view piece, bool matched) {
    if (matched) return cut_han(piece, out);
    by_pieces(latin, piece, [&](std::string_view part, bool) { out.emplace_back(part); });
  });
}

// For each character the end of the word that begins there on the most probable path.
std::vector<std::size_t> best_ends(const characters& block) {
  const std::size_t n = block.size();
  std::vector<double> value(n + 1, 0);
  std::vector<std::size_t> end(n + 1, n);
  for (std::size_t k = n; k-- > 0;) {
    bool any = false;
    const auto consider = [&](std::size_t to, std::int64_t frequency) {
      const double v = std::log(static_cast<double>(frequency > 0 ? frequency : 1)) -
                       words().log_total() + value[to];
      if (any && v < value[k]) return;  // of equals the longest
      value[k] = v;
      end[k] = to;
      any = true;
    };
    for (std::size_t to = k + 1; to <= n; ++to) {
      const std::int64_t frequency = words().frequency(block.part(k, to));
      if (frequency < 0) break;
      if (frequency > 0) consider(to, frequency);
    }
    if (!any) consider(k + 1, words().frequency(block.part(k, k + 1)));
  }
  return end;
}

void cut_block(std::string_view text, bool hmm, word_list& out) {
  const characters block(text);
  const std::vector<std::size_t> ends = best_ends(block);
  std::size_t single = 0, at = 0;  // [single, at): characters that stand alone so far
  const auto flush = [&] {
    const std::string_view run = block.part(single, at);
    if (at == single) return;
    if (!hmm || at - single == 1) {
      out.emplace_back(run);
    } else if (words().frequency(run) <= 0) {
      cut_unknown(run, out);
    } else {
      for (std::size_t i = single; i < at; ++i) out.emplace_back(block.part(i, i + 1));
    }
  };
  while (at < block.size()) {
    const std::size_t end = ends[at];
    const char c = block.part(at, at + 1)[0];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || py::is_digit(c);
    if (end - at == 1 && (hmm || letter)) {
      at = end;
      continue;
    }
    flush();
    out.emplace_back(block.part(at, end));
    single = at = end;
  }
  flush();
}

}  // namespace

std::vector<std::string> jieba_cut(std::string_view text, bool hmm) {
  word_list out;
  const auto in_words = [](char32_t c) {
    const bool ascii =
        c < 0x80 && (py::is_word(c) || std::string_view("+#&._%-").find(static_cast<char>(c)) !=
                                           std::string_view::npos);
    return ascii || is_han(c);
  };
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const py::code_point c = at < text.size() ? py::decode_utf8(text, at) : py::code_point{0, 1};
    if (!in_words(c.value)) {
      if (begin < at) cut_block(text.substr(begin, at - begin), hmm, out);
      std::size_t bytes = c.bytes;
      if (text.substr(at).starts_with("\r\n")) bytes = 2;
      if (at < text.size()) out.emplace_back(text.substr(at, bytes));
      begin = at + bytes;
      at = begin;
    } else {
      at += c.bytes;
    }
  }
  return out;
}

}  // namespace unmask::scorers
