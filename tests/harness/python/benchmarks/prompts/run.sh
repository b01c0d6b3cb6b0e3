#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tests/harness/python/benchmarks/prompts/run.sh test_NAME.py: with the Python that the program would take. 77: NOT RUN.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$here/../../../../..
python=${UNMASK_PYTHON:-}
if [ -z "$python" ]; then
  python=python3
  if [ -x "$root/.venv/bin/python" ]; then python=$root/.venv/bin/python; fi
fi
if ! "$python" -c 'import importlib.metadata; importlib.metadata.version("lm_eval")' 2>/dev/null; then
  echo "NOT RUN: needs lm-eval 0.4.8 (./dev setup)"
  exit 77
fi
exec env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/harness/python:$here" "$python" "$here/$1"
