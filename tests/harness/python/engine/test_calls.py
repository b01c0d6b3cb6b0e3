# SPDX-License-Identifier: Apache-2.0
"""Calls of every kind with arguments of every kind end in a result or in an exception of the package's own; and what
a result shares with NumPy and PyTorch.

$UNMASK_RANDOM_CALLS: how many random calls (300; continuous integration makes 2000 once a week)."""

import os
import pathlib
import random
import tempfile
import unittest

import numpy as np

from engine_support import MODELS, engine, questions

CALLS = int(os.environ.get("UNMASK_RANDOM_CALLS", "300"))


class Anything:
    """Draws arguments: good ones, nearly good ones, and others."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def one_of(self, *values):
        return self.draw.choice(values)

    def mostly(self, good, other):
        """A good argument five times in six, so that calls with several reach what is behind their checks."""
        return good if self.draw.random() < 5 / 6 else other

    def number(self):
        return self.one_of(0, 1, 2, 4, 8, -1, 1.5, 10**6, 2**31, 2**63, 2**70, float("nan"), None, "8", True, [], np.int64(4))

    def text(self):
        return self.one_of("", "Ben has 3 pens.", "\0", "\ud800", "é中", b"x", "<|mask|>", "x" * 3000)

    def ids(self):
        token = self.one_of(1, 5, 2000, -1, 10**7, 2**40, 1.5, None, "5")
        return self.one_of([5, 6, 7], [], [token], [5, token], np.array([5, 6]), np.array([[5, 6]]), np.array([1.5]), {5}, 5)

    def prompts(self):
        return self.one_of(self.text(), self.ids(), [self.ids()], [self.text()], [self.text(), self.ids()], [], None, {})

    def method(self):
        return self.one_of("", "block_diffusion", "block_diffusion", "vanilla", "focus", "nothing", None, 3, len)

    def settings(self):
        name = self.one_of("threshold", "block_length", "temperature", "steps", "x", "", "base")
        return self.one_of({}, {}, {name: self.number()}, {name: self.text()}, {name: [1]}, {3: 4}, [1])

    def function(self):
        return self.one_of(lambda step: [0], lambda step: step.masked, lambda step, n=2: [0], lambda: [0], lambda step, n: 1,
                           len, None, 3)


def calls(any_, model, folder):
    """Each kind of call, as what makes one."""
    number, text = any_.number, any_.text

    def defined():
        rule = engine.method(any_.mostly("block_diffusion", any_.method()), wants=any_.mostly("logits", any_.one_of(["x"], 3)),
                             name=any_.mostly("drawn", any_.one_of(None, "Bad", 3)), limit=any_.mostly(5, number()),
                             batched=any_.mostly(False, True), **any_.mostly({}, {"threshold": number()}))
        return model.decode([[5, 6, 7]], rule(any_.mostly(lambda step: [0], any_.function())), gen_length=4)

    def over():
        functions = {any_.one_of("pace", "rows"): any_.mostly(lambda step: None, any_.function())}
        name, base = any_.mostly("laid", any_.one_of("", None)), any_.mostly("block_diffusion", any_.method())
        return model.decode([[5, 6, 7]], engine.over(base, name, **functions), gen_length=4)

    def ran():
        experiment = {
            "run": any_.mostly({"repetitions": 1, "warmup": 0, "gen_length": 4}, any_.one_of({"gen_length": number()}, number())),
            "model": any_.mostly([{"path": "models/tiny-sdar"}], any_.one_of([{"path": text()}], [], number())),
            "workload": any_.mostly([{"tasks": ["word_problem"], "limit": 1}], any_.one_of([{"limit": number()}], [])),
            "method": any_.mostly([{"name": "block_diffusion"}], any_.one_of([{"name": any_.method()}], [{}]))}
        return engine.run(experiment, folder / "run", progress=False, fresh=True)

    return {
        "Model": lambda: engine.Model(
            any_.mostly("tiny-sdar", any_.one_of("tiny-sdra", "", text(), 3, None)), device=any_.mostly("cpu", "tpu"),
            threads=any_.mostly(1, number()), weights=any_.mostly("checkpoint", any_.one_of("x", "random:3", "random:" + "9" * 30))),
        "decode": lambda: model.decode(
            any_.mostly([[5, 6, 7]], any_.prompts()), any_.mostly("block_diffusion", any_.method()),
            any_.mostly({}, any_.settings()), gen_length=any_.mostly(4, number()), batch_size=any_.mostly(2, number()),
            seed=any_.mostly(1, number()), preset=any_.mostly("", any_.one_of("hf", "x", 3)), trace=any_.mostly(False, True)),
        "logits": lambda: model.logits(any_.ids()), "text": lambda: model.text(any_.ids(), special=any_.one_of(True, False)),
        "encode": lambda: model.encode(any_.one_of(text(), [text()], 3, None), chat=any_.one_of(True, False)),
        "show": lambda: engine.show(any_.method()), "method": defined, "over": over, "run": ran,
    }


class Calls(unittest.TestCase):
    def test_random_calls_end_in_a_result_or_an_exception(self):
        any_, model, ends = Anything(7), MODELS("tiny-sdar"), {}
        with tempfile.TemporaryDirectory() as folder:
            kinds = calls(any_, model, pathlib.Path(folder))
            for i in range(CALLS):
                kind = any_.one_of(*kinds)
                try:
                    kinds[kind]()
                    end = "result"
                except (engine.UserError, TypeError) as problem:
                    self.assertNotIn("internal error", str(problem), (i, kind))
                    end = "exception"
                ends[kind, end] = ends.get((kind, end), 0) + 1
        self.assertEqual(sum(ends.values()), CALLS)
        for kind in kinds:  # each of them both ways, so that neither is all that was tried
            self.assertTrue(ends.get((kind, "result")) and ends.get((kind, "exception")), (kind, ends))
        self.assertEqual(len(model.decode([[5, 6, 7]], "block_diffusion", gen_length=4)), 1)

    def test_random_answers_of_a_rule_end_in_a_result_or_a_sentence(self):
        draw = random.Random(7)

        def anything(n):
            kind = draw.randrange(12)
            return [None, [], [0], [draw.randrange(-2, n + 2)], np.array([draw.random() * n]), np.zeros(n, bool),
                    np.ones(n, bool), np.full(draw.randrange(3), draw.choice([np.nan, np.inf, 1.0])),
                    {"unmask": [0]}, "x", engine.Decision(*[[draw.randrange(n)] for _ in range(3)]),
                    engine.Decision(unmask=[0], tokens=np.full(n, draw.randrange(-3, 3000)))][kind]

        rule = engine.method(base="block_diffusion", name="anything")(lambda step: anything(len(step)))
        model, asked = MODELS("tiny-sdar"), questions("tiny-sdar", 1)
        ends = {"answer": 0, "error": 0}
        for _ in range(CALLS):
            try:
                model.decode(asked, rule, gen_length=4)
                ends["answer"] += 1
            except engine.EngineError:
                ends["error"] += 1
        self.assertGreater(ends["error"], CALLS / 6)
        self.assertGreater(ends["answer"], CALLS / 60)
        self.assertEqual(len(model.decode(asked, "block_diffusion", gen_length=4)), 1)


class Arrays(unittest.TestCase):
    """Arrays of a result are memory of the engine: NumPy, and whoever speaks DLPack, takes them without a copy."""

    def test_logits_by_dlpack(self):
        model, kept = MODELS("tiny-sdar"), []
        logits = model.logits([5, 6, 7])
        taken = np.from_dlpack(logits)
        self.assertTrue(np.shares_memory(taken, logits))
        expected = taken.copy()
        del logits
        model.logits([7, 6, 5])  # memory that was let go of would be written now
        np.testing.assert_array_equal(taken, expected)

        @engine.method(base="block_diffusion", wants=("logits", "hidden"))
        def keeps(step):
            for rows in (step.logits, step.hidden):
                view = np.from_dlpack(rows)
                assert np.shares_memory(view, rows)
                kept.append((view, view.copy()))
            return [int(np.argmax(step.confidence))]

        model.decode([[5, 6, 7]], keeps, gen_length=8)
        self.assertGreater(len(kept), 16)
        for view, then in kept:
            np.testing.assert_array_equal(view, then)

    def test_torch_takes_logits_without_a_copy(self):
        try:
            import torch  # pylint: disable=import-outside-toplevel
        except ModuleNotFoundError:
            self.skipTest("NOT RUN: needs the Python package torch")
        logits = MODELS("tiny-sdar").logits([5, 6, 7])
        taken = torch.from_dlpack(logits)
        self.assertEqual((taken.data_ptr(), tuple(taken.shape)), (logits.ctypes.data, logits.shape))
        taken[0, 0] = 3
        self.assertEqual(logits[0, 0], 3)


if __name__ == "__main__":
    unittest.main()
