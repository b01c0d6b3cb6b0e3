#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Every `Class::function` that a Markdown file names exists in the C++ sources.

The cards of the methods map equations to functions; a name that was changed in the code alone breaks that map.
"""

import re
import sys

import counts

NAMED = re.compile(r"`([a-z][a-z0-9_]*)::([a-z][a-z0-9_]*)")


def known():
    """Per class, enum or namespace, every word of its bodies, and the functions defined outside."""
    words = {}
    names = [f for f in counts.files() if f.endswith(counts.CPP)]
    for name in names:
        text = re.sub(r"//.*", "", counts.text_of(name))
        for owner, function in re.findall(r"\b([a-z][a-z0-9_]*)::([a-z][a-z0-9_]*)\s*\(", text):
            words.setdefault(owner, set()).add(function)
    for owner, body in counts.classes(names, r"[a-z][a-z0-9_]*"):
        words.setdefault(owner, set()).update(re.findall(r"\w+", body))
    for name in names:
        text = re.sub(r"//.*", "", counts.text_of(name))
        for owner, body in re.findall(r"\benum(?:\s+class)?\s+(\w+)[^{;]*\{([^}]*)\}", text):
            words.setdefault(owner, set()).update(re.findall(r"\w+", body))
    # Operations: free functions of the kernels, whatever they hang on.
    operations = {w for n in names if n.startswith("kernels/") or "/kernels/" in n
                  for w in re.findall(r"\b([a-z][a-z0-9_]*)\s*\(", counts.text_of(n))}
    words["backend"] = operations
    # An operation is a struct of parameters in a header of kernels, here or of a method.
    words["op"] = {w for n in names if n.endswith(".h") and (n.startswith("kernels/") or "/kernels/" in n)
                   for w in re.findall(r"\bstruct (\w+)", counts.text_of(n))}
    return words


def main():
    words, wrong, checked = known(), 0, 0
    for name in [f for f in counts.files() if f.endswith(".md")]:
        for at, line in enumerate(counts.text_of(name).split("\n"), 1):
            for owner, function in NAMED.findall(line):
                if owner == "std":
                    continue
                checked += 1
                if function not in words.get(owner, set()):
                    print(f"{name}:{at}: `{owner}::{function}` does not exist")
                    wrong += 1
    print(f"{checked} functions named in Markdown files, {wrong} wrong")
    return 1 if wrong or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
