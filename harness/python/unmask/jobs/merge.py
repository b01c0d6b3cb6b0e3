# SPDX-License-Identifier: Apache-2.0
"""unmask merge: join results that were measured in parts.

Byte for byte, in the order of their plan. No row that was read is lost: what one file holds more of is said, never
overwritten."""

import io
import json
import os
import sys
from dataclasses import dataclass

from unmask.rows import manifest, options
from unmask.rows.comparable import difference
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import does_not_exist, read_bytes, replace_file, shown
from unmask.rows.machines import machine_class
from unmask.rows.rows import BYTE_ORDER_MARK, lines_of
from unmask.rows.text import json_text

LARGEST_FILE = 4 << 30


@dataclass
class Found:
    """A row where it was read."""
    line: bytes
    row: dict
    file: str
    number: int

    @property
    def place(self):
        return f"{self.file}:{self.number}"

    @property
    def failed(self):
        return self.row["verdict"] == "FAILED"


def read_lines(path):
    """Reads a file of rows: what it holds, and how many of its lines are no row, by the one reader of rows. A
    last line without its end counts when it is whole; what is no row is passed over and said."""
    found, full = [], 0
    content = read_bytes(path, LARGEST_FILE)
    for row, line, number in lines_of(io.BytesIO(content), str(path)):
        found.append(Found(line, row, str(path), number))
    for line in content.split(b"\n"):
        full += bool(line.removeprefix(BYTE_ORDER_MARK).strip(b" \t\r"))
    return found, full - len(found)


def is_rows_file(name):
    """Tells whether a file of a folder may hold rows, by its name."""
    return (name.endswith(".jsonl") and not name.startswith("samples_")
            and name != "campaign.jsonl")


def _refuse(problem):
    raise EnvironmentFault(f"{problem.filename}: cannot read the folder ({problem.strerror})")


def files_of(sources):
    """Lists the files of rows in files and folders, each file once however it is called."""
    files = []
    for source in sources:
        if not os.path.exists(source):
            raise does_not_exist(source)
        if not os.path.isdir(source):
            files.append(source)
            continue
        for folder, folders, names in os.walk(source, onerror=_refuse):
            folders.sort()
            files += [os.path.join(folder, name) for name in names if is_rows_file(name)]
    seen, once = set(), []
    for file in sorted(files):
        info = os.stat(file)
        if (info.st_dev, info.st_ino) not in seen:
            seen.add((info.st_dev, info.st_ino))
            once.append(file)
    return once


def _apart(a, b):
    """Says what differs between the machines and programs of two rows."""
    sources = [row.get("source_hash", "") for row in (a, b)]
    parts = [difference(a["environment"], b["environment"])]
    if sources[0] != sources[1]:
        parts.append(f"source_hash: {json.dumps(sources[0])} and {json.dumps(sources[1])}")
    return "; ".join(filter(None, parts))


def refuse_mixture(kept):
    """Refuses rows of more than one environment or program."""
    kinds = []
    for found in kept:
        if not any(_apart(k.row, found.row) == "" for k in kinds):
            kinds.append(found)
    if len(kinds) > 1:
        first, second = kinds[:2]
        raise UserError(shown(
            f"the rows come from {len(kinds)} environments; between {first.place} and "
            f"{second.place} differ {_apart(first.row, second.row)}; "
            "--mixed-environments merges them all the same"))


def replaced_in_their_files(rows):
    """Collects the lines that a later, other row of the same point follows in some file."""
    last, replaced = {}, set()
    for found in rows:
        key = (found.file, found.row["point_id"], machine_class(found.row))
        if key in last and last[key].line != found.line:
            replaced.add(last[key].line)
        last[key] = found
    return replaced


