#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""What the figures draw, read back from their axes, against the rows."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import support

support.needs_matplotlib()

import numpy as np  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402

import common  # noqa: E402
import crossover  # noqa: E402
import decode_order  # noqa: E402
import latency  # noqa: E402
import parallelism  # noqa: E402
import pareto  # noqa: E402
import probes  # noqa: E402
import redundancy  # noqa: E402
import rows as rowlib  # noqa: E402
import serving  # noqa: E402
import sweep  # noqa: E402
import throughput  # noqa: E402
import throughput_batch  # noqa: E402
from unmask.rows.errors import EnvironmentFault  # noqa: E402

MODULES = {m.__name__: m for m in (crossover, decode_order, latency, parallelism, pareto, probes,
                                   redundancy, serving, sweep, throughput, throughput_batch)}
# The fixture that each is drawn from.
FAMILIES = {"throughput": "decode", "throughput_batch": "decode", "pareto": "decode", "parallelism": "decode",
            "redundancy": "decode", "crossover": "decode", "serving": "serving",
            "latency": "chunks", "decode_order": "traces", "probes": "probes"}
# FOCUS (arXiv 2601.23278), Table 5: what the paper prints, for the drawing of published values.
PUBLISHED = """
paper = "focus"
[[value]]
artifact = "table_5"
row = "SDAR, ShareGPT"
column = "FOCUS"
metric = "redundancy"
value = 3.12
unit = "rows/token"
source = "Table 5, SDAR, row ShareGPT, column FOCUS"
"""


def draw(module, name, **options):
    common.style()
    return module.draw(support.rows_of(name), types.SimpleNamespace(**options))


def titled(figure, title):
    found = [a for a in figure.axes if a.get_title(loc="left") == title]
    assert len(found) == 1, (title, [a.get_title(loc="left") for a in figure.axes])
    return found[0]


def bars(axes):
    """Widths of the horizontal bars by their place."""
    return {round(p.get_y() + p.get_height() / 2): p for p in axes.patches if p.get_width() > 0}


def swept(variations, families=("word_problem",)):
    """Rows of one method: {variation: (score of each, tokens, seconds, MiB)}."""
    rows = []
    for family in families:
        for place, (variation, (score, tokens, seconds, mib)) in enumerate(variations.items()):
            row = json.loads(json.dumps(support.rows_of("decode")[0]))
            row.update(point_id=f"{family}-{place}", variation=variation, label="sparse")
            row["workload"].update(family=family, items=4)
            row["score"].update(mean=score, n=4)
            row["samples"]["half_width"] = 0.1
            row["metrics"].update(output_tokens=tokens, wall_seconds=seconds, prompt_tokens=4 * 512,
                                  tokens_per_second=tokens / seconds, peak_kv_bytes=mib * 2**20)
            rows.append(row)
    return rows


