# SPDX-License-Identifier: Apache-2.0
"""Rows as a pandas frame whose columns hold one type each, so that Parquet takes it as it is."""

import os

import pandas as pd

from unmask.rows import estimates
from unmask.rows.rows import RUN_KEYS, read_latest, setting


def _gpu(environment):
    gpus = environment.get("gpus")
    first = gpus[0] if isinstance(gpus, list) and gpus else None
    return first.get("name") if isinstance(first, dict) else first


def flat_row(row):
    """One row as names and values: what was run, the verdict, the numbers with their bounds, the
    circumstances."""
    environment, score = row["environment"], row["score"] or {}
    low, high = score.get("ci95", (None, None))
    out = {"point_id": row["point_id"], "run_id": row["run_id"], "title": row["title"],
           "position": row["position"], "commit": row["source_hash"],
           "measured_by": row.get("measured_by", "Unmask"),
           "finished_at": row["finished_at"], "cpu": environment.get("cpu_model"),
           "gpu": _gpu(environment), "model": row["model"]["name"],
           "model_hash": row["model"]["hash"], "weights": row["model"]["weights"],
           "parameters": row["model"]["parameters"], "method": row["method"],
           "preset": row["preset"], "label": row["label"], "variation": row["variation"],
           "task": row["workload"]["family"], "task_hash": row["workload"]["hash"],
           "items": row["workload"]["items"], "kind": setting(row, "kind"),
           **{key: row[key] for key in RUN_KEYS}, "verdict": row["verdict"],
           "reason": row["reason"], "score": score.get("mean"), "score_n": score.get("n"),
           "score_low": low, "score_high": high, "repetitions": len(row["samples"]["seconds"])}
    for group in ("params", "serve"):
        out.update({f"{group}.{name}": value for name, value in row.get(group, {}).items()})
    for name, value in row["metrics"].items():
        out[name] = value
        e = estimates.estimate(row, name) if row["provenance"].get(name) == "measured" else None
        if e is not None and e.low is not None:
            out[f"{name}_low"], out[f"{name}_high"] = e.low, e.high
    return out


def frame_of(rows):
    """A line for each row; frame.attrs["rows"] holds the rows themselves."""
    frame = pd.DataFrame([flat_row(row) for row in rows])
    for name in frame.columns:
        kinds = {type(v) for v in frame[name] if v is not None and v == v}
        if kinds <= {int, float} and kinds != {int}:
            frame[name] = frame[name].astype("Float64")
        elif kinds == {int}:
            frame[name] = frame[name].astype("Int64")
        elif kinds == {bool}:
            frame[name] = frame[name].astype("boolean")
        else:  # parameters of one name may be words of one method and numbers of another
            frame[name] = [None if v is None or v != v else str(v) for v in frame[name]]
    frame.attrs["rows"] = rows
    return frame


def read(*paths):
    """Reads rows as a pandas frame, a line for each point: `model`, `task`, the keys of [run],
    `params.NAME`, `serve.NAME`, `verdict`, score and its bounds, every metric by its name with
    `NAME_low` and `NAME_high` where the row's samples give an interval, `commit`, `finished_at`, machine
    and hashes. Its columns hold one type each, so that to_parquet takes it as it is; the
    rows themselves are in frame.attrs["rows"]."""
    return frame_of(read_latest(*[os.fspath(path) for path in paths]))
