// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How wide a text is on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace unmask {

// Columns that a line of valid UTF-8 takes: 2 for wide and full-width characters (Unicode Standard
// Annex 11), none for marks that combine with the character before them.
int display_width(std::string_view line);

// The beginning of the line that fits into so many columns; "…" is its last column where it was cut.
std::string cut_to_width(std::string_view line, int columns);

}  // namespace unmask
