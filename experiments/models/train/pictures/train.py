# SPDX-License-Identifier: Apache-2.0
"""Teaches a small language model to read digits from pictures, and writes what it learned as a delta.

1. The tower and the projector alone: a throw-away head names the digit of each cell, and the projected row becomes the
   word embedding of that digit's token, or of "." if there is none.
2. With them a LoRA of the language model: the masked-diffusion loss on the answer.

python train.py --kind mmada --out RUN/mmada.safetensors
"""
import argparse
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from export import load_exported  # noqa: E402
from model import rms, rope  # noqa: E402
from tokenizer import EOS, EOT, MASK, Codec  # noqa: E402

import draw  # noqa: E402
import towers  # noqa: E402

RANK, SCALE, EOS_WEIGHT = 16, 2.0, 0.1
LAYERS = 5  # that learn; what tiny-dream has behind them only shifts rows by one, and training leaves it out
CANVAS, SHARES = (8, 16, 32), (0.4, 0.2, 0.4)  # tokens of an answer, and how often they are drawn
MATRICES = ("wq", "wk", "wv", "wo", "gate", "up", "down")
SECTIONS = (4, 6, 6)  # Dimple: pairs of a head that turn by the frame, the row and the column
SYSTEM = ("You are a helpful language and vision assistant. You are able to understand the visual content that the user "
          "provides, and assist the user with a variety of tasks using natural language.")
BASES = {"llada-v": "tiny-llada", "dimple": "tiny-dream", "mmada": "tiny-llada"}
PICTURE_ROWS = {"llada-v": 36, "dimple": 16, "mmada": 16}


def turn(role, text):
    return f"<|start_header_id|>{role}<|end_header_id|>\n\n{text}<|eot_id|>"


OPENED = "<|start_header_id|>assistant<|end_header_id|>\n\n"


def around(kind, codec):
    """Token ids before and behind a picture's rows, as the program writes the prompt."""
    user = "<|start_header_id|>user<|end_header_id|>\n\n"
    if kind == "llada-v":
        behind = codec.encode("\n" + draw.QUESTION + "<|eot_id|>" + OPENED)
        return codec.encode("<|startoftext|>" + turn("system", SYSTEM) + user), behind[1:]
    if kind == "dimple":
        before = "<|startoftext|>" + turn("system", "You are a helpful assistant.") + user + "<|vision_start|>"
        return codec.encode(before), codec.encode("<|vision_end|>" + draw.QUESTION + "<|eot_id|>" + OPENED)
    return towers.PICTURE_TOKENS[:2], towers.PICTURE_TOKENS[2:] + codec.encode(codec.template(draw.QUESTION))


class Low(torch.nn.Module):
    """A frozen product and a LoRA on it."""

    def __init__(self, frozen):
        super().__init__()
        self.weight = frozen.weight.requires_grad_(False)
        self.a = torch.nn.Parameter(torch.randn(RANK, frozen.in_features) * frozen.in_features ** -0.5)
        self.b = torch.nn.Parameter(torch.zeros(frozen.out_features, RANK))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        whole = torch.addmm(F.linear(rows, self.weight), F.linear(rows, self.a), self.b.t(), alpha=SCALE)
        return whole.view(*x.shape[:-1], -1)


