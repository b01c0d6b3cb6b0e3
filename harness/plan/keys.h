// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Keys of the tables of an experiment file, declared once. Beside the struct of a table stands its
// each_key(), which says of every key what it may hold and what it means. Reading with its errors
// (read_keys.h), FORMAT.md (format.cpp), ids of points (keys_in_id) and what --confine looks at
// (paths_in) visit these lists. A new key is its member, a line there, and the code that heeds it.
//
// A visitor has, for a key of each type:
//   visit(key, value)             a text, a number, a truth, texts, a path, or a table of settings
//   visit.range(key, low, high)   [LOW, HIGH]
//   visit.one_or_more(key, texts) a text or texts
//   visit.hashed(key, path, hash) a path whose content is part of a point's id
//   visit.whole(key, type)        what another list declares: a table, or tables
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace unmask {

// Whether a key is part of a point's id. Where it is one only when changed, older ids, of before the
// key was there, stay as they are.
enum class id_part : std::uint8_t { never, when_changed, always };
inline constexpr double unbounded = std::numeric_limits<double>::infinity();

struct file_key {
  const char *name, *meaning = "";  // no meaning: its words say it

  constexpr file_key bounds(double least, double most = unbounded) const {  // inclusive
    return with([&](file_key& k) { k.low = least, k.high = most; });
  }
  // What its texts may be; else "unknown WHAT 'x'".
  constexpr file_key one_of(const std::vector<std::string>& (*list)(), const char* of_what) const {
    return with([&](file_key& k) { k.words = list, k.what = of_what; });
  }
  // An error without it: "[[model]] needs `path`, WHAT".
  constexpr file_key needed(const char* of_what = "") const {
    return with([&](file_key& k) {
      k.is_needed = true;
      k.lacking = of_what;
    });
  }
  // Its value when it is absent, in words; else that of the struct.
  constexpr file_key otherwise(const char* words_of_it) const {
    return with([&](file_key& k) { k.without = words_of_it; });
  }
  // It means something there alone: serve, benchmark, likelihood.
  constexpr file_key of(const char* scope) const {
    return with([&](file_key& k) { k.only_of = scope; });
  }
  constexpr file_key in_ids(id_part part) const {
    return with([&](file_key& k) { k.id = part; });
  }
  // A path that its table looks up; else it is beside the file.
  constexpr file_key looked_up() const {
    return with([&](file_key& k) { k.is_looked_up = true; });
  }

  double low = 0, high = unbounded;
  const std::vector<std::string>& (*words)() = nullptr;
  const char *what = "", *lacking = "", *without = "", *only_of = "";
  bool is_needed = false, is_looked_up = false;
  id_part id = id_part::never;

 private:
  constexpr file_key with(auto change) const {
    file_key copy = *this;
    change(copy);
    return copy;
  }
};

// What a visitor does with keys that it passes over.
struct key_visitor {
  template <class Value>
  void operator()(const file_key&, Value&) {}
  template <class Value>
  void range(const file_key&, Value&, Value&) {}
  void one_or_more(const file_key&, std::vector<std::string>&) {}
  void whole(const file_key&, const char*) {}
};

}  // namespace unmask
