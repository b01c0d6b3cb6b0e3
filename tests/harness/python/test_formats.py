# SPDX-License-Identifier: Apache-2.0
"""Commands of the package print one JSON document where they are asked to, and nothing else on standard output."""

import contextlib
import io
import json
import unittest

import support
import unmask.__main__
from unmask.rows.errors import UserError


class Formats(support.Case):
    def printed(self, *arguments, code=0):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(unmask.__main__.call([*arguments, "--format", "json"]), code)
        return json.loads(out.getvalue())

    def test_merge(self):
        self.write("in/a.jsonl", support.line("a", 0, "FAILED") + support.line("a", 0) + support.line("b", 1, "FAILED"))
        self.write("in/run.json", '{"plan":[{"id":"a"},{"id":"gone"}]}')
        self.assertEqual(self.printed("merge", "in", "-o", "out.jsonl", code=1),
                         {"output": "out.jsonl", "points": 2, "left_out": 1, "failed": 1, "missing": ["gone"]})

    def test_compare(self):
        self.write("before.jsonl", support.line("a") + support.line("b", 1, label="b"))
        self.write("now.jsonl", support.line("a") + support.line("b", 1, "INVALID", label="b"))
        found = self.printed("compare", "before.jsonl", "now.jsonl", code=4)
        self.assertEqual((found["verdict"], found["points"]), ("DIFFERS", 2))
        self.assertEqual([(d["what"], d["before"], d["now"]) for d in found["differences"]],
                         [("verdict", "PASS", "INVALID")])

    def test_bundle(self):
        self.write("run/run.json", support.manifest())
        self.write("run/rows.jsonl", support.line("a"))
        self.assertIn("rows.jsonl", self.printed("bundle", "run", "-o", "out.tar")["files"])

    def test_score(self):
        sample = {"doc_id": 0, "doc": {}, "target": "4", "resps": [["4"]], "filtered_resps": ["4"], "item": "i",
                  "scorer": "exact_answer", "check": {"answer": "4"}}
        self.write("samples_x.jsonl", "\ufeff" + json.dumps(sample) + "\n")
        (item,) = self.printed("score", "samples_x.jsonl")
        self.assertEqual(item["item"], "i")

    def test_another_word_is_refused(self):
        with self.assertRaisesRegex(UserError, "invalid choice: 'yaml'"):
            unmask.__main__.call(["merge", "in", "-o", "x", "--format", "yaml"])


if __name__ == "__main__":
    unittest.main()
