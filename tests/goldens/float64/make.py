# SPDX-License-Identifier: Apache-2.0
"""Writes runs of fast_dllm_v2, multi_block and freedave on random cases, decoded by the float64 loops of
loops.py, with the two tiny models they are of.

python make.py --out .        (with numpy and safetensors)
"""
import argparse
import json
import os

import numpy as np
from safetensors.numpy import save_file

from loops import block_causal, fast_dllm_v2, freedave, multi_block
from net import (END, EPS, HEAD, HEADS, KV_HEADS, LAYERS, MASK, THETA, VOCAB, WIDE, WIDTH, Family,
                 Net)

MIN_MARGIN, KEPT = 2e-4, 12  # closer decisions are not kept; runs of each method
ORIGIN = {"repo": "Unmask", "file": "tests/goldens/float64/loops.py"}
COMMON = {"temperature": 0.0, "stop_ids": None, "confidence_dtype": "float64"}


def config(names, block_key, block):
    return {**names, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "intermediate_size": WIDE,
            "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": EPS,
            "rope_theta": THETA, "hidden_act": "silu", "tie_word_embeddings": False,
            "eos_token_id": END, "mask_token_id": MASK, block_key: block}


MODELS = {
    "tiny-sdar-s11": (Family(norms=True), 11, config(
        {"architectures": ["SDARForCausalLM"], "model_type": "sdar"}, "block_size", 8)),
    "tiny-fdv2-s12": (Family(norms=False), 12, config(
        {"architectures": ["Fast_dLLM_QwenForCausalLM"], "model_type": "Fast_dLLM_Qwen"}, "bd_size",
        8))}


def fast_dllm_v2_run(rng, net, prompt):
    block = int(rng.choice([8, 16]))
    p = {"block_length": block, "sub_block_length": int(rng.choice([4, block])),
         "gen_length": 4 * block, "threshold": float(rng.choice([0.3, 0.6, 1.0])),
         "sub_block_cache": bool(rng.integers(2))}
    output, record = fast_dllm_v2(net, prompt, block, p["sub_block_length"], p["gen_length"],
                                  p["threshold"], p["sub_block_cache"])
    return {**p, "preset": "hf", "accept_compare": ">", "logits_shift": True}, output, record


def multi_block_run(rng, net, prompt):
    p = {"block_length": 8, "gen_length": int(rng.choice([24, 37])),
         "max_blocks": int(rng.choice([1, 2, 4])),
         "add_block_threshold": float(rng.choice([0.1, 0.5, 1.0])),
         "activation_threshold": float(rng.choice([0.4, 0.9, 1.0])),
         "threshold": float(rng.choice([0.3, 0.6, 0.9]))}
    output, record = multi_block(net, prompt, 8, p["gen_length"], p["max_blocks"],
                                 p["add_block_threshold"], p["activation_threshold"], p["threshold"])
    return {**p, "preset": "diffulex", "accept_compare": ">", "confidence": "probability",
            "logits_shift": False}, output, record


def freedave_run(rng, net, prompt):
    threshold = [None, None, 0.3, 0.7][rng.integers(4)]
    p = {"block_length": int(rng.choice([4, 8])), "gen_length": int(rng.choice([16, 27])),
         "draft_steps": int(rng.choice([1, 3, 8])), "tokens_per_step": int(rng.choice([1, 2])),
         "threshold": threshold, "order": ["confidence", "left to right"][rng.integers(2)]}
    output, record = freedave(net, prompt, p["block_length"], p["gen_length"], p["draft_steps"],
                              p["tokens_per_step"], threshold, p["order"] != "confidence")
    return {**p, "preset": "block causal", "accept_compare": ">=", "eager": False,
            "early_exit": False, "cache": "committed blocks", "logits_shift": False}, output, record


def logits_file(name, net, block):
    rng, cases = np.random.default_rng(block), []
    for i, n in enumerate([5, 19, 33]):
        ids = rng.integers(0, END, n).tolist()
        rows = net.forward(ids, range(n), None, block_causal(range(n), range(n), block))[0]
        positions = []
        for p in sorted({0, n // 2, n - 1}):
            best = np.argsort(-rows[p])[:16]
            positions.append({"pos": p, "logsumexp": round(float(np.log(np.exp(rows[p]).sum())), 6),
                              "top16": [[int(t), round(float(rows[p][t]), 6)] for t in best],
                              "fixed": [[t, round(float(rows[p][t]), 6)] for t in (0, MASK)]})
        cases.append({"id": f"{name}-logits-{i}", "input_ids": ids,
                      "attention": {"kind": "block_causal", "block_size": block},
                      "positions": positions})
    return {"model": name, "origin": {**ORIGIN, "file": "tests/goldens/float64/net.py"},
            "precision": "float64", "logits_shifted": False, "vocab_size": VOCAB,
            "mask_token_id": MASK, "cases": cases}


def runs(method, make, name, net, seed):
    rng, kept = np.random.default_rng(seed), []
    for i in range(2000):
        prompt = rng.integers(0, MASK, int(rng.choice([5, 13, 16, 21, 32]))).tolist()
        params, output, record = make(rng, net, prompt)
        if record.margin < MIN_MARGIN or record.masks_predicted or MASK in output:
            continue
        kept.append({"id": f"float64-{method}-{i}", "origin": ORIGIN, "model": name, "method": method,
                     "params": {**params, **COMMON}, "prompt_ids": prompt, "output_ids": output,
                     "nfe": len(record.forwards), "margins": {"smallest": round(record.margin, 6)},
                     "forwards": record.forwards})
        if len(kept) == KEPT:
            break
    return kept


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    out = ap.parse_args().out
    nets = {}
    for name, (family, seed, values) in MODELS.items():
        weights, folder = family.weights(seed), os.path.join(out, "models", name)
        write(os.path.join(folder, "config.json"), json.dumps(values, indent=1) + "\n")
        save_file(weights, os.path.join(folder, "model.safetensors"))
        nets[name] = Net(weights)
        write(os.path.join(out, "logits", name + ".json"),
              json.dumps(logits_file(name, nets[name], 8)) + "\n")
    for seed, (method, make, name) in enumerate([
            ("fast_dllm_v2", fast_dllm_v2_run, "tiny-fdv2-s12"),
            ("multi_block", multi_block_run, "tiny-sdar-s11"),
            ("freedave", freedave_run, "tiny-sdar-s11")]):
        lines = runs(method, make, name, nets[name], seed)
        write(os.path.join(out, "decode", method + ".jsonl"),
              "".join(json.dumps(line) + "\n" for line in lines))
        print(method, len(lines), "runs, smallest margin",
              min(line["margins"]["smallest"] for line in lines))


if __name__ == "__main__":
    main()
