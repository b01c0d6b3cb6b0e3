# SPDX-License-Identifier: Apache-2.0
"""Recorded runs with values of other kinds put in, places left out and bits turned: the replay says what
is wrong with each and ends with an exit code of its own.

    damaged_test.py UNMASK_GOLDEN FOLDER_OF_GOLDENS"""

import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM, GOLDENS = sys.argv.pop(1), sys.argv.pop(1)
ODD = (None, True, -1, 0, 1.5, 2 ** 31, 2 ** 32 + 32, 2 ** 63, 1e300, "", "x", "\x1b[2J", [], {}, [None],
       [[]], [2 ** 40], {"a": 1})
FILES = ("delayed_cache", "vanilla_llada", "focus", "dpad", "pc_sampler", "llada21")


def places(value, place=()):
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(min(len(value), 4)):
            yield place + (key,)
            yield from places(value[key], place + (key,))


def damaged(line, draw):
    if draw.random() < 0.3:
        data = bytearray(line.encode())
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(7)
        return data.decode("utf-8", "replace").replace("\n", " ")
    run = json.loads(line)
    for _ in range(draw.randint(1, 2)):
        *above, last = draw.choice(list(places(run)))
        at = run
        for key in above:
            at = at[key]
        if draw.random() < 0.2:
            del at[last]
        else:
            at[last] = copy.deepcopy(draw.choice(ODD))
    return json.dumps(run)


class Damaged(unittest.TestCase):
    def test_every_line_is_replayed_or_named(self):
        draw = random.Random(15)
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.join(GOLDENS, "models"), os.path.join(folder, "models"))
            os.mkdir(os.path.join(folder, "decode"))
            for name in FILES:
                with open(os.path.join(GOLDENS, "decode", name + ".jsonl"), encoding="utf-8") as file:
                    lines = [line for line in file if len(line) < 60000][:6]
                path = os.path.join(folder, "decode", name + ".jsonl")
                with open(path, "w", encoding="utf-8") as out:
                    out.writelines(damaged(draw.choice(lines), draw) + "\n" for _ in range(20))
                done = subprocess.run([PROGRAM, folder, "--device", "cpu", "--method", name],
                                      capture_output=True, timeout=600, check=False)
                text = (done.stdout + done.stderr).decode()
                os.remove(path)
                self.assertIn(done.returncode, (0, 1), f"{name}: {text}")
                for mark in ("internal error", "json.exception", "\x1b"):
                    self.assertNotIn(mark, text)
                # Every line is in the count, whatever its neighbours are.
                count = re.search(r"^(\d+) passed, (\d+) failed$", text, re.MULTILINE)
                self.assertTrue(count, text)
                self.assertEqual(sum(map(int, count.groups())), 20, text)


if __name__ == "__main__":
    unittest.main()
