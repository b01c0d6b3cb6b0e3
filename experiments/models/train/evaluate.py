# SPDX-License-Identifier: Apache-2.0
"""Vanilla decoding and scores of a checkpoint or an exported model.

python evaluate.py --model ../tiny-llada --data ../../data --setting full --setting half
Settings: full (one token per step), half (two tokens per step), thr (confidence >= 0.9).
"""
import argparse
import glob
import json
import os
import time

import torch

from export import load_exported
from model import Model, block_causal_mask, config_of
from scorers import score
from tokenizer import EOS, EOT, MASK, Codec

BLOCK = 32  # of a model that was trained with another one: its own


def load_items(folder, limit, max_context, families):
    out = []
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path, encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
        rows = [r for r in rows if r["check"].get("context_tokens", 0) <= max_context]
        rows = [r for r in rows if not families or r["family"] in families]
        step = max(1, len(rows) // limit) if limit else 1
        out += rows[::step][:limit or None]
    return [r for r in out if r["scorer"] != "none"]


def batches(items, codec, budget):
    rows = [(codec.encode(codec.template(r["prompt"])), r) for r in items]
    rows.sort(key=lambda x: (len(x[0]) + x[1]["gen_length"], x[1]["gen_length"]))
    batch = []
    for row in rows:
        longest = len(row[0]) + row[1]["gen_length"] + BLOCK
        if batch and (longest * (len(batch) + 1) > budget
                      or row[1]["gen_length"] != batch[0][1]["gen_length"]):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def choose(logits, masked, setting):
    """Positions (bool) to commit and the argmax tokens, for rows [n, BLOCK, vocab]."""
    conf, tok = logits.float().softmax(-1).max(-1)
    conf = conf.masked_fill(~masked, -1.0)
    if setting == "thr":
        best = conf.argmax(-1, keepdim=True)
        take = (conf >= 0.9).scatter(1, best, True)
    else:
        k = 1 if setting == "full" else 2
        take = torch.zeros_like(masked).scatter(1, conf.topk(k, -1).indices, True)
    return take & masked, tok


@torch.no_grad()
def decode_blocks(model, batch, setting):
    """The masked models. LLaDA and Dream: blocks count from the prompt's end, the whole canvas is fed.
    SDAR: blocks are aligned to position 0, only blocks up to the current one are visible."""
    llada, behind = model.cfg.kind in ("llada", "dream"), model.cfg.kind == "dream"
    gen = batch[0][1]["gen_length"]
    n = len(batch)
    plen = torch.tensor([len(p) for p, _ in batch])
    total = plen + gen if llada else -(-(plen + gen) // BLOCK) * BLOCK
    width = int(total.max())
    ids = torch.full((n, width), EOS)
    for i, (p, _) in enumerate(batch):
        ids[i, :len(p)] = torch.tensor(p)
        ids[i, len(p):total[i]] = MASK
    start = plen.clone() if llada else plen // BLOCK * BLOCK
    alive = torch.ones(n, dtype=torch.bool)
    commits, steps = torch.zeros(n), torch.zeros(n)
    keys = torch.arange(width)[None] < total[:, None]
    causal = None if llada else block_causal_mask(width, BLOCK)
    offs = torch.arange(BLOCK)
    while alive.any():
        act = alive.nonzero()[:, 0]
        end = width if llada else int((start[act] + BLOCK).max())
        sub = ids[act, :end]
        mask = keys[act, None, None, :end] if llada else causal[:, :, :end, :end]
        h = model.hidden(sub, mask)
        at = start[act][:, None] + offs
        rows = (at - int(behind))[..., None].expand(-1, -1, h.shape[-1])
        logits = model.head(h.gather(1, rows))
        cur = sub.gather(1, at)
        take, tok = choose(logits, cur == MASK, setting)
        cur = torch.where(take, tok, cur)
        ids[act] = ids[act].scatter(1, at, cur)
        commits[act] += take.sum(1)
        steps[act] += 1
        for j, i in enumerate(act.tolist()):
            if (cur[j] == MASK).any():
                continue
            fresh = cur[j][at[j] >= plen[i]]
            start[i] += BLOCK
            if ((fresh == EOS) | (fresh == EOT)).any() or start[i] >= total[i]:
                alive[i] = False
    outs = [ids[i, plen[i]:plen[i] + gen].tolist() for i in range(n)]
    return outs, commits.tolist(), steps.tolist()


@torch.no_grad()
def decode_ar(model, batch, setting):
    gen = batch[0][1]["gen_length"]
    plen = torch.tensor([len(p) for p, _ in batch])
    ids = torch.full((len(batch), int(plen.max()) + gen + 1), EOS)
    for i, (p, _) in enumerate(batch):
        ids[i, :len(p)] = torch.tensor(p)
    rows = torch.arange(len(batch))
    done = torch.zeros(len(batch), dtype=torch.bool)
    for k in range(gen):
        h = model.hidden(ids[:, :int(plen.max()) + k])
        nxt = model.head(h[rows, plen + k - 1]).argmax(-1)
        ids[rows, plen + k] = torch.where(done, EOS, nxt)
        done |= (nxt == EOT) | (nxt == EOS)
        if done.all():
            break
    outs = [ids[i, plen[i]:plen[i] + gen].tolist() for i in range(len(batch))]
    return outs, [0.0] * len(batch), [1.0] * len(batch)


def evaluate(model, codec, items, setting, budget=8192, show=0):
    decode = decode_ar if model.cfg.kind == "ar" else decode_blocks
    res = {}
    for batch in batches(items, codec, budget):
        outs, commits, steps = decode(model, batch, setting)
        for (_, it), out, c, s in zip(batch, outs, commits, steps):
            text = codec.decode(out)
            r = res.setdefault(it["family"], {"n": 0, "score": 0.0, "exact": 0.0, "commits": 0.0,
                                              "steps": 0.0, "by_size": {}})
            v = score(text, it)
            r["n"] += 1
            r["score"] += v
            r["exact"] += text.strip() == it["answer"].strip()
            r["commits"] += c
            r["steps"] += s
            if "context_tokens" in it["check"]:
                size = 2 ** round(__import__("math").log2(it["check"]["context_tokens"]))
                b = r["by_size"].setdefault(size, [0, 0.0])
                b[0] += 1
                b[1] += v
            if show and v < 1 and r["n"] - r["score"] <= show:
                print("   MISS", it["id"], repr(it["prompt"][-120:]), "\n     want",
                      repr(it["answer"]), "\n     got ", repr(text))
    return res


def load(path):
    if os.path.isdir(path):
        return load_exported(path)
    s = torch.load(path)
    model = Model(config_of(s))
    model.load_state_dict({k: v.bfloat16().float() for k, v in s["model"].items()})
    return model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", required=True, help="exported folder or checkpoint")
    ap.add_argument("--tokenizer", help="tokenizer file, for checkpoints")
    ap.add_argument("--data", required=True)
    ap.add_argument("--setting", action="append", choices=["full", "half", "thr"])
    ap.add_argument("--limit", type=int, default=0, help="items per family")
    ap.add_argument("--max-context", type=int, default=1 << 20)
    ap.add_argument("--family", action="append")
    ap.add_argument("--show", type=int, default=0, help="print this many misses per family")
    ap.add_argument("--json", help="write the results here")
    a = ap.parse_args()
    torch.set_num_threads(1)
    global BLOCK
    model = load(a.model).eval()
    BLOCK = model.cfg.block
    path = a.tokenizer or os.path.join(a.model, "tokenizer.json")
    codec = Codec(path, model.cfg.kind)
    items = load_items(a.data, a.limit, a.max_context, a.family)
    report = {}
    for setting in a.setting or ["full"]:
        begin = time.time()
        res = evaluate(model, codec, items, setting, show=a.show)
        print(f"{model.cfg.kind} {setting} ({time.time() - begin:.0f} s)")
        for fam, r in res.items():
            for key in ("score", "exact"):
                r[key] = 100 * r[key] / r["n"]
            r["per_step"] = r["commits"] / max(1.0, r["steps"])
            r["by_size"] = {k: [v[0], 100 * v[1] / v[0]] for k, v in sorted(r["by_size"].items())}
            sizes = " ".join(f"{k}:{v[1]:.0f}%/{v[0]}" for k, v in r["by_size"].items())
            print(f"  {fam:13s} n={r['n']:3d} score={r['score']:5.1f} exact={r['exact']:5.1f} "
                  f"per_step={r['per_step']:.2f} {sizes}", flush=True)
        report[setting] = res
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(report, f, indent=1)


if __name__ == "__main__":
    main()
