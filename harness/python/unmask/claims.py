# SPDX-License-Identifier: Apache-2.0
"""unmask claims: the papers' claims against measured rows."""

import argparse
from dataclasses import replace
import os
import re
import shlex

from unmask import claims_check, experiments, tables
from unmask.claims_check import Result
from unmask.claims_read import read_claims
from unmask.errors import EnvironmentFault, UserError
from unmask.estimates import estimate_text, reads_the_clock, short_number
from unmask.names import find_known, keep_named
from unmask.rows import ARCHIVE, RUN_KEYS, latest, places_below
from unmask.verdicts import HELD, UNDECIDED, tone

VERDICTS = ("REPRODUCED", "REPRODUCED (model)", "PARTLY", "AMBIGUOUS", "NOT REPRODUCED",
            "NOT APPLICABLE", "NOT RUN")
EVIDENCE = re.compile(r"(.*)/more/items(\d+)_repetitions(\d+)$")


class Evidence:
    """The rows below a folder of results, each file read once, by their place PAPER/ARTIFACT/SCALE."""

    def __init__(self, results):
        self.results = results
        self.is_archive = os.path.isfile(os.path.join(results, ARCHIVE))
        self.places = {}
        self.judged = {}
        self.more = {}  # place: [(items, repetitions, rows)] measured beside its own rows
        for place, rows in places_below(results).items():
            found = EVIDENCE.match(place)
            if found:
                entry = (int(found.group(2)), int(found.group(3)), latest(rows))
                self.more.setdefault(found.group(1), []).append(entry)
            elif rows:
                self.places[place] = rows

    def behind(self, claim, place):
        """The place's own rows, or those beside them of most items (of repetitions, for a claim on
        times or seeds) with a row of each point behind the claim: the rows of one comparison have the
        same items. What was measured for the sake of items alone need not have had the machine for
        itself, so it tells no times."""
        side = 1 if claims_check.rests_on_repetitions(claim) else 0
        more = [entry for entry in self.more.get(place, []) if entry[side] > 1]
        own = self.places[place]
        wanted = claims_check.names_behind(claim, latest(own)) if more else set()
        for entry in sorted(more, key=lambda entry: -entry[side]):
            if wanted and wanted <= claims_check.names_behind(claim, entry[2]):
                return entry[2]
        return own


def _needs_text(artifact, scale):
    needs, not_run = experiments.stated_needs(artifact, scale)
    return not_run or ("needs " + ", ".join(needs) if needs else "")


def _run_line(artifact, scale, place):
    return shlex.join(["unmask", "run", artifact, "--scale", scale, "-o", place])


def _judged_scale(claim, evidence, asked):
    """The scale at which a claim is judged: the one asked for, else the first of its own that has
    rows."""
    if asked in claim.scales:
        return asked
    for scale in claim.scales:
        if all(experiments.place_of(a, scale) in evidence.places for a in claim.artifacts):
            return scale
    return asked


def judge_claim(claim, evidence, asked):
    """Judges one claim by the rows below a folder of results, without its controls; once each."""
    key = (claim.paper, claim.id, asked)
    if key not in evidence.judged:
        evidence.judged[key] = _judged(claim, evidence, asked)
    return replace(evidence.judged[key], controls=[])


def _judged(claim, evidence, asked):
    scale = _judged_scale(claim, evidence, asked)
    if scale not in claim.scales:
        needs = _needs_text(claim.artifacts[0], claim.scales[0])
        return Result(scale=scale, reason=f"NOT RUN: cannot be checked at scale {scale}, only at "
                                          f"{', '.join(claim.scales)}" +
                                          (f", which {needs}" if needs else ""))
    rows = []
    for artifact in claim.artifacts:
        place = experiments.place_of(artifact, scale)
        if place not in evidence.places:
            where = os.path.join(evidence.results, place)
            needs = _needs_text(artifact, scale)
            return Result(scale=scale, reason=f"NOT RUN: no rows in {where}; "
                                              f"{_run_line(artifact, scale, where)}" +
                                              (f"; {needs}" if needs else ""))
        rows += evidence.behind(claim, place)
    return claims_check.check(claim, latest(rows), scale)


