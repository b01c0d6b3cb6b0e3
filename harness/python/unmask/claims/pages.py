# SPDX-License-Identifier: Apache-2.0
"""The pages of claims: claims.md, a line for each claim, and claims/PAPER.md, a section for each."""

from dataclasses import dataclass, replace
import os
import re
import shlex
import tarfile

from unmask.claims import repeats, words
from unmask.claims.relation import SCORED_WITH
from unmask.claims.weigh import VERDICTS
from unmask.rows import glossary
from unmask.rows.estimates import short_number
from unmask.rows.files import opened
from unmask.rows.names import paper_name
from unmask.tables import tables

# What a kind of claim is a number of.
NAMES = {"speed": "ratio of speeds", "capacity": "ratio of capacities", "count": "ratio of counts", "score": "difference of scores",
         "signal": "value"}
TINY = "on tiny models, not the paper's"
TINY_PAGE = "Measured on tiny models, not the paper's, unless the command at a section's end names another scale.\n"
ABOUT = """[What a verdict means](VERDICTS). [The terms and columns](GLOSSARY). RULES
A claim was declared before it was measured, unless its section says otherwise.
"""
RULES_CHANGED = "2026-11-30T10:10:00Z"  # since when a verdict follows from rows as it does now
FINISHED = re.compile(rb'"finished_at": ?"([^"]+)"')


@dataclass(frozen=True)
class Shown:
    """What all pages share: the folder, the register, the commits that most claims have rows of, and when the rules of
    judging were last changed."""
    folder: str
    register: object
    usual: tuple
    rules: str


def written(judged, controls, register, folder):
    """Writes the pages into a folder."""
    for name, text in pages(judged, controls, register, folder).items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)) or ".", exist_ok=True)
        tables.write(text, os.path.join(folder, name))


def pages(judged, controls, register, folder):
    """{name below the folder: Markdown}."""
    papers = list(dict.fromkeys(c.paper for c, _ in judged))
    of_all = Shown(folder, register, _usual(judged + controls), _rules(folder))
    found = {"claims.md": _overview(papers, judged, controls, of_all)}
    for paper in papers:
        of_paper = [(c, r) for c, r in judged if c.paper == paper]
        others = [(c, r) for c, r in controls if c.paper == paper]
        found[f"claims/{paper}.md"] = _page(paper, of_paper, others, of_all)
    return found


def _last_rows(folder):
    """{PAPER/ARTIFACT/SCALE: when its last row was measured} of the archives of a folder."""
    found, number = {}, 1
    while os.path.isfile(path := os.path.join(folder, repeats.archive_name(number))):
        with opened(path) as file, tarfile.open(fileobj=file, mode="r:xz") as archive:
            for member in archive:
                place, name = os.path.split(member.name)
                if name == "rows.jsonl":
                    when = [text.decode() for text in FINISHED.findall(archive.extractfile(member).read())]
                    found[place] = max([found.get(place, ""), *when])
        number += 1
    return found


def _rules(folder):
    """When the rules of judging were last changed, and which rows are later."""
    later = sorted(place for place, when in _last_rows(folder).items() if when > RULES_CHANGED)
    named = ", ".join(later) if len(later) <= 3 else f"{len(later)} tables and figures"
    return (f"The rules of judging were last changed on {RULES_CHANGED[:10]}, after all rows" +
            (f" except some of {named}" if later else "") + ".")


def _usual(found):
    """The commits that most claims have rows of."""
    every = [r.commits for _, r in found if r.commits]
    return max(sorted(set(every)), key=every.count) if every else ()


def _commits(found, usual):
    """What the rows were measured with: one program, or several, where tables and figures were measured anew."""
    others = [r for _, r in found if r.commits and r.commits != usual]
    if not usual:
        return ""
    text = f"Rows are of commit {' and '.join(usual)}"
    return text + (f", except those of {len(others)} claims and controls that name others.\n" if others else ".\n")


