# SPDX-License-Identifier: Apache-2.0
"""What readers rely on in a value that a file holds, as a small schema: a tuple of types, [of each value], or
{of each member}; "name?" may be missing, "*" is every member that is not named."""

from unmask.rows.errors import UserError

TEXT, NUMBER, MAYBE, FLAG = (str,), (int, float), (int, float, type(None)), (bool,)
LARGEST_NUMBER = 1e100  # nothing that is counted or timed comes near, and squares stay finite


def misfit(value, shape, name):
    """Names the first place of a value that is not of a shape; "" where it fits."""
    if isinstance(shape, tuple):
        fits = isinstance(value, shape) and (bool in shape or not isinstance(value, bool))
        if fits and isinstance(value, (int, float)) and not abs(value) <= LARGEST_NUMBER:
            return f"`{name}` is larger than anything that is measured"
        return "" if fits else f"`{name}` is of another type"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"`{name}` is no list"
        return next(filter(None, (misfit(v, shape[0], name) for v in value)), "")
    if not isinstance(value, dict):
        return f"`{name}` is no object"
    named = {key.rstrip("?"): of for key, of in shape.items()}
    lacking = [key for key in shape if key[-1] not in "?*" and key not in value]
    if lacking:
        return f"`{name}.{lacking[0]}` is missing"
    of_each = ((key, named.get(key, named.get("*"))) for key in value)
    return next(filter(None, (misfit(value[k], of, f"{name}.{k}") for k, of in of_each if of)), "")


def fit(value, shape, path, name="the file"):
    """The value, where it is of the shape; else a UserError that names the file and the place in it."""
    problem = misfit(value, shape, name)
    if problem:
        raise UserError(f"{path}: {problem.replace(f'`{name}.', '`').replace(f'`{name}`', name)}")
    return value
