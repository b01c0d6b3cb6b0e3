# SPDX-License-Identifier: Apache-2.0
"""unmask campaign: measure everything several times from one commit, and judge all claims.

Only the tables and figures that this machine can measure. Also the archive of such campaigns, with the verdicts
on all of them."""

from datetime import datetime, timezone
import io
import json
import lzma
import os
import re
import tarfile
import tempfile

from unmask.claims import claims
from unmask.claims import repeats
from unmask.claims.declare import read_register
from unmask.claims.judge import SCORES
from unmask.claims.repeats import RECORD, read_record
from unmask.jobs import owner
from unmask.jobs import stale
from unmask.rows import experiments, later, options as command_options, program
from unmask.rows.ending import tell
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import read_json, replace_file
from unmask.rows.rows import is_reportable, read_rows
from unmask.rows.runs import CAMPAIGN, read_log
from unmask.tables import tables

LARGEST = 14 << 20       # bytes of all archives of a folder
# Rows are text: the byte before says much of the next one, and its place says nothing.
PACKING = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]
ENDED_WELL = (0, 4)      # 4: a claim is not supported, which is a result
FAILED = 1               # an artifact has; the others are measured
SMOL = "models/smol/config.json"
ERRORS = 2               # the descriptor that takes the tables of the runs where the output is one document


def build():
    """Version, commit and "(modified)", as the program says of itself."""
    return program.answer_of(["--version"]).strip()


def commit_of(version):
    """The commit that --version names; "" where it is unknown."""
    found = re.search(r"commit ([0-9a-f]+)\b", version)
    return found.group(1) if found else ""


def refuse_modified(version, allowed):
    """UserError for a program whose sources are of no commit: nobody could build it again."""
    if not commit_of(version) and not allowed:
        raise UserError(f"{version}: this program does not know its commit, so nobody could build it again; build it "
                        "in a git checkout of your own, or --allow-modified to try something out, whose rows no "
                        "archive takes")
    if "(modified)" in version and not allowed:
        raise UserError(f"{version}: this program was built from uncommitted changes; commit and build again, or "
                        "--allow-modified to try something out, whose rows no archive takes")


def scales_here(folder, number):
    """What campaign `number` can measure without a GPU: the pre-trained model where it was made, what runs on a
    virtual clock, and the embedded models. Artifacts of these scales that need more say so. The first reads the
    scores beside speeds for all: greedy decoding writes the same text again, and where tokens are drawn the
    interval over items, each drawn by itself, holds what the draw adds. For the first reason the others
    measure of artifacts without a claim on speed only the points that another seed may change."""
    real = ["real"] if os.path.isfile(os.path.join(folder, SMOL)) else []
    return [*real, "shapes", *([SCORES] if number == 1 else []), "tiny"]


def begin(directory, number, version, register):
    """Writes what campaign `number` is of; UserError where one beside it is of another program or register."""
    for other, place in repeats.numbered(directory):
        record = read_record(place) or {}
        for key, now in (("program", version), ("register", register.hash)):
            if record.get(key, now) != now:
                raise UserError(f"{place}/{RECORD}: campaign {other} has `{key}` {record[key]}, this one {now}; "
                                "all campaigns of a folder are of one program and one register")
    place = os.path.join(directory, str(number))
    os.makedirs(place, exist_ok=True)
    record = read_record(place) or {
        "number": number, "program": version, "register": register.hash, "seed": number - 1,
        "began": _now(), "load_at_begin": list(os.getloadavg())}
    _write_record(place, record)
    return place, record


def mend_records(directory, version, register):
    """Makes anew what no longer says what a campaign is of (the power went, a disk was full). Its rows say of which
    commit they are: UserError where that is not this program's."""
    for number, place in repeats.numbered(directory):
        try:
            read_record(place)
        except UserError as unreadable:
            problem = str(unreadable).removesuffix(repeats.MENDED)
            found = sorted({row["source_hash"] for row in _rows_below(place)})
            ours = commit_of(version) + ("-dirty" if "(modified)" in version else "")
            if found not in ([], [ours]):
                raise UserError(f"{problem}; its rows are of {' and '.join(found)}, not of this program "
                                f"({version}): go on with that one, or measure into another folder") from None
            tell(f"{problem}; it is made anew from the rows there")
            finished = sorted(row["finished_at"] for row in _rows_below(place))
            _write_record(place, {"number": number, "program": version, "register": register.hash,
                                  "seed": number - 1, "began": finished[0] if finished else _now()})


