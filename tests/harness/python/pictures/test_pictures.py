# SPDX-License-Identifier: Apache-2.0
"""unmask pictures: the bytes that the models' own code makes of a picture (tests/goldens/pictures), sizes, the
prepared file, and pictures that are refused (ctest python.pictures/pictures)."""

import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import types
import unittest
import zlib

import support

support.needs("numpy", "PIL")

import numpy as np
import PIL
from PIL import Image
from support import SOURCE, program
from unmask.pictures import families, geometry, prepare, prepared
from unmask.pictures.resample import read_picture
from unmask.rows.errors import UserError

GOLDENS = SOURCE / "tests/goldens/pictures"
MODELS = GOLDENS / "models"


def recorded(name):
    return json.loads((GOLDENS / f"vision/{name}.json").read_text())


def picture(name):
    return read_picture(GOLDENS / "images" / name)[0]


def sha(array, kind):
    return hashlib.sha256(np.ascontiguousarray(array, kind).tobytes()).hexdigest()


def pixels(family, views):
    """What the tower is shown, [n, 3, height, width] float32."""
    tables = np.broadcast_to(family.tables(), (3, 256))
    return np.stack([tables[c][views[..., c]] for c in range(3)], axis=1)


def patches(shown):
    """[rows, 1176] of pixels [3, height, width], as Qwen2-VL's processor gives them: the frame twice, patches of 14 in
    groups of 2 x 2."""
    _, height, width = shown.shape
    split = np.stack([shown, shown]).reshape(2, 3, height // 28, 2, 14, width // 28, 2, 14)
    return split.transpose(2, 5, 3, 6, 1, 0, 4, 7).reshape(height * width // 196, -1)


def llada_v(**more):
    config = types.SimpleNamespace(path="config.json", values={"image_aspect_ratio": "anyres_max_4", **more})
    config.fail = lambda key, problem: families.Configuration.fail(config, key, problem)
    return families.LladaV(config, "")


class Recorded(unittest.TestCase):
    def test_bytes_and_pixels_of_llada_v(self):
        family = families.family_of(MODELS / "tiny-llada-v-s1")
        cases = recorded("tiny-llada-v-s1")["cases"]
        self.assertEqual(len(cases), 19)
        for c in cases:
            views, tiles = family.views(picture(c["image"]), "tiles")
            self.assertEqual((sha(views, "u1"), list(tiles)), (c["bytes"]["sha256_u8"], c["tile_grid"]), c["image"])
            self.assertEqual(sha(pixels(family, views), "<f4"), c["pixels"]["sha256_f32"], c["image"])

    def test_one_view_of_llada_v(self):
        family = families.family_of(MODELS / "tiny-llada-v-s1")
        for c in recorded("one_view_tiny-llada-v-s1")["cases"]:
            preset = {"pad": "pad", "square": "squeeze"}[c["image_aspect_ratio"]]
            if "error" in c:
                self.assertRaises(ValueError, family.views, picture(c["image"]), preset)
                continue
            views, tiles = family.views(picture(c["image"]), preset)
            self.assertIsNone(tiles)
            self.assertEqual(sha(pixels(family, views), "<f4"), c["pixels"]["sha256_f32"], c)

    def test_bytes_of_dimple(self):
        family = families.family_of(MODELS / "tiny-dimple-s1")
        for c in recorded("tiny-dimple-s1")["cases"]:
            if "error" in c:
                self.assertRaises(ValueError, family.views, picture(c["image"]), "own-size")
                continue
            views, _ = family.views(picture(c["image"]), "own-size")
            self.assertEqual(sha(views[0], "u1"), c["bytes"]["sha256_u8"], c["image"])

    def test_bytes_of_mmada(self):
        for c in recorded("tiny-mmada-s1")["cases"]:
            views, _ = families.Mmada(None, None, c["resolution"]).views(picture(c["image"]), c["transform"])
            self.assertEqual(sha(views[0], "u1"), c["bytes"]["sha256_u8"], c)

    def test_published_sizes_and_pixels(self):
        published = recorded("published_geometry")
        family = llada_v(image_grid_pinpoints="(1x1),...,(6x6)")
        self.assertEqual(len(family.points), 36)
        for c in published["sizes"]:
            size = c["size"]
            if "llada_v" in c:
                box = geometry.best_resolution(*size, family.points)
                self.assertEqual([n // 384 for n in box], c["llada_v"]["tile_grid"], size)
            if "error" in c["dimple"]:
                self.assertRaises(ValueError, geometry.multiples, *size, 28, 3136, 1003520)
            else:
                self.assertEqual(list(geometry.multiples(*size, 28, 3136, 1003520)), c["dimple"]["size"], size)
            if "mmada_crop" in c:
                resized, corner = geometry.shorter_to(*size, 512)
                want = c["mmada_crop"]
                self.assertEqual((list(resized), list(corner)), (want["resized"], [want["left"], want["top"]]), size)
        dimple = families.family_of(MODELS / "tiny-dimple-s1")
        for name, kind in (("llada_v", family), ("dimple", dimple), ("mmada", families.Mmada(None, None))):
            want = np.asarray(published["byte_tables"][name], np.float32)
            np.testing.assert_array_equal(np.broadcast_to(kind.tables(), (3, 256)), np.broadcast_to(want, (3, 256)))

    def test_pictures_at_published_sizes(self):
        llada = llada_v(image_grid_pinpoints="(1x1),...,(6x6)")
        dimple, mmada = families.family_of(MODELS / "tiny-dimple-s1"), families.Mmada(None, None)
        dimple.least, dimple.most = 3136, 1003520
        images = recorded("published_geometry")["images"]
        self.assertEqual(len(images), 9)
        for c in images:
            shown = picture(c["image"])
            views, tiles = llada.views(shown, "tiles")
            want = c["llada_v"]
            self.assertEqual((sha(views, "u1"), list(tiles)), (want["bytes"]["sha256_u8"], want["tile_grid"]), c["image"])
            self.assertEqual(sha(pixels(llada, views), "<f4"), want["pixels"]["sha256_f32"], c["image"])
            for preset in ("crop", "squash"):
                views, _ = mmada.views(shown, preset)
                self.assertEqual(sha(pixels(mmada, views)[0], "<f4"), c[f"mmada_{preset}"]["pixels"]["sha256_f32"],
                                 (c["image"], preset))
            if "error" in c["dimple"]:
                self.assertRaises(ValueError, dimple.views, shown, "own-size")
                continue
            views, _ = dimple.views(shown, "own-size")
            self.assertEqual([1, *(n // 14 for n in views.shape[1:3])], c["dimple"]["grid_thw"], c["image"])
            rows = patches(pixels(dimple, views)[0])
            self.assertEqual(sha(rows, "<f4"), c["dimple"]["pixels"]["sha256_f32"], c["image"])

    def test_points_are_a_list_a_text_or_refused(self):
        self.assertEqual(llada_v(image_grid_pinpoints=[[384, 768], [768, 384]]).points, [(384, 768), (768, 384)])
        self.assertEqual(llada_v(image_grid_pinpoints="[[384, 768]]").points, [(384, 768)])
        for wrong in (None, [], [[384, 385]], "(1x1)", [[384]], 7):
            with self.assertRaisesRegex(UserError, "config.json: `image_grid_pinpoints` must"):
                llada_v(image_grid_pinpoints=wrong)


class Properties(unittest.TestCase):
    def test_a_constant_picture_stays_constant(self):
        """Of any size and mode, whatever its family makes of it: only padding has another colour."""
        draw = random.Random(5)
        tiled = llada_v(image_grid_pinpoints="(1x1),...,(3x3)", vision_config={"image_size": 56})
        sdar = types.SimpleNamespace(path="config.json", values={
            "vision_config": {"image_size": 28}, "image_grid_pinpoints": [[28, 56], [56, 56], [84, 28]]})
        shown = [(tiled, "tiles"), (tiled, "pad"), (tiled, "squeeze"), (families.SdarVl(sdar, ""), "tiles"),
                 (families.family_of(MODELS / "tiny-dimple-s1"), "own-size"), (families.Mmada(None, None, 64), "crop"),
                 (families.Mmada(None, None, 64), "squash")]
        for mode in ("RGB", "L", "RGBA", "LA", "P", "1") * 8:
            size = draw.randint(28, 300), draw.randint(28, 300)
            colour = (draw.choice((0, 255)),) if mode == "1" else tuple(draw.randrange(256) for _ in mode)
            colour = (*colour[:-1], 255) if mode.endswith("A") else colour
            image = Image.new(mode, size, colour if len(colour) > 1 else colour[0])
            if mode == "P":
                image.putpalette([draw.randrange(256) for _ in range(768)])
            want = np.asarray(image.convert("RGB"))[0, 0]
            for family, preset in shown:
                views, tiles = family.views(image, preset)
                told = (mode, size, family.name, preset)
                constant = (views == want).all(-1)
                if preset == "pad":  # the border is blended with the padding, which is resized with it
                    self.assertTrue(constant[0, 28, 28], told)
                    continue
                self.assertTrue(constant[0].all(), told)
                self.assertTrue((constant | (views == 0).all(-1)).all(), told)
                self.assertEqual(tiles is not None, preset == "tiles")


class Command(support.Case):
    def pictures(self, *arguments, model="tiny-llada-v-s1"):
        return program("pictures", *arguments, "--model", MODELS / model, "-o", self.folder / "out")

    def test_writes_one_file_that_says_what_it_is(self):
        done = self.pictures(GOLDENS / "images/rgb_odd.png")
        self.assertEqual(done.returncode, 0, done.stderr)
        content = (self.folder / "out" / done.stdout.strip().split("/")[-1]).read_bytes()
        length = int.from_bytes(content[:8], "little")
        head = json.loads(content[8:8 + length])
        said = head["__metadata__"]
        self.assertEqual(head["views"]["shape"], [5, 56, 56, 3])
        self.assertEqual((said["family"], said["preset"], said["size"], said["tiles"], said["rule"]),
                         ("llada-v", "tiles", "98x62", "2x2", "columns-then-rows"))
        want = recorded("tiny-llada-v-s1")["cases"][0]["bytes"]["sha256_u8"]
        self.assertEqual(hashlib.sha256(content[8 + length:]).hexdigest(), want)
        # Written out, so that a file prepared by one version is found by the next.
        self.assertEqual(said["settings"], "side 56, points 56x56 56x112 56x168 112x56 112x112 112x168 168x56 "
                         "168x112 168x168")
        table = recorded("published_geometry")["byte_tables"]["llada_v"][0]
        self.assertEqual(said["tables"], sha(table, "<f4"))

        as_json = json.loads(self.pictures(GOLDENS / "images/rgb_odd.png", "--format", "json").stdout)
        self.assertEqual(as_json["pictures"], [{"picture": str(GOLDENS / "images/rgb_odd.png"),
                                                "file": done.stdout.strip()}])

    def test_what_differs_has_another_name(self):
        family = families.family_of(MODELS / "tiny-llada-v-s1")
        names = {prepared.file_name(family, "tiles", "a"), prepared.file_name(family, "pad", "a"),
                 prepared.file_name(family, "tiles", "b"),
                 prepared.file_name(families.Mmada(None, None), "tiles", "a")}
        self.assertEqual(len(names), 4)

    def test_bad_pictures_are_refused_in_one_sentence(self):
        whole = (GOLDENS / "images/rgb_odd.png").read_bytes()

        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        claims = whole[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 1 << 15, 1 << 14, 8, 2, 0, 0, 0))
        Image.new("RGB", (40, 40)).save(self.folder / "picture.gif")
        for name, content, said in (
                ("text.png", b"no picture", "is no PNG or JPEG picture"),
                ("empty.png", b"", "is no PNG or JPEG picture"),
                ("cut.png", whole[:2000], "the picture is truncated or damaged"),
                ("large.png", claims + chunk(b"IDAT", b"") + chunk(b"IEND", b""), "more than 268435456 pixels"),
                ("picture.gif", (self.folder / "picture.gif").read_bytes(), "is no PNG or JPEG picture")):
            (self.folder / name).write_bytes(content)
            done = self.pictures(self.folder / name)
            self.assertEqual((done.returncode, done.stdout), (2, ""), name)
            self.assertIn(f"{name}: {said}", done.stderr.replace("the picture has ", ""))
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertFalse((self.folder / "out").exists(), name)
        Image.new("RGB", (28 * 201, 28)).save(self.folder / "thin.png")
        for name, said in (("thin.png", "ratio of the sides must be at most 200"),
                           (GOLDENS / "images/one_row.png", "a side must have at least 28")):
            done = self.pictures(self.folder / name, model="tiny-dimple-s1")
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
        done = self.pictures(self.folder / "nowhere.png")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1), done.stderr)

    def test_other_models_and_presets_are_refused(self):
        one = GOLDENS / "images/square_28.png"
        done = program("pictures", one, "--model", SOURCE / "experiments/models/tiny-llada", "-o", self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("names no model that is shown pictures", done.stderr)
        done = self.pictures(one, "--preset", "crop")
        self.assertIn("llada-v has pad, squeeze, tiles", done.stderr)
        done = self.pictures(one, "--side", "64")
        self.assertIn("for MMaDA alone", done.stderr)


class SeeingModel(support.Case):
    """A golden model with a tokenizer of single bytes."""

    MODEL, FIRST = "tiny-llada-v-s1", 250  # and the first id behind the bytes

    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        shutil.copytree(MODELS / self.MODEL, self.model)
        whole = json.loads((SOURCE / "experiments/models/tiny-llada/tokenizer.json").read_text())
        vocabulary = whole["model"]["vocab"]
        whole["model"]["vocab"] = {token: i for token, i in vocabulary.items() if i < self.FIRST}
        whole["model"]["merges"] = []
        names = {name: self.FIRST + i for i, name in enumerate((
            "<|mdm_mask|>", "<|endoftext|>", "<|start_header_id|>", "<|startoftext|>", "<|end_header_id|>", "<|eot_id|>"))}
        whole["added_tokens"] = sorted(({**token, "id": names[token["content"]]} for token in whole["added_tokens"]),
                                       key=lambda token: token["id"])
        (self.model / "tokenizer.json").write_text(json.dumps(whole))
        shutil.copy(SOURCE / "experiments/models/tiny-llada/tokenizer_config.json", self.model)
        self.picture = GOLDENS / "images/rgb_odd.png"


class Generate(SeeingModel):
    """`unmask generate --image`."""

    def generate(self, *arguments, **environment):
        kept = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache"), **environment}
        return program("generate", "--model", self.model, "--device", "cpu", "-n", "8", "--set",
                       "params.block_length=8", *arguments, env=kept)

    def test_a_picture_stands_in_the_prompt(self):
        said = "abc<image>?def"  # the token behind the picture is dropped, as LLaDA-V's code does
        done = self.generate("--raw", "--image", self.picture, said)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("picture: 70 rows of the prompt, tower 1 run", done.stderr)
        forwards = 8
        self.assertIn(f"{forwards} forward passes, {forwards * (3 + 70 + 3 + 8)} computed positions", done.stderr)
        again = self.generate("--raw", "--image", self.picture, said)
        self.assertEqual(done.stdout, again.stdout)
        other = self.generate("--raw", "--image", GOLDENS / "images/grey16.png", said)
        self.assertNotEqual(done.stdout, other.stdout)
        one = self.generate("--raw", "--image", self.picture, "--picture-preset", "pad", said)
        self.assertIn("picture: 17 rows", one.stderr)
        # Prepared before, it needs no Python; another one does.
        without = {"UNMASK_PYTHON": str(self.folder / "no-python")}
        self.assertEqual(self.generate("--raw", "--image", self.picture, said, **without).stdout, done.stdout)
        done = self.generate("--raw", "--image", GOLDENS / "images/grey.png", said, **without)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("unmask pictures", done.stderr)

    def test_bad_input_ends_in_one_sentence(self):
        for arguments, code, words in (
                (["--raw", "--image", self.picture, "no place"], 2, "must hold <image> once"),
                (["--raw", "--image", self.picture, "<image><image>"], 2, "more than once"),
                (["--image", self.picture, "--picture-preset", "crop", "a"], 2, "crop"),
                (["--picture-preset", "pad", "a"], 2, "needs --image"),
                (["--image", self.folder / "none.png", "a"], 3, "none.png"),
                (["--model", SOURCE / "experiments/models/tiny-llada", "--image", self.picture, "a"], 3,
                 "show this model a picture")):
            done = program("generate", *([] if "--model" in arguments else ["--model", self.model]), "--device",
                           "cpu", "-n", "8", *arguments)
            self.assertEqual(done.returncode, code, (arguments, done.stderr))
            self.assertIn(words, done.stderr)

    def test_a_prepared_file_that_does_not_fit_is_refused(self):
        family = families.family_of(self.model)
        _, whole = prepare(self.picture, family, "tiles")
        digest = hashlib.sha256(self.picture.read_bytes()).hexdigest()
        name = prepared.file_name(family, "tiles", digest)
        self.folder.joinpath("pictures").mkdir()
        length = 8 + int.from_bytes(whole[:8], "little")
        for before, after, words in ((b'"tiles", "settings"', b'"tales", "settings"', "`preset` is"),
                                     (b'"98x62"', b'"9x620"', "`tiles` is"),
                                     (b'"98x62"', b'"98-62"', "`size` must be"),
                                     (digest[:8].encode(), b"00000000", "`picture` is"),
                                     (b"columns-then-rows", b"rows-then-columns", "`rule` is")):
            self.assertIn(before, whole[:length])
            (self.folder / "pictures" / name).write_bytes(whole[:length].replace(before, after) + whole[length:])
            done = self.generate("--raw", "--image", self.picture, "a<image>b")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"{name}: {words}", done.stderr)
        fewer = whole.replace(b"[5, 56, 56, 3]", b"[5, 56, 3, 56]")
        for content, words in ((whole[:-1], ""), (whole[:length // 2], ""), (b"", ""),
                               (fewer, 'tensor "views" must be U8 [5, 56, 56, 3]')):
            (self.folder / "pictures" / name).write_bytes(content)
            done = self.generate("--raw", "--image", self.picture, "a<image>b")
            self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
            self.assertIn(f"{name}: {words}", done.stderr)
            self.assertEqual(done.stderr.count("unmask: "), 1, done.stderr)


class GenerateDimple(SeeingModel):
    """The same with Dimple: one view of its own size, no newline, and no token that is dropped."""

    MODEL, FIRST = "tiny-dimple-s1", 180

    def test_a_picture_stands_in_the_prompt(self):
        kept = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        command = ("generate", "--model", self.model, "--device", "cpu", "-n", "8", "--preset", "dimple", "--set",
                   "params.threshold=2", "--raw", "--format", "json", "--image")
        done = program(*command, self.picture, "abc<image>?def", env=kept)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        # vision/tiny-dimple-s1.json: 4 x 8 patches, 2 x 2 of them a row of the prompt.
        self.assertEqual((said["picture_rows"], said["tower_runs"]), (8, 1))
        self.assertEqual(said["rows"], said["forwards"] * (3 + 8 + 4 + 8))
        other = program(*command, GOLDENS / "images/square_28.png", "abc<image>?def", env=kept)
        self.assertEqual(json.loads(other.stdout)["picture_rows"], 4)
        self.assertNotEqual(json.loads(other.stdout)["tokens"], said["tokens"])
        done = program(*command, self.picture, "--picture-preset", "tiles", "<image>", env=kept)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("own-size", done.stderr)


class Tasks(SeeingModel):
    """Runs one experiment with tasks of its own."""

    def write_tasks(self):
        self.write("tasks.jsonl", "".join(json.dumps(task) + "\n" for task in self.tasks))

    def run_tasks(self, output, run="", kind="decode", more="", repetitions=2, model="", confine=False,
                  method="fast_dllm", **environment):
        path = self.write("pictures.toml", f"""title = "Pictures"
kind = "{kind}"
[run]
device = "cpu"
warmup = 0
repetitions = {repetitions}
{run}
[[model]]
path = "model"
{model}
[[workload]]
file = "tasks.jsonl"
[[method]]
name = "{method}"
params = {{block_length = 8}}
{more}""")
        kept = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache"), **environment}
        words = ["--confine", self.folder] if confine else []
        done = program("run", path, "-o", self.folder / output, "--no-progress", *words, env=kept)
        rows = sorted((self.folder / output).glob("*.jsonl")) if (self.folder / output).exists() else []
        return done, [json.loads(line) for file in rows for line in file.read_text().splitlines()]


class Unread(Tasks):
    """A checkpoint whose tower nothing reads: Dimple's tensors and keys under Dream's name."""

    MODEL, FIRST = "tiny-dimple-s1", 180

    def setUp(self):
        super().setUp()
        config = json.loads((self.model / "config.json").read_text())
        self.config = {**config, "architectures": ["DreamModel"], "model_type": "Dream"}
        self.write("model/config.json", json.dumps(self.config))
        # Its chat needs line feeds and spaces, whose tokens are not among the first 180.
        tokens = json.loads((self.model / "tokenizer.json").read_text())
        vocabulary = tokens["model"]["vocab"]
        vocabulary["\u010a"], vocabulary["\u0120"] = vocabulary.pop("~"), vocabulary.pop("}")
        self.write("model/tokenizer.json", json.dumps(tokens))
        self.tasks = [{"id": "a", "family": "seen", "prompt": "What?", "scorer": "none", "gen_length": 8}]
        self.write_tasks()
        head = self.head()
        tower = [name for name in head if name.startswith(("visual.", "img_projector."))]
        keys = [key for key in config if "vision" in key or "image" in key or "video" in key or key == "mrope_section"]
        self.said = f"{len(tower) + len(keys)} parts of a picture tower"

    def head(self):
        content = (self.model / "model.safetensors").read_bytes()
        return json.loads(content[8:8 + int.from_bytes(content[:8], "little")])

    def leave_out_the_tower(self):
        """The same language model, and nothing of pictures."""
        content = (self.model / "model.safetensors").read_bytes()
        begin = 8 + int.from_bytes(content[:8], "little")
        head, data = {}, b""
        for name, entry in self.head().items():
            if name == "__metadata__" or name.startswith(("visual.", "img_projector.")):
                continue
            first, last = entry["data_offsets"]
            head[name] = {**entry, "data_offsets": [len(data), len(data) + last - first]}
            data += content[begin + first:begin + last]
        text = json.dumps(head).encode()
        self.write("model/model.safetensors", len(text).to_bytes(8, "little") + text + data)
        self.write("model/config.json", json.dumps({
            key: value for key, value in self.config.items()
            if not ("vision" in key or "image" in key or "video" in key or key == "mrope_section")}))

    def test_doctor_names_it(self):
        done = program("doctor", "--model", self.model)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertRegex(done.stdout, f"FAIL  {self.model}: holds {self.said} that nothing reads: .*--pictures off\n")
        self.leave_out_the_tower()
        done = program("doctor", "--model", self.model)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("picture", done.stdout)

    def test_run_asks_it_about_text_alone_if_told_so(self):
        done, rows = self.run_tasks("whole")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"model: holds {self.said} that nothing reads: ", rows[0]["reason"] if rows else done.stderr)
        done, rows = self.run_tasks("text", model='pictures = "off"')
        self.assertEqual((done.returncode, len(rows)), (0, 1), rows[0]["reason"] if rows else done.stderr)
        self.assertIn(f"{self.said} are not read: ", rows[0]["model"]["caution"])
        shutil.copy(self.picture, self.folder)
        self.tasks[0]["images"] = [self.picture.name]
        self.write_tasks()
        done, shown = self.run_tasks("shown", model='pictures = "off"')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nothing here can show this model a picture", shown[0]["reason"] if shown else done.stderr)
        del self.tasks[0]["images"]
        self.write_tasks()
        self.leave_out_the_tower()
        done, alone = self.run_tasks("alone")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(alone[0]["answers_hash"], rows[0]["answers_hash"])
        self.assertNotIn("picture", alone[0]["model"].get("caution", ""))

    def test_generate_asks_it_about_text_alone_if_told_so(self):
        command = ("generate", "--model", self.model, "--device", "cpu", "-n", "8", "--raw", "abc")
        done = program(*command)
        self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
        self.assertIn(f"{self.model}: holds {self.said} that nothing reads: ", done.stderr)
        text = program(*command, "--pictures", "off")
        self.assertEqual(text.returncode, 0, text.stderr)
        done = program(*command, "--pictures", "off", "--image", self.picture)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("--pictures off leaves the tower unread", done.stderr)
        self.leave_out_the_tower()
        self.assertEqual(program(*command).stdout, text.stdout)


class Run(Tasks):
    """`unmask run` with tasks that show pictures."""

    # Rows of the prompt by the official code (vision/tiny-llada-v-s1.json), tiles and the whole picture.
    SHOWN = {"rgb_odd.png": (70, 5), "grey16.png": (44, 3)}

    def setUp(self):
        super().setUp()
        for name in self.SHOWN:
            shutil.copy(GOLDENS / "images" / name, self.folder)
        items = [{"id": "a", "images": ["rgb_odd.png"]}, {"id": "b"}, {"id": "c", "images": ["grey16.png"]}]
        self.tasks = [{"family": "seen", "prompt": "What?", "scorer": "none", "gen_length": 8, **item}
                      for item in items]
        self.write_tasks()

    def arithmetic(self, views):
        """Of the tower and the projector, from the configuration: 2 for a multiplication and an addition."""
        hidden, inner, width, patches, layers = 32, 68, 64, 16, 3
        weights = 3 * 14 * 14 * hidden + hidden * width + width * width
        weights += layers * (4 * hidden * hidden + 2 * hidden * inner)
        attention = layers * 2 * patches * hidden
        return 2 * views * patches * (weights + attention)

    def test_a_row_counts_pictures_and_answers_depend_on_them(self):
        done, rows = self.run_tasks("first", "batch_size = 2")
        self.assertEqual((done.returncode, len(rows)), (0, 1), done.stderr)
        metrics, origin = rows[0]["metrics"], rows[0]["provenance"]
        self.assertEqual((metrics["picture_rows"], metrics["tower_runs"]), (70 + 44, 2), metrics)
        self.assertEqual(metrics["picture_flops"], self.arithmetic(5) + self.arithmetic(3))
        self.assertEqual((origin["picture_seconds"], origin["picture_flops"]), ("measured", "analytic"))
        self.assertGreater(metrics["picture_seconds"], 0)
        self.assertLess(metrics["picture_seconds"], metrics["wall_seconds"])
        workload = rows[0]["workload"]
        self.assertEqual((workload["picture_preset"], workload["pillow"]), ("tiles", PIL.__version__))
        # Prepared, it needs no Python, and each request gives alone what it gives in a batch.
        without = {"UNMASK_PYTHON": str(self.folder / "no-python")}
        done, again = self.run_tasks("again", "batch_size = 1", **without)
        self.assertEqual((done.returncode, len(again)), (0, 1), done.stderr)
        self.assertEqual(again[0]["answers_hash"], rows[0]["answers_hash"])
        shutil.copy(GOLDENS / "images/rgb_mid.png", self.folder / "rgb_odd.png")
        done, _ = self.run_tasks("other", **without)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, "Prepare it on a machine that has Python with: unmask pictures .*rgb_odd.png --model ")
        done, other = self.run_tasks("other")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(other[0]["answers_hash"], rows[0]["answers_hash"])
        self.assertNotEqual(other[0]["workload"]["hash"], rows[0]["workload"]["hash"])

    def test_the_plan_and_doctor_say_what_a_picture_costs(self):
        cost = r"a picture of 640x480 pixels takes \d+ positions of a prompt and [\d.]+ GFLOP of the tower"
        done = program("doctor", "--model", self.model)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, f" {cost}\n")
        self.run_tasks("first")
        done = program("run", self.folder / "pictures.toml", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, f"is known when it is prepared; {cost}\n")

    def test_pictures_prepared_elsewhere_need_no_python(self):
        """In a folder of $UNMASK_PICTURES, or in pictures/ of the folder that the run is started in, with an empty cache.
        Without them the run says what this machine lacks, and how to prepare them on another."""
        files = [self.folder / name for name in self.SHOWN]
        done = program("pictures", *files, "--model", self.model, "-o", self.folder / "elsewhere", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        prepared_files = sorted(os.listdir(self.folder / "elsewhere"))
        self.assertEqual(len(prepared_files), 2)
        none = {"UNMASK_PYTHON": str(self.folder / "no-python"), "XDG_CACHE_HOME": str(self.folder / "empty")}
        done, _ = self.run_tasks("lacking", **none)
        self.assertEqual((done.returncode, done.stderr.count("NOT RUN: ")), (3, 1), done.stderr)
        self.assertRegex(done.stderr, "NOT RUN: needs Python .*no-python.* Prepare them on a machine that has Python with: "
                         f"unmask pictures .*[.]png [.]{{3}} --model {self.model}\n")
        self.assertFalse((self.folder / "lacking").exists())
        folders = f"{self.folder}/nowhere::{self.folder}/elsewhere"
        done, carried = self.run_tasks("carried", UNMASK_PICTURES=folders, **none)
        self.assertEqual((done.returncode, len(carried)), (0, 1), done.stderr)
        self.assertEqual(carried[0]["metrics"]["tower_runs"], 2)
        os.rename("elsewhere", "pictures")
        done, beside = self.run_tasks("beside", **none)
        self.assertEqual((done.returncode, len(beside)), (0, 1), done.stderr)
        self.assertFalse((self.folder / "empty/unmask/pictures").exists())
        shutil.rmtree("pictures")
        done, here = self.run_tasks("here")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len({rows[0]["answers_hash"] for rows in (carried, beside, here)}), 1)
        # Of two, one is missing: that one is named.
        shutil.copytree(self.folder / "cache/unmask/pictures", "pictures")
        family = families.family_of(self.model)
        digest = hashlib.sha256((GOLDENS / "images/grey16.png").read_bytes()).hexdigest()
        os.remove("pictures/" + prepared.file_name(family, "tiles", digest))
        done, _ = self.run_tasks("one", **none)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, f"Prepare it on a machine .*: unmask pictures {self.folder}/grey16.png --model ")

    def test_a_bundle_takes_prepared_pictures_along(self):
        """Of the tasks that come with the program. Its pictures stay out, and a repetition prepares nothing."""
        path = self.write("bundled.toml", """title = "Bundled"
[run]
device = "cpu"
warmup = 0
repetitions = 1
[[model]]
path = "model"
[[workload]]
tasks = ["picture_read"]
limit = 2
[[method]]
name = "fast_dllm"
params = {block_length = 8}
""")
        kept = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        done = program("run", path, "-o", "rows", "--no-progress", env=kept)
        self.assertEqual(done.returncode, 0, done.stderr + json.loads(
            (self.folder / "rows/rows.jsonl").read_text())["reason"])
        family = families.family_of(self.model)
        names = sorted(prepared.file_name(family, "tiles", hashlib.sha256(
            (SOURCE / f"experiments/data/pictures/read_00{i}.png").read_bytes()).hexdigest()) for i in range(2))
        self.assertEqual(json.loads((self.folder / "rows/run.json").read_text())["pictures"], names)
        done = program("bundle", "rows", "-o", "whole.tar", env=kept)
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = [line.strip() for line in done.stdout.splitlines() if "pictures/" in line]
        self.assertEqual(listed, [f"pictures/{name}" for name in names])
        empty = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "empty")}
        done = program("rerun", "whole.tar", "--ignore-speed", "--no-progress", "--model", f"model={self.model}", env=empty)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("1 points compared: tokens identical in 1", done.stdout)
        self.assertFalse((self.folder / "empty/unmask/pictures").exists())
        os.remove(self.folder / "cache/unmask/pictures" / names[1])
        done = program("bundle", "rows", "-o", "part.tar", env=kept)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"1 prepared pictures are not part of the bundle, because they are not here: {names[1]}", done.stderr)
        manifest = json.loads((self.folder / "rows/run.json").read_text())
        self.write("rows/run.json", json.dumps({**manifest, "pictures": ["../secret"]}))
        done = program("bundle", "rows", "-o", "wrong.tar", env=kept)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("run.json: broken manifest: `pictures` is no list of names of prepared pictures", done.stderr)

    def test_confined_to_a_folder_with_the_pictures(self):
        """`--confine` takes pictures of the tasks' folder, and none that a path or a link leads out to."""
        elsewhere = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        shutil.copy(GOLDENS / "images/rgb_mid.png", elsewhere / "secret.png")
        done, rows = self.run_tasks("inside", confine=True)
        self.assertEqual((done.returncode, len(rows)), (0, 1), done.stderr)
        self.assertEqual(rows[0]["metrics"]["picture_rows"], 70 + 44)
        os.symlink(elsewhere / "secret.png", "link.png")
        for path in (f"../{elsewhere.name}/secret.png", str(elsewhere / "secret.png"), "link.png"):
            self.tasks[0]["images"] = [path]
            self.write_tasks()
            done, rows = self.run_tasks("outside", confine=True)
            self.assertEqual((done.returncode, rows), (3, []), done.stderr)
            self.assertIn("tasks.jsonl", done.stderr)
            self.assertIn("`images`", done.stderr)
            self.assertIn(path, done.stderr)

    def test_a_killed_run_takes_up_its_passes_with_their_pictures(self):
        self.tasks = [{**task, "id": f"{task['id']}{i}"} for i in range(8) for task in self.tasks]
        self.write_tasks()
        _, whole = self.run_tasks("whole", repetitions=3)
        path, output = self.folder / "pictures.toml", self.folder / "killed"
        kept = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        with subprocess.Popen([os.environ["UNMASK_PROGRAM"], "run", path, "-o", output, "--no-progress"], env=kept,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            while running.poll() is None:
                passes = list((output / "unfinished").glob("*.passes")) if output.exists() else []
                if any('"memory"' in file.read_text() for file in passes):
                    running.kill()
            self.assertEqual(running.returncode, -signal.SIGKILL)
        _, rows = self.run_tasks("killed", repetitions=3)
        self.assertGreaterEqual(rows[0]["samples"]["taken_up"], 1)
        for name in ("picture_rows", "tower_runs", "picture_flops"):
            self.assertEqual(rows[0]["metrics"][name], whole[0]["metrics"][name], name)
        self.assertEqual(rows[0]["metrics"]["picture_rows"], 8 * (70 + 44))
        self.assertGreater(rows[0]["metrics"]["picture_seconds"], 0)
        self.assertEqual(rows[0]["answers_hash"], whole[0]["answers_hash"])

    def test_a_model_without_a_tower_is_shown_none(self):
        shutil.rmtree(self.model)
        shutil.copytree(SOURCE / "experiments/models/tiny-llada", self.model)
        done, rows = self.run_tasks("blind")
        self.assertNotEqual(done.returncode, 0)
        said = rows[0]["reason"] if rows else done.stderr
        self.assertIn("nothing here can show this model a picture", said)

    def test_codes_of_llada2_are_refused(self):
        """LLaDA2.0-Uni: LLaDA2.0 whose vocabulary has codes of pictures. It is asked about text alone if told so."""
        shutil.rmtree(self.model)
        shutil.copytree(SOURCE / "experiments/models/tiny-llada2", self.model)
        config = json.loads((self.model / "config.json").read_text())
        self.write("model/config.json", json.dumps({**config, "image_token_offset": config["vocab_size"] - 64}))
        text = self.tasks[1]
        for number, shown in enumerate(({}, {"codes": [1, 2]}, {"images": ["rgb_odd.png"]})):
            self.tasks = [{**text, **shown}]
            self.write_tasks()
            done, rows = self.run_tasks(f"unread-{number}", method="block_diffusion")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("of a picture tower that nothing reads: `image_token_offset` of config.json",
                          rows[0]["reason"] if rows else done.stderr)
            done, rows = self.run_tasks(f"text-{number}", method="block_diffusion", model='pictures = "off"')
            said = rows[0]["reason"] if rows else done.stderr
            self.assertEqual("nothing here can show this model a picture" in said, bool(shown), said)
            self.assertEqual(done.returncode == 0, not shown, done.stderr)

    def test_without_layers_rows_are_counted_and_no_tower_runs(self):
        serve = """[serve]
clock = "virtual"
cost = "1:10 512:20"
commits = "sdar-8b/sharegpt"
arrivals = "poisson"
rate = 10
requests = 6
"""
        done, rows = self.run_tasks("dry", kind="serve", more=serve)
        self.assertEqual((done.returncode, len(rows)), (0, 1), done.stdout + done.stderr)
        metrics = rows[0]["metrics"]
        self.assertEqual((metrics["picture_rows"], metrics["tower_runs"]), (2 * (70 + 44), 0), metrics)
        self.assertFalse({"picture_flops", "picture_seconds"} & set(metrics))

    def test_what_cannot_be_shown_is_refused_before_anything_is_measured(self):
        done, _ = self.run_tasks("probes", more='[probe]\nnames = ["confidence"]')
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("leave out [probe]", done.stderr)
        (self.folder / "broken.png").write_bytes((self.folder / "rgb_odd.png").read_bytes()[:2000])
        self.tasks[0]["images"] = ["broken.png"]
        self.write_tasks()
        done, rows = self.run_tasks("broken")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("broken.png: the picture is truncated or damaged", rows[0]["reason"] if rows else done.stderr)
        self.tasks[0]["images"] = ["rgb_odd.png"]
        self.tasks[0]["prompt"] = "<image>"
        self.write_tasks()
        _, rows = self.run_tasks("twice")
        self.assertEqual([row["verdict"] for row in rows], ["FAILED"])
        self.assertIn("item a: the prompt holds <image> more than once", rows[0]["reason"])


class Codes(Tasks):
    """MMaDA is given a picture as codes of its codebook: no encoder is read."""

    MODEL = "tiny-mmada-s1"

    def setUp(self):
        super().setUp()
        config = json.loads((self.model / "config.json").read_text())
        (self.model / "config.json").write_text(json.dumps({**config, "picture_tokens": [244, 245, 246]}))
        self.tasks = [{"id": "a", "family": "seen", "prompt": "What?", "scorer": "none", "gen_length": 8}]

    def ask(self, output, *codes):
        self.tasks[0]["codes"] = codes
        self.write_tasks()
        return self.run_tasks(output)[1][0]

    def test_codes_are_tokens_of_the_prompt(self):
        one, other = self.ask("one", 50, 19, 19, 6), self.ask("other", 6, 19, 19, 50)
        self.assertNotEqual(one["verdict"], "FAILED", one["reason"])
        self.assertEqual((one["metrics"]["picture_rows"], one["metrics"]["tower_runs"]), (4, 0))
        self.assertFalse({"picture_preset", "pillow"} & set(one["workload"]))  # nothing was resampled here
        self.assertNotEqual(one["answers_hash"], other["answers_hash"])
        del self.tasks[0]["codes"]
        self.write_tasks()
        text = self.run_tasks("text")[1][0]
        self.assertEqual(one["metrics"]["prompt_tokens"], text["metrics"]["prompt_tokens"] + 3 + 4)
        wrong = self.ask("wrong", 64)
        self.assertEqual(wrong["verdict"], "FAILED")
        self.assertIn("item a: `codes` holds 64; the codebook of", wrong["reason"])
        done = program("generate", "--model", self.model, "--device", "cpu", "-n", "8", "--image", self.picture, "a")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("gives the model a picture as `codes`", done.stderr)


if __name__ == "__main__":
    unittest.main()
