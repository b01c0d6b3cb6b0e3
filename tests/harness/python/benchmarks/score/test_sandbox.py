# SPDX-License-Identifier: Apache-2.0
"""The sandbox for generated programs: recorded hostile programs, forged completion, sockets, memory,
zombies, and users of several kinds."""

import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import support

support.needs_sandbox()

from unmask.benchmarks.score import sandbox, seccomp  # noqa: E402
from unmask.benchmarks.score.sandbox import Limits, run_program  # noqa: E402

PACKAGE = os.path.join(support.ROOT, "harness", "python")

# Ways to claim an end that was not reached. Each is followed by a failing check.
FORGED = {
    "the driver's messages": "import os\nos.write(4, b'E')\nos.read(3, 1)\n",
    "the driver's messages and an exit": "import os\nos.write(4, b'E')\nos._exit(0)\n",
    "a verdict into every descriptor":
        "import os\nfor f in range(3, 64):\n    for text in (b'P', b'SP', b'EP'):\n"
        "        try: os.write(f, text)\n        except OSError: pass\nos._exit(0)\n",
    "locals of every frame":
        "import os, sys\nframe = sys._getframe()\nwhile frame:\n"
        "    for value in list(frame.f_locals.values()):\n"
        "        if isinstance(value, (bytes, str)):\n"
        "            data = value.encode() if isinstance(value, str) else value\n"
        "            for f in range(3, 64):\n"
        "                try: os.write(f, b'P' + data)\n                except OSError: pass\n"
        "    frame = frame.f_back\nos._exit(0)\n",
    "a thread that speaks for the driver":
        "import os, threading, time\n"
        "threading.Thread(target=lambda: (os.write(4, b'E'), os.read(3, 1)), daemon=True).start()\n"
        "time.sleep(1.5)\n",
    "a jump in the driver's frame":
        "import sys\nframe = sys._getframe().f_back\n"
        "def jump(f, event, argument):\n    f.f_lineno = frame.f_lineno + 10\n    return jump\n"
        "frame.f_trace = jump\nsys.settrace(jump)\n",
    "the guard's memory and descriptors":
        "import os\nfor name in os.listdir('/proc/1/fd'):\n"
        "    with open('/proc/1/fd/' + name, 'wb') as f: f.write(b'P')\n",
    "another process that waits as the driver does":
        "import os\nif os.fork() == 0:\n    os.write(4, b'E')\n    os.read(3, 1)\nos._exit(0)\n"}


def verdict(text, **limits):
    return run_program(text, Limits(**limits)).verdict


def without_errors(call):
    return ("import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nc.syscall.restype = ctypes.c_long\n"
            f"assert c.{call} == -1\nassert ctypes.get_errno() == 1, ctypes.get_errno()")


def zombies():
    found = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                head, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        found += rest.split()[0] == "Z" and ("bwrap" in head or "python3" in head)
    return found


