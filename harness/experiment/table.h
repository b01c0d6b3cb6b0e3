// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Tables from result rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/experiment/row.h"

namespace unmask {

enum class table_format : std::uint8_t { md, csv, json, jsonl };
table_format parse_table_format(const std::string& name);  // usage error with the nearest name

// md: | model | method | task | items | score | tok/s | committed/step | redundancy | nfe | verdict
// | with a mean line over the families of each method that ran on several; csv: one header, flat
// columns; json: an array of rows; jsonl: the rows. Of rows with the same point id the last counts.
// A row with synthetic weights says so and never shows a score. Served rows have a table of their
// own in md, below.
std::string render_table(const std::vector<result_row>& rows, table_format format);

// Rows of kind serve: | model | method | workload | requests | arrivals | clock | tok/s | TTFB P50
// | TPOT P50 | TPOT P90 | goodput | capacity | batch | rows/forward | verdict |; TPOT by the
// definition of the row's objective.
std::string serve_table(const std::vector<result_row>& rows);

}  // namespace unmask
