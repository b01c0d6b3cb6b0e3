# SPDX-License-Identifier: Apache-2.0
"""unmask pictures: write pictures as a model is shown them, for runs without Python.

A PNG or JPEG file becomes the views that the model's own code would make of it, byte for byte: sizes, tiles, padding
and Pillow's resampling. Each becomes one file in the folder; its name says by a hash what it was made of."""

import os

from unmask.pictures import prepared
from unmask.pictures.families import Mmada, family_of
from unmask.pictures.resample import read_picture
from unmask.rows import options
from unmask.rows.errors import UserError
from unmask.rows.files import replace_file
from unmask.rows.text import json_text


def prepare(path, family, preset):
    """(file name, bytes) of a picture for a family; UserError that names the picture."""
    image, digest = read_picture(path)
    try:
        views, tiles = family.views(image, preset)
    except ValueError as problem:
        raise UserError(f"{path}: the picture cannot be shown to {family.name}: {problem}") from None
    return (prepared.file_name(family, preset, digest),
            prepared.content(family, preset, image.size, digest, views, tiles))


def main(arguments):
    parser = options.parser(__doc__)
    parser.add_argument("file", nargs="+", help="PNG or JPEG pictures")
    parser.add_argument("--model", required=True, metavar="FOLDER", help="the checkpoint that is shown the pictures")
    parser.add_argument("--preset", metavar="NAME", help="cut into tiles, pad or squeeze (LLaDA-V); crop or squash (MMaDA) "
                        "(default: what its configuration says)")
    parser.add_argument("--side", type=int, metavar="N", help="MMaDA: make a side N pixels long (default: 512)")
    parser.add_argument("-o", "--output", default="pictures", metavar="FOLDER",
                        help="write the files into this folder (default: pictures)")
    parser.add_argument("--quiet", action="store_true", help="print no names of files")
    options.add_format(parser)
    given = parser.parse_args(options.spelled(arguments))
    family = family_of(given.model)
    if given.side is not None:
        if not isinstance(family, Mmada) or not 1 <= given.side <= 4096:
            raise UserError("--side takes 1 to 4096 pixels, for MMaDA alone")
        family = Mmada(None, None, given.side)
    preset = given.preset or family.presets[0]
    if preset not in family.presets:
        raise UserError(f"--preset {preset}: {family.name} has {', '.join(sorted(family.presets))}")
    written = []
    for path in given.file:
        name, content = prepare(path, family, preset)
        written.append({"picture": path, "file": os.path.join(given.output, name)})
        replace_file(written[-1]["file"], content)
        if not given.quiet and given.format == "text":
            print(written[-1]["file"])
    if given.format == "json":
        print(json_text({"model": given.model, "preset": preset, "pictures": written}), end="")
    return 0
