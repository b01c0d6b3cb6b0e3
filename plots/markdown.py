# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The Markdown that the program writes (headings, pipe tables, bold, code) as HTML."""

import html
import re


def inline(text):
    text = html.escape(text, quote=True)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)


def cells_of(line):
    """Cells of a table line; `\\|` is a bar inside a cell."""
    parts = re.split(r"(?<!\\)\|", line.strip().strip("|") if not line.rstrip().endswith(r"\|")
                     else line.strip().lstrip("|"))
    return [p.strip().replace(r"\|", "|") for p in parts]


def is_rule(line):
    return bool(re.fullmatch(r"\|?[\s:|-]*-[\s:|-]*\|?", line.strip())) and "|" in line


def table(lines):
    right = [c.endswith(":") for c in cells_of(lines[1])]

    def row(line, tag):
        found = cells_of(line)
        number = [' class="n"' if i < len(right) and right[i] else "" for i in range(len(found))]
        return "<tr>" + "".join(f"<{tag}{n}>{inline(c)}</{tag}>"
                                for n, c in zip(number, found)) + "</tr>"

    return ('<div class="scroll" tabindex="0" role="region" aria-label="table"><table><thead>'
            + row(lines[0], "th") + "</thead><tbody>"
            + "".join(row(line, "td") for line in lines[2:]) + "</tbody></table></div>")


def to_html(text):
    """HTML of a document; headings become h3 and h4."""
    out, lines, place = [], text.split("\n"), 0
    while place < len(lines):
        line = lines[place]
        if line.startswith("|") and place + 1 < len(lines) and is_rule(lines[place + 1]):
            end = place
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            out.append(table(lines[place:end]))
            place = end
            continue
        heading = re.match(r"(#+) (.*)", line)
        if heading:
            level = 3 if len(heading.group(1)) < 3 else 4
            out.append(f"<h{level}>{inline(heading.group(2))}</h{level}>")
        elif line.startswith(("- ", "* ")):
            end = place
            while end < len(lines) and lines[end].startswith(("- ", "* ")):
                end += 1
            out.append("<ul>" + "".join(f"<li>{inline(item[2:])}</li>"
                                        for item in lines[place:end]) + "</ul>")
            place = end
            continue
        elif line.strip():
            out.append(f'<p class="quiet">{inline(line)}</p>')
        place += 1
    return "".join(out)
