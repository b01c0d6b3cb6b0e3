// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a paper printed: experiments/published/PAPER.toml. These numbers are shown beside ours, as
// the paper's, and never in place of ours.
//
//   paper, title, arxiv; harness: id under which its scores were made (unmask list benchmarks)
//   [[value]]          artifact, row, column, metric, value, unit, source; note
//   [[inconsistency]]  where, what; artifact
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace unmask {

struct published_value {
  std::string artifact, row, column, metric;
  double value = 0;
  std::string unit, source, note;
};

struct published_inconsistency {
  std::string artifact, where, what;
};

struct published_paper {
  std::string paper, title, arxiv;
  std::string harness;  // of its scores; empty: the paper does not say
  std::vector<published_value> values;
  std::vector<published_inconsistency> inconsistencies;

  // `metric` empty: any, of which there must be one only. Null when there is none.
  const published_value* find(const std::string& artifact, const std::string& row,
                              const std::string& column, const std::string& metric = "") const;
};

// Usage errors that name file, line and key: unknown or missing keys, a value that is no finite
// number, a number without its source, the same cell twice, a paper that is not the file's stem.
published_paper read_published(const std::filesystem::path& file);
published_paper parse_published(const std::string& toml, const std::filesystem::path& file);

}  // namespace unmask
