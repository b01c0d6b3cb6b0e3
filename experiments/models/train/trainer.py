# SPDX-License-Identifier: Apache-2.0
"""What every trainer here needs: the prompts it must not see, the course of its rate, its checkpoints."""
import glob
import json
import os

import torch

from tasks import prompt_hash


def excluded_hashes(folder):
    """Of every held-out prompt: none of them is ever trained on."""
    out = set()
    for path in glob.glob(os.path.join(folder, "*.jsonl")):
        with open(path, encoding="utf-8") as f:
            out.update(prompt_hash(json.loads(line)["prompt"]) for line in f)
    return out


def product_type():
    """bfloat16 if this CPU multiplies it, else float32: emulated, bfloat16 is four times slower."""
    able = torch.cpu.get_capabilities()
    return torch.bfloat16 if able.get("avx512_bf16") or able.get("amx_bf16") else torch.float32


def schedule(progress, step, flat, warm_steps):
    """Share of the full rate: it warms up, stays until `flat` of the budget, and falls to zero."""
    warm = min(1.0, (step + 1) / warm_steps)
    return warm * min(1.0, max(0.0, (1 - progress) / (1 - flat)))


def save(path, state, write=torch.save):
    """Whole or not at all: a run that is cut off leaves its last checkpoint."""
    write(state, path + ".tmp")
    os.replace(path + ".tmp", path)
