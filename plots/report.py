#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""One self-contained HTML page of a run's folder: what ran on what, tables, figures, claims, player.

Draws what `unmask report DIR --data` computed, a file of JSON; `unmask report DIR` does both. Needs the
standard library; figures need matplotlib, and the page says so where it is missing.
"""

import argparse
import json
import os
import re
import sys
import tomllib
import types
import typing

import page_text
import rows as rowlib
from claims_part import badge, claims_part, headlines_part, ratio_text, text  # noqa: F401
from ending import guarded, letters_missed
from rows import BadInput, NotDrawn
from unmask.rows.comparable import machine_of
from unmask.rows.errors import UserError
from unmask.rows.files import opened_text, replace_file
from unmask.rows.glossary import shown_row
from unmask.rows.text import shown_all

HERE = os.path.dirname(os.path.abspath(__file__))
CROWD = 6  # from more results than this the page has an index and closed sections
LARGE = 256 << 10  # letters of decodes from which on they are packed
# Modules with draw(rows, options), in the order of the page.
FAMILIES = ["throughput", "throughput_batch", "sweep", "pareto", "parallelism", "redundancy", "serving", "latency",
            "crossover", "needle", "decode_order", "step_breakdown", "roofline", "probes"]


# ---- what the program says -----------------------------------------------------------------------


class Section:
    """The rows of one file: a title, where it lies, and how it was run."""

    def __init__(self, data, heading):
        self.path, self.name, self.heading = data["path"], data["name"], heading
        self.paper, self.artifact, self.scale = page_text.identity(data)
        self.title, self.command = data["title"], data["command"]
        self.rows = rowlib.Rows(data["figures"])
        self.table, self.tables = data["table"], data["tables"]
        self.families = fitting_families(data["paper"], data["artifact"], self.scale)


class Family(typing.NamedTuple):
    """A family of figures and the options that make it a figure of a paper."""
    name: str
    options: types.SimpleNamespace | None = None


def fitting_families(paper, artifact, scale):
    """Figure families that show what the artifact is about; None: all that the rows allow. Of the scale scores
    none: a few settings, measured for the score alone."""
    if scale == "scores":
        return []
    with open(os.path.join(HERE, "artifacts.toml"), "rb") as content:
        papers = tomllib.load(content)
    named = papers.get(paper, {}).get(artifact)
    if named is None:
        return None
    entries = [{"family": entry} if isinstance(entry, str) else entry for entry in named]
    return [Family(entry["family"], types.SimpleNamespace(**{
        k: os.path.join(rowlib.ROOT, "experiments", "published", f"{v}.toml") if k == "published" else v
        for k, v in entry.items() if k != "family"})) for entry in entries]


def families_to_draw(fitting, only_fitting):
    """[(Family, whether the artifact is about it)]: its own, then all that the rows allow."""
    own = [(family, True) for family in fitting or ()]
    if only_fitting:
        return own if fitting is not None else [(Family(name), True) for name in FAMILIES]
    named = {family.name for family, _ in own}
    return own + [(Family(name), fitting is None) for name in FAMILIES if name not in named]


def quoted(word):
    return word if re.fullmatch(r"[\w./=:,+-]+", word) else "'" + word.replace("'", "'\\''") + "'"


# ---- tables --------------------------------------------------------------------------------------

def cell_html(cell, header, tones):
    shown = text(cell["text"])
    if header == "verdict":
        name, _, reason = cell["text"].partition(": ")
        if name in tones:
            shown = badge(name, tones[name]) + (f" <small>{text(reason)}</small>" if reason else "")
    if cell.get("bold"):
        shown = f"<b>{shown}</b>"
    if cell.get("range"):
        shown += f" <small>[{text(cell['range'])}]</small>"
    return shown + (" †" if cell.get("dagger") else "")


def table_cell(column, cell, tones):
    """A cell of the column. What orders it stands beside it if the text does not: numbers at six digits."""
    shown, value = cell_html(cell, column["header"], tones), cell.get("value")
    key = text(cell["text"] if value is None else f"{value:.6g}")
    order = "" if shown == key else f' data-v="{key}"'
    return f'<td{" class=n" if column["right"] else ""}{order}>{shown}</td>'


def table(data, caption, tones):
    """A table as the package hands it out (harness/python/unmask/tables/tables.py); columns sort by click."""
    head = "".join(f'<th scope="col"{" class=n" if c["right"] else ""}><button type="button">'
                   f'{text(c["header"])}</button></th>' for c in data["columns"])
    body = "".join("<tr>" + "".join(table_cell(c, cell, tones) for c, cell in zip(data["columns"], row)) + "</tr>"
                   for row in data["rows"])
    notes = "".join(f'<p class="quiet">{text(n)}</p>' for n in data["notes"])
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
            f'<table class="sortable"><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}"
            f"</tbody></table></div>{notes}")


# ---- figures -------------------------------------------------------------------------------------


def smaller_svg(svg):
    """The same drawing in fewer letters: paths and places to a hundredth of a point, no name that nothing refers to."""
    def shorter(found):
        return re.sub(r"-?\d+\.\d{3,}", lambda n: f"{float(n.group()):.2f}", found.group())
    svg = re.sub(r' (?:d|x|y)="[^"]*"', shorter, svg)
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    return re.sub(r'<g id="([^"]*)"', lambda g: g.group() if g.group(1) in referred else "<g", svg)


def inline_svg(svg, prefix, title, letters):
    """A figure's SVG as a part of the page: own ids, colours of the theme, a name for readers."""
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    # Letters are the same in every figure; the page defines each once, in letters_part().
    letters.update(re.findall(r'<path id="(DejaVu[^"]*)"([^>]*)/>', svg))
    svg = re.sub(r'<path id="DejaVu[^"]*"[^>]*/>', "", svg)
    svg = smaller_svg(svg)
    svg = re.sub(r'\bid="(?!DejaVu)', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#(?!DejaVu)', f'href="#{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    for colour, name in (("#1b1f24", "currentColor"), ("#000000", "currentColor"),
                         ("#ffffff", "var(--card)"), ("#dce0e5", "var(--line)"),
                         ("#6a737d", "var(--quiet)")):
        svg = re.sub(rf"(fill|stroke): {colour}", rf"\1: {name}", svg)
    width = re.search(r'width="([\d.]+)pt"', svg)
    points = float(width.group(1)) if width else 500.0
    opening = svg[:svg.index(">") + 1]
    opened = re.sub(r' (width|height)="[^"]*"', "", opening)
    # Figures are made for paper; on a screen they are a third larger.
    opened = opened.replace("<svg", f'<svg role="img" aria-label="{text(title)}" '
                                    f'style="width:{points * 1.75:.0f}px;max-width:100%"', 1)
    return opened + svg[len(opening):]


