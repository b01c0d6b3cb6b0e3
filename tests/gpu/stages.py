# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""What the two commands of the GPU check do, in order of value. Each function makes the work of one
stage: work(log, limit) -> sentence. What needs no GPU (SASS, times of the host) is not done here."""

import contextlib
import glob
import json
import os
import re
import shutil
import sys
import tarfile
import time

from roofs import roofs_of
from runner import HERE, ROOT, Failed, NotRun, Partial, json_lines

# Kernels of which there are two, by `run.kernels`: those that no card has decided about and those before them.
# Programs of tests take those before unless this says otherwise; on a GPU and in a rehearsal it always does.
NEW, BEFORE = ({"UNMASK_CUDA_KERNELS": word} for word in ("new", "before"))
OF_TWO_KERNELS = "attention|confidence|gated_linear|moe|experts"
# Operations of the device check whose newer kernels are taken only if the library multiplies.
BESIDE_THE_LIBRARY = "gated_linear|of (few|many) rows"
# Unit tests that run on a GPU: every one with test::for_each_device (check_test.py), and operations in turn.
DEVICE_TESTS = ("device_*:each/operation*:attention*:head*:selection*:model_core*:blocks*:gated_linear*:few_parts*:"
                "folded_product*-device_memory*")
# Kernels that ncu looks at in full: case of the benchmark, the kernel to take, how many launches of it in turn, and
# which of two. Experts launch it twice: for gate and up, and for down.
NCU_CASES = [("attention-refresh", "attention/sequences:1/rows:8192/", "attention_refresh", 1, NEW),
             ("attention-refresh-before", "attention/sequences:1/rows:8192/", "attention_tensor", 1, BEFORE),
             ("head", "confidence/rows:512/.*bits:16", "head_product|head_fold", 1, NEW),
             ("experts", "experts/rows:8192/.*bits:16", "grouped_", 2, NEW),
             ("attention-decode", "attention/sequences:64/rows:32/.*keys:4096", "attention_joined|attention_tensor", 1,
              NEW),
             ("head-before", "confidence/rows:512/.*bits:16", "head_chunk", 1, BEFORE)]
# What profile per method runs: shape, methods and their parameters. Four layers are in the steady
# state; Focus-dLLM keeps its first ones dense, by default more than four. With counters of every phase
# a method takes about 50 s on an H100, so that one has them.
PROFILES = [("sdar-8b", ["focus", "block_diffusion", "optimus"]),
            ("llada-8b", ["sparse_dllm", "focus_dllm dense_layers=1", "fast_dllm", "ada_dlm",
                          "vanilla"]),
            ("llada2-mini", ["block_diffusion", "focus"]),
            ("dream-7b", ["fast_dllm"])]
COUNTED = ("sdar-8b", "focus")
# Whole, for what is idle in a step of full depth: graphs on, no counters, one repetition.
FULL_DEPTH = ("sdar-8b", "focus")
# layers, prompt, answer, requests: of a profile, and of its rehearsal on an embedded model.
PROFILE_SIZE, REHEARSAL_SIZE = (4, 512, 64, 32), (3, 40, 32, 2)
# The same on a GPU in software, where a token takes a tenth of a second to a second: settings of
# decisions and of throughput. Every method, one item, one block of eight tokens: about two minutes a way.
DECISIONS_IN_SOFTWARE = ["limit=1", "gen_length=8", "params.block_length=8"]
EXPERIMENTS_IN_SOFTWARE = ["serve.requests=2", "serve.max_prompt_tokens=16", "serve.max_output_tokens=8",
                           "warmup=0", "repetitions=1"]
PROFILE_IN_SOFTWARE = (3, 16, 8, 1)
# A near-tie may fall the other way where the GPU contracts or rounds otherwise.
ANSWERS_THAT_MAY_DIFFER = 0.02


# ---- both commands ------------------------------------------------------------------------------

def environment(check):
    def work(log, limit):
        said = []
        program = check.program("unmask")
        code, text, problem = check.text_of([program, "doctor", "--json"], limit)
        if code != 0:
            raise Failed(f"unmask doctor ended with {code}: {problem.strip()}")
        machine = json.loads(text)
        with open(check.path("environment.json"), "w", encoding="utf-8") as out:
            json.dump(machine, out, indent=1)
        if check.settings.gpu and not machine["gpus"]:
            # The driver may be there and yet too old, or not for this process.
            notes = [n for n in machine["notes"] if n.startswith("no GPU")]
            check.settings.gpu = False
            check.settings.problem = (notes or ["no GPU: unmask sees none"])[0]
            said.append(check.settings.problem)
        said += [g["name"] for g in machine["gpus"]]
        code, text, _ = check.text_of([program, "doctor", "--libraries", "--experiments-dir", HERE],
                                      limit)
        log.write(text)
        for line in text.split("\n"):
            found = re.match(r"(cublaslt|cudnn|cupti)\s+(.*)", line)
            if found:
                where = found.group(2)
                said.append(f"{found.group(1)}: " +
                            ("not found" if where.startswith("NOT RUN") else where))
        smi = shutil.which("nvidia-smi")
        if smi:
            check.run([smi, "-q"], log, limit, allowed=range(256))
        return "; ".join(said)
    return work


def first_decode(check):
    """A tiny decode in float32 and one in bfloat16, so that later stages report NOT RUN and not
    FAILED where the backend is not in this build."""
    def work(log, limit):
        end = time.monotonic() + limit
        model = "experiments/models/tiny-llada"
        few = ["-n", "8", "--set", "params.block_length=8"]
        small = few if check.settings.rehearse else []
        shorter = few if check.in_software else []
        answer, said = "", check.shorter(log, "eight tokens") if check.in_software else ""
        for command in (
                [check.program("unmask"), "generate", "--model", model, "-m", "fast_dllm",
                 "--device", check.backend, *small, "Compute 3 + 4."],
                [check.program("unmask"), "profile", model, "-m", "fast_dllm", "--device",
                 check.device, "--set", "run.format=bf16", "--tool", "nvtx", "--limit", "1",
                 "--repetitions", "1", *shorter, "-o", check.path("first-decode")]):
            code, text, problem = check.text_of(command, end - time.monotonic())
            log.write("$ " + " ".join(command) + "\n" + text + problem)
            absent = re.search(r"no GPU[^\n]*", text + problem)
            if absent:
                check.reason_without_backend = f"needs the CUDA backend: {absent.group(0).strip()}"
                raise NotRun(check.reason_without_backend)
            if code != 0:
                raise Failed(f"a tiny decode ended with {code}: {' '.join(command[1:])}")
            answer = answer or text.strip().split("\n")[0]
        return answer + said
    return work


# ---- ./dev gpu --first --------------------------------------------------------------------------

def operations(check, size):
    """Operations on fresh random inputs, outputs poisoned, against the reference: all of them, and again those
    that have a kernel from before."""
    emulated = check.settings.rehearse == "emulator"
    # The emulator computes small sizes alone, all of them once. A second stage of them repeats a few.
    few = "bf16 (linear|moe)" if emulated and size == "large" else ""
    sizes = "small" if emulated else size

    def work(log, limit):
        if check.in_software and size == "large":
            raise NotRun("needs a GPU: sizes of real models take hours in software")
        end, timed_out, code, rows = time.monotonic() + limit, None, 0, []
        for out, cases, kernels_of in (
                (f"operations-{size}.jsonl", check.settings.cases or few, NEW),
                (f"operations-{size}-before.jsonl", check.settings.cases or few or OF_TWO_KERNELS, BEFORE)):
            try:
                code = check.run([check.program("unmask_device_check"), check.backend, sizes,
                                  *(["--cases", cases] if cases else [])], log,
                                 end - time.monotonic(), output=check.path(out), allowed=(0, 1, 3), env=kernels_of)
            except Exception as why:  # pylint: disable=broad-except
                timed_out = why  # the rows that were written count
            rows += json_lines(check.path(out))
            if timed_out or code != 0:
                break
        wrong = [r for r in rows if not r["right"]]
        if wrong:
            raise Failed("wrong: " + ", ".join(
                f"{r['operation']} {r['case']} ({r.get('problem') or r['error']})"
                for r in wrong) + f"; seed {wrong[0]['seed']}")
        if timed_out:
            raise timed_out
        if code != 0 or not rows:
            raise NotRun("needs the CUDA backend and a GPU; see the log")
        return f"{len(rows)} cases, seed {rows[0]['seed']}"
    return work


def outcomes_of(out, code):
    """The cases of a test program's report and those of them that were skipped; Failed names what failed."""
    with open(out, encoding="utf-8") as text:
        report = json.load(text)
    cases = [t for s in report["testsuites"] for t in s["testsuite"]]
    failed = [f"{t['classname']}.{t['name']}" for t in cases if t.get("failures")]
    if failed:
        raise Failed(f"{len(failed)} of {len(cases)} failed: " + ", ".join(failed[:6]))
    if code != 0 or not cases:
        raise Failed(f"kernels_test ended with {code} after {len(cases)} tests")
    return cases, [t for t in cases if t.get("result") == "SKIPPED"]


