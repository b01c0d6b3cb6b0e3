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
    def chosen(self, times):
        """Numbers of the algorithms of all products of more columns than the first one's tile, with these times."""
        self.row("run.device_check=off", PRODUCTS_TAKE=times)
        numbers = []
        for name in glob.glob(os.path.join(self.folder.name, "cache", "tune-*.json")):
            with open(name, encoding="utf-8") as file:
                for product in map(json.loads, file):
                    # Behind eight bytes that name the stand-in and four alignments (cublaslt.cpp).
                    number = bytes.fromhex(product["algorithm"])[24:28]
                    if product["n"] > 64:
                        numbers.append(int.from_bytes(number, "little"))
            os.remove(name)
        self.assertGreater(len(numbers), 2)
        return set(numbers)

    def test_a_tie_goes_to_fewer_bytes(self):
        self.assertEqual(self.chosen("1 1.03 0"), {1})
        self.assertEqual(self.chosen("1.03 1 0"), {1})

    def test_more_than_five_per_cent_is_no_tie(self):
        self.assertEqual(self.chosen("1 1.07 0"), {0})

    def test_calls_are_in_turn_so_that_a_card_that_warms_up_decides_nothing(self):
        """Each product takes 4 % of a second longer. Timed one behind the other, the second would seem slower."""
        self.assertEqual(self.chosen("1 0.9 0.04"), {1})


if __name__ == "__main__":
    first_use_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
