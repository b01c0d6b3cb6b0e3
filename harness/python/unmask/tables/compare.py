# SPDX-License-Identifier: Apache-2.0
"""unmask compare: compare two runs or builds: same answers and counts, and which is faster.

Point by point, of two runs or two builds of the same experiments. Two questions are kept apart. Whether it is a
repetition: weights, workload, answers, scores and counts must be equal, and the ratios of speed between methods
must agree within their intervals, all but as many as chance explains. And which side is faster: of each point
the ratio of its speeds, with an interval over the runs of both sides, or over turns in which both ran."""

from dataclasses import dataclass, field, replace
import math
import os
import statistics
import sys

from unmask.rows import estimates, glossary, intervals, options as command_options, rows as results, seeds
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.estimates import estimate_text
from unmask.rows.later import import_all, special
from unmask.rows.names import number_text
from unmask.rows.rows import is_reportable, number_setting, row_name, setting
from unmask.rows.scores import note_of_undecided, score_with_undecided
from unmask.rows.verdicts import against_margin
from unmask.tables import tables, turns

# How likely two 95 % Student intervals of the same mean do not overlap: 0.40 % from 2 repetitions,
# 0.48 % from 3, 0.56 % from many, which is the most.
APART_BY_CHANCE = 0.0056
# Ratios whose intervals do not overlap although they were made so many times as wide: chance gives
# 0.025 % of such from 2 repetitions, 0.002 % from 3.
FAR = 4
MACHINE_KEYS = ("cpu_model", "cpu_backend", "cpus_usable", "omp_threads", "governor", "gpus")
LOAD_APART = 0.5  # processes: from here on the one-minute loads of two runs are not alike
# Why a ratio of speeds has no interval, and so no verdict.
ONE_RUN, DISTURBED = "one run on a side", "other work ran"


@dataclass
class Comparison:
    """What two runs have in common, what differs, and which side is faster."""
    points: int = 0
    same_tokens: int = 0
    calibrated: int = 0    # points whose tokens depend on times, by design
    by_the_clock: int = 0  # served on a real clock: counts depend on when requests arrive
    ratios: int = 0        # between methods, with an interval in both runs
    far_apart: int = 0
    differences: list = field(default_factory=list)   # (point, what, before, now)
    speeds_apart: list = field(default_factory=list)  # the same
    speeds: list = field(default_factory=list)        # (point, before, now, Estimate)
    runs: list = field(default_factory=list)          # (speeds before, speeds now) of each of `speeds`
    in_turn: bool = False  # run k of both sides was measured in one turn
    phases: dict = field(default_factory=dict)        # name: [(before seconds, now seconds)]
    notes: list = field(default_factory=list)
    warnings: list = field(default_factory=list)
    with_speed: bool = True

    def speeds_differ(self):
        """More ratios between methods are apart than chance explains, or one of them far."""
        return self.far_apart > 0 or chance_of_apart(self.ratios, len(self.speeds_apart)) < 0.05

    def repeated(self):
        return not self.differences and not self.speeds_differ()


def chance_of_apart(ratios, apart):
    """How likely `apart` or more of so many pairs of intervals do not overlap where nothing
    changed."""
    return 1.0 if apart == 0 else float(special.bdtrc(apart - 1, ratios, APART_BY_CHANCE))


def _add(items, text):
    if text not in items:
        items.append(text)


def _point(row):
    return (f"{row['model']['name']} {row['workload']['family']} {row_name(row)} "
            f"batch {row['batch_size']}")


def _chunk_is_fixed(row):
    """Whether the scheduler never chose how much to decode in a forward."""
    least, middle = row["metrics"].get("chunk_min"), row["metrics"].get("chunk_mean")
    return least is not None and least == middle


