# SPDX-License-Identifier: Apache-2.0
"""What the program and the package both compute, because the program's own table needs no Python, is the same
on measured rows: order and names of rows, speeds, speedups with their intervals, scores with theirs."""

import glob
import math
import os
import re
import subprocess
import unittest

import made  # noqa: F401  (puts the package on the path)

from unmask.page import page
from unmask.rows import estimates, intervals, rows

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../..")
MEASURED = os.path.join(ROOT, "results", "epyc-2core")
FIXTURES = os.path.join(ROOT, "tests/plots/data")
QUICKSTART = os.path.join(MEASURED, "quickstart.jsonl")


def tables_of(path, *arguments):
    """The Markdown tables that `unmask table` prints, each as its lines by the words of its header."""
    done = subprocess.run([os.environ["UNMASK_PROGRAM"], "table", path, *arguments], capture_output=True, text=True,
                          check=True)
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", done.stdout, re.MULTILINE):
        header, _, *body = [[cell.strip().replace("*", "") for cell in line.strip("|").split("|")]
                            for line in block.splitlines()]
        found.append([dict(zip(header, cells)) for cells in body])
    return found


def table_of(*arguments):
    return tables_of(QUICKSTART, *arguments)[0]


def shown_on_the_page(path):
    """The plain tables of the page in the same form."""
    return [[{header: cell.text + (f" [{cell.range}]" if cell.range else "")
              for (header, _), cell in zip(table.columns, cells)} for cells in table.rows]
            for table in page.row_tables(rows.read_latest(path))]


class BothSides(unittest.TestCase):
    def test_the_plain_table_shows_what_the_package_computes(self):
        lines = table_of()
        plain = [line for line in lines if not line["task"].startswith("mean of")]
        arranged = table_of("--columns", "score,tokens_per_second,speedup")
        self.assertGreater(len(plain), 10)
        self.assertEqual(len(plain), len(arranged))
        for ours, theirs in zip(plain, arranged):
            with self.subTest(ours["method"]):
                self.assertEqual(theirs["method"], f"{ours['model']}, {ours['task']} "
                                                   + ours["method"].removesuffix(" (block32)"))  # its preset
                self.assertEqual(theirs["speedup"], ours["speedup"].replace("base", "1.00"))
                self.assertEqual(theirs["tokens/s"].split()[0], ours["tokens/s"].split()[0])
                percent = [float(number) for number in re.findall(r"[\d.]+", ours["score, %"])]
                for shown, exact in zip(percent, re.findall(r"[\d.]+", theirs["score, %"])):
                    self.assertLessEqual(abs(shown - float(exact)), 0.55)  # whole percents of tenths
        self.assertGreater(sum("[" in line["speedup"] for line in plain), 5)
        # One of its two tasks has no right answers: nothing is averaged.
        self.assertEqual(plain, lines)

    def test_the_page_shows_the_plain_tables(self):
        """The page has no means, which are no rows, names no preset, marks no speed that is badly known, and gives
        reasons in full instead of as footnotes."""
        kinds, compared = set(), 0
        for path in sorted(glob.glob(os.path.join(MEASURED, "*.jsonl")) + glob.glob(f"{FIXTURES}/*.jsonl")):
            if os.path.basename(path) == "peers.jsonl":  # times of other programs, no rows
                continue
            printed, page_has = tables_of(path), shown_on_the_page(path)
            self.assertEqual(len(printed), len(page_has), path)
            presets = {row["preset"] for row in rows.read_latest(path)} - {""}
            for ours, theirs in zip(printed, page_has):
                ours = [line for line in ours if not line.get("task", "").startswith("mean of")]
                self.assertEqual(len(ours), len(theirs), path)
                for a, b in zip(ours, theirs):
                    self.assertEqual(list(a), list(b))
                    for preset in presets:
                        a["method"] = a["method"].replace(f" ({preset})", "")
                    a = {name: cell.removesuffix(" !") for name, cell in a.items()}
                    a["verdict"], b["verdict"] = (re.split(r"[ :]", line["verdict"])[0] for line in (a, b))
                    with self.subTest(path=os.path.basename(path), method=a["method"]):
                        self.assertEqual(a, b)
                    compared += 1
                kinds.add("task" if "task" in theirs[0] else "workload")
        self.assertEqual(kinds, {"task", "workload"})
        self.assertGreater(compared, 100)

    def test_the_interval_of_a_rows_score_is_the_packages(self):
        compared = 0
        for path in glob.glob(os.path.join(MEASURED, "*.jsonl")):
            for row in rows.read_latest(path):
                score = row.get("score") or {}
                if "ci95" not in score:
                    continue
                # Where full marks do not add up to the mean there are graded scores, of which Wilson says nothing: older
                # rows have his interval, which is not shown, and newer ones that of the items.
                graded = abs(score["mean"] * score["n"] - score["exact"]) > 1e-3
                shown, wilson = estimates.estimate(row, "score"), intervals.wilson(score["mean"] * score["n"], score["n"])
                if graded and row["finished_at"] >= "2026-11-29T12":
                    self.assertEqual([shown.low, shown.high], score["ci95"])
                    # Student's t is about the mean, cut at 0 and 1, and Wilson's nearer to a half. Scores from 0 to 1
                    # cannot spread more than right and wrong ones of the same mean.
                    half = max(score["mean"] - shown.low, shown.high - score["mean"])
                    self.assertAlmostEqual(shown.low, max(0, score["mean"] - half), places=9)
                    self.assertAlmostEqual(shown.high, min(1, score["mean"] + half), places=9)
                    most = math.sqrt(score["mean"] * (1 - score["mean"]) / (score["n"] - 1))
                    self.assertLess(half, intervals.t_quantile(score["n"] - 1) * most)
                else:
                    self.assertEqual(shown.low is None, graded)
                    for ours, theirs in zip(wilson, score["ci95"]):
                        self.assertAlmostEqual(ours, theirs, places=9)
                compared += 1
        self.assertGreater(compared, 20)


if __name__ == "__main__":
    unittest.main()
