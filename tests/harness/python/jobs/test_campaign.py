# SPDX-License-Identifier: Apache-2.0
"""Campaigns: what is refused, what an archive holds, and what several of them say together."""

import json
import math
import os
import pathlib
import random
import statistics
import sys
import tarfile
import tempfile
from types import SimpleNamespace
import unittest
import unittest.mock

from made import ROOT, row_of
from made_claims import FASTER, Made, scored, write
from scipy import stats

from unmask.claims import claims, pages, repeats
from unmask.jobs import campaign, stale
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.intervals import Estimate
from unmask.rows.rows import places_below

BETTER = """
@claim(**(SCORE | {"clock": "none: a score"}))
def c(f):
    return score(f, "fast", "slow")
"""
RIVAL = """
@claim(rivals=("k",), controls=("l",), **SPEED)
def c(f):
    return speed(f, "fast", "slow")


@control(**{**SPEED, "statement": "The cache is fast."})
def k(f):
    return speed(f, "cache", "slow")


@control(**{**SPEED, "statement": "The draft is fast."})
def l(f):
    return speed(f, "draft", "slow")
"""
EVERY = """
@claim(**{**SPEED, "each_because": "every"})
def c(f):
    return smallest(speed(f, "fast", "slow", "decode_output_tokens_per_second"))
"""
FAST, SLOW = (1.0, 1.01, 0.99), (2.0, 2.02, 1.98)


def rows(faster, score=180):
    return [scored("fast", score, 200, FAST if faster else SLOW),
            scored("slow", 180, 200, SLOW if faster else FAST)]


def modelled(label, rate, batch, **more):
    """A row on a virtual clock, which one seed gives exactly."""
    row = row_of(label, (1.0, 1.0), batch, serve={"clock": "virtual"}, **more)
    row["metrics"]["decode_output_tokens_per_second"] = rate
    row["provenance"]["decode_output_tokens_per_second"] = "analytic"
    return row | {"score": None}


def of_one_seed(draw, ratio_of, **more):
    """Rows of 40 batch sizes: the ratio of both methods that is said, times noise of 1 % on each."""
    return [modelled(label, rate * math.exp(draw.gauss(0, 0.01)), batch, **more) for batch in range(1, 41)
            for label, rate in (("fast", ratio_of(batch)), ("slow", 1.0))]


def of_seed(seed, found):
    return [row | {"seed": seed, "point_id": f"{seed}{row['point_id'][1:]}"} for row in found]


