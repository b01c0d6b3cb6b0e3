# SPDX-License-Identifier: Apache-2.0
"""The pages of claims of results/tiny: links lead to sections, and what a section names is on its page."""

import glob
import re
import unittest


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


if __name__ == "__main__":
    unittest.main()
