# SPDX-License-Identifier: Apache-2.0
"""results/row.schema.json against real rows, against what the program writes, and against the page that
describes rows."""

import json
import os
import re
import tempfile
import unittest

from made import row_of

import unmask
from unmask.rows import flat, rows
from unmask.rows.errors import UserError

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../..")
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def fits(value, kind):
    if kind in ("integer", "number"):
        return (isinstance(value, int) or (kind == "number" and isinstance(value, float))) and not (
            isinstance(value, bool))
    return isinstance(value, TYPES[kind])


def problems(value, schema, path="row"):
    """What of the JSON Schema that the file uses does not hold of a value."""
    if "enum" in schema and value not in schema["enum"]:
        return [f"{path} is {value!r}"]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(fits(value, kind) for kind in kinds):
        return [f"{path} is of another type"]
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return [f"{path} is {value!r}"]
    found = []
    if isinstance(value, dict):
        found += [f"{path}.{k} is missing" for k in schema.get("required", []) if k not in value]
        for key, member in value.items():
            below = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            found += problems(member, below, f"{path}.{key}") if below else []
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            found.append(f"{path} has {len(value)} members")
        for member in value:
            found += problems(member, schema.get("items", {}), f"{path}[]")
    return found


def text_of(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.schema = json.loads(text_of("results/row.schema.json"))

    def test_the_keywords_are_those_that_this_test_knows(self):
        known = {"$schema", "$id", "$comment", "title", "description", "type", "required", "properties",
                 "additionalProperties", "items", "minItems", "maxItems", "enum", "pattern",
                 "default"}

        def walk(schema):
            if not schema:
                return
            self.assertLessEqual(set(schema), known)
            for below in [*schema.get("properties", {}).values(), schema.get("items", {}),
                          schema.get("additionalProperties", {})]:
                walk(below)
        walk(self.schema)

    def test_real_rows_are_as_it_says(self):
        seen = 0
        for line in text_of("results/epyc-2core/quickstart.jsonl").splitlines():
            self.assertEqual(problems(json.loads(line), self.schema), [])
            seen += 1
        for place, found in rows.places_below(os.path.join(ROOT, "results/tiny")).items():
            for row in found:
                self.assertEqual(problems(row, self.schema)[:3], [], place)
                seen += 1
        self.assertGreater(seen, 2000)

    def test_a_row_that_is_not_is_found(self):
        row = row_of("a", [1.0])
        self.assertEqual(problems(row, self.schema), [])
        for change in ({"verdict": "FINE"}, {"position": "0"}, {"score": {"mean": 1}}, {"metrics": []},
                       {"schema_version": "2.0"}, {"provenance": {"x": "guessed"}}):
            self.assertTrue(problems({**row, **change}, self.schema), change)

    def test_it_is_of_the_version_that_the_program_writes(self):
        header = text_of("harness/rows/row.h")
        version = ".".join(re.search(rf"row_schema_{part} = (\d+)", header).group(1)
                           for part in ("major", "minor"))
        self.assertTrue(self.schema["title"].endswith(f"schema {version}"), version)
        self.assertIn(f"This page describes {version}", text_of("results/FORMAT.md"))

    def test_the_page_names_every_field_and_every_key_of_run(self):
        page = text_of("results/FORMAT.md")
        table = page[page.index("| field | meaning |"):page.index("## What is timed")]
        named = set(re.findall(r"`([\w.]+)`", table))
        self.assertEqual(set(self.schema["properties"]) - named - {"schema_version"}, set())


class Frame(unittest.TestCase):
    def test_a_frame_holds_settings_bounds_and_circumstances(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.jsonl")
            first = row_of("a", [1.0, 1.1, 0.9], params={"alg": "x", "steps": 4})
            second = row_of("b", [2.0], params={"alg": 3, "steps": 8}, score=None)
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(first) + "\n" + json.dumps(second) + "\n")
            frame = unmask.read(path)
            self.assertEqual([row["label"] for row in unmask.rows_of(frame[frame.label == "b"])], ["b"])
            unmask.write(frame.sort_values("label", ascending=False), os.path.join(folder, "out.jsonl"))
            with open(os.path.join(folder, "out.jsonl"), encoding="utf-8") as file:
                self.assertEqual(file.read(), json.dumps(second) + "\n" + json.dumps(first) + "\n")
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(second) + "\n")
            with self.assertRaisesRegex(UserError, "is not the row of the point a/1/word_problem any more"):
                unmask.rows_of(frame)
            with self.assertRaisesRegex(UserError, "has lost its column `file`"):
                unmask.rows_of(frame.drop(columns="file"))
        self.assertEqual(list(frame.label), ["a", "b"])
        self.assertEqual((list(frame["params.steps"]), list(frame["params.alg"])), ([4, 8], ["x", "3"]))
        half = first["samples"]["half_width"]
        self.assertAlmostEqual(frame.tokens_per_second_low[0], 100 / (1 + half))
        self.assertTrue(frame.score.isna()[1])
        self.assertEqual((frame.commit[0], frame.cpu[0], frame.model_hash[0]), ("f" * 40, "A", "m" * 64))
        self.assertEqual(frame.attrs, {})  # pandas copies them for every column and derived frame
        for name in frame.columns:  # one type each, as Parquet wants it
            self.assertLessEqual(len({type(v) for v in frame[name].dropna()}), 1, name)
        self.assertEqual(flat.flat_row(first)["task"], "word_problem")


if __name__ == "__main__":
    unittest.main()
