# SPDX-License-Identifier: Apache-2.0
"""The smallest claim: what it says, what must be found, and a function that measures it on rows.

Copy it to MINE/claims/PAPER.py. The experiments that it names lie in MINE/PAPER/; here that is
minimal_experiment.toml, with these lines at its end that say which artifact it is:

    [artifact]
    paper = "minimal_claim"
    id = "minimal_experiment"
    kind = "table"
    title = "What does a threshold buy?"
    [scale.tiny]

Then measure and judge:

    unmask run MINE -o runs
    unmask claims runs --experiments-dir MINE

harness/python/README.md explains every field and every function that measures."""

from unmask.claims import below, claim, no_precondition, ratio


@claim(place="an example",
       statement="With a threshold of 0.7 an answer takes fewer forwards than with one of 0.95.",
       kind="count",
       quantity="forwards, threshold 0.7 over 0.95",
       bound=below(1, "us: \"fewer\""),
       regime=no_precondition("both thresholds decide the same prompts with one model"),
       tasks="word problems", items="10: counts of these prompts are exact",
       artifacts=("minimal_experiment",), scales=("tiny",))
def a_low_threshold_takes_fewer_forwards(f):
    return ratio(f, "nfe", {"threshold": 0.7}, {"threshold": 0.95})
