# SPDX-License-Identifier: Apache-2.0
"""Tables on a terminal: what tells rows apart stays, numbers go in a fixed order, and the program and the package
fit one table alike."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import unittest

import support

from unmask.tables import terminal

QUICKSTART = support.SOURCE / "results" / "epyc-2core" / "quickstart.jsonl"


def on_a_terminal(columns, *arguments):
    """What the program prints on a terminal that is so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen([os.environ["UNMASK_PROGRAM"], *map(str, arguments)], stdout=theirs, stdin=subprocess.DEVNULL,
                          env={**os.environ, "TERM": "xterm"}) as running:
        os.close(theirs)
        text = b""
        while True:
            try:
                read = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not read:
                break
            text += read
    os.close(ours)
    assert running.returncode == 0
    return text.decode().replace("\r\n", "\n")


class Fitted(unittest.TestCase):
    TABLE = ("| model | method | task | >x | score, % |\n|---|---|---|---:|---:|\n"
             "| m | a long name, one | t | 1 | 50.0 [1, 2] |\n| m | a long name, two | t | 2 | 60.0 |\n")

    def test_what_is_equal_in_all_rows_is_said_once(self):
        self.assertEqual(terminal.fitted(self.TABLE, 40),
                         "model m · task t\n\n"
                         "method            >x     score, %\n"
                         "----------------  --  -----------\n"
                         "a long name, one   1  50.0 [1, 2]\na long name, two   2         60.0\n")

    def test_intervals_go_before_names(self):
        text = terminal.fitted(self.TABLE, 30)
        self.assertNotIn("[", text)
        self.assertIn("a long name, one   1      50.0", text)

    def test_names_stay_different_whatever_the_width(self):
        for columns in range(1, 40):
            *_, first, second = [line for line in terminal.fitted(self.TABLE, columns).splitlines()
                                 if line.startswith("a long")]
            self.assertNotEqual(first.split("  ")[0], second.split("  ")[0], columns)

    def test_other_lines_are_broken_at_blanks(self):
        self.assertEqual(terminal.fitted("one two three\n\nx\n", 8), "one two\nthree\n\nx\n")


class BothSides(unittest.TestCase):
    def test_the_first_table_tells_rows_apart(self):
        markdown = support.program("table", QUICKSTART).stdout
        for columns in (80, 100, 120):
            text = terminal.fitted(markdown, columns)
            self.assertEqual(on_a_terminal(columns, "table", QUICKSTART), text)
            table = text.split("\n\n")[1].splitlines() if "items 10" in text else text.split("\n\n")[0].splitlines()
            body = [line for line in table[2:] if not line.startswith("(")]
            self.assertEqual(len(body), 28)
            self.assertEqual(len({line[:table[1].index("  -", table[1].index("  -") + 3) + 20] for line in body}), 28)
            self.assertLessEqual(max(map(terminal.display_width, text.splitlines())), columns)
            self.assertIn("items 10", text)
            self.assertIn("score", table[0])
            self.assertIn("tokens/s", table[0])
            self.assertIn("speedup", table[0])
            for name in ("tiny-llada", "tiny-sdar", "fast_dllm", "delayed_cache_plus"):
                self.assertTrue(any(name[:8] in line for line in body), name)
        self.assertIn("Fastest at a score within the best's interval:", " ".join(text.split()))

    def test_the_packages_tables_are_fitted_too(self):
        text = on_a_terminal(80, "table", QUICKSTART, "--columns", "score,tokens_per_second")
        self.assertNotIn("|", text)
        self.assertLessEqual(max(map(terminal.display_width, text.splitlines())), 80)


if __name__ == "__main__":
    unittest.main()
