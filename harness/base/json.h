// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// JSON as the checkpoint readers need it: a light tree, duplicate keys and deep nesting refused,
// and typed look-ups whose errors name the file and the key. The parser itself stays hidden in
// json.cpp, because its header is expensive to compile.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace unmask {

struct json_member;

struct json_value {
  using array = std::vector<json_value>;
  using object = std::vector<json_member>;  // sorted by key
  std::variant<std::monostate, bool, std::int64_t, double, std::string, array, object> data;

  bool is_null() const { return data.index() == 0; }
  const bool* boolean() const { return std::get_if<bool>(&data); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data); }
  const std::string* text() const { return std::get_if<std::string>(&data); }
  const array* items() const { return std::get_if<array>(&data); }
  const object* members() const { return std::get_if<object>(&data); }
  const char* type_name() const;  // "null", "a boolean", "an integer", ...
  // The member called key of an object; null when there is none.
  const json_value* find(std::string_view key) const;
};

struct json_member {
  std::string first;
  json_value second;
};

// Parse one JSON text. Errors are environment errors that name `file` and the byte: bad syntax,
// text that is not UTF-8, a key given twice, nesting deeper than 64.
json_value parse_json(std::string_view text, const std::string& file);

// The same as Python's json.load reads it: NaN, Infinity and -Infinity, which transformers writes for
// keys of no use here, are the texts of those names, so that a key that is used refuses them.
json_value parse_python_json(std::string_view text, const std::string& file);

// Environment error where the text is a Git LFS pointer instead of the file that it stands for.
void refuse_lfs_pointer(std::string_view text, const std::string& file);

// Whether a text that nlohmann reads into a tree would end the program, by nesting deeper than 64 when
// the tree is walked, or be cut short at a zero byte. What it says of text that is no JSON means nothing.
bool is_hostile_json(std::string_view text);

// The members of one object, with typed look-ups. A member that is absent or null counts as "not
// given". Every failure is an environment error that names the file and the key.
class json_reader {
 public:
  // path: what stands before the key in messages, "" for the outermost object.
  json_reader(const json_value& object, std::string file, std::string path = "");

  bool given(std::string_view key) const;
  const json_value* find(std::string_view key) const;  // null when absent or null
  const json_value& at(std::string_view key) const;    // must be given

  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  std::int64_t integer_or(std::string_view key, std::int64_t low, std::int64_t high,
                          std::int64_t otherwise) const;
  double number(std::string_view key, double low, double high) const;
  double number_or(std::string_view key, double low, double high, double otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  json_reader child(std::string_view key) const;  // must be an object

  // From here on, puts every key that is looked for into `asked`, which must outlive this reader.
  void note_asked(std::set<std::string>& asked) { asked_ = &asked; }

  const std::string& file() const { return file_; }
  std::string name_of(std::string_view key) const;  // path and key, for messages
  // Throws the environment error "FILE: `KEY` SENTENCE".
  [[noreturn]] void fail(std::string_view key, const std::string& sentence) const;

 private:
  const json_value* object_;
  std::string file_;
  std::string path_;
  std::set<std::string>* asked_ = nullptr;
};

}  // namespace unmask
