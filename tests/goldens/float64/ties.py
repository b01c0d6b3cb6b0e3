#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do confidences that tie in float32 decide Ada-DLM's runs? Its rule from papers.py on the included tiny-llada in
float64, with confidences as they are and rounded to float32, as the program stores them:

  python tests/goldens/float64/ties.py [--items 20]        about a minute; needs numpy, tokenizers and jinja2"""
import argparse
import json
import os
import re
import struct

import jinja2
import numpy as np
from tokenizers import Tokenizer

import net
import papers
import rows

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
MODEL = os.path.join(ROOT, "experiments", "models", "tiny-llada")
LENGTH, ENDS = 64, (1018, 1022)
NAMES = {"self_attn.q_proj": "q_proj", "self_attn.k_proj": "k_proj", "self_attn.v_proj": "v_proj",
         "self_attn.o_proj": "attn_out", "mlp.gate_proj": "ff_proj", "mlp.up_proj": "up_proj",
         "mlp.down_proj": "ff_out", "input_layernorm": "attn_norm", "post_attention_layernorm": "ff_norm"}
SETTINGS = {"scope": "block", "block_length": 32, "k": 0.15, "k_tokens": 0, "k_basis": "scope", "rule": "two_centroid",
            "metric": "squared_euclidean", "boundary": "rank", "ranked": "active", "short_set": "last_ranked",
            "guard": True, "floor": 0.0, "threshold": 0.9, "average_threshold": 0.0, "first_history": "zeros",
            "limit_to_quota": False, "steps": 100, "at_cap": "commit", "frozen_input": "token", "delay": 1,
            "cache_steps": 0, "w_clamp": False, "refresh_prompt": False}


def read_json(name):
    with open(os.path.join(MODEL, name), encoding="utf-8") as f:
        return json.load(f)


def tensors():
    """Every tensor of the checkpoint, which is in bfloat16."""
    found = {}
    for name in sorted(set(read_json("model.safetensors.index.json")["weight_map"].values())):
        with open(os.path.join(MODEL, name), "rb") as f:
            size, = struct.unpack("<Q", f.read(8))
            head, data = json.loads(f.read(size)), f.read()
        for key, entry in head.items():
            if key != "__metadata__":
                first, last = entry["data_offsets"]
                bits = np.frombuffer(data[first:last], "<u2").astype(np.uint32) << 16
                found[key] = bits.view(np.float32).reshape(entry["shape"])
    return found


def network():
    """tiny-llada in net.py, whose shapes become those of the checkpoint."""
    config, of = read_json("config.json"), tensors()
    for module in (net, rows, papers):
        module.HEADS = module.KV_HEADS = config["n_heads"]
        module.HEAD = config["d_model"] // config["n_heads"]
        module.LAYERS, module.MASK, module.EPS = config["n_layers"], config["mask_token_id"], config["rms_norm_eps"]
    net.THETA = config["rope_theta"]
    weights = {"model.embed_tokens.weight": of["model.transformer.wte.weight"],
               "model.norm.weight": of["model.transformer.ln_f.weight"],
               "lm_head.weight": of["model.transformer.ff_out.weight"]}
    for i in range(config["n_layers"]):
        for ours, theirs in NAMES.items():
            weights[f"model.layers.{i}.{ours}.weight"] = of[f"model.transformer.blocks.{i}.{theirs}.weight"]
    return net.Net(weights)


def nearer(_run, _s, v, high, low):
    """Equation 9 to the last bit: papers.py calls distances below 1e-12 equal, and here they decide."""
    return ((v - low) ** 2).sum(1) > ((v - high) ** 2).sum(1)


def number(text):
    found = re.findall(r"-?\d+", text)
    return found[-1] if found else ""


class Rounded(rows.Run):
    """Confidences as the program stores them: in float32."""

    def predict(self, logits, temperature=1.0):
        token, confidence = super().predict(logits, temperature)
        return token, confidence.astype(np.float32).astype(np.float64)


def word_problems(count):
    """(prompt tokens, answer) of the first items, and the function that makes text of tokens."""
    tokenizer = Tokenizer.from_file(os.path.join(MODEL, "tokenizer.json"))
    chat = jinja2.Template(read_json("tokenizer_config.json")["chat_template"])
    with open(os.path.join(ROOT, "experiments", "data", "word_problem.jsonl"), encoding="utf-8") as f:
        items = [json.loads(line) for _, line in zip(range(count), f)]

    def tokens_of(prompt):
        text = chat.render(messages=[{"role": "user", "content": prompt}], add_generation_prompt=True)
        return tokenizer.encode(text, add_special_tokens=False).ids
    return [(tokens_of(item["prompt"]), item["answer"]) for item in items], tokenizer.decode


def decoded(model, problems, history, centroid, run):
    """Forward passes of each problem, and how many answers end in the right number. run: Rounded, or rows.Run."""
    papers.Run, papers.nearer = run, nearer
    prompts, text_of = problems
    passes, right = [], 0
    for prompt, answer in prompts:
        found = papers.ada_dlm(model, prompt, LENGTH, {**SETTINGS, "history": history, "centroid": centroid})
        tokens = [int(t) for t in found.x[found.prompt:]]
        end = next((i for i, t in enumerate(tokens) if t in ENDS), LENGTH)
        passes.append(len(found.forwards))
        right += number(text_of(tokens[:end])) == number(answer)
    return passes, right


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--items", type=int, default=20)
    o = ap.parse_args()
    model, problems = network(), word_problems(o.items)
    print(f"{len(problems[0])} word problems, {LENGTH} tokens each: forward passes; right answers")
    for history, centroid in ((1, "token"), (3, "token"), (3, "trace")):
        found = {name: decoded(model, problems, history, centroid, run)
                 for name, run in (("float32", Rounded), ("float64", rows.Run))}
        print(f"m = {history}, {centroid}: " + ", ".join(f"{k} {sum(n)}; {right}" for k, (n, right) in found.items()))


if __name__ == "__main__":
    main()
