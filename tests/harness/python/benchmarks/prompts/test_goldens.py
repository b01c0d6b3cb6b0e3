# SPDX-License-Identifier: Apache-2.0
"""Prompts of the published harnesses to the byte: tests/goldens/evals/prompts holds what the
official programs sent. $UNMASK_EVALS: another folder of that layout; $UNMASK_EVALS_DATA: folders
of data sets (separated by colons), looked in first."""

import hashlib
import json
import os
import random
import tempfile
import unittest

import goldens

EVALS = os.environ.get("UNMASK_EVALS", goldens.RECORDED)


def places_of(cases, folder):
    """Where items are looked for, place by place."""
    given = [f for f in os.environ.get("UNMASK_EVALS_DATA", "").split(":") if f]
    beside = [os.path.join(EVALS, "data"), os.path.join(EVALS, "..", "data")]
    recorded = os.path.join(goldens.RECORDED, "data")
    made = goldens.made_data(cases, folder, os.path.join(recorded, "math500", "test.jsonl.gz"))
    chinese = os.path.join(EVALS, "longbench_zh")
    return [[root, made] for root in given + beside if os.path.isdir(root)] + [
        [chinese, *given, *beside, recorded], [recorded, made]]


class Goldens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cases = goldens.records(EVALS)
        cls.folder = tempfile.TemporaryDirectory()
        cls.asker = goldens.Asker(places_of(cls.cases, cls.folder.name))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def compare(self, record, item):
        where = goldens.named(record)
        if "messages" in record:
            self.assertEqual(item["messages"], record["messages"], where)
        else:
            text = goldens.text_of(item, record)
            if "prompt" in record:
                self.assertEqual(text, record["prompt"],
                                 f"{where}: {goldens.difference(text, record['prompt'])}")
            if "prompt_sha256" in record:
                self.assertEqual(hashlib.sha256(text.encode()).hexdigest(),
                                 record["prompt_sha256"], where)
        if "continuations" in record:
            self.assertEqual(item["continuations"], record["continuations"], where)
            self.assertEqual(item["right"], record["target"], where)
        if record["harness"] == "lm-eval" and record.get("stop") is not None:
            self.assertEqual(item.get("stop", []), record["stop"], where)
        # LLaDA's own scripts set the length beside the config.
        if record.get("max_out_len") and "LLaDA" not in record["version"]:
            self.assertEqual(item["gen_length"], record["max_out_len"], where)

    def test_prompts_are_equal_to_the_byte(self):
        self.assertGreaterEqual(len(self.cases), 1)
        if EVALS == goldens.RECORDED:
            self.assertEqual(len(self.cases), 193)
        for file, record in self.cases:
            with self.subTest(file=file, case=goldens.named(record)):
                self.compare(record, self.asker.item(record))

    def test_examples_are_the_rows_that_were_drawn(self):
        """The rows of the training file in the prompts of gsm8k's first documents."""
        for ending in ("", ".gz"):
            path = os.path.join(EVALS, "prompts", "gsm8k_fewshot_draws.json" + ending)
            if os.path.exists(path):
                break
        else:
            self.skipTest("no recorded draws")
        with goldens.open_text(path) as file:
            drawn = json.load(file)
        with tempfile.TemporaryDirectory() as folder:
            rows = [{"question": f"row {i}?", "answer": f"#### {i}"}
                    for i in range(drawn["population"])]
            goldens.write_lines(os.path.join(folder, "gsm8k", "train.jsonl"), rows)
            for shots in (5, 4):
                recorded = drawn[f"k{shots}"]
                goldens.write_lines(os.path.join(folder, "gsm8k", "test.jsonl"),
                                    [{"question": "asked?", "answer": "#### 0"} for _ in recorded])
                items = goldens.tasks(goldens.Request("gsm8k", "LM", shots=shots,
                                                      data=(folder,)))[1]
                for item, wanted in zip(items, recorded, strict=True):
                    shown = [int(part.split("?")[0]) for part in item["prompt"].split("row ")[1:]]
                    self.assertEqual(shown, wanted)
        words = drawn.get("first_words_seed_1234", [])
        generator = random.Random(1234)
        for word in words if isinstance(words, list) else [words]:
            self.assertEqual(generator.getrandbits(32), word)


if __name__ == "__main__":
    unittest.main()
