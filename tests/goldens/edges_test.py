# SPDX-License-Identifier: Apache-2.0
"""Random edge settings of five methods, decoded by the rules of their papers in float64 (float64/papers.py): the
program decodes each forward by forward alike. $UNMASK_EDGES says how many settings of each (default 200),
$UNMASK_EDGES_SEED what they are drawn from (default 0). 77: NOT RUN.

    edges_test.py UNMASK_GOLDEN"""

import os
import subprocess
import sys
import tempfile

COUNT, SEED = os.environ.get("UNMASK_EDGES", "200"), os.environ.get("UNMASK_EDGES_SEED", "0")
MAKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "float64", "edges.py")
METHODS, NEAR = 5, 0.04  # at most this share is too near a tie to be compared


def main(program):
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("NOT RUN: needs numpy")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-B", MAKER, "--out", folder, "--count", COUNT, "--seed", SEED], check=True)
        said = subprocess.run([program, folder, "--quiet", "--device", "cpu"], capture_output=True, text=True)
    print("\n".join(said.stdout.splitlines()[-40:]), said.stderr)
    passed = [line for line in said.stdout.splitlines() if " passed, " in line][-1:]
    if said.returncode != 0 or not passed:
        return 1
    return 0 if int(passed[0].split()[0]) >= (1 - NEAR) * METHODS * int(COUNT) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
