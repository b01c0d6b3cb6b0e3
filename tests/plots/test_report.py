#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The report page: self-contained, complete, safe with hostile text, and equal for equal rows."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

import page_text  # noqa: E402
import report  # noqa: E402
import rows as rowlib  # noqa: E402

try:
    import matplotlib  # noqa: F401
    import probes
    FIGURES = True
except ImportError:
    FIGURES, probes = False, None
CLAIMS = [{"id": "a", "paper": "focus", "statement": "Fewer <rows> & \"tokens\".",
           "verdict": "PARTLY", "shown": "SUPPORTED WITH LIMITS",
           "limits": ["quality lower"], "size": "outside", "reason": "holds at 1 of 2 points", "scale": "tiny",
           "measured": 0.892, "interval": [0.8, 0.95], "n": 4, "tiny_models": True,
           "published": {"value": 3.12, "unit": "rows/token", "source": "Table 5"}},
          {"id": "b", "statement": "Needs a GPU.", "verdict": "NOT RUN", "reason": "needs cuda",
           "measured": None, "interval": None, "n": None, "published": None},
          {"id": "c", "statement": "As good.", "verdict": "OPEN",
           "reason": "underpowered: 12 items", "measured": 0.0, "interval": [-0.142, 0.142],
           "n": 12, "n_unit": "items", "published": None}]
EXPERIMENTS = os.path.join(support.ROOT, "experiments")
VOID = {"meta", "input", "br", "link", "img", "hr", "wbr"}


class Checker(html.parser.HTMLParser):
    """Balanced tags, every id once, and everything that could load something."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.loads, self.links, self.tags = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in named:
            self.ids.append(named["id"])
        for key in ("src", "href", "xlink:href", "action", "data"):
            if key in named:
                value = named[key]
                (self.links if value.startswith("#") else self.loads).append((tag, value[:60]))

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:], self.getpos())
        self.open.pop()


def folder_with(*names, claims=None, change=None):
    """A campaign's folder of fixtures; the caller removes it."""
    folder = tempfile.mkdtemp()
    for name in names:
        os.mkdir(os.path.join(folder, name))
        path = os.path.join(folder, name, "rows.jsonl")
        if change:
            with open(path, "w", encoding="utf-8") as out:
                for row in support.rows_of(name):
                    change(row)
                    out.write(json.dumps(row) + "\n")
        else:
            shutil.copy(support.fixture(name), path)
    if claims is not None:
        with open(os.path.join(folder, "claims.json"), "w", encoding="utf-8") as out:
            json.dump(claims, out)
    return folder


def page_of(folder, experiments=os.path.join(support.ROOT, "no-experiments")):
    return report.page(support.page_data(folder, experiments))


class Case(unittest.TestCase):
    def assertIn(self, words, page, note=None):  # a page in a failure message helps nobody
        self.assertTrue(words in page, f"{words!r} is not there" if isinstance(page, str) else page)

    def assertNotIn(self, words, page, note=None):
        self.assertFalse(words in page, f"{words!r} is there")


def checked(page):
    checker = Checker()
    checker.feed(page)
    assert not checker.open, checker.open
    return checker