class Verdicts(unittest.TestCase):
    def test_passing_means_that_the_last_statement_ran(self):
        for text, reason in (("assert 1 + 1 == 2", "passed"), ("raise SystemExit(0)", "failed: 0"),
                             ("assert False, 'no'", "failed: no"), ("1/0", "failed: division by zero"),
                             ("import os\nos._exit(0)", "failed: it ended before its last statement"),
                             ("while True: pass", "timed out")):
            self.assertEqual(run_program(text, Limits(seconds=1)).reason, reason, text)
        # As in the official harnesses the module is not the main program.
        self.assertEqual(verdict("if __name__ == '__main__': raise ValueError"), "pass")
        self.assertEqual(verdict("import sys\nsys.setrecursionlimit(5000)\n"
                                 "def f(n): return n and f(n - 1)\nf(4000)"), "pass")
        self.assertEqual(verdict("import threading\nt = threading.Thread(target=print)\nt.start()"),
                         "pass")

    def test_completion_cannot_be_forged(self):
        for way, text in FORGED.items():
            with self.subTest(way=way):
                outcome = run_program(text + "raise AssertionError('the check failed')\n")
                self.assertEqual(outcome.verdict, "fail", outcome.reason)

    def test_a_child_that_keeps_the_output_open_does_not_delay_the_verdict(self):
        outcome = run_program("import os, time\nif os.fork() == 0:\n    os.setsid()\n"
                              "    time.sleep(30)\n    os._exit(0)\n", Limits(seconds=20))
        self.assertEqual(outcome.verdict, "pass")

    def test_recorded_programs_end_with_their_verdict_and_touch_nothing_outside(self):
        os.environ["UNMASK_TEST_SECRET"] = "do-not-tell"
        self.addCleanup(os.environ.pop, "UNMASK_TEST_SECRET")
        bystander = subprocess.Popen(["sleep", "300"])
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        home = os.path.expanduser("~")
        places = [f"{folder}/x" for folder in ("", "/usr", "/etc", "/var/tmp", "/dev/shm", "/tmp", home)]
        self.assertFalse(any(map(os.path.exists, places)), "a file named x is in the way of this test")
        programs = support.read_lines(os.path.join(support.EVALS, "sandbox", "programs.jsonl"))
        self.assertGreaterEqual(len(programs), 26)
        for program in programs:
            with self.subTest(program=program["id"]):
                outcome = run_program(program["full_program"], Limits(
                    seconds=program["wall_limit_s"], memory_bytes=512 << 20))
                if program["verdict"] != "any":
                    self.assertIn(outcome.verdict, program["verdict"].split("_or_"), outcome.reason)
                self.assertLess(outcome.seconds, program["wall_limit_s"] + 1)
                self.assertLessEqual(len(outcome.output), sandbox.OUTPUT_BYTES)
                for word in ("connected", "do-not-tell", "root:"):
                    self.assertNotIn(word, outcome.output)
                self.assertFalse(any(map(os.path.exists, places)))
                self.assertIsNone(bystander.poll())


