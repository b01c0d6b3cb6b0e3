# SPDX-License-Identifier: Apache-2.0
"""unmask bundle and rerun: what a bundle holds, what is refused of one that comes from elsewhere,
and that a repetition is one. Hostile archives are made with tarfile by hand, not by our writer."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import unittest

import support
from support import line, manifest, program

from unmask.jobs import bundle


def member(name, content=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, io.BytesIO(content)


def archive(*members, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for info, content in members:
            tar.addfile(info, content)
    return out.getvalue()


def sums(files):
    return "".join(f"{hashlib.sha256(c).hexdigest()}  {n}\n" for n, c in files.items()).encode()


def honest(files, *more, mode="w"):
    """A bundle of these files below b/, and members that are added behind."""
    return archive(*(member(f"b/{n}", c) for n, c in files.items()),
                   member("b/SHA256SUMS", sums(files)), *more, mode=mode)


FILES = {"run.json": manifest().encode(), "rows.jsonl": line("a").encode()}


class Bundle(support.Case):
    def setUp(self):
        super().setUp()
        self.write("run/run.json", manifest(paper="focus", artifact="table_5", scale="tiny"))
        self.write("run/rows.jsonl", line("a"))
        self.write("run/table.md", "| a |\n")
        self.write("run/figures/a.svg", "<svg/>")
        for name in ("log.txt", "rows.jsonl.part", "rows.jsonl.torn", ".hidden", "run.json.part123"):
            self.write("run/" + name, "/home/somebody\n")

    def test_holds_what_a_repetition_needs_and_nothing_else(self):
        names = bundle.write("run", "a.tar")
        self.assertEqual(names, ["README.md", "environment.json", "figures/a.svg", "rows.jsonl",
                                 "run.json", "table.md", "SHA256SUMS"])
        folder = bundle.unpack("a.tar", "out")
        self.assertEqual(folder.name, "focus_table_5_tiny")
        # GNU tar and sha256sum say the same.
        os.mkdir("gnu")
        subprocess.run(["tar", "-C", "gnu", "-xf", "a.tar"], check=True)
        subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], check=True,
                       cwd="gnu/focus_table_5_tiny")

    def test_the_same_run_gives_the_same_bytes(self):
        bundle.write("run", "a.tar")
        os.utime("run/rows.jsonl", (1, 1))
        os.chmod("run/table.md", 0o777)
        os.rename("run/table.md", "run/x")
        os.rename("run/x", "run/table.md")
        bundle.write("run", "again/a.tar")  # the README inside says what the bundle is called
        self.assertEqual(pathlib.Path("a.tar").read_bytes(), pathlib.Path("again/a.tar").read_bytes())

    def test_a_colon_in_the_name_is_a_name(self):
        bundle.write("run", "run:2026.tar")
        self.assertTrue((bundle.unpack("run:2026.tar", "out") / "run.json").is_file())

    def test_what_is_no_run_is_named(self):
        self.refused("none does not exist", bundle.write, "none", "a.tar")
        os.symlink("/etc/passwd", "run/link.txt")
        self.refused("is a link", bundle.write, "run", "a.tar")
        os.remove("run/link.txt")
        os.symlink("/etc", "run/folder")
        self.refused("is a link", bundle.write, "run", "a.tar")
        os.remove("run/folder")
        for broken in ("", "[]", "{}", '{"manifest_version":1}', manifest(set=1), manifest(scale=1),
                       manifest(manifest_version=2), manifest(experiment=[]), manifest(paper=[]),
                       json.dumps({**json.loads(manifest()), "experiment": {
                           "file": "x", "text": "y", "sha256": "0" * 64}})):
            self.write("run/run.json", broken)
            self.refused("broken manifest", bundle.write, "run", "a.tar")
        os.remove("run/run.json")
        self.refused("run.json is missing", bundle.write, "run", "a.tar")
        os.mkfifo("run/run.json")
        self.refused("not a regular file", bundle.write, "run", "a.tar")

    def refuses(self, words, content):
        """The archive is refused and leaves nothing, neither in its folder nor outside."""
        self.write("x.tar", content)
        place = self.folder / f"out{len(list(self.folder.glob('out*')))}"
        before = sorted(p for p in self.folder.rglob("*") if place not in p.parents)
        self.refused(words, bundle.unpack, "x.tar", place)
        self.assertEqual([p for p in self.folder.rglob("*") if place not in p.parents
                          and p != place and p not in before], [])
        self.assertFalse(place.exists())

    def test_an_archive_that_is_honest_is_taken_packed_or_not(self):
        for place, mode in enumerate(("w", "w:gz", "w:xz", "w:bz2")):
            self.write("x.tar", honest(FILES, mode=mode))
            self.assertEqual(bundle.unpack("x.tar", f"ok{place}").name, "b")

    def test_names_that_lead_out_are_refused(self):
        for name in ("../evil", "b/../../evil", "/tmp/evil", "b//evil", "b/./evil", "b/\nevil",
                     "b/\x1b[31mred", "b\\evil", "b/" + "x" * 2000):
            self.refuses("no name that a bundle may hold", honest(FILES, member(name, b"x")))

    def test_what_is_no_plain_file_is_refused_and_leaves_nothing(self):
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            self.refuses("no plain file", honest(FILES, member("b/l", type=kind,
                                                               linkname="/etc/passwd")))
        for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
            self.refuses("no plain file", honest(FILES, member("b/d", type=kind, devmajor=1,
                                                               devminor=3)))
        self.refuses("is not listed", honest(FILES, member("b/s", b"#!/bin/sh\n", mode=0o6755)))

    def test_every_file_is_listed_once_with_its_hash(self):
        self.refuses("more is not listed", honest(FILES, member("b/more", b"x")))
        self.refuses("rows.jsonl is there twice", honest(FILES, member("b/rows.jsonl", b"x")))
        self.refuses("more than one folder", honest(FILES, member("c/SHA256SUMS", sums(FILES))))
        self.refuses("lies in no folder", archive(member("rows.jsonl", b"x")))
        self.refuses("no SHA256SUMS", archive(member("b/rows.jsonl", b"x")))
        self.refuses("it is empty", archive())
        changed = {**FILES, "rows.jsonl": b"{}\n"}
        self.refuses("rows.jsonl does not have the hash", archive(
            *(member(f"b/{n}", c) for n, c in changed.items()), member("b/SHA256SUMS", sums(FILES))))
        self.refuses("rows.jsonl is listed but not there", archive(
            member("b/run.json", FILES["run.json"]), member("b/SHA256SUMS", sums(FILES))))
        for odd in (b"x\n", sums(FILES) + sums({"rows.jsonl": b""}), b"\xff" * 80 + b"\n",
                    sums({"SHA256SUMS": b""})):
            self.refuses("broken line", archive(*(member(f"b/{n}", c) for n, c in FILES.items()),
                                                member("b/SHA256SUMS", odd)))

    def test_a_bomb_is_stopped(self):
        zeros = b"\0" * (70 << 20)
        packed = gzip.compress(archive(member("b/zeros", zeros)), 9)
        self.assertLess(len(packed), 1 << 20)
        self.refuses("more than a bundle may hold", packed)
        # Sparse, as GNU tar writes it: a name, 512 bytes, and gigabytes of nothing.
        pathlib.Path("s").mkdir()
        with open("s/zeros", "wb") as out:
            out.truncate(300 << 20)
        subprocess.run(["tar", "-S", "-cf", "sparse.tar", "s"], check=True)
        self.refuses("no plain file", pathlib.Path("sparse.tar").read_bytes())
        many = archive(*(member(f"b/{i}") for i in range(bundle.MOST_FILES + 1)))
        self.refuses("holds more than", many)

    def test_what_is_no_archive_is_refused(self):
        for content in (b"", b"no archive", b"\x1f\x8b\x08\0", b"\xfd7zXZ\0" + b"\0" * 40, b"BZh9xx",
                        honest(FILES)[:700], b"\0" * 1024):
            self.refuses("", content)
        self.refused("none.tar does not exist", bundle.unpack, "none.tar", "z")
        os.mkfifo("pipe.tar")
        self.refused("not a regular file", bundle.unpack, "pipe.tar", "z")

    def test_mutated_archives_end_in_a_sentence(self):
        import random
        from unmask.rows.errors import UserError
        good, draw = honest(FILES), random.Random(7)
        for i in range(2000):
            mutated = bytearray(good)
            for _ in range(draw.randint(1, 8)):
                mutated[draw.randrange(2048)] = draw.randrange(256)
            self.write("m.tar", bytes(mutated))
            with contextlib.suppress(UserError):
                bundle.unpack("m.tar", f"m/{i}")


class Rerun(support.Case):
    """With the program, from a folder that has nothing to do with the tree."""

    def bundled(self, text, name="exp.toml", folder="away"):
        """A bundle of an experiment that was run from here by its absolute path."""
        file = self.write(f"{folder}/{name}", text)
        done = program("run", file, "-o", f"{folder}/rows", "--no-progress")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = program("bundle", f"{folder}/rows", "-o", f"{folder}/run.tar")
        self.assertEqual(done.returncode, 0, done.stderr)
        return f"{folder}/run.tar"

    def test_a_repetition_runs_each_time_and_of_its_own_bundle(self):
        first = self.bundled(support.EXPERIMENT)
        second = self.bundled(support.EXPERIMENT.replace("0.6, 1.0", "0.7"), folder="other")
        points = {}
        for number, file in enumerate((first, first, second), 1):
            done = program("rerun", file, "--ignore-speed", "--no-progress")
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            self.assertIn("REPEATED", done.stdout)
            self.assertIn("points measured", done.stderr)
            self.assertNotIn("had a row already", done.stderr)
            place = pathlib.Path("runs/rerun", "run" if number == 1 else f"run-{number}")
            rows = (place / "rows/rows.jsonl").read_text().splitlines()
            points[number] = len(rows)
        self.assertEqual(points, {1: 2, 2: 2, 3: 1})

    def test_a_run_of_some_points_is_repeated_at_those(self):
        """Of two planned points the bundle has one: the other is not measured, and its absence is no difference."""
        self.write("e.toml", support.EXPERIMENT)
        done = program("run", "e.toml", "-o", "rows", "--no-progress", "--points", '{"params.threshold" = 1.0}')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(program("bundle", "rows", "-o", "some.tar").returncode, 0)
        done = program("rerun", "some.tar", "--ignore-speed", "--no-progress")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("1 of 2 points: the bundle has no row of the others", done.stderr)
        self.assertIn("1 points compared: tokens identical in 1", done.stdout)
        self.assertEqual(len(pathlib.Path("runs/rerun/some/rows/rows.jsonl").read_text().splitlines()), 1)

    def test_a_run_of_the_tree_started_anywhere_is_repeated_anywhere(self):
        # Its model is named relative to the file: ../../experiments/models/tiny-sdar.
        file = support.SOURCE / "tests/cluster/array.toml"
        done = program("run", file, "-o", "rows", "--no-progress", "--set", "limit=1", "--set",
                       "params.threshold=0.9")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(pathlib.Path("rows/run.json").read_text())["experiment"]["file"],
                         "tests/cluster/array.toml")
        self.assertEqual(program("bundle", "rows", "-o", "a.tar").returncode, 0)
        os.mkdir("elsewhere")
        os.chdir("elsewhere")
        done = program("rerun", "../a.tar", "--ignore-speed", "--no-progress")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("2 points compared: tokens identical in 2", done.stdout)

    def test_a_changed_row_differs(self):
        file = self.bundled(support.EXPERIMENT)
        folder = bundle.unpack(file, "x")
        rows = (folder / "rows.jsonl").read_text().splitlines()
        changed = json.loads(rows[0])
        changed["metrics"]["nfe"] += 1
        files = {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "SHA256SUMS"}
        files["rows.jsonl"] = (json.dumps(changed) + "\n" + rows[1] + "\n").encode()
        self.write("c.tar", honest(files))
        done = program("rerun", "c.tar", "--ignore-speed", "--no-progress")
        self.assertEqual(done.returncode, 4, done.stderr + done.stdout)
        self.assertIn("DIFFERS", done.stdout)

    def test_a_rule_in_python_is_asked_for(self):
        """No code is in a bundle: a row of a Python function says so before anything is measured."""
        folder = bundle.unpack(self.bundled(support.EXPERIMENT), "x")
        kept, changed = (folder / "rows.jsonl").read_text().splitlines()
        row = json.loads(changed)
        row |= {"method": "rising", "params": row["params"] | {"base": "block_diffusion", "code": "0" * 64}}
        del row["sha256"]
        files = {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "SHA256SUMS"}
        files["rows.jsonl"] = f"{kept}\n{json.dumps(row)}\n".encode()
        self.write("c.tar", honest(files))
        done = program("rerun", "c.tar", "--no-progress")
        self.assertEqual(done.returncode, 3, done.stderr + done.stdout)
        self.assertIn("NOT RUN: needs the Python function of rising: a bundle holds no code", done.stderr + done.stdout)

    def test_points_that_all_fail_say_why_once(self):
        file = self.bundled(support.EXPERIMENT)
        folder = bundle.unpack(file, "x")
        files = {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "SHA256SUMS"}
        config = support.SOURCE / "experiments/models/tiny-sdar/config.json"
        files["broken/config.json"] = config.read_bytes()  # a checkpoint without its weights
        files["run.json"] = manifest(support.EXPERIMENT.replace("models/tiny-sdar", "broken")).encode()
        self.write("c.tar", honest(files))
        done = program("rerun", "c.tar", "--no-progress")
        self.assertEqual(done.returncode, 1, done.stderr + done.stdout)
        self.assertEqual(done.stdout.count("all 2 points FAILED"), 1, done.stdout)
        self.assertNotIn("absent", done.stdout)
        files["run.json"] = manifest(support.EXPERIMENT.replace("tiny-sdar", "tiny-sdr")).encode()
        self.write("d.tar", honest(files))
        done = program("rerun", "d.tar", "--no-progress", "--allow-outside")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1), done.stderr)
        self.assertIn("no model in", done.stderr)
        self.assertIn("did you mean 'tiny-sdar'?", done.stderr)

    def test_a_checkpoint_of_ones_own_is_named_where_the_bundle_is_repeated(self):
        """The author's checkpoint lies beside the experiment and has a name of its own; elsewhere it lies in another
        folder. It is taken if it has the hash that the rows name, and no other is."""
        shutil.copytree(support.SOURCE / "experiments/models/tiny-sdar", "my-own")
        self.write("e.toml", support.EXPERIMENT.replace("models/tiny-sdar", "my-own"))
        done = program("run", "e.toml", "-o", "rows", "--no-progress")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = program("bundle", "rows", "-o", "sent.tar")
        self.assertIn("the checkpoint my-own is not part of the bundle", done.stderr)
        self.assertIn("--model my-own=FOLDER", done.stderr)
        folder = bundle.unpack("sent.tar", "x")
        readme = (folder / "README.md").read_text()
        self.assertIn("    unmask rerun sent.tar --model my-own=FOLDER\n", readme)
        os.rename("my-own", "elsewhere")
        done = program("rerun", "sent.tar", "--no-progress")
        self.assertEqual(done.returncode, 3, done.stderr + done.stdout)
        self.assertIn("needs the checkpoint my-own, which is not part of the bundle; --model my-own=FOLDER", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        done = program("rerun", "sent.tar", "--no-progress", "--ignore-speed", "--model", "my-own=elsewhere")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("2 points compared: tokens identical in 2", done.stdout)
        other = support.SOURCE / "experiments/models/tiny-llada"
        done = program("rerun", "sent.tar", "--no-progress", "--model", f"my-own={other}")
        self.assertEqual(done.returncode, 2, done.stderr + done.stdout)
        self.assertIn("another checkpoint than the rows of my-own", done.stderr)
        done = program("rerun", "sent.tar", "--no-progress", "--model", "my-wn=elsewhere")
        self.assertIn("did you mean 'my-own'?", done.stderr)
        # An author who wrote an absolute path.
        self.write("a.toml", support.EXPERIMENT.replace("models/tiny-sdar", f"{self.folder}/my-own"))
        os.rename("elsewhere", "my-own")
        self.assertEqual(program("run", "a.toml", "-o", "absolute", "--no-progress").returncode, 0)
        self.assertEqual(program("bundle", "absolute", "-o", "a.tar").returncode, 0)
        os.rename("my-own", "elsewhere")
        done = program("rerun", "a.tar", "--no-progress", "--ignore-speed", "--model", "my-own=elsewhere")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("2 points compared: tokens identical in 2", done.stdout)

    def test_a_strangers_paths_stay_inside(self):
        victim = self.write("victim.txt", "mine\n")
        secret = self.write("secret.jsonl", "mine\n")
        serve = support.EXPERIMENT.replace('title = "t"', 'title = "t"\nkind = "serve"').replace(
            "[sweep]", '[serve]\nrequests = 1\n{}\n[sweep]')
        inside = [("serve.log", serve.format(f'log = "{victim}"')),
                  ("serve.record", serve.format(f'record = "{victim}"')),
                  ("serve.log", serve.format('log = "../../../victim.txt"')),
                  ("serve.commits", serve.format(f'commits = "replay:{secret}"')),
                  ("run.impose", support.EXPERIMENT.replace(
                      "[run]", f'[run]\nimpose = "replay:{secret}"')),
                  ("impose", support.EXPERIMENT + f'impose = ["replay:{secret}"]\n'),
                  ("workload.file", support.EXPERIMENT.replace(
                      'tasks = ["word_problem"]', f'file = "{secret}"')),
                  ("workload.file", support.EXPERIMENT.replace(
                      'tasks = ["word_problem"]', 'file = "../../secret.jsonl"')),
                  ("params.frequencies", support.EXPERIMENT.replace(
                      '"block_diffusion"', f'"pc_sampler"\nparams.frequencies = "file:{secret}"')),
                  ("params.frequencies", support.EXPERIMENT.replace(
                      '"params.threshold" = [0.6, 1.0]',
                      f'"params.frequencies" = ["file:{secret}"]')),
                  ("workload.judge", support.EXPERIMENT.replace(
                      "limit = 1", f'limit = 1\njudge = "{self.folder}"')),
                  ("model.path", support.EXPERIMENT.replace("models/tiny-sdar", str(self.folder)))]
        for key, text in inside:
            self.write("c.tar", honest({**FILES, "run.json": manifest(text).encode()}))
            done = program("rerun", "c.tar", "--no-progress")
            self.assertEqual(done.returncode, 2, f"{key}: {done.stderr}{done.stdout}")
            self.assertIn(f"`{key}` is", done.stderr)
            self.assertIn("--allow-outside", done.stderr)
        self.write("c.tar", honest({**FILES, "run.json": manifest(
            serve.format(""), set=[f"serve.log={victim}"]).encode()}))
        done = program("rerun", "c.tar", "--no-progress")
        self.assertEqual(done.returncode, 2, done.stderr + done.stdout)
        self.assertEqual(victim.read_text(), "mine\n")
        # A log inside is written, in the folder of this call.
        self.write("c.tar", honest({**FILES, "run.json": manifest(
            serve.format('log = "log.csv"')).encode()}))
        done = program("rerun", "c.tar", "--no-progress", "-o", "here")
        self.assertTrue((self.folder / "here/files/log.csv").is_file(), done.stderr)
        # And the user may say otherwise.
        self.write("c.tar", honest({**FILES, "run.json": manifest(
            serve.format(f'log = "{victim}"')).encode()}))
        program("rerun", "c.tar", "--no-progress", "--allow-outside")
        self.assertTrue(victim.read_text().startswith("time,seconds"))

    def test_an_experiment_overwrites_no_file_of_somebody(self):
        text = support.EXPERIMENT.replace('title = "t"', 'title = "t"\nkind = "serve"').replace(
            "[sweep]", '[serve]\nrequests = 1\nlog = "{}"\n[sweep]')
        victim = self.write("notes.csv", "mine\n")
        outside = self.write("outside.csv", "mine\n")
        (self.folder / "cwd").mkdir()
        os.symlink(outside, self.folder / "cwd/link.csv")
        for name, where in ((victim.name, "."), (str(outside), "cwd"), ("link.csv", "cwd"),
                            ("../outside.csv", "cwd")):
            file = self.write("e.toml", text.format(name))
            done = program("run", file, "-o", self.folder / "rows", "--no-progress", cwd=where)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("`serve.log` is", done.stderr)
        self.assertEqual(victim.read_text() + outside.read_text(), "mine\nmine\n")


if __name__ == "__main__":
    unittest.main()
