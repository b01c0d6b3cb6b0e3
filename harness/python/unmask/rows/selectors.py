# SPDX-License-Identifier: Apache-2.0
"""Rows picked by what they were measured with: a layout's selectors, and those of claims."""

from dataclasses import dataclass, field

from unmask.rows.errors import UserError
from unmask.rows.names import value_text
from unmask.rows.rows import as_number, check_key, is_of_any_seed, setting


@dataclass
class Selector:
    """Rows by their settings, any of the values of each key; and the metric that is looked at. A row of any seed is met
    under every seed."""
    keys: dict = field(default_factory=dict)
    metric: str = ""

    def matches(self, row):
        for key, wanted in self.keys.items():
            if key == "seed" and is_of_any_seed(row):
                continue
            found = setting(row, key)
            if found is None:
                return False
            number = as_number(found)
            if not any(text == found or (number is not None and as_number(text) == number)
                       for text in wanted):
                return False
        return True

    def text(self):
        return ", ".join(f"{key} = {'|'.join(self.keys[key])}" for key in sorted(self.keys)) or "any row"


def read_selector(table, key, where, name, metric=""):
    """Reads the selector that a table holds under a key: keys of rows with one value or several, and
    `metric`; empty where there is none. UserErrors begin with `where` and `name`."""
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise UserError(f"{where}: {name} has `{key}`, which must be a table")
    selector = Selector(metric=found.get("metric", metric))
    if not isinstance(selector.metric, str):
        raise UserError(f"{where}: {name} has `{key}.metric`, which must be a text")
    for leaf, values in _leaves(found):
        if leaf == "metric":
            continue
        check_key(leaf, f"{where}: {name}, `{key}`")
        values = values if isinstance(values, list) else [values]
        if not values or not all(isinstance(v, (str, bool, int, float)) for v in values):
            raise UserError(f"{where}: {name} has `{key}.{leaf}`, which must be a value or a list of "
                            "values")
        selector.keys[leaf] = [value_text(v) for v in values]
    return selector


def _leaves(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
