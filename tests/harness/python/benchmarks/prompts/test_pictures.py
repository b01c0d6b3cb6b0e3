# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that ask about pictures: small data sets made here, in the forms that the Hub and the authors have,
the prompts by hand, and a run of the program that shows their pictures and their codes."""

import hashlib
import importlib.util
import json
import os
import struct
import subprocess
import tempfile
import unittest
import zipfile
import zlib

import goldens
from unmask.benchmarks.prompts.write import Request, tasks, write
from unmask.rows.errors import EnvironmentFault, UserError

PROGRAM = os.environ["UNMASK_PROGRAM"]
MODELS = os.path.join(goldens.SOURCE, "experiments", "models")
CHOICE = {"pid": "7", "question": "Which is it?", "choices": ["1/2", "3/5"], "unit": None, "precision": None,
          "answer": "3/5", "question_type": "multi_choice", "answer_type": "text", "metadata": {"split": "testmini"}}
FLOAT = {"pid": "8", "question": "How long?", "choices": None, "unit": "cm", "precision": 1.0, "answer": "1.5",
         "question_type": "free_form", "answer_type": "float"}
FRAME = "First perform reasoning, then finally {} in the following format: Answer: xxx."
CLOSEST = "If it is hard to determine, give the closest answer."
VERSE = {"sample_index": "3", "problem_index": "1", "problem_version": "Vision Only", "question": "",
         "query_cot": "Please reason. Give the letter.", "query_wo": "Give the letter.", "answer": "C",
         "question_type": "multi-choice", "metadata": {"subject": "Plane Geometry"}}
LLAVA = {"question_id": 4, "question": "What is this?", "caption": ["a cat"], "gpt_answer": "It is a cat.",
         "category": "conv"}
SIDE = 56


def png(shade):
    """A picture of one grey, by the format's own description."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = (b"\0" + bytes([shade] * 3 * SIDE)) * SIDE
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def path(self, *parts):
        path = os.path.join(self.folder, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def bytes(self, name, content):
        with open(self.path("data", *name.split("/")), "wb") as file:
            file.write(content)

    def lines(self, name, *rows):
        goldens.write_lines(self.path("data", *name.split("/")), rows)

    def parquet(self, name, *rows):
        import pyarrow
        import pyarrow.parquet
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), self.path("data", *name.split("/")))

    def ask(self, name, harness="", **more):
        return tasks(Request(name, harness, data=(os.path.join(self.folder, "data"),), **more))[1]

    def refused(self, error, *words, **request):
        with self.assertRaises(error) as problem:
            self.ask(**request)
        for word in words:
            self.assertIn(word, str(problem.exception))


