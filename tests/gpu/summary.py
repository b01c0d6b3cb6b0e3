# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Tables of what the GPU check measured, as Markdown: times beside their share of the roof (roofs.py)."""

import glob
import os

import answers
import surface
from roofs import parts_of_run, roofs_of
from runner import json_lines

# Labels of rows in the words of GLOSSARY.md.
NAMES = {"whole blocks": "plain block diffusion"}
# Rows of a product that the table has columns for.
PRODUCT_ROWS = (1, 32, 256, 1024, 8192)
# bfloat16 FLOPs of a clock and multiprocessor, without sparsity, by compute capability (data sheets).
TENSOR_FLOPS = {"8.0": 2048, "9.0": 4096}
# Of int8 products no roof was measured: they multiply twice as fast as bfloat16 ones may.
NO_ROOF = "bits:8"


def share(least, seconds):
    return f"{least / seconds:.2f}" if least and seconds else "–"


def rate(value, unit):
    return f"{value:.0f} {unit}" if value else "not measured"


def stages_table(records):
    lines = ["| stage | status | s | |", "|---|---|---:|---|"]
    return lines + [f"| {r['stage']} | {r['status']} | {r['seconds']:.1f} | {r['reason']} |"
                    for r in records]


def roofs_table(rows):
    """The roofs of this machine, cool and after seconds of load."""
    r = roofs_of(rows)
    if not r.reads:
        return []
    return ["| roof | in a burst | under load |", "|---|---:|---:|",
            *(f"| {what} | {rate(burst / by, unit)} | {rate(loaded / by, unit)} |"
              for what, burst, loaded, by, unit in (
                  ("reads alone", r.reads, r.loaded_reads, 1e9, "GB/s"),
                  ("copy, read plus written", r.copy, r.loaded_copy, 1e9, "GB/s"),
                  ("best bfloat16 product", r.products, r.loaded_products, 1e12, "TFLOP/s"))),
            "", "The roof of a kernel is the larger of two times: bytes over reads alone, and FLOPs over the "
            "best bfloat16 product of a burst. Shares are that time over the measured one."]


def products_table(rows):
    """A line for each product, a column for each number of rows."""
    r = roofs_of(rows)
    found = {}
    for g in rows:
        if g["kind"] == "gemm" and g["right"] and g["m"] in PRODUCT_ROWS:
            cell = f"{g['seconds'] * 1e6:.1f}, {share(r.seconds(g['flops'], g['bytes']), g['seconds'])}"
            found.setdefault((g["model"], g["part"]), {})[g["m"]] = cell
    if not found:
        return []
    lines = ["Each cell: µs, and the share of the roof.", "",
             "| model | product | " + " | ".join(
                 f"{n:,} row" + ("s" if n > 1 else "") for n in PRODUCT_ROWS) + " |",
             "|---|---|" + "---:|" * len(PRODUCT_ROWS)]
    lines += [f"| {model} | {part} | " + " | ".join(cells.get(n, "–") for n in PRODUCT_ROWS) + " |"
              for (model, part), cells in found.items()]
    wrong = sum(1 for g in rows if g["kind"] == "gemm" and not g["right"])
    if wrong:
        lines.append(f"\n{wrong} products are WRONG and left out of the table.")
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
    """Case by case: time, share of the roof, and what the cost model expected."""
    roofs, expected = roofs_of(ceilings), predicted_seconds(predictions)
    lines = []
    for r in rows:
        name = plain(r["name"])
        if r.get("error"):
            lines.append(f"| {name} | NOT RUN: {r['error']} | – | – | – |")
            continue
        seconds = r["median_us"] * 1e-6
        least = 0 if NO_ROOF in name else roofs.seconds(r.get("flops", 0), r.get("bytes", 0))
        want = expected.get(name, 0)
        lines.append(f"| {name} | {r['median_us']:.1f} | {share(least, seconds)} | "
                     + (f"{want * 1e6:.1f} | {seconds / want:.2f} |" if want else "– | – |"))
    if lines:
        lines = ["| case | µs | share of the roof | predicted µs | measured / predicted |",
                 "|---|---:|---:|---:|---:|"] + lines
    return lines


def step_table(rows, ceilings):
    """Phases of whole steps and their shares of the roofs measured in the same check."""
    roofs = roofs_of(ceilings)
    lines = []
    for row in rows:
        report = row.get("probes", {}).get("phases")
        if not report:
            lines.append(f"\n{row['model']['name']} {row['label']}: {row['verdict']} {row['reason']}")
            continue
        lines += ["", f"**{row['model']['name']} · {row['label']} · batch {row['batch_size']}** "
                  f"(synthetic weights; work {report['provenance']['work']})", "",
                  "| phase | device ms | share of the roof |", "|---|---:|---:|"]
        for p in report["phases"]:
            seconds = p.get("device_seconds") or 0
            if p["container"] or seconds == 0:
                continue
            lines.append(f"| {p['phase']} | {seconds * 1e3:.3f} | "
                         f"{share(roofs.seconds(p['flops'] or 0, p['bytes'] or 0), seconds)} |")
        for problem in ("kernels_problem", "counters_problem"):
            if report.get(problem):
                lines.append(f"\n{report[problem]}")
    return lines


def cell(value, form):
    return "–" if value is None else format(value, form)


