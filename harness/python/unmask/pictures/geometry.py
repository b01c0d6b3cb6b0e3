# SPDX-License-Identifier: Apache-2.0
"""Sizes that the models' own code gives to a picture. Widths stand before heights; all in pixels."""

import math


def best_resolution(width, height, points):
    """Of the points (w, h), the one that keeps most of a width x height picture; of equals the one that wastes
    least, then the first (LLaVA's select_best_resolution)."""
    best, most, least = None, 0, math.inf
    for w, h in points:
        scale = min(w / width, h / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        wasted = w * h - kept
        if kept > most or (kept == most and wasted < least):
            best, most, least = (w, h), kept, wasted
    return best


def fitted(width, height, box):
    """The largest size of the picture's ratio inside the box (LLaVA's resize_and_pad_image)."""
    w, h = box
    across, down = w / width, h / height
    if across < down:
        return w, min(math.ceil(height * across), h)
    return min(math.ceil(width * down), w), h


def multiples(width, height, cell, least, most):
    """The nearest multiples of `cell` whose product is between `least` and `most` pixels (Qwen2-VL's smart_resize).
    ValueError for a side below the cell or a ratio above 200."""
    if min(width, height) < cell:
        raise ValueError(f"{width}x{height} pixels, and a side must have at least {cell}")
    if max(width, height) / min(width, height) > 200:
        raise ValueError(f"{width}x{height} pixels, and the ratio of the sides must be at most 200")
    w, h = round(width / cell) * cell, round(height / cell) * cell
    if w * h > most:
        scale = math.sqrt(height * width / most)
        return math.floor(width / scale / cell) * cell, math.floor(height / scale / cell) * cell
    if w * h < least:
        scale = math.sqrt(least / (height * width))
        return math.ceil(width * scale / cell) * cell, math.ceil(height * scale / cell) * cell
    return w, h


def shorter_to(width, height, side):
    """The size whose shorter side is `side` (torchvision's Resize), and the corner of the centre crop of it."""
    if width <= height:
        size = side, int(side * height / width)
    else:
        size = int(side * width / height), side
    return size, (round((size[0] - side) / 2), round((size[1] - side) / 2))
