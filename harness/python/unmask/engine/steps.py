# SPDX-License-Identifier: Apache-2.0
"""What a rule sees of a step, and what it may answer."""

import difflib
import operator
import typing

import numpy as np

KINDS = ("keep", "unmask", "edit", "remask", "hold")  # by the decisions' numbers
KEEP, UNMASK, EDIT, REMASK = range(4)
NONE = ()  # of a Decision: no candidate
WANTS = ("margin", "entropy", "logits", "hidden", "history")  # what a step has only if the method wants it


class Decision:
    """What a rule does with its candidates; each a list of indices or one bool for each candidate.

    unmask  masks that get their token
    edit    unmasked positions that get another token, if the base allows it (step.may_edit)
    remask  unmasked positions that become masks again, if the base allows it (step.may_remask)
    tokens  one token id for each candidate, instead of the model's own choice (step.token)"""

    __slots__ = ("unmask", "edit", "remask", "tokens")

    def __init__(self, unmask=NONE, edit=NONE, remask=NONE, tokens=None):
        self.unmask, self.edit, self.remask, self.tokens = unmask, edit, remask, tokens


class Step:
    """One request in one forward pass. Arrays have an entry for each candidate, C in all, by ascending position.

    request, slot      number of the request; its batch slot
    step, block_step   forward passes that the request has had before; those of this block
    quota              tokens that the base's schedule wants unmasked (0: it has no wish)
    block              first and last position of the block in work, half open
    length             positions of the response; prompt_length those before it
    position           [C] int64, counted from the response's first position
    token, confidence  [C] the model's choice and its probability
    masked, current    [C] whether the position is a mask, and its token (-1: a mask)
    margin, entropy    [C] best less second best probability; nats. Only if the method wants them
    logits, hidden     [C, V], [C, D]. Only if the method wants them
    history            what earlier steps showed (History). Only if the method wants it
    memory             a dict that is the request's own, empty at its first step
    random             numpy's generator, from the request's seed and the step
    may_edit, may_remask  which decisions the base's loop carries out

    A function for rows or pace sees the positions of the step's range instead of candidates, with masked and current;
    one for rows also which rows the base would compute (computed) and which have K/V already (stored)."""

    __slots__ = ("slot", "request", "fresh", "step", "block_step", "quota", "block", "length", "prompt_length", "seed",
                 "position", "token", "confidence", "masked", "current", "margin", "entropy", "logits", "hidden",
                 "history", "memory", "may_edit", "may_remask", "computed", "stored", "all_masked", "_random")

    def __init__(self, slot, request, fresh, step, block_step, quota, block_first, block_last, length, prompt_length,
                 seed):
        self.slot, self.request, self.fresh, self.step, self.block_step = slot, request, bool(fresh), step, block_step
        self.quota, self.block, self.length = quota, (block_first, block_last), length
        self.prompt_length, self.seed = prompt_length, seed
        self._random = None

    def see(self, position, token, confidence, masked, current, margin, entropy, logits, hidden):
        """Takes the candidates of this step."""
        self.position, self.token, self.confidence = position, token, confidence
        self.all_masked = masked is None
        if not self.all_masked:  # else they are made when they are asked for
            self.masked, self.current = masked.view(bool), current
        if entropy is not None:
            self.entropy = -entropy
        for name, value in (("margin", margin), ("logits", logits), ("hidden", hidden)):
            if value is not None:
                setattr(self, name, value)

    def __getattr__(self, name):
        if name == "masked":
            self.masked = np.ones(len(self.position), bool)
            return self.masked
        if name == "current":
            self.current = np.full(len(self.position), -1, np.int32)
            return self.current
        if name in WANTS:
            raise AttributeError(f'step.{name} needs wants=("{name}",) in @engine.method')
        near = difflib.get_close_matches(name, [known for known in self.__slots__ if known != name], 1)
        raise AttributeError(f"a step has no {name} here" + (f"; did you mean {near[0]}?" if near else ""))

    def see_range(self, position, masked, current):
        """Takes the positions that a function for another slot is asked about."""
        self.position, self.masked, self.current = position, masked.view(bool), current

    @property
    def random(self):
        if self._random is None:
            self._random = np.random.default_rng((self.seed, self.step))
        return self._random

    def __len__(self):
        return len(self.position)

    def __repr__(self):
        return (f"<step {self.step} of request {self.request}: {len(self.position)} candidates in block "
                f"{self.block[0]}:{self.block[1]} of {self.length} positions, quota {self.quota}>")


