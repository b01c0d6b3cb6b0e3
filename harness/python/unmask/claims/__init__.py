# SPDX-License-Identifier: Apache-2.0
"""The register of claims: what is declared before rows are looked at, how rows are compared, and how a
claim is judged. Files of claims (experiments/claims/PAPER.py) import from here."""

from unmask.claims.declare import (Published, above, at_least, at_most, below, calibration, claim, control,
                                   no_precondition, presumes, presumes_a_gpu, presumes_of_tasks,
                                   presumes_of_the_clock, presumes_ratio, within)
from unmask.claims.frame import NeedsRows
from unmask.claims.power import graded, repeated, scored, unlost
from unmask.claims.relation import (at_equal_score, difference, falling, fastest_rival, growth, largest,
                                    level, quotient, ratio, score, share, smallest, speed, spread_over_seeds,
                                    within_row)

__all__ = ["NeedsRows", "Published", "above", "at_equal_score", "at_least", "at_most", "below", "calibration", "claim",
           "control", "difference", "falling", "fastest_rival", "graded", "growth", "largest", "level",
           "no_precondition", "presumes", "presumes_a_gpu", "presumes_of_tasks", "presumes_of_the_clock",
           "presumes_ratio", "quotient", "ratio", "repeated", "score", "scored", "share", "smallest", "speed",
           "spread_over_seeds", "unlost", "within", "within_row"]
