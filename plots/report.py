#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""One self-contained HTML page of a run's folder: what ran on what, tables, figures, claims, player.

Reads every file of rows (*.jsonl) below DIR, run.json beside them and claims.json where they lie.
Needs the standard library; figures need matplotlib, and the page says so where it is missing.
"""

import argparse
import glob
import html
import json
import math
import os
import re
import sys

import markdown
import rows as rowlib
from rows import BadInput, NotDrawn, metric

HERE = os.path.dirname(os.path.abspath(__file__))
CROWD = 6  # from more results than this the page has an index and closed sections
# Modules with draw(rows, options), in the order of the page.
FAMILIES = ["throughput", "throughput_batch", "sweep", "pareto", "redundancy", "serving", "latency",
            "crossover", "decode_order", "step_breakdown", "roofline", "probes"]


def text(value):
    return html.escape(str(value), quote=True)


def number(value, digits=3):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    value = float(value)
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.{digits}g}" if abs(value) < 100 else f"{value:.1f}"


# ---- what lies in the folder ---------------------------------------------------------------------


class Section:
    """The rows of one file: a title, where it lies, and how it was run."""

    def __init__(self, path, root, experiments):
        self.path = path
        self.name = os.path.relpath(path, root)
        self.rows = rowlib.read_rows([path])
        self.titles = rowlib.ordered(r["title"] for r in self.rows)
        self.plan = (read_json(os.path.join(os.path.dirname(path), "run.json"))
                     or plan_of_place(path, experiments))
        self.artifact = "_".join(str(self.plan[k]) for k in ("paper", "artifact")
                                 if self.plan.get(k))
        self.families = fitting_families(self.plan)
        self.title = ", ".join(self.titles)
        self.command, self.known = command_of(self, experiments)
        page = os.path.join(root, "tables", self.artifact + ".md")
        self.table = read_text(page) if self.artifact and os.path.exists(page) else ""

    def heading(self):
        """Paper and artifact where there are any, with the scale: titles are not unique."""
        name = " ".join(str(self.plan[k]).replace("_", " ") for k in ("paper", "artifact")
                        if self.plan.get(k))
        scale = f" ({self.plan['scale']})" if self.plan.get("scale") else ""
        title = self.title
        try:  # what the artifact is called, where the experiment file says so
            given = rowlib.tomllib.loads(self.plan["experiment"]["text"])
            title = given["artifact"]["title"]
        except (KeyError, TypeError, rowlib.tomllib.TOMLDecodeError):
            pass
        return f"{name}: {title}{scale}" if name else title


def plan_of_place(path, experiments):
    """What a campaign's layout (PAPER/ARTIFACT/SCALE/rows.jsonl) says where no run.json lies."""
    paper, artifact, scale = ([""] * 3 + os.path.abspath(path).split(os.sep))[-4:-1]
    file = os.path.join(experiments, paper, artifact + ".toml")
    if not os.path.exists(file):
        return {}
    return {"paper": paper, "artifact": artifact, "scale": scale,
            "experiment": {"file": file, "text": read_text(file)}}


def fitting_families(plan):
    """Figure families that show what the artifact is about; None: all that the rows allow."""
    with open(os.path.join(HERE, "artifacts.toml"), "rb") as content:
        papers = rowlib.tomllib.load(content)
    return papers.get(plan.get("paper"), {}).get(plan.get("artifact"))


def read_text(path):
    with open(path, encoding="utf-8") as content:
        return content.read()


def read_json(path):
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as content:
            return json.load(content)
    except ValueError as problem:
        raise BadInput(f"{path}: {problem}") from None


