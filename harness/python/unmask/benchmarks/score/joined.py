# SPDX-License-Identifier: Apache-2.0
"""Scores that were computed after their run, joined to its rows. Rows only grow: the row of a point
without a score is written once more with it, as a last line, which is the one that counts."""

import datetime
import fcntl
import json
import os
import socket

from unmask.rows.checksum import line_of
from unmask.rows.errors import EnvironmentFault
from unmask.rows.estimates import NOISY_HALF_WIDTH
from unmask.rows.intervals import deviation, item_means, mean, mean_interval, mean_of_groups_interval
from unmask.rows.rows import row_files, rows_with_lines
from unmask.rows.text import json_value

NOT_RUN = "NOT RUN: scores: "  # what the program writes where no library scored the answers


def run_folder(path):
    """RUN of RUN/samples/POINT/samples_TASK_DATE.jsonl, where `unmask run` puts answers; "" elsewhere."""
    samples = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    return os.path.dirname(samples) if os.path.basename(samples) == "samples" else ""


def score_of(row, results):
    """The `score` of a row from the scores of its items, as harness/measure/record.cpp makes it; None
    where no item has one."""
    scored = [r for r in results if r["status"] == "scored"]
    if not scored:
        return None
    values = [float(r["value"]) for r in scored]
    score = {"mean": mean(values), "exact": sum(v == 1 for v in values), "n": len(values),
             "ci95": list(_interval_of(row, results))}
    undecided = sum(r["status"] == "undecided" for r in results)
    if undecided:
        score["undecided"] = undecided
    groups = {}
    for r in scored:
        groups.setdefault(r.get("group") or "", []).append(float(r["value"]))
    if len(groups) > 1:
        score["mean_of_groups"] = mean([mean(g) for g in groups.values()])
        score["mean_of_groups_ci95"] = list(mean_of_groups_interval(list(groups.values())))
    beside = {}
    for r in results:
        for name, (total, of) in r["measures"].items():
            before = beside.get(name, (0, 0))
            beside[name] = before[0] + total, before[1] + of
    if beside:
        score["beside"] = {name: total / of if of else 0 for name, (total, of) in beside.items()}
    score["libraries"] = {k: v for r in scored for k, v in r["libraries"].items()}
    trials = row["workload"].get("benchmark", {}).get("trials", 1)
    if trials > 1:
        score["trial_deviation"] = _deviation_of_trials(results, trials)
    return score


def _interval_of(row, results):
    """Of the mean: an item that is asked several times is one item."""
    values = [float(r["value"]) if r["status"] == "scored" else None for r in results]
    return mean_interval(item_means(values, row["workload"].get("benchmark", {}).get("trials", 1)))


def _deviation_of_trials(results, trials):
    if len(results) % trials:
        return 0.0
    size = len(results) // trials
    of = [[float(r["value"]) for r in results[t * size:(t + 1) * size] if r["status"] == "scored"]
          for t in range(trials)]
    return deviation([mean(values) if values else 0.0 for values in of])


def scored_row(row, results):
    """A copy of a row that has no score yet with the scores of these items, the verdict that they give
    it, and the time of scoring; None where they give none or the row is not one that waits for them."""
    if row.get("score") is not None or not row["reason"].startswith(NOT_RUN):
        return None
    score = score_of(row, results)
    if score is None:
        return None
    score["scored_at"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = [row["model"]["caution"]] if row["model"].get("caution") else []
    undecided = [r for r in results if r["status"] == "undecided"]
    if undecided:
        are = "is" if len(undecided) == 1 else "are"
        said.append(f"{len(undecided)} of {len(results)} items {are} undecided, the first, "
                    f"{undecided[0]['item']}: {undecided[0].get('note') or 'no reason given'}")
    verdict, times, half = "PASS", row["samples"]["seconds"], row["samples"].get("half_width")
    if half is not None and half > NOISY_HALF_WIDTH and len(times) > 1:
        verdict = "NOISY"
        said.append(f"the speed is known to ±{100 * half:.0f} % only, from {len(times)} repetitions")
    if disturbance := row["samples"].get("disturbance"):
        verdict = "NOISY"
        said.append(disturbance)
    more = {"score": score, "verdict": verdict, "reason": "; ".join(said)}
    if "items" in row:
        by_id = {r["item"]: r for r in results if r["status"] == "scored"}
        values = [by_id[i]["value"] if i in by_id else None for i in row["items"]["id"]]
        more["items"] = {**row["items"], "score": values, "exact": [v == 1 for v in values]}
    return {**row, **more}


def join(results):
    """Writes the rows that wait for these scores once more, with them: how many, by file."""
    by_run = {}
    for r in results:
        folder = run_folder(r["file"])
        if folder and r["point_id"]:
            by_run.setdefault(folder, {}).setdefault((r["point_id"], r["run_id"]), []).append(r)
    joined = {}
    for folder, points in by_run.items():
        for file in row_files(folder):
            last = {row["point_id"]: (row, line) for row, line in rows_with_lines(file)}
            lines = []
            for (point, run), of_point in points.items():
                row, line = last.get(point, (None, ""))
                # The answers are those of this row alone where its own run wrote them.
                if row is not None and row["run_id"] == run and scored_row(row, of_point):
                    lines.append(scored_row(json.loads(line), of_point))
            if lines:
                append(file, lines)
                joined[file] = len(lines)
    return joined


def refuse_claimed(file):
    """EnvironmentFault where a run that goes on has said (harness/run/point_claim.h) that it writes to a file. Of a
    run on another host nobody here can tell: it counts as one that goes on."""
    folder = os.path.join(os.path.dirname(os.path.abspath(file)), ".claims")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as claim:
                said = json_value(claim.read(64 << 20))
        except (OSError, ValueError):
            continue
        if not name.startswith("run-") or not isinstance(said, dict) or said.get("rows") != os.path.basename(file):
            continue
        if said.get("host") != socket.gethostname() or os.path.exists(f"/proc/{said.get('pid')}"):
            raise EnvironmentFault(
                f"a run is writing to {file} (process {said.get('pid')} on {said.get('host')}); score its answers when "
                f"it is over, or delete {os.path.join(folder, name)} if it is")


def append(file, rows):
    """Writes rows behind the last one, all or none, unless a run is writing to the file."""
    text = "".join(line_of(row) + "\n" for row in rows)
    with open(file, "r+b") as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvironmentFault(f"a run is writing to {file}; score its answers when it is over") \
                from None
        except OSError:  # this file system has no locks: runs say in .claims which file they write
            refuse_claimed(file)
        before = out.seek(0, os.SEEK_END)
        if before:
            out.seek(before - 1)
            text = text if out.read(1) == b"\n" else "\n" + text
        try:
            out.write(text.encode())
            out.flush()
            os.fsync(out.fileno())
        except OSError as problem:
            os.truncate(file, before)
            raise EnvironmentFault(f"cannot write {file} ({problem.strerror}); its rows are as they "
                                   "were") from None
