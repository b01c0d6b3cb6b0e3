#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The page in a real browser: the player shows what the trace says, and nothing errs.

Needs Chromium (or Chrome), found as $UNMASK_BROWSER or on the path; any, without a driver.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

import report  # noqa: E402

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WATCH = """<script>
window.seenErrors = [];
addEventListener("error", (e) => seenErrors.push("error: " + e.message));
addEventListener("unhandledrejection", (e) => seenErrors.push("rejection: " + e.reason));
addEventListener("securitypolicyviolation", (e) => seenErrors.push("blocked: " + e.blockedURI));
for (const level of ["error", "warn"]) console[level] = (...words) => seenErrors.push(level + ": " + words.join(" "));
</script>"""


def browser():
    given = os.environ.get("UNMASK_BROWSER")
    return given or next((b for b in BROWSERS if shutil.which(b)), None)


HOST = """<!doctype html><iframe src="PAGE" style="width:WIDTHpx;height:844px;border:0"></iframe>
<script>addEventListener("message", (event) => {
  const pre = document.createElement("pre");
  pre.id = "outcome";
  pre.textContent = event.data;
  document.body.append(pre);
});</script>"""


def visit(page, width, folder, driver="drive", theme=None):
    """What a driver saw on the page in a window of this width. No window of a browser is as narrow
    as a phone, so that page stands in a frame."""
    with open(os.path.join(support.HERE, driver + ".js"), encoding="utf-8") as code:
        driven = page.replace("<title>", WATCH + "<title>", 1).replace(
            "</body>", f"<script>{code.read()}</script></body>")
    if theme:
        driven = driven.replace('<html lang="en">', f'<html lang="en" data-theme="{theme}">', 1)
    path = os.path.join(folder, f"page-{driver}-{width}-{theme}.html")
    with open(path, "w", encoding="utf-8") as out:
        out.write(driven)
    if width < 500:
        host = path.replace(".html", "-host.html")
        with open(host, "w", encoding="utf-8") as out:
            out.write(HOST.replace("PAGE", os.path.basename(path)).replace("WIDTH", str(width)))
        path, width = host, 600
    done = subprocess.run(
        [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-extensions", f"--user-data-dir={folder}/profile-{os.path.basename(path)}",
         f"--window-size={width},900", "--virtual-time-budget=30000", "--dump-dom",
         "file://" + path], capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="outcome">(.*?)</pre>', done.stdout, re.S)
    assert found, (done.returncode, done.stderr[-2000:], done.stdout[-500:])
    return json.loads(html.unescape(found.group(1)))


def size(ranges):
    return sum(b - a for a, b in ranges)


def decides_twice(decode):
    """The decode with one position that is taken back and decided again, and one that is edited."""
    first, edit, back, again = decode["steps"][1], *decode["steps"][2:5]
    place = first["accepted"][0]
    p, token = first["position"][place], first["token"][place]
    other = next(t for s in decode["steps"] for t in s["token"] if t != token)
    for step, told, kind in ((edit, other, "replaced"), (back, other, "reopened"),
                             (again, token, "accepted")):
        step.setdefault(kind, []).append(len(step["position"]))
        step["position"].append(p)
        step["token"].append(told)
        step["confidence"].append(0.625)
    return p


class Player(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        source = os.path.join(cls.folder, "run")
        os.mkdir(source)
        cls.rows = support.rows_of("traces")
        cls.twice = decides_twice(cls.rows[0]["probes"]["decode_trace"]["decodes"][0])
        with open(os.path.join(source, "rows.jsonl"), "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in cls.rows)
        cls.page = report.page(support.page_data(source))
        cls.seen = visit(cls.page, 1280, cls.folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def test_no_error_and_nothing_blocked(self):
        self.assertEqual(self.seen["errors"], [])

    def test_every_forward_of_every_request_is_what_the_trace_says(self):
        self.assertEqual(len(self.seen["requests"]), 2)
        states = set()
        for request, frames in enumerate(self.seen["steps"]):
            for side, row in enumerate(self.rows):
                decode = row["probes"]["decode_trace"]["decodes"][request]
                text = row["probes"]["decode_trace"]["text"]
                begin, decided, rows, decode_rows = len(decode["prompt"]), {}, 0, 0
                frame = frames[0][side]
                self.assertEqual(frame["forward"], 0)
                self.assertEqual({c[1] for c in frame["cells"]}, {"masked"})
                # The longer of the two decodes ends the clock; the other one stays at its end.
                self.assertEqual(len(frames) - 1,
                                 max(len(r["probes"]["decode_trace"]["decodes"][request]["steps"])
                                     for r in self.rows))
                for t, step in enumerate(decode["steps"], 1):
                    frame = frames[t][side]
                    self.assertEqual(frame["forward"], t)
                    self.assertEqual(frame["name"], row["label"])
                    self.assertIn(f"forward pass {t} of {len(decode['steps'])}", frame["state"])
                    rows += size(step["rows"])
                    decode_rows += 0 if step["phase"] == "prefill" else size(step["rows"])
                    before = len(decided)
                    now = set()
                    for c in step["accepted"] + step.get("replaced", []):
                        decided[step["position"][c]] = (t, step["token"][c], step["confidence"][c])
                        now.add(step["position"][c])
                    for c in step.get("reopened", []):
                        del decided[step["position"][c]]
                    self.assertEqual(frame["rows"], f"{size(step['rows'])} of {rows}")
                    self.assertEqual(frame["decided"],
                                     f"{len(decided) - before} of {len(decided)}")
                    self.assertAlmostEqual(float(frame["redundancy"]), decode_rows / len(decided),
                                           delta=0.051)
                    self.assertTrue(frame["dropped"].startswith(f"{size(step['dropped'])} of "))
                    for name, key in (("rows", "rows"), ("gone", "dropped"), ("keys", "visible")):
                        self.assertEqual([[x, x + w] for c, x, w in frame["strip"] if c == name],
                                         step[key] or [])
                    for place, state, computed, dropped, cached, title in frame["cells"]:
                        p = place + begin
                        want = "now" if p in now else "decided" if p in decided else "masked"
                        self.assertEqual(state, want, (t, p))
                        inside = lambda key: any(a <= p < b for a, b in step[key])  # noqa: E731
                        self.assertEqual(computed, inside("rows"))
                        self.assertEqual(dropped, inside("dropped"))
                        self.assertEqual(cached, inside("cached"))
                        states.add((state, computed, dropped))
                        if request == side == 0 and p == self.twice:
                            self.assertEqual("; edited once" in title, t >= 3)
                            self.assertEqual("; remasked by forward pass 4" in title, t >= 4)
                        if p in decided:
                            at, token, confidence = decided[p]
                            self.assertIn(json.dumps(text[str(token)], ensure_ascii=False), title)
                            self.assertIn(f"forward pass {at} with confidence "
                                          f"{confidence:g}", title)
        # The fixture shows every state: computed and decided, dropped, left alone.
        for state in (("now", True, False), ("masked", True, True), ("decided", False, False)):
            self.assertIn(state, states)

    def test_buttons_slider_and_keys(self):
        s = self.seen
        longest = len(s["steps"][1]) - 1
        self.assertEqual((s["first"], s["slider"], s["right"], s["left"], s["home"]),
                         (0, 2, 3, 2, 0))
        self.assertEqual((s["back"], s["end"]), (longest - 1, longest))
        self.assertEqual(s["last"], len(self.rows[0]["probes"]["decode_trace"]["decodes"][1]
                                        ["steps"]))
        self.assertEqual(s["chart"], s["last"])
        self.assertEqual(s["playing"], "true")
        self.assertEqual(s["played"], 3)
        self.assertTrue(s["paused"])
        self.assertEqual(s["same"], [self.rows[0]["label"]] * 2)

    def test_the_clock_of_rows_gives_both_sides_the_same_budget(self):
        totals = []
        for row in self.rows:
            sums = [0]
            for step in row["probes"]["decode_trace"]["decodes"][1]["steps"]:
                sums.append(sums[-1] + size(step["rows"]))
            totals.append(sums)
        most = max(t[-1] for t in totals)
        for tick, (a, b, text) in zip((0, 30, 60, 90, 120), self.seen["byRows"]):
            budget = tick / 120 * most
            for forward, sums in zip((a, b), totals):
                self.assertLessEqual(sums[forward], budget + 1e-6)
                if forward + 1 < len(sums):
                    self.assertGreater(sums[forward + 1], budget)
            self.assertTrue(text.endswith(f"/ {most} positions"), text)

    def test_tables_sort_and_the_theme_switches(self):
        for name, reverse, word in (("ascending", False, "ascending"),
                                    ("descending", True, "descending")):
            values, said = self.seen[name]
            self.assertEqual(values, sorted(values, reverse=reverse))
            self.assertEqual(said, word)
        light, dark = self.seen["theme"]
        self.assertNotEqual(light, dark)
        self.assertEqual(self.seen["themeBack"], light)

    def test_controls_have_names_and_nothing_sticks_out(self):
        self.assertEqual(self.seen["unnamed"], [])
        self.assertLessEqual(*self.seen["width"])
        for width, height in self.seen["figures"]:
            self.assertGreater(width, 200)
            self.assertGreater(height, 80)

    def stands(self, seen, width, dark):
        """What holds of any page in any window."""
        self.assertEqual(seen["errors"], [])
        self.assertEqual((seen["inner"], seen["wide"]), (width, 0))
        for what in ("outside", "outsideOpened", "cut", "squeezed", "overlaps", "pale"):
            self.assertEqual(seen[what], [], f"{width} {dark}")
        self.assertEqual(seen["ground"] == "rgb(16, 19, 23)", dark)
        self.assertGreater(seen["letters"], 7)
        self.assertTrue(seen["verdictsInView"])
        self.assertEqual(len(seen["titles"]), len(set(seen["titles"])))
        self.assertEqual(seen["noCaption"], 0)
        # Keys of the freshly opened page, and of one whose player is out of sight.
        self.assertEqual((seen["right"], seen["left"], seen["spaceTaken"], seen["playing"]),
                         (1, 0, True, "true"))
        self.assertEqual(seen["inField"], seen["now"])
        self.assertEqual(seen["away"], 0)
        if "zoom" in seen:
            small, large, sticks_out = seen["zoom"]
            self.assertGreaterEqual(large, small)
            self.assertEqual((large, sticks_out), (1200 if width < 1280 else large, 0))

    def test_a_page_at_every_width_light_and_dark(self):
        for width in (390, 768, 1280):
            for theme in ("light", "dark"):
                with self.subTest(width=width, theme=theme):
                    self.stands(visit(self.page, width, self.folder, "look", theme), width,
                                theme == "dark")

    def test_the_page_of_the_committed_campaign(self):
        folder = os.path.join(self.folder, "campaign")
        support.unpack_campaign(folder)
        page = report.page(support.page_data(folder, os.path.join(support.ROOT, "experiments")))
        with open(os.path.join(folder, "claims.json"), encoding="utf-8") as file:
            claims = sum(c["role"] == "claim" for c in json.load(file))
        # Known by its place: its run.json is not committed.
        self.assertIn("Optimus, Figure 8: Throughput against batch size (tiny)", page)
        self.assertIn("Ada-DLM, Table 4: History m (tiny)", page)
        self.assertLess(len(page.encode()), 3 << 20)
        for width, theme in ((390, "light"), (390, "dark"), (768, "light"), (1280, "light"),
                             (1280, "dark")):
            with self.subTest(width=width, theme=theme):
                seen = visit(page, width, self.folder, "look", theme)
                self.stands(seen, width, theme == "dark")
                self.assertLess(seen["nodes"], 30000)
                self.assertGreater(seen["closed"], 60)
                self.assertEqual(seen["opened"][:2], ["true", False])
                self.assertGreater(seen["opened"][2], 0)
                self.assertEqual(seen["shutAgain"], ["false", "until-found"])
                self.assertFalse(seen["found"][0])
                self.assertGreater(seen["found"][1], 0)
                self.assertEqual(seen["claims"], claims)
                for name in ("byVerdict", "byPaper"):
                    self.assertTrue(seen[name][2] and 0 < seen[name][1] < claims, seen[name])
                self.assertEqual(seen["byNothing"], 0)
                self.assertTrue(0 < seen["byWord"] < claims)
                self.assertGreater(len(seen["claimLinks"]), 100)
                self.assertTrue(all(there for _, there in seen["claimLinks"]))

    def test_a_narrow_window(self):
        seen = visit(self.page, 500, self.folder)
        self.assertEqual(seen["errors"], [])
        self.assertLessEqual(*seen["width"])


if __name__ == "__main__":
    if browser() is None:
        print("NOT RUN: needs chromium")
        sys.exit(support.NOT_RUN)
    support.main()
