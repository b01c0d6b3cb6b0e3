# SPDX-License-Identifier: Apache-2.0
"""The file of a picture that was made ready: its views as bytes, and what they were made of and how.

A safetensors file with one tensor `views` [n, height, width, 3] U8. Its metadata are texts; harness/measure/
pictures/prepared.cpp reads them."""

import hashlib
import json

from unmask.pictures.resample import RULE, version
from unmask.rows.later import np

VERSION_OF_FILES = "1"
SHOWN_DIGITS = 16


def file_name(family, preset, picture):
    """Of the picture with this SHA-256: equal for equal pictures, settings, presets and rules."""
    said = "\n".join([VERSION_OF_FILES, family.name, preset, family.settings, picture, RULE])
    return f"picture-{hashlib.sha256(said.encode()).hexdigest()[:SHOWN_DIGITS]}.safetensors"


def hash_of_tables(family):
    """SHA-256 of the little-endian floats that the bytes are worth."""
    return hashlib.sha256(family.tables().astype("<f4").tobytes()).hexdigest()


def content(family, preset, size, picture, views, tiles):
    """The bytes of the file. `size` is (width, height) of the picture; `tiles` (across, down) or None."""
    views = np.ascontiguousarray(views, np.uint8)
    metadata = {"prepared_picture": VERSION_OF_FILES, "family": family.name, "preset": preset,
                "settings": family.settings, "size": "{}x{}".format(*size),
                "tiles": "{}x{}".format(*tiles) if tiles else "none", "pillow": version(), "rule": RULE,
                "picture": picture, "tables": hash_of_tables(family)}
    head = json.dumps({"__metadata__": metadata, "views": {"dtype": "U8", "shape": views.shape,
                                                           "data_offsets": [0, views.size]}})
    head = head.encode() + b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + views.tobytes()
