# SPDX-License-Identifier: Apache-2.0
"""Names of a closed list: the message about one that is not in it, and numbers as settings write
them."""

import difflib

from unmask.rows.errors import UserError

PAPERS = {"ada_dlm": "Ada-DLM", "focus": "FOCUS", "focus_dllm": "Focus-dLLM", "optimus": "Optimus",
          "sparse_dllm": "Sparse-dLLM"}


def paper_name(paper):
    return PAPERS.get(paper, paper.replace("_", " "))


def unknown_name(what, wrong, known):
    """Says that a name is unknown, with the nearest one, or with all of them where none is near."""
    known = list(dict.fromkeys(known))
    if not known:
        return f"unknown {what} '{wrong}'; there is none to choose from"
    lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(wrong[:200].lower(), lower, n=1)
    if not near:
        near = [n for n in lower if len(wrong) >= 3 and (n.startswith(wrong.lower()) or
                                                         wrong.lower().startswith(n))]
    if near:
        return f"unknown {what} '{wrong}'; did you mean '{lower[near[0]]}'?"
    return f"unknown {what} '{wrong}'; known: {', '.join(sorted(known))}"


def find_known(what, name, known, where=""):
    """Raises a UserError, led by `where`, for a name that is not among the known ones."""
    if name not in known:
        raise UserError((where + ": " if where else "") + unknown_name(what, name, known))


def keep_named(what, only, entries, names):
    """Keeps the entries one of whose names is in `only`; all of them where it is empty."""
    if not only:
        return entries
    known = [name for entry in entries for name in names(entry)]
    for name in only:
        find_known(what, name, known)
    return [entry for entry in entries if any(name in only for name in names(entry))]


def number_text(value):
    """Writes a number as the program does: the shortest text that reads back as the same value, plain
    where that is no longer than with an exponent (C++'s std::to_chars)."""
    if isinstance(value, int):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    if value == 0:
        return "-0" if str(value).startswith("-") else "0"
    mantissa, exponent = f"{value!r}", 0
    if "e" in mantissa:
        mantissa, power = mantissa.split("e")
        exponent = int(power)
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, part = mantissa.lstrip("-").partition(".")
    part = "" if part == "0" else part
    digits = (whole + part).lstrip("0")
    point = len(whole) + exponent - (len(whole + part) - len(digits))  # digits before the point
    digits = digits.rstrip("0")
    power = point - 1
    scientific = digits[0] + ("." + digits[1:] if digits[1:] else "")
    scientific += f"e{'-' if power < 0 else '+'}{abs(power):02d}"
    if point <= 0:
        plain = "0." + "0" * -point + digits
    elif point >= len(digits):
        plain = digits + "0" * (point - len(digits))
    else:
        plain = digits[:point] + "." + digits[point:]
    return sign + (plain if len(plain) <= len(scientific) else scientific)


def value_text(value):
    """Writes a setting as the program does: true, 4, 0.9, a text as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if isinstance(value, (int, float)) else str(value)