def _rows_below(place):
    for folder, folders, files in os.walk(place):
        folders.sort()
        if "rows.jsonl" in files:
            yield from read_rows(os.path.join(folder, "rows.jsonl"))


def _now():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write_record(place, record):
    replace_file(os.path.join(place, RECORD), tables.json_text(record))


def measure(options, number, folder, version, register):
    """Runs every scale of one campaign; continues where it stopped. EnvironmentFault, once all are run, where one
    has an artifact that FAILED."""
    place, record = begin(options.directory, number, version, register)
    failed = []
    for scale in scales_here(folder, number):
        if options.scale and scale not in options.scale:
            continue
        words = ["run", folder, "--scale", scale, "--lanes", str(options.lanes), "-o", place,
                 "--set", f"run.seed={number - 1}", "--no-progress"]
        for flag, found in (("--set", options.set), ("--only", options.only)):
            for one in found:
                words += [flag, one]
        if number > 1:
            words.append("--varying")
        how = {"stdout": ERRORS} if options.format == "json" else {}
        code = program.call(words, **how).returncode
        if code == FAILED:
            failed.append(scale)
        elif code not in ENDED_WELL:
            raise EnvironmentFault(f"campaign {number}, scale {scale}: ended with exit code {code}; the same "
                                   "command goes on where it stopped")
    if failed:
        raise EnvironmentFault(f"campaign {number}: an artifact of the scale {' and '.join(failed)} FAILED, see "
                               f"{place}/campaign.md; the same command tries it again")
    record["ended"] = _now()
    _write_record(place, record)


def _check_rows(place):
    """UserError unless all rows are of one commit without changes."""
    sources = set()
    for folder, folders, files in os.walk(place):
        folders.sort()
        if "rows.jsonl" not in files:
            continue
        path = os.path.join(folder, "rows.jsonl")
        for row in read_rows(path):
            if row["environment"].get("build", {}).get("git_dirty"):
                raise UserError(f"{path}: `environment.build.git_dirty` of {row['label']} is true; an archive "
                                "takes rows of committed sources alone")
            if row["source_hash"] in ("", "unknown"):
                raise UserError(f"{path}: `source_hash` of {row['label']} names no commit; an archive takes rows of "
                                "committed sources alone")
            sources.add(row["source_hash"])
    if not sources:
        raise UserError(f"{place}: holds no rows")
    if len(sources) > 1:
        raise UserError(f"{place}: `source_hash` of its rows is {' and '.join(sorted(sources))}; a campaign is "
                        "of one commit")
    return sources.pop()


def packed(place):
    """rows.jsonl of every artifact and scale, and campaign.json; bytes are the same for the same rows."""
    names = [RECORD]
    for folder, folders, files in os.walk(place):
        folders.sort()
        if "rows.jsonl" in files:
            names.append(os.path.relpath(os.path.join(folder, "rows.jsonl"), place))
    members = {}
    for name in names:
        with open(os.path.join(place, name), "rb") as file:
            members[name] = file.read()
    return _packed(members)


