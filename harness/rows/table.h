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

// Closed batches: score, tokens/s, speedup over the first method that ran on the same model and
// workload in the same circumstances, counts, verdict; headings and verdicts in the words of the
// glossary. Long reasons are footnotes. "!" marks a speed known to worse than 10 %. A preset follows
// its method's label. Rows that differ only in their seed are one line. Rows of several machines have
// a column that names them. A method has a mean line over the tasks with right answers, if it ran on
// several. A row with synthetic weights is marked and never shows a score.
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
std::vector<text_table> phase_tables(const row_list& rows, bool in_order = false);

}  // namespace unmask
