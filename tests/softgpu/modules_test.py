# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The modules that ./dev build --libraries makes export the function that the program asks for, and leave open what they
may: functions of cuDNN, which the program opens first. Their machine code has no severe finding (tests/sasscheck). Exit code
77: they are not there.

    modules_test.py FOLDER    FOLDER: of the programs
"""

import os
import re
import subprocess
import sys
import unittest

FOLDER = ""
CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sasscheck", "check.py")
# By module: functions without a version, so of no system library.
OPEN = {"libunmask_cudnn.so": r"cudnn[A-Z]\w+", "libunmask_cutlass.so": r"(?!)"}


def symbols(file, which):
    """Strong symbols of its dynamic table."""
    said = subprocess.run(["nm", "-D", which, file], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1] for line in said.splitlines() if line.split()[-2] not in ("w", "v")]


class Modules(unittest.TestCase):
    def test_modules_export_the_entry_and_leave_only_their_library_open(self):
        for name, may_be_open in OPEN.items():
            with self.subTest(name):
                file = os.path.join(FOLDER, name)
                if not os.path.exists(file):
                    self.skipTest(name)
                self.assertIn("unmask_library_way", symbols(file, "--defined-only"))
                left = [s for s in symbols(file, "--undefined-only") if "@" not in s]
                self.assertEqual([s for s in left if not re.fullmatch(may_be_open, s)], [])

    def test_the_machine_code_has_no_fault(self):
        file = os.path.join(FOLDER, "libunmask_cutlass.so")
        if not os.path.exists(file):
            self.skipTest(file)
        done = subprocess.run([sys.executable, "-B", CHECK, "--quiet", file], capture_output=True, text=True, check=False)
        if done.returncode == 77:
            self.skipTest(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\b[1-9]\d* kernels, 0 severe findings")


if __name__ == "__main__":
    FOLDER = os.path.abspath(sys.argv.pop(1))
    if not any(os.path.exists(os.path.join(FOLDER, name)) for name in OPEN):
        print("NOT RUN: needs the modules of other libraries (./dev build --libraries)")
        sys.exit(77)
    unittest.main()
