# SPDX-License-Identifier: Apache-2.0
"""Rows and trajectories of a decoding loop that is not Unmask's: of a PyTorch script, say.

    recorder = unmask.record("runs/torch", program="PyTorch 2.15", method="vanilla", like=row)
    for _ in range(5):
        with recorder.timed_pass():
            for prompt in prompts:
                answer = recorder.answer(len(prompt), gen_length)
                ...                                     # in the loop, once a forward:
                answer.step(positions, tokens, rows)    # what it decided, of how many rows
                answer.replace(positions, tokens)       # what the same forward changed, of a method
                answer.reopen(positions)                # that edits or masks again
                answer.finish(output_ids, stop_ids)
    recorder.write(scores)

The row goes to the folder's rows.jsonl, the order of decisions to trajectories/POINT.txt, which
`[run] impose = "replay:FILE"` and `[serve] commits` take. What was measured elsewhere says so: in the
row's label and in its field `measured_by`."""

import contextlib
import datetime
import hashlib
import json
import os
import platform
import time

from unmask.rows import intervals
from unmask.rows.checksum import line_of
from unmask.rows.errors import UserError
from unmask.rows.estimates import NOISY_HALF_WIDTH
from unmask.rows.files import replace_file
from unmask.rows.rows import RUN_KEYS, SCHEMA as ROW_SCHEMA, read_latest

SCHEMA = ROW_SCHEMA["title"].rsplit(" ", 1)[1]


def _hash(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def now():
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


def machine():
    """What is known of this machine, in the words of a row's `environment`."""
    cpu = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    return {"architecture": platform.machine(), "cpu_model": cpu or platform.processor(),
            "cpus_usable": len(os.sched_getaffinity(0)), "gpus": [],
            "kernel": f"{platform.system()} {platform.release()}",
            "load_average": list(os.getloadavg())}


def _paired(positions, tokens):
    positions, tokens = list(map(int, positions)), list(map(int, tokens))
    if len(positions) != len(tokens):
        raise UserError(f"{len(positions)} positions and {len(tokens)} tokens in one step")
    return list(zip(positions, tokens))


def identified(head, program):
    """The head of a row with the ids of its point, by what it holds besides, and of a run of now."""
    head = head | {"point_id": "", "run_id": ""}
    head["point_id"] = _hash([head, program])[:16]
    head["run_id"] = f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}-{head['point_id'][:8]}"
    return head


class Answer:
    """One request of one pass. Positions count from the first generated one, which is 0."""

    def __init__(self, prompt_tokens, gen_length):
        self.prompt_tokens, self.gen_length = prompt_tokens, gen_length
        self.decided = {}  # {position: token} after the last event
        self.events = {}   # {(forward, position): (token, kind)}: one event of a position in a forward
        self.forwards, self.rows = 0, 0
        self.output, self.counted = None, 0

    def step(self, positions, tokens, rows=0):
        """Notes a forward that computed `rows` rows: it decided these tokens at these masked positions, or
        none. What it replaced or masked again follows in replace() and reopen()."""
        pairs = _paired(positions, tokens)
        self.forwards += 1
        self.rows += int(rows)
        for position, token in pairs:
            if position in self.decided or not 0 <= position < self.gen_length:
                raise UserError(f"position {position} is decided already or not one of the "
                                f"{self.gen_length} of the answer")
            self._note(position, token, "take")

    def replace(self, positions, tokens):
        """Notes that the forward of the last step() put these tokens in the place of those that were decided
        at these positions."""
        for position, token in _paired(positions, tokens):
            self._must_be_decided(position)
            self._note(position, token, "replace")

    def reopen(self, positions):
        """Notes that the forward of the last step() masked these decided positions again."""
        for position in map(int, positions):
            self._must_be_decided(position)
            self._note(position, -1, "reopen")

    def _must_be_decided(self, position):
        if position not in self.decided:
            raise UserError(f"position {position} is not decided: step() decides, and edits follow it")

    def _note(self, position, token, kind):
        if (self.forwards, position) in self.events:
            raise UserError(f"position {position} has two events in one forward")
        self.events[self.forwards, position] = (token, kind)
        if kind == "reopen":
            del self.decided[position]
        else:
            self.decided[position] = token

    def count(self, kind):
        """How many events are of this kind: take, replace or reopen."""
        return sum(of == kind for _, of in self.events.values())

    def finish(self, output, stop_ids=()):
        """Takes the tokens that the method returned. Those up to and including the first stop token are
        the answer, and counted; all of them are hashed, as Unmask does."""
        self.output = list(map(int, output))
        ends = (i + 1 for i, token in enumerate(self.output) if token in stop_ids)
        self.counted = next(ends, len(self.output))

    def line(self):
        """Its trajectory: the length, then STEP:POSITION:TOKEN:KIND for each event, by steps and positions;
        a reopened position has the token -1."""
        events = (f"{forward - 1}:{position}:{token}:{kind}"
                  for (forward, position), (token, kind) in sorted(self.events.items()))
        return " ".join([str(self.gen_length), *events])