def figures(section, prefix, letters, save, only_fitting):
    """(HTML, HTML of those that the artifact is not about, sentences about what was not drawn)."""
    try:
        import importlib
        import common
    except ImportError as problem:
        return "", "", [f"figures need {problem.name}: ./dev setup --python"]
    common.style()
    try:
        reportable = section.rows.reportable()
    except NotDrawn as problem:
        return "", "", [str(problem)]
    parts, others, missing, drawn = [], [], [], {}
    for (family, options), fits in families_to_draw(section.families, only_fitting):
        if not os.path.exists(os.path.join(HERE, family + ".py")):
            continue
        module = importlib.import_module(family)
        if not hasattr(module, "draw"):
            continue
        try:
            drawings = common.drawn(module.draw, reportable, options)
        except NotDrawn as problem:
            missing.append(f"{family}: {problem}")
            continue
        except Exception as problem:  # the other figures and all tables are still worth a page
            missing.append(f"{family}: internal error: {problem!r}")
            print(f"unmask report: {family}: internal error: {problem!r}", file=sys.stderr)
            continue
        for drawing in drawings:
            svg = common.svg_text(drawing.figure)
            drawn[family] = drawn.get(family, -1) + 1
            name = f"{prefix}-{family}{drawn[family]}"
            label = f"{drawing.title}. " + page_text.in_words(family, reportable, rowlib.method_label)
            (parts if fits else others).append(
                f'<figure id="{name}"><div class="paper" tabindex="0" role="region" '
                f'aria-label="{text(drawing.title)}">'
                f"{inline_svg(svg, name, label, letters)}</div>"
                f"<figcaption>{text(drawing.title)}. "
                '<button type="button" class="zoom" aria-pressed="false">enlarge</button>'
                "</figcaption></figure>")
            if save and fits:
                file = family + (f"-{drawing.name}" if drawing.name else "")
                common.save(drawing.figure,
                            os.path.join(os.path.dirname(section.path), "figures", file))
        common.plt.close("all")
    return "".join(parts), "".join(others), missing


