# SPDX-License-Identifier: Apache-2.0
"""Makes the tasks of a benchmark: one record per item, as a harness asks it."""

import dataclasses
import importlib.metadata
import json
import os
import platform

from unmask.benchmarks.prompts import lm_tasks, opencompass, pictures, sources
from unmask.benchmarks.prompts.data import Files
from unmask.benchmarks.prompts.records import OPTION_LETTERS, load, read, read_pool
from unmask.benchmarks.prompts.registry import dataset_of, find, register, tasks_of
from unmask.rows.errors import UserError
from unmask.rows.files import replace_file
from unmask.rows.text import whole

TASKS_FORMAT = 1


@dataclasses.dataclass
class Request:
    """What decides the prompts of a benchmark; the defaults are the harness's own."""
    name: str
    harness: str = ""
    task: str = ""
    form: str = ""
    shots: int = -1
    system: bool = True
    world: int = 1
    rank: int = -1
    max_prompt_tokens: int = -1
    tokenizer: str = ""
    data: tuple = ()


def last_boxed(solution):
    """What the last \\boxed of a solution holds; \\fbox only where there is no \\boxed."""
    if "\\boxed " in solution:
        return solution.split("\\boxed ")[-1].split("$")[0]
    at = max(solution.rfind("\\boxed"), -1)
    at = at if at >= 0 else solution.rfind("\\fbox")
    begin, depth = solution.find("{", at), 0
    for end in range(begin, len(solution)) if at >= 0 and begin >= 0 else ():
        depth += {"{": 1, "}": -1}.get(solution[end], 0)
        if depth == 0:
            return solution[begin + 1:end]
    return ""


def reference(dataset, row, task):
    """(reference text, what a scorer needs) of a record that is no multiple choice."""
    if dataset == "gsm8k":
        return row["answer"], {"target": row["answer"]}
    if dataset in ("math", "math500"):
        answer = row.get("answer") or last_boxed(row["solution"])
        return row["solution"], {"answer": answer, "solution": row["solution"]}
    if dataset == "humaneval":
        keys = ("entry_point", "prompt", "task_id", "test")
        return row["canonical_solution"], {key: row[key] for key in keys}
    if dataset == "mbpp":
        return row["code"], {"task_id": str(row["task_id"]), "test_list": row["test_list"],
                             "text": row["text"]}
    if dataset == "ifeval":
        keys = ("instruction_id_list", "key", "kwargs", "prompt")
        return "", {key: row[key] for key in keys}
    if dataset == "longbench":
        answers = row["answers"]
        return answers[0] if answers else "", {"all_classes": row.get("all_classes"),
                                               "answers": answers, "task": task}
    return row["highlights"], {"answers": [row["highlights"]]}


def choice(count, right):
    """The reference and the check of a multiple choice."""
    letter = OPTION_LETTERS[right]
    return letter, {"answer": letter, "options": OPTION_LETTERS[:count]}


def right_option(dataset, number, row):
    """(options, which is right) of a record of a multiple choice; None for others."""
    if dataset == "mmlu":
        return row["choices"], row["answer"]
    if dataset == "arc":
        return row["choices"]["text"], row["choices"]["label"].index(row["answerKey"])
    if dataset == "piqa":
        return [row["sol1"], row["sol2"]], row["label"]
    return opencompass.gpqa_options(number, row) if dataset == "gpqa" else None


def expected(dataset, number, row, task):
    """(which option is right or None, reference text, what a scorer needs) of a record."""
    options = right_option(dataset, number, row)
    if options:
        return options[1], *choice(len(options[0]), options[1])
    return None, *reference(dataset, row, task)


def task_name(entry, task):
    """lm-eval's name of the task, or one made alike."""
    if not task:
        return entry["config"]
    stem = entry["config"].removesuffix("_generative")
    return f"{stem}_{task}" + entry["config"][len(stem):]


def prompt_of(asked):
    return {"messages": asked} if isinstance(asked, list) else {"prompt": asked}


def record(entry, task, number, item_id, asked, doc, answer, check, **more):
    """One line of a tasks file (harness/workload/task.h)."""
    line = {"id": item_id, "family": task or entry["name"], "benchmark": entry["name"],
            "task": task_name(entry, task), "doc_id": number} | prompt_of(asked)
    line |= {"answer": answer, "scorer": entry["scorer"], "check": check,
             "gen_length": more.pop("gen_length", 0) or entry["gen_length"], "doc": doc}
    return line | {key: value for key, value in more.items() if value not in ([], None)}


def with_lm_eval(entry, request, files, task, shots):
    rows = read(files, entry["dataset"], entry["split"], task)
    pool = []
    if shots and "examples" in entry:
        pool = read_pool(files, entry["dataset"], entry["examples"], task)
    name = entry["lm_eval"].replace("{task}", task)
    made = lm_tasks.task_over(name, [row for _, row in rows], pool, shots)
    lm_tasks.check_examples(made, name, shots)
    stop = entry.get("stop", (made.config.generation_kwargs or {}).get("until", []))
    asked = lm_tasks.ask(made, shots, request.form or entry["form"], request.world, request.rank)
    for number, (text, continuations) in asked.items():
        document = made.task_docs[number]
        if entry["choices"]:
            right = lm_tasks.right_choice(made, document)
            answer, check = choice(len(continuations), right)
        else:
            right, answer, check = expected(entry["dataset"], number, rows[number][1], task)
        target = str(made.doc_to_target(document))
        yield record(entry, task, number, rows[number][0], text, document, answer, check,
                     target=target if target != answer else None,
                     stop=stop if made.OUTPUT_TYPE != "multiple_choice" else [],
                     continuations=continuations, right=right)