def command_of(section, experiments):
    """(command line, True when it is the one that was used or of the file with the same title)."""
    plan = section.plan
    if isinstance(plan.get("experiment"), dict) and plan["experiment"].get("file"):
        words = ["unmask", "run", plan["experiment"]["file"]]
        words += ["--scale", plan["scale"]] if plan.get("scale") else []
        for change in plan.get("set") or []:
            words += ["--set", change]
        return " ".join(map(quoted, words)), True
    for path in sorted(glob.glob(os.path.join(experiments, "**", "*.toml"), recursive=True)):
        try:
            with open(path, "rb") as content:
                found = rowlib.tomllib.load(content)
        except (OSError, rowlib.tomllib.TOMLDecodeError):
            continue
        if found.get("title") in section.titles:
            return f"unmask run {quoted(os.path.relpath(path))}", True
    return "", False


def quoted(word):
    return word if re.fullmatch(r"[\w./=:,+-]+", word) else "'" + word.replace("'", "'\\''") + "'"


def natural(path):
    """Order of names in which figure_2 comes before figure_11."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)]


def holds_rows(path):
    """True when the first line of the file is a result row."""
    with open(path, encoding="utf-8") as content:
        try:
            return rowlib.is_row(json.loads(content.readline()))
        except ValueError:
            return False


def collect(root, experiments):
    if os.path.isfile(root):
        return [Section(root, os.path.dirname(root) or ".", experiments)], []
    if not os.path.isdir(root):
        raise BadInput(f"{root}: there is no such file or directory")
    sections, claims = [], []
    for path in sorted(glob.glob(os.path.join(root, "**", "*.jsonl"), recursive=True), key=natural):
        if not os.path.basename(path).startswith("samples_") and holds_rows(path):
            sections.append(Section(path, root, experiments))
    for path in sorted(glob.glob(os.path.join(root, "**", "claims*.json"), recursive=True)):
        found = read_json(path)
        if not isinstance(found, list) or not all(isinstance(c, dict) for c in found):
            raise BadInput(f"{path}: claims are a list of objects")
        for place, claim in enumerate(found, 1):
            for key in ("id", "statement", "verdict"):
                if key not in claim:
                    raise BadInput(f"{path}: claim number {place} has no `{key}`")
        claims += found
    sections = [s for s in sections if s.rows]
    if not sections:
        raise NotDrawn(f"{root} holds no result rows (*.jsonl); run an experiment with -O {root}")
    return sections, claims


# ---- tables --------------------------------------------------------------------------------------

VERDICT_CLASS = {"PASS": "good", "REPRODUCED": "good", "NOT_VERIFIED": "mid", "NOT_SUPPORTED": "mid",
                 "PARTLY": "mid", "AMBIGUOUS": "mid", "NOT RUN": "mid"}


def badge(verdict):
    mark = {"good": "✓ ", "mid": "○ "}.get(VERDICT_CLASS.get(verdict), "✗ ")
    return f'<span class="badge {VERDICT_CLASS.get(verdict, "bad")}">{mark}{text(verdict)}</span>'


def dagger(row, name):
    return "†" if rowlib.not_measured(row, name) else ""


def value_cell(row, name, digits=3, factor=1.0):
    value = metric(row, name) * factor
    return (number(value, digits) + (dagger(row, name) if not math.isnan(value) else ""), value)


def speed_cell(row):
    shown, value = value_cell(row, "tokens_per_second")
    half = row["samples"].get("half_width")
    return shown + (f" <small>± {100 * half:.1f} %</small>" if half is not None else ""), value


def score_cell(row):
    score = row.get("score")
    if not score or not score.get("n"):
        return "–", math.nan
    low, high = (100 * b for b in score["ci95"])
    return (f"{100 * score['mean']:.1f} % <small>[{low:.0f}, {high:.0f}] n {score['n']}</small>",
            score["mean"])


def verdict_cell(row):
    reason = f" <small>{text(row['reason'])}</small>" if row.get("reason") else ""
    return badge(row["verdict"]) + reason, row["verdict"]


def plain(value):
    return text(value), value


DECODE_COLUMNS = [
    ("model", 0, lambda r: plain(r["model"]["name"])),
    ("method", 0, lambda r: plain(rowlib.method_label(r))),
    ("task", 0, lambda r: plain(r["workload"]["family"].replace("_", " "))),
    ("batch", 1, lambda r: plain(r["batch_size"])),
    ("score", 1, score_cell),
    ("tok/s", 1, speed_cell),
    ("tokens / step", 1, lambda r: value_cell(r, "committed_per_step")),
    ("rows / token", 1, lambda r: value_cell(r, "redundancy")),
    ("forwards", 1, lambda r: value_cell(r, "nfe")),
    ("GFLOP", 1, lambda r: value_cell(r, "flops", factor=1e-9)),
    ("verdict", 0, verdict_cell)]


def tpot_cell(name):
    return lambda r: value_cell(r, f"tpot_{r['serve']['tpot']}_{name}_seconds", factor=1e3)


SERVE_COLUMNS = [
    ("model", 0, lambda r: plain(r["model"]["name"])),
    ("method", 0, lambda r: plain(rowlib.method_label(r, "rate", "policy"))),
    ("policy", 0, lambda r: plain(r["serve"]["policy"])),
    ("clock", 0, lambda r: plain(r["serve"]["clock"])),
    ("arrivals/s", 1, lambda r: value_cell(r, "request_rate")),
    ("finished", 1, lambda r: value_cell(r, "requests_finished")),
    ("TTFB P50, ms", 1, lambda r: value_cell(r, "ttfb_p50_seconds", factor=1e3)),
    ("TPOT P50, ms", 1, tpot_cell("p50")),
    ("TPOT P90, ms", 1, tpot_cell("p90")),
    ("goodput/s", 1, lambda r: value_cell(r, "goodput_requests_per_second")),
    ("capacity/s", 1, lambda r: value_cell(r, "slo_capacity_requests_per_second")),
    ("batch", 1, lambda r: value_cell(r, "batch_mean")),
    ("verdict", 0, verdict_cell)]


def table(columns, rows, caption):
    head = "".join(f'<th scope="col"{" class=n" if n else ""}><button type="button">{text(name)}'
                   "</button></th>" for name, n, _ in columns)
    body = []
    for row in rows:
        cells = []
        for _, n, cell in columns:
            shown, value = cell(row)
            missing = isinstance(value, float) and math.isnan(value)
            cells.append(f'<td{" class=n" if n else ""} data-v="{text("" if missing else value)}">'
                         f"{shown}</td>")
        body.append("<tr>" + "".join(cells) + "</tr>")
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
            f'<table class="sortable"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}'
            "</tbody></table></div>")


# ---- figures -------------------------------------------------------------------------------------


def inline_svg(svg, prefix, title, letters):
    """A figure's SVG as a part of the page: own ids, colours of the theme, a name for readers."""
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    # Letters are the same in every figure; the page defines each once, in letters_part().
    letters.update(re.findall(r'<path id="(DejaVu[^"]*)"([^>]*)/>', svg))
    svg = re.sub(r'<path id="DejaVu[^"]*"[^>]*/>', "", svg)
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
        return "", "", [f"figures need {problem.name}: pip install -r plots/requirements.txt"]
    common.style()
    believed = [r for r in section.rows if r["verdict"] in rowlib.BELIEVED]
    if not believed:
        return "", "", ["no row has the verdict PASS or NOT_VERIFIED"]
    parts, others, missing = [], [], []
    for family in FAMILIES:
        fits = section.families is None or family in section.families
        if not os.path.exists(os.path.join(HERE, family + ".py")) or (only_fitting and not fits):
            continue
        module = importlib.import_module(family)
        if not hasattr(module, "draw"):
            continue
        try:
            drawings = module.draw(believed, None)
        except NotDrawn as problem:
            missing.append(f"{family}: {problem}")
            continue
        except Exception as problem:  # the other figures and all tables are still worth a page
            missing.append(f"{family}: internal error: {problem!r}")
            print(f"unmask report: {family}: internal error: {problem!r}", file=sys.stderr)
            continue
        for place, drawing in enumerate(drawings):
            svg = common.svg_text(drawing.figure)
            name = f"{prefix}-{family}{place}"
            (parts if fits else others).append(
                f'<figure id="{name}"><div class="paper">'
                f"{inline_svg(svg, name, drawing.title, letters)}</div>"
                f"<figcaption>{text(drawing.title)}.</figcaption></figure>")
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
    verdicts = " ".join(f"{n} {v}" for v, n in counted([r["verdict"] for r in rows]).items())
    machines = rowlib.ordered(rowlib.machine(r) for r in rows)
    sources = rowlib.ordered(str(r.get("source_hash", "")) for r in rows)
    times = sorted(r["finished_at"] for r in rows if r.get("finished_at"))
    environment = rows[0]["environment"]
    return "".join([
        card("rows", len(rows), text(verdicts)),
        card("models", text(", ".join(models))),
        card("methods", len(methods), text(", ".join(methods))),
        card("machine", text(", ".join(machines)),
             text(f"{environment.get('cpus_usable', '?')} cores usable, {environment.get('os', '')}")),
        card("source", text(sources[0][:12]), text(", ".join(
            ([f"and {len(sources) - 1} more"] if len(sources) > 1 else [])
            + (["uncommitted changes"] if any(s.endswith("-dirty") for s in sources) else [])))),
        card("measured", text(times[0][:10]) if times else "–",
             text(f"{times[0][11:16]} to {times[-1][11:16]} UTC" if times else ""))])


