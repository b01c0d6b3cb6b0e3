// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/nearest.h"

#include <algorithm>
#include <numeric>

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

}  // namespace

std::string nearest_names(std::string_view wanted, const std::vector<std::string>& names,
                          std::size_t count) {
  wanted = wanted.substr(0, 200);  // the name comes from a file; keep the work small
  std::vector<std::pair<std::size_t, const std::string*>> order;
  for (const std::string& name : names) order.emplace_back(edit_distance(wanted, name), &name);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) {
    text += (i == 0 ? "" : ", ") + *order[i].second;
  }
  return text;
}

}  // namespace unmask
