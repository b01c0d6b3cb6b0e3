# SPDX-License-Identifier: Apache-2.0
"""A rule in Python decides as the compiled rule does that it repeats, and bad rules end with their own words."""

import pathlib
import sys
import tempfile
import unittest

import numpy as np

from engine_support import BASES, DRAWN, MODELS, counts, engine, questions, rising, rows_in, run_program, sure


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for base in BASES.values():
            engine.method(base=base, name=f"sure_{base}")(sure)
            engine.method(base=base, name=f"rising_{base}", **{"threshold": 0.9})(rising)

    def test_the_compiled_threshold_rule_in_python(self):
        for name, base in BASES.items():
            for drawn in (False, True):
                for batch_size in (1, 4):
                    settings = {"threshold": 0.6, **(DRAWN[base] if drawn else {})}
                    asked = {"batch_size": batch_size, "gen_length": 32, "seed": 3}
                    compiled = MODELS(name).decode(questions(name, 5), base, settings, **asked)
                    python = MODELS(name).decode(questions(name, 5), f"sure_{base}", settings, **asked)
                    where = (name, drawn, batch_size)
                    self.assertEqual(python.answers_hash, compiled.answers_hash, where)
                    self.assertEqual(counts(python), counts(compiled), where)
                    self.assertGreater(python.metrics["rule_seconds"], 0)

    def test_a_batch_of_any_size_answers_alike(self):
        for name, base in BASES.items():
            alone = MODELS(name).decode(questions(name, 5), f"rising_{base}", gen_length=32)
            together = MODELS(name).decode(questions(name, 5), f"rising_{base}", gen_length=32, batch_size=4)
            self.assertEqual(alone.answers_hash, together.answers_hash)
            self.assertEqual([a.counters["nfe"] for a in alone], [a.counters["nfe"] for a in together])

    def test_the_events_of_rising_are_what_its_words_say(self):
        """Computed anew, in plain loops, from the confidences that the trace holds."""
        answer = MODELS("tiny-sdar").decode(questions("tiny-sdar", 1), "rising_block_diffusion", gen_length=24,
                                            trace=True)[0]
        last, rose, expected = {}, {}, []
        seen = answer.candidates
        for step in sorted(set(seen.step.tolist())):
            now = [(int(p), float(c)) for s, p, c in zip(seen.step, seen.position, seen.confidence) if s == step]
            for position, confidence in now:
                rose[position] = rose.get(position, 0) + 1 if confidence > last.get(position, 2.0) else 0
                last[position] = confidence
            ordered = sorted(now, key=lambda one: -one[1])
            ready = [p for p, _ in ordered if rose[p] >= 2][:4] or [ordered[0][0]]
            expected += [(step, position) for position in sorted(ready)]
        self.assertEqual([(e.step, e.position) for e in answer.trajectory], expected)

    def test_what_a_step_shows(self):
        seen = []

        @engine.method(base="block_diffusion", wants=engine.rules.WANTS)
        def looks(step):
            seen.append(step)
            return [int(np.argmax(step.confidence))]

        result = MODELS("tiny-sdar").decode(questions("tiny-sdar", 1), looks, gen_length=16)
        self.assertEqual(result[0].counters["committed"], len(seen))
        for at, step in enumerate(seen):  # kept beyond their call: the arrays are the rule's own
            scores = np.exp(step.logits.astype(np.float64))
            scores /= scores.sum(axis=1, keepdims=True)
            best = np.sort(scores, axis=1)[:, ::-1]
            np.testing.assert_array_equal(step.logits.argmax(axis=1), step.token)
            np.testing.assert_allclose(step.confidence, best[:, 0], rtol=1e-4)
            np.testing.assert_allclose(step.margin, best[:, 0] - best[:, 1], atol=1e-4)
            np.testing.assert_allclose(step.entropy, -(scores * np.log(scores + 1e-10)).sum(axis=1), atol=1e-3)
            self.assertEqual(step.hidden.shape, (len(step), MODELS("tiny-sdar").hidden))
            self.assertLessEqual(len(step.history), 16)
            self.assertTrue((np.diff(step.position) > 0).all() and step.masked.all())
            self.assertTrue(step.block[0] <= step.position[0] <= step.position[-1] < step.block[1])
            if at:
                self.assertIs(step.memory, seen[0].memory)

    def test_every_product_with_the_head_is_counted(self):
        """By hand: of each candidate, the base's own product, one more for margin or entropy, and one for logits."""
        seen, flops, model = [], {}, MODELS("tiny-sdar")
        row = 2 * model.vocabulary * model.hidden
        for wants, products in (((), 1), (("margin",), 2), (("margin", "entropy"), 2), (("logits",), 2),
                                (("entropy", "logits"), 3), (("hidden", "history"), 1)):
            def looks(step):
                seen.append(len(step))
                return [0]

            seen.clear()
            rule = engine.method(base="block_diffusion", name="looks", wants=wants)(looks)
            answer = model.decode(questions("tiny-sdar", 1), rule, gen_length=16)[0]
            self.assertEqual(answer.counters["head_rows"], products * sum(seen), wants)
            flops[wants] = answer.counters["flops"]
            self.assertEqual(flops[wants] - flops[()], (products - 1) * sum(seen) * row, wants)

    def test_the_kernels_of_a_gpu_show_the_same(self):
        """Emulated: what a step shows is in the host's memory there too."""
        seen = {}

        @engine.method(base="block_diffusion", wants=("margin", "logits", "hidden"))
        def looks(step):
            seen.setdefault(device, []).append(step)
            return sure(step)

        answers = {}
        for device in ("cpu", "cuda-emulated"):
            model = engine.Model("tiny-sdar", device=device, threads=1)
            answers[device] = model.decode([[5, 6, 7]], looks, gen_length=8, block_length=8)[0].tokens.tolist()
        self.assertEqual(answers["cpu"], answers["cuda-emulated"])
        for one, other in zip(*seen.values(), strict=True):
            np.testing.assert_array_equal(one.token, other.token)
            for name in ("confidence", "margin", "logits", "hidden"):
                np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=2e-3, atol=2e-3)

    def test_a_request_has_a_memory_of_its_own(self):
        fresh = []

        @engine.method(base="fast_dllm")
        def remembers(step):
            if not step.memory:
                fresh.append(step.request)
            step.memory["seen"] = step.memory.get("seen", 0) + 1
            return sure(step)

        MODELS("tiny-llada").decode(questions("tiny-llada", 6), remembers, gen_length=32, batch_size=2)
        self.assertEqual(sorted(fresh), list(range(6)))

    def test_parameters_come_from_the_signature(self):
        from typing import Annotated, Literal  # pylint: disable=import-outside-toplevel

        @engine.method(base="block_diffusion", block_length=8)
        def typed(step, share: Annotated[float, engine.between(0, 1, "of the candidates")] = 1,
                  order: Literal["first", "best"] = "best", all_of_them: bool = False, most: int = 2):
            assert isinstance(share, float) and isinstance(most, int)
            return [0] if order == "first" else [int(np.argmax(step.confidence))]

        told = {p["name"]: p for p in engine.show(typed).parameters}
        self.assertEqual((told["share"]["default"], told["share"]["low"], told["share"]["high"]), (1.0, 0.0, 1.0))
        self.assertEqual(told["share"]["meaning"], "of the candidates")
        self.assertEqual(told["order"]["choices"], ["first", "best"])
        self.assertEqual(told["block_length"]["default"], 8)
        self.assertEqual((told["base"]["default"], told["code"]["choices"]), ("block_diffusion", [typed.code]))
        model = MODELS("tiny-sdar")
        asked = questions("tiny-sdar", 1)
        self.assertEqual(model.decode(asked, typed, order="first", gen_length=8).params["order"], "first")
        for wrong, words in (({"share": 2.0}, "share"), ({"order": "last"}, "order"), ({"most": 1.5}, "most"),
                             ({"ordr": "best"}, "order"), ({"code": "x"}, "code")):
            with self.assertRaisesRegex(engine.UserError, words):
                model.decode(asked, typed, gen_length=8, **wrong)

    def test_an_edited_rule_is_another_method(self):
        def first(step):
            return [0]

        def last(step):
            return [len(step) - 1]

        one = engine.method(base="block_diffusion", name="edited")(first)
        before = MODELS("tiny-sdar").decode(questions("tiny-sdar", 1), "edited", gen_length=8, trace=True)
        two = engine.method(base="block_diffusion", name="edited")(last)
        after = MODELS("tiny-sdar").decode(questions("tiny-sdar", 1), "edited", gen_length=8, trace=True)
        self.assertNotEqual(one.code, two.code)
        self.assertNotEqual(before.params["code"], after.params["code"])
        self.assertNotEqual(before[0].trajectory.position.tolist(), after[0].trajectory.position.tolist())

    def test_the_code_holds_what_the_rule_reads(self):
        def made(number, text):
            later = 0 if number else None

            def helper(step):
                return [number]

            def rule(step):
                return helper(step) if text else [later]
            if number == 2:
                del later
            return engine.method(base="block_diffusion", name="reads")(rule).code

        self.assertEqual(made(0, "a"), made(0, "a"))
        self.assertEqual(len({made(0, "a"), made(1, "a"), made(0, "b"), made(2, "a")}), 4)

    def test_a_rule_that_edits_and_remasks(self):
        @engine.method(base="llada21")
        def edits(step):
            if not step.may_edit or step.may_remask:
                raise AssertionError
            changed = np.flatnonzero(~step.masked & (step.token != step.current))
            step.memory["edits"] = step.memory.get("edits", 0) + len(changed)
            masked = np.flatnonzero(step.masked)
            return engine.Decision(unmask=masked[:2], edit=changed if step.memory["edits"] < 40 else [])

        @engine.method(base="wino")
        def remasks(step):
            masked, done = np.flatnonzero(step.masked), np.flatnonzero(~step.masked)
            back = done[:1] if len(done) > 3 and not step.memory else []
            step.memory["back"] = step.memory.get("back", 0) + len(back) if len(back) or step.memory else 0
            if len(back) == 0:
                step.memory.pop("back", None) if not step.memory.get("back") else None
            return engine.Decision(unmask=masked[:3], remask=back)

        model = MODELS("tiny-llada2")
        result = model.decode(questions("tiny-llada2", 1), edits, gen_length=32, trace=True)
        kinds = [event.kind for event in result[0].trajectory]
        self.assertEqual(result[0].counters["replaced"], kinds.count("edit"))
        result = MODELS("tiny-llada").decode(questions("tiny-llada", 1), remasks, gen_length=32, trace=True)
        kinds = [event.kind for event in result[0].trajectory]
        self.assertEqual((result[0].counters["reopened"], kinds.count("remask")), (1, 1))

    def test_wrong_rules_are_told_by_their_own_lines(self):
        answers = {
            "None": (lambda step: None, "returned None"),
            "too many bools": (lambda step: np.ones(len(step) + 1, bool), "bools of shape"),
            "negative": (lambda step: [-1], "has the index -1"),
            "outside": (lambda step: [len(step)], r"have indices from 0 to \d+ \(of candidates, not positions\)"),
            "twice": (lambda step: [0, 0], "twice"),
            "nan": (lambda step: [float("nan")], "no whole number"),
            "text": (lambda step: "all", "one bool for each candidate"),
            "matrix": (lambda step: np.zeros((2, 2), int), "one bool for each candidate"),
            "edit": (lambda step: engine.Decision(edit=[0]), "does not edit"),
            "tokens": (lambda step: engine.Decision(unmask=[0], tokens=[10**6] * len(step)), "outside the vocabulary"),
            "raises": (lambda step: 1 // 0, "ZeroDivisionError"),
            "misspelt": (lambda step: step.confidance, "a step has no confidance here; did you mean confidence"),
            **{want: (lambda step, want=want: getattr(step, want), rf'step.{want} needs wants=\("{want}",\) in @engine.method')
               for want in ("margin", "entropy", "logits", "hidden", "history")},
        }
        model = MODELS("tiny-sdar")
        for name, (function, words) in answers.items():
            rule = engine.method(base="block_diffusion", name="wrong")(function)
            with self.assertRaises(engine.RuleError, msg=name) as caught:
                model.decode(questions("tiny-sdar", 1), rule, gen_length=8)
            self.assertRegex(str(caught.exception), words)
            self.assertRegex(str(caught.exception), r"step \d+ of request 0")
            self.assertEqual(caught.exception.request, 0)

        @engine.method(base="block_diffusion")
        def late(step):
            if step.request == 2:
                raise KeyError("of the third")
            return [0]

        with self.assertRaisesRegex(engine.RuleError, r"KeyError: 'of the third'\n.*test_rules.py:\d+ in late") as caught:
            model.decode(questions("tiny-sdar", 4), late, gen_length=8)
        self.assertEqual([answer.request for answer in caught.exception.answers], [0, 1])
        self.assertIsInstance(caught.exception.__cause__, KeyError)

    def test_a_rule_that_never_ends_is_ended(self):
        @engine.method(base="block_diffusion", limit=0.2)
        def loops(step):
            while True:
                pass

        with self.assertRaisesRegex(engine.RuleError, "longer than its limit of 0.2 s"):
            MODELS("tiny-sdar").decode(questions("tiny-sdar", 1), loops, gen_length=8)

    def test_a_rule_that_unmasks_nothing_is_told_so(self):
        @engine.method(base="block_diffusion")
        def idle(step):
            return []

        with self.assertRaisesRegex(engine.EngineError, "idle unmasked none of"):
            MODELS("tiny-sdar").decode(questions("tiny-sdar", 1), idle, gen_length=8)

    def test_definitions_that_are_refused(self):
        def fine(step, at_most=1):
            return [0]

        for settings, words in (({"base": "blok_diffusion"}, "block_diffusion"), ({"base": "fine"}, "no method|unknown"),
                                ({"base": "vanilla", "name": "vanilla"}, "is a compiled method"),
                                ({"base": "vanilla", "name": "Bad Name"}, "small letters"),
                                ({"base": "vanilla", "wants": ["margins"]}, "no 'margins' to want"),
                                ({"base": "vanilla", "limit": 0}, "above 0"),
                                ({"base": "vanilla", "stepz": 3}, "steps")):
            with self.assertRaisesRegex(engine.UserError, words):
                engine.method(**settings)(fine)
        for function, words in ((lambda: [0], "first parameter is the step"), (lambda step, n: [0], "has no default"),
                                (lambda step, *more: [0], "no parameter of a method"),
                                (lambda step, n=None: [0], "a default is a bool"),
                                (eval("lambda step: [0]"), "no source"),  # pylint: disable=eval-used
                                (lambda step, code="x": [0], "not base or code")):
            with self.assertRaisesRegex(engine.UserError, words):
                engine.method(base="vanilla", name="other")(function)


class Runs(unittest.TestCase):
    def test_an_experiment_has_the_ids_and_answers_of_the_program(self):
        experiment = {"title": "two rules", "run": {"repetitions.min": 1, "repetitions.max": 1, "warmup": 0},
                      "model": [{"path": "models/tiny-sdar"}],
                      "workload": [{"tasks": ["word_problem"], "limit": 2}],
                      "method": [{"name": "block_diffusion", "params": {"threshold": 0.6}}]}
        with tempfile.TemporaryDirectory() as folder:
            frame = engine.run(experiment, f"{folder}/python", progress=False)
            rows = run_program("run", f"{folder}/python/experiment.toml", "-o", f"{folder}/program", "--no-progress")
            mine = rows_in(f"{folder}/python")
            theirs = rows_in(f"{folder}/program")
            self.assertEqual(rows.returncode, 0, rows.stderr)
            self.assertEqual([(r["point_id"], r["answers_hash"]) for r in mine],
                             [(r["point_id"], r["answers_hash"]) for r in theirs])
            self.assertEqual(len(frame), 1)

            engine.method(base="block_diffusion", name="sure_run")(sure)
            experiment["method"].append({"name": "sure_run", "params": {"threshold": 0.6}})
            both = engine.run(experiment, f"{folder}/python", progress=False)
            rows = rows_in(f"{folder}/python")
            self.assertEqual((len(both), len(rows)), (2, 2))  # the first row was there already
            self.assertEqual(rows[0]["answers_hash"], rows[1]["answers_hash"])
            self.assertIn("the rule ran in Python", rows[1]["reason"])
            self.assertIn("rule_seconds", rows[1]["metrics"])
            self.assertEqual(len(rows[1]["params"]["code"]), 64)

            engine.method(base="block_diffusion", name="sure_run")(lambda step: 1 // 0)
            edited = engine.run(experiment, f"{folder}/python", progress=False)
            rows = rows_in(f"{folder}/python")
            self.assertEqual([r["verdict"] for r in rows][2:], ["FAILED"])
            # The frame has the rule as it is now; its row from before the edit stays in the folder.
            self.assertEqual(list(edited["point_id"]), [rows[0]["point_id"], rows[2]["point_id"]])
            self.assertRegex(rows[2]["reason"], "step 0 of request 0: the rule raised ZeroDivisionError")

    def test_a_rule_is_served_swept_and_probed(self):
        engine.method(base="block_diffusion", name="sure_served")(sure)
        served = {"kind": "serve", "run": {"repetitions": 1, "warmup": 0, "gen_length": 16, "batch_size": 4},
                  "serve": {"requests": 6, "clock": "virtual", "cost": "1:1"},
                  "model": [{"path": "models/tiny-sdar"}], "workload": [{"tasks": ["word_problem"], "limit": 3}],
                  "method": [{"name": "block_diffusion"}, {"name": "sure_served"}], "sweep": {"params.threshold": [0.5, 0.9]}}
        probed = {**served, "kind": "decode", "probe": {"names": ["confidence"]}}
        del probed["serve"], probed["sweep"]
        with tempfile.TemporaryDirectory() as folder:
            engine.run(served, f"{folder}/served", progress=False)
            rows = rows_in(f"{folder}/served")
            hashes = {(r["method"], r["params"]["threshold"]): r["answers_hash"] for r in rows}
            self.assertEqual(len(hashes), 4)
            for threshold in (0.5, 0.9):
                self.assertTrue(hashes["sure_served", threshold])
                self.assertEqual(hashes["sure_served", threshold], hashes["block_diffusion", threshold])
            engine.run(probed, f"{folder}/probed", progress=False)
            first, second = rows_in(f"{folder}/probed")
            self.assertEqual(first["probes"], second["probes"])
            self.assertTrue(first["probes"])

    def test_a_file_of_rules_from_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "rule.py").write_text(
                "import numpy as np\nfrom unmask import engine\n\n@engine.method(base='block_diffusion')\n"
                "def mine(step, threshold=0.6):\n    return step.confidence >= np.float32(threshold) if "
                "step.confidence.max() >= threshold else [int(step.confidence.argmax())]\n", encoding="utf-8")
            file = pathlib.Path(folder, "two.toml")
            file.write_text('run = {repetitions = 1, warmup = 0}\n[[model]]\npath = "models/tiny-sdar"\n'
                            '[[workload]]\ntasks = ["word_problem"]\nlimit = 2\n[[method]]\nname = "mine"\n'
                            '[[method]]\nname = "block_diffusion"\nparams.threshold = 0.6\n', encoding="utf-8")
            done = run_program("run", file, "--rule", f"{folder}/rule.py", "-o", f"{folder}/out", "--no-progress")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("rule.py is code", done.stderr)
            first, second = rows_in(f"{folder}/out")
            self.assertEqual((first["method"], first["answers_hash"]), ("mine", second["answers_hash"]))
            again = run_program("run", file, "--rule", f"{folder}/rule.py", "-o", f"{folder}/out", "--no-progress")
            self.assertIn("2 had a row already", again.stderr)
            for more, words in ((["--confine", folder], "do not go together"), (["--from", "run.json"], "do not go")):
                refused = run_program("run", file, "--rule", f"{folder}/rule.py", *more)
                self.assertEqual(refused.returncode, 2)
                self.assertIn(words, refused.stderr)
            pathlib.Path(folder, "rule.py").write_text("import nothing_of_that_name\n", encoding="utf-8")
            broken = run_program("run", file, "--rule", f"{folder}/rule.py")
            self.assertEqual(broken.returncode, 2)
            self.assertIn("ModuleNotFoundError", broken.stderr)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False).result.wasSuccessful() else 1)
