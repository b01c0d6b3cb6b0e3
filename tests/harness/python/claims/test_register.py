# SPDX-License-Identifier: Apache-2.0
"""What the register keeps of a claim: a hash of what it tests, which has its date, and one of its words."""

import json
import os
import shutil
import subprocess
import sys
import unittest
import unittest.mock

from made import ROOT, row_of
from made_claims import FASTER, Made, write

from unmask.claims import NeedsRows, claims, declare
from unmask.claims.declare import Claim
from unmask.claims.frame import Frame
from unmask.rows.errors import UserError

HERE = os.path.dirname(os.path.abspath(__file__))
# A claim with every field set, and what each is changed to. By hand: what moves no verdict is words.
WHOLE = '''
SIDE = "slow"


@claim(**{**SPEED, "published": Published(2.0, "Table 5: 4 / 2", 0.005, says="twice as fast"),
          "regime": (presumes("it is slow", "redundancy", at_least(3, "us: few"), label="slow"),
                     presumes_ratio("both are short", "nfe", at_most(2, "paper"), "fast", "slow")),
          "rivals": ("k",), "controls": ("l",), "reading": "a", "each_because": "b", "preset": "p"})
def c(f):
    return speed(f, "fast", SIDE)


@control(**SPEED)
def k(f):
    return speed(f, "cache", SIDE)


@control(**SPEED)
def l(f):
    return speed(f, "draft", "slow")
'''
REWORDED = (('"reading": "a"', '"reading": "x"'), ('"each_because": "b"', '"each_because": "x"'),
            ('"preset": "p"', '"preset": "x"'), ("Table 5: 4 / 2", "Table 5"), ("twice as fast", "2.0 times"),
            ("it is slow", "it is not fast"), ("us: few", "us: little"),
            ('"published"', '"statement": "x", "published"'),
            ('"published"', '"quantity": "x", "published"'), ('"published"', '"tasks": "x", "published"'),
            ('"published"', '"items": "x", "published"'), ('"published"', '"place": "x", "published"'),
            ('"published"', '"clock": "minutes", "published"'),
            ('"published"', '"bound": above(1, "paper: faster"), "published"'),
            ('"published"', '"quality": at_least(-0.02, "us: for a reason"), "published"'))
RETESTED = (("Published(2.0", "Published(2.1"), ("0.005", "0.05"), ("0.005,", "0.005, True,"),
            ('"redundancy"', '"nfe"'), ('at_least(3, "us', 'at_least(4, "us'), ('at_least(3, "us', 'at_most(3, "us'),
            ('"us: few"', '"paper: few"'), ('label="slow"', 'label="fast"'), ('"fast", "slow"))', '"slow", "fast"))'),
            ("presumes(", "presumes_of_tasks("), ('"rivals": ("k",)', '"rivals": ("k", "l")'),
            ('"controls": ("l",)', '"controls": ("l", "k")'), ('SIDE = "slow"', 'SIDE = "slower"'),
            ('speed(f, "fast", SIDE)', 'speed(f, "faster", SIDE)'),
            ('"published"', '"bound": above(1.5, "paper"), "published"'),
            ('"published"', '"bound": at_least(1, "paper"), "published"'),
            ('"published"', '"bound": above(1, "us: faster"), "published"'),
            ('"published"', '"quality": at_least(-0.03, "us: two points"), "published"'),
            ('"published"', '"kind": "capacity", "published"'), ('"published"', '"scales": ("tiny",), "published"'),
            ('"published"', '"clock": "none: nothing is timed", "published"'))