# ---- parts of the page ---------------------------------------------------------------------------


def fill(template, **parts):
    """One pass, so that nothing inside a part is taken for a place."""
    return re.sub(r"@@([A-Z]+)@@", lambda place: parts[place.group(1).lower()], template)


def asset(name):
    with open(os.path.join(HERE, "report_page", name), encoding="utf-8") as content:
        return content.read()


def card(name, value, more=""):
    small = f"<small>{more}</small>" if more else ""
    return f"<div><dt>{text(name)}</dt><dd>{value}{small}</dd></div>"


def counted(values):
    return {v: values.count(v) for v in rowlib.ordered(values)}


def many(n, word):
    return f"{n} {word}" + ("" if n == 1 else "s")


def cards(rows):
    models = rowlib.ordered(r["model"]["name"] for r in rows)
    methods = rowlib.ordered(r["method"] for r in rows)
    verdicts = ", ".join(f"{n} {v}" for v, n in counted([shown_row(r) for r in rows]).items())
    machines = rowlib.ordered(rowlib.machine(r) for r in rows)
    sources = rowlib.ordered(str(r.get("source_hash", "")) for r in rows)
    times = sorted(r["finished_at"] for r in rows if r.get("finished_at"))
    environment = rows[0]["environment"]
    return "".join([
        card("rows", len(rows), text(verdicts)),
        card("models", len(models), text(" · ".join(models))),
        card("methods", len(methods), text(" · ".join(methods))),
        card("machines" if len(machines) > 1 else "machine", text(" · ".join(machines)),
             text(f"{environment.get('cpus_usable', '?')} cores usable, {environment.get('os', '')}")),
        card("source", text(sources[0][:12]), text(", ".join(
            ([f"and {len(sources) - 1} more"] if len(sources) > 1 else [])
            + (["uncommitted changes"] if any(s.endswith("-dirty") for s in sources) else [])))),
        card("measured", text(times[0][:10]) if times else "–",
             text(f"{times[0][11:16]} to {times[-1][11:16]} UTC" if times else ""))])


def notes(rows):
    said = []
    wrong = [r for r in rows if not r["reportable"]]
    if wrong:
        said.append(f"{len(wrong)} of {len(rows)} rows are in the tables but in no figure: their "
                    "verdict is INVALID, FAILED or CANNOT DECODE.")
    if any(r["model"]["weights"] == "synthetic" for r in rows):
        said.append("Rows marked synthetic have weights or decisions without meaning: they show "
                    "speed and work, never quality.")
    if any(str(r.get("source_hash", "")).endswith("-dirty") for r in rows):
        said.append("Some rows were measured by a program with uncommitted changes.")
    tiny = rowlib.ordered(r["model"]["name"] for r in rows
                          if r["model"]["weights"] == "checkpoint"
                          and r["model"].get("parameters", 0) < 2e7)
    if tiny:
        said.append(f"{', '.join(tiny)}: embedded models of a few million parameters. What holds "
                    "on them need not hold on the papers' models.")
    return "".join(f'<p class="note">{text(s)}</p>' for s in said)