class Campaigns(Made):
    def put_campaigns(self, *each, ended=True, **more):
        for number, found in enumerate(each, 1):
            self.put(found, f"{number}/focus/table_5/tiny")
            record = {"program": "unmask 1, commit a", "register": "r"} | ({"ended": "now"} if ended else {})
            write(f"{self.folder}/results/{number}/campaign.json", json.dumps({**record, **more}))
        return f"{self.folder}/results"

    def verdict(self, where, claim=FASTER):
        register = self.register(claim)
        (_, r), = repeats.judge_campaigns(register.claims, register, repeats.evidence_of(where), "tiny")
        return r

    def test_several_campaigns_give_one_estimate(self):
        """Twice, half and twice as fast: Student's interval of three logarithms, by scipy. A majority of two is none."""
        r = self.verdict(self.put_campaigns(rows(True), rows(False), rows(True)))
        logs = [math.log(2), -math.log(2), math.log(2)]
        low, high = stats.t.interval(0.95, 2, loc=statistics.mean(logs), scale=stats.sem(logs))
        self.assertEqual((r.verdict, r.campaigns), ("OPEN", "3"))
        self.assertAlmostEqual(r.estimate.value, 2 ** (1 / 3), places=6)
        self.assertAlmostEqual(r.estimate.low, math.exp(low), places=6)
        self.assertAlmostEqual(r.estimate.high, math.exp(high), places=6)
        self.assertAlmostEqual(r.p, stats.ttest_1samp(logs, 0).pvalue, places=6)
        self.assertIn("; by campaign: SUPPORTED 2, NOT SUPPORTED 0.500, SUPPORTED 2", r.reason)

    def test_three_that_nearly_agree_are_narrow(self):
        each = [[scored("fast", 180, 200, FAST), scored("slow", 180, 200, [s * f for s in SLOW])]
                for f in (1.0, 1.01, 1.02)]
        r = self.verdict(self.put_campaigns(*each))
        # Logarithms a hundredth apart: 4.303 * 0.0099 / sqrt(3) = 0.0246 either way of 2.02.
        self.assertEqual(r.verdict, "SUPPORTED")
        self.assertAlmostEqual(math.log(r.estimate.high / 2.02), 0.0246, delta=0.0002)

    def test_items_that_all_campaigns_share_keep_their_spread(self):
        """The same items in each: 0.10, 0.11 and 0.12 better. The interval over items does not shrink by asking thrice."""
        each = [[scored("fast", 120 + 2 * i, 200), scored("slow", 100, 200)] for i in range(3)]
        r = self.verdict(self.put_campaigns(*each), BETTER)
        own = [e for _, e in r.each]
        self.assertAlmostEqual(r.estimate.value, 0.11)
        below = math.hypot(statistics.mean(e.value - e.low for e in own), stats.t.ppf(0.975, 2) * 0.01 / math.sqrt(3))
        self.assertAlmostEqual(r.estimate.low, 0.11 - below)

    def test_the_largest_is_chosen_in_one_campaign_and_reported_by_the_others(self):
        """The first finds 6 at batch 8, where the others find 4 and 4.4; their own largest, at batch 1, are not asked."""
        def points(one, eight):
            return [scored(label, 180, 200, [s / f for s in FAST], batch) for batch, x in ((1, one), (8, eight))
                    for label, f in (("fast", x), ("slow", 1))]
        largest = FASTER.replace('speed(f, "fast", "slow")', 'largest(speed(f, "fast", "slow"))').replace(
            "**SPEED", '**{**SPEED, "each_because": "up to"}')
        r = self.verdict(self.put_campaigns(points(5, 6), points(5.5, 4), points(5.6, 4.4)), largest)
        self.assertAlmostEqual(r.estimate.value, math.sqrt(4 * 4.4), places=6)
        self.assertIn("chosen in the first campaign, reported in 2 others", r.reason)

    def every(self, ratio_of):
        """The worst of 40 points of three campaigns on a virtual clock."""
        draw = random.Random(53)
        return self.verdict(self.put_campaigns(*(of_one_seed(draw, ratio_of) for _ in range(3))), EVERY)

    def test_a_method_against_itself_is_not_refuted_by_the_worst_of_many_points(self):
        """The worst points of three campaigns are all below 1, by so much that their mean would exclude it."""
        r = self.every(lambda batch: 1.0)
        self.assertEqual((r.verdict, r.campaigns), ("OPEN", "3"))
        self.assertIn(", n = 3 campaigns, bound > 1", r.reason)
        self.assertIn("the interval is over campaigns, not over prompts", r.reason)
        self.assertNotIn("would decide it", r.reason)
        worst = [math.log(e.value) for _, e in r.each]
        self.assertLess(stats.t.interval(0.95, 2, loc=statistics.mean(worst), scale=stats.sem(worst))[1], 0)
        self.assertEqual([verdict for verdict, _ in r.each], ["OPEN"] * 3)

    def test_the_worst_of_many_points_still_decides(self):
        r = self.every(lambda batch: 2.0)
        self.assertEqual(r.verdict, "SUPPORTED")
        self.assertEqual(r.estimate.low, min(e.low for _, e in r.finding.points))
        r = self.every(lambda batch: 0.1 if batch == 17 else 2.0)
        self.assertEqual(r.verdict, "NOT SUPPORTED")
        self.assertIn("the smallest of 40 points: tiny, word_problem, batch 17", r.reason)
        self.assertEqual(r.reason.count("the smallest of 40 points"), 1)

    def test_the_worst_of_points_of_one_seed_has_no_interval(self):
        draw = random.Random(53)
        r = self.verdict(self.put_campaigns(of_one_seed(draw, lambda batch: 1.0)), EVERY)
        self.assertEqual((r.verdict, r.estimate.low), ("OPEN", None))
        self.assertIn("INCONCLUSIVE, because it has no interval (the worst of several points of one seed)", r.reason)

    def test_seeds_of_one_folder_are_one_point_with_their_interval(self):
        draw = random.Random(53)
        found = [row for seed in range(5) for row in of_seed(seed, of_one_seed(
            draw, lambda batch: 2.0, variation=f"seed={seed} batch_size=1"))]
        r = self.verdict(self.put_campaigns(found), EVERY)
        self.assertEqual((r.verdict, len(r.finding.points), r.estimate.n, r.estimate.unit), ("SUPPORTED", 40, 5, "seeds"))

    def test_campaigns_that_measured_once_have_the_interval_of_their_spread(self):
        each = [[scored("fast", 180, 200, (1.0,)), scored("slow", 180, 200, (s,))] for s in (2.0, 2.02, 2.04)]
        r = self.verdict(self.put_campaigns(*each))
        logs = [math.log(s) for s in (2.0, 2.02, 2.04)]
        low, high = stats.t.interval(0.95, 2, loc=statistics.mean(logs), scale=stats.sem(logs))
        self.assertEqual((r.verdict, r.estimate.n, r.estimate.unit), ("SUPPORTED", 3, "campaigns"))
        self.assertAlmostEqual(r.estimate.low, math.exp(low), places=6)
        self.assertAlmostEqual(r.estimate.high, math.exp(high), places=6)
        self.assertEqual([e.low for _, e in r.each], [None] * 3)

    def test_an_explanation_gives_all_and_each_by_itself(self):
        self.put_campaigns(rows(True), rows(False), rows(False))
        self.register(FASTER)
        code, text = self.run_command("--explain", "c")
        self.assertEqual(code, 0)
        self.assertIn("focus/c: INCONCLUSIVE\n", text)
        self.assertIn("campaigns      3\n"
                      "               SUPPORTED, 2, n = 3 repetitions\n"
                      "               NOT SUPPORTED, 0.500, n = 3 repetitions\n"
                      "               NOT SUPPORTED, 0.500, n = 3 repetitions\n", text)
        self.assertIn("batch 1 | 2, n", text)  # the points are those of the first

    def test_controls_are_named_with_the_verdict_of_all_campaigns(self):
        """The draft is as fast as the baseline in the first campaign and four times as fast in both others, each time
        without a spread: the mean of the logarithms is 2/3 of log 4, its interval crosses 1."""
        def measured(first):
            half, whole, double = ([s, s, s] for s in (0.5, 1.0, 2.0))
            return [scored("fast", 180, 200, whole), scored("slow", 180, 200, double),
                    scored("cache", 180, 200, whole if first else (4.0, 4.0, 4.0)),
                    scored("draft", 180, 200, double if first else half)]
        results = self.put_campaigns(measured(True), measured(False), measured(False))
        r = self.verdict(results, RIVAL)
        self.assertEqual((r.verdict, r.campaigns, r.simplest), ("SUPPORTED", "3", "cache"))
        self.assertAlmostEqual(r.over_simplest.value, 4 ** (2 / 3), places=6)  # as fast once, four times as fast twice
        for k, of in repeats.controls_of(self.register(RIVAL).controls, repeats.evidence_of(results), "tiny"):
            self.assertEqual(of.verdict, "OPEN", k.id)
        slower = RIVAL.replace('speed(f, "fast", "slow")', 'speed(f, "slow", "fast")').replace('rivals=("k",), ', "")
        slower = slower.replace('controls=("l",)', 'controls=("l", "k")')
        r = self.verdict(results, slower)
        self.assertEqual(r.verdict, "NOT SUPPORTED")
        self.assertIn("; control: The draft is fast: INCONCLUSIVE, 2.520 [", r.reason)
        self.assertEqual([(k.id, of.verdict) for k, of in r.controls], [("l", "OPEN"), ("k", "OPEN")])
        said = self.run_command()[1]
        self.assertIn("| c | focus | s (Table 5) | tiny | NOT SUPPORTED |", said)
        self.assertIn("; by campaign: SUPPORTED 2, NOT SUPPORTED 0.500, NOT SUPPORTED 0.500", said)

    def test_what_a_cpu_gave_is_that_of_all_campaigns(self):
        gpu = FASTER.replace("**SPEED", '**{**SPEED, "regime": presumes_a_gpu("it is a GPU")}')
        each = [[scored("fast", 180, 200, FAST), scored("slow", 180, 200, [s * f for s in SLOW])] for f in (1, 1.1, 1.21)]
        r = self.verdict(self.put_campaigns(*each), gpu)
        self.assertEqual((r.verdict, r.measured_text), ("NOT RUN", ""))
        self.assertIn("; on this CPU fast / slow = 2.200 [", r.reason)

    def test_a_table_says_how_well_campaigns_agree(self):
        def judged(*each, kind="speed", reads=True):
            found = [(verdict, interval and Estimate(interval[1], interval[0], interval[2], 3, "repetitions"))
                     for verdict, interval in each]
            return (SimpleNamespace(kind=kind, reads_the_clock=reads), SimpleNamespace(verdict=found[0][0], each=found))

        near = [("OPEN", (1.6, 2.0, 2.5)), ("OPEN", (2.0, 2.5, 3.125))]  # log 1.25 = 0.223 < 0.223 * sqrt(2)
        far = [("OPEN", (1.8, 2.0, 2.22)), ("PARTLY", (2.25, 2.5, 2.78))]  # 0.223 > 0.105 * sqrt(2) = 0.149
        self.assertEqual(
            repeats.agreement_text([judged(*near), judged(*far, near[0]), judged(*far, kind="count"),
                                    judged(*far, reads=False), judged(("OPEN", None), ("OPEN", None)),
                                    judged(near[0])]),
            "4 have other values in other campaigns, 1 of them one verdict in all; in 1 of 4 pairs of speeds "
            "from two campaigns the 95 % interval of their ratio excludes 1 (by chance in 5 of 100)")
        self.assertEqual(repeats.agreement_text([judged(near[0])]), "")
        self.put_campaigns(rows(True), rows(False), rows(False))
        self.register(FASTER)
        self.assertIn("\n1 have other values in other campaigns, 0 of them one verdict in all",
                      self.run_command()[1])

    def test_one_campaign_is_judged_by_itself(self):
        self.put(rows(True))
        r = self.verdict(f"{self.folder}/results")
        self.assertEqual((r.verdict, r.campaigns, r.each), ("SUPPORTED", "", []))

    def test_an_archive_gives_the_same_verdicts(self):
        results = self.put_campaigns(rows(True), rows(True), rows(False))
        before = self.verdict(results)
        with tempfile.TemporaryDirectory() as into:
            campaign.archive(results, into)
            self.assertEqual(sorted(os.listdir(into)), ["rows-2.tar.xz", "rows-3.tar.xz", "rows.tar.xz"])
            first = {file.name: file.read_bytes() for file in pathlib.Path(into).iterdir()}
            self.assertEqual(self.verdict(into).each, before.each)
            campaign.archive(results, into)  # the same rows, the same bytes
            self.assertEqual(first, {file.name: file.read_bytes() for file in pathlib.Path(into).iterdir()})

    def test_an_archive_says_what_became_of_every_artifact(self):
        results = self.put_campaigns(rows(True))

        def line(name, scale, status, count, seconds):
            return {"paper": "focus", "id": name, "scale": scale, "status": status, "rows": count, "detail": "",
                    "seconds": seconds}
        log = [line("table_5", "tiny", "FAILED", 3, 2.0), line("table_5", "tiny", "measured", 9, 5.04),
               line("table_5", "shapes", "NOT RUN", 0, 0.0), line("table_1", "tiny", "NOT RUN", 0, 0.0),
               line("table_1", "real", "NOT RUN", 0, 0.0), line("table_2", "shapes", "measured", 1, 3.0),
               line("table_2", "tiny", "NOT RUN", 0, 0.0)]
        write(f"{results}/1/campaign.jsonl", "".join(json.dumps(entry) + "\n" for entry in log))
        with tempfile.TemporaryDirectory() as into:
            campaign.archive(results, into)
            kept = [json.loads(text) for text in pathlib.Path(into, "campaign.jsonl").read_text().splitlines()]
        self.assertEqual(kept, [line("table_1", "tiny", "NOT RUN", 0, 0.0), line("table_2", "shapes", "measured", 1, 3.0),
                                line("table_5", "tiny", "measured", 9, 7.0)])

    def test_a_renewed_table_replaces_the_rows_of_its_own_alone(self):
        def of(commit, found):
            return [row | {"source_hash": commit * 40} for row in found]
        old = self.put_campaigns(of("a", rows(True)), of("a", rows(True)))
        for number in (1, 2):
            self.put(of("a", rows(True)), f"{number}/focus/table_6/tiny")
        with tempfile.TemporaryDirectory() as into:
            campaign.archive(old, into)
            with tempfile.TemporaryDirectory() as anew:
                self.folder, kept = anew, self.folder
                try:
                    self.refused("rows-2.tar.xz: focus/table_5/tiny/rows.jsonl is of campaign 2 too", campaign.renew,
                                 self.put_campaigns(of("b", rows(False))), into)
                    self.refused("those of another campaign of bbbb", campaign.renew,
                                 self.put_campaigns(of("b", rows(False)), of("c", rows(False))), into)
                    new = self.put_campaigns(of("b", rows(False)), of("b", rows(False)))
                    campaign.renew(new, into)
                    self.refused("holds no archive to renew", campaign.renew, new, f"{anew}/nowhere")
                finally:
                    self.folder = kept
            for name in ("rows.tar.xz", "rows-2.tar.xz"):
                places = places_below(into, archive=name)
                commits = {place: {row["source_hash"][0] for row in found} for place, found in places.items()}
                self.assertEqual(commits, {"focus/table_5/tiny": {"b"}, "focus/table_6/tiny": {"a"}})
            self.check_renewed(into, {"focus/table_5/tiny": "b" * 40})
            shown = self.verdict(into)
            # A second time, by the first program again: nothing is of another commit than the record's.
            self.put_campaigns(of("a", rows(True)), of("a", rows(True)))
            campaign.renew(old, into)
            self.check_renewed(into, {})
        self.assertEqual((shown.verdict, shown.commits), ("NOT SUPPORTED", ("bbbbbbbb",)))

    def test_rows_that_are_measured_again_do_not_hide_when_their_label_was_first_measured(self):
        """Two labels of the first of January, again on the fifth with a third, and on the seventh. Claims of the third of
        January: one of the first two had been seen, one of the third label had not."""
        def on(day, found):
            return [row | {"finished_at": f"2026-01-{day:02}T00:00:00Z"} for row in found]
        cache = scored("cache", 180, 200, FAST)
        failed = scored("cache", 0, 200, FAST) | {"verdict": "FAILED", "reason": "not enough memory"}
        register = self.register(FASTER + FASTER.replace("def c", "def d").replace('"fast"', '"cache"'))
        since = {c.key: {"hash": c.hash, "since": "2026-01-03T00:00:00Z"} for c in register.claims}

        def states(where):
            found = repeats.judge_campaigns(register.claims, register, repeats.evidence_of(where, since), "tiny")
            return [r.registered for _, r in found]
        with tempfile.TemporaryDirectory() as into:
            campaign.archive(self.put_campaigns(on(1, [*rows(True), failed])), into)
            for day in (5, 7):
                results = self.put_campaigns(on(day, [*rows(True), cache]))
                self.assertEqual(states(results), ["before its rows"] * 2)  # of these rows by themselves
                campaign.renew(results, into)
                self.assertEqual(states(into), ["after its rows", "before its rows"], day)
            first = {"fast": "2026-01-01T00:00:00Z", "slow": "2026-01-01T00:00:00Z", "cache": "2026-01-05T00:00:00Z"}
            self.assertEqual(self.record_in(into)["measured_first"], {"focus/table_5/tiny": first})
            with tarfile.open(f"{into}/rows.tar.xz") as archive:
                archive.extractall(f"{self.folder}/unpacked")  # rows of this test
            self.assertEqual(states(f"{self.folder}/unpacked"), ["after its rows", "before its rows"])
            write(f"{results}/1/campaign.json", json.dumps(self.record_in(into)))
            self.assertEqual(states(results), ["after its rows", "before its rows"])

    @staticmethod
    def record_in(into, name="rows.tar.xz"):
        """The record of an archive, which leads it."""
        with tarfile.open(f"{into}/{name}") as archive:
            return json.loads(archive.extractfile(archive.next()).read())

    def check_renewed(self, into, places):
        """The record of every archive, the pages and --stale name the commits of what was renewed."""
        for name in ("rows.tar.xz", "rows-2.tar.xz"):
            with tarfile.open(f"{into}/{name}") as archive:
                first = archive.next()
                record = json.loads(archive.extractfile(first).read())
            self.assertEqual((first.name, record.get("renewed", {})), ("campaign.json", places))
            self.assertEqual(record["program"], "unmask 1, commit a")
        self.assertEqual(repeats.renewed_in(into), places)
        text = pages.pages([], [], unittest.mock.Mock(hash="r"), into)["claims.md"]
        self.assertEqual("Renewed with commit bbbbbbbb: focus/table_5/tiny.\n" in text, bool(places))
        ages = {age.place: (age.commits, age.renewed) for age in stale.ages(into, f"{self.folder}/none", [], 0)}
        of_table_5 = (["bbbbbbbb"], "b" * 40) if places else (["aaaaaaaa"], "")
        self.assertEqual(ages, {"focus/table_5/tiny": of_table_5, "focus/table_6/tiny": (["aaaaaaaa"], "")})
        self.assertEqual("(renewed)" in stale.ages_text(stale.ages(into, f"{self.folder}/none", [], 0)), bool(places))

    def test_of_an_archive_only_the_tables_that_claims_name_are_read(self):
        results = self.put_campaigns(rows(True), rows(True))
        for number in (1, 2):
            self.put(rows(True), f"{number}/focus/table_6/tiny")
        register = self.register(FASTER)
        wanted = claims.artifacts_of(register, register.claims)
        self.assertEqual(wanted, {"focus/table_5"})
        with tempfile.TemporaryDirectory() as into:
            campaign.archive(results, into)
            for artifacts, places in ((None, ["focus/table_5/tiny", "focus/table_6/tiny"]),
                                      (wanted, ["focus/table_5/tiny"]), ({"focus/table_9"}, [])):
                found = repeats.evidence_of(into, None, artifacts)
                self.assertEqual([sorted(e.places) for e in found], [places, places], artifacts)
        with self.assertRaisesRegex(EnvironmentFault, "holds no results"):
            repeats.evidence_of(f"{self.folder}/experiments", None, wanted)

    def refused(self, words, call, *arguments):
        with self.assertRaises(UserError) as caught:
            call(*arguments)
        self.assertIn(words, str(caught.exception))

    def test_rows_that_nobody_can_build_again_are_refused(self):
        self.refused("uncommitted changes", campaign.refuse_modified, "unmask 1, commit a (modified)", False)
        campaign.refuse_modified("unmask 1, commit a (modified)", True)
        campaign.refuse_modified("unmask 1, commit a", False)
        self.refused("does not know its commit", campaign.refuse_modified,
                     "unmask 1, commit unknown (git refuses a checkout of another owner), Release", False)
        nowhere = {**row_of("fast", [1.0]), "source_hash": "unknown"}
        self.refused("names no commit", campaign.archive, self.put_campaigns([nowhere]), f"{self.folder}/into")
        dirty = row_of("fast", [1.0])
        dirty["environment"]["build"] = {"git_dirty": True}
        with tempfile.TemporaryDirectory() as into:
            self.refused("`environment.build.git_dirty` of fast is true", campaign.archive,
                         self.put_campaigns([dirty]), into)
            other = {**row_of("fast", [1.0]), "source_hash": "e" * 40}
            self.refused("a campaign is of one commit", campaign.archive,
                         self.put_campaigns([row_of("slow", [1.0]), other]), into)
            self.refused("its campaigns are of the commits", campaign.archive,
                         self.put_campaigns([row_of("slow", [1.0])], [other]), into)
            self.refused("was not measured to its end", campaign.archive,
                         self.put_campaigns([row_of("slow", [1.0])], ended=False), into)
            with unittest.mock.patch.object(campaign, "LARGEST", 100):
                self.refused("more than 0 MB", campaign.archive, self.put_campaigns(rows(True), rows(True)), into)

    def test_an_archive_that_cannot_be_written_leaves_the_one_that_was_there(self):
        results = self.put_campaigns(rows(True), rows(True))
        with tempfile.TemporaryDirectory() as into:
            campaign.archive(results, into)
            before = {file.name: file.read_bytes() for file in pathlib.Path(into).iterdir()}

            def full(descriptor):
                raise OSError(28, "No space left on device")
            with unittest.mock.patch.object(os, "fsync", full):
                self.refused("rows.tar.xz (No space left on device)", campaign.archive, results, into)
            with unittest.mock.patch.object(campaign, "LARGEST", 100):
                self.refused("more than 0 MB", campaign.archive, results, into)
            self.assertEqual(before, {file.name: file.read_bytes() for file in pathlib.Path(into).iterdir()})

    def test_a_record_that_cannot_be_read_is_made_anew_from_the_rows(self):
        """Rows of made campaigns are of the commit that row_of gives them."""
        commit = row_of("fast", [1.0])["source_hash"]
        register, version = unittest.mock.Mock(hash="r"), f"unmask 1, commit {commit}, Release"
        for broken in ("", '{"program": "unm', "[1]", "null"):
            results = self.put_campaigns(rows(True))
            write(f"{results}/1/campaign.json", broken)
            self.refused("(unmask campaign makes it anew)", repeats.read_record, f"{results}/1")
            campaign.mend_records(results, version, register)
            record = repeats.read_record(f"{results}/1")
            self.assertEqual((record["program"], record["register"], record["seed"]), (version, "r", 0))
            self.assertNotIn("ended", record)  # it goes on, and finds that all is measured
            write(f"{results}/1/campaign.json", broken)
            self.refused(f"its rows are of {commit}, not of this program", campaign.mend_records, results,
                         "unmask 1, commit 0123, Release", register)

    def test_campaigns_of_a_folder_are_of_one_program(self):
        results = self.put_campaigns(rows(True))
        register = unittest.mock.Mock(hash="r")
        place, record = campaign.begin(results, 2, "unmask 1, commit a", register)
        self.assertEqual((record["seed"], os.path.basename(place)), (1, "2"))
        self.refused("campaign 1 has `program`", campaign.begin, results, 3, "unmask 1, commit b", register)
        register.hash = "changed"
        self.refused("campaign 1 has `register`", campaign.begin, results, 3, "unmask 1, commit a", register)

    def test_what_failed_keeps_nothing_else_from_being_measured(self):
        options = campaign.parser().parse_args([f"{self.folder}/results"])
        with unittest.mock.patch.object(campaign.program, "call") as call:
            call.side_effect = [unittest.mock.Mock(returncode=code) for code in (campaign.FAILED, 0, 4)]
            with self.assertRaises(EnvironmentFault) as caught:
                campaign.measure(options, 1, self.folder, "unmask 1, commit a", unittest.mock.Mock(hash="r"))
        self.assertIn("an artifact of the scale shapes FAILED", str(caught.exception))
        self.assertEqual([c.args[0][3] for c in call.call_args_list], ["shapes", "scores", "tiny"])
        self.assertNotIn("ended", campaign.read_record(f"{self.folder}/results/1"))

    def test_the_first_reads_the_scores_for_all(self):
        options = campaign.parser().parse_args([f"{self.folder}/results"])
        with unittest.mock.patch.object(campaign.program, "call") as call:
            call.return_value = unittest.mock.Mock(returncode=0)
            campaign.measure(options, 2, self.folder, "unmask 1, commit a", unittest.mock.Mock(hash="r"))
        self.assertEqual([c.args[0][3] for c in call.call_args_list], ["shapes", "tiny"])

        timed = [scored("fast", 8, 8, FAST), scored("slow", 8, 8, SLOW)]
        results = self.put_campaigns(timed, timed, timed)
        self.assertEqual(self.verdict(results).campaigns, "3")
        self.assertEqual(self.verdict(results).score, "open")  # eight items say nothing of a score
        self.put([scored("fast", 300, 400), scored("slow", 300, 400)], "1/focus/table_5/scores")
        self.assertEqual((self.verdict(results).score, self.verdict(results).campaigns), ("kept", "3"))
        with tempfile.TemporaryDirectory() as into:
            campaign.archive(results, into)
            self.assertEqual(self.verdict(into).verdict, "SUPPORTED")

    def test_what_another_seed_cannot_change_is_measured_once(self):
        options = campaign.parser().parse_args([f"{self.folder}/results"])
        for number, varying in ((1, False), (2, True), (3, True)):
            with unittest.mock.patch.object(campaign.program, "call") as call:
                call.return_value = unittest.mock.Mock(returncode=0)
                campaign.measure(options, number, self.folder, "unmask 1, commit a", unittest.mock.Mock(hash="r"))
            self.assertEqual({"--varying" in c.args[0] for c in call.call_args_list}, {varying})

    def test_the_others_read_it_in_the_first(self):
        results = self.put_campaigns(rows(True), of_seed(1, rows(True)[:1]))  # of the second, one setting varies
        self.assertEqual((self.verdict(results).verdict, self.verdict(results).campaigns), ("SUPPORTED", "2"))
        with tempfile.TemporaryDirectory() as into:
            campaign.archive(results, into)
            self.assertEqual(self.verdict(into).campaigns, "2")
        slower = of_seed(1, [scored("fast", 180, 200, SLOW)])
        self.assertEqual(self.verdict(self.put_campaigns(rows(True), slower)).verdict, "OPEN")
        results = self.put_campaigns(rows(True), rows(True)[:1], ended=False)
        self.assertEqual(self.verdict(results).campaigns, "1 of 2")

    def test_a_claim_that_none_has_rows_for_says_so(self):
        results = self.put_campaigns(*[[row_of("else", [1.0])]] * 3)
        r = self.verdict(results)
        self.assertEqual((r.verdict, r.campaigns, r.each), ("NOT RUN", "none", []))

    def test_a_claim_without_rows_of_its_own_in_the_others_is_judged_once(self):
        results = self.put_campaigns([scored("fast", 180, 200), scored("slow", 90, 200)], [], [])
        for number in (2, 3):
            self.put([row_of("else", [1.0])], f"{number}/focus/table_4/tiny")
        r = self.verdict(results, BETTER)
        self.assertEqual((r.verdict, r.campaigns, len(r.each)), ("SUPPORTED", repeats.DETERMINISTIC, 1))
        self.assertEqual(self.verdict(results).campaigns, repeats.SINGLE)  # another may find other times
        with tempfile.TemporaryDirectory() as into:
            campaign.archive(results, into)
            self.assertEqual(self.verdict(into, BETTER).campaigns, repeats.DETERMINISTIC)

    def test_the_facts_of_archives_are_those_of_their_rows(self):
        sys.path.insert(0, os.path.join(ROOT, "experiments"))
        import campaign_facts

        def row(place, seconds, answers, **more):
            made = row_of("m", [seconds, 1.02 * seconds, 0.98 * seconds], 1, "story")
            return place, made | {"position": 1, "answers_hash": answers} | more
        timed, other = ("focus", "table_5", "tiny"), ("focus", "table_6", "tiny")
        campaigns = [[row(timed, 2.0, "a"), row(other, 1.0, "b")],
                     [row(timed, 1.0, "a", verdict="NOISY"), row(other, 1.0, "c", verdict="NOISY")]]
        facts = dict(campaign_facts.facts(campaigns, {timed}))
        half = facts.pop("half a 95 % interval of tokens/s, median")
        self.assertEqual(half[0], half[1])  # the spread is that of times 1, 1.02 and 0.98
        # t with two degrees of freedom, 4.303, times the standard error 0.02 / sqrt(3)
        self.assertAlmostEqual(float(half[0].rstrip(" %")), 100 * 4.303 * 0.02 / math.sqrt(3), delta=1)
        self.assertEqual(facts, {"rows": ["2", "2"], "rows with the answers of the first": ["–", "1"],
                                 "rows whose claims read the clock": ["1", "1"], "NOISY of these": ["0", "1"],
                                 "speed of the machine, first = 1": ["1.00", "2.00"]})

    def test_the_table_of_ranks_has_both_speeds_and_their_ratio(self):
        sys.path.insert(0, os.path.join(ROOT, "experiments"))
        import ranks_table

        def row(model, ranks, batch, label, speed):
            return {"model": {"name": model}, "ranks": ranks, "batch_size": batch, "label": label,
                    "metrics": {} if speed is None else {"tokens_per_second": speed}}
        rows = [row(*of, label, speed) for of, speeds in (
            (("wide", 2, 16), (100.0, 175.0)), (("wide", 1, 16), (50.0, 100.0)), (("wide", 1, 1), (10.0, 9.9)),
            (("tall", 1, 1), (None, None))) for label, speed in zip(ranks_table.SIDES, speeds)]
        self.assertEqual(ranks_table.table(rows), [["model", "ranks", "batch 1", "batch 16"],
                                                   ["wide", "1", "10 → 10 (0.99)", "50 → 100 (2.00)"],
                                                   ["wide", "2", "–", "100 → 175 (1.75)"],
                                                   ["tall", "1", "–", "–"]])


if __name__ == "__main__":
    unittest.main()