def device_tests(check):
    """The unit tests of the CUDA kernels, tensor-core attention, bfloat16 experts and every
    selection kernel among them, on the GPU and not on its emulation."""
    def work(log, limit):
        out = check.path("device-tests.json")
        # A rehearsal runs a few of them: all are part of the test suite.
        shorter = (check.shorter(log, "experts and selection; ctest -L softgpu runs all")
                   if check.in_software else "")
        chosen = ("device_moe*:each/operation*/top_indices:each/operation*/mark_top"
                  if check.settings.rehearse else DEVICE_TESTS)
        env = {"UNMASK_TEST_DEVICE": "emulated" if check.settings.rehearse == "emulator" else "gpu"}
        if check.settings.rehearse == "software":
            env["UNMASK_SOFTGPU_PAGEABLE"] = "on"  # operands of these tests are ordinary host memory
        code = check.run([check.program("kernels_test"), f"--gtest_filter={chosen}",
                          f"--gtest_output=json:{out}"], log, limit, allowed=(0, 1), env={**env, **NEW})
        cases, skipped = outcomes_of(out, code)
        if len(skipped) == len(cases):
            raise NotRun("needs a GPU that reads ordinary host memory; the stage `operations` "
                         "covers these kernels in device memory")
        return f"{len(cases) - len(skipped)} tests" + (
            f", {len(skipped)} skipped" if skipped else "") + shorter
    return work


