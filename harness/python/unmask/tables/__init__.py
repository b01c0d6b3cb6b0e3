# SPDX-License-Identifier: Apache-2.0
"""Rows side by side: comparisons, pairs of settings, crossover, and tables as a paper arranges them."""
