# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""How every figure looks: sizes, colours, and files that depend on the rows alone.

Colours are Okabe and Ito's and four more (told apart with every common colour blindness), doubled by markers and
dashes so that they survive grey print. Measured values are solid, published ones hatched, and values
that no machine measured (analytic, synthetic) hollow.
"""

import io
import math
import os
import textwrap
import types

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.patches import Patch  # noqa: E402
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, NullLocator  # noqa: E402,F401

import rows  # noqa: E402,F401: the package is found by it
from unmask.rows.files import replace_file  # noqa: E402

# Inches: a column and the text width of a two-column paper.
COLUMN, PAGE = 3.4, 7.0
# Points.
TEXT, SMALL, TINY = 8, 7, 5.5

# Okabe and Ito's without their yellow, which is too pale for a line on white, and four that keep any two
# at least 16 apart (CIE 1976) also for protanopes, deuteranopes and tritanopes (tests/plots/test_paper.py).
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#8700F0",
           "#5A2D00", "#001E87", "#5A4B5A"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
DASHES = ["-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (4, 1, 1, 1))]
HATCHES = ["", "//", "..", "\\\\", "xx", "--", "++", "oo"]  # of single panels without published bars
PUBLISHED = "////"
INK, QUIET, GRID, PAPER = "#1B1F24", "#6A737D", "#DCE0E5", "#FFFFFF"
# A legend has at most LEGEND entries: of more series than that NAMED have a name and a colour, the others
# are grey and counted.
LEGEND, NAMED, OTHERS = 8, 6, "#B9C0C8"


# What the options of a figure for a paper change (common.paper_arguments). width: inches; None: what
# suits the figure. note: the lines below it. direct: names beside marks and lines, not in a legend. named: labels
# that have a name and a colour if there are more series than those.
SETUP = types.SimpleNamespace(width=None, note=True, direct=False, font="DejaVu Sans", named=())
NOTE_LINE = 0.085  # inches


def columns_in(wanted):
    """How many panels fit side by side: `wanted`, or fewer in a narrower figure."""
    return wanted if SETUP.width is None else max(1, min(wanted, int(SETUP.width / 2.2)))


def style():
    plt.rcdefaults()  # a user's own settings must not change a byte
    plt.rcParams.update({
        "font.family": SETUP.font, "font.size": TEXT, "axes.titlesize": TEXT,
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
        "text.parse_math": False,  # a name's dollar signs are dollar signs
    })


class Look:
    """Colour, marker and dash of one series; the same on every panel of a figure. Grey without a name: one
    of the others."""

    def __init__(self, place, named=True, text=""):
        self.text = text  # the name as it is written
        turn = place // len(COLOURS)
        self.named = named
        self.colour = COLOURS[place % len(COLOURS)] if named else OTHERS
        self.marker = MARKERS[(place + turn) % len(MARKERS)] if named else "o"
        self.dash = DASHES[turn % len(DASHES)] if named else "-"

    def line(self, hollow=False):
        return {"color": self.colour, "marker": self.marker, "linestyle": self.dash,
                "markerfacecolor": PAPER if hollow else self.colour,
                "markeredgecolor": self.colour, "markeredgewidth": 0.9}

    def point(self, hollow=False):
        return {**self.line(hollow), "linestyle": "none"}

    def bar(self, hollow=False):
        return {"facecolor": "none" if hollow else self.colour, "edgecolor": self.colour,
                "linewidth": 0.9}


def looks(names, others=0):
    """The looks of series, of which the first are named if there are too many for a legend that has so many
    other entries."""
    most = len(names) if len(names) <= LEGEND - others else NAMED - max(0, others - 1)
    texts = shortened(names)
    if len(names) > most:
        asked = [n for label in SETUP.named for n in names if n == label or n.startswith(f"{label} ")]
        names = list(dict.fromkeys([*asked, *names]))
    return {name: Look(place, place < most, texts[name]) for place, name in enumerate(names)}


LONGEST = 56  # letters of a name in a figure


def shortened(names, most=LONGEST):
    """{name: as it is written}: long names without their middle, so that no two become one."""
    names = list(dict.fromkeys(names))
    head = most * 2 // 3
    short = {n: n if len(n) <= most else f"{n[:head].rstrip()}…{n[head - most + 1:].lstrip()}" for n in names}
    for text in set(short.values()):
        alike = [n for n in names if short[n] == text]
        start = len(os.path.commonprefix(alike))
        if len(alike) > 1:  # what tells them apart, between a few letters of the beginning and the end
            short |= {n: f"{n[:12].rstrip()}…{n[start:start + most - 26].strip()}…{n[-8:].lstrip()}" for n in alike}
    written = {}
    for name in names:
        written.setdefault(short[name], []).append(name)
    for text, alike in written.items():
        short |= {name: f"{text} ({place})" for place, name in enumerate(alike, 1) if len(alike) > 1}
    return short


def fitted_title(text, cell):
    """A panel's title, which finish() breaks at the width that the panel gets."""
    cell.whole_title = text
    return text


