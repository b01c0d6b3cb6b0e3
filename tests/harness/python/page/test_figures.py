# SPDX-License-Identifier: Apache-2.0
"""What figures and the page show of rows."""

import json
import os
import tempfile
import unittest

from made import row_of
from scipy import stats

from unmask.page import figures, page
from unmask.rows.errors import EnvironmentFault, UserError


def answered(label, seconds, right, task="word_problem", **more):
    """100 tokens in so many seconds, so many of 10 items right."""
    row = row_of(label, [seconds, seconds], 1, task, **more)
    row["score"].update(mean=right / 10, n=10)
    return row


class Data(unittest.TestCase):
    def test_the_front_keeps_what_nothing_beats(self):
        data = figures.figure_data([answered("slow good", 10, 9), answered("fast bad", 1, 1),
                                    answered("beaten", 10, 8), answered("mid", 2, 5),
                                    answered("same", 2, 5), answered("worse", 3, 5)])
        front = [p["series"] for p in data["pooled"] if p["front"]]
        self.assertEqual(front, ["slow good", "fast bad", "mid", "same"])

    def test_methods_are_pooled_over_tasks(self):
        data = figures.figure_data([answered("a", 1, 4), answered("a", 3, 8, "needle")])
        (pooled,) = data["pooled"]
        self.assertEqual((pooled["tasks"], pooled["of"]), (["word_problem", "needle"], 2))
        self.assertAlmostEqual(pooled["tokens_per_second"], 50)  # 200 tokens in 4 s
        self.assertAlmostEqual(pooled["score"], 0.6)
        self.assertEqual(pooled["n"], 20)
        self.assertEqual([p["tasks"] for p in data["by_task"]], [["word_problem"], ["needle"]])

    def test_an_undecided_answer_stays_in_the_denominator(self):
        """Ten of ten right and ten undecided: 0.5 of 20, between 10 and 20 right; nothing decided: 0 of 10, up to 10."""
        half, none = answered("half", 1, 10), answered("none", 1, 0)
        half["score"].update(exact=10, undecided=10)
        none["score"].update(mean=0, exact=0, n=0, undecided=10)
        low = stats.binomtest(10, 20).proportion_ci(method="wilson").low
        high = [stats.binomtest(n, n).proportion_ci(method="wilson").high for n in (20, 10)]
        data = figures.figure_data([half, none])
        for marks in (data["pooled"], data["by_task"]):
            self.assertEqual([(p["series"], p["score"], p["n"]) for p in marks], [("half", 0.5, 20), ("none", 0.0, 10)])
            self.assertAlmostEqual(marks[0]["interval"][0], low)
            self.assertAlmostEqual(marks[0]["interval"][1], high[0])
            self.assertEqual(marks[1]["interval"][0], 0)
            self.assertAlmostEqual(marks[1]["interval"][1], high[1])
        self.assertEqual([(r["score"]["mean"], r["score"]["n"]) for r in data["rows"]], [(0.5, 20), (0.0, 10)])

    def pooled(self, rows, *keys):
        return sorted(tuple(p[key] for key in keys) for p in figures.figure_data(rows)["pooled"])

    def test_methods_of_other_tasks_are_in_no_mean_together(self):
        """On the task that both have b is slower and right more often; over all rows of each it would be faster."""
        rows = [answered("a", 1, 4), answered("a", 10, 8, "needle"), answered("a", 10, 8, "summary"),
                answered("b", 2, 9)]
        found = self.pooled(rows, "tasks", "series", "tokens_per_second", "score", "of")
        # 100 tokens in 1 s and in 2 s; 200 tokens in 20 s.
        self.assertEqual(found, [(["needle", "summary"], "a", 10.0, 0.8, 3),
                                 (["word_problem"], "a", 100.0, 0.4, 3), (["word_problem"], "b", 50.0, 0.9, 3)])

    def test_likelihoods_and_right_answers_are_in_no_mean_together(self):
        rows = [answered("a", 1, 9), answered("a", 1, 3, "story"), answered("a", 1, 5, "needle")]
        rows[1]["workload"]["judge"] = "judge-11m"
        found = self.pooled(rows, "likelihood", "tasks", "score", "n")
        self.assertEqual(found, [(False, ["word_problem", "needle"], 0.7, 20), (True, ["story"], 0.3, 10)])
        rows = [answered("a", 1, right, task, variation=f"ratio={v}", point_id=f"{task}{v}")
                for v in (1, 2, 3) for task, right in (("word_problem", 9), ("story", 3))]
        for row in rows[1::2]:
            row["workload"]["judge"] = "judge-11m"
        self.assertEqual([(s["likelihood"], [p["score"] for p in s["lines"][0]["points"]])
                          for s in figures.figure_data(rows)["sweeps"]], [(False, [0.9] * 3), (True, [0.3] * 3)])

    def test_what_differs_in_machine_program_or_seed_is_never_one_mark(self):
        for change, said in (({"environment": {"cpu_model": "B"}}, "machine=B"), ({"source_hash": "e" * 40}, "program=eeeeeeee"),
                             ({"seed": 7}, "seed=7"), ({"gen_length": 9}, "gen_length=9")):
            rows = [answered("a", 1, 4, variation=f"ratio={v}", point_id=str(v)) for v in (1, 2, 3)]
            rows += [{**answered("a", 4, 8, variation=f"ratio={v}", point_id=str(v)), **change} for v in (1, 2, 3)]
            data = figures.figure_data(rows)
            self.assertEqual(sorted(p["tokens_per_second"] for p in data["pooled"]), [25] * 3 + [100] * 3)
            self.assertEqual(sum(said in p["series"] for p in data["pooled"]), 3, said)
            (curve, other) = data["parallelism"] or ([], [])
            self.assertEqual([len(c["points"]) for c in (curve, other) if c], [3, 3] if curve else [])
            for sweep in data["sweeps"]:
                self.assertEqual(len(sweep["lines"]), 2, said)
                for line in sweep["lines"]:
                    self.assertEqual([len(p["rows"]) for p in line["points"]], [1, 1, 1])
            self.assertEqual(sorted(sum((p["rows"] for p in data["pooled"]), [])), list(range(6)))

    def test_a_number_in_a_label_is_an_axis(self):
        rows = [answered(f"{way}, K = {k}", 1, k, point_id=f"{way}{k}") for way in ("Top", "Random") for k in (2, 4, 8)]
        (sweep,) = figures.figure_data(rows)["sweeps"]
        self.assertEqual((sweep["axis"], [line["name"] for line in sweep["lines"]]), ("K", ["Top", "Random"]))
        self.assertEqual([(p["x"], p["score"]) for p in sweep["lines"][1]["points"]], [(2, 0.2), (4, 0.4), (8, 0.8)])

    def test_values_of_a_sweep_are_named_by_what_tells_them_apart(self):
        costs = ("1:61 32:72.59 512:72.59 2048:237.9", "1:67 32:79.73 512:79.73 2048:261.3")
        rows = [row_of("m", [1.0, 1.0], variation=f"cost={cost} policy=iter", point_id=cost) for cost in costs]
        self.assertEqual([r["parts"] for r in figures.figure_data(rows)["rows"]],
                         [[("cost", "1:61…"), ("policy", "iter")], [("cost", "1:67…"), ("policy", "iter")]])

    def test_a_sweep_takes_three_values_with_all_else_equal(self):
        rows = [answered("sparse", 1, 5, variation=f"kernel=3 ratio={v}", point_id=str(v))
                for v in (0.1, 0.5, 0.9)]
        self.assertEqual(figures.figure_data(rows[:2])["sweeps"], [])
        rows.append(answered("dense", 1, 5, variation="kernel=3 ratio=0.5", point_id="dense"))
        (sweep,) = figures.figure_data(rows)["sweeps"]
        self.assertEqual((sweep["axis"], [line["name"] for line in sweep["lines"]]),
                         ("ratio", ["sparse", "dense"]))  # one beside it stays in the figure
        self.assertEqual([p["x"] for p in sweep["lines"][0]["points"]], [0.1, 0.5, 0.9])

    def test_how_much_was_measured_names_no_series(self):
        rows = [row_of("m", [1.0, 1.1], batch, variation=f"batch_size={batch} limit={limit}")
                for batch, limit in ((1, 32), (8, 32), (64, 64))]
        data = figures.figure_data(rows)["rows"]
        self.assertEqual([r["name"] for r in data], [f"m batch_size={b}" for b in (1, 8, 64)])
        self.assertEqual([r["parts"] for r in data], [[("batch_size", b)] for b in ("1", "8", "64")])

    def test_rows_that_may_not_be_reported_are_in_no_figure(self):
        data = figures.figure_data([answered("a", 1, 5), answered("b", 1, 5, verdict="INVALID")])
        self.assertEqual([r["reportable"] for r in data["rows"]], [True, False])
        self.assertEqual([p["series"] for p in data["pooled"]], ["a"])


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def data(self):
        return page.page_data(self.folder, os.path.join(self.folder, "experiments"))

    def test_a_section_for_each_file_of_rows_with_tables_claims_and_the_campaign(self):
        rows = [row_of("slow", [2.0, 2.0]), row_of("fast", [1.0, 1.0], position=1)]
        self.write("focus/table_5/tiny/rows.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
        self.write("focus/table_5/tiny/run.json", json.dumps(
            {"paper": "focus", "artifact": "table_5", "scale": "tiny", "set": ["run.seed=1"],
             "experiment": {"file": "elsewhere/table_5.toml"}}))
        self.write("claims.json", json.dumps([{"id": "c", "statement": "s", "verdict": "PARTLY"}]))
        self.write("campaign.jsonl", "".join(json.dumps(line) + "\n" for line in (
            {"paper": "focus", "id": "table_5", "scale": "tiny", "status": "FAILED", "rows": 1, "seconds": 30},
            {"paper": "focus", "id": "table_5", "scale": "tiny", "status": "measured", "rows": 2, "seconds": 12})))
        data = self.data()
        (section,) = data["sections"]
        self.assertEqual(section["command"], "unmask run elsewhere/table_5.toml --scale tiny "
                                             "--set run.seed=1")
        self.assertEqual(section["heading"], "focus table 5: Made (tiny)")
        cells = [[c["text"] for c in row] for row in section["tables"][0]["rows"]]
        self.assertEqual(cells[0][:7], ["tiny", "slow", "word_problem", "10", "50.0",
                                        "50.0 ± 0.0 %", "base"])
        self.assertEqual(cells[1][6], "2.00")
        self.assertEqual([c["tone"] for c in data["claims"]], ["mid"])
        self.assertEqual([c["text"] for c in data["campaign"]["rows"][0]],
                         ["focus", "table_5", "tiny", "measured", "2", "42 s", ""])

    def test_what_is_wrong_is_said(self):
        with self.assertRaisesRegex(EnvironmentFault, "holds no results"):
            self.data()
        with self.assertRaisesRegex(EnvironmentFault, "none does not exist"):
            page.page_data(os.path.join(self.folder, "none"), "")
        self.write("rows.jsonl", json.dumps(row_of("a", [1.0])) + "\n")
        for text, says in (("{", "not JSON"), ("{}", "a list of objects"),
                           ('[{"id": "x", "statement": "s"}]', "claim number 1 has no `verdict`")):
            self.write("claims.json", text)
            with self.assertRaisesRegex(UserError, says):
                self.data()


if __name__ == "__main__":
    unittest.main()