class Batch(list):
    """The Steps of all requests that one forward pass decides for, by ascending batch slot: of a rule with batched=True.

    position, token, confidence, masked, current, margin, entropy, logits, hidden
           those of all requests, one after the other: N entries in all. They are made when they are first asked for
    begin  [requests + 1]: the candidates of request i are begin[i] to begin[i + 1]"""

    COLUMNS = ("position", "token", "confidence", "masked", "current", "margin", "entropy", "logits", "hidden")

    def __getattr__(self, name):
        if name == "begin":
            value = np.cumsum([0] + [len(step) for step in self])
        elif name in self.COLUMNS:
            value = np.concatenate([getattr(step, name) for step in self])
        else:
            raise AttributeError(f"a Batch has no {name!r}; each of its steps may")
        setattr(self, name, value)
        return value

    def parts(self, values):
        """The values of each request, of values [N] of all."""
        return [values[first:last] for first, last in zip(self.begin[:-1].tolist(), self.begin[1:].tolist())]

    def __repr__(self):
        return f"<steps of {len(self)} requests: {self.begin[-1]} candidates>"


class Pace(typing.NamedTuple):
    """How far a step reaches: so many positions from the first mask on may be unmasked, and so many tokens are wanted.
    None: as the base's schedule says."""
    reach: int | None = None
    quota: int | None = None


class History:
    """Confidences and tokens of a request's earlier steps, [steps, length], the last step last. A position that was
    no candidate has confidence NaN and token -1."""

    def __init__(self, most):
        self.most, self.rows = most, []

    def add(self, step):
        confidence = np.full(step.length, np.nan, np.float32)
        token = np.full(step.length, -1, np.int32)
        confidence[step.position], token[step.position] = step.confidence, step.token
        self.rows = (self.rows + [(confidence, token)])[-self.most:]

    def _stacked(self, column, length, dtype):
        return np.stack([row[column] for row in self.rows]) if self.rows else np.empty((0, length), dtype)

    @property
    def confidence(self):
        return self._stacked(0, 0, np.float32)

    @property
    def token(self):
        return self._stacked(1, 0, np.int32)

    def __len__(self):
        return len(self.rows)


def chosen(answer, count, what):
    """The candidates that an answer names, as bools [count]. ValueError says what is wrong with it."""
    picked = np.asarray(answer)
    if picked.dtype == object or picked.dtype.kind not in "buif" or picked.ndim > 1:
        raise ValueError(f"{what} is one bool for each candidate or a list of their indices, not "
                         f"{type(answer).__name__} of shape {picked.shape}")
    if picked.dtype.kind == "b":
        if picked.shape != (count,):
            raise ValueError(f"{what} has {picked.size} bools of shape {picked.shape} for {count} candidates")
        return picked
    picked = np.atleast_1d(picked)
    if picked.dtype.kind == "f" and picked.size:
        if not np.isfinite(picked).all() or (picked != np.floor(picked)).any():
            raise ValueError(f"{what} has an index that is no whole number")
    flags = np.zeros(count, bool)
    listed = picked.tolist()  # few: plain Python is faster than numpy here
    for index in listed:
        if not 0 <= index < count:
            raise ValueError(f"{what} has the index {int(index)}; {count} candidates have indices from 0 to {count - 1} "
                             "(of candidates, not positions)")
    if len(set(listed)) != len(listed):
        raise ValueError(f"{what} names a candidate twice")
    flags[picked.astype(np.int64)] = True
    return flags


