# SPDX-License-Identifier: Apache-2.0
"""Functional correctness of answers to HumanEval and MBPP: the program that each harness reads out of
an answer, with its tests, run in the sandbox. The limits on time are the harnesses' own."""

import ast

from unmask.benchmarks.score import opencompass, sandbox

SECONDS = {"humaneval": 3.0, "mbpp_lm_eval": 3.0, "mbpp_opencompass": 10.0}
STOPS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")


def until_stop(text):
    for stop in STOPS:
        text = text.split(stop)[0]
    return text


def _parsed(lines):
    try:
        return ast.parse("\n".join(lines))
    except (SyntaxError, MemoryError, ValueError, RecursionError):
        return None


def _longest_run(lines):
    """The syntax tree of the longest run of lines that Python parses; blank lines do not count."""
    filled = [0]
    for line in lines:
        filled.append(filled[-1] + bool(line.strip()))
    best, longest = None, 0
    for first in range(len(lines)):
        for last in range(len(lines), first, -1):
            size = filled[last] - filled[first]
            if size <= longest:
                break
            tree = _parsed(lines[first:last])
            if tree is not None:
                best, longest = tree, size
    return best


def reachable(text, entry):
    """Reduces an answer to the code that its entry point needs, as Fast-dLLM, Dream and dLLM-Cache do:
    of the first 100 lines the longest run that Python parses; of that all imports, and those functions
    with a return, classes and assignments that the entry point reaches by name."""
    text = text.replace("\t", "    ").replace("\r\n", "\n").replace("\r", "\n").strip() + "\n"
    tree = _longest_run(text.splitlines()[:100])
    imports, found = [], {}
    for node in tree.body if tree else []:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        elif isinstance(node, ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.FunctionDef):
            if any(isinstance(inner, ast.Return) for inner in ast.walk(node)):
                found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
    reached, open_names = {entry}, [entry]
    while open_names:
        node = found.get(open_names.pop())
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node else set()
        open_names += names - reached
        reached |= names
    kept = imports + [node for name, node in found.items() if name in reached]
    return "\n".join(ast.unparse(node) for node in kept)


def sanitized(doc, text):
    """The first block of Python, to its end or the answer's, reduced."""
    body = text.split("```python\n", 1)[-1].split("```")[0]
    return reachable(doc["prompt"] + "\n" + body, doc["entry_point"])


# Scorer: the program before its tests.
PROGRAMS = {
    "humaneval_lm_eval": lambda doc, text: doc["prompt"] + until_stop(text),
    "humaneval_fast_dllm": sanitized,
    "humaneval_opencompass_focus":
        lambda doc, text: doc["prompt"] + opencompass.first_block(text).lstrip(),
    "humaneval_opencompass_llada": lambda doc, text: doc["prompt"] + opencompass.first_block(text),
    "humaneval_opencompass_sparse": lambda doc, text: doc["prompt"] + opencompass.before_fence(text),
    "humaneval_opencompass_sparse_chat":
        lambda doc, text: doc["prompt"] + opencompass.last_block(text),
    "mbpp_lm_eval": lambda doc, text: text.split("[DONE]")[0],
    "mbpp_opencompass": lambda doc, text: opencompass.mbpp_program(text)}


def run(scorer, doc, text):
    """(program, sandbox.Outcome)."""
    program = PROGRAMS[scorer](doc, text)
    if scorer.startswith("humaneval"):
        tests, seconds = f"{doc['test']}\ncheck({doc['entry_point']})", SECONDS["humaneval"]
    else:
        tests, seconds = "\n".join(doc["test_list"]), SECONDS[scorer]
    return program, sandbox.run_program(f"{program}\n{tests}", sandbox.Limits(seconds=seconds))
