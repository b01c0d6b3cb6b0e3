// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/nearest.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "harness/base/error.h"

namespace unmask {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::pair<std::size_t, std::string>> by_distance(
    std::string_view wrong, const std::vector<std::string>& known) {
  wrong = wrong.substr(0, 200);  // it comes from a file or a keyboard; keep the work small
  std::vector<std::pair<std::size_t, std::string>> order;
  for (const std::string& name : known) order.emplace_back(edit_distance(wrong, name), name);
  std::ranges::stable_sort(order, {}, &std::pair<std::size_t, std::string>::first);
  return order;
}

}  // namespace

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

std::vector<std::string> nearest_names(std::string_view wrong,
                                       const std::vector<std::string>& known, std::size_t count) {
  std::vector<std::string> names;
  for (const auto& [distance, name] : by_distance(wrong, known)) {
    if (names.size() < count) names.push_back(name);
  }
  return names;
}

std::string nearest_list(std::string_view wrong, const std::vector<std::string>& known,
                         std::size_t count) {
  return joined(nearest_names(wrong, known, count));
}

std::string unknown_name(const std::string& what, const std::string& wrong,
                         const std::vector<std::string>& known) {
  const std::string head = "unknown " + what + " '" + wrong + "'; ";
  const auto order = by_distance(wrong, known);
  if (order.empty()) return head + "there is none to choose from";
  // Near: about every third character wrong at most, or one name begins with the other.
  std::string near;
  for (const auto& [distance, name] : order) {
    const std::size_t shorter = std::min(wrong.size(), name.size());
    const bool prefix = shorter >= 3 && wrong.compare(0, shorter, name, 0, shorter) == 0;
    const bool close = distance <= std::max<std::size_t>(1, (wrong.size() + 1) / 3);
    if (near.empty() && (close || prefix)) near = name;
  }
  if (!near.empty()) return head + "did you mean '" + near + "'?";
  std::vector<std::string> sorted = known;
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return head + "known: " + joined(sorted);
}

std::size_t find_known(const std::string& what, const std::string& name,
                       const std::vector<std::string>& known, const std::string& where) {
  const auto at = std::ranges::find(known, name);
  if (at != known.end()) return static_cast<std::size_t>(at - known.begin());
  throw usage_error((where.empty() ? "" : where + ": ") + unknown_name(what, name, known));
}

}  // namespace unmask
