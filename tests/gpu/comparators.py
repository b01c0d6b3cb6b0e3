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


def seconds_of(torch, work, repetitions=20):
    """Median of single calls between events, with 256 MiB written before each so that nothing is
    left in L2."""
    flush = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    for _ in range(3):
        work()
    times = []
    for _ in range(repetitions):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def attention(torch):
    from torch.nn.attention import SDPBackend, sdpa_kernel  # pylint: disable=import-outside-toplevel
    backends = {"PyTorch SDPA cuDNN": SDPBackend.CUDNN_ATTENTION,
                "PyTorch SDPA FlashAttention": SDPBackend.FLASH_ATTENTION,
                "PyTorch SDPA math": SDPBackend.MATH}
    for batch, rows, keys, heads, kv_heads in CASES:
        q = torch.randn(batch, heads, rows, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.randn(batch, kv_heads, keys, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
                for _ in range(2))
        what = f"attention {batch}x{rows} rows, {keys} keys, {heads}/{kv_heads} heads"
        for name, backend in backends.items():
            # Scores in memory: too many for the largest cases.
            if backend == SDPBackend.MATH and batch * heads * rows * keys > 1 << 30:
                continue
            try:
                with sdpa_kernel(backend):
                    taken = seconds_of(torch, lambda: torch.nn.functional
                                       .scaled_dot_product_attention(
                                           q, k, v, enable_gqa=heads != kv_heads))
                say(what=what, by=name, seconds=taken,
                    flops=4.0 * batch * heads * rows * keys * HEAD_DIM)
            except (RuntimeError, TypeError) as why:
                say(what=what, by=name, status="NOT RUN",
                    reason=f"{name}: {str(why).splitlines()[0]}")


def products(torch):
    for n, k in ((6144, 4096), (24576, 4096), (4096, 12288)):
        weight = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
        for m in (32, 256, 8192):
            x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
            say(what=f"product M={m} N={n} K={k}", by="PyTorch cuBLAS",
                seconds=seconds_of(torch, lambda: torch.nn.functional.linear(x, weight)),
                flops=2.0 * m * n * k)


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
    taken = seconds_of(torch, lambda: top_probability[(rows,)](logits, out, columns, 4096))
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
            seconds=seconds_of(torch, largest), flops=2.0 * rows * columns * width)


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
