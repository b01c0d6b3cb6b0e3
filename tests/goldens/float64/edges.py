# SPDX-License-Identifier: Apache-2.0
"""Writes golden runs of five methods at random settings, edges first: prompts shorter than a window, ragged last
blocks, budgets above the rows, one token a step, thresholds of 0 and 1. The rules of papers.py decode them.

python edges.py --out DIR --count 200 --seed 0        (with numpy)
"""
import argparse
import json
import os
import time

import numpy as np

from net import (END, EPS, HEAD, HEADS, KV_HEADS, LAYERS, MASK, THETA, VOCAB, WIDE, WIDTH, Family,
                 Net)
from papers import ada_dlm, focus, focus_dllm, optimus, sparse_dllm

SDAR, BOTH_WAYS = "tiny-sdar", "tiny-a2d"
CONFIG = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
          "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "intermediate_size": WIDE, "vocab_size": VOCAB,
          "max_position_embeddings": 512, "rms_norm_eps": EPS, "rope_theta": THETA, "hidden_act": "silu",
          "tie_word_embeddings": False, "eos_token_id": END, "mask_token_id": MASK}
NAMES = {SDAR: {"architectures": ["SDARForCausalLM"], "model_type": "sdar", "block_size": 8},
         BOTH_WAYS: {"architectures": ["A2DQwen3LMHeadModel"], "model_type": "a2d-qwen3"}}


def drawn(rng, **lists):
    return {name: values[rng.integers(len(values))] for name, values in lists.items()}


def ada_dlm_case(rng):
    s = drawn(rng, scope=["sequence", "block"], block_length=[1, 3, 8, 32], history=[1, 2, 3, 5],
              k=[0.05, 0.15, 0.4, 1.0], k_tokens=[0, 0, 1, 64], k_basis=["scope", "active", "sequence"],
              rule=["two_centroid"] * 4 + ["moving_average", "threshold"],
              metric=["squared_euclidean"] * 3 + ["manhattan", "cosine"],
              centroid=["token", "trace", "trace", "tier_mean"], boundary=["rank", "rank", "last"],
              ranked=["active", "active", "region"], short_set=["last_ranked", "freeze_all"],
              guard=[True, True, False], floor=[0.0, 0.0, 0.3], threshold=[0.0, 0.2, 0.5, 1.0],
              average_threshold=[0.0, 0.0, 0.3], first_history=["zeros", "replicate"],
              limit_to_quota=[False, True], steps=[5, 12, 100, 100], at_cap=["commit", "leave"],
              frozen_input=["token", "token", "mask"], delay=[1, 1, 0], cache_steps=[0, 0, 1, 4],
              w_clamp=[False, False, True], refresh_prompt=[False, True])
    if s["rule"] != "two_centroid" or s["metric"] != "squared_euclidean":
        s["w_clamp"] = False
    if s["boundary"] == "last":
        s["short_set"] = "last_ranked"
        s["centroid"] = "token" if s["centroid"] == "tier_mean" else s["centroid"]
    if s["centroid"] == "trace":
        s["first_history"] = "zeros"
    s["refresh_prompt"] = s["refresh_prompt"] and s["cache_steps"] > 0
    return s, {**s, "confidence_dtype": "float64"}, int(rng.choice([1, 7, 16, 21]))


def schedule(rng, most):
    block = int(rng.choice([1, 2, 4, 8]))
    tokens = int(rng.choice([t for t in (1, 2, 4) if block % t == 0]))
    return {"block_length": block, "tokens_per_step": tokens}, block * int(rng.choice(range(1, most)))


def sparse_dllm_case(rng):
    s, length = schedule(rng, 4)
    s |= drawn(rng, retention_ratio=[0.0, 0.1, 0.5, 0.9, 1.0], kernel_size=[1, 3, 5, 31],
               pooling=["max", "max", "avg", "none"], delay=[0, 1, 2, 9],
               eviction=["bidirectional", "bidirectional", "prefix"])
    return s, s, length


