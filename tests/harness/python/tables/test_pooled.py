# SPDX-License-Identifier: Apache-2.0
"""What a line of a table pools: rows that differ in their seed alone, never those of two machines or of two
kinds of score; and answers that nobody can judge stay in the denominator."""

import json
import math
import os
import subprocess
import tempfile
import unittest

from made import copies, row_of
from scipy import stats

from unmask.page import page
from unmask.rows import apart, estimates, intervals, rows
from unmask.tables import ablation, compare, crossover, layout, parallelism


def printed(found, *arguments):
    """What `unmask table` prints of these rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in found)
        return subprocess.run([os.environ["UNMASK_PROGRAM"], "table", path, *arguments], capture_output=True, text=True,
                              check=True).stdout


def lines_of(text):
    """The cells of a Markdown table's rows."""
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines()
            if line.startswith("| ")][1:]


def score(mean, n=10, **more):
    return {"mean": mean, "exact": round(mean * n), "n": n, "ci95": list(intervals.wilson(mean * n, n)), **more}


def of_seed(label, seed, mean, seconds):
    return row_of(label, [seconds], seed=seed, score=score(mean), variation=f"seed={seed}",
                  point_id=f"{label}/{seed}", position=seed)


class Seeds(unittest.TestCase):
    def setUp(self):
        self.rows = [of_seed("base", seed, mean, 1.0) for seed, mean in enumerate((0.4, 0.5, 0.6))]
        self.rows += [of_seed("fast", seed, 0.5, seconds) for seed, seconds in enumerate((0.5, 0.4, 0.5))]

    def test_seeds_are_one_line_with_the_interval_over_them(self):
        # By hand: 0.4, 0.5, 0.6 have the deviation 0.1; 4.3027 * 0.1 / sqrt(3) = 0.2484.
        table = layout.lay_out_columns(self.rows, ["score", "tokens_per_second", "speedup"])
        self.assertEqual([row.keys[1] for row in table.rows], ["base, 3 seeds", "fast, 3 seeds"])
        cell = table.rows[0].cells[0]
        self.assertAlmostEqual(cell.measured, 50.0)
        self.assertEqual([round(end, 1) for end in cell.range], [25.2, 74.8])
        self.assertEqual((cell.n, cell.unit), (3, "seeds"))
        # 200, 250, 200 tokens a second over 100 each, seed by seed: a geometric mean.
        ratio = table.rows[1].cells[2]
        self.assertAlmostEqual(ratio.measured, (2 * 2.5 * 2) ** (1 / 3))
        self.assertAlmostEqual(table.rows[1].cells[1].measured, 650 / 3)
        low, high = stats.t.interval(0.95, 2, loc=650 / 3, scale=stats.sem([200, 250, 200]))
        for ours, theirs in zip(table.rows[1].cells[1].range, (low, high)):
            self.assertAlmostEqual(ours, theirs)

    def test_the_programs_table_has_the_same_line(self):
        text = printed(self.rows)
        lines = lines_of(text)
        self.assertEqual([line[1] for line in lines], ["base, 3 seeds", "fast, 3 seeds"])
        self.assertEqual(lines[0][4], "50.0 [25, 75]")
        self.assertIn("3 seeds", text)
        self.assertIn("in their seed alone", text)
        self.assertIn("The seed changes no answer of: base, word_problem; fast, word_problem\n", text)
        self.rows[0]["answers_hash"] = "other"
        self.assertIn("The seed changes no answer of: fast, word_problem\n", printed(self.rows))
        (ours,) = page.row_tables(self.rows)
        for a, b in zip(lines, ours.rows):
            of_page = [cell.text + (f" [{cell.range}]" if cell.range else "") for cell in b]
            self.assertEqual([cell.removesuffix(" !") for cell in a], of_page)

    def test_a_row_of_any_seed_is_the_base_of_all(self):
        """100 tokens a second once; 200, 250, 200 over it under three seeds: 2.15 = (2 * 2.5 * 2)^(1/3)."""
        once = [of_seed("base", 0, 0.4, 1.0) | {"variation": "seed=any"}, *self.rows[3:]]
        table = layout.lay_out_columns(once, ["speedup"])
        self.assertEqual([row.keys[1] for row in table.rows], ["base seed=any", "fast, 3 seeds"])
        self.assertAlmostEqual(table.rows[1].cells[0].measured, 10 ** (1 / 3))
        text = printed(once)
        self.assertIn("nothing in the row reads the seed, so it was measured once for all seeds", text)
        lines = lines_of(text)
        self.assertEqual([line[1] for line in lines], ["base seed=any", "fast, 3 seeds"])
        self.assertEqual(lines[0][6], "base")
        self.assertTrue(lines[1][6].startswith("2.15 ["), lines[1])
        (ours,) = page.row_tables(once)
        self.assertEqual([cell.text for cell in list(zip(*ours.rows))[6]], ["base", "2.15"])

    def test_a_row_of_any_seed_is_met_under_every_seed(self):
        """A cell of each seed holds it; and two runs have a ratio over it for each seed."""
        once = [of_seed("base", 0, 0.5, 1.0) | {"variation": "seed=any"}, *self.rows[3:]]
        cells = crossover.crossover_cells(once, "base")
        self.assertEqual([{m["label"] for m in cell["methods"]} for cell in cells], [{"base", "fast"}] * 3)
        lines = lines_of(printed(once, "--where", "seed=2"))
        self.assertEqual([(line[1], line[6]) for line in lines], [("base seed=any", "base"), ("fast seed=2", "2.00")])
        speedups = [m["speedup"].value for cell in cells for m in cell["methods"] if m["label"] == "fast"]
        self.assertEqual(sorted(round(s, 6) for s in speedups), [2, 2, 2.5])
        for row in once:  # a ratio of one pass has no interval to compare by
            row["samples"]["seconds"] = [row["samples"]["seconds"][0] * share for share in (0.99, 1.0, 1.01)]
        self.assertEqual(compare.compare_rows(once, copies(once)).ratios, 3)

    def mixed(self):
        """A sampled base, a greedy method that was measured once and a sampled one, as a sweep of seeds plans them:
        all methods of a seed, then those of the next. Tokens a second: 100, 125, 80; 250; 200, 250, 200."""
        base = [of_seed("base", seed, mean, seconds)
                for seed, (mean, seconds) in enumerate(((0.4, 1.0), (0.5, 0.8), (0.6, 1.25)))]
        once = of_seed("greedy", 0, 0.5, 0.4) | {"variation": "seed=any"}
        return [base[0], once, self.rows[3], base[1], self.rows[4], base[2], self.rows[5]]

    def test_a_row_of_any_seed_is_over_the_bases_of_all_seeds(self):
        """By hand: 250 over 100, 125, 80 is (2.5 * 2 * 3.125)^(1/3) = 2.5; its interval is of the three logarithms. The
        sampled method is over the base of its own seed, and never over the greedy one: (2 * 2 * 2.5)^(1/3)."""
        found = self.mixed()
        table = layout.lay_out_columns(found, ["speedup"])
        self.assertEqual([row.keys[1] for row in table.rows], ["base, 3 seeds", "greedy seed=any", "fast, 3 seeds"])
        cells = [row.cells[0] for row in table.rows]
        logs = [math.log(v) for v in (2.5, 2.0, 3.125)]
        low, high = map(math.exp, stats.t.interval(0.95, 2, loc=math.log(2.5), scale=stats.sem(logs)))
        self.assertAlmostEqual(cells[1].measured, 2.5)
        for ours, theirs in zip(cells[1].range, (low, high)):
            self.assertAlmostEqual(ours, theirs)
        self.assertEqual((cells[1].n, cells[1].unit), (3, "seeds"))
        self.assertAlmostEqual(cells[2].measured, 10 ** (1 / 3))
        lines = lines_of(printed(found))
        self.assertEqual([line[6] for line in lines], ["base", f"2.50 [{low:.2f}, {high:.2f}]", lines[2][6]])
        self.assertTrue(lines[2][6].startswith("2.15 ["), lines[2])
        (ours,) = page.row_tables(found)
        self.assertEqual([cell.text for cell in list(zip(*ours.rows))[6]], ["base", "2.50", "2.15"])
        for row in found:
            row["samples"]["seconds"] = [row["samples"]["seconds"][0] * share for share in (0.99, 1.0, 1.01)]
        self.assertEqual(compare.compare_rows(found, copies(found)).ratios, 6)  # three of each that is no base

    def test_the_ablation_has_one_line_of_what_was_measured_once(self):
        """Speeds as above; scores: 0.5 over 0.4, 0.5, 0.6 differ by 0.1, 0 and -0.1, whose mean is 0."""
        lines = ablation.paired_comparison(self.mixed(), base="base")
        once = [line for line in lines if line["setting"].startswith("greedy")]
        self.assertEqual([(line["setting"], line["base"]) for line in once], [("greedy seed=any", "base, 3 seeds")])
        self.assertAlmostEqual(once[0]["speed"].value, 2.5)
        self.assertAlmostEqual(once[0]["score"].value, 0.0)
        half = stats.t.ppf(0.975, 2) * 0.1 / math.sqrt(3)
        for ours, theirs in zip(once[0]["score"].range, (-half, half)):
            self.assertAlmostEqual(ours, theirs)
        self.assertEqual((once[0]["speed"].n, once[0]["speed_verdict"]), (3, "FASTER"))
        ratios = [line["speed"].value for line in lines if line["setting"].startswith("fast")]
        self.assertEqual([round(value, 9) for value in ratios], [2, 2, 2.5])
        # With the greedy one as the base each seed is over it: 100, 125 and 80 of 250.
        lines = ablation.paired_comparison(self.mixed(), base="greedy seed=any")
        self.assertEqual([round(line["speed"].value, 9) for line in lines if line["setting"].startswith("base")],
                         [0.4, 0.5, 0.32])

    def test_any_seed_is_no_level_of_a_factor(self):
        """Two factors of one label; at temperature 0 nothing reads the seed. Its rows are beside those of each seed."""
        found = []
        for steps, cost in ((1, 1.0), (2, 2.0)):
            found.append(row_of("m", [cost, cost * 1.1], variation=f"steps={steps} temperature=0 seed=any",
                                point_id=f"{steps}/0"))
            found += [row_of("m", [cost * 1.5, cost * 1.65], seed=seed, point_id=f"{steps}/1/{seed}",
                             variation=f"steps={steps} temperature=1 seed={seed}") for seed in (0, 1)]
        effects = ablation.main_effects(found)
        self.assertEqual({(e["factor"], e["level"], e["settings"]) for e in effects},
                         {("steps", "2", 2), ("temperature", "1", 2)})
        for e in effects:
            self.assertAlmostEqual(e["speed"].value, {"steps": 1 / 2, "temperature": 1 / 1.5}[e["factor"]])

    def test_other_settings_and_doubled_seeds_stay_apart(self):
        first = of_seed("base", 0, 0.4, 1.0)
        others = [first | {"point_id": "x", "gen_length": 7},
                  first | {"point_id": "y", "model": first["model"] | {"hash": "n"}}]
        table = layout.lay_out_columns(self.rows[:3] + others, ["score"])
        self.assertEqual(len(table.rows), 3)
        doubled = self.rows[:3] + [of_seed("base", 0, 0.4, 1.0) | {"point_id": "z"}]
        self.assertEqual(len(layout.lay_out_columns(doubled, ["score"]).rows), 4)


