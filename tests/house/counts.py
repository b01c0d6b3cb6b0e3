#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Counts what the design wants small, and holds each count against bounds.json.

    counts.py            prints every count, its bound and its goal
    counts.py --check    the same, and exit code 1 where a bound is passed

Whoever brings a count down lowers its bound with it; no bound is raised without a reason in the commit message.
"""

import collections
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CPP = (".cpp", ".h", ".cu", ".cuh")
# Methods with names that are everyday words of the field or of a family of models.
EVERYDAY = {"vanilla", "autoregressive", "block_diffusion", "hierarchical", "llada2"}
# A real method for which places are counted, and one that others name as a rule.
COUNTED_METHODS = ("wino", "klass")
# Words of our own where the field has one: padding row, host_visible, captured graph, held batch, human-readable.
OWN_WORDS = re.compile(r"nobody's|somebody's|\bexchanged\b|names_arrays_only|takes_all_in_play|runs_ahead"
                       r"|mark_unsettled|for the eye\b|believable|step_part|work_phase|recorded_work"
                       r"|recorded_rows|\brecordings\b|freeze_two_centroids|frozen batch")
COMPARES_DEVICE = re.compile(r"""(?:[=!]= ?|starts_with\(|startswith\(|in \()["'](?:cpu|cuda|reference)(?:-emulated)?["']""")
# A text becomes the prompt of a model: its template, or the tokens of its tokenizer.
MAKES_PROMPTS = re.compile(r"(?:\.|->)encode(?:_raw)?\(|chat_?(?:\.|->)render\(|\b(?:apply_chat_template|encode_pair)\(")
# Reads of what a rule decided, not writes of it.
READS_ACCEPT = re.compile(r"\baccept\.as<std::uint8_t>\(\)(?!\[[^\]]*\]\s*=[^=])")
NO_FUNCTION = re.compile(r"\s*(?:template <.*>\s*)?(?:namespace|struct|class|enum|union|extern)\b")
# replace_file() writes a whole file. Two are written in place: a file that a bundle unpacks, which is new, and the
# record of a folder's owner, under its lock.
WRITES_IN_PLACE = re.compile(r"""\bopen\([^()]*(?:\([^()]*\)[^()]*)*,\s*["']w[bt]?["']|\.savefig\((?!out,)"""
                             r"|\.write_(?:text|bytes)\(|\.to_(?:csv|json)\(")
# unmask_glob() and the check of the kernels' budget take a folder's brackets for what they are.
PATTERN_OF_A_PATH = re.compile(r"file\(GLOB[A-Z_]* |MATCHES [^\n]*_DIR\}")
# Several ranks are no method's affair: an operation that sums over heads says so by over_heads(), and no more.
NAMES_RANKS = re.compile(r"\b(?:rank_group|current_ranks|ranks_in_force|model_share|local_config|share_of|sum_over_ranks"
                         r"|sum_ranks|gather_ranks|has_ranks)\b|\blocal\(\)|\brun\.ranks\b|base/ranks/|kernels/ranks\.h"
                         r"|model/share\.h")
# A prompt's rows are rows: no method asks whether they are of a picture. Models that see pictures have loops of their
# own, which are presets, the shared schedule's stop rule and Dimple's schedule.
OF_PICTURES = re.compile(r"(?i)pictur|\bvision|\btowers?\b|\bimages?\b|\bpixels?\b|siglip|mrope")
SEEING_MODELS = re.compile(r"(?i)(?<![a-z])(?:llada[-_ ]v|dimple|mmada|sdar[-_ ]vl)(?![a-z])")
OF_THE_OPERATION = re.compile(r"minimal_method/kernels/")  # of the worked example
POLICIES = "pace|row|key|cache|unmask"


def files():
    """What git knows, or all that lies here where this is no checkout; relative to the root."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True)
    if listed.returncode == 0:
        found = listed.stdout.splitlines()
    else:
        found = []
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [f for f in folders if f[0] != "." and f not in ("build", "runs")]
            found += [os.path.relpath(os.path.join(folder, n), ROOT) for n in names]
    return sorted(f for f in found if os.path.isfile(os.path.join(ROOT, f)))


def text_of(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def lines(names):
    return sum(text_of(n).count("\n") for n in names)


def largest_folder(names):
    """How many of these files the fullest folder holds, files of its folders not counted."""
    return max(collections.Counter(os.path.dirname(n) for n in names).values())


def classes(names, pattern):
    """The bodies of the classes with names of this pattern, comments left out."""
    for name in names:
        text = re.sub(r"//.*", "", text_of(name))
        for found in re.finditer(rf"\b(?:class|struct)\s+({pattern})\b[^;{{]*{{", text):
            depth, at = 1, found.end()
            while depth and at < len(text):
                depth += {"{": 1, "}": -1}.get(text[at], 0)
                at += 1
            yield found.group(1), text[found.end():at]


def virtual_functions(names, pattern):
    return sum(len(re.findall(r"\bvirtual\b(?!\s*~)", body)) for _, body in classes(names, pattern))


def kilobytes(names):
    return sum(os.path.getsize(os.path.join(ROOT, n)) for n in names) // 1024


def names_method(*names):
    """Finds these names as papers and code spell them."""
    spelled = "|".join(n.replace("_", "[_-]?") for n in names)
    return re.compile(rf"(?<![a-z0-9])(?:{spelled})(?![a-z0-9])", re.IGNORECASE)


def methods(names):
    """What cases.json of each folder knows: the names of the methods there."""
    return sorted(m for n in names if n.endswith("/cases.json") for m in json.loads(text_of(n)))


def files_elsewhere(everything, method):
    """Files that name the method outside of its folder, of what it publishes and of what was measured: its claims,
    experiments and rows. Parts are what methods are made of, so that they name the rule that they are."""
    named = names_method(method)
    own = [os.path.dirname(n) + "/" for n in everything if n.endswith("/cases.json") and method in json.loads(text_of(n))]
    return [f for f in everything if f.endswith(CPP + (".py", ".md", ".json", ".jsonl", ".toml", ".txt"))
            and not f.startswith((*own, "experiments/", "results/", "methods/parts/", "tests/house/")) and named.search(text_of(f))]


def method_of(name):
    """The folder of the method that a file is of; "" where it is of none: parts, benchmarks, files beside them."""
    found = re.match(r"methods/(?:(?:baselines|combinations)/)?(?!parts/|bench/)\w+(?=/)", name)
    return found.group() if found else ""


def pairs_of_methods(names):
    """Of methods that are no combination, each with another one that it includes. Cases are tests."""
    pairs = set()
    for name in names:
        of = method_of(name)
        if not of or "/combinations/" in of or re.search(r"/cases(\.cpp$|/)", name):
            continue
        for target in re.findall(r'^\s*#\s*include\s*["<](methods/[^">]+)', text_of(name), re.MULTILINE):
            other = method_of(target)
            if other and other != of:
                pairs.add((of, other))
    return len(pairs)


def long_functions(text, most=80):
    """Functions of more lines than that, from the first line of what is declared to the brace that closes it:
    files are formatted, so it stands as far right as the declaration."""
    found, begin = 0, {}
    for number, line in enumerate(text.split("\n")):
        indent = len(line) - len(line.lstrip())
        if indent not in (0, 2) or not line.strip():
            continue
        if re.match(r"\s*\}", line):
            start, first = begin.pop(indent, (number, "struct"))
            found += number - start + 1 > most and not NO_FUNCTION.match(first)
        elif not re.match(r"\s*(?:#|//|public:|private:|protected:|template <.*>$)", line):
            begin.setdefault(indent, (number, line))
        if re.search(r";$", line) and not re.match(r"\s*\}", line):
            begin.pop(indent, None)
    return found


def is_figure(name):
    """Whether a file is a picture to look at; one in a folder of data is what a model is asked about."""
    folders = set(name.split("/")[:-1])
    return name.endswith((".png", ".svg", ".pdf", ".jpg")) and not folders & {"data", "fixtures", "goldens"}


def counts():
    everything = files()
    under = lambda folder, endings: [f for f in everything  # noqa: E731
                                     if f.startswith(folder) and f.endswith(endings)]
    kernels = under("kernels/", CPP)
    method = names_method("lmdeploy", "sglang", *(m for m in methods(under("methods/", ".json")) if m not in EVERYDAY))
    results = under("results/", "")
    decoding = [f for f in under("methods/", CPP) if not re.search(r"/cases(\.cpp$|/)", f)]
    return {
        "files in the largest folder of the harness": largest_folder(under("harness/", CPP)),
        "modules side by side in the package":
            len({f.split("/")[3] for f in under("harness/python/unmask/", ".py")}),
        "pairs of methods that include one another": pairs_of_methods(under("methods/", CPP)),
        **{f"files elsewhere that name a method ({m})": len(files_elsewhere(everything, m)) for m in COUNTED_METHODS},
        "lines in kernels/ that name a method":
            sum(bool(method.search(line)) for f in kernels for line in text_of(f).split("\n")),
        "lines in harness/decode/ that name a method":
            sum(bool(method.search(line)) for f in under("harness/decode/", CPP)
                for line in text_of(f).split("\n")),
        "lines in methods/ that know of pictures":
            sum(bool(OF_PICTURES.search(line)) for f in decoding for line in text_of(f).split("\n")),
        "files in methods/ that name a model that sees pictures":
            sum(bool(SEEING_MODELS.search(text_of(f))) for f in decoding),
        "lines of forecasts that name a method's parameter":
            sum(len(re.findall(r'"(?:steps|tokens_per_step|block_length|chunk)"', text_of(f)))
                for f in under("harness/plan/", CPP)),
        "files of the harness that ctags sees empty":
            sum(bool(re.search(r"inline namespace|namespace [\w:]*::inline", text_of(f)))
                for f in under("harness/", CPP)),
        "functions over 80 lines in harness/ and methods/":
            sum(long_functions(text_of(f)) for f in under("harness/", CPP) + under("methods/", CPP)),
        "functions over 80 lines in kernels/":
            sum(long_functions(text_of(f)) for f in under("kernels/", CPP)),
        "lines with words of our own":
            sum(bool(OWN_WORDS.search(line)) for f in everything
                if f.endswith(CPP) and not f.startswith("tests/")
                for line in text_of(f).split("\n")),
        "virtual functions of the policies":
            virtual_functions(under("harness/decode/", ".h"), f"(?:{POLICIES})_policy"),
        "virtual functions of the backend interface":
            virtual_functions([f for f in kernels if f.count("/") == 1], "backend"),
        "files of a new operation, the worked example":
            len([f for f in under("tests/minimal_method/", "") if OF_THE_OPERATION.search(f)]),
        "files of a new method, the worked example":
            len([f for f in under("tests/minimal_method/", (".cpp", ".md", ".h"))
                 if not OF_THE_OPERATION.search(f)]),
        "files that compare a device's name":
            sum(bool(COMPARES_DEVICE.search(text_of(f))) for f in under("harness/", CPP + (".py",)) + kernels),
        "makers of prompts":
            sum(bool(MAKES_PROMPTS.search(text_of(f))) for f in under("harness/", CPP) + under("methods/", CPP)
                if not f.startswith("harness/model/")),
        # Its name, writer, lines, arithmetic; one that reads what a pass writes anyway is in three.
        "files a probe is in (kv_change)":
            sum(bool(re.search(r"\b(?:write_)?kv_change\b", text_of(f))) for f in under("harness/", CPP + (".py",))),
        "readers of accept bytes": sum(bool(READS_ACCEPT.search(text_of(f))) for f in under("harness/", CPP)),
        "files of a new device, the worked example":
            len([f for f in under("tests/minimal_device/", CPP) if "test_" not in f]),
        "files elsewhere that name the worked example":
            sum(bool(re.search(r"accept_leftmost|leftmost_unmask", text_of(f)))
                for f in everything if f.endswith(CPP) and not f.startswith("tests/minimal_method/")),
        "files a [run] key is in (kv_type)":
            sum(bool(re.search(r"\bkv_type\b", text_of(f))) for f in under("harness/", CPP)),
        # Its list and its use; the worked example of a table is tests/harness/plan/test_keys.cpp.
        "files a key of [[workload]] is in (mc_batch)":
            sum(bool(re.search(r"\bmc_batch\b", text_of(f)))
                for f in under("harness/", CPP) + under("harness/python/", ".py")),
        "files a field of a row is declared in (taken_up)":
            sum(bool(re.search(r"\btaken_up\b", text_of(f)))
                for f in under("harness/rows/", CPP) + under("harness/python/", ".py")),
        # The environment itself, and what asks of two whether they are one machine: in C++ and in Python.
        "files that list what changes on one machine":
            sum('"memory_available_bytes"' in text_of(f)
                for f in under("harness/", CPP + (".py",)) + under("plots/", ".py")),
        # The one reader, and the recorder of other programs' rows.
        "files of the package that know the version of a row":
            sum("schema_version" in text_of(f) for f in under("harness/python/", ".py")),
        "files a number of a pass is in (planning_seconds)":
            sum(bool(re.search(r"\bplanning_seconds\b", text_of(f))) for f in under("harness/", CPP)),
        # A method reports it, so that the view it reports by is the third.
        "files a number of a pass is in (state_bytes)":
            sum(bool(re.search(r"\bstate_bytes\b", text_of(f))) for f in under("harness/", CPP)),
        # Its module besides, which does not name it.
        "files a command of the package is in (merge)":
            sum(bool(re.search(r'"merge"|\bcommand_merge\b', text_of(f))) for f in under("harness/", CPP + (".py",))),
        "files that the package and plots write in place":
            sum(len(WRITES_IN_PLACE.findall(text_of(f))) for f in under("harness/python/unmask/", ".py") +
                under("plots/", ".py") if not f.endswith(("rows/files.py", "score/sandbox.py"))),
        "patterns of CMake that a path of the checkout is part of":
            sum(len(PATTERN_OF_A_PATH.findall(text_of(f))) for f in everything
                if f.endswith(("CMakeLists.txt", ".cmake")) and not f.endswith("CheckKernelBudget.cmake")),
        "claims that do not hold and have no control (results/tiny)":
            sum(text_of(f).count("* No control\n") for f in under("results/tiny/claims/", ".md")),
        # Those with published numbers: their rules are decoded at random settings (tests/goldens/edges_test.py).
        "papers without a decoder of their text":
            sum(f'"{os.path.basename(f)[:-5]}": (' not in text_of("tests/goldens/float64/edges.py")
                for f in under("experiments/published/", ".toml")),
        "lines of README.md": lines(["README.md"]),
        "golden checkpoints and runs, kB": kilobytes(under("tests/goldens/", ".tar.xz")),
        "results, files": len(results),
        "results, kB": kilobytes(results),
        "scores of keys or rows that a method runs uncounted":
            sum(len(re.findall(r"\brun\(op::(?:key_scores|importance|mean_attention|block_mass|roll_out)\b", text_of(f)))
                for f in under("methods/", ".cpp") if "/bench/" not in f and "/kernels/" not in f),
        "lines of methods that name ranks":
            sum(len(NAMES_RANKS.findall(text_of(f))) for f in under("methods/", CPP)),
        "pictures": len([f for f in everything if is_figure(f)]),
    }


def main():
    with open(os.path.join(HERE, "bounds.json"), encoding="utf-8") as file:
        bounds = json.load(file)
    found, wrong = counts(), 0
    if set(found) != set(bounds):
        print(f"bounds.json and counts.py disagree about {sorted(set(found) ^ set(bounds))}")
        return 1
    for name, count in found.items():
        bound, goal = bounds[name]["at most"], bounds[name]["goal"]
        passed = count > bound
        wrong += passed
        print(f"{count:8} {name}; at most {bound}, goal {goal}{'  TOO MANY' if passed else ''}")
    return 1 if wrong and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
