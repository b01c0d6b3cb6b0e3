# SPDX-License-Identifier: Apache-2.0
"""Writes the golden data of a block-causal Llama with shifted logits: a tiny random checkpoint, its
logits, and what block diffusion decodes with it, computed by the model that is trained here.

python golden.py --out ../../../../tests/goldens/shifted
"""
import argparse
import json
import os

import numpy as np
import torch

from data import sees
from model import Model, Shape
from safetensors.numpy import save_file

VOCAB, MASK, END, WIDTH, WIDE = 61, 58, 59, 32, 48
SHAPE = Shape(layers=3, heads=4, kv_heads=2, head_dim=8, theta=10000.0, eps=1e-5, mask=MASK)
MIN_MARGIN = 1e-3  # runs in which a decision was closer are not kept


def random_weights(seed):
    rng = np.random.default_rng(seed)
    heads = {"self_attn.q_proj": SHAPE.heads, "self_attn.k_proj": SHAPE.kv_heads,
             "self_attn.v_proj": SHAPE.kv_heads}
    shapes = {n: (h * SHAPE.head_dim, WIDTH) for n, h in heads.items()}
    shapes |= {"self_attn.o_proj": (WIDTH, WIDTH), "mlp.gate_proj": (WIDE, WIDTH),
               "mlp.up_proj": (WIDE, WIDTH), "mlp.down_proj": (WIDTH, WIDE)}
    w = {"model.embed_tokens.weight": rng.normal(size=(VOCAB, WIDTH)),
         "model.norm.weight": 1 + 0.2 * rng.normal(size=WIDTH)}
    for i in range(SHAPE.layers):
        for n, s in shapes.items():
            w[f"model.layers.{i}.{n}.weight"] = rng.normal(size=s) * 1.5 * s[1] ** -0.5
        for n in ("input_layernorm", "post_attention_layernorm"):
            w[f"model.layers.{i}.{n}.weight"] = 1 + 0.2 * rng.normal(size=WIDTH)
    return {n: x.astype(np.float32) for n, x in w.items()}


def config(block):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
            "num_hidden_layers": SHAPE.layers, "num_attention_heads": SHAPE.heads,
            "num_key_value_heads": SHAPE.kv_heads, "intermediate_size": WIDE, "vocab_size": VOCAB,
            "max_position_embeddings": 512, "rms_norm_eps": SHAPE.eps, "rope_theta": SHAPE.theta,
            "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": True,
            "attention": "block_causal", "block_size": block, "shifted_logits": True,
            "eos_token_id": END, "mask_token_id": MASK}


@torch.no_grad()
def logits_of(model, ids, block):
    import data
    data.BLOCK = block
    at = np.arange(len(ids))
    mask = sees(at, np.zeros(len(ids), int))
    return model.logits(model.hidden(torch.tensor(ids), torch.from_numpy(at), [len(ids)], [mask]))


