# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Reports of Nsight read back into phases, and two traces compared by the saved queries. The reports
are made here, in the layout that nsys exports and ncu prints: no tool and no GPU is needed."""

import contextlib
import io
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "plots"))
import nsight  # noqa: E402
import trace_compare  # noqa: E402

ROW = {"model": {"name": "m"}, "label": "focus", "probes": {}}


class Workspace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.rows = self.path("rows.jsonl")
        with open(self.rows, "w", encoding="utf-8") as out:
            out.write(json.dumps(ROW) + "\n")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def read(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            code = nsight.main([self.rows, *arguments, "-o", self.path("out.jsonl")])
        if code != 0:
            return code, said.getvalue()
        with open(self.path("out.jsonl"), encoding="utf-8") as text:
            return code, json.loads(text.read().strip().split("\n")[-1])["probes"]["phases"]


class Nsys(Workspace):
    def report(self, kernels, domain="unmask"):
        """Ranges on thread 7: step [0, 100) holds attention [10, 30) and lm_head [40, 60). Another
        library's range covers everything. `kernels`: (name, begin, end, correlation)."""
        path = self.path("nsys.sqlite")
        database = sqlite3.connect(path)
        strings = ["unmask", "step", "attention", "lm_head", "other", "noise"]
        strings += sorted({k[0] for k in kernels})
        database.executescript(
            "CREATE TABLE StringIds (id INTEGER, value TEXT);"
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,"
            " globalTid INTEGER, textId INTEGER, domainId INTEGER);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER,"
            " globalTid INTEGER, correlationId INTEGER);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER,"
            " correlationId INTEGER, demangledName INTEGER);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER,"
            " correlationId INTEGER);")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate(strings)))
        add = database.execute
        for number, name in ((1, domain), (2, "other")):
            add("INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, ?, 7, NULL, ?)", (name, number))
        for begin, end, name, of in ((0, 100, "step", 1), (10, 30, "attention", 1),
                                     (40, 60, "lm_head", 1), (0, 100, "noise", 2)):
            add("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, 7, ?, ?)",
                (begin, end, strings.index(name), of))
        # Calls are made in time 12, 45, 70 and 200: attention, lm_head, step, nothing.
        for correlation, begin in ((1, 12), (2, 45), (3, 70), (4, 200)):
            add("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 7, ?)",
                (begin, begin + 2, correlation))
        for name, begin, end, correlation in kernels:
            add("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?)",
                (begin, end, correlation, strings.index(name)))
        add("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (900, 1000, 2)")
        database.commit()
        database.close()
        return path

    def test_kernels_go_to_the_phase_that_launched_them_however_late_they_run(self):
        path = self.report([("flash", 1000, 3000, 1), ("flash", 4000, 5000, 1),
                            ("argmax", 2000, 2500, 2), ("stray", 6000, 6100, 3)])
        code, report = self.read("--nsys", path)
        self.assertEqual(code, 0, report)
        self.assertEqual(report["provenance"]["time"], "nsys")
        seconds = {p["phase"]: p["device_seconds"] for p in report["phases"]}
        self.assertAlmostEqual(seconds["attention"], 3000e-9)
        self.assertAlmostEqual(seconds["lm_head"], 600e-9)  # the copy too
        self.assertAlmostEqual(seconds["step"], 100e-9)
        flash = next(k for k in report["kernels"] if k["kernel"] == "flash")
        self.assertEqual((flash["launches"], flash["phase"]), (2, "attention"))
        self.assertAlmostEqual(flash["longest"], 2000e-9)
        # Overlapping kernels are busy once: 900..3000, 4000..5000, 6000..6100.
        self.assertAlmostEqual(report["device_busy"], 3200e-9)
        self.assertAlmostEqual(report["device_span"], 5200e-9)
        self.assertIsNone(report["kernels_problem"])

    def test_what_lies_outside_is_said_and_what_is_not_there_ends_it(self):
        code, report = self.read("--nsys", self.report([("late", 0, 1000, 4), ("flash", 0, 10, 1)]))
        self.assertEqual(code, 0)
        self.assertIn("outside every phase", report["kernels_problem"])
        os.remove(self.path("nsys.sqlite"))
        code, said = self.read("--nsys", self.report([("flash", 0, 10, 1)], domain="other app"))
        self.assertEqual(code, 0, said)  # no domain of that name: ranges of all
        with open(self.path("torn.sqlite"), "w", encoding="utf-8") as out:
            out.write("no database at all, but long enough to be one" * 10)
        code, said = self.read("--nsys", self.path("torn.sqlite"))
        self.assertEqual(code, 1)
        self.assertIn("nsys export", said)

    def test_the_program_shows_the_row(self):
        program = os.environ.get("UNMASK_PROGRAM")
        if not program:
            self.skipTest("needs UNMASK_PROGRAM")
        done = subprocess.run([program, "profile", "experiments/models/tiny-sdar", "-m", "focus",
                               "--limit", "1", "-o", self.path("p")], cwd=ROOT, check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.rows = os.path.join(self.path("p"), "rows.jsonl")
        self.read("--nsys", self.report([("flash", 1000, 3000, 1)]))
        done = subprocess.run([program, "table", self.path("out.jsonl"), "--view", "phases"],
                              cwd=ROOT, check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("attention", done.stdout)


    def test_the_recipe_writes_the_rows_of_many_reports(self):
        sys.path.insert(0, os.path.join(ROOT, "plots", "nsys_recipe", "unmask_phases"))
        import unmask_phases  # pylint: disable=import-outside-toplevel
        rows = unmask_phases.rows_of_report(self.report([("flash", 1000, 3000, 1)]))
        unmask_phases.write_rows(rows, self.path("phases.csv"))
        with open(self.path("phases.csv"), encoding="utf-8") as text:
            lines = text.read().splitlines()
        self.assertEqual(lines[0], ",".join(unmask_phases.FIELDS))
        self.assertTrue(any(line.startswith("nsys.sqlite,attention,flash,1,") for line in lines))
        with self.assertRaises(ValueError):  # a field that it does not know: what was written stays
            unmask_phases.write_rows([*rows, {"other": 1}], self.path("phases.csv"))
        with open(self.path("phases.csv"), encoding="utf-8") as text:
            self.assertEqual(text.read().splitlines(), lines)


class Ncu(Workspace):
    def test_the_module_of_nsight_compute_names_kernels_and_phases(self):
        metric = types.SimpleNamespace(as_double=lambda: 2500.0)
        of = types.SimpleNamespace(name=lambda: "unmask",
                                   push_pop_ranges=lambda: ("measure", "step", "attention"))
        state = types.SimpleNamespace(domains=lambda: (3,), domain_by_id=lambda d: of)
        action = types.SimpleNamespace(name=lambda: "flash", nvtx_state=lambda: state,
                                       metric_by_name=lambda name: metric)
        part = types.SimpleNamespace(num_actions=lambda: 2, action_by_idx=lambda i: action)
        report = types.SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda i: part)
        module = types.SimpleNamespace(load_report=lambda path: report)
        with mock.patch.dict(sys.modules, {"ncu_report": module}):
            code, found = self.read("--ncu", "x.ncu-rep")
        self.assertEqual(code, 0, found)
        self.assertAlmostEqual(found["phases"][0]["device_seconds"], 5e-6)
        self.assertEqual(found["kernels"][0]["phase"], "attention")
        self.assertEqual(found["provenance"]["time"], "ncu")

    def test_without_the_module_a_report_is_not_run_but_its_text_is_read(self):
        with mock.patch.dict(sys.modules, {"ncu_report": None}):
            code, said = self.read("--ncu", "x.ncu-rep")
        self.assertEqual(code, 3)
        self.assertIn("ncu_report", said)
        with open(self.path("details.csv"), "w", encoding="utf-8") as out:
            out.write('==PROF== Connected\n"ID","Kernel Name","Metric Name","Metric Unit",'
                      '"Metric Value"\n"0","flash","DRAM Frequency","Ghz","2.6"\n'
                      '"0","flash","Duration","us","1,250.5"\n"1","head","Duration","ns","800"\n')
        code, found = self.read("--ncu", self.path("details.csv"))
        self.assertEqual(code, 0, found)
        seconds = {k["kernel"]: k["seconds"] for k in found["kernels"]}
        self.assertAlmostEqual(seconds["flash"], 1250.5e-6)
        self.assertAlmostEqual(seconds["head"], 800e-9)


class Traces(Workspace):
    def trace(self, name, attention, masked):
        events = [{"ph": "X", "pid": 1, "tid": 1, "name": n, "cat": "scheduler", "ts": t, "dur": d,
                   "args": {}}
                  for n, t, d in (("step", 0.0, 100.0), ("attention", 10.0, attention),
                                  ("step", 200.0, 50.0))]
        events += [{"ph": "C", "pid": 1, "name": "masked left", "ts": t, "args": {"value": v}}
                   for t, v in zip((0.0, 200.0), masked)]
        with open(self.path(name), "w", encoding="utf-8") as out:
            json.dump({"traceEvents": events}, out)
        return self.path(name)

    def test_own_times_and_counters_stand_side_by_side(self):
        left, right = self.trace("a.json", 20.0, (30, 10)), self.trace("b.json", 40.0, (30, 20))
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(trace_compare.main([left, right, "--engine", "sqlite"]), 0)
        self.assertIn("| step | 0.130 | 0.110 | 0.85 |", out.getvalue())
        self.assertIn("| attention | 0.020 | 0.040 | 2.00 |", out.getvalue())
        self.assertIn("| masked left | 20 | 25 | 1.25 |", out.getvalue())

    def test_trace_processor_agrees_where_it_is(self):
        left = self.trace("a.json", 20.0, (30, 10))
        try:
            real = trace_compare.PerfettoEngine(left)
        except ImportError as why:
            self.skipTest(f"NOT RUN: {why}")
        own = trace_compare.SqliteEngine(left)
        for name in ("phases", "counters"):
            self.assertEqual(own.rows(trace_compare.query(name)), real.rows(trace_compare.query(name)))

    def test_what_is_no_trace_ends_in_one_sentence(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(trace_compare.main([self.rows, self.rows]), 1)
        self.assertIn("no trace", said.getvalue())


if __name__ == "__main__":
    unittest.main()
