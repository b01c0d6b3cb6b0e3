# SPDX-License-Identifier: Apache-2.0
"""The towers of the small picture models in torch, by the names of the published layouts, and where their rows are in
a prompt.

SigLIP (LLaDA-V): the whole picture and one tile of it, a newline behind each row of the tile's map. Qwen2.5-VL's
(Dimple): the picture at twice its size, 2 x 2 patches a row, with positions on three axes. Codes (MMaDA): eight bits of
each cell, which the language model has as tokens of their own.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

PATCH = 14
SIGLIP = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 3,
          "image_size": 56, "patch_size": PATCH}
QWEN = {"depth": 2, "hidden_size": 48, "hidden_act": "silu", "intermediate_size": 96, "num_heads": 3, "in_channels": 3,
        "patch_size": PATCH, "spatial_merge_size": 2, "temporal_patch_size": 2, "tokens_per_second": 2,
        "window_size": 56, "out_hidden_size": 48, "fullatt_block_indexes": [1]}
CODE_BITS = 8
PICTURE_TOKENS = [245, 246, 247]  # bytes that no text here has: before a picture's codes two, behind them one


def cells(pixels, side):
    """[B, 3, H, W] as rows of squares in reading order, [B, (H / side) (W / side), 3 side side]: channel, y, x."""
    b, c, h, w = pixels.shape
    x = pixels.view(b, c, h // side, side, w // side, side).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(b, h // side * (w // side), c * side * side)


def attend(q, k, v, heads):
    b, n, d = q.shape
    parts = [t.view(b, n, heads, d // heads).transpose(1, 2) for t in (q, k, v)]
    return F.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(b, n, d)


class Named(nn.Module):
    """Tensors under the names of a checkpoint."""

    def __init__(self):
        super().__init__()
        self.tensors, self.names = nn.ParameterDict(), {}

    def add(self, name, *shape, value=None):
        key = name.replace(".", "/")
        if value is None:
            value = torch.zeros(shape) if name.endswith("bias") else torch.randn(shape) * (
                torch.Size(shape[1:]).numel() ** -0.5 if len(shape) > 1 else 1)
        self.tensors[key] = nn.Parameter(value)
        self.names[key] = name

    def pair(self, name, out, *inner):
        self.add(name + ".weight", out, *inner)
        self.add(name + ".bias", out)

    def norm(self, name, width, bias):
        self.add(name + ".weight", width, value=torch.ones(width))
        if bias:
            self.add(name + ".bias", width)

    def __getitem__(self, name):
        return self.tensors[name.replace(".", "/")]

    def linear(self, name, x):
        return F.linear(x, self[name + ".weight"].flatten(1), self[name + ".bias"])

    def published(self):
        return {name: self.tensors[key].detach() for key, name in self.names.items()}


class Siglip(Named):
    stem = "model.vision_tower.vision_tower.vision_model."

    def __init__(self, width):
        super().__init__()
        c = SIGLIP
        self.width, d = c["hidden_size"], c["hidden_size"]
        self.layers = c["num_hidden_layers"] - 1  # the last is deleted at load
        self.pair(self.stem + "embeddings.patch_embedding", d, 3, PATCH, PATCH)
        self.add(self.stem + "embeddings.position_embedding.weight", 16, d, value=torch.randn(16, d) * 0.02)
        for i in range(self.layers):
            at = f"{self.stem}encoder.layers.{i}."
            for name in ("layer_norm1", "layer_norm2"):
                self.norm(at + name, d, True)
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                self.pair(at + "self_attn." + name, d, d)
            self.pair(at + "mlp.fc1", c["intermediate_size"], d)
            self.pair(at + "mlp.fc2", d, c["intermediate_size"])
        self.pair("model.mm_projector.0", width, d)
        self.pair("model.mm_projector.2", width, width)
        self.add("model.image_newline", width, value=torch.randn(width) * 0.02)

    def features(self, pixels):
        x = self.linear(self.stem + "embeddings.patch_embedding", cells((pixels / 255 - 0.5) / 0.5, PATCH))
        x = x + self[self.stem + "embeddings.position_embedding.weight"]
        for i in range(self.layers):
            at = f"{self.stem}encoder.layers.{i}."
            norm = lambda name, y, at=at: F.layer_norm(y, (self.width,), self[at + name + ".weight"],
                                                       self[at + name + ".bias"], 1e-6)
            h = norm("layer_norm1", x)
            q, k, v = (self.linear(f"{at}self_attn.{n}_proj", h) for n in "qkv")
            x = x + self.linear(at + "self_attn.out_proj", attend(q, k, v, SIGLIP["num_attention_heads"]))
            h = F.gelu(self.linear(at + "mlp.fc1", norm("layer_norm2", x)), approximate="tanh")
            x = x + self.linear(at + "mlp.fc2", h)
        return x

    def project(self, x):
        return self.linear("model.mm_projector.2", F.gelu(self.linear("model.mm_projector.0", x)))

    def rows(self, pixels):
        """[B, 36, D]: the whole picture, then its one tile, each of whose rows a newline ends."""
        seen = self.project(self.features(pixels))
        b, _, d = seen.shape
        newline = self["model.image_newline"].expand(b, 4, 1, d)
        return torch.cat([seen, torch.cat([seen.view(b, 4, 4, d), newline], 2).view(b, 20, d)], 1)


class Qwen(Named):
    def __init__(self, width):
        super().__init__()
        c, d, f = QWEN, QWEN["hidden_size"], QWEN["intermediate_size"]
        self.add("visual.patch_embed.proj.weight", d, 3, 2, PATCH, PATCH)
        for i in range(c["depth"]):
            at = f"visual.blocks.{i}."
            for name in ("norm1", "norm2"):
                self.norm(at + name, d, False)
            self.pair(at + "attn.qkv", 3 * d, d)
            self.pair(at + "attn.proj", d, d)
            self.pair(at + "mlp.gate_proj", f, d)
            self.pair(at + "mlp.up_proj", f, d)
            self.pair(at + "mlp.down_proj", d, f)
        self.norm("visual.merger.ln_q", d, False)
        self.pair("visual.merger.mlp.0", 4 * d, 4 * d)
        self.pair("visual.merger.mlp.2", c["out_hidden_size"], 4 * d)
        self.pair("img_projector.linear_1", width, c["out_hidden_size"])
        self.pair("img_projector.linear_2", width, width)
        # 8 x 8 patches in 2 x 2 groups in 2 x 2 windows; a window has 2 x 2 groups.
        at = torch.arange(64).view(2, 2, 2, 2, 2, 2)  # window row, group row, patch row, then the columns
        self.register_buffer("order", at.permute(0, 3, 1, 4, 2, 5).reshape(64), persistent=False)
        groups = torch.arange(16).view(2, 2, 2, 2).permute(0, 2, 1, 3).reshape(16)
        self.register_buffer("back", groups.argsort(), persistent=False)
        head = d // c["num_heads"]
        inverse = 10000.0 ** (-torch.arange(0, head // 2, 2) / (head // 2))
        angle = torch.cat([(self.order // 8)[:, None] * inverse, (self.order % 8)[:, None] * inverse], 1)
        self.register_buffer("cos", torch.cat([angle.cos()] * 2, 1), persistent=False)
        self.register_buffer("sin", torch.cat([angle.sin()] * 2, 1), persistent=False)

    def norm_of(self, name, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self[name + ".weight"]

    def turned(self, x):
        b, n, d = x.shape
        x = x.view(b, n, QWEN["num_heads"], -1)
        half = x.shape[-1] // 2
        swapped = torch.cat([-x[..., half:], x[..., :half]], -1)
        return (x * self.cos[:, None] + swapped * self.sin[:, None]).view(b, n, d)

    def features(self, pixels):
        mean = torch.tensor((0.48145466, 0.4578275, 0.40821073)).view(3, 1, 1)
        deviation = torch.tensor((0.26862954, 0.26130258, 0.27577711)).view(3, 1, 1)
        patches = cells((pixels / 255 - mean) / deviation, PATCH)[:, self.order]
        b = patches.shape[0]
        # Both frames are the same picture.
        x = F.linear(patches, self["visual.patch_embed.proj.weight"].sum(2).flatten(1))
        for i in range(QWEN["depth"]):
            at = f"visual.blocks.{i}."
            q, k, v = self.linear(at + "attn.qkv", self.norm_of(at + "norm1", x)).chunk(3, -1)
            q, k = self.turned(q), self.turned(k)
            if i not in QWEN["fullatt_block_indexes"]:
                inside = [t.reshape(b * 4, 16, -1) for t in (q, k, v)]
                seen = attend(*inside, QWEN["num_heads"]).view(b, 64, -1)
            else:
                seen = attend(q, k, v, QWEN["num_heads"])
            x = x + self.linear(at + "attn.proj", seen)
            h = self.norm_of(at + "norm2", x)
            h = F.silu(self.linear(at + "mlp.gate_proj", h)) * self.linear(at + "mlp.up_proj", h)
            x = x + self.linear(at + "mlp.down_proj", h)
        x = self.norm_of("visual.merger.ln_q", x).reshape(b, 16, -1)
        x = self.linear("visual.merger.mlp.2", F.gelu(self.linear("visual.merger.mlp.0", x)))
        return x[:, self.back]

    def project(self, x):
        return self.linear("img_projector.linear_2", F.silu(self.linear("img_projector.linear_1", x)))

    def rows(self, pixels):
        return self.project(self.features(pixels))


class Codes(Named):
    """A cell's code is the signs of eight numbers, the first the highest bit."""

    def __init__(self, width):
        super().__init__()
        self.pair("encoder.0", 96, 3 * PATCH * PATCH)
        self.pair("encoder.2", CODE_BITS, 96)
        self.add("embeddings", 1 << CODE_BITS, width, value=torch.zeros(1 << CODE_BITS, width))

    def latent(self, pixels):
        """[B, cells, 8]. A cell's numbers are about its own mean, over their own deviation."""
        x = cells(pixels / 255, PATCH)
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 0.1)
        return self.linear("encoder.2", F.relu(self.linear("encoder.0", x)))

    def codes(self, pixels):
        bits = (self.latent(pixels) > 0).long()
        return (bits * (1 << torch.arange(CODE_BITS - 1, -1, -1))).sum(-1)

    def rows(self, pixels):
        with torch.no_grad():
            codes = self.codes(pixels)
        return F.embedding(codes, self["embeddings"])


def axes(before, behind):
    """Positions of Dimple's prompt with 4 x 4 rows of a picture behind `before` tokens, [3, n]."""
    grid = torch.arange(16)
    picture = torch.stack([torch.zeros(16, dtype=torch.long), grid // 4, grid % 4]) + before
    return torch.cat([torch.arange(before).expand(3, -1), picture,
                      (torch.arange(behind) + before + 4).expand(3, -1)], 1)