def judge_claims(claims, evidence, asked):
    """Judges claims; one that does not hold also by its controls. Returns (claim, result) pairs."""
    judged = []
    for claim in claims:
        result = judge_claim(claim, evidence, asked)
        if result.verdict == "NOT REPRODUCED" or (result.verdict == "PARTLY" and result.failed):
            look_at_controls(claim, result, evidence, asked)
        judged.append((claim, result))
    return judged


def look_at_controls(claim, result, evidence, asked):
    """Judges a claim's controls, and says in its reason what came out."""
    for control in claim.controls:
        r = judge_claim(control, evidence, asked)
        result.controls.append((control, r))
        result.reason += f"; control: {control.statement.rstrip('.')}: {r.verdict}"
        result.reason += f", {estimate_text(r.measured)}" if r.measured else ""
    if not claim.controls:
        result.reason += "; no control"


def plain_number(value):
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else repr(value)


def _published_text(claim):
    p = claim.published
    return f"{plain_number(p.value)}{' ' if p.unit else ''}{p.unit} ({p.source})" if p else "–"


def claims_table(judged):
    """A line for each claim, and below it how many have which verdict."""
    table = tables.Table(["id", "paper", "claim", "scale", "verdict", "measured here", "published",
                          "size", "reason"])
    count = dict.fromkeys(VERDICTS, 0)
    for claim, r in judged:
        count[r.verdict] += 1
        variant = f"; of {claim.variant}" if claim.variant else ""
        table.add(claim.id, claim.paper, f"{claim.statement} ({claim.source}{variant})", r.scale,
                  r.verdict, estimate_text(r.measured) if r.measured else "–",
                  _published_text(claim), r.size or "–", r.reason)
    table.notes.append("".join(f"{n} {name}, " for name, n in count.items()) +
                       f"of {len(judged)} claims")
    return table


def claim_json(claim, r):
    """A claim with its verdict as an object; results/README.md describes it."""
    out = {"id": claim.id, "paper": claim.paper, "statement": claim.statement,
           "source": claim.source, "variant": claim.variant,
           "artifacts": [a.replace(os.sep, "/") for a in claim.artifacts], "scale": r.scale,
           "kind": claim.kind, "metric": claim.left.metric, "verdict": r.verdict,
           "tone": tone(r.verdict), "reason": r.reason, "measured": None, "interval": None,
           "n": None}
    if r.measured:
        out.update(measured=r.measured.value, n=r.measured.n, n_unit=r.measured.unit,
                   interval=r.measured.range)
    out["points"] = {"held": r.held, "undecided": r.undecided, "failed": r.failed,
                     "out_of_regime": r.out_of_regime}
    p = claim.published
    out["published"] = p and {"value": p.value, "unit": p.unit, "source": p.source,
                              "size": r.size or None}
    out.update(tiny_models=r.tiny_models, synthetic=r.synthetic, note=claim.note)
    return out


def judged_json(judged):
    return tables.json_text([claim_json(claim, r) for claim, r in judged])


def timed_artifacts(claims):
    """The experiment files that a claim on times is about: they need the machine for themselves."""
    return sorted({path for c in claims for path in c.artifacts
                   if any(reads_the_clock(m) for m in (c.left.metric, c.right.metric))})


def _formula(claim):
    """What is compared with what, and the bound with its tolerance, as one would compute it."""
    left, right, metric = claim.left.text(), claim.right.text(), claim.left.metric
    tolerance = plain_number(claim.tolerance)
    bound, relation = "0" if claim.of_scores else "1", claim.relation
    if claim.kind == "threshold":
        quantity, bound = f"{metric} of ({left})", plain_number(claim.value)
    elif claim.kind == "monotone":
        quantity = f"{metric} of ({left}) at each value of {claim.along} / at the one before"
        relation = {"increasing": ">", "nondecreasing": ">=", "decreasing": "<",
                    "nonincreasing": "<="}[relation]
    else:
        sign = "-" if claim.of_scores else "/"
        quantity = f"{metric} of ({left}) {sign} {claim.right.metric} of ({right})"
    if claim.kind == "ratio":
        bound = plain_number(claim.expected)
        relation = "=" if relation == "about" else relation
    relation = "=" if claim.kind == "equal" else relation
    relative = claim.kind == "ratio" or (claim.kind == "threshold" and not claim.of_scores)
    text = f"{quantity} {relation} {bound}"
    if claim.tolerance:
        text += f", within {tolerance}" + (f" x {bound}" if relative else "")
    text += f": the whole 95 % interval {claims_check.test_of(claim).wanted}"
    if claim.least:
        text += f"; fails too where it excludes every difference of {short_number(claim.least)}"
    return text


