# SPDX-License-Identifier: Apache-2.0
"""Finds the compiled part of the engine: next to this file, in $UNMASK_ENGINE, or in a build folder of the checkout."""

import importlib.machinery
import importlib.util
import os
import pathlib
import sys

from unmask.rows.errors import EnvironmentFault

ROOT = pathlib.Path(__file__).resolve().parents[4]


def places():
    """Files that may be the compiled part, the wanted one first and the newest build before older ones."""
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    if given := os.environ.get("UNMASK_ENGINE"):
        yield pathlib.Path(given)
        return
    yield pathlib.Path(__file__).with_name("_engine" + suffix)
    built = list(ROOT.glob("build/*/python/_engine" + suffix))
    yield from sorted(built, key=lambda file: file.stat().st_mtime, reverse=True)


def file():
    """The file of the compiled part that this process has."""
    return pathlib.Path(_engine.__file__)


def found():
    """The compiled module. EnvironmentFault where there is none."""
    for file in places():
        if not file.is_file():
            continue
        spec = importlib.util.spec_from_file_location("unmask.engine._engine", file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    raise EnvironmentFault("NOT RUN: needs the compiled part of unmask.engine: pip install . at the root of the "
                           "repository, or build it with -DUNMASK_PYTHON=ON")


_engine = found()
