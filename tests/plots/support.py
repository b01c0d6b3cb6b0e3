# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""What the tests of the plots share: where things lie, the fixtures, and how a test is not run."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PLOTS = os.path.join(ROOT, "plots")
DATA = os.path.join(HERE, "data")
sys.path.insert(0, PLOTS)
NOT_RUN = 77

import rows as rowlib  # noqa: E402


def fixture(name):
    return os.path.join(DATA, name + ".jsonl")


def rows_of(name):
    return rowlib.read_rows([fixture(name)])


def computed(rows):
    """What the program makes of rows that a test has changed."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.jsonl")
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(r) + "\n" for r in rows)
        return rowlib.read_rows([path])


def page_data(folder, experiments=os.path.join(ROOT, "no-experiments")):
    """What `unmask report` hands to the page; BadInput with its sentence."""
    from unmask.page import page
    from unmask.rows.errors import UserError
    from unmask.tables import tables
    try:
        return json.loads(tables.json_text(page.page_data(folder, experiments)))
    except UserError as problem:
        raise rowlib.BadInput(str(problem)) from None


def unpack_campaign(folder):
    """The committed campaign as a folder of its own: rows, claims and what became of each artifact."""
    tiny = os.path.join(ROOT, "results", "tiny")
    with tarfile.open(os.path.join(tiny, "rows.tar.xz")) as archive:
        for member in archive:
            if member.isreg():
                path = os.path.join(folder, os.path.normpath(member.name))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as out:
                    shutil.copyfileobj(archive.extractfile(member), out)
    shutil.copy(os.path.join(tiny, "campaign.jsonl"), folder)
    from unmask.claims import claims
    claims.main([tiny, "--format", "json", "-o", os.path.join(folder, "claims.json")])


def script(name, *arguments, **environment):
    """A script of plots/ as a program of its own: exit code, standard output and error."""
    done = subprocess.run([sys.executable, os.path.join(PLOTS, name + ".py"), *arguments],
                          capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


def needs_matplotlib():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print("NOT RUN: needs matplotlib (./dev plots prepares it)")
        sys.exit(NOT_RUN)


def main():
    result = unittest.main(module="__main__", exit=False, verbosity=1).result
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
