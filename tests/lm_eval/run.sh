#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The agreement test with the Python that has lm-eval, or with any, which then skips it.
cd "$(dirname "$0")" || exit 1
python=../../.venv/bin/python
[ -x "$python" ] || python=python3
exec "$python" -B agreement.py
