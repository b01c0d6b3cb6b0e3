# SPDX-License-Identifier: Apache-2.0
"""The probes' arithmetic on cases worked by hand, and `unmask probes`, which computes them later where
`unmask run` had no Python."""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

from made import cases_of
import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../..")
sys.path.insert(0, os.path.join(ROOT, "harness", "python"))
from unmask.probes import compute, decisions, layers, trace  # noqa: E402
from unmask.rows.errors import UserError  # noqa: E402

PROGRAM = os.environ["UNMASK_PROGRAM"]


def request(*steps, prompt=0, canvas=8, stops=(), **more):
    """Steps of (position, token, confidence, accepted)."""
    keys = ("position", "token", "confidence", "accepted")
    return {"prompt": prompt, "canvas": canvas, "stops": list(stops), "rows": 0,
            "steps": [dict(zip(keys, map(list, zip(*step)))) for step in steps], **more}


# Positions 4 to 7 over four steps. 6 is decided by step 0, 4 by step 2, 7 and 5 by step 3.
EXAMPLE = request(
    [(4, 1, 0.5, False), (5, 2, 0.3, False), (6, 3, 0.95, True), (7, 4, 0.4, False)],
    [(4, 1, 0.8, False), (5, 9, 0.2, False), (7, 4, 0.5, False)],
    [(4, 1, 0.7, True), (5, 2, 0.6, False), (7, 8, 0.3, False)],
    [(5, 2, 0.91, True), (7, 4, 0.92, True)], prompt=4, canvas=4, stops=[3])


class Decisions(unittest.TestCase):
    def test_pairs_are_of_positions_masked_in_both_steps(self):
        self.assertEqual(decisions.pairs_of(EXAMPLE), [[0.5, 0.8], [0.3, 0.2], [0.4, 0.5], [0.8, 0.7],
                                                       [0.2, 0.6], [0.5, 0.3], [0.6, 0.91], [0.3, 0.92]])

    def test_correlation(self):
        def of(b):
            return decisions.correlation([[x, y] for x, y in zip((1, 2, 3, 4), b)])
        self.assertAlmostEqual(of((2, 4, 6, 8)), 1)
        self.assertAlmostEqual(of((4, 3, 2, 1)), -1)
        self.assertAlmostEqual(of((1, 3, 2, 4)), 0.8)
        self.assertTrue(math.isnan(of((5, 5, 5, 5))))
        self.assertTrue(math.isnan(decisions.correlation([])))

    def test_recall(self):
        # Decided with a predecessor: 4 in step 2 (first of step 1), 5 and 7 in step 3 (in step 2, of what
        # was still masked, 5 was first and 7 second).
        self.assertEqual(decisions.recall_of_top(EXAMPLE, 1), [2, 3])
        self.assertEqual(decisions.recall_of_top(EXAMPLE, 2), [3, 3])
        tie = request([(1, 0, 0.5, False), (2, 0, 0.5, False)], [(2, 0, 0.9, True)])
        self.assertEqual(decisions.recall_of_top(tie, 1), [0, 1])  # the lowest position is first
        self.assertEqual(decisions.recall_of_top(tie, 2), [1, 1])

    def test_stagnation(self):
        # Same arg-max and below 0.9: 4 and 7 in step 1, 4 in step 2; 5 in step 3 is above.
        self.assertEqual(decisions.stagnation_of(EXAMPLE, 0.9), [3, 8])
        self.assertEqual(decisions.stagnation_of(EXAMPLE, 0.6), [1, 8])
        self.assertEqual(decisions.stagnation_of(EXAMPLE, 0.92), [4, 8])

    def test_ranks_apart(self):
        # Ranks 1 and 2 are 0.005, 0.1 and 0.02 apart, ranks 1 and 3 0.5, 0.1 and (the last one) 0.02.
        three = request([(0, 1, 0.9, True), (1, 1, 0.895, True), (2, 1, 0.4, False)],
                        [(0, 1, 0.5, False), (1, 1, 0.4, False), (2, 1, 0.4, False)],
                        [(0, 1, 0.52, False), (1, 1, 0.5, False)], [(0, 1, 0.3, True)])
        self.assertEqual([round(x, 6) for x in decisions.ranks_apart([three])[:3]],
                         [round(2 / 3, 6), 1, 1])
        self.assertEqual(decisions.ranks_apart([request([(0, 1, 0.3, True)])]), [])

    def test_missed_stable(self):
        # Stable from: 4 step 0, 6 step 0, 5 step 2, 7 step 3.
        self.assertEqual(decisions.missed_stable(EXAMPLE, 0.9), [[1, 2], [1, 1], [2, 2], [0, 2]])
        self.assertEqual(decisions.missed_stable(request([(1, 5, 0.2, False)]), 0.9), [[0, 0]])

    def test_declines(self):
        # 4 peaked at 0.8 and was decided at 0.7 with the same token.
        decided, drops, others = decisions.declines(EXAMPLE, 0.05)
        self.assertEqual((decided, len(drops), others), (4, 1, []))
        self.assertAlmostEqual(drops[0], 0.1)
        self.assertEqual(decisions.declines(EXAMPLE, 0.2)[1], [])
        # A score for each decided token that differs from the peak's; those within the margin do not count.
        changed = request([(1, 5, 0.9, False), (2, 7, 0.8, False), (3, 1, 0.62, False)],
                          [(1, 6, 0.6, True), (2, 8, 0.9, False), (3, 2, 0.6, True)], [(2, 8, 0.5, True)],
                          peak_scores=[0.25, 0.75])
        decided, drops, others = decisions.declines(changed, 0.05)
        self.assertEqual((decided, others), (3, [0.25]))
        self.assertAlmostEqual(sum(drops), 0.3 + 0.4)

    def test_peaks(self):
        self.assertEqual(decisions.peak_steps(EXAMPLE), {4: 1, 5: 3, 6: 0, 7: 3})
        tie = request([(1, 5, 0.7, False), (2, 9, 0.9, False)], [(1, 6, 0.7, True)])
        self.assertEqual(decisions.peak_steps(tie), {1: 0})

    def test_contradictions(self):
        # Decided: 1 2 3 4 with 0.7, 0.91, 0.95, 0.92. The other says 1 9 3 7 and stops at 3.
        self.assertEqual(decisions.contradictions(EXAMPLE, [1, 9, 3, 7]),
                         [(True, 7, False), (True, 9, True), (True, 9, False), (False, 9, True)])
        # What the other never decided cannot contradict; the longer answer counts.
        self.assertEqual([found[::2] for found in decisions.contradictions(EXAMPLE, [3, -1, 5, 4])],
                         [(True, True), (True, True), (False, False)])


