// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/safetensors.h"

#include "tests/harness/model/support.h"

namespace unmask {
namespace {

using namespace test;

std::vector<safetensors_entry> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "dir/model.safetensors");
}

void expect_refused(const std::string& file, std::vector<std::string> parts) {
  parts.insert(parts.begin(), "dir/model.safetensors");
  expect_environment_error([&] { parse(file); }, parts);
}

// A file of one header text and n bytes of data.
std::string file_of(const std::string& header, std::size_t n) {
  return with_length(header, std::string(n, '\0'));
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST(safetensors, reads_a_file) {
  const scratch_folder directory;
  const auto path = directory.path() / "model.safetensors";
  write_file(path, test::make_safetensors({{"b", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"a", {4}, {}}}));
  const safetensors_file file(path);
  ASSERT_EQ(file.entries().size(), 2U);
  EXPECT_EQ(file.entries()[0].name, "a");
  const tensor_view b = file.view("b");
  EXPECT_EQ(b.type, dtype::f32);
  EXPECT_EQ(b.rank, 2);
  EXPECT_EQ(b.rows(), 2);
  EXPECT_EQ(b.columns(), 3);
  EXPECT_EQ(b.row<float>(1)[2], 6.0F);
  EXPECT_EQ(file.find("c"), nullptr);
  expect_environment_error([&] { file.view("c"); }, {path.string(), "\"c\"", "missing"});
}

TEST(safetensors, truncated_files) {
  const std::string whole = test::make_safetensors({{"a", {4}, {}}, {"b", {2, 3}, {}}});
  ASSERT_EQ(parse(whole).size(), 2U);
  for (std::size_t n = 0; n < whole.size(); ++n)
    expect_refused(whole.substr(0, n), {"safetensors"});
  expect_refused(whole.substr(0, 7), {"truncated"});
  expect_refused(whole.substr(0, whole.size() - 1), {"truncated", "\"b\""});
  expect_refused(whole + "x", {"1 bytes after the last tensor"});
}

TEST(safetensors, header_length) {
  expect_refused(std::string(8, '\xFF'), {"header length", "limit"});
  std::string file = file_of("{}", 0);
  ASSERT_TRUE(parse(file).empty());
  file[0] = 3;
  expect_refused(file, {"longer than the file"});
  expect_refused(file_of(" {}", 0), {"must begin with '{'"});
  expect_refused(file_of("", 0), {"must begin with '{'"});
}

TEST(safetensors, header_text) {
  expect_refused(file_of(R"({"a":)", 0), {"JSON"});
  expect_refused(file_of("{\"\xFF\":1}", 0), {"JSON"});
  expect_refused(file_of(R"({"a":1})", 0), {"\"a\"", "object"});
  expect_refused(file_of(R"({"__metadata__":{"x":1}})", 0), {"__metadata__"});
  const std::string a = entry("F32", "[1]", "[0,4]");
  expect_refused(file_of(R"({"a":)" + a + R"(,"a":)" + a + "}", 4), {"`a`", "twice"});
}

TEST(safetensors, entries) {
  const auto one = [](const std::string& value, std::size_t n) {
    return file_of(R"({"w":)" + value + "}", n);
  };
  EXPECT_EQ(parse(one(entry("BF16", "[2,2]", "[0,8]"), 8)).size(), 1U);
  EXPECT_EQ(parse(one(entry("I64", "[]", "[0,8]"), 8)).size(), 1U);
  EXPECT_EQ(parse(one(entry("F32", "[0,5]", "[0,0]"), 0)).size(), 1U);
  expect_refused(one(entry("F31", "[1]", "[0,4]"), 4), {"\"w\"", "`dtype`", "F31"});
  expect_refused(one(R"({"shape":[1],"data_offsets":[0,4]})", 4), {"\"w\"", "`dtype`"});
  expect_refused(one(R"({"dtype":"F32","data_offsets":[0,4]})", 4), {"\"w\"", "`shape`"});
  expect_refused(one(R"({"dtype":"F32","shape":[1]})", 4), {"\"w\"", "`data_offsets`"});
  expect_refused(one(entry("F32", "[2]", "[0,4]"), 4), {"\"w\"", "8 bytes", "give 4"});
  expect_refused(one(entry("F32", "[-1]", "[0,4]"), 4), {"\"w\"", "`shape`"});
  expect_refused(one(entry("F32", "[1.5]", "[0,4]"), 4), {"\"w\"", "`shape`"});
  expect_refused(one(entry("F32", "[4294967296,4294967296]", "[0,4]"), 4), {"\"w\"", "larger"});
  expect_refused(one(entry("F32", "[1]", "[-4,0]"), 4), {"\"w\"", "`data_offsets`"});
  expect_refused(one(entry("F32", "[1]", "[4,0]"), 4), {"\"w\"", "`data_offsets`"});
  expect_refused(one(entry("F32", "[1]", "[0,4,8]"), 4), {"\"w\"", "`data_offsets`"});
  expect_refused(one(entry("F32", "[1]", "[0,99]"), 4), {"truncated", "\"w\""});
  expect_refused(one(entry("F32", "[1]", "[0,18446744073709551615]"), 4), {"`data_offsets`"});
}

TEST(safetensors, overlap_and_holes) {
  const auto two = [](const std::string& a, const std::string& b, std::size_t n) {
    return file_of(R"({"a":)" + entry("F32", "[2]", a) + R"(,"b":)" + entry("F32", "[2]", b) + "}",
                   n);
  };
  EXPECT_EQ(parse(two("[0,8]", "[8,16]", 16)).size(), 2U);
  EXPECT_EQ(parse(two("[8,16]", "[0,8]", 16)).size(), 2U);
  expect_refused(two("[0,8]", "[4,12]", 12), {"\"b\" overlaps", "\"a\""});
  expect_refused(two("[0,8]", "[0,8]", 8), {"overlaps"});
  expect_refused(two("[0,8]", "[12,20]", 20), {"hole of 4 bytes", "\"b\""});
  expect_refused(two("[4,12]", "[12,20]", 20), {"hole of 4 bytes", "\"a\""});
}

TEST(safetensors, views_refuse_what_weights_cannot_be) {
  const scratch_folder directory;
  const auto path = directory.path() / "odd.safetensors";
  // The header has 8 n + 1 bytes in the end, so that nothing behind it is aligned.
  std::string header = R"({"i":)" + entry("I64", "[1]", "[0,8]") + R"(,"s":)" +
                       entry("F32", "[]", "[8,12]") + R"(,"f":)" + entry("F32", "[1]", "[12,16]") +
                       "}";
  while (header.size() % 8 != 1) header += ' ';
  write_file(path, file_of(header, 16));
  const safetensors_file file(path);
  expect_environment_error([&] { file.view("i"); }, {path.string(), "\"i\"", "`dtype` I64"});
  expect_environment_error([&] { file.view("s"); }, {path.string(), "\"s\"", "no dimension"});
  expect_environment_error([&] { file.view("f"); }, {path.string(), "\"f\"", "multiple"});
}

// A patch embedding [out, channels, times, height, width] and a picture of bytes.
TEST(safetensors, five_dimensions_and_bytes) {
  const scratch_folder directory;
  const auto path = directory.path() / "tower.safetensors";
  std::string header = R"({"p":)" + entry("F32", "[2,3,1,2,5]", "[0,240]") + R"(,"u":)" +
                       entry("U8", "[2,3]", "[240,246]") + "}";
  while (header.size() % 8 != 0) header += ' ';
  std::string bytes = file_of(header, 246);
  bytes.back() = 7;
  write_file(path, bytes);
  const safetensors_file file(path);
  EXPECT_EQ(file.find("p")->shape, (std::vector<std::int64_t>{2, 3, 1, 2, 5}));
  const tensor_view patches = file.view("p");
  EXPECT_EQ(patches.rank, 4);
  EXPECT_EQ(patches.shape, (std::array<std::int64_t, 4>{2, 3, 1, 10}));
  EXPECT_EQ(patches.row_stride, 30);
  EXPECT_EQ(patches.elements(), 60);
  EXPECT_EQ(file.view("u").row<std::uint8_t>(1)[2], 7);
}

TEST(safetensors, missing_file) {
  expect_environment_error([] { safetensors_file("/nowhere/model.safetensors"); },
                           {"/nowhere/model.safetensors", "does not exist"});
  expect_environment_error([] { safetensors_file("/"); }, {"regular file"});
}

}  // namespace
}  // namespace unmask
