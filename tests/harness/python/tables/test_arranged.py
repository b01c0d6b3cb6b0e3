# SPDX-License-Identifier: Apache-2.0
"""Paper layouts, columns for a paper, pairs of settings, and which method wins where."""

import contextlib
import io
import json
import os
import tempfile
import unittest
import unittest.mock

from made import copies, row_of
from scipy import stats

from unmask.rows import experiments, seeds
from unmask.rows.errors import UserError
from unmask.tables import ablation, crossover, latex, layout, published, table, tables

ARTIFACT = """
[artifact]
paper = "focus"
id = "table_5"
title = "Speed & redundancy"
published = "../published/focus.toml"
[scale.tiny]
[layout]
rows = "label"
row_header = "Method"
across = "batch_size"
[[layout.columns]]
metric = "tokens_per_second"
header = "tok/s"
published = "TPS {}"
best = "max"
[[layout.columns]]
metric = "score"
header = "Acc & all"
factor = 100
where = { workload = ["word_problem", "gsm8k"] }
[[layout.columns]]
metric = "speedup"
header = "x"
digits = 2
[layout.published_rows]
"fast" = "FOCUS"
[layout.base]
label = "slow_1"
"""
PAPER = 'paper = "focus"\ntitle = "FOCUS: a paper"\narxiv = "2601.00001"\n'


def printed(row, column, number):
    return (f'[[value]]\nartifact = "table_5"\nrow = "{row}"\ncolumn = "{column}"\n'
            f'metric = "throughput"\nvalue = {number}\nunit = "tok/s"\nsource = "Table 5"\n')


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.file = self.write("focus/table_5.toml", ARTIFACT)
        self.write("published/focus.toml", PAPER + printed("FOCUS", "TPS 1", "117.30") +
                   printed("FOCUS", "TPS 8", 900) + printed("slow_1", "TPS 1", 50) +
                   printed("LMDeploy", "TPS 8", 400))
        self.rows = [row_of("slow_1", [2.0, 2.1, 1.9], 1), row_of("slow_1", [1.0, 1.0, 1.0], 8),
                     row_of("fast", [1.0, 1.02, 0.98], 1), row_of("fast", [0.5, 0.51, 0.49], 8)]
        self.rows[3]["model"]["weights"] = "synthetic"
        self.rows[3]["provenance"]["tokens_per_second"] = "synthetic"
        self.rows[3]["score"] = None
        for position, row in enumerate(self.rows):
            row["position"] = position

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        experiments.read_toml.cache_clear()
        return path

    def laid(self):
        return layout.lay_out(layout.read_layout(self.file, ""), self.rows)

    def shown(self, form="md"):
        return tables.render(layout.table_of(self.laid()), form)


