# SPDX-License-Identifier: Apache-2.0
"""Drives the `unmask` program: timed runs, and token-exact replay of recorded decoding runs."""
import glob
import json
import os
import shutil
import subprocess

# `unmask_golden` names its files after the loop that was recorded.
GOLDEN_FILE = {"vanilla": "vanilla_llada"}
# Settings that recorded runs spell differently or cannot leave out.
GOLDEN_PARAMS = {"sparse_d": {"pattern_scale": "sqrt(n_heads)"}}


def toml_value(value):
    return json.dumps(value)  # strings, numbers and booleans are written alike


class Unmask:
    def __init__(self, program, threads, weight_format="f32"):
        self.program = os.path.abspath(program)
        self.format = weight_format
        self.environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        listed = self.call("list", "methods")
        self.methods = {line.split()[0] for line in listed.splitlines() if line.startswith("  ")}

    def call(self, *arguments, accept=(0,), program=""):
        done = subprocess.run([program or self.program, *arguments], env=self.environment, text=True,
                              capture_output=True)
        if done.returncode not in accept:
            raise RuntimeError(f"{done.args[0]} {' '.join(arguments)} ended with {done.returncode}:\n"
                               f"{done.stdout}{done.stderr}")
        return done.stdout + (done.stderr if done.returncode else "")

    def run(self, folder, model, items_file, label, method, settings, warmup=1):
        """One timed pass over the items after `warmup` others: (row, samples), as Unmask wrote
        them. `folder` is emptied of earlier results of the same label."""
        out = os.path.join(folder, "unmask_run")
        shutil.rmtree(out, ignore_errors=True)
        params = {k: v for k, v in settings.items() if k != "gen_length"}
        spec = os.path.join(folder, "run.toml")
        with open(spec, "w", encoding="utf-8") as f:
            f.write(f'title = "peer"\n[run]\nbatch_size = 1\nwarmup = {warmup}\n'
                    f'repetitions.min = 1\nrepetitions.max = 1\nformat = {toml_value(self.format)}\n'
                    f"[[model]]\npath = {toml_value(os.path.abspath(model))}\n"
                    f"[[workload]]\nfile = {toml_value(os.path.abspath(items_file))}\n"
                    f"[[method]]\nname = {toml_value(method)}\nlabel = {toml_value(label)}\n")
            for key, value in params.items():
                f.write(f"params.{key} = {toml_value(value)}\n")
        self.call("run", spec, "-o", out, "--fresh", "--samples", "--no-progress")
        rows, samples = [], []
        for lines, pattern in ((rows, "*.jsonl"), (samples, "samples/*/samples_*.jsonl")):
            for path in sorted(glob.glob(os.path.join(glob.escape(out), pattern))):
                with open(path, encoding="utf-8") as f:
                    lines.extend(json.loads(line) for line in f if line.strip())
        return rows[-1], {s["item"]: s["output"] for s in samples}

    def replay(self, folder, model, method, settings, runs):
        """Lets `unmask_golden` repeat recorded runs [(id, prompt ids, output ids, forwards)] and
        compare rows, positions and input ids of every forward, and the output. Returns the list of
        its complaints, or None where it cannot replay this method."""
        base = os.path.join(folder, "replay")
        os.makedirs(os.path.join(base, "models"), exist_ok=True)
        os.makedirs(os.path.join(base, "decode"), exist_ok=True)
        link = os.path.join(base, "models", "model")
        if os.path.islink(link):
            os.remove(link)
        os.symlink(os.path.abspath(model), link)
        stem = GOLDEN_FILE.get(method, method)
        params = settings | GOLDEN_PARAMS.get(method, {})
        path = os.path.join(base, "decode", stem + ".jsonl")
        with open(path, "w", encoding="utf-8") as f:
            for name, prompt, output, forwards in runs:
                f.write(json.dumps({"id": name, "model": "model", "method": stem,
                                    "params": params, "prompt_ids": prompt,
                                    "output_ids": output, "nfe": len(forwards),
                                    "forwards": forwards}) + "\n")
        beside = os.path.join(os.path.dirname(self.program), "unmask_golden")
        lines = self.call(base, "--method", stem, accept=(0, 1), program=beside).splitlines()
        os.remove(path)
        if any(line.startswith("SKIP") for line in lines):
            return None
        passed = [line for line in lines if line.startswith("PASS")]
        failed = [line.removeprefix("FAIL ") for line in lines if line.startswith("FAIL")]
        if len(passed) + len(failed) != len(runs):
            raise RuntimeError("unmask_golden said something else:\n" + "\n".join(lines))
        return failed
