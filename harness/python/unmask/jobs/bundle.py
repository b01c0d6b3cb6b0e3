# SPDX-License-Identifier: Apache-2.0
"""unmask bundle: pack a run into one file, to repeat it elsewhere.

FILE.tar holds run.json (the experiment, its scale and settings, every resolved point), the rows, the
environment, tables and figures, prepared pictures, how to repeat it, and the SHA-256 of each.

A bundle that comes from elsewhere is data: unpack() takes plain files alone, writes each by itself
as an ordinary file, within limits, and believes nothing that SHA256SUMS does not say."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import pathlib
import shlex
import shutil
import re
import tarfile
import tomllib
import zlib

from unmask.jobs.merge import is_rows_file, read_lines
from unmask.rows import experiments, manifest, options
from unmask.rows.ending import tell
from unmask.rows.errors import EnvironmentFault, UserError
from unmask.rows.files import does_not_exist, opened, read_bytes, replace_file, shown
from unmask.rows.text import json_text

SUMS = "SHA256SUMS"
PICTURES = "pictures"  # the folder of prepared pictures, here and in a bundle
LEFT_OUT = (".part", ".tar", ".log", "~", ".torn")
MADE_HERE = ("README.md", "environment.json", SUMS)
LARGEST_FILE = 2 << 30
LARGEST_TOTAL = 4 << 30     # bytes unpacked
MOST_FILES = 10000
LONGEST_NAME = 1000
LARGEST_RATIO = 100         # unpacked to packed, beyond what is small anyway
SMALL = 64 << 20
COMPRESSIONS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))


def belongs(name):
    """Tells whether a file of a run goes into its bundle: no log, nothing hidden or unfinished."""
    last = name.rsplit("/", 1)[-1]
    return not (last.startswith(".") or last.endswith(LEFT_OUT) or last == "log.txt"
                or re.search(r"\.part\d+$", last) or name in MADE_HERE)


def files_below(folder):
    """Lists the relative names of the regular files below a folder; what is none is refused."""
    names = []
    for place, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(place, name)
            if os.path.islink(path):
                raise EnvironmentFault(f"{path} is a link; a bundle holds plain files only")
        for name in files:
            if os.path.isfile(os.path.join(place, name)):
                names.append(os.path.relpath(os.path.join(place, name), folder))
    return sorted(names)


def rows_in(folder):
    """Reads the rows of a run's folder itself, in the order of their files."""
    return [found.row for name in sorted(os.listdir(folder)) if is_rows_file(name)
            for found in read_lines(os.path.join(folder, name))[0]]


def own_models(run):
    """The paths of [[model]] that nobody else's program has: neither "weights:NAME" nor a model of this program."""
    root = experiments.program_root()

    def comes_with_the_program(path):
        parts = [part for part in pathlib.PurePath(path).parts if part not in ("..", "experiments")]
        return root and os.path.exists(os.path.join(root, "experiments", *parts))

    return [path for path in paths_of_models(run)
            if not path.startswith("weights:") and not comes_with_the_program(path)]


def paths_of_models(run):
    """The paths of [[model]] in the text of an experiment, each once, at any scale."""
    try:
        tables = [tomllib.loads(run["text"])]
    except tomllib.TOMLDecodeError:
        return []
    found = []
    while tables:
        table = tables.pop(0)
        for key, value in table.items():
            inner = value if isinstance(value, list) else [value]
            inner = [one for one in inner if isinstance(one, dict)]
            tables += inner
            if key == "model":
                found += [one["path"] for one in inner if isinstance(one.get("path"), str)]
    return list(dict.fromkeys(found))


