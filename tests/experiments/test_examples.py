# SPDX-License-Identifier: Apache-2.0
"""The examples of the engine in Python (experiments/examples), as a reader starts them."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "experiments/examples"
PNG = b"\x89PNG"


class Examples(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def said(self, name, *words, code=0):
        done = subprocess.run([sys.executable, "-B", EXAMPLES / name, "-o", self.folder, *words], capture_output=True,
                              text=True, check=False, timeout=600, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def rows(self):
        return [json.loads(line) for line in (self.folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]

    def test_an_idea_against_two_baselines(self):
        text = self.said("own_rule.py", "--limit", "4")
        rows = {row["label"]: row for row in self.rows() if "label" in row}
        self.assertEqual(list(rows), ["threshold 0.9", "FOCUS, 0.9", "rising twice", "rising once"])
        for label in rows:
            self.assertIn(label, text)
        # Of the rule at most 4 tokens in a forward pass, at least one; blocks take one more for their keys.
        for label in ("rising twice", "rising once"):
            metrics = rows[label]["metrics"]
            self.assertLessEqual(metrics["committed"] / 4, metrics["denoise_steps"])
            self.assertLessEqual(metrics["denoise_steps"], metrics["committed"])
            self.assertEqual(metrics["nfe"], metrics["denoise_steps"] + metrics["commit_forwards"])
        self.assertLess(rows["rising once"]["metrics"]["nfe"], rows["rising twice"]["metrics"]["nfe"])
        self.assertEqual((self.folder / "idea.png").read_bytes()[:4], PNG)
        before = self.rows()
        self.said("own_rule.py", "--limit", "4")
        self.assertEqual(self.rows(), before)  # nothing is measured again

    def test_the_idea_of_the_readme_prints_what_is_there(self):
        """The code of README.md, typed into a file, and its table: everything in it is counted."""
        page = (ROOT / "README.md").read_text(encoding="utf-8")
        code, table = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL).groups()
        idea = self.folder / "idea.py"
        idea.write_text(code, encoding="utf-8")
        done = subprocess.run([sys.executable, "-B", idea], capture_output=True, text=True, check=False, timeout=600,
                              cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, table)

    def test_a_look_inside(self):
        text = self.said("look_inside.py")
        page = (self.folder / "canvas.html").read_text(encoding="utf-8")
        self.assertIn(f"{page.count('<tr>')} forward passes; of 32 tokens", text)
        self.assertEqual(page.count("<td"), 32 * page.count("<tr>"))
        self.assertEqual(page.count("<b>"), 32)
        self.assertEqual((self.folder / "confidences.png").read_bytes()[:4], PNG)

    def test_a_loop_of_ones_own(self):
        text = self.said("own_loop.py")
        self.assertRegex(text, r"equal: every token, and \d\d of 64 forward passes")
        row = self.rows()[0]
        self.assertIn("NumPy", row["measured_by"])
        self.assertEqual(row["metrics"]["nfe"], 2 * 32)
        self.assertEqual(text.count(f"answers_hash {row['answers_hash'][:12]}"), 2)

    def test_what_a_rule_costs(self):
        """The form only: no time is judged here. Ends with an error if any two of the rules write different tokens."""
        done = subprocess.run([sys.executable, "-B", EXAMPLES / "rule_cost.py", "--batches", "1,3", "--rounds", "2",
                               "--gen-length", "32"], capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        value = r"-?\d+\.\d{4} \[-?\d+\.\d{4}, -?\d+\.\d{4}\]"
        for batch in (1, 3):
            self.assertRegex(done.stdout, rf"(?m)^\| {batch} \| {value} \| {value} \| {value} \|$")
        self.assertRegex(done.stdout, r"time of decode\(\) / time that `unmask run` reports: \d+\.\d{3} \[")
        self.assertRegex(done.stdout, rf"import unmask.engine: {value} s")

    def test_a_loop_without_torch_says_so(self):
        (self.folder / "torch.py").write_text("raise ModuleNotFoundError('none')\n", encoding="utf-8")
        os.environ["PYTHONPATH"] = f"{self.folder}:{os.environ.get('PYTHONPATH', '')}"
        self.assertIn("NOT RUN: needs torch", self.said("own_loop.py", "--torch", code=1))


if __name__ == "__main__":
    try:
        import unmask.engine  # noqa: F401
    except Exception as lacking:  # pylint: disable=broad-except
        print(lacking if "NOT RUN" in str(lacking) else f"NOT RUN: needs {lacking}")
        sys.exit(77)
    unittest.main()
