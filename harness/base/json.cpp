// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"

namespace unmask {
namespace {

constexpr std::size_t max_depth = 64;

// Builds the tree from parser events. Our own tree rather than nlohmann's: half the memory on a
// tokenizer.json, and duplicate keys are seen (the library silently keeps the last one).
class tree_builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit tree_builder(const std::string& file) : file_(file) {}

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add({value}); }
  bool number_integer(std::int64_t value) override { return add({value}); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return add({static_cast<double>(value)});
    }
    return add({static_cast<std::int64_t>(value)});
  }
  bool number_float(double value, const std::string&) override { return add({value}); }
  bool string(std::string& value) override { return add({std::move(value)}); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open({json_value::object{}}); }
  bool start_array(std::size_t) override { return open({json_value::array{}}); }
  bool key(std::string& value) override {
    keys_.back() = std::move(value);
    return true;
  }
  bool end_object() override {
    auto& members = std::get<json_value::object>(open_.back().data);
    std::ranges::sort(members, {}, &json_member::first);
    const auto twice = std::ranges::adjacent_find(members, {}, &json_member::first);
    if (twice != members.end()) {
      throw environment_error(file_ + ": the key `" + twice->first +
                              "` is given twice; keep one of the two");
    }
    return close();
  }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& problem) override {
    // The library's text after its "[json.exception...] parse error at ...: " prefix.
    std::string reason = problem.what();
    for (const std::string_view mark : {"] ", ": "}) {
      const auto end = reason.find(mark);
      if (end != std::string::npos) reason.erase(0, end + mark.size());
    }
    if (reason.size() > 200) reason.resize(200);
    throw environment_error(file_ + ": not valid JSON at byte " + std::to_string(byte) + " (" +
                            reason + ")");
  }

  json_value take() { return std::move(root_); }

 private:
  bool add(json_value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* items = std::get_if<json_value::array>(&open_.back().data)) {
      items->push_back(std::move(value));
    } else {
      std::get<json_value::object>(open_.back().data)
          .push_back({std::move(keys_.back()), std::move(value)});
    }
    return true;
  }
  bool open(json_value value) {
    if (open_.size() == max_depth) {
      throw environment_error(file_ + ": nested deeper than " + std::to_string(max_depth) +
                              " levels");
    }
    open_.push_back(std::move(value));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    json_value done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return add(std::move(done));
  }

  const std::string& file_;
  std::vector<json_value> open_;
  std::vector<std::string> keys_;
  json_value root_;
};

std::string range_text(std::int64_t low, std::int64_t high) {
  return std::to_string(low) + " to " + std::to_string(high);
}

std::string number_text(double value) {
  std::string text = std::to_string(value);
  while (text.find('.') != std::string::npos && (text.back() == '0' || text.back() == '.')) {
    const bool dot = text.back() == '.';
    text.pop_back();
    if (dot) break;
  }
  return text;
}

}  // namespace

const char* json_value::type_name() const {
  constexpr const char* names[] = {"null",     "a boolean", "an integer", "a fraction",
                                   "a string", "an array",  "an object"};
  return names[data.index()];
}

const json_value* json_value::find(std::string_view key) const {
  const object* all = members();
  if (all == nullptr) return nullptr;
  const auto at = std::ranges::lower_bound(*all, key, {}, &json_member::first);
  return at != all->end() && at->first == key ? &at->second : nullptr;
}

bool is_hostile_json(std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\0') return true;
    if (c == '"') quoted = !quoted;
    if (quoted) {
      i += c == '\\';
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth) return true;
    } else if (c == ']' || c == '}') {
      depth -= depth > 0;
    }
  }
  return false;
}

void refuse_lfs_pointer(std::string_view text, const std::string& file) {
  if (!text.starts_with("version https://git-lfs.github.com/spec/")) return;
  throw environment_error(file +
                          ": is a Git LFS pointer, the file itself was never fetched; run "
                          "`git lfs pull` in its folder, or download the file");
}

