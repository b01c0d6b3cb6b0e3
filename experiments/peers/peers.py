# SPDX-License-Identifier: Apache-2.0
"""Unmask against plain PyTorch: the same tokens, and how fast each is. See README.md.

  python peers.py proxy   --out RUN/proxy
  python peers.py goldens GOLDEN_DIR
  python peers.py check   --unmask build/bin/unmask --model ../models/tiny-llada
  python peers.py time    --unmask build/bin/unmask --model ../models/tiny-llada --out rows.jsonl
"""
import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time

import torch

from decode import Trace
from llada import load
from methods import METHODS, compared, decode, official_confidence
from recording import record_passes
from table import table
from unmask_program import GOLDEN_FILE, Unmask
from workload import TINY, Text, read_items, sized_item, write_items, write_proxy

TASKS = ["word_problem", "equation", "list_program", "instruction", "retrieval_kv", "story"]


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")),
                    platform.processor())


def goldens(a):
    """Repeats the recorded runs of the official LLaDA code."""
    loaded, bad = {}, 0
    for method in a.method or METHODS:
        path = os.path.join(a.directory, "decode", GOLDEN_FILE.get(method, method) + ".jsonl")
        if not os.path.exists(path):
            print(f"{method}: no recorded runs")
            continue
        with open(path, encoding="utf-8") as f:
            cases = [json.loads(line) for line in f if line.strip()]
        count = skipped = 0
        for case in cases:
            s = {k: v for k, v in case["params"].items() if v is not None}
            other = s.get("factor") or s.get("variant") == "greedy" or s.get("eviction") == "prefix"
            if "logits_shift" in s or other:
                skipped += 1  # Dream, and variants that are not implemented here
                continue
            if case["model"] not in loaded:
                loaded[case["model"]] = load(os.path.join(a.directory, "models", case["model"]))
            s["confidence"] = getattr(torch, s["confidence_dtype"])
            if s.get("pooling") == "none":
                s["kernel_size"] = 0
            trace = Trace()
            out = decode(loaded[case["model"]], case["prompt_ids"], method, s, trace)
            same = out == case["output_ids"] and len(trace.forwards) == case["nfe"] and all(
                ours["pos"] == theirs["pos"] and ours["ids"] == theirs.get("ids", ours["ids"])
                for ours, theirs in zip(trace.forwards, case["forwards"]))
            count += 1
            if not same:
                bad += 1
                print(f"{method}: {case['id']} DIFFERS")
        print(f"{method}: {count} recorded runs repeated, {skipped} out of scope")
    return 1 if bad else 0


class Comparison:
    """One model, one list of items, both sides."""

    def __init__(self, a, folder):
        torch.set_num_threads(a.threads)
        self.model_path, self.folder = a.model, folder
        self.more = {"every_row": True} if a.head == "all" else {}
        self.unmask = Unmask(a.unmask, a.threads, getattr(a, "format", "f32"))
        self.model = load(a.model)
        self.text = Text(a.model)
        if a.prompt_tokens > 0:
            self.items = [sized_item(self.text, a.prompt_tokens, a.gen_length)]
        else:
            self.items = read_items(a.task or TASKS, a.limit, a.gen_length)
        self.items_file = os.path.join(folder, "items.jsonl")
        write_items(self.items, self.items_file)
        self.prompts = [self.text.prompt_ids(item["prompt"]) for item in self.items]
        self.canvas_tokens = sum(item["gen_length"] for item in self.items)
        chosen = compared(self.model.config, a.gen_length, a.block_length)
        if a.method:
            chosen = [c for c in chosen if c[1] in a.method]
        self.chosen = []
        for label, method, settings in chosen:
            if method in self.unmask.methods:
                self.chosen.append((label, method, settings))
            else:
                print(f"{label}: this build of unmask has no method {method}", file=sys.stderr)

    def torch_pass(self, method, settings):
        start = time.perf_counter()
        outputs = [decode(self.model, p, method, settings | self.more) for p in self.prompts]
        return time.perf_counter() - start, outputs

    def unmask_pass(self, label, method, settings, warmup):
        row, answers = self.unmask.run(self.folder, self.model_path, self.items_file, label, method,
                                       settings, warmup)
        if row["verdict"] not in ("PASS", "NOT_VERIFIED"):
            raise RuntimeError(f"{label}: {row['verdict']}: {row['reason']}")
        prompt_tokens = sum(map(len, self.prompts))
        if row["metrics"]["prompt_tokens"] != prompt_tokens:
            raise RuntimeError(f"{label}: unmask saw {row['metrics']['prompt_tokens']} prompt "
                               f"tokens, PyTorch {prompt_tokens}")
        return row, answers

    def different_answers(self, outputs, answers):
        return [item["id"] for item, ids in zip(self.items, outputs)
                if self.text.answer(ids) != answers[item["id"]]]


