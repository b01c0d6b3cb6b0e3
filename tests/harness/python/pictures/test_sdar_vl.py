# SPDX-License-Identifier: Apache-2.0
"""SDAR-VL: a random checkpoint of its layout decodes the tokens of a reading in numpy, which shares no code with the
program or the package (ctest python.pictures/sdar_vl).

The reading follows transformers' LLaVA-OneVision and SDAR-VL's generate.py: tiles, a SigLIP tower with all its layers,
two projections, rows without the padding, and blocks that see themselves and everything before them."""

import json
import math
import os
import shutil
import unittest

import numpy as np
import support
from PIL import Image
from support import SOURCE, program

PICTURES = SOURCE / "tests/goldens/pictures/images"
BLOCK, MASK, SIDE, PATCH, MOST = 4, 250, 28, 14, 2
POINTS = [[28, 28], [28, 56], [56, 28], [56, 56], [28, 84]]  # height, width
TEXT = {"model_type": "sdar", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48, "vocab_size": 256,
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "rope_scaling": None,
        "hidden_act": "silu", "attention_bias": False, "block_size": BLOCK, "mask_token_id": MASK, "eos_token_id": 251,
        "use_sliding_window": False, "fuse_cross_entropy": True}
VISION = {"model_type": "siglip_vision_model", "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
          "intermediate_size": 40, "image_size": SIDE, "patch_size": PATCH, "hidden_act": "gelu_pytorch_tanh",
          "layer_norm_eps": 1e-6, "num_channels": 3, "vision_use_head": False}
CONFIG = {"architectures": ["LlavaOnevisionForConditionalGeneration"], "model_type": "sdar_v", "text_config": TEXT,
          "vision_config": VISION, "image_grid_pinpoints": POINTS, "vision_aspect_ratio": f"anyres_max_{MOST}",
          "vision_feature_layer": -1, "vision_feature_select_strategy": "full", "projector_hidden_act": "gelu",
          "multimodal_projector_bias": True, "tie_word_embeddings": False, "hidden_size": 32, "image_token_index": 249,
          "video_token_index": 248, "use_image_newline_parameter": True, "ignore_index": -100}


def random_weights():
    """Every tensor of the published names, and a norm that nothing uses."""
    rng, w = np.random.default_rng(5), {}

    def add(name, *shape):
        scale = shape[-1] ** -0.5 if len(shape) > 1 else 0.3
        w[name] = (rng.normal(size=shape) * scale + ("norm" in name and name.endswith("weight"))).astype("<f4")

    def pair(name, *shape):
        add(name + ".weight", *shape)
        add(name + ".bias", shape[0])

    add("language_model.model.embed_tokens.weight", 256, 32)
    w["language_model.model.embed_tokens.weight"] *= 4
    add("language_model.lm_head.weight", 256, 32)
    add("language_model.model.norm.weight", 32)
    for i in range(2):
        at = f"language_model.model.layers.{i}."
        for name, out, inner in (("self_attn.q_proj", 32, 32), ("self_attn.k_proj", 16, 32), ("self_attn.v_proj", 16, 32),
                                 ("self_attn.o_proj", 32, 32), ("mlp.gate_proj", 48, 32), ("mlp.up_proj", 48, 32),
                                 ("mlp.down_proj", 32, 48)):
            add(f"{at}{name}.weight", out, inner)
        for name, width in (("input_layernorm", 32), ("post_attention_layernorm", 32), ("self_attn.q_norm", 8),
                            ("self_attn.k_norm", 8)):
            add(f"{at}{name}.weight", width)
        at = f"vision_tower.vision_model.encoder.layers.{i}."
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            pair(f"{at}self_attn.{name}", 24, 24)
        pair(at + "mlp.fc1", 40, 24)
        pair(at + "mlp.fc2", 24, 40)
        for name in ("layer_norm1", "layer_norm2"):
            pair(at + name, 24)
    add("vision_tower.vision_model.embeddings.patch_embedding.weight", 24, 3, PATCH, PATCH)
    add("vision_tower.vision_model.embeddings.patch_embedding.bias", 24)
    add("vision_tower.vision_model.embeddings.position_embedding.weight", 4, 24)
    pair("vision_tower.vision_model.post_layernorm", 24)
    pair("multi_modal_projector.linear_1", 32, 24)
    pair("multi_modal_projector.linear_2", 32, 32)
    add("image_newline", 32)
    return w


