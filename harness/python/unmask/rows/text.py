# SPDX-License-Identifier: Apache-2.0
"""Texts of strangers on their way to a terminal, as harness/base/output.h shows them."""

import json
import math
import re

# C0 but newline and tab, DEL, C1, and the marks that turn the direction of writing.
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
HALF_ESCAPED = re.compile("[\ud800-\udfff]|\\\\u[dD][89a-fA-F]")
HALVES = re.compile("[\ud800-\udfff]")


def shown(text):
    """The text with every control character written out, "\\u001b"; lone surrogates as U+FFFD."""
    return COMMANDS.sub(written_out, str(text))


def shown_all(value):
    """A JSON value with every text in it, names of members too, as shown() has it."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, list):
        return [shown_all(v) for v in value]
    return {shown(k): shown_all(v) for k, v in value.items()} if isinstance(value, dict) else value


def json_value(text, **how):
    """json.loads() as the program reads: ValueError also where JSON is nested too deeply, or holds half a
    surrogate pair, which no file takes."""
    try:
        value = json.loads(text, **how)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    plainly = text.isascii() and "\\" not in text  # as almost every row is
    if not plainly and HALF_ESCAPED.search(text) and HALVES.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("half a surrogate pair")
    return value


def whole(text):
    """The text with U+FFFD for each lone surrogate, which JSON can hold and UTF-8 cannot."""
    return HALVES.sub("\ufffd", text)


def written_out(sign):
    """A control character as \\uXXXX, half a surrogate pair as the replacement character."""
    code = ord(sign[0])
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"


def json_text(value):
    """Writes JSON with one value a line; a number that is not finite becomes null."""
    return whole(json.dumps(finite(value), indent=1, ensure_ascii=False)) + "\n"


def finite(value):
    """The value with None for every number in it that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    return [finite(v) for v in value] if isinstance(value, (list, tuple)) else value
