# SPDX-License-Identifier: Apache-2.0
"""The area under score against tokens a forward."""

import math
import unittest

from made import row_of

from unmask.rows.errors import UserError
from unmask.tables import parallelism


def counted(label, nfe, right, variation="", task="copy", tokens=100):
    """A row of 10 items, so many of them right, decoded in `nfe` forwards."""
    row = row_of(label, [1, 1], 1, task, variation=variation, point_id=f"{label}{variation}{task}")
    row["metrics"].update(nfe=nfe, output_tokens=tokens)
    row["score"].update(mean=right / 10, n=10)
    return row


class Area(unittest.TestCase):
    def test_one_point_is_a_rectangle(self):
        self.assertEqual(parallelism.area([(2.0, 80.0)], 90.0), 160.0)

    def test_the_trapezoids_are_weighed(self):
        # Written out: 1 * 80 + (3 - 1) * (80 w(80) + 76 w(76)) / 2, w(y) = e^(-3 (1 - y / 80)).
        self.assertAlmostEqual(parallelism.area([(3.0, 76.0), (1.0, 80.0)], 80.0),
                               80 + 80 + 76 * math.exp(-0.15))
        # No weight exceeds 1, and without a right answer there is no area.
        self.assertEqual(parallelism.weight(90.0, 80.0), 1.0)
        self.assertEqual(parallelism.area([(1.0, 0.0), (2.0, 0.0)], 0.0), 0.0)

    def test_a_point_more_than_five_below_the_first_is_left_out(self):
        kept = [(1.0, 80.0), (2.0, 75.0)]
        self.assertEqual(parallelism.area(kept + [(9.0, 74.9)], 80.0), parallelism.area(kept, 80.0))


class Curves(unittest.TestCase):
    def test_settings_are_points_and_tasks_are_pooled_item_by_item(self):
        rows = [counted("one", 100, 8, "threshold=0.9"), counted("one", 50, 8, "threshold=0.7"),
                counted("other", 25, 10), counted("one", 100, 4, "threshold=0.9", "sort"),
                counted("one", 100, 4, "threshold=0.7", "sort")]
        found = {(c["task"], c["method"]): c for c in parallelism.curves(rows)}
        self.assertEqual(found["copy", "one"]["points"], [(1.0, 80.0), (2.0, 80.0)])
        # The best score of the task is 100: 80 + 80 e^(-0.6) for the second trapezoid.
        self.assertAlmostEqual(found["copy", "one"]["area"], 80 + 80 * math.exp(-0.6))
        # 200 tokens in 200 and in 150 forwards, 12 of 20 items.
        self.assertEqual(found[None, "one"]["points"], [(1.0, 60.0), (200 / 150, 60.0)])
        # A method that lacks a task is not among all tasks together.
        self.assertNotIn((None, "other"), found)

    def test_judged_text_is_not_averaged_with_answers(self):
        judged = counted("one", 100, 2, "", "story")
        judged["workload"]["judge"] = "tiny-ar"
        rows = [counted("one", 100, 8), counted("one", 100, 4, "", "sort"), judged]
        found = {c["task"]: c["points"] for c in parallelism.curves(rows)}
        self.assertEqual(found[None], [(1.0, 60.0)])
        self.assertEqual(found["story"], [(1.0, 20.0)])
        self.assertNotIn(None, {c["task"] for c in parallelism.curves([rows[0], judged])})

    def test_the_best_area_is_first_and_rows_without_score_are_an_error(self):
        text = parallelism.report([counted("slow", 100, 8), counted("fast", 50, 8)], "md")
        self.assertLess(text.index("| fast |"), text.index("| slow |"))
        row = counted("unscored", 10, 1)
        row["score"] = None
        with self.assertRaises(UserError):
            parallelism.report([row], "md")


if __name__ == "__main__":
    unittest.main()
