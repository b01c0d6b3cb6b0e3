#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Nsight's reports back into rows: kernels by phase, as CUPTI's are (the probe `phases`), so that
tables and figures take them like everything else.

    unmask profile MODEL --tool nsys -o runs/p
    nsys export --type sqlite runs/p/nsys.nsys-rep
    python3 plots/nsight.py runs/p/nsys-rows/rows.jsonl --nsys runs/p/nsys.sqlite -o rows.jsonl
    python3 plots/nsight.py runs/p/ncu-rows/rows.jsonl --ncu runs/p/ncu.ncu-rep -o rows.jsonl

A .ncu-rep is read by the module ncu_report of Nsight Compute (its folder extras/python on
PYTHONPATH); what `ncu --import FILE --page details --csv` or `--page raw --csv` printed is read
without it. Times of ncu are of kernels measured one by one, and only of those it was told to take.
Exit codes: 0, 2 usage, 3 something to read with is missing, 1 the report does not hold what is
needed."""

import argparse
import bisect
import collections
import csv
import json
import sqlite3
import sys

import rows  # noqa: F401: the package is found by it
from unmask.rows.ending import ended
from unmask.rows.errors import UserError
from unmask.rows.files import opened, opened_text
from unmask.rows.text import shown

DOMAIN = "unmask"
# Ranges that hold others: time goes to the innermost range, which for a kernel is none of these.
CONTAINERS = {"measure", "run", "step", "prefill", "denoise", "commit_forward", "mixed_forward",
              "layer"}
PUSH_POP, START_END, DOMAIN_CREATED = 59, 60, 75  # NVTX_EVENTS.eventType of nsys


class Unreadable(Exception):
    """The report cannot be read; the sentence says why."""


def columns(database, table):
    return {row[1] for row in database.execute(f"PRAGMA table_info({table})")}


def phase_ranges(database):
    """{thread: ranges (begin, end, name)} of our domain, each list ascending by begin."""
    if not columns(database, "NVTX_EVENTS"):
        raise Unreadable("the report holds no NVTX ranges: profile with --trace=cuda,nvtx")
    domains = {row[0] for row in database.execute(
        "SELECT domainId FROM NVTX_EVENTS e LEFT JOIN StringIds s ON e.textId = s.id "
        "WHERE e.eventType = ? AND COALESCE(e.text, s.value) = ?", (DOMAIN_CREATED, DOMAIN))}
    ranges = collections.defaultdict(list)
    for begin, end, thread, domain, name in database.execute(
            "SELECT e.start, e.end, e.globalTid, e.domainId, COALESCE(e.text, s.value) "
            "FROM NVTX_EVENTS e LEFT JOIN StringIds s ON e.textId = s.id "
            "WHERE e.eventType IN (?, ?) AND e.end IS NOT NULL ORDER BY e.start, e.end DESC",
            (PUSH_POP, START_END)):
        if not domains or domain in domains:
            ranges[thread].append((begin, end, name))
    if not ranges:
        raise Unreadable(f"the report holds no ranges of the domain {DOMAIN}: was `unmask` profiled?")
    return ranges


class Innermost:
    """The innermost range at a time, for ranges that nest."""

    def __init__(self, ranges):
        # Names from each begin or end on until the next.
        self.times, self.names = [], []
        open_ranges = []

        def note(time):
            self.times.append(time)
            self.names.append(open_ranges[-1][1] if open_ranges else None)

        for begin, end, name in ranges:
            while open_ranges and open_ranges[-1][0] <= begin:
                closed = open_ranges.pop()[0]
                note(closed)
            open_ranges.append((end, name))
            note(begin)
        while open_ranges:
            closed = open_ranges.pop()[0]
            note(closed)

    def at(self, time):
        i = bisect.bisect_right(self.times, time) - 1
        return self.names[i] if i >= 0 else None


def nsys_activities(database):
    """(name, begin, end, correlation id) of kernels, copies and fills."""
    if not columns(database, "CUPTI_ACTIVITY_KIND_KERNEL"):
        raise Unreadable("the report holds no kernels: was anything launched on a GPU?")
    yield from database.execute(
        "SELECT s.value, k.start, k.end, k.correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL k "
        "LEFT JOIN StringIds s ON k.demangledName = s.id")
    for table, name in (("CUPTI_ACTIVITY_KIND_MEMCPY", "[memcpy]"),
                        ("CUPTI_ACTIVITY_KIND_MEMSET", "[memset]")):
        if columns(database, table):
            for begin, end, correlation in database.execute(
                    f"SELECT start, end, correlationId FROM {table}"):
                yield name, begin, end, correlation


def read_nsys(path):
    """Kernels by phase of an exported SQLite file. A launch belongs to the innermost range of its
    thread at the time of the call that made it; what a graph launched, to that of its launch."""
    with opened(path):  # a pipe would never end
        pass
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        ranges = {thread: Innermost(of) for thread, of in phase_ranges(database).items()}
        calls = {c: (thread, begin) for c, thread, begin in database.execute(
            "SELECT correlationId, globalTid, start FROM CUPTI_ACTIVITY_KIND_RUNTIME")}
        found = []
        for name, begin, end, correlation in nsys_activities(database):
            thread, when = calls.get(correlation, (None, None))
            phase = ranges[thread].at(when) if thread in ranges else None
            found.append((phase, name or "?", (end - begin) * 1e-9, begin * 1e-9, end * 1e-9))
    except sqlite3.Error as why:
        raise Unreadable(f"{path}: {why}; make it with `nsys export --type sqlite`") from why
    return found


def read_ncu_module(path):
    try:
        import ncu_report  # pylint: disable=import-outside-toplevel,import-error
    except ImportError:
        return None
    found = []
    report = ncu_report.load_report(path)
    for i in range(report.num_ranges()):
        part = report.range_by_idx(i)
        for j in range(part.num_actions()):
            action = part.action_by_idx(j)
            seconds = action.metric_by_name("gpu__time_duration.sum").as_double() * 1e-9
            found.append((ncu_phase(action), action.name(), seconds, None, None))
    return found


def ncu_phase(action):
    """The innermost push/pop range of our domain around a kernel."""
    state = action.nvtx_state()
    for domain in state.domains() if state is not None else []:
        of = state.domain_by_id(domain)
        if of.name() == DOMAIN and of.push_pop_ranges():
            return of.push_pop_ranges()[-1]
    return None


UNITS = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3,
         "s": 1.0, "second": 1.0}


def read_ncu_csv(path):
    """What `ncu --csv` printed: one line a metric (details) or a kernel (raw)."""
    with opened_text(path, "replace") as text:
        lines = [line for line in text if not line.startswith("==")]
    found, seen = [], set()
    for row in csv.DictReader(lines):
        key = row.get("ID")
        if row.get("Metric Name") == "Duration":
            seconds = number(row["Metric Value"]) * UNITS.get(row["Metric Unit"], 1e-9)
        elif "gpu__time_duration.sum" in row and key:
            seconds = number(row["gpu__time_duration.sum"]) * 1e-9
        else:
            continue
        if key in seen:
            continue
        seen.add(key)
        found.append((csv_phase(row), row["Kernel Name"], seconds, None, None))
    return found


def number(text):
    return float(text.replace(",", ""))


def csv_phase(row):
    """NVTX columns name the ranges outermost first, as "<default domain>", "unmask:measure:..."."""
    for name, value in row.items():
        if name and name.startswith("thread Domain:Push/Pop_Range") and value:
            words = [w.strip('" ') for w in value.split(":")]
            if DOMAIN in words[0]:
                return words[1] if len(words) > 1 else None
    return None


def read_ncu(path):
    if path.endswith(".csv"):
        return read_ncu_csv(path)
    found = read_ncu_module(path)
    if found is None:
        raise ModuleNotFoundError(
            "needs Nsight Compute's module ncu_report (extras/python on PYTHONPATH), or the text of "
            "`ncu --import FILE --page details --csv` in a file named .csv")
    return found


def busy_seconds(spans):
    """Seconds in which at least one kernel ran."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def kernel_rows(found):
    """The probe's list of kernels: attributed first, the longest first."""
    rows = {}
    for phase, kernel, seconds, _, _ in found:
        r = rows.setdefault((phase, kernel), {"phase": phase, "kernel": kernel, "launches": 0,
                                              "seconds": 0.0, "shortest": seconds, "longest": 0.0})
        r["launches"] += 1
        r["seconds"] += seconds
        r["shortest"] = min(r["shortest"], seconds)
        r["longest"] = max(r["longest"], seconds)
    return sorted(rows.values(), key=lambda r: (r["phase"] is None, r["phase"] or "", -r["seconds"]))