def _other_commits(found, usual):
    """A line for each other commit that claims in a table, which has no sections, have rows of."""
    named = {}
    for c, r in found:
        if r.commits and r.commits != usual:
            named.setdefault(" and ".join(r.commits), []).append(c.id)
    return "".join(f"\nRows of commit {commits}: {', '.join(ids)}.\n" for commits, ids in named.items())


def _renewed(folder):
    """Which tables and figures of an archive were measured anew, by commit."""
    places = repeats.renewed_in(folder)
    return "".join(f"\nRenewed with commit {commit[:8]}: {', '.join(p for p in sorted(places) if places[p] == commit)}.\n"
                   for commit in dict.fromkeys(places[p] for p in sorted(places)))


def _about(shown, name):
    """What leads to the meanings: pages next to an archive of the repository, elsewhere a command."""
    if not os.path.isfile(os.path.join(shown.folder, "..", "VERDICTS.md")):
        return "`unmask show glossary` explains every word.\n"
    up = "../" * (1 + name.count("/"))
    return ABOUT.replace("VERDICTS", f"{up}VERDICTS.md").replace("GLOSSARY", f"{up}../GLOSSARY.md").replace("RULES", shown.rules)


def _in_order(judged):
    """The claims that decide whether to use a method, then the rest; of both those of the abstracts first."""
    return sorted(judged, key=lambda found: (not found[0].decides, not found[0].place.startswith("Abstract")))


def _named(c):
    """The statement as a heading, with the interpretation of the paper that it is about."""
    return c.statement.rstrip(".") + (f" ({c.reading})" if c.reading else "")


def named_with_paper(c):
    """The same outside the page of its paper."""
    paper = paper_name(c.paper)
    return _named(c) if paper in c.statement else f"{paper}: {_named(c)}"


def _is_score(c):
    """Differences of scores are shown in percentage points."""
    return c.kind == "score"


def here_text(c, r):
    if r.estimate is None:
        return "–"
    if not _is_score(c):
        return r.measured_text
    value, comma, n = words.points_text(r.estimate).partition(", n = ")
    return f"{value} pp{comma}{n}"


def published_text(c):
    if c.published is None:
        return "–"
    value = f"{100 * c.published.value:+.3g} pp" if _is_score(c) else short_number(c.published.value)
    return value + (" (picture)" if c.published.approximate else "")


def _bound(bound, in_points):
    """The bound in words."""
    def number(v):
        return f"{100 * v:.3g} pp" if in_points else short_number(v)
    if bound.low is not None and bound.high is not None:
        text = f"{number(bound.low)} to {number(bound.high)}"
    elif bound.low is not None:
        text = ("above " if bound.open else "at least ") + number(bound.low)
    else:
        text = ("below " if bound.open else "at most ") + number(bound.high)
    return text


def _overview(papers, judged, controls, shown):
    text = (f"# Which claims hold?\n\nRegister {shown.register.hash}. Written by `unmask claims FOLDER --save`.\n" +
            _about(shown, "claims.md") + _commits(judged + controls, shown.usual) + _renewed(shown.folder))
    deciding = [(c, r) for c, r in judged if c.decides]
    if deciding:
        text += (f"\n## Should you use the method?\n\nThese {len(deciding)} claims decide it. {_counts(deciding, 'claims')}.\n\n"
                 + _lines(deciding, named_with_paper, simplest=True))
        text += f"\n---\n\nThe other {len(judged) - len(deciding)} claims, by paper. Those of the abstract come first.\n"
    for paper in papers:
        of_paper = _in_order([(c, r) for c, r in judged if c.paper == paper and not c.decides])
        if of_paper:
            text += f"\n## {paper_name(paper)}\n\n{_counts(of_paper, 'claims')}.\n\n{_lines(of_paper, _named)}"
    text += f"\n## How many?\n\n{words.counts_text(judged, VERDICTS)}of {len(judged)} claims\n"
    for kind, calibrates in (("controls", False), ("calibrations", True)):
        some = [(c, r) for c, r in controls if bool(c.calibrates) == calibrates]
        text += f"\n{words.counts_text(some, VERDICTS)}of {len(some)} {kind}\n" if some else ""
    agreement = repeats.agreement_text(judged)
    return text + (f"\nOf the claims {agreement}\n" if agreement else "")


