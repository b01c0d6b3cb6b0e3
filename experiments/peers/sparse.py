# SPDX-License-Identifier: Apache-2.0
"""SparseD and Focus-dLLM: methods whose rows attend to a part of the keys."""
import math

import torch
import torch.nn.functional as F

from caches import Method
from decode import best


class SparseD(Method):
    """Wang et al. 2025: after the first steps a pattern of key blocks per layer, head and query
    block, made once. Eager PyTorch has no block-sparse attention; the pattern is a mask."""

    def __init__(self, model, prompt, settings):
        super().__init__(model, prompt, settings)
        self.now = 0
        self.end = int(settings["steps"] * settings["skip"]) + 1
        self.masks = [None] * model.config.layers

    def forward(self, x, block, step):
        now, self.now = self.now, self.now + 1
        if now > self.end:
            return self.full(x, lambda layer, q, k, v: (k, v, self.masks[layer]))
        return self.full(x, self.make_patterns if now == self.end else self.only_rows)

    def make_patterns(self, layer, q, k, v):
        size, select, n = self.settings["block_size"], self.settings["select"], self.length
        blocks = -(-n // size)
        # First block that holds answer tokens only; a straddling block counts as prompt.
        last = min(-(-self.prompt // size), blocks - 1)
        keep = torch.zeros(q.shape[0], blocks, blocks, dtype=torch.bool)
        top = best(self.mass(q, k), min(blocks, int(blocks * select) + 1))
        keep.scatter_(2, top, True)
        keep[:, :, last:] = False
        answer = blocks - last
        top = best(self.mass(q, k[:, last * size:]), min(answer, int(answer * select) + 1))
        keep[:, :, last:] = torch.zeros(q.shape[0], blocks, answer,
                                        dtype=torch.bool).scatter_(2, top, True)
        seen = keep.repeat_interleave(size, 1).repeat_interleave(size, 2)[:, :n, :n]
        self.masks[layer] = torch.zeros(seen.shape).masked_fill_(~seen, -math.inf)[None]
        return k, v, None

    def mass(self, q, k):
        """[H, query blocks, key blocks] attention mass; the official scale is sqrt(heads)."""
        size = self.settings["block_size"]
        p = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[0]), dim=-1)
        rows, columns = -(-p.shape[1] // size), -(-p.shape[2] // size)
        p = F.pad(p, (0, columns * size - p.shape[2], 0, rows * size - p.shape[1]))
        return p.view(p.shape[0], rows, size, columns, size).sum(dim=(2, 4))


class FocusDllm(Method):
    """Focus-dLLM (a reading of the paper; there is no official code): windows around the positions
    that were surest at the step before; deeper layers see sinks, top prompt blocks, response."""

    def __init__(self, model, prompt, settings):
        super().__init__(model, prompt, settings)
        self.confidence = torch.full((self.length,), -math.inf, dtype=torch.float64)
        self.means = [None] * model.config.layers  # of the keys of each prompt block [H, B, d]
        self.size = settings["prompt_block_size"]
        self.prompt_blocks = -(-self.prompt // self.size)
        self.top_blocks = max(1, math.floor(settings["alpha"] * self.prompt_blocks))
        self.sink_count = max(1, int(settings["sink_fraction"] * self.prompt))

    def saw(self, positions, confidence):
        self.confidence[positions] = confidence.double()

    def sparse(self, layer):
        s = self.settings
        return s["dense_layers"] <= layer < self.model.config.layers - s["dense_tail_layers"]

    def block_means(self, k):
        k = k[:, :self.prompt]
        k = F.pad(k, (0, 0, 0, self.prompt_blocks * self.size - self.prompt))
        count = torch.full((self.prompt_blocks, 1), float(self.size))
        count[-1] = self.prompt - (self.prompt_blocks - 1) * self.size
        return k.view(k.shape[0], self.prompt_blocks, self.size, -1).sum(dim=2) / count

    def forward(self, x, block, step):
        if step == 0:
            self.confidence.fill_(-math.inf)

            def entry(layer, q, k, v):
                if self.sparse(layer):
                    self.means[layer] = self.block_means(k)
                return self.store(layer, q, k, v)
            return self.full(x, entry)

        masked = (x[block.first:block.last] == self.model.config.mask_id).nonzero()[:, 0]
        masked += block.first
        wanted = max(1, math.floor(self.settings["rho"] * block.quota))
        focus = masked[best(self.confidence[masked], min(wanted, len(masked)))].sort().values
        if len(focus) == 0:  # decided early; the schedule still makes its forward, over one row
            active = focus = self.everywhere[block.first:block.first + 1]
        else:
            half = self.settings["window"] // 2
            near = (focus[:, None] + torch.arange(-half, half + 1)).flatten()
            active = near[(near >= 0) & (near < self.length)].unique()
        focus_rows = torch.searchsorted(active, focus)
        touches_prompt = bool(active[0] < self.prompt)
        sinks = None

        def keys(layer, q, k, v):
            nonlocal sinks
            k = self.k[layer].index_copy_(1, active, k)
            v = self.v[layer].index_copy_(1, active, v)
            if layer == self.settings["dense_layers"] - 1:
                p = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[2]), dim=-1)
                sinks = best(p.mean(dim=(0, 1))[:self.prompt], self.sink_count)
            if not self.sparse(layer):
                return k, v, None
            if touches_prompt:
                self.means[layer] = self.block_means(k)
            query = q[:, focus_rows].mean(dim=1)
            relevance = (self.means[layer] @ query[:, :, None])[:, :, 0].mean(dim=0)
            seen = torch.zeros(self.prompt_blocks, dtype=torch.bool)
            seen[best(relevance, self.top_blocks)] = True
            seen = seen.repeat_interleave(self.size)[:self.prompt]
            seen[sinks] = True
            kept = torch.cat((seen.nonzero()[:, 0], self.everywhere[self.prompt:]))
            return k[:, kept], v[:, kept], None
        return active, self.model.hidden(x[active], active, keys)
