#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The measures of prose, on texts whose counts are known by hand."""

import unittest

import prose

LONG = " ".join(["word"] * 31) + "."
CODE = """```
""" + LONG + """
```
"""


class Measures(unittest.TestCase):
    def measured(self, text, key):
        return prose.measures(text)[key]

    def test_a_sentence_of_31_words_is_long_and_one_of_30_is_not(self):
        self.assertEqual(self.measured(LONG, "over_30_words"), 1)
        self.assertEqual(self.measured(LONG[5:], "over_30_words"), 0)
        self.assertEqual(self.measured("One. Two, i.e. a second. Three 1.5 times.", "sentences"), 3)

    def test_items_of_a_list_are_sentences_of_their_own(self):
        half = " ".join(["word"] * 16)
        self.assertEqual(self.measured(f"* {half}\n* {half}\n", "over_30_words"), 0)
        self.assertEqual(self.measured(f"* {half}\n  {half}\n", "over_30_words"), 1)

    def test_code_tables_headings_and_generated_blocks_are_no_prose(self):
        for text in (CODE, f"| {LONG} |\n", f"# {LONG}\n", f"<!-- from: it -->\n{LONG}\n<!-- end -->\n"):
            self.assertEqual(self.measured(text, "words"), 0, text)

    def test_six_numbers_in_a_sentence_are_too_many(self):
        self.assertEqual(self.measured("It takes 1, 2, 3, 4 and 5 ms.", "six_numbers"), 0)
        self.assertEqual(self.measured("It takes 1, 2, 3, 4, 5 and 6 ms.", "six_numbers"), 1)

    def test_numbers_without_a_marker_are_typed(self):
        marked = 'It is <!-- is: a.md#b .1 -->2.5<!-- --> times, or <!-- is: . "x" "µs" -->7<!-- --> µs'
        self.assertEqual((prose.typed_numbers(marked + "."), prose.typed_numbers(marked + " of 30 `8`.")), (0, 1))

    def test_words_that_the_style_sheet_replaces_are_found(self):
        self.assertEqual(self.measured("It stands beside the speed-up.", "avoid"), 2)
        self.assertEqual(self.measured("It is next to the speedup.", "avoid"), 0)


class Bounds(unittest.TestCase):
    def test_what_exceeds_its_bound_is_named_and_a_page_without_bounds_has_none(self):
        now = {"a.md": prose.measures(LONG), "b.md": prose.measures(LONG)}
        (line,) = prose.worse(now, {"a.md": {"over_30_words": 1}})
        self.assertTrue(line.startswith("b.md: over_30_words 1, at most 0"), line)


if __name__ == "__main__":
    unittest.main()