def prepared_pictures(run):
    """{name in the bundle: bytes} of the prepared pictures that the run's tasks show, and the names of those that are
    nowhere. The pictures themselves stay out: their licences may forbid it."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folders = [folder for folder in os.environ.get("UNMASK_PICTURES", "").split(":") if folder]
    folders += [PICTURES, os.path.join(cache, "unmask", PICTURES)]
    found, missing = {}, []
    for name in run["pictures"]:
        place = next((folder for folder in folders if os.path.isfile(os.path.join(folder, name))), None)
        if place is None:
            missing.append(name)
        else:
            found[f"{PICTURES}/{name}"] = read_bytes(os.path.join(place, name), LARGEST_FILE)
    return found, missing


def readme(run, name, points, file, models):
    """Writes what a reader of the bundle sees first. `file`: what the bundle is called."""
    more = "".join(" --model " + shlex.quote(f"{path}=FOLDER") for path in models)
    hold = ("" if not models else "It needs a checkpoint that is not part of it, the one that its rows name by "
            f"`model.hash`: {', '.join(f'`{path}`' for path in models)}.\n\n")
    scale = f" at scale {run['scale']}" if run["scale"] else ""
    return (f"# {name}\n\nA run of `{run['file']}`{scale}, {points} points, by the program of commit "
            f"{run['source_hash'] or 'unknown'}.\n\nRepeat it and compare:\n\n"
            f"    unmask rerun {shlex.quote(file)}{more}\n\n{hold}"
            "- `run.json`: the experiment's text, its scale, settings over it, every resolved point\n"
            "- `*.jsonl`: the measured rows (results/FORMAT.md of the source tree describes them)\n"
            "- `environment.json`: machine and build; `SHA256SUMS`: of every file (`sha256sum -c`)\n"
            "\nTokens and counts repeat exactly on the same kernels; speeds do as ratios between "
            "methods.\n")


def packed(name, content):
    """Packs {relative name: bytes} below a folder. The same content gives the same bytes: names
    sorted, no times, no owner."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(content):
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mode = len(content[path]), 0o644
            archive.addfile(member, io.BytesIO(content[path]))
    return out.getvalue()


def write(run_folder, file):
    """Packs the folder of a run into `file`. Returns the names inside. EnvironmentFault where there
    is no run.json, no row, or a link."""
    if not os.path.exists(run_folder):
        raise does_not_exist(run_folder)
    if not os.path.isdir(run_folder):
        raise EnvironmentFault(f"{run_folder} is not a folder; give the folder of a run")
    run = manifest.read_manifest(os.path.join(run_folder, manifest.NAME))
    rows = rows_in(run_folder)
    if not rows:
        raise EnvironmentFault(f"{run_folder} holds no results (*.jsonl); give the folder of a run")
    content = {name: read_bytes(os.path.join(run_folder, name), LARGEST_FILE)
               for name in files_below(run_folder) if belongs(name)}
    content |= prepared_pictures(run)[0]
    name = manifest.name_of(run)
    content["environment.json"] = (json.dumps(rows[-1]["environment"], indent=1) + "\n").encode()
    content["README.md"] = readme(run, name, len(rows), os.path.basename(file), own_models(run)).encode()
    names = sorted(content)
    if any("\n" in n for n in names):
        raise EnvironmentFault(f"{run_folder}: a file's name holds the end of a line")
    content[SUMS] = "".join(f"{hashlib.sha256(content[n]).hexdigest()}  {n}\n"
                            for n in names).encode()
    replace_file(file, packed(name, content))
    return names + [SUMS]


class Limited(io.RawIOBase):
    """A stream that ends in an error where more comes out of it than an archive may hold."""

    def __init__(self, stream, most, name):
        super().__init__()
        self.stream, self.left, self.name = stream, most, name

    def readable(self):
        return True

    def readinto(self, buffer):
        part = self.stream.read(len(buffer))
        self.left -= len(part)
        if self.left < 0:
            raise EnvironmentFault(f"{self.name} unpacks to more than a bundle may hold")
        buffer[:len(part)] = part
        return len(part)


def _parts_of(member, archive):
    """Takes a member's name apart; EnvironmentFault where it is anything but a plain file or a
    folder inside the archive's own."""
    name = member.name
    parts = name.split("/")
    if (len(name) > LONGEST_NAME or name.startswith("/") or "\\" in name or not name.isprintable()
            or any(part in ("", ".", "..") for part in parts)):
        raise EnvironmentFault(shown(f"{archive}: '{name}' is no name that a bundle may hold"))
    if member.isdir():
        return parts
    if not member.isreg() or member.issparse():
        raise EnvironmentFault(f"{archive}: {name} is no plain file; a bundle holds plain files "
                               "only")
    if len(parts) < 2:
        raise EnvironmentFault(f"{archive} is no bundle: {name} lies in no folder")
    return parts


def _extract(tar, archive, into):
    """Writes the plain files of an archive below a folder that is new, each as an ordinary file of
    ours. Returns the one folder that they lie in, and the hash of each file."""
    tops, sums, members, total = set(), {}, 0, 0
    for member in tar:
        members += 1
        if members > MOST_FILES:
            raise EnvironmentFault(f"{archive} holds more than {MOST_FILES} files")
        parts = _parts_of(member, archive)
        tops.add(parts[0])
        if len(tops) > 1:
            raise EnvironmentFault(f"{archive} is no bundle: it holds more than one folder")
        if member.isdir():
            continue
        total += member.size
        if member.size > LARGEST_FILE or total > LARGEST_TOTAL:
            raise EnvironmentFault(f"{archive} unpacks to more than a bundle may hold")
        name = "/".join(parts[1:])
        if name in sums:
            raise EnvironmentFault(f"{archive}: {name} is there twice")
        path = into.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        sums[name] = _copy(tar.extractfile(member), path)
    if not tops:
        raise EnvironmentFault(f"{archive} is no bundle: it is empty")
    return into / tops.pop(), sums


