# SPDX-License-Identifier: Apache-2.0
"""Which rows of a paper's layout may be one number: of one model, one kind of score, and the tasks that every
number beside it is of too."""

from unmask.rows import apart, estimates
from unmask.rows.errors import UserError
from unmask.rows.rows import grouped


def models_named(rows):
    return ", ".join(dict.fromkeys(row["model"]["name"] for row in rows))


class Pooling:
    """The rows of each cell, and what has to be said of them. `lines`: [(name, group, rows)]; a number is
    compared with those of its metric in lines of its group."""

    def __init__(self, layout, lines, across_of):
        self.layout, self.across_of, self.notes = layout, across_of, []
        self.shared = {}
        cells = [(column, value, name, group, self._matching(column, value, rows))
                 for name, group, rows in lines for column in layout.columns
                 for value in dict.fromkeys(map(across_of, rows))]
        for column, _, name, _, rows in cells:
            self._check_models(column, name, rows)
        for beside in grouped(cells, lambda cell: self._beside(cell[0], cell[1], cell[3])):
            self._share(beside)

    def _matching(self, column, value, rows):
        metric = "tokens_per_second" if column.metric == "speedup" else column.metric
        return [row for row in rows if column.where.matches(row) and self.across_of(row) == value and
                estimates.value(row, metric) is not None]

    def _beside(self, column, value, group):
        """Numbers with the same of this stand beside each other."""
        return (column.metric, tuple(column.where.keys.get("workload", ())),
                value if self.layout.across == "workload" else "", group)

    def _check_models(self, column, name, rows):
        if self.layout.pool != "model" and len({row["model"]["name"] for row in rows}) > 1:
            raise UserError(f"{self.layout.id or '[layout]'}: '{name}', column '{column.header}' would be a mean over "
                            f"several models ({models_named(rows)}): add \"model\" to `rows` of [layout], or say "
                            "pool = \"model\"")

    def _share(self, cells):
        """Finds the tasks that numbers beside each other are all of, and says which if some have more."""
        column, _, _, group, _ = cells[0]
        several = [rows for *_, rows in cells if len({row["workload"]["family"] for row in rows}) > 1]
        if not several:
            return  # every number is of one task, which its line or its column names
        key = self._beside(column, cells[0][1], group)
        answers = [[row for row in rows if not apart.is_likelihood(row)] for rows in several]
        if column.metric == "score" and any(answers):
            left = dict.fromkeys(row["workload"]["family"] for rows in several for row in rows
                                 if apart.is_likelihood(row))
            if left:
                self._note(f"A likelihood of text is in no mean with right answers: {apart.tasks_text(left)} left out.")
        else:
            answers = several
        sets = {}
        for _, _, name, _, rows in cells:
            tasks = [row["workload"]["family"] for row in rows if answers is several or not apart.is_likelihood(row)]
            if tasks:
                sets.setdefault(frozenset(tasks), []).append(name)
        every = dict.fromkeys(row["workload"]["family"] for rows in answers for row in rows)
        shared = set(every)
        for tasks, names in sorted(sets.items(), key=lambda item: (-len(item[0]), sorted(item[0]))):
            if shared & tasks:
                shared &= tasks
            else:
                self._note(f"Left out of the means, which are over other tasks: {', '.join(dict.fromkeys(names))}.")
        self.shared[key] = shared
        if len(shared) < len(every):
            self._note(f"Means over {len(shared)} of {len(every)} tasks that all have: "
                       f"{', '.join(task for task in every if task in shared)}.")

    def _note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def rows_of(self, column, value, group, rows):
        """The rows whose mean a cell shows."""
        rows = [row for row in rows if column.where.matches(row) and self.across_of(row) == value]
        shared = self.shared.get(self._beside(column, value, group))
        return rows if shared is None else [row for row in rows if row["workload"]["family"] in shared]