def _lines(judged, name, simplest=False):
    """A line for each claim; simplest: with the column of the simplest method."""
    columns = "statement | verdict | measured | published | score_beside" + " | over_simplest" * simplest
    table = tables.Table(glossary.columns(columns))
    for c, r in judged:
        table.add(f"[{name(c)}](claims/{c.paper}.md#{c.id})", words.verdict_text(r), here_text(c, r), published_text(c),
                  words.quality_word(r.score) if r.score else "–", *[r.simplest_text or "–"] * simplest)
    return tables.render(table, "md")


def _counts(judged, kind):
    """How many have which verdict, without those that none has: "3 SUPPORTED, 1 NOT RUN, of 4 claims"."""
    found = [r.verdict for _, r in judged]
    return "".join(f"{found.count(v)} {words.shown(v)}, " for v in VERDICTS if v in found) + f"of {len(judged)} {kind}"


def _page(paper, judged, controls, shown):
    name = f"claims/{paper}.md"
    plain = [(c, r) for c, r in controls if not c.calibrates]
    text = (f"# {paper_name(paper)}: claims and verdicts\n\n{_counts(judged, 'claims')}. Register {shown.register.hash[:16]}. "
            f"[All papers](../claims.md).\n" + _about(shown, name) + TINY_PAGE +
            _commits(judged + controls, shown.usual) + _labels(judged))
    known = {c.id: (c, r) for c, r in controls}
    deciding = sum(c.decides for c, _ in judged)
    for at, (c, r) in enumerate(_in_order(judged)):
        if deciding and at == 0:
            text += f"\nThe first {deciding} claims decide whether to use the method.\n" if deciding > 1 else ""
        if at == deciding and deciding:
            text += "\n---\n\nThe other claims of the paper.\n"
        text += _section(c, r, known, shown.usual)
    for title, of_kind, says in (
            ("Controls", plain, "Controls are no claims of the paper. They show what else gives the same, or why a claim does not hold."),
            ("Calibration", [k for k in controls if k[0].calibrates],
             "Something was set by these numbers. They count nowhere.")):
        if of_kind:
            text += (f"\n## {title}\n\n{says} `unmask claims {shown.folder} --explain ID` shows one whole.\n\n"
                     f"{_counts(of_kind, title.lower())}.\n\n{tables.render(_short(of_kind), 'md')}" +
                     _other_commits(of_kind, shown.usual))
    return text


# What the labels of simpler methods say, by how they begin.
LABELS = {"BD": "BD with a number is plain block diffusion in blocks of so many tokens",
          "DC": "DC is the delayed cache without eviction"}


def _labels(judged):
    """A line on the labels that the sections of a page show."""
    shown = {r.simplest for _, r in judged if r.simplest}
    said = [text for start, text in LABELS.items() if any(label.startswith(start) for label in shown)]
    return ". ".join(said) + ".\n" if said else ""


def _short(judged):
    """A line for each control."""
    table = tables.Table(glossary.columns("id | statement | verdict | measured | bound | score_beside"))
    for c, r in judged:
        table.add(c.id, _named(c), words.verdict_text(r), here_text(c, r), _bound(c.bound, _is_score(c)), words.quality_text(r))
    return table


