#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The figures of profiled rows, read back from their axes, against rows that the program measured."""

import copy
import unittest

import support

support.needs_matplotlib()

from matplotlib.colors import to_hex  # noqa: E402

import common  # noqa: E402
import roofline  # noqa: E402
import step_breakdown  # noqa: E402


def points(cell):
    """(x, y, marker, hollow) of single marks."""
    return [(line.get_xdata()[0], line.get_ydata()[0], line.get_marker(),
             to_hex(line.get_markerfacecolor()) == to_hex(common.PAPER))
            for line in cell.lines if len(line.get_xdata()) == 1]


class Roofline(unittest.TestCase):
    def setUp(self):
        common.style()
        self.rows = support.rows_of("phases")
        self.addCleanup(common.plt.close, "all")

    def test_points_are_work_over_bytes_and_time(self):
        (drawing,) = roofline.draw(self.rows)
        found = points(drawing.figure.axes[0])
        expected = []
        for row in self.rows:
            for p in row["probes"]["phases"]["phases"]:
                if p["flops"] > 0 and p["bytes"]:
                    expected.append((p["flops"] / p["bytes"],
                                     p["flops"] / p["own_seconds"] / 1e9))
        self.assertGreaterEqual(len(expected), 10)
        self.assertEqual(len(found), len(expected))
        for (x, y, _, hollow), (want_x, want_y) in zip(sorted(found), sorted(expected)):
            self.assertAlmostEqual(x / want_x, 1)
            self.assertAlmostEqual(y / want_y, 1)
            self.assertTrue(hollow)  # the work is analytic

    def test_the_roofs_are_the_rows(self):
        (drawing,) = roofline.draw(self.rows)
        roofs = self.rows[0]["probes"]["phases"]["roofs"]
        lines = [line for line in drawing.figure.axes[0].lines if len(line.get_xdata()) == 2]
        self.assertEqual(len(lines), 2)
        slanted, flat = lines
        self.assertAlmostEqual(flat.get_ydata()[1], roofs["flops_per_second"] / 1e9)
        self.assertAlmostEqual(slanted.get_ydata()[0] / slanted.get_xdata()[0],
                               roofs["bytes_per_second"] / 1e9)
        self.assertAlmostEqual(slanted.get_ydata()[1], flat.get_ydata()[0])  # they meet

    def test_counted_work_is_solid_and_device_time_replaces_the_clock(self):
        row = copy.deepcopy(self.rows[0])
        (phase,) = [p for p in row["probes"]["phases"]["phases"] if p["phase"] == "attention"]
        phase.update(provenance="cupti", flops=4e9, bytes=2e9, device_seconds=0.5)
        (drawing,) = roofline.draw(support.computed([row]))
        self.assertIn((2.0, 8.0), [(round(x, 9), round(y, 9)) for x, y, _, hollow
                                   in points(drawing.figure.axes[0]) if not hollow])

    def test_rows_without_phases_or_without_bytes_are_not_drawn(self):
        with self.assertRaisesRegex(common.NotDrawn, "unmask profile"):
            roofline.draw(support.rows_of("decode"))
        rows = copy.deepcopy(self.rows)
        for row in rows:
            for p in row["probes"]["phases"]["phases"]:
                p["bytes"] = None
        with self.assertRaises(common.NotDrawn):
            roofline.draw(support.computed(rows))


class StepBreakdown(unittest.TestCase):
    def setUp(self):
        common.style()
        self.rows = support.rows_of("phases")
        self.addCleanup(common.plt.close, "all")

    def test_the_parts_of_a_bar_add_up_to_the_traced_run(self):
        (drawing,) = step_breakdown.draw(self.rows)
        cell = drawing.figure.axes[0]
        for place, row in enumerate(self.rows):
            width = sum(p.get_width() for p in cell.patches
                        if round(p.get_y() + p.get_height() / 2) == place)
            report = row["probes"]["phases"]
            self.assertAlmostEqual(width, 1e3 * report["seconds"] /
                                   row["metrics"]["batched_forwards"], places=6)

    def test_small_phases_are_drawn_together_and_none_is_lost(self):
        parts, kinds = step_breakdown.parts_of(self.rows.phases)
        self.assertIn(step_breakdown.OTHER, kinds)
        self.assertNotIn("settle", kinds)
        for method in self.rows.phases:
            self.assertAlmostEqual(sum(parts[method["series"]].values()),
                                   1e3 * sum(p["seconds"] for p in method["phases"]) /
                                   method["forwards"])

    def test_equal_rows_give_equal_bytes(self):
        first, second = (common.svg_text(module.draw(self.rows)[0].figure)
                         for module in (step_breakdown, step_breakdown))
        self.assertEqual(first, second)
        first, second = (common.svg_text(module.draw(self.rows)[0].figure)
                         for module in (roofline, roofline))
        self.assertEqual(first, second)


if __name__ == "__main__":
    support.main()