def check(a):
    with tempfile.TemporaryDirectory() as folder:
        c = Comparison(a, folder)
        bad = 0
        for label, method, settings in c.chosen:
            confidence = ({"confidence": official_confidence(method)} if a.official_confidence
                          else {})
            runs = []
            for item, prompt in zip(c.items, c.prompts):
                trace = Trace()
                output = decode(c.model, prompt, method, settings | confidence | c.more, trace)
                runs.append((item["id"], prompt, output, trace.forwards))
            complaints = c.unmask.replay(folder, a.model, method, settings, runs)
            how = "tokens, forwards, rows"
            if complaints is None:
                how = "answer text and number of forwards"
                row, answers = c.unmask_pass(label, method, settings, 0)
                complaints = c.different_answers([r[2] for r in runs], answers)
                ours, theirs = sum(len(r[3]) for r in runs), row["metrics"]["nfe"]
                if ours != theirs:
                    complaints.append(f"{theirs} forwards, PyTorch {ours}")
            bad += len(complaints) > 0
            print(f"{label}: {len(runs)} prompts, {how}: "
                  f"{'equal' if not complaints else f'{len(complaints)} DIFFER'}", flush=True)
            for complaint in complaints[:3]:
                print("    " + complaint)
    return 1 if bad else 0


def measure(c, a, label, method, settings):
    torch_seconds, unmask_seconds, row, outputs, answers = [], [], None, None, None
    for repeat in range(a.repeats):
        for side in ("torch", "unmask") if repeat % 2 == 0 else ("unmask", "torch"):
            if side == "torch":
                for _ in range(a.warmup):  # like the other side, which starts anew
                    c.torch_pass(method, settings)
                seconds, outputs = c.torch_pass(method, settings)
                torch_seconds.append(seconds)
            else:
                row, answers = c.unmask_pass(label, method, settings, a.warmup)
                unmask_seconds.append(row["samples"]["seconds"][0])
    if a.record:
        record_passes(a.record, c, label, method, settings, row, a.repeats)
    ratios = [t / u for t, u in zip(torch_seconds, unmask_seconds)]
    return {
        "label": label, "method": method, "params": settings,
        "model": row["model"]["name"], "parameters": row["model"]["parameters"],
        "prompts": len(c.items), "prompt_tokens": sum(map(len, c.prompts)),
        "canvas_tokens": c.canvas_tokens, "nfe": row["metrics"]["nfe"],
        "torch_tokens_per_second": c.canvas_tokens / statistics.median(torch_seconds),
        "unmask_tokens_per_second": c.canvas_tokens / statistics.median(unmask_seconds),
        "ratio_median": statistics.median(ratios), "ratio_min": min(ratios),
        "ratio_of_best": min(torch_seconds) / min(unmask_seconds),
        "torch_seconds": torch_seconds, "unmask_seconds": unmask_seconds,
        "answers_differ": c.different_answers(outputs, answers),
        "head": a.head, "format": a.format, "threads": a.threads, "affinity": sorted(os.sched_getaffinity(0)),
        "cpu": cpu_name(),
        "load_average": os.getloadavg()[0],
        "versions": {"torch": torch.__version__, "python": platform.python_version(),
                     "unmask": row["source_hash"]}}