class Edited(unittest.TestCase):
    """Two settings under one name, as a rule before and after an edit."""

    def setUp(self):
        codes = {"first": "a1" * 32, "second": "b2" * 32}
        self.rows = [row_of("rising", [seconds], task=task, params={"code": codes[which], "rises": 2}, method="rising",
                            point_id=f"{task}/{which}")
                     for task in ("word_problem", "equation") for which, seconds in (("first", 1.0), ("second", 0.5))]

    def test_both_tables_tell_them_apart_and_no_mean_takes_them_together(self):
        names = ["rising code=a1a1a1a1", "rising code=b2b2b2b2"]
        told = [line[1].strip("*") for line in lines_of(printed(self.rows))]  # tasks, then means
        self.assertEqual(told, names * 2 + names)
        (ours,) = page.row_tables(self.rows)
        self.assertEqual([line[1].text for line in ours.rows][:4], names * 2)
        table = layout.lay_out_columns(self.rows, ["score"])
        self.assertEqual([row.keys[1] for row in table.rows], names * 2)

    def test_only_what_differs_is_named_and_one_setting_keeps_its_name(self):
        one = self.rows[::2]
        self.assertEqual([line[1].strip("*") for line in lines_of(printed(one))], ["rising"] * 3)
        other = [self.rows[0], {**self.rows[1], "params": {"code": "a1" * 32, "rises": 3}}]
        self.assertEqual([line[1] for line in lines_of(printed(other))], ["rising rises=2", "rising rises=3"])
        missing = [self.rows[0], {**self.rows[1], "params": {"code": "a1" * 32}}]
        self.assertEqual([row.keys[1] for row in layout.lay_out_columns(missing, ["score"]).rows],
                         ["rising rises=2", "rising rises=absent"])

    def test_names_of_pictures_have_the_short_hash(self):
        name = apart.told_apart(self.rows, lambda row: row["label"], lambda row: row["workload"]["family"])
        self.assertEqual([name(row) for row in self.rows[:2]], ["rising code=a1a1a1a1", "rising code=b2b2b2b2"])