def closed_part(name, heading, body, packed=""):
    """A part that opens by a click, a link into it or a search in the page. What is packed is
    unpacked then."""
    later = (f'<div class="later"></div><script type="text/plain" class="packed">'
             f"{page_text.packed(packed)}</script>" if packed else "")
    return (f'<section id="{name}" class="block part"><h2><button type="button" class="opens" '
            f'aria-expanded="false" aria-controls="{name}-body">{text(heading)}</button></h2>'
            f'<div id="{name}-body" class="body" hidden="until-found">{body}{later}</div></section>')


def section_part(section, place, letters, closed, save, tones):
    every = len(section.rows)
    drawn, others, missing = figures(section, f"s{place}", letters, save, closed)
    if others:
        drawn += f"<details><summary>More figures of these rows</summary>{others}</details>"
    tables = "".join(table(t, f"Rows: {section.heading}", tones) for t in section.tables)
    undrawn = ""
    if missing:
        undrawn = ("<details><summary>Figures that these rows cannot show</summary><ul>"
                   + "".join(f"<li>{text(m)}</li>" for m in missing) + "</ul></details>")
    paper = ("<h3>As in the paper</h3>"
             + table(section.table, f"As in the paper: {section.heading}", tones)
             if section.table else "")
    rows = f'<p class="quiet">{many(every, "row")} of <code>{text(section.name)}</code></p>'
    name = f"part-{place}"
    if closed:  # one of many: a click away
        return closed_part(name, section.heading, rows + paper,
                           f"{drawn}{undrawn}<h3>Rows</h3>{tables}")
    return (f'<section id="{name}" class="block"><h2>{text(section.heading)}</h2>{rows}'
            f"{paper}{drawn}{undrawn}<h3>Rows</h3>{tables}</section>")


def letters_part(letters):
    """The shapes of the letters in all figures."""
    shapes = "".join(f'<path id="{name}"{rest}/>' for name, rest in sorted(letters.items()))
    return (f'<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>{shapes}'
            "</defs></svg>" if shapes else "")


def index_part(sections, campaign, tones):
    """What there is, for a folder of many results, and what the campaign says of the rest."""
    said = table(campaign, "Everything that was asked for", tones) if campaign else ""
    links = "".join(f'<li><a href="#part-{i}">{text(s.heading)}</a></li>'
                    for i, s in enumerate(sections))
    more = closed_part("asked", "Everything that was asked for", said) if said else ""
    return ('<section id="results" class="block"><h2>Results</h2>'
            '<div class="filter" id="result-filter" role="search" hidden><label>search '
            '<input type="search" id="result-search"></label>'
            '<span id="result-count" role="status"></span></div>'
            f'<ul class="index">{links}</ul></section>{more}')


def player_data(rows):
    """Traced decodes by request; every method that decoded it is one of `decodes`."""
    groups = {}
    for row in rows:
        trace = row.get("probes", {}).get("decode_trace")
        if not trace:
            continue
        for place, decode in enumerate(trace["decodes"]):
            name = (f"{row['model']['name']} · {row['workload']['family'].replace('_', ' ')} · "
                    f"request {place + 1}")
            group = groups.setdefault((row["model"]["hash"], row["workload"]["hash"], place),
                                      {"name": name, "text": {}, "stops": trace["stops"],
                                       "decodes": []})
            group["text"].update(trace["text"])
            group["decodes"].append({"label": rowlib.method_label(row), **decode})
    return {"groups": list(groups.values())}


