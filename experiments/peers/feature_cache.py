# SPDX-License-Identifier: Apache-2.0
"""dLLM-Cache: reuse of what whole layers put out."""
import torch
import torch.nn.functional as F

from caches import Method
from llada import attend


class DllmCache(Method):
    """Liu et al. 2025: K, V and the outputs of attention and feed-forward are reused between
    refreshes of the prompt (every K_p forwards) and of the response (every K_r). In between only
    the response rows whose V moved most are recomputed. The first layer is always computed."""

    def __init__(self, model, prompt, settings):
        super().__init__(model, prompt, settings)
        self.forwards = 0
        self.attention = [None] * model.config.layers
        self.feed = [None] * model.config.layers
        ratio = settings["transfer_ratio"]
        self.moving = int(settings["gen_length"] * ratio) if 0 < ratio <= 1 else 0

    def forward(self, x, block, step):
        model, cos, sin = self.model, *self.model.rope(slice(0, self.length))
        due_prompt = self.forwards % self.settings["prompt_interval_kp"] == 0
        due_response = self.forwards % self.settings["response_interval_kr"] == 0
        self.forwards += 1
        h = model.embed(x)
        for layer, b in enumerate(model.blocks):
            if layer == 0 or (due_prompt and due_response):
                h = self.compute(layer, b, h, cos, sin)
            else:
                h = self.reuse(layer, b, h, cos, sin, due_prompt, due_response)
        return self.everywhere, h

    def compute(self, layer, b, h, cos, sin):
        q, k, v = b.project(h, cos, sin)
        self.k[layer], self.v[layer] = k.contiguous(), v.contiguous()
        self.attention[layer] = b.attn_out(attend(q, k, v))
        h = h + self.attention[layer]
        self.feed[layer] = b.feed_forward(h)
        return h + self.feed[layer]

    def reuse(self, layer, b, h, cos, sin, due_prompt, due_response):
        p, k_all, v_all = self.prompt, self.k[layer], self.v[layer]
        rows = [self.everywhere[:p]] if due_prompt else []
        if due_response:
            rows.append(self.everywhere[p:])
        elif self.moving > 0:
            rows.append(self.most_moved(b, h, v_all))
        if not rows:
            return h + self.attention[layer] + self.feed[layer]
        rows = torch.cat(rows)
        q, k, v = b.project(h[rows], cos[rows], sin[rows])
        k_all[:, rows] = k
        v_all[:, rows] = v
        self.attention[layer][rows] = b.attn_out(attend(q, k_all, v_all))
        h = h + self.attention[layer]
        self.feed[layer][rows] = b.feed_forward(h[rows])
        return h + self.feed[layer]

    def most_moved(self, b, h, v_all):
        """The response rows whose V is least similar to the stored one. All stored V is renewed."""
        p = self.prompt
        v = b.v_proj(b.attn_norm(h[p:]))
        stored = v_all[:, p:].transpose(0, 1).flatten(1)
        similarity = F.cosine_similarity(v, stored, dim=-1)
        v_all[:, p:] = b.split(v)
        return p + torch.sort(similarity, stable=True).indices[:self.moving]
