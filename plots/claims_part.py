# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The claims on the report page: the headlines first, then all claims by paper, each with the score beside it,
what it is over the simplest method, and its controls with their verdicts."""

import html
import os

import page_text
import rows as rowlib
from unmask.rows.glossary import heading, shown as shown_word

OPEN_UP_TO = 12  # claims that need no closed papers


def text(value):
    return html.escape(str(value), quote=True)


def number(value, digits=3):
    if value is None:
        return "–"
    value = float(value)
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.{digits}g}" if abs(value) < 100 else f"{value:.1f}"


MARKS = {"good": "✓ ", "mid": "○ ", "bad": "✗ "}


def badge(verdict, tone):
    return f'<span class="badge {tone}">{MARKS[tone]}{text(verdict)}</span>'


def verdict_of(claim):
    """As it is shown, with the limits that it holds with."""
    limits = ", ".join(claim.get("limits") or ())
    return badge(claim.get("shown", claim["verdict"]), claim["tone"]) + (
        f"<br><small>{text(limits)}</small>" if limits else "")


def bounds_text(interval, factor=1.0):
    """An interval in brackets; "" of one without a width: a count is no estimate."""
    if not interval or any(v is None for v in interval) or interval[0] == interval[1]:
        return ""
    return f' <small>[{number(factor * interval[0])}, {number(factor * interval[1])}]</small>'


def measured_text(claim):
    measured = claim.get("measured")
    shown = number(measured) if isinstance(measured, (int, float)) else "–" if measured is None else text(measured)
    return shown + ("†" if claim.get("synthetic") else "") + bounds_text(claim.get("interval"))


def points_text(estimate):
    """A difference of scores in percentage points with its interval; "–" for none."""
    if not isinstance(estimate, dict) or not isinstance(estimate.get("value"), (int, float)):
        return "–"
    return f"{100 * estimate['value']:+.1f} pp{bounds_text(estimate.get('interval'), 100)}"


def simplest_text(claim):
    """How many times as fast as the fastest simpler method at the same score, and which that is."""
    estimate = claim.get("over_simplest")
    if not isinstance(estimate, dict) or not isinstance(estimate.get("value"), (int, float)):
        return "–"
    name = f"<br><small>{text(claim['simplest'])}</small>" if claim.get("simplest") else ""
    return f"{number(estimate['value'])}{bounds_text(estimate.get('interval'))}{name}"


def options_of(values, name=str):
    return "".join(f'<option value="{text(v)}">{text(name(v))}</option>' for v in values)


def ratio_text(c):
    """How many times the published number was measured; "" of differences of scores and of what has none."""
    measured, published = c.get("measured"), c["published"].get("value")
    if c.get("kind") == "score" or not all(isinstance(v, (int, float)) for v in (measured, published)) or not published:
        return ""
    return f"here {measured / published:.2f} times that · "


def published_text(c):
    """(The paper's number, where it stands and what it is to ours)."""
    published = c.get("published")
    if isinstance(published, dict):
        source = published.get("source", "")
        if c.get("size") in ("inside", "outside"):
            source = f"{shown_word('published number', c['size'])} measured here · {source}"
        return (f"{number(published.get('value'))} {text(published.get('unit', ''))}",
                ratio_text(c) + source or c.get("source", ""))
    if isinstance(published, (int, float)):
        return number(published), c.get("source", "")
    return "–" if published is None else text(published), c.get("source", "")


def claim_links(claim, sections):
    """Links to the results that a claim is judged on."""
    links = []
    for file in claim.get("artifacts") or []:
        paper, artifact = os.path.normpath(str(file)).removesuffix(".toml").split(os.sep)[-2:]
        places = [i for i, s in enumerate(sections) if (s.paper, s.artifact) == (paper, artifact)]
        here = [i for i in places if sections[i].scale == claim.get("scale")] or places
        links += [f'<a href="#part-{i}">{text(page_text.artifact_name(artifact))}</a>' for i in here]
    return " · ".join(links)


def why(claim):
    """The reason, how it was read, and the controls as a list with their verdicts."""
    found = claim.get("controls_found") or []
    said = [claim.get("reason"), f"interpretation: {claim['reading']}" if claim.get("reading") else "", claim.get("note")]
    if found and claim.get("reason"):  # they stand below, each with its verdict
        said[0] = "; ".join(part for part in claim["reason"].split("; ")
                            if not any(control["statement"].rstrip(".") in part for control in found))
    words = "".join(f"<p><small>{text(part)}</small></p>" for part in said if part)
    controls = "".join(
        f"<li>{badge(c.get('shown', c['verdict']), c['tone'])} {text(c['statement'])} "
        f"<small>{measured_text(c)}</small></li>" for c in found)
    if not found:
        return words
    return (f"{words}<details><summary>controls: {text(counts_text(found))}</summary>"
            f'<ul class="controls">{controls}</ul></details>')


COLUMNS = (("claim", False), ("verdict", False), ("measured", True), ("score beside it", True),
           ("over the simplest method", True), ("published", False), ("n", True), ("scale", False))

HEADINGS = {"claim": "statement", "score beside it": "score_beside", "over the simplest method": "over_simplest"}


def columns_of(claims):
    """The columns that some claim fills; scores and simpler methods are newer than other rows."""
    lacking = {"score beside it": all(points_text(c.get("score")) == "–" for c in claims),
               "over the simplest method": all(simplest_text(c) == "–" for c in claims)}
    return [column for column in COLUMNS if not lacking.get(column[0])]


def claim_row(c, columns, sections):
    shown, source = published_text(c)
    where = " · ".join(text(c[k]) for k in ("paper", "id") if c.get(k))
    links = claim_links(c, sections)
    scale = text(c.get("scale", "")) + (" <small>tiny models</small>" if c.get("tiny_models") else "")
    cells = {
        "claim": f'{text(c["statement"])}<br><small>{where}' + (f" · {links}" if links else "") + f"</small>{why(c)}",
        "verdict": verdict_of(c), "measured": measured_text(c), "score beside it": points_text(c.get("score")),
        "over the simplest method": simplest_text(c),
        "published": shown + (f"<br><small>{text(source)}</small>" if source else ""),
        "n": ("–" if c.get("n") is None else text(c["n"])) + (f" <small>{text(c['n_unit'])}</small>"
                                                              if c.get("n_unit") else ""),
        "scale": scale}
    return (f'<tr data-verdict="{text(c.get("shown", c["verdict"]))}" data-paper="{text(c.get("paper", ""))}">'
            f"{cells_html(cells, columns)}</tr>")


def cells_html(cells, columns):
    """A line's cells; on a narrow screen each but claim and verdict says what it is."""
    def cell(name, right):
        label = "" if name in ("claim", "verdict") else f' data-label="{text(name)}"'
        return f'<td{" class=n" if right else ""}{label}>{cells[name]}</td>'
    return "".join(cell(name, right) for name, right in columns)


def claims_table(claims, columns, caption, rows):
    head = "".join(f'<th scope="col"{" class=n" if right else ""}><button type="button">{heading(HEADINGS.get(name, name))}</button></th>'
                   for name, right in columns)
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
            f'<table class="sortable"><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead>'
            f'<tbody>{"".join(rows)}</tbody></table></div>')


