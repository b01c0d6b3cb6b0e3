# SPDX-License-Identifier: Apache-2.0
"""experiments/minimal_claim.py, used as its text says: measured, judged, and refuted when turned round."""

import json
import os
import subprocess
import tempfile
import textwrap
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../.."))
PROGRAM = os.environ["UNMASK_PROGRAM"]


def text_of(*parts):
    with open(os.path.join(ROOT, "experiments", *parts), encoding="utf-8") as file:
        return file.read()


class MinimalClaim(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        self.claim = text_of("minimal_claim.py")
        lines = self.claim[self.claim.index("    [artifact]"):self.claim.index("Then measure")]
        models = os.path.join(ROOT, "experiments", "models")
        self.write("MINE/minimal_claim/minimal_experiment.toml",
                   text_of("minimal_experiment.toml").replace('"models/', f'"{models}/') +
                   textwrap.dedent(lines))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def program(self, *words):
        return subprocess.run([PROGRAM, *words], cwd=self.folder, capture_output=True, text=True)

    def test_it_is_measured_and_judged_as_its_text_says(self):
        self.assertLess(self.claim.count("\n"), 60)
        self.write("MINE/claims/minimal_claim.py", self.claim)
        self.assertEqual(self.program("run", "MINE", "-o", "runs", "--no-progress").returncode, 0)
        judge = ["claims", "runs", "--experiments-dir", "MINE", "--format", "json"]
        done = self.program(*judge)
        self.assertEqual(done.returncode, 0, done.stderr)
        (verdict,) = json.loads(done.stdout)
        self.assertEqual(verdict["verdict"], "SUPPORTED")
        self.assertLess(verdict["measured"], 0.9)
        self.write("MINE/claims/minimal_claim.py", self.claim.replace("below", "above"))
        done = self.program(*judge)
        self.assertEqual((done.returncode, json.loads(done.stdout)[0]["verdict"]), (4, "NOT SUPPORTED"))


if __name__ == "__main__":
    unittest.main()
