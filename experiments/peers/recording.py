# SPDX-License-Identifier: Apache-2.0
"""PyTorch's passes as rows and trajectories in Unmask's formats (unmask.record)."""
import json
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "harness", "python"))

import unmask  # noqa: E402
from methods import decode  # noqa: E402


class AnswerTrace:
    """Told of every forward by the loops, as decode.Trace is; keeps what was decided."""

    def __init__(self, answer, prompt_tokens, mask):
        self.answer, self.first, self.mask, self.rows = answer, prompt_tokens, mask, 0

    def add(self, positions, ids):
        self.rows = len(ids)

    def decide(self, positions, tokens):
        kept = [(p - self.first, t) for p, t in zip(positions.tolist(), tokens.tolist())
                if t != self.mask]  # such a position stays open
        self.answer.step([p for p, _ in kept], [t for _, t in kept], self.rows)


def record_passes(folder, comparison, label, method, settings, row, passes):
    """Decodes all prompts so many times and appends PyTorch's row to folder/rows.jsonl, Unmask's own
    to folder/unmask.jsonl."""
    c, mask = comparison, comparison.model.config.mask_id
    params = {k: v for k, v in settings.items() if k != "gen_length"}
    recorder = unmask.record(folder, program=f"PyTorch {torch.__version__}", method=method,
                             like=row, label=label, params=params)
    for number in range(passes + 1):
        with recorder.timed_pass(warmup=number == 0):
            for prompt in c.prompts:
                answer = recorder.answer(len(prompt), settings["gen_length"])
                trace = AnswerTrace(answer, len(prompt), mask)
                ids = decode(c.model, prompt, method, settings | c.more, trace)
                answer.finish(ids, c.text.stop_ids)
    recorder.write()
    with open(os.path.join(folder, "unmask.jsonl"), "a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")