def _packed(members):
    """A tar archive of {name: bytes}: the record first, then by name; of one mode, without owner and time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return lzma.compress(out.getvalue(), filters=PACKING)


def renew(directory, into):
    """Replaces in the archives of a folder the rows of the tables and figures that the campaigns of `directory` have, at
    their scales, and keeps the others. UserError unless all rows of each are of one commit, in every campaign of
    the archive that has it."""
    found = {number: place for number, place in _ended(directory)}
    commits, fresh = {}, {number: _fresh(place) for number, place in found.items()}
    for number, places in fresh.items():
        for name, (commit, _) in places.items():
            if commits.setdefault(name, commit) != commit:
                raise UserError(f"{found[number]}/{name}: its rows are of commit {commit}, those of another campaign of "
                                f"{commits[name]}")
    archives, number = {}, 1
    while os.path.isfile(os.path.join(into, repeats.archive_name(number))):
        members = _members(os.path.join(into, repeats.archive_name(number)))
        lacking = sorted(name for name in commits if name in members and name not in fresh.get(number, {}))
        if lacking:
            raise UserError(f"{into}/{repeats.archive_name(number)}: {lacking[0]} is of campaign {number} too, which "
                            f"{directory} does not have: measure it with --campaigns {number}")
        anew = {name: content for name, (_, content) in fresh.get(number, {}).items()}
        members = _with_renewed(_with_measured_first(members, anew) | anew)
        archives[repeats.archive_name(number)] = _packed(members)
        number += 1
    if not archives:
        raise UserError(f"{into}: holds no archive to renew")
    size = _replaced(archives, into)
    keep_log(found[1], into, others=True)
    return size


def _first_of_labels(content):
    """{label: when its first rows were finished} of the rows of a file."""
    first = {}
    for row in filter(is_reportable, map(json.loads, content.splitlines())):
        first[row["label"]] = min(row["finished_at"], first.get(row["label"], row["finished_at"]))
    return first


def _with_measured_first(members, anew):
    """The members with the record's `measured_first` of what `anew` replaces: by table or figure and label when it was first
    measured, if that is earlier than in the rows that come."""
    record = json.loads(members.get(RECORD, b"{}"))
    known = record.get("measured_first", {})
    for name, content in sorted(anew.items()):
        now, place = _first_of_labels(content), os.path.dirname(name)
        labels = known.get(place, {})
        for label, at in _first_of_labels(members.get(name, b"")).items():
            labels[label] = min(at, labels.get(label, at))
        known[place] = {label: at for label, at in sorted(labels.items()) if label not in now or at < now[label]}
    known = {place: labels for place, labels in sorted(known.items()) if labels}
    record = {key: value for key, value in record.items() if key != "measured_first"} | (
        {"measured_first": known} if known else {})
    return members | {RECORD: tables.json_text(record).encode()}


def _with_renewed(members):
    """The members with the commit of each table and figure in the record's `renewed`, where that is another one than the
    commit of the record's program."""
    record, renewed = json.loads(members.get(RECORD, b"{}")), {}
    of_program = commit_of(record.get("program", ""))
    for name, content in sorted(members.items()):
        if os.path.basename(name) == "rows.jsonl" and content:
            commit = json.loads(content.split(b"\n", 1)[0])["source_hash"]
            if not of_program or not commit.startswith(of_program):
                renewed[os.path.dirname(name)] = commit
    record = {key: value for key, value in record.items() if key != "renewed"} | ({"renewed": renewed} if renewed else {})
    return {RECORD: tables.json_text(record).encode()} | {n: c for n, c in members.items() if n != RECORD}


def _fresh(place):
    """{"PAPER/ARTIFACT/SCALE/rows.jsonl": (its commit, its bytes)} of a campaign."""
    places = {}
    for folder, folders, files in os.walk(place):
        folders.sort()
        if "rows.jsonl" in files:
            name = os.path.relpath(os.path.join(folder, "rows.jsonl"), place)
            with open(os.path.join(folder, "rows.jsonl"), "rb") as file:
                places[name] = (_check_rows(folder), file.read())
    return places


def _members(path):
    with tarfile.open(path, "r:xz") as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isreg()}


def _ended(directory):
    """[(number, folder)] of the campaigns of a folder; UserError unless all were measured to their end."""
    found = repeats.numbered(directory)
    if not found:
        raise UserError(f"{directory}: holds no campaigns (folders 1, 2, ...)")
    for number, place in found:
        if not (read_record(place) or {}).get("ended"):
            raise UserError(f"{place}/{RECORD}: `ended` is not there: campaign {number} was not measured to its end")
    return found


def _replaced(archives, into):
    """Writes archives whole; their bytes."""
    size = sum(map(len, archives.values()))
    if size > LARGEST:
        raise UserError(f"{into}: the archives have {size / 2**20:.1f} MB, more than {LARGEST >> 20} MB")
    for name, content in archives.items():
        replace_file(os.path.join(into, name), content)
    return size


def keep_log(place, into, others=False):
    """What became of every artifact, into a folder: its last line of the campaign's log at each scale with the
    time of all of them; of one that was not measured at any scale why not, at the scale tiny. others: lines there
    of other artifacts and scales stay."""
    def log_of(folder):
        path = os.path.join(folder, CAMPAIGN)
        return read_log(path)[0] if os.path.isfile(path) else {}
    last = log_of(place)
    if others:
        last = log_of(into) | {key: entry for key, entry in last.items() if entry.get("status") == "measured"}
    measured = {key[:2] for key, entry in last.items() if entry.get("status") == "measured"}
    kept = [entry | {"seconds": round(entry["seconds"], 1)} for key, entry in sorted(last.items())
            if entry.get("status") == "measured" or key[2] == "tiny" and key[:2] not in measured]
    if kept:
        replace_file(os.path.join(into, CAMPAIGN), "".join(json.dumps(entry) + "\n" for entry in kept))


def archive(directory, into):
    """Packs every campaign of a folder, and the log of the first; UserError where they are not of one commit, or
    too large."""
    found = _ended(directory)
    sources = {_check_rows(place) for _, place in found}
    if len(sources) > 1:
        raise UserError(f"{directory}: its campaigns are of the commits {' and '.join(sorted(sources))}")
    size = _replaced({repeats.archive_name(number): packed(place) for number, place in found}, into)
    keep_log(found[0][1], into)
    return size


