# SPDX-License-Identifier: Apache-2.0
"""Answers about pictures, each with the verdict by hand: right, wrong, or for a judge (ctest score.about_pictures)."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import support

from unmask.benchmarks.score import about_pictures

CHOICE = {"question_type": "multi_choice", "answer_type": "text", "choices": ["3/11", "8/11", "none of them."],
          "answer": "8/11", "precision": None}
INTEGER = {"question_type": "free_form", "answer_type": "integer", "choices": None, "answer": "14", "precision": None}
FLOAT = {"question_type": "free_form", "answer_type": "float", "choices": None, "answer": "0.6", "precision": 1.0}
LIST = {"question_type": "free_form", "answer_type": "list", "choices": None, "answer": "[1, 2]", "precision": None}
LETTER = {"question_type": "multi-choice", "answer": "C"}
OPEN = {"question_type": "free-form", "answer": "65 degrees"}
RIGHT, WRONG, JUDGE = True, False, None
VISTA = [
    (CHOICE, "8/11", RIGHT), (CHOICE, "3/11", WRONG), (CHOICE, "B", RIGHT), (CHOICE, "(B)", RIGHT),
    (CHOICE, "(B) 8/11", RIGHT), (CHOICE, "(A) 3/11", WRONG), (CHOICE, "It is not (A). Answer: (B).", RIGHT),
    (CHOICE, "Answer: A\nAnswer: B", RIGHT), (CHOICE, "Answer: C.", WRONG),
    (CHOICE, "(B) 3/11", JUDGE),             # letter and text say two things
    (CHOICE, "(D)", JUDGE),                  # there are three
    (CHOICE, "The second one.", JUDGE), (CHOICE, "", JUDGE), (CHOICE, "b", JUDGE),
    (INTEGER, "14", RIGHT), (INTEGER, "14.0", RIGHT), (INTEGER, "14.9", RIGHT),  # int(float()), as MathVista's code
    (INTEGER, "13", WRONG), (INTEGER, "7 + 7 is Answer: 14.", RIGHT), (INTEGER, "The number is 14.", JUDGE),
    (INTEGER, "inf", JUDGE), (INTEGER, "1e999", JUDGE), (INTEGER, "nan", JUDGE), (INTEGER, "fourteen", JUDGE),
    (FLOAT, "0.6", RIGHT), (FLOAT, "0.62", RIGHT), (FLOAT, "0.66", WRONG), (FLOAT, "about 0.6", JUDGE),
    (FLOAT, "Answer: .6", RIGHT),
    (LIST, "[1, 2]", RIGHT), (LIST, "[1,2]", RIGHT), (LIST, "[2, 1]", WRONG), (LIST, "1, 2", JUDGE),
    (LIST, "[1, __import__('os')]", JUDGE), (LIST, "[" * 999 + "]", JUDGE), (LIST, "[" + "1," * 600 + "]", JUDGE)]
VERSE = [
    (LETTER, "C", RIGHT), (LETTER, "Reasons.\nAnswer: C", RIGHT), (LETTER, "Answer: (C)", RIGHT),
    (LETTER, "Answer: C:65°", RIGHT), (LETTER, "(C) 65°", RIGHT), (LETTER, "Answer: B.", WRONG),
    (LETTER, "A triangle has three sides", JUDGE), (LETTER, "Answer: 65°", JUDGE), (LETTER, "", JUDGE),
    (OPEN, "65 degrees", RIGHT), (OPEN, "So. Answer: 65 degrees.", RIGHT), (OPEN, "Answer: 60 degrees", WRONG),
    (OPEN, "The angle is 65 degrees", JUDGE)]


class Rules(unittest.TestCase):
    def check(self, judge, cases):
        for doc, text, wanted in cases:
            with self.subTest(answer=text[:40], kind=doc["question_type"]):
                self.assertIs(judge(doc, text)[0], wanted)

    def test_mathvista(self):
        self.check(about_pictures.mathvista, VISTA)

    def test_mathverse(self):
        self.check(about_pictures.mathverse, VERSE)


class Command(unittest.TestCase):
    def test_stored_answers_have_a_score_and_the_number_that_a_judge_must_read(self):
        """The answers of MathVista's list, through the command: those that are right, wrong, or neither."""
        with tempfile.TemporaryDirectory() as folder:
            path, out = os.path.join(folder, "samples_mathvista_1.jsonl"), os.path.join(folder, "scores.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                for number, (doc, text, _) in enumerate(VISTA):
                    file.write(json.dumps({"doc_id": number, "doc": doc, "target": doc["answer"], "resps": [[text]],
                                           "scorer": "mathvista_own"}) + "\n")
            done = subprocess.run([sys.executable, "-m", "unmask", "score", path, "-o", out], capture_output=True,
                                  text=True, env={**os.environ, "PYTHONPATH": os.path.join(support.ROOT, "harness/python")})
            self.assertEqual(done.returncode, 0, done.stderr)
            found = support.read_lines(out)
        counts = {status: sum(line["status"] == status for line in found) for status in ("scored", "undecided")}
        decided = [wanted for _, _, wanted in VISTA if wanted is not None]
        self.assertEqual(counts, {"scored": len(decided), "undecided": len(VISTA) - len(decided)})
        self.assertEqual([line["value"] for line in found if line["status"] == "scored"], [float(w) for w in decided])
        self.assertIn("a judge must read it", done.stdout)
        self.assertIn(f"({counts['undecided']} undecided)", done.stdout)


if __name__ == "__main__":
    unittest.main()
