# SPDX-License-Identifier: Apache-2.0
"""Which views of a picture a family of models wants: read from the checkpoint's configuration, made by Pillow.

A family is an object with `name`, `presets` (the first is the usual one), `settings` (a text that says all of the
configuration that counts), tables() (what a byte is worth, [channels, 256] float32) and views(picture, preset), which
gives ([n, height, width, 3] uint8, tiles across and down)."""

import ast
import os
import re

from unmask.pictures import geometry
from unmask.pictures.resample import Image, resize, rgb
from unmask.rows.errors import UserError
from unmask.rows.files import read_json
from unmask.rows.later import np

LARGEST_SIDE = 4096
MOST_POINTS = 256
PADDING = 127  # of 255: LLaVA's mean of 0.5


def normalised(mean, deviation, divides=False):
    """[channels, 256] float32: (scaled byte - mean) / deviation, each in single precision. The scale is a product in
    double precision, as in transformers, or a division in single precision, as in torchvision."""
    scaled = (np.arange(256, dtype=np.float32) / np.float32(255) if divides
              else (np.arange(256) * (1 / 255)).astype(np.float32))
    return np.stack([(scaled - np.float32(m)) / np.float32(d) for m, d in zip(mean, deviation)])


CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


class Configuration:
    """A configuration file of a checkpoint, asked key by key."""

    def __init__(self, path):
        self.path = path
        self.values = read_json(path)
        if not isinstance(self.values, dict):
            raise UserError(f"{path}: must be a JSON object")

    def fail(self, key, problem):
        raise UserError(f"{self.path}: `{key}` {problem}")

    def whole(self, key, usual, most):
        value = self.values.get(key, usual)
        if type(value) is not int or not 1 <= value <= most:
            self.fail(key, f"must be a whole number from 1 to {most}")
        return value


