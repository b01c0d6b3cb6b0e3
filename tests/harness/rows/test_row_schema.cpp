// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/rows/row_schema.h"
#include "tests/harness/measure/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;
using nlohmann::json;

TEST(row_schema, its_two_files_are_what_the_program_says) {
  const std::string source = UNMASK_SOURCE_DIR;
  for (const char* file :
       {"/results/row.schema.json", "/harness/python/unmask/rows/row.schema.json"}) {
    EXPECT_TRUE(read_file(source + file, std::size_t{1} << 20) == row_schema_text())
        << file << " is not what `unmask show schema` prints; write it anew";
  }
}

// What the schema calls needed is what the reader refuses to do without; all else may be away.
TEST(row_schema, needs_what_the_reader_needs) {
  const json schema = json::parse(row_schema_text());
  const json row = json::parse(to_json_line(sample_row()));
  const auto is_read = [&](const json& changed) {
    try {
      parse_row(changed.dump(), "x");
      return true;
    } catch (const error&) {
      return false;
    }
  };
  ASSERT_TRUE(is_read(row));
  const auto needs = [](const json& of, const std::string& name) {
    return std::ranges::find(of.at("required"), json(name)) != of.at("required").end();
  };
  for (const auto& [name, value] : row.items()) {
    json without = row;
    without.erase(name);
    EXPECT_EQ(is_read(without), !needs(schema, name)) << name;
    const json& kind = schema.at("properties").at(name);
    if (!kind.contains("required") || !value.is_object()) continue;
    for (const auto& [member, inside] : value.items()) {
      json less = row;
      less.at(name).erase(member);
      EXPECT_EQ(is_read(less), !needs(kind, member)) << name << "." << member;
    }
  }
}

}  // namespace
}  // namespace unmask
