# SPDX-License-Identifier: Apache-2.0
"""Writes the model card (README.md) of an exported model from measured rows.

unmask run experiments/embedded_models.toml -o RUN/scores
python card.py --model ../tiny-llada --rows RUN/scores/rows.jsonl --history history.txt
"""
import argparse
import json
import os

BARS = {"retrieval_kv": 90, "needle": 90, "list_program": 90, "instruction": 90,
        "word_problem": 70}
ORDER = ["word_problem", "equation", "list_program", "instruction", "retrieval_kv", "needle",
         "summary"]
SETTINGS = ["1 token per step", "2 tokens per step", "threshold 0.9"]
ABOUT = {
    "llada": "LLaDA: bidirectional attention, multi-head (6 x 32), no QK norm",
    "sdar": "SDAR / Qwen3: block-causal attention (block 32, aligned to position 0), 6 query and 3 "
            "key/value heads of 32, QK norm",
    "llada2_moe": "LLaDA2.0: a mixture of experts (16 of width 48, 4 a token out of 2 of 4 groups, sigmoid "
                  "scores, beside them 192 for every token; the first layer dense), block-causal attention "
                  "(block 32, aligned to position 0), 6 query and 3 key/value heads of 32, QK norm",
    "Dream": "Dream / Qwen2: bidirectional attention, multi-head (6 x 32), biases of queries, keys and "
             "values, row p predicts token p + 1",
    "qwen3": "Qwen3: causal attention, 6 query and 3 key/value heads of 32, QK norm",
}


def read_rows(path, model):
    """{setting: {family: (score in percent, positions per step, items, answer tokens per step)}}."""
    out = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            row = json.loads(line)
            if row["model"]["name"] != model or not row["score"]:
                continue
            setting = next((s for s in SETTINGS if row["label"].endswith(s)), SETTINGS[0])
            m = row["metrics"]
            out.setdefault(setting, {})[row["workload"]["family"]] = (
                100 * row["score"]["mean"], m["committed_per_step"], row["score"]["n"],
                m["output_tokens"] / m["denoise_steps"])
    return out


def mean(scores):
    return sum(v[0] for v in scores.values()) / len(scores)


def bar_table(found):
    full, half, thr = (found[s] for s in SETTINGS)
    out = ["## Quality bars", "", "| bar | measured | met |", "|---|---|---|"]
    for family, bar in BARS.items():
        v = full[family][0]
        out.append(f"| {family}: at least {bar} at one token per step | {v:.1f} | "
                   f"{'yes' if v >= bar else 'no'} |")
    falls = mean(full) - mean(half)
    out.append(f"| the mean falls at two tokens per step | {mean(full):.1f} to {mean(half):.1f} | "
               f"{'yes' if falls >= 1 else 'no'} |")
    for what, column in (("answer tokens", 3), ("positions, padding included,", 1)):
        steps = [v[column] for v in thr.values()]
        inside = 1.5 <= sum(steps) / len(steps) <= 12
        out.append(f"| {what} per step at threshold 0.9 between 1.5 and 12 | mean "
                   f"{sum(steps) / len(steps):.1f}, {min(steps):.1f} to {max(steps):.1f} by family "
                   f"| {'yes' if inside else 'no'} |")
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", required=True)
    ap.add_argument("--rows", required=True)
    ap.add_argument("--history", required=True, help="text on the training, copied into the card")
    a = ap.parse_args()
    with open(os.path.join(a.model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    name, about = os.path.basename(os.path.normpath(a.model)), ABOUT[config["model_type"]]
    layers = config.get("n_layers") or config["num_hidden_layers"]
    with open(a.history, encoding="utf-8") as f:
        history = f.read().strip()
    found = read_rows(a.rows, name)
    settings = [s for s in SETTINGS if s in found]
    masked = len(settings) > 1
    items = max(v[2] for v in found[settings[0]].values())
    out = [f"# {name}", "", f"{about}. {layers} layers, width 192, SwiGLU 448, RMSNorm, rotate-half RoPE "
           "(theta 500000), 1024 tokens of byte-level BPE, separate output matrix, bfloat16, two "
           "shards. Trained on generated text only; the generator, the tokenizer, the trainer and "
           "the definitions of the scorers are in `../train`.", "",
           "## Training", "", history, "", "## Scores", "",
           ("All" if items == 80 else "The first") + f" {items} held-out items of each family, "
           "contexts of up to 2000 tokens, rounded weights, float32, greedy"
           + (", block length 32:" if masked else ":"), "",
           "    unmask run experiments/embedded_models.toml", ""]
    head = settings + (["answer tokens per step at 0.9", "positions per step at 0.9"]
                       if masked else [])
    out += ["| family | " + " | ".join(head) + " |", "|---|" + "---|" * len(head)]
    for family in ORDER:
        cells = [f"{found[s][family][0]:.1f}" for s in settings]
        if masked:
            cells += [f"{found[SETTINGS[2]][family][column]:.2f}" for column in (3, 1)]
        out.append(f"| {family} | " + " | ".join(cells) + " |")
    cells = [f"{mean(found[s]):.1f}" for s in settings] + (["", ""] if masked else [])
    out += ["| mean | " + " | ".join(cells) + " |", "",
            "summary is ROUGE-L; the others are exact. story cannot be scored."]
    if masked:
        out[-1] += (" Positions per step count the end padding\nbehind an answer, most of which is "
                    "decided at once; answer tokens per step (the end token\nincluded) do not.")
    out.append("")
    if masked:
        out += bar_table(found)
    with open(os.path.join(a.model, "README.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(out).rstrip() + "\n")


if __name__ == "__main__":
    main()