def fit_titles(figure, most=3):
    """Breaks the titles at the widths of their panels into at most so many lines; what does not fit is cut."""
    for cell in figure.axes:
        text = getattr(cell, "whole_title", "")
        if text:
            wide = 1.04 * cell.set_title(text).get_window_extent().width  # letters are set wider in the file
            letters = max(8, int(len(text) * min(1, cell.bbox.width / wide)))
            cell.set_title("\n".join(textwrap.wrap(text, letters, max_lines=most, placeholder=" …")))


def bar_looks(names):
    """The looks of bars whose names stand at their axis: one colour says no less."""
    texts = shortened(names)
    return {name: Look(0, True, texts[name]) for name in names}


def others_of(names, look):
    """How many series have no name of their own."""
    return sum(not look[name].named for name in names)


def log_ticks(low, high):
    """Numbers that a logarithmic axis from low to high names: three or more, evenly apart as far as round
    numbers go."""
    decades = math.log10(high / low)
    if decades < 0.7:
        found = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        return [value for value in found if low <= value <= high and value > 0]
    subs = (1,) if decades > 3 else (1, 3) if decades > 2 else (1, 2, 5) if decades > 1 else (1, 2, 3, 5, 7)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [sub * 10.0 ** power for power in powers for sub in subs if low <= sub * 10.0 ** power <= high]


