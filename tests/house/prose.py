#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Measures the prose of the Markdown files and checks each file against its bounds, which may only fall.

    prose.py                  prints the measures of every file
    prose.py FILE.md          prints the measures of one file and its long sentences
    prose.py --check          exit code 1 if a file exceeds a bound of prose_bounds.json
    prose.py --lower          writes today's measures as bounds, if they are lower

A page without bounds may have none of them. Code, tables, headings and generated blocks are no prose. Pages of results
are also bounded in the numbers of their sentences that no marker names (page_values.py): settings, dates, history.
"""

import json
import os
import re
import sys

from counts import files, text_of
from page_values import with_values_as, without_markers

BOUNDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prose_bounds.json")
SHORT = ("e.g.", "i.e.", "et al.", "Fig.", "Figs.", "eq.", "eqs.", "vs.", "Eq.", "Sec.", "Tab.")
# Words that the style sheet replaces: pattern, what to write.
AVOID = {
    r"\bbeside\b": "next to, with, besides",
    r"\bheed(s|ed)?\b": "use",
    r"\bmended\b": "fixed",
    r"\b(but for|save where|save what|nor (is|are))\b": "except",
    r"\bK/V\b": "KV",
    r"\bin work\b": "current",
    r"\bwhole blocks\b": "plain block diffusion",
    r"\bspeed-ups?\b": "speedup",
    r"\bto the letter\b": "literally",
    r"\ba (forward|step)\b(?! (pass|is|of|that|takes|has))": "per forward pass, per step",
}
BOUNDED = ("over_30_words", "over_40_words", "six_numbers", "avoid", "typed_numbers")
OF_RESULTS = "results/"


def paragraphs(text):
    """[(line, prose)] without code, tables, headings, generated blocks and pictures."""
    found, part, first, code, made = [], [], 0, False, False
    for number, line in enumerate(without_markers(text).split("\n") + [""], 1):
        fence = re.match(r"\s*(```|~~~)", line)
        if fence:
            code = not code
        if line.startswith("<!-- from:"):
            made = True
        item = re.match(r"\s*([*-]|\d+\.)\s+(.*)", line)
        prose = not (code or made or fence or re.match(r"\s*(\||#|<|!\[|    )|\s*$", line))
        if part and (item or not prose):
            found.append((first, " ".join(part)))
            part = []
        if prose:
            first = first if part else number
            part.append(item.group(2) if item else line.strip())
        if line.startswith("<!-- end"):
            made = False
    return found


def sentences(prose):
    """The sentences of one paragraph; links are their words, code is one word."""
    prose = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", prose)
    prose = re.sub(r"`[^`]*`", "CODE", prose).replace("*", "")
    for short in SHORT:
        prose = prose.replace(short, short.replace(".", "\1"))
    prose = re.sub(r"(\d)\.(\d)", "\\1\1\\2", prose)
    parts = re.split(r"(?<=[.!?])[)\"]?\s+(?=[A-Z(\"\d])", prose)
    return [s.replace("\1", ".") for s in parts if s.strip()]


def words_of(sentence):
    return len(re.findall(r"[\w%'.\-/]+", sentence))


def numbers_of(sentence):
    return len(re.findall(r"(?<!\w)[-+]?\d[\d,.]*", sentence))


def measures(text):
    every = [s for _, p in paragraphs(text) for s in sentences(p)]
    return {
        "words": sum(words_of(s) for s in every),
        "sentences": len(every),
        "over_30_words": sum(words_of(s) > 30 for s in every),
        "over_40_words": sum(words_of(s) > 40 for s in every),
        "six_numbers": sum(numbers_of(s) >= 6 for s in every),
        "semicolons": sum(s.count(";") for s in every),
        "avoid": sum(len(re.findall(p, s)) for s in every for p in AVOID),
    }


def typed_numbers(text):
    """How many numbers of sentences no marker names."""
    return sum(numbers_of(s) for _, p in paragraphs(with_values_as("CODE", text)) for s in sentences(p))


# Pages that a program writes.
WRITTEN = ("results/tiny/claims", "results/gpu/measured.md")


def pages():
    texts = {f: text_of(f) for f in files() if f.endswith(".md") and not f.startswith(WRITTEN)}
    return {f: measures(text) | ({"typed_numbers": typed_numbers(text)} if f.startswith(OF_RESULTS) else {})
            for f, text in texts.items()}


def worse(now, kept):
    """The lines that name what grew. A bound that is not kept is 0."""
    found = []
    for name, measured in now.items():
        for key in BOUNDED:
            bound = kept.get(name, {}).get(key, 0)
            if measured.get(key, 0) > bound:
                found.append(f"{name}: {key} {measured[key]}, at most {bound}; prose.py {name} shows where")
    return found


def show(name):
    print(name, measures(text_of(name)))
    for line, part in paragraphs(text_of(name)):
        for s in sentences(part):
            what = [f"{words_of(s)} words"] * (words_of(s) > 30)
            what += [f"{numbers_of(s)} numbers"] * (numbers_of(s) >= 6)
            what += [f"'{m.group(0)}': {other}" for p, other in AVOID.items() for m in re.finditer(p, s)]
            if what:
                print(f"  {line}: {', '.join(what)}: {s[:100]}")


def main(arguments):
    named = [a for a in arguments if a.endswith(".md")]
    if named:
        for name in named:
            show(name)
        return 0
    now = pages()
    kept = {}
    if os.path.exists(BOUNDS):
        with open(BOUNDS, encoding="utf-8") as file:
            kept = json.load(file)
    if "--check" in arguments:
        found = worse(now, kept)
        print("\n".join(found) if found else f"{len(now)} pages are within their bounds")
        return 1 if found else 0
    if "--lower" in arguments:
        lower = {f: {k: m[k] if not kept else min(m[k], kept.get(f, {}).get(k, 0)) for k in BOUNDED if k in m} for f, m in now.items()}
        lower = {f: {k: v for k, v in m.items() if v} for f, m in lower.items() if any(m.values())}
        with open(BOUNDS, "w", encoding="utf-8") as file:
            file.write("{\n" + ",\n".join(f" {json.dumps(f)}: {json.dumps(lower[f])}" for f in sorted(lower)) + "\n}\n")
        return 0
    for name, m in sorted(now.items(), key=lambda item: -item[1]["words"]):
        print(name, *(f"{k} {v}" for k, v in m.items()))
    print("all", *(f"{k} {sum(m[k] for m in now.values())}" for k in next(iter(now.values()))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
