// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/published.h"

#include <cmath>
#include <set>
#include <tuple>

#include "harness/base/error.h"
#include "harness/base/toml_reader.h"

namespace unmask {
namespace {

published_value read_value(toml_reader& r) {
  published_value v;
  const toml::node* number = r.find("value");
  if (!number) throw usage_error(r.where() + ": [[value]] needs `value`, a number");
  if (!number->is_number()) r.fail(*number, "`value.value` takes a number");
  v.value = *number->value<double>();
  if (!std::isfinite(v.value)) r.fail(*number, "`value.value` must be finite");
  for (const auto& [key, into] : {std::pair("artifact", &v.artifact), std::pair("row", &v.row),
                                  std::pair("column", &v.column), std::pair("metric", &v.metric),
                                  std::pair("source", &v.source)}) {
    required_text(r, key, *into);
  }
  if (!r.find("unit")) throw usage_error(r.where() + ": [[value]] needs `unit`; \"\" for none");
  r.text("unit", v.unit);
  r.text("note", v.note);
  return v;
}

}  // namespace

const published_value* published_paper::find(const std::string& artifact, const std::string& row,
                                             const std::string& column,
                                             const std::string& metric) const {
  const published_value* found = nullptr;
  for (const published_value& v : values) {
    if (v.artifact != artifact || v.row != row || v.column != column) continue;
    if (!metric.empty() && v.metric != metric) continue;
    if (found) {
      throw usage_error("published/" + paper + ".toml: " + artifact + ", row '" + row +
                        "', column '" + column + "' has several metrics; say which");
    }
    found = &v;
  }
  return found;
}

published_paper parse_published(const std::string& text, const std::filesystem::path& file) {
  const toml::table root = parsed_toml(text, file);
  published_paper paper;
  toml_reader r(root, file.string(), "");
  required_text(r, "paper", paper.paper);
  required_text(r, "title", paper.title);
  r.text("arxiv", paper.arxiv);
  r.text("harness", paper.harness);
  if (paper.paper != file.stem().string()) {
    throw usage_error(file.string() + ": `paper` is '" + paper.paper +
                      "' but must be the name of the file, '" + file.stem().string() + "'");
  }
  std::set<std::tuple<std::string, std::string, std::string, std::string>> seen;
  r.tables("value", [&](toml_reader& t) {
    published_value v = read_value(t);
    if (!seen.emplace(v.artifact, v.row, v.column, v.metric).second) {
      throw usage_error(t.where() + ": " + v.artifact + ", row '" + v.row + "', column '" +
                        v.column + "', metric '" + v.metric + "' stands here twice");
    }
    paper.values.push_back(std::move(v));
  });
  r.tables("inconsistency", [&](toml_reader& t) {
    published_inconsistency i;
    required_text(t, "where", i.where);
    required_text(t, "what", i.what);
    t.text("artifact", i.artifact);
    paper.inconsistencies.push_back(std::move(i));
  });
  r.finish();
  return paper;
}

published_paper read_published(const std::filesystem::path& file) {
  return parse_published(toml_text(file, "published numbers"), file);
}

}  // namespace unmask
