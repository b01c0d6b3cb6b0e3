# SPDX-License-Identifier: Apache-2.0
"""unmask report: write one HTML page with tables, figures and the decode player.

Computes what the page shows; plots/report.py draws it."""

import itertools
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

from unmask.page.figures import figure_data
from unmask.rows import estimates, experiments, glossary, intervals, options, rows as results, runs, seeds
from unmask.rows.comparable import comparable, notes_of
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import does_not_exist, opened, read_json
from unmask.rows.machines import machine_name, several
from unmask.rows.rows import is_reportable, is_synthetic, row_name, setting
from unmask.rows.scores import note_of_undecided, score_with_undecided
from unmask.rows.text import json_value
from unmask.rows.verdicts import tone
from unmask.tables import layout, tables
from unmask.tables.tables import Cell, count_cell, estimate_cell, number_cell


def _model_name(row):
    words = (["synthetic"] if is_synthetic(row) else []) + (
        ["commits imposed"] if row["impose"] != "none" else [])
    return row["model"]["name"] + (f" ({', '.join(words)})" if words else "")


def _metric_cell(line, name, digits, factor=1):
    """A metric of a row, or the mean of it over rows that differ in their seed alone."""
    found = [row["metrics"].get(name) for row in (line if isinstance(line, list) else [line])]
    found = [value for value in found if value is not None]
    return number_cell(intervals.mean(found) if found else None, digits, factor)


def _score_cell(line):
    e = seeds.estimate(line, "score")
    if e is None:
        return Cell("–")
    cell = estimate_cell(e, 0, 100)
    means = [score_with_undecided(row["score"]).mean for row in line]
    cell.value = 100 * intervals.mean(means)
    cell.text = f"{cell.value:.1f}"
    return cell


def _speed_cell(line):
    cell, half, row = _metric_cell(line, "tokens_per_second", 1), None, line[0]
    if len(line) > 1:
        half = intervals.half_width([row["metrics"].get("tokens_per_second") or 0 for row in line])
    elif len(row["samples"]["seconds"]) == 1 and row["provenance"].get("tokens_per_second") == "measured":
        cell.text += " (one pass)" if cell.value is not None else ""
    else:
        half = row["samples"].get("half_width")
    if cell.value is not None and half is not None and math.isfinite(half):
        cell.text += f" ± {half * 100:.1f} %"
        cell.low, cell.high = cell.value * (1 - half), cell.value * (1 + half)
    return cell


# The reason of rows whose prompts have no right answer (harness/rows/row.h).
NOTHING_TO_SCORE = "no item of this workload can be scored"


def _verdict_cell(row):
    quiet = row["verdict"] == "PASS" or row["reason"] in ("", NOTHING_TO_SCORE)
    elsewhere = f" (measured by {row['measured_by']})" if "measured_by" in row else ""
    return glossary.shown_row(row) + ("" if quiet else f": {row['reason']}") + elsewhere


def _note_unscored(table, rows):
    """A note, once, for rows that nothing could score: random prompts have no right answer."""
    for row in rows:
        if row["verdict"] != "PASS" and row["reason"] == NOTHING_TO_SCORE:
            random = row["workload"]["family"].endswith("random tokens")
            note = f"not scored: {'random prompts have no right answer' if random else NOTHING_TO_SCORE}"
            table.notes += [] if note in table.notes else [note]


def _decode_table(rows):
    """A line for each row: score, speed, speedup over the first method that ran on the same weights and
    prompts in the same circumstances, and what was counted."""
    machines = several(rows)
    table = tables.Table(glossary.columns(
        "model | " + "machine | " * machines + "label | family | >items | >score | >tokens_per_second | >speedup | >tpf | "
        ">committed_per_step | >redundancy | >nfe | verdict"))
    varying, apart = seeds.varying(rows), []
    bases = seeds.Bases(filter(is_reportable, rows), models=True)
    lines = seeds.over_seeds(rows)
    for line, name in zip(lines, seeds.line_names(lines, varying)):
        row, cells = line[0], ["–"] * 7
        if is_reportable(row):
            against = bases.pairs(line)
            is_base = against[0][1] is row
            ratio = None if is_base else seeds.ratio(against, "tokens_per_second")
            if ratio and ratio.how.startswith(estimates.APART):
                apart.append(comparable(*against[0]))
            cells = [_score_cell(line), _speed_cell(line),
                     "base" if is_base else estimate_cell(ratio, 2) if ratio else "–",
                     _metric_cell(line, "tpf", 2), _metric_cell(line, "committed_per_step", 2),
                     _metric_cell(line, "redundancy", 2), _metric_cell(line, "nfe", 0)]
        worst = next((of_seed for of_seed in line if of_seed["verdict"] != "PASS"), row)
        table.add(_model_name(row), *[machine_name(row)][:machines], name,
                  row["workload"]["family"], count_cell(row["workload"]["items"]), *cells, _verdict_cell(worst))
    table.notes += seeds.notes(lines)
    table.notes += notes_of(apart)
    table.notes += note_of_undecided(rows)
    _note_unscored(table, rows)
    return table


