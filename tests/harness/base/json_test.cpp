// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/json.h"

#include "tests/harness/model/support.h"

namespace unmask {
namespace {

using test::expect_environment_error;

TEST(json, keeps_types_and_sorts_members) {
  const json_value root = parse_json(R"({"b": [1, 2.5, null], "a": {"x": true}, "c": "é"})", "f");
  ASSERT_NE(root.members(), nullptr);
  EXPECT_EQ(root.members()->front().first, "a");
  EXPECT_EQ(*(*root.find("b")->items())[0].integer(), 1);
  EXPECT_EQ((*root.find("b")->items())[1].integer(), nullptr);
  EXPECT_TRUE((*root.find("b")->items())[2].is_null());
  EXPECT_TRUE(*root.find("a")->find("x")->boolean());
  EXPECT_EQ(*root.find("c")->text(), "é");
  EXPECT_EQ(root.find("d"), nullptr);
}

TEST(json, refuses_broken_text) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "\"\xFF\"", "{} x", "1e999"}) {
    expect_environment_error([&] { parse_json(text, "some/file.json"); }, {"some/file.json"});
  }
  expect_environment_error([] { parse_json(R"({"a":1,"b":{"k":1,"k":2}})", "f.json"); },
                           {"f.json", "`k`", "twice"});
  expect_environment_error([] { parse_json(std::string_view("{}\0 x", 5), "f.json"); },
                           {"f.json", "zero byte"});
  expect_environment_error([] { parse_json(std::string(100000, '['), "f.json"); },
                           {"f.json", "deeper than 64"});
}

TEST(json, reader_names_file_and_key) {
  const json_value root =
      parse_json(R"({"n": 5, "x": 2.5, "s": "t", "o": {"i": "five"}, "z": null, "big": 1e300,)"
                 R"("u": 18446744073709551615})",
                 "dir/config.json");
  const json_reader r(root, "dir/config.json");
  EXPECT_EQ(r.integer("n", 0, 9), 5);
  EXPECT_EQ(r.number("n", 0, 9), 5.0);
  EXPECT_FALSE(r.given("z"));
  EXPECT_EQ(r.integer_or("z", 0, 9, 7), 7);
  expect_environment_error([&] { r.integer("x", 0, 9); }, {"dir/config.json", "`x`", "integer"});
  expect_environment_error([&] { r.integer("n", 6, 9); },
                           {"dir/config.json", "`n`", "5", "6 to 9"});
  expect_environment_error([&] { r.integer("u", 0, 9); }, {"`u`", "integer"});
  expect_environment_error([&] { r.number("big", 0, 9); }, {"`big`"});
  expect_environment_error([&] { r.number("s", 0, 9); }, {"`s`", "a string"});
  expect_environment_error([&] { r.text("n"); }, {"`n`", "string"});
  expect_environment_error([&] { r.flag_or("n", true); }, {"`n`", "true or false"});
  expect_environment_error([&] { r.at("missing"); }, {"`missing`", "is missing"});
  expect_environment_error([&] { r.child("n"); }, {"`n`", "object"});
  expect_environment_error([&] { r.child("o").integer("i", 0, 9); }, {"`o.i`"});
}

}  // namespace
}  // namespace unmask