def measure_all(a):
    with tempfile.TemporaryDirectory() as folder:
        c = Comparison(a, folder)
        rows = []
        for label, method, settings in c.chosen:
            row = measure(c, a, label, method, settings)
            rows.append(row)
            print(f"{label}: ratio {row['ratio_median']:.2f}", file=sys.stderr, flush=True)
            if a.out:
                with open(a.out, "a", encoding="utf-8") as f:
                    f.write(json.dumps(row) + "\n")
    print(table(rows))
    if rows:
        r = rows[0]
        print(f"\n{r['cpu']}, {r['threads']} thread(s), PyTorch {r['versions']['torch']}, Unmask "
              f"{r['versions']['unmask']}, {r['format']} weights, logits of {r['head']} rows, {a.repeats} interleaved "
              f"repeats, {r['prompts']} prompt(s) of {r['prompt_tokens']} tokens in "
              f"all, {r['canvas_tokens']} generated")
    slow = [r["label"] for r in rows if r["ratio_median"] < a.bar]
    if slow:
        print(f"below {a.bar}: {', '.join(slow)}")
    return 1 if slow or any(r["answers_differ"] for r in rows) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("proxy", help="write a model with random weights")
    p.add_argument("--out", required=True)
    for name, default in (("layers", 12), ("dim", 768), ("heads", 12), ("hidden", 2048),
                          ("seed", 0)):
        p.add_argument("--" + name, type=int, default=default)
    g = commands.add_parser("goldens", help="repeat recorded runs of the official code")
    g.add_argument("directory")
    g.add_argument("--method", action="append")
    for name, what in (("check", "do both sides choose the same tokens"), ("time", "how fast")):
        p = commands.add_parser(name, help=what)
        p.add_argument("--unmask", required=True, help="the program")
        p.add_argument("--model", default=TINY, help="folder in Hugging Face layout")
        p.add_argument("--method", action="append", help="only this one (repeatable)")
        p.add_argument("--task", action="append", help="family in experiments/data, or a file")
        p.add_argument("--limit", type=int, default=3 if name == "check" else 1,
                       help="items of each task")
        p.add_argument("--prompt-tokens", type=int, default=0,
                       help="one prompt of exactly so many tokens instead of the tasks")
        p.add_argument("--gen-length", type=int, default=64)
        p.add_argument("--block-length", type=int, default=32)
        p.add_argument("--threads", type=int, default=1)
        p.add_argument("--head", choices=("candidates", "all"), default="candidates",
                       help="rows of a forward that PyTorch computes logits of: those that can be "
                       "decided, or all as the official loops do")
        if name == "check":
            p.add_argument("--official-confidence", action="store_true",
                           help="rank by the softmax dtype of the official code")
        else:
            p.add_argument("--repeats", type=int, default=5)
            p.add_argument("--warmup", type=int, default=1,
                           help="untimed passes of a side before every sample")
            p.add_argument("--format", choices=("f32", "bf16", "int8"), default="f32",
                           help="of Unmask's packed weights; PyTorch always has float32, so that "
                           "others are faster for another reason, and may answer otherwise")
            p.add_argument("--bar", type=float, default=0.0, help="fail below this median ratio")
            p.add_argument("--out", help="file that JSON rows are appended to")
            p.add_argument("--record", default="", metavar="DIR",
                           help="also time PyTorch once more, as rows and trajectories in Unmask's "
                           "own formats, with Unmask's row beside them")
    a = parser.parse_args()
    if a.command == "proxy":
        write_proxy(a.out, a.layers, a.dim, a.heads, a.hidden, a.seed)
        return 0
    return {"goldens": goldens, "check": check, "time": measure_all}[a.command](a)


if __name__ == "__main__":
    sys.exit(main())