def notes(rows):
    said = []
    wrong = [r for r in rows if r["verdict"] not in rowlib.BELIEVED]
    if wrong:
        said.append(f"{len(wrong)} of {len(rows)} rows are in the tables but in no figure: their "
                    "verdict is neither PASS nor NOT_VERIFIED.")
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


def interval_text(claim):
    interval = claim.get("interval")
    if not interval or any(v is None for v in interval):
        return ""
    return f' <small>[{number(interval[0])}, {number(interval[1])}]</small>'


def claims_part(claims):
    if not claims:
        return ""
    columns = ["claim", "verdict", "measured", "n", "published", "scale"]
    body = []
    for c in claims:
        published = c.get("published")
        if isinstance(published, dict):
            shown = f"{number(published.get('value'))} {text(published.get('unit', ''))}"
            source = published.get("source", "")
        else:
            shown = "–" if published is None else (
                number(published) if isinstance(published, (int, float)) else text(published))
            source = ""
        source = source or c.get("source", "")
        measured = c.get("measured")
        measured = (number(measured) if isinstance(measured, (int, float))
                    else "–" if measured is None else text(measured))
        scale = text(c.get("scale", "")) + (" <small>tiny models</small>"
                                            if c.get("tiny_models") else "")
        where = " · ".join(text(c[k]) for k in ("paper", "id") if c.get(k))
        body.append(
            f'<tr><td>{text(c["statement"])}<br><small>{where}'
            + (f" · {text(c['reason'])}" if c.get("reason") else "")
            + (f" · {text(c['note'])}" if c.get("note") else "") + "</small></td>"
            f'<td>{badge(c["verdict"])}</td>'
            f'<td class="n">{measured}{"†" if c.get("synthetic") else ""}{interval_text(c)}</td>'
            f'<td class="n">{"–" if c.get("n") is None else text(c["n"])}'
            + (f" <small>{text(c['n_unit'])}</small>" if c.get("n_unit") else "") + "</td>"
            f"<td>{shown}" + (f"<br><small>{text(source)}</small>" if source else "") + "</td>"
            f"<td>{scale}</td></tr>")
    head = "".join(f'<th scope="col"{" class=n" if c in ("measured", "n") else ""}>'
                   f'<button type="button">{c}</button></th>' for c in columns)
    summary = ", ".join(f"{n} {v}" for v, n in counted([c["verdict"] for c in claims]).items())
    return ('<section id="claims" class="block"><h2>Claims</h2>'
            f'<p class="quiet">{text(summary)}. Brackets: 95 % intervals; published values are the '
            'papers\'.</p><div class="scroll" tabindex="0" role="region" aria-label="claims">'
            f'<table class="sortable"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody>'
            "</table></div></section>")


