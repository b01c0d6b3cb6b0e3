# SPDX-License-Identifier: Apache-2.0
"""The words that tables, pages and figures show: headings of columns and verdicts, of glossary.toml, which the
program reads too (`unmask show glossary`)."""

import os
import tomllib

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "glossary.toml"), "rb") as _file:
    GLOSSARY = tomllib.load(_file)
_HEADINGS = {t.get("stored", t["word"]): t["word"] for t in GLOSSARY["columns"]}
_FAMILIES = {stored: word for stored, word in _HEADINGS.items() if "*" in stored}
# The stored verdict for each shown one, by what is judged.
VERDICTS = {}
for _term in GLOSSARY["verdicts"]:
    VERDICTS.setdefault(_term["of"], {})[_term["stored"], _term.get("when", "")] = _term["word"]


def find_heading(name):
    """The heading of a column, by the stored name of a metric or by its own word; None for an unknown name."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    for stored, word in _FAMILIES.items():
        before, after = stored.split("*")
        part = name[len(before):len(name) - len(after)]
        if name.startswith(before) and name.endswith(after) and part:
            return word.replace("*", part.upper() if part[1:].isdigit() and part[0] == "p" else part.replace("_", " "))
    return None


def heading(name):
    """find_heading(); a KeyError names what the glossary lacks."""
    found = find_heading(name)
    if found is None:
        raise KeyError(f"the glossary lacks the column {name!r}")
    return found


def columns(names):
    """Headers of a table by the names that heading() takes: "model | >tpf"; ">" marks a column of numbers."""
    return [">" * name.startswith(">") + heading(name.lstrip(">")) for name in names.split(" | ")]


def shown(of, stored, when=""):
    """The word for a stored verdict: shown("claim", "OPEN")."""
    return VERDICTS[of][stored, when]


def shown_row(row):
    """The word for the verdict of a row: UNSCORED, or UNCHECKED if the device check was off."""
    unchecked = row["verdict"] == "NOT_VERIFIED" and row["model"].get("checked") == "NOT VERIFIED"
    return shown("row", row["verdict"], "device check off" if unchecked else "")


def meanings(of):
    """[(word, meaning)] of a list of verdicts, in the order of the glossary."""
    return [(t["word"], t["meaning"]) for t in GLOSSARY["verdicts"] if t["of"] == of]
