# SPDX-License-Identifier: Apache-2.0
"""Runs Python that a language model wrote, and says whether it ran to its end.

Bubblewrap gives the program namespaces of its own: no network, no process and no file of this machine
but /usr, read-only. A seccomp filter (seccomp.py) lists the system calls that it may make. Limits bound
processes, memory, files and time; the limit on time is kept from outside, because no alarm inside
Python interrupts one long C call.

Inside, the first process (the guard) starts a second one that executes the program. That the program
ran to its end is seen, not told: the second process, before the program and after it, waits in one and
the same instruction of its driver, and the guard compares where in its stack the kernel finds it
waiting (/proc/PID/syscall). A program that imitates the driver waits deeper. The channel on which the
guard reports belongs to the guard alone: no descriptor, memory or frame of the program leads there.

What it promises: nothing of this machine is read, changed or kept busy beyond the limits, and no verdict
comes from another program or from an early exit. What it does not: that tests are tests. They run in the
program's own process, which may change them; a score of answers that cheat on purpose is not a score."""

import dataclasses
import json
import os
import select
import signal
import subprocess
import time

from unmask.benchmarks.score.seccomp import build_filter
from unmask.rows.errors import EnvironmentFault

BUBBLEWRAP = "/usr/bin/bwrap"
PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
NOBODY = 65534
START_SECONDS = 20  # a busy machine may be slow to make a sandbox
OUTPUT_BYTES = 64 << 10
REPORT_BYTES = 8 << 10


@dataclasses.dataclass
class Limits:
    """Of one program. In memory all of it takes at most processes * memory_bytes + 2 * folder_bytes, and what the
    kernel keeps for names: folders and empty files take none of folder_bytes. Only time ends those; four processes
    that make folders took 60 MiB a second, and as many programs run at once as there are cores."""
    seconds: float = 3.0            # of wall time, from its first statement on
    memory_bytes: int = 1 << 30     # address space of one process
    processes: int = 4              # at any time
    file_bytes: int = 1 << 20       # one file
    folder_bytes: int = 16 << 20    # /tmp, and as much again /dev/shm: nothing else can be written


@dataclasses.dataclass
class Outcome:
    verdict: str   # pass, fail, timeout or undecided
    reason: str    # as the official harnesses word it: passed, timed out, failed: ...
    output: str    # standard output and error, the first OUTPUT_BYTES of them
    seconds: float = 0.0


