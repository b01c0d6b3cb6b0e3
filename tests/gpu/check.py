#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The GPU check: everything that only a GPU can tell, in one command and under ten minutes.

Stages run one after the other, each under its own time limit and with its own log; one that fails
or hangs stops nothing, one whose program or input is not there says NOT RUN and why. Everything
lands in one folder:

  stages.jsonl      one line a stage: name, status (OK, FAILED, TIMEOUT, NOT RUN), seconds, reason
  environment.json  `unmask doctor --json`
  *.log             what each stage printed
  rows/, *.jsonl    what they measured
  summary.md        the table, with measured values as fractions of measured limits

Exit code: 0 when no stage FAILED or ran out of time (also without a GPU), else 1; 2 usage.
"""

import argparse
import dataclasses
import glob
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import time

import pack as packing  # beside this file

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHAPES = ["llada-8b", "dream-7b", "sdar-8b", "llada2-mini"]
# Layers of a timed step: enough to be in the steady state, few enough to fit the time.
STEP_LAYERS = 4
# Who launches a layer's kernels: the ways to compare.
# `unmask profile` uses no graphs unless told to, so each way says.
WAYS = [("as shipped", ["UNMASK_CUDA_GRAPHS=on"]), ("no graphs", ["UNMASK_CUDA_GRAPHS=off"])]
SANITIZERS = ["memcheck", "racecheck", "initcheck", "synccheck"]


class NotRun(Exception):
    """The stage cannot run here; the sentence says what it needs."""


class Failed(Exception):
    """The stage ran and something is wrong."""


@dataclasses.dataclass
class Settings:
    build: str        # folder with bin/
    results: str
    goldens: str = ""
    budget: float = 570.0  # seconds for everything
    gpu: bool = True
    problem: str = ""      # why there is no GPU


class Check:
    def __init__(self, settings):
        self.settings = settings
        self.start = time.monotonic()
        self.records = []
        os.makedirs(settings.results, exist_ok=True)

    def left(self):
        return self.settings.budget - (time.monotonic() - self.start)

    # ---- running programs -----------------------------------------------------------------------

    def program(self, name):
        path = os.path.join(self.settings.build, "bin", name)
        if not os.access(path, os.X_OK):
            raise NotRun(f"needs {name}, which this build does not have")
        return path

    @staticmethod
    def tool(name):
        path = shutil.which(name)
        if path is None:
            candidates = sorted(glob.glob(f"/usr/local/cuda*/bin/{name}"))
            if not candidates:
                raise NotRun(f"needs {name} on PATH")
            path = candidates[0]
        return path

    def run(self, command, log, limit, output=None, allowed=(0,)):
        """Runs a command in a process group of its own; kills all of it at the limit. Output goes to
        the log, standard output to `output` where one is named. Returns the exit code."""
        log.write("$ " + " ".join(command) + "\n")
        log.flush()
        out = open(output, "wb") if output else log
        try:
            process = subprocess.Popen(command, stdout=out, stderr=log, stdin=subprocess.DEVNULL,
                                       cwd=ROOT, start_new_session=True)
            try:
                code = process.wait(timeout=max(limit, 0.1))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        finally:
            if output:
                out.close()
        if code not in allowed:
            raise Failed(f"{os.path.basename(command[0])} ended with {code}")
        return code

    def text_of(self, command, limit=20):
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=ROOT,
                              stdin=subprocess.DEVNULL, check=False)
        return done.returncode, done.stdout

    def path(self, name):
        return os.path.join(self.settings.results, name)

    # ---- bookkeeping ----------------------------------------------------------------------------

    def stage(self, name, limit, work, needs_gpu=True):
        begin = time.monotonic()
        status, reason = "OK", ""
        limit = min(limit, self.left())
        log_name = self.path(name.replace(" ", "-") + ".log")
        with open(log_name, "a", encoding="utf-8") as log:
            try:
                if needs_gpu and not self.settings.gpu:
                    raise NotRun("needs a GPU")
                if limit < 1:
                    raise NotRun(f"the {self.settings.budget:.0f} s for the whole check are used up")
                reason = work(log, limit) or ""
            except NotRun as why:
                status, reason = "NOT RUN", str(why)
            except Failed as why:
                status, reason = "FAILED", str(why)
            except subprocess.TimeoutExpired:
                status, reason = "TIMEOUT", f"killed after {limit:.0f} s"
            except Exception as why:  # pylint: disable=broad-except
                # A fault of this script must not cost the stages that follow.
                status, reason = "FAILED", f"{type(why).__name__}: {why}"
            log.write(f"{status} {reason}\n")
        record = {"stage": name, "status": status,
                  "seconds": round(time.monotonic() - begin, 3), "reason": reason,
                  "log": os.path.basename(log_name)}
        self.records.append(record)
        with open(self.path("stages.jsonl"), "a", encoding="utf-8") as out:
            out.write(json.dumps(record) + "\n")
            out.flush()
            os.fsync(out.fileno())
        print(f"{status:8} {name:24} {record['seconds']:7.1f} s  {reason}", flush=True)


def gpu_problem():
    """Empty when there is a GPU, else the sentence that says why not."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return "no GPU: nvidia-smi is not on PATH"
    try:
        done = subprocess.run([smi, "-L"], capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return "no GPU: nvidia-smi does not answer"
    if done.returncode != 0 or "GPU" not in done.stdout:
        text = (done.stdout + done.stderr).strip().split("\n")[0]
        return f"no GPU: nvidia-smi says '{text}'"
    return ""


def json_lines(path):
    rows = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as text:
            for line in text:
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    pass  # torn by a kill
    return rows


def built_with_cuda(check):
    """Environment of the program; NotRun when it has no CUDA backend."""
    code, text = check.text_of([check.program("unmask"), "doctor", "--json"], 60)
    if code != 0:
        raise Failed(f"unmask doctor ended with {code}")
    return json.loads(text)


def cuda_runs(check, log, limit):
    """One tiny decode on the device, so that later stages report NOT RUN and not FAILED where the
    backend is not in this build."""
    command = [check.program("unmask"), "profile", "experiments/models/tiny-llada", "--device",
               "cuda", "--tool", "nvtx", "--limit", "1", "--repetitions", "1", "-o",
               check.path("first-decode")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=ROOT,
                          stdin=subprocess.DEVNULL, check=False)
    text = done.stdout + done.stderr
    log.write(text)
    absent = re.search(r"[^\n]*(has no kernels in this build|built without CUDA|on the CPU instead)", text)
    if absent:
        raise NotRun(f"needs the CUDA backend: {absent.group(0).strip()}")
    if done.returncode != 0:
        raise Failed(f"a tiny decode ended with {done.returncode}")


def gtest_cases(check, binary, pattern):
    code, text = check.text_of([check.program(binary), "--gtest_list_tests",
                                f"--gtest_filter={pattern}"], 60)
    if code != 0:
        raise Failed(f"{binary} cannot list its tests ({code})")
    return [line for line in text.split("\n") if line.startswith("  ")]


# ---- stages -------------------------------------------------------------------------------------

def stage_environment(check):
    def work(log, limit):
        reason = ""
        try:
            machine = built_with_cuda(check)
            with open(check.path("environment.json"), "w", encoding="utf-8") as out:
                json.dump(machine, out, indent=1)
            if check.settings.gpu and not machine["gpus"]:
                # The driver may be there and yet too old, or not for this process.
                notes = [n for n in machine["notes"] if n.startswith("no GPU")]
                check.settings.gpu = False
                reason = check.settings.problem = (notes or ["no GPU: unmask sees none"])[0]
        except NotRun:
            reason = "the program is not built: no environment record"
        smi = shutil.which("nvidia-smi")
        if smi:
            check.run([smi, "-q"], log, limit, allowed=range(256))
        return reason
    return work


def stage_build(check):
    def work(log, limit):
        folder = os.path.relpath(check.settings.build, ROOT)
        if folder != os.path.join("build", "release"):
            check.program("unmask")  # a build brought along
            return f"taken as it is: {check.settings.build}"
        check.run([os.path.join(ROOT, "dev"), "build", "--preset", "release"], log, limit)
        return ""
    return work


def stage_ceilings(check):
    def work(log, limit):
        out = check.path("ceilings.jsonl")
        check.run([check.program("unmask_ceilings"), str(int(limit * 0.8))], log, limit, output=out)
        end = [r for r in json_lines(out) if r["kind"] == "end"]
        if end and end[0]["left_out"]:
            return f"{end[0]['left_out']} products left out for time"
        return ""
    return work


def stage_operations(check, size):
    """Operations on fresh random inputs, outputs poisoned, against the reference; then the tests
    that were labelled gpu, where there are any."""
    def work(log, limit):
        begin = time.monotonic()
        out = check.path(f"operations-{size}.jsonl")
        code = check.run([check.program("unmask_device_check"), "cuda", size], log, limit,
                         output=out, allowed=(0, 1, 3))
        rows = json_lines(out)
        wrong = sorted({r["operation"] for r in rows if not r["right"]})
        if wrong:
            raise Failed("wrong: " + ", ".join(wrong))
        if code != 0 or not rows:
            raise NotRun("needs the CUDA backend and a GPU; see the log")
        reason = f"{len(rows)} cases, seed {rows[0]['seed']}"
        try:
            ctest = check.tool("ctest")
        except NotRun:
            return reason
        code, text = check.text_of([ctest, "--test-dir", check.settings.build, "-N", "-L", "gpu"],
                                   60)
        if size != "small" or code != 0 or "Total Tests: 0" in text:
            return reason
        check.run([ctest, "--test-dir", check.settings.build, "-L", "gpu", "--output-on-failure"],
                  log, limit - (time.monotonic() - begin))
        return reason + "; " + re.search(r"Total Tests: (\d+)", text).group(1) + " labelled tests"
    return work


def stage_decisions(check):
    """Every embedded model and method of the quickstart on the CPU and on the GPU in float32: the
    same answers, token by token."""
    def work(log, limit):
        begin = time.monotonic()
        answers = {}
        for device in ("cpu", "cuda"):
            folder = check.path(f"decisions-{device}")
            shutil.rmtree(folder, ignore_errors=True)
            check.run([check.program("unmask"), "run", "experiments/quickstart.toml",
                       "--set", f"device={device}", "--set", "format=f32", "-s", "--no-progress", "-o", folder],
                      log, limit - (time.monotonic() - begin))
            points = {r["point_id"]: (r["model"]["name"], r["label"], r["workload"]["family"])
                      for r in json_lines(os.path.join(folder, "rows.jsonl"))}
            for name in glob.glob(os.path.join(folder, "samples_*.jsonl")):
                for s in json_lines(name):
                    answers.setdefault(points[s["point_id"]] + (s["item"],), {})[device] = s["output"]
        both = {k: v for k, v in answers.items() if len(v) == 2}
        differ = sorted(k for k, v in both.items() if v["cpu"] != v["cuda"])
        if not both:
            raise Failed("no answer was decoded on both devices")
        for key in differ:
            log.write(f"differs: {key}\n")
        if differ:
            raise Failed(f"{len(differ)} of {len(both)} answers differ between cpu and cuda")
        return f"{len(both)} answers equal"
    return work


def stage_goldens(check):
    def work(log, limit):
        program, folder = check.program("unmask"), check.settings.goldens
        if not folder:
            folder = check.path("goldens")
            for packed in sorted(glob.glob(os.path.join(ROOT, "tests", "goldens", "*.tar.xz"))):
                with tarfile.open(packed) as archive:
                    archive.extractall(folder)
        if not os.path.isdir(folder):
            raise NotRun(f"{folder} is not a folder of golden data")
        check.run([program, "golden", folder, "--device", "cuda"], log, limit)
    return work


def stage_sanitizer(check, tool):
    def work(log, limit):
        sanitizer = check.tool("compute-sanitizer")
        # 9 tells the tool's finding from an operation that is wrong.
        code = check.run([sanitizer, "--tool", tool, "--error-exitcode", "9",
                          check.program("unmask_device_check"), "cuda", "small", "1"], log, limit,
                         allowed=(0, 3))
        if code == 3:
            raise NotRun("needs the CUDA backend and a GPU; see the log")
    return work


def stage_kernels(check):
    def work(log, limit):
        bench = check.program("unmask_bench")
        code, text = check.text_of([bench, "--benchmark_list_tests", "--benchmark_filter=cuda"], 60)
        if code != 0 or "cuda" not in text:
            raise NotRun("needs benchmarks of the cuda backend; this build has none")
        check.run([bench, "--benchmark_filter=cuda", "--benchmark_out=" + check.path("kernels.json"),
                   "--benchmark_out_format=json"], log, limit)
    return work


def stage_step(check, shape):
    def work(log, limit):
        folder = os.path.join("experiments", "shapes", shape)
        if not os.path.exists(os.path.join(ROOT, folder, "config.json")):
            raise NotRun(f"needs {folder}/config.json")
        check.run([check.program("unmask"), "profile", folder, "--weights", "random:1",
                   "--layers", str(STEP_LAYERS), "--prompt-tokens", "512", "--gen-length", "64",
                   "--limit", "8", "--batch-size", "8", "--device", "cuda", "--format", "bf16",
                   "--tool", "cupti", "--repetitions", "3", "--trace",
                   check.path(f"trace-{shape}.json"), "-o",
                   os.path.join(check.settings.results, "rows", shape)], log, limit)
    return work


def stage_throughput(check):
    def work(log, limit):
        check.run([check.program("unmask"), "run", os.path.join("tests", "gpu", "throughput.toml"),
                   "-o", os.path.join(check.settings.results, "throughput")], log, limit)
    return work


def stage_ways(check):
    """A few layers at a small batch, where launches and waits weigh most, in every way."""
    def work(log, limit):
        end = time.monotonic() + limit
        for name, variables in WAYS:
            check.run(["env", *variables, check.program("unmask"), "profile",
                       os.path.join("experiments", "shapes", "sdar-8b"), "--weights", "random:1",
                       "--layers", str(STEP_LAYERS), "--prompt-tokens", "256",
                       "--gen-length", "64", "--limit", "8", "--batch-size", "4",
                       "--device", "cuda", "--format", "bf16", "--tool", "nvtx",
                       "--method", "block_diffusion", "--method", "focus", "--repetitions", "5",
                       "-o", os.path.join(check.settings.results, "ways",
                                          name.replace(" ", "-"))],
                      log, end - time.monotonic())
    return work


def stage_comparators(check):
    def work(log, limit):
        python = shutil.which("python3") or sys.executable
        out = check.path("comparators.jsonl")
        script = os.path.join(ROOT, "tests", "gpu", "comparators.py")
        if check.run([python, script], log, limit, output=out, allowed=(0, 4)) == 4:
            raise NotRun("needs PyTorch with CUDA")
        rows = json_lines(out)
        missing = sorted({r["reason"] for r in rows if r.get("status") == "NOT RUN"})
        return "; ".join(missing)
    return work


def stage_instructions(check):
    """Which instructions the kernels were compiled to: tensor products, asynchronous copies, and
    spills (local loads and stores)."""
    def work(log, limit):
        dump = check.path("sass.txt")
        check.run([check.tool("cuobjdump"), "--dump-sass", check.program("unmask")], log, limit,
                  output=dump)
        wanted = ["HMMA", "HGMMA", "LDSM", "LDGSTS", "UTMALDG", "LDL", "STL"]
        counts, kernel = {}, None
        with open(dump, encoding="utf-8", errors="replace") as text:
            for line in text:
                found = re.search(r"Function : (\S+)", line)
                if found:
                    kernel = counts.setdefault(found.group(1), dict.fromkeys(wanted, 0))
                elif kernel is not None:
                    for name in wanted:
                        kernel[name] += len(re.findall(rf"\b{name}\b", line))
        os.remove(dump)
        with open(check.path("instructions.json"), "w", encoding="utf-8") as out:
            json.dump(counts, out, indent=1)
        if not counts:
            raise NotRun("the program holds no device code")
        spilling = sum(1 for c in counts.values() if c["LDL"] + c["STL"] > 0)
        return f"{len(counts)} kernels, {spilling} with local memory"
    return work


def stage_nsight(check, tool):
    def work(log, limit):
        check.tool(tool)
        command = [check.program("unmask"), "profile", "experiments/models/tiny-llada", "-m",
                   "fast_dllm", "--device", "cuda", "--limit", "1", "--tool", tool, "-o",
                   check.path(tool)]
        if tool == "ncu":
            command += ["--phase", "attention", "--launch-count", "3"]
        check.run(command, log, limit)
    return work


def stage_host(check):
    """What needs no GPU: that CUPTI's host side plans our counters in one pass for its chips."""
    def work(log, limit):
        cases = gtest_cases(check, "profile_test", "counters/chip*")
        if not cases:
            raise NotRun("needs a build with CUPTI headers")
        check.run([check.program("profile_test"), "--gtest_filter=counters*:correlate*"], log,
                  limit)
        return f"{len(cases)} cases"
    return work


# ---- summary ------------------------------------------------------------------------------------

def ceilings_table(rows):
    copies = [r for r in rows if r["kind"] == "copy"]
    gemms = [r for r in rows if r["kind"] == "gemm" and r["right"]]
    lines = []
    if not copies:
        return lines
    bandwidth = copies[0]["bytes_per_second"]
    lines.append(f"Copy: {bandwidth / 1e9:.0f} GB/s (read plus written, best).")
    if not gemms:
        return lines
    peak = max(g["flops"] / g["seconds"] for g in gemms)
    lines.append(f"Best bf16 product: {peak / 1e12:.0f} TFLOP/s. A product's limit is the larger "
                 "of FLOPs over that and bytes over the copy's rate.")
    lines += ["", "| model | part | M | µs | TFLOP/s | of the limit |", "|---|---|---:|---:|---:|---:|"]
    for g in gemms:
        if g["m"] not in (1, 32, 256, 1024, 8192):
            continue
        least = max(g["flops"] / peak, g["bytes"] / bandwidth)
        lines.append(f"| {g['model']} | {g['part']} | {g['m']} | {g['seconds'] * 1e6:.1f} | "
                     f"{g['flops'] / g['seconds'] / 1e12:.1f} | {least / g['seconds']:.2f} |")
    wrong = [r for r in rows if r["kind"] == "gemm" and not r["right"]]
    if wrong:
        lines.append(f"\n{len(wrong)} products are WRONG and left out of the table.")
    return lines


def step_table(rows, ceilings):
    """Phases of whole steps as fractions of the limits measured in the same check."""
    bandwidth, peak = limits_of(ceilings)
    lines = []
    for row in rows:
        report = row.get("probes", {}).get("phases")
        if not report:
            lines.append(f"\n{row['model']['name']} {row['label']}: {row['verdict']} {row['reason']}")
            continue
        lines += ["", f"**{row['model']['name']} · {row['label']} · batch {row['batch_size']}** "
                  f"(synthetic weights; work {report['provenance']['work']})", "",
                  "| phase | device ms | of the limit |", "|---|---:|---:|"]
        for p in report["phases"]:
            seconds = p.get("device_seconds") or 0
            if p["container"] or seconds == 0:
                continue
            least = 0
            if peak:
                least = p["flops"] / peak
            if bandwidth and p["bytes"]:
                least = max(least, p["bytes"] / bandwidth)
            share = f"{least / seconds:.2f}" if least else "–"
            lines.append(f"| {p['phase']} | {seconds * 1e3:.3f} | {share} |")
        for problem in ("kernels_problem", "counters_problem"):
            if report.get(problem):
                lines.append(f"\n{report[problem]}")
    return lines


def limits_of(ceilings):
    """Best copy rate and best bf16 product of this check: bytes and FLOPs per second, or 0."""
    copies = [r["bytes_per_second"] for r in ceilings if r["kind"] == "copy"]
    gemms = [r["flops"] / r["seconds"] for r in ceilings if r["kind"] == "gemm" and r["right"]]
    return (copies[0] if copies else 0), max(gemms, default=0)


def embedding_size(shape):
    """Elements of a shape's embedding table."""
    with open(os.path.join(ROOT, "experiments", "shapes", shape, "config.json"),
              encoding="utf-8") as file:
        config = json.load(file)
    return config["hidden_size"] * config["vocab_size"]


def throughput_table(rows, ceilings, embedding):
    """Tokens per second and the fraction of the limit: a run takes at least its counted FLOPs over
    the best product's rate, and its forwards' reads of all bf16 weights but the embedding table, of
    which a forward reads single rows, over the copy's."""
    bandwidth, peak = limits_of(ceilings)
    lines = []
    for row in rows:
        metrics = row.get("metrics", {})
        if "tokens_per_second" not in metrics:
            lines.append(f"| {row['label']} | {row['batch_size']} | {row['verdict']} "
                         f"{row['reason']} | – | – |")
            continue
        share = "–"
        if bandwidth and peak:
            weights = (2.0 * (row["model"]["parameters"] - embedding)
                       * metrics["batched_forwards"])
            least = max(metrics["flops"] / peak, weights / bandwidth)
            share = f"{least / metrics['wall_seconds']:.2f}"
        lines.append(f"| {row['label']} | {row['batch_size']} | "
                     f"{metrics['tokens_per_second']:.0f} | {metrics['redundancy']:.2f} | {share} |")
    if lines:
        lines = ["Random weights, two tokens per step by rank: speeds of the shape, not of a model.",
                 "", "| method | places | tok/s | rows per token | of the limit |",
                 "|---|---:|---:|---:|---:|"] + lines
    return lines


def ways_table(results):
    lines = []
    for name, _ in WAYS:
        for row in json_lines(os.path.join(results, "ways", name.replace(" ", "-"), "rows.jsonl")):
            seconds = row.get("samples", {}).get("seconds") or []
            said = f"{statistics.median(seconds) * 1e3:.2f}" if seconds else row["verdict"]
            lines.append(f"| {row['label']} | {name} | {said} |")
    if lines:
        lines = [f"{STEP_LAYERS} layers, 4 places; median of the repetitions.", "",
                 "| method | way | ms |", "|---|---|---:|"] + lines
    return lines


def write_summary(check, headline):
    lines = ["# GPU check", "", headline, "",
             "| stage | status | s | |", "|---|---|---:|---|"]
    for r in check.records:
        lines.append(f"| {r['stage']} | {r['status']} | {r['seconds']:.1f} | {r['reason']} |")
    ceilings = json_lines(check.path("ceilings.jsonl"))
    for title, body in (
            ("Ceilings", ceilings_table(ceilings)),
            ("Steps", step_table(
                [r for f in sorted(glob.glob(os.path.join(check.settings.results, "rows", "*",
                                                          "rows.jsonl")))
                 for r in json_lines(f)], ceilings)),
            ("Throughput", throughput_table(
                json_lines(os.path.join(check.settings.results, "throughput", "rows.jsonl")),
                ceilings, embedding_size("sdar-8b"))),
            ("Graphs and lists", ways_table(check.settings.results)),
            ("Comparators", [
                f"* {r['what']} ({r['by']}): {r['seconds'] * 1e6:.1f} µs"
                for r in json_lines(check.path("comparators.jsonl")) if "seconds" in r])):
        if body:
            lines += ["", f"## {title}", ""] + body
    text = "\n".join(lines) + "\n"
    with open(check.path("summary.md"), "w", encoding="utf-8") as out:
        out.write(text)
    return text


def run_all(check):
    check.stage("build", 240, stage_build(check), needs_gpu=True)
    check.stage("environment", 30, stage_environment(check), needs_gpu=False)
    check.stage("host", 60, stage_host(check), needs_gpu=False)
    check.stage("ceilings", 75, stage_ceilings(check))
    backend = {}

    def first_decode(log, limit):
        backend["reason"] = ""
        try:
            cuda_runs(check, log, limit)
        except NotRun as why:
            backend["reason"] = str(why)
            raise

    check.stage("first decode", 30, first_decode)

    def with_backend(work):
        def guarded(log, limit):
            if backend.get("reason"):
                raise NotRun(backend["reason"])
            return work(log, limit)
        return guarded

    for size in ("small", "large"):
        check.stage(f"operations {size}", 45, stage_operations(check, size))
    check.stage("decisions", 60, with_backend(stage_decisions(check)))
    check.stage("goldens", 60, with_backend(stage_goldens(check)))
    for shape in SHAPES:
        check.stage(f"step {shape}", 60, with_backend(stage_step(check, shape)))
    check.stage("ways", 60, with_backend(stage_ways(check)))
    check.stage("throughput", 150, with_backend(stage_throughput(check)))
    check.stage("kernels", 90, stage_kernels(check))
    check.stage("comparators", 60, stage_comparators(check))
    for tool in SANITIZERS:
        check.stage(f"sanitizer {tool}", 40, stage_sanitizer(check, tool))
    check.stage("instructions", 20, stage_instructions(check))
    for tool in ("nsys", "ncu"):
        check.stage(tool, 40, with_backend(stage_nsight(check, tool)))


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="./dev gpu", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--results", default="", help="folder (default runs/gpu/UTC-TIME)")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"),
                        help="a build to take as it is (default: build the preset release)")
    parser.add_argument("--goldens", default=os.environ.get("UNMASK_GOLDENS", ""),
                        help="outputs of the official implementations (default: tests/goldens)")
    parser.add_argument("--budget", type=float, default=570, help="seconds for everything")
    parser.add_argument("--pack", metavar="FILE.tar.xz",
                        help="write the build with the libraries it loads, for --build on a machine "
                        "where nothing can be built, and stop")
    given = parser.parse_args(arguments)
    if given.pack:
        if given.build == parser.get_default("build"):
            subprocess.run([os.path.join(ROOT, "dev"), "build", "--preset", "release",
                            *packing.PROGRAMS], check=True)
        programs, libraries = packing.pack(os.path.abspath(given.build), given.pack)
        print(f"{given.pack}: {programs} programs, {libraries} libraries, "
              f"{os.path.getsize(given.pack) / 2**20:.1f} MiB")
        return 0
    packing.use_packed_libraries(os.path.abspath(given.build))
    results = given.results or os.path.join(ROOT, "runs", "gpu",
                                            time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    problem = gpu_problem()
    settings = Settings(os.path.abspath(given.build), os.path.abspath(results), given.goldens,
                        given.budget, not problem, problem)
    check = Check(settings)
    if problem:
        print(problem, flush=True)
    run_all(check)
    text = write_summary(check, settings.problem or "Measured on this machine's GPU.")
    print(text if not settings.problem else f"results: {settings.results}")
    failed = [r for r in check.records if r["status"] in ("FAILED", "TIMEOUT")]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
