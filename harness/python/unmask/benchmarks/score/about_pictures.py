# SPDX-License-Identifier: Apache-2.0
"""Answers about pictures, as far as they can be judged without a judge.

MathVista and MathVerse have a language model read the answer out of the text, and MathVerse has it compare too. Here
an answer is what stands behind the last "Answer:", else the whole text; a mark at its end is dropped. It is scored if
it is of the kind that the question asks for, by MathVista's own rules of comparison. Every other one is undecided."""

import ast
import math
import re

MARK = "Answer:"
ENDINGS = " \t\r\n.,;:!"
LETTERS = "ABCDEFGHIJ"
LONGEST_LIST = 1000  # characters
NEEDS_A_JUDGE = "a judge must read it"


def answer_in(text):
    """(the answer, whether it was marked as one)."""
    _, mark, behind = text.rpartition(MARK)
    return (behind if mark else text).strip().rstrip(ENDINGS), bool(mark)


def choice_of(answer, choices):
    """The choice that an answer names: by its text, by its letter, or by both; None where it does not."""
    if answer in choices:
        return answer
    match = re.fullmatch(r"\(?([A-J])\)?", answer) or re.fullmatch(r"\(([A-J])\)\s*(.+)", answer, re.DOTALL)
    if match is None or LETTERS.index(match[1]) >= len(choices):
        return None
    named = choices[LETTERS.index(match[1])]
    return named if match.lastindex == 1 or match[2].strip() in (named, named.rstrip(ENDINGS)) else None


def number_of(answer):
    try:
        value = float(answer)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def list_of(answer):
    """A list of numbers or texts, as Python writes it."""
    if len(answer) > LONGEST_LIST or not answer.startswith("["):
        return None
    try:
        value = ast.literal_eval(answer)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return str(value) if isinstance(value, list) else None


def normal(answer, doc):
    """An answer in the form of MathVista's references; None where it is of another kind."""
    if doc["question_type"] == "multi_choice":
        return choice_of(answer, doc.get("choices") or [])
    if doc["answer_type"] == "list":
        return list_of(answer)
    value = number_of(answer)
    if value is None:
        return None
    if doc["answer_type"] == "integer":
        return str(int(value))
    return str(round(value, int(doc.get("precision") or 0)))


def mathvista(doc, text):
    """(right or None, the answer)."""
    answer, _ = answer_in(text)
    found = normal(answer, doc)
    return (None if found is None else found.strip() == str(doc["answer"]).strip()), answer


def letter_of(answer):
    """The letter of a multiple choice: alone, in brackets, or before a colon or a full stop."""
    match = re.fullmatch(r"\(?([A-J])\)?(?:\s*[:.].*)?|\(([A-J])\)\s.*", answer, re.DOTALL)
    return match and (match[1] or match[2])


def mathverse(doc, text):
    """(right or None, the answer). An open answer that differs is wrong only where it is marked as the answer: a
    longer text may hold the right one."""
    answer, marked = answer_in(text)
    wanted = str(doc["answer"]).strip()
    if doc["question_type"] == "multi-choice":
        found = letter_of(answer)
        return (None if found is None else found == wanted), answer
    if answer == wanted:
        return True, answer
    return (False if marked else None), answer
