# SPDX-License-Identifier: Apache-2.0
"""The records of each data set in the form of the Hub's, which lm-eval's tasks take, from either
form of its files. A record's own number goes beside it as its id."""

from unmask.benchmarks.prompts.data import named_rows, require, rows_of
from unmask.benchmarks.prompts.registry import register
from unmask.rows.errors import EnvironmentFault

OPTION_LETTERS = "ABCDEFGHIJ"
GPQA_COLUMNS = ("Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2",
                "Incorrect Answer 3")
MBPP_TEST = range(11, 511)      # task_id of the official test split
SANITIZED_ASKED = slice(7, 264)  # rows of the sanitized array that OpenCompass asks


def names_of_files(dataset, split, task=""):
    entry = register()["datasets"][dataset]
    folder = entry.get("task_folders", {}).get(task, task)
    return [name.replace("{task}", folder) for name in entry["files"][split]]


def load(files, dataset, split, task=""):
    """[(where, record)] of the files of a split as they stand."""
    found = files.find(dataset, names_of_files(dataset, split, task))
    rows = []
    for name, content in found:
        part = rows_of(name, content)
        rows.extend((f"{name}, item {number}", row) for number, row in enumerate(part))
    if not rows:
        raise EnvironmentFault(f"{found[0][0]}: holds no item")
    return rows


def load_named(files, dataset, split, columns, task=""):
    """The same where a file may be CSV with a row of names."""
    rows = []
    for name, content in files.find(dataset, names_of_files(dataset, split, task)):
        for number, row in enumerate(named_rows(name, rows_of(name, content), columns)):
            rows.append((f"{name}, item {number}", row))
    return rows


def plain(files, dataset, split, task, texts):
    return [require(where, row, texts) for where, row in load(files, dataset, split, task)]


def gsm8k(files, split, task):
    return numbered(plain(files, "gsm8k", split, task, ["question", "answer"]))


def gsm8k_pool(files, split, task):
    """The training rows: one that lacks its text is an error only where it is drawn."""
    return [row for _, row in load(files, "gsm8k", split, task)]


def math(files, split, task):
    folder = register()["datasets"]["math"]["task_folders"].get(task, task)
    found = files.find("math", names_of_files("math", split, task))
    items = []
    for name, content in found:
        rows = rows_of(name, content)
        for number, row in enumerate(rows):
            file = name.rsplit("/", 1)[-1] if len(found) > 1 or name.endswith(".json") else number
            items.append((f"{split}/{folder}/{file}",
                          require(f"{name}, item {number}", row, ["problem", "solution"])))
    return items


def math500(files, split, task):
    return [(row["unique_id"], row) for row in
            plain(files, "math500", split, task, ["problem", "solution", "answer", "unique_id"])]


def mmlu(files, split, task):
    items = []
    for number, (where, row) in enumerate(load(files, "mmlu", split, task)):
        if isinstance(row, list):
            if len(row) != 6 or row[5] not in ("A", "B", "C", "D"):
                raise EnvironmentFault(f"{where}: must be a question, four options and a letter A "
                                       "to D")
            row = {"question": row[0], "subject": task, "choices": row[1:5],
                   "answer": "ABCD".index(row[5])}
        require(where, row, ["question"], ["choices"])
        items.append((f"{task}:{number}", {k: row[k] for k in ("question", "subject", "choices",
                                                               "answer")}))
    return items


def arc(files, split, _):
    items = []
    for number, (where, row) in enumerate(load(files, "arc", split)):
        question = row.get("question")
        if isinstance(question, dict):  # the authors' form
            options = question.get("choices") or []
            row = {"id": row.get("id") or f"arc_challenge:{number}",
                   "question": question.get("stem"),
                   "choices": {"text": [c["text"] for c in options],
                               "label": [c["label"] for c in options]},
                   "answerKey": row.get("answerKey")}
        require(where, row, ["question", "answerKey"])
        if row["answerKey"] not in row["choices"]["label"]:
            raise EnvironmentFault(f"{where}: `answerKey` is the label of no choice")
        items.append((f"arc_challenge:{number}", row))
    return items


