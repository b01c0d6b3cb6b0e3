# SPDX-License-Identifier: Apache-2.0
"""Recordings with values of other kinds put in, places left out and bytes changed: the replay says what is
wrong with each and ends with an exit code of its own. $UNMASK_DAMAGED says how many of each kind (default 120),
$UNMASK_DAMAGED_SEED what they are drawn from.

    damaged_test.py UNMASK_GOLDEN FOLDER_OF_GOLDENS FOLDER_OF_EVALUATIONS"""

import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import damage  # noqa: E402

PROGRAM, GOLDENS, EVALS = (sys.argv.pop(1) for _ in range(3))
PICTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pictures")
COUNT = int(os.environ.get("UNMASK_DAMAGED", "120"))
SEED = int(os.environ.get("UNMASK_DAMAGED_SEED", "15"))
MOST = 50  # damaged lines or cases of one file
LONGEST = 60000  # bytes of a line that is damaged


def changed_line(line, draw):
    data = damage.changed_document(line, draw).replace(b"\n", b" ")
    return data if data.strip() else b"x"


def shortened(case):
    """A case of a likelihood with one round of a few masks, which its result does not fit."""
    rounds = [{k: v[:2] if isinstance(v, list) else v for k, v in r.items()} for r in case["iterations"][:1]] \
        if "iterations" in case else []
    return case | {"iterations": rounds}


