# SPDX-License-Identifier: Apache-2.0
"""unmask score: score stored answers with the benchmarks' own libraries.

A sample file is in lm-eval's form: what `unmask run --samples` or lm-eval's --log_samples writes, JSON lines with
doc, target and resps. The result is one JSON line an item, and a summary."""

import glob
import json
import os
import re
import sys

from unmask.benchmarks.score import joined, official, scorers, workers
from unmask.rows import later, options as option_names
from unmask.rows.ending import tell
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import does_not_exist, opened_text, replace_file
from unmask.rows.intervals import wilson
from unmask.rows.shapes import MAYBE, fit
from unmask.rows.text import json_text, shown, whole


ID, WORDS = (str, int, type(None)), (str, type(None))
SAMPLE = {"doc_id?": ID, "item?": ID, "point_id?": WORDS, "run_id?": WORDS, "group?": WORDS,
          "benchmark?": WORDS, "style?": WORDS, "scorer?": WORDS, "note?": WORDS, "value?": MAYBE,
          "check?": (dict, type(None))}


def read_samples(path):
    """The items of one file, each once though lm-eval writes a line for every filter."""
    items, seen = [], set()
    with opened_text(path, "replace") as file:
        for number, text in enumerate(file, 1):
            text = text.removeprefix("\ufeff")  # a byte order mark, which editors put before a text
            if not text.strip():
                continue
            try:
                line = json.loads(text)
            except (ValueError, RecursionError) as problem:
                raise UserError(f"{path}:{number}: not a JSON object: {problem}") from None
            item = read_line(line, f"{path}:{number}")
            identity = (line.get("point_id"), line.get("item"), str(line.get("doc_id")))
            if identity in seen:
                continue
            seen.add(identity)
            items.append(item | {"file": path, "line": number})
    return items


def read_line(line, where):
    """An item of one line. UserError names what is missing or of another type."""
    if not isinstance(line, dict) or not isinstance(line.get("doc"), dict):
        raise UserError(f"{where}: `doc`, the record of the item, is missing")
    resps = line.get("resps")
    if not isinstance(resps, list) or not resps or not all(isinstance(r, list) and r for r in resps):
        raise UserError(f"{where}: `resps`, the answers as lm-eval writes them, is missing")
    fit(line, SAMPLE, where, "the line")
    if line.get("scored") and line.get("value") is None:
        raise UserError(f"{where}: `value`, the score of an item that is scored, is missing")
    doc = dict(line["doc"])
    # Our files: what the scorer needs and the record does not hold.
    for key, value in (line.get("check") or {}).items():
        doc.setdefault(key, value)
    return {"doc": doc, "target": str(line.get("target", "")), "resps": resps,
            "said": {"status": "scored" if line.get("scored") else
                     "undecided" if line.get("undecided") else "not_run",
                     "value": line.get("value"), "note": line.get("note") or ""},
            **{key: line.get(key) for key in ("doc_id", "item", "point_id", "run_id", "group",
                                              "benchmark", "style", "scorer")}}


def task_of_file(path):
    """TASK of samples_TASK_DATE.jsonl, or ""."""
    match = re.fullmatch(r"samples_(.+)_[^_]+\.jsonl", os.path.basename(path))
    return match.group(1) if match else ""


def choose_scorer(item, options):
    """(name of the scorer, lm-eval's task or "") of an item: what the command says, then what the item
    says, then the task in the file's name."""
    benchmark = options.benchmark or item["benchmark"] or ""
    style = options.harness or item["style"] or ""
    file_task = task_of_file(item["file"])
    if not benchmark and item["scorer"]:
        name = item["scorer"]
        if name not in scorers.SCORERS:
            return name, ""
    elif not benchmark or (benchmark not in {way[0] for way in scorers.WAYS} and not style):
        named = benchmark or file_task
        if not named:
            raise UserError(f"{item['file']}: names no task; say --benchmark")
        name = next((way[3] for way in scorers.WAYS if way[1:3] == ("LM", named)), "lm_eval")
        if named.startswith("minerva_math"):
            name = "math_minerva_lm_eval"
        return name, named if scorers.SCORERS[name].task == "*" else scorers.SCORERS[name].task
    else:
        name, _ = scorers.find_way(benchmark, style)
    task = scorers.SCORERS[name].task
    return name, file_task or benchmark if task == "*" else task


def response_of(resps, task, where):
    """(text, responses as lm-eval's task takes them)."""
    first = resps[0][0]
    if isinstance(first, (list, tuple)):  # log likelihood and greedy, as text in the file
        try:
            return "", [(float(r[0][0]), str(r[0][1]) == "True") for r in resps]
        except (TypeError, ValueError, IndexError):
            raise UserError(f"{where}: `resps` holds no log likelihoods") from None
    if not isinstance(first, str):
        raise UserError(f"{where}: `resps` holds no text")
    if not task and len(resps[0]) > 1:
        raise UserError(f"{where}: `resps` holds several answers to one item; this scorer takes one")
    return first, [r[0] for r in resps]