SIDE = """<article class="side" id="side-{id}" aria-label="decode {name}">
<h3><span class="name"></span><span class="state quiet"></span></h3>
<dl class="counts">
<div><dt>computed positions</dt><dd data-count="rows"><span></span><small></small></dd></div>
<div><dt>unmasked tokens</dt><dd data-count="decided"><span></span><small></small></dd></div>
<div><dt>evicted positions</dt><dd data-count="dropped"><span></span><small></small></dd></div>
<div title="computed positions outside prefill per unmasked token"><dt>computed/<wbr>unmasked</dt><dd data-count="redundancy"><span></span><small></small></dd></div>
</dl>
<svg class="chart" preserveAspectRatio="none" role="img" aria-label="computed positions (up) and unmasked tokens (down) by forward pass; click to go there"></svg>
<svg class="strip" preserveAspectRatio="none" role="img" aria-label="the whole sequence, prompt before the mark: computed positions above, keys seen below"></svg>
<p class="keys quiet"></p>
<div class="canvas" role="img" aria-label="the positions of the response"></div>
<details><summary>Prompt, <span class="prompt-length"></span> tokens</summary><div class="prompt"></div></details>
</article>"""


def player_part(data):
    if not data["groups"]:
        return ""
    sides = SIDE.format(id="a", name="A") + SIDE.format(id="b", name="B")
    tones = "".join(f'<i style="background:var(--c{i})"></i>' for i in range(5))
    return f"""<section id="player" class="block" aria-label="Decode player">
<h2>Decode player</h2>
<p class="quiet">The same request by two methods, forward pass by forward pass: what was computed, evicted and unmasked.
Space plays, ← and → step.</p>
<div class="choose"><label>request <select id="request"></select></label>
<label>left <select id="method-a"></select></label><label>right <select id="method-b"></select></label></div>
<div class="transport" role="group" aria-label="playback">
<button id="first" type="button" aria-label="to the start">|◀</button>
<button id="back" type="button" aria-label="one back">◀</button>
<button id="play" type="button" aria-pressed="false">▶ Play</button>
<button id="next" type="button" aria-label="one on">▶</button>
<button id="last" type="button" aria-label="to the end">▶|</button>
<input id="clock" type="range" min="0" value="0" aria-label="forward pass">
<span id="where" class="where" role="status"></span>
<label>advance by <select id="by"><option value="forward">forward pass</option><option value="rows">computed positions</option></select></label>
<label>pace <select id="speed"><option value="900">slow</option><option value="420" selected>normal</option><option value="150">fast</option></select></label>
</div>
<div class="sides">{sides}</div>
<ul class="legend" aria-label="legend">
<li><span class="cell" data-state="masked">·</span>masked</li>
<li><span class="cell" data-state="masked" data-computed data-guess>word</span>computed, best guess so far</li>
<li><span class="cell" data-state="now" style="--tone:var(--c4)">word</span>unmasked by this forward pass</li>
<li><span class="cell" data-state="decided" style="--tone:var(--c3)">word</span>unmasked before</li>
<li><span class="cell" data-state="masked" data-computed data-dropped>·</span>computed, then evicted</li>
<li><span class="cell" data-state="decided" data-cached>word</span>cached: its KV is stored</li>
<li><span class="cell" data-state="masked" data-hidden>·</span>not among the keys</li>
<li><span class="cell">■</span>end of sequence</li>
<li>band: the whole sequence, prompt before the mark; computed positions above, keys seen below</li>
<li class="tones">confidence when unmasked: {tones} below .25 · .5 · .8 · .95 · above</li>
</ul></section>"""


