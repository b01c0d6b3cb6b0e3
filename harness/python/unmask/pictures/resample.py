# SPDX-License-Identifier: Apache-2.0
"""From a PNG or JPEG file to a picture of another size, with the bytes that the models' own code makes of it.

Pillow resamples. It is asked for one axis a call, the width of the whole picture first, because its versions differ
in the order in which one call treats both."""

import contextlib
import hashlib
import io
import warnings

from unmask.rows.errors import UserError
from unmask.rows.files import read_bytes
from unmask.rows.later import Later

Image = Later("PIL.Image")
RULE = "columns-then-rows"
LARGEST_FILE = 1 << 28  # bytes
MOST_PIXELS = 1 << 28
PREMULTIPLIED = {"RGBA": "RGBa", "LA": "La"}


def version():
    """Pillow's."""
    return Later("PIL").__version__


@contextlib.contextmanager
def bounded_pixels():
    """Pillow refuses what has more than MOST_PIXELS by its header, before a pixel is decoded."""
    from PIL import Image as module
    before = module.MAX_IMAGE_PIXELS
    module.MAX_IMAGE_PIXELS = MOST_PIXELS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", module.DecompressionBombWarning)
            yield
    finally:
        module.MAX_IMAGE_PIXELS = before


def read_picture(path):
    """(picture, SHA-256 of the file). The picture has the file's own mode; how a camera was held is not applied, as
    in the models' own code. UserError that names the file if it is no PNG or JPEG, is too large or is damaged."""
    content = read_bytes(path, LARGEST_FILE)
    with bounded_pixels():
        try:
            image = Image.open(io.BytesIO(content), formats=("PNG", "JPEG"))
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            raise UserError(f"{path}: the picture has more than {MOST_PIXELS} pixels") from None
        except Exception:  # whatever a stranger's file makes a decoder raise
            raise UserError(f"{path}: is no PNG or JPEG picture") from None
        try:
            image.load()
        except Exception as problem:
            words = " ".join(str(problem).split())[:200]
            raise UserError(f"{path}: the picture is truncated or damaged ({words})") from None
    return image, hashlib.sha256(content).hexdigest()


def rgb(image):
    """Three channels: a palette's transparency is ignored, alpha is dropped, 16 bits of grey are cut at 255."""
    return image.convert("RGB")


def resize(image, width, height):
    """The picture in its own mode at width x height pixels, bicubic; a palette or 1 bit takes the nearest pixel."""
    if image.size == (width, height):
        return image.copy()
    if image.mode in ("1", "P"):
        return image.resize((width, height), Image.Resampling.NEAREST)
    mode = image.mode
    image = image.convert(PREMULTIPLIED.get(mode, mode))
    if image.size[0] != width:
        image = image.resize((width, image.size[1]), Image.Resampling.BICUBIC)
    if image.size[1] != height:
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    return image.convert(mode)
