# SPDX-License-Identifier: Apache-2.0
"""Which families training draws how often, and how long their contexts are in its course."""

WEIGHTS = {"word_problem": 0.24, "equation": 0.13, "list_program": 0.10, "instruction": 0.17,
           "retrieval_kv": 0.16, "needle": 0.08, "summary": 0.07, "story": 0.05, "ledger": 0.10}
SIZED = ("retrieval_kv", "needle", "summary")


def pick_size(rng, p, long):
    """Context size in tokens at training progress p in [0, 1]: short first, long late and rare;
    `long` of them are spread evenly over the orders of magnitude from 200 to 2000."""
    u = rng.random()
    if rng.random() < long:
        return int(200 * 10 ** rng.random())
    if p < 0.12:
        return rng.randint(12, 50)
    if p < 0.25:
        return rng.randint(12, 90)
    if p < 0.45:
        return rng.randint(16, 160 if u < 0.9 else 250)
    if u < 0.92:
        return rng.randint(16, 200)
    return rng.randint(200, 480)
