// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The plain tables of result rows.
#pragma once

#include <string>
#include <vector>

#include "harness/rows/row_table.h"
#include "harness/rows/text_table.h"

namespace unmask {

// Closed batches: model, method, task, items, score, tok/s, speed-up over the first method that ran
// on the same model and workload in the same circumstances, tokens delivered a forward, committed/step,
// redundancy, nfe,
// verdict, long reasons as footnotes, "!" behind a speed known to worse than 10 %, the preset behind a
// method's label, with a mean line over the families of each method that ran on several. A row with
// synthetic weights says so and never shows a score.
text_table decode_table(const row_list& rows);
// Rows of kind serve: requests, arrivals, clock, TTFB, TPOT by the definition of the row's objective,
// goodput, capacity.
text_table serve_table(const row_list& rows);
// Returns a table of each kind of row that is there.
std::vector<text_table> tables_of(const row_table& rows);
// Every row with all of its metrics, a column each, numbers unrounded.
text_table flat_table(const row_table& rows);
// md, latex: tables_of; csv: flat_table; json: an array of the rows themselves.
std::string render_rows(const row_table& rows, table_format format);

// What `unmask profile` saw of each row: time, work and share of the roof by phase.
std::vector<text_table> phase_tables(const row_list& rows);

}  // namespace unmask
