#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Two traces of `unmask profile --trace` side by side, by the saved queries in plots/queries: time
of every phase and what a step held.

    python3 plots/trace_compare.py focus.json block_diffusion.json

The queries are run by Perfetto's trace_processor where the Python package `perfetto` and its binary
are there (PERFETTO_BINARY_PATH names it); else by SQLite on the two tables of it that they need,
filled from the trace itself. --engine says which, and fails where it is missing."""

import argparse
import os
import sqlite3
import sys

import rows  # noqa: F401: the package is found by it
from unmask.rows.ending import ended
from unmask.rows.errors import UserError
from unmask.rows.files import read_json
from unmask.rows.text import shown

LARGEST_TRACE = 4 << 30
QUERIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "queries")


def query(name):
    with open(os.path.join(QUERIES, name + ".sql"), encoding="utf-8") as text:
        return text.read()


class SqliteEngine:
    """`slice`, `counter` and `counter_track` as trace_processor fills them."""

    def __init__(self, path):
        events = read_json(path, LARGEST_TRACE)["traceEvents"]
        self.database = sqlite3.connect(":memory:")
        self.database.executescript(
            "CREATE TABLE slice (id INTEGER, ts INTEGER, dur INTEGER, name TEXT, category TEXT,"
            " parent_id INTEGER, track_id INTEGER);"
            "CREATE TABLE counter (track_id INTEGER, ts INTEGER, value REAL);"
            "CREATE TABLE counter_track (id INTEGER, name TEXT);")
        self._slices([e for e in events if e["ph"] == "X"])
        self._counters([e for e in events if e["ph"] == "C"])

    def _slices(self, events):
        nanoseconds = lambda us: round(float(us) * 1000)  # noqa: E731
        tracks, open_slices = {}, {}
        events.sort(key=lambda e: (e["ts"], -e["dur"]))
        for number, e in enumerate(events):
            track = tracks.setdefault((e["pid"], e["tid"]), len(tracks))
            stack = open_slices.setdefault(track, [])
            begin, length = nanoseconds(e["ts"]), nanoseconds(e["dur"])
            while stack and stack[-1][1] <= begin:
                stack.pop()
            self.database.execute("INSERT INTO slice VALUES (?, ?, ?, ?, ?, ?, ?)",
                                  (number, begin, length, e["name"], e.get("cat", ""),
                                   stack[-1][0] if stack else None, track))
            stack.append((number, begin + length))

    def _counters(self, events):
        tracks = {}
        for e in events:
            for key, value in e["args"].items():
                name = e["name"] if key in ("", "value") else f"{e['name']} {key}"
                if name not in tracks:
                    tracks[name] = len(tracks)
                    self.database.execute("INSERT INTO counter_track VALUES (?, ?)",
                                          (tracks[name], name))
                self.database.execute("INSERT INTO counter VALUES (?, ?, ?)",
                                      (tracks[name], round(float(e["ts"]) * 1000), value))

    def rows(self, text):
        cursor = self.database.execute(text)
        names = [c[0] for c in cursor.description]
        return [dict(zip(names, row)) for row in cursor]


class PerfettoEngine:
    def __init__(self, path):
        from perfetto.trace_processor import (  # pylint: disable=import-outside-toplevel
            TraceProcessor, TraceProcessorConfig)
        binary = os.environ.get("PERFETTO_BINARY_PATH")
        if not binary:
            raise ImportError("PERFETTO_BINARY_PATH names no trace_processor_shell")
        self.processor = TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=binary))

    def rows(self, text):
        return [dict(row.__dict__) for row in self.processor.query(text)]


def open_trace(path, engine):
    if engine != "sqlite":
        try:
            return PerfettoEngine(path)
        except ImportError as why:
            if engine == "perfetto":
                raise SystemExit(f"NOT RUN: needs the package perfetto and its binary ({why})") from why
    return SqliteEngine(path)


def side_by_side(left, right, key, value):
    """(key, left, right) of everything that one of both has, in the order of the left."""
    a, b = ({r[key]: r[value] for r in rows} for rows in (left, right))
    return [(k, a.get(k), b.get(k)) for k in list(a) + [k for k in b if k not in a]]


def ratio(a, b):
    return f"{b / a:.2f}" if a and b else "–"


def tables(left, right, names):
    lines = [f"| phase | {names[0]} ms | {names[1]} ms | ratio |", "|---|---:|---:|---:|"]
    for phase, a, b in side_by_side(left.rows(query("phases")), right.rows(query("phases")),
                                    "phase", "own_nanoseconds"):
        lines.append(f"| {phase} | {(a or 0) / 1e6:.3f} | {(b or 0) / 1e6:.3f} | {ratio(a, b)} |")
    counters = side_by_side(left.rows(query("counters")), right.rows(query("counters")), "counter",
                            "mean")
    if counters:
        lines += ["", f"| mean of a step | {names[0]} | {names[1]} | ratio |", "|---|---:|---:|---:|"]
        lines += [f"| {c} | {a or 0:.6g} | {b or 0:.6g} | {ratio(a, b)} |" for c, a, b in counters]
    return "\n".join(lines) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("--engine", choices=["auto", "perfetto", "sqlite"], default="auto")
    given = parser.parse_args(arguments)
    try:
        traces = [open_trace(p, given.engine) for p in (given.left, given.right)]
    except (ArithmeticError, AttributeError, LookupError, OSError, sqlite3.Error, TypeError, UserError,
            ValueError) as why:  # values of other kinds than a trace's
        print(f"trace_compare: {shown(why)}: no trace of `unmask profile --trace`?", file=sys.stderr)
        return 1
    names = [os.path.splitext(os.path.basename(p))[0] for p in (given.left, given.right)]
    print(shown(tables(*traces, names)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
