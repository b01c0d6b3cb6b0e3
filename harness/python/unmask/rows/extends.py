# SPDX-License-Identifier: Apache-2.0
"""An experiment file laid over the one that it extends, as the program reads it (harness/plan/overlay.h)."""

import copy
import os
import pathlib

from unmask.rows.errors import UserError
from unmask.rows.names import unknown_name

# What an entry of a list cannot do without, the first that it has; and how its rows are told from those of others.
CONTENT = {"model": ("path",), "method": ("name",), "workload": ("tasks", "benchmark", "file", "trace", "lengths")}
NAMED = {"model": "name", "method": "label", "workload": "name"}
PATHS = {"model": ("path", "config", "shape"), "workload": ("file", "trace", "judge", "path")}
NAMES = ("weights:", "trace:")  # of what is looked up, not beside the file
TOP, SCALES, SCALE, INSIDE = range(4)  # what a table is: only the first three have words of their own


def extended(path, read, root):
    """The table of an experiment file, with what it extends below it. read: gives the table of one file; root: the
    folder of the program's experiments, "" for none. UserErrors name file and key."""
    return _extended(path, read, root, [path])


def _extended(path, read, root, above):
    table = read(path)
    if "extends" not in table:
        return table
    other = _file(table["extends"], path, root)
    if any(os.path.realpath(one) == os.path.realpath(other) for one in above):
        raise UserError(f"{path}: `extends` is {other}, which extends this file")
    base = copy.deepcopy(_extended(other, read, root, [*above, other]))
    base.pop("artifact", None)
    _move_paths(base, other, path, root)
    _lay(base, {k: copy.deepcopy(v) for k, v in table.items() if k != "extends"}, TOP, "", (path, other))
    if isinstance(base.get("sweep"), dict):
        _drop_empty(base["sweep"])
    return base


def _embedded(name, root):
    """A path of what comes with the program; "" where it has none."""
    parts = list(pathlib.PurePosixPath(os.path.normpath(name)).parts)
    while parts and parts[0] in ("..", "experiments"):
        parts.pop(0)
    inside = os.path.join(root, *parts) if root and parts and ".." not in parts else ""
    return inside if inside and os.path.exists(inside) else ""


def _file(name, path, root):
    if not isinstance(name, str) or not name:
        raise UserError(f"{path}: `extends` takes the name of an experiment file")
    near = os.path.normpath(os.path.join(os.path.dirname(path), name))
    found = near if os.path.isfile(near) or os.path.isabs(name) else _embedded(name, root)
    if not found or not os.path.isfile(found):
        raise UserError(f"{path}: `extends` is '{name}', and there is no such file")
    return found


def _name(kind, entry):
    """The name of an entry; "" where it has none."""
    given = entry.get(NAMED[kind])
    if isinstance(given, str) and given:
        return given
    key = next((key for key in CONTENT[kind] if key in entry), "")
    words = entry.get(key, "")
    words = ", ".join(w for w in words if isinstance(w, str)) if isinstance(words, list) else str(words)
    if key == "path":
        return os.path.basename(words.removeprefix("weights:").removesuffix("/"))
    if key in ("file", "trace"):
        return pathlib.PurePath(words).stem
    return f"{words}/{entry['task']}" if key == "benchmark" and entry.get("task") else words


def _entries(value, kind, path):
    """The entries of a list; one table counts as one."""
    found = [value] if isinstance(value, dict) else value
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise UserError(f"{path}: `{kind}` must be written as [[{kind}]]")
    return found


def _takes_remove(table, path):
    if "remove" in table and table["remove"] is not True:
        raise UserError(f"{path}: `remove` takes true")
    return table.pop("remove", False)


def _below(level, name):
    if level == TOP:
        return SCALES if name == "scale" else INSIDE
    return SCALE if level == SCALES else INSIDE


def _lay(base, over, level, place, files):
    for key, value in over.items():
        full = f"{place}.{key}" if place else key
        if key in CONTENT and level in (TOP, SCALE):
            _lay_entries(base, key, value, full, files)
        elif level != INSIDE and isinstance(value, dict):
            _lay_table(base, key, value, level, full, files)
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            _lay(base[key], value, INSIDE, "", files)
        else:
            base[key] = value