def _compare_facts(result, title, before, after):
    """Holds weights, workload, verdict, score, answers and counts of two rows together."""
    def differ(what, a, b):
        if a != b:
            result.differences.append((title, what, a, b))

    def settled(row):  # NOISY is PASS on a machine with other work
        return "PASS" if row["verdict"] == "NOISY" else row["verdict"]

    def score_text(row):
        if not row["score"]:
            return "absent"
        shown = score_with_undecided(row["score"])
        return number_text(shown.mean) + (f", {shown.undecided} of {shown.n} undecided" if shown.undecided else "")
    result.points += 1
    differ("verdict", settled(before), settled(after))
    differ("weights", before["model"]["hash"][:16], after["model"]["hash"][:16])
    differ("workload", before["workload"]["hash"][:16], after["workload"]["hash"][:16])
    asked = [row["workload"].get("prompts_hash", "")[:16] for row in (before, after)]
    if all(asked):  # the same items, as other tokens: a template that asks for the time, another tokenizer
        differ("prompts", *asked)
    if "calibration" in before or "calibration" in after:
        result.calibrated += 1
        _add(result.notes, f"{before['label']} calibrates itself on measured times: its tokens and "
                           "counts may differ")
        e = estimates.score_difference(after, before)
        if e is not None and e.low is not None and (e.low > 0 or e.high < 0):
            differ("score", score_text(before), score_text(after))
        return
    real_clock = "real" in (setting(before, "serve.clock"), setting(after, "serve.clock"))
    if real_clock:
        result.by_the_clock += 1
        _add(result.notes, f"{before['label']} is served on a real clock: counts that depend on when "
                           "requests arrive were not compared")
        leaves = any(number_setting(row, "serve.cancel_share") for row in (before, after))
        if leaves or not (_chunk_is_fixed(before) and _chunk_is_fixed(after)):
            _add(result.notes, f"{before['label']}: its answers depend on the clock too (clients "
                               "leave, or chunks follow the load) and were not compared")
            return
    differ("score", score_text(before), score_text(after))
    if not before["answers_hash"] or not after["answers_hash"]:
        _add(result.notes, "rows without a hash of the answers (schema 1.1 and older, or runs that "
                           "failed): only counts were compared")
    else:
        result.same_tokens += before["answers_hash"] == after["answers_hash"]
        differ("answers", before["answers_hash"][:16], after["answers_hash"][:16])
    if not real_clock:
        _compare_counts(differ, before, after)


def _compare_counts(differ, before, after):
    names = {name for row in (before, after) for name, origin in row["provenance"].items()
             if origin == "counted" and name in row["metrics"]}
    for name in sorted(names):
        a, b = before["metrics"].get(name), after["metrics"].get(name)
        if a != b:
            # Counts are whole; quotients of counts are equal to the last digit or not.
            differ(name, "absent" if a is None else number_text(a),
                   "absent" if b is None else number_text(b))



def _overlap(a, b, wider):
    """Whether two intervals of ratios overlap, each made so many times as wide, in logarithms."""
    gap = abs(math.log(a[0] * a[1]) - math.log(b[0] * b[1])) / 2
    return gap <= wider * (math.log(a[1] / a[0]) + math.log(b[1] / b[0])) / 2


def _compare_ratio(result, title, before, before_base, after, after_base):
    a = estimates.ratio(before, before_base, "tokens_per_second")
    b = estimates.ratio(after, after_base, "tokens_per_second")
    if a is None or b is None or a.low is None or b.low is None:
        return
    result.ratios += 1
    if _overlap(a.range, b.range, 1):
        return
    result.far_apart += not _overlap(a.range, b.range, FAR)
    result.speeds_apart.append((title, f"speed over {before_base['label']}", estimate_text(a),
                                estimate_text(b)))


def _run_speed(row):
    """Tokens per second of one run of a point: the geometric mean of its repetitions. None if it has none."""
    found = estimates.value(row, "tokens_per_second")
    if not is_reportable(row) or setting(row, "kind") == "serve" or found is None or not found[0] > 0:
        return None
    speeds = [v for v in estimates.samples(row, "tokens_per_second") if v > 0 and math.isfinite(v)]
    if not speeds or row["samples"].get("median"):
        return found[0]
    return math.exp(intervals.mean([math.log(v) for v in speeds]))


