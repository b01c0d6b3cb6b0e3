# SPDX-License-Identifier: Apache-2.0
"""The small models that read digits: made of their deltas, they read the held-out pictures as their cards say, and not
those of another item; the pictures are what their script draws, and the codes those of the encoder
(ctest python.pictures/small_models)."""

import hashlib
import importlib.util
import json
import shutil
import sys
import unittest

import support

support.needs("numpy", "PIL")

import numpy as np
from PIL import Image
from support import SOURCE, program

MODELS, DATA = SOURCE / "experiments/models", SOURCE / "experiments/data"
TRAIN = MODELS / "train/pictures"
sys.path.insert(0, str(TRAIN))
sys.dont_write_bytecode = True


def script(name):
    spec = importlib.util.spec_from_file_location(f"pictures_{name}", TRAIN / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make, heldout, draw = script("make"), script("heldout"), script("draw")
ITEMS = 100
GOAL = 0.95            # with the item's own picture
CHANCE = 0.01 + 0.05   # with another item's: chance and 5 points
EXPERIMENT = """title = "t"
[run]
warmup = 0
repetitions = 1
batch_size = 8
[[model]]
path = "{model}"
[[workload]]
file = "{data}/{file}.jsonl"
name = "own"
limit = {items}
[[workload]]
file = "{data}/{file}_other.jsonl"
name = "another"
limit = {items}
[[method]]
name = "vanilla"
{how}
"""


def lines(name):
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def pixels(name):
    return np.asarray(Image.open(DATA / name).convert("RGB"))


class Made(support.Case):
    def test_a_model_of_an_earlier_delta_is_refused(self):
        """As after an update of the tree: a model that was made lies there, and its delta has changed."""
        folder = self.folder / "tiny-mmada"
        folder.mkdir()
        shutil.copy(MODELS / "tiny-mmada/delta.safetensors", folder)
        make.make("tiny-mmada", str(folder / "delta.safetensors"), str(folder))
        made_of = json.loads((folder / "made_of.json").read_text(encoding="utf-8"))
        self.assertEqual(made_of["delta.safetensors"],
                         hashlib.sha256((folder / "delta.safetensors").read_bytes()).hexdigest())
        of_base = {(folder / name).resolve() for name in made_of} & set((MODELS / "tiny-llada").glob("*"))
        self.assertEqual(len(of_base), len(made_of) - 1)
        done = program("doctor", "--model", folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(folder / "delta.safetensors", "ab") as file:
            file.write(b" ")
        done = program("doctor", "--model", folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("was made of another delta.safetensors than the one here; ./dev model tiny-mmada makes it anew",
                      done.stdout + done.stderr)


class Reading(support.Case):
    def reads(self, name, file, how="params.threshold = 0.9"):
        """Of all held-out items: a share of at least GOAL with their own picture, at most CHANCE with the next item's,
        and the card has the same verdicts."""
        make.make(name, str(MODELS / name / "delta.safetensors"), str(self.folder / name))
        experiment = self.write("e.toml", EXPERIMENT.format(model=self.folder / name, data=DATA, file=file, items=ITEMS,
                                                            how=how))
        done = program("run", experiment, "-o", self.folder / "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(row) for row in (self.folder / "out/rows.jsonl").read_text(encoding="utf-8").splitlines()]
        found = {row["workload"]["family"]: row["score"]["mean"] for row in rows}
        self.assertEqual([row["workload"]["items"] for row in rows], [ITEMS, ITEMS])
        self.assertGreaterEqual(found["own"], GOAL)
        self.assertLessEqual(found["another"], CHANCE)
        card = (MODELS / name / "README.md").read_text(encoding="utf-8")
        for bar, met in (("at least 95 % with the item's own picture", found["own"] >= GOAL),
                         ("at most chance (1 %) and 5 points with another item's", True)):
            self.assertIn(f"| {bar} | {'yes' if met else 'no'} |", card)

    def test_llada_v(self):
        self.reads("tiny-llada-v", "picture_read")

    def test_dimple(self):
        self.reads("tiny-dimple", "picture_read", "preset = \"dimple\"")

    def test_mmada(self):
        self.reads("tiny-mmada", "picture_read_codes")


class Items(unittest.TestCase):
    def test_pictures_are_those_that_the_script_draws(self):
        items = lines("picture_read")
        drawn = heldout.drawn()
        self.assertEqual((len(items), len(drawn)), (100, 100))
        for item, (picture, number) in zip(items, drawn):
            np.testing.assert_array_equal(pixels(item["images"][0]), picture)
            self.assertEqual((item["answer"], item["check"]), (f"#### {number}", {"value": int(number)}))

    def test_what_a_picture_shows_is_its_answer(self):
        """Read by comparison with the digits' dots: the answers are not taken from where the pictures were drawn."""
        shapes = {digit: draw.glyph(digit) for digit in range(10)}
        for item in lines("picture_read"):
            picture, read = pixels(item["images"][0]).astype(int), ""
            for top in range(0, 56, 14):
                for left in range(0, 56, 14):
                    ink = (picture[top:top + 14, left:left + 14] != picture[0, 0]).any(-1)
                    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
                    if not len(rows):
                        continue
                    # A 1 has ink in all its columns; all digits are 10 high and 6 wide.
                    found = ink[rows[0]:rows[0] + 10, columns[0]:columns[0] + 6]
                    read += "".join(str(d) for d, shape in shapes.items()
                                    if shape.shape == found.shape and (shape == found).all())
            self.assertEqual(f"#### {read}", item["answer"], item["id"])

    def test_another_picture_shows_another_number(self):
        for name, key in (("picture_read", "images"), ("picture_read_codes", "codes")):
            items, others = lines(name), lines(name + "_other")
            for i, (item, other) in enumerate(zip(items, others, strict=True)):
                shown = items[(i + 1) % len(items)]
                self.assertEqual((other["answer"], other[key]), (item["answer"], shown[key]))
                self.assertNotEqual(shown["answer"], item["answer"])

    def test_codes_are_those_of_the_encoder(self):
        """Its two layers by loops: a code's highest bit is the first number's sign; none is near 0."""
        delta = heldout.read_safetensors(str(MODELS / "tiny-mmada/delta.safetensors"))
        first, second = (delta[f"encoder.{i}.weight"].astype(float) for i in (0, 2))
        for item, coded in zip(lines("picture_read")[:4], lines("picture_read_codes")):
            picture = pixels(item["images"][0]).astype(float) / 255
            for at, code in enumerate(coded["codes"]):
                top, left = at // 4 * 14, at % 4 * 14
                cell = np.array([picture[top + y, left + x, c] for c in range(3) for y in range(14) for x in range(14)])
                cell -= sum(cell) / len(cell)
                cell /= (sum(cell ** 2) / len(cell)) ** 0.5 + 0.1
                hidden = [max(float(w @ cell) + float(b), 0.0) for w, b in zip(first, delta["encoder.0.bias"])]
                latent = [float(w @ np.array(hidden)) + float(b) for w, b in zip(second, delta["encoder.2.bias"])]
                self.assertEqual(code, int("".join("1" if x > 0 else "0" for x in latent), 2))
                self.assertGreater(min(map(abs, latent)), 0.02)


if __name__ == "__main__":
    unittest.main()