def environment_part(rows, closed):
    def line(name, values):
        return f'<tr><th scope="row">{text(name)}</th><td>{values}</td></tr>'

    lines = []
    for model in {r["model"]["hash"]: r["model"] for r in rows}.values():
        lines.append(line(f"model {model['name']}",
                          f'{model.get("parameters", 0) / 1e6:.2f} M parameters, '
                          f'{text(model["weights"])}, packed as {text(model.get("format", "?"))}, '
                          f'KV in {text(model.get("kv_type", "f32"))}<br>'
                          f'<span class="hash">{text(model["hash"])}</span>'))
    for work in {r["workload"]["hash"]: r["workload"] for r in rows}.values():
        lines.append(line(f"workload {work['family']}", f'{work["items"]} items<br>'
                          f'<span class="hash">{text(work["hash"])}</span>'))
    for source in rowlib.ordered(str(r.get("source_hash", "")) for r in rows):
        lines.append(line("source", f'<span class="hash">{text(source)}</span>'))
    seen = {}
    for r in rows:
        seen.setdefault(json.dumps(machine_of(r["environment"]), sort_keys=True), r["environment"])
    for place, environment in enumerate(seen.values(), 1):
        build = environment.get("build", {})
        lines.append(line(f"machine {place}" if len(seen) > 1 else "machine", text(
            f"{environment.get('cpu_model')}, {environment.get('cpus_usable')} cores usable, "
            f"{(environment.get('memory_bytes') or 0) / 2**30:.0f} GiB, {environment.get('os')}, "
            f"{environment.get('kernel')}; backend {environment.get('cpu_backend')}; "
            f"GPUs: {len(environment.get('gpus') or []) or 'none'}")))
        lines.append(line("build", text(
            f"Unmask {build.get('version')}, {build.get('build_type')}, {build.get('compiler')} "
            f"{build.get('flags')}; CUDA {build.get('cuda_toolkit')}")))
        lines.append(line("everything", f"<details><summary>JSON</summary><pre>"
                          f"{text(json.dumps(environment, indent=1, sort_keys=True))}</pre></details>"))
    found = ('<div class="scroll" tabindex="0" role="region" aria-label="environment"><table>'
             "<caption>Models, workloads, sources and machines of these rows</caption>"
             f'<tbody>{"".join(lines)}</tbody></table></div>')
    return part_of("environment", "Machines and models", found, closed)


def part_of(name, heading, body, closed):
    if closed:
        return closed_part(name, heading, body)
    return f'<section id="{name}" class="block"><h2>{text(heading)}</h2>{body}</section>'


def command_box(line):
    return (f'<div class="command"><pre>{text(line)}</pre><button type="button">copy</button></div>')


def rule_option(rows):
    """The option that the rows' command needs besides: the file of a rule in Python, which a run does not keep."""
    return " --rule RULE.py" if any(r["params"].get("code") for r in rows) else ""


def reproduce_part(sections, root, closed):
    parts = []
    for s in sections:
        seeds = rowlib.ordered(r["seed"] for r in s.rows)
        sources = rowlib.ordered(str(r.get("source_hash", "")).removesuffix("-dirty")
                                 for r in s.rows if r.get("source_hash"))
        parts.append(f"<h3>{text(s.heading)}</h3>")
        if s.command:
            parts += [command_box(f"git checkout {source[:12]}") for source in sources[:1]]
            parts.append(command_box(s.command + rule_option(s.rows)))
        else:
            parts.append('<p class="quiet">The experiment file is not among those here; every '
                         "setting is in the rows (<code>params</code>, <code>serve</code>).</p>")
        parts.append(command_box(f"unmask table {quoted(os.path.join(root, s.name))}"
                                 if os.path.isdir(root) else f"unmask table {quoted(root)}"))
        parts.append(f'<p class="quiet">Seeds {text(", ".join(map(str, seeds)))}; points '
                     f'<span class="hash">{text(", ".join(r["point_id"] for r in s.rows[:6]))}'
                     f'{" …" if len(s.rows) > 6 else ""}</span></p>')
    parts.append("<h3>Figures and this page</h3>")
    parts.append(command_box("./dev setup --python"))
    parts.append(command_box(f"unmask report {quoted(root)}"))
    return part_of("reproduce", "Reproduce", "".join(parts), closed)


