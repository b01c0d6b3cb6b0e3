# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Which of cuBLASLt's algorithms a product takes: the stand-in has two, of which the second reads fewer bytes, and
pretends their times.

    tuning_test.py PROGRAM    PROGRAM: unmask_softgpu
"""

import glob
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import first_use_test  # noqa: E402


class Tuning(first_use_test.OneCard):
    def kept(self):
        """The one file of tuned products."""
        (name,) = glob.glob(os.path.join(self.folder.name, "cache", "tune-*.json"))
        return name

    def chosen(self, times, keep=False, rows=None, **faults):
        """Numbers of the algorithms of all products of more columns than the first one's tile, with these times;
        `rows`: of those of this bucket with a bfloat16 result, which every layer has of each number of rows."""
        self.row("run.device_check=off", PRODUCTS_TAKE=times, **faults)
        numbers = []
        with open(self.kept(), encoding="utf-8") as file:
            for product in map(json.loads, file):
                # Behind eight bytes that name the stand-in and four alignments (cublaslt.cpp).
                number = bytes.fromhex(product["algorithm"])[24:28]
                if product["n"] > 64 and "in_turn" in product and (
                        rows is None or (product["m"] == rows and product["half"])):
                    numbers.append(int.from_bytes(number, "little"))
        if not keep:
            os.remove(self.kept())
        self.assertGreater(len(numbers), 1)
        return set(numbers)

    def test_a_tie_goes_to_fewer_bytes(self):
        self.assertEqual(self.chosen("1 1.03 0"), {1})
        self.assertEqual(self.chosen("1.03 1 0"), {1})

    def test_more_than_five_per_cent_is_no_tie(self):
        self.assertEqual(self.chosen("1 1.07 0"), {0})

    def test_calls_are_in_turn_so_that_a_card_that_warms_up_decides_nothing(self):
        """Each product takes 4 % of a second longer. Timed one behind the other, the second would seem slower."""
        self.assertEqual(self.chosen("1 0.9 0.04"), {1})

    def test_what_another_number_of_rows_chose_is_tried_too(self):
        """For the eight rows of a block the library does not name the second algorithm, which a prompt's rows took."""
        self.assertEqual(self.chosen("1 0.9 0", rows=8, ONE_ANSWER="8"), {1})

    def test_what_was_tuned_is_kept_but_not_of_an_older_rule(self):
        self.assertEqual(self.chosen("1 1.07 0", keep=True), {0})
        self.assertEqual(self.chosen("1 1.03 0", keep=True), {0})
        with open(self.kept(), encoding="utf-8") as file:
            older = file.read().replace('"in_turn":true,', "")
        with open(self.kept(), "w", encoding="utf-8") as file:
            file.write(older)
        self.assertEqual(self.chosen("1 1.03 0"), {1})


if __name__ == "__main__":
    first_use_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
