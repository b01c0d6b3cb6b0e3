# SPDX-License-Identifier: Apache-2.0
"""Prompts as both sides see them, and the model of the proxy comparison."""
import json
import os
import shutil

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from llada import Llada, read_config

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data")
TINY = os.path.join(HERE, "..", "models", "tiny-llada")
# Nothing is copied at run time but these; the weights are new.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


class Text:
    """LLaDA's chat template and tokenizer. Special tokens are read inside the template only, by
    their names; answers are compared as Unmask prints them, without special tokens."""

    def __init__(self, folder):
        self.tokens = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.stop_ids = read_config(folder).stop_ids

    def prompt_ids(self, content):
        text = ("<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n" + content.strip() +
                "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n")
        return self.tokens.encode(text, add_special_tokens=False).ids

    def answer(self, ids):
        """Text up to the first stop token."""
        end = next((i for i, t in enumerate(ids) if t in self.stop_ids), len(ids))
        return self.tokens.decode(ids[:end], skip_special_tokens=True)


def read_items(tasks, limit, gen_length):
    """The first `limit` items of each task family, all with the same gen_length."""
    items = []
    for task in tasks:
        path = task if task.endswith(".jsonl") else os.path.join(DATA, task + ".jsonl")
        with open(path, encoding="utf-8") as f:
            rows = [json.loads(line) for line in f if line.strip()]
        items += [item | {"gen_length": gen_length} for item in rows[:limit]]
    return items


def sized_item(text, tokens, gen_length):
    """An item whose templated prompt has exactly `tokens` tokens: a cut of the stories' text."""
    source = " ".join(item["prompt"] + " " + item["answer"]
                      for item in read_items(["story"], 1000, gen_length))
    words = source.split()
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            content = " ".join(words[start:end])
            count = len(text.prompt_ids(content))
            if count == tokens:
                return {"id": f"story-cut-{tokens}", "family": "story", "prompt": content,
                        "answer": "", "scorer": "none", "check": {}, "gen_length": gen_length}
            if count > tokens:
                break
    raise ValueError(f"no cut of the stories has {tokens} tokens")


def write_items(items, path):
    with open(path, "w", encoding="utf-8") as f:
        for item in items:
            f.write(json.dumps(item, ensure_ascii=False) + "\n")


def write_proxy(out, layers=12, dim=768, heads=12, hidden=2048, seed=0):
    """A LLaDA folder with random bfloat16 weights and tiny-llada's tokenizer. The scale of the
    weights keeps activations of order one, and the head is wide enough that no two confidences are
    equal up to rounding; nothing else about them matters for speed."""
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(TINY, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    config.update(n_layers=layers, d_model=dim, n_heads=heads, n_kv_heads=heads,
                  mlp_hidden_size=hidden)
    with open(os.path.join(out, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    for name in TOKENIZER_FILES:
        shutil.copyfile(os.path.join(TINY, name), os.path.join(out, name))
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, shape in ((k, v.shape) for k, v in Llada(read_config(out)).state_dict().items()):
        if len(shape) == 1:
            value = torch.ones(shape)
        else:
            scale = 1.0 if "wte" in name else shape[1] ** -0.5
            if name == "transformer.ff_out.weight":
                scale *= 3.0
            value = torch.randn(shape, generator=generator) * scale
        state["model." + name] = value.to(torch.bfloat16)
    save_file(state, os.path.join(out, "model.safetensors"), {"format": "pt"})
