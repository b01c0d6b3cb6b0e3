# SPDX-License-Identifier: Apache-2.0
"""Trains one model on one CPU core within a budget of tokens, or of that core's time. A busy machine prolongs a run
and does not shorten its schedule; a slower one does so too if the budget is one of tokens.

python train.py --kind ar    --out RUN/ar    --tokenizer TOK --tokens 4.9 --exclude DATA_DIR
python train.py --kind sdar  --out RUN/sdar  --tokenizer TOK --tokens 43.6 --init RUN/ar/last.pt
python train.py --kind llada --out RUN/llada --tokenizer TOK --minutes 100
"""
import argparse
import os
import time

import torch
import torch.nn.functional as F

from data import DECIDED, SCORED, Batcher
from model import Model, config_of, copies_mask, make_config
from tokenizer import Codec
from trainer import excluded_hashes, product_type, save, schedule


WARM_STEPS = 100


def orthogonalize(g):
    """Newton-Schulz iteration on a stack of matrices (rows <= columns)."""
    x = g.to(product_type())
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for a, b, c in [(3.4445, -4.7750, 2.0315)] * 5:
        m = x @ x.mT
        x = a * x + (b * m + c * (m @ m)) @ x
    return x.float()


class Muon:
    """Momentum with orthogonalised updates; equally shaped matrices are batched."""

    def __init__(self, params, momentum=0.95, decay=0.02):
        self.params, self.momentum, self.decay = list(params), momentum, decay
        self.buf = [torch.zeros_like(p) for p in self.params]
        self.groups = {}
        for i, p in enumerate(self.params):
            self.groups.setdefault(tuple(sorted(p.shape)), []).append(i)

    @torch.no_grad()
    def step(self, lr):
        for (rows, cols), members in self.groups.items():
            ups = []
            for i in members:
                g, b = self.params[i].grad, self.buf[i]
                b.lerp_(g, 1 - self.momentum)
                u = g.lerp(b, self.momentum)
                ups.append(u if u.shape[0] <= u.shape[1] else u.mT)
            outs = orthogonalize(torch.stack(ups))
            for i, u in zip(members, outs):
                p = self.params[i]
                if p.shape[0] > p.shape[1]:
                    u = u.mT
                p.mul_(1 - lr * self.decay)
                p.add_(u, alpha=-lr * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)