def parser():
    p = command_options.parser(
        __doc__, "Measures every table and figure that this machine can run, into FOLDER/1, FOLDER/2, .... Then judges the\n"
                 "claims on each campaign and on all (FOLDER/claims.md, claims.json). A campaign that was stopped\n"
                 "continues where it stopped. Other load spoils the times: run it alone.",
        "exit codes: 2 the program has uncommitted changes, or FOLDER has campaigns of another program or register;\n"
        "3 a run did not end; 4 a claim is not fully supported")
    p.add_argument("directory", nargs="?", default="runs/campaign", metavar="FOLDER")
    p.add_argument("--campaigns", type=int, default=3, metavar="N", help="measure N campaigns (default: 3; 0: none)")
    p.add_argument("--lanes", type=int, default=os.cpu_count() or 1, metavar="N",
                   help="run N tables in parallel on separate cores; tables with speed claims still run alone "
                        "(default: one per core)")
    p.add_argument("--only", action="append", default=[], metavar="NAME", help="run only PAPER or PAPER/TABLE (repeatable)")
    p.add_argument("--scale", action="append", default=[], metavar="NAME", choices=("real", "shapes", SCORES, "tiny"),
                   help="run only this scale: real, shapes, scores or tiny (repeatable)")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                   help="override a key of the files: limit=2 makes a small rehearsal (repeatable)")
    p.add_argument("--allow-modified", action="store_true", help="accept a program with uncommitted changes")
    p.add_argument("--archive", metavar="FOLDER",
                   help="pack the rows of all campaigns into this folder, with the pages of claims")
    p.add_argument("--renew", action="store_true",
                   help="with --archive: replace there the tables and figures that were measured now, of one commit "
                        "each, and keep the others; campaign.json there names these commits, and when each label was "
                        "first measured")
    p.add_argument("--stale", action="store_true",
                   help="measure no campaign; print which tables and figures of FOLDER, a campaign or an archive, have "
                        "rows that the present program plans, answers or counts otherwise (exit code 4: some)")
    p.add_argument("--sample", type=int, default=1, metavar="N",
                   help="measure N rows of each again for --stale, those that take the least time "
                        "(default: 1; 0: compare the plans alone)")
    p.add_argument("--experiments-dir", "--experiments_dir", default="", metavar="FOLDER",
                   help="use the experiments and claims of this folder (default: experiments)")
    command_options.add_format(p)
    return p


def judged(into, folder, saved, options, size):
    """Judges the claims and writes their pages: the exit code of claims. As JSON prints {directory, campaigns: [what
    campaign.json says of each], archive: {folder, bytes} or null, claims: [as in claims.json]}."""
    words = [into, saved, "--experiments-dir", folder]
    if options.format != "json":
        return claims.main([*words, "-o", os.devnull])
    with tempfile.TemporaryDirectory() as place:
        made = os.path.join(place, "claims.json")
        code = claims.main([*words, "--format", "json", "-o", made])
        found = read_json(made)
    print(tables.json_text({
        "directory": options.directory, "campaigns": [read_record(at) for _, at in repeats.numbered(options.directory)],
        "archive": {"folder": into, "bytes": size} if options.archive else None, "claims": found}), end="")
    return code


def main(arguments):
    options = parser().parse_args(arguments)
    if options.sample < 0:
        raise UserError(f"--sample must be 0 or more, not {options.sample}")
    if options.renew and not options.archive:
        raise UserError("--renew needs --archive FOLDER, whose tables and figures it replaces")
    later.import_all()
    if options.stale:
        return stale.report(options.directory, options.experiments_dir, options.only, options.sample,
                            options.format == "json")
    folder = experiments.experiments_folder(options.experiments_dir)
    register = read_register(os.path.join(folder, "claims"))
    version = build()
    if options.campaigns > 0:
        refuse_modified(version, options.allow_modified)
    with owner.of(options.directory, "campaign"):
        mend_records(options.directory, version, register)
        for number in range(1, options.campaigns + 1):
            measure(options, number, folder, version, register)
        into, saved, size = options.directory, "--save", 0
        if options.archive:
            size = (renew if options.renew else archive)(options.directory, options.archive)
            into, saved = options.archive, "--pages"
            if options.format == "text":
                print(f"{into}: {size / 2**20:.1f} MB")
        return judged(into, folder, saved, options, size)
