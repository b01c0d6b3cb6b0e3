#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The tables at the head of results/gpu/README.md, from the lines of measured.md.

    glance.py MEASURED.md attention    own kernel against cuDNN and FlashAttention-2
    glance.py MEASURED.md products     products of one row, some and many against PyTorch
    glance.py MEASURED.md decoding     tokens per second of whole decoding
"""

import re
import sys

ATTENTION = [(64, 32, 4096), (256, 32, 512), (1, 32, 4096), (1, 32, 32768), (1, 8192, 8192), (1, 8192, 16384)]
PRODUCTS = [("gate and up", 24576, 4096), ("down, with the float32 residual", 4096, 12288),
            ("query, key and value", 6144, 4096)]
ROWS = (1, 256, 8192)


def kernels(text):
    """{name: (µs, share of the roof)} of the section Kernels."""
    part = text.split("\n## Kernels\n")[1].split("\n## ")[0]
    return {m[1]: (m[2], m[3]) for m in re.finditer(r"^\| (\S+/\S+) \| ([\d.]+) \| (\S+) \|", part, re.M)}


def others(text):
    """{what: µs} of the section on other software."""
    part = text.split("\n## Other software on this machine\n")[1].split("\n## ")[0]
    return {m[1]: m[2] for m in re.finditer(r"^\* (.*): ([\d.]+) µs$", part, re.M)}


def rounded(text):
    return f"{float(text):,.0f}"


def best_bold(cells):
    """The cells as whole microseconds; the least of them bold."""
    least = min(cells, key=float)
    return [f"**{rounded(c)}**" if c == least else rounded(c) for c in cells]


def attention(text):
    own, other = kernels(text), others(text)
    yield "| attention, bfloat16 | ours, µs | share of the roof | cuDNN, µs | FlashAttention-2, µs |"
    yield "|---|---:|---:|---:|---:|"
    for sequences, rows, keys in ATTENTION:
        kv = 32 if rows == 8192 else 8
        time, share = own[f"attention/sequences:{sequences}/rows:{rows}/heads:32/kv:{kv}/dim:128/keys:{keys}/bits:16"]
        what = f"attention {sequences}x{rows} rows, {keys} keys, 32/{kv} heads (PyTorch SDPA "
        ours, cudnn, flash = best_bold([time, other[what + "cuDNN)"], other[what + "FlashAttention)"]])
        many = "sequence" if sequences == 1 else "sequences"
        yield f"| {sequences} {many}, {rows:,} rows each, {keys:,} keys | {ours} | {share} | {cudnn} | {flash} |"


def products(text):
    own, other = kernels(text), others(text)
    yield "| product, bfloat16 | rows | ours, µs | share of the roof | PyTorch, µs |"
    yield "|---|---:|---:|---:|---:|"
    for what, n, k in PRODUCTS:
        for rows in ROWS:
            name = f"linear/rows:{rows}/in:{k}/out:{n}/bits:16"
            ours, theirs = best_bold([own[name][0], other[f"product M={rows} N={n} K={k} (PyTorch cuBLAS)"]])
            yield f"| {what} | {rows:,} | {ours} | {own[name][1]} | {theirs} |"


def decoding(text):
    part = text.split("\n## Throughput\n")[1].split("\n## ")[0]
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in part.split("\n") if line.startswith("| ")][1:]
    rows = [r for r in rows if r[2] == "on" and r[3] == "iter"]
    base = {r[1]: float(r[4]) for r in rows if r[0] == "plain block diffusion"}
    yield "| method | batch slots | tokens/s | times plain block diffusion | share of the roof: prefill | decode | W |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for r in sorted(rows, key=lambda r: (int(r[1]), float(r[4]))):
        yield (f"| {r[0]} | {r[1]} | {rounded(r[4])} | {float(r[4]) / base[r[1]]:.2f} | {r[8]} | {r[9]} | {r[12]} |")


def main(arguments):
    if len(arguments) != 2 or arguments[1] not in ("attention", "products", "decoding"):
        sys.exit(__doc__)
    with open(arguments[0], encoding="utf-8") as file:
        text = file.read()
    print("\n".join({"attention": attention, "products": products, "decoding": decoding}[arguments[1]](text)))


if __name__ == "__main__":
    main(sys.argv[1:])
