// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// JSON Lines: one object per line, errors that name the file and the line.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "harness/base/json.h"

namespace unmask {

// Whole text of a workload file, plain or gzip. Environment error when it is missing or unreadable.
std::string read_workload_text(const std::string& path);

// Calls visit(line, number) for every line that is not blank; numbers count from 1, and the line
// comes without its line end (LF or CRLF).
void for_each_line(std::string_view text,
                   const std::function<void(std::string_view line, std::size_t number)>& visit);

// Calls visit(object, number) for every line of a JSON Lines file, or of its text. The reader's
// errors read "FILE, line N: `key` ...". A file without any object is an environment error.
void for_each_object(
    std::string_view text, const std::string& file,
    const std::function<void(const json_reader& object, std::size_t number)>& visit);
void for_each_json_line(
    const std::string& path,
    const std::function<void(const json_reader& object, std::size_t number)>& visit);

// One line of JSON text with keys sorted, so that equal values give equal text.
std::string json_text(const json_value& value);
std::string json_string(const std::string& text);  // in quotes

}  // namespace unmask