class Recorder:
    """One point: the same requests, answered in one or several timed passes."""

    def __init__(self, folder, head, program, gpus=()):
        self.folder, self.head, self.program, self.gpus = str(folder), head, program, list(gpus)
        self.passes, self.seconds, self.warmup = [], [], []

    @contextlib.contextmanager
    def timed_pass(self, warmup=False):
        """Times all requests once; a warm-up is kept apart and counts nothing."""
        self.passes.append([])
        start = time.perf_counter()
        yield self
        (self.warmup if warmup else self.seconds).append(time.perf_counter() - start)
        if warmup:
            self.passes.pop()

    def answer(self, prompt_tokens, gen_length):
        if not self.passes:
            raise UserError("answer() belongs inside timed_pass()")
        self.passes[-1].append(Answer(prompt_tokens, gen_length))
        return self.passes[-1][-1]

    def _metrics(self):
        answers = self.passes[0]
        count = {"prompt_tokens": sum(a.prompt_tokens for a in answers),
                 "canvas_tokens": sum(a.gen_length for a in answers),
                 "output_tokens": sum(a.counted for a in answers),
                 "committed": sum(len(a.decided) for a in answers),
                 "nfe": sum(a.forwards for a in answers), "rows": sum(a.rows for a in answers)}
        if not count["rows"]:
            del count["rows"]  # not told
        edits = {name: sum(a.count(kind) for a in answers)
                 for name, kind in (("replaced", "replace"), ("reopened", "reopen"))}
        if any(edits.values()):
            count |= edits
        if count["nfe"]:
            count["tpf"] = count["output_tokens"] / count["nfe"]
        seconds = intervals.mean(self.seconds)
        clock = {"wall_seconds": seconds, "tokens_per_second": count["output_tokens"] / seconds,
                 "canvas_tokens_per_second": count["committed"] / seconds}
        return count | clock, dict.fromkeys(count, "counted") | dict.fromkeys(clock, "measured")

    def _verdict(self, scored, half_width):
        """The verdict and its reason, by the rules of results/FORMAT.md."""
        for number, answers in enumerate(self.passes[1:], 2):
            if [a.output for a in answers] != [a.output for a in self.passes[0]]:
                return "INVALID", f"repetition {number} gave other tokens than the first"
        if half_width is not None and half_width > NOISY_HALF_WIDTH:
            return "NOISY", f"tokens per second known to ±{100 * half_width:.0f} % only"
        return ("PASS", "") if scored else ("NOT_VERIFIED", "nobody scored the answers")

    def row(self, scores=None):
        """The row; `scores`: a number from 0 to 1 for each request."""
        if not self.seconds or any(a.output is None for p in self.passes for a in p):
            raise UserError("a row needs a timed pass, and finish() for each of its answers")
        if scores is not None and len(scores) != len(self.passes[0]):
            raise UserError(f"{len(scores)} scores for {len(self.passes[0])} answers")
        metrics, provenance = self._metrics()
        half = intervals.half_width(self.seconds) if len(self.seconds) > 1 else None
        verdict, reason = self._verdict(scores is not None, half)
        texts = ("".join(f"{t} " for t in a.output) + "\n" for a in self.passes[0])
        score = None
        if scores is not None:
            score = {"mean": sum(scores) / len(scores), "exact": sum(s == 1 for s in scores),
                     "n": len(scores), "ci95": list(intervals.mean_interval(scores))}
        samples = {"seconds": self.seconds, "warmup_seconds": self.warmup, "half_width": half,
                   "stop": "max_repetitions"}
        return self.head | {
            "verdict": verdict, "reason": reason, "metrics": metrics, "provenance": provenance,
            "score": score, "samples": samples,
            "answers_hash": hashlib.sha256("".join(texts).encode()).hexdigest(),
            "environment": machine() | {"gpus": self.gpus}, "source_hash": "", "measured_by": self.program,
            "finished_at": now()}

    def write(self, scores=None):
        """Appends the row to rows.jsonl, writes the trajectories and returns the row."""
        row = self.row(scores)
        path = os.path.join(self.folder, "trajectories", row["point_id"] + ".txt")
        replace_file(path, "".join(f"{i} {a.line()}\n" for i, a in enumerate(self.passes[0])))
        with open(os.path.join(self.folder, "rows.jsonl"), "a", encoding="utf-8") as out:
            out.write(line_of(row) + "\n")
            out.flush()
            os.fsync(out.fileno())
        return row


