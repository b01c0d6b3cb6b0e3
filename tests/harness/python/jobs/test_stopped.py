# SPDX-License-Identifier: Apache-2.0
"""Whoever ends a command ends what it started; a folder has one owner; files are there whole or as they were."""

import contextlib
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

import support
from support import program

from unmask.jobs import owner
from unmask.rows.errors import EnvironmentFault
from unmask.rows.files import replace_file

LONG = support.EXPERIMENT.replace("repetitions = 1", "repetitions = 100000")
PACKAGE = str(support.SOURCE / "harness/python")


def artifact(experiment, name):
    """The experiment as an artifact of a paper, at the scale tiny."""
    head = f'[artifact]\npaper = "p"\nid = "{name}"\nkind = "table"\ntitle = "t"\n'
    scaled = experiment.replace("[[model]]", '[scale.tiny]\ntakes = "a second"\n[[scale.tiny.model]]')
    return scaled.replace("[run]", head + "[run]")


def naming(text):
    """The processes whose command lines hold a text, this one not."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = pathlib.Path(path).read_bytes().decode(errors="replace")
            state = pathlib.Path(path).with_name("stat").read_text().rpartition(")")[2].split()[0]
            pid = int(pathlib.Path(path).parent.name)
            if text in words and state != "Z" and pid != os.getpid():
                found.append(pid)
    return found


class Stopped(support.Case):
    def until(self, true, what):
        for _ in range(600):
            if true():
                return
            time.sleep(0.05)
        self.fail(f"{what}: not within 30 s")

    def start(self, *words, **variables):
        child = subprocess.Popen([os.environ["UNMASK_PROGRAM"], *map(str, words)], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env={**os.environ, **variables})
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.kill)
        return child

    def sleeping_python(self):
        """A Python that says who it is and sleeps."""
        if not os.path.lexists("sleeper"):
            os.symlink(shutil.which("sleep"), "sleeper")
        python = self.write("python", f"#!/bin/sh\necho $$ >'{self.folder}/pid'\nexec '{self.folder}/sleeper' 300\n")
        python.chmod(0o755)
        return str(python)

    def pid_of_python(self):
        place = self.folder / "pid"
        self.until(lambda: place.exists() and place.read_text().strip(), "the package is started")
        return int(place.read_text())

    def test_a_command_of_the_package_is_that_process(self):
        for words in (["merge", "a"], ["table", "x", "--view", "paired"], ["list", "claims"]):
            self.write("x", "{}\n")
            child = self.start(*words, UNMASK_PYTHON=self.sleeping_python())
            self.assertEqual(self.pid_of_python(), child.pid, words)
            child.terminate()
            self.assertEqual(child.wait(30), -signal.SIGTERM)
            os.remove(self.folder / "pid")

    def test_a_program_that_is_killed_takes_what_it_started_along_and_its_scratch_folder(self):
        """A chat template that only the package can render."""
        shutil.copytree(support.SOURCE / "experiments/models/tiny-sdar", "model")
        self.write("model/chat_template.jinja", "{{ messages[0]['content'] }} and more")
        os.mkdir("tmp")
        for number, left in ((signal.SIGKILL, 1), (signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 0)):
            child = self.start("generate", "--model", "model", "-n", "8", "hi", TMPDIR=str(self.folder / "tmp"),
                               UNMASK_PYTHON=self.sleeping_python())
            self.assertNotEqual(self.pid_of_python(), child.pid)
            self.assertEqual(len(os.listdir("tmp")), 1)
            child.send_signal(number)
            self.assertEqual(child.wait(30), -number)
            self.until(lambda: not naming(f"{self.folder}/sleeper"), "the package ends")
            self.assertEqual(len(os.listdir("tmp")), left, number)  # nobody can act on SIGKILL
            shutil.rmtree("tmp")
            os.mkdir("tmp")
            os.remove(self.folder / "pid")

    def test_a_package_that_is_killed_takes_the_program_along(self):
        self.write("long.toml", LONG)
        work = f"from unmask.rows.program import call; call(['run', 'long.toml', '-o', '{self.folder}/out'])"
        for number in (signal.SIGKILL, signal.SIGTERM):
            child = subprocess.Popen([sys.executable, "-c", work], env={**os.environ, "PYTHONPATH": PACKAGE},
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(child.kill)
            measures = lambda: [p for p in naming(f"{self.folder}/out") if p != child.pid]  # noqa: E731,B023
            self.until(measures, "the program is started")
            child.send_signal(number)
            child.wait(30)
            self.until(lambda: not measures(), "the program ends")

    def test_a_program_whose_caller_has_ended_before_it_could_ask_ends(self):
        """A caller further up that lives is no reason."""
        self.write("long.toml", LONG)
        ended = subprocess.Popen(["true"])
        ended.wait()
        late = self.start("run", "long.toml", "-o", "out", UNMASK_CALLED_BY=str(ended.pid))
        self.assertEqual(late.wait(30), -signal.SIGTERM)
        self.assertEqual(self.start("--version", UNMASK_CALLED_BY=str(os.getppid())).wait(30), 0)

    def test_a_folder_of_artifacts_has_one_owner_and_ends_with_it(self):
        for name in "ab":
            self.write(f"all/{name}.toml", artifact(LONG, name))
        child = self.start("run", "all", "-o", f"{self.folder}/out", "--no-progress")
        self.until(lambda: [p for p in naming(f"{self.folder}/out") if p != child.pid], "an artifact is measured")
        second = program("run", "all", "-o", f"{self.folder}/out", "--no-progress")
        self.assertEqual(second.returncode, 3, second.stdout + second.stderr)
        self.assertIn(f"another run is writing to {self.folder}/out (process {child.pid}", second.stderr)
        child.terminate()
        self.assertEqual(child.wait(60), -signal.SIGTERM)
        self.until(lambda: not naming(f"{self.folder}/out"), "the artifact's run ends")

    def test_a_campaign_has_one_owner(self):
        with owner.of("c", "campaign"):
            said = json.loads((self.folder / "c/.owner").read_text())
            self.assertEqual(said["pid"], os.getpid())
            with self.assertRaises(EnvironmentFault) as caught, owner.of("c", "campaign"):
                pass
            self.assertIn(f"c: another campaign measures into it (process {os.getpid()} on ", str(caught.exception))
            # Where files have no locks, the record tells.
            with unittest.mock.patch.object(owner, "_locked", lambda path: -1):
                with self.assertRaises(EnvironmentFault) as caught, owner.of("c", "campaign"):
                    pass
                self.assertIn("if it is over, delete c/.owner", str(caught.exception))
        self.assertEqual(os.listdir("c"), [])
        gone = subprocess.Popen(["true"])
        gone.wait()
        self.write("c/.owner", json.dumps(said | {"pid": gone.pid}))
        for locked in (owner._locked, lambda path: -1):  # of a process that is gone
            with unittest.mock.patch.object(owner, "_locked", locked), owner.of("c", "campaign"):
                pass


class Whole(support.Case):
    def test_a_full_disk_leaves_the_file_as_it_was_and_is_named(self):
        path = self.write("kept.txt", "before")

        def full(descriptor):
            raise OSError(28, "No space left on device")
        with unittest.mock.patch.object(os, "fsync", full), self.assertRaises(EnvironmentFault) as caught:
            replace_file(path, "after")
        self.assertEqual(str(caught.exception), f"cannot write {path} (No space left on device)")
        self.assertEqual((path.read_text(), os.listdir(".")), ("before", ["kept.txt"]))

    def test_a_link_keeps_its_target_and_a_file_its_mode(self):
        path = self.write("kept.txt", "before")
        path.chmod(0o640)
        os.symlink("kept.txt", "link")
        replace_file("link", "after")
        self.assertTrue(os.path.islink("link"))
        self.assertEqual((path.read_text(), path.stat().st_mode & 0o777), ("after", 0o640))
        replace_file(os.devnull, "nothing")
        self.assertFalse(os.path.isfile(os.devnull))

    def test_every_table_and_page_is_replaced_not_written_in_place(self):
        """A file that is replaced has another inode; one that is written in place keeps it."""
        self.write("e.toml", support.EXPERIMENT)
        self.assertEqual(program("run", "e.toml", "-o", "r", "--no-progress").returncode, 0)
        for words in (["table", "r", "-o", "t.md"], ["table", "r", "--columns", "tokens_per_second", "-o", "u.md"],
                      ["bundle", "r", "-o", "b.tar"], ["claims", "r", "-o", "c.md"],
                      ["merge", "r", "-o", "m.jsonl"]):
            path = self.folder / words[-1]
            program(*words)
            if not path.exists():
                self.fail(f"{words}: wrote nothing")
            os.link(path, "first")
            program(*words)
            self.assertFalse(os.path.samefile(path, "first"), words)
            os.remove("first")
            self.assertEqual(glob.glob("*.part*"), [])

    def test_what_a_killed_run_left_beside_its_manifest_goes(self):
        self.write("e.toml", support.EXPERIMENT)
        old, young, other = (self.write(f"r/run.json.part{n}", "{") for n in ("4194305", "4194306", "x"))
        os.utime(old, (1, 1))
        os.utime(other, (1, 1))
        self.assertEqual(program("run", "e.toml", "-o", "r", "--no-progress").returncode, 0)
        self.assertEqual([p.exists() for p in (old, young, other)], [False, True, True])

    def test_lines_of_another_shape_in_a_log_of_artifacts_are_passed_over(self):
        self.write("all/a.toml", artifact(support.EXPERIMENT, "a"))
        self.write("out/campaign.jsonl", '{"paper": 5, "id": [], "rows": "x", "seconds": "long", "status": null}\n[]\n')
        done = program("run", "all", "-o", "out", "--no-progress")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("internal error", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
