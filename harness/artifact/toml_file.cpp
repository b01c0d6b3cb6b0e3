// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/artifact/toml_file.h"

#include <fstream>
#include <sstream>

#include "harness/base/error.h"

namespace unmask {

std::string toml_text(const std::filesystem::path& file, const std::string& what) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) {
    throw usage_error("cannot read the " + what + " " + file.string());
  }
  return text.str();
}

toml::table parsed_toml(const std::string& text, const std::filesystem::path& file) {
  try {
    return toml::parse(text, file.string());
  } catch (const toml::parse_error& problem) {
    throw usage_error(file.string() + ":" + std::to_string(problem.source().begin.line) + ": " +
                      std::string(problem.description()));
  }
}

void required_text(toml_reader& r, const std::string& key, std::string& into) {
  r.text(key, into);
  if (into.empty()) throw usage_error(r.where() + ": " + r.name_of(key) + " is missing or empty");
}

std::filesystem::path required_file(toml_reader& r, const std::string& key,
                                    const std::filesystem::path& beside) {
  std::string text;
  required_text(r, key, text);
  const std::filesystem::path file = (beside.parent_path() / text).lexically_normal();
  std::error_code failed;
  if (!std::filesystem::is_regular_file(file, failed)) {
    throw usage_error(r.where() + ": " + r.name_of(key) + " names " + file.string() +
                      ", which does not exist");
  }
  return file;
}

void read_selector(toml_reader& reader, const std::string& key, row_selector& into) {
  reader.table(key, [&](toml_reader& t) {
    t.text("metric", into.metric);
    t.leaves([&](const std::string& name, const toml::node& node) {
      const std::string where = t.where(node);
      check_row_key(name, where);
      std::vector<parameter_value>& values = into.keys[name];
      const std::string what = where + ": `" + key + "." + name + "`";
      if (const toml::array* list = node.as_array()) {
        for (const toml::node& item : *list) values.push_back(toml_scalar(item, what));
      } else {
        values.push_back(toml_scalar(node, what));
      }
      if (values.empty()) throw usage_error(what + " holds no value");
    });
  });
}

}  // namespace unmask
