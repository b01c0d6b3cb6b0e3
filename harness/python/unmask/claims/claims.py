# SPDX-License-Identifier: Apache-2.0
"""unmask claims: judge the papers' claims."""

from datetime import datetime, timezone
import os
import textwrap

from unmask.claims import pages, repeats, words
from unmask.claims.declare import RATIOS, read_register
from unmask.claims.judge import SCORES, needs_text, run_line
from unmask.claims.weigh import VERDICTS
from unmask.rows import experiments, glossary, options as command_options
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.estimates import estimate_text, short_number
from unmask.rows.files import does_not_exist, read_json, replace_file
from unmask.rows.names import find_known, keep_named
from unmask.rows.shapes import TEXT, fit
from unmask.rows.verdicts import tone
from unmask.tables import tables
from unmask.tables.ablation import estimate_json

SINCE = "register.json"
HEAD = [
    "A claim says what its bound tests. The paper's number is in the column `published`, in the units of `here`; the "
    "verdict does not speak of it. here / published: the ratio of both; differences of scores have none.",
    "change of quality: of a speed, the difference of the scores of the same settings, and whether they are kept, by the "
    "bound of -2 points if nothing else is said. Not determined: with the number of items that would tell four times in "
    "five if nothing is lost, by the observed spread.",
    "over the simplest method: how many times as fast the method is as the fastest simpler method whose score is at most "
    "two points lower, over the same baseline, quantity and tasks; corrected for their number.",
    "campaigns: of how many whole campaigns `here` is the mean, with an interval by Student's t over them that speaks of "
    "further ones. Deterministic: another seed changes nothing. Single: one campaign has the rows. The point of an \"up "
    "to\" is chosen in the first campaign and reported in the others.",
    f"The rules of judging were last changed on {pages.RULES_CHANGED[:10]}. Controls are no claims of the papers and are "
    "counted apart, as are numbers by which something was set (calibration). results/VERDICTS.md explains every verdict.",
]


def verdict_lines():
    """The verdicts with their meanings, and the limits of those that hold with limits."""
    return [f"{word}: {meaning}" for word, meaning in glossary.meanings("claim") + glossary.meanings("limit")]


def read_since(folder):
    """Since when each claim tests what it does: {key: {hash, since, words, worded, role, artifacts}}; {} where
    the folder has no record."""
    path = os.path.join(folder, SINCE)
    shape = {"*": {"hash": TEXT, "since": TEXT, "words?": TEXT, "worded?": TEXT}}
    return fit(read_json(path), shape, path) if os.path.lexists(path) else {}


def write_since(folder, register):
    """Dates what is new or tests something else, and words by themselves; keeps the dates of all else, and forgets
    what is gone."""
    before, now = read_since(folder), datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    after, changed, reworded = {}, 0, 0
    for c in register.claims + register.controls:
        entry = before.get(c.key, {})
        kept, as_worded = entry.get("hash") == c.hash, entry.get("words") == c.words
        stems = [os.path.splitext(os.path.basename(a))[0] for a in c.artifacts]
        after[c.key] = {"hash": c.hash, "since": entry["since"] if kept else now, "words": c.words,
                        "worded": entry.get("worded", now) if as_worded else now,
                        "role": c.role, "artifacts": stems}
        changed += not kept
        reworded += kept and not as_worded
    replace_file(os.path.join(folder, SINCE), tables.json_text(after))
    return (f"{changed} of {len(after)} claims and controls dated {now}; {reworded} others say the same test in "
            "other words and keep their date\n")


def _published_text(c):
    p = c.published
    if p is None:
        return "–"
    says = f"{p.says}; " if p.says else ""
    return f"{short_number(p.value)}{' (picture)' if p.approximate else ''} ({says}{p.source})"


def _over_published(c, r):
    """What was measured over the published number."""
    p = c.published
    if p is None or p.value == 0 or c.kind == "score" or not r.measured_text:
        return "–"
    return f"{r.estimate.value / p.value:.2f}"


