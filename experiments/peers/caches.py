# SPDX-License-Identifier: Apache-2.0
"""Methods that differ from LLaDA's loop by what they compute and what they keep of K and V."""
import torch
import torch.nn.functional as F

from decode import best


class Method:
    def __init__(self, model, prompt, settings):
        self.model, self.settings = model, settings
        self.prompt = len(prompt)
        self.length = len(prompt) + settings["gen_length"]
        self.everywhere = torch.arange(self.length)
        self.k, self.v = [None] * model.config.layers, [None] * model.config.layers

    def saw(self, positions, confidence):
        """Told the confidence of every candidate of a step."""

    # What the rows of a forward attend to.
    def only_rows(self, layer, q, k, v):
        return k, v, None

    def store(self, layer, q, k, v):
        self.k[layer], self.v[layer] = k.contiguous(), v.contiguous()
        return k, v, None

    def full(self, x, keys):
        return self.everywhere, self.model.hidden(x, slice(0, self.length), keys)

    def overwriting(self, x, positions):
        """Forward of `positions` whose K/V replace theirs in the cache, which they attend to."""
        def keys(layer, q, k, v):
            return (self.k[layer].index_copy_(1, positions, k),
                    self.v[layer].index_copy_(1, positions, v), None)
        return positions, self.model.hidden(x[positions], positions, keys)


class Vanilla(Method):
    """Nie et al. 2025: every forward computes prompt and canvas."""

    def forward(self, x, block, step):
        return self.full(x, self.only_rows)


class FastDllm(Method):
    """Wu et al. 2025: K/V from block entry before (prefix) or around (dual) the current block."""

    def forward(self, x, block, step):
        cache = self.settings["cache"]
        if step == 0 or cache == "none":
            return self.full(x, self.only_rows if cache == "none" else self.store)
        first, last = block.first, block.last if cache == "dual" else self.length

        def keys(layer, q, k, v):
            self.k[layer][:, first:last] = k
            self.v[layer][:, first:last] = v
            return self.k[layer], self.v[layer], None
        return (self.everywhere[first:last],
                self.model.hidden(x[first:last], slice(first, last), keys))


class DkvCache(Method):
    """Ma et al. 2025, "decode": tokens known before the previous step are read from the cache."""

    def __init__(self, model, prompt, settings):
        super().__init__(model, prompt, settings)
        self.before = None  # positions known before the previous step

    def forward(self, x, block, step):
        known = x != self.model.config.mask_id
        if step > 1 and step % self.settings["refresh_interval"] != 0:
            out = self.overwriting(x, (~self.before).nonzero()[:, 0])
        else:
            out = self.full(x, self.store)
        self.before = known
        return out


class SparseDllm(Method):
    """Song et al. 2025: after `delay` full forwards of a block each layer keeps the share of K/V
    outside the block that the block's mean query scores highest."""

    def forward(self, x, block, step):
        delay, first, last = self.settings["delay"], block.first, block.last
        if step < delay:
            return self.full(x, self.only_rows)
        if step == delay:
            outside = torch.cat((self.everywhere[:first], self.everywhere[last:]))

            def keep(layer, q, k, v):
                kept = outside[self.select(q[:, first:last], k[:, outside])]
                self.k[layer], self.v[layer] = k[:, kept], v[:, kept]
                return k, v, None
            return self.full(x, keep)

        def keys(layer, q, k, v):
            return (torch.cat((self.k[layer], k), dim=1), torch.cat((self.v[layer], v), dim=1),
                    None)
        return (self.everywhere[first:last],
                self.model.hidden(x[first:last], slice(first, last), keys))

    def select(self, q, k):
        """Indices along k's second axis, best first: pooled mean over heads of mean query . key."""
        score = (k @ q.mean(dim=1)[:, :, None])[:, :, 0].mean(dim=0)
        width = self.settings["kernel_size"]
        if width:
            score = F.max_pool1d(score[None, None], width, stride=1, padding=width // 2)[0, 0]
        return best(score, int(len(score) * self.settings["retention_ratio"]))