def prepare(items):
    """Adds responses and lm-eval's task to every item; one task object for each name."""
    tasks = {}
    for item in items:
        where = f"{item['file']}:{item['line']}"
        name, task = item["scorer"], item["task_name"]
        lacking = [key for key in scorers.SCORERS[name].needs if key not in item["doc"]]
        if lacking:
            raise UserError(f"{where}: the record lacks `{lacking[0]}`, which {name} needs")
        item["text"], item["responses"] = response_of(item.pop("resps"), task, where)
        if task and task not in tasks:
            tasks[task] = official.build_task(task, item["doc"])
    return tasks


def score_items(items, options):
    """Judges every item; each gets status, value and what stands beside it. What the program itself
    scored (its six own scorers) stays as it is."""
    for item in items:
        item["scorer"], item["task_name"] = choose_scorer(item, options)
    waiting = [item for item in items if item["scorer"] in scorers.SCORERS]
    libraries = {name: scorers.libraries_of(name) for name in {item["scorer"] for item in waiting}}
    tasks = prepare(waiting)

    def judge(item):
        name = item["scorer"]
        return scorers.SCORERS[name].judge(item | {"task": tasks.get(item["task_name"])})

    judged = iter(workers.judge_all(waiting, judge, options.workers,
                                    workers.Limits(cpu_seconds=options.seconds)))
    return [{key: item[key] for key in ("file", "doc_id", "item", "point_id", "run_id", "group",
                                        "scorer")}
            | {"value": None, "extracted": "", "filters": [], "measures": {}}
            | (next(judged) if item["scorer"] in scorers.SCORERS else item["said"])
            | {"libraries": libraries.get(item["scorer"], {})} for item in items]


def summarize(results, out):
    """Prints one line for each file: score, interval (Wilson's, as a row's), items, undecided, libraries."""
    for path in dict.fromkeys(r["file"] for r in results):
        of_file = [r for r in results if r["file"] == path]
        values = [r["value"] for r in of_file if r["status"] == "scored"]
        words = [path, "by " + ", ".join(dict.fromkeys(r["scorer"] for r in of_file)) + ":"]
        if values:
            words.append(f"{100 * sum(values) / len(values):.2f} %")
            words.append("[{:.2f}, {:.2f}]".format(*(100 * x for x in wilson(sum(values), len(values)))))
        words.append(f"of {len(values)} items")
        for status in ("undecided", "not_run"):
            number = sum(r["status"] == status for r in of_file)
            if number:
                words.append(f"({number} {status.replace('_', ' ')})")
        libraries = {k: v for r in of_file for k, v in r["libraries"].items()}
        if libraries:
            words.append("[" + ", ".join(f"{k} {v}" for k, v in libraries.items()) + "]")
        print(shown(" ".join(words)), file=out)
        notes = dict.fromkeys(r["note"] for r in of_file if r["status"] != "scored")
        for note in list(notes)[:3]:
            print("  " + shown(note), file=out)


def sample_files(paths):
    """The files; of a folder every samples_*.jsonl below it."""
    found = []
    for path in paths:
        if os.path.isdir(path):
            below = sorted(glob.glob(os.path.join(glob.escape(path), "**", "samples_*.jsonl"),
                                     recursive=True))
            if not below:
                raise EnvironmentFault(f"{path} holds no samples_*.jsonl; measure with unmask run --samples")
            found += below
        elif os.path.isfile(path):
            found.append(path)
        else:
            raise does_not_exist(path)
    return found


def main(arguments):
    parser = option_names.parser(
        __doc__, "FILE is a sample file of lm-eval, or a folder of them, made by `unmask run --samples` or any other\n"
                 "harness.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="sample file, or a folder of them")
    parser.add_argument("--benchmark", metavar="NAME",
                        help="score as this benchmark (unmask list benchmarks) or this task of lm-eval "
                        "(default: as the file names it)")
    parser.add_argument("--harness", metavar="NAME",
                        help="score as this harness does: LM, OC-F, OC-S, OC-L, OC-U, LMMS-own, or ID/CONFIG (default: as the "
                        "file names it, else the benchmark's first)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write one JSON line per item into this file")
    parser.add_argument("-q", "--quiet", action="store_true", help="print no summary")
    option_names.add_format(parser)
    parser.add_argument("--keep-rows", action="store_true",
                        help="leave the rows of a run as they are (default: rows that wait for scores are written again "
                        "with them)")
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="score in N processes (default: one per core)")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="X",
                        help="stop scoring an item after X seconds of processor time; it is then undecided "
                        "(default: 20)")
    options = parser.parse_args(option_names.spelled(arguments))
    later.import_all()
    items = [item for path in sample_files(options.files) for item in read_samples(path)]
    results = score_items(items, options)
    if options.output:
        replace_file(options.output, "".join(whole(json.dumps(result, ensure_ascii=False)) + "\n"
                                             for result in results))
    if options.format == "json":
        print(json_text(results), end="")
    elif not options.quiet:
        summarize(results, sys.stdout)
    if not (options.keep_rows or options.benchmark or options.harness):
        for file, number in joined.join(results).items():
            tell(f"{number} row{'' if number == 1 else 's'} of {file} written once more, with the score")
    return 0