def _table(judged, title):
    table = tables.Table(glossary.columns(
        "id | paper | statement | scale | verdict | published | measured | here / published | size | bound | "
        "score_beside | over_simplest | corrected | campaigns | registered | reason"))
    table.title = title
    for c, r in judged:
        reading = f"; interpretation: {c.reading}" if c.reading else ""
        table.add(c.id, c.paper, f"{c.statement} ({c.place}{reading})", r.scale, words.verdict_text(r),
                  _published_text(c), r.measured_text or "–", _over_published(c, r), words.field_text(r, "size"),
                  f"{c.bound.text} ({c.bound.by})", words.quality_text(r), r.simplest_text or "–",
                  words.field_text(r, "after_correction"), r.campaigns or "–", words.field_text(r, "registered"),
                  r.reason)
    table.notes.append(words.counts_text(judged, VERDICTS) + f"of {len(judged)} " + _counted_as(judged))
    table.notes += filter(None, [repeats.agreement_text(judged)])
    return table


def _counted_as(judged):
    if not judged or not judged[0][0].is_control:
        return "claims"
    return "calibrations" if judged[0][0].calibrates else "controls"


def headlines_table(judged):
    """A line for each claim of an abstract, without reasons: for a page that says what came of them."""
    table = tables.Table(glossary.columns("headline | published | measured | here / published | score_beside | "
                                          "over_simplest | verdict"))
    for c, r in judged:
        table.add(pages.named_with_paper(c), pages.published_text(c), pages.here_text(c, r), _over_published(c, r),
                  words.quality_text(r), r.simplest_text or "–", words.verdict_text(r))
    campaigns = {words.campaigns_text(r) for _, r in judged} - {"none", ""}
    several = sorted(n for n in campaigns if n.isdigit())
    once = "; what another seed cannot change was measured once" if len(campaigns) > len(several) else ""
    table.notes += [f"Campaigns: {' or '.join(several)}{once}."] if several else []
    table.notes.append(words.counts_text(judged, VERDICTS) + f"of {len(judged)} headlines")
    return table


def claims_tables(judged, controls):
    """The claims, a line each, how many have which verdict; then the controls, and what something was set by."""
    kinds = [("Controls", [(c, r) for c, r in controls if not c.calibrates]),
             ("Calibration", [(c, r) for c, r in controls if c.calibrates])]
    return [_table(judged, "Claims")] + [_table(found, title) for title, found in kinds if found]


def claims_text(judged, controls, register, form):
    """The tables in one of the formats of tables; in Markdown below what their words mean."""
    if form == "json":
        return judged_json(judged, controls, register)
    text = tables.render(claims_tables(judged, controls), form)
    if form == "md":
        head = "".join(f"* {line}\n" for line in verdict_lines() + HEAD)
        text = f"Register {register.hash}\n\n{head}\n{text}"
    return text


