#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Every row of every shipped artifact is in a figure that the artifact is about, or counted below it."""

import glob
import hashlib
import importlib
import os
import re
import unittest

import support

support.needs_matplotlib()

from matplotlib.colors import to_hex  # noqa: E402
from PIL import Image  # noqa: E402

import common  # noqa: E402
import report  # noqa: E402
import rows as rowlib  # noqa: E402

from unmask.page import figures  # noqa: E402
from unmask.rows import rows as results  # noqa: E402

ARCHIVE = os.path.join(support.ROOT, "results", "tiny")


def colour_of(handle):
    return to_hex(handle.get_color() if hasattr(handle, "get_marker") else handle.get_facecolor())


class Shipped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        common.style()
        cls.places = results.places_below(ARCHIVE)

    def tearDown(self):
        common.plt.close("all")

    def families_of(self, place):
        return [family for family, _ in report.families_to_draw(report.fitting_families(*place.split("/")), True)]

    def drawings(self, place):
        rows = rowlib.Rows(figures.figure_data(results.latest(self.places[place]))).reportable()
        found = []
        for family, options in self.families_of(place):
            try:
                found += common.drawn(importlib.import_module(family).draw, rows, options)
            except rowlib.NotDrawn as problem:
                self.assertTrue(str(problem))
        return rows, found

    def readable(self, figure):
        """At most eight entries in a legend, no two of one colour, no empty panel."""
        for legend in figure.legends:
            handles = legend.legend_handles
            self.assertLessEqual(len(handles), 8, [t.get_text() for t in legend.get_texts()])
            looks = [(colour_of(h), h.get_linestyle() if hasattr(h, "get_marker") else h.get_hatch())
                     for h in handles]
            self.assertEqual(len(set(looks)), len(looks), [t.get_text() for t in legend.get_texts()])
        for axes in figure.axes:
            if axes.axison:
                self.assertTrue(axes.has_data() or axes.texts, "an empty panel")

    def check_pictures(self, place, drawings):
        """The pictures that the repository holds have the words of these drawings: none was left behind."""
        now = {common.words_of(d.figure) for d in drawings}
        for picture in glob.glob(os.path.join(ARCHIVE, place, "figures", "*.png")):
            with Image.open(picture) as image:
                self.assertIn(image.text.get("Description"), now, f"{picture}: draw it again")
            self.shipped += 1

    def test_every_row_is_in_a_figure_of_its_artifact(self):
        self.assertGreater(len(self.places), 60)
        pictures, self.shipped = {}, 0
        for place in sorted(self.places):
            if not self.families_of(place):
                continue  # a table says it all
            with self.subTest(place):
                rows, drawings = self.drawings(place)
                self.assertTrue(drawings, "no figure of its own is drawn")
                seen = {r["point_id"] for d in drawings for r in d.rows}
                lacking = [f"{r['series']} {r['workload']['family']}" for r in rows
                           if r["point_id"] not in seen]
                self.assertEqual(lacking, [])
                for number, d in enumerate(drawings):
                    picture = hashlib.sha256(common.svg_text(d.figure).encode()).hexdigest()
                    self.assertEqual(pictures.setdefault(picture, (place, number)), (place, number),
                                     "two artifacts have one picture")
                    self.readable(d.figure)
                self.check_pictures(place, drawings)
                for d in drawings:
                    left_out = len(rows) - len({r["point_id"] for r in d.rows})
                    said = re.search(r"· (\d+) of (\d+) rows are not shown here",
                                     d.figure.note.get_text())
                    self.assertEqual((left_out, len(rows)) if left_out else None,
                                     said and (int(said.group(1)), int(said.group(2))))
            common.plt.close("all")
        self.assertEqual(self.shipped, len(glob.glob(os.path.join(ARCHIVE, "**", "*.png"), recursive=True)))

    def test_the_headline_figure_has_its_batch_of_64(self):
        rows, drawings = self.drawings("optimus/figure_8/tiny")
        self.assertEqual(len(rows), 78)
        for axes in drawings[0].figure.axes:
            if not axes.containers:
                continue
            for line in axes.containers:
                self.assertEqual(list(line.lines[0].get_xdata()), [1, 8, 64])
        labels = {text.get_text() for legend in drawings[0].figure.legends
                  for text in legend.get_texts()}
        self.assertFalse([name for name in labels if "limit" in name], labels)


if __name__ == "__main__":
    support.main()