class Figures(unittest.TestCase):
    def tearDown(self):
        common.plt.close("all")

    def test_throughput_bars_are_the_rows(self):
        (drawing,) = draw(throughput, "decode")
        rows = support.rows_of("decode")
        names = rowlib.ordered(rowlib.series_label(r, rows) for r in rows)
        for family in ("list_program", "retrieval_kv"):
            axes = titled(drawing.figure, family.replace("_", " "))
            found = bars(axes)
            for place, name in enumerate(names):
                (row,) = [r for r in rows if r["workload"]["family"] == family
                          and rowlib.series_label(r, rows) == name]
                self.assertAlmostEqual(found[place].get_width(),
                                       row["metrics"]["tokens_per_second"])
                self.assertNotEqual(found[place].get_facecolor()[3], 0)  # measured: solid

    def test_throughput_by_batch_has_a_point_per_batch_size(self):
        (drawing,) = draw(throughput_batch, "decode")
        rows = support.rows_of("decode")
        axes = titled(drawing.figure, "list program")
        drawn = {c.get_label(): c.lines[0] for c in axes.containers}
        self.assertEqual(len(drawn), 6)  # three methods at two lengths
        line = drawn["fast_dllm dual gen_length=64"]
        want = {r["batch_size"]: r["metrics"]["tokens_per_second"] for r in rows
                if r["label"] == "fast_dllm dual" and r["gen_length"] == 64
                and r["workload"]["family"] == "list_program"}
        self.assertEqual(dict(zip(line.get_xdata(), line.get_ydata())), want)

    def test_pareto_pools_tokens_over_seconds_and_scores_over_items(self):
        (drawing,) = draw(pareto, "decode")
        rows = support.rows_of("decode")
        names = rowlib.ordered(rowlib.series_label(r, rows) for r in rows)
        (axes,) = drawing.figure.axes
        marks = [c.lines[0] for c in axes.containers]
        self.assertEqual(len(marks), len(names))
        for name, mark in zip(names, marks):
            chosen = [r for r in rows if rowlib.series_label(r, rows) == name]
            speed = (sum(r["metrics"]["output_tokens"] for r in chosen)
                     / sum(r["metrics"]["wall_seconds"] for r in chosen))
            exact = sum(r["score"]["mean"] * r["score"]["n"] for r in chosen)
            items = sum(r["score"]["n"] for r in chosen)
            self.assertAlmostEqual(mark.get_xdata()[0], speed)
            self.assertAlmostEqual(mark.get_ydata()[0], 100 * exact / items)

    def test_the_note_of_a_picture_says_what_is_undecided(self):
        (drawing,) = draw(pareto, "decode")
        self.assertNotIn("undecided", drawing.figure.note_text)
        rows = json.loads(json.dumps(support.rows_of("decode")))
        rows[0]["score"]["undecided"] = 2
        common.footnote(drawing.figure, rows)
        self.assertIn("2 undecided answers drawn as wrong", drawing.figure.note_text)

    def test_the_note_of_a_picture_names_rules_in_python(self):
        (drawing,) = draw(pareto, "decode")
        self.assertNotIn("Python", drawing.figure.note_text)
        rows = json.loads(json.dumps(support.rows_of("decode")))[:3]
        for row, seconds in zip(rows, (0.25, 0.5)):
            row["label"], row["params"]["code"] = "rising", "ab" * 32
            row["metrics"] |= {"wall_seconds": 2.0, "rule_seconds": seconds}
        common.footnote(drawing.figure, rows)
        self.assertIn("rising: a rule in Python, 12 to 25 % of its time", drawing.figure.note_text)

    def test_parallelism_draws_each_method_at_its_tokens_a_forward(self):
        (drawing,) = draw(parallelism, "decode")
        rows = [r for r in support.rows_of("decode") if r["score"]]
        task = rows[0]["workload"]["family"]
        axes = titled(drawing.figure, task.replace("_", " "))
        drawn = sorted((x, y) for line in axes.lines for x, y in zip(line.get_xdata(), line.get_ydata()))
        wanted = sorted((r["metrics"]["output_tokens"] / r["metrics"]["nfe"], 100 * r["score"]["mean"])
                        for r in rows if r["workload"]["family"] == task)
        self.assertTrue(wanted)
        for mine, theirs in zip(drawn, wanted, strict=True):
            self.assertAlmostEqual(mine[0], theirs[0])
            self.assertAlmostEqual(mine[1], theirs[1])

    def test_redundancy_bars_and_published_values(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "focus.toml")
            with open(path, "w", encoding="utf-8") as out:
                out.write(PUBLISHED)
            (drawing,) = draw(redundancy, "decode", published=path, artifact="table_5")
        rows = support.rows_of("decode")
        axes = titled(drawing.figure, "retrieval kv")
        labels = [t.get_text() for t in drawing.figure.axes[0].get_yticklabels()]
        found = bars(axes)
        for place, name in enumerate(labels):
            label = name.split(", batch ")[0]
            values = {r["metrics"]["redundancy"] for r in rows
                      if rowlib.series_label(r, rows, "batch_size") == label
                      and r["workload"]["family"] == "retrieval_kv"}
            self.assertEqual(len(values), 1)  # the same at both batch sizes: one bar
            self.assertAlmostEqual(found[place].get_width(), values.pop())
            self.assertIsNone(found[place].get_hatch())
        paper = titled(drawing.figure, "published")  # of the paper's tasks: a panel of its own
        self.assertEqual([t.get_text() for t in paper.get_yticklabels()], ["SDAR, ShareGPT, FOCUS"])
        (published,) = bars(paper).values()
        self.assertAlmostEqual(published.get_width(), 3.12)
        self.assertEqual(published.get_hatch(), common.PUBLISHED)
        self.assertEqual(published.get_facecolor()[3], 0)

    def test_serving_curves_objective_and_hollow_marks(self):
        (drawing,) = draw(serving, "serving")
        rows = support.rows_of("serving")
        (axes,) = drawing.figure.axes
        for policy in ("iter", "block_sync"):
            line = sorted((r["metrics"]["request_rate"],
                           1e3 * r["metrics"]["tpot_decode_p90_seconds"]) for r in rows
                          if r["serve"]["policy"] == policy)
            found = [l for l in axes.lines if l.get_linestyle() == "-"
                     and np.allclose(l.get_ydata(), [y for _, y in line])]
            self.assertEqual(len(found), 1)
            self.assertEqual(to_hex(found[0].get_markerfacecolor()), common.PAPER.lower())
        self.assertTrue(any(list(l.get_ydata()) == [50.0, 50.0] for l in axes.lines))
        self.assertIn("hollow: not measured (synthetic, analytic)",
                      [t.get_text() for t in drawing.figure.legends[0].get_texts()])

    def test_capacity_bars(self):
        drawings = draw(serving, "capacity")
        self.assertEqual([d.name for d in drawings], ["capacity"])
        found = bars(drawings[0].figure.axes[0])
        for place, row in enumerate(support.rows_of("capacity")):
            self.assertAlmostEqual(found[place].get_width(),
                                   row["metrics"]["slo_capacity_requests_per_second"])

    def test_latency_samples_fit_and_commits(self):
        (drawing,) = draw(latency, "chunks")
        profile, commits = drawing.figure.axes
        (row,) = [r for r in support.rows_of("chunks") if "calibration" in r]
        fit = row["calibration"]
        drawn = sorted((x, y) for l in profile.lines if l.get_linestyle() == "None"
                       for x, y in zip(l.get_xdata(), l.get_ydata()))
        want = sorted((s["rows"], 1e3 * s["seconds"]) for s in fit["samples"])
        np.testing.assert_allclose(drawn, want)
        # A line per number of requests goes through what the program says its table holds.
        counts = sorted({s["requests"] for s in fit["samples"]})
        curves = latency.curves(fit)
        self.assertEqual(len(curves), len(counts))
        for count, (xs, ys, _) in zip(counts, curves):
            for s in fit["samples"]:
                if s["requests"] == count:
                    self.assertAlmostEqual(np.interp(s["rows"], xs, ys) / (1e3 * s["fitted"]), 1, 9)
        line = commits.lines[0]
        want = [(r["params"]["chunk"], r["metrics"]["committed_per_step"])
                for r in support.rows_of("chunks") if r["params"]["chunk"] > 0]
        self.assertEqual(sorted(zip(line.get_xdata(), line.get_ydata())), sorted(want))

    def test_decode_order_shows_rows_drops_and_decisions(self):
        (drawing,) = draw(decode_order, "traces")
        rows = support.rows_of("traces")
        which = decode_order.telling_request(rows)
        dropped = 0
        for row, axes in zip(rows, drawing.figure.axes):
            decode = row["probes"]["decode_trace"]["decodes"][which]
            begin = len(decode["prompt"])
            image = np.array(axes.images[0].get_array())
            for t, step in enumerate(decode["steps"]):
                computed = {p for a, b in step["rows"] for p in range(a, b) if p >= begin}
                gone = {p for a, b in step["dropped"] for p in range(a, b)}
                dropped += len(gone)
                for p in range(image.shape[1]):
                    want = 2 if p + begin in gone else 1 if p + begin in computed else 0
                    self.assertEqual(image[t, p], want)
            marks = axes.collections[0].get_offsets()
            self.assertEqual(len(marks), sum(len(s["accepted"]) for s in decode["steps"]))
        self.assertGreater(dropped, 0)  # FOCUS, or the fixture shows nothing

    def test_decode_order_marks_the_last_event_of_a_position(self):
        step = {"rows": [[2, 6]], "dropped": []}
        decode = {"prompt": [1, 1], "length": 6, "steps": [
            step | {"position": [2, 3, 4], "confidence": [0.5, 0.75, 0.25], "accepted": [0, 1, 2]},
            step | {"position": [2, 3, 4], "confidence": [0.875, 0.1, 0.2], "accepted": [], "replaced": [0],
                    "reopened": [1, 2]},
            step | {"position": [3], "confidence": [0.625], "accepted": [0]}]}
        # 0 is replaced by forward 1, 1 is masked again and decided by forward 2, 2 stays masked.
        self.assertEqual(decode_order.state_map(decode)[1], {0: (1, 0.875), 1: (2, 0.625)})

    def test_crossover_names_winner_and_margin(self):
        rows = support.rows_of("decode")
        self.assertEqual(len(rows.crossover), 8)
        (drawing,) = draw(crossover, "decode")
        axes = titled(drawing.figure, "32 tokens generated")
        texts = [t.get_text() for t in axes.texts]
        for cell in rows.crossover:
            speeds = sorted((r["metrics"]["tokens_per_second"], r["label"]) for r in rows
                            if r["gen_length"] == cell["gen_length"]
                            and r["batch_size"] == cell["batch_size"]
                            and r["workload"]["family"] == cell["workload"])
            self.assertEqual(cell["winner"], speeds[-1][1])
            if cell["gen_length"] == 32:
                self.assertTrue(any(t.startswith(f"×{cell['margin']:.2f}") for t in texts))

    def test_sweep_pools_tasks_and_takes_one_number_at_a_time(self):
        rows = swept({"kernel=3 ratio=0.1": (0.25, 10, 1, 1), "kernel=3 ratio=0.5": (0.5, 10, 2, 2),
                      "kernel=3 ratio=0.9": (1.0, 10, 4, 3), "kernel=1 ratio=0.5": (0.0, 10, 2, 2),
                      "kernel=5 ratio=0.5": (0.75, 10, 2, 2)}, ("word_problem", "needle"))
        rows[0]["score"]["mean"] = 0.75  # of the two tasks the mean counts
        rows[0]["metrics"].update(wall_seconds=3, tokens_per_second=10 / 3)
        (drawing,) = sweep.draw(support.computed(rows))
        panels = [a.lines[0].get_xydata().tolist() for a in drawing.figure.axes]
        self.assertEqual(len(panels), 6)  # score, speed, memory; by kernel and by ratio
        self.assertEqual(panels[0], [[1, 0], [3, 50], [5, 75]])
        self.assertEqual(panels[1], [[0.1, 50], [0.5, 50], [0.9, 100]])
        self.assertEqual(panels[3], [[0.1, 5], [0.5, 5], [0.9, 2.5]])
        self.assertEqual(panels[5], [[0.1, 1.048576], [0.5, 2.097152], [0.9, 3.145728]])

    def test_sweep_over_lengths_of_prompts(self):
        rows = [r for k, family in ((512, "0.5K"), (1024, "1K"), (4096, "4K"))
                for r in swept({"": (0.5, 10, k / 512, k / 512)}, (family,))]
        for row, k in zip(rows, (512, 1024, 4096)):
            row["metrics"]["prompt_tokens"] = 4 * k
        (drawing,) = sweep.draw(support.computed(rows))
        speed, memory = drawing.figure.axes  # the score is the same everywhere: not drawn
        self.assertEqual(speed.lines[0].get_xydata().tolist(), [[512, 10], [1024, 5], [4096, 1.25]])
        self.assertEqual(memory.lines[0].get_ydata().tolist(), [1.048576, 2.097152, 8.388608])
        self.assertEqual([t.get_text() for t in memory.get_xticklabels()], ["0.5K", "1K", "4K"])
        with self.assertRaises(common.NotDrawn):
            sweep.draw(support.computed(rows[:2]))
        with self.assertRaises(common.NotDrawn):
            sweep.draw(support.rows_of("decode"))

    def test_probe_figures(self):
        drawings = {d.name: d for d in draw(probes, "probes")}
        self.assertEqual(list(drawings), list(probes.KINDS))
        for place, row in enumerate(support.rows_of("probes")):
            p = row["probes"]
            counts = np.array(p["decoding"]["histogram"])
            axes = drawings["decoding"].figure.axes[place]
            np.testing.assert_allclose([b.get_height() for b in axes.patches],
                                       counts / counts.sum())
            scatter = drawings["confidence"].figure.axes[place].lines[0]
            np.testing.assert_allclose(
                np.column_stack([scatter.get_xdata(), scatter.get_ydata()]),
                p["confidence"]["points"])
            line = drawings["attention"].figure.axes
            images = [a.images[0].get_array() for a in line if a.images]
            first = p["attention"]["maps"][0]
            want = np.sqrt(np.array(first["values"]).reshape(first["grid"]))
            self.assertTrue(any(i.shape == want.shape and np.allclose(i, want) for i in images))

    def test_invalid_rows_are_left_out(self):
        rows = support.rows_of("decode")
        for row in rows[1:]:
            row["verdict"] = "INVALID"
        kept = support.computed(rows).reportable()
        self.assertEqual([r["point_id"] for r in kept], [rows[0]["point_id"]])
        rows[0]["verdict"] = "FAILED"
        with self.assertRaises(rowlib.NotDrawn):
            support.computed(rows).reportable()