def section_part(section, place, letters, closed, save):
    decode = [r for r in section.rows if not r.get("serve")]
    served = [r for r in section.rows if r.get("serve")]
    drawn, others, missing = figures(section, f"s{place}", letters, save, closed)
    if others:
        drawn += f"<details><summary>More figures of these rows</summary>{others}</details>"
    tables = "".join(table(columns, rows, section.title) for columns, rows in
                     ((DECODE_COLUMNS, decode), (SERVE_COLUMNS, served)) if rows)
    undrawn = ""
    if missing:
        undrawn = ("<details><summary>Figures that these rows cannot show</summary><ul>"
                   + "".join(f"<li>{text(m)}</li>" for m in missing) + "</ul></details>")
    paper = (f"<h3>As in the paper</h3>{markdown.to_html(section.table)}"
             if section.table else "")
    rows = (f'<p class="quiet">{many(len(section.rows), "row")} of <code>{text(section.name)}</code>'
            f"</p>")
    if closed:  # one of many: a click away
        return (f'<section id="part-{place}" class="block"><details class="part"><summary><h2>'
                f"{text(section.heading())}</h2></summary>{rows}{paper}{drawn}{undrawn}"
                f"<h3>Rows</h3>{tables}</details></section>")
    return (f'<section id="part-{place}" class="block"><h2>{text(section.heading())}</h2>{rows}'
            f"{paper}{drawn}{undrawn}<h3>Rows</h3>{tables}</section>")