# The guard. argv: descriptor of the program's text, descriptor of the report, limits.
GUARD = r'''
import os, sys, time
source, report, memory, processes, file_bytes, cpu = map(int, sys.argv[1:])
# Rounds without waiting, so that the interpreter has settled on how it calls write and read. Then the
# guard looks twice: the C library may wait elsewhere once a process has had a thread.
warm = 40
once_threaded = """import _thread
lock = _thread.allocate_lock()
lock.acquire()
_thread.start_new_thread(lock.release, ())
lock.acquire()"""

def run(text):
    import resource
    for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_NPROC, processes + 1),
                       (resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_NOFILE, 64),
                       (resource.RLIMIT_CPU, cpu), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(kind, (most, most))
    def hook(event, arguments):
        # A tracer could move the driver itself to its last line.
        if event in ("sys.settrace", "sys.setprofile"):
            raise PermissionError("tracing is not allowed here")
    sys.addaudithook(hook)
    drive(text)

def drive(text):
    write, read, leave, utf8, execute = os.write, os.read, os._exit, str.encode, exec
    for program in [""] * (warm + 1) + [once_threaded, text]:
        try:
            execute(program, {})
        except BaseException as problem:
            try:
                reason = "failed: %s" % problem
            except BaseException:
                reason = "failed: "
            write(4, b"F" + utf8(reason[:2000], "utf-8", "replace"))
            leave(1)
        write(4, b"E")
        read(3, 1)

def waiting_place(process):
    """Number of the system call, its first argument, stack pointer and instruction; None: it runs."""
    with open("/proc/%d/syscall" % process) as file:
        words = file.read().split()
    return (words[0], words[1], words[-2], words[-1]) if len(words) == 9 else None

def reap(process):
    """Collects what has ended; True when the process is among it."""
    try:
        while True:
            ended = os.waitpid(-1, os.WNOHANG)[0]
            if ended == process: return True
            if ended == 0: return False
    except ChildProcessError:
        return True

def tell(text):
    os.write(report, text[:8000])
    os._exit(0)

def guard():
    with os.fdopen(source, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    to_us, from_it = os.pipe()
    to_it, from_us = os.pipe()
    process = os.fork()
    if process == 0:
        os.setsid()
        os.dup2(to_it, 13); os.dup2(from_it, 14)
        os.dup2(13, 3); os.dup2(14, 4)
        os.closerange(5, 64)
        run(text)
        os._exit(0)
    os.close(from_it); os.close(to_it)
    import ctypes, select
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # not dumpable: nobody of our user reads our memory
    def message(limit):
        """What the program's process says; empty: it says no more."""
        while True:
            ready = select.select([to_us], [], [], 0.05)[0]
            if ready: return os.read(to_us, limit)
            if reap(process) and not select.select([to_us], [], [], 0)[0]: return b""
    os.write(from_us, b"." * warm)
    for _ in range(warm):
        if message(1) != b"E": tell(b"Xthe driver did not start")
    places = []
    for stage in range(2):
        if stage: os.write(from_us, b".")
        if message(1) != b"E": tell(b"Xthe driver did not start")
        place, since = None, time.monotonic()
        while place is None or place[1] != "0x3":
            try:
                place = waiting_place(process)
            except OSError as problem:
                tell(b"Xneeds to read /proc/PID/syscall of a child: " + problem.strerror.encode())
            if time.monotonic() - since > 15: tell(b"Xthe driver was not seen waiting")
            time.sleep(0.001)
        places.append(place)
    os.write(report, b"S")
    os.write(from_us, b".")
    said = message(2048)
    if said[:1] == b"F": tell(said)
    since = time.monotonic()
    while said[:1] == b"E" and time.monotonic() - since < 1:
        try:
            if waiting_place(process) in places: tell(b"P")
        except OSError:
            break
        if reap(process): break
        time.sleep(0.001)
    tell(b"Ffailed: it ended before its last statement")

guard()
'''


def _python():
    for path in PYTHONS:
        if os.access(path, os.X_OK):
            return path
    raise EnvironmentFault(f"NOT RUN: needs {PYTHONS[0]} to run programs")