@contextlib.contextmanager
def golden_data(check, folder):
    """The folder of golden data; if none is given, that of this tree, unpacked meanwhile."""
    source = folder or check.path("goldens")
    try:
        for packed in () if folder else ("models", "runs"):
            with tarfile.open(os.path.join(ROOT, "tests", "goldens", packed + ".tar.xz")) as file:
                file.extractall(source)
        if not os.path.isdir(source):
            raise NotRun(f"{source} is not a folder of golden data")
        yield source
    finally:
        if not folder:
            shutil.rmtree(source, ignore_errors=True)


def last_line(file):
    with open(file, encoding="utf-8") as text:
        return text.read().strip().split("\n")[-1]


def goldens(check, folder):
    def work(log, limit):
        small = ["--limit", "1", "--max-rows", "120"] if check.settings.rehearse else []
        shorter = (check.shorter(log, "one run a method, of at most 120 rows")
                   if check.in_software else "")
        report = check.path("golden.txt")
        with golden_data(check, folder) as source:
            check.run([check.program("unmask_golden"), source, "--device", check.backend, *small],
                      log, limit, output=report, env=NEW)
        return last_line(report) + shorter
    return work


def started_again(check, name):
    """The words of a program that starts itself for other ranks: a link to a file of several programs names the
    program in its own name, which those do not have."""
    program = check.program(name)
    file = os.path.realpath(program)
    return [program] if os.path.basename(file) == name else [file, name]