json_value parse_python_json(std::string_view text, const std::string& file) {
  std::string plain;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    std::size_t length = quoted && c == '\\' ? 2 : 1;
    if (!quoted && (c == 'N' || c == 'I' || c == '-')) {
      for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
        if (text.substr(i).starts_with(word)) length = word.size();
      }
    }
    const bool constant = !quoted && length > 1;
    if (constant) plain += '"';
    plain += text.substr(i, length);
    if (constant) plain += '"';
    i += length;
  }
  return parse_json(plain, file);
}

json_value parse_json(std::string_view text, const std::string& file) {
  refuse_lfs_pointer(text, file);
  if (text.find('\0') != std::string_view::npos) {  // where nlohmann would end
    throw environment_error(file + ": not valid JSON: it has a zero byte");
  }
  tree_builder builder(file);
  if (!nlohmann::json::sax_parse(text, &builder)) {
    throw environment_error(file + ": not valid JSON");
  }
  return builder.take();
}

json_reader::json_reader(const json_value& object, std::string file, std::string path)
    : object_(&object), file_(std::move(file)), path_(std::move(path)) {
  if (object.members() == nullptr) {
    throw environment_error(file_ + ": " + (path_.empty() ? "the file" : "`" + path_ + "`") +
                            " must be an object, not " + object.type_name());
  }
}

std::string json_reader::name_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void json_reader::fail(std::string_view key, const std::string& sentence) const {
  throw environment_error(file_ + ": `" + name_of(key) + "` " + sentence);
}

const json_value* json_reader::find(std::string_view key) const {
  if (asked_ != nullptr) asked_->emplace(key);
  const json_value* value = object_->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool json_reader::given(std::string_view key) const {
  return find(key) != nullptr;
}

const json_value& json_reader::at(std::string_view key) const {
  const json_value* value = find(key);
  if (value == nullptr) fail(key, "is missing");
  return *value;
}

std::int64_t json_reader::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
  const json_value& value = at(key);
  const std::int64_t* n = value.integer();
  if (n == nullptr) fail(key, std::string("must be an integer, not ") + value.type_name());
  if (*n < low || *n > high) {
    fail(key, "is " + std::to_string(*n) + "; supported is " + range_text(low, high));
  }
  return *n;
}

std::int64_t json_reader::integer_or(std::string_view key, std::int64_t low, std::int64_t high,
                                     std::int64_t otherwise) const {
  return given(key) ? integer(key, low, high) : otherwise;
}

double json_reader::number(std::string_view key, double low, double high) const {
  const json_value& value = at(key);
  double n = 0;
  if (const std::int64_t* whole = value.integer()) {
    n = static_cast<double>(*whole);
  } else if (const double* fraction = std::get_if<double>(&value.data)) {
    n = *fraction;
  } else {
    fail(key, std::string("must be a number, not ") + value.type_name());
  }
  if (!(n >= low && n <= high)) {
    fail(key, "is " + number_text(n) + "; supported is " + number_text(low) + " to " +
                  number_text(high));
  }
  return n;
}

double json_reader::number_or(std::string_view key, double low, double high,
                              double otherwise) const {
  return given(key) ? number(key, low, high) : otherwise;
}

bool json_reader::flag_or(std::string_view key, bool otherwise) const {
  const json_value* value = find(key);
  if (value == nullptr) return otherwise;
  const bool* flag = value->boolean();
  if (flag == nullptr) fail(key, std::string("must be true or false, not ") + value->type_name());
  return *flag;
}

std::string json_reader::text(std::string_view key) const {
  const json_value& value = at(key);
  const std::string* t = value.text();
  if (t == nullptr) fail(key, std::string("must be a string, not ") + value.type_name());
  return *t;
}

std::string json_reader::text_or(std::string_view key, std::string_view otherwise) const {
  return given(key) ? text(key) : std::string(otherwise);
}

json_reader json_reader::child(std::string_view key) const {
  return {at(key), file_, name_of(key)};
}

}  // namespace unmask