def _ratio_of_runs(before, now, in_turn):
    """now/before of the speeds of runs. What changes a speed from run to run is no part of the spread inside
    one run, so an interval takes two runs or more on each side, or runs in turn."""
    if in_turn and len(before) == len(now):
        return replace(intervals.paired_ratio(now, before), unit="turns")
    e = intervals.unpaired_ratio(now, before)
    if e.low is not None and math.isfinite(e.value):
        return replace(e, unit="runs")
    middle = [math.exp(intervals.mean([math.log(v) for v in side])) for side in (before, now)]
    return intervals.Estimate(middle[1] / middle[0], n=1, unit="runs", how=ONE_RUN)


def _compare_speed(result, title, before, after):
    """now/before of tokens per second, of the rows of one point on both sides."""
    sides = [[(_run_speed(row), row) for row in rows] for rows in (before, after)]
    sides = [[(v, row) for v, row in side if v is not None] for side in sides]
    if not all(sides):
        return
    old, new = ([v for v, _ in side] for side in sides)
    e = _ratio_of_runs(old, new, result.in_turn)
    disturbed = sum(bool(row["samples"].get("disturbance")) for side in sides for _, row in side)
    if disturbed and not result.in_turn:
        e = intervals.Estimate(e.value, n=e.n, unit=e.unit, how=DISTURBED)
    middle = [math.exp(intervals.mean([math.log(v) for v in side])) for side in (old, new)]
    result.speeds.append((title, *middle, e))
    result.runs.append((old, new))


def _phase_seconds(row):
    """Seconds of each phase of a profiled row, of the device where kernels were traced."""
    report = row["probes"].get("phases")
    if not isinstance(report, dict):
        return {}
    which = "device_seconds" if report.get("kernels") else "own_seconds"
    return {p["phase"]: p[which] for p in report.get("phases", [])
            if not p.get("container") and p.get(which)}


def _compare_phases(result, before, after):
    """Collects phases of two lists of rows of one point: their geometric means, repeated or not."""
    def middle(rows, phase):
        found = [s for s in (_phase_seconds(row).get(phase) for row in rows) if s and s > 0]
        return math.exp(intervals.mean([math.log(s) for s in found])) if found else None
    for phase in dict.fromkeys(p for row in before + after for p in _phase_seconds(row)):
        a, b = middle(before, phase), middle(after, phase)
        if a and b:
            result.phases.setdefault(phase, []).append((a, b))


def _load(rows):
    """The middle one-minute load of the rows' machines; None where no row tells."""
    loads = [row["environment"].get("load_average") for row in rows]
    loads = [v[0] for v in loads if isinstance(v, list) and v and isinstance(v[0], (int, float))]
    return statistics.median(loads) if loads else None


def _compare_machines(result, before, after):
    if not before or not after:
        return
    old, new = before[-1], after[-1]
    for key in MACHINE_KEYS:
        a, b = old["environment"].get(key), new["environment"].get(key)
        if a != b:
            text = "; ".join(f"{words} {value if value not in (None, []) else 'none'}"
                             for words, value in (("before", a), ("now", b)))
            _add(result.warnings, f"the machine differs: {key} {text}")
    a, b = _load(before), _load(after)
    if not result.in_turn and a is not None and b is not None and abs(a - b) > LOAD_APART:
        _add(result.warnings, f"the load differs: {a:.1f} processes before, {b:.1f} now; other work "
                              "changes speeds")
    if old["source_hash"] != new["source_hash"]:
        _add(result.notes, f"program: {old['source_hash']} before, {new['source_hash']} now")


