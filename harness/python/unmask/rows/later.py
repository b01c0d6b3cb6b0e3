# SPDX-License-Identifier: Apache-2.0
"""Libraries of numbers that are imported when they are first used: the help of a command needs none."""

import importlib


class Later:
    """The module of this name; each of its members is looked up once."""

    def __init__(self, name):
        self.__name__ = name

    def __getattr__(self, member):
        found = getattr(importlib.import_module(self.__name__), member)
        setattr(self, member, found)
        return found


np, special = Later("numpy"), Later("scipy.special")


def import_all():
    """Imports them now: a command that measures or scores for long ends before it begins if one is not there."""
    for library in (np, special):
        importlib.import_module(library.__name__)
