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
    sides, and of the references. n: texts of a side. likelihoods: means of the same three, 0 to 1. over_items: the
    Estimate of `change` if the rows of both sides have the sequences of every text. over_campaigns: that of several
    campaigns whose rows have the shares only."""
    ours: float
    theirs: float
    references: float
    n: int
    likelihoods: tuple
    over_items: intervals.Estimate | None = None
    over_campaigns: intervals.Estimate | None = None

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
        """Estimate of the difference of what is not repeated, ours less theirs. Of rows that have the shares only, a mean
        of shares varies at most as one of right and wrong answers does, so this is the interval of such."""
        return self.over_items or self.over_campaigns or intervals.share_difference(1 - self.ours, self.n, 1 - self.theirs, self.n)

    @property
    def text(self):
        e, more = self.over_items, ""
        if e is not None:
            value, low, high = (0 - 100 * v for v in (e.value, e.high, e.low))
            more = f" ({value:+.1f} [{low:.1f}, {high:.1f}] pp)"
        return (f"repeated 4-word sequences: {100 * self.ours:.1f} % against {100 * self.theirs:.1f} %{more}, in the "
                f"references {100 * self.references:.1f} %{': the likelier text repeats itself more' if self.looping else ''}")


def _mean_of(rows, metric):
    """The score, or what its scorer also measured, over all texts of some rows; None if a row lacks it."""
    found = [(estimates.value(row, metric), row["score"]["n"]) for row in rows]
    total = sum(n for _, n in found)
    if not total or any(value is None for value, _ in found):
        return None
    return sum(value[0] * n for value, n in found) / total


def _sequences_of(row):
    """[(repeated, all)] of every text of a row, in sequences of four words; [] of a row that has only their share."""
    items = row.get("items") or {}
    return list(zip(items.get("repeated_sequences") or [], items.get("sequences") or []))


def _over_items(pairs):
    """The difference of what is not repeated with an interval over texts, each once: sums over seeds and batch sizes. None
    unless both rows of every pair have the sequences of the same texts."""
    texts = {}
    for left, right in pairs:
        ours, theirs = _sequences_of(left), _sequences_of(right)
        if not ours or not theirs or not estimates.paired_scores(left, right)[0]:
            return None
        for at, counts in enumerate(zip(ours, theirs)):
            sums = texts.setdefault((left["workload"]["hash"], at), [0, 0, 0, 0])
            texts[left["workload"]["hash"], at] = [a + b for a, b in zip(sums, (*counts[0], *counts[1]))]
    # What one side does not repeat, less what the other does not: their share less ours.
    e = intervals.share_difference_over_items([t[2:] for t in texts.values()], [t[:2] for t in texts.values()])
    return None if e.low is None else e


def repetition_of(pairs):
    """The Repetition of pairs of rows with judged texts, [(ours, theirs)]; None if a row has no count."""
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    shares = [_mean_of(left, "score.repeated_sequences"), _mean_of(right, "score.repeated_sequences"),
              _mean_of(right, "score.reference_repeated_sequences")]
    likelihoods = [_mean_of(left, "score"), _mean_of(right, "score"), _mean_of(right, "score.reference_likelihood")]
    if any(value is None for value in shares + likelihoods):
        return None
    n = min(sum(row["score"]["n"] for row in side) for side in (left, right))
    return Repetition(*shares, n, tuple(likelihoods), _over_items(pairs))


def same_texts(pairs):
    """Whether both rows of every pair have the same texts, by the hashes of their tokens: then these repeat themselves as
    often, also if rows have no count."""
    def same(left, right):
        ours, theirs = (row["items"]["answer_hash"] for row in (left, right))
        return all(ours) and ours == theirs
    return all(estimates.paired_scores(left, right)[0] and same(left, right) for left, right in pairs)


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
