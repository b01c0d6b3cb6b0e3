# SPDX-License-Identifier: Apache-2.0
"""Writes the model card (README.md) of an exported model from the files of evaluate.py.

python card.py --model ../tiny-llada --scores scores.json --history history.txt
"""
import argparse
import json
import os

BARS = {"retrieval_kv": 90, "needle": 90, "list_program": 90, "instruction": 90,
        "word_problem": 70}
SETTINGS = {"full": "one token per step", "half": "two tokens per step",
            "thr": "confidence >= 0.9"}
ABOUT = {
    "llada": ("tiny-llada", "LLaDA: bidirectional attention, multi-head (6 x 32), no QK norm"),
    "sdar": ("tiny-sdar", "SDAR / Qwen3: block-causal attention (block 32, aligned to position 0), "
                          "6 query and 3 key/value heads of 32, QK norm"),
    "qwen3": ("tiny-ar", "Qwen3: causal attention, 6 query and 3 key/value heads of 32, QK norm"),
}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", required=True)
    ap.add_argument("--scores", required=True)
    ap.add_argument("--history", required=True, help="text on the training, copied into the card")
    a = ap.parse_args()
    with open(os.path.join(a.model, "config.json"), encoding="utf-8") as f:
        kind = json.load(f)["model_type"]
    with open(a.scores, encoding="utf-8") as f:
        scores = json.load(f)
    with open(a.history, encoding="utf-8") as f:
        history = f.read().strip()
    name, about = ABOUT[kind]
    masked = kind != "qwen3"
    out = [f"# {name}", "", f"{about}. 5 layers, width 192, SwiGLU 448, RMSNorm, rotate-half RoPE "
           "(theta 500000), 1024 tokens of byte-level BPE, separate output matrix, bfloat16, two "
           "shards. Trained on generated text only; the generator, the tokenizer, the "
           "trainer and the definitions of the scorers are in `../train`.", "",
           "## Training", "", history, "", "## Scores", "",
           "Held-out items (`../../data`), rounded weights, float32 arithmetic, greedy."
           + (" Low-confidence remasking, block length 32." if masked else ""), ""]
    for setting, res in scores.items():
        if masked:
            out += [f"### {setting}: {SETTINGS[setting]}", ""]
        out += ["| family | items | score | exact match | tokens per step |",
                "| --- | --- | --- | --- | --- |"]
        for fam, r in sorted(res.items()):
            per = f"{r['per_step']:.2f}" if masked else "1"
            out.append(f"| {fam} | {r['n']} | {r['score']:.1f} | {r['exact']:.1f} | {per} |")
        mean = sum(r["score"] for r in res.values()) / len(res)
        out += [f"| mean | | {mean:.1f} | | |", ""]
        sizes = {f: r["by_size"] for f, r in res.items() if r["by_size"]}
        if sizes:
            out += ["Score by context length (tokens: score / items):", ""]
            for fam, by in sorted(sizes.items()):
                out.append(f"* {fam}: " + ", ".join(f"{k}: {v[1]:.0f} / {v[0]}"
                                                    for k, v in by.items()))
            out.append("")
    if masked:
        out += ["## Quality bars", "", "| family | bar (full) | score | met |",
                "| --- | --- | --- | --- |"]
        for fam, bar in BARS.items():
            v = scores["full"][fam]["score"]
            out.append(f"| {fam} | {bar} | {v:.1f} | {'yes' if v >= bar else 'no'} |")
        out.append("")
    with open(os.path.join(a.model, "README.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(out).rstrip() + "\n")


if __name__ == "__main__":
    main()