def two_gpus(check, folder):
    """Two ranks, each with a GPU of its own: sums by NCCL against their definition, launched and recorded, and
    official runs that both decode together."""
    def work(log, limit):
        end, out = time.monotonic() + limit, check.path("two-gpus.json")
        env = {**NEW, "UNMASK_SOFTGPU_DEVICES": "2"} if check.in_software else NEW
        # Operands of these tests are ordinary host memory.
        pageable = {"UNMASK_SOFTGPU_PAGEABLE": "on"} if check.in_software else {}
        on = "emulated" if check.settings.rehearse == "emulator" else "gpu"
        code = check.run([*started_again(check, "kernels_test"), f"--gtest_filter=on/device_ranks.*/{on}_2",
                          f"--gtest_output=json:{out}"], log, limit, allowed=(0, 1), env={**env, **pageable})
        cases, skipped = outcomes_of(out, code)
        if len(skipped) == len(cases):
            raise NotRun("needs two GPUs")
        shorter = check.shorter(log, "one run of at most 120 rows") if check.in_software else ""
        few = ["--method", "block_diffusion", "--limit", "1", "--max-rows", "120"] if check.settings.rehearse else []
        report = check.path("golden-two-gpus.txt")
        with golden_data(check, folder) as source:
            check.run([*started_again(check, "unmask_golden"), source, "--device", check.backend, "--ranks", "2", *few],
                      log, end - time.monotonic(), output=report, env=env)
        return f"{len(cases) - len(skipped)} tests; {last_line(report)}{shorter}"
    return work


def answers_of(folder):
    points = {r["point_id"]: (r["model"]["name"], r["label"], r["workload"]["family"])
              for r in json_lines(os.path.join(folder, "rows.jsonl"))}
    found = {}
    for name in glob.glob(os.path.join(folder, "samples", "*", "samples_*.jsonl")):
        for s in json_lines(name):
            if s["point_id"] in points:
                found[points[s["point_id"]] + (s["item"],)] = s["output"]
    return found


def decisions(check):
    """Every method on the embedded models in float32: answers of the GPU, with layers recorded as
    graphs and without, token by token those of the CPU."""
    def work(log, limit):
        end = time.monotonic() + limit
        ways = [("cpu", "cpu", "off"), ("graphs-off", check.device, "off"),
                ("graphs-on", check.device, "on")]
        answers, shorter = {}, ""
        fewer = ["limit=1"] if check.settings.rehearse else []
        if check.in_software:
            fewer = DECISIONS_IN_SOFTWARE
            shorter = check.shorter(log, "every method, but one item of eight tokens in a block of eight")
        for name, device, graphs in ways:
            folder = check.path(os.path.join("decisions", name))
            few = [word for s in fewer for word in ("--set", s)]
            check.run([check.program("unmask"), "run", os.path.join("tests", "gpu", "decisions.toml"),
                       "--set", f"device={device}", "--set", f"graphs={graphs}", *few, "-s",
                       "--no-progress", "-o", folder], log, end - time.monotonic())
            answers[name] = answers_of(folder)
        counts = []
        for name in ("graphs-off", "graphs-on"):
            both = sorted(set(answers["cpu"]) & set(answers[name]))
            differ = [k for k in both if answers["cpu"][k] != answers[name][k]]
            for key in differ:
                log.write(f"{name} differs: {key}\n")
            if not both or len(both) < len(answers["cpu"]):
                raise Failed(f"{name}: {len(both)} of {len(answers['cpu'])} answers were decoded")
            counts.append((name, len(differ), len(both)))
        said = ", ".join(f"{n}: {d} of {b} differ from the CPU's" for n, d, b in counts)
        between = sum(answers["graphs-off"][k] != v for k, v in answers["graphs-on"].items())
        if between:
            raise Failed(f"{between} answers differ with recorded layers; {said}")
        if any(d > ANSWERS_THAT_MAY_DIFFER * b for _, d, b in counts):
            raise Failed(said)
        return said + shorter
    return work


