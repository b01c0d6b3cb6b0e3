# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""How every figure looks: sizes, colours, and files that depend on the rows alone.

Colours are Okabe and Ito's (told apart with every common colour blindness), doubled by markers and
dashes so that they survive grey print. Measured values are solid, published ones hatched, and values
that no machine measured (analytic, synthetic) hollow.
"""

import io
import math
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.patches import Patch  # noqa: E402
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter  # noqa: E402,F401

# Inches: a column and the text width of a two-column paper.
COLUMN, PAGE = 3.4, 7.0
# Points.
TEXT, SMALL, TINY = 8, 7, 5.5

COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
DASHES = ["-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (4, 1, 1, 1))]
HATCHES = ["", "//", "..", "\\\\", "xx", "--", "++", "oo"]  # of single panels without published bars
PUBLISHED = "////"
INK, QUIET, GRID, PAPER = "#1B1F24", "#6A737D", "#DCE0E5", "#FFFFFF"


def style():
    plt.rcdefaults()  # a user's own settings must not change a byte
    plt.rcParams.update({
        "font.family": "DejaVu Sans", "font.size": TEXT, "axes.titlesize": TEXT,
        "axes.labelsize": TEXT, "xtick.labelsize": SMALL, "ytick.labelsize": SMALL,
        "legend.fontsize": SMALL, "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK,
        "ytick.color": INK, "axes.edgecolor": INK, "axes.linewidth": 0.6,
        "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.minor.width": 0.4,
        "ytick.minor.width": 0.4, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
        "xtick.minor.size": 1.5, "ytick.minor.size": 1.5,
        "axes.titlelocation": "left", "axes.titleweight": "bold", "axes.titlepad": 5,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.color": GRID, "grid.linewidth": 0.5, "axes.axisbelow": True,
        "legend.frameon": False, "legend.handlelength": 1.8, "lines.linewidth": 1.3,
        "lines.markersize": 4, "hatch.linewidth": 0.6, "figure.facecolor": PAPER,
        "axes.facecolor": "none", "figure.dpi": 100, "savefig.dpi": 200,
        "svg.fonttype": "path", "pdf.fonttype": 42,
        # Names inside an SVG come from this, not from a random number.
        "svg.hashsalt": "unmask",
    })


class Look:
    """Colour, marker and dash of one series; the same on every panel of a figure."""

    def __init__(self, place):
        turn = place // len(COLOURS)
        self.colour = COLOURS[place % len(COLOURS)]
        self.marker = MARKERS[(place + turn) % len(MARKERS)]
        self.dash = DASHES[turn % len(DASHES)]

    def line(self, hollow=False):
        return {"color": self.colour, "marker": self.marker, "linestyle": self.dash,
                "markerfacecolor": PAPER if hollow else self.colour,
                "markeredgecolor": self.colour, "markeredgewidth": 0.9}

    def point(self, hollow=False):
        return {**self.line(hollow), "linestyle": "none"}

    def bar(self, hollow=False):
        return {"facecolor": "none" if hollow else self.colour, "edgecolor": self.colour,
                "linewidth": 0.9}


def looks(names):
    return {name: Look(place) for place, name in enumerate(names)}


def published_bar():
    return {"facecolor": "none", "edgecolor": QUIET, "hatch": PUBLISHED, "linewidth": 0.7}


def provenance_handles(hollow, published):
    """Legend entries that say what hollow and hatched mark, for those that were drawn."""
    handles = []
    if hollow:
        handles.append(Line2D([], [], color=QUIET, marker="o", markerfacecolor=PAPER,
                              linestyle="none", label="hollow: not measured (synthetic, analytic)"))
    if published:
        handles.append(Patch(label="hatched: published, not measured here", **published_bar()))
    return handles


def series_handles(names, look, hollow=()):
    return [Line2D([], [], label=name, **look[name].line(name in hollow)) for name in names]


def grid(panels, columns, width=PAGE, height=2.0):
    """Figure of `width` inches with a list of exactly `panels` axes, each `height` inches high."""
    lines = math.ceil(panels / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(width, height * lines + 0.35),
                                squeeze=False)
    cells = list(axes.flat)
    for spare in cells[panels:]:
        spare.set_axis_off()
    return figure, cells[:panels]


def legend_above(figure, handles, columns=None):
    """A legend above the axes; the figure grows by its height, so that panels keep theirs."""
    if handles and isinstance(handles[0], str):  # names of what was labelled on the axes
        names, handles = handles, None
    else:
        names = [h.get_label() for h in handles]
    if not names:
        return finish(figure)
    inches = max(len(name) for name in names) * 0.055 + 0.45
    columns = columns or max(1, min(len(names), int(figure.get_figwidth() / inches)))
    lines = math.ceil(len(names) / columns)
    extra = {} if handles is None else {"handles": handles}
    above = 0.1 + 0.165 * lines
    figure.set_figheight(figure.get_figheight() + above)
    figure.legend(loc="upper center", ncols=columns, columnspacing=1.4, **extra)
    return finish(figure, above)


def label_below(figure, text):
    """One label for the x axes of all panels; before the legend or finish()."""
    figure.below = text


def finish(figure, above=0.0):
    """Lay the panels out below `above` inches of legend and above the two lines of the footnote."""
    high = figure.get_figheight()
    text = getattr(figure, "below", "")
    below = 0.25 + (0.17 if text else 0)
    figure.tight_layout(rect=(0, below / high, 1, 1 - above / high), w_pad=1.2, h_pad=1.0)
    if text:
        boxes = [cell.get_position() for cell in figure.axes]
        middle = (min(b.x0 for b in boxes) + max(b.x1 for b in boxes)) / 2
        figure.text(middle, 0.27 / high, text, ha="center", va="bottom", fontsize=TEXT)
    return figure


def svg_text(figure):
    """The SVG that save() writes, as text."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "Unmask"})
    return out.getvalue()


def save(figure, output):
    """OUTPUT.svg, .png and .pdf, without dates: equal rows give equal files."""
    directory = os.path.dirname(output)
    if directory:
        os.makedirs(directory, exist_ok=True)
    figure.savefig(output + ".svg", metadata={"Date": None, "Creator": "Unmask"})
    figure.savefig(output + ".png", metadata={"Software": "Unmask"})
    figure.savefig(output + ".pdf", metadata={"CreationDate": None, "Producer": "Unmask",
                                              "Creator": "Unmask"})
    plt.close(figure)