def focus_dllm_case(rng):
    s, length = schedule(rng, 4)
    s |= drawn(rng, rho=[1.0, 1.5, 4.0, 100.0], window=[0, 1, 4, 64], past_confidence=[True, True, False],
               inactive_confidence=["stale", "none"], sparse_attention=[True, True, False],
               dense_layers=[1, 2], alpha=[0.0, 0.3, 0.5, 1.0], prompt_block_size=[1, 4, 5, 64],
               sinks=[True, True, False], sink_fraction=[0.0, 0.01, 0.2, 1.0])
    return s, s, length


def focus_case(rng):
    s = drawn(rng, block_length=[4, 8, 16], threshold=[0.0, 0.2, 0.35, 0.6, 1.0], alpha=[1.0, 1.2, 1.5, 3.0, 64.0],
              temperature=[1.0, 0.8])
    return s, {**s, "stop": "none"}, int(rng.choice([1, 9, 16, 30]))


def optimus_case(rng):
    s = drawn(rng, block_length=[4, 8, 16], threshold=[0.0, 0.2, 0.35, 0.6, 1.0], temperature=[1.0, 0.8])
    s["chunk"] = int(rng.integers(2, s["block_length"] + 1))
    return s, {**s, "stop": "none"}, int(rng.choice([1, 9, 16, 30]))


CASES = {"ada_dlm": (ada_dlm, ada_dlm_case, BOTH_WAYS, ""),
         "sparse_dllm": (sparse_dllm, sparse_dllm_case, BOTH_WAYS, ""),
         "focus_dllm": (focus_dllm, focus_dllm_case, BOTH_WAYS, ""), "focus": (focus, focus_case, SDAR, "paper"),
         "optimus": (optimus, optimus_case, SDAR, "")}


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)


def safetensors(weights):
    header, begin = {}, 0
    for name, x in weights.items():
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [begin, begin + x.nbytes]}
        begin += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(x.astype("<f4").tobytes() for x in weights.values())


def models(out):
    """The same weights as SDAR and as a model whose every row sees every other."""
    weights = Family(norms=True).weights(11)
    for name, names in NAMES.items():
        folder = os.path.join(out, "models", name)
        write(os.path.join(folder, "config.json"), json.dumps({**names, **CONFIG}) + "\n")
        write(os.path.join(folder, "model.safetensors"), safetensors(weights))
    return Net(weights)


def run_of(net, method, i, seed):
    """A golden run, and by how little it was decided."""
    decode, case, model, preset = CASES[method]
    rng = np.random.default_rng([seed, i, sorted(CASES).index(method)])
    settings, given, length = case(rng)
    prompt = rng.integers(0, MASK, int(rng.choice([1, 2, 5, 8, 13, 16, 27]))).tolist()
    run = decode(net, prompt, length, settings)
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in given.items()}
    return {"id": f"{method}-{seed}-{i}", "origin": {"repo": "Unmask", "file": "tests/goldens/float64/papers.py"},
            "model": model, "method": method, "params": {"gen_length": length, "preset": preset}, "preset": preset,
            "settings": plain, "prompt_ids": prompt, "output_ids": [int(t) for t in run.x[run.prompt:]],
            "nfe": len(run.forwards), "forwards": run.forwards}, run.near


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("--count", type=int, default=200)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--method", action="append", choices=sorted(CASES))
    o = ap.parse_args()
    os.makedirs(os.path.join(o.out, "logits"), exist_ok=True)
    net = models(o.out)
    for method in o.method or CASES:
        start, lines, near, refused = time.time(), [], [], 0
        for i in range(o.count):
            golden, by = run_of(net, method, i, o.seed)
            # A rule that never unmasks anything ends a run of the engine with a sentence, and the golden run says so.
            if all(t == MASK for t in golden["output_ids"]):
                golden["refused"] = True
                refused += 1
            if by.distance < by.limit:
                near.append(f"{golden['id']} ({by.distance:.1e})")
            else:
                lines.append(json.dumps(golden))
        write(os.path.join(o.out, "decode", method + ".jsonl"), "".join(line + "\n" for line in lines))
        print(f"{method}: {len(lines)} runs in {time.time() - start:.0f} s; {refused} unmask nothing; near ties, not "
              f"compared: {', '.join(near) or 'none'}")


if __name__ == "__main__":
    main()