def claim_json(c, r, register):
    """A claim with its verdict as an object; results/FORMAT.md describes it."""
    e, p = r.estimate, c.published
    return {"id": c.id, "paper": c.paper, "role": c.role,
            "statement": c.statement, "source": c.place, "reading": c.reading, "quantity": c.quantity,
            "kind": c.kind, "artifacts": [a.replace(os.sep, "/") for a in c.artifacts],
            "scale": r.scale, "verdict": r.verdict, "shown": words.shown(r.verdict), "limits": words.limits(r),
            "tone": tone(r.verdict), "size": r.size or None,
            "reason": r.reason, "measured": e and e.value, "interval": e and e.range, "n": e and e.n,
            "n_unit": e and e.unit, "score": estimate_json(r.finding.quality if r.finding else None),
            "score_verdict": r.score or None, "score_needs": r.score_needs,
            "over_simplest": estimate_json(r.over_simplest), "simplest": r.simplest or None,
            "on_cpu": estimate_json(r.on_cpu.estimate if r.on_cpu else None),
            "bound": {"low": c.bound.low, "high": c.bound.high, "open": c.bound.open, "by": c.bound.by},
            "published": p and {"value": p.value, "unit": "x" if c.kind in RATIOS else "",
                                "source": p.source, "approximate": p.approximate, "says": p.says},
            "regime": c.regime_says, "preset": c.preset,
            "clock": c.clock, "tasks": c.tasks, "items": c.items, "p": r.p,
            "corrected": r.after_correction or None, "campaigns": [
                {"verdict": verdict, "measured": found and found.value, "interval": found and found.range}
                for verdict, found in r.each], "registered": r.registered or None,
            "hash": c.hash, "words": c.words, "register": register.hash, "dirty_rows": r.dirty, "rows": r.rows,
            "tiny_models": r.tiny_models, "synthetic": r.synthetic, "note": c.note,
            "controls": [f"{k.paper}/{k.id}" for k, _ in r.controls]}


def judged_json(judged, controls, register):
    return tables.json_text([claim_json(c, r, register) for c, r in judged + controls])


def explain(c, register, evidence, asked):
    """Says all there is to know of one claim: what was declared, what each campaign found, every point, the
    controls, the function that measures, and the command that measures the rows again."""
    (_, r), = repeats.judge_campaigns([c], register, evidence, asked)
    line = [f"{c.key}: {words.verdict_text(r)}", "", f"claim          {c.statement}", f"source         {c.place}"]
    line += [f"interpretation {c.reading}"] if c.reading else []
    line += [f"published      {_published_text(c)}; {words.field_text(r, 'size')}" if c.published and r.size else
             f"published      {_published_text(c)}",
             f"quantity       {c.quantity}",
             f"bound          {c.bound.text}, set by {c.bound.by}"]
    line += [f"quality        {c.quality.text}, set by {c.quality.by}"] if c.quality else []
    line += ([f"precondition   {text}" for text in map(_regime_text, c.preconditions)] or
             [f"precondition   {c.regime}"])
    line += [f"clock          {c.clock}", f"preset         {c.preset}", f"tasks          {c.tasks}",
             f"items          {c.items}", f"scale          {r.scale} (of {', '.join(c.scales)})"]
    line += [f"each           {c.each_because}"] if c.each_because else []
    dates = evidence[0].since.get(c.key, {})
    worded = f", worded {dates['worded']}" if dates.get("worded", dates.get("since")) != dates.get("since") else ""
    line += [f"declared       {words.field_text(r, 'registered') if r.registered else 'no rows'}{worded}; hash {c.hash} of {register.hash[:16]}",
             f"reason         {r.reason}"]
    line += [f"campaigns      {r.campaigns}"] if r.campaigns else []
    line += [f"{'':15}{words.shown(verdict)}" + (f", {estimate_text(e)}" if e else "")
             for verdict, e in r.each if len(r.each) > 1]
    line += [""]
    if r.finding and r.finding.points:
        table = tables.Table(glossary.columns("sweep point | >measured value | interval from"))
        for name, e in r.finding.points:
            table.add(name, estimate_text(e), e.how)
        line += [tables.render(table, "md")]
    for name in dict.fromkeys(c.controls + c.rivals):
        k = register.named(f"{c.paper}/{name}")
        (_, of), = repeats.controls_of([k], evidence, asked)
        word = "simpler method" if name in c.rivals else "control"
        line += [f"{word:<14} {k.statement}", f"{'':15}{words.shown(of.verdict)}: {of.reason}"]
    line += ["control        none"] if not c.controls + c.rivals else []
    line.append(f"note           {c.note or 'none'}")
    folder = "runs" if evidence[0].is_archive else evidence[0].results
    for artifact in c.artifacts:
        at = os.path.join(folder, experiments.place_of(artifact, r.scale))
        needs = needs_text(artifact, r.scale)
        line.append(f"again          {run_line(artifact, r.scale, at)} --fresh" +
                    (f"   ({needs})" if needs else ""))
    line.append(f"function       {c.where}")
    return tables.plain_text("\n".join(line) + "\n")


