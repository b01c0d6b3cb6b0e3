// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Keys of the tables of an experiment file, declared once. Beside the struct of a table stands its
// each_key(), which says of every key what it may hold and what it means. Reading with its errors
// (read_keys.h), FORMAT.md (format.cpp), ids of points (keys_in_ids) and what --confine looks at
// (each_path) visit these lists. A new key is its member, a line there, and the code that heeds it.
//
// A visitor has, for a key of each type:
//   visit(key, value)                 a text, number, truth or path, texts, or a table of settings
//   visit.range(key, of, low, high)   [LOW, HIGH] of something
//   visit.one_or_more(key, texts)     a text or texts
//   visit.hashed(key, path, hash)     a path; the hash of what lies there is part of ids
//   visit.over(key, type)             of a scale: what it lays over a table with keys of its own
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace unmask {

// Whether a key is part of a point's id. If it is one only when changed, ids that are older than the
// key stay as they are.
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
  // An older name of it, which is still read.
  constexpr file_key once(const char* older) const {
    return with([&](file_key& k) { k.former = older; });
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
  const char *what = "", *lacking = "", *without = "", *only_of = "", *former = "";
  bool is_needed = false, is_looked_up = false;
  id_part id = id_part::never;

 private:
  constexpr file_key with(auto change) const {
    file_key copy = *this;
    change(copy);
    return copy;
  }
};

// What a file says between quotes or as one word.
template <class Value>
concept key_scalar = std::same_as<Value, std::string> || std::same_as<Value, std::int64_t> ||
    std::same_as<Value, double> || std::same_as<Value, bool>;

// A visitor that passes over every key.
struct key_visitor {
  template <class Value>
  void operator()(const file_key&, Value&) {}
  void range(const file_key&, const char*, std::int64_t&, std::int64_t&) {}
  void one_or_more(const file_key&, std::vector<std::string>&) {}
  void hashed(const file_key&, std::filesystem::path&, std::string&) {}
  void over(const file_key&, const char*) {}
};

// Puts the keys that are part of an id into a JSON object. `usual`: that of a table without any;
// null: put them all.
template <class Json>
struct id_writer : key_visitor {
  Json& out;
  const Json* usual;

  id_writer(Json& into, const Json* without) : out(into), usual(without) {}
  template <class Value>
  void operator()(const file_key& key, Value& value) {
    if constexpr (key_scalar<Value>) put(key, value);
  }
  void range(const file_key& key, const char*, std::int64_t& low, std::int64_t& high) {
    put(key, Json{low, high});
  }
  void hashed(const file_key& key, std::filesystem::path& path, std::string& hash) {
    if (!path.empty()) out[key.name] = hash;
  }
  void put(const file_key& key, const Json& value) {
    if (key.id == id_part::never) return;
    if (usual == nullptr || key.id == id_part::always || usual->at(key.name) != value) {
      out[key.name] = value;
    }
  }
};

template <class Json, class Table>
Json keys_in_ids(Table table) {
  Table untouched;
  Json usual = Json::object(), out = Json::object();
  id_writer<Json> all(usual, nullptr), those(out, &usual);
  each_key(untouched, all);
  each_key(table, those);
  return out;
}

// Every path that a table names: use(key, path).
template <class Use>
struct path_visitor : key_visitor {
  Use use;
  explicit path_visitor(Use how) : use(std::move(how)) {}
  template <class Value>
  void operator()(const file_key& key, Value& value) {
    if constexpr (std::same_as<Value, std::filesystem::path>) use(std::string(key.name), value);
  }
  void hashed(const file_key& key, std::filesystem::path& path, std::string&) {
    use(std::string(key.name), path);
  }
};

template <class Table, class Use>
void each_path(Table table, Use use) {
  path_visitor<Use> visit(std::move(use));
  each_key(table, visit);
}

}  // namespace unmask