def tensor_share(row):
    """FLOPs of a run over what its tensor cores can do at the clock that was sampled; None: the clock or the
    card is not known."""
    m = row["metrics"]
    card = (row.get("environment", {}).get("gpus") or [{}])[0]
    each = TENSOR_FLOPS.get(card.get("compute_capability"))
    if not each or not m.get("clock_mhz_mean"):
        return None
    return m["flops"] / (each * card["multiprocessors"] * m["clock_mhz_mean"] * 1e6 * m["wall_seconds"])


def throughput_cells(row, roofs):
    """The cells of a row behind method, batch slots, graphs and policy."""
    m = row["metrics"]
    parts = parts_of_run(row, roofs)
    shares = [share(*parts[p]) if p in parts else "–" for p in ("prefill", "decode")]
    whole = share(sum(least for least, _ in parts.values()), m["wall_seconds"]) if parts else "–"
    watts = m.get("watts_mean", m["energy_joules"] / m["wall_seconds"] if "energy_joules" in m else None)
    return [f"{m['tokens_per_second']:.0f}", cell(m.get("steady_tokens_per_second"), ".0f"),
            f"{m['redundancy']:.2f}", cell(m.get("prefill_time_share"), ".0%").replace("%", " %"),
            *shares, whole, cell(tensor_share(row), ".2f"), cell(watts, ".0f"),
            cell(m.get("clock_mhz_mean"), ".0f"), cell(m.get("throttled_share"), ".2f")]


HEAD = ["method", "batch slots", "graphs", "policy", "tokens/s", "steady tokens/s", "computed/unmasked",
        "prefill, % of time", "roof: prefill", "roof: decode", "roof: all", "tensor peak", "W", "SM MHz",
        "throttled"]


def throughput_table(rows, ceilings):
    """Whole runs: tokens per second, and the share of the roof of their forward passes, prefill and
    decode apart."""
    roofs = roofs_of(ceilings)
    lines = []
    for row in rows:
        head = [NAMES.get(row["label"], row["label"]), str(row["batch_size"]),
                row.get("run", {}).get("graphs") or row.get("graphs") or "auto",
                row.get("serve", {}).get("policy") or "–"]
        cells = (throughput_cells(row, roofs) if "tokens_per_second" in row.get("metrics", {})
                 else [f"{row['verdict']} {row['reason']}"] + ["–"] * (len(HEAD) - 5))
        lines.append("| " + " | ".join(head + cells) + " |")
    if lines:
        lines = ["Random weights, commits imposed: speeds of the shape, not of a model. \"roof\": the share "
                 "of the roof, the sum over the forward passes of prefill, of decode, and of both. \"tensor peak\": "
                 "FLOPs over what the tensor cores can do at the clock of the run.",
                 "", "| " + " | ".join(HEAD) + " |", "|---|---:|---|---|" + "---:|" * (len(HEAD) - 4)] + lines
    return lines


def turns_table(rows):
    """Own kernels beside those before them and the libraries', calls alternating in one process."""
    def who(r):
        taken = {True: ", taken", False: ", not taken"}.get(r.get("taken"), "")
        return r.get("version", r["way"]) + taken

    lines = []
    for r in (r for r in rows if "median_us" in r):
        over = (f"{r['against']} | {r['ratio']:.3f} | {r['low']:.3f} to {r['high']:.3f} |" if r.get("ratio")
                else f"{r.get('why', '–')} | – | – |")
        lines.append(f"| {r['case']} | {who(r)} | {r['median_us']:.1f} | {over}")
        if (before := r.get("over_before")):
            lines.append(f"| {r['case']} | {r['way']} | | kernels before | {before['ratio']:.3f} | "
                         f"{before['low']:.3f} to {before['high']:.3f} |")
    lines += [f"| {r['case']} | {who(r)} | NOT RUN | {r['why']} | – | – |" for r in rows if "median_us" not in r]
    if lines:
        lines = ["The ratio is of times; 95 % interval over the turns. A library's module is taken if it beats every own way.", "",
                 "| case | way | µs | over | ratio | interval |", "|---|---|---:|---|---:|---:|"] + lines
    return lines


def rows_below(folder, *parts):
    return [r for f in sorted(glob.glob(os.path.join(folder, *parts, "rows.jsonl")))
            for r in json_lines(f)]


def measured_sections(folder, predictions=()):
    """(title, lines) of everything measured below a working folder or an unpacked archive."""
    ceilings = json_lines(os.path.join(folder, "ceilings.jsonl"))
    comparators = [f"* {r['what']} ({r['by']}): {r['seconds'] * 1e6:.1f} µs"
                   for r in json_lines(os.path.join(folder, "comparators.jsonl")) if "seconds" in r]
    predictions = predictions or json_lines(os.path.join(folder, "prediction.jsonl"))
    throughput, profiles = rows_below(folder, "throughput"), rows_below(folder, "profile", "*")
    controls = rows_below(folder, "controls")
    return [("What was asked", answers.lines(folder, ceilings, throughput, profiles)),
            ("Roofs", roofs_table(ceilings)), ("Throughput", throughput_table(throughput, ceilings)),
            ("FOCUS and its controls in turn", throughput_table(controls, ceilings)),
            ("Time of a forward pass", surface.table(rows_below(folder, "surface"), throughput)),
            ("Kernels", kernels_table(json_lines(os.path.join(folder, "kernels.jsonl")), ceilings,
                                      predictions)),
            ("Products", products_table(ceilings)),
            ("Own kernels and libraries in turn", turns_table(json_lines(os.path.join(folder, "turns.jsonl")))),
            ("Steps", step_table(profiles, ceilings)),
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
