# SPDX-License-Identifier: Apache-2.0
"""run.json, which lies beside the rows of a run and says what it was asked for
(harness/plan/request.h writes it)."""

import hashlib
import os
import pathlib
import re

from unmask.rows.errors import EnvironmentFault
from unmask.rows.files import read_bytes
from unmask.rows.text import json_value

NAME = "run.json"
VERSION = 1
LARGEST = 64 << 20


def _broken(path, what):
    return EnvironmentFault(f"{path}: broken manifest: {what}")


def _object(path):
    try:
        read = json_value(read_bytes(path, LARGEST).decode())
    except ValueError:
        raise _broken(path, "no JSON") from None
    if not isinstance(read, dict):
        raise _broken(path, "no JSON object")
    return read


def read_manifest(path):
    """Reads a manifest: file, text, scale, set, source_hash, paper, artifact, pictures. EnvironmentFault
    where it is missing, broken, of another version, or its text has another hash."""
    if not os.path.lexists(path):
        raise EnvironmentFault(f"{path} is missing; only runs of an experiment file have it")
    read = _object(path)
    if read.get("manifest_version") != VERSION:
        raise _broken(path, f"manifest version {read.get('manifest_version')} is not known to this "
                      "program")
    experiment = read.get("experiment")
    if not isinstance(experiment, dict):
        raise _broken(path, "`experiment` is missing")
    manifest = {}
    for name, source in (("file", experiment), ("text", experiment), ("sha256", experiment),
                         ("scale", read), ("source_hash", read)):
        if not isinstance(source.get(name), str):
            raise _broken(path, f"`{name}` is missing or no text")
        manifest[name] = source[name]
    for name in ("paper", "artifact"):
        manifest[name] = read.get(name, "")
        if not isinstance(manifest[name], str):
            raise _broken(path, f"`{name}` is no text")
    manifest["set"] = read.get("set")
    if not isinstance(manifest["set"], list) or not all(isinstance(s, str) for s in manifest["set"]):
        raise _broken(path, "`set` is missing or no list of texts")
    manifest["pictures"] = read.get("pictures", [])
    if not isinstance(manifest["pictures"], list) or not all(
            isinstance(name, str) and re.fullmatch(r"picture-[0-9a-f]{16}\.safetensors", name)
            for name in manifest["pictures"]):
        raise _broken(path, "`pictures` is no list of names of prepared pictures")
    if hashlib.sha256(manifest["text"].encode()).hexdigest() != manifest["sha256"]:
        raise _broken(path, "the experiment's text does not have the hash it is said to have")
    return manifest


def planned_ids(path):
    """Lists the ids of the points that the run beside `path` planned."""
    plan = _object(path).get("plan")
    if not isinstance(plan, list):
        raise EnvironmentFault(f"{path}: `plan` is missing")
    for point in plan:
        if not isinstance(point, dict) or not isinstance(point.get("id"), str):
            raise EnvironmentFault(f"{path}: a point of `plan` has no `id`")
    return [point["id"] for point in plan]


def name_of(manifest):
    """Names a run: PAPER_ARTIFACT_SCALE, else the stem of its file; letters, digits, _ . - alone."""
    parts = [manifest["paper"], manifest["artifact"], manifest["scale"]]
    name = ("_".join(p for p in parts if p) if manifest["paper"]
            else pathlib.PurePath(manifest["file"]).stem)
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in name)
    return plain.lstrip(".") or "run"