def compare_place(result, inside, before, after):
    """Compares the rows of one place in two runs; `inside` stands before the name of a point."""
    old = {results.point_name(row): row for row in results.latest(before)}
    new = {results.point_name(row): row for row in results.latest(after)}
    for note in note_of_undecided([row for rows in (old, new) for row in rows.values()]):
        _add(result.notes, note)
    # The first row of the plan in each circumstance, which others are divided by.
    bases = seeds.Bases(sorted((row for name, row in old.items() if is_reportable(row) and name in new),
                               key=lambda row: row["position"]))
    for name, row in old.items():
        title = inside + _point(row)
        if name not in new:
            result.differences.append((title, "row", "there", "absent"))
            continue
        _compare_facts(result, title, row, new[name])
        if not result.with_speed:
            continue
        for base in bases.of(row) if setting(row, "kind") != "serve" else ():
            if base is not row:
                _compare_ratio(result, title, row, base, new[name], new[results.point_name(base)])
        sides = [[r for r in rows if results.point_name(r) == name] for rows in (before, after)]
        _compare_speed(result, title, *sides)
        _compare_phases(result, *sides)
    result.differences += [(inside + _point(row), "row", "absent", "there")
                           for name, row in new.items() if name not in old]
    _compare_machines(result, before, after)


def compare_rows(before, after, with_speed=True, in_turn=False):
    result = Comparison(with_speed=with_speed, in_turn=in_turn)
    compare_place(result, "", before, after)
    return result


def _places(path):
    if os.path.isdir(path):
        found = results.places_below(path)
        if found:
            return found
    return {"": results.read_rows(path)}


def compare_paths(before, after, with_speed=True):
    """Compares two rows files, folders of rows, or campaigns: folders with a rows.jsonl at the same
    places below both, or rows.tar.xz that holds them. UserError where no place is in both."""
    old, new = _places(before), _places(after)
    if not set(old) & set(new):
        raise UserError(f"{before} and {after} have no rows at the same place")
    for path, places in ((before, old), (after, new)):
        if not any(places.values()):
            raise EnvironmentFault(f"{path} holds no results (*.jsonl); give the folder of a run")
    result = Comparison(with_speed=with_speed)
    for place, found in old.items():
        if place in new:
            compare_place(result, f"{place}: " if place else "", found, new[place])
        else:
            result.differences.append((place, "rows", "there", "absent"))
    result.differences += [(place, "rows", "absent", "there") for place in new if place not in old]
    return result


def _listing(lines):
    table = tables.Table(glossary.columns("sweep point | what | before | now"))
    for line in lines:
        table.add(*line)
    return "\n" + tables.render(table, "md")


def _shown(verdict):
    return glossary.shown("pair", verdict)


def _ratio_cells(e, margin):
    """The cells that say how much faster now is: ratio with interval, and a verdict."""
    verdict = against_margin(e.range, (1 / (1 + margin), 1 + margin), "SLOWER", "FASTER")
    return tables.estimate_cell(e, 3), verdict


def _summary_of_runs(result):
    """The ratio over all points, of each run as a whole: what makes one run slower than another makes all of
    its points so, and more points show no more of it."""
    apart = next((e.how for _, _, _, e in result.speeds if e.low is None), "")
    sides = []
    for side in (0, 1):
        runs = min(len(pair[side]) for pair in result.runs)
        sides.append([math.exp(intervals.mean([math.log(pair[side][k]) for pair in result.runs]))
                      for k in range(runs)])
    e = _ratio_of_runs(*sides, result.in_turn)
    return intervals.Estimate(e.value, n=e.n, unit=e.unit, how=apart) if apart else e


def speed_summary(result, margin):
    """The geometric mean over all points, its verdict, and how many points have which verdict."""
    if not result.speeds:
        return None, "", {}
    middle, counts = _summary_of_runs(result), {}
    for _, _, _, e in result.speeds:
        verdict = _ratio_cells(e, margin)[1]
        counts[verdict] = counts.get(verdict, 0) + 1
    return middle, _ratio_cells(middle, margin)[1], counts


