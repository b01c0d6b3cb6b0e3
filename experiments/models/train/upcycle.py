# SPDX-License-Identifier: Apache-2.0
"""Makes a mixture of experts (llada2) of a trained block-diffusion model (sdar).

Of every feed-forward but the first the largest units become the one that all tokens pass; the next ones
are cut into as many segments as a token has experts, and every group of experts gets a copy of
each. The router begins by groups: the experts of one group score almost alike, so that most tokens
choose one whole group and the start computes almost what the dense model did. Training on
tokens that chose different groups then tells the copies apart.

python upcycle.py --model ../tiny-sdar --out RUN/llada2_init.pt
"""
import argparse

import torch

from export import load_exported
from model import Model, make_config


@torch.no_grad()
def upcycle(state, cfg, rng):
    """State of a llada2 model of configuration `cfg` from that of an sdar model of its shape."""
    out = Model(cfg).state_dict()
    for name in out:
        if name in state and state[name].shape == out[name].shape:
            out[name] = state[name].clone()
    for i in range(1, cfg.layers):
        p = f"layers.{i}."
        gate, up, down = (state[p + n + ".weight"] for n in ("gate", "up", "down"))
        order = (up.norm(dim=1) * down.norm(dim=0)).argsort(descending=True)
        shared, rest = order[:cfg.shared_ff], order[cfg.shared_ff:]
        for name, matrix, axis in (("gate", gate, 0), ("up", up, 0), ("down", down, 1)):
            out[p + name + ".weight"] = matrix.index_select(axis, shared).clone()
            for e in range(cfg.experts):
                units = rest[e % cfg.chosen:cfg.chosen * cfg.expert_ff:cfg.chosen]
                copy = matrix.index_select(axis, units)
                if name == "down":  # each of the chosen is weighted by scaling / chosen
                    copy = copy * (cfg.chosen / cfg.scaling)
                out[f"{p}experts.{name}.{e}.weight"] = copy.clone()
        size = cfg.experts // cfg.groups
        group = torch.randn(cfg.groups, cfg.dim, generator=rng).repeat_interleave(size, 0)
        own = torch.randn(cfg.experts, cfg.dim, generator=rng)
        out[p + "experts.router.weight"] = (group + 0.1 * own) * cfg.dim ** -0.5
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", required=True, help="exported folder of an sdar model")
    ap.add_argument("--out", required=True)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    model = load_exported(a.model)
    if model.cfg.kind != "sdar":
        raise SystemExit(f"{a.model}: is of the kind {model.cfg.kind}, not sdar")
    cfg = make_config("llada2", model.cfg.layers, model.cfg.block)
    state = upcycle(model.state_dict(), cfg, torch.Generator().manual_seed(a.seed))
    torch.save({"model": state, "kind": "llada2", "tokens": 0, "layers": cfg.layers,
                "block": cfg.block}, a.out)


if __name__ == "__main__":
    main()