def _point_names(points):
    """Names of points, those that are alike told apart by the keys of [run] that differ."""
    names = [p.name for p in points]
    keys = [key for key in RUN_KEYS if len({p.left[key] for p in points}) > 1 and key != "batch_size"]
    if len(set(names)) == len(names):
        return names
    return [", ".join([p.name, *[f"{key} {p.left[key]}" for key in keys]]) for p in points]


def _points_table(result):
    words = {HELD: "holds", UNDECIDED: "undecided"}
    table = tables.Table(["point", "quantity", ">measured", "interval from", "result"])
    for p, name in zip(result.points, _point_names(result.points)):
        table.add(name, p.shown, estimate_text(p.measured), p.measured.how,
                  words.get(p.result, "fails"))
    if result.judged != result.points:
        for p in result.judged:
            cell = tables.Cell(words.get(p.result, "fails"), bold=True)
            table.add(tables.Cell(p.name, bold=True), p.shown, estimate_text(p.measured),
                      p.measured.how, cell)
    for p, why in result.unmet:
        table.add(p.name, p.shown, estimate_text(p.measured), p.measured.how,
                  f"out of the regime: {why}")
    return table


AGGREGATE_WORDS = {"each": "every point must hold", "mean": "all points together",
                   "max": "the largest point, its interval corrected for their number",
                   "min": "the smallest point, its interval corrected for their number"}


def explain(claim, evidence, asked):
    """Says all there is to know of one claim: what is compared with what, every point with its interval
    and whether it holds, its controls, and the command that measures it again."""
    result = judge_claim(claim, evidence, asked)
    line = [f"{claim.paper}/{claim.id}: {result.verdict}", "", f"claim      {claim.statement}",
            f"place      {claim.source}"]
    if claim.variant:
        line.append(f"reading    {claim.variant}")
    if claim.published:
        line.append(f"published  {_published_text(claim)}" +
                    (f"; {result.size} the interval measured here" if result.size else ""))
    line += [f"formula    {_formula(claim)}", f"judged by  {AGGREGATE_WORDS[claim.aggregate]}",
             f"scale      {result.scale} (of {', '.join(claim.scales)})"]
    for p in claim.preconditions:
        line.append(f"presumes   {p.says}: {p.where.metric} of ({p.where.text()}) {p.relation} "
                    f"{plain_number(p.value)}")
    line += [f"reason     {result.reason}", ""]
    if result.points or result.unmet:
        line += [tables.render(_points_table(result), "md")]
    for control in claim.controls:
        r = judge_claim(control, evidence, asked)
        line += [f"control    {control.statement}", f"           {r.verdict}: {r.reason}"]
    if not claim.controls:
        line.append("control    none")
    line.append(f"note       {claim.note or 'none'}")
    scale = result.scale if result.scale in claim.scales else claim.scales[0]
    folder = "runs" if evidence.is_archive else evidence.results
    for artifact in claim.artifacts:
        place = os.path.join(folder, experiments.place_of(artifact, scale))
        needs = _needs_text(artifact, scale)
        line.append(f"again      {_run_line(artifact, scale, place)} --fresh" +
                    (f"   ({needs})" if needs else ""))
    line.append(f"register   {claim.where}")
    return tables.plain_text("\n".join(line) + "\n")


def exit_status(judged):
    return 4 if any(r.verdict in ("NOT REPRODUCED", "PARTLY") for _, r in judged) else 0


def list_claims(claims):
    """A line for each claim: paper, id, statement, source, kind, scales."""
    return "".join(f"  {c.paper:<12} {c.id:<38} {c.statement} ({c.source}; {c.kind}; "
                   f"{', '.join(c.scales)})\n" for c in claims)


def select_claims(claims, only):
    """Keeps the claims that PAPER, PAPER/CLAIM or PAPER/ARTIFACT names; all where none does."""
    def names(claim):
        stems = [os.path.splitext(os.path.basename(a))[0] for a in claim.artifacts]
        return [claim.paper, f"{claim.paper}/{claim.id}", *[f"{claim.paper}/{s}" for s in stems]]
    return keep_named("paper or claim or artifact", only, claims, names)