def sanitizer(check, tool):
    def work(log, limit):
        end = time.monotonic() + limit
        # 9 tells the tool's finding from an operation that is wrong. No graphs and no trials of
        # library products: the tool would follow each of their thousands of launches. What needs them runs alone.
        chosen, codes = check.settings.cases, []
        beside = f"^(?=.*({chosen})).*({BESIDE_THE_LIBRARY})" if chosen else BESIDE_THE_LIBRARY
        for cases, products in ((beside, "library"), (chosen, "own")):
            code = check.run([*check.tool("compute-sanitizer"), "--tool", tool, "--error-exitcode", "9",
                              check.program("unmask_device_check"), check.backend, "small", "1",
                              *(["--cases", cases] if cases else [])], log,
                             end - time.monotonic(), allowed=(0, 1, 3, 9, *((2,) if chosen else ())),
                             env={"UNMASK_CUDA_GRAPHS": "off", "UNMASK_CUDA_GEMM": products, **NEW})
            codes.append(code)
            if code not in (0, 2):  # 2: it has no such operation
                break
        if codes == [2, 2]:
            raise NotRun(f"needs an operation that --cases {chosen} finds")
        if code == 9:
            raise Failed(f"{tool} found something: see the log")
        if code == 3:
            raise NotRun("needs the CUDA backend and a GPU; see the log")
        if code == 1:
            raise Failed("an operation is wrong under the tool; see the log")
        return "stand-in: nothing was checked" if check.settings.rehearse else ""
    return work


# ---- ./dev gpu --measure ------------------------------------------------------------------------

def ceilings(check):
    def work(log, limit):
        if check.settings.rehearse == "emulator":
            raise NotRun("needs a GPU: a ceiling is a time")
        # A GPU in software has no times: the page must not take its figures for ceilings.
        out = check.path("ceilings-in-software.jsonl" if check.in_software else "ceilings.jsonl")
        shorter = check.shorter(log, "products of 8 x 64 x 64, no copy") if check.in_software else ""
        check.run([check.program("unmask_ceilings"), str(int(limit * 0.8)), check.settings.cases], log,
                  limit, output=out, env={"UNMASK_BENCH_SMALL": "1" if check.in_software else ""})
        rows = json_lines(out)
        end = [r for r in rows if r["kind"] == "end"]
        if end and end[0]["left_out"]:
            raise Partial(f"{end[0]['left_out']} products left out for time")
        loaded = sum(r["kind"] == "loaded_gemm" for r in rows)
        return f"{len(rows) - 1} products and copies, {loaded} of them under load{shorter}"
    return work


def bench_environment(check, rows, kernels_of=NEW):  # pylint: disable=dangerous-default-value
    return {"UNMASK_BENCH_ROWS": rows, "UNMASK_BENCH_SMALL": "1" if check.in_software else "",
            "UNMASK_BENCH_EMULATED": "1" if check.settings.rehearse == "emulator" else "", **kernels_of}


def kernels(check):
    def work(log, limit):
        out = check.path("kernels.jsonl")
        prefix = "emulated_" if check.settings.rehearse == "emulator" else "cuda_"
        bench, env = check.program("unmask_bench"), bench_environment(check, out)
        shorter = check.shorter(log, "smallest sizes, one call each") if check.in_software else ""
        chosen = f"^{prefix}.*({check.settings.cases})" if check.settings.cases else prefix
        listed = check.text_of([bench, "--benchmark_list_tests", f"--benchmark_filter={chosen}"], 60,
                               env)[1]
        cases = [line for line in listed.split("\n") if line.startswith(prefix)]
        if not cases and check.settings.cases:
            raise NotRun(f"needs a case that --cases {check.settings.cases} finds")
        if not cases:
            raise NotRun("needs benchmarks of the cuda backend; this build has none")
        check.run([bench, f"--benchmark_filter={chosen}"], log, limit, env=env)
        measured = {r["name"] for r in json_lines(out) if not r.get("error")}
        if len(measured) < len(cases):
            raise Partial(f"{len(measured)} of {len(cases)} cases")
        return f"{len(measured)} cases{shorter}"
    return work


