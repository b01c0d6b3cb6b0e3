# SPDX-License-Identifier: Apache-2.0
"""The pages of claims of results/tiny: links lead to sections, and what a section names is on its page."""

import glob
import io
import os
import re
import tarfile
import tempfile
import types
import unittest

from unmask.claims import claims, pages
from unmask.claims.declare import Published, read_register
from unmask.claims.judge import Result
from unmask.claims.relation import Finding
from unmask.rows.intervals import Estimate


def page(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


class Pages(unittest.TestCase):
    def test_every_link_of_the_overview_leads_to_a_section(self):
        links = re.findall(r"\]\((claims/\w+\.md)#(\w+)\)", page("results/tiny/claims.md"))
        self.assertGreater(len(links), 200)
        for name, anchor in links:
            self.assertEqual(page(f"results/tiny/{name}").count(f'<a id="{anchor}"></a>'), 1, anchor)

    def test_every_control_that_a_section_names_is_in_the_table_of_controls(self):
        named = 0
        for name in glob.glob("results/tiny/claims/*.md"):
            sections, _, controls = page(name).partition("\n## Controls\n")
            for control in re.findall(r"\[(\w+)\]\(#controls\)", sections):
                self.assertIn(f"\n| {control} | ", controls, name)
                named += 1
        self.assertGreater(named, 100)

    def test_the_claims_that_decide_come_first_and_the_rest_below_a_line(self):
        register = read_register("experiments/claims")
        deciding = {(c.paper, c.id) for c in register.claims if c.decides}
        self.assertEqual(len(deciding), 31)
        self.assertFalse(any(c.decides for c in register.controls))
        first, line, rest = page("results/tiny/claims.md").partition("\n---\n")
        self.assertTrue(line)
        links = re.compile(r"\]\(claims/(\w+)\.md#(\w+)\)")
        self.assertEqual(set(links.findall(first)), deciding)
        self.assertEqual(set(links.findall(rest)), {(c.paper, c.id) for c in register.claims} - deciding)
        for paper in {paper for paper, _ in deciding}:
            first, line, _ = page(f"results/tiny/claims/{paper}.md").partition("\n---\n")
            self.assertTrue(line, paper)
            self.assertEqual({(paper, i) for i in re.findall(r'<a id="(\w+)"', first)},
                             {found for found in deciding if found[0] == paper})

    def test_the_claims_that_decide_have_the_column_of_the_simplest_method(self):
        first, _, rest = page("results/tiny/claims.md").partition("\n---\n")
        heading = next(line for line in first.splitlines() if line.startswith("| claim |"))
        self.assertTrue(heading.endswith(" | change of quality, pp | over the simplest method |"), heading)
        self.assertNotIn("over the simplest method", rest)
        found = 0
        for line in first.splitlines():
            link = re.match(r"\| \[.*\]\((claims/\w+\.md)#(\w+)\) \|", line)
            if link:
                section = page(f"results/tiny/{link[1]}").partition(f'<a id="{link[2]}"></a>')[2].partition("\n<a id=")[0]
                cell = re.search(r"\| over the simplest method \| (.*?) \|", section)
                self.assertEqual(line.split(" | ")[-1].removesuffix(" |"), cell[1] if cell else "–", link[2])
                found += cell is not None
        self.assertGreater(found, 5)

    def test_every_claim_of_other_rows_than_most_names_their_commit(self):
        """Most of a paper's rows may be of another commit than most of all: its page counts by all of them."""
        named = 0
        for name in glob.glob("results/tiny/claims/*.md"):
            text = page(name)
            head = re.search(r"^Rows are of commit (\w+)(?:, except those of (\d+) claims and controls)?", text, re.MULTILINE)
            self.assertIn(f"Rows are of commit {head[1]},", page("results/tiny/claims.md"))
            others = [len(ids.split(", ")) for ids in re.findall(r"^Rows of commit .*?: (.*)\.$", text, re.MULTILINE)]
            others += [1] * len(re.findall(r"^\*Rows of commit\*: ", text, re.MULTILINE))
            self.assertEqual(sum(others), int(head[2] or 0), name)
            named += sum(others)
        self.assertIn(f"except those of {named} claims and controls that name others.", page("results/tiny/claims.md"))

    def test_rows_that_are_later_than_the_rules_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/tiny")
            with open(f"{folder}/VERDICTS.md", "w", encoding="utf-8"):
                pass
            for late, says in (((), "after all rows."), ((6,), "after all rows except some of focus/table_6/tiny."),
                               ((3, 4, 5, 6), "after all rows except some of 4 tables and figures.")):
                with tarfile.open(f"{folder}/tiny/rows.tar.xz", "w:xz") as archive:
                    for i in (2, 3, 4, 5, 6):
                        place, when = f"focus/table_{i}/tiny", "2027-01-01" if i in late else "2026-11-28"
                        line = f'{{"finished_at": "{when}T00:00:00Z"}}\n'.encode()
                        member = tarfile.TarInfo(f"{place}/rows.jsonl")
                        member.size = len(line)
                        archive.addfile(member, io.BytesIO(line))
                text = pages.pages([], [], types.SimpleNamespace(hash="r"), f"{folder}/tiny")["claims.md"]
                self.assertIn(f"last changed on {pages.RULES_CHANGED[:10]}, {says}\n", text)

    def judged(self, kind, value, low, high, **fields):
        """A claim without a register, and what was measured of it."""
        c = types.SimpleNamespace(paper="focus", kind=kind, statement="It is so.", reading="", finding="", decides=False,
                                  published=Published(0.04, "Table 1"), **fields)
        return c, Result("SUPPORTED", "", finding=Finding("x", Estimate(value, low, high, 80, "items", "")))

    def test_scores_are_shown_in_points_and_what_did_not_run_has_no_campaigns(self):
        c, r = self.judged("score", -0.0124, -0.0284, 0.00518)
        r.campaigns = "3"
        text = claims.tables.render(claims.headlines_table([(c, r)]), "md")
        self.assertIn("| +4 pp | -1.2 [-2.8, 0.5] pp, n = 80 items | ", text)
        self.assertIn(" | SUPPORTED |\n", text)
        self.assertIn("\nCampaigns: 3.\n", text)
        self.assertEqual(text.count("|", 0, text.index("\n")), 8)  # seven columns: a page shows no more
        r.verdict, r.finding = "NOT RUN", None
        text = claims.tables.render(claims.headlines_table([(c, r)]), "md")
        self.assertIn(" | NOT RUN |\n", text)
        self.assertNotIn("Campaigns", text)

    def test_a_finding_is_a_line_with_its_quality_and_the_simplest_method(self):
        c, r = self.judged("speed", 2.1, 1.5, 2.5)
        c.finding, c.published = "plain block diffusion", Published(2.32, "Fig. 6")
        r.finding.quality, r.score = Estimate(-0.154, -0.173, -0.134, 200, "items", ""), "worse"
        r.over_simplest, r.simplest = Estimate(0.4, 0.2, 0.8, 3, "repetitions", ""), "BD2"
        self.assertEqual(pages.findings([(c, r)]).splitlines()[0],
                         "* **FOCUS** is 2.10 [1.50, 2.50] times as fast as plain block diffusion (paper: 2.32). "
                         "Change of quality: -15.4 [-17.3, -13.4] pp, lower. The simplest method of equal quality is BD2: "
                         "FOCUS is 0.40 [0.20, 0.80] times as fast as that.")
        r.finding.notes = ["chosen in the first campaign", "the score has size 8 for FOCUS, the speed 64"]
        self.assertIn("pp, lower. The score has size 8 for FOCUS, the speed 64. The simplest", pages.findings([(c, r)]))
        r.finding.estimate = Estimate(16.408, 9.96, 102.3, 3, "repetitions", "")
        self.assertIn("is 16.4 [9.96, 102] times", pages.findings([(c, r)]))


if __name__ == "__main__":
    unittest.main()
