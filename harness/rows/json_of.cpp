// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/json_of.h"

#include <cmath>

namespace unmask {

using nlohmann::ordered_json;

ordered_json json_of(const interval& range) {
  return {range.low, range.high};
}

ordered_json json_of(const text_table& t) {
  ordered_json out = {{"title", t.title},
                      {"columns", ordered_json::array()},
                      {"rows", ordered_json::array()},
                      {"notes", t.notes}};
  for (const table_column& c : t.columns) {
    out["columns"].push_back({{"header", c.header}, {"right", c.right}});
  }
  for (const auto& row : t.rows) {
    ordered_json cells = ordered_json::array();
    for (const table_cell& c : row) {
      ordered_json cell = {{"text", c.text}};
      if (!c.range.empty()) cell["range"] = c.range;
      if (c.bold) cell["bold"] = true;
      if (c.dagger) cell["dagger"] = true;
      if (std::isfinite(c.value)) cell["value"] = c.value;
      if (std::isfinite(c.low)) cell["low"] = c.low;
      if (std::isfinite(c.high)) cell["high"] = c.high;
      cells.push_back(std::move(cell));
    }
    out["rows"].push_back(std::move(cells));
  }
  return out;
}

std::string json_text(const ordered_json& value) {
  return value.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace unmask