class Seeing(torch.nn.Module):
    """A language model, a tower, and what stands around a picture."""

    def __init__(self, kind, base):
        super().__init__()
        self.kind, self.language = kind, load_exported(base).requires_grad_(False)
        cfg = self.language.cfg
        if cfg.kv_heads != cfg.heads:
            raise SystemExit(f"{base}: has fewer heads of keys than of queries")
        self.layers = self.language.layers[:LAYERS]  # biases of tiny-dream's are zero but in its last
        for layer in self.layers:
            for name in MATRICES:
                setattr(layer, name, Low(getattr(layer, name)))
        self.tower = {"llada-v": towers.Siglip, "dimple": towers.Qwen, "mmada": towers.Codes}[kind](cfg.dim)
        self.codec = Codec(os.path.join(base, "tokenizer.json"), "llada")
        self.before, self.behind = around(kind, self.codec)

    def turns(self, behind):
        """cos and sin of all rows; `behind` tokens follow the picture."""
        model = self.language
        if self.kind != "dimple":
            n = len(self.before) + PICTURE_ROWS[self.kind] + behind
            return model.cos[:n], model.sin[:n]
        place = towers.axes(len(self.before), behind)
        axis = torch.repeat_interleave(torch.arange(3), torch.tensor(SECTIONS))
        pairs = torch.arange(len(axis))
        at = place[axis].T  # [n, pairs]
        cos, sin = model.cos[at, pairs], model.sin[at, pairs + len(axis)]
        return torch.cat([cos, cos], 1), torch.cat([-sin, sin], 1)

    def parts(self, layer, x, cos, sin):
        """Queries, keys and values of rows."""
        h, cfg = rms(x, layer.attn_norm, layer.cfg.eps), layer.cfg
        q, k, v = (m(h).view(*x.shape[:2], cfg.heads, cfg.head_dim).transpose(1, 2)
                   for m in (layer.wq, layer.wk, layer.wv))
        return rope(q, cos, sin), rope(k, cos, sin), v

    def rest(self, layer, x, seen):
        """What a layer makes of rows and of what they attended to."""
        x = x + layer.wo(seen.transpose(1, 2).reshape(x.shape))
        h = rms(x, layer.ff_norm, layer.cfg.eps)
        return x + layer.down(F.silu(layer.gate(h)) * layer.up(h))

    def logits(self, pixels, canvas):
        """Of the canvas' tokens, [B, n, vocabulary]. Rows before the picture pass no gradient on: they are most of a
        prompt, and what they see changes little."""
        model, b, n = self.language, len(pixels), canvas.shape[1]
        behind = torch.cat([torch.tensor(self.behind).expand(b, -1), canvas], 1)
        first = model.embed(torch.tensor(self.before).expand(b, -1))
        x = torch.cat([self.tower.rows(pixels), model.embed(behind)], 1)
        cos, sin = self.turns(behind.shape[1])
        at = len(self.before)
        for layer in self.layers:
            with torch.no_grad():
                q0, k0, v0 = self.parts(layer, first, cos[:at], sin[:at])
            q, k, v = self.parts(layer, x, cos[at:], sin[at:])
            k, v = torch.cat([k0, k], 2), torch.cat([v0, v], 2)
            if layer is self.layers[-1]:
                x, q = x[:, -n:], q[:, :, -n:]
            else:
                with torch.no_grad():
                    first = self.rest(layer, first, F.scaled_dot_product_attention(q0, k, v))
            x = self.rest(layer, x, F.scaled_dot_product_attention(q, k, v))
        return model.head(rms(x, model.norm, model.cfg.eps))


def batch(kind, rng, count):
    """(pixels [B, 3, H, W] float32, classes [B, 16], numbers)."""
    pixels, classes, numbers = [], [], []
    for _ in range(count):
        picture, of_cells, number = draw.draw(rng)
        if kind == "dimple":  # its processor makes small pictures larger
            once = Image.fromarray(picture).resize((112, 56), Image.Resampling.BICUBIC)
            picture = np.asarray(once.resize((112, 112), Image.Resampling.BICUBIC))
        pixels.append(picture)
        classes.append(of_cells)
        numbers.append(number)
    return (torch.tensor(np.stack(pixels)).permute(0, 3, 1, 2).float(), torch.tensor(np.stack(classes)), numbers)


def answer(codec, number, length):
    ids = codec.encode("#### " + number) + [EOT]
    return ids + [EOS] * (length - len(ids))


def words_of(model):
    """Embeddings of the tokens that cells are shown as, [11, D]: a digit's, then that of "."."""
    words = [model.codec.encode(str(d))[0] for d in range(10)] + [model.codec.encode(".")[0]]
    return model.language.embed.weight[words]


def paced(optimizer, most, step, steps, flat):
    """Sets rates that rise at the beginning, stay, and fall to zero."""
    done = step / steps
    for group in optimizer.param_groups:
        group["lr"] = group.get("most", most) * min(1, (step + 1) / 30) * (1 if done < flat else (1 - done) / (1 - flat))