# Positions 0 to 3. 1 is decided as 7 and replaced by 6, 2 is decided as 8, masked again and decided as 1, 3 is
# decided and masked again for good. What is decided in the end: 5 6 1.
EDITED = request(
    [(0, 5, 0.8, False), (1, 7, 0.95, True), (2, 8, 0.6, True), (3, 4, 0.5, True)],
    [(0, 5, 0.7, True)],
    [],
    [(2, 1, 0.75, True), (3, 4, 0.25, False)], canvas=4)
EDITED["steps"][1]["edits"] = [[1, 6, 0.85]]
EDITED["steps"][2] = {"position": [], "token": [], "confidence": [], "accepted": [],
                      "edits": [[2, -1, 0.3], [3, -1, 0.2]]}


class Edits(unittest.TestCase):
    """Probes of decisions of a pass that replaced and reopened tokens are of its answer."""

    def test_the_canvas_is_what_the_last_events_made(self):
        self.assertEqual(decisions.canvas_of(EDITED), [5, 6, 1, -1])
        self.assertEqual(decisions.endings(EDITED), {0: (1, 5, 0.7), 1: (1, 6, 0.85), 2: (3, 1, 0.75)})
        self.assertEqual(decisions.canvas_of(EXAMPLE), [1, 2, 3, 4])

    def test_contradictions_are_of_the_answer(self):
        self.assertEqual(decisions.contradictions(EDITED, [5, 7, 1, 4]),
                         [(True, 7, False), (True, 8, True), (True, 7, False)])

    def test_stable_is_what_ends_so(self):
        # 0 from the start, 2 in its last step alone; 1 was never masked with 6, 3 ends masked.
        self.assertEqual(decisions.missed_stable(EDITED, 0.9), [[1, 1], [1, 1], [0, 0], [1, 1]])
        # A token that comes back after another one took its place was not stable before.
        there_and_back = request([(0, 5, 0.8, True)], [(1, 1, 0.5, True)], [(2, 1, 0.5, True)])
        there_and_back["steps"][1]["edits"] = [[0, 6, 0.7]]
        there_and_back["steps"][2]["edits"] = [[0, 5, 0.7]]
        self.assertEqual(decisions.missed_stable(there_and_back, 0.9), [[0, 0], [1, 1], [1, 1]])

    def test_declines_are_of_decisions_that_last(self):
        # 0 from 0.8 to 0.7, 1 from 0.95 with token 7 to 0.85; 2 rose from 0.6 with token 8, the second score.
        scored = EDITED | {"peak_scores": [0.25, 0.75]}
        decided, drops, others = decisions.declines(scored, 0.05)
        self.assertEqual((decided, len(drops), others), (3, 2, [0.25]))
        self.assertAlmostEqual(sum(drops), 0.2)

    def test_recall_is_of_every_mask_that_is_decided(self):
        # 0 after step 0; of 2, which was masked again, the step before said nothing.
        self.assertEqual(decisions.recall_of_top(EDITED, 1), [1, 1])

    def test_a_trace_with_other_edits_is_refused(self):
        head = {"kind": "probes", "version": 1, "names": ["decoding"], "tau": 0.9, "margin": 0.05}
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "trace.jsonl")
            for edits in (3, [3], [[1, 2]], [[1, 2, "x"]], [[1.5, 2, 0.5]], [[True, 2, 0.5]]):
                step = EDITED["steps"][0] | {"edits": edits}
                with open(file, "w", encoding="utf-8") as out:
                    out.write(json.dumps(head) + "\n" + json.dumps(
                        {"kind": "request", **EDITED, "steps": [step]}) + "\n")
                with self.assertRaisesRegex(UserError, "edits that are none"):
                    compute(file)


