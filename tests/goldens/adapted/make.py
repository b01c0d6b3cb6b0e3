# SPDX-License-Identifier: Apache-2.0
"""Writes the golden data of A2D models (Qwen3 that attends in both directions) and of scaled rotary
positions: tiny random checkpoints, their logits by transformers' Qwen3 with a mask that hides nothing,
in float64, and what LLaDA's loop decodes with one of them. Nothing here is this program's own code.

python make.py --out .        (with torch, transformers 5.24 and safetensors)
"""
import argparse
import hashlib
import json
import os

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

VOCAB, MASK, END, WIDTH, WIDE, HEAD = 61, 58, 59, 32, 16, 16
HEADS, KV_HEADS = 2, 1
MIN_MARGIN = 1e-3  # runs in which a decision was closer are not kept
ORIGIN = {"repo": "huggingface/transformers", "version": "5.24.0",
          "file": "models/qwen3/modeling_qwen3.py", "note": "with a mask that hides nothing"}
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32,
             "beta_fast": 8.0, "beta_slow": 1.0}}


def random_weights(layers, seed):
    rng = np.random.default_rng(seed)
    shapes = {"self_attn.q_proj": (HEADS * HEAD, WIDTH), "self_attn.k_proj": (KV_HEADS * HEAD, WIDTH),
              "self_attn.v_proj": (KV_HEADS * HEAD, WIDTH), "self_attn.o_proj": (WIDTH, HEADS * HEAD),
              "mlp.gate_proj": (WIDE, WIDTH), "mlp.up_proj": (WIDE, WIDTH),
              "mlp.down_proj": (WIDTH, WIDE)}
    norms = {"input_layernorm": WIDTH, "post_attention_layernorm": WIDTH, "self_attn.q_norm": HEAD,
             "self_attn.k_norm": HEAD}
    w = {"model.embed_tokens.weight": rng.normal(size=(VOCAB, WIDTH)),
         "model.norm.weight": 1 + 0.2 * rng.normal(size=WIDTH)}
    for i in range(layers):
        for n, s in shapes.items():
            w[f"model.layers.{i}.{n}.weight"] = rng.normal(size=s) * 1.5 * s[1] ** -0.5
        for n, s in norms.items():
            w[f"model.layers.{i}.{n}.weight"] = 1 + 0.2 * rng.normal(size=s)
    return {n: x.astype(np.float32) for n, x in w.items()}


def config(layers, scaling):
    return {"architectures": ["A2DQwen3LMHeadModel"], "model_type": "a2d-qwen3",
            "hidden_size": WIDTH, "num_hidden_layers": layers, "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "intermediate_size": WIDE,
            "vocab_size": VOCAB, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0, "rope_scaling": scaling, "hidden_act": "silu",
            "attention_bias": False, "tie_word_embeddings": True, "use_sliding_window": False,
            "eos_token_id": END}


def qwen3(values, weights):
    known = {k: v for k, v in values.items() if k not in ("architectures", "model_type")}
    made = transformers.Qwen3Config(**known, attn_implementation="eager")
    model = transformers.Qwen3ForCausalLM(made).double().eval()
    tensors = {n: torch.from_numpy(x).double() for n, x in weights.items()}
    absent, unknown = model.load_state_dict(tensors, strict=False)
    assert absent == ["lm_head.weight"] and not unknown, (absent, unknown)
    model.tie_weights()
    # The frequencies are made by the constructor in float32; .double() widened what was rounded.
    return model


@torch.no_grad()
def logits_of(model, ids):
    n = len(ids)
    sees_all = torch.zeros(1, 1, n, n, dtype=torch.float64)
    return model(input_ids=torch.tensor([ids]), attention_mask=sees_all, use_cache=False).logits[0]


def attends_in_both_directions(model):
    """The mask that was passed is the one that was used."""
    other = logits_of(model, [1, 2, 3, 4, 6])
    return bool((logits_of(model, [1, 2, 3, 4, 5])[0] - other[0]).abs().max() > 1e-3)