def record(folder, *, program, method, like=None, model=None, workload=None, label="", params=None,
           title="", **run):
    """A Recorder of one point, whose row goes to `folder`.

    program: what measures, with its version: "PyTorch 2.15". like: a row of Unmask, or a file whose
    last row it is, on the same weights, requests and settings; model, workload and keys of [run] are
    taken from there, and the two are compared wherever rows are. Without one, model is
    {"name": ..., "parameters": ...} and workload {"family": ..., "items": ...}; each may bring its
    `hash`. run: keys of [run] that differ from `like` or from their defaults, as device="cuda"."""
    if not program:
        raise UserError("record() needs the name of the program that measures, as program=")
    if like is not None and not isinstance(like, dict):
        like = read_latest(like)[-1]
    if like is None and (model is None or workload is None):
        raise UserError("record() needs `like`, a row of Unmask, or both `model` and `workload`")
    unknown = sorted(set(run) - set(RUN_KEYS))
    if unknown:
        raise UserError(f"record(): `{unknown[0]}` is no key of [run]")
    base = like or {}
    model = dict(base.get("model", {}), **(model or {}))
    workload = dict(base.get("workload", {}), **(workload or {}))
    for part, needed in ((model, ("name", "parameters")), (workload, ("family", "items"))):
        missing = [name for name in needed if name not in part]
        if missing:
            raise UserError(f"record() needs `{missing[0]}` of the model or workload")
        part.setdefault("hash", _hash(part))
    model.setdefault("weights", "checkpoint")
    keys = {k: run.get(k, base.get(k, v)) for k, v in (RUN_KEYS | {"device": "cpu"}).items()}
    head = {"schema_version": SCHEMA, "run_id": "", "point_id": "", "title": title or program,
            "position": 0, "model": model, "workload": workload, "method": method, "preset": "",
            "label": f"{label or method} ({program})", "variation": "", "params": params or {}, **keys}
    there = base.get("environment", {})  # a row of this machine names its GPUs
    here = there.get("cpu_model") == machine()["cpu_model"] and isinstance(there.get("gpus"), list)
    return Recorder(folder, identified(head, program), program, there["gpus"] if here else ())
