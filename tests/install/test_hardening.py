#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""hardening.py finds what is missing in a program that is linked without any of it."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = """
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
  char text[20000];
  memcpy(text, argv[0], (size_t)argc + 1);
  snprintf(text + 1, (size_t)argc, "%s", argv[argc - 1]);
  return puts(text) + puts(__FILE__);
}
"""
NONE = ("-fno-stack-protector -fno-stack-clash-protection -U_FORTIFY_SOURCE -no-pie -fno-pie "
        "-Wl,-z,norelro,-z,lazy,-z,execstack,-rpath,/lib").split()
ALL = ("-fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fPIE "
       "-pie -Wl,-z,relro,-z,now").split()


class Hardening(unittest.TestCase):
    def found(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "x.c"), os.path.join(folder, "x")
            with open(source, "w", encoding="utf-8") as file:
                file.write(SOURCE)
            maps = [o.replace("HERE", folder) for o in options]
            subprocess.run(["gcc", "-O2", "-w", *maps, source, "-o", program], check=True)
            done = subprocess.run([sys.executable, os.path.join(HERE, "hardening.py"), program, folder],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1 if done.stdout else 0, done.stderr)
            return done.stdout

    def test_every_missing_option_is_named(self):
        said = self.found(*NONE)
        for option in ("-pie", "-z relro", "-z now", "stack is executable", "libraries are looked for",
                       "-fstack-protector-strong", "-D_FORTIFY_SOURCE", "-fstack-clash-protection",
                       "-ffile-prefix-map"):
            self.assertIn(option, said)
        self.assertEqual(said.count("\n"), 9)

    def test_a_program_with_all_of_them_passes(self):
        self.assertEqual(self.found(*ALL, "-ffile-prefix-map=HERE/="), "")


if __name__ == "__main__":
    if not shutil.which("gcc"):
        print("NOT RUN: needs gcc")
        sys.exit(77)
    unittest.main()