def _section(c, r, known, usual):
    text = f'\n<a id="{c.id}"></a>\n## {_named(c)}\n\n**{words.verdict_text(r)}.**'
    text += f" Campaigns: {words.campaigns_text(r)}.\n" if r.campaigns else "\n"
    if r.measured_text:
        text += "\n" + tables.render(_numbers(c, r), "md")
    reason = r.reason.removesuffix(r.of_controls) if r.of_controls.startswith("; control") else r.reason
    said = [part for part in reason.split("; ") if part and not _in_the_table(part, c, r)]
    text += "\n" + "".join(f"* {part[:1].upper()}{part[1:]}\n" for part in said) if said else ""
    others = [known[name] for name in dict.fromkeys(c.rivals + c.controls) if name in known]
    if others:
        table = tables.Table(glossary.columns("statement | verdict | measured"))
        for k, found in others:
            kind = "simpler method" if k.id in c.rivals else "control"
            table.add(f"{kind} [{k.id}](#controls): {_named(k)}", words.verdict_text(found), here_text(k, found))
        text += "\n" + tables.render(table, "md")
    facts = [("Quantity", c.quantity), ("Counted", c.clock), ("Settings", c.preset), ("Tasks", c.tasks), ("Source", c.place),
             ("Declared before measuring", words.field_text(r, "registered") if r.registered != "before its rows" else "–"),
             ("After correction", words.field_text(r, "after_correction")),
             ("Rows of commit", " and ".join(r.commits) if r.commits != usual and r.commits else "–"), ("Repeat", f"`{_again(c, r)}`")]
    shown = [f"*{title}*: {fact.rstrip('.')}." for title, fact in facts if fact != "–" and not fact.startswith("none: ")]
    return text + "\n" + "\n".join(shown) + "\n"


def _numbers(c, r):
    table = tables.Table(glossary.columns("quantity | >measured | >bound | >published"))
    table.add(NAMES.get(c.kind, c.kind), here_text(c, r), f"{_bound(c.bound, _is_score(c))} ({c.bound.by})", published_text(c))
    if r.finding is not None and r.finding.quality is not None:
        bound = _bound(c.quality, True) if c.quality else "–"
        table.add("change of quality, pp", words.quality_text(r), bound, "–")
    if r.simplest_text:
        table.add("over the simplest method", r.simplest_text, "–", "–")
    return table


def _in_the_table(part, c, r):
    """Whether the section's table, its last line or the head of the page says the same."""
    starts = [TINY, "unmask run "]
    starts += [f"{r.finding.shown} = "] if r.finding is not None else []
    starts += ["score of the same "] if r.finding is not None and r.finding.quality is not None else []
    starts += ["over the simplest method at its score"] if r.over_simplest is not None else []
    return any(part.startswith(s) for s in starts)


def _again(c, r):
    scale = "" if r.scale == "tiny" else f" --scale {r.scale}"
    return f"unmask run {shlex.quote(c.artifacts[0])}{scale}"


def findings(judged):
    """What the campaigns found, for a page that does not explain claims: a line for each paper, and how many claims have
    which verdict. Only claims that name what their method is compared with (`finding`) have a line."""
    text = ""
    for c, r in judged:
        if not c.finding or r.estimate is None:
            continue
        text += f"* **{paper_name(c.paper)}** is {words.times_text(r.estimate)} times as fast as {c.finding}"
        text += f" (paper: {c.published.value:.3g})." if c.published else "."
        quality = r.finding.quality
        if quality is not None:
            text += f" Change of quality: {words.points_text(replace(quality, n=0))} pp, {words.quality_word(r.score)}."
            text += "".join(f" {note[:1].upper()}{note[1:]}." for note in r.finding.notes if note.startswith(SCORED_WITH))
        if r.over_simplest is not None:
            text += (f" The simplest method of equal quality is {r.simplest}: {paper_name(c.paper)} is "
                     f"{words.times_text(r.over_simplest)} times as fast as that.")
        elif r.elsewhere is not None:
            text += f" At other sweep points it is {words.times_text(r.elsewhere)} times as fast as {c.elsewhere[1]}."
        text += "\n"
    return text + f"\nBrackets are 95 % intervals. Verdicts: {_counts(judged, 'claims')}.\n"