def decisions(step, answer, vocabulary=None):
    """A rule's answer as [C] uint8 decisions and [C] int32 tokens or None. ValueError says what is wrong with it."""
    count = len(step.position)
    if answer is None:
        raise ValueError("it returned None; [] unmasks nothing")
    if not isinstance(answer, Decision):
        if step.all_masked:  # nothing that the checks below could find
            return chosen(answer, count, "unmask").view(np.uint8), None
        answer = Decision(unmask=answer)
    what = np.zeros(count, np.uint8)
    for code, name in ((UNMASK, "unmask"), (EDIT, "edit"), (REMASK, "remask")):
        named = getattr(answer, name)
        if named is NONE:
            continue
        flags = chosen(named, count, name)
        if not flags.any():
            continue
        if name == "edit" and not step.may_edit or name == "remask" and not step.may_remask:
            raise ValueError(f"its base does not {name}")
        if (flags & (step.masked != (code == UNMASK))).any():
            at = step.position[flags & (step.masked != (code == UNMASK))][0]
            raise ValueError(f"{name} names position {at}, which is {'no' if code == UNMASK else 'a'} mask")
        if what[flags].any():
            raise ValueError(f"position {step.position[flags & (what != 0)][0]} gets two decisions")
        what[flags] = code
    tokens = answer.tokens
    if tokens is not None:
        tokens = np.asarray(tokens)
        if tokens.shape != (count,) or tokens.dtype.kind not in "iu":
            raise ValueError(f"tokens has one id for each of the {count} candidates, not "
                             f"{tokens.dtype} of shape {tokens.shape}")
        used = tokens[(what == UNMASK) | (what == EDIT)]
        if used.size and (used.min() < 0 or used.max() > 2**31 - 1 or vocabulary and used.max() >= vocabulary):
            raise ValueError("tokens has an id outside the vocabulary")
        tokens = np.ascontiguousarray(tokens, np.int32)
    return what, tokens


def flags_of_all(batch, answer):
    """The answer of a rule for a Batch as [N] uint8 decisions, if it is one bool for each candidate of all requests and
    all that it names are masks; else None."""
    if not isinstance(answer, np.ndarray) or answer.dtype.kind != "b" or answer.shape != (batch.begin[-1],):
        return None
    return None if (answer & ~batch.masked).any() else np.where(answer, np.uint8(UNMASK), np.uint8(KEEP))


def answers_of_all(batch, answer):
    """The answer of a rule for a Batch as one answer for each request. ValueError for one that is neither that nor one
    bool for each candidate of all."""
    if isinstance(answer, (list, tuple)) and len(answer) == len(batch):
        return answer
    if isinstance(answer, np.ndarray) and answer.dtype.kind == "b" and answer.shape == (batch.begin[-1],):
        return batch.parts(answer)
    has = f" of {len(answer)}" if isinstance(answer, (list, tuple)) else ""
    raise ValueError(f"of a batch it is a list with one answer for each of the {len(batch)} requests, or an array with one "
                     f"bool for each of their {batch.begin[-1]} candidates, not {type(answer).__name__}{has}")


def rows_of(step, answer, first, last, shift):
    """The answer of a function for rows as one uint8 for each position of the range. Masks of [first, last) may be
    unmasked, each by the row `shift` positions before it."""
    if answer is None:
        answer = step.computed
    flags = chosen(answer, len(step.position), "rows")
    missing = ~flags & ~step.stored
    if missing.any():
        raise ValueError(f"rows leaves out position {step.position[missing][0]}, which was never computed: "
                         "compute each once (step.stored)")
    masks = step.masked & (step.position >= first) & (step.position < last)
    if not (masks[shift:] & flags[:len(flags) - shift]).any():
        raise ValueError("rows computes no mask, so that nothing can be unmasked")
    return np.ascontiguousarray(flags.view(np.uint8))


def pace_of(answer):
    """The answer of a function for pace as two numbers, -1 for what stays the base's."""
    pace = Pace() if answer is None else answer if isinstance(answer, Pace) else Pace(reach=answer)
    try:
        reach, quota = (-1 if value is None else operator.index(value) for value in pace)
    except TypeError:
        raise ValueError(f"it is a number of positions, a Pace or None, not {type(answer).__name__}") from None
    if pace.reach is not None and reach < 1 or pace.quota is not None and quota < 0 or max(reach, quota) >= 2**31:
        raise ValueError(f"a step reaches 1 position or more and wants 0 tokens or more, not {pace}")
    return reach, quota
