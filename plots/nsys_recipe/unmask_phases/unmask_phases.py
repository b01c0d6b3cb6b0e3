# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""A recipe for Nsight Systems: kernels by phase of many reports, as plots/nsight.py reads one.

    PYTHONPATH=plots/nsys_recipe nsys recipe unmask_phases --input runs/

It is laid out like the recipes that nsys brings along (class Recipe, a mapper for each report, a
reducer over all). It has not been run: no nsys was on the machine that it was written on; what it
computes is tested without nsys (tests/plots/test_nsight.py)."""

import csv
import io
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
import nsight  # noqa: E402
from unmask.rows.files import replace_file  # noqa: E402

FIELDS = ["report", "phase", "kernel", "launches", "seconds", "shortest", "longest"]


def rows_of_report(report):
    """Kernel rows of a .nsys-rep (exported first) or of an exported SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        database = report
        if not report.endswith(".sqlite"):
            database = os.path.join(folder, "report.sqlite")
            subprocess.run(["nsys", "export", "--type", "sqlite", "--output", database, report],
                           check=True, capture_output=True)
        return [{"report": os.path.basename(report), **row}
                for row in nsight.kernel_rows(nsight.read_nsys(database))]


def write_rows(rows, path):
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS)
    writer.writeheader()
    writer.writerows(rows)
    replace_file(path, out.getvalue())


try:
    from nsys_recipe import log, recipe
    from nsys_recipe.lib.args import Option
except ImportError:  # outside nsys: the functions above serve by themselves
    recipe = None

if recipe is not None:
    class UnmaskPhases(recipe.Recipe):
        @staticmethod
        def _mapper_func(report_path, parsed_args):
            del parsed_args
            return rows_of_report(report_path)

        @log.time("Mapper")
        def mapper_func(self, context):
            return context.wait(context.map(self._mapper_func, self._parsed_args.input,
                                            parsed_args=self._parsed_args))

        @log.time("Reducer")
        def reducer_func(self, mapper_res):
            write_rows([row for rows in mapper_res for row in rows or []],
                       self.add_output_file("phases.csv"))

        def run(self, context):
            super().run(context)
            self.reducer_func(self.mapper_func(context))

        @classmethod
        def get_argument_parser(cls):
            parser = super().get_argument_parser()
            parser.add_recipe_argument(Option.INPUT, required=True)
            return parser