def teach_tower(model, rng, steps, say):
    """Step 1 of a tower that has a projector. A digit's row of Dimple also says how many digits stand before it: the
    language model's rotation hardly tells the places of so small a picture apart. Its tower has no embedding of places
    either, but attention by relative places orders the digits."""
    tower, targets = model.tower, words_of(model)
    head, which = torch.nn.Linear(48, draw.BLANK + 1), torch.nn.Linear(48, draw.MOST_DIGITS)
    marks = torch.zeros(draw.MOST_DIGITS, targets.shape[1])
    if model.kind == "dimple":
        drawn = torch.randn(marks.shape, generator=torch.Generator().manual_seed(1))
        marks = drawn * targets.pow(2).mean().sqrt()
    found = torch.optim.AdamW([*tower.parameters(), *head.parameters(), *which.parameters()], 3e-3, weight_decay=0)
    weight = torch.ones(draw.BLANK + 1)
    weight[draw.BLANK] = 0.2
    for step in range(steps):
        paced(found, 3e-3, step, steps, 0.5)
        pixels, classes, _ = batch(model.kind, rng, 64)
        seen = tower.features(pixels)
        of_cells = F.cross_entropy(head(seen).flatten(0, 1), classes.flatten(), weight)
        digits = classes != draw.BLANK
        before = digits.cumsum(1) - digits.long()  # digits before a cell in reading order
        off = tower.project(seen) - targets[classes] - marks[before.clamp(max=draw.MOST_DIGITS - 1)] * digits[..., None]
        off = (off.pow(2).mean(-1) * weight[classes]).mean() / targets.pow(2).mean()
        of_order = F.cross_entropy(which(seen)[digits], before[digits])
        found.zero_grad()
        (of_cells + off + (of_order if model.kind == "dimple" else 0)).backward()
        found.step()
        if step % 50 == 0 or step == steps - 1:
            right, ordered = head(seen).argmax(-1) == classes, which(seen).argmax(-1)[digits] == before[digits]
            say(f"tower {step}: {of_cells.item():.3f} {off.item():.3f} {of_order.item():.3f}, right of digits {right[digits].float().mean():.3f}, "
                f"of all {right.float().mean():.3f}, of the order {ordered.float().mean():.3f}")