def embedded_json(data):
    """JSON that may stand inside a script element."""
    out = json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return out.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def traces_script(player):
    """The decodes for the player; packed where they are many."""
    if not player["groups"]:
        return ""
    told = embedded_json(player)
    if len(told) > LARGE:
        return f'<script type="text/plain" id="traces">{page_text.packed(told)}</script>'
    return f'<script type="application/json" id="traces">{told}</script>'


def page_title(sections, root):
    if len(sections) == 1:
        return sections[0].heading
    name = os.path.basename(os.path.normpath(root))
    artifacts = {(s.paper, s.artifact) for s in sections if s.paper}
    if len(sections) <= CROWD or not artifacts:
        return name
    papers = len({paper for paper, _ in artifacts})
    return f"{name}: {many(len(artifacts), 'artifact')} of {many(papers, 'paper')}"


def page(data, title=None, save=False):
    data = shown_all(data)  # no text of a row or a claim commands what shows the page
    sections = [Section(s, h) for s, h in zip(data["sections"],
                                              page_text.headings(data["sections"]))]
    claims, tones, root = data["claims"], data["tones"], data["root"]
    rows = [r for s in sections for r in s.rows]
    title = title or page_title(sections, root)
    player = player_data(rows)
    crowd = len(sections) > CROWD
    links = [("overview", "Overview")]
    headlines = headlines_part(claims)
    links += [("headlines", "Headlines")] if headlines else []
    links += [("claims", "Claims")] if claims else []
    links += [("player", "Decode player")] if player["groups"] else []
    links += ([("results", "Results")] if crowd
              else [(f"part-{i}", s.heading) for i, s in enumerate(sections)])
    links += [("environment", "Machines and models"), ("reproduce", "Reproduce")]
    lead = (f"{many(len(rows), 'result row')} of {many(len(sections), 'experiment')}: "
            + "; ".join(rowlib.ordered(s.heading for s in sections[:CROWD]))
            + ("; …" if crowd else "."))
    letters = {}
    reproduce = reproduce_part(sections, root, crowd)
    results = (index_part(sections, data["campaign"], tones) if crowd else "") + "".join(
        section_part(s, i, letters, crowd, save, tones) for i, s in enumerate(sections))
    return fill(
        asset("page.html"), title=text(title), style=asset("style.css"),
        nav="".join(f'<a href="#{i}">{text(n)}</a>' for i, n in links), lead=text(lead),
        cards=cards(rows), notes=notes(rows), player=player_part(player), headlines=headlines,
        claims=claims_part(claims, sections),
        sections=letters_part(letters) + results,
        environment=environment_part(rows, crowd), reproduce=reproduce,
        data=traces_script(player),
        script=asset("page.js") + asset("player.js"))


def read_data(path):
    try:
        with opened_text(path) as content:
            data = json.load(content)
    except (OSError, ValueError, UserError) as problem:
        raise BadInput(f"{path}: {problem}") from None
    if not isinstance(data, dict) or "sections" not in data:
        raise BadInput(f"{path}: not what `unmask report DIR --data` prints")
    return data


def main():
    parser = argparse.ArgumentParser(prog="unmask report", description=__doc__.splitlines()[0])
    parser.add_argument("data", help="file that `unmask report DIR --data -o FILE` wrote")
    parser.add_argument("-o", "--output", required=True, help="the page")
    parser.add_argument("--title", help="default: the experiment's, or the folder's name")
    parser.add_argument("--figures", action="store_true",
                        help="also save each result's figures as SVG, PNG and PDF beside its rows")
    options = parser.parse_args()

    def work():
        with letters_missed():
            made = page(read_data(options.data), options.title, options.figures)
        replace_file(options.output, made)
        print(f"{options.output}: {len(made) / 2**20:.1f} MiB, self-contained")
        return 0

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
