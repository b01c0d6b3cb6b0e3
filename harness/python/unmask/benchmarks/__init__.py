# SPDX-License-Identifier: Apache-2.0
"""Published benchmarks: what they ask, how their own libraries score an answer, chat templates."""
