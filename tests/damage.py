# SPDX-License-Identifier: Apache-2.0
"""Damage as disks, transfers and strangers do it: to bytes, to the lines of a text, to the values of JSON.
Everything is drawn from a generator that the caller seeds."""

import copy
import json
import re

ODD = (None, True, -1, 0, 1.5, 2 ** 31, 2 ** 32 + 32, 2 ** 63, 1e300, float("inf"), float("nan"), "", "x",
       "\x1b[2J", "\udc80", "../../x", [], {}, [None], [[]], [2 ** 40], {"a": 1}, int("9" * 400))
WORDS = (b"\x1b[31m", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"1e999", b"NaN", b"Infinity", b"-", b"9" * 5000,
         b"[" * 3000, b'{"a":' * 300, b'"', b"'", b"\\", b"=", b",", b"]", b"}", b"null", b"\r", b"\xe2\x80\xae")


def places(value, place=()):
    """The places of all values in an object or list, of a list of its first four."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(min(len(value), 4)):
            yield place + (key,)
            yield from places(value[key], place + (key,))


def changed_values(value, draw):
    """A copy with one to three values of another kind, or left out."""
    value = copy.deepcopy(value)
    for _ in range(draw.randint(1, 3)):
        known = list(places(value))
        if not known:
            return value
        *above, last = draw.choice(known)
        at = value
        for key in above:
            at = at[key]
        if draw.random() < 0.2:
            del at[last]
        else:
            at[last] = copy.deepcopy(draw.choice(ODD))
    return value


def changed_json(text, draw):
    """JSON text whose values are changed."""
    value = changed_values(json.loads(text), draw)
    return json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")


def _numbers_changed(data, draw):
    found = list(re.finditer(rb"\d+", data))
    if not found:
        return data
    at = draw.choice(found)
    number = draw.choice((b"1e999", b"-1", b"4294967328", b"9223372036854775808", b"NaN", b"inf", b"true",
                          b'"x"', b"[]", b"0", b"9" * 5000))
    return data[:at.start()] + number + data[at.end():]


def _lines_changed(data, draw):
    lines = data.split(b"\n")
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    what = draw.randrange(3)
    if what == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif what == 1:
        lines.insert(other, lines[one])
    else:
        del lines[one]
    return b"\n".join(lines)


def _once_changed(data, draw):
    at, end = sorted((draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)))
    end = min(end, at + 64)
    what = draw.randrange(8)
    if what == 0 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:]
    if what == 1 and draw.random() < 0.3:
        return data[:at]
    if what in (2, 3):
        return data[:at] + draw.choice(WORDS) + data[at if what == 2 else end:]
    if what == 4:
        return data[:at] + data[end:]
    if what == 5:
        return data[:end] + data[at:]
    return (_numbers_changed if what == 6 else _lines_changed)(data, draw)


def changed_bytes(data, draw):
    """One to four changes: a bit, an end cut off, a piece or line left out, doubled or moved, a number beyond
    its type, deep nesting, a control character, text that is not UTF-8."""
    for _ in range(draw.randint(1, 4)):
        data = _once_changed(data, draw)
    return data


def changed_lines(data, draw):
    """JSON lines: the values of one line changed, or bytes anywhere."""
    lines = data.split(b"\n")
    full = [i for i, line in enumerate(lines) if line.strip()]
    if not full or draw.random() < 0.4:
        return changed_bytes(data, draw)
    at = draw.choice(full)
    lines[at] = changed_json(lines[at], draw)
    return b"\n".join(lines)


def changed_document(data, draw):
    """One JSON text: its values changed, or its bytes."""
    return (changed_json if draw.random() < 0.5 else changed_bytes)(data, draw)