def opencompass_rows(entry, files, task):
    rows = read(files, entry["dataset"], entry["split"], task)
    if entry["dataset"] == "arc":  # OpenCompass takes rows of four options only
        rows = [(item_id, row) for item_id, row in rows if len(row["choices"]["text"]) == 4]
    return rows


def with_opencompass(entry, request, files, task, shots):
    dataset = entry["dataset"]
    rows = opencompass_rows(entry, files, task)
    settings = {key: load(files, dataset, key)[0][1] for key in ("prompts", "lengths")
                if key in entry["reads"]}
    fields = [opencompass.fields_of(dataset, n, row, task, settings)
              for n, (_, row) in enumerate(rows)]
    pool = []
    if shots and "examples" in entry:
        pool = fields if entry["examples"] == entry["split"] else [
            opencompass.fields_of(dataset, n, row, task)
            for n, row in enumerate(read_pool(files, dataset, entry["examples"], task))]
    shown = opencompass.example_fields(entry, shots, pool)
    form = request.form or entry["form"]
    limit = token_limit(entry, request)
    length = 0
    if settings:
        length = settings["lengths"][opencompass.LONGBENCH_SHARED if task == "qasper" else task]
    for number, (item_id, row) in enumerate(rows):
        asked = [opencompass.render(entry["style"], fields[number], shown[:kept], form,
                                    request.system) for kept in range(shots, -1, -1)]
        right, answer, check = expected(dataset, number, row, task)
        doc = row | {"dataset": task} if dataset == "longbench" else row
        yield record(entry, task, number, item_id, asked[0], doc, answer, check,
                     gen_length=length, right=right,
                     shorter=asked[1:] if may_exceed(asked[0], limit) else [])


def token_limit(entry, request):
    if request.max_prompt_tokens >= 0:
        return request.max_prompt_tokens
    return entry.get("max_prompt_tokens", 0)


def may_exceed(asked, limit):
    """Whether a prompt may have more tokens than the limit: a token holds one byte at least. Turns
    get a template around them, so they always may."""
    return limit > 0 and (isinstance(asked, list) or len(asked.encode()) > limit)


def from_sources(entry, request, files, task, _):
    dataset = entry["dataset"]
    if dataset == "needlebench":
        for number, (item_id, fields, keyword, needle) in enumerate(
                sources.needles(files, task, request.tokenizer)):
            asked = opencompass.render(entry["style"], fields, [], request.form or entry["form"],
                                       request.system)
            yield record(entry, task, number, item_id, asked, {}, needle, {"text": keyword})
        return
    items = sources.questions(files, dataset) if dataset in sources.QUESTIONS else (
        sources.conversations(files, dataset, request.tokenizer))
    for number, (item_id, turns, answer) in enumerate(items):
        yield record(entry, task, number, item_id, turns, {}, answer, {})


def with_pictures(entry, request, files, task, store):
    for number, item_id, text, doc, answer, check, shows in pictures.tasks_of_pictures(
            entry, request, files, task, store):
        yield record(entry, task, number, item_id, text, doc, answer, check, **shows)


def library_versions(entry):
    packages = {"LM": ("lm_eval", "datasets", "jinja2")}.get(entry["harness"], ())
    if sources.needs_tokens(entry["dataset"]):
        packages = ("tokenizers",)
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in packages}


def shots_of(entry, request):
    shots = entry["shots"] if request.shots < 0 else request.shots
    if shots and "style" not in entry and "lm_eval" not in entry:
        raise UserError(f"the benchmark {entry['name']} has no examples to put before the "
                        "question; `shots` must be 0")
    return shots


def tasks(request, folder=""):
    """(what holds for all items, the items) of a benchmark as its harness asks it. folder: of the tasks file, where
    the pictures are written that items show; "": they are only named."""
    entry = find(request.name, request.harness)
    shots = shots_of(entry, request)
    files = Files(request.data)
    store = pictures.Store(files, entry["dataset"], folder) if "shows" in entry else None
    make = with_lm_eval if "lm_eval" in entry else (
        with_opencompass if "style" in entry and entry["dataset"] != "needlebench"
        else from_sources)
    items = []
    for task in tasks_of(entry, request.task):
        for line in (with_pictures(entry, request, files, task, store) if store
                     else make(entry, request, files, task, shots)):
            # OpenCompass knows no processes: a rank takes its documents all the same.
            if request.rank < 0 or line["doc_id"] % request.world == request.rank:
                items.append(line)
    form = request.form or entry["form"]
    if form == "bos":
        items = [line | {"bos": True} for line in items]
    head = {"unmask_tasks": TASKS_FORMAT, "benchmark": entry["name"], "harness": entry["harness"],
            "version": register()["harnesses"][entry["harness"]], "config": entry["config"],
            "form": form, "shots": shots, "metric": entry["metric"], "items": len(items),
            "licence": dataset_of(entry)["licence"], "library": library_versions(entry),
            "data": dict(sorted(files.read.items()))}
    return head, items


def write(request, path):
    """Writes the tasks file, behind the pictures that it shows; no file is left where it cannot be made."""
    head, items = tasks(request, os.path.dirname(path) or ".")
    replace_file(path, "".join(whole(json.dumps(line, ensure_ascii=False)) + "\n" for line in (head, *items)))
    return head
