# SPDX-License-Identifier: Apache-2.0
"""The canvas of a decode of three positions, by hand: the second is unmasked first, masked again, and replaced."""

import os
import re
import sys
import unittest

from support import needs

needs("numpy")

import numpy as np

# Not from the package, which needs the compiled part.
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../../harness/python/unmask/engine"))

from display import MOST_STEPS, Canvas  # noqa: E402

#          step, position, token, kind, confidence
EVENTS = [(1, 1, 7, 1, 0.9), (2, 0, 5, 1, 0.6), (2, 1, -1, 3, 0.1), (4, 1, 8, 1, 0.7), (4, 2, 9, 4, 0.8), (5, 1, 6, 2, 0.5)]
CANDIDATES = [(1, 0, 5, 0, 0.5), (1, 1, 7, 0, 0.9), (1, 2, 9, 0, 0.25), (2, 0, 5, 0, 0.6), (2, 2, 9, 0, 0.3),
              (4, 1, 8, 0, 0.7), (4, 2, 9, 0, 0.8)]


class Decode(unittest.TestCase):
    def setUp(self):
        self.canvas = Canvas(zip(*EVENTS), zip(*CANDIDATES), 3, lambda token: {7: "<b>", 6: "a\nb"}.get(token, f"t{token}"))

    def test_arrays(self):
        self.assertEqual(self.canvas.steps().tolist(), [1, 2, 4, 5])
        self.assertEqual(self.canvas.tokens().tolist(), [[-1, 7, -1], [5, -1, -1], [5, 8, 9], [5, 6, 9]])
        self.assertEqual(self.canvas.unmasked().tolist(), [2, 4, 4])
        nan = float("nan")
        np.testing.assert_array_equal(self.canvas.confidences(),
                                      [[0.5, 0.9, 0.25], [0.6, nan, 0.3], [nan, 0.7, 0.8], [nan] * 3])

    def test_html_shows_each_position_and_escapes_its_text(self):
        text = self.canvas._repr_html_()
        lines = re.findall(r"<tr>.*?</tr>", text)
        self.assertEqual([re.findall(r">([^<>]*)</th>", line)[0] for line in lines], ["2", "3", "5", "6"])
        shown = [[re.sub("</?b>", "*", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", line)] for line in lines]
        self.assertEqual(shown, [["·", "*&lt;b&gt;*", "·"], ["*t5*", "*·*", "·"], ["t5", "*t8*", "*t9*"],
                                 ["t5", "*a⏎b*", "t9"]])
        self.assertEqual(re.findall(r'title="([^"]*)"', lines[0]), ["0.500", "0.900", "0.250"])
        self.assertNotIn("not shown", text)

    def test_html_of_a_long_decode_says_what_it_leaves_out(self):
        many = [(step, 0, 5, 0, 0.5) for step in range(MOST_STEPS + 3)]
        text = Canvas(zip(*[(0, 0, 5, 1, 0.5)]), zip(*many), 1)._repr_html_()
        self.assertEqual(text.count("<tr>"), MOST_STEPS)
        self.assertIn("; 3 more forward passes are not shown", text)


if __name__ == "__main__":
    unittest.main()