def log_axis(cell, side, low, high):
    """Makes the x or y axis logarithmic from low to high, with ticks that are read without a table."""
    axis = getattr(cell, f"{side}axis")
    getattr(cell, f"set_{side}scale")("log")
    getattr(cell, f"set_{side}lim")(low, high)
    axis.set_major_locator(FixedLocator(log_ticks(low, high)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def score_axis(cell, lows, highs):
    """Makes y an axis of shares in per cent that holds these numbers, whiskers and all."""
    low, high = min(lows), max(highs)
    spare = max(1.0, 0.06 * (high - low), (8 - (high - low)) / 2)
    low, high = max(-3, low - spare), min(103, high + spare)
    cell.set_ylim(low, high)
    cell.set_yticks([tick for tick in MaxNLocator(6).tick_values(low, high) if max(0, low) <= tick <= min(100, high)])


def published_bar():
    return {"facecolor": "none", "edgecolor": QUIET, "hatch": PUBLISHED, "linewidth": 0.7}


def provenance_handles(hollow, published, crosses=False):
    """Legend entries that say what hollow and hatched (or crosses) mark, for those that were drawn."""
    handles = []
    if hollow:
        handles.append(Line2D([], [], color=QUIET, marker="o", markerfacecolor=PAPER,
                              linestyle="none", label="hollow: not measured (synthetic, analytic)"))
    if published and crosses:
        handles.append(Line2D([], [], color=QUIET, marker="x", linestyle="none",
                              label="cross: published, not measured here"))
    elif published:
        handles.append(Patch(label="hatched: published, not measured here", **published_bar()))
    return handles


def series_handles(names, look, hollow=(), marks_only=False):
    """A legend's entries for the named series, unless their names stand beside them, and one that counts the
    others."""
    kind = {"linestyle": "none"} if marks_only else {}
    handles = [] if SETUP.direct else [Line2D([], [], label=look[name].text, **look[name].line(name in hollow) | kind)
               for name in names if look[name].named]
    others = others_of(names, look)
    if others:
        handles.append(Line2D([], [], label=f"{others} others", **Look(0, False).line() | kind))
    return handles


def grid(panels, columns, width=PAGE, height=2.0):
    """Figure of `width` inches with a list of exactly `panels` axes, each `height` inches high."""
    width = SETUP.width or width
    lines = math.ceil(panels / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(width, height * lines + 0.35),
                                squeeze=False)
    cells = list(axes.flat)
    for spare in cells[panels:]:
        spare.set_axis_off()
    return figure, cells[:panels]


def legend_above(figure, handles):
    """A legend above the axes; the figure grows by its height, so that panels keep theirs. A name that is longer than
    the figure is wide takes several lines. A list of names: of what was labelled on the axes."""
    return legends_above(figure, [handles])


def legends_above(figure, groups):
    """Legends of their own for what colours and what markers mean, one below the other."""
    above = 0.0
    figure.legend_tops = []
    for handles in filter(None, groups):
        above += one_legend(figure, handles, above)
    figure.set_figheight(figure.get_figheight() + above)
    return finish(figure, above)


def one_legend(figure, handles, top):
    """Puts a legend `top` inches below the figure's upper edge; returns its height in inches."""
    if isinstance(handles[0], str):
        marked = [pair for cell in figure.axes for pair in zip(*cell.get_legend_handles_labels())]
        handles, names = [handle for handle, _ in marked], [name for _, name in marked]
    else:
        names = [h.get_label() for h in handles]
    names = ["\n".join(textwrap.wrap(name, max(20, int((figure.get_figwidth() - 0.55) / 0.055)))) for name in names]
    inches = max((len(line) for name in names for line in name.split("\n")), default=0) * 0.055 + 0.45
    columns = max(1, min(len(names), int(figure.get_figwidth() / inches)))
    lines = math.ceil(len(names) / columns) + sum(name.count("\n") for name in names)
    figure.legend_tops.append((figure.legend(handles, names, loc="upper center", ncols=columns, columnspacing=1.4), top))
    return 0.1 + 0.165 * lines


def label_below(figure, text):
    """One label for the x axes of all panels; before the legend or finish()."""
    figure.below = text


def finish(figure, above=0.0):
    """Lay the panels out below `above` inches of legend, above the lines of the footnote and left of figure.aside
    inches."""
    figure.above = above
    high = figure.get_figheight()
    text = getattr(figure, "below", "")
    notes = NOTE_LINE * getattr(figure, "note_lines", 2) + 0.08 if SETUP.note else 0.02
    below = notes + (0.17 if text else 0)
    right = 1 - getattr(figure, "aside", 0) / figure.get_figwidth()
    place = {"rect": (0, below / high, right, 1 - above / high), "w_pad": 1.2, "h_pad": 1.0}
    figure.tight_layout(**place)
    if any(hasattr(cell, "whole_title") for cell in figure.axes):
        fit_titles(figure)
        figure.tight_layout(**place)
    for legend, top in getattr(figure, "legend_tops", []):
        legend.set_bbox_to_anchor((0.5, 1 - top / high), figure.transFigure)
    if getattr(figure, "direct", None):
        for cell, marks in figure.direct:
            write_beside(cell, marks)
        figure.direct = []
    if text:
        boxes = [cell.get_position() for cell in figure.axes]
        middle = (min(b.x0 for b in boxes) + max(b.x1 for b in boxes)) / 2
        half = len(text) * 0.58 * TEXT / 72 / 2 / figure.get_figwidth()  # inside the figure, if it fits at all
        middle = min(max(middle, half), 1 - half) if half < 0.5 else 0.5
        if getattr(figure, "below_text", None):
            figure.below_text.remove()
        figure.below_text = figure.text(middle, (notes + 0.02) / high, text, ha="center", va="bottom", fontsize=TEXT)
    return figure


def name_directly(figure, cell, marks):
    """Names marks beside them once the figure is laid out: [(x, y, name, colour)] in data units."""
    known = dict(getattr(figure, "direct", []))
    figure.direct = [*(known | {cell: [*known.get(cell, []), *marks]}).items()]


def name_last(figure, cell, points, name, look):
    """Names a line at its last point, where names stand beside what they name."""
    if SETUP.direct and points and look.named:
        name_directly(figure, cell, [(*points[-1], name, look.colour)])


def write_beside(cell, marks):
    """Names right of the marks, in the right third left of them, and inside the figure; one that would
    lie over another moves up until it is free."""
    points = 72 / cell.figure.dpi
    left, width, most = cell.bbox.x0, cell.bbox.width, cell.figure.bbox.x1 - 2
    placed = []
    for x, y, name, colour in sorted(marks, key=lambda m: cell.transData.transform(m[:2])[1]):
        on_left = cell.transData.transform((x, y))[0] > left + 0.67 * width
        text = cell.annotate(name, (x, y), xytext=(-5 if on_left else 5, 0),
                             textcoords="offset points", ha="right" if on_left else "left",
                             va="center", fontsize=TINY + 0.5, color=colour, annotation_clip=False)
        across = -5 if on_left else 5
        box = text.get_window_extent()
        spare = 0.07 * box.width  # letters are set wider at the resolution of the file
        across += (min(0, most - spare - box.x1) or max(0, left + spare - box.x0)) * points
        text.set_position((across, 0))
        box = text.get_window_extent()
        up = 0.0
        while True:
            over = [b for b in placed if b.x0 < box.x1 and box.x0 < b.x1 and
                    b.y0 < box.y1 + up - 0.5 and box.y0 + up + 0.5 < b.y1]
            if not over:
                break
            up = max(b.y1 for b in over) - box.y0
        text.set_position((across, up * points))
        placed.append(text.get_window_extent())


def set_note(figure, text):
    """The lines below a figure, broken at its width; the figure grows by lines beyond the second."""
    if not SETUP.note:
        return
    letters = int(figure.get_figwidth() * 72 / (0.56 * TINY))  # one is about half as wide as high
    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, letters) or [""]]
    before, after = getattr(figure, "note_lines", 2), max(2, len(lines))
    if after != before:
        figure.note_lines = after
        figure.set_figheight(figure.get_figheight() + NOTE_LINE * (after - before))
        finish(figure, figure.above)
    if getattr(figure, "note", None):
        figure.note.remove()
    figure.note = figure.text(0.005, 0.03 / figure.get_figheight(), "\n".join(lines), fontsize=TINY,
                              color=QUIET, va="bottom", linespacing=1.25)
    figure.note_text = text