class Machines(unittest.TestCase):
    def setUp(self):
        first, second = row_of("base", [1.0]), row_of("fast", [0.5])
        self.rows = [first, second]
        for row in (first, second):
            other = json.loads(json.dumps(row))
            other["environment"]["cpu_model"] = "B"
            other["samples"]["seconds"] = [value / 3 for value in row["samples"]["seconds"]]
            other["metrics"]["tokens_per_second"] *= 3
            self.rows.append(other)

    def test_rows_of_two_machines_are_two_lines(self):
        self.assertEqual(len(rows.latest(self.rows)), 4)
        self.assertEqual(len(rows.latest(self.rows + self.rows[:1])), 4)
        text = printed(self.rows)
        lines = lines_of(text)
        self.assertEqual([line[1] for line in lines], ["A", "A", "B", "B"])
        # A speed-up never crosses machines: both are 2, not 6 or 0.67.
        self.assertEqual([line[7] for line in lines], ["base", "2.00", "base", "2.00"])
        (ours,) = page.row_tables(rows.latest(self.rows))
        self.assertEqual([header for header, _ in ours.columns][1], "machine")
        self.assertEqual([[cell.text for cell in row][7] for row in ours.rows], ["base", "2.00", "base", "2.00"])
        table = layout.lay_out_columns(self.rows, ["speedup"])
        self.assertEqual([round(row.cells[0].measured, 9) for row in table.rows], [1, 2, 1, 2])
        self.assertEqual([row.keys[0] for row in table.rows], ["word_problem, A"] * 2 + ["word_problem, B"] * 2)
        compared = ablation.paired_comparison(self.rows, base="base")
        self.assertEqual([round(line["speed"].value, 9) for line in compared], [2, 2])

    def test_one_machine_has_no_column(self):
        self.assertNotIn("machine", printed(self.rows[:2]))