def claim_named(claims, name):
    """The claim that ID or PAPER/ID names."""
    known = {f"{c.paper}/{c.id}": c for c in claims}
    found = [c for key, c in known.items() if name in (key, c.id)]
    if len(found) > 1:
        papers = ", ".join(f"{c.paper}/{c.id}" for c in found)
        raise UserError(f"'{name}' names several claims: {papers}")
    if not found:
        find_known("claim", name, [*known, *[c.id for c in claims]])
    return found[0]


def parser():
    p = argparse.ArgumentParser(
        prog="unmask claims", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Judges the papers' claims by the rows in RESULTS/PAPER/ARTIFACT/SCALE (default: "
                    "runs),\nor in RESULTS/rows.tar.xz.",
        epilog="""verdicts: REPRODUCED; REPRODUCED (model), by synthetic weights or on a virtual clock; PARTLY, some
points hold; AMBIGUOUS, the sample is too small to tell; NOT REPRODUCED; NOT APPLICABLE, with the
precondition that is not met; NOT RUN, with what it needs.

exit code 4: at least one claim is NOT REPRODUCED or PARTLY. Nothing went wrong in that case; a script that
wants the papers to hold can tell. 0: none is. 2: a wrong option or name. 3: no results there.

examples: unmask run experiments -o runs; unmask claims runs
          unmask claims results/tiny --only focus/table_6
          unmask claims results/tiny --explain focus_keeps_quality""")
    p.add_argument("results", nargs="?", default="runs", metavar="RESULTS")
    p.add_argument("-o", "--output", metavar="FILE", help="write there (default: standard output)")
    p.add_argument("--format", default="md", help="md, csv, latex or json (default: md)")
    p.add_argument("--scale", default="tiny", help="tiny, real, shapes or full (default: tiny); a claim "
                                                   "of other scales is judged at its own")
    p.add_argument("--only", action="append", default=[], metavar="NAME",
                   help="keep PAPER, PAPER/CLAIM or PAPER/ARTIFACT (repeatable)")
    p.add_argument("--explain", metavar="ID",
                   help="show one claim: formula with tolerance, every point with its interval, "
                        "controls, note, the command that measures it again")
    p.add_argument("--save", action="store_true",
                   help="also write RESULTS/claims.md and claims.json; of another scale than tiny the "
                        "claims that are for it alone")
    p.add_argument("--paper", action="append", default=[], metavar="PAPER",
                   help="keep the claims of PAPER, which may have none (repeatable)")
    p.add_argument("--timed", action="store_true",
                   help="list the experiment files that a claim on times is about, and judge none")
    p.add_argument("--list", action="store_true", help="list the claims and judge none")
    p.add_argument("--experiments-dir", "--experiments_dir", default="", metavar="DIR",
                   help="where experiments and claims lie (default: experiments)")
    return p


def main(arguments):
    options = parser().parse_args(arguments)
    tables.check_format(options.format)
    folder = os.path.join(experiments.experiments_folder(options.experiments_dir), "claims")
    if not os.path.isdir(folder):
        raise EnvironmentFault(f"there are no claims in {folder}")
    claims = read_claims(folder)
    if options.paper:
        claims = [c for c in claims if c.paper in options.paper]
    if options.timed:
        tables.write("".join(f"{path}\n" for path in timed_artifacts(claims)), options.output)
        return 0
    if options.list:
        tables.write(list_claims(select_claims(claims, options.only)), options.output)
        return 0
    if not os.path.isdir(options.results):
        raise EnvironmentFault(f"there are no results in {options.results}")
    if options.explain:
        claim = claim_named(claims, options.explain)
        tables.write(explain(claim, Evidence(options.results), options.scale), options.output)
        return 0
    claims = select_claims(claims, options.only)
    if options.save and options.scale != "tiny":
        claims = [c for c in claims if options.scale in c.scales]
    judged = judge_claims(claims, Evidence(options.results), options.scale)
    if options.save:
        tables.write(tables.render(claims_table(judged), "md"),
                     os.path.join(options.results, "claims.md"))
        tables.write(judged_json(judged), os.path.join(options.results, "claims.json"))
    if options.format == "json":
        text = judged_json(judged)
    else:
        text = tables.render(claims_table(judged), options.format)
    tables.write(text, options.output)
    return exit_status(judged)
