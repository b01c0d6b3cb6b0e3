# SPDX-License-Identifier: Apache-2.0
"""Pictures of digits, drawn from a seed: 56 x 56 pixels, 4 x 4 cells of 14, one to three digits in cells of their own.

A digit is 3 x 5 dots of 2 x 2 pixels somewhere in its cell. Each picture has a colour of its own for the digits and one
for the ground. The question asks for the number that the digits make in reading order.
"""
import numpy as np

SIDE, CELL, CELLS, DOT, BLANK = 56, 14, 4, 2, 10
MOST_DIGITS = 3
QUESTION = "Read the digits."
ROWS = {  # the dots of each digit, by rows, as three bits
    0: (7, 5, 5, 5, 7), 1: (2, 6, 2, 2, 7), 2: (7, 1, 7, 4, 7), 3: (7, 1, 7, 1, 7), 4: (5, 5, 7, 1, 1),
    5: (7, 4, 7, 1, 7), 6: (7, 4, 7, 5, 7), 7: (7, 1, 2, 2, 2), 8: (7, 5, 7, 5, 7), 9: (7, 5, 7, 1, 7)}


def glyph(digit):
    """[10, 6] bool."""
    bits = np.array([[row >> (2 - x) & 1 for x in range(3)] for row in ROWS[digit]], bool)
    return bits.repeat(DOT, 0).repeat(DOT, 1)


def colours(rng):
    """(of the ground, of the digits): a dark and a light one."""
    dark, light = rng.integers(0, 80, 3), rng.integers(150, 256, 3)
    return (dark, light) if rng.random() < 0.5 else (light, dark)


def put(picture, digit, top, left, ink, rng):
    """Draws a digit somewhere in the cell with this corner."""
    shape = glyph(digit)
    top += int(rng.integers(1, CELL - shape.shape[0]))
    left += int(rng.integers(1, CELL - shape.shape[1]))
    picture[top:top + shape.shape[0], left:left + shape.shape[1]][shape] = ink


def cell(rng):
    """(one cell [14, 14, 3] uint8, its class); all classes are as likely."""
    kind = int(rng.integers(BLANK + 1))
    ground, ink = colours(rng)
    picture = np.empty((CELL, CELL, 3), np.uint8)
    picture[:] = ground
    if kind != BLANK:
        put(picture, kind, 0, 0, ink, rng)
    return picture, kind


def draw(rng):
    """(picture [56, 56, 3] uint8, classes [16]: the digit of each cell or BLANK, the number as text)."""
    count = int(rng.integers(1, MOST_DIGITS + 1))
    places = np.sort(rng.choice(CELLS * CELLS, count, replace=False))
    digits = [int(rng.integers(1 if i == 0 and count > 1 else 0, 10)) for i in range(count)]
    ground, ink = colours(rng)
    picture = np.empty((SIDE, SIDE, 3), np.uint8)
    picture[:] = ground
    classes = np.full(CELLS * CELLS, BLANK)
    for place, digit in zip(places, digits):
        put(picture, digit, place // CELLS * CELL, place % CELLS * CELL, ink, rng)
        classes[place] = digit
    return picture, classes, "".join(map(str, digits))