class Kinds(unittest.TestCase):
    def test_a_likelihood_is_in_no_mean(self):
        found = []
        for at, (task, mean) in enumerate((("word_problem", 0.9), ("needle", 0.5), ("story", 0.1))):
            row = row_of("a", [1.0], task=task, score=score(mean), position=at)
            if task == "story":
                row["workload"]["judge"] = "tiny-ar"
            found.append(row)
        mean = lines_of(printed(found))[-1]
        self.assertEqual((mean[2], mean[4], mean[5]), ("**mean of 2 tasks**", "70.0", ""))
        self.assertNotIn("mean of", printed([found[0], found[2]]).split("\n\n")[0])
        table = layout.lay_out(layout.Layout(columns=[layout.Column("score", factor=100)]), found)
        self.assertAlmostEqual(table.rows[0].cells[0].measured, 70.0)


class Once(unittest.TestCase):
    def test_a_speed_that_was_measured_once_says_so_and_is_never_the_best(self):
        found = [row_of("slow", [1.0, 1.1, 0.9]), row_of("fast", [0.1])]
        self.assertEqual([line[5].endswith("(one pass)") for line in lines_of(printed(found))], [False, True])
        (of_page,) = page.row_tables(found)
        self.assertEqual([row[5].text.endswith("(one pass)") for row in of_page.rows], [False, True])
        table = layout.lay_out_columns(found, ["tokens_per_second"])
        self.assertEqual([row.cells[0].bold for row in table.rows], [False, False])


