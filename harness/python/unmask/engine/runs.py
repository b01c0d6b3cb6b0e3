# SPDX-License-Identifier: Apache-2.0
"""Experiments in this process: rules in Python are methods there."""

import importlib.util
import json
import math
import os
import pathlib
import re
import subprocess
import sys

from unmask.engine.compiled import _engine
from unmask.engine.errors import EnvironmentFault, UserError, told
from unmask.rows.files import replace_file


def main(words, threads=0):
    """Runs a command of the program, ["run", "FILE.toml", "-o", "DIR"]: its exit code. The files behind --rule are
    loaded before. A command of this package ("table", "claims") runs in a process of its own."""
    words, rest = [str(word) for word in words], []
    while words:
        word = words.pop(0)
        if word == "--":
            rest += [word, *words]
            break
        if word == "--rule" and words:
            load_rules(words.pop(0))
        elif word.startswith("--rule="):
            load_rules(word.removeprefix("--rule="))
        else:
            rest.append(word)
    code, variables = _engine.run_words(rest, threads)
    return code if variables is None else of_the_package(code, variables)


def of_the_package(words, variables):
    """Runs a command of the Python package as the program does, in a process of its own, under the variables that the
    program would give it. What it printed is printed here, so that a notebook shows it. Returns its exit code."""
    package = str(pathlib.Path(__file__).resolve().parents[2])
    path = os.pathsep.join([package] + [os.environ["PYTHONPATH"]] * bool(os.environ.get("PYTHONPATH")))
    done = subprocess.run([sys.executable, "-P", "-B", "-m", "unmask", *words], capture_output=True, text=True, check=False,
                          env={**os.environ, **variables, "PYTHONPATH": path})
    print(done.stderr, end="", file=sys.stderr)
    print(done.stdout, end="")
    return done.returncode


def toml_value(value, where):
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UserError(f"{where}: {value} is no setting")
        return repr(value)
    if isinstance(value, (str, pathlib.PurePath)):
        marks = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
        if any(ord(c) < 32 and c not in marks for c in str(value)):
            raise UserError(f"{where}: a control character is no part of a setting")
        if any(0xD800 <= ord(c) < 0xE000 for c in str(value)):
            raise UserError(f"{where}: half a surrogate pair is no part of a setting")
        return '"' + "".join(marks.get(c, c) for c in str(value)) + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(v, where) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_key(k)} = {toml_value(v, where)}" for k, v in value.items()) + "}"
    raise UserError(f"{where}: {type(value).__name__} is no value of an experiment file")


def toml_key(key):
    """A key as TOML writes it: repetitions.min is one within another."""
    return str(key) if re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", str(key)) else toml_value(str(key), "a key")


def toml_of(experiment):
    """An experiment file of a dict with the file's keys: a dict is a table, a list of dicts an array of tables."""
    def is_tables(value):
        return isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(v, dict) for v in value)
    lines = [f"{toml_key(key)} = {toml_value(value, key)}" for key, value in experiment.items()
             if not isinstance(value, dict) and not is_tables(value)]
    for key, value in experiment.items():
        for table in [value] if isinstance(value, dict) else value if is_tables(value) else []:
            lines.append(f"[[{toml_key(key)}]]" if is_tables(value) else f"[{toml_key(key)}]")
            lines += [f"{toml_key(k)} = {toml_value(v, f'{key}.{k}')}" for k, v in table.items()]
    return "\n".join(lines) + "\n"


def run(experiment, out=None, *, scale="", set=(), fresh=False, samples=False, progress=True, threads=0):  # pylint: disable=redefined-builtin
    """Measures an experiment, a file or a dict with a file's keys, and returns its rows as a frame. Rows of other
    settings, or of a rule before it was edited, stay in the folder; unmask.read(out) has them too.

    out       the folder for rows; default runs/NAME. Points that have a row there are not measured again (fresh=True:
              they are)
    set       settings over the file's: ["batch_size=4"] or {"batch_size": 4}

    Ids, rows and files are those of `unmask run`; its table is not printed. Methods that are rules in Python have to be there before."""
    import unmask  # pylint: disable=import-outside-toplevel  (pandas comes with it)
    if isinstance(experiment, dict):
        folder = pathlib.Path(out or "runs/" + str(experiment.get("title", "experiment")).replace("/", "_"))
        file = folder / "experiment.toml"
        replace_file(file, toml_of(experiment))
    else:
        file = pathlib.Path(experiment)
        if file.is_dir():
            raise UserError(f"{file} is a folder; run takes one experiment file")
        folder = pathlib.Path(out) if out is not None else pathlib.Path("runs") / file.stem
    words = ["run", file, "-o", folder]
    words += ["--scale", scale] if scale else []
    for setting in (f"{k}={v}" for k, v in set.items()) if isinstance(set, dict) else set:
        words += ["--set", setting]
    words += ["--fresh"] * fresh + ["--samples"] * samples + ["--no-progress"] * (not progress) + ["--format", "json"]
    code, said = _engine.run_quietly([str(word) for word in words], threads)
    if code == EnvironmentFault.code:
        raise EnvironmentFault(f"{file}: {said.strip()}")
    mine = {row["point_id"] for row in json.loads(said)}
    frame = unmask.read(folder)
    return frame[frame["point_id"].isin(mine)].reset_index(drop=True)


def load_rules(file):
    """Runs a Python file, whose @engine.method functions are methods then. It is code: what it says is done."""
    path = pathlib.Path(file)
    if not path.is_file():
        raise UserError(f"{path}: no such file of rules")
    spec = importlib.util.spec_from_file_location("unmask_rules_" + path.stem, path)
    if spec is None:
        raise UserError(f"{path}: a file of rules ends in .py")
    module = importlib.util.module_from_spec(spec)
    print(f"note: {path} is code, which runs with your rights", file=sys.stderr)
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except Exception as problem:
        raise UserError(f"{path}: {told(problem, {__file__})}") from problem
    return module