class LladaV:
    """LLaDA-V (LLaVA's mm_utils.py): the whole picture squeezed, then tiles of the best resolution."""

    name = "llada-v"

    def __init__(self, config, _folder):
        self.side = 384  # siglip_encoder.py; models of another size say so in a vision_config
        inner = config.values.get("vision_config")
        if isinstance(inner, dict):
            self.side = inner.get("image_size", 384)
        if type(self.side) is not int or not 1 <= self.side <= LARGEST_SIDE:
            config.fail("vision_config.image_size", f"must be a whole number from 1 to {LARGEST_SIDE}")
        ratio = config.values.get("image_aspect_ratio") or "pad"
        if not isinstance(ratio, str):
            config.fail("image_aspect_ratio", "must be a text")
        usual = "tiles" if "anyres" in ratio else "pad" if ratio == "pad" else "squeeze"
        self.presets = [usual, *({"tiles", "pad", "squeeze"} - {usual})]
        self.points = self.read_points(config) if usual == "tiles" else []
        if not self.points:
            self.presets = [p for p in self.presets if p != "tiles"]
        self.settings = f"side {self.side}, points " + (
            " ".join(f"{w}x{h}" for w, h in self.points) or "none")

    def read_points(self, config):
        """A list of [width, height], or "(1x1),...,(6x6)" times the side."""
        given = config.values.get("image_grid_pinpoints")
        if isinstance(given, str) and "x" in given:
            ends = re.findall(r"\((\d{1,3})x(\d{1,3})\)", given)
            if len(ends) < 2:
                config.fail("image_grid_pinpoints", "must be a list, or a text like (1x1),...,(6x6)")
            (left, top), (right, low) = ([int(n) for n in ends[i]] for i in (0, -1))
            given = [[i * self.side, j * self.side]
                     for i in range(left, min(right, MOST_POINTS) + 1)
                     for j in range(top, min(low, MOST_POINTS) + 1)]
        elif isinstance(given, str):
            try:
                given = ast.literal_eval(given)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                given = None
        if not isinstance(given, (list, tuple)) or not 0 < len(given) <= MOST_POINTS:
            config.fail("image_grid_pinpoints", f"must be a list of 1 to {MOST_POINTS} sizes")
        for point in given:
            if (not isinstance(point, (list, tuple)) or len(point) != 2 or
                    not all(type(n) is int and 0 < n <= 64 * self.side and n % self.side == 0
                            for n in point)):
                config.fail("image_grid_pinpoints",
                            f"must hold [width, height] in multiples of the side {self.side}")
        return [tuple(point) for point in given]

    def tables(self):
        return normalised([0.5], [0.5])

    def views(self, image, preset):
        side = self.side
        if preset != "tiles":
            whole = rgb(image)
            if preset == "pad":
                whole = padded(whole, (max(whole.size),) * 2, PADDING)
            elif whole.size[1] == 1:
                raise ValueError("one pixel high, which LLaDA-V's code takes for a channel")
            return np.asarray(resize(whole, side, side))[None], None
        box = geometry.best_resolution(*image.size, self.points)
        fitted = rgb(resize(image, *geometry.fitted(*image.size, box)))
        canvas = np.asarray(padded(fitted, box, 0))
        tiles = [canvas[y:y + side, x:x + side]
                 for y in range(0, box[1], side) for x in range(0, box[0], side)]
        return np.stack([np.asarray(rgb(resize(image, side, side))), *tiles]), (box[0] // side, box[1] // side)


class SdarVl(LladaV):
    """SDAR-VL (transformers' LLaVA-OneVision): LLaDA-V's tiles, but in RGB from the beginning, and sizes that stand as
    [height, width]. Its processor resamples with torchvision, whose bytes are up to two levels from Pillow's."""

    name = "sdar-vl"
    presets = ["tiles"]

    def __init__(self, config, _folder):
        inner = config.values.get("vision_config")
        self.side = inner.get("image_size", 224) if isinstance(inner, dict) else 224
        if type(self.side) is not int or not 1 <= self.side <= LARGEST_SIDE:
            config.fail("vision_config.image_size", f"must be a whole number from 1 to {LARGEST_SIDE}")
        if not isinstance(config.values.get("image_grid_pinpoints"), list):
            config.fail("image_grid_pinpoints", "must be a list of sizes [height, width]")
        self.points = [(width, height) for height, width in self.read_points(config)]
        self.settings = f"side {self.side}, points " + " ".join(f"{w}x{h}" for w, h in self.points)

    def views(self, image, preset):
        return super().views(rgb(image), preset)


class Dimple:
    """Dimple: one view of a size near the picture's own (Qwen2-VL's processor)."""

    name = "dimple"
    presets = ["own-size"]

    def __init__(self, _config, folder):
        config = Configuration(os.path.join(folder, "preprocessor_config.json"))
        self.cell = config.whole("patch_size", 14, 256) * config.whole("merge_size", 2, 16)
        self.least = config.whole("min_pixels", 3136, 1 << 28)
        self.most = config.whole("max_pixels", 1003520, 1 << 28)
        self.settings = f"cell {self.cell}, pixels {self.least} to {self.most}"

    def tables(self):
        return normalised(*CLIP)

    def views(self, image, _preset):
        whole = rgb(image)
        size = geometry.multiples(*whole.size, self.cell, self.least, self.most)
        return np.asarray(resize(whole, *size))[None], None


class Mmada:
    """MMaDA (training/utils.py): one square view."""

    name = "mmada"
    presets = ["crop", "squash"]

    def __init__(self, _config, _folder, side=512):
        self.side = side
        self.settings = f"side {side}"

    def tables(self):
        return normalised([0.5], [0.5], divides=True)

    def views(self, image, preset):
        whole, side = rgb(image), self.side
        if preset == "squash":
            return np.asarray(resize(whole, side, side))[None], None
        size, (left, top) = geometry.shorter_to(*whole.size, side)
        return np.asarray(resize(whole, *size))[None, top:top + side, left:left + side], None


def padded(image, box, colour):
    """The picture in the middle of a box of one colour."""
    canvas = Image.new("RGB", box, (colour,) * 3)
    canvas.paste(image, ((box[0] - image.size[0]) // 2, (box[1] - image.size[1]) // 2))
    return canvas


FAMILIES = {"LlavaLLaDAModelLM": LladaV, "DimpleModel": Dimple, "MMadaModelLM": Mmada,
            "LlavaOnevisionForConditionalGeneration": SdarVl}
TYPES = {"llava_llada": LladaV, "dimple": Dimple, "mmada": Mmada, "sdar_v": SdarVl}


def family_of(folder):
    """The family of the checkpoint in a folder; UserError for one that is shown no pictures."""
    config = Configuration(os.path.join(folder, "config.json"))
    names = config.values.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    kind = FAMILIES.get(name) if isinstance(name, str) else None
    if name is None and isinstance(config.values.get("model_type"), str):
        kind = TYPES.get(config.values["model_type"])
    if kind is None:
        config.fail("architectures", "names no model that is shown pictures; those are "
                    + ", ".join(FAMILIES))
    return kind(config, folder)
