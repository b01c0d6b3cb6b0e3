#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""What other software on this machine reaches at the shapes of a denoising step: PyTorch's attention
by backend, its products (cuBLAS) and, where Triton is installed, the confidence of the head. One JSON object a line:
what, by, seconds (median), or status NOT RUN with the reason. Exit code 4: no PyTorch with CUDA."""

import json
import statistics
import sys

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# (sequences, rows a sequence, keys a sequence, query heads, key heads), of 128: the cases of
# unmask_bench, and a whole canvas of 1,024.
CASES = [(64, 32, 4096, 32, 8), (256, 32, 512, 32, 8), (1, 8192, 8192, 32, 32),
         (1, 8192, 16384, 32, 32), (1, 32, 4096, 32, 8), (1, 32, 32768, 32, 8),
         (8, 1024, 1024, 32, 32)]
HEAD_DIM = 128

def say(**fields):
    print(json.dumps(fields), flush=True)


CALLS, SAMPLES = 20, 25          # as unmask_bench
BEYOND_L2 = 256 << 20            # bytes of operands that take turns


def copies_of(nbytes):
    return max(1, BEYOND_L2 // nbytes)


def seconds_of(torch, works):
    """Median of SAMPLES, each CALLS calls in a row between two events, divided by their number, as
    unmask_bench takes its times. `works` take turns: together their operands overflow L2. The calls are
    recorded as one graph, so that Python's own time does not count."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for work in works[:3]:
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in range(CALLS):
            works[call % len(works)]()
    graph.replay()
    times = []
    for _ in range(SAMPLES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / CALLS)
    return statistics.median(times)


def attention(torch):
    from torch.nn.attention import SDPBackend, sdpa_kernel  # pylint: disable=import-outside-toplevel
    backends = {"PyTorch SDPA cuDNN": SDPBackend.CUDNN_ATTENTION,
                "PyTorch SDPA FlashAttention": SDPBackend.FLASH_ATTENTION}
    for batch, rows, keys, heads, kv_heads in CASES:
        q = torch.randn(batch, heads, rows, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
        caches = [tuple(torch.randn(batch, kv_heads, keys, HEAD_DIM, device="cuda",
                                    dtype=torch.bfloat16) for _ in range(2))
                  for _ in range(min(CALLS, copies_of(4 * batch * kv_heads * keys * HEAD_DIM)))]
        what = f"attention {batch}x{rows} rows, {keys} keys, {heads}/{kv_heads} heads"
        for name, backend in backends.items():
            works = [lambda k=k, v=v: torch.nn.functional.scaled_dot_product_attention(
                q, k, v, enable_gqa=heads != kv_heads) for k, v in caches]
            try:
                with sdpa_kernel(backend):
                    taken = seconds_of(torch, works)
                say(what=what, by=name, seconds=taken,
                    flops=4.0 * batch * heads * rows * keys * HEAD_DIM)
            except (RuntimeError, TypeError) as why:
                say(what=what, by=name, status="NOT RUN",
                    reason=f"{name}: {str(why).splitlines()[0]}")


def products(torch):
    for n, k in ((6144, 4096), (24576, 4096), (4096, 12288)):
        weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
                   for _ in range(min(CALLS, copies_of(2 * n * k)))]
        for m in (1, 32, 256, 1703, 8192):
            x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
            say(what=f"product M={m} N={n} K={k}", by="PyTorch cuBLAS",
                seconds=seconds_of(torch, [lambda w=w: torch.nn.functional.linear(x, w)
                                           for w in weights]), flops=2.0 * m * n * k)


if triton is not None:
    @triton.jit
    def top_probability(logits, out, columns, block: tl.constexpr):
        """Largest probability of a row: one pass, running maximum and sum."""
        row = tl.program_id(0)
        best = -float("inf")
        total = 0.0
        for first in range(0, columns, block):
            at = first + tl.arange(0, block)
            x = tl.load(logits + row * columns + at, mask=at < columns, other=-float("inf"))
            x = x.to(tl.float32)
            larger = tl.maximum(best, tl.max(x, axis=0))
            total = total * tl.exp(best - larger) + tl.sum(tl.exp(x - larger), axis=0)
            best = larger
        tl.store(out + row, 1.0 / total)


def confidence_of_triton(torch):
    if triton is None:
        say(what="confidence", by="Triton", status="NOT RUN", reason="needs Triton")
        return
    rows, columns = 256, 126464
    logits = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
    out = torch.full((rows,), float("nan"), device="cuda")
    taken = seconds_of(torch, [lambda: top_probability[(rows,)](logits, out, columns, 4096)])
    want = torch.softmax(logits.float(), dim=1).amax(dim=1)
    if not torch.allclose(out, want, rtol=1e-3):
        say(what="confidence", by="Triton", status="NOT RUN", reason="Triton's result is wrong")
        return
    say(what=f"confidence of {rows} rows of {columns} logits", by="Triton", seconds=taken,
        bytes=2.0 * rows * columns)


def head_of_pytorch(torch):
    """Logits and the largest probability of a row, as decoding loops in PyTorch compute them: the
    logits lie in memory as bfloat16, the softmax is taken in float32 or in float64."""
    rows, columns, width = 512, 151936, 4096
    weight = torch.randn(columns, width, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
    for kind in (torch.float32, torch.float64):
        def largest(kind=kind):
            logits = torch.nn.functional.linear(x, weight)
            return torch.softmax(logits, dim=-1, dtype=kind).max(dim=-1)
        say(what=f"head and confidence of {rows} rows, vocabulary {columns}, {kind}", by="PyTorch",
            seconds=seconds_of(torch, [largest]), flops=2.0 * rows * columns * width)


def main():
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        say(status="NOT RUN", reason="needs PyTorch")
        return 4
    if not torch.cuda.is_available():
        say(status="NOT RUN", reason="needs PyTorch with CUDA and a GPU")
        return 4
    torch.manual_seed(1)
    say(versions={"torch": torch.__version__, "cuda": torch.version.cuda,
                  "cudnn": torch.backends.cudnn.version()})
    for part in (attention, products, head_of_pytorch, confidence_of_triton):
        try:
            part(torch)
        except Exception as why:  # pylint: disable=broad-except
            # A comparator that breaks must not cost the others.
            say(what=part.__name__, by="PyTorch", status="NOT RUN",
                reason=f"{type(why).__name__}: {str(why).splitlines()[0] if str(why) else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
