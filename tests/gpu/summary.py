# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Tables of what the GPU check measured, as Markdown: values as fractions of measured limits."""

import glob
import json
import os

from runner import ROOT, json_lines


def limits_of(ceilings):
    """Best copy rate and best bf16 product of this check: bytes and FLOPs per second, or 0."""
    copies = [r["bytes_per_second"] for r in ceilings if r["kind"] == "copy"]
    gemms = [r["flops"] / r["seconds"] for r in ceilings if r["kind"] == "gemm" and r["right"]]
    return (copies[0] if copies else 0), max(gemms, default=0)


def least_seconds(flops, bytes_moved, limits):
    """The time in which this machine could do the work; 0: no ceiling was measured."""
    bandwidth, peak = limits
    return max(flops / peak if peak else 0, bytes_moved / bandwidth if bandwidth else 0)


def share(least, seconds):
    return f"{least / seconds:.2f}" if least and seconds else "–"


def stages_table(records):
    lines = ["| stage | status | s | |", "|---|---|---:|---|"]
    return lines + [f"| {r['stage']} | {r['status']} | {r['seconds']:.1f} | {r['reason']} |"
                    for r in records]


def ceilings_table(rows):
    bandwidth, peak = limits_of(rows)
    if not bandwidth:
        return []
    lines = [f"Copy: {bandwidth / 1e9:.0f} GB/s (read plus written, best)."]
    gemms = [r for r in rows if r["kind"] == "gemm" and r["right"]]
    if not gemms:
        return lines
    lines.append(f"Best bf16 product: {peak / 1e12:.0f} TFLOP/s. A product's limit is the larger "
                 "of FLOPs over that and bytes over the copy's rate.")
    lines += ["", "| model | part | M | µs | TFLOP/s | of the limit |", "|---|---|---:|---:|---:|---:|"]
    for g in gemms:
        if g["m"] not in (1, 32, 256, 1024, 8192):
            continue
        least = least_seconds(g["flops"], g["bytes"], (bandwidth, peak))
        lines.append(f"| {g['model']} | {g['part']} | {g['m']} | {g['seconds'] * 1e6:.1f} | "
                     f"{g['flops'] / g['seconds'] / 1e12:.1f} | {share(least, g['seconds'])} |")
    wrong = [r for r in rows if r["kind"] == "gemm" and not r["right"]]
    if wrong:
        lines.append(f"\n{len(wrong)} products are WRONG and left out of the table.")
    return lines


def predicted_seconds(predictions):
    """Seconds by the name of a benchmark case, whatever backend's prefix it has."""
    return {plain(p["name"]): p["seconds"] for p in predictions if p.get("seconds")}


def plain(name):
    for prefix in ("cuda_", "emulated_"):
        name = name.removeprefix(prefix)
    for suffix in ("/manual_time", "/iterations:"):
        name = name.split(suffix)[0]
    return name


def kernels_table(rows, ceilings, predictions=()):
    """Case by case: time, share of the limit, and what the cost model expected."""
    limits, expected = limits_of(ceilings), predicted_seconds(predictions)
    lines = []
    for r in rows:
        name = plain(r["name"])
        if r.get("error"):
            lines.append(f"| {name} | NOT RUN: {r['error']} | – | – | – |")
            continue
        seconds = r["median_us"] * 1e-6
        least = least_seconds(r.get("flops", 0), r.get("bytes", 0), limits)
        want = expected.get(name, 0)
        lines.append(f"| {name} | {r['median_us']:.1f} | {share(least, seconds)} | "
                     + (f"{want * 1e6:.1f} | {seconds / want:.2f} |" if want else "– | – |"))
    if lines:
        lines = ["| case | µs | of the limit | predicted µs | measured / predicted |",
                 "|---|---:|---:|---:|---:|"] + lines
    return lines


def step_table(rows, ceilings):
    """Phases of whole steps as fractions of the limits measured in the same check."""
    limits = limits_of(ceilings)
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
            least = least_seconds(p["flops"] or 0, p["bytes"] or 0, limits)
            lines.append(f"| {p['phase']} | {seconds * 1e3:.3f} | {share(least, seconds)} |")
        for problem in ("kernels_problem", "counters_problem"):
            if report.get(problem):
                lines.append(f"\n{report[problem]}")
    return lines


def embedding_size(shape):
    """Elements of a shape's embedding table; 0 for a model without a shape folder."""
    try:
        with open(os.path.join(ROOT, "experiments", "shapes", shape, "config.json"),
                  encoding="utf-8") as file:
            config = json.load(file)
    except OSError:
        return 0
    return config["hidden_size"] * config["vocab_size"]


def throughput_table(rows, ceilings):
    """Tokens per second and the fraction of the limit: a run takes at least its counted FLOPs over
    the best product's rate, and its forwards' reads of all bf16 weights but the embedding table, of
    which a forward reads single rows, over the copy's."""
    limits = limits_of(ceilings)
    lines = []
    for row in rows:
        metrics = row.get("metrics", {})
        graphs = row.get("run", {}).get("graphs") or row.get("graphs") or "auto"
        if "tokens_per_second" not in metrics:
            lines.append(f"| {row['label']} | {row['batch_size']} | {graphs} | {row['verdict']} "
                         f"{row['reason']} | – | – |")
            continue
        weights = (2.0 * (row["model"]["parameters"] - embedding_size(row["model"]["name"]))
                   * metrics["batched_forwards"])
        least = least_seconds(metrics["flops"], weights, limits) if all(limits) else 0
        lines.append(f"| {row['label']} | {row['batch_size']} | {graphs} | "
                     f"{metrics['tokens_per_second']:.0f} | {metrics['redundancy']:.2f} | "
                     f"{share(least, metrics['wall_seconds'])} |")
    if lines:
        lines = ["Random weights, commits imposed: speeds of the shape, not of a model.",
                 "", "| method | places | graphs | tok/s | rows per token | of the limit |",
                 "|---|---:|---|---:|---:|---:|"] + lines
    return lines


def rows_below(folder, *parts):
    return [r for f in sorted(glob.glob(os.path.join(folder, *parts, "rows.jsonl")))
            for r in json_lines(f)]


def measured_sections(folder, predictions=()):
    """(title, lines) of everything measured below a working folder or an unpacked archive."""
    ceilings = json_lines(os.path.join(folder, "ceilings.jsonl"))
    comparators = [f"* {r['what']} ({r['by']}): {r['seconds'] * 1e6:.1f} µs"
                   for r in json_lines(os.path.join(folder, "comparators.jsonl")) if "seconds" in r]
    return [("Ceilings", ceilings_table(ceilings)),
            ("Kernels", kernels_table(
                json_lines(os.path.join(folder, "kernels.jsonl")), ceilings,
                predictions or json_lines(os.path.join(folder, "prediction.jsonl")))),
            ("Throughput", throughput_table(rows_below(folder, "throughput"), ceilings)),
            ("Steps", step_table(rows_below(folder, "profile", "*"), ceilings)),
            ("Other software on this machine", comparators)]


def write(check, headline):
    lines = ["# GPU check", "", headline, ""] + stages_table(check.records)
    for title, body in measured_sections(check.settings.work):
        if body:
            lines += ["", f"## {title}", ""] + body
    text = "\n".join(lines) + "\n"
    with open(check.path("summary.md"), "w", encoding="utf-8") as out:
        out.write(text)
    return text