def letters_part(letters):
    """The shapes of the letters in all figures."""
    shapes = "".join(f'<path id="{name}"{rest}/>' for name, rest in sorted(letters.items()))
    return (f'<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>{shapes}'
            "</defs></svg>" if shapes else "")


def index_part(sections, root):
    """What there is, for a folder of many results, and what the campaign says of the rest."""
    campaign = os.path.join(root, "campaign.md")
    said = markdown.to_html(read_text(campaign)) if os.path.exists(campaign) else ""
    links = "".join(f'<li><a href="#part-{i}">{text(s.heading())}</a></li>'
                    for i, s in enumerate(sections))
    more = f"<details><summary>Everything that was asked for</summary>{said}</details>" if said else ""
    return (f'<section id="results" class="block"><h2>Results</h2><ul class="index">{links}</ul>'
            f"{more}</section>")


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
<div><dt>rows computed</dt><dd data-count="rows"><span></span><small></small></dd></div>
<div><dt>tokens decided</dt><dd data-count="decided"><span></span><small></small></dd></div>
<div><dt>rows dropped</dt><dd data-count="dropped"><span></span><small></small></dd></div>
<div title="rows computed outside prefill per token decided"><dt>rows / token</dt><dd data-count="redundancy"><span></span><small></small></dd></div>
</dl>
<svg class="chart" preserveAspectRatio="none" role="img" aria-label="rows computed (up) and tokens decided (down) by forward; click to go there"></svg>
<svg class="strip" preserveAspectRatio="none" role="img" aria-label="the whole sequence, prompt before the mark: rows computed above, keys seen below"></svg>
<p class="keys quiet"></p>
<div class="canvas" role="img" aria-label="the answer's positions"></div>
<details><summary>Prompt, <span class="prompt-length"></span> tokens</summary><div class="prompt"></div></details>
</article>"""


def player_part(data):
    if not data["groups"]:
        return ""
    sides = SIDE.format(id="a", name="A") + SIDE.format(id="b", name="B")
    tones = "".join(f'<i style="background:var(--c{i})"></i>' for i in range(5))
    return f"""<section id="player" class="block" aria-label="Decode player">
