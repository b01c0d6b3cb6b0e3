# SPDX-License-Identifier: Apache-2.0
"""unmask pictures with Pillow 11.2.1, whose resize() runs its two passes in another order than the locked version's:
the same bytes of every recorded picture (ctest python.older_pillow). NOT RUN if pip cannot fetch it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

support.needs("numpy", "PIL")

import PIL
from support import SOURCE

OLDER = "11.2.1"
GOLDENS = SOURCE / "tests/goldens/pictures"


def fetched(folder):
    """What pip said if it could not put the older Pillow into this folder; nothing: it is there."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
           "--only-binary", ":all:", "--retries", "1", "--timeout", "20", "--target", folder, f"pillow=={OLDER}"]
    done = subprocess.run(pip, capture_output=True, text=True)
    return "" if done.returncode == 0 else (done.stderr.strip().split("\n") or [""])[-1] or "pip failed"


def prepared(arguments, **environment):
    """(metadata, bytes of the views) of each picture that the command wrote, by the picture's name."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "unmask", "pictures", *map(str, arguments), "-o", out, "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        found = {}
        for one in json.loads(done.stdout)["pictures"]:
            content = pathlib.Path(one["file"]).read_bytes()
            length = int.from_bytes(content[:8], "little")
            metadata = json.loads(content[8:8 + length])["__metadata__"]
            found[pathlib.Path(one["picture"]).name] = metadata, content[8 + length:]
    return found


class OlderPillow(unittest.TestCase):
    def with_older(self):
        return {"PYTHONPATH": os.pathsep.join([FOLDER, os.environ.get("PYTHONPATH", "")])}

    def test_every_recorded_picture_has_the_recorded_bytes(self):
        """The tests of the locked version, run by the older one."""
        environment = {**os.environ, **self.with_older()}
        run = lambda *arguments: subprocess.run(  # noqa: E731
            [sys.executable, "-B", *arguments], capture_output=True, text=True, env=environment)
        self.assertEqual(run("-c", "import PIL; print(PIL.__version__)").stdout.strip(), OLDER)
        done = run(str(SOURCE / "tests/harness/python/pictures/test_pictures.py"), "-v", "Recorded")
        self.assertEqual(done.returncode, 0, done.stderr)
        for test in ("test_bytes_and_pixels_of_llada_v", "test_one_view_of_llada_v", "test_bytes_of_dimple",
                     "test_bytes_of_mmada", "test_pictures_at_published_sizes"):
            self.assertRegex(done.stderr, rf"{test} .*ok\n")

    def test_the_command_writes_the_same_files_but_for_the_version(self):
        self.assertNotEqual(PIL.__version__, OLDER)
        for name in ("tiny-llada-v-s1", "tiny-dimple-s1"):
            cases = json.loads((GOLDENS / f"vision/{name}.json").read_text())["cases"]
            shown = [GOLDENS / "images" / c["image"] for c in cases if "error" not in c]
            arguments = [*shown, "--model", GOLDENS / "models" / name]
            locked, older = prepared(arguments), prepared(arguments, **self.with_older())
            self.assertEqual(len(locked), len(shown))
            self.assertEqual(locked.keys(), older.keys())
            for image, (said, views) in locked.items():
                said_by_older, of_older = older[image]
                self.assertEqual(of_older, views, image)
                self.assertEqual((said.pop("pillow"), said_by_older.pop("pillow")), (PIL.__version__, OLDER))
                self.assertEqual(said_by_older, said, image)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as FOLDER:
        problem = fetched(FOLDER)
        if problem:
            print(f"NOT RUN: needs Pillow {OLDER}, which pip could not fetch: {problem}")
            sys.exit(77)
        unittest.main(exit=True)
