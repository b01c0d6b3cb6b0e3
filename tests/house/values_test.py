#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Marked numbers are those of the page that the marker names."""

import os
import tempfile
import unittest

import page_values
import prose

PAGE = """# Claims

<a id="faster"></a>
## It is faster

| quantity | here | bound | published |
|---|---:|---:|---:|
| ratio of speeds | 2.117 [1.820, 2.464], n = 3 repetitions | above 1 (paper) | 2.320 |
| change of quality, pp | lower: -15.4 [-17.3, -13.4], n = 200 items | at least -2 pp | – |
| over the simplest method | 0.421 [0.226, 0.786] over BD2 | – | – |

| claim | verdict | here |
|---|---|---|
| control [other](#controls): It is so | SUPPORTED | 9.000 |

<a id="share"></a>
## It holds much

| quantity | here | bound | published |
|---|---:|---:|---:|
| value | 0.365 [0.329, 0.398], n = 36 items | at least 0.500 (us) | 0.574 |

<a id="none"></a>
## It did not run

**NOT RUN.**

## Controls

| id | claim | verdict | here | bound |
|---|---|---|---|---|
| other | It is so | SUPPORTED | 1.789 [1.418, 2.257], n = 3 repetitions | above 1 |
"""


class Values(unittest.TestCase):
    def shown(self, name, words=""):
        return page_values.text_of(PAGE, name, words.split())

    def test_a_number_is_rounded_and_has_its_interval(self):
        self.assertEqual(self.shown("faster", ".2"), "2.12 [1.82, 2.46]")
        self.assertEqual(self.shown("faster", "value .1"), "2.1")
        self.assertEqual(self.shown("faster", "simplest .2"), "0.42 [0.23, 0.79]")
        self.assertEqual(self.shown("faster", "published .2"), "2.32")
        self.assertEqual(self.shown("other", ".1"), "1.8 [1.4, 2.3]")
        self.assertEqual(page_values.text_of(PAGE.replace("1.418", "-0.02"), "other", [".1"]), "1.8 [0.0, 2.3]")
        needs = PAGE.replace("lower: -15.4", "not determined (needs 6709 items): -15.4")
        self.assertEqual(page_values.text_of(needs, "faster", ["quality", "loss"]), "15 [13, 17]")
        self.assertEqual(page_values.text_of_cell(needs, '"^change of quality" "here" loss'), "15 [13, 17]")

    def test_a_control_has_the_cell_that_the_words_name(self):
        page = ("## Controls\n\n| id | statement | verdict | here | bound | change of quality, pp |\n|---|---|---|---|---|---|\n"
                "| slow | It is slower | INCONCLUSIVE | 1.030 [0.920, 1.154], n = 5 | above 1 | not determined (needs 1826 "
                "items): -7.0 [-13.0, -1.1], n = 100 items |\n")
        self.assertEqual(page_values.text_of(page, "slow", [".2"]), "1.03 [0.92, 1.15]")
        self.assertEqual(page_values.text_of(page, "slow", ["quality", "loss", ".1"]), "7.0 [1.1, 13.0]")
        with self.assertRaisesRegex(page_values.Unknown, "slow with 'over the simplest method'"):
            page_values.text_of(page, "slow", ["simplest"])

    def test_a_loss_has_the_other_sign_and_its_ends_in_order(self):
        self.assertEqual(self.shown("faster", "quality loss"), "15 [13, 17]")
        self.assertEqual(self.shown("share", "%"), "37 [33, 40]")  # half is up

    def test_what_the_page_does_not_have_is_named(self):
        for name, words, says in (("fastr", "", "no claim or control fastr"), ("none", "", "none has no row"),
                                  ("share", "quality", "share has no row 'change of quality, pp'")):
            with self.assertRaisesRegex(page_values.Unknown, says):
                self.shown(name, words)

    def test_a_cell_of_a_table_is_named_by_its_row_and_column(self):
        table = ("| case | way | µs | share |\n|---|---|---:|---:|\n| product 8 | own | **1,200** | 0.50 |\n"
                 "| product 16 | own | 2400.5 | 0.75 [0.70, 0.80] |\n| product 16 | other | 3000 | – |\n\n"
                 "| case | µs |\n|---|---:|\n| sum | 7 |\n\n* Seen: 196 cases, 3 wrong\n")

        def shown(text):
            return page_values.text_of_cell(table, text)
        self.assertEqual(shown('"product 8 .* own" "µs"'), "1200")
        self.assertEqual(shown('"product 8 .* own" "µs" ,'), "1,200")
        self.assertEqual(shown('"^product 16 . own" "share" %'), "75 [70, 80]")
        self.assertEqual(shown('"product" "share" least .1'), "0.5")
        self.assertEqual(shown('"product" "µs" most over "product 8" "µs" .2'), "2.50")
        self.assertEqual(shown('"product 16 . own" "µs" over "16 . other" "µs" least .2'), "0.80")
        self.assertEqual(shown('"" "µs" median'), "1800")  # middle of 1200 and 2400.5
        self.assertEqual((shown('"" "µs" count'), shown('"" "µs" sum .1')), ("4", "6607.5"))
        self.assertEqual([shown('"([0-9]+) cases"' + by) for by in ("", " /60 .1", " /0.5")], ["196", "3.3", "392"])
        for text, says in (('"product" "µs"', "3 numbers of product, µs"), ('"product" "ms"', "no numbers of product, ms"),
                           ('"(x) cases"', "no numbers")):
            with self.assertRaisesRegex(page_values.Unknown, says):
                shown(text)

    def test_a_page_may_name_its_own_table(self):
        page = ('| a | µs |\n|---|---|\n| x | 12.5 |\n\nIt takes <!-- is: . "x" "µs" .1 -->9<!-- --> µs, and '
                '<!-- is: page.md#faster value .1 -->2.1<!-- -->.')
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "page.md"), "w", encoding="utf-8") as file:
                file.write(PAGE)
            new = page_values.rewritten(page, folder)
        self.assertEqual(new, page.replace("-->9<", "-->12.5<"))
        self.assertTrue(page_values.without_markers(new).endswith("It takes 12.5 µs, and 2.1."))

    def test_a_text_gets_its_numbers_and_a_reader_sees_no_marker(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "page.md"), "w", encoding="utf-8") as file:
                file.write(PAGE)
            text = "It is <!-- is: page.md#faster value .1 -->9.9<!-- --> times as fast."
            new = page_values.rewritten(text, folder)
        self.assertEqual(new, text.replace("9.9", "2.1"))
        self.assertEqual(page_values.without_markers(new), "It is 2.1 times as fast.")
        self.assertEqual(prose.measures(new)["words"], 6)


if __name__ == "__main__":
    unittest.main()
