# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The rooms of the Python package: imports go one way between them, no module imports itself by others, and all of
it is installed."""

import ast
import pathlib
import re
import tempfile
import tomllib
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "harness/python/unmask"
# Room: what it may import besides itself. The last one stands on all.
ROOMS = {"rows": set(), "tables": {"rows"}, "claims": {"rows", "tables"}, "page": {"rows", "tables"},
         "benchmarks": {"rows"}, "pictures": {"rows"}, "probes": {"rows"},
         "jobs": {"rows", "tables", "claims", "page", "benchmarks", "probes"}, "engine": {"rows"}}
AT_THE_ROOT = {"__init__", "__main__"}


def modules(package):
    """{name: tree} of every module, named from the package on: "rows.files"; of a package's own file "rows"."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree, names):
    """The modules among `names` that a tree imports, also those within its functions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            said = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            said = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in said:
            parts = name.split(".")
            if parts[0] != "unmask":
                continue
            whole, above = ".".join(parts[1:]), ".".join(parts[1:-1])  # a module, or what one defines
            found |= {n for n in ([whole] if whole in names else [above]) if n in names}
    return found


def circles(arrows):
    """Modules that come back to themselves, each circle as its text."""
    found, done = [], set()

    def follow(name, way):
        if name in way:
            found.append(" -> ".join(way[way.index(name):] + [name]))
        elif name not in done:
            for target in sorted(arrows[name]):
                follow(target, way + [name])
            done.add(name)
    for name in sorted(arrows):
        follow(name, [])
    return found


def violations(package):
    trees, found = modules(package), []
    arrows = {name: imported(tree, trees) - {name} for name, tree in trees.items()}
    for name, targets in arrows.items():
        home = name.split(".")[0]
        if home in AT_THE_ROOT:
            continue
        if home not in ROOMS:
            found.append(f"{name} lies in no room")
            continue
        for room in sorted({target.split(".")[0] for target in targets} - ROOMS[home] - {home}):
            found.append(f"{name}: {home} may not import {room}")
    return found + circles(arrows)


class Rooms(unittest.TestCase):
    def test_the_package_keeps_its_order(self):
        self.assertGreater(len(modules(PACKAGE)), 50)
        self.assertEqual(violations(PACKAGE), [])


class Installed(unittest.TestCase):
    """What pip takes: pyproject.toml at the root, and the one of the models. tests/environments builds the wheels."""

    def setUp(self):
        self.root = PACKAGE.parents[2]
        self.engine, self.models = (tomllib.loads((self.root / place / "pyproject.toml").read_text(encoding="utf-8"))
                                    for place in ("", "experiments/models"))

    def test_each_folder_is_a_package_and_all_its_files_are_taken(self):
        wheel = self.engine["tool"]["scikit-build"]["wheel"]
        self.assertEqual([self.root / place for place in wheel["packages"]], [PACKAGE])
        self.assertEqual(wheel["exclude"], ["**/__pycache__", "**.pyc"])
        files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        self.assertGreater(len([path for path in files if path.suffix != ".py"]), 5)
        for folder in {path.parent for path in files if path.suffix == ".py"}:
            self.assertIn(folder / "__init__.py", files)

    def test_there_is_one_version(self):
        said = [re.search(pattern, (self.root / name).read_text(encoding="utf-8")).group(1)
                for name, pattern in (("CMakeLists.txt", r"project\(unmask VERSION (\S+)"),
                                      ("harness/python/unmask/__init__.py", r'__version__ = "(.*)"'))]
        said += [data["project"]["version"] for data in (self.engine, self.models)]
        self.assertEqual(set(said), {said[0]})

    def test_its_commands_are_functions(self):
        trees = modules(PACKAGE)
        for command in self.engine["project"]["scripts"].values():
            module, function = command.removeprefix("unmask.").split(":")
            self.assertIn(function, [n.name for n in trees[module].body if isinstance(n, ast.FunctionDef)])

    def test_the_models_are_where_the_program_of_the_wheel_looks(self):
        """Those that decode: the folders with a config.json. smol is made from weights that somebody else has."""
        installed = (self.root / "cmake/UnmaskWheel.cmake").read_text(encoding="utf-8")
        self.assertIn("install(DIRECTORY experiments plots DESTINATION unmask/tree", installed)
        scikit = self.models["tool"]["scikit-build"]
        self.assertEqual(scikit["wheel"]["packages"], {"unmask/tree/experiments/models": "../models"})
        folders = {p.name for p in (self.root / "experiments/models").iterdir() if p.is_dir()}
        whole = {name for name in folders if (self.root / "experiments/models" / name / "config.json").is_file()}
        self.assertIn("tiny-sdar", whole)
        self.assertLessEqual({f"**/{name}/**" for name in folders - whole}, set(scikit["wheel"]["exclude"]))


class Planted(unittest.TestCase):
    """A small package with nothing wrong in it, into which each test plants one fault."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.package = pathlib.Path(scratch.name) / "unmask"
        for name, text in (("__init__", "from unmask.rows.flat import read\n"), ("__main__", ""),
                           ("rows/__init__", ""), ("rows/rows", "import json\n"),
                           ("rows/flat", "from unmask.rows import rows\n"),
                           ("tables/tables", "from unmask.rows.rows import (x,\n    y)\n"),
                           ("claims/__init__", "from unmask.claims.judge import judge\n"),
                           ("claims/judge", "from unmask.tables import tables\n"),
                           ("claims/claims", "from unmask.claims import judge\n"),
                           ("jobs/campaign", "from unmask.claims import claims\n")):
            self.write(name, text)

    def write(self, name, text):
        path = self.package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def expect_only(self, text):
        self.assertEqual(violations(self.package), [text])

    def test_nothing_is_found_in_a_clean_package(self):
        self.assertEqual(violations(self.package), [])

    def test_an_import_against_the_order_is_found(self):
        for home, room, text in (("rows", "tables", "from unmask.tables.tables import x\n"),
                                 ("tables", "claims", "from unmask.claims import judge\n"),
                                 ("page", "claims", "import unmask.claims.judge\n"),
                                 ("probes", "tables", "from unmask.tables import (\n    tables)\n"),
                                 ("claims", "jobs", "def late():\n    from unmask.jobs import campaign\n")):
            self.write(f"{home}/bad", text)
            self.expect_only(f"{home}.bad: {home} may not import {room}")
            (self.package / home / "bad.py").unlink()

    def test_a_circle_is_found_also_by_an_import_within_a_function(self):
        self.write("rows/rows", "def read():\n    from unmask.rows.flat import frame_of\n")
        self.expect_only("rows.flat -> rows.rows -> rows.flat")

    def test_a_module_in_no_room_is_found(self):
        self.write("utilities/strings", "")
        self.expect_only("utilities.strings lies in no room")
        (self.package / "utilities/strings.py").unlink()
        self.write("strings", "")
        self.expect_only("strings lies in no room")


if __name__ == "__main__":
    unittest.main()
