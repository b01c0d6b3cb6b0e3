#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The measures of tables, on texts whose counts are known by hand."""

import unittest

import tables

MADE = "<!-- from: unmask table x -->\n{}\n<!-- end -->\n"


class Measures(unittest.TestCase):
    def test_a_cell_of_121_characters_or_two_sentences_is_wide(self):
        self.assertEqual(tables.measures(f"| a |\n|---|\n| {'x' * 120} |\n")["wide_cells"], 0)
        self.assertEqual(tables.measures(f"| a |\n|---|\n| {'x' * 121} | b |\n")["wide_cells"], 1)
        self.assertEqual(tables.measures("| a |\n|---|\n| One fact. Two facts. |\n")["wide_cells"], 1)
        self.assertEqual(tables.measures("| a |\n|---|\n| i.e. one of 1.5 |\n")["wide_cells"], 0)

    def test_an_address_is_not_read_and_a_made_table_is_measured_by_its_columns(self):
        self.assertEqual(tables.measures(f"| a |\n|---|\n| [b]({'x' * 121}) |\n")["wide_cells"], 0)
        wide, narrow = ("| " + " | ".join("abcdefgh"[:n]) + " |\n|---|" for n in (8, 7))
        self.assertEqual(tables.measures(MADE.format(wide)), {"wide_cells": 0, "wide_tables": 1})
        self.assertEqual(tables.measures(MADE.format(narrow)), {"wide_cells": 0, "wide_tables": 0})
        self.assertEqual(tables.measures(MADE.format(f"| {'x' * 200} |"))["wide_cells"], 0)
        self.assertEqual(tables.measures(f"```\n| {'x' * 200} |\n```\n")["wide_cells"], 0)


if __name__ == "__main__":
    unittest.main()