class Replay(unittest.TestCase):
    """A folder of recordings with the models, and what else stays as it is, of another one."""

    SOURCE, KEPT = GOLDENS, ("models",)

    def setUp(self):
        self.draw = random.Random(SEED)
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        for name in self.KEPT:
            os.symlink(os.path.join(self.SOURCE, name), os.path.join(self.folder, name))

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(data)

    def replayed(self, name, data, *words):
        """What the replay says of a file, and its exit code."""
        self.write(name, data)
        done = subprocess.run([PROGRAM, self.folder, "--device", "cpu", *words], capture_output=True, timeout=600,
                              check=False)
        text = (done.stdout + done.stderr).decode()
        try:
            self.assertIn(done.returncode, (0, 1, 2, 3), text[-3000:])
            for mark in ("internal error", "json.exception", "\x1b", "AddressSanitizer", "runtime error"):
                self.assertNotIn(mark, text)
        except AssertionError:
            if "UNMASK_DAMAGED_KEEP" in os.environ:
                with open(os.path.join(os.environ["UNMASK_DAMAGED_KEEP"], name.replace("/", "_")), "wb") as out:
                    out.write(data)
            raise
        return text, done.returncode

    def counted(self, text):
        count = re.search(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", text, re.MULTILINE)
        self.assertTrue(count, text[-3000:])
        return sum(int(c or 0) for c in count.groups())


class Damaged(Replay):
    def test_a_near_tie_counts_by_the_pieces_of_one_process(self):
        """Of two ranks, which add in another order, and only below 3e-5."""
        with open(os.path.join(GOLDENS, "decode", "vanilla_llada.jsonl"), encoding="utf-8") as file:
            run = json.loads(next(file))
        run["output_ids"][-1] = (run["output_ids"][-1] + 1) % 50
        for gap, words, code, said in (
                (1e-6, ("--ranks", "2"), 0, "PASS .* smallest gap 1e-06  a near tie: output differs at token .*; "
                                            "2 pieces of one process say the same"),
                (1e-6, (), 1, "FAIL .* smallest gap 1e-06  output differs"),
                (4e-5, ("--ranks", "2"), 1, "FAIL .* smallest gap 4e-05  output differs")):
            run["margins"]["min_top2_logit_gap"] = gap
            text, status = self.replayed("decode/vanilla_llada.jsonl", json.dumps(run).encode() + b"\n",
                                         "--method", "vanilla_llada", *words)
            self.assertEqual(status, code, text)
            self.assertRegex(text, said)

    def test_every_line_is_replayed_or_named(self):
        names = sorted(n for n in os.listdir(os.path.join(GOLDENS, "decode")) if n.endswith(".jsonl"))
        self.assertGreater(len(names), 20)
        self.draw.shuffle(names)
        left = COUNT
        while left > 0:
            name = names.pop()
            names.insert(0, name)
            with open(os.path.join(GOLDENS, "decode", name), "rb") as file:
                lines = [line for line in file if len(line) < LONGEST][:6]
            number = min(left, MOST if COUNT > 1000 else 10)
            left -= number
            data = b"".join(changed_line(self.draw.choice(lines), self.draw) + b"\n" for _ in range(number))
            text, code = self.replayed("decode/" + name, data, "--method", name.removesuffix(".jsonl"))
            os.remove(os.path.join(self.folder, "decode", name))
            # Every line is in the count, whatever its neighbours are.
            self.assertIn(code, (0, 1), text[-3000:])
            self.assertEqual(self.counted(text), number, text[-3000:])

    def test_a_skipped_run_fails(self):
        # The recordings of a registered method under a name that it does not translate.
        with open(os.path.join(GOLDENS, "decode", "vanilla_llada.jsonl"), "rb") as file:
            line = min((line for line in file), key=len)
        text, code = self.replayed("decode/of_nobody.jsonl", line, "--method", "of_nobody")
        self.assertEqual(code, 1, text)
        self.assertIn("no method translates the recordings of 'of_nobody'", text)
        self.assertIn("0 passed, 0 failed, 1 skipped", text)
        self.assertIn("--allow-skips", text)
        text, code = self.replayed("decode/of_nobody.jsonl", line, "--method", "of_nobody",
                                   "--allow-skips")
        self.assertEqual(code, 0, text)

    def test_files_of_logits(self):
        with open(os.path.join(GOLDENS, "logits", "tiny-llada-s1.json"), "rb") as file:
            whole = json.loads(file.read())
        whole["cases"] = whole["cases"][:2]
        os.mkdir(os.path.join(self.folder, "decode"))
        for _ in range(COUNT):
            data = damage.changed_document(json.dumps(whole).encode(), self.draw)
            text, code = self.replayed("logits/tiny-llada-s1.json", data)
            self.assertIn(code, (0, 1), text[-3000:])

    def test_likelihoods(self):
        left = COUNT
        while left > 0:
            name = self.draw.choice(("llada", "dream", "dream_encode_pair"))
            with gzip.open(os.path.join(EVALS, "likelihood", name + ".json.gz")) as file:
                whole = json.loads(file.read())
            cases = [shortened(c) if name != "dream_encode_pair" else c for c in whole["cases"][:6]]
            if self.draw.random() < 0.5:  # the bytes of the file
                left -= 1
                data = damage.changed_bytes(json.dumps(whole | {"cases": cases[:2]}).encode(), self.draw)
                self.replayed(f"likelihood/{name}.json", data, "--data", os.path.join(EVALS, "data"))
            else:
                number = min(left, MOST if COUNT > 1000 else 10)
                left -= number
                data = json.dumps(whole | {"cases": [damage.changed_values(self.draw.choice(cases), self.draw)
                                                     for _ in range(number)]}).encode()
                text, code = self.replayed(f"likelihood/{name}.json", data, "--data", os.path.join(EVALS, "data"))
                for line in text.splitlines():  # no damage passes for a model that is not here
                    if line.startswith("NOT RUN"):
                        self.assertIn(": there is no ", line)
                if code != 3:  # 3: the file is no JSON, for one number beyond its type
                    self.assertEqual(self.counted(text), number, text[-3000:])
            os.remove(os.path.join(self.folder, "likelihood", name + ".json"))


class DamagedPictures(Replay):
    SOURCE, KEPT = PICTURES, ("models", "images", "prepared")

    def setUp(self):
        super().setUp()
        for name in ("logits", "decode"):
            os.mkdir(os.path.join(self.folder, name))

    def recorded(self, name):
        with open(os.path.join(PICTURES, "vision", name + ".json"), "rb") as file:
            return json.load(file)

    def test_every_picture_is_compared(self):
        """One that the official code refuses excepted; without its prepared file it fails."""
        shown = {}
        for name, count in (("tiny-llada-v-s1", 19), ("one_view_tiny-llada-v-s1", 11), ("tiny-dimple-s1", 14)):
            whole = self.recorded(name)
            self.assertEqual(sum("error" not in case for case in whole["cases"]), count)
            shown[name] = json.dumps(whole).encode()
            text, code = self.replayed(f"vision/{name}.json", shown[name])
            self.assertEqual((code, f"{count} passed, 0 failed\n" in text), (0, True), text[-3000:])
            os.remove(os.path.join(self.folder, "vision", name + ".json"))
        os.remove(os.path.join(self.folder, "prepared"))
        for name, whole in shown.items():
            text, code = self.replayed(f"vision/{name}.json", whole)
            self.assertEqual((code, "\n0 passed, " in text), (1, True), text[-3000:])
            self.assertRegex(text, r"FAIL tiny-\S+ rgb_odd.png \S+ cannot be compared: .*prepared/picture-\w+.safetensors")
            os.remove(os.path.join(self.folder, "vision", name + ".json"))

    def test_a_row_of_another_value_fails(self):
        for name, part in (("tiny-llada-v-s1", "tower"), ("tiny-llada-v-s1", "projector"),
                           ("tiny-llada-v-s1", "prompt_rows"), ("one_view_tiny-llada-v-s1", "prompt_rows"),
                           ("tiny-dimple-s1", "tower"), ("tiny-dimple-s1", "projector")):
            whole = self.recorded(name)
            for change in ("row", "sum"):
                case = json.loads(json.dumps(whole["cases"][0]))
                if change == "row":
                    list(case[part]["rows"].values())[-1][-1] += 0.01
                else:
                    case[part]["row_sums"][-1] += 0.01
                text, code = self.replayed(f"vision/{name}.json", json.dumps({**whole, "cases": [case]}).encode())
                self.assertEqual((code, "0 passed, 1 failed" in text), (1, True), text[-3000:])
                self.assertIn(f" {part} differs by 1.0e-02", text)
            os.remove(os.path.join(self.folder, "vision", name + ".json"))

    def test_every_case_is_compared_or_named(self):
        left = COUNT
        while left > 0:
            name = self.draw.choice(("tiny-llada-v-s1", "one_view_tiny-llada-v-s1", "tiny-dimple-s1"))
            whole = self.recorded(name)
            cases = [case for case in whole["cases"] if "error" not in case][:6]
            if self.draw.random() < 0.2:  # the bytes of the file
                left -= 1
                data = damage.changed_bytes(json.dumps(whole | {"cases": cases[:2]}).encode(), self.draw)
                self.replayed(f"vision/{name}.json", data)
            else:
                number = min(left, MOST if COUNT > 1000 else 10)
                left -= number
                damaged = [damage.changed_values(self.draw.choice(cases), self.draw) for _ in range(number)]
                text, code = self.replayed(f"vision/{name}.json", json.dumps(whole | {"cases": damaged}).encode())
                self.assertIn(code, (0, 1), text[-3000:])
                if "no pictures that can be compared" not in text:  # one number beyond its type: no JSON
                    self.assertEqual(self.counted(text), number, text[-3000:])
            os.remove(os.path.join(self.folder, "vision", name + ".json"))


if __name__ == "__main__":
    unittest.main()