def once_more(check, name, cases, environment_of):
    """Cases of the stage kernels by others: what those gain, or that they do not."""
    def work(log, limit):
        first = {r["name"]: r for r in json_lines(check.path("kernels.jsonl")) if not r.get("error")}
        out = check.path(f"kernels-{name}.jsonl")
        prefix = "emulated_" if check.settings.rehearse == "emulator" else "cuda_"
        check.run([check.program("unmask_bench"), f"--benchmark_filter=^{prefix}({cases})"], log, limit,
                  env={**bench_environment(check, out), **environment_of})
        times = sorted(r["median_us"] / first[r["name"]]["median_us"] for r in json_lines(out)
                       if r["name"] in first and not r.get("error"))
        if not times:
            raise NotRun(f"needs cases of {cases} in the stage kernels")
        return (f"{len(times)} cases take {times[0]:.2f} to {times[-1]:.2f} times as long, "
                f"{times[len(times) // 2]:.2f} in the median")
    return work


def by_mma_sync(check):
    return once_more(check, "mma-sync", "attention", {"UNMASK_CUDA_WGMMA": "off"})


def by_those_before(check):
    return once_more(check, "before", OF_TWO_KERNELS, BEFORE)


def prediction(check):
    """What the cost model expects of the same cases, by the ceilings that were measured just now."""
    def work(log, limit):
        names = [r["name"] for r in json_lines(check.path("kernels.jsonl"))]
        if not names:
            raise NotRun("needs the stage kernels")
        machine = check.path("environment.json")
        gpu = "h100"
        if os.path.exists(machine):
            with open(machine, encoding="utf-8") as text:
                found = [g["name"].lower() for g in json.load(text)["gpus"]]
            gpu = next((n for n in ("h200", "h100", "a100") if found and n in found[0]), "h100")
        roofs = roofs_of(json_lines(check.path("ceilings.jsonl")))
        with open(check.path("cases.txt"), "w", encoding="utf-8") as out:
            out.writelines(n + "\n" for n in names)
        check.run(["sh", "-c", f'exec "$0" "$@" < "{check.path("cases.txt")}"',
                   check.program("unmask_predict"), gpu,
                   *(f"{r:.6g}" for r in (roofs.products, roofs.copy, roofs.reads))], log, limit,
                  output=check.path("prediction.jsonl"))
        rows = json_lines(check.path("prediction.jsonl"))
        if not rows:
            raise Failed("the model expects nothing of these cases")
        return f"{len(rows)} of {len(names)} cases, ceilings of {gpu}" + (
            " as measured" if roofs.products and roofs.copy else " as declared")
    return work


def experiment(check, name):
    """An experiment beside this file: whole on a GPU, of embedded models in a rehearsal."""
    def work(log, limit):
        scale, few, shorter = "tiny" if check.settings.rehearse else "shapes", [], ""
        if check.in_software:
            few = [word for s in EXPERIMENTS_IN_SOFTWARE for word in ("--set", s)]
            shorter = check.shorter(log, "embedded model, 2 requests of 16 and 8 tokens, no warm-up, once")
        folder = check.path(name)
        check.run([check.program("unmask"), "run", os.path.join("tests", "gpu", name + ".toml"),
                   "--scale", scale, *few, "--no-progress", "-o", folder], log, limit)
        rows = json_lines(os.path.join(folder, "rows.jsonl"))
        missing = [f"{r['label']} at {r['batch_size']} ({r['verdict']} {r['reason']})" for r in rows
                   if "tokens_per_second" not in r.get("metrics", {})]
        if missing:
            raise Partial("missing: " + ", ".join(missing))
        return f"{len(rows)} rows{shorter}"
    return work


