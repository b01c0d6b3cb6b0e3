# SPDX-License-Identifier: Apache-2.0
"""Exact scorers of the task families. README.md holds the definitions in words."""
import re

import listlang


def final_number(text, item):
    """Integer after the last `####` against check.value."""
    at = text.rfind("####")
    if at < 0:
        return 0.0
    m = re.match(r"-?[0-9]+", text[at + 4:].strip())
    return float(bool(m) and int(m.group()) == item["check"]["value"])


def list_program(text, item):
    """Share is all or nothing: every hidden input must give its output."""
    check = item["check"]
    try:
        ok = all(listlang.run(text, list(x)) == y
                 for x, y in zip(check["inputs"], check["outputs"]))
    except (listlang.ProgramError, OverflowError):
        ok = False
    return float(ok)


def _items(text, rule):
    end = rule.get("strip", "")
    if end and text.endswith(end):
        text = text[:-len(end)]
    return text.split(rule["sep"])


def _holds(text, rule):
    kind = rule["type"]
    if kind == "equals":
        return text == rule["text"]
    if kind == "starts_with":
        return text.startswith(rule["text"])
    if kind == "ends_with":
        return text.endswith(rule["text"])
    if kind == "contains":
        return rule["text"] in text
    if kind == "not_contains":
        return rule["text"] not in text
    if kind == "repeat":
        return text.count(rule["text"]) == rule["count"]
    if kind == "word_count":
        return len(text.split()) == rule["count"]
    if kind == "all_upper":
        return bool(re.search("[A-Z]", text)) and not re.search("[a-z]", text)
    if kind == "one_of":
        return text in rule["texts"]
    items = _items(text, rule)
    if kind == "item_count":
        return len(items) == rule["count"]
    if kind == "items_in":
        return all(x in rule["set"] for x in items)
    if kind == "items_unique":
        return len(set(items)) == len(items)
    if kind == "sorted":
        return items == sorted(items)
    if kind == "items_start_with":
        return all(x.startswith(rule["prefix"]) for x in items)
    if kind == "latin_square":
        rows, symbols = [x.split(" ") for x in items], sorted(rule["set"])
        return (len(rows) == len(symbols) and all(sorted(row) == symbols for row in rows)
                and all(sorted(column) == symbols for column in zip(*rows)))
    raise ValueError(f"unknown constraint {kind}")


def constraints(text, item):
    return float(all(_holds(text.strip(), r) for r in item["check"]["constraints"]))


def exact(text, item):
    return float(text.strip() == item["answer"].strip())


def contains(text, item):
    """check.text occurs and is not part of a longer run of digits."""
    return float(bool(re.search(r"(?<![0-9])" + re.escape(item["check"]["text"]) + r"(?![0-9])",
                                text)))


def rouge_l(text, item):
    """F1 of the longest common subsequence of lower-cased [a-z0-9]+ words."""
    a = re.findall(r"[a-z0-9]+", text.lower())
    b = re.findall(r"[a-z0-9]+", item["answer"].lower())
    row = [0] * (len(b) + 1)
    for x in a:
        prev = 0
        for j, y in enumerate(b):
            prev, row[j + 1] = row[j + 1], prev + 1 if x == y else max(row[j + 1], row[j])
    lcs = row[-1]
    if not lcs:
        return 0.0
    p, r = lcs / len(a), lcs / len(b)
    return 2 * p * r / (p + r)


SCORERS = {"final_number": final_number, "list_program": list_program, "constraints": constraints,
           "exact": exact, "contains": contains, "rouge_l": rouge_l,
           "none": lambda text, item: 0.0}


def score(text, item):
    return SCORERS[item["scorer"]](text, item)
