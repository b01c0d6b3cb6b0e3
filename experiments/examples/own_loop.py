# SPDX-License-Identifier: Apache-2.0
"""A decoding loop of your own next to the engine's, on the same weights.

    own_loop.py [--torch] [-o FOLDER]

The loop here is LLaDA's: one token in each forward pass, the surest of the block. Its model is NumPy, or with
--torch the one of experiments/peers. unmask.record() writes its row into FOLDER. The engine decodes the same prompts:
the tokens must be equal, and so must be their order, except among tokens that are equally sure."""

import argparse
import json
import os
import pathlib
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small matrices: threads would wait for one another

import numpy as np

import unmask
from unmask import engine

BLOCK, LENGTH, LOOPS = 16, 32, 2
PROMPTS = ["Compute 5 * 7 - 15 - 19 + 38.", "Compute 3 + 4 * 2."]


def load(folder):
    """The tensors of a Hugging Face folder by name, float32, and its config."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        for name, at in json.loads(data[8:8 + size]).items():
            if name == "__metadata__":
                continue
            first, last = (8 + size + offset for offset in at["data_offsets"])
            if at["dtype"] == "BF16":
                values = (np.frombuffer(data[first:last], "<u2").astype("<u4") << 16).view("<f4")
            else:
                values = np.frombuffer(data[first:last], {"F32": "<f4", "F16": "<f2"}[at["dtype"]])
            tensors[name.removeprefix("model.transformer.")] = values.reshape(at["shape"]).astype(np.float32)
    return tensors, json.loads((folder / "config.json").read_text(encoding="utf-8"))


class NumpyModel:
    """LLaDA's transformer: logits(ids [T]) -> [T, vocabulary]. Every position sees all others."""

    def __init__(self, folder):
        self.t, self.config = load(folder)
        self.heads = self.config["n_heads"]

    def norm(self, x, name):
        scale = np.sqrt(np.mean(x * x, -1, keepdims=True) + self.config["rms_norm_eps"])
        return x / scale * self.t[name + ".weight"]

    def linear(self, x, name):
        return x @ self.t[name + ".weight"].T

    def rotated(self, x):
        """RoPE: x [heads, T, d], component j with j + d/2."""
        half = x.shape[-1] // 2
        angle = np.arange(x.shape[1])[:, None] / self.config["rope_theta"] ** (np.arange(half) / half)
        low, high = x[..., :half], x[..., half:]
        return np.concatenate([low * np.cos(angle) - high * np.sin(angle),
                               high * np.cos(angle) + low * np.sin(angle)], -1)

    def logits(self, ids):
        x = self.t["wte.weight"][ids]
        for layer in range(self.config["n_layers"]):
            block = f"blocks.{layer}."
            n = self.norm(x, block + "attn_norm")
            q, k, v = (self.linear(n, block + name).reshape(len(ids), self.heads, -1).transpose(1, 0, 2)
                       for name in ("q_proj", "k_proj", "v_proj"))
            weights = self.rotated(q) @ self.rotated(k).transpose(0, 2, 1) / np.sqrt(q.shape[-1])
            weights = np.exp(weights - weights.max(-1, keepdims=True))
            seen = (weights / weights.sum(-1, keepdims=True)) @ v
            x = x + self.linear(seen.transpose(1, 0, 2).reshape(len(ids), -1), block + "attn_out")
            n = self.norm(x, block + "ff_norm")
            gate = self.linear(n, block + "ff_proj")
            x = x + self.linear(gate / (1 + np.exp(-gate)) * self.linear(n, block + "up_proj"), block + "ff_out")
        return self.linear(self.norm(x, "ln_f"), "ff_out")


def torch_model(folder):
    """The same in PyTorch, from experiments/peers."""
    try:
        import torch
    except ModuleNotFoundError:
        sys.exit("NOT RUN: needs torch (experiments/peers/requirements.txt)")
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
    import llada
    model = llada.load(str(folder))

    class Model:
        def logits(self, ids):
            x = model.hidden(torch.tensor(ids), slice(0, len(ids)), lambda layer, q, k, v: (k, v, None))
            return model.logits(x).numpy()
    return Model()


def decode(model, prompt, mask, answer):
    """LLaDA's loop: the surest token of the block, one in each forward pass. Notes it in `answer`."""
    canvas = np.array([*prompt, *[mask] * LENGTH])
    for step in range(LENGTH):
        block = len(prompt) + step // BLOCK * BLOCK
        logits = model.logits(canvas)[block:block + BLOCK].astype(np.float64)
        token = logits.argmax(-1)
        sure = 1 / np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)
        sure[canvas[block:block + BLOCK] != mask] = -1
        at = int(sure.argmax())
        canvas[block + at] = token[at]
        answer.step([block + at - len(prompt)], [token[at]], rows=len(canvas))
    return canvas[len(prompt):].tolist()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--torch", action="store_true")
    p.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("runs/own_loop"))
    options = p.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    ours = engine.Model("tiny-llada")
    prompts = ours.encode(PROMPTS)
    folder = pathlib.Path(ours.path)
    theirs = torch_model(folder) if options.torch else NumpyModel(folder)
    recorder = unmask.record(options.output, program="PyTorch" if options.torch else f"NumPy {np.__version__}",
                             method="vanilla", gen_length=LENGTH,
                             model={"name": "tiny-llada", "parameters": ours.parameters},
                             workload={"family": "prompts", "items": len(prompts)})
    for _ in range(LOOPS):
        with recorder.timed_pass():
            for prompt in prompts:
                answer = recorder.answer(len(prompt), LENGTH)
                answer.finish(decode(theirs, prompt, ours.mask_id, answer), ours.stop_ids)
    row = recorder.write()
    print(f"{row['label']}: {row['metrics']['nfe']} forward passes, answers_hash {row['answers_hash'][:12]}")
    done = ours.decode(prompts, "vanilla", {"block_length": BLOCK}, gen_length=LENGTH, trace=True)
    print(f"engine: {done.metrics['nfe']:.0f} forward passes, answers_hash {done.answers_hash[:12]}")
    if row["answers_hash"] != done.answers_hash:
        return "the loop writes other tokens than the engine"
    same = 0
    for theirs, our in zip(recorder.passes[0], done.answers):
        for (_, position), event in zip(sorted(theirs.events), our.trajectory):
            same += position == event.position
            if position != event.position and event.confidence < 1 - 1e-6:  # else rounding orders equal ones
                return f"the loop unmasks position {position}, the engine {event.position}"
    print(f"equal: every token, and {same} of {row['metrics']['nfe']} forward passes unmask the same position; in the "
          "others several are equally sure")
    return 0


if __name__ == "__main__":
    sys.exit(main())