class TwoHashes(Made):
    def hashes(self, text):
        c = self.register(text).claims[0]
        return c.hash, c.words

    def test_a_word_changes_the_second_alone(self):
        tested, words = self.hashes(WHOLE)
        for old, new in REWORDED:
            self.assertEqual(WHOLE.count(old), 1, old)
            found = self.hashes(WHOLE.replace(old, new))
            self.assertEqual(found[0], tested, f"{old} -> {new}")
            self.assertNotEqual(found[1], words, f"{old} -> {new}")
        text = FASTER.replace("**SPEED", '**{**SPEED, "regime": no_precondition("of this")}')
        other = self.hashes(text.replace("of this", "of that"))
        self.assertEqual([a == b for a, b in zip(self.hashes(text), other)], [True, False])

    def test_what_is_tested_changes_the_first(self):
        tested = self.hashes(WHOLE)[0]
        for old, new in RETESTED:
            self.assertGreaterEqual(WHOLE.count(old), 1, old)
            self.assertNotEqual(self.hashes(WHOLE.replace(old, new, 1))[0], tested, f"{old} -> {new}")

    def test_a_note_changes_neither(self):
        self.assertEqual(self.hashes(WHOLE.replace('"published"', '"note": "n", "published"')), self.hashes(WHOLE))

    def test_every_field_is_of_one_of_them(self):
        self.assertEqual(sorted(declare.TESTED + declare.WORDS + declare.NEITHER), sorted(Claim.__dataclass_fields__))

    def dated(self, text):
        """The record of the claim of a file, dated long ago."""
        self.register(text)
        self.run_command("--register")
        path = f"{self.folder}/claims/register.json"
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        for entry in record.values():
            entry.update(since="2025-01-01T00:00:00Z", worded="2025-01-01T00:00:00Z")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(record, file)
        return path

    def test_other_words_keep_the_date(self):
        self.put([row_of("fast", [2.0, 2.1]), row_of("slow", [1.0, 1.1])])
        path = self.dated(FASTER)
        for text, since, said in ((FASTER.replace("(**SPEED", '(reading="r", **SPEED'), "2025", "0 of 1"),
                                  (FASTER.replace('"slow")', '"slower")'), "20", "1 of 1")):
            self.register(text)
            answer = self.run_command("--register")[1]
            self.assertIn(f"{said} claims and controls dated", answer)
            with open(path, encoding="utf-8") as file:
                (entry,) = json.load(file).values()
            self.assertTrue(entry["since"].startswith(since))
            self.assertNotEqual(entry["worded"], "2025-01-01T00:00:00Z")
            self.assertEqual("1 others say" in answer, said == "0 of 1")
        self.assertNotEqual(entry["since"], "2025-01-01T00:00:00Z")

    def test_a_wrong_name_is_told_before_rows_are_read(self):
        self.register(FASTER)
        with unittest.mock.patch.object(claims.repeats, "evidence_of") as read:
            for option, words in (("--explain", "unknown claim 'd'"), ("--only", "unknown paper or claim or artifact")):
                with self.assertRaisesRegex(UserError, words):
                    self.run_command(option, "d")
            with self.assertRaisesRegex(UserError, "unknown claim 'd'"):  # nor is a folder looked for
                claims.main([f"{self.folder}/none", "--experiments-dir", self.folder, "--explain", "d"])
        read.assert_not_called()

    def test_a_reworded_claim_is_before_its_rows(self):
        self.put([row_of("fast", [2.0, 2.1]), row_of("slow", [1.0, 1.1])])
        self.dated(FASTER)
        self.register(FASTER.replace("(**SPEED", '(reading="r", **SPEED'))
        self.assertIn("| holds | – | yes |", self.run_command()[1])
        self.run_command("--register")
        self.assertRegex(self.run_command("--explain", "c")[1], r"declared       yes, worded 20\d\d-")
        self.register(FASTER.replace("**SPEED", '**{**SPEED, "bound": above(2, "us")}'))
        self.assertIn("| not declared |", self.run_command()[1])


class SameTests(Made):
    """The script that proves of two folders that claims were only reworded."""

    def compared(self, new):
        self.register(WHOLE)
        self.put([row_of("fast", [2.0, 2.1])])
        self.run_command("--register")
        shutil.copytree(self.folder, f"{self.folder}/old", dirs_exist_ok=True)
        self.register(new)
        self.run_command("--register")
        done = subprocess.run([sys.executable, os.path.join(HERE, "same_tests.py"), f"{self.folder}/old/claims",
                               f"{self.folder}/claims"], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_words_alone_pass(self):
        code, text = self.compared(WHOLE.replace('"published"', '"statement": "x", "published"'))
        self.assertEqual((code, text), (0, "0 test something else or have another date; 1 have other words\n"))

    def test_another_bound_is_named(self):
        code, text = self.compared(WHOLE.replace('"published"', '"bound": above(2, "paper"), "published"'))
        self.assertEqual(code, 1)
        self.assertIn("focus/c tests something else\n", text)

    def test_a_claim_that_is_gone_is_named(self):
        code, text = self.compared(WHOLE.replace("def c(f)", "def d(f)"))
        self.assertEqual(code, 1)
        self.assertIn("focus/c is gone\nfocus/d is new\n", text)


class Parts(Made):
    """A paper whose claims are too many for one file."""

    def test_further_files_of_a_paper_are_read_behind_its_first(self):
        self.register(FASTER)
        text = self.text_of("claims/focus.py")
        write(f"{self.folder}/claims/focus.also.py", text.replace("def c(f)", "def d(f)"))
        register = declare.read_register(f"{self.folder}/claims")
        self.assertEqual([c.key for c in register.claims], ["focus/c", "focus/d"])
        write(f"{self.folder}/claims/focus.also.py", text)
        with self.assertRaisesRegex(UserError, "claim 'c' stands in the register twice"):
            declare.read_register(f"{self.folder}/claims")


class Tower(unittest.TestCase):
    def test_a_tower_in_every_forward_pass_by_hand(self):
        """10 s, of which the tower took 0.5 for 4 pictures; 84 forward passes are 21 of each request: 20 more runs are
        10 s more, twice the time. Equal repetitions have no spread."""
        control = declare.read_register(os.path.join(ROOT, "experiments/claims")).named("ada_dlm/tower_in_every_forward")
        row = row_of("Vanilla", [10.0, 10.0], task="picture_read")
        row["model"]["name"] = "tiny-dimple"
        row["metrics"] |= {"picture_seconds": 0.5, "nfe": 84, "tower_runs": 4}
        e = control.function(Frame([row])).estimate
        self.assertEqual((e.value, e.low, e.high), (2.0, 2.0, 2.0))
        row["samples"]["half_width"] = 0.1  # 2 -+ 0.1 times the root of 2
        e = control.function(Frame([row])).estimate
        self.assertAlmostEqual(e.low, 2 - 0.141421356, 6)
        self.assertAlmostEqual(e.high, 2 + 0.141421356, 6)
        del row["metrics"]["picture_seconds"]
        with self.assertRaises(NeedsRows):
            control.function(Frame([row]))


if __name__ == "__main__":
    unittest.main()