def _speed_text(result, margin):
    middle, verdict, counts = speed_summary(result, margin)
    if middle is None:
        return ""
    table = tables.Table(glossary.columns(
        "sweep point | >tokens/s before | >tokens/s now | >now / before | >n | verdict"))
    for title, before, after, e in result.speeds:
        cell, said = _ratio_cells(e, margin)
        table.add(title, tables.number_cell(before, 1), tables.number_cell(after, 1), cell,
                  tables.count_cell(e.n), _shown(said) if e.low is not None else f"{_shown(said)}: {e.how}")
    table.notes.append("speed: " + ", ".join(f"{n} {_shown(word)}" for word, n in sorted(counts.items())) +
                       f"; geometric mean {estimate_text(middle)}: {_shown(verdict)}")
    over = ("turns, in each of which both programs ran (Student's t of the logarithms)" if result.in_turn else
            "runs of each side (Welch's t of the logarithms)")
    table.notes.append(f"SAME: within {100 * margin:g} %. Intervals and n are over {over}")
    hows = {e.how for _, _, _, e in result.speeds if e.low is None}
    if ONE_RUN in hows:
        table.notes.append("One run on a side gives no verdict: speeds change from run to run more than inside "
                           "one. `unmask compare --programs A B FILE` measures two programs in turn; `unmask "
                           "run --fresh` adds another run to a folder")
    if DISTURBED in hows:
        table.notes.append("Rows that other work disturbed (samples.disturbance) give no verdict; "
                           "`unmask compare --programs A B FILE` measures both programs under the same load")
    return "\n" + tables.render(table, "md")


def _phase_text(result, margin):
    if not result.phases:
        return ""
    table = tables.Table(glossary.columns("phase | >sweep points | >ms before | >ms now | >before / now | verdict"))
    for phase, pairs in sorted(result.phases.items(), key=lambda p: -sum(a for a, _ in p[1])):
        before, after = ([pair[side] for pair in pairs] for side in (0, 1))
        e = intervals.paired_ratio(before, after)
        cell, said = _ratio_cells(e, margin)
        table.add(phase, tables.count_cell(len(pairs)), tables.number_cell(sum(before), 3, 1e3),
                  tables.number_cell(sum(after), 3, 1e3), cell,
                  _shown(said) if e.low is not None else _shown(said) + ": one sweep point")
    table.notes.append("phases: geometric mean of the points' ratios, above 1 where it is faster now; "
                       "Student's t over the points")
    return "\n" + tables.render(table, "md")


def comparison_text(result, margin=0.02):
    """Writes a comparison: what differs, speeds point by point, notes, and the verdict last."""
    text = f"{result.points} points compared: tokens identical in {result.same_tokens}"
    if result.calibrated:
        text += f"; {result.calibrated} calibrate themselves on measured times"
    if result.by_the_clock:
        text += f"; {result.by_the_clock} served on a real clock"
    if result.with_speed:
        text += (f"; {result.ratios - len(result.speeds_apart)} of {result.ratios} speed ratios "
                 "between methods within their intervals\n")
    else:
        text += "; speeds were not compared\n"
    if result.differences:
        text += _listing(result.differences)
    if result.speeds_apart:
        chance = chance_of_apart(result.ratios, len(result.speeds_apart))
        text += _listing(result.speeds_apart)
        text += (f"\n{len(result.speeds_apart)} of {result.ratios} speed ratios between methods apart: "
                 f"{'more than' if result.speeds_differ() else 'explained by'} chance, which gives as "
                 f"many with a probability of {chance:.2g}")
        text += (f"; {result.far_apart} of them by far more than their intervals\n"
                 if result.far_apart else "\n")
    text += _speed_text(result, margin) + _phase_text(result, margin)
    text += "".join(f"\nwarning: {tables.plain_text(words)}\n" for words in result.warnings)
    text += "".join(f"\nnote: {tables.plain_text(words)}\n" for words in result.notes)
    text += "\n" + glossary.shown("runs", "REPEATED" if result.repeated() else "DIFFERS") + ": answers, scores, counts"
    text += " and ratios between methods\n" if result.with_speed else "\n"
    middle, verdict, _ = speed_summary(result, margin)
    if middle is not None:
        text += f"{_shown(verdict)}: now is {estimate_text(middle)} times as fast\n"
    return text