def turns(check):
    """Own kernels, those before the newer ones and the libraries', all ways of a case in one process and in turn."""
    def work(log, limit):
        out = check.path("turns.jsonl")
        device = "cuda-emulated" if check.settings.rehearse == "emulator" else "cuda"
        shorter = check.shorter(log, "smallest sizes") if check.in_software else ""
        check.run([check.program("unmask"), "bench", "--kernels", "own,before,library", "--device", device,
                   "--turns", "2" if check.settings.rehearse else "5", "--kernel-rows", out,
                   *(["--set", "run.device_check=off"] if check.in_software else []),
                   *(["--cases", check.settings.cases] if check.settings.cases else [])], log, limit,
                  env={"UNMASK_BENCH_SMALL": "1" if check.in_software else ""})
        rows = json_lines(out)
        ratios = [r for r in rows if r.get("ratio")]
        absent = sorted({r["why"] for r in rows if "median_us" not in r})
        return f"{len(ratios)} ratios of {len(rows)} ways{shorter}" + "".join(f"; NOT RUN: {w}" for w in absent)
    return work


def profile_command(check, shape, method, folder, whole=False):
    """`unmask profile` of a method on a shape, `whole` or of few layers; in a rehearsal the same on an
    embedded model."""
    name, *settings = method.split()
    layers, prompt, answer, requests = (PROFILE_IN_SOFTWARE if check.in_software else REHEARSAL_SIZE
                                        if check.settings.rehearse else PROFILE_SIZE)
    if check.in_software:
        settings.append(f"block_length={answer}")
    blocks = shape in ("sdar-8b", "llada2-mini")
    model = (os.path.join("experiments", "models", "tiny-sdar" if blocks else "tiny-llada")
             if check.settings.rehearse else os.path.join("experiments", "shapes", shape))
    return [check.program("unmask"), "profile", model, "--weights", "random:1",
            *([] if whole else ["--layers", str(layers)]), "--prompt-tokens", str(prompt), "--gen-length", str(answer), "--limit",
            str(requests), "--batch-size", str(requests), "--set", "run.format=bf16", "-m", name,
            *[word for s in settings for word in ("--set", "params." + s)], "--device",
            check.device, "--tool", "phases" if check.settings.rehearse else "cupti",
            *([] if (shape, name) == COUNTED and not whole else ["--no-counters"]),
            *(["--set", "run.graphs=on"] if whole else []),
            *(["--no-roofs"] if whole or check.in_software else []), "--repetitions",
            "1" if whole else "2",
            "--trace", folder + ".trace.json", "-o", folder]


def full_depth(check):
    def work(log, limit):
        shorter = (check.shorter(log, "embedded model, phases and not kernels: cupti needs a GPU")
                   if check.in_software else "")
        folder = check.path(os.path.join("profile", "full-depth"))
        check.run(profile_command(check, *FULL_DEPTH, folder, whole=True), log, limit)
        missing = [f"{r['verdict']} {r['reason']}" for r in json_lines(os.path.join(folder, "rows.jsonl"))
                   if "phases" not in r.get("probes", {})]
        if missing:
            raise Partial("missing: " + ", ".join(missing))
        return " ".join(FULL_DEPTH) + shorter
    return work


def profiles(check):
    def work(log, limit):
        end = time.monotonic() + limit
        missing, shorter = [], ""
        if check.in_software:
            shorter = check.shorter(log, "embedded models, one request of 16 and 8 tokens, no "
                                         "roofs, phases and not kernels: cupti needs a GPU")
        for shape, methods in PROFILES:
            for method in methods:
                name = f"{shape}-{method.split()[0]}"
                if end - time.monotonic() < 5:
                    missing.append(name + " (no time)")
                    continue
                folder = check.path(os.path.join("profile", name))
                try:
                    check.run(profile_command(check, shape, method, folder), log,
                              end - time.monotonic())
                except Failed as why:
                    missing.append(f"{name} ({why})")
                    continue
                missing += [f"{name} ({r['verdict']} {r['reason']})"
                            for r in json_lines(os.path.join(folder, "rows.jsonl"))
                            if "phases" not in r.get("probes", {})]
        if missing:
            raise Partial("missing: " + ", ".join(missing))
        return f"{sum(len(m) for _, m in PROFILES)} profiles{shorter}"
    return work