def decode(model, prompt, length, block, threshold):
    """Block diffusion without any cache: whole forwards; position p is read from row p - 1. Returns
    answer, canvas, the forwards that a cache would make, and the smallest margin of a decision."""
    end = -(-(len(prompt) + length) // block) * block
    ids = prompt + [MASK] * (end - len(prompt))
    forwards, margin = [], 1.0
    first = len(prompt) // block * block
    begin = 0  # the prefill computes everything before the block in work, and that block
    while first < end:
        last = first + block
        row = {"rows": last - begin, "pos": [[begin, last]], "ids": ids[begin:last],
               "kind": "prefill" if begin == 0 and not forwards else "denoise"}
        masked = [p for p in range(first, last) if ids[p] == MASK]
        if not masked:
            row["kind"] = "commit"
        if not (begin == 0 and not forwards and first == len(prompt)):
            forwards.append(row)
        elif first > 0:  # a prompt of whole blocks enters alone
            forwards.append({"rows": first, "pos": [[0, first]], "ids": ids[:first],
                             "kind": "prefill"})
            begin = first
            continue
        begin = first
        if not masked:
            first = begin = last
            continue
        out = logits_of(model, ids[:last], block)[[p - 1 for p in masked]].double().softmax(-1)
        best, token = out.max(-1)
        if MASK in token.tolist():
            return [MASK], [], [], 0.0  # such runs end by other rules
        two = out.topk(2, -1).values
        margin = min(margin, float((two[:, 0] - two[:, 1]).min()),
                     float((best - threshold).abs().min()))
        order = best.sort(descending=True)
        if len(masked) > 1:
            margin = min(margin, float(order.values[0] - order.values[1]))
        for j, p in enumerate(masked):
            if best[j] >= threshold or j == int(order.indices[0]):
                ids[p] = int(token[j])
        if MASK not in ids[first:last] and last == end:
            break  # the last block is not committed
    return ids[len(prompt):len(prompt) + length], ids[len(prompt):], forwards, margin


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    torch.set_num_threads(1)
    name, block = "tiny-llama-s1", 8
    weights = random_weights(1)
    folder = os.path.join(a.out, "models", name)
    for f in (folder, os.path.join(a.out, "logits"), os.path.join(a.out, "decode")):
        os.makedirs(f, exist_ok=True)
    save_file(weights, os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(config(block), indent=1) + "\n")
    model = Model(weights.items(), SHAPE, 1, compiled=False, dtype=torch.float32)
    origin = {"repo": "Unmask", "file": "experiments/models/train/smol/golden.py"}
    rng = np.random.default_rng(2)
    cases = []
    for i, (n, b) in enumerate([(5, 4), (19, 8), (33, 16)]):
        ids = rng.integers(0, END, n).tolist()
        rows = logits_of(model, ids, b)
        top = [(p, rows[p].topk(16)) for p in sorted({0, b - 1, n - 1})]
        cases.append({"id": f"{name}-logits-{i}", "input_ids": ids,
                      "attention": {"kind": "block_causal", "block_size": b},
                      "positions": [{"pos": p, "logsumexp": round(float(rows[p].logsumexp(-1)), 6),
                                     "top16": [[int(t), round(float(v), 6)]
                                               for v, t in zip(best.values, best.indices)],
                                     "fixed": [[t, round(float(rows[p][t]), 6)] for t in (0, MASK)]}
                                    for p, best in top]})
        if n == 5:
            cases[-1]["full_logits"] = [[round(v, 6) for v in r] for r in rows.tolist()]
    with open(os.path.join(a.out, "logits", name + ".json"), "w", encoding="utf-8") as f:
        json.dump({"model": name, "origin": origin, "precision": "float32", "logits_shifted": False,
                   "vocab_size": VOCAB, "mask_token_id": MASK, "cases": cases}, f)
        f.write("\n")
    kept = 0
    with open(os.path.join(a.out, "decode", "block_diffusion.jsonl"), "w", encoding="utf-8") as f:
        for i in range(600):
            prompt = rng.integers(0, MASK, [13, 16, 21, 24, 30][i % 5]).tolist()
            length, threshold = (27, 19)[i % 2], (0.3, 0.9)[i // 2 % 2]
            output, canvas, forwards, margin = decode(model, prompt, length, block, threshold)
            if margin < MIN_MARGIN or MASK in output or kept == 12:
                continue
            kept += 1
            f.write(json.dumps({
                "id": f"engine-block_diffusion-shifted-{i}", "origin": origin, "model": name,
                "method": "block_diffusion",
                "params": {"preset": "engine", "block_length": block, "gen_length": length,
                           "steps": block, "remasking": "low_confidence_dynamic",
                           "threshold": threshold, "accept_compare": ">=", "temperature": 1.0,
                           "stop_ids": None, "confidence_dtype": "float32"},
                "prompt_ids": prompt, "output_ids": output, "canvas_ids": canvas,
                "nfe": len(forwards), "margins": {"smallest": round(margin, 6)},
                "forwards": forwards}) + "\n")
    print(f"{kept} runs")


if __name__ == "__main__":
    main()
