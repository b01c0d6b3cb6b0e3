# SPDX-License-Identifier: Apache-2.0
"""Judges answers in processes of their own, with limits on time and memory.

An answer is a stranger's text, and the libraries that judge it may recurse, loop or take all memory. Each
process judges one item after the other; one that reaches a limit or dies is replaced, and its item, no
other, is undecided. The processes are copies (fork) of this one, so libraries are loaded once.

lm-eval and math-verify end a comparison by an alarm after five seconds of the clock on the wall and count
it as wrong. Here alarms are off and the limit is on processor time: what reaches it is undecided, and a
loaded machine changes no verdict."""

import ctypes
import dataclasses
import gc
import multiprocessing
import os
import resource
import signal
import sys
import time
from multiprocessing.connection import wait


@dataclasses.dataclass
class Limits:
    """Of one item."""
    cpu_seconds: float = 20      # of the judge's own processor time: a loaded machine changes nothing
    wall_seconds: float = 300    # of the clock, for a judge that sleeps
    memory_bytes: int = 4 << 30  # above what the loaded libraries take


@dataclasses.dataclass
class _Worker:
    process: int
    pipe: object
    item: int = -1
    since: float = 0
    cpu: float = 0


def undecided(reason):
    return {"status": "undecided", "note": f"undecided: {reason}"}


def _address_space():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _cpu_seconds(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _judge_one(judge, item):
    try:
        return judge(item)
    except MemoryError:
        return undecided("the judge ran out of memory")
    except Exception as problem:  # noqa: BLE001  (whatever an answer makes a library raise is that item's)
        return undecided(f"{type(problem).__name__}: {problem}"[:300])


def _serve(pipe, items, judge, memory):
    """The life of a process that judges; it ends with the one that started it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    signal.alarm = lambda seconds: 0
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(nothing, file)
    most = _address_space() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            item = items[pipe.recv()]
        except EOFError:
            return
        pipe.send(_judge_one(judge, item))


def _start(items, judge, memory):
    ours, theirs = multiprocessing.Pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            ours.close()
            _serve(theirs, items, judge, memory)
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    return _Worker(process, ours)


def _end(worker):
    """Kills the process and collects it."""
    os.kill(worker.process, signal.SIGKILL)
    worker.pipe.close()
    os.waitpid(worker.process, 0)


def _died(worker):
    """Collects a process that ended by itself; returns how."""
    worker.pipe.close()
    status = os.waitpid(worker.process, 0)[1]
    if os.WIFSIGNALED(status):
        return f"the judge was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return "the judge ended by itself"


def _overdue(worker, limits):
    """Why an item has had its time, or ""."""
    if _cpu_seconds(worker.process) - worker.cpu > limits.cpu_seconds:
        return f"the judge took more than {limits.cpu_seconds:g} s of processor time"
    if time.monotonic() - worker.since > limits.wall_seconds:
        return f"the judge took more than {limits.wall_seconds:g} s"
    return ""


def judge_all(items, judge, workers=0, limits=Limits()):
    """[judge(item) for item in items], each in a process of its own kind; a result that an item's judge
    could not give is {"status": "undecided", "note": ...}. Results keep the order of the items.

    workers: number of processes; 0: one a core."""
    results = [None] * len(items)
    waiting = list(range(len(items)))[::-1]
    number = min(workers or len(os.sched_getaffinity(0)), len(items))
    gc.freeze()
    pool = [_start(items, judge, limits.memory_bytes) for _ in range(number)]

    def replace(worker):
        pool.remove(worker)
        if waiting:
            pool.append(_start(items, judge, limits.memory_bytes))

    def hand_out():
        for worker in pool:
            if worker.item < 0 and waiting:
                worker.item, worker.since = waiting.pop(), time.monotonic()
                worker.cpu = _cpu_seconds(worker.process)
                worker.pipe.send(worker.item)

    try:
        hand_out()
        while any(worker.item >= 0 for worker in pool):
            ready = wait([w.pipe for w in pool if w.item >= 0], 0.2)
            for worker in [w for w in pool if w.pipe in ready]:
                try:
                    results[worker.item] = worker.pipe.recv()
                    worker.item = -1
                except (EOFError, OSError):
                    results[worker.item] = undecided(_died(worker))
                    replace(worker)
            for worker in [w for w in pool if w.item >= 0]:
                reason = _overdue(worker, limits)
                if reason:
                    results[worker.item] = undecided(reason)
                    _end(worker)
                    replace(worker)
            hand_out()
    finally:
        for worker in pool:
            _end(worker)
    return results
