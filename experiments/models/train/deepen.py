# SPDX-License-Identifier: Apache-2.0
"""Grows a trained model in depth without changing what it computes.

Every layer is followed by copies of itself whose output matrices (wo, down) are zero, so the
residual stream passes them unchanged and the deep model starts from the scores of the shallow one.
Training then moves the zeros: the gradient of an output matrix does not vanish with the matrix.

python deepen.py --model ../tiny-llada --copies 2,2,3,3,2 --out RUN/deep_llada_init.pt
"""
import argparse

import torch

from export import load_exported


@torch.no_grad()
def deepen(state, copies):
    """`copies[i]` layers in the place of layer i, the first of which is layer i itself."""
    out, at = {k: v for k, v in state.items() if not k.startswith("layers.")}, 0
    for i, count in enumerate(copies):
        prefix = f"layers.{i}."
        layer = {k[len(prefix):]: v for k, v in state.items() if k.startswith(prefix)}
        for copy in range(count):
            for name, value in layer.items():
                silent = copy > 0 and name in ("wo.weight", "down.weight")
                out[f"layers.{at}.{name}"] = torch.zeros_like(value) if silent else value.clone()
            at += 1
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", required=True, help="exported folder")
    ap.add_argument("--copies", required=True, help="layers in the place of each, e.g. 2,2,3,3,2")
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    model = load_exported(a.model)
    copies = [int(c) for c in a.copies.split(",")]
    if len(copies) != model.cfg.layers or min(copies) < 1:
        raise SystemExit(f"--copies needs {model.cfg.layers} numbers of at least 1")
    torch.save({"model": deepen(model.state_dict(), copies), "kind": model.cfg.kind, "tokens": 0,
                "layers": sum(copies), "block": model.cfg.block}, a.out)


if __name__ == "__main__":
    main()