def _regime_text(regime):
    def text(where):
        return "(" + ", ".join(f"{key} = {found}" for key, found in where.items()) + ")"
    of = text(regime.where) + (f" over {text(regime.over)}" if regime.over else "")
    return f"{regime.says}: {regime.metric_name} of {of} {regime.bound.text}"


def exit_status(judged):
    return 4 if any(r.verdict in ("NOT SUPPORTED", "SMALLER", "PARTLY") for _, r in judged) else 0


def list_claims(register, claims, form="md"):
    """A line for each claim: paper, id, statement, place, kind, scales; how many controls there are. As JSON the
    same, with the counts."""
    if form == "json":
        listed = [{"paper": c.paper, "id": c.id, "statement": c.statement, "source": c.place, "kind": c.kind,
                   "scales": list(c.scales)} for c in claims]
        return tables.json_text({"claims": listed, "controls": len(register.controls)})
    text = "".join(f"  {c.paper:<12} {c.id:<38} {c.statement} ({c.place}; {c.kind}; "
                   f"{', '.join(c.scales)})\n" for c in claims)
    return text + f"{len(claims)} claims; {len(register.controls)} controls beside them\n"


def _names(c):
    stems = [os.path.splitext(os.path.basename(a))[0] for a in c.artifacts]
    return [c.paper, c.key, *[f"{c.paper}/{s}" for s in stems]]


def claim_named(register, name):
    """The claim or control that ID or PAPER/ID names."""
    every = register.claims + register.controls
    found = [c for c in every if name in (c.key, c.id)]
    if len(found) > 1:
        papers = ", ".join(c.key for c in found)
        raise UserError(f"'{name}' names several claims: {papers}")
    if not found:
        find_known("claim", name, [c.key for c in every] + [c.id for c in every])
    return found[0]


def parser():
    p = command_options.parser(
        __doc__, "Compares the papers' claims with the results in FOLDER (default: runs): PAPER/TABLE/SCALE/rows.jsonl, or\n"
                 "rows.tar.xz. With several campaigns (FOLDER/1, FOLDER/2, ...) a verdict is about all of them.",
        "verdicts:\n" + "\n".join(textwrap.fill(line, 98, initial_indent="  ", subsequent_indent="    ")
                                  for line in verdict_lines()) + """

exit codes: 4 at least one claim is NOT SUPPORTED, SMALLER THAN PUBLISHED or SUPPORTED WITH LIMITS; 0 none is.
results/VERDICTS.md explains every verdict.""")
    which, show = p.add_argument_group("which claims"), p.add_argument_group("what to show")
    authors = p.add_argument_group("for authors of claims")
    p.add_argument("results", nargs="?", default="runs", metavar="FOLDER")
    which.add_argument("--paper", action="append", default=[], metavar="PAPER", help="only this paper (repeatable)")
    which.add_argument("--only", action="append", default=[], metavar="NAME",
                       help="only PAPER, PAPER/CLAIM or PAPER/TABLE (repeatable)")
    which.add_argument("--headlines", action="store_true",
                       help="only the claims of the abstracts, and each PAPER/CLAIM of --only, in a short table; exit code 0")
    which.add_argument("--scale", default="tiny",
                       help="judge results of this scale: tiny, scores, real, shapes or full (default: tiny); a claim "
                            "that has only other scales is judged at its own")
    show.add_argument("--explain", metavar="ID",
                      help="show one claim or control completely: bound, every value, controls, and the command that "
                           "repeats it")
    show.add_argument("--findings", action="store_true",
                      help="only one line for each paper, and how many claims have which verdict; exit code 0")
    show.add_argument("--list", action="store_true", help="list the claims without judging them")
    show.add_argument("--timed", action="store_true",
                      help="list the experiment files whose times a claim needs at this scale")
    show.add_argument("--pages", action="store_true",
                      help="also write FOLDER/claims.md, a line for each claim, and FOLDER/claims/PAPER.md, a section "
                           "for each")
    show.add_argument("--save", action="store_true",
                      help="also write these pages and FOLDER/claims.json; at another scale than tiny only the claims "
                           "of that scale")
    show.add_argument("--format", default="md", help="print md, csv, latex or json (default: md)")
    show.add_argument("-o", "--output", metavar="FILE", help="write to this file (default: standard output)")
    authors.add_argument("--register", action="store_true",
                         help="record the date of new and changed claims in claims/register.json")
    authors.add_argument("--experiments-dir", "--experiments_dir", default="", metavar="FOLDER",
                         help="use the experiments and claims of this folder (default: experiments); runs its "
                              "claims/*.py")
    return p


