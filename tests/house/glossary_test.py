#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Holds what the project shows to its glossary (harness/python/unmask/rows/glossary.toml): headings of tables,
metrics of rows, verdicts, and words that the glossary replaces."""

import importlib.util
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "harness" / "python" / "unmask"
# Tables of other things than columns of results: CSV by stored names, the glossary itself, keys of files.
OTHER_TABLES = {"harness/rows/table.cpp": 1, "harness/rows/glossary.cpp": 2}
OTHER_LISTS = {"harness/python/unmask/tables/layout.py": 2}  # CSV by stored names, a paper's own headings
# Words of the glossary's `replaces` that are wrong in every heading, help, statement and page, however they are
# meant. Others (place, point, row, slot, ...) are right in one of their senses.
REPLACED = re.compile(
    r"(?<!')\b(?:tok/s|speed-ups?|K/V|whole blocks|canvas|delivered/forward|committed/step|tokens / step"
    r"|tokens / forward|rows / token|rows a token|tokens a forward|tokens a step|NOT VERIFIED|NOT_VERIFIED|NOT_SUPPORTED"
    r"|AMBIGUOUS|PARTLY|not clear|commit forwards?)(?!\w)(?!')")


def load_glossary():
    spec = importlib.util.spec_from_file_location("glossary", PACKAGE / "rows" / "glossary.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GLOSSARY = load_glossary()


def text_of(path):
    return path.read_text(encoding="utf-8")


def literal(text):
    """The text of C++ string literals that stand together."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text))


def cpp_columns(text):
    """The names that table_with() is called with."""
    found = []
    for call in re.findall(r"table_with\(\s*\{(.*?)\}\)", text, re.DOTALL):
        for part in re.findall(r'"([^"]*)"', call):
            found += [name.lstrip(">") for name in part.split(" | ")]
    return found


def python_columns(text):
    """The names that glossary.columns(), heading() and heading_of() are called with."""
    found = []
    for call in re.findall(r"glossary\.columns\(\s*((?:\"[^\"]*\"\s*)+)\)", text):
        found += [name.lstrip(">") for name in literal(call).split(" | ")]
    return found + re.findall(r"(?:glossary\.heading|heading_of)\(\"([^\"]+)\"\)", text)


def metrics_of_the_page(page):
    """The names of metrics that results/FORMAT.md explains, with the endings of families put together."""
    part = page[page.index("## Metrics"):page.index("## Probes")]
    found = []
    for first in re.findall(r"^\| (`[^|]*) \|", part, re.MULTILINE):
        names = re.findall(r"`([\w]+)`", first)
        if "mean_seconds" in names:  # "ttfb_" + "p50_seconds"
            found += [a + b for a in names if a.endswith("_") for b in names if b.endswith("_seconds")]
            continue
        whole = next((n for n in names if not n.startswith("_")), "")
        for name in names:
            # "e2e_p50_seconds", "_p95_": another percentile; "batch_mean", "_p50": another ending.
            if name.startswith("_") and name.endswith("_"):
                found.append(re.sub(r"_p\d+_", name, whole))
            elif name.startswith("_"):
                spelled = [whole.rsplit("_", n)[0] + name for n in (1, 2, 3)]
                found.append(next(filter(GLOSSARY.find_heading, spelled), spelled[0]))
            else:
                found.append(name)
    return found


class Words(unittest.TestCase):
    def test_no_two_columns_share_a_heading_or_a_stored_name(self):
        columns = GLOSSARY.GLOSSARY["columns"]
        for key in ("word", "stored"):
            names = [t[key] for t in columns if key in t]
            self.assertEqual(sorted(names), sorted(set(names)))

    def test_a_meaning_is_short_and_there(self):
        for section, terms in GLOSSARY.GLOSSARY.items():
            for t in terms:
                self.assertLessEqual(set(t), {"word", "meaning", "replaces", "stored", "of", "when"}, t)
                self.assertTrue(0 < len(t["meaning"].split()) <= 30, (section, t["word"]))
                self.assertFalse(REPLACED.search(t["word"]), t["word"])

    def test_what_is_replaced_is_no_heading(self):
        headings = {t["word"] for t in GLOSSARY.GLOSSARY["columns"]}
        of_columns = {old for t in GLOSSARY.GLOSSARY["columns"] for old in t.get("replaces", [])}
        self.assertEqual(headings & of_columns, set())