def _command(limits, slots):
    """The words that start the sandbox; slots: descriptors of text, report, filter and information."""
    text, report, filtered, information = slots
    words = [BUBBLEWRAP, "--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1",
             "--cap-drop", "ALL", "--uid", NOBODY, "--gid", NOBODY, "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "lib", "lib64"):
        words += ["--symlink", f"usr/{name}", f"/{name}"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for folder in ("/dev/shm", "/tmp"):
        words += ["--size", limits.folder_bytes, "--tmpfs", folder]
    words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp",
              "--info-fd", information, "--seccomp", filtered, _python(), "-I", "-S", "-c", GUARD,
              text, report, limits.memory_bytes, limits.processes, limits.file_bytes,
              int(limits.seconds + START_SECONDS) + 1]
    return [str(word) for word in words]


def _memory_file(content):
    file = os.memfd_create("unmask", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(file), "wb") as out:
        out.write(content)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _may_become_nobody():
    """Whether the sandbox can be made by a user without rights: root is bound by no limit on
    processes. The root of a user namespace without other users is bound, and stays itself."""
    if os.geteuid() != 0:
        return False
    with open("/proc/self/uid_map", encoding="ascii") as file:
        ranges = [list(map(int, line.split())) for line in file]
    return any(first <= NOBODY < first + count for first, _, count in ranges)


def _start(limits, slots, output):
    identity = {}
    if _may_become_nobody():
        identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    try:
        # The environment is empty: /proc/1/environ inside would show it.
        return subprocess.Popen(_command(limits, slots), stdin=subprocess.DEVNULL, stdout=output,
                                stderr=output, env={}, pass_fds=slots, start_new_session=True,
                                **identity)
    except OSError as problem:
        raise EnvironmentFault(f"NOT RUN: needs bubblewrap to run programs: {BUBBLEWRAP}: "
                               f"{problem.strerror}") from None


def _end(process, information):
    """Kills everything in the sandbox and leaves no zombie: the first process inside first, so that
    bubblewrap itself collects it."""
    with os.fdopen(information, "rb", closefd=False) as file:
        os.set_blocking(information, False)
        try:
            inside = json.loads(file.read() or b"{}").get("child-pid", 0)
        except (ValueError, TypeError):
            inside = 0
    if inside and process.poll() is None:
        try:
            os.kill(inside, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            pass
    if process.poll() is None:
        process.kill()
    process.wait()


class _Reader:
    """Collects what comes from descriptors, at most so many bytes of each, and drops the rest."""

    def __init__(self, room):
        self.room = room
        self.text = {file: b"" for file in room}
        for file in room:
            os.set_blocking(file, False)

    def take(self, file):
        """False when nothing more can come."""
        try:
            part = os.read(file, 1 << 14)
        except BlockingIOError:
            return True
        self.text[file] += part[:self.room[file] - len(self.text[file])]
        return bool(part)

    def take_all(self, file):
        for _ in range(64):
            if not self.take(file):
                return


def _watch(process, report, output, limits):
    """Waits for the verdict or the time; returns report, output, whether the time is up, seconds."""
    reader = _Reader({report: REPORT_BYTES, output: OUTPUT_BYTES})
    open_files = [report, output]
    started, runs, left = time.monotonic(), False, START_SECONDS
    while left > 0 and report in open_files:
        for file in select.select(open_files, [], [], left)[0]:
            if not reader.take(file):
                open_files.remove(file)
        said = reader.text[report]
        if not runs and said[:1] == b"S":
            started, runs = time.monotonic(), True
        if len(said) > 1 or (said and not runs):
            break
        left = (limits.seconds if runs else START_SECONDS) - (time.monotonic() - started)
    seconds = time.monotonic() - started
    process.poll()
    for file in open_files:
        reader.take_all(file)
    return reader.text[report], reader.text[output], left <= 0, seconds


def run_program(text, limits=Limits()):
    """Executes the text, an answer and its tests, as `exec` does in an empty module.

    It passes if its module returned without an exception, which an answer reaches when all its tests hold. One
    that is made to cheat reaches it too: a program can change its own bytecode so that it returns before its
    tests, or answer with an object that equals everything. Where the sandbox did not start in time
    the outcome is undecided. EnvironmentFault where no sandbox can be made."""
    report, report_in = os.pipe()
    output, output_in = os.pipe()
    information, information_in = os.pipe()
    ours = [report, output, information]
    theirs = [_memory_file(text.encode("utf-8", "replace")), report_in,
              _memory_file(build_filter()), information_in]
    try:
        process = _start(limits, theirs, output_in)
        for file in theirs + [output_in]:
            os.close(file)
        theirs, output_in = [], -1
        try:
            said, printed, late, seconds = _watch(process, report, output, limits)
        finally:
            _end(process, information)
    finally:
        for file in ours + theirs + ([output_in] if output_in >= 0 else []):
            os.close(file)
    return _outcome(said, printed.decode("utf-8", "replace"), late, seconds)


def _outcome(said, printed, late, seconds):
    if said[:1] != b"S":
        if late:
            return Outcome("undecided", f"the sandbox did not start within {START_SECONDS} s", printed)
        reason = said[1:].decode("utf-8", "replace") or printed.strip()[:300] or "no reason was given"
        raise EnvironmentFault(f"NOT RUN: needs a sandbox for programs, which did not start: {reason}")
    said = said[1:]
    if said[:1] == b"P":
        return Outcome("pass", "passed", printed, seconds)
    if said[:1] == b"F":
        return Outcome("fail", said[1:].decode("utf-8", "replace"), printed, seconds)
    if late:
        return Outcome("timeout", "timed out", printed, seconds)
    return Outcome("fail", "failed: it ended before its last statement", printed, seconds)


def missing():
    """Why no program can be run on this machine, or None. Tries it."""
    try:
        outcome = run_program("")
    except EnvironmentFault as problem:
        return str(problem)
    return None if outcome.verdict == "pass" else f"NOT RUN: needs a sandbox for programs: {outcome.reason}"
