# SPDX-License-Identifier: Apache-2.0
"""A claim says what its bound tests: no printed number that the bound does not ask for, few words, the field's
terms. The rules are tried on statements that break them."""

import json
import os
import re
from types import SimpleNamespace
import unittest

from made import row_of
from made_claims import FASTER, Made, scored

from unmask.claims.claims import artifacts_of, read_since
from unmask.claims import above, at_least, at_most, below, within
from unmask.claims import repeats
from unmask.claims.declare import RATIOS, read_register
from unmask.claims.words import shown

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../..")
# A number by itself: 4K, LLaDA2.0 and v2 are names, 0.9 is one number.
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w]|\.\d)")
WORDS = {"twice": 2, "half a point": 0.5} | {f"{word} times": n for n, word in enumerate(
    "two three four five six seven eight nine ten".split(), 2)}
# What the glossary replaces, in a statement.
REPLACED = re.compile(r"\bwhole blocks\b|\bspeed-ups?\b|\bK/V\b|\bforwards\b|\bdecid\w*|\bcommit\w*|\brows?\b|\bbeside\b"
                      r"|\bslightly\b|\babout\b|\bhardly\b|\ba little\b|\bup to\b", re.IGNORECASE)
# The same in what else a page of claims shows of a declaration.
SHOWN = ("quantity", "tasks", "items", "clock", "preset", "reading", "each_because", "regime_says")
REPLACED_THERE = re.compile(r"\bwhole blocks\b|\bspeed-ups?\b|\bK/V\b|\bforwards\b|\bdecid\w*|\bcommit\w*|\brows?\b|\bbeside\b"
                            r"|\bcanvas\b|\bdelivered tokens?\b|\bartifacts?\b|\bpoints\b"
                            r"|\ba (?:step|second|token|request|task|forward)\b(?! (?:pass|is|of|over|costs|that))", re.IGNORECASE)
MOST_WORDS = 20


def printed_forms(value, kind):
    """How a paper prints a value: a ratio also turned round and as per cent more or less, a score in points."""
    if kind in RATIOS:
        return [value, 100 * abs(1 - value)] + ([1 / value] if value else [])
    return [abs(value), abs(100 * value)]


def is_printed(number, value, kind):
    """Whether a number of a text is a value, rounded to the digits that the text shows."""
    digits = len(number.partition(".")[2])
    return any(abs(form - float(number)) <= 0.5 * 10 ** -digits * 1.001 for form in printed_forms(value, kind))


def numbers_of(text):
    found = NUMBER.findall(text)
    return found + [str(n) for word, n in WORDS.items() if re.search(rf"\b{word}\b", text)]


def untested(c):
    """The numbers of a statement that are the published one and not an end of a one-sided bound."""
    ends = [b for b in (c.bound.low, c.bound.high) if b is not None]
    if c.published is None or len(ends) > 1:
        return []
    said = numbers_of(c.published.says)
    return [n for n in numbers_of(c.statement)
            if (is_printed(n, c.published.value, c.kind) or n in said) and not is_printed(n, ends[0], c.kind)]


def stated(statement, kind, bound, value, says=""):
    return SimpleNamespace(statement=statement, kind=kind, bound=bound,
                           published=SimpleNamespace(value=value, says=says))


class Reasons(unittest.TestCase):
    def test_a_control_has_the_verdict_of_its_table(self):
        """FOCUS' claims, by the three campaigns of results/tiny."""
        folder = os.path.join(ROOT, "experiments/claims")
        register = read_register(folder)
        focus = [c for c in register.claims if c.paper == "focus"]
        evidence = repeats.evidence_of(os.path.join(ROOT, "results/tiny"), read_since(folder), artifacts_of(register, focus))
        found = repeats.controls_of([k for k in register.controls if k.paper == "focus"], evidence, "tiny")
        verdicts = {k.id: of.verdict for k, of in found}
        named = 0
        for c, r in repeats.judge_campaigns(focus, register, evidence, "tiny"):
            for k, of in r.controls:
                self.assertEqual(of.verdict, verdicts[k.id], f"{c.key}: {k.id}")
                words = k.statement.rstrip(".") + ": "
                self.assertEqual(r.reason.count(words), r.reason.count(words + shown(of.verdict)), f"{c.key}: {k.id}")
                named += words in r.reason
        self.assertGreater(named, 25)
        self.assertEqual([verdicts[name] for name in ("tuned_threshold_on_chat", "focus_over_dc_at_equal_thresholds")],
                         ["OPEN", "OPEN"])