def teach_codes(model, rng, steps, say):
    """Step 1 of MMaDA: an encoder whose signs tell the classes apart, all of which are shown as often; then the
    embedding of a code is that of the class that has it most often."""
    tower, most = model.tower, 2e-3
    head = torch.nn.Linear(towers.CODE_BITS, draw.BLANK + 1)
    found = torch.optim.AdamW([*tower.parameters(), *head.parameters()], most, weight_decay=0)
    for step in range(steps):
        paced(found, most, step, steps, 0.5)
        crops, classes = (torch.tensor(np.stack(part)) for part in zip(*(draw.cell(rng) for _ in range(256))))
        latent = tower.latent(crops.permute(0, 3, 1, 2).float()).squeeze(1)
        # From the hyperbolic tangent to the sign, with the tangent's gradient.
        soft = torch.tanh(latent)
        hard = torch.where(latent > 0, 1.0, -1.0)
        loss = F.cross_entropy(head(soft + (hard - soft).detach() if step > steps // 4 else soft), classes)
        near = F.relu(0.5 - latent.abs()).mean()  # away from zero, so that rounding turns no bit
        found.zero_grad()
        (loss + near).backward()
        found.step()
        if step % 250 == 0 or step == steps - 1:
            right = (head(hard).argmax(-1) == classes).float().mean()
            say(f"codes {step}: {loss.item():.3f} {near.item():.3f}, right {right:.3f}")
    with torch.no_grad():
        seen = torch.zeros(1 << towers.CODE_BITS, draw.BLANK + 1)
        for _ in range(20):
            crops, classes = (torch.tensor(np.stack(part)) for part in zip(*(draw.cell(rng) for _ in range(512))))
            codes = tower.codes(crops.permute(0, 3, 1, 2).float()).squeeze(1)
            seen.index_put_((codes, classes), torch.ones(len(codes)), accumulate=True)
        shown = torch.where(seen.sum(1) > 0, seen.argmax(1), draw.BLANK)
        tower["embeddings"].copy_(words_of(model)[shown])
        say(f"codes: {int((seen.sum(1) > 0).sum())} in use; {seen.max(1).values.sum() / seen.sum():.4f} of the cells have a "
            "code that is mostly their class'")


def noised(noise, size, n):
    """Which tokens of `size` answers are masked, [size, n]: all; by chance; or those before some place, since decoding by
    confidence fills the end first."""
    share, place, kind = noise.random((size, 1)), noise.integers(1, n + 1, (size, 1)), noise.random((size, 1))
    drawn = noise.random((size, n))
    masked = np.where(kind < 0.3, True, np.where(kind < 0.6, drawn < share, (np.arange(n) < place) & (drawn < 0.8)))
    masked[:, 0] |= ~masked.any(1)
    return torch.tensor(masked)


def teach_reading(model, rng, steps, size, rate, say):
    """Step 2; `rate` of the LoRA, a third of it for the tower."""
    low = [p for p in model.language.parameters() if p.requires_grad]
    seeing = [p for n, p in model.tower.named_parameters() if "encoder/" not in n]
    found = torch.optim.AdamW([{"params": low, "most": rate}, {"params": seeing, "most": rate / 3}], weight_decay=0,
                              betas=(0.9, 0.98))
    noise, right = np.random.default_rng(int(rng.integers(1 << 30))), []
    for step in range(steps):
        paced(found, 0, step, steps, 0.4)
        pixels, _, numbers = batch(model.kind, rng, size)
        n = int(noise.choice(CANVAS, p=SHARES))
        ids = torch.tensor([answer(model.codec, number, n) for number in numbers])
        masked = noised(noise, size, n)
        logits = model.logits(pixels, torch.where(masked, MASK, ids))[masked]
        wanted = ids[masked]
        weight = torch.where(wanted == EOS, EOS_WEIGHT, 1.0)
        loss = (F.cross_entropy(logits, wanted, reduction="none") * weight).sum() / weight.sum()
        found.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(low + seeing, 1.0)
        found.step()
        content = (wanted != EOS) & (wanted != EOT)
        right.append((logits.argmax(-1) == wanted)[content].float().mean().item())
        if step % 25 == 0 or step == steps - 1:
            say(f"reading {step}: loss {loss.item():.3f}, right of the answer's tokens {np.nanmean(right[-25:]):.3f}")


@torch.no_grad()
def score(model, rng, count, wrong=False):
    """Share of numbers read whole, one token a step, the surest first; `wrong`: with another item's picture."""
    pixels, _, numbers = batch(model.kind, rng, count)
    if wrong:
        pixels = pixels.roll(1, 0)
    canvas = torch.full((count, CANVAS[-1]), MASK)
    for _ in range(CANVAS[-1]):
        sure, token = model.logits(pixels, canvas).softmax(-1).max(-1)
        sure[canvas != MASK] = -1
        at = sure.argmax(-1, keepdim=True)
        canvas.scatter_(1, at, token.gather(1, at))
    return sum(model.codec.decode(ids).strip() == "#### " + number for ids, number in zip(canvas.tolist(), numbers)) / count


def delta(model):
    """What was learned: a LoRA has .a and .b behind the name of its matrix, a tower its published names."""
    kept = {f"layers.{i}.{name}.{part}": getattr(getattr(layer, name), part).detach()
            for i, layer in enumerate(model.layers) for name in MATRICES for part in "ab"}
    kept |= model.tower.published()
    return {name: value.to(torch.bfloat16).contiguous() for name, value in kept.items()}


@torch.no_grad()
def take(model, saved):
    """The LoRA of a delta, and its tower if it has the same one."""
    for i, layer in enumerate(model.layers):
        for name in MATRICES:
            for part in "ab":
                getattr(getattr(layer, name), part).copy_(saved[f"layers.{i}.{name}.{part}"])
    for key, name in model.tower.names.items():
        if name in saved:
            model.tower.tensors[key].copy_(saved[name])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--kind", required=True, choices=sorted(BASES))
    ap.add_argument("--base", help="folder of the language model; usual: the one in the tree")
    ap.add_argument("--out", required=True)
    ap.add_argument("--tower-steps", type=int, default=400)
    ap.add_argument("--steps", type=int, default=1000)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--rate", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--init", help="a delta to go on from, of any kind: all share the LoRA's shape")
    a = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(a.seed)
    rng = np.random.default_rng(a.seed)
    model = Seeing(a.kind, a.base or os.path.join(HERE, "..", "..", BASES[a.kind]))
    if a.init:
        take(model, load_file(a.init))
    start = time.process_time()

    def say(text):
        print(f"{time.process_time() - start:.0f} s: {text}", flush=True)

    if a.tower_steps:
        (teach_codes if a.kind == "mmada" else teach_tower)(model, rng, a.tower_steps, say)
    teach_reading(model, rng, a.steps, a.batch, a.rate, say)
    save_file(delta(model), a.out)
    for wrong in (False, True):
        read = score(model, np.random.default_rng(a.seed + 1000), 40, wrong)
        say(f"read {read:.3f}" + (", with another item's picture" if wrong else ""))


if __name__ == "__main__":
    main()
