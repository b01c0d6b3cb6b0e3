# SPDX-License-Identifier: Apache-2.0
"""What ./dev and CMake do on machines that are not the developer's: odd paths, half a toolchain, no home, an
interrupted set-up. Nothing is compiled; what takes long is a stand-in (tree.py)."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import tree
from tree import ODD, ROOT, stand_in, variables


def run(words, **how):
    return subprocess.run(words, capture_output=True, text=True, timeout=500, check=False,
                          stdin=subprocess.DEVNULL, **how)


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = os.path.realpath(scratch.name)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)


class Configure(Folder):
    def configure(self, source, build, *options, **more):
        done = run(["cmake", "-S", source, "-B", build, "-G", "Ninja", *options], env=variables(**more))
        said = " ".join((done.stdout + done.stderr).split())
        return done.returncode, said if done.returncode == 0 else said[-3000:]

    def objects(self, build):
        listed = run(["ninja", "-C", build, "-t", "targets", "all"])
        return sorted(line.split(": ")[0] for line in listed.stdout.splitlines() if ".o: " in line)

    def test_a_path_is_data(self):
        """The same objects below a folder with every odd sign as below a plain one; and a ccache that does not work,
        as of a user without a home, is named and left out."""
        options = ("-DUNMASK_CUDA=OFF", "-DUNMASK_CCACHE=" + stand_in(self.path("ccache"),
                   "echo 'ccache: error: Failed to create directory' >&2; exit 1"))
        plain = tree.copy(self.path("plain"), without=("results/", "experiments/models/", "tests/goldens/models.tar",
                                                       "tests/goldens/runs.tar"))
        odd = self.path(ODD)
        os.rename(plain, odd)  # one copy serves both
        code, said = self.configure(odd, os.path.join(odd, "build/x y"), *options)
        self.assertEqual(code, 0, said)
        self.assertIn("ccache is not used, it does not work here: ccache: error: Failed to create", said)
        with open(os.path.join(odd, "build/x y/build.ninja"), encoding="utf-8") as file:
            self.assertNotIn(self.path("ccache"), file.read())
        found = self.objects(os.path.join(odd, "build/x y"))
        os.rename(odd, plain)
        code, said = self.configure(plain, os.path.join(plain, "build/x"), *options)
        self.assertEqual(code, 0, said)
        expected = self.objects(os.path.join(plain, "build/x"))
        self.assertGreater(len(expected), 300)
        self.assertEqual(found, expected)

    def test_every_generator_keeps_names_of_the_folder_out_of_cuda_objects(self):
        """The compiler of nvcc's host code reads the file of options wherever the generator starts it; a name that
        nvcc would split is not handed on, and that is said."""
        with open(self.path("CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(f"""cmake_minimum_required(VERSION 3.25)