class Shown(Made):
    """The printed number stands next to the measured one, with their ratio: 2 of 4 is 0.50."""
    ROWS = [row_of("fast", [1.0, 1.0, 1.0]), row_of("slow", [2.0, 2.0, 2.0])]

    def shown(self, published, *options, over=FASTER):
        self.put(self.ROWS)
        self.register(over.replace("**SPEED", f'**{{**SPEED, "place": "Abstract", "published": {published}}}'))
        return self.run_command(*options)[1]

    def test_in_the_table_and_in_the_headlines(self):
        published = 'Published(4.0, "Table 5", says="up to four times")'
        self.assertIn("| SUPPORTED | 4 (up to four times; Table 5) | 2, n = 3 repetitions | 0.50 | outside the interval | > 1 (paper) |",
                      self.shown(published))
        self.assertIn("| FOCUS: s | 4 | 2, n = 3 repetitions | 0.50 | ", self.shown(published, "--headlines"))
        self.put(self.ROWS)
        self.register(FASTER)  # of no abstract
        for words, shown in (((), False), (("--only", "focus"), False), (("--only", "focus/c"), True)):
            self.assertEqual("| FOCUS: s | " in self.run_command("--headlines", *words)[1], shown, words)
        said = json.loads(self.shown(published, "--format", "json"))[0]
        self.assertEqual(said["published"], {"value": 4.0, "unit": "x", "source": "Table 5", "approximate": False,
                                             "says": "up to four times"})
        self.assertIn("published      4 (up to four times; Table 5); outside", self.shown(published, "--explain", "c"))

    def test_a_difference_of_scores_has_no_ratio(self):
        text = '@claim(**{**SCORE, "published": Published(0.25, "T")})\ndef c(f):\n    return score(f, "fast", "slow")\n'
        self.put([scored("fast", 75, 100), scored("slow", 50, 100)])
        self.register(text)
        self.assertRegex(self.run_command()[1], r"\| 0.250 \(T\) \| 0.250 \[[^|]*\| – \| within the interval \|")

    def test_without_a_published_number_there_is_a_dash(self):
        self.assertIn("| SUPPORTED | – | 2, n = 3 repetitions | – | none |", self.shown("None"))


class Statements(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        register = read_register(os.path.join(ROOT, "experiments/claims"))
        cls.both = register.claims + register.controls

    def test_no_published_number_that_the_bound_does_not_ask_for(self):
        self.assertEqual([(c.key, c.statement, untested(c)) for c in self.both if untested(c)], [])

    def test_such_a_number_is_found(self):
        more, paper = above(1, "paper"), "paper"
        for statement, kind, bound, value, number in (
                ("WINO needs 6.1 times fewer forward passes than one token per step.", "count", more, 6.11, "6.1"),
                ("Streaming-dLLM is 10.5 times as fast as vanilla decoding.", "speed", more, 10.5, "10.5"),
                ("FOCUS computes 79 % fewer positions per token.", "count", at_most(0.35, paper), 0.2077, "79"),
                ("The next token is among the four most confident in 96 %.", "signal", at_least(0.913, "us"), 0.961, "96"),
                ("Optimus comes within 9 % of the best chunk size.", "capacity", at_least(0.9, "us"), 0.913, "9"),
                ("Ada-DLM is about twice as fast as Fast-dLLM.", "speed", more, 1.72, "2"),
                ("Sparse-dLLM is ten times as fast at 4K tokens.", "speed", more, 10, "10"),
                ("The indicator alone costs half a point.", "score", below(0, paper), -0.0051, "0.5"),
                ("Blocks of 32 unmask 12 % of what they compute.", "signal", at_most(0.15, "us"), 0.12, "12")):
            self.assertEqual(untested(stated(statement, kind, bound, value)), [number], statement)
        said = stated("It is 19 % better.", "score", above(0, paper), 0.0279, "up to 19 % better")
        self.assertEqual(untested(said), ["19"])

    def test_a_number_that_the_bound_asks_for_may_be_there(self):
        for statement, kind, bound, value in (
                ("At least 15 % of the steps are in the stagnation zone.", "signal", at_least(0.15, "paper"), 0.15),
                ("It unmasks at most 4.05 tokens per step with blocks of 32.", "signal", at_most(4.05, "paper"), 4.05),
                ("It serves 2.60 requests per second, within 20 %.", "signal", within(2.08, 3.12, "us"), 2.6),
                ("LLaDA2.0 is faster at 4K tokens in blocks of 64.", "speed", above(1, "paper"), 4.0)):
            self.assertEqual(untested(stated(statement, kind, bound, value)), [], statement)

    def test_a_statement_is_short(self):
        self.assertEqual([c.statement for c in self.both if len(c.statement.split()) > MOST_WORDS], [])
        for c in self.both:
            self.assertRegex(c.statement, r"^[^.;:]*(\.\d[^.;:]*)*\.$", f"{c.key}: one sentence")

    def test_a_statement_has_the_words_of_the_field(self):
        self.assertEqual([(c.key, c.statement) for c in self.both if REPLACED.search(c.statement)], [])
        for text in ("Whole blocks fall.", "It stores less K/V.", "The speed-up grows.", "It decides more."):
            self.assertRegex(text, REPLACED)

    def test_so_has_what_else_a_page_shows_of_it(self):
        self.assertEqual([(c.key, name, getattr(c, name)) for c in self.both for name in SHOWN
                          if REPLACED_THERE.search(getattr(c, name))], [])
        for text in ("rows a delivered token", "requests a second", "whole canvas", "forwards are counted", "5 points"):
            self.assertRegex(text, REPLACED_THERE)


if __name__ == "__main__":
    unittest.main()