class Layouts(Files):
    def test_paper_and_measured_stand_side_by_side_and_apart(self):
        laid = self.laid()
        self.assertEqual((len(laid.columns), [r.name for r in laid.rows]),
                         (6, ["slow_1", "fast", "LMDeploy"]))
        fast, paper_alone = laid.rows[1], laid.rows[2]
        self.assertEqual(fast.cells[0].published.value, 117.30)
        self.assertAlmostEqual(fast.cells[0].measured, 100, places=1)
        self.assertEqual([r.cells[0].bold for r in laid.rows], [False, True, False])
        self.assertTrue(fast.cells[1].dagger)
        self.assertIsNone(fast.cells[3].measured)  # no score of synthetic weights
        self.assertAlmostEqual(fast.cells[4].measured, 2.0, places=2)
        self.assertIsNone(paper_alone.cells[1].measured)  # the paper's number is never ours
        self.assertEqual(paper_alone.cells[1].published.value, 400)

    def test_markdown_by_hand(self):
        # 100 tokens in 2, 2.1, 1.9 s: t(0.975, 2) * 0.1 / sqrt(3) = 0.2484 s, 12.42 % of 2 s.
        half = stats.t.ppf(0.975, 2) * 0.1 / 3 ** 0.5 / 2
        text = self.shown()
        self.assertTrue(text.startswith("**Speed & redundancy**\n\n| Method | tok/s, batch_size 1, paper "
                                        "| tok/s, batch_size 1, tiny | tok/s, batch_size 8, paper |"))
        self.assertIn(f"| slow_1 | 50 | 50.0 [{50 / (1 + half):.1f}, {50 / (1 - half):.1f}] | – | 100.0 | "
                      "50.0 [24.0, 76.0] | 50.0 [24.0, 76.0] | 1.00 | 1.00 |", text)
        self.assertIn("| LMDeploy | – | – | 400 | – | – | – | – | – |", text)
        self.assertIn("paper: as printed in FOCUS: a paper, arXiv 2601.00001.", text)
        self.assertIn("In brackets: 95 % interval, n from 3 to 10.", text)

    def test_several_rows_in_a_cell_are_averaged(self):
        for label, batch in (("fast", 1), ("slow_1", 1), ("slow_1", 8)):  # a task that all have
            more = row_of(label, [1.0, 1.0, 1.0], batch, "gsm8k")
            more["score"] = {"mean": 0.7, "exact": 7, "n": 10, "ci95": [0.4, 0.9]}
            self.rows.append(more)
        cell = self.laid().rows[1].cells[2]
        self.assertAlmostEqual(cell.measured, 60)
        self.assertEqual((cell.unit, cell.n), ("rows", 2))

    def test_a_number_over_several_models_is_a_mistake_of_the_file(self):
        other = row_of("fast", [2.0, 2.0, 2.0])
        other["model"] = {**other["model"], "name": "other"}
        self.rows.append(other)
        with self.assertRaisesRegex(UserError, "several models \\(other, tiny\\): add \"model\" to `rows`"):
            self.laid()
        self.file = self.write("focus/table_5.toml", ARTIFACT.replace('rows = "label"', 'rows = "label"\npool = "model"'))
        text = tables.render(layout.table_of(self.laid()), "md")
        self.assertIn("| Method (models together: tiny, other) |", text)
        self.file = self.write("focus/table_5.toml", ARTIFACT.replace('rows = "label"', 'rows = ["model", "label"]'))
        self.assertIn("other label=fast", [row.name for row in self.laid().rows])
        self.file = self.write("focus/table_5.toml", ARTIFACT.replace('rows = "label"', 'rows = "label"\npool = "seed"'))
        with self.assertRaisesRegex(UserError, "pool"):
            self.laid()

    def scores_of(self, rows, keys='"label"'):
        """{line: score in per cent} and the footnotes of a layout with one column of scores."""
        file = self.write("focus/table_9.toml", f"""[artifact]
paper = "focus"
id = "table_9"
title = "Scores"
[layout]
rows = [{keys}]
columns = [{{metric = "score", header = "score", factor = 100.0}}]
""")
        laid = layout.lay_out(layout.read_layout(file, ""), rows)
        return {row.name: row.cells[0].measured and round(row.cells[0].measured, 6) for row in laid.rows}, laid.footnotes

    def scored(self, label, task, right, **more):
        row = row_of(label, [1.0, 1.0], 1, task, **more)
        row["score"] = {"mean": right / 10, "exact": right, "n": 10, "ci95": [0, 1]}
        return row

    def test_means_are_over_the_tasks_that_all_have(self):
        rows = [self.scored("a", "one", 2), self.scored("a", "two", 4), self.scored("b", "one", 8),
                self.scored("b", "two", 9), self.scored("a", "three", 10), self.scored("a", "four", 10)]
        found, notes = self.scores_of(rows)
        self.assertEqual(found, {"a": 30, "b": 85})  # over all of its own a would have 65
        self.assertIn("Means over 2 of 4 tasks that all have: one, two.", notes)
        found, notes = self.scores_of([*rows, self.scored("c", "five", 10)])
        self.assertEqual(found, {"a": 30, "b": 85, "c": None})
        self.assertIn("Left out of the means, which are over other tasks: c.", notes)
        found, notes = self.scores_of(rows, '"workload", "label"')  # a number for each: nothing is a mean
        self.assertEqual(found["three label=a"], 100)
        self.assertFalse([note for note in notes if "eans" in note])

    def test_a_likelihood_is_in_no_mean_with_right_answers(self):
        rows = [self.scored("a", "one", 2), self.scored("a", "two", 4), self.scored("a", "story", 9)]
        rows[2]["workload"]["judge"] = "judge"
        found, notes = self.scores_of(rows)
        self.assertEqual(found, {"a": 30})
        self.assertIn("A likelihood of text is in no mean with right answers: story left out.", notes)

    def test_a_published_score_stands_beside_one_of_its_harness_only(self):
        self.write("focus/table_5.toml", ARTIFACT.replace('header = "Acc & all"\n',
                                                          'header = "Acc & all"\npublished = "Acc"\n'))
        self.write("published/focus.toml", 'paper = "focus"\ntitle = "F"\nharness = "OC-F"\n' +
                   printed("slow_1", "Acc", 81.5))

        def cell(harness):
            for row in self.rows:
                row["workload"]["benchmark"] = {"harness": harness}
            return self.laid().rows[0].cells[2]
        self.assertTrue(cell("OC-F").published)
        self.assertTrue(cell("").published)  # our own tasks: the layout's words say what they are
        other = cell("OC-S")
        self.assertEqual((other.published, other.other_harness), (None, True))
        self.assertIn("another harness (OC-S; the paper: OC-F)", self.shown())

    def test_what_shows_nothing_and_what_must_not_be_read(self):
        for row in self.rows:
            row["score"] = None
        self.assertIn("Measured in no row: Acc & all, batch_size 1; Acc & all, batch_size 8.",
                      self.shown())
        self.assertNotIn("| Acc & all", self.shown())
        self.rows[1]["environment"] = {"notes": [layout.SHARED_MACHINE]}
        self.assertIn("Read no speed here: other measurements ran", self.shown())
        self.rows[0]["verdict"] = "FAILED"
        self.assertIsNone(self.laid().rows[0].cells[0].measured)

    def test_the_best_is_the_best_of_its_task(self):
        self.write("focus/table_5.toml", ARTIFACT.replace('rows = "label"',
                                                          'rows = ["workload", "label"]'))
        self.rows += [row_of("slow_1", [0.2, 0.21], 1, "story"), row_of("fast", [0.1, 0.11], 1, "story")]
        bold = {r.name: r.cells[0].bold for r in self.laid().rows if r.keys}
        self.assertEqual(bold, {"word_problem label=slow_1": False, "word_problem label=fast": True,
                                "story label=slow_1": False, "story label=fast": True})

    def test_the_best_is_found_by_value_and_not_by_its_last_bits(self):
        self.write("focus/table_5.toml", ARTIFACT.replace('rows = "label"', 'rows = ["workload", "label"]'))
        # Speeds are 100 tokens over the time: 200.04 and 199.96 print alike; means of 0.1, 0.2, 0.3 in two
        # orders differ in the last bit.
        self.rows = [row_of("slow_1", [100 / 200.04] * 2, 1, "story"), row_of("fast", [100 / 199.96] * 2, 1, "story")]
        self.assertEqual([r.cells[0].bold for r in self.laid().rows if r.keys], [True, False])
        self.assertIn("Bold: the best before rounding", tables.render(
            layout.table_of(layout.lay_out(layout.read_layout(self.file, ""), [
                {**row, "position": i} for i, row in enumerate(self.rows)])), "md"))
        table = layout.LaidTable("", "", "", [layout.LaidColumn("x", "tpf", "", 1)], [
            layout.LaidRow("a", [layout.LaidCell((0.1 + 0.2 + 0.3) / 3)]),
            layout.LaidRow("b", [layout.LaidCell((0.3 + 0.2 + 0.1) / 3)])])
        self.assertNotEqual(table.rows[0].cells[0].measured, table.rows[1].cells[0].measured)
        layout._mark_best(table, layout.Layout(columns=[layout.Column("tpf", best="max")]))
        self.assertEqual([row.cells[0].bold for row in table.rows], [True, True])

    def test_no_likelihood_above_the_references_is_best(self):
        """The likelihood of the references is 42.5: text of 54 repeats itself, and what is below is no best for that."""
        file = self.write("focus/table_9.toml", """[artifact]
paper = "focus"
id = "table_9"
[layout]
rows = ["workload", "label"]
columns = [{metric = "score", header = "score, %", factor = 100.0, best = "max"}]
""")

        def bold(*likelihoods, **beside):
            rows = [self.scored(label, "story", 0, position=i) for i, label in enumerate("abc"[:len(likelihoods)])]
            for row, mean in zip(rows, likelihoods):
                row["workload"]["judge"] = "tiny-ar"
                row["score"] = {**row["score"], "mean": mean, "beside": beside}
            laid = layout.lay_out(layout.read_layout(file, ""), rows)
            return [r.cells[0].bold for r in laid.rows], [note for note in laid.footnotes if "references" in note]
        self.assertEqual(bold(0.40, 0.54, 0.42, reference_likelihood=0.425), ([False, False, False], [
            "No likelihood is in bold if one is above that of the references (42.5): such texts repeat themselves."]))
        self.assertEqual(bold(0.40, 0.54)[0], [False, False])  # rows of before: what was measured of the workload
        self.assertEqual(bold(0.40, 0.42), ([False, True], []))

    def test_mistakes_are_refused(self):
        for old, new, says in (('best = "max"', 'best = "maximum"', "did you mean 'max'"),
                               ('rows = "label"', 'rows = "lable"', "did you mean 'label'"),
                               ("row_header", "row_heder", "row_heder"),
                               ('[layout.base]\nlabel = "slow_1"', "", "needs \\[layout.base\\]"),
                               ('metric = "score"', "digits = 1", "needs `metric`")):
            self.write("focus/table_5.toml", ARTIFACT.replace(old, new))
            with self.assertRaisesRegex(UserError, says):
                self.laid()
        with self.assertRaisesRegex(UserError, "has no \\[layout\\]"):
            layout.lay_out(layout.Layout(), self.rows)

    def test_printed_numbers_are_checked(self):
        value = printed("DC", "tok/s", 12)
        for text, says in ((PAPER + value + value, "twice"), (PAPER + value + "colour = 3\n", "colour"),
                           (PAPER + value.replace('source = "Table 5"\n', ""), "source"),
                           (PAPER + value.replace('unit = "tok/s"\n', ""), "`unit`"),
                           (PAPER + value.replace("12", "nan"), "finite"),
                           (PAPER + value.replace("12", '"12"'), "takes a number"),
                           (PAPER + "[[valeu]]\n", "did you mean 'value'"),
                           (PAPER.replace('"focus"', '"optimus"'), "name of the file"),
                           (PAPER + "[[value]\n", "focus.toml")):
            path = self.write("published/focus.toml", text)
            with self.assertRaisesRegex(UserError, says):
                published.read_published(path)
        path = self.write("published/focus.toml", PAPER + value + value.replace("throughput", "nfe"))
        with self.assertRaisesRegex(UserError, "several metrics"):
            published.read_published(path).find("table_5", "DC", "tok/s")
        self.assertEqual(published.read_published(path).find("table_5", "DC", "tok/s", "nfe").value, 12)

    def test_the_shipped_layouts_name_published_cells(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../experiments")
        checked = 0
        for paper in ("ada_dlm", "focus", "focus_dllm", "optimus", "sparse_dllm"):
            numbers = published.read_published(os.path.join(root, "published", f"{paper}.toml"))
            for name in sorted(os.listdir(os.path.join(root, paper))):
                path = os.path.join(root, paper, name)
                if not name.endswith(".toml"):
                    continue
                values = [v for v in numbers.values if v.artifact == name[:-5]]
                for scale in experiments.scales_of(path):
                    found = layout.read_layout(path, scale)
                    self.assertLessEqual(set(found.published_rows.values()), {v.row for v in values})
                    columns = {c.published for c in found.columns if "{}" not in c.published}
                    self.assertLessEqual(columns - {""}, {v.column for v in values}, path)
                    checked += 1
        self.assertGreater(checked, 150)


    def test_no_number_of_a_shipped_layout_is_over_several_models(self):
        """By the files alone: a setting that several models answer has the model in its line, or what tells
        those models apart."""
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../experiments")
        looked_at = 0
        for paper in ("ada_dlm", "focus", "focus_dllm", "optimus", "registry", "sparse_dllm"):
            for name in sorted(os.listdir(os.path.join(root, paper))):
                path = os.path.join(root, paper, name)
                for scale in experiments.scales_of(path) if name.endswith(".toml") else ():
                    content, _ = experiments.at_scale(path, scale)
                    laid = layout.read_layout(path, scale)
                    told = {*laid.row_keys, laid.across, *(key for c in laid.columns for key in c.where.keys)}
                    if laid.columns and laid.pool != "model" and "model" not in told and not (
                            "params.block_length" in told):
                        looked_at += 1
                        self.assertEqual(self.shared_by_models(content), [], f"{path} {scale}")
        self.assertGreater(looked_at, 60)

    def shared_by_models(self, content):
        """The methods that two models answer with."""
        def names(model):
            return {model.get("role"), model.get("name") or str(model.get("path")).rsplit("/", 1)[-1].rsplit(":", 1)[-1]}

        def answers(entry, model):
            return not entry.get("models") or bool(set(entry["models"]) & names(model))
        models = [model for model in content.get("model", []) if isinstance(model, dict)]
        return [method.get("label") for method in content.get("method", [])
                if sum(answers(method, model) for model in models) > 1]


class Latex(Files):
    def printed(self, metric, digits, values, bounds=None, interval=False, counted=False, best=()):
        """The printed column of these numbers, and the lines below the table."""
        factor = 100 if metric == "score" else 1
        cells = [layout.LaidCell(v, r, 3, counted=counted, bold=i in best)
                 for i, (v, r) in enumerate(zip(values, bounds or [None] * len(values)))]
        laid = layout.LaidTable("", "Method", "", [layout.LaidColumn("x", metric, "", digits, "x", factor)],
                                [layout.LaidRow(f"m{i}", [c]) for i, c in enumerate(cells)])
        lines = latex.paper_latex(laid, interval=interval).splitlines()
        return ([line.split(" & ")[1].removesuffix(" \\\\") for line in lines if line[:1] == "m"],
                [line for line in lines if line.startswith("\\par")])

    def test_no_interval_takes_digits_away(self):
        wide = [(0.14, 103.89), (0.2, 4.1), (1.0, 5.4)]
        self.assertEqual(self.printed("speedup", 2, [3.86, 0.90, 3.2], wide)[0], ["3.86", "0.90", "3.20"])
        self.assertEqual(self.printed("tokens_per_second", 1, [10097.8, 83.3], [(9850, 10360), (1, 999)])[0],
                         ["10097.8", "83.3"])
        # A score of so many items is exact: its interval is about other items.
        self.assertEqual(self.printed("score", 1, [54.04, 47.0, 48.1, 16.67], [(20, 80)] * 4)[0],
                         ["54.0", "47.0", "48.1", "16.7"])

    def test_a_column_has_one_number_of_decimals_and_no_number_less_than_two_digits(self):
        # 1.0 and 0.0021 need four decimals, 0.05 and 12 need three; 0 has no digits to keep.
        for values, texts in (([1.137, 0.00213], ["1.1370", "0.0021"]), ([12, 0.05, 0], ["12.000", "0.050", "0.000"]),
                              ([0.0996], ["0.100"]), ([-0.012, 7.0], ["-0.012", "7.000"]),
                              ([3.0], ["3.0"]), ([300.4, 21.0], ["300", "21"])):
            self.assertEqual(self.printed("wall_seconds", 0, values)[0], texts)
        self.assertEqual(self.printed("score", 3, [0.04, 100.0])[0], ["0.0", "100.0"])
        for digits in (0, 2):
            self.assertEqual(self.printed("nfe", digits, [640.0, 57.0], counted=True)[0], ["640.0", "57.0"])
        self.assertEqual(self.printed("nfe", 0, [640.0, 57.25], counted=True)[0], ["640.0", "57.2"])
        self.assertEqual(self.printed("tpf", 2, [0.4, 4.611], counted=True)[0], ["0.40", "4.61"])

    def test_the_interval_is_an_option(self):
        texts, _ = self.printed("speedup", 2, [3.86, 1.0], [(0.14, 103.89), None], True, best=(0,))
        self.assertEqual(texts, ["\\textbf{3.86} {\\scriptsize[0.14, 103.89]}", "1.00"])

    def test_what_prints_like_the_best_and_is_not_is_said(self):
        texts, notes = self.printed("tokens_per_second", 1, [50.04, 49.96, 50.04], best=(0, 2))
        self.assertEqual(texts, ["\\textbf{50.0}", "50.0", "\\textbf{50.0}"])
        said = ("\\par{\\footnotesize Bold: the best before rounding; a number that prints alike and is not "
                "bold is worse.}")
        self.assertEqual(notes, [said])
        self.assertEqual(self.printed("tokens_per_second", 1, [50.04, 49.9], best=(0,))[1], [])

    def test_headers_span_their_columns_and_groups_have_headings(self):
        self.write("focus/table_5.toml", ARTIFACT.replace('rows = "label"',
                                                          'rows = ["workload", "label"]'))
        self.rows += [row_of("slow_1", [0.2, 0.21], 1, "story_1")]
        text = latex.paper_latex(self.laid(), "A & B", "tab:x")
        for words in ("\\caption{A \\& B}\n\\label{tab:x}\n", "\\multicolumn{4}{c}{tok/s}",
                      "\\multicolumn{2}{c}{Acc \\& all}", "\\cmidrule(lr){2-5}\\cmidrule(lr){6-7}",
                      "batch\\_size & 1 paper & 1 & 8 paper & 8 & 1 & 8", "{@{}l@{}}{\\emph{story\\_1}} \\\\\nslow\\_1 & "):
            self.assertIn(words, text)
        self.assertNotIn("\\pm", text)
        self.assertNotIn("word\\_problem label", text)

    def test_a_sign_that_is_escaped_already_is_not_escaped_again(self):
        self.write("focus/table_5.toml", ARTIFACT.replace('"Acc & all"', '"Acc, \\\\%"'))
        self.assertIn("{Acc, \\%}", latex.paper_latex(self.laid()))

    def test_words_of_joined_letters_stay_whole(self):
        """Persian, Hindi and a family of four: what joins signs is kept in both writers, and a tag is none."""
        label = "می\u200cخواهم क्\u200dष \U0001f468\u200d\U0001f469 <b>"
        t = tables.Table(["label"])
        t.add(label)
        for form in tables.FORMATS:
            self.assertIn("می\u200cخواهم क्\u200dष \U0001f468\u200d\U0001f469", tables.render(t, form), form)
        self.assertNotIn(" <b>", tables.render(t, "md"))

    def test_the_work_of_a_table_grows_as_its_rows(self):
        """Twice the rows ask for their circumstances twice as often: each looks its base up once."""
        def asked(n):
            rows = [row_of(label, [1.0], point_id=f"{label}{i}", batch_size=i + 1) for i in range(n)
                    for label in ("base", "fast")]
            with unittest.mock.patch.object(seeds, "circumstance", wraps=seeds.circumstance) as calls:
                table = layout.lay_out_columns(rows, ["tokens_per_second", "speedup"])
            self.assertEqual(len(table.rows), 2 * n)
            return calls.call_count
        few, many = asked(20), asked(40)
        self.assertGreater(few, 40)
        self.assertLessEqual(many, 2 * few)

    def test_every_format_escapes_its_own_signs(self):
        t = tables.Table(["na|me", ">x_y"], title="50 % & more", notes=["a note"])
        cell = tables.number_cell(1.5, 2, 1, (1.25, 1.75))
        cell.bold = cell.dagger = True
        t.add('a|b,"c"', cell)
        t.add("=cmd|' /C calc'!A0", tables.Cell("-3.5"))
        t.add("\x1b[31mred", "–")
        md = tables.render(t, "md")
        self.assertIn('| a\\|b,"c" | **1.50** [1.25, 1.75] † |\n', md)
        self.assertNotIn("\x1b", md)
        self.assertIn("\"'=cmd|' /C calc'!A0\",-3.5".replace('"', ""), tables.render(t, "csv"))
        self.assertIn('"a|b,""c""",1.50\n', tables.render(t, "csv"))
        self.assertIn("\\textbf{1.50} {\\scriptsize[1.25, 1.75]}$^\\dagger$", tables.render(t, "latex"))
        found = json.loads(tables.render(t, "json"))
        self.assertEqual((found["columns"][1]["right"], found["rows"][0][1]["high"]), (True, 1.75))
        self.assertEqual(tables.latex_text("a_b & 5 % {x} #1 $y ~ ^ \\"),
                         "a\\_b \\& 5 \\% \\{x\\} \\#1 \\$y \\textasciitilde{} \\textasciicircum{} "
                         "\\textbackslash{}")


class Command(Files):
    def run_command(self, *arguments):
        path = self.write("results/focus/table_5/tiny/rows.jsonl",
                          "".join(json.dumps(row) + "\n" for row in self.rows))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(table.main([*arguments, "--experiments-dir", self.folder,
                                         path if "--artifact" in arguments else
                                         os.path.join(self.folder, "results")]), 0)
        return said.getvalue()

    def test_the_place_of_rows_or_the_artifact_names_the_layout(self):
        self.assertEqual(self.run_command("--view", "paper"), self.shown())
        self.assertEqual(self.run_command("--view", "paper", "--artifact", self.file), self.shown())
        text = self.run_command("--view", "paper", "--format", "latex", "--columns", "tok/s",
                                "--caption", "C", "--label", "l")
        self.assertIn("\\caption{C}\n\\label{l}\n", text)
        self.assertNotIn("Acc", text)
        csv = self.run_command("--view", "paper", "--format", "csv")
        self.assertIn('LMDeploy,"tok/s, batch_size 8",tokens_per_second,8,tiny,,,,,,,400,tok/s,Table 5',
                      csv)

    def test_chosen_columns_of_any_rows(self):
        path = self.write("some.jsonl", "".join(json.dumps(row) + "\n" for row in self.rows))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            table.main([path, "--columns", "score,tokens_per_second,speedup", "--format", "latex"])
        text = said.getvalue()
        self.assertIn("method & score, \\% & tokens/s & speedup \\\\", text)
        self.assertIn("fast batch\\_size=1 & \\textbf{50.0} & \\textbf{100.0} & \\textbf{2.00} \\\\", text)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            table.main([path, "--columns", "score,tokens_per_second", "--format", "latex", "--interval"])
        # 100 tokens in 1.0, 1.02, 0.98 s: t(0.975, 2) * 0.02 / sqrt(3) = 0.0497 s.
        self.assertIn("\\textbf{100.0} {\\scriptsize[95.3, 105.2]}", said.getvalue())
        self.assertIn("In brackets: 95", said.getvalue())
        self.assertNotIn("In brackets", text)
        with self.assertRaisesRegex(UserError, "unknown column 'scor'; did you mean 'score'"):
            table.main([path, "--columns", "scor"])


class OnePass(unittest.TestCase):
    def test_a_speed_that_was_timed_once_is_never_bold_and_said_to_be_of_one_pass(self):
        rows = [row_of("slow", [2.0, 2.02]), row_of("once", [1.0], position=1)]
        laid = layout.lay_out_columns(rows, ["tokens_per_second", "speedup"])
        self.assertEqual([[cell.bold for cell in row.cells] for row in laid.rows], [[False, False], [False, False]])
        self.assertTrue(any(note.startswith("One pass: ") for note in laid.footnotes), laid.footnotes)
        twice = [rows[0], row_of("twice", [1.0, 1.01], position=1)]
        laid = layout.lay_out_columns(twice, ["tokens_per_second", "speedup"])
        self.assertEqual([[cell.bold for cell in row.cells] for row in laid.rows], [[False, False], [True, True]])
        self.assertFalse(any(note.startswith("One pass: ") for note in laid.footnotes), laid.footnotes)


class Settings(unittest.TestCase):
    def rows(self, factor=0.5):
        kept = {"id": ["a", "b"], "score": [1, 1], "exact": [True, True], "output_tokens": [3, 3],
                "answer_hash": ["x", "y"], "seconds": [[1.0, 1.0], [2.0, 2.0]]}
        base = row_of("m", [3.0, 3.3, 3.6], items=kept)
        fast = row_of("m", [v * factor for v in (3.0, 3.3, 3.6)], items=copies(kept), position=1,
                      variation="params.steps=4", point_id="fast")
        fast["items"]["seconds"] = [[v * factor for v in s] for s in kept["seconds"]]
        return [base, fast]

    def test_a_setting_stands_beside_its_base(self):
        for factor, verdict in ((0.5, "FASTER"), (2.0, "SLOWER"), (1.0, "SAME")):
            (line,) = ablation.paired_comparison(self.rows(factor))
            self.assertAlmostEqual(line["speed"].value, 1 / factor)
            self.assertEqual((line["speed_verdict"], line["paired"], line["same_answers"]),
                             (verdict, True, 2))
            self.assertAlmostEqual(line["item_speed"].value, 1 / factor)
            self.assertEqual(line["score_verdict"], "SAME")
        text = ablation.paired_report(self.rows(), (0.02, 0.02), "", "md")
        self.assertIn("| m params.steps=4 | m | 2.000 [2.000, 2.000] | FASTER |", text)
        self.assertIn("2 of 2", text)

    def test_rows_of_two_runs_are_said_to_be_unpaired(self):
        rows = self.rows()
        rows[1]["run_id"] = "another"
        self.assertIn("FASTER (unpaired)", ablation.paired_report(rows, (0.02, 0.02), "", "md"))
        with self.assertRaisesRegex(UserError, "known: m, m params.steps=4"):
            ablation.paired_report(rows, (0.02, 0.02), "n", "md")
        with self.assertRaisesRegex(UserError, "above 0"):
            ablation.paired_report(rows, (0, 0.02), "", "md")

    def test_main_effects_of_a_factorial(self):
        rows = [row_of("m", [t, t * 1.1], position=2 * a + b, variation=f"params.a={a} params.b={b}",
                       point_id=f"{a}{b}")
                for a, b, t in ((0, 0, 8.0), (0, 1, 4.0), (1, 0, 2.0), (1, 1, 1.0))]
        effects = ablation.main_effects(rows)
        found = [(e["factor"], e["level"], round(e["speed"].value, 9)) for e in effects]
        self.assertEqual(found, [("params.a", "1", 4.0), ("params.b", "1", 2.0)])
        self.assertIn("Main effects", ablation.paired_report(rows, (0.02, 0.02), "", "md"))


class Crossover(unittest.TestCase):
    def rows(self, sparse_score=None):
        rows = []
        for label, seconds, batch, task in (("vanilla", 1.0, 1, "word_problem"),
                                            ("sparse", 2.0, 1, "word_problem"),
                                            ("vanilla", 4.0, 8, "word_problem"),
                                            ("sparse", 2.0, 8, "word_problem")):
            row = row_of(label, [seconds, seconds * 1.01, seconds * 0.99], batch, task,
                         variation=f"batch_size={batch}")
            row["metrics"].update(prompt_tokens=500, selection_share=0.12 if label == "sparse" else 0)
            row["provenance"].update(prompt_tokens="counted", selection_share="measured")
            if sparse_score is not None:
                row["score"]["mean"] = 0.9 if label == "vanilla" else sparse_score
            rows.append(row)
        return rows + [row_of("vanilla", [4.0, 4.2, 3.8], 1, "long"),
                       row_of("sparse", [4.1, 3.9, 4.05], 1, "long")]

    def test_the_winner_changes_with_the_batch(self):
        cells = {(c["workload"], c["batch_size"]): c
                 for c in crossover.crossover_cells(self.rows(), "vanilla")}
        one, eight, long = (cells[key] for key in (("word_problem", 1), ("word_problem", 8),
                                                   ("long", 1)))
        self.assertEqual((one["methods"][0]["label"], one["clear"], one["prompt_tokens"]),
                         ("vanilla", True, 50))
        self.assertAlmostEqual(one["margin"].value, 2, places=2)
        self.assertEqual(eight["methods"][0]["label"], "sparse")
        self.assertAlmostEqual(eight["methods"][0]["speedup"].value, 2, places=2)
        self.assertFalse(long["clear"])
        text = tables.render(crossover.crossover_table(list(cells.values())), "md")
        for words in ("| 12.00 | 50.0 |", "(INCONCLUSIVE)", "3 cells; sparse wins 1, vanilla wins 1, 1 INCONCLUSIVE"):
            self.assertIn(words, text)
        table = crossover.kept_columns(crossover.crossover_table(list(cells.values())), ["winner", "family", "batch"])
        self.assertIn("| winner | task | batch |\n|---|---|---:|\n", tables.render(table, "md"))
        with self.assertRaisesRegex(UserError, "column 'winer'.*winner"):
            crossover.kept_columns(table, ["winer"])

    def test_wrong_answers_do_not_win(self):
        def winner(score, base="vanilla", within=0.1):
            cells = crossover.crossover_cells(self.rows(score), base, False, within)
            return next(c for c in cells if c["batch_size"] == 8)
        self.assertEqual(winner(0.85)["methods"][0]["label"], "sparse")
        self.assertEqual(winner(0.85, within=0.01)["methods"][0]["label"], "vanilla")
        worse = winner(0.3)
        self.assertEqual([m["worse"] for m in worse["methods"]], [False, True])
        self.assertIsNone(worse["margin"])  # nobody else answers as well
        self.assertIn("| sparse 2.00x, 30.0 % |",
                      tables.render(crossover.crossover_table([worse]), "md"))
        self.assertEqual(winner(0.3, "")["methods"][0]["label"], "vanilla")
        self.assertEqual(winner(0.3, within=1)["methods"][0]["label"], "sparse")

    def test_models_are_compared_only_when_asked(self):
        rows = self.rows()
        for row in rows:
            if row["label"] == "sparse":
                row["model"]["name"] = "another"
        self.assertEqual(len(crossover.crossover_cells(rows)), 6)
        cells = crossover.crossover_cells(rows, across_models=True)
        self.assertEqual(len(cells), 3)
        self.assertIn("sparse (another)", [c["methods"][0]["label"] for c in cells])
        with self.assertRaisesRegex(UserError, "did you mean 'vanilla'"):
            crossover.crossover_cells(rows, "vanila")
        self.assertEqual(crossover.crossover_cells([]), [])


if __name__ == "__main__":
    unittest.main()
