# SPDX-License-Identifier: Apache-2.0
"""Prompts that no harness of the papers writes: conversations and questions for speed, and needles
in a haystack whose length is counted in tokens of the model under test."""

import random

from unmask.benchmarks.prompts.data import require
from unmask.benchmarks.prompts.records import load
from unmask.rows.errors import EnvironmentFault, UserError

FEWEST_TOKENS = 4  # of a prompt and of its reference answer (FOCUS' throughput runs)
ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant",
         "chatgpt": "assistant", "bard": "assistant", "system": "system"}
CONVERSATIONS = {"sharegpt": ("conversations", "from", "value"),
                 "wildchat": ("conversation", "role", "content"),
                 "lmsys_chat": ("conversation", "role", "content")}
QUESTIONS = ("mt_bench", "vicuna_bench", "spec_bench")

# needlebench_single_32k of the UltraLLaDA code.
NEEDLE_REPETITIONS = 10
NEEDLE_BUFFER = 600  # tokens of a length that are left free
NEEDLE_FORMAT = "Please answer in the format"
NEEDLE_HINT = ("Before answering, please consider what in the document is most relevant to this "
               "question. ")


class Tokens:
    """The tokens of a text in the model's own tokenizer.json, without special ones around it."""

    def __init__(self, path, dataset):
        if not path:
            raise UserError(f"{dataset} needs the model's tokenizer.json to make its items "
                            "(--tokenizer)")
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(path)

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)


def needs_tokens(dataset):
    return dataset in CONVERSATIONS or dataset == "needlebench"


def request_of(where, row, keys, tokens):
    """(turns up to the last one of the user, reference answer); None where there is no such
    request."""
    turns_key, role_key, text_key = keys
    require(where, row, [], [turns_key])
    turns = [{"role": ROLES.get(turn.get(role_key), ""), "content": turn.get(text_key) or ""}
             for turn in row[turns_key]]
    if any(not turn["role"] for turn in turns):
        return None
    last = max((i + 1 for i, turn in enumerate(turns) if turn["role"] == "user"), default=0)
    if last in (0, len(turns)):
        return None  # nobody asked, or nobody answered
    answer = turns[last]["content"]
    prompt = "".join(turn["content"] for turn in turns[:last])
    if min(len(tokens.encode(prompt)), len(tokens.encode(answer))) < FEWEST_TOKENS:
        return None
    return turns[:last], answer


def conversations(files, dataset, tokenizer):
    """[(id, turns, reference)] of the conversations that make a request."""
    tokens = Tokens(tokenizer, dataset)
    items = []
    for number, (where, row) in enumerate(load(files, dataset, "test")):
        request = request_of(where, row, CONVERSATIONS[dataset], tokens)
        if request is not None:
            items.append((str(number), *request))
    return items


def questions(files, dataset):
    """[(id, turns, "")]: later turns need the first answer, so a request is the first turn
    alone."""
    items = []
    for where, row in load(files, dataset, "test"):
        require(where, row, [], ["turns"])
        if not row["turns"] or not str(row["turns"][0]).strip():
            raise EnvironmentFault(f"{where}: `turns` must start with a question")
        items.append((str(row["question_id"]), [{"role": "user", "content": row["turns"][0]}], ""))
    return items


def guided(question):
    head, found, tail = question.partition(NEEDLE_FORMAT)
    return head + NEEDLE_HINT + found + tail if found else question


def haystack_with(tokens, lines, needle, length, depth):
    """`length` tokens of the lines, less the buffer, with the needle at `depth` per cent."""
    hidden = tokens.encode("\n" + needle + "\n")
    room = max(length - NEEDLE_BUFFER - len(hidden), 0)
    context = []
    for line in lines:
        context += tokens.encode(line)
        if len(context) >= room:
            break
    context = context[:room]
    at = len(context) * depth // 100
    return tokens.decode(context[:at] + hidden + context[at:])


def needles(files, task, tokenizer):
    """[(id, fields, keyword, needle)] of one length and depth, as OpenCompass' seeds choose
    them."""
    tokens = Tokens(tokenizer, "needle_map")
    length, depth = (int(part) for part in task.split("-"))
    lines = [require(where, row, ["text"])["text"]
             for where, row in load(files, "needlebench", "haystack")]
    english = [require(where, row, ["needle", "retrieval_question", "arg2"])
               for where, row in load(files, "needlebench", "needles")
               if row.get("language") == "English"]
    if not english:
        raise EnvironmentFault("needles.jsonl: has no English needle")
    items = []
    for repetition in range(NEEDLE_REPETITIONS):
        random.Random(repetition).shuffle(lines)  # of the order before, as there
        chosen = random.Random(repetition).choice(english)
        context = haystack_with(tokens, lines, chosen["needle"], length, depth)
        items.append((f"{task}:{repetition}",
                      {"context": context, "question": guided(chosen["retrieval_question"])},
                      chosen["arg2"], chosen["needle"]))
    return items
