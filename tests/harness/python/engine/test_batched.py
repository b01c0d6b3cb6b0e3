# SPDX-License-Identifier: Apache-2.0
"""A rule that is asked once in each forward pass, for all requests of the batch."""

import unittest

import numpy as np

from engine_support import BASES, DRAWN, MODELS, counts, engine, questions, sure


def each_sure(steps, threshold=0.9):
    return [sure(step, threshold) for step in steps]


def all_sure(steps, threshold=0.9):
    """The same by arrays of all requests."""
    ready = steps.confidence >= np.float32(threshold)
    for first, part in zip(steps.begin, steps.parts(steps.confidence)):
        ready[first + np.argmax(part)] = True
    return ready


class Batched(unittest.TestCase):
    def test_it_decides_as_the_compiled_rule_does(self):
        for name, base in BASES.items():
            engine.method(base=base, name=f"each_{base}", batched=True)(each_sure)
            engine.method(base=base, name=f"all_{base}", batched=True)(all_sure)
            for drawn in (False, True):
                for batch_size in (1, 4):
                    settings = {"threshold": 0.6, **(DRAWN[base] if drawn else {})}
                    asked = {"batch_size": batch_size, "gen_length": 32, "seed": 3}
                    compiled = MODELS(name).decode(questions(name, 5), base, settings, **asked)
                    for rule in ("each", "all"):
                        python = MODELS(name).decode(questions(name, 5), f"{rule}_{base}", settings, **asked)
                        self.assertEqual(python.answers_hash, compiled.answers_hash, (name, drawn, batch_size, rule))
                        self.assertEqual(counts(python), counts(compiled))

    def test_one_call_for_each_forward_pass(self):
        calls, fresh = [], []

        @engine.method(base="fast_dllm", batched=True, threshold=0.9, wants=("margin", "history"))
        def together(steps):
            calls.append([step.request for step in steps])
            fresh.extend(step.request for step in steps if not step.memory)
            for step in steps:
                assert len(step.history) == step.memory.get("asked", 0)
                step.memory["asked"] = step.memory.get("asked", 0) + 1
            np.testing.assert_array_equal(steps.margin, np.concatenate([step.margin for step in steps]))
            np.testing.assert_array_equal(steps.parts(steps.position)[-1], steps[-1].position)
            return all_sure(steps)

        result = MODELS("tiny-llada").decode(questions("tiny-llada", 6), together, gen_length=32, batch_size=3)
        self.assertEqual(sorted(fresh), list(range(6)))
        self.assertEqual(max(map(len, calls)), 3)
        for answer in result:
            self.assertEqual(sum(call.count(answer.request) for call in calls), answer.counters["denoise_steps"])
        self.assertLessEqual(len(calls), result.metrics["batched_forwards"])

    def test_wrong_answers_name_their_request(self):
        model, asked = MODELS("tiny-sdar"), questions("tiny-sdar", 3)
        for function, words, request in (
                (lambda steps: [[0]] * (len(steps) + 1), "a list with one answer for each of the 3 requests.*list of 4", None),
                (lambda steps: np.zeros(3, int), "not ndarray", None), (lambda steps: None, "not NoneType", None),
                (lambda steps: np.ones(2, bool), "one bool for each of their", None),
                (lambda steps: [[0], [10**6], [0]], r"step \d+ of request 1: .*has the index 1000000", 1),
                (lambda steps: [[0], [0], engine.Decision(edit=[0])], "request 2: .*does not edit", 2),
                (lambda steps: 1 // 0, r"step 0 of request 0, 0 of request 1, 0 of request 2: .*ZeroDivisionError", None)):
            rule = engine.method(base="block_diffusion", name="wrong_batch", batched=True)(function)
            with self.assertRaisesRegex(engine.RuleError, words) as caught:
                model.decode(asked, rule, gen_length=8, batch_size=3)
            self.assertEqual(caught.exception.request, request)

    def test_bools_of_all_may_not_name_what_is_no_mask(self):
        everything = engine.method(base="llada21", name="everything", batched=True)(lambda steps: ~steps.masked | steps.masked)
        with self.assertRaisesRegex(engine.RuleError, r"of request \d: .*which is no mask"):
            MODELS("tiny-llada2").decode(questions("tiny-llada2", 2), everything, gen_length=16, batch_size=2)
        masks = engine.method(base="llada21", name="masks", batched=True)(lambda steps: steps.masked)
        result = MODELS("tiny-llada2").decode(questions("tiny-llada2", 2), masks, gen_length=16, batch_size=2)
        self.assertEqual([answer.counters["committed"] for answer in result], [answer.length for answer in result])


if __name__ == "__main__":
    unittest.main()
