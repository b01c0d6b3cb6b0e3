#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Every message that harness/TROUBLESHOOTING.md quotes is in the sources, word for word."""

import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "harness", "TROUBLESHOOTING.md")
SOURCES = ("harness", "kernels", "cmake", "plots", "dev")
GAP = 300  # letters of code between two parts of a message, at most


def messages(text):
    """The quoted messages: code in a line that begins an item of a list with one, and code that leaves something out."""
    found = []
    for line in text.split("\n"):
        if line.startswith("* `"):
            found += re.findall(r"`([^`]+)`", line)
        else:
            found += [m for m in re.findall(r"`([^`]+)`", line) if "…" in m]
    return found


def as_one_text(source):
    """The source with the parts of texts that are next to each other joined, and without escapes."""
    source = re.sub(r'"\s*\\?\s*(?:f|r)?"', "", source)
    return source.replace('\\"', '"').replace("\\$", "$")


def sources():
    for name in SOURCES:
        path = os.path.join(ROOT, name)
        files = [path] if os.path.isfile(path) else [os.path.join(folder, f) for folder, _, names in os.walk(path)
                                                     for f in names if f.endswith((".cpp", ".h", ".py", ".cmake"))]
        for file in files:
            with open(file, encoding="utf-8") as text:
                yield as_one_text(text.read())


def pattern_of(message):
    parts = [re.escape(part) for part in re.split(r"\s*…\s*", message) if part.strip()]
    return re.compile(f"[^`]{{0,{GAP}}}?".join(parts), re.DOTALL)


class Messages(unittest.TestCase):
    def test_each_is_in_the_sources(self):
        with open(PAGE, encoding="utf-8") as page:
            quoted = messages(page.read())
        self.assertGreater(len(quoted), 20)
        texts = list(sources())
        missing = [m for m in quoted if not any(pattern_of(m).search(text) for text in texts)]
        self.assertEqual(missing, [])

    def test_another_word_is_found_out(self):
        text = as_one_text('throw error("cannot write " + path +\n  (reason ? " (" : "")); fmt::format("a "\n   "b {}; c", x)')
        for message, there in (("cannot write … (…)", True), ("a b …; c", True), ("cannot read …", False), ("a c …", False),
                               ("…; c … a b", False)):
            self.assertEqual(bool(pattern_of(message).search(text)), there, message)


if __name__ == "__main__":
    unittest.main()
