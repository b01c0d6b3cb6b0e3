# SPDX-License-Identifier: Apache-2.0
"""What rows are: the one reader, their values with intervals, the runs that they came from, and what every
command needs. The ground floor: no other room is imported here."""