def chosen(rows, newest):
    """Picks one row of a point that has several. Within a file the last one counts, as `table`
    sees it; an identical row is the same one; a row that did not fail goes before one that did.
    UserError where two complete measurements are left and `newest` is not set."""
    replaced = replaced_in_their_files(rows)
    distinct = {}
    for found in rows:
        if found.line not in replaced:
            distinct.setdefault(found.line, found)
    left = list(distinct.values()) or list({f.line: f for f in rows}.values())
    complete = [f for f in left if not f.failed]
    if len(complete) > 1 and not newest:
        raise UserError(shown(
            f"point {complete[0].row['point_id']} was measured to its end twice, in "
            f"{complete[0].place} and in {complete[1].place}: these are no parts of one run; "
            "--newest keeps the one that ended last"))
    return max(enumerate(complete or left), key=lambda f: (f[1].row["finished_at"], f[0]))[1]


def refuse_loss(output, kept, found):
    """Refuses to replace a file by one that lacks some of its rows, unless they stand elsewhere."""
    if not os.path.exists(output):
        return
    there, broken = read_lines(output)
    elsewhere = {f.line for f in kept} | {f.line for f in found
                                          if not os.path.samefile(f.file, output)}
    lost = broken + sum(f.line not in elsewhere for f in there)
    if lost:
        raise UserError(f"{output} is there and {lost} of its rows would be lost; "
                        "name another file with -o")


def missing_points(files, kept):
    """Lists the ids of planned points without a row."""
    rows = {f.row["point_id"] for f in kept}
    plans = sorted({os.path.join(os.path.dirname(file), manifest.NAME) for file in files})
    return [i for plan in plans if os.path.lexists(plan) for i in manifest.planned_ids(plan)
            if i not in rows]


def merge(sources, output, mixed=False, newest=False):
    """Joins the rows of files and folders into `output`. Returns the rows kept, how many earlier
    attempts were left out, and the ids of planned points without a row."""
    files = files_of(sources)
    found = [row for file in files for row in read_lines(file)[0]]
    if not found:
        raise UserError("there is no row to merge")
    by_point = {}
    for row in found:  # of two machines both stay
        by_point.setdefault((row.row["point_id"], machine_class(row.row)), []).append(row)
    kept = [chosen(rows, newest) for rows in by_point.values()]
    if not mixed:
        refuse_mixture(kept)
    missing = missing_points(files, kept)
    kept.sort(key=lambda f: (f.row["title"], f.row["position"]))
    refuse_loss(output, kept, found)
    replace_file(output, b"".join(f.line + b"\n" for f in kept))
    return kept, len({f.line for f in found}) - len(kept), missing


def main(arguments):
    parser = options.parser(
        __doc__, "Writes the rows of files or folders in the order of their plan. If a point failed and was measured again, its\n"
                 "good row is kept. Identical rows become one. No other row is lost.",
        "exit codes: 1 a planned point has no row yet")
    parser.add_argument("rows", nargs="*", metavar="ROWS", help="files or folders of rows")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the rows to this file")
    parser.add_argument("--mixed-environments", action="store_true",
                        help="accept rows of different machines, builds or drivers")
    parser.add_argument("--newest", action="store_true",
                        help="keep the row that ended last, if a point was measured to its end twice")
    options.add_format(parser)
    given = parser.parse_args(options.spelled(arguments))
    if not given.rows:
        raise UserError("merge needs files or directories of rows")
    if not given.output:
        raise UserError("merge needs -o FILE")
    kept, superseded, missing = merge(given.rows, given.output, given.mixed_environments,
                                      given.newest)
    failed = sum(f.failed for f in kept)
    if given.format == "json":
        print(json_text({"output": given.output, "points": len(kept), "left_out": superseded, "failed": failed,
                         "missing": missing}), end="")
    else:
        print(f"{len(kept)} points in {given.output}"
              + (f", {superseded} earlier attempts left out" if superseded else "")
              + (f", {failed} FAILED" if failed else ""))
    if not missing:
        return 0
    sys.stdout.flush()
    print(f"{len(missing)} planned points have no row yet, the first is {shown(missing[0])}; "
          "submit the array again", file=sys.stderr)
    return 1
