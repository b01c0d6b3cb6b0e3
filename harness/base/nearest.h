// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// "Did you mean": names by edit distance, for every message about an unknown name.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace unmask {

// The `count` names nearest to `wrong` by edit distance without regard to case, best first.
std::vector<std::string> nearest_names(std::string_view wrong,
                                       const std::vector<std::string>& known,
                                       std::size_t count = 3);

// Words with something between.
std::string joined(const std::vector<std::string>& words, std::string_view between = ", ");

// The nearest names with commas between.
std::string nearest_list(std::string_view wrong, const std::vector<std::string>& known,
                         std::size_t count = 3);

// "unknown WHAT 'x'; did you mean 'y'?", or the full list when nothing is near.
std::string unknown_name(const std::string& what, const std::string& wrong,
                         const std::vector<std::string>& known);

// Where a name stands among the known ones; a usage error when it does not, unknown_name() behind
// `where` and a colon (an empty `where` is left out).
std::size_t find_known(const std::string& what, const std::string& name,
                       const std::vector<std::string>& known, const std::string& where = "");

// The names in a table, by the member or function that tells them, and the keys of a map.
template <class Table, class Name>
std::vector<std::string> names_in(const Table& table, Name name) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(std::invoke(name, entry));
  return names;
}
template <class Map>
std::vector<std::string> keys_of(const Map& map) {
  return names_in(map, [](const auto& entry) { return entry.first; });
}

// Keeps the entries one of whose names is among `only`; all of them when it is empty. A usage error
// for a name that no entry has.
template <class Entry, class Names>
void keep_named(const std::string& what, const std::vector<std::string>& only,
                std::vector<Entry>& entries, Names names) {
  if (only.empty()) return;
  std::vector<std::string> known;
  for (const Entry& e : entries) std::ranges::copy(names(e), std::back_inserter(known));
  for (const std::string& name : only) find_known(what, name, known);
  std::erase_if(entries, [&](const Entry& e) {
    return std::ranges::none_of(
        names(e), [&](const auto& name) { return std::ranges::find(only, name) != only.end(); });
  });
}

}  // namespace unmask
