# SPDX-License-Identifier: Apache-2.0
"""What is made of a user's files: their forms, and the sentence for files that are not whole."""

import csv
import gzip
import hashlib
import io
import json
import os
import tempfile
import unittest
import zipfile

import goldens
from unmask.benchmarks.prompts import opencompass, sources
from unmask.benchmarks.prompts.registry import examples, find, register
from unmask.benchmarks.prompts.write import Request, may_exceed, tasks
from unmask.rows.errors import EnvironmentFault, UserError

SUM = {"question": "1 + 1?", "answer": "It is 2.\n#### 2"}


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def path(self, *parts):
        path = os.path.join(self.folder, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def lines(self, name, *rows):
        goldens.write_lines(self.path(*name.split("/")), rows)

    def text(self, name, content):
        with open(self.path(*name.split("/")), "w", encoding="utf-8", newline="") as file:
            file.write(content)

    def ask(self, name, harness="", **more):
        return tasks(Request(name, harness, data=(self.folder,), **more))

    def refused(self, error, *words, **request):
        with self.assertRaises(error) as problem:
            self.ask(**request)
        for word in words:
            self.assertIn(word, str(problem.exception))


class Forms(Folder):
    def prompt(self, **request):
        return self.ask(**({"name": "gsm8k", "harness": "OC-F"} | request))[1][0]

    def test_one_item_in_every_form_of_its_file_makes_the_same_prompt(self):
        self.lines("gsm8k/test.jsonl", SUM)
        plain = self.prompt()
        self.assertEqual(plain["messages"][1]["content"],
                         "1 + 1?\nPlease reason step by step, and put your final answer within "
                         "\\boxed{}.")
        with open(self.path("gsm8k", "test.jsonl"), "rb") as file:
            content = file.read()
        for name in ("test.jsonl.gz", "test.first1.jsonl.gz"):
            os.remove(self.path("gsm8k", os.listdir(self.path("gsm8k", ""))[0]))
            with gzip.open(self.path("gsm8k", name), "wb") as file:
                file.write(content)
            self.assertEqual(self.prompt(), plain)
        os.remove(self.path("gsm8k", "test.first1.jsonl.gz"))
        import pyarrow
        import pyarrow.parquet
        for name in ("main/test-00000-of-00001.parquet", "test-00000-of-00001.parquet"):
            path = self.path("gsm8k", *name.split("/"))
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist([SUM]), path)
            self.assertEqual(self.prompt(), plain)
            os.remove(path)
        self.lines("test.jsonl", SUM)  # the folder of this data set itself
        self.assertEqual(self.prompt(), plain)

    def test_the_head_names_the_data_and_the_libraries(self):
        self.lines("gsm8k/test.jsonl", SUM)
        self.lines("gsm8k/train.jsonl", *[SUM] * 5)
        head, items = self.ask("gsm8k")
        with open(self.path("gsm8k", "test.jsonl"), "rb") as file:
            self.assertEqual(head["data"]["gsm8k/test.jsonl"],
                             hashlib.sha256(file.read()).hexdigest())
        self.assertEqual((head["library"]["lm_eval"], head["harness"], head["shots"]),
                         ("0.4.8", "LM", 5))
        self.assertEqual(items[0]["doc"], SUM)

    def test_mmlu_out_of_a_zip_archive(self):
        with zipfile.ZipFile(self.path("mmlu.zip"), "w") as archive:
            archive.writestr("data/dev/anatomy_dev.csv", "q,a,b,c,d,B\n")
            archive.writestr("data/test/anatomy_test.csv", '"x, y",1,2,3,4,D\n')
        item = self.ask("mmlu", "LM", task="anatomy", shots=1)[1][0]
        self.assertEqual(item["prompt"], "The following are multiple choice questions (with "
                         "answers) about anatomy.\n\nq\nA. a\nB. b\nC. c\nD. d\nAnswer: B\n\n"
                         "x, y\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:")
        self.assertEqual((item["right"], item["continuations"]), (3, [" A", " B", " C", " D"]))

    def test_arc_and_piqa_of_the_hub(self):
        import pyarrow
        import pyarrow.parquet
        row = {"id": "1", "question": "Hot?", "answerKey": "2",
               "choices": {"text": ["ice", "fire"], "label": ["1", "2"]}}
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), self.path(
            "arc", "ARC-Challenge", "test-00000-of-00001.parquet"))
        item = self.ask("arc_c", "LM")[1][0]
        self.assertEqual((item["prompt"], item["continuations"], item["right"]),
                         ("Question: Hot?\nAnswer:", [" ice", " fire"], 1))
        row = {"goal": "open", "sol1": "push", "sol2": "sing", "label": 0}
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), self.path(
            "piqa", "plain_text", "validation", "0000.parquet"))
        self.assertEqual(self.ask("piqa", "LM")[1][0]["right"], 0)

    def test_math_is_read_in_the_order_of_its_numbers(self):
        for number in (10, 2):
            self.lines(f"math/test/algebra/{number}.json",
                       {"problem": f"p{number}", "solution": "\\boxed{1}"})
        self.assertEqual([item["id"] for item in self.ask("math", "OC-L", task="algebra")[1]],
                         ["test/algebra/2.json", "test/algebra/10.json"])

    def test_conversations_and_questions(self):
        turns = [{"from": "human", "value": "Tell me a long story."},
                 {"from": "gpt", "value": "Once upon a time."},
                 {"from": "human", "value": "And then what happened?"},
                 {"from": "gpt", "value": "They all went home again."}]
        short = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
        self.text("sharegpt/sharegpt.json", json.dumps([{"conversations": short},
                                                        {"conversations": turns}]))
        tokenizer = os.path.join(goldens.SOURCE, "experiments/models/tiny-llada/tokenizer.json")
        items = self.ask("sharegpt", tokenizer=tokenizer)[1]
        self.assertEqual([item["id"] for item in items], ["1"])
        self.assertEqual([m["role"] for m in items[0]["messages"]], ["user", "assistant", "user"])
        self.assertEqual(items[0]["answer"], "They all went home again.")
        self.refused(UserError, "tokenizer", name="sharegpt")
        self.lines("mt_bench/question.jsonl", {"question_id": 81, "turns": ["Write.", "Again."]})
        self.assertEqual(self.ask("mt_bench")[1][0]["messages"],
                         [{"role": "user", "content": "Write."}])

    def test_needles_lie_where_their_depth_says(self):
        class Words:
            def encode(self, text):
                return text.split()

            def decode(self, ids):
                return " ".join(ids)
        text = sources.haystack_with(Words(), ["a b c d"] * 4, "needle", 609, 50)
        self.assertEqual(text, "a b c d needle a b c d")

    def test_every_chat_benchmark_of_questions_is_read(self):
        data = os.path.join(goldens.SOURCE, "tests", "data", "datasets")
        for name in sources.QUESTIONS:
            items = tasks(Request(name, data=(data,)))[1]
            self.assertGreater(len(items), 5)
            self.assertGreater(len(items[0]["messages"][0]["content"]), 10)


