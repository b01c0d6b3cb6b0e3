# SPDX-License-Identifier: Apache-2.0
"""The package as a wheel lays it down: its command becomes the program that came with it, and it finds what lies
with the program."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGE = os.path.join(os.path.dirname(__file__), "../../../../harness/python/unmask")
START = "import sys; from unmask.rows.program import start; sys.exit(start())"


class Wheel(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.site = os.path.realpath(scratch.name)
        for part in ("__init__.py", "rows"):
            copy = shutil.copytree if part == "rows" else shutil.copy
            os.makedirs(os.path.join(self.site, "unmask"), exist_ok=True)
            copy(os.path.join(PACKAGE, part), os.path.join(self.site, "unmask", part))

    def program(self):
        path = os.path.join(self.site, "unmask/bin/unmask")
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\necho "$UNMASK_PYTHON|$*"; exit 7\n')
        os.chmod(path, 0o755)
        return path

    def run_in(self, text, *words, **more):
        env = {k: v for k, v in os.environ.items() if k not in ("UNMASK_PYTHON", "UNMASK_PROGRAM")}
        return subprocess.run([sys.executable, "-B", "-P", "-c", text, *words], capture_output=True, text=True,
                              check=False, cwd=self.site, env={**env, "PYTHONPATH": self.site, **more})

    def test_the_command_becomes_the_program_and_names_its_python(self):
        self.program()
        done = self.run_in(START, "list", "models")
        self.assertEqual((done.returncode, done.stdout), (7, f"{sys.executable}|list models\n"), done.stderr)
        self.assertEqual(self.run_in(START, UNMASK_PYTHON="/other").stdout, "/other|\n")

    def test_a_package_without_a_program_says_so(self):
        done = self.run_in(START)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("unmask: NOT RUN: needs the program unmask", done.stderr)

    def test_it_finds_the_program_and_the_experiments(self):
        asked = ("from unmask.rows import experiments, program\n"
                 "print(experiments.program_root()); print(program.program())")
        path, tree = self.program(), os.path.join(self.site, "unmask/tree")
        self.assertEqual(self.run_in(asked).stdout, f"\n{path}\n")
        os.makedirs(os.path.join(tree, "experiments"))
        self.assertEqual(self.run_in(asked).stdout, f"{tree}\n{path}\n")
        self.assertEqual(self.run_in(asked, UNMASK_PROGRAM="/another").stdout, f"{tree}\n/another\n")


if __name__ == "__main__":
    unittest.main()
