# SPDX-License-Identifier: Apache-2.0
"""Recorded prompts of the official harnesses, and the request that asks ours for the same."""

import glob
import gzip
import json
import os
import re

from unmask.benchmarks.prompts.registry import find, register
from unmask.benchmarks.prompts.write import Request, tasks
from unmask.rows.errors import EnvironmentFault

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../../.."))
RECORDED = os.path.join(SOURCE, "tests", "goldens", "evals")


def open_text(path):
    return gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(
        path, encoding="utf-8")


def records(folder):
    """[(file, record)] of every recorded prompt below a folder."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "prompts", "*.jsonl*"))):
        with open_text(path) as file:
            found += [(os.path.basename(path), json.loads(line)) for line in file]
    return found


def write_lines(path, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def told_items(cases, task):
    """Question, choices and right one of ARC's and PIQA's items, which lm-eval's records hold
    whole; a number that no record has is filled by another record."""
    told = {}
    for _, record in cases:
        if record["task"] == task and "continuations" in record:
            number = int(str(record["item_id"]).rsplit(":", 1)[-1])
            question = record["prompt"].removeprefix("Question: ").removesuffix("\nAnswer:")
            told[number] = (question, [c.removeprefix(" ") for c in record["continuations"]],
                            record["target"])
    first = next(iter(told.values()), None)
    return [told.get(number, first) for number in range(max(told, default=-1) + 1)]


def made_data(cases, folder, math500):
    """A folder with what the cases hold themselves: ARC and PIQA from lm-eval's records, and MATH
    from MATH-500, whose problems are named by MATH's paths."""
    arc = []
    for question, choices, right in told_items(cases, "arc_challenge"):
        arc.append({"id": "", "question": {"stem": question, "choices": [
            {"text": text, "label": "ABCDE"[i]} for i, text in enumerate(choices)]},
            "answerKey": "ABCDE"[right]})
    for name in ("Test", "Dev"):
        write_lines(os.path.join(folder, "arc", f"ARC-Challenge-{name}.jsonl"), arc)
    piqa = told_items(cases, "piqa")
    write_lines(os.path.join(folder, "piqa", "valid.jsonl"),
                [{"goal": q, "sol1": c[0], "sol2": c[1]} for q, c, _ in piqa])
    write_lines(os.path.join(folder, "piqa", "valid-labels.lst"), [right for _, _, right in piqa])
    with open_text(math500) as file:
        for line in file:
            row = json.loads(line)
            write_lines(os.path.join(folder, "math", row["unique_id"]), [row])
    return folder


def lm_eval_request(record):
    task = record["task"].split(" (")[0]
    group = ""
    if task.startswith("minerva_math_"):
        name, group = "math", task.removeprefix("minerva_math_")
    elif task.startswith("mmlu_"):
        group = task.removeprefix("mmlu_").removesuffix("_generative")
        name = "mmlu_generative" if task.endswith("_generative") else "mmlu"
    else:
        name = "arc_c" if task == "arc_challenge" else task
    form = "raw"
    if record.get("chat_template"):
        form = "chat" if record.get("fewshot_as_multiturn") else "one-turn"
    return Request(name, "LM", group, form, record["shots"], world=record.get("world_size") or 1,
                   rank=record.get("rank") or 0)


def opencompass_request(record):
    version, config = record["version"], record["config"]
    harness = "OC-F" if "FOCUS" in version else "OC-L" if "LLaDA" in version else "OC-S"
    form = "chat" if "messages" in record else "raw"
    if config.startswith("longbench_"):
        return Request("longbench", harness, record["task"].removeprefix("longbench/"), form, 0)
    entry = next((b for b in register()["benchmarks"] if b["harness"] == harness
                  and b["config"] == config and b["name"] != "math500"), None)
    entry = entry or find("math500", f"{harness}/{config}")
    group = ""
    if entry["dataset"] == "mmlu":
        group = record["item_id"].split(":")[0]
    if entry["dataset"] == "math":
        folders = register()["datasets"]["math"]["task_folders"]
        folder = record["item_id"].split("/")[1]
        group = next(task for task, name in folders.items() if name == folder)
    return Request(entry["name"], f"{harness}/{config}", group, form, record["shots"])


def request_of(record):
    if record["harness"] == "lm-eval":
        return lm_eval_request(record)
    return opencompass_request(record)


class Asker:
    """Our prompt of a recorded item, from the first of several places that has it."""

    def __init__(self, places):
        self.places = places
        self.made = {}

    def items(self, request, place):
        request.data = tuple(place)
        key = repr(request)
        if key not in self.made:
            self.made[key] = tasks(request)[1]
        return self.made[key]

    def item(self, record):
        problem = None
        for place in self.places:
            try:
                found = [item for item in self.items(request_of(record), place)
                         if is_item(item, record)]
            except EnvironmentFault as missing:
                problem = problem or missing
                continue
            if found:
                return found[0]
        raise problem or AssertionError(f"{record['task']}: no item {record['item_id']}")


def is_item(item, record):
    wanted = record["item_id"]
    if isinstance(wanted, dict):  # LongBench
        return item["doc"]["_id"] == wanted["_id"]
    return item["id"] == str(wanted)


# Chat templates of the models, from their tokenizer_config.json.
def llada(messages):
    """LLaDA trims every message and always ends with the assistant's header."""
    turns = "".join(f"<|start_header_id|>{m['role']}<|end_header_id|>\n\n{m['content'].strip()}"
                    "<|eot_id|>" for m in messages)
    return f"<|startoftext|>{turns}<|start_header_id|>assistant<|end_header_id|>\n\n"


def dream(messages):
    """Dream's own template, as its tokenizer_config.json has it."""
    import jinja2
    with open(os.path.join(RECORDED, "data/tokenizers/dream/tokenizer_config.json"),
              encoding="utf-8") as file:
        template = json.load(file)["chat_template"]
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=messages, add_generation_prompt=True)


def text_of(item, record):
    if "prompt" in item:
        return item["prompt"]
    return {"llada": llada, "dream": dream}[record["chat_template"]](item["messages"])


def difference(got, want):
    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    around = slice(max(at - 20, 0), at + 40)
    return f"at {at} ours reads {got[around]!r}, theirs {want[around]!r}"


def named(record):
    return re.sub(r"\s+", " ", f"{record['task']} item {record['item_id']}")
