#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Prints what the files of experiments/PAPER hold as a table: artifact_table.py PAPER"""

import json
import re
import sys
import tomllib
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parent
sys.path.insert(0, str(EXPERIMENTS.parent / "harness/python"))

from unmask.rows.experiments import read_experiment  # noqa: E402 (the package beside the experiments)


def read(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


def where(scale, say_why):
    if scale is None:
        return "–"
    if why := scale.get("not_run"):
        return f"not run: {why}" if say_why else "not run"
    return re.sub(r"^(\d+) minutes", r"\1 min", scale.get("takes", "").replace(" of one core", ""))


def number_of(path):
    return path.stem.split("_")[0] != "table", int(re.search(r"\d+", path.stem).group())


def main():
    paper = sys.argv[1]
    published = read(EXPERIMENTS / "published" / f"{paper}.toml")
    register = json.loads((EXPERIMENTS / "claims/register.json").read_text(encoding="utf-8"))
    mine = [c for key, c in register.items() if key.split("/")[0] == paper]
    claims = [c for c in mine if c["role"] == "claim"]
    about = [artifact for c in claims for artifact in c["artifacts"]]
    print(f"{len(published['value'])} published values, {len(claims)} claims and "
          f"{len(mine) - len(claims)} controls.\n")
    print("| file | shows | tiny | shapes | full | values, claims |\n|---|---|---|---|---|---:|")
    contradictions = []
    for path in sorted((EXPERIMENTS / paper).glob("*.toml"), key=number_of):
        file = read_experiment(str(path))
        head, scales, name = file["artifact"], file.get("scale", {}), path.stem
        title = name.replace("_", " ").capitalize()
        shows = head["title"]
        if why := head.get("not_reproducible"):
            shows += f" (not measured: {why})"
        values = sum(v.get("artifact") == name for v in published["value"])
        against = [i["where"] for i in published.get("inconsistency", []) if i.get("artifact") == name]
        contradictions += [f"* {title}: {'; '.join(against)}"] * bool(against)
        cells = [where(scales.get(s), s == "tiny") for s in ("tiny", "shapes", "full")]
        print(f"| [{title}]({paper}/{path.name}) | {shows} | " + " | ".join(cells)
              + f" | {values}, {about.count(name)} |")
    elsewhere = [i["where"] for i in published.get("inconsistency", []) if "artifact" not in i]
    contradictions += [f"* elsewhere: {'; '.join(elsewhere)}"] * bool(elsewhere)
    if contradictions:
        print("\nWhere the paper contradicts itself:\n")
        print("\n".join(contradictions))


if __name__ == "__main__":
    main()
