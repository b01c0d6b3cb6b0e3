# SPDX-License-Identifier: Apache-2.0
"""How often texts repeat themselves, next to how likely they are. A loop is likely: a text that is likelier than the
references, the answers of the workload itself, repeats itself more than they do."""

from dataclasses import dataclass
import os
import tomllib

from unmask.rows import estimates, intervals

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "references.toml"), "rb") as _file:
    _MEASURED_BEFORE = tomllib.load(_file)


@dataclass(frozen=True)
class Repetition:
    """Shares (0 to 1) of the sequences of four words that repeat an earlier one of the same text: of the texts of both
    sides, and of the references. n: texts of a side. likelihoods: means of the same three, 0 to 1."""
    ours: float
    theirs: float
    references: float
    n: int
    likelihoods: tuple

    @property
    def beyond(self):
        """Whether our texts are likelier than the references."""
        return self.likelihoods[0] > self.likelihoods[2]

    @property
    def looping(self):
        """Whether the likelier side repeats itself more."""
        return (self.ours - self.theirs) * (self.likelihoods[0] - self.likelihoods[1]) > 0

    @property
    def change(self):
        """Estimate of the difference of what is not repeated, ours less theirs. Rows keep no share of each text. A mean
        of shares varies at most as one of right and wrong answers does, so this is the interval of such."""
        return intervals.share_difference(1 - self.ours, self.n, 1 - self.theirs, self.n)

    @property
    def text(self):
        return (f"repeated 4-word sequences: {100 * self.ours:.1f} % against {100 * self.theirs:.1f} %, in the references "
                f"{100 * self.references:.1f} %{': the likelier text repeats itself more' if self.looping else ''}")


def _mean_of(rows, metric):
    """The score, or what its scorer also measured, over all texts of some rows; None if a row lacks it."""
    found = [(estimates.value(row, metric), row["score"]["n"]) for row in rows]
    total = sum(n for _, n in found)
    if not total or any(value is None for value, _ in found):
        return None
    return sum(value[0] * n for value, n in found) / total


def repetition_of(pairs):
    """The Repetition of pairs of rows with judged texts, [(ours, theirs)]; None if a row has no count."""
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    shares = [_mean_of(left, "score.repeated_sequences"), _mean_of(right, "score.repeated_sequences"),
              _mean_of(right, "score.reference_repeated_sequences")]
    likelihoods = [_mean_of(left, "score"), _mean_of(right, "score"), _mean_of(right, "score.reference_likelihood")]
    if any(value is None for value in shares + likelihoods):
        return None
    return Repetition(*shares, min(sum(row["score"]["n"] for row in side) for side in (left, right)), tuple(likelihoods))


def likelihood_of_references(row):
    """Of a row with judged texts, 0 to 1: its own, else that of its workload and judge on other items. None if the score
    is of answers, or nobody measured it."""
    judge = row["workload"].get("judge")
    if not judge or not row["score"]:
        return None
    own = estimates.value(row, "score.reference_likelihood")
    if own is not None:
        return own[0]
    return _MEASURED_BEFORE.get(row["workload"]["family"], {}).get(judge, {}).get("likelihood")
