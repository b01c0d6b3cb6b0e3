# SPDX-License-Identifier: Apache-2.0
"""Reads a GGUF file: its metadata and its matrices, dequantised. Needs numpy alone.

The layout is that of the format's description (version 3): a header, typed key-value pairs, a table
of tensors, and behind it, aligned to 32 bytes, their data.
"""
import mmap
import struct

import numpy as np

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8
ALIGNMENT = 32


class Gguf:
    """`meta`: key to value. `shapes`: tensor name to shape, the fastest dimension last."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        self.path, self.at = path, 0
        magic, version, tensors, pairs = self.take("<4sIQQ")
        if magic != b"GGUF" or version != 3:
            raise SystemExit(f"{path}: is not a GGUF file of version 3")
        self.meta = {}
        for _ in range(pairs):
            key = self.text()
            self.meta[key] = self.value(*self.take("<I"))
        self.shapes, self.places = {}, {}
        for _ in range(tensors):
            name = self.text()
            dims = self.take("<%dQ" % self.take("<I")[0])
            self.shapes[name] = tuple(reversed(dims))
            self.places[name] = self.take("<IQ")
        self.base = -(-self.at // ALIGNMENT) * ALIGNMENT

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def text(self):
        size, = self.take("<Q")
        self.at += size
        return self.data[self.at - size:self.at].decode("utf-8")

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            kind, count = self.take("<IQ")
            return [self.value(kind) for _ in range(count)]
        return self.take("<" + SCALARS[kind])[0]

    def tensor(self, name):
        """The tensor as float32. Blocks of 32 values: Q4_1 has a float16 scale, a float16 minimum and
        16 bytes whose low halves are the first 16 values; Q8_0 a float16 scale and 32 signed bytes."""
        kind, offset = self.places[name]
        count, at = int(np.prod(self.shapes[name])), self.base + offset
        if kind in (F32, F16):
            found = np.frombuffer(self.data, "<f4" if kind == F32 else "<f2", count, at)
            return found.astype(np.float32).reshape(self.shapes[name])
        if kind == Q4_1:
            block = np.dtype([("scale", "<f2"), ("least", "<f2"), ("pairs", "u1", 16)])
            b = np.frombuffer(self.data, block, count // 32, at)
            codes = np.concatenate([b["pairs"] & 15, b["pairs"] >> 4], axis=1).astype(np.float32)
            values = codes * b["scale"].astype(np.float32)[:, None]
            values += b["least"].astype(np.float32)[:, None]
        elif kind == Q8_0:
            block = np.dtype([("scale", "<f2"), ("codes", "i1", 32)])
            b = np.frombuffer(self.data, block, count // 32, at)
            values = b["codes"].astype(np.float32) * b["scale"].astype(np.float32)[:, None]
        else:
            raise SystemExit(f"{self.path}: {name} has the storage type {kind}; only float32, "
                             "float16, Q4_1 and Q8_0 are read")
        return values.reshape(self.shapes[name])