def logits_file(name, model, rng):
    cases = []
    for i, n in enumerate([5, 19, 47]):
        ids = rng.integers(0, END, n).tolist()
        rows = logits_of(model, ids)
        positions = []
        for p in sorted({0, n // 2, n - 1}):
            best = rows[p].topk(16)
            positions.append({
                "pos": p, "logsumexp": round(float(rows[p].logsumexp(-1)), 6),
                "top16": [[int(t), round(float(v), 6)] for v, t in zip(best.values, best.indices)],
                "fixed": [[t, round(float(rows[p][t]), 6)] for t in (0, MASK)]})
        cases.append({"id": f"{name}-logits-{i}", "input_ids": ids,
                      "attention": {"kind": "bidirectional"}, "positions": positions})
        if n == 5:
            cases[-1]["full_logits"] = [[round(v, 6) for v in r] for r in rows.tolist()]
    return {"model": name, "origin": ORIGIN, "precision": "float64", "logits_shifted": False,
            "vocab_size": VOCAB, "mask_token_id": MASK, "cases": cases}


def decode(model, prompt, length, block, steps):
    """LLaDA's loop, low_confidence at temperature 0 (arXiv 2502.09992, algorithm 5): in every block of
    `block` masks, steps * block / length forwards, each deciding an equal share of the block by the
    probability of the arg-max. Returns the canvas, the forwards and the smallest margin."""
    ids, forwards, margin = prompt + [MASK] * length, [], 1.0
    per_block = steps * block // length
    for first in range(len(prompt), len(ids), block):
        for step in range(per_block):
            rows = logits_of(model, ids)
            text = ",".join(map(str, ids))
            forwards.append({"rows": len(ids), "pos": [[0, len(ids)]],
                             "ids_sha1": hashlib.sha1(text.encode()).hexdigest(),
                             "logits_abs_sum": round(float(rows.abs().sum()), 3)})
            masked = [p for p in range(first, first + block) if ids[p] == MASK]
            two, token = rows[masked].softmax(-1).topk(2, -1)
            margin = min(margin, float((two[:, 0] - two[:, 1]).min()))
            quota = block // per_block + (step < block % per_block)
            order = two[:, 0].argsort(descending=True).tolist()
            if quota < len(masked):
                margin = min(margin, float(two[order[quota - 1], 0] - two[order[quota], 0]))
            for j in order[:quota]:
                ids[masked[j]] = int(token[j, 0])
    return ids, forwards, margin


def runs(name, model, rng):
    kept = []
    for i in range(1500):
        prompt = rng.integers(0, MASK, [7, 12, 20][i % 3]).tolist()
        length, block, steps = [(32, 8, 32), (32, 16, 16), (24, 24, 8), (24, 8, 12)][i % 4]
        canvas, forwards, margin = decode(model, prompt, length, block, steps)
        output = canvas[len(prompt):]
        if margin < MIN_MARGIN or MASK in output:
            continue
        kept.append({
            "id": f"a2d-vanilla-{i}", "origin": {**ORIGIN, "note": "LLaDA's loop over it"},
            "model": name, "method": "vanilla_llada",
            "params": {"temperature": 0.0, "cfg_scale": 0.0, "remasking": "low_confidence",
                       "confidence_dtype": "float64", "threshold": None, "factor": None,
                       "steps": steps, "gen_length": length, "block_length": block,
                       "cache": "none", "until_clean": False},
            "prompt_ids": prompt, "output_ids": output, "nfe": len(forwards),
            "margins": {"smallest": round(margin, 6)}, "forwards": forwards})
        if len(kept) == 8:
            break
    return kept


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def write_model(folder, name, layers, seed, scaling):
    values, weights = config(layers, scaling), random_weights(layers, seed)
    write(os.path.join(folder, "config.json"), json.dumps(values, indent=1) + "\n")
    # As published: only the tokenizer knows the mask.
    write(os.path.join(folder, "tokenizer_config.json"), json.dumps(
        {"mask_token": "<|mask|>", "added_tokens_decoder": {str(MASK): {"content": "<|mask|>"}}},
        indent=1) + "\n")
    save_file(weights, os.path.join(folder, "model.safetensors"))
    model = qwen3(values, weights)
    assert attends_in_both_directions(model), name
    return model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    out = ap.parse_args().out
    torch.set_num_threads(1)
    rng = np.random.default_rng(2)
    models = {"tiny-a2d-s1": (3, 1, None)}
    models |= {f"tiny-a2d-{kind}-s1": (1, 3 + i, SCALINGS[kind]) for i, kind in enumerate(SCALINGS)}
    for name, (layers, seed, scaling) in models.items():
        model = write_model(os.path.join(out, "models", name), name, layers, seed, scaling)
        write(os.path.join(out, "logits", name + ".json"),
              json.dumps(logits_file(name, model, rng)) + "\n")
        if scaling is None:
            lines = runs(name, model, rng)
            write(os.path.join(out, "decode", "vanilla_llada.jsonl"),
                  "".join(json.dumps(line) + "\n" for line in lines))
            print(f"{len(lines)} runs")


if __name__ == "__main__":
    main()