@torch.no_grad()
def decide_surest(hidden, head, ids, flat, tgt, sco, group, rng, behind=0):
    """Puts the true token in place of a random number of the masks that the model is surest of, as
    decoding by confidence would have decided them by then, so that the loss sees the states which
    decoding meets. Half of the blocks stay as they are. Returns which of `flat` are still masked."""
    h = hidden(ids)
    confidence = head(h.reshape(-1, h.shape[-1])[flat - behind]).float().softmax(-1).amax(-1)
    asked = (sco >= DECIDED).nonzero()[:, 0]
    g = group[asked]
    order = (g.double() * 2 + (1 - confidence[asked].double())).argsort()
    g, asked = g[order], asked[order]
    _, inverse, count = torch.unique_consecutive(g, return_inverse=True, return_counts=True)
    rank = torch.arange(len(g)) - (count.cumsum(0) - count)[inverse]
    share = torch.rand(len(count), generator=rng) * (torch.rand(len(count), generator=rng) < 0.5)
    decided = asked[rank < (share * count).floor()[inverse]]
    ids.view(-1)[flat[decided]] = tgt[decided]
    still = torch.ones(len(flat), dtype=torch.bool)
    still[decided] = False
    return still


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--kind", choices=["llada", "sdar", "ar", "dream", "llada2", "fdv2"], required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--tokenizer", required=True, help="folder with llada.json and qwen.json")
    ap.add_argument("--exclude", required=True, help="folder with the held-out *.jsonl")
    budget = ap.add_mutually_exclusive_group(required=True)
    budget.add_argument("--minutes", type=float, help="budget of the schedule in minutes of processor time")
    budget.add_argument("--tokens", type=float, help="budget of the schedule in millions of tokens: what a training "
                        "learns does not depend on the machine's speed")
    ap.add_argument("--init", help="checkpoint whose weights are the start")
    ap.add_argument("--resume", action="store_true")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--adam-lr", type=float, default=4e-3)
    ap.add_argument("--flat", type=float, default=0.5)
    ap.add_argument("--budget", type=int, default=4096, help="tokens in a batch")
    ap.add_argument("--progress0", type=float, default=0.0, help="curriculum starts here")
    ap.add_argument("--copy", type=float, default=0.5, help="early share of copying sequences")
    ap.add_argument("--drills", type=float, default=0.0,
                    help="share of arithmetic drills among the other sequences")
    ap.add_argument("--long", type=float, default=0.0,
                    help="share of retrieval and summary contexts of 200 to 2000 tokens")
    ap.add_argument("--parallel", type=float, default=0.0,
                    help="share of the tasks of parallel.py among the sequences with a task")
    ap.add_argument("--ranked-from", type=float, default=0.3,
                    help="progress from which masks follow the model's own confidence")
    ap.add_argument("--block", default="32", help="block length (sdar, llada2, fdv2); of several, separated by "
                    "commas, every item draws one and the first is the exported model's")
    a = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(a.seed)
    torch._dynamo.config.cache_size_limit = 64
    os.makedirs(a.out, exist_ok=True)
    last = os.path.join(a.out, "last.pt")
    start = last if a.resume and os.path.exists(last) else a.init
    saved = torch.load(start) if start else {}
    blocks = [int(b) for b in a.block.split(",")]
    cfg = make_config(a.kind, saved.get("layers", 5), blocks[0])
    model = Model(cfg)
    def is_matrix(name, p):
        return p.dim() == 2 and "layers" in name and "router" not in name
    matrices = [p for n, p in model.named_parameters() if is_matrix(n, p)]
    others = [p for n, p in model.named_parameters() if not is_matrix(n, p)]
    routers = [layer.experts for layer in model.layers if layer.experts is not None]
    muon = Muon(matrices)
    adam = torch.optim.AdamW(others, lr=a.adam_lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    step, tokens, elapsed, run = 0, 0, 0.0, 0
    if saved:
        model.load_state_dict(saved["model"])
    if start == last:
        muon.buf = saved["muon"]
        adam.load_state_dict(saved["adam"])
        step, tokens = saved["step"], saved["tokens"]
        elapsed, run = saved["elapsed"], saved["run"] + 1
    path = os.path.join(a.tokenizer, "llada.json" if a.kind == "llada" else "qwen.json")
    batcher = Batcher("sdar" if cfg.in_blocks else a.kind, Codec(path, a.kind), a.seed + 1000 * (run + 1),
                      excluded_hashes(a.exclude), a.budget, a.copy, a.drills, a.long, blocks, a.parallel,
                      a.kind == "fdv2")
    precision = product_type()
    chance = torch.Generator().manual_seed(a.seed + 77 * (run + 1))
    hidden = torch.compile(model.hidden, dynamic=False)
    log = open(os.path.join(a.out, "log.txt"), "a", encoding="utf-8")
    begin = time.process_time() - elapsed
    names = batcher.names
    hit, seen = torch.zeros(len(names)), torch.zeros(len(names))
    loss_sum, loss_n, log_at, save_at, log_tokens = 0.0, 0, time.time(), time.time(), tokens

    def checkpoint():
        save(last, {"model": model.state_dict(), "muon": muon.buf, "adam": adam.state_dict(),
                    "step": step, "tokens": tokens, "elapsed": time.process_time() - begin, "run": run,
                    "kind": a.kind, "layers": cfg.layers, "block": cfg.block})

    while True:
        p = tokens / (a.tokens * 1e6) if a.tokens else (time.process_time() - begin) / (a.minutes * 60)
        if p >= 1:
            break
        ids, keys, (flat, tgt, wgt, sco, fam) = batcher.batch(max(p, a.progress0))
        n = ids.shape[1]
        mask, position = None, None
        if a.kind in ("llada", "dream"):
            mask = keys[:, None, None, :]
        elif cfg.in_blocks:
            position, block, segment = keys
            mask, keys = copies_mask(block, segment), segment >= 0
        run_hidden = hidden if n <= 320 else model.hidden
        behind = 1 if a.kind == "dream" else 0  # the row that predicts a token is the one before it
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision is torch.bfloat16):
            if a.kind != "ar" and p > a.ranked_from and n <= 320:
                group = flat // n
                if cfg.in_blocks:
                    group = group * 64 + segment.reshape(-1)[flat]
                still = decide_surest(lambda x: run_hidden(x, mask, position), model.head, ids, flat,
                                      tgt, sco, group, chance, behind)
                flat, tgt, wgt, sco, fam = (x[still] for x in (flat, tgt, wgt, sco, fam))
            h = run_hidden(ids, mask, position)
            logits = model.head(h.reshape(-1, cfg.dim)[flat - behind]).float()
        loss = (F.cross_entropy(logits, tgt, reduction="none") * wgt).sum() / wgt.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        scale = schedule(p, step, a.flat, WARM_STEPS)
        muon.step(a.lr * scale)
        for g in adam.param_groups:
            g["lr"] = a.adam_lr * scale
        adam.step()
        for experts in routers:
            experts.balance(0.002 * scale)
        for q in model.parameters():
            q.grad = None
        step += 1
        tokens += int(keys.sum())
        scored = sco == SCORED
        ok = (logits.argmax(-1) == tgt)[scored].float()
        hit.index_add_(0, fam[scored], ok)
        seen.index_add_(0, fam[scored], torch.ones_like(ok))
        loss_sum, loss_n = loss_sum + loss.item(), loss_n + 1
        now = time.time()
        if now - log_at > 60:
            acc = " ".join(f"{m[:6]}={100 * h / max(1, s):.1f}"
                           for m, h, s in zip(names, hit.tolist(), seen.tolist()))
            line = (f"{time.strftime('%H:%M:%S')} p={p:.3f} step={step} tok={tokens / 1e6:.2f}M "
                    f"tok/s={(tokens - log_tokens) / (now - log_at):.0f} "
                    f"loss={loss_sum / loss_n:.4f} | {acc}")
            print(line, flush=True)
            log.write(line + "\n")
            log.flush()
            hit.zero_()
            seen.zero_()
            loss_sum, loss_n, log_at, log_tokens = 0.0, 0, now, tokens
        if now - save_at > 150:
            checkpoint()
            save_at = now
    checkpoint()
    print("done", step, tokens)


if __name__ == "__main__":
    main()
