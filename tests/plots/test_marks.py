#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Every row becomes one mark, in every family of figures: rows of two models, two tasks and two methods,
no two numbers alike, are counted on the axes; the line below a figure says how many there are."""

import itertools
import json
import math
import os
import re
import tarfile
import tempfile
import types
import unittest

import support

support.needs_matplotlib()

import numpy as np  # noqa: E402

import common  # noqa: E402
import crossover  # noqa: E402
import decode_order  # noqa: E402
import latency  # noqa: E402
import needle  # noqa: E402
import parallelism  # noqa: E402
import pareto  # noqa: E402
import probes  # noqa: E402
import redundancy  # noqa: E402
import roofline  # noqa: E402
import rows as rowlib  # noqa: E402
import serving  # noqa: E402
import step_breakdown  # noqa: E402
import sweep  # noqa: E402
import throughput  # noqa: E402
import throughput_batch  # noqa: E402

FAMILIES = (crossover, decode_order, latency, needle, parallelism, pareto, probes, redundancy, roofline, serving,
            step_breakdown, sweep, throughput, throughput_batch)
MODELS, TASKS, METHODS = ("model-a", "model-b"), ("task_a", "task_b"), ("first", "second")


def made(fixture, change, *axis, variation="", which=0):
    """A row for each model, task, method and value of the axis: change(row, number of the row, value)."""
    rows, template = [], json.dumps(support.rows_of(fixture)[which])
    for model, task, method, *at in itertools.product(MODELS, TASKS, METHODS, *axis):
        row = json.loads(template)
        row["model"]["name"], row["workload"]["family"], row["label"] = model, task, method
        row.update(point_id=f"point{len(rows):03}", position=len(rows),
                   variation=variation.format(*at))
        change(row, len(rows) + 1, *at)
        rows.append(row)
    return rows


def same(rows, key, **settings):
    """Rows that are alike but for what a name does not say, each with a number of its own at `key`."""
    out = []
    for place, (name, value) in enumerate(settings.items()):
        row = json.loads(json.dumps(rows[0]))
        row["point_id"] = f"same{place}"
        row["metrics"][key] = 1000.5 + place
        if name in row:
            row[name] = value
        elif name == "chunk":
            row["params"][name] = value
        else:
            row["serve"][name] = value
        out.append(row)
    return out


def bars(figure):
    """Lengths of the horizontal bars of all panels."""
    return [p.get_width() for axes in figure.axes for p in axes.patches if p.get_width() > 0]


def dots(figure):
    """Places of single marks along x, of all panels."""
    return [float(line.get_xdata()[0]) for axes in figure.axes for line in axes.lines
            if line.get_linestyle() == "None"]


def points(figure):
    """Points of the lines with whiskers of all panels."""
    return [tuple(map(float, xy)) for axes in figure.axes for c in axes.containers
            for xy in zip(c.lines[0].get_xdata(), c.lines[0].get_ydata())]


class Drawn(unittest.TestCase):
    def tearDown(self):
        common.plt.close("all")

    def drawn(self, module, rows, number=None, **options):
        """The one drawing of rows of which so many (all) have a mark, as its note must say."""
        common.style()
        (drawing,) = common.drawn(module.draw, support.computed(rows).reportable(),
                                  types.SimpleNamespace(**options))
        self.says(drawing, len(rows), number)
        return drawing.figure

    def says(self, drawing, every, number=None):
        number = every if number is None else number
        self.assertEqual(len({r["point_id"] for r in drawing.rows}), len(drawing.rows))
        self.assertEqual(len(drawing.rows), number)
        last = drawing.figure.note_text.split("\n")[-1]
        self.assertEqual(re.match(r"\d+ rows", last).group(), f"{number} rows")
        hidden = re.search(r"(\d+) of (\d+) rows are not shown here", last)
        self.assertEqual(hidden and hidden.groups(),
                         (str(every - number), str(every)) if number < every else None)

    def alike(self, found, wanted):
        """The same numbers, each as often."""
        np.testing.assert_allclose(np.array(sorted(found)), np.array(sorted(wanted)), rtol=1e-9)


class Marks(Drawn):
    def test_every_family_is_counted_here(self):
        """A family is a script of plots/ that calls common.main(); each has a test of its own below."""
        families = set()
        for name in os.listdir(support.PLOTS):
            if name.endswith(".py"):
                with open(os.path.join(support.PLOTS, name), encoding="utf-8") as text:
                    if "common.main(draw" in text.read():
                        families.add(name[:-3])
        self.assertEqual(families, {m.__name__ for m in FAMILIES})

    def test_throughput(self):
        def change(row, n):
            row["metrics"]["tokens_per_second"] = 10.0 + n
        rows = made("decode", change)
        self.alike(bars(self.drawn(throughput, rows)), [11, 12, 13, 14, 15, 16, 17, 18])
        rows += same(rows, "tokens_per_second", seed=7, gen_length=9, impose="lengths", kv_type="f16")
        self.alike(bars(self.drawn(throughput, rows)), [*range(11, 19), 1000.5, 1001.5, 1002.5, 1003.5])

    def test_rows_that_nothing_tells_apart_are_numbered(self):
        rows = made("decode", lambda row, n: None)[:1]
        rows += same(rows, "tokens_per_second", seed=rows[0]["seed"], gen_length=rows[0]["gen_length"])
        read = support.computed(rows)
        name = rowlib.told_apart(read, lambda r: r["label"], lambda r: r["workload"]["family"])
        self.assertEqual([name(r) for r in read], ["first", "first (2)", "first (3)"])
        self.assertEqual(len(bars(self.drawn(throughput, rows))), 3)

    def test_throughput_by_batch(self):
        def change(row, n, batch):
            row["batch_size"], row["metrics"]["tokens_per_second"] = batch, 10.0 + n
        rows = made("decode", change, (1, 8), variation="batch_size={}")
        wanted = [((1, 8)[n % 2], 11 + n) for n in range(16)]
        self.assertEqual(sorted(points(self.drawn(throughput_batch, rows))), sorted(wanted))
        rows += same(rows, "tokens_per_second", seed=7)
        figure = self.drawn(throughput_batch, rows)
        self.assertEqual(sorted(points(figure)), sorted([*wanted, (1, 1000.5)]))
        lines = [c.lines[0] for axes in figure.axes for c in axes.containers]
        for line in lines:  # no line has two values at one batch size
            self.assertEqual(len(set(line.get_xdata())), len(line.get_xdata()))

    def test_redundancy(self):
        def change(row, n):
            row["metrics"]["redundancy"] = 1.0 + n
        rows = made("decode", change)
        self.alike(bars(self.drawn(redundancy, rows)), [2, 3, 4, 5, 6, 7, 8, 9])
        rows += same(rows, "redundancy", seed=7, gen_length=9)
        figure = self.drawn(redundancy, rows)  # a logarithmic axis: a bar's length would mean nothing
        self.assertEqual(bars(figure), [])
        self.alike(dots(figure), [*range(2, 10), 1000.5, 1001.5])

    def test_capacity(self):
        def change(row, n, policy):
            row["serve"]["policy"] = policy
            row["metrics"]["slo_capacity_requests_per_second"] = 1.0 + n
        rows = made("capacity", change, ("iter", "block_sync"), variation="policy={}")
        figure = self.drawn(serving, rows)
        self.assertEqual(len(figure.axes), 4)  # a panel for each model and task
        self.alike(bars(figure), range(2, 18))
        rows += same(rows, "slo_capacity_requests_per_second", seed=7, slo_tpot_ms=20.0)
        self.alike(bars(self.drawn(serving, rows)), [*range(2, 18), 1000.5, 1001.5])

    def test_capacity_of_a_campaign(self):
        with tarfile.open(os.path.join(support.ROOT, "results", "tiny", "rows.tar.xz")) as archive:
            (name,) = [n for n in archive.getnames() if n.endswith("optimus/figure_10/shapes/rows.jsonl")]
            lines = archive.extractfile(name).read().decode().splitlines()
        wanted = [json.loads(line)["metrics"]["slo_capacity_requests_per_second"] for line in lines]
        self.assertEqual(len(wanted), 24)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.jsonl")
            with open(path, "w", encoding="utf-8") as out:
                out.write("\n".join(lines))
            rows = rowlib.read_rows([path])
        common.style()
        (drawing,) = common.drawn(serving.draw, rows)
        self.says(drawing, 24)
        self.alike(bars(drawing.figure), wanted)
        # 2.82, 5.08: SDAR and ShareGPT; 1.26, 1.24: LLaDA2-mini and LMSYS, the last panel.
        panels = [[f"{p.get_width():.2f}" for p in axes.patches][:2] for axes in drawing.figure.axes]
        self.assertEqual((panels[0], panels[-1]), (["2.82", "5.08"], ["1.26", "1.24"]))

    def curve_rows(self):
        def change(row, n, rate):
            row["serve"].update(rate=rate, policy="iter")
            row["metrics"].update(request_rate=rate + n / 100, tpot_decode_p90_seconds=n / 1000,
                                  tpot_decode_p50_seconds=n / 2000)
        return made("serving", change, (0.5, 2.0), variation="rate={}")

    def test_rate_curves(self):
        def solid(figure):
            return [tuple(map(float, xy)) for axes in figure.axes for line in axes.lines
                    if line.get_linestyle() == "-" and line.get_marker() == "o" or
                    line.get_marker() in ("s", "^", "D") for xy in zip(line.get_xdata(), line.get_ydata())]
        rows = self.curve_rows()
        figure = self.drawn(serving, rows)
        self.assertEqual(len(figure.axes), 4)
        self.alike(np.ravel(solid(figure)),
                   [v for n in range(1, 17) for v in ((2.0, 0.5)[n % 2] + n / 100, n)])
        rows[0]["metrics"]["tpot_decode_p90_seconds"] = None  # not earned: no mark
        rows += same(rows[1:], "request_rate", seed=7)
        figure = self.drawn(serving, rows, 16)
        self.assertEqual(sum(not math.isnan(y) for _, y in solid(figure)), 16)

    def scored(self, *axis, **more):
        def change(row, n, *at):
            row["workload"].update(items=10)
            row["score"].update(mean=n / 100, n=10, ci95=[0, 1])
            row["metrics"].update(output_tokens=100 + n, nfe=50, wall_seconds=2.0 * n,
                                  tokens_per_second=(100 + n) / (2.0 * n), peak_kv_bytes=n * 2 ** 20)
            row["samples"]["half_width"] = 0.01
        return made("decode", change, *axis, **more)

    def test_pareto(self):
        rows = self.scored()
        # A model has four rows: its first method the first and third. Tokens over seconds, mean score.
        wanted = [((200 + a + b) / (2 * (a + b)), (a + b) / 2)
                  for a, b in ((1, 3), (2, 4), (5, 7), (6, 8))]
        np.testing.assert_allclose(sorted(points(self.drawn(pareto, rows))), sorted(wanted))
        wanted = [((100 + n) / (2 * n), n) for n in range(1, 9)]
        np.testing.assert_allclose(sorted(points(self.drawn(pareto, rows, by_task=True))), sorted(wanted))
        rows[7]["model"]["weights"] = "synthetic"  # no score to speak of: no mark
        self.assertEqual(len(points(self.drawn(pareto, rows, 7, by_task=True))), 7)

    def test_parallelism(self):
        figure = self.drawn(parallelism, self.scored())
        found = {"of a task": [], "all": []}
        for axes in figure.axes:
            of = "all" if axes.get_title(loc="left").endswith("all tasks with an answer") else "of a task"
            found[of] += [tuple(map(float, xy)) for line in axes.lines
                          for xy in zip(line.get_xdata(), line.get_ydata())]
        np.testing.assert_allclose(sorted(found["of a task"]), [((100 + n) / 50, n) for n in range(1, 9)])
        np.testing.assert_allclose(sorted(found["all"]), [
            ((200 + a + b) / 100, (a + b) / 2) for a, b in ((1, 3), (2, 4), (5, 7), (6, 8))])

    def test_sweep(self):
        figure = self.drawn(sweep, self.scored((1, 2, 3), variation="ratio=0.{}"))
        speeds = figure.axes[2:4]  # score, speed, memory; a column for each model
        self.assertEqual(speeds[0].get_ylabel(), "tokens/s")
        # Rows of one method lie 6 apart by task, 12 by model, 3 by method; both tasks are one mark.
        first = [12 * model + 3 * method + at for model in (0, 1) for method in (0, 1) for at in (1, 2, 3)]
        wanted = [(200 + 2 * n + 6) / (4 * n + 12) for n in first]
        self.alike([xy[1] for axes in speeds for c in axes.containers
                    for xy in c.lines[0].get_xydata()], wanted)

    def test_needle(self):
        def change(row, n):
            row["workload"]["family"] = "256, 0 %" if row["workload"]["family"] == TASKS[0] else "1K, 50 %"
            row["score"].update(mean=n / 100, n=10)
        rows = made("decode", change)
        figure = self.drawn(needle, [*rows, made("decode", lambda row, n: row.update(point_id="other"))[0]], 8)
        found = [(float(value), axes.get_xticklabels()[x].get_text(), axes.get_yticklabels()[y].get_text())
                 for axes in figure.axes for image in axes.images for y, line in enumerate(image.get_array())
                 for x, value in enumerate(line) if not np.ma.is_masked(value) and not math.isnan(value)]
        self.assertEqual(sum(bool(axes.images) for axes in figure.axes), 4)
        self.assertEqual(sorted(found), [(n / 100, *(("256", "0"), ("1K", "50"))[(n - 1) // 2 % 2])
                                         for n in range(1, 9)])

    def test_crossover(self):
        def change(row, n, batch):
            row.update(batch_size=batch, gen_length=32)
            row["score"].update(mean=0.5)
            speed = 100.0 + n * n
            row["metrics"].update(tokens_per_second=speed, output_tokens=1000, wall_seconds=1000 / speed)
            row["samples"].update(seconds=[1000 / speed] * 3, half_width=0.0)
        rows = made("decode", change, (1, 8), variation="batch_size={}")
        pairs = [(n, n + 2) for n in range(1, 15) if (n - 1) % 4 < 2]  # two methods of one cell
        wanted = [f"×{(100 + b * b) / (100 + a * a):.2f}" for a, b in pairs]

        def found(figure):
            return sorted(t.get_text().split("\n")[0] for axes in figure.axes for t in axes.texts
                          if t.get_text().startswith("×"))
        self.assertEqual(found(self.drawn(crossover, rows)), sorted(wanted))
        # The same cells on another device are cells of their own; a method alone in its cell has no mark.
        more = [json.loads(json.dumps(row)) for row in rows]
        for row in more:
            row.update(point_id="other" + row["point_id"], device="other")
        figure = self.drawn(crossover, rows + more[:-1], 30)
        self.assertEqual(len(found(figure)), 15)
        self.assertEqual(len({axes.get_title(loc="left") for axes in figure.axes if axes.patches}), 4)

    def test_latency(self):
        def elastic(row, n):
            for sample in row["calibration"]["samples"]:
                sample["seconds"] = n / 1000
        rows = made("chunks", elastic, which=2)
        figure = self.drawn(latency, rows)
        self.alike([axes.lines[0].get_ydata()[0] for axes in figure.axes], range(1, 9))
        self.assertEqual(len({axes.get_title(loc="left") for axes in figure.axes}), 8)
        rows[1]["calibration"] = rows[0]["calibration"]  # one profile of two rows of a model
        self.assertEqual(sum(bool(axes.lines) for axes in self.drawn(latency, rows).axes), 7)

    def test_tokens_by_chunk(self):
        def change(row, n, chunk):
            row["params"]["chunk"], row["metrics"]["committed_per_step"] = chunk, 1 + n / 100
        rows = made("chunks", change, (4, 8))
        rows += same(rows, "committed_per_step", seed=9)
        found = [tuple(map(float, xy)) for axes in self.drawn(latency, rows).axes
                 for line in axes.lines[:-1] for xy in zip(line.get_xdata(), line.get_ydata())]
        wanted = [((8, 4)[n % 2], 1 + n / 100) for n in range(1, 17)]
        self.assertEqual(sorted(found), sorted([*wanted, (4, 1000.5)]))

    def test_decode_order(self):
        def change(row, n):
            decode = row["probes"]["decode_trace"]["decodes"][0]
            decode["steps"] = [decode["steps"][0]] * n
            row["probes"]["decode_trace"]["decodes"] = [decode]
        rows = made("traces", change)
        rows.append(json.loads(json.dumps(rows[0])))
        rows[-1].update(point_id="other", seed=9)
        figure = self.drawn(decode_order, rows)
        panels = [axes for axes in figure.axes if axes.images]
        self.assertEqual(sorted(len(axes.images[0].get_array()) for axes in panels), [1, *range(1, 9)])
        titles = [axes.get_title(loc="left") for axes in panels]
        # The last stands beside the first of its model and task: both names, on every panel, say the seed.
        self.assertEqual({name: titles.count(name) for name in titles},
                         {f"first seed={rows[0]['seed']}": 4, "second": 4, "first seed=9": 1})


# What each family is drawn from here, and the change that makes it drawable.
FIXTURES = {crossover: "decode", decode_order: "traces", latency: "chunks", needle: "decode", parallelism: "decode",
            pareto: "decode", probes: "probes", redundancy: "decode", roofline: "phases", serving: "capacity",
            step_breakdown: "phases", sweep: "decode", throughput: "decode", throughput_batch: "decode"}
CHANGES = {"machine": {"environment": {"cpu_model": "another", "gpus": []}}, "program": {"source_hash": "0" * 40},
           "seed": {"seed": 4711}}


def marks(figure):
    """How many marks of any kind a figure has: points, bars, images, and cells with a margin."""
    lines = sum(len(line.get_xdata()) for axes in figure.axes for line in axes.lines
                if line.get_marker() not in ("None", "", None))
    bars_of = sum(p.get_width() > 0 and p.get_height() > 0 for axes in figure.axes for p in axes.patches)
    images = sum(len(axes.images) for axes in figure.axes if axes.get_label() != "<colorbar>")
    texts = sum(t.get_text().startswith("×") for axes in figure.axes for t in axes.texts)
    return lines + bars_of + images + texts


class Apart(Drawn):
    """In every family: rows that were measured again on another machine, by another program or with another seed
    have as many marks of their own as the first, and none is taken together with them."""

    def rows_for(self, module):
        rows = [json.loads(json.dumps(row)) for row in support.rows_of(FIXTURES[module])]
        for place, row in enumerate(rows):
            if module is needle:
                row["workload"]["family"] = f"256, {place} %"
        return Marks.scored(None, (1, 2, 3), variation="ratio=0.{}") if module is sweep else rows

    def again(self, rows, change):
        """The rows once more; what a machine calibrates and a chunk commits is never the same twice."""
        found = json.loads(json.dumps([{**row, **change} for row in rows]))
        for place, row in enumerate(found):
            row.update(point_id=f"again{place}", position=len(rows) + row["position"])
            for sample in row.get("calibration", {}).get("samples", ()):
                sample["seconds"] *= 1.25
            if row["metrics"].get("committed_per_step"):
                row["metrics"]["committed_per_step"] *= 1.25
        return found

    def test_marks_double(self):
        self.assertEqual(set(FIXTURES), set(FAMILIES))
        for module in FAMILIES:
            rows = self.rows_for(module)
            common.style()
            first = [(marks(d.figure), len(d.rows)) for d in common.drawn(module.draw, support.computed(rows))]
            self.assertTrue(all(count for count, _ in first), module.__name__)
            for kind, change in CHANGES.items():
                if module is crossover and kind == "seed":
                    continue  # a seed is a circumstance: its cells are others already
                with self.subTest(f"{module.__name__} {kind}"):
                    drawings = common.drawn(module.draw, support.computed([*rows, *self.again(rows, change)]))
                    self.assertEqual([(marks(d.figure), len(d.rows)) for d in drawings],
                                     [(2 * count, 2 * number) for count, number in first])
                    for d in drawings:
                        self.says(d, 2 * len(rows), len(d.rows))
                common.plt.close("all")


class Probes(Drawn):
    def kinds(self, change, numbers):
        rows = made("probes", change)
        common.style()
        drawings = common.drawn(probes.draw, support.computed(rows).reportable())
        for drawing in drawings:
            self.says(drawing, 8, numbers.get(drawing.name))
        return {d.name: d.figure for d in drawings}

    def test_probes(self):
        def change(row, n):
            row["probes"]["attention"]["maps"] = row["probes"]["attention"]["maps"][:1]
            row["probes"]["attention"]["maps"][0]["values"][0] = float(n) ** 2
            row["probes"]["confidence"]["points"] = [[n / 10, n / 20]]
            row["probes"]["decoding"].update(histogram=[0, n, 1])
            if n == 1:
                for of in ("steps", "layers"):
                    row["probes"]["kv_change"][of].update(k=[], v=[])
            # What the package says of a probe that it did not compute.
            for probe, below in (("contradiction", 3), ("peak_oracle", 4), ("stagnation", 2)):
                if n < below:
                    row["probes"][probe] = {"requests": 2, "not_run": "the method replaced 3 tokens"}
            if n == 5:
                row["probes"]["attention"]["maps"] = []
        figures = self.kinds(change, {"kv_change": 7, "contradiction": 6, "peak_oracle": 5, "attention": 7,
                                       "stagnation": 7})
        self.assertEqual(list(figures), list(probes.KINDS))
        maps = [axes.images[0].get_array().flat[0] for axes in figures["attention"].axes
                if axes.images and axes.get_title(loc="left").startswith("layer")]
        self.alike(maps, [1, 2, 3, 4, 6, 7, 8])  # brightness: square root
        scatter = [tuple(map(float, line.get_xydata()[0])) for axes in figures["confidence"].axes[:-1]
                   for line in axes.lines if line.get_marker() == "."]
        self.assertEqual(sorted(scatter), [(n / 10, n / 20) for n in range(1, 9)])
        # Both tasks of a method are one histogram: steps that decide one token, of all steps.
        ones = [axes.patches[1].get_height() for axes in figures["decoding"].axes if axes.patches]
        self.alike(ones, [(a + b) / (a + b + 2) for a, b in ((1, 3), (2, 4), (5, 7), (6, 8))])


class Phases(Drawn):
    def rows(self):
        def change(row, n):
            row["metrics"]["batched_forwards"] = 10
            report = row["probes"]["phases"]
            report["phases"] = [dict(report["phases"][0], phase="attention", container=False, flops=1e6 * n,
                                     bytes=1e3, own_seconds=n / 100, device_seconds=None)]
        return made("phases", change)

    def test_step_breakdown(self):
        rows = self.rows()
        # Both tasks of a method are one bar: milliseconds over 20 forwards.
        wanted = [10 * (a + b) / 20 for a, b in ((1, 3), (2, 4), (5, 7), (6, 8))]
        self.alike(bars(self.drawn(step_breakdown, rows)), wanted)
        for row in rows:
            if row["model"]["name"] == MODELS[1] and row["label"] == METHODS[0]:
                row["metrics"]["batched_forwards"] = 0
        self.assertEqual(len(bars(self.drawn(step_breakdown, rows, 6))), 3)

    def test_roofline(self):
        def found(figure):
            return [float(line.get_xdata()[0]) for axes in figure.axes for line in axes.lines
                    if line.get_linestyle() == "None"]
        rows = self.rows()
        wanted = [1e6 * (a + b) / 2e3 for a, b in ((1, 3), (2, 4), (5, 7), (6, 8))]
        self.alike(found(self.drawn(roofline, rows)), wanted)
        for row in rows[1::2]:  # another format has another panel, and no row is in two
            row["label"], row["model"]["format"] = METHODS[0], "other"
        figure = self.drawn(roofline, rows)
        self.assertEqual(len(figure.axes), 2)
        self.alike(found(figure), wanted)
        for row in rows[:4]:
            row["probes"]["phases"]["phases"][0]["bytes"] = None
        self.alike(found(self.drawn(roofline, rows, 4)), wanted[2:])


if __name__ == "__main__":
    support.main()
