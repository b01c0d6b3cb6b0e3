// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The files of a benchmark as its authors publish them, found by path, plain or packed. Nothing is
// downloaded and no code of a dataset is executed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/model/tokenizer.h"

namespace unmask {

struct official_text {
  std::string name;  // where it was found, for messages
  std::string text;
};

class official_files {
 public:
  // `roots`: folders with one folder per dataset, or the folder of one dataset.
  explicit official_files(std::vector<std::filesystem::path> roots,
                          const tokenizer* tokens = nullptr)
      : roots_(std::move(roots)), tokens_(tokens) {}

  // The first of `names` that exists in DATASET/ of a root, or in a root itself: as it stands, with
  // .gz, as the leading records in STEM.firstN.EXT.gz, or as a member of a zip archive there.
  // Environment error that lists the names and the folders when there is none.
  official_text text(const std::string& dataset, const std::vector<std::string>& names) const;
  // The folder NAME in the same places; empty: there is none.
  std::filesystem::path folder(const std::string& dataset, const std::string& name) const;
  // For items that are made to a number of tokens; usage error that names the dataset without one.
  const tokenizer& tokens(const std::string& dataset) const;

 private:
  std::vector<std::filesystem::path> roots_;
  const tokenizer* tokens_;
};

// Calls visit(object, row) for every line of JSON Lines; rows count from 0.
void each_object(const official_text& file,
                 const std::function<void(const json_reader& object, std::size_t row)>& visit);

// Rows of comma-separated values (RFC 4180: quoted fields may hold commas, line ends and ""),
// without blank lines. Environment error for a quote that never closes.
std::vector<std::vector<std::string>> csv_rows(const official_text& file);

}  // namespace unmask
