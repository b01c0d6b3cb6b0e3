# SPDX-License-Identifier: Apache-2.0
"""A loaded model, and what it answers."""

import operator
import re
from typing import NamedTuple

import numpy as np

from unmask.engine import display, steps
from unmask.engine.compiled import _engine
from unmask.engine.errors import EngineError, UserError


class Event(NamedTuple):
    """What a step did to a position of the response: `kind` is unmask, edit, remask or hold; token -1: a mask again."""
    step: int
    position: int
    token: int
    kind: str
    confidence: float


class Trajectory:
    """The events of one answer, in their order: arrays step, position, token, code and confidence, or Event by Event."""

    def __init__(self, columns):
        self.step, self.position, self.token, self.code, self.confidence = columns

    def __len__(self):
        return len(self.step)

    def __getitem__(self, i):
        return Event(int(self.step[i]), int(self.position[i]), int(self.token[i]), steps.KINDS[self.code[i]],
                     float(self.confidence[i]))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __repr__(self):
        return f"<{len(self)} events in {len(set(self.step.tolist()))} steps>"


class Answer:
    """One answer: tokens, text, counters by their names in a row, seconds from admission to finish, and, of
    decode(..., trace=True), its trajectory and candidates (every candidate of every step, as a Trajectory of kind
    keep)."""

    def __init__(self, made):
        self.request, self.tokens, self.text, self.length = made["request"], made["tokens"], made["text"], made["length"]
        self.counters, self.seconds, self.first_seconds = made["counters"], made["seconds"], made["first_seconds"]
        self.trajectory = Trajectory(made["events"]) if "events" in made else None
        self.candidates = Trajectory(made["candidates"]) if "candidates" in made else None
        self.words = {}  # the text of each token that it might have had; of a trace

    def canvas(self):
        """Its positions over the forward passes, which a notebook shows (unmask.engine.display)."""
        if self.candidates is None:
            raise UserError("the answer has no trace; decode(..., trace=True)")
        return display.Canvas(display.columns_of(self.trajectory), display.columns_of(self.candidates), self.length,
                              lambda token: self.words.get(token, str(token)))

    def _repr_html_(self):
        return None if self.candidates is None else self.canvas()._repr_html_()

    def confidences(self):
        """The confidence of each position at each step, [steps, length]; NaN where it was no candidate."""
        if self.candidates is None:
            raise UserError("the answer has no trace; decode(..., trace=True)")
        seen = self.candidates
        grid = np.full((int(seen.step.max(initial=-1)) + 1, self.length), np.nan, np.float32)
        grid[seen.step, seen.position] = seen.confidence
        return grid

    def __repr__(self):
        return f"<answer {self.request}: {len(self.tokens)} tokens in {self.counters['nfe']} forward passes>"


class Result:
    """The answers of one decode, in the order of their prompts, and the metrics that a row of them has."""

    def __init__(self, made):
        self.answers = [Answer(one) for one in made["answers"]]
        self.method, self.params, self.metrics = made["method"], made["params"], made["metrics"]
        self.answers_hash, self.verdict, self.reason = made["answers_hash"], made["verdict"], made["reason"]

    @property
    def seconds(self):
        return self.metrics["wall_seconds"]

    def __len__(self):
        return len(self.answers)

    def __getitem__(self, i):
        return self.answers[i]

    def __iter__(self):
        return iter(self.answers)

    def __repr__(self):
        return f"<{len(self.answers)} answers by {self.method}: {self.metrics.get('nfe', 0):g} forward passes>"


def tokens_of(prompt):
    """Token ids of a list or an array of whole numbers. UserError for anything else."""
    try:
        ids = [operator.index(token) for token in prompt]
    except TypeError:
        raise UserError("a prompt is a text or a list of token ids") from None
    if any(not -2**31 <= token < 2**31 for token in ids):
        raise UserError("a prompt has a token id that is none")
    return ids


class Model:
    """A model in memory: a folder in Hugging Face layout, ORG/NAME of its cache, or the name of an embedded model.

    device, format, kv_type, isa, gemm, graphs, device_check   as in [run] of an experiment
    threads   how many threads compute; default: as many as the program takes
    weights   "random:SEED" for a model of which only config.json is there

    It may be used by several threads, which compute one at a time."""

    def __init__(self, where, device="auto", threads=None, weights="checkpoint", **run):
        if threads is not None and operator.index(threads) < 1:
            raise UserError(f"threads is 1 or more, not {threads}")
        keys = ("format", "kv_type", "isa", "gemm", "graphs", "device_check")
        for key in run:
            if key not in keys:
                raise UserError(f"Model takes no {key!r}; it takes device, threads, weights, {', '.join(keys)}")
        if weights != "checkpoint" and not re.fullmatch("random:[0-9]{1,18}", str(weights)):
            raise UserError(f'weights is "checkpoint" or "random:SEED", not {weights!r}')
        settings = [f"{key}={value}" for key, value in {"device": device, **run}.items()]
        self._model = _engine.Model(str(where), weights, threads or 0, settings)
        self.__dict__.update(self._model.about())

    def decode(self, prompts, method="", params=None, *, preset="", batch_size=1, gen_length=64, seed=0, chat=True,
               thinking=True, trace=False, **settings):
        """Answers prompts: a Result.

        prompts    a text, token ids, or a list of such; a text is a question of a chat unless chat=False
        method     a name, or a rule in Python; default: the method that the model was made for
        params, settings   parameters of the method, over those of the preset: temperature=0.5
        thinking   False: an empty block of thought opens each answer, if the chat template has one
        trace      keeps every event, and every candidate's confidence

        Equal settings give the answers of `unmask run` with the same prompts. A RuleError has in `answers` what was
        complete before it."""
        one = isinstance(prompts, str) or (len(prompts) > 0 and not isinstance(prompts[0], str)
                                           and np.ndim(prompts[0]) == 0)
        asked = [prompts] if one else list(prompts)
        texts = [prompt for prompt in asked if isinstance(prompt, str)]
        encoded = iter(self.encode(texts, chat=chat, thinking=thinking) if texts else [])
        ids = [next(encoded) if isinstance(prompt, str) else tokens_of(prompt) for prompt in asked]
        made = self._model.decode(ids, getattr(method, "name", method), preset, {**(params or {}), **settings},
                                  batch_size, gen_length, seed, trace)
        if made["failed"] is not None:
            problem = made["failed"]
            if hasattr(problem, "answers"):
                problem.answers = [Answer(answer) for answer in made["answers"]]
            raise problem
        result = Result(made)
        if result.verdict == "INVALID":
            raise EngineError(result.reason)
        for answer in result if trace else ():
            shown = set(answer.trajectory.token.tolist()) | set(answer.candidates.token.tolist())
            answer.words = {token: self.text([token], special=True) for token in shown if token >= 0}
        return result

    def encode(self, texts, chat=True, thinking=True):
        """Token ids of a text, or of each of several: as the question of a chat, or with chat=False as it is."""
        if isinstance(texts, str):
            return self._model.encode([texts], chat, thinking)[0]
        return self._model.encode(list(texts), chat, thinking)

    def text(self, tokens, special=False):
        """The text of token ids; special=True: with the texts of special tokens."""
        return self._model.text(tokens_of(tokens), special)

    def logits(self, ids):
        """Logits [n, V] of one forward pass over these token ids, under the model's own attention mask."""
        return self._model.logits(tokens_of(ids))

    def close(self):
        """Frees the weights. Every later call raises."""
        self._model.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<model {self.name} on {self.device}>"
