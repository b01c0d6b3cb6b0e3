# SPDX-License-Identifier: Apache-2.0
"""Prompts as OpenCompass makes them. Its configs are data (benchmarks.json, fewshot/); what it
does with them is here: {name} is replaced and nothing else, turns are joined by newlines for a
plain model and merged by role for an API model."""

import re

from unmask.benchmarks.prompts.records import OPTION_LETTERS
from unmask.benchmarks.prompts.registry import examples as written_examples
from unmask.rows.errors import UserError

LETTERS = "ABCD"
# GPQA: the orders of correct, wrong 1, 2, 3 under A to D; row i, counted from 1, takes order i mod
# 4.
GPQA_ORDERS = ("ABCD", "BCDA", "CDAB", "DABC")
# Qasper has the prompt and the length of the multi-document questions.
LONGBENCH_SHARED = "hotpotqa"


def filled(template, fields):
    """Replaces {name} of the fields in one pass; everything else stays, {{ and }} too."""
    return re.sub(r"\{([^{}]*)\}", lambda m: fields.get(m[1], m[0]), template)


def options(texts, right):
    """The fields of a question with options under letters."""
    fields = {letter: text for letter, text in zip(OPTION_LETTERS, texts)}
    return fields | {"answer": OPTION_LETTERS[right]}


def gpqa_options(number, row):
    """The options of row `number`, counted from 0, and which of them is right: the first of that
    text."""
    columns = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
    order = GPQA_ORDERS[(number + 1) % 4]
    texts = [row[columns[LETTERS.index(letter)]] for letter in order]
    return texts, texts.index(row["Correct Answer"])


def longbench_text(task, row, prompts):
    """OpenCompass 0.4.2: three tasks differ from LongBench's own prompts."""
    form = prompts[LONGBENCH_SHARED if task == "qasper" else task]
    if task == "narrativeqa":
        form = form.replace("asconcisely", "as concisely")
    if task == "multi_news":
        form += "\n"
    return filled(form, {"context": row["context"], "input": row["input"]})


def fields_of(dataset, number, row, task="", settings=None):
    """What {name} stands for in the templates of a record."""
    if dataset == "mmlu":
        return {"input": row["question"], "subject": task.replace("_", " ")} | options(
            row["choices"], row["answer"])
    if dataset == "arc":
        right = row["choices"]["label"].index(row["answerKey"])
        return {"question": row["question"]} | options(row["choices"]["text"], right)
    if dataset == "piqa":
        fields = {"goal": row["goal"], "sol1": row["sol1"], "sol2": row["sol2"]}
        return fields | options([row["sol1"], row["sol2"]], row["label"])
    if dataset == "gpqa":
        return {"question": row["Question"]} | options(*gpqa_options(number, row))
    if dataset == "mbpp":
        return {"text": row["text"], "code": row["code"], "test_list": "\n".join(row["test_list"])}
    if dataset == "longbench":
        return {"text": longbench_text(task, row, settings["prompts"])}
    return {key: value for key, value in row.items() if isinstance(value, str)}


def filled_turns(turns, fields):
    return [{"role": t["role"], "content": filled(t["content"], fields)} for t in turns]


def joined(turns):
    return "\n".join(turn["content"] for turn in turns)


def for_chat(turns):
    """What an API model gets: no empty turns, neighbours of one role in one."""
    merged = []
    for turn in turns:
        if not turn["content"]:
            continue
        if merged and merged[-1]["role"] == turn["role"]:
            merged[-1]["content"] += "\n" + turn["content"]
        else:
            merged.append(dict(turn))
    return merged


def render(style, fields, examples, form, system=True):
    """The text, or the turns for a chat, of a question behind these examples' fields."""
    question = filled_turns(style["question"], fields)
    example = style.get("example", [])
    if style.get("plain"):
        text = filled(style["lead"], fields)
        text += "".join(joined(filled_turns(example, shown)) + "\n" for shown in examples)
        if not examples and example:
            text += "\n"  # the separator closes the list even where every example was dropped
        turns = [{"role": "user", "content": text + joined(question)}]
    else:
        turns = [turn for shown in examples for turn in filled_turns(example, shown)] + question
    if form in ("raw", "bos"):
        return joined(turns)
    if form == "one-turn":
        return [{"role": "user", "content": joined(turns)}]
    first = [{"role": "system", "content": style["system"]}] if system and "system" in style else []
    return first + for_chat(turns)


def example_fields(entry, shots, pool):
    """The fields of the examples that stand before every question of a task."""
    if shots == 0:
        return []
    if "written" in entry:
        there = written_examples(entry["written"])
    elif "examples" in entry:
        there = pool
    else:
        raise UserError(f"the benchmark {entry['name']} ({entry['harness']}) has no examples to "
                        "put before the question; `shots` must be 0")
    if len(there) < shots:
        raise UserError(f"{entry['name']}: {shots} examples were asked for, and there are "
                        f"{len(there)}")
    return there[:shots]
