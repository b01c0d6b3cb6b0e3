# SPDX-License-Identifier: Apache-2.0
"""The program and the package judge the lines of a file alike, whoever changed them: one schema, the same rules,
and a note that names the same lines."""

import contextlib
import copy
import hashlib
import io
import json
import os
import random
import re
import sys
import unittest

import support

sys.path.insert(0, str(support.SOURCE / "tests"))
import damage  # noqa: E402

from unmask.jobs import merge  # noqa: E402
from unmask.rows import checksum, rows  # noqa: E402
from unmask.rows.errors import EnvironmentFault  # noqa: E402
from unmask.rows.ending import ended  # noqa: E402

COUNT = int(os.environ.get("UNMASK_CHANGED_ROWS", "3000"))
SEED = int(os.environ.get("UNMASK_DAMAGED_SEED", "7"))
SHIPPED = support.SOURCE / "results" / "epyc-2core" / "quickstart.jsonl"
FIXTURES = support.SOURCE / "tests" / "plots" / "data"
NOTE = re.compile(r"^note: (.*?):(\d+): passed over a line", re.MULTILINE)


def said_by(call, *arguments):
    """What a call gives, and what it says on standard error."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        return call(*arguments), said.getvalue()


def seeds():
    """Lines of every kind: decoding and serving, with probes, phases, items and calibrations."""
    found = SHIPPED.read_bytes().splitlines()[::9]
    for path in sorted(FIXTURES.glob("*.jsonl")):
        found += path.read_bytes().splitlines()[:2]
    found += [line.encode() for line in map(json.dumps, (
        support.row("a"), support.row("b", metrics={"x": 1}, provenance={"x": "counted"}, metric_samples={"x": [1, 2]}),
        support.row("c", score={"mean": 0.5, "exact": 1, "n": 2, "ci95": [0.1, 0.9], "undecided": 1})))]
    return found


class Corpus(support.Case):
    def test_changed_rows_are_rows_for_all_or_for_nobody(self):
        draw, known = random.Random(SEED), seeds()
        taken, later = 0, 0
        for number in range(COUNT):
            line = draw.choice(known)
            change = damage.changed_json if draw.random() < 0.7 else damage.changed_bytes
            line = change(line, draw).replace(b"\n", b" ")
            try:
                rows.parse_row(line.decode(), "here")
                taken += 1
            except EnvironmentFault:  # of another major version: ends every command
                later += 1
                continue
            except ValueError:
                pass
            self.write(f"in/{number:05d}.jsonl", line + b"\n")
        self.assertGreater(taken, COUNT // 20)
        self.assertLess(taken + later, COUNT // 2)
        _, ours = said_by(rows.read_rows, "in")
        _, merged = said_by(lambda: merge.merge(["in"], "out.jsonl", True, True))
        theirs = support.program("table", "in")
        self.assertIn(theirs.returncode, (0, 3), theirs.stderr[-2000:])
        passed = [{place: number for place, number in NOTE.findall(text)} for text in (ours, merged, theirs.stderr)]
        only = {name: (self.folder / name).read_bytes()[:3000]
                for name in sorted(set(passed[0]) ^ set(passed[2]))[:3]}
        self.assertEqual(only, {}, "one of the two takes it")
        self.assertEqual(passed[0], passed[1])
        self.assertGreater(len(passed[0]), COUNT // 3)


class Odd(support.Case):
    """Lines that editors, other tools and accidents make, given to each reader."""

    def read_by_all(self, content):
        """How many rows each reader takes, and what the two languages say."""
        self.write("odd/rows.jsonl", content)
        (self.folder / "merged.jsonl").unlink(missing_ok=True)
        ours, said = said_by(rows.read_rows, "odd")
        (kept, _, _), _ = said_by(lambda: merge.merge(["odd"], "merged.jsonl"))
        again, silent = said_by(rows.read_rows, "merged.jsonl")
        self.assertEqual((len(again), silent), (len(ours), ""))
        self.assertEqual(len(kept), len(ours))
        done = support.program("table", "odd/rows.jsonl", "--format", "csv")
        theirs = len(done.stdout.splitlines()) - 1 if done.returncode == 0 else 0
        self.assertEqual(theirs, len(ours), done.stderr)
        return len(ours), said, done.stderr

    def test_a_byte_order_mark_costs_no_row(self):
        mark = b"\xef\xbb\xbf"
        lines = [support.line(name, at).encode() for at, name in enumerate("abc")]
        for content in (mark + b"".join(lines), lines[0] + mark + lines[1] + lines[2], mark + b"\n" + b"".join(lines),
                        b" \t\r\n".join(lines), b"\r\n".join(line.rstrip() for line in lines)):
            count, said, theirs = self.read_by_all(content)
            self.assertEqual((count, said, theirs), (3, "", ""))

    def test_nulls_of_fields_that_rows_may_lack_mean_absent(self):
        row = support.row("a") | dict.fromkeys(("calibration", "probes", "items", "experiment", "answers_hash",
                                                "device_facts", "seed", "metric_samples", "serve", "sha256"))
        row["workload"] |= {"benchmark": None, "judge": None}
        row["model"] |= {"layers": None, "caution": None}
        self.assertEqual(self.read_by_all((json.dumps(row) + "\n").encode())[0], 1)
        (read,) = rows.read_rows("odd")
        self.assertEqual((read["seed"], read["probes"]), (0, {}))
        self.assertNotIn("benchmark", read["workload"])
        for needed in ("params", "model", "environment"):
            count = self.read_by_all(support.line("b").encode() + (json.dumps(row | {needed: None}) + "\n").encode())
            self.assertEqual(count[0], 1, needed)
            self.assertIn(f"`{needed}` should be an object and is null", count[1])
            self.assertIn(f"`{needed}` should be an object and is null", count[2])

    def test_whole_numbers_may_be_written_with_a_point(self):
        row = support.row("a", position=3.0, batch_size=4.0)
        self.assertEqual(self.read_by_all((json.dumps(row) + "\n").encode())[0], 1)
        (read,) = rows.read_rows("odd")
        self.assertEqual([type(read["position"]), read["batch_size"]], [int, 4])

    def test_a_version_that_is_a_number_is_named(self):
        line = json.dumps(support.row("a") | {"schema_version": 1.5}).encode() + b"\n"
        _, said, theirs = self.read_by_all(line + support.line("b").encode())
        for note in (said, theirs):
            self.assertIn("`schema_version` should be a text and is the number 1.5", note)

    def test_one_command_takes_all_damaged_lines_out_and_no_good_one(self):
        good = [support.line(name, at) for at, name in enumerate("abcde")]
        bad = '{"schema_version": "1.4", "x": NaN}\n'
        content = good[0] + bad * 3 + "".join(good[1:])
        for name in ("rows.jsonl", "two words.jsonl"):
            self.write(f"d/{name}", content)
            for note in (said_by(rows.read_rows, f"d/{name}")[1], support.program("table", f"d/{name}").stderr):
                self.assertEqual(note.count("\n"), 1, note)
                self.write(f"d/{name}", content)
                (command,) = re.findall(r"`(sed [^`]*)`", note)
                self.assertEqual(os.system(command), 0)  # nosec: the program's own advice
                self.assertEqual((self.folder / "d" / name).read_text(), "".join(good))
                self.assertEqual((self.folder / "d" / f"{name}.damaged").read_text(), content)

    def test_a_file_of_another_kind_is_one_note(self):
        self.write("x.jsonl", json.dumps([support.row("a"), support.row("b")], indent=1))
        notes = said_by(rows.read_rows, "x.jsonl")[1], support.program("table", "x.jsonl").stderr.split("unmask:")[0]
        for note in notes:
            self.assertEqual(note.count("\n"), 1, note)
            self.assertIn("jq -c '.[]?' x.jsonl", note)

    def test_every_reader_takes_the_same_numbers(self):
        for value, is_row in (("1e100", True), ("1e101", False), ("1e999", False), ("9" * 400, False),
                              ("18446744073709551615", True), ("-0", True), ("1.0", True), ("true", False),
                              ('"1"', False), ("NaN", False), ("null", True)):
            row = json.dumps(support.row("a", metrics={"x": 7}, provenance={"x": "counted"}))
            content = support.line("b") + row.replace('"x": 7', f'"x": {value}') + "\n"
            self.assertEqual(self.read_by_all(content.encode())[0], 1 + is_row, value)
        for value, is_row in (("9223372036854775807", True), ("9223372036854775808", False), ("3.5", False),
                              ("-1", True), ("1e3", True), ("null", False)):
            content = support.line("b") + support.line("a").replace('"position": 0', f'"position": {value}')
            self.assertEqual(self.read_by_all(content.encode())[0], 1 + is_row, value)


class Checksum(support.Case):
    def test_a_line_is_known_by_its_digest(self):
        line = checksum.line_of(support.row("a"))
        # By hand: the line without its last member.
        text = json.dumps(support.row("a"), separators=(",", ":"))
        self.assertEqual(line, text[:-1] + ',"sha256":"' + hashlib.sha256(text.encode()).hexdigest() + '"}')
        self.assertEqual(rows.parse_row(line, "x")["verdict"], "PASS")
        self.assertEqual(rows.parse_row(json.dumps(support.row("a")), "x")["verdict"], "PASS")  # an older row

    def test_whoever_reads_it_says_that_a_row_was_changed(self):
        line = checksum.line_of(support.row("a", metrics={"x": 7}, provenance={"x": "counted"}))
        changes = [line.replace('"x":7', '"x":8'), line.replace('"x":7', '"x": 7'),
                   json.dumps(json.loads(line)), line[:-1] + ',"note":"by hand"}']
        for changed in changes:
            self.write("in/rows.jsonl", changed + "\n" + checksum.line_of(support.row("b", 1)) + "\n")
            read, said = said_by(rows.read_rows, "in")
            self.assertEqual([r["verdict"] for r in read], ["NOT_VERIFIED", "PASS"])
            self.assertEqual(read[0]["reason"], "changed after it was written")
            done = support.program("table", "in/rows.jsonl")
            self.assertIn("UNSCORED", done.stdout)
            (self.folder / "out.jsonl").unlink(missing_ok=True)
            for note in (said, done.stderr, said_by(lambda: merge.merge(["in"], "out.jsonl"))[1]):
                self.assertIn("rows.jsonl:1 was changed after it was written", note)

    def test_what_the_program_writes_fits(self):
        self.write("in/rows.jsonl", support.line("a"))
        done = support.program("table", "in/rows.jsonl", "--format", "json")
        (line,) = [text.strip().rstrip(",") for text in done.stdout.splitlines() if text.strip().startswith("{")]
        self.assertIn('"sha256"', line)
        self.assertNotIn("changed", rows.parse_row(line, "x"))

    def test_one_flipped_bit_is_seen(self):
        line = checksum.line_of(json.loads(SHIPPED.read_text().splitlines()[0])).encode()
        draw = random.Random(SEED)
        for _ in range(300):
            at = draw.randrange(len(line))
            flipped = line[:at] + bytes([line[at] ^ 1 << draw.randrange(8)]) + line[at + 1:]
            try:
                row = rows.parse_row(flipped.decode(), "x")
            except (ValueError, EnvironmentFault):
                continue
            if "sha256" in row:  # a bit of the member's own name leaves an older row
                self.assertEqual(row.get("changed"), True, flipped)


class Ending(unittest.TestCase):
    def test_a_fault_of_the_packages_own_is_one_sentence(self):
        def work():
            return copy.deepcopy(5).values()
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            before = os.dup(1)
            code = ended(work)
            os.dup2(before, 1)
        self.assertEqual(code, 1)
        self.assertEqual(said.getvalue().count("\n"), 1)
        self.assertIn("internal error: AttributeError", said.getvalue())
        self.assertNotIn("Traceback", said.getvalue())


if __name__ == "__main__":
    unittest.main()
