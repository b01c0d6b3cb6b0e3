# SPDX-License-Identifier: Apache-2.0
"""How the Python package ends: texts of strangers are shown, output that is lost is an error. And what
it says of its commands."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "harness/python"))

from unmask.rows.text import shown  # noqa: E402


class Text(unittest.TestCase):
    def test_control_characters_are_written_out(self):
        self.assertEqual(shown("a\tb\nc \u00fc\u6f22"), "a\tb\nc \u00fc\u6f22")
        self.assertEqual(shown("\x1b]0;x\x07\x7f\x9b\r"), r"\u001b]0;x\u0007\u007f\u009b\u000d")
        self.assertEqual(shown("\u202ea\u2066"), r"\u202ea\u2066")
        self.assertEqual(shown("\udc9b\ud800"), "\ufffd\ufffd")


PACKAGE = os.path.join(ROOT, "harness/python")
PROGRAM = os.environ.get("UNMASK_PROGRAM", os.path.join(ROOT, "build/dev/bin/unmask"))
ALONE = [sys.executable, "-B", "-m", "unmask"]
NUMERICAL = ("numpy", "scipy", "pandas", "matplotlib")


def said(*words, **settings):
    """What a command that ends well prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "PYTHONPATH": PACKAGE, "UNMASK_HELP": "", **settings})
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def runnable(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{text}\n")
    os.chmod(path, 0o755)


def without_numbers(folder):
    """A Python that finds none of the libraries of numbers."""
    for name in NUMERICAL:
        with open(os.path.join(folder, f"{name}.py"), "w", encoding="utf-8") as file:
            file.write(f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n")
    python = os.path.join(folder, "python")
    runnable(python, f"PYTHONPATH='{folder}':$PYTHONPATH exec '{sys.executable}' \"$@\"")
    return python


def summaries(text):
    """{command: its line} of a list of commands, without the lines of examples."""
    return dict(re.findall(r"^  (?!unmask )([a-z]+) +(\S.*)$", text, re.MULTILINE))


class Help(unittest.TestCase):
    def test_the_program_and_the_package_say_the_same_of_a_command(self):
        in_program, in_package = summaries(said(PROGRAM, "help")), summaries(said(*ALONE, "--help"))
        self.assertEqual(set(in_package) - set(in_program), {"chat"})  # the program calls it itself
        self.assertGreater(len(in_package), 10)
        for name in set(in_package) - {"chat"}:
            self.assertEqual(in_package[name], in_program[name], name)

    def test_a_command_begins_with_what_the_program_says_of_it_and_alone_with_its_docstring(self):
        told = said(*ALONE, "merge", "--help", UNMASK_HELP="other words\nmerge a -o b\nmerge c")
        self.assertIn("\n\nother words\n", told)
        self.assertTrue(told.endswith("\nexamples:\n  unmask merge a -o b\n  unmask merge c\n"), told)
        alone = said(*ALONE, "merge", "--help")
        self.assertIn("\n\njoin results that were measured in parts\n", alone)
        self.assertNotIn("example", alone)
        self.assertIn("\nexample:\n  unmask merge runs/focus -o focus.jsonl\n", said(PROGRAM, "merge", "--help"))
        for name, summary in summaries(said(PROGRAM, "help")).items():
            self.assertIn(f"\n\n{summary}\n", said(PROGRAM, name, "--help"), name)

    def test_all_help_has_one_layout(self):
        """The program's own commands and the package's: the usage, at most 100 columns, an option's meaning in column
        30 or on the next line, --help as the last option, no default behind a semicolon."""
        for name in summaries(said(PROGRAM, "help")):
            text = said(PROGRAM, name, "--help")
            self.assertRegex(text, rf"^usage: unmask {name}\b( \[options\]|.* \[options\]| bash\|zsh| \[COMMAND\])?\n\n[a-z]")
            for line in text.splitlines():
                self.assertLessEqual(len(line), 100, f"{name}: {line}")
                if re.match(r"  (-\w, |    )--", line) and len(line) > 30:
                    self.assertRegex(line[28:], r"^  \S", f"{name}: {line}")
            options = re.findall(r"^ +(?:-\w, )?--([a-z-]+)", text, re.MULTILINE)
            self.assertEqual(options[-1], "help", name)
            self.assertNotRegex(text, r"; default\b|positional arguments|_within|\[-h\]", name)
        self.assertLessEqual(said(PROGRAM, "run", "--help").count("\n"), 64)

    def test_summaries_are_verbs(self):
        verbs = set("run time decode show measure list check print compare judge find write join pack repeat score "
                    "compute".split())
        self.assertLessEqual({s.split()[0] for s in summaries(said(PROGRAM, "help")).values()}, verbs)

    def test_help_needs_no_library_of_numbers(self):
        with tempfile.TemporaryDirectory() as folder:
            python = without_numbers(folder)
            for name in NUMERICAL:
                self.assertNotEqual(subprocess.run([python, "-c", f"import {name}"], capture_output=True, timeout=60,
                                                   env={"PYTHONPATH": ""}, check=False).returncode, 0)
            for name in set(summaries(said(*ALONE, "--help"))) - {"chat"}:  # jinja2 is no library of numbers
                self.assertIn(f"usage: unmask {name} ", said(python, *ALONE[1:], name, "--help"))
            for name in summaries(said(PROGRAM, "help")):
                self.assertIn(f"usage: unmask {name}", said(PROGRAM, name, "--help", UNMASK_PYTHON=python))
            lacking = subprocess.run([python, *ALONE[1:], "compare", folder, folder], capture_output=True, text=True,
                                     timeout=60, env={"PYTHONPATH": PACKAGE}, check=False)
            self.assertEqual(lacking.returncode, 3, lacking.stderr)

    def test_what_takes_long_says_before_it_begins_that_a_library_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            python, program, called = without_numbers(folder), os.path.join(folder, "program"), folder + "/called"
            runnable(program, f"echo \"$@\" >>'{called}'; echo 'unmask 1, commit a'")
            for words in (["campaign", folder], ["score", os.path.join(folder, "nowhere.jsonl")]):
                done = subprocess.run([python, *ALONE[1:], *words], capture_output=True, text=True, timeout=60,
                                      env={"PYTHONPATH": PACKAGE, "UNMASK_PROGRAM": program}, check=False)
                self.assertEqual((done.returncode, done.stderr), (
                    3, "unmask: NOT RUN: needs the Python package numpy; ./dev setup installs it\n"))
                self.assertFalse(os.path.exists(called))


class Package(unittest.TestCase):
    def run_package(self, redirect, *arguments, module=""):
        """`python -m unmask ARGUMENTS`, with a command `talk` that is this text of Python."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "talk.py"), "w", encoding="utf-8") as file:
                file.write(module)
            start = ("import sys; sys.path[:0] = sys.argv[1:3]; import unmask.__main__ as m; "
                     "m.COMMANDS['talk'] = 'talk'; sys.argv = ['unmask'] + sys.argv[3:]; m.run()")
            with open(redirect, "w", encoding="utf-8") as out:
                return subprocess.run(
                    [sys.executable, "-B", "-c", start, folder, os.path.join(ROOT, "harness/python"),
                     *arguments], stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)

    def test_a_full_disk_is_exit_code_3_and_one_sentence(self):
        argparse = ("import argparse\ndef main(arguments):\n"
                    "    argparse.ArgumentParser().parse_args(arguments)\n    print('x')\n    return 0\n")
        many = "def main(arguments):\n    print('x' * 1000000)\n    return 0\n"
        for arguments, module in ((["--help"], ""), (["talk"], argparse), (["talk", "--help"], argparse),
                                  (["talk"], many)):
            done = self.run_package("/dev/full", *arguments, module=module)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(done.stderr, "unmask: standard output: No space left on device\n")

    def test_other_ends(self):
        argparse = ("import argparse\ndef main(arguments):\n"
                    "    argparse.ArgumentParser().parse_args(arguments)\n    return 4\n")
        for arguments, module, code in (([], "", 2), (["tlak"], "", 2), (["talk"], argparse, 4),
                                        (["talk", "--help"], argparse, 0),
                                        (["talk", "--no"], argparse, 2)):
            self.assertEqual(self.run_package(os.devnull, *arguments, module=module).returncode, code)

    def test_an_error_shows_its_text(self):
        module = ("from unmask.rows.errors import UserError\ndef main(arguments):\n"
                  "    raise UserError('\\x1b[31mred: no such key')\n")
        done = self.run_package(os.devnull, "talk", module=module)
        self.assertEqual((done.returncode, done.stderr), (2, "unmask: \\u001b[31mred: no such key\n"))


class Surroundings(unittest.TestCase):
    """What the user has set for other programs changes nothing."""

    def test_variables_of_another_python_do_not_reach_this_one(self):
        plain = said(PROGRAM, "list", "claims")
        self.assertIn("focus", plain)
        for settings in ({"PYTHONOPTIMIZE": "2"}, {"PYTHONHOME": "/nowhere"}, {"PYTHONHASHSEED": "no number"},
                         {"PYTHONIOENCODING": "latin-1"}, {"PYTHONINSPECT": "1"}, {"PYTHONMALLOC": "none such"},
                         {"PYTHONPATH": "/nowhere"}, {"PYTHONSAFEPATH": ""}, {"PYTHONPLATLIBDIR": "nowhere"}):
            self.assertEqual(said(PROGRAM, "list", "claims", **settings), plain, settings)

    def test_text_is_utf_8_in_every_locale(self):
        """Python's own reading of a locale of eight bits is left out only where its UTF-8 mode is on; the locale C
        would turn that on by itself, so a locale is made for the test."""
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run(["localedef", "-i", "de_DE", "-f", "ISO-8859-1", f"{folder}/de_DE.ISO-8859-1"],
                                  capture_output=True, check=False) if shutil.which("localedef") else None
            if made is None or not os.path.isdir(f"{folder}/de_DE.ISO-8859-1"):
                self.skipTest("NOT RUN: needs the package locales")
            rows = os.path.join(ROOT, "results/tiny")
            for settings in ({"LC_ALL": "C"}, {"LC_ALL": "de_DE.ISO-8859-1", "LOCPATH": folder}):
                done = subprocess.run([PROGRAM, "claims", "--only", "optimus", rows], capture_output=True, timeout=100,
                                      check=False, env={**os.environ, **settings})
                self.assertEqual((done.returncode, done.stderr), (4, b""))
                self.assertIn("\u2013".encode(), done.stdout)

    def test_a_folder_for_temporary_files_that_is_not_there_is_named(self):
        done = subprocess.run([PROGRAM, "completion", "bash"], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "TMPDIR": "/nowhere/job"})
        self.assertEqual((done.returncode, done.stderr), (
            3, "unmask: TMPDIR names /nowhere/job, which is no folder of this machine; set it to one, or unset it\n"))

    def test_a_usage_error_is_one_sentence(self):
        for words in (["campaign", "--lanes", "x\x1b[31m"], ["compare", "--nosuch"], ["report", "a", "--nosuch"],
                      ["claims", "run", "--only=--"], ["plan", "--", "--help", "x"], ["merge", "-o=--", "a"]):
            done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertRegex(done.stderr, r"\Aunmask: [^\n\x1b]+\n\Z", words)


class Names(unittest.TestCase):
    """A name that is misspelt is answered with the nearest, before anything is measured."""

    EXPERIMENT = ('[run]\nwarmup = 0\nrepetitions = 1\n[[model]]\npath = "models/tiny-sdar"\n[[workload]]\n'
                  'tasks = ["word_problem"]\nlimit = 1\n[[method]]\nname = "block_diffusion"\n')

    def run_in(self, folder, *words):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=100, check=False, cwd=folder)
        return done.returncode, done.stderr

    def test_the_nearest_name_is_told_before_anything_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("e.toml", self.EXPERIMENT), ("w.toml", self.EXPERIMENT.replace("sdar", "sdr"))):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            for words, code, told in (
                    (["generate", "--model", "tiny-lada", "hi"], 3, "did you mean 'tiny-llada'?"),
                    (["bench", "tiny-lada"], 3, "did you mean 'tiny-llada'?"),
                    (["run", "e.toml", "--set", "run.batchsize=4"], 2, "did you mean 'batch_size'?"),
                    (["run", "e.toml", "--set", "bach_size=4"], 2, "did you mean 'batch_size'?"),
                    (["run", "e.toml", "--set", "run.gen_lenght=4"], 2, "did you mean 'gen_length'?"),
                    (["run", "w.toml"], 3, "did you mean 'tiny-sdar'?"),
                    (["run", "e.toml", "--points", "label=x"], 2, "--points '{label = \"FOCUS\"}', not 'label=x'")):
                self.assertEqual((words, code), (words, self.run_in(folder, *words)[0]))
                self.assertIn(told, self.run_in(folder, *words)[1])
            self.assertEqual(sorted(os.listdir(folder)), ["e.toml", "w.toml"])  # nothing was measured

    def test_a_file_is_looked_for_where_the_user_says(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "mine"))
            with open(os.path.join(folder, "mine/e.toml"), "w", encoding="utf-8") as file:
                file.write(self.EXPERIMENT)
            self.assertEqual(self.run_in(folder, "run", "e.toml", "--dry-run")[0], 3)
            self.assertEqual(self.run_in(folder, "run", "e.toml", "--dry-run", "--experiments-dir", "mine")[0], 0)

    def test_a_method_that_does_not_support_the_model_is_exit_code_1(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in ("bench", "profile"):
                self.assertEqual(self.run_in(folder, command, "tiny-llada", "--method", "focus", "--gen-length", "16")[0], 1)

    def test_a_program_without_its_tree_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(PROGRAM, folder)
            done = subprocess.run([alone, "list", "models"], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 3, done.stdout)
            self.assertIn("UNMASK_ROOT", done.stderr)
            # In a build folder beside the tree CMake has noted where that is.
            os.makedirs(os.path.join(folder, "out/bin"))
            with open(os.path.join(folder, "out/CMakeCache.txt"), "w", encoding="utf-8") as file:
                file.write(f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n")
            os.rename(alone, os.path.join(folder, "out/bin/unmask"))
            done = subprocess.run([os.path.join(folder, "out/bin/unmask"), "list", "models"], capture_output=True, text=True,
                                  timeout=60, check=False, env={k: v for k, v in os.environ.items() if k != "UNMASK_ROOT"})
            self.assertIn("tiny-llada", done.stdout)


if __name__ == "__main__":
    unittest.main()
