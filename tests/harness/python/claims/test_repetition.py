# SPDX-License-Identifier: Apache-2.0
"""A likelihood rewards loops: what claims say of texts that repeat themselves."""

import json
import os
import unittest

from made_claims import FASTER, Made, scored

from unmask.claims import repeats
from unmask.rows import intervals
from unmask.rows.repetition import likelihood_of_references, repetition_of

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../..")
LIKELIER = """
@claim(**SCORE)
def c(f):
    return score(f, "fast", "slow")
"""


def story(label, likelihood, repeated=None, seconds=(1.0, 1.01, 0.99), n=400, references=0.08, of_each=None):
    """A row of judged stories, all of nearly the same likelihood; without `repeated` as rows of before. of_each: how many
    of its 20 sequences every story repeats."""
    row = scored(label, 0, n, seconds, task="story")
    row["workload"]["judge"] = "tiny-ar"
    row["items"]["score"] = [likelihood + (i % 7 - 3) / 1000 for i in range(n)]
    row["score"] = {"mean": likelihood, "exact": 0, "n": n, "ci95": [likelihood - 0.001, likelihood + 0.001]}
    if of_each is not None:
        row["items"] |= {"repeated_sequences": of_each, "sequences": [20] * n}
        repeated = sum(of_each) / (20 * n)
    if repeated is not None:
        row["score"]["beside"] = {"repeated_sequences": repeated, "reference_repeated_sequences": references,
                                  "reference_likelihood": 0.425}
    return row


