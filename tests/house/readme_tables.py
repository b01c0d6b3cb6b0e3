#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Writes the tables of Markdown files from the commands that their markers name, or checks them.

    <!-- from: unmask table results/epyc-2core/quickstart.jsonl -->
    ...what the command prints...
    <!-- end -->

The first word is `unmask` (the program given by --program), `unmask_cost` (next to it) or a Python
script of this repository. It also writes the numbers in sentences that are marked as those of a page
of claims (page_values.py).
With --check nothing is written, and the exit code is 1 where a table or number differs or,
in the files that show measurements, where a table of numbers has no marker.
"""

import argparse
import difflib
import json
import os
import re
import shlex
import subprocess
import sys

import page_values

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BLOCK = re.compile(r"^<!-- from: (.+?) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
# Files whose tables of numbers are measurements of this repository's rows.
SHOWS_MEASUREMENTS = re.compile(r"^(README\.md|methods/README\.md|results/.*README\.md)$")
NUMBER = re.compile(r"^[*]*[0-9]+[.][0-9]+")


class Problem(Exception):
    pass


def markdown_files():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT,
                            capture_output=True, text=True)
    if listed.returncode == 0:
        return sorted(f for f in listed.stdout.splitlines() if os.path.exists(os.path.join(ROOT, f)))
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f[0] != "." and f not in ("build", "runs")]
        found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files if f.endswith(".md")]
    return sorted(found)


def claims_together(commands, program):
    """{command: what it prints} of the commands `unmask claims`, which take the longest: rows are read and claims
    judged once for all of them (claims_together.py)."""
    claims = [command for command in commands if shlex.split(command)[:2] == ["unmask", "claims"]]
    prepared = os.path.join(ROOT, ".venv/bin/python")  # which Python: as the program takes it
    python = os.environ.get("UNMASK_PYTHON") or (prepared if os.path.exists(prepared) else "python3")
    words = json.dumps([shlex.split(command)[2:] for command in claims])
    place = {"PYTHONPATH": os.path.join(ROOT, "harness/python"), "PYTHONUTF8": "1", "UNMASK_PROGRAM": program}
    done = subprocess.run([python, "-P", "-B", os.path.join(HERE, "claims_together.py"), words], cwd=ROOT,
                          env={**os.environ, **place}, capture_output=True, text=True)
    if done.returncode != 0:
        raise Problem(f"{claims} ended with {done.returncode}: {done.stderr.strip()}")
    return dict(zip(claims, (text.strip() + "\n" for text in json.loads(done.stdout))))


def output_of(command, program, known):
    if command in known:
        return known[command]
    words = shlex.split(command)
    if words[0] == "unmask":
        words[0] = program
    elif words[0] == "unmask_cost":
        words[0] = os.path.join(os.path.dirname(program), words[0])
    elif words[0].endswith(".py"):
        words.insert(0, sys.executable)
    else:
        raise Problem(f"`{command}` starts with neither `unmask`, `unmask_cost` nor a Python script")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise Problem(f"`{command}` ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip() + "\n"


def tables_without_marker(text):
    """Line numbers at which a table with a column of decimal numbers stands outside all blocks."""
    hidden = BLOCK.sub(lambda m: "\n" * m.group(0).count("\n"), text)
    found, start, numbers = [], None, 0
    for at, line in enumerate(hidden.split("\n") + [""], 1):
        if line.startswith("|"):
            start = start or at
            numbers += any(NUMBER.match(cell.strip()) for cell in line.split("|"))
        elif start:
            if numbers > 1:
                found.append(start)
            start, numbers = None, 0
    return found


def rewritten(text, program, known):
    def block(match):
        command = match.group(1)
        return f"<!-- from: {command} -->\n{output_of(command, program, known)}<!-- end -->"
    return BLOCK.sub(block, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", required=True, help="the program unmask")
    parser.add_argument("--check", action="store_true", help="write nothing, fail on differences")
    given = parser.parse_args()
    program, wrong, tables = os.path.abspath(given.program), 0, 0
    texts = {}
    for name in markdown_files():
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            texts[name] = file.read()
    commands = [command for text in texts.values() for command, _ in BLOCK.findall(text)]
    try:
        known = claims_together(commands, program)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    for name, text in texts.items():
        path = os.path.join(ROOT, name)
        tables += len(BLOCK.findall(text))
        try:
            new = page_values.rewritten(rewritten(text, program, known), os.path.dirname(path))
        except (Problem, page_values.Unknown) as problem:
            print(f"{name}: {problem}", file=sys.stderr)
            wrong += 1
            continue
        if SHOWS_MEASUREMENTS.match(name):
            for line in tables_without_marker(text):
                print(f"{name}:{line}: a table of numbers names no command (<!-- from: ... -->)",
                      file=sys.stderr)
                wrong += 1
        if new == text:
            continue
        if given.check:
            wrong += 1
            sys.stderr.writelines(difflib.unified_diff(
                text.splitlines(True), new.splitlines(True), name, "what its commands print", n=0))
        else:
            print(f"wrote {name}")
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)
    if tables == 0:
        print("no Markdown file names a command: is this the repository?", file=sys.stderr)
        return 1
    print(f"{tables} tables, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