class Layers(unittest.TestCase):
    def test_area_counts_ties_half(self):
        for positive, negative, area in (((3, 4), (1, 2), 1), ((1, 2), (3, 4), 0), ((1, 3), (1, 3), 0.5),
                                         ((3, 4), (1, 3), 0.875)):
            self.assertEqual(layers.area_under_curve(np.array(positive), np.array(negative)), area)
        self.assertTrue(math.isnan(layers.area_under_curve([], [1])))

    def test_quintiles_are_of_equal_size(self):
        self.assertEqual(list(layers.quintiles([10, 1, 9, 2, 8, 3, 7, 4, 6, 5])),
                         [4, 0, 4, 0, 3, 1, 3, 1, 2, 2])
        self.assertEqual(list(layers.quintiles([1] * 5)), [0, 1, 2, 3, 4])

    def test_standard_scores(self):
        values = np.array([2, 4, 4, 4, 5, 5, 7, 9], np.float32)  # mean 5, sigma 2
        self.assertEqual(list(layers.standard_scores(values)), [-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2])
        self.assertEqual(list(layers.standard_scores(np.array([3, 3], np.float32))), [0, 0])

    def test_gamma(self):
        # Others 1, -3, 1, -3: mean -1, sigma 2. Decodable 2, 3, 4: mean 3.
        self.assertEqual(layers.gamma_of(layers.moments([2, 3, 4]), layers.moments([1, -3, 1, -3])),
                         (1.5, 2, 2))
        self.assertTrue(math.isnan(layers.gamma_of(layers.moments([2]), layers.moments([1, 1]))[0]))
        self.assertTrue(math.isnan(layers.gamma_of(layers.moments([]), layers.moments([1, 2]))[0]))

    def test_the_eviction_error_and_its_bound_have_intervals_over_items(self):
        """Others of four items are 1 and -1: sigma is 1. Decodable tokens of two items are 3, of the others 3 and 0.5:
        two of six are missed, of a draw none to half. Gamma is 13 / 6."""
        deltas = layers.Classes(4)
        for item, yes in enumerate(([3], [3], [3, 0.5], [3, 0.5])):
            deltas.add(item, np.array([*yes, 1, -1]), np.array([True] * len(yes) + [False] * 2))
        found = layers.report_gamma(deltas)
        self.assertAlmostEqual(found["eviction_error"], 2 / 6)
        self.assertAlmostEqual(found["gamma"], 13 / 6)
        self.assertAlmostEqual(found["eviction_error_bound"], math.exp(-(7 / 6) ** 2 / 2))
        self.assertEqual(found["eviction_error_ci95"], [0, 0.5])
        # Gammas of draws are from 3.5 / 2 to 3: the bound falls with them.
        self.assertAlmostEqual(found["eviction_error_bound_ci95"][0], math.exp(-2))
        self.assertAlmostEqual(found["eviction_error_bound_ci95"][1], math.exp(-0.75 ** 2 / 2))

    def test_without_decodable_tokens_there_is_no_eviction_error(self):
        deltas = layers.Classes(2)
        for item in (0, 1):
            deltas.add(item, np.array([1.0, -1.0]), np.array([False, False]))
        found = layers.report_gamma(deltas)
        self.assertTrue(math.isnan(found["eviction_error"]))
        self.assertEqual(found["eviction_error_ci95"], [])

    def test_skewness(self):
        # 0 0 0 4: mean 1, variance 3, third central moment 6.
        self.assertAlmostEqual(layers.skewness(layers.powers([0, 0, 0, 4])), 6 / 3 ** 1.5)
        self.assertAlmostEqual(layers.skewness(layers.powers([-1, -1, -1, -5])), 6 / 3 ** 1.5)
        self.assertTrue(math.isnan(layers.skewness(layers.powers([2]))))

    def test_tokens_without_meaning(self):
        self.assertEqual([layers.without_meaning(t) for t in (",", " ", "<|eot|>", " cat", "7", "é", "")],
                         [True, True, True, False, False, False, True])

    def test_where_attention_goes(self):
        def layer(first, texts, keys):
            return {"layer": 0, "sinks": [0], "mass": 1, "first": first, "texts": texts, "keys_for_90": keys}
        line = {"kind": "attention", "maps": [],
                "looks": [[layer(0.2, ["."], 0.5)], [layer(0.4, ["cat"], 0.3)]],
                "outside": [{"step": 0, "tenths": [[1, 2]]}, {"step": 1, "tenths": [[2, 3]]},
                            {"step": 8, "tenths": [[4, 5]]}, {"step": 9, "tenths": [[4, 5]]}]}
        found = layers.spread(trace.Trace({}, {"attention": [line]}))
        self.assertAlmostEqual(found["first_token_mass"], 0.3)
        self.assertEqual(found["pivot_without_meaning"], 0.5)
        self.assertAlmostEqual(found["keys_for_90_max"], 0.4)
        self.assertEqual(found["outside_overlap_mean"], 0.75)  # 1/2 and 1; never over steps 1 to 8

    def test_steps_that_compute_nothing_outside_the_block_change_nothing(self):
        # The first request compares 2 positions in step 1 and 1 in step 4, the second 2 in step 1.
        lines = [{"sums": [[1, 0, "prompt", 3.0, 1.0, 2], [2, 0, "block", 9.0, 9.0, 1],
                           [4, 0, "after", 2.0, 5.0, 1]]}, {"sums": [[1, 0, "prompt", 5.0, 3.0, 2]]}]
        steps = layers.kv_change(trace.Trace({}, {"kv_change": lines}))["steps"]
        self.assertEqual(trace.plain(steps), {
            "k": [None, 2, None, None, 2], "v": [None, 1, None, None, 5], "positions": [0, 4, 0, 0, 1],
            "k_items": [[], [[3, 2], [5, 2]], [], [], [[2, 1]]],
            "v_items": [[], [[1, 2], [3, 2]], [], [], [[5, 1]]]})
        self.assertEqual(layers.kv_change(trace.Trace({}, {}))["steps"]["k"], [])

    def test_overlap(self):
        self.assertEqual(layers.overlap([1, 3, 5, 7], [3, 4, 7]), 0.5)
        self.assertTrue(math.isnan(layers.overlap([], [1])))