def comparison_json(result, margin=0.02):
    """A comparison for programs: what comparison_text() says, with every number."""
    def of(e):
        return {"value": e.value, "low": e.low, "high": e.high, "n": e.n, "unit": e.unit}

    def told(found):
        return [dict(zip(("point", "what", "before", "now"), entry)) for entry in found]
    middle, verdict, _ = speed_summary(result, margin)
    speeds = [{"point": title, "before": before, "now": now, "ratio": of(e),
               "verdict": _ratio_cells(e, margin)[1]}
              for title, before, now, e in result.speeds]
    return {"verdict": "REPEATED" if result.repeated() else "DIFFERS", "points": result.points,
            "same_tokens": result.same_tokens, "differences": told(result.differences),
            "speed_verdict": verdict if middle is not None else None,
            "speed": None if middle is None else of(middle), "speeds": speeds,
            "speeds_apart": told(result.speeds_apart), "speed_ratios": result.ratios,
            "warnings": result.warnings, "notes": result.notes}


def parser():
    p = command_options.parser(
        __doc__, "BEFORE and AFTER are runs, files of rows or whole campaigns of the same experiments. --programs instead\n"
                 "measures two builds in turn; other work on the machine then disturbs both alike.",
        """verdicts:
  REPEATED, DIFFERS: answers, scores and counts must be the same. Ratios of speed between methods
    must agree within their intervals, except as many as chance explains.
  FASTER, SAME, SLOWER, INCONCLUSIVE: each setting's speed on both sides. INCONCLUSIVE: the interval
    crosses the margin, or a side has only one run.

exit codes: 4 DIFFERS; a change of speed that all methods share does not count.
To compare kernels: Google Benchmark's compare.py on two files of build/.../unmask_bench --benchmark_out""")
    p.add_argument("runs", nargs="*", metavar="BEFORE AFTER")
    p.add_argument("--programs", nargs=3, metavar=("A", "B", "FILE"),
                   help="measure the experiment FILE with two programs in turn, and compare them")
    p.add_argument("--turns", type=int, default=10, metavar="N",
                   help="with --programs: run each program N times (default: 10)")
    p.add_argument("--scale", metavar="NAME", help="with --programs: measure this scale of FILE")
    p.add_argument("--rows", metavar="FOLDER",
                   help="with --programs: keep the rows of both here (default: below runs/compare)")
    p.add_argument("-o", "--output", metavar="FILE", help="write to this file (default: standard output)")
    p.add_argument("--ignore-speed", "--ignore_speed", action="store_true",
                   help="compare only answers, scores and counts: for another machine, or a busy one")
    p.add_argument("--margin", type=float, default=0.02, metavar="X",
                   help="count speeds as the same up to this relative difference (default: 0.02)")
    command_options.add_format(p)
    return p


def _measured_in_turn(options):
    if options.turns < 2:
        raise UserError("--turns must be 2 or more: the interval is over the turns")
    import_all()  # before hours of measuring, not behind them
    *programs, experiment = options.programs
    folder = turns.fresh_folder(options.rows or "")
    before, after = turns.measure(programs, experiment, folder, options.turns,
                                  ["--scale", options.scale] if options.scale else [])
    print(f"rows: {folder}", file=sys.stderr)
    return compare_rows(before, after, with_speed=not options.ignore_speed, in_turn=True)


def main(arguments):
    options = parser().parse_args(arguments)
    if len(options.runs) != (0 if options.programs else 2):
        raise UserError("compare needs two runs, or --programs A B FILE")
    if not 0 < options.margin < 1:
        raise UserError("--margin must be above 0 and below 1")
    if options.programs:
        result = _measured_in_turn(options)
    else:
        result = compare_paths(*options.runs, with_speed=not options.ignore_speed)
    text = (tables.json_text(comparison_json(result, options.margin)) if options.format == "json"
            else comparison_text(result, options.margin))
    tables.write(text, options.output)
    return 0 if result.repeated() else 4
