# SPDX-License-Identifier: Apache-2.0
"""Rows as a pandas frame whose columns hold one type each, so that Parquet takes it as it is."""

import os

import pandas as pd

from unmask.rows import estimates
from unmask.rows.errors import UserError
from unmask.rows.files import replace_file
from unmask.rows.rows import RUN_KEYS, latest, rows_with_places, setting
from unmask.rows.scores import score_with_undecided


def _gpu(environment):
    gpus = environment.get("gpus")
    first = gpus[0] if isinstance(gpus, list) and gpus else None
    return first.get("name") if isinstance(first, dict) else first


def flat_row(row):
    """One row as names and values: what was run, the verdict, the numbers with their bounds, the
    circumstances."""
    environment = row["environment"]
    score = score_with_undecided(row["score"]) if row["score"] else None
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
           "reason": row["reason"], "score": score and score.mean, "score_n": score and score.n,
           "score_low": score and score.low, "score_high": score and score.high,
           "score_undecided": score and score.undecided, "repetitions": len(row["samples"]["seconds"])}
    for group in ("params", "serve"):
        out.update({f"{group}.{name}": value for name, value in row.get(group, {}).items()})
    for name, value in row["metrics"].items():
        out[name] = value
        e = estimates.estimate(row, name) if row["provenance"].get(name) == "measured" else None
        if e is not None and e.low is not None:
            out[f"{name}_low"], out[f"{name}_high"] = e.low, e.high
    return out


def frame_of(rows, places=None):
    """A line for each row; places: the file and line of each."""
    found = list(map(flat_row, rows))
    for flat, (file, line) in zip(found, places or ()):
        flat["file"], flat["line"] = file, line
    frame = pd.DataFrame(found)
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
    return frame


def read(*paths):
    """Reads rows as a pandas frame, a line for each point: `model`, `task`, the keys of [run],
    `params.NAME`, `serve.NAME`, `verdict`, score and its bounds, every metric by its name with
    `NAME_low` and `NAME_high` where the row's samples give an interval, `commit`, `finished_at`, machine
    and hashes, and the `file` and `line` that the row was read from. Its columns hold one type each, so that
    to_parquet takes it as it is; rows_of() and write() give back the rows themselves."""
    places, found = {}, []
    for path in paths:
        for row, _, file, line in rows_with_places(os.fspath(path)):
            found.append(row)
            places[id(row)] = (os.path.abspath(file), line)
    found = latest(found)
    return frame_of(found, [places[id(row)] for row in found])


def requests(*paths):
    """Reads the requests that served points kept ([serve] keep_requests) as a pandas frame, a line for each request in
    the order of arrival: `point_id`, `model`, `label`, `variation`, the times in seconds, `tokens`, `end`, and by the
    definitions of harness/engine/README.md `ttfb`, `e2e`, `tpot_stream`, `tpot_decode`, `tpot_e2e`, the last three of finished requests."""
    found = []
    for row in latest([row for path in paths for row, _, _, _ in rows_with_places(os.fspath(path))]):
        kept = (row.get("probes") or {}).get("requests")
        if kept:
            of_row = {"point_id": row["point_id"], "model": row["model"]["name"], "label": row["label"],
                      "variation": row["variation"]}
            found += [of_row | dict(zip(kept, values)) for values in zip(*kept.values())]
    if not found:
        raise UserError(f"{', '.join(map(str, paths))}: no row keeps its requests; set keep_requests in [serve]")
    frame = pd.DataFrame(found)
    times = ["arrival", "admitted", "prefill_done", "first_emission", "last_emission", "finish"]
    frame[times] = frame[times].astype("Float64")
    n = frame["tokens"].astype("Float64").where((frame["tokens"] > 0) & (frame["end"] == "finished"))
    after = (n - 1).where(n > 1)
    frame["ttfb"] = frame["first_emission"] - frame["arrival"]
    frame["e2e"] = frame["finish"] - frame["arrival"]
    frame["tpot_stream"] = (frame["last_emission"] - frame["first_emission"]) / after
    frame["tpot_decode"] = (frame["finish"] - frame["prefill_done"]) / n
    frame["tpot_e2e"] = frame["e2e"] / n
    return frame


def lines_of(frame):
    """The lines of a frame's rows in the order of the frame, each with its row: [(row, line)]. UserError where a
    file does not hold them any more."""
    for name in ("file", "line", "point_id"):
        if name not in frame.columns:
            raise UserError(f"the frame has lost its column `{name}`, by which its rows are found again")
    held = {file: {number: (row, line) for row, line, _, number in rows_with_places(file)}
            for file in dict.fromkeys(frame["file"])}
    found = []
    for file, number, point in zip(frame["file"], frame["line"], frame["point_id"]):
        row, line = held[file].get(int(number), (None, b""))
        if row is None or row["point_id"] != point:
            raise UserError(f"{file}:{number} is not the row of the point {point} any more")
        found.append((row, line))
    return found


def rows_of(frame):
    """The rows of a frame that read() made, or of any selection of it, as results/FORMAT.md describes them."""
    return [row for row, _ in lines_of(frame)]


def write(frame, path):
    """Writes the rows of a frame that read() made, or of any selection of it, byte for byte, in its order."""
    replace_file(path, b"".join(line + b"\n" for _, line in lines_of(frame)))