<h2>Decode player</h2>
<p class="quiet">The same request by two methods, forward by forward: what was computed, dropped and decided.
Space plays, ← and → step.</p>
<div class="choose"><label>request <select id="request"></select></label>
<label>left <select id="method-a"></select></label><label>right <select id="method-b"></select></label></div>
<div class="transport" role="group" aria-label="playback">
<button id="first" type="button" aria-label="to the start">|◀</button>
<button id="back" type="button" aria-label="one back">◀</button>
<button id="play" type="button" aria-pressed="false">▶ Play</button>
<button id="next" type="button" aria-label="one on">▶</button>
<button id="last" type="button" aria-label="to the end">▶|</button>
<input id="clock" type="range" min="0" value="0" aria-label="forward">
<span id="where" class="where" role="status"></span>
<label>advance by <select id="by"><option value="forward">forward</option><option value="rows">rows computed</option></select></label>
<label>pace <select id="speed"><option value="900">slow</option><option value="420" selected>normal</option><option value="150">fast</option></select></label>
</div>
<div class="sides">{sides}</div>
<ul class="legend" aria-label="legend">
<li><span class="cell" data-state="masked">·</span>masked</li>
<li><span class="cell" data-state="masked" data-computed data-guess>word</span>computed, best guess so far</li>
<li><span class="cell" data-state="now" style="--tone:var(--c4)">word</span>decided by this forward</li>
<li><span class="cell" data-state="decided" style="--tone:var(--c3)">word</span>decided before</li>
<li><span class="cell" data-state="masked" data-computed data-dropped>·</span>computed, then dropped</li>
<li><span class="cell" data-state="decided" data-cached>word</span>K/V settled in the cache</li>
<li><span class="cell" data-state="masked" data-hidden>·</span>not among the keys</li>
<li><span class="cell">■</span>end of sequence</li>
<li>band: the whole sequence, prompt before the mark; rows computed above, keys seen below</li>
<li class="tones">confidence when decided: {tones} below .25 · .5 · .8 · .95 · above</li>
</ul></section>"""


def environment_part(rows):
    def line(name, values):
        return f'<tr><th scope="row">{text(name)}</th><td>{values}</td></tr>'

    lines = []
    for model in {r["model"]["hash"]: r["model"] for r in rows}.values():
        lines.append(line(f"model {model['name']}",
                          f'{model.get("parameters", 0) / 1e6:.2f} M parameters, '
                          f'{text(model["weights"])}, packed as {text(model.get("format", "?"))}, '
                          f'K/V in {text(model.get("kv_type", "f32"))}<br>'
                          f'<span class="hash">{text(model["hash"])}</span>'))
    for work in {r["workload"]["hash"]: r["workload"] for r in rows}.values():
        lines.append(line(f"workload {work['family']}", f'{work["items"]} items<br>'
                          f'<span class="hash">{text(work["hash"])}</span>'))
    for source in rowlib.ordered(str(r.get("source_hash", "")) for r in rows):
        lines.append(line("source", f'<span class="hash">{text(source)}</span>'))
    stable = lambda e: json.dumps({k: v for k, v in e.items() if k not in (  # noqa: E731
        "load_average", "memory_available_bytes")}, sort_keys=True)
    seen = {}
    for r in rows:
        seen.setdefault(stable(r["environment"]), r["environment"])
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
    return ('<section id="environment" class="block"><h2>What ran on what</h2><div class="scroll" '
            f'tabindex="0" role="region" aria-label="environment"><table><tbody>{"".join(lines)}'
            "</tbody></table></div></section>")


def command_box(line):
    return (f'<div class="command"><pre>{text(line)}</pre><button type="button">copy</button></div>')


def reproduce_part(sections, root):
    parts = []
    for s in sections:
        seeds = rowlib.ordered(r["seed"] for r in s.rows)
        sources = rowlib.ordered(str(r.get("source_hash", "")).removesuffix("-dirty")
                                 for r in s.rows if r.get("source_hash"))
        parts.append(f"<h3>{text(s.heading())}</h3>")
        if s.known:
            parts += [command_box(f"git checkout {source[:12]}") for source in sources[:1]]
            parts.append(command_box(s.command))
        else:
            parts.append('<p class="quiet">The experiment file is not among those here; every '
                         "setting is in the rows (<code>params</code>, <code>serve</code>).</p>")
        parts.append(command_box(f"unmask table {quoted(os.path.join(root, s.name))}"
                                 if os.path.isdir(root) else f"unmask table {quoted(root)}"))
        parts.append(f'<p class="quiet">Seeds {text(", ".join(map(str, seeds)))}; points '
                     f'<span class="hash">{text(", ".join(r["point_id"] for r in s.rows[:6]))}'
                     f'{" …" if len(s.rows) > 6 else ""}</span></p>')
    parts.append("<h3>Figures and this page</h3>")
    parts.append(command_box("python -m pip install -r plots/requirements.txt"))
    parts.append(command_box(f"unmask report {quoted(root)}"))
    return f'<section id="reproduce" class="block"><h2>Reproduce</h2>{"".join(parts)}</section>'


def embedded_json(data):
    """JSON that may stand inside a script element."""
    out = json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return out.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def page(root, title=None, experiments="experiments", save=False):
    sections, claims = collect(root, experiments)
    rows = [r for s in sections for r in s.rows]
    title = title or (sections[0].heading() if len(sections) == 1
                      else os.path.basename(os.path.normpath(root)))
    data = player_data(rows)
    crowd = len(sections) > CROWD
    links = [("overview", "Overview")]
    links += [("player", "Decode player")] if data["groups"] else []
    links += [("claims", "Claims")] if claims else []
    links += ([("results", "Results")] if crowd
              else [(f"part-{i}", s.heading()) for i, s in enumerate(sections)])
    links += [("environment", "What ran on what"), ("reproduce", "Reproduce")]
    lead = (f"{many(len(rows), 'result row')} of {many(len(sections), 'experiment')}: "
            + "; ".join(rowlib.ordered(s.heading() for s in sections[:CROWD]))
            + ("; …" if crowd else "."))
    letters = {}
    results = (index_part(sections, root) if crowd else "") + "".join(
        section_part(s, i, letters, crowd, save) for i, s in enumerate(sections))
    return fill(
        asset("page.html"), title=text(title), style=asset("style.css"),
        nav="".join(f'<a href="#{i}">{text(n)}</a>' for i, n in links), lead=text(lead),
        cards=cards(rows), notes=notes(rows), player=player_part(data), claims=claims_part(claims),
        sections=letters_part(letters) + results,
        environment=environment_part(rows), reproduce=reproduce_part(sections, root),
        data=(f'<script type="application/json" id="traces">{embedded_json(data)}</script>'
              if data["groups"] else ""),
        script=asset("page.js") + asset("player.js"))


def main():
    parser = argparse.ArgumentParser(prog="unmask report", description=__doc__.splitlines()[0])
    parser.add_argument("dir", help="folder of a run or a campaign, or one file of rows")
    parser.add_argument("-o", "--output", help="default: DIR/report.html")
    parser.add_argument("--title", help="default: the experiment's, or the folder's name")
    parser.add_argument("--experiments-dir", default="experiments",
                        help="where experiment files lie, to name the one of each result")
    parser.add_argument("--figures", action="store_true",
                        help="also save each result's figures as SVG, PNG and PDF beside its rows")
    options = parser.parse_args()
    output = options.output or os.path.join(
        options.dir if os.path.isdir(options.dir) else os.path.dirname(options.dir), "report.html")
    try:
        made = page(options.dir, options.title, options.experiments_dir, options.figures)
        with open(output, "w", encoding="utf-8", newline="\n") as out:
            out.write(made)
    except BadInput as problem:
        print(f"unmask report: {problem}", file=sys.stderr)
        return 2
    except NotDrawn as problem:
        print(f"unmask report: {problem}", file=sys.stderr)
        return 3
    except OSError as problem:
        print(f"unmask report: {output}: {problem.strerror}", file=sys.stderr)
        return 3
    print(f"{output}: {len(made) / 2**20:.1f} MiB, self-contained")
    return 0


if __name__ == "__main__":
    sys.exit(main())
