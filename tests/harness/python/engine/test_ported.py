# SPDX-License-Identifier: Apache-2.0
"""One rule in two languages: the idea of README.md in Python and its port to C++ (tests/minimal_rule) give equal answers
and equal work. Both are measured as rows: by the package, and by the program with the compiled rule in it."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from engine_support import BASES, DRAWN, ROOT, engine, exact_metrics, rising, rows_in

COMPILED = os.environ.get("UNMASK_RULE_PROGRAM", "")


def experiment(model, methods, more):
    return {"run": {"repetitions": 1, "warmup": 0, "gen_length": 32, "seed": 3}, "model": [{"path": f"models/{model}"}],
            "workload": [{"tasks": ["word_problem"], "limit": 4}], "method": methods, "sweep": {"batch_size": [1, 4]}, **more}


class Ported(unittest.TestCase):
    def rows_of_both(self, model, more):
        """The rows by label and batch size: of the rule in Python, and of the compiled one."""
        base, drawn = BASES[model], DRAWN[BASES[model]]
        name = f"rising_over_{base}"
        engine.method(base=base, name=name, threshold=0.9, block_length=32)(rising)
        python = [{"name": name, "label": "greedy"}, {"name": name, "label": "drawn", "params": drawn}]
        compiled = [{"name": "rising", "label": "greedy", "params": {"base": base}},
                    {"name": "rising", "label": "drawn", "params": {"base": base, "temperature": drawn["temperature"]}}]
        with tempfile.TemporaryDirectory() as folder:
            engine.run(experiment(model, python, more), f"{folder}/python", progress=False)
            file = pathlib.Path(folder, "compiled.toml")
            file.write_text(engine.runs.toml_of(experiment(model, compiled, more)), encoding="utf-8")
            done = subprocess.run([COMPILED, "run", file, "-o", f"{folder}/compiled", "--no-progress"], check=False,
                                  capture_output=True, text=True, env={**os.environ, "UNMASK_ROOT": str(ROOT)})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return tuple({(row["label"], row["batch_size"]): row for row in rows_in(f"{folder}/{which}")}
                         for which in ("python", "compiled"))

    def test_both_write_the_same_answers_with_the_same_work(self):
        served = {"kind": "serve", "serve": {"requests": 6, "clock": "virtual", "cost": "1:1"}}
        for model in BASES:
            for more in ({}, served):
                python, compiled = self.rows_of_both(model, more)
                self.assertEqual(sorted(python), [("drawn", 1), ("drawn", 4), ("greedy", 1), ("greedy", 4)])
                self.assertEqual(sorted(compiled), sorted(python))
                for point, row in python.items():
                    where, other = (model, point, sorted(more)), compiled[point]
                    self.assertEqual(row["answers_hash"], other["answers_hash"], where)
                    exact = {name: value for name, value in row["metrics"].items() if name in exact_metrics()}
                    self.assertEqual(exact, {name: other["metrics"].get(name) for name in exact}, where)
                    self.assertGreater(len(exact), 30)
                    # It is no rule that always takes one token.
                    self.assertGreater(row["metrics"]["committed"], row["metrics"]["denoise_steps"], where)
                self.assertNotEqual(python["greedy", 1]["answers_hash"], python["drawn", 1]["answers_hash"])
                self.assertEqual(python["greedy", 1]["answers_hash"], python["greedy", 4]["answers_hash"])


if __name__ == "__main__":
    if not COMPILED:
        print("NOT RUN: needs the program with the compiled rule in $UNMASK_RULE_PROGRAM (rule_test of the build)")
        sys.exit(77)
    unittest.main()
