# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that ask about pictures: their records, what is asked of each, and the picture's own file beside the
tasks. A model that is given codes of a picture takes them from a file of the data set, because its encoder is not
read here.

`asks` of an entry says which prompt it is: a field of the record, or the record's question with lmms-eval's parts
around it. Of these the sentences of HINTS are ours."""

import glob
import hashlib
import math
import os

from unmask.benchmarks.prompts.data import require
from unmask.benchmarks.prompts.records import OPTION_LETTERS, load
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import replace_file

FOLDER = "pictures"  # of the pictures of a tasks file, beside it
SHOWN_DIGITS = 32
KINDS = {b"\x89PNG\r\n\x1a\n": ".png", b"\xff\xd8\xff": ".jpg"}
MOST_CODES = 1 << 16
# LLaDA-V's evaluation frames a hint by "First perform reasoning, then finally" and "in the following format:
# Answer: xxx."; what stands between is ours.
HINTS = {"multi_choice": "give the letter of the right choice", "integer": "give one integer",
         "float": "give one number with {places} decimal places", "list": "give one list, such as [1, 2]"}
CLOSEST = "If it is hard to determine, give the closest answer."
IN_DETAIL = "\nAnswer this question in detail."


class Store:
    """The pictures of a tasks file: each once, under its hash. folder: where they are written; "": nowhere."""

    def __init__(self, files, dataset, folder=""):
        self.files, self.dataset, self.folder, self.written = files, dataset, folder, set()

    def content(self, where, key, value):
        """The bytes of a record's picture: as the Hub keeps it, or of a file of the data set's folder."""
        if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
            return value["bytes"]
        path = value.get("path") if isinstance(value, dict) else value
        if not isinstance(path, str) or not path:
            raise EnvironmentFault(f"{where}: `{key}` must be a picture, or the path of one in the folder of {self.dataset}")
        if os.path.isabs(path) or ".." in path.split("/"):
            raise EnvironmentFault(f"{where}: `{key}` names {path}, which is outside the folder of {self.dataset}")
        name = glob.escape(path)
        return self.files.find(self.dataset, [name, "images/" + name])[0][1]

    def keep(self, where, key, value):
        """(path from the tasks file's folder, SHA-256) of a record's picture."""
        content = self.content(where, key, value)
        ending = next((e for start, e in KINDS.items() if content.startswith(start)), None)
        if ending is None:
            raise EnvironmentFault(f"{where}: `{key}` is no PNG or JPEG picture, and no other kind is read")
        digest = hashlib.sha256(content).hexdigest()
        name = f"{FOLDER}/{digest[:SHOWN_DIGITS]}{ending}"
        if self.folder and name not in self.written:
            replace_file(os.path.join(self.folder, name), content)
        self.written.add(name)
        return name, digest


def plain(value):
    """A record's value as JSON holds it; bytes of a picture are left out."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items() if not isinstance(v, bytes)}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def records_of(files, dataset, split):
    """[(where, record)] of a split; a JSON file may be one object that holds its records by id."""
    for where, row in load(files, dataset, split):
        if isinstance(row, dict) and row and all(isinstance(one, dict) for one in row.values()):
            yield from ((f"{where}, {key}", one) for key, one in row.items())
        else:
            yield where, row


# ---- Records: [(id, where, picture's key, picture, record without it)]

def mathvista(files, _):
    items = []
    for where, row in records_of(files, "mathvista", "testmini"):
        require(where, row, ["question", "answer", "question_type", "answer_type"])
        kind = row["question_type"]
        if kind not in ("multi_choice", "free_form") or row["answer_type"] not in ("text", "integer", "float", "list"):
            raise EnvironmentFault(f"{where}: `question_type` is {kind} and `answer_type` {row['answer_type']}, which "
                                   "MathVista does not have")
        if kind == "multi_choice":
            require(where, row, [], ["choices"])
            if not 2 <= len(row["choices"]) <= len(OPTION_LETTERS):
                raise EnvironmentFault(f"{where}: `choices` must be 2 to {len(OPTION_LETTERS)} texts")
        elif row["answer_type"] == "text":
            raise EnvironmentFault(f"{where}: `answer_type` is text, which only a question with choices has")
        if row["answer_type"] == "float" and places_of(row) is None:
            raise EnvironmentFault(f"{where}: `precision` must be the number of decimal places")
        key = "decoded_image" if row.get("decoded_image") else "image"
        items.append((str(row.get("pid", len(items) + 1)), where, key, row.get(key), row))
    return items


def places_of(row):
    """Decimal places of a record's answer, a number that the Hub keeps as a float; None: it says none."""
    given = row.get("precision")
    return int(given) if isinstance(given, (int, float)) and 0 <= given <= 12 and given == int(given) else None


def mathverse(files, task):
    """The records of one version; `task` is its name in small letters: vision_only."""
    items = []
    for where, row in records_of(files, "mathverse", "testmini"):
        require(where, row, ["problem_version", "query_cot", "answer", "question_type"])
        if row["problem_version"].lower().replace(" ", "_") != task:
            continue
        if row["question_type"] not in ("multi-choice", "free-form"):
            raise EnvironmentFault(f"{where}: `question_type` is {row['question_type']}, which MathVerse does not have")
        items.append((str(row.get("sample_index", len(items) + 1)), where, "image", row.get("image"), row))
    if not items:
        raise EnvironmentFault(f"mathverse: no record has the `problem_version` {task}")
    return items


def llava_bench(dataset):
    def records(files, _):
        items = []
        for where, row in records_of(files, dataset, "test"):
            if isinstance(row, dict) and "question" not in row and "text" in row:  # the authors' questions.jsonl
                row = {"question" if key == "text" else key: value for key, value in row.items()}
            require(where, row, ["question"])
            items.append((str(row.get("question_id", len(items))), where, "image", row.get("image"), row))
        return items
    return records


READERS = {"mathvista": mathvista, "mathverse": mathverse} | {
    name: llava_bench(name) for name in ("llava_bench_wild", "llava_bench_coco")}


# ---- What is asked

def hint_of(row):
    kind = row["question_type"] if row["question_type"] == "multi_choice" else row["answer_type"]
    wanted = HINTS[kind].format(places=places_of(row))
    return f"First perform reasoning, then finally {wanted} in the following format: Answer: xxx."


def question_of(row):
    """The question of MathVista, its unit and its choices."""
    text = f"Question: {row['question']}" + (f" (Unit: {row['unit']})" if row.get("unit") else "")
    if row["question_type"] != "multi_choice":
        return text
    return "\n".join([text, "Choices:", *(f"({OPTION_LETTERS[i]}) {c}" for i, c in enumerate(row["choices"]))])


ASKS = {"question": lambda row: row["question"],
        "question, in detail": lambda row: row["question"] + IN_DETAIL,
        "query_cot": lambda row: row["query_cot"],
        "hint first": lambda row: hint_of(row) + "\n" + question_of(row),
        "hint last": lambda row: "\n".join([question_of(row), hint_of(row), CLOSEST])}


def reference_of(dataset, row):
    """(reference text, what a scorer needs)."""
    if dataset == "mathvista":
        check = {"answer": row["answer"], "question_type": row["question_type"], "answer_type": row["answer_type"],
                 "choices": row.get("choices") or [], "precision": places_of(row)}
        return row["answer"], check
    if dataset == "mathverse":
        return row["answer"], {"answer": row["answer"], "question_type": row["question_type"]}
    answer = row.get("gpt_answer")
    return answer if isinstance(answer, str) else "", {}


# ---- Codes of pictures

def codes_by_picture(files, dataset):
    """{SHA-256 of a picture's file: its codes}."""
    found = {}
    for where, row in load(files, dataset, "codes"):
        require(where, row, ["picture"], ["codes"])
        codes = row["codes"]
        if not 0 < len(codes) <= MOST_CODES or not all(type(c) is int and 0 <= c < 1 << 24 for c in codes):
            raise EnvironmentFault(f"{where}: `codes` must be a list of whole numbers from 0")
        found[row["picture"]] = codes
    return found


def tasks_of_pictures(entry, request, files, task, store):
    """(number, id, text, doc, answer, check, what shows the picture) of every record."""
    if request.form not in ("", entry["form"]):
        raise UserError(f"the benchmark {entry['name']} shows pictures through each model's own template; `prompt` must "
                        f"be {entry['form']}")
    dataset = entry["dataset"]
    records = READERS[dataset](files, task)
    codes = codes_by_picture(files, dataset) if entry["shows"] == "codes" else None
    for number, (item_id, where, key, picture, row) in enumerate(records):
        text = ASKS[entry["asks"]](row)
        if "<image>" in text:
            raise EnvironmentFault(f"{where}: the question holds <image>, which stands for the picture itself")
        if codes is None:
            name, digest = store.keep(where, key, picture)
            shows = {"images": [name]}
        else:
            digest = hashlib.sha256(store.content(where, key, picture)).hexdigest()
            if digest not in codes:
                raise EnvironmentFault(f"{where}: codes.jsonl has no line whose `picture` is {digest}")
            shows = {"codes": codes[digest]}
        answer, check = reference_of(dataset, row)
        doc = {k: plain(v) for k, v in row.items() if k != key} | {"picture": digest}
        yield number, item_id, text, doc, answer, check, shows
