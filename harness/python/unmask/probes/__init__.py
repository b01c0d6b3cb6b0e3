# SPDX-License-Identifier: Apache-2.0
"""unmask probes: compute the probes of a run that had no Python.

Probes are the papers' motivation figures, from what a probed pass wrote down. `unmask run` calls it after the
pass. Where a machine has no Python, traces stay in DIR/traces and this command adds the rows again with their
probes (of several rows of a point the last one counts)."""

import json
import os
import re

from unmask.probes import decisions, layers
from unmask.probes.trace import Trace, plain
from unmask.rows import options
from unmask.rows.checksum import is_marked, line_of
from unmask.rows.errors import UserError
from unmask.rows.files import replace_file
from unmask.rows.rows import rows_with_lines
from unmask.rows.text import shown, whole

PROBES = {"attention": layers.attention, "confidence": decisions.confidence,
          "contradiction": decisions.contradiction, "decode_trace": layers.decode_trace,
          "decoding": decisions.decoding, "importance": layers.importance,
          "kv_change": layers.kv_change, "peak_oracle": decisions.peak_oracle,
          "stagnation": decisions.stagnation}
# Probes that mean nothing if a method replaced or reopened tokens, and why.
OF_ONE_DECISION = {"peak_oracle": "decides every position once"}
NOT_RUN = re.compile(r"(; )?probes: NOT RUN: .* computes them later")


def compute(path):
    """{probe: result} of a trace file; NaN is None."""
    trace = Trace.read(path)
    results = {}
    for name in trace.settings["names"]:
        if name not in PROBES:
            raise UserError(f"{path}: unknown probe {name!r}")
        if trace.revised and name in OF_ONE_DECISION:
            results[name] = {"requests": len(trace.requests),
                             "not_run": f"the method replaced or reopened {trace.revised} tokens; {name} "
                                        f"{OF_ONE_DECISION[name]}"}
            continue
        try:
            results[name] = plain({"requests": len(trace.requests)} | PROBES[name](trace))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
            raise UserError(f"{path}: not the trace of a probed pass: {name} cannot be computed of it "
                            f"({type(problem).__name__}: {problem})") from None
    return results


def add_to_rows(folder):
    """Appends the rows of DIR/rows.jsonl whose traces lie in DIR/traces, with their probes."""
    traces, rows = os.path.join(folder, "traces"), os.path.join(folder, "rows.jsonl")
    names = sorted(n for n in os.listdir(traces) if n.endswith(".jsonl")) if os.path.isdir(traces) else []
    if not names:
        raise UserError(f"{traces} holds no trace: nothing is left to compute")
    last = {row["point_id"]: json.loads(line) for row, line in rows_with_lines(rows) if not is_marked(row)}
    for name in names:
        point = name.removesuffix(".jsonl")
        if point not in last:
            raise UserError(f"{rows} holds no row of the point {point}")
        row = last[point]
        row["probes"] = row.get("probes", {}) | compute(os.path.join(traces, name))
        if "reason" in row:
            row["reason"] = NOT_RUN.sub("", row["reason"])
        with open(rows, "a", encoding="utf-8") as file:
            file.write(line_of(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.remove(os.path.join(traces, name))
    os.rmdir(traces)
    return len(names)


def main(arguments):
    parser = options.parser(__doc__, "Adds the rows of the run in FOLDER again, with their probes.")
    parser.add_argument("place", metavar="FOLDER|TRACE", help="folder of a run, or one trace file")
    parser.add_argument("-o", "--output", metavar="FILE", help="with a trace file: write its probes to this file as JSON")
    given = parser.parse_args(arguments)
    if os.path.isdir(given.place):
        print(f"{add_to_rows(given.place)} rows have their probes now")
        return 0
    text = whole(json.dumps(compute(given.place), ensure_ascii=False))
    if given.output:
        replace_file(given.output, text)
    else:
        print(shown(text))
    return 0