def ncu(check):
    """Full sections of the kernels of NCU_CASES. Clocks stay as they are."""
    def work(log, limit):
        check.tool("ncu")
        end = time.monotonic() + limit
        missing = []
        for name, case, kernel, launches, kernels_of in NCU_CASES:
            report = check.path("ncu-" + name)
            prefix = "emulated_" + case.split("/")[0] if check.settings.rehearse == "emulator" else "cuda_" + case
            try:
                check.run([*check.tool("ncu"), "--set", "full", "--clock-control", "none",
                           "--kernel-name", "regex:" + kernel, "--launch-skip", "2",
                           "--launch-count", str(launches), "--force-overwrite", "--export", report,
                           check.program("unmask_bench"), f"--benchmark_filter={prefix}"], log,
                          min(end - time.monotonic(), limit / 2),
                          env={**bench_environment(check, "", kernels_of), "UNMASK_BENCH_ITERATIONS": "1"})
                check.run([*check.tool("ncu"), "--import", report + ".ncu-rep", "--page", "details",
                           "--csv"], log, end - time.monotonic(), output=report + ".csv")
            except Failed as why:
                missing.append(f"{name} ({why})")
        if missing:
            raise Partial("missing: " + ", ".join(missing))
        return "stand-in: nothing was counted" if check.settings.rehearse else f"{len(NCU_CASES)} kernels"
    return work


def comparators(check):
    def work(log, limit):
        out = check.path("comparators.jsonl")
        python = shutil.which("python3") or sys.executable
        if check.run([python, os.path.join(HERE, "comparators.py")], log, limit, output=out,
                     allowed=(0, 4)) == 4:
            raise NotRun("needs PyTorch with CUDA")
        missing = sorted({r["reason"] for r in json_lines(out) if r.get("status") == "NOT RUN"})
        return "; ".join(missing)
    return work


# ---- the two commands -----------------------------------------------------------------------------
# Limits are what a stage may take at most; the budget of the whole cuts the last ones.

def first(check, golden_folder=""):
    check.stage("environment", 20, environment(check), needs_gpu=False)
    check.stage("first decode", 30, first_decode(check))
    check.stage("operations", 45, operations(check, "small"))
    check.stage("device tests", 60, device_tests(check))
    check.stage("decisions", 45, decisions(check))
    check.stage("goldens", 60, goldens(check, golden_folder))
    check.stage("two GPUs", 40, two_gpus(check, golden_folder))
    check.stage("memcheck", 60, sanitizer(check, "memcheck"))
    check.stage("operations large", 40, operations(check, "large"))


def measure(check):
    check.stage("environment", 20, environment(check), needs_gpu=False)
    check.stage("first decode", 30, first_decode(check))
    check.stage("ceilings", 60, ceilings(check))
    check.stage("turns", 45, turns(check))
    check.stage("throughput", 160, experiment(check, "throughput"))
    check.stage("full depth", 45, full_depth(check))
    check.stage("ncu", 60, ncu(check))
    check.stage("surface", 60, experiment(check, "surface"))
    check.stage("controls", 60, experiment(check, "controls"))
    # What an earlier call measured, of kernels that have not changed since.
    check.stage("kernels", 115, kernels(check))
    check.stage("prediction", 5, prediction(check))
    check.stage("by those before", 40, by_those_before(check))
    check.stage("profile", 130, profiles(check))
    check.stage("by mma.sync", 30, by_mma_sync(check))
    check.stage("comparators", 40, comparators(check))
    check.stage("racecheck", 40, sanitizer(check, "racecheck"))