class Boundaries(unittest.TestCase):
    def test_system_calls_that_reach_outside_are_refused(self):
        for call in ("unshare(0x10000000)", "setns(0, 0)", "ptrace(0, 0, 0, 0)", "mount(0, 0, 0, 0, 0)",
                     "shmget(0, 4096, 0o600)", "msgget(0, 0o600)", "semget(0, 1, 0o600)",
                     "memfd_create(b'x', 0)", "personality(0)", "syscall(447, 0)", "syscall(467, 0)",
                     "syscall(431, 0)", "syscall(458, 0)", "syscall(438, 0, 0, 0)", "syscall(425, 1, 0)"):
            with self.subTest(call=call):
                outcome = run_program(without_errors(call))
                self.assertEqual(outcome.verdict, "pass", outcome.reason)

    def test_no_socket_but_a_local_one(self):
        families = [family for family in range(2, 46)]
        text = ("import ctypes, os\nc = ctypes.CDLL(None, use_errno=True)\n"
                "c.syscall.restype = ctypes.c_long\nL = ctypes.c_long\n"
                f"for family in {families}:\n    for high in (0, 1 << 32, 1 << 63):\n"
                "        for kind in (1, 2, 3, 5):\n"
                "            assert c.syscall(41, L(family | high), L(kind), L(0)) == -1, family\n"
                "            assert ctypes.get_errno() == 1, (family, ctypes.get_errno())\n"
                "import socket\na, b = socket.socketpair()\na.send(b'x')\nassert b.recv(1) == b'x'")
        if os.uname().machine != "x86_64":
            self.skipTest("NOT RUN: needs the call numbers of x86_64")
        outcome = run_program(text, Limits(seconds=20))
        self.assertEqual(outcome.verdict, "pass", outcome.reason)

    def test_a_namespace_flag_is_seen_whatever_the_upper_bits_are(self):
        for flag in ("0x10000000", "0x10000000 | 1 << 32", "0x20000011"):
            outcome = run_program(without_errors(f"syscall(56, ctypes.c_long({flag}), 0, 0, 0, 0)"))
            self.assertEqual(outcome.verdict, "pass", outcome.reason)

    def test_files_and_shared_memory_have_a_limit(self):
        text = ("written = 0\nfor folder in ('/dev/shm', '/tmp', '/', '/dev', '/usr', '/proc'):\n"
                "    try:\n        for i in range(40):\n"
                "            with open(f'{folder}/f{i}', 'wb') as f: f.write(b'x' * (1 << 20))\n"
                "            written += 1\n    except OSError: pass\n"
                "assert 0 < written <= 32, written")
        outcome = run_program(text, Limits(seconds=20))
        self.assertEqual(outcome.verdict, "pass", outcome.reason)
        big = "import os\nwith open('/tmp/f', 'wb') as f:\n    f.write(b'x' * (2 << 20))"
        self.assertEqual(verdict(big), "fail")

    def test_processes_and_memory_have_a_limit(self):
        forks = ("import os, time\nmade = 0\ntry:\n    for i in range(100):\n"
                 "        if os.fork() == 0:\n            time.sleep(30)\n            os._exit(0)\n"
                 "        made += 1\nexcept OSError: pass\nassert 0 < made < 4, made")
        outcome = run_program(forks, Limits(seconds=20))
        self.assertEqual(outcome.verdict, "pass", outcome.reason)
        self.assertEqual(verdict("x = bytearray(900_000_000)", seconds=20), "pass")
        self.assertEqual(verdict("x = bytearray(1_100_000_000)", seconds=20), "fail")

    def test_forty_programs_leave_no_zombie(self):
        before = zombies()
        for i in range(40):
            text = ("import os\nif os.fork() == 0: os._exit(0)", "while True: pass", "1/0")[i % 3]
            run_program(text, Limits(seconds=0.3))
            self.assertLessEqual(zombies(), before)

    def test_nothing_outlives_a_judge_that_is_killed(self):
        judge = subprocess.Popen(
            [sys.executable, "-c", "from unmask.benchmarks.score.sandbox import *\n"
             "run_program('while True: mark_of_this_test = 1', Limits(seconds=120))"],
            env={**os.environ, "PYTHONPATH": PACKAGE}, start_new_session=True)
        time.sleep(3)
        os.kill(judge.pid, signal.SIGKILL)
        judge.wait()
        deadline = time.monotonic() + 20
        while self.guards() and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertEqual(self.guards(), [])

    @staticmethod
    def guards():
        """Processes of a sandbox with two minutes of time."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if b"def guard():" in b"".join(words) and b"141" in words:
                found.append(int(name))
        return found

    def test_the_filter_answers_for_both_architectures(self):
        for machine in seccomp.ARCHITECTURES:
            program = seccomp.build_filter(machine)
            self.assertEqual(len(program) % 8, 0)
            self.assertLess(len(program) // 8, 4096)
            self.assertLess(len(seccomp.allowed_numbers(machine)), 256)


class Users(unittest.TestCase):
    SCRIPT = ("from unmask.benchmarks.score.sandbox import *\n"
              "print(run_program('assert 1').verdict, run_program('assert 0').verdict, missing())")

    def run_as(self, *command):
        return subprocess.run([*command, sys.executable, "-c", self.SCRIPT], text=True,
                              capture_output=True, env={**os.environ, "PYTHONPATH": PACKAGE})

    def test_the_root_of_a_user_namespace(self):
        unshare = shutil.which("unshare")
        if unshare is None or subprocess.run([unshare, "-Ur", "true"], capture_output=True).returncode:
            self.skipTest("NOT RUN: needs user namespaces")
        done = self.run_as(unshare, "-Ur")
        self.assertEqual(done.stdout.strip(), "pass fail None", done.stderr)

    def test_without_bubblewrap_it_says_so(self):
        found = sandbox.BUBBLEWRAP
        sandbox.BUBBLEWRAP = "/nonexistent/bwrap"
        try:
            self.assertIn("NOT RUN: needs bubblewrap", sandbox.missing())
        finally:
            sandbox.BUBBLEWRAP = found


if __name__ == "__main__":
    unittest.main()
