#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The cards of the methods have the same headings in the same order, so a reader knows where to look (methods/ADDING.md)."""

import re
import unittest

import counts

FIRST = ["When it pays", "Use", "From the paper to the code"]
LAST = ["Results", "Tests"]
OF_A_COMBINATION = ["The five components", "Use", "Tests"]
# What other methods are compared with has no gain of its own.
BASES = ("autoregressive", "block_diffusion", "vanilla", "llada2")


def fault(name, headings):
    """What is wrong with the headings of one card; "" for nothing."""
    if name.startswith("methods/combinations/"):
        return "" if headings == OF_A_COMBINATION else f"{name}: the headings are {', '.join(OF_A_COMBINATION)}"
    first = FIRST[1:] if name.split("/")[-2] in BASES else FIRST
    if headings[:len(first)] != first:
        return f"{name}: the first headings are {', '.join(first)}"
    return "" if headings[-2:] == LAST else f"{name}: the last headings are {', '.join(LAST)}"


class Cards(unittest.TestCase):
    def test_every_card_has_the_headings_of_its_kind(self):
        cards = [f for f in counts.files() if re.fullmatch(r"methods/(\w+/)+README\.md", f)]
        self.assertGreater(len(cards), 25)
        found = [fault(f, re.findall(r"(?m)^## (.*)$", counts.text_of(f))) for f in cards]
        self.assertEqual([f for f in found if f], [])

    def test_a_wrong_card_is_named(self):
        good = ["When it pays", "Use", "From the paper to the code", "Memory", "Results", "Tests"]
        self.assertEqual(fault("methods/wino/README.md", good), "")
        self.assertEqual(fault("methods/baselines/vanilla/README.md", good[1:]), "")
        self.assertIn("first", fault("methods/wino/README.md", good[1:]))
        self.assertIn("last", fault("methods/wino/README.md", good[:-1]))
        self.assertIn("headings are", fault("methods/combinations/ada_blocks/README.md", good))


if __name__ == "__main__":
    unittest.main()
