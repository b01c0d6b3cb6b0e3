// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/glossary.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "harness/base/nearest.h"
#include "harness/base/toml_reader.h"
#include "harness/rows/json_of.h"

namespace unmask {

extern const char* const glossary_text;  // made at configuration

namespace {

// The sections, in the order of the page, with their headings.
constexpr std::pair<const char*, const char*> sections[] = {{"decoding", "Decoding"},
                                                            {"measuring", "Measuring"},
                                                            {"claims", "Claims"},
                                                            {"columns", "Columns"},
                                                            {"verdicts", "Verdicts"}};

std::vector<glossary_term> read_glossary() {
  std::vector<glossary_term> all;
  const toml::table parsed = parsed_toml(glossary_text, "glossary.toml");
  for (const auto& [section, heading] : sections) {
    for (const toml::node& node : *parsed[section].as_array()) {
      const toml::table& t = *node.as_table();
      const auto text = [&](const char* key) { return t[key].value_or(std::string()); };
      glossary_term term{section, text("word"), text("meaning"), text("stored"),
                         {},      text("of"),   text("when")};
      if (const toml::array* words = t["replaces"].as_array()) {
        for (const toml::node& word : *words) term.replaces.push_back(word.value_or(std::string()));
      }
      all.push_back(std::move(term));
    }
  }
  return all;
}

template <class Fits>
const std::string& word_of(const std::string& asked, const Fits& fits) {
  const auto found = std::ranges::find_if(glossary(), fits);
  if (found == glossary().end()) throw std::logic_error("the glossary lacks '" + asked + "'");
  return found->word;
}

std::string code(const std::string& name) {
  return name.empty() ? "" : "`" + name + "`";
}

text_table page_table(const std::string& section) {
  const bool verdicts = section == "verdicts";
  text_table t = verdicts ? text_table{"of", "word", "meaning", "stored as"}
                          : text_table{"word", "meaning", "instead of", "stored as"};
  for (const glossary_term& term : glossary()) {
    if (term.section != section) continue;
    if (verdicts) {
      const std::string when = term.when.empty() ? "" : ", " + term.when;
      t.add({term.of, "**" + term.word + "**", term.meaning, code(term.stored) + when});
    } else {
      t.add({"**" + term.word + "**", term.meaning, joined(term.replaces), code(term.stored)});
    }
  }
  return t;
}

}  // namespace

const std::vector<glossary_term>& glossary() {
  static const std::vector<glossary_term> all = read_glossary();
  return all;
}

const std::string& heading_of(const std::string& name) {
  return word_of(name, [&](const glossary_term& t) {
    return t.section == "columns" && (t.stored == name || (t.stored.empty() && t.word == name));
  });
}

text_table table_with(std::initializer_list<const char*> names) {
  text_table t(names);
  for (table_column& c : t.columns) c.header = heading_of(c.header);
  return t;
}

const std::string& shown_verdict(const std::string& of, const std::string& stored,
                                 const std::string& when) {
  return word_of(stored, [&](const glossary_term& t) {
    return t.section == "verdicts" && t.of == of && t.stored == stored && t.when == when;
  });
}

const std::string& shown_verdict(const result_row& row) {
  // What model.checked holds if run.device_check is off (devices/first_use.h).
  const bool unchecked =
      row.verdict == row_verdict::not_verified && row.model.checked == "NOT VERIFIED";
  return shown_verdict("row", name_of(row.verdict), unchecked ? "device check off" : "");
}

std::string glossary_page() {
  std::string page;
  for (const auto& [section, heading] : sections) {
    page += (page.empty() ? "## " : "\n## ") + std::string(heading) + "\n\n" +
            render(page_table(section), table_format::md);
  }
  return page;
}

std::string glossary_json() {
  nlohmann::ordered_json all;
  for (const auto& [section, heading] : sections) all[section] = nlohmann::ordered_json::array();
  for (const glossary_term& term : glossary()) {
    nlohmann::ordered_json entry = {{"word", term.word}, {"meaning", term.meaning}};
    if (!term.stored.empty()) entry["stored"] = term.stored;
    if (!term.replaces.empty()) entry["replaces"] = term.replaces;
    if (!term.of.empty()) entry["of"] = term.of;
    if (!term.when.empty()) entry["when"] = term.when;
    all[term.section].push_back(std::move(entry));
  }
  return json_text(all);
}

}  // namespace unmask