def piqa(files, split, _):
    rows = load(files, "piqa", split)
    labels = [row for _, row in load(files, "piqa", {"valid": "labels"}.get(split, "train_labels"))]
    if len(labels) != len(rows):
        raise EnvironmentFault(f"{rows[0][0].rsplit(',', 1)[0]}: has {len(rows)} items and "
                               f"{len(labels)} labels")
    items = []
    for number, ((where, row), label) in enumerate(zip(rows, labels)):
        label = label["label"] if isinstance(label, dict) else label.strip()
        if str(label) not in ("0", "1"):
            raise EnvironmentFault(f"{where}: its label must be 0 or 1")
        if not any(str(row.get(key, "")).strip() for key in ("goal", "sol1", "sol2")):
            raise EnvironmentFault(f"{where}: `goal` is empty; the file is incomplete")
        items.append((str(number), {"goal": row["goal"], "sol1": row["sol1"], "sol2": row["sol2"],
                                    "label": int(label)}))
    return items


def gpqa(files, split, _):
    rows = load_named(files, "gpqa", split, GPQA_COLUMNS)
    return numbered([{key: require(where, row, GPQA_COLUMNS)[key] for key in GPQA_COLUMNS}
                     for where, row in rows])


def humaneval(files, split, _):
    keys = ("task_id", "prompt", "canonical_solution", "test", "entry_point")
    return [(row["task_id"], {key: row[key] for key in keys})
            for row in plain(files, "humaneval", split, "", keys)]


def mbpp(files, split, _):
    rows = load(files, "mbpp", split)
    if split == "sanitized":
        rows = rows[SANITIZED_ASKED] if len(rows) != 257 else rows  # the Hub's test split is that
        text = "prompt"
    else:
        rows = [(where, row) for where, row in rows if row.get("task_id") in MBPP_TEST]
        text = "text"
    items = []
    for where, row in rows:
        require(where, row, [text, "code"], ["test_list"])
        items.append((str(row["task_id"]), {"task_id": row["task_id"], "text": row[text],
                                            "code": row["code"],
                                            "test_list": list(row["test_list"])}))
    return items


def ifeval(files, split, _):
    items = []
    for where, row in load(files, "ifeval", split):
        require(where, row, ["prompt"], ["instruction_id_list", "kwargs"])
        items.append((str(row["key"]), {key: row[key] for key in
                                        ("key", "prompt", "instruction_id_list", "kwargs")}))
    return items


def longbench(files, split, task):
    items = []
    for number, (where, row) in enumerate(load(files, "longbench", split, task)):
        require(where, row, ["context"], ["answers"])
        if not isinstance(row.get("input"), str):
            raise EnvironmentFault(f"{where}: `input` must be a text")
        items.append((f"{task}:{number}", row))
    return items


def cnn_dm(files, split, _):
    keys = ("article", "highlights")
    return numbered([{key: require(where, row, keys)[key] for key in keys}
                     for where, row in load_named(files, "cnn_dm", split, keys)])


def numbered(rows):
    return [(str(number), row) for number, row in enumerate(rows)]


READERS = {"gsm8k": gsm8k, "math": math, "math500": math500, "mmlu": mmlu, "arc": arc, "piqa": piqa,
           "gpqa": gpqa, "humaneval": humaneval, "mbpp": mbpp, "ifeval": ifeval,
           "longbench": longbench, "cnn_dm": cnn_dm}


def read(files, dataset, split, task=""):
    """[(id, record)] of a split, each whole; an error names the file and the item that is not."""
    return READERS[dataset](files, split, task)


def read_pool(files, dataset, split, task=""):
    """The records that examples are drawn from, in the order of the file."""
    if dataset == "gsm8k":
        return gsm8k_pool(files, split, task)
    return [row for _, row in read(files, dataset, split, task)]