# Without dates: equal rows give equal files.
METADATA = {"svg": {"Date": None, "Creator": "Unmask"}, "png": {"Software": "Unmask"},
            "pdf": {"CreationDate": None, "Producer": "Unmask", "Creator": "Unmask"}}


def words_of(figure):
    """The words at the axes and over the panels of a figure, each once, with semicolons between. A PNG keeps them, so
    that a picture whose words are out of date can be told from its file."""
    found = [getattr(figure, "below", "")]
    for cell in figure.axes:
        found += [cell.get_title("left"), cell.get_xlabel(), cell.get_ylabel()]
    return "; ".join(dict.fromkeys(" ".join(text.split()) for text in found if text.strip()))


def drawing_of(figure, kind):
    """The bytes of a figure as svg, png or pdf."""
    out = io.BytesIO()
    more = {"Description": words_of(figure)} if kind == "png" else {}
    figure.savefig(out, format=kind, metadata=METADATA[kind] | more)
    return out.getvalue()


def svg_text(figure):
    """The SVG that save() writes, as text."""
    return drawing_of(figure, "svg").decode()


def path_and_kinds(output):
    """The path of a figure without extension, and which files it is: OUTPUT.svg alone where that is the path's end,
    else .svg, .png and .pdf."""
    stem, dot, kind = output.rpartition(".")
    return (stem, [kind]) if stem and dot and kind in METADATA else (output, list(METADATA))


def save(figure, output, kinds=tuple(METADATA)):
    """OUTPUT.svg, .png and .pdf, all drawn before the first is written; each is there whole, or as it was."""
    for kind, content in {kind: drawing_of(figure, kind) for kind in kinds}.items():
        replace_file(f"{output}.{kind}", content)
    plt.close(figure)
