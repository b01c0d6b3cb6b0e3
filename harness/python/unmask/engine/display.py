# SPDX-License-Identifier: Apache-2.0
"""One decode to look at: how sure the model was of each position in each forward pass, and the canvas after it, as
arrays and as HTML for a notebook. It computes on what was recorded and needs no engine."""

import html

import numpy as np

KEPT, TAKEN, REPLACED, REOPENED, HELD = range(5)  # kinds of events
MOST_STEPS = 200  # lines that HTML shows

STYLE = {"td": "border:1px solid #fff;padding:1px 3px;font:11px monospace;text-align:center;white-space:pre",
         "th": "font:11px monospace;color:#666;text-align:right;padding-right:6px;font-weight:normal",
         "note": "font:11px sans-serif;color:#666"}


def columns_of(trajectory):
    """The columns of a Trajectory, as Canvas takes them."""
    return trajectory.step, trajectory.position, trajectory.token, trajectory.code, trajectory.confidence


class Canvas:
    """The canvas of one request over its forward passes.

    events, candidates: columns (step, position, token, kind, confidence) of one length each. An event is what was
    done to a position, a candidate what could have been unmasked. Positions count from the first of the response,
    steps from the first forward pass of the request. length: positions of the response. word: the text of a
    token, by its number."""

    def __init__(self, events, candidates, length, word=str):
        self.events = [np.asarray(column) for column in events]
        self.candidates = [np.asarray(column) for column in candidates]
        self.length, self.word = int(length), word

    def steps(self):
        """The forward passes in which something could be unmasked, ascending."""
        return np.unique(np.concatenate([self.events[0], self.candidates[0]]))

    def confidences(self):
        """Float array [forward passes, length]: the probability of the token that the model would put there. NaN
        where a position was no candidate. The lines are those of steps()."""
        return self._laid_out(self.candidates)

    def unmasked(self):
        """Integer array [length]: the forward pass that unmasked each position for the last time, -1 for none."""
        last = np.full(self.length, -1)
        for step, position, _, kind, _ in zip(*self.events):
            last[position] = -1 if kind == REOPENED else step if kind in (TAKEN, HELD) else last[position]
        return last

    def tokens(self):
        """Integer array [forward passes, length]: the canvas after each of steps(). -1: masked."""
        steps = self.steps()
        canvas, now, next_event = np.full((len(steps), self.length), -1), np.full(self.length, -1), 0
        order = np.argsort(self.events[0], kind="stable")
        for line, step in enumerate(steps):
            while next_event < len(order) and self.events[0][order[next_event]] <= step:
                _, position, token, kind, _ = (column[order[next_event]] for column in self.events)
                now[position] = -1 if kind == REOPENED else now[position] if kind == KEPT else token
                next_event += 1
            canvas[line] = now
        return canvas

    def _laid_out(self, columns):
        steps = self.steps()
        values = np.full((len(steps), self.length), np.nan)
        values[np.searchsorted(steps, columns[0]), columns[1]] = columns[4]
        return values

    def _repr_html_(self):
        """A line for each forward pass. Blue: a candidate, darker if the model was surer. Bold: unmasked in this
        forward pass. Grey: unmasked before."""
        steps, sure, canvas = self.steps(), self.confidences(), self.tokens()
        done = self._laid_out(self.events)
        lines = []
        for line, step in enumerate(steps[:MOST_STEPS]):
            cells = "".join(self._cell(canvas[line, p], sure[line, p], done[line, p]) for p in range(self.length))
            lines.append(f'<tr><th style="{STYLE["th"]}">{int(step) + 1}</th>{cells}</tr>')
        left = len(steps) - len(lines)
        note = "forward passes from top to bottom, positions of the response from left to right"
        note += f"; {left} more forward passes are not shown" if left else ""
        return (f'<div style="overflow-x:auto"><table style="border-collapse:collapse">{"".join(lines)}</table>'
                f'<div style="{STYLE["note"]}">{note}</div></div>')

    def _cell(self, token, sure, done):
        """A position after a forward pass: its token, and how sure the model was of it as the colour."""
        share = 0 if np.isnan(sure) else float(np.clip(sure, 0, 1))
        colour = "#eee" if np.isnan(sure) else f"rgba(31,119,180,{0.08 + 0.72 * share:.2f})"
        title = "" if np.isnan(sure) else f' title="{share:.3f}"'
        text = "·" if token < 0 else html.escape(self.word(int(token)))
        text = text.replace("\n", "⏎")
        if not np.isnan(done):
            text = f"<b>{text}</b>"
        return f'<td style="{STYLE["td"]};background:{colour}"{title}>{text}</td>'
