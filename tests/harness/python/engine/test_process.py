# SPDX-License-Identifier: Apache-2.0
"""The engine in a process that is not its own: Ctrl-C, threads, a fork, memory, and the end of Python."""

import contextlib
import gc
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

from engine_support import MODELS, ROOT, engine, questions, rows_in

DECODES = int(os.environ.get("UNMASK_DECODES", "300"))  # continuous integration: 10000 once a week


def resident():
    pages = pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Process(unittest.TestCase):
    def test_ctrl_c_ends_a_decode_and_leaves_the_model(self):
        model = MODELS("tiny-llada")
        asked = questions("tiny-llada", 8)

        @engine.method(base="vanilla")
        def presses(step):
            if step.request == 0 and step.step == 2:
                os.kill(os.getpid(), signal.SIGINT)
            return [0]

        with self.assertRaises(KeyboardInterrupt):
            model.decode(asked, presses, gen_length=64)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):  # no rule is asked
            model.decode(asked * 40, "vanilla", gen_length=64)
        timer.join()
        self.assertEqual(len(model.decode(asked[:1], "fast_dllm", gen_length=32)), 1)

    def test_ctrl_c_ends_a_run_that_goes_on_later(self):
        experiment = {"run": {"repetitions.min": 1, "repetitions.max": 1, "warmup": 0},
                      "model": [{"path": "models/tiny-sdar"}], "workload": [{"tasks": ["word_problem"], "limit": 2}],
                      "method": [{"name": "block_diffusion"}, {"name": "stops"}]}
        pressed = []

        @engine.method(base="block_diffusion")
        def stops(step):
            if not pressed:
                pressed.append(1)
                os.kill(os.getpid(), signal.SIGINT)
            return [0]

        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(KeyboardInterrupt):
                engine.run(experiment, folder, progress=False)
            frame = engine.run(experiment, folder, progress=False)
            self.assertEqual([row["verdict"] == "FAILED" for row in rows_in(folder)], [False, False])
            self.assertEqual(sorted(frame["method"]), ["block_diffusion", "stops"])

    def test_two_threads_on_two_models(self):
        names = ("tiny-sdar", "tiny-llada")
        alone = {name: MODELS(name).decode(questions(name, 3), gen_length=32).answers_hash for name in names}
        found = {name: [] for name in names}

        def work(name):
            for _ in range(3):
                found[name].append(MODELS(name).decode(questions(name, 3), gen_length=32).answers_hash)

        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {name: [alone[name]] * 3 for name in names})

    def test_a_rule_may_not_decode(self):
        @engine.method(base="block_diffusion")
        def nested(step):
            MODELS("tiny-sdar").decode(questions("tiny-sdar", 1))

        with self.assertRaisesRegex(engine.RuleError, "a rule may not decode"):
            MODELS("tiny-sdar").decode(questions("tiny-sdar", 1), nested, gen_length=8)

    def test_a_forked_process_is_told_so(self):
        MODELS("tiny-sdar").decode(questions("tiny-sdar", 1), gen_length=8)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                MODELS("tiny-sdar").decode(questions("tiny-sdar", 1), gen_length=8)
                said = b"it decoded"
            except engine.UserError as problem:
                said = str(problem).encode()
            os.write(writes, said)
            os._exit(0)
        os.close(writes)
        os.waitpid(child, 0)
        with os.fdopen(reads) as pipe:
            self.assertIn("was forked from one that has used unmask.engine", pipe.read())

    def test_a_closed_model_raises(self):
        model = engine.Model("tiny-sdar", device="cpu", threads=1)
        with model:
            model.decode("Ben has 3 pens.", gen_length=4)
        for call in (lambda: model.decode("x"), lambda: model.logits([1]), lambda: model.encode("x"),
                     lambda: model.text([1])):
            with self.assertRaisesRegex(engine.UserError, "the model is closed"):
                call()
        model.close()

    def test_wrong_calls_are_sentences(self):
        model = MODELS("tiny-sdar")
        for call, words in ((lambda: engine.Model("tiny-sdra"), "tiny-sdar"),
                            (lambda: engine.Model("tiny-sdar", device="tpu"), "device"),
                            (lambda: engine.Model("tiny-sdar", threads=0), "threads"),
                            (lambda: engine.Model("tiny-sdar", formt="bf16"), "formt"),
                            (lambda: model.decode([]), "needs a prompt"), (lambda: model.decode([[]]), "no token"),
                            (lambda: model.decode([[10**7]]), "vocabulary"), (lambda: model.decode([[1.5]]), "token ids"),
                            (lambda: model.decode([[-1]]), "vocabulary"),
                            (lambda: model.decode("x", "focos"), "focus"),
                            (lambda: model.decode("x", "fast_dllm"), "fast_dllm"),
                            (lambda: model.decode("x", gen_length=0), "gen_length"),
                            (lambda: model.decode("x", batch_size=0), "batch_size"),
                            (lambda: model.decode("x", seed=-1), "seed"),
                            (lambda: model.decode("x", gen_length=10**6), "positions"),
                            (lambda: model.decode("x", params={"threshold": [1]}), "threshold"),
                            (lambda: model.logits([10**6]), "vocabulary"), (lambda: model.logits([]), "no token"),
                            (lambda: model.text([-1]), "vocabulary")):
            with self.assertRaisesRegex(engine.UserError, words):
                call()

    def test_logits_are_those_that_a_step_decides_by(self):
        model = MODELS("tiny-llada")
        prompt = model.encode(questions("tiny-llada", 1)[0])
        seen = []

        @engine.method(base="vanilla", wants="logits")
        def first(step):
            seen.append((step.position, step.logits))
            return [int(np.argmax(step.confidence))]

        model.decode([prompt], first, gen_length=32)
        whole = model.logits(prompt + [model.mask_id] * 32)
        np.testing.assert_allclose(seen[0][1], whole[len(prompt) + seen[0][0]], rtol=1e-4, atol=1e-4)

    def test_nothing_is_left_of_many_decodes(self):
        model, asked = MODELS("tiny-sdar"), [[5, 6, 7]]

        @engine.method(base="block_diffusion", wants=("logits", "history"))
        def keeps(step):
            step.memory["step"] = step  # a circle, for the collector
            return step.confidence >= np.sort(step.confidence)[-2:].min()

        def rounds(n):
            for i in range(n):
                model.decode(asked, keeps if i % 2 else "block_diffusion", gen_length=4, block_length=4, trace=i % 3 == 0)
            gc.collect()
            return resident(), len(os.listdir("/proc/self/fd"))

        rounds(DECODES // 5)
        before, files = rounds(DECODES // 10)
        after, files_after = rounds(DECODES * 7 // 10)
        print(f"{DECODES} decodes: {before >> 10} KiB resident before the last {DECODES * 7 // 10}, {after >> 10} KiB after, "
              f"{files_after} open files")
        self.assertEqual(files_after, files)
        self.assertLess(after - before, 4 << 20)

    def test_a_command_of_the_package_comes_back(self):
        rows = ROOT / "results/epyc-2core/quickstart.jsonl"
        words = ["table", rows, "--columns", "nfe", "--where", "label=vanilla", "--where", "workload=story"]
        said, before = io.StringIO(), dict(os.environ)
        with contextlib.redirect_stdout(said):
            self.assertEqual(engine.main(words), 0)
        self.assertIn("| story vanilla | 704 |", said.getvalue())
        with contextlib.redirect_stderr(said):
            self.assertEqual(engine.main(["table", rows, "--columns", "nonsense"]), 2)
        self.assertEqual(dict(os.environ), before)

    def test_a_module_alone_finds_its_tree_and_says_where_models_are(self):
        """No program is next to it, and first no models are, as after `pip install .`."""
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            for name, to in (("build/x/python/_engine.so", engine.compiled.file()), ("harness/python", ROOT / "harness/python")):
                (tree / name).parent.mkdir(parents=True)
                (tree / name).symlink_to(to)
            (tree / "experiments").mkdir()
            (tree / "script.py").write_text(
                "import os, pathlib\n"
                "from unmask import engine\n"
                "try:\n"
                "    engine.Model('tiny-sdar')\n"
                "except engine.EnvironmentFault as problem:\n"
                "    print(problem)\n"
                f"os.symlink({str(ROOT / 'experiments/models')!r}, {str(tree / 'experiments/models')!r})\n"
                "print(engine.Model('tiny-sdar', device='cpu').path)\n", encoding="utf-8")
            env = {name: value for name, value in os.environ.items() if name not in ("UNMASK_PROGRAM", "UNMASK_ROOT")}
            done = subprocess.run([sys.executable, tree / "script.py"], capture_output=True, text=True, check=False, cwd="/",
                                  env={**env, "UNMASK_ENGINE": str(tree / "build/x/python/_engine.so"),
                                       "PYTHONPATH": str(tree / "harness/python")})
            problem, path = done.stdout.splitlines() or [done.stderr, ""]
            self.assertIn("the small models are the wheel unmask-models: pip install ./experiments/models", problem)
            self.assertEqual(path, str(tree / "experiments/models/tiny-sdar"))

    def test_python_ends_quietly_with_rules_and_models(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "script.py")
            script.write_text("from engine_support import MODELS, engine, questions\n"
                              "@engine.method(base='block_diffusion', wants='logits')\n"
                              "def rule(step):\n"
                              "    step.memory['step'] = step\n"
                              "    return [0]\n"
                              "kept = MODELS('tiny-sdar').decode(questions('tiny-sdar', 1), 'rule', gen_length=4)\n"
                              "print(kept)\n"
                              "import os\n"
                              "assert 'UNMASK_ROOT' not in os.environ\n", encoding="utf-8")
            done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("<1 answers by rule"))


class Slots(unittest.TestCase):
    def test_a_step_that_reaches_less(self):
        """With a reach of one position, a threshold rule decodes from the left, token by token."""
        short = engine.over("fast_dllm", "short", pace=lambda step, reach=1: reach, threshold=0.5)
        result = MODELS("tiny-llada").decode(questions("tiny-llada", 2), short, gen_length=32, trace=True)
        for answer in result:
            self.assertEqual(answer.trajectory.position.tolist(), list(range(32)))
        wide = MODELS("tiny-llada").decode(questions("tiny-llada", 2), short, gen_length=32, reach=32)
        plain = MODELS("tiny-llada").decode(questions("tiny-llada", 2), "fast_dllm", gen_length=32, threshold=0.5)
        self.assertEqual((wide.answers_hash, wide.metrics["nfe"]), (plain.answers_hash, plain.metrics["nfe"]))

    def test_a_quota_of_the_functions_own(self):
        two = engine.over("vanilla", "two", pace=lambda step, n=2: engine.Pace(quota=n), until_clean=True)
        result = MODELS("tiny-llada").decode(questions("tiny-llada", 2), two, gen_length=32, n=4)
        self.assertEqual([a.counters["nfe"] for a in result], [8, 8])

    def test_rows_that_are_left_out_are_not_computed(self):
        seen = []

        def masks_only(step):
            seen.append((int(step.computed.sum()), int((step.masked & step.stored).sum())))
            return step.masked | ~step.stored

        fewer = engine.over("block_diffusion", "masks_only", rows=masks_only)
        asked = questions("tiny-sdar", 3)
        result = MODELS("tiny-sdar").decode(asked, fewer, gen_length=32)
        plain = MODELS("tiny-sdar").decode(asked, "block_diffusion", gen_length=32)
        self.assertEqual(sum(a.counters["rows_skipped"] for a in plain), 0)
        self.assertGreater(sum(a.counters["rows_skipped"] for a in result), 0)
        self.assertLess(result.metrics["decode_rows"] / result.metrics["nfe"],
                        plain.metrics["decode_rows"] / plain.metrics["nfe"])
        every = engine.over("block_diffusion", "every_row", rows=lambda step: None)
        same = MODELS("tiny-sdar").decode(asked, every, gen_length=32)
        self.assertEqual((same.answers_hash, same.metrics["rows"]), (plain.answers_hash, plain.metrics["rows"]))

    def test_what_the_slots_refuse(self):
        asked = questions("tiny-sdar", 1)
        for rows, words in ((lambda step: ~step.masked, "was never computed|computes no mask"),
                            (lambda step: [], "never computed|computes no mask"), (lambda step: [10**6], "indices")):
            rule = engine.over("block_diffusion", "wrong_rows", rows=rows)
            with self.assertRaisesRegex(engine.RuleError, words):
                MODELS("tiny-sdar").decode(asked, rule, gen_length=8)
        for pace, words in ((lambda step: 0, "1 position or more"), (lambda step: "x", "a number of positions"),
                            (lambda step: engine.Pace(quota=-2), "0 tokens or more")):
            rule = engine.over("block_diffusion", "wrong_pace", pace=pace)
            with self.assertRaisesRegex(engine.RuleError, words):
                MODELS("tiny-sdar").decode(asked, rule, gen_length=8)
        no_kv = engine.over("vanilla", "no_kv", rows=lambda step: None)
        with self.assertRaisesRegex(engine.UserError, "does not keep the KV"):
            MODELS("tiny-llada").decode(asked, no_kv, gen_length=32)


if __name__ == "__main__":
    unittest.main()
