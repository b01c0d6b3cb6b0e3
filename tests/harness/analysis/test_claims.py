# SPDX-License-Identifier: Apache-2.0
"""Claims: how each kind is judged, what is refused, what one is told, and the shipped claims."""

import contextlib
import io
import json
import math
import os
import tempfile
import unittest

from made import row_of
from scipy import stats

from unmask import claims, claims_check, claims_read, experiments
from unmask.errors import EnvironmentFault, UserError
from unmask.verdicts import FAILED, HELD, UNDECIDED, Region, judge, tone

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
ARTIFACT = """
[artifact]
paper = "focus"
id = "{id}"
[scale.tiny]
[scale.full]
needs = ["memory_gb:64"]
[[scale.full.model]]
path = "weights:GSAI-ML/LLaDA-8B"
[[scale.full.workload]]
benchmark = "gsm8k"
[scale.full.run]
device = "cuda"
"""
HEAD = ('paper = "focus"\n[[claim]]\nid = "c"\nstatement = "s"\nsource = "Table 5"\n'
        'artifact = "../focus/table_5.toml"\nscales = ["tiny"]\n')
FASTER = ('kind = "ordering"\nmetric = "tokens_per_second"\nrelation = ">"\n'
          'left = { label = "fast" }\nright = { label = "slow" }\n')
AS_GOOD = ('kind = "ordering"\nmetric = "score"\nrelation = ">="\ntolerance = 0.02\n'
           'left = { label = "fast" }\nright = { label = "slow" }\n')
BETTER = ('kind = "ordering"\nmetric = "score"\nrelation = ">"\n'
          'left = { label = "fast" }\nright = { label = "slow" }\n')


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def scored(label, right, n, batch=1, task="word_problem", **more):
    """A row that kept its items, of which the first `right` are right."""
    row = row_of(label, [1.0, 1.0], batch, task, **more)
    row["workload"]["items"] = n
    row["score"] = {"mean": right / n, "exact": right, "n": n, "ci95": [0, 1]}
    row["items"] = {"id": [f"item {i}" for i in range(n)],
                    "score": [1 if i < right else 0 for i in range(n)],
                    "exact": [i < right for i in range(n)], "output_tokens": [1] * n,
                    "seconds": [[]] * n, "answer_hash": [""] * n}
    return row


