# SPDX-License-Identifier: Apache-2.0
"""Commands of the package print one JSON document where they are asked to, and nothing else on standard output."""

import contextlib
import io
import json
import re
import unittest
import unittest.mock

import support
import unmask.__main__
from unmask.jobs import campaign
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

    def test_campaign(self):
        """The runs are made up: what they print goes elsewhere, and the document holds their records and claims."""
        with unittest.mock.patch.object(campaign.program, "call") as call, \
                unittest.mock.patch.object(campaign, "build", return_value="unmask 1, commit a"), \
                unittest.mock.patch.object(campaign.claims, "main", self.judge):
            call.return_value = unittest.mock.Mock(returncode=0)
            found = self.printed("campaign", "c", "--campaigns", "2", "--experiments-dir", self.experiments(), code=4)
        self.assertEqual({c.kwargs["stdout"] for c in call.call_args_list}, {campaign.ERRORS})
        self.assertEqual([(c["number"], c["seed"], c["program"]) for c in found["campaigns"]],
                         [(1, 0, "unmask 1, commit a"), (2, 1, "unmask 1, commit a")])
        self.assertEqual((found["directory"], found["archive"], found["claims"]), ("c", None, [{"id": "made"}]))

    def judge(self, words):
        self.assertEqual(words[:2], ["c", "--save"])
        self.write(words[words.index("-o") + 1], '[{"id": "made"}]')
        return 4

    def experiments(self):
        self.write("e/claims/none.py", "")
        return str(self.folder / "e")

    def test_another_word_is_refused(self):
        with self.assertRaisesRegex(UserError, "invalid choice: 'yaml'"):
            unmask.__main__.call(["merge", "in", "-o", "x", "--format", "yaml"])


# They print a page, a script or nothing: a file is what they make.
PAGES = {"report", "prompts", "probes", "completion", "man", "help"}
ROOT = str(support.SOURCE / "experiments")


class OfTheProgram(support.Case):
    """Each document against the text of the same command."""

    def both(self, *arguments, code=0):
        text, document = support.program(*arguments), support.program(*arguments, "--format", "json")
        self.assertEqual((text.returncode, document.returncode), (code, code), text.stderr + document.stderr)
        return text.stdout, json.loads(document.stdout)

    def test_every_command_has_it(self):
        names = re.findall(r"^  ([a-z]+) {2,}\S", support.program("--help").stdout.split("first steps")[0], re.M)
        self.assertGreater(len(names), 20)
        self.assertLess(PAGES, set(names))
        for name in set(names) - PAGES:
            told = support.program("help", name).stdout
            self.assertRegex(told, r"--format (FORMAT|\{text,json\})", name)
            self.assertIn("json", told, name)

    def test_list(self):
        """As many entries of each as the program counts, and each name is in the text."""
        text, counts = self.both("list", "--experiments-dir", ROOT)
        self.assertEqual({name: int(n) for n, name in re.findall(r"(\d+) (\w+)", text)}, counts)
        for what in ("methods", "tasks", "benchmarks", "experiments", "models", "claims"):
            text, found = self.both("list", what, "--experiments-dir", ROOT)
            entries = found if isinstance(found, list) else found.get("artifacts", []) + found.get(what, [])
            made = [entry for entry in entries if not (isinstance(entry, dict) and entry.get("opt_in"))]
            self.assertEqual(len(made), counts[what], what)
            for entry in entries:
                name = entry if isinstance(entry, str) else entry.get("name") or entry.get("id") or entry["path"]
                self.assertIn(name, text)

    def test_list_of_one_benchmark(self):
        text, found = self.both("list", "benchmarks", "gsm8k")
        self.assertEqual({b["name"] for b in found["benchmarks"]}, {"gsm8k"})
        self.assertIn(found["data"][0]["files"]["test"][0], text)

    def test_show(self):
        text, found = self.both("show", "ada_dlm")
        self.assertEqual([p["name"] for p in found["parameters"]],
                         re.findall(r"^  (\w+) +(?:bool|integer|real|text) =", text, re.M))
        self.assertEqual(set(found["presets"]), set(re.findall(r"^preset ([^:]+):", text, re.M)))
        text, tables = self.both("show", "format")
        keys = [key["name"] for table in tables for key in table["keys"]]
        self.assertIn("batch_size", keys)
        self.assertEqual([key for key in keys if f"`{key}`" not in text], [])

    def test_generate(self):
        text, found = self.both("generate", "Compute 5 * 7 - 15 - 19 + 38.", "-n", "32")
        self.assertEqual(found["text"] + "\n", text)
        self.assertEqual((len(found["tokens"]), found["forwards"]), (found["output_tokens"], 32))  # one token a forward
        self.assertIn("--watch draws on standard output",
                      support.program("generate", "x", "--watch", "--format", "json").stderr)

    def test_profile(self):
        text, found = self.both("profile", "tiny-llada", "--tool", "nsys", "--print-command")
        self.assertEqual([" ".join(words) for words in found["commands"]], text.replace("'", "").splitlines())
        done = support.program("profile", "tiny-llada", "-m", "fast_dllm", "--limit", "1", "-n", "32", "--no-roofs",
                               "--repetitions", "1", "--format", "json")
        (phases,) = json.loads(done.stdout)
        self.assertIn("attention", done.stdout)
        self.assertEqual({len(line) for line in phases["rows"]}, {len(phases["columns"])})

    def test_doctor_has_an_alias(self):
        alias, named = support.program("doctor", "--json"), support.program("doctor", "--format", "json")
        self.assertEqual(json.loads(alias.stdout)["cpu_model"], json.loads(named.stdout)["cpu_model"])
        self.assertIn(json.loads(alias.stdout)["cpu_model"], support.program("doctor").stdout)

    def test_plan(self):
        self.write("e.toml", support.EXPERIMENT.replace("models/", f"{ROOT}/models/"))
        text, (plan,) = self.both("plan", "e.toml")
        self.assertEqual(len(plan["points"]), 2)
        self.assertRegex(text, r"\| 2 \|")


if __name__ == "__main__":
    unittest.main()