def counts_text(claims):
    verdicts = [c.get("shown", c["verdict"]) for c in claims]
    return ", ".join(f"{verdicts.count(v)} {v}" for v in rowlib.ordered(verdicts))


def is_headline(claim):
    return str(claim.get("source", "")).startswith("Abstract")


def headlines_part(claims):
    """The claims of the papers' abstracts: what came of them, with the score beside each speed."""
    claims = [c for c in claims if is_headline(c)]
    if not claims:
        return ""
    columns = [column for column in columns_of(claims) if column[0] not in ("n", "scale")]
    rows = []
    for c in claims:
        shown, source = published_text(c)
        cells = {"claim": f'{text(c["statement"])}<br><small>{text(page_text.paper_name(c.get("paper", "")))}</small>',
                 "verdict": verdict_of(c), "measured": measured_text(c), "score beside it": points_text(c.get("score")),
                 "over the simplest method": simplest_text(c),
                 "published": shown + (f"<br><small>{text(ratio_text(c).strip(' ·'))}</small>"
                                       if isinstance(c.get("published"), dict) and ratio_text(c) else "")}
        rows.append(f"<tr>{cells_html(cells, columns)}</tr>")
    return ('<section id="headlines" class="block claims"><h2>Headlines</h2>'
            f'<p class="quiet">What the abstracts claim, measured here: {text(counts_text(claims))}. A speed says '
            'nothing without the score beside it.</p>'
            f"{claims_table(claims, columns, 'The headlines of the papers against these rows', rows)}</section>")


def claims_filter(claims):
    """What narrows the list; the page's script shows it and answers it."""
    verdicts = rowlib.ordered(c.get("shown", c["verdict"]) for c in claims)
    papers = rowlib.ordered(c["paper"] for c in claims if c.get("paper"))
    return ('<div class="filter" id="claim-filter" role="search" hidden>'
            '<label>search <input type="search" id="claim-search"></label>'
            f'<label>verdict <select id="claim-verdict"><option value="">all</option>'
            f'{options_of(verdicts)}</select></label>'
            f'<label>paper <select id="claim-paper"><option value="">all</option>'
            f'{options_of(papers, page_text.paper_name)}</select></label>'
            '<span id="claim-count" role="status"></span></div>')


def claims_part(claims, sections):
    """All claims, the papers closed if there are many."""
    if not claims:
        return ""
    columns = columns_of(claims)
    papers = rowlib.ordered(c.get("paper", "") for c in claims)
    parts = []
    for paper in papers:
        of_paper = [c for c in claims if c.get("paper", "") == paper]
        name = page_text.paper_name(paper) if paper else "other claims"
        table = claims_table(of_paper, columns, f"Claims of {name} against these rows" if paper else
                             "Claims against these rows", [claim_row(c, columns, sections) for c in of_paper])
        opened = " open" if len(claims) <= OPEN_UP_TO else ""
        parts.append(f'<details class="claims-of"{opened}><summary>{text(name)}: {text(counts_text(of_paper))}'
                     f"</summary>{table}</details>")
    return ('<section id="claims" class="block claims"><h2>Claims</h2>'
            f'<p class="quiet">{text(counts_text(claims))}. Brackets: 95 % intervals; pp: percentage points; published '
            f"values are the papers'.</p>{claims_filter(claims)}{''.join(parts)}</section>")