def _serve_table(rows):
    table = tables.Table(glossary.columns(
        "model | label | workload | >requests_finished | arrivals | clock | >tokens_per_second | >ttfb_p50_seconds | "
        "tpot | >tpot_p50_seconds | >tpot_p90_seconds | >goodput_requests_per_second | "
        ">slo_capacity_requests_per_second | >batch_mean | >chunk_mean | verdict"))
    for row in rows:
        method = row_name(row)
        if "policy=" not in row["variation"]:
            method += f" policy={setting(row, 'serve.policy') or ''}"
        cells = ["–"] * 12
        if is_reportable(row):
            tpot, rate = setting(row, "serve.tpot") or "", row["metrics"].get("request_rate")
            how = setting(row, "serve.arrivals") or ""
            finished = (f"{_metric_cell(row, 'requests_finished', 0).text} of "
                        f"{_metric_cell(row, 'requests', 0).text}")
            cells = [finished, how if how == "closed" or not rate else f"{how} {rate:.2f}/s",
                     setting(row, "serve.clock") or "", _metric_cell(row, "tokens_per_second", 1),
                     _metric_cell(row, "ttfb_p50_seconds", 2, 1e3), tpot,
                     _metric_cell(row, f"tpot_{tpot}_p50_seconds", 2, 1e3),
                     _metric_cell(row, f"tpot_{tpot}_p90_seconds", 2, 1e3),
                     _metric_cell(row, "goodput_requests_per_second", 2),
                     _metric_cell(row, "slo_capacity_requests_per_second", 2),
                     _metric_cell(row, "batch_mean", 1), _metric_cell(row, "chunk_mean", 1)]
        table.add(_model_name(row), method, row["workload"]["family"], *cells, _verdict_cell(row))
    _note_unscored(table, rows)
    return table


def row_tables(rows):
    """The tables of a section: rows that decode a closed batch, and rows that were served."""
    served = [row for row in rows if setting(row, "kind") == "serve"]
    closed = [row for row in rows if setting(row, "kind") != "serve"]
    return ([_decode_table(closed)] if closed or not served else []) + (
        [_serve_table(served)] if served else [])


def _command(run, titles, folder):
    """The command that measures such rows again; where no run.json tells it, that of the experiment
    with the same title."""
    if run.file:
        words = ["unmask", "run", run.file] + (["--scale", run.scale] if run.scale else [])
        return shlex.join(words + [word for s in run.set for word in ("--set", s)])
    for base, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(f for f in files if f.endswith(".toml")):
            path = os.path.join(base, name)
            try:
                title = experiments.read_toml(path).get("title")
            except UserError:  # models' cards and the like are no experiments
                continue
            if title in titles:
                return shlex.join(["unmask", "run", os.path.relpath(path)])
    return ""


def _section(run, path, folder):
    titles = list(dict.fromkeys(row["title"] for row in run.rows))
    title, table = ", ".join(titles), None
    if runs.layout_place(run):
        try:
            arranged = layout.read_layout(run.file, run.scale)
            title = arranged.title
            if arranged.columns:
                table = tables.table_json(layout.table_of(layout.lay_out(arranged, run.rows)))
        except UserError:  # the file has changed since: its rows are still worth a page
            pass
    name = " ".join(filter(None, (run.paper, run.artifact))).replace("_", " ")
    scale = f" ({run.scale})" if run.scale else ""
    return {"path": path, "name": run.place, "paper": run.paper, "artifact": run.artifact,
            "command": _command(run, titles, folder), "title": title, "table": table,
            "heading": f"{name}: {title}{scale}" if name else title,
            "tables": [tables.table_json(t) for t in row_tables(run.rows)],
            "figures": figure_data(run.rows)}


def _claims_in(path):
    claims = read_json(path)
    if not isinstance(claims, list):
        raise UserError(f"{path}: claims are a list of objects")
    for number, claim in enumerate(claims, 1):
        for key in ("id", "statement", "verdict"):
            if not isinstance(claim, dict) or not isinstance(claim.get(key), str):
                raise UserError(f"{path}: claim number {number} has no `{key}`")
        claim["tone"] = tone(claim["verdict"])
    controls = {f"{c.get('paper')}/{c['id']}": c for c in claims if c.get("role") == "control"}
    for claim in claims:  # each with its verdict, as the file has it
        named = claim.get("controls")
        claim["controls_found"] = [controls[key] for key in (named if isinstance(named, list) else ()) if key in controls]
        claim.setdefault("shown", glossary.VERDICTS["claim"].get((claim["verdict"], ""), claim["verdict"]))
    return [claim for claim in claims if claim.get("role", "claim") == "claim"]


