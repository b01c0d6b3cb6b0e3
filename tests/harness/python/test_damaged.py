# SPDX-License-Identifier: Apache-2.0
"""Every kind of file that the package reads, damaged: whoever reads it goes on or ends with the package's own
error, whose sentence cannot steer a terminal. $UNMASK_DAMAGED says how many files of each kind (default 200),
$UNMASK_DAMAGED_SEED what they are drawn from."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / folder) for folder in ("harness/python", "plots", "tests", "tests/harness/python")]
import damage  # noqa: E402
import nsight  # noqa: E402
import support  # noqa: E402
import trace_compare  # noqa: E402
import unmask.__main__  # noqa: E402
import unmask.claims.judge  # noqa: E402
from unmask import probes  # noqa: E402
from unmask.claims import claims  # noqa: E402
from unmask.claims.declare import read_register  # noqa: E402
from unmask.jobs import bundle, campaign  # noqa: E402
from unmask.page import page  # noqa: E402
from unmask.rows import experiments, manifest, runs  # noqa: E402
from unmask.rows.errors import UserError  # noqa: E402
from unmask.rows.intervals import Estimate  # noqa: E402
from unmask.tables import layout, published  # noqa: E402

COUNT = int(os.environ.get("UNMASK_DAMAGED", "200"))
SEED = int(os.environ.get("UNMASK_DAMAGED_SEED", "7"))
PATIENCE, MEMORY = 20, 3 << 30  # seconds of processor time for one file, bytes for all
PAUSE = None
MANIFEST = support.manifest(paper="focus", artifact="table_5", scale="tiny", set=["run.seed=1"],
                            plan=[{"id": "a"}, {"id": "b"}])
SAMPLES = [{"doc_id": n, "doc": {"question": "2+2"}, "target": "4", "resps": [["4"]], "filtered_resps": ["4"],
            "point_id": "p", "run_id": "r", "item": f"i{n}", "group": "g", "scorer": "exact_answer",
            "benchmark": None, "check": {"answer": "4"}, "scored": True, "value": n % 2, "note": ""}
           for n in range(4)]
STEPS = [{"position": [4, 5, 6], "token": [1, 2, 3], "confidence": [0.5, 0.25, 0.75], "accepted": [False, False, True]},
         {"position": [4, 5], "token": [1, 9], "confidence": [0.875, 0.5], "accepted": [True, True],
          "edits": [[6, 2, 0.625]]}]
TRACE = [{"kind": "probes", "version": 1, "tau": 0.5, "margin": 0.0, "sink_share": 0.1, "every": 1,
          "reference_block": 4, "names": ["confidence", "stagnation", "contradiction", "kv_change", "importance",
                                          "decoding"]},
         {"kind": "request", "prompt": 4, "canvas": 4, "stops": [], "rows": 8, "steps": STEPS, "score": 1.0,
          "peak_scores": [1.0], "revised": 1},
         {"kind": "kv_change", "sums": [[0, 0, "prompt", 1.0, 1.0, 4], [1, 0, "block", 0.5, 0.5, 4],
                                      [1, 0, "after", 0.5, 0.5, 4], [0, 1, "prompt", 1.0, 2.0, 4]]},
         {"kind": "importance", "steps": [{"accepted": [4], "undecided": [5],
                                           "layers": [
              {"masked": [[4, 5], [0.5, 0.25]], "all": [[3, 4, 5], [0.1, 0.5, 0.25]]},
              {"masked": [[4, 5], [0.25, 0.75]], "all": [[3, 4, 5], [0.2, 0.25, 0.75]]}]}]}]


def lines_of(objects):
    return "".join(json.dumps(o) + "\n" for o in objects).encode()


def files_below(folder, pattern, most=20000):
    return [p.read_bytes() for p in sorted((ROOT / folder).glob(pattern)) if p.stat().st_size < most]


class Late(BaseException):
    """A file on which a reader takes longer than it may; nothing below catches it."""


def _late(*_):
    raise Late


class Damaged(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.draw = random.Random(SEED)
        before = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, before[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_DATA, before)
        signal.signal(signal.SIGPROF, _late)

    def tried(self, name, seeds, change, read, count=COUNT, raises=True):
        """Gives read(path) the seeds, which are read, then so many damaged files of this name; raises: it
        raises the package's errors, and does not say them itself."""
        faults, refused, place, began = {}, 0, self.folder / name, time.monotonic()
        for seed in seeds:
            place.write_bytes(seed)
            experiments.read_toml.cache_clear()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                read(place)
        for number in range(count):
            data = change(self.draw.choice(seeds), self.draw)
            place.write_bytes(data)
            experiments.read_toml.cache_clear()
            said = io.StringIO()
            try:
                signal.setitimer(signal.ITIMER_PROF, PATIENCE)
                with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                    read(place)
            except UserError as problem:
                refused += 1
                self.assertTrue(str(problem), name)
            except (Exception, Late) as problem:  # pylint: disable=broad-exception-caught
                at, last = problem.__traceback__, ""
                while at is not None:
                    last, at = f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}", at.tb_next
                key = f"{type(problem).__name__} {last}"
                if key not in faults:
                    faults[key] = f"{key}: {str(problem)[:200]}; file {number}: {data[:1500]!r}"
                    self.kept(name, number, data)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            if "\x1b" in said.getvalue():
                faults["ESC"] = f"file {number} steers the terminal: {said.getvalue()[:200]!r}"
        print(f"{name}: {count} damaged files, {refused} refused, {len(faults)} kinds of fault, "
              f"{time.monotonic() - began:.0f} s", flush=True)
        self.assertEqual(list(faults.values()), [])
        if raises:  # damage of which all is refused, or none, would test one half alone
            self.assertGreater(refused, 0)
            self.assertLess(refused, count)

    def kept(self, name, number, data):
        folder = os.environ.get("UNMASK_DAMAGED_KEEP")
        if folder:
            pathlib.Path(folder, f"{number}-{name}").write_bytes(data)

    def test_a_reader_that_never_ends_is_told_from_a_busy_machine(self):
        """Which file takes long is counted in time of this process: other work on the machine is none of it."""
        def once(wait):
            self.tried("a", [b""], lambda seed, draw: b"x", lambda path: wait() if path.read_bytes() else None, 1, False)

        def spin():
            while True:
                pass
        with unittest.mock.patch.dict(globals(), PATIENCE=0.2):
            once(lambda: time.sleep(0.5))
            with self.assertRaisesRegex(AssertionError, "^Lists differ.*Late"):
                once(spin)

    def test_manifests_of_runs(self):
        shutil.copy(ROOT / "tests/plots/data/decode.jsonl", self.folder / "rows.jsonl")

        def read(path):
            runs.origin(runs.Run("p", []), str(path.parent), str(ROOT / "experiments"))
            manifest.planned_ids(path)
            manifest.name_of(manifest.read_manifest(path))
        self.tried("run.json", [MANIFEST.encode()],
                   damage.changed_document, read)

    def test_bundles(self):
        run = self.folder / "made"
        run.mkdir()
        (run / "run.json").write_text(MANIFEST)
        (run / "rows.jsonl").write_text(support.line("a"))
        (run / "table.md").write_text("| a |\n")
        bundle.write(str(run), str(self.folder / "made.tar"))
        plain = (self.folder / "made.tar").read_bytes()
        seeds = [plain] * 3
        for how in (bundle.gzip, bundle.bz2, bundle.lzma):
            seeds.append(how.compress(plain))

        def read(path):
            try:
                bundle.unpack(path, self.folder / "into")
                self.assertTrue((self.folder / "into").is_dir())
            except UserError:
                self.assertFalse(os.path.lexists(self.folder / "into"), "a refused bundle left something")
                raise
            finally:
                shutil.rmtree(self.folder / "into", ignore_errors=True)
        self.tried("b.tar", seeds, self.changed_bundle, read)
        self.assertEqual(sorted(os.listdir(self.folder)), ["b.tar", "made", "made.tar"])

    def changed_bundle(self, data, draw):
        """Bytes changed; or a member, or the name, kind or size of one, with hashes that agree or do not."""
        if draw.random() < 0.5 or not data.startswith(b"focus"):
            return damage.changed_bytes(data, draw)
        out = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=out, mode="w") as new:
            members = [(m, old.extractfile(m).read()) for m in old]
            sums = {}
            for member, content in draw.sample(members[:-1], len(members) - 1) + members[-1:]:
                if draw.random() < 0.05:
                    member.name = draw.choice(("../a", "/a", "focus/../../a", "a\x1b[2J/b", "b/\udc80", "b", "",
                                               "focus_table_5_tiny/run.json", "b/" + "a" * 5000))
                if draw.random() < 0.05:
                    member.type = draw.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE,
                                               tarfile.DIRTYPE, b"Z", tarfile.GNUTYPE_SPARSE))
                    member.linkname = draw.choice(("/etc/passwd", "../../x", ""))
                if draw.random() < 0.2:
                    content = damage.changed_bytes(content, draw)
                sums[member.name] = hashlib.sha256(content).hexdigest()
                if member.name.endswith(bundle.SUMS) and draw.random() < 0.7:  # all hashes right
                    content = "".join(f"{of}  {name.partition('/')[2]}\n" for name, of in sums.items()
                                      if not name.endswith(bundle.SUMS)).encode("utf-8", "surrogateescape")
                member.size = len(content)
                new.addfile(member, io.BytesIO(content))
        data = out.getvalue()
        if draw.random() < 0.1:  # sizes of a member that are not those of its content, with a right checksum
            size = draw.choice((0, 1, 2 ** 33 - 1))
            head = bytearray(data[:512])
            head[124:136], head[148:156] = b"%011o\0" % size, b" " * 8
            head[148:156] = b"%06o\0 " % sum(head)
            data = bytes(head) + data[512:]
        return data

    def test_published_numbers(self):
        seeds = files_below("experiments/published", "*.toml", 200000)
        seeds = [s[:1500].rpartition(b"\n\n")[0] for s in seeds] + [
            s[:300].split(b"[[")[0] + b"[[inconsistency]]\nwhere = 'a'\nwhat = 'b'\nartifact = 'c'\n" for s in seeds]
        seeds = [s.replace(s.split(b'paper = "')[1].split(b'"')[0], b"p", 1) for s in seeds if b'paper = "' in s]
        self.tried("p.toml", seeds, damage.changed_bytes, published.read_published)

    def test_experiment_files(self):
        seeds = files_below("experiments/focus", "*.toml") + files_below("experiments/optimus", "*.toml")

        def read(path):
            experiments.artifact_of(path)
            for scale in ["", *experiments.scales_of(path)[:2]]:
                experiments.place_of(path, scale)
                experiments.stated_needs(path, scale)
                layout.read_layout(path, scale)
        os.symlink(ROOT / "experiments/published", self.folder / "published")
        (self.folder / "focus").mkdir()
        # Figure 10 extends it.
        os.symlink(ROOT / "experiments/focus/figure_2.toml", self.folder / "focus/figure_2.toml")
        self.tried("focus/e.toml", seeds, damage.changed_bytes, read)

    def test_dates_of_claims(self):
        register = read_register(str(ROOT / "experiments/claims"))
        seed = (ROOT / "experiments/claims/register.json").read_bytes()
        half = dict(list(json.loads(seed).items())[:6])
        of_half = [c for c in register.claims if c.key in half]

        def read(path):
            since = claims.read_since(str(path.parent))
            for c in of_half:
                unmask.claims.judge._register_state(c, unmask.claims.judge.Result(scale="tiny"),
                                                      "2026-01-01T00:00:00Z", since)
            claims.write_since(str(path.parent), register)
        self.tried("register.json", [json.dumps(half, indent=1).encode()],
                   damage.changed_document, read)

    def test_files_of_claims(self):
        text = (ROOT / "experiments/minimal_claim.py").read_bytes().replace(b'"minimal_experiment"', b'"table_5"')
        folder = self.folder / "experiments/claims"
        folder.mkdir(parents=True)
        os.symlink(ROOT / "experiments/focus", folder.parent / "focus")

        def read(path):
            shutil.copy(path, folder / "focus.py")
            register = read_register(str(folder))
            claims.list_claims(register, register.claims)
            for c in register.claims:
                claims.claim_json(c, unmask.claims.judge.Result(scale="tiny"), register)
        self.tried("focus.py", [text], damage.changed_bytes, read)

    def test_judged_claims_on_a_page(self):
        register = read_register(str(ROOT / "experiments/claims"))
        found = Estimate(1.5, 1.25, 1.75, 8)
        kept = [claims.claim_json(c, unmask.claims.judge.Result(
            verdict, scale="tiny", reason="because", finding=types.SimpleNamespace(estimate=found, quality=None),
            each=[(verdict, found)]), register)
            for c, verdict in zip(register.claims, ("SUPPORTED", "PARTLY", "OPEN"))]

        def read(path):
            for claim in page._claims_in(str(path)):
                self.assertIsInstance(claim["tone"], str)
        self.tried("claims.json", [json.dumps(kept, indent=1).encode()],
                   damage.changed_document, read)

    def test_logs_of_campaigns(self):
        log = b"".join((ROOT / "results/tiny/campaign.jsonl").read_bytes().splitlines(keepends=True)[:8])
        def read(path):
            notes = page.campaign_table(str(path)).notes
            if len(notes) > 1:
                raise UserError("a line that is no entry was left out and said")
        self.tried("campaign.jsonl", [log], damage.changed_lines, read)

    def test_records_of_campaigns(self):
        record = {"number": 1, "program": "unmask 1", "register": "abc", "seed": 0, "began": "2026-01-01T00:00:00Z",
                  "load_at_begin": [0.5, 0.25, 0.125], "ended": "2026-01-01T01:00:00Z"}
        register = read_register(str(ROOT / "experiments/claims"))

        def read(path):
            (self.folder / "1").mkdir(exist_ok=True)
            shutil.copy(path, self.folder / "1" / campaign.RECORD)
            campaign.begin(str(self.folder), 2, "unmask 1", register)
        self.tried("record", [json.dumps(record | {"register": register.hash}).encode()],
                   damage.changed_document, read)

    def test_sample_files(self):
        def read(path):
            code = unmask.__main__.call(["score", str(path)])
            self.assertEqual(code, 0)
        self.tried("samples_a_b.jsonl", [lines_of(SAMPLES)], damage.changed_lines, read)

    def test_a_summary_of_samples_cannot_steer_the_terminal(self):
        (self.folder / "samples_a_b.jsonl").write_bytes(lines_of(
            [s | {"scorer": "\x1b[2Jown", "note": "\x9b31m", "scored": False} for s in SAMPLES]))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(unmask.__main__.call(["score", str(self.folder)]), 0)
        self.assertIn("\\u001b[2Jown", said.getvalue())
        self.assertIn("\\u009b31m", said.getvalue())

    def test_traces_of_probes(self):
        self.tried("trace.jsonl", [lines_of(TRACE)], damage.changed_lines, lambda path: probes.compute(str(path)))

    def test_rows(self):
        seeds = []
        for name in ("decode", "probes", "serving", "traces", "phases", "capacity", "chunks"):
            lines = [line for line in (ROOT / f"tests/plots/data/{name}.jsonl").read_bytes().splitlines(keepends=True)
                     if len(line) < 60000]
            seeds += [b"".join(lines[i:i + 3]) for i in range(0, len(lines), 3)]
        commands = (["table", "FILE", "--view", "paired"], ["table", "FILE", "--view", "columns"],
                    ["crossover", "FILE"], ["compare", "FILE", "FILE"],
                    ["report", "FILE", "--data", "-o", str(self.folder / "data")],
                    ["merge", "FILE", "-o", str(self.folder / "data")])

        def read(path):
            command = [str(path) if word == "FILE" else word for word in self.draw.choice(commands)]
            self.assertIn(unmask.__main__.main(command), (0, 2, 3, 4))
        self.tried("rows.jsonl", seeds, damage.changed_lines, read, max(COUNT, 1000), raises=False)

    def of_a_script(self, main, *words):
        code = main(list(words))
        self.assertIn(code, (0, 1, 3))
        if code:
            raise UserError("it said so")

    def test_traces_of_events(self):
        track = {"pid": 1, "tid": 2}
        events = [track | {"ph": "X", "ts": 1.5, "dur": 4, "name": "run", "cat": "phase"},
                  track | {"ph": "X", "ts": 2, "dur": 1, "name": "denoise", "cat": "phase"},
                  track | {"ph": "C", "ts": 2, "name": "step", "args": {"rows": 4}}]
        self.tried("trace.json", [json.dumps({"traceEvents": events}).encode()], damage.changed_document,
                   lambda path: self.of_a_script(trace_compare.main, str(path), str(path), "--engine", "sqlite"))

    def test_reports_of_nsight_compute(self):
        csv = (b'==PROF== done\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value",'
               b'"thread Domain:Push/Pop_Range:PL_Type"\n'
               b'"0","gemm","Duration","us","1,204.5","unmask:denoise:none"\n"1","norm","Duration","ns","12","-"\n')
        rows = self.folder / "rows.jsonl"
        rows.write_bytes((ROOT / "tests/plots/data/decode.jsonl").read_bytes().splitlines(keepends=True)[0])
        self.tried("k.csv", [csv], damage.changed_bytes, lambda path: self.of_a_script(
            nsight.main, str(rows), "--ncu", str(path), "-o", str(self.folder / "out.jsonl")))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