class Incomplete(Folder):
    def test_an_empty_context_names_file_and_item(self):
        for setting in ("dataset2prompt.json", "dataset2maxlen.json"):
            with goldens.open_text(os.path.join(goldens.RECORDED, "data", "longbench",
                                                setting + ".gz")) as file:
                self.text("longbench/" + setting, file.read())
        whole = {"input": "?", "context": "text", "answers": ["a"], "_id": "x"}
        self.lines("longbench/qasper.jsonl", whole, whole | {"context": ""})
        self.refused(EnvironmentFault, "qasper.jsonl, item 1", "`context` is empty",
                     name="longbench", harness="OC-S", task="qasper")
        del whole["context"]
        self.lines("longbench/qasper.jsonl", whole)
        self.refused(EnvironmentFault, "qasper.jsonl, item 0", "`context` is missing",
                     name="longbench", harness="OC-S", task="qasper")

    def test_no_recorded_item_is_empty(self):
        """Whoever takes the recorded data as a folder of data sets gets whole prompts."""
        for task in register()["datasets"]["longbench"]["tasks"]:
            items = tasks(Request("longbench", "OC-S", task,
                                  data=(os.path.join(goldens.RECORDED, "data"),)))[1]
            self.assertTrue(all(item["doc"]["context"] for item in items), task)

    def test_an_empty_question_or_example_is_refused(self):
        self.lines("gsm8k/test.jsonl", SUM, {"question": " ", "answer": "x"})
        self.refused(EnvironmentFault, "test.jsonl, item 1", "`question` is empty", name="gsm8k",
                     harness="OC-F")
        self.lines("gsm8k/test.jsonl", SUM)
        self.lines("gsm8k/train.jsonl", *[{"question": "", "answer": ""}] * 9)
        self.refused(EnvironmentFault, "example is empty", name="gsm8k", harness="LM")

    def test_a_file_that_is_not_there_names_all_its_names_and_where_to_look(self):
        self.refused(EnvironmentFault, "NOT RUN: needs gsm8k", "test.jsonl", "main/test-*.parquet",
                     self.folder, "unmask list benchmarks", name="gsm8k", harness="OC-F")
        self.lines("gsm8k/test.jsonl", SUM)
        self.refused(EnvironmentFault, "train.jsonl", name="gsm8k", harness="LM")

    def test_broken_files_are_refused(self):
        self.text("gsm8k/test.jsonl", '{"question": "a"\n')
        self.refused(EnvironmentFault, "test.jsonl, line 1", "is not JSON", name="gsm8k",
                     harness="OC-F")
        self.text("mmlu/test/anatomy_test.csv", "q,a,b\n")
        self.refused(EnvironmentFault, "four options and a letter", name="mmlu", harness="OC-S",
                     task="anatomy", shots=0)
        self.text("gpqa/gpqa_diamond.csv", "Question,Correct Answer\nq,r\n")
        self.refused(EnvironmentFault, "no column \"Incorrect Answer 1\"", name="gpqa")

    def test_a_download_that_was_cut_short_or_damaged_is_one_sentence(self):
        """A gzip file, a zip archive and a Parquet file, cut at each of 30 places and with each of 30 bytes changed:
        every one gives the prompts or one sentence that names the file."""
        import pyarrow
        import pyarrow.parquet
        rows = [SUM | {"question": f"{i} + 1?"} for i in range(50)]
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        archive, table = io.BytesIO(), io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("gsm8k/test.jsonl", text)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), table)
        for name, whole in (("test.jsonl.gz", gzip.compress(text)), ("all.zip", archive.getvalue()),
                            ("main/test-0.parquet", table.getvalue())):
            refusals = 0
            step = len(whole) / 30
            cut = [whole[:int(i * step)] for i in range(30)]
            bent = [whole[:int(i * step)] + bytes([whole[int(i * step)] ^ 0x41]) + whole[int(i * step) + 1:]
                    for i in range(30)]
            for content in [b"no archive at all", whole[:-9], *cut, *bent]:
                path = self.path("gsm8k", *name.split("/"))
                with open(path, "wb") as file:
                    file.write(content)
                try:
                    self.ask("gsm8k", "OC-F")
                except EnvironmentFault as problem:
                    refusals += 1
                    self.assertRegex(str(problem), "gsm8k")
                    self.assertNotIn("\n", str(problem))
            self.assertGreater(refusals, 30, name)
            os.remove(path)

    def test_an_encrypted_archive_is_one_sentence(self):
        """The first bit of a member's flags says so, in its own header and in the archive's list."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("gsm8k/test.jsonl", json.dumps(SUM))
        content = bytearray(out.getvalue())
        for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            content[content.find(signature) + flags] |= 1
        with open(self.path("gsm8k", "all.zip"), "wb") as file:
            file.write(content)
        self.refused(EnvironmentFault, "all.zip:gsm8k/test.jsonl: cannot be unpacked", "encrypted",
                     name="gsm8k", harness="OC-F")

    def test_what_unpacks_without_end_is_refused_early(self):
        """A megabyte that unpacks to a gigabyte, two million equal rows in a few kilobytes, and ten million empty
        records: within a few seconds, and with less memory than what they unpack to."""
        import resource
        import pyarrow
        import pyarrow.parquet
        zeros = io.BytesIO()
        with gzip.GzipFile(fileobj=zeros, mode="wb") as out:
            for _ in range(1024):
                out.write(bytes(1 << 20))
        table = io.BytesIO()
        column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 2_000_000, pyarrow.int32()), ["x" * 100])
        pyarrow.parquet.write_table(pyarrow.table({"question": column, "answer": column}), table)
        self.assertLess(len(table.getvalue()), 1 << 20)
        empty = gzip.compress(b"{}\n" * 10_000_000)
        before = resource.getrusage(resource.RUSAGE_SELF)
        for name, content in (("test.jsonl.gz", zeros.getvalue()), ("test.jsonl.gz", empty),
                              ("main/test-0.parquet", table.getvalue())):
            path = self.path("gsm8k", *name.split("/"))
            with open(path, "wb") as file:
                file.write(content)
            self.refused(EnvironmentFault, "unpacks to more than", name="gsm8k", harness="OC-F")
            os.remove(path)
        after = resource.getrusage(resource.RUSAGE_SELF)
        self.assertLess(after.ru_utime - before.ru_utime, 20)
        self.assertLess(after.ru_maxrss - before.ru_maxrss, 900 << 10)  # in KiB

    def test_names_are_refused_with_the_nearest(self):
        self.refused(UserError, "gsm8k", name="gsm8")
        self.refused(UserError, "OC-S/gsm8k_gen_1dce88", name="gsm8k", harness="OC-U")
        self.refused(UserError, "no harness", name="gsm8k", harness="HF")
        self.refused(UserError, "no task", name="mmlu", task="alchemy")
        self.lines("gsm8k/test.jsonl", SUM)
        self.refused(UserError, "has no examples", name="gsm8k", harness="OC-F", shots=2)


class Rules(Folder):
    def test_opencompass_drops_examples_from_the_end(self):
        entry = find("gsm8k", "OC-S")
        shown = examples(entry["written"])
        fields = {"question": "Q?"}
        four = opencompass.render(entry["style"], fields, shown[:4], "raw")
        three = opencompass.render(entry["style"], fields, shown[:3], "raw")
        self.assertTrue(four.startswith(three.removesuffix("Question: Q?\nLet's think step by "
                                                           "step\nAnswer:")))
        self.assertEqual(opencompass.render(entry["style"], fields, [], "raw"),
                         "Question: Q?\nLet's think step by step\nAnswer:")
        self.lines("gsm8k/test.jsonl", SUM)
        item = self.ask("gsm8k", "OC-S", max_prompt_tokens=10)[1][0]
        self.assertEqual(len(item["shorter"]), 4)
        self.assertNotIn("shorter", self.ask("gsm8k", "OC-S", max_prompt_tokens=100000)[1][0])
        self.assertFalse(may_exceed("abc", 3))
        self.assertTrue(may_exceed("äb", 2))  # three bytes may be three tokens

    def test_a_template_replaces_fields_and_nothing_else(self):
        self.assertEqual(opencompass.filled("{a} {b} {{a}} }{", {"a": "{b}"}),
                         "{b} {b} {{b}} }{")

    def test_gpqa_turns_the_options_by_the_row(self):
        self.text("gpqa/gpqa_diamond.csv", "Id,Question,Correct Answer,Incorrect Answer 1,"
                  'Incorrect Answer 2,Incorrect Answer 3\n1,"a, ""b""?",r,x,y,z\n'
                  + "".join(f"{i},q,r,x,y,z\n" for i in range(2, 6)))
        items = self.ask("gpqa")[1]
        self.assertEqual(items[0]["doc"]["Question"], 'a, "b"?')
        self.assertEqual([item["answer"] for item in items], ["D", "C", "B", "A", "D"])
        self.assertTrue(items[4]["prompt"].endswith("A. x\nB. y\nC. z\nD. r\nAnswer:"))

    def test_gpqa_by_likelihood_asks_as_lm_evals_later_runs(self):
        """Seven made-up items through lm-eval's own program, its shuffle as its cache keeps it: the
        beginnings of the hashes of its prompts, and its answers."""
        rows = [[text + str(i) for text in "qrxyz"] for i in range(7)]
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(
            [["Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2",
              "Incorrect Answer 3"], *rows])
        self.text("gpqa/gpqa_main.csv", out.getvalue())
        wanted = [("c70373ba1c491450", 2), ("d6e86a5785e996ff", 0), ("3439e176fcb5c643", 1),
                  ("a37a91e07c8ff3a7", 3), ("b9ae29124937387b", 2), ("7956b8253d708ead", 1),
                  ("90b84a32937bb459", 3)]
        items = self.ask("gpqa", "LM")[1]
        self.assertEqual([(hashlib.sha256(item["prompt"].encode()).hexdigest()[:16], item["right"])
                          for item in items], wanted)
        self.assertEqual(items[0]["continuations"][1], " (B)")

    def test_processes_draw_examples_of_their_own(self):
        self.lines("gsm8k/test.jsonl", *[SUM] * 4)
        self.lines("gsm8k/train.jsonl", *[{"question": f"row {i}", "answer": "#### 1"}
                                          for i in range(100)])

        def prompts(**more):
            return {item["id"]: item["prompt"] for item in self.ask("gsm8k", "LM", **more)[1]}
        one, both, second = prompts(), prompts(world=2), prompts(world=2, rank=1)
        self.assertEqual(list(second), ["1", "3"])
        self.assertEqual([both["1"], both["3"]], list(second.values()))
        self.assertEqual(both["1"], one["0"])
        self.assertNotEqual(both["2"], one["2"])

    def test_a_harness_can_be_asked_without_its_system_message(self):
        self.lines("gsm8k/test.jsonl", SUM)
        self.assertEqual([m["role"] for m in self.ask("gsm8k", "OC-F")[1][0]["messages"]],
                         ["system", "user"])
        self.assertEqual([m["role"] for m in self.ask("gsm8k", "OC-F", system=False)[1][0]
                          ["messages"]], ["user"])

    def test_every_benchmark_names_files_and_their_source(self):
        for entry in register()["benchmarks"]:
            data = register()["datasets"][entry["dataset"]]
            for split in [*entry["reads"], *entry.get("example_files", [])]:
                self.assertTrue(data["files"][split], entry["name"])
            self.assertTrue(data["home"].startswith("https://"))
            self.assertTrue(data["licence"] and data["python"])
            self.assertLessEqual(len(data["python"]), 5)


if __name__ == "__main__":
    unittest.main()