class Headings(unittest.TestCase):
    def test_every_column_that_is_asked_for_is_there(self):
        asked = [name for path in ROOT.glob("harness/**/*.cpp") for name in cpp_columns(text_of(path))]
        self.assertGreater(len(asked), 60)
        for folder in ("harness/python", "plots"):
            for path in (ROOT / folder).rglob("*.py"):
                asked += python_columns(text_of(path))
        self.assertGreater(len(asked), 150)
        self.assertEqual([name for name in asked if GLOSSARY.find_heading(name) is None], [])

    def test_tables_take_their_headings_from_the_glossary(self):
        literals, lists = {}, {}
        for path in sorted(ROOT.glob("harness/**/*.cpp")):
            found = len(re.findall(r"text_table(?: \w+)?\{\s*\"", text_of(path)))
            literals.update({str(path.relative_to(ROOT)): found} if found else {})
        for path in sorted(PACKAGE.rglob("*.py")):
            found = len(re.findall(r"\bTable\((?!glossary\.columns)(?=[\[\"])", text_of(path)))
            lists.update({str(path.relative_to(ROOT)): found} if found else {})
        self.assertEqual((literals, lists), (OTHER_TABLES, OTHER_LISTS))

    def test_every_metric_has_a_heading(self):
        names = metrics_of_the_page(text_of(ROOT / "results/FORMAT.md"))
        self.assertGreater(len(names), 110)
        missing = [name for name in names if GLOSSARY.find_heading(name) is None]
        self.assertEqual(missing, [])
        self.assertEqual(GLOSSARY.find_heading("ttfb_p90_seconds"), "TTFB P90, ms")
        self.assertEqual(GLOSSARY.find_heading("chosen_chunk_full_share"), "chosen tokens/request full share")
        self.assertIsNone(GLOSSARY.find_heading("ttfb_seconds"))

    def test_arranged_tables_use_no_replaced_word(self):
        found = [(path.name, header) for path in sorted((ROOT / "experiments").rglob("*.toml"))
                 for header in re.findall(r'\bheader = "([^"]*)"', text_of(path)) if REPLACED.search(header)]
        self.assertEqual(found, [])


class Texts(unittest.TestCase):
    def test_help_uses_no_replaced_word(self):
        help_texts = [text_of(path) for path in (ROOT / "harness/cli").glob("*.cpp")]
        shown = [line for text in help_texts for line in re.findall(r'"((?:[^"\\]|\\.)*)"', text)]
        self.assertGreater(len(shown), 500)
        for path in PACKAGE.rglob("*.py"):
            shown += re.findall(r'help="([^"]*)"', text_of(path))
        self.assertEqual([line for line in shown if REPLACED.search(line)], [])

    def test_pages_and_figures_use_no_replaced_word(self):
        found = []
        for path in sorted((ROOT / "plots").glob("*.py")):
            for line in text_of(path).split("\n"):
                shown = re.sub(r"#.*", "", line)
                if re.search(r"[\"'>]", shown) and REPLACED.search(re.sub(r'class="canvas"', "", shown)):
                    found.append((path.name, line.strip()))
        self.assertEqual(found, [])

    def test_claims_use_no_replaced_word(self):
        found = [line for path in sorted((ROOT / "experiments/claims").glob("*.py"))
                 for line in re.findall(r'statement="([^"]*)"', text_of(path)) if REPLACED.search(line)]
        self.assertEqual(found, [])

    def test_a_replaced_word_is_found(self):
        for words in ("rows computed, tok/s", "the speed-up of it", "K/V, MB", "AMBIGUOUS (unpaired)", "the canvas"):
            self.assertTrue(REPLACED.search(words), words)
        for words in ("tokens/s", "the speedup", "'NOT_VERIFIED'", "INCONCLUSIVE", "KV"):
            self.assertFalse(REPLACED.search(words), words)


class Pages(unittest.TestCase):
    def test_the_page_of_verdicts_explains_each(self):
        page = re.sub(r"\s+", " ", text_of(ROOT / "results/VERDICTS.md"))
        for of, words in GLOSSARY.VERDICTS.items():
            for word in words.values():
                self.assertIn(f"**{word}**", page, of)

    def test_the_glossary_is_what_the_program_prints(self):
        self.assertIn("<!-- from: unmask show glossary -->", text_of(ROOT / "GLOSSARY.md"))
        for section in GLOSSARY.GLOSSARY:
            self.assertIn(f"## {section.capitalize()}\n", text_of(ROOT / "GLOSSARY.md"))
        if len(PROGRAM) == 1:
            printed = subprocess.run([PROGRAM[0], "show", "glossary", "--format", "json"], capture_output=True,
                                     text=True, check=True).stdout
            self.assertEqual(printed.count('"word": '), sum(map(len, GLOSSARY.GLOSSARY.values())))


PROGRAM = [argument for argument in sys.argv[1:] if not argument.startswith("-")]

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
