#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tests/plots/run.sh test_NAME.py [ARGUMENT]: with the Python that `unmask report` would take, and what the tests of the
# package share. 77: NOT RUN.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$here/../..
python=${UNMASK_PYTHON:-}
if [ -z "$python" ]; then
  python=python3
  if [ -x "$root/.venv/bin/python" ]; then python=$root/.venv/bin/python; fi
fi
if ! command -v "$python" >/dev/null; then
  echo "NOT RUN: needs python3"
  exit 77
fi
exec env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/harness/python:$root/tests/harness/python${PYTHONPATH:+:$PYTHONPATH}" "$python" "$here/$1" ${2:+"$2"}
