# SPDX-License-Identifier: Apache-2.0
"""The command that trains three models with another seed: its steps are those of the page, and it goes on where it was
stopped. Steps are played, so that this needs no PyTorch."""

import importlib.util
import os
import re
import shlex
import sys
import tempfile
import unittest
import unittest.mock

TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../experiments/models/train")
SPEC = importlib.util.spec_from_file_location("again", os.path.join(TRAIN, "again.py"))
again = importlib.util.module_from_spec(SPEC)
sys.dont_write_bytecode = True
SPEC.loader.exec_module(again)

PLAYED = """import os, sys
words = sys.argv[1:]
out = words[words.index("--out") + 1]
name = os.path.basename(sys.argv[0])
with open(os.environ["PLAYED"], "a") as log:
    print(name, words[words.index("--kind") + 1] if "--kind" in words else os.path.basename(out), file=log)
if os.environ.get("FAILS") == name + " " + os.path.basename(out):
    sys.exit(3)
path = {"train.py": out + "/last.pt", "export.py": out + "/config.json"}.get(name, out)
os.makedirs(os.path.dirname(path), exist_ok=True)
open(path, "w").close()
"""


def commands_of_the_page():
    """[words] of the three models' steps as README.md has them: up to the export."""
    with open(os.path.join(TRAIN, "README.md"), encoding="utf-8") as file:
        text = file.read().split("export OMP_NUM_THREADS=1\n")[1].split("for m in ar sdar llada")[0]
    return [shlex.split(line)[1:] for line in re.sub(r"\\\n\s*", " ", text).splitlines() if line.startswith("python ")]


class Again(unittest.TestCase):
    def test_the_steps_are_those_of_the_page(self):
        ours = [command for _, command in again.steps("OUT", 1)]
        page = commands_of_the_page()
        self.assertEqual([words[0] for words in ours[:6]] + ["export.py"] * 3, [words[0] for words in ours])
        self.assertEqual(len(page), 6)
        short = {os.path.join("OUT", "run", "tokenizer"): "TOK", os.path.join(again.HERE, "../../data"): "../../data"}
        for words, wanted in zip(ours, page):
            said = [short.get(word, word.replace("OUT/run/", "RUN/")) for word in words if word not in ("--resume", "--seed", "1")]
            wanted = wanted + (["--to", "sdar"] if words[0] == "convert.py" and "--to" not in wanted else [])
            self.assertEqual(sorted(said), sorted(wanted))

    def test_a_seed_is_given_to_all_that_draws(self):
        for _, words in again.steps("OUT", 7):
            if words[0] in ("lookup_init.py", "train.py"):
                self.assertEqual(words[words.index("--seed") + 1], "7")

    def test_it_goes_on_where_it_was_stopped(self):
        with tempfile.TemporaryDirectory() as folder:
            here, log = os.path.join(folder, "models", "train"), os.path.join(folder, "log")
            for name in ("lookup_init.py", "train.py", "convert.py", "export.py"):
                os.makedirs(here, exist_ok=True)
                with open(os.path.join(here, name), "w", encoding="utf-8") as file:
                    file.write(PLAYED)
            for model in ("tiny-llada", "tiny-sdar"):
                os.makedirs(os.path.join(folder, "models", model))
                with open(os.path.join(folder, "models", model, "tokenizer.json"), "w", encoding="utf-8") as file:
                    file.write(model)

            def run(**more):
                if os.path.exists(log):
                    os.remove(log)
                with unittest.mock.patch.object(again, "HERE", here), \
                        unittest.mock.patch.dict(os.environ, {"PLAYED": log, **more}):
                    code = again.run_all(os.path.join(folder, "out"), 2)
                with open(log, encoding="utf-8") if os.path.exists(log) else open(os.devnull, encoding="utf-8") as file:
                    return code, file.read().splitlines()
            code, done = run(FAILS="train.py sdar")
            self.assertEqual((code, done[-1]), (3, "train.py sdar"))
            self.assertEqual(done, ["lookup_init.py ar", "train.py ar", "convert.py sdar_init.pt", "train.py sdar"])
            code, done = run()
            self.assertEqual((code, done), (0, ["train.py sdar", "convert.py llada_init.pt", "train.py llada",
                                                "export.py tiny-ar", "export.py tiny-sdar", "export.py tiny-llada"]))
            self.assertEqual(run(), (0, []))


if __name__ == "__main__":
    unittest.main()
