// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/longbench.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/base/error.h"
#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"
#include "harness/workload/scorers/jieba.h"
#include "harness/workload/scorers/rouge.h"

namespace unmask::scorers {
namespace {

constexpr std::size_t many = 200;  // difflib: from this length on its heuristic is in force

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

std::size_t longest_common(const std::u32string& a, const std::u32string& b) {
  std::vector<std::size_t> row(b.size() + 1, 0);
  for (const char32_t c : a) {
    std::size_t diagonal = 0;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = c == b[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return row.back();
}

// Levenshtein.ratio: 1 - d / (|a| + |b|) with insertions and deletions only; two empty texts: 1.
double levenshtein_ratio(const std::u32string& a, const std::u32string& b) {
  const std::size_t both = a.size() + b.size();
  if (both == 0) return 1;
  const std::size_t distance = both - 2 * longest_common(a, b);
  return 1.0 - static_cast<double>(distance) / static_cast<double>(both);
}

// difflib.SequenceMatcher(None, a, b).ratio(): 2 x characters in matching blocks / (|a| + |b|),
// with its heuristic that characters frequent in a long b start no block.
double difflib_ratio(const std::u32string& a, const std::u32string& b) {
  const std::size_t both = a.size() + b.size();
  if (both == 0) return 1;
  return 2.0 * static_cast<double>(matcher(a, b).matches()) / static_cast<double>(both);
}

constexpr std::string_view ascii_punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
// The list of normalize_zh_answer; a line break inside the published literal adds blanks.
constexpr std::u32string_view chinese_punctuation =
    U"！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀ "
    U"｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚"
    U"〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏.";

bool is_ascii_punctuation(char32_t c) {
  return c < 0x80 && ascii_punctuation.find(static_cast<char>(c)) != std::string_view::npos;
}

std::vector<std::string> english_words(std::string_view text) {
  static const py::pattern article(R"(\b(a|an|the)\b)");
  std::string plain;
  for (const char c : py::lower(text)) {
    if (!is_ascii_punctuation(static_cast<unsigned char>(c))) plain += c;
  }
  const std::string bare = article.sub_text(plain, " ");
  std::vector<std::string> words;
  for (const std::string_view word : py::words_of(bare)) words.emplace_back(word);
  return words;
}

std::vector<std::string> chinese_words(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string& token : jieba_cut(text)) {
    std::u32string plain;
    for (const char32_t c : py::decode(py::lower(token))) {
      const bool dropped = is_ascii_punctuation(c) || py::is_space(c) ||
                           chinese_punctuation.find(c) != std::u32string_view::npos;
      if (!dropped) plain += c;
    }
    if (!plain.empty()) words.push_back(py::encode(plain));
  }
  return words;
}

double f1_of(const std::vector<std::string>& prediction,
             const std::vector<std::string>& reference) {
  std::map<std::string_view, std::size_t> left;
  for (const std::string& word : reference) ++left[word];
  std::size_t common = 0;
  for (const std::string& word : prediction) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++common;
  }
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(prediction.size());
  const double recall = static_cast<double>(common) / static_cast<double>(reference.size());
  return 2 * precision * recall / (precision + recall);
}

// Share of the numbers in the prediction that equal `wanted` digit by digit.
double share_of(std::string_view prediction, std::string_view wanted) {
  static const py::pattern number(R"(\d+)");
  const auto all = number.find_all(prediction);
  if (all.empty()) return 0;
  const auto right = std::ranges::count_if(all, [&](const py::match& m) { return m[0] == wanted; });
  return static_cast<double>(right) / static_cast<double>(all.size());
}

double share_after(const py::pattern& name, std::string_view prediction,
                   std::string_view reference) {
  const auto found = name.search(reference);
  if (!found) {
    throw environment_error("the reference " + py::in_ticks(reference) +
                            " of a retrieval item names no paragraph");
  }
  return share_of(prediction, (*found)[1]);
}

constexpr longbench_task tasks[] = {{"narrativeqa", "qa_f1", false},
                                    {"qasper", "qa_f1", false},
                                    {"multifieldqa_en", "qa_f1", false},
                                    {"multifieldqa_zh", "qa_f1_zh", false},
                                    {"hotpotqa", "qa_f1", false},
                                    {"2wikimqa", "qa_f1", false},
                                    {"musique", "qa_f1", false},
                                    {"dureader", "rouge_zh", false},
                                    {"gov_report", "rouge", false},
                                    {"qmsum", "rouge", false},
                                    {"multi_news", "rouge", false},
                                    {"vcsum", "rouge_zh", false},
                                    {"trec", "classification", true},
                                    {"triviaqa", "qa_f1", true},
                                    {"samsum", "rouge", true},
                                    {"lsht", "classification", true},
                                    {"passage_retrieval_en", "retrieval", false},
                                    {"passage_count", "count", false},
                                    {"passage_retrieval_zh", "retrieval_zh", false},
                                    {"lcc", "code_sim", false},
                                    {"repobench-p", "code_sim", false}};

using metric = double (*)(std::string_view, std::string_view);
metric find_metric(std::string_view name) {
  static const std::map<std::string_view, metric> known = {
      {"qa_f1", qa_f1},           {"qa_f1_zh", qa_f1_zh},
      {"rouge", rouge_longbench}, {"rouge_zh", rouge_longbench_zh},
      {"retrieval", retrieval},   {"retrieval_zh", retrieval_zh},
      {"count", count_score}};
  const auto found = known.find(name);
  return found == known.end() ? nullptr : found->second;
}

}  // namespace

double qa_f1(std::string_view prediction, std::string_view reference) {
  return f1_of(english_words(prediction), english_words(reference));
}

double qa_f1_zh(std::string_view prediction, std::string_view reference) {
  return f1_of(chinese_words(prediction), chinese_words(reference));
}

double rouge_longbench(std::string_view prediction, std::string_view reference) {
  const rouge_package_scores scores = rouge_package(prediction, reference);
  return scores.error.empty() ? scores.rouge_l.f : 0.0;
}

double rouge_longbench_zh(std::string_view prediction, std::string_view reference) {
  return rouge_longbench(py::join(jieba_cut(prediction), " "), py::join(jieba_cut(reference), " "));
}

double classification(std::string_view prediction, std::string_view reference,
                      const std::vector<std::string>& classes) {
  std::vector<std::string_view> found;
  for (const std::string& name : classes) {
    if (py::contains(prediction, name)) found.push_back(name);
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string_view name = found[i];
    if (name == reference || !py::contains(reference, name)) continue;
    // As list.remove: the first equal one; the walk goes on behind the gap.
    found.erase(std::ranges::find(found, name));
  }
  if (std::ranges::find(found, reference) == found.end()) return 0;
  return 1.0 / static_cast<double>(found.size());
}

double retrieval(std::string_view prediction, std::string_view reference) {
  static const py::pattern name(R"(Paragraph (\d+))");
  return share_after(name, prediction, reference);
}

double retrieval_zh(std::string_view prediction, std::string_view reference) {
  static const py::pattern name(R"(段落(\d+))");
  return share_after(name, prediction, reference);
}

double count_score(std::string_view prediction, std::string_view reference) {
  return share_of(prediction, reference);
}

double code_similarity(std::string_view prediction, std::string_view reference, code_ratio ratio) {
  std::string_view line;
  for (const std::string_view candidate : py::split(py::lstrip(prediction, "\n"), "\n")) {
    if (candidate.find_first_of("`#") != std::string_view::npos) continue;
    if (py::contains(candidate, "//")) continue;
    line = candidate;
    break;
  }
  if (line == reference) return 1;
  const std::u32string a = py::decode(line), b = py::decode(reference);
  const double value =
      ratio == code_ratio::levenshtein ? levenshtein_ratio(a, b) : difflib_ratio(a, b);
  return std::nearbyint(100 * value) / 100;
}

std::string_view first_line(std::string_view prediction) {
  prediction = py::lstrip(prediction, "\n");
  return prediction.substr(0, prediction.find('\n'));
}

const longbench_task* find_longbench_task(std::string_view name) {
  const auto* found = std::find_if(std::begin(tasks), std::end(tasks),
                                   [&](const longbench_task& t) { return name == t.name; });
  return found == std::end(tasks) ? nullptr : found;
}

double longbench_score(std::string_view task, std::string_view prediction,
                       const std::vector<std::string>& references,
                       const std::vector<std::string>& classes, code_ratio ratio,
                       bool opencompass) {
  const longbench_task* known = find_longbench_task(task);
  if (known == nullptr) throw usage_error("LongBench has no task " + py::in_ticks(task));
  if (known->first_line) prediction = first_line(prediction);
  const std::string_view name = known->metric;
  double best = 0;
  std::string cut(prediction);
  for (const std::string& reference : references) {
    double value = 0;
    if (opencompass && name == "rouge_zh") {
      cut = py::join(jieba_cut(cut), " ");
      value = rouge_longbench(cut, py::join(jieba_cut(reference), " "));
    } else if (name == "classification") {
      value = classification(prediction, reference, classes);
    } else if (name == "code_sim") {
      value = code_similarity(prediction, reference, ratio);
    } else {
      value = find_metric(name)(prediction, reference);
    }
    best = std::max(best, value);
  }
  return best;
}

}  // namespace unmask::scorers