project(maps NONE)
add_library(unmask_flags INTERFACE)
set(UNMASK_SANITIZE ON)
include("{ROOT}/cmake/UnmaskHardening.cmake")
get_target_property(found unmask_flags INTERFACE_COMPILE_OPTIONS)
message(STATUS "${{found}}")
""")
        for generator, build, expected in (
                ("Ninja", "b b", "-Xcompiler=@generated/prefix-maps>"),
                ("Unix Makefiles", "m", f"-Xcompiler=@{self.path('m')}/generated/prefix-maps>"),
                ("Unix Makefiles", "m m", "Objects of CUDA code keep names of this folder")):
            if generator != "Ninja" and shutil.which("make") is None:
                continue
            done = run(["cmake", "-S", self.folder, "-B", self.path(build), "-G", generator])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(expected, done.stdout)
            self.assertEqual("-Xcompiler" in done.stdout, "keep names" not in done.stdout)
            with open(self.path(build, "generated/prefix-maps"), encoding="utf-8") as file:
                self.assertIn(f"-ffile-prefix-map={self.folder}/=", file.read().replace("\\", ""))

    def test_a_broken_nvcc_is_an_error_and_an_absent_one_is_not(self):
        """First there is none, then one whose compiler is missing: the second call has to look again."""
        source = tree.copy(self.path("source"), without=("results/", "tests/", "experiments/"))
        small = ("-DUNMASK_BUILD_TESTS=OFF", "-DUNMASK_BUILD_BENCH=OFF")
        places = [p for p in os.environ["PATH"].split(":") if not os.path.exists(os.path.join(p, "nvcc"))]
        bare = {"PATH": ":".join(places)}
        code, said = self.configure(source, self.path("b"), *small, **bare)
        self.assertEqual(code, 0, said)
        self.assertIn("CPU only (no nvcc found", said)
        nvcc = stand_in(self.path("cuda/bin/nvcc"), "echo 'nvcc fatal: unsupported GNU version' >&2; exit 1")
        for more in ({"CUDACXX": nvcc}, {"PATH": f"{os.path.dirname(nvcc)}:{bare['PATH']}"},
                     {"CUDA_PATH": self.path("cuda"), **bare}):
            code, said = self.configure(source, self.path("b"), *small, "-DCMAKE_CUDA_COMPILER=NOTFOUND", **more)
            self.assertEqual(code, 1, said)
            self.assertIn("unsupported GNU version", said)
            self.assertIn("or say -DUNMASK_CUDA=OFF", said)
        code, said = self.configure(source, self.path("b"), *small, "-DUNMASK_CUDA=OFF", CUDACXX=nvcc)
        self.assertEqual(code, 0, said)
        self.assertIn("CPU only (UNMASK_CUDA=OFF)", said)


class Commit(Folder):
    def asked(self, git):
        """What a build writes of its commit where git is these lines of sh."""
        with open(self.path("in"), "w", encoding="utf-8") as file:
            file.write("@GIT_COMMIT@|@GIT_DIRTY@|@GIT_UNKNOWN@")
        done = run(["cmake", "-DGIT_EXECUTABLE=" + stand_in(self.path("git"), git), "-DSOURCE=" + self.folder,
                    "-DINPUT=" + self.path("in"), "-DOUTPUT=" + self.path("out"), "-P",
                    os.path.join(ROOT, "cmake/BuildInfo.cmake")])
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("out"), encoding="utf-8") as file:
            commit, dirty, unknown = file.read().split("|")
        self.assertEqual("name no commit" in done.stdout, commit == "unknown", done.stdout)
        return commit, dirty, unknown.strip()

    def test_an_unknown_commit_says_why(self):
        commit = "a" * 40
        top = f"case $3 in rev-parse) printf '\\n{commit}\\n';; *) "
        self.assertEqual(self.asked(top + ";; esac"), (commit, "false", ""))
        self.assertEqual(self.asked(top + "echo ' M dev';; esac"), (commit, "true", ""))
        self.assertEqual(self.asked(top + "echo 'fatal: index file corrupt' >&2; exit 128;; esac"),
                         ("unknown", "false", "git said: fatal: index file corrupt"))
        refused = self.asked("echo \"fatal: detected dubious ownership in repository at '/x'\" >&2; exit 128")
        self.assertEqual(refused[:2], ("unknown", "false"))
        self.assertIn("git refuses a checkout of another owner", refused[2])
        self.assertEqual(self.asked("echo 'fatal: not a git repository (or any of the parents)' >&2; exit 128"),
                         ("unknown", "false", "the sources are no git checkout"))
        self.assertEqual(self.asked(f"printf 'below/\\n{commit}\\n'"),
                         ("unknown", "false", "the sources are not the top of a git checkout"))


class Dev(Folder):
    """./dev by itself in a folder, with a stand-in for cmake."""

    def checkout(self, name, cmake=":"):
        place = self.path(name)
        for part in ("cmake", "harness/python"):
            os.makedirs(os.path.join(place, part))
        shutil.copy(os.path.join(ROOT, "dev"), place)
        shutil.copy(os.path.join(ROOT, "cmake/apt-packages.txt"), os.path.join(place, "cmake"))
        with open(os.path.join(place, "harness/python/requirements.txt"), "w", encoding="utf-8"):
            pass
        stand_in(self.path("bin/cmake"), f"echo \"$@\" >>'{self.folder}/called'\n{cmake}")
        return place

    def dev(self, place, *words, **more):
        done = run([os.path.join(place, "dev"), *words], env=variables(
            PATH=f"{self.path('bin')}:{os.environ['PATH']}", **more))
        return done.returncode, done.stdout + done.stderr

    def test_it_says_what_cmake_says_of_cuda(self):
        place = self.checkout("a b", "echo '-- CUDA 13.0 for 80 90a-real; NVTX ON'; echo '-- Found ICU'")
        code, said = self.dev(place, "build", "unmask")
        self.assertEqual(code, 0, said)
        self.assertIn("dev: CUDA 13.0 for 80 90a-real; NVTX ON\n", said)
        self.assertNotIn("dev: Found ICU", said)
        stand_in(self.path("bin/cmake"), "echo 'nvcc fatal: no such compiler'; exit 1")
        code, said = self.dev(place, "build", "unmask")
        self.assertEqual(code, 1, said)
        self.assertIn("nvcc fatal: no such compiler", said)

    def test_a_build_folder_that_moved_is_configured_afresh(self):
        place = self.checkout("here")
        os.makedirs(os.path.join(place, "build/dev"))
        cache = os.path.join(place, "build/dev/CMakeCache.txt")
        for home, fresh in ((place, False), (self.path("there"), True)):
            with open(cache, "w", encoding="utf-8") as file:
                file.write(f"CMAKE_HOME_DIRECTORY:INTERNAL={home}\n")
            code, said = self.dev(place, "build", "unmask")
            self.assertEqual(code, 0, said)
            self.assertEqual(f"was made for {home}" in said, fresh, said)
            with open(self.path("called"), encoding="utf-8") as file:
                self.assertEqual("--fresh" in file.read(), fresh)
            os.remove(self.path("called"))

    def test_the_tests_of_one_method(self):
        place = self.checkout("here")
        stand_in(os.path.join(place, "build/dev/bin/methods_test"),
                 'case "$*" in *list*) echo "Running main()" ;; esac\n'
                 'case "$*" in *list*zig*) ;; *list*) echo "  x" ;; *) echo "ran $*"; exit 5 ;; esac')
        stand_in(os.path.join(place, "build/dev/bin/unmask"),
                 r'printf "methods\n  zag  a rule\n  zag_more  not zag\n  old_zag  nor this\n  zog  zag\n"')
        for name, tests in (("zag", "*zag*-*zag_more*:*old_zag*"), ("zag_more", "*zag_more*"), ("zog", "*zog*")):
            code, said = self.dev(place, "test", "--method", name)
            self.assertEqual(code, 5, said)
            self.assertIn("building unmask methods_test", said)
            self.assertIn(f"ran --gtest_filter={tests}\n", said)
        for words, sentence in ((["zig"], "no test has zig in its name"), ([], "needs the name of a method")):
            code, said = self.dev(place, "test", "--method", *words)
            self.assertEqual(code, 2, said)
            self.assertIn(sentence, said)

    def test_a_place_that_cannot_serve_is_refused_with_the_reason(self):
        for name, words in (("a:b", "holds one of"), ("a;b", "holds one of"), ('a"b', "holds one of"),
                            ("a$b", "holds one of"), ("a#b", "holds one of"),
                            ("a[b", "a bracket"), ("a]b[", "a bracket")):
            code, said = self.dev(self.checkout(name), "build")
            self.assertEqual(code, 3, (name, said))
            self.assertIn(words, said)
            self.assertFalse(os.path.exists(self.path("called")))
        code, said = self.dev(self.checkout(ODD), "build", TMPDIR="/nowhere/job")
        self.assertEqual(code, 0, said)
        self.assertIn("TMPDIR names /nowhere/job, which is no folder here", said)

    def test_a_venv_that_was_interrupted_or_is_of_another_python_is_made_anew(self):
        place = self.checkout("v v")
        whole = os.path.join(place, ".venv/bin/python")
        os.makedirs(os.path.dirname(whole))
        os.symlink("/usr/bin/python3", whole)  # what is there 1.2 s after the start
        code, said = self.dev(place, "setup", "--python", PYTHONHOME="/nowhere")
        self.assertEqual(code, 0, said)
        self.assertIn("preparing .venv", said)
        self.assertEqual(run([whole, "-m", "pip", "--version"]).returncode, 0)
        found = [n for n in os.listdir(os.path.join(place, ".venv/lib")) if n.startswith("python3")]
        self.assertTrue(os.path.isfile(os.path.join(place, ".venv/lib", found[0], "site-packages/unmask.pth")))
        code, said = self.dev(place, "setup", "--python")
        self.assertEqual((code, said), (0, ""))
        # The system's Python went on to another version: packages of the old one are not found.
        os.rename(os.path.join(place, ".venv/lib", found[0]), os.path.join(place, ".venv/lib/python3.4"))
        with open(os.path.join(place, ".venv/prepared"), "r+", encoding="utf-8") as note:
            note.write("# Python 3.4")
        code, said = self.dev(place, "setup", "--python")
        self.assertEqual(code, 0, said)
        self.assertEqual(os.listdir(os.path.join(place, ".venv/lib")), found)
        self.assertEqual(run([whole, "-m", "pip", "--version"]).returncode, 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
