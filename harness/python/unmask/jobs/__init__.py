# SPDX-License-Identifier: Apache-2.0
"""Runs as a whole: campaigns, job arrays, rows of parts as one file, a run as one file and its repetition."""
