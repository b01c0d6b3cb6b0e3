# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Stages of the GPU check: each under its own time limit and with its own log; one that fails or
hangs stops nothing, one whose program or input is not there is NOT RUN and says why. After every
stage, and while a long one runs, everything measured so far is written into one archive."""

import dataclasses
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# The packed program lies elsewhere and finds tasks and models here.
os.environ.setdefault("UNMASK_ROOT", ROOT)
# What may come back from a borrowed machine: 16 MiB a file. A little below, for the archive's head.
ARCHIVE_LIMIT = 15 << 20
FLUSH_SECONDS = 30
# What tests/softgpu says of a broken rule.
FINDING = re.compile(r"softgpu: (NOTE|FAULT|HOST|no |unknown)[^\n]*")


class NotRun(Exception):
    """The stage cannot run here; the sentence says what it needs."""


class Failed(Exception):
    """The stage ran and something is wrong."""


class Partial(Exception):
    """The stage measured something, but not all of it; the sentence says what is missing."""


@dataclasses.dataclass
class Settings:
    build: str             # folder with bin/
    results: str           # folder of what comes back: NAME.tar.gz and NAME.md
    work: str              # folder that the stages write into
    name: str = "gpu-first"
    budget: float = 240.0  # seconds for everything
    gpu: bool = True
    problem: str = ""      # why there is no GPU
    # What stands in for the GPU: "emulator" (and the CPU), "software" (tests/softgpu), "" nothing.
    rehearse: str = ""
    only: tuple = ()       # names of the stages to run; empty: all
    cases: str = ""        # of operations, kernels and products: those that this expression finds

    @property
    def slower(self):
        """Limits are multiplied by this: a GPU in software takes longer, and a machine that tests has other work."""
        return {"software": 20, "emulator": 4}.get(self.rehearse, 1)


class Check:
    def __init__(self, settings):
        self.settings = settings
        self.start = self.flushed = time.monotonic()
        self.records = []
        self.left_out = []
        self.reason_without_backend = ""
        for folder in (settings.results, settings.work):
            os.makedirs(folder, exist_ok=True)

    def left(self):
        return self.settings.budget - (time.monotonic() - self.start)

    # What stands for the GPU: of `unmask` commands, of single operations, of kernel tests.
    @property
    def device(self):
        return "cpu" if self.settings.rehearse == "emulator" else "cuda"

    @property
    def in_software(self):
        return self.settings.rehearse == "software"

    @property
    def backend(self):
        return "cuda-emulated" if self.settings.rehearse == "emulator" else "cuda"

    # ---- running programs -----------------------------------------------------------------------

    def program(self, name):
        path = os.path.join(self.settings.build, "bin", name)
        if not os.access(path, os.X_OK):
            raise NotRun(f"needs {name}, which this build does not have")
        return path

    def tool(self, name):
        """A profiler's or sanitizer's command; on the emulator its stand-in."""
        if self.in_software:
            raise NotRun(f"{name} needs a GPU: it cannot look into one in software")
        found = shutil.which(name) or next(iter(sorted(glob.glob(f"/usr/local/cuda*/bin/{name}")) +
                                                sorted(glob.glob(f"/opt/nvidia/*/*/{name}"))), None)
        if found and not self.settings.rehearse:
            return [found]
        if self.settings.rehearse:
            return [sys.executable, "-B", os.path.join(HERE, "stand_in.py"), name]
        raise NotRun(f"needs {name} on PATH or below /usr/local/cuda*")

    def run(self, command, log, limit, output=None, allowed=(0,), env=None):
        """Runs a command in a process group of its own; kills all of it at the limit. Output goes to
        the log, standard output to `output` where one is named. Returns the exit code."""
        log.write("$ " + " ".join(command) + "\n")
        log.flush()
        out = open(output, "wb") if output else log
        try:
            process = subprocess.Popen(command, stdout=out, stderr=log, stdin=subprocess.DEVNULL,
                                       cwd=ROOT, start_new_session=True,
                                       env={**os.environ, **(env or {})})
            end = time.monotonic() + max(limit, 0.1)
            while True:
                rest = end - time.monotonic()
                try:
                    code = process.wait(timeout=max(min(rest, FLUSH_SECONDS), 0.01))
                    break
                except subprocess.TimeoutExpired:
                    if end - time.monotonic() <= 0:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()
                        raise
                    self.flush()
        finally:
            if output:
                out.close()
        if code not in allowed:
            raise Failed(f"{os.path.basename(command[0])} ended with {code}")
        return code

    def text_of(self, command, limit=20, env=None):
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=ROOT,
                              stdin=subprocess.DEVNULL, check=False,
                              env={**os.environ, **(env or {})})
        return done.returncode, done.stdout, done.stderr

    def path(self, name):
        return os.path.join(self.settings.work, name)

    # ---- bookkeeping ----------------------------------------------------------------------------

    def shorter(self, log, what):
        """Says in the log what a rehearsal in software leaves out; returns it for the table."""
        log.write(f"rehearsed in software: {what}\n")
        log.flush()
        return f" ({what})"

    def stage(self, name, limit, work, needs_gpu=True):
        """work(log, limit) returns a sentence for the table, or raises one of the above."""
        if self.settings.only and name not in self.settings.only:
            return
        begin = time.monotonic()
        status, reason = "OK", ""
        limit = min(limit * self.settings.slower, self.left())
        log_name = self.path(name.replace(" ", "-") + ".log")
        with open(log_name, "a", encoding="utf-8") as log:
            try:
                if needs_gpu and not (self.settings.gpu or self.settings.rehearse):
                    raise NotRun("needs a GPU")
                if needs_gpu and self.reason_without_backend:
                    raise NotRun(self.reason_without_backend)
                if limit < 1:
                    raise NotRun(f"the {self.settings.budget:.0f} s for the whole check are used up")
                reason = work(log, limit) or ""
                self.look_for_findings(log)
            except NotRun as why:
                status, reason = "NOT RUN", str(why)
            except Partial as why:
                status, reason = "PARTIAL", str(why)
            except Failed as why:
                status, reason = "FAILED", str(why)
            except subprocess.TimeoutExpired:
                status, reason = "TIMEOUT", f"killed after {limit:.0f} s; what it wrote is kept"
            except Exception as why:  # pylint: disable=broad-except
                # A fault of this script must not cost the stages that follow.
                status, reason = "FAILED", f"{type(why).__name__}: {why}"
            log.write(f"{status} {reason}\n")
        record = {"stage": name, "status": status, "limit": round(limit, 1),
                  "seconds": round(time.monotonic() - begin, 3), "reason": reason,
                  "log": os.path.basename(log_name), "rehearsed": self.settings.rehearse}
        self.records.append(record)
        with open(self.path("stages.jsonl"), "a", encoding="utf-8") as out:
            out.write(json.dumps(record) + "\n")
            out.flush()
            os.fsync(out.fileno())
        print(f"{status:8} {name:24} {record['seconds']:7.1f} s  {reason}", flush=True)
        self.flush()

    def look_for_findings(self, log):
        """A rule that the GPU in software saw broken fails the stage, whatever came out."""
        if not self.in_software:
            return
        log.flush()
        with open(log.name, encoding="utf-8", errors="replace") as text:
            found = FINDING.search(text.read())
        if found:
            raise Failed("the GPU in software found: " + found.group(0))

    def flush(self):
        """Everything so far as RESULTS/NAME.tar.gz, replaced at once. When it grows over what may
        come back, the largest files are left out and named in left-out.txt."""
        self.flushed = time.monotonic()
        target = os.path.join(self.settings.results, self.settings.name + ".tar.gz")
        fresh = f"{target}.{os.getpid()}.new"  # of this check alone
        while True:
            self._write_archive(fresh)
            if os.path.getsize(fresh) <= ARCHIVE_LIMIT:
                break
            sizes = [(os.path.getsize(p), p) for p in self._files() if p not in self.left_out]
            self.left_out.append(max(sizes)[1])
            with open(self.path("left-out.txt"), "w", encoding="utf-8") as out:
                out.writelines(os.path.relpath(p, self.settings.work) + "\n"
                               for p in self.left_out)
        os.replace(fresh, target)

    def _files(self):
        """What travels: all but links to programs."""
        every = (os.path.join(folder, f) for folder, _, files in os.walk(self.settings.work)
                 for f in files)
        return sorted(path for path in every if not os.path.islink(path))

    def _write_archive(self, file):
        with tarfile.open(file, "w:gz", compresslevel=3) as archive:
            for path in self._files():
                if path in self.left_out:
                    continue
                try:
                    archive.add(path, os.path.join(self.settings.name,
                                                   os.path.relpath(path, self.settings.work)))
                except FileNotFoundError:
                    pass  # a program's temporary file


def gpu_problem():
    """Empty when there is a GPU, else the sentence that says why not."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return "no GPU: nvidia-smi is not on PATH"
    try:
        done = subprocess.run([smi, "-L"], capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return "no GPU: nvidia-smi does not answer"
    if done.returncode != 0 or "GPU" not in done.stdout:
        text = (done.stdout + done.stderr).strip().split("\n")[0]
        return f"no GPU: nvidia-smi says '{text}'"
    return ""


def json_lines(path):
    rows = []
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as text:
            for line in text:
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    pass  # torn by a kill
    return rows
