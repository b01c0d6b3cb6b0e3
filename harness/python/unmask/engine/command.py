# SPDX-License-Identifier: Apache-2.0
"""Runs a command of the program with rules in Python: run FILE.toml --rule RULE.py."""

from unmask.engine import main  # noqa: F401
