#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""What the options for a figure in a paper do: width, choice and order, names, notes, colours."""

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import support

support.needs_matplotlib()

import numpy as np  # noqa: E402

import common  # noqa: E402
import decode_order  # noqa: E402
import pareto  # noqa: E402
import probes  # noqa: E402
import roofline  # noqa: E402
import rows as rowlib  # noqa: E402
import serving  # noqa: E402
import step_breakdown  # noqa: E402
import style  # noqa: E402
import throughput  # noqa: E402
import throughput_batch  # noqa: E402

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear sRGB.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]])}
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                [0.0193339, 0.1191920, 0.9503041]])


def linear(colour):
    """sRGB "#RRGGBB" as linear light (IEC 61966-2-1)."""
    c = np.array([int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(light):
    """CIE 1976 L*a*b* under D65."""
    v = XYZ @ np.clip(light, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(v > 216 / 24389, np.cbrt(v), (24389 / 27 * v + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(a, b, vision):
    return np.linalg.norm(lab(VISIONS[vision] @ linear(a)) - lab(VISIONS[vision] @ linear(b)))


class Colours(unittest.TestCase):
    def test_any_two_stay_apart_for_everyone(self):
        self.assertGreaterEqual(len(common.COLOURS), 10)
        for a, b in itertools.combinations(common.COLOURS, 2):
            for vision in VISIONS:
                self.assertGreater(distance(a, b, vision), 16, (a, b, vision))

    def test_the_measure_finds_what_is_too_near(self):
        self.assertLess(distance("#009E73", "#7F7F7F", "deuteranopia"), 10)

    def test_each_is_seen_on_white(self):
        for colour in common.COLOURS:  # relative luminance and contrast as WCAG 2 defines them
            luminance = np.array([0.2126, 0.7152, 0.0722]) @ linear(colour)
            self.assertGreater(1.05 / (luminance + 0.05), 2, colour)

    def test_eight_series_have_colours_of_their_own_and_of_more_six_have(self):
        for count, named in ((1, 1), (8, 8), (9, 6), (22, 6)):
            looks = list(style.looks([f"method {n}" for n in range(count)]).values())
            self.assertEqual([k.named for k in looks], [True] * named + [False] * (count - named))
            self.assertEqual(len({k.colour for k in looks[:named]} - {style.OTHERS}), named)
            self.assertLessEqual({k.colour for k in looks[named:]}, {style.OTHERS})

    def test_the_series_that_are_asked_for_have_names(self):
        names = [f"chunk {n} on cpu" for n in range(9)] + ["Optimus, other on cpu", "Optimus on cpu"]
        self.addCleanup(setattr, style.SETUP, "named", ())
        style.SETUP.named = ("Optimus", "chunk 8")
        named = [name for name, look in style.looks(names).items() if look.named]
        self.assertEqual(named, ["Optimus on cpu", "chunk 8 on cpu", *(f"chunk {n} on cpu" for n in range(4))])

    def test_long_names_stay_different(self):
        for names in (["x" * 160, "x" * 159 + "y"], [f"{n}{'long ' * 40}" for n in range(9)],
                      ["a" * 60 + f"{n}" + "b" * 60 for n in range(9)], ["short", "s" * 57],
                      [f"{a * 30} {b} {c * 30}" for a in "pq" for b in "12" for c in "vw"]):
            short = style.shortened(names)
            self.assertEqual(len(set(short.values())), len(names), short)
            self.assertLessEqual(max(map(len, short.values())), style.LONGEST + 4)
        self.assertEqual(style.shortened(["a name", "b"]), {"a name": "a name", "b": "b"})

    def test_a_logarithmic_axis_has_numbers_to_read(self):
        for low, high in ((1.05, 1.39), (0.9, 1.1), (40, 70), (3, 40), (0.5, 5000), (1e-3, 1e4)):
            ticks = style.log_ticks(low, high)
            self.assertTrue(3 <= len(ticks) <= 9, (low, high, ticks))
            self.assertTrue(all(low <= tick <= high for tick in ticks))


class Paper(unittest.TestCase):
    def setUp(self):
        common.style()
        self.addCleanup(self.reset)

    def reset(self):
        common.SETUP.width, common.SETUP.note, common.SETUP.direct, common.SETUP.named = None, True, False, ()
        common.plt.close("all")

    def test_a_column_is_as_wide_as_a_column(self):
        common.SETUP.width = common.COLUMN
        for module, name, options in ((pareto, "decode", None), (throughput_batch, "decode", None)):
            (drawing,) = common.drawn(module.draw, support.rows_of(name), options)
            self.assertEqual(drawing.figure.get_figwidth(), common.COLUMN)
            drawing.figure.canvas.draw()
            box = drawing.figure.get_tightbbox()
            self.assertLessEqual(box.x1, common.COLUMN * 1.01, module.__name__)
            self.assertGreaterEqual(box.x0, -0.02, module.__name__)
            longest = max(len(line) for line in drawing.figure.note.get_text().split("\n"))
            self.assertLess(longest, 90)

    def test_methods_are_chosen_ordered_and_renamed(self):
        paths = [support.fixture("decode")]
        every = common.ordered(r["label"] for r in rowlib.read_rows(paths))
        chosen = [every[2], every[0]]
        rows = rowlib.read_rows(paths, chosen, [f"{every[0]}=Ours"])
        self.assertEqual(common.ordered(r["label"] for r in rows), [every[2], "Ours"])
        names = common.ordered(p["series"] for p in rows.pooled)
        self.assertTrue(names[0].startswith(every[2]))
        self.assertTrue(all(n.startswith((every[2], "Ours")) for n in names))
        for methods, renamed, sentence in ((["fats_dllm dual"], [], "fast_dllm dual"),
                                           ([], ["x"], "LABEL=NAME"), ([], ["x=y"], "label")):
            with self.assertRaisesRegex(rowlib.BadInput, sentence):
                rowlib.read_rows(paths, methods, renamed)

    def test_panels_of_probes_are_below_each_other_in_a_column(self):
        for width, beside in ((None, True), (common.COLUMN, False)):
            common.SETUP.width = width
            figure, axes = probes.panels(2, rows=2)
            for cell in axes.flat:
                cell.set(xlabel="left: as decoded; right: oracle", ylabel="denoising steps per request")
            common.finish(figure)
            figure.canvas.draw()
            labels = [cell.xaxis.label.get_window_extent() for cell in axes.flat]
            self.assertFalse([1 for a, b in itertools.combinations(labels, 2) if a.overlaps(b)])
            self.assertEqual(axes[0][0].get_position().y0 == axes[0][1].get_position().y0, beside)
        for width, lines in ((None, 1), (common.COLUMN, 3)):  # small maps fill the lines: 3, 3 and 1 of a column
            common.SETUP.width = width
            _, axes = probes.panels(7, 1.25, maps=True)
            self.assertEqual((axes.shape, len({cell.get_position().y0 for cell in axes.flat})), ((1, 7), lines))

    def words_inside(self, drawing):
        """The titles of a figure, its labels and names are inside it, and no title is over another; a legend is short."""
        figure = drawing.figure
        figure.canvas.draw()
        titles = [part for cell in figure.axes for part in cell.get_children()
                  if cell.get_title("left") and getattr(part, "get_text", str)() == cell.get_title("left")]
        texts = [*titles, *figure.texts, *(t for cell in figure.axes for t in (cell.xaxis.label, cell.yaxis.label)),
                 *(t for cell in figure.axes if cell.axison for t in cell.texts + cell.get_yticklabels())]
        for text in texts:
            box = text.get_window_extent()
            if text.get_text() and text.get_visible():
                self.assertTrue(-1 <= box.x0 and box.x1 <= figure.bbox.x1 + 1, (text.get_text(), box, figure.bbox.x1))
        for a, b in itertools.combinations([t.get_window_extent() for t in titles], 2):
            self.assertFalse(min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1, (a, b))
        for legend in figure.legends:
            self.assertLessEqual(len(legend.get_texts()), style.LEGEND)
        return figure

    def test_words_are_inside_a_column_and_apart(self):
        common.SETUP.width = common.COLUMN
        long = support.rows_of("phases")
        for place, row in enumerate(long):
            row["label"] = f"a method with {place + 1} settings, blocks of 32"
        served = support.rows_of("capacity")
        for row in served:
            row["workload"]["family"] = "llada2-mini/sharegpt_of_a_day"
        served.append(json.loads(json.dumps(served[0])))
        served[-1]["workload"]["family"], served[-1]["point_id"] = "lmsys", "another"
        for module, rows in ((decode_order, support.rows_of("traces")), (probes, support.rows_of("probes")),
                             (step_breakdown, support.computed(long)), (roofline, support.computed(long)),
                             (serving, support.computed(served))):
            for drawing in common.drawn(module.draw, rows):
                with self.subTest(module.__name__, drawing=drawing.name):
                    self.words_inside(drawing)

    def test_the_numbers_behind_the_bars_of_a_step_are_inside(self):
        for common.SETUP.width in (common.COLUMN, None):
            (drawing,) = common.drawn(step_breakdown.draw, support.rows_of("phases"))
            (cell,) = self.words_inside(drawing).axes
            longest = max(p.get_x() + p.get_width() for p in cell.patches)
            self.assertLess(cell.get_xlim()[1], 1.5 * longest)  # and the bars fill the panel

    def test_many_phases_and_methods_have_legends_that_can_be_read(self):
        rows = []
        for n in range(10):  # more methods than a legend has entries, each with twelve phases
            row = json.loads(json.dumps(support.rows_of("phases")[0]))
            row.update(label=f"method {n}", point_id=str(n), position=n, variation="")
            phase = next(p for p in row["probes"]["phases"]["phases"] if p["phase"] == "attention")
            row["probes"]["phases"]["phases"] = [dict(phase, phase=f"phase {k}", own_seconds=1 + k) for k in range(12)]
            rows.append(row)
        rows = support.computed(rows)
        (drawing,) = common.drawn(step_breakdown.draw, rows)
        legend = [t.get_text() for t in self.words_inside(drawing).legends[0].get_texts()]
        # Twelve phases of 1 to 12 seconds: the seven longest have names, the others are one part.
        self.assertEqual(legend, sorted(f"phase {k}" for k in range(5, 12)) + ["other phases"])
        for row in rows:
            row["probes"]["phases"]["phases"] = row["probes"]["phases"]["phases"][:8]
        (drawing,) = common.drawn(roofline.draw, support.computed(rows))
        methods, phases = self.words_inside(drawing).legends
        self.assertEqual([t.get_text() for t in methods.get_texts()][-1], "4 others")
        self.assertEqual(len(phases.get_texts()), 8)
        boxes = [legend.get_window_extent() for legend in (methods, phases)]
        self.assertGreaterEqual(boxes[0].y0 + 6, boxes[1].y1)  # one below the other
        self.assertGreaterEqual(boxes[1].y0 + 6, drawing.figure.axes[0].get_window_extent().y1)

    def test_a_legend_with_long_names_is_inside_a_column(self):
        names = ["vanilla, whole canvas · tiny-llada · word problem, list program, story", "a short one"]
        by_axes = [common.grid(1, 1, common.COLUMN), common.grid(1, 1, common.COLUMN)]
        for n, (figure, (cell,)) in enumerate(by_axes):
            handles = [cell.plot([1, 2], [place, 2], label=name)[0] for place, name in enumerate(names)]
            common.legend_above(figure, handles if n else names)
            figure.canvas.draw()
            legend, = figure.legends
            self.assertEqual([" ".join(t.get_text().split()) for t in legend.get_texts()], names)
            box = legend.get_window_extent()
            self.assertTrue(0 <= box.x0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 + 1, box)
            self.assertGreaterEqual(box.y0, cell.get_window_extent().y1 - 1)  # it does not lie on the panel

    def test_no_note_leaves_none_and_no_room_for_it(self):
        (with_note,) = common.drawn(pareto.draw, support.rows_of("decode"))
        low = min(a.get_position().y0 for a in with_note.figure.axes)
        common.SETUP.note = False
        (without,) = common.drawn(pareto.draw, support.rows_of("decode"))
        self.assertFalse([t for t in without.figure.texts if "rows (" in t.get_text()])
        self.assertLess(min(a.get_position().y0 for a in without.figure.axes), low)

    def test_names_stand_beside_points_and_not_over_each_other(self):
        common.SETUP.direct, common.SETUP.width = True, 5
        for module in (pareto, throughput_batch):
            (drawing,) = common.drawn(module.draw, support.rows_of("decode"))
            drawing.figure.canvas.draw()
            legends = [t.get_text() for legend in drawing.figure.legends for t in legend.get_texts()]
            for axes in drawing.figure.axes:
                boxes = [t.get_window_extent() for t in axes.texts]
                self.assertTrue(boxes)
                self.assertLessEqual(max(b.x1 for b in boxes), drawing.figure.bbox.x1)
                for a, b in itertools.combinations(boxes, 2):
                    wide = min(a.x1, b.x1) - max(a.x0, b.x0)
                    high = min(a.y1, b.y1) - max(a.y0, b.y0)
                    self.assertFalse(wide > 1 and high > 2, module.__name__)
            if module is pareto:  # of twelve series six have names, those that nothing beats first
                (axes,) = drawing.figure.axes
                texts, pooled = {t.get_text() for t in axes.texts}, support.rows_of("decode").pooled
                self.assertEqual((len(texts), legends), (6, [f"{len(pooled) - 6} others"]))
                names = style.shortened([p["series"] for p in pooled])
                front = {names[p["series"]] for p in pooled if p["front"]}
                self.assertLessEqual(front if len(front) < 6 else texts, texts if len(front) < 6 else front | {
                    names[pooled[0]["series"]]})
            else:
                self.assertEqual(legends, [])

    def named(self, folder, names, module="throughput"):
        """What a figure's script says of rows with these names, and its files."""
        path = os.path.join(folder, "rows.jsonl")
        rows = [json.loads(json.dumps(support.rows_of("decode")[0])) for _ in names]
        with open(path, "w", encoding="utf-8") as out:
            for place, (row, name) in enumerate(zip(rows, names)):
                row.update(label=name, point_id=str(place), position=place, variation="")
                out.write(json.dumps(row) + "\n")
        done = subprocess.run([sys.executable, "-B", os.path.join(support.PLOTS, f"{module}.py"), path, "-o",
                               os.path.join(folder, "figure")], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr, rowlib.read_rows([path])

    def test_names_of_160_letters_are_told_apart_inside_the_figure(self):
        names = [f"{head} of a method with every one of its settings".ljust(150, "x") + " the same"
                 for head in ("threshold 0.90", "threshold 0.80", "prefix cache", "no cache at all")]
        with tempfile.TemporaryDirectory() as folder:
            said, rows = self.named(folder, names)
        self.assertEqual(said, "")
        (drawing,) = common.drawn(throughput.draw, rows)
        drawing.figure.canvas.draw()
        labels = drawing.figure.axes[0].get_yticklabels()
        self.assertEqual(len({t.get_text() for t in labels}), 4)
        for label, name in zip(labels, names):
            self.assertEqual(label.get_text()[:12], name[:12])
            self.assertGreaterEqual(label.get_window_extent().x0, 0)
        bars = [p for p in drawing.figure.axes[0].patches if p.get_width() > 0]
        self.assertGreater(drawing.figure.axes[0].get_position().width, 0.3)
        self.assertEqual(len(bars), 4)

    def test_letters_that_the_font_lacks_are_said_once_with_the_remedy(self):
        with tempfile.TemporaryDirectory() as folder:
            said, _ = self.named(folder, ["\u65b9\u6cd5\u4e00", "\u30e1\u30bd", "plain"])
        self.assertRegex(said, r"\Anote: the font DejaVu Sans lacks 5 letters [^\n]*--font NAME [^\n]*\n\Z")

    def test_the_bandwidth_of_a_roofline_does_not_lie_on_its_line(self):
        _, cell = common.plt.subplots()
        cell.set(xscale="log", yscale="log")
        roofline.draw_roofs(cell, 100e9, 37e9, [0.5, 4])
        cell.figure.canvas.draw()
        (label,) = [t for t in cell.texts if "GB/s" in t.get_text()]
        box = label.get_window_extent()
        line = cell.lines[0].get_transform().transform(cell.lines[0].get_xydata())
        ys = np.interp([box.x0, box.x1], line[:, 0], line[:, 1])
        self.assertTrue((ys > box.y1).all(), (ys, box))

    def test_the_command_line_takes_them(self):
        with tempfile.TemporaryDirectory() as folder:
            def run(*words):
                return subprocess.run([sys.executable, "-B", os.path.join(support.PLOTS, "pareto.py"),
                                       support.fixture("decode"), "-o", os.path.join(folder, "p"), *words],
                                      capture_output=True, text=True, check=False)
            done = run("--column", "--no-note", "--direct", "--font", "DejaVu Serif")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(folder, "p.svg"), encoding="utf-8") as file:
                width = re.search(r'<svg[^>]* width="([\d.]+)pt"', file.read())
            self.assertAlmostEqual(float(width.group(1)), 72 * common.COLUMN, 1)
            for words, sentence in ((["--method", "nothing"], "unknown method"),
                                    (["--width", "0.1"], "1 to 40 inches")):
                refused = run(*words)
                self.assertEqual(refused.returncode, 2)
                self.assertIn(sentence, refused.stderr)


if __name__ == "__main__":
    support.main()