class Intervals(unittest.TestCase):
    def test_shares_are_uncertain_by_item(self):
        self.assertEqual(trace.share_interval([[1, 4]] * 40), [0.25, 0.25])
        mixed = [[10, 10]] * 5 + [[0, 10]] * 5
        low, high = trace.share_interval(mixed)
        self.assertTrue(0.1 < low < 0.35 and 0.65 < high < 0.9)  # of ten items about half
        self.assertEqual(trace.share_interval(mixed[:1]), [])

    def test_draws_are_those_of_philox(self):
        # Known answers of Philox-4x32-10 (Random123, kat_vectors): zeros, and the digits of pi.
        self.assertEqual([int(w) for w in trace.philox(0, 0, 0)],
                         [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8])
        self.assertEqual([int(w) for w in trace.philox(0x299f31d0a4093822, 0x0370734413198a2e,
                                                       0x85a308d3243f6a88)],
                         [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1])

    def test_five_digits_are_kept(self):
        self.assertEqual([trace.rounded(v) for v in (0.123456, -98765.4, 0, 1e-9 / 3)],
                         [0.12346, -98765.0, 0, 3.3333e-10])


class Command(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def run_experiment(self, name, **environment):
        file = os.path.join(self.folder, "e.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write("[run]\nwarmup = 0\nrepetitions = 1\n[probe]\n"
                      'names = ["decoding", "stagnation", "importance", "attention"]\n'
                      f'[[model]]\npath = "{ROOT}/experiments/models/tiny-sdar"\n'
                      '[[workload]]\ntasks = ["word_problem"]\nlimit = 2\n'
                      '[[method]]\nname = "block_diffusion"\nparams.threshold = 0.9\n')
        place = os.path.join(self.folder, name)
        done = subprocess.run([PROGRAM, "run", file, "-o", place], capture_output=True, text=True,
                              env=os.environ | environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return place

    def rows(self, place):
        with open(os.path.join(place, "rows.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_probes_are_computed_later_to_the_same_values(self):
        with_python = self.run_experiment("with")
        without = self.run_experiment("without", UNMASK_PYTHON="/no/such/python")
        (row,) = self.rows(without)
        self.assertNotIn("probes", row)
        self.assertRegex(row["reason"], "probes: NOT RUN: needs Python.*unmask probes .* later")
        done = subprocess.run([PROGRAM, "probes", without], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "1 rows have their probes now\n"), done.stderr)
        old, new = self.rows(without)
        self.assertEqual(old, row)
        self.assertEqual(new["probes"], self.rows(with_python)[0]["probes"])
        self.assertNotIn("probes", new.get("reason", ""))
        self.assertFalse(os.path.exists(os.path.join(without, "traces")))
        self.assertFalse(os.path.exists(os.path.join(with_python, "traces")))
        again = subprocess.run([PROGRAM, "probes", without], capture_output=True, text=True)
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("holds no trace", again.stderr)

    def test_the_answer_of_an_editing_method_is_what_its_trace_scores(self):
        """The score of the row, made of its answers, beside that of the canvases that the events make."""
        for method, case in cases_of("edits").items():
            params = "".join(f"params.{k} = {v}\n" for k, v in case["params"].items())
            file, place = os.path.join(self.folder, "e.toml"), os.path.join(self.folder, method)
            with open(file, "w", encoding="utf-8") as out:
                out.write("[run]\nwarmup = 0\nrepetitions = 1\n[probe]\n"
                          'names = ["contradiction", "stagnation"]\n'
                          f'[[model]]\npath = "{ROOT}/experiments/models/{case["model"]}"\n'
                          '[[workload]]\ntasks = ["word_problem"]\nlimit = 20\n'
                          f'[[method]]\nname = "{method}"\n{params}')
            done = subprocess.run([PROGRAM, "run", file, "-o", place], capture_output=True, text=True,
                                  env=os.environ | {"UNMASK_PYTHON": "/no/such/python"})
            self.assertEqual(done.returncode, 0, done.stderr)
            (row,) = self.rows(place)
            self.assertGreater(row["metrics"][case["count"]], 0)
            written = trace.Trace.read(os.path.join(place, "traces", row["point_id"] + ".jsonl"))
            scores = [request["score"] for request in written.requests]
            self.assertEqual(len(scores), 20)
            self.assertAlmostEqual(sum(scores) / 20, row["score"]["mean"])
            self.assertEqual([s[0] for s in written.again("contradiction")["scores"]], scores)
            self.assertEqual(sum(request["revised"] for request in written.requests if "revised" in request),
                             row["metrics"]["replaced"] + row["metrics"]["reopened"])

    def test_what_is_no_trace_is_said(self):
        for text in ("", "{}\n", "no JSON\n", '{"kind":"probes","version":2}\n'):
            file = os.path.join(self.folder, "trace.jsonl")
            with open(file, "w", encoding="utf-8") as out:
                out.write(text)
            with self.assertRaisesRegex(UserError, "trace.jsonl"):
                compute(file)


if __name__ == "__main__":
    unittest.main()