class Page(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = folder_with("traces", "serving", "chunks", claims=CLAIMS)
        cls.page = page_of(cls.folder)
        cls.checker = checked(cls.page)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_nothing_is_loaded_from_elsewhere(self):
        self.assertEqual([l for l in self.checker.loads if not l[1].startswith("data:")], [])
        self.assertNotIn("@import", self.page)
        self.assertIn("default-src 'none'", self.page)
        for found in re.findall(r"url\(([^)]*)\)", self.page):
            self.assertTrue(found.startswith("#"), found)

    def test_ids_are_unique_and_links_lead_somewhere(self):
        self.assertEqual(len(self.checker.ids), len(set(self.checker.ids)))
        ids = set(self.checker.ids)
        for tag, link in self.checker.links:
            self.assertIn(link[1:], ids, tag)

    def test_the_published_number_has_its_ratio(self):
        self.assertIn("here 0.29 times that · outside the interval measured here · Table 5", self.page)  # 0.892 / 3.12
        for kind, value in (("score", 3.12), ("speed", 0), ("speed", "3"), ("speed", None)):
            self.assertEqual(report.ratio_text({"kind": kind, "measured": 1.5, "published": {"value": value}}), "")
        self.assertEqual(report.ratio_text({"measured": None, "published": {"value": 3.0}}), "")

    def test_a_cell_says_its_order_only_if_its_text_does_not(self):
        for cell, seen in (({"text": "15", "value": 15}, ">15<"), ({"text": "2 min", "value": 123.0}, ' data-v="123">2'),
                           ({"text": "0.33", "value": 1 / 3}, ' data-v="0.333333">0'), ({"text": "tiny"}, ">tiny<"),
                           ({"text": "<b>"}, ">&lt;b&gt;<"), ({"text": "x", "bold": True}, ' data-v="x"><b>x')):
            self.assertTrue(report.table_cell({"header": "a", "right": False}, cell, {}).startswith(f"<td{seen}"), cell)

    def test_a_drawing_loses_digits_and_names_that_nothing_uses(self):
        svg = ('<svg><g id="figure_1"><g id="axes_1"><path id="m1" d="M -1.23456 0.126 L 20 3.5"/></g>'
               '<use xlink:href="#m1" x="7.0049" y="2"/><g transform="scale(0.015625)"/></g>'
               '<g id="kept"/><use href="#kept"/></svg>')
        self.assertEqual(report.smaller_svg(svg),
                         '<svg><g><g><path id="m1" d="M -1.23 0.13 L 20 3.5"/></g>'
                         '<use xlink:href="#m1" x="7.00" y="2"/><g transform="scale(0.015625)"/></g>'
                         '<g id="kept"/><use href="#kept"/></svg>')

    def test_every_row_and_hash_is_there(self):
        for name in ("traces", "serving", "chunks"):
            for row in support.rows_of(name):
                self.assertIn(row["model"]["hash"], self.page)
                self.assertIn(row["workload"]["hash"], self.page)
                self.assertIn(row["source_hash"], self.page)
        bodies = len(re.findall("<tr[^>]*><td", self.page))
        # Every row and claim, and the means of methods over several tasks.
        self.assertGreaterEqual(bodies, sum(len(support.rows_of(n))
                                            for n in ("traces", "serving", "chunks")) + len(CLAIMS))
        self.assertIn("AMD EPYC", self.page)
        self.assertIn("unmask report", self.page)

    def test_claims_are_shown_as_they_are(self):
        self.assertIn("Fewer &lt;rows&gt; &amp; &quot;tokens&quot;.", self.page)
        for words in ("○ SUPPORTED WITH LIMITS</span><br><small>quality lower</small>", "holds at 1 of 2 points",
                      "outside the interval measured here", "0.892", "[0.8, 0.95]", "3.12 rows/token",
                      "Table 5", "NOT RUN", "needs cuda", "tiny models",
                      '<span class="badge mid">○ INCONCLUSIVE</span>', "underpowered: 12 items"):
            self.assertIn(words, self.page)

    def test_synthetic_values_carry_a_mark_and_no_score(self):
        serving = self.page[self.page.index("Fixture: serving"):]
        self.assertIn("(synthetic)", serving)
        self.assertIn("never quality", self.page)

    @unittest.skipUnless(FIGURES, "needs matplotlib")
    def test_figures_are_inline_and_take_the_colours_of_the_theme(self):
        figures = re.findall(r'<figure id="([^"]+)">', self.page)
        for name in ("serving0", "latency0", "decode_order0", "throughput0", "redundancy0"):
            self.assertTrue(any(f.endswith(name) for f in figures), name)
        self.assertIn("fill: currentColor", self.page)
        self.assertNotIn("internal error", self.page)
        self.assertIn("needs rows with at least two batch sizes", self.page)  # said, not drawn

    def test_player_data_is_the_trace(self):
        data = json.loads(re.search(r'id="traces">(.*?)</script>', self.page, re.S).group(1))
        rows = support.rows_of("traces")
        self.assertEqual(len(data["groups"]), 2)  # requests
        for place, group in enumerate(data["groups"]):
            self.assertEqual([d["label"] for d in group["decodes"]],
                             [r["label"] for r in rows])
            for decode, row in zip(group["decodes"], rows):
                want = row["probes"]["decode_trace"]["decodes"][place]
                self.assertEqual(decode["steps"], want["steps"])
                self.assertEqual(decode["prompt"], want["prompt"])

    def test_equal_rows_give_an_equal_page(self):
        self.assertEqual(page_of(self.folder), self.page)


class Odd(Case):
    def made(self, *names, **more):
        folder = folder_with(*names, **more)
        self.addCleanup(shutil.rmtree, folder)
        return folder

    def test_hostile_text_stays_text(self):
        bad = "</script><script>alert(1)</script><img src=x onerror=alert(2)> @@STYLE@@"

        def change(row):
            row["label"] = row["title"] = bad
            for probe in row.get("probes", {}).values():
                for token in list(probe["text"])[:5]:
                    probe["text"][token] = bad

        page = page_of(self.made("traces", change=change))
        checker = checked(page)
        self.assertEqual(checker.tags.count("script"), 2)
        self.assertEqual(checker.tags.count("img"), 0)
        self.assertEqual(page.count(report.asset("style.css")), 1)

    def test_no_text_commands_what_shows_the_page(self):
        bad = "a\x1b]0;title\x07\x1b[2J\u202eb\x9b31m"

        def change(row):
            row["label"] = row["title"] = row["reason"] = bad
            row["model"]["name"] = row["workload"]["family"] = bad
            for probe in row.get("probes", {}).values():
                for token in list(probe["text"])[:5]:
                    probe["text"][token] = bad

        page = page_of(self.made("traces", change=change))
        # C0 but newline and tab, DEL, C1 and the marks of direction, by their numbers.
        odd = {*range(9), *range(11, 32), *range(127, 160), 0x200e, 0x200f, *range(0x202a, 0x202f),
               *range(0x2066, 0x206a)}
        self.assertEqual({ord(c) for c in page} & odd, set())
        self.assertIn("a\\u001b]0;title\\u0007\\u001b[2J\\u202eb\\u009b31m", page)

    def test_commands_come_from_the_run_or_from_the_experiment_file(self):
        folder = self.made("traces")
        self.assertIn("The experiment file is not among those here", page_of(folder))
        page = page_of(folder, support.DATA)
        self.assertIn("unmask run " + os.path.relpath(os.path.join(support.DATA, "traces.toml"), support.ROOT),
                      page)
        with open(os.path.join(folder, "traces", "run.json"), "w", encoding="utf-8") as out:
            json.dump({"experiment": {"file": "a b.toml"}, "scale": "tiny", "paper": "focus",
                       "artifact": "table_5", "set": ["run.batch_size=4"]}, out)
        page = page_of(folder)
        self.assertIn("unmask run &#x27;a b.toml&#x27; --scale tiny --set run.batch_size=4", page)
        self.assertIn("FOCUS, Table 5: Fixture: traces (tiny)", page)
        rows = os.path.join(folder, "traces", "rows.jsonl")
        with open(rows, encoding="utf-8") as file:
            changed = [json.loads(line) for line in file]
        for row in changed:
            row["params"]["code"] = "0" * 64  # as of a rule in Python
        with open(rows, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in changed)
        self.assertIn("--set run.batch_size=4 --rule RULE.py", page_of(folder))

    def test_a_campaign_has_an_index_closed_parts_and_the_papers_tables(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        for number in range(report.CROWD + 1):
            place = os.path.join(folder, "focus", f"table_{number}", "tiny")
            os.makedirs(place)
            shutil.copy(support.fixture("capacity"), os.path.join(place, "rows.jsonl"))
            plan = {"experiment": {"file": "x.toml"}, "scale": "tiny", "paper": "focus",
                    "artifact": f"table_{number}"}
            if number == 5:  # an artifact that is here, with a layout
                plan["experiment"]["file"] = os.path.join(EXPERIMENTS, "optimus", "figure_13.toml")
            with open(os.path.join(place, "run.json"), "w", encoding="utf-8") as out:
                json.dump(plan, out)
        with open(os.path.join(folder, "campaign.jsonl"), "w", encoding="utf-8") as out:
            out.write(json.dumps({"paper": "focus", "id": "table_9", "scale": "tiny", "rows": 0,
                                  "status": "NOT RUN", "detail": "needs <cuda>", "seconds": 0})
                      + "\n")
        page = page_of(folder)
        checked(page)
        self.assertEqual(len(re.findall('id="part-[0-9]+-body" class="body" hidden="until-found"', page)),
                         report.CROWD + 1)
        self.assertIn('<a href="#part-3">FOCUS, Table 3: Fixture: capacity (tiny)</a>', page)
        self.assertEqual(page.count("<h3>As in the paper</h3>"), 1)
        self.assertIn("needs &lt;cuda&gt;", page)
        later = [page_text.unpacked(p) for p in
                 re.findall('class="packed">([^<]*)</script>', page)]
        self.assertEqual(len(later), report.CROWD + 1)
        page += "".join(later)
        checked(page)
        # Every letter of the figures is defined once and every use finds it.
        letters = re.findall(r'<path id="(DejaVu[^"]*)"', page)
        self.assertEqual(len(letters), len(set(letters)))
        self.assertEqual(set(re.findall(r'href="#(DejaVu[^"]*)"', page)), set(letters))

    def test_artifacts_name_families_and_have_experiments(self):
        with open(os.path.join(report.HERE, "artifacts.toml"), "rb") as content:
            papers = report.tomllib.load(content)
        self.assertEqual(len(papers), 6)
        for paper, artifacts in papers.items():
            for artifact, families in artifacts.items():
                for entry in families:
                    named = {"family": entry} if isinstance(entry, str) else entry
                    self.assertIn(named["family"], report.FAMILIES, artifact)
                    if not probes:
                        continue
                    self.assertLessEqual(set(named.get("kind", ())), set(probes.KINDS))
                    parts = [part for kind in named.get("kind", ()) for part in probes.PARTS.get(kind, ())]
                    self.assertLessEqual(set(named.get("panel", ())), set(parts), artifact)
                self.assertTrue(os.path.exists(os.path.join(
                    support.ROOT, "experiments", paper, artifact + ".toml")), artifact)

    def test_dev_plots_draws_the_families_of_the_page_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as root:
            def put(name, text, mode=0o644):
                path = os.path.join(root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as out:
                    out.write(text)
                os.chmod(path, mode)

            # Nothing is built and nothing drawn: the name of every script that would be run is kept.
            shutil.copy(os.path.join(support.ROOT, "dev"), root)
            shutil.copytree(support.PLOTS, os.path.join(root, "plots"))
            put("plots/of_tomorrow.py", "def draw(rows, options=None):\n    return []\n")
            put("plots/helper.py", "def draw_line(cell):\n    return cell\n")
            put("harness/python/requirements.txt", "")
            put(".venv/prepared", "")
            os.makedirs(os.path.join(root, ".venv/lib/python3/site-packages"))
            put(".venv/bin/python", f'#!/bin/sh\n[ "$1" = -I ] || echo "$1" "$4" >>"{root}/drawn"\n', 0o755)
            put("bin/cmake", "#!/bin/sh\n", 0o755)
            done = subprocess.run(
                [os.path.join(root, "dev"), "plots", "rows.jsonl"], capture_output=True, text=True, timeout=60,
                env={**os.environ, "UNMASK_NO_SETUP": "1", "LC_ALL": "C", "PATH": f"{root}/bin:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(root, "drawn"), encoding="utf-8") as lines:
                drawn = lines.read().splitlines()
        expected = sorted([*report.FAMILIES, "of_tomorrow"])
        self.assertEqual(drawn, [f"plots/{name}.py figures/{name}" for name in expected])

    @unittest.skipUnless(FIGURES, "needs matplotlib")
    def test_an_artifact_has_its_own_figures_and_saves_them(self):
        folder = self.made("decode")
        plan = {"experiment": {"file": "x.toml"}, "scale": "tiny", "paper": "focus",
                "artifact": "table_5"}
        with open(os.path.join(folder, "decode", "run.json"), "w", encoding="utf-8") as out:
            json.dump(plan, out)
        page = report.page(support.page_data(folder, EXPERIMENTS), save=True)
        checked(page)
        own, more = page.split("More figures of these rows")
        self.assertIn('id="s0-redundancy0"', own)
        self.assertNotIn("s0-throughput0", own)
        self.assertIn('id="s0-throughput0"', more)
        self.assertEqual(sorted(os.listdir(os.path.join(folder, "decode", "figures"))),
                         ["redundancy.pdf", "redundancy.png", "redundancy.svg"])
        self.assertFalse(os.path.exists(os.path.join(folder, "figures")))

    def test_headlines_come_first_and_a_speed_has_its_score_beside_it(self):
        speed = {"id": "fast", "paper": "focus", "statement": "FOCUS is faster.", "source": "Abstract", "verdict": "PARTLY",
                 "reason": "the score is worse; control: Blocks are as fast: OPEN, 1.09", "measured": 2.16,
                 "interval": [1.97, 2.38], "n": 3, "kind": "speed", "published": {"value": 2.32, "unit": "x"},
                 "score": {"value": -0.154, "interval": [-0.173, -0.134]}, "controls": ["focus/blocks"],
                 "over_simplest": {"value": 0.94, "interval": [0.81, 1.08]}, "simplest": "whole blocks"}
        control = {"id": "blocks", "paper": "focus", "role": "control", "statement": "Blocks are as fast.",
                   "verdict": "OPEN", "measured": 1.092, "interval": [0.856, 1.394]}
        count = {"id": "count", "paper": "optimus", "statement": "Nine in ten.", "verdict": "SUPPORTED",
                 "measured": 0.896, "interval": [0.896, 0.896], "published": None, "source": "Section 3"}
        page = page_of(self.made("chunks", claims=[speed, control, count, *CLAIMS]))
        checked(page)
        first = page[page.index('<section id="headlines"'):page.index('<section id="claims"')]
        self.assertLess(page.index('id="headlines"'), page.index("<h2>Fixture"))
        self.assertEqual(first.count("<tr><td"), 1)  # the abstract's alone
        for words in ("FOCUS is faster.", "2.16 <small>[1.97, 2.38]", "-15.4 pp <small>[-17.3, -13.4]",
                      "0.94 <small>[0.81, 1.08]</small><br><small>whole blocks", "here 0.93 times that"):
            self.assertIn(words, first)
        claims = page[page.index('<section id="claims"'):]
        self.assertEqual(re.findall("claims-of[^>]*><summary>([^:<]*):", claims), ["FOCUS", "Optimus", "other claims"])
        self.assertIn("<details><summary>controls: 1 INCONCLUSIVE</summary><ul", claims)  # closed: up to ten sentences
        self.assertIn('<li><span class="badge mid">○ INCONCLUSIVE</span> Blocks are as fast. <small>1.09 '
                      "<small>[0.856, 1.39]", claims)
        self.assertEqual(claims.count("Blocks are as fast"), 1)  # not in the running text as well
        self.assertIn('<td class=n data-label="measured">0.896</td>', claims)  # a count has no interval of no width

    def test_names_of_models_can_be_told_apart(self):
        def change(row):
            row["model"]["name"] = f"tiny, {row['label']}"

        page = page_of(self.made("chunks", change=change))
        names = list(dict.fromkeys(f"tiny, {r['label']}" for r in support.rows_of("chunks")))
        self.assertIn(f"<dt>models</dt><dd>{len(names)}<small>{' · '.join(names)}</small>", page)

    def test_the_page_needs_no_matplotlib(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "matplotlib"))
            with open(os.path.join(folder, "matplotlib/__init__.py"), "w", encoding="utf-8") as file:
                file.write("raise ModuleNotFoundError(name='matplotlib')\n")
            places = [folder, support.PLOTS, os.path.join(support.ROOT, "harness/python")]
            done = subprocess.run([sys.executable, "-c", "import report; report.page_text"], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(places)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_dollar_signs_in_a_name_are_dollar_signs(self):
        def change(row):
            row["label"] = ("a$b$c", "$$", "$\\frac$")[row["position"] % 3]

        page = page_of(self.made("chunks", change=change))
        checked(page)
        self.assertNotIn("internal error", page)
        if FIGURES:
            self.assertIn("<figure", page)

    def test_rows_that_are_not_reportable_are_in_the_table_with_their_reason(self):
        def change(row):
            row["verdict"], row["reason"] = "INVALID", "the answer still holds masks"

        page = page_of(self.made("chunks", change=change))
        self.assertIn("the answer still holds masks", page)
        self.assertIn("3 of 3 rows are in the tables but in no figure", page)
        self.assertNotIn("<figure", page)

    def test_every_verdict_has_its_badge(self):
        def change(row):
            row["verdict"], row["reason"] = "INACTIVE", "alpha = 0.5 changed nothing"

        page = page_of(self.made("chunks", change=change))
        self.assertIn('<span class="badge mid">○ INACTIVE</span>', page)

    def test_bad_input(self):
        folder = self.made("chunks", claims=[{"id": "x", "statement": "y"}])
        with self.assertRaisesRegex(rowlib.BadInput, "number 1 has no `verdict`"):
            page_of(folder)
        with tempfile.TemporaryDirectory() as empty:
            with self.assertRaisesRegex(rowlib.BadInput, "holds no results"):
                page_of(empty)
        with self.assertRaisesRegex(rowlib.BadInput, "/nowhere does not exist"):
            page_of("/nowhere")
        code, _, error = support.script("report", "/nowhere", "-o", "/nowhere/page")
        self.assertEqual(code, 2)
        self.assertIn("/nowhere does not exist", error)

    def test_the_command_writes_the_page(self):
        program = os.environ.get("UNMASK_PROGRAM")
        if not program:
            self.skipTest("needs UNMASK_PROGRAM")
        folder = self.made("capacity")
        out = os.path.join(folder, "r.html")
        done = subprocess.run([program, "report", folder, "-o", out, "--title", "A & B"],
                              cwd=support.ROOT, capture_output=True, text=True,
                              env={**os.environ, "UNMASK_PYTHON": support.sys.executable})
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, encoding="utf-8") as page:
            self.assertIn("<h1>A &amp; B</h1>", page.read())
        for environment, arguments, code, words in (
                ({"UNMASK_PYTHON": "/no/python"}, [folder], 3, "NOT RUN: needs Python"),
                ({}, [folder, "--plots-dir", "/no"], 3, "--plots-dir"), ({}, [], 2, "folder")):
            done = subprocess.run([program, "report", *arguments], cwd=support.ROOT, text=True,
                                  capture_output=True, env={**os.environ, **environment})
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    if not FIGURES:
        print("without matplotlib: the figures of the page are not tested")
    support.main()