class Undecided(unittest.TestCase):
    def setUp(self):
        # 20 answers: 10 right, 10 that nobody can judge. Wilson by hand: of 10 of 20 the lower end is
        # (0.5 + 0.0960 - 1.96 sqrt(0.0125 + 0.0024)) / 1.1921 = 0.299; of 20 of 20 the upper one is 1.
        half = score(1.0, undecided=10)
        items = {"id": [str(i) for i in range(20)], "score": [1] * 10 + [None] * 10,
                 "exact": [True] * 10 + [False] * 10, "output_tokens": [1] * 20, "seconds": [[1.0]] * 20,
                 "answer_hash": ["x"] * 20}
        whole = {**items, "score": [1] * 20, "exact": [True] * 20}
        self.half = row_of("half", [1.0], score=half, items=items)
        self.whole = row_of("whole", [1.0], score=score(1.0, 20), items=whole)

    def test_they_stay_in_the_denominator_of_every_table(self):
        e = estimates.estimate(self.half, "score")
        self.assertEqual((round(e.value, 9), round(e.low, 3), e.high, e.n), (0.5, 0.299, 1.0, 20))
        text = printed([self.half])
        self.assertEqual(lines_of(text)[0][4], "50.0 [30, 100]")
        self.assertIn("10 of 20 of half, word_problem", text)
        (of_page,) = page.row_tables([self.half])
        self.assertEqual([cell.text for cell in of_page.rows[0]][4], "50.0")
        self.assertIn("10 of 20 of half", "".join(of_page.notes))
        laid = layout.lay_out_columns([self.half], ["score"])
        self.assertAlmostEqual(laid.rows[0].cells[0].measured, 50.0)
        self.assertIn("10 of 20 of half", "".join(laid.footnotes))
        csv = printed([self.half], "--format", "csv").splitlines()
        shown = dict(zip(csv[0].split(","), csv[1].split(",")))
        self.assertEqual([float(shown[k]) for k in ("score", "score_n", "score_undecided")], [0.5, 20, 10])
        self.half["metrics"] |= {"nfe": 10, "output_tokens": 10}
        (curve,) = parallelism.curves([self.half])
        self.assertEqual(curve["points"][0][1], 50.0)
        for text in (parallelism.report([self.half], "md"),
                     ablation.paired_report([self.whole, self.half], (0.02, 0.02), "whole", "md")):
            self.assertIn("10 of 20 of half", text)

    def test_differences_and_mcnemar_treat_them_alike(self):
        (line,) = ablation.paired_comparison([self.whole, self.half], base="whole")
        # 10 of 20 items only the base got right: exact two-sided p is 2 / 2^10.
        self.assertAlmostEqual(line["mcnemar_p"], 2 / 1024)
        self.assertAlmostEqual(line["score"].value, -0.5)
        self.assertLess(line["score"].low, -0.5)
        self.assertGreater(line["score"].high, 0.0)  # were all of them right, the two would be equal
        del self.half["items"]
        e = estimates.score_difference(self.half, self.whole)
        self.assertAlmostEqual(e.value, -0.5)
        self.assertGreater(e.high, 0.0)


if __name__ == "__main__":
    unittest.main()