def _lay_table(base, key, over, level, place, files):
    path, other = files
    there = isinstance(base.get(key), dict)
    if _takes_remove(over, path):
        if not there:
            raise UserError(f"{path}: " + unknown_name(f"table of {other}", key,
                                                       [k for k, v in base.items() if isinstance(v, dict)]))
        del base[key]
        there = False
        if not over:
            return
    if there:
        _lay(base[key], over, _below(level, key), place, files)
    else:
        _refuse_removals(over, _below(level, key), place, files)
        base[key] = over


def _refuse_removals(table, level, place, files):
    """In a table that the other file does not have there is nothing to remove."""
    if level == INSIDE:
        return
    for key, value in table.items():
        full = f"{place}.{key}"
        several = value if isinstance(value, list) and key in CONTENT else []
        head = f"[{full}]" if isinstance(value, dict) else f"[[{full}]]"
        if any(isinstance(one, dict) and "remove" in one for one in [value, *several]):
            raise UserError(f"{files[0]}: {files[1]} has no {head}")
        if isinstance(value, dict):
            _refuse_removals(value, _below(level, key), full, files)


def _lay_entries(base, kind, value, place, files):
    inherited, added = _entries(base.get(kind, []), kind, files[1]), []
    for entry in _entries(value, kind, files[0]):
        name = _name(kind, entry)
        if _takes_remove(entry, files[0]):
            inherited = _without(inherited, entry, (kind, name, place), files)
            continue
        changed = [one for one in inherited if _name(kind, one) == name]
        if not changed and not any(key in entry for key in CONTENT[kind]):
            raise _unknown(inherited, (kind, name, place), files)
        for one in changed:  # a name that only says which entry is meant is no key of it
            change = {key: value for key, value in entry.items() if key != NAMED[kind] or key in one}
            _lay(one, copy.deepcopy(change), INSIDE, place, files)
        added += [] if changed else [entry]
    base.pop(kind, None)
    if inherited or added:
        base[kind] = inherited + added


def _without(inherited, entry, what, files):
    kind, name, place = what
    content = next((key for key in CONTENT[kind] if key in entry), "")
    more = [key for key in entry if key not in (NAMED[kind], content)]
    if more:
        raise UserError(f"{files[0]}: `{place}.{more[0]}`: an entry with `remove` has its name and no other key")
    kept = [one for one in inherited if name and _name(kind, one) != name]
    if len(kept) == len(inherited):
        raise _unknown(inherited, what, files)
    return kept


def _unknown(inherited, what, files):
    kind, name, place = what
    if not name or not inherited:
        return UserError(f"{files[0]}: {files[1]} has no [[{place}]]" + (" without a name" if inherited else ""))
    return UserError(f"{files[0]}: " + unknown_name(f"[[{place}]] of {files[1]}", name,
                                                    [_name(kind, one) for one in inherited]))


def _drop_empty(sweep):
    """Takes the axes away that have no value; they lie below dotted keys."""
    for key, value in list(sweep.items()):
        if isinstance(value, dict):
            _drop_empty(value)
        if value == [] or value == {}:
            del sweep[key]


def _is_below(path, folder):
    return bool(folder) and os.path.commonpath([path, folder]) == folder


def _seen_from(path, of_model, other, file, root):
    """A path of `other` as `file` names it: from its own folder, or from the program's."""
    folder = os.path.dirname(os.path.abspath(other))
    if not path or os.path.isabs(path) or path.startswith(NAMES):
        return path
    there = os.path.normpath(os.path.join(folder, path))
    published = path.count("/") == 1 and not path.startswith(".")
    if of_model and not os.path.exists(there) and (published or _embedded(path, root)):
        return path
    here, root = os.path.dirname(os.path.abspath(file)), os.path.abspath(root) if root else ""
    if _is_below(there, root) and not _is_below(here, root):
        return "experiments/" + os.path.relpath(there, root)
    return os.path.relpath(there, here)


def _move_paths(table, other, file, root):
    """The paths of the table of `other`, and of its scales, as `file` names them."""
    if os.path.dirname(os.path.abspath(other)) == os.path.dirname(os.path.abspath(file)):
        return
    scales = table.get("scale")
    scales = [one for one in scales.values() if isinstance(one, dict)] if isinstance(scales, dict) else []
    for of in [table, *scales]:
        for kind, keys in PATHS.items():
            several = of.get(kind, [])
            for entry in several if isinstance(several, list) else [several]:
                for key in keys if isinstance(entry, dict) else ():
                    if isinstance(entry.get(key), str):
                        of_model = key == ("path" if kind == "model" else "judge")
                        entry[key] = _seen_from(entry[key], of_model, other, file, root)
