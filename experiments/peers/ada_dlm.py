# SPDX-License-Identifier: Apache-2.0
"""Ada-DLM (a reading of the paper; there is no official code): a masked token is decided when the
history of its confidence is closer to that of the surest token than to that of rank K + 1. K/V of
a decided token is renewed once, in the next forward, then only read (execution row_compact)."""
import torch

from caches import Method
from decode import best, judge, new_canvas

MASKED, DECIDED, CACHED = 0, 1, 2


def freeze(history, rank):
    """Which of the active tokens are decided; history [A, m], newest first. Equality stays active;
    if nothing would be decided, the surest token is."""
    history = history.double()  # near 1 the distances differ in the last bits of a float
    order = best(history[:, 0], len(history))
    high = history[order[0]]
    boundary = history[order[min(rank, len(order) - 1)]]
    take = ((history - high) ** 2).sum(dim=1) < ((history - boundary) ** 2).sum(dim=1)
    if not bool(take.any()):
        take[order[0]] = True
    return take


class AdaDlm(Method):
    def decode(self, prompt, trace=None):
        s, p, n = self.settings, self.prompt, self.length
        x = new_canvas(self.model, prompt, s["gen_length"])
        state = torch.full((n,), CACHED)
        state[p:] = MASKED
        history = torch.zeros(n, s["history"])
        scope = s["block_length"] if s["scope"] == "block" else s["gen_length"]
        first, last = p, min(n, p + scope)
        rank = max(1, int(s["k"] * (last - first) + 0.5))
        for step in range(s["steps"]):
            if step == 0:
                positions, hidden = self.full(x, self.store)
            else:
                positions, hidden = self.overwriting(x, (state != CACHED).nonzero()[:, 0])
            if trace:
                trace.add(positions, x[positions])
            state[state == DECIDED] = CACHED
            final = step + 1 == s["steps"]
            low, high = (p, n) if final else (first, last)
            rows = ((state[positions] == MASKED) & (positions >= low)
                    & (positions < high)).nonzero()[:, 0]
            at = positions[rows]
            token, confidence = judge(self.model, hidden, rows, s.get("confidence"),
                                      s.get("every_row"))
            history[at] = torch.cat((confidence[:, None], history[at, :-1]), dim=1)
            take = torch.ones(len(at), dtype=torch.bool) if final else freeze(history[at], rank)
            x[at[take]] = token[take]
            if trace:
                trace.decide(at[take], token[take])
            state[at[take]] = DECIDED
            while last < n and not bool((state[first:last] == MASKED).any()):
                first, last = last, min(n, last + scope)
                rank = max(1, int(s["k"] * (last - first) + 0.5))
            if not bool((state == MASKED).any()):
                break
        return x[p:].tolist()