class Prompts(Folder):
    def test_mathvista_of_the_hub_with_the_hint_last_as_llada_v_asks(self):
        self.parquet("mathvista/data/testmini-0.parquet",
                     CHOICE | {"image": "images/7.png", "decoded_image": {"bytes": png(7), "path": "7.png"}},
                     FLOAT | {"image": "images/8.png", "decoded_image": {"bytes": png(8), "path": "8.png"}})
        first, second = self.ask("mathvista")
        self.assertEqual(first["prompt"], "Question: Which is it?\nChoices:\n(A) 1/2\n(B) 3/5\n"
                         + FRAME.format("give the letter of the right choice") + "\n" + CLOSEST)
        self.assertEqual(second["prompt"], "Question: How long? (Unit: cm)\n"
                         + FRAME.format("give one number with 1 decimal places") + "\n" + CLOSEST)
        self.assertEqual((first["id"], first["answer"], first["gen_length"], first["scorer"]),
                         ("7", "3/5", 96, "mathvista_own"))
        self.assertEqual(first["images"], [f"pictures/{sha256(png(7))[:32]}.png"])
        self.assertEqual(first["doc"]["picture"], sha256(png(7)))
        self.assertNotIn("decoded_image", first["doc"])
        self.assertEqual(second["check"], {"answer": "1.5", "question_type": "free_form", "answer_type": "float",
                                           "choices": [], "precision": 1})

    def test_mathvista_with_the_hint_first_as_dimple_asks(self):
        self.parquet("mathvista/testmini-0.parquet", CHOICE | {"decoded_image": {"bytes": png(7), "path": None}})
        item = self.ask("mathvista", "LMMS-own/mathvista_testmini_hint_first")[0]
        self.assertEqual(item["prompt"], FRAME.format("give the letter of the right choice")
                         + "\nQuestion: Which is it?\nChoices:\n(A) 1/2\n(B) 3/5")

    def test_pictures_in_files_and_in_an_archive(self):
        rows = {"7": CHOICE | {"image": "images/7.png"}, "8": FLOAT | {"image": "images/8.png"}}
        with open(self.path("data", "mathvista", "testmini.json"), "w", encoding="utf-8") as file:
            json.dump(rows, file)
        self.bytes("mathvista/images/7.png", png(7))
        with zipfile.ZipFile(self.path("data", "mathvista", "images.zip"), "w") as archive:
            archive.writestr("images/8.png", png(8))
        self.assertEqual([item["doc"]["picture"] for item in self.ask("mathvista")], [sha256(png(7)), sha256(png(8))])

    def test_mathverse_asks_the_records_own_query_about_three_versions(self):
        others = ("Text Dominant", "Vision Intensive", "Vision Dominant", "Text Lite")
        self.parquet("mathverse/testmini.parquet",
                     *[VERSE | {"sample_index": str(i), "problem_version": version,
                                "image": {"bytes": png(i), "path": ""}}
                       for i, version in enumerate((*others, "Vision Only"))])
        items = self.ask("mathverse")
        self.assertEqual([(item["id"], item["family"]) for item in items],
                         [("1", "vision_intensive"), ("2", "vision_dominant"), ("4", "vision_only")])
        self.assertEqual((items[2]["prompt"], items[2]["answer"], items[2]["gen_length"]),
                         ("Please reason. Give the letter.", "C", 64))
        self.assertEqual([item["id"] for item in self.ask("mathverse", task="vision_only")], ["4"])

    def test_llava_bench_has_the_question_alone_and_no_score(self):
        self.parquet("llava_bench_wild/data/train-0.parquet", LLAVA | {"image": {"bytes": png(1), "path": ""}})
        item = self.ask("llava_bench_wild")[0]
        self.assertEqual((item["prompt"], item["scorer"], item["answer"]), ("What is this?", "none", "It is a cat."))
        self.assertEqual((item["doc"]["caption"], item["doc"]["category"]), (["a cat"], "conv"))
        # As the authors publish it: `text`, and the picture's name in the folder images.
        os.remove(self.path("data", "llava_bench_wild", "data", "train-0.parquet"))
        self.lines("llava_bench_wild/questions.jsonl", {"question_id": 4, "image": "001.jpg", "text": "What is this?"})
        self.bytes("llava_bench_wild/images/001.jpg", b"\xff\xd8\xff and so on")
        self.assertEqual(self.ask("llava_bench_wild")[0]["prompt"], "What is this?")

    def test_codes_stand_in_for_pictures(self):
        self.parquet("llava_bench_wild/data/train-0.parquet", LLAVA | {"image": {"bytes": png(1), "path": ""}})
        self.lines("llava_bench_wild/codes.jsonl", {"picture": sha256(png(1)), "codes": [5, 0, 8191]})
        item = self.ask("llava_bench_wild", "VLME")[0]
        self.assertEqual((item["codes"], item.get("images")), ([5, 0, 8191], None))
        self.assertEqual(item["prompt"], "What is this?\nAnswer this question in detail.")
        self.lines("llava_bench_wild/codes.jsonl", {"picture": sha256(png(2)), "codes": [1]})
        self.refused(EnvironmentFault, "train-0.parquet, item 0", "codes.jsonl has no line", sha256(png(1)),
                     name="llava_bench_wild", harness="VLME")
        self.lines("llava_bench_wild/codes.jsonl", {"picture": sha256(png(1)), "codes": [-1]})
        self.refused(EnvironmentFault, "codes.jsonl", "whole numbers from 0", name="llava_bench_wild", harness="VLME")

    def test_each_picture_is_written_once_beside_the_tasks(self):
        self.parquet("mathvista/testmini-0.parquet",
                     *[CHOICE | {"pid": str(i), "decoded_image": {"bytes": png(i // 2), "path": None}} for i in range(4)])
        head = write(Request("mathvista", data=(os.path.join(self.folder, "data"),)), self.path("out", "t.jsonl"))
        self.assertEqual(head["items"], 4)
        written = {}
        for name in os.listdir(self.path("out", "pictures", "")):
            with open(self.path("out", "pictures", name), "rb") as file:
                written[name] = file.read()
        self.assertEqual(written, {sha256(png(i))[:32] + ".png": png(i) for i in range(2)})


class Refused(Folder):
    def vista(self, row, *words, error=EnvironmentFault, picture=True, **request):
        shown = {"decoded_image": {"bytes": png(7), "path": None}} if picture else {}
        self.parquet("mathvista/testmini-0.parquet", row | shown)
        self.refused(error, *words, **{"name": "mathvista"} | request)

    def test_a_record_that_is_not_whole_names_its_key(self):
        for change, word in (({"question": ""}, "`question` is empty"), ({"choices": ["one"]}, "`choices` must be 2 to"),
                             ({"question_type": "essay"}, "`question_type` is essay"),
                             ({"question": "See <image>"}, "<image>")):
            self.vista(CHOICE | change, "testmini-0.parquet, item 0", word)
        self.vista(FLOAT | {"precision": None}, "`precision` must be")
        self.vista(FLOAT | {"answer_type": "text"}, "`answer_type` is text")

    def test_a_picture_that_cannot_be_had(self):
        self.vista(CHOICE | {"image": "../secret.png"}, "`image` names ../secret.png, which is outside", picture=False)
        self.vista(CHOICE | {"image": "/etc/hostname"}, "which is outside", picture=False)
        self.vista(CHOICE | {"image": "images/7.png"}, "there is no images/7.png", picture=False)
        self.vista(CHOICE | {"image": None}, "`image` must be a picture", picture=False)
        self.vista(CHOICE | {"decoded_image": {"bytes": b"GIF89a", "path": None}}, "no PNG or JPEG", picture=False)

    def test_what_is_asked_in_no_other_way(self):
        self.vista(CHOICE, "`prompt` must be chat", error=UserError, form="raw")
        self.vista(CHOICE, "has no examples", error=UserError, shots=1)
        self.parquet("mathverse/testmini.parquet", VERSE | {"image": {"bytes": png(1), "path": ""}})
        self.refused(EnvironmentFault, "`problem_version` vision_dominant", name="mathverse", task="vision_dominant")


EXPERIMENT = """[run]
warmup = 0
repetitions = 1
[[model]]
path = "{model}"
[[workload]]
benchmark = "{benchmark}"
harness = "{harness}"
gen_length = 32
[[method]]
name = "vanilla"
params.threshold = 0.5
"""


class Program(Folder):
    def setUp(self):
        super().setUp()
        self.environment = os.environ | {
            "XDG_CACHE_HOME": os.path.join(self.folder, "cache"), "UNMASK_DATASETS": os.path.join(self.folder, "data"),
            "UNMASK_TASKS": "", "UNMASK_PICTURES": ""}

    def model(self, name):
        """A small model that reads pictures, made of its delta."""
        spec = importlib.util.spec_from_file_location("make", os.path.join(MODELS, "train", "pictures", "make.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made = os.path.join(self.folder, name)
        module.make(name, os.path.join(MODELS, name, "delta.safetensors"), made)
        return made

    def run_program(self, *arguments, **environment):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, text=True, capture_output=True,
                              env=self.environment | environment)
        return done.returncode, done.stdout + done.stderr

    def measure(self, model, benchmark, harness, code=0, **environment):
        with open(self.path("e.toml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT.format(model=model, benchmark=benchmark, harness=harness))
        status, said = self.run_program("run", "e.toml", "--no-progress", "--fresh", "-o", "rows", **environment)
        self.assertEqual(status, code, said)
        if code:
            return None, said
        with open(self.path("rows", "rows.jsonl"), encoding="utf-8") as file:
            return json.loads(file.readlines()[-1]), said

    def test_a_model_with_a_tower_is_shown_each_picture(self):
        self.parquet("mathvista/testmini-0.parquet",
                     *[CHOICE | {"pid": str(i), "decoded_image": {"bytes": png(i), "path": None}} for i in range(3)])
        model = self.model("tiny-llada-v")
        row, said = self.measure(model, "mathvista", "LMMS-own/mathvista_testmini_hint_last")
        benchmark = row["workload"]["benchmark"]
        self.assertEqual((benchmark["harness"], benchmark["config"]), ("LMMS-own", "mathvista_testmini_hint_last"))
        self.assertEqual((row["metrics"]["tower_runs"], row["workload"]["items"]), (3, 3))
        self.assertGreater(row["metrics"]["picture_rows"], 3)
        score = row["score"] or {"n": 0, "undecided": 3}
        self.assertEqual(score["n"] + score.get("undecided", 0), 3, said)
        # Another picture is another workload, though text and names are the same.
        self.parquet("mathvista/testmini-0.parquet",
                     *[CHOICE | {"pid": str(i), "decoded_image": {"bytes": png(i + 9), "path": None}} for i in range(3)])
        again, _ = self.measure(model, "mathvista", "LMMS-own/mathvista_testmini_hint_last")
        self.assertNotEqual(again["workload"]["hash"], row["workload"]["hash"])

    def test_prompts_that_were_written_bring_their_pictures(self):
        self.parquet("llava_bench_wild/data/train-0.parquet", LLAVA | {"image": {"bytes": png(1), "path": ""}})
        model = self.model("tiny-llada-v")
        with open(self.path("e.toml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT.format(model=model, benchmark="llava_bench_wild", harness="LMMS-L"))
        self.assertEqual(self.run_program("prompts", "e.toml", "-o", "tasks/")[0], 0)
        self.assertEqual(os.listdir(self.path("tasks", "pictures", "")), [sha256(png(1))[:32] + ".png"])
        row, _ = self.measure(model, "llava_bench_wild", "LMMS-L", UNMASK_DATASETS="")
        self.assertEqual((row["metrics"]["tower_runs"], row["score"]), (1, None))
        # A line of another folder's picture is refused.
        name = next(n for n in os.listdir(self.path("tasks", "")) if n.endswith(".jsonl"))
        with open(self.path("tasks", name), encoding="utf-8") as file:
            text = file.read()
        with open(self.path("tasks", name), "w", encoding="utf-8") as file:
            file.write(text.replace("pictures/", "../tasks/pictures/../../"))
        self.bytes("../" + sha256(png(1))[:32] + ".png", png(1))
        _, said = self.measure(model, "llava_bench_wild", "LMMS-L", code=3, UNMASK_DATASETS="")
        self.assertIn("line 2: `images` names", said)
        self.assertIn("outside the folder of the tasks", said)

    def test_mmada_is_shown_codes(self):
        self.parquet("llava_bench_wild/data/train-0.parquet", LLAVA | {"image": {"bytes": png(1), "path": ""}})
        self.lines("llava_bench_wild/codes.jsonl", {"picture": sha256(png(1)), "codes": list(range(16))})
        model = self.model("tiny-mmada")
        row, _ = self.measure(model, "llava_bench_wild", "VLME")
        self.assertEqual((row["metrics"]["picture_rows"], row["metrics"]["tower_runs"]), (16, 0))
        # A picture itself is not for a model whose encoder nobody reads.
        _, said = self.measure(model, "llava_bench_wild", "LMMS-L", code=1)
        self.assertIn("as `codes`", said)

    def test_what_is_missing_is_said_before_a_model_is_loaded(self):
        _, said = self.measure(self.model("tiny-mmada"), "mathvista", "LMMS-own/mathvista_testmini_codes", code=3)
        self.assertIn("NOT RUN: needs benchmark mathvista", said)
        self.assertIn("data/testmini-*.parquet, codes.jsonl", said)

    def test_the_list_says_what_is_ours(self):
        status, said = self.run_program("list", "benchmarks", "mathvista")
        self.assertEqual(status, 0)
        self.assertIn("ours: the hint within LLaDA-V's frame, and the rule that reads an answer", said)


if __name__ == "__main__":
    unittest.main()
