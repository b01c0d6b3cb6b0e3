# SPDX-License-Identifier: Apache-2.0
"""Rows of two programs or machines: no ratio of their speeds has an interval, in any table or claim."""

import unittest

from made import copies, row_of
from made_claims import FASTER, Made, scored

from unmask.page import page
from unmask.rows import estimates
from unmask.rows.comparable import comparable
from unmask.tables import ablation, crossover, layout, tables

# What keeps the second row apart from the first, by the words that must name it.
CHANGES = {
    "cpu_model": lambda row: row["environment"].update(cpu_model="B"),
    "omp_threads": lambda row: row["environment"].update(omp_threads=1),
    "governor": lambda row: row["environment"].update(governor="powersave"),
    "gpus": lambda row: row["environment"].update(gpus=[{"name": "another"}]),
    "source_hash": lambda row: row.update(source_hash="0" * 40),
}


def pair():
    rows = [row_of("slow", [2.0, 2.02, 1.98]), row_of("fast", [1.0, 1.01, 0.99], position=1)]
    for row in rows:
        row["environment"].update(omp_threads=2, governor="performance", gpus=[{"name": "one"}])
    return rows


class Comparable(unittest.TestCase):
    def test_what_keeps_rows_apart_is_named(self):
        self.assertEqual(comparable(*pair()), "")
        for name, change in CHANGES.items():
            rows = pair()
            change(rows[1])
            self.assertEqual(comparable(*rows), name)
            self.assertEqual(comparable(rows[1], rows[0]), name)

    def test_ranks_that_are_connected_otherwise_keep_rows_apart(self):
        rows = pair()
        rows[1]["topology"] = {"hosts": 1, "transport": "TCP"}
        self.assertEqual(comparable(*rows), "")  # a row of one rank says nothing of it
        rows[0]["topology"] = {"hosts": 1, "transport": "shared memory"}
        self.assertEqual(comparable(*rows), "topology")
        rows[0]["topology"] = {"hosts": 2, "transport": "TCP"}
        self.assertEqual(comparable(*rows), "topology")
        rows[0]["topology"] = dict(rows[1]["topology"])
        self.assertEqual(comparable(*rows), "")

    def test_how_busy_and_warm_a_machine_is_keeps_nothing_apart(self):
        rows = pair()
        rows[1]["environment"].update(load_average=[9, 9, 9], memory_available_bytes=1, notes=["one"],
                                      other_work=0.5, unfit=["the load is 9"], nsys="/usr/bin/nsys",
                                      gpus=[{"name": "one", "temperature_c": 80, "sm_clock_mhz": 900}])
        self.assertEqual(comparable(*rows), "")

    def test_a_row_of_another_program_is_there_to_be_compared_with(self):
        rows = pair()
        rows[1].update(source_hash="", measured_by="PyTorch 2",
                       environment={"cpu_model": "A", "gpus": ["one"], "python": "3.11"})
        self.assertEqual(comparable(*rows), "")
        rows[1]["environment"]["cpu_model"] = "B"
        self.assertEqual(comparable(*rows), "cpu_model")

    def test_a_ratio_of_times_has_no_interval_and_one_of_counts_is_as_ever(self):
        rows = pair()
        CHANGES["cpu_model"](rows[1])
        speed = estimates.ratio(rows[1], rows[0], "tokens_per_second")
        self.assertAlmostEqual(speed.value, 2, places=3)
        self.assertEqual(speed.range, None)
        self.assertIn("cpu_model", speed.how)
        counts = estimates.ratio(rows[1], rows[0], "redundancy")
        self.assertEqual(counts.range, (1, 1))


class Tables(unittest.TestCase):
    def texts(self, rows):
        lines = ablation.paired_comparison(rows, base="slow")
        yield "columns", tables.render(layout.table_of(layout.lay_out_columns(
            rows, ["tokens_per_second", "speedup"])), "md")
        yield "paired", tables.render(ablation.paired_tables(lines, [], (0.02, 0.02)), "md")
        yield "crossover", tables.render(crossover.crossover_table(
            crossover.crossover_cells(rows, "slow")), "md")
        yield "page", tables.render(page._decode_table(rows), "md")

    def test_every_table_says_what_differs_and_gives_no_interval(self):
        rows = pair()
        for name, text in self.texts(copies(rows)):
            self.assertIn("2.0", text, name)
            self.assertNotIn("not of one program and machine", text, name)
        CHANGES["source_hash"](rows[1])
        CHANGES["omp_threads"](rows[1])
        for name, text in self.texts(rows):
            said = [line for line in text.split("\n") if "not of one program and machine" in line]
            self.assertEqual(len(said), 1, name)
            self.assertIn("omp_threads, source_hash", said[0], name)
            self.assertNotIn("FASTER |", text, name)
            self.assertNotIn("fast wins", text, name)
            self.assertNotRegex(text, r"2\.00? \[", name)


class Claims(Made):
    def test_a_claim_about_two_machines_is_open_and_says_so(self):
        rows = [scored("slow", 8, 10, [2.0, 2.02, 1.98]), scored("fast", 8, 10, [1.0, 1.01, 0.99], position=1)]
        self.assertNotEqual(self.judged(FASTER, rows).verdict, "OPEN")
        CHANGES["cpu_model"](rows[1])
        result = self.judged(FASTER, rows)
        self.assertEqual(result.verdict, "OPEN")
        self.assertIn("of rows of two programs or machines (cpu_model)", result.reason)


if __name__ == "__main__":
    unittest.main()