def _duration(seconds):
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def campaign_table(path):
    """What a campaign's log says."""
    last, torn = runs.read_log(path)
    table = tables.Table(glossary.columns("paper | table or figure | scale | status | >result rows | >time | detail"))
    for (paper, name, scale), entry in last.items():
        table.add(paper, name, scale, str(entry.get("status", "")),
                  count_cell(int(entry.get("rows") or 0)),
                  Cell(_duration(entry["seconds"]), value=entry["seconds"]),
                  str(entry.get("detail", "")))
    measured = sum(entry.get("status") == "measured" for entry in last.values())
    table.notes.append(f"{measured} of {len(last)} tables and figures measured; "
                       f"{_duration(sum(e['seconds'] for e in last.values()))} in all runs")
    if torn:
        table.notes.append(f"{torn} lines of the log that are no entries are left out")
    return table


def _files_below(path):
    """Files of a folder and those below it, in natural order of their places."""
    found = [os.path.join(base, name) for base, _, files in os.walk(path) for name in files]
    return sorted(found, key=lambda name: runs.natural_order(os.path.relpath(name, path)))


def _holds_rows(path):
    """Whether one of the first lines is a row's: damaged ones may lie before it."""
    with opened(path) as file:
        for line in itertools.islice(file, 100):
            try:
                value = json_value(line.removeprefix(results.BYTE_ORDER_MARK).decode())
            except ValueError:
                continue
            if isinstance(value, dict) and "point_id" in value and "metrics" in value:
                return True
    return False


def _runs_of(path, folder):
    """The runs whose rows lie at or below a path, each file for itself."""
    if not os.path.isdir(path):
        return [(path, run) for run in runs.runs_below(path, folder)]
    found = []
    for file in _files_below(path):
        name = os.path.basename(file)
        if name.endswith(".jsonl") and not name.startswith("samples_") and _holds_rows(file):
            run = runs.Run(os.path.relpath(file, path), results.read_latest(file))
            found.append((file, runs.origin(run, os.path.dirname(file), folder)))
    if not found and os.path.exists(os.path.join(path, results.ARCHIVE)):
        found = [(os.path.join(path, run.place), run) for run in runs.runs_below(path, folder)]
    return found


def page_data(path, folder):
    """All that the page of a file or folder of rows shows."""
    if not os.path.exists(path):
        raise does_not_exist(path)
    data = {"root": path, "sections": [_section(run, file, folder)
                                       for file, run in _runs_of(path, folder)],
            "claims": [], "campaign": None}
    if os.path.isdir(path):
        for file in _files_below(path):
            name = os.path.basename(file)
            if name.startswith("claims") and name.endswith(".json"):
                data["claims"] += _claims_in(file)
        log = os.path.join(path, runs.CAMPAIGN)
        if os.path.isfile(log):
            data["campaign"] = tables.table_json(campaign_table(log))
    if not data["sections"]:
        raise EnvironmentFault(f"{path} holds no results (*.jsonl); give the folder of a run")
    data["tones"] = {word: tone(stored) for (stored, _), word in glossary.VERDICTS["row"].items()}
    return data


def parser():
    p = options.parser(__doc__, "Writes one self-contained page of the rows in FOLDER. Figures need matplotlib (./dev setup\n"
                                "installs it).")
    p.add_argument("dir", nargs="?", default="", metavar="FOLDER|ROWS.jsonl")
    p.add_argument("-o", "--output", default="", metavar="FILE",
                   help="write the page to this file (default: FOLDER/report.html)")
    p.add_argument("--data", action="store_true",
                   help="print the data of the page as JSON, and draw nothing")
    p.add_argument("--title", default="", metavar="TEXT", help="give the page this title")
    p.add_argument("--figures", action="store_true",
                   help="also save each result's figures as SVG, PNG and PDF next to its rows")
    p.add_argument("--plots-dir", "--plots_dir", default="", metavar="FOLDER",
                   help="use report.py of this folder (default: plots of the source tree)")
    p.add_argument("--experiments-dir", "--experiments_dir", default="", metavar="FOLDER",
                   help="use the experiments of this folder (default: experiments)")
    return p


def main(arguments):
    options = parser().parse_args(arguments)
    if not options.dir:
        raise UserError("report needs the folder of a run")
    script = os.path.join(options.plots_dir or os.path.join(experiments.program_root(), "plots"),
                          "report.py")
    if not options.data and not os.path.isfile(script):
        raise EnvironmentFault(f"{script} is not there: run from the source tree or give --plots-dir")
    data = page_data(options.dir, experiments.experiments_folder(options.experiments_dir))
    if options.data:
        tables.write(tables.json_text(data), options.output)
        return 0
    beside = options.dir if os.path.isdir(options.dir) else os.path.dirname(options.dir)
    folder = tempfile.mkdtemp(prefix="unmask-page-")
    try:
        file = os.path.join(folder, "page.json")
        tables.write(tables.json_text(data), file)
        words = [sys.executable, "-B", script, file, "-o",
                 options.output or os.path.join(beside, "report.html")]
        words += ["--title", options.title] if options.title else []
        words += ["--figures"] if options.figures else []
        sys.stdout.flush()
        return subprocess.run(words, check=False).returncode
    finally:
        shutil.rmtree(folder)