def phases_of(found, tool):
    """The probe `phases` of a report: device seconds by phase; the clock of the CPU is not in it."""
    if not found:
        raise Unreadable("the report holds no kernel with a time")
    kernels = kernel_rows(found)
    names = sorted({k["phase"] for k in kernels if k["phase"]})
    phases = []
    for name in names:
        of = [k for k in kernels if k["phase"] == name]
        seconds = sum(k["seconds"] for k in of)
        phases.append({"phase": name, "container": name in CONTAINERS,
                       "calls": sum(k["launches"] for k in of), "seconds": seconds,
                       "own_seconds": seconds, "device_seconds": seconds, "rows": 0.0, "flops": 0.0,
                       "bytes": None, "roof_share": None, "provenance": tool})
    spans = [(b, e) for _, _, _, b, e in found if b is not None]
    lost = sum(k["seconds"] for k in kernels if k["phase"] is None)
    total = sum(k["seconds"] for k in kernels)
    return {"seconds": total, "untraced_seconds": 0.0, "events_left_out": 0,
            "roofs": {"flops_per_second": None, "bytes_per_second": None, "source": ""},
            "provenance": {"time": tool, "work": tool},
            "kernels_problem": f"{lost / total:.0%} of the time lies outside every phase"
                               if lost > 0.01 * total else None,
            "counters_problem": None, "chip": None,
            "device_busy": busy_seconds(spans) if spans else None,
            "device_span": max(e for _, e in spans) - min(b for b, _ in spans) if spans else None,
            "device_unattributed": lost, "phases": phases, "kernels": kernels}


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="nsight.py", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("rows", help="rows.jsonl of the profiled program; its last row is taken")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--nsys", metavar="FILE.sqlite")
    what.add_argument("--ncu", metavar="FILE.ncu-rep|FILE.csv")
    parser.add_argument("-o", "--output", required=True, help="the row with the probe, appended")
    given = parser.parse_args(arguments)
    try:
        with opened_text(given.rows) as text:
            row = json.loads(text.read().strip().split("\n")[-1])
        found = read_nsys(given.nsys) if given.nsys else read_ncu(given.ncu)
        row.setdefault("probes", {})["phases"] = phases_of(found, "nsys" if given.nsys else "ncu")
    except ModuleNotFoundError as why:
        print(f"NOT RUN: {why}", file=sys.stderr)
        return 3
    except (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, Unreadable,
            UserError, ValueError, csv.Error) as why:  # values of other kinds than a report's
        print(f"nsight: {shown(why)}", file=sys.stderr)
        return 1
    with open(given.output, "a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")
    print(f"{len(row['probes']['phases']['kernels'])} kernels of "
          f"{len(row['probes']['phases']['phases'])} phases: {given.output}")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