class Claims(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        experiments.read_toml.cache_clear()
        for name in ("table_5", "table_6"):
            write(f"{self.folder}/focus/{name}.toml", ARTIFACT.format(id=name))

    def parsed(self, lines, head=HEAD):
        experiments.read_toml.cache_clear()
        path = f"{self.folder}/claims/focus.toml"
        write(path, head + lines)
        return claims_read.read_claims_file(path)

    def checked(self, lines, rows):
        return claims_check.check(self.parsed(lines)[0], rows, "tiny")

    def judged(self, lines, asked="tiny", head=HEAD):
        evidence = claims.Evidence(f"{self.folder}/results")
        return claims.judge_claims(self.parsed(lines, head), evidence, asked)

    def put(self, place, rows):
        write(f"{self.folder}/results/{place}/rows.jsonl",
              "".join(json.dumps(row) + "\n" for row in rows))


class Judging(Claims):
    def test_the_whole_interval_decides(self):
        self.assertEqual(judge((1.1, 1.2), Region(1, open=True)), HELD)
        self.assertEqual(judge((1.0, 1.2), Region(1, open=True)), UNDECIDED)
        self.assertEqual(judge((0.8, 1.0), Region(1, open=True)), FAILED)
        self.assertEqual(judge((0.8, 1.0), Region(1)), UNDECIDED)
        self.assertEqual(judge((2.0, 2.0), Region(2, 2)), HELD)
        self.assertEqual(judge((2.5, 3.0), Region(1, 2)), FAILED)
        self.assertEqual([tone(v) for v in ("NOT REPRODUCED", "REPRODUCED (model)", "NOT_VERIFIED")],
                         ["bad", "good", "mid"])

    def test_an_ordering_needs_an_interval_clear_of_one(self):
        clear = self.checked(FASTER, [row_of("fast", [1.0, 1.1, 0.9]), row_of("slow", [2, 2.1, 1.9])])
        self.assertEqual(clear.verdict, "REPRODUCED", clear.reason)
        self.assertAlmostEqual(clear.measured.value, 2, delta=0.05)
        self.assertTrue(clear.tiny_models)
        for words in ("tiny models", "n = 3 repetitions", "["):
            self.assertIn(words, clear.reason)
        noisy = self.checked(FASTER, [row_of("fast", [1.0, 3, 1.9]), row_of("slow", [2.0, 1.9, 2.1])])
        self.assertEqual((noisy.verdict, noisy.undecided), ("AMBIGUOUS", 1))
        self.assertIn("underpowered: 3 repetitions, interval [", noisy.reason)
        self.assertIn("NOISY: ", noisy.reason)
        wrong = self.checked(FASTER, [row_of("fast", [2, 2.1, 1.9]), row_of("slow", [1, 1.1, 0.9])])
        self.assertEqual((wrong.verdict, wrong.failed), ("NOT REPRODUCED", 1))

    def test_some_points_make_it_partly(self):
        rows = [row_of("fast", [1.0, 1.01, 0.99], 1), row_of("slow", [2.0, 2.01, 1.99], 1),
                row_of("fast", [3.0, 3.01, 2.99], 8), row_of("slow", [2.0, 2.01, 1.99], 8)]
        r = self.checked(FASTER, rows)
        self.assertEqual((r.verdict, r.held, r.failed), ("PARTLY", 1, 1))
        self.assertIn("1 of 2 points hold", r.reason)
        self.assertIn("batch 8", r.reason)  # the point that does not
        self.assertEqual(self.checked(FASTER + 'aggregate = "max"\n', rows).verdict, "REPRODUCED")
        self.assertEqual(self.checked(FASTER + 'aggregate = "min"\n', rows).verdict, "NOT REPRODUCED")

    def test_rows_that_differ_in_circumstances_are_no_pair(self):
        rows = [row_of("fast", [1.0, 1.01], 1), row_of("slow", [2.0, 2.01], 8)]
        r = self.checked(FASTER, rows)
        self.assertEqual(r.verdict, "NOT RUN")
        self.assertIn("NOT RUN: no rows", r.reason)
        across = FASTER.replace('"fast"', '"fast", batch_size = 1').replace(
            '"slow"', '"slow", batch_size = 8')
        self.assertEqual(self.checked(across, rows).verdict, "REPRODUCED")  # a side fixes it
        alike = FASTER.replace("label", "batch_size = [1, 8], label")
        self.assertEqual(self.checked(alike, rows).verdict, "NOT RUN")  # both fix it alike

    def test_two_partners_are_a_mistake_of_the_claim(self):
        twin = row_of("slow", [2.0, 2.0], point_id="another", variation="steps=4")
        with self.assertRaisesRegex(UserError, "2 partners"):
            self.checked(FASTER, [row_of("fast", [1.0, 1.0]), row_of("slow", [2.0, 2.0]), twin])

    def test_counted_metrics_are_exact(self):
        rows = [row_of("fast", [1.0]), row_of("slow", [1.0])]
        rows[0]["metrics"]["redundancy"] = 3
        fewer = FASTER.replace("tokens_per_second", "redundancy").replace('">"', '"<"')
        r = self.checked(fewer, rows)
        self.assertEqual(r.verdict, "REPRODUCED")
        self.assertIn("0.750, n = 10 items", r.reason)
        equal = fewer.replace("ordering", "equal").replace('relation = "<"\n', "")
        self.assertEqual(self.checked(equal, rows).verdict, "NOT REPRODUCED")
        self.assertEqual(self.checked(equal + "tolerance = 0.25\n", rows).verdict, "REPRODUCED")

    def test_a_ratio_is_held_against_the_published_one(self):
        ratio = ('kind = "ratio"\nmetric = "tokens_per_second"\nleft = { label = "fast" }\n'
                 'right = { label = "slow" }\npublished = {value = 2.2, unit = "x", source = "T"}\n')
        rows = [row_of("fast", [1.0, 1.01, 0.99]), row_of("slow", [2.0, 2.02, 1.98])]
        for more, verdict in (("", "REPRODUCED"), ("tolerance = 0.05\n", "NOT REPRODUCED"),
                              ('expected = 1.5\nrelation = ">="\n', "REPRODUCED"),
                              ('expected = 1.5\nrelation = "<="\n', "NOT REPRODUCED")):
            self.assertEqual(self.checked(ratio + more, rows).verdict, verdict, more)
        r = self.checked(ratio, rows)
        out = claims.claim_json(self.parsed(ratio)[0], r)
        self.assertAlmostEqual(out["measured"], 2.0, places=3)  # the paper's number is never ours
        self.assertEqual((out["published"]["value"], out["verdict"]), (2.2, "REPRODUCED"))

    def test_monotone_along_a_sweep(self):
        growing = ('kind = "monotone"\nmetric = "tokens_per_second"\nrelation = "increasing"\n'
                   'along = "batch_size"\nleft = { label = "fast" }\n')
        rows = [row_of("fast", [1.0, 1.01], 16), row_of("fast", [4.0, 4.01], 1),
                row_of("fast", [2.0, 2.01], 4)]
        self.assertEqual(self.checked(growing, rows).verdict, "REPRODUCED")
        r = self.checked(growing, rows + [row_of("fast", [1.5, 1.51], 32)])
        self.assertEqual((r.verdict, r.held), ("PARTLY", 2))
        self.assertIn("batch_size 16 to 32", r.reason)

    def test_thresholds_and_scores(self):
        rows = [row_of("fast", [1.0, 1.0]), row_of("slow", [2.0, 2.0])]
        rows[0]["score"] = {"mean": 0.9, "exact": 90, "n": 100, "ci95": [0.826, 0.945]}
        rows[1]["score"] = {"mean": 0.5, "exact": 50, "n": 100, "ci95": [0.404, 0.596]}
        above = ('kind = "threshold"\nmetric = "score"\nrelation = ">="\nvalue = 0.8\n'
                 'left = { label = "fast" }\n')
        self.assertEqual(self.checked(above, rows).verdict, "REPRODUCED")
        r = self.checked(BETTER, rows)
        self.assertEqual(r.verdict, "REPRODUCED")
        self.assertAlmostEqual(r.measured.value, 0.4)
        for row in rows:
            row["model"]["weights"] = "synthetic"  # which have no score
        self.assertEqual(self.checked(BETTER, rows).verdict, "NOT RUN")

    def test_few_items_decide_nothing_either_way(self):
        same = self.checked(AS_GOOD, [scored("fast", 9, 12), scored("slow", 9, 12)])
        self.assertEqual(same.verdict, "AMBIGUOUS")
        self.assertIn("underpowered: 12 items, interval [", same.reason)
        self.assertIn("even 12 equal answers leave at least [-0.142, 0.142]", same.reason)
        below = self.checked(BETTER, [scored("fast", 8, 12), scored("slow", 9, 12)])
        self.assertEqual((below.verdict, below.failed), ("AMBIGUOUS", 0))
        self.assertNotIn("equal answers", below.reason)  # no tolerance to reach
        for lines, a, b, n, verdict in ((BETTER, 11, 2, 12, "REPRODUCED"),
                                        (AS_GOOD, 2, 11, 12, "NOT REPRODUCED"),
                                        (AS_GOOD, 150, 150, 200, "REPRODUCED")):
            self.assertEqual(self.checked(lines, [scored("fast", a, n), scored("slow", b, n)]).verdict,
                             verdict)
        self.assertEqual(claims.exit_status([(None, below)]), 0)

    def test_a_mean_is_no_surer_than_its_items(self):
        lines = AS_GOOD + 'aggregate = "mean"\n'

        def pair(right, n, batch, task):
            return [scored("fast", right, n, batch, task), scored("slow", right, n, batch, task)]
        two = self.checked(lines, pair(3, 6, 1, "list") + pair(3, 6, 1, "sum"))
        self.assertEqual((two.verdict, two.measured.n, two.measured.unit), ("AMBIGUOUS", 12, "items"))
        self.assertIn("mean of 2 points from 0 to 0", two.reason)
        one = self.checked(AS_GOOD, pair(3, 6, 1, "list"))
        self.assertLess(two.measured.high, one.measured.high)
        again = self.checked(lines, pair(3, 6, 1, "list") + pair(3, 6, 8, "list"))
        self.assertEqual(again.measured.n, 6)  # the same items in another batch are no evidence
        self.assertAlmostEqual(again.measured.high, one.measured.high)
        clear = self.checked(BETTER + 'aggregate = "mean"\n',
                             [scored("fast", 40, 40, 1, "list"), scored("slow", 2, 40, 1, "list"),
                              scored("fast", 30, 40, 1, "sum"), scored("slow", 10, 40, 1, "sum")])
        self.assertEqual(clear.verdict, "REPRODUCED")
        self.assertAlmostEqual(clear.measured.value, 0.725)

    def test_no_difference_worth_the_name_is_not_reproduced(self):
        def equal(more, n):
            return self.checked(BETTER + more, [scored("fast", n // 2, n), scored("slow", n // 2, n)])
        self.assertEqual(equal("", 40).verdict, "AMBIGUOUS")
        many = equal("", 1000)
        self.assertEqual(many.verdict, "NOT REPRODUCED")
        self.assertIn("no difference of 0.02 or more", many.reason)
        small = 'published = { value = 0.1, unit = "points", source = "T" }\n'
        self.assertEqual(equal(small, 1000).verdict, "AMBIGUOUS")
        self.assertEqual(equal("least = 0.2\n", 40).verdict, "NOT REPRODUCED")
        self.assertEqual(equal("least = 0\n", 1000).verdict, "AMBIGUOUS")

    def test_one_timing_decides_nothing(self):
        for other in (1.05, 1.5, 4.0):
            r = self.checked(FASTER, [row_of("fast", [1.0]), row_of("slow", [other])])
            self.assertEqual((r.verdict, r.size), ("AMBIGUOUS", ""))
            self.assertIn("timed once, which says nothing of a speed", r.reason)

    def test_a_share_of_the_time_needs_repetitions(self):
        small = ('kind = "threshold"\nmetric = "rule_share"\nrelation = "<="\nvalue = 0.02\n'
                 'left = { label = "fast" }\n')
        row = row_of("fast", [1.0])
        row["provenance"]["rule_share"] = "measured"

        def of(shares):
            row["metrics"]["rule_share"] = 0.01
            row["metric_samples"] = {"rule_share": shares}
            return self.checked(small, [row])
        self.assertEqual(of([0.009, 0.01, 0.011]).verdict, "REPRODUCED")
        unsure = of([0.001, 0.01, 0.019])
        self.assertEqual(unsure.verdict, "AMBIGUOUS")
        high = stats.ttest_1samp([0.001, 0.01, 0.019], 0).confidence_interval(0.95).high
        self.assertAlmostEqual(unsure.measured.high, high)
        self.assertIn("measured once", of([]).reason)

    def test_the_best_of_several_points_is_corrected_for_their_number(self):
        rows = [row_of("fast", [1.0, 1.02, 0.98], 1), row_of("slow", [1.2, 1.22, 1.18], 1),
                row_of("fast", [1.0, 1.02, 0.98], 8), row_of("slow", [1.0, 0.98, 1.02], 8)]
        self.assertEqual(self.checked(FASTER, rows).verdict, "PARTLY")
        best = self.checked(FASTER + 'aggregate = "max"\n', rows)
        self.assertIn("the largest of 2 points, interval corrected", best.reason)
        alone = self.checked(FASTER, rows[:2])
        self.assertLess(best.measured.low, alone.measured.low)
        self.assertGreater(best.measured.high, alone.measured.high)

    def test_outside_its_regime_a_claim_is_not_applicable(self):
        lines = FASTER + ('[[claim.precondition]]\nsays = "slow takes many forwards"\nmetric = "nfe"\n'
                          'where = { label = "slow" }\nrelation = ">="\nvalue = 50\n')
        rows = [row_of("fast", [1.0, 1.01, 0.99], 1), row_of("slow", [2.0, 2.01, 1.99], 1),
                row_of("fast", [3.0, 3.01, 2.99], 8), row_of("slow", [2.0, 2.01, 1.99], 8)]
        for row in rows:
            row["metrics"]["nfe"], row["provenance"]["nfe"] = 10, "counted"
        none = self.checked(lines, rows)
        self.assertEqual((none.verdict, none.out_of_regime), ("NOT APPLICABLE", 2))
        self.assertIn("presumes that slow takes many forwards (nfe of slow is 10", none.reason)
        rows[1]["metrics"]["nfe"] = 60
        one = self.checked(lines, rows)
        self.assertEqual(one.verdict, "REPRODUCED")
        self.assertIn("1 more points are out of the claim's regime", one.reason)
        del rows[1]  # nobody tells
        self.assertEqual(self.checked(lines, rows).verdict, "NOT APPLICABLE")

    def test_the_published_size_is_compared_beside_the_direction(self):
        rows = [row_of("fast", [1.0, 1.01, 0.99]), row_of("slow", [2.0, 2.02, 1.98])]

        def size(published):
            return self.checked(FASTER + f'published = {{ {published}, source = "T" }}\n', rows).size
        for published, where in (('value = 2.0, unit = "x"', "inside"),
                                 ('value = 3.5, unit = "x"', "outside"),
                                 ('value = 3.5, unit = "x", rounding = 1.5', "inside"),
                                 ('value = 3.5, unit = "x", rounding = 0.05', "outside"),
                                 ('value = 250, unit = "%", as = "change", rounding = 150', "inside"),
                                 ('value = 100, unit = "% faster", as = "change"', "inside"),
                                 ('value = 100, unit = "of something"', "")):
            self.assertEqual(size(published), where, published)
        with self.assertRaisesRegex(UserError, "did you mean 'ratio'"):
            size('value = 1, as = "rato"')

    def test_a_virtual_clock_reproduces_a_model(self):
        rows = [row_of("fast", [1.0, 1.01], serve={"clock": "virtual"}),
                row_of("slow", [2.0, 2.01], serve={"clock": "virtual"})]
        r = self.checked(FASTER, rows)
        self.assertEqual(r.verdict, "REPRODUCED (model)")
        claim = self.parsed(FASTER + 'variant = "T(b c)"\n')[0]
        self.assertIn("; of T(b c))", claims.claims_table([(claim, r)]).rows[0][2].text)

    def test_failed_rows_are_no_evidence(self):
        broken = row_of("slow", [2.0, 2.0], verdict="FAILED", reason="out of memory")
        r = self.checked(FASTER, [row_of("fast", [1.0, 1.0]), broken])
        self.assertEqual(r.verdict, "NOT RUN")
        self.assertIn("out of memory", r.reason)

    def test_about_needs_the_whole_interval(self):
        about = FASTER.replace("ordering", "ratio").replace('relation = ">"', "expected = 2.0")
        rows = [row_of("fast", [1.0, 1.2, 0.8]), row_of("slow", [2.0, 1.9, 2.1])]
        self.assertEqual(self.checked(about, rows).verdict, "AMBIGUOUS")
        self.assertEqual(self.checked(about + "tolerance = 5.0\n", rows).verdict, "REPRODUCED")

    def test_two_values_of_one_row_are_compared(self):
        growth = ('kind = "ordering"\nrelation = ">"\nleft = { label = "fast", metric = "rows" }\n'
                  'right = { label = "fast", metric = "decode_rows" }\n')
        row = row_of("fast", [1.0])
        row["provenance"].update(rows="counted", decode_rows="counted")
        for below, verdict in ((10, "REPRODUCED"), (30, "NOT REPRODUCED")):
            row["metrics"].update(rows=20, decode_rows=below)
            self.assertEqual(self.checked(growth, [row, row_of("slow", [1.0])]).verdict, verdict)

    def test_a_capacity_found_per_seed_is_compared_seed_by_seed(self):
        metric = "slo_capacity_requests_per_second"
        rows = [row_of("fast", [1.0]), row_of("slow", [1.0])]
        for row, value, found in zip(rows, (5.0, 4.6), ([4.4, 5.5, 5.1], [4.0, 5.1, 4.7])):
            row["metrics"][metric], row["provenance"][metric] = value, "synthetic"
            row["metric_samples"] = {metric: found}
        paired = self.checked(FASTER.replace("tokens_per_second", metric), rows)
        self.assertEqual(paired.verdict, "REPRODUCED", paired.reason)
        self.assertIn("seed", paired.reason)
        rows[1]["metric_samples"][metric].append(4.6)  # two samples, whose spread is then a doubt
        self.assertEqual(self.checked(FASTER.replace("tokens_per_second", metric), rows).verdict,
                         "AMBIGUOUS")


class Pools(Claims):
    MEAN = BETTER + 'aggregate = "mean"\n'

    def test_pairs_are_pooled_over_points(self):
        rows = [scored(label, right, 10, 1, f"task {task}") for task in range(9)
                for label, right in (("fast", 6), ("slow", 5))]
        r = self.checked(self.MEAN, rows)
        self.assertEqual((r.verdict, r.measured.n), ("REPRODUCED", 90))
        self.assertAlmostEqual(r.measured.value, 0.1)
        self.assertIn("9 up, 0 down, McNemar p = 0.0039", r.reason)
        self.assertEqual(self.checked(BETTER, rows).verdict, "AMBIGUOUS")  # no task alone can tell

    def test_half_right_over_two_seeds_counts_for_neither_side(self):
        rows = []
        for seed in (0, 1):
            for label in ("fast", "slow"):
                rows.append(scored(label, 30, 60, seed=seed, point_id=f"{label}{seed}"))
            for i in range(10):
                rows[-1]["items"]["score"][i] = rows[-1]["items"]["score"][30 + i] = 1 - seed
        r = self.checked(self.MEAN, rows)
        self.assertIn("10 up, 10 down", r.reason)
        self.assertAlmostEqual(r.measured.low, -r.measured.high, delta=0.02)
        rows[1]["items"]["score"][:10] = [0] * 10
        r = self.checked(self.MEAN, rows)
        self.assertIn("10 up, 10 down", r.reason)
        self.assertAlmostEqual(r.measured.value, 5 / 60)
        self.assertGreater(r.measured.high + r.measured.low, 0.05)

    def test_graded_scores_are_judged_by_their_own_spread(self):
        rows = []
        for story in ("short story", "long story"):
            for label, base in (("fast", 0.4), ("slow", 0.3)):
                rows.append(scored(label, 15, 15, 1, story))
                rows[-1]["items"]["score"] = [base + (0.01 * (i % 5) if base > 0.35 else 0)
                                              for i in range(15)]
        r = self.checked(self.MEAN, rows)
        self.assertEqual(r.verdict, "REPRODUCED")
        self.assertAlmostEqual(r.measured.value, 0.12)
        self.assertLess(r.measured.high - r.measured.low, 0.02)
        rows[0]["items"]["score"][0] = rows[1]["items"]["score"][0] = 1
        mixed = self.checked(self.MEAN, rows)
        self.assertIn("29 up, 0 down", mixed.reason)
        self.assertGreater(mixed.measured.high - mixed.measured.low,
                           1.2 * (r.measured.high - r.measured.low))


class Probes(Claims):
    def level(self, probe, path="p.share"):
        row = row_of("fast", [1.0], probes=probe)
        lines = (f'kind = "threshold"\nmetric = "probes.{path}"\nrelation = ">="\nvalue = 0.15\n'
                 'left = { label = "fast" }\n')
        return self.checked(lines, [row])

    def test_shares_of_probes_are_of_samples(self):
        self.assertEqual(self.level({"p": {"share": 0.25}}).verdict, "AMBIGUOUS")
        unsure = self.level({"p": {"share": 0.25, "share_ci95": [0.1, 0.4]}})
        self.assertEqual((unsure.verdict, unsure.measured.low), ("AMBIGUOUS", 0.1))
        self.assertEqual(self.level({"p": {"share": 0.25, "share_ci95": [0.2, 0.3]}}).verdict,
                         "REPRODUCED")
        items = [[3 - i % 2, 10] for i in range(40)]
        r = self.level({"p": {"share": 0.25, "share_items": items}})
        self.assertEqual((r.verdict, r.measured.n), ("REPRODUCED", 40))
        self.assertTrue(0.22 < r.measured.low < r.measured.high < 0.28)

    def test_values_of_lists_have_their_own_intervals_and_items(self):
        for bounds, verdict in (([0.1, 0.4], "AMBIGUOUS"), ([0.2, 0.4], "REPRODUCED")):
            probe = {"p": {"a": {"k": [0, 0.3], "k_ci95": [[0, 0], bounds]}}}
            self.assertEqual(self.level(probe, "p.a.k[1]").verdict, verdict)
        # Two values of the same items, drawn together: every draw lies between the items' ratios.
        probe = {"p": {"k": [1.55, 1], "k_items": [[[3, 2], [3, 2], [3, 2], [6.6, 4]],
                                                   [[1, 1], [1, 1], [1, 1], [2, 2]]]}}
        r = self.checked('kind = "ordering"\nrelation = ">"\n'
                         'left = { label = "fast", metric = "probes.p.k[0]" }\n'
                         'right = { label = "fast", metric = "probes.p.k[1]" }\n',
                         [row_of("fast", [1.0], probes=probe)])
        self.assertEqual(r.verdict, "REPRODUCED")
        self.assertAlmostEqual(r.measured.value, 1.56)  # 15.6 / 10 over 5 / 5
        self.assertAlmostEqual(r.measured.low, 1.5)
        self.assertTrue(1.56 < r.measured.high < 1.65)


class Files(Claims):
    def test_rows_of_several_artifacts_are_pooled(self):
        head = HEAD.replace('artifact = "../focus/table_5.toml"',
                            'artifacts = ["../focus/table_5.toml", "../focus/table_6.toml"]')
        self.put("focus/table_5/tiny", [row_of("fast", [1.0, 1.1])])
        self.assertIn("table_6", self.judged(FASTER, head=head)[0][1].reason)
        self.put("focus/table_6/tiny", [row_of("slow", [3.0, 3.1])])
        self.assertEqual(self.judged(FASTER, head=head)[0][1].held, 1)

    def test_what_was_not_measured_says_what_it_needs(self):
        os.makedirs(f"{self.folder}/results")
        (_, r), = self.judged(FASTER)
        self.assertIn("NOT RUN: no rows in", r.reason)
        self.assertIn("unmask run", r.reason)
        full = HEAD.replace('"tiny"', '"full"')
        (_, r), = self.judged(FASTER, head=full)
        self.assertIn("only at full, which needs memory_gb:64, cuda, weights:GSAI-ML/LLaDA-8B, "
                      "benchmark:gsm8k", r.reason)
        rows = [row_of("fast", [2.0, 2.1]), row_of("slow", [1.0, 1.1])]
        self.put("focus/table_5/full", rows)  # rows of another scale judge what is for it alone
        judged = self.judged(FASTER, head=full)
        self.assertEqual((judged[0][1].scale, judged[0][1].verdict), ("full", "NOT REPRODUCED"))
        self.assertEqual(claims.exit_status(judged), 4)

    def test_more_evidence_is_taken_where_it_has_every_point(self):
        self.put("focus/table_5/tiny", [scored("fast", 9, 12), scored("slow", 9, 12)])
        self.put("focus/table_5/tiny/more/items4_repetitions1",
                 [scored("fast", 100, 400), scored("slow", 100, 400)])
        self.put("focus/table_5/tiny/more/items8_repetitions1", [scored("fast", 100, 800)])
        self.assertEqual(self.judged(AS_GOOD)[0][1].measured.n, 400)
        slower = [row_of("fast", [9.0, 9.1]), row_of("slow", [1.0, 1.1])]
        self.put("focus/table_5/tiny/more/items2_repetitions1", slower)
        self.put("focus/table_5/tiny", [row_of("fast", [1.0, 1.01]), row_of("slow", [2.0, 2.01])])
        self.assertEqual(self.judged(FASTER)[0][1].verdict, "REPRODUCED")  # items tell no times

    def test_one_that_does_not_hold_says_whether_its_controls_do(self):
        control = FASTER.replace('"fast"', '"cache"')
        control = ('[[control]]\nid = "k"\nstatement = "The cache alone is faster than nothing."\n'
                   'source = "ours"\nartifact = "../focus/table_5.toml"\nscales = ["tiny"]\n' + control)
        names = FASTER + 'controls = ["k"]\n'
        self.put("focus/table_5/tiny", [row_of(label, [s, s * 1.01, s * 0.99]) for label, s in
                                        (("fast", 3.0), ("slow", 2.0), ("cache", 1.0))])
        self.assertIn("; no control", self.judged(FASTER)[0][1].reason)
        self.assertIn("; control: The cache alone is faster than nothing: REPRODUCED, 2, n = 3",
                      self.judged(names + control)[0][1].reason)
        with self.assertRaisesRegex(UserError, "'k'"):
            self.parsed(names)
        with self.assertRaisesRegex(UserError, "a control that no claim names"):
            self.parsed(FASTER + control)

    def test_mistakes_are_refused_with_their_place(self):
        two = 'kind = "ordering"\nmetric = "nfe"\nleft = {}\nright = {}\n'
        for lines, says in (
                (FASTER + "relaton = 3\n", "relation"), ('kind = "odering"\n', "'ordering'"),
                ('metric = "nfe"\n', "needs `kind`"),
                (two.replace("{}", '{ lable = "x" }', 1) + 'relation = ">"\n', "did you mean 'label'"),
                (two.replace("right = {}\n", "") + 'relation = ">"\n', "needs `right`"),
                (two + 'relation = "=>"\n', "relation of this kind"),
                (two.replace('metric = "nfe"\n', "") + 'relation = ">"\n', "needs `metric`"),
                (two.replace("ordering", "ratio"), "needs `expected`"),
                (two.replace("ordering", "ratio").replace("nfe", "score") + "expected = 1\n",
                 "ratio of scores"),
                ('kind = "monotone"\nmetric = "nfe"\nleft = {}\nrelation = "increasing"\n',
                 "needs `along`"),
                ('kind = "threshold"\nmetric = "nfe"\nleft = {}\nrelation = ">"\n', "needs `value`"),
                (FASTER + "value = 3\n", 'only kind "threshold"'),
                (FASTER + "value = true\n", "must be a number"),
                (FASTER + "published = { value = 3 }\n", "published.source"),
                (FASTER + 'statement = "again"\n', "focus.toml")):
            with self.assertRaises(UserError) as caught:
                self.parsed(lines)
            self.assertIn(says, str(caught.exception), lines)
            self.assertIn("focus.toml:", str(caught.exception))
        with self.assertRaisesRegex(UserError, "twice"):
            self.parsed(FASTER + HEAD.partition("\n")[2] + FASTER)
        for old, new, says in (('"tiny"', '"tinny"', "did you mean 'tiny'"),
                               ("table_5", "table_7", "does not exist")):
            with self.assertRaisesRegex(UserError, says):
                self.parsed(FASTER, HEAD.replace(old, new))


class Command(Claims):
    def run_command(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = claims.main([f"{self.folder}/results", "--experiments-dir", self.folder, *arguments])
        return code, said.getvalue()

    def setUp(self):
        super().setUp()
        self.put("focus/table_5/tiny", [row_of("fast", [2.0, 2.1], 1), row_of("slow", [1.0, 1.1], 1),
                                        row_of("fast", [2.0, 2.01], 8), row_of("slow", [4.0, 4.1], 8)])

    def test_a_table_with_ids_first_and_files_beside_the_rows(self):
        self.parsed(FASTER + 'note = "as expected"\n')
        code, text = self.run_command("--save")
        self.assertEqual(code, 4)
        self.assertTrue(text.startswith("| id | paper |"), text[:60])
        self.assertIn("| c | focus | s (Table 5) | tiny | PARTLY |", text)
        self.assertIn("1 PARTLY, 0 AMBIGUOUS, 0 NOT REPRODUCED, 0 NOT APPLICABLE, 0 NOT RUN, of 1",
                      text)
        with open(f"{self.folder}/results/claims.md", encoding="utf-8") as file:
            self.assertEqual(file.read(), text)
        _, out = self.run_command("--format", "json")
        self.assertEqual(json.loads(out)[0]["points"]["held"], 1)

    def test_claims_are_selected_by_paper_claim_and_artifact(self):
        self.parsed(FASTER)
        for name in ("focus", "focus/c", "focus/table_5"):
            self.assertEqual(self.run_command("--only", name)[0], 4)
        with self.assertRaisesRegex(UserError, "unknown paper or claim or artifact"):
            self.run_command("--only", "focus/d")
        self.assertEqual(self.run_command("--paper", "optimus")[0], 0)
        self.assertIn("c ", self.run_command("--list")[1])
        self.assertEqual(self.run_command("--timed")[1], f"{self.folder}/focus/table_5.toml\n")

    def test_one_is_explained(self):
        self.parsed(FASTER + 'note = "as expected"\ntolerance = 0.1\n'
                    'published = {value = 2, unit = "x", source = "Table 5"}\n')
        code, text = self.run_command("--explain", "c")
        self.assertEqual(code, 0)
        for words in ("focus/c: PARTLY", "claim      s", "place      Table 5",
                      "tokens_per_second of (label = fast) / tokens_per_second of (label = slow) > 1, "
                      "within 0.1: the whole 95 % interval > 0.9",
                      "| tiny, word_problem, batch 1 | fast / slow | 0.512 [", "| fails |",
                      "| tiny, word_problem, batch 8 | fast / slow | 2.020 [", "| holds |",
                      "control    none", "note       as expected",
                      "focus/table_5.toml --scale tiny -o "):
            self.assertIn(words, text)
        with self.assertRaisesRegex(UserError, "unknown claim 'd'"):
            self.run_command("--explain", "d")

    def test_the_best_point_stands_beside_all_of_them(self):
        self.parsed(FASTER + 'aggregate = "max"\n')
        _, text = self.run_command("--explain", "focus/c")
        self.assertIn("the largest of 2 points, interval corrected for their number", text)
        self.assertIn("| fails |", text)

    def test_what_is_not_there_is_said(self):
        with self.assertRaisesRegex(EnvironmentFault, "no claims in"):
            self.run_command()
        self.parsed(FASTER)
        with self.assertRaisesRegex(EnvironmentFault, "no results in"):
            claims.main([f"{self.folder}/none", "--experiments-dir", self.folder])
        with self.assertRaisesRegex(UserError, "unknown format"):
            self.run_command("--format", "mdd")


class Shipped(unittest.TestCase):
    """The claims of experiments/claims, and the verdicts that results/tiny states."""

    @classmethod
    def setUpClass(cls):
        cls.before = os.getcwd()
        os.chdir(ROOT)
        cls.claims = claims_read.read_claims("experiments/claims")

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls.before)

    def test_they_name_methods_of_their_artifacts(self):
        for claim in self.claims:
            for scale in claim.scales:
                labels = set()
                for artifact in claim.artifacts:
                    self.assertEqual(experiments.stated_needs(artifact, scale)[1], "", claim.id)
                    table, _ = experiments.at_scale(artifact, scale)
                    labels |= {m.get("label", m["name"]) for m in table["method"]}
                for side in (claim.left, claim.right):
                    self.assertLessEqual(set(side.keys.get("label", [])), labels, claim.id)
        papers = {claim.paper for claim in self.claims}
        for paper in papers:
            self.assertGreaterEqual(sum(c.paper == paper for c in self.claims), 4)

    def test_the_archive_gives_the_verdicts_that_the_repository_states(self):
        with open("results/tiny/claims.json", encoding="utf-8") as file:
            stated = json.load(file)
        evidence = claims.Evidence("results/tiny")
        judged = claims.judge_claims(self.claims, evidence, "tiny")
        self.assertEqual([(s["paper"], s["id"], s["verdict"], s["points"]) for s in stated],
                         [(c.paper, c.id, r.verdict, claims.claim_json(c, r)["points"])
                          for c, r in judged])
        for s, (_, r) in zip(stated, judged):
            if s["measured"] is not None:
                self.assertTrue(math.isclose(s["measured"], r.measured.value, rel_tol=1e-9), s["id"])


if __name__ == "__main__":
    unittest.main()