class Texts(Made):
    FAST, SLOW = (1.0, 1.01, 0.99), (2.0, 2.02, 1.98)

    def speed_of(self, ours, theirs):
        return self.judged(FASTER, [story("fast", *ours, seconds=self.FAST), story("slow", *theirs, seconds=self.SLOW)])

    def test_a_text_that_repeats_no_more_is_kept(self):
        r = self.speed_of((0.45, 0.30), (0.45, 0.30))
        self.assertEqual((r.verdict, r.score), ("SUPPORTED", "kept"))
        self.assertIn("; repeated 4-word sequences: 30.0 % against 30.0 %, in the references 8.0 %", r.reason)
        self.assertNotIn("the likelier text", r.reason)

    def test_a_likelier_text_that_loops_is_not_kept(self):
        """Five more repeated sequences of a hundred: more than the two points of the bound, less than 400 texts tell
        of others, for 400 shares of 0.30 and 0.35 leave 6 points either way."""
        r = self.speed_of((0.47, 0.35), (0.45, 0.30))
        self.assertEqual((r.verdict, r.score, r.score_needs), ("SUPPORTED", "open", None))
        self.assertIn("repeated 4-word sequences: 35.0 % against 30.0 %, in the references 8.0 %: the likelier text "
                      "repeats itself more", r.reason)

    def test_a_planted_loop_is_lower_quality_however_likely(self):
        r = self.speed_of((0.54, 0.60), (0.45, 0.30))
        self.assertEqual((r.verdict, r.score), ("PARTLY", "worse"))
        self.assertGreater(r.finding.quality.low, 0)

    def each(self, ours, theirs):
        """The speed of stories of one likelihood that repeat so many of their 20 sequences."""
        n = len(ours)
        return self.judged(FASTER, [story("fast", 0.45, n=n, of_each=ours, seconds=self.FAST),
                                    story("slow", 0.45, n=n, of_each=theirs, seconds=self.SLOW)])

    def test_repetition_of_every_text_has_an_interval_over_texts(self):
        """Each of 400 texts repeats 7 of 20 sequences or 6: 5 pp more than the bound of 2 for all texts, which shares of
        0.35 and 0.30 leave open. Half of the texts one more, half one less: none more, within 1 pp."""
        r = self.each([7] * 400, [6] * 400)
        self.assertEqual((r.verdict, r.score), ("PARTLY", "worse"))
        r = self.each([7, 5] * 200, [6] * 400)
        self.assertEqual((r.verdict, r.score), ("SUPPORTED", "kept"))
        change = r.finding.texts.over_items
        # A bootstrap of a mean of ±5 pp: 1.96 * 5 / sqrt(400) = 0.49 pp either way.
        self.assertEqual((change.value, change.n), (0, 400))
        self.assertAlmostEqual(change.high, 0.0049, delta=0.0002)
        self.assertIn("repeated 4-word sequences: 30.0 % against 30.0 % (", r.reason)
        self.assertIn(" pp), in the references 8.0 %", r.reason)

    def test_a_few_texts_that_loop_leave_open_how_often_others_would(self):
        """Eight of 400 texts repeat all of their sequences: 1.4 pp more, within the bound of 2 as a mean. For other texts
        less than 2 is not shown."""
        r = self.each([20] * 8 + [6] * 392, [6] * 400)
        self.assertAlmostEqual(r.finding.texts.change.value, -0.014)
        self.assertLess(r.finding.texts.change.low, -0.02)
        self.assertEqual((r.verdict, r.score), ("SUPPORTED", "open"))
        self.assertGreater(r.score_needs, 400)
        self.assertIn(f", {r.score_needs} items would decide it", r.reason)

    def test_rows_of_which_one_has_no_counts_of_texts_are_judged_by_their_shares(self):
        r = self.judged(FASTER, [story("fast", 0.45, 0.30, seconds=self.FAST),
                                 story("slow", 0.45, of_each=[6] * 400, seconds=self.SLOW)])
        self.assertEqual(r.score, "kept")
        self.assertIsNone(r.finding.texts.over_items)

    def test_what_nears_the_references_and_loops_more_is_not_determined(self):
        """From 0.115 to 0.385, with references of 0.425: likelier, as they are, and repeated more."""
        r = self.speed_of((0.385, 0.425), (0.115, 0.283))
        self.assertEqual((r.verdict, r.score), ("SUPPORTED", "open"))
        r = self.speed_of((0.385, 0.425), (0.385, 0.283))
        self.assertEqual((r.verdict, r.score), ("PARTLY", "worse"))

    def test_fewer_loops_do_not_make_up_for_a_less_likely_text(self):
        r = self.speed_of((0.30, 0.10), (0.45, 0.30))
        self.assertEqual((r.verdict, r.score), ("PARTLY", "worse"))

    def test_rows_without_the_count_say_so(self):
        r = self.speed_of((0.45,), (0.45, 0.30))
        self.assertEqual((r.verdict, r.score, r.score_needs), ("SUPPORTED", "open", None))
        self.assertIn("; how often these texts repeat themselves was not counted", r.reason)
        self.assertIn("; the quality is not determined, because the repetition of its texts was not counted;", r.reason)
        # A text that is less likely is of lower quality, however often it repeats itself.
        r = self.speed_of((0.30,), (0.45, 0.30))
        self.assertEqual((r.verdict, r.score), ("PARTLY", "worse"))
        self.assertNotIn("not determined", r.reason)

    def test_the_same_texts_repeat_themselves_as_often_without_a_count(self):
        """One other text of 400, or rows without hashes, leave it open."""
        def hashed(label, seconds, hashes):
            row = story(label, 0.45, seconds=seconds)
            row["items"]["answer_hash"] = hashes
            return row
        hashes = [f"{i:016x}" for i in range(400)]
        for theirs, score in ((hashes, "kept"), ([*hashes[1:], "f" * 16], "open"), ([""] * 400, "open")):
            r = self.judged(FASTER, [hashed("fast", self.FAST, hashes), hashed("slow", self.SLOW, theirs)])
            self.assertEqual((r.verdict, r.score), ("SUPPORTED", score))
            self.assertEqual("both sides wrote the same texts" in r.reason, score == "kept")
            self.assertEqual("was not counted" in r.reason, score == "open")

    def of_campaigns(self, *each):
        """The speed over several campaigns, of each both sides as story() takes them."""
        for number, (ours, theirs) in enumerate(each, 1):
            self.put([story("fast", **ours, seconds=self.FAST), story("slow", **theirs, seconds=self.SLOW)],
                     f"{number}/focus/table_5/tiny")
        register = self.register(FASTER)
        evidence = repeats.evidence_of(f"{self.folder}/results")
        return repeats.judge_campaigns(register.claims, register, evidence, "tiny")[0][1]

    def test_repetition_is_of_all_campaigns(self):
        """Shares of 0.30, 0.40 and 0.50 against 0.30: the first campaign alone would be kept. Student's t of 0, 10 and
        20 pp is 4.303 * 10 / sqrt(3) = 24.8 pp either way, beyond 2 pp on both sides."""
        same = {"likelihood": 0.45, "repeated": 0.30}
        r = self.of_campaigns(*(({"likelihood": 0.45, "repeated": share}, same) for share in (0.30, 0.40, 0.50)))
        self.assertEqual((r.campaigns, r.verdict, r.score), ("3", "SUPPORTED", "open"))
        self.assertIn("; repeated 4-word sequences: 40.0 % against 30.0 %, in the references 8.0 %", r.reason)
        self.assertAlmostEqual(r.finding.texts.change.value, -0.10)
        self.assertLess(r.finding.texts.change.low, -0.10 - 0.248)

    def test_repetition_of_every_text_has_an_interval_over_campaigns_and_texts(self):
        """Each text repeats 6, 7 and 8 of 20 sequences in turn against 6: 0, 5 and 10 pp more, no spread over texts."""
        six = {"likelihood": 0.45, "of_each": [6] * 400}
        r = self.of_campaigns(*(({"likelihood": 0.45, "of_each": [k] * 400}, six) for k in (6, 7, 8)))
        self.assertEqual(r.score, "open")
        change = r.finding.texts.over_items
        self.assertAlmostEqual(change.value, -0.05)
        self.assertAlmostEqual(change.low, -0.05 - 4.3027 * 0.05 / 3**0.5, places=4)
        self.assertIn("repeated 4-word sequences: 35.0 % against 30.0 % (+5.0 [-7.4, 17.4] pp)", r.reason)

    def test_a_campaign_without_the_count_leaves_the_quality_open(self):
        same = {"likelihood": 0.45, "repeated": 0.30}
        r = self.of_campaigns((same, same), ({"likelihood": 0.45}, same))
        self.assertEqual(r.score, "open")
        self.assertIn("was not counted", r.reason)

    def test_answers_have_no_repetition(self):
        r = self.judged(FASTER, [scored("fast", 300, 400, self.FAST), scored("slow", 300, 400, self.SLOW)])
        self.assertNotIn("repeat", r.reason)

    def test_a_claim_that_is_a_likelihood_says_how_often_its_texts_repeat(self):
        r = self.judged(LIKELIER, [story("fast", 0.39, 0.45), story("slow", 0.115, 0.283)])
        self.assertEqual(r.verdict, "SUPPORTED")
        self.assertIn("repeated 4-word sequences: 45.0 % against 28.3 %, in the references 8.0 %: the likelier text "
                      "repeats itself more", r.reason)
        r = self.judged(LIKELIER, [story("fast", 0.39, 0.2), story("slow", 0.115, 0.283)])
        self.assertNotIn("the likelier text", r.reason)
        r = self.judged(LIKELIER, [story("fast", 0.39), story("slow", 0.115)])
        self.assertIn("was not counted", r.reason)

    def test_shares_of_several_rows_are_weighted_by_their_texts(self):
        found = repetition_of([(story("a", 0.4, 0.5, n=100), story("b", 0.4, 0.1, n=100)),
                               (story("a", 0.4, 0.2, n=300), story("b", 0.4, 0.1, n=300))])
        self.assertAlmostEqual(found.ours, (50 + 60) / 400)
        self.assertAlmostEqual(found.change.value, 0.1 - 0.275)
        self.assertEqual(found.n, 400)
        wanted = intervals.share_difference(0.725, 400, 0.9, 400)
        self.assertAlmostEqual(found.change.low, wanted.low)
        self.assertIsNone(repetition_of([(story("a", 0.4), story("b", 0.4, 0.1))]))


class References(unittest.TestCase):
    def test_a_row_has_its_own_and_older_rows_have_what_was_measured_of_the_workload(self):
        self.assertEqual(likelihood_of_references(story("a", 0.4, 0.1)), 0.425)
        self.assertEqual(likelihood_of_references(story("a", 0.4)), 0.4246)
        of_answers = story("a", 0.4)
        del of_answers["workload"]["judge"]
        self.assertIsNone(likelihood_of_references(of_answers))
        other = story("a", 0.4)
        other["workload"]["judge"] = "another judge"
        self.assertIsNone(likelihood_of_references(other))

    def test_what_older_rows_have_is_measured(self):
        with open(os.path.join(ROOT, "results/epyc-2core/story_loops.jsonl"), encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        found = {round(row["score"]["beside"]["reference_likelihood"], 4) for row in rows}
        without = [{**row, "score": {**row["score"], "beside": {}}} for row in rows]
        self.assertEqual({likelihood_of_references(row) for row in without}, found)
        self.assertEqual({row["score"]["n"] for row in rows}, {80})


if __name__ == "__main__":
    unittest.main()
