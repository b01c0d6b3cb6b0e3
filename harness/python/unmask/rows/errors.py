# SPDX-License-Identifier: Apache-2.0
"""Errors with one sentence for the user and the exit code of the program (README, "The program")."""


class UserError(Exception):
    """The input is wrong: the sentence names the file and the key. Exit code 2."""
    code = 2


class EnvironmentFault(UserError):
    """Something that is needed is not here. Exit code 3."""
    code = 3
