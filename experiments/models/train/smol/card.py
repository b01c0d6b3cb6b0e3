# SPDX-License-Identifier: Apache-2.0
"""Writes the table of scores and the bars into the card of smol, from measured rows.

unmask run experiments/smol.toml -o runs/smol
python card.py --rows runs/smol/rows.jsonl [--card ../../smol/README.md]

Everything between the two marks of the card is replaced.
"""
import argparse
import json
import os

BARS = {"needle": 80, "retrieval_kv": 80}
ORDER = ["needle", "retrieval_kv", "list_program", "instruction", "word_problem"]
SETTINGS = ["1 token per step", "2 tokens per step", "threshold 0.9"]
BEGIN, END = "<!-- scores: card.py -->", "<!-- end of scores -->"


def read_rows(path):
    """{setting: {family: (score in percent, items, answer tokens per step)}}; the last row counts."""
    out = {s: {} for s in SETTINGS}
    with open(path, encoding="utf-8") as f:
        for line in f:
            row = json.loads(line)
            if row["model"]["name"] != "smol" or not row["score"]:
                continue
            setting = next(s for s in SETTINGS if row["label"].endswith(s))
            m = row["metrics"]
            out[setting][row["workload"]["family"]] = (
                100 * row["score"]["mean"], row["score"]["n"],
                m["output_tokens"] / m["denoise_steps"])
    return out


def table(found):
    settings = [s for s in SETTINGS if found[s]]
    out = ["| family | items | " + " | ".join(settings) + " | answer tokens per step at 0.9 |",
           "|---|---|" + "---|" * (len(settings) + 1)]
    for family in ORDER:
        if family not in found[SETTINGS[0]]:
            continue
        cells = [f"{found[s][family][0]:.0f}" if family in found[s] else "" for s in settings]
        last = found[SETTINGS[2]].get(family)
        out.append(f"| {family} | {found[SETTINGS[0]][family][1]} | " + " | ".join(cells)
                   + f" | {f'{last[2]:.2f}' if last else ''} |")
    out += ["", "| bar | measured | met |", "|---|---|---|"]
    for family, bar in BARS.items():
        if family in found[SETTINGS[0]]:
            v = found[SETTINGS[0]][family][0]
            out.append(f"| {family}: at least {bar} at one token per step | {v:.0f} | "
                       f"{'yes' if v >= bar else 'no'} |")
    return "\n".join(out)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", required=True)
    ap.add_argument("--card", default=os.path.join(here, "..", "..", "smol", "README.md"))
    a = ap.parse_args()
    with open(a.card, encoding="utf-8") as f:
        text = f.read()
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    with open(a.card, "w", encoding="utf-8") as f:
        f.write(f"{head}{BEGIN}\n\n{table(read_rows(a.rows))}\n\n{END}{tail}")


if __name__ == "__main__":
    main()