def _copy(source, path):
    digest = hashlib.sha256()
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                      0o644), "wb") as out:
        while part := source.read(1 << 20):
            digest.update(part)
            out.write(part)
    return digest.hexdigest()


def _check_sums(archive, folder, sums):
    """Holds the files against SHA256SUMS: each is listed, nothing else is, and the hashes agree."""
    if SUMS not in sums:
        raise EnvironmentFault(f"{archive} is no bundle: it has no {SUMS}")
    listed = {}
    for line in read_bytes(folder / SUMS, SMALL).decode("utf-8", "replace").splitlines():
        found = re.fullmatch(r"([0-9a-f]{64})  (.+)", line)
        if not found or found[2] in listed or found[2] == SUMS:
            raise EnvironmentFault(shown(f"{archive}: {SUMS} has a broken line '{line[:200]}'"))
        listed[found[2]] = found[1]
    for name, digest in listed.items():
        if name not in sums:
            raise EnvironmentFault(shown(f"{archive}: {name} is listed but not there"))
        if sums[name] != digest:
            raise EnvironmentFault(shown(f"{archive}: {name} does not have the hash it was listed "
                                         "with; the bundle was changed"))
    for name in sums:
        if name != SUMS and name not in listed:
            raise EnvironmentFault(shown(f"{archive}: {name} is not listed in {SUMS}"))


def unpack(archive, into):
    """Unpacks a bundle into the folder `into`, which must not be there, and checks every hash.
    Returns the folder of its files. EnvironmentFault names the file that is missing, changed, not
    listed, or nothing that a bundle holds; of a bundle that is refused nothing stays."""
    into = pathlib.Path(into)
    there = os.path.lexists(into)
    try:
        return _unpacked(archive, into)
    except BaseException:
        if not there:
            shutil.rmtree(into, ignore_errors=True)
        raise


def _unpacked(archive, into):
    if not os.path.lexists(archive):
        raise does_not_exist(archive)
    with opened(archive) as packed_file:
        size = os.fstat(packed_file.fileno()).st_size
        head = packed_file.read(8)
        packed_file.seek(0)
        opener = next((how for magic, how in COMPRESSIONS if head.startswith(magic)), None)
        stream = opener(packed_file) if opener else packed_file
        most = min(2 * LARGEST_TOTAL, max(SMALL, LARGEST_RATIO * size))
        into.mkdir(parents=True)
        try:
            limited = io.BufferedReader(Limited(stream, most, archive), 1 << 16)
            with tarfile.open(fileobj=limited, mode="r|") as tar:
                folder, sums = _extract(tar, archive, into)
        except (tarfile.TarError, EOFError, ValueError, zlib.error, lzma.LZMAError,
                OverflowError, RecursionError) as problem:
            raise EnvironmentFault(shown(f"cannot unpack {archive}: {problem}")) from None
        except OSError as problem:
            raise EnvironmentFault(shown(f"cannot unpack {archive}: "
                                         f"{problem.strerror or problem}")) from None
    _check_sums(archive, folder, sums)
    return folder


def main(arguments):
    parser = options.parser(__doc__, "Packs the folder of a run: rows, what was asked for, environment and hashes. "
                            "Another machine repeats\nit with unmask rerun FILE.tar.")
    parser.add_argument("directory", nargs="?", metavar="RUN", help="the directory of a run")
    parser.add_argument("-o", "--output", metavar="FILE.tar", help="write the bundle to this file")
    options.add_format(parser)
    given = parser.parse_args(options.spelled(arguments))
    if given.directory is None:
        raise UserError("bundle needs the directory of a run")
    if not given.output:
        raise UserError("bundle needs -o FILE.tar")
    names = write(given.directory, given.output)
    if given.format == "json":
        print(json_text({"output": given.output, "files": list(names)}), end="")
        return 0
    for name in names:
        print(shown(f"  {name}"))
    print(given.output)
    run = manifest.read_manifest(os.path.join(given.directory, manifest.NAME))
    if missing := prepared_pictures(run)[1]:
        tell(f"{len(missing)} prepared pictures are not part of the bundle, because they are not here: {missing[0]}"
             + (" ..." if len(missing) > 1 else ""))
    for path in own_models(run):
        tell(f"the checkpoint {path} is not part of the bundle; whoever has it says where: unmask rerun "
             f"{given.output} --model {path}=FOLDER")
    return 0