def draw_everything(folder):
    """Every family's files into a folder; the other half of the determinism test."""
    for family, data in FAMILIES.items():
        for drawing in draw(MODULES[family], data):
            common.save(drawing.figure, os.path.join(folder, f"{family}-{drawing.name}"))


class Files(unittest.TestCase):
    def test_equal_rows_give_equal_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for seed in ("1", "2"):
                out = os.path.join(folder, seed)
                subprocess.run([sys.executable, __file__, "--draw", out], check=True,
                               env={**os.environ, "PYTHONHASHSEED": seed})
                files.append({})
                for name in os.listdir(out):
                    with open(os.path.join(out, name), "rb") as content:
                        files[-1][name] = content.read()
            # Eight kinds of probes and one figure of each of the other nine families.
            self.assertEqual(len(files[0]), 3 * (8 + 9))
            for name in files[0]:
                self.assertEqual(files[0][name], files[1][name], name)
            for name, content in files[0].items():
                self.assertGreater(len(content), 3000, name)

    def test_a_path_with_an_extension_is_that_file_alone(self):
        for output, wanted in (("a/figure.pdf", ("a/figure", ["pdf"])), ("b/figure.svg", ("b/figure", ["svg"])),
                               ("run.1/figure", ("run.1/figure", ["svg", "png", "pdf"])),
                               ("focus.v2", ("focus.v2", ["svg", "png", "pdf"])), (".png", (".png", ["svg", "png", "pdf"]))):
            self.assertEqual(common.path_and_kinds(output), wanted)
        with tempfile.TemporaryDirectory() as folder:
            path, kinds = common.path_and_kinds(os.path.join(folder, "figure.svg"))
            (drawing,) = draw(pareto, "decode")
            common.save(drawing.figure, path, kinds)
            self.assertEqual(os.listdir(folder), ["figure.svg"])

    def test_a_figure_that_cannot_be_written_leaves_the_one_that_was_there(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "figure")
            for kind in ("svg", "png", "pdf"):
                with open(f"{out}.{kind}", "w", encoding="utf-8") as before:
                    before.write("before")

            def full(descriptor):
                raise OSError(28, "No space left on device")
            (drawing,) = draw(pareto, "decode")
            with unittest.mock.patch.object(os, "fsync", full), self.assertRaises(EnvironmentFault):
                common.save(drawing.figure, out)
            self.assertEqual(sorted(os.listdir(folder)), ["figure.pdf", "figure.png", "figure.svg"])
            for kind in ("svg", "png", "pdf"):
                with open(f"{out}.{kind}", encoding="utf-8") as after:
                    self.assertEqual(after.read(), "before")

    def test_missing_data_is_one_sentence_and_no_file(self):
        wrong = {"throughput_batch": "probes", "pareto": "serving", "parallelism": "serving", "serving": "decode",
                 "latency": "probes", "decode_order": "decode", "crossover": "probes",
                 "probes": "decode", "throughput": None, "redundancy": None}
        self.assertEqual(set(wrong), set(FAMILIES))
        with tempfile.TemporaryDirectory() as folder:
            empty = os.path.join(folder, "empty.jsonl")
            open(empty, "w", encoding="utf-8").close()
            for family, data in wrong.items():
                said = io.StringIO()
                argv = [family, support.fixture(data) if data else empty, "-o",
                        os.path.join(folder, "out", "f")]
                with unittest.mock.patch.object(sys, "argv", argv), \
                        contextlib.redirect_stderr(said):
                    code = common.main(MODULES[family].draw, "", "f")
                self.assertEqual(code, 3, family)
                self.assertRegex(said.getvalue(), r"\ANOT DRAWN: [^\n]+\n\Z")
            self.assertFalse(os.path.exists(os.path.join(folder, "out")))

    def test_bad_input_names_file_and_line(self):
        row = support.rows_of("chunks")[0]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.jsonl")

            def said(text, *more):
                with open(path, "w", encoding="utf-8") as out:
                    out.write(text)
                return support.script("redundancy", path, "-o", os.path.join(folder, "f"), *more)

            good = json.dumps(row) + "\n"
            code, _, error = said("{nothing\n" + good)
            self.assertEqual(code, 0, error)  # a broken line hides no good one
            self.assertIn(f"{path}:1: passed over a line that is no result row", error)
            code, _, error = said(json.dumps({**row, "schema_version": "2.0"}) + "\n")
            self.assertEqual(code, 2)
            self.assertIn("schema version 2.0", error)
            code, _, error = said(good + good[:40])  # torn by a crash
            self.assertEqual(code, 0, error)
            code, _, error = support.script("redundancy", os.path.join(folder, "none.jsonl"))
            self.assertEqual(code, 2)
            self.assertIn("none.jsonl does not exist", error)
            toml = os.path.join(folder, "p.toml")
            with open(toml, "w", encoding="utf-8") as out:
                out.write(PUBLISHED.replace("source =", "sauce ="))
            code, _, error = said(good, "--published", toml)
            self.assertEqual(code, 2)
            self.assertIn("number 1 has no `source`", error)
            code, _, error = said(good, "--published", toml + "x")
            self.assertEqual(code, 2)

    def test_output_that_is_lost_is_exit_code_3_and_a_pipe_is_no_input(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            os.mkfifo(pipe + ".csv")
            rows = support.fixture("decode")
            page = os.path.join(folder, "page.json")
            with open(page, "w", encoding="utf-8") as out:
                json.dump(support.page_data(rows), out)
            figure = ["-o", os.path.join(folder, "figure")]
            for full, words, code in ((True, ["throughput.py", rows, *figure], 3),
                                      (True, ["report.py", page, *figure], 3),
                                      (False, ["throughput.py", pipe, *figure], 2),
                                      (False, ["report.py", pipe, *figure], 2),
                                      (False, ["trace_compare.py", pipe, pipe], 1),
                                      (False, ["nsight.py", pipe, "--nsys", pipe, *figure], 1),
                                      (False, ["nsight.py", rows, "--nsys", pipe, *figure], 1),
                                      (False, ["nsight.py", rows, "--ncu", pipe + ".csv", *figure], 1)):
                with open("/dev/full" if full else os.devnull, "w", encoding="utf-8") as out:
                    done = subprocess.run([sys.executable, os.path.join(support.PLOTS, words[0]),
                                           *words[1:]], stdout=out, stderr=subprocess.PIPE, text=True,
                                          timeout=120, check=False)
                self.assertEqual(done.returncode, code, f"{words}: {done.stderr}")
                self.assertNotIn("Traceback", done.stderr)

    def test_no_text_of_a_row_commands_a_terminal_or_a_viewer(self):
        bad = "a\x1b]0;title\x07\x1b[2Jb"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.jsonl")
            with open(support.fixture("decode"), encoding="utf-8") as text, \
                    open(path, "w", encoding="utf-8") as out:
                for line in text:
                    row = json.loads(line)
                    row["label"] = row["title"] = row["model"]["name"] = bad
                    out.write(json.dumps(row) + "\n")
            output = os.path.join(folder, "figure")
            done = subprocess.run([sys.executable, os.path.join(support.PLOTS, "throughput.py"), path,
                                   "-o", output], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(output + ".svg", encoding="utf-8") as svg:
                said = done.stdout + done.stderr + svg.read()
        self.assertNotIn("\x1b", said)
        self.assertNotIn("\x07", said)

    def test_a_library_that_is_not_there_is_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "scipy.py"), "w", encoding="utf-8") as file:
                file.write("raise ModuleNotFoundError('No module named scipy', name='scipy')\n")
            code, _, error = support.script("pareto", support.fixture("decode"), "-o", os.path.join(folder, "f"),
                                            PYTHONPATH=folder)
        self.assertEqual((code, error), (
            2, "bad input: figures need the Python package scipy: ./dev setup --python\n"))

    def test_a_user_style_changes_nothing(self):
        import matplotlib
        common.style()
        before = dict(matplotlib.rcParams)
        matplotlib.rcParams["font.size"] = 31
        matplotlib.rcParams["lines.linewidth"] = 9
        common.style()
        self.assertEqual(dict(matplotlib.rcParams), before)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--draw"]:
        draw_everything(sys.argv[2])
        sys.exit(0)
    support.main()