def shown_controls(register, claims):
    """The controls that some of these claims name, and what something of their papers was set by."""
    named = {f"{c.paper}/{name}" for c in claims for name in c.controls + c.rivals}
    papers = {c.paper for c in claims}
    return [k for k in register.controls if k.key in named or k.calibrates and k.paper in papers]


def artifacts_of(register, claims):
    """{"PAPER/ARTIFACT"} of all that judging these claims reads, with their controls and simpler methods."""
    judged = claims + shown_controls(register, claims)
    return {experiments.place_of(a, "") for c in judged for a in c.artifacts}


def _judge(options, register, claims, folder):
    explained = claim_named(register, options.explain) if options.explain else None  # before rows are read
    if not os.path.isdir(options.results):
        raise does_not_exist(options.results)
    artifacts = artifacts_of(register, [explained] if explained else claims)
    evidence = repeats.evidence_of(options.results, read_since(folder), artifacts)
    if options.explain:
        text = explain(explained, register, evidence, options.scale)
        tables.write(text, options.output)
        return 0
    if (options.save or options.pages) and options.scale != "tiny":
        claims = [c for c in claims if options.scale in c.scales]
    if options.headlines:
        claims = [c for c in claims if c.place.startswith("Abstract") or c.key in options.only]
    judged = repeats.judge_campaigns(claims, register, evidence, options.scale)
    if options.headlines:
        tables.write(tables.render(headlines_table(judged), options.format), options.output)
        return 0
    if options.findings:
        tables.write(pages.findings(judged), options.output)
        return 0
    controls = repeats.controls_of(shown_controls(register, claims), evidence, options.scale)
    if options.save or options.pages:
        pages.written(judged, controls, register, options.results)
    if options.save:
        tables.write(judged_json(judged, controls, register),
                     os.path.join(options.results, "claims.json"))
    tables.write(claims_text(judged, controls, register, options.format), options.output)
    return exit_status(judged)


def main(arguments):
    options = parser().parse_args(arguments)
    tables.check_format(options.format)
    folder = os.path.join(experiments.experiments_folder(options.experiments_dir), "claims")
    if not os.path.isdir(folder):
        raise does_not_exist(folder)
    register = read_register(folder)
    claims = register.claims
    if options.paper:
        claims = [c for c in claims if c.paper in options.paper]
    if options.only:
        claims = keep_named("paper or claim or artifact", options.only, claims, _names)
    if options.register:
        tables.write(write_since(folder, register), options.output)
    elif options.timed:
        timed = sorted({path for c in claims for path in c.artifacts
                        if c.reads_the_clock and options.scale != SCORES})
        tables.write("".join(f"{path}\n" for path in timed), options.output)
    elif options.list:
        tables.write(list_claims(register, claims, options.format), options.output)
    else:
        return _judge(options, register, claims, folder)
    return 0