def write_safetensors(path, tensors):
    head, at = {}, 0
    for name, t in tensors.items():
        head[name] = {"dtype": "F32", "shape": t.shape, "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(t.tobytes() for t in tensors.values()))


# ---- The reading

def best(width, height):
    """(height, width) of the tiled picture."""
    found, most, least = None, 0, math.inf
    for h, w in POINTS:
        scale = min(w / width, h / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        if kept > most or (kept == most and w * h - kept < least):
            found, most, least = (h, w), kept, w * h - kept
    return found


def resized(image, width, height):
    return image.resize((width, image.height), Image.Resampling.BICUBIC).resize((width, height), Image.Resampling.BICUBIC)


def views(image):
    h, w = best(*image.size)
    across, down = w / image.width, h / image.height
    size = (w, min(math.ceil(image.height * across), h)) if across < down else (min(math.ceil(image.width * down), w), h)
    canvas = np.zeros((h, w, 3))
    x, y = (w - size[0]) // 2, (h - size[1]) // 2
    canvas[y:y + size[1], x:x + size[0]] = np.asarray(resized(image, *size))
    tiles = [canvas[i:i + SIDE, j:j + SIDE] for i in range(0, h, SIDE) for j in range(0, w, SIDE)]
    return [np.asarray(resized(image, SIDE, SIDE), float), *tiles], (h // SIDE, w // SIDE)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, v, seen=None):
    """[rows, heads, width] each."""
    s = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
    s = s if seen is None else np.where(seen, s, -np.inf)
    return np.einsum("hqk,khd->qhd", softmax(s), v).reshape(len(q), -1)


class Reading:
    def __init__(self, weights):
        self.w = {name: t.astype(float) for name, t in weights.items()}

    def linear(self, name, x):
        w = self.w[name + ".weight"]
        return x @ w.reshape(len(w), -1).T + self.w.get(name + ".bias", 0)

    def norm(self, name, x, centred=False):
        if centred:
            x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * self.w[name + ".weight"] + self.w.get(name + ".bias", 0)

    def tower(self, view):
        """[4, 32] projected patches of one view."""
        at = "vision_tower.vision_model."
        x = (view / 255 - 0.5) / 0.5
        patches = [x[i:i + PATCH, j:j + PATCH].transpose(2, 0, 1).ravel() for i in (0, PATCH) for j in (0, PATCH)]
        x = self.linear(at + "embeddings.patch_embedding", np.stack(patches))
        x = x + self.w[at + "embeddings.position_embedding.weight"]
        for i in range(2):
            p = f"{at}encoder.layers.{i}."
            h = self.norm(p + "layer_norm1", x, True)
            parts = [self.linear(f"{p}self_attn.{n}_proj", h).reshape(4, 3, 8) for n in "qkv"]
            x = x + self.linear(p + "self_attn.out_proj", attend(*parts))
            h = self.linear(p + "mlp.fc1", self.norm(p + "layer_norm2", x, True))
            h = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h ** 3)))
            x = x + self.linear(p + "mlp.fc2", h)
        h = self.linear("multi_modal_projector.linear_1", x)
        h = 0.5 * h * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))
        return self.linear("multi_modal_projector.linear_2", h)

    def rows(self, image):
        shown, (down, across) = views(image)
        base, *tiles = [self.tower(v) for v in shown]
        grid = np.stack(tiles).reshape(down, across, 2, 2, 32).transpose(0, 2, 1, 3, 4).reshape(2 * down, 2 * across, 32)
        h, w = grid.shape[:2]
        if image.width / image.height > w / h:
            cut = (h - int(round(image.height * (w / image.width), 7))) // 2
            grid = grid[cut:h - cut]
        else:
            cut = (w - int(round(image.width * (h / image.height), 7))) // 2
            grid = grid[:, cut:w - cut]
        h, w = grid.shape[:2]
        times = math.sqrt(h * w / (MOST * 2 ** 2))
        if times > 1.1:
            grid = smaller(grid, int(h // times), int(w // times))
        newline = np.broadcast_to(self.w["image_newline"], (grid.shape[0], 1, 32))
        return np.concatenate([base, np.concatenate([grid, newline], 1).reshape(-1, 32)])

    def logits(self, x):
        """Of all rows, block-causal."""
        n = len(x)
        block = np.arange(n) // BLOCK
        seen = block[:, None] >= block[None, :]
        angle = np.outer(np.arange(n), 10000.0 ** (-np.arange(0, 8, 2) / 8))
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]

        def turned(v):
            a, b = v[..., :4], v[..., 4:]
            return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

        for i in range(2):
            p = f"language_model.model.layers.{i}."
            h = self.norm(p + "input_layernorm", x)
            q = turned(self.norm(p + "self_attn.q_norm", self.linear(p + "self_attn.q_proj", h).reshape(n, 4, 8)))
            k = turned(self.norm(p + "self_attn.k_norm", self.linear(p + "self_attn.k_proj", h).reshape(n, 2, 8)))
            v = self.linear(p + "self_attn.v_proj", h).reshape(n, 2, 8)
            x = x + self.linear(p + "self_attn.o_proj", attend(q, k.repeat(2, 1), v.repeat(2, 1), seen))
            h = self.norm(p + "post_attention_layernorm", x)
            gate = self.linear(p + "mlp.gate_proj", h)
            x = x + self.linear(p + "mlp.down_proj", gate / (1 + np.exp(-gate)) * self.linear(p + "mlp.up_proj", h))
        return self.linear("language_model.lm_head", self.norm("language_model.model.norm", x))

    def decode(self, before, rows, behind, length, at_once=False):
        """The surest token of a block a step, or all of a block in one, and forwards of blocks with a mask."""
        table = self.w["language_model.model.embed_tokens.weight"]
        prompt = np.concatenate([table[before], rows, table[behind]])
        answer = np.full(length, MASK)
        for first in range(len(prompt) // BLOCK * BLOCK, len(prompt) + length, BLOCK):
            while True:
                open_ = [p for p in range(max(first, len(prompt)), first + BLOCK) if answer[p - len(prompt)] == MASK]
                if not open_:
                    break
                chance = softmax(self.logits(np.concatenate([prompt, table[answer]])[:first + BLOCK]))
                for p in open_ if at_once else [max(open_, key=lambda p: chance[p].max())]:
                    answer[p - len(prompt)] = chance[p].argmax()
                if at_once:
                    break
        return answer.tolist()


def smaller(grid, height, width):
    """Bilinear, half-pixel centres, clamped at both ends."""
    def places(n, to):
        at = np.maximum((np.arange(to) + 0.5) * n / to - 0.5, 0)
        first = np.minimum(at.astype(int), n - 1)
        return first, np.minimum(first + 1, n - 1), at - first

    y0, y1, fy = places(grid.shape[0], height)
    x0, x1, fx = places(grid.shape[1], width)
    top = grid[y0][:, x0] * (1 - fx)[:, None] + grid[y0][:, x1] * fx[:, None]
    low = grid[y1][:, x0] * (1 - fx)[:, None] + grid[y1][:, x1] * fx[:, None]
    return top * (1 - fy)[:, None, None] + low * fy[:, None, None]


class SdarVl(support.Case):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        self.model.mkdir()
        self.weights = random_weights()
        write_safetensors(self.model / "model.safetensors", self.weights)
        self.write("model/config.json", json.dumps(CONFIG))
        whole = json.loads((SOURCE / "experiments/models/tiny-llada/tokenizer.json").read_text())
        whole["model"]["vocab"] = {t: i for t, i in whole["model"]["vocab"].items() if i < MASK}
        whole["model"]["merges"] = []
        whole["added_tokens"] = [{**t, "id": MASK + i} for i, t in enumerate(whole["added_tokens"])]
        self.tokens = whole["model"]["vocab"]
        self.write("model/tokenizer.json", json.dumps(whole))
        self.write("model/tokenizer_config.json", json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))

    def generate(self, *arguments, device="cpu", how=("block_diffusion", "--preset", "hf_argmax", "--set",
                                                      "params.remasking=low_confidence_static")):
        kept = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        return program("generate", "--model", self.model, "--device", device, "--format", "json", "--set",
                       "params.stop=none", "-m", *how, *arguments, env=kept)

    def asked(self, reading, name, text):
        """What generate() is asked, and the same for decode(); the response ends with a block."""
        rows = reading.rows(Image.open(PICTURES / name).convert("RGB"))
        before, behind = ([self.tokens[c] for c in part] for part in text.split("<image>"))
        length = 8 + -(len(before) + len(rows) + len(behind)) % BLOCK
        return ("-n", str(length), "--raw", "--image", PICTURES / name, text), (before, rows, behind, length)

    def test_decodes_as_the_reading_does(self):
        reading = Reading(self.weights)
        # Four tiles, whose map is made smaller; the same of another ratio; one row high, which leaves no row of the map.
        for name, text in (("rgb_odd.png", "abc<image>d"), ("rgb_mid.png", "ab<image>defgh"), ("one_row.png", "<image>xy")):
            words, question = self.asked(reading, name, text)
            done = self.generate(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = json.loads(done.stdout)
            self.assertEqual((said["picture_rows"], said["tower_runs"]), (len(question[1]), 1), name)
            self.assertEqual(said["tokens"], reading.decode(*question), name)

    def test_methods_decode_it_as_block_diffusion_at_their_limits(self):
        """All of a block at once, of FOCUS with a budget of a whole block; and one token a step, of Optimus as plain block
        diffusion. The picture ends inside the first block of the response, and all tokens are the reading's."""
        reading = Reading(self.weights)
        words, question = self.asked(reading, "rgb_odd.png", "abc<image>")
        self.assertNotEqual((3 + len(question[1])) % BLOCK, 0)
        want = reading.decode(*question, at_once=True)
        self.assertNotEqual(want, reading.decode(*question))
        for how in (("block_diffusion",), ("delayed_cache",), ("delayed_cache_plus",),
                    ("focus", "--set", "params.alpha=8"), ("optimus", "--preset", "bd32")):
            for device in ("cpu", "cuda-emulated"):
                done = self.generate(*words, "--set", "params.threshold=0", device=device, how=how)
                self.assertEqual(done.returncode, 0, (how, done.stderr))
                self.assertEqual(json.loads(done.stdout)["tokens"], want, (how, device))
        done = self.generate(*words, "--set", "params.threshold=1.5", how=("optimus", "--preset", "bd32"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["tokens"], reading.decode(*question))

    def test_prompts_with_pictures_enter_in_pieces(self):
        """Served alone, together, and in pieces of one block, which cut the rows of a picture: the same answers."""
        shown = ("rgb_odd.png", "bilevel.png", "rgb_mid.png")
        for name in shown:
            shutil.copy(PICTURES / name, self.folder)
        self.write("tasks.jsonl", "".join(json.dumps({"id": name, "family": "seen", "prompt": "Which?", "scorer": "none",
                                                      "gen_length": 8, "images": [name]}) + "\n" for name in shown))
        kept = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        rows = []
        for batch, chunk in ((1, 0), (3, 0), (3, BLOCK)):
            path = self.write("serve.toml", f"""title = "Pieces"
kind = "serve"
[run]
device = "cpu"
warmup = 0
repetitions = 1
batch_size = {batch}
[serve]
clock = "virtual"
cost = "1:1"
arrivals = "closed"
requests = 3
prefill_chunk = {chunk}
[[model]]
path = "model"
[[workload]]
file = "tasks.jsonl"
[[method]]
name = "block_diffusion"
params = {{threshold = 0.5, stop = "none"}}
""")
            done = program("run", path, "-o", f"rows-{batch}-{chunk}", "--no-progress", env=kept)
            rows.append(json.loads((self.folder / f"rows-{batch}-{chunk}/rows.jsonl").read_text()))
            self.assertEqual(done.returncode, 0, rows[-1]["reason"])
            self.assertEqual(rows[-1]["metrics"]["tower_runs"], 3)
        self.assertEqual(len({row["answers_hash"] for row in rows}), 1)
        self.assertGreater(rows[2]["metrics"]["nfe"], rows[1]["metrics"]["nfe"])

    def test_the_chat_is_its_own(self):
        """The picture stands behind the question, in the turns of its chat template."""
        done = self.generate("-n", "8", "--image", PICTURES / "rgb_odd.png", "Which?")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        around = ("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nWhich?<image>\n<|im_end|>\n"
                  "<|im_start|>assistant\n")
        raw = json.loads(self.generate("-n", "8", "--raw", "--image", PICTURES / "rgb_odd.png", around).stdout)
        self.assertEqual(said["tokens"], raw["tokens"])

    def test_what_is_not_its_layout_is_refused(self):
        for key, value, words in (("vision_feature_layer", -2, "`vision_feature_layer` must be -1"),
                                  ("vision_aspect_ratio", "pad", "only anyres_max_N"),
                                  ("image_grid_pinpoints", [[28, 29]], "multiples of the side 28"),
                                  ("text_config", {**TEXT, "model_type": "qwen2"}, "`text_config.model_type` is \"qwen2\""),
                                  ("text_config", {**TEXT, "hidden_act": "gelu"}, "`text_config.hidden_act` is"),
                                  ("vision_config", {**VISION, "model_type": "clip"}, "`vision_config.model_type` is"),
                                  ("vision_config", {**VISION, "patch_size": 29}, "`vision_config.patch_size` must")):
            self.write("model/config.json", json.dumps({**CONFIG, key: value}))
            done = self.generate("-n", "8", "--raw", "a")
            self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
            self.assertIn(f"config.json: {words}" if words.startswith("`") else words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
